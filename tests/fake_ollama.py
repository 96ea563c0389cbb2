"""Stand in for Ollama in the tests: an HTTP/1.1 server on 127.0.0.1 whose model does what the test says.

    with FakeOllama() as fake:
        fake.script(Answer(text="Hello."))           # the next chat request gets this, then the queue's next
        fake.on("book a table", Answer(...))         # any request whose body holds this text gets this, always
        fake.reply(as_json({"guests": 4}))           # the next request that carries a schema gets this
        ... talk to fake.url ...
        fake.requests, fake.model_calls

Which answer a chat request gets: one set by `on`; the script's next; the scenario that its model names
(`fake:leaked`, see SCENARIOS); else "Done.". A request that ends in a tool's result gets "Done." unless scripted.
Requests that carry a schema get the reply queue's next, else JSON that fits, filled with the call that the scenarios
mean. `_debug_render_only` gets the prompt; raw /api/generate is answered like a request with a schema.

Order is judged by events, not by time: a `Gate` among an answer's `gates` holds it until the test opens it, each
`Received` tells by events when its answer is complete (`finished`) or its client has left before that (`gone`).

    python tests/fake_ollama.py --port 11435     # the scenarios alone, for a look by hand or from another process
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import ipaddress
import json
import threading
import zlib
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, Self

from fake_answers import (
    CREATED_AT,
    SURFACES,
    Answer,
    Asked,
    Document,
    Sent,
    as_json,
    fitting,
    render,
    schema_asked,
)

__all__ = ["MEANT", "SCENARIOS", "TOOL", "Answer", "FakeOllama", "Gate", "Received", "as_json"]

TIMEOUT = 20.0
"""Seconds after which a wait is given up: a bound for a failing test, never part of a passing one."""

ARGUMENTS = {"guests": 4, "day": "friday", "area": "inside", "wishes": ["window seat", "quiet"]}
MEANT = ("book_table", ARGUMENTS)
TOOL: Document = {
    "name": "book_table",
    "description": "Book a table.",
    "parameters": {
        "type": "object",
        "properties": {
            "guests": {"type": "integer", "description": "How many people."},
            "day": {"type": "string", "description": "The day of the week."},
            "area": {"type": "string", "enum": ["inside", "outside"]},
            "wishes": {"type": "array", "items": {"type": "string"}},
        },
        "required": ["guests", "day", "area", "wishes"],
        "additionalProperties": False,
    },
}
"""The tool the scenarios call, as its name, description and JSON schema."""

_LEAKED = f'<tool_call>\n{{"name": "book_table", "arguments": {json.dumps(ARGUMENTS)}}}\n</tool_call>'
_BROKEN = _LEAKED.replace('"quiet"]}', '"quiet"],}')
SCENARIOS: dict[str, Answer] = {
    "valid": Answer(calls=(MEANT,), raw=_LEAKED),
    "valid-after-text": Answer(text="Let me book that.", calls=(MEANT,)),
    "valid-after-thinking": Answer(thinking="A table for four.", calls=(MEANT,)),
    "wrong-types": Answer(
        calls=(
            (
                "book_table",
                {"guests": "4", "day": "friday", "area": "Inside", "wishes": '["window seat", "quiet"]'},
            ),
        ),
    ),
    "wrong-name": Answer(calls=(("bookTable", ARGUMENTS),)),
    "prefixed": Answer(calls=(("functions.book_table", ARGUMENTS),)),
    "leaked": Answer(text=_LEAKED),
    "leaked-after-text": Answer(text=f"Let me book that.\n\n{_LEAKED}"),
    "swallowed": Answer(tokens=31, raw=_BROKEN),
    "lost": Answer(tokens=31, native=True),
    "missing": Answer(calls=(("book_table", {"guests": 4, "area": "inside", "wishes": ["window seat", "quiet"]}),)),
    "parse-error": Answer(
        error="failed to parse JSON: invalid character '}' looking for beginning of object key string", raw=_BROKEN
    ),
    "text-only": Answer(text="The kitchen closes at ten."),
    "error": Answer(error="model 'fake:error' not found", status=404),
}
"""What the model does when the request's model is `fake:NAME`; all of them mean MEANT, or say something in words."""

DONE = Answer(text="Done.")


