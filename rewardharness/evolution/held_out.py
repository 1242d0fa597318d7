"""The held-out test set, which is judged once at the end of a run to measure the evolved Library.

The same examples are judged with the starting Library. A model also judges them without a Library, and with as many
samples per question as the search has spent: the accuracy that the calls would have bought without evolution.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from rewardharness.evolution.evaluator import Evaluator
from rewardharness.evolution.gate import estimate_gain, sign_test
from rewardharness.evolution.proposal import Outcome
from rewardharness.judging.report import mcnemar, wilson
from rewardharness.library.store import EMPTY, Library
from rewardharness.schema import Example, Interval, Json

LOSS_LEVEL = 0.2
"""Level of the one-sided sign test at which a loss on held-out examples undoes an evolution: strict, but not so strict
that two of forty examples undo what cross-validation on a hundred supports."""

MAX_SAMPLES = 16
"""Maximum number of samples per question for the comparison with self-ensembling."""


@dataclass(frozen=True)
class Score:
    """Accuracy of a judge on some examples."""

    n: int
    judged: int
    correct: float
    """Sum of the credits; an undecided forced choice has the expected credit of a random choice."""

    @classmethod
    def of(cls, outcomes: Iterable[Outcome]) -> "Score":
        """Count outcomes."""
        outcomes = list(outcomes)
        judged = [outcome.credit for outcome in outcomes if outcome.judged]
        return cls(len(outcomes), len(judged), math.fsum(judged))

    @property
    def accuracy(self) -> float | None:
        """Share of the judged examples that agree with their label; None if none was judged."""
        return self.correct / self.judged if self.judged else None

    @property
    def interval(self) -> Interval | None:
        """Wilson 95% confidence interval of the accuracy."""
        return wilson(self.correct, self.judged)

    def to_json(self) -> Json:
        """Convert it to JSON."""
        interval = self.interval
        bounds = None if interval is None else [interval.low, interval.high]
        return {"n": self.n, "judged": self.judged, "accuracy": self.accuracy, "interval": bounds}


@dataclass(frozen=True)
class HeldOutComparison:
    """Comparison of two judges on the examples that both judged."""

    n: int
    fixes: int
    """Examples on which the first agrees better with the label."""
    breaks: int
    """Examples on which it agrees less."""

    @classmethod
    def of(cls, ours: Iterable[Outcome], theirs: Iterable[Outcome]) -> "HeldOutComparison":
        """Compare example by example."""
        other = {outcome.example.id: outcome for outcome in theirs if outcome.judged}
        pairs = [
            (each.credit, other[each.example.id].credit) for each in ours if each.judged and each.example.id in other
        ]
        return cls(len(pairs), sum(a > b for a, b in pairs), sum(a < b for a, b in pairs))

    def to_json(self) -> Json:
        """Convert it to JSON: the net gain per example with its paired 95% CI, and the p-value (McNemar)."""
        gain, interval = estimate_gain(self.fixes, self.breaks, self.n)
        bounds = interval and list(interval)
        p_value = mcnemar(self.fixes, self.breaks)
        return {"n": self.n, "fixes": self.fixes, "breaks": self.breaks, "gain": gain, "interval": bounds, "p": p_value}


@dataclass(frozen=True)
class HeldOutResult:
    """Outcomes on the held-out test set."""

    final: tuple[Outcome, ...]
    start: tuple[Outcome, ...]
    empty: tuple[Outcome, ...]
    """Without a Library; empty for a judge without a model, which needs one."""
    ensemble: tuple[Outcome, ...] = ()
    """With the starting Library and `samples` samples per question."""
    samples: int = 0
    skipped: str = ""
    """Why there is no comparison with self-ensembling; empty if there is one."""

    @property
    def lower(self) -> bool:
        """Whether the final Library does worse than the starting one by more than chance explains (`LOSS_LEVEL`)."""
        compared = HeldOutComparison.of(self.final, self.start)
        return compared.breaks > compared.fixes and sign_test(compared.breaks, compared.fixes) <= LOSS_LEVEL

    def to_json(self) -> Json:
        """Convert it to JSON."""
        document: Json = {
            "n": len(self.final),
            "final": Score.of(self.final).to_json(),
            "start": Score.of(self.start).to_json(),
            "empty": Score.of(self.empty).to_json(),
            "final_against_start": HeldOutComparison.of(self.final, self.start).to_json(),
            "final_against_empty": HeldOutComparison.of(self.final, self.empty).to_json(),
        }
        if self.skipped:
            return {**document, "ensemble": {"skipped": self.skipped}}
        ensemble = {**Score.of(self.ensemble).to_json(), "samples": self.samples}
        return {
            **document,
            "ensemble": ensemble,
            "final_against_ensemble": HeldOutComparison.of(self.final, self.ensemble).to_json(),
        }


def samples_for(judgments: int, audit: int) -> int:
    """Return the samples per question that cost about as many judgments as the search; at least 2."""
    return max(2, min(MAX_SAMPLES, round(judgments / audit))) if audit else 0


def evaluate_held_out(
    evaluator: Evaluator,
    examples: Sequence[Example],
    start: Library,
    final: Library,
    samples: int | None,
) -> HeldOutResult:
    """Judge the held-out examples with all Libraries that are compared.

    Args:
        evaluator: The evaluator of the search; its budget does not limit this test.
        examples: The held-out examples.
        start: The starting Library.
        final: The evolved Library.
        samples: Samples of the self-ensembling comparison; None for as many as the search cost, 0 for none.

    Raises:
        Stopped: If a stop was requested.
        Paused: If the judge gives no answers.
    """
    search = evaluator.spent.judgments
    with_empty = evaluator.base_judge.uses_model
    with evaluator.outside_budget():
        libraries = dict.fromkeys((final, start, EMPTY) if with_empty else (final, start))
        times = samples_for(search, len(examples)) if samples is None else samples
        asked_again = evaluator.noisy and times > 1
        evaluator.meter.begin("audit", len(examples) * (len(libraries) + asked_again))
        judged = {library.id: tuple(evaluator.judge(library, examples)) for library in libraries}
        result = HeldOutResult(judged[final.id], judged[start.id], judged[EMPTY.id] if with_empty else ())
        if not evaluator.noisy:
            return replace(result, skipped="this judge always gives the same answer, so asking again cannot gain")
        if times < 2:
            return replace(result, skipped="not requested")
        sampled = evaluator.base_judge.with_samples(times)
        ensemble = tuple(evaluator.judge_with(sampled, f"{times}x-", start, examples))
    return replace(result, ensemble=ensemble, samples=times)
