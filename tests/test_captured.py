"""What a real server sent goes through untouched where it is right, and comes out the same from every surface."""

import random
from collections.abc import Callable
from itertools import pairwise

import pytest

from captured import Captured, captured, one
from toolmend.exchange import Exchange, framing_of, replay
from toolmend.follow_up import FollowUp, Reply
from toolmend.framing import Framer
from toolmend.model import Outcome
from toolmend.settings import Settings
from toolmend.surfaces.turn_builder import TurnBuilder
from toolmend.upstreams import Server

PARSERS = sorted({found.parser for found in captured()})
NO_QUESTIONS = Settings(follow_up=False)


def delivered(
    found: Captured,
    chunks: list[bytes] | None = None,
    ask: Callable[[FollowUp], Reply | None] = lambda question: None,
    settings: Settings = NO_QUESTIONS,
) -> tuple[bytes, Exchange]:
    exchange = Exchange(found.surface, found.document, settings, Server())
    sent = replay(exchange, found.status, found.content_type, [found.body] if chunks is None else chunks, ask)
    return b"".join(sent), exchange


def never_asked(question: FollowUp) -> Reply | None:
    raise AssertionError(f"asked {question.kind} for {question.faults}")


@pytest.mark.parametrize("parser", PARSERS)
def test_an_answer_that_is_right_passes_as_the_same_bytes_and_nothing_is_asked(parser: str) -> None:
    right = [found for found in captured() if found.parser == parser and found.right]
    assert right
    for found in right:
        # Of an answer with nothing in it nobody can tell that nothing was meant: it may be asked about.
        empty = found.fault in ("truncated", "name-unknown")
        body, exchange = delivered(found, settings=NO_QUESTIONS if empty else Settings(), ask=never_asked)
        assert body == found.body, found.id
        assert exchange.request_document is None, found.id
        assert exchange.outcome is not None
        assert exchange.outcome.repairs == (), found.id


@pytest.mark.parametrize("parser", PARSERS)
def test_without_the_ladder_every_answer_comes_out_as_the_same_bytes(
    parser: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("toolmend.exchange.repair_turn", lambda turn, request: Outcome(turn))
    for found in (found for found in captured() if found.parser == parser):
        body, exchange = delivered(found)
        assert body == found.body, found.id
        assert exchange.status == found.status


NUMBERED_ANEW = ("text-then-call", "openai-responses")
"""Ollama gives a text and the call after it one output_index; what is written has an index for each."""


@pytest.mark.parametrize("parser", PARSERS)
def test_reading_and_writing_an_answer_gives_the_same_bytes(parser: str) -> None:
    for found in (found for found in captured() if found.parser == parser and found.status == 200):
        if found.stream and (found.fault, found.surface.name) == NUMBERED_ANEW:
            continue
        framing = framing_of(found.content_type)
        request = found.surface.read_request(found.document)
        codec, builder, framer = found.surface.codec(request, framing), TurnBuilder(), Framer(framing)
        frames = [codec.read(raw) for raw in [*framer.feed(found.body), *framer.finish()]]
        for event in (event for frame in frames for event in frame.events):
            builder.add(event)
        assert b"".join(codec.write(builder.turn(), frames)) == found.body, found.id


def cuts(body: bytes, count: int, seed: int) -> list[bytes]:
    places = sorted({0, len(body), *random.Random(seed).sample(range(1, len(body)), min(count, len(body) - 1))})
    return [body[start:end] for start, end in pairwise(places)]


STREAMED = [found for found in captured() if found.stream and found.parser in ("qwen3", "generic-json", "glimmer")]


@pytest.mark.parametrize("found", STREAMED, ids=lambda found: found.id)
def test_cutting_a_stream_elsewhere_changes_nothing(found: Captured) -> None:
    whole, exchange = delivered(found)
    for chunks in (cuts(found.body, 3, 1), cuts(found.body, 40, 2), [bytes([byte]) for byte in found.body]):
        body, other = delivered(found, chunks)
        assert body == whole
        assert other.outcome == exchange.outcome


def said(outcome: Outcome | None) -> object:
    assert outcome is not None
    turn = outcome.turn
    # Where a token limit hides from a whole answer's surface it hides from its stream too; the ids are drawn anew.
    return [(call.name, call.arguments) for call in turn.calls], turn.text.strip(), turn.thinking.strip()


PAIRS = [(found, one(found.id.replace("/stream", "/whole"))) for found in captured() if found.stream]
SWALLOWS_TEXT_BESIDE_CALLS = {"openai-responses"}


@pytest.mark.parametrize("parser", PARSERS)
def test_streamed_and_whole_answers_come_out_alike(parser: str) -> None:
    for stream, whole in (pair for pair in PAIRS if pair[0].parser == parser):
        streamed, answered = said(delivered(stream)[1].outcome), said(delivered(whole)[1].outcome)
        if stream.surface.name in SWALLOWS_TEXT_BESIDE_CALLS and stream.fault == "text-then-call":
            # The server itself drops text beside a call from a whole answer.
            streamed, answered = streamed[0], answered[0]  # type: ignore[index]
        assert streamed == answered, stream.id
