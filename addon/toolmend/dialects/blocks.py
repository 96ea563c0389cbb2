"""Find the blocks of calls in a text: where one may begin, what it holds, and whether it stands where calls stand.

Both `find_calls` and the `Scanner` walk through the text by `next_block`, so that what one would lift is what the other
holds back.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final, Literal

from toolmend.dialects.json_calls import may_be_call
from toolmend.dialects.source import Reading, Source, State, blank_end
from toolmend.dialects.table import DIALECTS
from toolmend.dialects.tags import TAG, Tag, Trivia, may_become_tag, skip_trivia, tag_at, thought_at
from toolmend.model import ToolCall

LEAD: Final = 300
"""How much text before a block is looked at."""
UNDECIDED: Final = 512
"""How much text may follow a marker before it is clear that no call follows."""
STRAY: Final = 300
SPAN: Final = 2000

EXAMPLE = re.compile(
    r"\b(?:for (?:example|instance)|e\.g\.|an example|examples?:|(?:as|show) (?:you )?an? (?:example|sample)|"
    r"you(?:'d| can| could| would| should| may| might| need to| must)\b|one (?:can|could|would)|would (?:look|be written|write)|"
    r"looks? like|(?:format|syntax|template|schema|placeholder) (?:is|for|of|looks|would|below)|from the template|"
    r"how to (?:call|use|write)|(?:the|this|that|its) (?:format|syntax|template|block|snippet|example)\b[^.\n]*:)",
    re.IGNORECASE,
)
QUOTED = re.compile(
    r"\b(?:contains?|contained|says|said|reads:|states|stated|shows|printed|returned|quot\w+|looks like an attempt|"
    r"contents? (?:of|is|are|was|were)|(?:file|page|log|output|message|document|email|website)\b[^.\n]*\b(?:is|has|was|had)\b|"
    r"(?:found|received|got) (?:this|the following))",
    re.IGNORECASE,
)
INTENT = re.compile(
    r"\b(?:I['’]ll|I will|I am going|I['’]m going|I need to|I should|I must|let me|let['’]s|let us|we['’]ll|we will|"
    r"we should|we need|now I|calling|going to (?:call|use|run))\b",
    re.IGNORECASE,
)
SENTENCE_END = re.compile(r"[.!?:…)\]>\"'”’*_`]\s*\Z")
CALL_FENCES: Final = frozenset(
    (
        "",
        "json",
        "json5",
        "jsonc",
        "xml",
        "html",
        "tool_code",
        "tool_call",
        "tool_calls",
        "tool",
        "tools",
        "function_call",
        "function",
        "action",
        "text",
        "txt",
        "plaintext",
        "call",
    )
)
OWN_FENCES: Final = frozenset(
    ("tool_code", "tool_call", "tool_calls", "tool", "tools", "function_call", "action", "call")
)
CODE_FENCES: Final = frozenset(("python", "py", "python3"))
FENCE = re.compile(r"(?P<fence>`{3,})[ \t]*(?P<label>[\w+#.-]*)[ \t]*(?:\r?\n|(?=[\[{<]))")
OPEN_FENCE = re.compile(r"`{3,}[ \t]*(?P<label>[\w+#.-]*)[ \t]*\r?\Z|`{1,2}\Z")
FUNCTOOLS = re.compile(r"functools\s*(?=\[\s*\{)")


@dataclass(frozen=True, slots=True)
class Block:
    """Hold calls that stand together, from `start` to `end`, with everything round them that belongs to their form.

    `form` names the dialect. `marker` says that the form cannot be taken for prose; `chatter` that words may follow.
    `shown` says that the block is documentation, quoted, or in a place where no call stands. `whole` says that nothing
    stands before it.
    """

    start: int
    end: int
    calls: tuple[ToolCall, ...] = ()
    state: State = "calls"
    form: str = ""
    marker: bool = False
    chatter: bool = False
    shown: bool = False
    whole: bool = False
    at_position: bool = True
    kept: str = ""
    fenced: bool = False
    closed: bool = True


@dataclass(frozen=True, slots=True)
class Step:
    """Hold where the walk has come: a block, or (`wait`) a place that more text must decide, or the end.

    Everything before `at` that is no block is text. `mode` is what the walk is in: a fence, a quoted line, a code span.
    """

    kind: Literal["block", "wait", "end"]
    at: int
    mode: str = ""
    block: Block | None = None


def triggers(source: Source) -> re.Pattern[str]:
    """Return the pattern of every place where a call may begin."""
    words = [word for dialect in DIALECTS for word in dialect.words if word[0].isalpha()]
    words += ["functools"]
    names = sorted((re.escape(tool.name) for tool in source.tools), key=len, reverse=True)
    heads = "|".join([*map(re.escape, words), *(rf"{name}(?=\s?\()" for name in names)])
    return re.compile(rf"[<{{\[`>]|\](?=<\])|:call:|\*\*Action|(?<![\w.:])(?:{heads})")


def open_words(source: Source) -> tuple[frozenset[str], int]:
    """Return every beginning of a word that may open a call, and the longest length."""
    words = [word for dialect in DIALECTS for word in dialect.words] + ["functools["]
    words += [tool.name + " (" for tool in source.tools] + [tool.name + "(" for tool in source.tools]
    return frozenset(word[:n] for word in words for n in range(1, len(word))), max(map(len, words))


class Walker:
    """Walk through a text from block to block. The patterns depend on the tools only and are made once."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.pattern = triggers(source)
        self.beginnings, self.longest = open_words(source)

    def next_block(self, at: int, mode: str = "") -> Step:
        """Go on from the position to the next block, or to the end."""
        source, text = self.source, self.source.text
        while True:
            if mode:
                at, mode = leave(source, at, mode)
                if mode:
                    return Step("end", at, mode)
            match = self.pattern.search(text, at)
            if match is None:
                return Step("end", self.undecided(at))
            place = match.start()
            if text[place] in "`>" and (skipped := self.skip(place)) is not None:
                at, mode = skipped
                continue
            verdict = self.judge(place)
            if isinstance(verdict, Block):
                return Step("block", verdict.start, "", verdict)
            if verdict is None:
                return Step("wait", place)
            at, mode = verdict

    def undecided(self, at: int) -> int:
        """Return where the end of the text begins that may become the beginning of a call."""
        text = self.source.text
        if self.source.final:
            return len(text)
        for length in range(min(self.longest, len(text) - at), 0, -1):
            start = len(text) - length
            if text[start:] in self.beginnings and not (
                start and (text[start - 1].isalnum() or text[start - 1] in "_")
            ):
                return start
        return len(text)

    def skip(self, at: int) -> tuple[int, str] | None:
        """Go over a quoted line or a code span; None when a fence or a marker may begin here."""
        text = self.source.text
        if text[at] == ">":
            if not at_line_start(text, at):
                return at + 1, ""
            return (
                None
                if text.startswith(">>>", at) or (not self.source.final and text[at:] in (">", ">>"))
                else (at, "quote")
            )
        run = re.compile(r"`+").match(text, at)
        assert run is not None  # noqa: S101 - the trigger was a backtick
        if at_line_start(text, at) and (len(run[0]) >= 3 or run.end() == len(text)):
            return None
        return run.end(), f"span{run[0]}"

    def judge(self, at: int) -> Block | tuple[int, str] | None:
        """Tell what begins at a trigger: a block; where to go on if it is none; None if more text must tell."""
        source, text = self.source, self.source.text
        character = text[at]
        if character == "`":
            return self.judge_fence(at)
        if character == ">":
            return self.decide(at, read_block(source, at)) or (at, "quote")
        if character in "<]" or (character == "[" and tag_at(source, at)):
            return self.judge_tag(at)
        if character in "{[":
            return self.judge_bare(at)
        return self.judge_word(at)

    def decide(self, at: int, block: Block | None) -> Block | tuple[int, str] | None:
        """Judge a block by what stands round it. None: more text must tell. Falsy results of no block are the caller's."""
        source, text = self.source, self.source.text
        if block is None:
            return (at + 1, "")
        block = replace(block, whole=source.starts(block.start))
        tail = len(text) - block.end
        undecided = tail == 0 or (tail < 64 and not block.marker) or (not block.calls and tail < UNDECIDED)
        if not source.final and (undecided or block.state == "cut"):
            return None
        if documented(text, block.start):
            block = replace(block, shown=True)
        if block.shown and block.calls:
            return block
        if not block.calls and (tail or block.shown):
            return block.end if False else (max(block.end, at + 1), "")
        return block

    def judge_tag(self, at: int) -> Block | tuple[int, str] | None:
        source, text = self.source, self.source.text
        tag = tag_at(source, at)
        if tag is None and (thought := thought_at(source, at)) is None:
            if not source.final and may_become_tag(source, at):
                return None
            return self.partial_opener(at)
        if tag is not None and tag.kind == "think" and not tag.closing:
            return self.judge_thought(at)
        block = read_block(source, at)
        if block is None:
            if not source.final and len(text) - at < UNDECIDED:
                return None
            return at + 1, ""
        return self.decide(at, block)

    def judge_thought(self, at: int) -> Block | tuple[int, str] | None:
        source, text = self.source, self.source.text
        thought = thought_at(source, at)
        if thought is None:
            waits = not source.final and source.starts(at) and len(text) - at < 600
            return None if waits else (at + 1, "")
        if not source.starts(at):
            return thought.end, ""
        block = read_block(source, at)
        if block is None or not (block.calls or block.state != "clean"):
            following = blank_end(text, thought.end)
            if not source.final and (following == len(text) or not self.plain_text(following)):
                return None
            return thought.end, ""
        return self.decide(at, block)

    def plain_text(self, at: int) -> bool:
        """Tell whether the text from the position on begins with no trigger."""
        return self.pattern.match(self.source.text, at) is None and self.undecided(at) > at

    def partial_opener(self, at: int) -> Block | tuple[int, str]:
        """Read a marker that the text's end cut."""
        text = self.source.text
        match = re.compile(r"<[|｜]?(?P<name>[\w▁:]{4,40})\Z").match(text, at)
        if match is None or not self.source.final or not at_call_position(text, at):
            return at + 1, ""
        from toolmend.dialects.tags import OPENERS, plain

        if not any(opener.startswith(plain(match["name"])) for opener in OPENERS):
            return at + 1, ""
        return Block(at, len(text), state="unreadable", form="marker", marker=True, whole=self.source.starts(at))

    def judge_bare(self, at: int) -> Block | tuple[int, str] | None:
        """Judge JSON or a list of call expressions without a marker: on a line of its own, or announced on the same."""
        source, text = self.source, self.source.text
        if not may_start_bare(source, at):
            return at + 1, ""
        if text[at] == "{" or re.compile(r"\[[\[\s]*+(?:\{|\Z)").match(text, at):
            if not may_be_call(source, at):
                return at + 1, ""
        elif not source.final and may_be_expression(source, at):
            return None
        block = read_block(source, at)
        if block is None:
            if not source.final and text[at] == "{" and len(text) - at < 16:
                return None
            return at + 1, ""
        return self.decide_bare(at, block)

    def decide_bare(self, at: int, block: Block) -> Block | tuple[int, str] | None:
        verdict = self.decide(at, block)
        if not isinstance(verdict, Block) or verdict.shown:
            return verdict
        tail = self.source.text[verdict.end :]
        if tail.strip() and not (verdict.chatter or verdict.marker or may_be_followed(self.source, verdict)):
            return replace(verdict, shown=True)
        return verdict

    def judge_word(self, at: int) -> Block | tuple[int, str] | None:
        source, text = self.source, self.source.text
        if text.startswith("functools", at):
            if not source.final and re.compile(r"functools\s*(?:\[\s*)?\Z").match(text, at):
                return None
            return self.judge_functools(at) if FUNCTOOLS.match(text, at) else (at + 1, "")
        needs_line = not text.startswith(("to=", "call:", ":call:"), at)
        if needs_line and not at_line_start(text, at) and not source.starts(at):
            return at + 1, ""
        if text.startswith(("call:", ":call:"), at) and not at_call_position(text, at):
            return at + 1, ""
        block = read_block(source, at)
        if block is None:
            waits = not source.final and len(text) - at < 200 and "\n\n" not in text[at:]
            return None if waits and self.may_be_word(at) else (at + 1, "")
        return self.decide_bare(at, block)

    def may_be_word(self, at: int) -> bool:
        """Tell whether the rest of the text may still become a call that a word opens."""
        text = self.source.text[at : at + 200]
        return (
            re.compile(
                r"to=[\w.:<|>-]*\s*(?:[\w<|>]*\s*)?\Z|:?call:\s*[\w.:/ -]*\Z|\**Action\**:?\**[^\n]*(?:\n[^\n]*)?\Z|"
                r"(?:assistant|analysis|commentary)\w*\Z|[\w.:/-]+\s?\Z"
            ).match(text)
            is not None
        )

    def judge_functools(self, at: int) -> Block | tuple[int, str] | None:
        source = self.source
        match = FUNCTOOLS.match(source.text, at)
        assert match is not None  # noqa: S101 - it was matched before
        if not may_be_call(source, match.end()):
            return at + 1, ""
        block = read_block(source, match.end(), "functools")
        return self.decide(at, replace(block, start=at, marker=True, chatter=True) if block else None)

    def judge_fence(self, at: int) -> Block | tuple[int, str] | None:
        """Judge a fence: a call when it holds nothing but calls, under a label that calls have."""
        source, text = self.source, self.source.text
        opening = FENCE.match(text, at)
        if opening is None:
            partial = OPEN_FENCE.match(text, at)
            if partial and not source.final and is_call_label(source, at, partial["label"] or "", partial=True):
                return None
            run = re.compile(r"`+").match(text, at)
            assert run is not None  # noqa: S101 - the trigger was a backtick
            return (run.end(), f"fence{run[0]}") if partial else (run.end(), f"span{run[0]}")
        outside = (opening.end(), f"fence{opening['fence']}")
        if not is_call_label(source, at, opening["label"]):
            return outside
        start = blank_end(text, opening.end())
        verdict = self.judge_fenced(start, opening)
        if verdict is None or isinstance(verdict, Block):
            return verdict if verdict is None else self.decide_bare(at, replace(verdict, start=at))
        return outside

    def judge_fenced(self, start: int, opening: re.Match[str]) -> Block | bool | None:
        """Read a fence's content: the block with its closing fence; False when it is something else."""
        source, text = self.source, self.source.text
        label = opening["label"].lower()
        if start >= len(text):
            return False if source.final else None
        character = text[start]
        if character in "{[" and not tag_at(source, start):
            expression = not re.compile(r"\[[\[\s]*+(?:\{|\Z)").match(text, start) and character == "["
            if not expression and not may_be_call(source, start):
                return False
            if expression and not source.final and may_be_expression(source, start):
                return None
        elif character == "<":
            if tag_at(source, start) is None:
                return None if not source.final and may_become_tag(source, start) else False
        elif label in OWN_FENCES or label in CODE_FENCES or label == "":
            partial = not source.final and text[start:] in self.beginnings
            if partial or not self.pattern.match(text, start):
                return None if partial else False
        else:
            return False
        block = read_block(source, start)
        if block is None or (block.state == "clean"):
            return None if not source.final and len(text) - start < UNDECIDED else False
        if not source.final and block.state != "calls":
            return None
        closing = re.compile(rf"\s*{opening['fence']}`*[ \t]*(?=\n|\Z)\s*").match(text, block.end)
        if closing is None and text[block.end :].strip():
            waits = not source.final and text[block.end :].strip("` \n") == "" and len(text) - block.end < 8
            return None if waits else False
        marker = block.marker or label in OWN_FENCES
        form = block.form if label == "" or block.marker else f"fenced {block.form}"
        return replace(
            block, end=closing.end() if closing else len(text), marker=marker, chatter=False, form=form, fenced=True
        )


