"""Find the offered tool that a name means, or tell that it means none.

A guess is unique or is not made: each way of reading a name counts only if it leads to exactly one offered tool, and
never from one verb to another (`delete_file` is no near miss for `create_file`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

from toolmend.model import Json, Tool, ToolCall
from toolmend.repair.schema import properties_of

_VERBS: Final = """
    accept activate add allow append apply approve archive attach ban block book buy cancel cat check clear close
    commit compress confirm connect copy create cut deactivate decline decode decrypt delete deny destroy detach disable
    disconnect download drop edit empty enable encode encrypt end erase evaluate exit export extract fetch find finish
    follow format get grant hide import insert install invite kill leave like list load lock login logout lower mail
    make merge mkdir modify mount move mute open pack patch pause play post preview print publish pull push put query
    raise read receive redo refuse reject remove rename replace reply reset resolve restart restore resume retrieve
    return revert revoke rm save schedule search see sell send set show shut sign split start stop store submit
    subscribe transfer trash turn unban unblock undo unfollow uninstall unlike unlock unmount unmute unpack unsubscribe
    unzip update upload validate verify view wait wake watch write zip
"""
VERBS: Final = frozenset(_VERBS.split())
NEGATIONS: Final = frozenset({"dont", "never", "no", "non", "not", "off", "on", "un", "without", "dis"})
MORE: Final = frozenset(
    {"all", "any", "batch", "bulk", "draft", "dry", "every", "everything", "force", "forced", "hard", "mass"}
    | {"permanent", "permanently", "safe", "soft"}
)
HEADS: Final = frozenset(
    {"a", "ac", "as", "at", "de", "des", "dis", "down", "en", "ex", "il", "im", "in", "inter", "intra", "ir", "mis"}
    | {"non", "off", "on", "out", "over", "post", "pre", "re", "sub", "super", "un", "under", "up"}
)
"""Beginnings that turn one word into another: `unload` is no slip of `upload`."""
RUN_VERBS: Final = frozenset({"call", "exec", "execute", "invoke", "run", "use"})
_WRAPPERS: Final = """
    action agent api assistant builtin call command commentary default fn func function functions google index json mcp
    native ns plugin tool tools
"""
WRAPPERS: Final = frozenset(_WRAPPERS.split())
GENERIC: Final = frozenset({"a", "function", "functions", "get", "set", "the", "to", "tool", "tools"})
SHELL: Final = frozenset({"bash", "cmd", "command", "console", "powershell", "sh", "shell", "terminal"})
PLACEHOLDERS: Final = frozenset(
    {"functionname", "toolname", "nameoffunction", "nameoftool", "yourfunctionname", "yourtoolname", "name", "string"}
)
BUILT_IN: Final = frozenset({"python", "browser", "browsersearch", "browseropen", "containerexec", "codeinterpreter"})
"""Tools that some models were trained with, and call whatever is offered. Source: the harmony format."""

WORDS: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|\d+|[^\W\d_a-zA-Z]+")
LEGAL: Final = re.compile(r"[A-Za-z_][\w.-]{0,127}\Z")
CUT: Final = re.compile(r"<[|｜/a-zA-Z]|[({\[\n\r]|\[(?:ARGS|CALL_ID|TOOL_CALLS)\]")
EDGE: Final = " \t\r\n\"'`“”‘’*:;,.>="
RECIPIENT: Final = re.compile(r"\bto=([\w.-]+)")
OPENED: Final = re.compile(r"(?:\[TOOL_CALLS\]|<tool_call>)\s{0,8}+([\w.-]++)\W{0,8}\Z")
"""A call's opener before the name, with text before it that the server took for a part of the name."""
COUNTER: Final = re.compile(r"(?:[:.#]\d+)\Z")
SEPARATOR: Final = re.compile(r"[\s./:\\|>]+|__+|->")
GLUED: Final = re.compile(r"(?:functions?|tools?)(?=[A-Za-z_])")
PLACEHOLDER: Final = re.compile(r"\s*(?:<[^<>\n]{1,80}>|\{\{[^{}\n]{1,80}\}\}|value_?\d+)\s*\Z")
EMPTY_WORDS: Final = frozenset({"", "none", "null", "nil", "n/a", "nothing", "...", "…"})
"""What a model writes where it has nothing to say: a call of these alone is no wish of its own."""
MIN_EDITED: Final = 4
MIN_SUBSTITUTED: Final = 6
MAX_NAME: Final = 300


