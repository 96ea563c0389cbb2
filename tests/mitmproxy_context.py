"""Give tests mitmproxy's own addon context, with the event loop that it makes closed again."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from mitmproxy.test import taddons


@contextmanager
def addon_context(*addons: Any) -> Iterator[taddons.context]:  # mitmproxy's addons have no common type
    with taddons.context(*addons) as context:
        loop = context.master.event_loop
        try:
            yield context
        finally:
            if not loop.is_running():
                loop.close()
