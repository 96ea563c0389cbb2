"""Whatever comes in, the answer that the agent would have got passes, and the log says so in one clear line."""

import json
import re
import zlib
from collections.abc import Callable
from typing import Any

import brotli
import pytest
import zstandard

from conftest import Proxy
from fake_ollama import MEANT, SCENARIOS, TOOL, Answer, FakeOllama, Gate, as_json
from raw_http import Connection, post

PATHS = ("/api/chat", "/v1/chat/completions", "/v1/responses", "/v1/messages")
TOOLS = [{"type": "function", "function": TOOL}]
MESSAGES = [{"role": "user", "content": "Book a table."}]
BODY = Answer(body=(b'{"message": {"role": "assistant",  "content": "as it came"}}',))


def asked(scenario: str, **members: Any) -> dict[str, Any]:
    return {"model": f"fake:{scenario}", "messages": MESSAGES, "tools": TOOLS, "stream": False, **members}


def calls(body: bytes) -> list[tuple[str, Any]]:
    """Read the calls of an answer of /api/chat, whole or streamed."""
    found = [call for line in body.splitlines() for call in json.loads(line)["message"].get("tool_calls", ())]
    return [(call["function"]["name"], call["function"]["arguments"]) for call in found]


NOT_OURS = {
    "no JSON": (b'{"model": "m", "tools": [', "the body is no JSON"),
    "no UTF-8": b'{"model": "m", "tools": ["\xff\xfe"]}',
    "a list": (b'["tools"]', "the body is list, expected a JSON object"),
    "a string": (b'"tools"', "the body is str, expected a JSON object"),
    "a number that no one can read": (b'{"tools": ' + b"9" * 5000 + b"}", "the body is no JSON"),
    "no model": (b'{"tools": [{"name": "x"}]}', "no model, or tools that are no list"),
    "a model that is no text": (b'{"model": 3, "tools": []}', "no model, or tools that are no list"),
    "tools that are no list": (b'{"model": "m", "tools": {"name": "x"}}', "no model, or tools that are no list"),
    "nested too deeply": (b'{"tools": ' + b"[" * 100_000 + b"]" * 100_000 + b"}", "the body is no JSON"),
}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("kind", NOT_OURS)
def test_a_body_that_is_not_the_surfaces_is_passed_on_with_one_line_in_the_log(
    kind: str, path: str, fake: FakeOllama, proxy: Proxy
) -> None:
    body, reason = case if isinstance(case := NOT_OURS[kind], tuple) else (case, "the body is no JSON")
    fake.script(BODY)
    before = len(proxy.lines)
    got = post(proxy.url, path, body)
    assert (got.status, got.body) == (200, BODY.body[0] if BODY.body else b"")
    assert fake.requests[-1].body == body
    said = proxy.said_since(before, "toolmend:")
    assert len(said) == 1
    assert "request passed as it is" in said[0]
    assert reason in said[0]


QUIET = {
    "an empty body": b"",
    "no tools": b'{"model": "m", "messages": []}',
    "tools that are null": b'{"model": "m", "tools": null}',
    "an empty list of tools": b'{"model": "m", "tools": []}',
    "tools without names": b'{"model": "m", "tools": [{"type": "function", "function": {}}, {}, 3, null]}',
    "names that are no text": b'{"model": "m", "tools": [{"type": "function", "function": {"name": 3}}]}',
}


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("kind", QUIET)
def test_a_request_that_offers_nothing_is_passed_on_and_nothing_is_said(
    kind: str, path: str, fake: FakeOllama, proxy: Proxy
) -> None:
    fake.script(BODY)
    before = len(proxy.lines)
    got = post(proxy.url, path, QUIET[kind])
    assert (got.status, got.body) == (200, BODY.body[0] if BODY.body else b"")
    assert fake.requests[-1].body == QUIET[kind]
    assert not [line for line in proxy.lines[before:] if "toolmend:" in line]


NO_SCHEMAS: dict[str, Any] = {
    "a number": 3,
    "a text": "object",
    "a list": [{"type": "object"}],
    "an unknown type": {"type": "table", "properties": {"guests": {"type": "count"}}},
    "properties that are a list": {"type": "object", "properties": ["guests"]},
    "required that is true": {"type": "object", "required": True, "properties": {"guests": 3}},
    "a pattern that is none": {"type": "object", "properties": {"day": {"type": "string", "pattern": "(["}}},
    "an enum that is a text": {"type": "object", "properties": {"day": {"enum": "friday"}}},
    "limits that are texts": {"type": "object", "minProperties": "1", "maxProperties": -3},
    "branches that are none": {"anyOf": {}, "oneOf": "x", "allOf": [None, 3]},
    "references to nowhere": {"$ref": "#/$defs/nothing"},
}


