"""Read what stands in a call's tag: parameters with their values, one after the other, or a JSON body.

These dialects have no escape for their own tags, so that a closer counts only where a sibling, the parent's closer or
the end follows. Where that leaves a required argument without its value, other readings are tried.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from toolmend.dialects.json_calls import ARGUMENT_KEYS, calls_in
from toolmend.dialects.positions import blank_end
from toolmend.dialects.source import READING, STEP, TRIGGER, Reading, Source, call, lacks, properties, required
from toolmend.dialects.tags import TAG, Tag, is_near, is_strange, plain, tag_at
from toolmend.dialects.xml_values import (
    CONTAINERS,
    DAMAGED,
    FUNCTION_CLOSERS,
    PAIR_KEY,
    PAIR_VALUE,
    PARAMETERS,
    WRAPPERS,
    is_misspelt,
    stands_for_closer,
    text_value,
    typed,
    without_damaged_closer,
)
from toolmend.model import JsonObject, Tool

STRAY: Final = 200
"""How much text may stand where only tags belong, for it to be dropped."""
LONGEST_STRAY: Final = 2_000
"""And between a parameter's closer and the next parameter."""
CDATA_OPENING = re.compile(r"\s*+<!\[CDATA\[")
KEYED = re.compile(r"[ \t]*(?P<key>[\w.$-]{1,100}+):[ \t]+(?P<value>\S.*)\Z")
ANY_TAG = re.compile(r"<(?P<close>/)?(?P<name>[\w:.-]+)[^<>]{0,200}>")
OPEN_TAG = re.compile(r"<(?!/)[\w:]*\Z")
HALF_CLOSER = re.compile(r"</\s?[|｜‖]{0,2}(?:\w{2,5}[|｜‖]{1,2})?(?P<name>[\w:]{3,40})[|｜‖]?>?(?=\s*(?:<|\Z))")
HALF_OPENER = re.compile(
    r"<?\s?param(?:eter)?(?:=|\s+name\s?=\s?)[\"']?(?P<key>[\w.$-]{1,100}+)[\"']?(?:>|(?=\s*\n\s*[^\s<]))"
)
KEY_END = re.compile(r"</\w*arg_?key(?::\w+)?>|(?=<\w*arg_?value(?::\w+)?>)")
BARE_VALUE = re.compile(r"(?:<?arg_value>?)?(?P<value>[^<]*+)(?P<closer></arg_value)?")
"""A value whose opener is missing, or lacks a bracket."""


@dataclass(slots=True)
class Made:
    """Hold a call in the making: the tool if it is known, what was read, and why reading stopped."""

    name: str
    tool: Tool | None
    tag: str
    arguments: JsonObject = field(default_factory=dict)
    closed: bool = False
    cut: bool = False
    unreadable: bool = False
    json_body: bool = False


def read_body(source: Source, made: Made, at: int, form: str, key: str | None = None) -> Reading:
    """Read the arguments of a call whose name is known, and its end."""
    source.spend(2 * READING)
    strict = Made(made.name, made.tool, made.tag)
    end = Body(source, strict).read(at, key)
    for reader in (partial(Body, loose=True), partial(Body, inline=True)):
        if not (strict.unreadable or strict.cut or lacks(strict.tool, strict.arguments)):
            break
        other = Made(made.name, made.tool, made.tag)
        other_end = reader(source, other).read(at, key)
        if _is_better(other, strict):
            strict, end = other, other_end
    if strict.cut:
        return Reading(len(source.text), state="cut", form=form, marker=True)
    if strict.unreadable:
        return Reading(end, state="unreadable", form=form, marker=True)
    calls = (call(strict.name, strict.arguments, form),)
    return Reading(end, calls, form=form, marker=True, chatter=strict.json_body and strict.closed, closed=strict.closed)


def _is_better(loose: Made, strict: Made) -> bool:
    if loose.cut or loose.unreadable or lacks(loose.tool, loose.arguments):
        return False
    return strict.cut or strict.unreadable or lacks(strict.tool, strict.arguments) > 0


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


def bare_arguments(tool: Tool | None, raw: str) -> JsonObject | None:
    """Return the arguments that text without tags means: lines of keys and values, or the one value that is taken."""
    declared = properties(tool)
    if any(tag["name"] in declared for tag in ANY_TAG.finditer(raw)):
        return None
    lines = [KEYED.match(line) for line in raw.split("\n") if line.strip()]
    keyed = [line for line in lines if line is not None and line["key"] in declared]
    if keyed and len(keyed) == len(lines) and len({line["key"] for line in keyed}) == len(keyed):
        return {line["key"]: line["value"].strip() for line in keyed}
    key = only_text_parameter(tool)
    if key is None or not lines or lines[0] in keyed:
        return None
    return {key: text_value(raw)}


class Body:
    """Read parameters one after the other.

    `loose` takes the first closer of a value for its end, `inline` also a sibling's opener in the middle of a line.
    """

    def __init__(self, source: Source, made: Made, *, loose: bool = False, inline: bool = False) -> None:
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
        """Read an object of arguments, a whole call, or the one list that the tool takes; return its end."""
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
        """Read a key and the value behind it, and return the value's end."""
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

    body: Body
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
            misspelt = bool(match["close"]) and is_misspelt(name, self.opener)
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
        return damaged is None or not stands_for_closer(damaged, self.opener)

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
