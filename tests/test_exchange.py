"""One request and its answer: what goes out when, what is asked, and what the client gets in the end."""

import json
from typing import Any

import pytest

from captured import one
from toolmend.exchange import Exchange, replay
from toolmend.follow_up import FollowUp, Reply
from toolmend.settings import Settings
from toolmend.surfaces import SURFACES
from toolmend.upstreams import Server

READ: dict[str, Any] = {
    "name": "read_file",
    "parameters": {"type": "object", "properties": {"path": {"type": "string"}}, "required": ["path"]},
}
MESSAGES_TOOL = {"name": "read_file", "input_schema": READ["parameters"]}
CALLED = '{"name": "read_file", "arguments": {"path": "a.txt"}}'


def chat(**more: Any) -> dict[str, Any]:
    tools = [{"type": "function", "function": READ}]
    return {"model": "m", "messages": [{"role": "user", "content": "Read a.txt."}], "tools": tools, **more}


def lines(*messages: dict[str, Any], reason: str = "stop") -> list[bytes]:
    """Write an NDJSON answer, a line for each message and the one that ends it."""
    head = {"model": "m", "created_at": "2026-08-21T00:00:00Z"}
    said = [{**head, "message": {"role": "assistant", "content": "", **message}, "done": False} for message in messages]
    end = {
        **head,
        "message": {"role": "assistant", "content": ""},
        "done": True,
        "done_reason": reason,
        "eval_count": 9,
    }
    return [json.dumps(document).encode() + b"\n" for document in [*said, end]]


def whole(message: dict[str, Any]) -> Reply:
    document = {"model": "m", "message": {"role": "assistant", "content": "", **message}, "done": True}
    return Reply(200, "application/json", json.dumps({**document, "done_reason": "stop"}).encode())


def streaming(document: dict[str, Any] | None = None, settings: Settings | None = None) -> Exchange:
    exchange = Exchange(SURFACES["/api/chat"], document or chat(), settings or Settings(), Server())
    exchange.respond(200, "application/x-ndjson")
    return exchange


def test_a_body_that_was_put_away_is_there_when_it_is_needed() -> None:
    exchange = streaming()
    document = exchange.request.document
    exchange.request.body.put_away(json.dumps(chat()).encode())
    call = {"function": {"name": "read_file", "arguments": {}}}
    for piece in lines({"tool_calls": [call]}):
        exchange.receive(piece)
    question = exchange.finish()
    assert isinstance(question, FollowUp)
    assert question.document["messages"] == document["messages"]
    assert exchange.request.document == document


@pytest.mark.parametrize("before", ["\n", "\n\n", " ", "\n\n\n\n\n\n\n\n", ""])
def test_blanks_that_went_out_before_a_call_take_nothing_of_the_text_behind_it(before: str) -> None:
    exchange = streaming()
    text = f'{before}[TOOL_CALLS]read_file[ARGS]{{"path": "a.txt"}}\n\nDone.'
    sent = replay(exchange, 200, "application/x-ndjson", lines(*({"content": character} for character in text)))
    messages = [json.loads(line)["message"] for piece in sent for line in piece.splitlines()]
    assert "".join(message["content"] for message in messages) == f"{before}Done."
    (call,) = [call for message in messages for call in message.get("tool_calls", ())]
    assert call["function"]["arguments"] == {"path": "a.txt"}
    assert exchange.outcome is not None
    assert exchange.outcome.turn.text == f"{before}Done."


def test_what_went_out_of_a_call_takes_nothing_of_the_text_behind_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """Should the scanner ever let go of too much, no letter of the rest is lost."""
    monkeypatch.setattr("toolmend.dialects.scanner.Scanner.feed", lambda self, text: 12)
    text = 'I look. [TOOL_CALLS]read_file[ARGS]{"path": "a.txt"}\n\nDone.'
    sent = replay(streaming(), 200, "application/x-ndjson", lines(*({"content": character} for character in text)))
    messages = [json.loads(line)["message"] for piece in sent for line in piece.splitlines()]
    said = "".join(message["content"] for message in messages)
    assert (said[:12], said[-5:], said.count("Done")) == (text[:12], "Done.", 1)
    assert sum(len(message.get("tool_calls", ())) for message in messages) == 1


def test_text_goes_out_with_the_chunk_it_came_in() -> None:
    exchange = streaming()
    first, second, end = lines({"content": "The answer"}, {"content": " is 42."})
    assert exchange.receive(first) == [first]
    assert exchange.receive(second) == [second]
    assert exchange.receive(end) == []
    assert exchange.finish() == [end]