class Gate:
    """Hold the fake at a point of an answer until the test opens it.

    `reached` is set when the answer stands there. A gate stays open once it is.
    """

    def __init__(self) -> None:
        self.reached = threading.Event()
        self._open = False
        self._lock = threading.Lock()
        self._waiting: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    def open(self) -> None:
        """Let the answer go on. May be called from any thread."""
        with self._lock:
            self._open, waiting, self._waiting = True, self._waiting, []
        for loop, event in waiting:
            loop.call_soon_threadsafe(event.set)

    async def passed(self) -> None:
        """Wait until the gate is open."""
        event = asyncio.Event()
        with self._lock:
            if self._open:
                event.set()
            else:
                self._waiting.append((asyncio.get_running_loop(), event))
        self.reached.set()
        await event.wait()


@dataclass(eq=False)
class Received:
    """Hold one request as it came, and what became of its answer.

    `kind` is "chat", "constrained" (it carries a schema), "render", or "other" (also what is refused); the first two
    are model calls.
    `sent` are the body's bytes so far (before the client can have them). `finished` is set when the answer is out, `gone` when the client left before.
    """

    method: str
    path: str
    headers: dict[str, str]
    body: bytes
    kind: Literal["chat", "constrained", "render", "other"] = "other"
    answer: Answer | None = None
    sent: bytearray = field(default_factory=bytearray)
    finished: threading.Event = field(default_factory=threading.Event)
    gone: threading.Event = field(default_factory=threading.Event)

    @property
    def document(self) -> Document:
        """Return the body decoded, `{}` when it is no JSON object."""
        with contextlib.suppress(ValueError, RecursionError):
            if isinstance(decoded := json.loads(self.body), dict):
                return decoded
        return {}

    @property
    def surface(self) -> str | None:
        """Return the surface's name, None for another path."""
        return SURFACES.get(self.path)


