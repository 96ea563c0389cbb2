"""What mitmdump's log, its terminal, and the file of JSON lines say, with a real process in front of the fake."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mitmproxy.io import FlowReader

from conftest import ADDON, LISTENING, MITMDUMP, Proxy
from fake_ollama import MEANT, Answer, FakeOllama
from terminal import Terminal
from wire_clients import CLIENTS

CHAT = CLIENTS["openai-chat"]
CLEAR = "\r\x1b[2K"
TIME = re.compile(r"^\[[\d:.]+\] ", re.MULTILINE)


def ours(log: str) -> list[str]:
    """Return toolmend's own lines, without their times."""
    return [line for line in TIME.sub("", log).splitlines() if line.startswith("toolmend: ")]


# The log


def test_a_repaired_turn_is_one_line_and_the_summary_is_last(start_proxy: Callable[..., Proxy]) -> None:
    proxy = start_proxy()
    for scenario in ("wrong-types", "valid", "text-only", "missing", "lost"):
        CHAT.ask(proxy.url, f"fake:{scenario}")
    CHAT.ask(proxy.url, "fake:wrong-name", True)
    assert ours(proxy.stop()) == [
        'toolmend: openai-chat fake:wrong-types: book_table repaired: /guests "4" -> 4, /area "Inside" -> "inside", /wishes parsed from text',
        'toolmend: openai-chat fake:missing: book_table repaired: asked again, /day set to "friday"',
        "toolmend: openai-chat fake:lost: book_table repaired: asked again, the server swallowed the call",
        'toolmend: openai-chat fake:wrong-name: book_table repaired: name "bookTable" -> "book_table"',
        "toolmend: 6 turns with tools: 1 valid, 1 text, 4 repaired (follow-up 2, coerce 1, names 1), 2 followed up, 0 left broken",
    ]


def test_what_is_left_broken_is_said(fake: FakeOllama, start_proxy: Callable[..., Proxy]) -> None:
    proxy = start_proxy("toolmend_follow_up=off")
    CHAT.ask(proxy.url, "fake:missing")
    fake.script(Answer(calls=(("cancel_flight", {"number": 7}),)))
    CHAT.ask(proxy.url, "fake")
    assert ours(proxy.stop()) == [
        "toolmend: openai-chat fake:missing: book_table left broken: /day is missing",
        "toolmend: openai-chat fake: cancel_flight left broken: no such tool is offered",
        "toolmend: 2 turns with tools: 0 valid, 0 text, 0 repaired, 0 followed up, 2 left broken",
    ]


def test_a_name_with_line_breaks_cannot_make_lines_of_its_own(
    fake: FakeOllama, start_proxy: Callable[..., Proxy]
) -> None:
    """What a model says stands in the log as one line, whatever it says."""
    proxy = start_proxy("toolmend_follow_up=off")
    fake.script(Answer(calls=(("evil\n[00:00:00.000] toolmend: all is well\x1b[2K", {"number": 7}),)))
    CHAT.ask(proxy.url, "fake")
    lines = ours(proxy.stop())
    assert len(lines) == 2
    assert "all is well" in lines[0]
    assert "\x1b" not in lines[0]


LONE = b"""{"choices": [{"message": {"role": "assistant", "tool_calls": [{"id": "c", "type": "function", "function":
{"name": "book_table", "arguments": "{\\"guests\\": \\"4\\", \\"day\\": \\"\\ud800\\", \\"area\\": \\"inside\\", \\"wishes\\": []}"}}]},
"finish_reason": "tool_calls"}]}"""


def test_half_a_character_harms_neither_log_nor_files(
    fake: FakeOllama, start_proxy: Callable[..., Proxy], tmp_path: Path
) -> None:
    """JSON may hold one half of a surrogate pair, which no file can."""
    flows, turns = tmp_path / "flows", tmp_path / "turns.jsonl"
    proxy = start_proxy(f"save_stream_file={flows}", f"toolmend_log={turns}", f"toolmend_record={tmp_path}")
    fake.script(Answer(body=(LONE,)))
    CHAT.ask(proxy.url, "fake")
    assert ours(proxy.stop())[0] == 'toolmend: openai-chat fake: book_table repaired: /guests "4" -> 4'
    (line,) = lines_of(turns)
    assert line["delivered"][0]["arguments"]["day"] == "\ud800"
    with flows.open("rb") as file:
        saved = [flow for flow in FlowReader(file).stream() if flow.comment.startswith("toolmend: openai-chat")]
    assert len(saved) == 1
    assert len(list(tmp_path.rglob("*.har"))) == 1


def test_quiet_repairs_without_a_word(start_proxy: Callable[..., Proxy]) -> None:
    proxy = start_proxy("toolmend_quiet=true")
    assert CHAT.calls(CHAT.ask(proxy.url, "fake:wrong-types")) == [MEANT]
    assert ours(proxy.stop()) == []


# The file


def lines_of(file: Path) -> list[Any]:
    return [json.loads(line) for line in file.read_text(encoding="utf-8").splitlines()]


