"""Measure in process what a piece of work costs: a repair of each kind, the raw tap, a megabyte of hostile text."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

import replay
from replay import ARGUMENTS, TOOL

from toolmend import lenient_json
from toolmend.dialects import find_calls
from toolmend.dialects.scanner import Scanner
from toolmend.exchange import Exchange
from toolmend.exchange import replay as run_answer
from toolmend.model import Json, JsonObject, Tool
from toolmend.settings import Settings
from toolmend.surfaces import SURFACES
from toolmend.upstreams import Server

PATH: Final = "/v1/chat/completions"
REQUEST: Final[JsonObject] = {
    "model": "m",
    "messages": [{"role": "user", "content": "Plan half an hour."}],
    "tools": [{"type": "function", "function": TOOL}],  # type: ignore[dict-item]  # JSON, typed as an object
}
TOOLS: Final = [Tool("create_event", TOOL["parameters"])]  # type: ignore[arg-type]
CALL: Final = json.dumps({"name": "create_event", "arguments": ARGUMENTS})


@dataclass(frozen=True, slots=True)
class Cost:
    """Hold what something costs."""

    name: str
    value: float
    unit: str


def best_of(work: Callable[[], object], seconds: float = 0.4) -> float:
    """Return the seconds of CPU of the quickest run: what disturbs makes it slower, nothing makes it quicker."""
    work()
    best, end = float("inf"), time.perf_counter() + seconds
    while time.perf_counter() < end:
        began = time.process_time_ns()
        work()
        best = min(best, (time.process_time_ns() - began) / 1e9)
    return best


def answer(*, text: str = "", arguments: Json = None, name: str = "create_event") -> bytes:
    """Write a whole completion with a text, or with a call."""
    message: JsonObject = {"role": "assistant", "content": text}
    finish = "stop" if arguments is None else "tool_calls"
    if arguments is not None:
        written = arguments if isinstance(arguments, str) else json.dumps(arguments)
        function: JsonObject = {"name": name, "arguments": written}
        message["tool_calls"] = [{"id": "call_1", "type": "function", "function": function}]
    return json.dumps({"choices": [{"index": 0, "message": message, "finish_reason": finish}]}).encode()


ANSWERS: Final[dict[str, bytes]] = {
    "nothing: a valid call": answer(arguments=json.dumps(ARGUMENTS)),
    "nothing: 200 tokens of text": answer(text="".join(map(replay.token, range(200)))),
    "coerce: wrong types": answer(arguments=replay.CALLS["wrong"]),  # type: ignore[arg-type]
    "parse: trailing comma": answer(arguments=json.dumps(ARGUMENTS).replace('"]}', '"],}')),
    "parse: single quotes": answer(arguments=str(ARGUMENTS)),
    "names: createEvent": answer(arguments=json.dumps(ARGUMENTS), name="createEvent"),
    "unwrap: arguments in arguments": answer(arguments={"arguments": ARGUMENTS}),  # type: ignore[dict-item]
    "keys: durationMinutes": answer(arguments=json.dumps(ARGUMENTS).replace("duration_minutes", "durationMinutes")),
    "recover: hermes in text": answer(text=f"<tool_call>\n{CALL}\n</tool_call>"),
    "recover: fenced JSON in text": answer(text=f"```json\n{CALL}\n```"),
}


def repairs() -> list[Cost]:
    """Measure whole answers through the core, from bytes to bytes, request included."""

    def run(body: bytes) -> object:
        exchange = Exchange(SURFACES[PATH], REQUEST, Settings(follow_up=False), Server())
        return run_answer(exchange, 200, "application/json", [body])

    return [Cost(name, best_of(lambda body=body: run(body)) * 1e3, "ms") for name, body in ANSWERS.items()]  # type: ignore[misc]


def tap() -> list[Cost]:
    """Measure what asking for the tokens adds to a streamed text: bytes from the server, and CPU to take them out."""
    tokens = 400
    plain, tapped = (replay.stream(f"text-{tokens}", shown) for shown in (False, True))

    def run(chunks: tuple[bytes, ...], mode: str) -> object:
        settings = Settings(follow_up=False, tap=mode)  # type: ignore[arg-type]
        exchange = Exchange(SURFACES[PATH], REQUEST, settings, Server("ollama"))
        assert exchange.tapped is (mode == "on")
        return run_answer(exchange, 200, "text/event-stream", chunks)

    without, with_tap = best_of(lambda: run(plain, "off"), 1), best_of(lambda: run(tapped, "on"), 1)
    added = sum(map(len, tapped)) - sum(map(len, plain))
    return [
        Cost("a text chunk, core alone", without / tokens * 1e6, "µs"),
        Cost("raw tap: bytes added to a token's chunk", added / tokens, "bytes"),
        Cost("raw tap: CPU added to a token's chunk", (with_tap - without) / tokens * 1e6, "µs"),
    ]


MEGABYTE: Final = 1_000_000
HOSTILE: Final[dict[str, str]] = {
    "<tool_call>": "<tool_call>",
    "unclosed quotes": '{"a": "',
    "opening brackets": "[",
    "opening braces": "{",
    "half tags": "<tool_cal",
    "fences": "```json\n{\n",
    "calls never closed": '<tool_call>{"name": "create_event", "arguments": {"title": "',
    "backticks": "`",
    "closing tags": "</tool_call>",
    "function tags": "<function=create_event>\n<parameter=title>\n",
    "tool names": "create_event(",
    "angle brackets": "<",
    "backslashes": '{"a": "\\',
    "brackets, a line each": "[\n",
    "keys": '{"a":',
    "weak markers": "<tools>",
    "markers with a word": "<tool_call> a ",
    "separators": "[ARGS]",
    "roles": "assistant\n",
    "actions": "Action: create_event\n",
    "names and bad objects": 'create_event{"title": x}\n',
    "thinking": "<think>",
    "links": "[a](b) ",
    "prose without a call": "The kitchen closes at ten, and the bar at one. ",
}


def repeated(text: str, size: int = MEGABYTE) -> str:
    """Return a text over and over, up to a size."""
    return text * (size // len(text))


def hostile() -> list[Cost]:
    """Measure hostile text: looked through whole, and held back as it streams in small and in large pieces."""
    found = []
    for name, piece in HOSTILE.items():
        text = repeated(piece)
        found.append(Cost(f"1 MB of {name}, whole", timed(lambda: find_calls(text, TOOLS, lambda call: True)), "s"))  # noqa: B023
        found.append(Cost(f"1 MB of {name}, in pieces of 20", timed(lambda: scanned(text, 20)), "s"))  # noqa: B023
        found.append(Cost(f"1 MB of {name}, in pieces of 4096", timed(lambda: scanned(text, 4096)), "s"))  # noqa: B023
        found.append(Cost(f"1 MB of {name}, as arguments", timed(lambda: lenient_json.parse(text)), "s"))  # noqa: B023
    return found


def scanned(text: str, size: int) -> int:
    """Feed a text to a scanner piece by piece."""
    scanner, passed = Scanner(TOOLS), 0
    for at in range(0, len(text), size):
        passed = scanner.feed(text[at : at + size])
    return passed


def timed(work: Callable[[], object]) -> float:
    """Return the seconds of CPU of one run."""
    began = time.process_time()
    work()
    return time.process_time() - began


def all_costs() -> list[Cost]:
    """Measure them all."""
    return [*repairs(), *tap(), *hostile()]