class FakeOllama:
    """Serve the scripted answers from a thread of its own.

    Args:
        host: Where to listen.
        port: 0 takes a free one.
        slots: How many model calls run at a time (Ollama's OLLAMA_NUM_PARALLEL); the others wait. None: no limit.

    `version`, `show` and `headers` (added to every answer) may be set at any time.
    """

    def __init__(self, host: str = "127.0.0.1", port: int = 0, slots: int | None = None) -> None:
        self.host, self.port, self.slots = host, port, slots
        self._thread: threading.Thread | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        self._stopping: asyncio.Event | None = None
        self._changed = threading.Condition()
        self._failures: list[BaseException] = []
        self.reset()

    def reset(self) -> None:
        """Forget the requests and everything scripted."""
        self.requests: list[Received] = []
        self.version = "0.12.0"
        self.headers: dict[str, str] = {}
        self.show: Document = {
            "modelfile": "FROM /models/fake.gguf\nPARSER qwen3\nRENDERER qwen3\n",
            "template": "",
            "details": {"format": "gguf", "family": "qwen3", "parameter_size": "8B", "quantization_level": "Q4_K_M"},
            "model_info": {"general.architecture": "qwen3", "tokenizer.ggml.add_bos_token": False},
            "capabilities": ["completion", "tools", "thinking"],
        }
        self._scripted: deque[Answer] = deque()
        self._replies: deque[Answer] = deque()
        self._standing: list[tuple[str, Answer]] = []

    # -- what the test says --------------------------------------------------------------------------------------

    def script(self, *answers: Answer) -> None:
        """Queue answers for the next chat requests, in order."""
        self._scripted.extend(answers)

    def reply(self, *answers: Answer) -> None:
        """Queue answers for the next requests that carry a schema, in order."""
        self._replies.extend(answers)

    def on(self, text: str, answer: Answer) -> None:
        """Answer every chat request whose body holds this text so; for requests that come in no known order."""
        self._standing.append((text, answer))

    # -- what the test sees --------------------------------------------------------------------------------------

    @property
    def url(self) -> str:
        """Return the server's address without a path."""
        return f"http://{self.host}:{self.port}"

    @property
    def model_calls(self) -> int:
        """Count the requests that made the model generate."""
        return len(self.of_kind("chat", "constrained"))

    def of_kind(self, *kinds: str) -> list[Received]:
        """Return the requests of these kinds, in the order they came."""
        return [received for received in list(self.requests) if received.kind in kinds]

    def wait_for(self, kind: str, count: int = 1) -> Received:
        """Wait until so many requests of a kind have come, and return the last of them."""
        with self._changed:
            if not self._changed.wait_for(lambda: len(self.of_kind(kind)) >= count, TIMEOUT):
                raise AssertionError(f"{count} {kind} expected, got {[r.path for r in self.requests]}")
        return self.of_kind(kind)[count - 1]

    # -- the server ----------------------------------------------------------------------------------------------

    def __enter__(self) -> Self:
        ready = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._serve(ready)), name="fake-ollama")
        self._thread.start()
        if not ready.wait(TIMEOUT):
            raise AssertionError("the fake did not start")
        return self

    def __exit__(self, *exception: object) -> None:
        if self._loop and self._stopping and self._thread:
            self._loop.call_soon_threadsafe(self._stopping.set)
            self._thread.join(TIMEOUT)
        if self._failures:
            raise AssertionError("the fake itself failed") from self._failures[0]

    async def _serve(self, ready: threading.Event) -> None:
        self._loop, self._stopping = asyncio.get_running_loop(), asyncio.Event()
        self._slots = asyncio.Semaphore(self.slots) if self.slots else contextlib.nullcontext()
        tasks: set[asyncio.Task[None]] = set()

        def ended(task: asyncio.Task[None]) -> None:
            tasks.discard(task)
            if not task.cancelled() and (failure := task.exception()):
                self._failures.append(failure)

        def connection() -> _Connection:
            def handle(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                task = asyncio.ensure_future(self._converse(protocol, reader, writer))
                tasks.add(task)
                task.add_done_callback(ended)

            protocol = _Connection(asyncio.StreamReader(limit=2**26), handle)
            return protocol

        server = await self._loop.create_server(connection, self.host, self.port, backlog=512)
        self.port = server.sockets[0].getsockname()[1]
        ready.set()
        await self._stopping.wait()
        server.close()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _converse(
        self, protocol: _Connection, reader: asyncio.StreamReader, writer: asyncio.StreamWriter
    ) -> None:
        """Answer the requests of one connection until either side closes it."""
        try:
            while received := await _read_request(reader):
                if not await self._answer(received, protocol, writer):
                    break
        except (ConnectionError, asyncio.IncompleteReadError):
            pass
        finally:
            writer.close()

    async def _answer(self, received: Received, protocol: _Connection, writer: asyncio.StreamWriter) -> bool:
        """Answer one request; return whether the connection can take another."""
        answer, asked = self._choose(received)
        received.answer = answer
        with self._changed:
            self.requests.append(received)
            self._changed.notify_all()
        running = self._slots if received.kind in ("chat", "constrained") else contextlib.nullcontext()
        sending = asyncio.ensure_future(self._send(received, answer, self._render(answer, asked), running, writer))
        leaving = asyncio.ensure_future(protocol.left.wait())
        try:
            await asyncio.wait({sending, leaving}, return_when=asyncio.FIRST_COMPLETED)
            complete = sending.done() and sending.result()
            if complete:
                received.finished.set()
            return complete and received.headers.get("connection", "").lower() != "close"
        finally:
            if not received.finished.is_set() and protocol.left.is_set():
                received.gone.set()
            for task in (sending, leaving):
                task.cancel()

    async def _send(
        self,
        received: Received,
        answer: Answer,
        sent: Sent,
        running: contextlib.AbstractAsyncContextManager[Any],
        writer: asyncio.StreamWriter,
    ) -> bool:
        """Write an answer; return whether it is complete: False when it was broken off on purpose."""
        async with running:
            chunks = _encoded(sent.chunks, answer)
            whole = len(sent.chunks) == 1 and answer.cut is None and not answer.gates
            headers = {"Content-Type": sent.content_type, **self.headers, **answer.headers}
            if answer.encoding:
                headers["Content-Encoding"] = answer.encoding
            headers |= {"Content-Length": str(len(chunks[0]))} if whole else {"Transfer-Encoding": "chunked"}
            head = _head(sent.status, headers)
            for index, chunk in enumerate(chunks):
                if gate := answer.gates.get(index):
                    await gate.passed()
                if answer.close_after == index:
                    writer.write(head)
                    await writer.drain()
                    return False
                # Ollama sends no header before it has the first chunk.
                # Noted before it goes out: whoever has read it finds it noted.
                received.sent += chunk
                writer.write(head + (chunk if whole else b"%x\r\n%s\r\n" % (len(chunk), chunk)))
                head = b""
                await writer.drain()
                if answer.pause:
                    await asyncio.sleep(answer.pause)
            if gate := answer.gates.get(-1):
                await gate.passed()
            if answer.close_after is not None:
                return False
            writer.write(head + (b"" if whole else b"0\r\n\r\n"))
            await writer.drain()
            return True

    # -- what to answer ------------------------------------------------------------------------------------------

    def _choose(self, received: Received) -> tuple[Answer, Asked]:
        document = received.document
        surface = "generate" if received.path == "/api/generate" else received.surface
        asked = Asked(surface or "ollama-chat", document)
        if not _host_allowed(received.headers.get("host", "")):
            return Answer(body=(b"",), status=403), asked
        if received.method != "POST" or surface is None:
            return self._other(received), asked
        if fault := _request_fault(asked):
            return Answer(error=fault, status=400), asked
        if document.get("_debug_render_only"):
            received.kind = "render"
            return _document(_rendered(asked)), asked
        if surface == "generate" or schema_asked(asked) is not None:
            received.kind = "constrained"
            return self._constrained(asked), asked
        answer = self._chat(received, asked)
        if asked.refused(answer):
            return Answer(error="logprobs is not supported with tools + stream", status=400), asked
        received.kind = "chat"
        return answer, asked

    def _render(self, answer: Answer, asked: Asked) -> Sent:
        return render(answer, asked)

    def _constrained(self, asked: Asked) -> Answer:
        if self._replies:
            return self._replies.popleft()
        name, arguments = MEANT
        return as_json(fitting(schema_asked(asked), {"name": name, "arguments": arguments}))

    def _chat(self, received: Received, asked: Asked) -> Answer:
        body = received.body.decode(errors="replace")
        for text, answer in self._standing:
            if text in body:
                return answer
        if self._scripted:
            return self._scripted[0] if asked.refused(self._scripted[0]) else self._scripted.popleft()
        if _ends_in_a_result(asked):
            return DONE
        return SCENARIOS.get(asked.model.partition("fake:")[2], DONE)

    def _other(self, received: Received) -> Answer:
        model = {"name": "fake:valid", "model": "fake:valid", "details": self.show["details"]}
        answers: dict[tuple[str, str], Callable[[], Document]] = {
            ("GET", "/api/version"): lambda: {"version": self.version},
            ("GET", "/api/tags"): lambda: {"models": [{**model, "capabilities": self.show["capabilities"]}]},
            ("GET", "/api/ps"): lambda: {"models": [{**model, "context_length": 32768}]},
            ("POST", "/api/show"): lambda: self.show,
            ("GET", "/v1/models"): lambda: {
                "object": "list",
                "data": [{"id": "fake:valid", "object": "model", "created": 1787000000, "owned_by": "library"}],
            },
        }
        if received.path == "/" and received.method in ("GET", "HEAD"):
            return Answer(body=(b"Ollama is running",), content_type="text/plain; charset=utf-8")
        if make := answers.get((received.method, received.path)):
            return _document(make())
        return Answer(body=(b"404 page not found",), status=404, content_type="text/plain")


class _Connection(asyncio.StreamReaderProtocol):
    """A connection that says when its client has left, also while nothing is read from it."""

    def __init__(
        self,
        reader: asyncio.StreamReader,
        handle: Callable[[asyncio.StreamReader, asyncio.StreamWriter], None],
    ) -> None:
        super().__init__(reader, handle)
        self.left = asyncio.Event()

    def eof_received(self) -> bool:
        self.left.set()
        super().eof_received()
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.left.set()
        super().connection_lost(exc)


async def _read_request(reader: asyncio.StreamReader) -> Received | None:
    """Read one request, None when the client has closed instead."""
    try:
        head = await reader.readuntil(b"\r\n\r\n")
    except asyncio.IncompleteReadError:
        return None
    first, *lines = head.decode("latin-1").split("\r\n")[:-2]
    method, target, _ = first.split(" ", 2)
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    if headers.get("transfer-encoding", "").lower() == "chunked":
        body = b"".join([chunk async for chunk in _chunks(reader)])
    else:
        body = await reader.readexactly(int(headers.get("content-length", 0)))
    path = "/" + target.split("://", 1)[-1].partition("/")[2] if "://" in target else target
    return Received(method, path.partition("?")[0], headers, body)


async def _chunks(reader: asyncio.StreamReader) -> Any:
    while size := int((await reader.readline()).partition(b";")[0], 16):
        yield await reader.readexactly(size)
        await reader.readline()
    await reader.readline()


def _head(status: int, headers: dict[str, str]) -> bytes:
    reasons = {200: "OK", 400: "Bad Request", 403: "Forbidden", 404: "Not Found", 500: "Internal Server Error"}
    lines = [
        f"HTTP/1.1 {status} {reasons.get(status, 'Status')}",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def _encoded(chunks: list[bytes], answer: Answer) -> list[bytes]:
    """Cut the body as the network does, and compress it so that every chunk can be read when it comes."""
    if answer.cut is not None:
        body = b"".join(chunks)
        chunks = [body[start : start + answer.cut] for start in range(0, len(body), answer.cut)]
    if not answer.encoding:
        return chunks
    packer = zlib.compressobj(wbits={"gzip": 31, "deflate": 15}[answer.encoding])
    packed = [packer.compress(chunk) + packer.flush(zlib.Z_SYNC_FLUSH) for chunk in chunks]
    return [*packed[:-1], packed[-1] + packer.flush()]


def _document(document: Document) -> Answer:
    body = json.dumps(document, separators=(",", ":")).encode()
    return Answer(body=(body,), content_type="application/json; charset=utf-8")


def _host_allowed(host: str) -> bool:
    """Check the Host header as a server on loopback does: its own names and private addresses pass."""
    name = host.rsplit(":", 1)[0] if host.count(":") == 1 else host.strip("[]")
    if name in ("", "localhost") or name.endswith((".localhost", ".local", ".internal")):
        return True
    with contextlib.suppress(ValueError):
        address = ipaddress.ip_address(name)
        return address.is_loopback or address.is_private or address.is_unspecified
    return False


def _messages(asked: Asked) -> list[Document]:
    messages = asked.document.get("input" if asked.surface == "openai-responses" else "messages")
    return [message for message in messages if isinstance(message, dict)] if isinstance(messages, list) else []


def _ends_in_a_result(asked: Asked) -> bool:
    """Tell whether the last message is a tool's result."""
    last: Document = next(reversed(_messages(asked)), {})
    content = last.get("content")
    blocks = content if isinstance(content, list) else []
    return (
        last.get("role") == "tool"
        or last.get("type") == "function_call_output"
        or any(block.get("type") == "tool_result" for block in blocks)
    )


def _request_fault(asked: Asked) -> str | None:
    """Refuse a history that Ollama refuses: a call whose arguments are no object, or without a name."""
    for name, arguments in _history_calls(asked):
        if isinstance(arguments, str) and asked.surface in ("openai-chat", "openai-responses"):
            try:
                arguments = json.loads(arguments)
            except ValueError:
                return "invalid tool call arguments"
        if not isinstance(arguments, dict):
            return "invalid tool call arguments"
        if not name and asked.surface == "anthropic-messages":
            return "tool_use block missing required 'name' field"
    return None


def _history_calls(asked: Asked) -> Iterator[tuple[str, Any]]:
    for message in _messages(asked):
        if message.get("type") == "function_call":
            yield message.get("name", ""), message.get("arguments")
        for call in message.get("tool_calls") or []:
            yield call["function"].get("name", ""), call["function"].get("arguments", {})
        content = message.get("content")
        for block in content if isinstance(content, list) else []:
            if block.get("type") == "tool_use":
                yield block.get("name", ""), block.get("input")


def _rendered(asked: Asked) -> Document:
    """Answer a request for the prompt: the messages in a form of our own that ends where the model would begin."""
    turns = [f"<|im_start|>{m.get('role')}\n{m.get('content')}<|im_end|>\n" for m in _messages(asked)]
    prompt = "".join([*turns, "<|im_start|>assistant\n"])
    message = {"role": "", "content": ""}
    head = {"model": asked.model, "created_at": CREATED_AT, "message": message, "done": False}
    return {**head, "_debug_info": {"rendered_template": prompt}}


def main() -> None:
    """Serve the scenarios until interrupted."""
    parser = argparse.ArgumentParser(description="A fake Ollama; the model fake:NAME does what the scenario NAME says.")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=11435)
    parser.add_argument("--slots", type=int)
    options = parser.parse_args()
    with FakeOllama(options.host, options.port, options.slots) as fake, contextlib.suppress(KeyboardInterrupt):
        print(f"{fake.url} answers as {', '.join(f'fake:{name}' for name in SCENARIOS)}", flush=True)
        threading.Event().wait()


if __name__ == "__main__":
    main()
