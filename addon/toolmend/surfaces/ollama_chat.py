"""Read and write Ollama's own surface, `POST /api/chat`: one JSON body, or NDJSON lines closed by a `done` line.

Calls arrive whole, several to a line or one, with arguments as objects. `done_reason` never says that there were calls.
"""

from __future__ import annotations

from collections.abc import Sequence
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
    Turn,
)
from toolmend.surfaces.requests import ToolSurface
from toolmend.surfaces.rewriting import CallPlan, Passed, Planned, Remainder, has_error, seed_of, whole_body
from toolmend.surfaces.surface import Frame, Framing
from toolmend.surfaces.wire import (
    cut_member,
    error_of,
    line,
    load_object,
    number_of,
    object_of,
    objects_of,
    same,
    tapped_document,
    text_of,
    token_text,
    without,
)

NO_TIME: Final = "1970-01-01T00:00:00Z"
HEAD: Final = ("model", "created_at", "remote_model", "remote_host")
NO_METRICS: Final[JsonObject] = {
    "total_duration": 0,
    "load_duration": 0,
    "prompt_eval_count": 0,
    "prompt_eval_duration": 0,
    "eval_count": 0,
    "eval_duration": 0,
}


def _call_part(entry: JsonObject) -> CallPart:
    function = object_of(entry.get("function"))
    arguments = function.get("arguments", {})
    return CallPart(None, text_of(entry.get("id")), text_of(function.get("name")), arguments, whole=True)


def _events(document: JsonObject) -> tuple[Event, ...]:
    error = error_of(document)
    if error is not None:
        return (ErrorPart(error),)
    message = object_of(document.get("message"))
    events: list[Event] = []
    if thinking := text_of(message.get("thinking")):
        events.append(ThinkingPart(thinking))
    if text := text_of(message.get("content")):
        events.append(TextPart(text))
    events += [_call_part(entry) for entry in _entries(document)]
    if "done" in document and (document["done"] or document.get("eval_count") is not None):
        events.append(EndPart(_finish(document), number_of(document.get("eval_count"))))
    return tuple(events)


def _finish(document: JsonObject) -> Finish | None:
    if not document.get("done"):
        return None
    return "length" if document.get("done_reason") == "length" else "stop"


def _entries(document: JsonObject) -> list[JsonObject]:
    return objects_of(object_of(document.get("message")).get("tool_calls"))


def _frame_entries(frame: Frame) -> list[JsonObject]:
    return [] if has_error(frame) else _entries(object_of(frame.document))


def _entry(planned: Planned) -> JsonObject:
    """Write a call: as it came where it is unchanged, else with its unknown members kept."""
    function = object_of(planned.entry.get("function"))
    if "index" in function or not planned.entry:
        function = {**function, "index": planned.index}
    if not planned.unchanged:
        function = {**function, "name": planned.call.name, "arguments": planned.call.arguments}
    return {"id": planned.id} | planned.entry | {"id": planned.id, "function": function}


class OllamaChatCodec:
    """Read the lines of one answer, or its one body, and write those that replace what was held."""

    def __init__(self, request: Request, framing: Framing) -> None:
        self._request = request
        self._whole = framing == "json"
        self._passed = Passed()
        self._head: JsonObject = {"model": request.model, "created_at": NO_TIME}

    def read(self, raw: bytes) -> Frame:
        """Decode one line, or the body. Raises DecodeError when it is no JSON object."""
        if not raw.strip():
            return Frame(raw, None, ())
        document = load_object(raw)
        return Frame(raw, document, _events(document))

    def passed(self, frame: Frame) -> None:
        """Note that this frame went to the client as it is."""
        self._passed.note(frame)
        self._note_head(frame)

    def write(self, turn: Turn, held: Sequence[Frame]) -> list[bytes]:
        """Write the lines that complete the turn, or the whole body."""
        for frame in held:
            self._note_head(frame)
        seed = seed_of(self._request)
        plan = CallPlan(turn, held, _frame_entries, seed)
        if self._whole:
            return [self._body(turn, held, plan)]
        return Lines(turn, held, plan, self._passed, self._head).write()

    def _note_head(self, frame: Frame) -> None:
        document = object_of(frame.document)
        if "message" in document:
            self._head = {key: document[key] for key in HEAD if key in document}

    def _body(self, turn: Turn, held: Sequence[Frame], plan: CallPlan) -> bytes:
        """Write the whole body: what came with its message patched, or a new one in place of an error."""
        came = next((frame for frame in held if "message" in object_of(frame.document)), None)
        document = object_of(came.document) if came else _done(self._head, turn)
        message: JsonObject = {**object_of(document.get("message")), "content": turn.text}
        calls: list[Json] = [_entry(planned) for planned in plan.rest()]
        for key, value in (("thinking", turn.thinking), ("tool_calls", calls)):
            message = {**message, key: value} if value else without(message, key)
        return whole_body({**document, "message": message, "done": True, "done_reason": _reason(document, turn)}, came)


