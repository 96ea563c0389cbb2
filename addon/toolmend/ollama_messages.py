"""Translate requests of the other surfaces to /api/chat, as Ollama itself does before it answers them.

The prompt that comes of it must be the same, character by character: then the server's prompt cache is reused, and
the model is asked in the very situation in which it failed.

Source: ollama openai/openai.go FromChatRequest, openai/responses.go FromResponsesRequest, anthropic/anthropic.go
FromMessagesRequest.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from toolmend.model import Json, JsonObject
from toolmend.surfaces.wire import object_of, objects_of, text_of

DATA_URL: Final = re.compile(r"data:(?:image/(?:jpeg|jpg|png|webp))?;base64,")
EFFORTS: Final[Mapping[str, Json]] = {
    "none": False,
    "minimal": "low",
    "low": "low",
    "medium": "medium",
    "high": "high",
    "max": "max",
    "xhigh": "max",
    "ultra": "max",
}
WEB_SEARCH: Final[JsonObject] = {
    "type": "function",
    "function": {
        "name": "web_search",
        "description": (
            "Search the web for current information. Use this to find up-to-date information about any topic."
        ),
        "parameters": {
            "type": "object",
            "required": ["query"],
            "properties": {
                "query": {"type": "string", "description": "The search query to look up on the web"},
            },
        },
    },
}


def to_ollama_chat(surface: str, document: JsonObject) -> JsonObject:
    """Translate a request body to the /api/chat body that Ollama makes of it.

    Args:
        surface: The name of the body's surface; a body of `ollama-chat` comes back as it is.
        document: The body as received. What Ollama would refuse in it is left out, never an error.
    """
    return dict(document) if surface not in TRANSLATIONS else TRANSLATIONS[surface](document)


def to_openai_chat(surface: str, document: JsonObject) -> JsonObject:
    """Translate a request body to /v1/chat/completions, for servers whose other surfaces carry no schema.

    A body of `openai-chat` comes back as it is.
    """
    if surface == "openai-chat":
        return dict(document)
    chat = to_ollama_chat(surface, document)
    options = object_of(chat.get("options"))
    out: JsonObject = {
        "model": chat.get("model"),
        "messages": [_completion_message(m) for m in objects_of(chat["messages"])],
    }
    if "tools" in chat:
        out["tools"] = chat["tools"]
    for name, theirs in OPTION_NAMES.items():
        if name in options:
            out[theirs] = options[name]
    return out


OPTION_NAMES: Final = {
    "num_predict": "max_tokens",
    "temperature": "temperature",
    "top_p": "top_p",
    "top_k": "top_k",
    "seed": "seed",
    "stop": "stop",
    "frequency_penalty": "frequency_penalty",
    "presence_penalty": "presence_penalty",
}


def _completion_message(message: JsonObject) -> JsonObject:
    """Write a message of /api/chat as one of chat completions."""
    out: JsonObject = {"role": message.get("role"), "content": message.get("content", "")}
    images = _strings(message.get("images"))
    if images:
        urls: list[Json] = [{"type": "image_url", "image_url": {"url": _data_url(image)}} for image in images]
        out["content"] = [{"type": "text", "text": message.get("content", "")}, *urls]
    calls = objects_of(message.get("tool_calls"))
    if calls:
        out["tool_calls"] = [_completion_call(call) for call in calls]
    if "tool_call_id" in message:
        out["tool_call_id"] = message["tool_call_id"]
    return out


def _completion_call(call: JsonObject) -> JsonObject:
    function = object_of(call.get("function"))
    arguments = json.dumps(function.get("arguments", {}), ensure_ascii=False)
    return {
        "id": call.get("id", ""),
        "type": "function",
        "function": {"name": function.get("name"), "arguments": arguments},
    }


def _data_url(image: str) -> str:
    # The first characters of base64 tell JPEG, PNG, GIF and WebP apart.
    kinds = {"/9j/": "jpeg", "iVBO": "png", "R0lG": "gif", "UklG": "webp"}
    return f"data:image/{kinds.get(image[:4], 'png')};base64,{image}"


def images_of(chat: JsonObject) -> list[Json]:
    """Return the images of an /api/chat body in the order in which the prompt marks them."""
    return [image for message in objects_of(chat.get("messages")) for image in _strings(message.get("images"))]


# Chat completions


def _from_openai_chat(document: JsonObject) -> JsonObject:
    given = objects_of(document.get("messages"))
    messages: list[JsonObject] = []
    for message in given:
        _add_completion_message(messages, message, given)
    options = _stop_option(document.get("stop"))
    options |= _renamed(document, {"max_tokens": "num_predict"})
    # This surface overrides the model's own sampling: what is absent becomes 1.0.
    options["temperature"] = _or(document.get("temperature"), 1.0)
    options |= _renamed(document, {name: name for name in ("seed", "frequency_penalty", "presence_penalty")})
    options["top_p"] = _or(document.get("top_p"), 1.0)
    chat = _chat(
        document, messages, options, _thinking_effort(document.get("reasoning"), document.get("reasoning_effort"))
    )
    if (form := _completion_format(document.get("response_format"))) is not None:
        chat["format"] = form
    if document.get("tools"):
        chat["tools"] = document["tools"]
    return chat


def _add_completion_message(messages: list[JsonObject], message: JsonObject, given: list[JsonObject]) -> None:
    role, content = message.get("role"), message.get("content")
    calls = [_call(call) for call in objects_of(message.get("tool_calls"))]
    name = _tool_name(message, given) if str(role).lower() == "tool" else ""
    belongs = _filled(
        thinking=message.get("reasoning"), tool_calls=calls, tool_name=name, tool_call_id=message.get("tool_call_id")
    )
    if not isinstance(content, list):
        messages.append({"role": role, "content": content if isinstance(content, str) else "", **belongs})
        return
    # Every part becomes a message of its own, and only calls are hung on the last one: so a tool's result that is
    # given in parts loses its name and its id.
    messages += [{"role": role, **part} for part in _completion_parts(content)]
    if messages and calls:
        messages[-1] |= belongs


def _completion_parts(content: list[Json]) -> Iterator[JsonObject]:
    for part in objects_of(content):
        match part:
            case {"type": "text", "text": str(text)}:
                yield {"content": text}
            case {"type": "image_url", "image_url": {"url": str(url)} | str(url)}:
                yield {"content": "", "images": [*_image(url)]}
            case {"type": "input_audio", "input_audio": {"data": str(data)}}:
                yield {"content": "", "images": [data]}


def _tool_name(message: JsonObject, given: list[JsonObject]) -> Json:
    """Return the tool's name of a result: its own, or that of the last call with its id."""
    if message.get("name"):
        return message["name"]
    wanted = message.get("tool_call_id")
    for before in reversed(given):
        for call in objects_of(before.get("tool_calls")):
            if wanted and call.get("id") == wanted:
                return object_of(call.get("function")).get("name")
    return ""