def test_what_may_be_a_call_is_held_and_goes_out_when_it_is_none() -> None:
    exchange = streaming()
    opened, prose, end = lines({"content": "<tool"}, {"content": "box> is what it says"})
    assert exchange.receive(opened) == []
    assert exchange.receive(prose) == [opened, prose]
    assert exchange.receive(end) == []
    assert exchange.finish() == [end]


def test_thinking_that_looks_like_a_call_goes_out_once_text_follows() -> None:
    exchange = streaming()
    drafted, said, _ = lines({"thinking": "<tool_call>"}, {"content": "Which file?"})
    assert exchange.receive(drafted) == []
    assert exchange.receive(said) == [drafted, said]


def test_what_has_come_and_not_gone_is_known_at_every_moment() -> None:
    exchange = streaming()
    first, held, _ = lines({"content": "Let me see. "}, {"content": "<tool_call>"})
    sent = exchange.receive(first + held + b'{"model": "half a li')
    assert sent == [first]
    assert b"".join(exchange.unsent()) == held + b'{"model": "half a li'
    assert exchange.unsent() == []


def test_an_answer_that_is_not_the_surfaces_passes_from_there_on() -> None:
    exchange = streaming()
    first, held, _ = lines({"content": "Let me see. "}, {"content": "<tool_call>"})
    assert exchange.receive(first + held) == [first]
    assert exchange.receive(b"<html>\n") == [held, b"<html>\n"]
    assert exchange.receive(b"more\n") == [b"more\n"]
    assert exchange.finish() == []


def test_the_follow_up_replaces_only_what_was_held() -> None:
    exchange = streaming()
    text, call, end = lines(
        {"content": "Reading."}, {"tool_calls": [{"function": {"name": "read_file", "arguments": {}}}]}
    )
    assert exchange.receive(text + call + end) == [text]
    question = exchange.finish()
    assert isinstance(question, FollowUp)
    assert question.path == "/api/chat"
    rest = exchange.resume(whole({"content": CALLED}))
    assert isinstance(rest, list)
    written = [json.loads(line) for line in rest]
    assert [call["function"]["arguments"] for call in written[0]["message"]["tool_calls"]] == [{"path": "a.txt"}]
    assert written[1]["done"] is True


@pytest.mark.parametrize(
    "reply",
    [
        None,
        Reply(500, "application/json", b'{"error": "out of memory"}'),
        Reply(503, "application/json", b'{"error": "server busy"}'),
        Reply(200, "application/json", b'{"model": "m", "mess'),
        Reply(200, "application/json", b"[1, 2]"),
        Reply(200, "text/html", b"<html></html>"),
        Reply(200, "application/json", b""),
        whole({"content": '{"name": "read_file", "arguments": {"path": "a.t'}),
        whole({"content": '{"name": "other_tool", "arguments": {}}'}),
        whole({"content": '{"name": "read_file", "arguments": {"path": {"deep": []}}}'}),
        whole({"content": "I would rather not."}),
    ],
    ids=[
        "late or closed",
        "500",
        "refused",
        "half a body",
        "other JSON",
        "wrong type",
        "empty",
        "cut",
        "other tool",
        "wrong value",
        "words",
    ],
)
def test_a_follow_up_that_fails_leaves_the_answer_as_it_would_have_come(reply: Reply | None) -> None:
    chunks = lines({"content": "Reading."}, {"tool_calls": [{"function": {"name": "read_file", "arguments": {}}}]})
    exchange = Exchange(SURFACES["/api/chat"], chat(), Settings(), Server())
    assert replay(exchange, 200, "application/x-ndjson", chunks, lambda question: reply) == chunks
    assert [fault.keyword for fault in exchange.outcome.faults] == ["required"] if exchange.outcome else False


@pytest.mark.parametrize("mode", ["auto", "required"])
def test_a_call_in_text_to_a_tool_that_is_not_allowed_stays_text_when_asking_fails(mode: str) -> None:
    write = {"type": "function", "function": {**READ, "name": "write_file"}}
    allowed = {"mode": mode, "tools": [{"type": "function", "function": {"name": "write_file"}}]}
    choice = {"type": "allowed_tools", "allowed_tools": allowed}
    document = chat(tool_choice=choice)
    document["tools"] = [*document["tools"], write]
    answer = lines({"content": CALLED})
    exchange = streaming(document, Settings(tap="off"))
    assert replay(exchange, 200, "application/x-ndjson", answer) == answer
    assert [question.kind for question, _ in exchange.asked] == ["constrained"]


def test_an_error_that_holds_the_call_becomes_an_answer_in_the_form_that_was_asked_for() -> None:
    found = one("harmony/trailing-comma/openai-chat/stream")
    exchange = Exchange(found.surface, found.document, Settings(follow_up=False), Server())
    body = b"".join(replay(exchange, found.status, found.content_type, [found.body]))
    assert (found.status, exchange.status) == (500, 200)
    assert exchange.content_type == "text/event-stream"
    assert body.endswith(b"data: [DONE]\n\n")
    assert b'"name":"read_file"' in body


