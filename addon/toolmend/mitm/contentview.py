"""Show a repaired flow in mitmweb and mitmproxy: the call as it was sent, as it was delivered, and the steps between.

One view for both forms that mitmproxy has had: 12.x asks a `Contentview` with `prettify(data, metadata)`, 11.x calls a
`View` with keywords. It comes first for the answers of repaired flows, and hides for all others.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any, Final

from mitmproxy import contentviews, flow, http

from toolmend import report
from toolmend.model import JsonObject

ENTRY: Final = "toolmend"
FIRST, HIDDEN = 2.0, -1.0
IS_OLD: Final = not hasattr(contentviews, "Contentview")
_Base: Any = getattr(contentviews, "View" if IS_OLD else "Contentview")  # one of them exists


def keep(found: flow.Flow, entry: JsonObject) -> None:
    """Keep what was done to a flow with the flow. As text: not every value of a model can be saved as it is."""
    found.metadata[ENTRY] = json.dumps(entry)


def explained(found: flow.Flow | None) -> str | None:
    """Explain what was done to a flow; None when nothing was."""
    text = found.metadata.get(ENTRY) if found is not None else None
    return report.explain(json.loads(text)) if isinstance(text, str) else None


def _priority(found: flow.Flow | None, message: object) -> float:
    return FIRST if explained(found) is not None and isinstance(message, http.Response) else HIDDEN


def _lines(text: str, data: bytes) -> list[str]:
    return [*text.splitlines(), "", "the body", *_indented(data).splitlines()]


def _indented(data: bytes) -> str:
    """Write a JSON body with a line for each member; any other as it is."""
    try:
        return json.dumps(json.loads(data), indent=2, ensure_ascii=False)
    except (ValueError, RecursionError):
        return data.decode(errors="replace")


class Toolmend(_Base):  # type: ignore[misc]  # see _Base
    """Show what was done to an answer, above the answer itself."""

    name = "toolmend"
    syntax_highlight = "none"

    def prettify(self, data: bytes, metadata: Any) -> str:
        """Show it in mitmproxy 12. Raises ValueError for a flow that nothing was done to."""
        text = explained(metadata.flow)
        if text is None:
            raise ValueError("nothing was done to this flow")
        return "\n".join(_lines(text, data))

    def __call__(self, data: bytes, **metadata: Any) -> tuple[str, Iterator[list[tuple[str, str]]]]:
        """Show it in mitmproxy 11."""
        lines = _lines(explained(metadata.get("flow")) or "", data)
        return "toolmend", iter([[("text", line)] for line in lines])

    def render_priority(self, data: bytes, metadata: Any = None, **more: Any) -> float:
        """Come first for the answer of a repaired flow, and hide elsewhere."""
        if IS_OLD:
            return _priority(more.get("flow"), more.get("http_message"))
        return _priority(metadata.flow, metadata.http_message)


_VIEW: Final = Toolmend()


def add() -> None:
    """Add the view to mitmproxy; once is enough, and 11.x refuses it twice."""
    remove()
    contentviews.add(_VIEW)


def remove() -> None:
    """Take the view away again."""
    if not IS_OLD:
        # mitmproxy 12 has no call for it.
        contentviews.registry._by_name.pop(_VIEW.name, None)
    elif _VIEW in getattr(contentviews, "views", ()):
        getattr(contentviews, "remove")(_VIEW)  # noqa: B009 - mitmproxy 12 does not have it
