"""The tool choice is met on the request where the server reads it, and on the answer where it does not."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from toolmend.model import Fault, Json, JsonObject, Outcome, Repair, Request, ToolCall, Turn
from toolmend.settings import Settings
from toolmend.surfaces import SURFACES
from toolmend.surfaces.surface import Surface
from toolmend.tool_choice import Prepared, judge, prepare, read_envelope
from toolmend.upstreams import CAPABILITIES, Kind, Server

CHAT, COMPLETIONS, RESPONSES, MESSAGES = "/api/chat", "/v1/chat/completions", "/v1/responses", "/v1/messages"
READ: JsonObject = {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]}
NOW: JsonObject = {"type": "object", "properties": {}}
SCHEMAS = {"read_file": READ, "get_time": NOW}


def tool(path: str, name: str) -> JsonObject:
    if path == RESPONSES:
        return {"type": "function", "name": name, "parameters": SCHEMAS[name]}
    if path == MESSAGES:
        return {"name": name, "input_schema": SCHEMAS[name]}
    return {"type": "function", "function": {"name": name, "parameters": SCHEMAS[name]}}


def body(path: str, choice: Json, **more: Json) -> JsonObject:
    document: JsonObject = {"model": "m", "tools": [tool(path, "read_file"), tool(path, "get_time")], "stream": False}
    document |= {"input": "Hi"} if path == RESPONSES else {"messages": [{"role": "user", "content": "Hi"}]}
    if path == MESSAGES:
        document["max_tokens"] = 100
    return {**document, **({} if choice is None else {"tool_choice": choice}), **more}


def prepared(path: str, document: JsonObject, kind: Kind = "ollama", model: str = "m", **settings: Any) -> Prepared:
    surface: Surface = SURFACES[path]
    request = surface.read_request({**document, "model": model})
    return prepare(surface, request, Server(kind), Settings(**settings))


def named(path: str, name: str) -> JsonObject:
    forms: dict[str, JsonObject] = {
        CHAT: {"type": "function", "function": {"name": name}},
        COMPLETIONS: {"type": "function", "function": {"name": name}},
        RESPONSES: {"type": "function", "name": name},
        MESSAGES: {"type": "tool", "name": name},
    }
    return forms[path]


ALL = [CHAT, COMPLETIONS, RESPONSES, MESSAGES]
NONE: dict[str, Json] = {CHAT: "none", COMPLETIONS: "none", RESPONSES: "none", MESSAGES: {"type": "none"}}
REQUIRED: dict[str, Json] = {
    CHAT: "required",
    COMPLETIONS: "required",
    RESPONSES: "required",
    MESSAGES: {"type": "any"},
}
AUTO: dict[str, Json] = {CHAT: "auto", COMPLETIONS: "auto", RESPONSES: "auto", MESSAGES: {"type": "auto"}}


class TestTheRequest:
    @pytest.mark.parametrize("path", ALL)
    @pytest.mark.parametrize("kind", ["ollama", "llama-server", "vllm", "unknown"])
    def test_auto_passes_as_it_came(self, path: str, kind: Kind) -> None:
        assert prepared(path, body(path, None), kind) == Prepared()
        assert prepared(path, body(path, AUTO[path], parallel_tool_calls=False), kind) == Prepared()

    @pytest.mark.parametrize("path", ALL)
    @pytest.mark.parametrize("kind", ["ollama", "llama-server", "vllm", "unknown"])
    def test_none_takes_the_tools_away_on_every_server(self, path: str, kind: Kind) -> None:
        bare = {key: value for key, value in body(path, None).items() if key != "tools"}
        assert prepared(path, body(path, NONE[path]), kind) == Prepared(bare)

    @pytest.mark.parametrize("path", ALL)
    def test_ollama_does_not_get_a_choice_that_it_does_not_read(self, path: str) -> None:
        assert prepared(path, body(path, REQUIRED[path])) == Prepared(body(path, None))
        assert prepared(path, body(path, named(path, "get_time"))) == Prepared(body(path, None))

    @pytest.mark.parametrize("path", [COMPLETIONS, RESPONSES, MESSAGES])
    @pytest.mark.parametrize("kind", ["llama-server", "vllm", "unknown"])
    def test_servers_that_read_required_get_it_as_it_came(self, path: str, kind: Kind) -> None:
        assert prepared(path, body(path, REQUIRED[path]), kind) == Prepared()

    @pytest.mark.parametrize("path", [COMPLETIONS, RESPONSES, MESSAGES])
    def test_vllm_gets_a_named_tool_as_it_came(self, path: str) -> None:
        assert prepared(path, body(path, named(path, "get_time")), "vllm") == Prepared()

    @pytest.mark.parametrize("path", [COMPLETIONS, RESPONSES, MESSAGES])
    def test_llama_server_gets_a_named_tool_as_the_only_one_and_required(self, path: str) -> None:
        asked = body(path, REQUIRED[path], tools=[tool(path, "get_time")])
        assert prepared(path, body(path, named(path, "get_time")), "llama-server") == Prepared(asked)

    def test_a_cloud_model_gets_the_choice_as_it_came(self) -> None:
        assert prepared(COMPLETIONS, body(COMPLETIONS, "required"), model="m:cloud") == Prepared()

    @pytest.mark.parametrize("mode", ["auto", "required"])
    def test_only_the_allowed_tools_are_offered(self, mode: str) -> None:
        allowed: JsonObject = {"mode": mode, "tools": [named(COMPLETIONS, "get_time")]}
        choice: JsonObject = {"type": "allowed_tools", "allowed_tools": allowed}
        offered = body(COMPLETIONS, None, tools=[tool(COMPLETIONS, "get_time")])
        assert prepared(COMPLETIONS, body(COMPLETIONS, choice)) == Prepared(offered)
        assert prepared(COMPLETIONS, body(COMPLETIONS, choice), "vllm") == Prepared({**offered, "tool_choice": mode})

    def test_allowed_tools_in_the_flat_form_are_read_too(self) -> None:
        choice: JsonObject = {"type": "allowed_tools", "mode": "auto", "tools": [named(RESPONSES, "get_time")]}
        offered = body(RESPONSES, None, tools=[tool(RESPONSES, "get_time")])
        assert prepared(RESPONSES, body(RESPONSES, choice)) == Prepared(offered)

    @pytest.mark.parametrize("choice", [{"type": "magic"}, "sometimes", 7])
    def test_a_choice_that_is_not_understood_passes_with_a_warning(self, choice: Json) -> None:
        warned = prepared(COMPLETIONS, body(COMPLETIONS, choice))
        assert warned.document is None
        assert warned.warning == (
            f"openai-chat: tool_choice is {json.dumps(choice, separators=(',', ':'))}, which is not understood: "
            "passed on and not enforced"
        )

    def test_a_choice_of_a_tool_that_is_not_offered_passes_with_a_warning(self) -> None:
        assert prepared(CHAT, body(CHAT, named(CHAT, "fly"))) == Prepared(
            warning="ollama-chat: tool_choice names fly, which is not offered: passed on and not enforced"
        )

    def test_without_tools_nothing_is_ours(self) -> None:
        document: JsonObject = {"model": "m", "messages": [], "tool_choice": "none"}
        assert prepared(COMPLETIONS, document) == Prepared()


READ_ENVELOPE: JsonObject = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "enum": ["read_file"]},
        "arguments": {
            "type": "object",
            "properties": {"path": {"type": "string"}},
            "required": ["path"],
            "additionalProperties": False,
        },
    },
    "required": ["name", "arguments"],
    "additionalProperties": False,
}


class TestConstrain:
    def test_the_schema_goes_on_the_first_request_in_the_form_that_was_asked_for(self) -> None:
        document = body(CHAT, named(CHAT, "read_file"), stream=True, options={"num_predict": 50})
        got = prepared(CHAT, document, force="constrain")
        assert got.constrained == READ_ENVELOPE
        expected = {
            **body(CHAT, None, stream=True),
            "think": False,
            "format": READ_ENVELOPE,
            "options": {"num_predict": 50},
        }
        assert got.document == expected

    def test_required_allows_each_tool(self) -> None:
        got = prepared(COMPLETIONS, body(COMPLETIONS, "required"), force="constrain")
        assert got.constrained is not None
        names = [branch["properties"]["name"]["enum"] for branch in got.constrained["anyOf"]]  # type: ignore[index,union-attr,call-overload]
        assert names == [["read_file"], ["get_time"]]

    @pytest.mark.parametrize("kind", ["llama-server", "vllm"])
    def test_a_server_that_meets_the_choice_gets_no_schema(self, kind: Kind) -> None:
        got = prepared(COMPLETIONS, body(COMPLETIONS, "required"), kind, force="constrain")
        assert got == Prepared()

    def test_a_surface_without_a_schema_sends_it_to_one_that_carries_it(self) -> None:
        got = prepared(MESSAGES, body(MESSAGES, {"type": "tool", "name": "read_file"}), force="constrain")
        assert got.path == CHAT
        assert got.constrained == READ_ENVELOPE
        assert got.document is not None
        assert (got.document["format"], got.document["stream"], got.document["think"]) == (READ_ENVELOPE, False, False)
        assert got.document["messages"] == body(CHAT, None)["messages"]

    @pytest.mark.parametrize("kind", ["unknown", "vllm"])
    def test_elsewhere_than_on_ollama_it_answers_first(self, kind: Kind) -> None:
        got = prepared(MESSAGES, body(MESSAGES, {"type": "any"}), kind, force="constrain")
        assert got.path is None
        assert got.constrained is None

    def test_a_server_that_carries_schemas_on_chat_completions_alone_answers_first(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        other = replace(CAPABILITIES["ollama"], asked_on={"anthropic-messages": COMPLETIONS})
        monkeypatch.setattr("toolmend.upstreams.CAPABILITIES", {"ollama": other})
        got = prepared(MESSAGES, body(MESSAGES, {"type": "any"}), force="constrain")
        assert got == Prepared(body(MESSAGES, None))

    def test_a_model_that_loses_schemas_answers_first(self) -> None:
        server = Server()
        server.model("m").loses_schema = True
        surface = SURFACES[CHAT]
        request = surface.read_request(body(CHAT, "required"))
        got = prepare(surface, request, server, Settings(force="constrain"))
        assert got == Prepared(body(CHAT, None))

    def test_auto_is_never_constrained(self) -> None:
        assert prepared(CHAT, body(CHAT, "auto"), force="constrain") == Prepared()

    def test_the_answer_is_read_as_a_call(self) -> None:
        request = asked("required")
        turn = Turn(text='{\n "name": "read_file",\n "arguments": {"path": "a"}\n}', finish="stop", tokens=20)
        call = ToolCall("", "read_file", {"path": "a"}, dialect="envelope")
        read = read_envelope(turn, request)
        assert read == Turn(calls=(call,), finish="tool_calls", tokens=20)
        made = Repair("choose", "/calls/0", None, {"name": "read_file", "arguments": {"path": "a"}}, "constrained")
        assert judge(Outcome(read), request) == Outcome(read, (made,))

    @pytest.mark.parametrize("text", ["", "Hello", '{"name": "fly", "arguments": {}}', '{"path": "a"}', "[1]"])
    def test_any_other_answer_stays_what_it_is(self, text: str) -> None:
        turn = Turn(text=text, finish="stop")
        assert read_envelope(turn, asked("required")) == turn

    def test_a_call_that_came_as_one_stays_what_it_is(self) -> None:
        turn = Turn(calls=(ToolCall("c", "read_file", {"path": "a"}),), finish="tool_calls")
        assert read_envelope(turn, asked("required")) == turn


def asked(choice: Json, **more: Json) -> Request:
    return SURFACES[COMPLETIONS].read_request(body(COMPLETIONS, choice, **more))


def call(name: str, **arguments: Json) -> ToolCall:
    return ToolCall(f"id_{name}", name, arguments)


def shown(*calls: ToolCall) -> list[Json]:
    return [{"name": each.name, "arguments": each.arguments} for each in calls]


READING, TIMING, FLYING = call("read_file", path="a"), call("get_time"), call("fly")


class TestTheAnswer:
    @pytest.mark.parametrize("choice", ["auto", None, {"type": "magic"}, named(COMPLETIONS, "fly")])
    def test_nothing_is_asked_of_auto_and_of_what_is_not_understood(self, choice: Json) -> None:
        for turn in (Turn(text="Hi", finish="stop"), Turn(calls=(READING, TIMING), finish="tool_calls")):
            assert judge(Outcome(turn), asked(choice)) == Outcome(turn)

    def test_none_removes_calls_and_leaves_the_text(self) -> None:
        turn = Turn(text="Hi", calls=(READING,), finish="tool_calls")
        fault = Fault("/calls/0/arguments/path", "type", "")
        repair = Repair("coerce", "/calls/0/arguments/path", 1, "a")
        gone = Repair("choose", "/calls/0", shown(READING)[0], None, "tool_choice is none")
        assert judge(Outcome(turn, (repair,), (fault,)), asked("none")) == Outcome(
            Turn(text="Hi", finish="stop"), (gone,)
        )

    def test_parallel_off_leaves_the_first_call(self) -> None:
        turn = Turn(calls=(READING, TIMING), finish="tool_calls")
        gone = Repair("choose", "/calls/1", shown(TIMING)[0], None, "parallel calls are off")
        judged = judge(Outcome(turn), asked("auto", parallel_tool_calls=False))
        assert judged == Outcome(Turn(calls=(READING,), finish="tool_calls"), (gone,))

    def test_what_was_said_of_the_text_stays_when_a_call_goes(self) -> None:
        turn = Turn(text="Hi", calls=(READING, TIMING), finish="tool_calls")
        taken = Repair("recover", "/text", "Hi <tool_call>", "Hi", "hermes")
        gone = Repair("choose", "/calls/1", shown(TIMING)[0], None, "parallel calls are off")
        judged = judge(Outcome(turn, (taken,)), asked("auto", parallel_tool_calls=False))
        assert judged == Outcome(Turn(text="Hi", calls=(READING,), finish="tool_calls"), (taken, gone))

    @pytest.mark.parametrize("finish", ["stop", "length"])
    def test_required_without_a_call_is_a_fault(self, finish: Any) -> None:
        turn = Turn(text="Hi", finish=finish)
        fault = Fault("/calls", "tool-choice", "the choice is required, and there is no call to any tool")
        assert judge(Outcome(turn), asked("required")) == Outcome(turn, (), (fault,))

    def test_required_with_any_call_is_met(self) -> None:
        turn = Turn(calls=(TIMING,), finish="tool_calls")
        assert judge(Outcome(turn), asked("required")) == Outcome(turn)

    def test_a_call_to_a_tool_that_is_not_offered_does_not_meet_it(self) -> None:
        turn = Turn(calls=(FLYING,), finish="tool_calls")
        unknown = Fault("/calls/0/name", "unknown-tool", "")
        judged = judge(Outcome(turn, (), (unknown,)), asked("required"))
        assert [fault.keyword for fault in judged.faults] == ["unknown-tool", "tool-choice"]

    def test_a_broken_call_is_mended_and_not_a_second_fault(self) -> None:
        turn = Turn(calls=(call("read_file"),), finish="tool_calls")
        missing = Fault("/calls/0/arguments/path", "required", "")
        assert judge(Outcome(turn, (), (missing,)), asked("required")) == Outcome(turn, (), (missing,))

    def test_another_call_stays_until_the_named_one_is_there(self) -> None:
        turn = Turn(calls=(TIMING,), finish="tool_calls")
        fault = Fault("/calls", "tool-choice", "the choice is named, and there is no call to read_file")
        assert judge(Outcome(turn), asked(named(COMPLETIONS, "read_file"))) == Outcome(turn, (), (fault,))

    def test_beside_the_named_call_others_go(self) -> None:
        turn = Turn(calls=(TIMING, READING), finish="tool_calls")
        repairs = (Repair("coerce", "/calls/1/arguments/path", 1, "a"),)
        faults = (Fault("/calls/0/arguments/zone", "required", ""), Fault("/calls/1/arguments/path", "type", ""))
        assert judge(Outcome(turn, repairs, faults), asked(named(COMPLETIONS, "read_file"))) == Outcome(
            Turn(calls=(READING,), finish="tool_calls"),
            (
                Repair("coerce", "/calls/0/arguments/path", 1, "a"),
                Repair("choose", "/calls/0", shown(TIMING)[0], None, "tool_choice allows read_file"),
            ),
            (Fault("/calls/0/arguments/path", "type", ""),),
        )

    def test_a_call_outside_the_allowed_tools_is_a_fault_also_when_none_is_required(self) -> None:
        allowed: JsonObject = {"mode": "auto", "tools": [named(COMPLETIONS, "get_time")]}
        request = asked({"type": "allowed_tools", "allowed_tools": allowed})
        turn = Turn(calls=(READING,), finish="tool_calls")
        assert [fault.keyword for fault in judge(Outcome(turn), request).faults] == ["tool-choice"]
        assert judge(Outcome(Turn(text="Hi", finish="stop")), request).faults == ()

    def test_none_takes_away_an_error_about_a_call(self) -> None:
        turn = Turn(text="Hi", finish="error", error="tool 'read_file' not found")
        gone = Repair("choose", "/error", turn.error, None, "a call, and tool_choice is none")
        assert judge(Outcome(turn), asked("none")) == Outcome(Turn(text="Hi", finish="stop"), (gone,))

    def test_none_leaves_any_other_error(self) -> None:
        turn = Turn(finish="error", error="model 'm' not found")
        assert judge(Outcome(turn), asked("none")) == Outcome(turn)

    def test_an_error_that_is_not_ours_is_not_made_one(self) -> None:
        turn = Turn(finish="error", error="model 'm' not found")
        assert judge(Outcome(turn), asked("required")) == Outcome(turn)

    def test_the_arguments_of_the_forced_tool_alone_are_its_call(self) -> None:
        turn = Turn(text='{"path": "a"}', finish="stop", tokens=6)
        assert judge(Outcome(turn), asked(named(COMPLETIONS, "read_file"))) == Outcome(
            Turn(calls=(ToolCall("", "read_file", {"path": "a"}),), finish="tool_calls", tokens=6),
            (
                Repair("choose", "/text", '{"path": "a"}', "", "the arguments of the forced tool"),
                Repair("choose", "/calls/0", None, {"name": "read_file", "arguments": {"path": "a"}}),
            ),
        )

    @pytest.mark.parametrize("text", ['{"days": 3}', "{}", "a", '[{"path": "a"}]', 'Here: {"path": "a"}'])
    def test_other_text_is_no_call_to_the_forced_tool(self, text: str) -> None:
        turn = Turn(text=text, finish="stop")
        judged = judge(Outcome(turn), asked(named(COMPLETIONS, "read_file")))
        assert (judged.turn, [fault.keyword for fault in judged.faults]) == (turn, ["tool-choice"])

    def test_judging_twice_changes_nothing(self) -> None:
        request = asked(named(COMPLETIONS, "read_file"))
        once = judge(Outcome(Turn(calls=(TIMING, READING), finish="tool_calls")), request)
        assert judge(once, request) == once
