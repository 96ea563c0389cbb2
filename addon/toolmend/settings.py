"""Hold what the user may set about repair: the core's part of the options."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

TapMode = Literal["off", "on", "learn"]
Force = Literal["answer-first", "constrain"]


@dataclass(frozen=True, slots=True)
class Settings:
    """Hold the settings of one proxy.

    `follow_up` False forbids every question to the model. `tap` says when tokens are asked for along with an answer:
    never, always, or for a model that has lost a call in this process. `force` says how a required or named tool
    choice is met: the model answers freely and is asked only if it did not meet it, or the schema is put on the first
    request. `timeout` is in seconds, for all questions of one turn together; `max_tokens` caps one question.
    """

    follow_up: bool = True
    tap: TapMode = "learn"
    force: Force = "answer-first"
    timeout: float = 60.0
    max_tokens: int = 4096
