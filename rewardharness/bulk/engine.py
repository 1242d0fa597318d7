"""Judging of datasets of any size into an output folder, in this process or on a Ray cluster.

A part is the unit of work: its rows are read one by one, judged concurrently, and written together. Several parts are
in progress, so that the judge never waits for the last rows of one. Memory holds the rows in progress and the numbers
of the parts in progress, whatever the size of the data.
"""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from rewardharness.bulk.config import ShardsConfig
from rewardharness.bulk.shards import PartResult, ShardStore, Status, judged_row
from rewardharness.bulk.stream import Part, Row, Stream, open_stream
from rewardharness.errors import RunError
from rewardharness.files import read_json, write_json
from rewardharness.judging.batches import JUDGING, NOT_YET, closing, expected_cost, judge_within
from rewardharness.judging.evaluate import run_to_end, work_each
from rewardharness.judging.identity import JudgeIdentity
from rewardharness.judging.interface import unjudged
from rewardharness.judging.opening import OpenedJudge, open_reward
from rewardharness.judging.report import BAD_ROW, add_reports, make_report
from rewardharness.judging.revision import machine_revision
from rewardharness.runs.job import Progress, Session, Stopped, StopRequest
from rewardharness.runs.results import is_due
from rewardharness.runs.spending import Account, Cost, SpendingLimits, line_usage, usage_json
from rewardharness.schema import Agreement, Example, Failure, Json, Judgment
from rewardharness.settings import Settings

if TYPE_CHECKING:
    from rewardharness.judging.on_ray import RayExecutor

_PARTS_PER_ACTOR = 2
"""Parts that an actor of a cluster has at the same time, so that it never waits for the last rows of one."""
_SAMPLE = 8
"""Rows that an estimate of the cost reads."""
Retry = Mapping[int, Mapping[int, Failure | None]]
"""Failed rows by number of their part: None to judge a row again, or the failure that it keeps."""


@dataclass(frozen=True)
class Worker:
    """Judges parts: the same in this process and on the nodes of a cluster, which open the judge themselves."""

    stream: Stream
    config: ShardsConfig
    settings: Settings
    opened: OpenedJudge

    @cached_property
    def identity(self) -> JudgeIdentity:
        """Judge, revision, protocol, Library and release."""
        return self.opened.identity

    async def judge(
        self,
        parts: Iterable[Part],
        on_result: Callable[[PartResult], None],
        on_row: Callable[[], object] = bool,
        retry: Retry | None = None,
        *,
        stop: StopRequest | None = None,
        account: Account | None = None,
    ) -> None:
        """Judge the rows of parts. An error of one row does not affect the others.

        Args:
            parts: The parts; read lazily.
            on_result: Called with each complete part.
            on_row: Called after each row.
            retry: Failed rows; None to judge all rows. The results of a part have these rows only.
            stop: Ends the work when asked. Rows of parts in progress that are not judged yet fail with `NOT_YET`.
            account: What may be spent; if nothing more, the work ends likewise.

        Raises:
            DataError: If a file cannot be read, or changed.
            RunPaused: If the model cannot be asked; see `Outage`.
        """
        session = _Session(self, on_result, on_row, retry, stop or StopRequest(), account or Account())
        await session.judge(parts)

    def __reduce__(self) -> tuple[Any, ...]:
        config = replace(self.config, output=None, limit=None)
        return _reopen, (self.stream, config, self.identity, machine_revision(self.opened.judge.revision))


def _reopen(stream: Stream, config: ShardsConfig, identity: JudgeIdentity, machine: str) -> Worker:
    """Open the judge of a worker on another machine, with the keys and the cache of that machine."""
    settings = Settings.from_env()
    worker = Worker(stream, config, settings, open_reward(config, settings))
    if (worker.identity, machine_revision(worker.opened.judge.revision)) != (identity, machine):
        step = "Install the same version with the same extras, and use a Library on the Hub or a shared disk."
        raise RunError("A node of the cluster has another judge or Library.", next_step=step)
    return worker


