"""Write the bodies of questions: the client's own request, changed only in what makes it a question.

Model, messages, tools and options stay, so that the server finds the prompt in its cache: with the tools taken out, a
real Ollama took 18 times as long to read the prompt, and the agent's next turn found its own prompt gone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from toolmend.limits import question_cap
from toolmend.model import JsonObject, Request, Tool, ToolChoice
from toolmend.ollama_messages import images_of, to_ollama_chat, to_openai_chat
from toolmend.settings import Settings
from toolmend.surfaces import SURFACES
from toolmend.surfaces.surface import Surface
from toolmend.tool_choice import prepare
from toolmend.upstreams import Server

CHAT: Final = "/api/chat"
GENERATE: Final = "/api/generate"

STOPS: Final = ("stop", "stop_sequences")
"""A client's stop strings would cut inside a value."""

UNASKED: Final = ("logprobs", "top_logprobs", "stream_options", "n")
NO_TIME: Final = re.compile(r"-?0*(?:\.0*)?(?:ns|us|µs|ms|s|m|h)?")

# What a rendered prompt may end in when the model is to think first, and what ends that.
THINKING_ENDS: Final[Mapping[str, str]] = {
    "<think>": "\n</think>\n\n",
    "<seed:think>": "\n</seed:think>",
    "[THINK]": "[/THINK]",
    "<|START_THINKING|>": "<|END_THINKING|>",
}

# A prompt that begins with one of these gets a second one from the tokenizer: /api/chat takes it off, raw does not.
LEADING_BOS: Final = (
    "<｜begin▁of▁sentence｜>",
    "<BOS_TOKEN>",
    "<|begin_of_text|>",
    "<|startoftext|>",
    "〈|EOS|〉",
)
HARMONY_END: Final = "<|start|>assistant"
HARMONY_BUILTIN: Final = ("browser.open", "browser.search", "browser.find", "python")


@dataclass(frozen=True, slots=True)
class Bodies:
    """Write the questions about one turn. `sent` is the request as it went upstream, without schema and tap."""

    surface: Surface
    request: Request
    server: Server
    settings: Settings

    @property
    def sent(self) -> JsonObject:
        """Return the request as it went upstream."""
        answer_first = replace(self.settings, force="answer-first")
        prepared = prepare(self.surface, self.request, self.server, answer_first)
        return self.request.document if prepared.document is None else prepared.document

    @property
    def cap(self) -> int:
        """Return how many tokens a question may take."""
        return question_cap(self.surface.name, self.request.document, self.settings)

    def constrained(self, schema: JsonObject) -> tuple[str, JsonObject] | None:
        """Return path and body of the question for one answer that fits the schema; None when nothing carries it."""
        path = self.server.can.asked_on.get(self.surface.name, self.surface.path)
        surface = SURFACES[path]
        document = self.sent
        if surface is not self.surface and surface.name != self.surface.name:
            document = TRANSLATORS[path](self.surface.name, document)
        asked = surface.constrain(_calm(document), schema, self.cap)
        if asked is None:
            return None
        if self.server.can.thinking_off is None:
            return path, surface.without_choice(asked)
        return path, self._elsewhere(surface, asked, self.server.can.thinking_off)

    def _elsewhere(self, surface: Surface, asked: JsonObject, thinking_off: JsonObject) -> JsonObject:
        """Fit a question to llama-server and vLLM: they read the choice, and switch thinking off in the template.

        With the choice at none, the tools stay in the prompt and nothing but the schema constrains the answer.
        """
        asked = surface.with_choice(asked, ToolChoice("none"))
        for name, value in thinking_off.items():
            own = asked.get(name)
            asked[name] = {**own, **value} if isinstance(own, dict) and isinstance(value, dict) else value
        given = self.sent.get("reasoning_effort")
        asked.pop("reasoning_effort", None)
        return asked if given is None else {**asked, "reasoning_effort": given}

    def tapped(self) -> tuple[str, JsonObject]:
        """Return path and body of the same request with its tokens shown.

        Streamed, because the tokens of a call that fails the parser are sent before it fails; on /api/chat, because
        that is where the failure is told.
        """
        chat = self._chat()
        return CHAT, {**_held(chat), "stream": True, "logprobs": True}

    def render(self) -> tuple[str, JsonObject]:
        """Return path and body of the question for the rendered prompt. The model is not run for it."""
        return CHAT, {**_held(self._chat()), "stream": False, "_debug_render_only": True}

    def raw(self, prompt: str, opening: str, schema: JsonObject) -> tuple[str, JsonObject]:
        """Return path and body of the question that goes on from a rendered prompt, with no parser behind it.

        Temperature 0: nothing is to be written but what fits. No stop strings: the Modelfile's would cut as well.
        """
        chat = self._chat()
        options = chat.get("options")
        own = options if isinstance(options, dict) else {}
        document: JsonObject = {
            "model": self.request.model,
            "raw": True,
            "think": False,
            "stream": False,
            "prompt": without_bos(prompt) + opening,
            "format": schema,
            "options": {**own, "temperature": 0, "num_predict": self.cap, "stop": []},
        }
        if images := images_of(chat):
            document["images"] = images
        for name in ("keep_alive", "shift", "truncate"):
            if name in _held(chat):
                document[name] = chat[name]
        return GENERATE, document

    def _chat(self) -> JsonObject:
        """Return the request as /api/chat has it, without what only the client's own answer needs."""
        chat = SURFACES[CHAT].without_choice(to_ollama_chat(self.surface.name, self.sent))
        return {name: value for name, value in chat.items() if name not in ("format", *UNASKED)}


