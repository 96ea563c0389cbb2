"""Tell by its first characters whether a call may begin at a place: yes, no, or not before more text has come."""

from __future__ import annotations

import re
from typing import Final, Literal

from toolmend.dialects.json_calls import may_be_call
from toolmend.dialects.positions import at_call_position, at_line_start, behind_sentence, blank_end
from toolmend.dialects.source import PREFIX, STEP, Source, properties
from toolmend.dialects.tags import BRACKETS, Tag, may_become_tag, tag_at

Answer = Literal["yes", "no", "wait"]

OBJECTS = re.compile(r"\[[\[\s]{0,64}+\{")
OPEN_LIST = re.compile(r"\[[\[\s]{0,64}+\Z")
WORD_MARKER = re.compile(
    r"(functools)\s*(?=\[)"
    r"|TOOL_CALLS?(?:\s*+(?=\[\s*+\{|\{)|[ \t:]*+(?=[A-Za-z_][\w.:/-]{0,100}+\s?\[(?:ARGS|CALL_ID)\]))"
)
OPEN_WORD_MARKER = re.compile(
    r"(?:functools|TOOL_CALLS?[ \t:]*+[\w.:/-]{0,100}+\s?(?:\[[A-Z_]{0,7}+)?)\s*+(?:\[\s*+)?\Z"
)
CLIENT_LIST = re.compile(r"\[\s*(?:ChatCompletionMessage)?ToolCall\(")
OPEN_CLIENT_LIST = re.compile(r"\[\s*(?:ChatCompletion\w*|T[a-zA-Z]{0,7})\(?\Z")
OPEN_ECHO = re.compile(r"\[[\[\s]{0,64}+(?:[CcUuIiTtFf][\w ]{0,24}(?::\s*[\w.:/-]{0,100}\s?)?)?\Z")
ECHO = re.compile(r"\[[\[\s]{0,64}+[\w ]{1,25}:")
EXPRESSION = re.compile(r"(?P<name>[A-Za-z_][\w.:/-]*+)\s?(?P<open>\()?")
RECIPIENT = re.compile(r">>>[ \t:]*+[\w.:-]++\s*+\{")
OPEN_RECIPIENT = re.compile(r">{1,3}[ \t:]*+[\w.:-]{0,100}+[ \t]*+\n?\s{0,20}+\Z")
OPEN_WORD = re.compile(
    r"(?:minimax:tool_call>\s*<?)?(?:i[\w ]{0,11}(?:=(?:[\"'][\w.:/-]{0,100}[\"']?>?)?)?)?\Z|"
    r"to=[\w.:<|>/-]{0,120}+\s*+(?:[\w<|>]++\s*+){0,4}+\Z|:?[cC]all:\s*+[\w.:/ -]{0,120}+\Z|"
    r"\**Action\**\s*+:?[^\n]{0,200}+(?:\n\s*+(?:\**(?:A[^\n]{0,20})?)?)?\Z|"
    r"assistant\s{0,20}\Z|(?:assistant|analysis|commentary)[\w<|>=. ]{0,120}\Z|"
    r"[\w.:/-]{1,120}\s?\[?[A-Z_]{0,7}(?:<[|｜\w▁]{0,40})?\Z"
)
NAME_INSIDE = re.compile(r"\s*+(?:<\w++>\s*+)?[\w.:/-]{1,100}+\s*+</")
OPEN_NAME_INSIDE = re.compile(r"\s*+(?:<\w*+\Z|(?:<\w++>\s*+)?[\w.:/-]{0,100}+\s*+<?\Z)")
BARE: Final = "{["
LONGEST_BRACKET: Final = max(map(len, BRACKETS))
PLAN = re.compile(r"\[\s*\{\s*\"tool_(?:call_id|name)\"")
OPEN_PLAN = re.compile(r"\[\s*(?:\{\s*(?:\"(?:t(?:o(?:o(?:l\w*)?)?)?)?)?)?\Z")


