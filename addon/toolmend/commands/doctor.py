"""See whether all is in its place: Ollama, its models, the port, and toolmend in the path.

It starts nothing that stays, loads no model and changes nothing. Exit code 1 when something is wrong (✗), 0 when all is
well or only remarks are left (!).
"""

from __future__ import annotations

import argparse
import http.client
import json
import os
import platform
import sys
import urllib.request
import uuid
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from toolmend import __version__
from toolmend.commands import demo, demo_server, find_ollama, launch, local_mode, ollama_host, ports
from toolmend.commands.find_ollama import Found
from toolmend.commands.http_client import Call, send
from toolmend.commands.models import Model, all_models
from toolmend.commands.ollama_host import USUAL_PORT, Address
from toolmend.mitm.presence_headers import ANSWER, QUESTION, read_answer

if TYPE_CHECKING:
    from mitmproxy.options import Options

Level = Literal["ok", "note", "warning", "wrong"]
SIGNS: Final[Mapping[Level, str]] = {
    "ok": "[green]✓[/]",
    "note": "[dim]·[/]",
    "warning": "[yellow]![/]",
    "wrong": "[red]✗[/]",
}
OLDEST_MITMPROXY: Final = (11, 0, 2)
SMALL_WINDOW: Final = 8192
BYTES_PER_TOKEN: Final = 3.5
SECONDS: Final = 5.0
LOST_CALL: Final = 10  # the recorded exchange whose call was swallowed, in a stream


@dataclass(frozen=True, slots=True)
class Check:
    """Hold one thing that was looked at: what was found, and what to do about it ("" when nothing)."""

    name: str
    level: Level
    said: str
    do: str = ""


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--json", action="store_true", help="print one JSON document")
    parser.add_argument(
        "--url", help=f"the address that your agents use (default: http://127.0.0.1:{USUAL_PORT})", metavar="URL"
    )
    parser.add_argument(
        "--request", type=Path, metavar="FILE", help="a chat request of your agent: does it fit the context window?"
    )


def run(args: argparse.Namespace) -> int:
    """Look at everything and say what was found."""
    try:
        agents = ollama_host.from_url(args.url or f"http://127.0.0.1:{USUAL_PORT}")
        request = None if args.request is None else _load(args.request)
    except (OSError, ValueError) as error:
        print(f"toolmend doctor: {error}", file=sys.stderr)
        return 2
    answering = find_ollama.answering(ollama_host.candidates(os.environ))
    found = next((each for each in answering if each.behind is None), next(iter(answering), None))
    models = all_models(found.address) if found else []
    checks = list(look(found, agents, models, request, os.environ))
    wrong = any(check.level == "wrong" for check in checks)
    if args.json:
        print(json.dumps(_as_json(checks, models, ok=not wrong), ensure_ascii=False, indent=1))
    else:
        _print(checks, models)
    return 1 if wrong else 0


def look(
    found: Found | None, agents: Address, models: list[Model], request: object, environ: Mapping[str, str]
) -> Iterator[Check]:
    """Make all checks, one after the other."""
    yield check_mitmproxy(version("mitmproxy"))
    yield check_late_streams()
    yield check_repair()
    yield check_ollama(found, environ)
    yield from check_told_address(environ)
    yield check_path(agents, environ)
    if found is not None:
        if found.behind is None:
            yield check_port(found.address)
        yield check_tools(models)
        yield from check_windows(models, request)
    yield from check_proxy_variables(environ, agents)
    yield check_local_mode(platform.system(), platform.release(), version("mitmproxy"))


# mitmproxy and the addon


def check_mitmproxy(installed: str) -> Check:
    """See that mitmproxy is new enough."""
    said = f"toolmend {__version__}, mitmproxy {installed}, Python {platform.python_version()}"
    if local_mode.numbers(installed) < OLDEST_MITMPROXY:
        oldest = ".".join(map(str, OLDEST_MITMPROXY))
        return Check(
            "mitmproxy", "wrong", said, f"toolmend needs mitmproxy {oldest} or newer: pip install -U mitmproxy"
        )
    return Check("mitmproxy", "ok", said)


def check_late_streams() -> Check:
    """See whether the end of a streamed answer can wait for a follow-up: drive mitmproxy's HTTP layer once."""
    from toolmend.mitm import late_stream

    works = late_stream.install(_options())
    late_stream.remove()
    if works:
        return Check("streams", "ok", "calls in streamed answers can be asked for once more")
    return Check(
        "streams",
        "warning",
        "this mitmproxy does not let the end of a streamed answer wait",
        "streamed calls are repaired without follow-ups; a version known to work: pip install mitmproxy==12.3.1",
    )


