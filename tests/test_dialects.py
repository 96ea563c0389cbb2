"""Calls written as text: every dialect with every way in which it breaks, and every kind of text that is no call.

Each row is one text and what it means. The repairs of names and values are the ladder's: calls are compared after it.
"""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dialect_rows import (
    ARGUMENTS,
    FORECAST_3,
    NOW,
    OBJECT,
    QWEN,
    ROWS,
    TOOLS,
    TURIN,
    Row,
    found,
    laddered,
    tool,
)
from toolmend.dialects import DIALECTS
from toolmend.model import JsonObject, Tool


@pytest.mark.parametrize("case", ROWS, ids=lambda case: case.name)
def test_a_call_is_found_in_every_dialect_and_breakage(case: Row) -> None:
    result = found(case.text)
    assert result is not None
    assert result.state == "calls"
    assert laddered(result.calls) == list(case.calls)
    assert result.rest.split() == case.rest.split()
    assert all(call.dialect and call.id == "" for call in result.calls)


UNKNOWN = (
    ("hermes", '<tool_call>{"name": "delete_all", "arguments": {"x": 1}}</tool_call>', "delete_all"),
    ("whole text", '{"name": "delete_all", "arguments": {"x": 1}}', "delete_all"),
    ("whole fence", '```json\n{"name": "delete_all", "arguments": {"x": 1}}\n```', "delete_all"),
    (
        "envelope",
        '{"tool_calls": [{"type": "function", "function": {"name": "delete_all", "arguments": "{}"}}]}',
        "delete_all",
    ),
    (
        "qwen3-coder",
        "<tool_call>\n<function=delete_all>\n<parameter=x>\n1\n</parameter>\n</function>\n</tool_call>",
        "delete_all",
    ),
    ("glm", "<tool_call>delete_all\n<arg_key>x</arg_key>\n<arg_value>1</arg_value>\n</tool_call>", "delete_all"),
    ("deepseek", '<｜tool▁call▁begin｜>delete_all<｜tool▁sep｜>{"x": 1}<｜tool▁call▁end｜>', "delete_all"),
    ("gemma 4", "<|tool_call>call:delete_all{x:1}<tool_call|>", "delete_all"),
    ("lfm2", "<|tool_call_start|>[delete_all(x=1)]<|tool_call_end|>", "delete_all"),
    ("harmony builtin", "<|channel|>analysis to=python <|constrain|>code<|message|>print(1)<|call|>", "python"),
    ("xml envelope", '<function_call>\n<name>delete_all</name>\n<arguments>\n{"x": 1}\n</arguments>', "delete_all"),
    (
        "one of two",
        f'<tool_call>{OBJECT}</tool_call>\n<tool_call>{{"name": "delete_all", "arguments": {{}}}}</tool_call>',
        "delete_all",
    ),
)


@pytest.mark.parametrize(("name", "text", "unknown"), UNKNOWN, ids=[name for name, *_ in UNKNOWN])
def test_a_readable_call_of_a_tool_that_is_not_offered_is_told(name: str, text: str, unknown: str) -> None:
    result = found(text)
    assert result is not None
    assert result.state == "unknown-tool"
    assert result.calls[-1].name == unknown


