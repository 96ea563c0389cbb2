"""Every way to stand in the middle, as the docs have it: a broken call goes in, a whole one comes out."""

from __future__ import annotations

import contextlib
import datetime
import ipaddress
import json
import os
import platform
import re
import select
import shutil
import socket
import ssl
import subprocess
import sys
import tempfile
import threading
import urllib.error
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

import namespace
from fake_ollama import MEANT, TOOL, FakeOllama
from toolmend.commands import launch, local_mode, ports

PATIENCE = 60
LISTENING = re.compile(r"listening at (?:\S+://)?(127\.0\.0\.1:\d+)")
OLLAMA_PORT = 11434
PROXY_PORT = 8080


class Running:
    """Run `toolmend` with these arguments; `said` is what it has printed."""

    def __init__(
        self,
        command: list[str],
        confdir: Path,
        listeners: int = 1,
        group: int | None = None,
        until: re.Pattern[str] = LISTENING,
    ) -> None:
        self.said = ""
        self.process = subprocess.Popen(
            [*command, "--set", f"confdir={confdir}"],
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
            group=group,
            env={**os.environ, "PYTHONUNBUFFERED": "1", "NO_COLOR": "1", "PYTHONDONTWRITEBYTECODE": "1"},
        )
        while len(until.findall(self.said)) < listeners:
            if not self._read():
                self.stop()
                raise AssertionError(f"it did not start: {self.said}")

    def _read(self) -> bool:
        """Take in what it says next. False when it says nothing more."""
        assert self.process.stdout is not None
        ready, _, _ = select.select([self.process.stdout], [], [], PATIENCE)
        data = os.read(self.process.stdout.fileno(), 1 << 16) if ready else b""
        self.said += data.decode(errors="replace")
        return bool(data)

    def stop(self) -> None:
        """End it, and read what it still says."""
        self.process.terminate()
        self.said += self.process.communicate(timeout=PATIENCE)[0].decode(errors="replace")


@contextlib.contextmanager
def toolmend(
    confdir: Path, *arguments: str, listeners: int = 1, group: int | None = None, until: re.Pattern[str] = LISTENING
) -> Iterator[Running]:
    """Run `toolmend` until the block ends; a traceback in its log is a failure."""
    command = [sys.executable, "-m", "toolmend.cli", *arguments]
    running = Running(command, confdir, listeners, group, until)
    try:
        yield running
    finally:
        running.stop()
    assert "Traceback" not in running.said, running.said


def asked(**members: object) -> bytes:
    """Return the body of a request whose answer has wrong types."""
    body = {
        "model": "fake:wrong-types",
        "stream": False,
        "messages": [{"role": "user", "content": "A table, please."}],
        "tools": [{"type": "function", "function": TOOL}],
    }
    return json.dumps({**body, **members}).encode()


def arguments_in(document: object) -> object:
    """Return the arguments of the one call in an answer of /api/chat."""
    assert isinstance(document, dict)
    (call,) = document["message"]["tool_calls"]
    return call["function"]["arguments"]


def chat(url: str, *, proxy: str | None = None, trust: Path | None = None, **headers: str) -> object:
    """Ask for a table on /api/chat, perhaps by a proxy, and return the call's arguments."""
    handlers: list[urllib.request.BaseHandler] = [
        urllib.request.ProxyHandler({"http": proxy, "https": proxy} if proxy else {})
    ]
    if trust is not None:
        handlers.append(urllib.request.HTTPSHandler(context=ssl.create_default_context(cafile=str(trust))))
    request = urllib.request.Request(f"{url}/api/chat", asked(), headers)
    with urllib.request.build_opener(*handlers).open(request, timeout=PATIENCE) as answer:
        return arguments_in(json.load(answer))


def port_of(url: str) -> int:
    port = urlsplit(url).port
    assert port is not None
    return port


# Several modes at once


