"""Tell by what stands round a place whether a call stands there, or text that only shows one."""

from __future__ import annotations

import re
from typing import Final

LEAD: Final = 300
"""How much text before a place is looked at."""

EXAMPLE = re.compile(
    r"\b(?:for (?:example|instance)|e\.g\.|an example|examples?:|(?:as|show) (?:you )?an? (?:example|sample)|"
    r"looks? like|would (?:look|be written|write)|how to (?:call|use|write)|from the template|"
    r"(?:format|syntax|template|schema|placeholder) (?:is|for|of|looks|would|below)|"
    r"(?:the|this|that|its) (?:format|syntax|template|example)\b[^.\n]*:)",
    re.IGNORECASE,
)
QUOTED = re.compile(
    r"\b(?:contains?|contained|says|said|reads:|states|stated|shows|printed|returned|quot\w+|"
    r"contents? (?:of|is|are|was|were)|(?:found|received|got) (?:this|the following)|like this:|"
    r"(?:file|page|log|output|message|document|email|website)\b[^.\n]*\b(?:is|has|was|had)\b|"
    r"(?:the|this|that) (?:block|snippet)\b[^.\n]*:|one (?:can|could|would)\b|"
    r"you(?:['’]d| can| could| would| should| may| might| need to| must) (?:\w+ )?"
    r"(?:call|do|invoke|make|run|send|try|use|write)|"
    r"zum beispiel|beispielsweise|z\.\s?b\.|par exemple|por ejemplo|ad esempio|por exemplo|"
    r"(?:enthält|contient|contiene|contém)\b[^.\n]*:)|(?:包含|содержит)[^。.\n]*[:：]|"
    r"例如|比如|例えば|たとえば|например|예를 들어|"
    r"^\W*(?:(?:then|now|just|please|simply) )?(?:add|copy|enter|insert|paste|place|put|save|type|write) "
    r"(?:this|the following|these)\b",
    re.IGNORECASE,
)
INTENT = re.compile(
    r"\b(?:I['’]ll|I will|I am going|I['’]m going|I need to|I should|I must|let me|let['’]s|let us|we['’]ll|we will|"
    r"we should|we need|now I|calling|going to (?:call|use|run)|"
    r"I (?:call|check|list|look|open|read|run|search|start|use|write)|\w+ing (?:\w+ ){0,3}now|"
    r"ich (?!habe|hatte|kann)\w+|lass(?:en sie)? mich|je vais|voy a|vamos a|vou)\b|[我让]|давайте|сейчас",
    re.IGNORECASE,
)
REFUSED = re.compile(
    r"\b(?:will not|won['’]t|cannot|can['’]t|must not|mustn['’]t|should not|shouldn['’]t|do not|don['’]t|did not|"
    r"didn['’]t|would never|will never|refuse to)\s+(?:\w+\s+)?"
    r"(?:call|do|execute|follow|invoke|make|obey|perform|run|send)\b",
    re.IGNORECASE,
)
ANNOUNCED = re.compile(r"\b(?:I['’]ll|I will|let me) (?!show|give|explain|demonstrate)", re.IGNORECASE)
TABLE_OR_ITEM = re.compile(r"[ \t]*(?:\||[-*+][ \t])")
QUOTES: Final = {'"': '"', "'": "'", "“": "”", "„": "“", "«": "»", "‘": "’"}
SENTENCE_END = re.compile(r"[.!?:…)\]>\"'”’*_`]\s*\Z")
REMARK = re.compile(r"(?:this|that|the above|it|here|which|where)\b", re.IGNORECASE)


def at_line_start(text: str, at: int) -> bool:
    """Tell whether only blanks stand before the position on its line."""
    line = text.rfind("\n", max(0, at - LEAD), at) + 1
    return (line > 0 or at < LEAD) and not text[line:at].strip()


def behind_sentence(text: str, at: int) -> bool:
    """Tell whether a whole sentence, a bracket or a marker ends before the position."""
    return SENTENCE_END.search(text[max(0, at - 40) : at]) is not None


def at_call_position(text: str, at: int) -> bool:
    """Tell whether a call may begin at the position: on a new line, or behind a whole sentence."""
    return at_line_start(text, at) or behind_sentence(text, at)


def lead(text: str, at: int) -> str:
    """Return the line before a block, or what stands before it on its own."""
    before = text[max(0, at - LEAD) : at].rstrip()
    return before[before.rfind("\n") + 1 :]


def announces(text: str, at: int) -> bool:
    """Tell whether the line before a block says that the model is about to act."""
    return INTENT.search(lead(text, at)) is not None


def documents(text: str, at: int) -> bool:
    """Tell whether the line before a block says that it is an example or a quotation."""
    words = lead(text, at)
    if (refused := REFUSED.search(words)) is not None:
        return INTENT.search(words, refused.end()) is None
    if EXAMPLE.search(words):
        return ANNOUNCED.search(words) is None
    return QUOTED.search(words) is not None and INTENT.search(words) is None


def is_shown_in(text: str, at: int, end: int) -> bool:
    """Tell whether words that go on behind a block show it: in a table, an item, quotes, or behind a question."""
    if not text[end:].strip():
        return False
    line = text[text.rfind("\n", max(0, at - LEAD), at) + 1 : at]
    closer = QUOTES.get(text[at - 1 : at])
    return (
        TABLE_OR_ITEM.match(line) is not None
        or (closer is not None and text.startswith(closer, end))
        or lead(text, at).endswith(("?", "？"))
    )
