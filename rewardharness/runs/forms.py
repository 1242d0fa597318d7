"""What a lineage is made of: one frozen dataclass for what was planned, two for what was observed, one for comparisons.

    manifest     planned: what a training, a filtering or a best-of-N is going to do
    result       observed: what came of a manifest
    eval         observed: metrics of an artifact, a release, a Library or a model on one benchmark
    comparison   compared: two evals, metric by metric

They refer to each other by the id of the record, which is a hash of its content.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from rewardharness.runs.typed import Misfit, at_least, distinct, filled, hashed

Direction = Literal["higher", "lower"]
"""Which way a metric is better. Always said, never guessed from its name."""

Activity = Literal["training", "filtering", "best-of-n", "other"]
Status = Literal["succeeded", "failed", "stopped"]
Stage = Literal["preflight", "data", "reward", "training", "saving", "evaluation", "unknown"]
Verdict = Literal["better", "worse", "same", "unclear"]
"""Of a difference: `same` when the value is, `unclear` when the interval holds zero or is not known."""
Method = Literal["paired items", "two intervals", "two values"]

_ITEM_SLACK = 1e-9


@dataclass(frozen=True)
class Release:
    """A reward release, known by its file."""

    id: str
    """As the file says."""
    file: str
    """Where it lay when it was recorded."""
    sha256: str
    """Of that file."""
    library: str | None = None
    """Id of its Library, when the file says so."""

    def __post_init__(self) -> None:
        filled("id", self.id)
        hashed("sha256", self.sha256)
        if self.library is not None:
            hashed("library", self.library)


@dataclass(frozen=True)
class Reward:
    """Where rewards come from: a release, or a Library with whatever judge is asked."""

    release: Release | None = None
    library: str | None = None
    """Id of a Library."""

    def __post_init__(self) -> None:
        if (self.release is None) == (self.library is None):
            raise Misfit("a reward is a release or a Library, one of them")
        if self.library is not None:
            hashed("library", self.library)

    @property
    def library_id(self) -> str | None:
        """Id of the Library that judges, when it is known."""
        return self.release.library if self.release is not None else self.library


@dataclass(frozen=True)
class Model:
    """A model by name."""

    name: str
    revision: str = ""
    """Commit or version; empty when it is not known."""

    def __post_init__(self) -> None:
        filled("name", self.name)


@dataclass(frozen=True)
class Data:
    """A dataset by name."""

    name: str
    revision: str = ""
    """Commit, version or digest; empty when it is not known."""

    def __post_init__(self) -> None:
        filled("name", self.name)


@dataclass(frozen=True)
class Trainer:
    """Who does the work."""

    name: str
    version: str = ""
    config: Mapping[str, Any] = field(default_factory=dict)
    """Whatever the trainer is told, as JSON. Secrets are refused when a record is made."""

    def __post_init__(self) -> None:
        filled("name", self.name)


@dataclass(frozen=True)
class Expected:
    """A metric that will be looked at, and which way it should go."""

    name: str
    direction: Direction
    target: float | None = None

    def __post_init__(self) -> None:
        filled("name", self.name)


@dataclass(frozen=True)
class Manifest:
    """Planned: what is going to be done, with which reward, on which data."""

    activity: Activity
    base_model: Model
    reward: Reward | None = None
    """None for work without a reward, such as a baseline."""
    data: Data | None = None
    trainer: Trainer | None = None
    seeds: tuple[int, ...] = ()
    expected: tuple[Expected, ...] = ()
    parents: tuple[str, ...] = ()
    """Ids of records that this builds on."""
    notes: str = ""

    def __post_init__(self) -> None:
        distinct("expected", [each.name for each in self.expected])
        distinct("parents", self.parents)
        for parent in self.parents:
            hashed("parents", parent)


@dataclass(frozen=True)
class Failure:
    """Where and why something failed."""

    stage: Stage
    message: str

    def __post_init__(self) -> None:
        filled("message", self.message)


@dataclass(frozen=True)
class Artifact:
    """Something that was left behind: a checkpoint, a filtered dataset, a table of selections."""

    name: str
    location: str
    """A path or an address."""
    sha256: str | None = None
    """Of the file; of a folder over the paths and hashes of its files. None when it could not be hashed."""
    bytes: int | None = None

    def __post_init__(self) -> None:
        filled("name", self.name)
        filled("location", self.location)
        if self.sha256 is not None:
            hashed("sha256", self.sha256)
        at_least("bytes", self.bytes, 0)


@dataclass(frozen=True)
class Curve:
    """A reward curve in a few numbers."""

    points: int
    """Points with a reward."""
    missing: int
    """Points without one: rewards that could not be given are not counted as zero."""
    first: tuple[int, float]
    """Step and reward."""
    last: tuple[int, float]
    lowest: tuple[int, float]
    highest: tuple[int, float]
    late_mean: float
    """Mean over the last tenth of the points, at least one."""
    sha256: str
    """Of the file it was read from."""

    def __post_init__(self) -> None:
        at_least("points", self.points, 1)
        at_least("missing", self.missing, 0)
        hashed("sha256", self.sha256)


@dataclass(frozen=True)
class Result:
    """Observed: what came of a manifest. What is not known stays null and is never made up."""

    manifest: str
    """Id of the record."""
    status: Status
    failure: Failure | None = None
    """For what failed, and for nothing else."""
    artifacts: tuple[Artifact, ...] = ()
    steps: int | None = None
    curve: Curve | None = None
    wall_seconds: float | None = None
    notes: str = ""

    def __post_init__(self) -> None:
        hashed("manifest", self.manifest)
        if (self.status == "failed") != (self.failure is not None):
            raise Misfit("failure is said of what failed, with its stage and a message, and of nothing else")
        distinct("artifacts", [each.name for each in self.artifacts])
        at_least("steps", self.steps, 0)
        at_least("wall_seconds", self.wall_seconds, 0)


@dataclass(frozen=True)
class Subject:
    """What an eval is about: one of an artifact, a release, a Library, a model."""

    result: str | None = None
    """Id of the result that left the artifact."""
    artifact: str | None = None
    """Its name there."""
    release: Release | None = None
    library: str | None = None
    model: Model | None = None

    def __post_init__(self) -> None:
        if (self.result is None) != (self.artifact is None):
            raise Misfit("an artifact is named together with its result")
        if sum(each is not None for each in (self.result, self.release, self.library, self.model)) != 1:
            raise Misfit("a subject is one of an artifact, a release, a library, a model")
        for name, value in (("result", self.result), ("library", self.library)):
            if value is not None:
                hashed(name, value)


@dataclass(frozen=True)
class Benchmark:
    """What was measured on. Two evals compare when all three are equal."""

    name: str
    task: str = ""
    revision: str = ""
    """Version or digest of its data."""

    def __post_init__(self) -> None:
        filled("name", self.name)


@dataclass(frozen=True)
class Metric:
    """One number with what it is worth."""

    name: str
    direction: Direction
    value: float
    n: int | None = None
    """Examples that were asked about."""
    judged: int | None = None
    """Examples that gave an answer; the value is about these."""
    interval: tuple[float, float] | None = None
    """At 95 %."""

    def __post_init__(self) -> None:
        filled("name", self.name)
        at_least("n", self.n, 1)
        at_least("judged", self.judged, 1)
        if self.n is not None and self.judged is not None and self.judged > self.n:
            raise Misfit(f"{self.name}: {self.judged} judged of {self.n}")
        if self.interval is not None and not self.interval[0] <= self.value <= self.interval[1]:
            raise Misfit(f"{self.name}: the interval does not hold the value")

    @property
    def coverage(self) -> float | None:
        """Share that gave an answer; None when that is not known."""
        return self.judged / self.n if self.n and self.judged is not None else None


@dataclass(frozen=True)
class Source:
    """The file that metrics were read from."""

    file: str
    sha256: str

    def __post_init__(self) -> None:
        hashed("sha256", self.sha256)


@dataclass(frozen=True)
class Eval:
    """Observed: what a subject is worth on one benchmark."""

    subject: Subject
    benchmark: Benchmark
    metrics: tuple[Metric, ...]
    protocol: str = ""
    """How it was measured, in a few words or an id. Two evals compare when they agree in it."""
    judge: str = ""
    """Who measured, with revision, where that is a judge."""
    source: Source | None = None
    items: str | None = None
    """SHA-256 of the values example by example, which the lineage keeps: with them evals are compared in pairs."""
    notes: str = ""

    def __post_init__(self) -> None:
        if not self.metrics:
            raise Misfit("metrics is empty")
        distinct("metrics", [each.name for each in self.metrics])
        if self.items is not None:
            hashed("items", self.items)

    def metric(self, name: str) -> Metric | None:
        """The metric of a name."""
        return next((each for each in self.metrics if each.name == name), None)


@dataclass(frozen=True)
class Difference:
    """How one metric differs between two evals."""

    name: str
    direction: Direction
    base: float
    new: float
    difference: float
    """New minus base; over the common examples where these are known."""
    interval: tuple[float, float] | None
    """Of the difference, at 95 %; None when it is not known."""
    method: Method
    n: int | None
    """Examples that both have a value for; None unless paired."""
    coverage: tuple[float | None, float | None]
    """Of base and new, as far as they say."""
    verdict: Verdict


@dataclass(frozen=True)
class Comparison:
    """Compared: two evals on the same benchmark, measured the same way."""

    base: str
    """Id of the record."""
    new: str
    metrics: tuple[Difference, ...]
    only_base: tuple[str, ...] = ()
    """Metrics that the new eval lacks."""
    only_new: tuple[str, ...] = ()
    different_judges: bool = False

    def __post_init__(self) -> None:
        hashed("base", self.base)
        hashed("new", self.new)


Body = Manifest | Result | Eval | Comparison
KINDS: Mapping[str, type[Body]] = {"manifest": Manifest, "result": Result, "eval": Eval, "comparison": Comparison}
"""Every kind of record by the word that stands in the file."""


def kind_of(body: Body) -> str:
    """The word for a body's kind."""
    return next(name for name, kind in KINDS.items() if isinstance(body, kind))


