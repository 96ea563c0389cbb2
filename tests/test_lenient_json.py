"""JSON as models write it is read; what would have to be guessed is not."""

from __future__ import annotations

import time

import pytest

from toolmend.lenient_json import Parsed, is_cut, parse, parse_prefix
from toolmend.model import Json

STRICT: list[tuple[str, Json]] = [
    ('{"a": 1}', {"a": 1}),
    ("[]", []),
    ('"text"', "text"),
    ("12", 12),
    (r'{"content": "C:\\new\nline"}', {"content": "C:\\new\nline"}),
    (r'{"code": "with open(p) as f:\n    pass"}', {"code": "with open(p) as f:\n    pass"}),
    (r'"\ud83d\ude00 \ud800"', "😀 \ud800"),
    ('{"a": 1, "a": 2}', {"a": 2}),
]


@pytest.mark.parametrize(("text", "value"), STRICT)
def test_strict_json_is_read_without_liberties(text: str, value: Json) -> None:
    assert parse(text) == Parsed(value)


LENIENT: list[tuple[str, str, Json, tuple[str, ...]]] = [
    ("a fence", '```json\n{"a": 1}\n```', {"a": 1}, ("fence",)),
    ("a fence that is not closed", '```json\n{"a": 1}', {"a": 1}, ("fence",)),
    ("a fence's label alone", 'json\n{"a": 1}', {"a": 1}, ("fence label",)),
    ("a trailing comma", '{"a": [1, 2,],}', {"a": [1, 2]}, ("trailing comma",)),
    ("nothing but a comma", "{,}", {}, ("trailing comma",)),
    ("single quotes", "{'a': 'it\\'s'}", {"a": "it's"}, ("quotes", "invalid escapes")),
    ("an apostrophe in single quotes", "{'t': 'it's fine'}", {"t": "it's fine"}, ("quotes", "inner quotes")),
    ("curly quotes", "{“path”: “a.md”, ‘n’: 1}", {"path": "a.md", "n": 1}, ("quotes",)),
    ("Python literals", "{'a': True, 'b': None}", {"a": True, "b": None}, ("quotes", "Python literals")),
    ("a Python tuple", '{"a": ("x", 1)}', {"a": ["x", 1]}, ("Python literals",)),
    ("a Python text in three quotes", '{"a": """say "hi" now"""}', {"a": 'say "hi" now'}, ("Python literals",)),
    ("unquoted keys", '{a: 1, b-c: "x"}', {"a": 1, "b-c": "x"}, ("unquoted keys",)),
    ("a key that lost its first quote", '{"a": true, b": "x"}', {"a": True, "b": "x"}, ("unquoted keys",)),
    ("raw newlines", '{"a": "one\ntwo"}', {"a": "one\ntwo"}, ("raw newlines",)),
    ("NUL in a string", '{"a": "\x00"}', {"a": "\x00"}, ("raw newlines",)),
    ("missing closers", '{"a": {"b": ["c"', {"a": {"b": ["c"]}}, ("missing closers",)),
    ("a missing inner closer", '[[{"b": 1], {"c": 2}]', [[{"b": 1}], {"c": 2}], ("missing closers",)),
    ("a missing inner closer, at the end", '{"a": {"b": [1}}', {"a": {"b": [1]}}, ("missing closers",)),
    ("a wrong closer before the right one", '{"a": [1}]}', {"a": [1]}, ("surplus closers",)),
    ("surplus closers", '{"a": "b"}}]', {"a": "b"}, ("surplus closers",)),
    ("a closer of the wrong kind", '{"a": "b"]}', {"a": "b"}, ("surplus closers",)),
    ("a closer too many inside", '{"x": [{"a": 1}}, {"a": 2}]}', {"x": [{"a": 1}, {"a": 2}]}, ("surplus closers",)),
    ("encoded twice", '"{\\"a\\": 1}"', {"a": 1}, ("encoded twice",)),
    ("text that begins like an object", '"{oops"', "{oops", ()),
    ("escaped quotes all over", '{\\"a\\": \\"b\\"}', {"a": "b"}, ("encoded twice",)),
    ("a drive path", r'{"path": "C:\bin\app.exe"}', {"path": "C:\\bin\\app.exe"}, ("drive path",)),
    ("a drive path with \\u", r'{"path": "C:\users\new"}', {"path": "C:\\users\\new"}, ("drive path",)),
    ("a regular expression", r'{"p": "id=\d+\s*\n"}', {"p": "id=\\d+\\s*\n"}, ("invalid escapes",)),
    ("comments", '{"a": 1, // one\n "b": 2 /* two */}', {"a": 1, "b": 2}, ("comments",)),
    ("a missing comma", '{"a": "x" "b": 2}', {"a": "x", "b": 2}, ("missing comma",)),
    ("a product", '{"seconds": 60 * 60, "n": 2 + 3}', {"seconds": 3600, "n": 5}, ("arithmetic",)),
    ("a product round a blank that is a control character", '{"n": 2\x1e* 3}', {"n": 6}, ("arithmetic",)),
    ("numbers of other languages", '{"a": +5, "b": .5, "c": 1_000}', {"a": 5, "b": 0.5, "c": 1000}, ("number form",)),
    (
        "quotes that nobody escaped, in the last string",
        '{"path": "m.js", "content": "use "strict"; var n = "1";"}',
        {"path": "m.js", "content": 'use "strict"; var n = "1";'},
        ("inner quotes",),
    ),
    (
        "such quotes and raw newlines",
        '{"f": {"path": "i.html", "content": "\n<html lang="en">\n</html>\n"}}',
        {"f": {"path": "i.html", "content": '\n<html lang="en">\n</html>\n'}},
        ("raw newlines", "inner quotes"),
    ),
    (
        "quotes that nobody escaped, and closers among them",
        '{"a": {"c": "say "hi"} now"}}',
        {"a": {"c": 'say "hi"} now'}},
        ("inner quotes",),
    ),
    ("one key twice", "{'a': 1, 'a': 2}", {"a": 2}, ("quotes", "duplicate keys")),
    ("a pair of surrogates", "{'a': '\\ud83d\\ude00'}", {"a": "😀"}, ("quotes",)),
    ("a character as Python writes it", "['\\x1f\\U0001f600']", ["\x1f😀"], ("quotes", "invalid escapes")),
    ("a lone surrogate", "{'a': '\\ud800'}", {"a": "\ud800"}, ("quotes",)),
]


