"""What real clients send passes as it is and is understood, and calls to each of their tools come back usable."""

from __future__ import annotations

import json
from typing import Any

import jsonschema
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis_jsonschema import from_schema

from client_requests import (
    Sent,
    as_text,
    broken_branches,
    broken_leaves,
    filled,
    first,
    sent,
    text_members,
)
from conftest import Proxy
from fake_answers import Answer, Asked, render
from fake_ollama import FakeOllama, as_json
from raw_http import post
from stream_rules import documents
from toolmend.exchange import Exchange, replay
from toolmend.settings import Settings
from toolmend.upstreams import Server

EACH = pytest.mark.parametrize("request_", sent(), ids=str)
FIRST = [request for request in sent() if request.number == 1 and request.tools]
EACH_WITH_TOOLS = pytest.mark.parametrize("request_", FIRST, ids=lambda request: str(request.client))

TOOLS = {
    "ai-sdk-compatible": 1,
    "ai-sdk-ollama": 1,
    "anthropic-messages": 1,
    "cline": 25,
    "codex": 12,
    "continue": 11,
    "gptme": 14,
    "hermes": 17,
    "instructor-json-schema": 0,
    "instructor-tools": 1,
    "langchain-ollama": 1,
    "langchain-openai": 1,
    "litellm-ollama-chat": 1,
    "llamaindex": 1,
    "llm-ollama": 1,
    "mini-swe-agent": 1,
    "nanocoder": 20,
    "ollama-python": 1,
    "openai-agents-chat": 1,
    "openai-agents-responses": 1,
    "openai-chat": 1,
    "openai-responses": 1,
    "opencode": 10,
    "openhands-ollama": 6,
    "openhands": 6,
    "pi-chat": 4,
    "pi-messages": 4,
    "pi-responses": 4,
    "pydantic-ai-chat": 1,
    "pydantic-ai-output": 1,
    "pydantic-ai-responses": 1,
    "qwen-0.15": 15,
    "qwen-0.24": 14,
    "smolagents": 2,
    "vibe": 10,
}
CHOICES = {"instructor-tools": "named", "pydantic-ai-output": "required", "smolagents": "required"}
"""Clients that ask for a call; all others leave it to the model."""


def exchange_for(request: Sent) -> Exchange:
    return Exchange(request.surface, request.document, Settings(), Server())


def answered(request: Sent, name: str, arguments: Any) -> tuple[bytes, bytes, Exchange]:
    """Answer a request with one call: return what the server sent, and what the client gets of it."""
    asked = Asked(request.surface.name, request.document)
    answer = render(Answer(calls=((name, arguments),)), asked)
    exchange = exchange_for(request)
    out = b"".join(replay(exchange, answer.status, answer.content_type, answer.chunks))
    return b"".join(answer.chunks), out, exchange


def delivered(request: Sent, name: str, arguments: Any) -> tuple[str, Any]:
    """Answer a request with one call and return the call that the client gets."""
    _, out, exchange = answered(request, name, arguments)
    assert exchange.outcome is not None
    assert exchange.outcome.faults == ()
    (call,) = exchange.outcome.turn.calls
    assert documents(out)
    return call.name, call.arguments


# Requests


@EACH
def test_what_a_client_sends_is_what_the_server_gets(request_: Sent) -> None:
    """Only a choice that Ollama does not read is taken out, and nothing else with it."""
    changed = exchange_for(request_).request_document
    if request_.client not in CHOICES:
        assert changed is None
    else:
        assert changed == {name: value for name, value in request_.document.items() if name != "tool_choice"}


@pytest.mark.parametrize("client", TOOLS)
def test_the_tools_of_a_client_are_understood(client: str) -> None:
    request = first(client)
    read = exchange_for(request).request
    assert len(read.tools) == TOOLS[client]
    assert len({tool.name for tool in read.tools}) == TOOLS[client]
    assert read.tool_choice.mode == CHOICES.get(client, "auto")
    for tool in read.tools:
        assert tool.parameters.get("type", "object") == "object"


