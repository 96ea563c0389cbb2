"""Arguments get the form that their schema asks for, never another meaning."""

from __future__ import annotations

import time

import pytest

from toolmend.model import Json, Repair, Tool
from toolmend.repair.coercion import Coerced, coerce

WHOLE: Json = {"type": "integer"}
NUMBER: Json = {"type": "number"}
TRUTH: Json = {"type": "boolean"}
TEXT: Json = {"type": "string"}
NONE: Json = {"type": "null"}


def items(schema: Json) -> Json:
    return {"type": "array", "items": schema}


def allowed(*values: Json) -> Json:
    return {"type": "string", "enum": list(values)}


def members(*required: str, **properties: Json) -> dict[str, Json]:
    return {"type": "object", "properties": properties, "required": list(required)}


def closed(*required: str, **properties: Json) -> dict[str, Json]:
    return {**members(*required, **properties), "additionalProperties": False}


STEP: Json = members("n", n=WHOLE)

# What one member `a` (required, so that nothing is left out) becomes.
COERCED: list[tuple[str, Json, Json, Json]] = [
    ("a quoted integer", WHOLE, "30", 30),
    ("a quoted integer with a sign", WHOLE, "-30", -30),
    ("an integer quoted twice", WHOLE, '"30"', 30),
    ("an integer with blanks", WHOLE, " 30 ", 30),
    ("an integer as a quoted float", WHOLE, "230.0", 230),
    ("an integer as a float", WHOLE, 14380.0, 14380),
    ("an integer as a float, in a list", items(WHOLE), [1.0, 2], [1, 2]),
    ("a quoted number", NUMBER, "1.5", 1.5),
    ("a quoted whole number", NUMBER, "2", 2),
    ("a number with an exponent", NUMBER, "1e3", 1000.0),
    ("true in quotes", TRUTH, "true", True),
    ("True in quotes", TRUTH, "True", True),
    ("FALSE in quotes", TRUTH, "FALSE", False),
    ("no for false", TRUTH, "no", False),
    ("1 for true", TRUTH, 1, True),
    ("a number where text is asked", TEXT, 12345, "12345"),
    ("a truth where text is asked", allowed("true", "false"), True, "true"),
    ("a list as text", items(TEXT), '["a", "b"]', ["a", "b"]),
    ("a list as Python text", items(TEXT), "['a', \"b's\"]", ["a", "b's"]),
    ("a list as text, to be coerced inside", items(WHOLE), '["1", 2]', [1, 2]),
    ("objects as Python text", items(STEP), "[{'n': '1'}]", [{"n": 1}]),
    ("an object as text", STEP, '{"n": 1}', {"n": 1}),
    ("an object as text, in text", STEP, '"{\\"n\\": 1}"', {"n": 1}),
    ("one value for a list of it", items(TEXT), "a", ["a"]),
    ("one object for a list of it", items(STEP), {"n": "1"}, [{"n": 1}]),
    ("one value for a list of anything", items(True), 5, [5]),
    ("several numbers in one text", items(WHOLE), "1, 2,3", [1, 2, 3]),
    ("several allowed values in one text", items(allowed("x", "y")), "x, y", ["x", "y"]),
    ("a list of one for the value", TEXT, ["a"], "a"),
    ("inside lists of objects", items(STEP), [{"n": "1"}, {"n": 2}], [{"n": 1}, {"n": 2}]),
    ("null as text where text is no type", {"type": ["integer", "null"]}, "null", None),
    ("None as text where text is no type", {"anyOf": [WHOLE, NONE]}, "None", None),
    ("a branch of anyOf", {"anyOf": [WHOLE, NONE]}, "5", 5),
    ("the plainer branch of two", {"anyOf": [items(WHOLE), WHOLE]}, "5", 5),
    ("two branches that agree", {"anyOf": [WHOLE, NUMBER]}, "5", 5),
    ("a branch of oneOf, told by its tag", {"oneOf": [closed("k", k=allowed("a"), n=WHOLE), closed("k", k=allowed("b"), m=WHOLE)]}, {"k": "b", "m": "3"}, {"k": "b", "m": 3}),
    ("all of allOf", {"allOf": [{"title": "Days"}, WHOLE]}, "5", 5),
    ("a type list", {"type": ["number", "boolean"]}, "true", True),
    ("an allowed value in another case", allowed("low", "high"), "High", "high"),
    ("an allowed value in quotes", allowed("edit", "create"), '"edit"', "edit"),
    ("an allowed value with blanks", allowed("edit", "create"), " edit\n", "edit"),
    ("an allowed value in another style", allowed("in_progress", "done"), "In Progress", "in_progress"),
    ("an allowed value with a slip", allowed("low", "medium", "high"), "medum", "medium"),
    ("an allowed value with two slips in a long word", allowed("celsius", "fahrenheit"), "farenhiet", "fahrenheit"),
    ("an allowed number in quotes", {"enum": [1, 2]}, "2", 2),
    ("nothing, where it is allowed by name", {"enum": ["a", None]}, "null", None),
    ("the only value", {"const": "Text"}, "text", "text".title()),
    ("a value out of a schema's echo", TEXT, {"type": "string", "value": "Oslo"}, "Oslo"),
    ("an object where the description asks for JSON", {"type": "string", "description": "JSON string of the arguments"}, {"url": "x"}, '{"url": "x"}'),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "value", "wanted"), [row[1:] for row in COERCED], ids=[row[0] for row in COERCED])
