"""The commands that work on recordings, as a person runs them; the page, seen in a real browser; the pytest plugin."""

from __future__ import annotations

import json
import os
import re
import shutil
import struct
import subprocess
import sys
import zlib
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest

from toolmend import cli, html_report, minimizing, recordings

pytest_plugins = ["pytester"]

TESTS = Path(__file__).resolve().parent
FOLDER = TESTS.parent / "recordings"
EXAMPLE = FOLDER / "ollama-chat" / "qwen3-integer-and-lists-as-text.har"
TIMEOUT = 60


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Be in an empty folder."""
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def copy(folder: Path) -> Path:
    """Give a recording of one's own."""
    place = folder / "mine.har"
    shutil.copy(EXAMPLE, place)
    return place


def block_of(file: Path) -> dict[str, Any]:
    block: dict[str, Any] = json.loads(file.read_bytes())["log"]["entries"][0]["_toolmend"]
    return block


def edit(file: Path, **changes: Any) -> None:
    document = json.loads(file.read_bytes())
    block = document["log"]["entries"][0]["_toolmend"]
    block.update(changes)
    document["log"]["entries"][0]["_toolmend"] = {key: value for key, value in block.items() if value is not None}
    file.write_text(json.dumps(document))


# extract

BODY = {
    "model": "qwen3:8b",
    "messages": [{"role": "user", "content": f"Mail {'anne@' + 'kranz.de'} " + "and tell her. " * 30}],
    "tools": [
        {
            "type": "function",
            "function": {
                "name": name,
                "description": "About Anne.",
                "parameters": {
                    "type": "object",
                    "properties": {part: {"type": kind} for part, kind in parts.items()},
                    "required": list(parts),
                },
            },
        }
        for name, parts in {
            "mail": {"to": "string", "copies": "integer"},
            "find": {"text": "string"},
            "stop": {},
        }.items()
    ],
    "stream": True,
}
PIECES = [
    "I will ",
    "write to ",
    "her.",
    "\n<tool_call>\n",
    '{"name": "mail", "argu',
    'ments": {"to": "anne@',
    'kranz.de", "copies": "2"}}',
    "\n</tool_call>",
]


def traffic(*bodies: dict[str, Any]) -> bytes:
    lines = [
        {"model": "qwen3:8b", "message": {"role": "assistant", "content": piece}, "done": False} for piece in PIECES
    ]
    lines.append(
        {
            "model": "qwen3:8b",
            "message": {"role": "assistant", "content": ""},
            "done": True,
            "done_reason": "stop",
            "eval_count": 40,
        }
    )
    entry = {
        "startedDateTime": "2026-07-14T10:00:00Z",
        "time": 5,
        "request": {
            "method": "POST",
            "url": "http://gpu7.kranz.lan:11434/api/chat",
            "headers": [{"name": "Authorization", "value": "Bearer abcdefgh"}],
            "postData": {"text": json.dumps(BODY)},
        },
        "response": {
            "status": 200,
            "headers": [{"name": "content-type", "value": "application/x-ndjson"}],
            "content": {"text": "".join(json.dumps(line) + "\n" for line in lines)},
        },
    }
    return json.dumps({"log": {"entries": [entry] * 3}}).encode()


def test_from_traffic_to_a_small_passing_recording_in_three_commands(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "traffic.har").write_bytes(traffic())
    assert cli.main(["extract", "traffic.har"]) == 0
    said = capsys.readouterr().out
    (file,) = (folder / "recordings").rglob("*.har")
    assert said.splitlines() == [
        file.relative_to(folder).as_posix(),
        "3 exchanges, 3 chats, 3 with tools, 3 worth keeping: 1 written, 2 of faults recorded already",
    ]
    assert re.fullmatch(r"qwen3-8b-mail-recover-coerce-[0-9a-f]{8}\.har", file.name)
    for private in (b"kranz", b"anne", b"Anne", b"abcdefgh", b"gpu7"):
        assert private not in file.read_bytes()

    assert cli.main(["minimize", str(file)]) == 0
    before, after = map(int, re.findall(r"(\d+) bytes before, (\d+) now", capsys.readouterr().out)[0])
    assert after == file.stat().st_size < before
    assert [tool.name for tool in recordings.exchange_of(recordings.load(file.read_bytes())).request.tools] == ["mail"]

    assert cli.main(["accept", str(file)]) == 0
    assert cli.main(["check"]) == 0
    said = capsys.readouterr().out
    assert "1 recordings, 0 failed" in said
    assert [line.split(" ")[0] for line in block_of(file)["expected"]["repairs"]] == ["recover", "recover", "coerce"]


