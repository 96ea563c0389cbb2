"""A call climbs the ladder: each rung only while faults are left, and a call that fits stays the same object."""

from __future__ import annotations

import json

import pytest

from toolmend.model import Body, Fault, Finish, Json, Request, Tool, ToolCall, ToolChoice, Turn
from toolmend.repair.ladder import fits, repair_call, repair_turn

TEXT: Json = {"type": "string"}
WHOLE: Json = {"type": "integer"}
READ = Tool(
    "read_file",
    {
        "type": "object",
        "properties": {"path": TEXT, "offset": WHOLE, "limit": WHOLE},
        "required": ["path"],
        "additionalProperties": False,
    },
    "Read a text file.",
)
WRITE = Tool(
    "write_file",
    {
        "type": "object",
        "properties": {"path": TEXT, "content": TEXT, "overwrite": {"type": "boolean"}},
        "required": ["path", "content"],
    },
)
EVENT = Tool(
    "create_event",
    {
        "type": "object",
        "properties": {
            "title": TEXT,
            "minutes": WHOLE,
            "priority": {"type": "string", "enum": ["low", "medium", "high"]},
            "attendees": {"type": "array", "items": TEXT},
        },
        "required": ["title", "minutes", "priority"],
    },
)
NOW = Tool("get_time", {"type": "object", "properties": {}, "additionalProperties": False})
TOOLS = (READ, WRITE, EVENT, NOW)


def request(*tools: Tool, surface: str = "openai-chat", mode: str = "auto") -> Request:
    choice = ToolChoice("none" if mode == "none" else "auto")
    return Request(surface, "m", tools or TOOLS, choice, False, Body({}))


def call(name: str, arguments: Json, identity: str = "call_1", raw: str | None = None) -> ToolCall:
    return ToolCall(identity, name, arguments, raw=raw)


