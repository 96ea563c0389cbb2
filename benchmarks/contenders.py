"""Start what is compared, and read what its process has used: CPU time and memory, from Linux's /proc."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory, TemporaryFile
from typing import IO, Final

ADDON: Final = Path(__file__).resolve().parent.parent / "addon" / "toolmend_addon.py"
BIN: Final = Path(sys.executable).parent
LISTENING: Final = re.compile(r"(?:^|listening at )(?:http://)?(127\.0\.0\.1:\d+)", re.MULTILINE)
PATIENCE: Final = 60.0
MEGABYTE: Final = 1 << 20


@dataclass(frozen=True)
class Contender:
    """Hold one way to the server: its address, its process (None: the server itself), seconds until it listened."""

    name: str
    url: str
    pid: int | None
    started: float

    def cpu(self) -> float:
        """Return the seconds of CPU that its threads have used; 0 for the server itself."""
        if self.pid is None:
            return 0.0
        tasks = Path(f"/proc/{self.pid}/task").glob("*/schedstat")
        return sum(int(task.read_text().split()[0]) for task in tasks) / 1e9

    def memory(self) -> float:
        """Return the memory that is its own, in megabytes."""
        if self.pid is None:
            return 0.0
        found = re.search(r"Private_Dirty: +(\d+)", Path(f"/proc/{self.pid}/smaps_rollup").read_text())
        return int(found[1]) / 1024 if found else 0.0


def mitmdump(upstream: str, confdir: str, *more: str) -> list[str]:
    """Return the command of a mitmdump in front of the server."""
    given = ["--mode", f"reverse:{upstream}", "--listen-host", "127.0.0.1", "-p", "0", "--set", "flow_detail=0"]
    given += ["--set", f"confdir={confdir}", "--set", "keep_host_header=true", *more]
    return [str(BIN / "mitmdump"), *given]


STREAMING: Final = ("--set", "stream_large_bodies=1")
"""Without it plain mitmdump reads an answer to its end before it passes any of it on: no stream is one."""


@contextlib.contextmanager
def running(toolrails: str | None = None, only: str = "") -> Iterator[list[Contender]]:
    """Start the replay and all that stands in front of it; end them all."""
    with contextlib.ExitStack() as stack:
        confdir = stack.enter_context(TemporaryDirectory())
        server = stack.enter_context(process("direct", [sys.executable, str(Path(__file__).parent / "replay.py")]))
        commands = {
            "mitmdump": mitmdump(server.url, confdir),
            "streaming": mitmdump(server.url, confdir, *STREAMING),
            "toolmend": mitmdump(server.url, confdir, "-s", str(ADDON), "--set", "toolmend_quiet=on"),
        }
        port = 0
        if toolrails is not None:
            port = free_port()
            commands["toolrails"] = [toolrails, "--ollama", server.url, "--port", str(port), "--quiet"]
        found = [Contender("direct", server.url, None, server.started)]
        for name, command in commands.items():
            if not only or only == name:
                found.append(stack.enter_context(process(name, command, port if name == "toolrails" else 0)))
        yield found


@contextlib.contextmanager
def process(name: str, command: list[str], port: int = 0) -> Iterator[Contender]:
    """Run a process until the block ends. It has started when it says where it listens, or its port answers."""
    began = time.perf_counter()
    # Into a file: a pipe that nobody reads stops who writes.
    with TemporaryFile() as said:
        running = subprocess.Popen(
            command,
            stdout=said,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            env={**os.environ, "PYTHONUNBUFFERED": "1"},
        )
        try:
            url = _answering(port) if port else _said(said)
            yield Contender(name, url, running.pid, time.perf_counter() - began)
        finally:
            running.terminate()
            running.wait()


def _said(said: IO[bytes]) -> str:
    end = time.perf_counter() + PATIENCE
    while time.perf_counter() < end:
        text = os.pread(said.fileno(), MEGABYTE, 0).decode()
        if found := LISTENING.search(text):
            return f"http://{found[1]}"
        time.sleep(0.002)
    raise RuntimeError("it did not start")


def _answering(port: int) -> str:
    end = time.perf_counter() + PATIENCE
    while time.perf_counter() < end:
        try:
            socket.create_connection(("127.0.0.1", port)).close()
        except ConnectionRefusedError:
            time.sleep(0.01)
        else:
            return f"http://127.0.0.1:{port}"
    raise RuntimeError(f"nothing listens on {port}")


def free_port() -> int:
    """Return a port that is free now."""
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        port: int = found.getsockname()[1]
        return port


def installed_toolrails() -> str | None:
    """Return toolrails' command, None where it is not installed."""
    return shutil.which("toolrails", path=f"{BIN}{os.pathsep}{os.environ.get('PATH', '')}")
