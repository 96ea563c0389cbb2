"""Say what a surface is: how one of the four APIs is read and written, whole and streamed.

A whole answer is a stream of one frame, so a `Codec` serves both; which one is made by `Surface.codec`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, Protocol

from toolmend.model import Event, Json, JsonObject, Request, ToolChoice, Turn

Framing = Literal["json", "ndjson", "sse"]


@dataclass(frozen=True, slots=True)
class Frame:
    """Hold one frame: its bytes as received (with its line ends), what they decode to, and what they add to the turn.

    `document` is None for frames that carry no JSON (`[DONE]`, comments, blank lines).
    """

    raw: bytes
    document: Json
    events: tuple[Event, ...]


class Codec(Protocol):
    """Read the frames of one answer and write the ones that replace what was held.

    Frames come through `read` in order. Of each, the exchange then says either `passed` (its bytes went out as they
    are) or keeps it for `write`. A codec keeps what both need: ids, indices, sequence numbers, what is still open.
    """

    def read(self, raw: bytes) -> Frame:
        """Decode one frame. Raises DecodeError when it is not this surface's."""

    def passed(self, frame: Frame) -> None:
        """Note that this frame went to the client as it is."""

    def write(self, turn: Turn, held: Sequence[Frame]) -> list[bytes]:
        """Write the frames that complete the turn for a client that has got the passed ones.

        Args:
            turn: The whole turn as the client shall see it. Its text and thinking begin with what was passed.
            held: The frames that were read and not passed, in order; the new frames take their place. Frames of
                unknown kinds among them pass as they are, in their order; closing frames (usage, `done`,
                `response.completed`, `[DONE]`) are patched; whatever is missing (an answer that broke off, an
                error in place of an answer: `held` may be empty, and nothing passed) is made.
        """


class Surface(Protocol):
    """Describe one API surface. Adding one is one file that fills this in, and one row in `SURFACES`."""

    name: str
    path: str
    streaming: Framing
    stream_type: str
    """Content type of a streamed answer, for an answer that takes the place of an error."""
    tappable: bool
    """Whether the server sends the tokens' text (`logprobs`) on this surface when asked."""
    finish_says_calls: bool
    """Whether the finish reason of an answer tells that there are calls."""

    def read_request(self, document: JsonObject) -> Request:
        """Read tools, tool choice, model and stream mode. Raises DecodeError when the body is not this surface's."""

    def codec(self, request: Request, framing: Framing) -> Codec:
        """Make the codec for one answer; `framing` is what the answer's content type says, not what was asked."""

    def unknown_choice(self, document: JsonObject) -> str | None:
        """Return a tool choice whose form we do not know, as text for a warning; None when it is fine or absent."""

    def with_tools(self, document: JsonObject, names: Sequence[str]) -> JsonObject:
        """Return a copy that offers only these tools, in their order; `tools` goes away when none is left."""

    def without_choice(self, document: JsonObject) -> JsonObject:
        """Return a copy without tool_choice and the parallel flag (the server reads neither)."""

    def with_choice(self, document: JsonObject, choice: ToolChoice) -> JsonObject:
        """Return a copy that asks for this choice in the surface's own form (for servers that honour it)."""

    def constrain(self, document: JsonObject, schema: JsonObject, max_tokens: int) -> JsonObject | None:
        """Return a copy that asks for one answer that fits the schema: not streamed, thinking off, capped.

        None when the surface cannot carry a schema (`/v1/messages`).
        """

    def untap(self, raw: bytes, first: bool) -> tuple[tuple[bytes, ...], str]:
        """Take the tapped tokens out of a frame.

        Args:
            raw: One frame of an answer to a request to which the tap (`logprobs`) was added.
            first: Whether no frame of this answer has been kept yet (the surface may have to move the role).

        Returns:
            The frames that would have come in its place without the tap (none: it came only for the tap; two: an
            opener that the tap made superfluous is put back), and the tokens' text, "" when it carries none; join them
            with `wire.join_tokens`. Surfaces that cannot be tapped return the frame and "".
        """

    def error_frame(self, message: str) -> bytes | None:
        """Make the frame that says an error in mid-stream; None where the server's own frame says it."""
