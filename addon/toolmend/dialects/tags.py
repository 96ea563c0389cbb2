"""Tell the markers of all dialects: what opens a call, what closes it, what only stands around."""

from __future__ import annotations

import re
from dataclasses import dataclass
from difflib import SequenceMatcher
from functools import lru_cache
from typing import Final, Literal

from toolmend.dialects.positions import blank_end
from toolmend.dialects.source import READING, Source, words

Kind = Literal["open", "weak", "close", "inner", "end", "think", "harmony", "function", "name", "tool", "separator"]

TAG = re.compile(
    r"(?:\]<\]minimax\[>\[)?<(?P<close>\s?(?:\\?/|\\))?\s?(?P<lead>[|｜‖]{0,2})(?P<slash>/?)\s?(?P<dsml>DSML\s?[|｜‖]{1,2}\s?)?"
    r"(?P<name>[A-Za-z_-][\w:.▁-]*+)(?P<attributes>[^<>]{0,400}?)(?P<empty>/)?\s?(?P<trail>[|｜‖]{0,2})>"
)
BEGIN = re.compile(r"\]<\]m|<[\s/\\|｜‖A-Za-z_-]")
PARTIAL_TAG = re.compile(
    r"(?:\](?:<(?:\](?:m[inmax]*+(?:\[(?:>(?:\[)?)?)?)?)?)?)?(?P<angle><?)\s?/?\s?(?P<lead>[|｜‖]{0,2})\s?"
    r"(?P<name>[\w:.▁-]*+)(?P<attributes>[^<>]{0,400})\Z"
)
WORDS_INSIDE = re.compile(r"\s+[\w-]+\s+[\w-]")
UNCLOSED = re.compile(r"<[|｜‖]{0,2}(?:DSML[|｜‖]{1,2})?([\w▁:]{4,40}+)(?:[|｜‖]{1,2}\s*+|\s++|(?=<))(?=[<{\[])")
BARE_FUNCTION = re.compile(r"<(invoke|function)>\s*+(?=\{)")
UNCLOSED_FUNCTION = re.compile(r"<function[=(]\s*[\"']?(?P<label>[\w.:/-]{1,100})[\"']?[\s,)(]*(?=\{)")
BRACKETS: Final[dict[str, Kind]] = {
    "[TOOL_CALLS]": "open",
    "[TOOL_CALL]": "open",
    "[TOOL_CALL_START]": "open",
    "[TOOL_CALL_END]": "close",
    "[TOOL_REQUEST]": "open",
    "[END_TOOL_REQUEST]": "close",
    "[/TOOL_CALLS]": "close",
    "[/TOOL_CALL]": "close",
    "[ARGS]": "separator",
    "[THINK]": "think",
    "[/THINK]": "think",
}
BRACKET = re.compile(r"\[(?:/?TOOL_CALLS?|TOOL_CALL_(?:START|END)|/?THINK|ARGS|(?:END_)?TOOL_REQUEST)\]")
CALL_ID = re.compile(r"\[CALL_ID\][^\[\]{}<>]{0,64}")

