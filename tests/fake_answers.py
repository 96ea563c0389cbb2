"""Write the answers of a scripted model as Ollama puts them on the wire: four surfaces, whole and streamed.

Nothing here talks to a network; `fake_ollama` sends what these functions return. The forms (order of keys aside) are
those of Ollama's own source: one chunk for each call with its whole arguments, HTML characters escaped, `done_reason`
never "tool_calls", the Responses surface reusing a message's output index for the call after it, and a stream that
fails after its first chunk without a closing event.
"""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal

# Documents are written here, not read: their shape is what the tests judge.
Document = dict[str, Any]

SURFACES = {
    "/api/chat": "ollama-chat",
    "/v1/chat/completions": "openai-chat",
    "/v1/responses": "openai-responses",
    "/v1/messages": "anthropic-messages",
}
PROMPT_TOKENS = 300
CREATED = 1787000000
CREATED_AT = "2026-08-22T09:00:00.123456789Z"
_numbers = itertools.count(1)


@dataclass(frozen=True, slots=True)
class Answer:
    """Say what the model (or the server) does with one request.

    The model's part: `text`, `thinking`, `calls` (name and arguments; arguments given as a string go out as that very
    text where the surface carries text), `finish`, `tokens` (None: counted), `raw` (what the model wrote, as the tap
    shows it; None: its text), `native` (its calls are parsed by llama.cpp, which refuses to show tokens beside tools).

    The server's part: `error` with `status`; beside text or thinking the error comes in mid-stream. `body` replaces
    everything by these very chunks, with `status` and `content_type`.

    The network's part: `gates` hold the answer before the chunk of that index (-1: before the end of the message),
    `pause` is the seconds between chunks, `cut` the size of network chunks in bytes, `close_after` the number of chunks
    after which the connection is closed without an end, `encoding` "gzip" or "deflate".
    """

    text: str = ""
    thinking: str = ""
    calls: tuple[tuple[str, Any], ...] = ()
    finish: Literal["stop", "length"] = "stop"
    tokens: int | None = None
    raw: str | None = None
    native: bool = False
    error: str | None = None
    status: int = 0
    body: tuple[bytes, ...] | None = None
    content_type: str = "application/json"
    headers: Mapping[str, str] = field(default_factory=dict)
    gates: Mapping[int, Any] = field(default_factory=dict)
    pause: float = 0.0
    cut: int | None = None
    close_after: int | None = None
    encoding: str = ""

    def but(self, **changes: Any) -> Answer:
        """Return this answer with some fields changed."""
        return replace(self, **changes)


def as_json(value: object, **changes: Any) -> Answer:
    """Make the answer of a model that was asked for JSON by a schema."""
    return Answer(text=json.dumps(value), **changes)


@dataclass(frozen=True, slots=True)
class Asked:
    """Hold what an answer's form depends on: the surface, and the request's body."""

    surface: str
    document: Document

    @property
    def stream(self) -> bool:
        """Tell whether the answer is streamed: /api/chat and /api/generate do unless told not to."""
        return bool(self.document.get("stream", self.surface in ("ollama-chat", "generate")))

    @property
    def tapped(self) -> bool:
        """Tell whether the tokens are asked for, on the two surfaces that have the member."""
        return self.surface in ("ollama-chat", "openai-chat") and bool(self.document.get("logprobs"))

    def refused(self, answer: Answer) -> bool:
        """Tell whether the request asks for tokens that a native model does not show; then nothing is generated."""
        return answer.native and self.tapped and bool(self.document.get("tools"))

    @property
    def model(self) -> str:
        """Return the model's name."""
        return str(self.document.get("model", ""))


@dataclass(frozen=True, slots=True)
class Sent:
    """Hold what goes out: status, content type, and the body in the chunks it is written in."""

    status: int
    content_type: str
    chunks: list[bytes]


