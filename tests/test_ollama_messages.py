"""A request of another surface becomes the /api/chat request that Ollama itself makes of it."""

from __future__ import annotations

import pytest

from toolmend.model import Json, JsonObject
from toolmend.ollama_messages import images_of, to_ollama_chat, to_openai_chat
from toolmend.surfaces.wire import object_of, objects_of

PIXEL = "iVBORw0KGgoAAAANSUhEUg=="
PARAMETERS: JsonObject = {"type": "object", "properties": {"room": {"type": "string"}}}
CHAT_TOOL: JsonObject = {
    "type": "function",
    "function": {"name": "book_room", "description": "Book it", "parameters": PARAMETERS},
}


def messages(surface: str, **document: Json) -> Json:
    return to_ollama_chat(surface, {"model": "m", **document})["messages"]


def completion(*given: Json) -> Json:
    return messages("openai-chat", messages=[*given])


def responses(*given: Json, **more: Json) -> Json:
    return messages("openai-responses", input=[*given], **more)


def anthropic(*given: Json, **more: Json) -> Json:
    return messages("anthropic-messages", messages=[*given], max_tokens=9, **more)


def shape_of(tools: Json) -> list[tuple[Json, list[str]]]:
    """Return each tool's name and its parameters' names."""
    functions = [object_of(tool.get("function")) for tool in objects_of(tools)]
    return [(one["name"], list(object_of(object_of(one["parameters"]).get("properties")))) for one in functions]


def test_a_body_of_api_chat_stays_as_it_is() -> None:
    document: JsonObject = {"model": "m", "messages": [], "options": {"num_ctx": 8}, "anything": 1}
    assert to_ollama_chat("ollama-chat", document) == document


def test_a_chat_completion_stays_as_it_is() -> None:
    document: JsonObject = {"model": "m", "messages": [], "logit_bias": {}, "anything": 1}
    assert to_openai_chat("openai-chat", document) == document


def test_a_chat_completion_without_tools_says_nothing_of_tools() -> None:
    assert to_openai_chat("ollama-chat", {"model": "m", "messages": [{"role": "user", "content": "Hi"}]}) == {
        "model": "m",
        "messages": [{"role": "user", "content": "Hi"}],
    }


