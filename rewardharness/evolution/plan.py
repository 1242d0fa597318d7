"""The plan of an evolution: what a run is about, what it costs, and what must not change while it goes on."""

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
from rewardharness.evolution.stop import UNLIMITED, Limits
from rewardharness.files import content_id
from rewardharness.judging.identity import JudgeIdentity
from rewardharness.judging.judge import Judge
from rewardharness.library.store import Library
from rewardharness.schema import Example, Json

LEAST = 8
"""Labelled examples that an evolution needs at least."""


@dataclass(frozen=True)
class Plan:
    """What a run is about."""

    dataset: Dataset
    library: Library
    """Where it starts."""
    judge: Judge
    orchestrator: Orchestrator
    schedule: Schedule
    observe: Observe
    """What the measures say of an example."""
    seed: int = 0
    audit_share: float = AUDIT_SHARE
    limits: Limits = UNLIMITED
    samples: int | None = None
    """Samples per question of the self-ensembling comparison; None for as many as the search used, 0 for none."""
    concurrency: int = 8
    """Examples under way at once."""
    regression: RegressionSet = field(default_factory=RegressionSet)
    """Pairs on which the result must not do worse."""
    corrections: Mapping[str, str] = field(default_factory=dict)
    """Labels of examples of the pool that a person has corrected, by id. The audit keeps those that were given."""

    @property
    def parts(self) -> tuple[tuple[Example, ...], tuple[Example, ...]]:
        """The labelled examples, divided into pool and audit.

        Raises:
            InputError: If there are too few, or none can be put aside for the audit.
        """
        labelled = [example for example in self.dataset.examples if example.preference is not None]
        if len(labelled) < LEAST:
            raise InputError(
                f"Labelled examples of {self.dataset.name}: {len(labelled)}. Evolving needs at least {LEAST}.",
                next_step="Label more, or make some: rh demo-data FOLDER.",
            )
        pool, audit = split(labelled, share=self.audit_share, seed=self.seed)
        if self.audit_share and not audit:
            raise InputError(
                f"All labelled examples of {self.dataset.name} are of one source image, so none can be put aside for "
                "the audit.",
                next_step="Add examples of other source images, or do without an audit: --audit-share 0.",
            )
        right = self.corrections
        return tuple(
            replace(example, preference=right[example.id], label_kind=CORRECTED) if example.id in right else example
            for example in pool
        ), audit

    @property
    def manifest(self) -> Json:
        """What must not change while a run goes on. Budgets may."""
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
            "router": self.judge.router_id,
            "corrections": content_id(dict(self.corrections)) if self.corrections else None,
        }

    @property
    def estimate(self) -> Estimate:
        """What it is expected to cost."""
        most, pairs = self.limits.budget.judgments, self.regression.pairs
        return estimate(self.schedule, self.judge, self.library, self.parts, self.samples, most, pairs)

    def check_budget(self) -> None:
        """Make sure that the budget is not spent before the search begins.

        Raises:
            InputError: If it is.
        """
        most, begin = self.limits.budget.judgments, self.estimate.begin
        if most is not None and most <= begin:
            raise InputError(
                f"A budget of {most} {'judgment' if most == 1 else 'judgments'} leaves nothing to search with: judging "
                f"the {begin} examples of the pool once comes first.",
                next_step="Allow more, or use fewer examples.",
            )
