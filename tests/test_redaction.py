"""Redaction: what is a person's or secret goes, what is broken stays broken in the same way."""

from __future__ import annotations

import base64
import json
import re
from dataclasses import replace
from typing import Any

import pytest

from toolmend import recordings
from toolmend.har import Entry
from toolmend.model import Json, JsonObject, Outcome, ToolCall, Turn
from toolmend.private_values import find
from toolmend.recordings import Recording
from toolmend.redaction import Redactor
from toolmend.settings import Settings
from toolmend.shapes import shape_reply, shape_request, without_echoes
from toolmend.surfaces import SURFACES
from toolmend.surfaces.surface import Framing


def redact(*bodies: bytes) -> list[bytes]:
    redactor = Redactor()
    for body in bodies:
        redactor.learn(body)
    return [redactor.redact(body) for body in bodies]


def redacted_text(text: str) -> str:
    return Redactor().text(text)


# Each is put together here, so that no scanner takes this file for a leak. The second part is what must not be left.
LETTERS = "QmFzZTY0IGlzIG5vdCBhIGNpcGhlciEhMTIzNDU2Nzg5MA"
SECRETS = {
    "mail address": ("anneliese.k@" + "kranzhoefer.de", "kranzhoefer"),
    "mail address with tag": ("paulo+agents@" + "mail.casa-verde.com.br", "casa-verde"),
    "mail address in brackets": ("Ines <ines.o@" + "ostrava.cz>", "ines.o"),
    "github token": ("gh" + "p_" + LETTERS[:36], LETTERS[:36]),
    "github fine-grained token": ("github" + "_pat_" + LETTERS[:22] + "_" + LETTERS[3:40], LETTERS[3:40]),
    "gitlab token": ("gl" + "pat-" + LETTERS[5:25], LETTERS[5:25]),
    "openai key": ("sk" + "-proj-" + LETTERS[:40], LETTERS[:40]),
    "anthropic key": ("sk" + "-ant-api03-" + LETTERS[2:42], LETTERS[2:42]),
    "hugging face token": ("hf" + "_" + LETTERS[4:38], LETTERS[4:38]),
    "google key": ("AI" + "za" + LETTERS[:35], LETTERS[:35]),
    "google oauth token": ("ya" + "29.a0" + LETTERS[:30], LETTERS[:30]),
    "aws key id": ("AK" + "IA" + "ZQ4T7XWY2VKJ5NPM", "ZQ4T7XWY2VKJ5NPM"),
    "aws secret": ("aws_secret_access_key = " + "wJalrXUtnFEMI/K7MDENG/bPxRfiCYzzKEYzzKEY", "wJalrXUtnFEMI"),
    "slack token": ("xox" + "b-123456789012-987654321098-abcdefghij", "abcdefghij"),
    "stripe key": ("sk" + "_live_" + LETTERS[:24], LETTERS[:24]),
    "npm token": ("np" + "m_" + LETTERS[:36], LETTERS[:36]),
    "pypi token": ("pypi-" + "AgEIcHlwaS5vcmc" + LETTERS * 2, "AgEIcHlwaS5vcmc"),
    "sendgrid key": ("S" + "G." + LETTERS[:22] + "." + LETTERS[:43], LETTERS[:22]),
    "telegram token": ("1234567890:" + LETTERS[:35], LETTERS[:35]),
    "jwt": ("ey" + "JhbGciOiJIUzI1NiJ9.eyJzdWIiOiJhbm5lIn0." + LETTERS[:43], LETTERS[:43]),
    "bearer token": ("Authorization: Bearer " + "abcdef123456ghijkl", "abcdef123456ghijkl"),
    "basic credentials": ("Authorization: Basic " + base64.b64encode(b"anne:tulpen99").decode(), "YW5uZTp0"),
    "private key": (
        "-----BEGIN " + "RSA PRIVATE KEY-----\nMIIEpQIBAAKCAQEA7bq\n-----END RSA PRIVATE KEY-----",
        "MIIEpQ",
    ),
    "password in a url": ("postgres://anneliese:" + "tulpen99@localhost/app", "tulpen99"),
    "password by name": ('password="' + 'tulpen99zwiebel"', "tulpen99zwiebel"),
    "password in a command": ("mysql --password=" + "tulpen99zwiebel -u root", "tulpen99zwiebel"),
    "key by name": ("API_KEY=" + "9f8e7d6c5b4a39281706", "9f8e7d6c5b4a39281706"),
    "cookie": ("Cookie: sessionid=" + "kd83hf7s2ls9dk3j", "kd83hf7s2ls9dk3j"),
    "uuid": ("0f8fad5b-d9cb-469f-a165-70867728950e", "d9cb-469f"),
    "hex key": ("9e107d9d372bb6826bd81d3542a419d6", "9e107d9d372bb682"),
    "linux home": ("/home/anneliese/notes.md", "anneliese"),
    "mac home": ("/Users/anneliese/notes.md", "anneliese"),
    "windows home": ("C:\\Users\\nora.k\\notes.md", "ora.k"),
    "windows home with a blank": ("C:\\Users\\Nora Kranz\\notes.md", "Kranz"),
    "host in a url": ("https://git.kranzhoefer.internal:8443/team", "kranzhoefer"),
    "host by itself": ("db7.prod.kranzhoefer.net is down", "kranzhoefer"),
    "host of ssh": ("ssh -p 22 deploy@build-17", "build-17"),
    "ipv4 address": ("10.42.7.191", "42.7.191"),
    "ipv6 address": ("2a02:8109:9c40:1b3c::42f1", "8109:9c40"),
    "hardware address": ("3c:22:fb:9a:41:0e", "fb:9a:41"),
    "phone number": ("+49 (30) 9018-20471", "9018-20471"),
    "phone number with dashes": ("415-867-5309", "867-5309"),
    "card number": ("4539 1488 0343 6467", "1488 0343"),
    "account number": ("DE89 3704 0044 0532 0130 00", "3704 0044 0532"),
    "social security number": ("536-90-4399", "90-4399"),
    "long number": ("customer 83920174655", "3920174655"),
}


