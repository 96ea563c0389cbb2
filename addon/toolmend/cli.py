"""Be the console command `toolmend`: choose a command by the first word, and start the proxy when there is none."""

from __future__ import annotations

import argparse
import ast
import difflib
import importlib
import os
import re
import shutil
import sys
import textwrap
from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version
from importlib.resources import files
from types import ModuleType
from typing import Final

from toolmend import __version__
from toolmend.commands import launch, start

COMMANDS: Final = ("doctor", "demo", "bench", "extract", "check", "accept", "show", "report", "minimize")
"""The commands, in the order of the help. Each is a module in `toolmend.commands`, named alike."""

STARTING: Final = "start"
INTERRUPTED: Final = 130
PIPE_CLOSED: Final = 141
MIN_WIDTH: Final = 60
MAX_WIDTH: Final = 100

USAGE: Final = """\
toolmend stands between your agents and Ollama and mends broken tool calls.

  toolmend                     stand in front of the Ollama on this machine
  toolmend -p 9000 --set …     the same, with any argument of mitmdump
  toolmend --web | --tui       the same, with mitmproxy's window in a browser or here

commands:
{commands}

  toolmend COMMAND --help      more about one of them
  toolmend start --help        more about standing in front of Ollama
  toolmend --path              the file for mitmproxy: mitmweb -s "$(toolmend --path)"
  toolmend --version           versions of toolmend, mitmproxy and Python

exit codes: 0 done, 1 not done or something is wrong, 2 wrong arguments, 130 interrupted
"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command that the arguments name (default: the process's own). Returns the exit code."""
    given = list(sys.argv[1:] if arguments is None else arguments)
    try:
        return _dispatch(given)
    except KeyboardInterrupt:
        return INTERRUPTED
    except BrokenPipeError:
        # Whoever read our output has had enough; Python would complain once more at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return PIPE_CLOSED


def _dispatch(given: list[str]) -> int:
    first, rest = (given[0], given[1:]) if given else ("", [])
    if first in COMMANDS:
        module = importlib.import_module(f"toolmend.commands.{first}")
        code: int = module.run(parser(first, module).parse_args(rest))
        return code
    if first in ("--help", "-h", "help"):
        print(USAGE.format(commands=_listed()), end="")
        return 0
    if first == "--version":
        print(_versions())
        return 0
    if first == "--path":
        print(launch.script())
        return 0
    if first == STARTING:
        if {"--help", "-h"} & set(rest):
            parser(STARTING, start).print_help()
            return 0
        return start.start(rest, os.environ)
    if re.fullmatch(r"[A-Za-z][\w-]*", first):
        return _unknown(first)
    return start.start(given, os.environ)


def parser(name: str, module: ModuleType) -> argparse.ArgumentParser:
    """Make the parser of one command: its module's docstring is the help, its first line the summary."""
    made = argparse.ArgumentParser(
        prog=f"toolmend {name}", description=module.__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    module.add_arguments(made)
    return made


def summary(name: str) -> str:
    """Return a command's first line of help, without its full stop. The module is read, not run: help comes at once."""
    source = files("toolmend.commands").joinpath(f"{name}.py").read_text("utf-8")
    return (ast.get_docstring(ast.parse(source)) or "").splitlines()[0].rstrip(".")


def _listed() -> str:
    width = max(MIN_WIDTH, min(MAX_WIDTH, shutil.get_terminal_size().columns))
    rows = (textwrap.fill(f"  {name:<10} {summary(name)}", width, subsequent_indent=" " * 13) for name in COMMANDS)
    return "\n".join(rows)


def _versions() -> str:
    try:
        proxy = version("mitmproxy")
    except PackageNotFoundError:
        proxy = "missing"
    return f"toolmend {__version__}, mitmproxy {proxy}, Python {sys.version.split()[0]}"


def _unknown(word: str) -> int:
    near = difflib.get_close_matches(word, [*COMMANDS, STARTING], 1)
    hint = f"did you mean {near[0]}?" if near else f"there are {', '.join(COMMANDS)}."
    print(
        f"toolmend: no such command: {word}; {hint}\n"
        f"  (A filter expression for mitmdump goes behind start: toolmend start {word})",
        file=sys.stderr,
    )
    return 2


if __name__ == "__main__":
    sys.exit(main())
