"""Repaired turns are written so that clients read them: whole and streamed, in place of any part of what came."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest

from stream_rules import CHECKS, documents
from surface_data import ANSWERS, BY_NAME, STREAMS, TOOLS, Answer, decode, label, read, rewrite, turn_of
from toolmend.model import (
    CallPart,
    DecodeError,
    EndPart,
    ErrorPart,
    Json,
    JsonObject,
    TextPart,
    ThinkingPart,
    ToolCall,
    Turn,
)
from toolmend.surfaces import SURFACES
from toolmend.surfaces.surface import Frame, Framing
from toolmend.surfaces.wire import event, line, object_of

OLLAMA, CHAT = BY_NAME["ollama-chat"], BY_NAME["openai-chat"]
RESPONSES, MESSAGES = BY_NAME["openai-responses"], BY_NAME["anthropic-messages"]
NEW = ToolCall("call_new", "read_file", {"path": "a.py"}, dialect="hermes")


def came_with(answer: Answer) -> tuple[Any, list[Frame], Turn]:
    codec = answer.surface.codec(answer.request, answer.framing)
    frames = read(codec, answer.framing, answer.body)
    return codec, frames, turn_of(frames)


def essence(turn: Turn) -> tuple[str, str, list[tuple[str, str, str]]]:
    calls = [(call.id, call.name, json.dumps(call.arguments)) for call in turn.calls]
    return turn.text, turn.thinking, calls


def passable(frames: list[Frame]) -> int:
    """Count the frames that may go out before the turn is decided: up to the first call, end or error."""
    for place, frame in enumerate(frames):
        if any(
            isinstance(event, (CallPart, ErrorPart)) or (isinstance(event, EndPart) and event.finish)
            for event in frame.events
        ):
            return place
    return len(frames)


def passed_parts(frames: list[Frame]) -> tuple[str, str]:
    events = [event for frame in frames for event in frame.events]
    text = "".join(event.text for event in events if isinstance(event, TextPart))
    return text, "".join(event.text for event in events if isinstance(event, ThinkingPart))


# Whatever came, and however much of it has gone out


@pytest.mark.parametrize("answer", [answer for answer in ANSWERS if answer.status == 200], ids=label)
def test_a_turn_that_is_what_came_is_written_as_it_came(answer: Answer) -> None:
    """One answer is not: Ollama leaves a message open before a call."""
    codec, frames, turn = came_with(answer)
    body = b"".join(codec.write(turn, frames))
    left_open = (answer.surface, answer.framing, answer.name) == (RESPONSES, "sse", "text, then a call")
    assert (body == answer.body) is not left_open
    written = turn_of(read(answer.surface.codec(answer.request, answer.framing), answer.framing, body))
    assert written == turn


CHANGES: dict[str, Any] = {
    "as it came": lambda turn: turn,
    "arguments repaired": lambda turn: replace(
        turn, calls=tuple(replace(call, arguments={"x": 1.0, "é<": None}, raw=None) for call in turn.calls)
    ),
    "calls renamed": lambda turn: replace(turn, calls=tuple(replace(call, name="other") for call in turn.calls)),
    "first call removed": lambda turn: replace(turn, calls=turn.calls[1:]),
    "call added": lambda turn: replace(turn, calls=(*turn.calls, NEW)),
    "call put first": lambda turn: replace(turn, calls=(NEW, *turn.calls)),
    "more text": lambda turn: replace(turn, text=turn.text + " And é\u2028."),
    "cut by the limit": lambda turn: replace(turn, finish="length"),
}


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("answer", [answer for answer in STREAMS if answer.status == 200], ids=label)
def test_streams_follow_the_rules_whatever_was_repaired_and_passed(answer: Answer, change: str) -> None:
    frames = came_with(answer)[1]
    for passed in sorted({0, 1, 2, 3, passable(frames) // 2, passable(frames)}):
        if passed > passable(frames):
            continue
        codec, frames, turn = came_with(answer)
        for frame in frames[:passed]:
            codec.passed(frame)
        wanted = CHANGES[change](turn)
        body = b"".join([*(frame.raw for frame in frames[:passed]), *codec.write(wanted, frames[passed:])])
        CHECKS[answer.surface.name](body)
        assert essence(decode(answer.surface, body)) == essence(wanted)


@pytest.mark.parametrize("answer", [answer for answer in STREAMS if answer.status == 200], ids=label)
def test_text_and_thinking_that_were_held_can_give_way_to_a_call(answer: Answer) -> None:
    count = passable(came_with(answer)[1])
    for passed in sorted({0, count // 2, count}):
        codec, frames, turn = came_with(answer)
        for frame in frames[:passed]:
            codec.passed(frame)
        text, thinking = passed_parts(frames[:passed])
        wanted = replace(turn, text=text, thinking=thinking, calls=(NEW,))
        body = b"".join([*(frame.raw for frame in frames[:passed]), *codec.write(wanted, frames[passed:])])
        CHECKS[answer.surface.name](body)
        assert essence(decode(answer.surface, body)) == essence(wanted)


@pytest.mark.parametrize("answer", [answer for answer in STREAMS if answer.status == 200], ids=label)
def test_a_stream_that_broke_off_anywhere_is_completed(answer: Answer) -> None:
    for cut in range(len(came_with(answer)[1])):
        codec, frames, _ = came_with(answer)
        frames = frames[:cut]
        wanted = replace(turn_of(frames), calls=(NEW,), finish=None)
        body = b"".join(codec.write(wanted, frames))
        if answer.surface is not RESPONSES or cut != 1:  # There, one of the two opening events is lost.
            CHECKS[answer.surface.name](body)
        assert essence(decode(answer.surface, body)) == essence(wanted)


@pytest.mark.parametrize("framing", ["json", "stream"])
@pytest.mark.parametrize("surface", list(SURFACES.values()), ids=lambda surface: surface.name)
def test_an_answer_is_made_in_the_place_of_an_error(surface: Any, framing: str) -> None:
    made = Turn("Let me look.", "Hm.", (NEW, replace(NEW, id="", name="list", arguments={})), "error", None, 9)
    used: Framing = surface.streaming if framing == "stream" else "json"
    document: JsonObject = {"model": "qwen3:8b", "tools": TOOLS, "stream": framing == "stream"}
    request = surface.read_request({**document, "stream_options": {"include_usage": True}})
    error = b'{"error":"failed"}'
    held = [surface.codec(request, "json").read(error)] if framing == "json" else []
    body = b"".join(surface.codec(request, used).write(made, held))
    if framing == "stream":
        CHECKS[surface.name](body)
    turn = decode(surface, body, used)
    assert (turn.text, turn.thinking, turn.error, turn.tokens) == ("Let me look.", "Hm.", None, 9)
    first, second = turn.calls
    assert (first.id, first.name, first.arguments) == ("call_new", "read_file", {"path": "a.py"})
    assert (second.name, second.arguments) == ("list", {})
    assert second.id.startswith("call_")
    assert b"qwen3:8b" in body
    assert body == b"".join(surface.codec(request, used).write(made, held))


@pytest.mark.parametrize("surface", list(SURFACES.values()), ids=lambda surface: surface.name)
def test_an_answer_in_which_nothing_is_said_is_an_answer(surface: Any) -> None:
    request = surface.read_request({"model": "m", "stream": True})
    body = b"".join(surface.codec(request, surface.streaming).write(Turn(), []))
    CHECKS[surface.name](body)
    assert essence(decode(surface, body)) == ("", "", [])


@pytest.mark.parametrize("surface", list(SURFACES.values()), ids=lambda surface: surface.name)
def test_ids_are_unique_and_lone_surrogates_are_escaped(surface: Any) -> None:
    calls = (replace(NEW, arguments={"path": "\ud800"}), NEW, replace(NEW, id=""))
    request = surface.read_request({"model": "m", "stream": True})
    body = b"".join(surface.codec(request, surface.streaming).write(Turn(calls=calls), []))
    CHECKS[surface.name](body)
    turn = decode(surface, body)
    assert [call.arguments for call in turn.calls] == [{"path": "\ud800"}, {"path": "a.py"}, {"path": "a.py"}]
    assert turn.calls[0].id == "call_new"
    assert len({call.id for call in turn.calls}) == 3


WHOLE = [answer for answer in ANSWERS if answer.framing == "json" and answer.status == 200]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("answer", WHOLE, ids=label)
def test_bodies_are_patched_whatever_was_repaired(answer: Answer, change: str) -> None:
    codec, frames, turn = came_with(answer)
    wanted = CHANGES[change](turn)
    (body,) = codec.write(wanted, frames)
    assert essence(decode(answer.surface, body, "json")) == essence(wanted)
    before, after = json.loads(answer.body), json.loads(body)
    changed = {"message", "choices", "output", "content", "done_reason", "stop_reason"}
    assert {key: value for key, value in after.items() if key not in changed} == {
        key: value for key, value in before.items() if key not in changed
    }


FINISHES = [
    # calls, cut by the limit -> done_reason, finish_reason, status, stop_reason
    (False, False, "stop", "stop", "completed", "end_turn"),
    (True, False, "stop", "tool_calls", "completed", "tool_use"),
    (False, True, "length", "length", "incomplete", "max_tokens"),
    (True, True, "length", "length", "incomplete", "tool_use"),
]


@pytest.mark.parametrize(("calls", "cut", "done", "finish", "status", "stop"), FINISHES)
def test_the_end_says_why_in_each_surfaces_own_words(
    calls: bool, cut: bool, done: str, finish: str, status: str, stop: str
) -> None:
    turn = Turn("Hi", calls=(NEW,) if calls else (), finish="length" if cut else "stop")

    def written(surface: Any, framing: Any) -> bytes:
        request = surface.read_request({"model": "m", "stream": framing != "json"})
        return b"".join(surface.codec(request, framing).write(turn, []))

    assert documents(written(OLLAMA, "ndjson"))[-1]["done_reason"] == done
    assert documents(written(CHAT, "sse"))[-1]["choices"][0]["finish_reason"] == finish
    assert documents(written(RESPONSES, "sse"))[-1]["response"]["status"] == status
    assert documents(written(RESPONSES, "sse"))[-1]["type"] == f"response.{status}"
    assert documents(written(MESSAGES, "sse"))[-2]["delta"]["stop_reason"] == stop
    assert json.loads(written(OLLAMA, "json"))["done_reason"] == done
    assert json.loads(written(CHAT, "json"))["choices"][0]["finish_reason"] == finish
    assert json.loads(written(RESPONSES, "json"))["status"] == status
    assert json.loads(written(MESSAGES, "json"))["stop_reason"] == stop


# To the byte


def ndjson(*lines: str) -> bytes:
    return "".join(line + "\n" for line in lines).encode()


HEAD = '{"model":"m","created_at":"2026-08-21T00:00:00Z","message":{"role":"assistant","content":'
DONE = HEAD + '""},"done":true,"done_reason":"stop","eval_count":9}'


def test_a_repaired_call_on_ollamas_own_surface_keeps_its_unknown_members() -> None:
    call = '{"id":"call_a","function":{"index":0,"name":"readFile","arguments":{"limit":"3"},"x":1},"y":2}'
    body = ndjson(HEAD + '"Look: "},"done":false}', HEAD + f'"","tool_calls":[{call}]}},"done":false}}', DONE)
    turn = Turn("Look: ", calls=(ToolCall("call_a", "read_file", {"limit": 3}),), finish="stop")
    repaired = '{"id":"call_a","function":{"index":0,"name":"read_file","arguments":{"limit":3},"x":1},"y":2}'
    wanted = ndjson(HEAD + '"Look: "},"done":false}', HEAD + f'"","tool_calls":[{repaired}]}},"done":false}}', DONE)
    for passed in (0, 1):
        assert rewrite(OLLAMA, body, turn, passed) == wanted


def test_a_call_written_as_text_on_ollamas_own_surface_takes_the_place_of_its_text() -> None:
    texts = ['"Look.\\n"', '"<tool"', '"_call>{}"']
    body = ndjson(*(HEAD + text + '},"done":false}' for text in texts), DONE)
    turn = Turn("Look.", calls=(ToolCall("call_a", "f", {}, dialect="hermes"),), finish="stop")
    call = '{"id":"call_a","function":{"index":0,"name":"f","arguments":{}}}'
    assert rewrite(OLLAMA, body, turn) == ndjson(
        HEAD + '"Look."},"done":false}', HEAD + f'"","tool_calls":[{call}]}},"done":false}}', DONE
    )


def test_a_call_on_ollamas_last_line_stays_there() -> None:
    call = '{"id":"call_a","function":{"index":0,"name":"f","arguments":{"n":%s}}}'
    line = HEAD + f'"","tool_calls":[{call}]}},"done":true,"done_reason":"stop","eval_count":9}}'
    turn = Turn(calls=(ToolCall("call_a", "f", {"n": 30}),), finish="stop")
    assert rewrite(OLLAMA, ndjson(line % "30.0"), turn) == ndjson(line % "30")


def test_an_error_line_gives_way_to_the_call_it_spoke_of() -> None:
    body = ndjson(HEAD + '"Hm. "},"done":false}', '{"error":"error parsing tool call: raw=\'{}\', err=x"}')
    turn = Turn("Hm. ", calls=(ToolCall("call_a", "f", {}),), finish="stop")
    call = '{"id":"call_a","function":{"index":0,"name":"f","arguments":{}}}'
    counts = '"total_duration":0,"load_duration":0,"prompt_eval_count":0,"prompt_eval_duration":0,"eval_count":0,"eval_duration":0'
    assert rewrite(OLLAMA, body, turn, passed=1) == ndjson(
        HEAD + '"Hm. "},"done":false}',
        HEAD + f'"","tool_calls":[{call}]}},"done":false}}',
        HEAD + f'""}},"done":true,"done_reason":"stop",{counts}}}',
    )


def chunk(delta: str, finish: str = "null", more: str = "") -> str:
    choice = f'{{"index":0,"delta":{delta},"finish_reason":{finish}}}'
    return f'data: {{"id":"chatcmpl-7","object":"chat.completion.chunk","created":17,"model":"m","choices":[{choice}]{more}}}\n\n'


def calls(entry: str) -> str:
    return f'{{"content":"","tool_calls":[{entry}]}}'


USAGE = 'data: {"id":"chatcmpl-7","choices":[],"usage":{"completion_tokens":9}}\n\n'
ENTRY = '{"id":"call_a","index":0,"type":"function","function":{"name":"f","arguments":"%s"}}'


def test_a_repaired_call_on_chat_completions_is_one_clean_delta() -> None:
    """As llama-server and vLLM send it: in pieces, and the finish reason with the last of them."""
    body = (
        chunk('{"role":"assistant","content":null}')
        + chunk('{"tool_calls":[{"index":0,"id":"call_a","type":"function","function":{"name":"F","arguments":""}}]}')
        + chunk('{"tool_calls":[{"index":0,"function":{"arguments":"{\\"n\\": "}}]}')
        + chunk('{"tool_calls":[{"index":0,"function":{"arguments":"\\"3\\"}"}}]}', '"tool_calls"', ',"usage":{"completion_tokens":9}')
        + "data: [DONE]\n\n"
    )  # fmt: skip
    turn = Turn(calls=(ToolCall("call_a", "f", {"n": 3}),), finish="tool_calls")
    entry = '{"index":0,"id":"call_a","type":"function","function":{"name":"f","arguments":"{\\"n\\":3}"}}'
    assert rewrite(CHAT, body.encode(), turn).decode() == (
        chunk('{"role":"assistant","content":null}')
        + chunk(f'{{"tool_calls":[{entry}]}}')
        + chunk("{}", '"tool_calls"', ',"usage":{"completion_tokens":9}')
        + "data: [DONE]\n\n"
    )


def test_a_call_that_was_not_repaired_keeps_its_text_and_members_beside_one_that_was() -> None:
    first = '{"id":"call_a","index":0,"type":"function","function":{"name":"f","arguments":"{\\"n\\":  1}"},"extra":1}'
    second = '{"id":"call_b","index":0,"type":"function","function":{"name":"G","arguments":"{}"}}'
    end = chunk("{}", '"tool_calls"') + USAGE + "data: [DONE]\n\n"
    body = chunk('{"role":"assistant","content":"Hi"}') + chunk(calls(first)) + chunk(calls(second)) + end
    turn = Turn(
        "Hi",
        calls=(ToolCall("call_a", "f", {"n": 1}, raw='{"n":  1}'), ToolCall("call_b", "g", {}, raw="{}")),
        finish="tool_calls",
    )
    repaired = '{"id":"call_b","index":1,"type":"function","function":{"name":"g","arguments":"{}"}}'
    for passed in (0, 1):
        assert rewrite(CHAT, body.encode(), turn, passed).decode() == (
            chunk('{"role":"assistant","content":"Hi"}') + chunk(calls(first)) + chunk(calls(repaired)) + end
        )


def test_a_call_written_as_text_on_chat_completions_ends_in_tool_calls() -> None:
    end = USAGE + "data: [DONE]\n\n"
    body = (
        chunk('{"role":"assistant","content":"{\\"na"}') + chunk('{"content":"me\\":1}"}') + chunk("{}", '"stop"') + end
    )
    turn = Turn(calls=(ToolCall("call_a", "f", {}, dialect="json"),), finish="stop")
    entry = ENTRY % "{}"
    opened = entry.replace('"id":"call_a","index":0', '"id":"call_a","index":0')
    assert rewrite(CHAT, body.encode(), turn).decode() == (
        chunk(f'{{"role":"assistant","tool_calls":[{opened}]}}') + chunk("{}", '"tool_calls"') + end
    )


def test_calls_that_are_not_allowed_go_and_the_finish_reason_with_them() -> None:
    end = "data: [DONE]\n\n"
    body = chunk('{"role":"assistant","content":"Hi"}') + chunk(calls(ENTRY % "{}")) + chunk("{}", '"tool_calls"') + end
    wanted = chunk('{"role":"assistant","content":"Hi"}') + chunk("{}", '"stop"') + end
    assert rewrite(CHAT, body.encode(), Turn("Hi", finish="tool_calls")).decode() == wanted


def test_an_error_lost_in_mid_stream_gives_way_to_a_call() -> None:
    opened = chunk('{"role":"assistant","content":"","reasoning":"Hm."}')
    lost = chunk('{"content":""}').replace('"model":"m"', '"model":""')
    turn = Turn(thinking="Hm.", calls=(ToolCall("call_a", "f", {}),), finish="error")
    call = chunk(f'{{"tool_calls":[{ENTRY % "{}"}]}}')
    for passed in (0, 1):
        assert rewrite(CHAT, (opened + lost).encode(), turn, passed).decode() == (
            opened + call + chunk("{}", '"tool_calls"') + "data: [DONE]\n\n"
        )


def test_the_last_chunk_stays_one_where_it_says_something_too() -> None:
    """As vLLM and llama-server end an answer: the last words and the reason in one chunk."""
    opened, end = chunk('{"role":"assistant","content":""}'), "data: [DONE]\n\n"
    body = opened + chunk(calls(ENTRY % "{}")) + chunk('{"content":"Done."}', '"stop"') + end
    renamed = (ENTRY % "{}").replace('"name":"f"', '"name":"g"')
    turn = Turn("Done.", calls=(ToolCall("call_a", "g", {}),), finish="tool_calls")
    for passed in (0, 1):
        assert rewrite(CHAT, body.encode(), turn, passed).decode() == (
            opened + chunk(calls(renamed)) + chunk('{"content":"Done."}', '"tool_calls"') + end
        )


def test_text_that_passed_with_its_count_is_not_said_again() -> None:
    said = chunk('{"role":"assistant","content":"Hi"}', more=',"usage":{"completion_tokens":1}')
    end = chunk("{}", '"stop"') + "data: [DONE]\n\n"
    turn = Turn("Hi", calls=(ToolCall("call_a", "f", {}),), finish="stop")
    assert rewrite(CHAT, (said + end).encode(), turn, passed=1).decode() == (
        said + chunk(f'{{"tool_calls":[{ENTRY % "{}"}]}}') + chunk("{}", '"tool_calls"') + "data: [DONE]\n\n"
    )


def test_an_error_event_gives_way_to_the_call_it_spoke_of() -> None:
    message = '{"id":"msg_1","type":"message","role":"assistant","model":"m","content":[],"stop_reason":null,"usage":{"input_tokens":3,"output_tokens":0}}'
    error = '{"type":"api_error","message":"error parsing tool call"}'
    opened = f'event: message_start\ndata: {{"type":"message_start","message":{message}}}\n\n'
    failed = f'event: error\ndata: {{"type":"error","error":{error}}}\n\n'
    response = '{"id":"resp_1","object":"response","status":"in_progress","output":[]}'
    created = (
        f'event: response.created\ndata: {{"type":"response.created","response":{response},"sequence_number":0}}\n\n'
    )
    progress = created.replace("created", "in_progress").replace('"sequence_number":0', '"sequence_number":1')
    broken = 'event: error\ndata: {"type":"error","code":"x","message":"no","param":null}\n\n'
    for surface, before, error_event in ((MESSAGES, opened, failed), (RESPONSES, created + progress, broken)):
        assert decode(surface, (before + error_event).encode()).error is not None
        written = rewrite(surface, (before + error_event).encode(), Turn(calls=(NEW,), finish="tool_calls"))
        CHECKS[surface.name](written)
        assert written.startswith(before.encode())
        assert decode(surface, written).error is None
        assert essence(decode(surface, written)) == ("", "", [("call_new", "read_file", '{"path": "a.py"}')])


def test_a_comment_stays_where_it_stood() -> None:
    def event(kind: str, **members: Json) -> str:
        return f"event: {kind}\ndata: {json.dumps({'type': kind, **members}, separators=(',', ':'))}\n\n"

    response: JsonObject = {"id": "resp_1", "output": []}
    opening = event("response.created", response=response, sequence_number=0)
    opening += ": keep-alive\n\n" + event("response.in_progress", response=response, sequence_number=1)
    end = event("response.completed", response=response, sequence_number=2)
    written = rewrite(RESPONSES, (opening + end).encode(), Turn(calls=(NEW,), finish="stop"))
    assert written.startswith(opening.encode())
    assert essence(decode(RESPONSES, written)) == ("", "", [("call_new", "read_file", '{"path": "a.py"}')])


def test_counts_are_made_only_for_a_client_that_asked() -> None:
    for asked in (True, False):
        document: JsonObject = {"model": "m", "stream": True, "stream_options": {"include_usage": asked}}
        request = CHAT.read_request(document)
        body = b"".join(CHAT.codec(request, "sse").write(Turn("Hi", tokens=9), []))
        counts = [found["usage"]["completion_tokens"] for found in documents(body) if "usage" in found]
        assert counts == ([9] if asked else [])


def test_events_of_unknown_kinds_pass_in_their_order() -> None:
    ping = 'event: ping\ndata: {"type":"ping"}\n\n'
    body = (
        'data: {"type":"message_start","message":{"id":"msg_1","usage":{"output_tokens":0}}}\n\n'
        + ping
        + 'data: {"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}\n\n'
        + 'data: {"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"{}"}}\n\n'
        + ": comment\n\n"
        + 'data: {"type":"content_block_stop","index":0}\n\n'
        + 'data: {"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":9,"x":1}}\n\n'
        + 'data: {"type":"message_stop"}\n\n'
    )
    turn = Turn(calls=(ToolCall("call_a", "f", {"n": 1}),), finish="stop")
    assert rewrite(MESSAGES, body.encode(), turn).decode() == (
        'data: {"type":"message_start","message":{"id":"msg_1","usage":{"output_tokens":0}}}\n\n'
        + ping
        + ": comment\n\n"
        + "event: content_block_start\n"
        + 'data: {"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"call_a","name":"f","input":{}}}\n\n'
        + "event: content_block_delta\n"
        + 'data: {"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\\"n\\":1}"}}\n\n'
        + 'event: content_block_stop\ndata: {"type":"content_block_stop","index":0}\n\n'
        + "event: message_delta\n"
        + 'data: {"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":9,"x":1}}\n\n'
        + 'data: {"type":"message_stop"}\n\n'
    )


def block(index: int, kind: str, text: str) -> str:
    def event(document: JsonObject) -> str:
        return f"event: {document['type']}\ndata: {json.dumps(document, separators=(',', ':'))}\n\n"

    opened: JsonObject = {"type": kind, kind: ""}
    delta: JsonObject = {"type": f"{kind}_delta", kind: text}
    parts = [event({"type": "content_block_start", "index": index, "content_block": opened})]
    parts += [event({"type": "content_block_delta", "index": index, "delta": delta})] if text else []
    if kind == "thinking":
        signature: JsonObject = {"type": "signature_delta", "signature": "c2ln"}
        parts.append(event({"type": "content_block_delta", "index": index, "delta": signature}))
    return "".join([*parts, event({"type": "content_block_stop", "index": index})])


START = 'event: message_start\ndata: {"type":"message_start","message":{"id":"msg_1","content":[]}}\n\n'
STOPS = (
    'event: message_delta\ndata: {"type":"message_delta","delta":{"stop_reason":"%s"},"usage":{"output_tokens":9}}\n\n'
    'event: message_stop\ndata: {"type":"message_stop"}\n\n'
)


def test_blocks_that_stay_keep_their_signatures_and_move_up() -> None:
    body = (
        START + block(0, "text", "<call>") + block(1, "thinking", "Hm.") + block(2, "text", "Hi") + STOPS % "end_turn"
    )
    turn = Turn("", "Hm.", finish="stop")
    assert rewrite(MESSAGES, body.encode(), turn).decode() == START + block(0, "thinking", "Hm.") + STOPS % "end_turn"


def test_the_servers_own_blocks_are_kept_and_renumbered() -> None:
    own = (
        'event: content_block_start\ndata: {"type":"content_block_start","index":%d,"content_block":{"type":"server_tool_use","id":"s","name":"web_search","input":{}}}\n\n'
        'event: content_block_delta\ndata: {"type":"content_block_delta","index":%d,"delta":{"type":"input_json_delta","partial_json":"{}"}}\n\n'
        'event: content_block_stop\ndata: {"type":"content_block_stop","index":%d}\n\n'
    )
    body = START + block(0, "text", "<call>") + own % (1, 1, 1) + block(2, "text", "Hi") + STOPS % "end_turn"
    written = rewrite(MESSAGES, body.encode(), Turn("Hi", finish="stop")).decode()
    assert written == START + block(0, "text", "Hi") + own % (1, 1, 1) + STOPS % "end_turn"


def test_text_that_goes_on_after_a_call_in_a_block_the_server_left_open_is_not_lost() -> None:
    def event(kind: str, **members: Json) -> str:
        return f"data: {json.dumps({'type': kind, **members})}\n\n"

    text: JsonObject = {"type": "text", "text": ""}
    call: JsonObject = {"type": "tool_use", "id": "call_a", "name": "f", "input": {}}
    body = (
        event("message_start", message={"id": "msg_1", "content": []})
        + event("content_block_start", index=0, content_block=text)
        + event("content_block_delta", index=0, delta={"type": "text_delta", "text": "Hi"})
        + event("content_block_start", index=1, content_block=call)
        + event("content_block_delta", index=1, delta={"type": "input_json_delta", "partial_json": "{}"})
        + event("content_block_delta", index=0, delta={"type": "text_delta", "text": " there"})
        + event("message_delta", delta={"stop_reason": "tool_use"}, usage={"output_tokens": 9})
        + event("message_stop")
    )
    turn = Turn("Hi there", calls=(ToolCall("call_a", "g", {}, raw="{}"),), finish="tool_calls")
    for passed in (0, 3):
        written = rewrite(MESSAGES, body.encode(), turn, passed)
        assert essence(decode(MESSAGES, written)) == essence(turn)


def test_a_message_left_open_is_ended_before_the_call() -> None:
    """Ollama opens a message, never ends it, and gives the call its index."""
    answer = next(a for a in STREAMS if a.surface is RESPONSES and a.name == "text, then a call")
    codec, frames, turn = came_with(answer)
    passed = passable(frames)
    for frame in frames[:passed]:
        codec.passed(frame)
    wanted = replace(turn, calls=tuple(replace(call, arguments={"n": 1}, raw=None) for call in turn.calls))
    body = b"".join([*(frame.raw for frame in frames[:passed]), *codec.write(wanted, frames[passed:])])
    kinds = [(event["type"].removeprefix("response."), event.get("output_index")) for event in documents(body)]
    assert kinds[:4] == [("created", None), ("in_progress", None), ("output_item.added", 0), ("content_part.added", 0)]
    assert kinds[-8:] == [
        ("output_text.done", 0),
        ("content_part.done", 0),
        ("output_item.done", 0),
        ("output_item.added", 1),
        ("function_call_arguments.delta", 1),
        ("function_call_arguments.done", 1),
        ("output_item.done", 1),
        ("completed", None),
    ]
    last = documents(body)[-1]["response"]
    assert [item["type"] for item in last["output"]] == ["message", "function_call"]
    assert last["usage"] == json.loads(answer.body.decode().rsplit("data: ", 1)[1])["response"]["usage"]


def test_a_call_into_a_namespace_is_delivered_with_it() -> None:
    call = ToolCall("call_a", "spawn", {}, namespace="agents")
    for framing in ("json", "sse"):
        request = RESPONSES.read_request({"model": "m", "stream": framing == "sse"})
        body = b"".join(RESPONSES.codec(request, framing).write(Turn(calls=(call,)), []))
        found = json.loads(body) if framing == "json" else documents(body)[-1]["response"]
        (item,) = found["output"]
        assert (item["name"], item["namespace"], item["call_id"]) == ("spawn", "agents", "call_a")


def test_other_items_and_events_without_numbers_pass() -> None:
    def event(kind: str, **members: Json) -> str:
        return f"event: {kind}\ndata: {json.dumps({'type': kind, **members}, separators=(',', ':'))}\n\n"

    search: JsonObject = {"id": "ws_1", "type": "web_search_call", "status": "in_progress"}
    message: JsonObject = {"id": "msg_1", "type": "message", "role": "assistant", "content": []}
    opening = event("response.created", response={"id": "resp_1", "output": []}, sequence_number=0) + event(
        "response.in_progress", response={"id": "resp_1", "output": []}, sequence_number=1
    )
    kept = [
        event("response.output_item.added", item=search, output_index=0, sequence_number=2),
        event("response.web_search_call.searching", item_id="ws_1", output_index=0, sequence_number=3),
        event("response.output_item.done", item=search, output_index=0, sequence_number=4),
        event("response.hint", note="x"),
    ]
    text = event("response.output_item.added", item=message, output_index=1, sequence_number=5) + event(
        "response.output_text.delta", item_id="msg_1", output_index=1, content_index=0, delta="{}", sequence_number=6
    )
    end = event("response.completed", response={"id": "resp_1", "output": [search, message]}, sequence_number=7)
    turn = Turn(calls=(NEW,), finish="stop")
    written = rewrite(RESPONSES, (opening + "".join(kept) + text + end).encode(), turn).decode()
    assert written.startswith(opening + "".join(kept))
    found = documents(written.encode())
    assert [e["sequence_number"] for e in found if "sequence_number" in e] == list(range(10))
    assert [item["type"] for item in found[-1]["response"]["output"]] == ["web_search_call", "function_call"]
    assert found[-2]["output_index"] == 1


def test_a_body_keeps_its_unknown_members_and_its_line_end() -> None:
    entry = '{"id":"call_a","index":0,"type":"function","function":{"name":"f","arguments":"{\\"n\\":\\"3\\"}"},"x":1}'
    form = (
        '{"id":"c","choices":[{"index":0,"message":{"role":"assistant","content":null,"tool_calls":[%s],"y":2},'
        '"finish_reason":"tool_calls"}],"usage":{"completion_tokens":9},"z":3}\n'
    )
    turn = Turn(calls=(ToolCall("call_a", "f", {"n": 3}),), finish="tool_calls")
    repaired = entry.replace('\\"3\\"', "3")
    assert rewrite(CHAT, (form % entry).encode(), turn, framing="json").decode() == form % repaired


@pytest.mark.parametrize(
    ("surface", "form", "search", "call", "repaired"),
    [
        (
            MESSAGES,
            '{"id":"msg_1","type":"message","role":"assistant","content":[%s,%s],"stop_reason":"tool_use"}',
            '{"type":"server_tool_use","id":"srv_1","name":"web_search","input":{"query":"x"}}',
            '{"type":"tool_use","id":"call_a","name":"f","input":{"n":"3"}}',
            '{"type":"tool_use","id":"call_a","name":"f","input":{"n":3}}',
        ),
        (
            RESPONSES,
            '{"id":"resp_1","object":"response","status":"completed","output":[%s,%s]}',
            '{"type":"web_search_call","id":"ws_1","status":"completed"}',
            '{"type":"function_call","id":"fc_1","status":"completed","call_id":"call_a","name":"f","arguments":"{\\"n\\":\\"3\\"}"}',
            '{"type":"function_call","id":"fc_1","status":"completed","call_id":"call_a","name":"f","arguments":"{\\"n\\":3}"}',
        ),
    ],
    ids=["messages", "responses"],
)
def test_what_the_server_did_itself_stays_beside_a_repaired_call(
    surface: Any, form: str, search: str, call: str, repaired: str
) -> None:
    turn = Turn(calls=(ToolCall("call_a", "f", {"n": 3}),), finish="tool_calls")
    body = (form % (search, call)).encode()
    assert json.loads(rewrite(surface, body, turn, framing="json")) == json.loads(form % (search, repaired))


def test_a_line_in_which_nothing_is_said_stays_where_it_stood() -> None:
    silent = HEAD + '""},"done":false}'
    call = '{"id":"call_a","function":{"index":0,"name":"F","arguments":{}}}'
    end = HEAD + '""},"done":true,"done_reason":"stop"}'
    body = ndjson(silent, HEAD + f'"","tool_calls":[{call}]}},"done":false}}', end)
    turn = Turn(calls=(ToolCall("call_a", "f", {}),), finish="stop")
    assert rewrite(OLLAMA, body, turn) == body.replace(b'"F"', b'"f"')


def test_text_in_the_opening_of_its_block_is_written_once() -> None:
    def event(kind: str, **members: Json) -> str:
        return f"event: {kind}\ndata: {json.dumps({'type': kind, **members}, separators=(',', ':'))}\n\n"

    usage: JsonObject = {"input_tokens": 3, "output_tokens": 0}
    message: JsonObject = {"id": "msg_1", "type": "message", "role": "assistant", "content": [], "usage": usage}
    text = event("content_block_start", index=0, content_block={"type": "text", "text": "I look."})
    body = event("message_start", message=message) + text + event("content_block_stop", index=0)
    body += event("message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 9})
    body += event("message_stop")
    written = rewrite(MESSAGES, body.encode(), Turn("I look.", calls=(NEW,), finish="stop"))
    assert written.decode().count("I look.") == 1
    started = [found["content_block"]["type"] for found in documents(written) if "content_block" in found]
    assert started == ["text", "tool_use"]
    assert essence(decode(MESSAGES, written)) == ("I look.", "", [("call_new", "read_file", '{"path": "a.py"}')])


@pytest.mark.parametrize("opened", [True, False], ids=["opened", "not opened"])
@pytest.mark.parametrize("closed", [True, False], ids=["closed", "not closed"])
def test_text_of_an_item_that_was_not_opened_or_not_closed_is_written_once(opened: bool, closed: bool) -> None:
    def event(kind: str, **members: Json) -> str:
        return f"event: {kind}\ndata: {json.dumps({'type': kind, **members}, separators=(',', ':'))}\n\n"

    message: JsonObject = {"id": "msg_1", "type": "message", "role": "assistant", "content": []}
    body = event("response.created", response={"id": "resp_1", "output": []}, sequence_number=0)
    body += event("response.in_progress", response={"id": "resp_1", "output": []}, sequence_number=1)
    if opened:
        body += event("response.output_item.added", item=message, output_index=0, sequence_number=2)
    body += event(
        "response.output_text.delta",
        item_id="msg_1",
        output_index=0,
        content_index=0,
        delta="I look",
        sequence_number=3,
    )
    if closed:
        body += event("response.output_item.done", item=message, output_index=0, sequence_number=4)
    body += event("response.completed", response={"id": "resp_1", "output": []}, sequence_number=5)
    turn = Turn("I look.", calls=(NEW,), finish="stop")
    for passed in range(4 + opened + closed):
        found = documents(rewrite(RESPONSES, body.encode(), turn, passed))
        deltas = [event["delta"] for event in found if event["type"] == "response.output_text.delta"]
        assert "".join(deltas) == "I look."
    written = rewrite(RESPONSES, body.encode(), turn)
    if not opened:  # What the server opened by other rules stays as it came.
        CHECKS["openai-responses"](written)
    assert [found["sequence_number"] for found in documents(written)] == list(range(len(documents(written))))
    assert essence(decode(RESPONSES, written)) == ("I look.", "", [("call_new", "read_file", '{"path": "a.py"}')])


def test_a_stream_that_breaks_the_rules_is_written_by_them() -> None:
    """Seen: every call with index 0, the id and name after the first piece, arguments null."""
    opened = chunk('{"role":"assistant","content":""}')
    first = '{"index":0,"id":"call_a","type":"function","function":{"name":"f","arguments":"{}"},"extra":1}'
    second = [
        '{"index":0,"id":"call_b","function":{"arguments":null}}',
        '{"index":0,"function":{"name":"f","arguments":"{}"}}',
    ]
    end = chunk("{}", '"stop"') + "data: [DONE]\n\n"
    body = opened + "".join(chunk(f'{{"tool_calls":[{entry}]}}') for entry in [first, *second]) + end
    turn = decode(CHAT, body.encode())
    assert [(call.id, call.name, call.arguments) for call in turn.calls] == [("call_a", "f", {}), ("call_b", "f", {})]
    joined = '{"index":1,"id":"call_b","function":{"arguments":"{}","name":"f"},"type":"function"}'
    assert rewrite(CHAT, body.encode(), turn).decode() == (
        opened
        + "".join(chunk(f'{{"tool_calls":[{entry}]}}') for entry in [first, joined])
        + chunk("{}", '"tool_calls"')
        + "data: [DONE]\n\n"
    )


def test_members_are_kept_from_the_call_that_a_repaired_one_came_from() -> None:
    """By id; by what it says, where the id was made new; by name; by place."""
    came = [("call_a", "f", "1"), ("call_a", "g", "2"), ("", "h", "3"), ("", "i", "4")]
    entries = [
        f'{{"id":"{key}","function":{{"name":"{name}","arguments":{{"n":{value}}}}},"from":{value}}}'
        for key, name, value in came
    ]
    form = '{"model":"m","message":{"role":"assistant","content":"","tool_calls":[%s]},"done":true}'
    calls = (
        ToolCall("call_a", "f", {"n": 10}),
        ToolCall("call_b", "g", {"n": 2}),
        ToolCall("call_c", "h", {"n": 30}),
        ToolCall("call_d", "j", {"n": 40}),
        ToolCall("call_e", "f", {"n": 50}, dialect="hermes"),
    )
    body = (form % ",".join(entries)).encode()
    written = json.loads(rewrite(OLLAMA, body, Turn(calls=calls, finish="stop"), framing="json"))
    assert [(call["id"], call.get("from")) for call in written["message"]["tool_calls"]] == [
        ("call_a", 1),
        ("call_b", 2),
        ("call_c", 3),
        ("call_d", 4),
        ("call_e", None),
    ]


def test_thinking_that_comes_under_two_names_is_written_under_both() -> None:
    body = (
        chunk('{"role":"assistant","reasoning":"Hm","reasoning_content":"Hm"}')
        + chunk('{"reasoning":".","reasoning_content":"."}')
        + chunk("{}", '"stop"')
        + "data: [DONE]\n\n"
    )
    turn = Turn(thinking="Hm.", finish="stop")
    assert decode(CHAT, body.encode()).thinking == "Hm."
    assert rewrite(CHAT, body.encode(), turn).decode() == body
    message = '{"role":"assistant","content":"%s","reasoning":"Hm.","reasoning_content":"Hm."}'
    whole = '{"choices":[{"index":0,"message":%s,"finish_reason":"stop"}]}'
    written = rewrite(CHAT, (whole % message % "<x>").encode(), replace(turn, text="Hi"), framing="json")
    assert written.decode() == whole % message % "Hi"


def test_a_refusal_is_kept() -> None:
    def event(kind: str, **members: Json) -> str:
        return f"event: {kind}\ndata: {json.dumps({'type': kind, **members}, separators=(',', ':'))}\n\n"

    part: JsonObject = {"type": "refusal", "refusal": "No."}
    item: JsonObject = {"id": "msg_1", "type": "message", "role": "assistant", "content": [part]}
    where: JsonObject = {"item_id": "msg_1", "output_index": 0, "content_index": 0}
    opened: JsonObject = {**item, "content": []}
    body = (
        event("response.created", response={"id": "resp_1"}, sequence_number=0)
        + event("response.output_item.added", item=opened, output_index=0, sequence_number=1)
        + event("response.content_part.added", **where, part={**part, "refusal": ""}, sequence_number=2)
        + event("response.refusal.delta", **where, delta="No.", sequence_number=3)
        + event("response.refusal.done", **where, refusal="No.", sequence_number=4)
        + event("response.content_part.done", **where, part=part, sequence_number=5)
        + event("response.output_item.done", item=item, output_index=0, sequence_number=6)
        + event("response.completed", response={"id": "resp_1", "output": [item]}, sequence_number=7)
    )
    assert rewrite(RESPONSES, body.encode(), Turn(finish="stop")).decode() == body


def test_numbers_are_told_apart_by_how_they_are_written() -> None:
    """30.0 and 30 are equal here, and two values for a typed client."""
    entry = '{"id":"call_a","function":{"name":"f","arguments":{"n":%s}}}'
    form = (
        '{"model":"m","message":{"role":"assistant","content":"","tool_calls":[%s]},"done":true,"done_reason":"stop"}'
    )
    turn = Turn(calls=(ToolCall("call_a", "f", {"n": 30}),), finish="stop")
    body = form % (entry % "30.0")
    assert rewrite(OLLAMA, body.encode(), turn, framing="json").decode() == form % (entry % "30")


JUNK: list[Json] = [None, 1.5, "\ud800\n", [], {"a": 1}]


def junked(value: Json) -> list[Json]:
    """Return copies of a value with each of its members replaced by each kind of junk (what a request declares: kept)."""
    members = (
        [(key, item) for key, item in value.items() if key not in ("tools", "text")]
        if isinstance(value, dict)
        else list(enumerate(value))
        if isinstance(value, list)
        else []
    )
    found: list[Json] = []
    for key, item in members:
        for new in [*JUNK, *junked(item)]:
            copy: Any = value.copy() if isinstance(value, dict) else list(value) if isinstance(value, list) else value
            copy[key] = new
            found.append(copy)
    return found


@pytest.mark.parametrize("answer", [answer for answer in ANSWERS if answer.name == "two calls"], ids=label)
def test_junk_in_any_member_is_read_and_written_or_refused(answer: Answer) -> None:
    raws = [frame.raw for frame in came_with(answer)[1]]
    for place, frame in enumerate(came_with(answer)[1]):
        for document in junked(frame.document):
            junk = event(object_of(document)) if answer.framing == "sse" else line(object_of(document))
            codec = answer.surface.codec(answer.request, answer.framing)
            try:
                frames = [codec.read(raw) for raw in [*raws[:place], junk, *raws[place + 1 :]]]
            except DecodeError:
                continue
            turn = turn_of(frames)
            written = codec.write(replace(turn, calls=(*turn.calls, NEW)), frames)
            assert b'"call_new"' in b"".join(written)
            answer.surface.untap(junk, True)
