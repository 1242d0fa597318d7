"""Models behind servers that speak the OpenAI chat protocol: vLLM, SGLang, OpenAI itself and many more.

One HTTP session for all endpoints of a model, one loop of retries (that of the pool), and bodies that are encoded
while they are sent. Redirects, cookies and proxies from the environment are not used: a key and an image go to the
address that was given, and to no other.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from urllib.parse import urlsplit

import aiohttp
import orjson
from aiohttp.abc import AbstractStreamWriter

from rewardharness.errors import InputError
from rewardharness.models.base import ChatRequest, ModelError, Reply
from rewardharness.models.endpoints import Endpoint, EndpointPool, EndpointStats, PoolSettings
from rewardharness.models.limits import ByteBudget
from rewardharness.models.probe import Listing, Probe, examine
from rewardharness.models.replies import CacheMissError, read_error, read_reply, read_retry_after
from rewardharness.models.wire import OPENAI, VLLM, Body, Capabilities, request_body

_KEEP_ALIVE = 4.0
"""Seconds for which an idle connection is kept. Less than the 5 s after which uvicorn, and so vLLM, closes it."""

_CONNECT_TIMEOUT = 10.0
"""Seconds to wait for a connection."""

_LARGEST_REPLY = 32 << 20
"""Bytes of a reply that are read at most; log-probabilities of a long one are some megabytes."""

_REMEMBERED = 4096
"""Images that are remembered as sent, per endpoint."""


@dataclass(frozen=True)
class ClientSettings:
    """How the endpoints of one model are used."""

    api_key: str | None = field(default=None, repr=False)
    """Sent as a bearer token to every endpoint."""
    pool: PoolSettings = field(default_factory=PoolSettings)
    bytes_in_flight: int = 512 << 20
    """Bytes of request bodies in flight at most, over all endpoints."""
    send_once: bool = False
    """Name an image that an endpoint has had before by its hash, without its bytes. For endpoints with a single
    process that probing has shown to support it; what they have forgotten is sent again."""


class OpenAICompatibleModel:
    """A model behind one or more OpenAI-compatible servers.

    Args:
        kind: `vllm` or `openai`: what the servers are taken to support until they are probed, and part of the id.
        name: The model's name on the servers.
        urls: Base URLs, as in `http://host:8000/v1`. Without a path, `/v1` is meant.
        settings: Key, limits and patience.
        pool: The pool to use instead of one with these settings; for tests.

    Raises:
        InputError: If a URL cannot be used or is given twice.
    """

    def __init__(
        self,
        kind: str,
        name: str,
        urls: Sequence[str],
        settings: ClientSettings = ClientSettings(),
        *,
        pool: EndpointPool | None = None,
    ) -> None:
        self._name = name
        self._kind = kind
        self._settings = settings
        addresses = _addresses(urls)
        assumed = VLLM if kind == "vllm" else OPENAI
        self._servers = {alias: _Server(alias, url, assumed) for alias, url in addresses.items()}
        self._pool = pool or EndpointPool(tuple(addresses), settings.pool)
        self._budget = ByteBudget(settings.bytes_in_flight)
        self._session: aiohttp.ClientSession | None = None
        self._headers = {"Content-Type": "application/json", "Accept-Encoding": "identity"}
        if settings.api_key:
            self._headers["Authorization"] = f"Bearer {settings.api_key}"

    @property
    def id(self) -> str:
        """Kind and name, as in `vllm:Qwen/Qwen2.5-VL-7B-Instruct`."""
        return f"{self._kind}:{self._name}"

    @property
    def capabilities(self) -> tuple[Capabilities, ...]:
        """What each endpoint can do, as far as is known."""
        return tuple(server.can for server in self._servers.values())

    def stats(self) -> tuple[EndpointStats, ...]:
        """Return how each endpoint fares."""
        return self._pool.stats()

    async def ask(self, request: ChatRequest) -> Reply:
        """Ask once; retries are made inside.

        Raises:
            ModelError: If there is no usable reply.
        """
        affinity = next((image.sha256 for image in request.images), "")

        async def attempt(endpoint: Endpoint) -> Reply:
            return await self._attempt(self._servers[endpoint.alias], request)

        outcome = await self._pool.run(attempt, affinity=affinity, timeout=request.timeout)
        return replace(outcome.value, attempts=outcome.attempts, seconds=outcome.seconds)

    async def close(self) -> None:
        """Close all connections. Closing twice is fine."""
        session, self._session = self._session, None
        if session is not None:
            await session.close()

    async def probe(self) -> tuple[Probe, ...]:
        """Find out what each endpoint can do, and use that from now on.

        Returns:
            One result per endpoint, in their order; those that do not answer carry an error.
        """
        return tuple(await asyncio.gather(*(self._probe(server) for server in self._servers.values())))

    async def _probe(self, server: "_Server") -> Probe:
        async def ask(request: ChatRequest, can: Capabilities, known: frozenset[str]) -> Reply:
            return await self._exchange(server, request, can, known)

        limit = self._settings.pool.attempt_timeout
        listing: Listing = ()
        try:
            async with asyncio.timeout(limit):
                listing = await self._list_models(server)
                server.can = await examine(ask, listing, self._name)
        except ModelError as error:
            if error.code == "model_not_found" and listing:
                served = ", ".join(repr(name) for name, _ in listing[:5])
                message = f"{server.alias} does not serve {self._name!r}; it serves {served}."
                error = ModelError(error.code, message, status=error.status)
            return Probe(server.alias, None, error)
        except TimeoutError:
            return Probe(
                server.alias, None, ModelError("timeout", f"{server.alias} did not answer within {limit:g} s.")
            )
        return Probe(server.alias, server.can)

    async def _list_models(self, server: "_Server") -> Listing:
        """Return the models that a server lists; none where it has no such list."""
        status, _, data = await self._send(server, "GET", "/models", None)
        if status in {401, 403}:
            raise read_error(server.alias, status, data, None, self._name)
        try:
            cards = orjson.loads(data)["data"] if status == 200 else []
            return tuple((str(card["id"])[:200], _tokens(card.get("max_model_len"))) for card in cards)
        except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError):
            return ()

    async def _attempt(self, server: "_Server", request: ChatRequest) -> Reply:
        known: Collection[str] = server.sent if self._settings.send_once and server.can.send_once else ()
        try:
            return await self._exchange(server, request, server.can, known)
        except CacheMissError:
            server.missed(image.sha256 for image in request.images)
            return await self._exchange(server, request, server.can, ())

    async def _exchange(
        self, server: "_Server", request: ChatRequest, can: Capabilities, known: Collection[str]
    ) -> Reply:
        """Send one request and read its reply."""
        body = request_body(request, self._name, can, known)
        await self._budget.acquire(body.size)
        try:
            status, wait, data = await self._send(server, "POST", "/chat/completions", body)
        finally:
            self._budget.release(body.size)
        if status != 200:
            raise read_error(server.alias, status, data, read_retry_after(wait, time.time()), self._name)
        reply = read_reply(server.alias, data, request, can)
        server.acknowledged(body)
        return reply

    async def _send(
        self, server: "_Server", method: str, path: str, body: Body | None
    ) -> tuple[int, str | None, bytes]:
        """Make one HTTP exchange: status, Retry-After and body; every trouble on the way is a `ModelError`."""
        if self._session is None:
            self._session = _new_session()
        alias = server.alias
        try:
            async with self._session.request(
                method,
                server.url + path,
                data=None if body is None else _Payload(body),
                headers=self._headers,
                allow_redirects=False,
            ) as response:
                return response.status, response.headers.get("Retry-After"), await _read(response, alias)
        except aiohttp.ClientSSLError:
            step = "Check the address and the server's certificate."
            raise ModelError("unreachable", f"{alias}: no secure connection can be made.", next_step=step) from None
        except (aiohttp.ClientConnectorError, aiohttp.ConnectionTimeoutError):
            raise ModelError("unreachable", f"{alias} cannot be reached.") from None
        except (aiohttp.ClientConnectionError, aiohttp.ClientPayloadError, OSError):
            raise ModelError("unreachable", f"{alias} closed the connection before its reply was complete.") from None
        except aiohttp.ClientError:
            raise ModelError("bad_response", f"{alias} does not answer in HTTP.") from None


class _Server:
    """What is known of one endpoint besides its place in the pool."""

    def __init__(self, alias: str, url: str, can: Capabilities) -> None:
        self.alias = alias
        self.url = url
        self.can = can
        self.sent: OrderedDict[str, None] = OrderedDict()
        self._named = 0
        self._misses = 0

    def acknowledged(self, body: Body) -> None:
        """Take note that the server has the images of a request."""
        self._named += bool(body.left_out)
        for uuid in body.uuids:
            self.sent[uuid] = None
            self.sent.move_to_end(uuid)
        while len(self.sent) > _REMEMBERED:
            self.sent.popitem(last=False)

    def missed(self, uuids: Iterable[str]) -> None:
        """Take note that the server did not have an image that it had acknowledged."""
        self._misses += 1
        for uuid in uuids:
            self.sent.pop(uuid, None)
        if self._misses >= 5 and 4 * self._misses > self._named:
            # Its processes do not share a cache, or the cache is too small: naming images costs more than it saves.
            self.can = replace(self.can, send_once=False)


class _Payload(aiohttp.payload.Payload):
    """A body that aiohttp sends piece by piece."""

    def __init__(self, body: Body) -> None:
        super().__init__(body, content_type="application/json")
        self._body = body
        self._size = body.size

    def decode(self, encoding: str = "utf-8", errors: str = "strict") -> str:
        return b"".join(self._body.pieces()).decode(encoding, errors)

    async def write(self, writer: AbstractStreamWriter) -> None:
        for piece in self._body.pieces():
            await writer.write(piece)

    async def write_with_length(self, writer: AbstractStreamWriter, content_length: int | None) -> None:
        await self.write(writer)


def _new_session() -> aiohttp.ClientSession:
    return aiohttp.ClientSession(
        connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=_KEEP_ALIVE, ttl_dns_cache=60),
        cookie_jar=aiohttp.DummyCookieJar(),
        timeout=aiohttp.ClientTimeout(total=None, sock_connect=_CONNECT_TIMEOUT),
        auto_decompress=False,
    )


async def _read(response: aiohttp.ClientResponse, alias: str) -> bytes:
    """Read a body, up to a bound."""
    pieces: list[bytes] = []
    size = 0
    while piece := await response.content.readany():
        size += len(piece)
        if size > _LARGEST_REPLY:
            response.close()
            raise ModelError("bad_response", f"{alias} sent a reply of more than {_LARGEST_REPLY >> 20} MB.")
        pieces.append(piece)
    return pieces[0] if len(pieces) == 1 else b"".join(pieces)


def _tokens(value: object) -> int | None:
    return value if isinstance(value, int) and value > 0 else None


def _addresses(urls: Sequence[str]) -> dict[str, str]:
    """Check base URLs and name each by host and port, or with its path where two share these."""
    parts = []
    for number, url in enumerate(urls, 1):
        # Messages give the number, not the URL: it may hold a key.
        split = urlsplit(url.strip())
        try:
            host, port = split.hostname, split.port
        except ValueError:
            host, port = None, None
        if split.scheme not in {"http", "https"} or not host:
            step = "Write it like http://host:8000/v1."
            raise InputError(f"Endpoint {number} is not a URL that can be used.", next_step=step)
        if "@" in split.netloc or split.query or split.fragment:
            step = "Put the key into RH_API_KEY."
            raise InputError(f"The URL of endpoint {number} has a user, a query or a fragment.", next_step=step)
        host = f"[{host}]" if ":" in host else host
        alias = host if port is None else f"{host}:{port}"
        parts.append((alias, split.path.rstrip("/"), f"{split.scheme}://{alias}"))
    if not parts:
        raise InputError("The model has no endpoint.", next_step="Write it like vllm:name@http://host:8000/v1.")
    aliases = [alias for alias, _, _ in parts]
    named = {
        alias if aliases.count(alias) == 1 else f"{alias}{path or '/v1'}": root + (path or "/v1")
        for alias, path, root in parts
    }
    if len(named) < len(parts):
        raise InputError("An endpoint is given twice.", next_step="Name each endpoint once.")
    return named