VENDOR = re.compile(r"(?:minimax|seed|atem|antml|anthropic|steptml|xai|longcat|muse|ns\d?)[:_]", re.IGNORECASE)
JOINTS = re.compile(r"[_▁.-]")
OPENERS: Final = words(
    "toolcall toolcalls functioncall functioncalls toolcallstart toolcallsstart toolcallbegin toolcallsbegin "
    "toolcallssectionbegin toolcallsectionbegin startfunctioncall pythontag pythonstart toolsprefix actionstart plugin "
    "startaction toolcallssection toolcode functioncallbegin"
)
CLOSERS: Final = words(
    "toolcallend toolcallsend toolcallssectionend toolcallsectionend endfunctioncall "
    "startfunctionresponse pythonend toolssuffix actionend "
    "endaction endoftoolcall functioncallend"
)
ENDS: Final = words(
    "imend endoftext eotid eomid eot eom end call return endofsentence endofturn turn endturn endresponse "
    "imstart startheaderid endheaderid startresponse eos s observation user assistant answer response "
    "assistantend stop"
)
SEPARATORS: Final = words("toolsep toolcallargumentbegin toolcallargumentsbegin argumentbegin argsep")
HARMONY: Final = words("start channel message constrain from recipient content open")
THINKING: Final = words("think thinking thought reasoning startthinking endthinking reflection")
WEAK: Final = words("tools tool response call tooluse tooluses usetool usemcptool answer xml calls functions action")
FUNCTIONS: Final = words("function invoke")
NAMES: Final = words("name toolname functionname")
PARAMETERS: Final = words("parameter param argument arg argkey argvalue parameters arguments args input")
KNOWN: Final = OPENERS | CLOSERS | SEPARATORS | THINKING | WEAK | FUNCTIONS | NAMES | PARAMETERS | HARMONY | ENDS

CALLED: Final = "functions."
NAMED = re.compile(
    r"\s*=\s*[\"'“”‘’]?(?P<bare>[^\"'“”‘’<>]*)|.*?\b(?:name|tool|key|function)\s*=\s*[\"'“”‘’]?(?P<name>[^\"'“”‘’<>]*)"
)
THOUGHT: Final = 600
"""How long a thought at the beginning of the text may be to be dropped with the call behind it: longer ones flow."""
THOUGHT_END = re.compile(r"</\w*:?think\w*>|<\|END_THINKING\|>|</thought>|</reasoning>|\[/THINK\]")
CHANNEL_THOUGHT = re.compile(r"<\|channel>\s*(?:thought|analysis)\b")


@dataclass(frozen=True, slots=True)
class Tag:
    """Hold one marker of the text: its kind, its name without vendor, joints and case, where it begins and ends.

    `label` is the value that it names (`<function=LABEL>`, `<invoke name="LABEL">`); `special` says that it is a token
    of the model's own, which nobody types. `wrapped` keeps the vendor's or the token's mark.
    """

    kind: Kind
    name: str
    start: int
    end: int
    label: str = ""
    closing: bool = False
    special: bool = False
    empty: bool = False
    attributes: str = ""
    dsml: bool = False
    written: str = ""

    def moved(self, start: int, end: int) -> Tag:
        """Return the same marker at another place."""
        values = (self.label, self.closing, self.special, self.empty, self.attributes, self.dsml, self.written)
        return Tag(self.kind, self.name, start, end, *values)


NEAR_LENGTH: Final = 3
NEARNESS: Final = 0.8
"""How alike two names must be for one to be the other misspelt: a share of their letters, in order."""
UNKNOWN: Final = "unknown"
PLAIN_TAG = re.compile(r"</?([A-Za-z][\w.-]*+)[\s>]")
KNOWN_NAMES: Final = KNOWN | {"dsml", "sep", "close"}


@lru_cache(maxsize=1024)
def plain(name: str) -> str:
    """Return a tag's name without vendor, joints and case."""
    return JOINTS.sub("", VENDOR.sub("", name.removesuffix(":opensource"))).lower()


def label_of(attributes: str) -> str:
    """Return the name that a tag's attributes give: `=NAME`, ` name="NAME"`."""
    match = NAMED.match(attributes)
    return (match["bare"] or match["name"] or "").strip() if match else ""


def tag_at(source: Source, at: int) -> Tag | None:
    """Return the marker at the position; None when there is none that a dialect knows."""
    if at not in source.tags_at:
        source.tags_at[at] = _tag_at(source, at)
    found: Tag | None = source.tags_at[at]
    return found


def _tag_at(source: Source, at: int) -> Tag | None:
    text = source.text
    if text.startswith("[", at):
        return _bracket(text, at)
    if BEGIN.match(text, at) is None:
        return None
    if opener := _unclosed_opener(text, at):
        return opener
    match = TAG.match(text, at)
    if match is None:
        return None
    known = source.tags.get(match[0], UNKNOWN)
    if isinstance(known, str):
        known = source.tags[match[0]] = _tag(source, match)
    return known.moved(at, match.end()) if known is not None else None


