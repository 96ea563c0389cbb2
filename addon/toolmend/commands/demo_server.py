"""Stand in for Ollama in `toolmend demo`: recorded answers of a real server, in the very pieces in which they came.

A request gets the recorded answer to the prompt in it. A request that carries a schema is answered as a model under a
grammar does: with JSON that fits, filled with the call that was meant. It listens on 127.0.0.1 alone.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from typing import Any, Final

from toolmend.commands.ollama_host import Address
from toolmend.model import Json, JsonObject

VERSION: Final = "0.30.11"  # of the server whose answers these are
TAPPED_PATH: Final = "/api/chat"
SHAPES: Final = ("name", "arguments")


@dataclass(frozen=True, slots=True)
class Recorded:
    """Hold one recorded exchange.

    `meant` are the calls that the model had in mind, as `{"name", "arguments"}`. `tapped` are the pieces of the answer
    that the server gave to the same request with its tokens shown; empty where that is not recorded.
    """

    title: str
    surface: str
    path: str
    prompt: str
    request: JsonObject
    status: int
    content_type: str
    chunks: tuple[bytes, ...]
    meant: tuple[JsonObject, ...]
    tapped: tuple[bytes, ...]

    @property
    def stream(self) -> bool:
        """Tell whether a stream was asked for."""
        return self.request.get("stream") is not False

    @property
    def model(self) -> str:
        """Return the model's name."""
        return str(self.request["model"])


def load() -> tuple[Recorded, ...]:
    """Read the recorded exchanges."""
    text = files("toolmend.commands").joinpath("demo_exchanges.json").read_text("utf-8")
    return tuple(_recorded(entry) for entry in json.loads(text))


def _recorded(entry: dict[str, Any]) -> Recorded:
    answer = entry["answer"]
    return Recorded(
        **{key: entry[key] for key in ("title", "surface", "path", "prompt", "request")},
        status=answer["status"],
        content_type=answer["content_type"],
        chunks=tuple(chunk.encode() for chunk in answer["chunks"]),
        meant=tuple(entry["meant"]),
        tapped=tuple(chunk.encode() for chunk in entry["tapped"] or ()),
    )


@contextmanager
def serve(recorded: Sequence[Recorded], port: int = 0) -> Iterator[Address]:
    """Serve the exchanges until the block ends. Port 0 takes a free one."""
    handler = type("Handler", (_Handler,), {"recorded": tuple(recorded)})
    server = ThreadingHTTPServer(("127.0.0.1", port), handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)
    thread.start()
    try:
        yield Address("http", "127.0.0.1", server.server_address[1])
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    recorded: tuple[Recorded, ...] = ()

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 (the base class's name)
        """Say nothing."""

    def do_GET(self) -> None:
        """Answer what a client asks to see whether Ollama is there."""
        if self.path == "/":
            self._whole(200, "text/plain; charset=utf-8", b"Ollama is running")
        elif self.path == "/api/version":
            self._whole(200, "application/json", json.dumps({"version": VERSION}).encode())
        else:
            self._whole(404, "text/plain", b"404 page not found")

    def do_POST(self) -> None:
        """Answer a chat."""
        body = self.rfile.read(int(self.headers.get("content-length", 0)))
        text = body.decode(errors="replace")
        found = next((each for each in self.recorded if json.dumps(each.prompt, ensure_ascii=False) in text), None)
        if found is None:
            self._whole(404, "application/json", b'{"error":"not among the recorded requests"}')
            return
        document = json.loads(body)
        schema = schema_asked(document)
        if schema is not None:
            said = json.dumps(fitting(schema, found.meant), ensure_ascii=False)
            self._whole(200, "application/json", json.dumps(said_on(self.path, found.model, said)).encode())
        elif document.get("logprobs") and found.tapped and self.path == TAPPED_PATH:
            self._streamed("application/x-ndjson", found.tapped)
        elif self.path != found.path:
            self._whole(404, "text/plain", b"404 page not found")
        elif found.stream and found.status == 200:
            self._streamed(found.content_type, found.chunks)
        else:
            self._whole(found.status, found.content_type, b"".join(found.chunks))

    def _whole(self, status: int, content_type: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", content_type)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def _streamed(self, content_type: str, chunks: Sequence[bytes]) -> None:
        self.send_response(200)
        self.send_header("Content-Type", content_type)
        self.send_header("Transfer-Encoding", "chunked")
        self.end_headers()
        for chunk in chunks:
            self.wfile.write(b"%x\r\n%b\r\n" % (len(chunk), chunk))
            self.wfile.flush()
        self.wfile.write(b"0\r\n\r\n")


def schema_asked(document: dict[str, Any]) -> JsonObject | None:
    """Return the schema that a request carries, in whichever surface's form."""
    schema = document.get("format")
    for steps in (("response_format", "json_schema", "schema"), ("text", "format", "schema")):
        value: Any = document
        for step in steps:
            value = value.get(step) if isinstance(value, dict) else None
        schema = schema or value
    return schema if isinstance(schema, dict) else None


def fitting(schema: JsonObject, meant: Sequence[JsonObject]) -> Json:
    """Return JSON that fits a follow-up's schema: the envelope of a call that was meant, or its arguments alone."""
    for branch in _branches(schema):
        for call in meant:
            properties = branch["properties"]
            if not isinstance(properties, dict):
                continue
            arguments = call["arguments"]
            assert isinstance(arguments, dict)
            if set(properties) != set(SHAPES):
                return {key: arguments[key] for key in properties if key in arguments}
            if call["name"] in _names(properties["name"]):
                return {"name": call["name"], "arguments": _fitting_arguments(properties["arguments"], arguments)}
    return {}


def _fitting_arguments(schema: Json, arguments: JsonObject) -> JsonObject:
    properties = schema.get("properties") if isinstance(schema, dict) else None
    if not isinstance(properties, dict):
        return arguments
    return {key: arguments[key] for key in properties if key in arguments}


def _branches(schema: JsonObject) -> Iterator[JsonObject]:
    if "properties" in schema:
        yield schema
    for key in ("anyOf", "oneOf"):
        branches = schema.get(key)
        for branch in branches if isinstance(branches, list) else ():
            if isinstance(branch, dict):
                yield from _branches(branch)


def _names(schema: Json) -> list[Json]:
    if not isinstance(schema, dict):
        return []
    names = schema.get("enum")
    return [*(names if isinstance(names, list) else ()), *([schema["const"]] if "const" in schema else ())]


def said_on(path: str, model: str, text: str) -> JsonObject:
    """Make a whole answer that says a text, on the surface of a path."""
    if path == "/v1/chat/completions":
        message: JsonObject = {"role": "assistant", "content": text}
        choice: JsonObject = {"index": 0, "message": message, "finish_reason": "stop"}
        return {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": model, "choices": [choice]}
    if path == "/v1/responses":
        content: JsonObject = {"type": "output_text", "text": text, "annotations": []}
        item: JsonObject = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed"}
        output: list[Json] = [{**item, "content": [content]}]
        return {"id": "resp_1", "object": "response", "status": "completed", "model": model, "output": output}
    return {
        "model": model,
        "created_at": "2026-01-01T00:00:00Z",
        "message": {"role": "assistant", "content": text},
        "done": True,
        "done_reason": "stop",
        "eval_count": len(text) // 4 + 1,
    }