UNREADABLE = (
    ("block without a call", "<tool_call>not valid json</tool_call>"),
    ("section without an array", "<TOOLCALL>not a json array</TOOLCALL>"),
    ("block after prose", "I will look.\n<tool_call>{garbage]</tool_call>"),
    ("bare opener", "I will look.\n<tool_call>\n"),
    ("half an opener", "I will look.\n<tool_ca"),
    ("special opener", "<|tool_call_start|>"),
    ("openers in a loop", "<｜tool▁calls▁begin｜>" * 5),
    ("one bad line", f'<tool_calls>\n{OBJECT}\n{{"name": "run", "arguments": command}}\n</tool_calls>'),
    ("expression that does not close", "<function_calls>plan(steps=1])</function_calls>"),
    (
        "ambiguous quotes",
        '<tool_call>{"name": "save_note", "arguments": {"title": "a", "body": "first ,"tags": second"}}</tool_call>',
    ),
    ("garbled harmony header", "<|channel|>commentary?commentary?We need to call the tool"),
    ("harmony recipient lost", '<|channel|>commentary<|message|>{"source": "a", "target": "b"}<|end|>'),
    ("harmony words, recipient lost", 'assistantcode{"source": "a", "target": "b"}'),
    (
        "kimi counter, two tools fit",
        '<|tool_calls_section_begin|><|tool_call_begin|>3<|tool_call_argument_begin|>{"source": "a", "target": "b"}<|tool_call_end|>',
    ),
    ("closers alone", "Now:\n  x()\n  </｜DSML｜parameter>\n  </｜DSML｜invoke>\n  </｜DSML｜tool_calls>"),
    ("react schema echo", "Thought: x.\nAction: run\nAction Input: {'type': 'object', 'properties': AttributedDict()}"),
    ("invented brackets", '[[tool_call: run] command: "a"][tool_call: run] command: "b"]'),
    ("second of two", f"<tool_call>{OBJECT}</tool_call>\n<tool_call>\nnot valid json\n</tool_call>"),
    ("argument beside its object", '{"save_note": {"title": "a"}, "body": "b"}'),
    ("list of words in a block", '<tool_call>["run"]</tool_call>'),
    ("empty list in a block", "<tool_call>[]</tool_call>"),
    ("pythonic operator", "[run(command=@x)]"),
    ("pythonic number with letters", "[calc(x=12abc)]"),
    ("pythonic number beyond all", "[calc(x=1e999)]"),
    ("pythonic key that is a list", "[plan(steps=['a'], options={[1]: 2})]"),
    ("pythonic set for arguments", "[run({'a'})]"),
    ("pythonic lists without end", f"[plan(steps={'[' * 80}{']' * 80})]"),
    ("gemma 4 lists without end", f"<|tool_call>call:plan{{steps:{'[' * 80}{']' * 80}}}<tool_call|>"),
    ("gemma 4 objects without end", f"<|tool_call>call:plan{{options:{'{a:' * 80}1{'}' * 80}}}<tool_call|>"),
    ("harmony words, garbage", 'assistantcode{"steps": [a b c'),
    ("command-r list of numbers", "Action: ```json\n[1]\n```"),
    ("react list", 'Action: plan\nAction Input: ["a"]'),
    ("react nothing in quotes", 'Action: run\nAction Input: ""'),
    ("garbage for a body", '<function=run>{"command" ls -la" "x":"y"}'),
    ("react members of another tool", 'Action: run\nAction Input: "speed": 3'),
    ("name alone before a closer", "now\n</tool_call>"),
    ("parameters of no one tool", "<parameter=title>a</parameter>\n</function>"),
    ("list for a body that is text", "<function=calc>[1, 2]</function>"),
    ("words for a body of two values", "<tool_call>save_note</arg_key><arg_value>a</arg_value></tool_call>"),
    ("arrows that cannot be read", '[TOOL_CALL]{tool => "run", args => {--command ]}}[/TOOL_CALL]'),
    ("harmony garbage", ' to=functions.run..commentary json<|message|>{"{"???"}'),
)


@pytest.mark.parametrize(("name", "text"), UNREADABLE, ids=[name for name, _ in UNREADABLE])
def test_a_call_that_was_opened_and_cannot_be_read_is_told(name: str, text: str) -> None:
    tools = (*TOOLS, tool("copy_file", "", source="string", target="string"))
    result = found(text, tools)
    assert result is not None
    assert result.state == "unreadable"


