"""Say what is fuzzed: each target takes any bytes, and raises when a promise is broken.

The promises: nothing is raised but DecodeError, nothing takes long, and what is not understood comes out as it went in.
"""

from __future__ import annotations

import json
import lzma
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any, Final

from toolmend import lenient_json
from toolmend.dialects import find_calls
from toolmend.dialects.scanner import Scanner
from toolmend.exchange import Exchange, replay
from toolmend.framing import Framer
from toolmend.model import DecodeError, Tool, ToolCall
from toolmend.repair.calls import fits
from toolmend.repair.ladder import repair_call
from toolmend.settings import Settings
from toolmend.surfaces import SURFACES
from toolmend.surfaces.surface import Framing
from toolmend.upstreams import Server

DATA: Final = Path(__file__).resolve().parent.parent / "tests" / "data" / "captured.jsonl.xz"
SCHEMA: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "path": {"type": "string"},
        "count": {"type": "integer"},
        "mode": {"enum": ["read", "write"]},
        "items": {"type": "array", "items": {"type": "object", "properties": {"n": {"type": "number"}}}},
        "any": {"anyOf": [{"type": "integer"}, {"type": "array", "items": {"type": "string"}}, {"type": "null"}]},
    },
    "required": ["path"],
    "additionalProperties": False,
}
TOOLS: Final = (Tool("read_file", SCHEMA), Tool("get_weather", {"type": "object", "properties": {}}), Tool("x", {}))
TYPES: Final = ("application/json", "application/x-ndjson", "text/event-stream")
SLOW: Final = 2e-6
"""Seconds of CPU that a byte may take, on top of GRACE, on a slow and busy machine."""
GRACE: Final = 3.0


def framing(data: bytes) -> None:
    """Frames put together are the bytes that came, however they were cut."""
    step = 1 + (data[0] % 17 if data else 0)
    kinds: tuple[Framing, ...] = ("json", "ndjson", "sse")
    for kind in kinds:
        cut, whole = Framer(kind), Framer(kind)
        frames = [frame for at in range(0, len(data), step) for frame in cut.feed(data[at : at + step])]
        frames += cut.finish()
        assert b"".join(frames) == data
        assert frames == [*whole.feed(data), *whole.finish()]


def surfaces(data: bytes) -> None:
    """An answer goes through whatever it is; without repairs it comes out as the same bytes, however it was cut."""
    number, body = (data[0], data[1:]) if data else (0, b"")
    path = list(SURFACES)[number % 4]
    document = {"model": "m", "tools": _declared(path), "stream": bool(number & 4)}
    kind, status = TYPES[number // 8 % 3], (200, 200, 200, 500, 400)[number % 5]
    results = []
    for step in (len(body) or 1, 1 + number % 13):
        exchange = Exchange(SURFACES[path], document, Settings(follow_up=False), Server("ollama"))
        chunks = [body[at : at + step] for at in range(0, len(body), step)]
        results.append(b"".join(replay(exchange, status, kind, chunks)))
        if exchange.outcome is None or not exchange.outcome.repairs:
            assert results[-1] == body
    assert results[0] == results[1]


def _declared(path: str) -> list[Any]:
    if path == "/v1/messages":
        return [{"name": tool.name, "input_schema": tool.parameters} for tool in TOOLS]
    if path == "/v1/responses":
        return [{"type": "function", "name": tool.name, "parameters": tool.parameters} for tool in TOOLS]
    return [{"type": "function", "function": {"name": tool.name, "parameters": tool.parameters}} for tool in TOOLS]


def dialects(data: bytes) -> None:
    """What would be lifted from a text was held back while it streamed."""
    text = data.decode("utf-8", "surrogatepass" if data[:1] > b"\x7f" else "replace") if _decodes(data) else ""
    found = find_calls(text, TOOLS, lambda call: fits(call, TOOLS))
    scanner, passed = Scanner(TOOLS), 0
    for at in range(0, len(text), 7):
        now = scanner.feed(text[at : at + 7])
        assert passed <= now <= at + 7
        passed = now
    if found is not None and found.state == "calls" and all(fits(call, TOOLS) for call in found.calls):
        gone, rest = text[:passed], found.rest
        # Blanks that have gone before a call are put before what is left (`Exchange`).
        assert not gone.strip() or gone.rstrip().startswith(rest[:passed].rstrip()) or rest.startswith(gone)


def _decodes(data: bytes) -> bool:
    try:
        data.decode("utf-8", "surrogatepass" if data[:1] > b"\x7f" else "replace")
    except UnicodeDecodeError:
        return False
    return True


def loose_json(data: bytes) -> None:
    """Strict JSON is read as it is; what is read at all can be written, and is read the same again."""
    text = data.decode("utf-8", "replace")
    parsed = lenient_json.parse(text)
    lenient_json.is_cut(text)
    lenient_json.parse_prefix(text, 0)
    if parsed is not None:
        again = lenient_json.parse(json.dumps(parsed.value))
        assert again is not None or isinstance(parsed.value, str)


def coercion(data: bytes) -> None:
    """Repairing arguments never raises, leaves valid ones alone, and has nothing to do the second time."""
    text = data.decode("utf-8", "replace")
    for tool in TOOLS:
        call, _, faults = repair_call(ToolCall("1", tool.name, text, raw=text), TOOLS)
        if not faults and isinstance(call.arguments, dict):
            assert repair_call(call, TOOLS) == (call, (), ())


def requests(data: bytes) -> None:
    """A request is read, or refused as not the surface's."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return
    if not isinstance(document, dict):
        return
    for path, surface in SURFACES.items():
        try:
            exchange = Exchange(surface, document, Settings(), Server("ollama"))
        except DecodeError:
            continue
        replay(exchange, 200, "application/json", [f'{{"path": "{path}"}}'.encode()])


TARGETS: Final[dict[str, Callable[[bytes], None]]] = {
    "framing": framing,
    "surfaces": surfaces,
    "dialects": dialects,
    "loose_json": loose_json,
    "coercion": coercion,
    "requests": requests,
}


@cache
def seeds(target: str, most: int = 400) -> tuple[bytes, ...]:
    """Return what to begin with: answers, texts, arguments and requests of a real server."""
    rows = list(_rows())[:: max(1, 2944 // most)]
    if target == "requests":
        return tuple(json.dumps({**row["request"], "tools": []}).encode() for row in rows)
    bodies = [row["body"].encode() for row in rows]
    if target in ("framing", "surfaces"):
        return tuple(bytes([index % 256]) + body for index, body in enumerate(bodies))
    return tuple(json.loads(f'"{text}"', strict=False).encode("utf-8", "replace") for text in _texts(bodies))


def _rows() -> Iterator[Any]:
    with lzma.open(DATA, "rt", encoding="utf-8") as lines:
        next(lines)
        yield from map(json.loads, lines)


def _texts(bodies: list[bytes]) -> Iterator[str]:
    """Return the longest JSON string of each answer: nearly always what the model wrote."""
    for body in bodies:
        found = body.decode().split('"')
        yield max((text for text in found if not text.endswith("\\")), key=len, default="").rstrip("\\")


def timed(target: str, data: bytes) -> None:
    """Run a target, and raise when it takes too long for so few bytes."""
    began = time.process_time()
    TARGETS[target](data)
    spent = time.process_time() - began
    assert spent < GRACE + SLOW * 50 * len(data), f"{spent:.1f} s for {len(data)} bytes"
