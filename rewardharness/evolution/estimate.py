"""The cost estimate of a run."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import fmean

from rewardharness.evolution.evaluator import may_fire
from rewardharness.evolution.gate import detectable_gain
from rewardharness.evolution.held_out import samples_for
from rewardharness.evolution.population import FINAL_TESTS, RACE, PopulationSchedule
from rewardharness.evolution.schedules import DefaultSchedule, PaperSchedule, Schedule
from rewardharness.evolution.steps import EVIDENCE_SHARE
from rewardharness.judging.judge import Judge
from rewardharness.judging.subagent import count_crops, count_requests
from rewardharness.library.store import Library
from rewardharness.schema import Example

USUAL_SHARE = 0.2
"""Average share of the examples that an edit affects, on which it is judged in screening and tests, from
`benchmarks/evolution_calls.py`."""

CACHED = 0.02
"""Work of a judgment from cached measurements, relative to one that measures."""

SMALL = 0.15
"""Work of generating or measuring a small pair of the regression set."""

USUAL_REACH = 0.35
"""Share of the training examples that an entry touches, if the Library has no entries."""


@dataclass(frozen=True)
class Estimate:
    """Expected judgments of a run. One judgment is one example in one context."""

    begin: int
    """Training examples with the starting Library."""
    search: int
    """Acceptance tests, usual number."""
    most: int
    """Acceptance tests, maximum: every proposal on all examples that it can touch."""
    audit: int
    """Held-out examples with final and starting Library, for a model also without one."""
    ensemble: int
    """Comparison with self-ensembling."""
    regression: int
    """Regression set with the starting and the final Library."""
    requests: int
    """Minimum number of requests to a model per judgment; 0 for a judge without a model."""
    crops: int = 0
    """Maximum number of images that measured evidence adds to the requests of a judgment."""
    expected: int = field(init=False)
    """The usual total."""

    def __post_init__(self) -> None:
        total = self.begin + self.search + self.audit + self.ensemble + self.regression
        object.__setattr__(self, "expected", total)

    @property
    def work(self) -> dict[str, float]:
        """Work of each phase of `progress.PHASES`, in judgments that measure or query a model."""
        search, held_out, regression = float(self.search), float(self.audit + self.ensemble), float(self.regression)
        drawing = regression / 2 * SMALL
        if not self.requests:  # each example is measured once for all Libraries
            search, held_out, regression = search * CACHED, held_out / 2, drawing
        values = (float(self.begin), search, held_out, drawing, regression)
        return dict(zip(("pool", "search", "audit", "drawing", "regression"), values, strict=True))

    @property
    def words(self) -> str:
        """The estimate in sentences, with the gain that the training examples can show."""
        parts = [f"{self.begin} for the training examples", f"about {self.search} to test edits (at most {self.most})"]
        parts += [f"{self.audit} for the held-out test set"]
        parts += [f"{self.regression} for the regression set"] if self.regression else []
        if self.ensemble:
            parts += [f"{self.ensemble} for the comparison with self-ensembling (--ensemble 0: none)"]
        text = f"Expected: about {self.expected} judgments: {', '.join(parts)}."
        gain = round(100 * detectable_gain(max(1, self.begin)))
        text += f" With {self.begin} training examples, a gain of about {gain} points or more can be detected."
        return text if self.requests else f"{text} No model judges, so they cost only time."


def estimate(
    schedule: Schedule,
    judge: Judge,
    library: Library,
    parts: tuple[Sequence[Example], Sequence[Example]],
    samples: int | None,
    most: int | None,
    regression_pairs: int = 0,
) -> Estimate:
    """Estimate the cost of a run.

    Args:
        schedule: The order of the search.
        judge: The judge.
        library: The starting Library.
        parts: Training and held-out examples.
        samples: Samples of the self-ensembling comparison; None for as many as the search costs, 0 for none.
        most: The budget of judgments; None for no limit.
        regression_pairs: Pairs of the regression set.
    """
    training, held_out = parts
    uses_model = judge.traits.uses_model
    begin = len(schedule.watched(tuple(training)))
    if isinstance(schedule, PaperSchedule):
        read = 2 * (len(training) - begin)
        usual = upper = read + schedule.iterations * (read + 2 * begin)
    elif isinstance(schedule, PopulationSchedule):
        read = math.ceil((1 - EVIDENCE_SHARE) * len(training))
        usual = math.ceil(schedule.proposals * (RACE[0] + (read - RACE[0]) / 3)) + len(training)
        upper = schedule.proposals * read + FINAL_TESTS * len(training)
    else:
        assert isinstance(schedule, DefaultSchedule)
        reach = _reach(library, training)
        usual = math.ceil(schedule.proposals * USUAL_SHARE * reach * len(training) * (1 + schedule.prune_share))
        upper = math.ceil(schedule.proposals * len(training) * (1 + schedule.prune_share))
    if most is not None:
        usual, upper = (max(0, min(value, most - begin)) for value in (usual, upper))
    times = samples_for(begin + usual, len(held_out)) if samples is None else samples
    ensemble = times * len(held_out) if uses_model and times > 1 else 0
    requests = min((count_requests(judge, example) for example in training), default=0)
    crops = max((count_crops(judge, example) for example in training), default=0)
    audit = (3 if uses_model else 2) * len(held_out)
    return Estimate(begin, usual, upper, audit, ensemble, 2 * regression_pairs, requests, crops)


def _reach(library: Library, training: Sequence[Example]) -> float:
    """Return the average share of the training examples that an entry touches, over entries that touch any."""
    shares = [fmean(may_fire(entry, example.instruction, False) for example in training) for entry in library.entries]
    shares = [share for share in shares if share]
    return fmean(shares) if shares else USUAL_REACH
