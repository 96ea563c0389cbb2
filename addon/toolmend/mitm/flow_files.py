"""Read mitmproxy's flow files: one flow at a time, as exchanges."""

from __future__ import annotations

from collections.abc import Iterator
from typing import BinaryIO

from mitmproxy import exceptions, http
from mitmproxy.io import FlowReader

from toolmend.extracting import Found
from toolmend.har import Entry, FormatError, Read
from toolmend.mitm.asking import is_question


def read_flows(file: BinaryIO, found: Found) -> Iterator[tuple[Read, ...]]:
    """Read the HTTP exchanges of a flow file.

    A flow that was changed on its way keeps what came (mitmproxy's backup): that is the first of two exchanges then,
    and what the client got the second. Questions of the proxy's own are left out: they belong to another exchange.

    Raises:
        FormatError: The file is none of mitmproxy's, or is cut. What came before has been given.
    """
    try:
        for flow in FlowReader(file).stream():
            found.exchanges += 1
            if isinstance(flow, http.HTTPFlow) and _is_answered(flow):
                yield _exchanges(flow)
    except exceptions.FlowReadException as error:
        raise FormatError(f"no flow file: {error}") from error


def _is_answered(flow: http.HTTPFlow) -> bool:
    return flow.response is not None and flow.request.method == "POST" and not is_question(flow)


def _exchanges(flow: http.HTTPFlow) -> tuple[Read, ...]:
    delivered = _read(flow)
    if not flow.modified():
        return (delivered,)
    flow.revert()
    return _read(flow), delivered


def _read(flow: http.HTTPFlow) -> Read:
    request, response = flow.request, flow.response
    assert response is not None
    body = response.get_content(strict=False) or b""
    end = (response.timestamp_end or request.timestamp_start) - request.timestamp_start
    entry = Entry(
        role="original",
        path=request.path.partition("?")[0],
        request=request.get_content(strict=False) or b"",
        status=response.status_code,
        content_type=response.headers.get("content-type", ""),
        chunks=((body, max(0, round(end * 1000))),) if body else (),
        request_headers=tuple(request.headers.items(multi=True)),
        response_headers=tuple(response.headers.items(multi=True)),
    )
    return Read(entry, {}, request.timestamp_start)
