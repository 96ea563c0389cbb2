"""What holds for any schema and any arguments, where examples run out."""

from __future__ import annotations

import copy
import json
from collections.abc import Callable

from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st
from hypothesis_jsonschema import from_schema

from toolmend.lenient_json import is_cut, parse, parse_prefix
from toolmend.model import Body, Json, JsonObject, Request, Tool, ToolCall, ToolChoice, Turn
from toolmend.repair.coercion import Coerced, coerce
from toolmend.repair.ladder import repair_call, repair_turn
from toolmend.repair.schema import faults

TEXT: Json = {"type": "string", "maxLength": 20}
EVENT: JsonObject = {
    "$defs": {
        "Reminder": {
            "type": "object",
            "properties": {
                "method": {"type": "string", "enum": ["email", "popup"]},
                "minutes_before": {"type": "integer"},
            },
            "required": ["method", "minutes_before"],
            "additionalProperties": False,
        }
    },
    "type": "object",
    "properties": {
        "title": TEXT,
        "duration_minutes": {"type": "integer"},
        "share": {"type": "number"},
        "priority": {"type": "string", "enum": ["low", "medium", "high"]},
        "all_day": {"type": "boolean"},
        "attendees": {"type": "array", "items": TEXT, "maxItems": 3},
        "reminders": {"type": "array", "items": {"$ref": "#/$defs/Reminder"}, "maxItems": 2},
        "place": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
    },
    "required": ["title", "duration_minutes", "priority", "all_day", "attendees"],
    "additionalProperties": False,
}
TOOL = Tool("create_event", EVENT, "Create a calendar event.")
OTHER = Tool("read_file", {"type": "object", "properties": {"path": TEXT}, "required": ["path"]})

few = settings(
    max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much]
)
events = from_schema(EVENT)
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)


def has_whole_float(value: Json) -> bool:
    if isinstance(value, dict):
        return any(map(has_whole_float, value.values()))
    if isinstance(value, list):
        return any(map(has_whole_float, value))
    return isinstance(value, float) and value.is_integer()


@few
@given(events)
def test_valid_arguments_are_never_touched(arguments: JsonObject) -> None:
    assume(not has_whole_float(arguments))
    assert coerce(arguments, EVENT) == Coerced(arguments)
    call = ToolCall("a", "create_event", arguments)
    assert repair_call(call, (TOOL, OTHER))[0] is call


@few
@given(st.data())
def test_arguments_that_fit_any_schema_are_never_touched(data: st.DataObject) -> None:
    kinds: st.SearchStrategy[Json] = st.sampled_from(
        ["string", "integer", "number", "boolean", "null", "object", "array"]
    )
    lists: st.SearchStrategy[Json] = st.lists(kinds, min_size=1, max_size=3, unique=True)
    leaf: st.SearchStrategy[Json] = st.fixed_dictionaries({"type": kinds | lists})
    part: st.SearchStrategy[Json] = leaf | st.fixed_dictionaries({"anyOf": st.lists(leaf, min_size=1, max_size=3)})
    names = st.sampled_from(["a", "b", "filePath", "file_path", "name"])
    properties: JsonObject = data.draw(st.dictionaries(names, part, max_size=4))
    schema: JsonObject = {
        "type": "object",
        "properties": properties,
        "additionalProperties": data.draw(st.booleans()),
    }
    arguments = data.draw(from_schema(schema))
    assume(not has_whole_float(arguments) and not faults(arguments, schema))
    assert coerce(arguments, schema).value is arguments


def quoted_numbers(arguments: JsonObject) -> JsonObject:
    return {**arguments, "duration_minutes": str(arguments["duration_minutes"])}


def quoted_truths(arguments: JsonObject) -> JsonObject:
    return {**arguments, "all_day": str(arguments["all_day"])}


def lists_as_text(arguments: JsonObject) -> JsonObject:
    return {key: json.dumps(value) if isinstance(value, list) else value for key, value in arguments.items()}


def lists_as_python_text(arguments: JsonObject) -> JsonObject:
    return {key: repr(value) if isinstance(value, list) else value for key, value in arguments.items()}


def another_case(arguments: JsonObject) -> JsonObject:
    return {**arguments, "priority": str(arguments["priority"]).title()}


def in_quotes(arguments: JsonObject) -> JsonObject:
    return {**arguments, "priority": json.dumps(arguments["priority"])}


def a_surplus_member(arguments: JsonObject) -> JsonObject:
    return {**arguments, "time zone": "UTC"}


def another_style(arguments: JsonObject) -> JsonObject:
    return {"durationMinutes" if key == "duration_minutes" else key: value for key, value in arguments.items()}


