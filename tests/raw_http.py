"""Speak HTTP/1.1 by hand: send what no client library sends, and read answers piece by piece, as they come."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

TIMEOUT = 20.0
"""Seconds after which a wait is given up: a bound for a failing test, never part of a passing one."""


@dataclass(frozen=True)
class Got:
    """Hold an answer as a client got it. `complete` is False when the connection ended before the answer did."""

    status: int
    headers: dict[str, str]
    body: bytes
    complete: bool = True

    @property
    def content_type(self) -> str:
        return self.headers.get("content-type", "")


def request(path: str, body: bytes, *, host: str = "127.0.0.1", method: str = "POST", **headers: str) -> bytes:
    """Write a request; a header's underscores are dashes. `transfer_encoding="chunked"` cuts the body in chunks."""
    given = {"host": host, "content-type": "application/json"} | {k.replace("_", "-"): v for k, v in headers.items()}
    if given.get("transfer-encoding") == "chunked":
        body = b"".join(b"%x\r\n%s\r\n" % (len(cut), cut) for cut in _cuts(body)) + b"0\r\n\r\n"
    else:
        given = {"content-length": str(len(body))} | given
    lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in given.items() if value)]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1") + body


def _cuts(body: bytes) -> list[bytes]:
    return [body[at : at + 64] for at in range(0, len(body), 64)]


def encoded(document: Any) -> bytes:
    return document if isinstance(document, bytes) else json.dumps(document).encode()


class Connection:
    """Hold one connection. Answers are read in the order they come, and may be read in pieces."""

    def __init__(self, url: str, wrap: Any = None) -> None:
        where = urlsplit(url)
        plain = socket.create_connection((where.hostname or "", where.port or 0), TIMEOUT)
        self.socket = plain if wrap is None else wrap(plain)
        self.file = self.socket.makefile("rb")

    def __enter__(self) -> Connection:
        return self

    def __exit__(self, *exception: object) -> None:
        self.close()

    def close(self) -> None:
        self.file.close()
        self.socket.close()

    def send(self, data: bytes) -> None:
        self.socket.sendall(data)

    def post(self, path: str, document: Any, **headers: str) -> None:
        self.send(request(path, encoded(document), **headers))

    def head(self) -> tuple[int, dict[str, str]]:
        """Read status and headers."""
        first = self.file.readline()
        if not first:
            raise ConnectionError("no answer")
        headers = {}
        while (line := self.file.readline().decode("latin-1").strip()) != "":
            name, _, value = line.partition(":")
            headers[name.strip().lower()] = value.strip()
        return int(first.split()[1]), headers

    def pieces(self, headers: dict[str, str]) -> Iterator[bytes]:
        """Read a body: chunk by chunk if it is cut in chunks. Raises ConnectionError when it ends too early."""
        if headers.get("transfer-encoding") != "chunked":
            length = int(headers.get("content-length", 0))
            data = self.file.read(length)
            yield data
            if len(data) < length:
                raise ConnectionError("the body ended early")
            return
        while True:
            size = self.file.readline()
            if not size:
                raise ConnectionError("the body ended early")
            data = self.file.read(int(size, 16))
            if self.file.readline() != b"\r\n":
                raise ConnectionError("the body ended early")
            if not data:
                return
            yield data

    def answer(self) -> Got:
        """Read one whole answer."""
        status, headers = self.head()
        body, complete = b"", True
        try:
            for piece in self.pieces(headers):
                body += piece
        except ConnectionError:
            complete = False
        return Got(status, headers, body, complete)


def post(url: str, path: str, document: Any, **headers: str) -> Got:
    """Post a body (encoded, unless it is bytes) and read the whole answer."""
    with Connection(url) as connection:
        connection.post(path, document, **headers)
        return connection.answer()
