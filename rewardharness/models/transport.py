"""HTTP/1.1 as asking models needs it: one POST or GET at a time per connection, bodies in pieces, replies bounded.

A body of megabytes goes to the socket as it is encoded, and the loop does little else per request, which general
clients do not offer. There are no redirects, cookies, compression or proxies: a key and an image go to the address
that was given, and to no other. A reply that breaks HTTP is an error, never a guess.
"""

import asyncio
import re
import socket
import ssl
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass

from rewardharness.models.public import is_public

_IDLE = 4.0
"""Seconds after which an idle connection is not used again. Less than the 5 s after which uvicorn, and so vLLM,
closes it."""

_CONNECT = 10.0
"""Seconds to wait for a connection, with its TLS handshake."""

_LARGEST_HEAD = 1 << 16
"""Bytes of a reply's status line and headers at most."""

_STATUS = re.compile(rb"HTTP/1\.([01]) ([1-5][0-9]{2})(?: [^\r\n]*)?")
_LENGTH = re.compile(rb"[0-9]{1,15}")
_CHUNK = re.compile(rb"([0-9a-fA-F]{1,12})[ \t]*(?:;[^\r\n]*)?")


class NotHttpError(Exception):
    """The reply breaks HTTP, or is larger than it may be."""


class NotPublicError(Exception):
    """The address leads to a machine that is not on the public internet."""


@dataclass(frozen=True)
class HttpReply:
    """A complete reply."""

    status: int
    headers: dict[bytes, bytes]
    """By lowercase name; of a name that is repeated, the last."""
    body: bytes


@dataclass(frozen=True)
class Origin:
    """Where connections go."""

    host: str
    port: int
    secure: bool
    """Whether TLS is spoken."""


class HttpClient:
    """Keeps connections and makes exchanges on them. Connections of an earlier event loop are forgotten.

    Args:
        largest: Bytes of a reply's body at most.
        public_only: Connect to nothing but machines on the public internet. Names are resolved once per connection, and
            it goes to the very address that was looked at.
    """

    def __init__(self, largest: int, *, public_only: bool = False) -> None:
        self._largest = largest
        self._public_only = public_only
        self._idle: dict[Origin, deque[_Connection]] = {}
        self._open: set[_Connection] = set()
        self._tls: ssl.SSLContext | None = None

    async def exchange(self, origin: Origin, head: bytes, pieces: Iterable[bytes]) -> HttpReply:
        """Send a request and wait for the complete reply. When cancelled, the connection is closed.

        Args:
            origin: Where to.
            head: Request line and headers, with the empty line at their end.
            pieces: The body.

        Raises:
            OSError: If there is no connection, or it is lost; `ssl.SSLError` if TLS fails.
            NotHttpError: If the reply is not HTTP or too large.
            NotPublicError: If it would lead to another machine than allowed.
        """
        connection = self._take(origin) or await self._connect(origin)
        try:
            reply = await connection.exchange(head, pieces)
        except BaseException:
            connection.abort()
            raise
        if connection.reusable:
            connection.idle_since = connection.loop.time()
            self._idle.setdefault(origin, deque()).append(connection)
        else:
            connection.abort()
        return reply

    async def close(self) -> None:
        """Close all connections and wait until they are closed."""
        self._idle.clear()
        loop = asyncio.get_running_loop()
        closing = [connection for connection in self._open if connection.loop is loop]
        for connection in closing:
            connection.abort()
        while not self._open.isdisjoint(closing):
            await asyncio.sleep(0)
        self._open.clear()

    def _take(self, origin: Origin) -> "_Connection | None":
        """Take the connection that was used last; those that have been idle for too long are closed."""
        idle = self._idle.get(origin)
        while idle:
            connection = idle.pop()
            if not connection.reusable:
                continue
            if connection.loop.time() - connection.idle_since <= _IDLE:
                return connection
            connection.abort()
            while idle:  # the others have been idle even longer
                idle.pop().abort()
        return None

    async def _connect(self, origin: Origin) -> "_Connection":
        if origin.secure and self._tls is None:
            self._tls = ssl.create_default_context()
        try:
            async with asyncio.timeout(_CONNECT):
                if not self._public_only:
                    return await self._connect_to(origin, origin.host)
                trouble: OSError = ConnectionError("the name has no address")
                for address in await _public_addresses(origin):
                    try:
                        return await self._connect_to(origin, address)
                    except OSError as error:
                        trouble = error
                raise trouble
        except TimeoutError:
            raise ConnectionError("no connection in time") from None

    async def _connect_to(self, origin: Origin, host: str) -> "_Connection":
        """Connect to a name or address; TLS goes by the name of the origin."""
        _, connection = await asyncio.get_running_loop().create_connection(
            lambda: _Connection(self._largest, self._open),
            host,
            origin.port,
            ssl=self._tls if origin.secure else None,
            server_hostname=origin.host if origin.secure else None,
            happy_eyeballs_delay=0.25,
        )
        return connection