class TestChatCompletions:
    def test_sampling_that_is_absent_becomes_one(self) -> None:
        document: JsonObject = {"model": "m", "messages": [], "max_tokens": 5, "stop": "END", "seed": 3}
        assert to_ollama_chat("openai-chat", document) == {
            "model": "m",
            "messages": [],
            "stream": False,
            "options": {"stop": ["END"], "num_predict": 5, "temperature": 1.0, "seed": 3, "top_p": 1.0},
        }

    def test_sampling_that_is_given_stays(self) -> None:
        document: JsonObject = {"model": "m", "messages": [], "temperature": 0, "top_p": 0.1, "stop": ["a", "b"]}
        assert to_ollama_chat("openai-chat", document)["options"] == {
            "stop": ["a", "b"],
            "temperature": 0,
            "top_p": 0.1,
        }

    def test_tools_stay_as_they_are(self) -> None:
        assert to_ollama_chat("openai-chat", {"model": "m", "messages": [], "tools": [CHAT_TOOL]})["tools"] == [
            CHAT_TOOL
        ]

    def test_a_call_and_its_result_keep_arguments_id_and_name(self) -> None:
        call: JsonObject = {
            "id": "c1",
            "type": "function",
            "function": {"name": "book_room", "arguments": '{"room": "B2"}'},
        }
        assert completion(
            {"role": "user", "content": "Book B2"},
            {"role": "assistant", "content": None, "reasoning": "Book it.", "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "c1", "content": "done"},
        ) == [
            {"role": "user", "content": "Book B2"},
            {
                "role": "assistant",
                "content": "",
                "thinking": "Book it.",
                "tool_calls": [{"id": "c1", "function": {"name": "book_room", "arguments": {"room": "B2"}}}],
            },
            {"role": "tool", "content": "done", "tool_name": "book_room", "tool_call_id": "c1"},
        ]

    def test_each_part_becomes_a_message_of_its_own(self) -> None:
        assert completion(
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "What is this?"},
                    {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}},
                ],
            }
        ) == [{"role": "user", "content": "What is this?"}, {"role": "user", "content": "", "images": [PIXEL]}]

    def test_sound_goes_where_images_go_and_other_parts_are_left_out(self) -> None:
        parts: list[Json] = [
            {"type": "input_audio", "input_audio": {"data": "UklGRg==", "format": "wav"}},
            {"type": "file", "file": {"file_id": "f1"}},
            {"type": "text", "text": "What do they say?"},
        ]
        assert completion({"role": "user", "content": parts}) == [
            {"role": "user", "content": "", "images": ["UklGRg=="]},
            {"role": "user", "content": "What do they say?"},
        ]

    def test_calls_hang_on_the_last_part_of_their_message(self) -> None:
        parts: list[Json] = [{"type": "text", "text": "Let me see."}, {"type": "text", "text": "Booking."}]
        call: JsonObject = {"id": "c1", "function": {"name": "book_room", "arguments": {"room": "B2"}}}
        assert completion({"role": "assistant", "content": parts, "tool_calls": [call]}) == [
            {"role": "assistant", "content": "Let me see."},
            {"role": "assistant", "content": "Booking.", "tool_calls": [call]},
        ]

    def test_a_result_has_the_name_it_gives_or_that_of_the_call_with_its_id(self) -> None:
        calls: list[Json] = [
            {"id": "c1", "function": {"name": "book_room", "arguments": "{}"}},
            {"id": "c2", "function": {"name": "free_room", "arguments": "{}"}},
        ]
        given = completion(
            {"role": "assistant", "content": "", "tool_calls": calls},
            {"role": "tool", "tool_call_id": "c1", "name": "reserve", "content": "1"},
            {"role": "tool", "tool_call_id": "c2", "content": "2"},
            {"role": "tool", "tool_call_id": "c3", "content": "3"},
        )
        assert isinstance(given, list)
        assert given[1:] == [
            {"role": "tool", "content": "1", "tool_name": "reserve", "tool_call_id": "c1"},
            {"role": "tool", "content": "2", "tool_name": "free_room", "tool_call_id": "c2"},
            {"role": "tool", "content": "3", "tool_call_id": "c3"},
        ]

    def test_a_result_in_parts_loses_its_id_as_it_does_there(self) -> None:
        part: JsonObject = {"type": "text", "text": "done"}
        assert completion({"role": "tool", "tool_call_id": "c1", "content": [part]}) == [
            {"role": "tool", "content": "done"}
        ]

    @pytest.mark.parametrize(
        ("effort", "think"), [("none", False), ("minimal", "low"), ("high", "high"), ("xhigh", "max"), ("odd", None)]
    )
    def test_effort_becomes_thinking(self, effort: str, think: Json) -> None:
        chat = to_ollama_chat("openai-chat", {"model": "m", "messages": [], "reasoning_effort": effort})
        assert chat.get("think") == think

    @pytest.mark.parametrize(
        ("given", "wanted"),
        [
            ({"type": "json_schema", "json_schema": {"name": "a", "schema": PARAMETERS}}, PARAMETERS),
            ({"type": "json_object"}, "json"),
            ({"type": "text"}, None),
        ],
    )
    def test_a_response_format_becomes_a_format(self, given: JsonObject, wanted: Json) -> None:
        chat = to_ollama_chat("openai-chat", {"model": "m", "messages": [], "response_format": given})
        assert chat.get("format") == wanted


