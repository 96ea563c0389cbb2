"""Give arguments the form that their schema asks for, never another meaning.

The schema says where something does not fit, and only there something is changed. A change counts if the part it
stands in then fits, and if the whole has fewer defects and no new one.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from toolmend.model import Json, JsonObject, Repair, Tool
from toolmend.repair.allowed import nearest
from toolmend.repair.edits import Edit, apply, moved
from toolmend.repair.keys import belongs_elsewhere, renames
from toolmend.repair.names import folded
from toolmend.repair.readings import NOTHING, from_text, to_number
from toolmend.repair.schema import (
    Problem,
    Steps,
    Validator,
    missing_keys,
    properties_of,
    schema_inside,
    steps_taken,
    surplus_keys,
    types_of,
    validator,
)
from toolmend.repair.unwrapping import CONTAINERS
from toolmend.repair.whole_numbers import whole_numbers

MAX_SINGLE: Final = 24
MAX_BRANCHES: Final = 64
MAX_STEPS: Final = 80_000
MAX_NESTED: Final = 6

IN_A_LIST: Final = "put into a list"
LEFT_OUT: Final = "left out"
DEFAULT: Final = "default"
ONLY_VALUE: Final = "only value"
ECHO: Final = frozenset({"type", "description", "value", "title"})
JSON_TEXT: Final = re.compile(r"\bjson\b|\bstringified\b|\bseriali[sz]ed\b", re.IGNORECASE)
WORDS: Final = re.compile(r"[^\s,:\[\]{}()\"'\\]++")
JSON_FILE: Final = re.compile(r"\.(?:json|jsonc|ipynb|webmanifest)\Z", re.IGNORECASE)
BODIES: Final = frozenset({"body", "content", "contents", "data", "filecontent", "filecontents", "filetext", "text"})


@dataclass(frozen=True, slots=True)
class Coerced:
    """Hold a value in the form its schema asks for, and the liberties that were taken."""

    value: Json
    repairs: tuple[Repair, ...] = ()


def coerce(
    value: Json, schema: Json, path: str = "/calls/0/arguments", *, others: Sequence[Tool] = (), written: str = ""
) -> Coerced:
    """Give a value the form its schema asks for, as far as there is one way to do it.

    Args:
        value: The arguments.
        schema: The tool's parameters.
        path: Where the value stands in the turn.
        others: The other tools that are offered: a surplus member that one of them needs is not dropped.
        written: The arguments as the model wrote them, where known: an object that becomes text keeps its spacing.

    Returns:
        The same value (`is`) when nothing was to do. What is left faulty is as it was.
    """
    check = validator(schema)
    mended, edits = _Mender(others, written).settle(value, check)
    if edits and isinstance(mended, dict):
        mended, emptied = _without_blanks(mended, check.schema)
        edits = [*edits, *emptied]
    mended, whole = whole_numbers(mended, check)
    return Coerced(mended, tuple(repair for edit in [*edits, *whole] for repair in edit.repairs(path)))


def _without_blanks(members: JsonObject, schema: JsonObject) -> tuple[JsonObject, list[Edit]]:
    """Leave out the empty strings of a call that was filled in like a form: no member of it is required.

    Only where other members had to be repaired: an agent's integration rejects the blanks with them.
    Source: home-assistant/core#122749.
    """
    properties = {} if schema.get("required") else properties_of(schema)
    blank = [key for key, member in members.items() if member == "" and _is_plain_text(properties.get(key))]
    kept = {key: member for key, member in members.items() if key not in blank}
    return kept, [Edit((key,), "", None, LEFT_OUT, gone=True) for key in blank]


def _is_plain_text(schema: Json) -> bool:
    return isinstance(schema, dict) and schema.get("type") == "string" and "enum" not in schema


# Mending


class _Mender:
    """Mend one call's arguments: hold what is known of it, and how much checking may still be done."""

    def __init__(self, others: Sequence[Tool], written: str) -> None:
        self.others = others
        self.written = written
        self.last_step = steps_taken() + MAX_STEPS
        self.nested = 0
        self.numbers: dict[str, set[str]] | None = None

    @property
    def exhausted(self) -> bool:
        return self.nested > MAX_NESTED or steps_taken() > self.last_step

    def settle(self, value: Json, check: Validator, about: str = "") -> tuple[Json, list[Edit]]:
        """Mend a value as far as it goes: in rounds, because what was text may hold what is to be mended.

        It ends: each round leaves fewer problems than the one before.
        """
        done: list[Edit] = []
        problems = check.problems(value)
        while problems and not self.exhausted:
            edits = self.edits(problems, value, check, about)
            taken, value, left = self.take(edits, problems, value, check)
            if not taken:
                break
            done += taken
            problems = left
        return value, done

    def settled(self, value: Json, check: Validator, about: str = "") -> tuple[Json, list[Edit]] | None:
        """Mend a value to the end; None when it then does not fit."""
        self.nested += 1
        mended, edits = self.settle(value, check, about)
        fits = not self.exhausted and check.accepts(mended)
        self.nested -= 1
        return (mended, edits) if fits else None

    def edits(self, problems: Sequence[Problem], value: Json, check: Validator, about: str) -> list[Edit]:
        """Find a change for each place where something does not fit; inner places wait while an outer one changes."""
        found: dict[Steps, Edit] = {}
        for problem in sorted(problems, key=lambda problem: len(problem.steps)):
            steps = problem.steps
            if self.exhausted or any(steps[:length] in found for length in range(len(steps) + 1)):
                continue
            mend = MENDS.get(problem.keyword)
            edit = mend(self, problem, check, _about(problem, value) or about) if mend else None
            edit = edit or self.left_out(problem, check)
            if edit is not None:
                found[edit.steps] = edit
        return list(found.values())

    def take(
        self, edits: Sequence[Edit], problems: tuple[Problem, ...], value: Json, check: Validator
    ) -> tuple[list[Edit], Json, tuple[Problem, ...]]:
        """Take all changes if that is better, else those that are better alone.

        Returns:
            The changes taken, the value with them, and what then does not fit.
        """
        changed = apply(value, edits)
        left = check.problems(changed) if edits else problems
        if edits and _is_better(left, problems):
            return list(edits), changed, left
        taken: list[Edit] = []
        for edit in edits[:MAX_SINGLE] if len(edits) > 1 else ():
            changed = apply(value, [edit])
            left = check.problems(changed)
            if _is_better(left, problems):
                taken, value, problems = [*taken, edit], changed, left
        return taken, value, problems

    # One kind of problem each: the change, or None

    def retype(self, problem: Problem, check: Validator, about: str) -> Edit | None:
        part = check.within(problem.schema)
        for after, note in self.in_other_types(problem, check, about):
            if (settled := self.settled(after, part, about)) is not None:
                return Edit(problem.steps, problem.value, settled[0], note)
        return None

    def in_other_types(self, problem: Problem, check: Validator, about: str) -> Iterator[tuple[Json, str]]:
        """Return the value in each other type that is asked for, the plainest way first."""
        types = types_of(problem.schema)
        value = problem.value
        if isinstance(value, str):
            yield from from_text(value, types)
        elif isinstance(value, bool | int | float) and "string" in types:
            yield from ((text, "as text") for text in self.as_written(value))
        if value in (0, 1) and not isinstance(value, bool) and "boolean" in types:
            yield value == 1, "as boolean"
        if isinstance(value, dict) and "value" in value and value.keys() <= ECHO:
            yield value["value"], "taken out of a schema's echo"
        if isinstance(value, list) and len(value) == 1:
            yield value[0], "taken out of a list"
        if isinstance(value, dict | list) and "string" in types and JSON_TEXT.search(about):
            yield self.as_text(value), "written as JSON"
        if "array" in types and value is not None:
            yield from self.as_list(value, check.resolve(problem.schema.get("items")))

    def as_list(self, value: Json, items: JsonObject) -> Iterator[tuple[Json, str]]:
        """Return one value as a list of it; text that holds several is split only where the items are no free text."""
        if isinstance(value, str) and ("," in value or "\n" in value):
            if "enum" in items or (types_of(items) and "string" not in types_of(items)):
                yield [part.strip() for part in value.split(",")], "split into a list"
        elif not (isinstance(value, str) and value.lstrip().startswith(("[", "{"))):
            yield [value], IN_A_LIST

    def as_written(self, value: bool | float) -> list[str]:
        """Write a number or truth value as text: a number as the model wrote it (`3.10`), where that is known."""
        if isinstance(value, bool) or not self.written:
            return [json.dumps(value)]
        if self.numbers is None:
            self.numbers = _numbers_in(self.written)
        texts = self.numbers.get(json.dumps(value), set())
        return list(texts) if len(texts) == 1 else []

    def as_text(self, value: Json) -> str:
        """Write JSON as text: as the model spaced it, where that is known."""
        forms = (
            json.dumps(value, ensure_ascii=False),
            json.dumps(value, ensure_ascii=False, separators=(",", ":")),
            json.dumps(value, ensure_ascii=False, indent=2),
        )
        return next((form for form in forms if form in self.written), forms[0])

    def choose(self, problem: Problem, check: Validator, about: str) -> Edit | None:
        """Find the one allowed value that is meant."""
        listed = problem.expected if problem.keyword == "enum" else None
        allowed = listed if isinstance(listed, list) else [problem.expected]
        after = nearest(problem.value, allowed)
        if after is None and not (None in allowed and _says_nothing(problem)):
            return None
        return Edit(problem.steps, problem.value, after, "allowed value")

    def branch(self, problem: Problem, check: Validator, about: str) -> Edit | None:
        """Find the one branch that the value fits once it is mended: the one that takes the fewest changes."""
        branches = problem.expected if isinstance(problem.expected, list) else []
        if problem.keyword == "oneOf" and any(check.within(branch).accepts(problem.value) for branch in branches):
            return None
        settled = [self.settled(problem.value, check.within(part), about) for part in branches[:MAX_BRANCHES]]
        found = [(sum(map(_cost, fit[1])), *fit) for fit in settled if fit is not None]
        least = min((cost for cost, _, _ in found), default=0)
        values = [(value, edits) for cost, value, edits in found if cost == least]
        if not values or any(not same(value, values[0][0]) for value, _ in values):
            return None
        after, edits = values[0]
        inner = tuple(moved(edit, problem.steps) for edit in edits)
        return Edit(problem.steps, problem.value, after, inner[0].note if len(inner) == 1 else "", inner=inner)

    def members(self, problem: Problem, check: Validator, about: str) -> Edit | None:
        """Mend the keys of an object: rename what is meant, fill in a default, leave out what is not allowed."""
        if not isinstance(problem.value, dict):
            return None
        members, schema = dict(problem.value), problem.schema
        declared = properties_of(schema)
        inner: list[Edit] = []
        for old, new in self.meant_keys(members, schema, declared, check).items():
            value, edits = self.settle(members[old], check.within(declared[new]))
            members = {new if key == old else key: value if key == old else item for key, item in members.items()}
            inner.append(Edit((*problem.steps, old), old, new, "renamed", rung="keys"))
            inner += (moved(edit, (*problem.steps, new)) for edit in edits)
        # Where nothing is known of what is there, nobody can tell that the rest was left to its default.
        known = not members or not members.keys().isdisjoint(declared)
        for name in missing_keys(replace(problem, value=members)) if known else ():
            found = _only_value(check.resolve(declared.get(name)))
            if found is not None and check.within(declared[name]).accepts(found[0]):
                members[name] = found[0]
                inner.append(Edit((*problem.steps, name), None, found[0], found[1]))
        # What is surplus may be what is missing, under a name that nobody can tell.
        surplus = [] if missing_keys(replace(problem, value=members)) else _surplus(members, schema)
        if declared and len(surplus) == len(members):
            surplus = []  # then nothing would be left of what was said
        for key in surplus:
            wrapped = key in CONTAINERS and isinstance(members[key], dict | list)
            if problem.steps or not (wrapped or belongs_elsewhere(key, problem.value, self.others)):
                inner.append(Edit((*problem.steps, key), members.pop(key), None, LEFT_OUT, gone=True, rung="keys"))
        return Edit(problem.steps, problem.value, members, inner=tuple(inner)) if inner else None

    def meant_keys(
        self, members: JsonObject, schema: JsonObject, declared: JsonObject, check: Validator
    ) -> dict[str, str]:
        def fits(key: str, name: str) -> bool:
            return self.settled(members[key], check.within(declared[name])) is not None

        missing = missing_keys(Problem((), "required", schema, None, members, ""))
        return renames(members, declared, missing, fits)

    def left_out(self, problem: Problem, check: Validator) -> Edit | None:
        """Leave out a member that says "nothing" and may be absent."""
        if not problem.steps or not isinstance(problem.steps[-1], str) or not _says_nothing(problem):
            return None
        if _is_required(problem.steps, check):
            return None
        return Edit(problem.steps, problem.value, None, LEFT_OUT, gone=True)


