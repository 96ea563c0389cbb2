"""Read and write `POST /v1/chat/completions`: one JSON body, or SSE chunks closed by `[DONE]`.

Ollama sends each call whole, in one delta; llama-server and vLLM send its arguments in pieces, the finish reason with
the last of them, thinking as `reasoning_content`, and no content (null) beside calls. All of that is read; what is
written is one clean delta for each call.
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
    DONE,
    DONE_FRAME,
    cut_member,
    digest,
    error_of,
    event,
    event_json,
    load_object,
    number_of,
    object_of,
    objects_of,
    read_event,
    same,
    tapped_document,
    text_of,
    token_text,
    without,
)

FINISHES: Final[dict[str, Finish]] = {"tool_calls": "tool_calls", "function_call": "tool_calls", "length": "length"}
THINKING_KEYS: Final = ("reasoning", "reasoning_content")
LOST_ERROR: Final[JsonObject] = {"content": ""}


def _choice(document: JsonObject) -> JsonObject:
    """Return the first choice: with tools, clients ask for no other."""
    for choice in objects_of(document.get("choices")):
        if choice.get("index", 0) == 0:
            return choice
    return {}


def _said_in(choice: JsonObject) -> JsonObject:
    return object_of(choice.get("delta")) or object_of(choice.get("message"))


def _said(document: JsonObject) -> JsonObject:
    """Return what the frame says: a chunk's delta or a body's message."""
    return _said_in(_choice(document))


def _thinking(said: JsonObject) -> str:
    return text_of(said.get("reasoning")) or text_of(said.get("reasoning_content"))


def _entries(document: JsonObject) -> list[JsonObject]:
    return objects_of(_said(document).get("tool_calls"))


def _frame_entries(frame: Frame) -> list[JsonObject]:
    return [] if has_error(frame) else _entries(object_of(frame.document))


def _call_part(entry: JsonObject, key: Json) -> CallPart:
    function = object_of(entry.get("function"))
    name, arguments = text_of(function.get("name")), function.get("arguments", "")
    return CallPart(key if isinstance(key, (int, str)) else None, text_of(entry.get("id")), name, arguments)


def _events(document: JsonObject, whole: bool) -> tuple[Event, ...]:
    error = error_of(document)
    if error is not None:
        return (ErrorPart(error),)
    choice = _choice(document)
    said, finish = _said_in(choice), text_of(choice.get("finish_reason"))
    events: list[Event] = []
    if thinking := _thinking(said):
        events.append(ThinkingPart(thinking))
    if text := text_of(said.get("content")):
        events.append(TextPart(text))
    for place, entry in enumerate(objects_of(said.get("tool_calls"))):
        # In a whole body every entry is a call of its own, whatever index it says.
        events.append(_call_part(entry, place if whole else entry.get("index")))
    tokens = number_of(object_of(document.get("usage")).get("completion_tokens"))
    if finish or tokens is not None:
        events.append(EndPart(FINISHES.get(finish, "stop") if finish else None, tokens))
    return tuple(events)


def _bare_error(raw: bytes) -> tuple[Event, ...]:
    """Read an error that stands in a field of its own, as older llama-servers send it: `error: {…}`."""
    if not raw.lstrip().startswith(b"error:"):
        return ()
    error = load_object(raw.lstrip().removeprefix(b"error:"))
    return (ErrorPart(error_of({"error": error}) or ""),)


def _entry(planned: Planned) -> JsonObject:
    """Write a call as one whole entry, with the unknown members of what came."""
    entry = planned.entry
    function = {**object_of(entry.get("function")), "name": planned.call.name, "arguments": planned.arguments_text}
    kind = text_of(entry.get("type")) or "function"
    known: JsonObject = {"id": planned.id, "index": planned.index, "type": kind, "function": function}
    return {key: known.get(key, value) for key, value in entry.items()} | known


def _calls_delta(*calls: Planned) -> JsonObject:
    return {"tool_calls": [_entry(planned) for planned in calls]}


def _says_something(frame: Frame) -> bool:
    """Tell whether a chunk adds to the turn or ends it: counts alone do neither."""
    return any(not isinstance(event, EndPart) or event.finish is not None for event in frame.events)


def _reason(came: Json, turn: Turn) -> Json:
    """Return the finish reason that came, where it fits the turn. The token limit shows even beside calls."""
    if turn.finish == "length":
        return "length"
    if turn.calls:
        return "tool_calls"
    return came if isinstance(came, str) and FINISHES.get(came) is None else "stop"


class OpenAIChatCodec:
    """Read the chunks of one answer, or its one body, and write those that replace what was held."""

    def __init__(self, request: Request, framing: Framing) -> None:
        self._request = request
        self._whole = framing == "json"
        self._passed = Passed()
        self._base: JsonObject = {}
        self._role_passed = False
        self._nameless = False

    def read(self, raw: bytes) -> Frame:
        """Decode one chunk, or the body. Raises DecodeError when it is no JSON object."""
        data = raw if self._whole else read_event(raw)
        if data is None:
            return Frame(raw, None, _bare_error(raw))
        document = load_object(data)
        if self._is_lost_error(document):
            return Frame(raw, document, (ErrorPart(""),))
        return Frame(raw, document, _events(document, self._whole))

    def _is_lost_error(self, document: JsonObject) -> bool:
        """Tell whether a chunk is what Ollama makes of an error in mid-stream: no model, no text, no end."""
        if document.get("model") != "":
            return False
        if _said(document) == LOST_ERROR and _choice(document).get("finish_reason") is None:
            return not self._nameless
        self._nameless = True
        return False

    def passed(self, frame: Frame) -> None:
        """Note that this frame went to the client as it is."""
        self._passed.note(frame)
        if not self._role_passed or not self._base:
            self._note_base(frame)
            self._role_passed = self._role_passed or "role" in _said(object_of(frame.document))

    def write(self, turn: Turn, held: Sequence[Frame]) -> list[bytes]:
        """Write the chunks that complete the turn, or the whole body."""
        for frame in held:
            self._note_base(frame)
        seed = seed_of(self._request)
        plan = CallPlan(turn, held, _frame_entries, seed)
        base = self._base or self._made_base(turn, seed)
        if self._whole:
            return [self._body(turn, held, plan, base)]
        options = object_of(self._request.document.get("stream_options"))
        chunks = Chunks(turn, plan, self._passed, base, self._role_passed)
        return chunks.write(held, usage=bool(options.get("include_usage")))

    def _note_base(self, frame: Frame) -> None:
        document = object_of(frame.document)
        if "choices" in document and document.get("model"):
            self._base = without(document, "choices", "usage")

    def _made_base(self, turn: Turn, seed: str) -> JsonObject:
        kind = "chat.completion" if self._whole else "chat.completion.chunk"
        made = f"chatcmpl-{digest(seed, turn.text)[:12]}"
        return {"id": made, "object": kind, "created": 0, "model": self._request.model}

    def _body(self, turn: Turn, held: Sequence[Frame], plan: CallPlan, base: JsonObject) -> bytes:
        """Write the whole body: what came with its message patched, or a new one in place of an error."""
        came = next((frame for frame in held if _choice(object_of(frame.document))), None)
        document = object_of(came.document) if came else {**base, "choices": [], "usage": _usage(turn)}
        choice = _choice(document)
        message: JsonObject = {"role": "assistant", **object_of(choice.get("message"))}
        message["content"] = None if not turn.text and message.get("content", "") is None else turn.text
        thinking_keys = [key for key in THINKING_KEYS if message.get(key)] or [THINKING_KEYS[0]]
        calls: list[Json] = [_entry(planned) for planned in plan.rest()]
        members: list[tuple[str, Json]] = [(key, turn.thinking) for key in thinking_keys]
        for key, value in [*members, ("tool_calls", calls)]:
            message = {**message, key: value} if value else without(message, key)
        finish = _reason(choice.get("finish_reason"), turn)
        written: JsonObject = {"index": 0, **choice, "message": message, "finish_reason": finish}
        others: list[Json] = [other for other in objects_of(document.get("choices")) if other is not choice]
        return whole_body({**document, "choices": [written, *others]}, came)


def _usage(turn: Turn) -> JsonObject:
    tokens = turn.tokens or 0
    return {"prompt_tokens": 0, "completion_tokens": tokens, "total_tokens": tokens}


class Chunks:
    """Write the chunks in the place of the held ones."""

    def __init__(self, turn: Turn, plan: CallPlan, passed: Passed, base: JsonObject, role_passed: bool) -> None:
        self._turn = turn
        self._plan = plan
        self._text = Remainder(turn.text, passed.text)
        self._thinking = Remainder(turn.thinking, passed.thinking)
        self._base = base
        self._has_role = role_passed
        self._thinking_key = THINKING_KEYS[0]
        self._finished = False
        self._counts: list[bytes] = []
        self._end = DONE_FRAME
        self._out: list[bytes] = []

    def write(self, held: Sequence[Frame], usage: bool) -> list[bytes]:
        """Return the chunks; `usage` says that the client asked for a chunk with the counts."""
        for place, frame in enumerate(held):
            if not has_error(frame):
                self._frame(frame, place)
        if not self._finished:
            self._made([*self._rest(), *self._role()])
            self._out.append(self._chunk(self._base, {}, _reason(None, self._turn)))
        made = [event({**self._base, "choices": [], "usage": _usage(self._turn)})] if usage else []
        return [*self._out, *(self._counts or made), self._end]

    def _frame(self, frame: Frame, place: int) -> None:
        document = object_of(frame.document)
        if frame.document is None and DONE in frame.raw:
            self._end = frame.raw
        elif not _choice(document) and document.get("usage"):
            self._counts.append(frame.raw)
        elif not _says_something(frame):
            self._has_role = self._has_role or "role" in _said(document)
            self._out.append(frame.raw)
        elif _choice(document).get("finish_reason") is None:
            self._replace(frame, document, self._deltas(document, place))
        else:
            self._finish(frame, document, self._deltas(document, place))

    def _deltas(self, document: JsonObject, place: int) -> list[JsonObject]:
        """Return what a chunk's delta becomes: nothing, itself, or, where a call is repaired, one for each call."""
        said = _said(document)
        delta = without(said, "tool_calls")
        if text := text_of(said.get("content")):
            delta["content"] = self._text.take(text)
        if thinking := _thinking(said):
            # Some servers say it under both names.
            written = self._thinking.take(thinking)
            delta |= {key: written for key in THINKING_KEYS if said.get(key)}
        self._thinking_key = next((key for key in THINKING_KEYS if key in said), self._thinking_key)
        calls = self._plan.until(self._plan.opened_by(place))
        if calls and all(planned.unchanged for planned in calls):
            return [{**delta, **_calls_delta(*calls)}]
        if calls:
            return [{**delta, **_calls_delta(calls[0])}, *map(_calls_delta, calls[1:])]
        return [delta] if any(delta.get(key) for key in (*THINKING_KEYS, "content")) else []

    def _replace(self, frame: Frame, document: JsonObject, deltas: list[JsonObject]) -> None:
        for delta in deltas:
            self._put(frame, self._document(document, self._with_role(delta), None))

    def _finish(self, frame: Frame, document: JsonObject, deltas: list[JsonObject]) -> None:
        """Write a chunk with a finish reason. What it says itself goes before it, unless that is all as it came."""
        deltas += self._rest()
        last: JsonObject = {}
        if len(deltas) == 1 and self._has_role and same(deltas[0], _said(document)):
            last = deltas.pop()
        self._replace(frame, without(document, "usage"), deltas or self._role())
        self._put(frame, self._document(document, last, _reason(_choice(document).get("finish_reason"), self._turn)))
        self._finished = True

    def _rest(self) -> list[JsonObject]:
        """Return the deltas of what no received chunk had a place for."""
        texts = ((self._thinking_key, self._thinking.rest()), ("content", self._text.rest()))
        said: list[JsonObject] = [{key: text} for key, text in texts if text]
        return [*said, *map(_calls_delta, self._plan.rest())]

    def _role(self) -> list[JsonObject]:
        """Return the delta that opens an answer in which nothing is said."""
        return [] if self._has_role or self._out else [{"content": ""}]

    def _with_role(self, delta: JsonObject) -> JsonObject:
        opened, self._has_role = self._has_role, True
        return delta if opened else {"role": "assistant", **delta}

    def _made(self, deltas: list[JsonObject]) -> None:
        for delta in deltas:
            self._out.append(self._chunk(self._base, self._with_role(delta), None))

    def _chunk(self, base: JsonObject, delta: JsonObject, finish: Json) -> bytes:
        return event({**base, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]})

    def _document(self, document: JsonObject, delta: JsonObject, finish: Json) -> JsonObject:
        choice = _choice(document)
        others: list[Json] = [other for other in objects_of(document.get("choices")) if other is not choice]
        return {**document, "choices": [{**choice, "delta": delta, "finish_reason": finish}, *others]}

    def _put(self, frame: Frame, document: JsonObject) -> None:
        self._out.append(frame.raw if same(document, frame.document) else event(document))


