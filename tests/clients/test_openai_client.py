"""The openai library through the addon: chat completions and responses, whole, raw stream, typed stream."""

from __future__ import annotations

import contextlib
import functools
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from client_cases import (
    ANSWER,
    ASKED_AGAIN,
    CALL,
    CALLS,
    QUESTION,
    SAID,
    VALID,
    Seen,
    counted,
    openai_chat_tool,
    openai_responses_tool,
    unique,
)

from conftest import Proxy
from fake_ollama import TIMEOUT, Answer, FakeOllama, Gate

openai = pytest.importorskip(
    "openai", reason="openai is not installed: its newest version needs h11 >= 0.16, mitmproxy 11.0.2 allows 0.14"
)
Ask = Callable[[Any, dict[str, Any]], Seen]


@pytest.fixture(scope="module")
def connect() -> Iterator[Callable[[str], Any]]:
    """Give a function that makes one client for each server; they are closed at the end."""
    with contextlib.ExitStack() as stack:

        @functools.cache
        def make(url: str) -> Any:
            client = openai.OpenAI(base_url=f"{url}/v1", api_key="none", max_retries=0, timeout=TIMEOUT)
            return stack.enter_context(client)

        yield make


def chat(scenario: str, **more: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": QUESTION}]
    return {"model": f"fake:{scenario}", "messages": messages, "tools": [openai_chat_tool()], **more}


def respond(scenario: str, **more: Any) -> dict[str, Any]:
    return {"model": f"fake:{scenario}", "input": QUESTION, "tools": [openai_responses_tool()], **more}


def seen_in_completion(completion: Any) -> Seen:
    choice = completion.choices[0]
    calls = choice.message.tool_calls or []
    assert unique([call.id for call in calls])
    assert counted(completion.usage.completion_tokens, completion.model)
    return Seen(
        tuple((call.function.name, json.loads(call.function.arguments)) for call in calls),
        (choice.message.content or "").rstrip(),
        choice.finish_reason,
    )


def chat_whole(client: Any, request: dict[str, Any]) -> Seen:
    return seen_in_completion(client.chat.completions.create(**request))


def chat_raw_stream(client: Any, request: dict[str, Any]) -> Seen:
    """Join the deltas as every agent does: by index, the name from the first of them."""
    text, finish, usage = "", [], 0
    calls: dict[int, dict[str, str]] = {}
    with client.chat.completions.create(**request, stream=True, stream_options={"include_usage": True}) as stream:
        for chunk in stream:
            usage += chunk.usage.completion_tokens if chunk.usage else 0
            for choice in chunk.choices:
                text += choice.delta.content or ""
                finish += [choice.finish_reason] if choice.finish_reason else []
                for delta in choice.delta.tool_calls or []:
                    call = calls.setdefault(delta.index, {"id": delta.id, "name": "", "arguments": ""})
                    call["name"] += delta.function.name or ""
                    call["arguments"] += delta.function.arguments or ""
    assert counted(usage, request["model"])
    assert len(finish) == 1
    assert sorted(calls) == list(range(len(calls)))
    assert unique([call["id"] for call in calls.values()])
    decoded = tuple((call["name"], json.loads(call["arguments"])) for call in calls.values())
    return Seen(decoded, text.rstrip(), finish[0])


def chat_typed_stream(client: Any, request: dict[str, Any]) -> Seen:
    """Let the library put the stream together and parse the arguments; its events must agree with its result."""
    with client.chat.completions.stream(**request, stream_options={"include_usage": True}) as stream:
        events = list(stream)
        completion = stream.get_final_completion()
    done = [event for event in events if event.type == "tool_calls.function.arguments.done"]
    calls = completion.choices[0].message.tool_calls or []
    assert [(event.name, event.parsed_arguments or json.loads(event.arguments)) for event in done] == [
        (call.function.name, json.loads(call.function.arguments)) for call in calls
    ]
    return seen_in_completion(completion)


def seen_in_response(response: Any) -> Seen:
    calls = [item for item in response.output if item.type == "function_call"]
    assert unique([call.call_id for call in calls])
    assert unique([item.id for item in response.output])
    assert counted(response.usage.output_tokens, response.model)
    assert {item.status for item in response.output if item.type != "reasoning"} <= {"completed"}
    return Seen(
        tuple((call.name, json.loads(call.arguments)) for call in calls),
        response.output_text.rstrip(),
        response.status,
    )


def responses_whole(client: Any, request: dict[str, Any]) -> Seen:
    return seen_in_response(client.responses.create(**request))


def responses_raw_stream(client: Any, request: dict[str, Any]) -> Seen:
    """Hold the events to their own rules: numbers without gaps, what is done equals what was streamed."""
    with client.responses.create(**request, stream=True) as stream:
        events = list(stream)
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert [event.type for event in events[:2]] == ["response.created", "response.in_progress"]
    assert events[-1].type == "response.completed"
    streamed: dict[str, str] = {}
    for event in events:
        if event.type in ("response.function_call_arguments.delta", "response.output_text.delta"):
            streamed[event.item_id] = streamed.get(event.item_id, "") + event.delta
        if event.type == "response.function_call_arguments.done":
            assert streamed[event.item_id] == event.arguments
        if event.type == "response.output_text.done":
            assert streamed[event.item_id] == event.text
    final = events[-1].response
    items = {item.id: item for item in final.output}
    for event in events:
        if event.type == "response.output_item.done":
            assert event.item == items[event.item.id]
    assert {key: value.rstrip() for key, value in streamed.items()} == {
        key: (item.arguments if item.type == "function_call" else item.content[0].text).rstrip()
        for key, item in items.items()
        if item.type != "reasoning"
    }
    return seen_in_response(final)


def responses_typed_stream(client: Any, request: dict[str, Any]) -> Seen:
    with client.responses.stream(**request) as stream:
        list(stream)
        return seen_in_response(stream.get_final_response())


CHAT: dict[str, Ask] = {
    "chat-whole": chat_whole,
    "chat-raw-stream": chat_raw_stream,
    "chat-typed-stream": chat_typed_stream,
}
RESPONSES: dict[str, Ask] = {
    "responses-whole": responses_whole,
    "responses-raw-stream": responses_raw_stream,
    "responses-typed-stream": responses_typed_stream,
}
WAYS = CHAT | RESPONSES
FINISH = dict.fromkeys(CHAT, "tool_calls") | dict.fromkeys(RESPONSES, "completed")
STOP = dict.fromkeys(CHAT, "stop") | dict.fromkeys(RESPONSES, "completed")


def request_for(way: str, scenario: str, **more: Any) -> dict[str, Any]:
    return chat(scenario, **more) if way in CHAT else respond(scenario, **more)


def said(way: str, scenario: str) -> str:
    """Ollama drops the text beside a call from a whole response; what it dropped nobody can give back."""
    return "" if (way, scenario) == ("responses-whole", "valid-after-text") else SAID.get(scenario, "")


def meant(way: str, scenario: str) -> Seen:
    return Seen((CALL,), said(way, scenario), FINISH[way])


# Ollama opens a message, does not end it, and gives the call after it the same output index.
REFUSED = ("responses-typed-stream", "valid-after-text")


@pytest.mark.parametrize(
    ("way", "scenario"),
    [
        pytest.param(
            way,
            scenario,
            marks=pytest.mark.xfail(
                (way, scenario) == REFUSED,
                raises=RuntimeError,
                reason="openai's helper refuses what Ollama sends, and a sound answer passes as it comes",
            ),
        )
        for way in WAYS
        for scenario in CALLS
    ],
)
def test_the_call_that_was_meant_arrives(
    proxy: Proxy, fake: FakeOllama, connect: Callable[[str], Any], way: str, scenario: str
) -> None:
    assert WAYS[way](connect(proxy.url), request_for(way, scenario)) == meant(way, scenario)
    assert fake.model_calls in ((1, 2) if scenario in ASKED_AGAIN else (1,))


@pytest.mark.parametrize("way", WAYS)
def test_two_calls_stay_two(proxy: Proxy, fake: FakeOllama, connect: Callable[[str], Any], way: str) -> None:
    fake.script(Answer(calls=(CALL, ("bookTable", {**CALL[1], "guests": "2"}))))
    seen = WAYS[way](connect(proxy.url), request_for(way, "scripted"))
    assert seen == Seen((CALL, ("book_table", {**CALL[1], "guests": 2})), "", FINISH[way])


@pytest.mark.parametrize("way", WAYS)
def test_text_alone_stays_text(proxy: Proxy, fake: FakeOllama, connect: Callable[[str], Any], way: str) -> None:
    assert WAYS[way](connect(proxy.url), request_for(way, "text-only")) == Seen((), ANSWER, STOP[way])
    assert fake.model_calls == 1


@pytest.mark.parametrize("way", WAYS)
def test_an_error_stays_that_error(proxy: Proxy, fake: FakeOllama, connect: Callable[[str], Any], way: str) -> None:
    with pytest.raises(openai.NotFoundError, match="model 'fake:error' not found"):
        WAYS[way](connect(proxy.url), request_for(way, "error"))
    assert fake.model_calls == 1


@pytest.mark.parametrize("scenario", CALLS)
@pytest.mark.parametrize("way", WAYS)
def test_without_the_addon_only_a_sound_call_arrives(
    fake: FakeOllama, connect: Callable[[str], Any], way: str, scenario: str
) -> None:
    try:
        seen = WAYS[way](connect(fake.url), request_for(way, scenario))
    except (openai.OpenAIError, AssertionError, RuntimeError, TypeError) as error:
        seen = Seen(text=repr(error))
    sound = scenario in VALID and (way, scenario) != REFUSED
    assert (seen == meant(way, scenario)) == sound


@pytest.mark.parametrize(
    ("way", "choice"),
    [
        *((way, {"type": "function", "function": {"name": "book_table"}}) for way in CHAT),
        *((way, {"type": "function", "name": "book_table"}) for way in RESPONSES),
        *((way, "required") for way in WAYS),
    ],
)
def test_a_choice_that_the_model_did_not_meet_is_met(
    proxy: Proxy, connect: Callable[[str], Any], way: str, choice: Any
) -> None:
    seen = WAYS[way](connect(proxy.url), request_for(way, "text-only", tool_choice=choice))
    assert (seen.calls, seen.finish) == ((CALL,), FINISH[way])


@pytest.mark.parametrize("scenario", ["wrong-types", "leaked", "missing"])
def test_the_history_with_a_mended_call_is_accepted(proxy: Proxy, connect: Callable[[str], Any], scenario: str) -> None:
    client, request = connect(proxy.url), chat(scenario)
    message = client.chat.completions.create(**request).choices[0].message
    result = {"role": "tool", "tool_call_id": message.tool_calls[0].id, "content": "booked"}
    request["messages"] += [message.model_dump(exclude_none=True, exclude={"parsed"}), result]
    assert client.chat.completions.create(**request).choices[0].message.content == "Done."

    request = respond(scenario)
    output = client.responses.create(**request).output
    calls = [item for item in output if item.type == "function_call"]
    results = [{"type": "function_call_output", "call_id": call.call_id, "output": "booked"} for call in calls]
    items = [item.model_dump(exclude_none=True) for item in output]
    request["input"] = [{"role": "user", "content": QUESTION}, *items, *results]
    assert client.responses.create(**request).output_text == "Done."


@pytest.mark.parametrize("way", ["chat", "responses"])
def test_a_client_that_closes_its_stream_stops_the_work(
    proxy: Proxy, fake: FakeOllama, connect: Callable[[str], Any], way: str
) -> None:
    gate = Gate()
    fake.script(Answer(text="One two three four five six seven.", gates={5: gate}))
    client = connect(proxy.url)
    create, request = (
        (client.chat.completions.create, chat("valid"))
        if way == "chat"
        else (client.responses.create, respond("valid"))
    )
    with create(**request, stream=True) as stream:
        next(iter(stream))
        received = fake.wait_for("chat")
        assert gate.reached.wait(TIMEOUT)
    assert received.gone.wait(TIMEOUT)


def test_a_client_that_leaves_while_the_model_is_asked_again_stops_that_too(
    proxy: Proxy, fake: FakeOllama, connect: Callable[[str], Any]
) -> None:
    gate = Gate()
    fake.script(Answer(text="Well, well.", calls=(("book_table", {"guests": 4}),)))
    fake.reply(Answer(text="{}", gates={0: gate}))
    with connect(proxy.url).chat.completions.create(**chat("missing-two"), stream=True) as stream:
        assert next(iter(stream)).choices[0].delta.content
        asked = fake.wait_for("constrained")
        assert gate.reached.wait(TIMEOUT)
    assert asked.gone.wait(TIMEOUT)
