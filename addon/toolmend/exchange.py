"""Carry one request and its answer through the core: passing, holding, asking, done.

Bytes in; bytes or a question out. The shell gives the answer's bytes to `receive` as the network cuts them and sends
on what comes back; at the end `finish` gives the rest, or a `FollowUp` whose reply goes to `resume`. What has come and
has not gone is a list of received bytes at every moment (`unsent`): that list is the fail-open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

from toolmend.dialects.scanner import Scanner
from toolmend.follow_up import Answered, FollowUp, Questions, Reply
from toolmend.framing import Framer
from toolmend.model import (
    CallPart,
    DecodeError,
    EndPart,
    ErrorPart,
    Event,
    JsonObject,
    Outcome,
    Request,
    TextPart,
    ThinkingPart,
    Tool,
    Turn,
)
from toolmend.repair.ladder import repair_turn
from toolmend.settings import Settings
from toolmend.surfaces import SURFACES
from toolmend.surfaces.surface import Codec, Frame, Framing, Surface
from toolmend.surfaces.text_frames import TextFrames
from toolmend.surfaces.turn_builder import TurnBuilder
from toolmend.surfaces.wire import join_tokens
from toolmend.tool_choice import judge, prepare, read_envelope
from toolmend.upstreams import Server

FRAMINGS: Final[dict[str, Framing]] = {
    "application/x-ndjson": "ndjson",
    "text/event-stream": "sse",
    "application/json": "json",
}
FAR: Final = 1 << 62
LOST_ERROR: Final = "the server could not read the tool call that the model wrote"


def framing_of(content_type: str) -> Framing:
    """Tell how an answer is framed by its content type; what is unknown is one whole body."""
    return FRAMINGS.get(content_type.split(";")[0].strip().lower(), "json")


@dataclass(slots=True)
class Held:
    """Hold a frame that has not gone out: how much text and thinking had come with it, and whether it may go at all."""

    frame: Frame
    text_end: int
    thinking_end: int
    blocks: bool


@dataclass(slots=True)
class Watched:
    """Hold how much of the text (or the thinking) has come, and how much of it cannot become part of a call any more.

    `scans` says whether a call may stand in it, and must be waited for.
    """

    scans: bool
    safe: int
    fed: int = 0
    scanner: Scanner | None = None

    def feed(self, text: str, tools: Sequence[Tool]) -> None:
        """Take in what has come; when all that comes is safe, it is only counted."""
        self.fed += len(text)
        if self.scans and self.safe != FAR:
            if self.scanner is None:
                self.scanner = Scanner(tools)
            self.safe = self.scanner.feed(text)


class Exchange:
    """Take one request and its answer through repair.

    Args:
        surface: The API surface of the request.
        document: The request's body, decoded. It is never edited.
        settings: What the user set.
        server: What is known of the server, shared by all its exchanges; what this one learns is noted there.
        request: What the surface reads in the document, where that was read before.

    Raises:
        DecodeError: The body is not this surface's.
    """

    def __init__(
        self,
        surface: Surface,
        document: JsonObject,
        settings: Settings,
        server: Server,
        request: Request | None = None,
    ) -> None:
        self.surface = surface
        self.settings = settings
        self.server = server
        self.request = surface.read_request(document) if request is None else request
        prepared = prepare(surface, self.request, server, settings)
        self.warning = prepared.warning
        self.constrained = prepared.constrained is not None
        self.request_path = prepared.path
        """Where the request goes, when its own surface cannot carry the schema that was put on it."""
        self.tapped = not self.constrained and self._may_tap(document)
        sent = prepared.document
        self._plain_document = None if self.constrained else sent
        self.request_document = {**(sent or document), "logprobs": True} if self.tapped else sent
        self.outcome: Outcome | None = None
        self.received_turn: Turn | None = None
        self.asked: list[tuple[FollowUp, Reply | None]] = []
        self.status = 200
        self.content_type = ""
        self._questions: Questions | None = None
        self._pending: FollowUp | None = None

    def _may_tap(self, document: JsonObject) -> bool:
        """Tell whether the tap goes on this request: never when the client asked for the tokens itself."""
        if document.get("logprobs") or self.request.tool_choice.mode == "none":
            return False
        return self.surface.tappable and self.server.taps(self.request.model, self.settings)

    def respond(self, status: int, content_type: str) -> None:
        """Say how the answer begins: once, before its first byte."""
        self.status, self.content_type = status, content_type
        framing = framing_of(content_type)
        self._framer = Framer(framing)
        reader = self.surface if self.request_path is None else SURFACES[self.request_path]
        self._codec: Codec = reader.codec(self.request, framing)
        self._text_frames = TextFrames(self._codec.read)
        self._builder = TurnBuilder()
        # What has come and has not gone, from the newest to the oldest: the chunk in work, frames not read yet (the
        # next one last), frames held, bytes about to go. Each piece stands in exactly one of them at every moment.
        self._arriving = b""
        self._arrived: list[bytes] = []
        self._held: list[Held] = []
        self._ready: list[bytes] = []
        self._tokens: list[str] = []
        self._first = True
        can_call = bool(self.request.tools) and self.request.tool_choice.mode != "none"
        # One whole body waits for its end in any case.
        scans = can_call and framing != "json"
        self._text = Watched(scans, 0 if can_call else FAR)
        self._thinking = Watched(scans, 0 if can_call else FAR)
        self._broken = False

    def receive(self, data: bytes) -> list[bytes]:
        """Take in bytes of the answer and return those that may go out now."""
        self._arriving = data
        self._arrived = [*reversed(self._framer.feed(data)), *self._arrived]
        self._arriving = b""
        self._take()
        ready, self._ready = self._ready, []
        return ready

    def finish(self) -> list[bytes] | FollowUp:
        """End the answer: return the rest of it, or what to ask first."""
        self._arrived = [*self._framer.finish(), *self._arrived]
        self._take()
        if self.tapped and self.status == 400:
            # This model's path refuses the tap, and the client never asked for it.
            self.server.model(self.request.model).tap_refused = True
            return self._ask_plainly()
        if self.request_path is not None and not self._meets_choice():
            return self._ask_plainly()
        return self.unsent() if self._broken else self._decide()

    def resume(self, reply: Reply | None) -> list[bytes] | FollowUp:
        """Go on with the reply to the last question; None when none came in time, or at all."""
        if self._pending is not None:
            self.asked.append((self._pending, reply))
        return self._restart(reply) if self._questions is None else self._ask(reply)

    def unsent(self) -> list[bytes]:
        """Return what has come and has not gone: it goes out as it is when anything fails."""
        held = [held.frame.raw for held in self._held]
        out = [*self._ready, *held, *reversed(self._arrived), self._framer.rest, self._arriving]
        self._ready, self._arriving, self._framer = [], b"", Framer("json")
        self._held.clear()
        self._arrived.clear()
        return [piece for piece in out if piece]

    def abandon(self) -> list[bytes]:
        """Give the turn up, as its client has gone: it has no outcome, and the model did not fail. Return the rest."""
        self.outcome = None
        return self.unsent()

    # Passing and holding

    def _take(self) -> None:
        """Read what has arrived, frame by frame."""
        while self._arrived:
            if self.tapped and not self._broken:
                self._untap()
            elif self._broken:
                self._ready.append(self._arrived.pop())
            else:
                self._read()

    def _untap(self) -> None:
        """Put the frames that would have come without the tap in the place of the first arrived one, and read them."""
        try:
            kept, token = self.surface.untap(self._arrived[-1], self._first)
        except DecodeError:
            # What cannot be read here is not read below either, and passes as it came.
            kept, token = (self._arrived[-1],), ""
        self._tokens.append(token)
        self._first = self._first and not kept
        self._arrived.pop()
        self._arrived.extend(reversed(kept))
        for _ in kept:
            self._read()

    def _read(self) -> None:
        """Read the next arrived frame, and hold it or let it go.

        What is not this surface's ends our part in this answer: the rest passes as it comes.
        """
        raw = self._arrived[-1]
        quick = None if self._held or self.constrained else self._text_frames.quick(raw)
        if quick is not None:
            self._pass_text(quick)
            return
        try:
            frame = self._codec.read(raw)
        except DecodeError:
            self._broken = True
            self._ready += [held.frame.raw for held in self._held] + [raw]
            self._held.clear()
            self._arrived.pop()
            return
        blocks = self.constrained
        for event in frame.events:
            self._builder.add(event)
            blocks |= self._note(event)
        self._text_frames.note(frame)
        self._arrived.pop()
        self._held.append(Held(frame, self._text.fed, self._thinking.fed, blocks))
        self._release()

    def _pass_text(self, frame: Frame) -> None:
        """Let the next arrived frame go, as nearly every one does: text like that of those before it. None is held.

        When it has to be held it may be written anew: then it is read for what it says itself.
        """
        (part,) = frame.events
        self._builder.add(part)
        self._note(part)
        if self._text.fed <= self._text.safe:
            self._codec.passed(frame)
            self._ready.append(self._arrived.pop())
        else:
            self._held.append(Held(self._codec.read(frame.raw), self._text.fed, self._thinking.fed, False))
            self._arrived.pop()

    def _note(self, event: Event) -> bool:
        """Let the scanners see an event. Returns whether its frame must wait for the end of the turn."""
        match event:
            case TextPart(text) if text:
                self._text.feed(text, self.request.tools)
                if not text.isspace():
                    # A call in the thinking counts only when there is no text.
                    self._thinking.safe = FAR
            case ThinkingPart(text) if text:
                self._thinking.feed(text, self.request.tools)
            case CallPart():
                self._thinking.safe = FAR
                return True
            case ErrorPart():
                return True
            case EndPart(finish):
                return finish is not None
        return False

    def _release(self) -> None:
        """Give out the held frames, from the first on, that can no longer belong to a call.

        Frames that add nothing (openers of blocks, role, ids) go with the next one that does: a block is not opened
        for text that then turns out to be a call.
        """
        ready = 0
        for count, held in enumerate(self._held, 1):
            if held.blocks or held.text_end > self._text.safe or held.thinking_end > self._thinking.safe:
                break
            if held.frame.events:
                ready = count
        if ready:
            passing = self._held[:ready]
            self._ready += [held.frame.raw for held in passing]
            del self._held[:ready]
            for held in passing:
                self._codec.passed(held.frame)

    # Deciding and asking

    def _decide(self) -> list[bytes] | FollowUp:
        turn = self._builder.turn()
        if self.tapped:
            turn = replace(turn, raw=join_tokens(self._tokens))
        self.received_turn = turn
        if self.constrained:
            turn = read_envelope(turn, self.request)
        outcome = judge(repair_turn(turn, self.request), self.request)
        mended = self._builder.repairs(self.surface.finish_says_calls)
        self.outcome = replace(outcome, repairs=(*mended, *outcome.repairs)) if mended else outcome
        if not outcome.faults:
            return self._deliver()
        self._learn(self.outcome)
        self._questions = Questions(self.surface, self.request, self.outcome, self.server, self.settings)
        return self._ask(None)

    def _learn(self, outcome: Outcome) -> None:
        lost = {"swallowed", "server-error", "unreadable"}
        if any(fault.keyword in lost for fault in outcome.faults):
            self.server.model(self.request.model).swallows = True

    def _ask(self, reply: Reply | None) -> list[bytes] | FollowUp:
        assert self._questions is not None
        question = self._questions.next(reply)
        if isinstance(question, FollowUp):
            self._pending = question
            return question
        self._pending = None
        if isinstance(question, Answered):
            self.outcome = question.outcome
        return self._deliver()

    def _meets_choice(self) -> bool:
        """Tell whether the answer to a request that went elsewhere is the call that was asked for."""
        turn = read_envelope(self._builder.turn(), self.request)
        return (
            self.status == 200 and not self._broken and bool(turn.calls) and not repair_turn(turn, self.request).faults
        )

    def _ask_plainly(self) -> FollowUp:
        """Ask the client's own question, as it would have gone without what we put on it."""
        self.tapped = self.constrained = False
        document = self.request.document if self._plain_document is None else self._plain_document
        self._pending = FollowUp(self.surface.path, document, {}, (), (), "plain")
        return self._pending

    def _restart(self, reply: Reply | None) -> list[bytes] | FollowUp:
        self._pending = None
        if reply is None:
            return self._first_answer()
        self.request_path = None
        self.respond(reply.status, reply.content_type)
        self._ready = self.receive(reply.body)
        return self.finish()

    def _first_answer(self) -> list[bytes]:
        """Return the answer that came though none came to the client's own question, never in a foreign form."""
        turn = self._builder.turn()
        if self.request_path is None or self.status != 200 or self._broken or turn.error is not None:
            return self.unsent()
        self.unsent()
        return self._written(turn, [])

    # Delivering

    def _deliver(self) -> list[bytes]:
        outcome = self.outcome
        assert outcome is not None
        if not outcome.repairs or not self._is_better(outcome):
            return self.unsent() + self._lost_error(outcome)
        held = [held.frame for held in self._held]
        turn = self._as_begun(outcome.turn, held)
        if turn is not outcome.turn:
            self.outcome = replace(outcome, turn=turn)
        out = self._written(turn, held)
        self._held.clear()
        return self.unsent() + out

    def _as_begun(self, turn: Turn, held: list[Frame]) -> Turn:
        """Let the texts of a turn begin with what the client has got of them.

        Blanks before a call may have gone out, and go when the call is lifted: what follows is counted from them.
        """
        came = self.received_turn
        assert came is not None
        text = _begun(turn.text, came.text, self._text.fed - _length(held, TextPart))
        thinking = _begun(turn.thinking, came.thinking, self._thinking.fed - _length(held, ThinkingPart))
        same = text == turn.text and thinking == turn.thinking
        return turn if same else replace(turn, text=text, thinking=thinking)

    def _lost_error(self, outcome: Outcome) -> list[bytes]:
        """Say that the server failed, where the tap made it lose its own words: without it this were an error."""
        frame = self.surface.error_frame(LOST_ERROR) if self.tapped and outcome.turn.error == "" else None
        return [] if frame is None else [frame]

    def _is_better(self, outcome: Outcome) -> bool:
        """Tell whether the repaired turn is worth more than what came.

        A half call lifted out of text is not, nor one that the client's choice forbids.
        """
        faulty = {fault.path.split("/")[2] for fault in outcome.faults if fault.path.startswith("/calls/")}
        lifted = {str(index) for index, call in enumerate(outcome.turn.calls) if call.dialect is not None}
        unmet = any(fault.keyword == "tool-choice" for fault in outcome.faults)
        return not (faulty & lifted) and not (unmet and lifted) and outcome.turn.error is None

    def _written(self, turn: Turn, held: list[Frame]) -> list[bytes]:
        if self.status == 200 and self.request_path is None:
            return self._codec.write(turn, held)
        # An error, or another surface's answer: this one is made from nothing, in the form the client asked for.
        self.status = 200
        wanted: Framing = self.surface.streaming if self.request.stream else "json"
        self.content_type = self.surface.stream_type if self.request.stream else "application/json"
        return self.surface.codec(self.request, wanted).write(turn, [])


