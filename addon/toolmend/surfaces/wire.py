"""Decode and encode what stands on the wire: JSON, server-sent events, error bodies, ids."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterable, Mapping
from typing import Final, NoReturn

from toolmend.model import DecodeError, Json, JsonObject

DEEPEST: Final = 128
LINE_END: Final = re.compile(rb"\r\n|\r|\n")
BOM: Final = b"\xef\xbb\xbf"
DONE: Final = b"[DONE]"
FIELDS: Final = (b"", b"data", b"event", b"id", b"retry", b"error")
"""What the lines of an event begin with: a comment with nothing; `error:` is llama-server's own."""
DONE_FRAME: Final = b"data: [DONE]\n\n"


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is no JSON")


def _finite(text: str) -> float:
    value = float(text)
    if value in (float("inf"), float("-inf")):
        raise ValueError(f"{text} is out of range")
    return value


_LENIENT: Final = json.JSONDecoder()
_STRICT: Final = json.JSONDecoder(parse_constant=_refuse, parse_float=_finite)


def _too_deep(document: Json) -> bool:
    level: list[Json] = [document]
    for _ in range(DEEPEST):
        containers = [item for item in level if isinstance(item, (dict, list))]
        if not containers:
            return False
        level = [child for item in containers for child in (item.values() if isinstance(item, dict) else item)]
    return True


def load(raw: bytes) -> Json:
    """Decode the JSON of a frame. Raises DecodeError for bytes that are none, or nest too deeply to work on."""
    try:
        document: Json = _LENIENT.decode(raw.removeprefix(BOM).decode())
    except (ValueError, RecursionError) as error:
        raise DecodeError(f"no JSON: {raw[:80]!r}") from error
    if raw.count(b"{") + raw.count(b"[") > DEEPEST and _too_deep(document):
        raise DecodeError(f"JSON nested more than {DEEPEST} deep: {raw[:80]!r}")
    return document


def load_object(raw: bytes) -> JsonObject:
    """Decode the JSON object of a frame. Raises DecodeError for anything else."""
    document = load(raw)
    if not isinstance(document, dict):
        raise DecodeError(f"no JSON object: {raw[:80]!r}")
    return document


def load_strict(text: str) -> Json:
    """Decode text that a model wrote, by the letter of the standard: no NaN, no number that is infinite here.

    Raises ValueError for everything else, also for what nests too deeply or has too many digits to work on.
    """
    try:
        document: Json = _STRICT.decode(text)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    if text.count("{") + text.count("[") > DEEPEST and _too_deep(document):
        raise ValueError("nested too deeply")
    return document


def dump_text(document: Json) -> str:
    """Encode compactly, as the servers do; characters stay as they are, save lone surrogates (no UTF-8 has them)."""
    text = json.dumps(document, ensure_ascii=False, separators=(",", ":"))
    try:
        text.encode()
    except UnicodeEncodeError:
        return json.dumps(document, separators=(",", ":"))
    return text


def dump(document: Json) -> bytes:
    """Encode compactly to bytes."""
    return dump_text(document).encode()


def same(one: Json, other: Json) -> bool:
    """Tell whether two values are the same on the wire: 1, 1.0 and true are three values there."""
    return one == other and dump_text(one) == dump_text(other)


def event_data(raw: bytes) -> bytes | None:
    """Return the data of one server-sent event, None when it has none (a comment, blank lines, an event name alone)."""
    if raw.startswith(b"data: ") and raw.endswith(b"\n\n") and raw.count(b"\n") == 2 and b"\r" not in raw:
        return raw[6:-2]
    data = [line[5:].removeprefix(b" ") for line in _event_lines(raw) if line.startswith(b"data:")]
    return b"\n".join(data) if data else None


def _event_lines(raw: bytes) -> list[bytes]:
    raw = raw.removeprefix(BOM)
    return LINE_END.split(raw) if b"\r" in raw else raw.split(b"\n")


def read_event(raw: bytes) -> bytes | None:
    """Return what `event_json` does. Raises DecodeError for bytes that are no event at all."""
    data = event_json(raw)
    if data is None:
        for line in _event_lines(raw):
            if line and line.split(b":", 1)[0] not in FIELDS:
                raise DecodeError(f"no event: {line[:80]!r}")
    return data


def event_json(raw: bytes) -> bytes | None:
    """Return the JSON text of one server-sent event, None when it has none (`[DONE]` is none)."""
    data = event_data(raw)
    return None if data is None or data.strip() in (b"", DONE) else data


def frame_data(raw: bytes) -> bytes:
    """Return the JSON of a frame: an event's data, or the line or body itself."""
    return raw if raw.lstrip().startswith(b"{") else event_data(raw) or b""


