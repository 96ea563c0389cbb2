"""What may still become a call is held while text streams; everything else flows."""

from __future__ import annotations

import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dialect_rows import FORECAST_3, OBJECT, ROWS, TOOLS, Row, found, laddered
from toolmend.dialects.scanner import Scanner
from toolmend.model import Tool


def released(text: str, *sizes: int, tools: tuple[Tool, ...] = TOOLS) -> list[int]:
    """Feed a text in pieces of these sizes, again and again; return what may go out after each."""
    counts: list[int] = []
    scanner, at = Scanner(tools), 0
    while at < len(text):
        size = sizes[len(counts) % len(sizes)]
        counts.append(scanner.feed(text[at : at + size]))
        at += size
    return counts


def flows(text: str, *sizes: int) -> str:
    """Return the part of a text that has gone out when all of it has come."""
    return text[: released(text, *(sizes or (4,)))[-1]]


@pytest.mark.parametrize("before", ["", "Sure.\n\n", "Long words. " * 150 + "\n"], ids=["alone", "prose", "long"])
@pytest.mark.parametrize("case", ROWS, ids=lambda case: case.name)
def test_nothing_of_a_call_goes_out(case: Row, before: str) -> None:
    text = before + case.text
    result = found(text)
    rest = result.rest if result is not None else text
    for sizes in ((1,), (3,), (7, 2, 11), (len(text),)):
        assert rest.startswith(flows(text, *sizes).rstrip())


@pytest.mark.parametrize("case", ROWS, ids=lambda case: case.name)
def test_what_may_go_out_never_shrinks(case: Row) -> None:
    counts = released(case.text, 1)
    assert counts == sorted(counts)
    assert all(count <= at + 1 for at, count in enumerate(counts))


ALONE = {
    "bare before chatter",
    "tool's name round a bare value",
    "lines of keys and values",
    "python fence",
    "harmony words, one fits",
}
"""Forms that are a call as the whole text only: behind prose they are none."""
BEHIND_PROSE = [row for row in ROWS if row.name not in ALONE]


@pytest.mark.parametrize("case", [row for row in ROWS if row.name in ALONE], ids=lambda row: row.name)
def test_some_forms_are_a_call_as_the_whole_text_only(case: Row) -> None:
    assert found("I look.\n" + case.text) is None


@settings(max_examples=60, deadline=None)
@given(st.sampled_from(BEHIND_PROSE), st.lists(st.integers(1, 40), min_size=1, max_size=6))
def test_any_cut_of_the_text_holds_the_same(case: Row, sizes: list[int]) -> None:
    text = "I look.\n" + case.text
    result = found(text)
    assert result is not None
    assert laddered(result.calls) == list(case.calls) or case.rest
    assert result.rest.startswith(flows(text, *sizes).rstrip())


FLOWING = (
    ("prose", "The answer is 42, of course. Nothing more is to be said about it here."),
    ("html", "Use <b>bold</b> and <a href='x'>links</a> in <div>blocks</div> as you like it."),
    ("math", "If a < b and c > d then f(x) = [1, 2] and {x | x < 3} hold, as one sees."),
    ("code", "for (int i = 0; i < 10; i++) { list[i] = map<int, string>{}; } // and so on"),
    ("python fence", "Here:\n```python\ncall = {'name': 'now'}\nprint(call[0])\n```\nThat is all of it."),
    ("bash fence", "Here:\n```bash\nls -la | grep '<tool_call>'\n```\nThat is all of it, I think."),
    ("json fence", 'Here:\n```json\n{"version": 1, "name": "run"}\n```\nThat is all of it, I think.'),
    ("data", '[\n  {"id": 1, "title": "a"},\n  {"id": 2, "title": "b"}\n]\nThese are the two rows.'),
    ("braces", "{Answer: YES} and {{name}} and ${HOME} are all there is in this template."),
    ("manifest", '{"name": "demo-app", "version": "1.0.0", "private": true}\nThat is the whole manifest.'),
    ("links", "See [the docs](http://x/y), [1], [now] and [run] for what is known of this."),
    ("code spans", 'The tag `<tool_call>` opens, and `{"name": "run"}` names; both are only shown.'),
    ("quoted", '> call:run{command:"x"}\n> <tool_call>\nThey wrote this, and I did not run it.'),
    ("names in words", "You may run it now, or plan(s) it: calc and fetch are there as well, I think."),
    ("a call in a sentence", "Then get_forecast(place='x') tells it, and now() the time, if one asks them."),
)


@pytest.mark.parametrize(("name", "text"), FLOWING, ids=[name for name, _ in FLOWING])
def test_text_that_cannot_be_a_call_flows(name: str, text: str) -> None:
    counts = released(text, 4)
    assert counts[-1] == len(text)


