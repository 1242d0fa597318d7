"""Configuration of an evolution."""

from dataclasses import KW_ONLY, dataclass, field, replace
from typing import TYPE_CHECKING, ClassVar, Literal, Self

from rewardharness.codec import READS, SENDS
from rewardharness.data.config import DataConfig
from rewardharness.errors import InputError
from rewardharness.judging.config import JudgeConfig
from rewardharness.ranges import POSITIVE, SHARE, Range
from rewardharness.runs.spending import BudgetConfig, Price, SpendingLimits
from rewardharness.settings import Settings

if TYPE_CHECKING:  # help and wrong arguments are shown without loading the search
    from rewardharness.evolution.schedules import Schedule

BUILTIN = "builtin"
"""Name of the Orchestrator that needs no model."""
AUDIT_SHARE = 0.25
"""Share of the examples that is held out, unless a caller chooses."""
MARGIN = 0.05
"""Loss of accuracy, in [0, 1], above which the evolved Library is not the result of the run."""
AUTO = "auto"
"""Spelling of the corrections that were made in the app for this data."""


@dataclass(frozen=True, kw_only=True)
class SearchBudgetConfig(BudgetConfig):
    """Limits and prices of the search. The comparison on held-out examples at the end is not limited."""

    budget_calls: int | None = None
    """Judgments (one example in one context)."""
    budget_seconds: float | None = None
    """Duration in seconds."""
    orchestrator_price: tuple[float, float] | None = None
    """Orchestrator, per million tokens."""


@dataclass(frozen=True)
class EvolveConfig(SearchBudgetConfig, JudgeConfig, DataConfig):
    """Configuration of an evolution: data, judge, Orchestrator, search and budget."""

    _: KW_ONLY
    orchestrator: str = field(default=BUILTIN, metadata=SENDS)
    """builtin (rules), or a model."""
    initializer_model: str | None = field(default=None, metadata=SENDS)
    """Model that writes the Library of --library llm."""
    orchestrator_images: bool = False
    """Show a model the images of cited examples."""
    ties: bool = False
    """Allow ties even if no label is a tie."""
    schedule: Literal["default", "iterative", "evolutionary", "pareto", "random", "paper"] = "default"
    """Strategy."""
    population: int = 8
    """Libraries of a population."""
    parents: Literal["rank", "tournament", "top_k", "pareto"] = "tournament"
    """Choice of parents."""
    operators: Literal["success_feedback", "fixed", "exploration_decay", "diversity_driven"] = "success_feedback"
    """Choice of operators."""
    objective: Literal["default", "accuracy"] = "default"
    """Rating."""
    proposals: int = 60
    """Number of edits to try."""
    islands: int = 1
    """Populations that take turns."""
    iterations: int = 4
    """Iterations of the schedule paper."""
    seed: int = 0
    """Random seed."""
    limit: int | None = None
    """Use the first examples only."""
    corrections: str | None = field(default=None, metadata=READS)
    """Labels corrected in the app: a file, or auto."""
    audit_share: float = AUDIT_SHARE
    """Share of held-out examples."""
    ensemble: int | None = None
    """Samples for self-ensembling; 0: none."""
    regression_margin: float = MARGIN
    """Loss allowed on known faults."""
    concurrency: int | None = None
    """Examples judged at the same time."""

    ranges: ClassVar = {
        **JudgeConfig.ranges,
        **dict.fromkeys(("budget_calls", "budget_tokens", "budget_seconds", "budget_usd"), POSITIVE),
        **dict.fromkeys(("price", "orchestrator_price", "ensemble"), Range(0)),
        **dict.fromkeys(("proposals", "islands", "iterations", "limit", "concurrency"), Range(1)),
        "population": Range(2),
        "audit_share": Range(0, 1, (1,)),
        "regression_margin": SHARE,
    }

    def with_defaults(self, settings: Settings) -> Self:
        """See `JudgeConfig.with_defaults`. Demo data start from a thin Library, so that there is something to gain."""
        from rewardharness.data.opening import DEMO, DEMO_TEXTS
        from rewardharness.library.opening import BUILTIN, THIN, THIN_TEXT

        usual = self.library is None and settings.library == BUILTIN
        thin = {DEMO: THIN, DEMO_TEXTS: THIN_TEXT}.get(self.data or "") if usual else None
        return super(EvolveConfig, replace(self, library=thin) if thin else self).with_defaults(settings)

    def make_schedule(self) -> "Schedule":
        """Make the order of the search."""
        from rewardharness.evolution.population import PopulationSchedule
        from rewardharness.evolution.schedules import DefaultSchedule, PaperSchedule

        if self.schedule == "paper":
            return PaperSchedule(iterations=self.iterations)
        if self.schedule != "default":
            choices = self.parents, self.operators, self.objective, self.islands
            return PopulationSchedule(self.schedule, self.proposals, self.population, *choices)
        return DefaultSchedule(proposals=self.proposals)

    def make_limits(self, settings: Settings) -> SpendingLimits:
        """Make budget and prices; see `BudgetConfig.make_limits`."""
        limits, other = super().make_limits(settings), Price(*(self.orchestrator_price or (None, None)))
        if self.budget_usd is not None and self.orchestrator != BUILTIN and other.input is None:
            raise InputError(
                "A budget of money needs prices: --orchestrator-price.",
                next_step="Give the prices per million tokens, or another budget.",
            )
        budget = replace(limits.budget, judgments=self.budget_calls, seconds=self.budget_seconds)
        return SpendingLimits(budget, limits.judge_price, other)
