"""Schemas come from strangers: they are checked, and can neither raise, hang nor fetch."""

from __future__ import annotations

import time

import pytest

from toolmend.model import Fault, Json
from toolmend.repair.schema import faults, pointer, validator

DRAFT_7 = {"$schema": "http://json-schema.org/draft-07/schema#"}
DAY: Json = {"type": "object", "properties": {"hour": {"type": "integer"}}, "required": ["hour"]}


def found(value: Json, schema: Json) -> list[tuple[str, str]]:
    return [(fault.path, fault.keyword) for fault in faults(value, schema)]


FAULTY: list[tuple[str, Json, Json, list[tuple[str, str]]]] = [
    ("a type", {"properties": {"a": {"type": "integer"}}}, {"a": "3"}, [("/a", "type")]),
    ("a missing member", {"type": "object", "required": ["a/b"]}, {}, [("/a~1b", "required")]),
    ("two surplus members", {"additionalProperties": False}, {"a": 1, "b~": 2}, [("/a", "additionalProperties"), ("/b~0", "additionalProperties")]),
    ("an item", {"properties": {"a": {"items": {"enum": ["x"]}}}}, {"a": ["x", "y"]}, [("/a/1", "enum")]),
    ("$defs", {"$defs": {"Day": DAY}, "properties": {"d": {"$ref": "#/$defs/Day"}}}, {"d": {}}, [("/d/hour", "required")]),
    ("definitions", {"definitions": {"a/b": DAY}, "$ref": "#/definitions/a~1b"}, {}, [("/hour", "required")]),
    ("a reference in draft 7", {**DRAFT_7, "definitions": {"D": DAY}, "allOf": [{"$ref": "#/definitions/D"}]}, {}, [("/hour", "required")]),
    ("anyOf", {"anyOf": [{"type": "integer"}, {"type": "null"}]}, "x", [("", "anyOf")]),
    ("oneOf", {"oneOf": [{"type": "integer"}, {"minimum": 2}]}, 3, [("", "oneOf")]),
    ("allOf", {"allOf": [{"type": "integer"}, {"maximum": 2}]}, 3, [("", "maximum")]),
    ("items by position", {"prefixItems": [{"type": "integer"}]}, ["x"], [("/0", "type")]),
    ("items by position, in draft 7", {**DRAFT_7, "items": [{"type": "integer"}]}, ["x"], [("/0", "type")]),
    ("items by position, written the old way", {"items": [{"type": "integer"}]}, ["x"], [("/0", "type")]),
    ("a schema that is false", {"properties": {"a": False}}, {"a": 1}, [("/a", "not")]),
    ("a pattern", {"pattern": "^[a-z]+$"}, "A", [("", "pattern")]),
    ("members by pattern", {"patternProperties": {"^n": {"type": "integer"}}, "additionalProperties": False}, {"n": "1"}, [("/n", "type")]),
    ("a member that no pattern knows", {"patternProperties": {"^n": {"type": "integer"}}, "additionalProperties": False}, {"n": 1, "m": 2}, [("/m", "additionalProperties")]),
    ("members of a map", {"properties": {"b": {"type": "string"}}, "additionalProperties": {"type": "integer"}}, {"a": "x", "b": "y", "c": 3}, [("/a", "type")]),
    ("a reference through a list", {"allOf": [DAY], "properties": {"d": {"$ref": "#/allOf/0"}}}, {"hour": 1, "d": {}}, [("/d/hour", "required")]),
    ("items that must differ", {"uniqueItems": True}, [1, 2, 1], [("", "uniqueItems")]),
    ("a member that another one needs", {"dependentRequired": {"a": ["b"]}}, {"a": 1}, [("", "dependentRequired")]),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "value", "wanted"), [row[1:] for row in FAULTY], ids=[row[0] for row in FAULTY])
def test_what_does_not_fit_is_a_fault_with_its_place(schema: Json, value: Json, wanted: list[tuple[str, str]]) -> None:
    assert found(value, schema) == wanted


def test_a_fault_names_the_place_and_the_value() -> None:
    schema: Json = {"type": "object", "properties": {"days": {"type": "integer"}}, "required": ["days", "city"]}
    assert faults({"days": "3"}, schema, "/calls/0/arguments") == (
        Fault("/calls/0/arguments/days", "type", '/calls/0/arguments/days is "3", expected integer'),
        Fault("/calls/0/arguments/city", "required", "/calls/0/arguments/city is missing"),
    )


def test_a_message_stays_short() -> None:
    (fault,) = faults("x" * 1_000_000, {"type": "integer"})
    assert len(fault.message) < 200