def test_a_model_that_refuses_the_tap_is_asked_again_without_it() -> None:
    server = Server()
    exchange = Exchange(SURFACES["/api/chat"], chat(stream=False), Settings(tap="on"), server)
    assert exchange.request_document == {**chat(stream=False), "logprobs": True}
    answer = whole({"content": "The answer is 42."})
    refused = b'{"error": "logprobs is not supported with tools + stream"}'
    asked: list[FollowUp] = []

    def ask(question: FollowUp) -> Reply:
        asked.append(question)
        return answer

    assert replay(exchange, 400, "application/json", [refused], ask) == [answer.body]
    assert [(question.kind, question.path, question.document) for question in asked] == [
        ("plain", "/api/chat", chat(stream=False))
    ]
    assert exchange.status == 200
    assert Exchange(SURFACES["/api/chat"], chat(), Settings(tap="on"), server).request_document is None


def test_the_tap_is_never_on_where_the_client_wants_the_tokens_itself() -> None:
    document = chat(logprobs=True)
    exchange = Exchange(SURFACES["/api/chat"], document, Settings(tap="on"), Server())
    assert exchange.request_document is None


def anthropic(stream: bool) -> dict[str, Any]:
    document = {"model": "m", "max_tokens": 100, "messages": [{"role": "user", "content": "Read a.txt."}]}
    return {**document, "stream": stream, "tools": [MESSAGES_TOOL], "tool_choice": {"type": "any"}}


@pytest.mark.parametrize("stream", [False, True])
def test_a_constrained_request_of_a_surface_without_a_schema_comes_back_in_that_surfaces_form(stream: bool) -> None:
    exchange = Exchange(SURFACES["/v1/messages"], anthropic(stream), Settings(force="constrain"), Server())
    assert exchange.request_path == "/api/chat"
    body = b"".join(replay(exchange, 200, "application/json", [whole({"content": CALLED}).body]))
    assert exchange.content_type == ("text/event-stream" if stream else "application/json")
    assert b'"tool_use"' in body
    assert exchange.asked == []


def test_a_constrained_request_that_fails_is_asked_as_the_client_asked_it() -> None:
    exchange = Exchange(SURFACES["/v1/messages"], anthropic(False), Settings(force="constrain"), Server())
    answer = one("qwen3/ok-nested/anthropic-messages/whole")
    asked: list[FollowUp] = []

    def ask(question: FollowUp) -> Reply | None:
        asked.append(question)
        return Reply(404, "application/json", answer.body) if question.kind == "plain" else None

    sent = replay(exchange, 404, "application/json", [b'{"error": "no such path"}'], ask)
    assert [(question.kind, question.path, question.document) for question in asked[:1]] == [
        ("plain", "/v1/messages", anthropic(False))
    ]
    assert (exchange.status, b"".join(sent)) == (404, answer.body)


def test_a_refusal_of_the_tap_goes_out_when_the_question_without_it_has_no_answer() -> None:
    exchange = Exchange(SURFACES["/api/chat"], chat(stream=False), Settings(tap="on"), Server())
    refused = b'{"error": "logprobs is not supported with tools + stream"}'
    assert replay(exchange, 400, "application/json", [refused], lambda question: None) == [refused]
    assert exchange.status == 400


@pytest.mark.parametrize("stream", [False, True])
def test_a_constrained_answer_without_a_call_goes_out_in_the_clients_own_form_when_no_other_comes(stream: bool) -> None:
    exchange = Exchange(SURFACES["/v1/messages"], anthropic(stream), Settings(force="constrain"), Server())
    answer = whole({"content": "I would rather not."}).body
    body = b"".join(replay(exchange, 200, "application/json", [answer], lambda question: None))
    assert [question.kind for question, _ in exchange.asked] == ["plain"]
    assert exchange.content_type == ("text/event-stream" if stream else "application/json")
    if stream:
        assert b'"delta":{"type":"text_delta","text":"I would rather not."}' in body
        assert body.endswith(b'event: message_stop\ndata: {"type":"message_stop"}\n\n')
    else:
        assert json.loads(body)["content"] == [{"type": "text", "text": "I would rather not."}]


def test_a_constrained_request_that_fails_twice_brings_the_servers_own_error() -> None:
    exchange = Exchange(SURFACES["/v1/messages"], anthropic(False), Settings(force="constrain"), Server())
    error = b'{"error": "no such path"}'
    assert replay(exchange, 404, "application/json", [error], lambda question: None) == [error]
    assert exchange.status == 404
