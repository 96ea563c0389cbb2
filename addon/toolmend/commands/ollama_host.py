"""Read OLLAMA_HOST as Ollama itself reads it, and find the Ollama that it, or the usual place, means.

Source: ollama/envconfig/config.go, `Host` and `ConnectableHost`.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final
from urllib.parse import urlsplit

USUAL_PORT: Final = 11434
MOVED_PORT: Final = 11435
DEFAULT_PORTS: Final = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Address:
    """Hold where a server is. `path` is a prefix of every path there, without slashes at its ends, mostly empty."""

    scheme: str
    host: str
    port: int
    path: str = ""

    @property
    def netloc(self) -> str:
        """Return host and port, an IPv6 address in brackets."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"{host}:{self.port}"

    @property
    def origin(self) -> str:
        """Return the URL without the path."""
        return f"{self.scheme}://{self.netloc}"

    @property
    def url(self) -> str:
        """Return the URL, without a slash at its end."""
        return f"{self.origin}/{self.path}" if self.path else self.origin

    @property
    def is_loopback(self) -> bool:
        """Tell whether it is on this machine's loopback."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host).is_loopback
        except ValueError:
            return False


def parse(text: str) -> Address:
    """Read a value of OLLAMA_HOST: scheme, host, port and path may each be missing. Never fails, as Ollama doesn't.

    An address that means every interface (`0.0.0.0`, `::`, none) becomes loopback, since a client connects to it.
    """
    text = _clean(text)
    scheme, separator, rest = text.partition("://")
    if not separator:
        scheme, rest = "http", text
        if text == "ollama.com":
            scheme, rest = "https", "ollama.com:443"
    default = DEFAULT_PORTS.get(scheme, USUAL_PORT) if separator else USUAL_PORT
    hostport, _, path = rest.partition("/")
    host, port = _split(hostport)
    if port is None:
        host, port = _bare_host(hostport), str(default)
    return Address(scheme, _connectable(host), _port(port, default), path.strip("/"))


def listens_everywhere(text: str) -> bool:
    """Tell whether a server started with this value is open to the network."""
    hostport = _clean(text).rpartition("://")[2].partition("/")[0]
    host, port = _split(hostport)
    try:
        return ipaddress.ip_address((host if port is not None else hostport).strip("[]")).is_unspecified
    except ValueError:
        return port is not None and not host


def _clean(text: str) -> str:
    return text.strip().strip("\"'").strip()


def _split(hostport: str) -> tuple[str, str | None]:
    """Split as Go's net.SplitHostPort does; the port is None where that fails."""
    host, colon, port = hostport.rpartition(":")
    if not colon or "]" in port:
        return hostport, None
    if host.startswith("[") and host.endswith("]"):
        return host[1:-1], port
    return (host, port) if not set(host) & set(":[]") else (hostport, None)


def _bare_host(text: str) -> str:
    try:
        return str(ipaddress.ip_address(text.strip("[]")))
    except ValueError:
        return text or "127.0.0.1"


def _port(text: str, default: int) -> int:
    digits = text.removeprefix("+")
    return int(digits) if digits.isascii() and digits.isdigit() and int(digits) <= 65535 else default


def _connectable(host: str) -> str:
    if not host:
        return "127.0.0.1"
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return host
    if not address.is_unspecified:
        return host
    return "127.0.0.1" if address.version == 4 else "::1"


def from_url(url: str) -> Address:
    """Read a URL given on the command line. Raises ValueError for one without a host or with an impossible port."""
    parts = urlsplit(url if "://" in url else f"http://{url}")
    if parts.scheme not in DEFAULT_PORTS or not parts.hostname:
        raise ValueError(f"{url!r} is no http or https address")
    port = parts.port if parts.port is not None else DEFAULT_PORTS[parts.scheme]
    return Address(parts.scheme, parts.hostname, port, parts.path.strip("/"))


def candidates(environ: Mapping[str, str]) -> list[Address]:
    """List where Ollama may be, the likeliest first.

    With OLLAMA_HOST at the usual place, or unset, Ollama may have made room for toolmend and moved to 11435.
    """
    told = parse(environ.get("OLLAMA_HOST", ""))
    if told.is_loopback and told.port == USUAL_PORT:
        return [Address(told.scheme, told.host, MOVED_PORT, told.path), told]
    return [told]


def room_left(server: Address) -> int:
    """Return the port where toolmend stands in front of a server: the usual one, if the server has left it free."""
    return MOVED_PORT if server.is_loopback and server.port == USUAL_PORT else USUAL_PORT
