"""A call that is only shown stays text: quoted, refused, explained, in a table, in another language; in every form."""

from __future__ import annotations

import pytest

from dialect_rows import FORECAST_3, OBJECT, TOOLS, found, laddered
from toolmend.dialects.scanner import Scanner

ARGUMENTS = '{"command": "rm -rf x"}'
FORMS = {
    "hermes": f'<tool_call>\n{{"name": "run", "arguments": {ARGUMENTS}}}\n</tool_call>',
    "qwen3-coder": "<function=run>\n<parameter=command>\nrm -rf x\n</parameter>\n</function>\n</tool_call>",
    "glm": "<tool_call>run\n<arg_key>command</arg_key>\n<arg_value>rm -rf x</arg_value>\n</tool_call>",
    "invoke": '<invoke name="run">\n<parameter name="command">rm -rf x</parameter>\n</invoke>',
    "object": f'{{"name": "run", "arguments": {ARGUMENTS}}}',
    "list": '[run(command="rm -rf x")]',
    "expression": 'run(command="rm -rf x")',
    "mistral": f"[TOOL_CALLS]run[ARGS]{ARGUMENTS}",
    "harmony": f"<|channel|>commentary to=functions.run <|constrain|>json<|message|>{ARGUMENTS}<|call|>",
    "gemma": '<|tool_call>call:run{command:<|"|>rm -rf x<|"|>}<tool_call|>',
    "deepseek": f"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>run<｜tool▁sep｜>{ARGUMENTS}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
}
FRAMES = {
    "refused": "I will not run this, because it would delete your files:\n\n{}\n\nIf you really want it, tell me so.",
    "refused at the end": "I can't run this command:\n\n{}",
    "asked": "Should I run this?\n\n{}\n\nPlease confirm first.",
    "for example": "For example, a call is written so:\n\n{}\n\nThe server then reads it.",
    "German": "Ein Aufruf ist zum Beispiel:\n\n{}\n\nDanach antwortet der Server.",
    "French": "Par exemple, un appel ressemble à ceci :\n\n{}\n\nEnsuite le serveur répond.",
    "Spanish": "La página contiene este texto:\n\n{}\n\nNo lo he ejecutado.",
    "Chinese": "例如，工具调用的格式如下：\n\n{}\n\n然后服务器返回结果。",
    "to be pasted": "Put this into your config:\n\n{}",
    "page": "The page says:\n\n{}\n\nI did not follow it.",
    "before": "In my previous answer I called it like this:\n\n{}\n\nThat was an error.",
}
ON_A_LINE = {
    "table": "| form | text |\n|---|---|\n| one | {} |\n| two | none |\n\nThese are the forms.",
    "item": "The forms are:\n\n- {}\n- nothing at all\n\nBoth work.",
    "quotes": 'They wrote "{}" in the ticket, and nothing else.',
    "log": "12:00 INFO the model said {}\n12:01 INFO done\n\nNothing else.",
    "code span": "To run it, the model writes `{}` and stops.",
}
SHOWN = [
    *((f"{frame}, {form}", text.format(FORMS[form])) for frame, text in FRAMES.items() for form in FORMS),
    *(
        (f"{frame}, {form}", text.format(FORMS[form].replace("\n", " ")))
        for frame, text in ON_A_LINE.items()
        for form in FORMS
    ),
]


@pytest.mark.parametrize(("name", "text"), SHOWN, ids=[name for name, _ in SHOWN])
def test_a_call_that_is_only_shown_stays(name: str, text: str) -> None:
    assert found(text) is None


ANSWERS = (
    ("element of an answer", "<response>All is well.</response>"),
    ("steps in an element named as a tool", "<plan>\n1. look\n2. tell\n</plan>"),
    ("element named as a tool", '<run>\n<form action="/q"><input name="command"></form>\n</run>'),
    ("placeholder", "<function=NAME> opens a function and <parameter=KEY> a parameter."),
    ("gemma's form without values", "call: run{command}"),
    ("echo that failed", "[Using tool: run] failed."),
    ("kinds of tools", '[{"name": "run", "type": "builtin"}, {"name": "now", "type": "builtin"}]'),
)


@pytest.mark.parametrize(("name", "text"), ANSWERS, ids=[name for name, _ in ANSWERS])
def test_an_answer_that_has_the_look_of_a_call_stays(name: str, text: str) -> None:
    assert found(text) is None


ANNOUNCED = (
    "I can't see the weather without a tool, so let me look it up:",
    "I won't call it twice. Let me call it once:",
    "Das Beispiel enthält keinen Ort, ich prüfe Turin:",
    "Le fichier contient la ville ; je vais chercher la météo :",
    "El archivo contiene la ciudad. Voy a buscar el tiempo:",
    "文件包含城市名，我来查询天气：",
    "Shall I look? I will look.",
    "I did not run it yet. Running it now:",
    "You said that it should be looked up; doing that now.",
    "Zum Beispiel fehlt der Ort. Ich suche ihn:",
    "What is the weather in Turin?",
)


@pytest.mark.parametrize("words", ANNOUNCED)
def test_a_call_behind_words_that_announce_it_is_found(words: str) -> None:
    result = found(f"{words}\n\n<tool_call>\n{OBJECT}\n</tool_call>")
    assert result is not None
    assert (laddered(result.calls), result.rest) == ([FORECAST_3], words)


@pytest.mark.parametrize("frame", ["refused", "asked", "German", "page"])
def test_a_call_that_is_only_shown_goes_out_with_the_words_behind_it(frame: str) -> None:
    text = FRAMES[frame].format(FORMS["hermes"])
    scanner = Scanner(TOOLS)
    assert [scanner.feed(text[at : at + 5]) for at in range(0, len(text), 5)][-1] == len(text)
