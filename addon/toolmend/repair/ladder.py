"""Take a turn up the ladder: the surest rung first, the next only while faults are left.

Per turn: recover; per call: parse, names, unwrap, keys, coerce. A rung's result counts only if the call then fits, or
has fewer faults and no new one. A call that fits is returned as it is, and a second pass changes nothing.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import replace
from hashlib import sha256
from typing import Final

from toolmend.model import Outcome, Repair, Request, Tool, ToolCall, Turn
from toolmend.repair.calls import Repaired, fits, is_sound, repair_call
from toolmend.repair.decoding import objects_in
from toolmend.repair.recovery import HIDES_ERRORS, recover

__all__ = ["Repaired", "fits", "repair_call", "repair_turn"]

ID_CHARACTERS: Final = "abcdefghijklmnopqrstuvwxyz0123456789"
ID_LENGTH: Final = 8
SOUND_FINISHES: Final = frozenset({"stop", "tool_calls"})
WITHOUT_IDS: Final = frozenset({"ollama-chat"})
"""Surfaces on which a call need not have an id."""


def repair_turn(turn: Turn, request: Request) -> Outcome:
    """Take a whole turn up the ladder.

    Args:
        turn: The turn as it was read.
        request: Its request; without tools nothing is a call and nothing is done.

    Returns:
        The turn as it is now (the same object when nothing was to repair), the liberties taken, the faults left. Which
        calls the client's tool choice allows is not asked here.
    """
    if not request.tools or _is_sound(turn, request):
        return Outcome(turn)
    recovered, repairs, faults = recover(turn, request)
    calls, split = _unglued(recovered.calls, request.tools)
    cut = turn.finish in ("length", None)
    results = [
        repair_call(call, request.tools, index, cut=cut and call.dialect is None) for index, call in enumerate(calls)
    ]
    calls = tuple(call for call, _, _ in results)
    repairs += split + tuple(repair for _, found, _ in results for repair in found)
    faults += tuple(fault for _, _, found in results for fault in found)
    calls, named = _identified(calls, request.surface not in WITHOUT_IDS)
    # Told by identity: 1, 1.0 and true are equal in Python, and three values on the wire.
    if [*map(id, calls)] != [*map(id, recovered.calls)]:
        recovered = replace(recovered, calls=calls)
    lacks_end = request.stream and request.surface in HIDES_ERRORS and not faults
    recovered, finished = _finished(recovered, lacks_end)
    return Outcome(recovered, repairs + named + finished, faults)


def _is_sound(turn: Turn, request: Request) -> bool:
    """Tell at little cost that a turn is calls and nothing else, all of them sound; False says nothing."""
    calls = turn.calls
    if not calls or turn.error is not None or turn.finish not in SOUND_FINISHES or (turn.text and turn.text.strip()):
        return False
    ids = {call.id for call in calls}
    if len(ids) < len(calls) or ("" in ids and request.surface not in WITHOUT_IDS):
        return False
    return all(call.dialect is None and is_sound(call, request.tools) for call in calls)


def _unglued(calls: tuple[ToolCall, ...], tools: Sequence[Tool]) -> tuple[tuple[ToolCall, ...], tuple[Repair, ...]]:
    """Make several calls of one whose arguments are several objects, each of which fits: they were sent in parallel."""
    apart: list[ToolCall] = []
    repairs: list[Repair] = []
    for call in calls:
        parts = _parts(call, tools)
        for part in parts:
            path, note = f"/calls/{len(apart)}/arguments", f"one of {len(parts)} calls that were glued together"
            repairs.append(Repair("parse", path, call.arguments, part.arguments, note))
            apart.append(part)
        if not parts:
            apart.append(call)
    return (tuple(apart), tuple(repairs)) if repairs else (calls, ())


def _parts(call: ToolCall, tools: Sequence[Tool]) -> list[ToolCall]:
    if not isinstance(call.arguments, str) or "}" not in call.arguments:
        return []
    values = objects_in(call.arguments)
    if values is None or len(values) < 2 or all(value == values[0] for value in values):
        return []
    first = call.id
    parts = [replace(call, id="" if index else first, arguments=value, raw=None) for index, value in enumerate(values)]
    return parts if all(fits(part, tools) for part in parts) else []


def _identified(calls: tuple[ToolCall, ...], required: bool) -> tuple[tuple[ToolCall, ...], tuple[Repair, ...]]:
    """Give each call an id of its own: made from what it says and where it stands, so that it is the same each time.

    A call that was made here (found in text, or split) gets its first one, which is no repair.
    """
    seen: set[str] = set()
    out: list[ToolCall] = []
    repairs: list[Repair] = []
    for index, call in enumerate(calls):
        doubled = call.id in seen
        if doubled or (not call.id and (required or call.dialect is not None)):
            new = _new_id(call, index)
            if call.dialect is None:
                repairs.append(
                    Repair("wire", f"/calls/{index}/id", call.id, new, "made unique" if doubled else "missing")
                )
            call = replace(call, id=new)
        seen.update({call.id} - {""})
        out.append(call)
    return tuple(out), tuple(repairs)


def _new_id(call: ToolCall, index: int) -> str:
    text = json.dumps([call.id, call.name, call.namespace, call.arguments, index], sort_keys=True)
    number = int.from_bytes(sha256(text.encode()).digest()[:8])
    letters = []
    for _ in range(ID_LENGTH):
        number, letter = divmod(number, len(ID_CHARACTERS))
        letters.append(ID_CHARACTERS[letter])
    return "call_" + "".join(letters)


def _finished(turn: Turn, lacks_end: bool) -> tuple[Turn, tuple[Repair, ...]]:
    """Correct the reason why the turn ended, where a client would wait for what does not come, or drop what did.

    `lacks_end`: a stream without its end has to be ended, if it has whole calls.
    """
    lifted = any(call.dialect is not None for call in turn.calls)
    if lifted and turn.finish in ("length", "error", None):
        after, note = "tool_calls", "calls were found"
    elif lacks_end and turn.finish is None and turn.calls and turn.error is None:
        after, note = "tool_calls", "the answer had no end"
    elif turn.finish == "tool_calls" and not turn.calls and turn.text.strip() and turn.error is None:
        after, note = "stop", "there is no call"
    else:
        return turn, ()
    repair = Repair("wire", "/finish", turn.finish, after, note)
    return replace(turn, finish="tool_calls" if turn.calls else "stop"), (repair,)
