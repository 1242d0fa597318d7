"""Client of a reward server for training loops: batches, retries, and explicit failures.

    with RewardClient("http://judge:8100", release="3f0c...", token="...") as client:
        rewards = client.score([Ask("make the box red", source, edited), ...])
        values = [reward.value for reward in rewards]                      # float or None

The client needs only this package. It checks the release of the server before the first reward and with every reply,
and refuses a server whose judge has changed.
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
from rewardharness.judging.identity import JudgeIdentity
from rewardharness.serving.client_http import USUAL, ClientSettings, ServerConnection, TooLargeError, UnavailableError
from rewardharness.serving.client_wire import (
    Album,
    Ask,
    Body,
    Compared,
    EncodedMedia,
    IdentityError,
    ImageLike,
    Instruction,
    MediaLike,
    Reward,
    RewardServerError,
    SourceLike,
    batches,
    encode_media,
    encode_sources,
    instruction_text,
    not_ours,
    read_compared,
    read_identity,
    read_rewards,
    size_of,
)
from rewardharness.serving.normalise import RAW, Normalisation, normalise_groups

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

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
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
        reply = await self._connection.exchange("GET", "/info", None)
        if not isinstance(reply, dict):
            raise not_ours()
        self._identify(reply.get("identity"))
        assert self.identity is not None
        return self.identity

    async def score(
        self, asks: Sequence[Ask], normalise: Normalisation = RAW, *, critique: bool = False
    ) -> list[Reward]:
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
        rewards_found: list[Reward | None] = [None] * len(asks)
        encoded: list[_Encoded] = []
        for index, ask in enumerate(asks):
            try:
                encoded.append((index, *await asyncio.to_thread(_encode, ask)))
            except ImageError as error:
                rewards_found[index] = Reward.none("image", error.message)
            except InputError as error:
                rewards_found[index] = Reward.none("input", error.message)
        sizes = [sum(map(size_of, media)) for _, _, media in encoded]
        runs = batches(sizes, self.settings.batch_items, self.settings.batch_bytes)
        async with _Group() as group:
            for run in runs:
                group.start(self._score([encoded[number] for number in run], rewards_found, critique))
        rewards = [
            reward if reward is not None else Reward.none("missing", "No result came.") for reward in rewards_found
        ]
        return _normalised(rewards, [ask.group for ask in asks], normalise)

    async def rank(
        self,
        instruction: Instruction,
        source: SourceLike,
        candidates: Sequence[MediaLike],
        *,
        references: Sequence[ImageLike] = (),
        method: Method = "score",
        normalise: Normalisation = RAW,
    ) -> list[Reward]:
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
        text = instruction_text(instruction)
        album = Album()
        sources, given = await asyncio.to_thread(_encode_all, source, references, candidates)
        others = [album.media(each) for each in given]
        fields = {"instruction": text, **album.sources(sources), "candidates": others, "method": method}
        reply = await self._try("/rank", fields, album)
        if isinstance(reply, Reward):
            return [reply] * len(candidates)
        return _normalised(read_rewards(reply, len(candidates)), [None] * len(candidates), normalise)

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
        fields: dict[str, Any] = {"instruction": instruction_text(instruction)}
        album = Album()
        sources, given = await asyncio.to_thread(_encode_all, source, references, (a, b))
        fields |= album.sources(sources)
        for name, each in zip(("a", "b"), given, strict=True):
            fields[name] = album.media(each)
        reply = await self._try("/compare", fields, album)
        if isinstance(reply, Reward):
            return Compared(None, None, None, (reply, reply), reply.reason)
        return read_compared(reply)

    async def _score(self, batch: "Sequence[_Encoded]", rewards_found: list[Reward | None], critique: bool) -> None:
        """Score one batch."""
        album = Album()
        items = [
            {"instruction": text, **album.sources(sources), "edited": album.media(edited)}
            for _, text, (edited, *sources) in batch
        ]
        try:
            fields = {"items": items, **({"critique": True} if critique else {})}
            reply = await self._try("/batch_score", fields, album)
        except TooLargeError as error:
            if len(batch) > 1:  # the limit of the server is smaller than the batch
                await self._score(batch[: len(batch) // 2], rewards_found, critique)
                await self._score(batch[len(batch) // 2 :], rewards_found, critique)
                return
            reply = Reward.none("too_large", error.message)
        rewards = [reply] * len(batch) if isinstance(reply, Reward) else read_rewards(reply, len(batch))
        for (index, *_), reward in zip(batch, rewards, strict=True):
            rewards_found[index] = reward

    async def _try(self, path: str, fields: dict[str, Any], album: Album) -> Any:
        """Send a request; depending on `on_error`, return a reward without a value on failure."""
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
        """Check that the identity of the judge is the required one, and has not changed."""
        identity, release = read_identity(value), self._release
        if release is not None and not (identity.release or "").startswith(release):
            serves = (
                f"release {identity.release[:12]}"
                if identity.release
                else f"no release, but Library {identity.library_id[:12]}"
            )
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

    def start(self, work: Coroutine[Any, Any, None]) -> None:
        self.create_task(work)

    async def __aexit__(self, *arguments: Any) -> None:
        try:
            await super().__aexit__(*arguments)
        except BaseExceptionGroup as errors:
            raise errors.exceptions[0] from None


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
        return _again, (type(self), self._make)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def score(self, asks: Sequence[Ask], normalise: Normalisation = RAW, *, critique: bool = False) -> list[Reward]:
        """Score edits separately; see `AsyncRewardClient.score`."""
        return self._run(lambda client: client.score(asks, normalise, critique=critique))

    def rank(
        self,
        instruction: Instruction,
        source: SourceLike,
        candidates: Sequence[MediaLike],
        *,
        references: Sequence[ImageLike] = (),
        method: Method = "score",
        normalise: Normalisation = RAW,
    ) -> list[Reward]:
        """Score a group of candidates; see `AsyncRewardClient.rank`."""
        how: dict[str, Any] = {"references": references, "method": method, "normalise": normalise}
        return self._run(lambda client: client.rank(instruction, source, candidates, **how))

    def compare(
        self,
        instruction: Instruction,
        source: SourceLike,
        a: MediaLike,
        b: MediaLike,
        *,
        references: Sequence[ImageLike] = (),
    ) -> Compared:
        """Compare two candidates in both orders; see `AsyncRewardClient.compare`."""
        return self._run(lambda client: client.compare(instruction, source, a, b, references=references))

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


def _again(kind: type[RewardClient], make: "partial[AsyncRewardClient]") -> RewardClient:
    """Restore a pickled client, which checks its server again."""
    return kind(*make.args, **make.keywords)


_Encoded = tuple[int, str, list[EncodedMedia]]
"""Index, instruction and media of an edit: what is scored, the source and its references."""


def _encode(ask: Ask) -> tuple[str, list[EncodedMedia]]:
    text = instruction_text(ask.instruction)
    return text, [encode_media(ask.edited, "the edited image"), *encode_sources(ask.source, ask.references)]


def _encode_all(
    source: SourceLike, references: Sequence[ImageLike], candidates: Sequence[MediaLike]
) -> tuple[list[EncodedMedia], list[EncodedMedia]]:
    named = [encode_media(media, f"candidate {number}") for number, media in enumerate(candidates, 1)]
    return encode_sources(source, references), named


def _normalised(rewards: list[Reward], groups: Sequence[str | None], how: Normalisation) -> list[Reward]:
    relative, _ = normalise_groups([reward.value for reward in rewards], groups, how)
    return [replace(reward, normalised=value) for reward, value in zip(rewards, relative, strict=True)]


def _called(identity: JudgeIdentity) -> str:
    return (
        f"release {identity.release[:12]}"
        if identity.release
        else f"{identity.judge}, {identity.protocol}, Library {identity.library_id[:12]}"
    )
