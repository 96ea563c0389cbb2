"""Find a model server and see what it is, and whether toolmend already stands in front of it."""

from __future__ import annotations

import http.client
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from toolmend.commands.http_client import Answer, Call, send
from toolmend.commands.ollama_host import Address
from toolmend.mitm.presence_headers import ANSWER, QUESTION, read_answer

SECONDS: Final = 3.0


@dataclass(frozen=True, slots=True)
class Found:
    """Hold a server that answers: its version, and the toolmend that its answer came through (None: none)."""

    address: Address
    version: str
    behind: Mapping[str, str] | None

    @property
    def what(self) -> str:
        """Say what it is."""
        return f"Ollama {self.version}".rstrip()


def answering(addresses: Sequence[Address]) -> list[Found]:
    """Return the servers that answer as Ollama does, in order."""
    return [found for found in map(look, addresses) if found is not None]


def look(address: Address) -> Found | None:
    """See whether Ollama answers at an address."""
    word = uuid.uuid4().hex
    try:
        answer = send(address, Call("/api/version", headers={QUESTION: word}), SECONDS)
    except (OSError, http.client.HTTPException):
        return None
    version = _version(answer)
    if version is None:
        return None
    return Found(address, version, read_answer(answer.headers.get(ANSWER, ""), word))


def _version(answer: Answer) -> str | None:
    document = answer.json()
    if answer.status != 200 or not isinstance(document, dict):
        return None
    version = document.get("version")
    return version if isinstance(version, str) else None
