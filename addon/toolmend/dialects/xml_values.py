"""Tell a value of a tag's from what stands round it: its own closer, what is left of one, the lines it stands on."""

from __future__ import annotations

import re
from typing import Final

from toolmend.dialects.source import decoded
from toolmend.dialects.tags import Tag, is_near, plain
from toolmend.model import Json

PARAMETERS: Final = frozenset(("parameter", "param", "arg", "argument"))
CONTAINERS: Final = frozenset(("parameters", "arguments", "args", "input", "params"))
PAIR_KEY: Final = frozenset(("argkey", "longcatargkey"))
PAIR_VALUE: Final = frozenset(("argvalue", "longcatargvalue"))
FUNCTION_CLOSERS: Final = frozenset(("function", "invoke", "functioncall", "tool", "action", "tooluse"))
WRAPPERS: Final = frozenset(("toolcall", "toolcalls", "functioncalls", "functioncall", "tools", "response"))
FLAG = re.compile(r"\bstring\s*=\s*[\"'“”]?(true|false)", re.IGNORECASE)
TYPE = re.compile(r"\btype\s*=\s*[\"'“”]?(\w+)", re.IGNORECASE)
CDATA = re.compile(r"\s*<!\[CDATA\[(.*)\]\]>\s*\Z", re.DOTALL)
INDENTED_END = re.compile(r"\n[ \t]*\Z")
DAMAGED = re.compile(
    r"(?:<\s?(?P<slash>[/\\])?|(?P<bare>/)|(?<=\n))\s?[|｜‖]{0,2}(?:\w{2,5}[|｜‖]{1,2})?(?P<name>[A-Za-z_][\w:.-]{0,40})[|｜‖]?(?P<end>>)?\s*\Z"
)
LONGEST_DAMAGED: Final = 80
MOST_DAMAGED: Final = 3
CLOSERS_OF: Final = {
    "parameter": ("parameter", "param"),
    "argvalue": ("argvalue",),
    "longcatargvalue": ("longcatargvalue",),
}
FOREIGN: Final = FUNCTION_CLOSERS | WRAPPERS | PAIR_KEY | PAIR_VALUE | PARAMETERS | frozenset(("think", "thinking"))
"""Names of tags whose closers models write in the place of a parameter's."""


def is_misspelt(name: str, opener: Tag) -> bool:
    """Tell whether a closer is that of a parameter with a letter wrong, or has the parameter's own name."""
    written = plain(name)
    if opener.label and name == opener.label:
        return True
    return written.startswith("param") and opener.name in PARAMETERS


def without_damaged_closer(raw: str, opener: Tag) -> str:
    """Return a value that another tag ended without what is left of its own closer, or the line break in its place.

    What is left of the call's closer may stand behind it.
    """
    value = raw
    for _ in range(MOST_DAMAGED):
        damaged = DAMAGED.search(value, max(0, len(value) - LONGEST_DAMAGED))
        if damaged is None or not stands_for_closer(damaged, opener):
            break
        before = value[: damaged.start()]
        if f"<{damaged['name']}" in before:
            break
        value = before
    if value is not raw:
        return value
    return raw if raw.startswith("\n") else raw.removesuffix("\n")


def stands_for_closer(damaged: re.Match[str], opener: Tag) -> bool:
    """Tell whether a broken tag stands for a parameter's closer: one misspelt, half of one, or a wrapper's."""
    written = plain(damaged["name"])
    own = {plain(opener.label), "function", "invoke", *CLOSERS_OF.get(opener.name, (opener.name,))} - {""}
    whole = bool(damaged["end"])
    if written in own:
        return whole or bool(damaged["slash"])
    if not damaged["slash"]:
        return False
    return (whole and written in FOREIGN) or any(is_near(written, name) for name in own)


def typed(raw: str, opener: Tag) -> Json:
    """Return a value as its flag says; without one it is text, whose type is the schema's to decide."""
    text = text_value(raw, both=opener.name not in PAIR_VALUE and "=" in opener.attributes[:1])
    if cdata := CDATA.match(text):
        return cdata[1]
    flag = FLAG.search(opener.attributes)
    if flag and flag[1].lower() == "false":
        return decoded(text.strip())
    kind = TYPE.search(opener.attributes)
    if kind and kind[1].lower() not in ("string", "str", "text"):
        return decoded(text.strip())
    return text


def text_value(raw: str, *, both: bool = False) -> str:
    """Return a value's text without the line break behind its opener and the one before its closer.

    Args:
        raw: What stood between the tags.
        both: Whether each of them is the dialect's; else they are only if the value stands on lines of its own.
    """
    text = raw
    starts = text.startswith(("\n", "\r\n"))
    if starts and INDENTED_END.search(text):
        text = text.removeprefix("\r").removeprefix("\n")
        return INDENTED_END.sub("", text) if text.strip() else ""
    if both and starts:
        return text.removeprefix("\r").removeprefix("\n")
    if both:
        return text.removesuffix("\n").removesuffix("\r")
    return text
