"""Many clients, clients and servers that leave at any moment, and long runs: judged by the order of events."""

from __future__ import annotations

import asyncio
import base64
import gc
import json
import os
import ssl
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import h2.config
import h2.connection
import h2.events
import pytest

from captured import Captured, captured, one
from conftest import Proxy
from fake_ollama import MEANT, SCENARIOS, TIMEOUT, TOOL, FakeOllama, Gate, as_json
from in_process import Running, in_process
from raw_http import Connection, encoded, post, request
from toolmend.exchange import Exchange
from toolmend.follow_up import FollowUp
from toolmend.mitm.stream_filter import StreamFilter
from toolmend.settings import Settings
from toolmend.surfaces import SURFACES
from toolmend.upstreams import Server

TOOLS = [{"type": "function", "function": TOOL}]
DECLARED: dict[str, Any] = {
    "/v1/responses": {"type": "function", **TOOL},
    "/v1/messages": {"name": TOOL["name"], "input_schema": TOOL["parameters"]},
}
MESSAGES = [{"role": "user", "content": "Book a table."}]
CHAT = "/api/chat"
GOOD_REPLY = {"name": "book_table", "arguments": {"day": "friday"}}
SAID = "Let me book that. "
MISSING = SCENARIOS["missing"].but(text=SAID)


def asked(scenario: str, **members: Any) -> dict[str, Any]:
    return {"model": f"fake:{scenario}", "messages": MESSAGES, "tools": TOOLS, "stream": True, **members}


def calls(body: bytes) -> list[tuple[str, Any]]:
    """Read the calls of an answer of /api/chat, whole or streamed."""
    found = [call for line in body.splitlines() for call in json.loads(line)["message"].get("tool_calls", ())]
    return [(call["function"]["name"], call["function"]["arguments"]) for call in found]


# Many at once


class Streaming:
    """Read one streamed answer among many others: `began` when its first chunk is there, `ended` at its end."""

    def __init__(self, url: str, document: dict[str, Any]) -> None:
        self.began, self.ended = asyncio.Event(), asyncio.Event()
        self.body = b""
        self._where = url.removeprefix("http://").split(":")
        self._document = document

    async def run(self) -> None:
        reader, writer = await asyncio.open_connection(self._where[0], int(self._where[1]))
        try:
            writer.write(request(CHAT, encoded(self._document)))
            assert b" 200 " in await reader.readline()
            while await reader.readline() != b"\r\n":
                pass
            while size := int(await reader.readline(), 16):
                self.body += (await reader.readexactly(size + 2))[:-2]
                self.began.set()
            self.ended.set()
        finally:
            writer.close()


def test_no_stream_waits_for_the_questions_of_others(fake: FakeOllama, start_proxy: Callable[..., Proxy]) -> None:
    slow, others = 20, 180
    middle, reply = Gate(), Gate()
    fake.on("a slow table", MISSING.but(gates={2: middle}))
    fake.on("a table at once", SCENARIOS["valid-after-text"].but(gates={2: middle}))
    fake.reply(*[as_json(GOOD_REPLY, gates={0: reply})] * slow)
    proxy = start_proxy()

    async def run() -> None:
        def about(text: str, count: int) -> list[Streaming]:
            document = asked("many", messages=[{"role": "user", "content": text}])
            return [Streaming(proxy.url, document) for _ in range(count)]

        waiting, free = about("a slow table", slow), about("a table at once", others)
        tasks = [asyncio.create_task(stream.run()) for stream in [*waiting, *free]]
        async with asyncio.timeout(3 * TIMEOUT):
            # All 200 are open at the same time, and each has got its first words.
            await asyncio.gather(*(stream.began.wait() for stream in [*waiting, *free]))
            assert not any(stream.ended.is_set() for stream in [*waiting, *free])
            middle.open()
            await asyncio.to_thread(fake.wait_for, "constrained", slow)
            # 20 questions run and none is answered: the other 180 end all the same.
            await asyncio.gather(*(stream.ended.wait() for stream in free))
            assert not any(stream.ended.is_set() for stream in waiting)
            reply.open()
            await asyncio.gather(*tasks)
        assert all(calls(stream.body) == [MEANT] for stream in [*waiting, *free])

    asyncio.run(run())
    assert len(fake.of_kind("chat")) == slow + others
    assert len(fake.of_kind("constrained")) == slow
    assert "left broken" not in proxy.log


