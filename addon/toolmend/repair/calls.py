"""Repair one call: parse, names, unwrap, keys, coerce, in this order and only while faults are left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final, TypeAlias

from toolmend import lenient_json
from toolmend.model import Fault, Json, Repair, Tool, ToolCall
from toolmend.repair.coercion import DEFAULT, LEFT_OUT, ONLY_VALUE, coerce
from toolmend.repair.decoding import Decoded, decode, fused_arguments
from toolmend.repair.names import evidence, meant, snap
from toolmend.repair.schema import validator
from toolmend.repair.unwrapping import MAX_LAYERS, Envelope, Layer, envelope, layers, may_be_wrapped
from toolmend.repair.whole_numbers import whole_numbers

FILLED: Final = frozenset({DEFAULT, LEFT_OUT, ONLY_VALUE})
"""What is done to arguments that lack something, or have too much: what is in a wrapper says it better."""

Repaired: TypeAlias = tuple[ToolCall, tuple[Repair, ...], tuple[Fault, ...]]


@dataclass(frozen=True, slots=True)
class Shaped:
    """Hold arguments in the form a tool asks for, what was done to them, and what is still wrong."""

    arguments: Json
    repairs: tuple[Repair, ...] = ()
    faults: tuple[Fault, ...] = ()


def repair_call(call: ToolCall, tools: Sequence[Tool], index: int = 0, *, cut: bool = False) -> Repaired:
    """Repair one call as far as it goes.

    Args:
        call: The call as it came, structured or read from text.
        tools: The offered tools.
        index: Its place in the turn, for the paths of repairs and faults.
        cut: Whether the answer may have ended inside this call: then closers that are missing say that more is.

    Returns:
        The call (the same object when nothing was to repair), the liberties taken, the faults left.
    """
    try:
        if is_sound(call, tools):
            return call, (), ()
        return _Rungs(call, tools, f"/calls/{index}", cut).climbed()
    except RecursionError:  # nested deeper than any tool asks for: passed as it came
        return call, (), ()


def fits(call: ToolCall, tools: Sequence[Tool]) -> bool:
    """Tell whether a call names an offered tool, after snapping, and has no faults after the ladder."""
    return snap(call.name, tools) is not None and not repair_call(call, tools)[2]


def is_sound(call: ToolCall, tools: Sequence[Tool]) -> bool:
    """Tell at little cost that there is nothing to do on any rung; False says nothing. Nearly all calls are sound."""
    arguments = call.arguments
    if not isinstance(arguments, dict) or not arguments or (tool := delivered_tool(call, tools)) is None:
        return False
    return not may_be_wrapped(arguments, tool) and validator(tool.parameters).surely_fits(arguments)


class _Rungs:
    """Take one call up the rungs."""

    def __init__(self, call: ToolCall, tools: Sequence[Tool], path: str, cut: bool) -> None:
        self.call = call
        self.tools = tools
        self.path = path
        self.cut = cut
        self.arguments_path = f"{path}/arguments"

    def climbed(self) -> Repaired:
        tool = delivered_tool(self.call, self.tools)
        snapped = None if tool else snap(self.call.name, self.tools)
        tool = tool or (snapped.tool if snapped else None)
        decoded = self.decoded(tool)
        inner = envelope(decoded.arguments) if tool is None and decoded is not None else None
        if tool is None and decoded is not None:
            tool = self.enveloped(inner) or self.invented(decoded.arguments)
        if tool is None:
            return self.unknown(decoded)
        repairs = self.renamed(tool, snapped.note if snapped else "")
        if decoded is None:
            return self.done(tool, self.call.arguments, repairs, (self.unreadable(),))
        repairs += self.parsed(decoded)
        shaped = self.shaped(decoded.arguments, tool)
        return self.done(tool, shaped.arguments, repairs + shaped.repairs, shaped.faults)

    def done(self, tool: Tool, arguments: Json, repairs: tuple[Repair, ...], faults: tuple[Fault, ...]) -> Repaired:
        if not repairs:
            return self.call, (), faults
        name, namespace = tool.local_name, tool.namespace
        return replace(self.call, name=name, arguments=arguments, raw=None, namespace=namespace), repairs, faults

    # Parse

    def decoded(self, tool: Tool | None) -> Decoded | None:
        """Return the arguments as an object or a list, and how they were read; None when they cannot be."""
        arguments = self.call.arguments
        if isinstance(arguments, dict) and (arguments or self.call.name.isidentifier()):
            return Decoded(arguments, "")
        if arguments in (None, "", {}) and (fused := fused_arguments(self.call, self.tools)) is not None:
            return fused
        if arguments is None or arguments == []:
            return Decoded({}, "empty")
        if isinstance(arguments, str):
            return decode(arguments, tool, cut=self.cut)
        return Decoded(arguments, "") if isinstance(arguments, dict | list) else None

    def parsed(self, decoded: Decoded) -> tuple[Repair, ...]:
        if decoded.arguments is self.call.arguments:
            return ()
        note = decoded.note or "parsed from text"
        return (Repair("parse", self.arguments_path, self.call.arguments, decoded.arguments, note),)

    def unreadable(self) -> Fault:
        text = self.call.arguments if isinstance(self.call.arguments, str) else ""
        why = "end inside a value" if self.cut or lenient_json.is_cut(text) else "are no JSON object"
        return Fault(self.arguments_path, "syntax", f"{self.arguments_path} {why}")

    # Names

    def enveloped(self, inner: Envelope | None) -> Tool | None:
        """Return the tool that an envelope inside the arguments names, where the call's own name says nothing."""
        snapped = snap(inner.name, self.tools) if inner is not None else None
        return snapped.tool if snapped else None

    def invented(self, arguments: Json) -> Tool | None:
        """Return the one tool that an invented name and its arguments mean together."""
        call = replace(self.call, arguments=arguments)
        return meant(call, self.tools, lambda tool: not self.shaped(arguments, tool).faults)

    def unknown(self, decoded: Decoded | None) -> Repaired:
        arguments = decoded.arguments if decoded is not None else None
        hinted = evidence(replace(self.call, arguments=arguments), self.tools)
        keyword = "invented-tool" if hinted else "unknown-tool"
        fault = Fault(
            f"{self.path}/name", keyword, f"{self.path}/name is {self.call.name[:80]!r}, which is not offered"
        )
        return self.call, (), (fault,)

    def renamed(self, tool: Tool, note: str) -> tuple[Repair, ...]:
        if (self.call.name, self.call.namespace) == (tool.local_name, tool.namespace):
            return ()
        return (
            Repair("names", f"{self.path}/name", self.call.name, tool.local_name, note or "meant by its arguments"),
        )

    # Unwrap, keys, coerce

    def shaped(self, arguments: Json, tool: Tool, depth: int = 0) -> Shaped:
        """Give arguments the form that a tool asks for: as they are, or from inside a wrapper, whichever fits."""
        plain = self.coerced(arguments, tool)
        if depth >= MAX_LAYERS:
            return plain
        best = plain
        settled = not plain.faults and all(repair.note not in FILLED for repair in plain.repairs)
        for layer in layers(arguments, tool):
            if settled and not layer.sure:
                continue
            candidate = self.shaped(layer.arguments, tool, depth + 1)
            if candidate.faults if not plain.faults else not _is_better(candidate.faults, best.faults):
                continue
            best = replace(candidate, repairs=(self.unwrapped(arguments, layer), *candidate.repairs))
        return best

    def unwrapped(self, arguments: Json, layer: Layer) -> Repair:
        return Repair("unwrap", self.arguments_path, arguments, layer.arguments, layer.note)

    def coerced(self, arguments: Json, tool: Tool) -> Shaped:
        check = validator(tool.parameters)
        faults = check.faults(arguments, self.arguments_path)
        if not isinstance(arguments, dict):
            return Shaped(arguments, (), faults or (Fault(self.arguments_path, "type", "the arguments are no object"),))
        if not faults:
            whole, edits = whole_numbers(arguments, check)
            return Shaped(whole, tuple(repair for edit in edits for repair in edit.repairs(self.arguments_path)))
        others = [other for other in self.tools if other is not tool]
        text = self.call.raw or (self.call.arguments if isinstance(self.call.arguments, str) else "")
        mended = coerce(arguments, tool.parameters, self.arguments_path, others=others, written=text)
        if mended.value is arguments:
            return Shaped(arguments, (), faults)
        return Shaped(mended.value, mended.repairs, check.faults(mended.value, self.arguments_path))


def delivered_tool(call: ToolCall, tools: Sequence[Tool]) -> Tool | None:
    """Return the tool that a call already names in the form in which it goes out."""
    for tool in tools:
        if tool.namespace == call.namespace and tool.local_name == call.name:
            return tool
    return None


def _is_better(left: Sequence[Fault], before: Sequence[Fault]) -> bool:
    """Tell whether fewer faults are left, and none that was not there."""
    known = {(fault.path, fault.keyword) for fault in before}
    return len(left) < len(before) and all((fault.path, fault.keyword) in known for fault in left)