@dataclass(frozen=True, slots=True)
class Snapped:
    """Hold the offered tool that a name means, why, and what stood in the name after it (arguments fused to it)."""

    tool: Tool
    note: str = ""
    rest: str = ""


def snap(name: str, tools: Sequence[Tool]) -> Snapped | None:
    """Find the one offered tool that a name means.

    Returns:
        None when it means none, or more than one. `note` is empty for the exact name.
    """
    if exact := _only(tool for tool in tools if tool.name == name):
        return Snapped(exact)
    offered = _Offered(tools)
    if (local := _only(tool for tool in tools if tool.local_name == name)) is not None:
        return Snapped(local, "namespace")
    if (described := offered.described(name)) is not None:
        return Snapped(described, "description")
    base, rest = split_fused(name[:MAX_NAME])
    if named := RECIPIENT.search(name[:MAX_NAME]) or OPENED.search(name[-MAX_NAME:]):
        # A whole harmony header: `assistant<|channel|>commentary to=functions.read_file`; or text before an opener.
        base, rest = named[1], ""
    for note, find in _WAYS:
        if (tool := find(base, offered)) is not None:
            return Snapped(tool, note, name[len(base) :] if rest else "")
    return None


def split_fused(name: str) -> tuple[str, str]:
    """Split a name from what was glued to it: markup, special tokens, an object, a call's brackets."""
    match = CUT.search(name, 1)
    return (name[: match.start()], name[match.start() :]) if match else (name, "")


def meant(call: ToolCall, tools: Sequence[Tool], fits: Callable[[Tool], bool]) -> Tool | None:
    """Find the one offered tool that an invented name and its arguments mean together.

    The name must say the same thing in other words (`execute_command` for `execute_bash`), or nothing at all (empty,
    `function`); the arguments must be this tool's and no other's.

    Args:
        call: A call whose name snaps to no tool.
        tools: The offered tools.
        fits: Whether the call's arguments, exactly as they are, fit a tool.
    """
    if not isinstance(call.arguments, dict) or not call.arguments:
        return None
    keys = call.arguments.keys()
    takers = [tool for tool in tools if keys <= properties_of(tool.parameters).keys() and fits(tool)]
    if len(takers) != 1 or not _says_the_same(words_of(call.name), words_of(takers[0].local_name)):
        return None
    return takers[0]


def evidence(call: ToolCall, tools: Sequence[Tool]) -> bool:
    """Tell whether a call whose name means no offered tool was still meant for one of them.

    It was if the name is none that a function can have, a template's placeholder or one of a model's own built-in
    tools; if an argument's value is a placeholder, or none of them says anything; if a word of the name, or an
    argument, is one of an offered tool's.
    A call without any of this is the model's own idea.
    """
    arguments = call.arguments if isinstance(call.arguments, dict) else {}
    if not LEGAL.match(call.name) or folded(call.name) in PLACEHOLDERS | BUILT_IN:
        return True
    if any(isinstance(value, str) and PLACEHOLDER.match(value) for value in arguments.values()):
        return True
    if arguments and all(value in EMPTY_WORDS for value in map(_plain, arguments.values())):
        return True
    words = {_synonym(word) for word in words_of(call.name)} - GENERIC
    keys = {folded(key) for key in arguments}
    return any(
        words & ({_synonym(word) for word in words_of(tool.local_name)} - GENERIC)
        or keys & {folded(key) for key in properties_of(tool.parameters)}
        for tool in tools
    )


def _plain(value: Json) -> str | None:
    return "" if value is None else value.strip().lower() if isinstance(value, str) else None


def folded(name: str) -> str:
    """Return a name without case, blanks and separators: `file_path`, `filePath` and `File-Path` are one."""
    return _folded(name[:MAX_NAME])


@lru_cache(maxsize=4096)
def _folded(name: str) -> str:
    return "".join(character for character in name if character.isalnum()).lower()


def words_of(name: str) -> tuple[str, ...]:
    """Return the words of a name in small letters: `readFile2` is read, file, 2."""
    return _words(name[:MAX_NAME])


