"""Every file under recordings/ is a test; and what a recording is: from an exchange, to a file, and back."""

from __future__ import annotations

import base64
import gzip
import io
import json
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from toolmend import checking, extracting, har, recordings
from toolmend.checking import CHECKS
from toolmend.har import Entry, FormatError, Read
from toolmend.model import Fault, Outcome, Repair, Turn
from toolmend.recordings import Recording, TooLarge, dump, expectation, file_name, load, replay, worth_keeping

FOLDER = Path(__file__).resolve().parent.parent / "recordings"
FILES = {file.relative_to(FOLDER).as_posix(): file for file in sorted(FOLDER.rglob("*.har"))}


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("name", FILES)
def test_a_recording_holds(name: str, check: str) -> None:
    recording = load(FILES[name].read_bytes())
    assert CHECKS[check](recording, replay(recording)) is None


def test_the_folder_shows_many_faults_on_all_surfaces() -> None:
    by_surface = Counter(name.split("/")[0] for name in FILES)
    assert len(FILES) >= 60
    assert set(by_surface) == {"ollama-chat", "openai-chat", "openai-responses", "anthropic-messages"}
    assert min(by_surface.values()) >= 10
    assert all(file.stat().st_size < 20_000 for file in FILES.values())


@pytest.mark.parametrize("name", FILES)
def test_a_recording_is_written_as_it_would_be_today(name: str) -> None:
    """What a reviewer reads in the block (sent, repairs, delivered) is what repair does now."""
    data = FILES[name].read_bytes()
    recording = recordings.accepted(load(data))
    blocks = [json.loads(data), json.loads(recordings.write(recording))]
    mine, now = ({**one["log"]["entries"][0]["_toolmend"], "redacted": None} for one in blocks)
    assert mine == now


# From an exchange to a file

SCHEMA = {
    "type": "object",
    "properties": {
        "title": {"type": "string"},
        "minutes": {"type": "integer"},
        "to": {"type": "array", "items": {"type": "string"}},
        "mode": {"type": "string", "enum": ["low", "high"]},
    },
    "required": ["title", "minutes"],
    "additionalProperties": False,
}
TOOLS = [{"type": "function", "function": {"name": "book_room", "description": "Book a room.", "parameters": SCHEMA}}]
REQUEST: dict[str, Any] = {
    "model": "qwen3:8b",
    "messages": [{"role": "user", "content": "Book it for Anne."}],
    "tools": TOOLS,
    "stream": False,
}
HEADERS = (
    ("Content-Type", "application/json"),
    ("Accept", "*/*"),
    ("Authorization", "Bearer abcdefghijkl"),
    ("Cookie", "sid=1234567"),
    ("User-Agent", "anne/1.0"),
)


def answer(arguments: object, text: str = "") -> bytes:
    call = [{"id": "c1", "function": {"index": 0, "name": "book_room", "arguments": arguments}}] if arguments else []
    message = {"role": "assistant", "content": text, **({"tool_calls": call} if call else {})}
    end = {"done": True, "done_reason": "stop", "eval_count": 20}
    return json.dumps({"model": "qwen3:8b", "message": message, **end}).encode()


