"""Read and write `POST /v1/messages`: one JSON body, or SSE events that open, fill and close numbered content blocks.

Clients read a call's input from `input_json_delta` alone, want its block opened with an empty input, the block before
it closed, and indices without gaps. The surface carries no output schema, so it has no constrained form.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from toolmend.model import (
    CallPart,
    EndPart,
    ErrorPart,
    Event,
    Finish,
    Json,
    JsonObject,
    Request,
    TextPart,
    ThinkingPart,
    ToolChoice,
    Turn,
)
from toolmend.surfaces.requests import ToolSurface
from toolmend.surfaces.rewriting import CallPlan, Passed, Planned, Remainder, calls_in, has_error, seed_of, whole_body
from toolmend.surfaces.surface import Frame, Framing
from toolmend.surfaces.wire import (
    digest,
    error_of,
    event,
    listed,
    load_object,
    number_of,
    object_of,
    objects_of,
    read_event,
    same,
    text_of,
    without,
)

FINISHES: Final[dict[str, Finish]] = {"tool_use": "tool_calls", "max_tokens": "length"}


def _finish(reason: Json) -> Finish | None:
    return FINISHES.get(reason, "stop") if isinstance(reason, str) and reason else None


def _end(reason: Json, usage: Json) -> list[Event]:
    finish, tokens = _finish(reason), number_of(object_of(usage).get("output_tokens"))
    return [EndPart(finish, tokens)] if finish or tokens is not None else []


def _block_events(block: JsonObject, place: int | None) -> list[Event]:
    """Read a block: a whole one, or (with its place) one that a stream opens."""
    kind = block.get("type")
    if kind == "tool_use":
        name, given = text_of(block.get("name")), block.get("input", {})
        if place is None:
            return [CallPart(None, text_of(block.get("id")), name, given, whole=True)]
        return [CallPart(str(place), text_of(block.get("id")), name, given or "")]
    if kind == "text" and (text := text_of(block.get("text"))):
        return [TextPart(text)]
    if kind == "thinking" and (thinking := text_of(block.get("thinking"))):
        return [ThinkingPart(thinking)]
    return []


def _reason(came: Json, turn: Turn) -> Json:
    """Return the stop reason that came, where it fits the turn. Calls show even at the token limit."""
    if turn.calls:
        return "tool_use"
    if turn.finish == "length":
        return "max_tokens"
    return came if isinstance(came, str) and _finish(came) == "stop" else "end_turn"


def _call_block(planned: Planned, given: Json) -> JsonObject:
    """Write a call's block, with the unknown members of the one that came."""
    name: JsonObject = {"name": planned.call.name} if planned.call.name else {}
    return {"type": "tool_use"} | planned.entry | {"id": planned.id} | name | {"input": given}


@dataclass(slots=True)
class Sent:
    """Hold what the client has got of a stream: which block is open, and the index of the next one."""

    passed: Passed = field(default_factory=Passed)
    started: bool = False
    open: int | None = None
    open_kind: str = ""
    next_index: int = 0

    def note(self, document: JsonObject) -> None:
        """Take in an event that goes to the client."""
        kind, index = document.get("type"), number_of(document.get("index"))
        if kind == "message_start":
            self.started = True
        elif kind == "content_block_start" and index is not None:
            self.open, self.open_kind = index, text_of(object_of(document.get("content_block")).get("type"))
            self.next_index = max(self.next_index, index + 1)
        elif kind == "content_block_stop" and index == self.open:
            self.open = None


