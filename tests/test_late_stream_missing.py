"""Where mitmproxy's internals have moved, streams go on without questions, and that is said once."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conftest import Proxy
from fake_ollama import MEANT, SCENARIOS, TOOL, FakeOllama
from raw_http import post

MOVED = """
from mitmproxy.proxy.layers import http

class Moved(http.HttpStream):
    def handle_event(self, event):
        raise AttributeError("moved")

from toolmend.mitm import late_stream
late_stream.LateHttpStream = Moved
"""


@pytest.fixture
def moved(tmp_path: Path, start_proxy: Callable[..., Proxy]) -> Proxy:
    """Give a mitmdump in which the class that late streaming rests on is no longer what it was."""
    script = tmp_path / "moved.py"
    script.write_text(MOVED)
    return start_proxy(scripts=(script,))


def asked(scenario: str, stream: bool) -> dict[str, Any]:
    tools = [{"type": "function", "function": TOOL}]
    messages = [{"role": "user", "content": "Book a table."}]
    return {"model": f"fake:{scenario}", "messages": messages, "tools": tools, "stream": stream}


def calls(body: bytes) -> list[tuple[str, Any]]:
    found = [call for line in body.splitlines() for call in json.loads(line)["message"].get("tool_calls", ())]
    return [(call["function"]["name"], call["function"]["arguments"]) for call in found]


def test_streams_go_on_without_questions_and_it_is_said_once(fake: FakeOllama, moved: Proxy) -> None:
    for scenario in ("wrong-types", "leaked-after-text", "valid"):
        assert calls(post(moved.url, "/api/chat", asked(scenario, stream=True)).body) == [MEANT]
    got = post(moved.url, "/api/chat", asked("missing", stream=True))
    assert got.complete
    assert calls(got.body) == [SCENARIOS["missing"].calls[0]]
    assert not fake.of_kind("constrained")
    # A whole answer is read to its end by mitmproxy itself: it is asked about as ever.
    assert calls(post(moved.url, "/api/chat", asked("missing", stream=False)).body) == [MEANT]
    assert len(fake.of_kind("constrained")) == 1
    said = [line for line in moved.stop().splitlines() if "without follow-ups" in line]
    assert len(said) == 1
