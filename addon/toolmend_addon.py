"""Load toolmend into mitmproxy: `mitmdump -s addon/toolmend_addon.py`."""

import logging
import sys
from pathlib import Path

HERE = Path(__file__).resolve().parent
if (HERE / "toolmend" / "model.py").is_file():
    # A checkout: this very package, whatever else is installed.
    sys.path.insert(0, str(HERE))
elif (HERE.parents[1] / "toolmend" / "model.py").is_file():
    # Inside an installed package. At the end: the other packages there may be those of another interpreter.
    sys.path.append(str(HERE.parents[1]))

try:
    from toolmend.mitm.addon import Toolmend
    from toolmend.mitm.presence import Presence
except ModuleNotFoundError as error:
    if error.name and error.name.split(".")[0] == "toolmend":
        raise
    logging.getLogger("toolmend").warning(
        f"toolmend: this mitmproxy has no {error.name}, so every flow passes untouched. The standalone binaries cannot "
        "load it; install mitmproxy with it instead: uv tool install --with jsonschema mitmproxy, or "
        "pipx install mitmproxy && pipx inject mitmproxy jsonschema"
    )
    addons = []
else:
    addons = [Toolmend(), Presence()]
