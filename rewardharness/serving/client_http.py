"""Connection of a client to one reward server: retries, valid replies, and readable errors."""

import asyncio
import random
import ssl
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal
from urllib.parse import quote

import orjson

from rewardharness.errors import InputError
from rewardharness.models.raw import read_retry_after
from rewardharness.models.transport import HttpClient, HttpReply, NotHttpError, ServerAddress
from rewardharness.serving.client_wire import RewardServerError, not_ours
from rewardharness.serving.faults import TOO_MANY

_LARGEST_REPLY = 32 << 20
_AGAIN = frozenset({408, 429, 500, 502, 503, 504})
"""Statuses after which a request is retried."""
_SHORTEST_PAUSE = 0.5
"""Upper bound of the first pause before a retry, in seconds; doubled for each retry."""
_LONGEST_PAUSE = 20.0
_SPARE = 30.0
"""Additional waiting time beyond the deadline for the transfer, in seconds."""


@dataclass(frozen=True)
class ClientSettings:
    """Settings of a client."""

    on_error: Literal["raise", "none"] = "raise"
    """Behavior if the server cannot be reached or stays busy: raise an error, or return rewards without a value.
    Errors of the request or the server itself are always raised, since a retry cannot fix them."""
    concurrency: int = 8
    """Maximum number of concurrent requests."""
    batch_items: int = 32
    """Maximum number of edits in a request."""
    batch_bytes: int = 16 << 20
    """Maximum size of the images in a request, in bytes; a larger edit is sent alone."""
    deadline: float = 600.0
    """Time limit of the server for a request, in seconds."""
    attempts: int = 5
    """Maximum number of attempts per request."""
    longest_wait: float = 60.0
    """Maximum accepted Retry-After in seconds; a longer one ends the attempts."""
    allow_ungradable: bool = False
    """Whether an edit whose instruction cannot be graded gets a reward of low confidence instead of none."""


USUAL = ClientSettings()


class UnavailableError(RewardServerError):
    """The server did not reply, and may do so later."""

    def __init__(self, code: str, message: str, *, retry_after: float | None = None) -> None:
        super().__init__(message, next_step="Check that the server runs and is not overloaded.")
        self.code = code
        self.retry_after = retry_after


class TooLargeError(RewardServerError):
    """The request exceeds the limits of the server."""


class ServerConnection:
    """Connection to one server. Bound to the event loop on which it is first used.

    Args:
        url: Address of the server, optionally with a path prefix.
        token: Auth token of the server; None for none.
        settings: Settings of the client.
        sleep: Waits for a number of seconds.

    Raises:
        InputError: If the address or the token is invalid.
    """

    def __init__(
        self, url: str, token: str | None, settings: ClientSettings, sleep: Callable[[float], Awaitable[None]]
    ) -> None:
        self._settings = settings
        self._origin, self._prefix = _address(url)
        if token is not None and not (token.isascii() and token.isprintable() and " " not in token):
            raise InputError("The token contains invalid characters.", next_step="Set it again.")
        self._token = token or ""
        self._http = HttpClient(_LARGEST_REPLY)
        self._sleep = sleep

    async def close(self) -> None:
        """Close all connections."""
        await self._http.close()

    async def exchange(self, method: str, path: str, body: Sequence[bytes] = ()) -> Any:
        """Send a request, with retries, and return the JSON of the reply.

        Raises:
            UnavailableError: If all attempts failed.
            RewardServerError: If the server refuses the request, or is not a reward server.
        """
        failure = UnavailableError("unreachable", "The reward server was not asked.")
        for attempt in range(max(1, self._settings.attempts)):
            if attempt:
                wait = failure.retry_after
                if wait is None:
                    wait = min(_LONGEST_PAUSE, _SHORTEST_PAUSE * 2 ** (attempt - 1)) * (0.5 + random.random() / 2)
                if wait > self._settings.longest_wait:
                    break
                await self._sleep(wait)
            try:
                return _read(await self._send(method, path, body))
            except UnavailableError as error:
                failure = error
        raise failure

    async def _send(self, method: str, path: str, body: Sequence[bytes]) -> HttpReply:
        head = self._origin.head(method, f"{self._prefix}{path}", self._token)
        if body:
            head += b"Content-Type: application/json\r\nContent-Length: %d\r\n" % sum(map(len, body))
        try:
            async with asyncio.timeout(self._settings.deadline + _SPARE):
                return await self._http.exchange(self._origin, head + b"\r\n", body)
        except TimeoutError:
            raise UnavailableError("timeout", "The reward server did not answer in time.") from None
        except ssl.SSLError:
            raise UnavailableError("unreachable", "No secure connection to the reward server can be made.") from None
        except OSError:
            raise UnavailableError("unreachable", "The reward server cannot be reached.") from None
        except NotHttpError:
            raise not_ours() from None


def _read(reply: HttpReply) -> Any:
    """Return the JSON of a reply.

    Raises:
        RewardServerError: If it has another status than 200, or is not JSON.
    """
    try:
        value = orjson.loads(reply.body)
    except orjson.JSONDecodeError:
        value = None
    if reply.status == 200:
        if value is None:
            raise not_ours()
        return value
    try:
        code, message = str(value["error"]["code"])[:40], str(value["error"]["message"])[:200]
        message = f"The reward server answered {reply.status} ({code}: {message})."
    except (KeyError, TypeError):
        code, message = "", f"The reward server answered {reply.status}."
    if reply.status in _AGAIN:
        wait = read_retry_after(reply.header("retry-after"), time.time())
        raise UnavailableError("busy" if reply.status == 429 else "server", message, retry_after=wait)
    if reply.status == 413 or (reply.status == 422 and code == TOO_MANY):
        raise TooLargeError(message, next_step="Send smaller images, or fewer at once.")
    if reply.status == 401:
        message = "The reward server does not take the token."
        raise RewardServerError(message, next_step="Give the token that it was started with.")
    raise RewardServerError(message, next_step="Check the address, and that both sides have the same version.")


def _address(url: str) -> tuple[ServerAddress, str]:
    """Return the address of the server, and the path before its routes."""
    try:
        origin, split = ServerAddress.of(url)
        if "@" in split.netloc or split.query or split.fragment:
            raise ValueError
    except ValueError:
        step = "Write it like http://127.0.0.1:8100."
        raise InputError("The address of the reward server is not http://HOST:PORT.", next_step=step) from None
    return origin, quote(split.path.rstrip("/"), safe="/%")
