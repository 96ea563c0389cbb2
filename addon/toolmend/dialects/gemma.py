"""Read Gemma's calls: `call:NAME{key:<|"|>text<|"|>,n:1}`, with `<escape>` for the quotes in FunctionGemma."""

from __future__ import annotations

import re
from typing import Final

from toolmend.dialects.positions import blank_end
from toolmend.dialects.pythonic import unescaped
from toolmend.dialects.source import VALUE, Broken, Reading, Source, call, properties
from toolmend.model import Json, JsonObject, Tool

DEPTH: Final = 64
HEAD = re.compile(r":?\s*call:\s*(?P<name>[\w.:/ -]{1,120}?)\s*+(?=\{)", re.IGNORECASE)
ANGLE = re.compile(r"(?P<name>[\w.:/-]{1,120})(?=\{\s*+[\w$-]++\s*:\s*(?:<\|[\"']\|>|<escape>))")
QUOTE = re.compile(r"<\|[\"'“”]\|>|<escape>|<\|\\\"\|>")
OPEN_QUOTE = re.compile(r"<(?:\|(?:[\"'“”]\|?)?|e(?:s(?:c(?:a(?:pe?)?)?)?)?)?\Z")
JSON_STRINGS: Final = {
    '"': re.compile(r'"((?:[^"\\]++|\\.)*+)"', re.DOTALL),
    "'": re.compile(r"'((?:[^'\\]++|\\.)*+)'", re.DOTALL),
}
KEY = re.compile(
    r"[\"'`]?(?:<\|[\"']\|>|<escape>)?(?P<key>[\w$ .-]{1,200}?)(?:<\|[\"']\|>|<escape>)?[\"'`]?\s{0,40}+:\s*+"
)
HALF_QUOTE = re.compile(r"(?:<\s?\|[\"'](?:\|>?)?|\|?[\"']\|>|<\s?escape>?|escape>)\s*\Z")
"""What is left of a string's token where it does not end the string."""
LAST = re.compile(r"\}\s*+(?=<tool_call\|>|<turn\|>|<end_function_call>)")
BARE = re.compile(r"[^,{}\[\]<>\n]++")
NUMBER = re.compile(r"-?\d+(?:\.\d+)?(?:[eE][+-]?\d+)?")
WORDS: Final[dict[str, Json]] = {
    **dict.fromkeys(("true", "True"), True),
    **dict.fromkeys(("false", "False"), False),
    **dict.fromkeys(("null", "None")),
}