def readings(data: bytes) -> str:
    """Read a body in every way that a curious person would: as it is, unescaped, the pieces of its stream joined."""
    text = data.decode()
    plain = text
    for _ in range(4):
        plain = re.sub(r"\\u([0-9a-fA-F]{4})", lambda found: chr(int(found[1], 16)), plain)
        plain = plain.replace('\\"', '"').replace("\\n", "\n").replace("\\\\", "\\")
    joined = "".join(re.findall(r'"(?:content|thinking|token|delta|arguments|partial_json|text)": ?"([^"]*)"', text))
    numbers = re.findall(r'"bytes": ?\[([\d, ]+)\]', text)
    tapped = b"".join(bytes(int(number) for number in found.split(",")) for found in numbers)
    return "\n".join([text, plain, joined, tapped.decode("utf-8", "replace")])


def frames(text: str, size: int) -> bytes:
    pieces = [text[at : at + size] for at in range(0, len(text), size)]
    lines = [json.dumps({"message": {"content": piece}, "done": False}) for piece in pieces]
    return "\n".join(lines).encode()


def tapped(text: str) -> bytes:
    pieces = [text[at : at + 3] for at in range(0, len(text), 3)]
    tokens = [{"token": piece, "logprob": -0.5, "bytes": list(piece.encode())} for piece in pieces]
    return "\n".join(json.dumps({"message": {"content": ""}, "logprobs": [token]}) for token in tokens).encode()