def test_the_names_are_as_the_client_gave_them() -> None:
    names = [tool.name for tool in first("opencode").tools]
    assert names == ["bash", "edit", "glob", "grep", "read", "skill", "task", "todowrite", "webfetch", "write"]


def test_tools_in_a_namespace_are_named_as_ollama_names_them_and_a_web_search_is_none() -> None:
    tools = first("codex").tools
    assert [tool.name for tool in tools if tool.namespace] == [
        "multi_agent_v1.close_agent",
        "multi_agent_v1.resume_agent",
        "multi_agent_v1.send_input",
        "multi_agent_v1.spawn_agent",
        "multi_agent_v1.wait_agent",
    ]
    assert [tool.local_name for tool in tools if not tool.namespace] == [
        "exec_command",
        "write_stdin",
        "request_user_input",
        "view_image",
        "get_goal",
        "create_goal",
        "update_goal",
    ]


# Calls


@EACH_WITH_TOOLS
@pytest.mark.parametrize("least", [False, True], ids=["everything", "only-required"])
def test_a_valid_call_to_each_tool_passes_untouched(request_: Sent, least: bool) -> None:
    for tool in request_.tools:
        arguments = filled(tool.parameters, least=least)
        jsonschema.validate(arguments, tool.parameters)
        came, went, exchange = answered(request_, tool.name, arguments)
        assert exchange.outcome is not None
        assert exchange.outcome.faults == ()
        if tool.namespace is None:
            assert (tool.name, went) == (tool.name, came)


@EACH_WITH_TOOLS
def test_numbers_and_booleans_written_as_text_are_repaired_in_each_tool(request_: Sent) -> None:
    for tool in request_.tools:
        arguments = filled(tool.parameters)
        broken = broken_leaves(arguments, tool.parameters, tool.parameters)
        assert delivered(request_, tool.name, broken) == (tool.local_name, arguments)


@EACH_WITH_TOOLS
def test_lists_and_objects_written_as_text_are_repaired_in_each_tool(request_: Sent) -> None:
    for tool in request_.tools:
        arguments = filled(tool.parameters)
        broken = broken_branches(arguments, tool.parameters)
        assert delivered(request_, tool.name, broken) == (tool.local_name, arguments)


@EACH_WITH_TOOLS
@pytest.mark.parametrize("text", ['{"a": [1, 2]}', "[1, 2]", "true", "42", "null", "&quot;a&quot;"])
def test_text_that_looks_like_something_else_stays_text_in_each_tool(request_: Sent, text: str) -> None:
    for tool in request_.tools:
        arguments = {**filled(tool.parameters), **dict.fromkeys(text_members(tool.parameters), text)}
        jsonschema.validate(arguments, tool.parameters)
        came, went, _ = answered(request_, tool.name, arguments)
        if tool.namespace is None:
            assert (tool.name, went) == (tool.name, came)


ALL_TOOLS = [(request, tool) for request in FIRST for tool in request.tools if tool.namespace is None]


