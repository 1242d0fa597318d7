"""Client for OpenAI-compatible chat servers such as vLLM, SGLang and OpenAI.

All endpoints of a model share one connection pool and the retries of the endpoint pool. Bodies are encoded while they
are sent.
"""

import asyncio
import re
import ssl
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from urllib.parse import quote

import orjson

from rewardharness.errors import InputError
from rewardharness.models.base import ChatRequest, Model, ModelError, Reply
from rewardharness.models.endpoints import PooledModel
from rewardharness.models.faults import CacheMissError, FieldRefusedError, read_error
from rewardharness.models.limits import EndpointSettings
from rewardharness.models.probe import Listing, Probe, examine
from rewardharness.models.raw import RawReply, read_retry_after
from rewardharness.models.replies import read_count, read_reply
from rewardharness.models.transport import HttpClient, HttpReply, NotHttpError, NotPublicError, ServerAddress
from rewardharness.models.wire import OPENAI, VLLM, Capabilities, RequestBody, request_body

_LARGEST_REPLY = 32 << 20
"""Maximum size of a reply in bytes; log-probabilities of a long reply take several megabytes."""

_ABILITIES = {"response_format": "schema", "structured_outputs": "choice", "logprobs": "logprobs", "uuid": "uuid"}
"""Capability that a server lacks which rejects a field."""

_REMEMBERED = 4096
"""Maximum number of images recorded as sent, per endpoint."""


class OpenAICompatibleModel(PooledModel):
    """A model behind one or more OpenAI-compatible servers.

    Args:
        kind: `vllm` or `openai`; sets the assumed capabilities before probing, and is part of the id.
        name: The model's name on the servers.
        urls: Base URLs such as `http://host:8000/v1`. The default path is `/v1`.
        settings: Key, limits and timeouts.
        reopen: Opens the model in another process, with that process's key; None if it cannot be sent to one.

    Raises:
        InputError: If a URL is invalid or given twice.
    """

    def __init__(
        self,
        kind: str,
        name: str,
        urls: Sequence[str],
        settings: EndpointSettings = EndpointSettings(),
        *,
        reopen: Callable[[], Model] | None = None,
    ) -> None:
        self._name = name
        key = settings.api_key or ""
        if not re.fullmatch(r"[\x21-\x7e]*", key):
            raise InputError("The API key contains invalid characters.", next_step="Set RH_API_KEY again.")
        can = VLLM if kind == "vllm" else OPENAI
        addresses = _addresses(urls, settings.public_only)
        self._servers = {alias: _Server(alias, *address, can, key) for alias, address in addresses.items()}
        super().__init__(f"{kind}:{name}", tuple(self._servers), settings, reopen)
        self._http = HttpClient(_LARGEST_REPLY, public_only=settings.public_only)

    @property
    def capabilities(self) -> tuple[Capabilities, ...]:
        """Known or assumed capabilities of each endpoint."""
        return tuple(server.can for server in self._servers.values())

    def readmit(self) -> None:
        """Make unavailable endpoints available again at once, for example after a server recovered."""
        self.pool.readmit()

    async def close(self) -> None:
        """Close all connections. Idempotent."""
        await self._http.close()

    async def probe(self) -> tuple[Probe, ...]:
        """Probe the capabilities of each endpoint and use them from now on.

        Returns:
            One result per endpoint, in order; an endpoint that does not answer has an error.
        """
        return tuple(await asyncio.gather(*(self._probe(server) for server in self._servers.values())))

    async def _probe(self, server: "_Server") -> Probe:
        limit = self._settings.request_timeout
        began = time.monotonic()
        listing: Listing = ()
        try:
            async with asyncio.timeout(limit):
                listing = await self._list_models(server)
                capabilities = await examine(partial(self._exchange, server.alias), listing, self._name)
                server.can = replace(capabilities, refused=tuple(sorted(server.refused)))
        except ModelError as error:
            if error.code == "model_not_found" and listing:
                served = ", ".join(repr(name) for name, _ in listing[:5])
                message = f"{server.alias} does not serve {self._name!r}; it serves {served}."
                error = ModelError(error.code, message, status=error.status)
            return Probe(server.alias, None, error)
        except TimeoutError:
            late = ModelError("timeout", f"{server.alias} did not answer within {limit:g} s.")
            return Probe(server.alias, None, late)
        self.pool.readmit(server.alias, works=True)
        return Probe(server.alias, server.can, seconds=time.monotonic() - began)

    async def _list_models(self, server: "_Server") -> Listing:
        """Return the models that a server lists; empty without a model list."""
        with self._connecting(server):
            reply = await self._http.exchange(server.origin, server.models, ())
        if reply.status in {401, 403}:
            raise read_error(server.raw(reply, self._name))
        try:
            cards = orjson.loads(reply.body)["data"] if reply.status == 200 else []
            return tuple((str(card["id"])[:200], read_count(card.get("max_model_len")) or None) for card in cards)
        except (orjson.JSONDecodeError, KeyError, TypeError, AttributeError):
            return ()

    async def _exchange(
        self, alias: str, request: ChatRequest, can: Capabilities | None = None, known: Collection[str] | None = None
    ) -> Reply:
        """Send one request and read its reply.

        Images that the server no longer has are sent again. Fields that the model rejects are omitted from then on.

        Args:
            alias: The endpoint.
            request: The request.
            can: Assumed capabilities, for probing; None for those of the server.
            known: Images to refer to by their hash; None for those that the server has.
        """
        server = self._servers[alias]
        resend = known is None
        if known is None:
            known = server.sent if self._settings.send_once and server.can.send_once else ()
        while True:
            body = request_body(request, self._name, can or server.can, known, server.refused)
            await self._budget.acquire(body.size)
            try:
                with self._connecting(server):
                    head = server.chat + b"Content-Length: %d\r\n\r\n" % body.size
                    reply = await self._http.exchange(server.origin, head, body.pieces())
            finally:
                self._budget.release(body.size)
            try:
                answer = read_reply(server.raw(reply, self._name, body.fields), request)
            except CacheMissError:
                if not resend:
                    raise
                server.missed(image.sha256 for image in request.images)
                resend, known = False, ()
            except FieldRefusedError as error:
                ability = _ABILITIES.get(error.field)
                if ability is None:
                    server.refused |= {error.field}
                elif can is None:
                    server.can = replace(server.can, **{ability: False})  # type: ignore[arg-type]
                else:
                    raise
            else:
                server.acknowledged(body)
                return answer

    @contextmanager
    def _connecting(self, server: "_Server") -> Iterator[None]:
        """Convert failures of the connection to `ModelError`."""
        alias = server.alias
        try:
            yield
        except NotHttpError as error:
            raise ModelError("bad_response", f"{alias} sent an invalid reply: {error}.") from None
        except ssl.SSLError:
            step = "Check the address and the server's certificate."
            raise ModelError("unreachable", f"{alias}: the TLS connection failed.", next_step=step) from None
        except (ConnectionResetError, BrokenPipeError):
            raise ModelError("unreachable", f"{alias} closed the connection before its reply was complete.") from None
        except (OSError, NotPublicError):
            if self._settings.public_only:  # one message for both, so that it does not reveal local host names
                raise ModelError("not_public", f"{alias} cannot be reached on the public internet.") from None
            raise ModelError("unreachable", f"{alias} cannot be reached.") from None