def render(answer: Answer, asked: Asked) -> Sent:
    """Write an answer in its surface's own form."""
    if answer.body is not None:
        return Sent(answer.status or 200, answer.content_type, list(answer.body))
    parts = _parts(answer, asked)
    if answer.error is not None and not (asked.stream and parts):
        return Sent(answer.status or 500, _JSON_TYPES[asked.surface], [_error_body(asked.surface, answer)])
    writer = _STREAMED[asked.surface] if asked.stream else _WHOLE[asked.surface]
    kind = (_STREAM_TYPES if asked.stream else _JSON_TYPES)[asked.surface]
    return Sent(200, kind, writer(answer, asked, parts))


# -- what the model did, piece by piece --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Part:
    """One piece: thinking, text, a call (`value` is its index), or a token that only the tap shows."""

    kind: Literal["thinking", "text", "call", "silent"]
    value: str | int
    token: str = ""


def pieces(text: str) -> list[str]:
    """Cut a text as a tokenizer might: a few characters each, blanks in front."""
    return re.findall(r"\s*\S{1,5}|\s+", text)


def _parts(answer: Answer, asked: Asked) -> list[_Part]:
    parts = [_Part("thinking", piece, piece) for piece in pieces(answer.thinking)]
    parts += [_Part("text", piece, piece) for piece in pieces(answer.text)]
    if asked.tapped:
        raw = answer.text if answer.raw is None else answer.raw
        parts += [_Part("silent", "", token) for token in pieces(raw.removeprefix(answer.text))]
    return parts + [_Part("call", index) for index in range(len(answer.calls))]


def _generated(answer: Answer) -> int:
    if answer.tokens is not None:
        return answer.tokens
    written = answer.thinking + answer.text + "".join(name + _text(arguments) for name, arguments in answer.calls)
    return max(1, len(pieces(written)))


def _text(arguments: object) -> str:
    """Write arguments as OpenAI's surfaces carry them: JSON text; a string is taken for that text already."""
    return arguments if isinstance(arguments, str) else dump(arguments)


def _object(arguments: object) -> object:
    """Give arguments as the surfaces that carry objects do."""
    return json.loads(arguments) if isinstance(arguments, str) and arguments.startswith("{") else arguments


