"""Be the mitmproxy addon: hooks that translate, while the core decides.

The one catch-all of the project stands here (and in `stream_filter`, for the callable that mitmproxy does not guard):
whatever the core raises is logged once, and the client gets what it would have got without us.
"""

from __future__ import annotations

import asyncio
import gc
import ipaddress
import json
import logging
import re
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final, TypeAlias

from mitmproxy import command, ctx, exceptions, flow, flowfilter, http
from mitmproxy.addonmanager import Loader
from mitmproxy.connection import Client
from mitmproxy.net.http import status_codes
from mitmproxy.proxy.mode_specs import ReverseMode

from toolmend import report
from toolmend.exchange import Exchange, framing_of
from toolmend.follow_up import FollowUp
from toolmend.mitm import contentview, late_stream, options
from toolmend.mitm.asking import ask, is_question
from toolmend.mitm.recorder import Recorder
from toolmend.mitm.status_line import StatusLine
from toolmend.mitm.stream_filter import StreamFilter
from toolmend.model import DecodeError, JsonObject, Outcome
from toolmend.recordings import Entry, Recording, worth_keeping
from toolmend.surfaces import SURFACES
from toolmend.surfaces.surface import Surface
from toolmend.upstreams import PROBES, Reply, Server, recognise

logger = logging.getLogger("toolmend")

OLLAMA_PORT: Final = 11434
PROBE_SECONDS = 3.0
"""Seconds that all questions about what a host is may take together: its first request waits for them."""
PROBE_AGAIN_SECONDS = 60.0
"""Seconds after which a host that let its questions hang is asked again."""
MOST_KEPT: Final = 500
"""Flows whose recording can still be asked for in mitmweb and mitmproxy."""
Headers: TypeAlias = tuple[tuple[str, str], ...]
Fields: TypeAlias = tuple[tuple[bytes, bytes], ...]

CHOICE: Final = re.compile(rb"tool_choice|parallel_tool|\\u00[2-7]")
"""What a body must have that asks for a choice: the words, or letters written as escapes, which could spell them."""

REPAIRED_MARK: Final = ":wrench:"
BROKEN_MARK: Final = ":warning:"
LEFT: Final = "toolmend: the client left while its answer was being asked about"


@dataclass(frozen=True, slots=True)
class Sent:
    """Hold a request of ours that has not been read: its server, and what stands before the surface's path."""

    surface: Surface
    server: Server
    prefix: str
    body: bytes
    headers: Fields


@dataclass(slots=True)
class Live:
    """Hold a flow of ours while it runs. Live objects sit beside the flow: its metadata is saved, and takes data only.

    `prefix` stands before the surface's path in the URL. `request` and `request_headers` are the client's own, before
    the tool choice was put on them.
    """

    exchange: Exchange
    client_id: str
    prefix: str
    request: bytes
    request_headers: Fields
    started: float = field(default_factory=time.monotonic)
    stream: StreamFilter | None = None
    response_headers: Fields = ()
    status: int = 0
    content_type: str = ""
    left: bool = False