@pytest.mark.parametrize(("text", "value", "liberties"), [row[1:] for row in LENIENT], ids=[row[0] for row in LENIENT])
def test_what_models_write_is_read_with_its_liberties(text: str, value: Json, liberties: tuple[str, ...]) -> None:
    parsed = parse(text)
    assert parsed is not None
    assert parsed.value == value
    assert set(parsed.liberties) == set(liberties)


UNREADABLE = [
    "",
    "hello",
    "Let me see: {",
    '{"a": 1}, {"b": 2}',
    '{"a": 1} and more',
    '{"a": city}',
    '{"a": 12px}',
    '[1.5em, "b"]',
    '{\\"a\\": city town}',
    '{"a": 007}',
    '{"a": "\\x1b[31m"}',
    '{"date": 2026-07-14}',
    '{"a": NaN}',
    '{"a": -Infinity}',
    '{"a": 1e999}',
    '{"a": ["first ,"mode": second"]}',
    '{"a": "first ,"mode": second"}',
    '{"a": [{"b": 1], "c": 2}',
    '{"a": [{"b": 1], {"b": 2}]',
    '{"a": "x" y, "b": "z"}',
    '{"a": ["x" "y"]}',
    '{"a": "x" + "y"}',
    "{a}",
    "[1,,2]",
    "foo(x=1])",
    "[" * 100 + "]" * 100 + ",",
    '{"a": ' + "9" * 10_000 + "}",
]


@pytest.mark.parametrize("text", UNREADABLE)
def test_what_would_have_to_be_guessed_is_not_read(text: str) -> None:
    assert parse(text) is None


CUT = [
    '{"a": "x',
    '{"a": "x\\',
    '{"a',
    '{"a":',
    '{"a": "b",',
    "{",
    "[",
    '{"a": tru',
    '{"a": [1, {"b": "c',
    "{'a': 'it",
    "{“a”: “b",
    '{"filePath":": [.',
    '{"a": """x',
    '```json\n{"a": "x',
    '{"a": 1 "b',
    '{"a": "x" "b',
]


@pytest.mark.parametrize("text", CUT)
def test_nothing_that_was_cut_is_completed(text: str) -> None:
    assert parse(text) is None
    assert is_cut(text)


@pytest.mark.parametrize("text", ['{"a": 1}', '{"a": "x"', '{"a": {"b": true', "[[]", "hello", '{"a": city}', ""])
def test_a_text_is_not_cut_when_only_closers_are_missing_or_nothing_is_open(text: str) -> None:
    assert not is_cut(text)


@pytest.mark.parametrize("text", ['{"a": 12', "[1, 2", '{"a": [1.5'])
def test_a_number_at_the_end_may_be_cut_or_whole(text: str) -> None:
    """Only who knows why the text ended can tell."""
    assert parse(text) is not None
    assert is_cut(text)


PREFIXES: list[tuple[str, int, Json, int]] = [
    ('{"a": 1}</tool_call>', 0, {"a": 1}, 8),
    ('x {"a": 1} y', 1, {"a": 1}, 10),
    ("{'a': 1}{'b': 2}", 8, {"b": 2}, 16),
    ('[{"a": "b"}] tail', 0, [{"a": "b"}], 12),
    ('{"c": "say "hi" now"}</tool_call>', 0, {"c": 'say "hi" now'}, 21),
    ('{"a": "b"', 0, {"a": "b"}, 9),
]


@pytest.mark.parametrize(("text", "start", "value", "end"), PREFIXES)
def test_a_value_is_read_from_a_position_whatever_follows(text: str, start: int, value: Json, end: int) -> None:
    found = parse_prefix(text, start)
    assert found is not None
    assert (found[0].value, found[1]) == (value, end)


@pytest.mark.parametrize("text", ['"text"', "12", "x {}", "", '{"a": "x', "{a}"])
def test_only_an_object_or_a_list_begins_at_a_position(text: str) -> None:
    assert parse_prefix(text) is None


HOSTILE = [
    "[" * 1_000_000,
    "{" * 1_000_000,
    '"' * 1_000_000,
    '{"a":' * 200_000,
    "{'a':'" * 150_000,
    '{"a":"' + '\\"' * 500_000,
    '{"a":"b"c' * 100_000,
    "[" + '"a"b,' * 200_000,
    "/*" * 500_000,
    '{"a": "' + '"}' * 400_000,
    "```json\n" * 100_000,
    '\\"' * 500_000,
    '{\\"' * 300_000,
    "9" * 1_000_000,
]


@pytest.mark.parametrize("text", HOSTILE, ids=[text[:9] for text in HOSTILE])
def test_a_megabyte_of_hostile_text_is_settled_at_once(text: str) -> None:
    """Processor time, not the clock: quadratic reading would take minutes."""
    start = time.process_time()
    assert parse(text) is None
    parse_prefix(text)
    is_cut(text)
    assert time.process_time() - start < 5
