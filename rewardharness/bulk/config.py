"""Configurations of the jobs that judge many edits."""

import re
from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import ClassVar, Literal

from rewardharness.codec import READS, SENDS, TEXT, WRITES
from rewardharness.data.config import DataConfig
from rewardharness.errors import InputError
from rewardharness.judging.config import JudgeConfig, RewardConfig
from rewardharness.ranges import SHARE, Range
from rewardharness.runs.spending import BudgetConfig


@dataclass(frozen=True)
class ExamplesConfig(BudgetConfig, RewardConfig, DataConfig):
    """Configuration of a job that judges examples."""

    _: KW_ONLY
    limit: int | None = None
    """Judge the first examples only."""
    concurrency: int | None = None
    """Examples judged at the same time."""

    ranges: ClassVar = {**JudgeConfig.ranges, "limit": Range(1), "concurrency": Range(1)}


@dataclass(frozen=True)
class ScoreConfig(ExamplesConfig):
    """Configuration of judging labeled or unlabeled examples."""

    _: KW_ONLY
    critique: bool = False
    """Say in words what is wrong with each candidate, and write the instruction for the next attempt."""


@dataclass(frozen=True)
class ShardsConfig(ScoreConfig):
    """Configuration of judging a dataset of any size into an output folder.

    The data may also be WebDataset archives (`.tar`). Parquet files of a dataset on the Hub are streamed.
    """

    _: KW_ONLY
    output: Path | None = field(default=None, metadata=WRITES)
    """Folder for the results of a dataset of any size; the same command continues it (docs/how-to/scale-out.md)."""
    part_rows: int = 1000
    """Rows of a part, the unit that is written and resumed."""
    shard: str | None = field(default=None, metadata=TEXT)
    """I/N: judge this share of the parts, as one of N processes with the same output folder."""
    engine: Literal["local", "ray"] = "local"
    """Judge in this process, or on a Ray cluster."""
    address: str | None = field(default=None, metadata=SENDS)
    """Address of the Ray cluster, or auto (RAY_ADDRESS); by default Ray starts on this machine."""
    workers: int | None = None
    """Worker processes on the Ray cluster (default: 2 per node, 1 without a model)."""

    ranges: ClassVar = {**ExamplesConfig.ranges, "part_rows": Range(1), "workers": Range(1)}

    def __post_init__(self) -> None:
        super().__post_init__()
        _ = self.share  # checks it
        if self.engine == "local" and (self.address or self.workers):
            name = "--address" if self.address else "--workers"
            raise InputError(f"{name} is for a Ray cluster.", next_step="Add --engine ray, or leave it out.")
        limited = [name for name, value in vars(self).items() if name.startswith("budget_") and value is not None]
        if self.engine == "ray" and limited:
            option = limited[0].replace("_", "-")
            raise InputError(f"--{option} is for one process.", next_step="Leave it out, or judge with --engine local.")

    @property
    def share(self) -> tuple[int, int]:
        """Index, from 1, and number of the shares."""
        match = re.fullmatch(r"([1-9]\d{0,5})/([1-9]\d{0,5})", self.shard or "1/1")
        if match is None or int(match[1]) > int(match[2]):
            step = "Write the number of this process and of all, as in --shard 1/4."
            problem = "cannot be read" if match is None else f"is not possible: {match[1]} is more than {match[2]}"
            raise InputError(f"--shard {self.shard} {problem}.", next_step=step)
        return int(match[1]), int(match[2])


@dataclass(frozen=True)
class SamplesConfig(ExamplesConfig):
    """Configuration of judging edits with any number of candidates each."""

    data: str = field(metadata=READS)
    """A folder, a table or a dataset on the Hub, with any number of candidates per edit; see docs/reference/data.md."""


@dataclass(frozen=True)
class RankConfig(SamplesConfig):
    """Configuration of ranking the candidates of each edit."""

    _: KW_ONLY
    source: Path | None = field(default=None, metadata=READS)
    """Source image; the data are then candidates of one edit."""
    reference: tuple[Path, ...] = field(default=(), metadata=READS)
    """Reference image of that edit: image 2, 3 or 4 of the instruction. May be repeated."""
    instruction: str | None = field(default=None, metadata=TEXT)
    """Instruction of that edit."""
    method: Literal["score", "win_rate"] = "score"
    """Score each candidate alone, or compare every pair: more expensive, and better at small differences."""
    copy_best: Path | None = field(default=None, metadata=WRITES)
    """Copy the best candidate of each edit into this folder; copies of an earlier run are removed."""


@dataclass(frozen=True, kw_only=True)
class DatasetOutput:
    """Where a dataset is written."""

    output: Path = field(metadata=WRITES)
    """Where the result is written."""
    push: str | None = field(default=None, metadata=WRITES)
    """Publish the result as this dataset (org/name) on the Hub."""
    private: bool = False
    """Make a newly created dataset repository private."""


@dataclass(frozen=True)
class FilterConfig(DatasetOutput, ExamplesConfig):
    """Configuration of filtering a dataset by its judgments."""

    _: KW_ONLY
    single: bool = False
    """Treat each candidate as an edit of its own; any number of candidates."""
    min_reward: float | None = None
    """Keep edits with at least this reward, in [0, 1]."""
    top: float | None = None
    """Keep this share of the edits with the highest rewards, in (0, 1]: 0.5 keeps the best half."""
    min_margin: float | None = None
    """Keep pairs and groups with at least this margin."""
    agree: bool = False
    """Keep only examples on which the judge confirms the label."""
    everything: bool = False
    """Write all rows, kept or not, each with its reason."""

    ranges: ClassVar = {**ExamplesConfig.ranges, "min_reward": SHARE, "min_margin": SHARE, "top": Range(0, 1, (0,))}

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.min_reward is None and self.min_margin is None and self.top is None and not self.agree:
            step = "Pass --top, --min-reward, --min-margin or --agree, or several."
            raise InputError("No condition for keeping edits.", next_step=step)
        if self.output.suffix not in {".parquet", ".jsonl"}:
            step = "Use one of these file types."
            raise InputError(f"{self.output} is neither .parquet nor .jsonl.", next_step=step)


@dataclass(frozen=True)
class PreferencePairsConfig(DatasetOutput, SamplesConfig):
    """Configuration of making preference pairs for training a reward model."""

    _: KW_ONLY
    repeats: int = 5
    """Judgments per candidate."""
    margin: float = 0.1
    """Minimum difference of mean rewards."""
    spread: float = 1.0
    """The difference must also exceed this multiple of both standard deviations."""
    per_edit: int = 4
    """Maximum number of pairs per edit."""
    holdout: float = 0.1
    """Share of the sources that is held out."""
    run_share: float = 1.0
    """Maximum share of one run."""
    seed: int = 0
    """Seed of the split, and of what a cap leaves out."""

    ranges: ClassVar = {
        **ExamplesConfig.ranges,
        "repeats": Range(1),
        "margin": Range(0, 1, (0,)),
        "spread": Range(0),
        "per_edit": Range(1),
        "holdout": Range(0, 1, (1,)),
        "run_share": Range(0, 1, (0,)),
    }
