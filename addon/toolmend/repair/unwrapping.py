"""Take arguments out of what they were wrapped in: an envelope, a container, a schema's echo, a list."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from toolmend import lenient_json
from toolmend.model import Json, JsonObject, Tool
from toolmend.repair.names import folded, snap
from toolmend.repair.schema import properties_of

MAX_LAYERS: Final = 3
NAMES: Final = ("name", "tool", "tool_name", "function_name", "function", "recipient_name", "action")
CONTAINERS: Final = (
    "arguments",
    "parameters",
    "args",
    "params",
    "input",
    "kwargs",
    "tool_input",
    "tool_args",
    "action_input",
    "function_args",
)
INSIDE: Final = ("function", "tool_call", "function_call")
WRAPPING: Final = frozenset({*NAMES, *CONTAINERS, *INSIDE, "properties"})
"""Names without one of which an object of several members wraps nothing."""
BESIDE: Final = frozenset({"id", "index", "tool_call_id", "type", "call_id"})
SCHEMA_WORDS: Final = frozenset(
    {"$schema", "additionalProperties", "description", "properties", "required", "title", "type"}
)

SIBLING: Final = re.compile(
    r"(?<!\s)\s*</arg_value>\s*<arg_key>(?P<key>[^<>]*)</arg_key>\s*<arg_value>"
    r"|\n?</parameter>\s*<parameter=(?P<name>[^<>\s]+)>\n?"
)
CLOSER: Final = re.compile(r"(?<!\s)\s*(?:</arg_value>|\n?</parameter>)\s*(?:</function>|</tool_call>)?\s*\Z")


@dataclass(frozen=True, slots=True)
class Envelope:
    """Hold a call that stands inside arguments: the name written there, and its arguments."""

    name: str
    arguments: Json


@dataclass(frozen=True, slots=True)
class Layer:
    """Hold arguments as they are one layer further in.

    `sure` says that the wrapper cannot be arguments itself, even where the schema accepts it.
    """

    arguments: Json
    note: str
    sure: bool = False


def envelope(value: Json) -> Envelope | None:
    """Read `{name, arguments}`, in the names that models give the two, also inside `function`."""
    if not isinstance(value, dict):
        return None
    inner = next((found for key in INSIDE if (found := value.get(key))), None)
    if isinstance(inner, dict) and value.keys() - set(INSIDE) <= BESIDE:
        return envelope(inner)
    named = [key for key in NAMES if isinstance(value.get(key), str)]
    contained = [key for key in CONTAINERS if key in value]
    if len(named) != 1 or len(contained) > 1 or not value.keys() - {*named, *contained} <= BESIDE:
        return None
    return Envelope(str(value[named[0]]), _opened(value[contained[0]]) if contained else {})


def may_be_wrapped(arguments: JsonObject, tool: Tool) -> bool:
    """Tell whether any layer around these arguments could be sure (`Layer.sure`): a look at their names alone."""
    alone = len(arguments) == 1 and not _is_declared(arguments, properties_of(tool.parameters))
    return alone or not WRAPPING.isdisjoint(arguments)


def layers(arguments: Json, tool: Tool) -> Iterator[Layer]:
    """Return what the arguments may be wrapped in, for a call of this tool; the ladder takes what then fits."""
    declared = properties_of(tool.parameters)
    if isinstance(arguments, dict):
        yield from _layers_of_object(arguments, tool, declared)
        if (split := _with_siblings(arguments, declared)) is not None:
            yield Layer(split, "arguments inside an argument")
    elif isinstance(arguments, list):
        if len(arguments) == 1 and isinstance(arguments[0], dict):
            yield Layer(arguments[0], "in a list")
        if (name := _only_list(declared, tool)) is not None:
            yield Layer({name: arguments}, "the list alone")


def _layers_of_object(arguments: JsonObject, tool: Tool, declared: JsonObject, depth: int = 1) -> Iterator[Layer]:
    call = envelope(arguments)
    if call is not None and isinstance(call.arguments, dict) and _names(call.name, tool):
        yield Layer(call.arguments, "the whole call", sure=_is_meant(call.arguments, tool, declared, depth))
    if len(arguments) == 1:
        (key, value), *_ = arguments.items()
        inner = _opened(value)
        if isinstance(inner, dict) and (key in CONTAINERS or folded(key) in _own_names(tool)):
            sure = key not in declared and bool(declared) and _is_meant(inner, tool, declared, depth)
            yield Layer(inner, f"under {key}", sure=sure)
    echoed = arguments.get("properties")
    if isinstance(echoed, dict) and "properties" not in declared and arguments.keys() <= SCHEMA_WORDS:
        yield Layer(echoed, "under properties", sure=bool(echoed) and _is_declared(echoed, declared))


def _own_names(tool: Tool) -> set[str]:
    return {folded(tool.name), folded(tool.local_name)}


def _names(name: str, tool: Tool) -> bool:
    return snap(name, (tool,)) is not None


def _is_meant(arguments: JsonObject, tool: Tool, declared: JsonObject, depth: int) -> bool:
    """Tell whether an object, taken out of `depth` wrappers, holds only a tool's members, or is a wrapper of such."""
    if _is_declared(arguments, declared):
        return True
    inside = _layers_of_object(arguments, tool, declared, depth + 1) if depth < MAX_LAYERS else ()
    return any(layer.sure for layer in inside)


def _is_declared(arguments: JsonObject, declared: JsonObject) -> bool:
    return arguments.keys() <= declared.keys()


def _opened(value: Json) -> Json:
    """Return the object that a text holds, else the value."""
    if not isinstance(value, str):
        return value
    parsed = lenient_json.parse(value)
    return parsed.value if parsed is not None and isinstance(parsed.value, dict) else value


def _only_list(declared: JsonObject, tool: Tool) -> str | None:
    """Return the tool's one parameter, or its one required one, if that is a list."""
    required = tool.parameters.get("required")
    names = list(declared) if len(declared) == 1 else required if isinstance(required, list) else []
    if len(names) != 1 or not isinstance(names[0], str):
        return None
    schema = declared.get(names[0])
    return names[0] if isinstance(schema, dict) and schema.get("type") == "array" else None


def _with_siblings(arguments: JsonObject, declared: JsonObject) -> JsonObject | None:
    """Split a value that swallowed the arguments behind it, with the tags that stood between them."""
    members: JsonObject = {}
    for key, value in arguments.items():
        if not isinstance(value, str) or not SIBLING.search(value):
            members[key] = value
            continue
        start = 0
        for sibling in SIBLING.finditer(value):
            members[key] = value[start : sibling.start()]
            key, start = (sibling["key"] or sibling["name"] or "").strip(), sibling.end()
            if key not in declared or key in arguments:
                return None
        members[key] = CLOSER.sub("", value[start:])
    return members if members.keys() != arguments.keys() else None
