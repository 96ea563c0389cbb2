"""Read calls written as Python call expressions: `[f(a=1), g(b="x")]`, or one a line.

Llama 3.2 and 4, LFM2, Gemma 3 (`tool_code`), Olmo 3, Granite 4, and the echo of a rendered history
(`[Calling tool: f({…})]`). Literals are read by hand, so that JSON's spellings and Python's keywords as argument names
are read too, and nothing is ever evaluated.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Final

from toolmend.dialects.positions import blank_end
from toolmend.dialects.source import READING, VALUE, Broken, Reading, Source, State, call, words
from toolmend.model import Json, JsonObject, ToolCall

DEPTH: Final = 64
NAME = re.compile(r"[A-Za-z_][\w.:/-]*+(?=\s?\()")
KEYWORD = re.compile(r"\s*+[\"']?([A-Za-z_$-][\w$-]*+)[\"']?\s*+(?:=|:(?=\s))(?!=)\s*+")
NUMBER = re.compile(r"[+-]?(?:0[xX][\da-fA-F]++|\d[\d_]*+(?:\.\d*+)?(?:[eE][+-]?\d++)?|\.\d++(?:[eE][+-]?\d++)?)")
WORD = re.compile(r"[A-Za-z]++")
WORDS: Final[dict[str, Json]] = {
    **dict.fromkeys(("True", "true"), True),
    **dict.fromkeys(("False", "false"), False),
    **dict.fromkeys(("None", "null", "nil", "undefined")),
}
PREFIXES: Final = words("r b u rb br")
STRING = re.compile(r"[rRbBuU]{0,2}(?P<quote>\"\"\"|'''|\"|'|“|‘)")
BODIES: Final = {
    '"': re.compile(r'([^"\\]*+(?:\\.[^"\\]*+)*+)"', re.DOTALL),
    "'": re.compile(r"([^'\\]*+(?:\\.[^'\\]*+)*+)'", re.DOTALL),
    "“": re.compile(r"([^“”]*+)[”“]"),
    "‘": re.compile(r"([^‘’]*+)[’‘]"),
    '"""': re.compile(r'((?:[^"\\]++|\\.|"(?!""))*+)"""', re.DOTALL),
    "'''": re.compile(r"((?:[^'\\]++|\\.|'(?!''))*+)'''", re.DOTALL),
}
# A quote that ends a string although others in it are not escaped: what follows can only follow a string.
LOOSE: Final = {
    quote: re.compile(rf"((?:[^{quote}\\]++|\\.|{quote}(?!\s*(?:,\s*[\w-]+\s*=|\)|\]|\}})))*+){quote}", re.DOTALL)
    for quote in ('"', "'")
}
ESCAPE = re.compile(r"\\(x[\da-fA-F]{2}|u[\da-fA-F]{4}|U[\da-fA-F]{8}|[0-7]{1,3}|\r?\n|.)", re.DOTALL)
ESCAPES: Final = {
    "n": "\n",
    "t": "\t",
    "r": "\r",
    "b": "\b",
    "f": "\f",
    "a": "\a",
    "v": "\v",
    '"': '"',
    "'": "'",
    "\\": "\\",
    "/": "/",
}
SURROGATE = re.compile("[\ud800-\udfff]")
ECHO = re.compile(
    r"\[[\[\s]{0,64}+(?:(?:Calling|Called|Call|Using|Invoking)\s+)?(?:tools?|functions?)(?:[ _]calls?)?\s*:\s*",
    re.IGNORECASE,
)

PRINTED = re.compile(r"print\(\s*+(?=[A-Za-z_][\w.]{0,200}+\()")
BLOCK = re.compile(r"\s*\]\s*+(?=\{)")
WORDS_BEHIND = re.compile(r"\s*\]\s*+[^\s\[\]{}\"':][^\[\]{}\"':]*\Z")


def read_pythonic(source: Source, at: int, *, inside: bool) -> Reading | None:
    """Read a list of call expressions, or expressions one after the other; only keyword arguments count.

    Outside of a marker the first callee must be an offered tool.
    """
    text = source.text
    echo = ECHO.match(text, at)
    if echo:
        return _read_echo(source, at, echo.end())
    bracket = text.startswith("[", at)
    position = blank_end(text, at + 1) if bracket else at
    printed = PRINTED.match(text, position) if inside else None
    position = printed.end() if printed else position
    name = NAME.match(text, position)
    if name is None or not (inside or source.tool(source.clean_name(name[0]))):
        return None
    calls: list[ToolCall] = []
    while name is not None:
        try:
            found, position = _read_call(source, name)
        except Broken as broken:
            return _stopped(source, position, broken.state, calls, inside=inside or bracket)
        calls.append(found)
        following = re.compile(r"\s*+[,;]?\s*+").match(text, position)
        assert following is not None
        name = NAME.match(text, following.end())
        if name is not None and not (inside or bracket or (source.tool(name[0]) and "\n" in following[0])):
            name = None
    closer = re.compile(r"\s*+\)" if printed else r"\s*+,?\s*+\]").match(text, position) if bracket or inside else None
    if closer:
        return Reading(closer.end(), tuple(calls), form="pythonic")
    return Reading(position, tuple(calls), form="pythonic", closed=not bracket)


def _stopped(source: Source, at: int, state: State, calls: list[ToolCall], *, inside: bool) -> Reading | None:
    if state == "cut":
        return Reading(len(source.text), tuple(calls), "cut", "pythonic")
    if not inside:
        return None
    closer = re.compile(r"</|<[|｜]").search(source.text, at)
    return Reading(closer.start() if closer else len(source.text), tuple(calls), "unreadable", "pythonic")


def _read_echo(source: Source, start: int, at: int) -> Reading | None:
    text = source.text
    name = NAME.match(text, at)
    source.spend(READING)
    if name is None:
        rough = re.compile(r"[A-Za-z_][\w.-]*").match(text, at)
        if rough and source.tool(rough[0]) and (block := BLOCK.match(text, rough.end())):
            return _read_block(source, rough[0], block.end())
        followed = rough and WORDS_BEHIND.match(text, rough.end())
        if rough and not followed and source.tool(rough[0]) and source.starts(start):
            return Reading(len(text), state="unreadable", form="history echo")
        return None
    if source.tool(name[0]) is None:
        return None
    try:
        found, position = _read_call(source, name)
    except Broken as broken:
        return Reading(len(text), state=broken.state, form="history echo")
    closer = re.compile(r"\s*\]").match(text, position)
    return Reading(closer.end() if closer else position, (found,), form="history echo")


def _read_block(source: Source, name: str, at: int) -> Reading:
    """Read the object behind `[Tool call: NAME]`."""
    item = source.json_at(at)
    if isinstance(item, str):
        return Reading(len(source.text), state=item, form="history echo")
    return Reading(item[1], (call(name, item[0], "history echo"),), form="history echo")


def _read_call(source: Source, name: re.Match[str]) -> tuple[ToolCall, int]:
    position = source.text.index("(", name.end()) + 1
    try:
        arguments, end = _arguments(source, position, loose=False)
    except Broken as broken:
        if broken.state == "cut":
            raise
        arguments, end = _arguments(source, position, loose=True)
    return call(source.clean_name(name[0]), arguments, "pythonic"), end


def _arguments(source: Source, at: int, *, loose: bool) -> tuple[JsonObject, int]:
    literals = Literals(source, loose=loose)
    try:
        arguments, end = literals.arguments(at)
    except Broken:
        source.spend(max(literals.furthest - at, 0) // 4)
        raise
    source.spend((end - at) // 4)
    return arguments, end


class Literals:
    """Read Python and JSON literals from a text; `loose` also strings with quotes in them that nobody escaped."""

    def __init__(self, source: Source, *, loose: bool = False) -> None:
        self.source = source
        self.text = source.text
        self.loose = loose
        self.furthest = 0

    def arguments(self, at: int) -> tuple[JsonObject, int]:
        """Read keyword arguments, or one object, up to the closing parenthesis."""
        text, position = self.text, blank_end(self.text, at)
        if text.startswith("{", position):
            value, position = self.value(position, 1)
            if not isinstance(value, dict):
                raise Broken("unreadable")
            return value, self.expect(")", position)
        arguments: JsonObject = {}
        while not text.startswith(")", position):
            keyword = KEYWORD.match(text, position)
            if keyword is None:
                raise Broken("cut" if re.compile(r"[\w\"'$ =-]*\Z").match(text, position) else "unreadable")
            value, position = self.value(keyword.end(), 1)
            arguments[keyword[1]] = value
            position = self.comma(position, ")")
        return arguments, position + 1

    def expect(self, character: str, at: int) -> int:
        """Go over a character that must stand here."""
        position = blank_end(self.text, at)
        if not self.text.startswith(character, position):
            raise Broken("cut" if position >= len(self.text) else "unreadable")
        return position + 1

    def comma(self, at: int, closer: str) -> int:
        """Go over a comma to the next member, or to the closer."""
        position = blank_end(self.text, at)
        self.furthest = max(self.furthest, position)
        if self.text.startswith(",", position):
            return blank_end(self.text, position + 1)
        if self.text.startswith(closer, position):
            return position
        raise Broken("cut" if position >= len(self.text) else "unreadable")

    def value(self, at: int, depth: int) -> tuple[Json, int]:
        """Read one literal."""
        text = self.text
        self.source.spend(VALUE)
        self.furthest = max(self.furthest, at)
        if at >= len(text):
            raise Broken("cut")
        if depth > DEPTH:
            raise Broken("unreadable")
        if string := STRING.match(text, at):
            return self.strings(string)
        if read := self.CONTAINERS.get(text[at]):
            return read(self, at, depth)
        if number := NUMBER.match(text, at):
            return self.number(number)
        word = WORD.match(text, at)
        if word is None:
            raise Broken("unreadable")
        if word[0] not in WORDS:
            begun = any(known.startswith(word[0]) for known in WORDS) or word[0].lower() in PREFIXES
            raise Broken("cut" if begun and word.end() == len(text) else "unreadable")
        return WORDS[word[0]], word.end()

    def number(self, number: re.Match[str]) -> tuple[Json, int]:
        """Return a number; one at the text's end may go on."""
        end, written = number.end(), number[0].replace("_", "")
        if end == len(self.text):
            raise Broken("cut")
        if len(written) > 4000 or self.text[end].isalnum():
            raise Broken("unreadable")
        if re.fullmatch(r"[+-]?\d+", written):
            return int(written), end
        if "x" in written.lower():
            return int(written, 16), end
        value = float(written)
        if value in (float("inf"), float("-inf")):
            raise Broken("unreadable")
        return value, end

    def strings(self, opening: re.Match[str] | None) -> tuple[str, int]:
        """Read a string, and those that directly follow it: Python joins them."""
        whole, end = "", 0
        while opening is not None:
            quote = opening["quote"]
            bodies = LOOSE if self.loose and quote in LOOSE else BODIES
            body = bodies[quote].match(self.text, opening.end())
            if body is None:
                self.furthest = len(self.text)
                raise Broken("cut")
            raw = "r" in opening[0].lower()
            whole += body[1] if raw else unescaped(body[1])
            end = body.end()
            opening = STRING.match(self.text, blank_end(self.text, end))
        return whole, end

    def items(self, at: int, depth: int) -> tuple[Json, int]:
        """Read a list or a tuple."""
        closer = {"[": "]", "(": ")"}[self.text[at]]
        position = blank_end(self.text, at + 1)
        items: list[Json] = []
        while not self.text.startswith(closer, position):
            value, position = self.value(position, depth + 1)
            items.append(value)
            position = self.comma(position, closer)
        return items, position + 1

    def members(self, at: int, depth: int) -> tuple[Json, int]:
        """Read a dictionary."""
        position = blank_end(self.text, at + 1)
        members: JsonObject = {}
        while not self.text.startswith("}", position):
            if bare := re.compile(r"([A-Za-z_$][\w$-]*+)\s*+:").match(self.text, position):
                key: Json = bare[1]
                position = bare.end()
            else:
                key, position = self.value(position, depth + 1)
                position = self.expect(":", position)
            if not isinstance(key, str | int | float) or isinstance(key, bool):
                raise Broken("unreadable")
            value, position = self.value(blank_end(self.text, position), depth + 1)
            members[str(key)] = value
            position = self.comma(position, "}")
        return members, position + 1

    CONTAINERS: Final[dict[str, Callable[[Literals, int, int], tuple[Json, int]]]] = {
        "[": items,
        "(": items,
        "{": members,
    }


def unescaped(body: str) -> str:
    """Return a string's text with Python's escapes read; unknown ones keep their backslash."""
    if "\\" not in body:
        return body
    text = ESCAPE.sub(_unescape, body)
    if SURROGATE.search(text):
        text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
    return text


def _unescape(match: re.Match[str]) -> str:
    escape = match[1]
    if escape[0] in "xuU" and len(escape) > 1:
        code = int(escape[1:], 16)
        return chr(code) if code < 0x110000 else match[0]
    if escape[0] in "01234567":
        return chr(int(escape, 8))
    if escape.endswith("\n"):
        return ""
    return ESCAPES.get(escape, match[0])
