"""Tell whether a port is free, and who has it."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import socket
import subprocess
from dataclasses import dataclass
from pathlib import Path

LISTENING = "0A"  # the state of a listening socket in /proc/net/tcp


@dataclass(frozen=True, slots=True)
class Owner:
    """Hold the process that listens on a port: `command` is its command line, or its name where that cannot be read."""

    pid: int
    command: str

    @property
    def is_toolmend(self) -> bool:
        """Tell whether it is mitmproxy with this addon."""
        return "toolmend_addon.py" in self.command

    def __str__(self) -> str:
        """Say it in a few words."""
        words = self.command if len(self.command) <= 80 else self.command[:79] + "…"
        return f"{words} (process {self.pid})"


def is_free(host: str, port: int) -> bool:
    """Tell whether a server can listen there. Raises OSError when the address is not this machine's, or not allowed."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        if os.name == "posix":
            # As asyncio's servers do: connections that are just closing do not keep a port.
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((host, port))
            probe.listen(1)
        except OSError as error:
            if error.errno == errno.EADDRINUSE:
                return False
            raise
    return True


def free_port(host: str = "127.0.0.1") -> int:
    """Find a port that is free now."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.bind((host, 0))
        port: int = probe.getsockname()[1]
    return port


def owner(port: int) -> Owner | None:
    """Find who listens on a port of this machine; None when that cannot be seen."""
    proc = Path("/proc")
    return _owner_in_proc(proc, port) if (proc / "net" / "tcp").exists() else _owner_by_lsof(port)


def _owner_in_proc(proc: Path, port: int) -> Owner | None:
    sockets = {f"socket:[{inode}]" for inode in _listening(proc, port)}
    for folder in proc.iterdir() if sockets else ():
        if not folder.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            if any(os.readlink(handle) in sockets for handle in (folder / "fd").iterdir()):
                return Owner(int(folder.name), _command(folder))
    return None


def _listening(proc: Path, port: int) -> set[str]:
    """Return the inodes of the sockets that listen on a port."""
    found = set()
    for name in ("tcp", "tcp6"):
        with contextlib.suppress(OSError):
            for row in (proc / "net" / name).read_text().splitlines()[1:]:
                fields = row.split()
                if fields[3] == LISTENING and int(fields[1].rpartition(":")[2], 16) == port:
                    found.add(fields[9])
    return found


def _command(folder: Path) -> str:
    words = (folder / "cmdline").read_bytes().rstrip(b"\0").split(b"\0")
    return b" ".join(words).decode(errors="replace") or (folder / "comm").read_text().strip()


def _owner_by_lsof(port: int) -> Owner | None:
    lsof, ps = shutil.which("lsof"), shutil.which("ps")
    if lsof is None or ps is None:
        return None
    pids = _output([lsof, "-nP", "-t", f"-iTCP:{port}", "-sTCP:LISTEN"]).split()
    if not pids:
        return None
    return Owner(int(pids[0]), _output([ps, "-o", "command=", "-p", pids[0]]).strip())


def _output(command: list[str]) -> str:
    try:
        return subprocess.run(command, capture_output=True, text=True, timeout=5, check=False).stdout
    except (OSError, subprocess.TimeoutExpired):
        return ""
