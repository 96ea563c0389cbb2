"""In mitmweb a repaired answer is marked, explained, and can be reverted; the questions are flows of their own."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from browser import CHROMIUM, Browser
from fake_ollama import FakeOllama
from web_interface import Web
from wire_clients import CLIENTS

CHAT = CLIENTS["openai-chat"]
SAID = 'toolmend: openai-chat fake:wrong-types: book_table repaired: /guests "4" -> 4, /area "Inside" -> "inside", /wishes parsed from text'
EXPLAINED = """\
toolmend: openai-chat fake:wrong-types: repaired

as the model sent it
  book_table
    guests: "4"
    day: "friday"
    area: "Inside"
    wishes: "[\\"window seat\\", \\"quiet\\"]"

as the agent got it
  book_table
    guests: 4
    day: "friday"
    area: "inside"
    wishes: ["window seat", "quiet"]

repairs
  coerce: /guests "4" -> 4
  coerce: /area "Inside" -> "inside"
  coerce: /wishes parsed from text
"""


@pytest.fixture(scope="module")
def recordings(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("recordings")


@pytest.fixture(scope="module")
def _web(fake_server: FakeOllama, _confdir: Path, recordings: Path) -> Iterator[Web]:
    web = Web(fake_server.url, _confdir)
    try:
        yield web
    finally:
        log = web.stop()
    assert "Traceback" not in log, log


@pytest.fixture
def web(_web: Web, fake: FakeOllama) -> Web:
    _web.post("/clear")
    _web.command("set", "toolmend_record=")
    return _web


def answered(web: Web, scenario: str, stream: bool = False) -> tuple[Any, bytes]:
    """Ask for a call through mitmweb, and return the answer's flow and body."""
    got = CHAT.ask(web.url, f"fake:{scenario}", stream)
    assert CHAT.calls(got)[0][0] == "book_table"
    return ours(web), got.body


def ours(web: Web) -> Any:
    """Return the one flow that is a client's. What is said of an answer is there before its end goes out."""
    (flow,) = [flow for flow in web.flows() if not replayed(flow)]
    return flow


def replayed(flow: Any) -> bool:
    return bool(flow.get("is_replay") == "request")


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_a_repaired_flow_is_marked_and_says_what_was_done(stream: bool, web: Web) -> None:
    flow, body = answered(web, "wrong-types", stream)
    assert (flow["comment"], flow["marked"], flow["modified"]) == (SAID, "🔧", True)
    assert web.body(flow) == body


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_the_view_of_a_repaired_answer_explains_it(stream: bool, web: Web) -> None:
    flow, _ = answered(web, "wrong-types", stream)
    name, text = web.view(flow, "auto")
    assert name == "toolmend"
    assert text.startswith(EXPLAINED)
    assert web.view(flow, "toolmend") == (name, text)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_revert_brings_the_answer_back_as_the_server_sent_it_and_leaves_what_was_said(
    stream: bool, web: Web, fake: FakeOllama
) -> None:
    flow, _ = answered(web, "wrong-types", stream)
    web.post(f"/flows/{flow['id']}/revert")
    reverted = ours(web)
    assert web.body(flow) == bytes(fake.of_kind("chat")[0].sent)
    assert (reverted["comment"], reverted["marked"], reverted["modified"]) == (SAID, "🔧", False)
    assert web.view(flow, "auto")[1].startswith(EXPLAINED)


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
def test_an_answer_that_was_right_is_shown_as_ever(stream: bool, web: Web) -> None:
    flow, body = answered(web, "valid", stream)
    assert (flow["comment"], flow["marked"], flow["modified"]) == ("", "", False)
    assert web.body(flow) == body
    assert web.view(flow, "auto")[0] != "toolmend"


def test_a_question_is_a_flow_that_says_what_it_is(web: Web, fake: FakeOllama) -> None:
    answered(web, "missing")
    (question,) = [flow for flow in web.flows() if replayed(flow) and flow["request"]["method"] == "POST"]
    assert question["comment"] == "toolmend: asks for what is broken, held to the schema"
    assert question["response"]["status_code"] == 200
    sent = web.get(f"/flows/{question['id']}/request/content.data")
    assert sent == fake.of_kind("constrained")[0].body


def test_what_the_server_is_was_asked_in_a_flow_that_says_so(web: Web) -> None:
    web.command("set", "toolmend_upstream=ollama")
    web.command("set", "toolmend_upstream=auto")
    answered(web, "valid")
    (probe,) = [flow for flow in web.flows() if replayed(flow)]
    assert (probe["request"]["path"], probe["comment"]) == ("/api/version", "toolmend: asks what the server is")


def test_the_statistics_are_a_command(web: Web) -> None:
    before = json.loads(web.command("toolmend.stats"))
    answered(web, "wrong-types")
    after = json.loads(web.command("toolmend.stats"))
    changed = {name for name in after if after[name] != before[name]}
    assert changed == {"turns", "repaired", "repaired_by_rung"}
    assert after["turns"] == before["turns"] + 1


def test_explaining_is_a_command(web: Web) -> None:
    answered(web, "wrong-types")
    assert web.command("toolmend.explain", "~comment repaired") + "\n" == EXPLAINED
    assert web.command("toolmend.explain", "~comment nothing-like-it") == "toolmend.explain: no flow given"


def test_recording_is_a_command(web: Web, recordings: Path) -> None:
    answered(web, "wrong-types")
    assert web.command("toolmend.record", "@all") == "toolmend.record: set toolmend_record to a folder first"
    web.command("set", f"toolmend_record={recordings}")
    assert web.command("toolmend.record", "~comment repaired") is None
    web.wait_for(re.compile(r"toolmend: recorded \S+wrong-types\S+\.har"))
    (file,) = recordings.rglob("*.har")
    assert json.loads(file.read_bytes())["log"]["entries"][0]["_toolmend"]["role"] == "original"


@pytest.mark.skipif(CHROMIUM is None, reason="no Chromium is installed: apt-get install chromium")
def test_a_person_sees_it_in_the_page(web: Web, fake: FakeOllama, tmp_path: Path) -> None:
    """The marker in the list, the view that comes first, the comment, and what Revert brings back."""
    answered(web, "wrong-types", stream=True)
    original = bytes(fake.of_kind("chat")[0].sent).decode()

    async def look() -> None:
        async with Browser(tmp_path) as page:
            await page.open(web.page)
            await page.wait_until("document.querySelector('tr td')?.closest('table').innerText.includes('🔧')")
            await page.click("/v1/chat/completions", "tr td")
            await page.click("Response", "nav a")
            shown = await page.wait_until(f"{TEXT}.includes('as the agent got it') && {TEXT}")
            lines, explained = written(shown), written(EXPLAINED)
            start = lines.index(explained[0])
            assert lines[start : start + len(explained)] == explained
            await page.click("Comment", "nav a")
            await page.wait_until(f"{TEXT}.includes({json.dumps(SAID)})")
            await page.click("Response", "nav a")
            await page.click("Revert", "button")
            await page.wait_until(f"{TEXT}.includes({json.dumps(original.splitlines()[0])})")

    asyncio.run(look())


TEXT = "document.body.innerText"


def written(text: str) -> list[str]:
    """Return the lines of a text in which anything stands."""
    return [line for line in text.splitlines() if line.strip()]