class Toolmend:
    """Repair the tool calls of the flows that are bound for a model server."""

    def __init__(self) -> None:
        self.chosen: options.Chosen | None = None
        self.sent: dict[str, Sent] = {}
        self.live: dict[str, Live] = {}
        self.servers: dict[tuple[str, str, int], asyncio.Future[Server]] = {}
        self.statistics = report.Statistics()
        self.late = False
        self.recorder = Recorder()
        self.status_line = StatusLine()
        self.kept: dict[str, Recording] = {}
        self._warned: set[str] = set()
        self._keeps = False

    # Life

    def load(self, loader: Loader) -> None:
        """Declare the options, and show repaired flows in a view of our own."""
        options.declare(loader)
        contentview.add()

    def configure(self, updated: set[str]) -> None:
        """Read the options. Raises OptionsError for one that is not allowed."""
        if self.chosen is None or any(name.startswith(options.PREFIX) for name in updated):
            options.refuse_unknown(ctx.options.deferred)
            names = [options.PREFIX + option.name for option in options.OPTIONS]
            self.chosen = options.read_options({name: getattr(ctx.options, name) for name in names})
            self.servers.clear()
        self._keeps = self._is_looked_at()

    def running(self) -> None:
        """Make streamed answers wait for follow-ups, and say what is unsafe in how mitmproxy was started."""
        self._keeps = self._is_looked_at()
        self.late = late_stream.install(ctx.options)
        if not self.late:
            logger.warning(
                "toolmend: this mitmproxy does not let the end of a streamed answer wait: streamed calls are repaired "
                "without follow-ups."
            )
        for warning in _warnings():
            logger.warning(warning)
        assert self.chosen is not None
        if not self.chosen.quiet:
            self.status_line.open()
        # What lives until the end need not be searched for garbage again and again: each full collection took 50 ms, in
        # which every answer waited.
        gc.freeze()

    def done(self) -> None:
        """Give mitmproxy its own stream back, and say what was done."""
        late_stream.remove()
        contentview.remove()
        self.recorder.close()
        self.status_line.close()
        if self.statistics.turns and not (self.chosen and self.chosen.quiet):
            logger.info(self.statistics.summary())

    # Requests

    async def request(self, flow: http.HTTPFlow) -> None:
        """Begin an exchange for a request that offers tools, and put the tool choice on it."""
        path = _path(flow)
        surface = self._surface(flow, path)
        if surface is None:
            return
        try:
            await self._take(flow, surface, path.removesuffix(surface.path))
        except Exception:
            self._failed(flow)

    def _surface(self, flow: http.HTTPFlow, path: str) -> Surface | None:
        """Tell whose request this is: a live POST to one of the four paths, where the filter says."""
        if (
            not flow.live
            or flow.is_replay
            or is_question(flow)
            or flow.request.method != "POST"
            or flow.response is not None
        ):
            return None
        surface = next((surface for known, surface in SURFACES.items() if path.endswith(known)), None)
        return surface if surface is not None and self._in_scope(flow) else None

    def _in_scope(self, flow: http.HTTPFlow) -> bool:
        assert self.chosen is not None
        if self.chosen.filter is not None:
            return bool(flowfilter.match(self.chosen.filter, flow))
        if isinstance(flow.client_conn.proxy_mode, ReverseMode):
            return True
        return flow.request.port == OLLAMA_PORT and _is_loopback(flow.request.host)

    async def _take(self, flow: http.HTTPFlow, surface: Surface, prefix: str) -> None:
        """Take a request in. `prefix` is what stands before the surface's path: a server may live below one.

        One on which nothing is put goes on at once, and is read while the server works on it.
        """
        body = flow.request.get_content(strict=False)
        if not body or b"tools" not in body:
            return
        sent = Sent(surface, await self._server(flow, prefix), prefix, body, flow.request.headers.fields)
        # A compressed answer cannot be read as it streams; Ollama never compresses.
        flow.request.headers.pop("accept-encoding", None)
        if self._goes_as_it_is(sent):
            self.sent[flow.id] = sent
            asyncio.get_running_loop().call_soon(self._read, flow)
            return
        exchange = self._begin(flow, sent)
        if exchange is None:
            return
        if exchange.request_document is not None:
            flow.request.headers.pop("content-encoding", None)
            flow.request.content = _encoded(exchange.request_document)
        if exchange.request_path is not None:
            flow.request.path = prefix + exchange.request_path

    def _goes_as_it_is(self, sent: Sent) -> bool:
        """Tell whether there is nothing to be put on a request: it speaks of no choice, and no tap is due."""
        assert self.chosen is not None
        taps = self.chosen.settings.tap == "on" or any(notes.swallows for notes in sent.server.models.values())
        return not taps and CHOICE.search(sent.body) is None

    def _begin(self, flow: http.HTTPFlow, sent: Sent) -> Exchange | None:
        """Begin an exchange for a request; None when it offers no tools, or is none of its surface."""
        assert self.chosen is not None
        try:
            document = _decoded(sent.body)
            request = sent.surface.read_request(document)
            if not request.tools:
                return None
            exchange = Exchange(sent.surface, document, self.chosen.settings, sent.server, request)
        except DecodeError as error:
            logger.info(f"toolmend: {sent.surface.name}: request passed as it is: {error}")
            return None
        self._warn_once(exchange.warning)
        self.live[flow.id] = Live(exchange, flow.client_conn.id, sent.prefix, sent.body, sent.headers)
        return exchange

    def _read(self, flow: http.HTTPFlow) -> None:
        """Read a request that has gone on, if that has not been done yet."""
        sent = self.sent.pop(flow.id, None)
        if sent is None:
            return
        try:
            exchange = self._begin(flow, sent)
            if exchange is not None and exchange.request_document is not None:
                # It should have got something after all: the answer is not what the exchange expects.
                del self.live[flow.id]
        except Exception:
            self._failed(flow)

    async def _server(self, flow: http.HTTPFlow, prefix: str) -> Server:
        """Find out once per host what the server is. Flows that come meanwhile wait for the same answer."""
        assert self.chosen is not None
        if self.chosen.upstream != "auto":
            kind = self.chosen.upstream
            key = (kind, flow.request.host + prefix, flow.request.port)
            if key not in self.servers:
                self.servers[key] = asyncio.get_running_loop().create_future()
                self.servers[key].set_result(Server(kind=kind))  # type: ignore[arg-type]  # checked by the option
            return self.servers[key].result()
        key = (flow.request.scheme, flow.request.host + prefix, flow.request.port)
        if key not in self.servers:
            self.servers[key] = asyncio.ensure_future(self._probe(flow, prefix, key))
        probing = self.servers[key]
        if not probing.done():
            await asyncio.wait({probing})
        return probing.result()

    async def _probe(self, flow: http.HTTPFlow, prefix: str, key: tuple[str, str, int]) -> Server:
        """Ask a host what it is. One that says nothing is taken for unknown, and asked again: at once when it was not
        there, after a while when it let us wait."""
        replies: dict[str, Reply | None] = {}
        loop = asyncio.get_running_loop()
        deadline = loop.time() + PROBE_SECONDS
        server = Server("unknown")
        try:
            for path in PROBES:
                left = deadline - loop.time()
                if left <= 0 or server.kind != "unknown":
                    break
                replies[path] = await ask(flow, prefix + path, None, report.say_question("server"), left)
                server = recognise(replies)
        except Exception:
            logger.warning("toolmend: could not find out what the server is", exc_info=True)
        if not any(replies.values()):
            rest = PROBE_AGAIN_SECONDS if loop.time() >= deadline else 0
            loop.call_later(rest, self.servers.pop, key, None)
        server.version = _version(server, replies)
        return server

    # Answers

    def responseheaders(self, flow: http.HTTPFlow) -> None:
        """Let a streamed answer go through its exchange chunk by chunk; others are read whole."""
        self._read(flow)
        live = self.live.get(flow.id)
        if live is None or flow.response is None:
            return
        try:
            self._open(flow, flow.response, live)
        except Exception:
            self._failed(flow)

    def _open(self, flow: http.HTTPFlow, response: http.Response, live: Live) -> None:
        kind = response.headers.get("content-type", "")
        live.status, live.content_type, live.response_headers = response.status_code, kind, response.headers.fields
        if response.headers.get("content-encoding", "identity").lower() not in ("identity", ""):
            if framing_of(kind) != "json":
                logger.info("toolmend: a compressed stream passed as it is")
                del self.live[flow.id]
            return
        if response.status_code != 200 or framing_of(kind) == "json" or "content-length" in response.headers:
            # Read whole, even where stream_large_bodies would not.
            response.stream = False
            return
        live.exchange.respond(response.status_code, kind)
        live.exchange.request.body.put_away(live.request)
        live.stream = StreamFilter(live.exchange, lambda: self._failed(flow), self.late, self._keeps)
        response.stream = live.stream

    def _is_looked_at(self) -> bool:
        """Tell whether anyone can look at the bodies of streamed answers later: nothing is kept for nobody."""
        assert self.chosen is not None
        addons = ctx.master.addons
        return bool(
            self.chosen.record
            or addons.get("view") is not None
            or getattr(ctx.options, "save_stream_file", None)
            or getattr(ctx.options, "hardump", "")
        )

    async def toolmend_late_stream(self, flow: http.HTTPFlow) -> None:
        """Ask what has to be asked before the end of a streamed answer goes out."""
        live = self.live.get(flow.id)
        if live is None or live.stream is None or live.stream.question is None:
            return
        stream = live.stream
        try:
            stream.rest = await self._answered(flow, live, live.stream.question)
        except Exception:
            stream.failed = True
            self._failed(flow)
            stream.rest = live.exchange.unsent()

    async def response(self, flow: http.HTTPFlow) -> None:
        """Repair an answer that was read whole; note what was done."""
        live = self.live.get(flow.id)
        if live is None or flow.response is None:
            return
        try:
            if live.stream is None:
                came = flow.response.get_content(strict=False) or b""
                chunks = [(came, time.monotonic())]
                await self._whole(flow, flow.response, live, came)
            else:
                chunks = live.stream.came
                _mark(flow, live.exchange)
                if chunks:
                    _keep_both(flow, flow.response, b"".join(data for data, _ in chunks), b"".join(live.stream.went))
            self._note(flow, live, chunks)
        except Exception:
            self._failed(flow)
        finally:
            # Not before: a client that leaves while a question runs is looked for among the live ones.
            self.live.pop(flow.id, None)

    async def _whole(self, flow: http.HTTPFlow, response: http.Response, live: Live, body: bytes) -> None:
        if not body:
            return
        exchange = live.exchange
        exchange.respond(response.status_code, live.content_type)
        passed = exchange.receive(body)
        rest = exchange.finish()
        if isinstance(rest, FollowUp):
            rest = await self._answered(flow, live, rest)
        delivered = b"".join(passed + rest)
        _mark(flow, exchange)
        if delivered == body and exchange.status == response.status_code:
            return
        flow.backup()
        response.headers.pop("content-encoding", None)
        response.content = delivered
        response.headers["content-type"] = exchange.content_type
        if exchange.status != response.status_code:
            response.status_code = exchange.status
            response.reason = status_codes.RESPONSES.get(exchange.status, "")

    async def _answered(self, flow: http.HTTPFlow, live: Live, question: FollowUp) -> list[bytes]:
        """Ask the questions that the end of an answer takes, this one first, and return the rest of it."""
        assert self.chosen is not None
        result: list[bytes] | FollowUp = question
        deadline = time.monotonic() + self.chosen.settings.timeout
        while isinstance(result, FollowUp):
            left = deadline - time.monotonic()
            reply = None
            if left > 0 and not self._left(live):
                path, said = live.prefix + result.path, report.say_question(result.kind)
                reply = await ask(flow, path, result.document, said, left, lambda: self._left(live))
            if reply is None and self._left(live):
                flow.comment = LEFT
                return live.exchange.abandon()
            result = live.exchange.resume(reply)
        return result

    def _left(self, live: Live) -> bool:
        return live.left or (live.stream is not None and live.stream.gone())

    def client_disconnected(self, client: Client) -> None:
        """End the follow-ups of a client that has gone."""
        for live in self.live.values():
            if live.client_id == client.id:
                live.left = True

    def error(self, flow: http.HTTPFlow) -> None:
        """Forget a flow that ended in an error; what was held has gone out already."""
        self.sent.pop(flow.id, None)
        live = self.live.pop(flow.id, None)
        if live is not None:
            live.left = True

    # Saying it

    def _note(self, flow: http.HTTPFlow, live: Live, chunks: list[tuple[bytes, float]]) -> None:
        """Say what was done: count it, log it, record it."""
        assert self.chosen is not None
        exchange, outcome, received = live.exchange, live.exchange.outcome, live.exchange.received_turn
        if outcome is None or received is None:
            return
        surface, model, asked = exchange.surface.name, exchange.request.model, len(exchange.asked)
        self.statistics.add(outcome, asked)
        self.status_line.show(self.statistics.summary)
        if self.chosen.log is not None:
            entry = report.entry(surface, model, received, outcome, asked)
            self.recorder.log(self.chosen.log, {"time": time.time(), **entry})
        if chunks and self._keeps:
            recording = self._recording(flow, live, outcome, chunks)
            if self.chosen.record is not None and worth_keeping(outcome, self.chosen.record_which):
                self.recorder.record(self.chosen.record, recording, self.chosen.record_prompts)
            if ctx.master.addons.get("view") is not None:
                self.kept[flow.id] = recording
                while len(self.kept) > MOST_KEPT:
                    del self.kept[next(iter(self.kept))]
        said = report.line(surface, model, outcome)
        if said is not None and not self.chosen.quiet:
            logger.info(said)

    def _recording(
        self, flow: http.HTTPFlow, live: Live, outcome: Outcome, chunks: list[tuple[bytes, float]]
    ) -> Recording:
        """Put together what a recording is made of: times become milliseconds since the request."""
        assert flow.response is not None
        exchange = live.exchange
        timed = tuple((data, round((at - live.started) * 1000)) for data, at in chunks)
        end = timed[-1][1]
        path = flow.request.path.split("?", 1)[0]
        sent = flow.request.get_content(strict=False) or b""
        return Recording(
            surface=exchange.surface.name,
            model=exchange.request.model,
            server=exchange.server.version or exchange.server.kind,
            settings=exchange.settings,
            original=Entry(
                "original",
                path,
                sent,
                live.status,
                live.content_type,
                timed,
                _headers(live.request_headers),
                _headers(live.response_headers),
            ),
            follow_ups=tuple(
                Entry(
                    "follow-up",
                    question.path,
                    _encoded(question.document),
                    reply.status if reply else 0,
                    reply.content_type if reply else "",
                    ((reply.body, end),) if reply else (),
                )
                for question, reply in exchange.asked
            ),
            delivered=Entry(
                "delivered",
                path,
                live.request,
                flow.response.status_code,
                exchange.content_type,
                ((flow.response.get_content(strict=False) or b"", end),),
                _headers(live.request_headers),
                _headers(flow.response.headers.fields),
            ),
            outcome=outcome,
            started=flow.request.timestamp_start,
        )

    def _failed(self, flow: http.HTTPFlow) -> None:
        """Log what the core raised, once, and leave the flow alone from here on. Called inside an except block."""
        self.live.pop(flow.id, None)
        logger.error(f"toolmend: {flow.request.path}: the answer passes as it came", exc_info=True)

    def _warn_once(self, warning: str | None) -> None:
        if warning and warning not in self._warned:
            self._warned.add(warning)
            logger.warning(f"toolmend: {warning}")

    # Commands

    @command.command("toolmend.stats")
    def stats(self) -> str:
        """Say how many turns were seen, and what was done to them."""
        return json.dumps(self.statistics.as_object())

    @command.command("toolmend.explain")
    def explain(self, flows: Sequence[flow.Flow]) -> str:
        """Say what was done to a flow's answer, repair by repair."""
        if not flows:
            raise exceptions.CommandError("toolmend.explain: no flow given")
        text = "\n\n".join(contentview.explained(found) or "toolmend: nothing was done to this flow" for found in flows)
        logger.info(text)
        return text

    @command.command("toolmend.record")
    def record(self, flows: Sequence[flow.Flow]) -> None:
        """Write a recording of these flows into the folder that toolmend_record names."""
        assert self.chosen is not None
        if self.chosen.record is None:
            raise exceptions.CommandError("toolmend.record: set toolmend_record to a folder first")
        for found in flows:
            kept = self.kept.get(found.id)
            if kept is None:
                raise exceptions.CommandError(f"toolmend.record: nothing is kept of flow {found.id}: not one of ours")
            self.recorder.record(self.chosen.record, kept, self.chosen.record_prompts)


