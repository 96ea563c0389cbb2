"""A name is snapped to the one offered tool it means; a guess that is not unique is not made."""

from __future__ import annotations

import pytest

from toolmend.model import Json, Tool, ToolCall
from toolmend.repair.names import Snapped, edited, evidence, meant, snap, words_of


def tools(*names: str) -> tuple[Tool, ...]:
    return tuple(Tool(name) for name in names)


SNAPPED: list[tuple[str, str, tuple[str, ...]]] = [
    ("read_file", "read_file", ("read_file", "readFile")),
    ("readFile", "read_file", ("read_file", "write_file")),
    ("Read-File", "read_file", ("read_file", "write_file")),
    ("READ_FILE", "read_file", ("read_file",)),
    ("run_subagent", "runSubagent", ("runSubagent",)),
    ("get-weather", "get_weather", ("get_weather", "get_time")),
    (" read_file\n", "read_file", ("read_file",)),
    ('"read_file"', "read_file", ("read_file",)),
    ("`read_file`:", "read_file", ("read_file",)),
    ("read_file:0", "read_file", ("read_file",)),
    ("functions.read_file", "read_file", ("read_file",)),
    ("functions.read_file:3", "read_file", ("read_file",)),
    ("functions exec", "exec", ("exec",)),
    ("functionsread_file5", "read_file", ("read_file",)),
    ("default_api:read_file", "read_file", ("read_file",)),
    ("default_api.readFile", "read_file", ("read_file",)),
    ("assistant.view", "view", ("view", "edit")),
    ("tools/read_file", "read_file", ("read_file",)),
    ("tool:read_file", "read_file", ("read_file",)),
    ("tool:execute_terminal", "terminal", ("terminal", "web_search")),
    ("to=functions.read_file", "read_file", ("read_file",)),
    ("mcp.files.read_file", "read_file", ("read_file",)),
    ("assistant<|channel|>commentary to=functions.read_file", "read_file", ("read_file",)),
    ("retrieve_docs", "retreive_docs", ("retreive_docs",)),
    ("read_file<|channel|>commentary", "read_file", ("read_file",)),
    ("read_file</arg_value>", "read_file", ("read_file", "read")),
    ("read_file[ARGS]", "read_file", ("read_file",)),
    ("read_file()", "read_file", ("read_file",)),
    ("terminalterminal", "terminal", ("terminal", "read_file")),
    ("terminalterminalterminal", "terminal", ("terminal",)),
    ("mcp_mcp_notes_get", "mcp_notes_get", ("mcp_notes_get",)),
    ("mmcp_notes_get", "mcp_notes_get", ("mcp_notes_get",)),
    ("autogen-tools_get_weather", "get_weather", ("get_weather",)),
    ("get_weather", "weather_server_get_weather", ("weather_server_get_weather", "get_time")),
    ("weather", "mcp__home__weather", ("mcp__home__weather",)),
    ("get_weather_tool", "get_weather", ("get_weather",)),
    ("call_get_weather", "get_weather", ("get_weather",)),
    ("run_bash", "bash", ("bash",)),
    ("read_file.run", "read_file", ("read_file",)),
    ("ReadFileTool", "read_file", ("read_file",)),
    ("get_weather json", "get_weather", ("get_weather",)),
    ("search_web", "web_search", ("web_search", "get_time")),
    ("get_wether", "get_weather", ("get_weather",)),
    ("get_weaather", "get_weather", ("get_weather",)),
    ("get_waether", "get_weather", ("get_weather",)),
    ("get_weathor", "get_weather", ("get_weather",)),
    ("sortlist", "sort_list", ("sort_list",)),
    ("getwether", "get_weather", ("get_weather",)),
    ("exit code: 0\nid,name\n4,Ada[TOOL_CALLS][TOOL_CALLS]read_file", "read_file", ("read_file", "write_file")),
    ("line\n" * 200 + "<tool_call>read_file", "read_file", ("read_file", "write_file")),
]


@pytest.mark.parametrize(("name", "meant", "offered"), SNAPPED)
def test_a_name_snaps_to_the_tool_it_means(name: str, meant: str, offered: tuple[str, ...]) -> None:
    snapped = snap(name, tools(*offered))
    assert snapped is not None
    assert snapped.tool.name == meant


NOT_SNAPPED: list[tuple[str, tuple[str, ...]]] = [
    ("", ("read_file",)),
    ("___", ("read_file",)),
    ("search_web", ("create_event", "read_file", "write_file")),
    ("readFile", ("read_file", "read-file")),
    ("read_fle", ("read_file", "read_fyle")),
    ("delete_file", ("create_file",)),
    ("delete_file", ("file", "read_file")),
    ("file", ("read_file",)),
    ("get_value", ("set_value",)),
    ("list_file", ("lint_file",)),
    ("lock_door", ("unlock_door",)),
    ("unlock_door", ("lock_door",)),
    ("enable", ("disable",)),
    ("turn_on", ("turn_off",)),
    ("HassTurnOn", ("HassTurnOff",)),
    ("send_message", ("end_message",)),
    ("encrypt", ("decrypt",)),
    ("unload_file", ("upload_file",)),
    ("insert_row", ("invert_row",)),
    ("soft_delete_user", ("delete_user",)),
    ("bulk_delete_user", ("delete_user",)),
    ("index_file", ("file",)),
    ("increase_volume", ("decrease_volume",)),
    ("undo_create_event", ("create_event",)),
    ("cancel.create_event", ("create_event",)),
    ("do_not_send_email", ("send_email",)),
    ("unsend_email", ("send_email",)),
    ("upload", ("load",)),
    ("tool_1", ("tool_2",)),
    ("tool_1", ("tool_12",)),
    ("move_to_from", ("move_from_to",)),
    ("google:tool:shell:index:0", ("terminal",)),
    ("execute_command", ("execute_bash",)),
    ("exit code: 0\nread_file failed[TOOL_CALLS]", ("read_file",)),
    ("see [TOOL_CALLS]read_file for more", ("read_file",)),
]


