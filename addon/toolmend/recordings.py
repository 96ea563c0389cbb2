"""Keep a broken answer as a file that is a test: from an exchange, redacted, to HAR and back, and through repair again.

A recording holds two or three kinds of entries: the exchange with the server (request as forwarded, original answer),
the follow-ups, and what the client sent and got (left out where it is the same as the first). `recordings/README.md`
describes the file field by field.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Final, Literal, TypeAlias, get_args

from toolmend import __version__, har
from toolmend.exchange import Exchange
from toolmend.exchange import replay as run
from toolmend.follow_up import FollowUp
from toolmend.har import Entry, FormatError, Role
from toolmend.model import DecodeError, Json, JsonObject, Outcome, ToolCall, Turn
from toolmend.redaction import Redactor
from toolmend.report import say_fault, say_repair
from toolmend.settings import Settings, TapMode
from toolmend.shapes import shape_reply, shape_request, without_echoes
from toolmend.surfaces import SURFACES
from toolmend.surfaces.surface import Surface
from toolmend.upstreams import Kind, Reply, Server

__all__ = [
    "Entry",
    "FormatError",
    "Recording",
    "Replayed",
    "Role",
    "TooLarge",
    "Which",
    "accepted",
    "dump",
    "expectation",
    "file_name",
    "load",
    "redacted",
    "replay",
    "worth_keeping",
    "write",
]

FORMAT: Final = 1
Which: TypeAlias = Literal["broken", "repaired", "all"]

SCHEMA_FIELDS: Final = ("format", "response_format", "text")
LONGEST_TEXT: Final = 300
LONGEST_SLUG: Final = 60
SURFACE_BY_NAME: Final[Mapping[str, Surface]] = {surface.name: surface for surface in SURFACES.values()}


class TooLarge(ValueError):  # noqa: N818 - it is no error: an answer that is too large is not kept
    """Raised for an exchange that makes a larger file than allowed."""


@dataclass(frozen=True, slots=True)
class Recording:
    """Hold one answer with all that made it what it was.

    `original` is the exchange with the server: the request as forwarded, the answer as it came. `follow_ups` are the
    questions and their replies, in order. `delivered` is what the client sent and got. `settings` are those that the
    exchange ran with, `outcome` what it made of the answer. `expected` is what `toolmend accept` wrote, `notes` how
    many values were `redacted`, and whether the outcome `differs` by that.
    """

    surface: str
    model: str
    server: str
    settings: Settings
    original: Entry
    follow_ups: tuple[Entry, ...]
    delivered: Entry
    outcome: Outcome
    started: float = 0.0
    expected: JsonObject | None = None
    notes: JsonObject = field(default_factory=dict)

    @property
    def document(self) -> JsonObject:
        """Return the client's request, decoded. Raises FormatError when it is no JSON object."""
        return _document(self.delivered.request)


@dataclass(frozen=True, slots=True)
class Replayed:
    """Hold what repair makes of a recording today. `received` is the turn as the model sent it."""

    outcome: Outcome
    received: Turn
    delivered: bytes
    status: int
    content_type: str
    questions: tuple[FollowUp, ...]


def worth_keeping(outcome: Outcome, which: Which) -> bool:
    """Tell whether an outcome is recorded: the still broken ones, those and the repaired ones, or all."""
    return which == "all" or bool(outcome.faults) or (which == "repaired" and bool(outcome.repairs))


# Names


def file_name(recording: Recording) -> str:
    """Name a recording by its fault: `ollama-chat/qwen3-8b-create_event-coerce-1f3a9c2e.har`.

    Values, ids and times do not count, so the same fault of the same model has the same name. The name is relative,
    with one folder, of letters, digits, `.`, `_` and `-`.
    """
    outcome = recording.outcome
    kinds = [fault.keyword for fault in outcome.faults] or [repair.rung for repair in outcome.repairs]
    names = [call.name for call in outcome.turn.calls][:1]
    words = [recording.model, *names, *dict.fromkeys(kinds or ["valid"])]
    slug = "-".join(_slug(word) for word in words if word)[:LONGEST_SLUG].strip(".-")
    return f"{_slug(recording.surface)}/{slug}-{_fingerprint(recording)}.har"


