"""Cut bytes into frames: NDJSON lines, SSE events, or one JSON body.

Frames are the very bytes that came: all frames of an answer put together are the answer. How the network cut it makes
no difference, and feeding byte by byte takes linear time.
"""

from __future__ import annotations

import re
from typing import Final

from toolmend.surfaces.surface import Framing

LEADING: Final = re.compile(rb"[\r\n]*")
# The end of a line and an empty line after it. A lone \r may be half of \r\n, so what follows "\n\r" must be there; a
# stream whose lines end in \r alone (legal, never seen) ends its events at the second one without waiting for a byte.
EVENT_END: Final = re.compile(rb"\n\n|\n\r\n|\n\r(?=[^\n])|\r\r")
LONGEST_END: Final = 3
CLOSERS: Final[dict[Framing, bytes]] = {"json": b"", "ndjson": b"\n", "sse": b"\n\n"}
"""What a frame ends with, as servers write it."""


class Framer:
    """Cut one answer into frames, as its bytes arrive."""

    def __init__(self, framing: Framing) -> None:
        self._buffer = bytearray()
        self._scanned = 0
        self._blank = True
        self._closer = CLOSERS[framing]
        self._end_of_frame = {"json": self._never, "ndjson": self._line_end, "sse": self._event_end}[framing]

    @property
    def rest(self) -> bytes:
        """Return what was fed and not yet given out."""
        return bytes(self._buffer)

    def feed(self, data: bytes) -> list[bytes]:
        """Take in bytes and return the frames that are whole now, with their line ends (an event's blank line too)."""
        if self._closer and not self._buffer and self._is_one_frame(data):
            return [data]
        self._buffer += data
        frames: list[bytes] = []
        start = 0
        while (end := self._end_of_frame(start)) is not None:
            frames.append(bytes(self._buffer[start:end]))
            start = self._scanned = end
        if start:
            del self._buffer[:start]
            self._scanned -= start
        return frames

    def _is_one_frame(self, data: bytes) -> bool:
        """Tell whether a chunk is one frame, as servers send them: then it is cut from nothing, and not copied."""
        end = data.find(self._closer)
        return end > 0 and end + len(self._closer) == len(data) and b"\r" not in data

    def finish(self) -> list[bytes]:
        """Return what is left as one frame: a JSON body, or a last line or event without its end."""
        rest = self.rest
        self._buffer.clear()
        self._scanned = 0
        return [rest] if rest else []

    def _never(self, start: int) -> None:
        return None

    def _line_end(self, start: int) -> int | None:
        found = self._buffer.find(b"\n", self._scanned)
        if found < 0:
            self._scanned = len(self._buffer)
            return None
        return found + 1

    def _event_end(self, start: int) -> int | None:
        """Find the end of an event that has at least one line; blank lines before it belong to it."""
        if self._blank:
            self._scanned = self._skip_blank()
            self._blank = self._scanned == len(self._buffer)
        if self._blank:
            return None
        found = EVENT_END.search(self._buffer, self._scanned)
        if found is None:
            self._scanned = max(self._scanned, len(self._buffer) - LONGEST_END)
            return None
        self._blank = True
        return found.end()

    def _skip_blank(self) -> int:
        found = LEADING.match(self._buffer, self._scanned)
        return found.end() if found else self._scanned