CUT = (
    ("hermes", '<tool_call>\n{"name": "get_forecast", "arguments": {"place": "Tur'),
    ("hermes before arguments", '<tool_call>\n{"name": "get_forecast", "argu'),
    ("bare", '{"name": "get_forecast", "arguments": {"place": "Tur'),
    ("qwen3-coder", "<tool_call>\n<function=run>\n<parameter=command>\nls -l"),
    (
        "qwen3-coder between tags",
        "<tool_call>\n<function=get_forecast>\n<parameter=place>\nTurin\n</parameter>\n<param",
    ),
    ("glm", "<tool_call>run\n<arg_key>command</arg_key>\n<arg_value>ls -"),
    ("glm in a key", "<tool_call>get_forecast\n<arg_key>place</arg_key>\n<arg_value>Turin</arg_value>\n<arg_key>da"),
    ("gemma 4", '<|tool_call>call:run{command:<|"|>ls -'),
    ("gemma 4 word", "<|tool_call>call:calc{x:nul"),
    ("gemma 4 number", "<|tool_call>call:calc{x:12"),
    ("pythonic", '[run(command="ls -'),
    ("lfm2", "<|tool_call_start|>[get_forecast(place='Turin', days"),
    (
        "kimi k3",
        '<|open|>tools<|sep|><|open|>call tool="run" index="1"<|sep|><|open|>argument key="command" type="string"<|sep|>ls -',
    ),
    ("mistral", '[TOOL_CALLS]run[ARGS]{"command": "ls -'),
    ("harmony", '<|channel|>commentary to=functions.run <|constrain|>json<|message|>{"command": "ls'),
    ("tool's method", '<|python_tag|>plan.call(options={"name":"now","parameters":{}}'),
)


@pytest.mark.parametrize(("name", "text"), CUT, ids=[name for name, _ in CUT])
@pytest.mark.parametrize("limit", [True, False])
def test_nothing_cut_is_completed(name: str, text: str, limit: bool) -> None:
    result = found("I look.\n" * (name != "bare") + text, cut=limit)
    assert result is not None
    assert result.state == "cut"


KEPT_BEFORE_A_CUT = (
    ("hermes", f'<tool_call>{OBJECT}</tool_call>\n<tool_call>{{"name": "run", "arguments": {{"command": "l'),
    ("pythonic", '[get_forecast(place="Turin", days=3), run(command="l'),
    (
        "qwen3-coder",
        f"<function=get_forecast>\n{TURIN}<parameter=days>\n3\n</parameter>\n</function>\n<function=run>\n<parameter=command>\nl",
    ),
    ("array", f'[{OBJECT}, {{"name": "run", "arguments": {{"command": "l'),
    ("mistral", f'[TOOL_CALLS]get_forecast[ARGS]{ARGUMENTS}[TOOL_CALLS]run[ARGS]{{"command": "l'),
)


@pytest.mark.parametrize(("name", "text"), KEPT_BEFORE_A_CUT, ids=[name for name, _ in KEPT_BEFORE_A_CUT])
def test_of_several_calls_the_one_that_the_limit_cut_is_dropped(name: str, text: str) -> None:
    result = found(text, cut=True)
    assert result is not None
    assert (result.state, laddered(result.calls), result.rest) == ("calls", [FORECAST_3], "")


def test_a_call_whose_end_the_limit_may_have_cut_is_not_lifted() -> None:
    result = found(f"<tool_call>\n<function=get_forecast>\n{TURIN}", cut=True)
    assert result is not None
    assert (result.state, result.calls) == ("cut", ())


OPEN_AT_THE_LIMIT = (
    ("hermes", f"<tool_call>\n{OBJECT[:-2]}"),
    ("object", OBJECT[:-1]),
    ("fenced", f"```json\n{OBJECT[:-1]}\n"),
    ("mistral", f"[TOOL_CALLS]get_forecast[ARGS]{ARGUMENTS[:-1]}"),
    ("harmony", f"<|channel|>commentary to=functions.get_forecast <|constrain|>json<|message|>{ARGUMENTS[:-1]}"),
    ("functionary", f">>>get_forecast\n{ARGUMENTS[:-1]}"),
    ("list within", '<tool_call>{"name": "plan", "arguments": {"steps": ["a", "b"'),
    ("react", f"Action: get_forecast\nAction Input: {ARGUMENTS[:-1]}"),
    ("react words", "Action: run\nAction Input: ls -"),
)


@pytest.mark.parametrize(("name", "text"), OPEN_AT_THE_LIMIT, ids=[name for name, _ in OPEN_AT_THE_LIMIT])
def test_what_the_limit_left_open_is_not_closed(name: str, text: str) -> None:
    result = found(text, cut=True)
    assert result is not None
    assert (result.state, result.calls) == ("cut", ())
    whole = found(text)
    assert whole is not None
    assert whole.state == "calls"


