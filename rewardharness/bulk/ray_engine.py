"""Judging of parts on a Ray cluster: the workers of `engine`, as actors of Ray Data.

Each part is a block of its own, so Ray repeats a part whose node was lost on another one, and nothing else. The parts
come back to this process, which writes them: the output folder need not be reachable from the nodes, but the data must
be. Ray's own HTTP processor is not used: it has four requests in flight and takes errors for replies.
"""

import asyncio
import json
import logging
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, replace
from typing import Any

from rewardharness.bulk.config import ShardsConfig
from rewardharness.bulk.engine import Retry, Worker
from rewardharness.bulk.shards import PartResult
from rewardharness.bulk.stream import Part, Stream
from rewardharness.codec import from_json, to_json
from rewardharness.errors import HarnessError, RunError
from rewardharness.judging.identity import JudgeIdentity
from rewardharness.judging.release_opening import open_reward
from rewardharness.judging.revision import machine_revision
from rewardharness.ray_cluster import connect, ray_error
from rewardharness.settings import Settings

_CPUS = 0.5
"""CPUs that an actor reserves. With whole ones, actors could hold all CPUs and leave none for reading."""


@dataclass(frozen=True)
class _Job:
    """What every actor needs."""

    stream: Stream
    config: ShardsConfig
    identity: JudgeIdentity
    machine: str
    """As `machine_revision` of the process that writes the parts."""
    retry: Retry | None


class _Actor:
    """A worker on a node. Errors are returned, because Ray would show them with a stack trace."""

    def __init__(self, job: _Job) -> None:
        self._job = job
        self._worker: Worker | None = None
        self._opening = asyncio.Lock()

    async def __call__(self, batch: dict[str, Any]) -> AsyncIterator[dict[str, Any]]:
        """Judge the parts of a batch, whose column `part` has their numbers."""
        results: list[str] = []
        try:
            worker = await self._opened()
            parts = [self._job.stream.parts[int(number)] for number in batch["part"]]
            await worker.judge(parts, lambda result: results.append(_packed(result)), retry=self._job.retry)
        except HarnessError as error:
            results = [json.dumps({"error": [error.message, error.next_step]})]
        yield {"result": results}

    async def _opened(self) -> Worker:
        async with self._opening:
            if self._worker is None:
                self._worker = await asyncio.to_thread(self._open)
        return self._worker

    def _open(self) -> Worker:
        job, settings = self._job, Settings.from_env()
        opened = open_reward(job.config, settings)
        judge, library, release = opened
        identity = JudgeIdentity.of(judge, library, release.id if release else None)
        if (identity, machine_revision(judge.revision)) != (job.identity, job.machine):
            step = "Install the same version with the same extras, and use a Library on the Hub or a shared disk."
            raise RunError("A node of the cluster has another judge or Library.", next_step=step)
        return Worker(job.stream, job.config, settings, opened)


def judge_on_ray(
    worker: Worker,
    parts: list[Part],
    on_result: Callable[[PartResult], None],
    on_rows: Callable[[int], None],
    retry: Retry | None = None,
    stop: Callable[[], bool] = bool,
) -> None:
    """Judge parts on a cluster.

    Args:
        worker: Data and judge of this process.
        parts: The parts.
        on_result: Called with each complete part, in this process.
        on_rows: Called with the number of rows of each complete part.
        retry: Failed rows; None to judge all rows.
        stop: Called after each part; True ends the work.

    Raises:
        MissingPackageError: If Ray is not installed.
        RayError: If the cluster cannot be reached, or Ray stopped.
        RunError: If its nodes have another judge or Library.
        DataError: If a node cannot read a file.
    """
    connect(worker.config.address, "judging on a Ray cluster")
    import ray
    import ray.data

    logging.getLogger("ray.data").setLevel(logging.CRITICAL)  # the import sets its own level
    judge, library, release = worker.opened
    identity = JudgeIdentity.of(judge, library, release.id if release else None)
    config = replace(worker.config, output=None, limit=None)
    try:
        ray.data.DataContext.get_current().enable_progress_bars = False
        nodes = sum(1 for node in ray.nodes() if node["Alive"])
        actors = worker.config.workers or nodes * (2 if judge.traits.uses_model else 1)
        job = _Job(worker.stream, config, identity, machine_revision(judge.revision), retry)
        numbers = [{"part": part.number} for part in parts]
        judged = ray.data.from_items(numbers, override_num_blocks=len(numbers)).map_batches(
            _Actor,
            fn_constructor_args=(job,),
            batch_size=1,
            num_cpus=_CPUS,
            compute=ray.data.ActorPoolStrategy(min_size=1, max_size=min(actors, len(parts))),
        )
        for row in judged.iter_rows():
            result = _unpacked(row["result"])
            on_result(result)
            on_rows(len(result.judged) + len(result.failed))
            if stop():
                break
    except ray.exceptions.RayError as error:
        raise ray_error(error) from None
    finally:
        ray.shutdown()


def _packed(result: PartResult) -> str:
    return json.dumps(to_json(result))


def _unpacked(text: str) -> PartResult:
    value = json.loads(text)
    if "error" in value:
        message, step = value["error"]
        raise RunError(message, next_step=step)
    return from_json(PartResult, value)
