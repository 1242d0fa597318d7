"""What the jobs share that judge a known number of examples into a run folder."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar, Generic, TypeVar

from rewardharness.judging.batches import Batch, judge_batches
from rewardharness.judging.evaluate import Executor
from rewardharness.runs.job import Session, default_folder
from rewardharness.runs.records import record_run
from rewardharness.runs.results import Results
from rewardharness.runs.spending import Cost, SpendingLimits
from rewardharness.runs.store import RunFolder, results_of
from rewardharness.schema import Json, Usage
from rewardharness.settings import Settings
from rewardharness.tracking.run import RunTracking, track_run

R = TypeVar("R")
JudgeBatches = Callable[[Sequence[Batch], Session], Results]


class JudgingJob(ABC, Generic[R]):
    """A job that judges a known number of examples into a run folder; see `runs.job.Job`."""

    settings: Settings
    config: Any
    chosen_folder: Path | None
    """The run folder; None for one that follows from the manifest."""

    name: ClassVar[str]
    """Name of the job type."""

    @property
    @abstractmethod
    def manifest(self) -> Json:
        """What must stay the same when a run is resumed."""

    @property
    @abstractmethod
    def batches(self) -> Sequence[Batch]:
        """What is judged."""

    @abstractmethod
    def conclude(self, results: Results) -> R:
        """Make the result of the run from its judgments."""

    def numbers(self, result: R) -> Mapping[str, float]:
        """Return the result of the run for trackers."""
        return {}

    @property
    def tracked(self) -> Json:
        """The manifest for trackers."""
        return self.manifest

    @property
    def resolved(self) -> Json:
        """Values for the record of a run that do not follow from its configuration."""
        return {}

    @cached_property
    def folder(self) -> Path:
        """The run folder; it may hold a run that is resumed."""
        return self.chosen_folder or default_folder(self.name, self.manifest, self.settings)

    @cached_property
    def limits(self) -> SpendingLimits:
        """The budget of the run, with prices."""
        limits: SpendingLimits = self.config.make_limits(self.settings) if self.config else SpendingLimits()
        return limits

    def finished(self) -> R | None:
        """See `Job.finished`."""
        return None

    def cost(self, *, restart: bool = False, retry_failed: bool = False) -> Cost:
        """Return the expected cost of what the run folder does not hold yet."""
        known = Results() if restart else results_of(self.folder)
        return sum((batch.cost(known, retry_failed) for batch in self.batches), Cost())

    def run(self, session: Session | None = None, executor: Executor | None = None) -> R:
        """See `Job.run`."""
        session = session or Session()
        with track_run(session.track, self.settings) as tracking:
            results = self.judge_all(session, executor, tracking)
            result = self.conclude(results)
            if tracking.active:
                tracking.finish(self.numbers(result))
        return result

    def judge_all(
        self, session: Session, executor: Executor | None, tracking: RunTracking, spent: Usage | None = None
    ) -> Results:
        """Judge what the run folder does not hold yet.

        Args:
            session: How the session works.
            executor: What judges; None for this process.
            tracking: The trackers of the run.
            spent: What the run has spent in another folder, of which this one is a part; None if it is none.
        """
        main = spent is None
        options: dict[str, Any] = {"restart": session.restart, "on_result": tracking.result}
        if main:
            options["stop"] = session.stop
        if main and session.arguments is not None:
            options["record"] = record_run(session.arguments, self.settings, config=self.config, **self.resolved)
        with RunFolder(self.folder, self.manifest, **options) as run:
            if main:
                known = run.results().values() if tracking.active else ()
                tracking.begin(run.path, self.tracked, self.config, known)
            self.prepare(run)
            return self.judge_in(run, session, partial(self._judge, run, executor, spent))

    def prepare(self, run: RunFolder) -> None:
        """Write what else the run folder holds, before anything is judged."""

    def judge_in(self, run: RunFolder, session: Session, judge: JudgeBatches) -> Results:
        """Judge all batches, or choose them from earlier results.

        Args:
            run: The run folder, open.
            session: How the session works.
            judge: Judges what the run folder does not hold yet of batches, and returns all results.
        """
        return judge(self.batches, session)

    def _judge(
        self,
        run: RunFolder,
        executor: Executor | None,
        spent: Usage | None,
        batches: Sequence[Batch],
        session: Session,
    ) -> Results:
        return judge_batches(
            run,
            batches,
            progress=session.progress,
            stop=session.stop,
            limits=self.limits,
            spent=spent or Usage(),
            retry_failed=session.retry_failed,
            executor=executor,
        )
