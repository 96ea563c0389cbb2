"""The anthropic library through the addon: messages whole, raw stream, the stream helper, the tool runner."""

from __future__ import annotations

import contextlib
import functools
import json
from collections.abc import Callable, Iterator
from typing import Any, Literal

import pytest
from client_cases import ANSWER, ASKED_AGAIN, CALL, CALLS, QUESTION, SAID, VALID, Seen, anthropic_tool, counted, unique

from conftest import Proxy
from fake_ollama import TIMEOUT, Answer, FakeOllama, Gate

anthropic = pytest.importorskip(
    "anthropic", reason="anthropic is not installed: its newest version needs h11 >= 0.16, mitmproxy 11.0.2 allows 0.14"
)
Ask = Callable[[Any, dict[str, Any]], Seen]


@pytest.fixture(scope="module")
def connect() -> Iterator[Callable[[str], Any]]:
    """Give a function that makes one client for each server; they are closed at the end."""
    with contextlib.ExitStack() as stack:

        @functools.cache
        def make(url: str) -> Any:
            client = anthropic.Anthropic(base_url=url, api_key="none", max_retries=0, timeout=TIMEOUT)
            return stack.enter_context(client)

        yield make


def ask(scenario: str, **more: Any) -> dict[str, Any]:
    messages = [{"role": "user", "content": QUESTION}]
    tools = [anthropic_tool()]
    return {"model": f"fake:{scenario}", "max_tokens": 400, "messages": messages, "tools": tools, **more}


def seen_in_message(message: Any) -> Seen:
    blocks = message.content or []
    calls = [block for block in blocks if block.type == "tool_use"]
    assert unique([call.id for call in calls])
    assert counted(message.usage.output_tokens, message.model)
    # Thinking comes before text, and text before calls.
    order = [("thinking", "text", "tool_use").index(block.type) for block in blocks]
    assert order == sorted(order)
    text = "".join(block.text for block in blocks if block.type == "text")
    return Seen(tuple((call.name, call.input) for call in calls), text.rstrip(), message.stop_reason)


def whole(client: Any, request: dict[str, Any]) -> Seen:
    return seen_in_message(client.messages.create(**request))


def raw_stream(client: Any, request: dict[str, Any]) -> Seen:
    """Hold the events to their own rules: each block is opened once, empty, in order, and closed before the next."""
    with client.messages.create(**request, stream=True) as stream:
        events = list(stream)
    assert [event.type for event in events][:1] == ["message_start"]
    assert [event.type for event in events][-2:] == ["message_delta", "message_stop"]
    blocks: list[dict[str, Any]] = []
    is_open = False
    for event in events[1:-2]:
        if event.type == "content_block_start":
            assert (event.index, is_open) == (len(blocks), False)
            assert getattr(event.content_block, "input", {}) == {}
            blocks.append({"block": event.content_block, "text": "", "arguments": ""})
        else:
            assert (event.index, is_open) == (len(blocks) - 1, True)
        if event.type == "content_block_delta":
            kind = event.delta.type
            blocks[-1]["text"] += event.delta.text if kind == "text_delta" else ""
            blocks[-1]["arguments"] += event.delta.partial_json if kind == "input_json_delta" else ""
        is_open = event.type != "content_block_stop"
    assert not is_open
    calls = [entry for entry in blocks if entry["block"].type == "tool_use"]
    assert unique([entry["block"].id for entry in calls])
    assert counted(events[-2].usage.output_tokens, request["model"])
    decoded = tuple((entry["block"].name, json.loads(entry["arguments"])) for entry in calls)
    return Seen(decoded, "".join(entry["text"] for entry in blocks).rstrip(), events[-2].delta.stop_reason)


def helper_stream(client: Any, request: dict[str, Any]) -> Seen:
    """Let the library put the message together; the text it streamed is the text of the message."""
    with client.messages.stream(**request) as stream:
        texts = [event.text for event in stream if event.type == "text"]
        message = stream.get_final_message()
    seen = seen_in_message(message)
    assert "".join(texts).rstrip() == seen.text
    return seen


WAYS: dict[str, Ask] = {"whole": whole, "raw-stream": raw_stream, "helper-stream": helper_stream}


def meant(scenario: str) -> Seen:
    return Seen((CALL,), SAID.get(scenario, ""), "tool_use")