def test_extract_keeps_what_it_has_and_says_what_it_cannot_read(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / "cut.har").write_bytes(traffic()[:-20])
    assert cli.main(["extract", "cut.har", "none.har", "-o", "there"]) == 1
    said = capsys.readouterr()
    assert "cut.har: no HAR file: " in said.err
    assert "none.har: " in said.err
    assert len(list((folder / "there").rglob("*.har"))) == 1


def test_extract_leaves_out_what_is_too_large(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    document = json.loads(traffic())
    content = document["log"]["entries"][0]["response"]["content"]
    line = json.dumps(
        {"model": "qwen3:8b", "message": {"role": "assistant", "content": "x" * 2_000_000}, "done": False}
    )
    content["text"] = line + "\n" + content["text"]
    (folder / "large.har").write_text(json.dumps(document))
    assert cli.main(["extract", "large.har"]) == 0
    said = capsys.readouterr().out
    assert "3 worth keeping: 1 written, 1 of faults recorded already" in said
    assert re.search(r"skipped 1: an answer of qwen3:8b has 20\d{5} bytes, 2000000 are allowed", said)


def test_extract_keeps_prompts_only_when_asked_to(folder: Path) -> None:
    (folder / "traffic.har").write_bytes(traffic())
    assert cli.main(["extract", "traffic.har", "--keep-prompts"]) == 0
    (file,) = (folder / "recordings").rglob("*.har")
    assert b"and tell her." in file.read_bytes()
    assert b"kranz" not in file.read_bytes()


def test_extract_reads_mitmproxys_own_files(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    mitmdump = Path(sys.executable).parent / "mitmdump"
    command = [str(mitmdump), "--set", f"confdir={folder}", "-nr", str(EXAMPLE), "-w", "flows.mitm", "-q"]
    subprocess.run(command, check=True, timeout=TIMEOUT, stdin=subprocess.DEVNULL)
    assert cli.main(["extract", "flows.mitm"]) == 0
    assert "2 exchanges, 2 chats, 2 with tools, 1 worth keeping: 1 written" in capsys.readouterr().out


# check, accept, show


def test_check_shows_a_table_and_fails_with_what_is_wrong(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["check", str(copy)]) == 0
    said = capsys.readouterr().out
    assert re.search(r"✓ +\S*mine\.har +repaired +coerce", said)
    edit(copy, expected={**block_of(copy)["expected"], "faults": ["type /calls/0/arguments/title"]})
    assert cli.main(["check", str(copy)]) == 1
    said = capsys.readouterr().out
    assert "mine.har: outcome-as-expected" in said
    assert "type /calls/0/arguments/title" in said
    assert "1 recordings, 1 failed" in said


def test_check_gives_json_to_scripts(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (copy.parent / "bad.har").write_text("{}")
    assert cli.main(["check", "--json", "."]) == 1
    assert json.loads(capsys.readouterr().out) == [
        {"file": "bad.har", "verdict": "", "done": "", "problems": {"readable": "no HAR file: 'log' is missing"}},
        {"file": "mine.har", "verdict": "repaired", "done": "coerce", "problems": {}},
    ]


@pytest.mark.parametrize("command", ["check", "accept", "show"])
def test_a_file_that_is_not_there_is_said_in_one_line(
    command: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main([command, "nothing"]) == 1
    assert capsys.readouterr().err == f"toolmend {command}: nothing: no such file or folder\n"


def test_check_of_an_empty_folder_is_no_success(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["check", "."]) == 1
    assert "no recordings (*.har) there" in capsys.readouterr().err


def test_accept_writes_what_is_expected_and_shows_the_change(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    expected = block_of(copy)["expected"]
    edit(copy, expected=None)
    assert cli.main(["check", str(copy)]) == 1
    assert "nothing is expected yet: `toolmend accept` writes it" in capsys.readouterr().out
    assert cli.main(["accept", str(copy)]) == 0
    said = capsys.readouterr().out
    assert "mine.har: accepted" in said
    assert '+   "coerce /calls/0/arguments/duration_minutes"' in said.replace("+  ", "+   ")
    assert block_of(copy)["expected"] == expected
    assert copy.read_bytes() == EXAMPLE.read_bytes()
    assert cli.main(["accept", str(copy)]) == 0
    assert capsys.readouterr().out == f"{copy}: as it was\n"


def test_show_says_before_after_and_what_was_done(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["show", str(copy)]) == 0
    said = capsys.readouterr().out
    assert "\x1b" not in said
    before, after = said.split("as the agent got it")
    assert '"duration_minutes": "30"' in before
    assert 'coerce    call 1: /duration_minutes "30" -> 30' in before
    assert '"duration_minutes": 30' in after


def test_show_colours_on_a_terminal(
    copy: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert cli.main(["show", str(copy)]) == 0
    assert "\x1b[" in capsys.readouterr().out


# report


def test_report_writes_a_ready_issue(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["report", str(copy)]) == 0
    said = capsys.readouterr().out
    assert said.startswith(
        "**Model** `qwen3`, **server** ollama 0.40.9, **surface** `ollama-chat`, streamed, **toolmend** "
    )
    for part in (
        "### `create_event`\n\n```json\n{",
        '"duration_minutes": {\n   "type": "integer"',
        '## What the model produced\n\n```\n{"model":"qwen3"',
        '- create_event repaired: /duration_minutes "30" -> 30',
        "## What I expected",
    ):
        assert part in said
    assert cli.main(["report", str(copy), "-o", "issue.md"]) == 0
    assert (copy.parent / "issue.md").read_text() == said


@pytest.mark.parametrize("arguments", [[], ["a.har", "--html", "."]])
def test_report_wants_a_file_or_a_folder(
    arguments: list[str], folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.main(["report", *arguments]) == 2
    assert "give a recording, or --html and a folder" in capsys.readouterr().err


class Page(HTMLParser):
    """Collect what a page loads from elsewhere, and what it says."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.loads: list[str] = []
        self.tags: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.loads += [value or "" for name, value in attrs if name in ("src", "href", "xlink:href")]


def test_the_page_is_one_file_that_loads_nothing(copy: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (copy.parent / "bad.har").write_text("{}")
    assert cli.main(["report", "--html", "."]) == 1
    said = capsys.readouterr()
    assert said.out == "toolmend-report.html: 1 recordings\n"
    assert "bad.har: no HAR file" in said.err
    text = (copy.parent / "toolmend-report.html").read_text()
    page = Page(text)
    assert page.loads == []
    assert "script" not in page.tags
    assert "svg" in page.tags
    assert "url(" not in text
    assert "prefers-color-scheme: dark" in text
    assert "qwen3: 1 repaired" in text


def test_the_page_shows_what_a_model_wrote_and_does_not_run_it() -> None:
    recording = recordings.load(EXAMPLE.read_bytes())
    text = html_report.render([("<script>alert(1)</script>", recording)])
    assert "script" not in Page(text).tags
    assert "&lt;script&gt;" in text


def test_a_page_of_nothing_says_so() -> None:
    assert "There is nothing in this folder yet" in html_report.render([])


@pytest.mark.parametrize(
    ("name", "said"),
    [
        ("generic-json-cut-inside-a-string", ["generic-json: 1 left broken", "cut: 1 left broken"]),
        ("generic-required-choice-not-met", ["generic: 1 followed up", "read_file: 1 followed up"]),
        ("hunyuan-leaked-call", ["hunyuan: 1 repaired", "get_weather: 1 repaired"]),
        ("kimi-valid-string-that-holds-json", ["kimi: 1 valid as sent", "None.", "None: all were valid as sent."]),
    ],
)
def test_the_page_says_how_each_turn_ended(name: str, said: list[str]) -> None:
    text = html_report.render([(name, recordings.load((FOLDER / "openai-chat" / f"{name}.har").read_bytes()))])
    assert [words for words in said if words not in text] == []


CHROMIUM = next(
    (found for name in ("chromium", "chromium-browser", "google-chrome") if (found := shutil.which(name))), None
)


def screenshot(page: Path, *options: str) -> Path:
    picture = page.parent / "page.png"
    quiet = [
        "--no-first-run",
        "--disable-background-networking",
        "--disable-component-update",
        "--disable-sync",
        "--disable-quic",
    ]
    command = [
        str(CHROMIUM),
        "--headless",
        "--no-sandbox",
        "--disable-gpu",
        *quiet,
        f"--user-data-dir={page.parent / 'profile'}",
    ]
    command += ["--hide-scrollbars", "--window-size=1000,700", f"--screenshot={picture}", *options, page.as_uri()]
    subprocess.run(command, check=True, timeout=TIMEOUT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    return picture


def pixels(picture: Path) -> list[bytes]:
    """Read a PNG's pixels, row by row (red, green, blue each)."""
    data = picture.read_bytes()
    width, height, _, kind = struct.unpack(">IIBB", data[16:26])
    size = {2: 3, 6: 4}[kind]
    packed, at = b"", 8
    while at < len(data):
        (length,) = struct.unpack(">I", data[at : at + 4])
        if data[at + 4 : at + 8] == b"IDAT":
            packed += data[at + 8 : at + 8 + length]
        at += 12 + length
    raw, before, rows = zlib.decompress(packed), bytearray(width * size), []
    for index in range(height):
        start = index * (width * size + 1)
        line = bytearray(raw[start + 1 : start + 1 + width * size])
        for place in range(len(line)):
            left = line[place - size] if place >= size else 0
            corner = before[place - size] if place >= size else 0
            line[place] = (line[place] + predicted(raw[start], left, before[place], corner)) & 255
        before = line
        rows.append(b"".join(bytes(line[place : place + 3]) for place in range(0, len(line), size)))
    return rows


def predicted(way: int, left: int, above: int, corner: int) -> int:
    nearest = min(
        (abs(above - corner), 0, left), (abs(left - corner), 1, above), (abs(left + above - 2 * corner), 2, corner)
    )
    return (0, left, above, (left + above) // 2, nearest[2])[way]


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium on this machine")
def test_a_real_browser_shows_the_page_light_and_dark(tmp_path: Path) -> None:
    found = [(file.name, recordings.load(file.read_bytes())) for file in sorted(FOLDER.glob("ollama-chat/*.har"))]
    page = tmp_path / "page.html"
    page.write_text(html_report.render(found))
    light = pixels(screenshot(page))
    dark = pixels(screenshot(page, "--force-dark-mode", "--blink-settings=preferredColorScheme=0"))
    assert light[2][:3] == bytes.fromhex("fbfbfa")
    assert dark[2][:3] == bytes.fromhex("14171b")
    for rows, repaired in ((light, "2f6fd0"), (dark, "5f9bf3")):
        colours = {row[at : at + 3] for row in rows for at in range(0, len(row), 3)}
        assert bytes.fromhex(repaired) in colours


# minimize


def test_fewest_leaves_what_cannot_go() -> None:
    assert minimizing.fewest(list(range(100)), lambda kept: {3, 50, 97} <= set(kept)) == [3, 50, 97]
    assert minimizing.fewest([1, 2, 3], lambda kept: True) == []
    assert minimizing.fewest([1, 2, 3], lambda kept: len(kept) == 3) == [1, 2, 3]
    assert minimizing.fewest([], lambda kept: True) == []


@pytest.mark.parametrize(
    "name",
    [
        "openai-chat/qwen3-coder-leaked-json-with-parameters",
        "anthropic-messages/qwen3-leaked-call-in-a-code-fence",
        "openai-responses/qwen3-tool-name-in-camel-case",
        "ollama-chat/gpt-oss-call-in-the-error-with-single-quotes",
        "ollama-chat/qwen3-swallowed-call-without-closing-tag",
        "anthropic-messages/gpt-oss-required-field-missing",
        "openai-chat/qwen3-valid-template-that-is-only-shown",
    ],
)
def test_what_is_minimized_shows_the_same_and_holds(name: str) -> None:
    recording = recordings.load((FOLDER / f"{name}.har").read_bytes())
    small = recordings.load(recordings.write(minimizing.minimize(recording)))
    assert len(recordings.write(small)) < len(recordings.write(recording))
    assert small.expected is not None
    assert recording.expected is not None
    assert small.expected["repairs"] == recording.expected["repairs"]
    assert small.expected["faults"] == recording.expected["faults"]
    tools = small.document["tools"]
    assert isinstance(tools, list)
    assert len(tools) == 1


def test_minimize_writes_elsewhere_when_asked_to(copy: Path) -> None:
    assert cli.main(["minimize", str(copy), "-o", "small.har"]) == 0
    assert copy.read_bytes() == EXAMPLE.read_bytes()
    assert (copy.parent / "small.har").stat().st_size < EXAMPLE.stat().st_size


# The pytest plugin


def run_pytest(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pytest", "-p", "toolmend.pytest_plugin", "-p", "no:cacheprovider", *arguments]
    path = str(TESTS.parent / "addon")
    return subprocess.run(
        command,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=TIMEOUT,
        check=False,
        env={**os.environ, "PYTHONPATH": path, "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1", "NO_COLOR": "1"},
    )


@pytest.fixture
def theirs(folder: Path) -> Path:
    """Be in another project: a test, a folder with a recording that holds and one that does not, another HAR file."""
    mine = folder / "recorded" / "deep"
    mine.mkdir(parents=True)
    shutil.copy(EXAMPLE, mine / "good.har")
    shutil.copy(EXAMPLE, mine / "bad.har")
    edit(mine / "bad.har", expected={"calls": [], "repairs": [], "faults": []})
    (folder / "test_theirs.py").write_text("def test_theirs():\n    pass\n")
    (folder / "other.har").write_text("{}")
    return folder


def test_another_project_runs_its_own_folder(theirs: Path) -> None:
    folder = theirs
    done = run_pytest(folder, "--toolmend-recordings", "recorded", "test_theirs.py")
    assert "1 failed, 12 passed" in done.stdout, done.stdout + done.stderr
    assert "recorded/deep/bad.har::outcome-as-expected" in done.stdout
    assert "bad.har: --- expected" in done.stdout
    assert "Traceback" not in done.stdout
    assert run_pytest(folder, "test_theirs.py").returncode == 0


def test_a_folder_that_is_not_there_is_a_usage_error(folder: Path) -> None:
    done = run_pytest(folder, "--toolmend-recordings", "nowhere")
    assert done.returncode == 4
    assert "--toolmend-recordings: nowhere is no folder" in done.stderr


def test_the_plugin_gives_a_test_for_each_check_of_each_recording(
    theirs: Path, pytester: pytest.Pytester, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The same, within this process."""
    monkeypatch.setenv("PYTEST_DISABLE_PLUGIN_AUTOLOAD", "1")
    monkeypatch.chdir(theirs)
    plugin = ("-p", "toolmend.pytest_plugin", "-p", "no:cacheprovider")
    ran = pytester.inline_run(*plugin, "--toolmend-recordings", "recorded", "test_theirs.py", f"--rootdir={theirs}")
    passed, skipped, failed = ran.listoutcomes()
    assert (len(passed), skipped) == (12, [])
    (problem,) = failed
    assert problem.nodeid == "recorded/deep/bad.har::outcome-as-expected"
    assert problem.longreprtext.startswith("bad.har: --- expected\n+++ now\n")
    alone = pytester.inline_run(*plugin, "test_theirs.py", f"--rootdir={theirs}")
    alone.assertoutcome(passed=1)
    assert pytester.inline_run(*plugin, "--toolmend-recordings", "nowhere").ret == pytest.ExitCode.USAGE_ERROR
    assert capsys.readouterr().err == "ERROR: --toolmend-recordings: nowhere is no folder\n\n"
