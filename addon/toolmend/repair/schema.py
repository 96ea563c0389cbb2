"""Check values against a tool's JSON schema: the only place that uses jsonschema.

A schema comes from a stranger. It is tidied before it is used, so that nothing in it can raise, hang or fetch: what is
no schema accepts everything, a `$ref` that does not resolve inside the schema accepts everything, and checking stops
after `MAX_STEPS` steps (then the value counts as fitting).
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final, TypeAlias

from jsonschema import Draft7Validator, Draft202012Validator
from jsonschema.exceptions import ValidationError
from jsonschema.protocols import Validator as JsonSchemaValidator
from jsonschema.validators import extend

from toolmend.fingerprint import fingerprint
from toolmend.model import Fault, Json, JsonObject
from toolmend.repair.quick_check import Check, quick_check

Steps: TypeAlias = tuple[str | int, ...]

MAX_STEPS: Final = 40_000
MAX_DEPTH: Final = 64
MAX_BRANCHES: Final = 256
MAX_RECENT: Final = 64
MAX_MADE: Final = 256
MAX_UNIQUE: Final = 500
MAX_PATTERN: Final = 300
PATTERN_WORK: Final = 1_000_000
MAX_SHOWN: Final = 60

TYPES: Final = frozenset({"array", "boolean", "integer", "null", "number", "object", "string"})
ONE: Final = (
    "additionalItems",
    "additionalProperties",
    "contains",
    "else",
    "if",
    "items",
    "not",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
)
MANY: Final = ("allOf", "anyOf", "oneOf", "prefixItems")
NAMED: Final = ("$defs", "definitions", "dependentSchemas", "patternProperties", "properties")
COUNTS: Final = ("maxContains", "maxItems", "maxLength", "maxProperties")
LEAST: Final = ("minContains", "minItems", "minLength", "minProperties")
LIMITS: Final = ("exclusiveMaximum", "exclusiveMinimum", "maximum", "minimum", "multipleOf")
KEPT: Final = ("const", "default", "description", "title")


@dataclass(frozen=True, slots=True)
class Problem:
    """Hold one failed keyword: where in the value (keys and indices), and the schema that asks for it there.

    `missing` is the name of the member that a `required` problem speaks of, else empty.
    """

    steps: Steps
    keyword: str
    schema: JsonObject
    expected: Json
    value: Json
    missing: str


class Validator:
    """Check values against one schema, or a part of one (`within`). Made by `validator`, one for each schema."""

    def __init__(self, checker: JsonSchemaValidator, root: JsonObject) -> None:
        self._checker = checker
        self._root = root
        self._quick: Check | None = None

    def surely_fits(self, value: Json) -> bool:
        """Tell whether a value fits beyond doubt, its numbers in the form that is asked for; False says nothing."""
        if self._quick is None:
            self._quick = quick_check(self.schema)
        return self._quick(value)

    @property
    def schema(self) -> JsonObject:
        """Return the schema as it is used: tidied."""
        schema = self._checker.schema
        return schema if isinstance(schema, dict) else {}

    def within(self, schema: Json) -> Validator:
        """Return a validator for a part of this schema; its references still resolve."""
        return Validator(self._checker.evolve(schema=schema), self._root)

    def resolve(self, schema: Json) -> JsonObject:
        """Follow `$ref` from a part of this schema. True, and a reference that loops, become `{}`."""
        for _ in range(MAX_DEPTH):
            if not isinstance(schema, dict):
                break
            reference = schema.get("$ref")
            if not isinstance(reference, str):
                return schema
            schema = _resolve(self._root, reference)
        return {}

    def applying(self, schemas: Iterable[Json]) -> Iterator[JsonObject]:
        """Return the schemas that say something of one value: through references and combinations, each once."""
        todo, seen = list(schemas), set[int]()
        while todo and len(seen) < MAX_BRANCHES:
            schema = self.resolve(todo.pop())
            if not schema or id(schema) in seen:
                continue
            seen.add(id(schema))
            yield schema
            for key in ("allOf", "anyOf", "oneOf"):
                parts = schema.get(key)
                todo += parts if isinstance(parts, list) else []

    def problems(self, value: Json) -> tuple[Problem, ...]:
        """Return what does not fit, in the order of the schema's keywords; empty when the value fits."""
        if self.surely_fits(value):
            return ()
        _work.limit = _work.steps + MAX_STEPS
        try:
            return tuple(_problem(error) for error in self._checker.iter_errors(value))
        except (_TooMuch, RecursionError, OverflowError):
            return ()

    def accepts(self, value: Json) -> bool:
        """Tell whether the value fits."""
        return not self.problems(value)

    def faults(self, value: Json, path: str = "") -> tuple[Fault, ...]:
        """Return the defects of a value that stands at `path` in the turn.

        A missing member's path is the one it would have; every surplus member is a fault of its own.
        """
        return tuple(fault for problem in self.problems(value) for fault in _faults(problem, path))


