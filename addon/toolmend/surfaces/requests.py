"""Read what requests declare: tools and tool choice, in every form that is in use, whichever surface it comes on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from toolmend.fingerprint import fingerprint
from toolmend.model import Body, ChoiceMode, DecodeError, Json, JsonObject, Request, Tool, ToolChoice
from toolmend.surfaces.wire import dump_text, object_of, objects_of, text_of, without

MODES: Final[dict[str, ChoiceMode]] = {"auto": "auto", "none": "none", "required": "required", "any": "required"}
MOST_KEPT: Final = 32
NAMED_KINDS: Final = ("function", "tool", "custom", None)


def read_tools(tools: Json) -> tuple[Tool, ...]:
    """Read declared tools: nested (`function`), flat, Anthropic's (`input_schema`), and namespaces of them.

    A tool of another kind that has a name (`custom`, `bash_20250124`) counts as one that takes anything: Ollama offers
    it to the model like that. Tools without a name, and the server's own web search, are left out.

    An agent sends the same tools with every turn: they are read once, and the turns share them.
    """
    if not isinstance(tools, list):
        return ()
    written = fingerprint(tools)
    if (known := _read.get(written)) is not None:
        return known
    read = tuple([tool for entry in objects_of(tools) for tool in _declared(entry)])
    if written:
        if len(_read) >= MOST_KEPT:
            _read.clear()
        _read[written] = read
    return read


_read: Final[dict[bytes, tuple[Tool, ...]]] = {}


def _declared(entry: JsonObject) -> list[Tool]:
    if entry.get("type") == "namespace":
        space = text_of(entry.get("name"))
        return [_in_namespace(tool, space) for tool in read_tools(entry.get("tools"))] if space else []
    if text_of(entry.get("type")).startswith("web_search"):
        return []
    body = object_of(entry.get("function")) or entry
    name = text_of(body.get("name"))
    schema = object_of(body.get("parameters")) or object_of(body.get("input_schema"))
    return [Tool(name, schema, text_of(body.get("description")))] if name else []


def _in_namespace(tool: Tool, space: str) -> Tool:
    return Tool(f"{space}.{tool.name}", tool.parameters, tool.description, namespace=space)


def keep_tools(tools: Json, names: Sequence[str], space: str = "") -> list[Json]:
    """Return the declarations of these tools alone, as they came and in their order."""
    kept: list[Json] = []
    for entry in objects_of(tools):
        if entry.get("type") == "namespace":
            inner = keep_tools(entry.get("tools"), names, text_of(entry.get("name")))
            kept += [{**entry, "tools": inner}] if inner else []
        elif any((f"{space}.{tool.name}" if space else tool.name) in names for tool in _declared(entry)):
            kept.append(entry)
    return kept


def read_choice(value: Json) -> ToolChoice | None:
    """Read a tool choice, without the parallel flag; None when its form is unknown.

    Forms: "auto", "none", "required", "any"; `{"type": <one of these>}`; `{"type": "function", "name"}` and the same
    nested in `function`; Anthropic's `{"type": "tool", "name"}`; `allowed_tools`, flat and nested.
    """
    if value is None:
        return ToolChoice()
    if isinstance(value, str):
        return ToolChoice(MODES[value]) if value in MODES else None
    if not isinstance(value, dict):
        return None
    kind = value.get("type")
    if kind == "allowed_tools":
        return _read_allowed(object_of(value.get("allowed_tools")) or value)
    if isinstance(kind, str) and kind in MODES:
        return ToolChoice(MODES[kind])
    name = _name_in(value)
    return ToolChoice("named", (name,)) if name and kind in NAMED_KINDS else None


def _read_allowed(value: JsonObject) -> ToolChoice | None:
    mode = MODES.get(text_of(value.get("mode")) or "auto")
    names = tuple(name for entry in objects_of(value.get("tools")) if (name := _name_in(entry)))
    return ToolChoice(mode, names) if mode in ("auto", "required") and names else None


def _name_in(value: JsonObject) -> str:
    nested = object_of(value.get("function")) or object_of(value.get("custom")) or value
    name, space = text_of(nested.get("name")), text_of(nested.get("namespace"))
    return f"{space}.{name}" if name and space else name


class ToolSurface:
    """Share what the surfaces do alike with requests. OpenAI's forms stand here; others override them."""

    name = ""
    stream_by_default = False

    def read_request(self, document: JsonObject) -> Request:
        """Read tools, tool choice, model and stream mode. Raises DecodeError when the body is not this surface's."""
        model, tools, stream = document.get("model"), document.get("tools"), document.get("stream")
        if not isinstance(model, str) or not (tools is None or isinstance(tools, list)):
            raise DecodeError(f"{self.name}: no model, or tools that are no list")
        return Request(
            surface=self.name,
            model=model,
            tools=read_tools(tools),
            tool_choice=self.read_choice(document) or ToolChoice(parallel=self.reads_parallel(document)),
            stream=self.stream_by_default if stream is None else bool(stream),
            body=Body(document),
        )

    def read_choice(self, document: JsonObject) -> ToolChoice | None:
        """Read tool choice and parallel flag; None when the choice has a form we do not know."""
        choice = read_choice(document.get("tool_choice"))
        return choice and ToolChoice(choice.mode, choice.names, self.reads_parallel(document))

    def reads_parallel(self, document: JsonObject) -> bool:
        """Tell whether more than one call is allowed."""
        return document.get("parallel_tool_calls") is not False

    def unknown_choice(self, document: JsonObject) -> str | None:
        """Return a tool choice whose form we do not know, as text for a warning; None when it is fine or absent."""
        return None if self.read_choice(document) else dump_text(document.get("tool_choice"))[:200]

    def error_frame(self, message: str) -> bytes | None:
        """Make the frame that says an error in mid-stream; None: the server's own frame says it."""
        return None

    def with_tools(self, document: JsonObject, names: Sequence[str]) -> JsonObject:
        """Return a copy that offers only these tools, in their order; `tools` goes away when none is left."""
        kept = keep_tools(document.get("tools"), names)
        return {**document, "tools": kept} if kept else without(document, "tools")

    def without_choice(self, document: JsonObject) -> JsonObject:
        """Return a copy without tool_choice and the parallel flag (the server reads neither)."""
        return without(document, "tool_choice", "parallel_tool_calls")

    def with_choice(self, document: JsonObject, choice: ToolChoice) -> JsonObject:
        """Return a copy that asks for this choice; allowed tools are a matter of `with_tools`."""
        parallel: JsonObject = {} if choice.parallel else {"parallel_tool_calls": False}
        return {**self.without_choice(document), "tool_choice": self.choice_value(choice), **parallel}

    def choice_value(self, choice: ToolChoice) -> Json:
        """Write a choice in the surface's form."""
        if choice.mode == "named":
            return {"type": "function", "function": {"name": choice.names[0]}}
        return choice.mode

    def untap(self, raw: bytes, first: bool) -> tuple[tuple[bytes, ...], str]:
        """Return the frame as it is: this surface cannot be tapped."""
        return (raw,), ""
