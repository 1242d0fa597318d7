"""Configuration of a benchmark."""

from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import ClassVar

from rewardharness.judging.config import JudgeConfig, ReleaseConfig


@dataclass(frozen=True)
class TaskConfig:
    """Task of a benchmark."""

    task: str
    """Task (see rh benchmark list), task file (.yaml), or labeled data: a folder, a table or org/name on the Hub."""


@dataclass(frozen=True)
class BenchmarkConfig(ReleaseConfig, TaskConfig):
    """Configuration of a benchmark: task, judge, and the other rows of the table."""

    _: KW_ONLY
    source: Path | None = None
    """Local copy of its data: a table or a folder."""
    revision: str = ""
    """Revision of the data instead of the pinned one."""
    task_protocol: str | None = None
    """What one example is: pairs, ranking, both-orders, pointwise (default: the task's first)."""
    limit: int | None = None
    """Size of a stratified sample in pairs or whole groups."""
    seed: int = 0
    """Seed of the sample."""
    skip_bad_rows: bool = False
    """Skip rows that cannot be used; they are listed and count as not judged."""
    no_baseline: bool = False
    """Leave out the row of the same model without a Library."""
    baselines: tuple[str, ...] = ()
    """Further judges, separated by commas, such as random,always-a,closer,farther,ssim; one with a colon stands alone,
    as in --baselines vllm:NAME@URL. They get the same Library. May be repeated."""
    development: str | None = None
    """Labeled data (a task or data) on which tie thresholds are fitted."""
    for_library: Path | None = None
    """Write the results into this Library folder, for its card."""
    concurrency: int | None = None
    """Examples judged at the same time."""

    lowest: ClassVar = {**JudgeConfig.lowest, "limit": 1, "concurrency": 1}

    @property
    def baseline_judges(self) -> list[str]:
        """The further judges; an address may contain commas."""
        parts = [part for text in self.baselines for part in ([text] if ":" in text else text.split(","))]
        return [part.strip() for part in parts if part.strip()]