def _decoded(body: bytes) -> JsonObject:
    try:
        document = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise DecodeError(f"the body is no JSON ({error})") from error
    if not isinstance(document, dict):
        raise DecodeError(f"the body is {type(document).__name__}, expected a JSON object")
    return document


def _path(flow: http.HTTPFlow) -> str:
    return flow.request.path.split("?", 1)[0].rstrip("/")


def _encoded(document: JsonObject) -> bytes:
    return json.dumps(document, ensure_ascii=False).encode("utf-8", "surrogatepass")


def _headers(fields: Fields) -> Headers:
    return tuple(http.Headers(fields).items(multi=True))


def _version(server: Server, replies: dict[str, Reply | None]) -> str:
    """Name the server with its version where it says one, for recordings."""
    for reply in replies.values():
        try:
            version = json.loads(reply.body).get("version") if reply is not None else None
        except (ValueError, AttributeError):
            continue
        if isinstance(version, str):
            return f"{server.kind} {version}"
    return server.kind


def _mark(flow: http.HTTPFlow, exchange: Exchange) -> None:
    """Say on the flow what was done. Before its backup is made, so that a Revert leaves it there."""
    outcome, received = exchange.outcome, exchange.received_turn
    if outcome is None or received is None:
        return
    surface, model = exchange.surface.name, exchange.request.model
    said = report.line(surface, model, outcome)
    if said is not None:
        flow.comment = said
        flow.marked = BROKEN_MARK if outcome.faults else REPAIRED_MARK
        contentview.keep(flow, report.entry(surface, model, received, outcome, len(exchange.asked)))


def _keep_both(flow: http.HTTPFlow, response: http.Response, came: bytes, went: bytes) -> None:
    """Keep what the server sent (revert shows it) beside what the client got."""
    response.content = came
    if came != went:
        flow.backup()
        response.content = went


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return host.lower() == "localhost" or host.lower().endswith(".localhost")


def _warnings() -> list[str]:
    """Say what in mitmproxy's own options opens Ollama to others."""
    modes = [str(mode) for mode in ctx.options.mode]
    found = []
    listens = [mode for mode in modes if not mode.startswith("local")]
    if listens and not _is_loopback(ctx.options.listen_host or "0.0.0.0"):
        found.append(
            "toolmend: mitmproxy listens on all interfaces, which opens Ollama to the network. "
            "Add --listen-host 127.0.0.1 unless that is wanted."
        )
    local = any(
        mode.startswith("reverse") and ("localhost" in mode or "127." in mode or "[::1]" in mode) for mode in modes
    )
    if local and not ctx.options.keep_host_header:
        found.append(
            "toolmend: without --set keep_host_header=true Ollama's check of the Host header is defeated. Add it."
        )
    return found
