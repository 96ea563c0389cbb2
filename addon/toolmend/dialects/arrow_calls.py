"""Read calls written with arrows and options: `{tool => "NAME", args => { --key "value" --count 3 }}` (MiniMax)."""

from __future__ import annotations

import re
from typing import Final

from toolmend.dialects.positions import blank_end
from toolmend.dialects.pythonic import Literals
from toolmend.dialects.source import READING, Broken, Reading, Source, call
from toolmend.model import JsonObject

FORM: Final = "arrows"
HEAD = re.compile(
    r"\{\s*+[\"']?(?:tool|name|function)[\"']?\s*=>\s*[\"'](?P<name>[\w.:/-]{1,100})[\"']\s*,?\s*"
    r"[\"']?(?:args|arguments|parameters|params)[\"']?\s*=>\s*\{"
)
KEY = re.compile(r"(?:--|[\"'])?(?P<key>[A-Za-z_][\w.-]{0,100}+)[\"']?\s*+(?:=>|[=:])?\s*+")
CLOSER = re.compile(r"\s*+\}(?:\s*+\}){0,2}")


def read_arrows(source: Source, at: int, *, inside: bool) -> Reading | None:
    """Read one call; outside of a marker nothing is one."""
    head = HEAD.match(source.text, at) if inside else None
    if head is None:
        return None
    source.spend(READING)
    try:
        arguments, end = _members(source, head.end())
    except Broken as broken:
        return Reading(len(source.text), state=broken.state, form=FORM, marker=True)
    closer = CLOSER.match(source.text, end)
    return Reading(
        closer.end() if closer else end, (call(source.clean_name(head["name"]), arguments, FORM),), form=FORM
    )


def _members(source: Source, at: int) -> tuple[JsonObject, int]:
    literals, text = Literals(source), source.text
    members: JsonObject = {}
    position = blank_end(text, at)
    while not text.startswith(("}", "[/"), position):
        key = KEY.match(text, position)
        if key is None:
            raise Broken("cut" if position >= len(text) else "unreadable")
        members[key["key"]], position = literals.value(key.end(), 1)
        position = blank_end(text, position)
        position = blank_end(text, position + 1) if text.startswith(",", position) else position
    return members, position
