"""Configuration of an evolution."""

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from rewardharness.data.config import DataConfig
from rewardharness.errors import InputError
from rewardharness.judging.config import JudgeConfig
from rewardharness.settings import Settings

if TYPE_CHECKING:  # help and wrong arguments are shown without loading the search
    from rewardharness.evolution.schedules import Schedule
    from rewardharness.evolution.stop import SpendingLimits

BUILTIN = "builtin"
"""Name of the Orchestrator that needs no model."""
AUDIT_SHARE = 0.25
"""Share of the examples that is held out, unless a caller chooses."""
MARGIN = 0.05
"""Loss of accuracy, in [0, 1], above which the evolved Library is not the result of the run."""
AUTO = "auto"
"""Spelling of the corrections that were made in the app for this data."""

_BUDGETS = ("budget_calls", "budget_tokens", "budget_seconds", "budget_money")


@dataclass(frozen=True, kw_only=True)
class BudgetConfig:
    """Limits and prices of the search. The comparison on held-out examples at the end is not limited."""

    budget_calls: int | None = None
    """Judgments (one example in one context)."""
    budget_tokens: int | None = None
    """Tokens of judge and Orchestrator together."""
    budget_seconds: float | None = None
    """Duration in seconds."""
    budget_money: float | None = None
    """Cost; needs prices."""
    price: tuple[float, float] | None = None
    """Judge, per million input, output tokens."""
    orchestrator_price: tuple[float, float] | None = None
    """Orchestrator, per million tokens."""


@dataclass(frozen=True)
class EvolveConfig(BudgetConfig, JudgeConfig, DataConfig):
    """Configuration of an evolution: data, judge, Orchestrator, search and budget."""

    _: KW_ONLY
    orchestrator: str = BUILTIN
    """builtin (rules), or a model."""
    initializer_model: str | None = None
    """Model that writes the Library of --library llm."""
    orchestrator_images: bool = False
    """Show a model the images of cited examples."""
    ties: bool = False
    """Allow ties even if no label is a tie."""
    schedule: Literal["default", "iterative", "evolutionary", "pareto", "random", "paper"] = "default"
    """Strategy; default: greedy."""
    population: int = 8
    """Libraries of a population."""
    parents: Literal["rank", "tournament", "top_k", "pareto"] = "tournament"
    """Choice of parents."""
    operators: Literal["success_feedback", "fixed", "exploration_decay", "diversity_driven"] = "success_feedback"
    """Choice of operators."""
    objective: Literal["default", "accuracy", "tail"] = "default"
    """Rating."""
    proposals: int = 60
    """Number of edits to try."""
    scope: Literal["library", "entry", "category"] = "library"
    """Of a change."""
    islands: int = 1
    """Populations that take turns."""
    iterations: int = 4
    """Iterations of the schedule paper."""
    batch: int = 2
    """Judgments between two tests."""
    refresh: bool = False
    """Confirm accepted edits by new judgments."""
    seed: int = 0
    """Random seed."""
    corrections: str | None = None
    """Labels corrected in the app: a file, or auto."""
    audit_share: float = AUDIT_SHARE
    """Share of held-out examples."""
    ensemble: int | None = None
    """Samples for self-ensembling; 0: none."""
    regression_margin: float = MARGIN
    """Loss allowed on known faults."""
    concurrency: int | None = None
    """Examples judged at the same time."""

    lowest: ClassVar = {
        **JudgeConfig.lowest,
        "proposals": 1,
        "population": 2,
        "islands": 1,
        "iterations": 1,
        "batch": 1,
        "concurrency": 1,
    }

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in _BUDGETS:
            value = getattr(self, name)
            if value is not None and not value > 0:
                option = name.replace("_", "-")
                raise InputError(f"--{option} {value} is out of range.", next_step="Give a number above 0.")

    def make_schedule(self) -> "Schedule":
        """Make the order of the search."""
        from rewardharness.evolution.paper import PaperSchedule
        from rewardharness.evolution.population import PopulationSchedule
        from rewardharness.evolution.schedules import DefaultSchedule

        if self.schedule == "paper":
            return PaperSchedule(iterations=self.iterations)
        if self.schedule != "default":
            return PopulationSchedule(
                self.schedule,
                self.proposals,
                self.population,
                selection=self.parents,
                operators=self.operators,
                objective=self.objective,
                scope=self.scope,
                islands=self.islands,
            )
        return DefaultSchedule(proposals=self.proposals, batch=self.batch, refresh=self.refresh)

    def make_limits(self, settings: Settings) -> "SpendingLimits":
        """Make budget and prices.

        Raises:
            InputError: If a budget of money has no prices.
        """
        from rewardharness.evolution.stop import Budget, Price, SpendingLimits

        price = Price(*(self.price or (settings.price_input, settings.price_output)))
        other = Price(*(self.orchestrator_price or (None, None)))
        if self.budget_money is not None:
            unknown = ["--price"] if price.input is None else []
            if self.orchestrator != BUILTIN and other.input is None:
                unknown.append("--orchestrator-price")
            if unknown:
                raise InputError(
                    f"A budget of money needs prices: {', '.join(unknown)}.",
                    next_step="Give the prices per million tokens, or another budget.",
                )
        budget = Budget(self.budget_calls, self.budget_tokens, self.budget_seconds, self.budget_money)
        return SpendingLimits(budget, price, other)
