"""The bodies of provenance records.

    manifest     planned: a training run, a filtering job or a best-of-N selection
    result       observed: the outcome of a manifest
    eval         observed: metrics of an artifact, a release, a Library or a model on one benchmark
    comparison   computed: two evals, metric by metric

Records refer to each other by id, which is a hash of their content.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from msgspec import Meta

from rewardharness.codec import Count, Sha256, Text, ValidationError

Direction = Literal["higher", "lower"]
"""Which values of a metric are better. Always stated, never inferred from its name."""
Activity = Literal["training", "filtering", "best-of-n", "other"]
Status = Literal["succeeded", "failed", "stopped"]
Stage = Literal["preflight", "data", "reward", "training", "saving", "evaluation", "unknown"]
DifferenceVerdict = Literal["better", "worse", "same", "unclear"]
"""`same`: the values are equal. `unclear`: the interval of the difference contains zero, or there is no interval."""
Method = Literal["paired items", "two intervals", "two values"]

Items = Mapping[str, Mapping[str, float]]
"""Values per example: by metric, then by example id."""

_ITEM_TOLERANCE = 1e-9


@dataclass(frozen=True)
class ReleaseRef:
    """A release, identified by its file."""

    id: Text
    file: str
    """Path at the time of recording."""
    sha256: Sha256
    """Digest of the file."""
    library: Sha256 | None = None
    """Id of the release's Library, if the file states it."""


@dataclass(frozen=True)
class RewardRef:
    """The source of rewards: a release, or a Library with any judge."""

    release: ReleaseRef | None = None
    library: Sha256 | None = None

    def __post_init__(self) -> None:
        if (self.release is None) == (self.library is None):
            raise ValidationError("a reward is either a release or a Library")


@dataclass(frozen=True)
class NamedRevision:
    """A model or a dataset."""

    name: Text
    revision: str = ""
    """Commit, version or digest; empty if unknown."""


@dataclass(frozen=True)
class Trainer:
    """Training framework, its version and its configuration."""

    name: Text
    version: str = ""
    config: Mapping[str, Any] = field(default_factory=dict)
    """Any JSON object. Secrets are rejected when the record is made."""


@dataclass(frozen=True)
class ExpectedMetric:
    """A metric that will be evaluated, and its target value."""

    name: Text
    direction: Direction
    target: float | None = None


@dataclass(frozen=True)
class Manifest:
    """Planned work: with which reward, on which data."""

    activity: Activity
    base_model: NamedRevision
    reward: RewardRef | None = None
    """None for work without a reward, such as a baseline."""
    data: NamedRevision | None = None
    trainer: Trainer | None = None
    seeds: tuple[int, ...] = ()
    expected: tuple[ExpectedMetric, ...] = ()
    parents: tuple[Sha256, ...] = ()
    """Ids of records that this one builds on."""
    notes: str = ""

    def __post_init__(self) -> None:
        _check_distinct("expected", [metric.name for metric in self.expected])
        _check_distinct("parents", self.parents)


@dataclass(frozen=True)
class RunFailure:
    """The stage and the cause of a failure."""

    stage: Stage
    message: Text


@dataclass(frozen=True)
class Artifact:
    """An output: a checkpoint, a filtered dataset, a table of selections."""

    name: Text
    location: Text
    """Path or URL."""
    sha256: Sha256 | None = None
    """Digest of a file; for a folder, of the paths and digests of its files. None if it was not hashed."""
    bytes: Count | None = None


@dataclass(frozen=True)
class RewardCurve:
    """Summary of a reward curve."""

    points: Annotated[int, Meta(ge=1)]
    """Number of points with a reward."""
    missing: Count
    """Number of points without one. A missing reward is not zero."""
    first: tuple[int, float]
    """Step and reward."""
    last: tuple[int, float]
    lowest: tuple[int, float]
    highest: tuple[int, float]
    late_mean: float
    """Mean over the last tenth of the points, at least one."""
    sha256: Sha256
    """Digest of the file that it was read from."""


@dataclass(frozen=True)
class RunOutcome:
    """Outcome of a manifest. Unknown values are null."""

    manifest: Sha256
    """Id of the record."""
    status: Status
    failure: RunFailure | None = None
    """Set if and only if the status is `failed`."""
    artifacts: tuple[Artifact, ...] = ()
    steps: Count | None = None
    curve: RewardCurve | None = None
    wall_seconds: Annotated[float, Meta(ge=0)] | None = None
    notes: str = ""

    def __post_init__(self) -> None:
        if (self.status == "failed") != (self.failure is not None):
            raise ValidationError("a failure, with its stage and message, goes with the status 'failed' and no other")
        _check_distinct("artifacts", [artifact.name for artifact in self.artifacts])


@dataclass(frozen=True)
class Subject:
    """The subject of an eval: exactly one of an artifact, a release, a Library, a model."""

    result: Sha256 | None = None
    """Id of the result with the artifact."""
    artifact: str | None = None
    """Name of the artifact in that result."""
    release: ReleaseRef | None = None
    library: Sha256 | None = None
    model: NamedRevision | None = None

    def __post_init__(self) -> None:
        if (self.result is None) != (self.artifact is None):
            raise ValidationError("an artifact is named together with its result")
        if sum(value is not None for value in (self.result, self.release, self.library, self.model)) != 1:
            raise ValidationError("a subject is exactly one of an artifact, a release, a library, a model")