def is_call_label(source: Source, at: int, label: str, *, partial: bool = False) -> bool:
    """Tell whether a fence with this label may hold calls; one of program code only as the whole text."""
    lowered = label.lower()
    labels = CALL_FENCES | CODE_FENCES if source.starts(at) else CALL_FENCES
    return any(known.startswith(lowered) for known in labels) if partial else lowered in labels


def leave(source: Source, at: int, mode: str) -> tuple[int, str]:
    """Go to the end of a quoted line, a code span or a fence; the mode stays when the text ends before."""
    text = source.text
    if mode.startswith("fence"):
        closer = re.compile(rf"^[ \t]*{mode[5:]}`*[ \t]*(?:\n|\Z)", re.MULTILINE).search(text, at)
        if closer and (source.final or closer.end() < len(text) or text.endswith("\n")):
            return closer.end(), ""
        line = text.rfind("\n", at) + 1
        return (max(line, at) if text[max(line, at) :].strip(" \t`") == "" else len(text)), mode
    stop = re.compile(r"\n" if mode == "quote" else rf"\n|(?<!`){mode[4:]}(?!`)").search(text, at)
    if stop is None:
        return len(text), mode
    return stop.end(), ""


def at_line_start(text: str, at: int) -> bool:
    """Tell whether only blanks stand before the position on its line."""
    line = text.rfind("\n", max(0, at - LEAD), at) + 1
    return not text[max(line, at - LEAD) : at].strip() and (line > 0 or at < LEAD)


