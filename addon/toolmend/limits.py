"""Read a request's own token limit: a question never gets more than the client would have."""

from __future__ import annotations

from typing import Final

from toolmend.model import Json, JsonObject
from toolmend.settings import Settings

LIMITS: Final[dict[str, tuple[str, ...]]] = {
    "openai-chat": ("max_tokens", "max_completion_tokens"),
    "openai-responses": ("max_output_tokens",),
    "anthropic-messages": ("max_tokens",),
}


def question_cap(surface: str, document: JsonObject, settings: Settings) -> int:
    """Return how many tokens a question may take: the client's own limit, at most the setting."""
    options = document.get("options")
    given: list[Json] = [document.get(name) for name in LIMITS.get(surface, ())]
    if surface == "ollama-chat" and isinstance(options, dict):
        given.append(options.get("num_predict"))
    limits = [limit for limit in given if isinstance(limit, int) and not isinstance(limit, bool) and limit > 0]
    return min([*limits, settings.max_tokens])