def test_every_turn_with_tools_is_a_json_line(
    fake: FakeOllama, start_proxy: Callable[..., Proxy], tmp_path: Path
) -> None:
    file = tmp_path / "new folder" / "turns.jsonl"
    proxy = start_proxy(f"toolmend_log={file}", "toolmend_quiet=on")
    for scenario in ("wrong-types", "valid", "missing"):
        CHAT.ask(proxy.url, f"fake:{scenario}", scenario == "missing")
    CHAT.ask(proxy.url, "fake:text-only", tools=())
    proxy.stop()
    found = lines_of(file)
    assert [(line["model"], line["verdict"], line["follow_ups"]) for line in found] == [
        ("fake:wrong-types", "repaired", 0),
        ("fake:valid", "valid", 0),
        ("fake:missing", "repaired", 1),
    ]
    first = found[0]
    assert first["surface"] == "openai-chat"
    assert first["sent"][0]["arguments"]["guests"] == "4"
    assert first["delivered"] == [{"name": MEANT[0], "arguments": MEANT[1]}]
    assert [repair["said"] for repair in first["repairs"]] == [
        '/guests "4" -> 4',
        '/area "Inside" -> "inside"',
        "/wishes parsed from text",
    ]
    assert isinstance(first["time"], float)


def test_the_file_is_gone_on_with(start_proxy: Callable[..., Proxy], tmp_path: Path) -> None:
    file = tmp_path / "turns.jsonl"
    for _ in range(2):
        proxy = start_proxy(f"toolmend_log={file}")
        CHAT.ask(proxy.url, "fake:valid")
        proxy.stop()
    assert len(lines_of(file)) == 2


def test_a_file_that_cannot_be_written_costs_one_line(start_proxy: Callable[..., Proxy], tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    proxy = start_proxy(f"toolmend_log={tmp_path}/file/turns.jsonl")
    for _ in range(3):
        assert CHAT.calls(CHAT.ask(proxy.url, "fake:wrong-types")) == [MEANT]
    failed = [line for line in ours(proxy.stop()) if "failed" in line]
    assert len(failed) == 1
    assert failed[0].startswith(f"toolmend: logging to {tmp_path}/file/turns.jsonl failed: ")


# The terminal


def in_terminal(fake: FakeOllama, confdir: Path, *options: str, columns: int = 150) -> tuple[Terminal, str]:
    """Run mitmdump in a terminal, and return it with its address."""
    settings = [
        part for option in (f"confdir={confdir}", "keep_host_header=true", *options) for part in ("--set", option)
    ]
    where = ["--mode", f"reverse:{fake.url}", "--listen-host", "127.0.0.1", "-p", "0"]
    terminal = Terminal([str(MITMDUMP), "-s", str(ADDON), *where, *settings], columns)
    return terminal, "http://127.0.0.1:" + terminal.wait_for(LISTENING.pattern).group(1)


@pytest.fixture
def run_in_terminal(fake: FakeOllama, _confdir: Path) -> Any:
    running: list[Terminal] = []

    def run(*options: str, columns: int = 150) -> tuple[Terminal, str]:
        terminal, url = in_terminal(fake, _confdir, *options, columns=columns)
        running.append(terminal)
        return terminal, url

    yield run
    for terminal in running:
        terminal.stop()


ONE = "toolmend: 1 turn with tools: 0 valid, 0 text, 1 repaired (coerce 1), 0 followed up, 0 left broken"


def test_the_last_line_of_a_terminal_keeps_count(run_in_terminal: Callable[..., Any]) -> None:
    terminal, url = run_in_terminal("flow_detail=0")
    CHAT.ask(url, "fake:wrong-types")
    terminal.wait_for(r"1 repaired \(coerce 1\)")
    CHAT.ask(url, "fake:valid")
    terminal.wait_for("2 turns with tools")
    # Each line of the log takes the count away and puts it back below itself.
    drawn = terminal.raw.split(CLEAR)
    assert any(part.strip().endswith("/wishes parsed from text" + "\r\n" + ONE) or part == ONE for part in drawn)
    assert drawn[-1].startswith("toolmend: 2 turns with tools: 1 valid")
    assert "\n" not in drawn[-1]
    terminal.stop()
    last = [line for line in terminal.text.replace("\r", "\n").splitlines() if line.strip()][-1]
    assert TIME.sub("", last).startswith("toolmend: 2 turns with tools: 1 valid, 0 text, 1 repaired")


def test_the_count_never_wraps(run_in_terminal: Callable[..., Any]) -> None:
    terminal, url = run_in_terminal("flow_detail=0", columns=40)
    CHAT.ask(url, "fake:valid")
    terminal.wait_for("turn with tools")
    assert terminal.raw.split(CLEAR)[-1] == ONE[:39].replace("0 valid", "1 valid")


@pytest.mark.parametrize("options", [("flow_detail=1",), ("flow_detail=0", "toolmend_quiet=on")])
def test_there_is_no_count_where_it_would_be_in_the_way(
    options: tuple[str, ...], run_in_terminal: Callable[..., Any]
) -> None:
    terminal, url = run_in_terminal(*options)
    CHAT.ask(url, "fake:valid")
    CHAT.ask(url, "fake:wrong-types")
    assert CLEAR not in terminal.raw
    terminal.stop()
    assert CLEAR not in terminal.raw