def at_call_position(text: str, at: int) -> bool:
    """Tell whether a marker at the position stands where a call begins: on a new line, or behind a whole sentence."""
    return at_line_start(text, at) or SENTENCE_END.search(text[max(0, at - 40) : at]) is not None


def may_start_bare(source: Source, at: int) -> bool:
    """Tell whether a form without marker may begin here: on a line of its own, or on that of the sentence that says so."""
    text = source.text
    if source.starts(at) or at_line_start(text, at):
        return True
    if re.compile(r"\[\s*\{\s*\"(?:tool_call_id|tool_name)?").match(text, at):
        return SENTENCE_END.search(text[max(0, at - 40) : at]) is not None
    return SENTENCE_END.search(text[max(0, at - 40) : at]) is not None and INTENT.search(lead(text, at)) is not None


def may_be_expression(source: Source, at: int) -> bool:
    """Tell whether the text's end may be the beginning of a list of call expressions."""
    rest = source.text[at + 1 :].lstrip()
    if not rest or "calling tool:".startswith(rest.lower()):
        return True
    return any(tool.name.startswith(rest) or rest in (tool.name, tool.name + " ") for tool in source.tools)


def may_be_followed(source: Source, block: Block) -> bool:
    """Tell whether words may follow a bare object: it began the text, and they begin a new paragraph (Llama 3)."""
    text = source.text
    if not block.whole or block.fenced or block.form != "json":
        return False
    between = text[: block.end].rfind("}")
    gap = text[between + 1 : block.end]
    return "\n" in gap and not re.match(
        r"(?:this|that|the above|it|here|which|where)\b", text[block.end :], re.IGNORECASE
    )


