"""Declare the addon's options and read them: one table, every option a string.

mitmproxy drops an addon without a word when a typed option does not parse, so all of ours are strings, read here, and a
wrong one is an `OptionsError` that names the option, the value and what is allowed.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Literal, cast

from mitmproxy import ctx, exceptions, flowfilter
from mitmproxy.addonmanager import Loader
from mitmproxy.optmanager import _UnconvertedStrings

from toolmend.settings import Settings

PREFIX: Final = "toolmend_"
WORDS_ON: Final = ("on", "true", "yes", "1")
WORDS_OFF: Final = ("off", "false", "no", "0")


class _WrongValueError(ValueError):
    """Raised by a reader with what is allowed."""


def _switch(text: str) -> bool:
    word = text.strip().lower()
    if word in WORDS_ON:
        return True
    if word in WORDS_OFF:
        return False
    raise _WrongValueError("on or off")


def _one_of(*words: str) -> Callable[[str], str]:
    def read(text: str) -> str:
        word = text.strip().lower()
        word = {"true": "on", "yes": "on", "false": "off", "no": "off"}.get(word, word) if "on" in words else word
        if word in words:
            return word
        raise _WrongValueError(", ".join(words[:-1]) + f" or {words[-1]}")

    return read


def _number(low: float, high: float, what: str) -> Callable[[str], float]:
    def read(text: str) -> float:
        try:
            value = float(text)
        except ValueError:
            value = float("nan")
        if low <= value <= high:
            return value
        raise _WrongValueError(f"{what} from {low:g} to {high:g}")

    return read


def _folder(text: str) -> Path | None:
    if not text:
        return None
    path = Path(text).expanduser()
    if path.exists() and not path.is_dir():
        raise _WrongValueError("a folder (this is a file)")
    return path


def _file(text: str) -> Path | None:
    if not text:
        return None
    path = Path(text).expanduser()
    if path.is_dir():
        raise _WrongValueError("a file (this is a folder)")
    return path


def _filter(text: str) -> flowfilter.TFilter | None:
    if not text:
        return None
    try:
        return flowfilter.parse(text)
    except ValueError as error:
        raise _WrongValueError(
            "a mitmproxy filter expression, see https://docs.mitmproxy.org/stable/concepts/filters/"
        ) from error


@dataclass(frozen=True, slots=True)
class Option:
    """Hold one option: its default and help as a person reads them, and how its text is read."""

    name: str
    default: str
    help: str
    read: Callable[[str], Any]  # what it returns depends on the option; `read_options` gives each its type


OPTIONS: Final = (
    Option(
        "follow_up",
        "on",
        "Ask the model once more, constrained by the schema, when a call cannot be repaired otherwise: on or off.",
        _switch,
    ),
    Option(
        "tap",
        "learn",
        "Read the model's raw text by logprobs, to mend calls that Ollama swallows: off, on, or learn (on for a model "
        "once it has lost a call).",
        _one_of("off", "on", "learn"),
    ),
    Option(
        "force",
        "answer-first",
        "How a required or named tool_choice is kept: answer-first (the model answers freely, and is asked again if "
        "the choice is unmet) or constrain (the schema goes on the first request).",
        _one_of("answer-first", "constrain"),
    ),
    Option("record", "", "Write a redacted recording of each broken answer into this folder.", _folder),
    Option(
        "record_which",
        "repaired",
        "Which answers are recorded: broken (still faulty after everything), repaired (those and the repaired ones) "
        "or all.",
        _one_of("broken", "repaired", "all"),
    ),
    Option("record_prompts", "off", "Keep the messages in recordings instead of their shape only: on or off.", _switch),
    Option(
        "timeout",
        "60",
        "Seconds a follow-up may take before the answer goes out as it is.",
        _number(0.1, 3600, "a number of seconds"),
    ),
    Option(
        "max_tokens", "4096", "Tokens a follow-up may generate at most.", _number(16, 1_000_000, "a number of tokens")
    ),
    Option("quiet", "off", "Write no line for repaired turns: on or off.", _switch),
    Option("log", "", "Append one JSON line for every turn with tools to this file.", _file),
    Option(
        "upstream",
        "auto",
        "What the server is: auto (found out once), ollama, llama-server or vllm.",
        _one_of("auto", "ollama", "llama-server", "vllm"),
    ),
    Option(
        "filter",
        "",
        "A mitmproxy filter expression for the flows that are repaired. Default: all in reverse mode, elsewhere those "
        "to port 11434 on this machine.",
        _filter,
    ),
)


@dataclass(frozen=True, slots=True)
class Chosen:
    """Hold what the user set, read."""

    settings: Settings
    record: Path | None
    record_which: Literal["broken", "repaired", "all"]
    record_prompts: bool
    quiet: bool
    log: Path | None
    upstream: str
    filter: flowfilter.TFilter | None


def declare(loader: Loader) -> None:
    """Add the options to mitmproxy."""
    _make_plain(ctx.options.deferred)
    for option in OPTIONS:
        loader.add_option(PREFIX + option.name, str, option.default, option.help)


def _make_plain(deferred: dict[str, Any]) -> None:
    """Turn what stands for our options into one text each: a YAML file gives numbers and booleans, the command line
    may give none (`--set toolmend_quiet`) or several. Any of these would end in silence."""
    for name, value in deferred.items():
        if not name.startswith(PREFIX):
            continue
        given = value.val if isinstance(value, _UnconvertedStrings) else [value]
        last = given[-1] if given else "on"
        deferred[name] = _UnconvertedStrings([("off", "on")[last] if isinstance(last, bool) else str(last)])


def read_options(values: Mapping[str, str]) -> Chosen:
    """Read all options. Raises OptionsError for a value that is not allowed."""
    read = {option.name: _read(option, values[PREFIX + option.name]) for option in OPTIONS}
    return Chosen(
        settings=Settings(
            follow_up=read["follow_up"],
            tap=read["tap"],
            force=read["force"],
            timeout=read["timeout"],
            max_tokens=int(read["max_tokens"]),
        ),
        record=read["record"],
        record_which=cast(Literal["broken", "repaired", "all"], read["record_which"]),
        record_prompts=read["record_prompts"],
        quiet=read["quiet"],
        log=read["log"],
        upstream=read["upstream"],
        filter=read["filter"],
    )


def _read(option: Option, text: str) -> Any:  # the type is the option's own
    try:
        return option.read(text)
    except _WrongValueError as wrong:
        raise exceptions.OptionsError(f"{PREFIX}{option.name}: {text!r} is not allowed, expected {wrong}") from wrong


def refuse_unknown(deferred: Mapping[str, object]) -> None:
    """Raise OptionsError for an option with our prefix that we do not have: mitmproxy would ignore it."""
    known = [PREFIX + option.name for option in OPTIONS]
    for name in deferred:
        if name.startswith(PREFIX) and name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f", did you mean {near[0]}?" if near else f"; there are {', '.join(known)}"
            raise exceptions.OptionsError(f"{name}: no such option{hint}")