MENDS: Final[dict[str, Callable[[_Mender, Problem, Validator, str], Edit | None]]] = {
    "type": _Mender.retype,
    "enum": _Mender.choose,
    "const": _Mender.choose,
    "anyOf": _Mender.branch,
    "oneOf": _Mender.branch,
    "required": _Mender.members,
    "additionalProperties": _Mender.members,
}


def _numbers_in(text: str) -> dict[str, set[str]]:
    """Return how each number in a text is written there."""
    found: dict[str, set[str]] = {}
    for word in WORDS.findall(text):
        if (number := to_number(word, whole=False)) is not None:
            found.setdefault(json.dumps(number), set()).add(word)
    return found


def _is_better(left: Sequence[Problem], before: Sequence[Problem]) -> bool:
    """Tell whether fewer problems are left, and none that was not there."""
    known = {(problem.steps, problem.keyword, problem.missing) for problem in before}
    return len(left) < len(before) and all(
        (problem.steps, problem.keyword, problem.missing) in known for problem in left
    )


def _cost(edit: Edit) -> int:
    """Weigh a change: one value read as a list of it is further from what was written than the value itself."""
    return sum(map(_cost, edit.inner)) if edit.inner else 2 if edit.note == IN_A_LIST else 1


def same(one: Json, other: Json) -> bool:
    """Tell whether two values are the same JSON: 1, 1.0 and true are three."""
    return json.dumps(one, sort_keys=True) == json.dumps(other, sort_keys=True)


