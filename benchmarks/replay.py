"""Replay answers of a model as fast as they can be written: a lean server, so that the proxies are what is measured.

The request's model says what comes: `call`, `wrong`, `missing`, `open`, or `text-N` (N tokens); `text-N@MS` leaves MS
milliseconds between the tokens, whole answers included: a server that generates before it answers takes as long. A
request that carries a schema gets JSON that fits it. Both `/api/chat` and `/v1/chat/completions` are served.

    python benchmarks/replay.py          # prints where it listens
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import AsyncIterator
from functools import cache
from typing import Final

ARGUMENTS: Final = {
    "title": "Q3 planning",
    "date": "2026-07-14",
    "duration_minutes": 30,
    "priority": "high",
    "attendees": ["a@example.com", "b@example.com"],
}
TOOL: Final = {
    "name": "create_event",
    "description": "Create a calendar event.",
    "parameters": {
        "type": "object",
        "properties": {
            "title": {"type": "string"},
            "date": {"type": "string"},
            "duration_minutes": {"type": "integer"},
            "priority": {"type": "string", "enum": ["low", "normal", "high"]},
            "attendees": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["title", "date", "duration_minutes", "attendees"],
        "additionalProperties": False,
    },
}
CALLS: Final = {
    "call": ARGUMENTS,
    "wrong": {**ARGUMENTS, "duration_minutes": "30", "attendees": '["a@example.com", "b@example.com"]'},
    "missing": {key: value for key, value in ARGUMENTS.items() if key != "duration_minutes"},
}
WORDS: Final = ("The", " kitchen", " closes", " at", " ten", ",", " and", " the", " bar", " at", " one", ".\n")
HEAD: Final = (
    b"HTTP/1.1 200 OK\r\ncontent-type: %s\r\ntransfer-encoding: chunked\r\ndate: Mon, 30 Nov 2026 09:00:00 GMT\r\n\r\n"
)
BASE: Final = {"id": "chatcmpl-1", "object": "chat.completion.chunk", "created": 1787000000, "system_fingerprint": "fp"}


def token(number: int) -> str:
    """Return the text of a token."""
    return WORDS[number % len(WORDS)]


def _chunk(model: str, delta: dict[str, object], finish: str | None, logprobs: object = None) -> bytes:
    choice = {"index": 0, "delta": delta, "finish_reason": finish}
    if logprobs is not None:
        choice["logprobs"] = logprobs
    return (
        b"data: " + json.dumps({**BASE, "model": model, "choices": [choice]}, separators=(",", ":")).encode() + b"\n\n"
    )


def _logprobs(text: str) -> object:
    entry = {"token": text, "logprob": -0.25, "bytes": list(text.encode()), "top_logprobs": []}
    return {"content": [entry]}


def _call(model: str) -> dict[str, object]:
    function = {"name": "create_event", "arguments": json.dumps(CALLS[model])}
    return {"tool_calls": [{"id": "call_1", "index": 0, "type": "function", "function": function}]}


@cache
def stream(model: str, tapped: bool) -> tuple[bytes, ...]:
    """Return the chunks of a streamed completion."""
    name = model.partition("@")[0]
    if name in CALLS:
        said = [_chunk(model, {"role": "assistant", "content": "", **_call(name)}, None)]
        finish = "tool_calls"
    else:
        texts = [token(number) for number in range(count(name))]
        head: dict[str, object] = {"role": "assistant"}
        said = [
            _chunk(model, {**({} if at else head), "content": text}, None, _logprobs(text) if tapped else None)
            for at, text in enumerate(texts)
        ]
        finish = "stop"
    return (*said, _chunk(model, {}, finish), b"data: [DONE]\n\n")


@cache
def whole(model: str) -> bytes:
    """Return a whole completion."""
    name = model.partition("@")[0]
    if name in CALLS:
        message = {"role": "assistant", "content": "", **_call(name)}
    else:
        message = {"role": "assistant", "content": "".join(token(number) for number in range(count(name)))}
    choice = {"index": 0, "message": message, "finish_reason": "tool_calls" if name in CALLS else "stop"}
    usage = {"prompt_tokens": 300, "completion_tokens": 40, "total_tokens": 340}
    document = {**BASE, "object": "chat.completion", "model": model, "choices": [choice], "usage": usage}
    return json.dumps(document, separators=(",", ":")).encode()


def count(name: str) -> int:
    """Return the number of tokens that a model's name asks for."""
    found = re.search(r"\d+", name)
    return int(found[0]) if found else 1


def constrained(document: dict[str, object]) -> bytes:
    """Answer a request that carries a schema: with the call that is meant."""
    text = json.dumps({"name": "create_event", "arguments": {"duration_minutes": 30}})
    message = {"role": "assistant", "content": text}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    if "format" in document:
        return json.dumps(
            {"model": document["model"], "message": message, "done": True, "done_reason": "stop"}
        ).encode()
    return json.dumps({**BASE, "model": document["model"], "choices": [choice]}).encode()


def fixed(body: bytes) -> bytes:
    """Frame a whole answer."""
    return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s" % (len(body), body)


async def pieces(path: str, document: dict[str, object]) -> AsyncIterator[bytes]:
    """Give what is written, one write at a time."""
    model = str(document.get("model", ""))
    if path == "/api/version":
        yield fixed(b'{"version":"0.12.0"}')
        return
    if "response_format" in document or "format" in document:
        yield fixed(constrained(document))
        return
    pause = float(model.partition("@")[2] or 0) / 1000
    if not document.get("stream"):
        await asyncio.sleep(pause * count(model))
        yield fixed(whole(model))
        return
    chunks = stream(model, bool(document.get("logprobs")))
    head = HEAD % b"text/event-stream"
    for chunk in chunks:
        yield head + b"%x\r\n%s\r\n" % (len(chunk), chunk)
        head = b""
        # A write of its own for every token, as a server that generates does.
        await asyncio.sleep(pause)
    yield b"0\r\n\r\n"


async def converse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    """Answer the requests of one connection."""
    try:
        while True:
            head = await reader.readuntil(b"\r\n\r\n")
            length = re.search(rb"(?i)content-length: *(\d+)", head)
            body = await reader.readexactly(int(length[1]) if length else 0)
            path = head.split(b" ", 2)[1].decode()
            document = json.loads(body) if body else {}
            left = asyncio.ensure_future(reader.read(1)) if document.get("model") == "open" else None
            async for piece in pieces(path, document) if left is None else _until(left, path, document):
                writer.write(piece)
                await writer.drain()
    except (asyncio.IncompleteReadError, ConnectionError):
        pass
    finally:
        writer.close()


async def _until(left: asyncio.Future[bytes], path: str, document: dict[str, object]) -> AsyncIterator[bytes]:
    """Give the first token, and then nothing until the client leaves."""
    chunk = stream("open", False)[0]
    yield HEAD % b"text/event-stream" + b"%x\r\n%s\r\n" % (len(chunk), chunk)
    await left
    raise ConnectionError("the client has left")


async def main() -> None:
    """Serve until ended."""
    server = await asyncio.start_server(converse, "127.0.0.1", 0, limit=2**26, backlog=1024)
    print(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}", flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main())
