"""Values that differ have other bytes, equal ones the same, whoever made them."""

import json
from typing import Any

import pytest

from toolmend.fingerprint import LONGEST, NONE, fingerprint
from toolmend.repair.schema import validator
from toolmend.surfaces.requests import read_tools


def tools(level: Any) -> list[Any]:
    schema = {"type": "object", "properties": {"level": {"const": level}}}
    return [{"type": "function", "function": {"name": "set_level", "parameters": schema}}]


@pytest.mark.parametrize("other", [True, 1.0, "1", [1], None])
def test_what_python_takes_for_equal_differs(other: Any) -> None:
    assert fingerprint({"a": 1}) != fingerprint({"a": other})


@pytest.mark.parametrize("value", [{"a": [1, 2.5, "é\ud800", None, True], "b": {}}, [], "x", 10**400])
def test_equal_values_have_the_same_bytes(value: Any) -> None:
    assert fingerprint(value) == fingerprint(json.loads(json.dumps(value))) != NONE


def test_what_is_too_long_or_too_deep_has_none() -> None:
    deep: Any = []
    for _ in range(5000):
        deep = [deep]
    assert fingerprint("x" * LONGEST) == NONE
    assert fingerprint(deep) == NONE


def test_the_same_tools_are_read_once_and_others_anew() -> None:
    assert read_tools(tools(1)) is read_tools(tools(1))
    assert read_tools(tools(1)) != read_tools(tools(2))
    (one,), (other,) = read_tools(tools(1)), read_tools(tools(True))
    assert one is not other
    assert validator(one.parameters).accepts({"level": 1})
    assert not validator(one.parameters).accepts({"level": True})
    assert not validator(other.parameters).accepts({"level": 1})


def test_tools_that_are_too_many_to_be_kept_are_read_all_the_same() -> None:
    many = [
        {"type": "function", "function": {"name": f"tool_{index}", "description": "x" * 100}} for index in range(5000)
    ]
    assert fingerprint(many) == NONE
    assert [tool.name for tool in read_tools(many)][-1] == "tool_4999"
