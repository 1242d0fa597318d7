"""Configurations of the jobs that judge many edits."""

from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any, ClassVar, Literal

from rewardharness.data.config import DataConfig
from rewardharness.judging.config import JudgeConfig, OpenedJudge, RewardConfig
from rewardharness.settings import Settings


@dataclass(frozen=True)
class ExamplesConfig(RewardConfig, DataConfig):
    """Configuration of a job that judges examples."""

    _: KW_ONLY
    limit: int | None = None
    """Judge the first examples only."""
    concurrency: int | None = None
    """Examples judged at the same time."""

    lowest: ClassVar = {**JudgeConfig.lowest, "limit": 1, "concurrency": 1}


@dataclass(frozen=True)
class ScoreConfig(ExamplesConfig):
    """Configuration of judging labeled or unlabeled examples."""

    _: KW_ONLY
    critique: bool = False
    """Say in words what is wrong with each candidate, and write the instruction for the next attempt."""

    def open(self, settings: Settings, **options: Any) -> OpenedJudge:
        """Open judge and Library; see `RewardConfig.open`."""
        return super().open(settings, critique=self.critique, **options)


@dataclass(frozen=True)
class SamplesConfig(ExamplesConfig):
    """Configuration of judging edits with any number of candidates each."""

    data: str
    """A folder, a table or a dataset on the Hub, with any number of candidates per edit; see docs/bulk.md."""


@dataclass(frozen=True)
class RankConfig(SamplesConfig):
    """Configuration of ranking the candidates of each edit."""

    _: KW_ONLY
    source: Path | None = None
    """Source image; the data are then candidates of one edit."""
    reference: tuple[Path, ...] = ()
    """Reference image of that edit: image 2, 3 or 4 of the instruction. May be repeated."""
    instruction: str | None = None
    """Instruction of that edit."""
    method: Literal["score", "win_rate"] = "score"
    """Score each candidate alone, or compare every pair: more expensive, and better at small differences."""
    copy_best: Path | None = None
    """Copy the best candidate of each edit into this folder; copies of an earlier run are removed."""


@dataclass(frozen=True, kw_only=True)
class DatasetOutput:
    """Where a dataset is written."""

    output: Path
    """Where the result is written."""
    push: str | None = None
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
    min_margin: float | None = None
    """Keep pairs and groups with at least this margin."""
    agree: bool = False
    """Keep only examples on which the judge confirms the label."""
    everything: bool = False
    """Write all rows, kept or not, each with its reason."""


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
