"""An agent of pydantic-ai through the addon: its model classes for both of OpenAI's surfaces, whole and streamed.

The library checks the arguments itself and asks the model again when they do not fit; through the addon there is
nothing to ask again, so the model is called once for the call and once for the answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Literal

import pytest
from client_cases import ANSWER, ASKED_AGAIN, CALL, CALLS, QUESTION, VALID

from conftest import Proxy
from fake_ollama import FakeOllama

pydantic_ai = pytest.importorskip(
    "pydantic_ai", reason="pydantic-ai is not installed: its openai needs h11 >= 0.16, mitmproxy 11.0.2 allows 0.14"
)
from pydantic_ai.exceptions import ModelHTTPError, UnexpectedModelBehavior  # noqa: E402
from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel  # noqa: E402
from pydantic_ai.providers.openai import OpenAIProvider  # noqa: E402

MODELS: dict[str, Callable[..., Any]] = {"chat": OpenAIChatModel, "responses": OpenAIResponsesModel}
WAYS = [(model, way) for model in MODELS for way in ("whole", "streamed")]


def run(url: str, model: str, way: str, scenario: str) -> tuple[str, list[Any]]:
    """Let the agent answer the question; return its answer and what was booked."""
    booked: list[Any] = []

    def book_table(guests: int, day: str, area: Literal["inside", "outside"], wishes: list[str]) -> str:
        """Book a table."""
        booked.append(("book_table", {"guests": guests, "day": day, "area": area, "wishes": wishes}))
        return "booked"

    async def answer() -> str:
        async with OpenAIProvider(base_url=f"{url}/v1", api_key="none") as provider:
            agent = pydantic_ai.Agent(MODELS[model](f"fake:{scenario}", provider=provider), tools=[book_table])
            if way == "whole":
                return str((await agent.run(QUESTION)).output)
            async with agent.iter(QUESTION) as steps:
                async for node in steps:
                    if agent.is_model_request_node(node):
                        async with node.stream(steps.ctx) as stream:
                            async for _ in stream:
                                pass
            assert steps.result is not None
            return str(steps.result.output)

    return asyncio.run(answer()), booked


@pytest.mark.parametrize("scenario", CALLS)
@pytest.mark.parametrize(("model", "way"), WAYS)
def test_the_agent_books_once_and_answers(proxy: Proxy, fake: FakeOllama, model: str, way: str, scenario: str) -> None:
    assert run(proxy.url, model, way, scenario) == ("Done.", [CALL])
    assert fake.model_calls in ((2, 3) if scenario in ASKED_AGAIN else (2,))


@pytest.mark.parametrize(("model", "way"), WAYS)
def test_the_agent_answers_in_words(proxy: Proxy, fake: FakeOllama, model: str, way: str) -> None:
    assert run(proxy.url, model, way, "text-only") == (ANSWER, [])
    assert fake.model_calls == 1


@pytest.mark.parametrize(("model", "way"), WAYS)
def test_the_agent_sees_the_error(proxy: Proxy, model: str, way: str) -> None:
    with pytest.raises(ModelHTTPError) as raised:
        run(proxy.url, model, way, "error")
    assert raised.value.status_code == 404


@pytest.mark.parametrize("scenario", CALLS)
@pytest.mark.parametrize(("model", "way"), WAYS)
def test_without_the_addon_only_a_sound_call_books(fake: FakeOllama, model: str, way: str, scenario: str) -> None:
    try:
        _, booked = run(fake.url, model, way, scenario)
    except (ModelHTTPError, UnexpectedModelBehavior, TypeError):
        booked = []
    assert booked == ([CALL] if scenario in VALID else [])
