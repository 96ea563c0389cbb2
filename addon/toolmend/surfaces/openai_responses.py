"""Read and write `POST /v1/responses`: one JSON body, or numbered SSE events that add, fill and end output items.

Every event has a `sequence_number` that rises by one, every item an `output_index`; items end with events that repeat
their text, and `response.completed` repeats them all. Ollama does not end a message before a call and gives both one
index: in a rewritten answer the message ends first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
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

TEXT_DELTA: Final = "response.output_text.delta"
THINKING_DELTAS: Final = ("response.reasoning_summary_text.delta", "response.reasoning_text.delta")
ARGUMENTS_DELTA: Final = "response.function_call_arguments.delta"
ARGUMENTS_DONE: Final = "response.function_call_arguments.done"
ITEM_ADDED: Final = "response.output_item.added"
ITEM_DONE: Final = "response.output_item.done"
CLOSERS: Final[dict[str, Finish]] = {"response.completed": "stop", "response.incomplete": "length"}
FAILURES: Final = ("response.failed", "error")
PART_LISTS: Final = {"message": "content", "reasoning": "summary"}
"""Which member of an item lists the parts that hold its text."""


def _texts(parts: Sequence[JsonObject]) -> str:
    return "".join(text_of(part.get("text")) for part in parts)


def _parts(item: JsonObject) -> list[JsonObject]:
    """Return the parts that hold an item's text. Reasoning has a summary (Ollama), or content (vLLM)."""
    return objects_of(item.get("summary")) or objects_of(item.get("content"))


def _item_events(item: JsonObject, key: str) -> list[Event]:
    """Read a whole item."""
    match item.get("type"):
        case "function_call":
            return [_call_part(item, key)]
        case "message":
            text = _texts(_parts(item))
            return [TextPart(text)] if text else []
        case "reasoning":
            thinking = _texts(_parts(item))
            return [ThinkingPart(thinking)] if thinking else []
    return []


def _all_events(items: Sequence[JsonObject]) -> list[Event]:
    return [event for place, item in enumerate(items) for event in _item_events(item, str(place))]


def _call_part(item: JsonObject, key: str) -> CallPart:
    name, space = text_of(item.get("name")), text_of(item.get("namespace"))
    name = f"{space}.{name}" if space and name else name
    return CallPart(key, text_of(item.get("call_id")), name, item.get("arguments", ""))


def _response_end(response: JsonObject, finish: Finish) -> EndPart:
    finish = "length" if response.get("status") == "incomplete" else finish
    return EndPart(finish, number_of(object_of(response.get("usage")).get("output_tokens")))


def _failure(document: JsonObject) -> str | None:
    """Return the message of an error body, an error event or a failed response."""
    response = object_of(document.get("response")) or document
    if document.get("type") in FAILURES or response.get("status") == "failed":
        return error_of(response) or text_of(response.get("message"))
    return error_of(document)


@dataclass(slots=True)
class Item:
    """Hold an output item that the client has got, or is getting: `document` is the item as it stands at the end."""

    id: str
    index: int
    document: JsonObject
    pieces: dict[int, list[str]] = field(default_factory=dict)
    opened_parts: set[int] = field(default_factory=set)
    closed: bool = False

    @property
    def kind(self) -> str:
        """Return the item's type."""
        return text_of(self.document.get("type"))

    @property
    def places(self) -> list[int]:
        """Return which parts it has got."""
        return sorted(self.opened_parts | set(self.pieces))

    def text(self, part: int) -> str:
        """Return the text of one of its parts."""
        return "".join(self.pieces.get(part, ()))


def _part_of(document: JsonObject) -> int:
    """Return the part an event speaks of."""
    index = document.get("content_index", document.get("summary_index"))
    return number_of(index) or 0