def recorded(body: bytes, request: dict[str, Any] = REQUEST, path: str = "/api/chat", chunks: int = 1) -> Recording:
    size = max(1, -(-len(body) // chunks))
    cut = tuple((body[at : at + size], 100 + at) for at in range(0, len(body), size))
    sent = json.dumps(request).encode()
    entry = Entry("original", path, sent, 200, "application/json", cut, HEADERS, (("Date", "today"), ("Server", "x")))
    found = extracting.recording_of((Read(entry, {}, 1_800_000_000.0),))
    assert found is not None
    return found


BROKEN = answer({"title": "Plan", "minutes": "30", "to": '["a@example.com"]'})


def test_a_file_says_first_what_a_reviewer_reads() -> None:
    entries = json.loads(dump(recorded(BROKEN)))["log"]["entries"]
    first, delivered = entries
    block = first["_toolmend"]
    assert next(iter(first)) == "_toolmend"
    assert block == {
        "format": 1,
        "role": "original",
        "surface": "ollama-chat",
        "model": "qwen3:8b",
        "server": "ollama",
        "settings": {"tap": "off", "force": "answer-first", "follow_up": True},
        "tools": {"book_room": SCHEMA},
        "sent": {
            "calls": [
                {"name": "book_room", "arguments": {"title": "Plan", "minutes": "30", "to": '["a@example.com"]'}}
            ],
            "finish": "stop",
            "tokens": 20,
        },
        "faults": [],
        "repairs": [
            'coerce /calls/0/arguments/minutes: /minutes "30" -> 30',
            "coerce /calls/0/arguments/to: /to parsed from text",
        ],
        "delivered": {
            "calls": [{"name": "book_room", "arguments": {"title": "Plan", "minutes": 30, "to": ["a@example.com"]}}],
            "finish": "stop",
            "tokens": 20,
        },
        "chunks": [[len(BROKEN), 100]],
    }
    assert delivered["_toolmend"]["role"] == "delivered"
    assert first["response"]["content"]["text"].encode() == BROKEN


def test_only_allowed_headers_are_written_and_no_host() -> None:
    data = dump(recorded(BROKEN))
    first = json.loads(data)["log"]["entries"][0]
    assert first["request"]["url"] == "http://127.0.0.1:11434/api/chat"
    assert [header["name"] for header in first["request"]["headers"]] == ["accept", "content-type"]
    assert first["response"]["headers"] == [
        {"name": "content-type", "value": "application/json"},
        {"name": "X-Toolmend-Role", "value": "original"},
    ]
    for private in (b"abcdefghijkl", b"1234567", b"anne", b"Anne", b"Book it", b"Book a room"):
        assert private not in data


def test_prompts_are_kept_when_asked_for_without_what_is_private() -> None:
    request = {**REQUEST, "messages": [{"role": "user", "content": "Book it, anne@kranz.de"}]}
    text = json.loads(dump(recorded(BROKEN, request), keep_prompts=True))["log"]["entries"][0]["request"]["postData"][
        "text"
    ]
    message = json.loads(text)["messages"][0]["content"]
    assert message.startswith("Book it, ")
    assert "anne@kranz.de" not in message


def test_a_recording_comes_back_as_it_was_written() -> None:
    recording = recorded(BROKEN, chunks=4)
    back = load(dump(recording))
    assert back.original.chunks == recording.original.chunks
    assert back.outcome == recording.outcome
    assert back.started == 1_800_000_000.0
    assert (back.surface, back.model, back.server) == ("ollama-chat", "qwen3:8b", "ollama")
    assert recordings.write(load(recordings.write(back))) == recordings.write(back)


@pytest.mark.parametrize(
    "body",
    [
        b'{"error":"caf\xc3\xa9"}',
        b'{"error":"\xff\xfe"}',
        b'\xef\xbb\xbf{"error":"x"}',
        b'{"error":"\xf0\x9f\x98\x80 \\ud800"}',
        b"",
        b"\r\n\x00",
    ],
)
def test_every_body_comes_back_byte_for_byte(body: bytes) -> None:
    entry = Entry("original", "/api/chat", b"{}", 500, "application/json", ((body, 3),) if body else ())
    (read,) = har.read(har.write([(entry, {"format": 1})], "0"))
    assert (read.entry.body, read.entry.status, read.entry.role) == (body, 500, "original")


def test_an_answer_that_passes_as_it_came_is_written_once() -> None:
    entries = json.loads(dump(recorded(answer({"title": "Plan", "minutes": 30}))))["log"]["entries"]
    assert [entry["_toolmend"]["role"] for entry in entries] == ["original"]


def test_a_question_and_its_reply_are_kept_and_used_again() -> None:
    recording = recorded(answer({"title": "Plan"}))
    (question,) = replay(recording).questions
    reply = answer(None, '{"name": "book_room", "arguments": {"title": "Plan", "minutes": 45}}')
    sent = json.dumps(question.document).encode()
    entry = Entry("follow-up", question.path, sent, 200, "application/json", ((reply, 900),))
    recording = replace(recording, follow_ups=(entry,))
    recording = replace(recording, outcome=replay(recording).outcome)
    back = load(dump(recording))
    assert [entry.role for entry in (back.original, *back.follow_ups, back.delivered)] == [
        "original",
        "follow-up",
        "delivered",
    ]
    assert back.outcome.turn.calls[0].arguments == {"title": "Plan", "minutes": 45}
    assert json.loads(back.delivered.body)["message"]["tool_calls"][0]["function"]["arguments"]["minutes"] == 45


def asked(document: dict[str, Any], reply: bytes, path: str = "/api/chat", status: int = 200) -> Entry:
    return Entry("follow-up", path, json.dumps(document).encode(), status, "application/json", ((reply, 900),))


def test_a_reply_belongs_to_a_question_of_its_kind() -> None:
    """A model that was known to lose schemas was asked by its rendered prompt at once, and is again."""
    prompt = b'{"_debug_info": {"rendered_template": "<|im_start|>assistant\\n"}}'
    generated = json.dumps(
        {"response": '{"name": "book_room", "arguments": {"title": "Plan", "minutes": 45}}'}
    ).encode()
    known = (
        asked({**REQUEST, "_debug_render_only": True}, prompt),
        asked({"model": "qwen3:8b", "prompt": "x", "raw": True}, generated, "/api/generate"),
    )
    recording = replace(recorded(answer({"title": "Plan"})), follow_ups=known)
    assert [question.kind for question in replay(recording).questions] == ["render", "raw"]
    assert replay(load(dump(recording))).outcome.turn.calls[0].arguments == {"title": "Plan", "minutes": 45}


def test_a_question_that_was_not_asked_then_has_no_reply_now() -> None:
    recording = replace(recorded(answer({"title": "Plan"})), follow_ups=(asked({**REQUEST, "logprobs": True}, BROKEN),))
    assert [fault.keyword for fault in replay(recording).outcome.faults] == ["required"]


def test_a_question_without_a_reply_is_kept_too() -> None:
    recording = recorded(answer({"title": "Plan"}))
    entry = Entry("follow-up", "/api/chat", json.dumps(REQUEST).encode(), 0, "", ())
    back = load(dump(replace(recording, follow_ups=(entry,))))
    assert [entry.status for entry in back.follow_ups] == [0]
    assert [fault.keyword for fault in back.outcome.faults] == ["required"]


def test_what_is_larger_than_allowed_is_not_written() -> None:
    recording = recorded(answer({"title": "x" * 5000, "minutes": "30"}))
    with pytest.raises(TooLarge, match=r"an answer of qwen3:8b has 5[0-9]{3} bytes, 2000 are allowed"):
        dump(recording, max_bytes=2000)
    with pytest.raises(TooLarge, match=r"the recording of qwen3:8b has [0-9]+ bytes, 6000 are allowed"):
        dump(recording, max_bytes=6000)


def test_what_was_replaced_is_still_told_after_accepting() -> None:
    recording = load(dump(recorded(answer({"title": "anne@kranz.de", "minutes": "30"}))))
    assert recording.notes == {"redacted": {"mail": 1}}
    assert load(recordings.write(recordings.accepted(recording))).notes == {"redacted": {"mail": 1}}


def test_an_outcome_that_is_another_than_it_was_is_noted_until_it_is_accepted() -> None:
    recording = replace(recorded(BROKEN), outcome=LEFT)
    back = load(dump(recording))
    assert back.notes == {"differs": "when it was recorded: required /calls/0/arguments"}
    assert recordings.accepted(back).notes == {}


# Names


def test_one_fault_has_one_name_whatever_the_values() -> None:
    first = file_name(recorded(BROKEN))
    again = file_name(recorded(answer({"title": "Other", "minutes": "45", "to": '["b@example.com", "c"]'})))
    other = file_name(recorded(answer({"title": "Plan", "minutes": 30, "mode": "HIGH"})))
    assert first == again
    assert first != other
    assert first.startswith("ollama-chat/qwen3-8b-book_room-coerce-")
    assert first.endswith(".har")


@pytest.mark.parametrize("model", ["../../etc/x", "hf.co/a/b:Q4_K_M", "модель", ".", "a" * 300, "con\x00\n", ""])
def test_a_name_never_leaves_its_folder(model: str) -> None:
    name = file_name(replace(recorded(BROKEN), model=model))
    assert Path(name).parent.as_posix() == "ollama-chat"
    assert set(name) <= set("abcdefghijklmnopqrstuvwxyz0123456789._-/")
    assert ".." not in name
    assert len(name) < 120


REPAIRED = Outcome(Turn(), repairs=(Repair("coerce", "/calls/0/arguments/a", "1", 1),))
LEFT = Outcome(Turn(), faults=(Fault("/calls/0/arguments", "required", "'a' is missing"),))


@pytest.mark.parametrize(
    ("which", "kept"),
    [("broken", (False, False, True)), ("repaired", (False, True, True)), ("all", (True, True, True))],
)
def test_which_outcomes_are_kept(which: Any, kept: tuple[bool, ...]) -> None:
    assert tuple(worth_keeping(outcome, which) for outcome in (Outcome(Turn()), REPAIRED, LEFT)) == kept


# Extracting


def har_entry(path: str = "/api/chat", sent: str | None = None, **content: str) -> dict[str, Any]:
    """Write an entry as a browser or a proxy does; `content` is that of the answer."""
    body = json.dumps(REQUEST) if sent is None else sent
    return {
        "startedDateTime": "2026-07-14T10:00:00Z",
        "request": {"url": f"http://gpu7:11434{path}", "headers": [], "postData": {"text": body}},
        "response": {
            "status": 200,
            "headers": [{"name": "Content-Type", "value": "application/json"}],
            "content": content or {"text": BROKEN.decode()},
        },
    }


def extracted(*entries: dict[str, Any], which: Any = "repaired") -> tuple[list[Recording], extracting.Found]:
    found = extracting.Found()
    file = io.BytesIO(json.dumps({"log": {"entries": entries}}).encode())
    return [*extracting.find(extracting.read_entries(extracting.read_har(file), found), which, found)], found


def packed(data: bytes) -> dict[str, str]:
    return {"text": base64.b64encode(data).decode(), "encoding": "base64"}


def test_only_chats_with_tools_whose_outcome_is_wanted_are_extracted() -> None:
    valid = {"text": answer({"title": "Plan", "minutes": 30}).decode()}
    entries = [
        har_entry(),
        har_entry("/api/tags"),
        har_entry("/api/chat/", **valid),
        har_entry(sent=json.dumps({**REQUEST, "tools": []})),
    ]
    kept, found = extracted(*entries)
    assert [json.loads(one.original.request) for one in kept] == [REQUEST]
    assert [one.outcome.turn.calls[0].arguments for one in kept] == [
        {"title": "Plan", "minutes": 30, "to": ["a@example.com"]}
    ]
    assert found == extracting.Found(exchanges=4, chats=3, with_tools=2, kept=1)
    assert [one.original.path for one in extracted(*entries, which="all")[0]] == ["/api/chat", "/api/chat"]


def test_our_own_questions_and_delivered_answers_are_not_extracted() -> None:
    recording = recorded(BROKEN)
    entries = json.loads(dump(recording))["log"]["entries"]
    kept, found = extracted(*entries)
    assert len(entries) == 2
    assert [one.original.body for one in kept] == [BROKEN]
    assert (found.exchanges, found.chats) == (2, 1)


def test_a_compressed_answer_is_read() -> None:
    kept, _ = extracted(har_entry(**packed(gzip.compress(BROKEN))))
    assert [one.original.body for one in kept] == [BROKEN]


@pytest.mark.parametrize(
    ("entry", "why"),
    [
        (har_entry(**packed(b"\x1f\x8bbroken")), "the answer is compressed and cannot be read: "),
        (har_entry(sent=""), "the request is no JSON: "),
        (har_entry(sent="[1]"), "the request is list, expected a JSON object"),
        (har_entry(sent="{}"), "the request is none of ollama-chat: "),
        (har_entry(none=""), "the answer is empty"),
        ({"request": {}}, "no HAR entry: 'response'"),
        ({**har_entry(), "response": None}, "no HAR entry: expected an object, not None"),
    ],
)
def test_what_cannot_be_extracted_is_counted_with_its_reason(entry: dict[str, Any], why: str) -> None:
    kept, found = extracted(entry, har_entry())
    (reason,) = found.skipped
    assert (len(kept), found.skipped[reason], reason[: len(why)]) == (1, 1, why)


@pytest.mark.parametrize(
    ("head", "is_har"), [(b'{"log"', True), (b'\xef\xbb\xbf \n{"log"', True), (b"1234:8:version;", False), (b"", False)]
)
def test_a_har_file_is_told_by_how_it_begins(head: bytes, is_har: bool) -> None:
    assert extracting.is_har(head) is is_har


# Formats

# Formats


def edited(change: dict[str, object]) -> bytes:
    document = json.loads(dump(recorded(BROKEN)))
    document["log"]["entries"][0]["_toolmend"].update(change)
    return json.dumps(document).encode()


def with_entry(place: str, change: dict[str, object]) -> bytes:
    """Change the request or the response of the first entry."""
    document = json.loads(dump(recorded(BROKEN)))
    document["log"]["entries"][0][place].update(change)
    return json.dumps(document).encode()


def with_role(role: str) -> bytes:
    return with_entry("response", {"headers": [{"name": "X-Toolmend-Role", "value": role}]})


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "no HAR file"),
        (b"{}", "no HAR file: 'log' is missing"),
        (b'{"log": {"entries": []}}', "the file has no entries"),
        (
            b'{"log": {"entries": [{"request": {}, "response": {}}]}}',
            "no HAR file: 'status' is missing|no HAR file: 'url' is missing",
        ),
        (edited({"format": 2}), "format is 2, this version of toolmend reads up to 1: a newer one wrote it"),
        (edited({"format": "1"}), "format is '1', expected a number up to 1"),
        (edited({"surface": "gopher"}), "surface is 'gopher', expected one of ollama-chat, "),
        (edited({"surface": "openai-responses"}), "surface is 'openai-responses', but /api/chat is none of its"),
        (edited({"chunks": [[3, 0]]}), "chunks add up to 3 bytes, the answer has"),
        (edited({"chunks": [[-3, 0]]}), "chunks hold .*, expected .bytes, milliseconds."),
        (with_role("middle"), "X-Toolmend-Role is 'middle', expected one of original, follow-up, delivered"),
        (with_role("delivered"), "the first entry is delivered, expected original"),
        (with_entry("request", {"postData": "none"}), "no HAR file: expected an object, not 'none'"),
        (with_entry("request", {"postData": {"text": "["}}), "the request is no JSON: "),
        (with_entry("request", {"postData": {"text": "[1]"}}), "the request is list, expected a JSON object"),
        (
            with_entry("response", {"content": {"text": "<html>" + " " * (len(BROKEN) - 6)}}),
            "the answer is none of ollama-chat",
        ),
        (
            with_entry("response", {"content": {"text": "<html>", "encoding": "base64"}}),
            "an answer is said to be base64 and is not",
        ),
    ],
)
def test_a_file_that_is_no_recording_is_a_clear_error(data: bytes, said: str) -> None:
    with pytest.raises(FormatError, match=said):
        load(data)