def dump(value: object) -> str:
    """Write JSON as Go's encoder does: no blanks, HTML characters escaped."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def _line(value: object) -> bytes:
    return (dump(value) + "\n").encode()


def _data(value: object) -> bytes:
    return f"data: {dump(value)}\n\n".encode()


def _event(document: Document) -> bytes:
    return f"event: {document['type']}\ndata: {dump(document)}\n\n".encode()


def _call_id(number: int, index: int) -> str:
    return f"call_{number:04d}{index:04d}"


def _logprobs(tokens: Sequence[str]) -> list[Document]:
    return [{"token": token, "logprob": -0.25, "bytes": list(token.encode())} for token in tokens]


# -- errors ------------------------------------------------------------------------------------------------------

_ERROR_TYPES = {400: "invalid_request_error", 404: "not_found_error"}


def _error_body(surface: str, answer: Answer) -> bytes:
    message, kind = answer.error, _ERROR_TYPES.get(answer.status, "api_error")
    if surface in ("ollama-chat", "generate"):
        return dump({"error": message}).encode()
    if surface == "anthropic-messages":
        error = {"type": kind, "message": message}
        return _line({"type": "error", "error": error, "request_id": f"req_{next(_numbers):024x}"})
    return _line({"error": {"message": message, "type": kind, "param": None, "code": None}})


# -- /api/chat ---------------------------------------------------------------------------------------------------


def _ollama_call(answer: Answer, index: int, number: int) -> Document:
    name, arguments = answer.calls[index]
    return {
        "id": _call_id(number, index),
        "function": {"index": index, "name": name, "arguments": _object(arguments)},
    }


def _ollama_end(answer: Answer) -> Document:
    return {
        "done": True,
        "done_reason": answer.finish,
        "total_duration": 900000000,
        "load_duration": 30000000,
        "prompt_eval_count": PROMPT_TOKENS,
        "prompt_eval_duration": 400000000,
        "eval_count": _generated(answer),
        "eval_duration": 450000000,
    }


def _ollama_whole(answer: Answer, asked: Asked, parts: Sequence[_Part]) -> list[bytes]:
    number = next(_numbers)
    message: Document = {"role": "assistant", "content": answer.text}
    if answer.thinking:
        message["thinking"] = answer.thinking
    if answer.calls:
        message["tool_calls"] = [_ollama_call(answer, index, number) for index in range(len(answer.calls))]
    tokens = [part.token for part in parts if part.token]
    tap = {"logprobs": _logprobs(tokens)} if asked.tapped else {}
    document = {"model": asked.model, "created_at": CREATED_AT, "message": message, **_ollama_end(answer), **tap}
    return [dump(document).encode()]


def _ollama_streamed(answer: Answer, asked: Asked, parts: Sequence[_Part]) -> list[bytes]:
    number, head = next(_numbers), {"model": asked.model, "created_at": CREATED_AT}
    lines = []
    for part in parts:
        message: Document = {"role": "assistant", "content": part.value if part.kind == "text" else ""}
        if part.kind == "thinking":
            message["thinking"] = part.value
        if part.kind == "call":
            message["tool_calls"] = [_ollama_call(answer, int(part.value), number)]
        tap = {"logprobs": _logprobs([part.token])} if asked.tapped and part.token else {}
        lines.append(_line({**head, "message": message, "done": False, **tap}))
    if answer.error is not None:
        return [*lines, dump({"error": answer.error}).encode() + b"\n"]
    end = {**head, "message": {"role": "assistant", "content": ""}, **_ollama_end(answer)}
    return [*lines, _line(end)]


# -- /api/generate (raw) -----------------------------------------------------------------------------------------


def _generate_whole(answer: Answer, asked: Asked, parts: Sequence[_Part]) -> list[bytes]:
    head = {"model": asked.model, "created_at": CREATED_AT}
    return [dump({**head, "response": answer.text, **_ollama_end(answer)}).encode()]


def _generate_streamed(answer: Answer, asked: Asked, parts: Sequence[_Part]) -> list[bytes]:
    head = {"model": asked.model, "created_at": CREATED_AT}
    lines = [_line({**head, "response": part.value, "done": False}) for part in parts if part.kind == "text"]
    return [*lines, _line({**head, "response": "", **_ollama_end(answer)})]


# -- /v1/chat/completions ----------------------------------------------------------------------------------------


def _openai_call(answer: Answer, index: int, number: int) -> Document:
    name, arguments = answer.calls[index]
    return {
        "id": _call_id(number, index),
        "index": index,
        "type": "function",
        "function": {"name": name, "arguments": _text(arguments)},
    }


def _openai_usage(answer: Answer) -> Document:
    generated = _generated(answer)
    return {
        "prompt_tokens": PROMPT_TOKENS,
        "completion_tokens": generated,
        "total_tokens": PROMPT_TOKENS + generated,
    }


def _openai_finish(answer: Answer) -> str:
    return "tool_calls" if answer.calls and answer.finish == "stop" else answer.finish


def _openai_head(asked: Asked, kind: str, number: int) -> Document:
    return {
        "id": f"chatcmpl-{number}",
        "object": kind,
        "created": CREATED,
        "model": asked.model,
        "system_fingerprint": "fp_ollama",
    }


def _openai_whole(answer: Answer, asked: Asked, parts: Sequence[_Part]) -> list[bytes]:
    number = next(_numbers)
    message: Document = {"role": "assistant", "content": answer.text}
    if answer.thinking:
        message["reasoning"] = answer.thinking
    if answer.calls:
        message["tool_calls"] = [_openai_call(answer, index, number) for index in range(len(answer.calls))]
    choice: Document = {"index": 0, "message": message, "finish_reason": _openai_finish(answer)}
    if asked.tapped:
        choice["logprobs"] = {"content": _logprobs([part.token for part in parts if part.token])}
    document = {
        **_openai_head(asked, "chat.completion", number),
        "choices": [choice],
        "usage": _openai_usage(answer),
    }
    return [_line(document)]


def _openai_streamed(answer: Answer, asked: Asked, parts: Sequence[_Part]) -> list[bytes]:
    number = next(_numbers)
    head = _openai_head(asked, "chat.completion.chunk", number)

    def chunk(delta: Document, finish: str | None = None, token: str = "", **changes: str) -> bytes:
        choice: Document = {"index": 0, "delta": delta, "finish_reason": finish}
        if asked.tapped and token:
            choice["logprobs"] = {"content": _logprobs([token])}
        return _data({**head, **changes, "choices": [choice]})

    chunks = []
    for place, part in enumerate(parts or [_Part("text", "")]):
        delta: Document = {"role": "assistant"} if place == 0 else {}
        delta["content"] = part.value if part.kind == "text" else ""
        if part.kind == "thinking":
            delta["reasoning"] = part.value
        if part.kind == "call":
            delta["tool_calls"] = [_openai_call(answer, int(part.value), number)]
        chunks.append(chunk(delta, token=part.token))
    if answer.error is not None:
        return [*chunks, chunk({"content": ""}, model="")]
    end = chunk({}, _openai_finish(answer))
    if (asked.document.get("stream_options") or {}).get("include_usage"):
        end += _data({**head, "choices": [], "usage": _openai_usage(answer)})
    return [*chunks, end + b"data: [DONE]\n\n"]


# -- /v1/responses -----------------------------------------------------------------------------------------------


def _responses_document(asked: Asked, number: int) -> Document:
    """Give the parts of a response that do not depend on the answer, with the tools it echoes."""
    tools = [
        {"type": "function", "name": tool["name"], "description": tool.get("description"), "strict": False}
        | {"parameters": tool.get("parameters")}
        for tool in asked.document.get("tools") or []
        if tool.get("type") == "function"
    ]
    return {
        "id": f"resp_{number}",
        "object": "response",
        "created_at": CREATED,
        "completed_at": None,
        "status": "in_progress",
        "incomplete_details": None,
        "model": asked.model,
        "previous_response_id": None,
        "instructions": asked.document.get("instructions"),
        "output": [],
        "error": None,
        "tools": tools,
        "tool_choice": "auto",
        "truncation": "disabled",
        "parallel_tool_calls": True,
        "text": {"format": {"type": "text"}},
        "top_p": 1,
        "presence_penalty": 0,
        "frequency_penalty": 0,
        "top_logprobs": 0,
        "temperature": 1,
        "reasoning": None,
        "usage": None,
        "max_output_tokens": None,
        "max_tool_calls": None,
        "store": False,
        "background": False,
        "service_tier": "default",
        "metadata": {},
        "safety_identifier": None,
        "prompt_cache_key": None,
    }


def _responses_completed(answer: Answer, document: Document, output: list[Document] | None) -> Document:
    generated = _generated(answer)
    usage = {
        "input_tokens": PROMPT_TOKENS,
        "output_tokens": generated,
        "total_tokens": PROMPT_TOKENS + generated,
        "input_tokens_details": {"cached_tokens": 0},
        "output_tokens_details": {"reasoning_tokens": 0},
    }
    return {**document, "completed_at": CREATED, "status": "completed", "output": output, "usage": usage}


def _reasoning_item(answer: Answer, number: int) -> Document:
    summary = [{"type": "summary_text", "text": answer.thinking}]
    return {
        "id": f"rs_{number}",
        "type": "reasoning",
        "summary": summary,
        "encrypted_content": answer.thinking,
    }


def _text_content(text: str) -> Document:
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _message_item(content: list[Document], number: int, status: str) -> Document:
    return {"id": f"msg_{number}", "type": "message", "status": status, "role": "assistant", "content": content}


def _function_call_item(answer: Answer, index: int, number: int) -> Document:
    name, arguments = answer.calls[index]
    return {
        "id": f"fc_{number}_{index}",
        "type": "function_call",
        "status": "completed",
        "call_id": _call_id(number, index),
        "name": name,
        "arguments": _text(arguments),
    }


def _responses_whole(answer: Answer, asked: Asked, parts: Sequence[_Part]) -> list[bytes]:
    number = next(_numbers)
    output = [_reasoning_item(answer, number)] if answer.thinking else []
    # Text beside a call is lost here; without a call there is always a message, be it empty.
    output += [_function_call_item(answer, index, number) for index in range(len(answer.calls))] or [
        _message_item([_text_content(answer.text)], number, "completed")
    ]
    return [_line(_responses_completed(answer, _responses_document(asked, number), output))]


class _ResponsesStream:
    """Number the events and items of one streamed response."""

    def __init__(self, answer: Answer, asked: Asked) -> None:
        self.answer, self.number = answer, next(_numbers)
        self.document = _responses_document(asked, self.number)
        self.sequence = itertools.count()
        self.chunks: list[bytes] = []
        self.index = 0

    def send(self, kind: str, **members: Any) -> None:
        document = {**members, "sequence_number": next(self.sequence), "type": f"response.{kind}"}
        # The converter builds Go maps, whose keys come out sorted.
        self.chunks.append(_event(json.loads(json.dumps(document, sort_keys=True))))

    def write(self, parts: Sequence[_Part]) -> list[bytes]:
        self.send("created", response=self.document)
        self.send("in_progress", response=self.document)
        for kind, run in itertools.groupby(parts, key=lambda part: part.kind):
            getattr(self, kind)([part.value for part in run])
        if self.answer.error is not None:
            return self.chunks
        if self.answer.text and not self.answer.calls:
            self.close_text()
        self.send("completed", response=_responses_completed(self.answer, self.document, self.output() or None))
        return self.chunks

    def output(self) -> list[Document]:
        answer, number = self.answer, self.number
        items = [_reasoning_item(answer, number)] if answer.thinking else []
        items += [_function_call_item(answer, index, number) for index in range(len(answer.calls))]
        return items + ([_message_item([_text_content(answer.text)], number, "completed")] if answer.text else [])

    def thinking(self, values: Sequence[str]) -> None:
        item = _reasoning_item(self.answer, self.number)
        bare = {"id": item["id"], "type": "reasoning", "summary": []}
        where = {"item_id": item["id"], "output_index": self.index, "summary_index": 0}
        self.send("output_item.added", output_index=self.index, item=bare)
        for value in values:
            self.send("reasoning_summary_text.delta", delta=value, **where)
        if self.answer.text or self.answer.calls or self.answer.error is None:
            self.send("reasoning_summary_text.done", text=self.answer.thinking, **where)
            self.send("output_item.done", output_index=self.index, item=item)
        self.index += 1

    def text(self, values: Sequence[str]) -> None:
        item = _message_item([], self.number, "in_progress")
        where = {"item_id": item["id"], "output_index": self.index, "content_index": 0}
        self.send("output_item.added", output_index=self.index, item=item)
        self.send("content_part.added", part=_text_content(""), **where)
        for value in values:
            self.send("output_text.delta", delta=value, logprobs=[], **where)

    def close_text(self) -> None:
        content = _text_content(self.answer.text)
        item = _message_item([content], self.number, "completed")
        where = {"item_id": item["id"], "output_index": self.index, "content_index": 0}
        self.send("output_text.done", text=self.answer.text, logprobs=[], **where)
        self.send("content_part.done", part=content, **where)
        self.send("output_item.done", output_index=self.index, item=item)

    def call(self, indices: Sequence[int]) -> None:
        # A message before the call stays open, and the call takes its output index.
        for index in indices:
            item = _function_call_item(self.answer, index, self.number)
            where = {"item_id": item["id"], "output_index": self.index}
            opened = {**item, "status": "in_progress", "arguments": ""}
            self.send("output_item.added", output_index=self.index, item=opened)
            self.send("function_call_arguments.delta", delta=item["arguments"], **where)
            self.send("function_call_arguments.done", arguments=item["arguments"], **where)
            self.send("output_item.done", output_index=self.index, item=item)
            self.index += 1


def _responses_streamed(answer: Answer, asked: Asked, parts: Sequence[_Part]) -> list[bytes]:
    return _ResponsesStream(answer, asked).write(parts)


# -- /v1/messages ------------------------------------------------------------------------------------------------


def _stop_reason(answer: Answer) -> str:
    return "tool_use" if answer.calls else {"stop": "end_turn", "length": "max_tokens"}[answer.finish]


def _tool_use(answer: Answer, index: int, number: int) -> Document:
    name, arguments = answer.calls[index]
    return {"type": "tool_use", "id": _call_id(number, index), "name": name, "input": _object(arguments)}


def _messages_whole(answer: Answer, asked: Asked, parts: Sequence[_Part]) -> list[bytes]:
    number = next(_numbers)
    content: list[Document] = [{"type": "thinking", "thinking": answer.thinking}] if answer.thinking else []
    content += [{"type": "text", "text": answer.text}] if answer.text else []
    content += [_tool_use(answer, index, number) for index in range(len(answer.calls))]
    document = {
        "id": f"msg_{number:024x}",
        "type": "message",
        "role": "assistant",
        "model": asked.model,
        "content": content or None,
        "stop_reason": _stop_reason(answer),
        "usage": {"input_tokens": PROMPT_TOKENS, "output_tokens": _generated(answer)},
    }
    return [_line(document)]


def _messages_streamed(answer: Answer, asked: Asked, parts: Sequence[_Part]) -> list[bytes]:
    number = next(_numbers)
    message = {"id": f"msg_{number:024x}", "type": "message", "role": "assistant", "model": asked.model, "content": []}
    usage = {"input_tokens": PROMPT_TOKENS, "output_tokens": 0}
    chunks = [_event({"type": "message_start", "message": {**message, "usage": usage}})]
    blocks: list[tuple[Document, list[Document]]] = []
    for kind, run in itertools.groupby(parts, key=lambda part: part.kind):
        values = [part.value for part in run]
        if kind == "call":
            for index in values:
                block = _tool_use(answer, int(index), number)
                delta = {"type": "input_json_delta", "partial_json": _text(block["input"])}
                blocks.append(({**block, "input": {}}, [delta]))
        else:
            deltas = [{"type": f"{kind}_delta", kind: value} for value in values]
            blocks.append(({"type": kind, kind: ""}, deltas))
    for index, (block, deltas) in enumerate(blocks):
        chunks.append(_event({"type": "content_block_start", "index": index, "content_block": block}))
        chunks += [_event({"type": "content_block_delta", "index": index, "delta": delta}) for delta in deltas]
        chunks.append(_event({"type": "content_block_stop", "index": index}))
    if answer.error is not None:
        return chunks[:-1]  # The failure shows by nothing but the missing ends.
    usage = {"input_tokens": PROMPT_TOKENS, "output_tokens": _generated(answer)}
    end = {"type": "message_delta", "delta": {"stop_reason": _stop_reason(answer)}, "usage": usage}
    return [*chunks, _event(end), _event({"type": "message_stop"})]


_Writer = Callable[[Answer, Asked, Sequence[_Part]], list[bytes]]
_WHOLE: dict[str, _Writer] = {
    "ollama-chat": _ollama_whole,
    "openai-chat": _openai_whole,
    "openai-responses": _responses_whole,
    "anthropic-messages": _messages_whole,
    "generate": _generate_whole,
}
_STREAMED: dict[str, _Writer] = {
    "ollama-chat": _ollama_streamed,
    "openai-chat": _openai_streamed,
    "openai-responses": _responses_streamed,
    "anthropic-messages": _messages_streamed,
    "generate": _generate_streamed,
}
_NATIVE_JSON = "application/json; charset=utf-8"
_JSON_TYPES = {
    "ollama-chat": _NATIVE_JSON,
    "openai-chat": "application/json",
    "openai-responses": "application/json",
    "anthropic-messages": "application/json",
    "generate": _NATIVE_JSON,
}
_STREAM_TYPES = {
    "ollama-chat": "application/x-ndjson",
    "openai-chat": "text/event-stream",
    "openai-responses": "text/event-stream",
    "anthropic-messages": "text/event-stream",
    "generate": "application/x-ndjson",
}


# -- answers to a schema -----------------------------------------------------------------------------------------


def schema_asked(asked: Asked) -> Document | None:
    """Return the schema a request asks for, None when there is none; /v1/messages cannot carry one."""
    document = asked.document
    if asked.surface in ("ollama-chat", "generate"):
        schema = document.get("format")
    elif asked.surface == "openai-chat":
        schema = ((document.get("response_format") or {}).get("json_schema") or {}).get("schema")
    elif asked.surface == "openai-responses":
        schema = ((document.get("text") or {}).get("format") or {}).get("schema")
    else:
        schema = None
    return schema if isinstance(schema, dict) else None


def fitting(schema: Any, meant: Any = None, root: Any = None) -> Any:
    """Return a value that fits a schema of the subset a grammar knows, taking what was meant where it fits.

    `meant` may be an envelope `{"name", "arguments"}`; a schema for the arguments alone takes them out of it.
    """
    root = schema if root is None else root
    if not isinstance(schema, dict) or not schema:
        return meant if meant is not None else {}
    if "$ref" in schema:
        target = root
        for key in schema["$ref"].lstrip("#/").split("/"):
            target = target[key]
        return fitting(target, meant, root)
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return meant if meant in schema["enum"] else schema["enum"][0]
    for branches in (schema.get("anyOf"), schema.get("oneOf")):
        if branches:
            return fitting(_branch(branches, meant), meant, root)
    kinds = schema.get("type", "object" if "properties" in schema else None)
    kind = kinds[0] if isinstance(kinds, list) else kinds
    if kind == "object":
        return _fitting_object(schema, meant, root)
    if kind == "array":
        items = meant if isinstance(meant, list) else [None] * schema.get("minItems", 0)
        return [fitting(schema.get("items", {}), item, root) for item in items]
    fallback, types = _SCALARS.get(kind, ({}, (object,)))
    fits = isinstance(meant, types) and (kind == "boolean" or not isinstance(meant, bool))
    return meant if fits else fallback


_SCALARS: dict[str | None, tuple[Any, tuple[type, ...]]] = {
    "string": ("text", (str,)),
    "integer": (7, (int,)),
    "number": (1.5, (int, float)),
    "boolean": (True, (bool,)),
    "null": (None, (type(None),)),
}


def _branch(branches: Sequence[Document], meant: Any) -> Document:
    """Choose the branch that names the tool meant, else the first."""
    for branch in branches:
        name = branch.get("properties", {}).get("name", {}) if isinstance(branch, dict) else {}
        if isinstance(meant, dict) and meant.get("name") in [name.get("const"), *name.get("enum", [])]:
            return branch
    return branches[0]


def _fitting_object(schema: Document, meant: Any, root: Any) -> Document:
    properties, required = schema.get("properties", {}), schema.get("required", [])
    wanted = meant if isinstance(meant, dict) else {}
    if set(wanted) == {"name", "arguments"} and "arguments" not in properties:
        wanted = wanted["arguments"]
    return {
        key: fitting(value, wanted.get(key), root)
        for key, value in properties.items()
        if key in wanted or key in required
    }
