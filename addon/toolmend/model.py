"""Name the things the wire speaks of: requests, tools, turns, calls, and what was done to them.

Everything here is a value: frozen, without I/O, the same for all four surfaces. Decoded JSON (`Json`) stops at the
surface; past it there are these types.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

Json: TypeAlias = "bool | int | float | str | list[Json] | dict[str, Json] | None"
JsonObject: TypeAlias = dict[str, Json]

ChoiceMode: TypeAlias = Literal["auto", "none", "required", "named"]
Finish: TypeAlias = Literal["stop", "tool_calls", "length", "error"]
Rung: TypeAlias = Literal["recover", "parse", "names", "unwrap", "keys", "coerce", "choose", "follow-up", "wire"]


class DecodeError(ValueError):
    """Raised for bytes that are not this surface's: the only exception of the core. They pass as they came."""


@dataclass(frozen=True, slots=True)
class Tool:
    """Hold one tool that a request declares.

    `name` is the name Ollama uses for it; a tool inside a Responses namespace is `namespace.name` there.
    `parameters` is its JSON schema, `{}` when it declares none.
    """

    name: str
    parameters: JsonObject = field(default_factory=dict)
    description: str = ""
    namespace: str | None = None

    @property
    def local_name(self) -> str:
        """Return the name without its namespace, as the client declared it."""
        return self.name if self.namespace is None else self.name.removeprefix(self.namespace + ".")


@dataclass(frozen=True, slots=True)
class ToolChoice:
    """Hold what the client asked for: `names` are the tools it allows (empty: all that are offered)."""

    mode: ChoiceMode = "auto"
    names: tuple[str, ...] = ()
    parallel: bool = True


class Body:
    """Hold a request's body, decoded; put away, it is no more than the bytes that are there anyway.

    Decoded, a body takes several times the room of its bytes: too much for every stream that is open.
    """

    __slots__ = ("_document", "_raw")

    def __init__(self, document: JsonObject) -> None:
        self._document: JsonObject | None = document
        self._raw = b""

    @property
    def document(self) -> JsonObject:
        """Return the body decoded. It is never edited."""
        if self._document is None:
            self._document = json.loads(self._raw)
        assert self._document is not None
        return self._document

    def put_away(self, raw: bytes) -> None:
        """Keep the bytes that it was decoded from in its place, until it is asked for again."""
        self._document, self._raw = None, raw


@dataclass(frozen=True, slots=True)
class Request:
    """Hold what a chat request says, read by its surface."""

    surface: str
    model: str
    tools: tuple[Tool, ...]
    tool_choice: ToolChoice
    stream: bool
    body: Body

    @property
    def document(self) -> JsonObject:
        """Return the body as received, decoded. It is never edited."""
        return self.body.document

    def tool(self, name: str) -> Tool | None:
        """Return the offered tool of exactly this name."""
        return next((tool for tool in self.tools if tool.name == name), None)


@dataclass(frozen=True, slots=True)
class ToolCall:
    """Hold one call of a turn.

    `arguments` is the decoded object; or, when it does not decode to an object, what came: text, None (null), a list.
    `raw` is the arguments' text as received on surfaces that carry text; a repair sets it to None.
    `dialect` names the form in which the call stood in text; None means that it came structured.
    `namespace` is set on a delivered call to a tool inside a Responses namespace (`name` is then the local name).
    """

    id: str
    name: str
    arguments: Json
    dialect: str | None = None
    raw: str | None = None
    namespace: str | None = None


@dataclass(frozen=True, slots=True)
class Turn:
    """Hold one whole answer of the model.

    `finish` is None when the answer ended without saying why (a broken stream). `error` is the server's message.
    `tokens` counts what was generated, None where the surface does not say. `raw` is the model's own text, read by
    the tap, None without it.
    """

    text: str = ""
    thinking: str = ""
    calls: tuple[ToolCall, ...] = ()
    finish: Finish | None = None
    error: str | None = None
    tokens: int | None = None
    raw: str | None = None


@dataclass(frozen=True, slots=True)
class Repair:
    """Hold one liberty that was taken: `path` is a JSON pointer into the turn (`/calls/0/arguments/days`, `/text`).

    `note` says in a few words what the values cannot show ("parsed from text", "hermes", "asked again").
    """

    rung: Rung
    path: str
    before: Json
    after: Json
    note: str = ""


@dataclass(frozen=True, slots=True)
class Fault:
    """Hold one defect that is left.

    `keyword` is the JSON schema keyword that failed (`required`, `type`, `enum` …), or one of ours:
    `syntax` (arguments that are no JSON object), `unknown-tool` (a name that is not offered and hints at no offered
    tool: passed as it came), `invented-tool` (not offered, but its words or keys hint at an offered one), `unreadable`
    (a call was opened and cannot be read), `cut` (ended by the token limit or inside a string: the limit stands),
    `swallowed` (tokens were generated and nothing arrived), `unfinished` (the turn ended in its thinking after
    announcing a call), `server-error`, `broken-off` (a stream that said something and has no end: whether a call was
    meant is not known), `unsearched` (a text made of beginnings of calls, or longer than any answer: looking through it
    was given up, and it passed as it came), `tool-choice` (the choice is not met).
    """

    path: str
    keyword: str
    message: str


@dataclass(frozen=True, slots=True)
class Outcome:
    """Hold what the ladder made of a turn: the turn as it is now, the liberties taken, the defects left."""

    turn: Turn
    repairs: tuple[Repair, ...] = ()
    faults: tuple[Fault, ...] = ()


# Events: what one frame adds to a turn. A frame of an unknown kind adds nothing and passes.


@dataclass(frozen=True, slots=True)
class TextPart:
    """Add text to the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class ThinkingPart:
    """Add text to the thinking."""

    text: str


@dataclass(frozen=True, slots=True)
class CallPart:
    """Open a call, or add to one.

    `key` tells calls of one turn apart: an index among the calls (an integer), or whatever names the call on the wire
    (text); None when the frame has neither. `id` and
    `name` are empty when the frame does not carry them. `arguments` is text to be joined (OpenAI deltas, Anthropic
    partial_json), or a whole value on surfaces that send objects; None adds nothing. `whole` marks those: the part is a
    call of its own, and its arguments are the value itself, so that text in place of an object stays text.
    """

    key: str | int | None
    id: str = ""
    name: str = ""
    arguments: Json = None
    namespace: str | None = None
    whole: bool = False


@dataclass(frozen=True, slots=True)
class EndPart:
    """End the turn, or give its token count. `finish` None leaves the reason as it is; `tokens` None likewise."""

    finish: Finish | None = None
    tokens: int | None = None


@dataclass(frozen=True, slots=True)
class ErrorPart:
    """Fail the turn with the server's message."""

    message: str


Event: TypeAlias = TextPart | ThinkingPart | CallPart | EndPart | ErrorPart