def is_strange(source: Source, at: int) -> bool:
    """Tell whether a tag stands here that is no marker, as in HTML."""
    tag = PLAIN_TAG.match(source.text, at)
    if tag is None:
        return False
    name = tag[1]
    strange = source.strange.get(name)
    if strange is None:
        known = source.offered(name) or plain(name) in KNOWN_NAMES or VENDOR.match(name)
        strange = source.strange[name] = not known
    return strange


def _bracket(text: str, at: int) -> Tag | None:
    if match := BRACKET.match(text, at):
        closing = match[0].startswith("[/")
        return Tag(BRACKETS[match[0]], plain(match[0].strip("[]/")), at, match.end(), closing=closing, special=True)
    if match := CALL_ID.match(text, at):
        return Tag("separator", "callid", at, match.end(), special=True)
    return None


def _unclosed_opener(text: str, at: int) -> Tag | None:
    """Read `<functioncall {…}>`, `<function=NAME{…}`: an opener that is closed behind its payload, or never."""
    if function := UNCLOSED_FUNCTION.match(text, at):
        return Tag("function", "function", at, function.end(), function["label"])
    if match := BARE_FUNCTION.match(text, at):
        return Tag("open", match[1], at, match.end())
    match = UNCLOSED.match(text, at)
    if match and plain(match[1]) in OPENERS:
        return Tag("open", plain(match[1]), at, match.end(), special=text[at + 1] in "|｜‖")
    return None


def _tag(source: Source, match: re.Match[str]) -> Tag | None:
    name, written = plain(match["name"]), match["name"]
    closing, special = bool(match["close"] or match["slash"]), bool(match["lead"] or match["trail"] or match["dsml"])
    label = label_of(match["attributes"]) or _called(source, written)
    kind = _kind(source, match, name, closing=closing, label=label)
    if kind is None:
        return None
    if match["trail"] and not match["lead"] and not closing and (name in OPENERS or kind == "think"):
        # Gemma: <|tool_call> opens, <tool_call|> closes.
        kind, closing = kind if kind == "think" else "close", True
    return Tag(
        kind,
        name,
        match.start(),
        match.end(),
        label=label,
        closing=closing,
        special=special or bool(VENDOR.match(written)) or match[0].startswith("]"),
        empty=bool(match["empty"]),
        attributes=match["attributes"],
        dsml=bool(match["dsml"]),
        written=written,
    )


def _called(source: Source, written: str) -> str:
    """Return the tool that a tag names by itself: `<functions.NAME:0>`, as Kimi writes it."""
    if not written.startswith(CALLED):
        return ""
    name = source.clean_name(written)
    return name if source.offered(name) else ""


def _kind(source: Source, match: re.Match[str], name: str, *, closing: bool, label: str) -> Kind | None:
    attributes, bars = match["attributes"].strip(), bool(match["lead"] or match["trail"])
    if not bars and WORDS_INSIDE.match(match["attributes"]):
        return None
    if not closing and source.offered(match["name"]) and name not in OPENERS | THINKING:
        return "tool"
    if label and not attributes and match["name"].startswith(CALLED):
        return "function"
    if name in OPENERS:
        if closing or match["empty"]:
            return "close"
        return "function" if label and not bars else "open"
    if name in CLOSERS:
        return "close"
    if name == "toolsep":
        return "separator"
    if match["dsml"] and name not in FUNCTIONS | PARAMETERS:
        return "close" if closing else "open"  # a section's name, whatever version's
    if name == "channel" and match["trail"] and not match["lead"]:
        return "think"
    if bars and name not in FUNCTIONS | PARAMETERS and (found := _token(name, closing=closing and bool(match["lead"]))):
        return found
    if name in THINKING:
        return "think"
    if name in FUNCTIONS:
        return "inner" if closing else "function"
    if name in PARAMETERS:
        return "inner"
    if closing and (source.offered(match["name"]) or name in NAMES):
        return "inner"
    if name in NAMES and not attributes:
        return "name"
    if name in WEAK and not closing and label:
        return "function"
    if name in WEAK or (name == "s" and closing):
        return "end" if closing else "weak"
    return None


