"""Walk through a text from one block of calls to the next.

Both `find_calls` and the `Scanner` walk this way, so that what one would lift is what the other holds back.
"""

from __future__ import annotations

import json
import re
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Final, Literal

from toolmend.dialects.blocks import Block, read_block
from toolmend.dialects.openings import WORD_MARKER, opening, payload_opening, tag_opening, word_is_open
from toolmend.dialects.positions import REMARK, at_call_position, at_line_start, blank_end, documents, is_shown_in
from toolmend.dialects.source import BEFORE, LONGEST_NAME, READING, STEP, TRIGGER, Exhausted, Source, call, words
from toolmend.dialects.table import DIALECTS
from toolmend.dialects.tags import OPENERS, THOUGHT, is_strange, plain, tag_at, thought_at
from toolmend.model import Tool

UNDECIDED: Final = 512
"""How much text may follow a marker before it is clear that no call follows."""
DOCUMENTS: Final = 500
"""What it costs to tell whether the words before a block say that it only shows a call."""
NEAR: Final = 128
"""How much text must follow a bare form before it is clear that no second one follows."""

FENCE = re.compile(r"(?P<fence>`{3,})[ \t]*+(?P<label>[\w+#.-]*+)(?P<more>[^`\n]*)(?:\n|(?=[\[{<]))")
THREE_WORDS = re.compile(
    r"\s*+(?:[\w',.;:!?-]{3,}+|[\w',.;:!?-]{2}\s++[\w',.;:!?-]++|"
    r"[\w',.;:!?-]\s++(?:[\w',.;:!?-]{2,}+|[\w',.;:!?-]\s++[\w',.;:!?-]++))\s"
)
"""Up to three words, or the beginning of one."""
WORDS_BEHIND: Final = {"weak": THREE_WORDS, "tool": re.compile(r"\s*[^\s<{]")}
OPEN_FENCE = re.compile(r"`{1,2}\Z|`{3,}[ \t]*+(?P<label>[\w+#.-]*+)[ \t]*+(?P<more>[\w.:/-]{0,100}+)\r?\Z")
CLIENT_OBJECT = re.compile(r"\[?\s*(?:ChatCompletionMessage|ToolCall\()")
"""In a fence it is what a program printed."""
PRINTED = re.compile(r"print\(\s*")
TICKS = re.compile(r"`+")
OPEN_MARKER = re.compile(r"<[|｜‖]?(?P<name>[\w▁:]{4,40})\Z")
OWN_FENCES: Final = words(
    "tool_code tool_call tool-call tool_calls tool tools toolcall function_call action call invoke"
)
CALL_FENCES: Final = OWN_FENCES | {"", "json", "json5", "jsonc", "xml", "html", "function", "text", "txt", "plaintext"}
CODE_FENCES: Final = frozenset(["python", "py", "python3"])


@dataclass(frozen=True, slots=True)
class Step:
    """Hold where the walk has come: a block, or (`wait`) a place that more text must decide, or the end.

    Everything before `at` that is no block is text. `mode` is what the text is in there: a fence, a quoted line, a code
    span; "" for none.
    """

    kind: Literal["block", "wait", "end"]
    at: int
    mode: str = ""
    block: Block | None = None


@dataclass(frozen=True, slots=True)
class Skip:
    """Go on at a position, in a mode: nothing began before it."""

    at: int
    mode: str = ""


class Wait:
    """Say that more text must tell."""


Verdict = Block | Skip | Wait


WORDS: Final = (*(word for dialect in DIALECTS for word in dialect.words), "functools[", "TOOL_CALLS", "]<]minimax[>[")
HEADS: Final = (
    *(re.escape(word) for dialect in DIALECTS for word in dialect.words if word[0].isalpha()),
    "functools",
    "TOOL_CALLS",
)


TRIGGERS: Final = (
    r"`"
    r"|<(?=\s{0,2}(?:[/\\|｜‖A-Za-z_▁-]|\Z))"  # what `tag_at` could read
    r"|(?<![^\s.!?:…)\]>\"'”’*_`])(?:\[|\{(?=\s*+(?:[\w.$\"'“”‘’`-]|\Z)))"  # where `at_call_position` could allow one
    r"|\[(?=[/TAEC]|\Z)"  # a marker in square brackets
    r"|(?<!\S)>"
    r"|\](?=<(?:\]|\Z))"
)
"""The characters with which something may begin that is looked at more closely."""