def read_gemma(source: Source, at: int, *, inside: bool) -> Reading | None:
    """Read one call. Outside of a marker its name must be offered."""
    text = source.text
    head = HEAD.match(text, at) or (ANGLE.match(text, at) if inside else None)
    if head is None:
        return None
    name = _name(source, head["name"])
    tool = source.tool(name)
    if tool is None and not inside:
        return None
    reader = _Reader(source, tool)
    try:
        arguments, end = reader.members(head.end(), 0)
    except Broken as broken:
        source.spend((max(reader.looked, head.end()) - at) // 4)
        if broken.state == "unreadable" and not inside:
            return None
        end = len(text) if broken.state == "cut" else _closer(text, head.end())
        return Reading(end, state=broken.state, form="gemma", marker=inside)
    source.spend((end - at) // 4)
    return Reading(end, (call(name, arguments, "gemma"),), form="gemma", marker=inside, closed=reader.closed)


def _name(source: Source, written: str) -> str:
    """Return the name without an invented namespace before it."""
    name = source.clean_name(written)
    if source.tool(name):
        return name
    last = re.split(r"[:./]", name)[-1].strip()
    return last if source.tool(last) else name


def _closer(text: str, at: int) -> int:
    match = re.compile(r"<\w*\|>|<end_function_call>|<\|tool").search(text, at)
    return match.start() if match else len(text)


class _Reader:
    def __init__(self, source: Source, tool: Tool | None) -> None:
        self.source = source
        self.text = source.text
        self.keys = sorted(properties(tool), key=len, reverse=True)
        self.closed = True
        self.looked = 0

    def ended(self, at: int) -> bool:
        """Tell whether the object ends here without its closer: at the text's end, or at a marker."""
        if at < len(self.text) and not re.compile(r"<\w*\|>|<end_function_call>|<\|tool|</").match(self.text, at):
            return False
        self.closed = False
        return True

    def members(self, at: int, depth: int) -> tuple[JsonObject, int]:
        if depth > DEPTH:
            raise Broken("unreadable")
        members: JsonObject = {}
        position = blank_end(self.text, at + 1)
        while not self.text.startswith("}", position):
            if members and self.ended(position):
                return members, position
            key = KEY.match(self.text, position)
            if key is None:
                raise Broken(
                    "cut" if len(self.text) - position < 80 and "}" not in self.text[position:] else "unreadable"
                )
            value, position = self.value(key.end(), depth, top=depth == 0)
            members[key["key"].strip()] = value
            position = self.comma(position)
        return members, position + 1

    def items(self, at: int, depth: int) -> tuple[list[Json], int]:
        if depth > DEPTH:
            raise Broken("unreadable")
        items: list[Json] = []
        position = blank_end(self.text, at + 1)
        while not self.text.startswith("]", position):
            if items and self.ended(position):
                return items, position
            value, position = self.value(position, depth, top=False)
            items.append(value)
            position = self.comma(position)
        return items, position + 1

    def comma(self, at: int) -> int:
        position = blank_end(self.text, at)
        return blank_end(self.text, position + 1) if self.text.startswith(",", position) else position

    def value(self, at: int, depth: int, *, top: bool) -> tuple[Json, int]:
        text = self.text
        self.source.spend(VALUE)
        self.looked = max(self.looked, at)
        if at >= len(text):
            raise Broken("cut")
        if quote := QUOTE.match(text, at):
            return self.string(quote, top=top)
        if text[at] == "{":
            return self.members(at, depth + 1)
        if text[at] == "[":
            return self.items(at, depth + 1)
        if text[at] in JSON_STRINGS:
            return self.json_string(at)
        return self.bare(at)

    def json_string(self, at: int) -> tuple[Json, int]:
        match = JSON_STRINGS[self.text[at]].match(self.text, at)
        if match is None:
            raise Broken("cut")
        return unescaped(match[1]), match.end()

    def bare(self, at: int) -> tuple[Json, int]:
        match = BARE.match(self.text, at)
        if match is None:
            raise Broken("cut" if OPEN_QUOTE.match(self.text, at) else "unreadable")
        if match.end() == len(self.text):
            raise Broken("cut")
        word = match[0].strip()
        if word in WORDS:
            return WORDS[word], match.end()
        if NUMBER.fullmatch(word) and len(word) < 400:
            return (float(word) if re.search(r"[.eE]", word) else int(word)), match.end()
        return word, match.end()

    def string(self, quote: re.Match[str], *, top: bool) -> tuple[Json, int]:
        """Read a string between string tokens. Where the closing one is missing, the next key bounds it."""
        self.looked = len(self.text)
        closing = QUOTE.search(self.text, quote.end())
        last = LAST.search(self.text, quote.end()) if top else None
        if last and (closing is None or (last.end() <= closing.start() and not self.may_follow(closing.end()))):
            return HALF_QUOTE.sub("", self.text[quote.end() : last.start()]), last.start()
        if closing is None:
            raise Broken("cut")
        body = self.text[quote.end() : closing.start()]
        if top and not self.may_follow(closing.end()):
            for key in self.keys:
                if (split := re.search(rf",\s*{re.escape(key)}\s*:\s*\Z", body)) is not None:
                    return HALF_QUOTE.sub("", body[: split.start()]), quote.end() + split.start()
        return body, closing.end()

    def may_follow(self, at: int) -> bool:
        """Tell whether what stands behind a string may stand there."""
        position = blank_end(self.text, at)
        follows = self.text[position : position + 1]
        return not follows or follows in ",}]" or KEY.match(self.text, position) is not None
