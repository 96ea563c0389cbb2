"""Run mitmweb with the addon and talk to it as its page does."""

from __future__ import annotations

import json
import re
import socket
import urllib.request
from pathlib import Path
from typing import Any

from conftest import MITMDUMP, Proxy
from fake_ollama import TIMEOUT

WEB = re.compile(r"Web server listening at (http://127\.0\.0\.1:\d+/\S*)")

XSRF = "aa"
"""What a page sends twice to show that it is no other site's: as a cookie and as a header."""


def free_port() -> int:
    """Find a port that nothing listens on: mitmweb does not say which one it took itself."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        port: int = server.getsockname()[1]
    return port


class Web(Proxy):
    """Run mitmweb with the addon; its page is at `page`."""

    program = MITMDUMP.with_name("mitmweb")
    listening = re.compile(r"proxy\S* to \S+ listening at (?:http://)?127\.0\.0\.1:(\d+)")

    def __init__(self, server: str, confdir: Path, *options: str) -> None:
        self.arguments = ("--no-web-open-browser", "--web-port", str(free_port()))
        super().__init__(server, confdir, *options)
        self.page = self.wait_for(WEB).group(1)
        self._cookie = ""
        self._opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
        with self._opener.open(self.page, timeout=TIMEOUT) as answer:
            given = [cookie.partition(";")[0] for cookie in answer.headers.get_all("set-cookie", [])]
        self._cookie = "; ".join([*given, f"_xsrf={XSRF}", f"_mitmproxy_xsrf={XSRF}"])

    def get(self, path: str) -> Any:
        """Read from the API: decoded JSON, or bytes."""
        return self._open(urllib.request.Request(self._address(path)))

    def post(self, path: str, document: Any = None) -> Any:
        """Do something by the API."""
        headers = {"X-XSRFToken": XSRF, "Content-Type": "application/json"}
        return self._open(urllib.request.Request(self._address(path), json.dumps(document or {}).encode(), headers))

    def command(self, name: str, *arguments: str) -> Any:
        """Run a command and return its value, or its error as text."""
        answer = self.post(f"/commands/{name}", {"arguments": list(arguments)})
        return answer.get("error", answer.get("value"))

    def flows(self) -> list[Any]:
        """Return the flows that the page lists."""
        found: list[Any] = self.get("/flows")
        return found

    def body(self, flow: Any) -> bytes:
        """Return an answer's body as it is shown."""
        found: bytes = self.get(f"/flows/{flow['id']}/response/content.data")
        return found

    def view(self, flow: Any, name: str) -> tuple[str, str]:
        """Return which view an answer is shown in, and its text."""
        shown = self.get(f"/flows/{flow['id']}/response/content/{name}.json")
        if "lines" in shown:  # mitmproxy 11
            return shown["description"], "\n".join("".join(text for _, text in line) for line in shown["lines"])
        return shown["view_name"], shown["text"]

    def _address(self, path: str) -> str:
        return self.page.partition("?")[0].rstrip("/") + path

    def _open(self, request: urllib.request.Request) -> Any:
        request.add_header("Cookie", self._cookie)
        with self._opener.open(request, timeout=TIMEOUT) as answer:
            data = answer.read()
            return json.loads(data) if "json" in answer.headers.get_content_type() and data else data