@dataclass(slots=True)
class Sent:
    """Hold what the client has got of a stream."""

    passed: Passed = field(default_factory=Passed)
    sequence: int = 0
    response: JsonObject = field(default_factory=dict)
    items: dict[str, Item] = field(default_factory=dict)

    def note(self, document: JsonObject) -> None:
        """Take in an event that goes to the client."""
        sequence = number_of(document.get("sequence_number"))
        self.sequence = self.sequence if sequence is None else sequence + 1
        kind, key = text_of(document.get("type")), text_of(document.get("item_id"))
        self.response = object_of(document.get("response")) or self.response
        if kind == ITEM_ADDED:
            given = object_of(document.get("item"))
            index = number_of(document.get("output_index")) or 0
            self.items[text_of(given.get("id"))] = Item(text_of(given.get("id")), index, given)
        elif kind == ITEM_DONE:
            self._end(object_of(document.get("item")))
        elif key in self.items:
            self._fill(self.items[key], kind, document)

    def _end(self, given: JsonObject) -> None:
        item = self.items.get(text_of(given.get("id")))
        if item is not None:
            item.document, item.closed = given, True

    def _fill(self, item: Item, kind: str, document: JsonObject) -> None:
        part = _part_of(document)
        if kind == TEXT_DELTA or kind in THINKING_DELTAS:
            item.pieces.setdefault(part, []).append(text_of(document.get("delta")))
        elif kind.endswith("part.added"):
            item.opened_parts.add(part)
        elif kind.endswith("part.done"):
            item.opened_parts.discard(part)


class OpenAIResponsesCodec:
    """Read the events of one answer, or its one body, and write those that replace what was held."""

    def __init__(self, request: Request, framing: Framing) -> None:
        self._request = request
        self._whole = framing == "json"
        self._sent = Sent()
        self._has_text = False
        self._arguments: dict[str, bool] = {}

    def read(self, raw: bytes) -> Frame:
        """Decode one event, or the body. Raises DecodeError when it is no JSON object."""
        data = raw if self._whole else read_event(raw)
        if data is None:
            return Frame(raw, None, ())
        document = load_object(data)
        failure = _failure(document)
        if failure is not None:
            return Frame(raw, document, (ErrorPart(failure),))
        return Frame(raw, document, tuple(self._body_events(document) if self._whole else self._events(document)))

    def _body_events(self, document: JsonObject) -> list[Event]:
        events = _all_events(objects_of(document.get("output")))
        finish: Finish = "tool_calls" if any(isinstance(event, CallPart) for event in events) else "stop"
        return [*events, _response_end(document, finish)]

    def _events(self, document: JsonObject) -> list[Event]:
        kind = text_of(document.get("type"))
        delta = text_of(document.get("delta"))
        if kind == TEXT_DELTA or kind in THINKING_DELTAS:
            self._has_text = self._has_text or bool(delta)
            return [TextPart(delta) if kind == TEXT_DELTA else ThinkingPart(delta)]
        if kind in (ARGUMENTS_DELTA, ARGUMENTS_DONE, ITEM_ADDED, ITEM_DONE):
            return self._call_events(kind, document)
        if kind in CLOSERS:
            return self._closing_events(object_of(document.get("response")), CLOSERS[kind])
        return []

    def _call_events(self, kind: str, document: JsonObject) -> list[Event]:
        """Read a call's events. Those that end it repeat its arguments: they count when no delta brought them."""
        item = object_of(document.get("item"))
        if kind in (ITEM_ADDED, ITEM_DONE) and item.get("type") != "function_call":
            return []
        key = text_of(document.get("item_id")) or text_of(item.get("id")) or str(document.get("output_index"))
        known = self._arguments.get(key, False)
        if kind == ITEM_DONE and known:
            return []
        part = _call_part(item if kind == ITEM_DONE else without(item, "arguments"), key)
        if kind == ARGUMENTS_DELTA:
            part = CallPart(key, arguments=text_of(document.get("delta")))
        elif kind == ARGUMENTS_DONE:
            part = CallPart(key, arguments="" if known else text_of(document.get("arguments")))
        self._arguments[key] = known or bool(part.arguments)
        return [part]

    def _closing_events(self, response: JsonObject, finish: Finish) -> list[Event]:
        """Read the event that ends the answer: its items count when no event before it brought any."""
        events: list[Event] = []
        if not self._has_text and not self._arguments:
            events = _all_events(objects_of(response.get("output")))
        calls = self._arguments or any(isinstance(event, CallPart) for event in events)
        return [*events, _response_end(response, "tool_calls" if calls and finish == "stop" else finish)]

    def passed(self, frame: Frame) -> None:
        """Note that this frame went to the client as it is."""
        self._sent.passed.note(frame)
        self._sent.note(object_of(frame.document))

    def write(self, turn: Turn, held: Sequence[Frame]) -> list[bytes]:
        """Write the events that complete the turn, or the whole body."""
        seed = seed_of(self._request)
        plan = CallPlan(turn, held, self._entries, seed)
        made = self._made_response(turn, seed)
        if self._whole:
            return [_body(turn, held, plan, made, seed)]
        return Events(turn, plan, self._sent, made, seed).write(held)

    def _entries(self, frame: Frame) -> list[JsonObject]:
        document, parts = object_of(frame.document), calls_in(frame)
        response = object_of(document.get("response")) or document
        if parts and "output" in response:
            return [item for item in objects_of(response["output"]) if item.get("type") == "function_call"]
        return [object_of(document.get("item")) for _ in parts]

    def _made_response(self, turn: Turn, seed: str) -> JsonObject:
        asked = self._request.document
        cut: JsonObject = {"reason": "max_output_tokens"}
        return {
            "id": f"resp_{digest(seed, turn.text)[:24]}",
            "object": "response",
            "created_at": 0,
            "status": "incomplete" if turn.finish == "length" else "completed",
            "error": None,
            "incomplete_details": cut if turn.finish == "length" else None,
            "instructions": asked.get("instructions"),
            "metadata": {},
            "model": self._request.model,
            "output": [],
            "parallel_tool_calls": True,
            "temperature": asked.get("temperature"),
            "tool_choice": "auto",
            "tools": asked.get("tools") or [],
            "top_p": asked.get("top_p"),
            "usage": _usage(turn),
        }


