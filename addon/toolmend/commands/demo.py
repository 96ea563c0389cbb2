"""Show broken tool calls and what becomes of them, without Ollama and without a model.

Recorded answers of a real Ollama server are served on a free port of this machine. Each request is sent twice: straight
to that server, and through a real mitmdump with toolmend in front of it. You see what a client gets in both cases.
Exit code 1 when a call did not come back as it should.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from toolmend.commands import demo_server, launch
from toolmend.commands.demo_server import Recorded
from toolmend.commands.http_client import Answer, Call, send
from toolmend.commands.ollama_host import Address
from toolmend.commands.reading import Seen, read, surface_named
from toolmend.model import Json, JsonObject, ToolCall

TIMEOUT: Final = 20.0
LONGEST: Final = 600


@dataclass(frozen=True, slots=True)
class Shown:
    """Hold one exchange as a client saw it without and with toolmend, and what toolmend said of it."""

    recorded: Recorded
    raw: Seen
    mended: Seen
    same_bytes: bool
    said: str

    @property
    def right(self) -> bool:
        """Tell whether the calls that came through toolmend are the ones that were meant, without a fault."""
        return self._is_right(self.mended)

    @property
    def raw_is_right(self) -> bool:
        """Tell the same of the calls that came straight from the server."""
        return self._is_right(self.raw)

    def _is_right(self, seen: Seen) -> bool:
        calls = [{"name": call.name, "arguments": call.arguments} for call in seen.turn.calls]
        return not seen.faults and calls == list(self.recorded.meant)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the arguments."""
    parser.add_argument("--json", action="store_true", help="print one JSON document in place of pictures")
    parser.add_argument("--list", action="store_true", help="name the exchanges and stop")
    parser.add_argument("--only", type=int, metavar="N", help="show the exchange with this number alone")


def run(args: argparse.Namespace) -> int:
    """Show the exchanges."""
    recorded = demo_server.load()
    if args.list:
        for number, each in enumerate(recorded, 1):
            print(f"{number:3}  {each.surface:<19} {'streamed' if each.stream else 'whole':<9} {each.title}")
        return 0
    if args.only is not None:
        if not 1 <= args.only <= len(recorded):
            print(f"toolmend demo: there are 1 to {len(recorded)}, not {args.only}", file=sys.stderr)
            return 2
        recorded = recorded[args.only - 1 : args.only]
    try:
        with launch.ends_on_terminate():
            shown = _show_all(Console(highlight=False), recorded, quiet=args.json)
    except launch.LaunchError as error:
        print(f"toolmend demo: {error}", file=sys.stderr)
        return 1
    if args.json:
        print(json.dumps([as_json(each) for each in shown], ensure_ascii=False, indent=1))
    return 0 if all(each.right for each in shown) else 1


def _show_all(console: Console, recorded: Sequence[Recorded], *, quiet: bool) -> list[Shown]:
    shown = []
    for number, each in enumerate(exchanges(recorded), 1):
        shown.append(each)
        if not quiet:
            console.print(picture(number, each))
    if not quiet:
        console.print(closing(shown))
    return shown


def exchanges(recorded: Sequence[Recorded]) -> Iterator[Shown]:
    """Send each request to the recorded server, and through mitmdump with toolmend. Raises launch.LaunchError."""
    with demo_server.serve(recorded) as server, TemporaryDirectory(prefix="toolmend-") as folder:
        log = Path(folder) / "log.jsonl"
        with launch.proxy(server, "--set", f"toolmend_log={log}") as proxy:
            for each in recorded:
                yield _exchange(each, server, proxy)


def _exchange(recorded: Recorded, server: Address, proxy: launch.Proxy) -> Shown:
    call = Call(recorded.path, recorded.request)
    before = len(proxy.printed())
    raw, mended = send(server, call, TIMEOUT), send(proxy.address, call, TIMEOUT)
    said = [line.partition("toolmend: ")[2] for line in proxy.printed()[before:].splitlines() if "toolmend: " in line]
    return Shown(recorded, _read(recorded, raw), _read(recorded, mended), raw.body == mended.body, "; ".join(said))


def _read(recorded: Recorded, answer: Answer) -> Seen:
    return read(surface_named(recorded.surface), recorded.request, answer)


def as_json(shown: Shown) -> JsonObject:
    """Return an exchange as a script wants it."""
    recorded = shown.recorded
    return {
        "title": recorded.title,
        "surface": recorded.surface,
        "stream": recorded.stream,
        "model": recorded.model,
        "raw": _turn(shown.raw),
        "mended": _turn(shown.mended),
        "right": shown.right,
        "same_bytes": shown.same_bytes,
        "said": shown.said,
    }


def _turn(seen: Seen) -> JsonObject:
    turn = seen.turn
    calls: list[Json] = [{"name": call.name, "arguments": call.arguments} for call in turn.calls]
    faults: list[Json] = [fault.message for fault in seen.faults]
    return {"text": turn.text, "thinking": turn.thinking, "error": turn.error, "calls": calls, "faults": faults}


# Pictures


def picture(number: int, shown: Shown) -> RenderableType:
    """Draw one exchange: what came on the left, what the client gets on the right."""
    recorded = shown.recorded
    sides = Table.grid(expand=True, padding=(0, 1))
    sides.add_column(ratio=1)
    sides.add_column(ratio=1)
    sides.add_row(Text("straight from the server", style="bold red"), Text("through toolmend", style="bold green"))
    sides.add_row(side(shown.raw, "red"), side(shown.mended, "green"))
    how = "streamed" if recorded.stream else "whole"
    parts: list[RenderableType] = [Text(f"{recorded.model}, {recorded.surface}, {how}", style="dim"), sides]
    if shown.same_bytes:
        parts.append(Text("the same bytes", style="dim"))
    elif shown.said:
        parts.append(Text(shown.said, style="cyan"))
    return Panel(Group(*parts), title=f"[bold]{number}. {recorded.title}[/]", title_align="left", border_style="dim")


def side(seen: Seen, style: str) -> RenderableType:
    """Draw what a client got: calls, text, or an error, and what is wrong with it."""
    turn = seen.turn
    parts: list[Text] = []
    if turn.error is not None:
        parts.append(Text(f"error: {_cut(turn.error)}", style="red"))
    if turn.thinking and not turn.calls:
        parts.append(Text(f"thinking: {_cut(turn.thinking)}", style="dim"))
    if turn.text.strip():
        parts.append(Text(f"text: {_cut(turn.text.strip())}"))
    parts += [_call(call) for call in turn.calls]
    if not parts:
        parts.append(Text(f"nothing at all, after {turn.tokens} tokens" if turn.tokens else "nothing at all"))
    parts += [Text(f"✗ {fault.message}", style=style) for fault in seen.faults]
    if not turn.calls:
        parts.append(Text("✗ no tool call", style=style))
    return Group(*parts)


def _call(call: ToolCall) -> Text:
    arguments = call.arguments if isinstance(call.arguments, dict) else {"": call.arguments}
    rows = [f"  {key}: {json.dumps(value, ensure_ascii=False)}" for key, value in arguments.items()]
    return Text(_cut("\n".join([call.name, *rows])))


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def closing(shown: Sequence[Shown]) -> RenderableType:
    """Count, in one line, and say how to go on."""
    raw = sum(each.raw_is_right for each in shown)
    right = sum(each.right for each in shown)
    return Text.from_markup(
        f"[bold]{raw} of {len(shown)}[/] answers were usable as they came, [bold]{right} of {len(shown)}[/] through "
        "toolmend.\nIn front of your own Ollama: [bold]toolmend[/]"
    )