def test_a_whole_object_before_the_limit_is_lifted() -> None:
    result = found(f"<tool_call>\n{OBJECT}\n", cut=True)
    assert result is not None
    assert (result.state, laddered(result.calls)) == ("calls", [FORECAST_3])


def test_a_bare_opener_at_the_limit_is_unreadable() -> None:
    result = found("I look.\n<tool_call>\n", cut=True)
    assert result is not None
    assert (result.state, result.rest) == ("unreadable", "I look.")


MISSING = (
    ("hermes", 'Well.\n<tool_call>{"name": "save_note", "arguments": {"title": "a"}}</tool_call>'),
    ("whole object", '{"name": "save_note", "arguments": {"title": "a"}}'),
    ("qwen3-coder", "<function=save_note><parameter=title>a</parameter></function>"),
    ("kimi", '<|tool_call_begin|>functions.save_note:0<|tool_call_argument_begin|>{"title": "a"}<|tool_call_end|>'),
    ("lfm2", "<|tool_call_start|>[save_note(title='a')]<|tool_call_end|>"),
)


@pytest.mark.parametrize(("name", "text"), MISSING, ids=[name for name, _ in MISSING])
def test_a_marked_call_without_a_required_argument_is_lifted_for_the_follow_up(name: str, text: str) -> None:
    result = found(text)
    assert result is not None
    assert result.state == "calls"
    assert laddered(result.calls) == [("save_note", {"title": "a"})]


CLEANED = (
    ("orphan closer", "The result is 42.</TOOLCALL>", "The result is 42."),
    ("orphan closer on its line", "Done.\n</tool_call>", "Done."),
    ("end token", "Done.<|im_end|>", "Done."),
    ("two orphan closers", "Done.</TOOLCALL>\n</tool_call>", "Done."),
    ("harmony channels glued", "analysisWe add: 2+2 is four.assistantfinalIt is four.", "It is four."),
    ("harmony final channel", "<|channel|>final<|message|>It is four.<|return|>", "It is four."),
)


@pytest.mark.parametrize(("name", "text", "rest"), CLEANED, ids=[name for name, *_ in CLEANED])
def test_leftover_markers_are_taken_from_an_answer(name: str, text: str, rest: str) -> None:
    result = found(text)
    assert result is not None
    assert (result.calls, result.rest, result.state) == ((), rest, "calls")


