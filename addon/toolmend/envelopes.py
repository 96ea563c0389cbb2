"""Say in a schema which calls may be answered, and read such an answer back.

A call is asked for as an envelope, `{"name": …, "arguments": {…}}`: seen on every parser to come through as text or to
become a call, and close to what most models are trained to write.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from toolmend.grammar_schema import any_object, resolve, thin_into
from toolmend.lenient_json import parse
from toolmend.model import Json, JsonObject, Request, Tool, ToolCall, Turn

ENVELOPE: Final = "envelope"
"""The dialect of a call that was read from an envelope we asked for."""

NO_ARGUMENTS: Final[JsonObject] = {"type": "object", "properties": {}, "additionalProperties": False}


def allowed_tools(request: Request) -> tuple[Tool, ...]:
    """Return the tools that the choice allows: all that are offered when it names none of them."""
    named = tuple(tool for tool in request.tools if tool.name in request.tool_choice.names)
    return named or request.tools


def arguments_schema(tool: Tool, defs: JsonObject) -> JsonObject:
    """Return the thinned schema of a tool's arguments; what it points to is added to `defs`."""
    if not {"properties", "additionalProperties", "patternProperties", "$ref", "allOf", "anyOf", "oneOf"} & set(
        tool.parameters
    ):
        return dict(NO_ARGUMENTS)
    return as_object(thin_into(tool.parameters, defs), defs)


def as_object(schema: JsonObject, defs: JsonObject) -> JsonObject:
    """Return the schema if it speaks of objects, else one that any object fits."""
    target = resolve({"$defs": defs}, schema["$ref"]) if "$ref" in schema else schema
    speaks = isinstance(target, dict) and (target.get("type") == "object" or "anyOf" in target)
    return schema if speaks else any_object()


def envelope(name: str, arguments: JsonObject) -> JsonObject:
    """Return the schema of one call to one tool."""
    return {
        "type": "object",
        "properties": {"name": {"type": "string", "enum": [name]}, "arguments": arguments},
        "required": ["name", "arguments"],
        "additionalProperties": False,
    }


def envelope_of_any(tools: Sequence[Tool], defs: JsonObject) -> JsonObject:
    """Return the schema of one call to any of these tools; what it points to is added to `defs`."""
    branches: list[Json] = [envelope(tool.name, arguments_schema(tool, defs)) for tool in tools]
    if len(branches) == 1 and isinstance(branches[0], dict):
        return branches[0]
    return {"anyOf": branches}


def with_defs(schema: JsonObject, defs: JsonObject) -> JsonObject:
    """Return the whole schema with what it points to."""
    return {**schema, "$defs": defs} if defs else schema


def read_objects(turn: Turn) -> Iterator[JsonObject]:
    """Yield what may be the answer to a question: calls' arguments, calls as envelopes, the text, the thinking.

    Some parsers make a call of an envelope, or of anything that holds an offered tool's name, which is then its
    arguments; some models' JSON comes as thinking whatever was asked.
    """
    for call in turn.calls:
        if isinstance(call.arguments, dict):
            yield call.arguments
            yield {"name": call.name, "arguments": call.arguments}
    for text in (turn.text, turn.thinking):
        parsed = parse(text) if text.strip() else None
        if parsed is not None and isinstance(parsed.value, dict):
            yield parsed.value


def read_envelope(turn: Turn, request: Request) -> Turn:
    """Read the answer to a first request that was put under a schema: its JSON becomes a call.

    A turn that has a call already, or whose text is no envelope of an offered tool, comes back as it is.
    """
    if turn.calls or turn.error is not None:
        return turn
    for found in read_objects(turn):
        name, arguments = found.get("name"), found.get("arguments")
        if isinstance(name, str) and request.tool(name) is not None and isinstance(arguments, dict):
            call = ToolCall("", name, arguments, dialect=ENVELOPE)
            in_text = bool(turn.text.strip())
            return Turn(
                text="",
                thinking=turn.thinking if in_text else "",
                calls=(call,),
                finish="tool_calls",
                tokens=turn.tokens,
                raw=turn.raw,
            )
    return turn
