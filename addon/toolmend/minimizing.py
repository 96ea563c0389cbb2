"""Make a recording smaller while repair still does the same to it: delta debugging, with the replay as the judge.

Parts are taken away as long as the same rungs act in the same places and the same faults are left.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from typing import Final, TypeAlias, TypeVar

from toolmend import recordings
from toolmend.exchange import framing_of
from toolmend.framing import Framer
from toolmend.model import DecodeError, Json, JsonObject, Outcome
from toolmend.recordings import FormatError, Recording

T = TypeVar("T")
Sign: TypeAlias = tuple[tuple[str, ...], ...]
"""What must stay: the repairs and the faults, by rung or keyword and place."""

LONG_TEXT: Final = 24
SHORT_TEXT: Final = 12


def minimize(recording: Recording, say: Callable[[str], None] = lambda step: None) -> Recording:
    """Return the smallest recording found that shows the same.

    Args:
        recording: It is taken as redacted.
        say: Is told each step as it begins.

    Raises:
        FormatError: The recording cannot be replayed.
    """
    wanted = _sign(recordings.replay(recording).outcome)

    def holds(candidate: Recording) -> bool:
        try:
            return _sign(recordings.replay(candidate).outcome) == wanted
        except (FormatError, DecodeError):
            return False

    small = recording
    for name, step in STEPS:
        say(name)
        small = step(small, holds)
    done = recordings.accepted(small)
    return done if recording.expected is not None else replace(done, expected=None)


def _sign(outcome: Outcome) -> Sign:
    repairs = sorted({(repair.rung, _place(repair.path), repair.note) for repair in outcome.repairs})
    faults = sorted({(fault.keyword, _place(fault.path)) for fault in outcome.faults})
    return (*repairs, ("left",), *faults)


def _place(path: str) -> str:
    """Say a place without the positions in lists: fewer elements show the same fault."""
    return re.sub(r"/\d+(?=/|$)", "/*", path)


def fewest(parts: Sequence[T], holds: Callable[[list[T]], bool]) -> list[T]:
    """Return as few of the parts, in their order, as the judge accepts: none of those left can go alone.

    Source: Zeller and Hildebrandt, Simplifying and Isolating Failure-Inducing Input (ddmin), by complements.
    """
    kept, size = list(parts), max(1, len(parts) // 2)
    while size:
        start, gone = 0, False
        while start < len(kept):
            without = kept[:start] + kept[start + size :]
            if holds(without):
                kept, gone = without, True
            else:
                start += size
        if not gone or size > 1:
            size //= 2
    return kept


# Steps


Judge: TypeAlias = Callable[[Recording], bool]


def _fewer_tools(recording: Recording, holds: Judge) -> Recording:
    """Leave out tools, in both requests."""
    tools = _list(recording.document.get("tools"))

    def with_tools(kept: Sequence[int]) -> Recording:
        chosen = {json.dumps(tools[index]) for index in kept}
        return _each_request(recording, lambda document: _keep(document, "tools", chosen))

    kept = fewest(range(len(tools)), lambda indexes: bool(indexes) and holds(with_tools(indexes)))
    return with_tools(kept)


def _keep(document: JsonObject, key: str, chosen: set[str]) -> JsonObject:
    if not isinstance(document.get(key), list):
        return document
    return {**document, key: [part for part in _list(document[key]) if json.dumps(part) in chosen]}


def _fewer_messages(recording: Recording, holds: Judge) -> Recording:
    """Leave only the last message."""

    def last(document: JsonObject) -> JsonObject:
        kept = {key: value for key, value in document.items() if key not in ("system", "instructions")}
        for key in ("messages", "input"):
            if isinstance(kept.get(key), list):
                kept[key] = _list(kept[key])[-1:]
        return kept

    candidate = _each_request(recording, last)
    return candidate if holds(candidate) else recording


def _fewer_properties(recording: Recording, holds: Judge) -> Recording:
    """Leave out parameters of tools that play no part."""
    for path in list(_properties(recording.document.get("tools"), ())):
        candidate = _each_request(recording, lambda document, path=path: _without(document, ("tools", *path)))  # type: ignore[misc]
        if holds(candidate):
            recording = candidate
    return recording


def _properties(value: Json, path: tuple[str | int, ...]) -> Iterator[tuple[str | int, ...]]:
    """Give the places of all properties, the outer ones first."""
    if isinstance(value, dict):
        properties = value.get("properties")
        if isinstance(properties, dict):
            yield from ((*path, "properties", name) for name in properties)
        for key, part in value.items():
            yield from _properties(part, (*path, key))
    elif isinstance(value, list):
        for index, part in enumerate(value):
            yield from _properties(part, (*path, index))


def _without(value: Json, path: tuple[str | int, ...]) -> JsonObject:
    """Return a copy without what stands at a place, if it does, and without the demand for it."""
    changed = _copy_without(value, path)
    assert isinstance(changed, dict)
    return changed


def _copy_without(value: Json, path: tuple[str | int, ...]) -> Json:
    match value, path:
        case dict(), (str(key), *rest) if key in value:
            if key == "properties" and len(rest) == 1 and isinstance(value[key], dict):
                left = {name: part for name, part in value[key].items() if name != rest[0]}  # type: ignore[union-attr]
                required = [name for name in _list(value.get("required")) if name != rest[0]]
                return {**value, key: left, **({"required": required} if "required" in value else {})}
            return {**value, key: _copy_without(value[key], tuple(rest))}
        case list(), (int(index), *rest) if index < len(value):
            return [_copy_without(part, tuple(rest)) if at == index else part for at, part in enumerate(value)]
        case _:
            return value


def _shorter_texts(recording: Recording, holds: Judge) -> Recording:
    """Shorten long text in an answer that came whole, one string after another."""
    if framing_of(recording.original.content_type) != "json":
        return recording
    try:
        answer = json.loads(recording.original.body)
    except ValueError:
        return recording
    for path in list(_long_texts(answer, ())):
        shorter = _replaced(answer, path)
        candidate = _with_body(recording, json.dumps(shorter, ensure_ascii=False, separators=(",", ":")).encode())
        if holds(candidate):
            answer, recording = shorter, candidate
    return recording


def _long_texts(value: Json, path: tuple[str | int, ...]) -> Iterator[tuple[str | int, ...]]:
    if isinstance(value, dict):
        for key, part in value.items():
            yield from _long_texts(part, (*path, key))
    elif isinstance(value, list):
        for index, part in enumerate(value):
            yield from _long_texts(part, (*path, index))
    elif isinstance(value, str) and len(value) > LONG_TEXT:
        yield path


def _replaced(value: Json, path: tuple[str | int, ...]) -> Json:
    """Return a copy in which the text at a place is short."""
    match value, path:
        case dict(), (str(key), *rest):
            return {**value, key: _replaced(value[key], tuple(rest))}
        case list(), (int(index), *rest):
            return [_replaced(part, tuple(rest)) if at == index else part for at, part in enumerate(value)]
    return str(value)[:SHORT_TEXT]


def _fewer_frames(recording: Recording, holds: Judge) -> Recording:
    """Leave out frames of a stream."""
    framing = framing_of(recording.original.content_type)
    if framing == "json" or recording.surface == "openai-responses":
        # (A Responses stream repeats its text and counts its events: without some, it would contradict itself.)
        return recording
    framer = Framer(framing)
    frames = framer.feed(recording.original.body) + framer.finish()
    # The last two end the turn (finish reason, usage, `[DONE]`): without them it would be another fault.
    kept = fewest(frames[:-2], lambda some: holds(_with_body(recording, b"".join([*some, *frames[-2:]]))))
    return _with_body(recording, b"".join([*kept, *frames[-2:]]))


def _one_chunk(recording: Recording, holds: Judge) -> Recording:
    """Let the answer come in one piece."""
    candidate = _with_body(recording, recording.original.body)
    return candidate if holds(candidate) else recording


STEPS: Final[tuple[tuple[str, Callable[[Recording, Judge], Recording]], ...]] = (
    ("chunks", _one_chunk),
    ("messages", _fewer_messages),
    ("tools", _fewer_tools),
    ("frames", _fewer_frames),
    ("texts", _shorter_texts),
    ("parameters", _fewer_properties),
)


def _with_body(recording: Recording, body: bytes) -> Recording:
    at = recording.original.chunks[0][1] if recording.original.chunks else 0
    return replace(recording, original=replace(recording.original, chunks=((body, at),) if body else ()))


def _each_request(recording: Recording, change: Callable[[JsonObject], JsonObject]) -> Recording:
    """Change the client's request, the forwarded one and the questions alike."""

    def changed(body: bytes) -> bytes:
        return json.dumps(change(json.loads(body))).encode()

    original, delivered = recording.original, recording.delivered
    return replace(
        recording,
        original=replace(original, request=changed(original.request)),
        follow_ups=tuple(replace(entry, request=changed(entry.request)) for entry in recording.follow_ups),
        delivered=replace(delivered, request=changed(delivered.request)),
    )


def _list(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []
