"""The fake must be trusted before anything is judged with it: forms, gates, ends, counts."""

from __future__ import annotations

import gzip
import http.client
import json
import socket
from collections.abc import Iterator
from typing import Any

import pytest

from fake_answers import fitting
from fake_ollama import MEANT, SCENARIOS, TOOL, Answer, FakeOllama, Gate, as_json

PATHS = ("/api/chat", "/v1/chat/completions", "/v1/responses", "/v1/messages")


@pytest.fixture
def server() -> Iterator[FakeOllama]:
    with FakeOllama() as fake:
        yield fake


def ask(fake: FakeOllama, path: str, **body: Any) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(fake.host, fake.port, timeout=20)
    try:
        connection.request("POST", path, json.dumps({"model": "fake:valid", "messages": [], **body}))
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


@pytest.mark.parametrize("path", PATHS)
def test_a_whole_answer_holds_the_call(server: FakeOllama, path: str) -> None:
    status, body = ask(server, path, stream=False)
    assert status == 200
    assert body.count(b'"book_table"') == 1
    assert b'"window seat"' in body or b'\\"window seat\\"' in body
    assert server.model_calls == 1


def test_a_streamed_chat_is_a_line_for_the_call_and_a_line_for_the_end(server: FakeOllama) -> None:
    _, body = ask(server, "/api/chat")
    call, end = [json.loads(line) for line in body.splitlines()]
    assert call["message"]["tool_calls"][0]["function"] == {"index": 0, "name": MEANT[0], "arguments": MEANT[1]}
    assert (call["done"], end["done"], end["done_reason"]) == (False, True, "stop")


def test_a_streamed_completion_ends_in_finish_usage_and_done(server: FakeOllama) -> None:
    server.script(Answer(text="Yes."))
    _, body = ask(server, "/v1/chat/completions", stream=True, stream_options={"include_usage": True})
    events = body.decode().strip().split("\n\n")
    documents = [json.loads(event.removeprefix("data: ")) for event in events[:-1]]
    assert [choice["delta"] for document in documents for choice in document["choices"]] == [
        {"role": "assistant", "content": "Yes."},
        {},
    ]
    assert documents[-1]["choices"] == []
    assert documents[-1]["usage"]["prompt_tokens"] == 300
    assert events[-1] == "data: [DONE]"


def test_a_streamed_response_numbers_its_events_without_gaps(server: FakeOllama) -> None:
    server.script(Answer(thinking="Think.", text="Now.", calls=(MEANT,)))
    _, body = ask(server, "/v1/responses", stream=True)
    events = [json.loads(line.removeprefix("data: ")) for line in body.decode().splitlines() if line.startswith("data")]
    assert [event["sequence_number"] for event in events] == list(range(len(events)))
    assert [event["type"].removeprefix("response.") for event in events] == [
        "created",
        "in_progress",
        "output_item.added",
        "reasoning_summary_text.delta",
        "reasoning_summary_text.delta",
        "reasoning_summary_text.done",
        "output_item.done",
        "output_item.added",
        "content_part.added",
        "output_text.delta",
        "output_item.added",
        "function_call_arguments.delta",
        "function_call_arguments.done",
        "output_item.done",
        "completed",
    ]
    assert [item["type"] for item in events[-1]["response"]["output"]] == ["reasoning", "function_call", "message"]


def test_a_streamed_message_opens_and_closes_each_block(server: FakeOllama) -> None:
    server.script(Answer(text="Now.", calls=(MEANT,)))
    _, body = ask(server, "/v1/messages", stream=True)
    events = [json.loads(line.removeprefix("data: ")) for line in body.decode().splitlines() if line.startswith("data")]
    assert [(event["type"], event.get("index")) for event in events] == [
        ("message_start", None),
        ("content_block_start", 0),
        ("content_block_delta", 0),
        ("content_block_stop", 0),
        ("content_block_start", 1),
        ("content_block_delta", 1),
        ("content_block_stop", 1),
        ("message_delta", None),
        ("message_stop", None),
    ]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/api/chat", b'{"error":"no luck"}'),
        (
            "/v1/chat/completions",
            b'{"error":{"message":"no luck","type":"api_error","param":null,"code":null}}\n',
        ),
    ],
)
def test_an_error_before_the_first_chunk_has_a_status(server: FakeOllama, path: str, body: bytes) -> None:
    server.script(Answer(error="no luck"))
    assert ask(server, path, stream=True) == (500, body)


def test_an_error_in_mid_stream_is_a_last_line(server: FakeOllama) -> None:
    server.script(Answer(text="Well.", error="no luck"))
    status, body = ask(server, "/api/chat")
    assert status == 200
    assert body.splitlines()[-1] == b'{"error":"no luck"}'


def test_the_tap_shows_the_tokens_of_a_swallowed_call(server: FakeOllama) -> None:
    server.script(SCENARIOS["swallowed"])
    _, body = ask(server, "/api/chat", logprobs=True)
    tokens = [token["token"] for line in body.splitlines() for token in json.loads(line).get("logprobs", [])]
    assert "".join(tokens) == SCENARIOS["swallowed"].raw


