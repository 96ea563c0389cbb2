"""What is said of an answer reads well to a stranger: one line in the log, at length in a view, and as JSON."""

from __future__ import annotations

import json
from typing import Any

import pytest

from captured import one
from fake_answers import as_json, fitting
from toolmend import report
from toolmend.exchange import Exchange, replay
from toolmend.follow_up import FollowUp, Reply
from toolmend.model import Fault, Outcome, Repair, ToolCall, Turn
from toolmend.settings import Settings
from toolmend.upstreams import Server


def answering(intended: Any) -> Any:
    """Answer a question under a schema with the call that was meant, and refuse any other."""

    def ask(question: FollowUp) -> Reply | None:
        if question.kind != "constrained":
            return Reply(400, "application/json", b'{"error": "not today"}')
        text = as_json(fitting(question.schema, intended)).text
        if question.path == "/api/chat":
            document: Any = {"model": "m", "message": {"role": "assistant", "content": text}, "done": True}
        elif question.path == "/v1/responses":
            content = [{"type": "output_text", "text": text}]
            document = {"output": [{"type": "message", "role": "assistant", "content": content}], "status": "completed"}
        else:
            document = {"choices": [{"message": {"role": "assistant", "content": text}, "finish_reason": "stop"}]}
        return Reply(200, "application/json", json.dumps(document).encode())

    return ask


EVENT = {"title": "Q3 planning", "date": "2026-07-14", "duration_minutes": 30, "priority": "high"}
READ = {"path": "src/main.py"}
LINES = [
    (
        "cogito/types-wrong/openai-chat/whole",
        'create_event repaired: /duration_minutes "30" -> 30, /attendees parsed from text, /reminders parsed from text',
    ),
    ("cogito/name-camel/openai-chat/stream", 'read_file repaired: name "readFile" -> "read_file"'),
    ("cogito/enum-wrong/openai-chat/whole", 'create_event repaired: /priority "High" -> "high"'),
    ("cogito/extra-arg/openai-chat/whole", 'read_file repaired: /encoding "utf-8" left out'),
    ("cogito/name-unknown/openai-chat/whole", "search_web left broken: no such tool is offered"),
    (
        "cogito/missing-required/openai-chat/whole",
        'create_event repaired: asked again, /date set to "2026-07-14", /duration_minutes set to 30, '
        '/priority set to "high"',
    ),
    ("cogito/no-args/openai-chat/whole", 'read_file repaired: asked again, /path set to "src/main.py"'),
    (
        "cogito/trailing-comma/openai-chat/whole",
        "read_file repaired: asked again, the server swallowed the call",
    ),
    ("cogito/foreign-dialect/openai-chat/stream", "read_file repaired: call found in the text (json)"),
    ("cogito/fenced-json/openai-chat/whole", 'read_file repaired: call found in the text (json), /limit "20" -> 20'),
    ("cohere/call-inside-thinking/openai-chat/whole", "create_event repaired: call found in the thinking (command-r7b)"),
    (
        "glimmer/two-calls/openai-chat/whole",
        'read_file repaired: call found in the text (claude-xml), /limit "20" -> 20; '
        "read_file repaired: call found in the text (claude-xml)",
    ),
    ("glimmer/trailing-comma/openai-chat/whole", 'read_file repaired: key "limit " -> "limit", /limit "20" -> 20'),
    ("harmony/trailing-comma/ollama-chat/whole", "read_file repaired: call found in the server's error"),
    ("generic-json/truncated/openai-chat/whole", "answer left broken: the text ends inside a call (json)"),
    ("generic-json/name-unknown/openai-chat/whole", "answer left broken: the text calls 'search_web', which is not offered"),
    (
        "glm-4.7/truncated/ollama-chat/whole",
        "answer left broken: incomplete GLM tool call: XML syntax error on line 10: element <arg_key> closed by </tool_call>",
    ),
    ("ministral/name-unknown/ollama-chat/whole", "answer left broken: tool 'search_web' not found"),
]  # fmt: skip


