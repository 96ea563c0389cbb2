"""`toolmend doctor`: what it finds, what it says to do, and when it fails."""

from __future__ import annotations

import argparse
import json
import re
from pathlib import Path
from typing import Any

import pytest

from conftest import Proxy
from fake_ollama import FakeOllama
from toolmend import cli
from toolmend.commands import doctor, find_ollama, models, ports
from toolmend.commands.models import Model
from toolmend.commands.ollama_host import from_url

NOBODY = "http://127.0.0.1:9"


def examine(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, dict[str, list[dict[str, str]]], Any]:
    """Run the doctor and return its exit code, its checks by name, and its models."""
    code = cli.main(["doctor", "--json", *arguments])
    document = json.loads(capsys.readouterr().out)
    checks: dict[str, list[dict[str, str]]] = {}
    for check in document["checks"]:
        checks.setdefault(check["name"], []).append(check)
    assert document["ok"] is (code == 0)
    return code, checks, document["models"]


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> None:
    """Leave out the run of mitmdump, but in the test that is about all of it."""
    if request.function is not test_a_request_is_sent_and_found_in_the_proxy:
        monkeypatch.setattr(doctor, "check_repair", lambda: doctor.Check("addon", "ok", ""))


def test_a_request_is_sent_and_found_in_the_proxy(
    proxy: Proxy, fake: FakeOllama, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OLLAMA_HOST", fake.url)
    _, checks, found = examine(capsys, "--url", proxy.url)
    assert checks["path"][0]["level"] == "ok"
    assert re.fullmatch(
        rf"a request to {proxy.url} was sent and found in toolmend \S+ \(mitmproxy \S+, reverse mode\)",
        checks["path"][0]["said"],
    )
    assert checks["ollama"][0]["said"] == f"Ollama 0.12.0 answers at {fake.url}"
    assert checks["addon"][0]["said"] == "a lost call was sent through mitmdump with toolmend, and came back whole"
    assert checks["streams"][0]["level"] == "ok"
    assert found == [
        {
            "name": "fake:valid",
            "calls_tools": True,
            "path": "Ollama's parser qwen3",
            "window": 32768,
            "trained": None,
            "loaded": True,
        }
    ]
    assert fake.model_calls == 0


def test_the_question_does_not_reach_the_server(proxy: Proxy, fake: FakeOllama) -> None:
    assert find_ollama.look(from_url(proxy.url)) is not None
    (received,) = [each for each in fake.requests if each.path == "/api/version"]
    assert not [name for name in received.headers if name.startswith("x-toolmend")]


def test_a_server_without_toolmend_in_front_is_told(
    fake: FakeOllama, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OLLAMA_HOST", fake.url)
    _, checks, _ = examine(capsys, "--url", fake.url)
    assert checks["path"][0]["level"] == "warning"
    assert "toolmend is not in the path" in checks["path"][0]["said"]


def test_no_ollama_is_wrong(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("OLLAMA_HOST", NOBODY)
    code, checks, found = examine(capsys, "--url", NOBODY)
    assert code == 1
    assert checks["ollama"][0]["said"] == f"no Ollama answers at {NOBODY}"
    assert checks["ollama"][0]["do"] == "start it: ollama serve"
    assert checks["path"][0]["level"] == "warning"
    assert found == []


@pytest.mark.parametrize(
    ("told", "said"),
    [
        ("11435", "11435 alone is a host's name for Ollama"),
        ("0.0.0.0", "a server started with 0.0.0.0 is open to the whole network"),
    ],
)
def test_what_ollama_host_may_not_mean_is_told(told: str, said: str) -> None:
    checks = list(doctor.check_told_address({"OLLAMA_HOST": told}))
    assert [check.said for check in checks if check.level == "warning"] == [said]


def test_a_taken_port_is_told_with_its_owner(fake: FakeOllama, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor.ollama_host, "room_left", lambda server: fake.port)
    check = doctor.check_port(from_url(fake.url))
    assert check.level == "wrong"
    assert check.said.startswith(f"{fake.port} is taken by ")
    monkeypatch.setattr(doctor.ollama_host, "room_left", lambda server: ports.free_port())
    assert doctor.check_port(from_url(fake.url)).level == "ok"


@pytest.mark.parametrize(
    ("version", "level"), [("11.0.1", "wrong"), ("11.0.2", "ok"), ("12.3.1", "ok"), ("9.0", "wrong")]
)
def test_mitmproxy_must_be_new_enough(version: str, level: str) -> None:
    assert doctor.check_mitmproxy(version).level == level


# Models


@pytest.mark.parametrize(
    ("name", "shown", "path"),
    [
        ("a:cloud", {}, "cloud: read on the far side"),
        ("b:20b-cloud", {}, "cloud: read on the far side"),
        ("c", {"remote_host": "https://far.example"}, "cloud: read on the far side"),
        ("d", {"details": {"format": "safetensors"}}, "MLX: no schema can hold it"),
        ("e", {"modelfile": "FROM x\nRENDERER qwen3.5\nPARSER qwen3.5\n"}, "Ollama's parser qwen3.5"),
        (
            "f",
            {"details": {"family": "gptoss"}, "template": "<|start|>{{ .System }}<|end|>"},
            "Ollama's parser harmony",
        ),
        ("g", {"details": {"family": "gptoss"}, "template": "{% for m in messages %}"}, "llama.cpp's own parser"),
        ("h", {"template": "{{ if .Tools }}{{ .Tools }}{{ end }}"}, "Ollama's generic parser"),
        ("i", {}, "unknown"),
    ],
)
def test_the_path_by_which_calls_are_read(name: str, shown: dict[str, Any], path: str) -> None:
    assert models.parser_path(name, shown) == path


def test_a_models_own_window_and_the_largest_it_was_made_for(fake: FakeOllama) -> None:
    fake.show = {
        "details": {"format": "gguf"},
        "capabilities": ["completion"],
        "parameters": 'stop "<|im_end|>"\nnum_ctx                        4096',
        "model_info": {"qwen3.context_length": 40960},
    }
    (model,) = models.all_models(from_url(fake.url))
    # It is loaded with more than its own parameter says: that is what counts.
    assert model == Model("fake:valid", calls_tools=False, path="unknown", window=32768, trained=40960, loaded=True)


def test_no_model_that_calls_tools_is_told() -> None:
    assert doctor.check_tools([Model("a", calls_tools=False, path="")]).said == "none of 1 models calls tools"
    assert doctor.check_tools([Model("a", calls_tools=True, path="")]).level == "ok"


def test_a_small_window_is_the_commonest_cause_of_invented_tools() -> None:
    small = Model("small", calls_tools=True, path="", window=4096)
    silent = [
        Model("chat", calls_tools=False, path="", window=2048),
        Model("wide", calls_tools=True, path="", window=32768),
    ]
    (check,) = doctor.check_windows([small, *silent], None)
    assert check.said == "small has a context window of 4096 tokens: too small for the tools of most agents"
    assert "OLLAMA_CONTEXT_LENGTH" in check.do


def test_a_request_is_weighed_against_the_windows(
    fake: FakeOllama, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OLLAMA_HOST", fake.url)
    file = tmp_path / "request.json"
    file.write_text(json.dumps({"tools": [{"description": "long " * 30_000}], "messages": [], "model": "m" * 10_000}))
    _, checks, _ = examine(capsys, "--request", str(file), "--url", fake.url)
    assert checks["request"][0]["said"] == "the request takes about 42863 tokens"
    assert checks["window"][0]["said"] == "fake:valid has a context window of 32768 tokens: too small for this request"
    file.write_text("{}")
    _, checks, _ = examine(capsys, "--request", str(file), "--url", fake.url)
    assert "window" not in checks


# The surroundings


def test_a_proxy_of_the_environment_is_tried(
    fake: FakeOllama, start_regular: Proxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    agents = from_url(fake.url)
    environ = {"HTTP_PROXY": start_regular.url}
    monkeypatch.setenv("HTTP_PROXY", start_regular.url)
    monkeypatch.setenv("http_proxy", start_regular.url)
    (check,) = doctor.check_proxy_variables(environ, agents)
    assert (check.level, check.said) == (
        "ok",
        f"clients that obey HTTP_PROXY={start_regular.url} come through toolmend",
    )
    monkeypatch.setenv("http_proxy", NOBODY)
    (check,) = doctor.check_proxy_variables({}, agents)
    assert check.level == "warning"
    assert check.do == "Python clients send even 127.0.0.1 there, unless NO_PROXY=127.0.0.1 is set"
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    assert list(doctor.check_proxy_variables({}, agents)) == []


@pytest.fixture
def start_regular(fake: FakeOllama, tmp_path: Path) -> Any:
    """Run a mitmdump with the addon in regular mode."""
    from conftest import running_proxy

    with running_proxy(fake.url, tmp_path, "mode=regular") as running:
        yield running


def test_local_capture_is_told_with_what_it_lacks() -> None:
    assert "it lacks mitmproxy 12" in doctor.check_local_mode("Linux", "6.12.0", "11.0.2").said
    assert "leaves out connections inside this machine" in doctor.check_local_mode("Windows", "11", "12.3.1").said
    assert "should work here" in doctor.check_local_mode("Darwin", "24", "12.3.1").said


def test_for_a_person_it_is_a_table(
    fake: FakeOllama, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("OLLAMA_HOST", fake.url)
    monkeypatch.setenv("COLUMNS", "160")
    doctor.run(argparse.Namespace(json=False, url=fake.url, request=None))
    said = capsys.readouterr().out
    assert re.search(rf"✓ ollama +Ollama 0\.12\.0 answers at {fake.url}", said)
    assert re.search(r"fake:valid +yes +Ollama's parser qwen3 +32768 \(loaded\)", said)
    assert "\x1b" not in said


@pytest.mark.parametrize("arguments", [["--url", "ftp://x"], ["--request", "/nowhere/at/all"]])
def test_wrong_arguments_are_told(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["doctor", *arguments]) == 2
    assert capsys.readouterr().err.startswith("toolmend doctor: ")
