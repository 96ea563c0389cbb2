"""Ask for tool calls on the four surfaces and read the calls of an answer, as an agent does: without the addon's code."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from engine.clients import chat_calls as whole_chat_calls
from engine.clients import (
    messages_calls,
    responses_calls,
    streamed_chat_calls,
    streamed_messages_calls,
    streamed_responses_calls,
)
from fake_ollama import TOOL
from raw_http import Got, post
from stream_rules import documents

# Documents are decoded JSON that a client reads by key.
Document = dict[str, Any]
PROMPT = "Book a table."


@dataclass(frozen=True)
class Client:
    """Hold how one surface is asked and read."""

    name: str
    path: str
    declare: Callable[[Document], Document]
    named: Callable[[str], Document]
    required: Any
    none: Any
    body: Document
    one_call_only: Document
    whole: Callable[[Any], Sequence[tuple[str, Any]]]
    streamed: Callable[[Any], Sequence[tuple[str, Any]]]

    def request(self, model: str, stream: bool = False, tools: Sequence[Document] = (TOOL,), **more: Any) -> Document:
        """Make a request that offers these tools; `choice` is "required", "none", or the name of one of them."""
        choice = more.pop("choice", None)
        given = {"required": self.required, "none": self.none}
        document = {"model": model, "stream": stream, "tools": [self.declare(tool) for tool in tools], **self.body}
        if choice is not None:
            document["tool_choice"] = given.get(choice) or self.named(choice)
        return {**document, **more}

    def ask(self, url: str, model: str, stream: bool = False, **more: Any) -> Got:
        """Ask and return the whole answer."""
        return post(url, self.path, self.request(model, stream, **more))

    def calls(self, got: Got) -> list[tuple[str, Any]]:
        """Read the calls of an answer, whole or streamed."""
        streamed = got.content_type.startswith(("text/event-stream", "application/x-ndjson"))
        found = self.streamed(documents(got.body)) if streamed else self.whole(json.loads(got.body))
        return [(name, arguments) for name, arguments in found]


def nested(tool: Document) -> Document:
    return {"type": "function", "function": tool}


def flat(tool: Document) -> Document:
    return {"type": "function", **tool}


def anthropic(tool: Document) -> Document:
    return {"name": tool["name"], "description": tool["description"], "input_schema": tool["parameters"]}


def _ollama_calls(lines: Any) -> list[tuple[str, Any]]:
    calls = [call["function"] for line in lines for call in line["message"].get("tool_calls") or ()]
    return [(call["name"], call["arguments"]) for call in calls]


USER: list[Document] = [{"role": "user", "content": PROMPT}]
CLIENTS = {
    "ollama-chat": Client(
        "ollama-chat",
        "/api/chat",
        nested,
        lambda name: {"type": "function", "function": {"name": name}},
        "required",
        "none",
        {"messages": USER},
        {"parallel_tool_calls": False},
        lambda document: _ollama_calls([document]),
        _ollama_calls,
    ),
    "openai-chat": Client(
        "openai-chat",
        "/v1/chat/completions",
        nested,
        lambda name: {"type": "function", "function": {"name": name}},
        "required",
        "none",
        {"messages": USER},
        {"parallel_tool_calls": False},
        whole_chat_calls,
        streamed_chat_calls,
    ),
    "openai-responses": Client(
        "openai-responses",
        "/v1/responses",
        flat,
        lambda name: {"type": "function", "name": name},
        "required",
        "none",
        {"input": PROMPT},
        {"parallel_tool_calls": False},
        responses_calls,
        streamed_responses_calls,
    ),
    "anthropic-messages": Client(
        "anthropic-messages",
        "/v1/messages",
        anthropic,
        lambda name: {"type": "tool", "name": name},
        {"type": "any"},
        {"type": "none"},
        {"messages": USER, "max_tokens": 1000},
        {"tool_choice": {"type": "auto", "disable_parallel_tool_use": True}},
        messages_calls,
        streamed_messages_calls,
    ),
}
OPENAI_AND_ANTHROPIC = [client for client in CLIENTS.values() if client.path.startswith("/v1")]
