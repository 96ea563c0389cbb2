"""`toolmend bench`: raw and through toolmend in turns, a table, a JSON document, and a clean end."""

from __future__ import annotations

import io
import json
import os
import re
import signal
import subprocess
import sys
from itertools import product
from pathlib import Path

import pytest
from rich.console import Console

from fake_ollama import Answer, FakeOllama
from toolmend import cli
from toolmend.commands import bench
from toolmend.commands.bench_tools import TASKS, TOOLS, request
from toolmend.repair.schema import validator
from toolmend.surfaces import SURFACES

PATIENCE = 60
EVENT = {
    "title": "Q3 planning",
    "date": "2026-07-14",
    "duration_minutes": "30",
    "priority": "High",
    "attendees": '["a@example.com", "b@example.com"]',
}
EDIT = {"path": "src/main.py", "create": "false", "edits": [{"line": 3, "old_text": "a", "new_text": "b"}]}
QUERY = {"table": "orders", "columns": ["number"], "filters": [], "order_by": [], "limit": None}
TRIP = {
    "travellers": [{"name": "Ada", "age": 36}],
    "legs": [
        {
            "kind": "flight",
            "from": {"city": "Geneva", "country": "CH"},
            "to": {"city": "Porto", "country": "PT"},
            "bags": "2",
        }
    ],
    "budget": {"amount": 850.5, "currency": "EUR"},
}


@pytest.fixture
def model(fake: FakeOllama) -> FakeOllama:
    """Make the fake answer each task: three with wrong types, one right."""
    for task, arguments in zip(TASKS, (EVENT, EDIT, QUERY, TRIP), strict=True):
        fake.on(json.dumps(task.prompt)[1:-1], Answer(calls=((task.tool, arguments),)))
    return fake


@pytest.mark.parametrize("surface", ["ollama-chat", "anthropic-messages"])
def test_it_counts_usable_calls_raw_and_through_toolmend(
    surface: str, model: FakeOllama, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "bench.json"
    code = cli.main(
        [
            "bench",
            "--model",
            "fake",
            "--trials",
            "2",
            "--url",
            model.url,
            "--json",
            "--out",
            str(out),
            "--surface",
            surface,
        ]
    )
    assert code == 0
    document = json.loads(capsys.readouterr().out)
    assert document == json.loads(out.read_text())
    assert {way: (total["usable"], total["of"]) for way, total in document["totals"].items()} == {
        "raw, whole": (2, 8),
        "toolmend, whole": (8, 8),
        "raw, streamed": (2, 8),
        "toolmend, streamed": (8, 8),
    }
    assert document["complete"] is True
    assert document["follow_ups"] == 0
    assert len(document["results"]) == model.model_calls == 32
    broken = next(each for each in document["results"] if not each["usable"] and each["tool"] == "create_event")
    assert '/duration_minutes is "30", expected integer' in broken["why_not"]
    if surface == "ollama-chat":
        # Both ways get the same seeds.
        assert [received.document["options"]["seed"] for received in model.of_kind("chat")] == [1] * 16 + [2] * 16


def test_a_person_gets_a_table() -> None:
    trials = [
        bench.Trial(task.tool, 0, way, stream, usable=way == "toolmend" or task.tool == "plan_trip", seconds=1.5)
        for task, stream, way in product(TASKS, (False, True), bench.WAYS)
    ]
    console = Console(width=120, file=io.StringIO())
    console.print(bench.table(bench.Plan("ollama-chat", "qwen3:8b", 1, 1), trials, follow_ups=1))
    said = console.file.getvalue()  # type: ignore[attr-defined]
    assert "usable calls of qwen3:8b on ollama-chat" in said
    assert re.search(r"create_event +│ +0/1 │ +1/1 │ +0/1 │ +1/1", said)
    assert re.search(r"all +│ +1/4 │ +4/4 │ +1/4 │ +4/4", said)
    assert re.search(r"median seconds +│ +1\.50 │", said)
    assert "1 follow-up to the model" in said


def test_a_model_that_is_not_there_is_told(fake: FakeOllama, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bench", "--model", "fake:error", "--url", fake.url]) == 1
    assert "the server refuses fake:error: model 'fake:error' not found" in capsys.readouterr().err
    assert fake.model_calls == 1


def test_no_server_is_told(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OLLAMA_HOST", "127.0.0.1:9")
    assert cli.main(["bench", "--model", "m"]) == 1
    assert "no Ollama answers at http://127.0.0.1:9" in capsys.readouterr().err


@pytest.mark.parametrize("arguments", [["--trials", "0"], ["--timeout", "0"]])
def test_impossible_numbers_are_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["bench", "--model", "m", *arguments]) == 2
    assert "must be above 0" in capsys.readouterr().err


@pytest.mark.skipif(os.name == "nt", reason="Windows has no SIGINT for another process")
def test_an_interruption_ends_it_cleanly_with_what_was_measured(model: FakeOllama) -> None:
    """The table of what was done, no traceback, nothing left running."""
    command = [sys.executable, "-m", "toolmend.cli", "bench", "--model", "fake", "--trials", "1000", "--url", model.url]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        model.wait_for("chat", 5)
        children = _children(running.pid)
        running.send_signal(signal.SIGINT)
        out, err = running.communicate(timeout=PATIENCE)
    finally:
        running.kill()
    assert running.returncode == 130
    assert "usable calls of fake" in out
    assert re.search(r"stopped after \d+ of 16000 requests", err)
    assert "Traceback" not in out + err
    assert not [pid for pid in children if Path(f"/proc/{pid}").exists()]


def _children(pid: int) -> list[str]:
    file = Path(f"/proc/{pid}/task/{pid}/children")
    return file.read_text().split() if file.exists() else []


def test_the_schemas_are_met_by_right_calls() -> None:
    schemas = {name: schema for name, _, schema in TOOLS}
    assert [task.tool for task in TASKS] == ["create_event", "edit_file", "query_table", "plan_trip"] == list(schemas)
    right = {
        "create_event": {**EVENT, "duration_minutes": 30, "priority": "high", "attendees": ["a@example.com"]},
        "edit_file": {**EDIT, "create": False},
        "query_table": {**QUERY, "filters": [{"column": "total", "operator": "gt", "value": 99.5}], "limit": 20},
        "plan_trip": {**TRIP, "legs": [{**TRIP["legs"][0], "bags": 2}]},  # type: ignore[dict-item]
    }
    assert {name: validator(schema).faults(right[name]) for name, schema in schemas.items()} == dict.fromkeys(
        schemas, ()
    )


@pytest.mark.parametrize("surface", SURFACES.values(), ids=lambda surface: surface.name)
def test_a_request_is_the_surfaces_own(surface: object) -> None:
    assert hasattr(surface, "read_request")
    document = request(surface.name, "m", "Do it.", stream=True, seed=1)  # type: ignore[attr-defined]
    read = surface.read_request(document)
    assert [tool.name for tool in read.tools] == [name for name, _, _ in TOOLS]
    assert read.stream