def validator(schema: Json) -> Validator:
    """Return the validator of a schema: the same one for the same schema while it is in use.

    Equal schemas share one, because each request brings its tools anew; within a request the object itself is known.
    A schema must not be edited afterwards.
    """
    known = _recent.get(id(schema))
    if known is not None and known[0] is schema:
        return known[1]
    written = fingerprint(schema)
    if (made := _made.get(written)) is None:
        # What is too long or too deep to be known again accepts everything.
        made = _make(schema if written else {})
        if len(_made) >= MAX_MADE:
            _made.clear()
        _made[written] = made
    if len(_recent) >= MAX_RECENT:
        _recent.clear()
    _recent[id(schema)] = schema, made
    return made


_made: Final[dict[bytes, Validator]] = {}
_recent: Final[dict[int, tuple[Json, Validator]]] = {}


def faults(value: Json, schema: Json, path: str = "") -> tuple[Fault, ...]:
    """Return the defects of a value by a schema (see `Validator.faults`)."""
    return validator(schema).faults(value, path)


def types_of(schema: JsonObject) -> Sequence[str]:
    """Return the types that a schema allows by name; empty when it says nothing of them."""
    types = schema.get("type")
    return [types] if isinstance(types, str) else [str(name) for name in types] if isinstance(types, list) else ()


def properties_of(schema: Json) -> JsonObject:
    """Return the members that a schema declares, with their schemas; `{}` when it declares none."""
    properties = schema.get("properties") if isinstance(schema, dict) else None
    return properties if isinstance(properties, dict) else {}


def schema_inside(schema: JsonObject, step: str | int) -> Json:
    """Return the schema of a member or an item; None when there is none."""
    if isinstance(step, str):
        return properties_of(schema).get(step, schema.get("additionalProperties"))
    first = schema.get("prefixItems")
    return first[step] if isinstance(first, list) and step < len(first) else schema.get("items")


def steps_taken() -> int:
    """Return how many steps all checks have taken so far: the difference says what a piece of work has cost."""
    return _work.steps


def pointer(path: str, *steps: str | int) -> str:
    """Return the JSON pointer that goes on from `path` by these keys and indices."""
    return path + "".join("/" + str(step).replace("~", "~0").replace("/", "~1") for step in steps)


def _make(schema: Json) -> Validator:
    old = isinstance(schema, dict) and re.search(r"draft-0[4-7]", str(schema.get("$schema", "")))
    checker = DRAFT_7 if old else DRAFT_2020
    root = _tidy(schema, tuples="items" if old else "prefixItems", depth=0)
    _drop_dead_references(root, root)
    return Validator(checker(root), root)


# Faults in words


def _faults(problem: Problem, path: str) -> Iterator[Fault]:
    place = pointer(path, *problem.steps)
    match problem.keyword:
        case "required":
            missing = pointer(place, problem.missing)
            yield Fault(missing, "required", f"{missing} is missing")
        case "additionalProperties" if surplus := surplus_keys(problem):
            for key in surplus:
                yield Fault(pointer(place, key), problem.keyword, f"{pointer(place, key)} is not in the schema")
        case _:
            shown = _shown(problem.value)
            yield Fault(place, problem.keyword, f"{place} is {shown}, expected {_expectation(problem)}")