@lru_cache(maxsize=4096)
def _words(name: str) -> tuple[str, ...]:
    return tuple(word.lower() for word in WORDS.findall(name))


def edited(one: str, other: str) -> bool:
    """Tell whether one character was doubled, lost, added or exchanged (in a short word: with its neighbour)."""
    if one == other or abs(len(one) - len(other)) > 1:
        return False
    if len(one) > len(other):
        one, other = other, one
    start = next((index for index, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]), len(one))
    if len(one) < len(other):
        least = MIN_EDITED - 1 if start else MIN_SUBSTITUTED
        return len(one) >= least and one[start:] == other[start + 1 :]
    if len(one) >= MIN_EDITED and one[start:] == _swapped(other[start:]):
        return True
    return len(one) >= MIN_SUBSTITUTED and start > 0 and one[start + 1 :] == other[start + 1 :]


def opposed(one: str, other: str) -> bool:
    """Tell whether two words differ by how they begin, so that one is another word: `internal`, `external`."""
    shared = 0
    while shared < min(len(one), len(other)) and one[-1 - shared] == other[-1 - shared]:
        shared += 1
    heads = {one[: len(one) - shared], other[: len(other) - shared]}
    return len(heads) == 2 and heads <= HEADS | {""}


def _swapped(text: str) -> str:
    return text[1:2] + text[:1] + text[2:]


class _Offered:
    """Hold the offered tools, in the forms in which names are compared."""

    def __init__(self, tools: Sequence[Tool]) -> None:
        self.tools = tools

    def __iter__(self) -> Iterator[tuple[str, Tool]]:
        for tool in self.tools:
            yield tool.name, tool
            if tool.namespace is not None:
                yield tool.local_name, tool

    def only(self, fits: Callable[[str], bool]) -> Tool | None:
        return _only(tool for name, tool in self if fits(name))

    def folded(self, wanted: str) -> Tool | None:
        return self.only(lambda tool: folded(tool) == wanted) if wanted else None

    def described(self, text: str) -> Tool | None:
        wanted = " ".join(text.split()).rstrip(".").lower()
        if " " not in wanted:
            return None
        return _only(tool for tool in self.tools if " ".join(tool.description.split()).rstrip(".").lower() == wanted)


def _only(tools: Iterator[Tool]) -> Tool | None:
    """Return the one tool among these, None when there is none or they differ."""
    found: Tool | None = None
    for tool in tools:
        if found is not None and tool is not found:
            return None
        found = tool
    return found


# Ways to read a name, the surest first


def _trimmed(name: str, offered: _Offered) -> Tool | None:
    """Read a name without blanks, quotes and counters around it."""
    bare = COUNTER.sub("", name.strip(EDGE)).strip(EDGE)
    return offered.only(lambda tool: tool == bare) if bare else None


def _case(name: str, offered: _Offered) -> Tool | None:
    """Read a name in another style: case, dashes, underscores, camel case."""
    return offered.folded(folded(COUNTER.sub("", name.strip(EDGE))))


def _prefixed(name: str, offered: _Offered) -> Tool | None:
    """Read the last part of a name with parts: `functions.read`, `default_api:read`, `assistant.read`, `tools/read`."""
    bare = COUNTER.sub("", name.strip(EDGE))
    for separator in SEPARATOR.finditer(bare):
        tail = folded(bare[separator.end() :])
        if _changes_meaning(words_of(bare[: separator.start()])):
            break
        if (found := offered.folded(tail)) is not None:
            return found
    return None


def _glued(name: str, offered: _Offered) -> Tool | None:
    """Read a name glued to the word `functions`, and a counter to it: `functionsread_file0`."""
    bare = COUNTER.sub("", name.strip(EDGE))
    candidates = {folded(bare), folded(GLUED.sub("", bare, count=1))}
    candidates |= {candidate.rstrip("0123456789") for candidate in candidates} - {""}
    return offered.only(lambda tool: folded(tool) in candidates)