REPAIRED: list[tuple[str, str, Json, str, Json, list[str]]] = [
    ("types", "create_event", {"title": "Q3", "minutes": "30", "priority": "High", "attendees": '["a"]'}, "create_event", {"title": "Q3", "minutes": 30, "priority": "high", "attendees": ["a"]}, ["coerce", "coerce", "coerce"]),
    ("a name in another style", "readFile", {"path": "x"}, "read_file", {"path": "x"}, ["names"]),
    ("a name and a type", "functions.read_file:0", {"path": "x", "limit": "5"}, "read_file", {"path": "x", "limit": 5}, ["names", "coerce"]),
    ("a surplus member", "read_file", {"path": "x", "encoding": "u"}, "read_file", {"path": "x"}, ["keys"]),
    ("a key of another agent", "read_file", {"filePath": "x"}, "read_file", {"path": "x"}, ["keys"]),
    ("arguments as text", "read_file", '{"path": "x",}', "read_file", {"path": "x"}, ["parse"]),
    ("arguments with a closer too many", "read_file", '{"path": "x"}}', "read_file", {"path": "x"}, ["parse"]),
    ("arguments with prose behind them", "read_file", '{"path": "x"}\n\nThis reads it.', "read_file", {"path": "x"}, ["parse"]),
    ("arguments behind a header", "read_file", '.functions.read_file:0 {“path”: “x”}', "read_file", {"path": "x"}, ["parse"]),
    ("arguments sent twice", "read_file", '{"path": "x"}{"path": "x"}', "read_file", {"path": "x"}, ["parse"]),
    ("arguments sent twice, with a comma", "read_file", '{"path": "x"}, {"path": "x"}', "read_file", {"path": "x"}, ["parse"]),
    ("arguments behind empty ones", "read_file", '{}{"path": "x"}', "read_file", {"path": "x"}, ["parse"]),
    ("arguments behind nothing", "read_file", 'null{"path": "x"}', "read_file", {"path": "x"}, ["parse"]),
    ("arguments in doubled braces", "read_file", '{{"path": "x"}}', "read_file", {"path": "x"}, ["parse"]),
    ("arguments before a special token", "read_file", '{"path": "x"}<|im_end|>\n', "read_file", {"path": "x"}, ["parse"]),
    ("arguments between tags", "read_file", "<arguments>{'path': '</arguments>'}</arguments></tool_call>", "read_file", {"path": "</arguments>"}, ["parse"]),
    ("the whole call between tags", "read_file", '<tool_call>{"name": "read_file", "arguments": {"path": "x"}}</tool_call>', "read_file", {"path": "x"}, ["parse", "unwrap"]),
    ("arguments as an XML body", "read_file", "<parameter=path>\nx\n</parameter>", "read_file", {"path": "x"}, ["parse"]),
    ("arguments as a GLM body", "read_file", "<arg_key>path</arg_key><arg_value>x</arg_value>", "read_file", {"path": "x"}, ["parse"]),
    ("no arguments", "get_time", None, "get_time", {}, ["parse"]),
    ("empty arguments", "get_time", "", "get_time", {}, ["parse"]),
    ("null as text", "get_time", "null", "get_time", {}, ["parse"]),
    ("an empty list", "get_time", [], "get_time", {}, ["parse"]),
    ("undefined as text", "get_time", "undefined", "get_time", {}, ["parse"]),
    ("arguments as elements of their names", "write_file", "<path>x</path>\n<content>a <b></content>", "write_file", {"path": "x", "content": "a <b>"}, ["parse"]),
    ("keys with the tag round them", "write_file", {'parameter name="path"': "x", "parameter=content": "y"}, "write_file", {"path": "x", "content": "y"}, ["keys", "keys"]),
    ("arguments fused to the name", "read_file<arg_key>path</arg_key><arg_value>/a</arg_value>", {}, "read_file", {"path": "/a"}, ["names", "parse"]),
    ("an object fused to the name", 'read_file{"path": "/a"}', {}, "read_file", {"path": "/a"}, ["names", "parse"]),
    ("a call fused to the name", 'read_file(path="/a")', None, "read_file", {"path": "/a"}, ["names", "parse"]),
    ("a closer fused to the name", "get_time</arg_value>", {}, "get_time", {}, ["names"]),
    ("the whole call in the name", '{"name": "read_file", "arguments": {"path": "x"}}', {}, "read_file", {"path": "x"}, ["names", "parse", "unwrap"]),
    ("under the tool's own name", "read_file", {"read_file": {"path": "x"}}, "read_file", {"path": "x"}, ["unwrap"]),
    ("under arguments", "read_file", {"arguments": {"path": "x"}}, "read_file", {"path": "x"}, ["unwrap"]),
    ("under parameters, as text", "read_file", {"parameters": '{"path": "x"}'}, "read_file", {"path": "x"}, ["unwrap"]),
    ("the whole call", "read_file", {"name": "read_file", "arguments": {"path": "x", "limit": "3"}}, "read_file", {"path": "x", "limit": 3}, ["unwrap", "coerce"]),
    ("the whole call, with an id", "read_file", {"id": "1", "type": "function", "function": {"name": "read_file", "arguments": '{"path": "x"}'}}, "read_file", {"path": "x"}, ["unwrap"]),
    ("two wrappers", "read_file", {"arguments": {"read_file": {"path": "x"}}}, "read_file", {"path": "x"}, ["unwrap", "unwrap"]),
    ("in a list", "read_file", [{"path": "x"}], "read_file", {"path": "x"}, ["unwrap"]),
    ("a schema's echo", "read_file", {"type": "object", "properties": {"path": "x"}}, "read_file", {"path": "x"}, ["unwrap"]),
    ("an argument that swallowed the next", "write_file", {"path": "a</arg_value><arg_key>content</arg_key><arg_value>b"}, "write_file", {"path": "a", "content": "b"}, ["unwrap"]),
    ("an argument that swallowed the next, in XML", "write_file", {"path": "a\n</parameter>\n<parameter=content>\nb\nc\n</parameter>\n"}, "write_file", {"path": "a", "content": "b\nc"}, ["unwrap"]),
    ("a call without a name, in its arguments", "", '{"name": "read_file", "arguments": {"path": "x"}}', "read_file", {"path": "x"}, ["names", "parse", "unwrap"]),
    ("a call without a name, told by its arguments", "", {"path": "x", "content": "y"}, "write_file", {"path": "x", "content": "y"}, ["names"]),
    ("whole numbers as floats", "read_file", {"path": "x", "limit": 20.0}, "read_file", {"path": "x", "limit": 20}, ["coerce"]),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "arguments", "new_name", "new_arguments", "rungs"),
    [row[1:] for row in REPAIRED],
    ids=[row[0] for row in REPAIRED],
)
def test_a_broken_call_becomes_whole(
    name: str, arguments: Json, new_name: str, new_arguments: Json, rungs: list[str]
) -> None:
    before = call(name, arguments, raw="as it came")
    after, repairs, faults = repair_call(before, TOOLS, 1)
    assert (after.id, after.name, after.arguments, after.raw) == ("call_1", new_name, new_arguments, None)
    assert faults == ()
    assert [repair.rung for repair in repairs] == rungs
    assert all(repair.path.startswith("/calls/1/") for repair in repairs)
    assert repair_call(after, TOOLS, 1) == (after, (), ())
    assert repair_call(after, TOOLS, 1)[0] is after