MOST_NAMES: Final = 4096
"""Names past these are no names that a model could write: looked for, they would cost more than the answer."""


def walker_for(tools: Sequence[Tool]) -> Walker:
    """Return the walker for these tools: the same one for each request that offers them."""
    return _walker(tuple(tool.name for tool in tools if len(tool.name) <= LONGEST_NAME)[:MOST_NAMES])


@lru_cache(maxsize=64)
def _walker(tools: tuple[str, ...]) -> Walker:
    return Walker(tools)


class Walker:
    """Walk through a text. The patterns depend on the tools' names only, and take longer to make than to use."""

    def __init__(self, tools: Sequence[str]) -> None:
        names = "|".join(sorted(map(re.escape, tools), key=len, reverse=True))
        follows = (
            r"(?=\s?\(|(?:[ ]{0,3}|\n[ ]{0,2})\{[\"'}]|\[(?:ARGS|CALL_ID)\]|(?::\d+)?<[|｜]tool"
            r"|[\"']?>\s?<param|\s?<arg_key>)"
        )
        called = [rf"(?:(?:{'|'.join(NAMESPACES)})\.|(?:function)?=)?(?:{names}){follows}"] if names else []
        heads = "|".join([*HEADS, *called])
        self.pattern = re.compile(rf"{TRIGGERS}|:call:|\*\*Action|(?<![\w.:])(?:{heads})")
        self.words = sorted(
            {
                *WORDS,
                *(f"{prefix}{name}{end}" for name in tools for prefix in PREFIXES for end in ENDINGS),
                *(f"{prefix}{name}{end}" for name in tools for prefix in HALVES for end in HALF_ENDINGS),
            }
        )
        self.longest = max(map(len, self.words))
        firsts = "".join(sorted({word[0] for word in self.words}))
        self.may_begin = re.compile(rf"(?<!\w)[{re.escape(firsts)}]")

    def begins_word(self, text: str) -> bool:
        """Tell whether a text is the beginning of a word that opens a call, and not all of it."""
        at = bisect_right(self.words, text)
        return at < len(self.words) and self.words[at].startswith(text)

    def next_block(self, source: Source, at: int, mode: str = "") -> Step:
        """Go on from the position to the next block, or to the end; to nowhere when the source's effort is spent."""
        try:
            return self._next_block(source, at, mode)
        except Exhausted:
            return Step("wait", at, mode)

    def _next_block(self, source: Source, at: int, mode: str) -> Step:
        begun = len(source.text) if source.final else self.undecided(source.text, at)
        source.spend(0)
        while True:
            if mode:
                at, mode = leave(source, at, mode)
                if mode:
                    return Step("end", at, mode)
            match = self.pattern.search(source.text, at)
            if match is None:
                return Step("end", begun)
            source.spend(TRIGGER)
            if is_strange(source, match.start()):
                at = match.end()
                continue
            source.spend(STEP)
            verdict = self.judge(source, match.start())
            if isinstance(verdict, Block):
                return Step("block", verdict.start, block=verdict)
            if isinstance(verdict, Wait):
                return Step("wait", min(match.start(), begun))
            at, mode = verdict.at, verdict.mode

    def prose_end(self, text: str, at: int) -> int | None:
        """Return how much of a text that goes on is prose from the position on; None when something in it may be more.

        It says what `next_block` would, for the text that most of an answer is.
        """
        return self.undecided(text, at) if self.pattern.search(text, at) is None else None

    def undecided(self, text: str, at: int) -> int:
        """Return where the end of the text begins that may become the beginning of a call."""
        for found in self.may_begin.finditer(text, max(at, len(text) - self.longest)):
            if self.begins_word(text[found.start() :]):
                return found.start()
        return len(text)

    def judge(self, source: Source, at: int) -> Verdict:
        """Tell what begins at a trigger."""
        text = source.text
        if text[at] == "`":
            return self.judge_ticks(source, at)
        if text[at] == ">" and not at_line_start(text, at):
            return Skip(at + 1)
        answer = opening(source, at)
        if answer == "wait":
            return Wait()
        if answer == "no":
            return Skip(at, "quote") if text[at] == ">" else self.judge_open_marker(source, at)
        if (tag := tag_at(source, at)) is not None:
            if tag.kind == "think" and not tag.closing:
                return self.judge_thought(source, at)
            if tag.closing and tag.kind in ("end", "inner") and source.has_element(tag.written, at):
                return Skip(tag.end)  # it closes an element of the text
        return self.judge_block(source, at, self.read(source, at))

    def read(self, source: Source, at: int) -> Block | None:
        """Read the block at a position; `functools`, and Mistral's token without its brackets, are markers too."""
        if (marker := WORD_MARKER.match(source.text, at)) is None:
            return read_block(source, at)
        functools = marker[1] == "functools"
        block = read_block(source, marker.end(), "functools" if functools else "mistral")
        return replace(block, start=at, marker=True, chatter=functools) if block else None

    def judge_block(self, source: Source, at: int, block: Block | None) -> Verdict:
        """Judge a block by what stands round it."""
        if block is None:
            return Wait() if self.is_open(source, at) else Skip(at + 1)
        block = replace(block, whole=source.starts(block.start))
        tail = len(source.text) - block.end
        if not source.final and self.may_grow(block, tail):
            return Wait()
        if tail and not block.calls and not block.kept:
            return Skip(max(block.end, at + 1))
        source.spend(DOCUMENTS)
        example = documents(source.text, block.start) or is_shown_in(source.text, block.start, block.end)
        shown = example or not (block.marker or self.ends_turn(source, block))
        if not block.calls and not block.kept and shown:
            return Skip(max(block.end, at + 1))
        return replace(block, shown=shown, example=example)

    def may_grow(self, block: Block, tail: int) -> bool:
        """Tell whether more text may make another block of this one."""
        if block.state == "cut" or tail == 0:
            return True
        if not block.calls:
            return tail < (NEAR if block.state == "clean" else UNDECIDED)
        return tail < (NEAR if not block.marker else 1)

    def ends_turn(self, source: Source, block: Block) -> bool:
        """Tell whether no words follow a form without marker; or those that may.

        They may behind an object that began the text, in a new paragraph (Llama 3).
        """
        text = source.text
        if block.chatter or blank_end(text, block.end) == len(text):
            return True
        gap = text[text.rfind("}", 0, block.end) + 1 : block.end]
        follows = block.whole and block.form == "json" and "\n" in gap
        return follows and REMARK.match(text, block.end) is None

    def is_open(self, source: Source, at: int) -> bool:
        """Tell whether something that is no block yet may become one."""
        if source.final:
            return False
        text = source.text
        if text[at] in "{[" and not tag_at(source, at):
            source.spend(READING + at // BEFORE)
            return not is_whole_json(text, at)
        if text[at] in "<[]":
            return len(text) - at < self.patience(source, at)
        return word_is_open(source, at) or (text.startswith("to=", at) and len(text) - at < UNDECIDED)

    def patience(self, source: Source, at: int) -> int:
        """Return how long the text behind a marker may be before it is clear that no call follows."""
        tag = tag_at(source, at)
        if tag is None or tag.special:
            return UNDECIDED
        if (words := WORDS_BEHIND.get(tag.kind)) is not None:
            return 0 if words.match(source.text, tag.end) else UNDECIDED
        return UNDECIDED if at_call_position(source.text, at) else NEAR

    def judge_thought(self, source: Source, at: int) -> Verdict:
        """Judge a thought at the beginning of the text: a short one goes with the call behind it."""
        text = source.text
        thought = thought_at(source, at)
        if not source.starts(at):
            return Skip(thought.end if thought else at + 1)
        if thought is None:
            return Wait() if not source.final and len(text) - at < THOUGHT else Skip(at + 1)
        block = read_block(source, at)
        if block is not None and (block.calls or block.state != "clean"):
            return self.judge_block(source, at, block)
        following = blank_end(text, thought.end)
        if source.final or (following < len(text) and self.is_prose(source, following)):
            return Skip(thought.end)
        return Wait()

    def is_prose(self, source: Source, at: int) -> bool:
        """Tell whether no call begins at the position."""
        return self.pattern.match(source.text, at) is None and (source.final or self.undecided(source.text, at) > at)

    def judge_open_marker(self, source: Source, at: int) -> Verdict:
        """Read a marker that the end of the text cut: a call was opened."""
        text = source.text
        match = OPEN_MARKER.match(text, at)
        if match is None or not source.final or not at_call_position(text, at):
            return Skip(at + 1)
        if not any(opener.startswith(plain(match["name"])) for opener in OPENERS):
            return Skip(at + 1)
        whole = source.starts(at)
        return Block(at, len(text), state="unreadable", form="marker", marker=True, whole=whole, closed=False)

    def judge_ticks(self, source: Source, at: int) -> Verdict:
        """Judge a fence, or a code span."""
        text = source.text
        run = TICKS.match(text, at)
        ticks = run[0] if run else "`"
        span = Skip(at + len(ticks), f"span{ticks}")
        if not at_line_start(text, at):
            return span
        fence = FENCE.match(text, at)
        if fence is not None:
            return self.judge_fence(source, at, fence)
        begun = OPEN_FENCE.match(text, at)
        if begun and not source.final and is_open_label(source, at, begun["label"] or "", begun["more"] or ""):
            return Wait()
        return Skip(at + len(ticks), f"ticks{ticks}") if len(ticks) > 2 else span

    def judge_fence(self, source: Source, at: int, fence: re.Match[str]) -> Verdict:
        """Judge a fence, together with those that directly follow it."""
        source.spend(READING)
        found = self.read_fence(source, at, fence)
        if not isinstance(found, Block):
            return found
        while found.state == "calls" and (following := FENCE.match(source.text, found.end)):
            joined = self.read_fence(source, found.end, following)
            if isinstance(joined, Wait):
                return joined
            if not isinstance(joined, Block) or not joined.calls:
                break
            source.spend(READING)
            found = replace(joined, start=found.start, calls=found.calls + joined.calls, form=found.form)
        return self.judge_block(source, at, found)

    def read_fence(self, source: Source, at: int, fence: re.Match[str]) -> Verdict:
        """Read a fence: it is a block when it holds calls and nothing else, under a label that calls have."""
        outside = Skip(fence.end(), f"fence{fence['fence']}")
        start = blank_end(source.text, fence.end())
        if (named := source.tool(fence["more"].strip())) is not None and fence["label"].lower() in OWN_FENCES:
            return self.read_named_fence(source, at, fence, named.name) or outside
        if fence["more"].strip() or not is_call_label(source, at, fence["label"]):
            return outside
        if fence["label"] in OWN_FENCES and (printed := PRINTED.match(source.text, start)):
            start = printed.end()
        answer = self.fence_opening(source, start, fence["label"].lower())
        if answer != "yes":
            return Wait() if answer == "wait" else outside
        block = self.read(source, start)
        if block is None or block.state == "clean":
            return Wait() if self.is_open(source, start) else outside
        return self.fenced(source, at, fence, block) or outside

    def read_named_fence(self, source: Source, at: int, fence: re.Match[str], name: str) -> Block | Wait | None:
        """Read a fence whose label names the tool: an object in it is the arguments."""
        start = blank_end(source.text, fence.end())
        if not source.text.startswith("{", start):
            return Wait() if not source.final and start >= len(source.text) else None
        item = source.json_at(start)
        if isinstance(item, str):
            block = Block(start, len(source.text), state=item, form="named", marker=True, closed=False)
        else:
            block = Block(start, item[1], (call(name, item[0], "named"),), form="named", marker=True)
        return self.fenced(source, at, fence, block)

    def fence_opening(self, source: Source, at: int, label: str) -> Literal["yes", "no", "wait"]:
        """Tell whether a fence's content may be calls."""
        text = source.text
        if at >= len(text):
            return "no" if source.final else "wait"
        if CLIENT_OBJECT.match(text, at):
            return "no"
        if text[at] in "{[":
            return payload_opening(source, at)
        if text[at] == "<":
            return tag_opening(source, at)
        if label not in OWN_FENCES | CODE_FENCES | {""}:
            return "no"
        if self.pattern.match(text, at):
            return "yes"
        begun = self.begins_word(text[at : at + self.longest + 1]) or "print(".startswith(text[at : at + 7])
        return "wait" if begun and not source.final else "no"

    def fenced(self, source: Source, at: int, fence: re.Match[str], block: Block) -> Block | Wait | None:
        """Return the block with the fence round it; None when more than calls is in it."""
        text, label = source.text, fence["label"].lower()
        closing = re.compile(rf"\)?\s*{fence['fence']}`*[ \t]*(?:\n\s*|\Z)").match(text, block.end)
        if closing is None and blank_end(text, block.end) < len(text):
            near = block.state != "calls" or len(text) - block.end < NEAR
            return Wait() if near and not source.final else None
        marker = block.marker or label in OWN_FENCES
        form = block.form if not label or block.marker else f"fenced {block.form}"
        end = closing.end() if closing else len(text)
        return replace(block, start=at, end=end, marker=marker, chatter=False, form=form, fenced=True, at_position=True)


NAMESPACES: Final = ("functions", "default_api")
PREFIXES: Final = ("", *(f"{namespace}." for namespace in NAMESPACES))
GAPS: Final = ("", " ", "  ", "   ", "\n", "\n ", "\n  ")
ENDINGS: Final = (
    *(gap + '{"' for gap in GAPS),
    " (",
    "[ARGS]",
    "[CALL_ID]",
    "<|tool",
    "<｜tool",
    ":0<|tool",
    ":00<|tool",
    "<arg_key>",
    "\n<arg_key>",
)
HALVES: Final = ("", "=", "function=")
HALF_ENDINGS: Final = ("><param", ">\n<param", '"><param', '">\n<param')
"""What stands round a name in a function tag that has lost its beginning."""


def is_whole_json(text: str, at: int) -> bool:
    """Tell whether a whole JSON value stands at the position, with more text behind it."""
    try:
        _, end = json.JSONDecoder().raw_decode(text, at)
    except (ValueError, RecursionError):
        return False
    return end < len(text)


def is_call_label(source: Source, at: int, label: str, *, begun: bool = False) -> bool:
    """Tell whether a fence with this label may hold calls; one of program code only as the whole text."""
    labels = CALL_FENCES | CODE_FENCES if source.starts(at) else CALL_FENCES
    written = label.lower()
    return any(known.startswith(written) for known in labels) if begun else written in labels


def is_open_label(source: Source, at: int, label: str, more: str) -> bool:
    """Tell whether a fence whose first line has not ended may hold calls."""
    if more:
        return label.lower() in OWN_FENCES and source.may_be_tool(more)
    return is_call_label(source, at, label, begun=True)


def leave(source: Source, at: int, mode: str) -> tuple[int, str]:
    """Go to the end of a quoted line, a code span or a fence; the mode stays when the text ends before.

    What `ticks` open is a fence if the line ends before others come, else a span.
    """
    text = source.text
    if mode.startswith("ticks"):
        told = re.compile(r"[`\n]").search(text, at)
        if told is None:
            return len(text), mode
        mode = ("fence" if told[0] == "\n" else "span") + mode[5:]
    if mode.startswith("fence"):
        return _leave_fence(source, at, mode)
    stop = re.compile(r"\n" if mode == "quote" else rf"\n|(?<!`){mode[4:]}(?!`)").search(text, at)
    if stop is None or (stop.end() == len(text) and text[-1] == "`" and not source.final):
        return (stop.start() if stop else len(text)), mode
    return stop.end(), ""


def _leave_fence(source: Source, at: int, mode: str) -> tuple[int, str]:
    text = source.text
    closer = re.compile(rf"^[ \t]*{mode[5:]}`*[ \t]*(?:\n|\Z)", re.MULTILINE).search(text, at)
    if closer and (source.final or text[closer.end() - 1] == "\n"):
        return closer.end(), ""
    line = max(text.rfind("\n", at) + 1, at)
    return (line if not text[line:].strip(" \t`") else len(text)), mode
