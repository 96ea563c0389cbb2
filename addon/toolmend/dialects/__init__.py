"""Find the tool calls that models write into their text."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Final, Literal

from toolmend.dialects.blocks import Block
from toolmend.dialects.json_calls import names_tool
from toolmend.dialects.positions import INTENT, blank_start
from toolmend.dialects.source import Source
from toolmend.dialects.table import DIALECTS, Dialect
from toolmend.dialects.walk import walker_for
from toolmend.model import Tool, ToolCall

__all__ = ["DIALECTS", "Dialect", "Found", "find_calls"]

CALL: Final = 2_000
"""What it costs to tell whether a call fits."""

Fits = Callable[[ToolCall], bool]


@dataclass(frozen=True, slots=True)
class Found:
    """Hold what was found in a text.

    `calls` are as the model wrote them; `rest` is the text that stays visible. `state`: `calls` (lift them; none means
    that only leftover markers were taken away), `unknown-tool` (readable, but one names no offered tool),
    `unreadable` (a call was opened and cannot be read), `cut` (the text ends inside a call), `unsearched` (looking
    through the text was given up). `note` names the dialect, or says why.
    """

    calls: tuple[ToolCall, ...]
    rest: str
    state: Literal["calls", "unknown-tool", "unreadable", "cut", "unsearched"]
    note: str = ""


def find_calls(
    text: str,
    tools: Sequence[Tool],
    fits: Fits,
    *,
    cut: bool = False,
    thinking: bool = False,
    whole: bool = False,
) -> Found | None:
    """Find the tool calls a model wrote into its text.

    Args:
        text: A whole text part, as received. Markers may stand anywhere in it.
        tools: The offered tools.
        fits: Whether a call names one of them and its arguments fit, after the ladder.
        cut: Whether the answer ended by the token limit.
        thinking: Whether the text is thinking: only a block that ends it counts.
        whole: Whether the text is all that the model wrote, with special tokens and thinking.

    Returns:
        None when the text is prose.
    """
    if not tools or not text.strip():
        return None
    if whole:
        text, thinking = visible(text.lstrip())
    source = Source(text, tools, cut=cut)
    blocks, shown = _blocks(source)
    if source.effort <= 0:
        return Found((), text, "unsearched", "it is too long, or holds too much that begins like one")
    if not blocks or not blocks[-1].marker:
        planned = _planned(text, shown, blocks, fits)
        if planned is not None or not blocks:
            return planned
    return _Judge(source, blocks, fits, cut=cut, thinking=thinking, whole=whole).found()


def _blocks(source: Source) -> tuple[list[Block], list[Block]]:
    """Return the blocks that may be calls, and those that only show one."""
    walker, at = walker_for(source.tools), 0
    blocks: list[Block] = []
    shown: list[Block] = []
    while True:
        step = walker.next_block(source, at)
        if step.block is None:
            return blocks, shown
        (shown if step.block.shown else blocks).append(step.block)
        source.effort -= sum(CALL if source.tool(found.name) else CALL // 20 for found in step.block.calls)
        at = max(step.block.end, at + 1)


JSON_FORMS = ("json", "hermes", "mistral", "name and json", "named", "deepseek", "kimi-k2", "llama3-json")

STEP = re.compile(r"^[^\S\n]*+(?:\d+[.)]|step \d+)", re.IGNORECASE | re.MULTILINE)
THOUGHT = re.compile(r"\s*(?:<(think|thinking|seed:think)>|<\|START_THINKING\|>|\[THINK\]|<\|channel>\s*thought)")
THOUGHT_END = re.compile(r"</(?:think|thinking|seed:think)>|<\|END_THINKING\|>|\[/THINK\]|<channel\|>")
RESPONSE = re.compile(r"<\|(?:START|END)_RESPONSE\|>")
REMAINS = re.compile(r"<tool_call>|</?(?:arg_(?:key|value)|parameter\b|invoke\b)|<function=")
"""What is left of a call that could not be read: taking only its last marker away would hide that."""
STRONG = re.compile(r"<tool_call|<function|<invoke|<[|｜]\s?tool|\[TOOL_CALLS\]|<start_function_call|<\|START_ACTION")


def visible(text: str) -> tuple[str, bool]:
    """Return raw model output without its thinking, and whether what is left is thinking that was never closed."""
    opened = THOUGHT.match(text)
    end = THOUGHT_END.search(text, opened.end() if opened else 0)
    if end is None:
        return (text[opened.end() :].lstrip(), True) if opened else (text, False)
    before = text[: end.start()]
    if not text[end.end() :].strip() or (not opened and STRONG.search(before)):
        return (text[opened.end() : end.start()].strip(), True) if opened else (text, False)
    return text[end.end() :].lstrip(), False


def _planned(text: str, shown: list[Block], blocks: list[Block], fits: Fits) -> Found | None:
    """Ask for a proper answer when calls stand between words of a plan; else they are only shown.

    Later ones were written without the results of the earlier ones, so that neither all nor one of them is meant.
    """
    passed = [block for block in shown if block.calls and not block.example and block.form.endswith("json")]
    planned = [*passed, *(block for block in blocks if block.calls)]
    if not passed or len(planned) < 2 or not (blocks or len(STEP.findall(text)) > 1):
        return None
    if not INTENT.search(text[: passed[0].start].lower()):
        return None
    if not all(fits(found) for block in planned for found in block.calls):
        return None
    return Found((), text, "unreadable", "calls between the words of a plan")


class _Judge:
    """Decide about the blocks of one text: the last one must end it."""

    def __init__(
        self, source: Source, blocks: list[Block], fits: Fits, *, cut: bool, thinking: bool, whole: bool
    ) -> None:
        self.source = source
        self.text = source.text
        self.fits = fits
        self.cut = cut
        self.thinking = thinking
        self.whole = whole
        self.blocks = blocks

    def found(self) -> Found | None:
        last = self.blocks[-1]
        tail = self.text[last.end :].strip()
        if tail and not self.tolerates(last):
            return None
        taken = [block for block in self.blocks[:-1] if block.marker and block.calls and block.state == "calls"]
        if not last.marker and last.state != "clean":
            taken = []
        blocks = [*taken, last]
        if last.state == "clean" or (last.kept and not last.calls):
            return self.cleaned(blocks)
        return self.judged(blocks, last)

    def tolerates(self, block: Block) -> bool:
        """Tell whether words may follow this block."""
        return bool(block.calls) and (block.chatter or (self.whole and block.marker) or not block.marker)

    def rest(self, blocks: list[Block]) -> str:
        """Return the text without the blocks."""
        pieces, at = [], 0
        for block in blocks:
            pieces += [self.text[at : block.start], block.kept]
            at = blank_start(self.text, block.end)
        pieces.append(self.text[at:])
        text = "".join(pieces)
        text = RESPONSE.sub("", text) if self.whole else text
        text = text if self.text[: blocks[0].start].strip() else text.lstrip()
        return text if self.text[at:].strip() else text.rstrip()

    def cleaned(self, blocks: list[Block]) -> Found | None:
        last = blocks[-1]
        if self.thinking or self.whole:
            return None
        if last.kept:
            return Found((), self.rest([last]), "calls", "channel words taken away")
        if not last.at_position and not last.whole:
            return None
        if len(blocks) > 1:
            return self.judged(blocks, blocks[-2])
        rest = self.rest([last])
        if self.source.offered(rest.strip()):
            return Found((), rest, "unreadable", "a name alone")
        if REMAINS.search(rest):
            return None
        return Found((), rest, "calls", "leftover markers taken away")

    def judged(self, blocks: list[Block], last: Block) -> Found | None:
        calls = tuple(found for block in blocks for found in block.calls)
        rest = self.rest(blocks)
        if last.state != "calls":
            return self.broken(last, calls, rest)
        if self.cut and not last.closed and last.form not in JSON_FORMS:
            return self.broken(replace(last, state="cut"), calls[:-1], rest)
        fitting = [self.fits(found) for found in calls]
        if all(fitting):
            return Found(calls, rest, "calls", last.form)
        unfit = [found for found, fit in zip(calls, fitting, strict=True) if not fit]
        unknown = [found for found in unfit if self.source.tool(found.name) is None]
        if not last.marker and not (last.whole and not self.text[last.end :].strip() and last.form.endswith("json")):
            return None
        if unknown:
            return Found(calls, rest, "unknown-tool", last.form)
        return Found(calls, rest, "calls", last.form)

    def broken(self, last: Block, calls: tuple[ToolCall, ...], rest: str) -> Found | None:
        if last.state == "cut":
            if self.cut and calls and all(self.fits(found) for found in calls):
                return Found(calls, rest, "calls", f"{last.form}: the last call was cut")
            if not (last.marker or last.whole or calls or names_tool(self.source, last.start)):
                return None
            return Found(calls, rest, "cut", last.form)
        if not last.marker and not last.whole and last.form != "json":
            return None
        if not last.at_position and not last.whole and not last.calls:
            return None
        return Found(calls, rest, "unreadable", last.form)