def _slug(word: str) -> str:
    return re.sub(r"[^a-z0-9._]+", "-", Redactor().text(word).lower()).strip(".-")


def _fingerprint(recording: Recording) -> str:
    outcome = recording.outcome
    tools = [call.name for call in outcome.turn.calls]
    repairs = sorted({(repair.rung, _place(repair.path), repair.note) for repair in outcome.repairs})
    faults = sorted({(fault.keyword, _place(fault.path)) for fault in outcome.faults})
    framing = recording.original.content_type.split(";")[0]
    told = [recording.surface, recording.model, framing, tools, repairs, faults, len(recording.follow_ups)]
    return hashlib.sha256(json.dumps(told).encode()).hexdigest()[:8]


def _place(path: str) -> str:
    return re.sub(r"/\d+(?=/|$)", "/*", path)


# Replaying


def replay(recording: Recording, chunks: Iterable[bytes] | None = None) -> Replayed:
    """Run a recording's answer through repair, with its recorded replies to the questions.

    Args:
        recording: The recording. Only its client's request, answer, replies, settings and server count.
        chunks: The answer, cut otherwise; None: as it came.

    Raises:
        FormatError: The request is not one of the recording's surface, or the answer is none of its.
    """
    waiting = [(question_kind(_document(entry.request), entry.path), entry) for entry in recording.follow_ups]

    def ask(question: FollowUp) -> Reply | None:
        """Give the next reply to a question of this kind; what was asked in between is asked no more."""
        kinds = [kind for kind, _ in waiting]
        wanted = question_kind(question.document, question.path)
        if wanted not in kinds:
            return None
        _, entry = waiting[kinds.index(wanted)]
        del waiting[: kinds.index(wanted) + 1]
        return Reply(entry.status, entry.content_type, entry.body) if entry.status else None

    original = recording.original
    cut = [data for data, _ in original.chunks] if chunks is None else chunks
    exchange = exchange_of(recording)
    delivered = b"".join(run(exchange, original.status, original.content_type, cut, ask))
    if exchange.outcome is None or exchange.received_turn is None:
        raise FormatError(f"the answer is none of {recording.surface}")
    return Replayed(
        outcome=exchange.outcome,
        received=exchange.received_turn,
        delivered=delivered,
        status=exchange.status,
        content_type=exchange.content_type,
        questions=tuple(question for question, _ in exchange.asked),
    )


def exchange_of(recording: Recording) -> Exchange:
    """Make the exchange that a recording was: the same settings, what was known of the server and the model then.

    Raises:
        FormatError: The request is not one of the recording's surface.
    """
    surface = SURFACE_BY_NAME.get(recording.surface)
    if surface is None:
        raise FormatError(f"surface is {recording.surface!r}, expected one of {', '.join(SURFACE_BY_NAME)}")
    known: tuple[Kind, ...] = get_args(Kind)
    server = Server(next((kind for kind in known if kind == recording.server.partition(" ")[0]), "ollama"))
    # What was asked tells what was known: a model that loses schemas is asked by its rendered prompt at once.
    kinds = [question_kind(_document(entry.request), entry.path) for entry in recording.follow_ups]
    server.model(recording.model).loses_schema = "render" in kinds and "constrained" not in kinds
    try:
        return Exchange(surface, recording.document, _effective(recording), server)
    except DecodeError as error:
        raise FormatError(f"the request is none of {recording.surface}: {error}") from error


def question_kind(document: JsonObject, path: str) -> str:
    """Tell from a question's body what kind it is: a reply belongs to a question of its kind."""
    if document.get("_debug_render_only"):
        return "render"
    if path == "/api/generate":
        return "raw"
    if document.get("logprobs") and document.get("stream"):
        return "tapped"
    return "constrained" if any(isinstance(document.get(key), dict) for key in SCHEMA_FIELDS) else "plain"


