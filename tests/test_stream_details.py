"""The details that clients of /v1/responses and /v1/messages break on, through a real mitmdump.

Ids, indices, sequence numbers, usage, events and members that nobody has heard of, and streams that end too early.
"""

from __future__ import annotations

import json
from typing import Any

import pytest

from conftest import Proxy
from fake_answers import Asked, render
from fake_ollama import ARGUMENTS, MEANT, SCENARIOS, Answer, FakeOllama, as_json
from raw_http import Got
from stream_rules import CHECKS, documents, events
from wire_clients import CLIENTS, Client

RESPONSES, MESSAGES = CLIENTS["openai-responses"], CLIENTS["anthropic-messages"]
STREAM = "text/event-stream"
each_client = pytest.mark.parametrize("client", [RESPONSES, MESSAGES], ids=lambda client: client.name)
REPAIRED = ["wrong-types", "wrong-name", "leaked", "leaked-after-text", "missing", "swallowed"]


def sent_by_server(answer: Answer, client: Client, **more: Any) -> list[Any]:
    """Return the events of a streamed answer, decoded."""
    asked = Asked(client.name, client.request("fake", True, **more))
    return documents(b"".join(render(answer, asked).chunks))


def stream(found: list[Any]) -> Answer:
    """Make a streamed answer of events."""
    chunks = [f"event: {event['type']}\ndata: {json.dumps(event)}\n\n".encode() for event in found]
    return Answer(body=tuple(chunks), content_type=STREAM)


def usage(client: Client, body: bytes) -> Any:
    last = documents(body)[-1] if client is RESPONSES else documents(body)[-2]
    return last["response"]["usage"] if client is RESPONSES else last["usage"]


# The rules of a stream


@each_client
@pytest.mark.parametrize("scenario", REPAIRED)
def test_a_repaired_stream_follows_the_rules_and_keeps_the_usage(
    scenario: str, client: Client, fake: FakeOllama, proxy: Proxy
) -> None:
    got = client.ask(proxy.url, f"fake:{scenario}", True)
    CHECKS[client.name](got.body)
    assert client.calls(got) == [MEANT]
    assert usage(client, got.body) == usage(client, bytes(fake.of_kind("chat")[0].sent))


@each_client
@pytest.mark.parametrize("scenario", REPAIRED)
def test_a_repaired_answer_keeps_the_usage(scenario: str, client: Client, fake: FakeOllama, proxy: Proxy) -> None:
    got = client.ask(proxy.url, f"fake:{scenario}")
    assert client.calls(got) == [MEANT]
    assert json.loads(got.body)["usage"] == json.loads(fake.of_kind("chat")[0].sent)["usage"]


# Ids


TWO = Answer(calls=(("book_table", {**ARGUMENTS, "guests": "4"}), ("book_table", {**ARGUMENTS, "day": "sunday"})))
TWO_MEANT = [MEANT, ("book_table", {**ARGUMENTS, "day": "sunday"})]


def ids(client: Client, got: Got) -> list[str]:
    if got.content_type != STREAM:
        items = json.loads(got.body)["output" if client is RESPONSES else "content"]
    elif client is RESPONSES:
        items = [event["item"] for event in documents(got.body) if event["type"] == "response.output_item.done"]
    else:
        items = [event["content_block"] for event in documents(got.body) if event["type"] == "content_block_start"]
    return [item["call_id" if client is RESPONSES else "id"] for item in items]


@each_client
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
def test_ids_that_came_stay(streamed: bool, client: Client, fake: FakeOllama, proxy: Proxy) -> None:
    fake.script(TWO)
    got = client.ask(proxy.url, "fake", streamed)
    came = Got(got.status, got.headers, bytes(fake.of_kind("chat")[0].sent))
    assert client.calls(got) == TWO_MEANT
    assert ids(client, got) == ids(client, came)
    assert len(set(ids(client, got))) == 2


