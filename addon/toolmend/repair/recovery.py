"""Find the calls of a turn wherever they are: in the text, in the thinking, in an error, in the tapped raw text.

Where there is none, tell what went wrong: swallowed, unfinished, unreadable, cut, an error of the server's parser.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from toolmend import lenient_json
from toolmend.dialects import Found, find_calls
from toolmend.model import Fault, Json, Repair, Request, ToolCall, Turn
from toolmend.repair.calls import fits, repair_call
from toolmend.repair.names import VERBS, evidence, folded, snap, words_of
from toolmend.repair.schema import properties_of
from toolmend.repair.unwrapping import envelope

Recovered: TypeAlias = tuple[Turn, tuple[Repair, ...], tuple[Fault, ...]]

HIDES_LIMIT: Final = frozenset({"openai-responses"})
"""Surfaces on which an answer that the token limit has cut looks like any other (Ollama says `completed`)."""

HIDES_ERRORS: Final = frozenset({"openai-responses", "anthropic-messages"})
"""Surfaces on which an error in mid-stream is not told: only the end of the stream is missing."""

MAX_SHOWN: Final = 200
MAX_OBJECTS: Final = 32
MAX_RAW: Final = 200_000
TOKENS_UNSEEN: Final = 12
"""A turn that shows nothing but thinking swallowed a call if it has more tokens than its thinking can account for: one
for every two letters (models write three to five) or each other character, and these for the tags around it."""

RAW: Final = re.compile(r"raw='(.*)', err=(.*)", re.DOTALL)
NOT_FOUND: Final = re.compile(r"\btool '(.{1,200}?)' not found", re.DOTALL)
CUT_ERROR: Final = re.compile(r"incomplete \w+ tool call", re.IGNORECASE)
PARSE_ERROR: Final = re.compile(
    r"error parsing tool call|failed to parse|tool call pars|incomplete \w+ tool call|XML syntax error"
    r"|expected element (?:type|name)|unexpected tokens remaining|unexpected end of JSON"
    r"|invalid character .{1,8} (?:looking for|after|in|at)|cannot unmarshal .{0,40}ToolCall|the expected peg",
    re.IGNORECASE | re.DOTALL,
)
HEADER: Final = re.compile(
    r"(?:<\|(?:end|call)\|>)?\s*<\|start\|>assistant.{0,200}?<\|message\|>|<\|(?:end|call)\|>", re.DOTALL
)
RECIPIENT: Final = re.compile(r"to=(?:functions\.)?([\w.-]+)")
LEFTOVER: Final = re.compile(
    r"(?:\s*+(?:<[|｜][^<>\s]{0,40}?(?:[|｜]>|\Z)|</?(?:tool_calls?|function_calls?|tools|TOOLCALL|think)\b[|>]{0,2}+"
    r"|\[/?(?:TOOL_CALLS|TOOL_REQUEST)\]?+|<(?:start|end)_function_call>?+|<(?:tool_call|turn|channel)\|>|</s>))++\s*+\Z"
)
MAX_LEFTOVER: Final = 2_000
OPEN_TAG: Final = re.compile(r"<\w[^<>]{0,200}>\s*[^<\s{\[][^<]*\Z")
SENTENCE: Final = re.compile(r"[.!?…]+\s+|\n+")
ANNOUNCED: Final = re.compile(
    r"\b(?:i|we)(?:'ll| will| should| need to| must| have to| can now|'m going to| am going to)\b|\blet me\b|\blet's\b"
    r"|\bnow (?:i|we)\b|\bnext step\b",
    re.IGNORECASE,
)
SPEAKING: Final = re.compile(
    r"\b(?:answer|respond|reply|tell|say|explain|summari[sz]e|greet|ask|apologi[sz]e|inform|thank|mention|clarify)\b",
    re.IGNORECASE,
)
ACTING: Final = frozenset({"call", "execute", "invoke", "run", "tool", "use", "using"}) | VERBS


def recover(turn: Turn, request: Request) -> Recovered:
    """Find a turn's calls, or what became of them.

    Args:
        turn: The turn as read, with what the tap brought in `raw`.
        request: Its request: only its tools can be called.

    Returns:
        The turn with the calls in `calls` (as the model wrote them; the ladder repairs them), what was lifted, and
        what is wrong with the turn as a whole. What is wrong with a call is the ladder's to say.
    """
    if not request.tools or request.tool_choice.mode == "none":
        return turn, (), ()
    return _Search(turn, request).recovered()


@dataclass(frozen=True, slots=True)
class Place:
    """Hold a place where calls are looked for."""

    path: str
    text: str
    thinking: bool = False
    whole: bool = False


class _Search:
    """Search one turn."""

    def __init__(self, turn: Turn, request: Request) -> None:
        self.turn = turn
        self.tools = request.tools
        self.may_be_cut = turn.finish in ("length", None) or request.surface in HIDES_LIMIT
        self.silent = not turn.text.strip() and not turn.calls
        self.broken_off = turn.finish is None and request.stream and request.surface in HIDES_ERRORS

    def recovered(self) -> Recovered:
        for place in self.places():
            found = self.found(place)
            result = self.judged(found, place) if found is not None else None
            if result is not None:
                return result
        if self.turn.error is not None:
            return self.failed(self.turn.error)
        if self.turn.calls:
            return self.tidied()
        return self.turn, (), self.lost()

    def places(self) -> Iterator[Place]:
        """Return where a call may stand, the most telling place first."""
        turn = self.turn
        if turn.raw and (self.silent or turn.error is not None):
            yield Place("/raw", turn.raw, whole=True)
        if turn.error is not None:
            return
        if turn.text.strip():
            yield Place("/text", turn.text)
        elif self.silent and turn.thinking.strip():
            yield Place("/thinking", turn.thinking, thinking=True)

    def found(self, place: Place, *, cut: bool = False) -> Found | None:
        return find_calls(
            place.text,
            self.tools,
            lambda call: fits(call, self.tools),
            cut=cut or self.turn.finish in ("length", None),
            thinking=place.thinking,
            whole=place.whole,
        )

    # Calls in a text

    def judged(self, found: Found, place: Place) -> Recovered | None:
        if found.state == "calls" and place.path == "/raw" and self.turn.error is not None:
            # A parser that fails keeps its last token: a number that stands before it may go on.
            found = self.found(place, cut=True) or found
        if found.state == "calls":
            return self.lifted(found, place) if found.calls or place.path == "/text" else None
        if self.turn.calls:
            return None
        if place.whole and self.turn.error is not None and not self.tells(found, place.text):
            return None
        keyword, why = self.failure(found)
        where = "/text" if place.path == "/raw" else place.path
        return self.turn, (), (Fault(where, keyword, f"{where}: {why}"),)

    def tells(self, found: Found, raw: str) -> bool:
        """Tell whether the tapped text says more of a failure than the server's own error.

        It does when it names a tool that is not offered, and when it ends inside a value of one that is, and the
        error's text was lost: the token limit ended it. (A parser that refuses a call fails between two values.)
        """
        if found.state == "unknown-tool":
            return True
        named = any(re.search(rf"\b{re.escape(tool.local_name)}\b", raw) for tool in self.tools)
        return found.state == "cut" and self.turn.error == "" and named and _ends_in_value(raw)

    def failure(self, found: Found) -> tuple[str, str]:
        if found.state == "cut" and (self.may_be_cut or self.turn.error is not None):
            return "cut", f"ends inside a call ({found.note})"
        if found.state == "unsearched":
            return "unsearched", f"was not searched for calls: {found.note}"
        if found.state in ("cut", "unreadable"):
            return "unreadable", f"opens a call that cannot be read ({found.note})"
        unknown = [call for call in found.calls if snap(call.name, self.tools) is None]
        names = ", ".join(repr(call.name[:80]) for call in unknown)
        if any(evidence(call, self.tools) for call in unknown):
            return "invented-tool", f"calls {names}, which is not offered"
        return "unknown-tool", f"calls {names}, which is not offered"

    def lifted(self, found: Found, place: Place) -> Recovered:
        """Take calls out of a text, but for copies of calls that came structured."""
        new = list(found.calls)
        for call in self.turn.calls:
            copy = next((other for other in new if self.same(call, other)), None)
            if copy is not None:
                new.remove(copy)
        first = len(self.turn.calls)
        calls = (*self.turn.calls, *new)
        turn = replace(self.turn, calls=calls, error=None)
        if place.path == "/text":
            turn = replace(turn, text=found.rest)
        elif place.path == "/thinking":
            turn = replace(turn, thinking=found.rest)
        repairs = [_lift(index, call, place.text) for index, call in enumerate(new, first)]
        before = self.turn.text if place.path == "/text" else self.turn.thinking
        if place.path != "/raw" and found.rest != before:
            repairs.append(Repair("recover", place.path, _cut(before), _cut(found.rest), found.note))
        return turn, tuple(repairs), ()

    def same(self, call: ToolCall, other: ToolCall) -> bool:
        """Tell whether a call in the text is the structured one once more."""
        one, other = repair_call(call, self.tools)[0], repair_call(other, self.tools)[0]
        return (one.name, one.namespace, one.arguments) == (other.name, other.namespace, other.arguments)

    def tidied(self) -> Recovered:
        """Take a marker that was left beside structured calls out of the text."""
        text = self.turn.text
        if not text.strip() or len(text) > MAX_LEFTOVER or not LEFTOVER.match(text):
            return self.turn, (), ()
        return replace(self.turn, text=""), (Repair("recover", "/text", _cut(text), "", "leftover markers"),), ()

    # Errors

    def failed(self, error: str) -> Recovered:
        """Read the call out of an error, or say what kind of error it is: only failed parses are ours.

        An error in the middle of a chat completions stream comes without its text (openai.go, toChunk).
        """
        if not error:
            return self.turn, (), (Fault("/error", "server-error", "/error: the server broke off without a word"),)
        if match := NOT_FOUND.search(error):
            return self.turn, (), (self.not_found(match[1]),)
        if not PARSE_ERROR.search(error):
            return self.turn, (), ()
        raw = RAW.search(error)
        if raw is not None:
            calls = self.in_error(raw[1])
            if calls:
                return self.mended(calls, error)
            if _is_cut(raw[1]):
                return self.turn, (), (Fault("/error", "cut", "/error: the call ends inside a value"),)
        elif CUT_ERROR.search(error):
            return self.turn, (), (Fault("/error", "cut", f"/error: {_cut(error)}"),)
        return self.turn, (), (Fault("/error", "server-error", f"/error: {_cut(error)}"),)

    def not_found(self, name: str) -> Fault:
        meant = snap(name, self.tools)
        known = meant is not None or evidence(ToolCall("", name, {}), self.tools)
        keyword = "server-error" if known else "unknown-tool"
        return Fault("/error", keyword, f"/error: tool {name!r} not found")

    def mended(self, calls: Sequence[ToolCall], error: str) -> Recovered:
        turn = replace(self.turn, calls=(*self.turn.calls, *calls), error=None, finish="tool_calls")
        first = len(self.turn.calls)
        repairs = [_lift(index, call, error) for index, call in enumerate(calls, first)]
        return turn, (*repairs, Repair("recover", "/error", _cut(error), None, "the call stood in the error")), ()

    def in_error(self, raw: str) -> list[ToolCall]:
        """Read the calls in an error's raw text; none unless every one of them fits."""
        calls: list[ToolCall] = []
        for name, part in _messages(raw):
            inner = self.in_part(part, name)
            if not inner:
                return self.in_dialect(raw)
            calls += inner
        return calls

    def in_part(self, text: str, name: str) -> list[ToolCall]:
        """Read the objects of one message; their tool is named by its header, by an envelope, or only by the keys."""
        values = _values(text)
        calls = [self.named(value, name) for value in values]
        known = [call for call in calls if call is not None]
        return known if len(known) == len(values) else []

    def named(self, value: Json, name: str) -> ToolCall | None:
        inner = envelope(value)
        if inner is not None and snap(inner.name, self.tools) is not None:
            name, value = inner.name, inner.arguments
        if name:
            call = ToolCall("", name, value, dialect="error")
            return call if fits(call, self.tools) else None
        return self.by_keys(value)

    def by_keys(self, value: Json) -> ToolCall | None:
        """Return the call of the one offered tool that takes these members, or that needs none if there are none."""
        if not isinstance(value, dict):
            return None
        keys = {folded(key) for key in value}
        taking = [tool for tool in self.tools if keys <= {folded(key) for key in properties_of(tool.parameters)}]
        calls = [ToolCall("", tool.name, value, dialect="error") for tool in taking]
        fitting = [call for call in calls if fits(call, self.tools)]
        return fitting[0] if len(fitting) == 1 else None

    def in_dialect(self, raw: str) -> list[ToolCall]:
        if len(raw) > MAX_RAW:
            return []
        found = self.found(Place("/error", raw, whole=True))
        if found is None or found.state != "calls" or not all(fits(call, self.tools) for call in found.calls):
            return []
        return list(found.calls)

    # Nothing there

    def lost(self) -> tuple[Fault, ...]:
        """Tell whether the turn ended without the call that was meant."""
        turn = self.turn
        if turn.text.strip() and self.broken_off:
            return (Fault("/error", "broken-off", "/error: the answer has no end"),)
        if turn.text.strip() or turn.finish == "length":
            return ()
        if turn.finish is None:
            return (Fault("/error", "server-error", "/error: the answer has no end"),)
        if not turn.thinking.strip():
            if turn.tokens == 0:
                return ()
            return (Fault("/calls", "swallowed", f"/calls: nothing arrived of {_tokens(turn)}"),)
        if turn.finish == "tool_calls" or (turn.tokens or 0) > _most_tokens(turn.thinking):
            return (Fault("/calls", "swallowed", f"/calls: only the thinking arrived of {_tokens(turn)}"),)
        last = _last_sentence(turn.thinking)
        if ANNOUNCED.search(last) and not SPEAKING.search(last) and self.acts(last):
            return (Fault("/thinking", "unfinished", f"/thinking: ends with {_cut(last)!r}"),)
        return ()

    def acts(self, sentence: str) -> bool:
        """Tell whether a sentence speaks of doing something: of a tool, or by a verb."""
        names = (tool.local_name for tool in self.tools)
        return any(name in sentence for name in names) or not ACTING.isdisjoint(words_of(sentence))


