"""Calls are found wherever they are, and where there is none it is told what became of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from toolmend.model import Body, Finish, Json, JsonObject, Request, Tool, ToolCall, ToolChoice, Turn
from toolmend.repair.ladder import repair_turn

TEXT: Json = {"type": "string"}


def closed(required: list[Json], **properties: Json) -> JsonObject:
    return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}


READ = Tool("read_file", closed(["path"], path=TEXT, limit={"type": "integer"}))
WRITE = Tool("write_file", closed(["path", "content"], path=TEXT, content=TEXT))
TODOS = Tool("write_todos", closed(["todos"], todos={"type": "array", "items": closed(["content"], content=TEXT)}))
NOW = Tool("get_time", closed([]))
TOOLS = (READ, WRITE, TODOS, NOW)


def request(surface: str = "openai-chat", *, none: bool = False) -> Request:
    return Request(surface, "m", TOOLS, ToolChoice("none" if none else "auto"), False, Body({}))


def calls_of(turn: Turn) -> list[tuple[str, Json]]:
    return [(call.name, call.arguments) for call in turn.calls]


def keywords(turn: Turn, surface: str = "openai-chat") -> list[str]:
    return [fault.keyword for fault in repair_turn(turn, request(surface)).faults]


LEAK = '<tool_call>\n{"name": "readFile", "arguments": {"path": "a", "limit": "3"}}\n</tool_call>'


# Text and thinking


def test_a_call_in_the_text_is_lifted_and_repaired() -> None:
    outcome = repair_turn(Turn("I will look.\n" + LEAK, finish="stop"), request())
    assert calls_of(outcome.turn) == [("read_file", {"path": "a", "limit": 3})]
    assert outcome.turn.text.strip() == "I will look."
    assert outcome.faults == ()
    assert [(repair.rung, repair.path) for repair in outcome.repairs] == [
        ("recover", "/calls/0"),
        ("recover", "/text"),
        ("names", "/calls/0/name"),
        ("coerce", "/calls/0/arguments/limit"),
    ]
    assert outcome.repairs[0].after == {"name": "readFile", "arguments": {"path": "a", "limit": "3"}}
    assert outcome.turn.calls[0].id.startswith("call_")
    assert repair_turn(outcome.turn, request()).turn is outcome.turn


def test_a_call_in_the_thinking_is_lifted_when_there_is_nothing_else() -> None:
    outcome = repair_turn(Turn("", "I should look.\n" + LEAK, finish="stop"), request())
    assert calls_of(outcome.turn) == [("read_file", {"path": "a", "limit": 3})]
    assert outcome.turn.thinking.strip() == "I should look."
    assert ("recover", "/thinking") in [(repair.rung, repair.path) for repair in outcome.repairs]


@pytest.mark.parametrize("turn", [
    Turn("The file is empty.", "Maybe\n" + LEAK, finish="stop"),
    Turn("", "Maybe\n" + LEAK, (ToolCall("a", "read_file", {"path": "b"}),), "tool_calls"),
])  # fmt: skip
def test_a_draft_in_the_thinking_is_none_beside_an_answer(turn: Turn) -> None:
    assert repair_turn(turn, request()).turn is turn


def test_a_text_copy_of_a_structured_call_is_removed() -> None:
    structured = ToolCall("a", "read_file", {"path": "a", "limit": 3})
    outcome = repair_turn(Turn("Looking.\n" + LEAK, "", (structured,), "tool_calls"), request())
    assert outcome.turn.calls == (structured,)
    assert outcome.turn.text.strip() == "Looking."


def test_another_call_in_the_text_joins_the_structured_one() -> None:
    structured = ToolCall("a", "read_file", {"path": "b"})
    outcome = repair_turn(Turn(LEAK, "", (structured,), "tool_calls"), request())
    assert calls_of(outcome.turn) == [("read_file", {"path": "b"}), ("read_file", {"path": "a", "limit": 3})]


@pytest.mark.parametrize(
    "left", ["<|im_end|>", "<|tool_call", "</tool_call>", "[TOOL_CALLS]", "<tool_call|>", " </s>\n"]
)
def test_a_marker_left_beside_a_structured_call_is_taken_away(left: str) -> None:
    structured = ToolCall("a", "read_file", {"path": "a"})
    outcome = repair_turn(Turn(left, "", (structured,), "tool_calls"), request())
    assert (outcome.turn.text, outcome.turn.calls, outcome.faults) == ("", (structured,), ())


def test_words_beside_a_structured_call_stay() -> None:
    turn = Turn("a < b | c, see </b>", "", (ToolCall("a", "read_file", {"path": "a"}),), "tool_calls")
    assert repair_turn(turn, request()).turn is turn


def test_a_leaked_call_without_a_required_member_keeps_its_fault() -> None:
    text = '<tool_call>{"name": "write_file", "arguments": {"path": "a"}}</tool_call>'
    outcome = repair_turn(Turn(text, finish="stop"), request())
    assert [(fault.path, fault.keyword) for fault in outcome.faults] == [("/calls/0/arguments/content", "required")]


def test_a_leaked_call_of_an_unknown_tool_leaves_the_text() -> None:
    text = '<tool_call>{"name": "search_web", "arguments": {"query": "x"}}</tool_call>'
    outcome = repair_turn(Turn(text, finish="stop"), request())
    assert outcome.turn.text == text
    assert [fault.keyword for fault in outcome.faults] == ["unknown-tool"]
    assert keywords(Turn(text.replace("search_web", "file_read_lines"), finish="stop")) == ["invented-tool"]


def test_a_call_that_was_opened_and_cannot_be_read_is_asked_for_again() -> None:
    assert keywords(Turn('<tool_call>\n{"name": read_file, oh well}\n</tool_call>', finish="stop")) == ["unreadable"]


CUT = '<tool_call>\n{"name": "write_file", "arguments": {"path": "a", "content": "Once up'


@pytest.mark.parametrize(("finish", "surface", "keyword"), [
    ("length", "openai-chat", "cut"),
    (None, "openai-chat", "cut"),
    ("stop", "openai-chat", "unreadable"),
    ("stop", "openai-responses", "cut"),
])  # fmt: skip
def test_a_call_that_was_cut_is_never_completed(finish: Finish | None, surface: str, keyword: str) -> None:
    """On /v1/responses an answer that the limit cut looks like any other."""
    outcome = repair_turn(Turn(CUT, finish=finish), request(surface))
    assert outcome.turn.text == CUT
    assert [fault.keyword for fault in outcome.faults] == [keyword]


def test_whole_calls_before_the_cut_are_kept() -> None:
    outcome = repair_turn(Turn(LEAK + "\n" + CUT, finish="length"), request())
    assert calls_of(outcome.turn) == [("read_file", {"path": "a", "limit": 3})]
    assert outcome.turn.finish == "tool_calls"
    assert outcome.turn.text.strip() == ""


def test_with_tool_choice_none_nothing_in_the_text_is_a_call() -> None:
    turn = Turn(LEAK, finish="stop")
    assert repair_turn(turn, request(none=True)).turn is turn


# Errors


def error(raw: str, why: str = "invalid character") -> Turn:
    return Turn(finish="error", error=f"error parsing tool call: raw='{raw}', err={why}")


ERRORS: list[tuple[str, str, list[tuple[str, Json]]]] = [
    ("a stray closer", '{"path": "a", "content": "os.getenv(\'X\')\\n"]}', [("write_file", {"path": "a", "content": "os.getenv('X')\n"})]),
    ("single quotes", "{'path': 'a', 'limit': 20}", [("read_file", {"path": "a", "limit": 20})]),
    ("a quote and err= inside", '{"path": "a", "content": "\', err=x"}}', [("write_file", {"path": "a", "content": "', err=x"})]),
    ("an envelope", '{"tool":"write_file","args":{"path":"a","content":"b"}', [("write_file", {"path": "a", "content": "b"})]),
    ("an envelope in another style", '{"name": "readFile", "arguments": {"path": "a"}}]', [("read_file", {"path": "a"})]),
    ("nothing, for the only tool that needs nothing", "{}}", [("get_time", {})]),
    ("two objects", '{"path": "a"}{"path": "b", "content": "c"}', [("read_file", {"path": "a"}), ("write_file", {"path": "b", "content": "c"})]),
    ("a form of its own", "<function=read_file>\n<parameter=path>\na\n</parameter>\n</function>", [("read_file", {"path": "a"})]),
    (
        "two messages",
        '{"path": "a"}<|start|>assistant<|channel|>commentary to=functions.read_file <|constrain|>json<|message|>{"path": "b"}',
        [("read_file", {"path": "a"}), ("read_file", {"path": "b"})],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("raw", "wanted"), [row[1:] for row in ERRORS], ids=[row[0] for row in ERRORS])
def test_a_call_is_read_out_of_an_error(raw: str, wanted: list[tuple[str, Json]]) -> None:
    outcome = repair_turn(error(raw), request())
    assert calls_of(outcome.turn) == wanted
    assert (outcome.turn.error, outcome.turn.finish, outcome.faults) == (None, "tool_calls", ())
    assert repair_turn(outcome.turn, request()).turn is outcome.turn


def test_what_came_before_an_error_stays() -> None:
    outcome = repair_turn(replace(error("{'path': 'a'}"), text="Let me see.", thinking="Hm."), request())
    assert (outcome.turn.text, outcome.turn.thinking) == ("Let me see.", "Hm.")
    assert calls_of(outcome.turn) == [("read_file", {"path": "a"})]


FAILED: list[tuple[str, Turn, list[str]]] = [
    ("keys of two tools", error('{"path": "a", "limit": 1, "content": "b"}}'), ["server-error"]),
    ("a list, which names no tool", error('[{"content": "a"}]'), ["server-error"]),
    ("prose", error("We should call it. Let's do that."), ["server-error"]),
    ("one of two objects fits", error('{"path": "a"}{"x": 1}'), ["server-error"]),
    ("a form of its own, of no offered tool", error("<function=search_web>\n<parameter=query>\na\n</parameter>\n</function>"), ["server-error"]),
    ("a page of prose", error("We should call it. " * 20_000), ["server-error"]),
    ("a cut string", error('{"path": "a", "content": "Once up', "unexpected end of JSON input"), ["cut"]),
    ("no raw text", Turn(finish="error", error="XML syntax error on line 7: unexpected EOF"), ["server-error"]),
    ("no raw text, as JSON", Turn(finish="error", error="failed to parse JSON: invalid character ']' after object key:value pair"), ["server-error"]),
    ("a cut that the server tells", Turn(finish="error", error="incomplete GLM tool call: XML syntax error on line 1"), ["cut"]),
    ("a misnamed tool", Turn(finish="error", error="tool 'readFile' not found"), ["server-error"]),
    ("an invented tool", Turn(finish="error", error="tool 'file_lines' not found"), ["server-error"]),
    ("an unknown tool", Turn(finish="error", error="tool 'search_web' not found"), ["unknown-tool"]),
    ("a model without tools", Turn(finish="error", error="m does not support tools"), []),
    ("a broken history", Turn(finish="error", error="Invalid tool usage: mismatch between tool calls and tool results"), []),
    ("no model", Turn(finish="error", error="model 'm' not found, try pulling it first"), []),
]  # fmt: skip


@pytest.mark.parametrize(("turn", "wanted"), [row[1:] for row in FAILED], ids=[row[0] for row in FAILED])
def test_an_error_that_holds_no_call_stays_and_is_told_apart(turn: Turn, wanted: list[str]) -> None:
    outcome = repair_turn(turn, request())
    assert outcome.turn is turn
    assert [fault.keyword for fault in outcome.faults] == wanted


# The tap


def test_a_swallowed_call_is_read_from_the_tap() -> None:
    outcome = repair_turn(Turn(finish="stop", tokens=30, raw="<think>\nHm.\n</think>\n" + LEAK), request())
    assert calls_of(outcome.turn) == [("read_file", {"path": "a", "limit": 3})]
    assert outcome.faults == ()


def test_a_failed_call_is_read_from_the_tap() -> None:
    turn = Turn(finish="error", error="XML syntax error on line 1", tokens=30, raw=LEAK)
    outcome = repair_turn(turn, request())
    assert calls_of(outcome.turn) == [("read_file", {"path": "a", "limit": 3})]
    assert (outcome.turn.error, outcome.turn.finish) == (None, "tool_calls")


def test_the_tap_says_that_a_swallowed_call_was_of_no_offered_tool() -> None:
    raw = LEAK.replace("readFile", "search_web").replace('{"path": "a", "limit": "3"}', '{"query": "x"}')
    outcome = repair_turn(Turn(finish="stop", tokens=30, raw=raw), request())
    assert [fault.keyword for fault in outcome.faults] == ["unknown-tool"]


@pytest.mark.parametrize(
    ("raw", "wanted"),
    [
        # The limit ended it, and the parser failed on what there was: the limit stands.
        ('<|channel|>commentary to=functions.create_event<|message|>{"title": "Q3 pla', ["cut"]),
        ("<tool_call>create_event\n<arg_key>title</arg_key>\n<arg_value>Q3 pla", ["cut"]),
        # The parser failed on the last token, which it did not give out.
        ('[TOOL_CALLS]create_event[ARGS]{"title": "Q3", "days": 20', ["server-error"]),
        # The parser failed on the name, before the call was complete: it is worth asking.
        ('[TOOL_CALLS]createEvent[ARGS]{"title": "Q3", "days":', ["server-error"]),
        ('[TOOL_CALLS]search_web[ARGS]{"query": "Oslo"', ["unknown-tool"]),
    ],
)
def test_the_tap_tells_why_a_server_broke_off_without_a_word(raw: str, wanted: list[str]) -> None:
    tools = (Tool("create_event", closed(["title", "days"], title={"type": "string"}, days={"type": "integer"})),)
    asked = replace(request(), tools=tools)
    outcome = repair_turn(Turn(finish="error", error="", raw=raw), asked)
    assert [fault.keyword for fault in outcome.faults] == wanted


def test_the_tap_is_not_asked_when_the_turn_arrived() -> None:
    for turn in (
        Turn("It is empty.", finish="stop", raw=LEAK),
        Turn(calls=(ToolCall("a", "read_file", {"path": "b"}),), finish="tool_calls", raw=LEAK),
    ):
        assert repair_turn(turn, request()).turn is turn


# Nothing there


LOST: list[tuple[str, Turn, list[str]]] = [
    ("nothing at all", Turn(finish="stop", tokens=24), ["swallowed"]),
    ("nothing, and nobody counted", Turn(finish="stop"), ["swallowed"]),
    ("nothing, though calls are promised", Turn(finish="tool_calls", tokens=9), ["swallowed"]),
    ("nothing was generated", Turn(finish="stop", tokens=0), []),
    ("nothing, because the limit stands", Turn(finish="length", tokens=24), []),
    ("nothing, and no end", Turn(tokens=24), ["server-error"]),
    ("an error without a word", Turn(finish="error", error=""), ["server-error"]),
    ("more tokens than the thinking has", Turn("", "I need a tool.", finish="stop", tokens=32), ["swallowed"]),
    ("thinking and as many tokens", Turn("", "The sky is blue, so no tool is needed here.", finish="stop", tokens=14), []),
    ("thinking in another script", Turn("", "今天天气很好，不需要任何工具。", finish="stop", tokens=16), []),
    ("a call that was announced", Turn("", "It is dark. I will call read_file with path a.", finish="stop", tokens=14), ["unfinished"]),
    ("an action that was announced", Turn("", "…I should create the file now.", finish="stop", tokens=9), ["unfinished"]),
    ("an answer that was announced", Turn("", "No tool helps. I should answer directly.", finish="stop", tokens=9), []),
    ("an action that was dropped", Turn("", "I will read it. But it is not there.", finish="stop", tokens=9), []),
    ("text", Turn("All done.", finish="stop", tokens=500), []),
]  # fmt: skip


@pytest.mark.parametrize(("turn", "wanted"), [row[1:] for row in LOST], ids=[row[0] for row in LOST])
def test_a_turn_without_its_call_is_told_from_one_that_needs_none(turn: Turn, wanted: list[str]) -> None:
    outcome = repair_turn(turn, request())
    assert outcome.turn is turn
    assert [fault.keyword for fault in outcome.faults] == wanted


@pytest.mark.parametrize(
    ("surface", "stream", "text", "wanted"),
    [
        ("anthropic-messages", True, "It is emp", ["broken-off"]),
        ("openai-responses", True, "It is emp", ["broken-off"]),
        ("anthropic-messages", True, "", ["server-error"]),
        ("anthropic-messages", False, "It is emp", []),
        ("openai-chat", True, "It is emp", []),
    ],
)
def test_a_text_without_an_end_is_one_where_the_surface_hides_errors(
    surface: str, stream: bool, text: str, wanted: list[str]
) -> None:
    outcome = repair_turn(Turn(text), replace(request(surface), stream=stream))
    assert (outcome.turn, [fault.keyword for fault in outcome.faults]) == (Turn(text), wanted)


def test_a_call_of_an_answer_without_an_end_gets_one_where_the_surface_hides_errors() -> None:
    turn = Turn(calls=(ToolCall("a", "read_file", {"path": "b"}),))
    streamed = replace(request("anthropic-messages"), stream=True)
    outcome = repair_turn(turn, streamed)
    assert outcome.turn == replace(turn, finish="tool_calls")
    assert [(repair.rung, repair.path, repair.note) for repair in outcome.repairs] == [
        ("wire", "/finish", "the answer had no end")
    ]
    assert repair_turn(turn, replace(request("openai-chat"), stream=True)).turn is turn
