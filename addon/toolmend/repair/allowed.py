"""Find the one allowed value that another one means."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from typing import Final

from toolmend.model import Json
from toolmend.repair.names import NEGATIONS, folded
from toolmend.repair.readings import TRIMMED

MAX_SPELLED: Final = 40
MAX_ALLOWED: Final = 500
MAX_TEXT: Final = 200


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
    alike = [item for item in texts if folded(item) == key and key]
    if alike:
        return alike[0] if len(alike) == 1 else None
    numbers = [item for item in allowed if isinstance(item, int | float) and json.dumps(item) == bare]
    if len(numbers) == 1:
        return numbers[0]
    return _spelled(key, texts)


def _spelled(key: str, allowed: Sequence[str]) -> str | None:
    """Find the one allowed word that is nearest by spelling, if the next one is further."""
    if not 4 <= len(key) <= MAX_SPELLED or len(allowed) > MAX_ALLOWED:
        return None
    reach = 1 if len(key) < 8 else 2
    distances = sorted((_distance(key, folded(item), reach + 1), item) for item in allowed)
    if not distances or distances[0][0] > reach or (len(distances) > 1 and distances[1][0] <= distances[0][0]):
        return None
    return None if _is_opposite(key, folded(distances[0][1])) else distances[0][1]


def _is_opposite(one: str, other: str) -> bool:
    """Tell whether two words differ by a negation in front, or by their digits."""
    shorter, longer = sorted((one, other), key=len)
    head = longer[: len(longer) - len(shorter)]
    if re.findall(r"\d+", one) != re.findall(r"\d+", other):
        return True
    return longer.endswith(shorter) and head in NEGATIONS | {"a", "de", "im", "in", "ir"}


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
