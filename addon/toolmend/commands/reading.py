"""Read an answer as a client sees it: the surface's own codec, none of the repair."""

from __future__ import annotations

from dataclasses import dataclass

from toolmend.commands.http_client import Answer
from toolmend.exchange import framing_of
from toolmend.framing import Framer
from toolmend.model import DecodeError, Fault, JsonObject, Request, ToolCall, Turn
from toolmend.repair.schema import validator
from toolmend.surfaces import SURFACES
from toolmend.surfaces.surface import Surface
from toolmend.surfaces.turn_builder import TurnBuilder


@dataclass(frozen=True, slots=True)
class Seen:
    """Hold what a client made of an answer: the turn, and what is wrong with its calls (paths are inside arguments)."""

    turn: Turn
    faults: tuple[Fault, ...]


def surface_named(name: str) -> Surface:
    """Return a surface by its name."""
    return next(surface for surface in SURFACES.values() if surface.name == name)


def read(surface: Surface, document: JsonObject, answer: Answer) -> Seen:
    """Read an answer to a request.

    Args:
        surface: The surface of the request.
        document: The request's body.
        answer: What came back.

    Returns:
        The turn; an answer that is no answer of this surface is a turn with its text as the error.
    """
    request = surface.read_request(document)
    try:
        turn = _turn(surface, request, answer)
    except DecodeError as error:
        turn = Turn(finish="error", error=f"{answer.status}: {error}")
    return Seen(turn, tuple(fault for call in turn.calls for fault in _faults(request, call)))


def _turn(surface: Surface, request: Request, answer: Answer) -> Turn:
    framing = framing_of(answer.content_type)
    codec, framer, builder = surface.codec(request, framing), Framer(framing), TurnBuilder()
    for chunk in (*answer.chunks, None):
        for raw in framer.finish() if chunk is None else framer.feed(chunk):
            for event in codec.read(raw).events:
                builder.add(event)
    return builder.turn()


def _faults(request: Request, call: ToolCall) -> list[Fault]:
    tool = request.tool(call.name)
    if tool is None:
        return [Fault("/name", "unknown-tool", f"{call.name} is not offered")]
    if not isinstance(call.arguments, dict):
        return [Fault("", "syntax", "the arguments are no JSON object")]
    return list(validator(tool.parameters).faults(call.arguments))
