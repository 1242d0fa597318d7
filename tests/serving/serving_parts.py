"""A real server on a loop in a thread, judges that do as they are told, and a plain way to ask."""

import asyncio
import base64
import hashlib
import http.client
import json
import socket
import threading
from collections.abc import Callable, Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

import numpy as np
from clocks import PutOnLoop
from model_server import Call

from rewardharness.judging.interface import unjudged
from rewardharness.judging.judge import Judge
from rewardharness.library.store import EMPTY, Library
from rewardharness.measure.images import encode_png
from rewardharness.schema import Example, Failure, Judgment, Scores, TextInput, Usage
from rewardharness.serving.api import make_app
from rewardharness.serving.limits import Limits
from rewardharness.serving.security import Guard
from rewardharness.serving.server import listen, serve
from rewardharness.serving.service import Service

USUAL = Limits()
PATIENCE = 100.0
"""Seconds after which a test that waits for something has failed."""


def picture(shade: int, side: int = 8) -> bytes:
    """A small grey PNG; other shades are other pictures."""
    return encode_png(np.full((side, side, 3), shade, np.uint8))


def b64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def is_probe(call: Call) -> bool:
    """Whether a model was asked what it can do, rather than to judge."""
    return len(call.images) < 3 or "Answer with one word." in call.text


def reward_of(data: bytes) -> float:
    """What `ReadyJudge` thinks of an image."""
    return int(hashlib.sha256(data).hexdigest()[:8], 16) / 0xFFFFFFFF


class ReadyJudge(Judge):
    """Judges at once, by the bytes of the candidates; what it does beforehand can be set."""

    name = "ready"
    protocol = "by bytes"
    revision = "1"

    def __init__(
        self, trouble: Callable[[Example], Failure | Exception | None] = lambda example: None, both_orders: bool = True
    ) -> None:
        self.trouble = trouble
        self.both_orders = both_orders
        self.asked: list[Example] = []
        self.closed = 0

    async def judge(self, example: Example, library: Library) -> Judgment:
        self.asked.append(example)
        trouble = self.trouble(example)
        if isinstance(trouble, Exception):
            raise trouble
        if trouble is not None:
            return unjudged(example, self, library, trouble)
        return self.answer(example, library)

    def answer(self, example: Example, library: Library) -> Judgment:
        rewards = {
            label: reward_of(each.text.encode() if isinstance(each, TextInput) else getattr(each, "data", None) or b"")
            for label, each in zip(example.labels, example.candidates, strict=True)
        }
        scores = {label: Scores(1 + 3 * reward, 1 + 3 * reward, reward) for label, reward in rewards.items()}
        order = sorted(rewards, key=lambda label: -rewards[label])
        several = len(order) > 1
        return Judgment(
            example.id,
            self.name,
            self.protocol,
            library.id,
            preference=order[0] if several else None,
            ranking=tuple((label,) for label in order),
            margin=rewards[order[0]] - rewards[order[1]] if several else None,
            scores=scores,
            position_consistent=True if several and self.both_orders else None,
            usage=Usage(1, 100, 10, 0.01),
        )

    async def close(self) -> None:
        self.closed += 1


class HoldingJudge(ReadyJudge):
    """Answers nothing until it is let go; says when somebody waits, and when somebody gave up."""

    def __init__(self, expected: int = 1) -> None:
        super().__init__()
        self.expected = expected
        self.entered = threading.Event()
        """Set when as many judgments are under way as are expected."""
        self.given_up = threading.Event()
        """Set when a judgment under way was given up."""
        self._waiting: list[asyncio.Future[None]] = []
        self._loop: asyncio.AbstractEventLoop | None = None
        self._free = False

    async def judge(self, example: Example, library: Library) -> Judgment:
        self.asked.append(example)
        self._loop = asyncio.get_running_loop()
        if not self._free:
            turn = self._loop.create_future()
            self._waiting.append(turn)
            if len(self._waiting) >= self.expected:
                self.entered.set()
            try:
                await turn
            except asyncio.CancelledError:
                self.given_up.set()
                raise
        return self.answer(example, library)

    def let_go(self) -> None:
        """Answer what waits, and everything from now on at once."""

        def free() -> None:
            self._free = True
            for turn in self._waiting:
                if not turn.done():
                    turn.set_result(None)

        assert self._loop is not None
        self._loop.call_soon_threadsafe(free)


