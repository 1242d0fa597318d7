"""Client of a reward server for training loops: batches, retries, and explicit failures.

    with RewardClient("http://judge:8100", release="3f0c...", token="...") as client:
        rewards = client.score([Ask("make the box red", source, edited), ...])
        values = [reward.reward for reward in rewards]                      # float or None

The client needs only this package. It checks the release of the server before the first reward and with every reply,
and refuses a server whose judge has changed.
"""

import asyncio
import os
import re
import threading
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import replace
from functools import partial, wraps
from typing import Any, Concatenate, ParamSpec, Self, TypeVar

from rewardharness.errors import InputError
from rewardharness.judging.identity import JudgeIdentity
from rewardharness.judging.ranking import Method
from rewardharness.serving.client_http import USUAL, ClientSettings, ServerConnection, TooLargeError, UnavailableError
from rewardharness.serving.client_wire import (
    Album,
    Ask,
    IdentityError,
    ImageLike,
    Instruction,
    MediaLike,
    RewardServerError,
    SourceLike,
    batches,
    not_ours,
    read_asks,
    read_compared,
    read_edit,
    read_identity,
    read_results,
)
from rewardharness.serving.faults import Fault
from rewardharness.serving.media import Edit
from rewardharness.serving.results import RAW, Compared, ItemResult, Normalisation, normalised

__all__ = [
    "Ask",
    "AsyncRewardClient",
    "ClientSettings",
    "Compared",
    "IdentityError",
    "ItemResult",
    "Normalisation",
    "RewardClient",
    "RewardServerError",
]

P = ParamSpec("P")
T = TypeVar("T")
_RELEASE = re.compile(r"[0-9a-f]{12,64}")


