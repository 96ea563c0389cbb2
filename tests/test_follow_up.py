"""The model is asked again only about what is broken, and whatever fails leaves the turn as it came."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, cast

import jsonschema
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from toolmend.follow_up import Answered, FollowUp, Questions, Reply
from toolmend.model import Fault, Json, JsonObject, Outcome, Repair, Request, ToolCall, Turn
from toolmend.settings import Settings
from toolmend.surfaces import SURFACES
from toolmend.upstreams import CAPABILITIES, Server

CHAT, COMPLETIONS, RESPONSES, MESSAGES = "/api/chat", "/v1/chat/completions", "/v1/responses", "/v1/messages"
EVENT: JsonObject = {
    "type": "object",
    "properties": {
        "title": {"type": "string"},
        "days": {"type": "integer"},
        "priority": {"type": "string", "enum": ["low", "high"]},
        "notes": {"type": "string"},
        "steps": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {"text": {"type": "string"}, "state": {"type": "string", "enum": ["open", "done"]}},
                "required": ["text", "state"],
            },
        },
        "place": {"type": "object", "properties": {"room": {"type": "string"}, "floor": {"type": "integer"}}, "required": ["room", "floor"]},
    },
    "required": ["title", "days"],
}  # fmt: skip
READ: JsonObject = {
    "type": "object",
    "properties": {"path": {"type": "string"}},
    "required": ["path"],
    "additionalProperties": False,
}
SCHEMAS = {"create_event": EVENT, "read_file": READ}
USER: JsonObject = {"role": "user", "content": "Do it."}


def tool(path: str, name: str) -> JsonObject:
    if path == RESPONSES:
        return {"type": "function", "name": name, "parameters": SCHEMAS[name]}
    if path == MESSAGES:
        return {"name": name, "input_schema": SCHEMAS[name]}
    return {"type": "function", "function": {"name": name, "parameters": SCHEMAS[name]}}


def body(path: str = CHAT, **more: Json) -> JsonObject:
    document: JsonObject = {"model": "m", "tools": [tool(path, "create_event"), tool(path, "read_file")]}
    document |= {"input": [USER]} if path == RESPONSES else {"messages": [USER]}
    if path == MESSAGES:
        document["max_tokens"] = 100
    return {**document, **more}


def request(path: str = CHAT, **more: Json) -> Request:
    return SURFACES[path].read_request(body(path, **more))


def questions(
    outcome: Outcome, path: str = CHAT, server: Server | None = None, chosen: Settings | None = None, **more: Json
) -> Questions:
    return Questions(SURFACES[path], request(path, **more), outcome, server or Server(), chosen or Settings())


def ask(*given: Any, **more: Any) -> FollowUp:
    question = questions(*given, **more).next(None)
    assert isinstance(question, FollowUp)
    return question


def event(**arguments: Json) -> ToolCall:
    return ToolCall("call_1", "create_event", arguments)


def broken(call: ToolCall, *faults: tuple[str, str], at: int = 0) -> Outcome:
    made = tuple(Fault(f"/calls/{at}{path}", keyword, "") for path, keyword in faults)
    return Outcome(Turn(calls=(call,), finish="tool_calls", tokens=30), (), made)


MISSING = broken(event(title="Plan"), ("/arguments/days", "required"))
SWALLOWED = Outcome(Turn(finish="stop", tokens=20), (), (Fault("", "swallowed", ""),))
UNMET = Outcome(Turn(text="Hi.", finish="stop"), (), (Fault("/calls", "tool-choice", ""),))


def chat_reply(content: Json = "", calls: Iterable[tuple[str, JsonObject]] = (), **more: Json) -> Reply:
    """Write a whole answer of /api/chat; a value for the content goes out as its JSON."""
    text = content if isinstance(content, str) else json.dumps(content)
    made = [{"id": "call_x", "function": {"name": name, "arguments": arguments}} for name, arguments in calls]
    message = {"role": "assistant", "content": text, **({"tool_calls": made} if made else {})}
    answer = {"model": "m", "created_at": "", "message": message, "done": True, "done_reason": "stop", "eval_count": 9}
    return Reply(200, "application/json; charset=utf-8", json.dumps({**answer, **more}).encode())


def completion_reply(text: str) -> Reply:
    choice = {"index": 0, "message": {"role": "assistant", "content": text}, "finish_reason": "stop"}
    return Reply(200, "application/json", json.dumps({"id": "c", "choices": [choice]}).encode())


def envelope(name: str, **arguments: Json) -> JsonObject:
    return {"name": name, "arguments": arguments}


def schema_of(question: FollowUp) -> Any:
    return question.schema


def arguments_of(question: FollowUp) -> Any:
    return schema_of(question)["properties"]["arguments"]


class TestWhatIsAsked:
    def test_nothing_for_a_turn_without_faults(self) -> None:
        assert questions(Outcome(Turn(text="Hi.", finish="stop"))).next(None) is None

    @pytest.mark.parametrize("keyword", ["unknown-tool", "cut"])
    def test_nothing_for_what_no_question_mends(self, keyword: str) -> None:
        outcome = Outcome(Turn(finish="length"), (), (Fault("/text", keyword, ""),))
        assert questions(outcome).next(None) is None

    def test_nothing_when_it_is_forbidden(self) -> None:
        assert questions(MISSING, chosen=Settings(follow_up=False)).next(None) is None

    def test_nothing_when_no_call_is_wanted(self) -> None:
        assert questions(MISSING, COMPLETIONS, tool_choice="none").next(None) is None

    def test_nothing_about_a_model_that_failed_three_times(self) -> None:
        server = Server()
        for _ in range(3):
            server.model("m").asked_badly()
        assert questions(MISSING, server=server).next(None) is None

    def test_a_missing_member_with_the_rest_pinned(self) -> None:
        question = ask(MISSING)
        assert (question.kind, question.path, question.pinned) == ("constrained", "/api/chat", ({"title": "Plan"},))
        assert question.schema == {
            "type": "object",
            "properties": {
                "name": {"type": "string", "enum": ["create_event"]},
                "arguments": {
                    "type": "object",
                    "properties": {"title": {"const": "Plan"}, "days": {"type": "integer"}},
                    "required": ["title", "days"],
                    "additionalProperties": False,
                },
            },
            "required": ["name", "arguments"],
            "additionalProperties": False,
        }
        assert question.faults == MISSING.faults

    def test_long_values_are_left_out(self) -> None:
        outcome = broken(event(title="Plan", notes="x" * 300), ("/arguments/days", "required"))
        assert list(arguments_of(ask(outcome))["properties"]) == ["title", "days"]

    def test_only_the_broken_items_and_members_inside(self) -> None:
        call = event(
            title="Plan",
            days=1,
            steps=[{"text": "a", "state": "open"}, {"text": "b", "state": "later"}],
            place={"room": "B2"},
        )
        outcome = broken(call, ("/arguments/steps/1/state", "enum"), ("/arguments/place/floor", "required"))
        asked = arguments_of(ask(outcome))["properties"]
        assert asked["steps"]["properties"]["1"]["properties"] == {
            "text": {"const": "b"},
            "state": {"enum": ["open", "done"]},
        }
        assert asked["place"]["properties"] == {"room": {"const": "B2"}, "floor": {"type": "integer"}}

    def test_the_whole_of_a_value_whose_schema_is_put_together(self) -> None:
        place: JsonObject = {"allOf": [{"type": "object", "properties": {"floor": {"type": "integer"}}}]}
        parameters: JsonObject = {"type": "object", "properties": {"place": place, "title": {"type": "string"}}}
        book: JsonObject = {"type": "function", "function": {"name": "book", "parameters": parameters}}
        call = ToolCall("c", "book", {"place": {"floor": "top"}, "title": "Plan"})
        asked = arguments_of(ask(broken(call, ("/arguments/place/floor", "type")), tools=[book]))["properties"]
        whole: JsonObject = {
            "type": "object",
            "properties": {"floor": {"type": "integer"}},
            "additionalProperties": False,
        }
        assert asked == {"place": whole, "title": {"const": "Plan"}}

    def test_all_arguments_when_they_are_no_object(self) -> None:
        outcome = broken(ToolCall("c", "read_file", '{"path": "a'), ("/arguments", "syntax"))
        assert arguments_of(ask(outcome)) == READ

    def test_any_tool_when_the_name_is_invented(self) -> None:
        outcome = broken(ToolCall("c", "openFile", {"path": "a"}), ("/name", "invented-tool"))
        names = [branch["properties"]["name"]["enum"][0] for branch in schema_of(ask(outcome))["anyOf"]]
        assert names == ["create_event", "read_file", "none_of_these_tools"]

    @pytest.mark.parametrize("where", ["/text", "/calls/0/name"])
    def test_a_model_that_meant_none_of_the_tools_may_say_so(self, where: str) -> None:
        calls = (ToolCall("c", "openFile", {"path": "a"}),) if where != "/text" else ()
        server = Server()
        asked = questions(
            Outcome(Turn(calls=calls, finish="stop"), (), (Fault(where, "invented-tool", ""),)), server=server
        )
        question = asked.next(None)
        assert isinstance(question, FollowUp)
        declined = {"message": {"content": '{"name": "none_of_these_tools", "arguments": {}}'}, "done": True}
        assert asked.next(Reply(200, "application/json", json.dumps(declined).encode())) is None
        assert server.model("m").failures == 0
        assert not server.model("m").loses_schema

    def test_only_the_tool_of_the_choice(self) -> None:
        named: JsonObject = {"type": "function", "function": {"name": "read_file"}}
        question = ask(UNMET, COMPLETIONS, tool_choice=named)
        assert schema_of(question)["properties"]["name"] == {"type": "string", "enum": ["read_file"]}

    def test_a_new_call_when_the_one_that_came_is_not_the_chosen_one(self) -> None:
        named: JsonObject = {"type": "function", "function": {"name": "read_file"}}
        outcome = replace(MISSING, faults=(*MISSING.faults, Fault("/calls", "tool-choice", "")))
        assert arguments_of(ask(outcome, COMPLETIONS, tool_choice=named)) == READ

    @pytest.mark.parametrize("error", ["tool 'readFile' not found", "parse call to `read_file`: no closing tag"])
    def test_the_tool_that_the_error_names(self, error: str) -> None:
        outcome = Outcome(Turn(finish="error", error=error), (), (Fault("", "server-error", error),))
        question = ask(outcome, chosen=Settings(tap="off"))
        assert schema_of(question)["properties"]["name"]["enum"] == ["read_file"]

    def test_several_broken_calls_at_once(self) -> None:
        turn = Turn(calls=(event(title="A"), ToolCall("c", "read_file", {"path": "x"}), event(title="B")))
        faults = (Fault("/calls/0/arguments/days", "required", ""), Fault("/calls/2/arguments/days", "required", ""))
        question = ask(Outcome(turn, (), faults))
        members = schema_of(question)["properties"]
        assert schema_of(question)["required"] == ["call_1", "call_2"]
        titles = [members[name]["properties"]["arguments"]["properties"]["title"] for name in members]
        assert titles == [{"const": "A"}, {"const": "B"}]
        assert question.pinned == ({"title": "A"}, {"title": "B"})

    def test_what_a_schema_points_to_stands_at_its_root(self) -> None:
        parameters: JsonObject = {
            "type": "object",
            "properties": {"tree": {"$ref": "#/$defs/Node"}},
            "required": ["tree"],
            "$defs": {"Node": {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}}},
        }
        grow: JsonObject = {"type": "function", "function": {"name": "grow", "parameters": parameters}}
        outcome = broken(ToolCall("c", "grow", {}), ("/arguments/tree", "required"))
        question = ask(outcome, tools=[grow])
        assert arguments_of(question)["properties"] == {"tree": {"$ref": "#/$defs/d0"}}
        node: JsonObject = {
            "type": "object",
            "properties": {"next": {"$ref": "#/$defs/d0"}},
            "additionalProperties": False,
        }
        assert question.schema["$defs"] == {"d0": node}

    def test_a_tool_without_parameters_takes_none(self) -> None:
        now: JsonObject = {"type": "function", "function": {"name": "now"}}
        empty: JsonObject = {"type": "object", "properties": {}, "additionalProperties": False}
        assert arguments_of(ask(UNMET, COMPLETIONS, tools=[now], tool_choice="required")) == empty

    def test_a_client_that_asked_for_json_may_get_it_without_a_call(self) -> None:
        outcome = Outcome(Turn(finish="stop", tokens=9), (), (Fault("", "swallowed", ""),))
        assert questions(outcome, chosen=Settings(tap="off"), format="json").next(None) is None


class TestTheBody:
    def test_the_request_is_kept_but_for_what_makes_it_a_question(self) -> None:
        document = body(stream=True, keep_alive="10m", options={"num_ctx": 8192, "temperature": 0.3, "stop": ["END"]})
        question = ask(MISSING, **{key: document[key] for key in ("stream", "keep_alive", "options")})
        assert question.document == {
            **body(keep_alive="10m"),
            "stream": False,
            "think": False,
            "format": question.schema,
            "options": {"num_ctx": 8192, "temperature": 0.3, "num_predict": 4096},
        }

    @pytest.mark.parametrize("nothing", [0, 0.0, "0", "0s", "0m"])
    def test_unloading_is_held_back(self, nothing: Json) -> None:
        assert "keep_alive" not in ask(MISSING, keep_alive=nothing).document

    @pytest.mark.parametrize("time", [-1, "5m", "10s", 300])
    def test_another_keep_alive_stays(self, time: Json) -> None:
        assert ask(MISSING, keep_alive=time).document["keep_alive"] == time

    def test_the_clients_own_limit_is_not_passed(self) -> None:
        assert cast(JsonObject, ask(MISSING, options={"num_predict": 50}).document["options"])["num_predict"] == 50
        assert cast(JsonObject, ask(MISSING, options={"num_predict": -1}).document["options"])["num_predict"] == 4096
        assert ask(MISSING, COMPLETIONS, max_tokens=60).document["max_tokens"] == 60

    def test_chat_completions_carry_the_schema_themselves(self) -> None:
        question = ask(MISSING, COMPLETIONS, stream=True, stream_options={"include_usage": True}, stop="END", n=1)
        document = question.document
        assert question.path == "/v1/chat/completions"
        assert cast(Any, document)["response_format"]["json_schema"]["schema"] == question.schema
        assert (document["stream"], document["reasoning_effort"], document["max_tokens"]) == (False, "none", 4096)
        assert not {"stream_options", "stop", "n"} & set(document)
        assert (document["messages"], document["tools"]) == (body(COMPLETIONS)["messages"], body(COMPLETIONS)["tools"])

    def test_responses_carry_the_schema_themselves(self) -> None:
        question = ask(MISSING, RESPONSES)
        assert question.path == "/v1/responses"
        assert cast(Any, question.document)["text"]["format"]["schema"] == question.schema

    def test_messages_are_asked_on_api_chat(self) -> None:
        question = ask(MISSING, MESSAGES, system="Be brief.", stop_sequences=["END"])
        assert question.path == "/api/chat"
        assert question.document == {
            "model": "m",
            "messages": [{"role": "system", "content": "Be brief."}, USER],
            "tools": body(CHAT)["tools"],
            "options": {"num_predict": 100},
            "stream": False,
            "think": False,
            "format": question.schema,
        }

    @pytest.mark.parametrize("path", [COMPLETIONS, RESPONSES, MESSAGES])
    @pytest.mark.parametrize("kind", ["llama-server", "vllm"])
    def test_other_servers_are_asked_on_chat_completions(self, path: str, kind: Any) -> None:
        question = ask(MISSING, path, server=Server(kind))
        document: Any = question.document
        assert question.path == "/v1/chat/completions"
        assert document["response_format"]["json_schema"]["schema"] == question.schema
        assert (document["tool_choice"], document["chat_template_kwargs"]) == ("none", {"enable_thinking": False})
        assert "reasoning_effort" not in document
        assert document["messages"] == [USER]

    def test_only_allowed_tools_are_in_the_prompt_as_they_were(self) -> None:
        allowed: JsonObject = {"mode": "required", "tools": [{"type": "function", "function": {"name": "read_file"}}]}
        choice: JsonObject = {"type": "allowed_tools", "allowed_tools": allowed}
        assert ask(UNMET, COMPLETIONS, tool_choice=choice).document["tools"] == [tool(COMPLETIONS, "read_file")]


GOOD = envelope("create_event", title="Plan", days=3)
MENDED = event(title="Plan", days=3)
HARMONY = "<|start|>system<|message|>You are…<|end|><|start|>user<|message|>Do it.<|end|><|start|>assistant"


def render_reply(prompt: str) -> Reply:
    document = {"model": "m", "message": {"role": "", "content": ""}, "done": False}
    debug = {"_debug_info": {"rendered_template": prompt}}
    return Reply(200, "application/json; charset=utf-8", json.dumps({**document, **debug}).encode())


def raw_reply(value: Json, reason: str = "stop") -> Reply:
    document = {"model": "m", "response": json.dumps(value, indent=1), "done": True, "done_reason": reason}
    return Reply(200, "application/json; charset=utf-8", json.dumps(document).encode())


def run(asking: Questions, *replies: Reply | None) -> tuple[list[str], Answered | None]:
    """Give these replies one after the other; they must be as many as there are questions."""
    kinds: list[str] = []
    question = asking.next(None)
    for reply in replies:
        assert isinstance(question, FollowUp)
        kinds.append(question.kind)
        question = asking.next(reply)
    assert not isinstance(question, FollowUp), f"one more question: {question.kind}"
    return kinds, question


class TestTheReply:
    def test_what_was_asked_for_is_put_into_the_call(self) -> None:
        kinds, answer = run(questions(MISSING), chat_reply(GOOD))
        assert kinds == ["constrained"]
        assert answer == Answered(
            Outcome(
                Turn(calls=(MENDED,), finish="tool_calls", tokens=30),
                (Repair("follow-up", "/calls/0/arguments", {"title": "Plan"}, {"title": "Plan", "days": 3}),),
            )
        )

    def test_pinned_values_are_the_models_first_words(self) -> None:
        outcome = broken(event(title="Plan", notes="x" * 300), ("/arguments/days", "required"))
        _, answer = run(questions(outcome), chat_reply(envelope("create_event", title="Other", days=3)))
        assert answer is not None
        assert answer.outcome.turn.calls == (event(title="Plan", notes="x" * 300, days=3),)

    def test_parts_deep_inside_are_put_in_their_place(self) -> None:
        call = event(title="P", days=1, steps=[{"text": "a", "state": "open"}, {"text": "b", "state": "later"}])
        reply = chat_reply(envelope("create_event", title="P", days=1, steps={"1": {"text": "b", "state": "done"}}))
        _, answer = run(questions(broken(call, ("/arguments/steps/1/state", "enum"))), reply)
        assert answer is not None
        mended = event(title="P", days=1, steps=[{"text": "a", "state": "open"}, {"text": "b", "state": "done"}])
        assert answer.outcome.turn.calls == (mended,)

    def test_a_member_that_is_not_allowed_is_not_asked_for_and_does_not_stay(self) -> None:
        call = ToolCall("call_1", "read_file", {"whole": True})
        outcome = broken(call, ("/arguments/path", "required"), ("/arguments/whole", "additionalProperties"))
        assert arguments_of(ask(outcome)) == READ
        _, answer = run(questions(outcome), chat_reply(envelope("read_file", path="a")))
        assert answer is not None
        assert answer.outcome.turn.calls == (ToolCall("call_1", "read_file", {"path": "a"}),)

    @pytest.mark.parametrize(
        "reply",
        [
            chat_reply(GOOD),
            chat_reply(json.dumps(GOOD, indent=2)),
            chat_reply("", [("create_event", {"title": "Plan", "days": 3})]),
            # The generic parser makes a call of any object that holds an offered tool's name.
            chat_reply("", [("create_event", GOOD)]),
            chat_reply("", message={"role": "assistant", "content": "", "thinking": json.dumps(GOOD)}),
        ],
    )
    def test_the_call_is_found_wherever_the_parser_puts_it(self, reply: Reply) -> None:
        _, answer = run(questions(MISSING), reply)
        assert answer is not None
        assert answer.outcome.turn.calls == (MENDED,)

    def test_a_call_whose_arguments_are_no_object_is_no_answer(self) -> None:
        call = {"id": "c", "type": "function", "function": {"name": "create_event", "arguments": "soon"}}
        message = {"role": "assistant", "content": json.dumps(GOOD), "tool_calls": [call]}
        body = {"id": "c", "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}]}
        reply = Reply(200, "application/json", json.dumps(body).encode())
        _, answer = run(questions(MISSING, COMPLETIONS), reply)
        assert answer is not None
        assert answer.outcome.turn.calls == (MENDED,)

    def test_several_calls_are_mended_at_once_and_the_good_one_stays(self) -> None:
        good = ToolCall("c", "read_file", {"path": "x"})
        turn = Turn(calls=(event(title="A"), good, event(title="B")), finish="tool_calls")
        faults = (Fault("/calls/0/arguments/days", "required", ""), Fault("/calls/2/arguments/days", "required", ""))
        reply: JsonObject = {
            "call_1": envelope("create_event", title="A", days=1),
            "call_2": envelope("create_event", title="B", days=2),
        }
        _, answer = run(questions(Outcome(turn, (), faults)), chat_reply(reply))
        assert answer is not None
        assert answer.outcome.turn.calls == (event(title="A", days=1), good, event(title="B", days=2))

    def test_an_unmet_choice_gets_its_call_and_keeps_the_text(self) -> None:
        reply = completion_reply(json.dumps(envelope("read_file", path="a")))
        _, answer = run(questions(UNMET, COMPLETIONS, tool_choice="required"), reply)
        made = ToolCall("", "read_file", {"path": "a"})
        said: Json = {"name": "read_file", "arguments": {"path": "a"}}
        note = Repair("follow-up", "/calls/0", None, said, "the tool choice was not met")
        assert answer == Answered(Outcome(Turn(text="Hi.", calls=(made,), finish="tool_calls"), (note,)))

    def test_a_call_to_another_tool_gives_way_to_the_chosen_one(self) -> None:
        named: JsonObject = {"type": "function", "function": {"name": "read_file"}}
        turn = Turn(calls=(event(title="A", days=1),), finish="tool_calls")
        outcome = Outcome(turn, (), (Fault("/calls", "tool-choice", ""),))
        reply = completion_reply(json.dumps(envelope("read_file", path="a")))
        _, answer = run(questions(outcome, COMPLETIONS, tool_choice=named), reply)
        assert answer is not None
        assert [call.name for call in answer.outcome.turn.calls] == ["read_file"]

    def test_an_error_becomes_the_answer(self) -> None:
        error = "XML syntax error on line 3"
        outcome = Outcome(
            Turn(text="Let me see.", finish="error", error=error), (), (Fault("", "server-error", error),)
        )
        reply = chat_reply(envelope("read_file", path="a"))
        _, answer = run(questions(outcome, chosen=Settings(tap="off")), reply)
        assert answer is not None
        made = ToolCall("", "read_file", {"path": "a"})
        assert answer.outcome.turn == Turn(text="Let me see.", calls=(made,), finish="tool_calls")

    def test_what_was_left_of_the_call_in_the_text_goes(self) -> None:
        turn = Turn(text="I look.\n<tool_call>not valid json</tool_call>", finish="stop")
        outcome = Outcome(turn, (), (Fault("/text", "unreadable", ""),))
        _, answer = run(questions(outcome), chat_reply(envelope("read_file", path="a")))
        assert answer is not None
        assert answer.outcome.turn.text.strip() == "I look."

    def test_what_was_left_of_the_call_in_the_thinking_goes(self) -> None:
        turn = Turn(thinking="I look.\n<tool_call>not valid json</tool_call>", finish="stop")
        outcome = Outcome(turn, (), (Fault("/thinking", "unreadable", ""),))
        _, answer = run(questions(outcome), chat_reply(envelope("read_file", path="a")))
        assert answer is not None
        assert answer.outcome.turn.thinking.strip() == "I look."

    def test_what_was_repaired_before_is_still_said(self) -> None:
        before = Repair("coerce", "/calls/0/arguments/title", 1, "Plan")
        _, answer = run(questions(replace(MISSING, repairs=(before,))), chat_reply(GOOD))
        assert answer is not None
        assert answer.outcome.repairs[0] == before

    def test_an_unknown_tool_beside_it_stays_a_fault(self) -> None:
        fly = ToolCall("f", "fly", {})
        turn = Turn(calls=(fly, event(title="Plan")), finish="tool_calls")
        unknown = Fault("/calls/0/name", "unknown-tool", "")
        outcome = Outcome(turn, (), (unknown, Fault("/calls/1/arguments/days", "required", "")))
        _, answer = run(questions(outcome), chat_reply(GOOD))
        assert answer is not None
        assert (answer.outcome.turn.calls, answer.outcome.faults) == ((fly, MENDED), (unknown,))


class TestFailing:
    @pytest.mark.parametrize(
        "reply",
        [
            None,
            Reply(401, "application/json", b'{"error":"unauthorized"}'),
            Reply(404, "application/json", b'{"error":"model not found"}'),
            Reply(503, "application/json", b'{"error":"server busy"}'),
            chat_reply(envelope("create_event", title="Plan", days="soon")),
            chat_reply(envelope("create_event", title="Plan")),
            chat_reply('{"name": "create_event", "argu', done_reason="length"),
        ],
        ids=["none", "401", "404", "503", "wrong type", "still missing", "cut"],
    )
    def test_a_reply_that_does_not_help_leaves_the_turn(self, reply: Reply | None) -> None:
        server = Server()
        assert run(questions(MISSING, server=server), reply) == (["constrained"], None)
        assert server.model("m").failures == 1

    @pytest.mark.parametrize(
        "reply",
        [
            Reply(500, "application/json", b'{"error":"empty Laguna tool call name"}'),
            Reply(400, "application/json", b'{"error":"failed to parse grammar"}'),
            Reply(200, "application/json", b'{"model":"m","message":{"content":"{'),
            Reply(200, "text/html", b"<html>"),
            Reply(200, "application/json", b""),
            chat_reply("Sure, I will do that."),
            chat_reply({"answer": 42}),
            chat_reply([GOOD]),
            chat_reply(envelope("delete_all", path="/")),
            chat_reply(""),
        ],
        ids=["500", "400", "half", "html", "nothing", "prose", "other json", "list", "other tool", "lost"],
    )
    def test_nor_does_one_that_cannot_be_got_round(self, reply: Reply) -> None:
        server = Server(render_refused=True)
        assert run(questions(MISSING, server=server), reply) == (["constrained"], None)
        assert server.model("m").failures == 1

    def test_a_part_that_comes_back_in_another_form_leaves_the_turn(self) -> None:
        outcome = broken(event(title="P", days=1, place={"room": "B2"}), ("/arguments/place/floor", "required"))
        reply = chat_reply(envelope("create_event", title="P", days=1, place="upstairs"))
        assert run(questions(outcome), reply) == (["constrained"], None)

    def test_a_server_that_carries_no_schema_is_not_asked(self, monkeypatch: pytest.MonkeyPatch) -> None:
        other = replace(CAPABILITIES["vllm"], asked_on={})
        monkeypatch.setattr("toolmend.upstreams.CAPABILITIES", {"vllm": other})
        assert questions(MISSING, MESSAGES, server=Server("vllm")).next(None) is None

    @pytest.mark.parametrize(
        ("reply", "refused"),
        [
            (None, False),
            (chat_reply("I know nothing of rendering."), True),
            (Reply(404, "text/plain", b"404"), True),
            (Reply(500, "application/json", b"{}"), False),
        ],
    )
    def test_a_prompt_that_is_not_given_out_leaves_the_turn(self, reply: Reply | None, refused: bool) -> None:
        server = Server()
        assert run(questions(MISSING, server=server), chat_reply(""), reply) == (["constrained", "render"], None)
        assert server.render_refused is refused

    @pytest.mark.parametrize(
        "reply",
        [
            None,
            Reply(500, "application/json", b'{"error":"x"}'),
            Reply(200, "application/json", b"[]"),
            Reply(200, "application/json", b"{"),
            raw_reply({"title": "Plan"}),
            raw_reply({"title": "Plan", "days": 3}, reason="length"),
            raw_reply("no"),
        ],
    )
    def test_a_raw_reply_that_does_not_help_leaves_the_turn(self, reply: Reply | None) -> None:
        asking = questions(MISSING)
        assert run(asking, chat_reply(""), render_reply(HARMONY), reply) == (["constrained", "render", "raw"], None)

    def test_a_good_answer_forgets_the_failures(self) -> None:
        server = Server()
        run(questions(MISSING, server=server), None)
        run(questions(MISSING, server=server), chat_reply(GOOD))
        assert server.model("m").failures == 0


class TestWithoutAParser:
    def test_a_lost_schema_is_remembered(self) -> None:
        server = Server()
        asking = questions(MISSING, server=server)
        kinds, answer = run(asking, chat_reply(""), render_reply(HARMONY), raw_reply({"title": "Plan", "days": 3}))
        assert kinds == ["constrained", "render", "raw"]
        assert answer is not None
        assert answer.outcome.turn.calls == (MENDED,)
        again = run(questions(MISSING, server=server), render_reply(HARMONY), raw_reply({"title": "Plan", "days": 3}))
        assert again[0] == ["render", "raw"]

    def test_a_model_that_meant_none_of_the_tools_may_say_so_there_too(self) -> None:
        server = Server()
        server.model("m").loses_schema = True
        outcome = Outcome(Turn(finish="stop"), (), (Fault("/text", "invented-tool", ""),))
        prompt = render_reply("<|im_start|>assistant\n")
        kinds, answer = run(questions(outcome, server=server), prompt, raw_reply(envelope("none_of_these_tools")))
        assert (kinds, answer, server.model("m").failures) == (["render", "raw"], None, 0)

    def step(self, outcome: Outcome, prompt: str, path: str = CHAT, **more: Any) -> FollowUp:
        server = Server()
        server.model("m").loses_schema = True
        asking = questions(outcome, path, server=server, **more)
        asking.next(None)
        question = asking.next(render_reply(prompt))
        assert isinstance(question, FollowUp)
        return question

    def test_the_prompt_is_asked_for_with_the_very_request(self) -> None:
        server = Server()
        server.model("m").loses_schema = True
        question = ask(MISSING, server=server, stream=True, think="high", keep_alive=0)
        assert (question.kind, question.path) == ("render", "/api/chat")
        assert question.document == body(stream=False, think="high", _debug_render_only=True)

    def test_harmony_opens_the_call_as_the_model_does(self) -> None:
        outcome = replace(MISSING, turn=replace(MISSING.turn, thinking="I plan."))
        options: JsonObject = {"num_ctx": 8192, "stop": ["END"], "temperature": 0.7}
        question = self.step(outcome, HARMONY, options=options, keep_alive="5m")
        assert question.path == "/api/generate"
        assert question.document == {
            "model": "m",
            "raw": True,
            "think": False,
            "stream": False,
            "prompt": HARMONY
            + "<|channel|>analysis<|message|>I plan.<|end|><|start|>assistant"
            + "<|channel|>commentary to=functions.create_event <|constrain|>json<|message|>",
            "format": {
                "type": "object",
                "properties": {"title": {"const": "Plan"}, "days": {"type": "integer"}},
                "required": ["title", "days"],
                "additionalProperties": False,
            },
            "options": {"num_ctx": 8192, "temperature": 0, "num_predict": 4096, "stop": []},
            "keep_alive": "5m",
        }

    def test_harmony_answers_an_open_question_in_the_final_channel(self) -> None:
        question = self.step(UNMET, HARMONY, COMPLETIONS, tool_choice="required")
        prompt = cast(str, question.document["prompt"])
        assert prompt == HARMONY + "<|channel|>final <|constrain|>json<|message|>"
        assert "anyOf" in question.schema

    def test_other_prompts_go_on_with_the_envelope(self) -> None:
        question = self.step(MISSING, "<|im_start|>user\nDo it.<|im_end|>\n<|im_start|>assistant\n")
        assert cast(str, question.document["prompt"]).endswith("<|im_start|>assistant\n")
        assert question.schema == ask(MISSING).schema

    def test_open_thinking_is_ended_with_what_was_thought(self) -> None:
        outcome = replace(MISSING, turn=replace(MISSING.turn, thinking="I plan."))
        question = self.step(outcome, "<|im_start|>assistant\n<think>\n")
        assert question.document["prompt"] == "<|im_start|>assistant\n<think>\nI plan.\n</think>\n\n"

    @pytest.mark.parametrize("bos", ["<｜begin▁of▁sentence｜>", "<BOS_TOKEN>", "<|startoftext|>"])
    def test_the_prompt_does_not_begin_twice(self, bos: str) -> None:
        assert self.step(MISSING, f"{bos}Do it.").document["prompt"] == "Do it."

    def test_images_go_along_in_their_order(self) -> None:
        messages: list[Json] = [{**USER, "images": ["AAAA", "BBBB"]}, {**USER, "images": ["CCCC"]}]
        assert self.step(MISSING, "x", messages=messages).document["images"] == ["AAAA", "BBBB", "CCCC"]

    def test_a_name_is_written_as_harmony_writes_it(self) -> None:
        tools: list[Json] = [
            {"type": "function", "function": {"name": "web-search", "parameters": {}}},
            {"type": "function", "function": {"name": "web.search", "parameters": READ}},
        ]
        outcome = broken(ToolCall("c", "web.search", {}), ("/arguments/path", "required"))
        prompt = cast(str, self.step(outcome, HARMONY, tools=tools).document["prompt"])
        assert prompt.endswith("to=functions.web_search_2 <|constrain|>json<|message|>")


def tapped_reply(raw: str, *, text: str = "", error: str = "", reason: str = "stop") -> Reply:
    """Write a streamed answer of /api/chat with its tokens, as the parser left it."""
    head: JsonObject = {"model": "m", "created_at": ""}
    lines: list[JsonObject] = [
        {**head, "message": {"role": "assistant", "content": ""}, "done": False, "logprobs": [{"token": piece, "logprob": -0.1, "bytes": list(piece.encode())}]}
        for piece in (raw[at : at + 5] for at in range(0, len(raw), 5))
    ]  # fmt: skip
    if text:
        lines.append({**head, "message": {"role": "assistant", "content": text}, "done": False})
    end: JsonObject = {
        **head,
        "message": {"role": "assistant", "content": ""},
        "done": True,
        "done_reason": reason,
        "eval_count": 9,
    }
    lines.append({"error": error} if error else end)
    return Reply(200, "application/x-ndjson", "".join(json.dumps(line) + "\n" for line in lines).encode())


CALL_TEXT = '<tool_call>\n{"name": "read_file", "arguments": {"path": "a"}}\n'


class TestWithTheTokensShown:
    @pytest.mark.parametrize("path", [CHAT, COMPLETIONS, RESPONSES, MESSAGES])
    def test_a_lost_turn_is_asked_for_once_more(self, path: str) -> None:
        question = ask(SWALLOWED, path)
        assert (question.kind, question.path, question.schema) == ("tapped", "/api/chat", {})
        assert (question.document["logprobs"], question.document["stream"]) == (True, True)
        assert question.document["messages"] == [USER]
        assert question.document["tools"] == body(CHAT)["tools"]

    def test_its_call_is_the_answer(self) -> None:
        kinds, answer = run(questions(SWALLOWED), tapped_reply(CALL_TEXT))
        assert kinds == ["tapped"]
        assert answer is not None
        calls = answer.outcome.turn.calls
        assert [(call.name, call.arguments) for call in calls] == [("read_file", {"path": "a"})]
        assert answer.outcome.repairs[0].rung == "follow-up"

    def test_tokens_before_an_error_are_enough(self) -> None:
        reply = tapped_reply(CALL_TEXT + "</tool_call>", error="failed to parse JSON: x")
        error = Outcome(Turn(finish="error", error="failed to parse JSON: x"), (), (Fault("", "server-error", ""),))
        _, answer = run(questions(error), reply)
        assert answer is not None
        assert answer.outcome.turn.error is None
        assert [call.name for call in answer.outcome.turn.calls] == ["read_file"]

    def test_plain_text_is_an_answer_too(self) -> None:
        _, answer = run(questions(SWALLOWED), tapped_reply("The answer is 42.", text="The answer is 42."))
        assert answer is not None
        assert (answer.outcome.turn.text, answer.outcome.turn.calls) == ("The answer is 42.", ())

    def test_plain_text_does_not_meet_a_choice(self) -> None:
        outcome = replace(SWALLOWED, faults=(*SWALLOWED.faults, Fault("/calls", "tool-choice", "")))
        asking = questions(outcome, COMPLETIONS, tool_choice="required")
        reply = completion_reply(json.dumps(envelope("read_file", path="a")))
        kinds, answer = run(asking, tapped_reply("It is 42.", text="It is 42."), reply)
        assert kinds == ["tapped", "constrained"]
        assert answer is not None
        assert [call.name for call in answer.outcome.turn.calls] == ["read_file"]

    def test_a_turn_that_the_limit_cut_stays(self) -> None:
        server = Server()
        reply = tapped_reply('<tool_call>\n{"name": "read_file", "arguments": {"path": "a', reason="length")
        assert run(questions(SWALLOWED, server=server), reply) == (["tapped"], None)
        assert server.model("m").failures == 0

    def test_a_call_to_a_tool_that_is_not_offered_stays_lost(self) -> None:
        reply = tapped_reply('<tool_call>\n{"name": "search_web", "arguments": {"query": "weather"}}\n</tool_call>')
        assert run(questions(SWALLOWED), reply) == (["tapped"], None)

    def test_a_broken_call_is_mended_next(self) -> None:
        reply = tapped_reply('<tool_call>\n{"name": "create_event", "arguments": {"title": "Plan"}}\n')
        asking = questions(SWALLOWED)
        asking.next(None)
        question = asking.next(reply)
        assert isinstance(question, FollowUp)
        assert (question.kind, question.pinned) == ("constrained", ({"title": "Plan"},))
        answer = asking.next(chat_reply(GOOD))
        assert isinstance(answer, Answered)
        assert [call.arguments for call in answer.outcome.turn.calls] == [{"title": "Plan", "days": 3}]

    def test_a_refusal_is_remembered_and_got_round(self) -> None:
        server = Server()
        refusal = Reply(400, "application/json", b'{"error":"logprobs is not supported with tools + stream"}')
        kinds, answer = run(questions(SWALLOWED, server=server), refusal, chat_reply(envelope("read_file", path="a")))
        assert (kinds, answer is not None) == (["tapped", "constrained"], True)
        assert ask(SWALLOWED, server=server).kind == "constrained"

    @pytest.mark.parametrize(
        "reply",
        [
            Reply(500, "application/json", b'{"error":"failed to parse JSON: x"}'),
            Reply(200, "application/x-ndjson", b'{"half'),
            tapped_reply(""),
        ],
    )
    def test_a_reply_that_shows_nothing_is_got_round(self, reply: Reply) -> None:
        kinds, answer = run(questions(SWALLOWED), reply, chat_reply(envelope("read_file", path="a")))
        assert (kinds, answer is not None) == (["tapped", "constrained"], True)

    def test_an_error_that_took_the_tokens_with_it_is_asked_for_streamed(self) -> None:
        error = Outcome(Turn(finish="error", error="XML syntax error", raw=""), (), (Fault("", "server-error", ""),))
        assert ask(error).kind == "tapped"

    @pytest.mark.parametrize("error", ["error parsing tool call: raw='We call', err=x", "tool 'readFile' not found"])
    def test_an_error_that_says_enough_is_not_asked_for_again(self, error: str) -> None:
        outcome = Outcome(Turn(finish="error", error=error), (), (Fault("/error", "server-error", ""),))
        assert ask(outcome).kind == "constrained"

    def test_none_that_never_came_is_not_followed_by_another_question(self) -> None:
        assert run(questions(SWALLOWED), None) == (["tapped"], None)

    @pytest.mark.parametrize(
        "asking",
        [
            lambda: ask(SWALLOWED, chosen=Settings(tap="off")),
            lambda: ask(replace(SWALLOWED, turn=replace(SWALLOWED.turn, raw="<tool_call>"))),
            lambda: ask(replace(SWALLOWED, turn=replace(SWALLOWED.turn, raw=""))),
            lambda: ask(SWALLOWED, COMPLETIONS, server=Server("vllm")),
            lambda: ask(MISSING),
        ],
        ids=["tap off", "known already", "nothing to know", "not Ollama", "not lost"],
    )
    def test_otherwise_the_schema_comes_first(self, asking: Callable[[], FollowUp]) -> None:
        assert asking().kind == "constrained"


VALUES = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), st.text(max_size=5), st.sampled_from(["create_event", "read_file"])),
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.dictionaries(st.sampled_from(["name", "arguments", "title", "days", "path", "message", "content", "tool_calls", "function", "error", "done", "response", "_debug_info", "rendered_template", "logprobs", "call_1"]), inner, max_size=4),
    ),
    max_leaves=12,
)  # fmt: skip
REPLIES = st.one_of(
    st.none(),
    st.builds(Reply, st.sampled_from([200, 400, 404, 500]), st.sampled_from(["", "application/json", "application/x-ndjson"]), st.binary(max_size=20)),
    st.builds(lambda value: Reply(200, "application/json", json.dumps(value).encode()), VALUES),
    st.builds(lambda value: chat_reply(json.dumps(value)), VALUES),
    st.builds(lambda value: chat_reply({"name": "create_event", "arguments": value}), VALUES),
    st.builds(raw_reply, VALUES),
    st.just(render_reply(HARMONY)),
)  # fmt: skip


@settings(max_examples=60, deadline=None)
@given(st.sampled_from([MISSING, SWALLOWED]), st.lists(REPLIES, max_size=5))
def test_whatever_comes_the_turn_stays_or_becomes_valid(outcome: Outcome, replies: list[Reply | None]) -> None:
    asking = questions(outcome)
    question = asking.next(None)
    for reply in replies:
        if not isinstance(question, FollowUp):
            break
        question = asking.next(reply)
    if isinstance(question, Answered):
        turn = question.outcome.turn
        assert not question.outcome.faults
        assert turn.calls or turn.text
        for call in turn.calls:
            jsonschema.validate(call.arguments, SCHEMAS[call.name])