def _lift(index: int, call: ToolCall, text: str) -> Repair:
    after: Json = {"name": call.name, "arguments": call.arguments}
    return Repair("recover", f"/calls/{index}", _cut(text), after, call.dialect or "")


def _cut(text: str) -> str:
    return text if len(text) <= MAX_SHOWN else text[:MAX_SHOWN] + "…"


def _most_tokens(thinking: str) -> float:
    """Return how many tokens a turn's thinking can account for, at most."""
    foreign = sum(not character.isascii() for character in thinking)
    return (len(thinking) - foreign) / 2 + foreign + TOKENS_UNSEEN


def _tokens(turn: Turn) -> str:
    return "the answer" if turn.tokens is None else f"{turn.tokens} tokens"


def _last_sentence(text: str) -> str:
    return next((part for part in reversed(SENTENCE.split(text.strip())) if part.strip()), "").strip()


def _ends_in_value(raw: str) -> bool:
    open_string = (raw.count('"') - raw.count('\\"')) % 2 == 1
    return open_string or OPEN_TAG.search(raw) is not None


def _is_cut(raw: str) -> bool:
    return raw.lstrip().startswith(("{", "[")) and lenient_json.is_cut(raw)


def _messages(raw: str) -> list[tuple[str, str]]:
    """Cut a text at the headers of messages: each with the tool that its header names, "" when it names none."""
    headers = [*HEADER.finditer(raw)]
    recipients = [RECIPIENT.search(header[0]) for header in headers]
    names = ["", *(recipient[1] if recipient else "" for recipient in recipients)]
    starts, ends = [0, *(header.end() for header in headers)], [*(header.start() for header in headers), len(raw)]
    parts = zip(names, starts, ends, strict=True)
    return [(name, raw[start:end]) for name, start, end in parts if raw[start:end].strip()]


def _values(text: str) -> list[Json]:
    """Read the objects that stand one behind the other in a text; none when anything else stands between."""
    parsed = lenient_json.parse(text)
    if parsed is not None:
        return [parsed.value]
    values: list[Json] = []
    position = 0
    while len(values) < MAX_OBJECTS and (found := lenient_json.parse_prefix(text, position)) is not None:
        values.append(found[0].value)
        position = found[1]
    return values if not text[position:].strip(" \t\r\n}])") else []
