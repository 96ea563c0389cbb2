"""Stand in for llama-server and vLLM in the tests, as far as they differ from Ollama on the wire.

Both serve the three `/v1` surfaces and nothing under `/api`, read the tool choice, and hold an answer to the schema in
`response_format`. What is written here of llama-server was seen on a real one (llama.cpp of 2026); vLLM is written after
its documentation and source (vllm/entrypoints/openai). Scripts, replies, gates: see `fake_ollama`.
"""

from __future__ import annotations

import json
import re
from abc import ABC, abstractmethod
from typing import Any, Final

from fake_answers import Answer, Asked, Document, Sent, as_json, fitting, render
from fake_ollama import MEANT, FakeOllama, Received

STRINGS: Final = ("auto", "none", "required")
FINGERPRINT: Final = re.compile(rb'"system_fingerprint":"fp_ollama"')


class FakeServer(FakeOllama, ABC):
    """Share what llama-server and vLLM do alike: no `/api`, a schema wins over tools, and the choice is read."""

    fingerprint: bytes | None = None

    def _choose(self, received: Received) -> tuple[Answer, Asked]:
        surface, document = received.surface, received.document
        asked = Asked(surface or "openai-chat", document)
        if received.method != "POST" or surface in (None, "ollama-chat"):
            return self._other(received), asked
        if refusal := self._refusal(asked):
            return refusal, asked
        if (schema := self._schema(asked)) is not None:
            received.kind = "constrained"
            return self._held_to(schema), asked
        received.kind = "chat"
        return self._chosen(self._chat(received, asked), asked), asked

    def _render(self, answer: Answer, asked: Asked) -> Sent:
        sent = render(answer, asked)
        member = b'"system_fingerprint":' + (
            json.dumps(self.fingerprint.decode()).encode() if self.fingerprint else b"null"
        )
        return Sent(sent.status, sent.content_type, [FINGERPRINT.sub(member, chunk) for chunk in sent.chunks])

    def _held_to(self, schema: Document) -> Answer:
        if self._replies:
            return self._replies.popleft()
        name, arguments = MEANT
        return as_json(fitting(schema, {"name": name, "arguments": arguments}))

    @abstractmethod
    def _refusal(self, asked: Asked) -> Answer | None:
        """Return what a request is refused with, None when it is fine."""

    @abstractmethod
    def _schema(self, asked: Asked) -> Document | None:
        """Return the schema that is read from a request."""

    @abstractmethod
    def _chosen(self, answer: Answer, asked: Asked) -> Answer:
        """Return what the server makes of the model's answer under the tool choice."""


class FakeLlamaServer(FakeServer):
    """Answer as llama-server does.

    A choice that is a string is read, an object is taken for auto. `required` lets the model say what it wants, but
    not end before it has made a call: without one the answer ends by its length. On /v1/messages a named tool becomes
    `required` over all of them, and no schema is read; on /v1/responses `text.format` is not read.
    """

    fingerprint = b"b6795-11f0af55"

    def reset(self) -> None:
        super().reset()
        self.headers = {"Server": "llama.cpp"}

    def _other(self, received: Received) -> Answer:
        props = {"default_generation_settings": {"n_ctx": 4096}, "total_slots": 1, "model_path": "/models/fake.gguf"}
        documents: dict[str, Document] = {
            "/props": {**props, "chat_template_caps": {"supports_tools": True}},
            "/health": {"status": "ok"},
            "/v1/models": {"object": "list", "data": [{"id": "fake", "object": "model", "owned_by": "llamacpp"}]},
        }
        if received.method == "GET" and received.path in documents:
            return _document(documents[received.path])
        return _error(404, {"message": "File Not Found", "type": "not_found_error", "code": 404})

    def _refusal(self, asked: Asked) -> Answer | None:
        choice = asked.document.get("tool_choice")
        if asked.surface == "anthropic-messages" or not isinstance(choice, str) or choice in STRINGS:
            return None
        message = f"Invalid tool_choice: {choice}"
        return _error(400, {"message": message, "type": "invalid_request_error", "code": 400})

    def _schema(self, asked: Asked) -> Document | None:
        return None if asked.surface == "anthropic-messages" else _response_format(asked.document)

    def _chosen(self, answer: Answer, asked: Asked) -> Answer:
        choice = asked.document.get("tool_choice")
        if asked.surface == "anthropic-messages":
            kind = choice.get("type") if isinstance(choice, dict) else None
            choice = "required" if kind in ("any", "tool") else kind
        if not asked.document.get("tools"):
            return answer
        if choice == "required" and not answer.calls:
            return answer.but(finish="length")
        return answer.but(calls=()) if choice == "none" else answer


class FakeVllm(FakeServer):
    """Answer as vLLM does: with `required` or a named tool the decoding is guided, so the call is there and fits."""

    def reset(self) -> None:
        super().reset()
        self.headers = {"Server": "uvicorn"}

    def _other(self, received: Received) -> Answer:
        documents: dict[str, Document] = {
            "/version": {"version": "0.11.0"},
            "/v1/models": {"object": "list", "data": [{"id": "fake", "object": "model", "owned_by": "vllm"}]},
        }
        if received.method == "GET" and received.path in documents:
            return _document(documents[received.path])
        return Answer(body=(b'{"detail":"Not Found"}',), status=404)

    def _refusal(self, asked: Asked) -> Answer | None:
        choice = asked.document.get("tool_choice")
        if asked.surface == "anthropic-messages" or not isinstance(choice, str) or choice in STRINGS:
            return None
        return _error(400, {"message": f"Invalid value for `tool_choice`: {choice}!", "type": "BadRequestError"})

    def _schema(self, asked: Asked) -> Document | None:
        return _response_format(asked.document) if asked.surface == "openai-chat" else None

    def _chosen(self, answer: Answer, asked: Asked) -> Answer:
        choice = asked.document.get("tool_choice")
        kind = choice.get("type") if isinstance(choice, dict) else choice
        if kind == "none":
            return answer.but(calls=())
        if kind not in ("required", "any", "function", "tool"):
            return answer
        named = _name_in(choice) if isinstance(choice, dict) else None
        name = named or (answer.calls[0][0] if answer.calls else MEANT[0])
        meant = {"name": name, "arguments": MEANT[1]}
        return answer.but(calls=((name, fitting(_parameters(asked.document, name), meant)),))


def _name_in(choice: Document) -> str | None:
    name: str | None = (choice.get("function") or choice).get("name")
    return name


def _parameters(document: Document, name: str) -> Any:
    for tool in document.get("tools") or []:
        declared = tool.get("function") or tool
        if declared.get("name") == name:
            return declared.get("parameters") or declared.get("input_schema") or {}
    return {}


def _response_format(document: Document) -> Document | None:
    """Return the schema in a chat completion's `response_format`."""
    form = document.get("response_format") or {}
    schema = (form.get("json_schema") or {}).get("schema") if form.get("type") == "json_schema" else None
    return schema if isinstance(schema, dict) else None


def _document(document: Document) -> Answer:
    return Answer(body=(json.dumps(document, separators=(",", ":")).encode(),))


def _error(status: int, error: Document) -> Answer:
    return Answer(body=(json.dumps({"error": error}, separators=(",", ":")).encode(),), status=status)
