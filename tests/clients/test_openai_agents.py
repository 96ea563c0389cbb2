"""An agent of openai-agents through the addon: chat completions and responses, whole and streamed.

The library ends a run with an exception at the first call it cannot place, and takes a leaked call for the answer.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Literal

import pytest
from client_cases import ANSWER, ASKED_AGAIN, CALL, CALLS, QUESTION, VALID

from conftest import Proxy
from fake_ollama import TIMEOUT, FakeOllama

agents = pytest.importorskip(
    "agents", reason="openai-agents is not installed: its openai needs h11 >= 0.16, mitmproxy 11.0.2 allows 0.14"
)
import openai  # noqa: E402
from pydantic import ValidationError  # noqa: E402

MODELS: dict[str, Callable[..., Any]] = {
    "chat": agents.OpenAIChatCompletionsModel,
    "responses": agents.OpenAIResponsesModel,
}
WAYS = [(model, way) for model in MODELS for way in ("whole", "streamed")]


def run(url: str, model: str, way: str, scenario: str) -> tuple[str, list[Any]]:
    """Let the agent answer the question; return its answer and what was booked."""
    booked: list[Any] = []

    # Without this the library hands the failure to the model as the tool's result.
    @agents.function_tool(failure_error_function=None)  # type: ignore[untyped-decorator]  # only where installed
    def book_table(guests: int, day: str, area: Literal["inside", "outside"], wishes: list[str]) -> str:
        """Book a table."""
        booked.append(("book_table", {"guests": guests, "day": day, "area": area, "wishes": wishes}))
        return "booked"

    async def answer() -> str:
        url_v1 = f"{url}/v1"
        async with openai.AsyncOpenAI(base_url=url_v1, api_key="none", max_retries=0, timeout=TIMEOUT) as client:
            named = MODELS[model](model=f"fake:{scenario}", openai_client=client)
            agent = agents.Agent(name="host", model=named, tools=[book_table])
            silent = agents.RunConfig(tracing_disabled=True)
            if way == "whole":
                return str((await agents.Runner.run(agent, QUESTION, run_config=silent)).final_output)
            running = agents.Runner.run_streamed(agent, QUESTION, run_config=silent)
            async for _ in running.stream_events():
                pass
            return str(running.final_output)

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
    with pytest.raises(openai.NotFoundError, match="model 'fake:error' not found"):
        run(proxy.url, model, way, "error")


@pytest.mark.parametrize("scenario", CALLS)
@pytest.mark.parametrize(("model", "way"), WAYS)
def test_without_the_addon_only_a_sound_call_books(fake: FakeOllama, model: str, way: str, scenario: str) -> None:
    try:
        _, booked = run(fake.url, model, way, scenario)
    except (agents.AgentsException, openai.APIError, ValidationError):
        booked = []
    assert booked == ([CALL] if scenario in VALID else [])
