"""List the dialects: each is a reader that knows one family of forms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, Protocol

from toolmend.dialects.arrow_calls import read_arrows
from toolmend.dialects.bracketless import read_bracketless
from toolmend.dialects.client_reprs import read_client_repr
from toolmend.dialects.gemma import read_gemma
from toolmend.dialects.harmony import read_harmony
from toolmend.dialects.json_calls import read_json
from toolmend.dialects.kimi import read_kimi
from toolmend.dialects.named_calls import read_named
from toolmend.dialects.pythonic import read_pythonic
from toolmend.dialects.react import read_react
from toolmend.dialects.source import Reading, Source
from toolmend.dialects.xml_calls import read_headless, read_pairs, read_xml


class Reader(Protocol):
    """Read the calls that begin at a position; None when this form does not begin there."""

    def __call__(self, source: Source, at: int, *, inside: bool) -> Reading | None:
        """Read them. `inside` tells that a marker which opens calls stands before the position."""


@dataclass(frozen=True, slots=True)
class Dialect:
    """Describe one family of forms.

    `starts` are the characters with which it can begin, "" for a word of any kind. `words` are the words that open it
    outside of a marker.
    """

    name: str
    read: Reader
    starts: str = ""
    words: tuple[str, ...] = ()


DIALECTS: Final = (
    Dialect("arrows", read_arrows, "{"),
    Dialect("json", read_json, '{["'),
    Dialect("client's object", read_client_repr, "C[T", words=("ChatCompletionMessage", "ToolCall(")),
    Dialect("pythonic", read_pythonic),
    Dialect("kimi", read_kimi, "<"),
    Dialect("harmony", read_harmony, words=("to=", "assistant", "commentary", "analysis")),
    Dialect("xml", read_xml, "<"),
    Dialect("tags without brackets", read_bracketless, "im", words=("invoke name=", "minimax:tool_call>")),
    Dialect("function without its bracket", read_headless, words=("function=",)),
    Dialect("key and value", read_pairs),
    Dialect("gemma", read_gemma, words=("call:", ":call:", "Call:")),
    Dialect("named", read_named, words=(">>>",)),
    Dialect("react", read_react, "A*", words=("Action:", "**Action:")),
)
"""In the order in which they are tried."""
