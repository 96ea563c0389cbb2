"""Options are read in one place, and a wrong one says what is allowed: mitmproxy would go on without the addon."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from mitmproxy import exceptions
from mitmproxy.test import taddons

from mitmproxy_context import addon_context
from toolmend.mitm import options
from toolmend.mitm.addon import Toolmend


@pytest.fixture
def addon() -> Iterator[tuple[Toolmend, taddons.context]]:
    addon = Toolmend()
    with addon_context(addon) as context:
        yield addon, context
    addon.recorder.close()


@pytest.mark.parametrize(
    ("name", "value", "allowed"),
    [
        ("toolmend_timeout", "soon", "a number of seconds from 0.1 to 3600"),
        ("toolmend_timeout", "-1", "a number of seconds from 0.1 to 3600"),
        ("toolmend_timeout", "nan", "a number of seconds from 0.1 to 3600"),
        ("toolmend_max_tokens", "many", "a number of tokens from 16 to 1e+06"),
        ("toolmend_tap", "sometimes", "off, on or learn"),
        ("toolmend_force", "always", "answer-first or constrain"),
        ("toolmend_follow_up", "maybe", "on or off"),
        ("toolmend_record_which", "some", "broken, repaired or all"),
        ("toolmend_upstream", "lmstudio", "auto, ollama, llama-server or vllm"),
        ("toolmend_record", __file__, "a folder (this is a file)"),
        ("toolmend_log", str(Path(__file__).parent), "a file (this is a folder)"),
        ("toolmend_filter", "~nothing(", "a mitmproxy filter expression"),
    ],
)
def test_a_wrong_value_names_option_value_and_what_is_allowed(
    addon: tuple[Toolmend, taddons.context], name: str, value: str, allowed: str
) -> None:
    with pytest.raises(exceptions.OptionsError) as error:
        addon[1].configure(addon[0], **{name: value})
    assert name in str(error.value)
    assert repr(value) in str(error.value)
    assert allowed in str(error.value)


@pytest.mark.parametrize(
    ("value", "meant"), [("on", True), ("true", True), ("OFF", False), ("false", False), ("0", False)]
)
def test_switches_are_read_as_people_write_them(
    addon: tuple[Toolmend, taddons.context], value: str, meant: bool
) -> None:
    addon[1].configure(addon[0], toolmend_quiet=value)
    assert addon[0].chosen is not None
    assert addon[0].chosen.quiet is meant


def test_an_unknown_option_of_ours_is_refused_with_the_nearest_name() -> None:
    with pytest.raises(exceptions.OptionsError, match="toolmend_tabs: no such option, did you mean toolmend_tap"):
        options.refuse_unknown({"toolmend_tabs": None, "other_option": None})


def test_what_a_yaml_file_or_a_bare_set_gives_becomes_text() -> None:
    deferred = {
        "toolmend_quiet": options._UnconvertedStrings([]),
        "toolmend_timeout": 20,
        "toolmend_follow_up": False,
        "toolmend_tap": options._UnconvertedStrings(["off", "on"]),
        "other": 3,
    }
    options._make_plain(deferred)
    values = {name: value.val for name, value in deferred.items() if name != "other"}
    assert values == {
        "toolmend_quiet": ["on"],
        "toolmend_timeout": ["20"],
        "toolmend_follow_up": ["off"],
        "toolmend_tap": ["on"],
    }
    assert deferred["other"] == 3


def test_every_option_has_a_default_that_is_allowed() -> None:
    values = {options.PREFIX + option.name: option.default for option in options.OPTIONS}
    chosen = options.read_options(values)
    assert chosen.settings.timeout == 60
    assert chosen.record is None
