"""Read harmony's messages (gpt-oss), and what is left of them when the special tokens are gone.

A call is a message with a recipient (`to=functions.NAME`), before or after its channel. The final channel and preambles
are text; the analysis channel is thinking. Without tokens and recipient, nothing says which tool was meant: then only
the one offered tool that takes exactly these keys can be.
"""

from __future__ import annotations

import re
from typing import Final

from toolmend import lenient_json
from toolmend.dialects.positions import blank_end
from toolmend.dialects.source import Reading, Source, State, call
from toolmend.model import Json, ToolCall

FORM: Final = "harmony"
KEY = re.compile(r"[\"'][\w-]+[\"']\s*:")
HEADER = re.compile(r"(?P<words>(?:[^<{]|<\|(?:start|channel|constrain|recipient)\|>){0,300}?)<\|message\|>\s*")
OPEN_HEADER = re.compile(r"(?:[^<{]|<\|(?:start|channel|constrain|recipient)\|>){0,300}+(?:<[|\w]{0,12})?\Z")
CHANNEL = re.compile(r"<\|channel\|>\s*(\w+)")
RECIPIENT = re.compile(r"\bto=\s*(?:functions?[. ])?(?P<name>[\w.:/-]+)")
TOKEN = re.compile(r"<\|(?:end|call|return|start|channel|eot|eom)\|>")
ENDS = re.compile(r"(?:\s*<\|(?:end|call|return|eot|eom|endoftext)\|>)*\s*")
REMAINS = re.compile(
    r"(?:<\|(?:start|channel)\|>|assistant|commentary|analysis|\s++){0,24}+"
    r"to=\s*(?:functions?[. ])?(?P<name>[\w:/-]+(?:\.[\w:/-]+)*?)"
    r"(?:<\|\w+\|>|commentary|analysis|assistant|json|code|[.=:]|[^\x00-\x7f]++|\s++){0,24}+(?=\{)"
)
OPEN_REMAINS = re.compile(
    r"(?:assistant|commentary|analysis|\s++){0,24}+(?:t(?:o(?:=[\w.:/<|>-]{0,120}+(?:\s++[\w=]{0,12}+){0,12}+)?)?)?\Z"
)
GLUED = re.compile(
    r"(?:analysis|commentary|assistant)(?=[A-Z{<\"]|assistant|commentary|analysis|final|json|code|\s*to=)"
)
GLUED_OBJECT = re.compile(r"(?:assistant|commentary|analysis|json|code|final)+\s*(?=\{)")
GLUED_FINAL: Final = "assistantfinal"
GLUED_CALL = re.compile(r"assistant\s*+(?:(?:commentary|analysis)\s*+)?(?=to=)")


def read_harmony(source: Source, at: int, *, inside: bool) -> Reading | None:
    """Read all messages from the position to the end of the text, or the call that is left of one."""
    text = source.text
    if text.startswith(("<|start|>", "<|channel|>", "<|message|>"), at):
        return _read_messages(source, at)
    if text.startswith("to=", at):
        return _read_remains(source, at)
    if source.starts(at) and GLUED.match(text, at):
        return _read_glued(source, at)
    return _read_remains(source, at) if text.startswith(("assistant", "commentary", "analysis"), at) else None


