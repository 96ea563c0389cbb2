"""Text made to cost much is looked through up to a limit and passes; no ordinary text comes near that limit.

What a search costs is counted in steps, so that it is the same on every machine and however the text arrives.
"""

from __future__ import annotations

import base64
import json
import random
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from toolmend import lenient_json
from toolmend.dialects import find_calls
from toolmend.dialects.scanner import RATE, Scanner
from toolmend.dialects.source import STEPS, Source
from toolmend.dialects.walk import walker_for
from toolmend.exchange import Exchange, replay
from toolmend.model import Json, JsonObject, Outcome, Tool
from toolmend.report import line
from toolmend.settings import Settings
from toolmend.surfaces import SURFACES
from toolmend.upstreams import Server

BOOK: JsonObject = {
    "type": "object",
    "properties": {"title": {"type": "string"}, "guests": {"type": "integer"}},
    "required": ["title"],
}
TOOLS = (
    Tool("book_table", BOOK),
    Tool("wait", {"type": "object", "properties": {"days": {"type": "integer"}}}),
)
LONG = 1_000_000
SIZE = 150_000
CALL = '{"name": "book_table", "arguments": {"title": "'


def repeated(piece: str, size: int = SIZE) -> str:
    return piece * (size // len(piece))


def steps(text: str) -> int:
    """Return how many steps it takes to look through a text."""
    source, walker, at = Source(text, TOOLS), walker_for(TOOLS), 0
    while (block := walker.next_block(source, at).block) is not None:
        at = max(block.end, at + 1)
    return STEPS - source.effort


def in_pieces(text: str, size: int) -> Scanner:
    scanner = Scanner(TOOLS)
    for at in range(0, len(text), size):
        scanner.feed(text[at : at + size])
    return scanner


PIECES = {
    "unclosed quotes": '{"a": "',
    "unclosed quotes, a line each": '{"a": "\n',
    "keys": '{"a":',
    "lists": "[",
    "lists, a line each": "[\n",
    "objects": "{",
    "objects, a line each": "{\n",
    "lists of objects": "[{",
    "lists of objects, a line each": "[{\n",
    "angle brackets": "<",
    "closing angle brackets": ">\n",
    "half tags": "<tool_cal",
    "markers": "<tool_call>",
    "markers with a word": "<tool_call> a ",
    "markers and lists": "<tool_call>[",
    "markers and members": '<tool_call>"name": "',
    "markers and a name": '<tool_call>{"name": "',
    "markers and a call": "<tool_call>" + CALL,
    "unreadable calls": "<tool_call>" + CALL.removesuffix('"') + "x}}</tool_call> and ",
    "closers": "</tool_call>",
    "closers of parameters": "</parameter>\n",
    "functions": "<function=book_table>",
    "functions and parameters": "<function=book_table>\n<parameter=title>\n",
    "functions not offered": "<function=x>",
    "parameters": "<parameter=title>",
    "invocations": '<invoke name="book_table"><parameter name="title">',
    "tools as tags": "<book_table><title>",
    "names in tags": "<name>book_table</name>",
    "keys and values": "<tool_call>book_table\n<arg_key>title</arg_key>\n<arg_value>",
    "weak markers": "<tools>",
    "weak markers, other": "<call>",
    "calls": CALL.removesuffix('"') + '"a"}}\n',
    "calls not closed": '{"name": "book_table", "arguments": {',
    "calls not closed, a paragraph each": '{"name": "book_table"\n\n',
    "lists of calls": '[{"name": "book_table", "arguments": {',
    "fences": "```\n",
    "fences of JSON": "```json\n{\n",
    "fences with a call": f"```json\n{CALL}",
    "fences with an object": '```json\n{"name": "x"}\n```\n',
    "fences of other lengths": "```json\n````\n`````\n",
    "code spans": "`a ",
    "namespaces": "functions.",
    "functools": 'functools[{"name": "',
    "brackets": "[TOOL_CALLS]",
    "brackets with a name": "[TOOL_CALLS]book_table[ARGS]",
    "separators": "[ARGS]",
    "thinking in brackets": "[THINK]",
    "thinking": "<think>",
    "Gemma": "call:book_table{",
    "Gemma, a line each": "call:book_table{title:[[\n",
    "Gemma's strings": 'call:book_table{title:<|"|>',
    "channels": "<|channel|>",
    "channels with a call": '<|channel|>commentary to=functions.book_table<|message|>{"title": "',
    "thoughts": "<|channel>thought",
    "recipients": "to=functions.book_table ",
    "roles": "assistant\n",
    "channels' words": "analysis to=\n",
    "end tokens": "<|im_end|>",
    "bars": "<|",
    "DeepSeek": "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>book_table\n```json\n{",
    "Kimi": '<|open|>call tool="book_table"<|sep|><|open|>argument key="title"<|sep|>',
    "actions": "Action: book_table\n",
    "actions with input": "Action: book_table\nAction Input: ",
    "expressions": "book_table(",
    "expressions, a line each": "book_table(title=[\n",
    "expressions in lists": "[book_table(title=[",
    "expressions that end badly": "book_table(title=x)\n",
    "echoes": "[tool_call: ",
    "MiniMax": "]<]minimax[>[",
    "tags without brackets": '\ninvoke name="book_table">parameter name="title">a',
    "names and objects": 'book_table {"\n',
    "names and bad objects": 'book_table{"title": x}\n',
    "announcements": 'Let me: [{"name": ',
    "examples": 'For example: <tool_call>{"name": "book_table"}</tool_call>\n',
    "links": "[a](b) ",
    "HTML": '<div class="a"><p>text</p></div>\n',
    "escaped quotes": '{\\"a\\": ',
    "backslashes": '{"a": "\\',
    "comments": "[/*",
    "carriage returns": "\r",
    "NUL": "\0",
    "characters without width": "\u200b{",
    "a word": "a",
    "half of DSML": '<｜DSML｜invoke name="book_table"><｜DSML｜parameter name="title" string="true">',
}


@pytest.mark.parametrize("kind", PIECES)
def test_a_search_ends_when_its_effort_is_spent(kind: str) -> None:
    text = repeated(PIECES[kind], 3 * SIZE)
    assert steps(text) < STEPS + len(text)


@pytest.mark.parametrize("size", [20, 4096, SIZE])
@pytest.mark.parametrize("kind", PIECES)
def test_a_scanner_gives_up_looking_when_its_effort_is_spent_and_lets_no_call_go(kind: str, size: int) -> None:
    scanner = in_pieces(repeated(PIECES[kind]), size)
    assert scanner.spent < STEPS + RATE * SIZE + STEPS + SIZE


UNSEARCHED = (
    *("lists, a line each", "lists of objects, a line each", "functions not offered", "weak markers", "actions"),
    *("names and bad objects", "unreadable calls", "markers with a word", "links", "announcements", "keys"),
    *("unclosed quotes", "thinking", "recipients", "channels' words", "expressions that end badly"),
)
DOCUMENT: JsonObject = {
    "model": "m",
    "messages": [],
    "tools": [{"type": "function", "function": {"name": tool.name, "parameters": tool.parameters}} for tool in TOOLS],  # type: ignore[dict-item]
}


def chat(text: str, size: int) -> list[bytes]:
    """Write a text as an answer in pieces of a size."""
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    frames: list[Json] = [{"message": {"role": "assistant", "content": piece}, "done": False} for piece in pieces]
    frames.append({"message": {"role": "assistant", "content": ""}, "done": True, "done_reason": "stop"})
    return [json.dumps(frame).encode() + b"\n" for frame in frames]


def passed(chunks: list[bytes]) -> Outcome:
    """Send an answer through the core; it must come out as it went in. Return what was found in it."""
    exchange = Exchange(SURFACES["/api/chat"], {**DOCUMENT, "stream": True}, Settings(), Server("ollama"))
    assert b"".join(replay(exchange, 200, "application/x-ndjson", chunks)) == b"".join(chunks)
    assert exchange.outcome is not None
    return exchange.outcome


@pytest.mark.parametrize("kind", UNSEARCHED)
def test_text_that_takes_more_than_any_answer_passes_and_the_log_says_it(kind: str) -> None:
    text = repeated(PIECES[kind], LONG)
    outcome = passed(chat(text, 8_000))
    assert outcome == passed([b"".join(chat(text, LONG))])
    (fault,) = outcome.faults
    assert (fault.path, fault.keyword) == ("/text", "unsearched")
    said = "the text was not searched for calls: it is too long, or holds too much that begins like one"
    assert line("ollama-chat", "m", outcome) == f"toolmend: ollama-chat m: answer left broken: {said}"


def test_text_longer_than_any_answer_flows_and_is_not_searched() -> None:
    text = repeated("The kitchen closes at ten.\n", 2 * STEPS + 100)
    assert in_pieces(text, 50_000).held is False
    found = find_calls(text, TOOLS, lambda call: True)
    assert found is not None
    assert (found.state, found.calls, found.rest) == ("unsearched", (), text)


# Ordinary text


def documents(count: int) -> list[Json]:
    return [
        {
            "id": number,
            "name": f"item {number}",
            "type": "object",
            "tags": ["a", "b"],
            "parameters": {"x": number, "y": [1, 2, 3], "nested": {"name": "n", "function": {"name": "f"}}},
            "text": 'It\'s "fine". The kitchen closes at ten.',
        }
        for number in range(count)
    ]


SOURCE = "".join(path.read_text() for path in sorted(Path(lenient_json.__file__).parent.rglob("*.py")))[:250_000]
SCRIPT = "".join(
    f"export const f{n} = async (x) => {{\n  const {{ a, b }} = await g(x[{n}]);\n  if (a < b) {{ return [a, `t ${{b}}`]; }}\n"
    "  return (<Foo a={b}><Bar/></Foo>);\n};\n"
    for n in range(1_500)
)
PAGE = "".join(
    f'<div class="a{n}"><p>text <b>x</b> and <a href="#">link</a></p><table><tr><td>{n}</td></tr></table><br/></div>\n'
    for n in range(2_000)
)
API: Json = {
    "paths": {f"/p{n}": {"get": {"name": "x", "parameters": [{"name": "id", "in": "path"}]}} for n in range(2_500)}
}
ORDINARY: dict[str, Callable[[], str]] = {
    "prose": lambda: repeated("The kitchen closes at ten, and the bar at one. ", 200_000),
    "JSON on lines": lambda: json.dumps(documents(700), indent=1),
    "JSON": lambda: json.dumps(documents(800)),
    "JSON without blanks": lambda: json.dumps(documents(900), separators=(",", ":")),
    "JSON in a fence": lambda: f"Here it is:\n```json\n{json.dumps(documents(700), indent=2)}\n```\nThat is all.",
    "an object a line": lambda: "\n".join(map(json.dumps, documents(900))),
    "an API without blanks": lambda: json.dumps(API, separators=(",", ":")),
    "Python": lambda: SOURCE[:200_000],
    "Python in a fence": lambda: f"Like this:\n```python\n{SOURCE[:200_000]}\n```\nThat is all.",
    "JavaScript": lambda: SCRIPT,
    "HTML": lambda: PAGE,
    "Markdown": lambda: repeated(
        "# Title\n\n- [a](b) and `code`\n- **bold** [ ] item\n\n> said\n\n| a | b |\n", 200_000
    ),
    "a table": lambda: repeated("a,b,c\n1,2,3\n", 200_000),
    "a log": lambda: repeated('[2026-11-30 12:00:00] INFO <main> {"a": 1} done\n', 200_000),
    "LaTeX": lambda: repeated("The value of $\\frac{a}{b}$ in [x] is \\emph{small} for all {y}.\n", 200_000),
    "YAML": lambda: repeated("- name: x\n  args: {a: 1, b: [1, 2]}\n", 200_000),
    "words about calls": lambda: repeated(
        'To call it write `<tool_call>{"name": "book_table"}</tool_call>` in one line. Action: none.\n', 100_000
    ),
}


@pytest.mark.parametrize("kind", ORDINARY)
def test_ordinary_text_takes_less_than_half_of_the_effort_and_is_never_given_up(kind: str) -> None:
    text = ORDINARY[kind]()
    assert len(text) > 99_000
    assert steps(text) < STEPS / 2
    scanner = in_pieces(text, 64)
    assert scanner.spent < (STEPS + RATE * len(text)) * 0.7


@pytest.mark.parametrize("kind", ["prose", "Python in a fence", "JavaScript", "HTML", "Markdown", "JSON on lines"])
def test_a_call_behind_ordinary_text_is_found(kind: str) -> None:
    text = f"{ORDINARY[kind]()}\n\n<tool_call>\n{CALL}Dinner"
    text += '"}}\n</tool_call>'
    found = find_calls(text, TOOLS, lambda call: True)
    assert found is not None
    assert [(call.name, call.arguments) for call in found.calls] == [("book_table", {"title": "Dinner"})]


VALUES: dict[str, Callable[[], str]] = {
    "base64": lambda: base64.b64encode(random.Random(1).randbytes(225_000)).decode(),
    "Python": lambda: (SOURCE + SOURCE)[:300_000],
    "JSON": lambda: json.dumps(documents(1_400)),
    "HTML": lambda: PAGE + PAGE,
}
FORMS: dict[str, Callable[[str], str]] = {
    "hermes": lambda value: (
        f"<tool_call>\n{json.dumps({'name': 'book_table', 'arguments': {'title': value}})}\n</tool_call>"
    ),
    "json": lambda value: json.dumps({"name": "book_table", "arguments": {"title": value}}),
    "fenced": lambda value: (
        f"```json\n{json.dumps({'name': 'book_table', 'arguments': {'title': value}}, indent=1)}\n```"
    ),
    "harmony": lambda value: (
        f"<|channel|>commentary to=functions.book_table<|message|>{json.dumps({'title': value})}<|call|>"
    ),
    "pythonic": lambda value: f"[book_table(title={json.dumps(value)})]",
    "gemma": lambda value: f'<|tool_call>call:book_table{{title:<|"|>{value}<|"|>}}<tool_call|>',
    "qwen": lambda value: (
        f"<tool_call>\n<function=book_table>\n<parameter=title>\n{value}\n</parameter>\n</function>\n</tool_call>"
    ),
}


AMBIGUOUS = {("gemma", "Python"), ("qwen", "Python")}
"""This project's source holds the string tokens of the one, and the closers of the other."""


@pytest.mark.parametrize(
    ("form", "value"), [(form, value) for form in FORMS for value in VALUES if (form, value) not in AMBIGUOUS]
)
def test_a_call_with_a_huge_value_is_read(form: str, value: str) -> None:
    written = VALUES[value]().strip()
    found = find_calls(FORMS[form](written), TOOLS, lambda call: True)
    assert found is not None
    assert [(call.name, call.arguments) for call in found.calls] == [("book_table", {"title": written})]


# Runs of one character behind an opener: a pattern that tries every way to share them out takes minutes.

BOUND = 10.0
RUNS = {
    "a word behind a weak marker": "<tools>" + "a" * 100_000 + "<",
    "a word behind a recipient": "to=" + "a" * 100_000 + "!",
    "blanks behind a start": "<|start|>" + " " * 100_000 + "!",
    "colons behind a recipient": ">>>" + ":" * 100_000 + "!",
    "blanks in a key": "call:wait{" + "a" * 50_000 + " " * 50_000 + "!",
    "blanks behind a brace": 'call:wait{days:<|"|>}' + " " * 100_000 + "!",
    "blanks behind a function": "<function>" + " " * 100_000 + "!",
    "blanks behind a name": "<tool_call>wait" + " " * 100_000 + "!",
    "blank lines": "<tool_call>{" + "\n" * 100_000 + "!",
    "blank lines before a plan": '1. a\n{"name": "wait"}\n' + "\n" * 100_000 + '2. b\n{"name": "wait"}\nSo.',
    "blanks behind a role": "assistant" + " " * 100_000 + "!",
    "blanks behind an action": "Action:" + "\n" * 100_000 + "!",
    "digits as a name": '{"name": "' + "1" * 100_000 + '!", "arguments": {}}',
    "blanks in a fence": "```" + " " * 100_000,
    "a fence of blanks": "```" + " " * 100_000 + "```",
    "backticks": "`" * 100_000,
}


@pytest.mark.parametrize("kind", RUNS)
def test_a_run_of_one_character_costs_bounded_time(kind: str) -> None:
    text, began = RUNS[kind], time.process_time()
    find_calls(text, TOOLS, lambda call: True)
    in_pieces(text, 5_000)
    lenient_json.parse(text)
    lenient_json.parse(text[1:])
    lenient_json.is_cut(text)
    assert time.process_time() - began < BOUND
