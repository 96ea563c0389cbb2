"""Know the servers that may stand behind the proxy: what each can do, and how they are told apart.

What a model was seen to do (lose calls, lose schemas, refuse the tap) is noted here for as long as the process lives.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

from toolmend.model import JsonObject
from toolmend.settings import Settings

Kind = Literal["ollama", "llama-server", "vllm", "unknown"]

PROBES: Final = ("/api/version", "/props", "/version")
"""Paths whose answers to a GET tell the servers apart, in the order in which they are worth asking."""

MAX_FAILURES: Final = 3
REST_TURNS: Final = 20


@dataclass(frozen=True, slots=True)
class Capabilities:
    """Hold what a kind of server can do.

    `reads_tool_choice`: it honours the field itself, so it gets it as it came. `reads_named_choice`: also a single
    named tool (llama-server treats that as auto). `taps`: `logprobs` shows the tokens of calls that were lost.
    `renders`: it gives out the rendered prompt and takes it back raw. `asked_on` holds, by the names of the
    surfaces that cannot carry a schema on this server, the path a question goes to instead. `thinking_off` are the
    members of a chat completion that switch thinking off; None where it is `reasoning_effort`, as the surface has it.
    """

    reads_tool_choice: bool
    reads_named_choice: bool
    taps: bool
    renders: bool
    asked_on: Mapping[str, str]
    thinking_off: JsonObject | None


_CHAT_COMPLETIONS: Final = {
    "openai-responses": "/v1/chat/completions",
    "anthropic-messages": "/v1/chat/completions",
}
# Both hand these on to the chat template; llama-server reads this one itself as well.
_TEMPLATE_THINKS_NOT: Final[JsonObject] = {"chat_template_kwargs": {"enable_thinking": False}}

CAPABILITIES: Final[Mapping[Kind, Capabilities]] = {
    # /v1/messages has no field for a schema (source: anthropic.go, OutputConfig).
    "ollama": Capabilities(False, False, True, True, {"anthropic-messages": "/api/chat"}, None),
    "llama-server": Capabilities(True, False, False, False, _CHAT_COMPLETIONS, _TEMPLATE_THINKS_NOT),
    "vllm": Capabilities(True, True, False, False, _CHAT_COMPLETIONS, _TEMPLATE_THINKS_NOT),
    # Nothing is known: everything passes as it came, and a question goes where most servers take one.
    "unknown": Capabilities(True, True, False, False, _CHAT_COMPLETIONS, {}),
}


@dataclass(frozen=True, slots=True)
class Reply:
    """Hold a server's answer to a question or a probe. `server` is its Server header, "" when it has none."""

    status: int
    content_type: str
    body: bytes
    server: str = ""


@dataclass(slots=True)
class ModelNotes:
    """Note what was learned of one model in this process.

    `swallows`: it has lost a call behind its parser, so the tap is worth its price. `tap_refused`: its path answers
    the tap with an error. `loses_schema`: JSON under a schema came back empty, or not as JSON. `failures` counts the
    questions that failed in a row; after three of them the next `rest` turns are not asked about.
    """

    swallows: bool = False
    tap_refused: bool = False
    loses_schema: bool = False
    failures: int = 0
    rest: int = 0

    def may_ask(self) -> bool:
        """Tell whether this turn may be asked about. A turn that may not counts as one of the turns to rest."""
        if self.rest == 0:
            return True
        self.rest -= 1
        return False

    def asked_well(self) -> None:
        """Note that a question was answered well."""
        self.failures = self.rest = 0

    def asked_badly(self) -> None:
        """Note that a question failed: refused, late, or still faulty."""
        self.failures += 1
        if self.failures >= MAX_FAILURES:
            self.rest = REST_TURNS


@dataclass(slots=True)
class Server:
    """Hold what is known of one server and of its models. It is shared by all exchanges with that host.

    `render_refused`: it does not know the field that gives out the rendered prompt. `version`: its kind with its
    version, as recordings name it; "" when nothing is known.
    """

    kind: Kind = "ollama"
    models: dict[str, ModelNotes] = field(default_factory=dict)
    render_refused: bool = False
    version: str = ""

    @property
    def can(self) -> Capabilities:
        """Return what this kind of server can do."""
        return CAPABILITIES[self.kind]

    def model(self, name: str) -> ModelNotes:
        """Return the notes on a model, new ones when there are none."""
        return self.models.setdefault(name, ModelNotes())

    def may_tap(self, model: str, settings: Settings) -> bool:
        """Tell whether the tap may be asked for at all."""
        allowed = self.can.taps and settings.tap != "off" and not is_cloud(model)
        return allowed and not self.model(model).tap_refused

    def taps(self, model: str, settings: Settings) -> bool:
        """Tell whether the tap goes on every request for this model."""
        return self.may_tap(model, settings) and (settings.tap == "on" or self.model(model).swallows)

    def may_render(self, model: str) -> bool:
        """Tell whether the rendered prompt can be asked for and given back raw."""
        return self.can.renders and not self.render_refused and not is_cloud(model)

    def reads_choice(self, model: str) -> bool:
        """Tell whether the choice goes upstream: the server honours it, or hands the body on to one that may.

        Source: server/cloud_proxy.go; requests for cloud models are passed on as sent.
        """
        return self.can.reads_tool_choice or is_cloud(model)


def is_cloud(model: str) -> bool:
    """Tell whether Ollama hands requests for this model on to its cloud: the tag is `cloud` or ends in `-cloud`."""
    _, colon, tag = model.rpartition("/")[2].partition(":")
    return bool(colon) and (tag == "cloud" or tag.endswith("-cloud"))


def recognise(replies: Mapping[str, Reply | None]) -> Server:
    """Tell from a server's answers what it is.

    Args:
        replies: Answers by the path that was asked (`PROBES`), as many as there are; None where none came.
    """
    for path, reply in replies.items():
        if reply is not None and (kind := _kind_of(path, reply)) is not None:
            return Server(kind)
    return Server("unknown")


def _kind_of(path: str, reply: Reply) -> Kind | None:
    # llama.cpp names itself in every answer, also in refusals (source: tools/server/server-http.cpp).
    if reply.server.lower().startswith("llama.cpp"):
        return "llama-server"
    document = _document(reply) if reply.status == 200 else {}
    if document.get("system_fingerprint") == "fp_ollama":
        return "ollama"
    for known, key, kind in SIGNS:
        if path.partition("?")[0] == known and key in document:
            return kind
    return None


SIGNS: Final[tuple[tuple[str, str, Kind], ...]] = (
    ("/api/version", "version", "ollama"),
    ("/props", "default_generation_settings", "llama-server"),
    ("/version", "version", "vllm"),
)


def _document(reply: Reply) -> JsonObject:
    try:
        document = json.loads(reply.body)
    except (ValueError, RecursionError):
        return {}
    return document if isinstance(document, dict) else {}