def test_a_value_gets_the_form_that_is_asked_for(schema: Json, value: Json, wanted: Json) -> None:
    coerced = coerce({"a": value}, members("a", a=schema))
    assert coerced.value == {"a": wanted}
    assert type(coerced.value) is dict
    assert type(coerced.value["a"]) is type(wanted)
    assert coerced.repairs
    assert coerce(coerced.value, members("a", a=schema)) == Coerced(coerced.value)


LEFT: list[tuple[str, Json, Json]] = [
    ("a fraction for an integer", WHOLE, "30.5"),
    ("words for a number", WHOLE, "half past"),
    ("a number with its unit", WHOLE, "30 minutes"),
    ("a number with leading zeros", WHOLE, "007"),
    ("digits of another script", WHOLE, "٣"),
    ("a number of very many digits", WHOLE, "9" * 100_000),
    ("a number beyond all numbers", NUMBER, "1e999"),
    ("a word in quotes for an object", STEP, '"n"'),
    ("a word that is no truth", TRUTH, "perhaps"),
    ("a number that is no truth", TRUTH, 2),
    ("null for a required value", WHOLE, None),
    ("nothing for a required value", WHOLE, ""),
    ("an object for text that must match byte for byte", TEXT, {"test": "jest"}),
    ("a list for text", TEXT, ["a", "b"]),
    ("a list with a comma in it, as text", items(TEXT), "Buy milk, eggs"),
    ("lines as text", items(TEXT), "one\ntwo"),
    ("a list that was cut", items(TEXT), '["a", "b'),
    ("a bracket that opens no list", items(TEXT), "[abc"),
    ("an object for a list of texts", items(TEXT), {"x": 1}),
    ("a value out of range", {"type": "integer", "maximum": 100}, 255),
    ("a value that is not allowed", allowed("low", "high"), "urgent"),
    ("two allowed values as near", allowed("cart", "card"), "carx"),
    ("two allowed values alike", allowed("A", "a"), " ａ"),
    ("the opposite of an allowed value", allowed("visible", "hidden"), "invisible"),
    ("another number in an allowed value", allowed("level-1", "level-2"), "level-3"),
    ("another number but for its point", allowed("11", "12"), "1.1"),
    ("another number but for its sign", allowed("1", "2"), "-1"),
    ("another version but for its last letter", allowed("gpt-4o", "gpt-3"), "gpt-4"),
    ("nothing where a value is asked for", allowed("low", "high"), None),
    ("several allowed values where one is asked for", allowed("low", "high"), ["low", "high"]),
    ("an allowed value in a page of text", allowed("low", "high"), "low" + " " * 5_000),
    ("a word that goes on long after an allowed one", allowed("celsius", "kelvin"), "celsiusandfahrenheit"),
    ("another name but for its symbol", allowed("c", "python"), "c++"),
    ("the opposite by how it begins", allowed("increase", "hold"), "decrease"),
    ("the opposite by how it begins, in long words", allowed("ascending", "random"), "descending"),
    ("the opposite by one letter", allowed("upload", "sync"), "unload"),
    ("another word of the same ending", allowed("right", "left"), "light"),
    ("another word of the same beginning", allowed("warn", "info"), "warm"),
    ("another word in a pair of words", allowed("north-east", "south"), "north-west"),
    ("a value between two branches", {"anyOf": [TRUTH, allowed("Yes", "Never")]}, "yes"),
    ("a value that fits two branches of oneOf", {"oneOf": [WHOLE, {"minimum": 2}]}, 3),
    ("text that does not match", {"type": "string", "pattern": "^[a-z]+$"}, "A1"),
]


