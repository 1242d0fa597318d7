"""The plan of an evolution: its inputs, its cost estimate, and its manifest."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace

from rewardharness.data.corrections import CORRECTED
from rewardharness.data.source import Dataset, split
from rewardharness.errors import InputError
from rewardharness.evolution.config import AUDIT_SHARE
from rewardharness.evolution.estimate import Estimate, estimate
from rewardharness.evolution.proposal import Observe, Orchestrator
from rewardharness.evolution.regression import RegressionSet
from rewardharness.evolution.schedules import Schedule
from rewardharness.files import content_id
from rewardharness.judging.identity import JudgeIdentity
from rewardharness.judging.judge import Judge
from rewardharness.library.store import Library
from rewardharness.runs.spending import UNLIMITED, SpendingLimits
from rewardharness.schema import Example, Json

LEAST = 8
"""Minimum number of labeled examples."""


@dataclass(frozen=True)
class EvolutionPlan:
    """The inputs of a run."""

    dataset: Dataset
    library: Library
    """The starting Library."""
    judge: Judge
    orchestrator: Orchestrator
    schedule: Schedule
    observe: Observe
    """Returns the grades of the measures for an example."""
    seed: int = 0
    audit_share: float = AUDIT_SHARE
    limits: SpendingLimits = UNLIMITED
    samples: int | None = None
    """Samples per question of the self-ensembling comparison; None for as many as the search used, 0 for none."""
    concurrency: int = 8
    """Examples judged at the same time."""
    regression: RegressionSet = field(default_factory=RegressionSet)
    """Pairs on which the result must not do worse."""
    corrections: Mapping[str, str] = field(default_factory=dict)
    """Corrected labels of training examples, by id. Held-out examples keep the original labels."""

    limit: int | None = None
    """Number of examples that are used, if not all of the data."""

    @property
    def parts(self) -> tuple[tuple[Example, ...], tuple[Example, ...]]:
        """The labeled examples, divided into training and held-out examples.

        Raises:
            InputError: If there are too few, or none can be held out.
        """
        labeled = [example for example in self.dataset.examples if example.preference is not None]
        if len(labeled) < LEAST:
            raise InputError(
                f"{self.dataset.name} has {len(labeled)} labeled examples. Evolving needs at least {LEAST}.",
                next_step="Label more, or generate some: rh data demo FOLDER.",
            )
        pool, audit = split(labeled, share=self.audit_share, seed=self.seed)
        if self.audit_share and not audit:
            raise InputError(
                f"All labeled examples of {self.dataset.name} have the same source image, so none can be held out.",
                next_step="Add examples of other source images, or hold out none: --audit-share 0.",
            )
        right = self.corrections
        return tuple(
            replace(example, preference=right[example.id], label_kind=CORRECTED) if example.id in right else example
            for example in pool
        ), audit

    @property
    def manifest(self) -> Json:
        """What must stay the same when a run is resumed. Budgets may change."""
        return {
            "command": "evolve",
            "data": self.dataset.digest,
            "data_name": self.dataset.name,
            **JudgeIdentity.of(self.judge, self.library).to_json(),
            "orchestrator": self.orchestrator.name,
            "schedule": {"name": self.schedule.name, **asdict(self.schedule)},  # type: ignore[call-overload]
            "seed": self.seed,
            "audit_share": self.audit_share,
            "samples": self.samples,
            "router": self.judge.traits.router_id,
            **({"limit": self.limit} if self.limit else {}),
            "corrections": content_id(dict(self.corrections)) if self.corrections else None,
        }

    @property
    def estimate(self) -> Estimate:
        """The cost estimate."""
        most, pairs = self.limits.budget.judgments, self.regression.pairs
        return estimate(self.schedule, self.judge, self.library, self.parts, self.samples, most, pairs)

    def check_budget(self) -> None:
        """Check that the budget is not spent before the search.

        Raises:
            InputError: If it is too small.
        """
        most, begin = self.limits.budget.judgments, self.estimate.begin
        if most is not None and most <= begin:
            raise InputError(
                f"A budget of {most} {'judgment' if most == 1 else 'judgments'} leaves nothing to search with: "
                f"the {begin} training examples are judged first.",
                next_step="Increase the budget, or use fewer examples.",
            )
