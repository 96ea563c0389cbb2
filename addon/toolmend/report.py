"""Say what was done: an outcome becomes a log line, a flow's comment, a JSON line and a count.

Nothing is done in silence: everything here is read from `Repair` and `Fault` values, never remembered beside them.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from toolmend.model import Fault, Json, JsonObject, Outcome, Repair, Turn

LONGEST_VALUE = 60
LONGEST_LIST = 8


def short(value: Json) -> str:
    """Write a value as JSON, cut in its middle when it is long: a log line is one line."""
    return _cut(json.dumps(value, ensure_ascii=False))


def _cut(text: str) -> str:
    return text if len(text) <= LONGEST_VALUE else f"{text[: LONGEST_VALUE - 20]}…{text[-16:]}"


CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
"""What a model could say to write lines of its own into a log, to move about in a terminal, or to turn text around."""


def plain(text: str) -> str:
    """Write what is no plain text as escapes: `\\n`, `\\x1b`."""
    return CONTROL.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


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
    return WORDS.get(repair.rung, _change)(path, repair)


def _change(path: str, repair: Repair) -> str:
    if repair.note in ("left out", "default") or (repair.before is None and repair.after is not None):
        return f"{path} left out" if repair.after is None else f"{path} set to {short(repair.after)}"
    if isinstance(repair.before, str) and isinstance(repair.after, list | dict) and repair.note not in FROM_ONE:
        return f"{path} parsed from text"
    return f"{path} {short(repair.before)} -> {short(repair.after)}"


FROM_ONE = ("in a list", "split into a list")
"""What was done to a value that became a list without being read as one."""


def _recovered(path: str, repair: Repair) -> str:
    if path == "/error":
        return "error taken away"
    if path in PLACES:
        return f"remains of a call taken out of {PLACES[path]}"
    return "call read from the server's error" if repair.note == "error" else f"call found as text{_aside(repair.note)}"


def _aside(note: str) -> str:
    return f" ({note})" if note else ""


def _parsed(path: str, repair: Repair) -> str:
    if repair.note.startswith("one of "):
        return repair.note
    return f"arguments {repair.note}" if repair.note == "parsed from text" else f"arguments read{_aside(repair.note)}"


def _named(path: str, repair: Repair) -> str:
    return f"name {short(repair.before)} -> {short(repair.after)}"


def _unwrapped(path: str, repair: Repair) -> str:
    return f"arguments unwrapped{_aside(repair.note)}"


def _keyed(path: str, repair: Repair) -> str:
    if repair.after is None:
        return f"{path} {short(repair.before)} left out"
    place = path.rpartition("/")[0]
    return f"{place} key {short(repair.before)} -> {short(repair.after)}".lstrip()


def _asked(path: str, repair: Repair) -> str:
    """Say what asking brought: each member that is another one now; for a whole call, only that it was asked for."""
    before, after = repair.before, repair.after
    if path == "/arguments" and isinstance(before, dict) and isinstance(after, dict):
        said = [
            f"/{name} {short(before[name])} -> {short(value)}" if name in before else f"/{name} set to {short(value)}"
            for name, value in after.items()
            if name not in before or before[name] != value
        ]
        said += [f"/{name} left out" for name in before if name not in after]
        return f"asked again, {_listed(said)}"
    return f"asked again{f', {repair.note}' if repair.note else ''}"


def _chosen(path: str, repair: Repair) -> str:
    if repair.note == "constrained":
        return "made by the schema on the request"
    if path == "/error":
        return f"error taken away ({repair.note})"
    if repair.after is None:
        return f"call removed{_aside(repair.note)}"
    return "the text was its arguments"


def _wired(path: str, repair: Repair) -> str:
    name = "finish reason" if path == "/finish" else path.removeprefix("/")
    return f"{name} {short(repair.before)} -> {short(repair.after)}{_aside(repair.note)}"


WORDS: dict[str, Callable[[str, Repair], str]] = {
    "recover": _recovered,
    "parse": _parsed,
    "names": _named,
    "unwrap": _unwrapped,
    "keys": _keyed,
    "follow-up": _asked,
    "choose": _chosen,
    "wire": _wired,
}

PLACES = {"/text": "the text", "/thinking": "the thinking", "/error": "the server's error"}
PARTS = {**PLACES, "/arguments": "the arguments", "/error": "", "/calls": "", "/": ""}


def say_fault(fault: Fault) -> str:
    """Say one defect in words: `/days is "soon", expected integer`; `the text ends inside a call (hermes)`."""
    _, path = split_path(fault.path)
    said = fault.message.removeprefix(fault.path).removeprefix(":").strip()
    if path == "/name":
        return "no such tool is offered"
    return f"{PARTS.get(path, path)} {said}".strip()


def _listed(parts: Iterable[str]) -> str:
    found = list(dict.fromkeys(parts))
    more = len(found) - LONGEST_LIST
    return ", ".join(found[:LONGEST_LIST]) + (f" and {more} more" if more > 0 else "")


def sentences(outcome: Outcome) -> list[str]:
    """Say what was done to each call, and what is left: `create_event repaired: …`, `read_file left broken: …`."""
    return [
        *(f"{_name_in(gone.before)} removed{_aside(gone.note)}" for gone in outcome.repairs if _is_removal(gone)),
        *_by_call(outcome, "repaired", _done(outcome)),
        *_by_call(outcome, "left broken", [(fault.path, say_fault(fault)) for fault in outcome.faults]),
    ]


def _is_removal(repair: Repair) -> bool:
    """Tell whether a call was taken away: its index is that of no call any more."""
    return repair.rung == "choose" and split_path(repair.path)[0] is not None and repair.after is None


def _name_in(call: Json) -> str:
    return _cut(str(call.get("name"))) if isinstance(call, dict) else "call"


def _done(outcome: Outcome) -> list[tuple[str, str]]:
    """Say each repair with its place. That a call was taken out of where it was found is said of the call alone."""
    found = [repair for repair in outcome.repairs if repair.rung == "recover"]
    calls = [repair for repair in found if split_path(repair.path)[0] is not None]
    places = {repair.path for repair in found if repair not in calls} if calls else set()
    where = PLACES[places.pop()] if len(places) == 1 else "the answer's tokens" if calls and not places else "text"
    return [
        (repair.path, f"call found in {where}{_aside(_form(repair))}" if repair in calls else say_repair(repair))
        for repair in outcome.repairs
        if not _is_removal(repair) and not _says_no_more(repair, bool(calls))
    ]


def _says_no_more(repair: Repair, calls_found: bool) -> bool:
    """Tell whether a repair of the text (thinking, error) is told by that of the call that was found there."""
    return repair.path in PLACES and (
        (repair.rung == "recover" and calls_found) or (repair.rung == "choose" and repair.path == "/text")
    )


def _form(repair: Repair) -> str:
    """Return the form in which a call was written; what stood in an error has none of its own."""
    return "" if repair.note == "error" else repair.note


def _by_call(outcome: Outcome, verb: str, said: Iterable[tuple[str, str]]) -> list[str]:
    groups: dict[int | None, list[str]] = {}
    for path, words in said:
        groups.setdefault(split_path(path)[0], []).append(words)
    return [f"{_subject(outcome, index)} {verb}: {_listed(parts)}" for index, parts in groups.items()]


def _subject(outcome: Outcome, index: int | None) -> str:
    calls = outcome.turn.calls
    if index is None or index >= len(calls):
        return "answer"
    return _cut(calls[index].name) or "call without a name"


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
    if not outcome.repairs and not outcome.faults:
        return None
    said = sentences(outcome)
    return plain(f"toolmend: {surface} {model}: {'; '.join(said)}") if said else None


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
        if found := _objects(entry, key):
            lines += [
                "",
                title,
                *(f"  {item.get('rung') or item.get('keyword')}: {item.get('said')}" for item in found),
            ]
    if entry.get("follow_ups"):
        lines += ["", f"questions asked: {entry['follow_ups']}"]
    return "\n".join(plain(line) for line in lines)


def _said_calls(entry: JsonObject, key: str) -> list[str]:
    if calls := _objects(entry, key):
        return [line for call in calls for line in _said_call(call)]
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


def _objects(entry: JsonObject, key: str) -> list[JsonObject]:
    """Return the objects that an entry lists: whatever a log has become, reading it does not fail."""
    listed = entry.get(key)
    return [item for item in listed if isinstance(item, dict)] if isinstance(listed, list) else []


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

    def add(self, outcome: Outcome, asked: int) -> None:
        """Count one finished turn and the questions it took."""
        self.turns += 1
        self.verdicts[verdict(outcome)] += 1
        if outcome.repairs:
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
        verdicts, turns = self.verdicts, "turn" if self.turns == 1 else "turns"
        by_rung = ", ".join(f"{rung} {count}" for rung, count in self.rungs.most_common())
        return (
            f"toolmend: {self.turns} {turns} with tools: {verdicts['valid']} valid, {verdicts['text']} text, "
            f"{verdicts['repaired']} repaired{f' ({by_rung})' if by_rung else ''}, "
            f"{self.followed_up} followed up, {verdicts['broken']} left broken"
        )
