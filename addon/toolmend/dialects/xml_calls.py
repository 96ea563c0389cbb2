"""Read calls written as tags: a function, its parameters, text values.

Qwen3-Coder, Nemotron 3, MiMo (`<function=NAME><parameter=KEY>`), Claude, MiniMax M2, Step 3, Glimmer
(`<invoke name="…">`), DeepSeek's DSML (with `string=` flags), MiniMax M3 (property names as tags), MiniCPM5, Seed,
Functionary 3.1 (JSON body), GLM 4.5 and LongCat (`NAME<arg_key>…<arg_value>…`), and a tool's own name as the tag.
"""

from __future__ import annotations

import re

from toolmend.dialects.positions import at_call_position, blank_end
from toolmend.dialects.source import Reading, Source, call, properties
from toolmend.dialects.tags import TAG, Tag, plain, tag_at
from toolmend.dialects.xml_bodies import (
    ANY_TAG,
    HALF_OPENER,
    Body,
    Made,
    bare_arguments,
    only_text_parameter,
    read_body,
)
from toolmend.dialects.xml_values import (
    CONTAINERS,
    PAIR_KEY,
    PAIR_VALUE,
    PARAMETERS,
    without_damaged_closer,
)
from toolmend.model import JsonObject, Tool

FUSED = re.compile(r"\s*+(?P<name>[\w.:/-]{1,100}[ \t]*\n\s*[\w.$-]{1,100})\s*+(?=</)")
HEADLESS = re.compile(r"(?:function=|=)?[\"']?(?P<name>[\w.:/-]{1,100}+)[\"']?>\s*+(?=<param)")
HEADER = re.compile(r"\s*+(?P<name>[^<>{}\[\]()\"'\n]{1,120}?)\s{0,200}+(?=<)")
WORDS_BEHIND = re.compile(r"[ \t]*(?!\]<\])[^\s<{]")
ELEMENT = re.compile(
    r"\s*(?:<(?:tool_|function_)?name>\s*)?(?P<name>[\w.:/-]{1,100})\s*</(?:function|(?:tool_|function_)?name|invoke)>"
)
ATTRIBUTE = re.compile(r"(?P<key>[\w.$-]++)\s*+=\s*+(?P<text>\"[^\"]*+\"|'[^']*+')\s*+")
ATTRIBUTES = re.compile(rf"(?:{ATTRIBUTE.pattern.replace('?P<key>', '?:').replace('?P<text>', '?:')})*+")


def read_xml(source: Source, at: int, *, inside: bool) -> Reading | None:
    """Read one call that begins with a tag at the position."""
    tag = tag_at(source, at)
    if tag is None:
        return None
    if tag.kind == "function":
        return _read_function(source, tag, inside=inside)
    if tag.kind == "tool":
        return _read_tool_tag(source, tag, inside=inside)
    if tag.kind == "name":
        return _read_envelope(source, tag)
    if tag.kind == "inner" and not tag.closing and tag.name in PARAMETERS:
        return _read_misnamed(source, tag) if inside else _read_orphans(source, tag)
    return None


def read_headless(source: Source, at: int, *, inside: bool) -> Reading | None:
    """Read a call whose function tag has lost its beginning: `function=NAME>`, `=NAME>`, `NAME">`, and a parameter."""
    head = HEADLESS.match(source.text, at)
    name = source.clean_name(head["name"]) if head else ""
    if head is None or source.tool(name) is None:
        return None
    return read_body(source, Made(name, source.tool(name), "function"), head.end(), "qwen3-coder")


def read_pairs(source: Source, at: int, *, inside: bool) -> Reading | None:
    """Read a name and pairs of key and value tags (GLM, LongCat); without an opener the name must be an offered one."""
    header = HEADER.match(source.text, at) or FUSED.match(source.text, at)
    if header is None:
        return None
    name, position = source.clean_name(header["name"]), header.end()
    tag = tag_at(source, position)
    if tag is not None and tag.kind == "separator":
        position = blank_end(source.text, tag.end)
        tag = tag_at(source, position)
    if not inside and not (tag is not None and tag.name in PAIR_KEY and not tag.closing and source.offered(name)):
        return None
    if tag is None and _is_property(source, position, name):
        return read_body(source, Made(name, source.tool(name), "tool_call"), position, "glm")
    if tag is None or not _follows_name(source, tag, name):
        return None
    if tag.closing and tag.name in PAIR_KEY:
        split = _split_fused(source, header["name"].strip()) or _without_key(source, name)
        if split is None:
            end = re.compile(r"</tool_call>|\Z").search(source.text, position)
            return Reading(end.start() if end else position, state="unreadable", form="glm", marker=True)
        name, key = split
        return read_body(source, Made(name, source.tool(name), "tool_call"), tag.end, "glm", key=key)
    if tag.kind == "open" or (tag.name in PAIR_VALUE and _is_fused_key(source, tag.end)):
        fused = HEADER.match(source.text, tag.end)
        assert fused is not None
        closer = source.text.index(">", fused.end()) + 1
        return read_body(source, Made(name, source.tool(name), "tool_call"), closer, "glm", key=fused["name"])
    return read_body(source, Made(name, source.tool(name), "tool_call"), position, "glm")


