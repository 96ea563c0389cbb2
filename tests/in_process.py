"""Run a whole mitmproxy with the addon inside the test's process, so that a test can break a piece of it."""

from __future__ import annotations

import asyncio
import http.client
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlsplit

from mitmproxy.options import Options
from mitmproxy.tools.dump import DumpMaster

from toolmend.mitm.addon import Toolmend

TIMEOUT = 20.0


class Running:
    """Serve in a thread of its own with an event loop of its own."""

    def __init__(self, upstream: str, **options: Any) -> None:
        self.addon = Toolmend()
        self.url = ""
        self._upstream = upstream
        self._options = options
        self._ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), name="mitmproxy")

    def start(self) -> None:
        self._thread.start()
        assert self._ready.wait(TIMEOUT)

    def stop(self) -> None:
        asyncio.run_coroutine_threadsafe(self._close(), self._loop)
        self._thread.join(TIMEOUT)
        assert not self._thread.is_alive()

    async def _close(self) -> None:
        """Close the sockets first: mitmproxy leaves that to the end of its process."""
        await self._master.addons.get("proxyserver").servers.update([])
        self._master.shutdown()

    async def _run(self) -> None:
        self._loop = asyncio.get_running_loop()
        options = Options(mode=[f"reverse:{self._upstream}"], listen_host="127.0.0.1", listen_port=0)
        self._master = DumpMaster(options, with_termlog=False, with_dumper=False)
        self._master.addons.add(self.addon)
        self._master.options.update(keep_host_header=True, **self._options)
        running = asyncio.create_task(self._master.run())
        server = self._master.addons.get("proxyserver")
        while not server.listen_addrs():
            await asyncio.sleep(0)
            if running.done():
                break
        self.url = "http://{}:{}".format(*server.listen_addrs()[0][:2])
        self._ready.set()
        await running


@contextmanager
def in_process(upstream: str, **options: Any) -> Iterator[Running]:
    running = Running(upstream, **options)
    running.start()
    try:
        yield running
    finally:
        running.stop()


@dataclass(frozen=True)
class Got:
    """Hold an answer as a client got it."""

    status: int
    content_type: str
    body: bytes


def post(base: str, path: str, document: Any, headers: dict[str, str] | None = None) -> Got:
    """Post a body (encoded, unless it is bytes) and read the whole answer."""
    url = urlsplit(base)
    connection = http.client.HTTPConnection(url.hostname or "", url.port, timeout=TIMEOUT)
    try:
        body = document if isinstance(document, bytes) else json.dumps(document).encode()
        connection.request("POST", path, body, {"content-type": "application/json", **(headers or {})})
        response = connection.getresponse()
        return Got(response.status, response.getheader("content-type", ""), response.read())
    finally:
        connection.close()
