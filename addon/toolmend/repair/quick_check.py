"""Tell beyond doubt that a value fits a plain schema: nearly all valid calls, at a hundredth of a full check's cost.

The schema is made into functions once, so that a call costs one look at each of its values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final, TypeAlias

from toolmend.model import Json, JsonObject

Check: TypeAlias = Callable[[Json], bool]

KNOWN: Final = frozenset(
    {
        "$defs",
        "additionalProperties",
        "anyOf",
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
SHAPE: Final = frozenset({"additionalProperties", "enum", "items", "properties", "required", "type"})
NULL: Final = {"type": "null"}
TYPES: Final[Mapping[str, Check]] = {
    "string": lambda value: type(value) is str,
    "integer": lambda value: type(value) is int,
    "number": lambda value: type(value) is int or type(value) is float,
    "boolean": lambda value: type(value) is bool,
    "null": lambda value: value is None,
    "object": lambda value: type(value) is dict,
    "array": lambda value: type(value) is list,
}


def quick_check(schema: Json) -> Check:
    """Return the function that tells whether a value fits a schema beyond doubt.

    Args:
        schema: A tidied schema. One with a keyword that is not among the plain ones leaves a doubt.

    Returns:
        A function whose False says nothing: then the full check tells. Its True says too that no number is written in
        another form than the schema asks for.
    """
    if not isinstance(schema, dict) or not schema.keys() <= KNOWN:
        return _doubt
    if "anyOf" in schema:
        return _nullable(schema)
    kind, options = schema.get("type"), schema.get("enum")
    if isinstance(kind, list):
        return _doubt if options is not None else _typed(kind, _untyped(schema))
    if options is not None:
        return _one_of(options) if kind in (None, "string") else _doubt
    if kind == "array":
        return _list(quick_check(schema["items"])) if "items" in schema else TYPES["array"]
    if kind == "object":
        return _members(schema)
    return TYPES[kind] if isinstance(kind, str) else _untyped(schema)


def _doubt(value: Json) -> bool:
    return False


def _one_of(options: Json) -> Check:
    """Check for an enum of texts; other values are equal to each other in ways of their own."""
    texts = frozenset(option for option in options if isinstance(option, str)) if isinstance(options, list) else ()
    return lambda value: type(value) is str and value in texts


def _nullable(schema: JsonObject) -> Check:
    """Check for what may be null instead, as generators of schemas write it: `{"anyOf": [{…}, {"type": "null"}]}`."""
    options = schema["anyOf"]
    if not isinstance(options, list) or len(options) != 2 or NULL not in options or schema.keys() & SHAPE:
        return _doubt
    fits = quick_check(options[0] if options[1] == NULL else options[1])
    return lambda value: value is None or fits(value)


def _typed(kinds: list[Json], fits: Check) -> Check:
    checks = [TYPES[kind] for kind in kinds if isinstance(kind, str)]
    return lambda value: any(check(value) for check in checks) and fits(value)


def _list(item_fits: Check) -> Check:
    return lambda value: type(value) is list and all(map(item_fits, value))


def _members(schema: JsonObject) -> Check:
    properties, required = schema.get("properties", {}), schema.get("required", [])
    if not isinstance(properties, dict) or not isinstance(required, list):
        return _doubt
    checks = {name: quick_check(inner) for name, inner in properties.items()}
    closed, needed = "additionalProperties" in schema, frozenset(map(str, required))

    def fit(value: Json) -> bool:
        if type(value) is not dict or not needed <= value.keys():
            return False
        for name, member in value.items():
            check = checks.get(name)
            if check is None:
                if closed:
                    return False
            elif not check(member):
                return False
        return True

    return fit


def _untyped(schema: JsonObject) -> Check:
    """Check what has no type: members and items count where the value has any."""
    members = _members(schema)
    items = quick_check(schema["items"]) if "items" in schema else None

    def fit(value: Json) -> bool:
        if type(value) is dict:
            return members(value)
        return items is None or type(value) is not list or all(map(items, value))

    return fit
