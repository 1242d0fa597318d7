"""Minimal HTTP/1.1 client for model requests: streamed bodies, size-limited replies, keep-alive without pipelining.

A body of megabytes is written to the socket while it is encoded, with little overhead per request, which general
clients do not offer. There are no redirects, cookies, compression or proxies: keys and images are sent to the given
address only. A reply that violates HTTP is an error.
"""

import asyncio
import ipaddress
import re
import socket
import ssl
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Any, cast
from urllib.parse import SplitResult, urlsplit

_IDLE = 4.0
"""Seconds after which an idle connection is not reused. Less than the 5 s after which uvicorn, and so vLLM, closes
it."""

_CONNECT = 10.0
"""Connection timeout in seconds, including the TLS handshake."""

_LARGEST_HEAD = 1 << 16
"""Maximum size of the status line and headers, in bytes."""

_HOST = re.compile(r"[A-Za-z0-9._:%-]+")
_STATUS = re.compile(rb"HTTP/1\.([01]) ([1-5][0-9]{2})(?: [^\r\n]*)?")
_LENGTH = re.compile(rb"[0-9]{1,15}")
_CHUNK = re.compile(rb"([0-9a-fA-F]{1,12})[ \t]*(?:;[^\r\n]*)?")


class NotHttpError(Exception):
    """The reply violates HTTP or is too large."""


class NotPublicError(Exception):
    """The address is not on the public internet."""


@dataclass(frozen=True)
class HttpReply:
    """A complete reply."""

    status: int
    headers: dict[bytes, bytes]
    """Values by lowercase name; the last of repeated headers."""
    body: bytes

    def header(self, name: str) -> str:
        """Return the value of a header; empty without it."""
        return self.headers.get(name.encode("ascii"), b"").decode("latin-1")


@dataclass(frozen=True)
class ServerAddress:
    """Host, port and scheme of a server."""

    host: str
    port: int
    secure: bool
    """Whether to use TLS."""
    name: str = ""
    """Host and port as in the URL, for messages and the header Host."""

    @classmethod
    def of(cls, url: str) -> "tuple[ServerAddress, SplitResult]":
        """Read the server of a URL, and return the parts of the URL as well.

        Raises:
            ValueError: If it is no `http` or `https` URL.
        """
        split = urlsplit(url)
        port, host, secure = split.port, (split.hostname or "").encode("idna").decode("ascii"), split.scheme == "https"
        if split.scheme not in {"http", "https"} or not _HOST.fullmatch(host):
            raise ValueError("not a URL of a server")
        name = f"[{host}]" if ":" in host else host
        name += f":{port}" if port is not None else ""
        return cls(host, port or (443 if secure else 80), secure, name), split

    def head(self, method: str, path: str, key: str) -> bytes:
        """Return the request line and headers of a request, without the empty line that ends them."""
        lines = [
            f"{method} {path} HTTP/1.1",
            f"Host: {self.name}",
            "User-Agent: rewardharness",
            "Accept: application/json",
            "Accept-Encoding: identity",
            *([f"Authorization: Bearer {key}"] if key else []),
        ]
        return "".join(f"{line}\r\n" for line in lines).encode("ascii")