def references(body: Body) -> tuple[tuple[str, str, str], ...]:
    """Other records that a body refers to: what they are to it, their id, and the kind they must be of (empty: any)."""
    match body:
        case Manifest():
            return tuple(("parent", each, "") for each in body.parents)
        case Result():
            return (("manifest", body.manifest, "manifest"),)
        case Eval():
            return (("result", body.subject.result, "result"),) if body.subject.result else ()
        case Comparison():
            return (("base", body.base, "eval"), ("new", body.new, "eval"))


def check_items(body: Eval, items: Mapping[str, Mapping[str, float]]) -> None:
    """Make sure that values example by example agree with the metrics that they make up.

    Raises:
        Misfit: If a metric is not the mean of its values, or there are values of a metric that the eval lacks.
    """
    for name, values in items.items():
        metric = body.metric(name)
        if metric is None:
            raise Misfit(f"the items have values of {name}, which is no metric here")
        mean = sum(values.values()) / len(values) if values else None
        if mean is None or abs(mean - metric.value) > _ITEM_SLACK * max(1.0, abs(mean)):
            raise Misfit(f"{name} is {metric.value:g}, but the mean of its items is {mean}")
        if metric.judged is not None and metric.judged != len(values):
            raise Misfit(f"{name} has {metric.judged} judged examples, but {len(values)} items")
