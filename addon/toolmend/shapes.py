"""Take what was said out of requests: messages and unknown fields become their shape, tools stay.

And take out of answers what they repeat of a request: Responses objects hold its instructions, tools and metadata.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from typing import Final, TypeAlias

from toolmend.model import Json, JsonObject

Chunks: TypeAlias = tuple[tuple[bytes, int], ...]

# What a request keeps as it is (the values still go through the patterns). All else is replaced by its shape.
KEPT_FIELDS: Final = frozenset(
    {
        *("model", "stream", "stream_options", "tool_choice", "parallel_tool_calls", "think", "thinking", "reasoning"),
        *("reasoning_effort", "format", "response_format", "text", "options", "max_tokens", "max_completion_tokens"),
        *("max_output_tokens", "temperature", "top_p", "top_k", "seed", "n", "keep_alive", "logprobs", "top_logprobs"),
        *("raw", "_debug_render_only"),
    }
)
MESSAGE_FIELDS: Final = frozenset({"messages", "input", "system", "instructions", "prompt"})
KEPT_IN_MESSAGES: Final = frozenset(
    {"role", "type", "name", "tool_name", "id", "call_id", "tool_call_id", "tool_use_id"}
)
KEPT_IN_TOOLS: Final = frozenset({"type", "name", "strict"})
SCHEMAS_IN_TOOLS: Final = frozenset({"parameters", "input_schema"})
TOLD_IN_SCHEMAS: Final = frozenset({"description", "examples", "$comment", "markdownDescription"})
LAST_MESSAGES: Final = 3

# The words of a description that a repair rule reads (a string parameter that is to hold JSON).
READ_WORDS: Final = re.compile(r"\bjson\b", re.IGNORECASE)


def shape(text: str) -> str:
    """Say how long a text is, in its place."""
    return f"[{len(text)} characters]"


def shape_description(text: str) -> str:
    """Say how long a description is, and keep the words in it that repair rules read."""
    return f"[{len(text)} characters{', JSON' if READ_WORDS.search(text) else ''}]"


def shape_request(document: JsonObject, *, answer: str = "", keep_prompts: bool = False) -> JsonObject:
    """Return a request without what was said in it: messages and unknown fields become their shape, tools stay.

    Args:
        document: The request's body. It is not changed.
        answer: What came: a tool's description that stands in it is kept (models call tools by it).
        keep_prompts: Keep the messages whole.
    """
    told = _plain(answer)
    shaped: JsonObject = {}
    for key, value in document.items():
        if key in KEPT_FIELDS or (keep_prompts and key in MESSAGE_FIELDS):
            shaped[key] = value
        elif key in ("tools", "functions"):
            shaped[key] = (
                [_shape_tool(tool, told) for tool in value] if isinstance(value, list) else _shape_value(value)
            )
        elif key in MESSAGE_FIELDS and isinstance(value, list):
            shaped[key] = [_shape_message(message) for message in _last_messages(value)]
        else:
            shaped[key] = _shape_value(value)
    return shaped


def _last_messages(messages: list[Json]) -> list[Json]:
    """Keep the first message if it instructs, and the last ones: a fault needs no history."""
    first = messages[:1]
    instructs = bool(first) and isinstance(first[0], dict) and first[0].get("role") in ("system", "developer")
    head = first if instructs and len(messages) > LAST_MESSAGES else []
    return head + messages[-LAST_MESSAGES:]


def _shape_value(value: Json) -> Json:
    match value:
        case str():
            return shape(value)
        case list():
            return [_shape_value(part) for part in value]
        case dict():
            return {key: _shape_value(part) for key, part in value.items()}
        case _:
            return value


def _shape_message(message: Json) -> Json:
    match message:
        case list():
            return [_shape_message(part) for part in message]
        case dict():
            return {key: _shape_part(key, part) for key, part in message.items()}
        case _:
            return _shape_value(message)


def _shape_part(key: str, part: Json) -> Json:
    """Shape one field of a message. Arguments given as text stay JSON, which servers want them to be."""
    if key in KEPT_IN_MESSAGES and isinstance(part, str):
        return part
    if key == "arguments" and isinstance(part, str):
        try:
            return json.dumps(_shape_value(json.loads(part)))
        except ValueError:
            return shape(part)
    return _shape_message(part)


def _plain(text: str) -> str:
    return " ".join(text.split()).rstrip(".").lower()


def _shape_tool(tool: Json, told: str) -> Json:
    if not isinstance(tool, dict):
        return _shape_value(tool)
    shaped: JsonObject = {}
    for key, value in tool.items():
        if key in KEPT_IN_TOOLS:
            shaped[key] = value
        elif key in SCHEMAS_IN_TOOLS:
            shaped[key] = _shape_schema(value)
        elif key == "description" and isinstance(value, str):
            shaped[key] = value if _plain(value) and _plain(value) in told else shape_description(value)
        elif key == "function":
            shaped[key] = _shape_tool(value, told)
        elif key == "tools" and isinstance(value, list):
            shaped[key] = [_shape_tool(inner, told) for inner in value]
        else:
            shaped[key] = _shape_value(value)
    return shaped


def _shape_schema(schema: Json) -> Json:
    """Shape what a JSON schema tells in words; a property that has such a name is no string, and stays."""
    match schema:
        case list():
            return [_shape_schema(part) for part in schema]
        case dict():
            return {
                key: (shape_description(part) if isinstance(part, str) else _shape_value(part))
                if key in TOLD_IN_SCHEMAS and not isinstance(part, dict)
                else _shape_schema(part)
                for key, part in schema.items()
            }
        case _:
            return schema


# What an answer repeats of its request, and what stands for it. Source: openai/responses.go, and captured answers.
ECHOES: Final[Mapping[str, Mapping[str, str]]] = {
    "openai-responses": {
        "instructions": "null",
        "metadata": "{}",
        "previous_response_id": "null",
        "prompt_cache_key": "null",
        "safety_identifier": "null",
        "tools": "[]",
        "user": "null",
    }
}


def without_echoes(surface: str, chunks: Chunks) -> Chunks:
    """Return an answer without what it repeats of its request, cut where it was cut.

    Args:
        surface: The surface's name; only some repeat anything.
        chunks: The answer's bytes, each part with its time.
    """
    empty = ECHOES.get(surface)
    if empty is None:
        return chunks
    key = re.compile(rf'(?<!\\)"({"|".join(empty)})":\s*')
    body = b"".join(data for data, _ in chunks).decode("latin-1")
    edits, start = [], 0
    while found := key.search(body, start):
        start = _value_end(body, found.end())
        if start > found.end() + len(empty[found[1]]):
            edits.append((found.end(), start, empty[found[1]].encode()))
    return _edited(chunks, edits)


def _value_end(text: str, start: int) -> int:
    """Return where the JSON value that begins here ends; its beginning when it is broken."""
    try:
        return json.JSONDecoder(strict=False).raw_decode(text, start)[1]
    except (ValueError, RecursionError):
        return start


def _edited(chunks: Chunks, edits: Sequence[tuple[int, int, bytes]]) -> Chunks:
    """Replace parts of a body, in order; what takes the place of a part comes with the chunk in which that ends."""
    body = b"".join(data for data, _ in chunks)
    pieces, place = [], 0
    for start, stop, new in edits:
        pieces += [body[place:start], new]
        place = stop
    changed = b"".join([*pieces, body[place:]])

    def moved_to(position: int) -> int:
        done = sum(len(new) - (stop - start) for start, stop, new in edits if stop <= position)
        within = next((start for start, stop, _ in edits if start < position < stop), position)
        return within + done

    cut, end = [], 0
    for data, at in chunks:
        begin, end = end, end + len(data)
        cut.append((changed[moved_to(begin) : moved_to(end)], at))
    return tuple((data, at) for data, at in cut if data)


# The end of a rendered prompt: tags of the template and the name of who speaks next. Questions are made by it.
PROMPT_END: Final = re.compile(r"(?:\s*(?:<[\w|/:｜▁-]{1,30}>|\[/?[A-Z_]+\])(?:assistant|model|user|system)?)*\s*\Z")
LONGEST_END: Final = 200


def shape_reply(body: bytes) -> bytes:
    """Return a reply without the prompt in it: rendered (`_debug_info`), or as its tokens' numbers (`context`)."""
    try:
        document = json.loads(body)
    except (ValueError, RecursionError):
        return body
    if not isinstance(document, dict) or not {"_debug_info", "context"} & set(document):
        return body
    shaped = {key: [] if key == "context" else value for key, value in document.items()}
    if "_debug_info" in document:
        shaped["_debug_info"] = _shape_prompt(document["_debug_info"])
    return json.dumps(shaped).encode()


def _shape_prompt(info: Json) -> Json:
    prompt = info.get("rendered_template") if isinstance(info, dict) else None
    if not isinstance(prompt, str):
        return _shape_value(info)
    end = PROMPT_END.search(prompt, max(0, len(prompt) - LONGEST_END))
    return {"rendered_template": shape(prompt) + (end.group() if end else "")}
