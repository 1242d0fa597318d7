"""What the jobs that judge many edits share: opening judge and Library, the run folder, judging and resuming."""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any, ClassVar, Generic, Self, TypeVar

from rewardharness.bulk.config import ExamplesConfig
from rewardharness.bulk.samples import one_edit, read_samples
from rewardharness.bulk.scoring import to_examples
from rewardharness.data.opening import Progress
from rewardharness.data.source import Dataset
from rewardharness.errors import InputError
from rewardharness.files import content_id, write_json
from rewardharness.judging.batches import Batch, judge_batches
from rewardharness.judging.best_of import Method
from rewardharness.judging.identity import JudgeIdentity
from rewardharness.judging.interface import check_task
from rewardharness.judging.judge import Judge
from rewardharness.judging.release_opening import OpenedJudge, open_reward
from rewardharness.judging.subagent import model_judge
from rewardharness.runs.records import Recording, record_run
from rewardharness.runs.results import Results
from rewardharness.runs.spending import Cost, SpendingLimits
from rewardharness.runs.stop import StopRequest
from rewardharness.runs.store import OUTCOME, RunFolder, results_of
from rewardharness.schema import Json
from rewardharness.settings import Settings
from rewardharness.tracking.run import track_run

C = TypeVar("C", bound=ExamplesConfig)


