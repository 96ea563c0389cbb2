"""Measure what a client sees, one contender after the other in every round, so that noise strikes all alike."""

from __future__ import annotations

import asyncio
import json
import socket
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from statistics import median, quantiles
from typing import Final
from urllib.parse import urlsplit

from contenders import Contender
from replay import TOOL

PATH = "/v1/chat/completions"
PATIENCE = 30.0
Samples = dict[str, list[float]]
STREAMS_ON: Final = ("direct", "streaming", "toolmend")
"""Those that pass a stream on as it comes."""


def request(model: str, *, stream: bool, tools: bool = True) -> bytes:
    """Write a request as an agent with one tool and a short history sends it."""
    document: dict[str, object] = {
        "model": model,
        "messages": [
            {"role": "system", "content": "You plan the day. Use the tools for whatever they can do."},
            {"role": "user", "content": "Plan half an hour for Q3 with a@example.com and b@example.com."},
        ],
        "stream": stream,
    }
    if tools:
        document["tools"] = [{"type": "function", "function": TOOL}]
    body = json.dumps(document).encode()
    headers = {"host": "127.0.0.1", "content-type": "application/json", "content-length": str(len(body))}
    lines = [f"POST {PATH} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
    return "\r\n".join([*lines, "", ""]).encode() + body


class Client:
    """Hold one connection that is used again, and read answers from it."""

    def __init__(self, url: str) -> None:
        where = urlsplit(url)
        self.socket = socket.create_connection((where.hostname or "", where.port or 0), PATIENCE)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.file = self.socket.makefile("rb")

    def close(self) -> None:
        """Leave."""
        self.file.close()
        self.socket.close()

    def ask(self, data: bytes) -> tuple[float, float, int]:
        """Return the seconds to the first byte of the body, those to its end, and the number of chunks."""
        began = time.perf_counter()
        self.socket.sendall(data)
        length, chunked = 0, False
        while (line := self.file.readline().lower()) not in (b"\r\n", b""):
            length = int(line[15:]) if line.startswith(b"content-length:") else length
            chunked = chunked or line.startswith(b"transfer-encoding: chunked")
        if not chunked:
            self.file.read(1)
            first = time.perf_counter() - began
            self.file.read(length - 1)
            return first, time.perf_counter() - began, 1
        first, chunks = 0.0, 0
        while size := int(self.file.readline(), 16):
            first = first or time.perf_counter() - began
            self.file.read(size + 2)
            chunks += 1
        self.file.readline()
        return first, time.perf_counter() - began, chunks


@dataclass
class Measured:
    """Hold samples of one quantity for each contender. `unit` says what a sample is; smaller is better if `less`.

    `base` is what toolmend is compared with: mitmdump as it is, and for streams one that passes them on.
    """

    name: str
    unit: str
    target: float | None = None
    statistic: str = "p50"
    samples: Samples = field(default_factory=dict)
    less: bool = True
    base: str = "mitmdump"

    def value(self, name: str) -> float | None:
        """Return the statistic of a contender's samples."""
        found = self.samples.get(name)
        if not found:
            return None
        if self.statistic == "p99":
            return quantiles(found, n=100, method="inclusive")[98] if len(found) > 1 else found[0]
        return median(found)

    def ratio(self, name: str, base: str = "") -> float | None:
        """Return the ratio to another contender: of the same round where the rounds can be told apart."""
        base = base or self.base
        ours, theirs = self.samples.get(name), self.samples.get(base)
        if not ours or not theirs:
            return None
        if self.statistic == "p50" and len(ours) == len(theirs) and min(theirs) > 0:
            return median(one / other for one, other in zip(ours, theirs, strict=True))
        value, other = self.value(name), self.value(base)
        return value / other if value is not None and other else None


def rounds(contenders: list[Contender], count: int) -> Iterator[Contender]:
    """Give the contenders round by round, each round in another order."""
    for number in range(count):
        turn = number % len(contenders)
        yield from contenders[turn:] + contenders[:turn]


def each(
    contenders: list[Contender], count: int, measure: Callable[[Contender, Client], dict[str, float]]
) -> dict[str, Samples]:
    """Measure round by round on one connection for each contender; the first round of all warms up."""
    clients = {contender.name: Client(contender.url) for contender in contenders}
    found: dict[str, Samples] = {}
    for contender in contenders:
        measure(contender, clients[contender.name])
    for contender in rounds(contenders, count):
        for quantity, value in measure(contender, clients[contender.name]).items():
            found.setdefault(quantity, {}).setdefault(contender.name, []).append(value)
    for client in clients.values():
        client.close()
    return found


def answers(contenders: list[Contender], count: int) -> list[Measured]:
    """Measure short answers: a valid call whole and streamed, and a repaired one."""
    shown = []
    for model, stream, name, targets in (
        ("call", False, "whole valid answer", (1.10, 1.20)),
        ("call", True, "streamed valid answer", (1.10, 1.20)),
        ("wrong", False, "whole repaired answer", (None, None)),
        ("missing", False, "whole answer with a question", (None, None)),
    ):
        data = request(model, stream=stream)
        asked = contenders if model != "missing" else [c for c in contenders if c.name != "direct"]
        found = each(asked, count, lambda contender, client: {"end": client.ask(data)[1] * 1000})  # noqa: B023
        for statistic, target in zip(("p50", "p99"), targets, strict=True):
            base = "streaming" if stream else "mitmdump"
            shown.append(Measured(f"{name}, {statistic}", "ms", target, statistic, found["end"], base=base))
    return shown


def first_token(contenders: list[Contender], count: int) -> list[Measured]:
    """Measure a streamed text of 20 tokens: to its first token, and between its tokens."""
    data = request("text-20@1", stream=True)

    def measure(contender: Contender, client: Client) -> dict[str, float]:
        first, end, chunks = client.ask(data)
        return {"first": first * 1000, "between": (end - first) * 1000 / max(chunks - 1, 1)}

    found = each(contenders, count, measure)
    streaming = {name: values for name, values in found["between"].items() if name in STREAMS_ON}
    return [
        Measured("first token of a text", "ms", 1.05, "p50", found["first"], base="streaming"),
        Measured("between tokens", "ms", None, "p50", streaming, base="streaming"),
    ]


def generated(contenders: list[Contender], count: int) -> list[Measured]:
    """Measure the first token of 200 that take 5 ms each, as a model that generates them does."""
    data = request("text-200@5", stream=True)
    found = each(contenders, count, lambda contender, client: {"first": client.ask(data)[0] * 1000})
    return [Measured("first of 200 tokens, 5 ms each", "ms", None, "p50", found["first"], base="streaming")]


def chunk_cost(contenders: list[Contender], count: int) -> list[Measured]:
    """Measure the CPU that one chunk of text costs the proxy."""
    # A model's tokens come one by one: together they would cost the proxies fewer reads than they do.
    data = request("text-200@1", stream=True)

    def measure(contender: Contender, client: Client) -> dict[str, float]:
        before = contender.cpu()
        chunks = client.ask(data)[2]
        return {"cpu": (contender.cpu() - before) * 1e6 / chunks}

    proxies = [contender for contender in contenders if contender.name in ("streaming", "toolmend")]
    return [Measured("CPU per text chunk", "µs", 1.5, "p50", each(proxies, count, measure)["cpu"], base="streaming")]


def throughput(contenders: list[Contender], count: int) -> list[Measured]:
    """Measure valid whole answers a second, by the number of clients."""
    data = request("call", stream=False)
    shown = []
    for clients in (1, 8, 64):
        samples: Samples = {}
        for contender in rounds(contenders, count):
            rate = asyncio.run(_rate(contender.url, data, clients, 2 * clients + 60))
            samples.setdefault(contender.name, []).append(rate)
        shown.append(Measured(f"requests a second, {clients} clients", "1/s", None, "p50", samples, less=False))
    return shown


async def _rate(url: str, data: bytes, clients: int, total: int) -> float:
    where, left = urlsplit(url), iter(range(total))

    async def client() -> None:
        reader, writer = await asyncio.open_connection(where.hostname, where.port)
        for _ in left:
            writer.write(data)
            head = await reader.readuntil(b"\r\n\r\n")
            length = next(int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:"))
            await reader.readexactly(length)
        writer.close()

    began = time.perf_counter()
    await asyncio.gather(*(client() for _ in range(clients)))
    return total / (time.perf_counter() - began)


def open_streams(contenders: list[Contender], count: int) -> list[Measured]:
    """Measure the memory of one open stream, from 200 of them on: those before take what the process had to spare."""
    data = request("open", stream=True)
    samples: Samples = {}
    for contender in contenders:
        if contender.name not in ("streaming", "toolmend"):
            continue
        clients = _opened(contender, data)
        for _ in range(count):
            before = contender.memory()
            clients += _opened(contender, data)
            samples.setdefault(contender.name, []).append((contender.memory() - before) * 1024 / STREAMS)
        for client in clients:
            client.close()
    return [Measured(f"memory of an open stream, {STREAMS} open", "kB", 1.3, "p50", samples, base="streaming")]


STREAMS: Final = 200


def _opened(contender: Contender, data: bytes) -> list[Client]:
    """Open streams and wait for the first token of each."""
    clients = [Client(contender.url) for _ in range(STREAMS)]
    for client in clients:
        client.socket.sendall(data)
    for client in clients:
        while b"data:" not in client.file.readline():
            pass
    return clients
