"""Stock tools read recordings as they are: real mitmdump processes, without the addon."""

from __future__ import annotations

import asyncio
import io
import json
import os
import re
import subprocess
import sys
import tracemalloc
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
from mitmproxy import http
from mitmproxy.addons import readfile
from mitmproxy.io import FlowReader, FlowWriter
from mitmproxy.test import tflow

from mitmproxy_context import addon_context
from toolmend import extracting, har, recordings
from toolmend.extracting import Found
from toolmend.har import Entry
from toolmend.mitm.flow_files import read_flows

FOLDER = Path(__file__).resolve().parent.parent / "recordings"
FILES = {file.relative_to(FOLDER).as_posix(): file for file in sorted(FOLDER.rglob("*.har"))}
MITMDUMP = Path(sys.executable).parent / "mitmdump"
TIMEOUT = 30
LISTENING = re.compile(r"listening at (?:http://)?127\.0\.0\.1:(\d+)")
EXAMPLE = "ollama-chat/qwen3-integer-and-lists-as-text.har"
ASKED = "ollama-chat/qwen3-swallowed-call-without-closing-tag.har"


@pytest.mark.parametrize("name", FILES)
def test_mitmproxys_own_reader_gives_the_same_exchanges_byte_for_byte(name: str) -> None:
    data = FILES[name].read_bytes()
    flows = list(FlowReader(io.BytesIO(data)).stream())
    assert len(flows) >= 1
    for flow, read in zip(flows, har.read(data), strict=True):
        assert isinstance(flow, http.HTTPFlow)
        assert flow.response is not None
        assert flow.request.raw_content == read.entry.request
        assert flow.request.path == read.entry.path
        assert flow.response.raw_content == read.entry.body
        assert flow.response.status_code == read.entry.status
        assert flow.response.headers["x-toolmend-role"] == read.entry.role


@pytest.mark.parametrize(
    "content_type", ["text/event-stream", "application/json", "text/plain", "application/x-ndjson"]
)
@pytest.mark.parametrize("body", ["caf\u00e9", "\ufeffx", "\u20ac \U0001f600", "a\r\nb", "\x00"])
def test_text_of_every_kind_comes_back_from_mitmproxys_reader(body: str, content_type: str) -> None:
    entry = Entry("original", "/api/chat", b'{"a":"\xc3\xa9"}', 200, content_type, ((body.encode(), 1),))
    (flow,) = FlowReader(io.BytesIO(har.write([(entry, {})], "0"))).stream()
    assert isinstance(flow, http.HTTPFlow)
    assert flow.response is not None
    assert flow.response.raw_content == body.encode()
    assert flow.request.raw_content == entry.request


def mitmdump(tmp_path: Path, *arguments: str) -> str:
    command = [str(MITMDUMP), "--set", f"confdir={tmp_path}", *arguments]
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=TIMEOUT, stdin=subprocess.DEVNULL, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def test_mitmdump_prints_a_recording(tmp_path: Path) -> None:
    said = mitmdump(tmp_path, "-nr", str(FILES[EXAMPLE]), "--flow-detail", "1")
    assert said.count("POST http://127.0.0.1:11434/api/chat") == 2
    assert said.count("200") == 2


def test_a_stock_filter_picks_entries_by_their_role(tmp_path: Path) -> None:
    picked = {
        role: mitmdump(tmp_path, "-nr", str(FILES[ASKED]), "--flow-detail", "1", f"~hs 'Role: {role}'").count("POST")
        for role in ("original", "follow-up", "delivered")
    }
    assert picked == {"original": 1, "follow-up": 1, "delivered": 1}


