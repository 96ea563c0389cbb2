"""Hold a recording to what must be true of every answer: each check says what is wrong, or nothing.

A file under `recordings/` is a test by these checks, in this project and, by the pytest plugin, in any other.
"""

from __future__ import annotations

import difflib
import json
import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from toolmend.exchange import framing_of
from toolmend.framing import Framer
from toolmend.model import JsonObject, Outcome, Turn
from toolmend.recordings import SURFACE_BY_NAME, Recording, Replayed, exchange_of, expectation, replay
from toolmend.surfaces.surface import Framing
from toolmend.surfaces.turn_builder import TurnBuilder

Check: TypeAlias = Callable[[Recording, Replayed], str | None]

RANDOM_CUTS: Final = 3
LONGEST_PIECE: Final = 40


def check_expected(recording: Recording, replayed: Replayed) -> str | None:
    """Check that the outcome is the one that was accepted."""
    if recording.expected is None:
        return "nothing is expected yet: `toolmend accept` writes it"
    return difference(recording, replayed.outcome)


def difference(recording: Recording, outcome: Outcome) -> str | None:
    """Say how an outcome differs from what a recording expects, as a diff; None when it does not."""
    before = json.dumps(recording.expected or {}, indent=1, ensure_ascii=False).splitlines()
    after = json.dumps(expectation(outcome), indent=1, ensure_ascii=False).splitlines()
    lines = list(difflib.unified_diff(before, after, "expected", "now", n=1, lineterm=""))
    return "\n".join(lines) or None


def check_cuts(recording: Recording, replayed: Replayed) -> str | None:
    """Check that the client gets the same however the network cuts the answer."""
    body = recording.original.body
    wanted = what_arrives(recording, replayed)
    for name, pieces in cuts(body):
        other = replay(recording, pieces)
        if changed := _changed(replayed.outcome, other.outcome):
            return f"cut {name}, it comes out otherwise: {changed}"
        got = what_arrives(recording, other)
        if got != wanted:
            return f"cut {name}, the client gets something else: {_first_difference(wanted, got)}"
    return None


def cuts(body: bytes) -> Iterator[tuple[str, list[bytes]]]:
    """Cut a body whole, byte by byte, and at random (the same way each time)."""
    yield "whole", [body] if body else []
    yield "byte by byte", [body[at : at + 1] for at in range(len(body))]
    for seed in range(RANDOM_CUTS):
        dice = random.Random(seed)
        pieces, start = [], 0
        while start < len(body):
            size = dice.randint(1, LONGEST_PIECE)
            pieces.append(body[start : start + size])
            start += size
        yield f"at random ({seed})", pieces


def check_second_pass(recording: Recording, replayed: Replayed) -> str | None:
    """Check that what is delivered has nothing left to repair: a second proxy would change nothing."""
    entry = replace(
        recording.original,
        request=recording.delivered.request,
        status=replayed.status,
        content_type=replayed.content_type,
        chunks=((replayed.delivered, 0),) if replayed.delivered else (),
    )
    settings = replace(recording.settings, follow_up=False)
    again = replay(replace(recording, original=entry, follow_ups=(), settings=settings))
    if again.delivered != replayed.delivered:
        done = ", ".join(expectation(again.outcome)["repairs"])  # type: ignore[arg-type]
        return f"a second pass changes the answer: {done or 'no repair says why'}"
    return None


def check_twin(recording: Recording, replayed: Replayed) -> str | None:
    """Check that the same turn comes out the same whole and streamed.

    A tapped answer has no twin: its tokens stand in the frames that carried them.
    """
    if replayed.received.raw is not None:
        return None
    twin = twin_of(recording, replayed)
    other = replay(twin)
    if changed := _changed(replayed.outcome, other.outcome):
        return f"{_form(twin)} it comes out otherwise: {changed}"
    mine, its = what_arrives(recording, replayed), what_arrives(twin, other)
    return None if mine == its else f"{_form(twin)} the client gets something else: {_first_difference(mine, its)}"


