"""Servers are told apart by what they answer, and what a model was seen to do is remembered."""

from __future__ import annotations

import pytest

from toolmend.settings import Settings
from toolmend.upstreams import PROBES, Kind, Reply, Server, is_cloud, recognise

NOT_FOUND = Reply(404, "text/plain", b"404 page not found")


def json_reply(text: str, status: int = 200, server: str = "") -> Reply:
    return Reply(status, "application/json", text.encode(), server)


@pytest.mark.parametrize(
    ("replies", "kind"),
    [
        ({"/api/version": json_reply('{"version":"0.12.3"}')}, "ollama"),
        ({"/api/version": NOT_FOUND, "/props": json_reply('{"default_generation_settings":{}}')}, "llama-server"),
        ({"/api/version": json_reply('{"error":{}}', 404, "llama.cpp")}, "llama-server"),
        ({"/api/version": NOT_FOUND, "/props": NOT_FOUND, "/version": json_reply('{"version":"0.9.2"}')}, "vllm"),
        ({"/v1/chat/completions": json_reply('{"system_fingerprint":"fp_ollama"}')}, "ollama"),
        ({"/api/version": json_reply('{"version":"0.1"}', 401)}, "unknown"),
        ({"/api/version": None, "/props": json_reply("[1"), "/version": json_reply("[]")}, "unknown"),
        ({}, "unknown"),
    ],
)
def test_a_server_is_known_by_its_answers(replies: dict[str, Reply | None], kind: Kind) -> None:
    assert recognise(replies).kind == kind


def test_the_paths_to_ask_are_those_that_tell() -> None:
    assert PROBES == ("/api/version", "/props", "/version")


@pytest.mark.parametrize(
    ("model", "cloud"),
    [
        ("gpt-oss:120b-cloud", True),
        ("qwen3-coder:cloud", True),
        ("library/x:cloud", True),
        ("cloud", False),
        ("my-cloud", False),
        ("host:11434/x", False),
        ("x:cloudy", False),
    ],
)
def test_a_cloud_model_is_known_by_its_tag(model: str, cloud: bool) -> None:
    assert is_cloud(model) is cloud


def test_the_tap_is_learned_by_default() -> None:
    server = Server()
    assert not server.taps("m", Settings())
    server.model("m").swallows = True
    assert server.taps("m", Settings())
    assert not server.taps("other", Settings())


@pytest.mark.parametrize(("tap", "taps", "may"), [("off", False, False), ("learn", False, True), ("on", True, True)])
def test_the_tap_follows_its_setting(tap: str, taps: bool, may: bool) -> None:
    settings = Settings(tap=tap)  # type: ignore[arg-type]  # the values of the setting
    assert (Server().taps("m", settings), Server().may_tap("m", settings)) == (taps, may)


def test_a_refused_tap_is_not_tried_again() -> None:
    server = Server()
    server.model("m").tap_refused = True
    assert not server.may_tap("m", Settings(tap="on"))


@pytest.mark.parametrize("server", [Server("llama-server"), Server("vllm"), Server("unknown")])
def test_only_ollama_shows_tokens_and_prompts(server: Server) -> None:
    assert not server.may_tap("m", Settings(tap="on"))
    assert not server.may_render("m")


def test_a_cloud_model_shows_neither_and_gets_the_choice_as_it_came() -> None:
    server = Server()
    assert not server.may_tap("m:cloud", Settings(tap="on"))
    assert not server.may_render("m:cloud")
    assert server.reads_choice("m:cloud")
    assert not server.reads_choice("m")


def test_after_three_failures_a_model_rests_for_twenty_turns_and_is_tried_once() -> None:
    notes = Server().model("m")
    for _ in range(3):
        assert notes.may_ask()
        notes.asked_badly()
    assert [notes.may_ask() for _ in range(21)] == [False] * 20 + [True]
    notes.asked_badly()
    assert not notes.may_ask()


def test_one_good_answer_forgets_the_failures() -> None:
    notes = Server().model("m")
    for _ in range(2):
        notes.asked_badly()
    notes.asked_well()
    notes.asked_badly()
    assert notes.may_ask()