def _document(body: bytes) -> JsonObject:
    try:
        document = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise FormatError(f"the request is no JSON: {error}") from error
    if not isinstance(document, dict):
        raise FormatError(f"the request is {type(document).__name__}, expected a JSON object")
    return document


# Redacting


def redacted(recording: Recording, *, keep_prompts: bool = False) -> tuple[Recording, Counter[str]]:
    """Return a recording without persons and secrets, and how many of each kind were replaced.

    What is delivered, and the outcome, are made anew from the redacted bodies: nothing that was replaced can stay in
    them. `keep_prompts` keeps the messages (still without what the patterns find).
    """
    answer = recording.original.body.decode("utf-8", "replace")

    def shaped_entry(entry: Entry) -> Entry:
        document = shape_request(_document(entry.request), answer=answer, keep_prompts=keep_prompts)
        chunks = without_echoes(recording.surface, entry.chunks)
        if entry.role == "follow-up" and (shaped := shape_reply(entry.body)) != entry.body:
            chunks = ((shaped, entry.chunks[-1][1]),)
        return replace(entry, request=json.dumps(document).encode(), chunks=chunks)

    shaped = _each_entry(recording, shaped_entry)
    entries = (shaped.original, shaped.delivered, *shaped.follow_ups)
    redactor = Redactor(frozenset(_vocabulary(shaped.document)))
    for entry in entries:
        redactor.learn(entry.request)
        redactor.learn(b"" if entry.role == "delivered" else entry.body)
    clean = _each_entry(shaped, lambda entry: _redacted_entry(entry, redactor))
    named = _document(clean.delivered.request).get("model")
    clean = replace(clean, model=named if isinstance(named, str) else recording.model)
    return _delivering(clean), redactor.kinds


def _each_entry(recording: Recording, change: Callable[[Entry], Entry]) -> Recording:
    return replace(
        recording,
        original=change(recording.original),
        follow_ups=tuple(change(entry) for entry in recording.follow_ups),
        delivered=change(recording.delivered),
    )


def _redacted_entry(entry: Entry, redactor: Redactor) -> Entry:
    """Redact both bodies. An answer is as long as it was, so it is cut where it was."""
    body = redactor.redact(entry.body) if entry.role != "delivered" else b""
    chunks, start = [], 0
    for data, at in entry.chunks if body else ():
        chunks.append((body[start : start + len(data)], at))
        start += len(data)
    return replace(entry, request=redactor.redact(entry.request), chunks=tuple(chunks))


def _delivering(recording: Recording) -> Recording:
    """Return a recording with the outcome, and what is delivered, that repair gives today."""
    replayed = replay(recording)
    at = recording.original.chunks[-1][1] if recording.original.chunks else 0
    delivered = replace(
        recording.delivered,
        status=replayed.status,
        content_type=replayed.content_type,
        chunks=((replayed.delivered, at),),
    )
    return replace(recording, delivered=delivered, outcome=replayed.outcome)


def _vocabulary(document: JsonObject) -> Iterator[str]:
    """Give the words that the tools are made of: their names, their parameters' names, the values of enums."""
    waiting: list[tuple[str, Json]] = [("", document.get("tools"))]
    while waiting:
        key, value = waiting.pop()
        if isinstance(value, dict):
            waiting += value.items()
            yield from value
        elif isinstance(value, list):
            waiting += [(key, part) for part in value]
        elif isinstance(value, str) and key in ("name", "enum", "const"):
            yield value


# Writing