@pytest.mark.parametrize("scenario", CALLS)
@pytest.mark.parametrize("way", WAYS)
def test_the_call_that_was_meant_arrives(
    proxy: Proxy, fake: FakeOllama, connect: Callable[[str], Any], way: str, scenario: str
) -> None:
    """This surface carries no schema and no tokens, so what has to be asked is asked on another."""
    assert WAYS[way](connect(proxy.url), ask(scenario)) == meant(scenario)
    first, *asked = fake.of_kind("chat", "constrained")
    assert first.path == "/v1/messages"
    assert [received.path for received in asked] in ([], ["/api/chat"] if scenario in ASKED_AGAIN else [])


@pytest.mark.parametrize("way", WAYS)
def test_two_calls_stay_two(proxy: Proxy, fake: FakeOllama, connect: Callable[[str], Any], way: str) -> None:
    fake.script(Answer(calls=(CALL, ("bookTable", {**CALL[1], "guests": "2"}))))
    seen = WAYS[way](connect(proxy.url), ask("scripted"))
    assert seen == Seen((CALL, ("book_table", {**CALL[1], "guests": 2})), "", "tool_use")


@pytest.mark.parametrize("way", WAYS)
def test_text_alone_stays_text(proxy: Proxy, fake: FakeOllama, connect: Callable[[str], Any], way: str) -> None:
    assert WAYS[way](connect(proxy.url), ask("text-only")) == Seen((), ANSWER, "end_turn")
    assert fake.model_calls == 1


@pytest.mark.parametrize("way", WAYS)
def test_an_error_stays_that_error(proxy: Proxy, fake: FakeOllama, connect: Callable[[str], Any], way: str) -> None:
    with pytest.raises(anthropic.NotFoundError, match="model 'fake:error' not found"):
        WAYS[way](connect(proxy.url), ask("error"))
    assert fake.model_calls == 1


@pytest.mark.parametrize("scenario", CALLS)
@pytest.mark.parametrize("way", WAYS)
def test_without_the_addon_only_a_sound_call_arrives(
    fake: FakeOllama, connect: Callable[[str], Any], way: str, scenario: str
) -> None:
    try:
        seen = WAYS[way](connect(fake.url), ask(scenario))
    except anthropic.AnthropicError as error:
        seen = Seen(text=repr(error))
    assert (seen == meant(scenario)) == (scenario in VALID)


@pytest.mark.parametrize("choice", [{"type": "tool", "name": "book_table"}, {"type": "any"}])
@pytest.mark.parametrize("way", WAYS)
def test_a_choice_that_the_model_did_not_meet_is_met(
    proxy: Proxy, connect: Callable[[str], Any], way: str, choice: dict[str, str]
) -> None:
    seen = WAYS[way](connect(proxy.url), ask("text-only", tool_choice=choice))
    assert (seen.calls, seen.finish) == ((CALL,), "tool_use")


@pytest.mark.parametrize("scenario", CALLS)
def test_the_tool_runner_runs_the_tool_once_and_answers(
    proxy: Proxy, fake: FakeOllama, connect: Callable[[str], Any], scenario: str
) -> None:
    """`thread=False` makes the runner send the history itself; else it would keep it on a server that has none."""
    booked = []

    @anthropic.beta_tool  # type: ignore[untyped-decorator]  # imported only where it is installed
    def book_table(guests: int, day: str, area: Literal["inside", "outside"], wishes: list[str]) -> str:
        """Book a table.

        Args:
            guests: How many people.
            day: The day of the week.
            area: Where it stands.
            wishes: What the guests wish for.
        """
        booked.append({"guests": guests, "day": day, "area": area, "wishes": wishes})
        return "booked"

    runner = connect(proxy.url).beta.messages.tool_runner(**ask(scenario, tools=[book_table]), thread=False)
    final = runner.until_done()
    assert booked == [CALL[1]]
    assert final.content[0].text == "Done."
    assert [received.path for received in fake.of_kind("chat")].count("/v1/messages") == 2


def test_a_client_that_closes_its_stream_stops_the_work(
    proxy: Proxy, fake: FakeOllama, connect: Callable[[str], Any]
) -> None:
    gate = Gate()
    fake.script(Answer(text="One two three four five six seven.", gates={6: gate}))
    with connect(proxy.url).messages.create(**ask("valid"), stream=True) as stream:
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
    with connect(proxy.url).messages.create(**ask("missing-two"), stream=True) as stream:
        assert next(iter(stream)).type == "message_start"
        asked = fake.wait_for("constrained")
        assert gate.reached.wait(TIMEOUT)
    assert asked.gone.wait(TIMEOUT)
