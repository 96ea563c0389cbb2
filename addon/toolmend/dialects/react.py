"""Read ReAct's calls: `Action: NAME`, `Action Input: …`; and Command-R's `Action:` with a JSON fence."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Final

from toolmend import lenient_json
from toolmend.dialects.json_calls import calls_in, looks_like_schema
from toolmend.dialects.positions import blank_end
from toolmend.dialects.source import Reading, Source, call, properties, required
from toolmend.dialects.xml_bodies import bare_arguments
from toolmend.model import Json, JsonObject, Tool

ACTION = re.compile(r"\**Action\**:\**[ \t]*")
FENCE = re.compile(r"```\w*\s*(?=[\[{])")
FENCE_END = re.compile(r"\s*```[ \t]*")
NAMED = re.compile(r"[`\"'\[]?(?P<name>[\w.:/-]{1,100})[`\"']?(?:\](?=\s))?[ \t]*")
INPUT = re.compile(r"\s*\n\**Action[ _]Input\**:\**[ \t]*\n?[ \t]*")
NEXT = re.compile(r"\n[ \t]*\**(?:Observation|Thought|Final Answer|Action)\**\s*:|</|<\||\Z")
BRACKETED = re.compile(r"\[([^\[\]\n]{1,2000})\][ \t]*(?=\n|\Z)")
MEMBER = re.compile(r"\"[\w.$-]{1,100}+\"\s*+:")
FORM: Final = "react"


def read_react(source: Source, at: int, *, inside: bool) -> Reading | None:
    """Read the first action. What the model went on to write (an invented observation, an answer) is no part of it."""
    action = ACTION.match(source.text, at)
    if action is None:
        return None
    if fence := FENCE.match(source.text, action.end()):
        return _read_fence(source, fence.end())
    named = NAMED.match(source.text, action.end())
    tool = source.tool(source.clean_name(named["name"])) if named else None
    if named is None or tool is None:
        return None
    return _read_input(source, tool, named.end())


def _read_fence(source: Source, at: int) -> Reading:
    item = source.json_at(at)
    if isinstance(item, str):
        return Reading(len(source.text), state=item, form="command-r", marker=True)
    value, end = item
    calls = calls_in(source, value)
    closer = FENCE_END.match(source.text, end)
    end = closer.end() if closer else end
    if calls is None:
        return Reading(end, state="unreadable", form="command-r", marker=True)
    return Reading(end, tuple(calls), form="command-r", marker=True)


def _read_input(source: Source, tool: Tool, at: int) -> Reading | None:
    text = source.text
    if bracketed := BRACKETED.match(text, at):
        return _made(source, tool, bracketed[1].strip(), at)
    if text.startswith(("(", "{"), at):
        return _read_inline(source, tool, at)
    labelled = INPUT.match(text, at)
    if labelled is None:
        ended = blank_end(text, at) == len(text) or re.compile(r"\s*\n\s*\**Observation").match(text, at)
        if not ended or required(tool):
            return None
        return Reading(len(text), (call(tool.name, {}, FORM),), form=FORM, marker=True)
    stop = NEXT.search(text, labelled.end())
    assert stop is not None
    written = text[labelled.end() : stop.start()].strip()
    made = _made(source, tool, written, labelled.end())
    return replace(made, closed=stop.start() < len(text) or written.startswith(("{", "[")))


def _read_inline(source: Source, tool: Tool, at: int) -> Reading | None:
    """Read `Action: NAME({…})`."""
    position = blank_end(source.text, at + 1) if source.text[at] == "(" else at
    item = source.json_at(position)
    if isinstance(item, str):
        return Reading(len(source.text), state=item, form=FORM, marker=True)
    value, end = item
    closer = re.compile(r"\s*\)").match(source.text, end)
    return Reading(closer.end() if closer else end, (call(tool.name, value, FORM),), form=FORM, marker=True)


def _made(source: Source, tool: Tool, written: str, at: int) -> Reading:
    """Make the call of an input: an object, or the text of the only parameter it can mean."""
    text = source.text
    fenced = re.fullmatch(r"```\w*\s*(.*?)\s*```", written, re.DOTALL)
    written = fenced[1] if fenced else written.strip("`")
    value: Json = written
    if written.startswith(("{", "[")):
        item = source.json_at(text.index(written, at))
        if isinstance(item, str):
            return Reading(len(text), state=item, form=FORM, marker=True)
        value = item[0]
        if not isinstance(value, dict) or looks_like_schema(value):
            return Reading(len(text), state="unreadable", form=FORM, marker=True)
        return Reading(len(text), (call(tool.name, value, FORM),), form=FORM, marker=True)
    if len(written) > 1 and written[0] == written[-1] == '"' and (parsed := lenient_json.parse(written)):
        value = parsed.value
    if not written and not required(tool):
        return Reading(len(text), (call(tool.name, {}, FORM),), form=FORM, marker=True)
    arguments = _members(tool, written) if MEMBER.match(written) else bare_arguments(tool, str(value))
    if arguments is None:
        return Reading(len(text), state="unreadable", form=FORM, marker=True)
    return Reading(len(text), (call(tool.name, arguments, FORM),), form=FORM, marker=True)


def _members(tool: Tool, written: str) -> JsonObject | None:
    """Read the members of an object whose braces are missing; None when they are none of the tool's."""
    parsed = lenient_json.parse("{" + written.rstrip("}") + "}")
    value = parsed.value if parsed else None
    return value if isinstance(value, dict) and value.keys() <= properties(tool).keys() else None
