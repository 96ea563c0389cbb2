"""Whatever breaks inside, the agent gets what it would have got without us, and the log says it once."""

import json
import logging
import re
from collections.abc import Iterator
from typing import Any

import pytest

from fake_ollama import SCENARIOS, TOOL, FakeOllama
from in_process import Got, Running, in_process, post

PATHS = {"ollama-chat": "/api/chat", "openai-chat": "/v1/chat/completions"}
MESSAGE = [{"role": "user", "content": "Book a table."}]
TOOLS = [{"type": "function", "function": TOOL}]

STAGES = {
    "framing": "toolmend.exchange.Framer.feed",
    "the end of framing": "toolmend.exchange.Framer.finish",
    "reading ollama-chat": "toolmend.surfaces.ollama_chat.OllamaChatCodec.read",
    "reading openai-chat": "toolmend.surfaces.openai_chat.OpenAIChatCodec.read",
    "the turn": "toolmend.exchange.TurnBuilder.add",
    "the scanner": "toolmend.exchange.Scanner.feed",
    "the ladder": "toolmend.exchange.repair_turn",
    "the choice": "toolmend.exchange.judge",
    "the follow-up": "toolmend.exchange.Questions.next",
    "asking": "toolmend.mitm.addon.ask",
    "writing ollama-chat": "toolmend.surfaces.ollama_chat.OllamaChatCodec.write",
    "writing openai-chat": "toolmend.surfaces.openai_chat.OpenAIChatCodec.write",
    "the request": "toolmend.mitm.addon.Exchange",
    "the report": "toolmend.mitm.addon.report.line",
    "the recording": "toolmend.mitm.recorder.recordings.dump",
}


def document(scenario: str, stream: bool) -> dict[str, Any]:
    return {"model": f"fake:{scenario}", "messages": MESSAGE, "tools": TOOLS, "stream": stream}


def broken(*args: object, **kwargs: object) -> None:
    raise ZeroDivisionError("broken on purpose")


def told(got: Got) -> list[Any]:
    """Return an answer's frames without what differs from answer to answer by itself."""
    frames = []
    for line in re.sub(r"call_\d{8}", "call", got.body.decode()).splitlines():
        text = line.removeprefix("data: ")
        if text.startswith("{"):
            decoded = json.loads(text)
            frames.append({key: value for key, value in decoded.items() if key not in ("id", "created", "created_at")})
        elif text:
            frames.append(text)
    return frames


@pytest.fixture(scope="module")
def proxy_in_process(fake_server: FakeOllama, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    with in_process(fake_server.url, toolmend_record=str(tmp_path_factory.mktemp("recordings"))) as running:
        yield running


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "stream"])
@pytest.mark.parametrize("surface", PATHS)
@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("scenario", ["leaked-after-text", "missing"])
def test_an_exception_in_a_stage_leaves_the_client_with_the_original_answer(
    stage: str,
    scenario: str,
    surface: str,
    stream: bool,
    fake: FakeOllama,
    proxy_in_process: Running,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    fake.script(SCENARIOS[scenario], SCENARIOS[scenario])
    bare = post(fake.url, PATHS[surface], document(scenario, stream))
    caplog.set_level(logging.INFO, "toolmend")
    monkeypatch.setattr(STAGES[stage], broken)
    got = post(proxy_in_process.url, PATHS[surface], document(scenario, stream))
    if stage in ("the report", "the recording"):
        # The answer was repaired and is out when these begin.
        assert (got.status, got.content_type) == (bare.status, bare.content_type)
    elif (stage, scenario) in (
        ("asking", "leaked-after-text"),
        ("the follow-up", "leaked-after-text"),
        ("the scanner", "missing"),
    ) or (stage == "the scanner" and not stream):
        # Not a stage of this answer: it is repaired as ever.
        assert told(got) != told(bare)
    elif surface not in stage and stage.startswith(("reading", "writing")):
        assert told(got) != told(bare)
    else:
        assert (got.status, got.content_type, told(got)) == (bare.status, bare.content_type, told(bare))
    tracebacks = [record for record in caplog.records if record.exc_info]
    assert len(tracebacks) <= 1
    assert all("broken on purpose" in str(record.exc_info) for record in tracebacks)