def _usage(turn: Turn) -> JsonObject:
    tokens = turn.tokens or 0
    return {
        "input_tokens": 0,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens": tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": tokens,
    }


def _text_part(kind: str, text: str) -> JsonObject:
    if kind == "reasoning":
        return {"type": "summary_text", "text": text}
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _made_item(kind: str, key: str, text: str) -> JsonObject:
    if kind == "reasoning":
        return {"id": key, "type": "reasoning", "summary": [_text_part(kind, text)], "encrypted_content": text}
    content: list[Json] = [_text_part(kind, text)]
    return {"id": key, "type": "message", "role": "assistant", "status": "completed", "content": content}


def _call_item(planned: Planned, seed: str) -> JsonObject:
    """Write a call's item, with the unknown members of the one that came."""
    key = text_of(planned.entry.get("id")) or f"fc_{digest(seed, planned.index, planned.id)[:24]}"
    item: JsonObject = {"id": key, "type": "function_call", **planned.entry}
    if not planned.unchanged:
        item = without(item, "namespace") | {"name": planned.call.name}
        item |= {"namespace": planned.call.namespace} if planned.call.namespace else {}
    return item | {"call_id": planned.id, "arguments": planned.arguments_text, "status": "completed"}


def _retext(item: JsonObject, texts: Sequence[str]) -> JsonObject:
    """Put these texts into the parts of an item. Ollama repeats its thinking as `encrypted_content`."""
    member = "summary" if objects_of(item.get("summary")) else "content"
    repeats = "encrypted_content" in item and item["encrypted_content"] == _texts(_parts(item))
    pairs = zip(_parts(item), texts, strict=True)
    parts: list[Json] = [{**part, "text": text} if "text" in part else part for part, text in pairs]
    written: JsonObject = {**item, member: parts}
    return {**written, "encrypted_content": "".join(texts)} if repeats else written