def test_any_har_file_of_a_chat_is_a_recording_of_format_0() -> None:
    document = json.loads(dump(recorded(BROKEN)))
    entry = document["log"]["entries"][0]
    del entry["_toolmend"]
    document["log"]["entries"] = [entry]
    back = load(json.dumps(document).encode())
    assert (back.surface, back.model, back.server) == ("ollama-chat", "qwen3:8b", "ollama")
    assert back.original.chunks == ((BROKEN, 0),)
    assert [repair.rung for repair in back.outcome.repairs] == ["coerce", "coerce"]


# Checks


def test_a_recording_without_expectation_is_told_to_be_accepted() -> None:
    assert checking.problems(recorded(BROKEN)) == {
        "outcome-as-expected": "nothing is expected yet: `toolmend accept` writes it"
    }
    assert checking.problems(recordings.accepted(recorded(BROKEN))) == {}


def test_another_outcome_than_expected_is_shown_as_a_diff() -> None:
    recording = recordings.accepted(recorded(BROKEN))
    changed = replace(recording, expected={**expectation(recording.outcome), "faults": ["type /calls/0/arguments/to"]})
    problem = checking.problems(changed)["outcome-as-expected"]
    assert '- "faults": ["type /calls/0/arguments/to"]' in problem.replace("\n-  ", "").replace("\n- ]", "]")
    assert '+ "faults": []' in problem


