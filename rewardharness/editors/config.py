"""Configurations of the jobs around editors."""

from dataclasses import KW_ONLY, dataclass, field
from pathlib import Path
from typing import ClassVar, Literal

from rewardharness.codec import READS, SENDS, TEXT, WRITES
from rewardharness.data.config import DataConfig
from rewardharness.errors import InputError
from rewardharness.judging.config import JudgeConfig, RewardConfig
from rewardharness.ranges import Range
from rewardharness.runs.spending import BudgetConfig

Choice = Literal["active", "random"]
ON_THIS_MACHINE = ("folder:", "painter:", "diffusers:")
"""Beginnings of editors that send nothing anywhere and cost nothing."""
MARGIN = 0.05
"""Least lead of an attempt of a further round over the best one so far; a smaller one is within the noise of judges."""


@dataclass(frozen=True)
class ArenaConfig(BudgetConfig, RewardConfig, DataConfig):
    """Configuration of a comparison of editors. Of the data, sources and instructions are used.

    The name of a benchmark of editors (`rh benchmark list`) stands for its data; each edit is then graded alone.
    """

    _: KW_ONLY
    editors: tuple[str, ...] = field(metadata=SENDS)
    """Editors, separated by commas: openai:NAME@URL, hf:NAME, diffusers:NAME@COMMIT, comfyui:FILE@URL, folder:DIR,
    painter:0.2."""
    source: Path | None = field(default=None, metadata=READS)
    """Local copy of the data of a benchmark of editors: its table, or the folder of it."""
    comparisons: int = 200
    """Number of comparisons. A finished arena can be continued with more."""
    choice: Choice = "active"
    """What is compared: editors whose order is least certain, or a random choice."""
    second_judge: str | None = field(default=None, metadata=SENDS)
    """Judge of the same comparisons, for its agreement with the first."""
    votes: str | None = field(default=None, metadata=READS)
    """Labeled data that name their editors, such as feedback, for the agreement of people with the judge."""
    push: str | None = field(default=None, metadata=WRITES)
    """Publish the ratings in a leaderboard on the Hub, as leaderboard:org/name."""
    private: bool = False
    """Create the leaderboard as a private dataset."""
    seed: int = 0
    """Seed of the edits and of the choice."""
    limit: int | None = None
    """Use the first examples only."""
    concurrency: int | None = None
    """Edits made, and comparisons judged, at the same time."""

    ranges: ClassVar = {
        **JudgeConfig.ranges,
        "comparisons": Range(1, 1_000_000),
        "limit": Range(1),
        "concurrency": Range(1),
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 1 <= len(set(self.specs)) == len(self.specs) <= MAX_EDITORS:
            step = f"Name up to {MAX_EDITORS} different editors, separated by commas."
            raise InputError(f"{len(self.specs)} editors cannot be compared.", next_step=step)

    @property
    def specs(self) -> tuple[str, ...]:
        """The editors one by one."""
        return tuple(spec.strip() for text in self.editors for spec in text.split(",") if spec.strip())


@dataclass(frozen=True)
class _Edit:
    image: Path = field(metadata=READS)
    """Source image."""
    instruction: str = field(metadata=TEXT)
    """The edit."""


@dataclass(frozen=True)
class RefineConfig(BudgetConfig, RewardConfig, _Edit):
    """Configuration of the improvement of one edit."""

    _: KW_ONLY
    editor: str = field(metadata=SENDS)
    """openai:NAME@URL, hf:NAME, diffusers:NAME@COMMIT, comfyui:FILE@URL, folder:DIR, or painter:0.2 for demo data."""
    candidate: Path | None = field(default=None, metadata=READS)
    """An edit to improve, which counts as the first attempt."""
    rounds: int = 4
    """Maximum number of rounds. A finished run can be continued with more."""
    n: int = 4
    """Attempts per round."""
    margin: float = MARGIN
    """Least lead with which an attempt of a further round replaces the best one so far; without one it ends."""
    second_judge: str | None = field(default=None, metadata=SENDS)
    """Judge that does not choose, and says how much of the gain it sees."""
    seed: int = 0
    """Seed of the first attempt."""

    ranges: ClassVar = {**JudgeConfig.ranges, "rounds": Range(1, 1000), "n": Range(1, 1000)}

    @property
    def specs(self) -> tuple[str, ...]:
        """Its editor."""
        return (self.editor,)


MAX_EDITORS = 64
"""Maximum number of editors of an arena."""
