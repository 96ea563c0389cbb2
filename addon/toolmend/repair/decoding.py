"""Decode a call's arguments from the text in which they came."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from toolmend import lenient_json
from toolmend.dialects import find_calls
from toolmend.model import Json, Tool, ToolCall
from toolmend.repair.coercion import same
from toolmend.repair.names import snap, split_fused
from toolmend.repair.schema import properties_of

MAX_FUSED: Final = 50_000
HEAD: Final = re.compile(r"[\s\w.:/<>|=\[\]-]{0,120}\Z")
PROSE: Final = re.compile(r"\s+[^\s{\[\]},:\"]")
OBJECT: Final = re.compile(r"\{\s*[\"'“]")
MARKUP: Final = re.compile(r"\s*<(?:parameter|arg_key|｜DSML｜parameter|\w+:parameter)\b")
ELEMENT: Final = re.compile(r"\s*+<([\w.-]++)>")
TAG: Final = (
    r"(?:</?(?:tool_calls?|function(?:_calls?)?|tools|arguments|parameters|args)>|<[|｜][^<>\s]{1,40}[|｜]>|</s>"
    r"|\[/?(?:TOOL_CALLS|ARGS|(?:END_)?TOOL_REQUEST)\])"
)
TAGS_BEFORE: Final = re.compile(rf"(?:\s*+{TAG})++")
TAGS_BEHIND: Final = re.compile(rf"(?:{TAG}\s*+)++\Z")
MAX_TAGS: Final = 400
NOTHING_BEFORE: Final = re.compile(r"\A\s*+(?:null|undefined|None|\"\")(?=\{)")
"""What a client writes that adds the first piece of a call's arguments to nothing."""
ONLY_BLANK: Final = re.compile(r"[\s;,}\])]*\Z")


@dataclass(frozen=True, slots=True)
class Decoded:
    """Hold decoded arguments, and how they were read."""

    arguments: Json
    note: str


def decode(text: str, tool: Tool | None, *, cut: bool = False) -> Decoded | None:
    """Read arguments from text.

    Args:
        text: What stood in their place: JSON, good or bad, perhaps with a header before it or prose behind it; the
            body of an XML dialect.
        tool: The tool that was called, which a header must name; None when that is not known.
        cut: Whether the answer may have ended inside the text: then nothing is closed that was left open.

    Returns:
        None when they cannot be read without guessing.
    """
    if text.strip() in ("", "undefined"):
        return Decoded({}, "empty")
    parsed = lenient_json.parse(text)
    if parsed is not None and parsed.value in (None, "", []):
        return Decoded({}, "empty")
    if cut and parsed is not None and "missing closers" in parsed.liberties:
        return None
    if parsed is not None and isinstance(parsed.value, dict | list):
        return Decoded(parsed.value, ", ".join(parsed.liberties))
    return _bared(text, cut) or _only_one(text) or _within(text, tool) or _from_markup(text, tool)


def _bared(text: str, cut: bool) -> Decoded | None:
    """Read what stands between tags, behind a `null`, or in doubled braces."""
    for note, bare in (
        ("tags around it", _without_tags(text)),
        ("null before it", NOTHING_BEFORE.sub("", text, count=1)),
        ("doubled braces", _in_braces(text.strip())),
    ):
        parsed = lenient_json.parse(bare) if len(bare) < len(text) else None
        if parsed is None or not isinstance(parsed.value, dict):
            continue
        if not (cut and "missing closers" in parsed.liberties):
            return Decoded(parsed.value, ", ".join((*parsed.liberties, note)))
    return None


def _without_tags(text: str) -> str:
    before, behind = TAGS_BEFORE.match(text), TAGS_BEHIND.search(text, max(0, len(text) - MAX_TAGS))
    return text[before.end() if before else 0 : behind.start() if behind else len(text)]


def _in_braces(text: str) -> str:
    return text[1:-1] if text.startswith("{{") and text.endswith("}}") else text


