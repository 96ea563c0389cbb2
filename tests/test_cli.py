"""The console command: what it does with each kind of argument, what it says, and its exit codes."""

from __future__ import annotations

import json
import os
import re
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path

import pytest

import namespace
from fake_ollama import MEANT, TOOL, FakeOllama
from toolmend import cli
from toolmend.commands import find_ollama, launch, ollama_host, ports, start
from toolmend.commands.ollama_host import Address

TESTS = Path(__file__).resolve().parent
PATIENCE = 60


def toolmend(*arguments: str, inside: bool = False, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run the command to its end, with an environment that names no Ollama."""
    command = [sys.executable, "-m", "toolmend.cli", *arguments]
    kept = {key: value for key, value in os.environ.items() if key != "OLLAMA_HOST"}
    return subprocess.run(
        namespace.command(*command) if inside else command,
        env={**kept, "NO_COLOR": "1", "COLUMNS": "100", **environ},
        capture_output=True,
        text=True,
        timeout=PATIENCE,
        check=False,
        stdin=subprocess.DEVNULL,
    )


needs_namespaces = pytest.mark.skipif(namespace.refusal() is not None, reason=str(namespace.refusal()))


# OLLAMA_HOST, as Ollama's own tests have it


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("", "http://127.0.0.1:11434"),
        ("1.2.3.4", "http://1.2.3.4:11434"),
        (":1234", "http://127.0.0.1:1234"),
        ("1.2.3.4:1234", "http://1.2.3.4:1234"),
        ("example.com", "http://example.com:11434"),
        ("example.com:1234", "http://example.com:1234"),
        ("1.2.3.4:66000", "http://1.2.3.4:11434"),
        ("1.2.3.4:-1", "http://1.2.3.4:11434"),
        ("1.2.3.4:", "http://1.2.3.4:11434"),
        ("[::1]", "http://[::1]:11434"),
        ("::1", "http://[::1]:11434"),
        ("[::1]:1337", "http://[::1]:1337"),
        ("[::]:11435", "http://[::1]:11435"),
        ("0.0.0.0", "http://127.0.0.1:11434"),
        ("0.0.0.0:8080", "http://127.0.0.1:8080"),
        ('"1.2.3.4"', "http://1.2.3.4:11434"),
        ("'1.2.3.4'", "http://1.2.3.4:11434"),
        ("  1.2.3.4  ", "http://1.2.3.4:11434"),
        ("http://1.2.3.4", "http://1.2.3.4:80"),
        ("https://1.2.3.4", "https://1.2.3.4:443"),
        ("http://1.2.3.4:4321", "http://1.2.3.4:4321"),
        ("https://example.com/ollama/", "https://example.com:443/ollama"),
        ("example.com/ollama", "http://example.com:11434/ollama"),
        ("ollama.com", "https://ollama.com:443"),
        ("http://0.0.0.0:11435", "http://127.0.0.1:11435"),
        # A bare number is a host's name for Ollama, too.
        ("11435", "http://11435:11434"),
    ],
)
def test_ollama_host_is_read_as_ollama_reads_it(text: str, url: str) -> None:
    assert ollama_host.parse(text).url == url


@pytest.mark.parametrize(
    ("text", "everywhere"),
    [
        ("0.0.0.0", True),
        ("[::]:11434", True),
        ("http://0.0.0.0:1", True),
        (":8080", True),
        ("127.0.0.1", False),
        ("", False),
    ],
)
def test_a_value_that_opens_ollama_to_the_network_is_told(text: str, everywhere: bool) -> None:
    assert ollama_host.listens_everywhere(text) is everywhere


def test_ollama_is_looked_for_where_it_moves_to_make_room() -> None:
    assert [address.url for address in ollama_host.candidates({})] == [
        "http://127.0.0.1:11435",
        "http://127.0.0.1:11434",
    ]
    assert [address.url for address in ollama_host.candidates({"OLLAMA_HOST": "10.0.0.7"})] == ["http://10.0.0.7:11434"]


@pytest.mark.parametrize(
    ("server", "port"), [("127.0.0.1:11434", 11435), ("127.0.0.1:11435", 11434), ("10.0.0.7", 11434)]
)
def test_toolmend_takes_the_usual_port_where_ollama_has_left_it(server: str, port: int) -> None:
    assert ollama_host.room_left(ollama_host.parse(server)) == port


@pytest.mark.parametrize("url", ["ftp://host", "http://", "http://host:99999"])
def test_an_impossible_url_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        ollama_host.from_url(url)


# Arguments


def test_arguments_go_to_mitmdump_as_they_are() -> None:
    given = start.read(["--mode", "regular", "-q", "-w", "flows", "--set", "toolmend_tap=on", "~u chat"])
    assert given.rest == ("--mode", "regular", "-q", "-w", "flows", "--set", "toolmend_tap=on", "~u chat")
    assert given.program == "mitmdump"
    assert given.quiet


@pytest.mark.parametrize(("switch", "program"), [("--web", "mitmweb"), ("--tui", "mitmproxy")])
def test_the_window_is_chosen_by_a_switch_of_our_own(switch: str, program: str) -> None:
    given = start.read([switch, "-p", "1"])
    assert (given.program, given.rest) == (program, ("-p", "1"))


def planned(fake: FakeOllama, *arguments: str) -> tuple[list[str], str]:
    plan = start.plan(start.read(arguments), {"OLLAMA_HOST": fake.url})
    return list(plan.arguments), "\n".join(plan.lines)


def test_the_defaults_are_safe(fake: FakeOllama) -> None:
    arguments, _ = planned(fake, "-p", str(ports.free_port()))
    text = " ".join(arguments)
    assert "--listen-host 127.0.0.1" in text
    assert "--set keep_host_header=true" in text
    assert f"--mode reverse:{fake.url}" in text
    assert arguments[:2] == ["-s", str(launch.script())]


def test_what_is_given_wins_over_the_defaults(fake: FakeOllama) -> None:
    arguments, _ = planned(
        fake, "--listen-host", "0.0.0.0", "-p", str(ports.free_port()), "--set", "keep_host_header=false"
    )
    assert "127.0.0.1" not in arguments
    assert arguments.count("--listen-host") == arguments.count("-p") == 1
    assert "keep_host_header=true" not in arguments


def test_a_mode_that_is_given_is_not_second_guessed(fake: FakeOllama) -> None:
    port = ports.free_port()
    arguments, said = planned(fake, "--mode", f"regular@{port}", "--mode", "reverse:https://models.example:443@7000")
    assert said == ""
    assert [arguments[at + 1] for at, word in enumerate(arguments) if word == "--mode"] == [
        f"regular@{port}",
        "reverse:https://models.example:443@7000",
    ]
    assert "--listen-host" in arguments
    # A server behind a name may need its own Host header.
    assert "keep_host_header=true" not in arguments


def test_the_host_header_is_kept_in_front_of_this_machine(fake: FakeOllama) -> None:
    arguments, _ = planned(fake, "--mode", f"reverse:{fake.url}@7000")
    assert "keep_host_header=true" in arguments


def test_it_says_where_to_point_agents(fake: FakeOllama) -> None:
    port = ports.free_port()
    _, said = planned(fake, "-p", str(port))
    assert f"Ollama 0.12.0 at {fake.url}" in said
    assert f"http://127.0.0.1:{port}/v1" in said
    assert "OLLAMA_HOST is set here" in said


def test_a_taken_port_is_told_with_its_owner_and_what_to_do(fake: FakeOllama) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen(1)
        port = taken.getsockname()[1]
        with pytest.raises(start.StartError) as caught:
            planned(fake, "-p", str(port))
    said = str(caught.value)
    assert f"port {port} on 127.0.0.1 is taken by" in said
    assert f"(process {os.getpid()})" in said or sys.platform != "linux"
    assert f"toolmend -p {port + 1}" in said


def test_the_port_of_ollama_itself_is_not_taken_from_it(fake: FakeOllama) -> None:
    with pytest.raises(start.StartError, match=r"Ollama's own(.|\n)*OLLAMA_HOST=127\.0\.0\.1:11435 ollama serve"):
        planned(fake, "-p", str(fake.port))


@pytest.mark.parametrize("port", ["no", "-1", "65536"])
def test_what_is_no_port_is_refused(fake: FakeOllama, port: str) -> None:
    with pytest.raises(start.StartError, match="is no port"):
        planned(fake, f"--listen-port={port}")


def test_an_address_that_is_not_this_machines_is_refused(fake: FakeOllama) -> None:
    with pytest.raises(start.StartError, match=r"cannot listen on 192\.0\.2\.1"):
        planned(fake, "--listen-host", "192.0.2.1", "-p", "8080")


# The command


def test_help_names_every_command_and_fits_the_screen() -> None:
    done = toolmend("--help", COLUMNS="80")
    assert done.returncode == 0
    for name in cli.COMMANDS:
        assert re.search(rf"^  {name} +\S", done.stdout, re.MULTILINE)
    assert max(map(len, done.stdout.splitlines())) <= 90


@pytest.mark.parametrize("name", [*cli.COMMANDS, "start"])
def test_every_command_has_a_help_of_its_own(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        code = cli.main([name, "--help"])
    except SystemExit as ended:
        code = int(ended.code or 0)
    assert code == 0
    said = capsys.readouterr().out
    assert said.startswith(f"usage: toolmend {name}")
    assert cli.summary(name) in " ".join(said.split())


def test_the_version_names_what_runs(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--version"]) == 0
    assert re.fullmatch(r"toolmend \d+\.\d+\.\d+, mitmproxy \d+\.\S+, Python 3\.\S+\n", capsys.readouterr().out)


def test_the_path_is_a_file_that_mitmproxy_loads(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--path"]) == 0
    path = Path(capsys.readouterr().out.strip())
    assert path.name == "toolmend_addon.py"
    assert "addons = find_addons()" in path.read_text()


def test_a_mistyped_command_is_told_and_not_started(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["docter"]) == 2
    assert "did you mean doctor?" in capsys.readouterr().err


def test_a_missing_value_is_a_wrong_argument(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["--listen-port"]) == 2
    assert "--listen-port" in capsys.readouterr().err


def test_an_interrupted_command_ends_with_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(given: list[str]) -> int:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "_dispatch", interrupted)
    assert cli.main(["demo"]) == 130


def test_output_that_nobody_reads_is_no_error() -> None:
    command = f"{sys.executable} -m toolmend.cli --help | true"
    done = subprocess.run(["sh", "-c", command], capture_output=True, text=True, check=False)
    assert done.stderr == ""


@needs_namespaces
def test_without_ollama_it_says_so_and_points_at_the_demo() -> None:
    done = toolmend(inside=True)
    assert done.returncode == 1
    assert done.stdout == ""
    assert "no Ollama answers at http://127.0.0.1:11435 and http://127.0.0.1:11434" in done.stderr
    assert "toolmend demo" in done.stderr


@needs_namespaces
def test_where_ollama_has_moved_no_agent_changes_anything() -> None:
    """Ollama on 11435: toolmend takes 11434, on loopback alone, and a second one says that it already stands there."""
    done = subprocess.run(
        namespace.command(sys.executable, __file__), capture_output=True, text=True, timeout=PATIENCE, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr


def chat(url: str) -> object:
    """Ask for a table, on /api/chat, and return the calls' arguments."""
    body = {
        "model": "fake:wrong-types",
        "stream": False,
        "messages": [{"role": "user", "content": "A table, please."}],
        "tools": [{"type": "function", "function": TOOL}],
    }
    request = urllib.request.Request(f"{url}/api/chat", json.dumps(body).encode())
    with urllib.request.urlopen(request, timeout=PATIENCE) as answer:
        return [call["function"]["arguments"] for call in json.load(answer)["message"]["tool_calls"]]


def listening() -> set[str]:
    """Return the addresses on which anything listens here."""
    rows = [row.split() for row in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    rows += [row.split() for row in Path("/proc/net/tcp6").read_text().splitlines()[1:]]
    return {row[1].rpartition(":")[0] for row in rows if row[3] == "0A"}


def _inside() -> None:
    """Be the test above, where every port is free."""
    os.environ.pop("OLLAMA_HOST", None)
    with FakeOllama(port=11435) as fake:
        running = subprocess.Popen(
            [sys.executable, "-m", "toolmend.cli"], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        try:
            assert running.stderr is not None
            assert f"stands in front of Ollama 0.12.0 at {fake.url}" in running.stderr.readline()
            assert "Agents that use http://127.0.0.1:11434 need no change." in running.stderr.readline()
            assert running.stdout is not None
            while "listening at" not in (line := running.stdout.readline()):
                assert line, "it ended"
            assert chat("http://127.0.0.1:11434") == [MEANT[1]]
            assert listening() == {"0100007F"}
            found = find_ollama.look(Address("http", "127.0.0.1", 11434))
            assert found is not None
            assert found.behind is not None
            second = toolmend()
            assert second.returncode == 1
            assert "already stands in front of Ollama 0.12.0, on http://127.0.0.1:11434" in second.stderr
        finally:
            running.terminate()
            said = running.communicate(timeout=PATIENCE)[0]
        assert fake.model_calls == 1
        assert 'book_table repaired: /guests "4" -> 4' in said
        assert "client connect" not in said


if __name__ == "__main__":
    _inside()
