"""Stand in front of the Ollama on this machine and mend its tool calls.

Every argument that is not toolmend's own goes to mitmdump as it is, so all of mitmproxy's options work here:
`toolmend -p 9000`, `toolmend --set toolmend_record=recordings`, `toolmend --mode regular`. Arguments win over what
toolmend sets by itself: --listen-host 127.0.0.1 and, in front of this machine's Ollama, keep_host_header=true.

Without --mode it looks for Ollama where OLLAMA_HOST says, or on 11434 and 11435. Exit codes: 1 when it cannot start
(nothing answers, the port is taken), 2 for wrong arguments, else mitmdump's.
"""

from __future__ import annotations

import argparse
import platform
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from importlib.metadata import version
from typing import Final

from rich.console import Console
from rich.markup import escape

from toolmend import __version__
from toolmend.commands import find_ollama, launch, local_mode, ollama_host, ports
from toolmend.commands.find_ollama import Found
from toolmend.commands.ollama_host import MOVED_PORT, USUAL_PORT, Address

PROXY_PORT: Final = 8080  # mitmproxy's own default, for every mode but ours
LAST_PORT: Final = 65535
LOOPBACK: Final = "127.0.0.1"
SHARING_MODES: Final = ("regular", "reverse", "upstream", "transparent", "socks5")  # those that listen on --listen-port


@dataclass(frozen=True, slots=True)
class Given:
    """Hold the arguments that we must know of. `rest` is for mitmdump: all of them in order, but our own switches."""

    program: str
    modes: tuple[str, ...]
    listen_host: str | None
    listen_port: str | None
    options: tuple[str, ...]
    quiet: bool
    only_tells: bool
    rest: tuple[str, ...]

    def sets(self, option: str) -> bool:
        """Tell whether an option of mitmproxy is set by the arguments."""
        return any(given.partition("=")[0] == option for given in self.options)

    def value(self, option: str) -> str | None:
        """Return what the arguments set an option of mitmproxy to."""
        return next((value for name, _, value in map(_parted, reversed(self.options)) if name == option), None)


def _parted(given: str) -> tuple[str, str, str]:
    return given.partition("=")


@dataclass(frozen=True, slots=True)
class Plan:
    """Hold what is started: the arguments, and what a person is told first."""

    arguments: tuple[str, ...]
    lines: tuple[str, ...]


class StartError(RuntimeError):
    """Raised with what is in the way, in words for a person."""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare our own switches; everything else is mitmdump's."""
    parser.add_argument("--web", action="store_true", help="show the flows in a browser (mitmweb)")
    parser.add_argument("--tui", action="store_true", help="show the flows in this terminal (mitmproxy)")
    parser.add_argument("arguments", nargs="*", metavar="…", help="arguments of mitmdump (see mitmdump --help)")


def read(arguments: Sequence[str]) -> Given:
    """Read the arguments that we must know of, as mitmproxy itself would."""
    parser = argparse.ArgumentParser(add_help=False, allow_abbrev=False, exit_on_error=False)
    parser.add_argument("--web", action="store_const", dest="program", const="mitmweb", default="mitmdump")
    parser.add_argument("--tui", action="store_const", dest="program", const="mitmproxy")
    ours, rest = parser.parse_known_args(list(arguments))
    parser.add_argument("--mode", "-m", action="append", default=[])
    parser.add_argument("--listen-host")
    parser.add_argument("--listen-port", "-p")
    parser.add_argument("--set", action="append", default=[], dest="options")
    parser.add_argument("--quiet", "-q", action="store_true")
    for name in ("--version", "--options", "--commands"):
        parser.add_argument(name, action="store_true", dest="only_tells")
    known, _ = parser.parse_known_args(rest)
    modes = [value for option, _, value in map(_parted, known.options) if option == "mode"]
    return Given(
        program=ours.program,
        modes=(*known.mode, *modes),
        listen_host=known.listen_host,
        listen_port=known.listen_port,
        options=tuple(known.options),
        quiet=known.quiet,
        only_tells=known.only_tells,
        rest=tuple(rest),
    )


def start(arguments: Sequence[str], environ: Mapping[str, str]) -> int:
    """Become mitmdump (or mitmweb, mitmproxy) with the addon. Returns an exit code only when that cannot be."""
    console = Console(stderr=True, highlight=False, soft_wrap=True)
    try:
        given = read(arguments)
        made = plan(given, environ)
    except (argparse.ArgumentError, StartError) as error:
        console.print(f"toolmend: {escape(str(error))}")
        return 1 if isinstance(error, StartError) else 2
    if not given.quiet:
        for line in made.lines:
            console.print(line)
    return launch.replace_process([*launch.program(given.program), *made.arguments])


