"""Text frames that are like those before them are read without decoding, to the same effect."""

import json
from typing import Any

import pytest

from fake_answers import Answer, Asked, render
from fake_ollama import TOOL
from toolmend.exchange import Exchange, replay
from toolmend.model import TextPart
from toolmend.settings import Settings
from toolmend.surfaces import SURFACES
from toolmend.surfaces.surface import Frame
from toolmend.surfaces.text_frames import FEW, TextFrames
from toolmend.upstreams import Server

CALL = (
    '<tool_call>\n{"name": "book_table", "arguments": {"guests": "4", "day": "friday", "area": "inside", '
    '"wishes": "quiet"}}\n</tool_call>'
)
TEXTS = {
    "prose": "The kitchen closes at ten, the bar at one, and on Sundays both stay shut all day.",
    "escapes": 'He said "ten"\nand\tthen\\left <b>soon</b>, é, 日本, 🍕 and 10 more words follow here as plain ones.',
    "a call behind text": f"I book the table now, as you have asked me to do it. {CALL}",
    "what only begins like a call": "One, two, three, four, five < six and {seven} (eight) [nine], ten and eleven.",
}


def document(surface: str) -> dict[str, Any]:
    tool = {
        "anthropic-messages": {"name": TOOL["name"], "input_schema": TOOL["parameters"]},
        "openai-responses": {"type": "function", **TOOL},
    }.get(surface, {"type": "function", "function": TOOL})
    said = "input" if surface == "openai-responses" else "messages"
    return {"model": "m", "stream": True, "tools": [tool], said: [{"role": "user", "content": "Book."}]}


def chunk(text: str, **choice: Any) -> bytes:
    body = {
        "object": "chat.completion.chunk",
        "model": "m",
        "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": None, **choice}],
    }
    return b"data: " + json.dumps(body, ensure_ascii=False).encode() + b"\n\n"


class Counted:
    """Read chunks as the codec does, and count how many."""

    def __init__(self) -> None:
        surface = SURFACES["/v1/chat/completions"]
        self.codec = surface.codec(surface.read_request({"model": "m"}), "sse")
        self.count = 0

    def read(self, raw: bytes) -> Frame:
        self.count += 1
        return self.codec.read(raw)


@pytest.fixture
def known() -> TextFrames:
    """Have seen a few text frames."""
    frames = TextFrames(Counted().read)
    for word in ("The", " kitchen", " closes", " at")[:FEW]:
        assert frames.quick(chunk(word)) is None
        frames.note(Counted().read(chunk(word)))
    return frames


@pytest.mark.parametrize("text", [" ten", "日本", "'", "}", "10", " at"])
def test_a_frame_like_the_others_is_read_at_once(text: str, known: TextFrames) -> None:
    frame = known.quick(chunk(text))
    assert frame is not None
    assert (frame.raw, frame.events) == (chunk(text), (TextPart(text),))


@pytest.mark.parametrize(
    "raw",
    [
        chunk(""),
        chunk('"'),
        chunk("a\n"),
        chunk("a\\b"),
        chunk(" ten", index=1),
        chunk(" ten", finish_reason="stop"),
        chunk(" ten").replace(b'" ten"', b'" ten", "tool_calls": [{}]'),
        chunk(" ten").replace(b" ten", b"\xff"),
        chunk(" ten") + chunk(" ten"),
        b": comment\n" + chunk(" ten"),
    ],
)
def test_every_other_frame_is_decoded(raw: bytes, known: TextFrames) -> None:
    assert known.quick(raw) is None


def line(text: str, at: bytes) -> bytes:
    document = {"created_at": "now", "message": {"role": "assistant", "content": text}, "done": False}
    return json.dumps({"model": "m", **document}, separators=(",", ":")).encode().replace(b'"now"', b'"' + at + b'"')


def test_lines_may_name_any_time_that_is_text() -> None:
    surface = SURFACES["/api/chat"]
    codec = surface.codec(surface.read_request({"model": "m"}), "ndjson")
    frames = TextFrames(codec.read)
    for second in range(FEW):
        frames.note(codec.read(line("x", b"2026-08-22T09:00:0%d.123Z" % second)))
    assert frames.quick(line("y", b"2026-08-22T10:00:00Z")) is not None
    for no_time in (b"2\xd6026", b"a\nb", b'a","done":true,"b":"', b"a\\u0062"):
        assert frames.quick(line("y", no_time)) is None


def test_a_text_that_stands_elsewhere_in_the_frame_too_is_found_in_its_place() -> None:
    frames = TextFrames(Counted().read)
    for _ in range(FEW):
        frames.note(Counted().read(chunk("m")))
    frame = frames.quick(chunk("other"))
    assert frame is not None
    assert frame.events == (TextPart("other"),)
    assert frames.quick(chunk("m").replace(b'"model": "m"', b'"model": "other"')) is None


def test_patterns_are_looked_for_less_and_less_often() -> None:
    counted = Counted()
    frames = TextFrames(counted.read)
    for number in range(1000):
        frames.note(Counted().read(chunk("x", logprobs=number)))
    assert counted.count < 10


@pytest.mark.parametrize("text", TEXTS.values(), ids=TEXTS)
@pytest.mark.parametrize("surface", SURFACES.values(), ids=lambda surface: surface.name)
def test_it_makes_no_difference(surface: Any, text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    body = document(surface.name)
    sent = render(Answer(text=text), Asked(surface.name, body))

    def answered() -> tuple[list[bytes], Any]:
        exchange = Exchange(surface, body, Settings(follow_up=False), Server())
        return replay(exchange, 200, sent.content_type, sent.chunks), exchange.outcome

    quick = answered()
    monkeypatch.setattr(TextFrames, "quick", lambda self, raw: None)
    assert quick == answered()
    assert (b"".join(quick[0]) == b"".join(sent.chunks)) is (CALL not in text)


@pytest.mark.parametrize("path", ["/api/chat", "/v1/chat/completions", "/v1/messages"])
def test_most_frames_of_a_long_text_are_not_decoded(path: str, monkeypatch: pytest.MonkeyPatch) -> None:
    surface = SURFACES[path]
    body = document(surface.name)
    sent = render(Answer(text=TEXTS["prose"] * 10), Asked(surface.name, body))
    found: list[bool] = []
    quick = TextFrames.quick

    def watched(self: TextFrames, raw: bytes) -> Frame | None:
        frame = quick(self, raw)
        found.append(frame is not None)
        return frame

    monkeypatch.setattr(TextFrames, "quick", watched)
    replay(Exchange(surface, body, Settings(), Server()), 200, sent.content_type, sent.chunks)
    assert found.count(True) > 0.9 * len(found)
