"""Judging of datasets of any size into an output folder, in this process or on a Ray cluster.

A part is the unit of work: its rows are read one by one, judged concurrently, and written together. Several parts are
in progress, so that the judge never waits for the last rows of one. Memory holds the rows in progress and the numbers
of the parts in progress, whatever the size of the data.
"""

import threading
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Self, cast

from rewardharness.bulk.config import ShardsConfig
from rewardharness.bulk.shards import PartResult, ShardStore, Status, judged_row
from rewardharness.bulk.stream import Part, Row, Stream
from rewardharness.bulk.stream_opening import open_stream
from rewardharness.data.opening import Progress
from rewardharness.judging.config import OpenedJudge
from rewardharness.judging.evaluate import judge_each, run_to_end
from rewardharness.judging.identity import JudgeIdentity
from rewardharness.judging.report import BAD_ROW, add_reports, make_report
from rewardharness.models.base import ErrorCode, ModelError
from rewardharness.schema import Example, Json, Judgment, Report
from rewardharness.settings import Settings

JUDGING = "judging"
"""Activity that is reported while a run judges."""

OUTAGE = 40
"""Rows in succession that could not be judged because the model cannot be asked, after which a run stops."""

_UNASKED: frozenset[str] = frozenset({"unreachable", "unauthorized", "model_not_found", "not_public"})
"""Codes of failures that concern the model, not the row."""

Retry = Mapping[int, frozenset[int]]
"""Rows that are judged again, by number of their part."""


@dataclass(frozen=True)
class Worker:
    """Judges parts: the same in this process and in an actor of a cluster."""

    stream: Stream
    config: ShardsConfig
    settings: Settings
    opened: OpenedJudge

    @property
    def concurrency(self) -> int:
        """Rows that are judged at the same time."""
        return self.config.concurrency or self.opened.judge.concurrency

    async def judge(
        self,
        parts: Iterable[Part],
        on_result: Callable[[PartResult], None],
        on_row: Callable[[], object] = bool,
        retry: Retry | None = None,
    ) -> None:
        """Judge the rows of parts. An error of one row does not affect the others.

        Args:
            parts: The parts; read lazily.
            on_result: Called with each complete part.
            on_row: Called after each row.
            retry: Rows to judge; None for all. The results of a part have these rows only.

        Raises:
            DataError: If a file cannot be read, or changed.
            ModelError: If the model could not be asked about `OUTAGE` rows in succession.
        """
        outage = _Outage()
        collecting: dict[int, _Collected] = {}
        lock = threading.Lock()  # rows are read in another thread than they are judged

        def finish(part: _Collected) -> None:
            with lock:
                if not part.complete or collecting.pop(part.number, None) is None:
                    return
            on_result(part.result())

        def rows() -> Iterator[tuple[tuple[_Collected, Row], Example]]:
            for part in parts:
                wanted = None if retry is None else retry[part.number]
                collected = collecting[part.number] = _Collected(part.number)
                for row in self.stream.rows(part, self.settings):
                    if wanted is not None and row.number not in wanted:
                        continue
                    with lock:
                        if row.example is None:
                            collected.refuse(row)
                            on_row()
                            continue
                        collected.waiting += 1
                    yield (collected, row), row.example
                with lock:
                    collected.read = True
                finish(collected)

        def keep(key: tuple[_Collected, Row], example: Example, judgment: Judgment) -> None:
            collected, row = key
            outage.watch(judgment)
            with lock:
                collected.add(row, example, judgment)
                on_row()
            finish(collected)

        judge, library, _ = self.opened
        await judge_each(judge, library, rows(), keep, concurrency=self.concurrency, blocking=True)


class _Outage:
    """Stops a run that would only collect failures, because the model cannot be asked."""

    def __init__(self) -> None:
        self._rows = 0

    def watch(self, judgment: Judgment) -> None:
        """Count a judgment.

        Raises:
            ModelError: If it is the last of too many.
        """
        failure = judgment.failure
        self._rows = self._rows + 1 if failure is not None and failure.code in _UNASKED else 0
        if failure is not None and self._rows >= OUTAGE:
            message = f"The model could not be asked about {OUTAGE} rows in succession. {failure.message}"
            step = "Correct this, and repeat the command with --retry-failed: what was judged is kept."
            raise ModelError(cast("ErrorCode", failure.code), message, next_step=step)