@pytest.mark.parametrize(("schema", "value"), [row[1:] for row in LEFT], ids=[row[0] for row in LEFT])
def test_what_has_no_one_form_stays_as_it_is(schema: Json, value: Json) -> None:
    arguments: Json = {"a": value}
    coerced = coerce(arguments, members("a", a=schema))
    assert coerced == Coerced(arguments)
    assert coerced.value is arguments


VALID: list[tuple[str, Json, Json]] = [
    ("text that looks like a number", TEXT, "42"),
    ("text that looks like JSON", TEXT, '{"a": 1}'),
    ("text that looks like null", TEXT, "null"),
    ("text with entities", TEXT, "a &lt; b &amp;&amp; c"),
    ("text with line ends and paths", TEXT, "C:\\new\\dir\nnext"),
    ("text where a number would do too", {"type": ["string", "integer"]}, "3"),
    ("text in one of two branches", {"anyOf": [TEXT, STEP]}, '{"n": 1}'),
    ("a float where any number will do", NUMBER, 3.0),
    ("a float where a number will do too", {"anyOf": [WHOLE, NUMBER]}, 3.0),
    ("a float beyond the exact integers", WHOLE, 1e300),
    ("an empty text", TEXT, ""),
    ("anything without a schema", True, {"x": [1.0, "2"]}),
]


@pytest.mark.parametrize(("schema", "value"), [row[1:] for row in VALID], ids=[row[0] for row in VALID])
def test_what_fits_is_never_touched(schema: Json, value: Json) -> None:
    arguments: Json = {"a": value}
    assert coerce(arguments, members("a", a=schema)).value is arguments


OPTIONAL: list[tuple[str, Json, Json]] = [
    ("null", TEXT, None),
    ("null for a number", WHOLE, None),
    ("an empty text for a number", WHOLE, ""),
    ("blanks for a number", WHOLE, " "),
    ("null as text for a number", WHOLE, "null"),
    ("None as text for a list of numbers", items(WHOLE), "None"),
    ("an empty text for an allowed value", allowed("a", "b"), ""),
    ("an empty text for a text with a pattern", {"type": "string", "pattern": "^.+$"}, ""),
]


@pytest.mark.parametrize(("schema", "value"), [row[1:] for row in OPTIONAL], ids=[row[0] for row in OPTIONAL])
def test_nothing_for_an_optional_member_leaves_it_out(schema: Json, value: Json) -> None:
    coerced = coerce({"a": value, "b": 1}, members("b", a=schema, b=WHOLE), "/x")
    assert coerced == Coerced({"b": 1}, (Repair("coerce", "/x/a", value, None, "left out"),))


def test_nothing_deep_inside_is_left_out_only_where_it_may_be_absent() -> None:
    schema = members("o", o=items(members("b", a=WHOLE, b=WHOLE)))
    assert coerce({"o": [{"a": None, "b": 1}]}, schema, "/x") == Coerced(
        {"o": [{"b": 1}]}, (Repair("coerce", "/x/o/0/a", None, None, "left out"),)
    )
    required: Json = {"o": [{"a": 1, "b": None}]}
    assert coerce(required, schema).value is required


