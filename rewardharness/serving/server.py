"""Runs the application with uvicorn: slow connections are closed, and being told to end is an orderly thing."""

import asyncio
import contextlib
import logging
import re
import signal
import socket
from collections.abc import Callable, Iterator
from http import HTTPStatus
from typing import Any

from uvicorn import Config, Server
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from rewardharness.errors import InputError
from rewardharness.garbage import keep_freed_memory
from rewardharness.serving.api import Front, error_reply
from rewardharness.serving.faults import Fault, RefusedError
from rewardharness.serving.security import clean_request_id
from rewardharness.serving.service import RequestContext, Service

log = logging.getLogger(__name__)

_KEEP_ALIVE = 75
"""Seconds for which an idle connection is kept: longer than a training step takes between two batches, often."""

_BACKLOG = 2048

_HEAD_BYTES = 64 << 10
"""Maximum size of all of a message but its body: the head, the frames of chunks, and what comes after the last one."""

_UPGRADE = re.compile(rb"\r\nupgrade:[^\r\n]*", re.IGNORECASE)
"""The offer of another protocol, which may be ignored (RFC 9110, 7.8). Java and curl send it with plain requests."""

_CHUNKED = 8
"""Bytes that a byte of a body may take: itself, and the frame of a chunk of one byte."""


class _JoinedWrites:
    """A transport that sends the head of a reply together with its body, which saves a system call and a packet."""

    def __init__(self, transport: asyncio.Transport, loop: asyncio.AbstractEventLoop) -> None:
        self._transport = transport
        self._loop = loop
        self._head = b""

    def __getattr__(self, name: str) -> Any:
        return getattr(self._transport, name)

    def write(self, data: bytes) -> None:
        """Keep what comes first for the next call, at most until the next turn of the event loop."""
        if self._head:
            head, self._head = self._head, b""
            self._transport.write(head + data)
        elif data:
            self._head = data
            self._loop.call_soon(self._flush)

    def close(self) -> None:
        """Close after everything is sent."""
        self._flush()
        self._transport.close()

    def _flush(self) -> None:
        if self._head:
            self.write(b"")


class PatientProtocol(HttpToolsProtocol):
    """HTTP/1.1 with limits of time and size for all that is no body, which uvicorn has not."""

    head_seconds = 30.0
    """Seconds from the first byte of a head, or from the connection, to its end."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self._too_late: asyncio.TimerHandle | None = None
        self._whole = True
        """Whether the last message has arrived completely."""
        self._held = b""
        """What has come of the next head."""
        self._besides = 0
        """Bytes of the message so far, less what its body allows for."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to wait for a head."""
        assert isinstance(transport, asyncio.Transport)
        super().connection_made(_JoinedWrites(transport, self.loop))  # type: ignore[arg-type]
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Go on with a head, or a body."""
        if self._whole:
            data, self._held = self._held + data, b""
            end = data.find(b"\r\n\r\n")
            if end < 0 and len(data) <= _HEAD_BYTES:
                self._held = data
                self._unset_keepalive_if_required()
                self._watch()
                return
            if b"upgrade" in (head := data[:end].lower()) and _UPGRADE.search(head):
                data = _UPGRADE.sub(b"", data[:end]) + data[end:]  # the parser would not read the body
        self._besides += len(data)
        super().data_received(data)
        if self._besides > _HEAD_BYTES:
            self._say(431, Fault("malformed", f"The head is over {_HEAD_BYTES} bytes.", "Send fewer headers."))
        self._watch()

    def connection_lost(self, exc: Exception | None) -> None:
        """Stop waiting."""
        self._stop_watching()
        super().connection_lost(exc)

    def on_message_begin(self) -> None:
        """Wait for its end."""
        self._whole = False
        super().on_message_begin()

    def on_body(self, body: bytes) -> None:
        """Take a part of a body, which may have come in chunks of a byte each."""
        self._besides -= _CHUNKED * len(body)
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Count the bytes of the next message."""
        self._whole, self._besides = True, 0
        super().on_message_complete()

    def on_response_complete(self) -> None:
        """Close if the rest of the body did not come in time. Between two requests uvicorn's own limit holds."""
        super().on_response_complete()
        if not self._whole:
            self._unset_keepalive_if_required()
            if not self._answering and self.cycle.scope is self.scope:
                self.transport.close()
        self._watch()

    def send_400_response(self, msg: str) -> None:
        """Say in our own shape that this is not HTTP."""
        self._say(400, Fault("malformed", "The request is not HTTP/1.1.", "Send it with a client for HTTP."))

    def _should_upgrade(self) -> bool:
        """Nothing but HTTP is spoken."""
        return False

    def _unsupported_upgrade_warning(self) -> None:
        """Close after the reply to CONNECT, as what follows is not read; uvicorn would advise to install more."""
        self.cycle.keep_alive = False

    @property
    def _answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _watch(self) -> None:
        """Wait for a head while there is neither a request that is being answered nor a pause between two."""
        if self._answering or self.timeout_keep_alive_task is not None:
            self._stop_watching()
        elif self._too_late is None and not self.transport.is_closing():
            self._too_late = self.loop.call_later(self.head_seconds, self._give_up)

    def _stop_watching(self) -> None:
        if self._too_late is not None:
            self._too_late.cancel()
            self._too_late = None

    def _give_up(self) -> None:
        self._too_late = None
        self._say(408, Fault("too_slow", "The head of the request did not come in time.", "Send it again.", True))

    def _say(self, status: int, fault: Fault) -> None:
        """Answer without the application where no reply has begun, and close.

        Nothing is sent after a reply unless more has come: the client would read it as its next reply.
        """
        if self._answering:
            unanswered = self.cycle.scope is self.scope and not self.cycle.response_started
        else:
            unanswered = self.cycle is None or bool(self._held) or self.cycle.scope is not self.scope
        if unanswered and not self.transport.is_closing():
            context = RequestContext(clean_request_id(None))
            _, headers, body = error_reply(context, RefusedError(status, fault), (b"connection", b"close"))
            lines = [b"HTTP/1.1 %d %s" % (status, HTTPStatus(status).phrase.encode("ascii"))]
            lines += [b"%s: %s" % header for header in headers]
            self.transport.write(b"\r\n".join([*lines, b"", body]))
        self.transport.close()


