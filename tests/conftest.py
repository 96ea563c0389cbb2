"""Start what the tests talk to: the fake Ollama, and a real mitmdump with the addon in front of it."""

from __future__ import annotations

import contextlib
import os
import re
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import pytest

from fake_ollama import TIMEOUT, FakeOllama
from processes import end

ADDON = Path(__file__).resolve().parent.parent / "addon" / "toolmend_addon.py"
# Beside the interpreter that runs the tests, so that both are of one environment.
MITMDUMP = Path(sys.executable).parent / "mitmdump"
# A shell lets what it starts in the background ignore interruptions, and that is handed on; tests interrupt processes.
signal.signal(signal.SIGINT, signal.default_int_handler)
LISTENING = re.compile(r"listening at (?:http://)?127\.0\.0\.1:(\d+)")


class Proxy:
    """Run a mitmdump process with the addon; its log is kept line by line.

    `url` is where it listens. `options` are given as `--set` on top of those the addon is always run with. `program` and
    its own `arguments` are what mitmproxy's other programs differ in.
    """

    program = MITMDUMP
    listening = LISTENING
    arguments: tuple[str, ...] = ()

    def __init__(self, server: str, confdir: Path, *options: str, scripts: Sequence[Path] = ()) -> None:
        settings = [
            part for option in (f"confdir={confdir}", "keep_host_header=true", *options) for part in ("--set", option)
        ]
        mode = ["--mode", f"reverse:{server}", "--listen-host", "127.0.0.1", "-p", "0"]
        self.lines: list[str] = []
        self._changed = threading.Condition()
        self.process = subprocess.Popen(
            [str(self.program), *self.arguments]
            + [part for script in (ADDON, *scripts) for part in ("-s", str(script))]
            + [*mode, *settings],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            text=True,
            env={**os.environ, "PYTHONUNBUFFERED": "1", "NO_COLOR": "1"},
        )
        self._reader = threading.Thread(target=self._read, name="mitmdump-log")
        self._reader.start()
        self.url = "http://127.0.0.1:" + self.wait_for(self.listening).group(1)

    @property
    def log(self) -> str:
        """Return what was logged so far."""
        return "".join(list(self.lines))

    def wait_for(self, pattern: re.Pattern[str]) -> re.Match[str]:
        """Wait until the log holds this, and return the match."""
        with self._changed:
            self._changed.wait_for(lambda: pattern.search(self.log) or self.process.poll() is not None, TIMEOUT)
        if found := pattern.search(self.log):
            return found
        raise AssertionError(f"mitmdump did not say {pattern.pattern!r}:\n{self.log}")

    def said_since(self, count: int, pattern: str) -> list[str]:
        """Wait until a line after the first so many holds this text, and return those that do."""
        with self._changed:
            self._changed.wait_for(lambda: pattern in "".join(self.lines[count:]), TIMEOUT)
        return [line for line in self.lines[count:] if pattern in line]

    def stop(self) -> str:
        """End the process and return its whole log."""
        end(self.process, TIMEOUT)
        self._reader.join(TIMEOUT)
        return self.log

    def _read(self) -> None:
        stream = self.process.stdout
        assert stream is not None
        with stream:
            for line in stream:
                with self._changed:
                    self.lines.append(line)
                    self._changed.notify_all()
        with self._changed:
            self._changed.notify_all()


@pytest.fixture(scope="session", autouse=True)
def _no_other_proxy() -> Iterator[None]:
    """Keep the clients from going through a proxy of the environment, and agents from reporting anywhere."""
    names = ("http_proxy", "https_proxy", "all_proxy")
    with pytest.MonkeyPatch.context() as patch:
        for name in (*names, *map(str.upper, names)):
            patch.delenv(name, raising=False)
        patch.setenv("OPENAI_AGENTS_DISABLE_TRACING", "1")
        patch.setenv("LANGSMITH_TRACING", "false")
        yield


@pytest.fixture(scope="session")
def fake_server() -> Iterator[FakeOllama]:
    """Serve one fake for all tests; each test takes it fresh as `fake`."""
    with FakeOllama() as server:
        yield server


@pytest.fixture
def fake(fake_server: FakeOllama) -> FakeOllama:
    """Give the fake Ollama with nothing scripted and nothing received."""
    fake_server.reset()
    return fake_server


@pytest.fixture(scope="session")
def _confdir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Make one certificate authority for all proxies, away from the user's own."""
    return tmp_path_factory.mktemp("mitmproxy")


@pytest.fixture(scope="session")
def _shared_proxy(fake_server: FakeOllama, _confdir: Path) -> Iterator[Proxy]:
    with running_proxy(fake_server.url, _confdir) as shared:
        yield shared


@pytest.fixture
def proxy(_shared_proxy: Proxy, fake: FakeOllama) -> Proxy:
    """Give a mitmdump with the addon as it is by default, in front of `fake`; one process serves all tests."""
    return _shared_proxy


@pytest.fixture
def start_proxy(fake: FakeOllama, _confdir: Path) -> Iterator[Callable[..., Proxy]]:
    """Give a function that starts a mitmdump of the test's own: `start_proxy("toolmend_tap=off")`."""
    with contextlib.ExitStack() as stack:
        yield lambda *options, scripts=(): stack.enter_context(
            running_proxy(fake.url, _confdir, *options, scripts=scripts)
        )


@contextlib.contextmanager
def running_proxy(server: str, confdir: Path, *options: str, scripts: Sequence[Path] = ()) -> Iterator[Proxy]:
    """Run a proxy, end it, and fail when anything in it was raised."""
    running = Proxy(server, confdir, *options, scripts=scripts)
    try:
        yield running
    finally:
        log = running.stop()
    if "Traceback" in log or "has crashed" in log:
        raise AssertionError(f"mitmdump logged an error:\n{log}")
