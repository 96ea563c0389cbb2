"""Keep one line of statistics at the foot of the terminal, below what mitmdump logs.

Only on a terminal, and only where mitmdump prints no flows itself: those do not go through logging, and would run into
the line.
"""

from __future__ import annotations

import logging
import shutil
import sys
from collections.abc import Callable

from mitmproxy import ctx

CLEAR = "\r\x1b[2K"


class _Around(logging.Handler):
    """Do something at one place among the handlers of a log record."""

    def __init__(self, work: Callable[[], None]) -> None:
        super().__init__()
        self._work = work

    def emit(self, record: logging.LogRecord) -> None:
        """Do it."""
        self._work()


class StatusLine:
    """Show a line that stays last. Nothing happens before `open`, or where there is no terminal."""

    def __init__(self) -> None:
        self._line = ""
        self._before = _Around(self._clear)
        self._after = _Around(self._draw)
        self._shown = False

    def open(self) -> None:
        """Begin to show it, where it can be shown."""
        if not sys.stdout.isatty() or ctx.master.addons.get("termlog") is None or ctx.options.flow_detail > 0:
            return
        self._shown = True
        handlers = logging.getLogger().handlers
        handlers.insert(0, self._before)
        handlers.append(self._after)

    def show(self, line: Callable[[], str]) -> None:
        """Show this line from now on. It is asked for only where somebody can see it."""
        if self._shown:
            self._line = line()
            self._clear()
            self._draw()

    def close(self) -> None:
        """Take the line away."""
        if self._shown:
            self._shown = False
            self._clear()
            for handler in (self._before, self._after):
                logging.getLogger().removeHandler(handler)

    def _clear(self) -> None:
        sys.stdout.write(CLEAR)
        sys.stdout.flush()

    def _draw(self) -> None:
        # A line that wraps would leave its rest on the screen.
        sys.stdout.write(self._line[: shutil.get_terminal_size().columns - 1])
        sys.stdout.flush()