class AnthropicMessagesCodec:
    """Read the events of one answer, or its one body, and write those that replace what was held."""

    def __init__(self, request: Request, framing: Framing) -> None:
        self._request = request
        self._whole = framing == "json"
        self._sent = Sent()
        self._kinds: dict[int, str] = {}

    def read(self, raw: bytes) -> Frame:
        """Decode one event, or the body. Raises DecodeError when it is no JSON object."""
        data = raw if self._whole else read_event(raw)
        if data is None:
            return Frame(raw, None, ())
        document = load_object(data)
        error = error_of(document)
        if error is not None:
            return Frame(raw, document, (ErrorPart(error),))
        return Frame(raw, document, tuple(self._body_events(document) if self._whole else self._events(document)))

    def _body_events(self, document: JsonObject) -> list[Event]:
        events = [event for block in objects_of(document.get("content")) for event in _block_events(block, None)]
        return events + _end(document.get("stop_reason"), document.get("usage"))

    def _events(self, document: JsonObject) -> list[Event]:
        index = number_of(document.get("index")) or 0
        match document.get("type"):
            case "content_block_start":
                block = object_of(document.get("content_block"))
                self._kinds[index] = text_of(block.get("type"))
                return _block_events(block, index)
            case "content_block_delta":
                return self._delta_events(object_of(document.get("delta")), index)
            case "message_delta":
                return _end(object_of(document.get("delta")).get("stop_reason"), document.get("usage"))
        return []

    def _delta_events(self, delta: JsonObject, index: int) -> list[Event]:
        match delta.get("type"):
            case "text_delta":
                return [TextPart(text_of(delta.get("text")))]
            case "thinking_delta":
                return [ThinkingPart(text_of(delta.get("thinking")))]
            case "input_json_delta" if self._kinds.get(index) == "tool_use":
                # The server's own tools (web search) stream their input in the same form.
                return [CallPart(str(index), arguments=text_of(delta.get("partial_json")))]
        return []

    def passed(self, frame: Frame) -> None:
        """Note that this frame went to the client as it is."""
        self._sent.passed.note(frame)
        self._sent.note(object_of(frame.document))

    def write(self, turn: Turn, held: Sequence[Frame]) -> list[bytes]:
        """Write the events that complete the turn, or the whole body."""
        seed = seed_of(self._request)
        plan = CallPlan(turn, held, self._entries, seed)
        message: JsonObject = {
            "id": f"msg_{digest(seed, turn.text)[:24]}",
            "type": "message",
            "role": "assistant",
            "model": self._request.model,
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": {"input_tokens": 0, "output_tokens": turn.tokens or 0},
        }
        if self._whole:
            return [_body(turn, held, plan, message)]
        sent = replace(self._sent)
        return Blocks(turn, plan, sent, message).write(held)

    def _entries(self, frame: Frame) -> list[JsonObject]:
        document = object_of(frame.document)
        if self._whole:
            return [block for block in objects_of(document.get("content")) if block.get("type") == "tool_use"]
        return [object_of(document.get("content_block")) for _ in calls_in(frame)]


def _body(turn: Turn, held: Sequence[Frame], plan: CallPlan, made: JsonObject) -> bytes:
    """Write the whole body: what came with its blocks patched, or a new one in place of an error."""
    came = next((frame for frame in held if "content" in object_of(frame.document)), None)
    document = object_of(came.document) if came else made
    texts = {"text": Remainder(turn.text, 0), "thinking": Remainder(turn.thinking, 0)}
    received = iter(plan.opened_by(held.index(came)) if came else [])
    blocks: list[Json] = []
    for block in objects_of(document.get("content")):
        kind = text_of(block.get("type"))
        if kind == "tool_use":
            blocks += [_call_block(call, call.call.arguments) for call in plan.until([next(received)])]
        elif kind not in texts:
            blocks.append(block)
        elif piece := texts[kind].take(text_of(block.get(kind))):
            blocks.append({**block, kind: piece})
    blocks += [{"type": kind, kind: text} for kind in ("thinking", "text") if (text := texts[kind].rest())]
    blocks += [_call_block(call, call.call.arguments) for call in plan.rest()]
    content = listed(blocks, document.get("content"))
    reason = _reason(document.get("stop_reason"), turn)
    return whole_body({**document, "content": content, "stop_reason": reason}, came)


