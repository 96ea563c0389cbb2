"""Read calls written as tags: a function, its parameters, text values.

Qwen3-Coder, Nemotron 3, MiMo (`<function=NAME><parameter=KEY>`), Claude, MiniMax M2, Step 3, Glimmer
(`<invoke name="…">`), DeepSeek's DSML (with `string=` flags), MiniMax M3 (property names as tags), MiniCPM5, Seed,
Functionary 3.1 (JSON body), GLM 4.5 and LongCat (`NAME<arg_key>…<arg_value>…`), and a tool's own name as the tag.

These dialects have no escape for their own tags, so that a closer counts only where a sibling, the parent's closer or
the end follows. Where that leaves a required argument without its value, the first closer is tried.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from toolmend.dialects.json_calls import ARGUMENT_KEYS, calls_in
from toolmend.dialects.positions import at_call_position, blank_end
from toolmend.dialects.source import READING, STEP, TRIGGER, Reading, Source, call, decoded, lacks, properties, required
from toolmend.dialects.tags import TAG, Tag, is_near, is_strange, plain, tag_at
from toolmend.model import Json, JsonObject, Tool

STRAY: Final = 200
"""How much text may stand where only tags belong, for it to be dropped."""

LONGEST_STRAY: Final = 2_000
"""And between a parameter's closer and the next parameter."""

PARAMETERS: Final = frozenset(("parameter", "param", "arg", "argument"))
CONTAINERS: Final = frozenset(("parameters", "arguments", "args", "input", "params"))
PAIR_KEY: Final = frozenset(("argkey", "longcatargkey"))
PAIR_VALUE: Final = frozenset(("argvalue", "longcatargvalue"))
FUNCTION_CLOSERS: Final = frozenset(("function", "invoke", "functioncall", "tool", "action", "tooluse"))
WRAPPERS: Final = frozenset(("toolcall", "toolcalls", "functioncalls", "functioncall", "tools", "response"))
FLAG = re.compile(r"\bstring\s*=\s*[\"'“”]?(true|false)", re.IGNORECASE)
TYPE = re.compile(r"\btype\s*=\s*[\"'“”]?(\w+)", re.IGNORECASE)
CDATA = re.compile(r"\s*<!\[CDATA\[(.*)\]\]>\s*\Z", re.DOTALL)
CDATA_OPENING = re.compile(r"\s*+<!\[CDATA\[")
INDENTED_END = re.compile(r"\n[ \t]*\Z")
FUSED = re.compile(r"\s*+(?P<name>[\w.:/-]{1,100}[ \t]*\n\s*[\w.$-]{1,100})\s*+(?=</)")
HEADLESS = re.compile(r"(?:function=|=)?[\"']?(?P<name>[\w.:/-]{1,100}+)[\"']?>\s*+(?=<param)")
HEADER = re.compile(r"\s*+(?P<name>[^<>{}\[\]()\"'\n]{1,120}?)\s{0,200}+(?=<)")
WORDS_BEHIND = re.compile(r"[ \t]*(?!\]<\])[^\s<{]")
OPEN_TAG = re.compile(r"<(?!/)[\w:]*\Z")
DAMAGED = re.compile(
    r"(?:<\s?(?P<slash>[/\\])?|(?P<bare>/)|(?<=\n))\s?[|｜‖]{0,2}(?:\w{2,5}[|｜‖]{1,2})?(?P<name>[A-Za-z_][\w:.-]{0,40})[|｜‖]?(?P<end>>)?\s*\Z"
)
HALF_CLOSER = re.compile(r"</\s?[|｜‖]{0,2}(?:\w{2,5}[|｜‖]{1,2})?(?P<name>[\w:]{3,40})[|｜‖]?>?(?=\s*(?:<|\Z))")
HALF_OPENER = re.compile(
    r"<?\s?param(?:eter)?(?:=|\s+name\s?=\s?)[\"']?(?P<key>[\w.$-]{1,100}+)[\"']?(?:>|(?=\s*\n\s*[^\s<]))"
)
KEY_END = re.compile(r"</\w*arg_?key(?::\w+)?>|(?=<\w*arg_?value(?::\w+)?>)")
BARE_VALUE = re.compile(r"(?:<?arg_value>?)?(?P<value>[^<]*+)(?P<closer></arg_value)?")
"""A value whose opener is missing, or lacks a bracket."""
LONGEST_DAMAGED: Final = 80
CLOSERS_OF: Final = {
    "parameter": ("parameter", "param"),
    "argvalue": ("argvalue",),
    "longcatargvalue": ("longcatargvalue",),
}
FOREIGN: Final = FUNCTION_CLOSERS | WRAPPERS | PAIR_KEY | PAIR_VALUE | PARAMETERS | frozenset(("think", "thinking"))
"""Names of tags whose closers models write in the place of a parameter's."""
ATTRIBUTE = re.compile(r"(?P<key>[\w.$-]++)\s*+=\s*+(?P<text>\"[^\"]*+\"|'[^']*+')\s*+")
ATTRIBUTES = re.compile(rf"(?:{ATTRIBUTE.pattern.replace('?P<key>', '?:').replace('?P<text>', '?:')})*+")
KEYED = re.compile(r"[ \t]*(?P<key>[\w.$-]{1,100}+):[ \t]+(?P<value>\S.*)\Z")
ANY_TAG = re.compile(r"<(?P<close>/)?(?P<name>[\w:.-]+)[^<>]{0,200}>")