@pytest.mark.parametrize(("name", "offered"), NOT_SNAPPED)
def test_a_name_that_means_none_or_several_or_the_opposite_stays(name: str, offered: tuple[str, ...]) -> None:
    assert snap(name, tools(*offered)) is None


def test_an_exact_name_needs_no_reason() -> None:
    assert snap("read_file", tools("read_file", "readFile")) == Snapped(Tool("read_file"))


def test_a_description_word_for_word_is_a_name() -> None:
    offered = (Tool("tag_document", {}, "Tag a document."), Tool("find", {}, "Find a document."))
    snapped = snap("tag a  document", offered)
    assert snapped is not None
    assert snapped.tool.name == "tag_document"


def test_a_tool_in_a_namespace_is_known_by_both_names_unless_two_share_one() -> None:
    alone = (Tool("fs.read", {}, "", "fs"), Tool("write"))
    for name in ("fs.read", "read", "functions.fs.read"):
        snapped = snap(name, alone)
        assert snapped is not None
        assert snapped.tool.name == "fs.read"
    assert snap("read", (*alone, Tool("db.read", {}, "", "db"))) is None


def test_what_was_glued_to_a_name_is_given_back() -> None:
    snapped = snap("read<arg_key>path</arg_key><arg_value>a</arg_value>", tools("read", "write"))
    assert snapped is not None
    assert (snapped.tool.name, snapped.rest) == ("read", "<arg_key>path</arg_key><arg_value>a</arg_value>")


def schema(*required: str, **properties: Json) -> dict[str, Json]:
    return {"type": "object", "properties": properties, "required": list(required)}


TEXT: Json = {"type": "string"}
BASH = Tool("execute_bash", schema("command", command=TEXT))
PYTHON = Tool("execute_cell", schema("code", code=TEXT))
SEARCH = Tool("search_documents", schema("query", query=TEXT))


def meant_tool(name: str, arguments: Json, *offered: Tool) -> str | None:
    tool = meant(ToolCall("", name, arguments), offered, lambda tool: True)
    return None if tool is None else tool.name


def test_an_invented_name_is_the_tool_that_says_the_same_and_alone_takes_these_arguments() -> None:
    assert meant_tool("execute_command", {"command": "ls"}, BASH, PYTHON) == "execute_bash"
    assert meant_tool("google:tool:shell:0", {"command": "ls"}, BASH, PYTHON) == "execute_bash"
    assert meant_tool("", {"code": "1"}, BASH, PYTHON) == "execute_cell"


def test_a_shorter_or_longer_name_is_the_tool_that_alone_takes_these_arguments() -> None:
    weather = Tool("get_weather", schema("city", city=TEXT))
    assert meant_tool("weather", {"city": "x"}, weather, BASH) == "get_weather"
    assert meant_tool("get_current_weather", {"city": "x"}, weather, BASH) == "get_weather"
    clear = Tool("delete_all_files", schema("path", path=TEXT))
    assert meant_tool("delete_files", {"path": "x"}, clear, BASH) is None


def test_an_invented_name_that_says_the_opposite_or_another_number_is_not_guessed_from_its_arguments() -> None:
    light, first = Tool("get_light", schema("id", id=TEXT)), Tool("vm1_start", schema("id", id=TEXT))
    assert meant_tool("light", {"id": "x"}, light) == "get_light"
    assert meant_tool("set_light", {"id": "x"}, light) is None
    assert meant_tool("vm2_start", {"id": "x"}, first) is None


def test_an_invented_name_is_not_guessed_from_its_arguments_alone() -> None:
    assert meant_tool("search_web", {"query": "x"}, SEARCH) is None
    assert meant_tool("delete_documents", {"query": "x"}, SEARCH) is None
    assert meant_tool("execute_code", {"code": "1"}, PYTHON, Tool("browser", schema("code", code=TEXT))) is None
    assert meant_tool("execute_command", {"command": "ls", "path": "x"}, BASH) is None
    assert meant_tool("execute_command", {}, BASH) is None


HINTS: list[tuple[str, Json, bool]] = [
    ("search_web", {"query": "x"}, False),
    ("tts", {"text": "hello"}, False),
    ("get_answer", {}, False),
    ("create_file", {"command": "x"}, True),
    ("execute_thing", {}, True),
    ("shell", {}, True),
    ("google:tool:x", {}, True),
    ("", {}, True),
    ("function_name", {}, True),
    ("python", {}, True),
    ("tts", {"text": "<reply text>"}, True),
    ("tts", {"text": ""}, True),
    ("tts", {"text": "", "voice": "low"}, False),
]


@pytest.mark.parametrize(("name", "arguments", "hint"), HINTS)
def test_a_name_that_is_not_offered_may_hint_at_an_offered_tool(name: str, arguments: Json, hint: bool) -> None:
    assert evidence(ToolCall("", name, arguments), (BASH, PYTHON)) is hint


def test_words_are_split_at_case_and_separators() -> None:
    assert words_of("HTTPServer_readFile2") == ("http", "server", "read", "file", "2")


def test_one_slip_is_an_edit_and_two_are_not() -> None:
    assert edited("weather", "wether")
    assert edited("weather", "waether")
    assert not edited("weather", "wethar")
    assert not edited("get", "set")


def test_a_megabyte_of_a_name_is_settled_at_once() -> None:
    for name in ("f" * 1_000_000, "<" * 1_000_000, "a_" * 500_000, "f{" * 500_000):
        assert snap(name, tools("read_file", "write_file")) is None