PROSE = (
    ("nothing", "   \n"),
    ("an answer", "The answer is 42."),
    ("braces", "{Answer: YES}"),
    ("object in a sentence", '{"a": 1} is a dict.'),
    ("call object in a sentence", f"{OBJECT} is how one writes it."),
    ("call followed by a remark", f"{OBJECT}\n\nThis would call the tool."),
    ("inline after words", f"One would write {OBJECT}"),
    ("numbers", "The roots are:\n[2, 3]"),
    ("people", '[{"name": "alice", "age": 30}]'),
    ("manifest", '```json\n{"name": "demo", "version": "1.0.0", "scripts": {"run": "x"}}\n```'),
    ("arguments without a name", '{"parameters": {}}'),
    (
        "definition",
        '{"name": "run", "description": "Run.", "parameters": {"type": "object", "properties": {"command": {"type": "string"}}}}',
    ),
    ("schema", '{"type": "object", "properties": {"name": {"type": "string"}}}'),
    ("name of a tool as data", '{"name": "run", "score": 7, "rank": 2}'),
    ("arguments that do not fit, after prose", 'Here:\n{"name": "run", "arguments": {"speed": 3}}'),
    ("unknown name after prose", 'Here:\n{"name": "delete_all", "arguments": {"x": 1}}'),
    ("bracketed words in a log", "The log:\n```\n[run] 12 files\n[now] ok\n```"),
    ("markdown links", "See [run](http://x/run) and [now]."),
    ("file with a tag, quoted", "The file contains:\n\n<tool_call>\n  ...\n</tool_call>\n\nNothing else."),
    ("file with a whole call", f"The file contains:\n\n<tool_call>\n{OBJECT}\n</tool_call>\n\nNothing else."),
    ("file with a whole call at the end", f"The file contains:\n<tool_call>\n{OBJECT}\n</tool_call>"),
    ("page with a fence at the end", f"The page says:\n```json\n{OBJECT}\n```"),
    ("example at the end", f"For example:\n{OBJECT}"),
    ("you can", f"You can call it like this:\n\n```json\n{OBJECT}\n```"),
    ("the format", f"The format of a call is:\n<tool_call>\n{OBJECT}\n</tool_call>"),
    (
        "explained, more prose",
        f"I could call it:\n<tool_call>\n{OBJECT}\n</tool_call>\nBut that needs a place that you know.",
    ),
    (
        "xml explained",
        'To read it:\n\n<function-name>run</function-name>\n<arguments>{"command": "x"}</arguments>\n\nHowever, do not.',
    ),
    ("marker in a sentence", 'The token <｜DSML｜invoke name="run"> opens a call, and </｜DSML｜invoke> ends it.'),
    ("opener in a sentence", "A call begins with <tool_call> and a name."),
    ("opener at the end of a sentence", "A call begins with <tool_call>"),
    ("closer at the end of a sentence", "Every call ends with </tool_call>"),
    ("code span", f"`<tool_call>{OBJECT}</tool_call>`"),
    ("code span in a sentence", 'Write `functools[{"name": "now", "arguments": {}}]`'),
    ("code span of an expression", "Use `get_forecast(place='Turin')`"),
    ("quoted line", 'It says:\n\n> call:run{command:"curl x | sh"}\n\nI did not.'),
    ("quoted block", f"They wrote:\n\n> <tool_call>{OBJECT}</tool_call>"),
    ("quoted lines of a block", "\n".join("> " + line for line in QWEN.splitlines())),
    ("sample program", f"Build it yourself:\n```python\ncall = {OBJECT}\nsend(call)\n```"),
    ("sample expression", "Here is code:\n```python\nget_forecast(place='Turin')\n```"),
    ("shell block", "I will list.\n\n```bash\nls -la\n```"),
    ("fence with more than a call", f"Look:\n```json\n{OBJECT}\n// comment\n[1, 2]\n```"),
    ("fence with words in it", f"Look:\n```\n{OBJECT}\nthen wait\n```"),
    (
        "placeholder",
        "This is the block:\n<tool_call>\n<function=function_name>\n<parameter=parameter_1>\nvalue_1\n</parameter>\n</function>\n</tool_call>\nReplace the names.",
    ),
    ("functools with words", "functools[ This is just text ]"),
    ("functools module", "Use functools.cache or functools [see docs]."),
    ("html", "<table><tr><td>now</td></tr></table>"),
    ("tool's name as html in prose", "Use <run>ls</run> there, then stop."),
    ("math", "[f(x) = x^2, g(x) = 2x]"),
    ("function of another library", "print(get_forecast)\nmatrix(a=1)"),
    ("expression with a positional argument", "get_forecast('Turin')"),
    ("expression in a sentence", "Then get_forecast(place='Turin') tells it."),
    ("assignment", "x = get_forecast(place='Turin')"),
    ("definition in python", "def get_forecast(place='Turin'):\n    return 1"),
    ("action in prose", "Action: we should run it.\nNothing else."),
    ("echo of another tool's call", '[Calling tool: delete_all({"x": 1})]'),
    ("expressions on a line of prose", 'Well, get_forecast(place="Turin") now()'),
    ("list of tool calls that are none", '{"tool_calls": [{"x": 1}]}'),
    ("list of tool calls that are words", '{"tool_calls": ["run"]}'),
    ("empty list behind a marker", "[TOOL_CALLS] []"),
    ("tag with words in it", "<function that runs it>"),
    ("element of another function", '<function>delete_all</function>\n{"x": 1}'),
    ("name and braces without end", "run{garbage"),
    ("name and braces", "run{garbage}"),
    ("name and what is no object", 'run{"command" garbage}'),
    ("expressions in a row", 'get_forecast(place="Turin"), now()'),
    ("expressions of which one is foreign", 'get_forecast(place="Turin")\nfoo(x=1)'),
    ("pythonic expression that cannot be read, after prose", "Well:\n[run(command=@x)]"),
    ("thought and template", "Use the format:\nAction: run\nAction Input: the command\nObservation: the result"),
    ("mustache", "{{name}} and {{arguments}}"),
    ("latex", "\\frac{a}{b} = {c}"),
    ("name and words", 'Call it:\n\nrun\n  {"command": "<the command>"}\n\nTell me the command.'),
    ("name and block", "run {\n  echo {x}\n}"),
    ("go code", 'func main() {\n\tx := map[string]int{"name": 1}\n}'),
    ("css", "run {\n  color: red;\n}"),
    ("call to= in prose", "Set to=functions of x, or to=run {fast}."),
    ("analysis as a word", "analysis of the data shows {x}."),
    ("assistant as a word", "assistant: hello {x}"),
    ("recipient all", '>>>all\n{"a": 1}'),
    ("diff", '>>> import x\n>>> x.run({"a": 1})'),
    ("function's opener in a sentence", "In this syntax, <function=run> opens a call and <parameter=command> names what it takes."),
    ("definition in a tag", '<tools>\n[{"name": "run", "description": "Run.", "parameters": {"type": "object"}}]\n</tools>'),
    ("definition of another client in a tag", '<tools>[{"type": "function", "function": {"name": "run", "description": "Run.", "parameters": {}}}]</tools>'),
    ("definitions in a fence", '```json\n{"tools": [{"name": "save_note", "title": "Save"}]}\n```'),
    ("what a call left, with a closer", "<arg_key>command</arg_key> names what run takes.\n</tool_call>"),
    ("comparison with a name", "Here a=run> is what the shell shows."),
    ("prompt of a program", "run>\n<b>3 files</b>"),
    ("word with brackets", "TOOL_CALLS[0] is the first of them."),
    ("client's object in a sentence", "It prints ChatCompletionMessageToolCall(id='c1', function=Function(arguments='{}', name='now')) then."),
    ("client's object of another tool", "ChatCompletionMessageToolCall(id='c1', function=Function(arguments='{}', name='delete_all'), type='function')"),
    ("client's object in a fence", "It prints:\n```\n[ToolCall(function=Function(name='now', arguments={}))]\n```"),
    ("names of tools in a list", '[{"name": "now"}, {"name": "now"}]'),
    ("names of tools as an object", '{"tools": [{"name": "now"}]}'),
    ("format in Chinese", f"格式如下：\n<tool_call>\n{OBJECT}\n</tool_call>"),
    ("definition of a tool without parameters", '{"name": "now", "description": "Tell the time.", "parameters": {}}'),
    ("definition of such a tool in a tag", '<tools>[{"type": "function", "function": {"name": "now", "description": "The time.", "parameters": {}}}]</tools>'),
    ("mistral's token in a sentence", f"One writes TOOL_CALLS[{OBJECT}]"),
    ("element with an attribute alone", "<run command/>"),
    ("fence that names the tool, with words in it", "```tool run\nls -la\n```"),
    ("tokens in a sentence", "The tokens <|FunctionCallBegin|> and <|FunctionCallEnd|> mark a call."),
    ("kimi's name in a sentence", "See <functions.run:20> in the log."),
    ("arrows without a marker", '{tool => "run", args => {--command "ls"}}'),
    ("element with attributes that are none of the tool's", '<run class="x"/>'),
    ("parameters of no tool", "<parameter=speed>3</parameter>\n</function>"),
)  # fmt: skip


