"""What a run is expected to cost, said before anything is spent."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from statistics import fmean

from rewardharness.evolution.audit import samples_for
from rewardharness.evolution.bench import may_fire
from rewardharness.evolution.paper import PaperSchedule
from rewardharness.evolution.schedules import DefaultSchedule, Schedule
from rewardharness.judging.judge import Judge
from rewardharness.library.store import Library
from rewardharness.schema import Example

USUAL_SHARE = 0.4
"""Part of the examples that an edit touches that the gate looks at, on average: the rest is settled by then. From
`benchmarks/evolution_calls.py`."""

REMEMBERED = 0.02
"""What a judgment from remembered measurements takes, in judgments that measure."""

SMALL = 0.15
"""The same for drawing a small pair of the regression set, or measuring it."""

USUAL_REACH = 0.35
"""Share of the pool that an entry touches, where there are no entries to go by."""


@dataclass(frozen=True)
class Estimate:
    """Judgments that a run is expected to make. One judgment is one example under one context."""

    begin: int
    """To judge the pool with the starting Library."""
    search: int
    """For the gates: what is usual."""
    most: int
    """For the gates, if every proposal were judged on all that it can touch."""
    audit: int
    """For the audit: final and starting Library, for a model also the empty one."""
    ensemble: int
    """For the comparison with self-ensembling."""
    regression: int
    """For the regression set, with the starting and the final Library."""
    requests: int
    """Requests to a model per judgment, at least; 0 for a judge without a model."""

    @property
    def expected(self) -> int:
        """All of it, as is usual."""
        return self.begin + self.search + self.audit + self.ensemble + self.regression

    @property
    def work(self) -> dict[str, float]:
        """What each phase of `progress.PHASES` takes, in judgments that have to be measured or asked for."""
        search, audit, regression = self.search + 0.0, self.audit + self.ensemble + 0.0, self.regression + 0.0
        if not self.requests:  # each example is measured once, whatever the Library
            search, audit, regression = search * REMEMBERED, audit / 2, regression / 2 * SMALL
        drawing = self.regression / 2 * SMALL
        return {
            "pool": float(self.begin), "search": search, "audit": audit, "drawing": drawing, "regression": regression
        }  # fmt: skip

    def to_json(self) -> dict[str, int]:
        """Put it into JSON."""
        return {**asdict(self), "expected": self.expected}


def estimate(
    schedule: Schedule,
    judge: Judge,
    library: Library,
    parts: tuple[Sequence[Example], Sequence[Example]],
    samples: int | None,
    most: int | None,
    regression_pairs: int = 0,
) -> Estimate:
    """Say what a run is expected to cost.

    Args:
        schedule: The order of things.
        judge: Who judges.
        library: The starting Library.
        parts: Pool and audit.
        samples: How often each question of the audit is asked for self-ensembling; None for as often as the search
            asked, 0 for none.
        most: The budget of judgments; None for no limit.
        regression_pairs: Pairs of the regression set.
    """
    pool, audit = parts
    begin = len(schedule.watched(tuple(pool)))
    if isinstance(schedule, PaperSchedule):
        read = 2 * (len(pool) - begin)
        usual = upper = read + schedule.iterations * (read + 2 * begin)
    else:
        assert isinstance(schedule, DefaultSchedule)
        reach = _reach(library, pool)
        usual = math.ceil(schedule.proposals * USUAL_SHARE * reach * len(pool) * (1 + schedule.prune_share))
        upper = math.ceil(schedule.proposals * len(pool) * (1 + schedule.prune_share))
    if most is not None:
        usual, upper = (max(0, min(value, most - begin)) for value in (usual, upper))
    times = samples_for(begin + usual, len(audit)) if samples is None else samples
    ensemble = times * len(audit) if judge.uses_model and times > 1 else 0
    requests = min((judge.estimate_cost(example) for example in pool), default=0)
    held_out = (3 if judge.uses_model else 2) * len(audit)
    return Estimate(begin, usual, upper, held_out, ensemble, 2 * regression_pairs, requests)


def _reach(library: Library, pool: Sequence[Example]) -> float:
    """Share of the pool that an entry touches, on average over the entries that touch any."""
    shares = [fmean(may_fire(entry, example.instruction, False) for example in pool) for entry in library.entries]
    shares = [share for share in shares if share]
    return fmean(shares) if shares else USUAL_REACH
