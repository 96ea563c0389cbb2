"""Take persons and secrets out of bodies: what is replaced gets the same form, the same everywhere in one file.

A neutral value has as many characters as what it stands for, each of the same class (digit, letter of the same case,
hexadecimal letter), so quoting, escapes, types, byte lengths and the cuts of a stream stay as they were: a broken call
stays broken in the same way. A value is found in every text that a body holds (`body_texts`) and changed in place.
"""

from __future__ import annotations

import json
import random
import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from toolmend.body_texts import View, decode, views
from toolmend.private_values import Found, find

CLASSES: Final = ("abc", "def", "ghijklmnopqrstuvwxyz", "ABCDEF", "GHIJKLMNOPQRSTUVWXYZ", "123456789")
CLASS_OF: Final = {char: chars for chars in CLASSES for char in chars}
# By how many bytes UTF-8 writes them in: a letter is replaced by one that takes as many.
FOREIGN_LETTERS: Final = {2: "éüñøç", 3: "一中文字人", 4: "𐐀𐐁𐐂𐐃𐐄"}
ESCAPE_LETTERS: Final = "bfnrtux"


def _neutral_char(char: str, dice: random.Random) -> str:
    if not char.isalnum() or char == "0":
        return char
    choices = CLASS_OF.get(char) or FOREIGN_LETTERS.get(len(char.encode("utf-8", "surrogatepass")), char)
    chosen = dice.randrange(len(choices))
    return choices[chosen] if choices[chosen] != char else choices[(chosen + 1) % len(choices)]


def _neutral_word(word: str, seed: str) -> str:
    dice = random.Random(seed)
    return "".join(_neutral_char(char, dice) for char in word)


def _neutral_octets(text: str, seed: str) -> str:
    """Return another IPv4 address with octets of as many digits."""
    dice = random.Random(seed)
    ranges = {1: (1, 9), 2: (10, 99), 3: (100, 199)}
    octets = []
    for octet in text.split("."):
        low, high = ranges[len(octet)]
        octets.append(octet if octet == "0" else str(dice.choice([n for n in range(low, high + 1) if str(n) != octet])))
    return ".".join(octets)


@dataclass(slots=True)
class Redactor:
    """Replace what is a person's or secret, the same way in all bodies of one file.

    Give it all bodies through `learn` first, then take each out of `redact`. `vocabulary` holds the words that must
    stay (names of tools and parameters, values of enums): random-looking or keyed values that equal one are no secrets.

    What stands for a value depends on how many were found before it and on its form, not on the value: all that it
    tells is that none of its letters is the one that stood there.
    """

    vocabulary: frozenset[str] = frozenset()
    kinds: Counter[str] = field(default_factory=Counter)
    _neutral: dict[tuple[str, str], str] = field(default_factory=dict)
    _bodies: dict[bytes, tuple[View, list[View]]] = field(default_factory=dict)
    _literal: re.Pattern[str] | None = None
    _by_text: dict[str, tuple[str, str]] = field(default_factory=dict)

    def learn(self, body: bytes) -> None:
        """Note what has to be replaced in a body, so that it is replaced in the others too."""
        for view in self._shown(body)[1]:
            for start, end, kind in self._find(view):
                secret = view.text[start:end]
                if (kind, secret) not in self._neutral:
                    self._neutral[kind, secret] = self._make(kind, secret)
                    self.kinds[kind] += 1
        self._literal = None

    def redact(self, body: bytes) -> bytes:
        """Return a body with neutral values, byte for byte as long as it was."""
        root, found = self._shown(body)
        pattern = self._literals()
        for view in sorted(found, key=lambda view: -view.depth):
            guarded = view.guarded()
            spans = [
                (found.start, found.end, self._neutral[found.kind, view.text[found.start : found.end]])
                for found in self._find(view)
            ]
            if pattern is not None:
                spans += [
                    (*match.span(), self._neutral[self._by_text[match.group()]])
                    for match in pattern.finditer(view.text)
                ]
            for start, end, neutral in sorted(spans, key=lambda span: span[0] - span[1]):
                for at in range(start, end):
                    if at not in guarded:
                        view.put(at, neutral[at - start])
        return "".join(root.chars).encode("utf-8", "surrogateescape")

    def _shown(self, body: bytes) -> tuple[View, list[View]]:
        """Show a body and its texts, once: learning and redacting look at the same."""
        if body not in self._bodies:
            root = decode(body)
            self._bodies[body] = root, views(root)
        return self._bodies[body]

    def text(self, text: str) -> str:
        """Return a plain text with neutral values."""
        body = json.dumps([text]).encode()
        self.learn(body)
        changed: list[str] = json.loads(self.redact(body))
        return changed[0]

    def _find(self, view: View) -> Iterator[Found]:
        """Find what to replace in a view, without the escapes that stand before it."""
        guarded = view.guarded()
        keyed = (Found(0, len(view.text), "secret"),) if view.keyed and len(view.text) >= 6 else ()
        for start, end, kind in keyed + find(view.text):
            # (A user's name keeps a first letter that may be an escape: see `_make`.)
            while start < end and start in guarded and kind != "user":
                start += 1
            secret = view.text[start:end]
            if start < end and not (kind in ("secret", "host") and secret in self.vocabulary):
                yield Found(start, end, kind)

    def _literals(self) -> re.Pattern[str] | None:
        """Return what finds every known value where its surroundings do not tell it."""
        if self._literal is None:
            self._by_text = {}
            for kind, secret in self._neutral:
                if _stands_alone(kind, secret):
                    self._by_text.setdefault(secret, (kind, secret))
            if self._by_text:
                longest_first = sorted(self._by_text, key=len, reverse=True)
                self._literal = re.compile("|".join(rf"(?<!\w){re.escape(secret)}(?!\w)" for secret in longest_first))
        return self._literal

    def _make(self, kind: str, secret: str) -> str:
        """Make the neutral value for the next secret of a kind."""
        seed = f"{kind}{len(self._neutral)}"
        match kind:
            case "mail":
                local, _, host = secret.rpartition("@")
                return f"{_neutral_word(local, seed)}@{self._host(host)}"
            case "host":
                return self._host(secret)
            case "address" if secret.count(".") == 3 and ":" not in secret:
                return _neutral_octets(secret, seed)
            case "user":
                # A backslash before the name makes an escape of these letters: they stay, everywhere.
                kept = secret[:1] if secret[:1] in ESCAPE_LETTERS else ""
                return kept + _neutral_word(secret[len(kept) :], seed)
            case "number":
                first = re.search(r"\d", secret)
                kept = secret[: first.end()] if first else ""
                return kept + _neutral_word(secret[len(kept) :], seed)
            case _:
                return _neutral_word(secret, seed)

    def _host(self, host: str) -> str:
        """Make a neutral host name, label by label, so that hosts of one domain stay hosts of one domain."""
        labels = host.split(".")
        kept = labels[-1:] if len(labels) > 1 else []
        return ".".join([self._label(label) for label in labels[: len(labels) - len(kept)]] + kept)

    def _label(self, label: str) -> str:
        key = ("label", label)
        if key not in self._neutral:
            self._neutral[key] = _neutral_word(label, f"label{len(self._neutral)}")
        return self._neutral[key]


def _stands_alone(kind: str, secret: str) -> bool:
    """Tell whether a value is what it is wherever it stands; a user's name, or a password that is a word, is not."""
    if kind == "secret":
        return len(secret) >= 6 and re.search(r"[^A-Za-z_-]", secret) is not None
    sure = kind in ("mail", "address", "number", "key", "token") or (kind == "host" and "." in secret)
    return sure and len(secret) >= 6