@pytest.mark.parametrize(("id_", "said"), LINES, ids=[id_ for id_, _ in LINES])
def test_a_line_says_what_was_wrong_and_what_was_done(id_: str, said: str) -> None:
    found = one(id_)
    exchange = Exchange(found.surface, {**found.document, "model": "qwen3:8b"}, Settings(), Server())
    meant = {"name": "create_event", "arguments": EVENT} if "create_event" in said else None
    meant = meant or {"name": "read_file", "arguments": READ}
    replay(exchange, found.status, found.content_type, [found.body], answering(meant))
    assert exchange.outcome is not None
    line = report.line(found.surface.name, "qwen3:8b", exchange.outcome)
    assert line == f"toolmend: {found.surface.name} qwen3:8b: {said}"


CALL = ToolCall("call_1", "read_file", {"path": "a.txt"})
TURN = Turn(calls=(CALL,), finish="tool_calls")


def said(*notes: Repair | Fault, turn: Turn = TURN) -> str | None:
    """Say a turn after `toolmend: openai-chat m: `."""
    repairs = tuple(note for note in notes if isinstance(note, Repair))
    faults = tuple(note for note in notes if isinstance(note, Fault))
    line = report.line("openai-chat", "m", Outcome(turn, repairs, faults))
    return line and line.removeprefix("toolmend: openai-chat m: ")


ARGUMENTS = "/calls/0/arguments"
SINGLE = [
    (Repair("coerce", f"{ARGUMENTS}/limit", None, 5, "default"), "/limit set to 5"),
    (Repair("coerce", f"{ARGUMENTS}/limit", "", None, "left out"), "/limit left out"),
    (Repair("coerce", f"{ARGUMENTS}/tags", "a", ["a"], "in a list"), '/tags "a" -> ["a"]'),
    (Repair("coerce", f"{ARGUMENTS}/tags", '["a"]', ["a"]), "/tags parsed from text"),
    (Repair("coerce", f"{ARGUMENTS}/edits/1/line", "3", 3), '/edits/1/line "3" -> 3'),
    (Repair("keys", f"{ARGUMENTS}/filePath", "filePath", "path", "renamed"), 'key "filePath" -> "path"'),
    (Repair("keys", f"{ARGUMENTS}/edits/0/old", "old", "oldText"), '/edits/0 key "old" -> "oldText"'),
    (Repair("keys", f"{ARGUMENTS}/mode", "r", None, "left out"), '/mode "r" left out'),
    (Repair("parse", ARGUMENTS, "{}", {}, "trailing comma, quotes"), "arguments read (trailing comma, quotes)"),
    (Repair("parse", ARGUMENTS, "{}", {}, "parsed from text"), "arguments parsed from text"),
    (Repair("parse", ARGUMENTS, "{}{}", {}, "one of 2 calls that were glued together"), "one of 2 calls that were glued together"),
    (Repair("unwrap", ARGUMENTS, {}, {}, "under parameters"), "arguments unwrapped (under parameters)"),
    (Repair("names", "/calls/0/name", "functions.read_file", "read_file"), 'name "functions.read_file" -> "read_file"'),
    (Repair("wire", "/calls/0/id", "", "call_x", "missing"), 'id "" -> "call_x" (missing)'),
    (Repair("choose", "/calls/0", None, {}, "constrained"), "made by the schema on the request"),
    (Repair("choose", "/calls/0", None, {"name": "read_file", "arguments": {}}), "the text was its arguments"),
]  # fmt: skip


@pytest.mark.parametrize(("repair", "words"), SINGLE, ids=[words for _, words in SINGLE])
def test_each_kind_of_repair_has_its_words(repair: Repair, words: str) -> None:
    assert said(repair) == f"read_file repaired: {words}"
    assert report.say_repair(repair) == words


def test_an_error_that_no_call_was_wanted_for_is_said_to_be_taken_away() -> None:
    gone = Repair("choose", "/error", "tool 'x' not found", None, "a call, and tool_choice is none")
    words = "error taken away (a call, and tool_choice is none)"
    assert report.say_repair(gone) == words
    assert said(gone, turn=Turn(text="Hi.", finish="stop")) == f"answer repaired: {words}"


def test_a_call_that_was_removed_is_named_though_it_is_no_longer_there() -> None:
    gone = Repair("choose", "/calls/1", {"name": "get_weather", "arguments": {}}, None, "parallel calls are off")
    assert said(gone) == "get_weather removed (parallel calls are off)"


