"""Ensembles: several judges as one, `mean(JUDGE, JUDGE, ...)`.

The rewards and margins of all members are averaged; how far they differ is the variance. What one of them cannot judge,
the ensemble does not judge: the mean of the others is another judge, and not comparable.

`each(JUDGE, JUDGE, ...)` is for evolution, which judges with each of them on its own; elsewhere it judges as `mean`.
"""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from statistics import fmean, pstdev, variance

from rewardharness.errors import InputError
from rewardharness.files import content_id
from rewardharness.judging.groups import margin_between, rank
from rewardharness.judging.interface import Traits, unjudged
from rewardharness.judging.judge import Judge
from rewardharness.library.store import Library
from rewardharness.schema import TIE, Example, Failure, Judgment, Scores, Usage
from rewardharness.views import DIMENSIONS


@dataclass(frozen=True, repr=False)
class EnsembleJudge(Judge):
    """Several judges as one.

    Args:
        members: The judges.
        scales: Mean and standard deviation of the rewards of each member on some data; see `standardized`.
        apart: Whether evolution judges with each of them on its own.
    """

    members: tuple[Judge, ...]
    scales: tuple[tuple[float, float], ...] = field(default=())
    apart: bool = False

    @property
    def name(self) -> str:
        """The names of all members."""
        return f"{'each' if self.apart else 'mean'}({', '.join(member.name for member in self.members)})"

    @property
    def protocol(self) -> str:
        """The protocols of all members."""
        kind = "each" if self.apart else "mean of standardized rewards" if self.scales else "mean"
        return f"{kind}: {'; '.join(member.protocol for member in self.members)}"

    @property
    def revision(self) -> str:
        """Content id of the revisions of all members."""
        kind = "each" if self.apart else "ensemble"
        return content_id([kind, *(member.revision for member in self.members), self.scales])

    @property
    def traits(self) -> Traits:  # type: ignore[override]  # read-only
        """What all members can do."""
        first, *others = (member.traits for member in self.members)
        tasks = tuple(task for task in first.tasks if all(task in other.tasks for other in others))
        traits = [first, *others]
        return Traits(
            tasks,
            concurrency=min(trait.concurrency for trait in traits),
            uses_model=any(trait.uses_model for trait in traits),
            uses_library=any(trait.uses_library for trait in traits),
            needs_ids=any(trait.needs_ids for trait in traits),
            needs_pixels=any(trait.needs_pixels for trait in traits),
            calls_tools=self.apart and any(trait.calls_tools for trait in traits),
            router_id=next((trait.router_id for trait in traits if self.apart and trait.router_id), None),
        )

    def with_ties(self, ties: bool) -> "EnsembleJudge":
        """Return the same judge whose members have `tie` among their answers, or not."""
        return replace(self, members=tuple(member.with_ties(ties) for member in self.members))

    def standardized(self, judgments: Sequence[Sequence[Judgment]]) -> "EnsembleJudge":
        """Return the same judge with the rewards of each member divided by their spread on some data.

        Without this, a member whose rewards differ more has more weight.

        Args:
            judgments: For each member its judgments of the data.

        Raises:
            InputError: If a member gave fewer than two different rewards.
        """
        scales = []
        for member, several in zip(self.members, judgments, strict=True):
            rewards = [
                score.reward for judged in several for score in judged.scores.values() if score.reward is not None
            ]
            if len(set(rewards)) < 2:
                raise InputError(f"{member.name} gave too few rewards to scale them.", next_step="Judge more examples.")
            scales.append((fmean(rewards), pstdev(rewards)))
        return replace(self, scales=tuple(scales))

    async def judge(self, example: Example, library: Library) -> Judgment:
        """Judge one example with all members at once."""
        judgments = await asyncio.gather(*(member.judge(example, library) for member in self.members))
        usage = sum((member_judgment.usage for member_judgment in judgments), Usage())
        usage = replace(usage, seconds=max(member_judgment.usage.seconds for member_judgment in judgments))
        failure = _failed({member.name: judged for member, judged in zip(self.members, judgments, strict=True)})
        steps = tuple(step for member_judgment in judgments for step in member_judgment.steps)
        if failure is not None:
            return replace(unjudged(example, self, library, failure, usage), steps=steps)
        scores = self._scores(example.labels, judgments)
        judgment = replace(
            judgments[0],
            judge=self.name,
            protocol=self.protocol,
            scores=scores,
            steps=steps,
            notes=tuple(dict.fromkeys(note for member_judgment in judgments for note in member_judgment.notes)),
            usage=usage,
            position_consistent=None,
            critiques={},
        )
        if len(example.labels) == 1:
            return judgment
        margins = self._margins(example.labels, judgments, scores)
        ranking = rank(example.labels, margins)
        level = len(ranking[0]) > 1
        margin = 0.0 if level else margin_between(margins, ranking[0][0], ranking[1][0]) or 0.0
        preference = TIE if level else ranking[0][0]
        agree = [member_judgment.preference == preference for member_judgment in judgments]
        note = f"{sum(agree)} of {len(agree)} judges prefer this." if not level else "The judges balance each other."
        return replace(
            judgment,
            preference=preference,
            ranking=ranking,
            margin=abs(margin),
            confidence=abs(margin),
            notes=(*judgment.notes, note),
        )

    async def close(self) -> None:
        """Close all members."""
        await asyncio.gather(*(member.close() for member in self.members))

    def _scores(self, labels: Sequence[str], judgments: Sequence[Judgment]) -> dict[str, Scores]:
        """Return the mean scores of the candidates that all members scored."""
        scores: dict[str, Scores] = {}
        for label in labels:
            several = [judgment.scores.get(label) for judgment in judgments]
            rewards = [score.reward for score in several if score is not None and score.reward is not None]
            if len(rewards) < len(several):
                continue
            values = [self._scaled(number, reward) for number, reward in enumerate(rewards)]
            parts = [
                [part for score in several if score is not None and (part := getattr(score, name)) is not None]
                for name in DIMENSIONS
            ]
            means = [fmean(part) if len(part) == len(several) else None for part in parts]
            scores[label] = Scores(means[0], means[1], fmean(values), variance(values), means[2])
        return scores

    def _scaled(self, member: int, reward: float) -> float:
        """Standardize a reward; 0.5 is the mean of its member, and two standard deviations reach 0 and 1."""
        if not self.scales:
            return reward
        mean, spread = self.scales[member]
        return min(max(0.5 + (reward - mean) / spread / 4, 0.0), 1.0)

    def _margins(
        self, labels: Sequence[str], judgments: Sequence[Judgment], scores: Mapping[str, Scores]
    ) -> dict[tuple[str, str], float]:
        """Return the mean margin of each pair: of the rewards if all candidates have one, else of the votes."""
        margins: dict[tuple[str, str], float] = {}
        for one, other in combinations(sorted(labels), 2):
            if one in scores and other in scores and self.scales:
                margins[one, other] = scores[one].value_or_evidence - scores[other].value_or_evidence
            else:
                margins[one, other] = fmean(_lead(judgment, one, other) for judgment in judgments)
        return margins


def judges_of(judge: Judge) -> tuple[Judge, ...]:
    """Return the judges that evolution judges with, each on its own: several of `each(...)`, otherwise the judge."""
    return judge.members if isinstance(judge, EnsembleJudge) and judge.apart else (judge,)


def _lead(judgment: Judgment, one: str, other: str) -> float:
    """Return the margin of one candidate over another in a judgment, in [-1, 1]."""
    place = {label: number for number, level in enumerate(judgment.ranking) for label in level}
    sign = (place[other] > place[one]) - (place[other] < place[one])
    if len(place) == 2 and judgment.margin is not None:
        return sign * judgment.margin
    scored = judgment.scores.get(one), judgment.scores.get(other)
    if scored[0] is not None and scored[1] is not None:
        return scored[0].value_or_evidence - scored[1].value_or_evidence
    return float(sign)


def _failed(judgments: Mapping[str, Judgment]) -> Failure | None:
    """Return the first failure of several judges, with its judge; None if all judged."""
    for name, judgment in judgments.items():
        if judgment.failure is not None:
            said = judgment.failure.message.removeprefix(f"{name}: ")
            return replace(judgment.failure, message=f"{name}: {said}")
    return None
