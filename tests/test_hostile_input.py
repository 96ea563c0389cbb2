"""Bombs of every kind cost bounded time, and pass as they came; a short run of what `fuzz/run.py` does for minutes."""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from conftest import Proxy
from fake_ollama import Answer, FakeOllama
from raw_http import post
from toolmend.exchange import Exchange, replay
from toolmend.model import DecodeError
from toolmend.settings import Settings
from toolmend.surfaces import SURFACES
from toolmend.upstreams import Server

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "fuzz"))

import run as fuzz_run
import targets

BOUND = 10.0
"""Seconds of CPU that a bomb may take on a slow and busy machine: without a bound it takes minutes, or for ever."""


@pytest.mark.parametrize("target", targets.TARGETS)
def test_a_short_run_of_the_fuzzer_breaks_no_promise(target: str) -> None:
    dice, corpus = random.Random(8), list(targets.seeds(target, 40))
    for data in corpus:
        targets.timed(target, data)
    for _ in range(600):
        targets.timed(target, fuzz_run.changed(dice.choice(corpus), corpus, dice))


DEEP = 100_000
VALUES: dict[str, str] = {
    "deep lists": "[" * DEEP + "]" * DEEP,
    "deep objects": '{"a":' * DEEP + "1" + "}" * DEEP,
    "lists never closed": "[" * DEEP,
    "objects never closed": '{"a":' * DEEP,
    "a number of a million digits": "9" * 1_000_000,
    "a fraction of a million digits": "0.5" + "1" * 1_000_000,
    "an exponent of a million digits": "1e" + "9" * 1_000_000,
    "duplicate keys": "{" + ",".join(['"x":1'] * 100_000) + "}",
    "many keys": "{" + ",".join(f'"k{number}":1' for number in range(100_000)) + "}",
    "lone surrogates": '"' + "\\ud800" * 100_000 + '"',
    "NUL": '"' + "\\u0000" * 100_000 + '"',
    "escapes": '"' + "\\\\" * 300_000 + '"',
    "quotes": '"' * 500_000,
    "no number": "NaN",
    "infinite": "1e999",
}
DOCUMENT: dict[str, Any] = {
    "model": "m",
    "messages": [{"role": "user", "content": "How long?"}],
    "tools": [
        {
            "type": "function",
            "function": {
                "name": "wait",
                "parameters": {
                    "type": "object",
                    "properties": {"days": {"type": "integer"}, "why": {"type": "string"}},
                    "required": ["days"],
                },
            },
        }
    ],
}


def delivered(path: str, document: dict[str, Any], body: bytes, content_type: str = "application/json") -> bytes:
    """Return what a client gets, after bounded time."""
    began = time.process_time()
    exchange = Exchange(SURFACES[path], document, Settings(follow_up=False), Server("ollama"))
    sent = b"".join(replay(exchange, 200, content_type, [body]))
    assert time.process_time() - began < BOUND
    return sent


def chat(message: str) -> bytes:
    return f'{{"model":"m","message":{{"role":"assistant",{message}}},"done":true,"done_reason":"stop"}}'.encode()


@pytest.mark.parametrize("kind", VALUES)
def test_a_bomb_as_an_argument_passes_as_it_came(kind: str) -> None:
    body = chat(f'"content":"","tool_calls":[{{"function":{{"name":"wait","arguments":{{"days":{VALUES[kind]}}}}}}}]')
    assert delivered("/api/chat", DOCUMENT, body) == body


@pytest.mark.parametrize("kind", VALUES)
def test_a_bomb_as_the_text_of_arguments_passes_as_it_came(kind: str) -> None:
    function = {"name": "wait", "arguments": '{"days": ' + VALUES[kind] + "}"}
    message = {"role": "assistant", "content": "", "tool_calls": [{"id": "call_1", "function": function}]}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls"}
    body = json.dumps({"model": "m", "choices": [choice]}).encode()
    got = delivered("/v1/chat/completions", DOCUMENT, body)
    assert got == body


@pytest.mark.parametrize("kind", VALUES)
@pytest.mark.parametrize(
    "wrap", ["{}", "<tool_call>\n{}", '<tool_call>\n{{"name": "wait", "arguments": {}}}\n</tool_call>']
)
def test_a_bomb_as_text_passes_as_it_came(kind: str, wrap: str) -> None:
    body = chat('"content":' + json.dumps(wrap.format(VALUES[kind])))
    assert delivered("/api/chat", DOCUMENT, body) == body


