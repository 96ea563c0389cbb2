"""Talk HTTP to a server as a client would, past every proxy that the environment names: plain http.client."""

from __future__ import annotations

import http.client
import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Final

from toolmend.commands.ollama_host import Address
from toolmend.model import Json

CHUNK: Final = 65536


@dataclass(frozen=True, slots=True)
class Answer:
    """Hold an answer: `chunks` as they were read, `seconds` until the first byte of the body and until its end."""

    status: int
    headers: Mapping[str, str]
    chunks: tuple[bytes, ...]
    first: float = 0.0
    seconds: float = 0.0

    @property
    def body(self) -> bytes:
        """Return the whole body."""
        return b"".join(self.chunks)

    @property
    def content_type(self) -> str:
        """Return the content type, "" when there is none."""
        return self.headers.get("content-type", "")

    def json(self) -> Json:
        """Decode the body; None when it is no JSON."""
        try:
            decoded: Json = json.loads(self.body)
        except ValueError:
            return None
        return decoded


@dataclass(frozen=True, slots=True)
class Call:
    """Hold one request: a GET where `document` is None, else a POST of it."""

    path: str
    document: Json = None
    headers: Mapping[str, str] = field(default_factory=dict)


def send(address: Address, call: Call, timeout: float, abort: Callable[[], bool] = lambda: False) -> Answer:
    """Send one request and read its answer to the end.

    Args:
        address: The server.
        call: What is asked.
        timeout: Seconds to wait for each part of the answer.
        abort: Asked between the parts; when it says so, what has come is the answer.

    Raises:
        OSError: The server does not answer (refused, unknown host, too late, TLS).
        http.client.HTTPException: It does not speak HTTP.
    """
    started = time.monotonic()
    with _open(address, timeout) as connection:
        body = None if call.document is None else json.dumps(call.document, ensure_ascii=False).encode()
        headers = {**({} if body is None else {"content-type": "application/json"}), **call.headers}
        prefix = f"/{address.path}" if address.path else ""
        connection.request("GET" if body is None else "POST", prefix + call.path, body=body, headers=headers)
        response = connection.getresponse()
        chunks: list[bytes] = []
        first = 0.0
        for chunk in _chunks(response):
            first = first or time.monotonic() - started
            chunks.append(chunk)
            if abort():
                break
        lowered = {name.lower(): value for name, value in response.getheaders()}
        return Answer(response.status, lowered, tuple(chunks), first, time.monotonic() - started)


@contextmanager
def _open(address: Address, timeout: float) -> Iterator[http.client.HTTPConnection]:
    kind = http.client.HTTPSConnection if address.scheme == "https" else http.client.HTTPConnection
    connection = kind(address.host, address.port, timeout=timeout)
    try:
        yield connection
    finally:
        connection.close()


def _chunks(response: http.client.HTTPResponse) -> Iterator[bytes]:
    while chunk := response.read1(CHUNK):
        yield chunk


def get_json(address: Address, path: str, timeout: float, document: Json = None) -> Json:
    """Ask for a JSON document and return it; None when the server does not answer, or not with one."""
    try:
        answer = send(address, Call(path, document), timeout)
    except (OSError, http.client.HTTPException):
        return None
    return answer.json() if answer.status == 200 else None