class _Server:
    """Connection state of one endpoint."""

    def __init__(self, alias: str, origin: ServerAddress, path: str, can: Capabilities, key: str) -> None:
        self.alias = alias
        self.origin = origin
        self.can = can
        self.refused: frozenset[str] = frozenset()
        self._key = key
        self.models = origin.head("GET", f"{path}/models", key) + b"\r\n"
        self.chat = origin.head("POST", f"{path}/chat/completions", key) + b"Content-Type: application/json\r\n"
        self.sent: OrderedDict[str, None] = OrderedDict()
        self._named = 0
        self._misses = 0

    def raw(self, reply: HttpReply, model: str, sent: frozenset[str] = frozenset()) -> RawReply:
        """Return an answer of this server."""
        wait = read_retry_after(reply.header("retry-after"), time.time())
        encoding = reply.header("content-encoding")
        return RawReply(self.alias, reply.status, reply.body, wait, encoding, model, sent, secret=self._key)

    def acknowledged(self, body: RequestBody) -> None:
        """Record that the server has the images of a request."""
        self._named += bool(body.left_out)
        for uuid in body.uuids:
            self.sent[uuid] = None
            self.sent.move_to_end(uuid)
        while len(self.sent) > _REMEMBERED:
            self.sent.popitem(last=False)

    def missed(self, uuids: Iterable[str]) -> None:
        """Record that the server no longer has an image that it acknowledged."""
        self._misses += 1
        for uuid in uuids:
            self.sent.pop(uuid, None)
        if self._misses >= 5 and 4 * self._misses > self._named:
            # Its processes do not share a cache, or the cache is too small: references cost more than they save.
            self.can = replace(self.can, send_once=False)


def _addresses(urls: Sequence[str], public_only: bool) -> dict[str, tuple[ServerAddress, str]]:
    """Parse base URLs; the alias is host and port, plus the path where these are ambiguous."""
    endpoints = [_address(number, url.strip()) for number, url in enumerate(urls, 1)]
    if not endpoints:
        raise InputError("The model has no endpoint.", next_step="Use a form such as vllm:name@http://host:8000/v1.")
    if public_only and not all(origin.secure for origin, _ in endpoints):
        raise InputError("The endpoint's address does not begin with https://.", next_step="Use an HTTPS address.")
    names = Counter(origin.name for origin, _ in endpoints)
    addresses = {origin.name + path * (names[origin.name] > 1): (origin, path) for origin, path in endpoints}
    if len(addresses) < len(endpoints):
        raise InputError("An endpoint is listed twice.", next_step="List each endpoint once.")
    return addresses


def _address(number: int, url: str) -> tuple[ServerAddress, str]:
    """Parse a base URL. Messages state its number instead of the URL, which may contain a key."""
    try:
        origin, split = ServerAddress.of(url)
    except ValueError:
        step = "Use a form such as http://host:8000/v1."
        raise InputError(f"Endpoint {number} is not a valid URL.", next_step=step) from None
    if "@" in split.netloc or split.query or split.fragment:
        step = "Leave it out. A key is set in RH_API_KEY; of Azure, use the base URL that ends in /openai/v1."
        raise InputError(f"The URL of endpoint {number} must not have a user, a query or a fragment.", next_step=step)
    base = split.path.rstrip("/").removesuffix("/chat/completions").rstrip("/")
    return origin, quote(base, safe="/%:@!$&'()*+,;=~-._") or ("" if split.path.strip("/") else "/v1")