TRANSLATORS: Final = {CHAT: to_ollama_chat, "/v1/chat/completions": to_openai_chat}


def _calm(document: JsonObject) -> JsonObject:
    """Take out what belongs to the client's own answer: stop strings, tokens, further choices."""
    calm = {name: value for name, value in _held(document).items() if name not in (*STOPS, *UNASKED)}
    options = calm.get("options")
    if isinstance(options, dict) and "stop" in options:
        calm["options"] = {name: value for name, value in options.items() if name != "stop"}
    return calm


def _held(document: JsonObject) -> JsonObject:
    """Hold back a `keep_alive` of nothing: the model would be unloaded and loaded again between two questions."""
    given = document.get("keep_alive")
    nothing = NO_TIME.fullmatch(given) is not None if isinstance(given, str) else given == 0 and given is not False
    return {name: value for name, value in document.items() if name != "keep_alive" or not nothing}


def asks_for_json(document: JsonObject) -> bool:
    """Tell whether the client itself puts its answer under a schema: then its text need not be a call at all."""
    text, given = document.get("text"), document.get("response_format")
    form = text.get("format") if isinstance(text, dict) else given
    kind = form.get("type") if isinstance(form, dict) else None
    return bool(document.get("format")) or kind in ("json_schema", "json_object")


# The rendered prompt


def prompt_of(body: bytes) -> str | None:
    """Read the rendered prompt from a reply; None when the server does not know the question."""
    try:
        document = json.loads(body)
        prompt = document["_debug_info"]["rendered_template"]
    except (ValueError, RecursionError, KeyError, TypeError):
        return None
    return prompt if isinstance(prompt, str) and prompt else None


def without_bos(prompt: str) -> str:
    """Take off the token that begins a prompt: the tokenizer adds its own."""
    bos = next((mark for mark in LEADING_BOS if prompt.startswith(mark)), "")
    return prompt.removeprefix(bos)


def is_harmony(prompt: str) -> bool:
    """Tell whether a prompt is for a harmony model (gpt-oss)."""
    return prompt.rstrip().endswith(HARMONY_END)


def opening(prompt: str, thinking: str, tools: Sequence[Tool], name: str | None) -> str:
    """Return what goes between the prompt and the JSON: the model's own thinking, and the opening of its call.

    Args:
        prompt: The rendered prompt.
        thinking: What the model thought in the turn that is asked about.
        tools: The offered tools, in their order: harmony numbers names that become the same.
        name: The tool that is meant; None when the answer is an envelope.

    For harmony a call to one tool opens as the model itself opens it; an envelope opens as an answer under a schema
    does there, in the final channel. Other dialects get nothing: the JSON begins where the answer begins.
    """
    if is_harmony(prompt):
        thought = f"<|channel|>analysis<|message|>{thinking}<|end|>{HARMONY_END}" if thinking else ""
        if name is None:
            return f"{thought}<|channel|>final <|constrain|>json<|message|>"
        return f"{thought}<|channel|>commentary to=functions.{harmony_name(name, tools)} <|constrain|>json<|message|>"
    ended = prompt.rstrip()
    tag = next((tag for tag in THINKING_ENDS if ended.endswith(tag)), None)
    return "" if tag is None else thinking + THINKING_ENDS[tag]


def harmony_name(name: str, tools: Sequence[Tool]) -> str:
    """Return a tool's name as Ollama writes it for harmony: an identifier, numbered where two become the same.

    Source: harmony/harmonyparser.go FunctionNameMap.
    """
    taken: dict[str, str] = {}
    for tool in tools:
        plain = candidate = _identifier(tool.name)
        count = 2
        while candidate in taken:
            candidate = f"{plain}_{count}"
            count += 1
        taken[tool.name if tool.name in HARMONY_BUILTIN else candidate] = tool.name
    return next((theirs for theirs, ours in taken.items() if ours == name), _identifier(name))


def _identifier(name: str) -> str:
    underscored = re.sub(r"[ .-]", "_", name)
    kept = "".join(letter for letter in underscored if letter.isalpha() or letter.isdigit() or letter in "_$")
    return f"_{kept}" if kept[:1].isdigit() else kept or "unnamed"