NO_SCHEMAS: list[Json] = [
    None,
    [],
    "object",
    True,
    {},
    {"type": "banana"},
    {"type": ["integer", 3]},
    {"properties": None, "required": "a", "enum": "x", "items": 3},
    {"required": [1, None]},
    {"anyOf": []},
    {"anyOf": "x"},
    {"minimum": "3", "maxLength": None, "multipleOf": 0},
    {"pattern": "("},
    {"patternProperties": {"(": {"type": "integer"}}},
    {"$ref": "https://example.org/schema.json"},
    {"$ref": "other.json#/x"},
    {"$ref": "#/nowhere"},
    {"$ref": "#"},
    {"$ref": 3},
    {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"$ref": "#/$defs/a"}}, "$ref": "#/$defs/a"},
    {"dependentRequired": {"a": 3}},
]


@pytest.mark.parametrize("schema", NO_SCHEMAS, ids=str)
def test_what_is_no_schema_accepts_everything(schema: Json) -> None:
    values: list[Json] = [{}, {"a": "x"}, [1], "x", 3, None]
    for value in values:
        assert faults(value, schema) == ()


HOSTILE: list[tuple[str, Json, Json]] = [
    ("a pattern that backtracks", {"pattern": "^(a+)+$"}, "a" * 100_000 + "b"),
    ("a pattern with a choice", {"pattern": "^(a|a)*$"}, "a" * 100_000 + "b"),
    ("a pattern with a group in a group", {"pattern": "^((a+))+$"}, "a" * 100_000 + "b"),
    ("a pattern of many stars", {"pattern": "(.*)(.*)(.*)(.*)x"}, "b" * 100_000),
    ("ten thousand branches", {"anyOf": [{"const": number} for number in range(10_000)]}, -1),
    ("branches of branches", {"$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}] * 100}}, "$ref": "#/$defs/a"}, 1),
    ("branches for each item", {"items": {"anyOf": [{"const": number} for number in range(200)]}}, [-1] * 100_000),
    ("objects that must differ", {"uniqueItems": True}, [{"a": number} for number in range(5_000)]),
    ("a huge number", {"multipleOf": 0.1}, 10**400),
]


@pytest.mark.parametrize(("schema", "value"), [row[1:] for row in HOSTILE], ids=[row[0] for row in HOSTILE])
def test_checking_ends_whatever_the_schema_says(schema: Json, value: Json) -> None:
    start = time.process_time()
    assert faults(value, schema) == ()
    assert time.process_time() - start < 5


def test_a_schema_nested_too_deep_accepts_everything() -> None:
    schema: Json = {"type": "integer"}
    for _ in range(5_000):
        schema = {"properties": {"a": schema}}
    assert faults({"a": "x"}, schema) == ()


def test_a_schema_is_made_ready_once() -> None:
    schema: Json = {"type": "object"}
    assert validator(schema) is validator(schema)
    assert validator(schema) is validator({"type": "object"})


def test_schemas_without_number_are_told_apart() -> None:
    schemas: list[Json] = [{"type": "object", "required": [f"member{number}"]} for number in range(600)]
    for number, schema in enumerate(schemas):
        assert found({}, schema) == [(f"/member{number}", "required")]
    assert found({}, schemas[0]) == [("/member0", "required")]


def test_a_fault_shows_no_more_of_a_long_list_or_object_than_what_it_is() -> None:
    messages = [
        faults(value, schema)[0].message
        for value, schema in (
            ([*range(9)], {"type": "string"}),
            (dict.fromkeys("abcdefghi", 1), {"type": "string"}),
            ([1, 2], {"type": "string"}),
        )
    ]
    assert messages == [" is a list, expected string", " is an object, expected string", " is [1, 2], expected string"]


def test_a_reference_is_followed_to_what_it_means_and_a_loop_to_nothing() -> None:
    day: Json = {"$ref": "#/$defs/Day"}
    check = validator({"$defs": {"Day": DAY, "Loop": {"$ref": "#/$defs/Loop"}}, "properties": {"day": day}})
    assert check.resolve(day).get("required") == ["hour"]
    assert check.resolve({"$ref": "#/$defs/Loop"}) == {}
    chain: dict[str, Json] = {f"d{at}": {"$ref": f"#/$defs/d{at + 1}"} for at in range(200)}
    assert validator({"$defs": {**chain, "d200": DAY}}).resolve({"$ref": "#/$defs/d0"}) == {}
    assert check.resolve(True) == {}


def test_a_pointer_escapes_its_steps() -> None:
    assert pointer("/calls/0/arguments", "a/b", 0, "c~d") == "/calls/0/arguments/a~1b/0/c~0d"