class OpenAIChat(ToolSurface):
    """Describe `POST /v1/chat/completions`."""

    name = "openai-chat"
    path = "/v1/chat/completions"
    streaming: Framing = "sse"
    stream_type = "text/event-stream"
    tappable = True
    finish_says_calls = True

    def codec(self, request: Request, framing: Framing) -> OpenAIChatCodec:
        """Make the codec for one answer."""
        return OpenAIChatCodec(request, framing)

    def constrain(self, document: JsonObject, schema: JsonObject, max_tokens: int) -> JsonObject | None:
        """Return a copy that asks for one answer that fits the schema: not streamed, thinking off, capped."""
        asked: JsonObject = {
            "response_format": {"type": "json_schema", "json_schema": {"name": "answer", "schema": schema}},
            "reasoning_effort": "none",
            "max_tokens": max_tokens,
            "stream": False,
        }
        # `reasoning.effort` would win over `reasoning_effort`.
        return without(document, "max_completion_tokens", "stream_options", "reasoning") | asked

    def untap(self, raw: bytes, first: bool) -> tuple[tuple[bytes, ...], str]:
        """Take `logprobs` out of a chunk or body. Chunks that came only for it are dropped.

        The role came with the first chunk, which may have been dropped: then it moves to the first that is kept, or to
        a chunk of its own before the one that ends an answer in which nothing is said.
        """
        document = tapped_document(raw)
        choice = _choice(document)
        left = document
        text = ""
        if "logprobs" in choice:
            text = token_text(object_of(choice["logprobs"]).get("content"))
            left = {**document, "choices": [without(choice, "logprobs")]}
            if _is_for_tap_only(left):
                return (), text
            cut = cut_member(raw.decode(), "logprobs", left)
            raw = event(left) if cut is None else cut.encode()
        return (_open_with_role(raw) if first else (raw,)), text

    def error_frame(self, message: str) -> bytes | None:
        """Make the frame that OpenAI's clients raise for: Ollama's own loses its text (openai.go, toChunk)."""
        return event({"error": {"message": message, "type": "api_error", "param": None, "code": None}})


def _is_for_tap_only(document: JsonObject) -> bool:
    choice = _choice(document)
    return "delta" in choice and choice.get("finish_reason") is None and without(_said(document), "role") == LOST_ERROR


def _open_with_role(raw: bytes) -> tuple[bytes, ...]:
    """Put the role into the first kept chunk. The chunk that Ollama makes of an error (no model) stays as it is."""
    data = event_json(raw)
    if data is None:
        return (raw,)
    document = load_object(data)
    choice = _choice(document)
    if "delta" not in choice or "role" in object_of(choice["delta"]) or not document.get("model"):
        return (raw,)
    if choice["delta"] == {}:
        role: JsonObject = {"role": "assistant", "content": ""}
        opener: JsonObject = {**choice, "delta": role, "finish_reason": None}
        return (event({**document, "choices": [opener]}), raw)
    return (raw.replace(b'"delta":{', b'"delta":{"role":"assistant",', 1),)
