"""Behind the proxy stand llama-server, vLLM, Ollama's cloud, or something unknown: each is told apart, and used as it is.

The servers are fakes that differ from each other as the real ones do (`fake_servers`), the proxy is a real mitmdump.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Any

import pytest

from conftest import Proxy, running_proxy
from fake_ollama import ARGUMENTS, MEANT, SCENARIOS, TIMEOUT, TOOL, Answer, FakeOllama, Gate
from fake_servers import FakeLlamaServer, FakeServer, FakeVllm
from in_process import in_process
from raw_http import Connection, Got, encoded, post, request
from toolmend.mitm import addon
from wire_clients import CLIENTS, OPENAI_AND_ANTHROPIC, Client

OTHER: dict[str, Any] = {
    "name": "cancel_table",
    "description": "Cancel a booking.",
    "parameters": {"type": "object", "properties": {"booking": {"type": "string"}}, "required": ["booking"]},
}
RAMBLING = Answer(text="The kitchen closes at ten, and before that it is open, and before that")
COMPLETIONS = "/v1/chat/completions"
CHAT = CLIENTS["openai-chat"]
each_client = pytest.mark.parametrize("client", OPENAI_AND_ANTHROPIC, ids=lambda client: client.name)
both_ways = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


@pytest.fixture(scope="module")
def _llama() -> Iterator[FakeLlamaServer]:
    with FakeLlamaServer() as server:
        yield server


@pytest.fixture(scope="module")
def _vllm() -> Iterator[FakeVllm]:
    with FakeVllm() as server:
        yield server


@pytest.fixture(scope="module")
def proxy_of(_confdir: Path) -> Callable[[str], AbstractContextManager[Proxy]]:
    """Give a function that runs a mitmdump in front of a server."""
    return lambda url: running_proxy(url, _confdir)


@pytest.fixture
def llama(_llama: FakeLlamaServer) -> FakeLlamaServer:
    _llama.reset()
    return _llama


@pytest.fixture
def vllm(_vllm: FakeVllm) -> FakeVllm:
    _vllm.reset()
    return _vllm


@pytest.fixture(scope="module")
def before_llama(_llama: FakeLlamaServer, proxy_of: Callable[[str], AbstractContextManager[Proxy]]) -> Iterator[Proxy]:
    with proxy_of(_llama.url) as proxy:
        yield proxy


@pytest.fixture(scope="module")
def before_vllm(_vllm: FakeVllm, proxy_of: Callable[[str], AbstractContextManager[Proxy]]) -> Iterator[Proxy]:
    with proxy_of(_vllm.url) as proxy:
        yield proxy


def questions(server: FakeOllama) -> list[Any]:
    return [(received.path, received.document) for received in server.of_kind("constrained")]


def first(server: FakeOllama) -> Any:
    return server.of_kind("chat")[0].document


def probes(server: FakeOllama) -> list[str]:
    return [received.path for received in server.requests if received.method == "GET"]


# llama-server


@both_ways
@each_client
@pytest.mark.parametrize("scenario", ["wrong-types", "wrong-name", "prefixed", "leaked", "leaked-after-text"])
def test_the_same_repairs_apply_to_llama_server(
    scenario: str, client: Client, stream: bool, llama: FakeLlamaServer, before_llama: Proxy
) -> None:
    assert client.calls(client.ask(before_llama.url, f"fake:{scenario}", stream)) == [MEANT]
    assert llama.model_calls == 1


@both_ways
@each_client
def test_a_valid_call_from_llama_server_passes_as_the_same_bytes(
    client: Client, stream: bool, llama: FakeLlamaServer, before_llama: Proxy
) -> None:
    document = encoded(client.request("fake:valid", stream))
    got = post(before_llama.url, client.path, document)
    (received,) = llama.of_kind("chat")
    assert got.body == bytes(received.sent)
    assert received.body == document


@both_ways
@each_client
@pytest.mark.parametrize("scenario", ["missing", "swallowed", "lost", "parse-error"])
def test_llama_server_is_asked_by_response_format_on_chat_completions(
    scenario: str, client: Client, stream: bool, llama: FakeLlamaServer, before_llama: Proxy
) -> None:
    got = client.ask(before_llama.url, f"fake:{scenario}", stream)
    assert client.calls(got) == [MEANT]
    assert llama.model_calls == 2
    ((path, question),) = questions(llama)
    assert path == COMPLETIONS
    assert question["response_format"]["type"] == "json_schema"
    assert question["stream"] is False
    # The tools stay, for the prompt's sake, and the choice keeps the grammar of calls out of the schema's way.
    assert question["tools"] == [{"type": "function", "function": TOOL}]
    assert question["tool_choice"] == "none"
    assert question["messages"] == [{"role": "user", "content": "Book a table."}]
    assert question["chat_template_kwargs"] == {"enable_thinking": False}
    assert question["max_tokens"] == (1000 if client.name == "anthropic-messages" else 4096)
    for unknown in ("think", "reasoning_effort", "keep_alive", "options", "format", "text", "logprobs"):
        assert unknown not in question


@both_ways
@each_client
@pytest.mark.parametrize("limit", [None, 20])
def test_a_required_choice_that_llama_server_does_not_meet_ends_by_its_length_and_is_asked(
    limit: int | None, client: Client, stream: bool, llama: FakeLlamaServer, before_llama: Proxy
) -> None:
    """A model that may not end before its call ends where its tokens do, whether or not the client has set the end."""
    member = {"openai-chat": "max_tokens", "openai-responses": "max_output_tokens"}.get(client.name, "max_tokens")
    limits = {} if limit is None else {member: limit}
    llama.script(RAMBLING)
    got = client.ask(before_llama.url, "fake", stream, choice="required", **limits)
    assert llama.of_kind("chat")[0].answer == RAMBLING.but(finish="length")
    assert first(llama)["tool_choice"] == client.required
    assert client.calls(got) == [MEANT]
    assert [path for path, _ in questions(llama)] == [COMPLETIONS]


@both_ways
@each_client
def test_text_that_llama_server_cuts_is_left_alone_without_a_choice(
    client: Client, stream: bool, llama: FakeLlamaServer, before_llama: Proxy
) -> None:
    llama.script(RAMBLING.but(finish="length"))
    got = client.ask(before_llama.url, "fake", stream)
    assert got.body == bytes(llama.of_kind("chat")[0].sent)
    assert llama.model_calls == 1


@both_ways
@each_client
def test_a_named_tool_goes_to_llama_server_as_the_only_one_and_required(
    client: Client, stream: bool, llama: FakeLlamaServer, before_llama: Proxy
) -> None:
    llama.script(SCENARIOS["valid"])
    got = client.ask(before_llama.url, "fake", stream, tools=(OTHER, TOOL), choice="book_table")
    assert client.calls(got) == [MEANT]
    assert first(llama)["tools"] == [client.declare(TOOL)]
    assert first(llama)["tool_choice"] == client.required
    assert llama.model_calls == 1


@both_ways
@each_client
def test_a_named_tool_that_llama_server_does_not_bring_is_asked_for(
    client: Client, stream: bool, llama: FakeLlamaServer, before_llama: Proxy
) -> None:
    llama.script(RAMBLING)
    got = client.ask(before_llama.url, "fake", stream, tools=(OTHER, TOOL), choice="book_table")
    assert client.calls(got) == [MEANT]
    ((path, question),) = questions(llama)
    assert path == COMPLETIONS
    assert question["tools"] == [{"type": "function", "function": TOOL}]


@each_client
def test_none_takes_the_tools_away_from_llama_server(
    client: Client, llama: FakeLlamaServer, before_llama: Proxy
) -> None:
    llama.script(Answer(text="At ten."))
    client.ask(before_llama.url, "fake", choice="none")
    assert "tools" not in first(llama)
    assert "tool_choice" not in first(llama)


@both_ways
@each_client
def test_llama_server_may_make_several_calls_where_one_is_allowed_and_the_first_stays(
    client: Client, stream: bool, llama: FakeLlamaServer, before_llama: Proxy
) -> None:
    llama.script(Answer(calls=(MEANT, ("book_table", {**ARGUMENTS, "day": "saturday"}))))
    got = client.ask(before_llama.url, "fake", stream, **client.one_call_only)
    assert client.calls(got) == [MEANT]


def test_the_constrain_setting_changes_nothing_on_a_server_that_meets_the_choice(
    llama: FakeLlamaServer,
) -> None:
    llama.script(SCENARIOS["valid"])
    with in_process(llama.url, toolmend_force="constrain") as running:
        got = CHAT.ask(running.url, "fake", choice="required")
    assert CHAT.calls(got) == [MEANT]
    assert [received.body for received in llama.of_kind("chat", "constrained")] == [
        encoded(CHAT.request("fake", choice="required"))
    ]


def test_llama_server_is_never_asked_for_tokens_or_prompts(llama: FakeLlamaServer) -> None:
    llama.reply(Answer(text=""), Answer(text=""))
    with in_process(llama.url, toolmend_tap="on") as running:
        got = CHAT.ask(running.url, "fake:swallowed")
    assert got.body == bytes(llama.of_kind("chat")[0].sent)
    assert [received.kind for received in llama.requests if received.method == "POST"] == ["chat", "constrained"]
    assert not any("logprobs" in received.document for received in llama.requests)


def test_an_unknown_choice_goes_on_to_llama_server_and_its_refusal_comes_back(
    llama: FakeLlamaServer, before_llama: Proxy
) -> None:
    document = CHAT.request("fake:valid", tool_choice="bogus")
    got = post(before_llama.url, COMPLETIONS, document)
    assert (got.status, got.body) == (400, post(llama.url, COMPLETIONS, document).body)
    assert before_llama.log.count('tool_choice is "bogus", which is not understood') == 1


# vLLM


@both_ways
@each_client
@pytest.mark.parametrize("scenario", ["wrong-types", "leaked", "wrong-name"])
def test_the_same_repairs_apply_to_vllm(
    scenario: str, client: Client, stream: bool, vllm: FakeVllm, before_vllm: Proxy
) -> None:
    assert client.calls(client.ask(before_vllm.url, f"fake:{scenario}", stream)) == [MEANT]
    assert vllm.model_calls == 1


@both_ways
@each_client
def test_vllm_is_asked_by_response_format_on_chat_completions(
    client: Client, stream: bool, vllm: FakeVllm, before_vllm: Proxy
) -> None:
    got = client.ask(before_vllm.url, "fake:missing", stream)
    assert client.calls(got) == [MEANT]
    ((path, question),) = questions(vllm)
    assert path == COMPLETIONS
    assert question["response_format"]["type"] == "json_schema"
    assert question["chat_template_kwargs"] == {"enable_thinking": False}
    assert question["tool_choice"] == "none"
    for unknown in ("think", "reasoning_effort", "keep_alive", "options", "format", "text", "logprobs"):
        assert unknown not in question


@both_ways
@each_client
@pytest.mark.parametrize("choice", ["required", "book_table"])
def test_vllm_gets_every_choice_as_it_came_and_its_answer_passes(
    choice: str, client: Client, stream: bool, vllm: FakeVllm, before_vllm: Proxy
) -> None:
    document = encoded(client.request("fake:text-only", stream, tools=(OTHER, TOOL), choice=choice))
    got = post(before_vllm.url, client.path, document)
    (received,) = vllm.of_kind("chat")
    assert received.body == document
    assert got.body == bytes(received.sent)
    assert client.calls(got) == [MEANT]


# Ollama's cloud


CLOUD = "fake:120b-cloud"


@pytest.mark.parametrize("choice", ["required", "book_table"])
@pytest.mark.parametrize("client", CLIENTS.values(), ids=lambda client: client.name)
def test_a_cloud_model_gets_the_choice_as_it_came(choice: str, client: Client, fake: FakeOllama, proxy: Proxy) -> None:
    fake.script(SCENARIOS["valid"])
    document = encoded(client.request(CLOUD, tools=(OTHER, TOOL), choice=choice))
    assert client.calls(post(proxy.url, client.path, document)) == [MEANT]
    assert [received.body for received in fake.of_kind("chat")] == [document]


@pytest.mark.parametrize("client", CLIENTS.values(), ids=lambda client: client.name)
def test_a_cloud_model_is_asked_neither_for_tokens_nor_for_its_prompt(client: Client, fake: FakeOllama) -> None:
    with in_process(fake.url, toolmend_tap="on") as running:
        fake.script(SCENARIOS["swallowed"])
        fake.reply(Answer(text=""))
        got = client.ask(running.url, CLOUD)
        assert got.body == bytes(fake.of_kind("chat")[0].sent)
        assert client.calls(client.ask(running.url, "fake:swallowed")) == [MEANT]
    cloud = [received for received in fake.requests if received.document.get("model") == CLOUD]
    assert [received.kind for received in cloud] == ["chat", "constrained"]
    assert not any("logprobs" in received.document for received in cloud)
    assert any("logprobs" in received.document for received in fake.requests)


# Something else


class Unknown(FakeVllm):
    """A server that speaks the surfaces and answers nothing that tells what it is."""

    def _other(self, received: Any) -> Answer:
        return Answer(body=(b"not found",), status=404, content_type="text/plain")


@contextmanager
def in_front_of(server: FakeServer, **options: Any) -> Iterator[str]:
    with server, in_process(server.url, **options) as running:
        yield running.url


@each_client
def test_a_server_that_is_not_known_gets_everything_as_it_came(client: Client) -> None:
    server = Unknown()
    with in_front_of(server, toolmend_tap="on") as url:
        document = encoded(client.request("fake", tools=(OTHER, TOOL), choice="book_table"))
        assert client.calls(post(url, client.path, document)) == [MEANT]
        assert client.calls(client.ask(url, "fake:wrong-types")) == [MEANT]
        assert client.calls(client.ask(url, "fake:missing")) == [MEANT]
    assert server.of_kind("chat")[0].body == document
    ((path, question),) = questions(server)
    assert path == COMPLETIONS
    assert "chat_template_kwargs" not in question
    assert "reasoning_effort" not in question
    assert probes(server) == ["/api/version", "/props", "/version"]


# Telling them apart


KINDS: list[tuple[type[FakeOllama], list[str]]] = [
    (FakeOllama, ["/api/version"]),
    (FakeLlamaServer, ["/api/version"]),
    (FakeVllm, ["/api/version", "/props", "/version"]),
]


@pytest.mark.parametrize(("kind", "asked"), KINDS, ids=lambda value: getattr(value, "__name__", ""))
def test_a_host_is_asked_once_however_many_requests_come_first(
    kind: type[FakeOllama], asked: list[str], proxy_of: Callable[[str], AbstractContextManager[Proxy]]
) -> None:
    count = 30
    with kind() as server, proxy_of(server.url) as proxy:
        bodies: list[bytes] = []

        def ask() -> None:
            bodies.append(CHAT.ask(proxy.url, "fake:wrong-types").body)

        clients = [threading.Thread(target=ask) for _ in range(count)]
        for client in clients:
            client.start()
        for client in clients:
            client.join(TIMEOUT)
        assert len(bodies) == count
        assert probes(server) == asked
        assert len(server.of_kind("chat")) == count
        CHAT.ask(proxy.url, "fake:valid")
        assert probes(server) == asked


@pytest.mark.parametrize("given", ["ollama", "llama-server", "vllm"])
def test_the_option_says_what_the_server_is_and_nothing_is_asked(given: str, llama: FakeLlamaServer) -> None:
    llama.script(SCENARIOS["valid"])
    with in_process(llama.url, toolmend_upstream=given) as running:
        CHAT.ask(running.url, "fake", tools=(OTHER, TOOL), choice="book_table")
    assert probes(llama) == []
    sent = first(llama)
    assert (
        sent.get("tool_choice") == {"ollama": None, "llama-server": "required", "vllm": CHAT.named("book_table")}[given]
    )
    assert len(sent["tools"]) == (1 if given == "llama-server" else 2)


class Hanging(FakeVllm):
    """A server that answers no probe while `gate` is shut."""

    def __init__(self) -> None:
        self.gate = Gate()
        super().__init__()

    def _other(self, received: Any) -> Answer:
        return super()._other(received).but(gates={0: self.gate})


def test_a_server_that_answers_no_probe_costs_one_time_out_and_is_not_asked_again(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Were it asked for each request, or for as long on each path, three requests would wait nine times as long."""
    monkeypatch.setattr(addon, "PROBE_SECONDS", 0.5)
    server = Hanging()
    with in_front_of(server) as url:
        began = time.monotonic()
        for _ in range(3):
            assert CHAT.calls(CHAT.ask(url, "fake:wrong-types")) == [MEANT]
        took = time.monotonic() - began
    assert probes(server) == ["/api/version"]
    assert 0.5 <= took < 4.5


