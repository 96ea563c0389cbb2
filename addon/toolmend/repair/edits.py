"""Hold changes of a value, and make them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from toolmend.model import Json, Repair, Rung
from toolmend.repair.schema import Steps, pointer


@dataclass(frozen=True, slots=True)
class Edit:
    """Hold one change: what stands at `steps` becomes `after`, or goes away."""

    steps: Steps
    before: Json
    after: Json
    note: str = ""
    gone: bool = False
    rung: Rung = "coerce"
    inner: tuple[Edit, ...] = ()
    """The changes that this one is made of, where they are to be told one by one."""

    def repairs(self, path: str) -> Iterator[Repair]:
        """Return the liberties, for a value that stands at `path`."""
        if self.inner:
            for edit in self.inner:
                yield from edit.repairs(path)
        else:
            yield Repair(self.rung, pointer(path, *self.steps), self.before, self.after, self.note)


def apply(value: Json, edits: Sequence[Edit], depth: int = 0) -> Json:
    """Return the value with the changes made: what they stand in is copied, once."""
    here = next((edit for edit in edits if len(edit.steps) == depth), None)
    if here is not None:
        return here.after
    deeper: dict[str | int, list[Edit]] = {}
    for edit in edits:
        deeper.setdefault(edit.steps[depth], []).append(edit)
    if isinstance(value, dict):
        members = dict(value)
        for step, inner in deeper.items():
            if any(edit.gone and len(edit.steps) == depth + 1 for edit in inner):
                del members[str(step)]
            else:
                members[str(step)] = apply(members.get(str(step)), inner, depth + 1)
        return members
    if isinstance(value, list):
        return [apply(item, deeper[index], depth + 1) if index in deeper else item for index, item in enumerate(value)]
    return value


def moved(edit: Edit, steps: Steps) -> Edit:
    """Return a change of a part as a change of the whole."""
    return replace(edit, steps=(*steps, *edit.steps), inner=tuple(moved(inner, steps) for inner in edit.inner))
