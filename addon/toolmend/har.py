"""Write and read HTTP exchanges as a HAR file that stock mitmproxy and every HAR viewer read too.

Bodies come back byte for byte, also from mitmproxy's own reader: what is no UTF-8 text is written as base64. What only
this project reads stands in a `_toolmend` block at the head of each entry; what a stock filter needs stands in the
answer's header `X-Toolmend-Role` (mitmproxy reads neither comments nor blocks).

Source of the fields: HAR 1.2, and mitmproxy/io/har.py of 11.0.2 and 12.3.1.
"""

from __future__ import annotations

import base64
import binascii
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, Literal, NamedTuple, TypeAlias
from urllib.parse import urlsplit

from toolmend.model import Json, JsonObject

Role: TypeAlias = Literal["original", "follow-up", "delivered"]
Headers: TypeAlias = tuple[tuple[str, str], ...]

# Where every recording says it was taken: the real host is nobody's business, and this one is Ollama's own.
ORIGIN: Final = "http://127.0.0.1:11434"
ROLE_HEADER: Final = "X-Toolmend-Role"
BLOCK: Final = "_toolmend"
KEPT_REQUEST_HEADERS: Final = ("accept", "content-type")
KEPT_RESPONSE_HEADERS: Final = ("content-type",)
MEDIA_TYPE: Final = re.compile(r"[\w.+*-]+/[\w.+*-]+(?:\s*[;,]\s*[\w.+*/-]+(?:=[\w.-]+)?)*")
HTTP_VERSION: Final = "HTTP/1.1"
LINE: Final = 118
SHORT_PART: Final = 24
SURROGATE: Final = re.compile("[\ud800-\udfff]")


class FormatError(ValueError):
    """Raised for a file that is no recording, or one of a format that this version does not know."""


@dataclass(frozen=True, slots=True)
class Entry:
    """Hold one HTTP exchange.

    `path` is without host and query. `request` and the bytes of `chunks` are content-decoded; `chunks` are the answer's
    body as the network cut it, each with the milliseconds since the request. Status 0: no answer came.
    """

    role: Role
    path: str
    request: bytes
    status: int
    content_type: str
    chunks: tuple[tuple[bytes, int], ...]
    request_headers: Headers = ()
    response_headers: Headers = ()

    @property
    def body(self) -> bytes:
        """Return the whole answer."""
        return b"".join(data for data, _ in self.chunks)


def write(entries: Sequence[tuple[Entry, JsonObject]], version: str, started: float = 0.0) -> bytes:
    """Write exchanges, each with its `_toolmend` block, in their order.

    Args:
        entries: The exchanges; all are said to have begun together.
        version: The version of this project that writes.
        started: Seconds since the epoch.
    """
    document: JsonObject = {
        "log": {
            "version": "1.2",
            "creator": {"name": "toolmend", "version": version},
            "entries": [_entry_document(entry, block, started) for entry, block in entries],
        }
    }
    return (_laid_out(document, 0) + "\n").encode()


def _laid_out(value: Json, depth: int) -> str:
    """Write JSON with an indent of one, and what fits on a line on one line: diffs are small, and files too."""
    line = _dumped(value)
    if len(line) + depth <= LINE or not value or not isinstance(value, dict | list):
        return line
    pad = "\n" + " " * (depth + 1)
    if isinstance(value, dict):
        lines = [f"{_dumped(key)}: {_laid_out(part, depth + 1)}" for key, part in value.items()]
    else:
        lines = _filled([_laid_out(part, depth + 1) for part in value])
    begin, end = "{}" if isinstance(value, dict) else "[]"
    return f"{begin}{pad}{f',{pad}'.join(lines)}\n{' ' * depth}{end}"


def _filled(parts: list[str]) -> list[str]:
    """Put as many short parts on a line as fit there."""
    if any(len(part) > SHORT_PART for part in parts):
        return parts
    lines = parts[:1]
    for part in parts[1:]:
        if len(lines[-1]) + len(part) <= LINE - SHORT_PART:
            lines[-1] += f", {part}"
        else:
            lines.append(part)
    return lines


def _dumped(value: Json) -> str:
    """Write JSON as it reads best; a lone surrogate, which UTF-8 cannot write, as an escape."""
    text = json.dumps(value, ensure_ascii=False)
    return text if not SURROGATE.search(text) else json.dumps(value)


def _entry_document(entry: Entry, block: JsonObject, started: float) -> JsonObject:
    milliseconds = entry.chunks[-1][1] if entry.chunks else 0
    begun = datetime.fromtimestamp(started, UTC)
    return {
        BLOCK: {**block, "chunks": [[len(data), at] for data, at in entry.chunks]},
        "startedDateTime": begun.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        "time": milliseconds,
        "request": _request_document(entry),
        "response": _response_document(entry),
        "cache": {},
        "timings": {"send": 0, "wait": entry.chunks[0][1] if entry.chunks else 0, "receive": 0},
    }


def _request_document(entry: Entry) -> JsonObject:
    headers = _kept(entry.request_headers, KEPT_REQUEST_HEADERS, {"content-type": "application/json"})
    return {
        "method": "POST",
        "url": ORIGIN + entry.path.partition("?")[0],
        "httpVersion": HTTP_VERSION,
        "headers": headers,
        "queryString": [],
        "cookies": [],
        "postData": {"mimeType": "application/json", "text": entry.request.decode("utf-8", "replace")},
        "headersSize": -1,
        "bodySize": len(entry.request),
    }