# Clients that leave


class Watched(dict[str, Any]):
    """Hold the flows that are alive, and tell when there is none."""

    def __init__(self) -> None:
        super().__init__()
        self.changed = threading.Condition()

    def pop(self, *args: Any) -> Any:
        with self.changed:
            found = super().pop(*args)
            self.changed.notify_all()
        return found

    def emptied(self) -> bool:
        with self.changed:
            return self.changed.wait_for(lambda: not self, TIMEOUT)


@pytest.fixture(scope="module")
def inside(fake_server: FakeOllama) -> Iterator[Running]:
    with in_process(fake_server.url, toolmend_timeout="3600") as running:
        running.addon.live = Watched()
        yield running


def hasty(url: str, stage: str, fake: FakeOllama) -> Any:
    """Leave at a stage; return the request at the server that has to end with it, if any."""
    whole = request(CHAT, encoded(asked("hasty")))
    begun = {
        "connected": 0,
        "in the head": 20,
        "after the head": whole.index(b"\r\n\r\n") + 4,
        "in the body": len(whole) - 30,
    }
    with Connection(url) as client:
        if stage in begun:
            client.send(whole[: begun[stage]])
            return None
        client.send(whole)
        if stage == "while a question runs":
            assert next(client.pieces(client.head()[1]))
            return fake.wait_for("constrained")
        received = fake.wait_for("chat")
        if stage in ("in the text", "while a call is held"):
            assert next(client.pieces(client.head()[1]))
        if stage == "while a call is held":
            assert received.answer is not None
            assert received.answer.gates[-1].reached.wait(TIMEOUT)
        return received


