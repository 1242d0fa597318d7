"""Endpoint pool: load balancing, retries and circuit breaking over several servers of one model.

A request goes to the endpoint with the fewest concurrent requests. Among nearly equal endpoints, affinity selects the
one that received the first image before, whose caches are warm. Each endpoint has an adaptive concurrency limit
(`AdaptiveLimit`). An endpoint that fails repeatedly becomes unavailable until a single trial request succeeds; the
other endpoints take over. Retryable failures are retried with random backoff and no earlier than the server requests.
There are no background tasks.

Clock, sleep and randomness are injected so that tests do not wait.
"""

import asyncio
import hashlib
import random
import time
from abc import ABC, abstractmethod
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar

from rewardharness.models.base import ChatRequest, ErrorCode, Model, ModelError, Reply, Waiting
from rewardharness.models.limits import AdaptiveLimit, ByteBudget, EndpointSettings
from rewardharness.telemetry import chat_span, on_wait, record_reply

T = TypeVar("T")

_MOST_FAILURES: Mapping[str, int] = {"timeout": 3, "server_error": 5, "bad_response": 3}
"""Maximum failures of one request by code; `EndpointSettings.retries` limits the others."""

_SETTLED: frozenset[ErrorCode] = frozenset({"unauthorized", "model_not_found", "wrong_address"})
"""Errors that apply to every request: the endpoint becomes unavailable at once and is not retried."""

_ABOUT_INPUT = frozenset({403, 404})
"""Statuses of these errors that, after a success, apply to one input, unless they repeat."""

_SLOW = 10.0
"""Seconds without an answer after which waiting for it is reported."""

_BROKEN: frozenset[ErrorCode] = frozenset({"timeout", "server_error", "bad_response", "unreachable"})
"""Errors that count toward making the endpoint unavailable."""


@dataclass(frozen=True)
class PoolResult(Generic[T]):
    """The value of a successful request, with statistics."""

    value: T
    attempts: int
    """Number of requests sent."""
    seconds: float
    """Duration of the whole request."""


class Endpoint:
    """The state of one server within a pool. Only the pool modifies it."""

    def __init__(self, alias: str, settings: EndpointSettings) -> None:
        self.alias = alias
        self.limit = AdaptiveLimit(settings.start, settings.most_in_flight)
        self.in_flight = 0
        self.resume_at = float("-inf")
        self.failures_in_row = 0
        self.aside_for = 0.0
        self.is_aside = False
        self.is_settled = False
        """Set aside because of an error that applies to every request."""
        self.works = False
        """Whether it has answered a request."""
        self.aside_at = float("-inf")
        self.last_error = ModelError("unreachable", f"{alias} has not received a request yet.")

    def room(self, now: float) -> int:
        """Return how many more requests may be sent. An unavailable endpoint gets a single trial request."""
        if now < self.resume_at:
            return 0
        return max(0, (1 if self.is_aside else self.limit.value) - self.in_flight)


@dataclass
class _Course:
    """The progress of one request."""

    affinity: str
    attempts: int = 0
    pauses: int = 0
    failures: Counter[str] = field(default_factory=Counter)
    tried: set[Endpoint] = field(default_factory=set)
    """Endpoints that failed since the last pause; the others are preferred."""