def _response_document(entry: Entry) -> JsonObject:
    given = {"content-type": entry.content_type} if entry.content_type else {}
    headers = _kept(entry.response_headers, KEPT_RESPONSE_HEADERS, given, over=True)
    return {
        "status": entry.status,
        "statusText": "",
        "httpVersion": HTTP_VERSION,
        "headers": [*headers, {"name": ROLE_HEADER, "value": entry.role}],
        "cookies": [],
        "content": {"size": len(entry.body), "mimeType": entry.content_type, **_content(entry)},
        "redirectURL": "",
        "headersSize": -1,
        "bodySize": len(entry.body),
    }


def _content(entry: Entry) -> JsonObject:
    """Write a body as text where mitmproxy's reader makes the same bytes of it, else as base64."""
    body = entry.body
    try:
        text = body.decode()
    except UnicodeDecodeError:
        text = "\ufeff"
    if text.startswith("\ufeff"):
        return {"text": base64.b64encode(body).decode(), "encoding": "base64"}
    # mitmproxy encodes by the content type, as latin-1 when that says nothing; `encoding` goes before it.
    guessed = text.isascii() or "json" in entry.content_type
    return {"text": text} if guessed else {"text": text, "encoding": "utf-8"}


def _kept(headers: Headers, names: Sequence[str], given: Mapping[str, str], *, over: bool = False) -> list[Json]:
    """Keep the headers of an allow-list, as far as they are well-formed; `given` ones fill in, or go `over` them."""
    found = {name.lower(): value for name, value in headers}
    values = {**found, **given} if over else {**given, **found}
    return [
        {"name": name, "value": values[name]} for name in names if name in values and MEDIA_TYPE.fullmatch(values[name])
    ]


class Read(NamedTuple):
    """Hold an entry that was read, with its `_toolmend` block ({}: it has none), and when it began (epoch seconds)."""

    entry: Entry
    block: JsonObject
    started: float


def read(data: bytes) -> list[Read]:
    """Read the exchanges of a HAR file.

    Raises:
        FormatError: The file is no HAR file.
    """
    try:
        entries = json.loads(data)["log"]["entries"]
        return [read_entry(document) for document in entries]
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise FormatError(f"no HAR file: {_said(error)}") from error


def read_entry(document: JsonObject) -> Read:
    """Read one entry of a HAR file, of ours or another's.

    Raises:
        ValueError, KeyError, TypeError, AttributeError: It has not the form of one.
    """
    request, response = _mapping(document["request"]), _mapping(document["response"])
    headers = _read_headers(response.get("headers"))
    named = {name.lower(): value for name, value in headers}
    block = _mapping(document.get(BLOCK) or {})
    content = _mapping(response.get("content") or {})
    body = _read_content(content)
    entry = Entry(
        role=_role(named.get(ROLE_HEADER.lower(), "original")),
        path=urlsplit(str(request["url"])).path,
        request=str(_mapping(request.get("postData") or {}).get("text") or "").encode("utf-8", "surrogatepass"),
        status=int(str(response["status"])),
        content_type=named.get("content-type", str(content.get("mimeType") or "")),
        chunks=_cut(body, block.get("chunks")),
        request_headers=_read_headers(request.get("headers")),
        response_headers=tuple(header for header in headers if header[0].lower() != ROLE_HEADER.lower()),
    )
    return Read(entry, block, datetime.fromisoformat(str(document["startedDateTime"])).timestamp())


def _read_content(content: JsonObject) -> bytes:
    text = str(content.get("text") or "")
    if content.get("encoding") == "base64":
        try:
            return base64.b64decode(text, validate=True)
        except binascii.Error as error:
            raise FormatError(f"an answer is said to be base64 and is not ({error})") from error
    return text.encode("utf-8", "surrogatepass")


def _cut(body: bytes, chunks: Json) -> tuple[tuple[bytes, int], ...]:
    """Cut a body as it came. Sizes that do not add up to it (edited by hand) are an error; none: it came whole."""
    if not isinstance(chunks, list):
        return ((body, 0),) if body else ()
    sizes = [_numbers(pair) for pair in chunks]
    if sum(size for size, _ in sizes) != len(body):
        raise FormatError(f"chunks add up to {sum(size for size, _ in sizes)} bytes, the answer has {len(body)}")
    cut, start = [], 0
    for size, at in sizes:
        cut.append((body[start : start + size], at))
        start += size
    return tuple(cut)


def _numbers(pair: Json) -> tuple[int, int]:
    match pair:
        case [int(size), int(at)] if size >= 0:
            return size, at
        case _:
            raise FormatError(f"chunks hold {pair!r:.40}, expected [bytes, milliseconds]")


def _role(name: str) -> Role:
    roles: dict[str, Role] = {"original": "original", "follow-up": "follow-up", "delivered": "delivered"}
    if name not in roles:
        raise FormatError(f"{ROLE_HEADER} is {name!r}, expected one of {', '.join(roles)}")
    return roles[name]


def _read_headers(headers: Json) -> Headers:
    found = headers if isinstance(headers, list) else []
    return tuple((str(_mapping(header)["name"]), str(_mapping(header)["value"])) for header in found)


def _mapping(value: Json) -> JsonObject:
    if not isinstance(value, dict):
        raise TypeError(f"expected an object, not {value!r:.40}")
    return value


def _said(error: Exception) -> str:
    return f"{error} is missing" if isinstance(error, KeyError) else str(error)
