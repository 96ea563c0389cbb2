"""Keep mitmproxy's lines about connections out of the terminal where its lines about flows are not wanted either.

With `flow_detail` 0, which `toolmend` sets, what is left are toolmend's own lines and everything that went wrong.
"""

from __future__ import annotations

import logging
from typing import Final

from mitmproxy import ctx

TALKERS: Final = ("mitmproxy.proxy.server", "mitmproxy.addons.clientplayback")
"""Loggers of the lines `client connect`, `server connect` and their kind."""


class Calm:
    """Let the loggers of connections speak of warnings alone while flow_detail is 0."""

    def configure(self, updated: set[str]) -> None:
        """Follow the option; it belongs to mitmdump, and other programs do not have it."""
        if "flow_detail" in updated:
            _set_level(logging.WARNING if ctx.options.flow_detail == 0 else logging.NOTSET)

    def done(self) -> None:
        """Give the loggers back as they were."""
        _set_level(logging.NOTSET)


def _set_level(level: int) -> None:
    for name in TALKERS:
        logging.getLogger(name).setLevel(level)
