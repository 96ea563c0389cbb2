"""Read calls written as JSON: one object, several, an array; in every key style that models use.

Hermes, Granite, Nemotron, Jamba, Hunyuan, MiniMax-M1, Mistral's older arrays, Command-R, Llama 3, functools, xLAM,
Apertus, InternLM, llama.cpp's generic envelope and the OpenAI object copied from a history: they differ in the marker
before it.
"""

from __future__ import annotations

import re
from typing import Final

from toolmend.dialects.positions import blank_end
from toolmend.dialects.source import Reading, Source, State, call, decoded, folded, lacks, properties, words
from toolmend.model import Json, JsonObject, ToolCall

NAME_KEYS: Final = (
    "name",
    "tool_name",
    "function_name",
    "tool",
    "function",
    "func",
    "recipient_name",
    "tool_names",
    "action",
    "call",
)
ARGUMENT_KEYS: Final = (
    "arguments",
    "parameters",
    "args",
    "params",
    "kwargs",
    "input",
    "tool_input",
    "action_input",
    "tool_args",
    "tool_arguments",
    "tool_parameters",
    "function_args",
    "function_arguments",
)
ENVELOPES: Final = ("tool_calls", "tool_call", "function_call", "function_calls", "calls", "tools", "tool_uses")
SIDE_KEYS: Final = words("id type index tool_call_id call_id role content thought thoughts thinking reasoning status")
CALL_TYPES: Final = ("function", "function_call", "tool", "tool_call", "tool_use")
CALL_KEYS: Final = frozenset((*NAME_KEYS, *ARGUMENT_KEYS, *ENVELOPES, *SIDE_KEYS))

OPENING = re.compile(r"[\[\s]{0,64}+\{\s*+")
KEY = re.compile(r"[\"'“”‘’`]?(?P<key>[\w.$-]+)[\"'“”‘’`]?\s*+:\s*+")
PARTIAL_KEY = re.compile(r"[\"'“”‘’`]?(?P<key>[\w.$-]*+)[\"'“”‘’`]?\s*+:?\s*+\Z")
SCALAR = re.compile(
    r"(?:\"(?P<text>[^\"\n]{0,200})\"|'(?P<other>[^'\n]{0,200})'|[“”„](?P<curly>[^“”\n]{0,200})[“”]|"
    r"[\w.+-]++|\[\s*\"[^\"\n]{0,100}\"\s*\])\s*+"
)
PARTIAL_SCALAR = re.compile(
    r"(?:\"[^\"\n]{0,200}|'[^'\n]{0,200}|[“”„][^“”\n]{0,200}|[\w.+-]*+|\[\s*(?:\"[^\"\n]{0,100}(?:\"\s*)?)?)\Z"
)
ARRAY_OPENING = re.compile(r"\[[\[\s]{0,64}+(?=\{)")
BETWEEN = re.compile(r"[\s,;]*+")
ARRAY_END = re.compile(r"[\s,]*+\]++")
NAMED = re.compile(
    r"\W{0,8}(?:[\w\"',: ]{0,80}\"(?:name|tool|function|tool_name)\"\s*:\s*\"(?P<key>[^\"\n]{1,100})\"|"
    r"(?P<callee>[\w.-]{1,100})\()"
)
MEMBERS: Final = 6


class Unreadable(Exception):  # noqa: N818 - a result, caught in this module
    """Say that a value names an offered tool but is no call that can be read."""


def read_json(source: Source, at: int, *, inside: bool) -> Reading | None:
    """Read one object or an array of objects, each of which is a call.

    Outside of a marker the first keys must be those of a call; inside, arguments alone name the only tool they fit.
    """
    text = source.text
    if inside and text.startswith('"', at):
        return _read_members(source, at)
    if not inside and not may_be_call(source, at):
        return None
    if text.startswith("{", at):
        return _read_items(source, at, at, array=False, inside=inside)
    opening = ARRAY_OPENING.match(text, at)
    if opening:
        return _read_items(source, at, opening.end(), array=True, inside=inside)
    return None


