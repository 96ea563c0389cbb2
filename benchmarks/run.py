"""Compare what stands between an agent and its server: nothing, plain mitmdump, toolmend, and toolrails if installed.

    python benchmarks/run.py                      # a table of all, with ratios to plain mitmdump
    python benchmarks/run.py --json results.json  # the same as JSON, with every sample
    python benchmarks/run.py --rounds 20 --only chunks

Plain is mitmdump without toolmend: as it is for whole answers, with `stream_large_bodies=1` ("streaming") for streams,
which it would read to their end otherwise. Everything runs on this machine, in front of one replay. What it takes to
start and memory are read on Linux only.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path

import contenders
import costs
import measures
from contenders import Contender
from measures import Measured
from rich.console import Console
from rich.table import Table

NAMES = ("direct", "mitmdump", "streaming", "toolmend", "toolrails")
MEASURES: dict[str, Callable[[list[Contender], int], list[Measured]]] = {
    "answers": lambda found, count: measures.answers(found, count),
    "first": lambda found, count: measures.first_token(found, count),
    "generated": lambda found, count: measures.generated(found, max(3, count // 20)),
    "chunks": lambda found, count: measures.chunk_cost(found, max(5, count // 5)),
    "throughput": lambda found, count: measures.throughput(found, max(3, count // 30)),
    "memory": lambda found, count: measures.open_streams(found, 3),
}


def measure(count: int, only: list[str], toolrails: str | None) -> list[Measured]:
    """Start all contenders and measure what was asked for."""
    shown: list[Measured] = []
    starts: dict[str, list[float]] = {}
    for _ in range(3):
        with contenders.running(toolrails) as found:
            for contender in found:
                starts.setdefault(contender.name, []).append(contender.started)
    shown.append(Measured("start-up", "s", None, "p50", starts))
    asked = only or list(MEASURES)
    # Memory in processes of its own: what others leave to the allocator would be taken for what streams need.
    for names in ([name for name in asked if name == "memory"], [name for name in asked if name != "memory"]):
        if names:
            with contenders.running(toolrails) as found:
                for name in names:
                    shown += MEASURES[name](found, count)
    return shown


def shown_value(value: float | None) -> str:
    """Write a number with three digits that count."""
    if value is None:
        return ""
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def table(rows: list[Measured]) -> Table:
    """Make the table of what clients see."""
    made = Table(title="Between a client and its server", title_justify="left")
    for column in ("", "unit", *NAMES, "toolmend / plain", "target", "toolmend / toolrails"):
        made.add_column(column, justify="left" if not column or column == "unit" else "right")
    for row in rows:
        values = [shown_value(row.value(name)) for name in NAMES]
        ratio = row.ratio("toolmend")
        met = row.target is None or ratio is None or ratio <= row.target
        target = "" if row.target is None else f"≤ {row.target:.2f}"
        colour = "" if row.target is None else "[green]" if met else "[red]"
        other = row.ratio("toolmend", "toolrails")
        texts = [f"{colour}{ratio:.2f}" if ratio is not None else "", target, f"{other:.3g}" if other else ""]
        made.add_row(row.name, row.unit, *values, *texts)
    return made


def costs_table(rows: list[costs.Cost]) -> Table:
    """Make the table of what a piece of work costs."""
    made = Table(title="In process", title_justify="left")
    for column in ("", "cost", "unit"):
        made.add_column(column, justify="right" if column == "cost" else "left")
    for row in rows:
        made.add_row(row.name, shown_value(row.value), row.unit)
    return made


def as_object(rows: list[Measured], found: list[costs.Cost]) -> dict[str, object]:
    """Make plain objects of all that was measured."""
    return {
        "measured": [
            {
                "name": row.name,
                "unit": row.unit,
                "values": {name: row.value(name) for name in row.samples},
                "ratio": row.ratio("toolmend"),
                "ratio_to": row.base,
                "ratio_to_toolrails": row.ratio("toolmend", "toolrails"),
                "target": row.target,
                "samples": row.samples,
            }
            for row in rows
        ],
        "costs": [{"name": row.name, "unit": row.unit, "value": row.value} for row in found],
    }


def main() -> int:
    """Measure and print. Returns 1 when a target is not met."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--rounds", type=int, default=100, help="rounds over all contenders (default: 100)")
    parser.add_argument("--only", action="append", default=[], choices=[*MEASURES, "costs"], help="measure this only")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the results and every sample to a file")
    parser.add_argument("--toolrails", metavar="COMMAND", help="where toolrails is (default: looked for)")
    options = parser.parse_args()
    only = [name for name in options.only if name != "costs"]
    rows = []
    if only or not options.only:
        rows = measure(options.rounds, only, options.toolrails or contenders.installed_toolrails())
    found = costs.all_costs() if not options.only or "costs" in options.only else []
    console = Console(width=None if sys.stdout.isatty() else 170)
    if rows:
        console.print(table(rows))
    if found:
        console.print(costs_table(found))
    if options.json is not None:
        options.json.write_text(json.dumps(as_object(rows, found), indent=1) + "\n", encoding="utf-8")
    missed = [row for row in rows if row.target is not None and (row.ratio("toolmend") or 0) > row.target]
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