class TestResponses:
    def test_instructions_and_a_plain_input_become_messages(self) -> None:
        assert messages("openai-responses", instructions="Be brief.", input="Hello") == [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Hello"},
        ]

    def test_only_the_temperature_has_a_default(self) -> None:
        document: JsonObject = {"model": "m", "input": "Hi", "max_output_tokens": 7}
        assert to_ollama_chat("openai-responses", document)["options"] == {"temperature": 1.0, "num_predict": 7}

    def test_reasoning_goes_to_the_next_call_and_calls_join_one_message(self) -> None:
        assert responses(
            {
                "role": "user",
                "content": [{"type": "input_text", "text": "Book "}, {"type": "input_text", "text": "B2"}],
            },
            {"type": "reasoning", "summary": [], "encrypted_content": "I should book."},
            {"type": "function_call", "call_id": "c1", "name": "book_room", "arguments": '{"room": "B2"}'},
            {"type": "function_call", "call_id": "c2", "name": "book_room", "arguments": ""},
            {"type": "function_call_output", "call_id": "c1", "output": "done"},
            {"type": "function_call_output", "call_id": "c2", "output": [{"type": "input_text", "text": "no"}]},
        ) == [
            {"role": "user", "content": "Book B2"},
            {
                "role": "assistant",
                "content": "",
                "thinking": "I should book.",
                "tool_calls": [
                    {"id": "c1", "function": {"name": "book_room", "arguments": {"room": "B2"}}},
                    {"id": "c2", "function": {"name": "book_room", "arguments": {}}},
                ],
            },
            {"role": "tool", "content": "done", "tool_call_id": "c1"},
            {"role": "tool", "content": "no", "tool_call_id": "c2"},
        ]

    def test_a_text_between_a_call_and_its_output_joins_the_call(self) -> None:
        assert responses(
            {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
            {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "Booking."}]},
            {"type": "function_call_output", "call_id": "c1", "output": "done"},
        ) == [
            {
                "role": "assistant",
                "content": "Booking.",
                "tool_calls": [{"id": "c1", "function": {"name": "f", "arguments": {}}}],
            },
            {"role": "tool", "content": "done", "tool_call_id": "c1"},
        ]

    def test_thinking_and_images_of_such_a_text_go_to_the_call_too(self) -> None:
        content: list[Json] = [
            {"type": "output_text", "text": "This one."},
            {"type": "input_image", "image_url": f"data:image/png;base64,{PIXEL}"},
        ]
        assert responses(
            {"type": "function_call", "call_id": "c1", "name": "f", "arguments": "{}"},
            {"type": "reasoning", "encrypted_content": "Hm."},
            {"type": "message", "role": "assistant", "content": content},
            {"type": "function_call_output", "call_id": "c1", "output": "done"},
        ) == [
            {
                "role": "assistant",
                "content": "This one.",
                "images": [PIXEL],
                "thinking": "Hm.",
                "tool_calls": [{"id": "c1", "function": {"name": "f", "arguments": {}}}],
            },
            {"role": "tool", "content": "done", "tool_call_id": "c1"},
        ]

    def test_reasoning_goes_to_the_text_behind_it_and_what_is_no_message_is_left_out(self) -> None:
        assert responses(
            {"type": "reasoning", "encrypted_content": "Greet."},
            {"type": "item_reference", "id": "msg_1"},
            {"role": "assistant", "content": "Hello."},
            {"role": "user", "content": "Hi."},
        ) == [
            {"role": "assistant", "content": "Hello.", "thinking": "Greet."},
            {"role": "user", "content": "Hi."},
        ]

    def test_a_text_format_becomes_a_format(self) -> None:
        given: JsonObject = {"format": {"type": "json_schema", "name": "a", "schema": PARAMETERS}}
        assert to_ollama_chat("openai-responses", {"model": "m", "input": "", "text": given})["format"] == PARAMETERS
        assert "format" not in to_ollama_chat(
            "openai-responses", {"model": "m", "input": "", "text": {"format": {"type": "text"}}}
        )

    def test_reasoning_at_the_end_is_a_message(self) -> None:
        assert responses({"type": "reasoning", "encrypted_content": "Hm."}) == [
            {"role": "assistant", "content": "", "thinking": "Hm."}
        ]

    def test_images_go_with_their_message(self) -> None:
        content: list[Json] = [
            {"type": "input_image", "image_url": f"data:image/jpeg;base64,{PIXEL}"},
            {"type": "input_text", "text": "Look"},
        ]
        assert responses({"role": "user", "content": content}) == [
            {"role": "user", "content": "Look", "images": [PIXEL]}
        ]

    def test_a_namespace_is_flattened(self) -> None:
        tools: list[Json] = [
            {"type": "function", "name": "plain", "description": "P", "parameters": PARAMETERS},
            {
                "type": "namespace",
                "name": "mail",
                "tools": [{"type": "function", "name": "send", "parameters": PARAMETERS}],
            },
            {"type": "custom", "name": "patch"},
        ]
        assert to_ollama_chat("openai-responses", {"model": "m", "input": "", "tools": tools})["tools"] == [
            {"type": "function", "function": {"name": "plain", "description": "P", "parameters": PARAMETERS}},
            {"type": "function", "function": {"name": "mail.send", "parameters": PARAMETERS}},
            {"type": "custom", "function": {"name": "patch", "parameters": {}}},
        ]

    def test_the_built_in_search_is_a_function_that_takes_a_query(self) -> None:
        document: JsonObject = {"model": "m", "input": "", "tools": [{"type": "web_search"}]}
        assert shape_of(to_ollama_chat("openai-responses", document)["tools"]) == [("web_search", ["query"])]