def surplus_keys(problem: Problem) -> list[str]:
    """Return the members that the schema of an `additionalProperties` problem does not allow."""
    if not isinstance(problem.value, dict) or problem.expected is not False:
        return []
    known, patterns = _mapping(problem.schema.get("properties")), _mapping(problem.schema.get("patternProperties"))
    return [
        key for key in problem.value if key not in known and not any(_matches(pattern, key) for pattern in patterns)
    ]


def missing_keys(problem: Problem) -> list[str]:
    """Return the members that a `required` problem's schema asks for and the object lacks."""
    required = problem.schema.get("required")
    if not isinstance(required, list) or not isinstance(problem.value, dict):
        return []
    return [key for key in required if isinstance(key, str) and key not in problem.value]


def _mapping(value: Json) -> JsonObject:
    return value if isinstance(value, dict) else {}


def _shown(value: Json) -> str:
    if isinstance(value, dict | list) and len(value) > 8:
        return "an object" if isinstance(value, dict) else "a list"
    if isinstance(value, str) and len(value) > MAX_SHOWN:
        value = value[:MAX_SHOWN] + "…"
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 2 * MAX_SHOWN else text[: 2 * MAX_SHOWN] + "…"


def _expectation(problem: Problem) -> str:
    expected = problem.expected
    match problem.keyword:
        case "type":
            return " or ".join(str(name) for name in expected) if isinstance(expected, list) else str(expected)
        case "enum":
            return f"one of {_shown(expected)}"
        case "anyOf" | "oneOf" | "allOf" | "not" | "if":
            return f"to fit {problem.keyword}"
    return f"{problem.keyword} {_shown(expected)}"


def _problem(error: ValidationError) -> Problem:
    schema = error.schema if isinstance(error.schema, dict) else {}
    keyword = error.validator if isinstance(error.validator, str) else "false"  # the schema `false` has no keyword
    expected: Any = error.validator_value  # Any: jsonschema knows it as anything
    value: Any = error.instance
    missing = error.message if keyword == "required" else ""
    return Problem(tuple(error.absolute_path), keyword, schema, expected, value, missing)


# Tidying


def _tidy(schema: Any, *, tuples: str, depth: int) -> JsonObject:
    """Copy what is a schema in a schema: each keyword only in a form that can be checked.

    Args:
        schema: Whatever the request has in its place: Any, because nothing is known of it.
        tuples: The keyword that this draft uses for a list of schemas by position.
        depth: How deep in the schema it stands.
    """
    if schema is False:
        return {"not": {}}  # jsonschema loses the place of a schema that is just `false`
    if not isinstance(schema, dict) or depth > MAX_DEPTH:
        return {}

    def inner(part: Any) -> JsonObject:
        return _tidy(part, tuples=tuples, depth=depth + 1)

    tidy: JsonObject = {key: schema[key] for key in KEPT if key in schema}
    tidy |= {key: inner(schema[key]) for key in ONE if isinstance(schema.get(key), dict)}
    tidy |= {key: schema[key] for key in ONE if isinstance(schema.get(key), bool)}
    for key in MANY:
        parts = schema.get(key)
        if isinstance(parts, list) and 0 < len(parts) <= MAX_BRANCHES:
            tidy[key] = [inner(part) for part in parts]
    for key in NAMED:
        if isinstance(schema.get(key), dict):
            # A pattern that cannot be searched for in bounded time says nothing.
            names = [name for name in schema[key] if key != "patternProperties" or _compiled(name)[0]]
            tidy[key] = {name: inner(schema[key][name]) for name in names}
    if isinstance(schema.get("items"), list):
        tidy[tuples] = [inner(part) for part in schema["items"]]
    return tidy | _tidy_plain(schema)


