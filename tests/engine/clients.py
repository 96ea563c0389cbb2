"""Ask for a tool call on each of the three surfaces that llama.cpp serves, and read the calls of the answer.

Written against the APIs' documentation and without the addon's code, as a client would be.
"""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, NamedTuple

# Answers are decoded JSON that a client reads by key.
Document = dict[str, Any]

ANSWER_SECONDS = 300

# Everything here is on this machine: a proxy of the environment is none of its business.
OPEN = urllib.request.build_opener(urllib.request.ProxyHandler({})).open


class Call(NamedTuple):
    """Hold one tool call as a client gets it, its arguments decoded."""

    name: str
    arguments: Any


def post(url: str, document: Document) -> bytes:
    """Send a request and return the body of its answer. Raises HTTPError for a refusal."""
    request = urllib.request.Request(url, json.dumps(document).encode(), {"Content-Type": "application/json"})
    with OPEN(request, timeout=ANSWER_SECONDS) as answer:
        body: bytes = answer.read()
    return body


def events(body: bytes) -> list[Document]:
    """Read the data of server-sent events."""
    lines = [line.removeprefix("data: ") for line in body.decode().splitlines() if line.startswith("data: ")]
    return [json.loads(line) for line in lines if line != "[DONE]"]


def chat_request(function: Document, prompt: str) -> Document:
    """Make a Chat Completions request with one tool."""
    return {
        "messages": [{"role": "user", "content": prompt}],
        "tools": [{"type": "function", "function": function}],
        "tool_choice": "required",
    }


def chat_calls(document: Document) -> list[Call]:
    """Read the calls of a whole Chat Completions answer."""
    calls = document["choices"][0]["message"].get("tool_calls") or []
    return [Call(call["function"]["name"], json.loads(call["function"]["arguments"])) for call in calls]


def streamed_chat_calls(found: Iterable[Document]) -> list[Call]:
    """Join the deltas of a streamed Chat Completions answer by their index."""
    names: dict[int, str] = {}
    texts: dict[int, str] = {}
    for event in found:
        for choice in event["choices"]:
            for part in choice["delta"].get("tool_calls") or []:
                index, function = part["index"], part["function"]
                names[index] = names.get(index, "") + (function.get("name") or "")
                texts[index] = texts.get(index, "") + (function.get("arguments") or "")
    return [Call(names[index], json.loads(texts[index])) for index in sorted(names)]


def responses_request(function: Document, prompt: str) -> Document:
    """Make a Responses request with one tool."""
    return {"input": prompt, "tools": [{"type": "function", **function}], "tool_choice": "required"}


def responses_calls(document: Document) -> list[Call]:
    """Read the calls of a whole Responses answer."""
    items = [item for item in document["output"] if item["type"] == "function_call"]
    return [Call(item["name"], json.loads(item["arguments"])) for item in items]


def streamed_responses_calls(found: Iterable[Document]) -> list[Call]:
    """Read the finished items of a streamed Responses answer, which its last event must repeat."""
    seen = list(found)
    items = [event["item"] for event in seen if event["type"] == "response.output_item.done"]
    calls = responses_calls({"output": items})
    assert seen[-1]["type"] == "response.completed"
    assert responses_calls(seen[-1]["response"]) == calls
    return calls


def messages_request(function: Document, prompt: str) -> Document:
    """Make a Messages request with one tool."""
    tool = {"name": function["name"], "description": function["description"], "input_schema": function["parameters"]}
    return {
        "max_tokens": 320,
        "messages": [{"role": "user", "content": prompt}],
        "tools": [tool],
        "tool_choice": {"type": "any"},
    }


def messages_calls(document: Document) -> list[Call]:
    """Read the calls of a whole Messages answer."""
    blocks = [block for block in document["content"] if block["type"] == "tool_use"]
    return [Call(block["name"], block["input"]) for block in blocks]


def streamed_messages_calls(found: Iterable[Document]) -> list[Call]:
    """Join the blocks of a streamed Messages answer by their index."""
    names: dict[int, str] = {}
    texts: dict[int, str] = {}
    for event in found:
        if event["type"] == "content_block_start" and event["content_block"]["type"] == "tool_use":
            names[event["index"]] = event["content_block"]["name"]
        if event["type"] == "content_block_delta" and event["delta"]["type"] == "input_json_delta":
            texts[event["index"]] = texts.get(event["index"], "") + event["delta"]["partial_json"]
    return [Call(name, json.loads(texts[index])) for index, name in sorted(names.items())]


@dataclass(frozen=True)
class Client:
    """Hold how one surface is asked and read."""

    path: str
    request: Callable[[Document, str], Document]
    calls: Callable[[Document], list[Call]]
    streamed_calls: Callable[[Iterable[Document]], list[Call]]

    def ask(self, url: str, function: Document, prompt: str, stream: bool) -> list[Call]:
        """Ask for a call of this function and return the calls that came."""
        document = {"model": "smollm2:135m", "temperature": 0, "stream": stream, **self.request(function, prompt)}
        body = post(url + self.path, document)
        return self.streamed_calls(events(body)) if stream else self.calls(json.loads(body))


CLIENTS = {
    "openai-chat": Client("/v1/chat/completions", chat_request, chat_calls, streamed_chat_calls),
    "openai-responses": Client("/v1/responses", responses_request, responses_calls, streamed_responses_calls),
    "anthropic-messages": Client("/v1/messages", messages_request, messages_calls, streamed_messages_calls),
}
