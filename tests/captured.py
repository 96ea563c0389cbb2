"""Read the answers that a real Ollama sent: 20 parsers, 18 faults, four surfaces, whole and streamed.

`data/captured.jsonl.xz`: first a line with the tools (one set for each way surfaces write them), then a line for each
answer. `right` says that the answer is what the model meant as it is; `intended` what it meant: the calls,
"regenerate" (any one call that fits) or "unchanged".
"""

from __future__ import annotations

import json
import lzma
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from toolmend.surfaces import SURFACES
from toolmend.surfaces.surface import Surface

FILE = Path(__file__).parent / "data" / "captured.jsonl.xz"
BY_NAME = {surface.name: surface for surface in SURFACES.values()}


@dataclass(frozen=True)
class Captured:
    """Hold one answer of a real server with its request."""

    id: str
    surface: Surface
    stream: bool
    document: Any
    status: int
    content_type: str
    body: bytes
    right: bool
    intended: Any

    @property
    def parser(self) -> str:
        return self.id.split("/")[0]

    @property
    def fault(self) -> str:
        return self.id.split("/")[1]


@cache
def captured() -> tuple[Captured, ...]:
    with lzma.open(FILE, "rt", encoding="utf-8") as lines:
        first, *rows = map(json.loads, lines)
    return tuple(
        Captured(
            row["id"],
            BY_NAME[row["surface"]],
            row["stream"],
            {**row["request"], "tools": first["tools"][row["tools"]]},
            row["status"],
            row["content_type"],
            row["body"].encode(),
            row["right"],
            row["intended"],
        )
        for row in rows
    )


def one(id_: str) -> Captured:
    """Return the answer of this id: `parser/fault/surface/stream`."""
    return next(found for found in captured() if found.id == id_)
