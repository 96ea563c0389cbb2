"""Requests and answers of all four surfaces are read, in every form that is in use."""

from __future__ import annotations

import json
from typing import Any

import pytest

from surface_data import ANSWERS, BY_NAME, Answer, answer_of, decode, frames, label, read, rows, turn_of
from toolmend.model import CallPart, DecodeError, EndPart, Json, JsonObject, Repair, Tool, ToolCall, ToolChoice, Turn
from toolmend.surfaces import SURFACES
from toolmend.surfaces.turn_builder import CallJoiner, TurnBuilder, decode_arguments
from toolmend.surfaces.wire import join_tokens

OLLAMA, CHAT = BY_NAME["ollama-chat"], BY_NAME["openai-chat"]
RESPONSES, MESSAGES = BY_NAME["openai-responses"], BY_NAME["anthropic-messages"]


def test_each_surface_is_found_by_its_path() -> None:
    assert {path: surface.name for path, surface in SURFACES.items()} == {
        "/api/chat": "ollama-chat",
        "/v1/chat/completions": "openai-chat",
        "/v1/responses": "openai-responses",
        "/v1/messages": "anthropic-messages",
    }


# Requests


@pytest.mark.parametrize("row", rows("requests.jsonl"), ids=lambda row: row["name"])
def test_requests_of_real_clients_are_read(row: Any) -> None:
    surface = SURFACES[row["path"]]
    request = surface.read_request(row["body"])
    names = {
        "codex": ["exec_command", "multi_agent_v1.close_agent", "multi_agent_v1.resume_agent"],
        "vibe": ["read_file"],
        "cline": ["editor"],
        "pydantic-ai-output": ["final_result"],
        "anthropic-messages": ["create_event"],
        "nanocoder": ["ask_user"],
        "instructor-tools": ["Event"],
        "ai-sdk-ollama": ["create_event"],
        "openai-responses": ["create_event"],
    }
    assert [tool.name for tool in request.tools] == names[row["name"]]
    assert all(tool.parameters["type"] == "object" for tool in request.tools)
    choice = {
        "pydantic-ai-output": ToolChoice("required"),
        "instructor-tools": ToolChoice("named", ("Event",)),
        "anthropic-messages": ToolChoice("auto", parallel=False),
    }
    assert request.tool_choice == choice.get(row["name"], ToolChoice())
    assert request.stream is row["body"].get("stream", False)
    assert surface.unknown_choice(row["body"]) is None
    assert request.document is row["body"]


def test_tools_are_read_nested_flat_in_namespaces_and_without_a_schema() -> None:
    tools: list[Json] = [
        {"type": "function", "function": {"name": "a", "description": "A.", "parameters": {"type": "object"}}},
        {"type": "function", "name": "b", "parameters": None, "strict": True},
        {"name": "c", "input_schema": {"type": "object"}},
        {"type": "namespace", "name": "ns", "tools": [{"type": "function", "name": "d", "parameters": {}}, "x"]},
        {"type": "custom", "name": "apply_patch", "format": {"type": "grammar"}},
        {"type": "web_search", "external_web_access": True},
        {"type": "web_search_20250305", "name": "web_search"},
        {"type": "local_shell"},
        {"type": "function", "function": {"name": "", "parameters": {}}},
        {"type": "function", "function": {"name": "e", "parameters": "none"}},
        None,
    ]
    assert RESPONSES.read_request({"model": "m", "tools": tools}).tools == (
        Tool("a", {"type": "object"}, "A."),
        Tool("b"),
        Tool("c", {"type": "object"}),
        Tool("ns.d", namespace="ns"),
        Tool("apply_patch"),
        Tool("e"),
    )
    assert Tool("ns.d", namespace="ns").local_name == "d"


