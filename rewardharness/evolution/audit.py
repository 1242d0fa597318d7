"""The audit: at the end of a run, examples that nothing was decided on say what the evolved Library is worth.

The same examples are judged with the starting Library. A model also judges them with no Library at all, and is asked
again and again with the starting Library, as often as the search did: what the calls would have bought without
evolution.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from rewardharness.evolution.bench import JudgeBench
from rewardharness.evolution.proposal import Outcome
from rewardharness.judging.report import Z95, mcnemar, wilson
from rewardharness.library.store import EMPTY, Library
from rewardharness.schema import Example, Interval, Json

MOST_SAMPLES = 16
"""Times that each question of the audit is asked for the comparison with self-ensembling, at most."""


@dataclass(frozen=True)
class Score:
    """How a judge did on some examples."""

    n: int
    judged: int
    correct: float
    """Credit: an undecided forced choice counts as what a coin would get."""

    @classmethod
    def of(cls, outcomes: Iterable[Outcome]) -> "Score":
        """Count outcomes."""
        known = list(outcomes)
        judged = [outcome.credit for outcome in known if outcome.judged]
        return cls(len(known), len(judged), math.fsum(judged))

    @property
    def accuracy(self) -> float | None:
        """Share of the judged examples that agree with their label; None when none was judged."""
        return self.correct / self.judged if self.judged else None

    @property
    def interval(self) -> Interval | None:
        """Wilson's interval of the accuracy at 95 %."""
        return wilson(self.correct, self.judged)

    def to_json(self) -> Json:
        """Put it into JSON."""
        interval = self.interval
        bounds = None if interval is None else [interval.low, interval.high]
        return {"n": self.n, "judged": self.judged, "accuracy": self.accuracy, "interval": bounds}


@dataclass(frozen=True)
class Comparison:
    """Two judges on the same examples, those that both judged."""

    n: int
    fixes: int
    """Examples on which the one agrees better with the label than the other."""
    breaks: int
    """Examples on which it agrees less."""

    @classmethod
    def of(cls, ours: Iterable[Outcome], theirs: Iterable[Outcome]) -> "Comparison":
        """Compare example by example."""
        other = {outcome.example.id: outcome for outcome in theirs if outcome.judged}
        pairs = [
            (each.credit, other[each.example.id].credit) for each in ours if each.judged and each.example.id in other
        ]
        return cls(len(pairs), sum(a > b for a, b in pairs), sum(a < b for a, b in pairs))

    def to_json(self) -> Json:
        """Put it into JSON: the net gain per example with its paired interval at 95 %, and McNemar's exact p."""
        gain, bounds = None, None
        if self.n:
            net = self.fixes - self.breaks
            gain = net / self.n
            half = Z95 * math.sqrt(max(0.0, self.fixes + self.breaks - net * net / self.n)) / self.n
            bounds = [gain - half, gain + half]
        p_value = mcnemar(self.fixes, self.breaks)
        return {"n": self.n, "fixes": self.fixes, "breaks": self.breaks, "gain": gain, "interval": bounds, "p": p_value}


@dataclass(frozen=True)
class Audit:
    """What came of the audit."""

    final: tuple[Outcome, ...]
    start: tuple[Outcome, ...]
    empty: tuple[Outcome, ...]
    """Without a Library; none for a judge without a model, which then has nothing to go by."""
    ensemble: tuple[Outcome, ...] = ()
    """With the starting Library, every question asked `samples` times."""
    samples: int = 0
    skipped: str = ""
    """Why there is no comparison with self-ensembling; empty when there is."""

    @property
    def lower(self) -> bool:
        """Whether the final Library scores lower than the starting one."""
        start, final = Score.of(self.start).accuracy, Score.of(self.final).accuracy
        return start is not None and final is not None and final < start

    def to_json(self) -> Json:
        """Put it into JSON."""
        found: Json = {
            "n": len(self.final),
            "final": Score.of(self.final).to_json(),
            "start": Score.of(self.start).to_json(),
            "empty": Score.of(self.empty).to_json(),
            "final_against_start": Comparison.of(self.final, self.start).to_json(),
            "final_against_empty": Comparison.of(self.final, self.empty).to_json(),
        }
        if self.skipped:
            return {**found, "ensemble": {"skipped": self.skipped}}
        ensemble = {**Score.of(self.ensemble).to_json(), "samples": self.samples}
        return {
            **found,
            "ensemble": ensemble,
            "final_against_ensemble": Comparison.of(self.final, self.ensemble).to_json(),
        }


def samples_for(judgments: int, audit: int) -> int:
    """How often each question of the audit is asked, so that it costs about as much as the search; at least twice."""
    return max(2, min(MOST_SAMPLES, round(judgments / audit))) if audit else 0


def hold_audit(
    bench: JudgeBench,
    examples: Sequence[Example],
    start: Library,
    final: Library,
    samples: int | None,
) -> Audit:
    """Judge the audit examples with everything that is to be compared.

    Args:
        bench: The bench of the search. The audit is not held against its budget.
        examples: The audit.
        start: The starting Library.
        final: The evolved Library.
        samples: How often to ask; None for as often as the search asked, 0 for no such comparison.

    Raises:
        Stopped: If somebody asked for an end.
        Paused: If the judge gives no answers.
    """
    search = bench.spent.judgments
    with_empty = bench.judge_.uses_model
    with bench.outside_budget():
        libraries = dict.fromkeys((final, start, EMPTY) if with_empty else (final, start))
        times = samples_for(search, len(examples)) if samples is None else samples
        asked_again = bench.noisy and times > 1
        bench.meter.begin("audit", len(examples) * (len(libraries) + asked_again))
        judged = {library.id: tuple(bench.judge(library, examples)) for library in libraries}
        audit = Audit(judged[final.id], judged[start.id], judged[EMPTY.id] if with_empty else ())
        if not bench.noisy:
            audit = replace(audit, skipped="this judge always gives the same answer, so asking again cannot gain")
        elif times < 2:
            audit = replace(audit, skipped="not asked for")
        else:
            ensemble = tuple(bench.ask(bench.judge_.with_samples(times), f"{times}x-", start, examples))
            audit = replace(audit, ensemble=ensemble, samples=times)
    return audit
