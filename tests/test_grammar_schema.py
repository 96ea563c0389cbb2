"""A schema that was thinned is never an error in the servers' grammars, and excludes nothing that was allowed."""

from __future__ import annotations

import json
import time
from typing import cast

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from toolmend.grammar_schema import ANY, FORMATS, TYPES, keeps_pattern, merge, resolve, thin, thin_into
from toolmend.model import Json, JsonObject

STRING: JsonObject = {"type": "string"}


def closed(**properties: Json) -> JsonObject:
    return {"type": "object", "properties": properties, "additionalProperties": False}


TABLE: list[tuple[str, Json, Json]] = [
    ("an empty schema is any value, not an object", {}, ANY),
    ("true is any value", True, ANY),
    ("a description alone is any value", {"description": "the thing"}, ANY),
    ("an unknown type is any value", {"type": "any"}, ANY),
    ("an unknown type in a list is left out", {"type": ["string", "file"]}, STRING),
    ("a list of types stays one", {"type": ["string", "null"]}, {"type": ["string", "null"]}),
    (
        "types of which one says more become alternatives",
        {"type": ["string", "null"], "maxLength": 9},
        {"anyOf": [{"type": "string", "maxLength": 9}, {"type": "null"}]},
    ),
    ("words for people are left out", {"type": "string", "title": "T", "default": "x", "examples": ["y"]}, STRING),
    ("a format that the grammar knows stays", {"type": "string", "format": "date"}, {"type": "string", "format": "date"}),
    ("another format goes", {"type": "string", "format": "uri"}, STRING),
    ("a plain pattern stays", {"type": "string", "pattern": "^[A-Z]{3}-[0-9]+$"}, {"type": "string", "pattern": "^[A-Z]{3}-[0-9]+$"}),
    ("a pattern with a class by letter goes", {"type": "string", "pattern": r"^\d+$"}, STRING),
    ("an open pattern goes", {"type": "string", "pattern": "[a-z]+"}, STRING),
    ("a length of two thousand goes", {"type": "string", "minLength": 1, "maxLength": 2000}, {"type": "string", "minLength": 1}),
    ("lengths that exclude each other go", {"type": "string", "minLength": 9, "maxLength": 1}, STRING),
    ("limits of an integer stay", {"type": "integer", "minimum": 1, "exclusiveMaximum": 10}, {"type": "integer", "minimum": 1, "maximum": 9}),
    ("a limit between two integers is rounded inwards", {"type": "integer", "minimum": 0.5, "maximum": 9.5}, {"type": "integer", "minimum": 1, "maximum": 9}),
    ("an old exclusive flag is no limit", {"type": "integer", "minimum": 0, "exclusiveMinimum": True}, {"type": "integer", "minimum": 0}),
    ("limits of an integer that exclude each other go", {"type": "integer", "minimum": 9, "maximum": 1}, {"type": "integer"}),
    ("limits of a number go", {"type": "number", "minimum": 0, "multipleOf": 0.1}, {"type": "number"}),
    ("a constant stays", {"const": {"a": 1}, "type": "object"}, {"const": {"a": 1}}),
    ("an enum stays, without values of another type", {"type": "string", "enum": ["a", None]}, {"enum": ["a"]}),
    ("an empty enum is none", {"type": "string", "enum": []}, STRING),
    ("a list without a maximum gets one", {"type": "array", "items": STRING}, {"type": "array", "items": STRING, "maxItems": 128}),
    ("the maximum is not below the minimum", {"type": "array", "items": STRING, "minItems": 300}, {"type": "array", "items": STRING, "minItems": 300, "maxItems": 300}),
    ("a maximum of two thousand counts as none", {"type": "array", "items": STRING, "maxItems": 2000}, {"type": "array", "items": STRING, "maxItems": 128}),
    ("a maximum of 1999 is one that a real server refused", {"type": "array", "items": STRING, "maxItems": 1999}, {"type": "array", "items": STRING, "maxItems": 128}),
    ("a maximum of a thousand is sent", {"type": "array", "items": STRING, "maxItems": 1000}, {"type": "array", "items": STRING, "maxItems": 1000}),
    ("a list of anything says so", {"type": "array"}, {"type": "array", "items": ANY, "maxItems": 128}),
    ("old tuples become prefix items", {"type": "array", "items": [STRING, {"type": "integer"}]}, {"type": "array", "prefixItems": [STRING, {"type": "integer"}]}),
    ("an object with properties is closed", {"properties": {"a": STRING}}, closed(a=STRING)),
    ("also when it says that it is open", {"type": "object", "properties": {"a": STRING}, "additionalProperties": True}, closed(a=STRING)),
    ("a free map says that it is open", {"type": "object"}, {"type": "object", "additionalProperties": ANY}),
    ("a map keeps the schema of its values", {"type": "object", "additionalProperties": {"type": "integer"}}, {"type": "object", "additionalProperties": {"type": "integer"}}),
    ("a map by pattern becomes a map", {"type": "object", "patternProperties": {"^x": STRING}, "additionalProperties": False}, {"type": "object", "additionalProperties": STRING}),
    ("an object without anything stays empty", {"type": "object", "additionalProperties": False}, {"type": "object", "additionalProperties": False}),
    (
        "a required member that is not declared is any value",
        {"type": "object", "properties": {}, "required": ["a"]},
        {"type": "object", "properties": {"a": ANY}, "required": ["a"], "additionalProperties": False},
    ),
    ("a member that may not be is left out", {"type": "object", "properties": {"a": False, "b": STRING}}, closed(b=STRING)),
    ("one alternative is that alternative", {"anyOf": [STRING]}, STRING),
    ("equal alternatives are one", {"oneOf": [STRING, {"type": "string", "title": "T"}]}, STRING),
    ("alternatives that can not be are left out", {"anyOf": [False, STRING]}, STRING),
    ("no alternatives are none", {"anyOf": [], "type": "string"}, STRING),
    (
        "alternatives keep what stands around them",
        {
            "type": "object",
            "properties": {"a": STRING, "b": STRING},
            "anyOf": [{"required": ["a"]}, {"required": ["b"]}],
        },
        {
            "anyOf": [
                {**closed(a=STRING, b=STRING), "required": ["a"]},
                {**closed(a=STRING, b=STRING), "required": ["b"]},
            ]
        },
    ),
    (
        "parts that must all fit become one",
        {"allOf": [{"properties": {"a": STRING}, "required": ["a"]}, {"properties": {"b": STRING}}]},
        {**closed(a=STRING, b=STRING), "required": ["a"]},
    ),
    ("keywords that grammars do not know go", {"type": "object", "properties": {"a": STRING}, "not": {}, "if": {}, "then": {}, "dependentRequired": {"a": ["b"]}, "minProperties": 1}, closed(a=STRING)),
    ("properties that are none are no reason to lose others", {"allOf": [{"type": "object", "properties": ["a"]}, {"properties": {"a": STRING}}]}, closed(a=STRING)),
    ("nor are they when they come later", {"allOf": [{"type": "object", "properties": {"a": STRING}}, {"properties": ["a"]}]}, closed(a=STRING)),
    ("a pointer that leads nowhere is any value", {"$ref": "#/$defs/gone"}, ANY),
    ("a pointer out of the schema is any value", {"$ref": "https://example.com/schema.json"}, ANY),
    ("a pointer to an anchor is any value", {"$ref": "#anchor"}, ANY),
    ("a pointer to itself is any value", {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}, ANY),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "thinned"), [row[1:] for row in TABLE], ids=[row[0] for row in TABLE])
