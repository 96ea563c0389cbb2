"""Run a tool in a loop of two rounds, as an agent does: the model must call it, then answer with what it returned."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field

from engine.clients import Document, chat_calls, post

PATH = "/v1/chat/completions"


@dataclass
class Run:
    """Hold a run: every request with its response, three lines of log when all went well, else the failure."""

    rounds: list[tuple[Document, Document]] = field(default_factory=list)
    log: list[str] = field(default_factory=list)
    result: object = None
    final: str = ""
    failure: str | None = None


def run_tool(url: str, function: Document, execute: Callable[..., object], prompt: str) -> Run:
    """Have the model call a tool, execute the call, and have the model answer.

    Args:
        url: The server's address, or the proxy's.
        function: The tool, as Chat Completions declares it.
        execute: What the tool does; it gets the arguments by name.
        prompt: What the user says.
    """
    run = Run()
    messages = [{"role": "user", "content": prompt}]
    message = _round(run, url, function, messages, "required")
    calls = chat_calls(run.rounds[-1][1])
    if len(calls) != 1:
        run.failure = (
            f"expected one call of {function['name']}, got {len(calls)}; the model said {message['content']!r}"
        )
        run.log.append(f"failed {run.failure}")
        return run
    (call,) = calls
    run.log.append(f"proposed {call.name} {json.dumps(call.arguments)}")
    run.result = execute(**call.arguments)
    run.log.append(f"executed {call.name} -> {json.dumps(run.result)}")
    answer = {
        "role": "tool",
        "tool_call_id": message["tool_calls"][0]["id"],
        "content": json.dumps(run.result),
    }
    # The calls go back as they came, as agents send them: a server refuses a history with a broken call.
    run.final = _round(run, url, function, [*messages, _echo(message), answer], "none")["content"]
    run.log.append(f"final {run.final}")
    return run


def _echo(message: Document) -> Document:
    return {"role": "assistant", "content": message.get("content") or "", "tool_calls": message["tool_calls"]}


def _round(run: Run, url: str, function: Document, messages: list[Document], choice: str) -> Document:
    request = {
        "model": "smollm2:135m",
        "temperature": 0,
        "messages": messages,
        "tools": [{"type": "function", "function": function}],
        "tool_choice": choice,
    }
    response = json.loads(post(url + PATH, request))
    run.rounds.append((request, response))
    message: Document = response["choices"][0]["message"]
    return message