async def judge_part(worker: Worker, part: Part, rows: Mapping[int, Failure | None] | None) -> PartResult:
    """Judge one part, or some of its rows, on a node."""
    results: list[PartResult] = []
    await worker.judge([part], results.append, retry=None if rows is None else {part.number: rows})
    return results[0]


@dataclass
class _Session:
    """The parts in progress of a worker. Rows are read in another thread than they are judged."""

    worker: Worker
    on_result: Callable[[PartResult], None]
    on_row: Callable[[], object]
    retry: Retry | None
    stop: StopRequest
    account: Account
    collecting: dict[int, "_Collected"] = field(default_factory=dict)
    lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def ended(self) -> bool:
        return bool(self.account.reason) or self.stop()

    async def judge(self, parts: Iterable[Part]) -> None:
        (judge, library, _), rows = self.worker.opened, self.rows(parts)
        await judge_within(
            judge,
            library,
            rows,
            lambda key, example, judgment: self.add(*key, example, judgment),
            account=self.account,
            stop=self.stop,
            concurrency=self.worker.config.concurrency or judge.traits.concurrency,
            blocking=True,
        )
        if self.ended:
            await asyncio.to_thread(deque, rows, 0)  # the rest of the parts in progress
            for collected in list(self.collecting.values()):
                for row, example in list(collected.waiting.values()):
                    self.add(collected, row, example, unjudged(example, judge, library, NOT_YET))

    def add(self, collected: "_Collected", row: Row, example: Example, judgment: Judgment) -> None:
        with self.lock:
            collected.add(row, example, judgment)
            self.on_row()
        self.finish(collected)

    def finish(self, part: "_Collected") -> None:
        with self.lock:
            if not part.complete or self.collecting.pop(part.number, None) is None:
                return
        self.on_result(part.result())

    def rows(self, parts: Iterable[Part]) -> Iterator[tuple[tuple["_Collected", Row], Example]]:
        judge, library, _ = self.worker.opened
        for part in parts:
            if self.ended:
                return
            wanted = None if self.retry is None else self.retry[part.number]
            collected = self.collecting[part.number] = _Collected(part.number)
            for row in self.worker.stream.rows(part, self.worker.settings):
                if wanted is not None and row.number not in wanted:
                    continue
                if row.example is None:
                    with self.lock:
                        collected.refuse(row)
                        self.on_row()
                    continue
                with self.lock:
                    collected.waiting[row.number] = row, row.example
                failure = NOT_YET if self.ended else wanted and wanted[row.number]
                if failure:
                    self.add(collected, row, row.example, unjudged(row.example, judge, library, failure))
                else:
                    yield (collected, row), row.example
            with self.lock:
                collected.read = True
            self.finish(collected)


@dataclass
class _Collected:
    """The results of a part in progress."""

    number: int
    waiting: dict[int, tuple[Row, Example]] = field(default_factory=dict)
    """Rows in progress by number."""
    read: bool = False
    judged: list[Json] = field(default_factory=list)
    failed: list[Json] = field(default_factory=list)
    report: Agreement = field(default_factory=lambda: make_report([]))
    failed_report: Agreement = field(default_factory=lambda: make_report([]))

    @property
    def complete(self) -> bool:
        return self.read and not self.waiting

    def add(self, row: Row, example: Example, judgment: Judgment) -> None:
        del self.waiting[row.number]
        report = make_report([(example, judgment)])
        if judgment.judged:
            self.report = add_reports(self.report, report)
            self.judged.append(judged_row(row.number, example, judgment))
        else:
            self.failed_report = add_reports(self.failed_report, report)
            code, message = (judgment.failure.code, judgment.failure.message) if judgment.failure else ("", "")
            self.failed.append({"row": row.number, "id": example.id, "code": code, "message": message})

    def refuse(self, row: Row) -> None:
        self.failed_report = add_reports(self.failed_report, make_report([], skipped=1))
        self.failed.append({"row": row.number, "id": row.name, "code": BAD_ROW, "message": row.problem})

    def result(self) -> PartResult:
        judged, failed = (tuple(sorted(rows, key=_number)) for rows in (self.judged, self.failed))
        return PartResult(self.number, judged, failed, self.report, self.failed_report)


