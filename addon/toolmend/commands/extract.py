"""Turn HAR files and mitmproxy's flow files into recordings: one redacted file for each fault found.

Reads what `mitmdump -w`, `mitmdump --set hardump=…`, a browser or any other tool wrote. Files may be of any size.
"""

from __future__ import annotations

import argparse
import io
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from rich.console import Console
from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

from toolmend import extracting, recordings
from toolmend.commands import recording_files
from toolmend.extracting import Found
from toolmend.har import Read
from toolmend.mitm.whole_files import write_over
from toolmend.recordings import FormatError, Recording, TooLarge

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

HEAD: Final = 64
BUFFER: Final = 1 << 18
LARGEST_FILE: Final = 2_000_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("files", nargs="+", type=Path, metavar="FILE", help="HAR or mitmproxy flow file")
    parser.add_argument(
        "-o", "--into", type=Path, default=recording_files.FOLDER, metavar="DIR", help="where to write (%(default)s)"
    )
    parser.add_argument(
        "--which",
        choices=("broken", "repaired", "all"),
        default="repaired",
        help="answers that are still broken after repair, those and the repaired ones (default), or all with tools",
    )
    parser.add_argument("--keep-prompts", action="store_true", help="keep the messages instead of their shape")


def run(arguments: argparse.Namespace) -> int:
    """Extract, and return 0, or 1 when a file could not be read to its end."""
    found, tally = Found(), Tally()
    code = 0
    out = recording_files.console()
    for path in arguments.files:
        try:
            with path.open("rb", buffering=0) as file, _progress() as progress:
                shown: io.BufferedReader[_Shown] = io.BufferedReader(_Shown(file, progress, path), BUFFER)
                for recording in extracting.find(_exchanges(shown, found), arguments.which, found):
                    _write(arguments.into, recording, arguments.keep_prompts, tally)
        except (OSError, FormatError) as error:
            recording_files.complain("extract", f"{path}: {error}")
            code = 1
    _summarise(out, found, tally)
    return code


@dataclass(slots=True)
class Tally:
    """Count what became of the recordings: files written, faults known already, and reasons not to write one."""

    written: list[Path] = field(default_factory=list)
    known: int = 0
    refused: Counter[str] = field(default_factory=Counter)


def _summarise(out: Console, found: Found, tally: Tally) -> None:
    for place in tally.written:
        out.print(str(place), markup=False)
    out.print(
        f"{found.exchanges} exchanges, {found.chats} chats, {found.with_tools} with tools, {found.kept} worth keeping: "
        f"{len(tally.written)} written, {tally.known} of faults recorded already"
    )
    for reason, count in (found.skipped + tally.refused).most_common():
        out.print(f"skipped {count}: {reason}", markup=False)


def _write(folder: Path, recording: Recording, keep_prompts: bool, tally: Tally) -> None:
    """Write a recording under the name of its fault, unless that is there already."""
    path: Path = folder / recordings.file_name(recording)
    if path.exists():
        tally.known += 1
        return
    try:
        data = recordings.dump(recording, keep_prompts=keep_prompts, max_bytes=LARGEST_FILE)
    except TooLarge as error:
        tally.refused[str(error)] += 1
        return
    path.parent.mkdir(parents=True, exist_ok=True)
    write_over(path, data)
    tally.written.append(path)


def _exchanges(file: io.BufferedReader[_Shown], found: Found) -> Iterator[tuple[Read, ...]]:
    head = file.peek(HEAD)
    if extracting.is_har(head):
        if head.startswith(extracting.BOM):
            file.read(len(extracting.BOM))
        return extracting.read_entries(extracting.read_har(file), found)
    from toolmend.mitm.flow_files import read_flows  # mitmproxy takes a second to load

    return read_flows(file, found)


def _progress() -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), DownloadColumn(), TimeRemainingColumn())
    console = Console(stderr=True)
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)


class _Shown(io.RawIOBase):
    """Read a file and show how far."""

    def __init__(self, file: io.FileIO, progress: Progress, path: Path) -> None:
        self._file = file
        self._progress = progress
        self._task = progress.add_task(path.name, total=path.stat().st_size)

    def readable(self) -> bool:
        """Say yes."""
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        """Read some of the file into a buffer."""
        count = self._file.readinto(buffer) or 0
        self._progress.advance(self._task, count)
        return count
