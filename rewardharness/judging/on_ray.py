"""Work on a Ray cluster: actors on its nodes judge examples, or parts of a dataset, and the rest stays in this process.

    with RayExecutor("auto") as executor:
        evolve("org/preferences", judge="vllm:NAME@URL", executor=executor)

Judges and Libraries are sent once. Keys are not sent: a node uses those of its own environment. What a lost node worked
on is given to another one. Complete judgments of a model are in the cache of this process, so a run that is resumed
pays for none twice; nodes keep what they measured or asked in memory.
"""

import asyncio
import logging
import pickle
import secrets
import socket
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Self, TypeVar

from rewardharness.errors import HarnessError, InputError, MissingPackageError, RunError
from rewardharness.files import content_id, sha256, sha256_file
from rewardharness.judging.evaluate import LocalExecutor
from rewardharness.judging.interface import JudgeProtocol
from rewardharness.judging.revision import machine_revision
from rewardharness.judging.subagent import SubAgent, count_requests
from rewardharness.judgments import judgment_from_json, result_line
from rewardharness.library.store import Library
from rewardharness.schema import Example, ImageInput, Judgment, TextInput, Usage, images_of
from rewardharness.settings import Settings, export
from rewardharness.task import task_of

_REACH_SECONDS = 10
"""Seconds in which the address of a cluster must answer."""


class RayError(HarnessError):
    """Ray did not start, or stopped."""

    title = "Ray failed"


def connect(address: str | None, purpose: str, *, cpus: int | None = None) -> None:
    """Connect to a cluster. `ray.shutdown()` ends the connection, and what was started here.

    Args:
        address: Its address, or `auto`; None for `RAY_ADDRESS`, and without it to start Ray on this machine.
        purpose: What Ray is for, in the message if it is not installed.
        cpus: CPUs of a Ray that is started here; None for all.

    Raises:
        MissingPackageError: If Ray is not installed.
        RayError: If the cluster cannot be reached, or Ray does not start.
    """
    address = address or Settings.from_env().ray_address
    export("RAY_USAGE_STATS_ENABLED", "0")
    if address is None:  # Ray listens on all interfaces; without this token others could run code here
        export("RAY_AUTH_MODE", "token")
        export("RAY_AUTH_TOKEN", secrets.token_hex(32))
    try:
        import ray
    except ImportError:
        raise MissingPackageError("ray", "ray", purpose) from None
    logging.getLogger("ray").setLevel(logging.ERROR)
    host, _, port = (address or "").rpartition(":")
    if port.isdecimal() and "/" not in host:  # Ray would try for minutes
        try:
            socket.create_connection((host, int(port)), timeout=_REACH_SECONDS).close()
        except (OSError, OverflowError):
            raise RayError(
                f"No Ray cluster answers at {address}.", next_step="Check --address or RAY_ADDRESS."
            ) from None
    new = {"include_dashboard": False, "num_cpus": cpus} if address is None else {}
    try:
        ray.init(address=address or "local", log_to_driver=False, logging_level=logging.ERROR, **new)
    except Exception as error:  # Ray raises errors of many types, and plain ones
        raise ray_error(error) from None


def ray_error(error: Exception) -> RayError:
    """Return an error of Ray in one sentence."""
    problem = (str(error).strip() or type(error).__name__).splitlines()[-1]
    return RayError(problem, next_step="Check the address, and Ray's logs in /tmp/ray/session_latest/logs.")


T = TypeVar("T")

_KEPT = 64
"""Judges and Libraries that an actor keeps. Others are sent again."""
_PER_ACTOR = 8
"""Examples that an actor has at the same time, at most, so that none waits for the next one to arrive."""


@dataclass(frozen=True)
class _Sent:
    """A judge or Library in Ray's object store."""

    key: str
    """Content id."""
    reference: tuple[Any]
    """Ray resolves references that are arguments, but not those in a tuple."""
    revision: str
    """Code and extras that the judgments of a judge depend on; empty for a Library."""


@dataclass(frozen=True)
class _Reply:
    """What an actor returns."""

    value: Any = None
    error: tuple[str, str] | None = None
    """Message and next step of an error."""


class _Actor:
    """Works on a node. Errors are returned, because Ray would show them with a stack trace."""

    def __init__(self) -> None:
        self._opened: OrderedDict[str, Any] = OrderedDict()
        self._opening = asyncio.Lock()

    async def call(self, function: Callable[..., Awaitable[T]], sent: Iterable[_Sent], *arguments: Any) -> _Reply:
        """Call a function with opened values and further arguments."""
        try:
            return _Reply(await function(*[await self._open(value) for value in sent], *arguments))
        except HarnessError as error:
            return _Reply(error=(error.message, error.next_step))

    async def _open(self, sent: _Sent) -> Any:
        async with self._opening:
            if sent.key not in self._opened:
                data = await sent.reference[0]
                value = await asyncio.to_thread(pickle.loads, data)  # noqa: S301  (from the process that started this one)
                if sent.revision and machine_revision(value.revision) != sent.revision:
                    step = "Install the same version with the same extras on all nodes."
                    raise RunError("A node of the Ray cluster has another version of the judge.", next_step=step)
                self._opened[sent.key] = value
                while len(self._opened) > _KEPT:
                    self._opened.popitem(last=False)
            self._opened.move_to_end(sent.key)
            return self._opened[sent.key]


@dataclass(eq=False)
class _Place:
    """An actor, as this process sees it."""

    actor: Any
    busy: int = 0