def test_each_check_says_what_comes_out_otherwise() -> None:
    """Here the checks are given another answer than the recording's own."""
    recording = recorded(BROKEN)
    own, other = replay(recording), replay(recorded(answer({"title": "Plan", "minutes": 45})))
    elsewhere = replace(own, delivered=other.delivered)
    lost = replace(own, outcome=Outcome(own.outcome.turn))
    assert CHECKS["same-however-cut"](recording, own) is None
    assert str(CHECKS["same-however-cut"](recording, lost)).startswith(
        "cut whole, it comes out otherwise: --- as recorded\n+++ otherwise\n"
    )
    assert '+  "coerce /calls/0/arguments/minutes"' in str(CHECKS["same-however-cut"](recording, lost))
    assert re.fullmatch(
        r"cut whole, the client gets something else: calls is .*\"minutes\": 30.*, expected .*\"minutes\": 45.*",
        str(CHECKS["same-however-cut"](recording, elsewhere)),
    )
    assert CHECKS["second-pass-changes-nothing"](recording, replace(own, delivered=BROKEN)) == (
        "a second pass changes the answer: coerce /calls/0/arguments/minutes, coerce /calls/0/arguments/to"
    )
    assert str(CHECKS["whole-and-streamed-agree"](recording, lost)).startswith("streamed it comes out otherwise: ")
    assert str(CHECKS["whole-and-streamed-agree"](recording, elsewhere)).startswith(
        "streamed the client gets something else: calls is "
    )
    assert CHECKS["valid-stays-the-same-bytes"](recording, lost) == "nothing was repaired, and yet other bytes go out"
    assert str(CHECKS["client-gets-the-outcome"](recording, elsewhere)).startswith(
        "the client gets something else: calls is "
    )