def _is_property(source: Source, at: int, name: str) -> bool:
    """Tell whether a tag that a property of the named tool has for its name stands here."""
    match = TAG.match(source.text, at)
    return match is not None and not match["close"] and match["name"] in properties(source.tool(name))


def _follows_name(source: Source, tag: Tag, name: str) -> bool:
    """Tell whether the tag behind a name is a key's, the opener written for a key's, or the closer of a bare name."""
    if tag.name in PAIR_VALUE and not tag.closing and _is_fused_key(source, tag.end):
        return True
    if tag.name in PAIR_KEY or (tag.name in PARAMETERS and not tag.closing and source.tool(name)):
        return True
    if tag.kind == "open":
        return _is_fused_key(source, tag.end)
    return tag.kind == "close" and source.tool(name) is not None


def _is_fused_key(source: Source, at: int) -> bool:
    """Tell whether a key without its opener stands here: the call's opener was written in its place."""
    key = HEADER.match(source.text, at)
    tag = tag_at(source, key.end()) if key else None
    return tag is not None and tag.closing and tag.name in PAIR_KEY


def _without_key(source: Source, name: str) -> tuple[str, str] | None:
    """Return the name, and the one parameter that a value without its key can mean."""
    key = only_text_parameter(source.tool(name))
    return None if key is None else (name, key)


def _split_fused(source: Source, text: str) -> tuple[str, str] | None:
    """Split a name that ran into the first key: exactly one way gives an offered tool and a property of it."""
    splits = []
    for end in range(1, len(text)):
        tool = source.tool(text[:end]) if source.offered(text[:end]) else None
        if tool and text[end:].strip() in properties(tool):
            splits.append((text[:end], text[end:].strip()))
    return splits[0] if len(splits) == 1 else None


def _read_function(source: Source, tag: Tag, *, inside: bool) -> Reading | None:
    """Read a function's tag and what stands in it. Words behind one in a sentence say that it is only named there."""
    if not tag.label:
        return _read_element(source, tag, inside=inside)
    name, form = source.clean_name(tag.label), _form(tag)
    if tag.empty:
        return Reading(tag.end, (call(name, {}, form),), form=form, marker=True)
    placed = source.tool(name) and (inside or at_call_position(source.text, tag.start))
    if not placed and WORDS_BEHIND.match(source.text, tag.end):
        return None
    start = _behind_twin(source, tag)
    raw = _read_raw(source, name, start, form)
    return raw or read_body(source, Made(name, source.tool(name), tag.name), start, form)


def _behind_twin(source: Source, tag: Tag) -> int:
    """Return the position behind an opener, and behind the same one if it follows."""
    twin = tag_at(source, blank_end(source.text, tag.end))
    if twin is None or (twin.kind, twin.label, twin.empty) != ("function", tag.label, False):
        return tag.end
    return twin.end


def _read_element(source: Source, tag: Tag, *, inside: bool) -> Reading | None:
    """Read `<function>NAME</function>`, and the parameters behind it."""
    named = ELEMENT.match(source.text, tag.end)
    if named is None:
        return None
    name = source.clean_name(named["name"])
    if not (inside or source.tool(name)):
        return None
    return read_body(source, Made(name, source.tool(name), tag.name), named.end(), _form(tag))