def test_blanks_of_a_form_are_left_out_with_other_repairs_and_stay_in_a_valid_call() -> None:
    schema = members(name=TEXT, floor=TEXT, domain=items(TEXT))
    assert coerce({"domain": '["vacuum"]', "floor": ""}, schema).value == {"domain": ["vacuum"]}
    valid: Json = {"domain": ["vacuum"], "floor": ""}
    assert coerce(valid, schema).value is valid
    required = members("domain", floor=TEXT, domain=items(TEXT))
    assert coerce({"domain": '["vacuum"]', "floor": ""}, required).value == {"domain": ["vacuum"], "floor": ""}


def test_a_default_is_filled_in_for_a_required_member_only() -> None:
    schema = members("a", a={"type": "integer", "default": 3}, b={"type": "integer", "default": 4})
    assert coerce({}, schema, "/x") == Coerced({"a": 3}, (Repair("coerce", "/x/a", None, 3, "default"),))


def test_the_only_value_of_a_required_member_is_filled_in() -> None:
    schema = members("kind", "mode", "path", kind={"const": "file"}, mode={"enum": ["r"]}, path=TEXT)
    assert coerce({"path": "x"}, schema, "/x") == Coerced(
        {"path": "x", "kind": "file", "mode": "r"},
        (
            Repair("coerce", "/x/kind", None, "file", "only value"),
            Repair("coerce", "/x/mode", None, "r", "only value"),
        ),
    )


def test_a_default_that_does_not_fit_is_not_filled_in() -> None:
    arguments: Json = {}
    assert coerce(arguments, members("a", a={"type": "integer", "default": "x"})).value is arguments


def test_every_change_is_told_with_its_place() -> None:
    schema = members("a", a=items(STEP), p=allowed("low", "high"))
    assert coerce({"a": [{"n": "1"}], "p": "HIGH"}, schema, "/calls/2/arguments") == Coerced(
        {"a": [{"n": 1}], "p": "high"},
        (
            Repair("coerce", "/calls/2/arguments/p", "HIGH", "high", "allowed value"),
            Repair("coerce", "/calls/2/arguments/a/0/n", "1", 1),
        ),
    )


def test_what_can_be_mended_is_mended_beside_what_cannot() -> None:
    schema = members("a", "b", a=WHOLE, b=WHOLE)
    assert coerce({"a": "1", "b": "x"}, schema).value == {"a": 1, "b": "x"}


def test_what_can_be_mended_is_mended_beside_a_change_that_would_break_something_else() -> None:
    """Left out, `unit` would be missed by `size`: so it stays, and the size becomes a number all the same."""
    schema = {**members(size=WHOLE, unit=WHOLE, at=WHOLE), "dependentRequired": {"size": ["unit"]}}
    assert coerce({"size": "1", "unit": "", "at": "2"}, schema, "/x") == Coerced(
        {"size": 1, "unit": "", "at": 2},
        (Repair("coerce", "/x/size", "1", 1), Repair("coerce", "/x/at", "2", 2)),
    )


def test_references_are_followed_also_into_themselves() -> None:
    schema: Json = {
        "$defs": {"Node": members("n", n=WHOLE, next={"$ref": "#/$defs/Node"})},
        "$ref": "#/$defs/Node",
    }
    assert coerce({"n": "1", "next": {"n": 2.0, "next": {"n": "3"}}}, schema).value == {
        "n": 1,
        "next": {"n": 2, "next": {"n": 3}},
    }


def test_what_stands_deep_inside_is_mended_as_well_and_at_once() -> None:
    node: Json = closed("path", path=TEXT, next={"$ref": "#/$defs/Node"})
    schema: Json = {"$defs": {"Node": node}, "$ref": "#/$defs/Node"}
    given: Json = {"filePath": "x"}
    wanted: Json = {"path": "x"}
    for _ in range(20):
        given, wanted = {"filePath": "x", "next": given}, {"path": "x", "next": wanted}
    assert coerce(given, schema).value == wanted


