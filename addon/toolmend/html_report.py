"""Draw a folder of recordings as one page: what models get wrong, what was done about it, and examples side by side.

The page is one file without scripts, fonts or pictures from elsewhere; its charts are SVG.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Final, Literal, TypeAlias, get_args

from jinja2 import Environment, StrictUndefined, select_autoescape

from toolmend import __version__, recordings, report
from toolmend.model import Rung, Turn
from toolmend.recordings import Recording

Ending: TypeAlias = Literal["valid", "repaired", "followed", "broken"]

ENDINGS: Final[dict[Ending, str]] = {
    "valid": "valid as sent",
    "repaired": "repaired",
    "followed": "followed up",
    "broken": "left broken",
}
RUNGS: Final[dict[Rung, str]] = {
    "recover": "call found in text, thinking, error or tap",
    "parse": "arguments read leniently",
    "names": "name of the tool snapped",
    "unwrap": "arguments unwrapped",
    "keys": "parameter names mended",
    "coerce": "values brought to the schema's form",
    "choose": "tool choice enforced",
    "follow-up": "asked again, under a schema",
    "wire": "form of the answer mended",
}
EXAMPLES: Final = 24
WORST_TOOLS: Final = 12
LONGEST_EXAMPLE: Final = 900
NO_TOOL: Final = "(no call left)"


@dataclass(frozen=True, slots=True)
class Row:
    """Hold one line of a chart: its label, its parts by ending or rung, and how many there are in all."""

    label: str
    parts: dict[str, int]
    total: int


@dataclass(frozen=True, slots=True)
class Example:
    """Hold one recording as the page shows it."""

    name: str
    model: str
    surface: str
    ending: Ending
    sent: str
    delivered: str
    said: Sequence[str]


@dataclass(frozen=True, slots=True)
class Seen:
    """Hold one recording with what the page counts of it."""

    name: str
    recording: Recording
    received: Turn
    ending: Ending
    tools: Sequence[str]


def render(found: Iterable[tuple[str, Recording]]) -> str:
    """Write the page.

    Args:
        found: The recordings, each with its name.
    """
    seen = [_seen(name, recording) for name, recording in found]
    environment = Environment(autoescape=select_autoescape(default=True), undefined=StrictUndefined, trim_blocks=True)
    environment.lstrip_blocks = True
    template = environment.from_string((files("toolmend") / "templates" / "report.html").read_text("utf-8"))
    return template.render(
        version=__version__,
        total=len(seen),
        endings=ENDINGS,
        rungs=RUNGS,
        marks=["valid", *RUNGS, "broken"],
        shares=Counter(one.ending for one in seen),
        models=_rows(seen, lambda one: [one.recording.model], _ending_of),
        tools=_rows(seen, lambda one: one.tools, _ending_of)[:WORST_TOOLS],
        surfaces=_rows(seen, lambda one: [one.recording.surface], _ending_of),
        calls=_rows(seen, _model_and_tools, _marks_of),
        faults=_faults(seen),
        examples=[_example(one) for one in _telling(seen)],
    )


def _seen(name: str, recording: Recording) -> Seen:
    received = recordings.replay(recording).received
    called = dict.fromkeys(call.name for call in (recording.outcome.turn.calls or received.calls))
    return Seen(name, recording, received, _ending(recording), list(called) or [NO_TOOL])


def _ending(recording: Recording) -> Ending:
    outcome = recording.outcome
    if outcome.faults:
        return "broken"
    if any(repair.rung == "follow-up" for repair in outcome.repairs):
        return "followed"
    return "repaired" if outcome.repairs else "valid"


def _ending_of(seen: Seen) -> Iterable[str]:
    return [seen.ending]


def _rungs_of(seen: Seen) -> Iterable[str]:
    return {repair.rung for repair in seen.recording.outcome.repairs}


def _model_and_tools(seen: Seen) -> Iterable[str]:
    return [f"{seen.recording.model} / {tool}" for tool in seen.tools]


def _marks_of(seen: Seen) -> Iterable[str]:
    """Give what happened to a call: each rung that acted, or that nothing was to do, and whether it is left broken."""
    return [*_rungs_of(seen), *({seen.ending} & {"valid", "broken"})]


def _rows(
    seen: Sequence[Seen], labels: Callable[[Seen], Iterable[str]], parts: Callable[[Seen], Iterable[str]]
) -> list[Row]:
    """Count parts by label, the labels with the most trouble first."""
    counts: dict[str, Counter[str]] = {}
    totals: Counter[str] = Counter()
    for one in seen:
        for label in labels(one):
            counts.setdefault(label, Counter()).update(parts(one))
            totals[label] += 1
    rows = [Row(label, dict(counted), totals[label]) for label, counted in counts.items()]
    return sorted(rows, key=lambda row: (row.parts.get("valid", 0) - row.total, -row.parts.get("broken", 0), row.label))


def _faults(seen: Sequence[Seen]) -> list[Row]:
    """Count the kinds of trouble: what each rung mended, and what was left, by keyword."""
    mended: Counter[str] = Counter()
    left: Counter[str] = Counter()
    for one in seen:
        mended.update(_rungs_of(one))
        left.update({fault.keyword for fault in one.recording.outcome.faults})
    rows = [Row(rung, {"repaired": mended[rung]}, mended[rung]) for rung in get_args(Rung) if mended[rung]]
    rows += [Row(keyword, {"broken": count}, count) for keyword, count in left.items()]
    return sorted(rows, key=lambda row: (-row.total, row.label))


def _telling(seen: Sequence[Seen]) -> list[Seen]:
    """Choose examples: first one of each kind, then more, none that was valid."""
    troubled = [one for one in seen if one.ending != "valid"]
    firsts: dict[tuple[str, ...], Seen] = {}
    for one in troubled:
        faults = sorted({fault.keyword for fault in one.recording.outcome.faults})
        firsts.setdefault((*sorted(_rungs_of(one)), *faults), one)
    chosen = list(firsts.values())
    names = {one.name for one in chosen}
    return (chosen + [one for one in troubled if one.name not in names])[:EXAMPLES]


def _example(seen: Seen) -> Example:
    outcome = seen.recording.outcome
    said = [f"{repair.rung}: {report.say_repair(repair)}" for repair in outcome.repairs]
    said += [f"left: {report.say_fault(fault)}" for fault in outcome.faults]
    return Example(
        name=seen.name,
        model=seen.recording.model,
        surface=seen.recording.surface,
        ending=seen.ending,
        sent=_turn_text(seen.received),
        delivered=_turn_text(outcome.turn),
        said=said,
    )


def _turn_text(turn: Turn) -> str:
    """Write a turn as a person reads it: what is not empty, calls as JSON."""
    parts = [f"{call.name} {json.dumps(call.arguments, indent=1, ensure_ascii=False)}" for call in turn.calls]
    named = (("error", turn.error), ("thinking", turn.thinking), ("text", turn.text), ("raw", turn.raw))
    said = [f"{name}: {value}" for name, value in named if value]
    text = "\n".join([*said, *parts]) or f"(nothing: finish {turn.finish}, {turn.tokens} tokens)"
    return text if len(text) <= LONGEST_EXAMPLE else f"{text[:LONGEST_EXAMPLE]}…"
