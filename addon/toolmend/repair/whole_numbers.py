"""Write 3.0 as 3 where a whole number is asked for."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from toolmend.model import Json, JsonObject
from toolmend.repair.edits import Edit
from toolmend.repair.schema import Steps, Validator, schema_inside, types_of

MAX_WHOLE: Final = 2**53


def whole_numbers(value: Json, check: Validator) -> tuple[Json, list[Edit]]:
    """Write 3.0 as 3 where a whole number is asked for: the schema accepts both, typed clients do not."""
    edits: list[Edit] = []
    whole = _wholes(value, [check.schema], (), check, edits) if _has_float(value) else value
    return (whole if edits else value), edits


def _has_float(value: Json) -> bool:
    todo = [value]
    while todo:
        here = todo.pop()
        if isinstance(here, float):
            return True
        if isinstance(here, dict):
            todo += here.values()
        elif isinstance(here, list):
            todo += here
    return False


def _wholes(value: Json, schemas: Sequence[Json], steps: Steps, check: Validator, edits: list[Edit]) -> Json:
    known = list(check.applying(schemas))
    if not known:
        return value
    if isinstance(value, float):
        if value.is_integer() and abs(value) < MAX_WHOLE and _asks_whole(known):
            edits.append(Edit(steps, value, int(value), "whole number"))
            return int(value)
    elif isinstance(value, dict):
        return {
            key: _wholes(member, [schema_inside(schema, key) for schema in known], (*steps, key), check, edits)
            for key, member in value.items()
        }
    elif isinstance(value, list):
        return [
            _wholes(item, [schema_inside(schema, index) for schema in known], (*steps, index), check, edits)
            for index, item in enumerate(value)
        ]
    return value


def _asks_whole(schemas: Sequence[JsonObject]) -> bool:
    types = {name for schema in schemas for name in types_of(schema)}
    return "integer" in types and "number" not in types