# Keys

RENAMED: list[tuple[str, Json, Json, Json]] = [
    ("another style", closed("file_path", file_path=TEXT), {"filePath": "x"}, {"file_path": "x"}),
    ("blanks", closed("path", path=TEXT, limit=WHOLE), {"path": "x", "limit ": "20"}, {"path": "x", "limit": 20}),
    ("a near synonym", members("path", path=TEXT, offset=WHOLE), {"filePath": "x"}, {"path": "x"}),
    ("a near synonym the other way", members("file_path", file_path=TEXT), {"path": "x"}, {"file_path": "x"}),
    ("a near synonym of another kind", members("command", command=TEXT), {"cmd": "ls"}, {"command": "ls"}),
    ("the last word", members("tool_name", tool_name=TEXT), {"name": "x"}, {"tool_name": "x"}),
    ("a slip", closed("path", path=TEXT, limit=WHOLE), {"path": "x", "limt": 2}, {"path": "x", "limit": 2}),
    ("one for many", members("paths", paths=items(TEXT)), {"path": "x"}, {"paths": ["x"]}),
    ("inside a list", members("a", a=items(closed("file_path", file_path=TEXT))), {"a": [{"filePath": "x"}]}, {"a": [{"file_path": "x"}]}),
]  # fmt: skip


@pytest.mark.parametrize(("schema", "value", "wanted"), [row[1:] for row in RENAMED], ids=[row[0] for row in RENAMED])
def test_a_key_that_means_a_declared_member_is_renamed(schema: Json, value: Json, wanted: Json) -> None:
    coerced = coerce(value, schema)
    assert coerced.value == wanted
    assert coerced.repairs[0].rung == "keys"


NOT_RENAMED: list[tuple[str, Json, Json]] = [
    ("an unrelated key", members("source", source=TEXT), {"code": "x"}),
    ("an unrelated key where it is forbidden", closed("source", source=TEXT), {"code": "x"}),
    ("two missing", members("path", "file", path=TEXT, file=TEXT), {"file_path": "x"}),
    ("two unknown", members("path", path=TEXT), {"file_path": "x", "filename": "y"}),
    ("a value of another type", members("path", path=TEXT), {"file_path": {"x": 1}}),
    ("old for new", members("new_string", new_string=TEXT), {"old_string": "x"}),
    ("a thing for its opposite", members("non_recursive", non_recursive=TRUTH), {"recursive": True}),
    ("a thing for what it is left out of", members("exclude_path", exclude_path=TEXT), {"path": "x"}),
    ("another word with a letter before it", members("age", age=WHOLE), {"page": 3}),
    ("an upload for an unload", members("upload", upload=TEXT), {"unload": "x"}),
]


@pytest.mark.parametrize(("schema", "value"), [row[1:] for row in NOT_RENAMED], ids=[row[0] for row in NOT_RENAMED])
def test_a_key_that_may_mean_something_else_stays(schema: Json, value: Json) -> None:
    assert coerce(value, schema).value is value


def test_surplus_members_are_dropped_only_where_the_schema_forbids_them() -> None:
    arguments: Json = {"path": "x", "encoding": "utf-8"}
    assert coerce(arguments, members("path", path=TEXT)).value is arguments
    assert coerce(arguments, closed("path", path=TEXT), "/x") == Coerced(
        {"path": "x"}, (Repair("keys", "/x/encoding", "utf-8", None, "left out"),)
    )
    optional: Json = {"type": "object", "properties": {"path": TEXT}, "additionalProperties": False}
    assert coerce(arguments, optional).value == {"path": "x"}


def test_surplus_members_that_are_all_that_was_said_are_not_dropped() -> None:
    arguments: Json = {"state": "running"}
    assert coerce(arguments, closed(status=TEXT)).value is arguments
    assert coerce(arguments, closed()).value == {}


