"""Which flows are ours, and where their questions go."""

import json
from collections.abc import Iterator

import pytest

from fake_ollama import SCENARIOS, TOOL, Answer, FakeOllama
from in_process import Running, in_process, post

BODY = {"model": "m", "messages": [{"role": "user", "content": "Book."}], "stream": False}
WITH_TOOL = {**BODY, "tools": [{"type": "function", "function": TOOL}]}


@pytest.fixture(scope="module")
def proxy_in_process(fake_server: FakeOllama) -> Iterator[Running]:
    with in_process(fake_server.url) as running:
        yield running


@pytest.mark.parametrize("path", ["/ollama/api/chat", "/deep/er/api/chat?x=1", "/api/chat/"])
def test_a_server_may_live_below_a_path(path: str, fake: FakeOllama, proxy_in_process: Running) -> None:
    calls = [{"id": "c", "function": {"index": 0, "name": "bookTable", "arguments": {}}}]
    message = {"role": "assistant", "content": "", "tool_calls": calls}
    body = json.dumps({"model": "m", "message": message, "done": True, "done_reason": "stop"}).encode()
    fake.on("Book.", Answer(status=200, body=body, content_type="application/json"))
    post(proxy_in_process.url, path, WITH_TOOL)
    asked = [received.path for received in fake.requests if received.method == "POST"]
    prefix = path.split("?")[0].rstrip("/").removesuffix("/api/chat")
    assert asked[0].rstrip("/").startswith(prefix + "/api/chat")
    assert all(other == prefix + "/api/chat" for other in asked[1:])
    probed = [received.path for received in fake.requests if received.method == "GET"]
    assert all(other.startswith(prefix + "/") for other in probed)


@pytest.mark.parametrize("path", ["/api/generate", "/api/tags", "/v1/completions", "/api/chatter"])
def test_other_paths_are_none_of_ours(path: str, fake: FakeOllama, proxy_in_process: Running) -> None:
    post(proxy_in_process.url, path, WITH_TOOL)
    assert [received.path for received in fake.requests] == [path]
    assert json.loads(fake.requests[0].body) == WITH_TOOL


def test_a_request_without_tools_is_none_of_ours(fake: FakeOllama, proxy_in_process: Running) -> None:
    fake.script(SCENARIOS["leaked"])
    got = post(proxy_in_process.url, "/api/chat", BODY)
    assert "<tool_call>" in json.loads(got.body)["message"]["content"]
    assert json.loads(fake.requests[-1].body) == BODY


def test_a_choice_that_is_spelled_with_escapes_is_put_on_the_request(
    fake: FakeOllama, proxy_in_process: Running
) -> None:
    body = json.dumps({**WITH_TOOL, "tool_choice": "none"}).replace("tool_choice", "tool\\u005fchoice").encode()
    fake.script(SCENARIOS["leaked"])
    got = post(proxy_in_process.url, "/api/chat", body)
    assert "<tool_call>" in json.loads(got.body)["message"]["content"]
    assert "tools" not in fake.of_kind("chat")[-1].document


def test_requests_that_are_read_late_leave_nothing_behind(fake: FakeOllama, proxy_in_process: Running) -> None:
    """What offers no tools, and what cannot be read, is found out only when it has gone on."""
    for body in (b'{"tools": [', b'{"tools": {}, "model": "m"}', json.dumps({**BODY, "tools": []}).encode()):
        post(proxy_in_process.url, "/api/chat", body)
        assert fake.requests[-1].body == body
    assert not proxy_in_process.addon.sent
    assert not proxy_in_process.addon.live
