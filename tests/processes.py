"""End the processes that tests start."""

from __future__ import annotations

import subprocess
from typing import Any


def end(process: subprocess.Popen[Any], timeout: float) -> None:
    """Ask a process to end, and end it where it does not within so many seconds."""
    process.terminate()
    try:
        process.wait(timeout)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(timeout)