async def _public_addresses(origin: Origin) -> list[str]:
    """Resolve a name.

    Raises:
        OSError: If that cannot be done.
        NotPublicError: If any of its addresses is not public: an honest name has no such address beside others.
    """
    found = await asyncio.get_running_loop().getaddrinfo(origin.host, origin.port, type=socket.SOCK_STREAM)
    addresses = list(dict.fromkeys(str(entry[4][0]) for entry in found))
    if not all(map(is_public, addresses)):
        raise NotPublicError("not on the public internet")
    return addresses


class _Connection(asyncio.Protocol):
    """One connection and the reply that is being read on it."""

    def __init__(self, largest: int, open_: "set[_Connection]") -> None:
        self.loop = asyncio.get_running_loop()
        self._largest = largest
        self._open = open_
        self._transport: asyncio.Transport | None = None
        self._writable: asyncio.Future[None] | None = None  # while the socket takes no more
        self._reply: asyncio.Future[HttpReply] | None = None
        self._sending = False
        self._buffer = bytearray()
        self._body = bytearray()
        self._head: tuple[int, dict[bytes, bytes]] | None = None
        self._missing: int | None = None  # bytes of the body or chunk; None: until the connection is closed
        self._chunked = False
        self._keep = False
        self.idle_since = 0.0

    @property
    def reusable(self) -> bool:
        """Whether another exchange can be made."""
        if not self._keep or self._transport is None or self._transport.is_closing():
            return False
        return self.loop is asyncio.get_running_loop()

    def abort(self) -> None:
        """Close at once."""
        self._keep = False
        if self._reply is not None and not self._reply.done():
            self._reply.cancel()  # nobody waits for it any more
        if self._transport is not None:
            self._transport.abort()

    async def exchange(self, head: bytes, pieces: Iterable[bytes]) -> HttpReply:
        """Send a request and wait for the complete reply."""
        self._reply = self.loop.create_future()
        self._head = None
        self._sending = True
        self._keep = False
        for piece in pieces:
            self._write(head + piece if head else piece)
            head = b""
            if self._writable is not None:
                await self._writable
            if self._reply.done():  # answered before everything was said, as in "too large"
                return await self._reply
        if head:
            self._write(head)
        self._sending = False
        return await self._reply

    def _write(self, data: bytes) -> None:
        if self._transport is None or self._transport.is_closing():
            if self._reply is not None and self._reply.done():
                return
            raise ConnectionResetError("the connection is closed")
        self._transport.write(data)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._open.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._open.discard(self)
        self._transport = None
        if self._head is not None and self._missing is None and not self._chunked and exc is None:
            self._finish()
        self._fail(ConnectionResetError("the connection was closed"))
        self.resume_writing()

    def pause_writing(self) -> None:
        self._writable = self.loop.create_future()

    def resume_writing(self) -> None:
        writable, self._writable = self._writable, None
        if writable is not None and not writable.done():
            writable.set_result(None)

    def data_received(self, data: bytes) -> None:
        if self._reply is None or self._reply.done():
            self.abort()  # nobody asked
            return
        self._buffer += data
        try:
            while self._head is None:
                if not self._read_head():
                    return
            if self._chunked:
                self._read_chunks()
            else:
                self._read_body()
        except NotHttpError as error:
            self._fail(error)
            self.abort()

    def _read_head(self) -> bool:
        """Read the status line and headers, if they are all there."""
        end = self._buffer.find(b"\r\n\r\n")
        if (len(self._buffer) if end < 0 else end) > _LARGEST_HEAD:
            raise NotHttpError("the headers are too long")
        if end < 0:
            return False
        first, *lines = bytes(self._buffer[:end]).split(b"\r\n")
        del self._buffer[: end + 4]
        found = _STATUS.fullmatch(first)
        if not found:
            raise NotHttpError("the status line is not HTTP")
        status = int(found[2])
        if status < 200:
            return True  # an announcement; the reply follows
        headers = {}
        for line in lines:
            name, colon, value = line.partition(b":")
            if not colon:
                raise NotHttpError("a header is not HTTP")
            headers[name.lower()] = value.strip()
        self._frame(status, headers)
        close = b"close" in headers.get(b"connection", b"").lower()
        self._keep = found[1] == b"1" and not close and (self._chunked or self._missing is not None)
        self._head = (status, headers)
        self._body = bytearray()
        return True

    def _frame(self, status: int, headers: dict[bytes, bytes]) -> None:
        """Find out where the body ends."""
        coding, length = headers.get(b"transfer-encoding"), headers.get(b"content-length")
        self._chunked = coding is not None
        self._missing = None
        if coding is not None and coding.lower() != b"chunked":
            raise NotHttpError("the transfer encoding is unknown")
        if self._chunked or status in {204, 304}:
            self._missing = 0
        elif length is not None:
            if not _LENGTH.fullmatch(length):
                raise NotHttpError("the length is not a number")
            self._missing = int(length)
            if self._missing > self._largest:
                raise NotHttpError("the reply is too large")

    def _read_body(self) -> None:
        """Read a body of known length, or one that ends with the connection."""
        self._body += self._buffer
        self._buffer.clear()
        if self._missing is None:
            if len(self._body) > self._largest:
                raise NotHttpError("the reply is too large")
        elif len(self._body) >= self._missing:
            if len(self._body) > self._missing:
                self._keep = False  # what follows belongs to nothing that was asked
                del self._body[self._missing :]
            self._finish()

    def _read_chunks(self) -> None:
        """Read as many chunks as are there."""
        while True:
            end = self._buffer.find(b"\r\n")
            if end < 0:
                if len(self._buffer) > _LARGEST_HEAD:
                    raise NotHttpError("a chunk has no length")
                return
            found = _CHUNK.fullmatch(self._buffer[:end])
            if not found:
                raise NotHttpError("the length of a chunk is not a number")
            size = int(found[1], 16)
            if len(self._body) + size > self._largest:
                raise NotHttpError("the reply is too large")
            if size == 0:
                last = self._buffer.find(b"\r\n\r\n", end)
                if last < 0:
                    if len(self._buffer) > _LARGEST_HEAD:
                        raise NotHttpError("the headers are too long")
                    return
                self._keep = self._keep and len(self._buffer) == last + 4
                self._buffer.clear()
                self._finish()
                return
            if len(self._buffer) < end + 2 + size + 2:
                return
            if self._buffer[end + 2 + size : end + 4 + size] != b"\r\n":
                raise NotHttpError("a chunk is longer than it says")
            self._body += self._buffer[end + 2 : end + 2 + size]
            del self._buffer[: end + 4 + size]

    def _finish(self) -> None:
        """The reply is complete."""
        if self._reply is None or self._reply.done() or self._head is None:
            return
        self._keep = self._keep and not self._sending
        status, headers = self._head
        self._reply.set_result(HttpReply(status, headers, bytes(self._body)))
        self.resume_writing()

    def _fail(self, error: Exception) -> None:
        if self._reply is not None and not self._reply.done():
            self._reply.set_exception(error)
        self.resume_writing()
