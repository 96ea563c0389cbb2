"""Look at a page with a real browser: a headless Chromium, driven by its DevTools protocol.

What is needed for it, tornado's WebSocket client, comes with mitmproxy.
"""

from __future__ import annotations

import asyncio
import base64
import itertools
import json
import re
import shutil
import subprocess
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tornado.httpclient import AsyncHTTPClient
from tornado.websocket import WebSocketClientConnection, websocket_connect

from fake_ollama import TIMEOUT

CHROMIUM = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
)
LISTENING = re.compile(r"DevTools listening on ws://127\.0\.0\.1:(\d+)/")
LARGEST_MESSAGE = 2**26


class Browser:
    """Open one page: `async with Browser(folder) as page`. The folder is for the browser's own files."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._numbers = itertools.count(1)

    async def __aenter__(self) -> Self:
        switches = ["--headless=new", "--no-sandbox", "--disable-gpu", "--no-first-run", "--disable-dev-shm-usage"]
        switches += ["--remote-debugging-port=0", "--window-size=1400,1000"]
        self._process = subprocess.Popen(
            [str(CHROMIUM), *switches, f"--user-data-dir={self._folder}", "about:blank"],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        port = await asyncio.wait_for(asyncio.to_thread(self._port), TIMEOUT)
        tabs = json.loads((await AsyncHTTPClient().fetch(f"http://127.0.0.1:{port}/json/list")).body)
        url = next(tab["webSocketDebuggerUrl"] for tab in tabs if tab["type"] == "page")
        self._socket: WebSocketClientConnection = await websocket_connect(url, max_message_size=LARGEST_MESSAGE)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._socket.close()
        self._process.terminate()
        self._process.wait(TIMEOUT)
        assert self._process.stderr is not None
        self._process.stderr.close()

    def _port(self) -> int:
        assert self._process.stderr is not None
        for line in self._process.stderr:
            if found := LISTENING.search(line):
                return int(found[1])
        raise AssertionError("the browser did not start")

    async def send(self, method: str, **parameters: Any) -> Any:
        """Send a command of the protocol and return its result."""
        number = next(self._numbers)
        await self._socket.write_message(json.dumps({"id": number, "method": method, "params": parameters}))
        while True:
            message = await asyncio.wait_for(self._read(), TIMEOUT)
            assert message is not None, "the browser has gone"
            answer = json.loads(message)
            if answer.get("id") == number:
                assert "error" not in answer, answer
                return answer["result"]

    async def _read(self) -> str | bytes | None:
        return await self._socket.read_message()

    async def open(self, url: str) -> None:
        """Go to a page."""
        await self.send("Page.navigate", url=url)

    async def run(self, script: str) -> Any:
        """Run an expression in the page and return its value."""
        result = await self.send("Runtime.evaluate", expression=script, awaitPromise=True, returnByValue=True)
        assert "exceptionDetails" not in result, result["exceptionDetails"]
        return result["result"].get("value")

    async def wait_until(self, condition: str) -> Any:
        """Wait until an expression is true of the page, as it is drawn anew."""
        script = f"""new Promise((done, fail) => {{
            const look = () => {{ const found = document.body && ({condition}); if (found) done(found); else requestAnimationFrame(look); }};
            setTimeout(() => fail(new Error(document.body.innerText)), {TIMEOUT * 1000 / 2});
            look();
        }})"""
        return await self.run(script)

    async def click(self, text: str, among: str) -> None:
        """Click on the element with this text, once it is there."""
        found = (
            f"[...document.querySelectorAll({json.dumps(among)})].find(e => e.innerText.includes({json.dumps(text)}))"
        )
        await self.wait_until(found + " !== undefined")
        await self.run(found + ".click()")

    async def screenshot(self, file: Path) -> None:
        """Write what is seen as a PNG file."""
        shot = await self.send("Page.captureScreenshot", format="png")
        file.write_bytes(base64.b64decode(shot["data"]))
