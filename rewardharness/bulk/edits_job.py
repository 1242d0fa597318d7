"""What the jobs that judge many edits share: opening data, judge and Library, and what is judged."""

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Self, TypeVar

from rewardharness.bulk.config import ExamplesConfig
from rewardharness.bulk.samples import one_edit, read_samples
from rewardharness.data.opening import open_data
from rewardharness.data.source import Dataset
from rewardharness.errors import InputError
from rewardharness.files import write_json
from rewardharness.judging.batches import Batch, JudgingJob
from rewardharness.judging.interface import check_task
from rewardharness.judging.judge import Judge
from rewardharness.judging.opening import OpenedJudge, open_reward
from rewardharness.judging.ranking import CandidateReward, CandidateSet, Method, candidate_rewards, examples_of
from rewardharness.judging.subagent import model_judge
from rewardharness.judgments import judgment_from_json
from rewardharness.runs.job import Progress
from rewardharness.runs.store import OUTCOME
from rewardharness.schema import Example, Json
from rewardharness.settings import Settings


def to_examples(edits: Iterable[Example], method: Method | None) -> Iterator[Example]:
    """Return the examples to judge.

    Args:
        edits: The edits, with any number of candidates.
        method: How candidates are compared; None to judge each edit unchanged.
    """
    return iter(edits) if method is None else (item for edit in edits for item in examples_of(_set(edit), method))


def all_rewards(
    edits: Iterable[Example], method: Method, results: Mapping[str, Mapping[str, Any]], *, tag: str = ""
) -> Iterator[tuple[Example, tuple[CandidateReward, ...]]]:
    """Return every edit with the rewards of its candidates.

    Args:
        edits: The edits.
        method: How candidates were compared.
        results: Results of the run by id.
        tag: Suffix of the ids, which distinguishes repeated judgments.
    """
    for edit in edits:
        candidates = _set(edit)
        lines = {item.id: results.get(item.id + tag) for item in examples_of(candidates, method)}
        judged = {name: judgment_from_json(line, steps=False) for name, line in lines.items() if line is not None}
        yield edit, candidate_rewards(candidates, method, judged)


def _set(edit: Example) -> CandidateSet:
    return CandidateSet(edit.id, edit.instruction, edit.source_image, edit.candidate_images, edit.references)


R = TypeVar("R")


@dataclass(frozen=True)
class EditsJob(JudgingJob[R]):
    """A job that judges the edits of a dataset into a run folder."""

    config: Any
    """The configuration, a kind of `ExamplesConfig`."""
    settings: Settings
    dataset: Dataset
    """The edits, with any number of candidates."""
    opened: OpenedJudge
    chosen_folder: Path | None = None
    counts: Mapping[str, int] = field(default_factory=dict)
    """Numbers of rows and candidates that are left out, by reason."""

    @classmethod
    def open(
        cls, config: Any, settings: Settings, *, folder: Path | None = None, progress: Progress | None = None
    ) -> Self:
        """See `Job.open`."""
        config = config.with_defaults(settings)
        cls.check(config)
        opened = open_reward(config, settings)
        dataset, counts = cls.read(config, settings, progress)
        check_task(dataset.task, opened.judge, opened.library)
        return cls(config, settings, dataset, opened, folder, counts)

    @classmethod
    def check(cls, config: Any) -> None:
        """Check options and output before anything is opened."""

    @classmethod
    @abstractmethod
    def read(cls, config: Any, settings: Settings, progress: Progress | None) -> tuple[Dataset, dict[str, int]]:
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
    def judge(self) -> Judge:
        """The judge."""
        return self.opened.judge

    @cached_property
    def manifest(self) -> Json:
        """What must stay the same when a run is resumed."""
        return {
            "command": self.name,
            "data": self.dataset.digest,
            **self.opened.identity.to_json(),
            **({"allow_ungradable": True} if self.config.allow_ungradable else {}),
            **self.details,
        }

    @cached_property
    def judges(self) -> Mapping[str, Judge]:
        """The judge of each repeat, by the suffix of its result ids. A judge without a model is asked once."""
        judge, repeats = model_judge(self.judge), getattr(self.config, "repeats", 1)
        if repeats == 1 or judge is None:
            return {"": self.judge}
        samples = judge.settings.samples
        return {f"@{number}": judge.with_samples(samples, number * samples) for number in range(repeats)}

    @cached_property
    def batches(self) -> list[Batch]:
        """What is judged."""
        examples = list(to_examples(self.dataset.examples, self.method))
        library, at_once = self.opened.library, self.config.concurrency or 0
        return [
            Batch(judge, library, examples, partial(_line, tag), concurrency=at_once)
            for tag, judge in self.judges.items()
        ]

    @property
    def resolved(self) -> Json:
        """The settings of a model judge, and the skipped rows."""
        settings = asdict(judge.settings) if (judge := model_judge(self.judge)) else None
        return {"how": settings, "skipped_rows": self.dataset.skipped_json()}

    def preview(self, *, restart: bool = False, retry_failed: bool = False) -> Json:
        """See `Job.preview`."""
        cost = self.cost(restart=restart, retry_failed=retry_failed)
        return {"folder": str(self.folder), "data": self.dataset.name, **cost.priced(self.limits)}

    def save_outcome(self, outcome: Mapping[str, Any]) -> None:
        """Write the decisions, without the numbers of judgments, for replays."""
        write_json(self.folder / OUTCOME, outcome)


def _line(tag: str, name: str) -> Json:
    return {"id": name + tag}


def read_examples(config: ExamplesConfig, settings: Settings, progress: Progress | None) -> Dataset:
    """Read labeled or unlabeled examples.

    Raises:
        DataError: If the data cannot be read.
    """
    return open_data(
        config.data, settings, fields=config.field_map, progress=progress, skip_bad_rows=config.skip_bad_rows
    ).first(config.limit)


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
