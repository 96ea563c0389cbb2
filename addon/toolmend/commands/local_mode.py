"""Tell whether mitmproxy can capture a process of this machine (`--mode local:NAME`), and what it lacks.

Source: mitmproxy's documentation of the mode; mitmproxy_rs, which runs its redirector by sudo even for root.
"""

from __future__ import annotations

import re
import shutil
from typing import Final

MITMPROXY: Final = (12,)
LINUX: Final = (6, 8)
SYSTEMS: Final = ("Linux", "Darwin", "Windows")


def numbers(version: str) -> tuple[int, ...]:
    """Return the first three numbers of a version."""
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])


def lacking(system: str, release: str, mitmproxy: str) -> list[str]:
    """Name what local capture needs and this machine lacks; empty where it should work.

    Args:
        system: As `platform.system()` names it.
        release: The kernel's release.
        mitmproxy: Its version.
    """
    if system not in SYSTEMS:
        return [" or ".join(SYSTEMS)]
    if system != "Linux":
        return []
    needs = {
        "mitmproxy 12": numbers(mitmproxy) >= MITMPROXY,
        "Linux 6.8": numbers(release) >= LINUX,
        "sudo": shutil.which("sudo") is not None,
    }
    return [what for what, is_there in needs.items() if not is_there]