def _completion_format(given: Json) -> Json:
    match given:
        case {"type": "json_object"}:
            return "json"
        case {"type": "json_schema", "json_schema": {"schema": dict(schema)}}:
            return schema
    return None


# Responses


def _from_openai_responses(document: JsonObject) -> JsonObject:
    messages: list[JsonObject] = []
    if document.get("instructions"):
        messages.append({"role": "system", "content": document["instructions"]})
    given = document.get("input")
    if isinstance(given, str) and given:
        messages.append({"role": "user", "content": given})
    thinking = ""
    items = objects_of(given)
    for at, item in enumerate(items):
        following = items[at + 1] if at + 1 < len(items) else {}
        thinking = _add_item(messages, item, following, thinking)
    if thinking:
        messages.append({"role": "assistant", "content": "", "thinking": thinking})
    options: JsonObject = {"temperature": _or(document.get("temperature"), 1.0)}
    options |= _renamed(document, {"top_p": "top_p", "max_output_tokens": "num_predict"})
    chat = _chat(document, messages, options, _thinking_effort(document.get("reasoning"), None))
    text_format = object_of(object_of(document.get("text")).get("format"))
    if text_format.get("type") == "json_schema" and isinstance(text_format.get("schema"), dict):
        chat["format"] = text_format["schema"]
    if tools := [*_responses_tools(objects_of(document.get("tools")))]:
        chat["tools"] = [*tools]
    return chat


def _add_item(messages: list[JsonObject], item: JsonObject, following: JsonObject, thinking: str) -> str:
    """Add one input item to the messages. Returns the thinking that still waits for its message."""
    kind = item.get("type") or ("message" if item.get("role") else "")
    if kind == "reasoning":
        return text_of(item.get("encrypted_content"))
    if kind == "message":
        return _add_input_message(messages, item, following, thinking)
    if kind == "function_call":
        return _add_function_call(messages, item, thinking)
    if kind == "function_call_output":
        content, images = _responses_content(item.get("output"))
        result: JsonObject = {"role": "tool", "content": content}
        messages.append(result | _filled(images=images, tool_call_id=item.get("call_id")))
    return thinking


