"""Show the texts that a body holds, and change them in place.

A body holds text in many forms: strings of JSON with their escapes, pieces of one text in the frames of a stream, JSON
inside strings at any depth, tapped tokens and the numbers of their bytes, plain lines. Each is shown as a `View`: the
text as a person would read it, and where each of its characters stands. A character is changed there, in its form.
"""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import accumulate, pairwise
from typing import Final, NamedTuple

from toolmend.private_values import KEYWORD_KEY


@dataclass(slots=True, eq=False)
class View:
    """Show a text that stands, escaped or in pieces, inside another: `starts` says where each of its characters begins.

    A character takes as many there as `widths` says, one where it says nothing. `chars` is the text as it is to become;
    only the root's is read in the end. `keyed` says that it is the value of a field whose name promises a secret.
    """

    text: str
    parent: View | None = None
    starts: Sequence[int] = ()
    widths: Mapping[int, int] = field(default_factory=dict)
    keyed: bool = False
    chars: list[str] = field(default_factory=list)
    changed: set[int] = field(default_factory=set)
    _guarded: frozenset[int] | None = None

    @property
    def depth(self) -> int:
        """Count the texts around this one."""
        return 0 if self.parent is None else self.parent.depth + 1

    def guarded(self) -> frozenset[int]:
        """Return the characters that are part of an escape: another character there would be another escape."""
        if self._guarded is None:
            self._guarded = frozenset(at for match in ESCAPE.finditer(self.text) for at in range(*match.span()))
        return self._guarded

    def put(self, at: int, char: str) -> None:
        """Change one character, in the form in which it stands in the text around. What was changed once stays."""
        if at in self.changed:
            return
        self.changed.add(at)
        if self.parent is None:
            self.chars[at] = char
            return
        start = self.starts[at]
        there = self.parent.text[start : start + self.widths.get(at, 1)]
        for offset, new in enumerate(_in_form_of(there, char)):
            if new != there[offset]:
                self.parent.put(start + offset, new)


ESCAPE: Final = re.compile(r'\\(?:u[0-9a-fA-F]{4}|["\\/bfnrt])')
ESCAPED: Final = {'"': '"', "\\": "\\", "/": "/", "b": "\b", "f": "\f", "n": "\n", "r": "\r", "t": "\t"}
DEEPEST: Final = 4


def _in_form_of(there: str, char: str) -> str:
    """Write a character as the one it replaces is written: plain, as `\\u00e9`, or as a tapped byte's number."""
    if there.startswith("\\u"):
        code = f"{ord(char):04x}"
        return "\\u" + (code.upper() if there[2:].upper() == there[2:] else code)
    return char if len(there) == 1 else there


def decode(body: bytes) -> View:
    """Show a whole body as text. Bytes that are no UTF-8 stay what they are."""
    text = body.decode("utf-8", "surrogateescape")
    return View(text, chars=list(text))


def _unescaped(parent: View, spans: Iterable[tuple[int, int]], *, keyed: bool = False) -> View:
    """Show pieces of a text with their escapes resolved, joined."""
    pieces: list[str] = []
    starts: list[int] = []
    widths: dict[int, int] = {}
    for start, end in spans:
        for match in ESCAPE.finditer(parent.text, start, end):
            pieces.append(parent.text[start : match.start()])
            starts += range(start, match.start() + 1)
            widths[len(starts) - 1] = match.end() - match.start()
            unit, start = match.group(), match.end()
            pieces.append(chr(int(unit[2:], 16)) if unit[1] == "u" else ESCAPED[unit[1]])
        pieces.append(parent.text[start:end])
        starts += range(start, end)
    return View("".join(pieces), parent, starts, widths, keyed)


def _part(parent: View, start: int, end: int, *, keyed: bool = False) -> View:
    """Show a piece of a text as it is."""
    return View(parent.text[start:end], parent, range(start, end), keyed=keyed)


def views(root: View) -> list[View]:
    """Show a body's texts: every string of its JSON, the pieces of a stream joined, and JSON that stands in strings."""
    found: list[View] = []
    layer = list(_strings(root))
    while layer:
        found += layer
        deeper = (view for view in layer if "\\" in view.text and view.depth < DEEPEST)
        layer = [_unescaped(view, [(0, len(view.text))]) for view in deeper]
    return found + [value for view in found for value in _keyed_values(view)]


def _keyed_values(view: View) -> Iterator[View]:
    """Show the values of secret-sounding keys in JSON that stands in a string."""
    if view.depth and KEY_AND_VALUE.search(view.text):
        for match in KEY_AND_VALUE.finditer(view.text):
            if KEYWORD_KEY.fullmatch(match["key"]):
                yield _part(view, *match.span("value"), keyed=True)


