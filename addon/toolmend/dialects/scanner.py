"""Say, while text streams, how much of it may go out: all that cannot become part of a call."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from toolmend.dialects.positions import LEAD
from toolmend.dialects.source import STEPS, Source
from toolmend.dialects.walk import walker_for
from toolmend.model import Tool

CONTEXT: Final = 2 * LEAD
"""How much text before what is held is kept, to see where a call would stand."""
LOOK: Final = 100
"""What a look costs that is more than one for the patterns of prose."""
RATE: Final = 5
"""How many steps each character may cost, all looks together; what takes more waits for the end of the text."""
GROWTH: Final = 2
"""What is held is looked at again when it has grown by one part in this many: all looks together stay linear."""


class Scanner:
    """Hold back text from the first character that may open a call.

    What `find_calls` would lift from the whole text is never let go; what cannot be a call any more is. The patterns
    depend on the tools only.
    """

    def __init__(self, tools: Sequence[Tool]) -> None:
        self._walker = walker_for(tools)
        self._source = Source("", tools, final=False)
        self._text = ""
        self._base = 0
        self._at = 0
        self._mode = ""
        self._blank = True
        self._decided = False
        self.spent = 0
        """The steps that all looks took together."""
        self._next_look = 0
        self._pieces: list[str] = []
        self._length = 0

    @property
    def held(self) -> bool:
        """Tell whether text is held back."""
        return self._base + self._at < self._length

    def feed(self, text: str) -> int:
        """Take in text and return how many characters, counted from the first ever fed, may go out now."""
        self._length += len(text)
        if not self._decided:
            self._pieces.append(text)
            if self._length >= self._next_look:
                self._look()
        return self._base + self._at

    def _look(self) -> None:
        self._text += "".join(self._pieces)
        self._pieces.clear()
        prose_end = None if self._mode else self._walker.prose_end(self._text, self._at)
        if prose_end is None:
            self._walk()
        else:
            self._at = prose_end
        held = len(self._text) - self._at
        self._next_look = self._length + held // GROWTH
        self._forget()

    def _walk(self) -> None:
        source = self._source.again(self._text, final=False, blank_head=self._blank)
        had = source.effort
        step = self._walker.next_block(source, self._at, self._mode)
        while step.block is not None and step.block.shown:
            step = self._walker.next_block(source, max(step.block.end, self._at + 1))
        self.spent += had - source.effort + LOOK
        self._decided = step.block is not None or source.effort <= 0 or self.spent > STEPS + RATE * self._length
        self._at, self._mode = step.at, step.mode

    def _forget(self) -> None:
        """Let go of text that is too far back to matter."""
        surplus = self._at - CONTEXT
        if surplus < CONTEXT:
            return
        self._blank = self._blank and not self._text[:surplus].strip()
        self._text = self._text[surplus:]
        self._base += surplus
        self._at -= surplus