class HttpClient:
    """An HTTP client with a connection pool. Connections of a previous event loop are dropped.

    Args:
        largest: Maximum size of a reply's body, in bytes.
        public_only: Connect only to the public internet. Names are resolved once per connection, which uses the
            checked address.
    """

    def __init__(self, largest: int, *, public_only: bool = False) -> None:
        self._largest = largest
        self._public_only = public_only
        self._idle: dict[ServerAddress, deque[_Connection]] = {}
        self._open: set[_Connection] = set()
        self._tls: ssl.SSLContext | None = None

    async def exchange(self, origin: ServerAddress, head: bytes, pieces: Iterable[bytes]) -> HttpReply:
        """Send a request and wait for the complete reply. Cancellation closes the connection.

        Args:
            origin: The server.
            head: Request line and headers, including the final empty line.
            pieces: The body.

        Raises:
            OSError: If the connection fails or is lost; `ssl.SSLError` if TLS fails.
            NotHttpError: If the reply is not HTTP or too large.
            NotPublicError: If the address is not allowed.
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

    def _take(self, origin: ServerAddress) -> "_Connection | None":
        """Return the most recently used connection; close those that are idle for too long."""
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

    async def _connect(self, origin: ServerAddress) -> "_Connection":
        if origin.secure and self._tls is None:
            self._tls = ssl.create_default_context()
        try:
            async with asyncio.timeout(_CONNECT):
                last_error: OSError = ConnectionError("the name has no address")
                for address in await _public_addresses(origin) if self._public_only else [origin.host]:
                    try:
                        return await self._connect_to(origin, address)
                    except OSError as error:
                        last_error = error
                raise last_error
        except TimeoutError:
            raise ConnectionError("connection timed out") from None

    async def _connect_to(self, origin: ServerAddress, host: str) -> "_Connection":
        """Connect to a name or address; TLS verifies the host of the origin."""
        loop: Any = asyncio.get_running_loop()
        # uvloop, which servers and Ray may run, has no such parameter.
        delay = {"happy_eyeballs_delay": 0.25} if isinstance(loop, asyncio.BaseEventLoop) else {}
        tls, name = (self._tls, origin.host) if origin.secure else (None, None)
        connection = _Connection(self._largest, self._open)
        await loop.create_connection(lambda: connection, host, origin.port, ssl=tls, server_hostname=name, **delay)
        return connection


async def _public_addresses(origin: ServerAddress) -> list[str]:
    """Resolve a host name to public addresses.

    Raises:
        OSError: If resolution fails.
        NotPublicError: If any of its addresses is not public.
    """
    entries = await asyncio.get_running_loop().getaddrinfo(origin.host, origin.port, type=socket.SOCK_STREAM)
    addresses = list(dict.fromkeys(str(entry[4][0]) for entry in entries))
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
        self._writable: asyncio.Future[None] | None = None  # while the write buffer is full
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
        """Whether the connection can serve another exchange."""
        if not self._keep or self._transport is None or self._transport.is_closing():
            return False
        return self.loop is asyncio.get_running_loop()

    def abort(self) -> None:
        """Close immediately."""
        self._keep = False
        if self._reply is not None and not self._reply.done():
            self._reply.cancel()  # no waiter is left
        if self._transport is not None:
            self._transport.abort()

    async def exchange(self, head: bytes, pieces: Iterable[bytes]) -> HttpReply:
        """Send a request and wait for the complete reply."""
        self._reply = self.loop.create_future()
        self._head = None
        self._sending = True
        self._keep = False
        rest = iter(pieces)
        for piece in chain((head + next(rest, b""),), rest):
            if self._transport is not None and not self._transport.is_closing():
                self._transport.write(piece)
            elif not self._reply.done():
                raise ConnectionResetError("the connection is closed")
            if self._writable is not None:
                await self._writable
            if self._reply.done():  # replied before the body was sent, for example "too large"
                return await self._reply
        self._sending = False
        return await self._reply

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)  # uvloop's is of no class of asyncio
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
            self.abort()  # unsolicited data
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
        """Parse the status line and headers once they are complete."""
        end = self._buffer.find(b"\r\n\r\n")
        if (len(self._buffer) if end < 0 else end) > _LARGEST_HEAD:
            raise NotHttpError("the headers are too long")
        if end < 0:
            return False
        first, *lines = bytes(self._buffer[:end]).split(b"\r\n")
        del self._buffer[: end + 4]
        match = _STATUS.fullmatch(first)
        if not match:
            raise NotHttpError("the status line is invalid")
        status = int(match[2])
        if status < 200:
            return True  # informational; the final reply follows
        headers = {}
        for line in lines:
            name, colon, value = line.partition(b":")
            if not colon:
                raise NotHttpError("a header is invalid")
            headers[name.lower()] = value.strip()
        self._frame(status, headers)
        close = b"close" in headers.get(b"connection", b"").lower()
        self._keep = match[1] == b"1" and not close and (self._chunked or self._missing is not None)
        self._head = (status, headers)
        self._body = bytearray()
        return True

    def _frame(self, status: int, headers: dict[bytes, bytes]) -> None:
        """Determine the length of the body."""
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
                self._keep = False  # discard unsolicited data
                del self._body[self._missing :]
            self._finish()

    def _read_chunks(self) -> None:
        """Read all complete chunks."""
        while True:
            end = self._buffer.find(b"\r\n")
            if end < 0:
                if len(self._buffer) > _LARGEST_HEAD:
                    raise NotHttpError("a chunk has no length")
                return
            match = _CHUNK.fullmatch(self._buffer[:end])
            if not match:
                raise NotHttpError("the length of a chunk is not a number")
            size = int(match[1], 16)
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
                raise NotHttpError("a chunk is longer than declared")
            self._body += self._buffer[end + 2 : end + 2 + size]
            del self._buffer[: end + 4 + size]

    def _finish(self) -> None:
        """Complete the reply."""
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


_TRANSLATED = ipaddress.IPv6Network("64:ff9b::/96")
"""Addresses that a NAT64 gateway maps to the IPv4 address in their last 32 bits (RFC 6052)."""


def is_public(address: str) -> bool:
    """Return whether a numeric address is on the public internet.

    Args:
        address: Numeric IPv4 or IPv6 address from name resolution. Names are never public.
    """
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return False
    if isinstance(parsed, ipaddress.IPv6Address):
        if parsed.teredo is not None:
            return False
        inner = parsed.ipv4_mapped or parsed.sixtofour
        if inner is None and parsed in _TRANSLATED:
            inner = ipaddress.IPv4Address(int(parsed) & 0xFFFFFFFF)
        if inner is not None:
            return is_public(str(inner))
        # Addresses outside global unicast (RFC 4291, 2000::/3) have a special meaning.
        if int(parsed) >> 125 != 1:
            return False
    return parsed.is_global and not parsed.is_multicast