def _read_members(source: Source, at: int) -> Reading | None:
    """Read the members of a call object whose braces are missing."""
    item = source.members_at(at)
    if item is None or not (calls := calls_in(source, item[0])):
        return None
    return Reading(item[1], tuple(calls), form="json")


def _read_items(source: Source, start: int, at: int, *, array: bool, inside: bool) -> Reading | None:
    calls: list[ToolCall] = []
    text, position = source.text, at
    while text.startswith("{", position):
        item = source.json_at(position)
        if isinstance(item, str):
            return _broken(source, position, item, calls)
        value, position = item
        try:
            found = calls_in(source, value, inside=inside)
        except Unreadable:
            return Reading(position, tuple(calls), "unreadable", "json")
        if found is None and isinstance(value, dict) and declares(value):
            return None
        if found is None:
            whole = Reading(position, tuple(calls), "unreadable", "json")
            return whole if inside or calls else None
        calls += found
        if not array:
            return Reading(position, tuple(calls), form="json")
        position = _end(BETWEEN, text, position)
    if len(calls) > 1 and not inside and not any(found.arguments for found in calls):
        return None  # names alone: a list of what there is
    if end := ARRAY_END.match(text, position):
        return Reading(end.end(), tuple(calls), form="json")
    position = blank_end(text, position)
    if not calls:
        return None
    return Reading(position, tuple(calls), form="json", closed=False)


def _broken(source: Source, at: int, why: State, calls: list[ToolCall]) -> Reading:
    end = len(source.text)
    if why == "unreadable":
        closer = re.compile(r"</\w|<\w+\|>|<[|｜][^<>]{0,30}end").search(source.text, at)
        end = closer.start() if closer else end
    return Reading(end, tuple(calls), why, "json")


def _end(pattern: re.Pattern[str], text: str, at: int) -> int:
    match = pattern.match(text, at)
    return match.end() if match else at


def calls_in(source: Source, value: Json, *, inside: bool = False) -> list[ToolCall] | None:
    """Return the calls that a decoded value is; None when it is anything else. In a list every item must be a call."""
    if isinstance(value, list):
        calls: list[ToolCall] = []
        for item in value:
            if (found := calls_in(source, item, inside=inside)) is None:
                return None
            calls += found
        return calls or None
    if not isinstance(value, dict):
        return None
    return _from_envelope(source, value) or _from_object(source, value) or _from_bare(source, value, inside=inside)


def _from_envelope(source: Source, value: JsonObject) -> list[ToolCall] | None:
    for key in (*ENVELOPES, "function", "action"):
        inner = value.get(key)
        if isinstance(inner, dict | list) and all(k in SIDE_KEYS or k == key for k in value):
            found = calls_in(source, inner)
            return None if key == "tools" and not any(one.arguments for one in found or ()) else found
    return None


def _from_object(source: Source, value: JsonObject) -> list[ToolCall] | None:
    named = _name_of(value)
    if named is None:
        return None
    key, name = named
    others = {k: v for k, v in value.items() if k != key and k not in SIDE_KEYS}
    given = next((k for k in ARGUMENT_KEYS if k in others), None)
    if given is None:
        return _flat(source, name, {k: v for k, v in value.items() if k != key})
    if looks_like_schema(others[given]) or (not others[given] and isinstance(value.get("description"), str)):
        return None
    return [call(source.clean_name(name), arguments_of(others[given]), "json")]


def _name_of(value: JsonObject) -> tuple[str, str] | None:
    for key in NAME_KEYS:
        name = value.get(key)
        if isinstance(name, list) and len(name) == 1:
            name = name[0]
        if isinstance(name, str) and name.strip():
            return key, name
    return None