PLACES = {
    "text": lambda text: json.dumps({"message": {"content": f"Look: {text} there"}}).encode(),
    "text with escapes": lambda text: json.dumps({"message": {"content": f'é "{text}"\n'}}, ensure_ascii=True).encode(),
    "arguments as an object": lambda text: json.dumps({"function": {"arguments": {"note": text}}}).encode(),
    "arguments as text": lambda text: json.dumps({"arguments": json.dumps({"note": text})}).encode(),
    "arguments encoded twice": lambda text: json.dumps({"arguments": json.dumps(json.dumps({"note": text}))}).encode(),
    "a list in text in arguments": lambda text: json.dumps(
        {"arguments": json.dumps({"notes": json.dumps([text])})}
    ).encode(),
    "a call in text": lambda text: json.dumps(
        {"content": f"<tool_call>{json.dumps({'name': 'a', 'arguments': {'b': text}})}</tool_call>"}
    ).encode(),
    "an error": lambda text: json.dumps({"error": f"error parsing tool call: raw='{text}', err=unexpected"}).encode(),
    "a stream": lambda text: frames(f"It is {text} there", 3),
    "a stream of single characters": lambda text: frames(f"It is {text} there", 1),
    "arguments in a stream": lambda text: frames(json.dumps({"note": text}), 4),
    "tapped tokens": lambda text: tapped(f"It is {text} there"),
    "a plain page": lambda text: f"502 bad gateway\n{text}\n".encode(),
    "half a body": lambda text: json.dumps({"message": {"content": f"Look: {text} there"}}).encode()[:-8],
}


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("kind", SECRETS)
def test_a_secret_is_found_wherever_it_stands(kind: str, place: str) -> None:
    secret, core = SECRETS[kind]
    body = PLACES[place](secret)
    (clean,) = redact(body)
    assert core not in readings(clean)
    assert len(clean) == len(body)
    assert re.sub(rb"[0-9A-Za-z]", b"a", clean) == re.sub(rb"[0-9A-Za-z]", b"a", body)


@pytest.mark.parametrize(
    "text",
    [
        "create_event",
        "2026-07-14T10:30:00.086069404Z",
        "2026-07-14 10:30",
        "14.07.2026 to 21.07.2026",
        "src/main.py",
        "def f(x):\n    return os.path.join(x, 'a')[3:] if x < 3.14159265358979 else std::vector",
        '{"max_tokens": 4096, "total_duration": 6595763, "eval_count": 57}',
        "v1.2.3, python3.11, sha256, utf-8, 1920x1080, 16777216",
        "[1, 2, 3, 400, 5000]",
        "http://localhost:11434/api/chat, http://127.0.0.1:8080, https://example.com/a, a@example.com",
        "https://json-schema.org/draft/2020-12/schema",
        "<|tool_call_begin|>functions.get_token:0<|tool_call_argument_begin|>{}",
        '<tool_call>{"name": "get_secret", "arguments": {"token": 3}}</tool_call>',
        "the password is not told, the token: none",
    ],
)
def test_what_is_nobodys_stays(text: str) -> None:
    assert redacted_text(text) == text


def test_a_value_is_the_same_everywhere_in_one_file() -> None:
    first, second, third = redact(
        b'{"content":"write to anne@kranz.de, and to bert@kranz.de"}',
        b'{"arguments":"{\\"to\\":[\\"anne@kranz.de\\"],\\"host\\":\\"kranz.de\\"}"}',
        frames("anne@kranz.de", 2),
    )
    mails = re.findall(rb"[a-z]+@[a-z]+\.de", first)
    assert len(set(mails)) == 2
    assert mails[0] in second
    assert mails[0] == b"".join(re.findall(rb'"content": "([^"]*)"', third))
    assert mails[0].split(b"@")[1] == mails[1].split(b"@")[1]
    assert b'\\"host\\":\\"' + mails[0].split(b"@")[1] in second


def test_a_neutral_value_has_the_form_of_what_it_stands_for() -> None:
    (clean,) = redact(b'{"note":"+49 (30) 9018-20471 or anne.B@kranz.de at 10.42.7.191, C:\\\\Users\\\\Nora\\\\x"}')
    note = json.loads(clean)["note"]
    assert re.fullmatch(
        r"\+4\d \(\d0\) \d0\d\d-\d0\d\d\d or [a-z]{4}\.[A-Z]@[a-z]{5}\.de at \d\d\.\d\d\.\d\.1\d\d, C:\\Users\\[A-Z][a-z]{3}\\x",
        note,
    )


