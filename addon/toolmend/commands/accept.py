"""Write into recordings what is expected of them: what repair makes of them today. Shows what that changes.

Read the diff: it is the whole review of a recording.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.console import Console
from rich.text import Text

from toolmend import checking, recordings
from toolmend.commands import recording_files
from toolmend.mitm.whole_files import write_over


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("paths", nargs="+", type=Path, metavar="FILE", help="recording, or folder of recordings")


def run(arguments: argparse.Namespace) -> int:
    """Accept, and return 0, or 1 when a file cannot be read."""
    out = recording_files.console()
    try:
        files = list(recording_files.find_files(arguments.paths))
    except FileNotFoundError as error:
        recording_files.complain("accept", str(error))
        return 1
    return max((_accept(out, path) for path in files), default=0)


def _accept(out: Console, path: Path) -> int:
    recording = recording_files.read_or_complain("accept", path)
    if recording is None:
        return 1
    changed = checking.difference(recording, recording.outcome)
    out.print(f"{path}: {'accepted' if changed or recording.expected is None else 'as it was'}", markup=False)
    for line in (changed or "").splitlines():
        out.print(Text(line, {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "")))
    write_over(path, recordings.write(recordings.accepted(recording)))
    return 0