@pytest.mark.parametrize(("name", "text"), PROSE, ids=[name for name, _ in PROSE])
def test_what_is_no_call_stays(name: str, text: str) -> None:
    assert found(text) is None


def test_without_tools_nothing_is_a_call() -> None:
    for case in ROWS:
        assert found(case.text, ()) is None


THOUGHTS = (
    ("marker", f"I should look.\n<tool_call>\n{OBJECT}\n</tool_call>", "I should look."),
    (
        "special tokens",
        f"Fresh data.<|tool_calls_section_begin|><|tool_call_begin|>functions.get_forecast:0<|tool_call_argument_begin|>{ARGUMENTS}<|tool_call_end|><|tool_calls_section_end|>",
        "Fresh data.",
    ),
    ("whole object", OBJECT, ""),
    ("fence at the end", f"I'll call it:\n```json\n{OBJECT}\n```", "I'll call it:"),
)


@pytest.mark.parametrize(("name", "text", "rest"), THOUGHTS, ids=[name for name, *_ in THOUGHTS])
def test_a_call_that_ends_the_thinking_is_found(name: str, text: str, rest: str) -> None:
    result = found(text, thinking=True)
    assert result is not None
    assert (result.state, laddered(result.calls), result.rest) == ("calls", [FORECAST_3], rest)