def _token(name: str, *, closing: bool) -> Kind | None:
    if name in SEPARATORS or name in ("sep", "close"):
        return "separator"
    if name in HARMONY:
        return "harmony"
    if name in ENDS or closing:
        return "end"
    return None


def may_become_tag(source: Source, at: int) -> bool:
    """Tell whether the text's end, from the position on, may be the beginning of a marker."""
    match = PARTIAL_TAG.match(source.text, at) if len(source.text) - at <= 460 else None
    if match is None:
        return False
    if match["lead"] and len(match["name"]) < 60:
        return True
    name, attributes = match["name"], match["attributes"]
    if attributes and not match["lead"] and WORDS_INSIDE.match(attributes):
        return False
    if attributes:
        return plain(name) in KNOWN or source.offered(name)
    return may_be_name(source, name)


def may_be_name(source: Source, name: str) -> bool:
    """Tell whether a tag's name may begin like this."""
    if any(tool.name.startswith(name) for tool in source.tools):
        return True
    if CALLED.startswith(name) or name.startswith(CALLED):
        return source.may_be_tool(name.removeprefix(CALLED).partition(":")[0]) or len(name) < len(CALLED)
    head, colon, tail = name.rpartition(":")
    lowered = plain(head if colon and "opensource".startswith(tail) else name)
    if any(known.startswith(lowered) for known in KNOWN):
        return True
    vendors = ("minimax:", "seed:", "atem:", "antml:", "anthropic:", "steptml:", "xai:", "longcat_", "muse:", "ns1:")
    return any(vendor.startswith(name.lower()) for vendor in vendors)


@dataclass(slots=True)
class Trivia:
    """Hold what stood between two payloads: how many containers were opened less closed, and the last opener."""

    end: int
    depth: int = 0
    opener: Tag | None = None
    weak: Tag | None = None
    inner: bool = False
    seen: bool = False
    behind: bool = False


def skip_trivia(source: Source, at: int, depth: int = 0, *, behind: bool = False) -> Trivia:
    """Go over blanks, separators, end tokens, openers, closers and a short thought; tell which were there.

    `behind` says that calls were read before the position.
    """
    trivia = Trivia(blank_end(source.text, at), depth, behind=behind)
    while (tag := _next_trivia(source, trivia)) is not None:
        trivia.seen = True
        source.spend(READING)
        if tag.kind == "open":
            trivia.depth += 1
            trivia.opener = tag
        elif tag.kind == "weak":
            trivia.weak = tag
        elif tag.kind == "close":
            trivia.depth = max(trivia.depth - 1, 0)
        trivia.inner = trivia.inner or (tag.kind == "inner" and tag.closing)
        trivia.end = blank_end(source.text, tag.end)
    return trivia