@dataclass(frozen=True)
class BenchmarkRef:
    """A benchmark. Two evals are comparable if all three fields are equal."""

    name: Text
    task: str = ""
    revision: str = ""
    """Version or digest of the benchmark's data."""


@dataclass(frozen=True)
class MetricValue:
    """One metric with its sample size and interval."""

    name: Text
    direction: Direction
    value: float
    n: Annotated[int, Meta(ge=1)] | None = None
    """Number of examples."""
    judged: Annotated[int, Meta(ge=1)] | None = None
    """Number of examples with an answer; the value is computed over these."""
    interval: tuple[float, float] | None = None
    """95% CI."""

    def __post_init__(self) -> None:
        if self.n is not None and self.judged is not None and self.judged > self.n:
            raise ValidationError(f"{self.name}: {self.judged} judged of {self.n}")
        if self.interval is not None and not self.interval[0] <= self.value <= self.interval[1]:
            raise ValidationError(f"{self.name}: the interval does not contain the value")
        if not math.isfinite(self.value):
            raise ValidationError(f"{self.name}: the value is not a finite number")

    @property
    def coverage(self) -> float | None:
        """Share of the examples with an answer; None if unknown."""
        return self.judged / self.n if self.n and self.judged is not None else None


@dataclass(frozen=True)
class SourceFile:
    """The file that metrics were read from."""

    file: str
    sha256: Sha256


@dataclass(frozen=True)
class Evaluation:
    """Metrics of a subject on one benchmark."""

    subject: Subject
    benchmark: BenchmarkRef
    metrics: Annotated[tuple[MetricValue, ...], Meta(min_length=1)]
    protocol: str = ""
    """How it was measured. Comparable evals have the same protocol."""
    judge: str = ""
    """The judge that measured, with its revision."""
    source: SourceFile | None = None
    items: Sha256 | None = None
    """Digest of the values per example, which the lineage folder stores. They make paired comparisons possible."""
    notes: str = ""

    def __post_init__(self) -> None:
        _check_distinct("metrics", [metric.name for metric in self.metrics])

    def metric(self, name: str) -> MetricValue | None:
        """Return the metric of a name, or None."""
        return next((metric for metric in self.metrics if metric.name == name), None)


@dataclass(frozen=True)
class MetricDifference:
    """The difference of one metric between two evals."""

    name: str
    direction: Direction
    base: float
    new: float
    difference: float
    """New minus base; over the common examples if these are known."""
    interval: tuple[float, float] | None
    """95% CI of the difference; None if unknown."""
    method: Method
    n: int | None
    """Number of examples with a value in both; None unless paired."""
    coverage: tuple[float | None, float | None]
    """Coverage of base and new."""
    verdict: DifferenceVerdict


@dataclass(frozen=True)
class EvalComparison:
    """Two evals on the same benchmark, measured the same way."""

    base: Sha256
    """Id of the record."""
    new: Sha256
    metrics: tuple[MetricDifference, ...]
    only_base: tuple[str, ...] = ()
    """Metrics that the new eval lacks."""
    only_new: tuple[str, ...] = ()
    different_judges: bool = False


Body = Manifest | RunOutcome | Evaluation | EvalComparison
KINDS: Mapping[str, type[Body]] = dict(manifest=Manifest, result=RunOutcome, eval=Evaluation, comparison=EvalComparison)
"""Record types by the `kind` in the file."""


def kind_of(body: Body) -> str:
    """Return the `kind` of a body."""
    return next(name for name, kind in KINDS.items() if isinstance(body, kind))


def references(body: Body) -> tuple[tuple[str, str, str], ...]:
    """Return the records that a body refers to: role, id, and required kind (empty: any)."""
    match body:
        case Manifest():
            return tuple(("parent", parent, "") for parent in body.parents)
        case RunOutcome():
            return (("manifest", body.manifest, "manifest"),)
        case Evaluation():
            return (("result", body.subject.result, "result"),) if body.subject.result else ()
        case EvalComparison():
            return (("base", body.base, "eval"), ("new", body.new, "eval"))


def check_items(body: Evaluation, items: Items) -> None:
    """Check that values per example agree with the metrics.

    Raises:
        ValidationError: If a metric is not the mean of its values, or a metric of the values is not in the eval.
    """
    for name, values in items.items():
        metric = body.metric(name)
        if metric is None:
            raise ValidationError(f"the items have values of {name}, which is not a metric of this eval")
        mean = sum(values.values()) / len(values) if values else None
        if mean is None or abs(mean - metric.value) > _ITEM_TOLERANCE * max(1.0, abs(mean)):
            raise ValidationError(f"{name} is {metric.value:g}, but the mean of its items is {mean}")
        if metric.judged is not None and metric.judged != len(values):
            raise ValidationError(f"{name} has {metric.judged} judged examples, but {len(values)} items")


def _check_distinct(name: str, values: Sequence[str]) -> None:
    duplicate = next((value for value in values if values.count(value) > 1), None)
    if duplicate is not None:
        raise ValidationError(f"{name} names {duplicate} twice")