@dataclass(slots=True)
class _Call:
    """Hold a call in the making: the tool if it is known, what was read, and why reading stopped."""

    name: str
    tool: Tool | None
    tag: str
    arguments: JsonObject = field(default_factory=dict)
    closed: bool = False
    cut: bool = False
    unreadable: bool = False
    json_body: bool = False


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
    return _body(source, _Call(name, source.tool(name), "function"), head.end(), "qwen3-coder")


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
        return _body(source, _Call(name, source.tool(name), "tool_call"), position, "glm")
    if tag is None or not _follows_name(source, tag, name):
        return None
    if tag.closing and tag.name in PAIR_KEY:
        split = _split_fused(source, header["name"].strip()) or _without_key(source, name)
        if split is None:
            end = re.compile(r"</tool_call>|\Z").search(source.text, position)
            return Reading(end.start() if end else position, state="unreadable", form="glm", marker=True)
        name, key = split
        return _body(source, _Call(name, source.tool(name), "tool_call"), tag.end, "glm", key=key)
    if tag.kind == "open" or (tag.name in PAIR_VALUE and _is_fused_key(source, tag.end)):
        fused = HEADER.match(source.text, tag.end)
        assert fused is not None
        closer = source.text.index(">", fused.end()) + 1
        return _body(source, _Call(name, source.tool(name), "tool_call"), closer, "glm", key=fused["name"])
    return _body(source, _Call(name, source.tool(name), "tool_call"), position, "glm")


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
    form = _form(tag)
    if tag.label:
        name = source.clean_name(tag.label)
        if tag.empty:
            return Reading(tag.end, (call(name, {}, form),), form=form, marker=True)
        placed = source.tool(name) and (inside or at_call_position(source.text, tag.start))
        if not placed and WORDS_BEHIND.match(source.text, tag.end):
            return None
        twin = tag_at(source, blank_end(source.text, tag.end))
        doubled = twin is not None and (twin.kind, twin.label, twin.empty) == ("function", tag.label, False)
        start = twin.end if twin is not None and doubled else tag.end
        raw = _read_raw(source, name, start, form)
        return raw or _body(source, _Call(name, source.tool(name), tag.name), start, form)
    text = source.text
    named = re.compile(
        r"\s*(?:<(?:tool_|function_)?name>\s*)?(?P<name>[\w.:/-]{1,100})\s*</(?:function|(?:tool_|function_)?name|invoke)>"
    ).match(text, tag.end)
    if named is None:
        return None
    name = source.clean_name(named["name"])
    if not (inside or source.tool(name)):
        return None
    return _body(source, _Call(name, source.tool(name), tag.name), named.end(), form)


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
    arguments = _bare(tool, without_damaged_closer(text[at : closer.start()], parameter))
    if arguments is None:
        return None
    end = closer.start() if closer[0] == "</tool_call>" else closer.end()
    return Reading(end, (call(name, arguments, form),), form=form, marker=True)