@contextmanager
def replaying(confdir: Path, file: Path) -> Iterator[str]:
    """Run a stock mitmdump that answers from a recording, and give its address."""
    options = (
        "server_replay_extra=404",
        "server_replay_ignore_port=true",
        f"confdir={confdir}",
        "connection_strategy=lazy",
    )
    settings = [part for option in options for part in ("--set", option)]
    mode = ["--mode", "reverse:http://127.0.0.1:11434", "--listen-host", "127.0.0.1", "-p", "0"]
    process = subprocess.Popen(
        [str(MITMDUMP), *mode, *settings, "--server-replay", str(file)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        stdin=subprocess.DEVNULL,
        text=True,
        env={**os.environ, "PYTHONUNBUFFERED": "1", "NO_COLOR": "1"},
    )
    assert process.stdout is not None
    try:
        found = next(found for line in process.stdout if (found := LISTENING.search(line)))
        yield f"http://127.0.0.1:{found[1]}"
    finally:
        process.terminate()
        process.wait(TIMEOUT)
        process.stdout.close()


def post(url: str, body: bytes) -> tuple[int, bytes]:
    request = urllib.request.Request(url, body, {"content-type": "application/json", "host": "127.0.0.1:11434"})
    with urllib.request.urlopen(request, timeout=TIMEOUT) as answer:
        return answer.status, answer.read()


def test_server_replay_answers_from_a_recording_the_original_answer_first(tmp_path: Path) -> None:
    original, asked, delivered = (read.entry for read in har.read(FILES[ASKED].read_bytes()))
    with replaying(tmp_path, FILES[ASKED]) as url:
        assert post(url + original.path, original.request) == (200, original.body)
        assert post(url + asked.path, asked.request) == (200, asked.body)
        assert post(url + delivered.path, delivered.request) == (200, delivered.body)


def test_mitmwebs_reader_takes_a_recording(monkeypatch: pytest.MonkeyPatch) -> None:
    """mitmweb and mitmproxy load files with this addon."""
    reader = readfile.ReadFile()
    with addon_context(reader) as context:
        loaded: list[Any] = []

        async def keep(flow: Any) -> None:
            loaded.append(flow)

        monkeypatch.setattr(context.master, "load_flow", keep)
        count = asyncio.run(reader.load_flows(io.BytesIO(FILES[ASKED].read_bytes())))
    assert count == len(loaded) == 3


# Recordings from other tools' files

REQUEST = {
    "model": "qwen3:8b",
    "messages": [{"role": "user", "content": "Book it"}],
    "tools": [
        {
            "type": "function",
            "function": {"name": "add", "parameters": {"type": "object", "properties": {"a": {"type": "integer"}}}},
        }
    ],
    "stream": False,
}
ANSWER = b'{"model":"qwen3:8b","message":{"role":"assistant","content":"","tool_calls":[{"id":"c1","function":{"index":0,"name":"add","arguments":{"a":"3"}}}]},"done":true,"done_reason":"stop","eval_count":9}'


def flow_of(path: str = "/api/chat", body: object = REQUEST, answer: bytes = ANSWER) -> http.HTTPFlow:
    flow = tflow.tflow(
        req=http.Request.make("POST", f"http://127.0.0.1:11434{path}", json.dumps(body).encode()),
        resp=http.Response.make(200, answer, {"content-type": "application/json"}),
    )
    assert flow.response is not None
    flow.request.timestamp_start, flow.response.timestamp_end = 1_800_000_000.0, 1_800_000_001.5
    return flow


def flow_file(*flows: http.HTTPFlow) -> io.BytesIO:
    file = io.BytesIO()
    writer = FlowWriter(file)
    for flow in flows:
        writer.add(flow)
    file.seek(0)
    return file


def test_a_flow_file_gives_the_chats_that_were_repaired() -> None:
    valid = ANSWER.replace(b'"3"', b"3")
    without_tools = {key: value for key, value in REQUEST.items() if key != "tools"}
    flows = [
        flow_of(),
        flow_of(answer=valid),
        flow_of(body=without_tools),
        flow_of("/api/tags"),
        tflow.tflow(resp=False),
        flow_of(answer=b""),
    ]
    found = Found()
    (recording,) = extracting.find(read_flows(flow_file(*flows), found), "repaired", found)
    assert recording.original.chunks == ((ANSWER, 1500),)
    assert recording.outcome.turn.calls[0].arguments == {"a": 3}
    assert (found.exchanges, found.chats, found.with_tools, found.kept) == (6, 4, 2, 1)
    assert dict(found.skipped) == {"the answer is empty": 1}


def test_a_flow_that_was_repaired_on_its_way_gives_what_came() -> None:
    flow = flow_of()
    flow.backup()
    assert flow.response is not None
    flow.response.content = ANSWER.replace(b'"3"', b"3")
    found = Found()
    (recording,) = extracting.find(read_flows(flow_file(flow), found), "repaired", found)
    assert recording.original.body == ANSWER


def test_a_flow_file_that_is_cut_gives_what_is_whole_and_says_so() -> None:
    data = flow_file(flow_of(), flow_of()).getvalue()
    found = Found()
    read = extracting.find(read_flows(io.BytesIO(data[:-40]), found), "repaired", found)
    assert next(read).model == "qwen3:8b"
    with pytest.raises(har.FormatError, match="no flow file"):
        next(read)


def har_entry(size: int = 0) -> dict[str, Any]:
    return {
        "startedDateTime": "2026-07-14T10:00:00Z",
        "time": 5,
        "request": {
            "method": "POST",
            "url": "http://localhost:11434/api/chat?x=1",
            "headers": [],
            "postData": {"text": json.dumps(REQUEST)},
        },
        "response": {
            "status": 200,
            "headers": [{"name": "Content-Type", "value": "application/json"}],
            "content": {"text": ANSWER.decode()},
            "comment": "x" * size,
        },
    }


def find_in(file: Any) -> tuple[list[recordings.Recording], Found]:
    found = Found()
    return list(extracting.find(extracting.read_entries(extracting.read_har(file), found), "repaired", found)), found


def test_any_har_file_gives_its_chats() -> None:
    broken = {"startedDateTime": "2026-07-14T10:00:00Z", "request": {}, "response": {}}
    document = {
        "log": {
            "entries": [
                har_entry(),
                broken,
                {**har_entry(), "request": {"method": "GET", "url": "http://x/", "headers": []}},
            ]
        }
    }
    (recording,), found = find_in(io.BytesIO(json.dumps(document).encode()))
    assert recording.original.body == ANSWER
    assert recording.original.path == "/api/chat"
    assert (found.exchanges, found.chats, found.kept) == (3, 1, 1)
    assert sum(found.skipped.values()) == 1


def test_a_recording_gives_itself_again() -> None:
    (recording,), _ = find_in(io.BytesIO(FILES[EXAMPLE].read_bytes()))
    assert recordings.expectation(recording.outcome) == recordings.load(FILES[EXAMPLE].read_bytes()).expected


@pytest.mark.parametrize("data", [b"", b"{", b'{"log": {"entries": [{"a"', b"\x89PNG"])
def test_a_file_that_is_no_har_file_is_a_clear_error(data: bytes) -> None:
    with pytest.raises(har.FormatError, match="no HAR file"):
        find_in(io.BytesIO(data))


class Endless(io.RawIOBase):
    """Be a HAR file of so many entries without holding it."""

    def __init__(self, entries: int) -> None:
        entry = json.dumps(har_entry(20_000)).encode()
        self._parts = iter([b'{"log": {"entries": [', *([entry + b","] * (entries - 1)), entry, b"]}}"])
        self._rest = b""
        self.size = 0

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        self._rest = self._rest or next(self._parts, b"")
        data, self._rest = self._rest[: len(buffer)], self._rest[len(buffer) :]
        buffer[: len(data)] = data
        self.size += len(data)
        return len(data)


def test_a_large_har_file_is_read_in_little_memory() -> None:
    file = Endless(2000)
    tracemalloc.start()
    try:
        found = Found()
        documents = extracting.read_entries(extracting.read_har(io.BufferedReader(file)), found)
        count = sum(1 for _ in documents)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert count == 2000
    assert file.size > 40_000_000
    assert peak < 2_000_000