@pytest.mark.parametrize(
    ("before", "after"),
    [({"n": 3.0, "on": True}, '{"n": 3, "on": true}'), ({"n": 3, "on": 1}, '{"n": 3, "on": true}')],
    ids=["a float for a whole number", "a number for a truth value"],
)
def test_a_value_that_python_holds_for_equal_is_replaced(before: Json, after: str) -> None:
    switch = Tool("switch", {"type": "object", "properties": {"n": WHOLE, "on": {"type": "boolean"}}})
    turn = Turn(calls=(call("switch", before),), finish="tool_calls")
    outcome = repair_turn(turn, request(switch, surface="ollama-chat"))
    assert [repair.rung for repair in outcome.repairs] == ["coerce"]
    assert json.dumps(outcome.turn.calls[0].arguments) == after


VALID: list[tuple[str, Json]] = [
    ("read_file", {"path": "C:\\new\\file &amp; more"}),
    ("write_file", {"path": "a", "content": '{"name": "read_file", "arguments": {"path": "x"}}'}),
    ("write_file", {"path": "a", "content": "42", "mode": "extra"}),
    ("create_event", {"title": "", "minutes": 0, "priority": "low", "attendees": []}),
    ("get_time", {}),
]


@pytest.mark.parametrize(("name", "arguments"), VALID)
def test_a_call_that_fits_is_the_same_object(name: str, arguments: Json) -> None:
    before = call(name, arguments, raw="as  it came")
    after, repairs, faults = repair_call(before, TOOLS)
    assert after is before
    assert (repairs, faults) == ((), ())


def test_a_wrapper_that_fits_the_schema_by_accident_is_unwrapped() -> None:
    extract = Tool("ExtractName", {"type": "object", "properties": {"name": TEXT}, "required": ["name"]})
    whole = call("ExtractName", {"arguments": {"name": "John"}, "name": "ExtractName"})
    assert repair_call(whole, (extract,))[0].arguments == {"name": "John"}


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [([{"text": "a"}, {"text": "b"}], [{"text": "a"}, {"text": "b"}]), ('[{"text": "a"}, {"text": "b"}]', [{"text": "a"}, {"text": "b"}])],
)  # fmt: skip
def test_a_list_alone_is_the_one_list_that_the_tool_takes(arguments: Json, wanted: Json) -> None:
    item: Json = {"type": "object", "properties": {"text": TEXT}, "required": ["text"]}
    todos: Json = {"type": "array", "items": item}
    write = Tool("write_todos", {"type": "object", "properties": {"todos": todos, "note": TEXT}, "required": ["todos"]})
    after, repairs, faults = repair_call(call("write_todos", arguments), (write,))
    assert (after.arguments, faults) == ({"todos": wanted}, ())
    assert repairs[-1].note == "the list alone"


