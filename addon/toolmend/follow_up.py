"""Ask the model again about a turn that is broken: what to ask next, and what a reply is worth.

One turn is asked about in at most a few steps. A turn that was lost behind the server's parser is asked for once more
with its tokens shown; what is still broken then, or was broken all along, is asked for under a schema; and where the
parser loses that too, under a schema with no parser in between. Whatever fails leaves the turn as it came.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Final, Literal

from toolmend.framing import Framer
from toolmend.lenient_json import parse
from toolmend.model import (
    Body,
    DecodeError,
    Fault,
    Json,
    JsonObject,
    Outcome,
    Repair,
    Request,
    ToolCall,
    ToolChoice,
    Turn,
)
from toolmend.question_bodies import CHAT, Bodies, asks_for_json, is_harmony, opening, prompt_of
from toolmend.repair.ladder import repair_call, repair_turn
from toolmend.settings import Settings
from toolmend.surfaces import SURFACES
from toolmend.surfaces.surface import Framing, Surface
from toolmend.surfaces.turn_builder import TurnBuilder
from toolmend.surfaces.wire import join_tokens
from toolmend.tool_choice import judge
from toolmend.upstreams import Reply, Server
from toolmend.wanted import (
    Wanted,
    asking_faults,
    declines,
    question_schema,
    read_calls,
    wanted_calls,
    with_calls,
    without_leftover,
)

__all__ = ["Answered", "FollowUp", "Questions", "Reply"]

QuestionKind = Literal["constrained", "tapped", "render", "raw", "plain"]

LOST: Final = frozenset({"swallowed", "server-error", "broken-off"})
"""Faults of a turn whose text the server had and did not hand out: the tap shows it."""

SAYS_ENOUGH: Final = re.compile(r"raw='|\btool '.+' not found", re.DOTALL)
"""Errors to which the tap adds nothing: the call stands in them, or they come before the end of its arguments."""

WHY: Final[dict[str, str]] = {
    "broken-off": "the answer had no end",
    "invented-tool": "the tool is not offered",
    "server-error": "the server failed at the call",
    "swallowed": "the server swallowed the call",
    "syntax": "the arguments could not be read",
    "tool-choice": "the tool choice was not met",
    "unfinished": "the answer ended before the call",
    "unreadable": "the call could not be read",
}
"""Why a whole call is asked for, by the fault's keyword; of other faults the parts that were asked for tell."""

REFUSALS: Final = (400, 500)
"""Statuses that say that a model's parser could not take the schema, or its answer; others say more than that."""


@dataclass(frozen=True, slots=True)
class FollowUp:
    """Hold one question: where it goes, its body, and why it is asked.

    `schema` is the one the answer is put under, `{}` for questions without. `pinned` are the values that fit already,
    an object for each call that is asked for.
    """

    path: str
    document: JsonObject
    schema: JsonObject
    pinned: tuple[JsonObject, ...]
    faults: tuple[Fault, ...]
    kind: QuestionKind


@dataclass(frozen=True, slots=True)
class Answered:
    """Hold what a turn has become: nothing that was asked about is left broken in it."""

    outcome: Outcome


