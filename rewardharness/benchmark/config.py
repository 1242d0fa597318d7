"""Configuration of a benchmark."""

from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import ClassVar

from rewardharness.codec import READS, SENDS, TEXT, WRITES
from rewardharness.errors import InputError
from rewardharness.judging.config import JudgeConfig, ReleaseConfig
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
    baselines: tuple[str, ...] = field(default=(), metadata=SENDS)
    """Further judges, separated by commas, such as random,always-a,closer,farther,ssim or vllm:NAME@URL; +evidence is
    the judge with measured evidence. They get the same Library. May be repeated."""
    judges: tuple[str, ...] = field(default=(), metadata=SENDS)
    """All judges, separated by commas: short for the first as --judge and the others as --baselines, as in
    --judges vllm:NAME@URL,vllm:NAME@URL+evidence."""
    development: str | None = field(default=None, metadata=READS)
    """Labeled data (a task or data) on which tie thresholds are fitted."""
    calibrate: Path | None = field(default=None, metadata=WRITES)
    """Fit the confidence of the first judge on these labels, and write its calibration into this file."""
    for_library: Path | None = field(default=None, metadata=WRITES)
    """Write the results into this Library folder, for its card."""
    concurrency: int | None = None
    """Examples judged at the same time."""

    ranges: ClassVar = {**JudgeConfig.ranges, "limit": Range(1), "concurrency": Range(1)}

    def __post_init__(self) -> None:
        if self.judges:
            if self.judge is not None:
                raise InputError("--judges names all judges, also the first.", next_step="Leave out --judge.")
            named = split_judges(self.judges)
            object.__setattr__(self, "judge", named[0] if named else None)
            object.__setattr__(self, "baselines", (*named[1:], *self.baselines))
            object.__setattr__(self, "judges", ())
        super().__post_init__()

    @property
    def baseline_judges(self) -> list[str]:
        """The further judges."""
        return split_judges(self.baselines)


def split_judges(texts: Iterable[str]) -> list[str]:
    """Split lists of judges at their commas, but neither a list of addresses nor the path of a file."""
    found: list[str] = []
    for text in texts:
        start = len(found)
        for part in [text] if text.startswith("file:") else text.split(","):
            if part.startswith(("http://", "https://")) and len(found) > start:
                found[-1] += f",{part.strip()}"
            elif part.strip():
                found.append(part.strip())
    return found