def test_calls_are_told_apart_and_the_rest_is_said_of_the_answer() -> None:
    two = Turn(calls=(CALL, ToolCall("call_2", "write_file", {})), finish="tool_calls")
    assert (
        said(
            Repair("coerce", "/calls/0/arguments/limit", "3", 3),
            Repair("wire", "/finish", "stop", "tool_calls", "there are calls"),
            Fault("/calls/1/arguments/path", "required", "/calls/1/arguments/path is missing"),
            turn=two,
        )
        == 'read_file repaired: /limit "3" -> 3; '
        'answer repaired: finish reason "stop" -> "tool_calls" (there are calls); '
        "write_file left broken: /path is missing"
    )


def test_a_call_without_a_name_is_called_that() -> None:
    nameless = Turn(calls=(ToolCall("call_1", "", {}),), finish="tool_calls")
    fault = Fault("/calls/0/name", "unknown-tool", "/calls/0/name is '', which is not offered")
    assert said(fault, turn=nameless) == "call without a name left broken: no such tool is offered"


def test_what_a_model_says_stays_in_its_line() -> None:
    evil = Turn(calls=(ToolCall("call_1", "a\nb\x1b[2K\u202e" + "x" * 500, {}),), finish="tool_calls")
    line = said(Fault("/calls/0/name", "unknown-tool", "…"), turn=evil)
    assert line is not None
    assert line.startswith("a\\nb\\x1b[2K\\u202exxx")
    assert len(line) < 150


def test_a_call_that_the_tap_showed_was_found_in_the_tokens() -> None:
    assert (
        said(
            Repair("follow-up", "/calls", None, [], "with its tokens shown"),
            Repair("recover", "/calls/0", "<tool_call>…", {"name": "read_file", "arguments": {}}, "hermes"),
        )
        == "answer repaired: asked again, with its tokens shown; "
        "read_file repaired: call found in the answer's tokens (hermes)"
    )


def test_what_was_asked_for_is_said_value_by_value() -> None:
    repair = Repair("follow-up", ARGUMENTS, {"a": "soon", "b": 1, "d": 0}, {"a": 3, "b": 1, "c": "x"})
    assert said(repair) == 'read_file repaired: asked again, /a "soon" -> 3, /c set to "x", /d left out'


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (Fault("/calls/0/arguments/days", "type", '/calls/0/arguments/days is "soon", expected integer'),
         'read_file left broken: /days is "soon", expected integer'),
        (Fault("/calls/0/arguments", "syntax", "/calls/0/arguments end inside a value"),
         "read_file left broken: the arguments end inside a value"),
        (Fault("/calls", "swallowed", "/calls: nothing arrived of 24 tokens"),
         "answer left broken: nothing arrived of 24 tokens"),
        (Fault("/thinking", "unfinished", "/thinking: ends with 'I will read it.'"),
         "answer left broken: the thinking ends with 'I will read it.'"),
        (Fault("/text", "unreadable", "/text: opens a call that cannot be read (hermes)"),
         "answer left broken: the text opens a call that cannot be read (hermes)"),
        (Fault("/error", "broken-off", "/error: the answer has no end"), "answer left broken: the answer has no end"),
        (Fault("/calls", "tool-choice", "the choice is required, and there is no call to any tool"),
         "answer left broken: the choice is required, and there is no call to any tool"),
    ],
)  # fmt: skip
def test_each_kind_of_fault_has_its_words(fault: Fault, words: str) -> None:
    assert said(fault) == words


def test_long_values_and_long_lists_stay_in_one_line() -> None:
    long = Repair("coerce", f"{ARGUMENTS}/text", "x" * 500, 3)
    many = [Repair("coerce", f"{ARGUMENTS}/n{number}", str(number), number) for number in range(20)]
    line = said(long, *many)
    assert line is not None
    assert len(line) < 400
    assert line.endswith('/n6 "6" -> 6 and 13 more')
    assert "\n" not in str(said(Repair("coerce", f"{ARGUMENTS}/text", "a\nb", 3)))


def test_there_is_nothing_to_say_of_an_answer_that_was_right() -> None:
    assert report.line("openai-chat", "m", Outcome(TURN)) is None