def _flat(source: Source, name: str, others: JsonObject) -> list[ToolCall] | None:
    """Read a name with the arguments beside it, or with none at all."""
    tool = source.tool(name)
    if tool is None or (others.get("type", "function") not in CALL_TYPES and "type" not in properties(tool)):
        return None
    arguments = others
    declared = {folded(key) for key in properties(tool)}
    if not all(folded(key) in declared for key in others):
        arguments = {k: v for k, v in others.items() if k not in SIDE_KEYS}
    if not all(folded(key) in declared for key in arguments) or lacks(tool, arguments):
        return None
    return [call(name, arguments, "json")]


def _from_bare(source: Source, value: JsonObject, *, inside: bool) -> list[ToolCall] | None:
    """Read `{"NAME": {arguments}}`; inside a marker also arguments alone, if one offered tool takes them."""
    names = [key for key in value if source.offered(key)]
    if len(names) == 1 and isinstance(value[names[0]], dict):
        if len(value) > 1:
            raise Unreadable
        return [call(names[0], value[names[0]], "json")]
    if not inside or (tool := source.only_tool_for(value)) is None:
        return None
    return [call(tool.name, value, "json")]


def arguments_of(value: Json) -> Json:
    """Return arguments as they were meant: text that holds an object is that object, null is none."""
    if isinstance(value, str):
        inner = decoded(value)
        return inner if isinstance(inner, dict) else value
    return {} if value is None else value


def looks_like_schema(value: Json) -> bool:
    """Tell whether arguments are a JSON schema: a definition, not a call.

    An echo of one that holds values in the place of the properties' schemas is a call.
    """
    if not isinstance(value, dict) or "type" not in value:
        return False
    declared = value.get("properties")
    return isinstance(declared, dict) and (not declared or any(isinstance(one, dict) for one in declared.values()))


def declares(value: JsonObject) -> bool:
    """Tell whether an object is a tool's definition: its schema, with words about it."""
    inner = value.get("function")
    if isinstance(inner, dict):
        return declares(inner)
    return isinstance(value.get("description"), str) and any(
        isinstance(value.get(key), dict) for key in ("parameters", "input_schema", "inputSchema")
    )


def may_be_call(source: Source, at: int) -> bool:
    """Tell by the first keys whether JSON that begins here may be a call.

    What the text's end leaves open may be one while the text goes on.
    """
    text = source.text
    opening = OPENING.match(text, at)
    if opening is None:
        return not source.final and re.compile(r"[\[\s]{0,64}+\Z").match(text, at) is not None
    position = opening.end()
    named = ""
    for _ in range(MEMBERS):
        key = KEY.match(text, position)
        if key is None:
            return _partial_key(source, position)
        name = key["key"]
        if source.offered(name) and not named:
            return text.startswith("{", key.end()) or key.end() == len(text)
        if name not in CALL_KEYS:
            return source.tool(named) is not None
        if name in ENVELOPES or text.startswith("{", key.end()):
            return name in ENVELOPES or name in ARGUMENT_KEYS or name in ("function", "action")
        scalar = SCALAR.match(text, key.end())
        if scalar is None:
            open_end = PARTIAL_SCALAR.match(text, key.end()) is not None
            return (open_end and not source.final) or name in ARGUMENT_KEYS or name in SIDE_KEYS
        if name in NAME_KEYS and not named:
            named = scalar["text"] or scalar["other"] or scalar["curly"] or ""
            if source.tool(named):
                return True
        position = scalar.end()
        if text.startswith("}", position):
            return source.tool(named) is not None
        if text.startswith(",", position):
            position = blank_end(text, position + 1)
    return True


def _partial_key(source: Source, at: int) -> bool:
    match = PARTIAL_KEY.match(source.text, at)
    if match is None or source.final:
        return False
    key = match["key"]
    return any(known.startswith(key) for known in CALL_KEYS) or any(tool.name.startswith(key) for tool in source.tools)


def names_tool(source: Source, at: int) -> bool:
    """Tell whether a form that begins here and is cut names an offered tool."""
    name = NAMED.match(source.text, at)
    return name is not None and source.tool(source.clean_name(name["key"] or name["callee"])) is not None
