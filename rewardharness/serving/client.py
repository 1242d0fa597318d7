"""Asks a reward server from a training loop: batches, retries, and a failure that stays a failure.

    with RewardClient("http://judge:8100", release="3f0c...", token="...") as client:
        rewards = client.score([Ask("make the box red", source, edited), ...])
        values = [reward.value for reward in rewards]                      # float or None, never a stand-in

Needs nothing beyond this package. It makes sure before the first reward, and again with every reply, that the server
judges with the release that it should, and never with another one than before.
"""

import asyncio
import os
import re
import threading
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import replace
from functools import partial
from types import TracebackType
from typing import Any, Self, TypeVar

from rewardharness.errors import ImageError, InputError
from rewardharness.judging.best_of import Method
from rewardharness.serving.client_http import USUAL, ClientSettings, ServerConnection, TooLargeError, UnavailableError
from rewardharness.serving.client_wire import (
    Album,
    Ask,
    Body,
    Compared,
    IdentityError,
    ImageLike,
    Instruction,
    Reward,
    RewardServerError,
    batches,
    encode,
    instruction_text,
    not_ours,
    read_compared,
    read_identity,
    read_rewards,
)
from rewardharness.serving.normalise import RAW, Normalisation, normalise_groups
from rewardharness.serving.results import Identity

__all__ = [
    "Ask",
    "AsyncRewardClient",
    "ClientSettings",
    "Compared",
    "IdentityError",
    "Normalisation",
    "Reward",
    "RewardClient",
    "RewardServerError",
]

T = TypeVar("T")
_RELEASE = re.compile(r"[0-9a-f]{12,64}")


