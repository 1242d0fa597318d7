"""When a run ends or rests: budgets, a request to stop, a judge that gives no answers, a disk that fills up."""

import shutil
import signal
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from rewardharness.errors import RunError
from rewardharness.schema import Usage

STOP_FILE = "stop"
"""A file of this name in a run folder asks the run to stop."""

OVER_BUDGET = "the budget"
"""How the reason begins why a search ended that its budget ended."""

RESERVE = 32 * 1024 * 1024
"""Bytes of free disk below which nothing more is judged: saving must still be possible after the spending ends."""


class Paused(RunError):
    """The run rests where it is: its state is saved, and the same command goes on.

    Args:
        message: One sentence: why.
        next_step: What to do about it, before the same command is given again.
        kind: A word for records: `endpoint`, `orchestrator`, `disk`.
    """

    title = "The run is paused"
    condition = "paused"

    def __init__(self, message: str, *, next_step: str, kind: str) -> None:
        super().__init__(message, next_step=next_step)
        self.kind = kind


class Stopped(Exception):
    """Somebody asked the run to stop. Not an error."""

    condition = "stopped"


class Exhausted(Exception):
    """The budget is spent. Not an error: the run concludes with what it has."""


@dataclass(frozen=True)
class Price:
    """What a model costs, in any one currency. None: not known, and then no sum is given either."""

    input: float | None = None
    """Per million input tokens."""
    output: float | None = None
    """Per million output tokens."""

    def of(self, usage: Usage) -> float | None:
        """Cost of a usage; None when a price that matters is not known."""
        total = 0.0
        for tokens, price in ((usage.input_tokens, self.input), (usage.output_tokens, self.output)):
            if tokens and price is None:
                return None
            total += tokens * (price or 0.0) / 1e6
        return total


@dataclass(frozen=True)
class Budget:
    """How much a run may spend on its search. None: no limit. The audit at the end comes on top."""

    judgments: int | None = None
    """Judgments that the search asks for, remembered ones included: so one seed gives one result on any machine."""
    tokens: int | None = None
    """Tokens really paid for by this run, of judge and Orchestrator together."""
    seconds: float | None = None
    """Wall time of this run, all sittings together."""
    money: float | None = None
    """In the currency of the prices."""


@dataclass(frozen=True)
class Spent:
    """What a run has spent so far."""

    judgments: int = 0
    """Judgments that the search asked for: one example under one context, counted once however often it is used."""
    judge: Usage = Usage()
    """What the judge's answers really cost; remembered answers cost nothing."""
    orchestrator: Usage = Usage()
    seconds: float = 0.0
    """Wall time, all sittings together."""

    @property
    def tokens(self) -> int:
        """All tokens paid for."""
        return sum(each.input_tokens + each.output_tokens for each in (self.judge, self.orchestrator))

    def to_json(self) -> dict[str, Any]:
        """Put it into JSON."""
        return asdict(self)

    @classmethod
    def from_json(cls, value: Mapping[str, Any]) -> "Spent":
        """Read it back."""
        usages = {name: Usage(**value[name]) for name in ("judge", "orchestrator")}
        return cls(value["judgments"], usages["judge"], usages["orchestrator"], value["seconds"])


NOTHING = Spent()
"""What a run has spent when it begins."""


def usage_json(usage: Usage) -> dict[str, Any]:
    """What something cost, as a line of the ledger says it."""
    tokens = {"input_tokens": usage.input_tokens, "output_tokens": usage.output_tokens}
    return {"calls": usage.calls, **tokens, "seconds": round(usage.seconds, 3)}


def line_usage(line: Mapping[str, Any]) -> Usage:
    """Return the usage of a line of the ledger, also of an earlier form, which has it beside the other keys."""
    used = line.get("usage", line)
    return Usage(used["calls"], used["input_tokens"], used["output_tokens"], used["seconds"])


def ledger_usage(lines: Iterable[dict[str, Any]]) -> Usage:
    """Sum up what the judgments of a ledger cost."""
    total = Usage()
    for line in lines:
        total += line_usage(line)
    return total


@dataclass(frozen=True)
class Limits:
    """A budget with what is needed to hold spending against it."""

    budget: Budget = Budget()
    judge_price: Price = Price()
    orchestrator_price: Price = Price()

    def money(self, spent: Spent) -> float | None:
        """What was spent in money; None when a price that matters is not known."""
        parts = (self.judge_price.of(spent.judge), self.orchestrator_price.of(spent.orchestrator))
        return None if None in parts else sum(part for part in parts if part is not None)

    def exceeded(self, spent: Spent) -> str | None:
        """Say which part of the budget is spent, or None."""
        budget = self.budget
        if budget.judgments is not None and spent.judgments >= budget.judgments:
            return f"{OVER_BUDGET} of {budget.judgments} judgments is spent"
        if budget.tokens is not None and spent.tokens >= budget.tokens:
            return f"{OVER_BUDGET} of {budget.tokens} tokens is spent"
        if budget.seconds is not None and spent.seconds >= budget.seconds:
            return f"{OVER_BUDGET} of {budget.seconds:g} seconds is spent"
        money = self.money(spent)
        if budget.money is not None and money is not None and money >= budget.money:
            return f"{OVER_BUDGET} of {budget.money:g} in money is spent"
        return None


UNLIMITED = Limits()
"""No budget."""


@dataclass
class StopRequest:
    """Whether somebody asked for an end: by a signal, or by a file in the run folder."""

    folder: Path | None = None
    asked: bool = field(default=False, init=False)

    def __call__(self) -> bool:
        """Whether to stop."""
        if not self.asked and self.folder is not None:
            self.asked = (self.folder / STOP_FILE).exists()
        return self.asked

    def check(self) -> None:
        """Stop if so.

        Raises:
            Stopped: If somebody asked.
        """
        if self():
            raise Stopped

    @contextmanager
    def listening(self, notice: Callable[[], None]) -> Iterator[None]:
        """Take the first Ctrl-C (or SIGTERM) as a request; the second one interrupts at once.

        Args:
            notice: Called at the first, to tell the person that it was heard.
        """

        def heard(number: int, frame: FrameType | None) -> None:
            if self.asked:
                raise KeyboardInterrupt
            self.asked = True
            notice()

        before = {number: signal.signal(number, heard) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def free_bytes(path: Path) -> int:
    """Free bytes of the disk that a path lies on."""
    return shutil.disk_usage(path).free


def check_disk(folders: tuple[Path, ...], free: Callable[[Path], int] = free_bytes) -> None:
    """Make sure that what is going to be judged can also be saved.

    Args:
        folders: Where results are kept.
        free: Free bytes at a path.

    Raises:
        Paused: If a disk is nearly full.
    """
    for folder in folders:
        left = free(folder)
        if left < RESERVE:
            raise Paused(
                f"Only {left / 2**20:.0f} MiB are free at {folder}; nothing more is judged, so that all can be saved.",
                next_step=f"Free at least {RESERVE // 2**20} MiB, then give the same command again.",
                kind="disk",
            )