def test_numbers_stay_numbers_and_limits_of_schemas_stay() -> None:
    body = b'{"tools":[{"parameters":{"properties":{"id":{"maximum":9007199254740991,"enum":[83920174655]}}}}],"arguments":{"id":83920174655,"x":-120.50}}'
    (clean,) = redact(body)
    decoded = json.loads(clean)
    schema = decoded["tools"][0]["parameters"]["properties"]["id"]
    assert schema["maximum"] == 9007199254740991
    assert schema["enum"] == [decoded["arguments"]["id"]]
    assert decoded["arguments"]["id"] != 83920174655
    assert 80_000_000_000 < decoded["arguments"]["id"] < 90_000_000_000
    assert decoded["arguments"]["x"] == -120.5


def test_words_of_the_tools_are_no_secrets() -> None:
    redactor = Redactor(frozenset({"basic-auth", "mcp__Srv1__createUser2FromV3Template"}))
    body = b'{"arguments":{"authorization":"basic-auth"},"name":"mcp__Srv1__createUser2FromV3Template"}'
    redactor.learn(body)
    assert redactor.redact(body) == body


def test_a_word_in_the_place_of_a_password_is_replaced_there_alone() -> None:
    (clean,) = redact(b'{"content":"a required key","arguments":{"password":"required"}}')
    decoded = json.loads(clean)
    assert decoded["content"] == "a required key"
    assert decoded["arguments"]["password"] != "required"
    (clean,) = redact(b'{"arguments":"{\\"password\\": \\"required\\", \\"field\\": \\"required\\"}"}')
    inner = json.loads(json.loads(clean)["arguments"])
    assert inner["field"] == "required"
    assert inner["password"] != "required"


def test_an_escape_before_a_name_stays_that_escape() -> None:
    (clean,) = redact(
        b'{"arguments":"{\\"text\\": \\"to:\\\\nbert@kranz.de\\", \\"path\\": \\"C:\\\\Users\\\\nora\\"}"}'
    )
    arguments = json.loads(clean)["arguments"]
    assert re.fullmatch(r'\{"text": "to:\\n[a-z]{4}@[a-z]{5}\.de", "path": "C:\\Users\\n[a-z]{3}"\}', arguments)
    assert "nora" not in arguments
    assert "bert" not in arguments


def test_letters_from_everywhere_keep_their_length_in_bytes() -> None:
    body = '{"content":"/home/jürgen/a und /home/王小明/b"}'.encode()
    (clean,) = redact(body)
    assert len(clean) == len(body)
    assert "jürgen" not in clean.decode()
    assert "王小明" not in clean.decode()
    assert re.fullmatch(r"/home/\w{6}/a und /home/\w{3}/b", json.loads(clean)["content"])


def test_bytes_that_are_no_text_pass() -> None:
    body = b'{"content":"\xff\xfe /home/anneliese/x"}'
    (clean,) = redact(body)
    assert clean.startswith(b'{"content":"\xff\xfe /home/')
    assert b"anneliese" not in clean


def test_linear_text_is_searched_in_linear_time() -> None:
    # A pattern that goes back and forth would take minutes here.
    for hostile in (
        "a" * 50_000,
        "@" * 50_000,
        "1 " * 25_000,
        "a.b-" * 12_000,
        "://" * 15_000,
        "-----BEGIN " * 5_000,
        "ssh " * 12_000,
    ):
        find(hostile)


# Shapes