LOOP: dict[str, Any] = {"$ref": "#/$defs/a"}
SCHEMAS: dict[str, Any] = {
    "a reference to itself": {"$ref": "#"},
    "references in a circle": {"$defs": {"a": {"$ref": "#/$defs/b"}, "b": LOOP}, "properties": {"why": LOOP}},
    "a tree of references": {
        "$defs": {f"n{at}": {"allOf": [{"$ref": f"#/$defs/n{at + 1}"}] * 3} for at in range(40)} | {"n40": {}},
        "properties": {"why": {"$ref": "#/$defs/n0"}},
    },
    "a catastrophic pattern": {"properties": {"why": {"type": "string", "pattern": "^(a+)+$"}}},
    "another catastrophic pattern": {"properties": {"why": {"pattern": "^(a|a)*b"}}, "required": ["day"]},
    "catastrophic names": {"patternProperties": {"^(w|wh|h|y)+x$": {}, "(.*)*z": {}}, "additionalProperties": False},
    "10,000 branches": {"anyOf": [{"properties": {"why": {"const": number}}} for number in range(10_000)]},
    "10,000 branches inside": {"properties": {"why": {"oneOf": [{"const": number} for number in range(10_000)]}}},
    "a large enum": {"properties": {"why": {"enum": [f"value {number}" for number in range(50_000)]}}},
    "a deep schema": json.loads('{"properties":{"why":' * 300 + "{}" + "}}" * 300),
    "a large one": {"properties": {f"p{number}": {"type": "integer"} for number in range(20_000)}},
    "unique items": {"properties": {"why": {"type": "array", "uniqueItems": True}}},
    "a huge multiple": {"properties": {"why": {"multipleOf": 1e-300}}},
}
WHY: dict[str, Any] = {
    "blanks": " " * 200_000,
    "blank lines": "\r\n" * 100_000,
    "text": "a" * 5_000 + "!",
    "list": [["a"] * 3] * 3_000,
    "number": 1e300,
    "deep": json.loads("[" * 90 + "]" * 90),
}


@pytest.mark.parametrize("why", WHY)
@pytest.mark.parametrize("kind", SCHEMAS)
def test_a_schema_that_is_a_bomb_costs_bounded_time(kind: str, why: str) -> None:
    function = {"name": "wait", "parameters": {"type": "object", **SCHEMAS[kind]}}
    document = {**DOCUMENT, "tools": [{"type": "function", "function": function}]}
    call = {"function": {"name": "wait", "arguments": {"why": WHY[why]}}}
    body = json.dumps({"message": {"role": "assistant", "content": "", "tool_calls": [call]}, "done": True}).encode()
    assert json.loads(delivered("/api/chat", document, body))["message"]["tool_calls"]


@pytest.mark.parametrize("kind", ["deep lists", "deep objects", "a number of a million digits"])
def test_over_the_wire_a_bomb_passes_and_the_next_answer_is_served(kind: str, fake: FakeOllama, proxy: Proxy) -> None:
    bomb = chat(f'"content":"","tool_calls":[{{"function":{{"name":"wait","arguments":{{"days":{VALUES[kind]}}}}}}}]')
    fake.script(Answer(body=(bomb,)))
    assert post(proxy.url, "/api/chat", {**DOCUMENT, "stream": False}).body == bomb
    request = json.dumps({**DOCUMENT, "messages": []}).replace('"messages": []', f'"messages": {VALUES[kind]}')
    before = len(proxy.lines)
    fake.script(Answer(body=(bomb,)))
    assert post(proxy.url, "/api/chat", request.encode()).body == bomb
    assert len(proxy.said_since(before, "request passed as it is")) == 1


def test_a_request_whose_tools_are_a_bomb_is_refused_or_read() -> None:
    makers: list[Callable[[], Any]] = [
        lambda: [{"type": "namespace", "name": "n", "tools": []}] * 50_000,
        lambda: [{"type": "function", "function": {"name": f"tool_{number}"}} for number in range(2_000)],
        lambda: [{"type": "function", "function": {"name": "x" * 1_000_000}}],
        lambda: json.loads('[{"type":"namespace","name":"n","tools":' * 200 + "[]" + "}]" * 200),
    ]
    body = chat('"content":"The kitchen closes at ten."')
    for make in makers:
        for path in SURFACES:
            try:
                assert delivered(path, {**DOCUMENT, "tools": make()}, body) == body
            except DecodeError:
                continue