def lead(text: str, at: int) -> str:
    """Return the sentence or line before a block."""
    before = text[max(0, at - LEAD) : at].rstrip()
    return before[before.rfind("\n") + 1 :]


def documented(text: str, at: int) -> bool:
    """Tell by the line before a block whether it is an example or a quotation."""
    words = lead(text, at)
    if EXAMPLE.search(words):
        return not re.search(r"\b(?:I['’]ll|I will|let me) (?!show|give|explain)", words, re.IGNORECASE)
    return QUOTED.search(words) is not None and INTENT.search(words) is None


def read_block(source: Source, at: int, form: str = "") -> Block | None:
    """Read all calls that stand together from the position on; None when no form begins there."""
    return _BlockReader(source, at, form).read()


class _BlockReader:
    """Read payload after payload, with the markers between them."""

    def __init__(self, source: Source, at: int, form: str) -> None:
        self.source = source
        self.start = at
        self.form = form
        self.calls: list[ToolCall] = []
        self.readings: list[Reading] = []
        self.opener: Tag | None = None
        self.weak: Tag | None = None
        self.orphans = False
        self.seen = False

    def read(self) -> Block | None:
        position, depth = self.start, 0
        while True:
            trivia = skip_trivia(self.source, position, depth)
            self.note(trivia)
            if trivia.end >= len(self.source.text):
                return self.block(trivia.end)
            reading = self.payload(trivia.end)
            if reading is None:
                following = self.stray(trivia)
                if following is None:
                    return self.block(trivia.end if trivia.seen or self.readings else position)
                position, depth = following, trivia.depth
                continue
            self.readings.append(reading)
            if reading.state not in ("calls",):
                return self.block(self.closer(reading, trivia))
            if not reading.closed and trivia.depth:
                pass
            position, depth = reading.end, trivia.depth

    def note(self, trivia: Trivia) -> None:
        self.opener = self.opener or trivia.opener
        self.weak = self.weak or trivia.weak
        self.orphans = self.orphans or trivia.inner
        self.seen = self.seen or trivia.seen

    def payload(self, at: int) -> Reading | None:
        inside = self.opener is not None or self.weak is not None or bool(self.form)
        character = self.source.text[at]
        for dialect in DIALECTS:
            if dialect.starts and character not in dialect.starts:
                continue
            reading = dialect.read(self.source, at, inside=inside)
            if reading is not None:
                return reading
        if inside and character == "`":
            return self.fenced(at)
        return None

    def fenced(self, at: int) -> Reading | None:
        """Read a fence inside a marker."""
        opening = re.compile(r"`{3,}\w*\s*").match(self.source.text, at)
        if opening is None or opening.end() >= len(self.source.text):
            return None
        inner = self.payload(opening.end()) if self.source.text[opening.end()] != "`" else None
        if inner is None:
            return None
        closing = re.compile(r"\s*`{3,}").match(self.source.text, inner.end)
        return replace(inner, end=closing.end()) if closing else inner

    def stray(self, trivia: Trivia) -> int | None:
        """Return the position of the next marker behind stray words inside an open container."""
        if trivia.depth <= 0:
            return None
        text = self.source.text
        for match in TAG.finditer(text, trivia.end + 1, min(len(text), trivia.end + STRAY + 100)):
            if match.start() - trivia.end > STRAY:
                return None
            tag = tag_at(self.source, match.start())
            if tag is not None and (tag.kind in ("open", "close", "function") or (tag.special and tag.kind == "end")):
                return match.start()
        return None

    def closer(self, reading: Reading, trivia: Trivia) -> int:
        """Return the end of a block that cannot be read, with its closers."""
        if reading.state == "cut":
            return len(self.source.text)
        end = skip_trivia(self.source, reading.end, trivia.depth).end
        return end

    def block(self, end: int) -> Block | None:
        source = self.source
        calls = tuple(found for reading in self.readings for found in reading.calls)
        last = self.readings[-1] if self.readings else None
        marker = (self.opener is not None) or any(reading.marker for reading in self.readings)
        state: State = last.state if last else "unreadable" if self.opener else "clean"
        if last is not None and not calls and state == "calls" and not last.kept:
            state = "unreadable"
        if last is None and self.opener is None:
            if not self.seen or self.weak is not None:
                return None
            if self.orphans:
                state, marker = "unreadable", True
        if last is None and self.opener is not None and not self.refused(end):
            return None
        form = self.named(last)
        labelled = tuple(replace(found, dialect=form) for found in calls)
        special = self.opener is not None and self.opener.special
        chatter = special or any(reading.chatter for reading in self.readings)
        kept = "".join(reading.kept for reading in self.readings)
        return Block(
            self.start,
            end,
            labelled,
            state,
            form,
            marker,
            chatter,
            at_position=at_call_position(source.text, self.start),
            kept=kept,
            closed=last is None or last.closed,
        )

    def refused(self, end: int) -> bool:
        """Tell whether an opener with nothing readable behind it still is the beginning of a call, not a word about it."""
        assert self.opener is not None  # noqa: S101 - the caller has looked
        text = self.source.text
        return end >= len(text) or self.opener.special or text[end] in "{[<\"'" or self.seen

    def named(self, last: Reading | None) -> str:
        """Name the dialect by the marker and the payload."""
        if last is None:
            return self.opener.name if self.opener else "marker"
        if self.form:
            return self.form
        return dialect_name(self.opener or self.weak, last.form)


MARKED: Final[dict[str, str]] = {
    "toolcalls": "tool_calls",
    "pythontag": "llama3-json",
    "pythonstart": "llama4",
    "toolsprefix": "apertus",
    "actionstart": "internlm",
    "plugin": "internlm",
    "startaction": "command-r7b",
    "toolcallstart": "lfm2",
    "toolcallssectionbegin": "kimi-k2",
    "toolcallsbegin": "deepseek",
    "startfunctioncall": "functiongemma",
}


def dialect_name(opener: Tag | None, form: str) -> str:
    """Name the dialect that a marker and a payload make together."""
    if opener is None or form not in ("json", "named", "pythonic", "gemma"):
        return form
    if opener.start >= 0 and opener.name == "toolcalls" and opener.special and form in ("json", "named"):
        return "mistral"
    if opener.name in MARKED:
        return MARKED[opener.name]
    return {"json": "hermes", "named": "mistral", "pythonic": "pythonic", "gemma": "gemma4"}[form]
