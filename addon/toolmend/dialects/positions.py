"""Tell by what stands round a place whether a call stands there, or text that only shows one."""

from __future__ import annotations

import re
from typing import Final

BLANK = re.compile(r"\s*+")

LEAD: Final = 300
"""How much text before a place is looked at."""

# These five are looked for in lower case: without a flag, an alternative that cannot begin at a letter costs nothing.
EXAMPLE = re.compile(
    r"\b(?:for (?:example|instance)|e\.g\.|an example|examples?:|(?:as|show) (?:you )?an? (?:example|sample)|"
    r"looks? like|would (?:look|be written|write)|how to (?:call|use|write)|from the template|"
    r"(?:format|syntax|template|schema|placeholder) (?:is|for|of|looks|would|below)|"
    r"(?:the|this|that|its) (?:format|syntax|template|example)\b[^.\n]*:)",
)
QUOTED = re.compile(
    r"\b(?:contains?|contained|says|said|reads:|states|stated|shows|printed|returned|quot\w+|"
    r"contents? (?:of|is|are|was|were)|(?:found|received|got) (?:this|the following)|like this:|"
    r"(?:file|page|log|output|message|document|email|website)\b[^.\n]*\b(?:is|has|was|had)\b|"
    r"(?:the|this|that) (?:block|snippet)\b[^.\n]*:|one (?:can|could|would)\b|"
    r"you(?:['’]d| can| could| would| should| may| might| need to| must) (?:\w+ )?"
    r"(?:call|do|invoke|make|run|send|try|use|write)|"
    r"zum beispiel|beispielsweise|z\.\s?b\.|par exemple|por ejemplo|ad esempio|por exemplo|"
    r"(?:enthält|contient|contiene|contém)\b[^.\n]*:)|(?:包含|содержит|格式|语法|写法|用法)[^。.\n]*[:：]|"
    r"例如|比如|例えば|たとえば|например|예를 들어|"
    r"^\W*(?:(?:then|now|just|please|simply) )?(?:add|copy|enter|insert|paste|place|put|save|type|write) "
    r"(?:this|the following|these)\b",
)
INTENT = re.compile(
    r"\b(?:i['’]ll|i will|i am going|i['’]m going|i need to|i should|i must|let me|let['’]s|let us|we['’]ll|we will|"
    r"we should|we need|now i|calling|going to (?:call|use|run)|"
    r"i (?:call|check|list|look|open|read|run|search|start|use|write)|\w+ing (?:\w+ ){0,3}now|"
    r"ich (?!habe|hatte|kann)\w+|lass(?:en sie)? mich|je vais|voy a|vamos a|vou)\b|[我让]|давайте|сейчас",
)
REFUSED = re.compile(
    r"\b(?:will not|won['’]t|cannot|can['’]t|must not|mustn['’]t|should not|shouldn['’]t|do not|don['’]t|did not|"
    r"didn['’]t|would never|will never|refuse to)\s+(?:\w+\s+)?"
    r"(?:call|do|execute|follow|invoke|make|obey|perform|run|send)\b",
)
ANNOUNCED = re.compile(r"\b(?:i['’]ll|i will|let me) (?!show|give|explain|demonstrate)")
TABLE_OR_ITEM = re.compile(r"[ \t]*(?:\||[-*+][ \t])")
QUOTES: Final = {'"': '"', "'": "'", "“": "”", "„": "“", "«": "»", "‘": "’"}
SENTENCE_ENDS: Final = ".!?:…)]>\"'”’*_`"
REMARK = re.compile(r"(?:this|that|the above|it|here|which|where)\b", re.IGNORECASE)


def blank_end(text: str, at: int) -> int:
    """Return the position of the next character that is no blank."""
    match = BLANK.match(text, at)
    return match.end() if match else at


def blank_start(text: str, end: int) -> int:
    """Return the position behind the last character before `end` that is no blank."""
    while end and text[end - 1].isspace():
        end -= 1
    return end


def at_line_start(text: str, at: int) -> bool:
    """Tell whether only blanks stand before the position on its line."""
    line = text.rfind("\n", max(0, at - LEAD), at) + 1
    return (line > 0 or at < LEAD) and not text[line:at].strip()


def behind_sentence(text: str, at: int) -> bool:
    """Tell whether a whole sentence, a bracket or a marker ends before the position."""
    before = text[max(0, at - 40) : at].rstrip()
    return before != "" and before[-1] in SENTENCE_ENDS


def at_call_position(text: str, at: int) -> bool:
    """Tell whether a call may begin at the position: on a new line, or behind a whole sentence."""
    return at_line_start(text, at) or behind_sentence(text, at)


def lead(text: str, at: int) -> str:
    """Return the line before a block, or what stands before it on its own."""
    before = text[max(0, at - LEAD) : at].rstrip()
    return before[before.rfind("\n") + 1 :]


class Announcements:
    """Tell whether the line before a place says that the model is about to act.

    Asked for one place after the other, it looks at each piece of the text once.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._looked = 0
        self._last = -1

    def before(self, at: int) -> bool:
        """Tell it for a place that no such words go over."""
        line = lead(self._text, at)
        end = blank_start(self._text, at)
        begin = end - len(line)
        start = max(begin, self._looked) if end >= self._looked else begin
        for found in INTENT.finditer(self._text[start:end].lower()):
            self._last = start + found.start()
        self._looked = end
        return self._last >= begin


def documents(text: str, at: int) -> bool:
    """Tell whether the line before a block says that it is an example or a quotation."""
    words = lead(text, at).lower()
    if (refused := REFUSED.search(words)) is not None:
        return INTENT.search(words, refused.end()) is None
    if EXAMPLE.search(words):
        return ANNOUNCED.search(words) is None
    return QUOTED.search(words) is not None and INTENT.search(words) is None


def is_shown_in(text: str, at: int, end: int) -> bool:
    """Tell whether words that go on behind a block show it: in a table, an item, quotes, or behind a question."""
    if blank_end(text, end) == len(text):
        return False
    line = text[text.rfind("\n", max(0, at - LEAD), at) + 1 : at]
    closer = QUOTES.get(text[at - 1 : at])
    return (
        TABLE_OR_ITEM.match(line) is not None
        or (closer is not None and text.startswith(closer, end))
        or lead(text, at).endswith(("?", "？"))
    )