@pytest.mark.parametrize(
    "text",
    [
        f"Maybe <tool_call>{OBJECT}</tool_call> or rather not.",
        "The parser looks for <function=...> tags, so I must not write one.",
        "The format would be <seed:tool_call><function=run><parameter=command>...</parameter></function></seed:tool_call>, but no.",
        "I will call get_forecast with Turin.",
    ],
)
def test_a_draft_in_the_thinking_is_no_call(text: str) -> None:
    assert found(text, thinking=True) is None


WHOLE = (
    (
        "thought before",
        f"<think>\nHm: {OBJECT}\n</think>\n\n<tool_call>\n{OBJECT}\n</tool_call><|im_end|>",
        [FORECAST_3],
        "",
    ),
    ("thought's opener in the prompt", f"Hm.\n</think>Sure.\n<tool_call>{OBJECT}</tool_call>", [FORECAST_3], "Sure."),
    ("thought never closed", f"<think>\nHm.\n<tool_call>{OBJECT}</tool_call>", [FORECAST_3], "Hm."),
    ("long thought", f"<think>{'Hm. ' * 400}</think><tool_call>{OBJECT}</tool_call>", [FORECAST_3], ""),
    (
        "cohere",
        '<|START_THINKING|>Hm.<|END_THINKING|><|START_RESPONSE|>Sure.<|END_RESPONSE|><|START_ACTION|>[{"tool_call_id": "0", "tool_name": "now", "parameters": {}}]<|END_ACTION|>',
        [NOW],
        "Sure.",
    ),
    ("words behind", f"<tool_call>{OBJECT}</tool_call>\nI wait.", [FORECAST_3], "I wait."),
    (
        "closing thought in a value",
        '<tool_call>{"name": "run", "arguments": {"command": "echo </think> x"}}</tool_call>',
        [("run", {"command": "echo </think> x"})],
        "",
    ),
)


@pytest.mark.parametrize(("name", "text", "calls", "rest"), WHOLE, ids=[name for name, *_ in WHOLE])
def test_the_call_in_all_that_the_model_wrote_is_found(
    name: str, text: str, calls: list[tuple[str, JsonObject]], rest: str
) -> None:
    result = found(text, whole=True)
    assert result is not None
    assert (result.state, laddered(result.calls), result.rest) == ("calls", calls, rest)


@pytest.mark.parametrize(
    "text",
    [
        "<think>\nHm.\n</think>\nIt is 42.<|im_end|>",
        "<|channel|>final<|message|>It is 42.",
        "</think>It is 42.",
        f"<think>{OBJECT}</think>It is 42.",
    ],
)
def test_all_that_the_model_wrote_may_be_an_answer(text: str) -> None:
    assert found(text, whole=True) is None


def test_a_plan_of_which_one_call_does_not_fit_is_only_shown() -> None:
    wrong = '{"name": "run", "arguments": {"speed": 3}}'
    assert found(f"I'll do it.\n\n1. Look:\n\n{OBJECT}\n\n2. Then:\n\n{wrong}\n\n3. Go on by yourself:") is None


def test_calls_between_the_steps_of_a_plan_are_asked_for_again() -> None:
    plan = f"I'll do it.\n\n1. Look:\n\n{OBJECT}\n\n2. Then:\n\n{OBJECT}\n\n3. Go on by yourself:"
    result = found(plan)
    assert result is not None
    assert (result.state, result.calls, result.rest) == ("unreadable", (), plan)


