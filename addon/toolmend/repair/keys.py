"""Find the declared members that an object's keys mean, and the keys that its schema does not allow."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Final

from toolmend.model import JsonObject, Tool
from toolmend.repair.names import edited, folded, opposed, words_of

_NEAR: Final = """
absolutepath file filename filepath filepathname path pathname
dir directory directorypath dirpath folder folderpath path
city location place
body content contents filecontent filecontents text
cmd command commandline shellcommand
q query searchquery searchterm searchquestion
link uri url
pattern regex regexp
msg message
cwd workdir workingdirectory
newstr newstring newtext
oldstr oldstring oldtext
"""
TAGGED: Final = re.compile(r"<?(?:parameter|param|arg)(?:=|\s+name\s*=)\s*[\"']?(?P<name>[\w.$-]++)[\"']?>?")
"""A key with the tag that named it, as a server's parser for another dialect leaves it."""
NEAR: Final = tuple(frozenset(line.split()) for line in _NEAR.strip().splitlines())
"""Names of one thing: each line is one. What shares nothing (`code`, `source`) is never renamed: users ask for that."""
OTHER: Final = frozenset(
    {"child", "except", "exclude", "excluded", "ignore", "ignored", "max", "maximum", "min", "minimum", "next", "no"}
    | {"non", "not", "old", "other", "parent", "prev", "previous", "skip", "skipped", "without"}
)
"""Words that make another thing of what follows: `exclude_path` is no other name for `path`."""


def renames(
    members: JsonObject, declared: JsonObject, missing: Sequence[str], fits: Callable[[str, str], bool]
) -> dict[str, str]:
    """Find the declared member that each unknown key means.

    Args:
        members: The object.
        declared: The members its schema declares, with their schemas.
        missing: The required members that it lacks.
        fits: Whether a key's value fits the declared member of that name.

    Returns:
        The new names by the old ones. A key in another style of writing always counts; a near synonym or a slip of
        one character only if one required member is missing and one key is unknown.
    """
    unknown = [key for key in members if key not in declared]
    absent = [name for name in declared if name not in members]
    found: dict[str, str] = {}
    for key in unknown:
        tagged = TAGGED.fullmatch(key)
        written = folded(tagged["name"] if tagged else key)
        same = [name for name in absent if folded(name) == written and written]
        if len(same) == 1 and same[0] not in found.values() and fits(key, same[0]):
            found[key] = same[0]
    left = [key for key in unknown if key not in found]
    wanted = [name for name in missing if name not in found.values()]
    name = _near(left[0], wanted, absent) if len(left) == 1 else None
    if name is not None and name not in found.values() and fits(left[0], name):
        found[left[0]] = name
    return found


def _near(key: str, missing: Sequence[str], absent: Sequence[str]) -> str | None:
    """Return the member that one unknown key can only mean: the one that is missing, else a mistyped one."""
    if len(missing) == 1 and _are_near(key, missing[0]):
        return missing[0]
    typed = [name for name in absent if _is_slip(key, name)]
    return typed[0] if len(typed) == 1 and set(missing) <= set(typed) else None


def _are_near(key: str, name: str) -> bool:
    one, other = folded(key), folded(name)
    if any(one in group and other in group for group in NEAR) or _is_slip(key, name):
        return True
    shorter, longer = sorted((words_of(key), words_of(name)), key=len)
    more = longer[: len(longer) - len(shorter)]
    return bool(shorter) and longer[len(more) :] == shorter and OTHER.isdisjoint(more)


def _is_slip(key: str, name: str) -> bool:
    one, other = folded(key), folded(name)
    return edited(one, other) and not opposed(one, other)


def belongs_elsewhere(key: str, members: JsonObject, tools: Sequence[Tool]) -> bool:
    """Tell whether a surplus key says that another tool was meant: one that needs it and takes all the others too."""
    return any(_takes_all(tool.parameters, key, members) for tool in tools)


def _takes_all(schema: JsonObject, needed: str, members: JsonObject) -> bool:
    properties, required = schema.get("properties"), schema.get("required")
    if not isinstance(properties, dict) or not isinstance(required, list):
        return False
    return needed in required and members.keys() <= properties.keys()
