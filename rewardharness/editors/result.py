"""The result of an arena, as its run folder holds it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from rewardharness.codec import from_json
from rewardharness.editors.benchmark import GradedEditor
from rewardharness.files import read_json
from rewardharness.judging.ranking import RatedEditor
from rewardharness.schema import Json, Usage

REPORT = "report.json"


@dataclass(frozen=True)
class EditCounts:
    """What an editor made."""

    made: int
    failed: int
    """Edits that it did not make; they are compared with nothing."""
    failure: str
    """The first reason; empty if nothing failed."""
    seconds: float = 0.0
    """Mean duration of the edits that were made for this run; 0 if all were known before."""


@dataclass(frozen=True)
class ArenaAgreement:
    """Agreement of the judge with another judge, or with votes of people, on comparisons that both have answered."""

    who: str
    """The other judge, or the dataset of the votes."""
    n: int
    same: int
    """Of these, how many have the same answer, ties included."""
    decided: int
    """How many neither answers with a tie."""
    alike: int
    """Of these, how many prefer the same edit."""
    editors: tuple[RatedEditor, ...]
    """Ratings by the other judge, or by all votes on these editors."""
    usage: Usage = Usage()
    """What the answers of the other judge cost."""


@dataclass(frozen=True, kw_only=True)
class ArenaResult:
    """Result of an arena, or of a benchmark of editors, which has grades in place of ratings."""

    editors: tuple[RatedEditor, ...] = ()
    """From best to worst. An editor that was never compared is missing."""
    categories: Mapping[str, tuple[RatedEditor, ...]] = field(default_factory=dict)
    """The same within the categories of the data."""
    wins: Mapping[str, Mapping[str, float]] = field(default_factory=dict)
    """Share of wins of an editor over another one in their comparisons; a tie is half."""
    met: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    """Number of these comparisons."""
    edits: Mapping[str, EditCounts]
    n: int
    """Number of comparisons, or of edits to grade."""
    judged: int
    """Of these, how many have an answer. A judge whose two orders contradict each other gives a tie."""
    ties: int = 0
    choice: str
    judge: Json
    data: str
    digest: str = ""
    """Digest of the data; empty in files of earlier versions."""
    library: str = ""
    """Name of the Library."""
    failures: Mapping[str, int] = field(default_factory=dict)
    """Judgments that failed, by code."""
    usage: Usage = Usage()
    """What judging cost, without the second judge."""
    agreements: tuple[ArenaAgreement, ...] = ()
    grades: tuple[GradedEditor, ...] = ()
    """Grades of a benchmark of editors, the best first."""
    differs: tuple[str, ...] = ()
    """What keeps these grades from being compared with published ones."""


def read_ratings(folder: Path) -> ArenaResult:
    """Return the result of a finished arena.

    Raises:
        HarnessError: If it cannot be read.
    """
    return from_json(ArenaResult, read_json(folder / REPORT))
