"""Configuration of a benchmark."""

from dataclasses import KW_ONLY, dataclass, field, fields
from pathlib import Path
from typing import ClassVar

from rewardharness.codec import READS, SENDS, TEXT, WRITES
from rewardharness.errors import InputError
from rewardharness.judging.config import JudgeConfig, ReleaseConfig, split_judges
from rewardharness.ranges import Range
from rewardharness.runs.spending import BudgetConfig


@dataclass(frozen=True)
class TaskConfig:
    """Task of a benchmark."""

    task: str = field(metadata=READS)
    """Task (see rh benchmark list), task file (.yaml), or labeled data: a folder, a table or org/name on the Hub."""


@dataclass(frozen=True)
class BenchmarkConfig(BudgetConfig, ReleaseConfig, TaskConfig):
    """Configuration of a benchmark: task, judge, and the other rows of the table."""

    _: KW_ONLY
    source: Path | None = field(default=None, metadata=READS)
    """Local copy of its data: a table or a folder."""
    revision: str = field(default="", metadata=TEXT)
    """Revision of the data instead of the pinned one."""
    task_protocol: str | None = field(default=None, metadata=TEXT)
    """What one example is: pairs, ranking, both-orders, pointwise (default: the task's first)."""
    limit: int | None = None
    """Size of a stratified sample in pairs or whole groups; of attacks in edits."""
    seed: int = 0
    """Seed of the sample."""
    skip_bad_rows: bool = False
    """Skip rows that cannot be used; they are listed and count as not judged."""
    no_baseline: bool = False
    """Leave out the row of the same model without a Library."""
    transfer: bool = False
    """Judge with each of the judges without the Library, too, for a table of its gain per judge."""
    baselines: tuple[str, ...] = field(default=(), metadata=SENDS)
    """Further judges, separated by commas, such as random,always-a,closer,farther,ssim or vllm:NAME@URL; +samples=4 is
    the judge with this option. They get the same Library. May be repeated."""
    judges: tuple[str, ...] = field(default=(), metadata=SENDS)
    """All judges, separated by commas, or a YAML or JSON file that lists them under judges: short for the first as
    --judge and the others as --baselines, as in --judges vllm:NAME@URL,vllm:NAME@URL+evidence."""
    attacks: int | None = None
    """Judge this many generated edits against all exploits, too, for the exploit rate beside the accuracy."""
    development: str | None = field(default=None, metadata=READS)
    """Labeled data (a task or data) on which tie thresholds are fitted."""
    calibrate: Path | None = field(default=None, metadata=WRITES)
    """Fit the confidence of the first judge on these labels, and write its calibration into this file."""
    for_library: Path | None = field(default=None, metadata=WRITES)
    """Write the results into this Library folder, for its card."""
    concurrency: int | None = None
    """Examples judged at the same time."""

    ranges: ClassVar = {**JudgeConfig.ranges, "limit": Range(1), "attacks": Range(1), "concurrency": Range(1)}
    one_judge: ClassVar = False

    def __post_init__(self) -> None:
        if self.judges:
            if self.judge is not None:
                raise InputError("--judges names all judges, also the first.", next_step="Leave out --judge.")
            named = split_judges(self.judges)
            object.__setattr__(self, "judge", named[0] if named else None)
            object.__setattr__(self, "baselines", (*named[1:], *self.baselines))
            object.__setattr__(self, "judges", ())
        if self.transfer and self.no_baseline:
            message = "--transfer compares with no Library, and --no-baseline leaves these rows out."
            raise InputError(message, next_step="Leave out one of them.")
        super().__post_init__()

    @property
    def baseline_judges(self) -> list[str]:
        """The further judges."""
        return split_judges(self.baselines)

    def for_judge(self, judge: str | None) -> ReleaseConfig:
        """Return the configuration of one judge, with the options that follow it."""
        shared = {field.name: getattr(self, field.name) for field in fields(ReleaseConfig)}
        return ReleaseConfig(**{**shared, "judge": judge})
