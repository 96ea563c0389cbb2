"""Know the text frames of a stream by one of them: all but the text is the same in all.

Nearly every frame of a streamed answer is one token of text. Once a few are decoded, the next need not be: a frame
that begins and ends with the same bytes, and has a plain string between them, says that string.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from toolmend.model import DecodeError, Json, TextPart
from toolmend.surfaces.surface import Frame

FEW: Final = 4
"""Frames that are decoded before one is taken for a pattern; twice as many before the next pattern, and so on."""
SAMPLE: Final = "toolmend"
PLAIN: Final = rb'([^"\\\x00-\x1f]+)'
"""A JSON string without escapes."""
TIME: Final = re.compile(rb'("created_at":")[^"\\]*')
"""The one member that differs from frame to frame and adds nothing (`/api/chat`)."""
ANY_TIME: Final = rb"[ !#-\[\]-~]*"


class TextFrames:
    """Read the text frames of one stream.

    Args:
        read: The codec's `read`, which decodes a frame.
    """

    __slots__ = ("_document", "_frames", "_next", "_pattern", "_read")

    def __init__(self, read: Callable[[bytes], Frame]) -> None:
        self._read = read
        self._pattern: re.Pattern[bytes] | None = None
        self._document: Json = None
        self._frames = 0
        self._next = FEW

    def quick(self, raw: bytes) -> Frame | None:
        """Read a frame that is like the pattern, None when it is not. Its document is that of the pattern."""
        found = self._pattern.fullmatch(raw) if self._pattern is not None else None
        if found is None:
            return None
        try:
            return Frame(raw, self._document, (TextPart(found[1].decode()),))
        except UnicodeDecodeError:
            return None

    def note(self, frame: Frame) -> None:
        """Take note of a frame that was decoded: one of the next of its kind becomes the pattern."""
        if len(frame.events) != 1 or not isinstance(frame.events[0], TextPart):
            return
        self._frames += 1
        if self._frames < self._next:
            return
        self._frames, self._next = 0, 2 * self._next
        pattern = self._pattern_of(frame, frame.events[0].text.encode(errors="surrogatepass"))
        if pattern is not None:
            self._pattern, self._document = pattern, frame.document

    def _pattern_of(self, frame: Frame, text: bytes) -> re.Pattern[bytes] | None:
        """Find the one place of the text in a frame: another text there, and the frame says that and nothing else."""
        raw = frame.raw
        at = raw.find(b'"' + text + b'"')
        while at >= 0:
            head, tail = raw[: at + 1], raw[at + 1 + len(text) :]
            if self._says_sample(head + SAMPLE.encode() + tail):
                return re.compile(_escaped(head) + PLAIN + _escaped(tail))
            at = raw.find(b'"' + text + b'"', at + 1)
        return None

    def _says_sample(self, raw: bytes) -> bool:
        try:
            return self._read(raw).events == (TextPart(SAMPLE),)
        except DecodeError:
            return False


def _escaped(raw: bytes) -> bytes:
    """Write bytes as a pattern for themselves, whatever time they name."""
    found = TIME.search(raw)
    if found is None:
        return re.escape(raw)
    return re.escape(raw[: found.end(1)]) + ANY_TIME + re.escape(raw[found.end() :])
