"""Hold streams to the rules that client libraries rely on."""

from __future__ import annotations

import json
from typing import Any


def events(body: bytes) -> list[tuple[str, str]]:
    """Split a stream into the names and the data of its events."""
    found = []
    for block in body.decode().split("\n\n"):
        lines = block.split("\n")
        name = "".join(line[7:] for line in lines if line.startswith("event: "))
        data = [line[6:] for line in lines if line.startswith("data: ")]
        found += [(name, "\n".join(data))] if data else []
    return found


def documents(body: bytes) -> list[Any]:
    """Decode a stream's events, NDJSON lines included."""
    if body.lstrip().startswith(b"{"):
        return [json.loads(line) for line in body.splitlines() if line.strip()]
    return [json.loads(data) for _, data in events(body) if data != "[DONE]"]


def check_ollama_chat(body: bytes) -> None:
    lines = documents(body)
    assert [line["done"] for line in lines] == [False] * (len(lines) - 1) + [True]
    assert lines[-1]["done_reason"] in ("stop", "length")
    for line in lines:
        assert line["message"]["role"] == "assistant"
        assert isinstance(line["message"]["content"], str)
        for call in line["message"].get("tool_calls", ()):
            assert isinstance(call["function"]["name"], str)


def check_openai_chat(body: bytes) -> None:
    chunks = documents(body)
    assert events(body)[-1][1] == "[DONE]"
    assert len({(chunk["id"], chunk["created"], chunk["object"]) for chunk in chunks}) == 1
    choices = [chunk["choices"][0] for chunk in chunks if chunk["choices"]]
    assert choices[0]["delta"]["role"] == "assistant"
    assert [choice["finish_reason"] is not None for choice in choices] == [False] * (len(choices) - 1) + [True]
    calls = [call for choice in choices for call in choice["delta"].get("tool_calls", ())]
    assert [call["index"] for call in calls] == list(range(len(calls)))
    assert len({call["id"] for call in calls} - {""}) == len(calls)
    assert all(call["type"] == "function" and isinstance(call["function"]["arguments"], str) for call in calls)
    assert choices[-1]["finish_reason"] in (("tool_calls", "length") if calls else ("stop", "length"))


def check_anthropic_messages(body: bytes) -> None:
    found = documents(body)
    assert [name for name, _ in events(body)] == [event["type"] for event in found]
    assert found[0]["type"] == "message_start"
    assert [event["type"] for event in found[-2:]] == ["message_delta", "message_stop"]
    kinds: list[str] = []
    filled: int | None = None
    for event in found[1:-2]:
        match event["type"]:
            case "content_block_start":
                assert filled is None
                assert event["index"] == len(kinds)
                kinds.append(event["content_block"]["type"])
                assert event["content_block"].get("input", {}) == {}
                filled = 0
            case "content_block_delta":
                assert filled is not None
                assert event["index"] == len(kinds) - 1
                wanted = {"text": "text_delta", "thinking": "thinking_delta", "tool_use": "input_json_delta"}
                assert event["delta"]["type"] == wanted[kinds[-1]]
                filled += 1
            case "content_block_stop":
                assert filled
                assert event["index"] == len(kinds) - 1
                filled = None
            case other:
                assert other == "ping"
    assert filled is None
    assert (found[-2]["delta"]["stop_reason"] == "tool_use") is ("tool_use" in kinds)
    assert "output_tokens" in found[-2]["usage"]


def check_openai_responses(body: bytes) -> None:
    found = documents(body)
    assert [name for name, _ in events(body)] == [event["type"] for event in found]
    assert [event["sequence_number"] for event in found] == list(range(len(found)))
    assert [event["type"] for event in found[:2]] == ["response.created", "response.in_progress"]
    assert found[-1]["type"] in ("response.completed", "response.incomplete")
    ended: list[Any] = []
    item: Any = None
    text = ""
    repeats: set[str] = set()
    for event in found[2:-1]:
        kind = event["type"].removeprefix("response.")
        assert event["output_index"] == len(ended)
        if kind == "output_item.added":
            assert item is None
            item, text, repeats = event["item"], "", set()
            continue
        assert item is not None
        assert event.get("item_id", item["id"]) == item["id"]
        if kind.endswith(".delta"):
            text += event["delta"]
        elif kind in ("output_text.done", "reasoning_summary_text.done", "function_call_arguments.done"):
            assert event.get("text", event.get("arguments")) == text
            repeats.add("text")
        elif kind == "content_part.done":
            assert event["part"]["text"] == text
            repeats.add("part")
        elif kind == "output_item.done":
            _check_item(event["item"], item, text, repeats)
            ended.append(event["item"])
            item = None
    assert item is None
    assert (found[-1]["response"]["output"] or []) == ended


def _check_item(ended: Any, added: Any, text: str, repeats: set[str]) -> None:
    assert (ended["id"], ended["type"]) == (added["id"], added["type"])
    assert "text" in repeats
    match ended["type"]:
        case "message":
            assert "part" in repeats
            assert "".join(part["text"] for part in ended["content"]) == text
            assert ended["status"] == "completed"
        case "reasoning":
            assert "".join(part["text"] for part in ended["summary"]) == text
        case "function_call":
            assert ended["arguments"] == text
            assert ended["call_id"]
            assert ended["status"] == "completed"


CHECKS = {
    "ollama-chat": check_ollama_chat,
    "openai-chat": check_openai_chat,
    "openai-responses": check_openai_responses,
    "anthropic-messages": check_anthropic_messages,
}