CHOICES: list[tuple[Json, ToolChoice | None]] = [
    (None, ToolChoice()),
    ("auto", ToolChoice()),
    ("none", ToolChoice("none")),
    ("required", ToolChoice("required")),
    ("any", ToolChoice("required")),
    ({"type": "auto"}, ToolChoice()),
    ({"type": "any"}, ToolChoice("required")),
    ({"type": "none"}, ToolChoice("none")),
    ({"type": "function", "function": {"name": "f"}}, ToolChoice("named", ("f",))),
    ({"type": "function", "name": "f"}, ToolChoice("named", ("f",))),
    ({"type": "function", "name": "f", "namespace": "ns"}, ToolChoice("named", ("ns.f",))),
    ({"type": "tool", "name": "f"}, ToolChoice("named", ("f",))),
    ({"function": {"name": "f"}}, ToolChoice("named", ("f",))),
    (
        {"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "f"}]},
        ToolChoice("auto", ("f",)),
    ),
    (
        {
            "type": "allowed_tools",
            "allowed_tools": {
                "mode": "required",
                "tools": [
                    {"type": "function", "function": {"name": "f"}},
                    {"type": "function", "function": {"name": "g"}},
                ],
            },
        },
        ToolChoice("required", ("f", "g")),
    ),
    ("always", None),
    (7, None),
    ({"type": "function"}, None),
    ({"type": "file_search"}, None),
    ({"type": "file_search", "name": "f"}, None),
    ({"type": "allowed_tools", "mode": "sometimes", "tools": [{"name": "f"}]}, None),
    ({"type": "allowed_tools", "mode": "auto", "tools": []}, None),
]


@pytest.mark.parametrize("surface", [OLLAMA, CHAT, RESPONSES, MESSAGES], ids=lambda surface: surface.name)
@pytest.mark.parametrize(("value", "choice"), CHOICES, ids=[json.dumps(value) for value, _ in CHOICES])
def test_every_form_of_a_choice_is_understood_on_every_surface(
    surface: Any, value: Json, choice: ToolChoice | None
) -> None:
    document: JsonObject = {"model": "m", "messages": [], "tool_choice": value}
    assert surface.read_request(document).tool_choice == (choice or ToolChoice())
    assert surface.unknown_choice(document) == (None if choice else json.dumps(value, separators=(",", ":")))


def test_the_parallel_flag_is_read_where_the_surface_has_it() -> None:
    off = ToolChoice("auto", parallel=False)
    for surface in (OLLAMA, CHAT, RESPONSES):
        assert surface.read_request({"model": "m", "parallel_tool_calls": False}).tool_choice == off
    choice: JsonObject = {"type": "auto", "disable_parallel_tool_use": True}
    assert MESSAGES.read_request({"model": "m", "tool_choice": choice}).tool_choice == off
    assert MESSAGES.read_request({"model": "m", "parallel_tool_calls": False}).tool_choice == ToolChoice()


def test_only_ollamas_own_surface_streams_unasked() -> None:
    for surface in SURFACES.values():
        assert surface.read_request({"model": "m"}).stream is (surface is OLLAMA)
        assert surface.read_request({"model": "m", "stream": True}).stream is True
        assert surface.read_request({"model": "m", "stream": False}).stream is False


@pytest.mark.parametrize("document", [{}, {"model": 7}, {"model": "m", "tools": {"a": 1}}])
def test_a_body_that_is_no_chat_request_is_refused(document: JsonObject) -> None:
    for surface in SURFACES.values():
        with pytest.raises(DecodeError):
            surface.read_request(document)


def test_tools_are_left_out_of_a_copy() -> None:
    inner: list[Json] = [{"type": "function", "name": "d"}, {"type": "function", "name": "e"}]
    tools: list[Json] = [
        {"type": "function", "name": "a"},
        {"type": "namespace", "name": "ns", "tools": inner},
        {"type": "web_search"},
    ]
    document: JsonObject = {"model": "m", "tools": tools, "input": "Hi"}
    assert RESPONSES.with_tools(document, ["a"])["tools"] == [{"type": "function", "name": "a"}]
    assert RESPONSES.with_tools(document, ["ns.e", "a"])["tools"] == [
        {"type": "function", "name": "a"},
        {"type": "namespace", "name": "ns", "tools": [{"type": "function", "name": "e"}]},
    ]
    assert RESPONSES.with_tools(document, []) == {"model": "m", "input": "Hi"}
    assert document["tools"] == tools


def test_a_choice_is_taken_out_and_written_in_the_surfaces_form() -> None:
    bare: JsonObject = {"model": "m"}
    named, one = ToolChoice("named", ("f",)), ToolChoice("required", parallel=False)
    for surface in (OLLAMA, CHAT):
        choice: JsonObject = {"type": "function", "function": {"name": "f"}}
        assert surface.with_choice(bare, named) == {"model": "m", "tool_choice": choice}
    assert RESPONSES.with_choice(bare, named)["tool_choice"] == {"type": "function", "name": "f"}
    assert MESSAGES.with_choice(bare, named)["tool_choice"] == {"type": "tool", "name": "f"}
    assert CHAT.with_choice(bare, one) == {"model": "m", "tool_choice": "required", "parallel_tool_calls": False}
    assert MESSAGES.with_choice(bare, one)["tool_choice"] == {"type": "any", "disable_parallel_tool_use": True}
    for surface in SURFACES.values():
        asked = surface.with_choice({**bare, "tool_choice": "auto"}, one)
        assert surface.read_request(asked).tool_choice == one
        assert surface.without_choice(asked) == bare


def test_a_constrained_copy_keeps_everything_else() -> None:
    schema: JsonObject = {"type": "object"}
    kept: JsonObject = {"model": "m", "tools": [], "temperature": 0.5, "stream": True}
    assert OLLAMA.constrain({**kept, "options": {"num_ctx": 9}, "keep_alive": 5}, schema, 64) == {
        **kept,
        "keep_alive": 5,
        "stream": False,
        "think": False,
        "format": schema,
        "options": {"num_ctx": 9, "num_predict": 64},
    }
    chat: JsonObject = {
        **kept,
        "stream_options": {"include_usage": True},
        "max_completion_tokens": 9,
        "reasoning": {"effort": "low"},
    }
    form: JsonObject = {"name": "answer", "schema": schema}
    assert CHAT.constrain(chat, schema, 64) == {
        **kept,
        "stream": False,
        "reasoning_effort": "none",
        "max_tokens": 64,
        "response_format": {"type": "json_schema", "json_schema": form},
    }
    assert RESPONSES.constrain({**kept, "text": {"verbosity": "low"}}, schema, 64) == {
        **kept,
        "stream": False,
        "reasoning": {"effort": "none"},
        "max_output_tokens": 64,
        "text": {"verbosity": "low", "format": {"type": "json_schema", **form}},
    }
    assert MESSAGES.constrain(kept, schema, 64) is None


# Answers

LOOK = {"path": "src/main.py", "limit": 20}


def told(turn: Turn) -> tuple[str, str, list[tuple[str, Json]], str | None]:
    calls = [(call.name, call.arguments) for call in turn.calls]
    return turn.text, turn.thinking, calls, turn.error


@pytest.mark.parametrize("answer", ANSWERS, ids=label)
def test_answers_of_a_real_server_are_read(answer: Answer) -> None:
    turn = turn_of(read(answer.surface.codec(answer.request, answer.framing), answer.framing, answer.body))
    text, thinking, calls, error = told(turn)
    match answer.name:
        case "plain text":
            assert (text, calls, error) == ("The answer is 42.", [], None)
        case "text, then a call" if answer.surface is RESPONSES and answer.framing == "json":
            assert (text, calls, error) == ("", [("read_file", LOOK)], None)  # This server drops the text here.
        case "text, then a call":
            assert (text, calls, error) == ("Let me look at the file first.", [("read_file", LOOK)], None)
        case "two calls":
            assert (text, calls) == ("", [("read_file", LOOK), ("read_file", {"path": "README.md"})])
        case "thinking, then a call":
            assert thinking
            assert [name for name, _ in calls] == ["create_event"]
        case "a call on the last frame":
            assert [name for name, _ in calls] == ["create_event"]
        case "nothing (a swallowed call)":
            assert (text, thinking, calls, error) == ("", "", [], None)
            assert turn.tokens == 14
        case "a call written as text":
            assert "read_file" in text
            assert not calls
    if "error" not in answer.name and answer.status == 200:
        assert turn.finish in ("stop", "tool_calls", "length")
        assert turn.tokens


@pytest.mark.parametrize("answer", [a for a in ANSWERS if "error" in a.name], ids=label)
def test_errors_of_a_real_server_are_read(answer: Answer) -> None:
    turn = turn_of(read(answer.surface.codec(answer.request, answer.framing), answer.framing, answer.body))
    message = "failed to parse JSON: invalid character '}' looking for beginning of object key string"
    assert turn == Turn(error=message, finish="error")


ERRORS = [
    (OLLAMA, b'{"error":"model \'x\' not found"}', "model 'x' not found"),
    (OLLAMA, b'{"error parsing tool call":"invalid character"}\n', "error parsing tool call: invalid character"),
    (CHAT, b'{"error":{"message":"no","type":"api_error","param":null,"code":null}}', "no"),
    (CHAT, b'{"error":{"code":500,"message":"bad grammar","type":"server_error"}}', "bad grammar"),
    (CHAT, b'{"object":"error","message":"too long","type":"BadRequestError","param":null,"code":400}', "too long"),
    (CHAT, b'{"error":"plain"}', "plain"),
    (CHAT, b'{"error":{"reason":"odd"}}', '{"reason":"odd"}'),
    (RESPONSES, b'{"error":{"message":"no","type":"api_error","param":null,"code":null}}', "no"),
    (RESPONSES, b'{"object":"response","status":"failed","error":{"code":"x","message":"no"},"output":[]}', "no"),
    (MESSAGES, b'{"type":"error","error":{"type":"api_error","message":"no"},"request_id":"req_1"}', "no"),
]


@pytest.mark.parametrize(("surface", "body", "message"), ERRORS)
def test_error_bodies_are_read(surface: Any, body: bytes, message: str) -> None:
    turn = decode(surface, body, "json")
    assert (turn.error, turn.finish) == (message, "error")


STREAM_ERRORS = [
    (OLLAMA, b'{"message":{"role":"assistant","content":"Hi"},"done":false}\n{"error":"no"}\n', "no"),
    (CHAT, b'data: {"error":{"message":"no"}}\n\n', "no"),
    (CHAT, b'data: {"model":"m","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}\n\n'
           b'data: {"model":"","choices":[{"index":0,"delta":{"content":""},"finish_reason":null}]}\n\n', ""),
    (CHAT, b'error: {"code":500,"message":"no","type":"server_error"}\n\n', "no"),
    (RESPONSES, b'event: error\ndata: {"type":"error","code":"x","message":"no","param":null}\n\n', "no"),
    (RESPONSES, b'data: {"type":"response.failed","response":{"status":"failed","error":{"message":"no"}}}\n\n', "no"),
    (MESSAGES, b'event: error\ndata: {"type":"error","error":{"type":"overloaded_error","message":"no"}}\n\n', "no"),
]  # fmt: skip


@pytest.mark.parametrize(("surface", "body", "message"), STREAM_ERRORS)
def test_errors_in_mid_stream_are_read(surface: Any, body: bytes, message: str) -> None:
    turn = decode(surface, body)
    assert (turn.error, turn.finish) == (message, "error")


def test_a_body_that_does_not_say_that_it_is_done_has_no_end() -> None:
    body = b'{"model":"m","message":{"role":"assistant","content":"Hi"}}'
    assert decode(OLLAMA, body, "json") == Turn("Hi", finish=None)
    counted = b'{"model":"m","message":{"role":"assistant","content":"Hi"},"done":false,"eval_count":3}\n'
    assert decode(OLLAMA, counted) == Turn("Hi", finish=None, tokens=3)


def test_the_first_choice_is_read_wherever_it_stands() -> None:
    form = '{"index":%d,"message":{"role":"assistant","content":"%s"},"finish_reason":"stop"}'
    body = f'{{"choices":[7,{form % (1, "Other")},{form % (0, "First")}]}}'
    assert decode(CHAT, body.encode(), "json") == Turn("First", finish="stop")


def test_items_of_unknown_types_add_nothing() -> None:
    search = '{"type":"web_search_call","id":"ws_1","status":"completed"}'
    message = '{"type":"message","id":"m","content":[{"type":"output_text","text":"Hi"}]}'
    body = f'{{"object":"response","status":"completed","output":[{search},{message}]}}'
    assert decode(RESPONSES, body.encode(), "json") == Turn("Hi", finish="stop")


def test_a_server_that_never_names_its_model_is_not_taken_to_fail() -> None:
    body = (
        b'data: {"model":"","choices":[{"index":0,"delta":{"role":"assistant","content":""},"finish_reason":null}]}\n\n'
        b'data: {"model":"","choices":[{"index":0,"delta":{"content":""},"finish_reason":null}]}\n\n'
        b'data: {"model":"","choices":[{"index":0,"delta":{"content":"Hi"},"finish_reason":null}]}\n\n'
    )
    assert told(decode(CHAT, body)) == ("Hi", "", [], None)


@pytest.mark.parametrize(
    "raw",
    [b"<html>", b"[1]\n", b'{"a": }\n', b'{"a":"\xff"}\n', b'{"a":' * 5000, b'{"a":' + b"[" * 500 + b"]" * 500 + b"}"],
)
@pytest.mark.parametrize("surface", list(SURFACES.values()), ids=lambda surface: surface.name)
def test_bytes_of_something_else_are_refused(surface: Any, raw: bytes) -> None:
    with pytest.raises(DecodeError):
        surface.codec(surface.read_request({"model": "m"}), "json").read(raw)


@pytest.mark.parametrize("raw", [b"<html>\n\n", b"event: x\n<html>\n\n", b'{"error":"no"}\n\n'])
@pytest.mark.parametrize("surface", [CHAT, RESPONSES, MESSAGES], ids=lambda surface: surface.name)
def test_lines_that_no_event_has_are_refused(surface: Any, raw: bytes) -> None:
    with pytest.raises(DecodeError):
        surface.codec(surface.read_request({"model": "m"}), "sse").read(raw)


@pytest.mark.parametrize(
    "raw", [b": ping\n\n", b"\n\n", b"data: [DONE]\n\n", b"event: x\n\n", b"retry: 5\n\n", b"data:\n\n"]
)
@pytest.mark.parametrize("surface", [CHAT, RESPONSES, MESSAGES], ids=lambda surface: surface.name)
def test_events_without_data_add_nothing(surface: Any, raw: bytes) -> None:
    frame = surface.codec(surface.read_request({"model": "m"}), "sse").read(raw)
    assert (frame.raw, frame.document, frame.events) == (raw, None, ())


def test_line_ends_and_marks_of_any_kind_are_read() -> None:
    chunk = b'{"choices":[{"index":0,"delta":{"content":"Hi"}}]}'
    for raw in (b"data: %s\r\n\r\n", b"data:%s\r\r", b"\xef\xbb\xbfdata: %s\n\n", b": c\nid: 1\nevent: x\ndata: %s\n"):
        assert decode(CHAT, raw % chunk).text == "Hi"
    assert decode(CHAT, b'data: {"choices":\ndata: [{"index":0,"delta":{"content":"Hi"}}]}\n\n').text == "Hi"
    assert decode(OLLAMA, b'\n{"message":{"content":"Hi"},"done":false}\r\n').text == "Hi"


def chunk(delta: JsonObject, finish: str | None = None, **more: Json) -> bytes:
    choice: JsonObject = {"index": 0, "delta": delta, "finish_reason": finish}
    return b"data: " + json.dumps({"id": "c", "model": "m", "choices": [choice], **more}).encode() + b"\n\n"


def piece(**members: Any) -> JsonObject:
    """Return a piece of a call as a delta: `name` and `arguments` go into its function."""
    function = {key: members.pop(key) for key in ("name", "arguments") if key in members}
    return {**members, "function": function}


A, B = '{"a":1}', '{"b":2}'
PIECES: list[tuple[str, list[JsonObject], list[tuple[str, str, Json]]]] = [
    ("whole", [piece(index=0, id="x", name="f", arguments=A)], [("x", "f", {"a": 1})]),
    (
        "in many pieces",
        [piece(index=0, id="x", name="f", arguments="")] + [piece(index=0, arguments=char) for char in A],
        [("x", "f", {"a": 1})],
    ),
    (
        "two calls, interleaved",
        [
            piece(index=0, id="x", name="f", arguments='{"a"'),
            piece(index=1, id="y", name="g", arguments='{"b"'),
            piece(index=0, arguments=":1}"),
            piece(index=1, arguments=":2}"),
        ],
        [("x", "f", {"a": 1}), ("y", "g", {"b": 2})],
    ),
    (
        "one index for all",
        [piece(index=0, id="x", name="f", arguments=A), piece(index=0, id="y", name="g", arguments=B)],
        [("x", "f", {"a": 1}), ("y", "g", {"b": 2})],
    ),
    (
        "one index for all, in pieces",
        [
            piece(index=0, id="x", name="f", arguments='{"a"'),
            piece(index=0, arguments=":1}"),
            piece(index=0, id="y", name="f", arguments=""),
            piece(index=0, arguments=B),
        ],
        [("x", "f", {"a": 1}), ("y", "f", {"b": 2})],
    ),
    (
        "one index and no ids, another name",
        [piece(index=0, name="f", arguments=A), piece(index=0, name="g", arguments=B)],
        [("", "f", {"a": 1}), ("", "g", {"b": 2})],
    ),
    (
        "one index and no ids, the same name",
        [piece(index=0, name="f", arguments=A), piece(index=0, name="f", arguments=B)],
        [("", "f", {"a": 1}), ("", "f", {"b": 2})],
    ),
    (
        "one id for all",
        [piece(index=0, id="x", name="f", arguments=A), piece(index=1, id="x", name="g", arguments=B)],
        [("x", "f", {"a": 1}), ("x", "g", {"b": 2})],
    ),
    (
        "no index",
        [piece(id="x", name="f", arguments='{"a"'), piece(arguments=":1}"), piece(id="y", name="g", arguments=B)],
        [("x", "f", {"a": 1}), ("y", "g", {"b": 2})],
    ),
    (
        "no index, interleaved by id",
        [
            piece(id="x", name="f", arguments='{"a"'),
            piece(id="y", name="g", arguments='{"b"'),
            piece(id="x", arguments=":1}"),
            piece(id="y", arguments=":2}"),
        ],
        [("x", "f", {"a": 1}), ("y", "g", {"b": 2})],
    ),
    (
        "no index and no ids",
        [piece(name="f", arguments=A), piece(name="g", arguments='{"b"'), piece(arguments=":2}")],
        [("", "f", {"a": 1}), ("", "g", {"b": 2})],
    ),
    (
        "empty ids on what follows",
        [piece(index=0, id="x", name="f", arguments='{"a"'), piece(index=0, id="", arguments=":1}")],
        [("x", "f", {"a": 1})],
    ),
    (
        "null ids on what follows",
        [piece(index=0, id="x", name="f", arguments='{"a"'), piece(index=0, id=None, name=None, arguments=":1}")],
        [("x", "f", {"a": 1})],
    ),
    (
        "a new id on every piece",
        [piece(index=0, id="x1", name="f", arguments='{"a"'), piece(index=0, id="x2", arguments=":1}")],
        [("x1", "f", {"a": 1})],
    ),
    (
        "the name comes late",
        [piece(index=0, id="x", arguments=""), piece(index=0, name="f", arguments=""), piece(index=0, arguments=A)],
        [("x", "f", {"a": 1})],
    ),
    (
        "the name comes last",
        [piece(index=0, id="x", arguments=A), piece(index=0, name="f")],
        [("x", "f", {"a": 1})],
    ),
    (
        "the name comes on every piece",
        [piece(index=0, id="x", name="f", arguments='{"a"'), piece(index=0, name="f", arguments=":1}")],
        [("x", "f", {"a": 1})],
    ),
    (
        "the name comes in pieces",
        [piece(index=0, id="x", name="get_"), piece(index=0, name="time"), piece(index=0, arguments=A)],
        [("x", "get_time", {"a": 1})],
    ),
    (
        "arguments are null first",
        [piece(index=0, id="x", name="f", arguments=None), piece(index=0, arguments=A)],
        [("x", "f", {"a": 1})],
    ),
    ("arguments are null", [piece(index=0, id="x", name="f", arguments=None)], [("x", "f", None)]),
    ("arguments say null", [piece(index=0, id="x", name="f", arguments="null")], [("x", "f", None)]),
    ("arguments are empty", [piece(index=0, id="x", name="f", arguments="")], [("x", "f", {})]),
    ("arguments are missing", [piece(index=0, id="x", name="f")], [("x", "f", {})]),
    ("arguments are an object", [piece(index=0, id="x", name="f", arguments={"a": 1})], [("x", "f", {"a": 1})]),
    ("braces and quotes in strings", [piece(index=0, id="x", name="f", arguments='{"a":"}\\"'), piece(index=0, name="f", arguments='{"}')], [("x", "f", {"a": '}"{'})]),
    (
        "an escape cut in two",
        [
            piece(index=0, name="f", arguments='{"a":"\\'),
            piece(index=0, name="f", arguments='"}'),
            piece(index=0, name="f", arguments='"}'),
            piece(index=0, name="f", arguments=B),
        ],
        [("", "f", {"a": '"}'}), ("", "f", {"b": 2})],
    ),
]  # fmt: skip


@pytest.mark.parametrize(("pieces", "calls"), [case[1:] for case in PIECES], ids=[case[0] for case in PIECES])
def test_pieces_of_calls_are_joined_whatever_the_server_does(
    pieces: list[JsonObject], calls: list[tuple[str, str, Json]]
) -> None:
    body = b"".join(chunk({"tool_calls": [entry]}) for entry in pieces) + chunk({}, "tool_calls")
    turn = decode(CHAT, body)
    assert [(call.id, call.name, call.arguments) for call in turn.calls] == calls
    assert turn.finish == "tool_calls"


LIBERTIES: list[tuple[list[JsonObject], list[tuple[str, Json, Json, str]]]] = [
    ([piece(index=0, id="x", name="f", arguments=""), piece(index=0, arguments=A)], []),
    (
        [piece(index=0, id="x", name="f", arguments=A), piece(index=0, id="y", name="g", arguments=B)],
        [("/calls/1/index", 0, 1, "used again")],
    ),
    ([piece(id="x", name="f", arguments=A)], [("/calls/0/index", None, 0, "missing")]),
    ([piece(index=1, id="x", name="f", arguments=A)], [("/calls/0/index", 1, 0, "out of order")]),
    ([piece(index=0, name="f"), piece(index=0, id="x", arguments=A)], [("/calls/0/id", "", "x", "came late")]),
    ([piece(index=0, id="x"), piece(index=0, name="f", arguments=A)], [("/calls/0/name", "", "f", "came late")]),
    (
        [piece(index=0, id="x", name="f", arguments=None), piece(index=0, arguments=A)],
        [("/calls/0/arguments", None, A, "null first")],
    ),
]


@pytest.mark.parametrize(("pieces", "repairs"), LIBERTIES)
def test_what_was_forgiven_in_a_stream_is_told(
    pieces: list[JsonObject], repairs: list[tuple[str, Json, Json, str]]
) -> None:
    builder = TurnBuilder()
    codec = CHAT.codec(CHAT.read_request({"model": "m"}), "sse")
    for raw in [*(chunk({"tool_calls": [entry]}) for entry in pieces), chunk({}, "tool_calls")]:
        for event in codec.read(raw).events:
            builder.add(event)
    assert builder.repairs(True) == tuple(Repair("wire", *repair) for repair in repairs)


def test_a_finish_reason_that_hides_the_calls_is_told_where_it_counts() -> None:
    builder = TurnBuilder()
    for event in (CallPart(0, "x", "f", A), EndPart("stop")):
        builder.add(event)
    assert builder.repairs(True) == (Repair("wire", "/finish", "stop", "tool_calls", "there are calls"),)
    assert builder.repairs(False) == ()
    assert [surface.name for surface in SURFACES.values() if surface.finish_says_calls] == [
        "openai-chat",
        "anthropic-messages",
    ]


@pytest.mark.parametrize("answer", ANSWERS, ids=label)
def test_nothing_had_to_be_forgiven_in_the_answers_of_a_real_server(answer: Answer) -> None:
    builder = TurnBuilder()
    for frame in read(answer.surface.codec(answer.request, answer.framing), answer.framing, answer.body):
        for event in frame.events:
            builder.add(event)
    assert builder.repairs(answer.surface.finish_says_calls) == ()


def test_a_call_takes_pieces_without_end_in_linear_time() -> None:
    joiner = CallJoiner()
    for _ in range(50_000):
        joiner.add(CallPart(0, name="f", arguments='{"a":{}'))
    assert [call.name for call in joiner.calls()] == ["f"]


ARGUMENTS: list[tuple[str, Json]] = [
    ('{"a": 1}', {"a": 1}),
    ('{"a": 1.0}', {"a": 1.0}),
    ('{"a": 1, "a": 2}', {"a": 2}),
    ('{"a": "\\ud800"}', {"a": "\ud800"}),
    (" ", {}),
    ("null", None),
    ("[1]", "[1]"),
    ('"{}"', '"{}"'),
    ('{"a": NaN}', '{"a": NaN}'),
    ('{"a": -Infinity}', '{"a": -Infinity}'),
    ('{"a": 1e999}', '{"a": 1e999}'),
    ('{"a": 1,}', '{"a": 1,}'),
    ('{"a": ' + "9" * 5000 + "}", '{"a": ' + "9" * 5000 + "}"),
    ('{"a":' * 5000 + "1" + "}" * 5000, '{"a":' * 5000 + "1" + "}" * 5000),
]


@pytest.mark.parametrize(("text", "value"), ARGUMENTS, ids=[text[:20] for text, _ in ARGUMENTS])
def test_arguments_are_decoded_by_the_letter_or_stay_text(text: str, value: Json) -> None:
    decoded = decode_arguments(text)
    assert decoded == value
    assert type(decoded) is type(value)


def test_the_text_of_arguments_is_kept() -> None:
    turn = decode(CHAT, chunk({"tool_calls": [piece(index=0, id="x", name="f", arguments='{"a": 1}')]}))
    assert turn.calls == (ToolCall("x", "f", {"a": 1}, raw='{"a": 1}'),)


def test_text_in_the_place_of_an_object_stays_text_where_calls_carry_objects() -> None:
    function = b'{"function":{"name":"f","arguments":"{\\"a\\":1}"}}'
    line = b'{"message":{"role":"assistant","content":"","tool_calls":[%s]},"done":true}\n' % function
    assert decode(OLLAMA, line).calls == (ToolCall("", "f", '{"a":1}'),)
    body = b'{"content":[{"type":"tool_use","id":"x","name":"f","input":"{\\"a\\":1}"}]}'
    assert decode(MESSAGES, body, "json").calls == (ToolCall("x", "f", '{"a":1}'),)


def test_every_entry_of_ollamas_own_surface_is_a_call_of_its_own() -> None:
    """Seen: index 0 on every parallel call, no ids, the same call twice."""
    entry = b'{"function":{"index":0,"name":"roll","arguments":{"sides":6}}}'
    line = b'{"message":{"role":"assistant","content":"","tool_calls":[%s,%s]},"done":false}\n' % (entry, entry)
    assert decode(OLLAMA, line + line).calls == (ToolCall("", "roll", {"sides": 6}),) * 4


def test_llama_server_and_vllm_are_read() -> None:
    entry = piece(index=0, id="x", type="function", name="read_file", arguments=A)
    body = b"".join(
        [
            chunk({"role": "assistant", "content": None}),
            chunk({"reasoning_content": "Hm."}),
            chunk({"tool_calls": [entry]}, "tool_calls", usage={"completion_tokens": 9}, timings={"n": 1}),
            b"data: [DONE]\n\n",
        ]
    )
    turn = decode(CHAT, body)
    call = ToolCall("x", "read_file", {"a": 1}, raw=A)
    assert turn == Turn(thinking="Hm.", calls=(call,), finish="tool_calls", tokens=9)
    whole = {"role": "assistant", "content": None, "reasoning_content": "Hm.", "tool_calls": [entry]}
    document = {
        "choices": [{"index": 0, "message": whole, "finish_reason": "tool_calls"}],
        "usage": {"completion_tokens": 9},
    }
    assert decode(CHAT, json.dumps(document).encode(), "json") == turn


def test_responses_are_read_without_deltas() -> None:
    item: JsonObject = {"type": "function_call", "id": "fc_1", "call_id": "x", "name": "f", "arguments": A}
    message: JsonObject = {"type": "message", "id": "m", "content": [{"type": "output_text", "text": "Hi"}]}
    done: JsonObject = {"type": "response.output_item.done", "output_index": 0, "item": item}
    added: JsonObject = {**done, "type": "response.output_item.added", "item": {**item, "arguments": ""}}
    response: JsonObject = {"status": "completed", "output": [message, item], "usage": {"output_tokens": 9}}
    completed: JsonObject = {"type": "response.completed", "response": response}
    ended: JsonObject = {"type": "response.function_call_arguments.done", "item_id": "fc_1", "arguments": A}
    streams: list[tuple[list[JsonObject], str]] = [
        ([done], ""),
        ([added, done], ""),
        ([added, ended, done, completed], ""),
        ([completed], "Hi"),
    ]
    for given, text in streams:
        body = b"".join(b"data: " + json.dumps(event).encode() + b"\n\n" for event in given)
        turn = decode(RESPONSES, body)
        assert turn.text == text
        assert turn.calls == (ToolCall("x", "f", {"a": 1}, raw=A),)
    assert decode(RESPONSES, json.dumps(response).encode(), "json").tokens == 9


def test_a_response_that_was_cut_says_so() -> None:
    response: JsonObject = {"status": "incomplete", "output": [], "usage": {"output_tokens": 5}}
    event = {"type": "response.incomplete", "response": response}
    assert decode(RESPONSES, b"data: " + json.dumps(event).encode() + b"\n\n") == Turn(finish="length", tokens=5)
    assert decode(RESPONSES, json.dumps(response).encode(), "json") == Turn(finish="length", tokens=5)


def test_a_call_into_a_namespace_is_read_by_its_whole_name() -> None:
    item = {"type": "function_call", "call_id": "x", "name": "f", "namespace": "ns", "arguments": "{}"}
    turn = decode(RESPONSES, json.dumps({"status": "completed", "output": [item]}).encode(), "json")
    assert [call.name for call in turn.calls] == ["ns.f"]


def test_the_input_of_the_servers_own_tools_is_no_call() -> None:
    body = (
        b'data: {"type":"content_block_start","index":0,"content_block":{"type":"server_tool_use","id":"s","name":"web_search","input":{}}}\n\n'
        b'data: {"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{}"}}\n\n'
        b'data: {"type":"content_block_stop","index":0}\n\n'
    )
    assert decode(MESSAGES, body) == Turn()


def test_an_input_that_stands_in_the_opening_of_its_block_is_read() -> None:
    opening = b'data: {"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"x","name":"f","input":{"a":1}}}\n\n'
    delta = b'data: {"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\\"b\\":2}"}}\n\n'
    assert decode(MESSAGES, opening).calls == (ToolCall("x", "f", {"a": 1}),)
    assert decode(MESSAGES, opening + delta).calls == (ToolCall("x", "f", {"b": 2}, raw=B),)


# The tap

TAPPED = [(row, answer_of(row, "tapped"), answer_of(row, "plain")) for row in rows("tapped.jsonl")]


def untap(surface: Any, framing: Any, body: bytes) -> tuple[list[bytes], str]:
    kept: list[bytes] = []
    tokens = []
    for raw in frames(framing, body):
        found, token = surface.untap(raw, not kept)
        kept += found
        tokens.append(token)
    return kept, join_tokens(tokens)


def without_ids_and_times(body: bytes) -> bytes:
    import re

    for pattern in (
        rb"call_[a-z0-9]{8}",
        rb'"chatcmpl-\d+"',
        rb'"created":\d+',
        rb'"created_at":"[^"]*"',
        rb'_duration":\d+',
    ):
        body = re.sub(pattern, b"", body)
    return body


@pytest.mark.parametrize(("row", "tapped", "plain"), TAPPED, ids=[label(tapped) for _, tapped, _ in TAPPED])
def test_an_answer_without_its_tapped_tokens_is_what_would_have_come(row: Any, tapped: Answer, plain: Answer) -> None:
    kept, tokens = untap(tapped.surface, tapped.framing, tapped.body)
    assert without_ids_and_times(b"".join(kept)) == without_ids_and_times(plain.body)
    assert tokens == row["raw"]


def test_only_the_tapped_member_is_taken_out() -> None:
    arguments = b'{"logprobs": [1, 2],"x": "\\u003c"}'
    line = b'{"message":{"role":"assistant","content":"","tool_calls":[{"function":{"name":"f","arguments":%s}}]},"done":false%s}\n'
    tokens = b',"logprobs":[{"token":"<","bytes":[60]},{"token":"f"}]'
    assert OLLAMA.untap(line % (arguments, tokens), True) == ((line % (arguments, b""),), "<f")
    assert OLLAMA.untap(line % (arguments, b""), True) == ((line % (arguments, b""),), "")
    first = b'{"logprobs":[{"token":"<"}],"message":{"role":"assistant","content": "<"},"done":false}\n'
    assert OLLAMA.untap(first, True) == ((b'{"message":{"role":"assistant","content": "<"},"done":false}\n',), "<")
    assert CHAT.untap(b"data: [DONE]\n\n", True) == ((b"data: [DONE]\n\n",), "")
    assert OLLAMA.untap(b'{"logprobs": broken', True) == ((b'{"logprobs": broken',), "")
    assert MESSAGES.untap(b"data: {}\n\n", True) == ((b"data: {}\n\n",), "")


def test_tokens_that_are_pieces_of_a_character_are_joined() -> None:
    def tokens(*values: JsonObject) -> str:
        line = {"message": {"role": "assistant", "content": "x"}, "done": False, "logprobs": list(values)}
        return OLLAMA.untap(json.dumps(line).encode(), True)[1]

    halves = [tokens({"token": "\ufffd", "bytes": [0xF0, 0x9F]}), tokens({"token": "\ufffd", "bytes": [0x98, 0x80]})]
    assert join_tokens(halves) == "😀"
    assert join_tokens([tokens({"token": "a", "bytes": None}), tokens({"token": "b", "bytes": [300]})]) == "ab"
    assert join_tokens([tokens({"token": "x", "bytes": [0xF0]}), "y"]) == "\ufffdy"
    assert tokens() == ""
