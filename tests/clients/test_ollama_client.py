"""The ollama library through the addon: chat whole and streamed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from client_cases import ANSWER, ASKED_AGAIN, CALL, CALLS, QUESTION, SAID, VALID, Seen, counted, openai_chat_tool

from conftest import Proxy
from fake_ollama import TIMEOUT, Answer, FakeOllama, Gate

ollama = pytest.importorskip("ollama", reason="ollama is not installed")
Ask = Callable[[Any, dict[str, Any]], Seen]


def connect(url: str) -> Any:
    return ollama.Client(host=url, timeout=TIMEOUT)


def ask(scenario: str, **more: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": QUESTION}]
    return {"model": f"fake:{scenario}", "messages": messages, "tools": [openai_chat_tool()], **more}


def seen_in(responses: list[Any]) -> Seen:
    """Join the messages; the library hands a streamed answer on line by line."""
    calls = [call for response in responses for call in response.message.tool_calls or []]
    assert [response.done for response in responses] == [False] * (len(responses) - 1) + [True]
    assert counted(responses[-1].eval_count, responses[-1].model)
    return Seen(
        tuple((call.function.name, dict(call.function.arguments)) for call in calls),
        "".join(response.message.content or "" for response in responses).rstrip(),
        responses[-1].done_reason,
    )


def whole(client: Any, request: dict[str, Any]) -> Seen:
    with client:
        return seen_in([client.chat(**request)])


def streamed(client: Any, request: dict[str, Any]) -> Seen:
    with client:
        return seen_in(list(client.chat(**request, stream=True)))


WAYS: dict[str, Ask] = {"whole": whole, "streamed": streamed}


def meant(scenario: str) -> Seen:
    return Seen((CALL,), SAID.get(scenario, ""), "stop")


@pytest.mark.parametrize("scenario", CALLS)
@pytest.mark.parametrize("way", WAYS)
def test_the_call_that_was_meant_arrives(proxy: Proxy, fake: FakeOllama, way: str, scenario: str) -> None:
    assert WAYS[way](connect(proxy.url), ask(scenario)) == meant(scenario)
    assert fake.model_calls in ((1, 2) if scenario in ASKED_AGAIN else (1,))


@pytest.mark.parametrize("way", WAYS)
def test_two_calls_stay_two(proxy: Proxy, fake: FakeOllama, way: str) -> None:
    fake.script(Answer(calls=(CALL, ("bookTable", {**CALL[1], "guests": "2"}))))
    seen = WAYS[way](connect(proxy.url), ask("scripted"))
    assert seen == Seen((CALL, ("book_table", {**CALL[1], "guests": 2})), "", "stop")


@pytest.mark.parametrize("way", WAYS)
def test_text_alone_stays_text(proxy: Proxy, fake: FakeOllama, way: str) -> None:
    assert WAYS[way](connect(proxy.url), ask("text-only")) == Seen((), ANSWER, "stop")
    assert fake.model_calls == 1


@pytest.mark.parametrize("way", WAYS)
def test_an_error_stays_that_error(proxy: Proxy, fake: FakeOllama, way: str) -> None:
    with pytest.raises(ollama.ResponseError, match="model 'fake:error' not found") as raised:
        WAYS[way](connect(proxy.url), ask("error"))
    assert raised.value.status_code == 404
    assert fake.model_calls == 1


@pytest.mark.parametrize("scenario", CALLS)
@pytest.mark.parametrize("way", WAYS)
def test_without_the_addon_only_a_sound_call_arrives(fake: FakeOllama, way: str, scenario: str) -> None:
    try:
        seen = WAYS[way](connect(fake.url), ask(scenario))
    except ollama.ResponseError as error:
        seen = Seen(text=repr(error))
    assert (seen == meant(scenario)) == (scenario in VALID)


@pytest.mark.parametrize("scenario", ["valid", "wrong-types", "leaked", "swallowed"])
def test_the_history_with_a_mended_call_is_accepted(proxy: Proxy, scenario: str) -> None:
    with connect(proxy.url) as client:
        request = ask(scenario)
        message = client.chat(**request).message
        result = {"role": "tool", "tool_name": message.tool_calls[0].function.name, "content": "booked"}
        request["messages"] += [message, result]
        assert client.chat(**request).message.content == "Done."


def test_a_client_that_closes_its_stream_stops_the_work(proxy: Proxy, fake: FakeOllama) -> None:
    gate = Gate()
    fake.script(Answer(text="One two three four five six seven.", gates={5: gate}))
    with connect(proxy.url) as client:
        stream = client.chat(**ask("valid"), stream=True)
        next(stream)
        received = fake.wait_for("chat")
        assert gate.reached.wait(TIMEOUT)
        stream.close()
    assert received.gone.wait(TIMEOUT)


def test_a_client_that_leaves_while_the_model_is_asked_again_stops_that_too(proxy: Proxy, fake: FakeOllama) -> None:
    gate = Gate()
    fake.script(Answer(text="Well, well.", calls=(("book_table", {"guests": 4}),)))
    fake.reply(Answer(text="{}", gates={0: gate}))
    with connect(proxy.url) as client:
        stream = client.chat(**ask("missing-two"), stream=True)
        assert next(stream).message.content
        asked = fake.wait_for("constrained")
        assert gate.reached.wait(TIMEOUT)
        stream.close()
    assert asked.gone.wait(TIMEOUT)