class _OwnSignals(Server):
    """uvicorn without its own ideas about signals: it would end the process by the signal that asked for it."""

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals to `serve`."""
        yield


def listen(host: str, port: int) -> socket.socket:
    """Open the socket, before anything else is done that may take long.

    Raises:
        InputError: If the address cannot be used.
    """
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        # The protocol must be named: asyncio sends small packets at once only on sockets that say that they are TCP.
        opened = socket.socket(family, kind, protocol or socket.IPPROTO_TCP)
        try:
            opened.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            opened.bind(address)
            opened.listen(_BACKLOG)
        except BaseException:
            opened.close()
            raise
    except (OSError, OverflowError, UnicodeError) as error:
        problem = getattr(error, "strerror", None) or "not a usable address"
        raise InputError(
            f"The server cannot listen on {host} port {port}: {problem}.", next_step="Give another --host or --port."
        ) from None
    opened.setblocking(False)
    return opened


OnReady = Callable[[Callable[[], None]], None]
OnSignal = Callable[[int], None]


async def serve(
    app: Front, service: Service, opened: socket.socket, on_ready: OnReady, on_signal: OnSignal = lambda number: None
) -> int | None:
    """Serve until SIGTERM or SIGINT, then end in order.

    What is under way is finished, for as long as the limits allow; meanwhile new requests are answered with 503, and
    `/readyz` as well. A second signal ends it at once.

    Args:
        app: The application.
        service: Its service.
        opened: Where to listen.
        on_ready: Called when requests are answered, with a function that ends it as SIGTERM does, from any thread.
        on_signal: Called with a signal that ends it.

    Returns:
        The signal that ended it; None when it was ended otherwise.
    """
    protocol = type("Protocol", (PatientProtocol,), {"head_seconds": service.limits.read_seconds})
    config = Config(
        app,
        http=protocol,
        ws="none",
        loop="none",
        lifespan="on",
        log_config=None,
        access_log=False,
        server_header=False,
        timeout_keep_alive=_KEEP_ALIVE,
        timeout_graceful_shutdown=5,
    )
    server = _OwnSignals(config)
    loop = asyncio.get_running_loop()
    ending: asyncio.Task[None] | None = None
    received: list[int] = []

    keep_freed_memory()  # bodies of several megabytes come and go

    async def end() -> None:
        await service.end()
        server.should_exit = True

    def asked(number: int | None = None) -> None:
        nonlocal ending
        if number is not None:
            received.append(number)
            on_signal(number)
        if ending is None:
            ending = loop.create_task(end())
        else:
            server.should_exit = server.force_exit = True

    def end_soon() -> None:
        with contextlib.suppress(RuntimeError):  # it has ended already
            loop.call_soon_threadsafe(asked)

    numbers = (signal.SIGTERM, signal.SIGINT)
    for number in numbers:
        with contextlib.suppress(RuntimeError, ValueError):  # not the main thread, which handles the signals
            loop.add_signal_handler(number, asked, number)
    serving = loop.create_task(server.serve(sockets=[opened]))
    try:
        while not server.started and not serving.done():
            await asyncio.sleep(0.01)
        if server.started:
            on_ready(end_soon)
        await serving
    finally:
        for number in numbers:
            with contextlib.suppress(RuntimeError, ValueError):
                loop.remove_signal_handler(number)
        if ending is not None:
            ending.cancel()
    return received[0] if received else None