def _read_messages(source: Source, at: int) -> Reading:
    calls: list[ToolCall] = []
    kept: list[str] = []
    position, text = at, source.text
    while position < len(text):
        header = HEADER.match(text, position)
        if header is None:
            if calls and blank_end(text, position) == len(text):
                break
            state: State = "cut" if OPEN_HEADER.match(text, position) and calls else "unreadable"
            return Reading(len(text), tuple(calls), state, FORM, marker=True)
        words = header["words"]
        recipient, channel = RECIPIENT.search(words), CHANNEL.search(words)
        if recipient and not recipient["name"].startswith("user"):
            item = _arguments(source, header.end())
            if isinstance(item, str):
                return Reading(len(text), tuple(calls), item, FORM, marker=True)
            value, position = item
            calls.append(call(source.clean_name(recipient["name"]), value, FORM))
        else:
            stop = TOKEN.search(text, header.end())
            end = stop.start() if stop else len(text)
            source.spend(end - position)
            found = _message(source, channel[1] if channel else "final", text[header.end() : end], header.end())
            if isinstance(found, Reading):
                return found
            calls += found[0]
            kept += found[1]
            position = max(end, found[2])
        ends = ENDS.match(text, position)
        position = ends.end() if ends else position
        if position < len(text) and not text.startswith(
            ("<|start|>", "<|channel|>", "<|message|>", "assistant"), position
        ):
            break
    return Reading(position, tuple(calls), form=FORM, marker=True, kept="".join(kept).strip(), chatter=bool(calls))


def _arguments(source: Source, at: int) -> tuple[Json, int] | State:
    text = source.text
    if text.startswith("{", at):
        return source.json_at(at)
    stop = TOKEN.search(text, at)
    end = stop.start() if stop else len(text)
    written = text[at:end].strip()
    if not written:
        return ({}, end) if stop else "cut"
    braced = lenient_json.parse("{" + written + "}") if KEY.match(written) else None
    return (braced.value if braced else written), end


def _message(source: Source, channel: str, content: str, at: int) -> Reading | tuple[list[ToolCall], list[str], int]:
    """Read a message without recipient: an object in it is a call whose name was lost; else it is text or thinking."""
    if channel == "final" or not content.lstrip().startswith("{"):
        return [], [] if channel == "analysis" else [content], at
    item = source.json_at(blank_end(source.text, at))
    if isinstance(item, str):
        return Reading(len(source.text), state=item, form=FORM, marker=True)
    value, end = item
    tool = source.only_tool_for(value) if isinstance(value, dict) else None
    if tool is None:
        return Reading(end, state="unreadable", form=FORM, marker=True)
    return [call(tool.name, value, FORM)], [], end


def _read_remains(source: Source, at: int) -> Reading | None:
    match = REMAINS.match(source.text, at)
    if match is None:
        if source.final or not OPEN_REMAINS.match(source.text, at):
            return None
        return Reading(len(source.text), state="cut", form=FORM)
    item = source.json_at(match.end())
    if isinstance(item, str):
        return Reading(len(source.text), state=item, form=FORM, marker=True)
    value, end = item
    return Reading(end, (call(_name(source, match["name"]), value, FORM),), form=FORM, marker=True)


def _name(source: Source, written: str) -> str:
    """Return the recipient without the words that ran into it when the tokens went."""
    name = source.clean_name(written)
    for word in ("json", "code", "commentary", "analysis", "commentaryjson", "commentarycode"):
        if source.tool(name) is None and name.endswith(word) and source.tool(name.removesuffix(word)):
            return name.removesuffix(word)
    return name


def _read_glued(source: Source, at: int) -> Reading | None:
    """Read messages whose tokens are gone, so that role, channel and text run together."""
    text = source.text
    called = next((m for m in GLUED_CALL.finditer(text, at) if REMAINS.match(text, m.end())), None)
    if called or REMAINS.match(text, at):
        return _read_remains(source, called.end() if called else at)
    if bare := GLUED_OBJECT.match(text, at):
        item = source.json_at(bare.end())
        if isinstance(item, str):
            return Reading(len(text), state=item, form=FORM)
        value, end = item
        tool = source.only_tool_for(value) if isinstance(value, dict) else None
        if tool is None:
            return Reading(end, state="unreadable", form=FORM, marker=True)
        return Reading(end, (call(tool.name, value, FORM),), form=FORM, marker=True)
    final = text.rfind(GLUED_FINAL)
    if final < 0:
        return None if source.final else Reading(len(text), state="cut", form=FORM)
    return Reading(len(text), (), "clean", FORM, marker=True, kept=text[final + len(GLUED_FINAL) :].strip())
