"""A local server that speaks the OpenAI chat protocol as vLLM does, and misbehaves on demand.

It runs on its own loop in a thread, on 127.0.0.1 and a port of its own:

    with ModelServer() as server:                                  # answers like a healthy vLLM
        ...ask(server.url)...
    with ModelServer(lambda call: Fault("429", retry_after="2")) as server: ...

The function is called for every chat request, on the server's thread. It returns a text (an ordinary reply), an
`Answer` (exactly these bytes), a `Fault` (see `FAULTS`), or None for what a healthy server would say. Bodies are
kept as bytes and parsed only when somebody looks; with `static` they are counted and thrown away, which makes the
server cheap enough to measure a client against.
"""

import asyncio
import contextlib
import json
import socket
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from clocks import PutOnLoop


@dataclass(frozen=True)
class Fault:
    """Something that goes wrong, by name."""

    name: str
    retry_after: str | None = None

    def __post_init__(self) -> None:
        if self.name not in {*FAULTS, *TORN, "hang"}:
            raise ValueError(f"no fault is called {self.name!r}")


@dataclass(frozen=True)
class Answer:
    """A reply as it goes over the wire."""

    body: bytes
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    length: int | None = None
    """Content-Length that is claimed, when it is not the true one."""


@dataclass
class Call:
    """One request that arrived."""

    number: int
    """Counted from 0 over all chat requests of this server."""
    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes = field(repr=False)

    @cached_property
    def json(self) -> dict[str, Any]:
        value = json.loads(self.body)
        assert isinstance(value, dict)
        return value

    @property
    def text(self) -> str:
        """All text of all messages."""
        texts = []
        for message in self.json["messages"]:
            content = message["content"]
            parts = [{"type": "text", "text": content}] if isinstance(content, str) else content
            texts += [part["text"] for part in parts if part["type"] == "text"]
        return "\n".join(texts)

    @property
    def is_probe(self) -> bool:
        """Whether it is the request with all fields that a probe sends."""
        return "Answer with one word." in self.text

    @property
    def images(self) -> list[tuple[str | None, str | None]]:
        """Data URL (None where only the uuid was sent) and uuid of every image."""
        found = []
        for message in self.json["messages"]:
            if isinstance(message["content"], list):
                for part in message["content"]:
                    if part["type"] == "image_url":
                        found.append(((part["image_url"] or {}).get("url"), part.get("uuid")))
        return found


Respond = Callable[[Call], "str | Answer | Fault | Mapping[str, Any] | None"]