LAYERED: list[tuple[str, Json, Json]] = [
    ("a wrapper in the whole call", {"name": "skill", "arguments": {"parameters": {"name": "pdf"}}}, {"name": "pdf"}),
    ("the whole call in the whole call", {"name": "skill", "arguments": {"name": "skill", "arguments": '{"name": "pdf"}'}}, {"name": "pdf"}),
    ("a list in the whole call", {"name": "skill", "arguments": [{"name": "pdf"}]}, None),
]  # fmt: skip


@pytest.mark.parametrize(("arguments", "wanted"), [row[1:] for row in LAYERED], ids=[row[0] for row in LAYERED])
def test_what_is_in_a_wrapper_is_never_left_out_with_it(arguments: Json, wanted: Json) -> None:
    skill = Tool("skill", {"properties": {"name": TEXT}, "required": ["name"], "additionalProperties": False})
    after, _, faults = repair_call(call("skill", arguments), (skill,))
    assert after.arguments == (arguments if wanted is None else wanted)
    assert bool(faults) is (wanted is None)


def test_a_wrapper_is_not_filled_up_with_defaults() -> None:
    mode: Json = {"type": "string", "enum": ["replace", "patch"], "default": "replace"}
    patch = Tool("patch", {"properties": {"mode": mode, "path": TEXT}, "required": ["mode"]})
    wrapped = repair_call(call("patch", {"input": {"mode": "patch", "path": "a"}}), (patch,))
    assert wrapped[0].arguments == {"mode": "patch", "path": "a"}
    unknown = repair_call(call("patch", {"CALL": {"mode": "patch"}}), (patch,))
    assert [fault.keyword for fault in unknown[2]] == ["required"]
    assert repair_call(call("patch", {"path": "a"}), (patch,))[0].arguments == {"path": "a", "mode": "replace"}


@pytest.mark.parametrize(
    ("arguments", "wanted"),
    [
        ({"input": {}}, {}),
        ({"git_diff": {}}, {}),
        ({"arguments": {"name": "git_diff", "arguments": '{"file": "a"}'}}, {"file": "a"}),
        ({"input": {"x": 1}}, {"input": {"x": 1}}),
    ],
)
def test_a_wrapper_is_taken_away_even_where_the_tool_accepts_it(arguments: Json, wanted: Json) -> None:
    diff = Tool("git_diff", {"type": "object", "properties": {"file": TEXT, "staged": {"type": "boolean"}}})
    assert repair_call(call("git_diff", arguments), (diff,))[0].arguments == wanted


def test_wrappers_without_end_are_left_as_they_are() -> None:
    diff = Tool("git_diff", {"type": "object", "properties": {"file": TEXT}})
    arguments: Json = {"file": "a"}
    for _ in range(50):
        arguments = {"arguments": arguments}
    assert repair_call(call("git_diff", arguments), (diff,))[0].arguments is arguments


def test_a_tool_that_declares_nothing_keeps_what_looks_like_a_wrapper() -> None:
    arguments: Json = {"input": {}}
    assert repair_call(call("any", arguments), (Tool("any", {"type": "object"}),))[0].arguments is arguments


def test_a_schemas_echo_is_unwrapped_even_where_the_tool_accepts_it() -> None:
    diff = Tool("git_diff", {"type": "object", "properties": {"file": TEXT, "staged": {"type": "boolean"}}})
    echo: Json = {"type": "object", "properties": {"file": "a", "staged": True}}
    assert repair_call(call("git_diff", echo), (diff,))[0].arguments == {"file": "a", "staged": True}
    other: Json = {"type": "object", "properties": {"x": "a"}}
    assert repair_call(call("git_diff", other), (diff,))[0].arguments is other


def test_a_tool_that_takes_a_name_and_arguments_keeps_them() -> None:
    schema: dict[str, Json] = {
        "type": "object",
        "properties": {"name": TEXT, "arguments": {"type": "object"}},
        "required": ["name"],
    }
    meta = Tool("call_tool", schema)
    before = call("call_tool", {"name": "other", "arguments": {"path": "x"}})
    assert repair_call(before, (meta, READ))[0] is before


