"""Read Kimi K3's calls: tags between token brackets, each value with its type."""

from __future__ import annotations

import re
from typing import Final

from toolmend.dialects.positions import blank_end
from toolmend.dialects.source import Reading, Source, call, decoded
from toolmend.model import Json, JsonObject

CALL = re.compile(r"<\|open\|>\s*call\b(?P<attributes>[^<>|]{0,300})<\|sep\|>")
ARGUMENT = re.compile(r"<\|open\|>\s*argument\b(?P<attributes>[^<>|]{0,300})<\|sep\|>")
ARGUMENT_END = re.compile(r"<\|close\|>\s*argument\s*<\|sep\|>(?=\s*(?:<\|(?:open|close)\|>|\Z))")
CALL_END = re.compile(r"<\|close\|>\s*(?:call|tools)?\s*(?:<\|sep\|>)?")
SECTION = re.compile(r"<\|(?:open|close)\|>\s*tools\s*<\|sep\|>\s*")
ATTRIBUTE = re.compile(r"(\w+)\s*=\s*[\"'“”]?([^\"'“”]*)[\"'“”]?")
FORM: Final = "kimi-k3"


def read_kimi(source: Source, at: int, *, inside: bool) -> Reading | None:
    """Read one call, and the section's tags round it."""
    text = source.text
    if not text.startswith("<|open|>", at):
        return None
    opened = SECTION.match(text, at)
    position = opened.end() if opened else at
    head = CALL.match(text, position)
    if head is None:
        return Reading(len(text), state="unreadable", form=FORM, marker=True) if opened else None
    name = dict(ATTRIBUTE.findall(head["attributes"])).get("tool", "")
    arguments: JsonObject = {}
    position = blank_end(text, head.end())
    while argument := ARGUMENT.match(text, position):
        end = ARGUMENT_END.search(text, argument.end())
        source.spend((end.end() if end else len(text)) - position)
        if end is None:
            return Reading(len(text), state="cut", form=FORM, marker=True)
        attributes = dict(ATTRIBUTE.findall(argument["attributes"]))
        arguments[attributes.get("key", "")] = _typed(
            text[argument.end() : end.start()], attributes.get("type", "string")
        )
        position = blank_end(text, end.end())
    if text.startswith("<|open|>", position) and not CALL.match(text, position):
        return Reading(len(text), state="cut", form=FORM, marker=True)
    closed = False
    while position < len(text) and (closer := CALL_END.match(text, position)):
        closed, position = True, blank_end(text, closer.end())
    return Reading(position, (call(source.clean_name(name), arguments, FORM),), form=FORM, marker=True, closed=closed)


def _typed(text: str, kind: str) -> Json:
    return text if kind in ("string", "str") else decoded(text)