def test_it_is_thinned_as_the_table_says(schema: Json, thinned: Json) -> None:
    assert thin(schema) == thinned


def test_a_pointer_with_escapes_is_resolved() -> None:
    schema: JsonObject = {"properties": {"a": {"$ref": "#/$defs/a~1b%20c"}}, "$defs": {"a/b c": STRING}}
    assert thin(schema) == {**closed(a={"$ref": "#/$defs/d0"}), "$defs": {"d0": STRING}}


def test_a_recursive_schema_stays_one() -> None:
    schema: JsonObject = {
        "type": "object",
        "properties": {"children": {"type": "array", "items": {"$ref": "#"}}, "name": STRING},
    }
    node = {
        "type": "object",
        "properties": {"children": {"type": "array", "items": {"$ref": "#/$defs/d0"}, "maxItems": 128}, "name": STRING},
        "additionalProperties": False,
    }
    assert thin(schema) == {**node, "$defs": {"d0": node}}


def test_a_definition_that_begins_with_itself_is_no_endless_grammar() -> None:
    schema: JsonObject = {"$ref": "#/$defs/a", "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/a"}, STRING]}}}
    assert thin(schema) == {"$ref": "#/$defs/d0", "$defs": {"d0": {"anyOf": [ANY, STRING]}}}


def test_definitions_of_two_schemas_do_not_meet() -> None:
    defs: JsonObject = {}
    first = thin_into({"$ref": "#/$defs/x", "$defs": {"x": STRING}}, defs)
    second = thin_into({"$ref": "#/$defs/x", "$defs": {"x": {"type": "integer"}}}, defs)
    assert (first, second) == ({"$ref": "#/$defs/d0"}, {"$ref": "#/$defs/d1"})
    assert defs == {"d0": STRING, "d1": {"type": "integer"}}


def test_alternatives_of_pointers_keep_their_pointers() -> None:
    schema: JsonObject = {
        "type": "object",
        "oneOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/b"}],
        "$defs": {"a": {"properties": {"x": STRING}}, "b": {"properties": {"y": STRING}}},
    }
    assert thin(schema)["anyOf"] == [{"$ref": "#/$defs/d0"}, {"$ref": "#/$defs/d1"}]


def test_parts_that_point_to_each_other_end() -> None:
    schema: JsonObject = {
        "allOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a"}],
        "$defs": {
            "a": {"allOf": [{"$ref": "#/$defs/b"}, {"$ref": "#/$defs/b"}], "properties": {"x": STRING}},
            "b": {"allOf": [{"$ref": "#/$defs/a"}, {"$ref": "#/$defs/a"}]},
        },
    }
    assert "x" in cast(JsonObject, thin(schema)["properties"])


