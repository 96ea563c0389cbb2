"""Write recordings and log lines beside the proxy: in one thread of its own, so that no hook waits for a disk.

A file is written under a temporary name in the folder and linked to its own: it is whole or not there, never overwrites
one, and never leaves its folder. A full or unwritable disk costs one log line. The event loop's thread writes it: from
here it would now and then stand inside a line that mitmdump is printing.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
from collections import deque
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Semaphore
from typing import Final

from toolmend import recordings
from toolmend.mitm.whole_files import write_new
from toolmend.model import JsonObject

logger = logging.getLogger("toolmend")

LARGEST_FILE: Final = 2_000_000
MOST_WAITING: Final = 64


class Recorder:
    """Write what is handed over, in order, in the background."""

    def __init__(self) -> None:
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="toolmend-recorder")
        self._room = Semaphore(MOST_WAITING)
        self._failed: set[str] = set()
        self._lines: deque[tuple[int, str]] = deque()

    def record(self, folder: Path, recording: recordings.Recording, keep_prompts: bool) -> None:
        """Write one recording into a folder, unless the same fault stands there already."""
        self._later(f"recording into {folder}", lambda: self._record(folder, recording, keep_prompts))

    def log(self, file: Path, entry: JsonObject) -> None:
        """Append one JSON line to a file."""
        self._later(f"logging to {file}", lambda: _append(file, entry))

    def close(self) -> None:
        """Finish what is waiting."""
        self._thread.shutdown(wait=True)
        self._write_lines()

    def _later(self, what: str, work: Callable[[], None]) -> None:
        if not self._room.acquire(blocking=False):
            self._say(f"too much is waiting, dropped: {what}")
            self._write_lines()
            return
        self._thread.submit(self._guarded, what, work, _running_loop())

    def _guarded(self, what: str, work: Callable[[], None], loop: asyncio.AbstractEventLoop | None) -> None:
        try:
            work()
        except recordings.TooLarge as error:
            self._lines.append((logging.INFO, f"not recorded: {error}"))
        except Exception as error:  # a thread's exceptions are seen by nobody
            self._say(f"{what} failed: {type(error).__name__}: {error}")
        finally:
            self._room.release()
        if self._lines and loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended: `close` writes them
                loop.call_soon_threadsafe(self._write_lines)

    def _say(self, text: str) -> None:
        if text not in self._failed:
            self._failed.add(text)
            self._lines.append((logging.WARNING, text))

    def _write_lines(self) -> None:
        while self._lines:
            level, text = self._lines.popleft()
            logger.log(level, f"toolmend: {text}")

    def _record(self, folder: Path, recording: recordings.Recording, keep_prompts: bool) -> None:
        path = _write_recording(folder, recording, keep_prompts)
        if path is not None:
            self._lines.append((logging.INFO, f"recorded {path}"))


def _running_loop() -> asyncio.AbstractEventLoop | None:
    with contextlib.suppress(RuntimeError):
        return asyncio.get_running_loop()
    return None


def _write_recording(folder: Path, recording: recordings.Recording, keep_prompts: bool) -> Path | None:
    """Write a recording. Returns where; None when it stands there already."""
    path = (folder / recordings.file_name(recording)).resolve()
    if not path.is_relative_to(folder.resolve()):
        raise ValueError(f"{path} is outside {folder}")
    if path.exists():
        return None
    data = recordings.dump(recording, keep_prompts=keep_prompts, max_bytes=LARGEST_FILE)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_new(path, data)
    return path


def _append(file: Path, entry: JsonObject) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    # Half a surrogate pair becomes the escape that JSON has for it.
    with file.open("a", encoding="utf-8", errors="backslashreplace") as lines:
        lines.write(json.dumps(entry, ensure_ascii=False) + "\n")
