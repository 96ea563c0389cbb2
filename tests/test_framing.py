"""Bytes are cut into frames that, put together, are the bytes again."""

from __future__ import annotations

import pytest

from toolmend.framing import Framer
from toolmend.surfaces.surface import Framing


def all_frames(framing: Framing, chunks: list[bytes]) -> list[bytes]:
    framer = Framer(framing)
    return [frame for chunk in chunks for frame in framer.feed(chunk)] + framer.finish()


CASES: list[tuple[str, Framing, bytes, list[bytes]]] = [
    ("lines", "ndjson", b'{"a":1}\n{"b":2}\n', [b'{"a":1}\n', b'{"b":2}\n']),
    ("lines with \\r\\n", "ndjson", b"{}\r\n{}\r\n", [b"{}\r\n", b"{}\r\n"]),
    ("a last line without its end", "ndjson", b"{}\n{", [b"{}\n", b"{"]),
    ("blank lines", "ndjson", b"{}\n\n{}\n", [b"{}\n", b"\n", b"{}\n"]),
    ("events", "sse", b"data: 1\n\ndata: 2\n\n", [b"data: 1\n\n", b"data: 2\n\n"]),
    ("an event of several lines", "sse", b"event: x\ndata: 1\n\n", [b"event: x\ndata: 1\n\n"]),
    ("events with \\r\\n", "sse", b"data: 1\r\n\r\ndata: 2\r\n\r\n", [b"data: 1\r\n\r\n", b"data: 2\r\n\r\n"]),
    ("events with \\r", "sse", b"data: 1\r\rdata: 2\r\r", [b"data: 1\r\r", b"data: 2\r\r"]),
    ("ends of both kinds", "sse", b"data: 1\r\n\ndata: 2\n\r\n", [b"data: 1\r\n\n", b"data: 2\n\r\n"]),
    ("a blank line of \\r after \\n", "sse", b"data: 1\n\rdata: 2\n\n", [b"data: 1\n\r", b"data: 2\n\n"]),
    ("a comment", "sse", b": ping\n\ndata: 1\n\n", [b": ping\n\n", b"data: 1\n\n"]),
    ("blank lines before an event", "sse", b"\n\r\ndata: 1\n\n\ndata: 2\n\n", [b"\n\r\ndata: 1\n\n", b"\ndata: 2\n\n"]),
    ("a last event without its blank line", "sse", b"data: 1\n\ndata: 2\n", [b"data: 1\n\n", b"data: 2\n"]),
    ("nothing but blank lines", "sse", b"\n\n\n", [b"\n\n\n"]),
    ("a body", "json", b'{"a":\n\n1}\n', [b'{"a":\n\n1}\n']),
    ("nothing", "json", b"", []),
    ("nothing", "sse", b"", []),
]


@pytest.mark.parametrize(("framing", "data", "frames"), [case[1:] for case in CASES], ids=[case[0] for case in CASES])
def test_bytes_become_whole_frames_however_they_are_cut(framing: Framing, data: bytes, frames: list[bytes]) -> None:
    assert all_frames(framing, [data]) == frames
    assert all_frames(framing, [data[at : at + 1] for at in range(len(data))]) == frames
    for cut in range(len(data)):
        assert all_frames(framing, [data[:cut], data[cut:]]) == frames


def test_a_frame_is_given_out_as_soon_as_it_is_whole() -> None:
    framer = Framer("sse")
    assert framer.feed(b"data: 1\n") == []
    assert framer.feed(b"\n") == [b"data: 1\n\n"]
    assert framer.feed(b"data: 2\r\n\r") == []
    assert framer.feed(b"\n") == [b"data: 2\r\n\r\n"]


@pytest.mark.parametrize("framing", ["json", "ndjson", "sse"])
def test_what_was_not_given_out_is_known_at_every_byte(framing: Framing) -> None:
    data = b'data: {"a": 1}\n\n: x\n\ndata: [DONE]\r\n\r\n{"b": 2}\n'
    framer, given = Framer(framing), b""
    for at in range(len(data)):
        given += b"".join(framer.feed(data[at : at + 1]))
        assert given + framer.rest == data[: at + 1]
    given += b"".join(framer.finish())
    assert given == data
    assert framer.rest == b""


@pytest.mark.parametrize("framing", ["json", "ndjson", "sse"])
def test_each_byte_of_a_long_frame_is_looked_at_a_bounded_number_of_times(framing: Framing) -> None:
    """Quadratic work on these 600 kB in pieces of 3 bytes would take minutes, not a fraction of a second."""
    framer = Framer(framing)
    frames = [frame for _ in range(200_000) for frame in framer.feed(b"abc")]
    assert frames == []
    assert framer.finish() == [b"abc" * 200_000]


def test_many_blank_lines_are_one_frame() -> None:
    framer = Framer("sse")
    assert [frame for _ in range(200_000) for frame in framer.feed(b"\n")] == []
    assert framer.feed(b"data: 1\n\n") == [b"\n" * 200_000 + b"data: 1\n\n"]