def test_a_server_that_answers_no_probe_is_asked_again_after_a_while(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(addon, "PROBE_SECONDS", 0.2)
    monkeypatch.setattr(addon, "PROBE_AGAIN_SECONDS", 0.0)
    server = Hanging()
    with in_front_of(server) as url:
        CHAT.ask(url, "fake:valid")
        server.gate.open()
        monkeypatch.setattr(addon, "PROBE_SECONDS", TIMEOUT)
        assert CHAT.calls(CHAT.ask(url, "fake:missing")) == [MEANT]
    assert probes(server)[-3:] == ["/api/version", "/props", "/version"]
    ((_, question),) = questions(server)
    assert question["chat_template_kwargs"] == {"enable_thinking": False}


def ask_through(proxy: str, server: str, scenario: str) -> Got:
    """Ask through a proxy that the client knows of: it serves many hosts, and answers for those that are not there."""
    with Connection(proxy) as connection:
        connection.send(request(server + COMPLETIONS, encoded(CHAT.request(f"fake:{scenario}"))))
        return connection.answer()


REGULAR: dict[str, Any] = {"mode": ["regular"], "toolmend_filter": "~d 127.0.0.1"}


def test_a_server_that_was_not_there_at_first_is_known_once_it_is(fake: FakeOllama) -> None:
    with FakeLlamaServer() as server:
        url, port = server.url, server.port
    with in_process(fake.url, **REGULAR) as running:
        assert ask_through(running.url, url, "valid").status == 502
        with FakeLlamaServer(port=port) as server:
            assert CHAT.calls(ask_through(running.url, url, "missing")) == [MEANT]
    ((_, question),) = questions(server)
    assert question["chat_template_kwargs"] == {"enable_thinking": False}


def test_a_probe_that_hangs_holds_up_no_other_host(fake: FakeOllama) -> None:
    with Hanging() as server, in_process(fake.url, **REGULAR) as running, Connection(running.url) as waiting:
        waiting.send(request(server.url + COMPLETIONS, encoded(CHAT.request("fake:valid"))))
        server.wait_for("other")
        assert CHAT.calls(ask_through(running.url, fake.url, "wrong-types")) == [MEANT]
        assert server.of_kind("chat") == []
        server.gate.open()
        assert CHAT.calls(waiting.answer()) == [MEANT]
