"""Tell at once that a value fits a plain schema: nearly all valid calls, for a hundredth of what a full check costs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from toolmend.model import Json, JsonObject

KNOWN: Final = frozenset(
    {
        "$defs",
        "additionalProperties",
        "default",
        "definitions",
        "description",
        "enum",
        "items",
        "properties",
        "required",
        "title",
        "type",
    }
)
TYPES: Final[Mapping[str, Callable[[Json], bool]]] = {
    "string": lambda value: type(value) is str,
    "integer": lambda value: type(value) is int,
    "number": lambda value: type(value) is int or type(value) is float,
    "boolean": lambda value: type(value) is bool,
    "null": lambda value: value is None,
    "object": lambda value: type(value) is dict,
    "array": lambda value: type(value) is list,
}


def surely_fits(value: Json, schema: Json) -> bool:
    """Tell whether a value fits beyond doubt. False says nothing: then the full check tells.

    Args:
        value: The value.
        schema: A tidied schema. One with a keyword that is not among the plain ones leaves a doubt.
    """
    if not isinstance(schema, dict) or not schema.keys() <= KNOWN:
        return False
    kind = schema.get("type")
    if kind is not None and not (isinstance(kind, str) and TYPES[kind](value)):
        return False
    options = schema.get("enum")
    if options is not None and not (isinstance(value, str) and isinstance(options, list) and value in options):
        return False
    if isinstance(value, dict):
        return _members_fit(value, schema)
    items = schema.get("items")
    if items is None or not isinstance(value, list):
        return True
    return all(surely_fits(item, items) for item in value)


def _members_fit(value: JsonObject, schema: JsonObject) -> bool:
    properties, required = schema.get("properties", {}), schema.get("required", [])
    if not isinstance(properties, dict) or not isinstance(required, list):
        return False
    if not all(name in value for name in required):
        return False
    if "additionalProperties" in schema and not value.keys() <= properties.keys():
        return False
    return all(surely_fits(member, properties[name]) for name, member in value.items() if name in properties)