def test_an_entry_holds_what_came_what_went_and_each_step() -> None:
    received = Turn(calls=(ToolCall("call_1", "read_file", {"path": "a", "limit": "3"}),), finish="tool_calls")
    mended = Turn(calls=(ToolCall("call_1", "read_file", {"path": "a", "limit": 3}),), finish="tool_calls")
    outcome = Outcome(mended, (Repair("coerce", f"{ARGUMENTS}/limit", "3", 3),))
    assert report.entry("openai-chat", "m", received, outcome, 0) == {
        "surface": "openai-chat",
        "model": "m",
        "verdict": "repaired",
        "sent": [{"name": "read_file", "arguments": {"path": "a", "limit": "3"}}],
        "delivered": [{"name": "read_file", "arguments": {"path": "a", "limit": 3}}],
        "repairs": [
            {
                "rung": "coerce",
                "path": "/calls/0/arguments/limit",
                "before": "3",
                "after": 3,
                "note": "",
                "said": '/limit "3" -> 3',
            }
        ],
        "faults": [],
        "follow_ups": 0,
    }


def test_an_error_or_a_text_in_place_of_a_call_is_in_the_entry_too() -> None:
    fault = Fault("/error", "server-error", "/error: failed to parse JSON")
    failed = Turn(text="", error="failed to parse JSON", finish="error")
    found = report.entry("ollama-chat", "m", failed, Outcome(failed, (), (fault,)), 1)
    assert (found["verdict"], found["error"], found["follow_ups"]) == ("broken", "failed to parse JSON", 1)
    assert report.explain(found) == (
        "toolmend: ollama-chat m: broken\n\n"
        "as the model sent it\n  error: failed to parse JSON\n\n"
        "as the agent got it\n  (no call)\n\n"
        "left broken\n  server-error: failed to parse JSON\n\n"
        "questions asked: 1"
    )


def test_a_call_is_explained_with_a_line_for_each_argument() -> None:
    came = (
        ToolCall("call_1", "write_file", {"path": "ä.txt", "lines": ["a", 1]}),
        ToolCall("call_2", "read_file", '{"path": "a\n"'),
        ToolCall("call_3", "get_time", None),
    )
    received = Turn(calls=came, finish="tool_calls")
    repair = Repair("parse", "/calls/1/arguments", "", {"path": "a"}, "missing closers")
    outcome = Outcome(Turn(calls=(ToolCall("call_2", "read_file", {}),), finish="tool_calls"), (repair,))
    assert report.explain(report.entry("ollama-chat", "m", received, outcome, 0)) == (
        "toolmend: ollama-chat m: repaired\n\n"
        "as the model sent it\n"
        '  write_file\n    path: "ä.txt"\n    lines: ["a", 1]\n'
        '  read_file\n    {"path": "a\n    "\n'
        "  get_time\n    null\n\n"
        "as the agent got it\n  read_file\n\n"
        "repairs\n  parse: arguments read (missing closers)"
    )


def test_the_summary_counts_turns_by_how_they_ended() -> None:
    statistics = report.Statistics()
    assert statistics.summary() == (
        "toolmend: 0 turns with tools: 0 valid, 0 text, 0 repaired, 0 followed up, 0 left broken"
    )
    coerced = Repair("coerce", f"{ARGUMENTS}/limit", "3", 3)
    asked = Repair("follow-up", ARGUMENTS, {}, {"path": "a"})
    statistics.add(Outcome(TURN), 0)
    statistics.add(Outcome(Turn(text="Hello.", finish="stop")), 0)
    statistics.add(Outcome(TURN, (coerced, coerced)), 0)
    statistics.add(Outcome(TURN, (coerced, asked)), 2)
    statistics.add(Outcome(TURN, (), (Fault("/calls", "swallowed", "nothing arrived"),)), 1)
    assert statistics.summary() == (
        "toolmend: 5 turns with tools: 1 valid, 1 text, 2 repaired (coerce 2, follow-up 1), 2 followed up, 1 left broken"
    )
    assert statistics.as_object() == {
        "turns": 5,
        "valid": 1,
        "text": 1,
        "repaired": 2,
        "broken": 1,
        "repaired_by_rung": {"coerce": 2, "follow-up": 1},
        "followed_up": 2,
        "follow_up_calls": 3,
    }