@dataclass(frozen=True)
class Answered:
    """A reply as it came."""

    status: int
    headers: Mapping[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        return json.loads(self.body)

    @property
    def code(self) -> str:
        return str(self.json["error"]["code"])


class Running:
    """A server in a thread.

    Args:
        judge: Who judges.
        limits: How much at once.
        token: What callers must show.
        release: Hash of the release that is served.
    """

    def __init__(
        self,
        judge: Any,
        limits: Limits = USUAL,
        *,
        token: str | None = None,
        release: str | None = None,
        library: Library = EMPTY,
    ) -> None:
        self.service = Service(judge, library, limits, release=release)
        self.token = token
        self._app = make_app(self.service, Guard(token))
        self._socket = listen("127.0.0.1", 0)
        self.port = int(self._socket.getsockname()[1])
        self.url = f"http://127.0.0.1:{self.port}"
        self._ready = threading.Event()
        self._loop = PutOnLoop()
        self._thread = threading.Thread(target=self._serve, daemon=True)

    def _serve(self) -> None:
        def ready(end: Callable[[], None]) -> None:
            self.end = end
            self._ready.set()

        with asyncio.Runner(loop_factory=lambda: self._loop) as runner:
            runner.run(serve(self._app, self.service, self._socket, ready))

    def let_pass(self, seconds: float) -> None:
        """Let the server's clock go on by this much at once. What was sent to it before has come in time."""
        assert self.get("/healthz").status == 200
        self._loop.put_on(seconds)

    def __enter__(self) -> Self:
        self._thread.start()
        assert self._ready.wait(PATIENCE)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end()
        self.join()

    def join(self) -> None:
        """Wait until the server has ended."""
        self._thread.join(PATIENCE)
        assert not self._thread.is_alive()

    def ask(
        self, method: str, path: str, body: bytes | None = None, headers: Mapping[str, str] | None = None
    ) -> Answered:
        """Send one request."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE)
        shown = {"Authorization": f"Bearer {self.token}"} if self.token else {}
        try:
            connection.request(method, path, body, {**shown, **(headers or {})})
            reply = connection.getresponse()
            return Answered(reply.status, {k.lower(): v for k, v in reply.getheaders()}, reply.read())
        finally:
            connection.close()

    def connect(self, sent: bytes = b"") -> socket.socket:
        """Open a connection and send bytes."""
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=PATIENCE)
        connection.sendall(sent)
        return connection

    def wait_until(self, condition: Callable[[Service], bool]) -> None:
        """Wait for a state of the server, which answers in the meantime."""
        while not condition(self.service):
            assert self.get("/healthz").status == 200

    def get(self, path: str, **headers: str) -> Answered:
        return self.ask("GET", path, headers=headers)

    def post(self, path: str, value: Any, **headers: str) -> Answered:
        """Send JSON."""
        return self.ask("POST", path, json.dumps(value).encode(), {"Content-Type": "application/json", **headers})


def head(path: str = "/score", *lines: str) -> bytes:
    """The head of a POST request of JSON."""
    usual = (f"POST {path} HTTP/1.1", "Host: localhost", "Content-Type: application/json")
    return "".join(f"{line}\r\n" for line in (*usual, *lines, "")).encode()


def message(value: Any, path: str = "/score", *lines: str) -> bytes:
    """A POST request of JSON."""
    body = json.dumps(value).encode()
    return head(path, *lines, f"Content-Length: {len(body)}") + body


CHUNKED = "Transfer-Encoding: chunked"


def read_all(connection: socket.socket) -> bytes:
    """Read until the server closes the connection."""
    received = b""
    while data := connection.recv(65536):
        received += data
    return received


_THREADS = ThreadPoolExecutor(64)


def later(work: Callable[[], Any]) -> "Future[Any]":
    """Work in a thread; `result` waits for what comes of it."""
    return _THREADS.submit(work)


SOURCE, ONE, TWO, THREE = (picture(shade) for shade in (0, 80, 160, 240))


def edit(image: bytes = ONE, **more: Any) -> dict[str, Any]:
    """The JSON of one edit."""
    return {"instruction": "make it lighter", "source": b64(SOURCE), "edited": b64(image), **more}


def group(*images: bytes, **more: Any) -> dict[str, Any]:
    """The JSON of several candidates."""
    return {"instruction": "make it lighter", "source": b64(SOURCE), "candidates": list(map(b64, images)), **more}


def pair(one: bytes = ONE, other: bytes = TWO, **more: Any) -> dict[str, Any]:
    """The JSON of a comparison."""
    return {"instruction": "make it lighter", "source": b64(SOURCE), "a": b64(one), "b": b64(other), **more}


def rewards_of(images: Iterable[bytes]) -> list[float]:
    return [reward_of(image) for image in images]


def rewards_in(reply: Answered) -> list[float | None]:
    return [item["reward"] for item in reply.json["results"]]
