"""Know what counts as a person's or a secret in a text: addresses, hosts, users, numbers, tokens and keys.

Tokens and keys are found by the patterns of detect-secrets, which is loaded at the first use (about 0.2 s), and by some
that it has not.
"""

from __future__ import annotations

import ipaddress
import math
import re
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, lru_cache
from importlib import import_module
from typing import Final, NamedTuple


class Found(NamedTuple):
    """Hold where a text holds something to replace, and what kind of thing it is."""

    start: int
    end: int
    kind: str


@dataclass(frozen=True, slots=True)
class Pattern:
    """Hold one way to find a kind of thing: the group that is replaced (0: all), and what else must be true of it."""

    kind: str
    regex: re.Pattern[str]
    group: int = 0
    holds: Callable[[str], bool] = bool


NEUTRAL_HOST: Final = re.compile(
    r"(?:.*\.)?(?:localhost|test|invalid|example|example\.(?:com|org|net)|json-schema\.org|w3\.org|openapis\.org)",
    re.IGNORECASE,
)
NEUTRAL_NETWORKS: Final = tuple(
    ipaddress.ip_network(net)
    for net in (
        "127.0.0.0/8",
        "0.0.0.0/32",
        "192.0.2.0/24",
        "198.51.100.0/24",
        "203.0.113.0/24",
        "2001:db8::/32",
        "::/127",
    )
)


def _is_address(text: str) -> bool:
    try:
        address = ipaddress.ip_address(text.partition("%")[0])
    except ValueError:
        return False
    return not any(address in network for network in NEUTRAL_NETWORKS if network.version == address.version)


def _is_foreign_host(text: str) -> bool:
    return not NEUTRAL_HOST.fullmatch(text) and not re.fullmatch(r"[\d.]+", text)


def _is_foreign_mail(text: str) -> bool:
    return _is_foreign_host(text.rpartition("@")[2])


def _is_long_number(text: str) -> bool:
    digits = sum(char.isdigit() for char in text)
    return digits >= (7 if text[0] in "+(" else 9) and not re.fullmatch(r"\d+\.\d+", text)


def _is_random(text: str) -> bool:
    """Tell a word that no one would write: both cases, digits in several places, many different characters."""
    groups = re.findall(r"\d+", text)
    mixed = re.search(r"[a-z]", text) and re.search(r"[A-Z]", text)
    counts = Counter(text).values()
    entropy = -sum(count / len(text) * math.log2(count / len(text)) for count in counts)
    return bool(mixed) and len(groups) >= 2 and entropy >= 3.5


def _is_hex_key(text: str) -> bool:
    return bool(re.search(r"\d", text) and re.search(r"[a-fA-F]", text))


# Words that promise a secret: as the key of a value, before `=` or `:`, as a tag.
_KEYWORD: Final = (
    r"(?:api[_-]?key|access[_-]?key(?:[_-]?id)?|secret(?:[_-]?(?:access[_-]?)?key)?|private[_-]?key|account[_-]?key"
    r"|(?:auth|access|refresh|id|bearer|session|csrf|api|bot|npm|_auth)?[_-]?token|client[_-]?secret"
    r"|pass(?:word|wd|phrase)|pwd|credentials?|authorization|set-cookie|cookie|session(?:[_-]?id)?|sid|pin|otp|ssn|iban"
    r"|signature|sig)"
)
KEYWORD_KEY: Final = re.compile(rf"(?:\w*[_.-])?{_KEYWORD}", re.IGNORECASE)
_QUOTE: Final = r"(?:[\"']|<\|\"\|>|<escape>)?"
_LABEL: Final = r"[a-z0-9](?:[a-z0-9-]*[a-z0-9])?"
_SCHEME: Final = r"\b[a-z][a-z0-9+.-]{0,20}://"
_REMOTE: Final = r"\b(?:ssh|scp|sftp|mosh|rsync)\s[^\n\"']{0,80}?\b"
# Names of top-level domains that are no endings of files and no attributes of code, with one label before them…
_SURE_DOMAINS: Final = (
    "com|net|org|edu|gov|local|lan|corp|internal|intranet|localdomain|home\\.arpa|de|fr|nl|ch|uk|eu|cn|jp|ru|br"
)
# … and with two.
_OTHER_DOMAINS: Final = "io|ai|app|dev|cloud|co|me|info|xyz"
_HOST_ENDS: Final = r"(?![\w-]|\.\w|\()"
_VENDOR_PREFIXES: Final = (
    "sk|pk|rk|whsec|shpat|shpss|dop_v1|hf|xai|gsk|tvly|npm|pplx|nvapi|r8|ghp|github_pat"  # `hf_…`, `sk-…`
)


