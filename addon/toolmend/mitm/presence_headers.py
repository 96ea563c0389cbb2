"""Name the two headers by which `toolmend doctor` sees that a request came through the addon."""

from typing import Final

QUESTION: Final = "x-toolmend-doctor"
ANSWER: Final = "x-toolmend"


def read_answer(value: str, word: str) -> dict[str, str] | None:
    """Read an answer: `version`, `mitmproxy` and `mode`. None when it is none, or does not give the word back."""
    version, *rest = (part.strip() for part in value.split(";"))
    fields = {"version": version, **dict(part.split("=", 1) for part in rest if "=" in part)}
    return fields if fields.pop("word", None) == word else None