class AsyncRewardClient:
    """Asks a reward server. Belongs to the event loop on which it is first used.

    Args:
        url: Address of the server, as in `http://127.0.0.1:8100`.
        release: Hash of the release that must be served, or its first 12 or more digits; None: whatever is served now.
        token: What the server asks its callers for.
        settings: How to ask.
        sleep: Waits for a number of seconds.

    Raises:
        InputError: If the address, the hash or the token cannot be used.
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
            step = "Give at least its first 12 digits, as `rh release` shows them."
            raise InputError(f"{release[:80]!r} is not the hash of a release.", next_step=step)
        self.settings = settings
        self._release = release
        self._connection = ServerConnection(url, token, settings, sleep)
        self._turns = asyncio.Semaphore(max(1, settings.concurrency))
        self.identity: Identity | None = None
        """Who judges, once that is known."""

    async def __aenter__(self) -> Self:
        """Make sure that the server is the right one."""
        await self.check()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close all connections."""
        await self._connection.close()

    async def check(self) -> Identity:
        """Make sure that the server is there, takes the token, and judges with the right release.

        Raises:
            IdentityError: If it judges with something else.
            RewardServerError: If it is not there or does not take the token, whatever `on_error` says.
        """
        reply = await self._connection.exchange("GET", "/info", None)
        if not isinstance(reply, dict):
            raise not_ours()
        self._identify(reply.get("identity"))
        assert self.identity is not None
        return self.identity

    async def score(self, asks: Sequence[Ask], normalise: Normalisation = RAW) -> list[Reward]:
        """Have edits scored, each alone.

        Args:
            asks: The edits, any number of them.
            normalise: Whether rewards are also made relative within the groups of `asks`.

        Returns:
            One reward per edit, in their order.

        Raises:
            IdentityError: If the server judges with something else than before.
            RewardServerError: See `ClientSettings.on_error`.
        """
        found: list[Reward | None] = [None] * len(asks)
        encoded: list[_Encoded] = []
        for index, ask in enumerate(asks):
            try:
                encoded.append((index, *await asyncio.to_thread(_encode, ask)))
            except ImageError as error:
                found[index] = Reward.none("image", error.message)
            except InputError as error:
                found[index] = Reward.none("input", error.message)
        sizes = [len(source) + len(edited) for _, _, source, edited in encoded]
        runs = batches(sizes, self.settings.batch_items, self.settings.batch_bytes)
        async with _Group() as group:
            for run in runs:
                group.start(self._score([encoded[number] for number in run], found))
        rewards = [reward if reward is not None else Reward.none("missing", "No result came.") for reward in found]
        return _normalised(rewards, [ask.group for ask in asks], normalise)

    async def rank(
        self,
        instruction: Instruction,
        source: ImageLike,
        candidates: Sequence[ImageLike],
        *,
        method: Method = "score",
        normalise: Normalisation = RAW,
    ) -> list[Reward]:
        """Get the rewards of a whole group of candidates of one edit.

        Args:
            instruction: The edit that was asked for.
            source: The image before.
            candidates: Two or more; the server says how many at most.
            method: `score`: each judged alone. `win_rate`: all pairs compared in both orders.
            normalise: Whether rewards are also made relative within the group.

        Raises:
            ImageError: If an image cannot be read.
            RewardServerError: As for `score`.
        """
        text = instruction_text(instruction)
        album = Album()
        images = await asyncio.to_thread(_encode_all, source, candidates)
        first, *others = [album.ref(image) for image in images]
        fields = {"instruction": text, "source": first, "candidates": others, "method": method}
        reply = await self._try("/rank", fields, album)
        if isinstance(reply, Reward):
            return [reply] * len(candidates)
        return _normalised(read_rewards(reply, len(candidates)), [None] * len(candidates), normalise)

    async def compare(self, instruction: Instruction, source: ImageLike, a: ImageLike, b: ImageLike) -> Compared:
        """Compare two candidates in both orders.

        Raises:
            ImageError: If an image cannot be read.
            RewardServerError: As for `score`.
        """
        fields: dict[str, Any] = {"instruction": instruction_text(instruction)}
        album = Album()
        images = await asyncio.to_thread(_encode_all, source, (a, b))
        for name, image in zip(("source", "a", "b"), images, strict=True):
            fields[name] = album.ref(image)
        reply = await self._try("/compare", fields, album)
        if isinstance(reply, Reward):
            return Compared(None, None, None, (reply, reply), reply.reason)
        return read_compared(reply)

    async def _score(self, run: "Sequence[_Encoded]", found: list[Reward | None]) -> None:
        """Have one batch scored."""
        album = Album()
        items = [
            {"instruction": text, "source": album.ref(source), "edited": album.ref(edited)}
            for _, text, source, edited in run
        ]
        try:
            reply = await self._try("/batch_score", {"items": items}, album)
        except TooLargeError as error:
            if len(run) > 1:  # the server takes less at once than we thought
                await self._score(run[: len(run) // 2], found)
                await self._score(run[len(run) // 2 :], found)
                return
            reply = Reward.none("too_large", error.message)
        rewards = [reply] * len(run) if isinstance(reply, Reward) else read_rewards(reply, len(run))
        for (index, *_), reward in zip(run, rewards, strict=True):
            found[index] = reward

    async def _try(self, path: str, fields: dict[str, Any], album: Album) -> Any:
        """Send a request; where that may fail quietly, say why in a reward without a value."""
        try:
            if self.identity is None:
                await self.check()
            async with self._turns:
                opted = {"allow_ungradable": True} if self.settings.allow_ungradable else {}
                body = Body({**fields, **opted, "deadline_s": self.settings.deadline}, album.images)
                reply = await self._connection.exchange("POST", path, body)
        except UnavailableError as error:
            if self.settings.on_error == "raise":
                raise
            return Reward.none(error.code, error.message, retryable=True)
        self._identify(reply)
        return reply

    def _identify(self, value: Any) -> None:
        """Make sure that this is who should judge, and who judged before."""
        found, wanted = read_identity(value), self._release
        if wanted is not None and not (found.release or "").startswith(wanted):
            serves = (
                f"release {found.release[:12]}" if found.release else f"no release, but Library {found.library_id[:12]}"
            )
            raise IdentityError(
                f"Release {wanted[:12]} is wanted, and the server serves {serves}.",
                next_step="Start the server with `rh serve --release`, or ask for what it serves.",
            )
        if self.identity is not None and found != self.identity:
            raise IdentityError(
                f"The server judged with {_called(self.identity)}, and now judges with {_called(found)}.",
                next_step="Rewards of the two do not compare: start again with one of them.",
            )
        self.identity = found


class _Group(asyncio.TaskGroup):
    """Tasks of which the first error ends the others, and is raised as it is."""

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        self.create_task(work)

    async def __aexit__(self, *arguments: Any) -> None:
        try:
            await super().__aexit__(*arguments)
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None


class RewardClient:
    """The same for programs without an event loop: every method waits for its result. Safe for several threads.

    It can be pickled and forked; each process has connections of its own.

    Args:
        url: Address of the server.
        release: Hash of the release that must be served, or its first 12 or more digits; None: whatever is served now.
        token: What the server asks its callers for.
        settings: How to ask.

    Raises:
        InputError: If the address, the hash or the token cannot be used.
        IdentityError: If the server judges with another release.
        RewardServerError: If the server is not there or does not take the token.
    """

    def __init__(
        self, url: str, *, release: str | None = None, token: str | None = None, settings: ClientSettings = USUAL
    ) -> None:
        self.settings = settings
        self._make = partial(AsyncRewardClient, url, release=release, token=token, settings=settings)
        self._pid = 0
        self.identity: Identity | None = None
        """Who judges."""
        try:
            self.identity = self._run(lambda client: client.check())
        except BaseException:
            self.close()
            raise

    def __reduce__(self) -> tuple[Any, ...]:
        return _again, (type(self), self._make)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def score(self, asks: Sequence[Ask], normalise: Normalisation = RAW) -> list[Reward]:
        """Have edits scored, each alone; see `AsyncRewardClient.score`."""
        return self._run(lambda client: client.score(asks, normalise))

    def rank(
        self,
        instruction: Instruction,
        source: ImageLike,
        candidates: Sequence[ImageLike],
        *,
        method: Method = "score",
        normalise: Normalisation = RAW,
    ) -> list[Reward]:
        """Get the rewards of a whole group; see `AsyncRewardClient.rank`."""
        return self._run(
            lambda client: client.rank(instruction, source, candidates, method=method, normalise=normalise)
        )

    def compare(self, instruction: Instruction, source: ImageLike, a: ImageLike, b: ImageLike) -> Compared:
        """Compare two candidates in both orders; see `AsyncRewardClient.compare`."""
        return self._run(lambda client: client.compare(instruction, source, a, b))

    def asynchronous(self) -> AsyncRewardClient:
        """Make a client of the same server for an event loop; it holds the server to the same identity."""
        client = self._make()
        client.identity = self.identity
        return client

    def close(self) -> None:
        """Close all connections. Asking again opens new ones."""
        if self._pid == os.getpid():
            self._pid = 0
            asyncio.run_coroutine_threadsafe(self._client.close(), self._loop).result()
            self._loop.call_soon_threadsafe(self._loop.stop)
            self._thread.join()
            self._loop.close()

    def _run(self, work: Callable[[AsyncRewardClient], Coroutine[Any, Any, T]]) -> T:
        """Do something on a loop in a thread of our own: the caller's thread may have a loop that runs already."""
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


def _again(kind: type[RewardClient], make: "partial[AsyncRewardClient]") -> RewardClient:
    """Make a client that was pickled anew; it makes sure of its server again."""
    return kind(*make.args, **make.keywords)


_Encoded = tuple[int, str, bytes, bytes]
"""The place of an edit among those asked for, its instruction, its source and the edited image."""


def _encode(ask: Ask) -> tuple[str, bytes, bytes]:
    text = instruction_text(ask.instruction)
    return text, encode(ask.source, "the source"), encode(ask.edited, "the edited image")


def _encode_all(source: ImageLike, candidates: Sequence[ImageLike]) -> list[bytes]:
    named = [encode(each, f"candidate {number}") for number, each in enumerate(candidates, 1)]
    return [encode(source, "the source"), *named]


def _normalised(rewards: list[Reward], groups: Sequence[str | None], how: Normalisation) -> list[Reward]:
    relative, _ = normalise_groups([reward.value for reward in rewards], groups, how)
    return [replace(reward, normalised=value) for reward, value in zip(rewards, relative, strict=True)]


def _called(who: Identity) -> str:
    return (
        f"release {who.release[:12]}" if who.release else f"{who.judge}, {who.protocol}, Library {who.library_id[:12]}"
    )
