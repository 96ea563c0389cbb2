"""In mitmproxy's own terminal interface a repaired answer is marked and explained, as it is in mitmweb."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from conftest import ADDON, MITMDUMP
from fake_ollama import MEANT, FakeOllama
from terminal import Terminal
from web_interface import free_port
from wire_clients import CLIENTS

CHAT = CLIENTS["openai-chat"]


@pytest.fixture
def console(fake: FakeOllama, _confdir: Path) -> Iterator[tuple[Terminal, str]]:
    port = free_port()
    options = ["--set", f"confdir={_confdir}", "--set", "keep_host_header=true"]
    where = ["--mode", f"reverse:{fake.url}", "--listen-host", "127.0.0.1", "-p", str(port)]
    with Terminal([str(MITMDUMP.with_name("mitmproxy")), "-s", str(ADDON), *where, *options]) as terminal:
        terminal.wait_for(rf"\[127\.0\.0\.1:{port}\]")
        yield terminal, f"http://127.0.0.1:{port}"


def test_a_repaired_flow_is_marked_and_explained(console: tuple[Terminal, str]) -> None:
    terminal, url = console
    assert CHAT.calls(CHAT.ask(url, "fake:wrong-types")) == [MEANT]
    terminal.wait_for("🔧")
    # Enter opens the flow in focus, Tab goes on from its request to its response.
    terminal.type("\r")
    terminal.wait_for("Flow Details")
    terminal.type("\t")
    terminal.wait_for("toolmend: openai-chat fake:wrong-types: repaired")
    terminal.wait_for("as the model sent it")
    terminal.wait_for(r'coerce: /area "Inside" -> "inside"')
    assert "Traceback" not in terminal.stop()


def test_the_commands_answer_in_a_window(console: tuple[Terminal, str]) -> None:
    terminal, url = console
    CHAT.ask(url, "fake:wrong-types")
    terminal.wait_for("🔧")
    terminal.type(":toolmend.explain @focus\r")
    terminal.wait_for("as the agent got it")
    terminal.type("q")
    terminal.type(":toolmend.stats\r")
    found = terminal.wait_for(r'\{"turns": 1, [^}]*\}').group(0)
    assert json.loads(re.sub(r"\s*│[\s\S]*?│", "", found) + "}")["repaired"] == 1
