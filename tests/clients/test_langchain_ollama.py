"""LangChain's ChatOllama with bound tools through the addon: invoke and stream."""

from __future__ import annotations

from typing import Any

import pytest
from client_cases import ANSWER, CALL, CALLS, QUESTION, SAID, VALID, Seen, counted, openai_chat_tool, unique

from conftest import Proxy
from fake_ollama import FakeOllama

langchain_ollama = pytest.importorskip("langchain_ollama", reason="langchain-ollama is not installed")
import ollama  # noqa: E402
from langchain_core.messages import HumanMessage, ToolMessage  # noqa: E402

WAYS = ("invoke", "stream")


def ask(url: str, way: str, scenario: str, *history: Any) -> Any:
    """Return the message that LangChain makes of the answer; a stream's chunks are added up as its users do."""
    model = langchain_ollama.ChatOllama(model=f"fake:{scenario}", base_url=url)
    bound = model.bind_tools([openai_chat_tool()])
    try:
        messages = [HumanMessage(QUESTION), *history]
        if way == "invoke":
            return bound.invoke(messages)
        first, *rest = list(bound.stream(messages))
        return sum(rest, first)
    finally:
        model._client.close()  # There is no public way to close its connections.


def seen_in(message: Any) -> Seen:
    assert unique([call["id"] for call in message.tool_calls])
    assert message.invalid_tool_calls == []
    assert counted(message.usage_metadata["output_tokens"], message.response_metadata["model"])
    return Seen(
        tuple((call["name"], call["args"]) for call in message.tool_calls),
        message.content.rstrip(),
        message.response_metadata["done_reason"],
    )


def meant(scenario: str) -> Seen:
    return Seen((CALL,), SAID.get(scenario, ""), "stop")


@pytest.mark.parametrize("scenario", CALLS)
@pytest.mark.parametrize("way", WAYS)
def test_the_call_that_was_meant_arrives(proxy: Proxy, way: str, scenario: str) -> None:
    assert seen_in(ask(proxy.url, way, scenario)) == meant(scenario)


@pytest.mark.parametrize("way", WAYS)
def test_text_alone_stays_text(proxy: Proxy, fake: FakeOllama, way: str) -> None:
    assert seen_in(ask(proxy.url, way, "text-only")) == Seen((), ANSWER, "stop")
    assert fake.model_calls == 1


@pytest.mark.parametrize("way", WAYS)
def test_an_error_stays_that_error(proxy: Proxy, way: str) -> None:
    with pytest.raises(ollama.ResponseError, match="model 'fake:error' not found"):
        ask(proxy.url, way, "error")


@pytest.mark.parametrize("scenario", ["valid", "wrong-types", "leaked", "swallowed"])
@pytest.mark.parametrize("way", WAYS)
def test_the_history_with_a_mended_call_is_accepted(proxy: Proxy, way: str, scenario: str) -> None:
    message = ask(proxy.url, way, scenario)
    result = ToolMessage("booked", tool_call_id=message.tool_calls[0]["id"])
    assert ask(proxy.url, way, scenario, message, result).content == "Done."


@pytest.mark.parametrize("scenario", CALLS)
@pytest.mark.parametrize("way", WAYS)
def test_without_the_addon_only_a_sound_call_arrives(fake: FakeOllama, way: str, scenario: str) -> None:
    try:
        seen = seen_in(ask(fake.url, way, scenario))
    except ollama.ResponseError as error:
        seen = Seen(text=repr(error))
    assert (seen == meant(scenario)) == (scenario in VALID)
