"""Read tags that lost their `<` and `/`: MiniMax's, where these are parts of special tokens.

invoke name="NAME">
parameter name="KEY">VALUEparameter>
invoke>
"""

from __future__ import annotations

import re
from typing import Final

from toolmend.dialects.positions import blank_end
from toolmend.dialects.source import Reading, Source, call
from toolmend.dialects.xml_values import text_value
from toolmend.model import JsonObject

FORM: Final = "minimax"
INVOKE = re.compile(r"(?:<?/?(?:minimax:)?tool_call>\s*)?<?invoke name=[\"'](?P<name>[\w.:/-]{1,100})[\"']>\s*")
PARAMETER = re.compile(r"<?parameter name=[\"'](?P<key>[\w.$ -]{1,100})[\"']>")
PARAMETER_END = re.compile(r"(?:</|/|<)?parameter>\s*(?=<?parameter name=|(?:</|/|<)?invoke>|\Z)")
INVOKE_END = re.compile(r"(?:(?:</|/|<)?(?:invoke|(?:minimax:)?tool_call)>\s*)+")


def read_bracketless(source: Source, at: int, *, inside: bool) -> Reading | None:
    """Read one call of an offered tool."""
    text = source.text
    head = INVOKE.match(text, at)
    if head is None or source.tool(source.clean_name(head["name"])) is None:
        return None
    arguments: JsonObject = {}
    position = head.end()
    while parameter := PARAMETER.match(text, position):
        end = PARAMETER_END.search(text, parameter.end())
        source.spend((end.end() if end else len(text)) - position)
        if end is None:
            return Reading(len(text), state="cut", form=FORM, marker=True)
        arguments[parameter["key"].strip()] = text_value(text[parameter.end() : end.start()])
        position = end.end()
    closer = INVOKE_END.match(text, position)
    if closer is None and position < len(text):
        return None if source.final else Reading(len(text), state="cut", form=FORM, marker=True)
    end_at = closer.end() if closer else blank_end(text, position)
    name = source.clean_name(head["name"])
    return Reading(end_at, (call(name, arguments, FORM),), form=FORM, marker=True, closed=closer is not None)
