"""Read the calls that stand together at a place, with the markers round and between them."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final

from toolmend.dialects.json_calls import may_be_call
from toolmend.dialects.positions import at_call_position
from toolmend.dialects.source import READING, Reading, Source, State
from toolmend.dialects.table import DIALECTS
from toolmend.dialects.tags import TAG, Tag, Trivia, skip_trivia, tag_at
from toolmend.model import ToolCall

STRAY: Final = 300
"""How many stray characters may stand between the markers of an open container."""
OBJECT = re.compile(rf"[^<>{{}}\[\]]{{1,{STRAY}}}\n\s*+(?=\{{)")
FENCE = re.compile(r"`{3,}\w*\s*")
FENCE_END = re.compile(r"\s*`{3,}")
PAYLOAD: Final = "{[<\"'"

BY_MARKER: Final[dict[str, str]] = {
    "pythontag": "llama3-json",
    "pythonstart": "llama4",
    "toolsprefix": "apertus",
    "actionstart": "internlm",
    "plugin": "internlm",
    "startaction": "command-r7b",
    "toolcallstart": "lfm2",
    "toolcallssectionbegin": "kimi-k2",
    "toolcallsbegin": "deepseek",
    "startfunctioncall": "functiongemma",
}
BY_FORM: Final[dict[str, str]] = {"json": "hermes", "named": "name and json", "pythonic": "pythonic", "gemma": "gemma4"}


@dataclass(frozen=True, slots=True)
class Block:
    """Hold calls that stand together, from `start` to `end`, with everything round them that belongs to their form.

    `form` names the dialect. `marker` says that the form cannot be taken for prose; `chatter` that words may follow.
    `shown` says that the block only shows a call, `example` that the words before it say so; `whole` that nothing
    stands before it; `at_position` that it stands where a call may begin; `closed` that its own end was there. `kept`
    is text inside that stays visible.
    """

    start: int
    end: int
    calls: tuple[ToolCall, ...] = ()
    state: State = "calls"
    form: str = ""
    marker: bool = False
    chatter: bool = False
    shown: bool = False
    example: bool = False
    whole: bool = False
    at_position: bool = True
    fenced: bool = False
    closed: bool = True
    kept: str = ""


def read_block(source: Source, at: int, form: str = "") -> Block | None:
    """Read all calls that stand together from the position on; None when no form begins there.

    Args:
        source: The text.
        at: Where the block begins.
        form: The dialect, when its marker stands before the position and is no tag.
    """
    return _Reader(source, at, form).read()


def dialect_name(opener: Tag | None, form: str) -> str:
    """Name the dialect that a marker and a payload make together."""
    if opener is None or form not in BY_FORM:
        return form
    if opener.special and opener.name in ("toolcall", "toolcalls") and not opener.written:
        return "mistral"
    if opener.name == "toolcallbegin":
        return "deepseek" if "▁" in opener.written else "kimi-k2"
    return BY_MARKER.get(opener.name, BY_FORM[form])


class _Reader:
    """Read payload after payload, with the markers between them."""

    def __init__(self, source: Source, at: int, form: str) -> None:
        self.source = source
        self.start = at
        self.form = form
        self.readings: list[Reading] = []
        self.opener: Tag | None = None
        self.weak: Tag | None = None
        self.orphans = False
        self.seen = False

    def read(self) -> Block | None:
        position, depth = self.start, 0
        while True:
            trivia = skip_trivia(self.source, position, depth, behind=bool(self.readings))
            self.note(trivia)
            depth = trivia.depth
            if trivia.end >= len(self.source.text):
                return self.block(trivia.end)
            reading = self.payload(trivia.end)
            if reading is not None:
                self.readings.append(reading)
                position = reading.end
                if reading.state != "calls":
                    return self.block(self.end_of_broken(reading, depth))
            elif (following := self.behind_stray(trivia)) is not None:
                position = following
            else:
                return self.block(trivia.end if trivia.seen or self.readings else position)

    def note(self, trivia: Trivia) -> None:
        self.opener = self.opener or trivia.opener
        self.weak = self.weak or trivia.weak
        self.orphans = self.orphans or trivia.inner
        self.seen = self.seen or trivia.seen

    def payload(self, at: int) -> Reading | None:
        """Let each dialect try, in their order."""
        self.source.spend(READING)
        inside = self.opener is not None or self.weak is not None or bool(self.form)
        character = self.source.text[at]
        for dialect in DIALECTS:
            if dialect.starts and character not in dialect.starts:
                continue
            if (reading := dialect.read(self.source, at, inside=inside)) is not None:
                return reading
        return self.fenced(at) if inside and character == "`" else None

    def fenced(self, at: int) -> Reading | None:
        """Read a fence inside a marker."""
        text = self.source.text
        opening = FENCE.match(text, at)
        if opening is None or opening.end() >= len(text) or text[opening.end()] == "`":
            return None
        inner = self.payload(opening.end())
        closing = FENCE_END.match(text, inner.end) if inner else None
        return replace(inner, end=closing.end()) if inner and closing else inner

    def behind_stray(self, trivia: Trivia) -> int | None:
        """Return the position of the next marker behind stray words inside an open container."""
        special = self.opener is not None and self.opener.special
        if trivia.depth <= 0 or not (special or at_call_position(self.source.text, self.start)):
            return None
        text, at = self.source.text, trivia.end
        self.source.spend(2 * STRAY)
        if not self.readings and (announced := OBJECT.match(text, at)):
            return announced.end() if may_be_call(self.source, announced.end()) else None
        for match in TAG.finditer(text, at + 1, min(len(text), at + STRAY + 100)):
            if match.start() - at > STRAY:
                return None
            tag = tag_at(self.source, match.start())
            if tag is not None and tag.kind == "close" and tag.name == (trivia.opener.name if trivia.opener else ""):
                self.readings.append(Reading(match.start(), state="unreadable", form="marker"))
            if tag is not None and (tag.kind in ("open", "close", "function") or (tag.special and tag.kind == "end")):
                return match.start()
        return None

    def end_of_broken(self, reading: Reading, depth: int) -> int:
        """Return the end of a block that cannot be read, with its closers."""
        if reading.state == "cut":
            return len(self.source.text)
        return skip_trivia(self.source, reading.end, depth, behind=True).end

    def block(self, end: int) -> Block | None:
        """Make the block of what was read, if that is one."""
        calls = tuple(found for reading in self.readings for found in reading.calls)
        last = self.readings[-1] if self.readings else None
        state = self.state(last, calls, end)
        if state is None:
            return None
        form = self.form or (dialect_name(self.opener or self.weak, last.form) if last else "marker")
        special = self.opener is not None and self.opener.special
        return Block(
            self.start,
            end,
            tuple(replace(found, dialect=form) for found in calls),
            state,
            form,
            marker=self.opener is not None or self.orphans or any(reading.marker for reading in self.readings),
            chatter=special or any(reading.chatter for reading in self.readings),
            at_position=at_call_position(self.source.text, self.start),
            closed=last is None or last.closed,
            kept="".join(reading.kept for reading in self.readings),
        )

    def state(self, last: Reading | None, calls: tuple[ToolCall, ...], end: int) -> State | None:
        """Say how far the block was readable; None when there is no block."""
        if last is not None:
            return "unreadable" if last.state == "calls" and not calls and not last.kept else last.state
        if self.opener is not None:
            return "unreadable" if self.opens_call(self.opener, end) else None
        if not self.seen or self.weak is not None:
            return None
        return "unreadable" if self.orphans else "clean"

    def opens_call(self, opener: Tag, end: int) -> bool:
        """Tell whether an opener with nothing readable behind it is one, and not a word about it."""
        text = self.source.text
        return end >= len(text) or opener.special or text[end] in PAYLOAD or end > opener.end + 1
