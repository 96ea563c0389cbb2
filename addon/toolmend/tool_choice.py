"""Meet the tool choice: on the request as far as the server reads it, on the answer where it does not.

Ollama reads the choice on none of its surfaces. Small models lose much under a constraint from the first token on, so
a model first answers freely, and is asked again only if it did not meet the choice, unless the user says otherwise.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from dataclasses import dataclass, replace
from typing import Final, TypeVar

from toolmend.envelopes import (
    ENVELOPE,
    allowed_tools,
    envelope_of_any,
    read_envelope,
    with_defs,
)
from toolmend.lenient_json import parse
from toolmend.limits import question_cap
from toolmend.model import Fault, JsonObject, Outcome, Repair, Request, ToolCall, ToolChoice, Turn
from toolmend.ollama_messages import to_ollama_chat
from toolmend.repair.ladder import repair_call, repair_turn
from toolmend.settings import Settings
from toolmend.surfaces import SURFACES
from toolmend.surfaces.surface import Surface
from toolmend.upstreams import Server

__all__ = ["Prepared", "judge", "prepare", "read_envelope"]

Note = TypeVar("Note", Repair, Fault)

CALL: Final = re.compile(r"/calls/(\d+)(/.*)?\Z", re.DOTALL)
NO_CALL: Final = frozenset({"unknown-tool", "invented-tool"})
"""Faults of a call that goes to none of the offered tools."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """Hold what is sent in place of a request.

    `document` is None when the bytes go on as they came. `constrained` is the schema that was put on the request, and
    `path` where such a request goes when its own surface cannot carry a schema: it is then a request of that surface.
    `warning` says what of the choice could not be understood.
    """

    document: JsonObject | None = None
    constrained: JsonObject | None = None
    path: str | None = None
    warning: str | None = None


NOTHING: Final = Prepared()
FREE: Final = ToolChoice()
"""The choice of nearly all requests: it asks for nothing."""


def prepare(surface: Surface, request: Request, server: Server, settings: Settings) -> Prepared:
    """Apply the choice to the request, as far as the server and the settings want it there."""
    choice = request.tool_choice
    if choice == FREE and request.document.get("tool_choice") is None:
        return NOTHING
    warning = _warning(surface, request)
    if warning is not None or not request.tools:
        return Prepared(warning=warning)
    document = PREPARERS[choice.mode](surface, request, server)
    if choice.mode in ("required", "named") and settings.force == "constrain":
        base = request.document if document is None else document
        return _constrained(surface, request, server, settings, base) or Prepared(document)
    return Prepared(document)


def _warning(surface: Surface, request: Request) -> str | None:
    if not request.tools:
        return None
    if _names_nothing(request):
        names = " or ".join(request.tool_choice.names)
        return f"{surface.name}: tool_choice names {names}, which is not offered: passed on and not enforced"
    unknown = surface.unknown_choice(request.document)
    if unknown is not None:
        return f"{surface.name}: tool_choice is {unknown}, which is not understood: passed on and not enforced"
    return None


def _names_nothing(request: Request) -> bool:
    """Tell whether the choice names tools and none of them is offered."""
    names = request.tool_choice.names
    return bool(names) and all(request.tool(name) is None for name in names)


def _without_tools(surface: Surface, request: Request, server: Server) -> JsonObject | None:
    return surface.without_choice(surface.with_tools(request.document, ()))


def _some_tools(surface: Surface, request: Request, server: Server) -> JsonObject | None:
    """Offer only the allowed tools, where the choice names some of them."""
    names = [tool.name for tool in allowed_tools(request)]
    if len(names) == len(request.tools):
        return None
    document = surface.with_tools(request.document, names)
    if server.reads_choice(request.model):
        return surface.with_choice(document, replace(request.tool_choice, names=()))
    return surface.without_choice(document)


def _required(surface: Surface, request: Request, server: Server) -> JsonObject | None:
    if (document := _some_tools(surface, request, server)) is not None:
        return document
    return None if server.reads_choice(request.model) else surface.without_choice(request.document)


def _named(surface: Surface, request: Request, server: Server) -> JsonObject | None:
    if not server.reads_choice(request.model):
        return surface.without_choice(request.document)
    if server.can.reads_named_choice or not server.can.reads_tool_choice:
        return None
    # llama-server treats a named tool as auto: with that tool alone, required comes to the same.
    choice = ToolChoice("required", parallel=request.tool_choice.parallel)
    return surface.with_choice(surface.with_tools(request.document, request.tool_choice.names), choice)


PREPARERS: Final[dict[str, Callable[[Surface, Request, Server], JsonObject | None]]] = {
    "auto": _some_tools,
    "none": _without_tools,
    "required": _required,
    "named": _named,
}


def _constrained(
    surface: Surface, request: Request, server: Server, settings: Settings, document: JsonObject
) -> Prepared | None:
    """Put the schema on the first request; None where the server meets the choice itself, or would lose the answer."""
    if server.reads_choice(request.model) or server.model(request.model).loses_schema:
        return None
    defs: JsonObject = {}
    schema = with_defs(envelope_of_any(allowed_tools(request), defs), defs)
    cap = question_cap(surface.name, document, settings)
    constrained = surface.constrain(document, schema, cap)
    if constrained is None:
        return _elsewhere(surface, server, document, schema, cap)
    # The schema is the client's answer here, not a question of ours: it comes in the form that was asked for.
    for key in ("stream", "stream_options"):
        if key in request.document:
            constrained[key] = request.document[key]
        else:
            constrained.pop(key, None)
    return Prepared(constrained, schema)


def _elsewhere(surface: Surface, server: Server, document: JsonObject, schema: JsonObject, cap: int) -> Prepared | None:
    """Send the request to the surface of the same server that can carry the schema, whole: nothing of it is text."""
    path = server.can.asked_on.get(surface.name)
    if path != "/api/chat":
        return None
    constrained = SURFACES[path].constrain(to_ollama_chat(surface.name, document), schema, cap)
    return None if constrained is None else Prepared(constrained, schema, path)


def judge(outcome: Outcome, request: Request) -> Outcome:
    """Hold a turn to the choice: calls that it forbids go, and what it asks for and is not there is a fault.

    An outcome that the choice has nothing to say to comes back as it is. Calls go only if what it asks for is there:
    a wrong call is worth more to the client than none.
    """
    choice = request.tool_choice
    if choice == FREE or not request.tools or _names_nothing(request):
        return outcome
    if choice.mode == "none":
        return _keep(_without_error(outcome, request), (), "tool_choice is none")
    if outcome.turn.error is not None:
        return outcome
    outcome = _noted(outcome)
    outcome = _allowed_only(outcome, request)
    if not choice.parallel and len(outcome.turn.calls) > 1:
        outcome = _keep(outcome, {0}, "parallel calls are off")
    return _met(outcome, request)


def _without_error(outcome: Outcome, request: Request) -> Outcome:
    """Take away an error that says no more than that a call could not be read: no call was wanted."""
    turn = outcome.turn
    if turn.error is None:
        return outcome
    read = repair_turn(Turn(finish="error", error=turn.error), replace(request, tool_choice=ToolChoice()))
    if not read.faults and not read.repairs:
        return outcome
    gone = Repair("choose", "/error", turn.error, None, "a call, and tool_choice is none")
    return replace(outcome, turn=replace(turn, error=None, finish="stop"), repairs=(*outcome.repairs, gone))


def _noted(outcome: Outcome) -> Outcome:
    """Say which calls were read from an envelope that was asked for."""
    made = tuple(
        Repair("choose", f"/calls/{index}", None, {"name": call.name, "arguments": call.arguments}, "constrained")
        for index, call in enumerate(outcome.turn.calls)
        if call.dialect == ENVELOPE
    )
    return replace(outcome, repairs=made + outcome.repairs) if made else outcome


def _allowed_only(outcome: Outcome, request: Request) -> Outcome:
    """Drop calls outside the allowed tools, if one inside is left."""
    choice, calls = request.tool_choice, outcome.turn.calls
    inside = {index for index, call in enumerate(calls) if call.name in choice.names}
    if not choice.names or not inside or len(inside) == len(calls):
        return outcome
    return _keep(outcome, inside, f"tool_choice allows {', '.join(choice.names)}")


def _met(outcome: Outcome, request: Request) -> Outcome:
    choice = request.tool_choice
    if choice.mode == "auto" and not (choice.names and outcome.turn.calls):
        return outcome
    lost = {call_index(fault.path) for fault in outcome.faults if fault.keyword in NO_CALL}
    allowed = {tool.name for tool in allowed_tools(request)}
    for index, call in enumerate(outcome.turn.calls):
        if index not in lost and call.name in allowed:
            return outcome
    if choice.mode != "auto" and (lifted := _lifted(outcome, request)) is not None:
        return lifted
    wanted = " or ".join(choice.names) or "any tool"
    message = f"the choice is {choice.mode}, and there is no call to {wanted}"
    return replace(outcome, faults=(*outcome.faults, Fault("/calls", "tool-choice", message)))


def _lifted(outcome: Outcome, request: Request) -> Outcome | None:
    """Read a text that is the arguments of the one tool that was forced: then nothing needs to be asked.

    Source: reports of forced calls that came back as bare arguments in the content.
    """
    turn, allowed = outcome.turn, allowed_tools(request)
    if turn.calls or len(allowed) != 1 or not turn.text.strip() or request.stream:
        return None
    parsed = parse(turn.text)
    if parsed is None or not isinstance(parsed.value, dict) or not parsed.value:
        return None
    read = ToolCall("", allowed[0].name, parsed.value)
    call, liberties, faults = repair_call(read, allowed)
    if faults:
        return None
    repairs = (
        Repair("choose", "/text", turn.text, "", "the arguments of the forced tool"),
        Repair("choose", "/calls/0", None, {"name": read.name, "arguments": read.arguments}),
        *liberties,
    )
    made = replace(turn, text="", calls=(call,), finish="tool_calls")
    return Outcome(made, outcome.repairs + repairs, ())


def _keep(outcome: Outcome, indices: Collection[int], reason: str) -> Outcome:
    """Keep only these calls; what was said of the others goes with them."""
    calls = outcome.turn.calls
    kept = [index for index in range(len(calls)) if index in indices]
    if len(kept) == len(calls):
        return outcome
    gone = tuple(
        Repair("choose", f"/calls/{index}", {"name": call.name, "arguments": call.arguments}, None, reason)
        for index, call in enumerate(calls)
        if index not in indices
    )
    moved = {old: new for new, old in enumerate(kept)}
    turn = replace(outcome.turn, calls=tuple(calls[index] for index in kept))
    if not kept and turn.finish == "tool_calls":
        turn = replace(turn, finish="stop")
    repairs = tuple(_moved(repair, moved) for repair in outcome.repairs if _stays(repair, moved))
    faults = tuple(_moved(fault, moved) for fault in outcome.faults if _stays(fault, moved))
    return Outcome(turn, repairs + gone, faults)


def call_index(path: str) -> int | None:
    """Return the index of the call that a pointer leads into, None when it leads elsewhere."""
    match = CALL.match(path)
    return int(match[1]) if match else None


def _stays(note: Repair | Fault, moved: dict[int, int]) -> bool:
    index = call_index(note.path)
    return index is None or index in moved


def _moved(note: Note, moved: dict[int, int]) -> Note:
    index = call_index(note.path)
    if index is None:
        return note
    return replace(note, path=f"/calls/{moved[index]}{note.path.removeprefix(f'/calls/{index}')}")
