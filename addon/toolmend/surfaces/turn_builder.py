"""Join what the frames of an answer add into one turn, and the pieces of each call into one clean call.

Streams break the rules in known ways: an index is used again for the next call, or is missing; ids are missing, empty,
or new on every delta; the name comes late, or with every delta; arguments are null first. All of them join here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import Final

from toolmend.model import (
    CallPart,
    EndPart,
    ErrorPart,
    Event,
    Finish,
    Json,
    Repair,
    TextPart,
    ThinkingPart,
    ToolCall,
    Turn,
)
from toolmend.surfaces.wire import load_strict

STRUCTURE: Final = re.compile(r'[\\"{}\[\]]')


def decode_arguments(text: str) -> Json:
    """Decode a call's arguments: an object, None for null, `{}` for none at all, else the text as it came."""
    if not text.strip():
        return {}
    try:
        value = load_strict(text)
    except ValueError:
        return text
    return value if value is None or isinstance(value, dict) else text


@dataclass(slots=True)
class Nesting:
    """Tell whether JSON that comes in pieces has closed what it opened, looking at each piece once."""

    depth: int = 0
    opened: bool = False
    in_string: bool = False
    escaped: bool = False

    def feed(self, text: str) -> None:
        """Take in the next piece."""
        skip = 0 if self.escaped and text else -1
        self.escaped = self.escaped and not text
        for found in STRUCTURE.finditer(text):
            if found.start() == skip:
                continue
            match found.group():
                case "\\" if self.in_string:
                    skip = found.end()
                    self.escaped = skip == len(text)
                case '"':
                    self.in_string = not self.in_string
                case "{" | "[" if not self.in_string:
                    self.depth += 1
                    self.opened = True
                case "}" | "]" if not self.in_string:
                    self.depth -= 1

    @property
    def closed(self) -> bool:
        """Return whether something was opened and all of it is closed."""
        return self.opened and self.depth <= 0 and not self.in_string


@dataclass(slots=True)
class OpenCall:
    """Hold a call whose pieces are still coming."""

    id: str = ""
    name: str = ""
    namespace: str | None = None
    pieces: list[str] = field(default_factory=list)
    value: Json = None
    whole: bool = False
    seen: int = 0
    nesting: Nesting = field(default_factory=Nesting)
    begun: bool = False
    had_null: bool = False
    liberties: list[tuple[str, Json, str]] = field(default_factory=list)

    def add(self, part: CallPart) -> None:
        """Take in a part that belongs to this call."""
        for member, known, new in (("id", self.id, part.id), ("name", self.name, part.name)):
            if self.begun and new and not known:
                self.liberties.append((member, "", "came late"))
        self.begun = True
        self.had_null = self.had_null or (part.arguments is None and not part.whole)
        self.id = self.id or part.id
        if part.name and part.name != self.name:
            # Whole names grow ("get", "get_time") or come in pieces; clients join the pieces.
            self.name = part.name if part.name.startswith(self.name) else self.name + part.name
        self.namespace = self.namespace or part.namespace
        self.whole = self.whole or part.whole
        if isinstance(part.arguments, str) and not part.whole:
            self.pieces.append(part.arguments)
        elif part.arguments is not None:
            self.value = part.arguments

    @property
    def has_arguments(self) -> bool:
        """Return whether any of the arguments has come."""
        return self.value is not None or any(self.pieces)

    @property
    def complete(self) -> bool:
        """Return whether the arguments are all there."""
        while self.seen < len(self.pieces):
            self.nesting.feed(self.pieces[self.seen])
            self.seen += 1
        return self.value is not None or self.nesting.closed

    def takes(self, part: CallPart) -> bool:
        """Tell whether a part under the same key, or under none, goes on with this call or opens the next one."""
        if part.whole or self.whole:
            return False
        brings = bool(part.arguments)
        if part.id and self.id and part.id != self.id:
            # Some servers make a new id for every delta: then it brings arguments that are still awaited.
            return brings and not part.name and not self.complete
        if not part.name or not self.name:
            return True
        if part.name == self.name:
            return not (brings and self.complete)
        return part.key is not None and not self.has_arguments

    def repairs(self, place: int) -> list[Repair]:
        """Return the liberties that were taken to join this call, the turn's call at this place."""
        if not self.liberties and not self.had_null:
            return []
        after: dict[str, Json] = {"index": place, "id": self.id, "name": self.name, "arguments": "".join(self.pieces)}
        nulls: list[tuple[str, Json, str]] = (
            [("arguments", None, "null first")] if self.had_null and self.pieces else []
        )
        return [
            Repair("wire", f"/calls/{place}/{member}", before, after[member], note)
            for member, before, note in [*self.liberties, *nulls]
        ]

    def call(self) -> ToolCall:
        """Return the call as joined. Text that came in pieces counts before a value that stood in the opening."""
        text = "".join(self.pieces)
        if self.whole or not self.pieces or (self.value is not None and not text.strip()):
            return ToolCall(self.id, self.name, self.value, namespace=self.namespace)
        return ToolCall(self.id, self.name, decode_arguments(text), raw=text, namespace=self.namespace)