@each_client
@pytest.mark.parametrize("streamed", [False, True], ids=["whole", "streamed"])
@pytest.mark.parametrize("given", ["call_1", ""], ids=["doubled", "missing"])
def test_ids_that_are_not_unique_are_made_so(
    given: str, streamed: bool, client: Client, fake: FakeOllama, proxy: Proxy
) -> None:
    asked = Asked(client.name, client.request("fake", streamed))
    answer = render(TWO, asked)
    (first, second) = (
        json.loads(json.dumps(found))
        for found in ids(client, Got(200, {"content-type": answer.content_type}, b"".join(answer.chunks)))
    )
    body = b"".join(answer.chunks).decode().replace(first, given).replace(second, given)
    fake.script(Answer(body=(body.encode(),), content_type=answer.content_type))
    got = client.ask(proxy.url, "fake", streamed)
    assert client.calls(got) == TWO_MEANT
    assert len({*ids(client, got)} - {""}) == 2
    if streamed:
        CHECKS[client.name](got.body)


# What nobody has heard of


def with_strangers(found: list[Any]) -> list[Any]:
    """Add unknown events and members: after the opening, in the middle, and before the end."""
    kind = "response.x_progress" if "sequence_number" in found[0] else "x_progress"
    strangers = [{"type": kind, "percent": percent, "x": {"deep": [percent]}} for percent in (10, 50, 90)]
    for event in found:
        event["x_trace"] = f"t-{event['type']}"
    middle = len(found) // 2
    found = [found[0], strangers[0], *found[1:middle], strangers[1], *found[middle:-1], strangers[2], found[-1]]
    if "sequence_number" in found[0]:
        found = [{**event, "sequence_number": number} for number, event in enumerate(found)]
    return found


@each_client
@pytest.mark.parametrize("scenario", ["valid", "text-only", "valid-after-thinking"])
def test_unknown_events_and_members_pass_as_the_same_bytes(
    scenario: str, client: Client, fake: FakeOllama, proxy: Proxy
) -> None:
    fake.script(stream(with_strangers(sent_by_server(SCENARIOS[scenario], client))))
    got = client.ask(proxy.url, "fake", True)
    assert got.body == bytes(fake.of_kind("chat")[0].sent)
    assert b"x_progress" in got.body


@each_client
@pytest.mark.parametrize("scenario", ["wrong-types", "missing", "leaked-after-text"])
def test_unknown_events_stay_in_their_order_when_a_call_is_repaired(
    scenario: str, client: Client, fake: FakeOllama, proxy: Proxy
) -> None:
    fake.script(stream(with_strangers(sent_by_server(SCENARIOS[scenario], client))))
    got = client.ask(proxy.url, "fake", True)
    found = documents(got.body)
    assert client.calls(got) == [MEANT]
    assert [event["percent"] for event in found if event["type"].endswith("x_progress")] == [10, 50, 90]
    assert [event["x"] for event in found if "x" in event] == [{"deep": [n]} for n in (10, 50, 90)]
    assert (found[0]["x_trace"], found[-1]["x_trace"]) == (f"t-{found[0]['type']}", f"t-{found[-1]['type']}")
    if client is RESPONSES:
        assert [event["sequence_number"] for event in found] == list(range(len(found)))


@each_client
def test_unknown_members_of_an_answer_and_its_items_stay_when_a_call_is_repaired(
    client: Client, fake: FakeOllama, proxy: Proxy
) -> None:
    asked = Asked(client.name, client.request("fake"))
    document = json.loads(render(SCENARIOS["wrong-types"], asked).chunks[0])
    items = document["output" if client is RESPONSES else "content"]
    document["x_trace"], items[-1]["x_origin"] = {"a": 1}, "parser 3"
    fake.script(Answer(body=(json.dumps(document).encode(),)))
    got = client.ask(proxy.url, "fake")
    delivered = json.loads(got.body)
    assert client.calls(got) == [MEANT]
    assert delivered["x_trace"] == {"a": 1}
    assert delivered["output" if client is RESPONSES else "content"][-1]["x_origin"] == "parser 3"