def plan(given: Given, environ: Mapping[str, str]) -> Plan:
    """Decide what to start. Raises StartError when no server answers, or the port is not to be had."""
    script = ("-s", str(launch.script()))
    if given.only_tells:
        return Plan((*script, *given.rest), ())
    detailed = given.sets("flow_detail") or any(word.startswith("--flow-detail") for word in given.rest)
    calm = () if detailed else ("--set", "flow_detail=0")
    safe = () if given.listen_host or given.sets("listen_host") else ("--listen-host", LOOPBACK)
    host = given.listen_host or given.value("listen_host") or LOOPBACK
    if given.modes:
        _need_local_mode(given.modes)
        if any(mode.partition(":")[0] in SHARING_MODES and "@" not in mode for mode in given.modes):
            _need_port(host, _port(given, PROXY_PORT))
        keep = () if given.sets("keep_host_header") or not _keeps_host(given.modes) else _KEEP
        return Plan((*script, *calm, *safe, *keep, *given.rest), ())
    found = _find(environ)
    port = _port(given, ollama_host.room_left(found.address))
    if found.address.is_loopback and port == found.address.port:
        raise StartError(
            f"port {port} is Ollama's own.\n  To take it without a change for any agent, let Ollama move: "
            f"OLLAMA_HOST=127.0.0.1:{MOVED_PORT} ollama serve"
        )
    _need_port(host, port)
    arguments = ["--mode", f"reverse:{found.address.origin}"]
    if not given.sets("keep_host_header") and found.address.is_loopback:
        arguments += _KEEP
    if given.listen_port is None and not given.sets("listen_port"):
        arguments += ["-p", str(port)]
    lines = _lines(found, Address("http", host, port), environ)
    return Plan((*script, *calm, *safe, *arguments, *given.rest), tuple(lines))


_KEEP: Final = ("--set", "keep_host_header=true")


def _keeps_host(modes: Sequence[str]) -> bool:
    """Tell whether every server named by a mode is on loopback: only there Ollama checks the Host header, and a server
    behind a name may need its own."""
    specs = [mode.partition(":")[2].partition("@")[0] for mode in modes if mode.startswith("reverse:")]
    return all(_is_loopback(spec) for spec in specs)


def _is_loopback(spec: str) -> bool:
    try:
        return ollama_host.from_url(spec).is_loopback
    except ValueError:
        return False


def _need_local_mode(modes: Sequence[str]) -> None:
    """See that a process can be captured, where that is asked for: mitmproxy's own words for it are hard to read."""
    if not any(mode.partition(":")[0] == "local" for mode in modes):
        return
    missing = local_mode.lacking(platform.system(), platform.release(), version("mitmproxy"))
    if missing:
        raise StartError(
            f"capture of a process is not to be had here: it lacks {', '.join(missing)}.\n"
            "  Other ways to stand in the middle: docs/modes.md"
        )


def _find(environ: Mapping[str, str]) -> Found:
    asked = ollama_host.candidates(environ)
    answering = find_ollama.answering(asked)
    if not answering:
        where = " and ".join(address.url for address in asked)
        raise StartError(
            f"no Ollama answers at {where}.\n"
            "  Start it (ollama serve), or name a server: toolmend --mode reverse:http://HOST:PORT -p 11434\n"
            "  To see what toolmend does without one: toolmend demo"
        )
    for found in answering:
        if found.behind is not None:
            raise StartError(
                f"toolmend {found.behind['version']} already stands in front of {found.what}, on {found.address.url}.\n"
                "  To see whether all is well: toolmend doctor"
            )
    return answering[0]


def _port(given: Given, default: int) -> int:
    told = given.listen_port if given.listen_port is not None else given.value("listen_port")
    if told is None:
        return default
    if not told.isascii() or not told.isdigit() or int(told) > LAST_PORT:
        raise StartError(f"{told!r} is no port (0 to {LAST_PORT})")
    return int(told)


def _need_port(host: str, port: int) -> None:
    """See that the port can be had, and else say who has it."""
    try:
        free = port == 0 or ports.is_free(host, port)
    except OSError as error:
        raise StartError(f"cannot listen on {host} port {port}: {error.strerror or error}") from error
    if free:
        return
    taker = ports.owner(port)
    who = f"is taken by {taker}" if taker else "is taken by another program"
    end = f"end it (kill {taker.pid}), or " if taker else ""
    raise StartError(f"port {port} on {host} {who}.\n  What to do: {end}choose another port: toolmend -p {port + 1}")


def _lines(found: Found, at: Address, environ: Mapping[str, str]) -> list[str]:
    server = found.address
    here = Address(at.scheme, at.host, at.port, server.path).url
    lines = [
        f"[bold]toolmend {__version__}[/] stands in front of {escape(found.what)} at {escape(server.url)} "
        "(Ctrl-C ends it)."
    ]
    if at.port == USUAL_PORT and not server.path:
        lines.append(f"  Agents that use {here} need no change.")
    else:
        lines.append(f"  Point agents at [bold]{escape(here)}[/] (OpenAI clients: {escape(here)}/v1).")
    if server.is_loopback and server.port == USUAL_PORT:
        lines.append(
            f"  To change no agent at all: start Ollama with OLLAMA_HOST=127.0.0.1:{MOVED_PORT} (for it alone), then "
            f"toolmend takes {USUAL_PORT}."
        )
    if environ.get("OLLAMA_HOST") and server.url == ollama_host.parse(environ["OLLAMA_HOST"]).url:
        lines.append(
            f"  OLLAMA_HOST is set here: clients that read it go straight to Ollama, unless theirs says {escape(here)}."
        )
    return lines