def test_a_tool_that_declares_nothing_keeps_whatever_it_gets() -> None:
    before = call("anything", {"arguments": {"path": "x"}})
    assert repair_call(before, (Tool("anything", {"type": "object"}),))[0] is before


FAULTY: list[tuple[str, str, Json, list[tuple[str, str]]]] = [
    ("a member is missing", "read_file", {}, [("/calls/0/arguments/path", "required")]),
    ("all are missing", "read_file", None, [("/calls/0/arguments/path", "required")]),
    ("a value cannot be mended", "create_event", {"title": "x", "minutes": "soon", "priority": "low"}, [("/calls/0/arguments/minutes", "type")]),
    ("another tool's arguments", "read_file", {"path": "x", "content": "y"}, [("/calls/0/arguments/content", "additionalProperties")]),
    ("arguments that were cut", "write_file", '{"path": "x", "content": "Once up', [("/calls/0/arguments", "syntax")]),
    ("arguments that are prose", "write_file", "We should write it.", [("/calls/0/arguments", "syntax")]),
    ("a shell line", "write_file", "ls -la", [("/calls/0/arguments", "syntax")]),
    ("an XML body without a value", "read_file", "<parameter=path", [("/calls/0/arguments", "syntax")]),
    ("a number alone", "read_file", 7, [("/calls/0/arguments", "syntax")]),
    ("four wrappers", "read_file", {"input": {"arguments": {"args": {"params": {"path": "x"}}}}}, [("/calls/0/arguments/input", "additionalProperties"), ("/calls/0/arguments/path", "required")]),
    ("a wrapper of another tool's arguments", "read_file", {"input": {"query": "x"}}, [("/calls/0/arguments/input", "additionalProperties"), ("/calls/0/arguments/path", "required")]),
    ("a list for several members", "create_event", [{"title": "x"}, {"title": "y"}], [("/calls/0/arguments", "type")]),
    ("a list of two for one object", "read_file", [{"path": "x"}, {"path": "y"}], [("/calls/0/arguments", "type")]),
    ("an argument that swallowed one that is not declared", "write_file", {"path": "a</arg_value><arg_key>to</arg_key><arg_value>b"}, [("/calls/0/arguments/content", "required")]),
    ("an argument that swallowed itself", "write_file", {"path": "a</arg_value><arg_key>path</arg_key><arg_value>b"}, [("/calls/0/arguments/content", "required")]),
    ("a destroyed value", "read_file", '{"path":": [.', [("/calls/0/arguments", "syntax")]),
    ("a name that is not offered", "search_web", {"query": "x"}, [("/calls/0/name", "unknown-tool")]),
    ("a name that hints at an offered tool", "create_file", {"path": "x"}, [("/calls/0/name", "invented-tool")]),
    ("a template's name", "function_name", {"parameter_1": "value_1"}, [("/calls/0/name", "invented-tool")]),
    ("the opposite of an offered tool", "delete_event", {"title": "x"}, [("/calls/0/name", "invented-tool")]),
]  # fmt: skip


@pytest.mark.parametrize(("name", "arguments", "wanted"), [row[1:] for row in FAULTY], ids=[row[0] for row in FAULTY])
def test_what_cannot_be_repaired_is_a_fault(name: str, arguments: Json, wanted: list[tuple[str, str]]) -> None:
    before = call(name, arguments)
    after, _, faults = repair_call(before, TOOLS)
    assert [(fault.path, fault.keyword) for fault in faults] == wanted
    assert repair_call(after, TOOLS) == (after, (), faults)


def test_a_faulty_call_keeps_what_could_be_repaired() -> None:
    after, repairs, faults = repair_call(call("createEvent", {"title": "x", "minutes": "30"}), TOOLS)
    assert (after.name, after.arguments) == ("create_event", {"title": "x", "minutes": 30})
    assert [repair.path for repair in repairs] == ["/calls/0/name", "/calls/0/arguments/minutes"]
    assert faults == (Fault("/calls/0/arguments/priority", "required", "/calls/0/arguments/priority is missing"),)