def _body(turn: Turn, held: Sequence[Frame], plan: CallPlan, made: JsonObject, seed: str) -> bytes:
    """Write the whole body: what came with its items patched, or a new one in place of an error."""
    came = next((frame for frame in held if "output" in object_of(frame.document) and not has_error(frame)), None)
    document = object_of(came.document) if came else made
    left = {"message": Remainder(turn.text, 0), "reasoning": Remainder(turn.thinking, 0)}
    received = iter(plan.opened_by(held.index(came)) if came else [])
    items: list[Json] = []
    for item in objects_of(document.get("output")):
        kind = text_of(item.get("type"))
        if kind == "function_call":
            items += [_call_item(planned, seed) for planned in plan.until([next(received)])]
        elif kind not in left:
            items.append(item)
        else:
            texts = [left[kind].take(text_of(part.get("text"))) for part in _parts(item)]
            items += [_retext(item, texts)] if any(texts) or not _texts(_parts(item)) else []
    for kind, prefix in (("reasoning", "rs"), ("message", "msg")):
        if text := left[kind].rest():
            items.append(_made_item(kind, f"{prefix}_{digest(seed, kind, text)[:24]}", text))
    items += [_call_item(planned, seed) for planned in plan.rest()]
    return whole_body({**document, "output": listed(items, document.get("output"))}, came)