def dump(recording: Recording, *, keep_prompts: bool = False, max_bytes: int | None = None) -> bytes:
    """Write a recording as a redacted HAR file.

    Args:
        recording: What was recorded, as it was.
        keep_prompts: Keep the messages instead of their shape.
        max_bytes: The largest file, and the most that the answers may hold together.

    Raises:
        TooLarge: It would be larger.
        FormatError: It cannot be replayed.
    """
    came = sum(len(entry.body) for entry in (recording.original, *recording.follow_ups))
    if max_bytes is not None and came > max_bytes:
        raise TooLarge(f"an answer of {recording.model} has {came} bytes, {max_bytes} are allowed")
    clean, kinds = redacted(recording, keep_prompts=keep_prompts)
    notes: JsonObject = {"redacted": dict(kinds)} if kinds else {}
    if _kinds_of(clean.outcome) != _kinds_of(recording.outcome):
        notes["differs"] = f"when it was recorded: {'; '.join(_kinds_of(recording.outcome)) or 'nothing was repaired'}"
    data = write(replace(clean, notes=notes))
    if max_bytes is not None and len(data) > max_bytes:
        raise TooLarge(f"the recording of {recording.model} has {len(data)} bytes, {max_bytes} are allowed")
    return data


def write(recording: Recording) -> bytes:
    """Write a recording as it is (nothing is redacted), with what repair makes of it today."""
    replayed = replay(recording)
    blocks = [(recording.original, {**_head(recording, replayed), **recording.notes, **_expected(recording)})]
    blocks += [(entry, _plain_block(entry)) for entry in recording.follow_ups]
    if not _same(recording.original, recording.delivered):
        blocks.append((recording.delivered, _plain_block(recording.delivered)))
    return har.write(blocks, __version__, recording.started)


def accepted(recording: Recording) -> Recording:
    """Return a recording that expects what repair makes of it today. Whether that differs from before is settled."""
    current = _delivering(recording)
    notes = {key: value for key, value in recording.notes.items() if key != "differs"}
    return replace(current, expected=expectation(current.outcome), notes=notes)


def expectation(outcome: Outcome) -> JsonObject:
    """Say an outcome as `expected` says it: the calls, what was repaired where, what is left where."""
    return {
        "calls": [_call_document(call) for call in outcome.turn.calls],
        "repairs": [f"{repair.rung} {repair.path}" for repair in outcome.repairs],
        "faults": [f"{fault.keyword} {fault.path}" for fault in outcome.faults],
    }


def _kinds_of(outcome: Outcome) -> list[str]:
    told = expectation(outcome)
    return [str(line) for key in ("repairs", "faults") for line in told[key]]  # type: ignore[union-attr]


def _same(original: Entry, delivered: Entry) -> bool:
    """Tell whether the client sent and got what went to the server and came from it."""
    answers = (original.status, original.body) == (delivered.status, delivered.body)
    return answers and _document(original.request) == _document(delivered.request)


def _head(recording: Recording, replayed: Replayed) -> JsonObject:
    outcome = replayed.outcome
    return {
        **_plain_block(recording.original),
        "surface": recording.surface,
        "model": recording.model,
        "server": recording.server,
        "settings": _settings_document(recording),
        "tools": tools_concerned(recording, replayed),
        "sent": _turn_document(replayed.received),
        "faults": [f"{fault.keyword} {fault.path}: {say_fault(fault)}" for fault in outcome.faults],
        "repairs": [f"{repair.rung} {repair.path}: {say_repair(repair)}" for repair in outcome.repairs],
        "delivered": _turn_document(outcome.turn),
        **({"raw": replayed.received.raw} if replayed.received.raw else {}),
    }


def _plain_block(entry: Entry) -> JsonObject:
    return {"format": FORMAT, "role": entry.role}


def _expected(recording: Recording) -> JsonObject:
    return {} if recording.expected is None else {"expected": recording.expected}


def _settings_document(recording: Recording) -> JsonObject:
    """Say the settings that steer repair."""
    settings = _effective(recording)
    return {"tap": settings.tap, "force": settings.force, "follow_up": settings.follow_up}


def _effective(recording: Recording) -> Settings:
    """Return the settings as they acted: the tap was on if it was on for this request, or only for its questions."""
    tapped = "logprobs" in _document(recording.original.request) and "logprobs" not in recording.document
    kinds = [question_kind(_document(entry.request), entry.path) for entry in recording.follow_ups]
    return replace(recording.settings, tap="on" if tapped else "learn" if "tapped" in kinds else "off")