def test_messages_become_their_shape_and_tools_stay() -> None:
    schema: Any = {
        "type": "object",
        "properties": {"body": {"type": "string", "description": "The body, as JSON."}},
        "required": ["body"],
    }
    request: dict[str, Any] = {
        "model": "qwen3:8b",
        "user": "anne",
        "metadata": {"session": "abc", "turn": 3},
        "messages": [
            {"role": "system", "content": "You are Anne's."},
            {
                "role": "user",
                "content": [{"type": "text", "text": "Hello"}, {"type": "image_url", "image_url": {"url": "data:…"}}],
            },
            {
                "role": "assistant",
                "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "post", "arguments": '{"body": "Dear Anne"}'}}
                ],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "done"},
        ],
        "tools": [
            {"type": "function", "function": {"name": "post", "description": "Post for Anne.", "parameters": schema}}
        ],
        "temperature": 0.2,
    }
    assert shape_request(request) == {
        "model": "qwen3:8b",
        "user": "[4 characters]",
        "metadata": {"session": "[3 characters]", "turn": 3},
        "messages": [
            {"role": "system", "content": "[15 characters]"},
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "[5 characters]"},
                    {"type": "image_url", "image_url": {"url": "[6 characters]"}},
                ],
            },
            {
                "role": "assistant",
                "tool_calls": [
                    {
                        "id": "c1",
                        "type": "function",
                        "function": {"name": "post", "arguments": '{"body": "[9 characters]"}'},
                    }
                ],
            },
            {"role": "tool", "tool_call_id": "c1", "content": "[4 characters]"},
        ],
        "tools": [
            {
                "type": "function",
                "function": {
                    "name": "post",
                    "description": "[14 characters]",
                    "parameters": {
                        "type": "object",
                        "properties": {"body": {"type": "string", "description": "[18 characters, JSON]"}},
                        "required": ["body"],
                    },
                },
            }
        ],
        "temperature": 0.2,
    }


def test_messages_stay_when_asked_for() -> None:
    request: Any = {"model": "m", "messages": [{"role": "user", "content": "Hello"}], "tools": []}
    assert shape_request(request, keep_prompts=True) == request


def test_a_long_history_is_cut_to_its_instructions_and_its_end() -> None:
    messages: Any = [{"role": "system", "content": "S"}, *({"role": "user", "content": "x" * n} for n in range(1, 9))]
    shaped: Any = shape_request({"model": "m", "messages": messages})
    assert [message["content"] for message in shaped["messages"]] == [
        "[1 characters]",
        "[6 characters]",
        "[7 characters]",
        "[8 characters]",
    ]


def test_a_property_named_description_keeps_its_schema() -> None:
    tool: Any = {
        "name": "t",
        "input_schema": {"type": "object", "properties": {"description": {"type": "string", "examples": ["Anne"]}}},
    }
    shaped: Any = shape_request({"model": "m", "tools": [tool]})
    assert shaped["tools"] == [
        {
            "name": "t",
            "input_schema": {
                "type": "object",
                "properties": {"description": {"type": "string", "examples": ["[4 characters]"]}},
            },
        }
    ]


def test_tools_inside_of_tools_keep_their_schemas_and_what_is_no_tool_its_shape() -> None:
    schema: Any = {"type": "object", "properties": {"to": {"type": "string", "description": "For Anne"}}}
    tools: Any = [
        {"type": "namespace", "name": "mail", "tools": [{"type": "function", "name": "send", "parameters": schema}]},
        {"type": "mcp", "tools": "all of Anne's"},
        "search for Anne",
    ]
    shaped: Any = shape_request({"model": "m", "tools": tools})
    schema = {"type": "object", "properties": {"to": {"type": "string", "description": "[8 characters]"}}}
    assert shaped["tools"] == [
        {"type": "namespace", "name": "mail", "tools": [{"type": "function", "name": "send", "parameters": schema}]},
        {"type": "mcp", "tools": "[13 characters]"},
        "[15 characters]",
    ]


def test_a_description_that_the_model_called_a_tool_by_is_kept() -> None:
    tool: Any = {
        "type": "function",
        "function": {"name": "read_file", "description": "Read a text file.", "parameters": {}},
    }
    shaped: Any = shape_request({"model": "m", "tools": [tool]}, answer='{"name":"Read a text file","arguments":{}}')
    assert shaped["tools"][0]["function"]["description"] == "Read a text file."