def test_a_native_model_refuses_the_tap_beside_tools(server: FakeOllama) -> None:
    server.script(SCENARIOS["lost"])
    status, body = ask(server, "/api/chat", logprobs=True, tools=[{"type": "function", "function": TOOL}])
    assert (status, body) == (400, b'{"error":"logprobs is not supported with tools + stream"}')
    assert server.model_calls == 0
    assert ask(server, "/api/chat", logprobs=True)[0] == 200


def test_a_schema_is_answered_with_what_was_meant(server: FakeOllama) -> None:
    schema = {
        "type": "object",
        "properties": {"name": {"enum": ["book_table"]}, "arguments": TOOL["parameters"]},
        "required": ["name", "arguments"],
    }
    server.reply(as_json({"name": "other"}))
    answers = [json.loads(json.loads(ask(server, "/api/chat", stream=False, format=schema)[1])["message"]["content"])]
    answers += [json.loads(json.loads(ask(server, "/api/chat", stream=False, format=schema)[1])["message"]["content"])]
    assert answers == [{"name": "other"}, {"name": MEANT[0], "arguments": MEANT[1]}]
    assert fitting(TOOL["parameters"], {"name": MEANT[0], "arguments": MEANT[1]}) == MEANT[1]
    assert [received.kind for received in server.requests] == ["constrained", "constrained"]


def test_the_prompt_is_rendered_without_a_model_call_and_continued_raw(server: FakeOllama) -> None:
    _, body = ask(server, "/api/chat", messages=[{"role": "user", "content": "Hi"}], _debug_render_only=True)
    prompt = json.loads(body)["_debug_info"]["rendered_template"]
    assert prompt == "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n"
    assert server.model_calls == 0
    _, body = ask(server, "/api/generate", raw=True, prompt=prompt, stream=False, format=TOOL["parameters"])
    assert json.loads(json.loads(body)["response"]) == MEANT[1]
    assert server.model_calls == 1


def test_a_result_is_answered_in_words(server: FakeOllama) -> None:
    _, body = ask(server, "/api/chat", stream=False, messages=[{"role": "tool", "content": "booked"}])
    assert json.loads(body)["message"]["content"] == "Done."


def test_a_history_with_arguments_that_are_no_object_is_refused(server: FakeOllama) -> None:
    call = {"id": "call_1", "type": "function", "function": {"name": "book_table", "arguments": '"text"'}}
    history = [{"role": "assistant", "content": None, "tool_calls": [call]}]
    status, body = ask(server, "/v1/chat/completions", messages=history)
    assert (status, json.loads(body)["error"]["message"]) == (400, "invalid tool call arguments")


def test_a_gate_holds_the_answer_and_a_client_that_leaves_is_seen(server: FakeOllama) -> None:
    gate = Gate()
    server.script(Answer(text="one two three", gates={1: gate}))
    with socket.create_connection((server.host, server.port), timeout=20) as client:
        body = b'{"model":"m","messages":[]}'
        client.sendall(b"POST /api/chat HTTP/1.1\r\nHost: localhost\r\nContent-Length: %d\r\n\r\n" % len(body) + body)
        received = server.wait_for("chat")
        assert gate.reached.wait(20)
        assert received.sent.count(b"\n") == 1
        assert not received.gone.is_set()
    assert received.gone.wait(20)
    assert not received.finished.is_set()


def test_an_open_gate_lets_the_answer_finish(server: FakeOllama) -> None:
    gate = Gate()
    server.script(Answer(text="one two three", gates={0: gate, -1: gate}))
    gate.open()
    _, body = ask(server, "/api/chat")
    assert len(body.splitlines()) == 4
    assert server.requests[0].finished.wait(20)
    assert bytes(server.requests[0].sent) == body


def test_a_connection_can_be_closed_in_mid_stream(server: FakeOllama) -> None:
    server.script(Answer(text="one two three", close_after=1))
    with pytest.raises(http.client.IncompleteRead) as broken:
        ask(server, "/api/chat")
    assert broken.value.partial.count(b"\n") == 1


@pytest.mark.parametrize("cut", [None, 3])
def test_an_answer_can_be_compressed_and_cut(server: FakeOllama, cut: int | None) -> None:
    server.script(Answer(text="one two three", encoding="gzip", cut=cut))
    _, body = ask(server, "/api/chat")
    assert gzip.decompress(body).count(b"\n") == 4


def test_a_foreign_host_is_refused(server: FakeOllama) -> None:
    connection = http.client.HTTPConnection(server.host, server.port, timeout=20)
    connection.request("GET", "/api/version", headers={"Host": "evil.example"})
    assert connection.getresponse().status == 403
    connection.close()


def test_one_slot_runs_one_model_call_at_a_time() -> None:
    with FakeOllama(slots=1) as fake:
        gate = Gate()
        fake.script(Answer(text="first", gates={0: gate}), Answer(text="second"))
        sockets: list[socket.socket] = []
        body = b'{"model":"m","stream":false,"messages":[]}'
        for _ in range(2):
            client = socket.create_connection((fake.host, fake.port), timeout=20)
            head = b"POST /api/chat HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\nContent-Length: %d\r\n\r\n"
            client.sendall(head % len(body) + body)
            fake.wait_for("chat", len(sockets) + 1)
            sockets.append(client)
        assert gate.reached.wait(20)
        assert bytes(fake.requests[1].sent) == b""
        gate.open()
        for client in sockets:
            client.makefile("rb").read()
            client.close()
        assert all(received.finished.wait(20) for received in fake.requests)
