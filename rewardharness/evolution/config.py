"""Configuration of an evolution."""

from dataclasses import KW_ONLY, dataclass
from typing import TYPE_CHECKING, ClassVar, Literal

from rewardharness.data.config import DataConfig
from rewardharness.errors import InputError
from rewardharness.judging.config import JudgeConfig
from rewardharness.settings import Settings

if TYPE_CHECKING:  # help and wrong arguments are shown without loading the search
    from rewardharness.evolution.schedules import Schedule
    from rewardharness.evolution.stop import Limits

BUILTIN = "builtin"
"""Name of the Orchestrator that needs no model."""
AUDIT_SHARE = 0.25
"""Share of the examples that is held out, unless a caller chooses."""
MARGIN = 0.05
"""Loss of accuracy, in [0, 1], above which the evolved Library is not the result of the run."""
AUTO = "auto"
"""Spelling of the corrections that were made in the app for this data."""

_BUDGETS = ("budget_calls", "budget_tokens", "budget_seconds", "budget_money")


@dataclass(frozen=True)
class EvolveConfig(JudgeConfig, DataConfig):
    """Configuration of an evolution: data, judge, Orchestrator, search and budget."""

    _: KW_ONLY
    orchestrator: str = BUILTIN
    """Proposes edits: builtin (rules, no model), or a model, spelled like a judge."""
    orchestrator_images: bool = False
    """Show the Orchestrator the images of cited examples; needs a vision-language model."""
    ties: bool = False
    """Allow `tie` as a preference; always on if labels have ties."""
    schedule: Literal["default", "paper"] = "default"
    """The project's search with error control, or the loop of the paper, which has none."""
    proposals: int = 60
    """Number of edits to try."""
    iterations: int = 4
    """Iterations of the schedule `paper`."""
    batch: int = 2
    """Examples judged between two looks at the evidence."""
    refresh: bool = False
    """Judge again what an accepted edit changed; for models."""
    seed: int = 0
    """The same seed gives the same result."""
    corrections: str | None = None
    """File with labels that were corrected in the app, or auto for those of this data."""
    audit_share: float = AUDIT_SHARE
    """Share of the examples, in [0, 1), held out for the comparison at the end."""
    ensemble: int | None = None
    """Samples of the self-ensembling comparison; 0 for none (default: as many as the search cost)."""
    regression_margin: float = MARGIN
    """Accuracy that the result may lose on generated pairs with known faults."""
    budget_calls: int | None = None
    """Maximum number of judgments of the search; one is one example under one context."""
    budget_tokens: int | None = None
    """Maximum number of tokens of judge and Orchestrator together."""
    budget_seconds: float | None = None
    """Maximum duration of the search in seconds."""
    budget_money: float | None = None
    """Maximum cost of the search; needs prices."""
    price: tuple[float, float] | None = None
    """Prices of the judge per million input and output tokens."""
    orchestrator_price: tuple[float, float] | None = None
    """Prices of the Orchestrator per million input and output tokens."""
    concurrency: int | None = None
    """Examples judged at the same time."""

    lowest: ClassVar = {**JudgeConfig.lowest, "proposals": 1, "iterations": 1, "batch": 1, "concurrency": 1}

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
        from rewardharness.evolution.schedules import DefaultSchedule

        if self.schedule == "paper":
            return PaperSchedule(iterations=self.iterations)
        return DefaultSchedule(proposals=self.proposals, batch=self.batch, refresh=self.refresh)

    def make_limits(self, settings: Settings) -> "Limits":
        """Make budget and prices.

        Raises:
            InputError: If a budget of money has no prices.
        """
        from rewardharness.evolution.stop import Budget, Limits, Price

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
        return Limits(budget, price, other)