def _reason(document: JsonObject, turn: Turn) -> Json:
    """Return the reason that came, where it fits the turn."""
    fits = (document.get("done_reason") == "length") == (turn.finish == "length")
    came = document.get("done_reason")
    return came if fits and came else "length" if turn.finish == "length" else "stop"


def _done(head: JsonObject, turn: Turn) -> JsonObject:
    """Make the line that closes an answer, or a whole body: typed clients want its counts."""
    message: JsonObject = {"role": "assistant", "content": ""}
    return {
        **head,
        "message": message,
        "done": True,
        "done_reason": "stop",
        **NO_METRICS,
        "eval_count": turn.tokens or 0,
    }


class Lines:
    """Write the lines in the place of the held ones."""

    def __init__(self, turn: Turn, held: Sequence[Frame], plan: CallPlan, passed: Passed, head: JsonObject) -> None:
        self._turn = turn
        self._held = held
        self._plan = plan
        self._text = Remainder(turn.text, passed.text)
        self._thinking = Remainder(turn.thinking, passed.thinking)
        self._head = head
        self._closed = False
        self._out: list[bytes] = []

    def write(self) -> list[bytes]:
        """Return the lines."""
        for place, frame in enumerate(self._held):
            document = object_of(frame.document)
            if has_error(frame):
                continue
            if not frame.events:
                self._out.append(frame.raw)
            elif document.get("done"):
                self._close(frame, self._message(document, place))
            else:
                self._content(frame, self._message(document, place))
        if not self._closed:
            self._rest()
            self._out.append(line({**_done(self._head, self._turn), "done_reason": _reason({}, self._turn)}))
        return self._out

    def _message(self, document: JsonObject, place: int) -> JsonObject:
        """Return a line's message with what is the turn's in place of what came."""
        message = object_of(document.get("message"))
        written = dict(message)
        for key, left in (("thinking", self._thinking), ("content", self._text)):
            if piece := text_of(message.get(key)):
                written[key] = left.take(piece)
        if not written.get("thinking"):
            written.pop("thinking", None)
        if written.pop("tool_calls", None):
            calls: list[Json] = [_entry(planned) for planned in self._plan.until(self._plan.opened_by(place))]
            written |= {"tool_calls": calls} if calls else {}
        return written

    def _content(self, frame: Frame, message: JsonObject) -> None:
        document = object_of(frame.document)
        if message.get("content") or message.get("thinking") or message.get("tool_calls"):
            self._put(frame, {**document, "message": message})

    def _put(self, frame: Frame, document: JsonObject) -> None:
        self._out.append(frame.raw if same(document, frame.document) else line(document))

    def _close(self, frame: Frame, message: JsonObject) -> None:
        """Write the `done` line last: what it carries itself goes before it when more follows."""
        document = {**object_of(frame.document), "done_reason": _reason(object_of(frame.document), self._turn)}
        before = len(self._out)
        self._rest()
        if len(self._out) > before:
            new, self._out = self._out[before:], self._out[:before]
            self._content(Frame(b"", {**self._head, "done": False}, ()), message)
            self._out += new
            message = {"role": "assistant", "content": ""}
        self._put(frame, {**document, "message": message})
        self._closed = True

    def _rest(self) -> None:
        """Write what no received line had a place for."""
        for key, left in (("thinking", self._thinking), ("content", self._text)):
            if text := left.rest():
                self._line({key: text})
        for planned in self._plan.rest():
            self._line({"tool_calls": [_entry(planned)]})

    def _line(self, message: JsonObject) -> None:
        self._out.append(
            line({**self._head, "message": {"role": "assistant", "content": "", **message}, "done": False})
        )


class OllamaChat(ToolSurface):
    """Describe `POST /api/chat`. It has no tool choice of its own: OpenAI's forms are understood here too."""

    name = "ollama-chat"
    path = "/api/chat"
    streaming: Framing = "ndjson"
    stream_type = "application/x-ndjson"
    tappable = True
    finish_says_calls = False
    stream_by_default = True

    def codec(self, request: Request, framing: Framing) -> OllamaChatCodec:
        """Make the codec for one answer."""
        return OllamaChatCodec(request, framing)

    def constrain(self, document: JsonObject, schema: JsonObject, max_tokens: int) -> JsonObject | None:
        """Return a copy that asks for one answer that fits the schema: not streamed, thinking off, capped."""
        options: JsonObject = {**object_of(document.get("options")), "num_predict": max_tokens}
        return {**document, "stream": False, "think": False, "format": schema, "options": options}

    def untap(self, raw: bytes, first: bool) -> tuple[tuple[bytes, ...], str]:
        """Take `logprobs` out of a line or body; lines that came only for it are dropped."""
        document = tapped_document(raw)
        if "logprobs" not in document:
            return (raw,), ""
        text, left = token_text(document["logprobs"]), without(document, "logprobs")
        if not left.get("done") and not _events(left) and "message" in left:
            return (), text
        cut = cut_member(raw.decode(), "logprobs", left)
        return (line(left) if cut is None else cut.encode(),), text
