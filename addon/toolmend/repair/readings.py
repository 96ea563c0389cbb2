"""Read text as the type that a schema asks for."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from toolmend import lenient_json
from toolmend.model import Json

MAX_WHOLE: Final = 2**53
MAX_NUMBER: Final = 300
NUMBER: Final = re.compile(r"[+-]?(?:0|[1-9]\d*+)(?:\.\d++)?(?:[eE][+-]?\d{1,3})?\Z", re.ASCII)
TRUTH: Final = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False}
NOTHING: Final = frozenset({"", "null", "none", "undefined"})
TRIMMED: Final = " \t\r\n\"'`“”‘’"


def from_text(text: str, types: Sequence[str]) -> Iterator[tuple[Json, str]]:
    """Read text as each type that is asked for: numbers, true and false, nothing, lists and objects.

    Yields:
        A value and how it was read. Text that could be more than one thing is none.
    """
    bare = text.strip(TRIMMED)
    if {"integer", "number"} & set(types) and (number := to_number(bare, whole="number" not in types)) is not None:
        yield number, ""
    if "boolean" in types and bare.lower() in TRUTH:
        yield TRUTH[bare.lower()], ""
    if "null" in types and bare.lower() in NOTHING - {""}:
        yield None, ""
    if {"array", "object"} & set(types) and text.lstrip().startswith(("[", "{", "(", "```", '"')):
        yield from _containers(text, types)


def _containers(text: str, types: Sequence[str]) -> Iterator[tuple[Json, str]]:
    parsed = lenient_json.parse(text)
    if parsed is None:
        return
    note = ", ".join(("parsed from text", *parsed.liberties))
    if isinstance(parsed.value, list) and "array" in types:
        yield parsed.value, note
    elif isinstance(parsed.value, dict):
        yield (parsed.value if "object" in types else [parsed.value]), note


def to_number(text: str, *, whole: bool) -> int | float | None:
    """Read a number; None when it is none, or not a whole one where that is asked for."""
    if len(text) > MAX_NUMBER or not NUMBER.match(text):
        return None
    if text.lstrip("+-").isdigit():
        return int(text)
    number = float(text)
    if number in (float("inf"), float("-inf")):
        return None
    if not whole:
        return number
    return int(number) if number.is_integer() and abs(number) < MAX_WHOLE else None