def whole_floats(arguments: JsonObject) -> JsonObject:
    number = arguments["duration_minutes"]
    assume(isinstance(number, int) and abs(number) < 2**53)
    return {**arguments, "duration_minutes": float(str(number))}


def nulls(arguments: JsonObject) -> JsonObject:
    return {"reminders": None, "share": None, **arguments}


def under_arguments(arguments: JsonObject) -> JsonObject:
    return {"arguments": arguments}


def the_whole_call(arguments: JsonObject) -> JsonObject:
    return {"name": "create_event", "parameters": arguments}


BREAKS: list[Callable[[JsonObject], JsonObject]] = [
    whole_floats,
    quoted_numbers,
    quoted_truths,
    lists_as_text,
    lists_as_python_text,
    another_case,
    in_quotes,
    a_surplus_member,
    another_style,
    nulls,
    under_arguments,
    the_whole_call,
]


@few
@given(events, st.lists(st.sampled_from(BREAKS), min_size=1, max_size=4, unique=True))
def test_broken_arguments_become_the_same_again_or_keep_a_fault(
    arguments: JsonObject, breaks: list[Callable[[JsonObject], JsonObject]]
) -> None:
    assume(not has_whole_float(arguments))
    broken = copy.deepcopy(arguments)
    for damage in sorted(breaks, key=BREAKS.index):
        broken = damage(broken)
    before = copy.deepcopy(broken)
    call, _, left = repair_call(ToolCall("a", "createEvent", broken), (TOOL, OTHER))
    assert broken == before
    assert call.name == "create_event"
    assert left or call.arguments == arguments
    assert repair_call(call, (TOOL, OTHER)) == (call, (), left)


@few
@given(events, st.integers(min_value=1, max_value=30))
def test_arguments_that_were_cut_are_never_completed(arguments: JsonObject, lost: int) -> None:
    text = json.dumps(arguments)
    cut = text[: -min(lost, len(text) - 1)]
    call, _, left = repair_call(ToolCall("a", "create_event", cut), (TOOL,), cut=True)
    assert (call.arguments, [fault.keyword for fault in left]) == (cut, ["syntax"])


@few
@given(anything, anything)
def test_any_repair_leaves_fewer_faults_and_no_new_one(value: Json, other: Json) -> None:
    arguments: Json = {"title": value, "duration_minutes": other, "priority": value, "reminders": [other, value]}
    before = {(fault.path, fault.keyword) for fault in faults(arguments, EVENT)}
    coerced = coerce(arguments, EVENT)
    after = {(fault.path, fault.keyword) for fault in faults(coerced.value, EVENT)}
    assert after <= before
    mended = [repair for repair in coerced.repairs if repair.note != "whole number"]
    assert (len(after) < len(before)) == bool(mended)
    assert coerce(coerced.value, EVENT) == Coerced(coerced.value)


@few
@given(st.text(max_size=40) | st.text(alphabet="{}[]()\"':,\\ab1 \n`", max_size=40))
def test_any_text_is_read_or_not_but_never_fails(text: str) -> None:
    parsed = parse(text)
    found = parse_prefix(text)
    is_cut(text)
    assert parsed is None or json.dumps(parsed.value)
    assert found is None or 0 < found[1] <= len(text)


@few
@given(anything)
def test_what_json_writes_is_read_back_without_liberties(value: Json) -> None:
    text = json.dumps([value])
    parsed = parse(text)
    assert parsed is not None
    assert (parsed.value, parsed.liberties) == ([value], ())


@few
@given(anything)
def test_what_python_writes_is_read_back(value: Json) -> None:
    text = repr([value])
    parsed = parse(text)
    assert parsed is None or parsed.value == [value]
    assert parsed is not None or '"' in text


@few
@given(st.text(max_size=60) | st.text(alphabet='<tool_call>{}"name:argu\n|[] ', max_size=60), st.booleans())
def test_no_text_without_an_offered_name_becomes_a_call(text: str, thinking: bool) -> None:
    assume("create" not in text.lower() and "read" not in text.lower())
    turn = Turn("" if thinking else text, text if thinking else "", finish="stop", tokens=5)
    request = Request("openai-chat", "m", (TOOL, OTHER), ToolChoice(), False, Body({}))
    assert repair_turn(turn, request).turn.calls == ()


@few
@given(st.text(max_size=30), anything)
def test_any_call_is_settled_and_a_second_pass_changes_nothing(name: str, arguments: Json) -> None:
    request = Request("openai-chat", "m", (TOOL, OTHER), ToolChoice(), False, Body({}))
    turn = Turn(calls=(ToolCall("a", name, arguments), ToolCall("a", "read_file", arguments)), finish="tool_calls")
    once = repair_turn(turn, request)
    twice = repair_turn(once.turn, request)
    assert (twice.turn, twice.repairs, twice.faults) == (once.turn, (), once.faults)
