"""Say what every client library is asked and what it must see, whatever way it asks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from fake_ollama import TOOL

QUESTION = "A table for four on friday, please: inside, by the window, quiet."
CALL = (
    "book_table",
    {"guests": 4, "day": "friday", "area": "inside", "wishes": ["window seat", "quiet"]},
)

VALID = ("valid", "valid-after-text", "valid-after-thinking")
MENDED = ("wrong-types", "wrong-name", "prefixed", "leaked", "leaked-after-text")
ASKED_AGAIN = ("swallowed", "lost", "missing", "parse-error")
"""The scenarios of the fake that mean CALL: right as they come, repaired from what came, and asked for once more."""

CALLS = VALID + MENDED + ASKED_AGAIN
BROKEN = MENDED + ASKED_AGAIN
SAID = {"valid-after-text": "Let me book that.", "leaked-after-text": "Let me book that."}
"""What the model says beside its call, where it says anything."""

ANSWER = "The kitchen closes at ten."


@dataclass(frozen=True, slots=True)
class Seen:
    """Hold what a client library gave its user: the calls as name and decoded arguments, text, reason for the end."""

    calls: tuple[tuple[str, Any], ...] = ()
    text: str = ""
    finish: str | None = None


def unique(ids: Sequence[str | None]) -> bool:
    """Tell whether ids can tell calls apart."""
    return all(ids) and len(set(ids)) == len(ids)


def counted(tokens: int | None, model: str) -> bool:
    """Tell whether the tokens of an answer are counted; an error, even one that was mended, comes without a count."""
    return tokens is not None and (tokens > 0 or model == "fake:parse-error")


def openai_chat_tool() -> dict[str, Any]:
    """Declare the tool as chat completions and /api/chat do."""
    return {"type": "function", "function": {**TOOL, "strict": True}}


def openai_responses_tool() -> dict[str, Any]:
    """Declare the tool as the Responses surface does."""
    return {"type": "function", **TOOL, "strict": True}


def anthropic_tool() -> dict[str, Any]:
    """Declare the tool as the Messages surface does."""
    return {"name": TOOL["name"], "description": TOOL["description"], "input_schema": TOOL["parameters"]}
