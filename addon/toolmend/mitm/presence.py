"""Answer `toolmend doctor`'s question whether a request really came through here.

Only a request that carries the question's header gets the answer's header; everything else passes as it is.
"""

from __future__ import annotations

from typing import Final

from mitmproxy import http, version

from toolmend import __version__
from toolmend.mitm.presence_headers import ANSWER, QUESTION

SEEN: Final = "toolmend_doctor"


class Presence:
    """Take the doctor's question out of a request and put the answer on the response."""

    def requestheaders(self, flow: http.HTTPFlow) -> None:
        """Keep the question from the server."""
        asked = flow.request.headers.pop(QUESTION, None)
        if asked is not None:
            flow.metadata[SEEN] = asked

    def responseheaders(self, flow: http.HTTPFlow) -> None:
        """Say who is here, and give the question's word back."""
        asked = flow.metadata.get(SEEN)
        if asked is not None and flow.response is not None:
            mode = flow.client_conn.proxy_mode.type_name
            flow.response.headers[ANSWER] = f"{__version__}; mitmproxy={version.VERSION}; mode={mode}; word={asked}"