@pytest.fixture(scope="module")
def confdir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Give one certificate authority for all proxies of these tests."""
    return tmp_path_factory.mktemp("mitmproxy")


@dataclass(frozen=True)
class Crowd:
    """Where one toolmend listens in several modes at once, the servers behind TLS, and the process."""

    reverse: str
    regular: str
    upstream: str
    to_remote: str
    to_stranger: str
    remote: str
    pid: int


@pytest.fixture(scope="module")
def crowd(fake_server: FakeOllama, confdir: Path) -> Iterator[Crowd]:
    """Run one toolmend in front of the fake, as a proxy, before another proxy, and in front of servers behind TLS."""
    known, stranger = _certificate(confdir / "known.pem"), _certificate(confdir / "stranger.pem")
    outer, *ports_of_ours = (ports.free_port() for _ in range(6))
    plain = [*launch.program("mitmdump"), "--listen-host", "127.0.0.1", "-p", str(outer)]
    with contextlib.ExitStack() as stack:
        remote = stack.enter_context(behind_tls(fake_server.port, known))
        strange = stack.enter_context(behind_tls(fake_server.port, stranger))
        other = Running(plain, confdir / "other")
        stack.callback(other.stop)
        specs = (f"reverse:{fake_server.url}", "regular", f"upstream:http://127.0.0.1:{outer}", f"reverse:{remote}")
        modes = [f"{spec}@{port}" for spec, port in zip((*specs, f"reverse:{strange}"), ports_of_ours, strict=True)]
        running = stack.enter_context(
            toolmend(
                confdir,
                *(word for mode in modes for word in ("--mode", mode)),
                *("--set", f"ssl_verify_upstream_trusted_ca={known}", "--set", "toolmend_filter=~u /api/chat"),
                *("--set", "keep_host_header=true"),
                listeners=len(modes),
            )
        )
        yield Crowd(*(f"http://127.0.0.1:{port}" for port in ports_of_ours), remote=remote, pid=running.process.pid)


def test_reverse_needs_no_change_but_the_port(crowd: Crowd, fake: FakeOllama) -> None:
    assert chat(crowd.reverse) == MEANT[1]
    assert fake.model_calls == 1


def test_regular_serves_clients_that_obey_http_proxy(crowd: Crowd, fake: FakeOllama) -> None:
    assert chat(fake.url, proxy=crowd.regular) == MEANT[1]


def test_upstream_stands_before_another_proxy(crowd: Crowd, fake: FakeOllama) -> None:
    assert chat(fake.url, proxy=crowd.upstream) == MEANT[1]


def test_a_follow_up_goes_the_way_its_request_went(crowd: Crowd, fake: FakeOllama) -> None:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({"http": crowd.upstream}))
    with opener.open(f"{fake.url}/api/chat", asked(model="fake:missing"), timeout=PATIENCE) as answer:
        assert arguments_in(json.load(answer)) == MEANT[1]
    assert len(fake.of_kind("constrained")) == 1


def test_nothing_listens_on_other_interfaces(crowd: Crowd) -> None:
    """Read from the process's own sockets what it listens on."""
    if sys.platform != "linux":
        pytest.skip("the sockets of a process are read from /proc")
    folder = Path("/proc") / str(crowd.pid)
    links = []
    for handle in (folder / "fd").iterdir():
        # One that was open a moment ago may be closed by now; those that listen stay.
        with contextlib.suppress(FileNotFoundError):
            links.append(os.readlink(handle))
    rows = [row.split() for name in ("tcp", "tcp6") for row in (folder / "net" / name).read_text().splitlines()[1:]]
    hosts = [row[1].partition(":")[0] for row in rows if row[3] == ports.LISTENING and f"socket:[{row[9]}]" in links]
    assert hosts == ["0100007F"] * 5


def test_the_server_still_checks_host_and_origin(crowd: Crowd, fake: FakeOllama) -> None:
    """A page that reaches this machine by a name of its own (DNS rebinding) is refused as without the proxy."""
    with pytest.raises(urllib.error.HTTPError) as refused:
        chat(crowd.reverse, Host="evil.example")
    assert refused.value.code == 403
    refused.value.close()
    assert chat(crowd.reverse, Origin="http://evil.example") == MEANT[1]
    assert fake.of_kind("chat")[-1].headers["origin"] == "http://evil.example"
    assert fake.of_kind("chat")[-1].headers["host"] == urlsplit(crowd.reverse).netloc


def test_the_window_in_the_browser_is_the_same_proxy(fake: FakeOllama, confdir: Path) -> None:
    port, window = ports.free_port(), ports.free_port()
    options = ("--set", "web_open_browser=false", "--set", f"web_port={window}")
    with toolmend(confdir, "--web", "--mode", f"reverse:{fake.url}", "-p", str(port), *options, listeners=2) as running:
        assert chat(f"http://127.0.0.1:{port}") == MEANT[1]
    assert f"127.0.0.1:{window}" in running.said


# Clients and HTTP_PROXY


def obeys(command: list[str], proxy: str, target: str) -> bool:
    """Tell whether a client that is told of a proxy asks it for a server on loopback. Nothing listens at the proxy."""
    environ = {"HTTP_PROXY": proxy, "http_proxy": proxy}
    done = subprocess.run(
        [*command, f"{target}/api/version"],
        env={**os.environ, **environ},
        capture_output=True,
        timeout=PATIENCE,
        check=False,
    )
    return done.returncode != 0


PYTHON = "import sys, urllib.request; urllib.request.urlopen(sys.argv[1])"
NODE = "fetch(process.argv[1]).then(answer => answer.text())"