class Blocks:
    """Write the events in the place of the held ones."""

    def __init__(self, turn: Turn, plan: CallPlan, sent: Sent, message: JsonObject) -> None:
        self._turn = turn
        self._plan = plan
        self._sent = sent
        self._message = message
        self._texts = {
            "text": Remainder(turn.text, sent.passed.text),
            "thinking": Remainder(turn.thinking, sent.passed.thinking),
        }
        # Where the blocks of held events stand now; None: not written (yet).
        self._index: dict[int, int | None] = {} if sent.open is None else {sent.open: sent.open}
        self._waiting: dict[int, Frame] = {}
        self._ended = False
        self._stop: bytes = event({"type": "message_stop"}, "message_stop")
        self._out: list[bytes] = []

    def write(self, held: Sequence[Frame]) -> list[bytes]:
        """Return the events."""
        for place, frame in enumerate(held):
            if not has_error(frame):
                self._frame(frame, place)
        if not self._ended:
            self._rest()
            usage: JsonObject = {"output_tokens": self._turn.tokens or 0}
            delta: JsonObject = {"stop_reason": _reason(None, self._turn), "stop_sequence": None}
            self._put({"type": "message_delta", "delta": delta, "usage": usage})
        return [*self._out, self._stop]

    def _frame(self, frame: Frame, place: int) -> None:
        document = object_of(frame.document)
        index = number_of(document.get("index")) or 0
        match document.get("type"):
            case "content_block_start":
                self._opening(frame, document, index, place)
            case "content_block_delta":
                self._delta(frame, document, index)
            case "content_block_stop":
                if self._index.get(index) is not None and self._index[index] == self._sent.open:
                    self._put({**document, "index": self._index[index]}, frame)
            case "message_delta":
                self._rest()
                delta = object_of(document.get("delta"))
                delta = {**delta, "stop_reason": _reason(delta.get("stop_reason"), self._turn)}
                self._put({**document, "delta": delta}, frame)
                self._ended = True
            case "message_stop":
                self._stop = frame.raw
            case _:
                self._sent.note(document)
                self._out.append(frame.raw)

    def _opening(self, frame: Frame, document: JsonObject, index: int, place: int) -> None:
        block = object_of(document.get("content_block"))
        kind = text_of(block.get("type"))
        self._index[index] = None
        if kind == "tool_use":
            self._calls(self._plan.until(self._plan.opened_by(place)))
        elif kind not in self._texts:
            self._index[index] = self._open(block, frame, document)
        else:
            self._waiting[index] = frame
            if piece := text_of(block.get(kind)):
                self._open_waiting(index, {**block, kind: self._texts[kind].take(piece)})

    def _delta(self, frame: Frame, document: JsonObject, index: int) -> None:
        delta = object_of(document.get("delta"))
        kind = text_of(delta.get("type")).removesuffix("_delta")
        if kind in self._texts:
            piece = self._texts[kind].take(text_of(delta.get(kind)))
            if not piece:
                return
            delta = {**delta, kind: piece}
        if kind != "input_json":
            self._open_waiting(index, None)
        now = self._index.get(index)
        if now is None or now != self._sent.open:
            if kind not in self._texts:
                return
            # Its block was closed for a call: the server had left it open.
            now = self._index[index] = self._open({"type": kind, kind: ""})
        self._put({**document, "index": now, "delta": delta}, frame)

    def _open_waiting(self, index: int, block: JsonObject | None) -> None:
        """Open a text block now that something stands in it: a block of a call written as text is never opened."""
        frame = self._waiting.pop(index, None)
        if frame is not None:
            document = object_of(frame.document)
            opened = object_of(document.get("content_block")) if block is None else block
            self._index[index] = self._open(opened, frame, document)

    def _open(self, block: JsonObject, frame: Frame | None = None, document: JsonObject | None = None) -> int:
        self._start()
        self._close()
        index = self._sent.next_index
        opening = document or {"type": "content_block_start"}
        self._put({**opening, "index": index, "content_block": block}, frame)
        return index

    def _start(self) -> None:
        if not self._sent.started:
            usage: JsonObject = {"input_tokens": 0, "output_tokens": 0}
            self._put({"type": "message_start", "message": {**self._message, "usage": usage}})

    def _close(self) -> None:
        if self._sent.open is not None:
            self._put({"type": "content_block_stop", "index": self._sent.open})

    def _calls(self, calls: Sequence[Planned]) -> None:
        for planned in calls:
            index = self._open(_call_block(planned, {}))
            self._fill(index, {"type": "input_json_delta", "partial_json": planned.arguments_text})
            self._close()

    def _fill(self, index: int, delta: JsonObject) -> None:
        self._put({"type": "content_block_delta", "index": index, "delta": delta})

    def _rest(self) -> None:
        """Write what no received block had a place for, and close what is open."""
        self._start()
        for kind in ("thinking", "text"):
            if text := self._texts[kind].rest():
                goes_on = self._sent.open is not None and self._sent.open_kind == kind
                index = self._sent.open if goes_on else None
                index = self._open({"type": kind, kind: ""}) if index is None else index
                self._fill(index, {"type": f"{kind}_delta", kind: text})
        self._close()
        self._calls(self._plan.rest())

    def _put(self, document: JsonObject, frame: Frame | None = None) -> None:
        self._sent.note(document)
        unchanged = frame is not None and same(document, frame.document)
        self._out.append(frame.raw if frame and unchanged else event(document, text_of(document.get("type"))))


class AnthropicMessages(ToolSurface):
    """Describe `POST /v1/messages`."""

    name = "anthropic-messages"
    path = "/v1/messages"
    streaming: Framing = "sse"
    stream_type = "text/event-stream"
    tappable = False
    finish_says_calls = True

    def codec(self, request: Request, framing: Framing) -> AnthropicMessagesCodec:
        """Make the codec for one answer."""
        return AnthropicMessagesCodec(request, framing)

    def reads_parallel(self, document: JsonObject) -> bool:
        """Tell whether more than one call is allowed: the flag stands inside the choice here."""
        return object_of(document.get("tool_choice")).get("disable_parallel_tool_use") is not True

    def without_choice(self, document: JsonObject) -> JsonObject:
        """Return a copy without tool_choice, which holds the parallel flag too."""
        return without(document, "tool_choice")

    def with_choice(self, document: JsonObject, choice: ToolChoice) -> JsonObject:
        """Return a copy that asks for this choice; allowed tools are a matter of `with_tools`."""
        value: JsonObject = {"type": {"required": "any", "named": "tool"}.get(choice.mode, choice.mode)}
        value |= {"name": choice.names[0]} if choice.mode == "named" else {}
        value |= {} if choice.parallel else {"disable_parallel_tool_use": True}
        return {**document, "tool_choice": value}

    def constrain(self, document: JsonObject, schema: JsonObject, max_tokens: int) -> JsonObject | None:
        """Return None: the surface cannot carry a schema. Its question goes to another one."""
        return None