class RayExecutor:
    """Actors on a cluster, which is connected to when there is something to judge.

    Its methods raise a `MissingPackageError` if Ray is not installed, a `RayError` if the cluster cannot be reached.

    Args:
        address: Address of the cluster, or `auto`; None for `RAY_ADDRESS`, else Ray starts on this machine.
        workers: Number of actors; None for one per free CPU.
    """

    def __init__(self, address: str | None = None, workers: int | None = None) -> None:
        self._address, self._workers = address, workers
        self._chosen: dict[str, _Place] = {}
        self._sent: OrderedDict[int, tuple[Any, _Sent]] = OrderedDict()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        if "_ray" in vars(self):
            self._ray.shutdown()

    @cached_property
    def _ray(self) -> Any:
        connect(self._address, "judging on a Ray cluster")
        import ray

        return ray

    def choose_workers(self, per_node: int, most: int) -> None:
        """Start so many actors per node, and at most so many in all, unless their number was given."""
        nodes = sum(node["Alive"] for node in self._ray.nodes())
        self._workers = self._workers or min(per_node * nodes, most)

    @cached_property
    def places(self) -> list[_Place]:
        """The actors; they are started when they are needed. A chosen number of them reserves no CPU."""
        count = self._workers or max(1, int(self._ray.available_resources().get("CPU", 1)))
        actor = self._ray.remote(num_cpus=0 if self._workers else 1, scheduling_strategy="SPREAD")(_Actor)
        return [_Place(actor.remote()) for _ in range(count)]

    def concurrency(self, judge: JudgeProtocol, chosen: int) -> int:
        """Return the number of examples in progress: of a model as chosen, of other judges as many as actors take."""
        most = _PER_ACTOR * len(self.places)
        return chosen if judge.traits.uses_model else max(chosen, most)

    async def judge(self, judge: JudgeProtocol, library: Library, example: Example) -> Judgment:
        """Judge an example on a node; the answer of a model is looked up first, and stored.

        Raises:
            RayError: If all actors are lost.
            RunError: If a node has another version, or no key for its model.
            InputError: If the judge cannot be sent.
        """

        async def ask() -> Judgment:
            return await self.call(example.id, _judge_here, {judge.name: judge, "The Library": library}, example)

        cache = judge.cache if isinstance(judge, SubAgent) else None
        key = await asyncio.to_thread(_question, judge, library, example) if cache is not None else None
        if key is None or cache is None:
            return await ask()
        made: Judgment | None = None

        async def make() -> dict[str, Any] | None:
            nonlocal made
            made = await ask()
            return None if made.failure else {**result_line(made), "id": ""}

        value, _ = await cache.remember(key, judge.name, make, judgment_from_json)
        if made is not None:
            return made
        assert value is not None
        return replace(judgment_from_json(value), example_id=example.id, usage=Usage())

    async def call(
        self, name: str, function: Callable[..., Awaitable[T]], values: Mapping[str, Any], *arguments: Any
    ) -> T:
        """Call a function on a node.

        Args:
            name: What it works on; the actor that worked on it before is taken, if there is one.
            function: A function of a module.
            values: Its first arguments, by their names in errors; each is sent to the cluster once.
            arguments: Further arguments.

        Raises:
            RayError: If all actors are lost.
            RunError: If the function raises an error of this package.
            InputError: If a value cannot be sent.
        """
        sent = tuple(self._send(value, named) for named, value in values.items())
        while True:
            place = self._place(name)
            place.busy += 1
            try:
                reply: _Reply = await place.actor.call.remote(function, sent, *arguments)
            except self._ray.exceptions.RayActorError:
                if place in self.places:
                    self.places.remove(place)
                continue
            except self._ray.exceptions.RayError as error:
                raise ray_error(error) from None
            finally:
                place.busy -= 1
            if reply.error is not None:
                raise RunError(reply.error[0], next_step=reply.error[1])
            return reply.value  # type: ignore[no-any-return]

    def _place(self, name: str) -> _Place:
        """Return the actor of a name: the one that knows it, else the one with the fewest in progress."""
        place = self._chosen.get(name)
        if place is None or place not in self.places:
            if not self.places:
                raise RayError("All workers of the Ray cluster are lost.", next_step="Give the same command again.")
            place = self._chosen[name] = min(self.places, key=lambda worker: worker.busy)
        return place

    def _send(self, value: Any, name: str) -> _Sent:
        known = self._sent.get(id(value))
        if known is None or known[0] is not value:
            try:
                data = pickle.dumps(value)
            except (pickle.PicklingError, TypeError, AttributeError) as error:
                problem = f"{name} cannot be sent to a Ray cluster: {error}."
                raise InputError(problem, next_step="Judge in this process.") from None
            revision = machine_revision(value.revision) if hasattr(value, "revision") else ""
            known = value, _Sent(sha256(data), (self._ray.put(data),), revision)
            self._sent[id(value)] = known
            while len(self._sent) > _KEPT:
                self._sent.popitem(last=False)
        return known[1]


async def _judge_here(judge: JudgeProtocol, library: Library, example: Example) -> Judgment:
    return await LocalExecutor().judge(judge, library, example)


def _question(judge: JudgeProtocol, library: Library, example: Example) -> str | None:
    """Return the key of a judgment of a model: everything that can change it; None if an image cannot be read."""
    try:
        media = [_content(medium) for medium in (*example.sources, *example.candidates)]
    except OSError:
        return None
    calibration = judge.calibration.id if judge.calibration is not None else ""
    who = [judge.name, judge.revision, judge.traits.router_id, count_requests(judge, example), calibration, library.id]
    return content_id(["judgment", *who, task_of(example).name, example.instruction, media])


def _content(media: Any) -> list[str]:
    if isinstance(media, TextInput):
        return [sha256(media.text.encode())]
    return [_image(image) for image in images_of(media)]


def _image(image: ImageInput) -> str:
    return sha256_file(image.path) if image.path is not None else sha256(image.data or b"")
