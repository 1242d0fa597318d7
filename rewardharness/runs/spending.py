"""Spending of a run of any kind: budget, prices, the expected cost, and what was spent so far."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import asdict, astuple, dataclass, field
from itertools import chain
from typing import Any, TypeVar

from rewardharness.errors import InputError
from rewardharness.schema import Usage
from rewardharness.settings import Settings

T = TypeVar("T")

OVER_BUDGET = "the budget"
"""First words of the reason why a run ended if its budget ended it."""


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
    """Limits of a run; None for no limit. The comparison of an evolution on held-out examples is not limited."""

    judgments: int | None = None
    """Judgments of the search, cached ones included, so that one seed gives one result on any machine."""
    tokens: int | None = None
    """Tokens paid for by this run, of judge and Orchestrator together."""
    seconds: float | None = None
    """Wall time of all sessions of the run."""
    money: float | None = None
    """In the currency of the prices."""
    requests: int | None = None
    """Requests to models that were answered."""


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


NOTHING = Spent()
"""Nothing is spent yet."""


def usage_json(usage: Usage) -> dict[str, Any]:
    """Convert a usage to the keys of a line of the results file."""
    return {**asdict(usage), "seconds": round(usage.seconds, 3)}


def line_usage(line: Mapping[str, Any]) -> Usage:
    """Return the usage of a line of the results file; earlier versions have it beside the other keys."""
    usage = line.get("usage", line)
    return Usage(*(usage.get(name, 0) for name in ("calls", "input_tokens", "output_tokens", "seconds")))


def ledger_usage(lines: Iterable[Mapping[str, Any]]) -> Usage:
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

    def exceeded(self, spent: Spent, *, planned: bool = False) -> str | None:
        """Return which limit is reached, in words; None if none is.

        Args:
            spent: What was spent.
            planned: Whether it includes what is about to be spent, which may reach a limit but not exceed it.
        """
        budget = self.budget
        for limit, value, unit in (
            (budget.judgments, spent.judgments, "judgments"),
            (budget.requests, spent.judge.calls + spent.orchestrator.calls, "requests"),
            (budget.tokens, spent.tokens, "tokens"),
            (budget.seconds, spent.seconds, "seconds"),
            (budget.money, self.money(spent), "in money"),
        ):
            if limit is not None and value is not None and (value > limit if planned else value >= limit):
                end = "does not cover the next judgment" if planned else "is spent"
                return f"{OVER_BUDGET} of {limit if isinstance(limit, int) else f'{limit:g}'} {unit} {end}"
        return None


UNLIMITED = SpendingLimits()
"""No budget."""


@dataclass(frozen=True, kw_only=True)
class BudgetConfig:
    """Limits and prices of a run. What was judged when a limit is reached is kept."""

    budget_requests: int | None = None
    """Answered requests to models."""
    budget_tokens: int | None = None
    """Tokens of all models together."""
    budget_usd: float | None = None
    """Cost; needs prices."""
    price: tuple[float, float] | None = None
    """Judge, per million input, output tokens."""

    def __post_init__(self) -> None:
        for name, value in vars(self).items():
            if name.startswith("budget_") and value is not None and not value > 0:
                option = name.replace("_", "-")
                raise InputError(f"--{option} {value} is out of range.", next_step="Give a number above 0.")
        following = getattr(super(), "__post_init__", None)  # of the other configurations that a job has
        if following is not None:
            following()

    def make_limits(self, settings: Settings) -> SpendingLimits:
        """Make budget and prices.

        Raises:
            InputError: If a budget of money has no prices.
        """
        price = Price(*(self.price or (settings.price_input, settings.price_output)))
        if self.budget_usd is not None and None in astuple(price):
            raise InputError(
                "A budget of money needs prices: --price.",
                next_step="Give the prices per million tokens, or another budget.",
            )
        return SpendingLimits(Budget(None, self.budget_tokens, None, self.budget_usd, self.budget_requests), price)


@dataclass(frozen=True)
class Cost:
    """Expected cost of the rest of a run."""

    judgments: int = 0
    """Judgments of the complete run."""
    known: int = 0
    """Judgments that the run folder already holds, without those that are made again."""
    again: int = 0
    """Judgments that failed before and are made again."""
    failed: int = 0
    """Judgments that failed before and are kept, because the input was the cause."""
    requests: int = 0
    """Minimum number of requests to models; Tools and retries need more, cached answers none."""
    input_tokens: int = 0
    """Usual number in these requests, with images as Qwen2.5-VL counts them."""
    output_tokens: int = 0
    crops: int = 0
    """Maximum number of images that measured evidence adds to these requests."""

    def __add__(self, other: "Cost") -> "Cost":
        return Cost(*(sum(pair) for pair in zip(astuple(self), astuple(other), strict=True)))

    def scaled(self, factor: float) -> "Cost":
        """Return the cost of so many times the work."""
        return Cost(*(round(number * factor) for number in astuple(self)))

    def money(self, limits: SpendingLimits) -> float | None:
        """Return the usual cost; None if a price is unknown."""
        return limits.judge_price.of(Usage(self.requests, self.input_tokens, self.output_tokens))

    def priced(self, limits: SpendingLimits) -> dict[str, Any]:
        """Return its numbers, with the usual cost in `money`."""
        return {**asdict(self), "money": self.money(limits)}

    def words(self, limits: SpendingLimits, place: object = "") -> list[str]:
        """Return the cost in sentences; none if nothing is known of the run at a place, and no model is called."""
        lines = []
        if place and self.judgments and (self.known or self.again or self.requests):
            lines.append(f"{self.known} of {self.judgments} are judged already in {place}.")
        if self.again:
            lines.append(f"{self.again} failed before; asking again.")
        if self.failed:
            lines.append(f"{self.failed} failed before because of the input, and are kept; --retry-failed: ask again.")
        if self.requests:
            money, tokens = self.money(limits), self.input_tokens + self.output_tokens
            costs = "The price is unknown (--price)." if money is None else f"Usual cost: ${money:.2f}."
            lines.append(
                f"The rest takes at least {self.requests} requests to models, usually {tokens:,} tokens; Tools and "
                f"retries need more, cached answers none. {costs}"
            )
        return lines


@dataclass
class Account:
    """What a session may still spend. Requests are reserved before an example is judged, so that none is too many.

    Tokens and money are reserved as the mean of the requests so far; the first judgment is made alone to know it.
    """

    limits: SpendingLimits = UNLIMITED
    spent: Usage = Usage()
    reason: str = ""
    """Why nothing more can be spent; empty if something can."""
    held: list[Any] = field(default_factory=list)
    """The item that waits until those in progress have ended, because they may cost less than was reserved."""
    _reserved: dict[str, int] = field(default_factory=dict)

    def within(self, items: Iterable[T], requests: Callable[[T], int], name: Callable[[T], str]) -> Iterator[T]:
        """Yield items as long as the budget covers them and those in progress. The rest follows in the next call.

        Args:
            items: What is judged.
            requests: Returns the minimum number of requests of an item.
            name: Returns the name of an item, for `settle`.
        """
        if self.limits.budget == Budget():
            yield from items
            return
        budget, first, self.held = self.limits.budget, self.held, []
        for item in chain(first, items):
            count, calls = requests(item), self.spent.calls
            ahead = sum(list(self._reserved.values())) + count
            tokens = [number * ahead // max(1, calls) for number in (self.spent.input_tokens, self.spent.output_tokens)]
            planned = Spent(judge=self.spent + Usage(ahead, *tokens))
            unknown = not calls and (budget.tokens, budget.money) != (None, None)
            reason = self.limits.exceeded(Spent(judge=self.spent)) or self.limits.exceeded(planned, planned=True)
            if count and (reason or (unknown and self._reserved)):
                self.held = [item]
                self.reason = reason if reason and not self._reserved else ""
                return
            if count:
                self._reserved[name(item)] = count
            yield item

    def settle(self, name: str, usage: Usage) -> None:
        """Replace what was reserved for an item by what it cost."""
        self._reserved.pop(name, None)
        self.spent += usage
