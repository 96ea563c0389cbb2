"""Run mitmproxy's programs of this interpreter's environment, with the addon."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import IO, Final

import toolmend
from toolmend.commands import ports
from toolmend.commands.ollama_host import Address

SAFE: Final = ("--listen-host", "127.0.0.1", "--set", "keep_host_header=true")
START_SECONDS: Final = 30.0
STOP_SECONDS: Final = 5.0
TRIES: Final = 3


class LaunchError(RuntimeError):
    """Raised when mitmproxy does not start; says what it printed."""


def script() -> Path:
    """Return the file that mitmproxy's `-s` loads: inside the installed package, or beside it in a checkout."""
    package = Path(toolmend.__file__).resolve().parent
    places = (package / "mitm" / "toolmend_addon.py", package.parent / "toolmend_addon.py")
    return next(place for place in places if place.is_file())


def program(name: str) -> list[str]:
    """Return the command that runs mitmdump, mitmweb or mitmproxy with this very interpreter."""
    for folder in (Path(sysconfig.get_path("scripts")), Path(sys.executable).parent):
        found = shutil.which(name, path=str(folder))
        if found:
            return [found]
    return [sys.executable, "-c", f"from mitmproxy.tools.main import {name}; {name}()"]


def replace_process(command: Sequence[str]) -> int:
    """Become another program. Windows cannot, so there it runs as a child, and its exit code is returned."""
    sys.stdout.flush()
    sys.stderr.flush()
    if os.name == "posix":
        os.execv(command[0], list(command))
    return subprocess.call(list(command))


@dataclass(frozen=True, slots=True)
class Proxy:
    """Hold a running mitmdump: where it listens and what it has printed so far."""

    address: Address
    process: subprocess.Popen[bytes]
    _printed: IO[bytes]

    def printed(self) -> str:
        """Return what mitmdump has printed."""
        self._printed.seek(0)
        return self._printed.read().decode(errors="replace")

    def ended(self) -> bool:
        """Tell whether it runs no more."""
        return self.process.poll() is not None


@contextmanager
def proxy(server: Address, *arguments: str, confdir: Path | None = None) -> Iterator[Proxy]:
    """Run mitmdump with the addon in front of a server, on a free port of loopback, until the block ends.

    Args:
        server: What it stands in front of.
        arguments: More arguments for mitmdump.
        confdir: Its configuration folder. Default: one that is empty, so that the user's own settings play no part.

    Raises:
        LaunchError: It ended, or did not listen in time.
    """
    with tempfile.TemporaryDirectory(prefix="toolmend-") as empty, tempfile.TemporaryFile() as printed:
        for tries_left in range(TRIES - 1, -1, -1):
            address = Address("http", "127.0.0.1", ports.free_port())
            command = [
                *program("mitmdump"),
                *("--set", f"confdir={confdir or empty}", "--set", "flow_detail=0", "-s", str(script())),
                *("--mode", f"reverse:{server.origin}", *SAFE, "-p", str(address.port), *arguments),
            ]
            # In a session of its own Ctrl-C does not reach it: we end it, after what we still want to know from it.
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=printed,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            running = Proxy(address, process, printed)
            try:
                if _wait_until_listening(running):
                    yield running
                    return
                if not tries_left:
                    raise LaunchError(f"mitmdump did not start: {running.printed().strip()[-2000:]}")
            finally:
                stop(process)


def _wait_until_listening(running: Proxy) -> bool:
    """Wait until it takes connections. False when it ends first, as it does when another took the port meanwhile."""
    deadline = time.monotonic() + START_SECONDS
    while not running.ended() and time.monotonic() < deadline:
        try:
            socket.create_connection((running.address.host, running.address.port), timeout=1).close()
        except OSError:
            time.sleep(0.05)
        else:
            return not running.ended()
    return False


def stop(process: subprocess.Popen[bytes]) -> None:
    """End a child, gently first, and wait until it has ended."""
    if process.poll() is not None:
        return
    process.terminate()
    try:
        process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()


@contextmanager
def ends_on_terminate() -> Iterator[None]:
    """Make SIGTERM unwind as Ctrl-C does, so that children end with us."""

    def interrupt(number: int, frame: FrameType | None) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGTERM, interrupt)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)