def twin_of(recording: Recording, replayed: Replayed) -> Recording:
    """Return the recording of the same turn in the other form: streamed for a whole one, whole for a streamed one."""
    surface = SURFACE_BY_NAME[recording.surface]
    streams = not exchange_of(recording).request.stream
    # Without the option, a streamed chat completion does not say how many tokens were generated.
    options: JsonObject = {"stream_options": {"include_usage": True}} if streams else {}
    document = {**recording.document, "stream": streams, **options}
    original = recording.original
    if original.status == 200:
        framing: Framing = surface.streaming if streams else "json"
        codec = surface.codec(surface.read_request(document), framing)
        body = b"".join(codec.write(replayed.received, []))
        kind = surface.stream_type if streams else "application/json"
        original = replace(original, content_type=kind, chunks=((body, 0),))
    return replace(
        recording,
        original=original,
        delivered=replace(recording.delivered, request=json.dumps(document).encode()),
    )


def check_valid_bytes(recording: Recording, replayed: Replayed) -> str | None:
    """Check that an answer in which nothing was repaired reaches the client as the bytes that came."""
    if replayed.outcome.repairs or replayed.received.raw is not None or recording.follow_ups:
        return None
    same = replayed.delivered == recording.original.body and replayed.status == recording.original.status
    return None if same else "nothing was repaired, and yet other bytes go out"


def check_delivered(recording: Recording, replayed: Replayed) -> str | None:
    """Check that the client is told what the outcome says: the same calls, text and thinking.

    What is left broken passes as it came; and how the turn ended is said by each surface in its own way.
    """
    if replayed.outcome.faults or replayed.outcome.turn.error is not None:
        return None
    arrives = replace(what_arrives(recording, replayed), finish=None)
    wanted = replace(_essence(replayed.outcome.turn), finish=None)
    return None if arrives == wanted else f"the client gets something else: {_first_difference(wanted, arrives)}"


CHECKS: Final[Mapping[str, Check]] = {
    "outcome-as-expected": check_expected,
    "same-however-cut": check_cuts,
    "second-pass-changes-nothing": check_second_pass,
    "whole-and-streamed-agree": check_twin,
    "valid-stays-the-same-bytes": check_valid_bytes,
    "client-gets-the-outcome": check_delivered,
}


def problems(recording: Recording) -> dict[str, str]:
    """Return what is wrong with a recording, by the name of the check."""
    replayed = replay(recording)
    found = {name: check(recording, replayed) for name, check in CHECKS.items()}
    return {name: problem for name, problem in found.items() if problem is not None}


# What arrives at the client


@dataclass(frozen=True, slots=True)
class Arrived:
    """Hold what a client makes of an answer: ids, times and framing do not count."""

    text: str
    thinking: str
    calls: tuple[tuple[str, str], ...]
    finish: str | None
    error: str | None
    status: int


def what_arrives(recording: Recording, replayed: Replayed) -> Arrived:
    """Read what is delivered as a client would."""
    turn = read_turn(recording, replayed.content_type, replayed.delivered)
    return replace(_essence(turn), status=replayed.status)


def read_turn(recording: Recording, content_type: str, body: bytes) -> Turn:
    """Read an answer of a recording's surface.

    Raises:
        DecodeError: It is none.
    """
    surface = SURFACE_BY_NAME[recording.surface]
    framing = framing_of(content_type)
    codec, framer, builder = surface.codec(exchange_of(recording).request, framing), Framer(framing), TurnBuilder()
    for raw in framer.feed(body) + framer.finish():
        for event in codec.read(raw).events:
            builder.add(event)
    return builder.turn()


def _essence(turn: Turn) -> Arrived:
    calls = tuple((call.name, json.dumps(call.arguments, sort_keys=True)) for call in turn.calls)
    return Arrived(turn.text, turn.thinking, calls, turn.finish, turn.error, 200)


def _form(recording: Recording) -> str:
    return "streamed" if exchange_of(recording).request.stream else "whole"


def _changed(mine: Outcome, other: Outcome) -> str:
    lines = difflib.unified_diff(
        json.dumps(expectation(mine), indent=1).splitlines(),
        json.dumps(expectation(other), indent=1).splitlines(),
        "as recorded",
        "otherwise",
        n=0,
        lineterm="",
    )
    return "\n".join(lines)


def _first_difference(wanted: Arrived, got: Arrived) -> str:
    pairs = ((name, getattr(wanted, name), getattr(got, name)) for name in Arrived.__slots__)
    return next((f"{name} is {is_!r:.300}, expected {was!r:.300}" for name, was, is_ in pairs if was != is_), "")