def _tidy_plain(schema: Mapping[str, Any]) -> JsonObject:
    """Copy the keywords that hold no schemas."""
    tidy: JsonObject = {}
    if types := _tidy_types(schema.get("type")):
        tidy["type"] = types
    if isinstance(schema.get("enum"), list) and schema["enum"]:
        tidy["enum"] = schema["enum"]
    if isinstance(schema.get("required"), list):
        tidy["required"] = [name for name in schema["required"] if isinstance(name, str)]
    for key in ("pattern", "$ref"):
        if isinstance(schema.get(key), str):
            tidy[key] = schema[key]
    for key in COUNTS + LEAST + LIMITS:
        # No number of things is below none, and nothing is a multiple of nothing: no schema says so.
        least = 0 if key in COUNTS + LEAST else 5e-324 if key == "multipleOf" else float("-inf")
        if _is_number(schema.get(key)) and schema[key] >= least:
            tidy[key] = schema[key]
    if isinstance(schema.get("uniqueItems"), bool):
        tidy["uniqueItems"] = schema["uniqueItems"]
    dependent = schema.get("dependentRequired")
    if isinstance(dependent, dict) and all(isinstance(names, list) for names in dependent.values()):
        tidy["dependentRequired"] = dependent
    return tidy


def _tidy_types(types: Any) -> Json:
    if isinstance(types, str):
        return types if types in TYPES else None
    if isinstance(types, list) and types and all(isinstance(name, str) and name in TYPES for name in types):
        return types
    return None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value == value


def _drop_dead_references(schema: Json, root: JsonObject) -> None:
    """Take out each `$ref` that does not lead to a place inside the schema, or only to itself."""
    if isinstance(schema, list):
        for part in schema:
            _drop_dead_references(part, root)
    if not isinstance(schema, dict):
        return
    reference = schema.get("$ref")
    if isinstance(reference, str) and not _leads_somewhere(root, reference):
        del schema["$ref"]
    for key, part in schema.items():
        if key in NAMED and isinstance(part, dict):
            for named in part.values():
                _drop_dead_references(named, root)
        elif key in ONE or key in MANY:
            _drop_dead_references(part, root)


def _leads_somewhere(root: JsonObject, reference: str) -> bool:
    seen: set[str] = set()
    while reference not in seen:
        seen.add(reference)
        target = _resolve(root, reference)
        if not isinstance(target, dict | bool):
            return False
        if isinstance(target, bool) or not isinstance(target.get("$ref"), str):
            return True
        reference = str(target["$ref"])
    return False


def _resolve(root: JsonObject, reference: str) -> Json:
    """Return what a JSON pointer (`#/$defs/Day`) points to; None when it points nowhere, or out of the schema."""
    if reference == "#":
        return root
    if not reference.startswith("#/"):
        return None
    here: Json = root
    for step in reference[2:].split("/"):
        step = _unquote(step).replace("~1", "/").replace("~0", "~")
        if isinstance(here, list) and step.isdecimal() and int(step) < len(here):
            here = here[int(step)]
        elif isinstance(here, dict) and step in here:
            here = here[step]
        else:
            return None
    return here


def _unquote(text: str) -> str:
    return re.sub(r"%([0-9a-fA-F]{2})", lambda match: chr(int(match[1], 16)), text) if "%" in text else text


# Checking, in bounded time


class _TooMuch(Exception):  # noqa: N818 - it ends the checking, nothing is wrong
    """Say that checking takes too long."""


class _Work:
    """Count the steps of all checks, and say at which count this one ends."""

    steps = 0
    limit = MAX_STEPS


_work: Final = _Work()

# Any: these are jsonschema's own signatures.
Keyword: TypeAlias = Callable[[Any, Any, Any, Any], Iterator[ValidationError] | None]


def _counted(keyword: Keyword) -> Keyword:
    def check(checker: Any, expected: Any, value: Any, schema: Any) -> Iterator[ValidationError] | None:
        _work.steps += 1
        if _work.steps > _work.limit:
            raise _TooMuch
        return keyword(checker, expected, value, schema)

    return check


