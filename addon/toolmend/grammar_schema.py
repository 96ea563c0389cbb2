"""Thin a JSON schema to what the servers' grammars know, so that it is never an error to send it.

llama.cpp turns a schema into a grammar. Most keywords it ignores, some end the request with an error (unknown types,
boolean schemas, patterns it cannot read, pointers with escapes, counts of 2,000 and more), and some it reads more
narrowly than JSON schema does (an object without `additionalProperties` is closed, `{}` is an object). What is
thinned away is checked afterwards, on the answer.

Source: llama.cpp common/json-schema-to-grammar.cpp and src/llama-grammar.cpp.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Final

from toolmend.model import Json, JsonObject

MAX_DEPTH: Final = 24
"""How deep a schema is followed; deeper than that, any value fits."""

MAX_NODES: Final = 4000
"""How many sub-schemas are kept in all; past that, any value fits."""

MAX_ITEMS: Final = 128
"""The most items of a list whose schema sets no maximum: a model that repeats itself comes to an end."""

MAX_COUNT: Final = 1000
"""The largest count that is sent. llama.cpp refuses a grammar of 2,000 repetitions and counts some of its own to them:
`maxItems` 1999 was refused by a real server, 1998 was not (source: common/json-schema-to-grammar.cpp)."""

MAX_QUANTIFIER: Final = 24
MAX_INTEGER: Final = 10**15
FORMATS: Final = ("date", "time", "date-time", "uuid")
TYPES: Final = ("string", "number", "integer", "boolean", "object", "array", "null")

ANY: Final[JsonObject] = {"type": ["string", "number", "boolean", "object", "array", "null"]}
"""A schema that any value fits, in words that every version of the grammar knows."""

# A pattern is kept only if every part of it means the same in the grammar. A quantifier there multiplies the size of
# what it repeats, and the product is limited, so that large counts are not kept.
_ATOM: Final = r"(?:[\w :;,@%&#=!~<>'/-]|\\[.^$|()\[\]{}*+?]|\[\^?[^\[\]\\^\"]+\]|\.)"
PATTERN: Final = re.compile(rf"\^(?:{_ATOM}(?:[*+?]|\{{\d{{1,4}}(?:,\d{{0,4}})?\}})?)*\$", re.ASCII)
COUNT: Final = re.compile(r"(?<!\\)\{(\d+)(?:,(\d*))?\}")


def thin(schema: Json) -> JsonObject:
    """Return a schema of the same values or more, in words that the grammar knows.

    Pointers of the result lead into its own `$defs`.
    """
    defs: JsonObject = {}
    thinned = thin_into(schema, defs)
    return {**thinned, "$defs": defs} if defs else thinned


def thin_into(schema: Json, defs: JsonObject) -> JsonObject:
    """Thin a schema that is to be a part of a larger one.

    Args:
        schema: A whole schema; its pointers lead into itself.
        defs: The `$defs` of the larger schema. What the result points to is added to it.
    """
    return Thinner(schema, defs).node(schema)


def any_object() -> JsonObject:
    """Return a schema that any object fits; in the grammar `{"type": "object"}` alone would do too, but not in all."""
    return {"type": "object", "additionalProperties": dict(ANY)}


@dataclass(slots=True)
class Thinner:
    """Thin parts of one schema: `root` is where its pointers lead into, `defs` gets what the results point to."""

    root: Json
    defs: JsonObject
    names: dict[str, str] = field(default_factory=dict, init=False)
    nodes: int = field(default=0, init=False)

    def node(self, schema: Json, depth: int = 0, unguarded: frozenset[str] = frozenset()) -> JsonObject:
        """Thin one sub-schema.

        `unguarded` names the definitions that began where this node does: pointing back to one of them would be a
        grammar that never gets to a character.
        """
        self.nodes += 1
        if not isinstance(schema, dict) or not schema or depth > MAX_DEPTH or self.nodes > MAX_NODES:
            return dict(ANY)
        if "$ref" in schema:
            return self._ref(schema["$ref"], depth, unguarded)
        if isinstance(schema.get("allOf"), list):
            return self.node(self._merged_all_of(schema), depth + 1, unguarded)
        if "const" in schema:
            return {"const": schema["const"]}
        if isinstance(values := schema.get("enum"), list) and values:
            return {"enum": _of_type(values, schema.get("type"))}
        for keyword in ("anyOf", "oneOf"):
            if isinstance(branches := schema.get(keyword), list) and branches:
                return self._any_of(schema, keyword, branches, depth, unguarded)
        return self._typed(schema, depth)

    def _ref(self, pointer: Json, depth: int, unguarded: frozenset[str]) -> JsonObject:
        target, pointer = self._follow(pointer)
        if target is None or pointer in unguarded:
            return dict(ANY)
        if pointer not in self.names:
            name = f"d{len(self.defs)}"
            self.names[pointer] = name
            self.defs[name] = {}
            self.defs[name] = self.node(target, depth + 1, unguarded | {pointer})
        return {"$ref": f"#/$defs/{self.names[pointer]}"}

    def _follow(self, pointer: Json) -> tuple[Json, str]:
        """Follow a pointer, and those it leads to, to a schema that is no pointer; None when there is none."""
        seen: set[str] = set()
        while isinstance(pointer, str) and pointer not in seen:
            seen.add(pointer)
            target = resolve(self.root, pointer)
            if not isinstance(target, dict) or "$ref" not in target:
                return target, pointer
            pointer = target["$ref"]
        return None, ""

    def _merged_all_of(self, schema: JsonObject, seen: frozenset[str] = frozenset()) -> JsonObject:
        merged = {key: value for key, value in schema.items() if key != "allOf"}
        for part in _objects(schema["allOf"]):
            merged = merge(merged, self._flat(part, seen))
        return merged

    def _flat(self, part: JsonObject, seen: frozenset[str] = frozenset()) -> JsonObject:
        """Return a part with what it points to, and the parts of that, taken in: what leads back adds nothing."""
        self.nodes += 1
        if self.nodes > MAX_NODES or len(seen) > MAX_DEPTH:
            return {}
        if "$ref" in part:
            target, pointer = self._follow(part["$ref"])
            rest = {key: value for key, value in part.items() if key != "$ref"}
            inside = {} if pointer in seen or not isinstance(target, dict) else self._flat(target, seen | {pointer})
            return merge(inside, rest)
        return self._merged_all_of(part, seen) if isinstance(part.get("allOf"), list) else part

    def _any_of(
        self, schema: JsonObject, keyword: str, branches: Sequence[Json], depth: int, unguarded: frozenset[str]
    ) -> JsonObject:
        around = {key: value for key, value in schema.items() if key in STRUCTURE}
        kept: list[Json] = []
        for branch in branches:
            if branch is False:
                continue
            thinned = self.node(self._within(around, branch), depth + 1, unguarded)
            if thinned not in kept:
                kept.append(thinned)
        if len(kept) == 1 and isinstance(kept[0], dict):
            return kept[0]
        return {"anyOf": kept} if kept else dict(ANY)

    def _within(self, around: JsonObject, branch: Json) -> Json:
        """Return a branch with what stands around the alternatives: the grammar reads one or the other."""
        if not isinstance(branch, dict) or set(around) <= ({"type"} if {"type", "$ref"} & set(branch) else set()):
            return branch
        return merge(around, self._flat(branch))

    def _typed(self, schema: JsonObject, depth: int) -> JsonObject:
        types = _types(schema)
        if not types:
            return dict(ANY)
        thinned = [WRITERS[kind](self, schema, depth) for kind in types]
        if len(thinned) == 1:
            return thinned[0]
        if all(set(one) == {"type"} for one in thinned):
            return {"type": [one["type"] for one in thinned]}
        return {"anyOf": list(thinned)}

    def string(self, schema: JsonObject, depth: int) -> JsonObject:
        """Thin a string: a pattern, or a length, or a format."""
        pattern, kind = schema.get("pattern"), schema.get("format")
        if isinstance(pattern, str) and keeps_pattern(pattern):
            return {"type": "string", "pattern": pattern}
        if kind in FORMATS:
            return {"type": "string", "format": kind}
        return {"type": "string", **_counts(schema, "minLength", "maxLength")}

    def number(self, schema: JsonObject, depth: int) -> JsonObject:
        """Thin a number: its limits are not known to the grammar."""
        return {"type": "number"}

    def integer(self, schema: JsonObject, depth: int) -> JsonObject:
        """Thin an integer: its limits as inclusive ones."""
        low = max((limit for limit in _limits(schema, "minimum", "exclusiveMinimum", 1)), default=None)
        high = min((limit for limit in _limits(schema, "maximum", "exclusiveMaximum", -1)), default=None)
        thinned: JsonObject = {"type": "integer"}
        if low is not None and high is not None and low > high:
            return thinned
        if low is not None:
            thinned["minimum"] = low
        if high is not None:
            thinned["maximum"] = high
        return thinned

    def boolean(self, schema: JsonObject, depth: int) -> JsonObject:
        """Thin a boolean."""
        return {"type": "boolean"}

    def null(self, schema: JsonObject, depth: int) -> JsonObject:
        """Thin null."""
        return {"type": "null"}

    def array(self, schema: JsonObject, depth: int) -> JsonObject:
        """Thin a list: a fixed row of items, or items of one kind with a maximum."""
        items = schema.get("items")
        row = items if isinstance(items, list) else schema.get("prefixItems")
        if isinstance(row, list) and row:
            return {"type": "array", "prefixItems": [self.node(item, depth + 1) for item in row]}
        counts = _counts(schema, "minItems", "maxItems")
        least = counts.get("minItems", 0)
        counts.setdefault("maxItems", max(MAX_ITEMS, least if isinstance(least, int) else 0))
        return {"type": "array", "items": self.node(items, depth + 1), **counts}

    def object(self, schema: JsonObject, depth: int) -> JsonObject:
        """Thin an object: its properties, or what any of its values must be."""
        given = schema.get("properties")
        declared = given if isinstance(given, dict) else {}
        required = list(dict.fromkeys(name for name in _list(schema.get("required")) if isinstance(name, str)))
        properties: JsonObject = {
            name: self.node(value, depth + 1) for name, value in declared.items() if value is not False
        }
        for name in required:
            if name not in properties:
                properties[name] = dict(ANY)
        thinned: JsonObject = {"type": "object"}
        if properties:
            thinned["properties"] = properties
        if required:
            thinned["required"] = list(required)
        return {**thinned, **self._others(schema, bool(properties), depth)}

    def _others(self, schema: JsonObject, has_properties: bool, depth: int) -> JsonObject:
        """Say what keys beyond the declared ones may hold: in the grammar, silence means that there are none."""
        patterns = schema.get("patternProperties")
        given = schema.get("additionalProperties", not has_properties)
        if isinstance(patterns, dict) and patterns:
            given = next(iter(patterns.values())) if len(patterns) == 1 else True
        if given is False or (given is True and has_properties):
            return {"additionalProperties": False}
        return {"additionalProperties": self.node(given, depth + 1)}


WRITERS: Final[dict[str, Callable[[Thinner, JsonObject, int], JsonObject]]] = {
    "string": Thinner.string,
    "number": Thinner.number,
    "integer": Thinner.integer,
    "boolean": Thinner.boolean,
    "object": Thinner.object,
    "array": Thinner.array,
    "null": Thinner.null,
}

STRUCTURE: Final = frozenset(
    {"type", "properties", "required", "additionalProperties", "items", "prefixItems", "enum", "const"}
    | {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "minItems", "maxItems", "minLength", "maxLength"}
    | {"pattern", "format"}
)


def resolve(root: Json, pointer: Json) -> Json:
    """Return what a pointer into a schema (`#`, `#/$defs/a~1b`) leads to, None when it leads nowhere."""
    if not isinstance(pointer, str) or not pointer.startswith("#"):
        return None
    node = root
    for step in pointer[1:].split("/")[1:]:
        name = _unescaped(step)
        if isinstance(node, dict) and name in node:
            node = node[name]
        elif isinstance(node, list) and name.isascii() and name.isdigit() and int(name) < len(node):
            node = node[int(name)]
        else:
            return None
    return None if pointer[1:2] not in ("", "/") else node


def _unescaped(step: str) -> str:
    percent = re.sub(r"((?:%[0-9A-Fa-f]{2})+)", _percent_decoded, step)
    return percent.replace("~1", "/").replace("~0", "~")


def _percent_decoded(match: re.Match[str]) -> str:
    return bytes.fromhex(match[1].replace("%", "")).decode("utf-8", "replace")


def merge(one: JsonObject, other: JsonObject) -> JsonObject:
    """Return a schema of the values that fit both, as far as the two can be read together."""
    merged = dict(one)
    for keyword, value in other.items():
        merged[keyword] = MERGED.get(keyword, _later)(merged[keyword], value) if keyword in merged else value
    return merged


def _later(one: Json, other: Json) -> Json:
    return other


def _merged_properties(one: Json, other: Json) -> Json:
    if not isinstance(one, dict) or not isinstance(other, dict):
        return other if isinstance(other, dict) else one
    merged = dict(one)
    for name, value in other.items():
        before = merged.get(name)
        both = isinstance(before, dict) and isinstance(value, dict)
        merged[name] = {"allOf": [before, value]} if both and before != value else value
    return merged


def _union(one: Json, other: Json) -> Json:
    return [*_list(one), *(value for value in _list(other) if value not in _list(one))]


def _common_values(one: Json, other: Json) -> Json:
    common: list[Json] = [value for value in _list(one) if value in _list(other)]
    return common or other


def _common_types(one: Json, other: Json) -> Json:
    first, second = (value if isinstance(value, list) else [value] for value in (one, other))
    common: list[Json] = [kind for kind in first if kind in second or (kind == "integer" and "number" in second)]
    return common or other


def _stricter(one: Json, other: Json) -> Json:
    return False if False in (one, other) else other


MERGED: Final[dict[str, Callable[[Json, Json], Json]]] = {
    "properties": _merged_properties,
    "required": _union,
    "allOf": _union,
    "enum": _common_values,
    "type": _common_types,
    "additionalProperties": _stricter,
}


def keeps_pattern(pattern: str) -> bool:
    """Tell whether a pattern means the same in the grammar: anchored, without classes by letter, counts small."""
    if len(pattern) > 500 or not PATTERN.fullmatch(pattern):
        return False
    counts = [int(number) for match in COUNT.finditer(pattern) for number in match.groups() if number]
    return all(count <= MAX_QUANTIFIER for count in counts)


def _types(schema: JsonObject) -> list[str]:
    given = schema.get("type")
    if given is None:
        return [kind for kind, keywords in HINTS if any(keyword in schema for keyword in keywords)][:1]
    kinds = given if isinstance(given, list) else [given]
    return list(dict.fromkeys(kind for kind in kinds if isinstance(kind, str) and kind in TYPES))


HINTS: Final = (
    ("object", ("properties", "additionalProperties", "patternProperties", "required")),
    ("array", ("items", "prefixItems")),
)


def _of_type(values: Sequence[Json], kinds: Json) -> list[Json]:
    """Return the values of an enum that are of the declared type; all of them when none is."""
    names = kinds if isinstance(kinds, list) else [kinds]
    tests = [test for name in names if isinstance(name, str) and (test := IS_TYPE.get(name))]
    return [value for value in values if any(test(value) for test in tests)] or list(values)


def _is_number(value: Json) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


IS_TYPE: Final[dict[str, Callable[[Json], bool]]] = {
    "string": lambda value: isinstance(value, str),
    "number": _is_number,
    "integer": lambda value: (
        _is_number(value) and (isinstance(value, int) or (isinstance(value, float) and value.is_integer()))
    ),
    "boolean": lambda value: isinstance(value, bool),
    "object": lambda value: isinstance(value, dict),
    "array": lambda value: isinstance(value, list),
    "null": lambda value: value is None,
}


def _counts(schema: JsonObject, least: str, most: str) -> JsonObject:
    low, high = (_count(schema.get(keyword)) for keyword in (least, most))
    if low is not None and high is not None and low > high:
        return {}
    given = {least: low or None, most: high}
    return {keyword: number for keyword, number in given.items() if number is not None}


def _count(value: Json) -> int | None:
    if not _is_number(value) or not isinstance(value, (int, float)) or not 0 <= value <= MAX_COUNT:
        return None
    return int(value) if value == int(value) else None


def _limits(schema: JsonObject, inclusive: str, exclusive: str, step: int) -> Iterable[int]:
    """Yield the limits of an integer as inclusive ones: `step` is 1 for lower limits, -1 for upper ones."""
    rounded = math.ceil if step > 0 else math.floor
    for keyword, shift in ((inclusive, 0), (exclusive, step)):
        value = schema.get(keyword)
        if not _is_number(value) or not isinstance(value, (int, float)) or not abs(value) < MAX_INTEGER:
            continue
        yield int(value) + shift if value == int(value) else rounded(value)


def _list(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []


def _objects(value: Json) -> list[JsonObject]:
    return [part for part in _list(value) if isinstance(part, dict)]