@each_client
def test_items_of_unknown_kinds_stay_beside_a_repaired_call(client: Client, fake: FakeOllama, proxy: Proxy) -> None:
    asked = Asked(client.name, client.request("fake"))
    document = json.loads(render(SCENARIOS["wrong-types"], asked).chunks[0])
    strange = {"type": "x_citation", "id": "x_1", "url": "http://example.com/a"}
    document["output" if client is RESPONSES else "content"].insert(0, strange)
    fake.script(Answer(body=(json.dumps(document).encode(),)))
    got = client.ask(proxy.url, "fake")
    assert client.calls(got) == [MEANT]
    assert json.loads(got.body)["output" if client is RESPONSES else "content"][0] == strange


# Streams that end too early


BROKEN_OFF = Answer(text="Let me book that.", error="failed to parse JSON: unexpected end of JSON input")


@each_client
def test_a_stream_without_its_end_becomes_a_whole_answer(client: Client, fake: FakeOllama, proxy: Proxy) -> None:
    """The server's parser failed: the words before it have gone out, and the call is asked for."""
    fake.script(BROKEN_OFF, BROKEN_OFF)
    got = client.ask(proxy.url, "fake", True)
    came = bytes(fake.of_kind("chat")[0].sent)
    assert events(came)[-1][0] not in ("message_stop", "response.completed")
    CHECKS[client.name](got.body)
    assert client.calls(got) == [MEANT]
    texts = [event["delta"] for event in documents(got.body) if event["type"].endswith(("text.delta", "block_delta"))]
    said = "".join(text if isinstance(text, str) else text.get("text", "") for text in texts)
    assert said == BROKEN_OFF.text


@each_client
@pytest.mark.parametrize(
    "reply", [Answer(error="busy", status=503), Answer(text="no"), as_json({"name": "book_table", "arguments": {}})]
)
def test_a_stream_without_its_end_passes_as_it_came_when_asking_fails(
    reply: Answer, client: Client, fake: FakeOllama, proxy: Proxy
) -> None:
    fake.script(BROKEN_OFF, Answer(error="busy", status=503))
    fake.reply(reply, reply)
    got = client.ask(proxy.url, f"fake:{reply.status}{len(reply.text)}{client.name}", True)
    assert got.body == bytes(fake.of_kind("chat")[0].sent)
    assert fake.model_calls > 1


@each_client
def test_a_connection_that_breaks_is_not_an_end(client: Client, fake: FakeOllama, proxy: Proxy) -> None:
    fake.script(BROKEN_OFF.but(close_after=4))
    got = client.ask(proxy.url, "fake", True)
    assert not got.complete
    assert got.body == bytes(fake.of_kind("chat")[0].sent)
    assert fake.model_calls == 1


@each_client
@pytest.mark.parametrize("scenario", ["valid", "wrong-types"])
def test_a_call_that_was_whole_when_the_stream_ended_too_early_arrives(
    scenario: str, client: Client, fake: FakeOllama, proxy: Proxy
) -> None:
    """What came of it is all there: only the closing events are missing."""
    found = sent_by_server(SCENARIOS[scenario], client)
    fake.script(stream(found[: -1 if client is RESPONSES else -2]))
    got = client.ask(proxy.url, "fake", True)
    CHECKS[client.name](got.body)
    assert client.calls(got) == [MEANT]
    assert fake.model_calls == 1


@each_client
def test_words_without_their_end_get_it_when_the_model_meant_no_more(
    client: Client, fake: FakeOllama, proxy: Proxy
) -> None:
    """Asked with its tokens shown, the model says the same, and the server does not fail again."""
    fake.script(BROKEN_OFF, Answer(text=BROKEN_OFF.text))
    got = client.ask(proxy.url, "fake", True)
    CHECKS[client.name](got.body)
    assert client.calls(got) == []
    assert len(fake.of_kind("chat")) == 2
    assert fake.of_kind("constrained") == []


@each_client
def test_a_call_is_not_forced_on_a_model_whose_words_broke_off(client: Client, fake: FakeOllama, proxy: Proxy) -> None:
    fake.script(BROKEN_OFF, Answer(text="Something else."))
    fake.reply(as_json({"name": "none_of_these_tools", "arguments": {}}))
    got = client.ask(proxy.url, "fake", True)
    assert got.body == bytes(fake.of_kind("chat")[0].sent)
    (question,) = fake.of_kind("constrained")
    assert b"none_of_these_tools" in question.body