@settings(max_examples=60, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_whatever_fits_a_tools_schema_passes_untouched(data: st.DataObject) -> None:
    request, tool = data.draw(st.sampled_from(ALL_TOOLS))
    came, went, _ = answered(request, tool.name, data.draw(from_schema({"type": "object", **tool.parameters})))
    assert went == came


# Odd ones


@pytest.mark.parametrize(
    "arguments",
    [
        {"name": "read_file", "arguments": {"path": "a.txt"}},
        {"name": "lookup", "arguments": {}},
    ],
)
def test_a_tool_that_is_itself_named_tool_call_and_takes_a_call_is_left_alone(arguments: Any) -> None:
    came, went, _ = answered(first("qwen-0.24"), "tool_call", arguments)
    assert went == came


def test_the_tool_named_tool_call_is_repaired_like_any_other() -> None:
    arguments = {"name": "lookup", "arguments": {"id": 3}}
    broken = {"name": "lookup", "arguments": as_text({"id": 3})}
    assert delivered(first("qwen-0.24"), "tool_call", broken) == ("tool_call", arguments)


def test_a_leaked_call_of_the_tool_named_tool_call_comes_out_as_that_call() -> None:
    request = first("qwen-0.24")
    meant = {"name": "lookup", "arguments": {"id": 3}}
    text = f"<tool_call>\n{as_text({'name': 'tool_call', 'arguments': meant})}\n</tool_call>"
    answer = render(Answer(text=text), Asked(request.surface.name, request.document))
    exchange = exchange_for(request)
    replay(exchange, answer.status, answer.content_type, answer.chunks)
    assert exchange.outcome is not None
    assert [(call.name, call.arguments) for call in exchange.outcome.turn.calls] == [("tool_call", meant)]


@pytest.mark.parametrize("limit", [3, None])
@pytest.mark.parametrize("client", ["qwen-0.24", "vibe"])
def test_one_of_several_types_is_enough(client: str, limit: int | None) -> None:
    request = first(client)
    path = "file_path" if client.startswith("qwen") else "path"
    came, went, _ = answered(request, "read_file", {path: "/a.txt", "limit": limit})
    assert went == came
    written = as_text(limit)
    assert delivered(request, "read_file", {path: "/a.txt", "limit": written}) == (
        "read_file",
        {path: "/a.txt", "limit": limit},
    )


def test_null_inside_a_list_stays_where_it_is_allowed() -> None:
    files = [{"path": "/a.txt", "start_line": None, "end_line": 3}, {"path": "/b.txt"}]
    came, went, _ = answered(first("cline"), "read_files", {"files": files})
    assert went == came
    written = [{"path": "/a.txt", "start_line": "null", "end_line": "3"}, {"path": "/b.txt"}]
    assert delivered(first("cline"), "read_files", {"files": written}) == ("read_files", {"files": files})


@pytest.mark.parametrize("number", [9007199254740991, -9007199254740991, 4503599627370497])
def test_numbers_at_the_edge_of_what_is_exact_keep_every_digit(number: int) -> None:
    arguments = {
        "title": "Q3 planning",
        "date": "2026-07-14",
        "duration_minutes": number,
        "priority": "high",
        "attendees": [],
        "reminders": [],
    }
    request = first("ai-sdk-compatible")
    (tool,) = request.tools
    jsonschema.validate(arguments, tool.parameters)
    came, went, _ = answered(request, "create_event", arguments)
    assert went == came
    broken = {**arguments, "duration_minutes": str(number), "attendees": "[]"}
    assert delivered(request, "create_event", broken) == ("create_event", arguments)


def test_a_call_into_a_namespace_reaches_the_client_by_name_and_namespace() -> None:
    _, went, _ = answered(first("codex"), "multi_agent_v1.close_agent", {"target": "a1"})
    found = documents(went)
    items = [event["item"] for event in found if event["type"] == "response.output_item.done"]
    items += found[-1]["response"]["output"]
    assert len(items) == 2
    for item in items:
        assert (item["namespace"], item["name"], item["arguments"]) == (
            "multi_agent_v1",
            "close_agent",
            '{"target":"a1"}',
        )


@pytest.mark.parametrize("name", ["close_agent", "multi_agent_v1__close_agent", "functions.multi_agent_v1.close_agent"])
def test_a_call_into_a_namespace_is_found_by_its_other_names(name: str) -> None:
    _, _, exchange = answered(first("codex"), name, {"target": "a1"})
    assert exchange.outcome is not None
    (call,) = exchange.outcome.turn.calls
    assert (call.namespace, call.name) == ("multi_agent_v1", "close_agent")


# Over the wire


@EACH
def test_over_the_wire_each_request_and_a_valid_call_pass_as_the_same_bytes(
    request_: Sent, fake: FakeOllama, proxy: Proxy
) -> None:
    tools = [tool for tool in request_.tools if tool.namespace is None]
    calls = ((tools[0].name, filled(tools[0].parameters)),) if tools else ()
    fake.script(Answer(text="" if calls else "Done.", calls=calls))
    got = post(proxy.url, request_.path, request_.body)
    (received,) = fake.of_kind("chat", "constrained")
    if request_.client in CHOICES:
        assert "tool_choice" not in received.document
        assert received.document == {k: v for k, v in request_.document.items() if k != "tool_choice"}
    else:
        assert received.body == request_.body
    assert got.body == bytes(received.sent)


@EACH_WITH_TOOLS
def test_over_the_wire_a_broken_call_is_repaired_without_asking(request_: Sent, fake: FakeOllama, proxy: Proxy) -> None:
    tool = max(request_.tools, key=lambda tool: len(json.dumps(tool.parameters)))
    arguments = filled(tool.parameters)
    broken = broken_branches(broken_leaves(arguments, tool.parameters, tool.parameters), tool.parameters)
    fake.script(Answer(calls=((tool.name, broken),)))
    got = post(proxy.url, request_.path, request_.body)
    assert fake.model_calls == 1
    assert json.dumps(arguments) in json.dumps(unpacked(got.body))


def test_over_the_wire_a_call_into_a_namespace_that_lacks_a_value_is_asked_for(fake: FakeOllama, proxy: Proxy) -> None:
    name = "multi_agent_v1.close_agent"
    fake.script(Answer(calls=((name, {}),)))
    fake.reply(as_json({"name": name, "arguments": {"target": "a1"}}))
    request = first("codex")
    got = post(proxy.url, request.path, request.body)
    item = documents(got.body)[-1]["response"]["output"][-1]
    assert (item["namespace"], item["name"]) == ("multi_agent_v1", "close_agent")
    assert json.loads(item["arguments"]) == {"target": "a1"}
    (question,) = fake.of_kind("constrained")
    assert question.document["tools"] == request.document["tools"]


def unpacked(body: bytes) -> Any:
    """Decode an answer, and the arguments in it that are text."""

    def decoded(value: Any) -> Any:
        if isinstance(value, dict):
            return {name: decoded(item) for name, item in value.items()}
        if isinstance(value, list):
            return [decoded(item) for item in value]
        return json.loads(value) if isinstance(value, str) and value.startswith("{") else value

    return decoded(documents(body) if b"data: " in body or body.count(b"\n") > 1 else json.loads(body))


ASIDE: dict[str, dict[str, Any]] = {
    "a title": {"messages": [{"role": "user", "content": "Write a title for this chat, as text."}], "max_tokens": 40},
    "a memory": {"messages": [{"role": "user", "content": "What of this is worth keeping? <tool_call> aside."}]},
    "an empty list of tools": {"messages": [{"role": "user", "content": "Go on."}], "tools": []},
    "a schema": {
        "messages": [{"role": "user", "content": "Sum up."}],
        "response_format": {"type": "json_schema", "json_schema": {"name": "sum", "schema": {"type": "object"}}},
    },
}


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("kind", ASIDE)
def test_requests_beside_the_run_that_offer_no_tools_pass_untouched(
    kind: str, stream: bool, fake: FakeOllama, proxy: Proxy
) -> None:
    """A title may speak of tools, and a summary may be JSON that looks like a call."""
    said = Answer(text='<tool_call>{"name": "bash", "arguments": {"command": "ls"}}</tool_call>')
    fake.script(said)
    fake.reply(said)
    body = json.dumps({"model": "fake:small", "stream": stream, **ASIDE[kind]}, indent=2).encode()
    got = post(proxy.url, "/v1/chat/completions", body)
    (received,) = fake.of_kind("chat", "constrained")
    assert received.body == body
    assert got.body == bytes(received.sent)