def _bare(tool: Tool | None, raw: str) -> JsonObject | None:
    """Return the arguments that text without tags means: lines of keys and values, or the one value that is taken."""
    declared = properties(tool)
    if any(tag["name"] in declared for tag in ANY_TAG.finditer(raw)):
        return None
    lines = [KEYED.match(line) for line in raw.split("\n") if line.strip()]
    keyed = [line for line in lines if line is not None and line["key"] in declared]
    if keyed and len(keyed) == len(lines) and len({line["key"] for line in keyed}) == len(keyed):
        return {line["key"]: line["value"].strip() for line in keyed}
    key = only_text_parameter(tool)
    return {key: text_value(raw)} if key is not None and raw.strip() and keyed[:1] != lines[:1] else None


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
    return _body(source, _Call(tag.label, tool, "function"), tag.end, "qwen3-coder")


def _read_orphans(source: Source, tag: Tag) -> Reading | None:
    """Read parameters whose function's opener is missing: those of the one tool that takes them."""
    made = _Call("", None, "function")
    end = _Body(source, made).read(tag.start)
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
    return _body(source, _Call(name, source.tool(name), "name"), named.end(), "xml envelope")


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
        reading = _body(source, _Call(name, tool, tag.written), position, "tool-name tags")
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
    arguments = _bare(tool, value)
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


def only_text_parameter(tool: Tool | None) -> str | None:
    """Return the one parameter that a bare value can mean, if it is text."""
    return only_parameter(tool, "string")


def only_parameter(tool: Tool | None, kind: str) -> str | None:
    """Return the one parameter that a bare value of a JSON type can mean: the only one, or the only required one."""
    declared = properties(tool)
    names = required(tool) or (list(declared) if len(declared) == 1 else [])
    if len(names) != 1:
        return None
    schema = declared.get(names[0])
    return names[0] if isinstance(schema, dict) and schema.get("type", "string") == kind else None


def _body(source: Source, made: _Call, at: int, form: str, key: str | None = None) -> Reading:
    """Read the arguments of a call whose name is known, and its end."""
    source.spend(2 * READING)
    strict = _Call(made.name, made.tool, made.tag)
    end = _Body(source, strict).read(at, key)
    for reader in (partial(_Body, loose=True), partial(_Body, inline=True)):
        if not (strict.unreadable or strict.cut or lacks(strict.tool, strict.arguments)):
            break
        other = _Call(made.name, made.tool, made.tag)
        other_end = reader(source, other).read(at, key)
        if _is_better(other, strict):
            strict, end = other, other_end
    if strict.cut:
        return Reading(len(source.text), state="cut", form=form, marker=True)
    if strict.unreadable:
        return Reading(end, state="unreadable", form=form, marker=True)
    calls = (call(strict.name, strict.arguments, form),)
    return Reading(end, calls, form=form, marker=True, chatter=strict.json_body and strict.closed, closed=strict.closed)


def _is_better(loose: _Call, strict: _Call) -> bool:
    if loose.cut or loose.unreadable or lacks(loose.tool, loose.arguments):
        return False
    return strict.cut or strict.unreadable or lacks(strict.tool, strict.arguments) > 0