DELAYS = (
    ("words in a tag", "<tools are listed below>\n" + "Words of an answer. " * 60, 40),
    ("a word about a marker", "The <tool_call> tag opens one, </tool_call> ends it. " * 20, 210),
    ("a word about an element", "The <function> element is one of XML. " * 20, 40),
    ("an element of an answer", "<answer>\n" + "It is 42, as one sees. " * 40 + "\n</answer>", 40),
    ("an element named as a tool", "<plan>\n" + "It is 42, as one sees. " * 40 + "\n</plan>", 40),
)


@pytest.mark.parametrize(("name", "text", "most"), DELAYS, ids=[name for name, *_ in DELAYS])
def test_words_behind_a_marker_are_not_held_for_long(name: str, text: str, most: int) -> None:
    counts = released(text, 4)
    assert max(min(4 * (at + 1), len(text)) - count for at, count in enumerate(counts)) <= most


@pytest.mark.parametrize(
    ("text", "held"),
    [
        ("I look. <", "<"),
        ("I look. <tool", "<tool"),
        ("I look.\n```", "```"),
        ("I look.\n```js", "```js"),
        ("I look.\n{", "{"),
        ('I look.\n{"na', '{"na'),
        ("I look.\n[", "["),
        ("I look.\n[get_for", "[get_for"),
        ("I look.\nget_forecast", "get_forecast"),
        ("I look.\nget_forecast(pla", "get_forecast(pla"),
        ("I look.\nAction", "Action"),
        ("I look.\n[TOOL_CA", "[TOOL_CA"),
        ("I look. <｜tool", "<｜tool"),
        ("I look.\n>>>now", ">>>now"),
        ("to=func", "to=func"),
        ('I look.\nget_forecast{"place": "Oslo"[TOO', 'get_forecast{"place": "Oslo"[TOO'),
        ('I look.\nget_forecast{"place": "Oslo"<', 'get_forecast{"place": "Oslo"<'),
        ('I look.\nget_forecast{"place": "Oslo" "da', 'get_forecast{"place": "Oslo" "da'),
    ],
)
def test_the_beginning_of_a_call_is_held(text: str, held: str) -> None:
    scanner = Scanner(TOOLS)
    assert scanner.feed(text) == len(text) - len(held)
    assert scanner.held


@pytest.mark.parametrize("text", ["I look", "a < b", "{x}", "[1", "`<tool_call>", "get_fore = 1", "x <b>", "Act: "])
def test_what_began_like_a_call_and_is_none_is_let_go(text: str) -> None:
    scanner = Scanner(TOOLS)
    assert scanner.feed(text) == len(text)
    assert not scanner.held


def test_a_thought_at_the_beginning_is_held_for_a_while_only() -> None:
    scanner = Scanner(TOOLS)
    assert scanner.feed("<think>Let me see.") == 0
    text = "Hm, " * 200
    assert scanner.feed(text) == len("<think>Let me see." + text)


def test_an_answer_behind_a_short_thought_lets_it_go() -> None:
    text = "<think>Easy.</think>\nIt is 42."
    assert flows(text) == text


def test_a_marker_that_no_call_follows_is_let_go() -> None:
    text = "The tag <tool_call> opens a call. " + "More is told about it here. " * 40
    assert flows(text) == text


def test_text_behind_a_call_is_held_with_it() -> None:
    scanner = Scanner(TOOLS)
    scanner.feed("Sure.\n")
    assert scanner.feed(f"<tool_call>{OBJECT}</tool_call>") == len("Sure.\n")
    assert scanner.feed("And more words. " * 100) == len("Sure.\n")


def test_an_object_that_words_follow_is_let_go() -> None:
    text = f"I could write this.\n{OBJECT}\n" + "But then the place must be known first. " * 5
    assert flows(text) == text
    assert found(text) is None


def test_what_goes_out_is_counted_from_the_first_character_however_long_the_text_is() -> None:
    scanner, fed = Scanner(TOOLS), 0
    for _ in range(500):
        fed += len("Words and more words.\n")
        assert scanner.feed("Words and more words.\n") == fed
    text = f"<tool_call>{OBJECT}"
    assert scanner.feed(text) == fed
    result = found("Words and more words.\n" * 500 + text)
    assert result is not None
    assert laddered(result.calls) == [FORECAST_3]


@pytest.mark.parametrize(
    "piece",
    [
        "<tool_call>",
        "<tool_ca",
        "[",
        '{"name": "run", "arguments": {"command": "\n',
        "```json\n",
        "`",
        "words, ",
        "{x}\n",
    ],
)
def test_feeding_takes_linear_time(piece: str) -> None:
    times = []
    for length in (20_000, 160_000):
        text = (piece * (length // len(piece) + 1))[:length]
        start = time.process_time()
        released(text, 20)
        times.append(time.process_time() - start)
    assert times[1] < max(24 * times[0], 1.0)