def _options() -> Options:
    """Return mitmproxy's options with those of its proxy server, which is what the HTTP layer looks at."""
    from mitmproxy.addons.proxyserver import Proxyserver
    from mitmproxy.options import Options

    class Declaring:
        """Take declarations as mitmproxy's loader does, which needs a whole master."""

        options = Options()

        def add_option(self, *declared: Any, **more: Any) -> None:  # Any: what is declared is mitmproxy's own affair
            self.options.add_option(*declared, **{"choices": None, **more})

    declaring = Declaring()
    Proxyserver().load(declaring)
    return declaring.options


def check_repair() -> Check:
    """Run mitmdump with the addon in front of a recorded stream, and see that the call lost in it comes back whole."""
    try:
        (shown,) = demo.exchanges([demo_server.load()[LOST_CALL]])
    except (launch.LaunchError, OSError, http.client.HTTPException) as error:
        return Check("addon", "wrong", f"a recorded answer did not come through: {error}", "what it printed tells why")
    if shown.right:
        return Check("addon", "ok", "a lost call was sent through mitmdump with toolmend, and came back whole")
    return Check(
        "addon", "wrong", "a lost call came back as it was", "please report this, with what toolmend demo shows"
    )


# Ollama


def check_ollama(found: Found | None, environ: Mapping[str, str]) -> Check:
    """See that Ollama answers."""
    if found is None:
        where = " and ".join(address.url for address in ollama_host.candidates(environ))
        return Check("ollama", "wrong", f"no Ollama answers at {where}", "start it: ollama serve")
    return Check("ollama", "ok", f"{found.what} answers at {found.address.url}")


def check_told_address(environ: Mapping[str, str]) -> Iterator[Check]:
    """Say what OLLAMA_HOST means where that may not be what was meant."""
    told = environ.get("OLLAMA_HOST", "").strip()
    if not told:
        return
    address = ollama_host.parse(told)
    yield Check(
        "OLLAMA_HOST",
        "note",
        f"{told} means {address.url}; clients that read it go there, past whatever listens elsewhere",
    )
    if told.isdigit():
        yield Check(
            "OLLAMA_HOST", "warning", f"{told} alone is a host's name for Ollama", f"a port alone is written :{told}"
        )
    if ollama_host.listens_everywhere(told):
        yield Check(
            "OLLAMA_HOST",
            "warning",
            f"a server started with {told} is open to the whole network",
            "for this machine alone: OLLAMA_HOST=127.0.0.1:11435",
        )


def check_path(agents: Address, environ: Mapping[str, str]) -> Check:
    """Send a request where agents send theirs, and see whether it came through toolmend."""
    seen = find_ollama.look(agents)
    if seen is None:
        taker = ports.owner(agents.port) if agents.is_loopback else None
        who = f" ({taker} listens there)" if taker else ""
        return Check("path", "warning", f"nothing that answers like Ollama at {agents.url}{who}", "start it: toolmend")
    if seen.behind is None:
        do = "start it: toolmend; how no agent has to change: docs/modes.md"
        return Check("path", "warning", f"{agents.url} is {seen.what} itself: toolmend is not in the path", do)
    behind = seen.behind
    said = f"a request to {agents.url} was sent and found in toolmend {behind['version']}"
    return Check("path", "ok", f"{said} (mitmproxy {behind.get('mitmproxy')}, {behind.get('mode')} mode)")


def check_port(server: Address) -> Check:
    """See that the port is free that toolmend would take."""
    port = ollama_host.room_left(server)
    if ports.is_free("127.0.0.1", port):
        return Check("port", "ok", f"{port} is free for toolmend")
    taker = ports.owner(port)
    return Check(
        "port", "wrong", f"{port} is taken by {taker or 'another program'}", f"another one: toolmend -p {port + 1}"
    )


# Models


def check_tools(models: list[Model]) -> Check:
    """Count the models that call tools."""
    able = sum(model.calls_tools for model in models)
    if not able:
        return Check(
            "models", "warning", f"none of {len(models)} models calls tools", "one that does: ollama pull qwen3:8b"
        )
    return Check("models", "ok", f"{able} of {len(models)} models call tools")