def _only_one(text: str) -> Decoded | None:
    """Read an object that stands there several times, or with empty ones beside it."""
    values = objects_in(text) or []
    full = [value for value in values if value]
    if len(values) < 2 or not full or any(not same(value, full[0]) for value in full):
        return None
    return Decoded(full[0], "several times" if len(full) > 1 else "an empty object beside it")


def objects_in(text: str) -> list[Json] | None:
    """Read objects that follow one another with nothing but blanks, commas or semicolons between them."""
    values: list[Json] = []
    position = 0
    while (found := lenient_json.parse_prefix(text, position)) is not None and len(values) < 64:
        values.append(found[0].value)
        position = found[1]
        match = re.compile(r"[\s,;]*").match(text, position)
        position = match.end() if match else position
    return values if values and ONLY_BLANK.match(text, position) else None


def fused_arguments(call: ToolCall, tools: Sequence[Tool]) -> Decoded | None:
    """Read arguments that were glued to the name: `read<arg_key>path</arg_key>…`, `read{"path": …}`, `read(path=…)`."""
    if call.name.lstrip().startswith("{") and len(call.name) <= MAX_FUSED:
        whole = lenient_json.parse(call.name)
        return Decoded(whole.value, "stood in the name") if whole is not None else None
    base, rest = split_fused(call.name)
    if not rest or len(call.name) > MAX_FUSED:
        return None
    start = rest.find("{")
    if start >= 0 and not rest[:start].strip("[ARGS] \n") and (parsed := lenient_json.parse(rest[start:])) is not None:
        return Decoded(parsed.value, "fused to the name")
    for form in (
        f"<tool_call>{call.name}</tool_call>",
        f"<tool_call>\n<function={base}>{rest}</function>\n</tool_call>",
        call.name,
    ):
        found = find_calls(form, tools, lambda found: True, whole=True)
        if found is not None and found.state == "calls" and len(found.calls) == 1 and found.calls[0].arguments:
            return Decoded(found.calls[0].arguments, "fused to the name")
    return None


def _within(text: str, tool: Tool | None) -> Decoded | None:
    """Read an object behind a header that names the tool, or before prose."""
    start = text.find("{")
    head = text[:start]
    if start < 0 or not HEAD.match(head) or (head.strip() and not _is_header(head, tool)):
        return None
    found = lenient_json.parse_prefix(text, start)
    if found is None:
        return None
    (parsed, end), notes = found, []
    tail = text[end:]
    if head.strip():
        notes.append("header before it")
    if not ONLY_BLANK.match(tail):
        if (not PROSE.match(tail) or OBJECT.search(tail)) and not _repeats(tail, parsed.value):
            return None
        notes.append("text behind it")
    return Decoded(parsed.value, ", ".join([*parsed.liberties, *notes]))


def _is_header(head: str, tool: Tool | None) -> bool:
    name = head.strip().removesuffix("<|message|>").strip("<|>[]")
    return tool is not None and snap(name, (tool,)) is not None


def _repeats(text: str, value: Json) -> bool:
    """Tell whether the text is nothing but the same value again."""
    return all(other == value for other in objects_in(text) or [None])


def _is_element(text: str, tool: Tool) -> bool:
    """Tell whether an element that has a parameter's name begins the text."""
    element = ELEMENT.match(text)
    return element is not None and element[1] in properties_of(tool.parameters)


def _from_markup(text: str, tool: Tool | None) -> Decoded | None:
    if tool is None or not (MARKUP.match(text) or _is_element(text, tool)):
        return None
    for form in (
        f"<tool_call>\n<function={tool.name}>\n{text}\n</function>\n</tool_call>",
        f"<tool_call>{tool.name}\n{text}</tool_call>",
    ):
        found = find_calls(form, (tool,), lambda found: True, whole=True)
        if found is not None and found.state == "calls" and len(found.calls) == 1 and found.calls[0].arguments:
            return Decoded(found.calls[0].arguments, "markup")
        if found is not None and found.state == "unsearched":
            break
    return None