def _pattern(checker: Any, expected: str, value: Any, schema: Any) -> Iterator[ValidationError]:
    if isinstance(value, str) and not _matches(expected, value):
        yield ValidationError(f"does not match {expected}")


def _pattern_properties(checker: Any, expected: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
    if isinstance(value, dict):
        for pattern, part in expected.items():
            for key, member in value.items():
                if _matches(pattern, key):
                    yield from checker.descend(member, part, path=key, schema_path=pattern)


def _additional_properties(checker: Any, expected: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
    if not isinstance(value, dict):
        return
    known, patterns = schema.get("properties", {}), schema.get("patternProperties", {})
    extra = [key for key in value if key not in known and not any(_matches(pattern, key) for pattern in patterns)]
    if isinstance(expected, dict):
        for key in extra:
            yield from checker.descend(value[key], expected, path=key)
    elif expected is False and extra:
        yield ValidationError("surplus members")


def _required(checker: Any, expected: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
    if isinstance(value, dict):
        yield from (ValidationError(key) for key in expected if key not in value)


def _unique_items(checker: Any, expected: Any, value: Any, schema: Any) -> Iterator[ValidationError]:
    if isinstance(value, list) and len(value) > MAX_UNIQUE:
        return
    yield from Draft202012Validator.VALIDATORS["uniqueItems"](checker, expected, value, schema) or ()


def _matches(pattern: str, text: str) -> bool:
    """Search for a pattern, unless that may take long: then the text counts as matching."""
    compiled, wild = _compiled(pattern)
    if compiled is None or (len(text) + 1) ** wild > PATTERN_WORK:
        return True
    return compiled.search(text) is not None


@lru_cache(maxsize=256)
def _compiled(pattern: str) -> tuple[re.Pattern[str] | None, int]:
    """Compile a pattern that is safe to search for, and tell how many of its parts may run over the whole text."""
    if len(pattern) > MAX_PATTERN or _is_explosive(pattern):
        return None, 0
    try:
        compiled = re.compile(pattern)
    except (re.error, OverflowError, RecursionError):
        return None, 0
    plain = re.sub(r"\\.|\[(?:\\.|[^\]\\])*\]", "x", pattern)
    wild = len(re.findall(r"[*+]|\{\d*,\d*\}|\{\d{2,}\}", plain))
    return compiled, wild + (wild > 0 and not pattern.startswith("^"))


def _is_explosive(pattern: str) -> bool:
    """Tell whether a group that repeats holds a choice or a repetition itself: its search may never end."""
    plain = re.sub(r"\\.|\[(?:\\.|[^\]\\])*\]", "x", pattern)
    opened: list[bool] = []
    for index, character in enumerate(plain):
        if character == "(":
            opened.append(False)
        elif character == ")" and opened:
            inner = opened.pop()
            if inner and plain[index + 1 : index + 2] in ("*", "+", "{"):
                return True
            if opened:
                opened[-1] |= inner
        elif character in "*+{|" and opened:
            opened[-1] = True
    return bool(re.search(r"\\[1-9]|\(\?P=", pattern))


REPLACED: Final[dict[str, Keyword]] = {
    "additionalProperties": _additional_properties,
    "pattern": _pattern,
    "patternProperties": _pattern_properties,
    "required": _required,
    "uniqueItems": _unique_items,
}


def _bounded(draft: Any) -> Any:
    """Return a draft's validator class that counts its steps."""
    keywords = {**draft.VALIDATORS, **{key: REPLACED[key] for key in REPLACED if key in draft.VALIDATORS}}
    counted = {key: _counted(check) for key, check in keywords.items()}
    return extend(draft, counted)  # type: ignore[no-untyped-call]  # jsonschema has not typed it


DRAFT_7: Final = _bounded(Draft7Validator)
DRAFT_2020: Final = _bounded(Draft202012Validator)
