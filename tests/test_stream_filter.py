"""The stream callable never raises, and gives out all that came, whatever the exchange does."""

import json
from typing import Any

import pytest

from captured import one
from toolmend.exchange import Exchange
from toolmend.mitm.stream_filter import StreamFilter
from toolmend.settings import Settings
from toolmend.upstreams import Server

FOUND = one("qwen3/missing-required/ollama-chat/stream")
MIDDLE = len(FOUND.body) // 2


def made(late: bool, keep: bool = False) -> tuple[StreamFilter, list[str]]:
    exchange = Exchange(FOUND.surface, FOUND.document, Settings(), Server("ollama"))
    exchange.respond(FOUND.status, FOUND.content_type)
    failed: list[str] = []
    return StreamFilter(exchange, lambda: failed.append("failed"), late, keep), failed


def broken(*args: Any) -> Any:
    raise ZeroDivisionError("broken on purpose")


def test_without_the_late_hook_the_end_is_given_out_with_no_question() -> None:
    stream, failed = made(late=False)
    assert not stream.waits()
    assert b"".join([*stream(FOUND.body), *stream(b"")]) == FOUND.body
    assert failed == []
    assert stream.exchange.asked[0][1] is None


def test_only_an_end_that_has_a_question_waits() -> None:
    stream, failed = made(late=True)
    assert stream.holds()
    assert stream(FOUND.body) == []
    assert stream.waits()
    assert stream.question is not None
    valid = one("qwen3/ok-nested/ollama-chat/stream")
    exchange = Exchange(valid.surface, valid.document, Settings(), Server("ollama"))
    exchange.respond(valid.status, valid.content_type)
    exchange.request.body.put_away(json.dumps(valid.document).encode())
    stream = StreamFilter(exchange, lambda: failed.append("failed"), late=True, keep=False)
    out = stream(valid.body)
    assert not stream.waits()
    assert b"".join(out + stream(b"")) == valid.body
    assert failed == []


def test_what_fails_at_the_awaited_end_passes_all_that_came(monkeypatch: pytest.MonkeyPatch) -> None:
    stream, failed = made(late=True)
    out = stream(FOUND.body)
    monkeypatch.setattr(stream.exchange, "finish", broken)
    assert not stream.waits()
    assert b"".join(out + stream(b"")) == FOUND.body
    assert failed == ["failed"]


def test_what_fails_in_the_middle_passes_all_that_came_and_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    stream, failed = made(late=True)
    out = stream(FOUND.body[:MIDDLE])
    monkeypatch.setattr(stream.exchange, "_take", broken)
    out += stream(FOUND.body[MIDDLE:-5])
    assert not stream.waits()
    out += stream(FOUND.body[-5:]) + stream(b"")
    assert b"".join(out) == FOUND.body
    assert failed == ["failed"]


def test_what_fails_at_the_end_passes_all_that_came(monkeypatch: pytest.MonkeyPatch) -> None:
    stream, failed = made(late=False)
    out = stream(FOUND.body)
    monkeypatch.setattr(stream.exchange, "finish", broken)
    assert b"".join(out + stream(b"")) == FOUND.body
    assert failed == ["failed"]


def test_the_end_is_given_out_once() -> None:
    stream, _ = made(late=True)
    stream.rest = [b"mended"]
    assert stream(b"") == [b"mended"]
    assert stream(b"") == []


def test_what_came_and_what_went_is_kept_when_somebody_can_look_at_it() -> None:
    stream, _ = made(late=False, keep=True)
    out = stream(FOUND.body[:MIDDLE]) + stream(FOUND.body[MIDDLE:]) + stream(b"")
    assert [data for data, _ in stream.came] == [FOUND.body[:MIDDLE], FOUND.body[MIDDLE:]]
    assert b"".join(stream.went) == b"".join(out) == FOUND.body


def test_several_frames_of_one_chunk_go_out_as_one() -> None:
    found = one("qwen3/text-only/ollama-chat/stream")
    exchange = Exchange(found.surface, found.document, Settings(), Server("ollama"))
    exchange.respond(found.status, found.content_type)
    assert len(StreamFilter(exchange, lambda: None, late=True, keep=False)(found.body)) == 1