@pytest.mark.parametrize("kind", NO_SCHEMAS)
@pytest.mark.parametrize("scenario", ["valid", "wrong-types"])
def test_a_schema_that_is_no_schema_asks_for_nothing(kind: str, scenario: str, fake: FakeOllama, proxy: Proxy) -> None:
    tool = {"type": "function", "function": {"name": "book_table", "parameters": NO_SCHEMAS[kind]}}
    got = post(proxy.url, "/api/chat", asked(scenario, tools=[tool]))
    ((name, arguments),) = calls(got.body)
    assert (name, arguments) == SCENARIOS[scenario].calls[0]
    assert fake.model_calls == 1


def test_tools_without_names_do_not_hide_the_one_that_has_one(fake: FakeOllama, proxy: Proxy) -> None:
    tools = [{"type": "function"}, {}, 3, None, {"type": "function", "function": TOOL}]
    assert calls(post(proxy.url, "/api/chat", asked("wrong-types", tools=tools)).body) == [MEANT]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("path", PATHS[:2])
def test_the_error_of_an_unknown_model_passes(path: str, stream: bool, fake: FakeOllama, proxy: Proxy) -> None:
    bare = post(fake.url, path, asked("error", stream=stream))
    got = post(proxy.url, path, asked("error", stream=stream))
    assert (got.status, got.body, got.content_type) == (bare.status, bare.body, bare.content_type)
    assert got.status == 404
    assert fake.model_calls == 2


PACKERS: dict[str, Callable[[bytes], bytes]] = {
    "gzip": lambda data: (packer := zlib.compressobj(wbits=31)).compress(data) + packer.flush(),
    "deflate": zlib.compress,
    "br": brotli.compress,
    "zstd": zstandard.compress,
}


@pytest.mark.parametrize("encoding", PACKERS)
def test_a_compressed_answer_is_repaired(encoding: str, fake: FakeOllama, proxy: Proxy) -> None:
    broken = post(fake.url, "/api/chat", asked("wrong-types")).body
    packed = Answer(body=(PACKERS[encoding](broken),), headers={"Content-Encoding": encoding})
    fake.script(packed)
    got = post(proxy.url, "/api/chat", asked("wrong-types"))
    assert calls(got.body) == [MEANT]
    assert "content-encoding" not in got.headers


@pytest.mark.parametrize("encoding", PACKERS)
def test_a_compressed_answer_that_is_right_passes_as_the_same_bytes(
    encoding: str, fake: FakeOllama, proxy: Proxy
) -> None:
    packed = PACKERS[encoding](post(fake.url, "/api/chat", asked("valid")).body)
    fake.script(Answer(body=(packed,), headers={"Content-Encoding": encoding}))
    got = post(proxy.url, "/api/chat", asked("valid"))
    assert (got.body, got.headers["content-encoding"]) == (packed, encoding)


@pytest.mark.parametrize("encoding", PACKERS)
def test_a_compressed_request_is_read(encoding: str, fake: FakeOllama, proxy: Proxy) -> None:
    packed = PACKERS[encoding](json.dumps(asked("wrong-types")).encode())
    fake.script(SCENARIOS["wrong-types"])
    got = post(proxy.url, "/api/chat", packed, content_encoding=encoding)
    assert calls(got.body) == [MEANT]
    assert fake.of_kind("chat")[-1].body == packed
    assert fake.of_kind("chat")[-1].headers["content-encoding"] == encoding


@pytest.mark.parametrize("encoding", PACKERS)
def test_a_body_that_is_not_compressed_as_it_says_passes(encoding: str, fake: FakeOllama, proxy: Proxy) -> None:
    body = b'{"tools": this is no ' + encoding.encode()
    fake.script(Answer(body=(body,), headers={"Content-Encoding": encoding}))
    got = post(proxy.url, "/api/chat", asked("valid"))
    assert (got.status, got.body) == (200, body)
    fake.script(BODY)
    got = post(proxy.url, "/api/chat", body, content_encoding=encoding)
    assert got.status == 200
    assert fake.requests[-1].body == body


