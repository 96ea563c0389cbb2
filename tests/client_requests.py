"""Read the requests that 35 real agents and SDKs sent, with their whole tool schemas.

`data/client_requests.jsonl.xz`: a line for each client, with the licence of the package that the schemas are from. Prompts,
results and long descriptions are neutral stand-ins. Of most there are two requests: the first with tools, and the one
after the tool ran.
"""

from __future__ import annotations

import json
import lzma
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from toolmend.model import JsonObject, Tool
from toolmend.surfaces import SURFACES
from toolmend.surfaces.surface import Surface

FILE = Path(__file__).parent / "data" / "client_requests.jsonl.xz"


@dataclass(frozen=True)
class Sent:
    """Hold one request of a client. `number` counts its requests from 1."""

    client: str
    number: int
    path: str
    document: Any

    @property
    def body(self) -> bytes:
        return json.dumps(self.document, ensure_ascii=False, separators=(",", ": ")).encode()

    @property
    def surface(self) -> Surface:
        return SURFACES[self.path]

    @property
    def tools(self) -> tuple[Tool, ...]:
        return self.surface.read_request(self.document).tools

    def __str__(self) -> str:
        return f"{self.client}-{self.number}"


@cache
def sent() -> tuple[Sent, ...]:
    with lzma.open(FILE, "rt", encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    return tuple(
        Sent(row["client"], number, row["path"], document)
        for row in rows
        for number, document in enumerate(row["requests"], 1)
    )


def first(client: str) -> Sent:
    """Return the first request of a client."""
    return next(request for request in sent() if request.client == client)


# Values for schemas. Written apart from the addon: what it makes of a schema is what the tests judge.


def resolved(schema: Any, root: Any) -> Any:
    """Follow `$ref`, and of several branches take the first that is not null."""
    while "$ref" in schema or "anyOf" in schema or "oneOf" in schema:
        if "$ref" in schema:
            target = root
            for key in schema["$ref"].removeprefix("#/").split("/"):
                target = target[key]
            schema = target
        else:
            branches = schema.get("anyOf") or schema["oneOf"]
            schema = next(branch for branch in branches if branch.get("type") != "null")
    return schema


def kinds(schema: Any) -> list[str]:
    given = schema.get("type", [])
    return given if isinstance(given, list) else [given]


def allows_text(schema: Any, root: Any) -> bool:
    """Tell whether a value may be any text, so that text in its place is no mistake."""
    if "$ref" in schema:
        return allows_text(resolved(schema, root), root)
    branches = schema.get("anyOf") or schema.get("oneOf")
    if branches:
        return any(allows_text(branch, root) for branch in branches)
    return "enum" not in schema and (not kinds(schema) or "string" in kinds(schema))


def filled(schema: Any, root: Any = None, least: bool = False) -> Any:
    """Return a value that fits: all that may be there, or the least that must."""
    root = schema if root is None else root
    schema = resolved(schema, root)
    if "enum" in schema or "const" in schema:
        return schema.get("enum", [schema.get("const")])[-1]
    match next((kind for kind in kinds(schema) if kind != "null"), "object"):
        case "object":
            names = schema.get("required", []) if least else schema.get("properties", {})
            return {name: filled(schema["properties"][name], root, least) for name in names}
        case "array":
            count = schema.get("minItems", 0) if least else min(2, schema.get("maxItems", 2))
            return [filled(schema.get("items", {}), root, least) for _ in range(count)]
        case "string":
            text = {"uri": "http://example.com/a", "date": "2026-07-14"}.get(schema.get("format"), "a word")
            return text[: schema.get("maxLength", len(text))]
        case "boolean":
            return True
        case "integer" | "number":
            return max(3, schema.get("minimum", 3), schema.get("exclusiveMinimum", 2) + 1)
        case kind:
            raise AssertionError(kind)


def as_text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def broken_leaves(value: Any, schema: Any, root: Any, breaks: Callable[[Any], Any] = as_text) -> Any:
    """Return the value with text in place of every number and boolean in it, where text is not allowed."""
    if isinstance(value, dict):
        properties = resolved(schema, root).get("properties", {})
        return {name: broken_leaves(item, properties.get(name, {}), root, breaks) for name, item in value.items()}
    if isinstance(value, list):
        items = resolved(schema, root).get("items", {})
        return [broken_leaves(item, items, root, breaks) for item in value]
    return value if isinstance(value, str) or allows_text(schema, root) else breaks(value)


def broken_branches(value: JsonObject, schema: Any) -> JsonObject:
    """Return the arguments with text in place of every list and object in them, where text is not allowed."""
    properties = schema.get("properties", {})
    return {
        name: as_text(item) if isinstance(item, dict | list) and not allows_text(properties[name], schema) else item
        for name, item in value.items()
    }


def text_members(schema: Any) -> Iterator[str]:
    """Yield the names of the members that may be any text, of any form and length."""
    for name, member in schema.get("properties", {}).items():
        plain = not {"pattern", "format", "maxLength", "anyOf", "oneOf", "$ref"} & set(member)
        if plain and allows_text(member, schema):
            yield name