def test_python_and_curl_obey_http_proxy_on_loopback_and_node_does_not(fake: FakeOllama) -> None:
    nobody = f"http://127.0.0.1:{ports.free_port()}"
    assert obeys([sys.executable, "-c", PYTHON], nobody, fake.url)
    if shutil.which("curl"):
        assert obeys(["curl", "--silent"], nobody, fake.url)
    if shutil.which("node"):
        assert not obeys(["node", "-e", NODE], nobody, fake.url)


# TLS


@contextlib.contextmanager
def behind_tls(port: int, certificate: Path) -> Iterator[str]:
    """Put TLS before a port of this machine; gives the URL."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=_serve_tls, args=(listener, context, port))
        thread.start()
        try:
            yield f"https://127.0.0.1:{listener.getsockname()[1]}"
        finally:
            listener.shutdown(socket.SHUT_RDWR)
            thread.join(PATIENCE)


def _certificate(file: Path) -> Path:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "models.example")])
    now = datetime.datetime.now(datetime.UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(days=1))
        .not_valid_after(now + datetime.timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.IPAddress(ipaddress.ip_address("127.0.0.1"))]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
        .sign(key, hashes.SHA256())
    )
    private = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    )
    file.write_bytes(certificate.public_bytes(serialization.Encoding.PEM) + private)
    return file


def _serve_tls(listener: socket.socket, context: ssl.SSLContext, port: int) -> None:
    """Take connections and carry their bytes to a port without TLS, each in a thread of its own."""
    with ThreadPoolExecutor() as threads:
        while True:
            try:
                plain, _ = listener.accept()
            except OSError:
                return
            threads.submit(_unwrap, plain, context, port)


def _unwrap(plain: socket.socket, context: ssl.SSLContext, port: int) -> None:
    with (
        contextlib.suppress(OSError),
        plain,
        context.wrap_socket(plain, server_side=True) as client,
        socket.create_connection(("127.0.0.1", port)) as server,
    ):
        _carry(client, server)


def _carry(client: ssl.SSLSocket, server: socket.socket) -> None:
    ways: dict[socket.socket, socket.socket] = {client: server, server: client}
    while True:
        ready = [client] if client.pending() else select.select([client, server], [], [], PATIENCE)[0]
        for end in ready:
            data = end.recv(65536)
            if not data:
                return
            ways[end].sendall(data)


def test_a_remote_server_is_reached_by_tls(crowd: Crowd, fake: FakeOllama) -> None:
    """Plain HTTP on this machine, TLS to the server, whose certificate is checked."""
    assert chat(crowd.to_remote) == MEANT[1]


def test_an_agent_that_speaks_tls_itself_trusts_mitmproxys_authority(
    crowd: Crowd, fake: FakeOllama, confdir: Path
) -> None:
    assert chat(crowd.remote, proxy=crowd.regular, trust=confdir / "mitmproxy-ca-cert.pem") == MEANT[1]


def test_a_server_with_a_strange_certificate_is_not_talked_to(crowd: Crowd, fake: FakeOllama) -> None:
    with pytest.raises(urllib.error.HTTPError) as refused:
        chat(crowd.to_stranger)
    assert refused.value.code == 502
    refused.value.close()
    assert fake.requests == []


# Transparent, in a network of the test's own

GROUP = 54321
NFT = f"""
table ip toolmend {{
  chain output {{
    type nat hook output priority -100;
    ip daddr 127.0.0.1 tcp dport {OLLAMA_PORT} meta skgid != {GROUP} redirect to :{PROXY_PORT}
  }}
}}
"""
IPTABLES = (
    f"iptables -t nat -A OUTPUT -p tcp -d 127.0.0.1 --dport {OLLAMA_PORT} "
    f"-m owner ! --gid-owner {GROUP} -j REDIRECT --to-ports {PROXY_PORT}"
)
RULES = {
    "nft": (["nft", "-f", "-"], NFT, ["nft", "flush", "ruleset"]),
    "iptables": (IPTABLES.split(), "", ["iptables", "-t", "nat", "-F"]),
}


def test_transparent_catches_an_agent_that_knows_nothing() -> None:
    if reason := namespace.refusal():
        pytest.skip(reason)
    if os.geteuid() != 0:
        pytest.skip("needs root: another group for the proxy")
    firewalls = [name for name in RULES if shutil.which(name)]
    if not firewalls:
        pytest.skip(f"none of {', '.join(RULES)} is installed")
    done = subprocess.run(
        namespace.command(sys.executable, __file__, "transparent", *firewalls),
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE,
        check=False,
    )
    if done.returncode == namespace.REFUSED:
        pytest.skip(f"no redirection in this kernel: {done.stderr.strip()}")
    assert done.returncode == 0, done.stdout + done.stderr


def _transparent(confdir: Path, *firewalls: str) -> None:
    with (
        FakeOllama(port=OLLAMA_PORT) as fake,
        toolmend(confdir, "--mode", "transparent", "-p", str(PROXY_PORT), group=GROUP),
    ):
        for firewall in firewalls:
            command, text, undo = RULES[firewall]
            made = subprocess.run(command, input=text, capture_output=True, text=True, check=False)
            if made.returncode != 0:
                print(made.stderr, file=sys.stderr)
                sys.exit(namespace.REFUSED)
            fake.reset()
            assert chat(fake.url) == MEANT[1]
            request = urllib.request.Request(f"{fake.url}/api/chat", asked(model="fake:missing"))
            with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
                assert arguments_in(json.load(answer)) == MEANT[1]
            # The follow-up's own request was not turned back to the proxy.
            assert [each.kind for each in fake.requests if each.kind != "other"] == ["chat", "chat", "constrained"]
            subprocess.run(undo, check=True)
        assert chat(fake.url) != MEANT[1], "without a rule nothing comes through"


# Local capture


def test_local_capture_says_what_it_lacks(confdir: Path) -> None:
    missing = local_mode.lacking(platform.system(), platform.release(), "11.0.2")
    assert missing == [] or "mitmproxy 12" in missing
    assert local_mode.lacking("Linux", "5.15.0-generic", "12.3.1")[0] == "Linux 6.8"
    assert local_mode.lacking("Darwin", "24.0.0", "11.0.2") == []
    assert local_mode.lacking("Plan9", "4", "12.3.1") == ["Linux or Darwin or Windows"]


CAPTURING = re.compile(r"Local redirector started")
AGENT = """
import sys, urllib.request
print(urllib.request.urlopen(urllib.request.Request(sys.argv[1], sys.stdin.buffer.read())).read().decode())
"""
# mitmproxy's filter is attached to the root of the control groups: here that is one of the test's own.
OWN_CONTROL_GROUP = """
set -e
mount -t cgroup2 none "$1/groups"
mkdir "$1/groups/toolmend-test-$$"
echo $$ > "$1/groups/toolmend-test-$$/cgroup.procs"
umount "$1/groups"
shift
exec unshare --cgroup --mount sh -c 'mount -t cgroup2 none /sys/fs/cgroup && exec "$@"' sh "$@"
"""
# mitmproxy runs its redirector by sudo even for root.
SUDO = """#!/bin/sh
while [ "${1#-}" != "$1" ]; do shift; done
exec "$@"
"""


def test_local_capture_catches_an_agent_by_its_name(tmp_path: Path) -> None:
    if reason := namespace.refusal():
        pytest.skip(reason)
    if os.geteuid() != 0:
        pytest.skip("needs root: it loads a filter into the kernel")
    bin_folder = tmp_path / "bin"
    for folder in (bin_folder, tmp_path / "groups"):
        folder.mkdir()
    if shutil.which("sudo") is None:
        (bin_folder / "sudo").write_text(SUDO)
        (bin_folder / "sudo").chmod(0o755)
    (bin_folder / "table-agent").symlink_to(Path(sys.executable).resolve())
    path = f"{bin_folder}{os.pathsep}{os.environ['PATH']}"
    if missing := [tool for tool in ("unshare", "mount") if shutil.which(tool) is None]:
        pytest.skip(f"needs {' and '.join(missing)}")
    sandbox = ["unshare", "--mount", "sh", "-c", OWN_CONTROL_GROUP, "sh", str(tmp_path)]
    done = subprocess.run(
        namespace.command(*sandbox, sys.executable, __file__, "local", str(bin_folder / "table-agent")),
        env={**os.environ, "PATH": path},
        capture_output=True,
        text=True,
        timeout=2 * PATIENCE,
        check=False,
    )
    if lacks := re.search(r"it lacks .*|mount: .*|unshare: .*", done.stdout + done.stderr):
        pytest.skip(f"no local capture here: {lacks[0]}")
    assert done.returncode == 0, done.stdout + done.stderr


def _local(confdir: Path, agent: str) -> None:
    with (
        FakeOllama(port=OLLAMA_PORT) as fake,
        toolmend(confdir, "--mode", "local:table-agent", until=CAPTURING),
    ):
        command = [agent, "-c", AGENT, f"{fake.url}/api/chat"]
        for _ in range(40):
            # The filter is loaded a moment after it is said to be.
            done = subprocess.run(command, input=asked(), capture_output=True, check=True)
            if arguments_in(json.loads(done.stdout)) == MEANT[1]:
                break
        else:
            raise AssertionError("the agent's requests were never captured")
        assert chat(fake.url) != MEANT[1], "another program's requests were captured, too"


def _inside(what: str, *arguments: str) -> None:
    """Be a test in a network where every port is free."""
    with tempfile.TemporaryDirectory() as folder:
        {"transparent": _transparent, "local": _local}[what](Path(folder), *arguments)


if __name__ == "__main__":
    _inside(*sys.argv[1:])
