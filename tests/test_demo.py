"""`toolmend demo`: a real mitmdump in front of recorded answers, and what a person and a script see of it."""

from __future__ import annotations

import html
import importlib
import json
import re
import sys
from pathlib import Path

import pytest

from toolmend import cli
from toolmend.commands import demo, demo_server
from toolmend.commands.http_client import Call, send
from toolmend.surfaces import SURFACES

DOCS = Path(__file__).resolve().parents[1] / "docs"


@pytest.fixture(scope="module")
def shown() -> list[demo.Shown]:
    """Run the whole demo once."""
    return list(demo.exchanges(demo_server.load()))


def test_every_broken_call_comes_back_whole(shown: list[demo.Shown]) -> None:
    wrong = {each.recorded.title: [fault.message for fault in each.mended.faults] for each in shown if not each.right}
    assert wrong == {}


def test_every_exchange_but_the_last_is_broken_as_it_came(shown: list[demo.Shown]) -> None:
    usable = [each.raw_is_right for each in shown]
    assert usable == [False] * 12 + [True]
    assert shown[-1].same_bytes
    assert shown[-1].said == ""


def test_all_four_surfaces_are_shown_whole_and_streamed(shown: list[demo.Shown]) -> None:
    seen = {(each.recorded.surface, each.recorded.stream) for each in shown}
    assert {surface for surface, _ in seen} == {surface.name for surface in SURFACES.values()}
    assert len(seen) == 8


def test_what_was_done_is_said(shown: list[demo.Shown]) -> None:
    assert 'create_event repaired: /duration_minutes "30" -> 30, /attendees parsed from text' in shown[0].said
    assert all(each.said for each in shown[:-1])


@pytest.fixture
def ran(shown: list[demo.Shown], monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the command show what was run already."""
    by_prompt = {each.recorded.prompt: each for each in shown}
    monkeypatch.setattr(demo, "exchanges", lambda recorded: (by_prompt[each.prompt] for each in recorded))


@pytest.mark.usefixtures("ran")
def test_the_command_draws_both_sides(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "120")
    assert cli.main(["demo"]) == 0
    said = capsys.readouterr().out
    assert re.search(r"straight from the server +through toolmend", said)
    assert re.search(r'duration_minutes: "30" +duration_minutes: 30', said)
    assert "1 of 13 answers were usable as they came, 13 of 13 through toolmend." in said
    assert "\x1b" not in said


@pytest.mark.usefixtures("ran")
def test_a_script_gets_json(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["demo", "--only", "13", "--json"]) == 0
    (entry,) = json.loads(capsys.readouterr().out)
    assert entry["same_bytes"] is True
    assert [call["name"] for call in entry["mended"]["calls"]] == ["read_file", "read_file"]


def test_the_list_runs_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["demo", "--list"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 13


def test_a_number_that_is_not_there_is_told(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["demo", "--only", "99"]) == 2
    assert "there are 1 to 13, not 99" in capsys.readouterr().err


def test_a_mitmdump_that_does_not_start_is_told(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    broken = [sys.executable, "-c", "import sys; sys.exit('no such thing')"]
    monkeypatch.setattr(demo.launch, "program", lambda name: broken)
    assert cli.main(["demo", "--only", "1"]) == 1
    assert "mitmdump did not start: no such thing" in capsys.readouterr().err


def test_the_server_gives_the_very_bytes_in_their_pieces() -> None:
    recorded = demo_server.load()[4]
    with demo_server.serve([recorded]) as address:
        answer = send(address, Call(recorded.path, recorded.request), 10)
    assert answer.body == b"".join(recorded.chunks)
    assert answer.content_type == "text/event-stream"


def test_what_was_not_recorded_is_not_answered() -> None:
    with demo_server.serve(demo_server.load()) as address:
        assert send(address, Call("/api/chat", {"model": "qwen3", "messages": []}), 10).status == 404
        assert send(address, Call("/api/tags"), 10).status == 404
        assert send(address, Call("/"), 10).body == b"Ollama is running"


@pytest.mark.parametrize(
    ("schema", "said"),
    [
        (
            {"properties": {"name": {"const": "f"}, "arguments": {"type": "object"}}},
            {"name": "f", "arguments": {"a": 1, "b": 2}},
        ),
        (
            {"properties": {"name": {"enum": ["f"]}, "arguments": {"properties": {"b": {}}}}},
            {"name": "f", "arguments": {"b": 2}},
        ),
        ({"properties": {"a": {"type": "integer"}}}, {"a": 1}),
        (
            {
                "anyOf": [
                    {"properties": {"name": {"const": "g"}, "arguments": {}}},
                    {"properties": {"name": {"const": "f"}, "arguments": {"properties": {"a": {}}}}},
                ]
            },
            {"name": "f", "arguments": {"a": 1}},
        ),
        ({"properties": {"name": {"const": "g"}, "arguments": {}}}, {}),
    ],
)
def test_a_question_is_answered_with_what_was_meant(schema: dict[str, object], said: object) -> None:
    assert demo_server.fitting(schema, [{"name": "f", "arguments": {"a": 1, "b": 2}}]) == said  # type: ignore[arg-type]


def test_the_picture_is_the_demos(shown: list[demo.Shown], monkeypatch: pytest.MonkeyPatch) -> None:
    """It is drawn anew, and says the same: `python docs/make_picture.py` makes it."""
    monkeypatch.syspath_prepend(DOCS)
    drawn = importlib.import_module("make_picture").draw(shown)
    picture = (DOCS / "demo.svg").read_text(encoding="utf-8")
    assert words_of(drawn) == words_of(picture), "run: python docs/make_picture.py"
    assert not re.search(r"https?://(?!www\.w3\.org|www\.textualize\.io)", picture), "a picture loads nothing"


def words_of(svg: str) -> list[str]:
    return [html.unescape(text) for text in re.findall(r"<text[^>]*>([^<]*)</text>", svg)]
