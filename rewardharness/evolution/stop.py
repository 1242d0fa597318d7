"""Why a run ends or pauses: a budget, a judge that gives no answers, a full disk. For stop requests see `runs.stop`."""

import shutil
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from rewardharness.errors import RunError
from rewardharness.schema import Usage

OVER_BUDGET = "the budget"
"""First words of the reason why a search ended if its budget ended it."""

RESERVE = 32 * 1024 * 1024
"""Free bytes on the disk below which nothing is judged, so that results can still be saved."""


class RunPaused(RunError):
    """The run is paused after an error: its state is saved, and the same command resumes it.

    Args:
        message: The reason, one sentence.
        next_step: What to do before the same command is given again.
        kind: `endpoint`, `orchestrator` or `disk`, for records.
    """

    title = "The run is paused"
    condition = "paused"

    def __init__(self, message: str, *, next_step: str, kind: str) -> None:
        super().__init__(message, next_step=next_step)
        self.kind = kind


class Exhausted(Exception):
    """The budget is spent. Not an error: the run concludes with what it has."""


@dataclass(frozen=True)
class Price:
    """Prices of a model, in any one currency; None if unknown."""

    input: float | None = None
    """Per million input tokens."""
    output: float | None = None
    """Per million output tokens."""

    def of(self, usage: Usage) -> float | None:
        """Return the cost of a usage; None if a price that matters is unknown."""
        total = 0.0
        for tokens, price in ((usage.input_tokens, self.input), (usage.output_tokens, self.output)):
            if tokens and price is None:
                return None
            total += tokens * (price or 0.0) / 1e6
        return total


@dataclass(frozen=True)
class Budget:
    """Limits of the search; None for no limit. The comparison on held-out examples is not limited."""

    judgments: int | None = None
    """Judgments of the search, cached ones included, so that one seed gives one result on any machine."""
    tokens: int | None = None
    """Tokens paid for by this run, of judge and Orchestrator together."""
    seconds: float | None = None
    """Wall time of all sessions of the run."""
    money: float | None = None
    """In the currency of the prices."""


@dataclass(frozen=True)
class Spent:
    """What a run has spent so far."""

    judgments: int = 0
    """Judgments of the search: one example in one context, counted once."""
    judge: Usage = Usage()
    """Usage of the judge; cached answers cost nothing."""
    orchestrator: Usage = Usage()
    seconds: float = 0.0
    """Wall time of all sessions."""

    @property
    def tokens(self) -> int:
        """All tokens paid for."""
        return sum(usage.input_tokens + usage.output_tokens for usage in (self.judge, self.orchestrator))

    def to_json(self) -> dict[str, Any]:
        """Convert it to JSON."""
        return asdict(self)


NOTHING = Spent()
"""Nothing is spent yet."""


def usage_json(usage: Usage) -> dict[str, Any]:
    """Convert a usage to the keys of a line of the results file."""
    return {**asdict(usage), "seconds": round(usage.seconds, 3)}


def line_usage(line: Mapping[str, Any]) -> Usage:
    """Return the usage of a line of the results file; earlier versions have it beside the other keys."""
    usage = line.get("usage", line)
    return Usage(usage["calls"], usage["input_tokens"], usage["output_tokens"], usage["seconds"])


def ledger_usage(lines: Iterable[dict[str, Any]]) -> Usage:
    """Return the sum of the usages of lines."""
    return sum(map(line_usage, lines), Usage())


@dataclass(frozen=True)
class SpendingLimits:
    """A budget, and the prices to compare spending with it."""

    budget: Budget = Budget()
    judge_price: Price = Price()
    orchestrator_price: Price = Price()

    def money(self, spent: Spent) -> float | None:
        """Return the cost of what was spent; None if a price that matters is unknown."""
        parts = (self.judge_price.of(spent.judge), self.orchestrator_price.of(spent.orchestrator))
        return None if None in parts else sum(part for part in parts if part is not None)

    def exceeded(self, spent: Spent) -> str | None:
        """Return which limit is reached, in words; None if none is."""
        budget = self.budget
        for limit, value, unit in (
            (budget.judgments, spent.judgments, "judgments"),
            (budget.tokens, spent.tokens, "tokens"),
            (budget.seconds, spent.seconds, "seconds"),
            (budget.money, self.money(spent), "in money"),
        ):
            if limit is not None and value is not None and value >= limit:
                return f"{OVER_BUDGET} of {limit if isinstance(limit, int) else f'{limit:g}'} {unit} is spent"
        return None


UNLIMITED = SpendingLimits()
"""No budget."""


def free_bytes(path: Path) -> int:
    """Return the free bytes of the disk of a path."""
    return shutil.disk_usage(path).free


def check_disk(folders: tuple[Path, ...], free: Callable[[Path], int] = free_bytes) -> None:
    """Check that judgments can be saved.

    Args:
        folders: Folders that results are saved in.
        free: Returns the free bytes at a path.

    Raises:
        RunPaused: If a disk is nearly full.
    """
    for folder in folders:
        left = free(folder)
        if left < RESERVE:
            raise RunPaused(
                f"Only {left / 2**20:.0f} MiB are free at {folder}, too little to save more judgments.",
                next_step=f"Free at least {RESERVE // 2**20} MiB, then give the same command again.",
                kind="disk",
            )
