"""A real llama.cpp server with a model of 135 million parameters, which calls no tool by itself, behind the addon.

What such a model says differs with the processor. So nothing here depends on its words, only on what a grammar holds
it to, and on numbers that it has merely to copy.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import sys
from pathlib import Path

import jsonschema
import pytest

from conftest import Proxy
from engine.agent import Run, run_tool
from engine.clients import CLIENTS, Document, chat_calls, post
from engine.llama_server import LlamaServer

pytestmark = pytest.mark.engine

ROOT = Path(__file__).parents[2]

LOOKUP: Document = {
    "name": "lookup_stock",
    "description": "Look up how many pieces of an article are in stock.",
    "parameters": {
        "type": "object",
        "properties": {"sku": {"type": "string", "description": "The article's SKU."}},
        "required": ["sku"],
        "additionalProperties": False,
    },
}
SUM_ITEMS: Document = {
    "name": "sum_items",
    "description": "Add two numbers.",
    "parameters": {
        "type": "object",
        "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        "required": ["a", "b"],
        "additionalProperties": False,
    },
}
CREATE_EVENT: Document = {
    "name": "create_event",
    "description": "Create a calendar event.",
    "parameters": {
        "type": "object",
        "properties": {
            "title": {"type": "string"},
            "date": {"type": "string", "description": "ISO date"},
            "duration_minutes": {"type": "integer"},
            "priority": {"type": "string", "enum": ["low", "medium", "high"]},
            "attendees": {"type": "array", "items": {"type": "string"}},
            "reminders": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {
                        "method": {"type": "string", "enum": ["email", "popup"]},
                        "minutes_before": {"type": "integer"},
                    },
                    "required": ["method", "minutes_before"],
                },
            },
        },
        "required": ["title", "date", "duration_minutes", "priority"],
    },
}
EVENTS = (
    "Create an event: standup, 2026-05-11, 15 minutes, priority high.",
    "Plan a 30 minute meeting with Ana on 2026-03-05.",
)


def look_up(url: str) -> Run:
    return run_tool(url, LOOKUP, lambda sku: f"12 pieces of {sku}", "Call lookup_stock with sku = SKU-4471.")


def test_without_the_addon_the_call_is_missing_and_the_run_says_so(engine: LlamaServer) -> None:
    run = look_up(engine.url)

    assert run.failure is not None
    assert run.failure.startswith("expected one call of lookup_stock, got 0; the model said ")
    assert run.log == [f"failed {run.failure}"]
    assert len(run.rounds) == 1


def test_the_lookup_tool_is_called_once_with_one_string(toolmend: Proxy) -> None:
    run = look_up(toolmend.url)

    assert run.failure is None, run.failure
    (call,) = run.rounds[0][1]["choices"][0]["message"]["tool_calls"]
    arguments = json.loads(call["function"]["arguments"])
    assert call["function"]["name"] == "lookup_stock"
    assert list(arguments) == ["sku"]
    assert isinstance(arguments["sku"], str)
    assert run.rounds[0][1]["choices"][0]["finish_reason"] == "tool_calls"
    assert run.log == [
        f"proposed lookup_stock {json.dumps(arguments)}",
        f'executed lookup_stock -> "12 pieces of {arguments["sku"]}"',
        f"final {run.final}",
    ]


def test_two_rounds_add_up_to_42(toolmend: Proxy) -> None:
    run = run_tool(toolmend.url, SUM_ITEMS, lambda a, b: a + b, "Call sum_items with a = 17 and b = 25.")

    assert run.failure is None, run.failure
    assert run.result == 42
    assert run.log[:2] == ['proposed sum_items {"a": 17, "b": 25}', "executed sum_items -> 42"]
    assert run.final
    (first, answer), (second, _) = run.rounds
    assert second["messages"][0] == first["messages"][0]
    assert second["messages"][1]["tool_calls"] == answer["choices"][0]["message"]["tool_calls"]
    assert second["messages"][2]["content"] == "42"


def test_a_named_choice_brings_that_tool_of_two(toolmend: Proxy) -> None:
    """By itself llama.cpp takes a named choice for auto."""
    request = {
        "model": "smollm2:135m",
        "temperature": 0,
        "messages": [{"role": "user", "content": "How many of SKU-4471 are in stock?"}],
        "tools": [{"type": "function", "function": function} for function in (LOOKUP, SUM_ITEMS)],
        "tool_choice": {"type": "function", "function": {"name": "sum_items"}},
    }

    (call,) = chat_calls(json.loads(post(toolmend.url + "/v1/chat/completions", request)))

    assert call.name == "sum_items"
    assert {name: type(value) for name, value in call.arguments.items()} == {"a": int, "b": int}


def test_a_required_create_event_is_valid_12_times_of_12(toolmend: Proxy) -> None:
    """Two prompts, three surfaces, streamed and whole."""
    found = {
        (surface, stream, prompt): client.ask(toolmend.url, CREATE_EVENT, prompt, stream)
        for (surface, client), stream, prompt in itertools.product(CLIENTS.items(), (False, True), EVENTS)
    }

    validator = jsonschema.Draft202012Validator(CREATE_EVENT["parameters"])
    broken = {
        key: calls
        for key, calls in found.items()
        if [call.name for call in calls] != ["create_event"] or not validator.is_valid(calls[0].arguments)
    }
    assert (len(found), broken) == (12, {}), toolmend.log


def test_a_question_with_the_same_prefix_evaluates_far_less_of_the_prompt() -> None:
    command = [sys.executable, str(ROOT / "benchmarks" / "prompt_reuse.py"), "--json"]

    measured = json.loads(subprocess.run(command, check=True, capture_output=True, timeout=600).stdout)

    assert measured["ratio"]["tokens"] > 5
