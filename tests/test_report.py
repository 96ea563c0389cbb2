"""What was done to an answer is said in one line that a stranger understands."""

import pytest

from captured import one
from toolmend import report
from toolmend.exchange import Exchange, replay
from toolmend.model import Fault, Outcome, Repair, ToolCall, Turn
from toolmend.settings import Settings
from toolmend.upstreams import Server

SAID = {
    "qwen3/types-wrong/openai-chat/stream": (
        'create_event repaired: /duration_minutes "30" -> 30, /attendees parsed from text, /reminders parsed from text'
    ),
    "qwen3/enum-wrong/ollama-chat/whole": 'create_event repaired: /priority "High" -> "high"',
    "qwen3/extra-arg/openai-responses/whole": 'read_file repaired: /encoding "utf-8" dropped',
    "qwen3/name-camel/anthropic-messages/stream": 'read_file repaired: name "readFile" -> "read_file"',
    "qwen3/no-args/ollama-chat/whole": "read_file left broken: /path is missing",
    "qwen3/foreign-dialect/ollama-chat/stream": (
        "read_file repaired: was written as text (json); turn repaired: the call taken out of the text"
    ),
    "cohere/call-inside-thinking/ollama-chat/whole": (
        "create_event repaired: was written as text (command-r7b); turn repaired: the call taken out of the thinking"
    ),
    "harmony/trailing-comma/ollama-chat/whole": (
        "read_file repaired: read from the server's error; turn repaired: the server's error replaced by the call"
    ),
    "qwen3/no-close/openai-chat/whole": "turn left broken: nothing arrived of 55 tokens",
    "qwen3/name-unknown/ollama-chat/whole": "search_web left broken: /name is 'search_web', which is not offered",
}


@pytest.mark.parametrize("id_", SAID)
def test_a_line_says_what_was_done(id_: str) -> None:
    found = one(id_)
    exchange = Exchange(found.surface, found.document, Settings(follow_up=False), Server())
    replay(exchange, found.status, found.content_type, [found.body])
    assert exchange.outcome is not None
    expected = f"toolmend: {found.surface.name} qwen3:8b: {SAID[id_]}"
    assert report.line(found.surface.name, "qwen3:8b", exchange.outcome) == expected


def test_a_valid_turn_is_not_worth_a_line() -> None:
    assert report.line("ollama-chat", "m", Outcome(Turn(calls=(ToolCall("c", "read_file", {}),)))) is None


def test_long_values_and_long_lists_are_cut() -> None:
    repairs = tuple(Repair("coerce", f"/calls/0/arguments/a{n}", "1" * 200, n) for n in range(12))
    said = report.line("ollama-chat", "m", Outcome(Turn(calls=(ToolCall("c", "read_file", {}),)), repairs))
    assert said is not None
    assert said.endswith(" and 4 more")
    assert '"111111111' in said
    assert "…" in said
    assert len(said) < 900


def test_the_summary_counts_turns_by_what_became_of_them() -> None:
    statistics = report.Statistics()
    call = ToolCall("c", "read_file", {})
    statistics.add(Outcome(Turn(calls=(call,))), 0)
    statistics.add(Outcome(Turn(text="Hi.")), 0)
    statistics.add(Outcome(Turn(calls=(call,)), (Repair("coerce", "/calls/0/arguments/a", "1", 1),)), 0)
    statistics.add(Outcome(Turn(calls=(call,)), (Repair("follow-up", "/calls/0", None, {}),)), 2)
    statistics.add(Outcome(Turn(), (), (Fault("/calls", "swallowed", "/calls: nothing arrived"),)), 1)
    assert statistics.summary() == (
        "toolmend: 5 turns with tools: 1 valid, 1 text, 2 repaired (coerce 1, follow-up 1), 2 followed up, 1 left broken"
    )
    assert statistics.as_object() == {
        "turns": 5,
        "valid": 1,
        "text": 1,
        "repaired": 2,
        "broken": 1,
        "repaired_by_rung": {"coerce": 1, "follow-up": 1},
        "followed_up": 2,
        "follow_up_calls": 3,
    }
