"""The quick check never passes what the full check would not."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from toolmend.repair.quick_check import surely_fits

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
        "type": st.sampled_from(["object", "array", "string", "integer", "number", "boolean", "null"]),
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
    if surely_fits(value, schema):
        assert Draft202012Validator(schema).is_valid(value)


@pytest.mark.parametrize(
    "value",
    [
        {"guests": 4},
        {"guests": 4, "price": 1.5, "area": "inside", "wishes": ["x"], "when": {"day": "friday", "hour": 3}},
    ],
)
def test_a_plain_value_of_a_plain_schema_fits_at_once(value: Any) -> None:
    assert surely_fits(value, SCHEMA)


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
    assert not surely_fits(value, SCHEMA)


def test_a_schema_that_is_not_plain_leaves_a_doubt() -> None:
    assert not surely_fits("x", {"type": "string", "minLength": 1})
    assert not surely_fits("x", {"type": ["string", "null"]})
    assert not surely_fits("x", {"$ref": "#/$defs/x"})
