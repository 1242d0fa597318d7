"""Evaluations on a Ray cluster: workers on its nodes judge the examples, and everything else stays in this process.

    with judging_on_ray("auto"):
        evolve("org/preferences", judge="vllm:NAME@URL")

Judges and Libraries are sent once. Keys are not sent: a node uses those of its own environment. An example whose worker
is lost is judged by another one. Complete judgments of a model are in the cache of this process, so a run that is
resumed pays for none twice; nodes keep what they measured or asked in memory.
"""

import asyncio
import pickle
from collections import OrderedDict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from rewardharness.errors import HarnessError, InputError, RunError
from rewardharness.files import content_id, sha256, sha256_file
from rewardharness.judging.evaluate import WORKERS, judge_safely
from rewardharness.judging.interface import JudgeProtocol
from rewardharness.judging.revision import machine_revision
from rewardharness.judging.subagent import SubAgent, count_requests
from rewardharness.judgments import judgment_from_json, result_line
from rewardharness.library.store import Library
from rewardharness.ray_cluster import RayError, connect, ray_error
from rewardharness.schema import Example, ImageInput, Judgment, TextInput, Usage, images_of
from rewardharness.task import task_of

_KEPT = 64
"""Judges and Libraries that a worker keeps. Others are sent again."""
_PER_WORKER = 8
"""Examples that a worker has at the same time, at most, so that none waits for the next one to arrive."""


@dataclass(frozen=True)
class _Sent:
    """A judge or Library in Ray's object store."""

    key: str
    """Content id."""
    reference: tuple[Any]
    """Ray resolves references that are arguments, but not those in a tuple."""
    revision: str
    """Code and extras that the judgments of a judge depend on; empty for a Library."""


class _Worker:
    """Judges on a node. Errors are returned, because Ray would show them with a stack trace."""

    def __init__(self) -> None:
        self._opened: OrderedDict[str, Any] = OrderedDict()

    async def judge(self, judge: _Sent, library: _Sent, example: Example) -> Judgment | tuple[str, str]:
        """Judge an example, or return message and next step of an error."""
        try:
            return await judge_safely(await self._open(judge), await self._open(library), example)
        except HarnessError as error:
            return error.message, error.next_step

    async def _open(self, sent: _Sent) -> Any:
        if sent.key not in self._opened:
            data = await sent.reference[0]
            value = pickle.loads(data)  # noqa: S301  (from the process that started this one)
            if sent.revision and machine_revision(value.revision) != sent.revision:
                step = "Install the same version with the same extras on all nodes."
                raise RunError("A node of the Ray cluster has another version of the judge.", next_step=step)
            self._opened.setdefault(sent.key, value)
            while len(self._opened) > _KEPT:
                self._opened.popitem(last=False)
        self._opened.move_to_end(sent.key)
        return self._opened[sent.key]


class _Place:
    """A worker, as this process sees it."""

    def __init__(self, actor: Any) -> None:
        self.actor = actor
        self.judging = 0


class RayWorkers:
    """Workers on a cluster, one per free CPU.

    Args:
        address: Address of the cluster, or `auto`; None for `RAY_ADDRESS`, else Ray starts on this machine.

    Raises:
        MissingPackageError: If Ray is not installed.
        RayError: If the cluster cannot be reached.
    """

    def __init__(self, address: str | None) -> None:
        connect(address, "judging on a Ray cluster")
        import ray

        self._ray = ray
        free = max(1, int(ray.available_resources().get("CPU", 1)))
        worker = ray.remote(num_cpus=1, scheduling_strategy="SPREAD")(_Worker)
        self._places = [_Place(worker.remote()) for _ in range(free)]
        self._chosen: dict[str, _Place] = {}
        self._sent: OrderedDict[int, tuple[Any, _Sent]] = OrderedDict()

    def concurrency(self, judge: JudgeProtocol, chosen: int) -> int:
        """Return the number of examples in progress: of a model as chosen, of other judges as many as workers take."""
        return chosen if judge.traits.uses_model else max(chosen, _PER_WORKER * len(self._places))

    async def judge(self, judge: JudgeProtocol, library: Library, example: Example) -> Judgment:
        """Judge an example on a node; the answer of a model is looked up first, and stored.

        Raises:
            RayError: If all workers are lost.
            RunError: If a node has another version.
            InputError: If the judge cannot be sent, or a node has no key for its model.
        """
        cache = judge.cache if isinstance(judge, SubAgent) else None
        key = await asyncio.to_thread(_question, judge, library, example) if cache is not None else None
        if key is None or cache is None:
            return await self._judge(judge, library, example)
        made: Judgment | None = None

        async def make() -> dict[str, Any] | None:
            nonlocal made
            made = await self._judge(judge, library, example)
            return None if made.failure else {**result_line(made), "id": ""}

        value, _ = await cache.remember(key, judge.name, make, judgment_from_json)
        if made is not None:
            return made
        assert value is not None
        return replace(judgment_from_json(value), example_id=example.id, usage=Usage())

    async def _judge(self, judge: JudgeProtocol, library: Library, example: Example) -> Judgment:
        sent = (
            self._send(judge, judge.name, lambda: machine_revision(judge.revision)),
            self._send(library, "The Library"),
        )
        while True:
            place = self._place(example.id)
            place.judging += 1
            try:
                answer = await place.actor.judge.remote(*sent, example)
            except self._ray.exceptions.RayActorError:
                self._places = [each for each in self._places if each is not place]
                continue
            except self._ray.exceptions.RayError as error:
                raise ray_error(error) from None
            finally:
                place.judging -= 1
            if isinstance(answer, Judgment):
                return answer
            message, step = answer
            raise RunError(message, next_step=step)

    def _place(self, name: str) -> _Place:
        """Return the worker of an example: the one that knows it, else the one with the fewest in progress."""
        place = self._chosen.get(name)
        if place is None or place not in self._places:
            if not self._places:
                raise RayError("All workers of the Ray cluster are lost.", next_step="Give the same command again.")
            place = self._chosen[name] = min(self._places, key=lambda each: each.judging)
        return place

    def _send(self, value: Any, name: str, revision: Callable[[], str] = str) -> _Sent:
        known = self._sent.get(id(value))
        if known is None or known[0] is not value:
            try:
                data = pickle.dumps(value)
            except (pickle.PicklingError, TypeError, AttributeError) as error:
                problem = f"{name} cannot be sent to a Ray cluster: {error}."
                raise InputError(problem, next_step="Judge in this process.") from None
            known = value, _Sent(sha256(data), (self._ray.put(data),), revision())
            self._sent[id(value)] = known
            while len(self._sent) > _KEPT:
                self._sent.popitem(last=False)
        return known[1]


@contextmanager
def judging_on_ray(address: str | None = None) -> Iterator[None]:
    """Let every evaluation in this context judge on a cluster: evolution, benchmarks, `Judge.score_dataset`.

    Args:
        address: Address of the cluster, or `auto`; None for `RAY_ADDRESS`, else Ray starts on this machine.

    Raises:
        MissingPackageError: If Ray is not installed.
        RayError: If the cluster cannot be reached.
    """
    workers = RayWorkers(address)
    token = WORKERS.set(workers)
    try:
        yield
    finally:
        WORKERS.reset(token)
        workers._ray.shutdown()


def _question(judge: JudgeProtocol, library: Library, example: Example) -> str | None:
    """Return the key of a judgment of a model: everything that can change it; None if an image cannot be read."""
    try:
        media = [_content(each) for each in (*example.sources, *example.candidates)]
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
