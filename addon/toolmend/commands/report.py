"""Write a ready issue text from a recording, or a page of statistics from a folder of them.

An issue needs three things: the model, the tool's schema, and what the model produced. They stand in the text.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Final

from toolmend import __version__, recordings, report
from toolmend.commands import recording_files
from toolmend.mitm.whole_files import write_over
from toolmend.model import Turn
from toolmend.recordings import FormatError, Recording

PAGE: Final = Path("toolmend-report.html")
LONGEST_BODY: Final = 6000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's arguments."""
    parser.add_argument("file", nargs="?", type=Path, metavar="FILE", help="recording to write an issue from")
    parser.add_argument("--html", type=Path, metavar="DIR", help="folder of recordings to make a page of")
    parser.add_argument("-o", "--output", type=Path, help=f"where to write (issue: standard output; page: {PAGE})")


def run(arguments: argparse.Namespace) -> int:
    """Report, and return 0, 1 when something cannot be read, 2 when the arguments do not fit together."""
    if (arguments.file is None) == (arguments.html is None):
        recording_files.complain("report", "give a recording, or --html and a folder of recordings")
        return 2
    if arguments.html is not None:
        return _write_page(arguments.html, arguments.output or PAGE)
    recording = recording_files.read_or_complain("report", arguments.file)
    if recording is None:
        return 1
    text = issue(recording)
    if arguments.output is None:
        sys.stdout.write(text)
    else:
        write_over(arguments.output, text.encode())
    return 0


def _write_page(folder: Path, place: Path) -> int:
    from toolmend import html_report  # Jinja is loaded for this alone

    try:
        files = list(recording_files.find_files([folder]))
    except FileNotFoundError as error:
        recording_files.complain("report", str(error))
        return 1
    found, code = [], 0
    for path in files:
        try:
            found.append((str(path.relative_to(folder) if folder.is_dir() else path), recording_files.read(path)))
        except (OSError, FormatError) as error:
            recording_files.complain("report", f"{path}: {error}")
            code = 1
    write_over(place, html_report.render(found).encode())
    print(f"{place}: {len(found)} recordings")
    return code


def issue(recording: Recording) -> str:
    """Write the text of an issue about a recording, in Markdown."""
    replayed = recordings.replay(recording)
    tools = recordings.tools_concerned(recording, replayed)
    schemas = (f"### `{name}`\n\n{_fenced(_json(schema), 'json')}" for name, schema in tools.items())
    done = [f"- {line}" for line in report.sentences(replayed.outcome)] or ["- nothing"]
    body = recording.original.body.decode("utf-8", "replace")
    form = "streamed" if recordings.exchange_of(recording).request.stream else "whole"
    return "\n".join(
        [
            f"**Model** `{recording.model}`, **server** {recording.server or 'unknown'}, **surface** "
            f"`{recording.surface}`, {form}, **toolmend** {__version__}",
            "",
            "## Tool schema",
            "",
            *schemas,
            "## What the model produced",
            "",
            _fenced(replayed.received.raw or body[:LONGEST_BODY]),
            "## What toolmend made of it",
            "",
            *done,
            "",
            _fenced(_calls(replayed.outcome.turn), "json"),
            "## What I expected",
            "",
            "",
        ]
    )


def _json(value: object) -> str:
    return json.dumps(value, indent=1, ensure_ascii=False)


def _calls(turn: Turn) -> str:
    if not turn.calls:
        return _json({"text": turn.text, "error": turn.error})
    return _json([{"name": call.name, "arguments": call.arguments} for call in turn.calls])


def _fenced(text: str, language: str = "") -> str:
    """Put a text in a code fence that is longer than any in it."""
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{fence}{language}\n{text.rstrip()}\n{fence}\n"