def _add_input_message(messages: list[JsonObject], item: JsonObject, following: JsonObject, thinking: str) -> str:
    content, images = _responses_content(item.get("content"))
    role = item.get("role")
    message: JsonObject = {"role": role, "content": content, **_filled(images=images)}
    if role == "assistant" and thinking:
        message["thinking"] = thinking
        thinking = ""
    output_of = following.get("call_id") if following.get("type") == "function_call_output" else None
    if role == "assistant" and output_of and messages and _has_call(messages[-1], output_of):
        _join(messages[-1], message)
    else:
        messages.append(message)
    return thinking


def _has_call(message: JsonObject, call_id: Json) -> bool:
    calls = objects_of(message.get("tool_calls"))
    return message.get("role") == "assistant" and any(call.get("id") == call_id for call in calls)


def _join(last: JsonObject, message: JsonObject) -> None:
    """Join a text that was replayed between a call and its output to the call's message."""
    texts = [text_of(last.get("content")), text_of(message.get("content"))]
    last["content"] = "\n".join(text for text in texts if text)
    if images := [*_list(last.get("images")), *_list(message.get("images"))]:
        last["images"] = images
    if message.get("thinking"):
        last["thinking"] = message["thinking"]


def _add_function_call(messages: list[JsonObject], item: JsonObject, thinking: str) -> str:
    call: JsonObject = {
        "id": item.get("call_id", ""),
        "function": {"name": item.get("name", ""), "arguments": _arguments(item.get("arguments"))},
    }
    if not messages or messages[-1].get("role") != "assistant":
        messages.append({"role": "assistant", "content": ""})
    messages[-1]["tool_calls"] = [*_list(messages[-1].get("tool_calls")), call]
    if thinking:
        messages[-1]["thinking"] = thinking
    return ""


def _responses_content(content: Json) -> tuple[str, list[Json]]:
    """Return the text and the images of a message's content, or of a call's output."""
    if isinstance(content, str):
        return content, []
    parts = objects_of(content)
    text = "".join(text_of(part.get("text")) for part in parts if part.get("type") in ("input_text", "output_text"))
    images: list[Json] = []
    for part in parts:
        if part.get("type") == "input_image":
            images += _image(text_of(part.get("image_url")))
    return text, images


def _responses_tools(tools: list[JsonObject], prefix: str = "") -> Iterator[JsonObject]:
    """Yield the tools in chat form, those of a namespace as `namespace.name`."""
    for tool in tools:
        name = text_of(tool.get("name"))
        full = name if not prefix or name.startswith(prefix) else prefix + name
        if tool.get("type") == "namespace":
            yield from _responses_tools(objects_of(tool.get("tools")), f"{full}." if full else "")
        elif tool.get("type") == "web_search":
            yield WEB_SEARCH
        else:
            yield _tool(tool.get("type", "function"), full, tool.get("description"), tool.get("parameters"))


# Messages


def _from_anthropic_messages(document: JsonObject) -> JsonObject:
    messages: list[JsonObject] = []
    system = document.get("system")
    text = system if isinstance(system, str) else _joined_text(objects_of(system))
    if text:
        messages.append({"role": "system", "content": text})
    for message in objects_of(document.get("messages")):
        messages += _from_blocks(message)
    options = _renamed(
        document,
        {
            "max_tokens": "num_predict",
            "temperature": "temperature",
            "top_p": "top_p",
            "top_k": "top_k",
            "stop_sequences": "stop",
        },
    )
    chat = _chat(document, messages, options, _anthropic_thinking(document))
    if tools := [*_anthropic_tools(objects_of(document.get("tools")))]:
        chat["tools"] = [*tools]
    return chat


def _from_blocks(message: JsonObject) -> list[JsonObject]:
    """Split one message into those of /api/chat: in a user's turn, the results stand before the text."""
    role, content = text_of(message.get("role")).lower(), message.get("content")
    blocks: list[JsonObject] = [{"type": "text", "text": content}] if isinstance(content, str) else objects_of(content)
    images: list[Json] = [image for block in blocks if block.get("type") == "image" for image in _source(block)]
    calls: list[Json] = [_block_call(block) for block in blocks if block.get("type") in ("tool_use", "server_tool_use")]
    thoughts = [text_of(block.get("thinking")) for block in blocks if block.get("type") == "thinking"]
    results = [
        _block_result(block) for block in blocks if block.get("type") in ("tool_result", "web_search_tool_result")
    ]
    belongs = _filled(images=images, tool_calls=calls, thinking=thoughts[-1] if thoughts else "")
    text = _joined_text(blocks)
    own: list[JsonObject] = [{"role": role, "content": text, **belongs}] if text or belongs else []
    return [*results, *own] if role == "user" else [*own, *results]