def test_parts_that_double_with_each_step_end_in_any_value() -> None:
    defs: JsonObject = {f"p{at}": {"allOf": [{"$ref": f"#/$defs/p{at + 1}"}] * 2} for at in range(40)}
    defs["p40"] = closed(a=STRING)
    start = time.process_time()
    assert thin({"allOf": [{"$ref": "#/$defs/p0"}], "$defs": defs}) == ANY
    assert time.process_time() - start < 5


def test_a_schema_deeper_than_any_tool_ends_in_any_value() -> None:
    schema: JsonObject = STRING
    for _ in range(200):
        schema = {"type": "object", "properties": {"a": schema}}
    assert json.dumps(ANY) in json.dumps(thin(schema))


@pytest.mark.parametrize(
    ("pattern", "kept"),
    [
        ("^[a-z0-9_]+$", True),
        ("^v[0-9]{1,3}$", True),
        (r"^a\.b$", True),
        ("^$", True),
        ("^.*$", True),
        ("^[a-z]{1,500}$", False),
        (r"^\w+$", False),
        (r"^a\/b$", False),
        ("^(?!x).*$", False),
        ("^(a|b)$", False),
        (r"^[\d]$", False),
        ('^"$', False),
        ("a", False),
    ],
)
def test_a_pattern_is_kept_only_where_it_means_the_same(pattern: str, kept: bool) -> None:
    assert keeps_pattern(pattern) is kept


def test_two_schemas_merge_into_one_of_the_values_that_fit_both() -> None:
    one: JsonObject = {"type": ["string", "null"], "enum": ["a", "b"], "additionalProperties": False}
    other: JsonObject = {"type": "string", "enum": ["b", "c"], "additionalProperties": True}
    assert merge(one, other) == {"type": ["string"], "enum": ["b"], "additionalProperties": False}


def test_a_pointer_resolves_through_lists() -> None:
    assert resolve({"anyOf": [STRING, {"type": "null"}]}, "#/anyOf/1") == {"type": "null"}
    assert resolve({"anyOf": [STRING]}, "#/anyOf/7") is None


KNOWN = {
    *("type", "properties", "required", "additionalProperties", "items", "prefixItems", "minItems", "maxItems"),
    *("enum", "const", "anyOf", "$ref", "$defs", "pattern", "format", "minLength", "maxLength", "minimum", "maximum"),
}


def hold_to_the_grammar(schema: Json, root: JsonObject) -> None:
    """Fail for anything that llama.cpp's converter refuses."""
    assert isinstance(schema, dict)
    assert schema
    assert set(schema) <= KNOWN
    kinds = schema.get("type", [])
    for kind in kinds if isinstance(kinds, list) else [kinds]:
        assert kind in TYPES
    assert schema.get("format", "date") in FORMATS
    assert schema.get("enum") != []
    assert isinstance(schema.get("pattern", ""), str)
    for keyword in ("minItems", "maxItems", "minLength", "maxLength"):
        assert 0 <= cast(int, schema.get(keyword, 0)) <= 1000
    if "$ref" in schema:
        assert isinstance(resolve(root, schema["$ref"]), dict)
    properties = cast(JsonObject, schema.get("properties", {}))
    inside = [
        *properties.values(),
        *cast(list[Json], schema.get("anyOf", [])),
        *cast(list[Json], schema.get("prefixItems", [])),
    ]
    inside += [schema[keyword] for keyword in ("items",) if keyword in schema]
    if isinstance(schema.get("additionalProperties"), dict):
        inside.append(schema["additionalProperties"])
    for part in (*inside, *cast(JsonObject, schema.get("$defs", {})).values()):
        hold_to_the_grammar(part, root)


VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-5, 3000),
    st.floats(allow_nan=False),
    st.sampled_from(
        ["string", "object", "array", "integer", "any", "#", "#/$defs/a", "#/properties/a", "^a$", r"^\d$"]
    ),
)
KEYWORDS = st.sampled_from(
    [
        *sorted(KNOWN - {"const"}),
        *(
            "allOf",
            "oneOf",
            "not",
            "patternProperties",
            "exclusiveMinimum",
            "exclusiveMaximum",
            "default",
            "title",
            "a",
        ),
    ]
)
SCHEMAS = st.recursive(
    VALUES,
    lambda inner: st.one_of(
        st.dictionaries(KEYWORDS, inner, max_size=5),
        st.lists(inner, max_size=3),
        st.fixed_dictionaries({"properties": st.dictionaries(st.sampled_from("ab"), inner, max_size=2)}),
        st.fixed_dictionaries({"anyOf": st.lists(inner, max_size=3)}),
        st.fixed_dictionaries({"allOf": st.lists(inner, max_size=3)}),
        st.fixed_dictionaries({"$defs": st.dictionaries(st.sampled_from("ab"), inner, max_size=2), "$ref": VALUES}),
    ),
    max_leaves=12,
)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(SCHEMAS)
def test_whatever_comes_in_what_goes_out_is_known_to_the_grammar(schema: Json) -> None:
    thinned = thin(schema)
    hold_to_the_grammar(thinned, thinned)
