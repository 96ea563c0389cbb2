"""Make a recording as small as it can be and still show the same fault: fewer tools, less text, fewer chunks."""

from __future__ import annotations

import argparse
from pathlib import Path

from rich.console import Console

from toolmend import minimizing, recordings
from toolmend.commands import recording_files
from toolmend.mitm.whole_files import write_over


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("file", type=Path, metavar="FILE", help="recording")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="where to write (default: over FILE)")


def run(arguments: argparse.Namespace) -> int:
    """Minimize, and return 0, or 1 when the file cannot be read."""
    recording = recording_files.read_or_complain("minimize", arguments.file)
    if recording is None:
        return 1
    err = Console(stderr=True)
    with err.status("minimizing") as status:
        small = minimizing.minimize(recording, lambda step: status.update(f"minimizing: {step}"))
    data = recordings.write(small)
    before, place = arguments.file.stat().st_size, arguments.output or arguments.file
    write_over(place, data)
    print(f"{place}: {before} bytes before, {len(data)} now")
    return 0