def _is_required(steps: Steps, check: Validator) -> bool:
    """Tell whether a schema that applies where a member stands asks for it, in any of its branches."""
    schemas: list[Json] = [check.schema]
    for step in steps[:-1]:
        known = list(check.applying(schemas))
        schemas = [schema_inside(schema, step) for schema in known]
    required = [schema.get("required") for schema in check.applying(schemas)]
    return any(isinstance(names, list) and steps[-1] in names for names in required)


def _about(problem: Problem, value: Json) -> str:
    """Say what is known of a place: its description, or that it is the body of a JSON file."""
    description = problem.schema.get("description")
    about = description if isinstance(description, str) else ""
    if not problem.steps or folded(str(problem.steps[-1])) not in BODIES:
        return about
    parent = value
    for step in problem.steps[:-1]:
        parent = parent[step] if isinstance(parent, dict | list) else None  # type: ignore[index]
    members = parent.values() if isinstance(parent, dict) else ()
    beside = (member for member in members if isinstance(member, str))
    return f"{about} JSON file" if any(JSON_FILE.search(member) for member in beside) else about


def _surplus(members: JsonObject, schema: JsonObject) -> list[str]:
    expected = schema.get("additionalProperties")
    return surplus_keys(Problem((), "additionalProperties", schema, expected, members, ""))


def _only_value(schema: JsonObject) -> tuple[Json, str] | None:
    """Return the value that a member has when nobody says it: its default, or the only one that is allowed."""
    if "default" in schema:
        return schema["default"], DEFAULT
    if "const" in schema:
        return schema["const"], ONLY_VALUE
    allowed = schema.get("enum")
    return (allowed[0], ONLY_VALUE) if isinstance(allowed, list) and len(allowed) == 1 else None


def _says_nothing(problem: Problem) -> bool:
    value = problem.value
    return value is None or (isinstance(value, str) and value.strip().lower() in NOTHING)
