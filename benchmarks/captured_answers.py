"""Say how much of what a model meant arrives, for 2,944 answers that a real Ollama sent.

    python benchmarks/captured_answers.py

The answers (20 parsers, 18 faults, four surfaces, whole and streamed) are those of tests/data/captured.jsonl.xz. They
go through the core, without a proxy and without a model: questions are counted, not asked. "Repaired" are those whose
calls are then the ones that were meant; "asked" those where only the model can say what is missing.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from captured import Captured, captured
from toolmend.exchange import Exchange, replay
from toolmend.follow_up import FollowUp, Reply
from toolmend.settings import Settings
from toolmend.upstreams import Server

VERDICTS = ("right as sent", "repaired", "asked")


def _written(calls: list[Any]) -> str:
    return json.dumps(calls, sort_keys=True)


def verdict(found: Captured) -> str:
    """Tell what became of one answer."""
    if found.right:
        return "right as sent"
    asked: list[FollowUp] = []

    def ask(question: FollowUp) -> Reply | None:
        asked.append(question)
        return None

    exchange = Exchange(found.surface, found.document, Settings(), Server())
    replay(exchange, found.status, found.content_type, [found.body], ask)
    if asked:
        return "asked"
    assert exchange.outcome is not None
    calls = [{"name": call.name, "arguments": call.arguments} for call in exchange.outcome.turn.calls]
    return "repaired" if _written(calls) == _written(found.intended) else "left"


def main() -> None:
    """Print a row for each surface."""
    counts: dict[str, Counter[str]] = {}
    for found in captured():
        counts.setdefault(found.surface.name, Counter())[verdict(found)] += 1
    table = Table("surface", "answers", *VERDICTS, "left")
    for name, count in [*counts.items(), ("all", sum(counts.values(), Counter()))]:
        total = count.total()
        shares = [f"{count[key]} ({count[key] / total:.1%})" for key in (*VERDICTS, "left")]
        table.add_row(name, str(total), *shares)
    Console(width=100).print(table)


if __name__ == "__main__":
    main()
