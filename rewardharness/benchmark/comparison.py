"""Two runs on the same examples, compared example by example: paired, which says far more than two intervals.

Runs over different data, labels, parts of a task or ways of counting are refused, by name: the difference of their
numbers says nothing about the judges. How a judge was asked may differ; that is often what is compared.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import fsum

from rewardharness.benchmark.intervals import RESAMPLES, bootstrap_mean
from rewardharness.benchmark.metrics import Answer, Treatment, agreement, bounds, share_json
from rewardharness.errors import InputError
from rewardharness.files import content_id
from rewardharness.judging.report import mcnemar
from rewardharness.schema import Accuracy, Interval, Json

_SHOWN = 3


@dataclass(frozen=True)
class Outcome:
    """What one example came to in a run."""

    id: str
    truth: str
    """The label; two runs must agree on it."""
    credit: float | None
    """Agreement with the label in [0, 1]; None when there is no judgment."""
    cluster: str = ""
    """Source image or group; intervals resample it as a whole."""

    @classmethod
    def of(cls, answer: Answer, treatment: Treatment = "exact") -> "Outcome":
        """Count one answer."""
        credit = None if answer.said is None else agreement(answer, treatment)
        return cls(answer.id, answer.truth, credit, answer.cluster)


@dataclass(frozen=True)
class Run:
    """What a judge came to on the examples of a task."""

    name: str
    """For people."""
    task: str
    """Task, part and revision of the data."""
    metric: str
    """What is counted and how ties are treated, as in `exact, A/B/tie`."""
    protocol: str
    """What one example is: a pair, a ranking, both orders, or scores alone."""
    outcomes: tuple[Outcome, ...]

    @property
    def data_id(self) -> str:
        """Content id of the examples and their labels, whatever their order."""
        return content_id(sorted([each.id, each.truth] for each in self.outcomes))


@dataclass(frozen=True)
class PairedComparison:
    """Two runs over the same examples. Everything is about those that both judged."""

    first: str
    second: str
    n: int
    """Examples."""
    both: int
    """Examples that both judged."""
    only_first: int
    only_second: int
    first_count: Accuracy
    """Of the first run, on the examples that both judged."""
    second_count: Accuracy
    fixed: tuple[str, ...]
    """Examples on which the second run agrees better with the label, in their order."""
    broken: tuple[str, ...]
    """Examples on which it agrees less."""
    gain: float | None
    """Accuracy of the second less that of the first, in [-1, 1]; None when there is no example that both judged."""
    interval: Interval | None
    """Bootstrap interval of the gain; None for fewer than two clusters."""
    clusters: int
    """How many independent units the interval is drawn from."""
    p_value: float | None
    """Two-sided exact McNemar test of fixed against broken examples, as if these were independent; None without any."""

    def to_json(self) -> Json:
        """Put it into JSON."""
        return {
            "first": {"name": self.first, **share_json(self.first_count)},
            "second": {"name": self.second, **share_json(self.second_count)},
            "n": self.n,
            "judged_by_both": self.both,
            "judged_by_first_only": self.only_first,
            "judged_by_second_only": self.only_second,
            "gain": self.gain,
            "interval": bounds(self.interval),
            "clusters": self.clusters,
            "p": self.p_value,
            "fixed": list(self.fixed),
            "broken": list(self.broken),
        }


def compare(first: Run, second: Run, *, resamples: int = RESAMPLES, seed: int = 0) -> PairedComparison:
    """Compare two runs example by example.

    An example that one of them failed on counts for neither and is reported: a failure is no wrong answer, and a
    judge that fails on what is hard must not gain by it, so look at `only_first` and `only_second` too.

    Args:
        first: The run to compare with.
        second: The run that is asked whether it is better.
        resamples: Of the bootstrap.
        seed: Of the bootstrap.

    Raises:
        InputError: If task, metric, protocol, examples or labels differ; says which.
    """
    ours, theirs = _indexed(second), _indexed(first)
    _refuse_different(first, second, theirs, ours)
    shared = [
        (one, other) for one in first.outcomes if (other := ours[one.id]).credit is not None and one.credit is not None
    ]
    before, after = [one.credit or 0.0 for one, _ in shared], [other.credit or 0.0 for _, other in shared]
    gains = [b - a for a, b in zip(before, after, strict=True)]
    clusters = [one.cluster for one, _ in shared]
    fixed = tuple(one.id for (one, _), gain in zip(shared, gains, strict=True) if gain > 0)
    broken = tuple(one.id for (one, _), gain in zip(shared, gains, strict=True) if gain < 0)
    n = len(shared)
    return PairedComparison(
        first=first.name,
        second=second.name,
        n=len(first.outcomes),
        both=n,
        only_first=sum(one.credit is not None for one in first.outcomes) - n,
        only_second=sum(other.credit is not None for other in second.outcomes) - n,
        first_count=Accuracy(n, n, fsum(before)),
        second_count=Accuracy(n, n, fsum(after)),
        fixed=fixed,
        broken=broken,
        gain=fsum(gains) / n if n else None,
        interval=bootstrap_mean(gains, clusters, resamples=resamples, seed=seed),
        clusters=len({cluster for cluster in clusters if cluster}) + clusters.count(""),
        p_value=mcnemar(len(fixed), len(broken)),
    )


def _indexed(run: Run) -> Mapping[str, Outcome]:
    found = {each.id: each for each in run.outcomes}
    if len(found) < len(run.outcomes):
        raise InputError(f"{run.name} has an example twice.", next_step="Compare runs whose examples have ids.")
    return found


def _refuse_different(first: Run, second: Run, theirs: Mapping[str, Outcome], ours: Mapping[str, Outcome]) -> None:
    found = [
        f"the {name} ({here!r} and {there!r})"
        for name, here, there in (
            ("task", first.task, second.task),
            ("metric", first.metric, second.metric),
            ("protocol", first.protocol, second.protocol),
        )
        if here != there
    ]
    if theirs.keys() != ours.keys():
        lacking = [*_named(first.name, ours.keys() - theirs.keys()), *_named(second.name, theirs.keys() - ours.keys())]
        found.append(f"the examples ({'; '.join(lacking)})")
    relabelled = sorted(name for name in theirs.keys() & ours.keys() if theirs[name].truth != ours[name].truth)
    if relabelled:
        found.append(f"the labels of {len(relabelled)} examples ({', '.join(relabelled[:_SHOWN])})")
    if found:
        raise InputError(
            f"{first.name} and {second.name} cannot be compared; they differ in {', '.join(found)}.",
            next_step="Compare runs of one task, counted the same way, over the same data.",
        )


def _named(run: str, missing: Iterable[str]) -> list[str]:
    names = sorted(missing)
    return [f"{run} lacks {len(names)}, such as {', '.join(names[:_SHOWN])}"] if names else []