def _read_raw(source: Source, name: str, at: int, form: str) -> Reading | None:
    """Read the one value that a tool takes, which stands in the call without a tag round it."""
    text, tool = source.text, source.tool(name)
    position = blank_end(text, at)
    takes_text = only_text_parameter(tool) is not None or _begins_keyed(source, tool, position)
    if not takes_text or text.startswith(("{", "<"), position):
        return None
    closer = re.compile(rf"</(?:function|invoke|tool_call|{re.escape(name)})>").search(text, position)
    source.spend(((closer.start() if closer else len(text)) - position) // 4)
    if closer is None or HALF_OPENER.search(text, position, closer.start()):
        return None
    parameter = Tag("inner", "parameter", at, at)
    arguments = bare_arguments(tool, without_damaged_closer(text[at : closer.start()], parameter).strip("\r\n"))
    if arguments is None:
        return None
    end = closer.start() if closer[0] == "</tool_call>" else closer.end()
    return Reading(end, (call(name, arguments, form),), form=form, marker=True)


def _form(tag: Tag) -> str:
    if tag.dsml:
        return "deepseek-dsml"
    if tag.name == "invoke":
        return "claude-xml"
    return "qwen3-coder"


def _read_misnamed(source: Source, tag: Tag) -> Reading | None:
    """Read `<parameter=NAME>` in the place of `<function=NAME>`: an offered tool, and a parameter behind it."""
    tool = source.tool(tag.label)
    following = tag_at(source, blank_end(source.text, tag.end))
    if tool is None or following is None or following.name not in PARAMETERS or following.closing:
        return None
    return read_body(source, Made(tag.label, tool, "function"), tag.end, "qwen3-coder")


def _read_orphans(source: Source, tag: Tag) -> Reading | None:
    """Read parameters whose function's opener is missing: those of the one tool that takes them."""
    made = Made("", None, "function")
    end = Body(source, made).read(tag.start)
    if not made.closed or made.unreadable or not made.arguments:
        return Reading(len(source.text), state="cut", form="qwen3-coder") if not source.final else None
    tool = source.only_tool_for(made.arguments)
    if tool is None:
        return Reading(end, state="unreadable", form="qwen3-coder", marker=True)
    return Reading(end, (call(tool.name, made.arguments, "qwen3-coder"),), form="qwen3-coder", marker=True)


def _read_envelope(source: Source, tag: Tag) -> Reading | None:
    """Read `<name>NAME</name>` and the arguments behind it."""
    text = source.text
    named = re.compile(r"\s*(?P<name>[\w.:/-]{1,100})\s*</[\w:-]+>\s*").match(text, tag.end)
    if named is None:
        return None
    name = source.clean_name(named["name"])
    following = tag_at(source, named.end())
    is_inner = following is not None and following.kind == "inner" and not following.closing
    if not (text.startswith("{", named.end()) or is_inner or _is_property(source, named.end(), name)):
        return None
    return read_body(source, Made(name, source.tool(name), "name"), named.end(), "xml envelope")


def _read_tool_tag(source: Source, tag: Tag, *, inside: bool) -> Reading | None:
    """Read a tool's own name as the tag: round JSON, property tags, or the one value it takes."""
    text, tool = source.text, source.tool(tag.written)
    position = blank_end(text, tag.end)
    name = tag.written
    if tag.empty:
        arguments = _attributes(tag, properties(tool))
        made = None if arguments is None else (call(name, arguments, "tool-name tags"),)
        return Reading(tag.end, made, form="tool-name tags") if made else None
    inner = ANY_TAG.match(text, position)
    is_property = inner is not None and (
        inner["name"] in properties(tool) or plain(inner["name"]) in PARAMETERS | CONTAINERS
    )
    if text.startswith("{", position) or is_property:
        reading = read_body(source, Made(name, tool, tag.written), position, "tool-name tags")
        return Reading(reading.end, reading.calls, reading.state, "tool-name tags", inside, closed=reading.closed)
    if only_text_parameter(tool) is None and not _begins_keyed(source, tool, position):
        return None
    end = text.find(f"</{name}>", tag.end)
    source.spend((len(text) if end < 0 else end) // 8 - tag.end // 8)
    if end < 0:
        return Reading(len(text), state="cut", form="tool-name tags") if not source.final else None
    value, end = text[tag.end : end], end + len(name) + 3
    if not value.strip():
        return Reading(end, (call(name, {}, "tool-name tags"),), form="tool-name tags")
    arguments = bare_arguments(tool, value)
    if arguments is None or not (inside or source.starts(tag.start)) or ANY_TAG.match(value.lstrip()):
        return None
    return Reading(end, (call(name, arguments, "tool-name tags"),), form="tool-name tags")


def _begins_keyed(source: Source, tool: Tool | None, at: int) -> bool:
    """Tell whether nothing stands here, a tag, or a line that begins with a parameter's name."""
    text = source.text
    key = re.compile(r"[\w.$-]{1,100}+").match(text, at)
    if key is None:
        return re.compile(r"[^\s<]").match(text, at) is None
    if key.end() == len(text) and not source.final:
        return any(name.startswith(key[0]) for name in properties(tool))
    return text.startswith(":", key.end()) and key[0] in properties(tool)


def _attributes(tag: Tag, declared: JsonObject) -> JsonObject | None:
    """Return the arguments that a tag's attributes are; None when they are anything else."""
    written = tag.attributes.strip()
    if not ATTRIBUTES.fullmatch(written):
        return None
    found = {match["key"]: match["text"][1:-1] for match in ATTRIBUTE.finditer(written)}
    return {**found} if found.keys() <= declared.keys() else None
