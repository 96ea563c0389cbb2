"""Find answers worth keeping in what other tools recorded: HAR files of any size, and mitmproxy's flows.

A HAR file is read entry by entry, so memory holds one exchange at a time, however large the file is.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from typing import BinaryIO, Final

import ijson

from toolmend import har, recordings
from toolmend.har import FormatError, Read
from toolmend.model import JsonObject, Outcome, Turn
from toolmend.recordings import Recording, Which
from toolmend.settings import Settings
from toolmend.surfaces import SURFACES

BOM: Final = b"\xef\xbb\xbf"
GZIP: Final = b"\x1f\x8b"
LARGEST_BODY: Final = 16_000_000


@dataclass(slots=True)
class Found:
    """Count what a search saw: exchanges in all, on one of the four surfaces, with tools, and worth keeping.

    `skipped` counts those that could not be read, by the reason.
    """

    exchanges: int = 0
    chats: int = 0
    with_tools: int = 0
    kept: int = 0
    skipped: Counter[str] = field(default_factory=Counter)


def is_har(head: bytes) -> bool:
    """Tell a HAR file from mitmproxy's own format by how it begins."""
    return head.removeprefix(BOM).lstrip()[:1] == b"{"


def read_har(file: BinaryIO) -> Iterator[JsonObject]:
    """Read the entries of a HAR file one by one; the file stands behind a byte order mark, if it has one.

    Raises:
        FormatError: The file is no JSON, or ends too early. What came before has been given.
    """
    try:
        yield from ijson.items(file, "log.entries.item", use_float=True)
    except ijson.JSONError as error:
        raise FormatError(f"no HAR file: {error}") from error


def read_entries(documents: Iterable[JsonObject], found: Found) -> Iterator[tuple[Read, ...]]:
    """Read HAR entries, each as one exchange. Follow-ups and delivered answers of our own recordings are left out."""
    for document in documents:
        found.exchanges += 1
        try:
            read = har.read_entry(document)
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            found.skipped[f"no HAR entry: {error}"] += 1
            continue
        if read.entry.role == "original":
            yield (read,)


def find(exchanges: Iterable[tuple[Read, ...]], which: Which, found: Found) -> Iterator[Recording]:
    """Find the exchanges worth keeping.

    Args:
        exchanges: Each the exchange with the server and, where another is known, what the client sent and got.
        which: Which outcomes to keep.
        found: Is counted up.
    """
    for parts in exchanges:
        if parts[0].entry.path.rstrip("/") not in SURFACES:
            continue
        found.chats += 1
        try:
            recording = recording_of(parts)
        except FormatError as error:
            found.skipped[str(error)] += 1
            continue
        if recording is None:
            continue
        found.with_tools += 1
        if recordings.worth_keeping(recording.outcome, which):
            found.kept += 1
            yield recording


def recording_of(parts: tuple[Read, ...]) -> Recording | None:
    """Make a recording of one exchange; None when it offers no tools.

    Raises:
        FormatError: It is not one of a surface, or has no answer.
    """
    entry = _decompressed(parts[0].entry)
    client = _decompressed(parts[-1].entry)
    surface = SURFACES[entry.path.rstrip("/")]
    made = Recording(
        surface=surface.name,
        model="",
        server="ollama",
        settings=Settings(tap="off"),
        original=replace(entry, path=surface.path, role="original"),
        follow_ups=(),
        delivered=replace(client, path=surface.path, role="delivered"),
        outcome=Outcome(Turn()),
        started=parts[0].started,
    )
    request = recordings.exchange_of(made).request
    if not request.tools:
        return None
    if not entry.body:
        raise FormatError("the answer is empty")
    made = replace(made, model=request.model)
    return replace(made, outcome=recordings.replay(made).outcome)


def _decompressed(entry: har.Entry) -> har.Entry:
    """Take off gzip, which some tools keep; answers are at most 16 MB then."""
    if not entry.body.startswith(GZIP):
        return entry
    try:
        body = zlib.decompressobj(wbits=31).decompress(entry.body, LARGEST_BODY)
    except zlib.error as error:
        raise FormatError(f"the answer is compressed and cannot be read: {error}") from error
    return replace(entry, chunks=((body, entry.chunks[-1][1]),))
