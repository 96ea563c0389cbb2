"""The quick check never passes what the full check would not."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from toolmend.repair.quick_check import quick_check

SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "guests": {"type": "integer"},
        "price": {"type": "number"},
        "area": {"type": "string", "enum": ["inside", "outside"]},
        "wishes": {"type": "array", "items": {"type": "string"}},
        "when": {"type": "object", "properties": {"day": {"type": "string"}}, "required": ["day"]},
    },
    "required": ["guests"],
    "additionalProperties": False,
}
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-2, 2) | st.sampled_from([1.0, 1.5, "inside", "x"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(st.sampled_from(["guests", "price", "area", "wishes", "when", "day", "x"]), inner, max_size=5)
    ),
    max_leaves=8,
)
KEYWORDS = st.fixed_dictionaries(
    {},
    optional={
        "type": st.sampled_from(
            [
                "object",
                "array",
                "string",
                "integer",
                "number",
                "boolean",
                "null",
                ["string", "null"],
                ["array", "integer"],
            ]
        ),
        "anyOf": st.sampled_from([[{"type": "null"}, {"type": "array", "items": {"type": "integer"}}]]),
        "enum": st.lists(st.none() | st.booleans() | st.sampled_from([1, 1.0, "inside", "x"]), min_size=1, max_size=3),
        "required": st.lists(st.sampled_from(["guests", "day"]), max_size=2),
        "additionalProperties": st.booleans(),
        "minLength": st.integers(0, 3),
        "items": st.sampled_from([{"type": "string"}, {"type": "integer"}, {}]),
        "properties": st.sampled_from([{"guests": {"type": "integer"}}, {"day": {"enum": ["x"]}}, {}]),
    },
)


@given(VALUES, KEYWORDS | st.just(SCHEMA))
@settings(deadline=None, max_examples=300)
def test_what_surely_fits_fits(value: Any, schema: dict[str, Any]) -> None:
    if quick_check(schema)(value):
        assert Draft202012Validator(schema).is_valid(value)


@pytest.mark.parametrize(
    "value",
    [
        {"guests": 4},
        {"guests": 4, "price": 1.5, "area": "inside", "wishes": ["x"], "when": {"day": "friday", "hour": 3}},
    ],
)
def test_a_plain_value_of_a_plain_schema_fits_at_once(value: Any) -> None:
    assert quick_check(SCHEMA)(value)


@pytest.mark.parametrize(
    "value",
    [
        {},
        [],
        {"guests": True},
        {"guests": 4.0},
        {"guests": 4, "x": 1},
        {"guests": 4, "area": "Inside"},
        {"guests": 4, "when": {}},
    ],
)
def test_what_is_not_sure_is_left_to_the_full_check(value: Any) -> None:
    assert not quick_check(SCHEMA)(value)


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "string", "minLength": 1},
        {"type": ["string", "null"], "enum": ["x", None]},
        {"$ref": "#/$defs/x"},
        {"anyOf": [{"type": "string"}, {"type": "integer"}]},
        {"anyOf": [{"type": "string"}, {"type": "null"}], "type": "string"},
        {"type": "object", "properties": []},
        True,
    ],
)
def test_a_schema_that_is_not_plain_leaves_a_doubt(schema: Any) -> None:
    assert not quick_check(schema)("x")


@pytest.mark.parametrize("schema", [{"type": ["string", "null"]}, {"anyOf": [{"type": "null"}, {"type": "string"}]}])
def test_what_may_be_null_fits_at_once(schema: Any) -> None:
    fits = quick_check(schema)
    assert [fits(value) for value in ("x", None, 1, [])] == [True, True, False, False]


def test_what_has_no_type_fits_by_its_members_and_items() -> None:
    fits = quick_check({"properties": {"day": {"type": "string"}}, "required": ["day"], "items": {"type": "integer"}})
    assert [fits(value) for value in ({"day": "friday"}, {}, [1], ["x"], 3)] == [True, False, True, False, True]
