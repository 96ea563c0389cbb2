"""Find, read and write recording files for the commands."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

from rich.console import Console

from toolmend import recordings
from toolmend.recordings import FormatError, Recording

FOLDER: Final = Path("recordings")


def console(plain_width: int = 240) -> Console:
    """Return a console for standard output: colours and width of a terminal; elsewhere plain text of this width."""
    return Console(highlight=False, width=None if sys.stdout.isatty() or "COLUMNS" in os.environ else plain_width)


def complain(command: str, text: str) -> None:
    """Say on standard error what is wrong."""
    print(f"toolmend {command}: {text}", file=sys.stderr)


def find_files(paths: Iterable[Path]) -> Iterator[Path]:
    """Give the recordings that paths mean: files as they are, folders with all that is in them.

    Raises:
        FileNotFoundError: A path does not exist.
    """
    for path in paths:
        if path.is_dir():
            yield from sorted(path.rglob("*.har"))
        elif path.exists():
            yield path
        else:
            raise FileNotFoundError(f"{path}: no such file or folder")


def read(path: Path) -> Recording:
    """Read one recording.

    Raises:
        OSError: The file cannot be read.
        FormatError: It is no recording.
    """
    return recordings.load(path.read_bytes())


def read_or_complain(command: str, path: Path) -> Recording | None:
    """Read one recording; say what is wrong, and return None, when that fails."""
    try:
        return read(path)
    except OSError as error:
        complain(command, f"{path}: {error.strerror or error}")
    except FormatError as error:
        complain(command, f"{path}: {error}")
    return None