class CallJoiner:
    """Join the parts of a turn's calls."""

    def __init__(self) -> None:
        self._calls: list[OpenCall] = []
        self._by_key: dict[str | int, int] = {}
        self._by_id: dict[str, int] = {}

    def add(self, part: CallPart) -> int:
        """Take in a part and return which call it belongs to, counted from 0 as they were opened."""
        at = self._candidate(part)
        if at is None or not self._calls[at].takes(part):
            taken = at is not None
            at = len(self._calls)
            self._calls.append(OpenCall(liberties=_index_liberties(part, at, taken)))
        if part.key is not None:
            self._by_key[part.key] = at
        if part.id:
            self._by_id[part.id] = at
        self._calls[at].add(part)
        return at

    def _candidate(self, part: CallPart) -> int | None:
        if part.key is not None:
            return self._by_key.get(part.key)
        last = len(self._calls) - 1 if self._calls else None
        return self._by_id.get(part.id, last)

    def calls(self) -> tuple[ToolCall, ...]:
        """Return the calls as joined so far."""
        return tuple(call.call() for call in self._calls)

    def repairs(self) -> tuple[Repair, ...]:
        """Return the liberties that were taken to join them."""
        return tuple(repair for place, call in enumerate(self._calls) for repair in call.repairs(place))


def _index_liberties(part: CallPart, place: int, taken: bool) -> list[tuple[str, Json, str]]:
    """Tell what is wrong with the index that opens the turn's call at this place."""
    if part.whole or part.key == place:
        return []
    if part.key is None:
        return [("index", None, "missing")]
    if taken:
        return [("index", part.key, "used again")]
    return [("index", part.key, "out of order")] if isinstance(part.key, int) else []


class TurnBuilder:
    """Join the events of one answer into its turn."""

    def __init__(self) -> None:
        self._text: list[str] = []
        self._thinking: list[str] = []
        self._calls = CallJoiner()
        self._finish: Finish | None = None
        self._error: str | None = None
        self._tokens: int | None = None

    def add(self, event: Event) -> None:
        """Take in what a frame adds."""
        match event:
            case TextPart(text):
                self._text.append(text)
            case ThinkingPart(text):
                self._thinking.append(text)
            case CallPart():
                self._calls.add(event)
            case EndPart(finish, tokens):
                self._finish = finish or self._finish
                self._tokens = self._tokens if tokens is None else tokens
            case ErrorPart(message):
                self._error = message if self._error is None else self._error

    def repairs(self, finish_says_calls: bool) -> tuple[Repair, ...]:
        """Return the liberties that were taken to join an answer that breaks the rules; none for one that keeps them.

        Clients join such an answer wrongly, or refuse it: written anew, each call is one clean delta.

        Args:
            finish_says_calls: Whether the surface's finish reason tells that there are calls.
        """
        repairs = self._calls.repairs()
        if finish_says_calls and self._finish == "stop" and self._calls.calls():
            return (*repairs, Repair("wire", "/finish", "stop", "tool_calls", "there are calls"))
        return repairs

    def turn(self) -> Turn:
        """Return the turn as joined so far. A server's error ends it with `error`, whatever else was said."""
        return Turn(
            text="".join(self._text),
            thinking="".join(self._thinking),
            calls=self._calls.calls(),
            finish=self._finish if self._error is None else "error",
            error=self._error,
            tokens=self._tokens,
        )