def check_windows(models: list[Model], request: object) -> Iterator[Check]:
    """See whether context windows hold the tools: a prompt that is too long loses its beginning, without a word."""
    needed = None if request is None else estimated_tokens(request)
    if needed is not None:
        yield Check("request", "note", f"the request takes about {needed} tokens")
    for model in models:
        if not model.calls_tools or model.window is None:
            continue
        if model.window < (SMALL_WINDOW if needed is None else needed):
            why = "the tools of most agents" if needed is None else "this request"
            yield Check(
                "window",
                "warning",
                f"{model.name} has a context window of {model.window} tokens: too small for {why}",
                "the prompt is cut, and models invent tools; start Ollama with OLLAMA_CONTEXT_LENGTH=32768",
            )


def estimated_tokens(request: object) -> int:
    """Estimate how many tokens a request takes: what is sent to the model, not the keys of the format around it."""
    parts = (
        [request.get(key) for key in ("tools", "messages", "input", "system", "instructions")]
        if isinstance(request, dict)
        else [request]
    )
    size = sum(len(json.dumps(part, ensure_ascii=False).encode()) for part in parts if part)
    return round(size / BYTES_PER_TOKEN)


def _load(path: Path) -> object:
    try:
        loaded: object = json.loads(path.read_bytes())
    except ValueError as error:
        raise ValueError(f"{path} is no JSON: {error}") from error
    return loaded


# The surroundings


def check_proxy_variables(environ: Mapping[str, str], agents: Address) -> Iterator[Check]:
    """See where clients go that obey HTTP_PROXY (Python, curl; Node's fetch and Go do not, for loopback)."""
    proxy = urllib.request.getproxies().get("http")
    if not proxy or urllib.request.proxy_bypass(agents.host):
        return
    try:
        word = uuid.uuid4().hex
        answer = send(ollama_host.from_url(proxy), Call(f"{agents.url}/api/version", headers={QUESTION: word}), SECONDS)
        behind = read_answer(answer.headers.get(ANSWER, ""), word)
    except (OSError, ValueError, http.client.HTTPException):
        behind = None
    name = "HTTP_PROXY" if environ.get("HTTP_PROXY") else "http_proxy"
    if behind is not None:
        yield Check("HTTP_PROXY", "ok", f"clients that obey {name}={proxy} come through toolmend")
    else:
        yield Check(
            "HTTP_PROXY",
            "warning",
            f"{name}={proxy} is set, and toolmend is not behind it",
            f"Python clients send even {agents.host} there, unless NO_PROXY={agents.host} is set",
        )


def check_local_mode(system: str, release: str, mitmproxy: str) -> Check:
    """Say whether mitmproxy could capture an agent's own process (`--mode local:NAME`)."""
    if missing := local_mode.lacking(system, release, mitmproxy):
        return Check("local mode", "note", f"capture of a process is not to be had here: it lacks {', '.join(missing)}")
    if system == "Windows":
        return Check("local mode", "note", "capture of a process leaves out connections inside this machine (Windows)")
    return Check("local mode", "note", "capture of a process should work here: toolmend --mode local:NAME")


# Saying it


def _as_json(checks: list[Check], models: list[Model], *, ok: bool) -> dict[str, object]:
    return {
        "ok": ok,
        "checks": [asdict(check) for check in checks],
        "models": [asdict(model) for model in models],
    }


def _print(checks: list[Check], models: list[Model]) -> None:
    console = Console(highlight=False)
    table = Table.grid(padding=(0, 1))
    for check in checks:
        table.add_row(SIGNS[check.level], escape(check.name), escape(check.said))
        if check.do:
            table.add_row("", "", f"[dim]→ {escape(check.do)}[/]")
    console.print(table)
    if models:
        console.print(_model_table(models))


def _model_table(models: list[Model]) -> Table:
    table = Table(box=None, padding=(0, 2, 0, 0), title_justify="left")
    for heading in ("model", "calls tools", "its calls are read by", "context window"):
        table.add_column(heading, overflow="fold")
    for model in sorted(models, key=lambda each: (not each.calls_tools, each.name)):
        window = "server's default" if model.window is None else str(model.window)
        if model.trained:
            window += f" of {model.trained}"
        calls = "[green]yes[/]" if model.calls_tools else "no"
        table.add_row(escape(model.name), calls, escape(model.path), window + (" (loaded)" if model.loaded else ""))
    return table
