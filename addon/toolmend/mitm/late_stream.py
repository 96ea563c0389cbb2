"""Add the one thing mitmproxy's streaming lacks: an awaited hook before the end of a streamed answer.

mitmproxy calls `flow.response.stream` synchronously, and its `response` hook comes when the body is already out. Here a
subclass of its `HttpStream` yields a hook of our own before the end of the message, and only then lets mitmproxy call
the stream callable with `b""`. It rests on names that mitmproxy does not document, so `self_test` drives an HTTP layer
through one chunked answer at start, without sockets; where it fails, streams go on without follow-ups.

Source: mitmproxy/proxy/layers/http/__init__.py, alike in 9.0.1 to 12.3.1.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from mitmproxy import http
from mitmproxy.connection import Client, ConnectionState, Server
from mitmproxy.options import Options
from mitmproxy.proxy import commands, events, layer
from mitmproxy.proxy.context import Context
from mitmproxy.proxy.layers import http as http_layer
from mitmproxy.proxy.layers.http._events import (
    RequestProtocolError,
    ResponseData,
    ResponseEndOfMessage,
    ResponseProtocolError,
)
from mitmproxy.proxy.layers.http._hooks import HttpResponseHeadersHook
from mitmproxy.proxy.mode_specs import ProxyMode

logger = logging.getLogger(__name__)


@runtime_checkable
class LateStream(Protocol):
    """Describe a stream callable that wants to be awaited before its end."""

    def __call__(self, data: bytes) -> list[bytes]:
        """Take in a chunk and return what goes out; `b""` is the end."""

    def waits(self) -> bool:
        """Tell, once and at the end of the answer, whether it has to wait for `toolmend_late_stream`."""

    def holds(self) -> bool:
        """Tell whether there may be something to give out when the server breaks off."""

    gone: Callable[[], bool]
    """Tells whether the client has left while the hook waits (a reset of one HTTP/2 stream has no event of its own)."""


@dataclass
class ToolmendLateStreamHook(commands.StartHook):
    """Wait for the addon before a streamed answer ends: `async def toolmend_late_stream(self, flow)`."""

    flow: http.HTTPFlow


ENDS = (ResponseEndOfMessage, ResponseProtocolError)


class LateHttpStream(http_layer.HttpStream):
    """Hold the end of a streamed answer until the addon has said what it is."""

    def _handle_event(self, event: events.Event) -> layer.CommandGenerator[None]:
        # Every chunk of every answer comes through here: what has nothing to wait for costs one look.
        return self._ended(event) if isinstance(event, ENDS) else super()._handle_event(event)

    def _ended(self, event: events.Event) -> layer.CommandGenerator[None]:
        filter_ = self._filter()
        broke_off = isinstance(event, ResponseProtocolError)
        if filter_ is not None and broke_off and filter_.holds():
            # The server broke off: what is held goes out before the client sees the break.
            yield from super()._handle_event(ResponseData(self.stream_id, b""))
        elif filter_ is not None and not broke_off and filter_.waits():
            filter_.gone = self._client_left
            yield ToolmendLateStreamHook(self.flow)
        yield from super()._handle_event(event)

    def _filter(self) -> LateStream | None:
        response = getattr(getattr(self, "flow", None), "response", None)
        stream = response.stream if response else None
        return stream if isinstance(stream, LateStream) else None

    def _client_left(self) -> bool:
        return any(isinstance(event, RequestProtocolError) for event in self._paused_event_queue)


PLAIN = http_layer.HttpStream


def install(options: Options) -> bool:
    """Put the stream with the late hook in mitmproxy's place. Returns whether the self-test passed."""
    http_layer.HttpStream = LateHttpStream  # type: ignore[misc]  # the one place where a class of mitmproxy is replaced
    if self_test(options):
        return True
    remove()
    return False


def remove() -> None:
    """Give mitmproxy its own stream back."""
    http_layer.HttpStream = PLAIN  # type: ignore[misc]


class _Probe:
    """Hold back the end of an answer, as the addon's filter does."""

    def __init__(self) -> None:
        self.gone: Callable[[], bool] = lambda: False

    def __call__(self, data: bytes) -> list[bytes]:
        if data:
            return [data] if data == b"text" else []
        return [b"mended"]

    def waits(self) -> bool:
        return True

    def holds(self) -> bool:
        return True


def self_test(options: Options) -> bool:
    """Drive an HTTP layer through one chunked answer and see that text, hook, repaired end come in this order."""
    try:
        return _drive(options) == ["text", "hook", "mended", "end"]
    except Exception:
        logger.debug("toolmend: the self-test of late streaming failed", exc_info=True)
        return False


ANSWER = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\ntext\r\n4\r\ncall\r\n0\r\n\r\n"
REQUEST = b"GET http://late.invalid/ HTTP/1.1\r\nHost: late.invalid\r\n\r\n"


def _drive(options: Options) -> list[str]:
    client = Client(
        peername=("127.0.0.1", 1),
        sockname=("127.0.0.1", 2),
        timestamp_start=0,
        state=ConnectionState.OPEN,
        proxy_mode=ProxyMode.parse("regular"),
    )
    context = Context(client, options)
    top = http_layer.HttpLayer(context, http_layer.HTTPMode.regular)
    seen: list[str] = []
    queue: list[events.Event] = [events.Start(), events.DataReceived(client, REQUEST)]
    while queue:
        for command in top.handle_event(queue.pop(0)):
            queue += _answer(command, client, seen)
    return seen


def _answer(command: commands.Command, client: Client, seen: list[str]) -> list[events.Event]:
    """Do what the proxy would do with one command of the layer, and note what the client sees."""
    if isinstance(command, commands.OpenConnection):
        command.connection.state = ConnectionState.OPEN
        return [events.OpenConnectionCompleted(command, None)]
    if isinstance(command, commands.SendData):
        if isinstance(command.connection, Server):
            return [events.DataReceived(command.connection, ANSWER)]
        seen += [word for word in ("text", "mended") if word.encode() in command.data]
        if command.data.endswith(b"0\r\n\r\n"):
            seen.append("end")
    elif isinstance(command, ToolmendLateStreamHook):
        seen.append("hook")
    elif isinstance(command, HttpResponseHeadersHook) and command.flow.response:
        command.flow.response.stream = _Probe()
    if isinstance(command, commands.StartHook):
        return [events.HookCompleted(command)]
    return []