# Redaction keeps what is broken

PRIVATE = st.sampled_from(
    [
        "anne.k@kranzhoefer.de",
        "/home/anneliese/notes.md",
        "C:\\Users\\nora\\notes.md",
        "https://git.kranzhoefer.internal:8443/x",
        "10.42.7.191",
        "+49 30 9018-20471",
        "83920174655",
        'line\nanne.k@kranzhoefer.de "quoted"',
        "/home/jürgen/ü",
        "token: 9f8e7d6c5b4a39281706",
        "sk" + "-ant-api03-QmFzZTY0IGlzIG5vdCBhIGNpcGhlci",
        "plain words",
    ]
)
ARGUMENTS = st.fixed_dictionaries(
    {"title": PRIVATE, "minutes": st.sampled_from([30, "30", "soon", 83920174655, "83920174655"])},
    optional={
        "to": st.one_of(st.lists(PRIVATE, max_size=2), st.lists(PRIVATE, max_size=2).map(json.dumps), PRIVATE),
        "mode": st.sampled_from(["low", "HIGH", "medium"]),
        "extra": PRIVATE,
    },
)


def as_fenced(arguments: object) -> bytes:
    return answer(None, f"```json\n{json.dumps({'name': 'book_room', 'arguments': arguments})}\n```")