def opening(source: Source, at: int) -> Answer:
    """Tell whether a call may begin at a trigger."""
    text, character = source.text, source.text[at]
    if character in "<[]":
        source.spend(STEP // 2)
    if character in "<]":
        return tag_opening(source, at)
    if character == ">":
        return recipient_opening(source, at)
    if character == "[" and (answer := bracket_opening(source, at)) != "no":
        return answer
    if character in BARE:
        if not may_stand_bare(source, at) or (payload := payload_opening(source, at)) == "no":
            return "no"
        return _both(bare_position(source, at), payload)
    if text.startswith(("functools", "TOOL_CALL"), at):
        return word_marker_opening(source, at)
    return "yes" if word_position(source, at) else "no"


def _both(first: Answer, second: Answer) -> Answer:
    if "no" in (first, second):
        return "no"
    return "wait" if "wait" in (first, second) else "yes"


def tag_opening(source: Source, at: int) -> Answer:
    """Tell whether a marker that can begin a call stands here."""
    tag = tag_at(source, at)
    if tag is None:
        return "wait" if not source.final and may_become_tag(source, at) else "no"
    if tag.kind == "inner" and not tag.closing:
        return "yes" if is_orphan(source, tag) else "no"
    if tag.kind == "separator":
        return "no"
    if tag.kind == "function" and not tag.label and not NAME_INSIDE.match(source.text, tag.end):
        return "wait" if not source.final and OPEN_NAME_INSIDE.match(source.text, tag.end) else "no"
    return "yes"


def is_orphan(source: Source, tag: Tag) -> bool:
    """Tell whether a parameter of an offered tool stands on a new line, outside of any call."""
    if not tag.label or not (source.starts(tag.start) or at_line_start(source.text, tag.start)):
        return False
    return any(tag.label in properties(tool) for tool in source.tools)


def bracket_opening(source: Source, at: int) -> Answer:
    """Tell whether a marker in square brackets stands here."""
    if (tag := tag_at(source, at)) is not None:
        return "no" if tag.kind == "separator" else "yes"
    if source.final or len(source.text) - at > LONGEST_BRACKET:
        return "no"
    return "wait" if any(marker.startswith(source.text[at:]) for marker in (*BRACKETS, "[CALL_ID]")) else "no"


def recipient_opening(source: Source, at: int) -> Answer:
    """Tell whether `>>>NAME` and an object stand here."""
    if RECIPIENT.match(source.text, at):
        return "yes"
    return "wait" if not source.final and OPEN_RECIPIENT.match(source.text, at) else "no"


def word_marker_opening(source: Source, at: int) -> Answer:
    """Tell whether `functools` or `TOOL_CALLS` and an array of calls stand here, or the latter and a name."""
    text = source.text
    match = WORD_MARKER.match(text, at)
    if match is None:
        return "wait" if not source.final and OPEN_WORD_MARKER.match(text, at) else "no"
    if match[1] is None and not (at_line_start(text, at) or source.starts(at)):
        return "no"
    if text[match.end()] not in BARE:
        return "yes"
    if text[match.end()] == "{" or OBJECTS.match(text, match.end()):
        return payload_opening(source, match.end())
    return _open_list(source, match.end())


def _open_list(source: Source, at: int) -> Answer:
    return "wait" if not source.final and OPEN_LIST.match(source.text, at) else "no"


def payload_opening(source: Source, at: int) -> Answer:
    """Tell whether JSON or a list of call expressions that begins here may be a call."""
    text = source.text
    if text[at] == "{" or OBJECTS.match(text, at):
        return "yes" if may_be_call(source, at) else "no"
    if OPEN_LIST.match(text, at):
        return _open_list(source, at)
    return expression_opening(source, at)


def expression_opening(source: Source, at: int) -> Answer:
    """Tell whether `[NAME(` of an offered tool stands here, or the echo of a rendered call."""
    text = source.text
    if ECHO.match(text, at) or CLIENT_LIST.match(text, at):
        return "yes"
    name = EXPRESSION.match(text, blank_end(text, at + 1))
    if name and name["open"]:
        return "yes" if source.tool(source.clean_name(name["name"])) else "no"
    if source.final:
        return "no"
    open_name = (
        name is not None and name.end() == len(text) and source.may_be_tool(PREFIX.sub("", name["name"], count=1))
    )
    open_name = open_name or OPEN_CLIENT_LIST.match(text, at) is not None
    return "wait" if open_name or OPEN_ECHO.match(text, at) else "no"


def may_stand_bare(source: Source, at: int) -> bool:
    """Tell whether a form without marker may begin here, if the words before it announce it."""
    return source.starts(at) or at_call_position(source.text, at)


def bare_position(source: Source, at: int) -> Answer:
    """Tell whether a form without marker may begin here: on its own line, or on that of the sentence announcing it.

    Command-R's plan touches the array when the tokens between them are gone.
    """
    text = source.text
    if source.starts(at) or at_line_start(text, at):
        return "yes"
    if not behind_sentence(text, at):
        return "no"
    if PLAN.match(text, at) or source.announced.before(at):
        return "yes"
    return "wait" if not source.final and OPEN_PLAN.match(text, at) else "no"


def word_position(source: Source, at: int) -> bool:
    """Tell whether a call that begins with a word may stand here."""
    text = source.text
    if text.startswith("to=", at):
        return True
    if text.startswith(("call:", "Call:", ":call:"), at):
        return at_call_position(text, at)
    return at_line_start(text, at) or source.starts(at)


def word_is_open(source: Source, at: int) -> bool:
    """Tell whether the rest of the text may still become a call that a word opens."""
    return not source.final and OPEN_WORD.match(source.text, at) is not None