def tools_concerned(recording: Recording, replayed: Replayed) -> JsonObject:
    """Give the schemas of the tools that were called, of the first ones when none was."""
    tools = exchange_of(recording).request.tools
    names = {call.name for turn in (replayed.received, replayed.outcome.turn) for call in turn.calls}
    concerned = [tool for tool in tools if tool.name in names or tool.local_name in names]
    return {tool.name: tool.parameters for tool in concerned or tools[:3]}


def _call_document(call: ToolCall) -> JsonObject:
    return {"name": call.name, "arguments": call.arguments}


def _turn_document(turn: Turn) -> JsonObject:
    told: dict[str, Json] = {
        "text": _short(turn.text),
        "thinking": _short(turn.thinking),
        "calls": [_call_document(call) for call in turn.calls],
        "error": turn.error,
        "finish": turn.finish,
        "tokens": turn.tokens,
    }
    return {key: value for key, value in told.items() if value not in ("", [], None)}


def _short(text: str) -> str:
    return text if len(text) <= LONGEST_TEXT else f"{text[:LONGEST_TEXT]}… [{len(text)} characters]"


# Reading


def load(data: bytes) -> Recording:
    """Read a recording, of this format or an older one. Its outcome is what repair makes of it today.

    Raises:
        FormatError: The file is no recording, is of a newer format, or cannot be replayed.
    """
    found = har.read(data)
    entries = [(read.entry, _upgraded(read.block, read.entry)) for read in found]
    if not entries:
        raise FormatError("the file has no entries")
    original, head = entries[0]
    if original.role != "original":
        raise FormatError(f"the first entry is {original.role}, expected original")
    delivered = next((entry for entry, _ in entries if entry.role == "delivered"), replace(original, role="delivered"))
    expected = head.get("expected")
    recording = Recording(
        surface=str(head["surface"]),
        model=str(head["model"]),
        server=str(head["server"]),
        settings=_read_settings(head.get("settings")),
        original=original,
        follow_ups=tuple(entry for entry, _ in entries if entry.role == "follow-up"),
        delivered=delivered,
        outcome=Outcome(Turn()),
        started=found[0].started,
        expected=expected if isinstance(expected, dict) else None,
        notes={key: head[key] for key in ("redacted", "differs") if key in head},
    )
    replayed = replay(recording)
    if original.path.rstrip("/") != SURFACE_BY_NAME[recording.surface].path:
        raise FormatError(f"surface is {recording.surface!r}, but {original.path} is none of its")
    return replace(recording, outcome=replayed.outcome)


def _upgraded(block: JsonObject, entry: Entry) -> JsonObject:
    """Bring a block of an older format to this one, step by step."""
    number = block.get("format", 0)
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        raise FormatError(f"format is {number!r}, expected a number up to {FORMAT}")
    if number > FORMAT:
        raise FormatError(f"format is {number}, this version of toolmend reads up to {FORMAT}: a newer one wrote it")
    for step in range(number, FORMAT):
        block = UPGRADES[step](block, entry)
    return block


def _from_stock(block: JsonObject, entry: Entry) -> JsonObject:
    """Make a block for an entry that another tool wrote: what it is, is read from the exchange itself."""
    surface = SURFACES.get(entry.path)
    model = _document(entry.request).get("model") if surface is not None else None
    return {
        "surface": "" if surface is None else surface.name,
        "model": model if isinstance(model, str) else "",
        "server": "ollama",
        "settings": {"tap": "off"},
        **block,
    }


# Format 0 is any HAR file: without our block, or with one that has no number.
UPGRADES: Final[Mapping[int, Callable[[JsonObject, Entry], JsonObject]]] = {0: _from_stock}


def _read_settings(document: Json) -> Settings:
    told = document if isinstance(document, dict) else {}
    return Settings(
        follow_up=told.get("follow_up") is not False,
        tap=next((mode for mode in get_args(TapMode) if mode == told.get("tap")), "off"),
        force="constrain" if told.get("force") == "constrain" else "answer-first",
    )
