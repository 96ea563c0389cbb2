"""Say what a question is to bring: whole calls, or only the parts of a call that do not fit.

What fits already is the model's own word and is not asked again: short values are pinned in the schema (`const`), so
that the model sees what it goes on from; long ones are left out and put back afterwards.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

from toolmend.dialects.scanner import Scanner
from toolmend.envelopes import (
    NO_ARGUMENTS,
    allowed_tools,
    arguments_schema,
    envelope,
    envelope_of_any,
    read_objects,
    with_defs,
)
from toolmend.grammar_schema import ANY, Thinner
from toolmend.model import Fault, Json, JsonObject, Outcome, Request, Tool, ToolCall, Turn
from toolmend.repair.names import snap
from toolmend.repair.schema import Validator, pointer, validator
from toolmend.tool_choice import call_index

NOT_ASKED: Final = frozenset({"unknown-tool", "cut", "unsearched"})
"""Faults that no question mends: the model meant no tool of ours, the client's own limit ended the turn, or nobody
means such text."""

LEFTOVER: Final = frozenset({"unreadable", "invented-tool"})
"""Faults of a call in text: what is left of it there goes when the call comes another way."""

DECLINED: Final = "none_of_these_tools"
"""What a model answers that meant none of the offered tools: a call is not forced on it."""

MAY_BE_NONE: Final = frozenset({"invented-tool", "broken-off"})
"""Faults of turns that need not have meant an offered tool."""

QUOTED: Final = re.compile(r"""['"`]([^'"`\s]{1,80})['"`]""")
LONGEST_PINNED: Final = 200
MOST_ITEMS: Final = 20


def asking_faults(outcome: Outcome) -> tuple[Fault, ...]:
    """Return the faults that a question may mend."""
    return tuple(fault for fault in outcome.faults if fault.keyword not in NOT_ASKED)


@dataclass(frozen=True, slots=True)
class Whole:
    """Ask for a value anew."""

    schema: JsonObject

    def merged(self, value: Json, reply: Json) -> Json:
        """Return the reply: nothing of the old value stays."""
        return reply


@dataclass(frozen=True, slots=True)
class Parts:
    """Ask for some members of an object, or some items of a list, by key or index.

    `pinned` are short members that stand in the schema as they are; `dropped` are members that do not stay.
    """

    asked: Mapping[str, Whole | Parts]
    pinned: JsonObject = field(default_factory=dict)
    dropped: frozenset[str] = frozenset()

    @property
    def schema(self) -> JsonObject:
        """Return the schema of the answer. A list's items are members too, under their index."""
        properties: JsonObject = {name: {"const": value} for name, value in self.pinned.items()}
        properties |= {name: part.schema for name, part in self.asked.items()}
        required: list[Json] = [*properties]
        return {"type": "object", "properties": properties, "required": required, "additionalProperties": False}

    def merged(self, value: Json, reply: Json) -> Json:
        """Put what was asked for into the old value. A reply of another form comes back as it is, to be found wrong."""
        if not isinstance(reply, dict):
            return reply
        if isinstance(value, list):
            return [
                self.asked[str(at)].merged(item, reply.get(str(at))) if str(at) in self.asked else item
                for at, item in enumerate(value)
            ]
        old = value if isinstance(value, dict) else {}
        kept = {name: item for name, item in old.items() if name not in self.dropped}
        for name, part in self.asked.items():
            if name in reply:
                kept[name] = part.merged(old.get(name), reply[name])
        return kept


class Planner:
    """Plan what to ask of one call's arguments."""

    def __init__(self, tool: Tool, arguments: JsonObject, defs: JsonObject) -> None:
        self._check: Validator = validator(tool.parameters)
        self._thin = Thinner(self._check.schema, defs)
        self._broken = {fault.path: fault.keyword for fault in self._check.faults(arguments)}
        self._arguments = arguments

    def plan(self) -> Parts | None:
        """Return the plan; None when the arguments must be asked for as a whole, or nothing in them is broken."""
        plan = self._part(self._arguments, self._check.schema, "")
        return plan if isinstance(plan, Parts) and plan.asked else None

    def _part(self, value: Json, schema: Json, path: str) -> Whole | Parts | None:
        """Plan one value: None when it fits."""
        if path in self._broken:
            return Whole(self._thin.node(schema))
        if not any(broken.startswith(path + "/") for broken in self._broken):
            return None
        resolved = self._check.resolve(schema)
        plan: Parts | None = None
        if isinstance(value, dict) and not {"anyOf", "oneOf", "allOf"} & set(resolved):
            plan = self._members(value, resolved, path)
        elif isinstance(value, list) and isinstance(resolved.get("items"), dict):
            plan = self._items(value, resolved["items"], path)
        return plan or Whole(self._thin.node(schema))

    def _members(self, value: JsonObject, schema: JsonObject, path: str) -> Parts | None:
        declared = schema.get("properties")
        properties: JsonObject = declared if isinstance(declared, dict) else {}
        names = [*properties, *(name for name in self._broken_children(path) if name not in properties)]
        asked: dict[str, Whole | Parts] = {}
        pinned: JsonObject = {}
        surplus = {name for name in names if self._broken.get(pointer(path, name)) == "additionalProperties"}
        for name in names:
            place = pointer(path, name)
            if name in surplus:
                continue
            if name not in value:
                if place in self._broken:
                    asked[name] = Whole(self._thin.node(properties.get(name, ANY)))
            elif (part := self._part(value[name], properties.get(name, ANY), place)) is not None:
                asked[name] = part
            elif len(json.dumps(value[name], ensure_ascii=False)) < LONGEST_PINNED:
                pinned[name] = value[name]
        return Parts(asked, pinned, frozenset(surplus)) if asked else None

    def _items(self, value: list[Json], schema: Json, path: str) -> Parts | None:
        asked: dict[str, Whole | Parts] = {}
        for at, item in enumerate(value):
            if (part := self._part(item, schema, pointer(path, at))) is not None:
                asked[str(at)] = part
        return Parts(asked) if 0 < len(asked) <= MOST_ITEMS else None

    def _broken_children(self, path: str) -> list[str]:
        inside = [broken[len(path) + 1 :] for broken in self._broken if broken.startswith(path + "/")]
        return list(dict.fromkeys(rest.replace("~1", "/").replace("~0", "~") for rest in inside if "/" not in rest))


@dataclass(frozen=True, slots=True)
class Wanted:
    """Hold one call that a question is to bring.

    `index` is the call's place in the turn, None when it is a new one. `tools` are those it may go to. `plan` says
    which parts of `call` are asked for; None asks for all of its arguments. `declinable` leaves the model the answer
    that it meant none of the tools.
    """

    index: int | None
    tools: tuple[Tool, ...]
    call: ToolCall | None = None
    plan: Parts | None = None
    defs: JsonObject = field(default_factory=dict)
    declinable: bool = False

    @property
    def pinned(self) -> JsonObject:
        """Return what of the call stays as it is."""
        return dict(self.plan.pinned) if self.plan is not None else {}

    @property
    def arguments(self) -> JsonObject:
        """Return the schema of the arguments, for a call to one tool."""
        if self.plan is not None:
            return self.plan.schema
        return arguments_schema(self.tools[0], self.defs)

    @property
    def schema(self) -> JsonObject:
        """Return the schema of the envelope."""
        one = envelope(self.tools[0].name, self.arguments)
        schema = one if len(self.tools) == 1 else envelope_of_any(self.tools, self.defs)
        if not self.declinable:
            return schema
        branches = schema.get("anyOf")
        return {"anyOf": [*(branches if isinstance(branches, list) else [schema]), envelope(DECLINED, NO_ARGUMENTS)]}

    def read(self, found: JsonObject) -> ToolCall | None:
        """Read the call from an envelope; None when it is none, or of another tool."""
        name, arguments = found.get("name"), found.get("arguments")
        if not isinstance(name, str) or not isinstance(arguments, dict):
            return None
        if name not in [tool.name for tool in self.tools]:
            return None
        old = self.call
        if old is None or self.plan is None:
            return ToolCall(old.id if old else "", name, arguments)
        return ToolCall(old.id, name, self.plan.merged(old.arguments, arguments))


def wanted_calls(outcome: Outcome, request: Request, defs: JsonObject) -> tuple[Wanted, ...]:
    """Say which calls to ask for, in their order: each broken one, or a new one when there is none to mend.

    Something is left to ask about in the outcome. What their schemas point to is added to `defs`.
    """
    faults, calls = asking_faults(outcome), outcome.turn.calls
    broken = sorted({index for fault in faults if (index := call_index(fault.path)) is not None})
    if not broken or any(fault.keyword == "tool-choice" for fault in faults):
        declinable = MAY_BE_NONE.issuperset(fault.keyword for fault in faults)
        return (Wanted(None, _meant_tools(faults, request), defs=defs, declinable=declinable),)
    return tuple(_mended(index, calls[index], request, defs) for index in broken if index < len(calls))


def _mended(index: int, call: ToolCall, request: Request, defs: JsonObject) -> Wanted:
    tool = request.tool(call.name)
    if tool is None:
        return Wanted(index, allowed_tools(request), call, None, defs, declinable=request.tool_choice.mode == "auto")
    plan = Planner(tool, call.arguments, defs).plan() if isinstance(call.arguments, dict) else None
    return Wanted(index, (tool,), call, plan, defs)


def _meant_tools(faults: Sequence[Fault], request: Request) -> tuple[Tool, ...]:
    """Return the tools that a new call may go to: the one that the server's error names, else all that are allowed."""
    allowed = allowed_tools(request)
    said = " ".join(fault.message for fault in faults if fault.keyword == "server-error")
    snapped = [snap(name, allowed) for name in QUOTED.findall(said)]
    named = {found.tool.name: found.tool for found in snapped if found is not None}
    return tuple(named.values()) if len(named) == 1 else allowed


def question_schema(wanted: Sequence[Wanted]) -> JsonObject:
    """Return the schema of the answer: the envelope, or an object with an envelope for each call.

    An object rather than a list: a list of unlike items is not known to all grammars.
    """
    if len(wanted) == 1:
        schema = wanted[0].schema
    else:
        members: JsonObject = {_member(at): one.schema for at, one in enumerate(wanted)}
        required: list[Json] = [*members]
        schema = {"type": "object", "properties": members, "required": required, "additionalProperties": False}
    return with_defs(schema, wanted[0].defs)


def _member(at: int) -> str:
    return f"call_{at + 1}"


def read_calls(turn: Turn, wanted: Sequence[Wanted]) -> tuple[ToolCall, ...] | None:
    """Read the answer to a question: the calls in the order in which they were wanted, None when there are none."""
    for found in read_objects(turn):
        parts = [found] if len(wanted) == 1 else [found.get(_member(at)) for at in range(len(wanted))]
        calls = [
            call
            for one, part in zip(wanted, parts, strict=True)
            if isinstance(part, dict) and (call := one.read(part)) is not None
        ]
        if len(calls) == len(wanted):
            return tuple(calls)
    return None


def declines(turn: Turn, wanted: Sequence[Wanted]) -> bool:
    """Tell whether the answer to a question is that none of the tools was meant."""
    return any(one.declinable for one in wanted) and any(
        part.get("name") == DECLINED
        for found in read_objects(turn)
        for part in (found, *found.values())
        if isinstance(part, dict)
    )


def with_calls(outcome: Outcome, request: Request, wanted: Sequence[Wanted], calls: Sequence[ToolCall]) -> Turn:
    """Return the turn with these calls in the place of what was broken, and nothing left of that."""
    turn = outcome.turn
    if any(fault.keyword == "tool-choice" for fault in outcome.faults):
        placed: tuple[ToolCall, ...] = tuple(calls)
    else:
        at_place = {one.index: call for one, call in zip(wanted, calls, strict=True) if one.index is not None}
        old = tuple(at_place.get(index, call) for index, call in enumerate(turn.calls))
        placed = old + tuple(call for one, call in zip(wanted, calls, strict=True) if one.index is None)
    cleared = without_leftover(outcome, request)
    return replace(cleared, calls=placed, finish="tool_calls", error=None)


def without_leftover(outcome: Outcome, request: Request) -> Turn:
    """Return the turn without the part of its text that was meant to be a call: what came before it has gone out."""
    turn = outcome.turn
    places = {fault.path for fault in outcome.faults if fault.keyword in LEFTOVER}
    if "/text" in places:
        turn = replace(turn, text=_before_call(turn.text, request))
    if "/thinking" in places:
        turn = replace(turn, thinking=_before_call(turn.thinking, request))
    return turn


def _before_call(text: str, request: Request) -> str:
    return text[: Scanner(request.tools).feed(text)]