class ModelServer:
    """The server; a context manager.

    Args:
        respond: Decides what a chat request is answered with.
        model: The name that is served; another one is answered with 404.
        key: The key that is asked for, if any.
        drops: Fields of a request that are silently ignored, as many servers do.
        rejects: Fields of a request that are answered with 400.
        latency: Seconds before each answer.
        uuid_cache: Whether `image_url: null` with a known uuid is understood; otherwise it is answered with 400.
        static: Answer every chat request with these bytes and look at nothing.
    """

    def __init__(
        self,
        respond: Respond | None = None,
        *,
        model: str = "judge",
        key: str = "",
        drops: tuple[str, ...] = (),
        rejects: tuple[str, ...] = (),
        latency: float = 0.0,
        uuid_cache: bool = True,
        static: bytes | None = None,
    ) -> None:
        self.respond = respond
        self.model = model
        self.key = key
        self.drops = drops
        self.rejects = rejects
        self.latency = latency
        self.uuid_cache = uuid_cache
        self.static = static
        self.calls: list[Call] = []
        self.cached: dict[str, int] = {}
        self.requests = 0
        self.received = 0
        self.in_flight = 0
        self.peak = 0
        self.connections = 0
        self._open: set[_Connection] = set()
        self._changed = threading.Condition()
        self._loop = PutOnLoop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="model-server", daemon=True)
        self._server: asyncio.Server | None = None
        self._problem: Exception | None = None
        self.port = 0

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def open_connections(self) -> int:
        return len(self._open)

    def __enter__(self) -> "ModelServer":
        self._held = _held_port()  # its own also while it refuses
        self.port = int(self._held.getsockname()[1])
        self._thread.start()
        self.listen()
        return self

    def __exit__(self, *_: object) -> None:
        self.refuse()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._held.close()
        if self._problem is not None:
            raise self._problem

    def listen(self) -> None:
        """Accept connections."""

        async def start() -> None:
            self._server = await self._loop.create_server(
                lambda: _Connection(self), "127.0.0.1", self.port, backlog=1024
            )

        asyncio.run_coroutine_threadsafe(start(), self._loop).result(100)

    def refuse(self) -> None:
        """Refuse connections and cut those that are open, as a server that has died."""

        async def stop() -> None:
            # First those that are being taken: they would stay open if the server closed meanwhile.
            while taken := asyncio.all_tasks() - {asyncio.current_task()}:
                await asyncio.gather(*taken, return_exceptions=True)
            if self._server is not None:
                self._server.close()
            for connection in list(self._open):
                connection.transport.abort()
            await asyncio.sleep(0)  # lets the connections hear of their end

        asyncio.run_coroutine_threadsafe(stop(), self._loop).result(100)

    def wait_for(self, condition: Callable[[], bool], timeout: float = 100.0) -> bool:
        """Wait until something about this server is so; it is looked at when a request or a connection changes."""
        with self._changed:
            return self._changed.wait_for(condition, timeout)

    def let_pass(self, seconds: float) -> None:
        """Let the server's clock go on by this much at once: answers that are due by then are sent."""
        self._loop.put_on(seconds)

    def _notify(self) -> None:
        with self._changed:
            self._changed.notify_all()

    def answer(self, call: Call) -> Answer | Fault:
        """Decide on an answer; what goes wrong in that is raised at the end of the `with`."""
        try:
            return self.reply(call)
        except Exception as problem:
            self._problem = problem
            return Fault("500")

    def reply(self, call: Call) -> Answer | Fault:
        """What to say to a complete request; for subclasses."""
        if self.key and call.headers.get("authorization") != f"Bearer {self.key}":
            return Fault("401")
        if call.method == "GET":
            return self.get(call.path)
        if call.path != "/v1/chat/completions":
            return Answer(b'{"detail":"Not Found"}', 404)
        self.calls.append(call)
        reply = self.respond(call) if self.respond else None
        if reply is None:
            reply = self._healthy(call)
        if isinstance(reply, str):
            reply = completion(reply, self.model)
        return reply if isinstance(reply, (Answer, Fault)) else Answer(json.dumps(reply).encode())

    def get(self, path: str) -> Answer:
        if path == "/v1/models":
            card = {"id": self.model, "object": "model", "root": self.model, "max_model_len": 8192}
            return Answer(json.dumps({"object": "list", "data": [card]}).encode())
        return Answer(b"", 200 if path == "/health" else 404)

    def _healthy(self, call: Call) -> Answer | Mapping[str, Any]:
        """What a vLLM would say that has nothing to say."""
        body = {key: value for key, value in call.json.items() if key not in self.drops}
        if body["model"] != self.model:
            return error(404, f"The model `{body['model']}` does not exist.", "NotFoundError")
        sent = set(body) | ({"uuid"} if any(uuid for _, uuid in call.images) else set())
        if unknown := sent & set(self.rejects):
            return error(400, f"Unexpected fields: {sorted(unknown)}", "BadRequestError")
        for index, (url, uuid) in enumerate(call.images):
            if url is None and (uuid not in self.cached or not self.uuid_cache):
                text = f"Cache miss for image at index {index} but data is not provided."
                return error(400, text, "BadRequestError")
        sizes = [len(url) if url else self.cached[uuid or ""] for url, uuid in call.images]
        if self.uuid_cache:
            self.cached |= {uuid: size for (_, uuid), size in zip(call.images, sizes, strict=True) if uuid}
        text = "Once upon a time there was a server."
        if "response_format" in body:
            text = json.dumps(instance(body["response_format"]["json_schema"]["schema"]))
        elif "structured_outputs" in body:
            text = body["structured_outputs"]["choice"][0]
        tops = body.get("top_logprobs", 0) if body.get("logprobs") else 0
        prompt = 10 + len(call.text.split()) + sum(9 + size // 200 for size in sizes)
        return completion(text, self.model, prompt_tokens=prompt, top_logprobs=tops)


def completion(
    text: str | None,
    model: str = "judge",
    *,
    prompt_tokens: int = 10,
    top_logprobs: int = 0,
    finish: str = "stop",
    **message: Any,
) -> dict[str, Any]:
    """A chat completion as vLLM writes it; each word is a token."""
    words = (text or "").split() or [""]
    logprobs = None
    if top_logprobs:
        rows = []
        for word in words:
            tops = [(word, -0.25), *((f"{word}{k}", -1.5 - k) for k in range(1, top_logprobs))]
            tops = [{"token": token, "logprob": value, "bytes": None} for token, value in tops]
            rows.append({**tops[0], "top_logprobs": tops})
        logprobs = {"content": rows}
    said = {"role": "assistant", "content": text, **message}
    choice = {"index": 0, "message": said, "logprobs": logprobs, "finish_reason": finish}
    usage = {"prompt_tokens": prompt_tokens, "completion_tokens": len(words), "prompt_tokens_details": None}
    about = {"id": "chatcmpl-1", "object": "chat.completion", "created": 1, "system_fingerprint": "local-1"}
    return {**about, "model": model, "choices": [choice], "usage": usage}


def error(status: int, message: str, kind: str) -> Answer:
    """An error as vLLM writes it."""
    body = {"error": {"message": message, "type": kind, "param": None, "code": status}}
    return Answer(json.dumps(body).encode(), status)


def instance(schema: Mapping[str, Any]) -> Any:
    """The least value that a JSON schema allows, for the plain schemas of this project."""
    if "const" in schema:
        return schema["const"]
    if "enum" in schema:
        return schema["enum"][0]
    kind = schema.get("type")
    if kind == "object":
        return {name: instance(value) for name, value in schema.get("properties", {}).items()}
    if kind == "array":
        return [instance(schema["items"])] * int(schema.get("minItems", 0))
    return {"integer": schema.get("minimum", 0), "number": 0.0, "boolean": False}.get(str(kind), "")


def refused_url() -> str:
    """The address of a port on which nobody listens."""
    return f"http://127.0.0.1:{own_port()}/v1"


def own_port(neighbours: int = 1) -> int:
    """A port on which nobody listens, or the first of some in a row; nobody is given them but who asks for them."""
    while True:
        held = [_held_port()]
        first = held[0].getsockname()[1]
        try:
            held += [_held_port(first + each) for each in range(1, neighbours)]
        except (OSError, OverflowError):
            held[0].close()
            continue
        _HELD.extend(held)
        return int(first)


_HELD: list[socket.socket] = []
"""Sockets that hold ports of this process to its end."""


def _held_port(port: int = 0) -> socket.socket:
    """Bind a socket and do not listen: the system gives the port to nobody, and a server may still ask for it."""
    held = socket.socket()
    try:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", port))
    except (OSError, OverflowError):
        held.close()
        raise
    return held


TORN = frozenset({"reset", "truncated", "slow_body"})
"""Faults in the middle of a reply: the connection is torn, the reply ends too early, or comes a byte at a time."""

FAULTS: Mapping[str, Callable[[], Any]] = {
    "huge": lambda: Answer(b" " * (64 << 20)),
    "garbage": lambda: Answer(b'{"choices": "\xff\xfe\x00"}'),
    "empty": lambda: Answer(b""),
    "html": lambda: Answer(b"<html><body>Sign in</body></html>", headers={"Content-Type": "text/html"}),
    "null": lambda: Answer(b"null"),
    "no_choices": lambda: completion("x") | {"choices": []},
    "null_content": lambda: completion(None),
    "number_content": lambda: completion(None) | {"choices": [{"message": {"role": "assistant", "content": 4}}]},
    "refusal": lambda: completion(None, refusal="I cannot look at this."),
    "content_filter": lambda: completion(None, finish="content_filter"),
    "length": lambda: completion('{"preference": "A", "reas', finish="length"),
    "context": lambda: error(400, "This model's maximum context length is 8192 tokens.", "BadRequestError"),
    "bad_request": lambda: error(400, "No such thing: sk-secret data:image/png;base64,AAAA", "BadRequestError"),
    "bad_schema": lambda: error(400, "Failed to transform json schema into a grammar", "BadRequestError"),
    "bad_image": lambda: error(400, "cannot identify image file <_io.BytesIO object>", "BadRequestError"),
    "too_many_images": lambda: error(400, "At most 2 image(s) may be provided in one prompt.", "BadRequestError"),
    "401": lambda: error(401, "Unauthorized: sk-secret", "AuthenticationError"),
    "403": lambda: error(403, "Forbidden: sk-secret", "PermissionError"),
    "404": lambda: error(404, "The model does not exist.", "NotFoundError"),
    "413": lambda: Answer(b"Request Entity Too Large", 413),
    "429": lambda: error(429, "Too many requests", "RateLimitError"),
    "500": lambda: error(500, "Internal server error: sk-secret", "InternalServerError"),
    "503": lambda: error(503, "Overloaded", "ServiceUnavailableError"),
    "redirect": lambda: Answer(b"", 307, {"Location": "http://127.0.0.1:9/v1/chat/completions"}),
}
"""What a server says, by the name of what goes wrong; with `hang` it says nothing."""


def _fault(fault: Fault) -> Answer:
    """The bytes of a fault that consists of bytes."""
    body = FAULTS[fault.name]()
    answer = body if isinstance(body, Answer) else Answer(json.dumps(body).encode())
    after = {} if fault.retry_after is None else {"Retry-After": fault.retry_after}
    return replace(answer, headers={**answer.headers, **after})


class _Connection(asyncio.BufferedProtocol):
    """One connection: reads requests of a stated length, one after the other."""

    transport: asyncio.Transport

    def __init__(self, server: ModelServer) -> None:
        self._server = server
        self._buffer = memoryview(bytearray(1 << 18))
        self._head = bytearray()
        self._body = bytearray()
        self._missing = -1  # bytes of the body still to come; below 0: reading the head
        self._request: tuple[str, str, dict[str, str]] = ("", "", {})
        self._busy = False
        self._timers: list[asyncio.TimerHandle] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport
        self._server.connections += 1
        self._server._open.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        for timer in self._timers:
            timer.cancel()
        if self._busy:
            self._server.in_flight -= 1
        self._server._open.discard(self)
        self._server._notify()

    def get_buffer(self, sizehint: int) -> memoryview:
        return self._buffer

    def buffer_updated(self, nbytes: int) -> None:
        self._server.received += nbytes
        data = self._buffer[:nbytes]
        if self._missing < 0:
            self._head += data
            if not self._head[:1].isalpha():
                self.transport.write(b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n")
                self.transport.close()  # not HTTP
                return
            end = self._head.find(b"\r\n\r\n")
            if end < 0:
                return
            rest = bytes(self._head[end + 4 :])
            self._read_head(bytes(self._head[:end]))
            self._head.clear()
            data = memoryview(rest)
        taken = data[: self._missing]
        self._missing -= len(taken)
        if self._server.static is None:
            self._body += taken
        if self._missing == 0:
            self._missing = -1
            self._complete()

    def _read_head(self, head: bytes) -> None:
        first, *lines = head.decode("latin-1").split("\r\n")
        method, path, _ = first.split(" ", 2)
        headers = {}
        for line in lines:
            name, _, value = line.partition(":")
            headers[name.lower()] = value.strip()
        self._request = (method, path, headers)
        self._missing = int(headers.get("content-length", "0"))

    def _complete(self) -> None:
        server = self._server
        method, path, headers = self._request
        number = server.requests
        server.requests += method == "POST"
        server.in_flight += 1
        server.peak = max(server.peak, server.in_flight)
        self._busy = True
        reply: Answer | Fault
        if server.static is not None and method == "POST":
            reply = Answer(server.static)
        else:
            call = Call(number, method, path, headers, bytes(self._body))
            self._body.clear()
            reply = server.answer(call)
            server._notify()
        if server.latency:
            self._later(server.latency, lambda: self._send(reply))
        else:
            self._send(reply)

    def _later(self, delay: float, action: Callable[[], None]) -> None:
        self._timers.append(self._server._loop.call_later(delay, action))

    def _send(self, reply: Answer | Fault) -> None:
        self._timers.clear()
        if isinstance(reply, Fault):
            if reply.name == "hang":
                return
            if reply.name in TORN:
                self._send_part(reply.name)
                return
            reply = _fault(reply)
        self._done()
        length = len(reply.body) if reply.length is None else reply.length
        headers = {"Content-Type": "application/json", "Content-Length": str(length), **reply.headers}
        lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        self.transport.write(f"HTTP/1.1 {reply.status} X\r\n{lines}\r\n".encode("latin-1") + reply.body)

    def _send_part(self, name: str) -> None:
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n"
        self.transport.write(head + b'{"id": "x", ')
        if name == "truncated":
            self.transport.close()
        elif name == "reset":
            sock = self.transport.get_extra_info("socket")
            with contextlib.suppress(OSError):
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            self._later(0.001, self.transport.abort)
        else:
            self._drip()

    def _drip(self) -> None:
        self._timers.clear()
        self.transport.write(b" ")
        self._later(0.01, self._drip)

    def _done(self) -> None:
        self._busy = False
        self._server.in_flight -= 1