def test_the_tool_is_never_switched_to_fit_the_arguments() -> None:
    after, _, _ = repair_call(call("read_file", {"path": "x", "content": "y", "overwrite": True}), TOOLS)
    assert after.name == "read_file"


def test_an_invented_name_is_mapped_when_it_says_the_same_and_only_one_tool_takes_the_arguments() -> None:
    bash = Tool("execute_bash", {"type": "object", "properties": {"command": TEXT}, "required": ["command"]})
    after, repairs, faults = repair_call(call("execute_command", {"command": "ls"}), (bash, READ))
    assert (after.name, faults) == ("execute_bash", ())
    assert [(repair.rung, repair.note) for repair in repairs] == [("names", "meant by its arguments")]


def test_a_call_to_a_tool_in_a_namespace_goes_out_by_its_local_name() -> None:
    tool = Tool("fs.read", READ.parameters, "", "fs")
    for name in ("fs.read", "read", "functions.fs.read"):
        after, repairs, faults = repair_call(call(name, {"path": "x"}), (tool, WRITE))
        assert (after.name, after.namespace, faults) == ("read", "fs", ())
        assert [repair.rung for repair in repairs] == ["names"]
        assert repair_call(after, (tool, WRITE))[0] is after


def test_a_call_fits_when_the_ladder_leaves_no_fault() -> None:
    assert fits(call("readFile", {"filePath": "x"}), TOOLS)
    assert not fits(call("read_file", {}), TOOLS)
    assert not fits(call("search_web", {"query": "x"}), TOOLS)


def test_arguments_nested_without_end_pass() -> None:
    deep: Json = {}
    for _ in range(5_000):
        deep = {"a": deep}
    before = call("write_file", {"path": "a", "content": "b", "deep": deep})
    assert repair_call(before, TOOLS)[0] is before


# Whole turns


def test_a_turn_without_anything_to_repair_is_the_same_object() -> None:
    turn = Turn("Here it is.", "", (call("read_file", {"path": "x"}),), "tool_calls")
    outcome = repair_turn(turn, request())
    assert outcome.turn is turn
    assert (outcome.repairs, outcome.faults) == ((), ())


def test_without_tools_nothing_is_a_call() -> None:
    turn = Turn('<tool_call>{"name": "read_file", "arguments": {}}</tool_call>', finish="stop")
    outcome = repair_turn(turn, Request("openai-chat", "m", (), ToolChoice(), False, Body({})))
    assert outcome.turn is turn


def test_every_call_of_a_turn_is_repaired_in_its_place() -> None:
    calls = (
        call("readFile", {"path": "x"}, "a"),
        call("read_file", {"path": "y"}, "b"),
        call("read_file", {"path": "z", "limit": "1"}, "c"),
    )
    outcome = repair_turn(Turn(calls=calls, finish="tool_calls"), request())
    assert [(made.id, made.name, made.arguments) for made in outcome.turn.calls] == [
        ("a", "read_file", {"path": "x"}),
        ("b", "read_file", {"path": "y"}),
        ("c", "read_file", {"path": "z", "limit": 1}),
    ]
    assert [repair.path for repair in outcome.repairs] == ["/calls/0/name", "/calls/2/arguments/limit"]
    assert outcome.turn.calls[1] is calls[1]


def test_equal_calls_stay_two_calls() -> None:
    turn = Turn(calls=(call("get_time", {}, "a"), call("get_time", {}, "b")), finish="tool_calls")
    assert repair_turn(turn, request()).turn is turn