def _pattern(kind: str, regex: str, group: int = 0, holds: Callable[[str], bool] = bool, flags: int = 0) -> Pattern:
    return Pattern(kind, re.compile(regex, flags), group, holds)


PATTERNS: Final = (
    _pattern("key", r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY(?: BLOCK)?-----(.*?)(?:-----END|\Z)", 1, flags=re.DOTALL),
    _pattern("token", rf"\b(?:{_VENDOR_PREFIXES})[-_][A-Za-z0-9_-]{{16,}}"),
    _pattern("token", r"\b(?:AIza[\w-]{30,}|ya29\.[\w-]{20,}|EAA[A-Za-z0-9]{20,}|key-[0-9a-f]{32})"),
    _pattern("token", r"\b(?:Bearer|Basic|Digest|Token)\s+([A-Za-z0-9._~+/=-]{8,})", 1),
    _pattern(
        "secret",
        rf"(?<![A-Za-z0-9]){_KEYWORD}[\"']?\s*(?:[:=]|=>)\s*(?:(?:Bearer|Basic|Token)\s+)?{_QUOTE}"
        r"([^\s\"'\\,;&<>{}\[\]()$]{6,})",
        1,
        flags=re.IGNORECASE,
    ),
    _pattern("secret", rf"{_KEYWORD}(?:</arg_key>\s*<arg_value>|[\"']?>)\s*([^<\n]{{4,}})", 1, flags=re.IGNORECASE),
    _pattern("token", r"\beyJ[\w=-]{8,}\.[\w=-]+(?:\.[\w=+/.-]*)?"),
    _pattern("secret", r"(?:--?(?:password|passwd|token|api-key|secret)[= ]|\bsshpass -p ?)([^\s\"'\\]{6,})", 1),
    _pattern("token", rf"{_SCHEME}([^\s/:@\"'\\]+(?::[^\s/@\"'\\]*)?)@", 1, flags=re.IGNORECASE),
    _pattern("mail", r"(?<![\w.+%-])[\w.+%-]{1,100}@(?:[\w-]{1,63}\.){1,20}[^\W\d_]{2,}", 0, _is_foreign_mail),
    _pattern("host", rf"{_SCHEME}(?:[^\s/@\"'\\]*@)?([\w][\w.-]*[\w]|\w)", 1, _is_foreign_host, re.IGNORECASE),
    _pattern("host", rf"{_REMOTE}[\w.-]+@([\w][\w.-]*\w)", 1, _is_foreign_host),
    _pattern("user", rf"{_REMOTE}([\w.-]+)@[\w]", 1),
    _pattern("host", r"(?<![\\\w:])\\\\([A-Za-z][\w.-]*[\d.-][\w.-]*)(?=\\)", 1, _is_foreign_host),
    _pattern(
        "host",
        rf"(?<![\w@.$/\\-])(?:(?:{_LABEL}\.)+(?:{_SURE_DOMAINS})|(?:{_LABEL}\.){{2,}}(?:{_OTHER_DOMAINS})){_HOST_ENDS}",
        0,
        _is_foreign_host,
        re.IGNORECASE,
    ),
    _pattern("address", r"(?<![\w.])(?:\d{1,3}\.){3}\d{1,3}(?![\w]|\.\d)", 0, _is_address),
    _pattern("address", r"(?<![\w:.])(?:[0-9A-Fa-f]{1,2}[:-]){5}[0-9A-Fa-f]{2}(?![\w:])"),
    _pattern(
        "address",
        r"(?<![\w:.])(?=[0-9A-Fa-f]*:[0-9A-Fa-f]*:)[0-9A-Fa-f:]{3,}(?:\d+(?:\.\d+){3})?(?![\w:])",
        0,
        _is_address,
    ),
    _pattern("user", r"\b[A-Z]:[\\/]+Users[\\/]+([^\\/\"'<>|:*?\n]{1,40})(?=[\\/])", 1, flags=re.IGNORECASE),
    _pattern(
        "user",
        r"(?:/home/|/Users/|\b[A-Za-z]:[\\/]+Users[\\/]+|\bDocuments and Settings\\+)"
        r"([^\s/\\\"'`<>|:;,*?(){}\[\]&]+)",
        1,
    ),
    _pattern("user", r"(?<![\w~])~([A-Za-z_][\w.-]*)(?=/)", 1),
    _pattern("number", r"(?<![\w.])[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,3})?(?!\w)"),
    _pattern("number", r"(?<![\w.])\d{3}-\d{2}-\d{4}(?![\w-])"),
    _pattern("number", r"(?<![\w.])(?:\+|\()?\d+(?:[ ()/.-]{1,2}\d{2,})*(?!\w|\.\d)", 0, _is_long_number),
    _pattern("number", r"(?<![\d.])\d{9,}(?!\d|\.\d)"),
    _pattern("token", r"(?<![\w-])[0-9a-fA-F]{8}-(?:[0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}(?![\w-])"),
    _pattern("token", r"(?<!\w)(?:[0-9a-f]{32,}|[0-9A-F]{32,})(?!\w)", 0, _is_hex_key),
    _pattern("secret", r"(?<![\w+/=-])[\w+=-]{20,}(?![\w+/=-])", 0, _is_random),
)
_YEAR_FIRST: Final = r"\d{4}-\d\d-\d\d(?:[T ]\d\d(?::?\d\d){0,2}(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?"
DATES: Final = re.compile(rf"(?<!\d)(?:{_YEAR_FIRST}|\d{{4}}[./]\d\d?[./]\d\d?|\d\d?[./]\d\d?[./]\d{{4}})(?!\d)")
# The scanner's plugins whose whole match is the secret, and those whose last group is.
WHOLE_PLUGINS: Final = (
    *(
        "artifactory",
        "aws",
        "azure_storage_key",
        "discord",
        "github_token",
        "gitlab_token",
        "jwt",
        "mailchimp",
        "openai",
    ),
    *("pypi_token", "sendgrid", "slack", "square_oauth", "stripe", "telegram_token", "twilio"),
)
GROUP_PLUGINS: Final = ("aws", "basic_auth", "cloudant", "ibm_cloud_iam", "ibm_cos_hmac", "softlayer")


@cache
def patterns() -> tuple[Pattern, ...]:
    """Return all patterns, those of detect-secrets first: they are the most exact."""
    return (*_scanner_patterns(WHOLE_PLUGINS, whole=True), *_scanner_patterns(GROUP_PLUGINS, whole=False), *PATTERNS)


def _scanner_patterns(names: Sequence[str], *, whole: bool) -> Iterator[Pattern]:
    base = import_module("detect_secrets.plugins.base").RegexBasedDetector
    for name in names:
        module = import_module(f"detect_secrets.plugins.{name}")
        for plugin in vars(module).values():
            if isinstance(plugin, type) and issubclass(plugin, base) and plugin.__module__ == module.__name__:
                for regex in plugin().denylist:
                    if whole or regex.groups:
                        yield Pattern("token", regex, 0 if whole else regex.groups)


@lru_cache(maxsize=4096)
def find(text: str) -> tuple[Found, ...]:
    """Find what has to be replaced in a text, the surest kinds first."""
    dates = [match.span() for match in DATES.finditer(text)]
    found = []
    for pattern in patterns():
        for match in pattern.regex.finditer(text):
            start, end = match.span(pattern.group)
            dated = pattern.kind == "number" and any(a < end and start < b for a, b in dates)
            if start < end and not dated and pattern.holds(text[start:end]):
                found.append(Found(start, end, pattern.kind))
    return tuple(found)
