"""Measure how many tool calls of a model are usable, straight from Ollama and through toolmend.

Four tools of rising difficulty are offered at once, and each is asked for N times: straight and through a mitmdump with
toolmend, whole and streamed, with the same seeds (where the surface has them). A call is usable when it names the tool
that was wanted and its arguments fit the schema. Ctrl-C ends it and shows what was measured until then.

Exit codes: 1 when nothing could be measured, 130 when it was interrupted.
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import product
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table

from toolmend import __version__
from toolmend.commands import find_ollama, launch, ollama_host
from toolmend.commands.bench_tools import TASKS, Task, request
from toolmend.commands.http_client import Answer, Call, send
from toolmend.commands.ollama_host import Address
from toolmend.commands.reading import read, surface_named
from toolmend.model import JsonObject
from toolmend.surfaces import SURFACES

WAYS: Final = ("raw", "toolmend")
COLUMNS: Final = tuple(product((False, True), WAYS))
INTERRUPTED: Final = 130


class BenchError(RuntimeError):
    """Raised when nothing can be measured; says why."""


@dataclass(frozen=True, slots=True)
class Trial:
    """Hold what came of one request. `seconds` is None when no answer came; `first` is the time to the first byte."""

    tool: str
    trial: int
    way: str
    stream: bool
    usable: bool
    why_not: str = ""
    first: float | None = None
    seconds: float | None = None


@dataclass(frozen=True, slots=True)
class Plan:
    """Hold what is measured."""

    surface: str
    model: str
    trials: int
    timeout: float

    def __len__(self) -> int:
        """Count the requests."""
        return self.trials * len(TASKS) * len(WAYS) * 2

    def __iter__(self) -> Iterator[tuple[int, Task, bool, str]]:
        """List the requests: trial, task, streamed, way. The two ways take turns at each, and at being the first."""
        for number, task, stream in product(range(self.trials), TASKS, (False, True)):
            for way in WAYS if number % 2 == 0 else WAYS[::-1]:
                yield number, task, stream, way


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--model", "-m", required=True, help="the model, as Ollama names it: qwen3:8b")
    parser.add_argument("--trials", "-n", type=int, default=5, metavar="N", help="times each tool is asked for (5)")
    parser.add_argument("--url", help="the server (default: the Ollama that is found)")
    parser.add_argument(
        "--surface",
        choices=[surface.name for surface in SURFACES.values()],
        default="ollama-chat",
        help="(ollama-chat)",
    )
    parser.add_argument("--timeout", type=float, default=300.0, metavar="SECONDS", help="for one answer (300)")
    parser.add_argument("--json", action="store_true", help="print one JSON document in place of the table")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the JSON document into a file, too")


def run(args: argparse.Namespace) -> int:
    """Measure, and show what was measured."""
    plan = Plan(args.surface, args.model, args.trials, args.timeout)
    if plan.trials < 1 or plan.timeout <= 0:
        print("toolmend bench: --trials and --timeout must be above 0", file=sys.stderr)
        return 2
    trials: list[Trial] = []
    asked: list[int] = []
    interrupted = False
    try:
        with launch.ends_on_terminate():
            _measure(plan, _server(args.url), trials, asked)
    except (BenchError, launch.LaunchError, OSError, ValueError) as error:
        print(f"toolmend bench: {error}", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        interrupted = True
    document = as_json(plan, trials, sum(asked), complete=not interrupted)
    if args.out is not None:
        args.out.write_text(json.dumps(document, ensure_ascii=False, indent=1) + "\n", encoding="utf-8")
    if args.json:
        print(json.dumps(document, ensure_ascii=False, indent=1))
    elif trials:
        Console(highlight=False).print(table(plan, trials, sum(asked)))
    if interrupted:
        print(f"toolmend bench: stopped after {len(trials)} of {len(plan)} requests", file=sys.stderr)
        return INTERRUPTED
    return 0


def _server(url: str | None) -> Address:
    if url is not None:
        return ollama_host.from_url(url)
    asked = ollama_host.candidates(os.environ)
    answering = find_ollama.answering(asked)
    if not answering:
        raise BenchError(f"no Ollama answers at {' and '.join(address.url for address in asked)}")
    straight = next((found.address for found in answering if found.behind is None), None)
    if straight is None:
        raise BenchError("only toolmend answers; name the Ollama behind it with --url")
    return straight


def _measure(plan: Plan, server: Address, trials: list[Trial], asked: list[int]) -> None:
    """Send all requests and add what comes of them to `trials`, and the number of follow-ups to `asked`."""
    with TemporaryDirectory(prefix="toolmend-") as folder:
        log = Path(folder) / "log.jsonl"
        try:
            with launch.proxy(server, "--set", f"toolmend_log={log}", "--set", "toolmend_quiet=on") as proxy:
                _send_all(plan, {"raw": server, "toolmend": proxy.address}, trials)
        finally:
            asked.append(_follow_ups(log))


def _follow_ups(log: Path) -> int:
    lines = log.read_text(encoding="utf-8").splitlines() if log.exists() else []
    return sum(json.loads(line).get("follow_ups", 0) for line in lines)


def _send_all(plan: Plan, ways: dict[str, Address], trials: list[Trial]) -> None:
    console = Console(stderr=True)
    columns = (
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(),
        TextColumn("{task.fields[score]}", markup=False),
    )
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal) as progress:
        bar = progress.add_task(plan.model, total=len(plan), score="")
        for number, task, stream, way in plan:
            trials.append(_try(plan, number, task, stream, way, ways[way]))
            progress.update(bar, advance=1, score=_score(trials))


def _score(trials: Sequence[Trial]) -> str:
    return ", ".join(f"{way} {_count([each for each in trials if each.way == way])}" for way in WAYS)


def _try(plan: Plan, number: int, task: Task, stream: bool, way: str, address: Address) -> Trial:
    surface = surface_named(plan.surface)
    document = request(plan.surface, plan.model, task.prompt, stream=stream, seed=number + 1)
    try:
        answer = send(address, Call(surface.path, document), plan.timeout)
    except (OSError, http.client.HTTPException) as error:
        return Trial(
            task.tool, number, way, stream, usable=False, why_not=f"no answer: {error or type(error).__name__}"
        )
    if way == "raw" and 400 <= answer.status < 500:
        raise BenchError(f"the server refuses {plan.model}: {_message(answer)}")
    seen = read(surface, document, answer)
    wrong = [fault.message for fault in seen.faults]
    names = [call.name for call in seen.turn.calls]
    if seen.turn.error is not None:
        wrong.append(f"error: {seen.turn.error}")
    elif not names:
        wrong.append("no call")
    elif task.tool not in names:
        wrong.append(f"called {', '.join(names)}")
    return Trial(task.tool, number, way, stream, not wrong, "; ".join(wrong), answer.first, answer.seconds)


def _message(answer: Answer) -> str:
    document = answer.json()
    error = document.get("error") if isinstance(document, dict) else None
    said = error.get("message") if isinstance(error, dict) else error
    return str(said or f"status {answer.status}")


# Saying it


def as_json(plan: Plan, trials: Sequence[Trial], follow_ups: int, *, complete: bool) -> JsonObject:
    """Return the whole measurement: totals first, then every trial."""
    totals: JsonObject = {}
    for stream, way in COLUMNS:
        ours = _column(trials, stream, way)
        totals[f"{way}, {'streamed' if stream else 'whole'}"] = {
            "usable": sum(trial.usable for trial in ours),
            "of": len(ours),
            "median_seconds": _median_seconds(ours),
        }
    return {
        "toolmend": __version__,
        "model": plan.model,
        "surface": plan.surface,
        "trials": plan.trials,
        "complete": complete,
        "follow_ups": follow_ups,
        "totals": totals,
        "results": [dict(asdict(trial)) for trial in trials],
    }


def table(plan: Plan, trials: Sequence[Trial], follow_ups: int) -> Table:
    """Draw the counts: a row for each tool, raw beside toolmend."""
    drawn = Table(title=f"usable calls of {escape(plan.model)} on {plan.surface}", title_justify="left")
    drawn.add_column("tool")
    for stream, way in COLUMNS:
        drawn.add_column(f"{'streamed' if stream else 'whole'}, {way}", justify="right")
    for task in TASKS:
        drawn.add_row(task.tool, *_cells([each for each in trials if each.tool == task.tool]))
    drawn.add_section()
    drawn.add_row("all", *_cells(trials), style="bold")
    seconds = [_median_seconds(_column(trials, stream, way)) for stream, way in COLUMNS]
    drawn.add_row("median seconds", *("-" if value is None else f"{value:.2f}" for value in seconds))
    drawn.caption = f"{follow_ups} follow-up{'' if follow_ups == 1 else 's'} to the model"
    return drawn


def _cells(trials: Sequence[Trial]) -> Iterator[str]:
    for stream, way in COLUMNS:
        count = _count(_column(trials, stream, way))
        yield f"[green]{count}[/]" if way == "toolmend" else count


def _column(trials: Sequence[Trial], stream: bool, way: str) -> list[Trial]:
    return [trial for trial in trials if (trial.stream, trial.way) == (stream, way)]


def _count(trials: Sequence[Trial]) -> str:
    return f"{sum(trial.usable for trial in trials)}/{len(trials)}"


def _median_seconds(trials: Sequence[Trial]) -> float | None:
    times = [trial.seconds for trial in trials if trial.seconds is not None]
    return round(median(times), 3) if times else None