PARTIAL_CLOSER = re.compile(r"<(?:/[|｜‖]?|[|｜‖])[\w▁:|｜]{0,40}\Z|<\Z")
SEPARATOR = re.compile(r"[;,>](?=\s*[\[{<\n]|\s*\Z)")
SURPLUS = re.compile(r"[}\])]++(?=\s*(?:<[|｜/]|\Z))")
RESULTS = re.compile(
    r"(?:<[|｜‖]?(?:tool|function)s?[_▁ ]?(?:call[_▁])?(?:responses?|results?|outputs?)(?:[_▁](?:begin|start))?[|｜‖]?>"
    r"|<\|start_header_id\|>\s*(?:ipython|tool)\s*<\|end_header_id\|>|<\|im_start\|>\s*tool\b).*",
    re.DOTALL | re.IGNORECASE,
)
LAST_FENCE = re.compile(r"`{3,}\s*\Z")
ROLE = re.compile(r"<\|im_start\|>\s*assistant\b|<\|start_header_id\|>\s*assistant\s*<\|end_header_id\|>")
HEADER = re.compile(
    r"(?:<\|start\|>\s*+\w*+\s*+)?to=[\w.:/-]{1,100}+\s*+(?:<\|(?:channel|constrain)\|>\s*+\w*+\s*+)*+"
    r"<\|message\|>\s*+(?=<|\Z)"
)
ROLE_WORD = re.compile(r"assistant[ \t]*\n\s*(?=[{\[<]|\Z)")
CLOSED: Final = ("toolcall", "toolcalls", "function", "functioncalls", "invoke")
LAST_CLOSER = re.compile(r"(?:<\s?[/\\]|/)\s?[|｜‖]{0,2}(?P<name>[A-Za-z_▁:-]{3,40}+)[|｜‖]{0,2}>\s*+\Z")
SERVER = re.compile(r"<server_name>[^<>]{0,100}</server_name>")
SQUARE_END = re.compile(r"\[\|\w{3,40}\|\]")
STRAYS: Final = {
    "a": (ROLE_WORD,),
    **dict.fromkeys(";,>", (SEPARATOR,)),
    "t": (HEADER,),
    "[": (SQUARE_END,),
    "<": (HEADER, ROLE, PARTIAL_CLOSER, SERVER),
}
BEHIND: Final = {**dict.fromkeys("}])", (SURPLUS,)), "`": (LAST_FENCE,), "<": (RESULTS,)}


def _next_trivia(source: Source, trivia: Trivia) -> Tag | None:
    text, at = source.text, trivia.end
    character = text[at : at + 1]
    for pattern in (*STRAYS.get(character, ()), *(BEHIND.get(character, ()) if trivia.behind else ())):
        if match := pattern.match(text, at):
            return Tag("end", character, at, match.end())
    if character == "/" and trivia.behind:
        return _misspelt_closer(text, at)
    if character not in ("<", "[", "]"):
        return None
    if thought := thought_at(source, at):
        return thought
    tag = tag_at(source, at)
    if tag is None:
        return _misspelt_closer(text, at) if trivia.behind else None
    if tag.kind in ("open", "weak", "close", "end") or (tag.kind == "inner" and tag.closing):
        return tag
    if tag.kind == "think" and tag.closing:
        return tag
    return None


def _misspelt_closer(text: str, at: int) -> Tag | None:
    """Return a call's closer with a letter wrong, or without its first bracket, that ends the text."""
    closer = LAST_CLOSER.match(text, at)
    if closer is None or not any(is_near(plain(closer["name"]), name) for name in CLOSED):
        return None
    return Tag("end", "closer", at, closer.end(), closing=True)


def is_near(written: str, name: str) -> bool:
    """Tell whether a tag's name is another with a letter or two wrong, or its beginning."""
    if len(written) < NEAR_LENGTH:
        return False
    return name.startswith(written) or SequenceMatcher(None, written, name).ratio() >= NEARNESS


def thought_at(source: Source, at: int) -> Tag | None:
    """Return the whole of a short thought that begins at the position."""
    text = source.text
    if CHANNEL_THOUGHT.match(text, at):
        end = text.find("<channel|>", at, at + THOUGHT)
        return Tag("think", "channel", at, end + 10) if end >= 0 else None
    tag = tag_at(source, at)
    if tag is None or tag.kind != "think":
        return None
    if tag.closing or tag.name == "endthinking":
        return Tag("think", tag.name, at, tag.end, closing=True)
    source.spend(THOUGHT // 4)
    match = THOUGHT_END.search(text, tag.end, min(len(text), at + THOUGHT))
    return Tag("think", tag.name, at, match.end()) if match else None