def _doubled(name: str, offered: _Offered) -> Tool | None:
    """Read a name that was written twice, or whose first words were."""
    wanted = folded(name)
    words = words_of(name)
    once = {
        "".join(words[size:])
        for size in range(1, len(words) // 2 + 1)
        if words[:size] == words[size : 2 * size] and len(words) > 2 * size
    }
    return offered.only(lambda tool: folded(tool) * 2 == wanted or folded(tool) * 3 == wanted or folded(tool) in once)


def _wrapped(name: str, offered: _Offered) -> Tool | None:
    """Read a name between words that say nothing: `execute_terminal`, `get_weather_tool`, `call_get_weather`."""
    words = words_of(name)
    start, end = 0, len(words)
    while start < end and words[start] in (WRAPPERS | RUN_VERBS) - {"index"}:
        start += 1
    while end > start and (words[end - 1] in WRAPPERS | RUN_VERBS or words[end - 1].isdigit()):
        end -= 1
    cores = {"".join(words[first:last]) for first in range(start + 1) for last in range(end, len(words) + 1)}
    return offered.only(lambda tool: folded(tool) in cores)


def _plugged(name: str, offered: _Offered) -> Tool | None:
    """Read a name behind a plugin's or server's name that was added to it, or left out."""
    words = words_of(name)

    def fits(tool: str) -> bool:
        others = words_of(tool)
        longer, shorter = (words, others) if len(words) > len(others) else (others, words)
        head = longer[: len(longer) - len(shorter)]
        if not head or longer[len(head) :] != shorter or _changes_meaning(head):
            return False
        return len(shorter) >= 2 or (longer is others and re.search(r"__|[.:/]", tool) is not None)

    return offered.only(fits) if words else None


def _reordered(name: str, offered: _Offered) -> Tool | None:
    """Read the same words in another order: `web_search` for `search_web`."""
    wanted = sorted(words_of(name))
    if len(wanted) < 2 or {"to", "from", "into"} & set(wanted):
        return None
    return offered.only(lambda tool: sorted(words_of(tool)) == wanted)


def _mistyped(name: str, offered: _Offered) -> Tool | None:
    """Read a name with one character doubled, lost or exchanged."""
    wanted = folded(name)
    return offered.only(lambda tool: edited(wanted, folded(tool)) and not _are_twowords_of(name, tool))


def _are_twowords_of(name: str, tool: str) -> bool:
    """Tell whether the edit makes another word: other digits, two known verbs, or a word too short to tell."""
    if re.findall(r"\d+", name) != re.findall(r"\d+", tool):
        return True
    left, right = set(words_of(name)) - set(words_of(tool)), set(words_of(tool)) - set(words_of(name))
    if len(left) != 1 or len(right) != 1:
        return bool(left & VERBS and right & VERBS)
    one, other = left.pop(), right.pop()
    if one in VERBS and (other in VERBS or (len(one) == len(other) and sorted(one) != sorted(other))):
        return True  # `insert` is no slip of `invert`, `retrieve` is the `retreive` that a tool is called
    return one in NEGATIONS or opposed(one, other) or not edited(one, other)


_WAYS: Final[tuple[tuple[str, Callable[[str, _Offered], Tool | None]], ...]] = (
    ("blanks or a counter", _trimmed),
    ("other style", _case),
    ("prefix", _prefixed),
    ("glued prefix", _glued),
    ("doubled", _doubled),
    ("words around it", _wrapped),
    ("plugin name", _plugged),
    ("other order", _reordered),
    ("one character", _mistyped),
)


def _changes_meaning(words: Sequence[str]) -> bool:
    """Tell whether words before a name could turn it into something else: a verb, a negation, more than was said."""
    return any(word in VERBS | NEGATIONS | MORE for word in words)


def _synonym(word: str) -> str:
    return "shell" if word in SHELL else word


def _says_the_same(words: Sequence[str], others: Sequence[str]) -> bool:
    """Tell whether one name's words are the other's, and some that say nothing of their own; or nothing at all."""
    if _numbers(words) and _numbers(others) and _numbers(words) != _numbers(others):
        return False
    if {"get", "set"} <= {*words} ^ {*others}:
        return False
    noise = GENERIC | RUN_VERBS | (WRAPPERS - SHELL)
    one, other = ({_synonym(word) for word in part if word not in noise} for part in (words, others))
    one = {word for word in one if not word.isdigit()}
    if not one:
        return RUN_VERBS.isdisjoint(words)
    if not other or not (one <= other or other <= one):
        return False
    return not _changes_meaning(sorted(one ^ other))


def _numbers(words: Sequence[str]) -> list[str]:
    return [word for word in words if word.isdigit()]