class _Body:
    """Read parameters one after the other.

    `loose` takes the first closer of a value for its end, `inline` also a sibling's opener in the middle of a line.
    """

    def __init__(self, source: Source, made: _Call, *, loose: bool = False, inline: bool = False) -> None:
        self.source = source
        self.text = source.text
        self.made = made
        self.loose = loose
        self.inline = inline
        self.declared = properties(made.tool)

    def read(self, at: int, key: str | None = None) -> int:
        """Read up to the call's end and return it. A key given is that of the value tag at the position."""
        position = at
        if key is not None:
            position = self.pair(key, position)
        while not (self.made.cut or self.made.unreadable):
            position = blank_end(self.text, position)
            if position >= len(self.text):
                return position
            if self.text.startswith(("{", "["), position) and not self.made.arguments:
                position = self.json_body(position)
                continue
            self.source.spend(2 * STEP)
            tag = self.tag(position)
            if tag is None and OPEN_TAG.match(self.text, position):
                self.made.cut = True
            elif tag is None:
                following = self.stray(position)
                if following is None:
                    return position
                position = following
            elif (end := self.step(tag)) is not None:
                position = end
            else:
                return self.ended(tag)
        return position

    def tag(self, at: int) -> Tag | None:
        """Return the marker at the position, also one that is a property's name."""
        match = TAG.match(self.text, at)
        if match is None:
            return self.half_opener(at)
        if match["name"] in self.declared and plain(match["name"]) not in PARAMETERS | PAIR_KEY:
            return Tag("inner", "property", at, match.end(), match["name"], bool(match["close"]), written=match["name"])
        tag = tag_at(self.source, at)
        if tag is not None and not tag.label and tag.name in PARAMETERS and tag.attributes.strip() in self.declared:
            return replace(tag, label=tag.attributes.strip())
        return tag

    def half_opener(self, at: int) -> Tag | None:
        """Return a parameter's opener that lacks one of its brackets."""
        half = HALF_OPENER.match(self.text, at)
        if half is None or half["key"] not in self.declared or half["key"] in self.made.arguments:
            return None
        return Tag("inner", "parameter", at, half.end(), half["key"])

    def step(self, tag: Tag) -> int | None:
        """Read what begins with this tag and return its end; None when the call ends before or with it."""
        if tag.closing:
            return (
                tag.end if tag.name in PARAMETERS | CONTAINERS | PAIR_KEY | PAIR_VALUE | {"property", "name"} else None
            )
        if tag.name == "property":
            return self.value(tag.label, tag, rf"</\s?{re.escape(tag.label)}\s?>")
        if tag.name in PAIR_KEY:
            return self.pair_key(tag)
        if tag.name in PARAMETERS:
            return self.value(tag.label, tag) if tag.label else self.nameless(tag)
        if tag.name in CONTAINERS and tag.kind == "inner":
            return tag.end
        if tag.kind == "inner":
            self.made.unreadable = True
            return tag.end
        return None

    def ended(self, tag: Tag) -> int:
        """Return the call's end at a tag that is not part of it: behind its own closer, before anything else."""
        own = tag.closing and (
            tag.name in FUNCTION_CLOSERS or tag.written == self.made.tag or tag.name == plain(self.made.tag)
        )
        self.made.closed = own or tag.closing
        return tag.end if own and tag.kind != "close" else tag.start

    def stray(self, at: int) -> int | None:
        """Return the next tag's position behind a few words that do not belong here."""
        self.source.spend(READING)
        for match in TAG.finditer(self.text, at, min(len(self.text), at + STRAY + 200)):
            if match.start() - at > STRAY:
                break
            tag = self.tag(match.start())
            if tag is not None and tag.kind in ("inner", "close", "end", "open"):
                return match.start()
        return None

    def json_body(self, at: int) -> int:
        item = self.source.json_at(at)
        if isinstance(item, str):
            self.made.cut, self.made.unreadable = item == "cut", item == "unreadable"
            closer = re.compile(r"</\w|\Z").search(self.text, at)
            return closer.start() if closer else at
        value, end = item
        if isinstance(value, dict):
            self.made.arguments.update(self.unwrapped(value))
        elif (key := only_parameter(self.made.tool, "array")) is not None:
            self.made.arguments[key] = value
        else:
            self.made.unreadable = True
        self.made.json_body = True
        return end

    def unwrapped(self, value: JsonObject) -> JsonObject:
        """Return the arguments out of a whole call that was written as the body."""
        named = calls_in(self.source, value)
        if named and len(named) == 1 and named[0].name == self.made.name and isinstance(named[0].arguments, dict):
            return named[0].arguments
        keys = [key for key in value if key in ARGUMENT_KEYS and key not in self.declared]
        inner = value[keys[0]] if len(value) == 1 and keys else None
        return inner if isinstance(inner, dict) else value

    def pair_key(self, tag: Tag) -> int:
        closer = KEY_END.search(self.text, tag.end, min(len(self.text), tag.end + STRAY))
        if closer is None:
            self.made.cut, self.made.unreadable = len(self.text) - tag.end < STRAY, True
            return tag.end
        key = self.text[tag.end : closer.start()].partition("<")[0].strip()
        return self.pair(key, closer.end())

    def pair(self, key: str, at: int) -> int:
        """Read the value tag that follows a key; where only its opener is missing, the value stands there bare."""
        position = blank_end(self.text, at)
        tag = self.tag(position)
        while tag is not None and tag.closing and tag.name in PAIR_KEY:
            position = blank_end(self.text, tag.end)
            tag = self.tag(position)
        if tag is not None and tag.name in PAIR_VALUE and not tag.closing:
            return self.value(key, tag)
        bare = BARE_VALUE.match(self.text, position)
        if bare is not None and bare["closer"]:
            self.source.spend(bare.end() - position)
            return self.value(key, Tag("inner", "argvalue", position, bare.start("value")))
        at_end = position >= len(self.text) or "<arg_value>".startswith(self.text[position:])
        self.made.cut, self.made.unreadable = at_end, not at_end
        return position

    def nameless(self, tag: Tag) -> int:
        """Read `<parameter>KEY</parameter>` with the value behind it."""
        key = re.compile(r"\s*([\w$.-]{1,100})\s*</[\w:-]+>").match(self.text, tag.end)
        if key is None:
            self.made.unreadable = True
            return tag.end
        opener = Tag("inner", tag.name, tag.start, key.end(), key[1])
        return self.value(key[1], opener, ends_at_sibling=True)

    def value(self, key: str, tag: Tag, closer: str = "", *, ends_at_sibling: bool = False) -> int:
        """Read a value up to its end and keep it under the key."""
        tag = self.last_of_doubled(tag)
        bounds = _Bounds(self, tag, closer, ends_at_sibling=ends_at_sibling)
        found = bounds.find()
        self.source.spend(((found[1] if found else len(self.text)) - tag.end) // 4)
        if found is None:
            self.made.cut = True
            return len(self.text)
        end, position = found
        raw = self.text[tag.end : end]
        if end == position:
            raw = without_damaged_closer(raw, tag)
        self.made.arguments[key.strip()] = typed(raw, tag)
        return position

    def last_of_doubled(self, tag: Tag) -> Tag:
        """Return the second of two openers that are the same and follow each other."""
        following = self.tag(blank_end(self.text, tag.end))
        doubled = (
            following is not None
            and tag.name in PARAMETERS | PAIR_VALUE
            and (following.name, following.label, following.closing) == (tag.name, tag.label, False)
            and (tag.label or tag.name in PAIR_VALUE)
        )
        return following if doubled and following is not None else tag


@dataclass(slots=True)
class _Bounds:
    """Find where a value ends."""

    body: _Body
    opener: Tag
    closer: str
    ends_at_sibling: bool = False
    parameters: int = 0
    functions: int = 0
    wrappers: int = 0
    properties: int = 0
    closer_before: Tag | None = None
    passed: Tag | None = None

    def find(self) -> tuple[int, int] | None:
        """Return the value's end and the position behind its closer; None when the text ends inside it."""
        for tag in self.tags():
            if (found := self.at(tag)) is not None:
                return found
        return None

    def tags(self) -> Iterator[Tag]:
        """Return the markers behind the opener that may bound its value."""
        body = self.body
        start = self.opener.end
        if CDATA_OPENING.match(body.text, start):
            start = max(start, body.text.find("]]>", start))
        for match in TAG.finditer(body.text, start):
            body.source.spend(TRIGGER)
            name = match["name"]
            misspelt = bool(match["close"]) and _is_misspelt(name, self.opener)
            if not misspelt and name not in body.declared and is_strange(body.source, match.start()):
                continue
            body.source.spend(2 * STEP)
            tag = body.tag(match.start())
            strange = tag is None or (tag.closing and tag.name in CONTAINERS)
            if strange and misspelt:
                tag = Tag("inner", self.opener.name, match.start(), match.end(), closing=True)
            if tag is not None and tag.kind not in ("think", "name", "tool", "separator"):
                yield tag

    def at(self, tag: Tag) -> tuple[int, int] | None:
        if tag.name == "property":
            return self.at_property(tag)
        if tag.closing and tag.name in PARAMETERS | PAIR_VALUE:
            return self.at_closer(tag)
        if tag.name in PARAMETERS | PAIR_KEY and not tag.closing:
            return self.at_opener(tag)
        if tag.kind == "function":
            self.functions += 1
        elif tag.closing and tag.name in FUNCTION_CLOSERS and tag.kind == "inner":
            return self.at_parent(tag, "functions")
        elif tag.kind in ("close", "end") and (tag.closing or tag.special):
            return self.at_parent(tag, "wrappers")
        elif tag.kind == "open" and not tag.special:
            self.wrappers += 1
        return None

    def at_property(self, tag: Tag) -> tuple[int, int] | None:
        if self.opener.name != "property":
            return self.at_own_key(tag)
        if tag.closing and tag.label == self.opener.label and (self.body.loose or self.structure_follows(tag.end)):
            return tag.start, tag.end
        return None

    def at_own_key(self, tag: Tag) -> tuple[int, int] | None:
        """Take the parameter's own name for a closer, unless it closes an element of the value."""
        if tag.label != self.opener.label:
            return None
        if not tag.closing:
            self.properties += 1
        elif self.properties:
            self.properties -= 1
        elif self.structure_follows(tag.end) and not self.closes_parameter(tag.end):
            return tag.start, tag.end
        return None

    def closes_parameter(self, at: int) -> bool:
        tag = self.body.tag(blank_end(self.body.text, at))
        return tag is not None and tag.closing and tag.name in PARAMETERS | PAIR_VALUE

    def at_closer(self, tag: Tag) -> tuple[int, int] | None:
        if self.opener.name == "property":
            return None
        if self.body.loose:
            return tag.start, tag.end
        if self.parameters:
            self.parameters -= 1
            self.closer_before = tag
            return None
        if self.structure_follows(tag.end):
            return tag.start, tag.end
        self.passed = tag
        return None

    def unless_passed(self, at: int) -> tuple[int, int]:
        """Return the value's end at a tag that stands for its closer.

        A closer that was passed ends it, if only a few words stand between the two.
        """
        passed = self.passed
        if passed is not None and at - passed.end < LONGEST_STRAY and "<" not in self.body.text[passed.end : at]:
            return passed.start, at
        return at, at

    def at_opener(self, tag: Tag) -> tuple[int, int] | None:
        """Take a sibling's opener for the end where the closer is missing: it names a parameter not given yet."""
        if self.ends_at_sibling or (self.opener.name in PAIR_VALUE and tag.name in PAIR_KEY):
            return tag.start, tag.start
        if self.opener.name == "property":
            return None
        if not (tag.label or self.parameters) and tag.name == self.opener.name and self.sibling_or_end(tag.end):
            return tag.start, tag.end
        if not self.parameters and self.is_sibling(tag):
            return self.unless_passed(tag.start)
        self.parameters += 1
        return None

    def sibling_or_end(self, at: int) -> bool:
        """Tell whether a parameter not given yet follows, or the call's closer."""
        tag = self.body.tag(blank_end(self.body.text, at))
        if tag is None or tag.kind == "function":
            return False
        return tag.closing if tag.name not in PARAMETERS else not tag.closing and self.is_sibling(tag)

    def is_sibling(self, tag: Tag) -> bool:
        """Tell whether an opener is that of a parameter not given yet."""
        known = tag.label in self.body.declared if self.body.declared else bool(tag.label)
        given = tag.label in self.body.made.arguments or tag.label == self.opener.label
        return known and not given and (self.body.inline or not self.is_inline(tag))

    def is_inline(self, tag: Tag) -> bool:
        """Tell whether an opener in a value stands in the middle of a line: it is text about the format."""
        before = self.body.text[max(tag.start - 40, self.opener.end) : tag.start].rstrip(" \t")
        if not before or before.endswith((">", "\n")):
            return False
        damaged = DAMAGED.search(before)
        return damaged is None or not _stands_for_closer(damaged, self.opener)

    def at_parent(self, tag: Tag, counter: str) -> tuple[int, int] | None:
        """Take the parent's closer for the end where the value's own is missing."""
        if count := getattr(self, counter):
            setattr(self, counter, count - 1)
            return None
        if self.opener.name == "property" and tag.name not in WRAPPERS | FUNCTION_CLOSERS:
            return None
        if not self.parent_follows(tag.end):
            return None
        own = self.closer_before
        if own is not None and blank_end(self.body.text, own.end) == tag.start:
            return own.start, own.end
        return self.unless_passed(tag.start)

    def structure_follows(self, at: int) -> bool:
        """Tell whether what may follow a value follows: a sibling, a closer, another call, the end."""
        position = blank_end(self.body.text, at)
        text = self.body.text
        if position >= len(text) or re.compile(r"<[/|｜]?[\w|｜:▁]*\Z|```").match(text, position):
            return True
        tag = self.body.tag(position)
        if tag is None:
            if self.ends_at_sibling or self.damaged_parent(position):
                return True
            other = TAG.match(text, position)
            return other is not None and bool(other["close"]) and plain(other["name"]) == plain(self.body.made.tag)
        if tag.kind == "inner" and tag.closing and tag.name == "property":
            return tag.label == self.opener.label
        return tag.kind in ("inner", "close", "open", "end", "function", "weak", "separator", "think")

    def damaged_parent(self, at: int) -> bool:
        """Tell whether what is left of the call's closer stands here: one misspelt, or half of one."""
        closer = HALF_CLOSER.match(self.body.text, at)
        return closer is not None and any(
            is_near(plain(closer["name"]), name) for name in ("function", "invoke", plain(self.body.made.tag))
        )

    def parent_follows(self, at: int) -> bool:
        position = blank_end(self.body.text, at)
        if position >= len(self.body.text):
            return True
        if re.compile(r"<[/|｜]?[\w|｜:▁]*\Z|```").match(self.body.text, position):
            return True
        tag = self.body.tag(position)
        return tag is not None and tag.kind in ("close", "open", "end", "function")


def _is_misspelt(name: str, opener: Tag) -> bool:
    """Tell whether a closer is that of a parameter with a letter wrong, or has the parameter's own name."""
    written = plain(name)
    if opener.label and name == opener.label:
        return True
    return written.startswith("param") and opener.name in PARAMETERS


def without_damaged_closer(raw: str, opener: Tag) -> str:
    """Return a value that another tag ended without what is left of its own closer, or the line break in its place."""
    damaged = DAMAGED.search(raw, max(0, len(raw) - LONGEST_DAMAGED))
    if damaged is not None and _stands_for_closer(damaged, opener):
        value = raw[: damaged.start()]
        return raw if f"<{damaged['name']}" in value else value
    return raw if raw.startswith("\n") else raw.removesuffix("\n")


def _stands_for_closer(damaged: re.Match[str], opener: Tag) -> bool:
    """Tell whether a broken tag stands for a parameter's closer: one misspelt, half of one, or a wrapper's."""
    written = plain(damaged["name"])
    own = {plain(opener.label), *CLOSERS_OF.get(opener.name, (opener.name,))} - {""}
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
