"""Hold a text in which calls are looked for, and what is read from it."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Final, Literal

from toolmend import lenient_json
from toolmend.dialects.positions import Announcements, blank_end
from toolmend.model import Json, JsonObject, Tool, ToolCall

State = Literal["calls", "unreadable", "cut", "clean"]

LONGEST_NAME: Final = 256
"""How long a name may be, with what stands round it: a longer one is none that a model could write."""
MARKERS: Final = 4096
"""How many different markers are remembered."""

NOT_ALNUM = re.compile(r"[\W_]+")
BOUNDARY = re.compile(r"</|<[|｜]|<tool_call|<\w+\|>|```|\]<\]|\n\s{0,40}\n(?=[{<\[])|\[/?TOOL_CALLS\]|\Z")
OPEN_BOUNDARY = re.compile(r"(?:<\w{0,20}+|\[/?[A-Z_]{0,10}+|`{1,2}|\]<?)\Z")
"""The beginning of what bounds a value, at the end of a text that goes on."""
LONGEST_BOUNDARY: Final = 24
BOUNDARIES: Final = 6
STEPS: Final = 2_000_000
"""How much work one look through a text may be, each step about a tenth of a microsecond.

A character that is only gone over is half a one, a place that is looked at more closely some forty, an attempt to read
some hundred. What needs more is no answer of a model: it passes as text.
"""
TRIGGER: Final = 8
"""What it costs to come to a character with which a call might begin."""
STEP: Final = 40
"""What it costs to look at it."""
VALUE: Final = 50
"""What a value costs that is read by hand."""
BEFORE: Final = 128
"""How many characters before a place take a step when JSON is not readable there: Python counts the lines up to it."""
READING: Final = 150
"""What an attempt to read costs, wherever it ends."""

PREFIX = re.compile(
    r"(?:(?:functions?|tools?|default_api|assistant|multi_tool_use|tool_call|call)\s*[.:/]+\s*|functions?[ _]?(?=\w))",
    re.IGNORECASE,
)
SUFFIX = re.compile(r"(?:[:#.]\d+|\.call|\d+|\(\))\s*$")


@dataclass(frozen=True, slots=True)
class Reading:
    """Hold what a reader made of a place in the text.

    `end` is the position behind what was read. `marker` says that the form cannot be taken for prose, `chatter` that
    its kind is known to be followed by words. `kept` is text inside that stays visible. `form` names the dialect.
    """

    end: int
    calls: tuple[ToolCall, ...] = ()
    state: State = "calls"
    form: str = ""
    marker: bool = False
    chatter: bool = False
    closed: bool = True
    kept: str = ""


class Broken(Exception):  # noqa: N818 - a result, caught by the reader that began
    """Say why a form that began cannot be read."""

    def __init__(self, state: State) -> None:
        super().__init__(state)
        self.state = state


class Exhausted(Exception):  # noqa: N818 - a result, caught by the walk
    """Say that no effort is left: the text needs more work than any answer of a model."""


def words(text: str) -> frozenset[str]:
    """Return the words of a text."""
    return frozenset(text.split())


def folded(name: str) -> str:
    """Return a name without case, blanks and joints: what spellings of one name share."""
    return NOT_ALNUM.sub("", name).lower()


class Source:
    """Hold a text, the offered tools, and how much work may still be spent on it.

    Args:
        text: The text, or the part of it that has not gone out with some context before it.
        tools: The offered tools.
        final: Whether the text has ended; else more may come, and what touches its end is not decided.
        blank_head: Whether nothing but blanks stood before the text.
        cut: Whether the token limit ended it: closers missing at its end were not forgotten.
    """

    def __init__(
        self, text: str, tools: Sequence[Tool], *, final: bool = True, blank_head: bool = True, cut: bool = False
    ) -> None:
        self.text = text
        self.tools = tools
        self.final = final
        self.open_end = cut or not final
        self.first = blank_end(text, 0) if blank_head else -1
        self.effort = STEPS - len(text) // 2
        self.announced = Announcements(text)
        self.tags: dict[str, Any] = {}  # what each marker of this text is: `tags.tag_at` keeps it here
        self.names: dict[str, str] = {}  # what each name is without what stands round it: for `clean_name` alone
        self.strange: dict[str, bool] = {}  # which names of tags are no marker's: `tags.is_strange` keeps it here
        self.tags_at: dict[int, Any] = {}  # and which one stands at each position
        self._elements: dict[str, int] = {}
        self._exact = {tool.name: tool for tool in tools}
        self._folded: dict[str, Tool | None] = {}
        for tool in tools:
            key = folded(tool.name)
            self._folded[key] = None if key in self._folded else tool

    def again(self, text: str, *, final: bool, blank_head: bool) -> Source:
        """Return a source over another text, with the same tools."""
        other = object.__new__(Source)
        other.text, other.tools, other.final = text, self.tools, final
        other.open_end = not final
        other.first = blank_end(text, 0) if blank_head else -1
        other.effort = STEPS - len(text) // 2
        other.announced = Announcements(text)
        other.tags = self.tags if len(self.tags) < MARKERS else {}
        other.names = self.names if len(self.names) < MARKERS else {}
        other.strange = self.strange if len(self.strange) < MARKERS else {}
        other.tags_at = {}
        other._elements = {}
        other._exact, other._folded = self._exact, self._folded
        return other

    def starts(self, at: int) -> bool:
        """Tell whether only blanks stand before the position."""
        return at <= self.first

    def tool(self, name: str) -> Tool | None:
        """Return the offered tool of this name, or the only one of this name but for case and joints."""
        return self._exact.get(name) or self._folded.get(folded(name))

    def offered(self, name: str) -> bool:
        """Tell whether a tool has exactly this name."""
        return name in self._exact

    def has_element(self, name: str, before: int) -> bool:
        """Tell whether a tag of this name opens an element before the position."""
        first = self._elements.get(name)
        if first is None:
            self.spend(len(self.text) // 16)
            opening = re.compile(rf"<{re.escape(name)}[\s>]").search(self.text)
            first = self._elements[name] = opening.start() if opening else len(self.text)
        return first < before

    def may_be_tool(self, beginning: str) -> bool:
        """Tell whether an offered name begins like this, whatever the spelling."""
        begun = folded(beginning)
        return any(name.startswith(begun) for name in self._folded)

    def clean_name(self, name: str) -> str:
        """Return a name without the prefixes, counters and quotes that dialects put round it."""
        if len(name) > LONGEST_NAME:
            return name.strip()
        cleaned = self.names.get(name)
        if cleaned is None:
            cleaned = self.names[name] = self._clean_name(name)
        return cleaned

    def _clean_name(self, name: str) -> str:
        name = name.strip().strip("\"'`:, ").strip()
        if self.tool(name):
            return name
        bare = PREFIX.sub("", name, count=1)
        for candidate in (bare, SUFFIX.sub("", bare), SUFFIX.sub("", name), name.rsplit(":", 1)[-1]):
            if candidate and self.tool(candidate):
                return candidate
        return re.sub(r":\d+$", "", bare) or name

    def spend(self, steps: int) -> None:
        """Take from the effort.

        Raises:
            Exhausted: None is left.
        """
        self.effort -= steps
        if self.effort <= 0:
            raise Exhausted

    def only_tool_for(self, arguments: JsonObject) -> Tool | None:
        """Return the one tool that takes these keys, with all that it requires; None if there are several."""
        fitting = [tool for tool in self.tools if takes(tool, arguments)]
        return fitting[0] if len(fitting) == 1 else None

    def json_at(self, at: int) -> tuple[Json, int] | State:
        """Read one JSON value at the position: the value and its end, or why it cannot be read."""
        self.spend(READING + at // BEFORE)
        prefix = lenient_json.read_prefix(self.text, at, self.effort // VALUE + 1)
        cost = (prefix.end - at) // 4 + VALUE * prefix.values
        self.spend(cost)
        if (parsed := prefix.parsed) is not None:
            end = prefix.end
            open_end = not self.final or (self.open_end and blank_end(self.text, end) == len(self.text))
            return "cut" if open_end and "missing closers" in parsed.liberties else (parsed.value, end)
        before = self._json_before_boundary(at, cost)
        return before or ("cut" if prefix.cut or self._may_be_bounded(at, cost) else "unreadable")

    def _may_be_bounded(self, at: int, cost: int) -> bool:
        """Tell whether what stands at the end of a text that goes on may become the bound of a value."""
        if self.final:
            return False
        found = OPEN_BOUNDARY.search(self.text, max(at, len(self.text) - LONGEST_BOUNDARY))
        if found is None:
            return False
        self.spend(READING + cost + (found.start() - at) // 4)
        parsed = lenient_json.parse(self.text[at : found.start()])
        return parsed is not None and isinstance(parsed.value, dict | list)

    def members_at(self, at: int) -> tuple[Json, int] | None:
        """Read the members of an object without its braces, up to its container's end."""
        boundary = BOUNDARY.search(self.text, at)
        if boundary is None:
            return None
        self.spend(READING + 2 * (boundary.start() - at))
        parsed = lenient_json.parse("{" + self.text[at : boundary.start()] + "}")
        return (parsed.value, boundary.start()) if parsed else None

    def _json_before_boundary(self, at: int, cost: int) -> tuple[Json, int] | None:
        """Read a value that its container's end bounds: brackets are missing, or are too many."""
        searched = at
        for boundary in islice(BOUNDARY.finditer(self.text, at), BOUNDARIES):
            end = boundary.start()
            self.spend((end - searched) // 3)
            searched = end
            if self.open_end and end == len(self.text):
                break
            self.spend(READING + cost + (end - at) // 4)
            parsed = lenient_json.parse(self.text[at:end])
            if parsed is not None and isinstance(parsed.value, dict | list):
                return parsed.value, end
        return None


def properties(tool: Tool | None) -> JsonObject:
    """Return the properties a tool declares."""
    declared = tool.parameters.get("properties") if tool else None
    return declared if isinstance(declared, dict) else {}


def required(tool: Tool | None) -> list[str]:
    """Return the names of the arguments that a tool requires."""
    names = tool.parameters.get("required") if tool else None
    return [name for name in names if isinstance(name, str)] if isinstance(names, list) else []


def takes(tool: Tool, arguments: JsonObject) -> bool:
    """Tell whether a tool declares all these keys and requires no other."""
    declared = properties(tool)
    return bool(arguments) and all(k in declared for k in arguments) and all(k in arguments for k in required(tool))


def lacks(tool: Tool | None, arguments: JsonObject) -> int:
    """Count the required arguments that are not there, in any spelling."""
    given = {folded(key) for key in arguments}
    return sum(folded(name) not in given for name in required(tool))


def call(name: str, arguments: Json, form: str) -> ToolCall:
    """Make a call that was found in text."""
    return ToolCall(id="", name=name, arguments=arguments, dialect=form)


def decoded(text: str) -> Json:
    """Return what a text holds as JSON, or the text."""
    parsed = lenient_json.parse(text)
    return text if parsed is None else parsed.value
