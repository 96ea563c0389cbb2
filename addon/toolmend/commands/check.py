"""Replay recordings and say for each whether it comes out as expected, however it is cut, whole and streamed.

Without a PATH, the folder `recordings` is checked. Exit code 1: one of them does not.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.progress import track
from rich.table import Table
from rich.text import Text

from toolmend import checking, report
from toolmend.commands import recording_files
from toolmend.model import JsonObject
from toolmend.recordings import FormatError, Recording

STYLES: Final = {"valid": "green", "text": "dim", "repaired": "cyan", "broken": "yellow", "": "red"}


@dataclass(frozen=True, slots=True)
class Checked:
    """Hold what came out for one file: `problems` by the name of the check, `verdict` "" when it cannot be read."""

    path: Path
    verdict: str
    done: str
    problems: dict[str, str]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("paths", nargs="*", type=Path, metavar="PATH", help="recording, or folder of recordings")
    parser.add_argument("--json", action="store_true", help="print a JSON list instead of a table")


def run(arguments: argparse.Namespace) -> int:
    """Check, and return 0 when everything is as it should be."""
    try:
        files = list(recording_files.find_files(arguments.paths or [recording_files.FOLDER]))
    except FileNotFoundError as error:
        recording_files.complain("check", str(error))
        return 1
    if not files:
        recording_files.complain("check", "no recordings (*.har) there")
        return 1
    err = Console(stderr=True)
    checked = [
        check(path) for path in track(files, "replaying", console=err, transient=True, disable=not err.is_terminal)
    ]
    if arguments.json:
        print(json.dumps([_as_object(one) for one in checked], indent=1, ensure_ascii=False))
    else:
        _show(recording_files.console(), checked)
    return 1 if any(one.problems for one in checked) else 0


def check(path: Path) -> Checked:
    """Check one file."""
    try:
        recording = recording_files.read(path)
        problems = checking.problems(recording)
    except (OSError, FormatError) as error:
        return Checked(path, "", "", {"readable": str(error)})
    return Checked(path, report.verdict(recording.outcome), _done(recording), problems)


def _done(recording: Recording) -> str:
    """Say in a few words what was done, and what is left."""
    rungs = dict.fromkeys(repair.rung for repair in recording.outcome.repairs)
    faults = dict.fromkeys(fault.keyword for fault in recording.outcome.faults)
    return ", ".join([*rungs, *(f"left: {keyword}" for keyword in faults)])


def _as_object(checked: Checked) -> JsonObject:
    return {
        "file": str(checked.path),
        "verdict": checked.verdict,
        "done": checked.done,
        "problems": dict(checked.problems),
    }


def _show(out: Console, checked: list[Checked]) -> None:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for name in ("", "recording", "verdict", "what was done"):
        table.add_column(name, overflow="fold")
    for one in checked:
        mark = Text("✗", "red") if one.problems else Text("✓", "green")
        table.add_row(mark, str(one.path), Text(one.verdict or "unreadable", STYLES[one.verdict]), one.done)
    out.print(table)
    for one in checked:
        for name, problem in one.problems.items():
            out.print(Text(f"\n{one.path}: {name}", "red"))
            out.print(problem, markup=False)
    failed = sum(bool(one.problems) for one in checked)
    out.print(f"\n{len(checked)} recordings, {failed} failed")