class AsyncRewardClient:
    """Client of a reward server. Bound to the event loop on which it is first used.

    Args:
        url: Address of the server, such as `http://127.0.0.1:8100`.
        release: Hash of the required release, or at least its first 12 digits; None accepts any.
        token: Auth token of the server.
        settings: Settings of the client.
        sleep: Waits for a number of seconds.

    Raises:
        InputError: If the address, the hash or the token is invalid.
    """

    def __init__(
        self,
        url: str,
        *,
        release: str | None = None,
        token: str | None = None,
        settings: ClientSettings = USUAL,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        if release is not None and not _RELEASE.fullmatch(release):
            step = "Give at least its first 12 digits, as `rh release show` prints them."
            raise InputError(f"{release[:80]!r} is not the hash of a release.", next_step=step)
        self.settings = settings
        self._release = release
        self._connection = ServerConnection(url, token, settings, sleep)
        self._turns = asyncio.Semaphore(max(1, settings.concurrency))
        self.identity: JudgeIdentity | None = None
        """JudgeIdentity of the judge, available after the first check."""

    async def __aenter__(self) -> Self:
        """Check that the server has the required release."""
        await self.check()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections."""
        await self._connection.close()

    async def check(self) -> JudgeIdentity:
        """Check that the server is reachable, accepts the token, and has the required release.

        Raises:
            IdentityError: If the server has another judge.
            RewardServerError: If the server is not reachable or refuses the token, whatever `on_error` is.
        """
        reply = await self._connection.exchange("GET", "/info")
        if not isinstance(reply, dict):
            raise not_ours()
        self._identify(reply.get("identity"))
        assert self.identity is not None
        return self.identity

    async def score(
        self, asks: Sequence[Ask], normalise: Normalisation = RAW, *, critique: bool = False
    ) -> list[ItemResult]:
        """Score edits separately.

        Args:
            asks: Any number of edits.
            normalise: Whether rewards are also normalized within the groups of `asks`.
            critique: Whether each reward says in words what is wrong, for generate-critique-refine loops. It changes
                no reward; the server refuses it where its judge writes none.

        Returns:
            One reward per edit, in order.

        Raises:
            IdentityError: If the judge of the server has changed.
            RewardServerError: See `ClientSettings.on_error`.
        """
        edits, results = await asyncio.to_thread(read_asks, asks)
        indices, sizes = list(edits), [edit.size for edit in edits.values()]
        async with _Group() as group:
            for run in batches(sizes, self.settings.batch_items, self.settings.batch_bytes):
                group.create_task(self._score({indices[n]: edits[indices[n]] for n in run}, results, critique))
        return normalised([results[index] for index in range(len(asks))], [ask.group for ask in asks], normalise)[0]

    async def rank(
        self,
        instruction: Instruction,
        source: SourceLike,
        candidates: Sequence[MediaLike],
        *,
        references: Sequence[ImageLike] = (),
        method: Method = "score",
        normalise: Normalisation = RAW,
    ) -> list[ItemResult]:
        """Score a group of candidates of one edit.

        Args:
            instruction: The edit instruction.
            source: The source image or video; None for text.
            candidates: Two or more candidates, up to the limit of the server.
            references: As in `Ask`.
            method: `score`: each is judged alone. `win_rate`: all pairs are compared in both orders.
            normalise: Whether rewards are also normalized within the group.

        Raises:
            ImageError: If an image cannot be read.
            RewardServerError: As in `score`.
        """
        edit = await asyncio.to_thread(read_edit, instruction, source, references, *candidates)
        album, count = Album(), len(edit.candidates)
        media = [album.media(candidate) for candidate in edit.candidates]
        reply = await self._try("/rank", {**album.fields(edit), "candidates": media, "method": method}, album)
        return normalised(_results(reply, count), [None] * count, normalise)[0]

    async def compare(
        self,
        instruction: Instruction,
        source: SourceLike,
        a: MediaLike,
        b: MediaLike,
        *,
        references: Sequence[ImageLike] = (),
    ) -> Compared:
        """Compare two candidates in both orders; `references` as in `Ask`.

        Raises:
            ImageError: If an image cannot be read.
            RewardServerError: As in `score`.
        """
        edit = await asyncio.to_thread(read_edit, instruction, source, references, a, b)
        album = Album()
        one, other = map(album.media, edit.candidates)
        reply = await self._try("/compare", {**album.fields(edit), "a": one, "b": other}, album)
        if isinstance(reply, Fault):
            first, second = _results(reply, 2)
            return Compared(None, (), None, None, reply, rewards=(first, second))
        return read_compared(reply)

    async def _score(self, batch: dict[int, Edit], results: dict[int, ItemResult], critique: bool) -> None:
        """Score one batch: edits by index."""
        album, indices = Album(), list(batch)
        items = [{**album.fields(edit), "edited": album.media(edit.candidates[0])} for edit in batch.values()]
        try:
            fields = {"items": items, **({"critique": True} if critique else {})}
            reply = await self._try("/batch_score", fields, album)
        except TooLargeError as error:
            if len(batch) > 1:  # the limit of the server is smaller than the batch
                half = len(batch) // 2
                for part in (indices[:half], indices[half:]):
                    await self._score({index: batch[index] for index in part}, results, critique)
                return
            reply = Fault("too_large", error.message)
        for index, result in zip(indices, _results(reply, len(batch)), strict=True):
            results[index] = replace(result, index=index)

    async def _try(self, path: str, fields: dict[str, Any], album: Album) -> Any:
        """Send a request; depending on `on_error`, return a fault on failure."""
        try:
            if self.identity is None:
                await self.check()
            async with self._turns:
                opted = {"allow_ungradable": True} if self.settings.allow_ungradable else {}
                body = album.body({**fields, **opted, "deadline_s": self.settings.deadline})
                reply = await self._connection.exchange("POST", path, body)
        except UnavailableError as error:
            if self.settings.on_error == "raise":
                raise
            return Fault(error.code, error.message, retryable=True)
        self._identify(reply)
        return reply

    def _identify(self, value: Any) -> None:
        """Check that the identity of the judge is the required one, and has not changed."""
        identity, release = read_identity(value), self._release
        if release is not None and not (identity.release or "").startswith(release):
            library = f"no release, but Library {identity.library_id[:12]}"
            serves = f"release {identity.release[:12]}" if identity.release else library
            raise IdentityError(
                f"Release {release[:12]} is wanted, and the server serves {serves}.",
                next_step="Start the server with `rh serve --release`, or ask for what it serves.",
            )
        if self.identity is not None and identity != self.identity:
            raise IdentityError(
                f"The server judged with {_called(self.identity)}, and now judges with {_called(identity)}.",
                next_step="Rewards of the two do not compare: start again with one of them.",
            )
        self.identity = identity


class _Group(asyncio.TaskGroup):
    """Task group that cancels all tasks after the first error, and raises this error."""

    async def __aexit__(self, *arguments: Any) -> None:
        try:
            await super().__aexit__(*arguments)
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None


def _blocking(
    method: Callable[Concatenate[AsyncRewardClient, P], Coroutine[Any, Any, T]],
) -> "Callable[Concatenate[RewardClient, P], T]":
    """Make a method of `RewardClient` from one of `AsyncRewardClient`."""

    @wraps(method)
    def call(self: "RewardClient", /, *args: P.args, **named: P.kwargs) -> T:
        return self._run(lambda client: method(client, *args, **named))

    return call


class RewardClient:
    """Blocking client for programs without an event loop. Thread-safe.

    It can be pickled and forked; each process has connections of its own.

    Args:
        url: Address of the server.
        release: Hash of the required release, or at least its first 12 digits; None accepts any.
        token: Auth token of the server.
        settings: Settings of the client.

    Raises:
        InputError: If the address, the hash or the token is invalid.
        IdentityError: If the server has another release.
        RewardServerError: If the server is not reachable or refuses the token.
    """

    def __init__(
        self, url: str, *, release: str | None = None, token: str | None = None, settings: ClientSettings = USUAL
    ) -> None:
        self.settings = settings
        self._make = partial(AsyncRewardClient, url, release=release, token=token, settings=settings)
        self._pid = 0
        self.identity: JudgeIdentity | None = None
        """JudgeIdentity of the judge."""
        try:
            self.identity = self._run(lambda client: client.check())
        except BaseException:
            self.close()
            raise

    def __reduce__(self) -> tuple[Any, ...]:
        return partial(type(self), *self._make.args, **self._make.keywords), ()  # it checks its server again

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    score = _blocking(AsyncRewardClient.score)
    rank = _blocking(AsyncRewardClient.rank)
    compare = _blocking(AsyncRewardClient.compare)

    def asynchronous(self) -> AsyncRewardClient:
        """Return an asynchronous client of the same server that requires the same identity."""
        client = self._make()
        client.identity = self.identity
        return client

    def close(self) -> None:
        """Close all connections. A later request opens new ones."""
        if self._pid == os.getpid():
            self._pid = 0
            asyncio.run_coroutine_threadsafe(self._client.close(), self._loop).result()
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def _run(self, work: Callable[[AsyncRewardClient], Coroutine[Any, Any, T]]) -> T:
        """Run a coroutine on an event loop in a background thread, since the caller may have a running loop."""
        with _STARTING:
            if self._pid != os.getpid():
                self._loop = asyncio.new_event_loop()
                self._thread = threading.Thread(target=self._loop.run_forever, name="reward-client", daemon=True)
                self._thread.start()
                self._client = self.asynchronous()
                self._pid = os.getpid()
        future = asyncio.run_coroutine_threadsafe(work(self._client), self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise


_STARTING = threading.Lock()


def _results(reply: Any, count: int) -> list[ItemResult]:
    """Return the results of a reply, or of a fault in its place."""
    if isinstance(reply, Fault):
        return [ItemResult.none(index, reply) for index in range(count)]
    return read_results(reply, count)


def _called(identity: JudgeIdentity) -> str:
    if identity.release:
        return f"release {identity.release[:12]}"
    return f"{identity.judge}, {identity.protocol}, Library {identity.library_id[:12]}"
