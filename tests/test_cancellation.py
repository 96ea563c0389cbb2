"""A client that leaves ends the work upstream, as it would without the addon: the answer, and any question about it."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from conftest import Proxy
from fake_ollama import MEANT, SCENARIOS, TIMEOUT, Answer, FakeOllama, Gate, Received, as_json
from in_process import Running, in_process
from raw_http import Connection
from wire_clients import CLIENTS, Client

both_ways = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
each_client = pytest.mark.parametrize("client", CLIENTS.values(), ids=lambda client: client.name)
CHAT = CLIENTS["ollama-chat"]
MISSING = SCENARIOS["missing"].but(text="Let me book that. ")


def close(connection: Connection) -> None:
    connection.close()


def reset(connection: Connection) -> None:
    """Leave without a goodbye: the other side sees a reset."""
    connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def left_while(wait: Callable[[], Received], url: str, client: Client, document: Any, leave: Any = close) -> Received:
    """Send a request, wait until the server works on what is waited for, and leave."""
    with Connection(url) as connection:
        connection.post(client.path, document)
        received = wait()
        leave(connection)
    return received


@both_ways
@each_client
@pytest.mark.parametrize("leave", [close, reset])
def test_a_client_that_leaves_while_the_model_answers_ends_the_answer(
    leave: Any, client: Client, stream: bool, fake: FakeOllama, proxy: Proxy
) -> None:
    fake.script(SCENARIOS["valid-after-text"].but(gates={1 if stream else 0: Gate()}))
    document = client.request("fake", stream)
    received = left_while(lambda: fake.wait_for("chat"), proxy.url, client, document, leave)
    assert received.gone.wait(TIMEOUT)
    assert not received.finished.is_set()


@both_ways
@each_client
@pytest.mark.parametrize("leave", [close, reset])
def test_a_client_that_leaves_while_a_question_runs_ends_the_question(
    leave: Any, client: Client, stream: bool, fake: FakeOllama, proxy: Proxy
) -> None:
    fake.script(MISSING)
    fake.reply(as_json({}, gates={0: Gate()}))
    document = client.request(f"fake:leaves-{client.name}", stream)
    question = left_while(lambda: fake.wait_for("constrained"), proxy.url, client, document, leave)
    assert question.gone.wait(TIMEOUT)
    assert not question.finished.is_set()
    # Nothing more is asked for it, and the next one is served.
    assert client.calls(client.ask(proxy.url, "fake:wrong-types", stream)) == [MEANT]
    assert fake.model_calls == 3


@both_ways
def test_a_client_that_leaves_while_the_tokens_are_asked_for_ends_that(
    stream: bool, fake: FakeOllama, proxy: Proxy
) -> None:
    fake.script(SCENARIOS["swallowed"], SCENARIOS["swallowed"].but(gates={1: Gate()}))
    document = CHAT.request(f"fake:leaves-tapped-{stream}", stream)
    question = left_while(lambda: fake.wait_for("chat", 2), proxy.url, CHAT, document)
    assert question.document["logprobs"] is True
    assert question.gone.wait(TIMEOUT)
    assert fake.model_calls == 2


@both_ways
def test_a_client_that_leaves_while_the_model_goes_on_from_its_prompt_ends_that(
    stream: bool, fake: FakeOllama, proxy: Proxy
) -> None:
    fake.script(SCENARIOS["missing"])
    fake.reply(Answer(text=""), as_json({}, gates={0: Gate()}))
    document = CHAT.request(f"fake:leaves-raw-{stream}", stream)
    question = left_while(lambda: fake.wait_for("constrained", 2), proxy.url, CHAT, document)
    assert question.path == "/api/generate"
    assert question.gone.wait(TIMEOUT)


@both_ways
def test_a_client_that_leaves_while_its_request_goes_without_the_tap_ends_that(stream: bool, fake: FakeOllama) -> None:
    """The tap is refused, so the client's own request is sent once more as it was."""
    with in_process(fake.url, toolmend_tap="on") as running:
        answer = SCENARIOS["valid"].but(native=True, gates={0: Gate()})
        fake.script(answer)
        document = CHAT.request("fake", stream)
        again = left_while(lambda: fake.wait_for("chat"), running.url, CHAT, document)
        assert "logprobs" not in again.document
        assert again.gone.wait(TIMEOUT)


@pytest.fixture(scope="module")
def inside(fake_server: FakeOllama) -> Iterator[Running]:
    with in_process(fake_server.url) as running:
        yield running


@both_ways
def test_a_client_that_leaves_is_no_failure_of_the_model(stream: bool, fake: FakeOllama, inside: Running) -> None:
    """After three questions that fail a model is left alone for a while; these did not fail."""
    for _ in range(4):
        fake.reset()
        fake.reply(as_json({}, gates={0: Gate()}))
        document = CHAT.request("fake:missing", stream)
        question = left_while(lambda: fake.wait_for("constrained"), inside.url, CHAT, document)
        assert question.gone.wait(TIMEOUT)
    assert CHAT.calls(CHAT.ask(inside.url, "fake:missing", stream)) == [MEANT]


@both_ways
def test_an_answer_that_nobody_waited_for_is_not_counted(
    stream: bool, fake: FakeOllama, start_proxy: Callable[..., Proxy]
) -> None:
    proxy = start_proxy()
    fake.reply(as_json({}, gates={0: Gate()}))
    question = left_while(lambda: fake.wait_for("constrained"), proxy.url, CHAT, CHAT.request("fake:missing", stream))
    assert question.gone.wait(TIMEOUT)
    CHAT.ask(proxy.url, "fake:valid")
    assert "left broken" not in proxy.log
    assert (
        proxy.stop()
        .splitlines()[-1]
        .endswith("toolmend: 1 turn with tools: 1 valid, 0 text, 0 repaired, 0 followed up, 0 left broken")
    )
