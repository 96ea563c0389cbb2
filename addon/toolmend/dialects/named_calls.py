"""Read calls written as a name, a separator and a JSON object.

Mistral (`NAME[ARGS]{…}`), DeepSeek (`function<｜tool▁sep｜>NAME` and a fence, or NAME and JSON), Kimi K2
(`functions.NAME:0<|tool_call_argument_begin|>{…}`), Functionary (`>>>NAME`, `<|recipient|>NAME<|content|>`).
"""

from __future__ import annotations

import re
from typing import Final

from toolmend.dialects.json_calls import looks_like_schema
from toolmend.dialects.positions import blank_end
from toolmend.dialects.source import STEP, Reading, Source, call, lacks
from toolmend.dialects.tags import Tag, tag_at
from toolmend.model import Json

WORDS = re.compile(r"[^{}<>\[\]`()]{0,160}")
LABEL = re.compile(r"```[\w+-]*\s*|\b(?:json|code|python)\s*(?=\{)")
NOISE: Final = frozenset(
    ("function", "functions", "assistant", "json", "code", "tool", "commentary", "analysis", "python", "")
)
LONGEST: Final = 160
RECIPIENT = re.compile(r">>>[ \t:]*+(?P<name>[\w.:-]++)\s*+(?=\{)")


def read_named(source: Source, at: int, *, inside: bool) -> Reading | None:
    """Read a name and an object; inside a marker, a counter in the name's place stands for the only tool that fits."""
    text = source.text
    if text.startswith(">>>", at):
        return _read_recipient(source, at)
    head = _head(source, at)
    if head is None:
        return None
    pieces, position, separated = head
    offered = _is_offered(source, pieces)
    if not inside and not (text.startswith("<|from|>", at) if separated and not offered else offered):
        return None
    if not inside and not separated and not text.startswith(('{"', "{'", "{}"), position):
        return None
    if not text.startswith("{", position):
        return _without_object(source, pieces, position, separated=separated)
    if not _is_name(source, pieces, separated=separated):
        return None
    item = source.json_at(position)
    if isinstance(item, str):
        if not inside and not separated and item == "unreadable":
            return None
        end = _closer(text, position) if item == "unreadable" else len(text)
        return Reading(end, state=item, form="named", marker=separated)
    value, end = item
    end = _fence_end(text, end)
    name = _name(source, pieces, value)
    if name is None or not isinstance(value, dict) or looks_like_schema(value):
        return Reading(end, state="unreadable", form="named", marker=separated)
    return Reading(end, (call(name, value, "named"),), form="named", marker=separated)


def _read_recipient(source: Source, at: int) -> Reading | None:
    match = RECIPIENT.match(source.text, at)
    if match is None or match["name"] == "all":
        return None
    item = source.json_at(match.end())
    if isinstance(item, str):
        return Reading(len(source.text), state=item, form="functionary", marker=True)
    value, end = item
    return Reading(
        end, (call(source.clean_name(match["name"]), value, "functionary"),), form="functionary", marker=True
    )


def _head(source: Source, at: int) -> tuple[list[str], int, bool] | None:
    """Return the words between markers before the object, the object's position, and whether there were separators."""
    text, position, pieces, separated = source.text, at, [], False
    while position - at < LONGEST:
        source.spend(STEP)
        words = WORDS.match(text, position)
        assert words is not None
        if words[0].strip():
            pieces.append(words[0].strip())
        position = words.end()
        if label := LABEL.match(text, position):
            position = label.end()
            continue
        tag = tag_at(source, position) if text[position : position + 1] in ("<", "[") else None
        if tag is None or not (tag.kind in ("separator", "harmony") or _stands_for_separator(source, tag, pieces)):
            break
        separated, position = True, tag.end
        if tag.name == "callid":
            continue
    return (pieces, blank_end(text, position), separated) if pieces or separated else None


def _stands_for_separator(source: Source, tag: Tag, pieces: list[str]) -> bool:
    """Tell whether Mistral's opener was written a second time, between a name and the arguments that it lacks."""
    if tag.kind != "open" or not tag.special or not source.text.startswith("{", tag.end) or len(pieces) != 1:
        return False
    return lacks(source.tool(source.clean_name(pieces[0])), {}) > 0


def _is_offered(source: Source, pieces: list[str]) -> bool:
    return bool(pieces) and source.tool(source.clean_name(pieces[0])) is not None


def _is_name(source: Source, pieces: list[str], *, separated: bool) -> bool:
    words = " ".join(pieces).split()
    return separated or (len(words) <= 3 and any(source.clean_name(piece) for piece in pieces)) or not words


def _name(source: Source, pieces: list[str], value: Json) -> str | None:
    candidates = [piece for words in pieces for piece in words.splitlines() if piece.strip().lower() not in NOISE]
    for candidate in candidates:
        if source.tool(cleaned := source.clean_name(candidate)):
            return cleaned
    named = [candidate for candidate in candidates if not source.clean_name(candidate).isdigit()]
    if named:
        return source.clean_name(re.sub(r"\s*json$", "", named[0]))
    tool = source.only_tool_for(value) if isinstance(value, dict) else None
    return tool.name if tool else None


def _without_object(source: Source, pieces: list[str], position: int, *, separated: bool) -> Reading | None:
    """Read a name alone: a call without arguments."""
    names = [source.clean_name(piece) for piece in pieces if piece.lower() not in NOISE]
    at_end = position >= len(source.text)
    following = None if at_end else tag_at(source, position)
    if following is not None and following.kind == "function" and not names:
        return Reading(position, form="named", marker=True)
    if len(names) == 1 and source.offered(names[0]) and (at_end or following):
        return Reading(position, (call(names[0], {}, "named"),), form="named", closed=not at_end)
    return Reading(position, state="unreadable", form="named", marker=True) if separated else None


def _fence_end(text: str, at: int) -> int:
    match = re.compile(r"\s*```").match(text, at)
    return match.end() if match else at


def _closer(text: str, at: int) -> int:
    match = re.compile(r"<[|｜/]").search(text, at)
    return match.start() if match else len(text)
