"""Hold the tasks of `toolmend bench`: four tools, of rising difficulty, and what a user asks that calls for each."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from toolmend.model import Json, JsonObject


@dataclass(frozen=True, slots=True)
class Task:
    """Hold one task: the tool that is wanted, and the user's words."""

    tool: str
    prompt: str


def _text(description: str) -> JsonObject:
    return {"type": "string", "description": description}


def _one_of(*values: str) -> JsonObject:
    return {"type": "string", "enum": list(values)}


def _object(properties: JsonObject, *required: str, closed: bool = False) -> JsonObject:
    schema: JsonObject = {"type": "object", "properties": properties, "required": list(required)}
    return {**schema, "additionalProperties": False} if closed else schema


def _list(items: JsonObject, least: int = 0) -> JsonObject:
    return {"type": "array", "items": items, **({"minItems": least} if least else {})}


_CREATE_EVENT: Final = _object(
    {
        "title": {"type": "string"},
        "date": _text("ISO date"),
        "duration_minutes": {"type": "integer"},
        "priority": _one_of("low", "medium", "high"),
        "attendees": _list(_text("e-mail address")),
        "reminders": _list(
            _object(
                {"method": _one_of("email", "popup"), "minutes_before": {"type": "integer"}}, "method", "minutes_before"
            )
        ),
    },
    "title",
    "date",
    "duration_minutes",
    "priority",
    "attendees",
)

_EDIT_FILE: Final = _object(
    {
        "path": {"type": "string"},
        "create": {"type": "boolean", "description": "Whether the file may be new."},
        "edits": _list(
            _object(
                {
                    "line": {"type": "integer", "minimum": 1},
                    "old_text": _text("The text there now, word for word."),
                    "new_text": _text("The text that takes its place."),
                },
                "line",
                "old_text",
                "new_text",
                closed=True,
            ),
            least=1,
        ),
    },
    "path",
    "create",
    "edits",
    closed=True,
)

_VALUE: Final[JsonObject] = {
    "anyOf": [
        {"type": "number"},
        {"type": "boolean"},
        {"type": "string"},
        {"type": "array", "items": {"type": "string"}},
    ]
}

_QUERY_TABLE: Final = _object(
    {
        "table": _one_of("orders", "customers", "products"),
        "columns": _list({"type": "string"}, least=1),
        "filters": _list(
            _object(
                {"column": {"type": "string"}, "operator": _one_of("eq", "ne", "lt", "gt", "in"), "value": _VALUE},
                "column",
                "operator",
                "value",
                closed=True,
            )
        ),
        "order_by": _list(
            _object({"column": {"type": "string"}, "descending": {"type": "boolean"}}, "column", "descending")
        ),
        "limit": {"type": ["integer", "null"], "minimum": 1, "maximum": 1000},
    },
    "table",
    "columns",
    "filters",
    "order_by",
    "limit",
    closed=True,
)

_PLAN_TRIP: Final[JsonObject] = {
    "$defs": {
        "place": _object({"city": {"type": "string"}, "country": _text("ISO code of two letters")}, "city", "country"),
        "leg": {
            "oneOf": [
                _object(
                    {
                        "kind": {"const": "train"},
                        "from": {"$ref": "#/$defs/place"},
                        "to": {"$ref": "#/$defs/place"},
                        "class": {"type": "integer", "enum": [1, 2]},
                        "bicycle": {"type": "boolean"},
                    },
                    "kind",
                    "from",
                    "to",
                    "class",
                    closed=True,
                ),
                _object(
                    {
                        "kind": {"const": "flight"},
                        "from": {"$ref": "#/$defs/place"},
                        "to": {"$ref": "#/$defs/place"},
                        "bags": {"type": "integer", "minimum": 0, "maximum": 3},
                    },
                    "kind",
                    "from",
                    "to",
                    "bags",
                    closed=True,
                ),
            ]
        },
    },
    **_object(
        {
            "travellers": _list(
                _object({"name": {"type": "string"}, "age": {"type": "integer"}}, "name", "age"), least=1
            ),
            "legs": {"type": "array", "items": {"$ref": "#/$defs/leg"}, "minItems": 1},
            "budget": _object(
                {"amount": {"type": "number"}, "currency": {"type": "string", "pattern": "^[A-Z]{3}$"}},
                "amount",
                "currency",
            ),
        },
        "travellers",
        "legs",
        "budget",
        closed=True,
    ),
}

TOOLS: Final[tuple[tuple[str, str, JsonObject], ...]] = (
    ("create_event", "Create a calendar event.", _CREATE_EVENT),
    ("edit_file", "Change lines of a text file.", _EDIT_FILE),
    ("query_table", "Read rows of a table.", _QUERY_TABLE),
    ("plan_trip", "Plan a trip of several legs.", _PLAN_TRIP),
)
"""Name, description and schema of each tool. All are offered in every request."""

TASKS: Final = (
    Task(
        "create_event",
        "Create an event 'Q3 planning' on 2026-07-14, 30 minutes, high priority, with a@example.com and b@example.com, "
        "and a reminder by email 10 minutes before.",
    ),
    Task(
        "edit_file",
        "In src/main.py, which is there already, change line 3 from `    print('hello')` to "
        '`    print("hello, world")` and line 7 from `    return 0` to `    return 1`.',
    ),
    Task(
        "query_table",
        "Show number, customer and total of the orders whose total is over 99.5, whose status is 'open' or 'late', and "
        "which are not paid; the largest total first, 20 rows.",
    ),
    Task(
        "plan_trip",
        "Plan a trip for Ada, 36, and Ben, 9: by train in second class with a bicycle from Lyon in France to Geneva in "
        "Switzerland, then by plane with two bags from Geneva to Porto in Portugal, for at most 850.50 euros.",
    ),
)


def request(surface: str, model: str, prompt: str, *, stream: bool, seed: int) -> JsonObject:
    """Make the body of a chat request that offers all tools, on one of the four surfaces."""
    message: Json = [{"role": "user", "content": prompt}]
    head: JsonObject = {"model": model, "stream": stream}
    functions: list[JsonObject] = [
        {"name": name, "description": description, "parameters": schema} for name, description, schema in TOOLS
    ]
    if surface == "openai-responses":
        return {**head, "input": message, "tools": [{"type": "function", **function} for function in functions]}
    if surface == "anthropic-messages":
        tools: Json = [
            {"name": name, "description": description, "input_schema": schema} for name, description, schema in TOOLS
        ]
        return {**head, "max_tokens": 4096, "messages": message, "tools": tools}
    tools = [{"type": "function", "function": function} for function in functions]
    settings: JsonObject = {"options": {"seed": seed}} if surface == "ollama-chat" else {"seed": seed}
    return {**head, "messages": message, "tools": tools, **settings}