class Questions:
    """Ask about one turn. `next` gives the first question for None, then the next one for each reply.

    It returns `Answered` once the turn is whole, and None when there is nothing (more) worth asking: then the turn
    goes out as it came. A reply of None is one that never came.
    """

    def __init__(
        self, surface: Surface, request: Request, outcome: Outcome, server: Server, settings: Settings
    ) -> None:
        self._request = request
        self._outcome = outcome
        self._server = server
        self._settings = settings
        self._notes = server.model(request.model)
        self._bodies = Bodies(surface, request, server, settings)
        self._defs: JsonObject = {}
        self._wanted: tuple[Wanted, ...] = ()
        self._path = surface.path
        self._bare = False
        self._next: Callable[[Reply | None], FollowUp | Answered | None] = self._begin

    def next(self, reply: Reply | None) -> FollowUp | Answered | None:
        """Take in the reply to the last question and return what follows from it."""
        return self._next(reply)

    def _begin(self, reply: Reply | None) -> FollowUp | Answered | None:
        faults = asking_faults(self._outcome)
        if not faults or not self._settings.follow_up or self._request.tool_choice.mode == "none":
            return None
        if not self._notes.may_ask():
            return None
        return self._tap() if self._is_lost() else self._constrain()

    def _is_lost(self) -> bool:
        """Tell whether the model's own text is worth asking for: it was lost, and it is not known yet."""
        turn = self._outcome.turn
        lost = any(fault.keyword in LOST for fault in self._outcome.faults)
        # An error in place of the whole answer takes the tokens with it; streamed, they come before the error.
        known = bool(turn.raw) if turn.error is not None else turn.raw is not None
        known = known or SAYS_ENOUGH.search(turn.error or "") is not None
        return lost and not known and self._server.may_tap(self._request.model, self._settings)

    # With the tokens shown

    def _tap(self) -> FollowUp:
        self._next = self._after_tap
        return self._question("tapped", *self._bodies.tapped())

    def _after_tap(self, reply: Reply | None) -> FollowUp | Answered | None:
        if reply is None:
            return self._fail()
        if reply.status != 200:
            if reply.status == 400 and b"does not support thinking" not in reply.body:
                self._notes.tap_refused = True
            return self._constrain()
        turn = read_reply(CHAT, self._request.model, reply)
        if turn is None:
            return self._constrain()
        read = judge(repair_turn(turn, self._request), self._request)
        keywords = {fault.keyword for fault in read.faults}
        if turn.finish == "length" or "cut" in keywords or (keywords and not asking_faults(read)):
            # The client's own limit stands, and a tool that is not offered is the agent's to refuse.
            return None
        return self._tapped(read)

    def _tapped(self, read: Outcome) -> FollowUp | Answered | None:
        """Take over what the tap brought: the answer itself, or a turn of which more is known than before."""
        kept = without_leftover(self._outcome, self._request)
        text = read.turn.text if read.turn.text.startswith(kept.text) else kept.text
        turn = replace(read.turn, text=text, thinking=kept.thinking or read.turn.thinking)
        if turn.calls:
            calls: list[Json] = [{"name": call.name, "arguments": call.arguments} for call in turn.calls]
            note = Repair("follow-up", "/calls", None, calls, "with its tokens shown")
        else:
            note = Repair("follow-up", "/text", kept.text, text, "with its tokens shown")
        outcome = Outcome(turn, (*self._outcome.repairs, note, *read.repairs), read.faults)
        if not read.faults and (turn.calls or text != kept.text or self._lacks_only_its_end(read.turn)):
            return self._answered(outcome)
        if turn.calls:
            self._outcome = outcome
        return self._constrain()

    def _lacks_only_its_end(self, again: Turn) -> bool:
        """Tell whether the same answer has come once more, of a turn that was broken off."""
        faults = self._outcome.faults
        return again.text == self._outcome.turn.text and all(fault.keyword == "broken-off" for fault in faults)

    # Under a schema

    def _constrain(self) -> FollowUp | Answered | None:
        self._defs = {}
        self._wanted = wanted_calls(self._outcome, self._request, self._defs)
        may_be_text = self._request.tool_choice.mode == "auto" and all(one.index is None for one in self._wanted)
        if not self._wanted or (may_be_text and asks_for_json(self._request.document)):
            return None
        schema = question_schema(self._wanted)
        body = None if self._notes.loses_schema else self._bodies.constrained(schema)
        if body is None:
            return self._render()
        self._next = self._after_constrained
        self._path = body[0]
        return self._question("constrained", *body, schema)

    def _after_constrained(self, reply: Reply | None) -> FollowUp | Answered | None:
        if reply is None or reply.status not in (200, *REFUSALS):
            return self._fail()
        turn = read_reply(self._path, self._request.model, reply)
        if turn is None or turn.error is not None:
            return self._render()
        if declines(turn, self._wanted):
            return self._declined()
        calls = read_calls(turn, self._wanted)
        if calls is not None:
            return self._placed(calls)
        if turn.finish == "length":
            return self._fail()
        self._notes.loses_schema = True
        return self._render()

    # With no parser in between

    def _render(self) -> FollowUp | Answered | None:
        if not self._server.may_render(self._request.model):
            return self._fail()
        self._next = self._after_render
        return self._question("render", *self._bodies.render())

    def _after_render(self, reply: Reply | None) -> FollowUp | Answered | None:
        prompt = None if reply is None else prompt_of(reply.body)
        if prompt is None:
            self._server.render_refused = reply is not None and reply.status in (200, 400, 404)
            return self._fail()
        one = self._wanted[0]
        self._bare = is_harmony(prompt) and len(self._wanted) == 1 and len(one.tools) == 1
        defs_schema = {**one.arguments, "$defs": self._defs} if self._defs else one.arguments
        schema = defs_schema if self._bare else question_schema(self._wanted)
        name = one.tools[0].name if self._bare else None
        opened = opening(prompt, self._outcome.turn.thinking, self._request.tools, name)
        self._next = self._after_raw
        return self._question("raw", *self._bodies.raw(prompt, opened, schema), schema)

    def _after_raw(self, reply: Reply | None) -> FollowUp | Answered | None:
        text = generated(reply) if reply is not None and reply.status == 200 else None
        parsed = None if text is None else parse(text)
        if parsed is None:
            return self._fail()
        one = self._wanted[0]
        found: Json = {"name": one.tools[0].name, "arguments": parsed.value} if self._bare else parsed.value
        turn = Turn(text=json.dumps(found))
        if declines(turn, self._wanted):
            return self._declined()
        calls = read_calls(turn, self._wanted)
        return self._fail() if calls is None else self._placed(calls)

    # What it comes to

    def _placed(self, calls: tuple[ToolCall, ...]) -> Answered | None:
        """Put the calls into the turn, if they are valid as the ladder leaves them and the choice is met."""
        checked = [self._checked(call) for call in calls]
        whole = tuple(call for call in checked if call is not None)
        if len(whole) < len(calls):
            return self._fail()
        turn = with_calls(self._outcome, self._request, self._wanted, whole)
        notes = tuple(self._note(one, turn, call) for one, call in zip(self._wanted, whole, strict=True))
        left = tuple(fault for fault in self._outcome.faults if fault.keyword == "unknown-tool")
        if len(turn.calls) == len(calls):
            left = ()
        outcome = judge(Outcome(turn, (*self._outcome.repairs, *notes), left), self._request)
        return self._fail() if asking_faults(outcome) else self._answered(outcome)

    def _checked(self, call: ToolCall) -> ToolCall | None:
        repaired, _, faults = repair_call(call, self._request.tools)
        return None if faults else repaired

    def _note(self, one: Wanted, turn: Turn, call: ToolCall) -> Repair:
        if one.index is not None and one.call is not None and one.call.name == call.name:
            path = f"/calls/{one.index}/arguments"
            return Repair("follow-up", path, one.call.arguments, call.arguments)
        index = turn.calls.index(call)
        old = one.call
        before: Json = None if old is None else {"name": old.name, "arguments": old.arguments}
        after: Json = {"name": call.name, "arguments": call.arguments}
        return Repair("follow-up", f"/calls/{index}", before, after, self._why())

    def _why(self) -> str:
        """Say in a few words why the turn was asked about."""
        faults = asking_faults(self._outcome)
        return WHY.get(faults[0].keyword, "") if faults else ""

    def _answered(self, outcome: Outcome) -> Answered:
        self._notes.asked_well()
        return Answered(outcome)

    def _declined(self) -> Answered | None:
        """Note that the model meant none of the tools: the turn stays as it came, and that is an answer."""
        self._notes.asked_well()
        return None

    def _fail(self) -> Answered | None:
        """Note that asking did not help: the turn stays as it came."""
        self._notes.asked_badly()
        return None

    def _question(
        self, kind: QuestionKind, path: str, document: JsonObject, schema: JsonObject | None = None
    ) -> FollowUp:
        pinned = tuple(one.pinned for one in self._wanted) if schema is not None else ()
        return FollowUp(path, document, schema or {}, pinned, asking_faults(self._outcome), kind)