def test_a_rendered_prompt_becomes_its_shape_and_keeps_the_tags_at_its_end() -> None:
    def shaped(prompt: str) -> Any:
        reply = {"model": "m", "_debug_info": {"rendered_template": prompt, "other": "Anne"}, "done": False}
        return json.loads(shape_reply(json.dumps(reply).encode()))["_debug_info"]["rendered_template"]

    assert shaped("<|start|>user<|message|>I am Anne<|end|><|start|>assistant") == (
        "[58 characters]<|end|><|start|>assistant"
    )
    assert shaped("<s>[INST]Anne[/INST]") == "[20 characters][/INST]"
    assert shaped("user Anne<|im_end|>\n<|im_start|>assistant\n<think>\n") == (
        "[50 characters]<|im_end|>\n<|im_start|>assistant\n<think>\n"
    )
    assert shape_reply(b'{"response":"{}","context":[1,2]}') == b'{"response": "{}", "context": []}'
    assert shape_reply(b'{"message":{"content":"x"}}') == b'{"message":{"content":"x"}}'
    assert shape_reply(b"no JSON") == b"no JSON"
    other = b'{"_debug_info":{"rendered_template":["I am Anne"],"at":3}}'
    assert json.loads(shape_reply(other)) == {"_debug_info": {"rendered_template": ["[9 characters]"], "at": 3}}
    assert json.loads(shape_reply(b'{"_debug_info":"Anne"}')) == {"_debug_info": "[4 characters]"}


def test_what_a_responses_answer_repeats_of_its_request_is_taken_out() -> None:
    first = b'event: response.created\ndata: {"response":{"instructions":"Be Anne\'s","metadata":{"u":"anne"},"tools":[{"name":"t","descri'
    second = b'ption":"x"}],"output":[]},"type":"response.created"}\n\n'
    third = b'data: {"arguments":"{\\"tools\\":[1]}","type":"x"}\n\n'
    assert without_echoes("openai-responses", ((first, 1), (second, 2), (third, 3))) == (
        (b'event: response.created\ndata: {"response":{"instructions":null,"metadata":{},"tools":', 1),
        (b'[],"output":[]},"type":"response.created"}\n\n', 2),
        (third, 3),
    )
    assert without_echoes("openai-chat", ((first, 1),)) == ((first, 1),)
    nothing = b'{"instructions":null,"metadata":{},"tools":[],"user": null,"tools": [}'
    assert without_echoes("openai-responses", ((nothing, 1),)) == ((nothing, 1),)


# A whole file

ALL = {kind: secret for kind, (secret, _) in SECRETS.items()}
SAID = "\n".join(f"{kind} is {secret} there" for kind, secret in ALL.items())
SCHEMA: JsonObject = {
    "type": "object",
    "title": SAID,
    "description": SAID,
    "properties": {
        **{f"value_{index}": {"type": "string", "description": secret} for index, secret in enumerate(ALL.values())},
        "count": {"type": "integer"},
        "kind": {"enum": list(ALL.values()), "default": SAID, "examples": [SAID]},
        "fixed": {"const": SAID},
    },
    "required": ["count"],
}
ARGUMENTS: JsonObject = {
    **{f"value_{index}": secret for index, secret in enumerate(ALL.values())},
    "count": "3",
    "listed": list(ALL.values()),
    "nested": {"deep": {"text": SAID, "json": json.dumps(ALL)}},
}
HEADERS = tuple(
    (name, SAID.replace("\n", " "))
    for name in ("authorization", "cookie", "x-api-key", "user-agent", "accept", "content-type", "referer")
)


def request_of(surface: str, stream: bool) -> JsonObject:
    """Say a request that holds every secret in every place that the surface has."""
    told: JsonObject = {
        "user": SAID,
        "metadata": {"user_id": SAID},
        "prompt_cache_key": SAID,
        "safety_identifier": SAID,
        "stop": [SAID],
    }
    common: JsonObject = {"model": "qwen3", "stream": stream, **told}
    function: JsonObject = {"name": "add_note", "description": SAID, "parameters": SCHEMA}
    extra: JsonObject = {"type": "mcp", "server_url": SAID, "authorization": SAID}
    if surface == "anthropic-messages":
        content: Json = [{"type": "text", "text": SAID}, {"type": "tool_result", "tool_use_id": "t1", "content": SAID}]
        history: list[Json] = [
            {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "add_note", "input": ARGUMENTS}]}
        ]
        tool: JsonObject = {"name": "add_note", "description": SAID, "input_schema": SCHEMA}
        return {
            **common,
            "max_tokens": 9,
            "system": SAID,
            "messages": [*history, {"role": "user", "content": content}],
            "tools": [tool],
        }
    if surface == "openai-responses":
        items: Json = [
            {"type": "function_call", "call_id": "c1", "name": "add_note", "arguments": json.dumps(ARGUMENTS)},
            {"type": "function_call_output", "call_id": "c1", "output": SAID},
            {"role": "user", "content": [{"type": "input_text", "text": SAID}]},
        ]
        return {**common, "instructions": SAID, "input": items, "tools": [{"type": "function", **function}, extra]}
    arguments: Json = ARGUMENTS if surface == "ollama-chat" else json.dumps(ARGUMENTS)
    messages: Json = [
        {"role": "system", "content": SAID},
        {
            "role": "assistant",
            "content": "",
            "tool_calls": [{"id": "c1", "function": {"name": "add_note", "arguments": arguments}}],
        },
        {"role": "tool", "tool_call_id": "c1", "content": SAID},
        {"role": "user", "content": SAID, "images": [SAID]},
    ]
    return {**common, "messages": messages, "tools": [{"type": "function", "function": function}]}