def _block_call(block: JsonObject) -> JsonObject:
    arguments = object_of(block.get("input"))
    return {"id": block.get("id", ""), "function": {"name": block.get("name", ""), "arguments": arguments}}


def _block_result(block: JsonObject) -> JsonObject:
    content = block.get("content")
    parts = objects_of(content)
    found = "".join(
        f"- {text_of(part.get('title'))}: {text_of(part.get('url'))}\n"
        for part in parts
        if part.get("type") == "web_search_result"
    )
    text = content if isinstance(content, str) else found or _joined_text(parts)
    images: list[Json] = [image for part in parts if part.get("type") == "image" for image in _source(part)]
    result: JsonObject = {"role": "tool", "content": text}
    return result | _filled(images=images, tool_call_id=block.get("tool_use_id"))


def _source(block: JsonObject) -> list[Json]:
    data = object_of(block.get("source")).get("data")
    return [data] if isinstance(data, str) else []


def _anthropic_tools(tools: list[JsonObject]) -> Iterator[JsonObject]:
    searches = any(text_of(tool.get("type")).startswith("web_search") for tool in tools)
    for tool in tools:
        if text_of(tool.get("type")).startswith("web_search"):
            yield WEB_SEARCH
        elif not (searches and tool.get("name") == "web_search"):
            yield _tool("function", text_of(tool.get("name")), tool.get("description"), tool.get("input_schema"))


def _anthropic_thinking(document: JsonObject) -> Json:
    match document.get("thinking"):
        case {"type": "disabled"}:
            return False
        case {"type": "enabled"}:
            # /v1/messages drops the wish for a model that cannot think, /api/chat refuses it; saying nothing comes
            # to the same for both.
            return None
    effort = text_of(object_of(document.get("output_config")).get("effort")).strip().lower()
    return {"xhigh": "high"}.get(effort, effort if effort in ("high", "medium", "low", "max") else None)


TRANSLATIONS: Final[Mapping[str, Callable[[JsonObject], JsonObject]]] = {
    "openai-chat": _from_openai_chat,
    "openai-responses": _from_openai_responses,
    "anthropic-messages": _from_anthropic_messages,
}


# What they share


def _chat(document: JsonObject, messages: list[JsonObject], options: JsonObject, think: Json) -> JsonObject:
    chat: JsonObject = {"model": document.get("model"), "messages": [*messages], "options": options, "stream": False}
    return chat if think is None else {**chat, "think": think}


def _thinking_effort(reasoning: Json, effort: Json) -> Json:
    """Return what `think` becomes; None when the request says nothing of it."""
    wanted = reasoning.get("effort") if isinstance(reasoning, dict) else effort
    return EFFORTS.get(wanted) if isinstance(wanted, str) else None


def _call(call: JsonObject) -> Json:
    function = object_of(call.get("function"))
    arguments = _arguments(function.get("arguments"))
    return {"id": call.get("id", ""), "function": {"name": function.get("name", ""), "arguments": arguments}}


def _arguments(text: Json) -> JsonObject:
    if not isinstance(text, str):
        return object_of(text)
    try:
        return object_of(json.loads(text))
    except (ValueError, RecursionError):
        return {}


def _tool(kind: Json, name: str, description: Json, parameters: Json) -> JsonObject:
    function: JsonObject = {"name": name, **_filled(description=description)}
    return {"type": kind, "function": {**function, "parameters": object_of(parameters)}}


def _image(url: str) -> list[Json]:
    prefix = DATA_URL.match(url)
    return [url[prefix.end() :]] if prefix else []


def _stop_option(stop: Json) -> JsonObject:
    if isinstance(stop, str):
        return {"stop": [stop]}
    return {"stop": [*_strings(stop)]} if isinstance(stop, list) else {}


def _renamed(document: JsonObject, names: Mapping[str, str]) -> JsonObject:
    return {theirs: document[ours] for ours, theirs in names.items() if document.get(ours) is not None}


def _filled(**values: Json) -> JsonObject:
    return {name: value for name, value in values.items() if value}


def _joined_text(blocks: list[JsonObject]) -> str:
    return "".join(text_of(block.get("text")) for block in blocks if block.get("type") == "text")


def _or(value: Json, default: Json) -> Json:
    return default if value is None else value


def _list(value: Json) -> list[Json]:
    return value if isinstance(value, list) else []


def _strings(value: Json) -> list[str]:
    return [item for item in _list(value) if isinstance(item, str)]