def read_reply(path: str, model: str, reply: Reply) -> Turn | None:
    """Read a reply as a turn, its tokens as the turn's raw text; None when it is not that surface's.

    Args:
        path: The path that was asked.
        model: The model that was asked.
        reply: The reply, whole or streamed.
    """
    surface = SURFACES[path]
    framing: Framing = "ndjson" if "ndjson" in reply.content_type else "json"
    framer = Framer(framing)
    codec = surface.codec(Request(surface.name, model, (), ToolChoice(), False, Body({})), framing)
    builder, tokens, first = TurnBuilder(), [], True
    try:
        for raw in (*framer.feed(reply.body), *framer.finish()):
            frames, text = surface.untap(raw, first)
            tokens.append(text)
            first = first and not frames
            for frame in frames:
                for event in codec.read(frame).events:
                    builder.add(event)
    except DecodeError:
        return None
    turn = builder.turn()
    return replace(turn, raw=join_tokens(tokens)) if any(tokens) else turn


def generated(reply: Reply) -> str | None:
    """Read the text of an /api/generate reply; None when it is none, or was cut by the token limit."""
    try:
        document = json.loads(reply.body)
    except (ValueError, RecursionError):
        return None
    if not isinstance(document, dict) or document.get("done_reason") == "length":
        return None
    text = document.get("response")
    return text if isinstance(text, str) else None