@dataclass(frozen=True)
class JudgingJob(ABC, Generic[C]):
    """A job that judges the edits of a dataset into a run folder."""

    config: C
    settings: Settings
    dataset: Dataset
    """The edits, with any number of candidates."""
    opened: OpenedJudge
    chosen_folder: Path | None = None
    """The run folder; None for one that follows from the manifest."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """Numbers of rows and candidates that are left out, by reason."""

    command: ClassVar[str]
    """Name of the job type."""
    folder_prefix: ClassVar[str] = ""
    """Start of the name of a run folder; empty for the command."""

    @classmethod
    def open(
        cls, config: C, settings: Settings, *, folder: Path | None = None, progress: Progress | None = None
    ) -> Self:
        """Open data, judge and Library of a configuration. Nothing is judged.

        Args:
            config: The configuration.
            settings: Keys, and the default judge and Library.
            folder: The run folder; None for one below `RH_HOME/runs` that follows from the configuration.
            progress: Called while the data are opened.

        Raises:
            InputError: If an option is wrong, a key is missing, or judge or Library are for another task than the data.
            DataError: If the data cannot be read.
            LibraryError: If the Library cannot be opened.
        """
        config = config.with_defaults(settings)
        cls.check(config)
        opened = open_reward(config, settings)
        dataset, counts = cls.read(config, settings, progress)
        check_task(dataset.task, opened.judge, opened.library)
        return cls(config, settings, dataset, opened, folder, counts)

    @classmethod
    def check(cls, config: C) -> None:
        """Check options and output before anything is opened."""

    @classmethod
    @abstractmethod
    def read(cls, config: C, settings: Settings, progress: Progress | None) -> tuple[Dataset, dict[str, int]]:
        """Read the edits; return them, and the numbers of rows and candidates that are left out."""

    @property
    def method(self) -> Method | None:
        """How the candidates of an edit are compared; None to judge each example unchanged."""
        return None

    @property
    def details(self) -> Json:
        """Further fields of the manifest: what else distinguishes runs of this job."""
        return {}

    @property
    def repeats(self) -> int:
        """Judgments of each candidate."""
        return 1

    @property
    def judge(self) -> Judge:
        """The judge."""
        return self.opened.judge

    @cached_property
    def identity(self) -> JudgeIdentity:
        """Judge, revision, protocol, Library and release."""
        judge, library, release = self.opened
        return JudgeIdentity.of(judge, library, release.id if release else None)

    @cached_property
    def manifest(self) -> Json:
        """Configuration that must not change when a run is resumed."""
        return {
            "command": self.command,
            "data": self.dataset.digest,
            **self.identity.to_json(),
            **({"allow_ungradable": True} if self.config.allow_ungradable else {}),
            **self.details,
        }

    @property
    def folder(self) -> Path:
        """The run folder; it may hold a run that is resumed."""
        prefix = self.folder_prefix or self.command
        return self.chosen_folder or self.settings.home / "runs" / f"{prefix}-{content_id(self.manifest)[:12]}"

    @cached_property
    def judges(self) -> Mapping[str, Judge]:
        """The judge of each repeat, by the suffix of its result ids. A judge without a model is asked once."""
        judge = model_judge(self.judge)
        if self.repeats == 1 or judge is None:
            return {"": self.judge}
        samples = judge.settings.samples
        return {f"@{number}": judge.with_samples(samples, number * samples) for number in range(self.repeats)}

    @cached_property
    def limits(self) -> SpendingLimits:
        """The budget of the run, with prices."""
        return self.config.make_limits(self.settings)

    @cached_property
    def batches(self) -> list[Batch]:
        """What is judged."""
        examples = list(to_examples(self.dataset.examples, self.method))
        library, at_once = self.opened.library, self.config.concurrency or 0
        return [
            Batch(judge, library, examples, partial(_line, tag), concurrency=at_once)
            for tag, judge in self.judges.items()
        ]

    def cost(self, *, restart: bool = False, retry_failed: bool = False) -> Cost:
        """Return the expected cost of what the run folder does not hold yet."""
        known = Results() if restart else results_of(self.folder)
        return sum((batch.cost(known, retry_failed) for batch in self.batches), Cost())

    def judge_all(
        self,
        progress: Progress | None = None,
        *,
        stop: StopRequest | None = None,
        restart: bool = False,
        retry_failed: bool = False,
        arguments: Mapping[str, Any] | None = None,
        track: str | Iterable[str] | None = None,
    ) -> Results:
        """Judge what the run folder does not hold yet.

        Args:
            progress: Called first with the number of judgments of earlier sessions, and after each judgment.
            stop: Ends the run when asked; None to look only at the stop file of the run folder.
            restart: Start over; earlier results are renamed.
            retry_failed: Judge again all that failed before, not only what the model was the cause of.
            arguments: Arguments of the command, for the record of the run; None to write no record.
            track: Trackers that the run is logged to; None for those of the settings.

        Returns:
            The results by id.

        Raises:
            RunError: If the folder holds another run.
            InputError: If a tracker is unknown.
            MissingPackageError: If the package of a tracker is not installed.
            RunPaused: If the model cannot be asked. The same call resumes the run.
            Stopped: If a stop was requested or the budget is spent. The same call resumes the run.
        """
        stop = stop or StopRequest()
        with track_run(track, self.settings) as tracking:
            record, count = self._record(arguments), tracking.result
            with RunFolder(
                self.folder, self.manifest, restart=restart, record=record, on_result=count, stop=stop
            ) as run:
                tracking.begin(run.path, self.manifest, self.config, run.results().values() if tracking.active else ())
                results = judge_batches(
                    run, self.batches, progress=progress, stop=stop, limits=self.limits, retry_failed=retry_failed
                )
            if tracking.active:
                tracking.finish(self.numbers(results))
        return results

    def numbers(self, results: Results) -> dict[str, float]:
        """Return the result of the run for trackers."""
        return {}

    def save_outcome(self, outcome: Mapping[str, Any]) -> None:
        """Write the decisions, without the numbers of judgments, for replays."""
        write_json(self.folder / OUTCOME, outcome)

    def _record(self, arguments: Mapping[str, Any] | None) -> Recording | None:
        if arguments is None:
            return None
        how = asdict(judge.settings) if (judge := model_judge(self.judge)) else None
        skipped = self.dataset.skipped_json()
        return record_run(arguments, self.settings, config=self.config, how=how, skipped_rows=skipped)


def _line(tag: str, name: str) -> Json:
    return {"id": name + tag}


def read_edits(config: ExamplesConfig, settings: Settings, progress: Progress | None) -> Dataset:
    """Read edits with any number of candidates each.

    Raises:
        InputError: If only one of source and instruction is set.
        DataError: If the data cannot be read.
    """
    source, instruction = getattr(config, "source", None), getattr(config, "instruction", None)
    references: tuple[Path, ...] = getattr(config, "reference", ())
    if source is not None and instruction is not None:
        return one_edit(Path(config.data), source, instruction, references)
    if source is not None or instruction is not None or references:
        raise InputError("--source and --instruction belong together.", next_step="Give both, or neither.")
    return read_samples(
        config.data, settings, config.field_map, progress=progress, skip_bad_rows=config.skip_bad_rows
    ).first(config.limit)