def test_fences_with_words_between_are_asked_for_again() -> None:
    plan = f"I'll do both.\n```json\n{OBJECT}\n```\nThen:\n```json\n{OBJECT}\n```"
    result = found(plan)
    assert result is not None
    assert (result.state, result.calls, result.rest) == ("unreadable", (), plan)


def test_steps_that_only_show_calls_stay() -> None:
    assert found(f"How it works:\n\n1. Look:\n\n{OBJECT}\n\n2. Then:\n\n{OBJECT}\n\n3. That is all.") is None


def test_an_example_before_the_real_call_stays_text() -> None:
    text = f"The format of a call is:\n```json\n{OBJECT}\n```\nNow I'll call it.\n<tool_call>{OBJECT}</tool_call>"
    result = found(text)
    assert result is not None
    assert laddered(result.calls) == [FORECAST_3]
    assert result.rest == f"The format of a call is:\n```json\n{OBJECT}\n```\nNow I'll call it."


def test_every_dialect_is_in_the_table_once() -> None:
    names = [dialect.name for dialect in DIALECTS]
    assert len(names) == len(set(names)) == 13


NO_NAMES = st.text(st.sampled_from("abc {}[]()<>/|｜=:\"'`\n.,_-"), max_size=60)
MARKERS = st.sampled_from(
    (
        "<tool_call>",
        "</tool_call>",
        "<function=x>",
        "</function>",
        "<parameter=y>",
        "</parameter>",
        "[TOOL_CALLS]",
        "[ARGS]",
        "<|tool_call>",
        "call:x{",
        "```json\n",
        "```",
        '{"name": "x", "arguments": {',
        "}}",
        "Action: x\n",
        "<think>",
        "</think>",
        "<|channel|>",
        "<|message|>",
        "to=functions.x",
        "<｜tool▁sep｜>",
        '<invoke name="x">',
    )
)


@settings(max_examples=150, deadline=None)
@given(st.lists(st.one_of(NO_NAMES, MARKERS), max_size=12))
def test_a_text_without_an_offered_name_holds_no_call_to_lift(pieces: list[str]) -> None:
    result = found("".join(pieces), (Tool("qqq_zzz", {"type": "object", "required": ["k"]}),))
    assert result is None or result.state != "calls" or result.calls == ()


MEGABYTE = 1_000_000
HOSTILE = (
    "<tool_call>",
    "</tool_call>",
    "<tool_ca",
    "<",
    "[",
    "[\n",
    "{\n",
    '{"name": "run", "arguments": {"command": "\n',
    '{"name": "a',
    "`",
    "```json\n",
    '[run(command=["',
    "<function=run>\n<parameter=command>\n",
    "<run>",
    "<tool_call>run\n<arg_key>command</arg_key>",
    "\ncall:run{command:<escape>",
    "<|channel|>commentary to=functions.run<|message|>{",
    "to=functions.run ",
    "\nAction: run\nAction Input: {",
    ">>>run\n{",
    "]<]minimax[>[",
)


@pytest.mark.parametrize("piece", HOSTILE)
def test_any_piece_repeated_is_read_in_linear_time(piece: str) -> None:
    times = []
    for length in (MEGABYTE // 32, MEGABYTE // 4):
        text = (piece * (length // len(piece) + 1))[:length]
        start = time.process_time()
        found(text)
        times.append(time.process_time() - start)
    # Eight times the text: eight times the work, or less than a second of it; 64 times if it were quadratic.
    assert times[1] < max(24 * times[0], 1.0)


def test_a_long_answer_without_a_call_is_prose() -> None:
    line = "Some prose with `code`, <b>tags</b>, {braces: 1} and [links](x).\n    if (x < 3) { y[2] = z; }\n"
    assert found(line * (300_000 // len(line))) is None


def test_a_long_value_is_read_whole() -> None:
    body = 'x < y </tool_call> {"a": [1]}\n' * 30_000
    text = f"<tool_call>\n{json.dumps({'name': 'run', 'arguments': {'command': body}})}\n</tool_call>"
    result = found(text)
    assert result is not None
    assert laddered(result.calls) == [("run", {"command": body})]
