"""Read calls written as the text that a client library prints for them.

`ChatCompletionMessageToolCall(id='…', function=Function(arguments='{…}', name='NAME'), type='function')`, alone, in a
list, or in the message round it (`openai`, `ollama`): models repeat it when their history was filled with such text.
"""

from __future__ import annotations

import re
from typing import Final

from toolmend.dialects.json_calls import arguments_of
from toolmend.dialects.positions import blank_end
from toolmend.dialects.pythonic import Literals
from toolmend.dialects.source import READING, Broken, Reading, Source, call
from toolmend.model import ToolCall

FORM: Final = "client's object"
OPENING = re.compile(
    r"(?:ChatCompletionMessage\([^()\[\]]{0,400}?\btool_calls=)?(?P<list>\[\s*+)?(?=(?:ChatCompletionMessage)?ToolCall\()"
)
OPEN_MESSAGE = re.compile(r"ChatCompletionMessage\([^()\[\]]{0,400}\[?\s*+(?:[A-Z]\w{0,40}+)?\Z")
CALL = re.compile(r"(?:ChatCompletionMessage)?ToolCall\((?:[^()\"]{0,200}?[,\s])?function=(?:\w{0,40}\.)?Function\(")
OPEN_CALL = re.compile(r"(?:ChatCompletionMessage)?(?:ToolCall)?(?:\([^()\"]{0,260})?(?:Function\()?\Z")
CALL_END = re.compile(r"[^()\"]{0,200}?\)\s*+")
OPEN_END = re.compile(r"[^()\"]{0,200}\Z")


def read_client_repr(source: Source, at: int, *, inside: bool) -> Reading | None:
    """Read the calls of one message, or of a list of them."""
    opening = OPENING.match(source.text, at)
    if opening is None:
        open_end = not source.final and OPEN_MESSAGE.match(source.text, at)
        return Reading(len(source.text), state="cut", form=FORM) if open_end else None
    position, calls = opening.end(), list[ToolCall]()
    while head := CALL.match(source.text, position):
        source.spend(READING)
        try:
            made, position = _read_function(source, head.end())
        except Broken as broken:
            return Reading(len(source.text), tuple(calls), broken.state, FORM)
        calls.append(made)
        position = blank_end(source.text, position)
        if not source.text.startswith(",", position):
            break
        position = blank_end(source.text, position + 1)
    if not calls or source.tool(calls[0].name) is None:
        open_end = not source.final and OPEN_CALL.match(source.text, position)
        return Reading(len(source.text), state="cut", form=FORM) if open_end else None
    closer = re.compile(r"\][^()\[\]\"]{0,200}\)|\]").match(source.text, position) if opening["list"] else None
    return Reading(closer.end() if closer else position, tuple(calls), form=FORM)


def _read_function(source: Source, at: int) -> tuple[ToolCall, int]:
    """Read the members of one function, and the end of the call that holds it."""
    members, position = Literals(source).arguments(at)
    source.spend((position - at) // 4)
    name = members.get("name")
    closer = CALL_END.match(source.text, position)
    if closer is None:
        raise Broken("cut" if OPEN_END.match(source.text, position) else "unreadable")
    if not isinstance(name, str):
        raise Broken("unreadable")
    return call(source.clean_name(name), arguments_of(members.get("arguments")), FORM), closer.end()
