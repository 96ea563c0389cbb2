"""Find the one allowed value that another one means."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Final

from toolmend.model import Json
from toolmend.repair.names import MIN_EDITED, MIN_SUBSTITUTED, folded, opposed, words_of
from toolmend.repair.readings import TRIMMED

MAX_SPELLED: Final = 40
MAX_ALLOWED: Final = 500
MAX_TEXT: Final = 200
MOST_SLIPS: Final = 2
LONG: Final = 8
NUMBERS: Final = re.compile(r"(?:^[-+])?\d+(?:[.,:/]\d+)*")
SYMBOLS: Final = re.compile(r"[+#<>=!%$&@~^](?!\d)")


def nearest(value: Json, allowed: Sequence[Json]) -> Json:
    """Find the one allowed value that another one means; None when there is none, or more than one.

    By case, quotes, blanks and separators first, then by spelling: one slip, two in a long word.
    """
    if not isinstance(value, str | int | float) or (isinstance(value, str) and len(value) > MAX_TEXT):
        return None
    text = value if isinstance(value, str) else json.dumps(value)
    texts = [item for item in allowed if isinstance(item, str)]
    bare = text.strip(TRIMMED)
    if bare in texts:
        return bare
    key = folded(bare)
    alike = [item for item in texts if folded(item) == key and key and _says(item) == _says(bare)]
    if alike:
        return alike[0] if len(alike) == 1 else None
    numbers = [item for item in allowed if isinstance(item, int | float) and json.dumps(item) == bare]
    if len(numbers) == 1:
        return numbers[0]
    return _spelled(bare, texts)


def _says(text: str) -> tuple[list[str], set[str]]:
    """Return what folding takes away and yet tells values apart: numbers with sign and point, and symbols (`c++`)."""
    return NUMBERS.findall(text), set(SYMBOLS.findall(text))


def _spelled(text: str, allowed: Sequence[str]) -> str | None:
    """Find the one allowed value that is nearest by spelling, if the next one is further."""
    if not 4 <= len(folded(text)) <= MAX_SPELLED or len(allowed) > MAX_ALLOWED:
        return None
    distances = sorted((_slips(text, item), item) for item in allowed if _says(text) == _says(item))
    if not distances or distances[0][0] > MOST_SLIPS or (len(distances) > 1 and distances[1][0] <= distances[0][0]):
        return None
    return distances[0][1]


def _slips(text: str, item: str) -> int:
    """Count the slips between two values, in the one word in which they differ; more than allowed when there are two.

    A short word with another letter in it, or one that begins otherwise, is another word.
    """
    words, others = words_of(text), words_of(item)
    differing = [pair for pair in zip(words, others, strict=False) if pair[0] != pair[1]]
    one, other = folded(text), folded(item)
    if len(words) == len(others) and len(differing) == 1:
        one, other = differing[0]
    elif len(words) == len(others) or NUMBERS.search(text):
        return MOST_SLIPS + 1
    reach = 0 if len(one) < MIN_EDITED else 1 if len(one) < LONG else MOST_SLIPS
    swapped = sorted(one) == sorted(other)
    if (one[:1] != other[:1] and not swapped) or opposed(one, other):
        return MOST_SLIPS + 1
    if len(one) == len(other) < MIN_SUBSTITUTED and not swapped:
        return MOST_SLIPS + 1
    slips = _distance(one, other, reach + 1)
    return slips if slips <= reach else MOST_SLIPS + 1


def _distance(one: str, other: str, limit: int) -> int:
    """Count the slips between two words (characters added, lost, exchanged, swapped), up to a limit."""
    if abs(len(one) - len(other)) >= limit:
        return limit
    before: list[int] = []
    last = list(range(len(other) + 1))
    for row, left in enumerate(one, 1):
        line = [row]
        for column, right in enumerate(other, 1):
            least = min(last[column] + 1, line[-1] + 1, last[column - 1] + (left != right))
            if row > 1 and column > 1 and left == other[column - 2] and one[row - 2] == right:
                least = min(least, before[column - 2] + 1)
            line.append(least)
        before, last = last, line
    return min(last[-1], limit)
