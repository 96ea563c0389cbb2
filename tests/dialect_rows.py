"""Rows of text with the calls they mean: every dialect with every way in which it breaks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from toolmend.dialects import Found, find_calls
from toolmend.model import Json, JsonObject, Tool, ToolCall
from toolmend.repair.calls import fits, repair_call


def tool(name: str, description: str = "", /, **parameters: Json) -> Tool:
    """Declare a tool; a parameter whose name ends in `_` is optional."""
    properties: JsonObject = {}
    required: list[Json] = []
    for key, kind in parameters.items():
        properties[key.removesuffix("_")] = {"type": kind} if isinstance(kind, str | list) else kind
        if not key.endswith("_"):
            required.append(key)
    schema: JsonObject = {
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": False,
    }
    return Tool(name, schema, description)


STRINGS: JsonObject = {"type": "array", "items": {"type": "string"}}
TOOLS = (
    tool("get_forecast", "Tell the weather of the next days.", place="string", days_="integer"),
    tool("save_note", "", title="string", body="string", tags_=STRINGS, pinned_="boolean"),
    tool("run", "", command="string"),
    tool("now"),
    tool("plan", "", steps=STRINGS, options_="object"),
    tool("calc", "", x="number", label_="string"),
    tool("move_file", "", source="string", target="string"),
    tool("fetch", "", **{"from": "integer", "class": "string"}),
    tool("search-code", "", query="string", limit_="integer"),
)
FORECAST = ("get_forecast", {"place": "Turin"})
FORECAST_3 = ("get_forecast", {"place": "Turin", "days": 3})
BERGEN = ("get_forecast", {"place": "Bergen"})
NOW: tuple[str, JsonObject] = ("now", {})
RUN = ("run", {"command": "ls -la"})


def found(
    text: str,
    tools: tuple[Tool, ...] = TOOLS,
    *,
    cut: bool = False,
    thinking: bool = False,
    whole: bool = False,
) -> Found | None:
    return find_calls(text, tools, lambda call: fits(call, tools), cut=cut, thinking=thinking, whole=whole)


def laddered(calls: tuple[ToolCall, ...], tools: tuple[Tool, ...] = TOOLS) -> list[tuple[str, Json]]:
    repaired = (repair_call(call, tools)[0] for call in calls)
    return [(call.name, call.arguments) for call in repaired]


@dataclass(frozen=True)
class Row:
    name: str
    text: str
    calls: tuple[tuple[str, Mapping[str, object]], ...]
    rest: str = ""


def row(name: str, text: str, *calls: tuple[str, Mapping[str, object]], rest: str = "") -> Row:
    return Row(name, text, calls, rest)


OBJECT = '{"name": "get_forecast", "arguments": {"place": "Turin", "days": 3}}'
ARGUMENTS = '{"place": "Turin", "days": 3}'
HTML = '<!DOCTYPE html>\n<p class="x">a < b && c</p>\n<parameter>\n</html>'
NOTE = ("save_note", {"title": "page.html", "body": HTML})

HERMES = (
    row("hermes without braces", f"<tool_call>\n{OBJECT[1:-1]}\n</tool_call>", FORECAST_3),
    row("hermes closer with a slash behind its bar", f"<|tool_call|>{OBJECT}<|/tool_call|>", FORECAST_3),
    row("role as a word", f"assistant\n\n{OBJECT}", FORECAST_3),
    row(
        "tool_name and properties as elements",
        "<tool_call>\n<tool_name>run</tool_name>\n<command>ls -la</command>\n</tool_call>",
        RUN,
    ),
    row("hermes closer with a slash at its end", f"<tool_call>{OBJECT}<tool_call/>", FORECAST_3),
    row("hermes closer with a backslash", f"<tool_call>{OBJECT}<\\/tool_call>", FORECAST_3),
    row(
        "hermes invented response",
        f"<tool_call>{OBJECT}</tool_call>\n<tool_response>Rain.</tool_response>\nIt rains.",
        FORECAST_3,
    ),
    row("hermes role before", f"<|im_start|>assistant\n<tool_call>{OBJECT}</tool_call>", FORECAST_3),
    row("hermes surplus bracket", f"<tool_call>{OBJECT}]</tool_call>", FORECAST_3),
    row("tool_use", '<tool_use>\n<name>run</name>\n<input>{"command": "ls -la"}</input>\n</tool_use>', RUN),
    row("hermes", f"<tool_call>\n{OBJECT}\n</tool_call>", FORECAST_3),
    row("hermes after prose", f"Let me look.\n<tool_call>\n{OBJECT}\n</tool_call>", FORECAST_3, rest="Let me look."),
    row("hermes without closer", f"<tool_call>\n{OBJECT}\n", FORECAST_3),
    row("hermes without opener", f"{OBJECT}\n</tool_call>", FORECAST_3),
    row("hermes without opener after prose", f"Right.\n{OBJECT}\n</tool_call>", FORECAST_3, rest="Right."),
    row("hermes closed by think", f"<tool_call>{OBJECT}</think>", FORECAST_3),
    row("hermes closed by function", f"<tool_call>{OBJECT}</function>", FORECAST_3),
    row("hermes closed by tool", f"<tool_call>{OBJECT}</tool>", FORECAST_3),
    row("hermes with half a closer", f"<tool_call>{OBJECT}</tool_c", FORECAST_3),
    row("hermes with doubled tags", f"<tool_call><tool_call>{OBJECT}</tool_call></tool_call>", FORECAST_3),
    row("hermes array", f"<tool_call>[{OBJECT}, {OBJECT}]</tool_call>", FORECAST_3, FORECAST_3),
    row("hermes openers as separators", f"<tool_call>{OBJECT}<tool_call>{OBJECT}", FORECAST_3, FORECAST_3),
    row("hermes only the last tag", f"{OBJECT}\n{OBJECT}</tool_call>", FORECAST_3, FORECAST_3),
    row("hermes missing brace", f"<tool_call>{OBJECT[:-1]}\n</tool_call>", FORECAST_3),
    row("hermes surplus brace", f"<tool_call>{OBJECT}}}</tool_call>", FORECAST_3),
    row("hermes in capitals", f"<TOOL_CALL>{OBJECT}</TOOL_CALL>", FORECAST_3),
    row(
        "hermes raw newline",
        '<tool_call>{"name": "run", "arguments": {"command": "cat <<X\nhi\nX"}}</tool_call>',
        ("run", {"command": "cat <<X\nhi\nX"}),
    ),
    row(
        "hermes inner quotes",
        '<tool_call>{"name": "run", "arguments": {"command": "echo "hi" there"}}</tool_call>',
        ("run", {"command": 'echo "hi" there'}),
    ),
    row(
        "hermes arguments as text",
        '<tool_call>{"name": "run", "arguments": "{\\"command\\": \\"ls -la\\"}"}</tool_call>',
        RUN,
    ),
    row(
        "hermes closer and opener in a string",
        '<tool_call>{"name": "run", "arguments": {"command": "grep \'</tool_call>\\n<tool_call>\' x"}}</tool_call>',
        ("run", {"command": "grep '</tool_call>\n<tool_call>' x"}),
    ),
    row(
        "hermes single backslashes",
        r'<tool_call>{"name": "run", "arguments": {"command": "grep -E \d+\s x"}}</tool_call>',
        ("run", {"command": r"grep -E \d+\s x"}),
    ),
    row("hermes after a thought", f"<think>Weather.</think>\n<tool_call>{OBJECT}</tool_call>", FORECAST_3),
    row("hermes after a thought's closer", f"</think>\n\n<tool_call>{OBJECT}</tool_call>", FORECAST_3),
    row("hermes tool_calls", f"<tool_calls>[{OBJECT}]</tool_calls>\n</answer>", FORECAST_3),
    row("hermes tools", f"<tools>\n{OBJECT}\n</tools>", FORECAST_3),
    row("hermes response tools", f"<response>\n <tools>\n{OBJECT}\n </tools>\n</response>", FORECAST_3),
    row("hermes function_call", f"<function_call> {OBJECT}", FORECAST_3),
    row("hermes functioncall round its payload", f"<functioncall {OBJECT}>", FORECAST_3),
    row("hermes in an xml fence", f"```xml\n<tool_call>\n{OBJECT}\n</tool_call>\n```", FORECAST_3),
    row("hermes end token", f"<tool_call>{OBJECT}</tool_call><|im_end|>", FORECAST_3),
    row(
        "hermes prose between",
        f"One.\n<tool_call>{OBJECT}</tool_call>\nTwo.\n<tool_call>{OBJECT}</tool_call>",
        FORECAST_3,
        FORECAST_3,
        rest="One.\n\nTwo.",
    ),
    row("hermes name and json", f"<tool_call>get_forecast\n{ARGUMENTS}\n</tool_call>", FORECAST_3),
    row(
        "hermes description for name",
        '<tool_call>{"name": "Tell the weather of the next days.", "arguments": {"place": "Turin"}}</tool_call>',
        FORECAST,
    ),
    row("hermes fence inside", f"<tool_call>\n```json\n{OBJECT}\n```\n</tool_call>", FORECAST_3),
    row("hermes json lines in a section", f"<tool_calls>\n{OBJECT}\n{OBJECT}\n", FORECAST_3, FORECAST_3),
)

JSON = (
    row("bare before a stray fence", f"{OBJECT}\n```", FORECAST_3),
    row(
        "two fences",
        f"I'll do both.\n```json\n{OBJECT}\n```\n```json\n{OBJECT}\n```",
        FORECAST_3,
        FORECAST_3,
        rest="I'll do both.",
    ),
    row("two fences apart", f"```json\n{OBJECT}\n```\n\n```json\n{OBJECT}\n```\n", FORECAST_3, FORECAST_3),
    row("mistral surplus brackets", f"[TOOL_CALLS] [{OBJECT}]]", FORECAST_3),
    row("bare message", f'{{"role": "assistant", "content": null, "tool_calls": [{OBJECT}]}}', FORECAST_3),
    row("bare tool_use", '{"type": "tool_use", "id": "t1", "name": "run", "input": {"command": "ls -la"}}', RUN),
    row(
        "announced where one can see",
        f"I need to look first, so that you can use it.\n{OBJECT}",
        FORECAST_3,
        rest="I need to look first, so that you can use it.",
    ),
    row("bare", OBJECT, FORECAST_3),
    row("bare parameters", '{"name": "get_forecast", "parameters": {"place": "Turin"}}', FORECAST),
    row("bare reversed keys", '{"arguments": {"place": "Turin"}, "name": "get_forecast"}', FORECAST),
    row("bare lines", f"{OBJECT}\n{OBJECT}", FORECAST_3, FORECAST_3),
    row("bare blank between", f"{OBJECT} {OBJECT}", FORECAST_3, FORECAST_3),
    row("bare semicolons", f"{OBJECT};{OBJECT}", FORECAST_3, FORECAST_3),
    row("bare commas", f"{OBJECT},\n{OBJECT}", FORECAST_3, FORECAST_3),
    row("bare array", f"[{OBJECT},{OBJECT}]", FORECAST_3, FORECAST_3),
    row("bare array without end", f"[{OBJECT}, {OBJECT}", FORECAST_3, FORECAST_3),
    row("bare after prose", f"I'll check.\n\n{OBJECT}", FORECAST_3, rest="I'll check."),
    row("bare on the line that announces it", f"I'll check: {OBJECT}", FORECAST_3, rest="I'll check:"),
    row("bare before chatter", f"{OBJECT}\n\nAnything else?", FORECAST_3, rest="Anything else?"),
    row("bare python repr", "{'name': 'now', 'arguments': {}}", NOW),
    row("bare curly quotes", "{“name”: “run”, “arguments”: {“command”: “ls -la”}}", RUN),
    row("bare trailing comma", '{"name": "run", "arguments": {"command": "ls -la",},}', RUN),
    row("bare without arguments", '{"name": "now"}', NOW),
    row(
        "bare openai",
        '{"id": "c1", "type": "function", "function": {"name": "run", "arguments": "{\\"command\\": \\"ls -la\\"}"}}',
        RUN,
    ),
    row(
        "bare openai one brace short",
        '{"type": "function", "function": {"name": "run", "parameters": {"command": "ls -la"}}',
        RUN,
    ),
    row("bare envelope", '{"tool_call": {"name": "run", "arguments": {"command": "ls -la"}}}', RUN),
    row("bare envelope of several", f'{{"tool_calls": [{OBJECT}, {OBJECT}]}}', FORECAST_3, FORECAST_3),
    row("bare tool args", '{"tool": "run", "args": {"command": "ls -la"}}', RUN),
    row("bare tool_names", '{"tool_names": ["run"], "parameters": {"command": "ls -la"}}', RUN),
    row("bare flat action", '{"action": "run", "command": "ls -la"}', RUN),
    row("bare action input", '{"action": "run", "action_input": {"command": "ls -la"}}', RUN),
    row("bare name as key", '{"run": {"command": "ls -la"}}', RUN),
    row("bare camel name", '{"name": "getForecast", "arguments": {"place": "Turin"}}', FORECAST),
    row("bare prefixed name", '{"name": "functions.get_forecast", "arguments": {"place": "Turin"}}', FORECAST),
    row(
        "bare name with a hyphen",
        '{"name": "search_code", "arguments": {"query": "x", "limit": "5"}}',
        ("search-code", {"query": "x", "limit": 5}),
    ),
    row(
        "bare argument called name",
        '{"name": "move_file", "arguments": {"source": "name", "target": "arguments"}}',
        ("move_file", {"source": "name", "target": "arguments"}),
    ),
    row("fenced", f"```json\n{OBJECT}\n```", FORECAST_3),
    row("fenced after prose", f"I'll look that up:\n```json\n{OBJECT}\n```\n", FORECAST_3, rest="I'll look that up:"),
    row("fenced array", f"On it.\n```\n[{OBJECT}]\n```", FORECAST_3, rest="On it."),
    row("fenced without end", f"```json\n{OBJECT}", FORECAST_3),
    row("fenced lines", f"```json\n{OBJECT}\n{OBJECT}\n```", FORECAST_3, FORECAST_3),
    row(
        "fenced after a fence of code",
        f"This is it now:\n```python\nx = 1\n```\nLet me run it.\n```json\n{OBJECT}\n```",
        FORECAST_3,
        rest="This is it now:\n```python\nx = 1\n```\nLet me run it.",
    ),
    row(
        "fenced with a fence in a value",
        '```json\n{"name": "run", "arguments": {"command": "echo \'```\'"}}\n```',
        ("run", {"command": "echo '```'"}),
    ),
    row("functools", f"functools[{OBJECT}]", FORECAST_3),
    row("functools in prose", f"So: functools[{OBJECT}] Wait.", FORECAST_3, rest="So:  Wait."),
    row(
        "functools nested brackets",
        'functools[{"name": "plan", "arguments": {"steps": ["a]", "b"]}}]',
        ("plan", {"steps": ["a]", "b"]}),
    ),
    row("python_tag", f"<|python_tag|>{OBJECT}", FORECAST_3),
    row(
        "python_tag semicolons",
        f'<|python_tag|>{OBJECT};{{"name": "run", "parameters": {{"command": "a; b"}}}}',
        FORECAST_3,
        ("run", {"command": "a; b"}),
    ),
    row("python_tag and end", f"<|python_tag|>{OBJECT}<|eom_id|>", FORECAST_3),
    row("python_tag method", '<|python_tag|>run.call(command="ls -la")', RUN),
    row("nemotron", f"<TOOLCALL>[{OBJECT}]</TOOLCALL>", FORECAST_3),
    row("nemotron without closers", f"<TOOLCALL>[{OBJECT}", FORECAST_3),
    row("granite", f"<|tool_call|>[{OBJECT}]", FORECAST_3),
    row("granite without bracket", f"Well.<|tool_call|>[{OBJECT}", FORECAST_3, rest="Well."),
    row("granite plain tag", f"<tool_call>[{OBJECT}]", FORECAST_3),
    row("internlm", f"Wait.<|action_start|> <|plugin|>\n{OBJECT}<|action_end|>", FORECAST_3, rest="Wait."),
    row("apertus", '<|tools_prefix|>[{"run": {"command": "ls -la"}}]<|tools_suffix|>', RUN),
    row("apertus without end", '<|tools_prefix|>[{"run": {"command": "ls -la"}}, {"now": {}}', RUN, NOW),
    row("command-r", 'Action: ```json\n[\n {"tool_name": "run", "parameters": {"command": "ls -la"}}\n]\n```', RUN),
    row(
        "command-r7b",
        '<|START_ACTION|>[\n {"tool_call_id": "0", "tool_name": "run", "parameters": {"command": "ls -la"}}\n]<|END_ACTION|>',
        RUN,
    ),
    row(
        "command-r7b stripped",
        'I will list.[\n {"tool_call_id": "0", "tool_name": "run", "parameters": {"command": "ls -la"}}\n]',
        RUN,
        rest="I will list.",
    ),
    row("llama4 json", f"<|python_start|>{OBJECT}<|python_end|>", FORECAST_3),
    row("mistral array", f'[TOOL_CALLS] [{OBJECT[:-1]}, "id": "abc123XYZ"}}]', FORECAST_3),
    row("mistral single quotes", "[TOOL_CALLS] [{'name': 'calc', 'arguments': {'x': 1.5}}]", ("calc", {"x": 1.5})),
    row("mistral chatter", f"[TOOL_CALLS] [{OBJECT}]\nDone.", FORECAST_3, rest="\nDone."),
)

NAMED = (
    row("gemma 4 behind a thought's closer", '<channel|>call:run{command:<|"|>ls -la<|"|>}', RUN),
    row(
        "minimax m2 without brackets",
        'invoke name="get_forecast">\nparameter name="place">Turinparameter>\nparameter name="days">3parameter>\ninvoke>',
        FORECAST_3,
    ),
    row(
        "minimax m2 without brackets in its section",
        'Sure.\nminimax:tool_call>\ninvoke name="run">\nparameter name="command">ls -laparameter>\ninvoke>\nminimax:tool_call>',
        RUN,
        rest="Sure.",
    ),
    row("name and object", f"get_forecast{ARGUMENTS}", FORECAST_3),
    row("name and object on lines", f"Well.\nget_forecast\n{ARGUMENTS}", FORECAST_3, rest="Well."),
    row("mistral args", f"[TOOL_CALLS]get_forecast[ARGS]{ARGUMENTS}", FORECAST_3),
    row("mistral without args marker", f"[TOOL_CALLS]get_forecast{ARGUMENTS}", FORECAST_3),
    row("mistral without calls marker", f"get_forecast[ARGS]{ARGUMENTS}", FORECAST_3),
    row("mistral call id", f"[TOOL_CALLS]get_forecast[CALL_ID]Ab3456789[ARGS]{ARGUMENTS}", FORECAST_3),
    row(
        "mistral parallel",
        f'[TOOL_CALLS]get_forecast[ARGS]{ARGUMENTS}[TOOL_CALLS]run[ARGS]{{"command": "ls -la"}}',
        FORECAST_3,
        RUN,
    ),
    row(
        "mistral marker in a value",
        '[TOOL_CALLS]run[ARGS]{"command": "echo [TOOL_CALLS]now[ARGS]{}"}',
        ("run", {"command": "echo [TOOL_CALLS]now[ARGS]{}"}),
    ),
    row("mistral after prose", f"Sure.[TOOL_CALLS]get_forecast[ARGS]{ARGUMENTS}</s>", FORECAST_3, rest="Sure."),
    row(
        "deepseek v3",
        f"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_forecast\n```json\n{ARGUMENTS}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        FORECAST_3,
    ),
    row(
        "deepseek v3 parallel",
        f"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_forecast\n```json\n{ARGUMENTS}\n```<｜tool▁call▁end｜>\n<｜tool▁call▁begin｜>function<｜tool▁sep｜>now\n```json\n{{}}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        FORECAST_3,
        NOW,
    ),
    row(
        "deepseek v3 without inner markers",
        f"<｜tool▁calls▁begin｜>function<｜tool▁sep｜>get_forecast\n```json\n{ARGUMENTS}\n```<｜tool▁calls▁end｜>",
        FORECAST_3,
    ),
    row(
        "deepseek v3 missing brace",
        f"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_forecast\n```json\n{ARGUMENTS[:-1]}\n```<｜tool▁call▁end｜>",
        FORECAST_3,
    ),
    row(
        "deepseek v3 fence label only",
        f"<｜tool▁call▁begin｜>function<｜tool▁sep｜>get_forecast\njson\n{ARGUMENTS}<｜tool▁call▁end｜>",
        FORECAST_3,
    ),
    row(
        "deepseek v3.1",
        f"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_forecast<｜tool▁sep｜>{ARGUMENTS}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
        FORECAST_3,
    ),
    row(
        "deepseek v3.1 end of sentence",
        f"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_forecast<｜tool▁sep｜>{ARGUMENTS}<｜end▁of▁sentence｜>",
        FORECAST_3,
    ),
    row(
        "deepseek v3.1 without section",
        f"<｜tool▁call▁begin｜>get_forecast<｜tool▁sep｜>{ARGUMENTS}<｜tool▁call▁end｜>",
        FORECAST_3,
    ),
    row(
        "deepseek openers in a row",
        f"<｜tool▁calls▁begin｜><｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_forecast<｜tool▁sep｜>{ARGUMENTS}",
        FORECAST_3,
    ),
    row(
        "kimi",
        f"<|tool_calls_section_begin|><|tool_call_begin|>functions.get_forecast:0<|tool_call_argument_begin|>{ARGUMENTS}<|tool_call_end|><|tool_calls_section_end|>",
        FORECAST_3,
    ),
    row(
        "kimi without section",
        f"<|tool_call_begin|>functions.get_forecast:0<|tool_call_argument_begin|>{ARGUMENTS}<|tool_call_end|>",
        FORECAST_3,
    ),
    row(
        "kimi fused id",
        f"<|tool_calls_section_begin|><|tool_call_begin|>functionsget_forecast5<|tool_call_argument_begin|>{ARGUMENTS}<|tool_call_end|><|tool_calls_section_end|>",
        FORECAST_3,
    ),
    row(
        "kimi blank in id",
        f"<|tool_call_begin|>functions get_forecast<|tool_call_argument_begin|>{ARGUMENTS}<|tool_call_end|>",
        FORECAST_3,
    ),
    row(
        "kimi slash in id",
        f"<|tool_call_begin|>tools/get_forecast<|tool_call_argument_begin|>{ARGUMENTS}<|tool_call_end|>",
        FORECAST_3,
    ),
    row(
        "kimi counter alone",
        f"<|tool_calls_section_begin|><|tool_call_begin|>7<|tool_call_argument_begin|>{ARGUMENTS}<|tool_call_end|><|tool_calls_section_end|>",
        FORECAST_3,
    ),
    row(
        "kimi noise",
        f"<|tool_calls_section_begin|>well <|tool_call_begin|>functions.get_forecast:0<|tool_call_argument_begin|> {ARGUMENTS} <|tool_call_end|> so <|tool_calls_section_end|>",
        FORECAST_3,
    ),
    row(
        "kimi python dict",
        "<|tool_call_begin|>functions.save_note:1<|tool_call_argument_begin|>{'title': 'a', 'body': 'b', 'pinned': True}<|tool_call_end|>",
        ("save_note", {"title": "a", "body": "b", "pinned": True}),
    ),
    row("functionary v3.2", f">>>get_forecast\n{ARGUMENTS}\n ", FORECAST_3),
    row("functionary v3.2 blank", f">>> get_forecast\n{ARGUMENTS}", FORECAST_3),
    row("functionary v3.2 colon", f">>>:get_forecast\n{ARGUMENTS}", FORECAST_3),
    row("functionary v3.1", f"<function=get_forecast>{ARGUMENTS}</function>", FORECAST_3),
    row(
        "functionary v3.1 in words",
        f"Wel<function=get_forecast>{ARGUMENTS}</function>l, well<function=now>{{}}</function>!",
        FORECAST_3,
        NOW,
        rest="Well, well!",
    ),
    row("functionary v2", f"<|from|>assistant\n<|recipient|>get_forecast\n<|content|>{ARGUMENTS}", FORECAST_3),
    row("gemma 4", '<|tool_call>call:get_forecast{place:<|"|>Turin<|"|>,days:3}<tool_call|>', FORECAST_3),
    row(
        "gemma 4 without opener",
        '<|channel>thought\nHm.\n<channel|>call:get_forecast{place:<|"|>Turin<|"|>,days:3}<tool_call|>',
        FORECAST_3,
    ),
    row("gemma 4 angle", '<call>get_forecast{place:<|"|>Turin<|"|>}', FORECAST),
    row("gemma 4 doubled colon", '<|tool_call>:call:get_forecast{place:<|"|>Turin<|"|>}<tool_call|>', FORECAST),
    row("gemma 4 turn token", '<|tool_call>call:get_forecast{place:<|"|>Turin<|"|>}<turn|>', FORECAST),
    row("gemma 4 json quoting", '<|tool_call>call:get_forecast{"place": "Turin", "days": 3}<tool_call|>', FORECAST_3),
    row(
        "gemma 4 quoting in containers",
        '<|tool_call>call:plan{steps:["a", \'b\', <|"|>c<|"|>],options:{deep:{n:1}}}<tool_call|>',
        ("plan", {"steps": ["a", "b", "c"], "options": {"deep": {"n": 1}}}),
    ),
    row(
        "gemma 4 lost closing token",
        '<|tool_call>call:save_note{title:<|"|>a }],body:<|"|>b<|"|>}<tool_call|>',
        ("save_note", {"title": "a }]", "body": "b"}),
    ),
    row("gemma 4 namespace", 'call:tools:run{"command": "echo }"}', ("run", {"command": "echo }"})),
    row("gemma 4 missing brace", '<|tool_call>call:get_forecast{place:<|"|>Turin<|"|><tool_call|>', FORECAST),
    row(
        "gemma 4 parallel",
        '<|tool_call>call:now{}<tool_call|><|tool_call>call:run{command:<|"|>ls -la<|"|>}<tool_call|>',
        NOW,
        RUN,
    ),
    row(
        "functiongemma",
        "<start_function_call>call:get_forecast{place:<escape>Turin<escape>,days:3}<end_function_call>",
        FORECAST_3,
    ),
    row(
        "functiongemma no comma",
        "<start_function_call>call:get_forecast{place:<escape>Turin<escape>days:<escape>3<escape>}<end_function_call>",
        FORECAST_3,
    ),
    row(
        "functiongemma start_function_response",
        "<start_function_call>call:get_forecast{place:<escape>Turin<escape>}<end_function_call><start_function_response>",
        FORECAST,
    ),
)

QWEN = (
    "<tool_call>\n<function=save_note>\n<parameter=title>\npage.html\n</parameter>\n<parameter=body>\n"
    + HTML
    + "\n</parameter>\n</function>\n</tool_call>"
)
TURIN = "<parameter=place>\nTurin\n</parameter>\n"
INVOKE = '<invoke name="run">\n<parameter name="command">ls -la</parameter>\n</invoke>'
CLAUDE = f"<function_calls>\n{INVOKE}\n</function_calls>"
DSML = """<｜DSML｜SECTION>
<｜DSML｜invoke name="get_forecast">
<｜DSML｜parameter name="place" string="true">Turin</｜DSML｜parameter>
<｜DSML｜parameter name="days" string="false">3</｜DSML｜parameter>
</｜DSML｜invoke>
</｜DSML｜SECTION>"""
XML = (
    row("function not closed before its body", f"<function=get_forecast{ARGUMENTS}</function>", FORECAST_3),
    row("function in parentheses", f"<function=get_forecast({ARGUMENTS})</function>", FORECAST_3),
    row(
        "qwen3-coder words between parameters",
        "<tool_call>\n<function=get_forecast>\n<parameter=place>\nTurin\n</parameter>\nand the days:\n<parameter=days>\n3\n</parameter>\n</function>\n</tool_call>",
        FORECAST_3,
    ),
    row(
        "qwen3-coder own key as an element",
        "<function=save_note>\n<parameter=title>\n<title>x</title>\n</parameter>\n<parameter=body>\ny\n</parameter>\n</function>",
        ("save_note", {"title": "<title>x</title>", "body": "y"}),
    ),
    row(
        "qwen3-coder",
        f"<tool_call>\n<function=get_forecast>\n{TURIN}<parameter=days>\n3\n</parameter>\n</function>\n</tool_call>",
        FORECAST_3,
    ),
    row("qwen3-coder one line", "<function=run><parameter=command>ls -la</parameter></function>", RUN),
    row(
        "qwen3-coder without opener",
        f"Let me see.\n\n<function=get_forecast>\n{TURIN}</function>\n</tool_call>",
        FORECAST,
        rest="Let me see.",
    ),
    row("qwen3-coder markup", QWEN, NOTE),
    row(
        "qwen3-coder parameter for function",
        f"<tool_call>\n<parameter=get_forecast>\n{TURIN}</function>\n</tool_call>",
        FORECAST,
    ),
    row(
        "qwen3-coder parameter not closed",
        "<tool_call>\n<function=get_forecast>\n<parameter=place>\nTurin\n<parameter=days>\n3\n</parameter>\n</function>\n</tool_call>",
        FORECAST_3,
    ),
    row(
        "qwen3-coder last parameter not closed",
        "<tool_call>\n<function=get_forecast>\n<parameter=place>\nTurin\n</function>\n</tool_call>",
        FORECAST,
    ),
    row(
        "qwen3-coder parameter closed twice",
        "<tool_call>\n<function=get_forecast>\n<parameter=place>\nTurin\n</parameter>\n</parameter>\n<parameter=days>\n3\n</parameter>\n</function>\n</tool_call>",
        FORECAST_3,
    ),
    row(
        "qwen3-coder misspelt closer",
        "<tool_call>\n<function=get_forecast>\n<parameter=place>\nTurin\n</paramter>\n<parameter=days>\n3\n</param>\n</function>\n</tool_call>",
        FORECAST_3,
    ),
    row(
        "qwen3-coder closed by its key",
        "<tool_call>\n<function=get_forecast>\n<parameter=place>\nTurin\n</place>\n</function>\n</tool_call>",
        FORECAST,
    ),
    row("qwen3-coder function not closed", f"<tool_call>\n<function=get_forecast>\n{TURIN}</tool_call>", FORECAST),
    row(
        "qwen3-coder function closed twice",
        f"<tool_call>\n<function=get_forecast>\n{TURIN}</function>\n</function>\n</tool_call>",
        FORECAST,
    ),
    row("qwen3-coder nothing closed but values", f"<tool_call>\n<function=get_forecast>\n{TURIN}", FORECAST),
    row("qwen3-coder json body", '<tool_call>\n<function=run>\n{"command": "ls -la"}\n</function>\n</tool_call>', RUN),
    row(
        "qwen3-coder name as element", '<tool_call>\n<function>run</function>\n{"command": "ls -la"}\n</tool_call>', RUN
    ),
    row(
        "qwen3-coder names in bodies",
        "<tool_call>\n<function=get_forecast>\n<parameter>place</parameter>\nTurin\n<parameter>days</parameter>\n3\n</function>\n</tool_call>",
        FORECAST_3,
    ),
    row(
        "qwen3-coder property tags",
        "<tool_call>\n<function=get_forecast>\n<place>Turin</place>\n<days>3</days>\n</function>\n</tool_call>",
        FORECAST_3,
    ),
    row(
        "qwen3-coder name attributes",
        '<tool_call>\n<function name="get_forecast">\n<parameter name="place">Turin</parameter>\n</function>\n</tool_call>',
        FORECAST,
    ),
    row(
        "qwen3-coder words between tags",
        f"<tool_call>\nWell then.\n<function=get_forecast>\n{TURIN}</function> ok </tool_call>",
        FORECAST,
    ),
    row(
        "qwen3-coder python literals",
        "<function=plan>\n<parameter=steps>\n['a', 'b']\n</parameter>\n<parameter=options>\n{'deep': True, 'x': None}\n</parameter>\n</function>",
        ("plan", {"steps": ["a", "b"], "options": {"deep": True, "x": None}}),
    ),
    row(
        "qwen3-coder empty optional",
        f"<function=get_forecast>\n{TURIN}<parameter=days>\n\n</parameter>\n</function>",
        FORECAST,
    ),
    row("qwen3-coder same parameter twice", f"<function=get_forecast>\n{TURIN}{TURIN}</function>", FORECAST),
    row(
        "qwen3-coder closer in a value",
        "<function=run>\n<parameter=command>\necho '</parameter> is a tag'\n</parameter>\n</function>",
        ("run", {"command": "echo '</parameter> is a tag'"}),
    ),
    row(
        "qwen3-coder whole format in a value",
        "<function=save_note>\n<parameter=title>\nx\n</parameter>\n<parameter=body>\nWrite:\n<tool_call>\n<function=run>\n<parameter=command>\nls\n</parameter>\n</function>\n</tool_call>\nlike this.\n</parameter>\n</function>",
        (
            "save_note",
            {
                "title": "x",
                "body": "Write:\n<tool_call>\n<function=run>\n<parameter=command>\nls\n</parameter>\n</function>\n</tool_call>\nlike this.",
            },
        ),
    ),
    row(
        "qwen3-coder keeps inner blank lines",
        "<function=run>\n<parameter=command>\n\n  ls\n\n\n</parameter>\n</function>",
        ("run", {"command": "\n  ls\n\n"}),
    ),
    row(
        "qwen3-coder two calls",
        f"<tool_call>\n<function=get_forecast>\n{TURIN}</function>\n</tool_call>\n<tool_call>\n<function=now>\n</function>\n</tool_call>",
        FORECAST,
        NOW,
    ),
    row(
        "qwen3-coder two functions in a wrapper",
        f"<tool_call>\n<function=get_forecast>\n{TURIN}</function>\n<function=now>\n</function>\n</tool_call>",
        FORECAST,
        NOW,
    ),
    row(
        "qwen3-coder other spelling of a key",
        "<function=search-code><parameter=Query>x</parameter></function>",
        ("search-code", {"query": "x"}),
    ),
    row(
        "seed",
        "<seed:tool_call>\n<function=run>\n<parameter=command>ls -la</parameter>\n</function>\n</seed:tool_call>",
        RUN,
    ),
    row(
        "seed with flags",
        '<seed:tool_call><function name="calc"><parameter name="x" string="false">1.5</parameter><parameter name="label" string="true">1</parameter></function></seed:tool_call>',
        ("calc", {"x": 1.5, "label": "1"}),
    ),
    row(
        "claude",
        '<function_calls>\n<invoke name="run">\n<parameter name="command">ls -la</parameter>\n</invoke>\n</function_calls>',
        RUN,
    ),
    row(
        "claude without wrapper", '<invoke name="run">\n  <parameter name="command">ls -la</parameter>\n</invoke>', RUN
    ),
    row(
        "claude not escaped",
        '<invoke name="run"><parameter name="command">a && b <c "d" &lt;</parameter></invoke>',
        ("run", {"command": 'a && b <c "d" &lt;'}),
    ),
    row(
        "claude single quotes",
        "<function_calls><invoke name='run'><parameter name='command'>ls -la</parameter></invoke></function_calls>",
        RUN,
    ),
    row("claude with another prefix", CLAUDE.replace("<", "<atem:").replace("<atem:/", "</atem:"), RUN),
    row("glimmer header", f" to=atem:function_calls<|message|>{CLAUDE}<|eom|>", RUN),
    row("glimmer header after prose", f"I should. to=run<|message|>{CLAUDE}", RUN, rest="I should."),
    row("claude self closing", '<function_calls><invoke name="now"/></function_calls>', NOW),
    row("minimax m2", f"<minimax:tool_call>\n{INVOKE}\n</minimax:tool_call>", RUN),
    row(
        "minimax m2 closer in a value",
        '<minimax:tool_call>\n<invoke name="run">\n<parameter name="command">echo "</minimax:tool_call> ends it"</parameter>\n</invoke>\n</minimax:tool_call>',
        ("run", {"command": 'echo "</minimax:tool_call> ends it"'}),
    ),
    row(
        "minimax m2 own element in a value",
        '<minimax:tool_call>\n<invoke name="run">\n<parameter name="command"><parameter>\n x\n</parameter></parameter>\n</invoke>\n</minimax:tool_call>',
        ("run", {"command": "<parameter>\n x\n</parameter>"}),
    ),
    row(
        "minimax m3",
        ']<]minimax[>[<tool_call>\n]<]minimax[>[<invoke name="get_forecast">]<]minimax[>[<place>Turin]<]minimax[>[</place>]<]minimax[>[<days>3]<]minimax[>[</days>]<]minimax[>[</invoke>\n]<]minimax[>[</tool_call>',
        FORECAST_3,
    ),
    row(
        "minimax m1",
        f"<tool_calls>\n{OBJECT}\n{OBJECT}\n</tool_calls>",
        FORECAST_3,
        FORECAST_3,
    ),
    row("dsml v3.2", DSML.replace("SECTION", "function_calls"), FORECAST_3),
    row("dsml v4", DSML.replace("SECTION", "tool_calls"), FORECAST_3),
    row("dsml misspelt section", DSML.replace("SECTION", "tool_call"), FORECAST_3),
    row("dsml doubled bars", DSML.replace("SECTION", "tool_calls").replace("｜", "｜｜"), FORECAST_3),
    row("dsml plain bars", DSML.replace("SECTION", "tool_calls").replace("｜", "|"), FORECAST_3),
    row(
        "dsml smart quotes",
        DSML.replace("SECTION", "tool_calls")
        .replace(' name="', " name=“")
        .replace('" ', "” ")
        .replace('">', "”>")
        .replace('="', "=“"),
        FORECAST_3,
    ),
    row("dsml without section opener", DSML.split("\n", 1)[1].replace("SECTION", "tool_calls"), FORECAST_3),
    row("dsml without closers", DSML.replace("SECTION", "tool_calls").rsplit("\n", 2)[0], FORECAST_3),
    row("dsml tokens stripped", DSML.replace("SECTION", "tool_calls").replace("｜DSML｜", ""), FORECAST_3),
    row("dsml blanks in tags", DSML.replace("SECTION", "tool_calls").replace("<｜DSML｜", "< ｜DSML｜ "), FORECAST_3),
    row(
        "dsml openers plain and closers not",
        '<function>\n<name>run</name>\n<parameter name="command" string="true">ls -la</｜DSML｜parameter>\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>',
        RUN,
    ),
    row("dsml self closing", '<｜DSML｜tool_calls>\n<｜DSML｜invoke name="now"/>\n</｜DSML｜tool_calls>', NOW),
    row(
        "dsml foreign flag",
        '<｜DSML｜invoke name="calc">\n<｜DSML｜parameter name="x" string="maybe">2</｜DSML｜parameter>\n</｜DSML｜invoke>',
        ("calc", {"x": 2}),
    ),
    row(
        "dsml typed by flag",
        '<｜DSML｜invoke name="calc">\n<｜DSML｜parameter name="x" string="false">2</｜DSML｜parameter>\n<｜DSML｜parameter name="label" string="true">2</｜DSML｜parameter>\n</｜DSML｜invoke>',
        ("calc", {"x": 2, "label": "2"}),
    ),
    row(
        "step 3",
        '<｜tool_calls_begin｜><｜tool_call_begin｜>function<｜tool_sep｜><steptml:invoke name="get_forecast"><steptml:parameter name="place">Turin</steptml:parameter><steptml:parameter name="days">3</steptml:parameter></steptml:invoke><｜tool_call_end｜><｜tool_calls_end｜>',
        FORECAST_3,
    ),
    row("minicpm5", '<function name="run"><param name="command"><![CDATA[ls -la]]></param></function>', RUN),
    row("tool's name round json", '<get_forecast>{"place": "Turin"}</get_forecast>', FORECAST),
    row(
        "tool's name round properties",
        "Sure.\n<get_forecast>\n<place>Turin</place>\n<days>3</days>\n</get_forecast>",
        FORECAST_3,
        rest="Sure.",
    ),
    row("tool's name round a bare value", "<run>ls -la</run>", RUN),
    row("tool's name alone", "<now></now>", NOW),
    row("tool's name in a wrapper", '<toolcall><run>{"command": "ls -la"}</run></toolcall>', RUN),
    row(
        "name and arguments as elements",
        '<function_call>\n<name>run</name>\n<arguments>\n{"command": "ls -la"}\n</arguments>',
        RUN,
    ),
    row(
        "tool_name and parameters as elements",
        '<tool_call><tool_name>run</tool_name><parameters>{"command": "ls -la"}</parameters></tool_call>',
        RUN,
    ),
)

PAIRS = "<arg_key>place</arg_key>\n<arg_value>Turin</arg_value>\n<arg_key>days</arg_key>\n<arg_value>3</arg_value>\n"
KEYED = (
    row("glm property tags", "<tool_call>get_forecast\n<place>Turin</place>\n<days>3</days>\n</tool_call>", FORECAST_3),
    row("react brackets", "Action: run[ls -la]", RUN),
    row("glm 4.5", f"<tool_call>get_forecast\n{PAIRS}</tool_call>", FORECAST_3),
    row("glm 4.7", f"<tool_call>get_forecast{PAIRS.replace(chr(10), '')}</tool_call>", FORECAST_3),
    row(
        "glm parallel", f"\n<tool_call>get_forecast\n{PAIRS}</tool_call>\n<tool_call>now\n</tool_call>", FORECAST_3, NOW
    ),
    row("glm not closed", f"<tool_call>get_forecast\n{PAIRS}", FORECAST_3),
    row(
        "glm value not closed",
        f"<tool_call>get_forecast\n{PAIRS.replace('Turin</arg_value>', 'Turin')}</tool_call>",
        FORECAST_3,
    ),
    row(
        "glm last value not closed",
        "<tool_call>get_forecast\n<arg_key>place</arg_key>\n<arg_value>Turin</tool_call>",
        FORECAST,
    ),
    row("glm key fused", "<tool_call>get_forecastplace</arg_key><arg_value>Turin</arg_value></tool_call>", FORECAST),
    row(
        "glm key behind a blank",
        "<tool_call>get_forecast place</arg_key><arg_value>Turin</arg_value></tool_call>",
        FORECAST,
    ),
    row(
        "glm opener for the key's",
        "<tool_call>get_forecast<tool_call>place</arg_key><arg_value>Turin</arg_value></tool_call>",
        FORECAST,
    ),
    row(
        "glm key not closed", "<tool_call>get_forecast<arg_key>place<arg_value>Turin</arg_value></tool_call>", FORECAST
    ),
    row(
        "glm blank in a key",
        "<tool_call>get_forecast<arg_key>place </arg_key><arg_value>Turin</arg_value></tool_call>",
        FORECAST,
    ),
    row(
        "glm keeps the value's line breaks",
        "<tool_call>run\n<arg_key>command</arg_key>\n<arg_value>a\nb\n</arg_value>\n</tool_call>",
        ("run", {"command": "a\nb\n"}),
    ),
    row(
        "glm tag in a value",
        "<tool_call>run\n<arg_key>command</arg_key>\n<arg_value>echo '</arg_value> <b>'</arg_value>\n</tool_call>",
        ("run", {"command": "echo '</arg_value> <b>'"}),
    ),
    row("glm writes claude's", f"<tool_call>{INVOKE}</tool_call>", RUN),
    row(
        "longcat",
        "<longcat_tool_call>get_forecast\n<longcat_arg_key>place</longcat_arg_key>\n<longcat_arg_value>Turin</longcat_arg_value>\n</longcat_tool_call>",
        FORECAST,
    ),
    row(
        "kimi k3",
        '<|open|>tools<|sep|><|open|>call tool="calc" index="1"<|sep|><|open|>argument key="x" type="number"<|sep|>1.5<|close|>argument<|sep|><|open|>argument key="label" type="string"<|sep|>7<|close|>argument<|sep|><|close|>call<|sep|><|close|>tools<|sep|>',
        ("calc", {"x": 1.5, "label": "7"}),
    ),
    row(
        "kimi k3 two calls",
        '<|open|>tools<|sep|><|open|>call tool="now" index="1"<|sep|><|close|>call<|sep|><|open|>call tool="run" index="2"<|sep|><|open|>argument key="command" type="string"<|sep|>ls -la<|close|>argument<|sep|><|close|>call<|sep|><|close|>tools<|sep|>',
        NOW,
        RUN,
    ),
    row(
        "react",
        'Thought: I need it.\nAction: get_forecast\nAction Input: {"place": "Turin"}',
        FORECAST,
        rest="Thought: I need it.",
    ),
    row("react bold", "**Action:** get_forecast\n**Action Input:** {'place': 'Turin'}", FORECAST),
    row("react bare text", "Action: run\nAction Input: ls -la", RUN),
    row(
        "react invented observation", 'Action: run\nAction Input: "ls -la"\nObservation: a.txt\nFinal Answer: one', RUN
    ),
    row("react empty input", "Action: now\nAction Input: {}", NOW),
    row("react without input", "Thought: time.\nAction: now", NOW, rest="Thought: time."),
    row("react parentheses", 'Thought: x.\nAction: run ({"command": "ls -la"})', RUN, rest="Thought: x."),
    row("react fenced input", 'Action: run\nAction Input:\n```json\n{"command": "ls -la"}\n```', RUN),
)

PYTHONIC = (
    row("pythonic", '[get_forecast(place="Turin", days=3)]', FORECAST_3),
    row("pythonic after prose", 'Let me check.\n\n[get_forecast(place="Turin")]', FORECAST, rest="Let me check."),
    row("pythonic several", "[get_forecast(place='Turin'), now()]", FORECAST, NOW),
    row("pythonic without bracket", '[get_forecast(place="Turin"), now()', FORECAST, NOW),
    row(
        "pythonic literals",
        "[plan(steps=['a', \"b\"], options={'deep': None, 'n': [True, 1.5, -2]})]",
        ("plan", {"steps": ["a", "b"], "options": {"deep": None, "n": [True, 1.5, -2]}}),
    ),
    row(
        "pythonic json literals",
        '[plan(steps=["a"], options={"deep": null, "on": true})]',
        ("plan", {"steps": ["a"], "options": {"deep": None, "on": True}}),
    ),
    row("pythonic escapes", "[run(command='it\\'s\\n\\ta \\u00e9 \\d')]", ("run", {"command": "it's\n\ta é \\d"})),
    row("pythonic triple quotes", '[run(command="""a "b"\nc""")]', ("run", {"command": 'a "b"\nc'})),
    row("pythonic raw string", r"[run(command=r'a\nb')]", ("run", {"command": r"a\nb"})),
    row("pythonic joined strings", "[run(command='ls ' '-la')]", RUN),
    row("pythonic octal escapes and line ends", "[run(command='\\101\\\nb')]", ("run", {"command": "Ab"})),
    row("pythonic surrogates", "[run(command='\\ud83d\\ude00 \\ud83d')]", ("run", {"command": "😀 \ufffd"})),
    row("pythonic hexadecimal", "[calc(x=0x1f)]", ("calc", {"x": 31})),
    row(
        "pythonic keys without quotes",
        "[plan(steps=['a'], options={deep: 1})]",
        ("plan", {"steps": ["a"], "options": {"deep": 1}}),
    ),
    row("pythonic inner quotes", '[run(command="echo "hi" there")]', ("run", {"command": 'echo "hi" there'})),
    row("pythonic reserved word", "[fetch(from=1, class='x')]", ("fetch", {"from": 1, "class": "x"})),
    row("pythonic closers in a string", "[run(command='f(x)], [now()]')]", ("run", {"command": "f(x)], [now()]"})),
    row("python line with a raw string", r"run(command=r'a\nb')", ("run", {"command": r"a\nb"})),
    row("python lines", 'get_forecast(place="Turin")\nnow()', FORECAST, NOW),
    row("python line after prose", 'I will look.\n\nget_forecast(place="Turin")', FORECAST, rest="I will look."),
    row("lfm2", "<|tool_call_start|>[get_forecast(place='Turin', days=3)]<|tool_call_end|>", FORECAST_3),
    row("lfm2 json", f"<|tool_call_start|>[{OBJECT}]<|tool_call_end|>", FORECAST_3),
    row("lfm2 hash", "<|tool_call_start|>[run(command='# x')]<|tool_call_end|>", ("run", {"command": "# x"})),
    row("llama4 pythonic", "<|python_start|>[get_forecast(place='Turin')]<|python_end|>", FORECAST),
    row("olmo3", "<function_calls>get_forecast(place='Turin', days=3)\nnow()</function_calls>", FORECAST_3, NOW),
    row("olmo3 brackets", "<function_calls>[get_forecast(place='Turin')]</function_calls>", FORECAST),
    row("gemma 3", "Okay.\n```tool_code\nget_forecast(place='Turin')\n```", FORECAST, rest="Okay."),
    row("gemma 3 list", "```tool_code\n[get_forecast(place='Turin'), now()]\n```", FORECAST, NOW),
    row("gemma 3 printed", "```tool_code\nprint(get_forecast(place='Turin'))\n```", FORECAST),
    row("python fence", "```python\nget_forecast(place='Turin')\n```", FORECAST),
    row("history echo", '[Calling tool: get_forecast({"place": "Turin"})]', FORECAST),
    row("history echo underscore", '[tool_call: get_forecast({"place": "Turin"})]', FORECAST),
    row("history echo bracket", "[get_forecast(place='Turin')]", FORECAST),
)

HARMONY = (
    row(
        "harmony without braces",
        '<|channel|>commentary to=functions.run <|constrain|>json<|message|>"command": "ls -la"<|call|>',
        RUN,
    ),
    row(
        "harmony",
        f"<|channel|>commentary to=functions.get_forecast <|constrain|>json<|message|>{ARGUMENTS}<|call|>",
        FORECAST_3,
    ),
    row(
        "harmony recipient first",
        f"<|start|>assistant to=functions.get_forecast<|channel|>commentary <|constrain|>json<|message|>{ARGUMENTS}<|call|>",
        FORECAST_3,
    ),
    row(
        "harmony analysis channel",
        f"<|channel|>analysis to=functions.get_forecast code<|message|>\n{ARGUMENTS}<|call|>",
        FORECAST_3,
    ),
    row(
        "harmony ended by mistake",
        f"<|channel|>commentary to=functions.get_forecast<|message|>{ARGUMENTS}<|end|>",
        FORECAST_3,
    ),
    row(
        "harmony two calls",
        f"<|channel|>commentary to=functions.get_forecast<|message|>{ARGUMENTS}<|call|><|start|>assistant to=functions.now<|channel|>commentary <|constrain|>json<|message|>{{}}<|call|>",
        FORECAST_3,
        NOW,
    ),
    row(
        "harmony after analysis",
        f"<|channel|>analysis<|message|>Think.<|end|><|start|>assistant<|channel|>commentary to=functions.get_forecast <|constrain|>json<|message|>{ARGUMENTS}<|call|>",
        FORECAST_3,
    ),
    row(
        "harmony with a preamble",
        f"<|channel|>commentary<|message|>I look.<|end|><|start|>assistant<|channel|>commentary to=functions.get_forecast<|message|>{ARGUMENTS}<|call|>",
        FORECAST_3,
        rest="I look.",
    ),
    row(
        "harmony recipient lost, one fits",
        '<|channel|>commentary<|message|>{"steps": ["a"]}<|end|>',
        ("plan", {"steps": ["a"]}),
    ),
    row("harmony single quotes", "<|channel|>commentary to=functions.run<|message|>{'command': 'ls -la'}<|call|>", RUN),
    row("harmony words, one fits", 'assistantcode{"steps": ["a"]}', ("plan", {"steps": ["a"]})),
    row("harmony missing brace", '<|channel|>commentary to=functions.run<|message|>{"command": "ls -la"<|call|>', RUN),
    row("harmony recipient alone", f"to=functions.get_forecast {ARGUMENTS}", FORECAST_3),
    row("harmony words for tokens", f"assistantcommentary to=functions.get_forecast json{ARGUMENTS}", FORECAST_3),
    row(
        "harmony words glued",
        f"analysisI should look.assistantcommentary to=functions.get_forecastjson{ARGUMENTS}",
        FORECAST_3,
    ),
    row("harmony commentary to", f"commentary to=functions.get_forecast code {ARGUMENTS}", FORECAST_3),
)

PLACE = "<arg_key>place</arg_key><arg_value>Turin</arg_value>"
MORE = (
    row("requested tool", f"[TOOL_REQUEST]{OBJECT}[END_TOOL_REQUEST]", FORECAST_3),
    row("thought in brackets", f"[THINK]Look.[/THINK][TOOL_CALLS]get_forecast[ARGS]{ARGUMENTS}", FORECAST_3),
    row(
        "assistant's end",
        f"Well.\n<|tools_prefix|>[{OBJECT}]<|tools_suffix|><|assistant_end|>",
        FORECAST_3,
        rest="Well.",
    ),
    row(
        "functionary v2 stop",
        f"<|from|>assistant\n<|recipient|>get_forecast\n<|content|>{ARGUMENTS}<|stop|>",
        FORECAST_3,
    ),
    row(
        "kimi namespace and counter",
        f"<|tool_call_begin|>functions:0<|tool_call_argument_begin|>{ARGUMENTS}<|tool_call_end|>",
        FORECAST_3,
    ),
    row("glm key without opener", f"<tool_call>get_forecast\nplace</arg_key>{PLACE[24:]}</tool_call>", FORECAST),
    row(
        "qwen3-coder closed by the container's name",
        "<tool_call>\n<function=run>\n<parameter=command>\nls -la\n</parameters>\n</function>\n</tool_call>",
        RUN,
    ),
    row(
        "claude's first form",
        "<function_calls>\n<invoke>\n<tool_name>run</tool_name>\n<parameters>\n<command>ls -la</command>\n</parameters>\n</invoke>\n</function_calls>",
        RUN,
    ),
    row("gemma 4 last string not closed", '<|tool_call>call:run{command:<|"|>ls -la}<tool_call|>', RUN),
    row(
        "echo of the definition",
        '{"type": "function", "name": "run", "parameters": {"type": "object", "properties": {"command": "ls -la"}}}',
        RUN,
    ),
    row("react in ticks", 'Action: `run`\nAction Input: `{"command": "ls -la"}`', RUN),
    row("react with nothing behind its input", "Action: now\nAction Input:", NOW),
    row("arguments alone, which one tool takes", '<tool_call>{"command": "ls -la"}</tool_call>', RUN),
    row("name and words before its object", f"<tool_call>call get_forecast\n{ARGUMENTS}</tool_call>", FORECAST_3),
    row(
        "gemma 4 words for values",
        "call:save_note{title:a,body:b,pinned:true}<tool_call|>",
        ("save_note", {"title": "a", "body": "b", "pinned": True}),
    ),
    row(
        "kimi words in a section without end",
        f"<|tool_calls_section_begin|>{'well ' * 30}<|tool_call_begin|>functions.get_forecast:0<|tool_call_argument_begin|>{ARGUMENTS}<|tool_call_end|>",
        FORECAST_3,
    ),
    row("tool's name as an empty element", "Well. <now/>", NOW, rest="Well."),
    row("dsml under another section's name", '<｜DSML｜calls>\n<｜DSML｜invoke name="now"/>\n</｜DSML｜calls>', NOW),
    row("tool for function", "<tool=run><parameter=command>ls -la</parameter></tool>", RUN),
    row(
        "types beside names",
        '<invoke name="get_forecast"><parameter name="place" type="string">Turin</parameter><parameter name="days" type="integer">3</parameter></invoke>',
        FORECAST_3,
    ),
    row("the whole call as a body", f"<function=get_forecast>{OBJECT}</function>", FORECAST_3),
    row(
        "own key closes twice",
        "<function=save_note><parameter=title>a</title></title><parameter=body>x</parameter></function>",
        ("save_note", {"title": "a", "body": "x"}),
    ),
    row(
        "own key closes, and then words and the closer",
        "<function=save_note><parameter=title>a</title> b</parameter><parameter=body>x</parameter></function>",
        ("save_note", {"title": "a</title> b", "body": "x"}),
    ),
    row(
        "own key as an element among words",
        "<function=save_note><parameter=title>a<title>b</title>c</title><parameter=body>x</parameter></function>",
        ("save_note", {"title": "a<title>b</title>c", "body": "x"}),
    ),
    row(
        "element closed twice",
        "<function=save_note>\n<title>a</title>\n</title>\n<body>x</body></function>",
        ("save_note", {"title": "a", "body": "x"}),
    ),
    row(
        "one long word between parameters",
        f"<function=get_forecast>\n<parameter=place>Turin</parameter>{'w' * 40}\n<parameter=days>\n3\n</parameter>\n</function>",
        FORECAST_3,
    ),
    row("thought closed inside a block", f"<tool_call></think>{OBJECT}</tool_call>", FORECAST_3),
    row(
        "harmony answer behind the call",
        '<|channel|>commentary to=functions.run<|message|>{"command": "ls -la"}<|call|><|start|>assistant<|channel|>final<|message|>Done.<|return|>\n ',
        RUN,
        rest="Done.",
    ),
    row(
        "element with foreign closers in its value",
        "<function=run><command>ls </parameter> </invoke> <parameter=x> y</command></function>",
        ("run", {"command": "ls </parameter> </invoke> <parameter=x> y"}),
    ),
    row(
        "wrapper opened in a value",
        "<function=run>\n<parameter=command>\nls <tool_call> x\n</parameter>\n</function>",
        ("run", {"command": "ls <tool_call> x"}),
    ),
    row(
        "another element of the value's closer",
        "<function=save_note>\n<parameter=title>\n<body>x</body>\n</title>\n<parameter=body>\ny\n</parameter>\n</function>",
        ("save_note", {"title": "<body>x</body>", "body": "y"}),
    ),
    row("namespace in a list", '[functions.run(command="ls -la")]', RUN),
)

LONG_PROSE = "Now to what the file should hold, and why that matters to whoever reads it. " * 6
BODY = ("save_note", {"title": "a", "body": "b"})
MULTI = ("save_note", {"title": "a", "body": "one\ntwo"})
NOTE_OPENER = "<tool_call>\n<function=save_note>\n<parameter=title>\na"
NOTE_REST = "<parameter=body>\nb\n</parameter>\n</function>\n</tool_call>"
PLAN = ("plan", {"steps": ["a", "b"]})

TORN = (
    row("parameter's closer misspelt", f"{NOTE_OPENER}\n</prameter>\n{NOTE_REST}", BODY),
    row("parameter's closer in short", f"{NOTE_OPENER}\n</parm>\n{NOTE_REST}", BODY),
    row("parameter's closer without its end", f"{NOTE_OPENER}\n</parameter\n{NOTE_REST}", BODY),
    row("parameter's closer without its beginning", f"{NOTE_OPENER}\n/parameter>\n{NOTE_REST}", BODY),
    row("another tag's closer for the parameter's", f"{NOTE_OPENER}\n</think>\n{NOTE_REST}", BODY),
    row("parameter's opener for its closer", f"{NOTE_OPENER}\n<parameter>\n{NOTE_REST}", BODY),
    row("parameter's opener for its closer, last", "<function=run>\n<parameter=command>\nls -la\n<parameter>\n</function>", RUN),
    row("parameter's closer misspelt, last", "<function=run>\n<parameter=command>ls -la</parm>\n</function>", RUN),
    row("parameter's closer misspelt in a line", '<invoke name="save_note"><parameter name="title">a</parametr><parameter name="body">b</parameter></invoke>', BODY),
    row("closer missing in a line", "<function=save_note><parameter=title>a<parameter=body>b</parameter></function>", BODY),
    row("half a closer in a line", "<function=save_note><parameter=title>a</parameter<parameter=body>b</parameter></function>", BODY),
    row("parameter's opener doubled", "<function=run>\n<parameter=command><parameter=command>\nls -la\n</parameter>\n</function>", RUN),
    row("parameter's opener without its end", "<function=save_note>\n<parameter=title\na\n</parameter>\n<parameter=body>\nb\n</parameter>\n</function>", BODY),
    row("parameter's opener without its beginning", "<function=save_note>\nparameter=title>a</parameter>\n<parameter=body>b</parameter>\n</function>", BODY),
    row("parameter's name as an attribute alone", "<function=save_note>\n<parameter title>a</parameter>\n<parameter body>b</parameter>\n</function>", BODY),
    row("element that a value ends with stays in it", "<function=run>\n<parameter=command>echo '<think>x</think>\n</function>", ("run", {"command": "echo '<think>x</think>"})),
    row("closer of an element of the value stays in it", "<function=run>\n<parameter=command>\n<b>x\n</div>\n</function>", ("run", {"command": "<b>x\n</div>"})),
    row("long prose between parameters", f"<function=save_note>\n<parameter=title>a</parameter>\n{LONG_PROSE}\n<parameter=body>b</parameter>\n</function>", BODY),
    row("function's closer misspelt", "<tool_call>\n<function=run>\n<parameter=command>\nls -la\n</parameter>\n</fnction>\n</tool_call>", RUN),
    row("function's closer without its end", '<invoke name="run">\n<parameter name="command">ls -la</parameter>\n</invoke\n</function_calls>', RUN),
    row("function's opener doubled", "<tool_call>\n<function=run><function=run>\n<parameter=command>\nls -la\n</parameter>\n</function>\n</tool_call>", RUN),
    row("last closer misspelt", f"<tool_call>{OBJECT}</tol_call>", FORECAST_3),
    row("last closer without its beginning", f"<tool_call>\n{OBJECT}\n/tool_call>", FORECAST_3),
    row("opener without its end", f"<tool_call\n{QWEN.removeprefix('<tool_call>')}", NOTE),
    row("opener of a section without its end", '<｜DSML｜tool_calls\n<｜DSML｜invoke name="now">\n</｜DSML｜invoke>\n</｜DSML｜tool_calls>', NOW),
    row("bars of another kind", '<‖DSML‖tool_calls>\n<‖DSML‖invoke name="run">\n<‖DSML‖parameter name="command" string="true">ls -la</‖DSML‖parameter>\n</‖DSML‖invoke>\n</‖DSML‖tool_calls>', RUN),
    row("function without its bracket", "function=run><parameter=command>ls -la</parameter></function>", RUN),
    row("function without its bracket, after prose", "I look.\nfunction=run>\n<parameter=command>\nls -la\n</parameter>\n</function>", RUN, rest="I look."),
    row("function without its beginning", "=run><parameter=command>ls -la</parameter></function>", RUN),
    row("function with a quote for its beginning", 'run">\n<parameter=command>ls -la</parameter>\n</function>', RUN),
    row("function's name alone", "run>\n<parameter=command>cat <<X 2>&1\nX</parameter>\n</function>", ("run", {"command": "cat <<X 2>&1\nX"})),
    row("parameters whose function is missing", "<parameter=source>a</parameter>\n<parameter=target>b</parameter>\n</function>", ("move_file", {"source": "a", "target": "b"})),
    row("value without a tag", "<tool_call>\n<function=run>\nset -e\nls -la\n</function>\n</tool_call>", ("run", {"command": "set -e\nls -la"})),
    row("value without a tag, the tool's closer", "<tool_call>\n<function=run>\nls -la\n</run>", RUN),
    row("value without its opener", "<function=run>\nls -la\n</parameter>\n</function>", RUN),
    row("lines of keys and values", "<save_note>\ntitle: a\nbody: b: c\n</save_note>", ("save_note", {"title": "a", "body": "b: c"})),
    row("lines of keys and values in a function", "<function=get_forecast>\nplace: Turin\ndays: 3\n</function>", FORECAST_3),
    row("lines of keys for a body of two values", "<function=save_note>\ntitle: a\nbody: b\n</function>", BODY),
    row("list for a body", '<function=plan>["a", "b"]</function>', PLAN),
    row("list for a body, in an invoke", '<invoke name="plan">["a", "b"]</invoke>', PLAN),
    row("value with closers in CDATA", '<function name="run"><param name="command"><![CDATA[echo </param></function>]]></param></function>', ("run", {"command": "echo </param></function>"})),
    row("arguments as attributes", '<get_forecast place="Turin" days=\'3\'/>', FORECAST_3),
    row("element in a tool_call that names the tool", '<tool_call function="run"><command>ls -la</command></tool_call>', RUN),
    row("use_tool", '<use_tool>\n<name>run</name>\n<arguments>{"command": "ls -la"}</arguments>\n</use_tool>', RUN),
    row("use_mcp_tool", '<use_mcp_tool>\n<server_name>shell</server_name>\n<tool_name>run</tool_name>\n<arguments>\n{"command": "ls -la"}\n</arguments>\n</use_mcp_tool>', RUN),
    row("invoke round an object", f"<invoke>\n{OBJECT}\n</invoke>", FORECAST_3),
    row("words before the object", f"<tool_call>\nI call it with this:\n{OBJECT}\n</tool_call>", FORECAST_3),
    row("end token in square brackets", f"<tool_call>{OBJECT}</tool_call>[|endofturn|]", FORECAST_3),
    row("a second dialect's closer behind words", f"<tool_call>{OBJECT}</tool_call>\nDone.\n</TOOLCALL>", FORECAST_3, rest="Done."),
    row("llama's invented result", f'{OBJECT}<|start_header_id|>ipython<|end_header_id|>\n\n{{"x": 1}}<|eot_id|>Rain.', FORECAST_3),
    row("glm without its opener", "get_forecast\n<arg_key>place</arg_key>\n<arg_value>Turin</arg_value>\n</tool_call>", FORECAST),
    row("glm without its opener, after prose", "I look.\nrun<arg_key>command</arg_key><arg_value>ls -la</arg_value></tool_call>", RUN, rest="I look."),
    row("glm without the key", "<tool_call>run</arg_key><arg_value>ls -la</arg_value></tool_call>", RUN),
    row("glm without the value's opener", "<tool_call>run\n<arg_key>command</arg_key>\nls -la</arg_value>\n</tool_call>", RUN),
    row("glm with half the value's opener", "<tool_call>run\n<arg_key>command</arg_key>\narg_value>ls -la</arg_value>\n</tool_call>", RUN),
    row("glm with the key's closer twice", "<tool_call>run\n<arg_key>command</arg_key></arg_key>\n<arg_value>ls -la</arg_value>\n</tool_call>", RUN),
    row("glm with the value's opener twice", "<tool_call>run<arg_key>command</arg_key><arg_value><arg_value>ls -la</arg_value></tool_call>", RUN),
    row("glm with the value's closer misspelt", "<tool_call>save_note<arg_key>title</arg_key><arg_value>a</arg_valu><arg_key>body</arg_key><arg_value>b</arg_value></tool_call>", BODY),
    row("glm with a value's opener for the key's", "<tool_call>run<arg_value>command</arg_key><arg_value>ls -la</arg_value></tool_call>", RUN),
    row("hunyuan", "<tool_call:opensource>get_forecast<tool_sep:opensource>\n<arg_key:opensource>place</arg_key:opensource>\n<arg_value:opensource>Turin</arg_value:opensource>\n<end_of_tool_call:opensource>", FORECAST),
    row("hunyuan with an object", f"<tool_call>get_forecast<tool_sep>{ARGUMENTS}<end_of_tool_call>", FORECAST_3),
    row("gemma with half a string's token", '<|tool_call>call:save_note{title:<|"|>a<|"|,body:<|"|>b<|"|>}<tool_call|>', BODY),
    row("minimax with arrows", '[TOOL_CALL]{tool => "get_forecast", args => {--place "Turin" --days 3}}[/TOOL_CALL]', FORECAST_3),
    row("minimax with arrows, on lines", '[TOOL_CALL]\n{tool => "plan", args => {\n  steps => ["a", "b"],\n}}\n[/TOOL_CALL]', PLAN),
    row("mistral without brackets", f"TOOL_CALLS[{OBJECT}]", FORECAST_3),
    row("mistral without brackets, by name", f"TOOL_CALLS get_forecast[ARGS]{ARGUMENTS}", FORECAST_3),
    row("mistral without brackets, glued", f"TOOL_CALLSget_forecast[ARGS]{ARGUMENTS}", FORECAST_3),
    row("mistral's opener for its separator", f"[TOOL_CALLS]get_forecast[TOOL_CALLS]{ARGUMENTS}", FORECAST_3),
    row("harmony with an equals sign", f"to=functions.get_forecast ={ARGUMENTS}", FORECAST_3),
    row("harmony with a word of another script", f"to=functions.get_forecast մեկն \n{ARGUMENTS}", FORECAST_3),
    row("client's object", "ChatCompletionMessageToolCall(id='c1', function=Function(arguments='{\"command\": \"ls -la\"}', name='run'), type='function')", RUN),
    row("client's objects", "[ChatCompletionMessageToolCall(id='c1', function=Function(arguments='{\"command\": \"ls -la\"}', name='run'), type='function'), ChatCompletionMessageToolCall(id='c2', function=Function(arguments='{}', name='now'), type='function')]", RUN, NOW),
    row("client's message", "ChatCompletionMessage(content=None, role='assistant', tool_calls=[ChatCompletionMessageToolCall(id='c1', function=Function(arguments='{}', name='now'), type='function')])", NOW),
    row("ollama's object", "ToolCall(function=Function(name='run', arguments={'command': 'ls -la'}))", RUN),
    row("fence that names the tool", '```tool run\n{"command": "ls -la"}\n```', RUN),
    row("fence of an invoke", f"I look.\n```invoke\n{OBJECT}\n```", FORECAST_3, rest="I look."),
    row("fence closed by a tag", f"I look.\n```tool-call\n{OBJECT}\n</tool_call>", FORECAST_3, rest="I look."),
    row("bare call", '{"call": "run", "arguments": {"command": "ls -la"}}', RUN),
    row("bare action that is an object", '{"action": {"name": "run", "arguments": {"command": "ls -la"}}}', RUN),
    row("bare tool_uses", '{"tool_uses": [{"recipient_name": "functions.run", "parameters": {"command": "ls -la"}}, {"recipient_name": "functions.now", "parameters": {}}]}', RUN, NOW),
    row("tool_code as a tag", 'I look.\n<tool_code>\nprint(default_api.run(command="ls -la"))\n</tool_code>', RUN, rest="I look."),
    row("tool_code as a tag, an object", f"<tool_code>\n{OBJECT}\n</tool_code>", FORECAST_3),
    row(
        "minimax opener without its bracket",
        f"minimax:tool_call>\n{INVOKE}\n</minimax:tool_call>",
        RUN,
    ),
    row("doubao", f"<|FunctionCallBegin|>[{OBJECT}]<|FunctionCallEnd|>", FORECAST_3),
    row("yandex", f"[TOOL_CALL_START]get_forecast\n{ARGUMENTS}[TOOL_CALL_END]", FORECAST_3),
    row("kimi's name as a tag", f'<functions.get_forecast:20>{ARGUMENTS}\n<functions.run:21>  {{"command": "ls -la"}}', FORECAST_3, RUN),
    row("history echo before an object", '[TOOL CALL: run]\n{\n  "command": "ls -la"\n}', RUN),
    row("two damaged closers", "<tool_call>\n<function=save_note>\n<parameter=title>a</parameter>\n<parameter=body>\nb\n</prameter>\n</functio\n</tool_call>", BODY),
    row("value without a tag between blank lines", '<invoke name="run">\n\nls -la</parameter>\n</invoke>', RUN),
    row("react members without braces", 'Action: get_forecast\nAction Input: "place": "Turin", "days": 3', FORECAST_3),
    row("react members without the first brace", 'Action: run\nAction Input: "command": "ls -la"}', RUN),
    row("react lines of keys and values", "Action: save_note\nAction Input:\ntitle: a\nbody: b", BODY),
)  # fmt: skip

ROWS = (*HERMES, *JSON, *NAMED, *XML, *KEYED, *PYTHONIC, *HARMONY, *MORE, *TORN)