class EndpointPool:
    """The endpoints of one model.

    Args:
        aliases: Names of the endpoints for messages and statistics.
        settings: Retry and concurrency settings.
        model: Id of the model, for spans.
        clock: Monotonic time in seconds.
        sleep: Sleeps for a number of seconds.
        chance: Returns a random number in [0, 1).
    """

    def __init__(
        self,
        aliases: Sequence[str],
        settings: EndpointSettings = EndpointSettings(),
        *,
        model: str = "",
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.endpoints = tuple(Endpoint(alias, settings) for alias in aliases)
        self.settings = settings
        self._model = model
        self._clock = clock
        self._sleep = sleep
        self._chance = chance
        self.on_wait: Callable[[Waiting], None] = _show
        """Called when a request waits for another attempt, or long for an answer."""
        self._pausing = 0
        self._pending = 0
        self._dark_since: float | None = None
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._woken = 0  # waiters that were woken but have not run yet

    def readmit(self, alias: str | None = None, *, works: bool = False) -> None:
        """Make one endpoint, or all of them, available again at once.

        Args:
            alias: The endpoint; None for all.
            works: Whether it has answered a request outside of the pool.
        """
        for endpoint in self.endpoints:
            endpoint.works |= works and alias in (None, endpoint.alias)
        back = [endpoint for endpoint in self.endpoints if endpoint.is_aside and alias in (None, endpoint.alias)]
        for endpoint in back:
            endpoint.resume_at = float("-inf")
            self._back_in_service(endpoint)
        if back:
            self._wake(len(self._waiting))

    async def run(
        self, call: Callable[[Endpoint], Awaitable[T]], *, affinity: str = "", timeout: float | None = None
    ) -> PoolResult[T]:
        """Call one of the endpoints, with retries.

        Args:
            call: Makes one attempt on an endpoint. Raises `ModelError`.
            affinity: Calls with the same text prefer the same endpoint.
            timeout: Seconds for the whole call, including waiting; None limits only each attempt.

        Raises:
            ModelError: The last failure, if no attempt succeeded.
        """
        course, began = _Course(affinity), self._clock()
        ends = None if timeout is None else asyncio.get_running_loop().time() + timeout
        self._pending += 1
        with chat_span(self._model) as span:
            try:
                async with asyncio.timeout_at(ends):
                    while True:
                        endpoint = await self._acquire(course)
                        try:
                            with self._recorded(endpoint, ends):
                                async with asyncio.timeout(self.settings.request_timeout):
                                    value = await call(endpoint)
                            record_reply(span, value, endpoint.alias, course.attempts)
                            return PoolResult(value, course.attempts, self._clock() - began)
                        except ModelError as error:
                            await self._after_failure(error, endpoint, course)
            except TimeoutError:
                count = course.attempts
                sent = f"{count} request{'s' * (count != 1)} sent" if count else "no request could be sent"
                raise ModelError("timeout", f"No reply within {timeout or 0:g} s; {sent}.") from None
            finally:
                self._pending -= 1

    def _report_slow(self, endpoint: Endpoint) -> None:
        """Report an attempt that is not answered for long."""
        left = self.settings.request_timeout - _SLOW
        if left > 0:
            waiting = Waiting(endpoint.alias, "timeout", None, left, self._pausing, self._pending, unanswered=True)
            self.on_wait(waiting)

    async def _wait(self, endpoint: Endpoint, seconds: float) -> None:
        """Wait for another attempt after the last failure of an endpoint."""
        self._pausing += 1
        try:
            last = endpoint.last_error
            self.on_wait(Waiting(endpoint.alias, last.code, last.status, seconds, self._pausing, self._pending))
            await self._sleep(seconds)
        finally:
            self._pausing -= 1
            if not self._pausing:
                on_wait("")

    @contextmanager
    def _recorded(self, endpoint: Endpoint, ends: float | None) -> Iterator[None]:
        """Record the result of one attempt. The attempt holds a slot of the endpoint.

        Raises:
            ModelError: If the attempt fails or takes too long.
        """
        began = self._clock()
        slow = asyncio.get_running_loop().call_later(_SLOW, self._report_slow, endpoint)
        try:
            yield
        except ModelError as error:
            self._note_failure(endpoint, error, began)
            raise
        except TimeoutError:
            late = ModelError("timeout", f"{endpoint.alias} did not answer within {self.settings.request_timeout:g} s.")
            self._note_failure(endpoint, late, began)
            raise late from None
        except asyncio.CancelledError:
            if ends is not None and asyncio.get_running_loop().time() >= ends:
                late = ModelError("timeout", f"{endpoint.alias} did not answer in the remaining time.")
                self._note_failure(endpoint, late, began)
            raise
        else:
            endpoint.works = True
            endpoint.limit.succeeded(self._clock() - began, endpoint.in_flight)
            self._back_in_service(endpoint)
        finally:
            slow.cancel()
            endpoint.in_flight -= 1
            self._wake(1)

    def _note_failure(self, endpoint: Endpoint, error: ModelError, began: float) -> None:
        now = self._clock()
        endpoint.last_error = ModelError(error.code, error.message, status=error.status)  # without its traceback
        if error.code in {"rate_limited", "timeout"} or error.status == 503:
            endpoint.limit.overloaded(began, now, endpoint.in_flight)
        elif error.code in _BROKEN:
            endpoint.limit.failed()
        if error.retry_after is not None:
            endpoint.resume_at = max(endpoint.resume_at, now + error.retry_after)
        if error.code not in _BROKEN | _SETTLED:
            self._back_in_service(endpoint)  # the endpoint works, although it rejects the request
            return
        endpoint.failures_in_row += 1
        endpoint.is_settled = _is_settled(error, endpoint)
        if endpoint.is_aside or endpoint.is_settled or endpoint.failures_in_row >= self.settings.trip_after:
            self._set_aside(endpoint, error, began, now)

    def _back_in_service(self, endpoint: Endpoint) -> None:
        endpoint.failures_in_row = 0
        if endpoint.is_aside:
            endpoint.is_aside = False
            endpoint.aside_for = 0.0
            self._dark_since = None

    def _set_aside(self, endpoint: Endpoint, error: ModelError, began: float, now: float) -> None:
        settings = self.settings
        if endpoint.is_aside and began <= endpoint.aside_at:
            return  # sent before the endpoint became unavailable
        endpoint.is_aside = True
        endpoint.aside_at = now
        longer = max(settings.shortest_aside, 2 * endpoint.aside_for)
        endpoint.aside_for = min(settings.longest_aside, longer)
        endpoint.resume_at = max(endpoint.resume_at, now + endpoint.aside_for)
        if self._dark_since is None and all(other.is_aside for other in self.endpoints):
            self._dark_since = now

    async def _after_failure(self, error: ModelError, endpoint: Endpoint, course: _Course) -> None:
        """Return when the request may be retried, or raise the error if retrying cannot help."""
        course.failures[error.code] += 1
        course.tried.add(endpoint)
        settled = _is_settled(error, endpoint)
        hopeless = all(other.is_aside for other in self.endpoints) if settled else not error.retryable
        attempts = 1 + self.settings.retries
        enough = course.failures[error.code] >= _MOST_FAILURES.get(error.code, attempts)
        if hopeless or enough or course.attempts >= attempts:
            sent = f" Requests sent: {course.attempts}." if course.attempts > 1 else ""
            status, wait = error.status, error.retry_after
            raise ModelError(error.code, f"{error.message}{sent}", status=status, retry_after=wait) from None
        now = self._clock()
        if any(other.room(now) for other in self.endpoints if other not in course.tried):
            return
        course.tried.clear()
        if error.retry_after is None and not settled:
            bound = min(self.settings.longest_backoff, self.settings.backoff * 2**course.pauses)
            course.pauses += 1
            await self._wait(endpoint, bound * self._chance())

    async def _acquire(self, course: _Course) -> Endpoint:
        """Take a free slot on an endpoint, waiting if needed. Retries go before new requests."""
        first = course.attempts > 0
        while True:
            now = self._clock()
            if first or not self._waiting:
                endpoint = self._choose(course, now)
                if endpoint is not None:
                    endpoint.in_flight += 1
                    course.attempts += 1
                    if self._waiting:
                        self._wake(sum(other.room(now) for other in self.endpoints) - self._woken)
                    return endpoint
            pause = self._pause(now)
            if pause > 0:
                await self._wait(min(self.endpoints, key=lambda endpoint: endpoint.resume_at), pause)
            else:
                await self._turn(first)
            first = True

    def _choose(self, course: _Course, now: float) -> Endpoint | None:
        """Return an endpoint with a free slot, or None."""
        free = [other for other in self.endpoints if other.room(now)]
        free = [other for other in free if other not in course.tried] or free
        if len(free) <= 1:
            return free[0] if free else None
        least = min(other.in_flight for other in free)
        free = [other for other in free if other.in_flight <= least + max(1, least // 4)]
        if not course.affinity:
            return min(free, key=lambda other: (other.in_flight, self._chance()))
        return max(free, key=lambda other: _weight(other.alias, course.affinity))

    def _pause(self, now: float) -> float:
        """Return the seconds until an endpoint accepts requests; 0 if one does but is busy.

        If no endpoint accepts requests, all waiters for a busy one are woken, because nothing else would wake them.

        Raises:
            ModelError: If waiting would take too long or cannot help.
        """
        pause = max(0.0, min(endpoint.resume_at for endpoint in self.endpoints) - now)
        if all(endpoint.is_aside for endpoint in self.endpoints):
            in_vain = all(endpoint.is_settled for endpoint in self.endpoints)
            dark_since = now if self._dark_since is None else self._dark_since
            left = self.settings.patience - (now - dark_since)
            if in_vain or left <= 0:
                self._wake(len(self._waiting))
                last = max(self.endpoints, key=lambda endpoint: endpoint.aside_at).last_error
                message = f"All endpoints are unavailable. Last error: {last.message}"
                raise ModelError(last.code, message, status=last.status)
            pause = min(pause, left)
        elif pause > self.settings.longest_wait:
            self._wake(len(self._waiting))
            message = f"All endpoints are rate limited; the shortest wait is {pause:.0f} s."
            raise ModelError("rate_limited", message, status=429, retry_after=pause)
        if pause <= 0:
            return 0.0
        self._wake(len(self._waiting))
        return max(pause, 0.001)  # a pause below the clock's resolution would spin

    async def _turn(self, first: bool) -> None:
        """Wait until an endpoint becomes free or changes its state."""
        turn = asyncio.get_running_loop().create_future()
        if first:
            self._waiting.appendleft(turn)
        else:
            self._waiting.append(turn)
        try:
            await turn
            self._woken -= 1
        except asyncio.CancelledError:
            if not turn.cancelled():
                self._woken -= 1
                self._wake(1)  # its turn goes to the next
            elif turn in self._waiting:
                self._waiting.remove(turn)
            raise

    def _wake(self, number: int) -> None:
        while number > 0 and self._waiting:
            turn = self._waiting.popleft()
            if not turn.done():
                turn.set_result(None)
                self._woken += 1
                number -= 1


class PooledModel(ABC):
    """A model that servers of a pool answer for.

    Args:
        id: Provider and name, such as `vllm:Qwen/Qwen2.5-VL-7B-Instruct`.
        aliases: Names of the servers.
        settings: Retries and limits.
        reopen: Opens the model in another process, with that process's key; None if it cannot be sent to one.
    """

    def __init__(
        self, id: str, aliases: Sequence[str], settings: EndpointSettings, reopen: Callable[[], Model] | None
    ) -> None:
        self.id = id
        self.pool = EndpointPool(aliases, settings, model=id)
        self._settings = settings
        self._budget = ByteBudget(settings.bytes_in_flight)
        self._reopen = reopen

    def __reduce__(self) -> tuple[Any, ...]:
        """In another process it has connections and limits of its own."""
        if self._reopen is None:
            raise TypeError("the model was not opened by its specification")
        return self._reopen, ()

    async def ask(self, request: ChatRequest) -> Reply:
        """Send a request, with retries.

        Raises:
            ModelError: If there is no usable reply.
        """
        images = request.images
        outcome = await self.pool.run(
            lambda endpoint: self._exchange(endpoint.alias, request),
            affinity=images[0].sha256 if images else "",
            timeout=request.timeout,
        )
        return replace(outcome.value, attempts=outcome.attempts, seconds=outcome.seconds)

    @abstractmethod
    async def _exchange(self, alias: str, request: ChatRequest) -> Reply:
        """Send a request to one of the servers."""


def _show(waiting: Waiting) -> None:
    if waiting.seconds >= 1:
        on_wait(str(waiting))


def _is_settled(error: ModelError, endpoint: Endpoint) -> bool:
    """Return whether an error applies to every request to an endpoint, rather than to one input."""
    return error.code in _SETTLED and not (endpoint.works and error.status in _ABOUT_INPUT)


def _weight(alias: str, affinity: str) -> bytes:
    """Rank an endpoint for an affinity text by rendezvous hashing, so that few texts move if the endpoints change."""
    return hashlib.blake2b(f"{alias} {affinity}".encode(), digest_size=8).digest()
