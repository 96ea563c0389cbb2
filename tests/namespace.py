"""Run a command in a network of its own: loopback and nothing else, every port free.

    python tests/namespace.py COMMAND [ARGUMENT…]

Linux alone; needs root or user namespaces. Exits with 77 and a reason on stderr where the system does not allow it.
"""

from __future__ import annotations

import ctypes
import os
import socket
import struct
import subprocess
import sys
from functools import cache
from pathlib import Path

CLONE_NEWUSER = 0x10000000
CLONE_NEWNET = 0x40000000
SIOCSIFFLAGS = 0x8914
IFF_UP = 1
REFUSED = 77


def enter() -> None:
    """Move this process into a new network namespace and bring its loopback up. Raises OSError."""
    import fcntl  # not on every system

    libc = ctypes.CDLL(None, use_errno=True)
    user, group = os.geteuid(), os.getegid()
    flags = CLONE_NEWNET if user == 0 else CLONE_NEWNET | CLONE_NEWUSER
    if libc.unshare(flags) != 0:
        raise OSError(ctypes.get_errno(), "unshare: " + os.strerror(ctypes.get_errno()))
    if user != 0:
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"0 {user} 1")
        Path("/proc/self/gid_map").write_text(f"0 {group} 1")
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as control:
        fcntl.ioctl(control, SIOCSIFFLAGS, struct.pack("16sh14x", b"lo", IFF_UP))


def command(*words: str) -> list[str]:
    """Return the command that runs another in a network of its own."""
    return [sys.executable, __file__, *words]


@cache
def refusal() -> str | None:
    """Say why there are no namespaces here; None when there are."""
    if sys.platform != "linux":
        return f"network namespaces are Linux's, this is {sys.platform}"
    tried = subprocess.run(command("true"), capture_output=True, text=True, check=False)
    return None if tried.returncode == 0 else f"no network namespace: {tried.stderr.strip()}"


if __name__ == "__main__":
    try:
        enter()
    except OSError as error:
        print(error, file=sys.stderr)
        sys.exit(REFUSED)
    os.execvp(sys.argv[1], sys.argv[1:])
