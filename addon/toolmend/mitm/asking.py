"""Send a question through mitmproxy itself, on a copy of the flow, and wait for the reply without blocking anyone.

`ReplayHandler` follows TLS, upstream proxies and every mode, shows the question as a flow, and can be cancelled so that
the server sees it at once. The copy keeps the host of its request: a question never goes anywhere else.
"""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable

from mitmproxy import ctx, http
from mitmproxy.addons.clientplayback import ReplayHandler

from toolmend.model import JsonObject
from toolmend.upstreams import Reply

ASKED_FOR = "toolmend_asked_for"
POLL_SECONDS = 0.2
DROPPED_HEADERS = ("content-encoding", "transfer-encoding", "expect", "accept-encoding", "if-none-match")


def is_question(flow: http.HTTPFlow) -> bool:
    """Tell whether a flow is a question of ours: it is never repaired again."""
    return ASKED_FOR in flow.metadata


async def ask(
    flow: http.HTTPFlow,
    path: str,
    document: JsonObject | None,
    comment: str,
    timeout: float,
    gone: Callable[[], bool] = lambda: False,
) -> Reply | None:
    """Ask the flow's server a question.

    Args:
        flow: The flow that it is asked for; headers and host are its own.
        path: Path of the question on the same server.
        document: Body to be posted, or None for a GET.
        comment: What the question's own flow says of itself.
        timeout: Seconds to wait. Past that the question is cancelled, upstream too.
        gone: Tells whether the client has left; then the question is cancelled at once.

    Returns:
        The reply, or None when none came.
    """
    question = _question(flow, path, document)
    question.comment = comment
    handler = ReplayHandler(question, ctx.options)
    task = asyncio.create_task(handler.replay())
    deadline = asyncio.get_running_loop().time() + timeout
    try:
        while not task.done() and not gone():
            left = deadline - asyncio.get_running_loop().time()
            if left <= 0:
                break
            await asyncio.wait({task}, timeout=min(left, POLL_SECONDS))
    finally:
        await _end(task, handler)
    response = question.response
    if response is None or task.cancelled() or question.error is not None:
        return None
    body = response.get_content(strict=False) or b""
    headers = response.headers
    return Reply(response.status_code, headers.get("content-type", ""), body, headers.get("server", ""))


def _question(flow: http.HTTPFlow, path: str, document: JsonObject | None) -> http.HTTPFlow:
    question: http.HTTPFlow = flow.copy()
    question.response = question.error = None
    question.is_replay = "request"
    question.marked = ""
    question.metadata = {ASKED_FOR: flow.id}
    question.request.path = path
    for header in DROPPED_HEADERS:
        question.request.headers.pop(header, None)
    if document is None:
        question.request.method = "GET"
        question.request.content = b""
    else:
        question.request.headers["content-type"] = "application/json"
        question.request.content = json.dumps(document, ensure_ascii=False).encode("utf-8", "surrogatepass")
    return question


async def _end(task: asyncio.Task[None], handler: ReplayHandler) -> None:
    """Cancel what still runs: the transports first, so that the server sees the connection close."""
    if task.done():
        return
    for transport in list(handler.transports.values()):
        if transport.handler is not None:
            transport.handler.cancel()
    task.cancel()
    await asyncio.wait({task}, timeout=1)
