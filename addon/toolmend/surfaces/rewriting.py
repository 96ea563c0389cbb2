"""Put a repaired turn in the place of the frames that were held: what all four surfaces do alike.

Text and thinking are taken piece by piece, so frames whose piece is still the turn's stay the bytes they were. Calls
take the place of the received ones they came from, in the turn's order; what is new follows.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from toolmend.model import CallPart, ErrorPart, JsonObject, Request, TextPart, ThinkingPart, ToolCall, Turn
from toolmend.surfaces.surface import Frame
from toolmend.surfaces.turn_builder import CallJoiner
from toolmend.surfaces.wire import digest, dump, dump_text, same


class Remainder:
    """Hold the part of a text that the client has not got."""

    def __init__(self, whole: str, passed: int) -> None:
        self._whole = whole
        self._at = min(passed, len(whole))

    def take(self, piece: str) -> str:
        """Return what to write in place of a received piece: itself while it is what comes next, else all the rest."""
        if self._whole.startswith(piece, self._at):
            self._at += len(piece)
            return piece
        return self.rest()

    def rest(self) -> str:
        """Return all that is left."""
        left = self._whole[self._at :]
        self._at = len(self._whole)
        return left


@dataclass(frozen=True, slots=True)
class Planned:
    """Hold a call to be written.

    `index` is its place in the turn, `id` its own or a made one. `entry` is what stood on the wire where the call came
    from ({} for a new call): unknown members are kept from it. `unchanged` says that the call is still what it says.
    """

    index: int
    id: str
    call: ToolCall
    entry: JsonObject
    unchanged: bool

    @property
    def arguments_text(self) -> str:
        """Return the arguments as text: as they came, else compactly."""
        if self.call.raw is not None:
            return self.call.raw
        arguments = self.call.arguments
        return arguments if isinstance(arguments, str) else dump_text(arguments)


class CallPlan:
    """Say which calls of a turn are written where a held frame opened one.

    Args:
        turn: The turn as the client shall see it.
        held: The frames whose place it takes. No frame with a call has been passed.
        entries: Give a frame's call documents, one for each of its CallParts.
        seed: What made ids are derived from, beside the calls themselves.
    """

    def __init__(
        self, turn: Turn, held: Sequence[Frame], entries: Callable[[Frame], list[JsonObject]], seed: str
    ) -> None:
        joiner = CallJoiner()
        received: list[JsonObject] = []
        self._opened: dict[int, list[int]] = {}
        for place, frame in enumerate(held):
            for part, entry in zip(calls_in(frame), entries(frame), strict=True):
                at = joiner.add(part)
                if at == len(received):
                    received.append(entry)
                    self._opened.setdefault(place, []).append(at)
                else:
                    received[at] = {**received[at], **entry, **received[at]}
        self._sources = _match(turn.calls, joiner.calls())
        ids = _unique_ids(turn.calls, seed)
        self._calls = [
            Planned(index, ids[index], call, {} if source is None else received[source], unchanged)
            for index, (call, (source, unchanged)) in enumerate(zip(turn.calls, self._sources, strict=True))
        ]
        self._next = 0

    def opened_by(self, place: int) -> list[int]:
        """Return which received calls the frame at this place opened."""
        return self._opened.get(place, [])

    def until(self, received: Sequence[int]) -> list[Planned]:
        """Return the calls up to the last of those that came from these received ones; nothing when all are gone."""
        last = max((at for at, (source, _) in enumerate(self._sources) if source in received), default=-1)
        return self._advance(last + 1)

    def rest(self) -> list[Planned]:
        """Return the calls that were not written yet."""
        return self._advance(len(self._calls))

    def _advance(self, end: int) -> list[Planned]:
        start, self._next = self._next, max(self._next, end)
        return self._calls[start : self._next]


def _match(calls: Sequence[ToolCall], received: Sequence[ToolCall]) -> list[tuple[int | None, bool]]:
    """Find the received call that each call came from, the surest signs first, and whether it is still the same."""
    found: list[int | None] = [None] * len(calls)
    unchanged: set[int] = set()
    free = set(range(len(received)))
    for sign in SIGNS:
        places: defaultdict[str, list[int]] = defaultdict(list)
        for at in sorted(free, reverse=True):
            places[sign(received[at])].append(at)
        for index, call in enumerate(calls):
            # A call that was found in text came from no received one.
            if found[index] is None and call.dialect is None and sign(call) and places[sign(call)]:
                found[index] = places[sign(call)].pop()
                unchanged |= {index} if sign is SIGNS[0] else set()
        free -= {at for at in found if at is not None}
    return [(at, index in unchanged) for index, at in enumerate(found)]


SIGNS: Final[tuple[Callable[[ToolCall], str], ...]] = (
    lambda call: dump_text([call.id, call.name, call.namespace, call.raw, call.arguments]),
    lambda call: call.id,
    lambda call: dump_text([call.name, call.arguments]),
    lambda call: call.name,
    lambda call: "any",
)
"""What tells where a call came from. Only the first says that nothing was changed."""


def _unique_ids(calls: Sequence[ToolCall], seed: str) -> list[str]:
    """Return the calls' ids; one that is empty or was used before is made new: clients join calls of one id."""
    ids: dict[str, None] = {}
    for call in calls:
        made = f"call_{digest(seed, len(ids), call.name, call.arguments)[:8]}"
        ids[call.id if call.id and call.id not in ids else made] = None
    return list(ids)


def seed_of(request: Request) -> str:
    """Return what made ids are derived from: the turn's place in its conversation, so that no two turns share one."""
    history = request.document.get("messages", request.document.get("input"))
    last = history[-1:] if isinstance(history, (list, str)) else None
    return digest(request.model, len(history) if isinstance(history, (list, str)) else 0, last)


def calls_in(frame: Frame) -> list[CallPart]:
    """Return a frame's parts of calls."""
    return [event for event in frame.events if isinstance(event, CallPart)]


def has_error(frame: Frame) -> bool:
    """Tell whether a frame fails the turn."""
    return any(isinstance(event, ErrorPart) for event in frame.events)


def whole_body(document: JsonObject, came: Frame | None) -> bytes:
    """Write a body in the place of the one that came: that one itself when nothing is different, and its line end."""
    if came is None:
        return dump(document)
    return came.raw if same(document, came.document) else dump(document) + came.raw[len(came.raw.rstrip()) :]


@dataclass(slots=True)
class Passed:
    """Count the text and thinking that went to the client."""

    text: int = 0
    thinking: int = 0

    def note(self, frame: Frame) -> None:
        """Count a frame that went out."""
        for event in frame.events:
            if isinstance(event, TextPart):
                self.text += len(event.text)
            elif isinstance(event, ThinkingPart):
                self.thinking += len(event.text)
