"""The held-out test set, which is judged once at the end of a run to measure the evolved Library.

The same examples are judged with the starting Library. A model also judges them without a Library, and with as many
samples per question as the search has spent: the accuracy that the calls would have bought without evolution.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace

from rewardharness.codec import UNSET, UnsetType
from rewardharness.evolution.evaluator import Evaluator
from rewardharness.evolution.gate import estimate_gain, sign_test
from rewardharness.evolution.proposal import Outcome
from rewardharness.judging.ensemble import judges_of
from rewardharness.judging.report import mcnemar, wilson
from rewardharness.judging.subagent import with_samples
from rewardharness.library.store import EMPTY, Library
from rewardharness.schema import Example

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
    accuracy: float | None
    """Share of the judged examples that agree with their label; None if none was judged. An undecided forced choice has
    the expected credit of a random choice."""
    interval: tuple[float, float] | None
    """Wilson 95% confidence interval of the accuracy."""

    @classmethod
    def of(cls, outcomes: Iterable[Outcome]) -> "Score":
        """Count outcomes."""
        outcomes = list(outcomes)
        judged = [outcome.credit for outcome in outcomes if outcome.judged]
        correct = math.fsum(judged)
        interval = wilson(correct, len(judged))
        accuracy = correct / len(judged) if judged else None
        return cls(len(outcomes), len(judged), accuracy, None if interval is None else (interval.low, interval.high))


@dataclass(frozen=True)
class HeldOutComparison:
    """Comparison of two judges on the examples that both judged."""

    n: int
    fixes: int
    """Examples on which the first agrees better with the label."""
    breaks: int
    """Examples on which it agrees less."""
    gain: float | None
    """Net gain per example; None without examples."""
    interval: tuple[float, float] | None
    """Its paired 95% confidence interval."""
    p: float | None
    """P-value (McNemar); None without a difference."""

    @classmethod
    def of(cls, ours: Iterable[Outcome], theirs: Iterable[Outcome]) -> "HeldOutComparison":
        """Compare example by example."""
        others = {outcome.example.id: outcome.credit for outcome in theirs if outcome.judged}
        both = (outcome for outcome in ours if outcome.judged and outcome.example.id in others)
        pairs = [(outcome.credit, others[outcome.example.id]) for outcome in both]
        fixes, breaks = sum(a > b for a, b in pairs), sum(a < b for a, b in pairs)
        return cls(len(pairs), fixes, breaks, *estimate_gain(fixes, breaks, len(pairs)), mcnemar(fixes, breaks))


@dataclass(frozen=True)
class EnsembleScore:
    """The starting Library with several samples per question; only `skipped` is set if that was not judged."""

    n: int | UnsetType = UNSET
    judged: int | UnsetType = UNSET
    accuracy: float | UnsetType | None = UNSET
    interval: tuple[float, float] | UnsetType | None = UNSET
    samples: int | UnsetType = UNSET
    """Samples per question."""
    skipped: str | UnsetType = UNSET
    """Why it was not judged."""

    @property
    def score(self) -> Score | None:
        """The accuracy; None if it was not judged."""
        return None if self.skipped else Score(*(getattr(self, name) for name in Score.__dataclass_fields__))


@dataclass(frozen=True)
class JudgeComparison:
    """One of several judges on the held-out test set."""

    final: Score
    start: Score
    final_against_start: HeldOutComparison

    @classmethod
    def of(cls, judge: str, *judged: Sequence[Outcome]) -> "JudgeComparison":
        """Compare the outcomes of a judge with the final Library and with the starting one."""
        final, start = (
            [replace(outcome, credit=outcome.credits.get(judge, 0.0)) for outcome in outcomes] for outcomes in judged
        )
        return cls(Score.of(final), Score.of(start), HeldOutComparison.of(final, start))


@dataclass(frozen=True)
class HeldOutReport:
    """Accuracies on the held-out test set."""

    n: int
    final: Score
    start: Score
    empty: Score
    """Without a Library; of no example for a judge without a model."""
    final_against_start: HeldOutComparison
    final_against_empty: HeldOutComparison
    ensemble: EnsembleScore
    final_against_ensemble: HeldOutComparison | UnsetType = UNSET
    by_judge: Mapping[str, JudgeComparison] | UnsetType = UNSET
    """Each of several judges; omitted for one."""

    @classmethod
    def of(
        cls, *judged: Sequence[Outcome], ensemble: Sequence[Outcome] = (), samples: int = 0, skipped: str = ""
    ) -> "HeldOutReport":
        """Compare outcomes.

        Args:
            judged: With the final Library, with the starting one, and without one; none of the latter for a judge
                without a model, which needs one.
            ensemble: With the starting Library and `samples` samples per question.
            samples: Samples per question.
            skipped: Why there is no comparison with self-ensembling; empty if there is one.
        """
        final, start, empty = judged
        scores = Score.of(final), Score.of(start), Score.of(empty)
        compared = HeldOutComparison.of(final, start), HeldOutComparison.of(final, empty)
        if skipped:
            return cls(len(final), *scores, *compared, EnsembleScore(skipped=skipped))
        sampled = EnsembleScore(**vars(Score.of(ensemble)), samples=samples)
        return cls(len(final), *scores, *compared, sampled, HeldOutComparison.of(final, ensemble))

    @property
    def lower(self) -> bool:
        """Whether the final Library does worse than the starting one by more than chance explains (`LOSS_LEVEL`)."""
        fixes, breaks = self.final_against_start.fixes, self.final_against_start.breaks
        return breaks > fixes and sign_test(breaks, fixes) <= LOSS_LEVEL


def samples_for(judgments: int, held_out: int) -> int:
    """Return the samples per question that cost about as many judgments as the search; at least 2."""
    return max(2, min(MAX_SAMPLES, round(judgments / held_out))) if held_out else 0


def evaluate_held_out(
    evaluator: Evaluator, examples: Sequence[Example], start: Library, final: Library, samples: int | None
) -> tuple[HeldOutReport, list[Outcome], list[Outcome]]:
    """Judge the held-out examples with all Libraries that are compared.

    Args:
        evaluator: The evaluator of the search; its budget does not limit this test.
        examples: The held-out examples.
        start: The starting Library.
        final: The evolved Library.
        samples: Samples of the self-ensembling comparison; None for as many as the search cost, 0 for none.

    Returns:
        The comparison, and the outcomes with the starting and with the final Library.

    Raises:
        Stopped: If a stop was requested.
        Paused: If the judge gives no answers.
    """
    times = samples_for(evaluator.spent.judgments, len(examples)) if samples is None else samples
    libraries = dict.fromkeys((final, start, EMPTY) if evaluator.base_judge.traits.uses_model else (final, start))
    skipped = "" if times > 1 else "not requested"
    if not evaluator.noisy:
        skipped = "this judge always gives the same answer, so asking again cannot gain"
    if len(judges_of(evaluator.base_judge)) > 1:
        skipped = "several judges are not sampled again"
    with evaluator.outside_budget():
        evaluator.meter.begin("audit", len(examples) * (len(libraries) + (not skipped)))
        judged = {library.id: evaluator.judge(library, examples) for library in libraries}
        empty = judged[EMPTY.id] if evaluator.base_judge.traits.uses_model else []
        all_judged = judged[final.id], judged[start.id], empty
        if skipped:
            report = HeldOutReport.of(*all_judged, skipped=skipped)
        else:
            sampled = with_samples(evaluator.base_judge, times)
            ensemble = evaluator.judge_with(sampled, f"{times}x-", start, examples)
            report = HeldOutReport.of(*all_judged, ensemble=ensemble, samples=times)
    if names := dict.fromkeys(name for outcome in judged[final.id] for name in outcome.credits):
        by_judge = {name: JudgeComparison.of(name, judged[final.id], judged[start.id]) for name in names}
        report = replace(report, by_judge=by_judge)
    return report, judged[start.id], judged[final.id]
