"""Let an exchange be mitmproxy's stream callable: every chunk of a streamed answer goes through it.

An exception in a stream callable is caught by nobody and leaves a hole in the answer, so everything here is guarded:
what fails once passes what has not gone, and from then on everything as it comes.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

from toolmend.exchange import Exchange
from toolmend.follow_up import FollowUp

Result = TypeVar("Result")


class StreamFilter:
    """Feed an exchange with a streamed answer and give out what may go.

    Args:
        exchange: The exchange of this flow, told already how the answer begins.
        fail: Called once, inside an except block, when the exchange raised.
        late: Whether the end of the answer waits for the addon's hook (`late_stream`).
        keep: Whether what came (with its times, in seconds of a monotonic clock) and what went is kept, for a view or
            a recording.
    """

    def __init__(self, exchange: Exchange, fail: Callable[[], None], late: bool, keep: bool) -> None:
        self.exchange = exchange
        self.failed = False
        self.came: list[tuple[bytes, float]] = []
        self.went: list[bytes] = []
        self.question: FollowUp | None = None
        self.rest: list[bytes] | None = None
        self.gone: Callable[[], bool] = lambda: False
        self._fail = fail
        self._late = late
        self._keep = keep

    def holds(self) -> bool:
        """Tell whether what is held has to go out when the server breaks off."""
        return self._late and not self.failed

    def waits(self) -> bool:
        """End the answer, and tell whether its end has to wait for the reply to `question`: most have none."""
        if not self.holds():
            return False
        result = self._guarded(self.exchange.finish)
        if isinstance(result, FollowUp):
            self.question = result
            return True
        self.rest = result
        return False

    def __call__(self, data: bytes) -> list[bytes]:
        """Take in one chunk (`b""` is the end) and return what goes to the client."""
        if not data:
            out = self._end()
        elif self.failed:
            out = [data]
        else:
            out = self._received(data)
        if self._keep:
            if data:
                self.came.append((data, time.monotonic()))
            self.went += out
        return out

    def _end(self) -> list[bytes]:
        """Return the rest: what was decided; where nothing was (late streaming is off, or the server broke off) what
        needs no question."""
        if self.rest is not None:
            rest, self.rest = self.rest, []
            return rest
        self.rest = []
        if self.failed or self._late:
            return self.exchange.unsent()
        result = self._guarded(self.exchange.finish)
        while isinstance(result, FollowUp):
            result = self._guarded(self.exchange.resume, None)
        return result

    def _received(self, data: bytes) -> list[bytes]:
        """Give a chunk to the exchange. What goes out goes as one chunk: each costs the client and us a write."""
        out = self._guarded(self.exchange.receive, data)
        return out if len(out) < 2 else [b"".join(out)]

    def _guarded(self, work: Callable[..., Result], *given: object) -> Result | list[bytes]:
        """Do a piece of work of the core; when it raises, return all that has come and has not gone."""
        try:
            return work(*given)
        except Exception:
            self.failed = True
            self._fail()
            return self.exchange.unsent()