KEY_AND_VALUE: Final = re.compile(r'"(?P<key>[\w.-]+)"\s*:\s*"(?P<value>(?:[^"\\]|\\.)*)"')
TOKEN: Final = re.compile(r'"(?P<string>(?:[^"\\\n]|\\.)*)(?:"|$)|[{}\[\]:,]|[^\s{}\[\]:,"]+', re.MULTILINE)
JSON_LINE: Final = re.compile(r"\s*(?:data:|event:|id:)?\s*[{\[\"]|\s*event:")
INDEXES: Final = frozenset({"index", "output_index", "content_index", "summary_index"})
JOINED: Final = frozenset(
    {
        "content",
        "thinking",
        "reasoning",
        "reasoning_content",
        "arguments",
        "delta",
        "partial_json",
        "text",
        "response",
        "token",
    }
)
NUMBERS_IN: Final = frozenset({"arguments", "input", "enum", "const", "default"})
BOUNDS: Final = frozenset(
    {
        "minimum",
        "maximum",
        "exclusiveMinimum",
        "exclusiveMaximum",
        "multipleOf",
        "minLength",
        "maxLength",
        "minItems",
        "maxItems",
    }
)


class Token(NamedTuple):
    """Hold a string or bare word of JSON: its place, and the keys and indexes that lead to it."""

    start: int
    end: int
    path: tuple[str | int, ...]
    string: bool


def _strings(root: View) -> Iterator[View]:
    """Show the strings of a body, its plain lines, the numbers in values, and its tapped bytes."""
    joined: defaultdict[object, list[tuple[int, int]]] = defaultdict(list)
    tapped: list[tuple[int, int]] = []
    for start, end, is_json in _documents(root.text):
        tokens = list(_tokens(root.text, start, end)) if is_json else []
        if not is_json and start < end:
            yield _part(root, start, end)
        marks = tuple(
            root.text[token.start : token.end]
            for token in tokens
            if token.path and token.path[-1] in INDEXES | {"type"}
        )
        for token in tokens:
            path = token.path
            key = next((part for part in reversed(path) if part and isinstance(part, str)), "")
            span = (token.start, token.end)
            tap = "logprobs" in path and "top_logprobs" not in path
            if not token.string:
                if tap and key == "bytes":
                    tapped.append(span)
                elif NUMBERS_IN & set(path) and key not in BOUNDS:
                    yield _unescaped(root, [span])
            elif key in JOINED:
                joined["tap" if tap else (marks, path)].append(span)
            else:
                yield _unescaped(root, [span], keyed=bool(KEYWORD_KEY.fullmatch(key)))
    yield from (_unescaped(root, spans) for spans in joined.values())
    if tapped:
        yield _tapped_text(root, tapped)


def _documents(text: str) -> Iterator[tuple[int, int, bool]]:
    """Give the places of a body's JSON documents (one, or one a line), and of the lines between that are none."""
    try:
        json.loads(text)
    except ValueError:
        start = plain = 0
        for line in text.split("\n"):
            end = start + len(line)
            if JSON_LINE.match(line):
                yield plain, max(plain, start - 1), False
                yield start, end, True
                plain = end + 1
            start = end + 1
        yield plain, len(text), False
        return
    yield 0, len(text), True


def _tokens(text: str, start: int, end: int) -> Iterator[Token]:
    """Read a document's strings and bare words, however broken it is."""
    stack: list[str | int] = []
    key = ""
    matches = list(TOKEN.finditer(text, start, end))
    for match, after in pairwise([*matches, None]):
        assert match is not None
        token, string = match.group(), match["string"]
        if string is not None and after is not None and after.group() == ":":
            key = string
            yield Token(*match.span("string"), path=(*stack, "key"), string=True)
        elif string is not None:
            yield Token(*match.span("string"), path=(*stack, key), string=True)
        elif token in "{[":
            stack += [key, 0] if token == "[" else [key]
            key = ""
        elif token in "}]":
            if stack and isinstance(stack[-1], int):
                stack.pop()
            key = str(stack.pop()) if stack else ""
        elif token == "," and stack and isinstance(stack[-1], int):
            stack[-1] += 1
        elif token not in ":,":
            yield Token(*match.span(), path=(*stack, key), string=False)


def _tapped_text(root: View, numbers: Sequence[tuple[int, int]]) -> View:
    """Show the text that tapped bytes spell: each character stands in one number a byte."""
    values = bytes(int(root.text[start:end]) & 255 for start, end in numbers)
    text = values.decode("utf-8", "surrogateescape")
    sizes = [len(char.encode("utf-8", "surrogateescape")) for char in text]
    starts = [0, *accumulate(sizes)][: len(sizes)]
    return TappedView(text, View("", root), starts, dict(enumerate(sizes)), numbers=numbers, root=root)


@dataclass(slots=True, eq=False)
class TappedView(View):
    """Show the text that the numbers of tapped bytes spell. A changed character has numbers of as many digits."""

    numbers: Sequence[tuple[int, int]] = ()
    root: View | None = None

    def put(self, at: int, char: str) -> None:
        """Change one character by writing its bytes' numbers."""
        assert self.root is not None
        if at in self.changed:
            return
        self.changed.add(at)
        for place, byte in enumerate(char.encode(), self.starts[at]):
            start, end = self.numbers[place]
            for offset, digit in enumerate(str(byte)[: end - start]):
                self.root.put(start + offset, digit)