def test_a_surplus_member_that_says_another_tool_was_meant_is_not_dropped() -> None:
    write = Tool("write", members("path", "content", path=TEXT, content=TEXT))
    arguments: Json = {"path": "x", "content": "y"}
    assert coerce(arguments, closed("path", path=TEXT), others=(write,)).value is arguments


def test_no_element_is_ever_dropped_from_a_list() -> None:
    arguments: Json = {"a": [1, None, "", 2]}
    assert coerce(arguments, members("a", a=items(WHOLE))).value is arguments


# Objects as text


def test_an_object_becomes_text_as_the_model_spaced_it() -> None:
    schema = members("a", a={"type": "string", "description": "JSON text"})
    compact = coerce({"a": {"x": [1, 2]}}, schema, written='{"a":{"x":[1,2]}}')
    assert compact.value == {"a": '{"x":[1,2]}'}
    assert coerce({"a": {"x": [1, 2]}}, schema, written='{"a": {"x": [1, 2]}}').value == {"a": '{"x": [1, 2]}'}


def test_a_number_becomes_text_as_the_model_wrote_it() -> None:
    schema = members("version", version=TEXT, limit=WHOLE)
    assert coerce({"version": 3.1}, schema, written='{"version": 3.10}').value == {"version": "3.10"}
    assert coerce({"version": 42}, schema, written='{"version": 42, "limit": 4}').value == {"version": "42"}
    assert coerce({"version": 3.1}, schema).value == {"version": "3.1"}
    unclear: Json = {"version": 3.1}
    assert coerce(unclear, schema, written='{"version": 3.10, "note": "not 3.1"}').value is unclear
    made: Json = {"version": 6}
    assert coerce(made, schema, written='{"version": 2*3}').value is made
    two = members("a", "b", a=TEXT, b=TEXT)
    assert coerce({"a": 1.5, "b": 2}, two, written='{"a": 1.50, "b": 2}').value == {"a": "1.50", "b": "2"}


def test_the_body_of_a_json_file_may_come_as_an_object() -> None:
    schema = members("path", "content", path=TEXT, content={"type": "string", "description": "What to write."})
    assert coerce({"path": "cfg.json", "content": {"debug": True}}, schema).value == {
        "path": "cfg.json",
        "content": '{"debug": true}',
    }
    files = members("files", files=items(members("path", "text", path=TEXT, text=TEXT)))
    given: Json = {"files": [{"path": "a.txt", "text": "A"}, {"path": "b.json", "text": {"n": 1}}]}
    assert coerce(given, files).value == {
        "files": [{"path": "a.txt", "text": "A"}, {"path": "b.json", "text": '{"n": 1}'}]
    }
    other: Json = {"path": "cfg.py", "content": {"debug": True}}
    assert coerce(other, schema).value is other


# Bounds


HOSTILE: list[tuple[str, Json, Json]] = [
    ("many numbers as text", items(WHOLE), [str(number) for number in range(20_000)]),
    ("many nothings", items(members(n=WHOLE)), [{"n": None} for _ in range(2_000)]),
    ("many branches", {"anyOf": [closed("k", k={"const": number}) for number in range(5_000)]}, {"k": "1"}),
    ("many allowed values", allowed(*(f"value{number}" for number in range(20_000))), "valuX7"),
    ("lists in lists for ever", {"$ref": "#/$defs/T"}, "x"),
    ("a megabyte of brackets", items(WHOLE), "[" * 1_000_000),
    ("a megabyte of numbers", items(WHOLE), "[" + "1," * 200_000),
]


@pytest.mark.parametrize(("schema", "value"), [row[1:] for row in HOSTILE], ids=[row[0] for row in HOSTILE])
def test_coercion_ends_whatever_is_asked_of_it(schema: Json, value: Json) -> None:
    """Processor time, not the clock."""
    whole: Json = {**members("a", a=schema), "$defs": {"T": items({"$ref": "#/$defs/T"})}}
    start = time.process_time()
    coerce({"a": value}, whole)
    assert time.process_time() - start < 10
