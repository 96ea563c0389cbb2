"""Write recordings and log lines beside the proxy: in one thread of its own, so that no hook waits for a disk.

A file is written under a temporary name in the folder and linked to its own: it is whole or not there, never overwrites
one, and never leaves its folder. A full or unwritable disk costs one log line.
"""

from __future__ import annotations

import json
import logging
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

    def record(self, folder: Path, recording: recordings.Recording, keep_prompts: bool) -> None:
        """Write one recording into a folder, unless the same fault stands there already."""
        self._later(f"recording into {folder}", lambda: _write_recording(folder, recording, keep_prompts))

    def log(self, file: Path, entry: JsonObject) -> None:
        """Append one JSON line to a file."""
        self._later(f"logging to {file}", lambda: _append(file, entry))

    def close(self) -> None:
        """Finish what is waiting."""
        self._thread.shutdown(wait=True)

    def _later(self, what: str, work: Callable[[], None]) -> None:
        if not self._room.acquire(blocking=False):
            self._say(f"too much is waiting, dropped: {what}")
            return
        self._thread.submit(self._guarded, what, work)

    def _guarded(self, what: str, work: Callable[[], None]) -> None:
        try:
            work()
        except recordings.TooLarge as error:
            logger.info(f"toolmend: not recorded: {error}")
        except Exception as error:  # a thread's exceptions are seen by nobody
            self._say(f"{what} failed: {type(error).__name__}: {error}")
        finally:
            self._room.release()

    def _say(self, text: str) -> None:
        if text not in self._failed:
            self._failed.add(text)
            logger.warning(f"toolmend: {text}")


def _write_recording(folder: Path, recording: recordings.Recording, keep_prompts: bool) -> None:
    path = (folder / recordings.file_name(recording)).resolve()
    if not path.is_relative_to(folder.resolve()):
        raise ValueError(f"{path} is outside {folder}")
    if path.exists():
        return
    data = recordings.dump(recording, keep_prompts=keep_prompts, max_bytes=LARGEST_FILE)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_new(path, data)
    logger.info(f"toolmend: recorded {path}")


def _append(file: Path, entry: JsonObject) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    # Half a surrogate pair becomes the escape that JSON has for it.
    with file.open("a", encoding="utf-8", errors="backslashreplace") as lines:
        lines.write(json.dumps(entry, ensure_ascii=False) + "\n")