class TestMessages:
    def test_system_blocks_are_joined_without_a_separator(self) -> None:
        system: list[Json] = [{"type": "text", "text": "Be "}, {"type": "text", "text": "brief."}]
        assert anthropic({"role": "user", "content": "Hi"}, system=system) == [
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Hi"},
        ]

    def test_results_stand_before_the_text_of_their_turn(self) -> None:
        assert anthropic(
            {
                "role": "assistant",
                "content": [
                    {"type": "thinking", "thinking": "Book it.", "signature": ""},
                    {"type": "text", "text": "Booking."},
                    {"type": "tool_use", "id": "c1", "name": "book_room", "input": {"room": "B2"}},
                ],
            },
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "And B3"},
                    {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "text", "text": "done"}]},
                ],
            },
        ) == [
            {
                "role": "assistant",
                "content": "Booking.",
                "tool_calls": [{"id": "c1", "function": {"name": "book_room", "arguments": {"room": "B2"}}}],
                "thinking": "Book it.",
            },
            {"role": "tool", "content": "done", "tool_call_id": "c1"},
            {"role": "user", "content": "And B3"},
        ]

    def test_images_of_messages_and_results_are_kept(self) -> None:
        source: JsonObject = {"type": "base64", "media_type": "image/png", "data": PIXEL}
        given = anthropic(
            {
                "role": "user",
                "content": [
                    {"type": "image", "source": source},
                    {"type": "tool_result", "tool_use_id": "c1", "content": [{"type": "image", "source": source}]},
                ],
            }
        )
        assert given == [
            {"role": "tool", "content": "", "images": [PIXEL], "tool_call_id": "c1"},
            {"role": "user", "content": "", "images": [PIXEL]},
        ]
        assert images_of({"messages": given}) == [PIXEL, PIXEL]

    def test_options_are_only_those_that_were_given(self) -> None:
        document: JsonObject = {"model": "m", "messages": [], "max_tokens": 9, "top_k": 4, "stop_sequences": ["X"]}
        assert to_ollama_chat("anthropic-messages", document)["options"] == {
            "num_predict": 9,
            "top_k": 4,
            "stop": ["X"],
        }

    def test_a_tool_without_a_schema_takes_nothing(self) -> None:
        document: JsonObject = {
            "model": "m",
            "messages": [],
            "tools": [{"name": "now"}, {"name": "f", "input_schema": PARAMETERS}],
        }
        assert to_ollama_chat("anthropic-messages", document)["tools"] == [
            {"type": "function", "function": {"name": "now", "parameters": {}}},
            {"type": "function", "function": {"name": "f", "parameters": PARAMETERS}},
        ]

    def test_the_built_in_search_takes_the_place_of_a_tool_of_its_name(self) -> None:
        mine: JsonObject = {"name": "web_search", "input_schema": PARAMETERS}
        tools: list[Json] = [{"type": "web_search_20250305", "name": "web_search"}, mine, {"name": "f"}]
        document: JsonObject = {"model": "m", "messages": [], "tools": tools}
        assert shape_of(to_ollama_chat("anthropic-messages", document)["tools"]) == [
            ("web_search", ["query"]),
            ("f", []),
        ]
        alone = to_ollama_chat("anthropic-messages", {**document, "tools": [mine]})
        assert shape_of(alone["tools"]) == [("web_search", ["room"])]

    @pytest.mark.parametrize(
        ("wish", "think"),
        [
            ({"thinking": {"type": "disabled"}}, False),
            # /api/chat refuses this for a model that cannot think; without it a model that can does.
            ({"thinking": {"type": "enabled", "budget_tokens": 2000}}, None),
            ({"output_config": {"effort": "xhigh"}}, "high"),
            ({}, None),
        ],
    )
    def test_thinking_is_never_a_reason_to_refuse(self, wish: JsonObject, think: Json) -> None:
        chat = to_ollama_chat("anthropic-messages", {"model": "m", "messages": [], **wish})
        assert chat.get("think") == think


def test_what_ollama_would_refuse_is_left_out() -> None:
    odd: list[Json] = [7, {"role": "user"}, {"role": "assistant", "tool_calls": [{"function": {"arguments": "{"}}]}]
    assert completion(*odd) == [
        {"role": "user", "content": ""},
        {"role": "assistant", "content": "", "tool_calls": [{"id": "", "function": {"name": "", "arguments": {}}}]},
    ]
    assert completion(
        {"role": "user", "content": [{"type": "image_url", "image_url": "https://example.com/a.png"}]}
    ) == [{"role": "user", "content": "", "images": []}]


def test_messages_become_a_chat_completion_for_other_servers() -> None:
    document: JsonObject = {
        "model": "m",
        "max_tokens": 9,
        "messages": [
            {"role": "user", "content": [{"type": "image", "source": {"type": "base64", "data": PIXEL}}, {"type": "text", "text": "Book"}]},
            {"role": "assistant", "content": [{"type": "tool_use", "id": "c1", "name": "book_room", "input": {"room": "B2"}}]},
            {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c1", "content": "done"}]},
        ],
        "tools": [{"name": "book_room", "description": "Book it", "input_schema": PARAMETERS}],
    }  # fmt: skip
    assert to_openai_chat("anthropic-messages", document) == {
        "model": "m",
        "messages": [
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": "Book"},
                    {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}},
                ],
            },
            {
                "role": "assistant",
                "content": "",
                "tool_calls": [
                    {"id": "c1", "type": "function", "function": {"name": "book_room", "arguments": '{"room": "B2"}'}}
                ],
            },
            {"role": "tool", "content": "done", "tool_call_id": "c1"},
        ],
        "tools": [CHAT_TOOL],
        "max_tokens": 9,
    }