def _length(frames: list[Frame], kind: type[TextPart] | type[ThinkingPart]) -> int:
    return sum(len(event.text) for frame in frames for event in frame.events if isinstance(event, kind))


def _begun(text: str, came: str, length: int) -> str:
    """Return a text that begins with what has gone of the one that came, and loses nothing that is behind it."""
    gone = came[:length]
    if not text or text.startswith(gone):
        return text
    if text.startswith(said := gone.lstrip()):
        return gone + text[len(said) :]
    # Something of a call has gone after all. It cannot be taken back; what both end with has not gone.
    both = min(len(text), len(came) - length)
    differs = next((at for at in range(1, both + 1) if text[-at] != came[-at]), both + 1)
    return gone + text[len(text) - differs + 1 :]


def replay(
    exchange: Exchange,
    status: int,
    content_type: str,
    chunks: Iterable[bytes],
    ask: Callable[[FollowUp], Reply | None] = lambda question: None,
) -> list[bytes]:
    """Run a whole answer through an exchange and return all that the client gets, in its pieces."""
    exchange.respond(status, content_type)
    sent = [piece for chunk in chunks for piece in exchange.receive(chunk)]
    result = exchange.finish()
    while isinstance(result, FollowUp):
        result = exchange.resume(ask(result))
    return sent + result