def answers() -> dict[str, Turn]:
    call = {"name": "add_note", "arguments": ARGUMENTS}
    return {
        "a call": Turn(
            text=SAID, thinking=SAID, calls=(ToolCall("c1", "add_note", ARGUMENTS),), finish="tool_calls", tokens=9
        ),
        "a leaked call": Turn(text=f"<tool_call>\n{json.dumps(call)}\n</tool_call>", finish="stop", tokens=9),
    }


def in_chunks(body: bytes) -> tuple[tuple[bytes, int], ...]:
    return tuple((body[at : at + 97], at) for at in range(0, len(body), 97))


@pytest.mark.parametrize("keep_prompts", [False, True])
@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("kind", answers())
@pytest.mark.parametrize("surface", ["ollama-chat", "openai-chat", "openai-responses", "anthropic-messages"])
def test_no_secret_is_in_the_file_wherever_it_was(surface: str, kind: str, stream: bool, keep_prompts: bool) -> None:
    turn = answers()[kind]
    document = request_of(surface, stream)
    api = next(api for api in SURFACES.values() if api.name == surface)
    framing: Framing = api.streaming if stream else "json"
    body = b"".join(api.codec(api.read_request(document), framing).write(turn, []))
    kind_of_answer = api.stream_type if stream else "application/json"
    sent = json.dumps(document).encode()
    original = Entry("original", f"{api.path}?key={SAID}", sent, 200, kind_of_answer, in_chunks(body), HEADERS, HEADERS)
    question = Entry("follow-up", api.path, sent, 500, "text/plain", ((f"no such host\n{SAID}".encode(), 3),))
    rendered = json.dumps({"_debug_info": {"rendered_template": f"{SAID}<|im_end|>\n<|im_start|>assistant\n"}}).encode()
    asked = json.dumps({**document, "_debug_render_only": True}).encode()
    prompt = Entry("follow-up", "/api/chat", asked, 200, "application/json", ((rendered, 4),))
    raw_reply = json.dumps({"response": json.dumps(ARGUMENTS), "context": [1, 2, 3]}).encode()
    raw = json.dumps({"model": "qwen3", "prompt": SAID, "raw": True, "format": SCHEMA}).encode()
    generated = Entry("follow-up", "/api/generate", raw, 200, "application/json", ((raw_reply, 5),))
    recording = Recording(
        surface=surface,
        model="qwen3",
        server="ollama 0.40.9",
        settings=Settings(),
        original=original,
        follow_ups=(question, prompt, generated),
        delivered=replace(original, role="delivered", chunks=((body, 9),)),
        outcome=Outcome(turn),
    )
    data = recordings.dump(recording, keep_prompts=keep_prompts)
    entries = json.loads(data)["log"]["entries"]
    bodies = [
        part
        for entry in entries
        for part in (entry["request"]["postData"]["text"], entry["response"]["content"]["text"])
    ]
    everything = "\n".join(readings(text.encode()) for text in [data.decode(), *bodies])
    assert [kind for kind, (_, core) in SECRETS.items() if core in everything] == []
    assert recordings.file_name(recording).startswith(f"{surface}/qwen3-")
