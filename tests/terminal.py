"""Run a program in a terminal of its own, as a person does: what it writes is a stream with moves and colours in it."""

from __future__ import annotations

import codecs
import contextlib
import fcntl
import os
import pty
import re
import struct
import subprocess
import termios
import threading
from collections.abc import Sequence
from types import TracebackType
from typing import Self

from fake_ollama import TIMEOUT
from processes import end

CONTROL = re.compile(r"\x1b\[[0-9;?]*[ -/]*[@-~]|\x1b[()][A-Z0-9]|\x1b[=>78]|[\x0e\x0f]")


class Terminal:
    """Run a command; `raw` is what it wrote, `text` the same without moves and colours."""

    def __init__(self, command: Sequence[str], columns: int = 150, rows: int = 45) -> None:
        self.raw = ""
        self._changed = threading.Condition()
        self._main, self._side = pty.openpty()
        fcntl.ioctl(self._side, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        environment = {**os.environ, "TERM": "xterm-256color", "COLUMNS": str(columns), "LINES": str(rows)}
        self.process = subprocess.Popen(
            command, stdin=self._side, stdout=self._side, stderr=self._side, env=environment, start_new_session=True
        )
        os.close(self._side)
        self._reader = threading.Thread(target=self._read, name="terminal")
        self._reader.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def text(self) -> str:
        return CONTROL.sub("", self.raw)

    def type(self, keys: str) -> None:
        os.write(self._main, keys.encode())

    def wait_for(self, pattern: str, start: int = 0) -> re.Match[str]:
        """Wait until the text holds this from a position on, and return the match."""
        looked = re.compile(pattern)
        with self._changed:
            self._changed.wait_for(lambda: looked.search(self.text, start) or self.process.poll() is not None, TIMEOUT)
        found = looked.search(self.text, start)
        assert found, f"the terminal did not show {pattern!r}:\n{self.text[start:]}"
        return found

    def stop(self) -> str:
        """End the program and return all that it wrote."""
        if self.process.poll() is None:
            end(self.process, TIMEOUT)
        self._reader.join(TIMEOUT)
        with contextlib.suppress(OSError):
            os.close(self._main)
        return self.text

    def _read(self) -> None:
        decoder = codecs.getincrementaldecoder("utf-8")("replace")
        while True:
            try:
                data = os.read(self._main, 65536)
            except OSError:  # Linux says so when the last program in the terminal has ended.
                data = b""
            if not data:
                break
            with self._changed:
                self.raw += decoder.decode(data)
                self._changed.notify_all()
        with self._changed:
            self._changed.notify_all()