def test_a_compressed_stream_passes_as_it_is_and_that_is_said(fake: FakeOllama, proxy: Proxy) -> None:
    fake.script(SCENARIOS["leaked-after-text"].but(encoding="gzip"))
    before = len(proxy.lines)
    got = post(proxy.url, "/api/chat", asked("leaked-after-text", stream=True))
    lines = [json.loads(line) for line in zlib.decompress(got.body, wbits=31).splitlines()]
    text = "".join(line["message"]["content"] for line in lines)
    assert text == SCENARIOS["leaked-after-text"].text
    assert len(proxy.said_since(before, "a compressed stream passed as it is")) == 1


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("cut", [1, 2, 3, 5])
@pytest.mark.parametrize("path", PATHS[:2])
def test_chunks_may_end_inside_a_character(path: str, cut: int, stream: bool, fake: FakeOllama, proxy: Proxy) -> None:
    text = "Grüße – 日本語 🎉 naïve"
    broken = {**MEANT[1], "guests": "4", "wishes": ["Fenster für zwei – 窓 🎉"]}
    fake.script(Answer(text=text, calls=(("book_table", broken),), cut=cut))
    got = post(proxy.url, path, asked("cut", stream=stream))
    said = got.body.decode()
    assert "\ufffd" not in said
    pieces = re.findall(r'"content":"((?:[^"\\]|\\.)*)"', said)
    assert "".join(json.loads(f'"{piece}"') for piece in pieces).startswith(text)
    assert "Fenster für zwei – 窓 🎉" in said
    assert re.search(r'guests\\?": ?4\b', said)


ENDS = [
    ("no frame at all", b""),
    ("half a frame", b'{"model":"fake:cut","message":{"role":"assistant","content":"Hel'),
    ("a frame and a half", b'{"model":"m","message":{"role":"assistant","content":"Hel"},"done":false}\n{"mod'),
    ("another form", b"<html><body>Bad gateway</body></html>\n"),
    ("NUL and other bytes", bytes(range(256)) + b"\n"),
    ("lines that are no objects", b'3\n[1]\n"x"\nnull\n'),
]


@pytest.mark.parametrize(("kind", "body"), ENDS, ids=[kind for kind, _ in ENDS])
@pytest.mark.parametrize("content_type", ["application/x-ndjson", "text/event-stream", "application/json", "", "x/y"])
def test_an_answer_that_is_none_passes_as_it_came(
    kind: str, body: bytes, content_type: str, fake: FakeOllama, proxy: Proxy
) -> None:
    script = Answer(body=(body,), content_type=content_type)
    fake.script(script, script)
    path = "/v1/chat/completions" if "event" in content_type else "/api/chat"
    bare = post(fake.url, path, asked("none", stream=True))
    got = post(proxy.url, path, asked("none", stream=True))
    assert (got.status, got.body) == (bare.status, bare.body)
    assert fake.model_calls == 2


def test_a_server_that_closes_in_mid_stream_costs_nothing_of_what_it_sent(fake: FakeOllama, proxy: Proxy) -> None:
    for count in range(4):
        fake.script(SCENARIOS["leaked-after-text"].but(close_after=count + 1))
        got = post(proxy.url, "/api/chat", asked("leaked-after-text", stream=True))
        received = fake.of_kind("chat")[-1]
        assert got.body == bytes(received.sent)
        assert got.body.count(b"\n") == count + 1
        assert not got.complete
    assert fake.model_calls == 4


def test_a_client_that_leaves_while_a_question_runs_ends_the_question(fake: FakeOllama, proxy: Proxy) -> None:
    fake.reply(as_json({}, gates={0: Gate()}))
    with Connection(proxy.url) as client:
        client.post("/api/chat", asked("missing"))
        question = fake.wait_for("constrained")
    assert question.gone.wait(20)
    assert not question.finished.is_set()
    assert calls(post(proxy.url, "/api/chat", asked("wrong-types")).body) == [MEANT]


REPLIES = [
    Answer(error="the model crashed", status=500),
    Answer(error="no such model", status=404),
    Answer(body=(b"",)),
    Answer(body=(b"\x00\xff not JSON",)),
    Answer(body=(b"[" * 50_000,)),
    Answer(body=(b'{"message": {"content": "{\\"guests\\": ' + b"9" * 10_000 + b'}"}, "done": true}',)),
    Answer(text="I would rather not."),
    Answer(text='{"name": "drop_table", "arguments": {}}'),
    as_json({"name": "book_table", "arguments": {"area": "outside"}}),
    as_json({}).but(close_after=0),
    as_json({"a": "b" * 300}).but(cut=10, close_after=3),
]


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("number", range(len(REPLIES)))
def test_whatever_a_question_brings_the_answer_is_no_worse(
    number: int, stream: bool, fake: FakeOllama, proxy: Proxy
) -> None:
    reply, model = REPLIES[number], f"fake:missing-{number}"
    fake.script(SCENARIOS["missing"])
    fake.reply(reply, reply, reply)
    got = post(proxy.url, "/api/chat", {**asked("missing", stream=stream), "model": model})
    assert got.status == 200
    assert calls(got.body) == [SCENARIOS["missing"].calls[0]]
    assert got.body == bytes(fake.of_kind("chat")[0].sent)