def test_ids_are_made_where_they_are_missing_or_doubled_and_stay_the_same() -> None:
    calls = (call("get_time", {}, "a"), call("get_time", {}, "a"), call("get_time", {}, ""))
    turn = Turn(calls=calls, finish="tool_calls")
    outcome = repair_turn(turn, request())
    ids = [made.id for made in outcome.turn.calls]
    assert ids[0] == "a"
    assert len(set(ids)) == 3
    assert all(made.startswith("call_") and len(made) == 13 for made in ids[1:])
    assert [(repair.rung, repair.path) for repair in outcome.repairs] == [
        ("wire", "/calls/1/id"),
        ("wire", "/calls/2/id"),
    ]
    assert repair_turn(turn, request()).turn == outcome.turn
    assert repair_turn(outcome.turn, request()).turn is outcome.turn


def test_a_call_on_a_surface_without_ids_needs_none() -> None:
    turn = Turn(calls=(call("get_time", {}, ""), call("get_time", {}, "")), finish="stop")
    assert repair_turn(turn, request(surface="ollama-chat")).turn is turn


def test_several_objects_in_one_call_are_several_calls_if_each_fits() -> None:
    glued = call("read_file", '{"path": "x"}{"path": "y", "limit": "3"}')
    outcome = repair_turn(Turn(calls=(glued,), finish="tool_calls"), request())
    assert [(made.name, made.arguments) for made in outcome.turn.calls] == [
        ("read_file", {"path": "x"}),
        ("read_file", {"path": "y", "limit": 3}),
    ]
    assert outcome.turn.calls[0].id == "call_1"
    assert outcome.turn.calls[1].id not in ("", "call_1")
    assert outcome.faults == ()
    assert repair_turn(outcome.turn, request()).turn is outcome.turn


def test_several_objects_of_which_one_does_not_fit_are_none() -> None:
    glued = call("read_file", '{"path": "x"}{"limit": 3}')
    outcome = repair_turn(Turn(calls=(glued,), finish="tool_calls"), request())
    assert outcome.turn.calls == (glued,)
    assert [fault.keyword for fault in outcome.faults] == ["syntax"]


def test_a_turn_that_promises_calls_and_has_none_ends_with_stop() -> None:
    outcome = repair_turn(Turn("Done.", finish="tool_calls"), request())
    assert outcome.turn == Turn("Done.", finish="stop")
    assert [(repair.rung, repair.path, repair.before, repair.after) for repair in outcome.repairs] == [
        ("wire", "/finish", "tool_calls", "stop")
    ]


def test_the_reason_beside_calls_is_the_surfaces_business() -> None:
    turn = Turn(calls=(call("get_time", {}),), finish="stop")
    assert repair_turn(turn, request()).turn is turn


@pytest.mark.parametrize(("finish", "keywords"), [("tool_calls", []), ("length", ["syntax"]), (None, ["syntax"])])
def test_closers_are_added_only_where_the_model_stopped_by_itself(finish: Finish | None, keywords: list[str]) -> None:
    open_call = call("create_event", '{"title": "x", "minutes": 1, "priority": "low", "attendees": ["a"')
    outcome = repair_turn(Turn(calls=(open_call,), finish=finish), request())
    assert [fault.keyword for fault in outcome.faults] == keywords
    assert outcome.turn.calls[0].arguments == (
        open_call.arguments if keywords else {"title": "x", "minutes": 1, "priority": "low", "attendees": ["a"]}
    )


@pytest.mark.parametrize("start", ["<arguments>", "null"])
def test_no_closers_are_added_either_behind_what_stood_before_the_object(start: str) -> None:
    arguments = start + '{"title": "x", "minutes": 1, "priority": "low", "attendees": ["a"'
    turn = Turn(calls=(call("create_event", arguments),), finish="length")
    outcome = repair_turn(turn, request())
    assert [fault.keyword for fault in outcome.faults] == ["syntax"]
    assert outcome.turn.calls[0].arguments == arguments
    stopped = repair_turn(Turn(calls=turn.calls, finish="tool_calls"), request())
    wanted: Json = {"title": "x", "minutes": 1, "priority": "low", "attendees": ["a"]}
    assert (stopped.turn.calls[0].arguments, stopped.faults) == (wanted, ())