@dataclass
class _Collected:
    """The results of a part in progress."""

    number: int
    waiting: int = 0
    read: bool = False
    judged: list[Json] = field(default_factory=list)
    failed: list[Json] = field(default_factory=list)
    report: Report = field(default_factory=lambda: make_report([]))
    failed_report: Report = field(default_factory=lambda: make_report([]))

    @property
    def complete(self) -> bool:
        return self.read and not self.waiting

    def add(self, row: Row, example: Example, judgment: Judgment) -> None:
        self.waiting -= 1
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

    @classmethod
    def open(cls, config: ShardsConfig, settings: Settings, *, progress: Progress | None = None) -> Self:
        """Open data, judge and Library of a configuration. Nothing is judged.

        Args:
            config: The configuration, with an output folder.
            settings: Keys, and the default judge and Library.
            progress: Called while the data are opened.

        Raises:
            InputError: If an option is wrong or a key is missing.
            DataError: If the data cannot be read.
            LibraryError: If the Library cannot be opened.
        """
        config = config.with_defaults(settings)
        assert config.output is not None
        opened = config.open(settings)
        stream = open_stream(
            config.data,
            settings,
            fields=config.field_map,
            rows=config.part_rows,
            limit=config.limit,
            progress=progress,
        )
        return cls(Worker(stream, config, settings, opened), ShardStore(config.output))

    @cached_property
    def identity(self) -> JudgeIdentity:
        """Judge, revision, protocol, Library and release."""
        judge, library, release = self.worker.opened
        return JudgeIdentity.of(judge, library, release.id if release else None)

    @cached_property
    def manifest(self) -> Json:
        """What the results depend on, and the first row and the number of rows of each part."""
        stream, config = self.worker.stream, self.worker.config
        options = {name: True for name in ("ties", "critique", "allow_ungradable") if getattr(config, name)}
        parts = [[part.first, part.count] for part in stream.parts]
        return {"data": stream.name, "digest": stream.digest, "parts": parts, **self.identity.to_json(), **options}

    def run(self, progress: Progress | None = None, *, retry_failed: bool = False) -> Status:
        """Judge the parts that the output folder does not hold yet.

        Args:
            progress: Called with the number of rows that are done and of all rows of this share.
            retry_failed: Judge rows that failed before again, too.

        Raises:
            RunError: If the folder holds other results, or another process judges this share.
            DataError: If a file cannot be read.
            ModelError: If the model cannot be asked, see `OUTAGE`.
        """
        self.store.begin(self.manifest)
        with self.store.share(*self.worker.config.share):
            self.store.check(self.manifest)  # another run may have begun meanwhile
            own, parts, again = self.plan(retry_failed=retry_failed)
            self._judge(parts, _Counter(progress, sum(part.count for part in own), parts), None)
            if again:
                self._retry(again, progress)
        return self.store.status()

    def plan(self, *, retry_failed: bool = False) -> tuple[list[Part], list[Part], list[Part]]:
        """Return the parts of this share: all, those not judged yet, and those with failed rows to judge again."""
        index, count = self.worker.config.share
        own = [part for part in self.worker.stream.parts if part.number % count == index - 1]
        done = self.store.done()
        parts = [part for part in own if part.number not in done]
        again = [part for part in own if part.number in done and done[part.number]["failed"]]
        return own, parts, again if retry_failed else []

    def _retry(self, parts: list[Part], progress: Progress | None) -> None:
        """Judge the failed rows of complete parts again."""
        retry = {part.number: frozenset(map(_number, self.store.rows("failed", part.number))) for part in parts}
        self._judge(parts, _Counter(progress, sum(map(len, retry.values())), None), retry)

    def _judge(self, parts: list[Part], rows: "_Counter", retry: Retry | None) -> None:
        if not parts:
            return

        def keep(result: PartResult) -> None:
            self.store.write(result if retry is None else self._merged(result))

        if self.worker.config.engine == "ray":
            from rewardharness.bulk.ray_engine import judge_on_ray

            judge_on_ray(self.worker, parts, keep, rows.add, retry)
            return
        run_to_end(_closing(self.worker, self.worker.judge(parts, keep, rows.add, retry)))

    def _merged(self, result: PartResult) -> PartResult:
        """Return a complete part with the rows that were judged again."""
        before = tuple(self.store.rows("judged", result.number))
        judged = tuple(sorted((*before, *result.judged), key=_number))
        return replace(result, judged=judged, report=add_reports(self.store.report(result.number), result.report))


async def _closing(worker: Worker, work: Coroutine[Any, Any, None]) -> None:
    try:
        await work
    finally:
        await worker.opened.judge.close()


class _Counter:
    """Counts rows for a progress display."""

    def __init__(self, progress: Progress | None, total: int, left: list[Part] | None) -> None:
        self._progress = progress or (lambda activity, done, total: None)
        self._total = total
        self._done = 0 if left is None else total - sum(part.count for part in left)
        self._progress(JUDGING, self._done, total)

    def add(self, rows: int = 1) -> None:
        self._done += rows
        self._progress(JUDGING, self._done, self._total)
