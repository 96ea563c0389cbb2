"""Load toolmend into mitmproxy: `mitmdump -s addon/toolmend_addon.py`."""

import logging
import re
import sys
from pathlib import Path

from mitmproxy import version

HERE = Path(__file__).resolve().parent
OLDEST_PYTHON = (3, 11)
OLDEST_MITMPROXY = (11, 0, 2)


def find_package() -> None:
    """Make the package importable: it lies beside this file in a checkout, around it where it is installed."""
    if (HERE / "toolmend" / "model.py").is_file():
        # This very package, whatever else is installed.
        sys.path.insert(0, str(HERE))
    elif (HERE.parents[1] / "toolmend" / "model.py").is_file():
        # At the end: the other packages there may be those of another interpreter.
        sys.path.append(str(HERE.parents[1]))


def find_addons() -> list[object]:
    """Return the addons; none, with a warning, where this mitmproxy cannot run them: every flow passes untouched."""
    if sys.version_info < OLDEST_PYTHON:
        return warn(f"this mitmproxy runs on Python {sys.version.split()[0]}, and toolmend needs 3.11 or newer")
    if tuple(int(number) for number in re.findall(r"\d+", version.VERSION)[:3]) < OLDEST_MITMPROXY:
        return warn(f"this is mitmproxy {version.VERSION}, and toolmend needs 11.0.2 or newer")
    find_package()
    try:
        from toolmend.mitm.addon import Toolmend
        from toolmend.mitm.calm import Calm
        from toolmend.mitm.presence import Presence
    except ModuleNotFoundError as error:
        if error.name and error.name.split(".")[0] == "toolmend":
            raise
        return warn(f"this mitmproxy has no {error.name}")
    return [Toolmend(), Presence(), Calm()]


def warn(what: str) -> list[object]:
    """Say what is missing, and the command that works."""
    logging.getLogger("toolmend").warning(
        f"toolmend: {what}, so every flow passes untouched. The standalone binaries cannot load it; install mitmproxy "
        "with it instead: uv tool install --with jsonschema mitmproxy, or pipx install mitmproxy && "
        "pipx inject mitmproxy jsonschema"
    )
    return []


addons = find_addons()
