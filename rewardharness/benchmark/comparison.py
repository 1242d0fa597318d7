"""Paired comparison of two runs on the same examples, which is more precise than comparing two intervals.

Runs with different data, labels, parts of a task or metrics are refused with the reason. The judge and its protocol
may differ.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import fsum

from rewardharness.benchmark.intervals import RESAMPLES, bootstrap_mean
from rewardharness.benchmark.metrics import bounds, share_json
from rewardharness.errors import InputError
from rewardharness.judging.report import mcnemar
from rewardharness.schema import Accuracy, Interval, Json

_SHOWN = 3


@dataclass(frozen=True)
class ComparedExample:
    """Result of a run for one example."""

    id: str
    truth: str
    """The label; it must be the same in both runs."""
    credit: float | None
    """Agreement with the label in [0, 1]; None without a judgment."""
    cluster: str = ""
    """Source image or group; the bootstrap resamples clusters as a whole."""


@dataclass(frozen=True)
class ComparedRun:
    """Results of a judge on the examples of a task."""

    name: str
    """Display name."""
    task: str
    """Task and part."""
    metric: str
    """Metric and treatment of ties, such as `exact, A/B/tie`."""
    protocol: str
    """How examples are judged: pairs, rankings, both orders, or single candidates."""
    outcomes: tuple[ComparedExample, ...]


@dataclass(frozen=True)
class PairedComparison:
    """Comparison of two runs on the examples that both judged."""

    first: str
    second: str
    n: int
    """Examples."""
    both: int
    """Examples that both judged."""
    only_first: int
    only_second: int
    first_count: Accuracy
    """Accuracy of the first run on the examples that both judged."""
    second_count: Accuracy
    fixed: tuple[str, ...]
    """Examples on which the second run agrees better with the label, in order."""
    broken: tuple[str, ...]
    """Examples on which the second run agrees less with the label."""
    gain: float | None
    """Accuracy of the second run minus that of the first, in [-1, 1]; None if no example was judged by both."""
    interval: Interval | None
    """Bootstrap interval of the gain; None for fewer than two clusters."""
    clusters: int
    """Number of independent units for the interval."""
    p_value: float | None
    """Two-sided exact McNemar test of fixed against broken examples, assuming independence; None without any."""

    def to_json(self) -> Json:
        """Return the comparison as JSON."""
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


def compare(first: ComparedRun, second: ComparedRun, *, resamples: int = RESAMPLES, seed: int = 0) -> PairedComparison:
    """Compare two runs example by example.

    Examples that one of the runs failed on are left out and counted in `only_first` and `only_second`. Check these
    numbers: a judge that fails on difficult examples must not benefit from it.

    Args:
        first: The run to compare with.
        second: The run whose gain is measured.
        resamples: Number of bootstrap resamples.
        seed: Seed of the bootstrap.

    Raises:
        InputError: If task, metric, protocol, examples or labels differ; the message names the difference.
    """
    second_by_id, first_by_id = _indexed(second), _indexed(first)
    _refuse_different(first, second, first_by_id, second_by_id)
    shared = [
        (old, new)
        for old in first.outcomes
        if (new := second_by_id[old.id]).credit is not None and old.credit is not None
    ]
    before, after = [old.credit or 0.0 for old, _ in shared], [new.credit or 0.0 for _, new in shared]
    gains = [b - a for a, b in zip(before, after, strict=True)]
    clusters = [old.cluster for old, _ in shared]
    fixed = tuple(old.id for (old, _), gain in zip(shared, gains, strict=True) if gain > 0)
    broken = tuple(old.id for (old, _), gain in zip(shared, gains, strict=True) if gain < 0)
    n = len(shared)
    return PairedComparison(
        first=first.name,
        second=second.name,
        n=len(first.outcomes),
        both=n,
        only_first=sum(old.credit is not None for old in first.outcomes) - n,
        only_second=sum(new.credit is not None for new in second.outcomes) - n,
        first_count=Accuracy(n, n, fsum(before)),
        second_count=Accuracy(n, n, fsum(after)),
        fixed=fixed,
        broken=broken,
        gain=fsum(gains) / n if n else None,
        interval=bootstrap_mean(gains, clusters, resamples=resamples, seed=seed),
        clusters=len({cluster for cluster in clusters if cluster}) + clusters.count(""),
        p_value=mcnemar(len(fixed), len(broken)),
    )


def _indexed(run: ComparedRun) -> Mapping[str, ComparedExample]:
    by_id = {example.id: example for example in run.outcomes}
    if len(by_id) < len(run.outcomes):
        raise InputError(f"{run.name} contains duplicate examples.", next_step="Compare runs with unique example ids.")
    return by_id


def _refuse_different(
    first: ComparedRun,
    second: ComparedRun,
    first_by_id: Mapping[str, ComparedExample],
    second_by_id: Mapping[str, ComparedExample],
) -> None:
    differences = [
        f"the {name} ({old!r} and {new!r})"
        for name, old, new in (
            ("task", first.task, second.task),
            ("metric", first.metric, second.metric),
            ("protocol", first.protocol, second.protocol),
        )
        if old != new
    ]
    if first_by_id.keys() != second_by_id.keys():
        lacking = [
            *_named(first.name, second_by_id.keys() - first_by_id.keys()),
            *_named(second.name, first_by_id.keys() - second_by_id.keys()),
        ]
        differences.append(f"the examples ({'; '.join(lacking)})")
    relabeled = sorted(
        name for name in first_by_id.keys() & second_by_id.keys() if first_by_id[name].truth != second_by_id[name].truth
    )
    if relabeled:
        differences.append(f"the labels of {len(relabeled)} examples ({', '.join(relabeled[:_SHOWN])})")
    if differences:
        raise InputError(
            f"{first.name} and {second.name} cannot be compared; they differ in {', '.join(differences)}.",
            next_step="Compare runs of the same task, metric and data.",
        )


def _named(run: str, missing: Iterable[str]) -> list[str]:
    names = sorted(missing)
    return [f"{run} lacks {len(names)}, such as {', '.join(names[:_SHOWN])}"] if names else []
