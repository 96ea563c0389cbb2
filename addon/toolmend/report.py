"""Say what was done: an outcome becomes a log line, a flow's comment, a JSON line and a count.

Nothing is done in silence: everything here is read from `Repair` and `Fault` values, never remembered beside them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from toolmend.model import Fault, Json, JsonObject, Outcome, Repair, Turn

LONGEST_VALUE = 60
LONGEST_LIST = 8


def short(value: Json) -> str:
    """Write a value as JSON, cut in its middle when it is long: a log line is one line."""
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 20]}…{text[-16:]}"


def split_path(path: str) -> tuple[int | None, str]:
    """Split a JSON pointer into the call it is in (None: the turn itself) and the pointer inside its arguments."""
    parts = path.split("/")
    if len(parts) < 3 or parts[1] != "calls" or not parts[2].isdigit():
        return None, path
    inner = "/" + "/".join(parts[4:]) if parts[3:4] == ["arguments"] and parts[4:] else "/".join(["", *parts[3:]])
    return int(parts[2]), inner


def say_repair(repair: Repair) -> str:
    """Say one repair in words: `/duration_minutes "30" -> 30`."""
    _, path = split_path(repair.path)
    words = WORDS.get(repair.rung)
    if words is not None:
        return words(path, repair)
    return _change(path, repair)


def _change(path: str, repair: Repair) -> str:
    if repair.before is None and repair.after is not None:
        return f"{path} set to {short(repair.after)}"
    if repair.after is None and repair.before is not None:
        return f"{path} {short(repair.before)} dropped"
    if isinstance(repair.before, str) and isinstance(repair.after, list | dict):
        return f"{path} parsed from text"
    return f"{path} {short(repair.before)} -> {short(repair.after)}"


TURN_PLACES = {"/text": "the text", "/thinking": "the thinking", "/raw": "the model's own tokens"}


def _recovered(path: str, repair: Repair) -> str:
    if path == "/error":
        return "the server's error replaced by the call"
    if path in TURN_PLACES:
        what = repair.note if repair.note.startswith("leftover") else "the call"
        return f"{what} taken out of {TURN_PLACES[path]}"
    if repair.note == "error":
        return "read from the server's error"
    return f"was written as text ({repair.note})" if repair.note else "was written as text"


def _parsed(path: str, repair: Repair) -> str:
    return f"arguments read ({repair.note})" if repair.note else "arguments read"


def _named(path: str, repair: Repair) -> str:
    return f"name {short(repair.before)} -> {short(repair.after)}"


def _asked(path: str, repair: Repair) -> str:
    what = "asked again" if path in ("/calls", "", "/text") else f"{path or 'call'} asked again"
    return f"{what} ({repair.note})" if repair.note else what


def _chosen(path: str, repair: Repair) -> str:
    return f"call removed ({repair.note})" if repair.after is None else _change(path, repair)


WORDS = {"recover": _recovered, "parse": _parsed, "names": _named, "follow-up": _asked, "choose": _chosen}


def say_fault(fault: Fault) -> str:
    """Say one defect in words: `/days is "soon", expected integer`. Its message begins with the whole path."""
    _, path = split_path(fault.path)
    what = fault.message.removeprefix(fault.path).lstrip(": ")
    return what if path in ("", "/calls") else f"{path} {what}"


def _listed(parts: Iterable[str]) -> str:
    found = list(dict.fromkeys(parts))
    more = len(found) - LONGEST_LIST
    return ", ".join(found[:LONGEST_LIST]) + (f" and {more} more" if more > 0 else "")


def _subject(outcome: Outcome, index: int | None) -> str:
    calls = outcome.turn.calls
    return calls[index].name or "a call without a name" if index is not None and index < len(calls) else "turn"


def sentences(outcome: Outcome) -> list[str]:
    """Say what was done to each call, and what is left: `create_event repaired: …`, `read_file left broken: …`."""
    done = [(repair.path, say_repair(repair)) for repair in outcome.repairs]
    left = [(fault.path, say_fault(fault)) for fault in outcome.faults]
    return _by_call(outcome, "repaired", done) + _by_call(outcome, "left broken", left)


def _by_call(outcome: Outcome, verb: str, said: Iterable[tuple[str, str]]) -> list[str]:
    groups: dict[int | None, list[str]] = {}
    for path, words in said:
        groups.setdefault(split_path(path)[0], []).append(words)
    return [f"{_subject(outcome, index)} {verb}: {_listed(parts)}" for index, parts in groups.items()]


def say_question(kind: str) -> str:
    """Say what a question of ours is, for its flow."""
    return f"toolmend: {QUESTIONS[kind]}"


QUESTIONS = {
    "server": "asks what the server is",
    "constrained": "asks for what is broken, held to the schema",
    "tapped": "asks once more, with the tokens shown",
    "render": "asks for the prompt as the model gets it",
    "raw": "lets the model go on from its prompt, held to the schema",
    "plain": "asks once more, as the client asked",
}


def line(surface: str, model: str, outcome: Outcome) -> str | None:
    """Say a turn in one line, for the log: None when there is nothing to say (nothing done, nothing broken)."""
    said = sentences(outcome)
    return f"toolmend: {surface} {model}: {'; '.join(said)}" if said else None


def entry(surface: str, model: str, received: Turn, outcome: Outcome, asked: int) -> JsonObject:
    """Say a turn as an object: for a JSON-lines log, for the flow, and for whoever asks to have it explained.

    Args:
        surface: Name of the API surface.
        model: Name of the model.
        received: The turn as the server sent it.
        outcome: What was made of it.
        asked: How many questions it took.
    """
    return {
        "surface": surface,
        "model": model,
        "verdict": verdict(outcome),
        "sent": _calls(received),
        "delivered": _calls(outcome.turn),
        "repairs": [
            {
                "rung": r.rung,
                "path": r.path,
                "before": r.before,
                "after": r.after,
                "note": r.note,
                "said": say_repair(r),
            }
            for r in outcome.repairs
        ],
        "faults": [
            {"path": f.path, "keyword": f.keyword, "message": f.message, "said": say_fault(f)} for f in outcome.faults
        ],
        "follow_ups": asked,
        **({"text": received.text} if received.text and not received.calls else {}),
        **({"error": received.error} if received.error else {}),
    }


def _calls(turn: Turn) -> list[Json]:
    return [{"name": call.name, "arguments": call.arguments} for call in turn.calls]


def explain(entry: JsonObject) -> str:
    """Say an entry at length, as a person reads it: what came, what went on, and each step between."""
    lines = [f"toolmend: {entry['surface']} {entry['model']}: {entry['verdict']}"]
    for title, key in (("as the model sent it", "sent"), ("as the agent got it", "delivered")):
        lines += ["", title, *_said_calls(entry, key)]
    for title, key in (("repairs", "repairs"), ("left broken", "faults")):
        found = entry.get(key)
        if isinstance(found, list) and found:
            lines += ["", title, *(f"  {_said(item)}" for item in found)]
    if entry.get("follow_ups"):
        lines += ["", f"questions asked: {entry['follow_ups']}"]
    return "\n".join(lines)


def _said_calls(entry: JsonObject, key: str) -> list[str]:
    calls = entry.get(key)
    if isinstance(calls, list) and calls:
        return [line for call in calls if isinstance(call, dict) for line in _said_call(call)]
    if key == "sent":
        said = [f"{name}: {entry[name]}" for name in ("text", "error") if name in entry] or ["(nothing)"]
        return [f"  {line}" for text in said for line in text.splitlines()]
    return ["  (no call)"]


def _said_call(call: JsonObject) -> list[str]:
    """Say a call with a line for each argument: a call is read in a narrow column."""
    arguments = call.get("arguments")
    if isinstance(arguments, dict):
        inner = [f"{name}: {json.dumps(value, ensure_ascii=False)}" for name, value in arguments.items()]
    else:
        inner = str(arguments).splitlines() if isinstance(arguments, str) else [json.dumps(arguments)]
    return [f"  {call.get('name')}", *(f"    {line}" for line in inner)]


def _said(item: Json) -> str:
    if not isinstance(item, dict):
        return ""
    kind = item.get("rung") or item.get("keyword")
    return f"{kind}: {item.get('said')}"


def verdict(outcome: Outcome) -> str:
    """Tell in one word how a turn ended: broken, repaired, valid (it has calls) or text."""
    if outcome.faults:
        return "broken"
    if outcome.repairs:
        return "repaired"
    return "valid" if outcome.turn.calls else "text"


@dataclass(slots=True)
class Statistics:
    """Count turns, for the summary at the end."""

    turns: int = 0
    verdicts: Counter[str] = field(default_factory=Counter)
    rungs: Counter[str] = field(default_factory=Counter)
    followed_up: int = 0
    model_calls: int = 0
    passed_untouched: int = 0

    def add(self, outcome: Outcome, asked: int) -> None:
        """Count one finished turn and the questions it took."""
        self.turns += 1
        self.verdicts[verdict(outcome)] += 1
        self.rungs.update({repair.rung for repair in outcome.repairs})
        self.followed_up += asked > 0
        self.model_calls += asked

    def as_object(self) -> JsonObject:
        """Return the counts as JSON."""
        return {
            "turns": self.turns,
            **{name: self.verdicts[name] for name in ("valid", "text", "repaired", "broken")},
            "repaired_by_rung": dict(sorted(self.rungs.items())),
            "followed_up": self.followed_up,
            "follow_up_calls": self.model_calls,
        }

    def summary(self) -> str:
        """Say the counts in one line."""
        verdicts = self.verdicts
        by_rung = ", ".join(f"{rung} {count}" for rung, count in self.rungs.most_common())
        return (
            f"toolmend: {self.turns} turns with tools: {verdicts['valid']} valid, {verdicts['text']} text, "
            f"{verdicts['repaired']} repaired{f' ({by_rung})' if by_rung else ''}, "
            f"{self.followed_up} followed up, {verdicts['broken']} left broken"
        )