@pytest.mark.parametrize(
    ("stage", "gates"),
    [
        ("connected", {}),
        ("in the head", {}),
        ("after the head", {}),
        ("in the body", {}),
        ("before the answer", {0: Gate()}),
        ("in the text", {1: Gate()}),
        ("while a call is held", {-1: Gate()}),
        ("while a question runs", {}),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_client_may_leave_at_any_stage(stage: str, gates: dict[int, Gate], fake: FakeOllama, inside: Running) -> None:
    fake.script(MISSING.but(gates=gates))
    fake.reply(as_json(GOOD_REPLY, gates={0: Gate()}))
    received = hasty(inside.url, stage, fake)
    if received is not None:
        assert received.gone.wait(TIMEOUT)
    assert inside.addon.live.emptied()  # type: ignore[attr-defined]  # the fixture's
    fake.reset()
    assert calls(post(inside.url, CHAT, asked("wrong-types")).body) == [MEANT]
    assert inside.addon.live.emptied()  # type: ignore[attr-defined]


def test_an_open_connection_that_says_nothing_more_holds_up_nobody(fake: FakeOllama, proxy: Proxy) -> None:
    stuck = Gate()
    fake.on("stuck", SCENARIOS["valid-after-text"].but(gates={1: stuck}))
    with Connection(proxy.url) as silent, Connection(proxy.url) as half, Connection(proxy.url) as unfinished:
        half.send(request(CHAT, encoded(asked("wrong-types")))[:-10])
        unfinished.post(CHAT, asked("stuck"))
        assert next(unfinished.pieces(unfinished.head()[1]))
        # A server that sends no more, a client that sends no more, one that never began: the next one is served.
        assert calls(post(proxy.url, CHAT, asked("wrong-types")).body) == [MEANT]
        half.send(request(CHAT, encoded(asked("wrong-types")))[-10:])
        assert calls(half.answer().body) == [MEANT]
        silent.post(CHAT, asked("wrong-types"))
        assert calls(silent.answer().body) == [MEANT]
        stuck.open()


# Servers that die

ENDLESS = {"before its reply": {0: Gate()}, "in its reply": {1: Gate()}}


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("where", ENDLESS)
def test_a_question_that_never_ends_is_given_up_and_the_answer_goes_out_as_it_came(
    where: str, stream: bool, fake: FakeOllama, start_proxy: Callable[..., Proxy]
) -> None:
    proxy = start_proxy("toolmend_timeout=0.5")
    fake.script(MISSING)
    fake.reply(as_json(GOOD_REPLY, gates=ENDLESS[where], cut=20))
    got = post(proxy.url, CHAT, asked("missing", stream=stream))
    assert got.complete
    assert got.body == bytes(fake.of_kind("chat")[0].sent)
    question = fake.of_kind("constrained")[0]
    assert question.gone.wait(TIMEOUT)
    assert fake.model_calls == 2


DYING = [
    one(f"{parser}/{fault}/{surface}/stream")
    for surface in ("ollama-chat", "openai-chat", "openai-responses", "anthropic-messages")
    for parser, fault in (("qwen3", "text-then-call"), ("qwen3", "foreign-dialect"), ("qwen3.5", "two-calls"))
]


def ends(found: Captured) -> range:
    """Return the places where an answer is broken off: every byte, or about 2,000 of them."""
    return range(1, len(found.body), 1 + len(found.body) // 2_000)


@pytest.mark.parametrize("found", DYING, ids=lambda found: found.id)
def test_a_server_that_dies_at_any_byte_costs_nothing_of_what_came(found: Captured) -> None:
    server = Server()
    for end in ends(found):
        exchange = Exchange(found.surface, found.document, Settings(), server)
        exchange.respond(found.status, found.content_type)
        stream = StreamFilter(exchange, lambda: None, late=True, keep=False)
        # Late streaming lets the filter's end come before the client sees the break.
        assert b"".join(stream(found.body[:end]) + stream(b"")) == found.body[:end]
        assert not stream.failed


@pytest.mark.parametrize("found", DYING, ids=lambda found: found.id)
def test_a_stream_that_ends_at_any_byte_never_becomes_a_call_that_was_not_meant(found: Captured) -> None:
    """Where the end of the connection is the end of the body, a broken answer looks like a whole one."""
    meant = whole_calls(found)
    server = Server()
    for end in ends(found):
        exchange = Exchange(found.surface, found.document, Settings(follow_up=False), server)
        exchange.respond(found.status, found.content_type)
        sent = exchange.receive(found.body[:end])
        rest = exchange.finish()
        assert not isinstance(rest, FollowUp)
        assert exchange.outcome is not None or b"".join(sent + rest) == found.body[:end]
        if exchange.outcome is None or not exchange.outcome.repairs:
            assert b"".join(sent + rest) == found.body[:end]
        elif not exchange.outcome.faults:
            assert [(call.name, call.arguments) for call in exchange.outcome.turn.calls] in (
                meant[:count] for count in range(len(meant) + 1)
            )


def whole_calls(found: Captured) -> list[tuple[str, Any]]:
    exchange = Exchange(found.surface, found.document, Settings(follow_up=False), Server())
    exchange.respond(found.status, found.content_type)
    exchange.receive(found.body)
    exchange.finish()
    assert exchange.outcome is not None
    return [(call.name, call.arguments) for call in exchange.outcome.turn.calls]


@pytest.mark.parametrize("path", SURFACES)
@pytest.mark.parametrize("scenario", ["leaked-after-text", "valid-after-text", "missing"])
def test_over_the_wire_too_a_dying_server_costs_nothing_of_what_it_sent(
    scenario: str, path: str, fake: FakeOllama, proxy: Proxy
) -> None:
    document = asked(scenario, tools=[DECLARED.get(path, TOOLS[0])])
    body = post(fake.url, path, document).body
    for chunks in range(1, len(body) // 37, 5):
        fake.script(SCENARIOS[scenario].but(cut=37, close_after=chunks))
        got = post(proxy.url, path, document)
        received = fake.of_kind("chat")[-1]
        assert (got.body, got.complete) == (bytes(received.sent), False)
        assert len(got.body) == 37 * chunks
    assert not fake.of_kind("constrained")


# Long runs

TURNS = 10_000


def turn(found: Captured, number: int, server: Server) -> None:
    """Run one answer with a schema that no turn before it had."""
    tool = {
        "type": "function",
        "function": {
            "name": f"tool_{number // 100}",
            "parameters": {"type": "object", "properties": {f"p{number}": {"type": "integer"}}},
        },
    }
    tools = [*found.document["tools"], tool]
    exchange = Exchange(found.surface, {**found.document, "tools": tools}, Settings(follow_up=False), server)
    exchange.respond(found.status, found.content_type)
    stream = StreamFilter(exchange, lambda: None, late=False, keep=False)
    stream(found.body)
    stream(b"")
    assert not stream.failed


def test_ten_thousand_turns_leave_nothing_behind() -> None:
    answers = [found for found in captured() if found.stream and found.surface.name in ("ollama-chat", "openai-chat")]
    answers = [found for found in answers if len(found.body) < 1_500][::11]
    server = Server()
    counts = []
    for number in range(TURNS):
        turn(answers[number % len(answers)], number, server)
        if number in (TURNS // 5, TURNS - 1):
            gc.collect()
            counts.append(len(gc.get_objects()))
    # What is kept is bounded: notes on each model, and the validators of schemas that were used last.
    assert counts[1] - counts[0] < 2_000


# What HTTP allows


def test_requests_on_one_connection_are_answered_in_their_order(fake: FakeOllama, proxy: Proxy) -> None:
    order = ["wrong-types", "missing", "text-only", "leaked-after-text", "valid"]
    with Connection(proxy.url) as client:
        for scenario in order:
            client.post(CHAT, asked(scenario))
            assert client.answer().body.count(b'"done":true') == 1
        # The same, all sent before the first is answered.
        client.send(b"".join(request(CHAT, encoded(asked(scenario))) for scenario in order))
        found = [calls(client.answer().body) for _ in order]
    assert found == [[MEANT], [MEANT], [], [MEANT], [MEANT]]


@pytest.mark.parametrize("stream", [True, False])
def test_a_body_in_chunks_is_read_as_one_with_a_length(stream: bool, fake: FakeOllama, proxy: Proxy) -> None:
    got = post(proxy.url, CHAT, asked("wrong-types", stream=stream), transfer_encoding="chunked")
    assert calls(got.body) == [MEANT]
    got = post(proxy.url, CHAT, asked("text-only", tool_choice="none", stream=stream), transfer_encoding="chunked")
    assert got.complete
    assert "tools" not in fake.of_kind("chat")[-1].document


def test_a_client_that_waits_for_100_continue_is_answered(fake: FakeOllama, proxy: Proxy) -> None:
    body = encoded(asked("wrong-types"))
    with Connection(proxy.url) as client:
        whole = request(CHAT, body, expect="100-continue")
        client.send(whole[: -len(body)])
        assert client.head()[0] == 100
        client.send(body)
        assert calls(client.answer().body) == [MEANT]
    assert "expect" not in fake.of_kind("chat")[-1].headers


def test_a_request_with_64_mb_of_images_goes_through(fake: FakeOllama, proxy: Proxy) -> None:
    image = base64.b64encode(os.urandom(12 << 20)).decode()
    message = {"role": "user", "content": "Book a table like these.", "images": [image] * 4}
    got = post(proxy.url, CHAT, asked("wrong-types", messages=[message]))
    assert calls(got.body) == [MEANT]
    received = fake.of_kind("chat")[-1]
    assert len(received.body) > 64 << 20
    assert received.document["messages"] == [message]


class Http2:
    """Speak HTTP/2 over TLS, as mitmproxy's certificate authority allows."""

    def __init__(self, url: str, authority: Path) -> None:
        context = ssl.create_default_context(cafile=str(authority))
        context.set_alpn_protocols(["h2"])
        self.connection = Connection(url, lambda plain: context.wrap_socket(plain, server_hostname="localhost"))
        assert self.connection.socket.selected_alpn_protocol() == "h2"
        self.h2 = h2.connection.H2Connection(h2.config.H2Configuration(client_side=True, header_encoding="utf-8"))
        self.h2.initiate_connection()
        self.bodies: dict[int, bytes] = {}
        self.ended: set[int] = set()

    def __enter__(self) -> Http2:
        return self

    def __exit__(self, *exception: object) -> None:
        self.connection.close()

    def post(self, document: Any) -> int:
        """Send a request and return its stream."""
        stream = self.h2.get_next_available_stream_id()
        names = {":method": "POST", ":path": CHAT, ":scheme": "https", ":authority": "localhost"}
        body = encoded(document)
        # Without a length mitmproxy itself forwards a body that no HTTP/1.1 server can tell the end of.
        headers = {"content-type": "application/json", "content-length": str(len(body))}
        self.h2.send_headers(stream, [*names.items(), *headers.items()])
        self.h2.send_data(stream, body, end_stream=True)
        self.bodies[stream] = b""
        self.flush()
        return stream

    def flush(self) -> None:
        self.connection.send(self.h2.data_to_send())

    def read_until(self, reached: Callable[[], bool]) -> None:
        while not reached():
            data = self.connection.socket.recv(65536)
            assert data, "the connection was closed"
            for event in self.h2.receive_data(data):
                if isinstance(event, h2.events.DataReceived):
                    self.bodies[event.stream_id] += event.data
                    self.h2.acknowledge_received_data(event.flow_controlled_length, event.stream_id)
                elif isinstance(event, h2.events.StreamEnded):
                    self.ended.add(event.stream_id)
            self.flush()


@pytest.fixture
def http2(fake: FakeOllama, proxy: Proxy, _confdir: Path) -> Iterator[Http2]:
    with Http2(proxy.url, _confdir / "mitmproxy-ca-cert.pem") as client:
        yield client


def test_streams_of_one_http2_connection_do_not_wait_for_each_other(fake: FakeOllama, http2: Http2) -> None:
    reply = Gate()
    fake.reply(as_json(GOOD_REPLY, gates={0: reply}))
    slow = http2.post(asked("missing"))
    fake.wait_for("constrained")
    quick = [http2.post(asked(scenario)) for scenario in ("wrong-types", "leaked-after-text", "valid")]
    http2.read_until(lambda: http2.ended >= set(quick))
    assert [calls(http2.bodies[stream]) for stream in quick] == [[MEANT]] * 3
    assert slow not in http2.ended
    reply.open()
    http2.read_until(lambda: slow in http2.ended)
    assert calls(http2.bodies[slow]) == [MEANT]


def test_a_reset_of_one_http2_stream_ends_its_question_alone(fake: FakeOllama, http2: Http2) -> None:
    fake.script(SCENARIOS["missing"])
    fake.reply(as_json(GOOD_REPLY, gates={0: Gate()}))
    left = http2.post(asked("left"))
    question = fake.wait_for("constrained")
    http2.h2.reset_stream(left)
    http2.flush()
    assert question.gone.wait(TIMEOUT)
    stays = http2.post(asked("wrong-types"))
    http2.read_until(lambda: stays in http2.ended)
    assert calls(http2.bodies[stays]) == [MEANT]