def event(document: JsonObject, name: str = "") -> bytes:
    """Write one server-sent event, with an event line when it has a name."""
    head = f"event: {name}\n".encode() if name.isascii() and name.isprintable() and name else b""
    return head + b"data: " + dump(document) + b"\n\n"


def line(document: JsonObject) -> bytes:
    """Write one NDJSON line."""
    return dump(document) + b"\n"


def text_of(value: Json) -> str:
    """Return a text member, "" when it is absent or something else."""
    return value if isinstance(value, str) else ""


def object_of(value: Json) -> JsonObject:
    """Return an object member, an empty one when it is absent or something else."""
    return value if isinstance(value, dict) else {}


def objects_of(value: Json) -> list[JsonObject]:
    """Return the objects of a list member, none when it is absent or something else."""
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


def listed(items: list[Json], came: Json) -> Json:
    """Return items in the place of a member that listed what came: where there was nothing, Ollama says null."""
    return items if items or came else came


def number_of(value: Json) -> int | None:
    """Return a count, None when it is absent or something else."""
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def error_of(document: JsonObject) -> str | None:
    """Return the message of an error body or frame, None when it is none.

    Forms: Ollama `{"error": "…"}`, and once seen `{"error parsing tool call": "…"}`; OpenAI, llama-server and newer
    vLLM `{"error": {"message": "…"}}`; older vLLM `{"object": "error", "message": "…"}`; Anthropic `{"type": "error",
    "error": {…}}`.
    """
    error = document.get("error")
    if error is not None:
        return text_of(error.get("message")) or dump_text(error) if isinstance(error, dict) else _as_text(error)
    if "error" in (document.get("object"), document.get("type")):
        return text_of(document.get("message"))
    if len(document) == 1:
        ((key, value),) = document.items()
        return f"{key}: {_as_text(value)}" if key.startswith("error ") else None
    return None


def _as_text(value: Json) -> str:
    return value if isinstance(value, str) else dump_text(value)


def digest(*parts: Json) -> str:
    """Derive hexadecimal digits from values, the same every time: the core has neither clock nor dice."""
    return hashlib.sha256(dump(list(parts))).hexdigest()


def without(document: Mapping[str, Json], *keys: str) -> JsonObject:
    """Return a copy without these members."""
    return {key: value for key, value in document.items() if key not in keys}


def join_tokens(pieces: Iterable[str]) -> str:
    """Join the text of tapped tokens; characters that were split over tokens become whole, broken ones U+FFFD."""
    text = "".join(pieces)
    try:
        return text.encode(errors="surrogateescape").decode(errors="replace")
    except UnicodeEncodeError:
        return text


def token_text(tokens: Json) -> str:
    """Read the text of `logprobs` entries from their `bytes`, or their `token` where they have none.

    Bytes that are no whole character stay as surrogates (PEP 383) until `join_tokens` puts them together.
    """
    return "".join(_token(token) for token in objects_of(tokens))


def _token(token: JsonObject) -> str:
    values = token.get("bytes")
    if isinstance(values, list) and values:
        octets = [value for value in values if isinstance(value, int) and 0 <= value < 256]
        if len(octets) == len(values):
            return bytes(octets).decode(errors="surrogateescape")
    return text_of(token.get("token"))


def cut_member(text: str, key: str, document: Json) -> str | None:
    """Cut a member out of a frame's JSON so that all the rest stays as it was written.

    Args:
        text: The frame. A key never stands inside a string: its quotes would be escaped there.
        key: The member's name.
        document: What the frame decodes to without the member: tells it from others of the same name.

    Returns:
        The frame without it, or None when no cut gives the document.
    """
    mark = f'"{key}":'
    at = text.find(mark)
    while at >= 0:
        rest = _cut_at(text, at, at + len(mark))
        if rest is not None and load(frame_data(rest.encode())) == document:
            return rest
        at = text.find(mark, at + 1)
    return None


def _cut_at(text: str, start: int, value: int) -> str | None:
    try:
        _, end = _LENIENT.raw_decode(text, value)
    except ValueError:
        return None
    if text[start - 1 : start] == ",":
        return text[: start - 1] + text[end:]
    return text[:start] + text[end:].removeprefix(",")


def tapped_document(raw: bytes) -> JsonObject:
    """Decode a frame that may carry `logprobs`; an empty object for frames that do not, or cannot be decoded."""
    if b'"logprobs"' not in raw:
        return {}
    try:
        return load_object(frame_data(raw))
    except DecodeError:
        return {}
