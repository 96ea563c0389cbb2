"""Show a recording: the call as the model sent it, the call as the agent got it, and what was done, in words."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.syntax import Syntax
from rich.text import Text

from toolmend import recordings, report
from toolmend.commands import recording_files
from toolmend.model import Turn
from toolmend.recordings import Recording


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("paths", nargs="+", type=Path, metavar="FILE", help="recording, or folder of recordings")


def run(arguments: argparse.Namespace) -> int:
    """Show, and return 0, or 1 when a file cannot be read."""
    out = recording_files.console(plain_width=120)
    try:
        files = list(recording_files.find_files(arguments.paths))
    except FileNotFoundError as error:
        recording_files.complain("show", str(error))
        return 1
    code = 0
    for path in files:
        recording = recording_files.read_or_complain("show", path)
        if recording is None:
            code = 1
        else:
            _show(out, path, recording)
    return code


def _show(out: Console, path: Path, recording: Recording) -> None:
    outcome = recording.outcome
    out.print(Text(str(path), "bold"))
    out.print(f"{recording.surface}, {recording.model}, {recording.server}", markup=False)
    received = recordings.replay(recording).received
    out.print(Panel(_turn(received), title="as the model sent it", title_align="left", border_style="yellow"))
    for repair in outcome.repairs:
        out.print(Text(f"  ✓ {repair.rung:<9} {_place(repair.path)}{report.say_repair(repair)}", "cyan"))
    for fault in outcome.faults:
        out.print(Text(f"  ✗ {fault.keyword:<9} {_place(fault.path)}{report.say_fault(fault)}", "red"))
    if not outcome.repairs and not outcome.faults:
        out.print("  nothing to repair: it passes as the bytes that came")
    title = "as the agent got it"
    out.print(Panel(_turn(outcome.turn), title=title, title_align="left", border_style="green"))


def _place(path: str) -> str:
    """Say which call, where there is one: the words only say where in it."""
    index, _ = report.split_path(path)
    return "" if index is None else f"call {index + 1}: "


def _turn(turn: Turn) -> RenderableType:
    """Render a turn: its calls as JSON, and what else it holds as text."""
    parts: list[RenderableType] = [
        Text(f"{name}: {value}")
        for name, value in (("error", turn.error), ("thinking", turn.thinking), ("text", turn.text), ("raw", turn.raw))
        if value
    ]
    for call in turn.calls:
        parts.append(Text(call.name, "bold"))
        code = json.dumps(call.arguments, indent=2, ensure_ascii=False)
        parts.append(Syntax(code, "json", theme="ansi_dark", background_color="default", word_wrap=True))
    return Group(*parts) if parts else Text(f"nothing (finish {turn.finish}, {turn.tokens} tokens)", "dim")
