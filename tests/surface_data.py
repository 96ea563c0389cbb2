"""Read the kept answers and requests, and run answers through the surfaces."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from toolmend.framing import Framer
from toolmend.model import Json, Request, Turn
from toolmend.surfaces import SURFACES
from toolmend.surfaces.surface import Codec, Frame, Framing, Surface
from toolmend.surfaces.turn_builder import TurnBuilder

DATA = Path(__file__).parent / "data"
BY_NAME = {surface.name: surface for surface in SURFACES.values()}
FRAMINGS: dict[str, Framing] = {"application/x-ndjson": "ndjson", "text/event-stream": "sse"}
TOOLS: list[Json] = [{"type": "function", "function": {"name": "read_file", "parameters": {"type": "object"}}}]


def rows(name: str) -> list[Any]:
    """Return the decoded lines of a data file."""
    return [json.loads(line) for line in (DATA / name).read_text(encoding="utf-8").split("\n") if line]


@dataclass(frozen=True)
class Answer:
    """Hold one kept answer of a real server."""

    name: str
    surface: Surface
    request: Request
    status: int
    framing: Framing
    body: bytes


def answer_of(row: Any, chunks: str = "chunks") -> Answer:
    surface = BY_NAME[row["surface"]]
    document = {"model": "qwen3:8b", "stream": row["stream"], "tools": TOOLS, **row.get("options", {})}
    framing = FRAMINGS.get(row["content_type"].split(";")[0], "json")
    body = "".join(row[chunks]).encode()
    return Answer(row["name"], surface, surface.read_request(document), row.get("status", 200), framing, body)


ANSWERS = [answer_of(row) for row in rows("answers.jsonl")]
STREAMS = [answer for answer in ANSWERS if answer.framing != "json"]


def label(answer: Answer) -> str:
    return f"{answer.surface.name} {answer.framing}: {answer.name}"


def frames(framing: Framing, body: bytes) -> list[bytes]:
    framer = Framer(framing)
    return [*framer.feed(body), *framer.finish()]


def read(codec: Codec, framing: Framing, body: bytes) -> list[Frame]:
    return [codec.read(raw) for raw in frames(framing, body)]


def turn_of(read_frames: list[Frame]) -> Turn:
    builder = TurnBuilder()
    for frame in read_frames:
        for event in frame.events:
            builder.add(event)
    return builder.turn()


def decode(surface: Surface, body: bytes, framing: Framing | None = None, **document: Any) -> Turn:
    """Read an answer to a request that offers one tool."""
    framing = surface.streaming if framing is None else framing
    request = surface.read_request({"model": "qwen3:8b", "tools": TOOLS, **document})
    return turn_of(read(surface.codec(request, framing), framing, body))


def rewrite(surface: Surface, body: bytes, turn: Turn, passed: int = 0, framing: Framing | None = None) -> bytes:
    """Pass some frames of an answer, hold the others, and write a turn in their place. Returns what the client gets."""
    framing = surface.streaming if framing is None else framing
    request = surface.read_request({"model": "qwen3:8b", "stream": framing != "json", "tools": TOOLS})
    codec = surface.codec(request, framing)
    came = read(codec, framing, body)
    for frame in came[:passed]:
        codec.passed(frame)
    return b"".join([*(frame.raw for frame in came[:passed]), *codec.write(turn, came[passed:])])
