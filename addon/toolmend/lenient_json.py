"""Read JSON as models write it: the value, and the liberties that were needed to read it.

Strict JSON is read strictly and takes no liberty. Only what fails is read leniently, and only where the reading is
plain: an open string means that the text was cut, and nothing that was cut is completed. Time is linear in the length
of the text; what nests deeper than `MAX_DEPTH` is not read.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from toolmend.model import Json

MAX_DEPTH: Final = 64
"""How deep lenient text may nest: no tool's arguments come near it, and Python's stack stays far away."""

MAX_DIGITS: Final = 4000
"""How many digits a number may have: Python refuses to read longer integers than 4,300."""

CLOSERS_OF: Final = {
    '"': '"',
    "'": "'",
    "`": "`",
    "“": "”“",
    "”": "”“",
    "„": "”“",
    "«": "»",
    "‘": "’‘",
    "’": "’‘",
}
WORDS: Final[dict[str, Json]] = {
    **dict.fromkeys(("true", "True", "TRUE"), True),
    **dict.fromkeys(("false", "False", "FALSE"), False),
    **dict.fromkeys(("null", "None", "Null", "NULL")),
}
ESCAPES: Final = {"n": "\n", "t": "\t", "r": "\r", "b": "\b", "f": "\f", '"': '"', "'": "'", "\\": "\\", "/": "/"}

BLANK = re.compile(r"(?:[\s\ufeff]++|//[^\n]*+|/\*.*?\*/)*+", re.DOTALL)
SPACE = re.compile(r"[\s\ufeff]*+")
NUMBER = re.compile(r"[+-]?(?:\d[\d_]*+(?:\.\d*+)?|\.\d++)(?:[eE][+-]?\d++)?")
SMALL_NUMBER = re.compile(r"-?(?:0|[1-9]\d{0,14})(?=[\s,\]}])(?!\s*[*+-])")
JSON_NUMBER = re.compile(r"-?(?:0|[1-9]\d*+)(\.\d++)?([eE][+-]?\d++)?\Z")
ARITHMETIC = re.compile(r"(?:0|[1-9]\d{0,14})(?:(?:\s*[*+]\s*| - )(?:0|[1-9]\d{0,14})(?![\d.eE]))++")
WORD = re.compile(r"[A-Za-z]++")
BARE_KEY = re.compile(r"([A-Za-z_$][\w$.-]*+)[\"'”’]?(?=\s*[:=])")
STRING_KEY = re.compile(r"([\"'“”‘’])[^\"'“”‘’\n]*+[\"'“”‘’]\s*+:")
OPEN_STRING_KEY = re.compile(r"[\"'“”‘’][^\"'“”‘’\n]*+(?:[\"'“”‘’]\s*+)?\Z")
ESCAPE = re.compile(r"\\(u[0-9a-fA-F]{4}|x[0-9a-fA-F]{2}|U[0-9a-fA-F]{8}|.)", re.DOTALL)
PYTHON_ESCAPE = re.compile(r"(?<!\\)(?:\\\\)*+\\(?:x[0-9a-fA-F]{2}|U[0-9a-fA-F]{8})")
PLAIN_ESCAPES = re.compile(r'(?:[^\\]++|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+\Z')
DRIVE = re.compile(r"[A-Za-z]:\\")
CONTROL = re.compile(r"[\x00-\x1f]")
SURROGATE = re.compile("[\ud800-\udfff]")
FENCE = re.compile(r"\s*```[ \t]*(?:\w++[ \t]*)?\n?")
OPEN_FENCE = re.compile(r"\s*+```[ \t]*+(?:json\w*+[ \t]*+)?\n", re.IGNORECASE)
LABEL = re.compile(r"\s*json\w?\s*(?=[\[{])", re.IGNORECASE)
ESCAPED_WHOLE = re.compile(r"\s*[\[{][\[{\s]*\\+\"")
SURPLUS = re.compile(r"[\s}\])]*+[;,]?\s*\Z")
TAIL = r"(?P<closers>\s*[}\])][\s}\])]*+)(?=\Z|</|<\||```|<｜)"
KEY_INSIDE = re.compile(r"[\"'”’]\s*+:|[,{]\s*+[\"'“‘]\w++[\"'”’]\s*+:")

JOINED: Final = re.compile(r"(?:\s++|\s*+\+\s*+)[\"']")
TAILS: Final = {closer: re.compile(f"[{closers}]{TAIL}") for closer, closers in CLOSERS_OF.items()}
BODIES: Final = {
    opener: re.compile(rf"([^{closers}\\]*+(?:\\.[^{closers}\\]*+)*+)[{closers}]", re.DOTALL)
    for opener, closers in CLOSERS_OF.items()
}


@dataclass(frozen=True, slots=True)
class Parsed:
    """Hold a value that was read, and the liberties taken to read it, in a few words each; none for strict JSON."""

    value: Json
    liberties: tuple[str, ...] = ()


def parse(text: str) -> Parsed | None:
    """Read text that is one JSON value, as it should be or as models write it.

    Returns:
        None when it cannot be read without guessing: cut inside a string, garbage, text around it, nested too deep.
        JSON text inside a JSON string counts as the value it holds if that is an object or a list.
    """
    if (strict := _strict(text)) is not None:
        return _once_more(strict)
    fenced = _fenced(text)
    if fenced is not None and _fenced(fenced) is None and (inner := parse(fenced)) is not None:
        return Parsed(inner.value, ("fence", *inner.liberties))
    if (escaped := _unescaped_whole(text)) is not None:
        return escaped
    try:
        return _read_whole(text)
    except (_Unreadable, _Cut):
        return None


@dataclass(frozen=True, slots=True)
class Prefix:
    """Hold what was made of the beginning of a text.

    `parsed` is None when nothing could be read; then `cut` tells whether that is because the text ends. `end` is the
    position behind what was looked at, `values` how many values were read by hand: what the reading cost.
    """

    parsed: Parsed | None
    end: int
    cut: bool = False
    values: int = 0


def parse_prefix(text: str, start: int = 0) -> tuple[Parsed, int] | None:
    """Read one object or list that begins at `start` (blanks before it are skipped), whatever follows it.

    Returns:
        What was read and the position behind it; None when none begins there or it cannot be read. Closers missing at
        the end of the text are a liberty like any other.
    """
    prefix = read_prefix(text, start)
    return None if prefix.parsed is None else (prefix.parsed, prefix.end)


def read_prefix(text: str, start: int = 0, most: int = sys.maxsize) -> Prefix:
    """Read like `parse_prefix`, and tell also of what could not be read why, and what it cost.

    What needs more than `most` values to be read by hand is not read.
    """
    begin = _end(SPACE, text, start)
    if text[begin : begin + 1] not in ("{", "["):
        return Prefix(None, begin)
    try:
        value, end = STRICT.raw_decode(text, begin)
        return Prefix(Parsed(value), end)
    except (ValueError, RecursionError):
        pass
    reader = _Reader(text, begin, most=most)
    try:
        value = reader.value()
    except _Cut:
        return Prefix(None, len(text), True, reader.values)
    except _Unreadable:
        return Prefix(None, max(reader.position, reader.looked), values=reader.values)
    return Prefix(Parsed(value, tuple(reader.liberties)), reader.position, values=reader.values)


def is_cut(text: str) -> bool:
    """Tell whether the text ends inside a value: an open string, a key without its value, a number that may go on.

    A text in which only closers are missing is not cut, unless it ends in a number or an opener.
    """
    if not text.strip() or _strict(text) is not None:
        return False
    opened = OPEN_FENCE.match(text)
    begin = _end(BLANK, text, opened.end() if opened else 0)
    reader = _Reader(text, begin)
    try:
        reader.value()
    except _Cut:
        return True
    except _Unreadable:
        return False
    return reader.ends_in_number


class _Unreadable(Exception):  # noqa: N818 - it is a result, caught in this module
    """Say that the text cannot be read."""


class _Cut(Exception):  # noqa: N818
    """Say that the text ends inside a value."""


def _no_constant(name: str) -> Json:
    raise ValueError(name)


def _finite(digits: str) -> float:
    number = float(digits)
    if number in (float("inf"), float("-inf")):
        raise ValueError(digits)
    return number


STRICT: Final = json.JSONDecoder(parse_constant=_no_constant, parse_float=_finite)


def _strict(text: str) -> Parsed | None:
    try:
        return Parsed(STRICT.decode(text))
    except (ValueError, RecursionError):  # ValueError: also an integer of more than 4,300 digits
        return None


def _once_more(parsed: Parsed) -> Parsed:
    """Return what a JSON string holds if that is an object or a list, else the string."""
    value = parsed.value
    if not isinstance(value, str) or not value.lstrip().startswith(("{", "[")):
        return parsed
    inner = parse(value)
    if inner is None or not isinstance(inner.value, dict | list):
        return parsed
    return Parsed(inner.value, ("encoded twice", *inner.liberties))


def _fenced(text: str) -> str | None:
    """Return what stands in the fence that a text is; None when it is none."""
    opened, whole = FENCE.match(text), text.rstrip()
    if opened is None or not whole.endswith("```") or opened.end() > len(whole) - 3:
        return None
    return whole[opened.end() : -3].rstrip(" \t").removesuffix("\n")


def _unescaped_whole(text: str) -> Parsed | None:
    r"""Read a text in which every quote is escaped: `{\"a\": 1}`."""
    if not ESCAPED_WHOLE.match(text):
        return None
    text = text.strip().removesuffix('"')
    try:
        decoded = json.loads(f'"{text}"', strict=False)
    except ValueError:
        return None
    if not isinstance(decoded, str) or ESCAPED_WHOLE.match(decoded) or (inner := parse(decoded)) is None:
        return None
    return Parsed(inner.value, ("encoded twice", *inner.liberties))


def _read_whole(text: str) -> Parsed:
    liberties: dict[str, None] = {}
    begin = 0
    if opened := OPEN_FENCE.match(text):
        begin, liberties["fence"] = opened.end(), None
    elif label := LABEL.match(text):
        begin, liberties["fence label"] = label.end(), None
    reader = _Reader(text, begin, liberties)
    reader.skip()
    value = reader.value()
    if text[reader.position :].strip():
        if not SURPLUS.match(text, reader.position) or not isinstance(value, dict | list):
            raise _Unreadable
        liberties["surplus closers"] = None
    return Parsed(value, tuple(liberties))


def _end(pattern: re.Pattern[str], text: str, position: int) -> int:
    match = pattern.match(text, position)
    return match.end() if match else position


class _Reader:
    """Read one value from a text: descend by the first character, note each liberty, raise when there is no way on."""

    def __init__(
        self, text: str, position: int, liberties: dict[str, None] | None = None, most: int = sys.maxsize
    ) -> None:
        self.text = text
        self.position = position
        self.liberties: dict[str, None] = {} if liberties is None else liberties
        self.open: list[str] = []
        self.ends_in_number = False
        self.values = 0
        self.most = most
        self.looked = 0

    def skip(self) -> None:
        """Go over blanks and comments."""
        end = _end(SPACE, self.text, self.position)
        if self.text[end : end + 1] == "/" and self.text.startswith(("//", "/*"), end):
            end = _end(BLANK, self.text, end)
            self.liberties["comments"] = None
        self.position = end

    def peek(self) -> str:
        return self.text[self.position : self.position + 1]

    def value(self) -> Json:
        """Read the value at the position, where no blank stands."""
        self.values += 1
        if self.values > self.most:
            raise _Unreadable
        character = self.peek()
        if not character:
            raise _Cut
        if character in CLOSERS_OF:
            return self.string(is_key=False)
        read = self.READERS.get(character, _Reader.word)
        return read(self)

    def mapping(self) -> Json:
        members: dict[str, Json] = {}
        self.enter("}")
        while self.more("}", started=bool(members)):
            key = self.key()
            self.skip()
            if self.peek() not in (":", "="):
                raise _Unreadable if self.peek() else _Cut
            self.position += 1
            self.skip()
            if key in members:
                self.liberties["duplicate keys"] = None
            members[key] = self.value()
        return members

    def array(self) -> Json:
        items: list[Json] = []
        closer = ")" if self.peek() == "(" else "]"
        if closer == ")":
            self.liberties["Python literals"] = None
        self.enter(closer)
        while self.more(closer, started=bool(items)):
            items.append(self.value())
        return items

    def enter(self, closer: str) -> None:
        if len(self.open) >= MAX_DEPTH:
            raise _Unreadable
        self.open.append(closer)
        self.position += 1

    def leave(self) -> bool:
        self.open.pop()
        return False

    def more(self, closer: str, *, started: bool) -> bool:
        """Go to the next member of the container that `closer` ends; False when it has ended."""
        comma = False
        while True:
            self.skip()
            character = self.peek()
            if character == closer:
                self.position += 1
                if comma:
                    self.liberties["trailing comma"] = None
                return self.leave()
            if character == "," and not comma:
                comma = True
                self.position += 1
            elif not character:
                return self.ended(started=started and not comma)
            elif character in "}])":
                if self.closes_outer(character):
                    self.liberties["missing closers"] = None
                    return self.leave()
                self.position += 1
                self.liberties["surplus closers"] = None
            else:
                return self.begins_member(closer, needs_comma=started and not comma)

    def ended(self, *, started: bool) -> bool:
        """Take the end of the text for the missing closer, if a whole member stands before it."""
        if not started:
            raise _Cut
        self.liberties["missing closers"] = None
        return self.leave()

    def closes_outer(self, character: str) -> bool:
        """Tell whether a wrong closer ends a container further out; one with the right closer behind it is surplus.

        With a comma behind it, what comes next says where it goes on: with a key in an object, without in a list.
        """
        if character not in self.open[:-1]:
            return False
        end = _end(SPACE, self.text, self.position + 1)
        follows = self.text[end : end + 1]
        if follows != ",":
            return follows != self.open[-1]
        outer = len(self.open) - 1 - self.open[-2::-1].index(character)
        after = "}" if STRING_KEY.match(self.text, _end(SPACE, self.text, end + 1)) else "]"
        here, there = self.open[-1] == after, outer > 1 and self.open[outer - 2] == after
        if here == there:
            raise _Unreadable
        return there

    def begins_member(self, closer: str, *, needs_comma: bool) -> bool:
        if needs_comma:
            if closer != "}" or not STRING_KEY.match(self.text, self.position):
                raise _Cut if closer == "}" and OPEN_STRING_KEY.match(self.text, self.position) else _Unreadable
            self.liberties["missing comma"] = None
        return True

    def key(self) -> str:
        if self.peek() in CLOSERS_OF:
            return self.string(is_key=True)
        bare = BARE_KEY.match(self.text, self.position)
        if bare is None:
            if WORD.fullmatch(self.text, self.position):
                raise _Cut
            raise _Unreadable
        self.position = bare.end()
        self.liberties["unquoted keys"] = None
        return bare[1]

    def string(self, *, is_key: bool) -> str:
        """Read a string. In a value, quotes that nobody escaped are read too, where the end is plain (see `_rest`)."""
        opener = self.peek()
        if opener != '"':
            self.liberties["quotes"] = None
        if (tripled := self.tripled(opener)) is not None:
            return tripled
        body = BODIES[opener].match(self.text, self.position + 1)
        if body is None:
            raise _Cut
        if not is_key and not self.ends_well(body.end()):
            if self.open and OPEN_STRING_KEY.match(self.text, _end(BLANK, self.text, body.end())):
                raise _Cut
            if JOINED.match(self.text, body.end()):
                raise _Unreadable  # two strings, joined or with a comma lost between them
            return self.loose_string(opener)
        self.position = body.end()
        return self.unescaped(body[1], opener)

    def tripled(self, opener: str) -> str | None:
        """Read a Python string between tripled quotes."""
        marker = opener * 3
        if opener not in "\"'" or not self.text.startswith(marker, self.position):
            return None
        end = self.text.find(marker, self.position + 3)
        if end < 0:
            raise _Cut
        body, self.position = self.text[self.position + 3 : end], end + 3
        self.liberties["Python literals"] = None
        return self.unescaped(body, opener)

    def ends_well(self, position: int) -> bool:
        """Tell whether a string's value may end here: by what stands next."""
        end = _end(BLANK, self.text, position)
        follows = self.text[end : end + 1]
        if not self.open or not follows or follows in ",}])":
            return not (follows == "," and self.open and not self.goes_on(end))
        return self.open[-1] == "}" and STRING_KEY.match(self.text, end) is not None

    def goes_on(self, comma: int) -> bool:
        """Tell whether a comma in an object is followed by a key, a closer or nothing."""
        if self.open[-1] != "}":
            return True
        end = _end(BLANK, self.text, comma + 1)
        follows = self.text[end : end + 1]
        if not follows or follows in "}])":
            return True
        return bool(BARE_KEY.match(self.text, end) or STRING_KEY.match(self.text, end)) or follows in CLOSERS_OF

    def loose_string(self, opener: str) -> str:
        """Read the last string of the text, in which quotes stand that are not escaped.

        Its end is given from the right: the quote before all the closers that are still open. What looks like a key
        inside could be one, so that it is not read.
        """
        for tail in TAILS[opener].finditer(self.text, self.position + 1):
            closers = "".join(tail["closers"].split())
            if closers.startswith("".join(reversed(self.open))):
                body = self.text[self.position + 1 : tail.start()]
                if KEY_INSIDE.search(body) or (self.open[-1] != "}" and re.search(r"[\"']\s*,", body)):
                    break
                self.position = tail.start() + 1
                self.liberties["inner quotes"] = None
                return self.unescaped(body, opener)
        self.looked = len(self.text)
        raise _Unreadable

    def unescaped(self, body: str, opener: str) -> str:
        if CONTROL.search(body):
            self.liberties["raw newlines"] = None
        if "\\" not in body:
            return body
        if DRIVE.match(body) and "\\\\" not in body and '\\"' not in body:
            self.liberties["drive path"] = None
            return body
        if opener != "'" and PYTHON_ESCAPE.search(body):
            raise _Unreadable  # a character in Python's way of writing, or text that shows one
        if not PLAIN_ESCAPES.match(body):
            self.liberties["invalid escapes"] = None
        text = ESCAPE.sub(_unescape, body)
        if SURROGATE.search(text):
            text = text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "surrogatepass")
        return text

    def number(self) -> Json:
        if small := SMALL_NUMBER.match(self.text, self.position):
            self.position = small.end()
            return int(small[0])
        if sum_ := ARITHMETIC.match(self.text, self.position):
            self.position = sum_.end()
            self.liberties["arithmetic"] = None
            return _calculate(sum_[0])
        match = NUMBER.match(self.text, self.position)
        if match is None or len(match[0]) > MAX_DIGITS:
            raise _Cut if match is None and self.position + 1 == len(self.text) else _Unreadable
        self.position = match.end()
        if self.text[self.position : self.position + 1].isalnum():
            raise _Unreadable
        self.ends_in_number = self.position == len(self.text) and bool(self.open)
        written = match[0].replace("_", "").removeprefix("+")
        if written != match[0] or not JSON_NUMBER.match(written):
            self.liberties["number form"] = None
        return _number(written)

    def word(self) -> Json:
        match = WORD.match(self.text, self.position)
        if match is None:
            raise _Unreadable
        if match[0] not in WORDS:
            at_end = match.end() == len(self.text)
            raise _Cut if at_end and any(word.startswith(match[0]) for word in WORDS) else _Unreadable
        self.position = match.end()
        if match[0] not in ("true", "false", "null"):
            self.liberties["Python literals"] = None
        return WORDS[match[0]]

    READERS: Final[dict[str, Callable[[_Reader], Json]]] = {
        "{": mapping,
        "[": array,
        "(": array,
        **dict.fromkeys("0123456789+-.", number),
    }


def _unescape(match: re.Match[str]) -> str:
    escape = match[1]
    if escape[0] in "uxU" and len(escape) > 1:
        code = int(escape[1:], 16)
        return chr(code) if code <= sys.maxunicode else match[0]
    # What JSON does not know keeps its backslash: a regular expression means it.
    return ESCAPES.get(escape, match[0])


def _number(written: str) -> Json:
    digits = written.lstrip("-")
    if len(digits) > 1 and digits[0] == "0" and digits[1].isdigit():
        raise _Unreadable  # 007 is no number: a code, or octal
    if JSON_NUMBER.match(written) is None or not digits.isdigit():
        try:
            return _finite(written)
        except ValueError:
            raise _Unreadable from None
    return int(written)


def _calculate(text: str) -> int:
    """Work out a sum of products of whole numbers."""
    total = 0
    for sign, term in re.findall(r"(^|\+| - )\s*([\d*\s]+)", text):
        product = 1
        for factor in term.split("*"):
            # int() takes fewer characters for blanks than a pattern does.
            product *= int(factor.strip())
        total += -product if sign == " - " else product
    return total
