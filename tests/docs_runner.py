"""Run the commands of one block of the docs, in a network where every port is free.

    python tests/namespace.py python tests/docs_runner.py COMMAND…

A command that ends must end with 0. One that serves is started, asked for a table, and ended; the broken call of the
fake Ollama behind it must come back whole. `ollama serve` is the fake itself.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

from fake_ollama import MEANT, TOOL, FakeOllama

PATIENCE = 100
SERVES = re.compile(
    r"^(?:\w+=\S+ )*(?:toolmend(?= -(?!-help|-version|-path)|$)|mitmdump (?!.*--version)|ollama serve$)"
)
LISTENING = re.compile(rb"listening at|answers as")
FAR = ("models.example", ":3128")
"""What the docs name and is not there: such a proxy is only started."""


def main(commands: list[str]) -> None:
    for command in commands:
        print(f"$ {command}", flush=True)
        if SERVES.match(command):
            _serve(command)
        else:
            _run(command)


def _run(command: str) -> None:
    """Run a command to its end; Ollama has moved to make room, but for the demo, which is shown where none answers."""
    ollama = contextlib.nullcontext() if "toolmend demo" in command else FakeOllama(port=11435)
    with ollama:
        subprocess.run(["bash", "-c", command], check=True, timeout=PATIENCE, stdin=subprocess.DEVNULL)


def _serve(command: str) -> None:
    """Start a server, ask it, end it."""
    itself = command.endswith("ollama serve")
    port = 11435 if itself else _port(command)
    moved = port == 11434 or "11435" in command
    ollama = contextlib.nullcontext() if itself else FakeOllama(port=11435 if moved else 11434)
    with ollama:
        process = subprocess.Popen(
            ["bash", "-c", f"exec env {command}"], stdout=subprocess.PIPE, stderr=subprocess.STDOUT
        )
        try:
            _wait(process)
            if not any(word in command for word in FAR):
                _ask(command, port, itself)
        finally:
            process.send_signal(signal.SIGINT)
            print(process.communicate(timeout=PATIENCE)[0].decode())
    if found := re.search(r"toolmend_(?:log|record)=(\S+)", command):
        assert Path(found[1]).exists(), f"{found[1]} was not written"


def _port(command: str) -> int:
    """Tell on which port a command listens: its own -p, else the one that Ollama has left."""
    found = re.search(r"-p (\d+)", command) or re.search(r"reverse:\S+@(\d+)", command)
    return int(found[1]) if found else 11434


def _wait(process: subprocess.Popen[bytes]) -> None:
    assert process.stdout is not None
    said = b""
    while not LISTENING.search(said):
        ready, _, _ = select.select([process.stdout], [], [], PATIENCE)
        data = os.read(process.stdout.fileno(), 1 << 16) if ready else b""
        assert data, f"it did not start: {said.decode()}"
        said += data
    print(said.decode(), end="")


def _ask(command: str, port: int, itself: bool) -> None:
    """Ask for a table where an agent would."""
    regular = "--mode regular -p" in command
    target = "http://127.0.0.1:11434" if regular else f"http://127.0.0.1:{port}"
    proxies = {"http": f"http://127.0.0.1:{port}"} if regular else {}
    body = {
        "model": "fake:wrong-types",
        "stream": False,
        "messages": [{"role": "user", "content": "A table, please."}],
        "tools": [{"type": "function", "function": TOOL}],
    }
    opener = urllib.request.build_opener(urllib.request.ProxyHandler(proxies))
    request = urllib.request.Request(f"{target}/api/chat", json.dumps(body).encode())
    with opener.open(request, timeout=PATIENCE) as answer:
        (call,) = json.load(answer)["message"]["tool_calls"]
    repaired = call["function"]["arguments"] == MEANT[1]
    assert repaired is not (itself or "toolmend_filter" in command), f"repaired: {repaired}"


if __name__ == "__main__":
    os.environ.pop("OLLAMA_HOST", None)
    main(sys.argv[1:])