def _number(row: Json) -> int:
    return int(row["row"])


@dataclass(frozen=True)
class ShardsJob:
    """A run of `rh score DATASET --output DIR`."""

    worker: Worker
    store: ShardStore

    name: ClassVar[str] = "score"
    """Name of the job type."""

    @classmethod
    def open(
        cls, config: ShardsConfig, settings: Settings, *, folder: Path | None = None, progress: Progress | None = None
    ) -> Self:
        """See `Job.open`. The configuration has an output folder, and there is no other one."""
        config = config.with_defaults(settings)
        assert config.output is not None and folder is None
        opened = open_reward(config, settings)
        stream = open_stream(
            config.data,
            settings,
            fields=config.field_map,
            rows=config.part_rows,
            limit=config.limit,
            progress=progress,
        )
        return cls(Worker(stream, config, settings, opened), ShardStore(config.output))

    @property
    def config(self) -> ShardsConfig:
        """The configuration."""
        return self.worker.config

    @property
    def folder(self) -> Path:
        """The output folder."""
        return self.store.folder

    @cached_property
    def manifest(self) -> Json:
        """What the results depend on, and the first row and the number of rows of each part."""
        stream, config = self.worker.stream, self.config
        options = {name: True for name in ("ties", "critique", "allow_ungradable") if getattr(config, name)}
        parts = [[part.first, part.count] for part in stream.parts]
        return {
            "data": stream.name,
            "digest": stream.digest,
            "parts": parts,
            **self.worker.identity.to_json(),
            **options,
        }

    @cached_property
    def limits(self) -> SpendingLimits:
        """The budget of this share, with prices."""
        return self.config.make_limits(self.worker.settings)

    def finished(self) -> None:
        """See `Job.finished`: complete parts are read all the same."""

    def cost(self, *, restart: bool = False, retry_failed: bool = False) -> Cost:
        """Return the expected cost of what the output folder does not hold yet, from the first rows that are left.

        Args:
            restart: Not used: an output folder cannot be started over.
            retry_failed: Judge again all rows that failed before, not only those that the model was the cause of.

        Raises:
            RunError: If the folder holds other files or another run.
        """
        self.store.check(self.manifest)
        own, parts, retry = self.plan(retry_failed=retry_failed)
        rows, done, worker = sum(part.count for part in own), self.store.done(), self.worker
        again = sum(failure is None for rows in retry.values() for failure in rows.values())
        failed = sum(done[part.number]["failed"] for part in own if part.number in done) - again
        left = sum(part.count for part in parts) + again
        examples: list[Example] = []
        if worker.opened.judge.traits.uses_model and left:
            first = next(part for part in own if part in parts or part.number in retry)
            read = worker.stream.rows(first, worker.settings)
            examples = [row.example for row in islice(read, _SAMPLE) if row.example is not None]
        usual = expected_cost(worker.opened.judge, examples, worker.opened.library).scaled(left / max(1, len(examples)))
        return replace(usual, judgments=rows, known=rows - left, again=again, failed=failed)

    def preview(self, *, restart: bool = False, retry_failed: bool = False) -> Json:
        """See `Job.preview`."""
        self.store.check(self.manifest)
        stream, (_, left, retry) = self.worker.stream, self.plan(retry_failed=retry_failed)
        cost = self.cost(retry_failed=retry_failed)
        return {
            **cost.priced(self.limits),
            "data": stream.name,
            "rows": stream.count,
            "parts": len(stream.parts),
            "rows_left": cost.judgments - cost.known,
            "parts_left": len(left) + len(retry),
            "fields": {name: list(columns) for name, columns in stream.fields.columns.items()},
            **self.worker.identity.to_json(),
        }

    def run(self, session: Session | None = None, executor: "RayExecutor | None" = None) -> Status:
        """Judge the parts that the output folder does not hold yet, and failed rows of the others again.

        Args:
            session: The session.
            executor: The cluster that judges; None for this process.

        Raises:
            RunError: If the folder holds other results, or another process judges this share.
            DataError: If a file cannot be read.
            RunPaused: If the model cannot be asked; see `Outage`.
            Stopped: If a stop was requested or the budget is spent. The same call resumes.
        """
        session = session or Session()
        self.store.begin(self.manifest)
        stop = session.stop
        with self.store.share(*self.config.share) as spent_file:
            self.store.check(self.manifest)  # another run may have begun meanwhile
            stop.begin(self.folder)
            own, parts, retry = self.plan(retry_failed=session.retry_failed)
            account = Account(self.limits, line_usage(read_json(spent_file) if spent_file.is_file() else {}))
            total, again = sum(part.count for part in own), [part for part in own if part.number in retry]
            failed = sum(failure is None for failures in retry.values() for failure in failures.values())
            try:
                for due, failures, counter in (
                    (parts, None, _Counter(session.progress, total, total - sum(part.count for part in parts))),
                    (again, retry, _Counter(session.progress, failed)),
                ):
                    if due and not stop() and not account.reason:
                        counter.add(0)
                        self._judge(due, counter, failures, stop, account, executor)
            finally:
                write_json(spent_file, usage_json(account.spent))
            if stop() or account.reason:
                raise Stopped(account.reason)
        return self.store.status()

    def plan(self, *, retry_failed: bool = False) -> tuple[list[Part], list[Part], Retry]:
        """Return the parts of this share: all, and those not judged yet; and the failed rows of the others to judge."""
        index, count = self.config.share
        own = [part for part in self.worker.stream.parts if part.number % count == index - 1]
        done = self.store.done()
        parts = [part for part in own if part.number not in done]
        retry = {}
        for part in own:
            rows = self.store.rows("failed", part.number) if part.number in done and done[part.number]["failed"] else ()
            failures = {
                _number(row): None if is_due(row["code"], retry_failed) else Failure(row["code"], row["message"])
                for row in rows
            }
            if None in failures.values():
                retry[part.number] = failures
        return own, parts, retry

    def _judge(
        self,
        parts: list[Part],
        rows: "_Counter",
        retry: Retry | None,
        stop: StopRequest,
        account: Account,
        executor: "RayExecutor | None",
    ) -> None:
        def keep(result: PartResult) -> None:
            self.store.write(result if retry is None else self._merged(result))

        if executor is None:
            work = self.worker.judge(parts, keep, rows.add, retry, stop=stop, account=account)
            run_to_end(closing(self.worker.opened.judge, work))
            return

        async def judge(part: Part) -> PartResult:
            own = None if retry is None else retry[part.number]
            return await executor.call(f"part {part.number}", judge_part, {"The judge": self.worker}, part, own)

        def on_result(key: None, part: Part, result: PartResult) -> None:
            keep(result)
            rows.add(len(result.judged) + len(result.failed))

        executor.choose_workers(2 if self.worker.opened.judge.traits.uses_model else 1, len(parts))
        at_once = _PARTS_PER_ACTOR * len(executor.places)
        run_to_end(work_each(((None, part) for part in parts), judge, on_result, concurrency=at_once, should_stop=stop))

    def _merged(self, result: PartResult) -> PartResult:
        """Return a complete part with the rows that were judged again."""
        before = tuple(self.store.rows("judged", result.number))
        judged = tuple(sorted((*before, *result.judged), key=_number))
        return replace(result, judged=judged, report=add_reports(self.store.report(result.number), result.report))


@dataclass
class _Counter:
    """Counts rows for a progress display."""

    progress: Progress
    total: int
    done: int = 0

    def add(self, rows: int = 1) -> None:
        self.done += rows
        self.progress(JUDGING, self.done, self.total)