def as_tagged(arguments: object) -> bytes:
    return answer(None, f"<tool_call>\n{json.dumps({'name': 'bookRoom', 'arguments': arguments})}\n</tool_call>")


def as_python(arguments: object) -> bytes:
    return answer(None, f"<tool_call>{{'name': 'book_room', 'arguments': {arguments!r}}}</tool_call>")


def as_error(arguments: object) -> bytes:
    raw = json.dumps({"name": "book_room", "arguments": arguments})
    return json.dumps({"error": f"error parsing tool call: raw='{raw}', err=invalid character"}).encode()


@given(
    arguments=ARGUMENTS,
    write=st.sampled_from([answer, as_fenced, as_tagged, as_python, as_error]),
    chunks=st.integers(1, 9),
)
@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)
def test_redaction_leaves_the_same_repairs_and_faults(arguments: Any, write: Any, chunks: int) -> None:
    recording = recorded(write(arguments), chunks=chunks)
    clean, _ = recordings.redacted(recording)
    told, now = expectation(recording.outcome), expectation(clean.outcome)
    assert (now["repairs"], now["faults"]) == (told["repairs"], told["faults"])
    assert [(data.count(b'"'), at) for data, at in clean.original.chunks] == [
        (data.count(b'"'), at) for data, at in recording.original.chunks
    ]
    assert [type(value) for call in clean.outcome.turn.calls for value in values(call.arguments)] == [
        type(value) for call in recording.outcome.turn.calls for value in values(call.arguments)
    ]


def values(arguments: Any) -> list[Any]:
    return list(arguments.values()) if isinstance(arguments, dict) else [arguments]