class Events:
    """Write the events in the place of the held ones."""

    def __init__(self, turn: Turn, plan: CallPlan, sent: Sent, made: JsonObject, seed: str) -> None:
        self._turn = turn
        self._plan = plan
        self._sent = sent
        self._made = made
        self._seed = seed
        self._left = {
            "message": Remainder(turn.text, sent.passed.text),
            "reasoning": Remainder(turn.thinking, sent.passed.thinking),
        }
        self._waiting: dict[str, list[Frame]] = {}
        self._ended = False
        self._out: list[bytes] = []

    def write(self, held: Sequence[Frame]) -> list[bytes]:
        """Return the events."""
        for place, frame in enumerate(held):
            if not has_error(frame):
                self._frame(frame, place)
        if not self._ended:
            self._rest()
            kind = "response.incomplete" if self._turn.finish == "length" else "response.completed"
            keep = ("status", "incomplete_details", "usage")
            response = {**self._made, **self._sent.response, **{key: self._made[key] for key in keep}}
            self._put({"type": kind, "response": {**response, "output": self._items({})}})
        return self._out

    def _frame(self, frame: Frame, place: int) -> None:
        document = object_of(frame.document)
        kind, item = text_of(document.get("type")), object_of(document.get("item"))
        key = text_of(document.get("item_id")) or text_of(item.get("id"))
        if kind in CLOSERS:
            self._complete(frame, document)
        elif calls_in(frame) or item.get("type") == "function_call" or kind in (ARGUMENTS_DELTA, ARGUMENTS_DONE):
            self._calls(self._plan.until(self._plan.opened_by(place)))
        elif kind == ITEM_ADDED:
            self._waiting[key] = [frame]
            if text_of(item.get("type")) not in self._left:
                self._open(key)
        elif kind == TEXT_DELTA or kind in THINKING_DELTAS:
            self._delta(frame, document, "message" if kind == TEXT_DELTA else "reasoning", key)
        elif key in self._waiting and kind.endswith(".added"):
            self._waiting[key].append(frame)
        elif key:
            self._item_event(frame, document, key)
        else:
            self._pass(frame, document)

    def _pass(self, frame: Frame, document: JsonObject) -> None:
        if frame.document is None:
            self._out.append(frame.raw)
        else:
            self._put(document, frame)

    def _delta(self, frame: Frame, document: JsonObject, kind: str, key: str) -> None:
        piece = self._left[kind].take(text_of(document.get("delta")))
        if not piece:
            return
        if key in self._waiting:
            self._open(key)
        item = self._sent.items.get(key)
        if item is None or item.closed:
            self._say(kind, piece)
        else:
            self._put({**document, "output_index": item.index, "delta": piece}, frame)

    def _open(self, key: str) -> None:
        """Write the events that open an item, now that something stands in it."""
        self._close()
        index = self._next_index()
        for frame in self._waiting.pop(key):
            self._put({**object_of(frame.document), "output_index": index}, frame)

    def _next_index(self) -> int:
        return max((item.index + 1 for item in self._sent.items.values()), default=0)

    def _item_event(self, frame: Frame, document: JsonObject, key: str) -> None:
        """Write an event about an item. Those that end it, or its text, repeat what was written.

        An item in which nothing stands is not opened to be ended; what else is said of it (a refusal) opens it.
        """
        if key in self._waiting and not text_of(document.get("type")).endswith(".done"):
            self._open(key)
        item = self._sent.items.get(key)
        if item is None or item.closed:
            return
        written: JsonObject = {**document, "output_index": item.index}
        text = item.text(_part_of(document))
        if item.kind in self._left and text_of(document.get("type")).endswith(".done"):
            part, given = object_of(document.get("part")), object_of(document.get("item"))
            written |= {"text": text} if "text" in document else {}
            written |= {"part": {**part, "text": text}} if "text" in part else {}
            texts = [item.text(place) for place in range(len(_parts(given)))]
            written |= {"item": _retext(given, texts)} if given else {}
        self._put(written, frame)

    def _say(self, kind: str, text: str) -> None:
        """Write text into the open item of this kind, or a new one."""
        item = next((item for item in self._sent.items.values() if item.kind == kind and not item.closed), None)
        if item is None:
            self._close()
            item = self._new_item(kind)
        place = max(item.places, default=0)
        where: JsonObject = {"item_id": item.id, "output_index": item.index}
        if kind == "message":
            self._put({"type": TEXT_DELTA, **where, "content_index": place, "delta": text, "logprobs": []})
        else:
            self._put({"type": THINKING_DELTAS[0], **where, "summary_index": place, "delta": text})

    def _new_item(self, kind: str) -> Item:
        index = self._next_index()
        key = f"{'msg' if kind == 'message' else 'rs'}_{digest(self._seed, kind, index)[:24]}"
        opened: JsonObject = {"id": key, "type": kind, PART_LISTS[kind]: []}
        opened |= {"role": "assistant", "status": "in_progress"} if kind == "message" else {}
        self._put({"type": ITEM_ADDED, "output_index": index, "item": opened})
        if kind == "message":
            part: JsonObject = {"item_id": key, "output_index": index, "content_index": 0, "part": _text_part(kind, "")}
            self._put({"type": "response.content_part.added", **part})
        return self._sent.items[key]

    def _close(self) -> None:
        """End the message or reasoning that is open, as its server would have."""
        for item in list(self._sent.items.values()):
            if item.kind in self._left and not item.closed:
                self._close_item(item)

    def _close_item(self, item: Item) -> None:
        message = item.kind == "message"
        name, place_key = ("content", "content_index") if message else ("reasoning_summary", "summary_index")
        for place in item.places:
            text = item.text(place)
            where: JsonObject = {"item_id": item.id, "output_index": item.index, place_key: place}
            text_done = "response.output_text.done" if message else "response.reasoning_summary_text.done"
            logprobs: JsonObject = {"logprobs": []} if message else {}
            self._put({"type": text_done, **where, "text": text, **logprobs})
            if place in item.opened_parts:
                self._put({"type": f"response.{name}_part.done", **where, "part": _text_part(item.kind, text)})
        ended = _made_item(item.kind, item.id, "")
        texts = [item.text(place) for place in item.places]
        ended |= {PART_LISTS[item.kind]: [_text_part(item.kind, text) for text in texts]}
        ended |= {} if message else {"encrypted_content": "".join(texts)}
        self._put({"type": ITEM_DONE, "output_index": item.index, "item": {**item.document, **ended}})

    def _calls(self, calls: Sequence[Planned]) -> None:
        for planned in calls:
            self._start()
            self._close()
            item = dict(sorted(_call_item(planned, self._seed).items()))
            arguments = item["arguments"]
            index: JsonObject = {"output_index": self._next_index()}
            where: JsonObject = {"item_id": item["id"], **index}
            self._put({"type": ITEM_ADDED, **index, "item": {**item, "arguments": "", "status": "in_progress"}})
            self._put({"type": ARGUMENTS_DELTA, **where, "delta": arguments})
            self._put({"type": ARGUMENTS_DONE, **where, "arguments": arguments})
            self._put({"type": ITEM_DONE, **index, "item": item})

    def _start(self) -> None:
        """Open an answer of which nothing has come."""
        if not self._sent.response:
            response: JsonObject = {**self._made, "status": "in_progress", "incomplete_details": None, "usage": None}
            self._put({"type": "response.created", "response": response})
            self._put({"type": "response.in_progress", "response": response})

    def _rest(self) -> None:
        """Write what no received item had a place for, and end what is open."""
        self._start()
        for kind in ("reasoning", "message"):
            if text := self._left[kind].rest():
                self._say(kind, text)
        self._close()
        self._calls(self._plan.rest())

    def _complete(self, frame: Frame, document: JsonObject) -> None:
        self._rest()
        response = object_of(document.get("response"))
        came = {text_of(item.get("id")): item for item in objects_of(response.get("output"))}
        output = listed(self._items(came), response.get("output"))
        self._put({**document, "response": {**response, "output": output}}, frame)
        self._ended = True

    def _items(self, came: dict[str, JsonObject]) -> list[Json]:
        """Return all items as they stand at the end, in the order of their indices."""
        items = sorted(self._sent.items.values(), key=lambda item: item.index)
        return [item.document if item.closed else came.get(item.id, item.document) for item in items]

    def _put(self, document: JsonObject, frame: Frame | None = None) -> None:
        if frame is None or "sequence_number" in document:
            document = {**document, "sequence_number": self._sent.sequence}
        if frame is None:
            # Ollama writes these events from maps, whose keys come out in order.
            document = dict(sorted(document.items()))
        self._sent.note(document)
        unchanged = frame is not None and same(document, frame.document)
        self._out.append(frame.raw if frame and unchanged else event(document, text_of(document.get("type"))))


class OpenAIResponses(ToolSurface):
    """Describe `POST /v1/responses`."""

    name = "openai-responses"
    path = "/v1/responses"
    streaming: Framing = "sse"
    stream_type = "text/event-stream"
    tappable = False
    finish_says_calls = False

    def codec(self, request: Request, framing: Framing) -> OpenAIResponsesCodec:
        """Make the codec for one answer."""
        return OpenAIResponsesCodec(request, framing)

    def choice_value(self, choice: ToolChoice) -> Json:
        """Write a choice in the surface's form, which is flat."""
        return {"type": "function", "name": choice.names[0]} if choice.mode == "named" else choice.mode

    def constrain(self, document: JsonObject, schema: JsonObject, max_tokens: int) -> JsonObject | None:
        """Return a copy that asks for one answer that fits the schema: not streamed, thinking off, capped."""
        form: JsonObject = {"type": "json_schema", "name": "answer", "schema": schema}
        asked: JsonObject = {
            "text": {**object_of(document.get("text")), "format": form},
            "reasoning": {"effort": "none"},
            "max_output_tokens": max_tokens,
            "stream": False,
        }
        return without(document, "stream_options") | asked
