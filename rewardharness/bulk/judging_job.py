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
from rewardharness.judging.best_of import Method
from rewardharness.judging.config import OpenedJudge
from rewardharness.judging.evaluate import evaluate
from rewardharness.judging.identity import JudgeIdentity
from rewardharness.judging.judge import Judge, check_task
from rewardharness.judgments import result_line
from rewardharness.runs.records import Recording, record_run
from rewardharness.runs.results import Results
from rewardharness.runs.store import OUTCOME, RunFolder
from rewardharness.schema import Example, Json, Judgment
from rewardharness.settings import Settings
from rewardharness.tracking.run import RunTracking, track_run

JUDGING = "judging"
"""Activity that is reported while a job judges."""

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
        opened = config.open(settings)
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
        judge = self.judge
        if self.repeats == 1 or judge.settings is None:
            return {"": judge}
        samples = judge.settings.samples
        return {f"@{number}": judge.with_samples(samples, number * samples) for number in range(self.repeats)}

    @property
    def n_judgments(self) -> int:
        """Number of judgments that the job needs, including those of earlier sessions."""
        return len(self.judges) * sum(1 for _ in to_examples(self.dataset.examples, self.method))

    def judge_all(
        self,
        progress: Progress | None = None,
        *,
        restart: bool = False,
        arguments: Mapping[str, Any] | None = None,
        track: str | Iterable[str] | None = None,
    ) -> Results:
        """Judge what the run folder does not hold yet.

        Args:
            progress: Called first with the number of judgments of earlier sessions, and after each judgment.
            restart: Start over; earlier results are renamed.
            arguments: Arguments of the command, for the record of the run; None to write no record.
            track: Trackers that the run is logged to; None for those of the settings.

        Returns:
            The results by id.

        Raises:
            RunError: If the folder holds another run.
            InputError: If a tracker is unknown.
            MissingPackageError: If the package of a tracker is not installed.
        """
        with track_run(track, self.settings) as tracking:
            results = self._judge_all(tracking, progress, restart, self._record(arguments))
            if tracking.active:
                tracking.finish(self.numbers(results))
        return results

    def numbers(self, results: Results) -> dict[str, float]:
        """Return the result of the run for trackers."""
        return {}

    def _judge_all(
        self, tracking: RunTracking, progress: Progress | None, restart: bool, record: Recording | None
    ) -> Results:
        examples = list(to_examples(self.dataset.examples, self.method))
        with RunFolder(self.folder, self.manifest, restart=restart, record=record, on_result=tracking.result) as run:
            known = run.results()
            tracking.begin(run.path, self.manifest, self.config, known.values())
            left = {tag: [each for each in examples if each.id + tag not in known] for tag in self.judges}
            total = len(self.judges) * len(examples)
            done = total - sum(map(len, left.values()))

            def keep(tag: str, example: Example, judgment: Judgment) -> None:
                nonlocal done
                done += 1
                line = known[example.id + tag] = {**result_line(judgment), "id": example.id + tag}
                run.append(line)
                report(JUDGING, done, total)

            report = progress or (lambda activity, done, total: None)
            report(JUDGING, done, total)
            for tag, judge in self.judges.items():
                concurrency = self.config.concurrency or judge.concurrency
                library, on_judgment = self.opened.library, partial(keep, tag)
                evaluate(judge, library, left[tag], concurrency=concurrency, on_judgment=on_judgment)
            return known

    def save_outcome(self, outcome: Mapping[str, Any]) -> None:
        """Write the decisions, without the numbers of judgments, for replays."""
        write_json(self.folder / OUTCOME, outcome)

    def _record(self, arguments: Mapping[str, Any] | None) -> Recording | None:
        if arguments is None:
            return None
        how = asdict(self.judge.settings) if self.judge.settings else None
        skipped = self.dataset.skipped_json()
        return record_run(arguments, self.settings, config=self.config, how=how, skipped_rows=skipped)


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
