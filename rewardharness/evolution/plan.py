"""The plan of an evolution: its inputs, the estimate of its judgments, its manifest, and the regression set.

The regression set are generated pairs on which an evolved Library must not do worse than the starting one.

Training examples rarely show every fault that a judge must recognize. These pairs do: edits that were not made, went
too far, are wrong or have a defect. They are generated once, and judged only if the Library has changed.
"""

import math
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from statistics import fmean

from rewardharness.data.folder import read_folder
from rewardharness.data.source import Dataset, split
from rewardharness.data.votes import CORRECTED
from rewardharness.demo.dataset import VERSION, make_demo
from rewardharness.demo.folder import in_order
from rewardharness.errors import DataError, InputError
from rewardharness.evolution.config import AUDIT_SHARE, MARGIN
from rewardharness.evolution.evaluator import Evaluator, may_fire
from rewardharness.evolution.gate import detectable_gain
from rewardharness.evolution.held_out import Score, samples_for
from rewardharness.evolution.joint.proposing import LEAST_CASES
from rewardharness.evolution.population import RACE, PopulationSchedule
from rewardharness.evolution.progress import duration
from rewardharness.evolution.proposal import Observe, Orchestrator, Outcome
from rewardharness.evolution.schedules import DefaultSchedule, PaperSchedule, Schedule
from rewardharness.evolution.steps import EVIDENCE_SHARE
from rewardharness.files import content_id
from rewardharness.judging.ensemble import judges_of
from rewardharness.judging.identity import JudgeIdentity
from rewardharness.judging.judge import Judge
from rewardharness.judging.measured import measure_ahead
from rewardharness.judging.subagent import count_requests
from rewardharness.library.store import Library
from rewardharness.runs.spending import UNLIMITED, SpendingLimits
from rewardharness.schema import Example, Json
from rewardharness.settings import Settings

SEED = 1907
"""Seed of the pairs, different from that of the demo dataset."""

SIDE = 192
"""Side of the images in pixels, small for fast measurements."""

Draw = Callable[[Callable[[int, int], None]], Sequence[Example]]
"""Generates the pairs; its argument is called with the pairs done and the total."""


@dataclass(frozen=True)
class RegressionSet:
    """Pairs on which the result of a run must not do worse than its starting Library."""

    draw: Draw = lambda progress: ()
    pairs: int = 0
    margin: float = MARGIN
    """Loss of accuracy, in [0, 1], above which the starting Library is the result."""


def regression_set(settings: Settings, margin: float) -> RegressionSet:
    """Return the regression set of this package, which is generated on first use."""
    pairs = settings.regression_pairs
    folder = settings.home / "data" / f"regression-{VERSION}-{pairs}-{SIDE}"

    def draw(progress: Callable[[int, int], None]) -> Sequence[Example]:
        try:
            return read_folder(folder).examples
        except DataError:  # missing or unfinished
            workers = settings.workers
            make_demo(
                folder, pairs=pairs, groups=0, seed=SEED, replace=True, side=SIDE, workers=workers, progress=progress
            )
            return read_folder(folder).examples

    return RegressionSet(draw, pairs, margin)


@dataclass(frozen=True)
class GroupScore:
    """Accuracy on a group of examples with the starting and with the final Library."""

    name: str
    start: Score
    final: Score


def group_scores(
    start: Iterable[Outcome], final: Iterable[Outcome], group_of: Callable[[Example], str]
) -> tuple[GroupScore, ...]:
    """Return the accuracies of two Libraries on each group of examples, by name."""
    groups: dict[str, tuple[list[Outcome], list[Outcome]]] = defaultdict(lambda: ([], []))
    for side, outcomes in enumerate((start, final)):
        for outcome in outcomes:
            groups[group_of(outcome.example)][side].append(outcome)
    return tuple(GroupScore(name, *map(Score.of, sides)) for name, sides in sorted(groups.items()))


@dataclass(frozen=True)
class RegressionReport:
    """Accuracies on the regression set."""

    n: int
    margin: float
    lost: bool
    """Whether the final Library loses more than the margin."""
    start: Score
    final: Score
    kinds: tuple[GroupScore, ...]
    """By kind of fault."""

    @classmethod
    def of(cls, start: Sequence[Outcome], final: Sequence[Outcome], margin: float) -> "RegressionReport":
        """Compare the outcomes of two Libraries, by the fault of the worse candidate."""
        kinds = group_scores(start, final, lambda example: example.label_kind or "")
        named = (replace(kind, name=kind.name.removeprefix("demo_").replace("_", " ")) for kind in kinds)
        scores = Score.of(start), Score.of(final)
        before, after = scores[0].accuracy, scores[1].accuracy
        lost = before is not None and (after is None or before - after > margin)
        return cls(len(start), margin, lost, *scores, tuple(named))


def evaluate_regression_set(
    evaluator: Evaluator, pairs: RegressionSet, start: Library, final: Library
) -> RegressionReport:
    """Judge the regression set with both Libraries; nothing is judged if they are the same.

    Raises:
        Stopped: If a stop was requested.
        RunPaused: If the judge gives no answers.
    """
    if start.id == final.id or not pairs.pairs:
        return RegressionReport.of((), (), pairs.margin)
    meter = evaluator.meter

    def drawn(done: int, total: int) -> None:
        evaluator.check()
        meter.reach(done, total)

    meter.begin("drawing", pairs.pairs)
    # Judgments are known by id, and generated examples of the run have ids such as these, too.
    examples = [replace(example, id=f"regression-{example.id}") for example in pairs.draw(drawn)]
    meter.begin("regression", 2 * len(examples))
    measure = measure_ahead(evaluator.base_judge, (start, final))
    if measure is not None:
        for _ in in_order(measure, examples, evaluator.concurrency):
            evaluator.check()
            meter.step(2)
        meter.end()  # the judgments below use cached measurements
    with evaluator.outside_budget():
        before, after = (evaluator.judge(library, examples) for library in (start, final))
    return RegressionReport.of(before, after, pairs.margin)


USUAL_SHARE = 0.2
"""Average share of the examples that an edit affects, on which it is judged in screening and tests, from
`benchmarks/evolution_calls.py`."""

FITTED = 1.5
"""Usual judgments of the search per training example where weights can be fitted at no cost, for 30 examples."""

GROWTH = 0.55
"""Power of the number of training examples with which `FITTED` grows; see `docs/explanation/evolution.md`."""

OBSERVED = 0.75
"""Work of grading an example by all measures for proposals, relative to a judgment that measures."""

REQUEST_SECONDS = 4.0
"""Assumed duration of a request to a model."""

SHORTEST = 10.0
"""Seconds that no run is expected to be faster than."""

CACHED = 0.02
"""Work of a judgment from cached measurements, relative to one that measures."""

SMALL = 0.38
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
    audit: int
    """Held-out examples with final and starting Library, for a model also without one."""
    ensemble: int
    """Comparison with self-ensembling."""
    regression: int
    """Regression set with the starting and the final Library."""
    requests: int
    """Minimum number of requests to a model per judgment; 0 for a judge without a model."""
    expected: int = field(init=False)
    """The usual total."""

    def __post_init__(self) -> None:
        total = self.begin + self.search + self.audit + self.ensemble + self.regression
        object.__setattr__(self, "expected", total)

    @property
    def work(self) -> dict[str, float]:
        """Work of each phase of `progress.PHASES`, in judgments that measure or query a model."""
        search, held_out, regression = float(self.search), float(self.audit + self.ensemble), float(self.regression)
        drawing, proposals = regression / 2 * SMALL, 0.0
        if not self.requests:  # each example is measured once for all Libraries
            proposals, search, held_out, regression = self.begin * OBSERVED, search * CACHED, held_out / 2, drawing
        values = (float(self.begin), proposals, search, held_out, drawing, regression)
        return dict(zip(("pool", "proposals", "search", "audit", "drawing", "regression"), values, strict=True))

    def words(self, seconds: float) -> str:
        """Return the estimate in sentences, with the gain that the training examples can show.

        Args:
            seconds: Expected duration.
        """
        parts = [f"{self.begin} of the training examples", f"about {self.search:,} to test edits"]
        parts += [f"{self.audit} of the held-out test set"]
        parts += [f"{self.regression} of the regression set"] if self.regression else []
        if self.ensemble:
            parts += [f"{self.ensemble} to compare with self-ensembling (--ensemble 0: none)"]
        text = (
            f"Expected: about {duration(max(SHORTEST, seconds))} and {self.expected:,} judgments: {', '.join(parts)}."
        )
        gain = round(100 * detectable_gain(max(1, self.begin)))
        text += f" With {self.begin} training examples, a gain of about {gain} points or more can be detected."
        return text if self.requests else f"{text} No model judges, so they cost only time."


def _reach(library: Library, training: Sequence[Example]) -> float:
    """Return the average share of the training examples that an entry touches, over entries that touch any."""
    shares = [fmean(may_fire(entry, example.instruction, False) for example in training) for entry in library.entries]
    shares = [share for share in shares if share]
    return fmean(shares) if shares else USUAL_REACH


LEAST = 8
"""Minimum number of labeled examples."""


@dataclass(frozen=True)
class EvolutionPlan:
    """The inputs of a run."""

    dataset: Dataset
    library: Library
    """The starting Library."""
    judge: Judge
    orchestrator: Orchestrator
    schedule: Schedule
    observe: Observe
    """Returns the grades of the measures for an example."""
    seed: int = 0
    audit_share: float = AUDIT_SHARE
    limits: SpendingLimits = UNLIMITED
    samples: int | None = None
    """Samples per question of the self-ensembling comparison; None for as many as the search used, 0 for none."""
    concurrency: int = 8
    """Examples judged at the same time."""
    regression: RegressionSet = field(default_factory=RegressionSet)
    """Pairs on which the result must not do worse."""
    corrections: Mapping[str, str] = field(default_factory=dict)
    """Corrected labels of training examples, by id. Held-out examples keep the original labels."""

    limit: int | None = None
    """Number of examples that are used, if not all of the data."""

    @property
    def parts(self) -> tuple[tuple[Example, ...], tuple[Example, ...]]:
        """The labeled examples, divided into training and held-out examples.

        Raises:
            InputError: If there are too few, or none can be held out.
        """
        labeled = [example for example in self.dataset.examples if example.preference is not None]
        if len(labeled) < LEAST:
            raise InputError(
                f"{self.dataset.name} has {len(labeled)} labeled examples. Evolving needs at least {LEAST}.",
                next_step="Label more, or generate some: rh data demo FOLDER.",
            )
        pool, audit = split(labeled, share=self.audit_share, seed=self.seed)
        if self.audit_share and not audit:
            raise InputError(
                f"All labeled examples of {self.dataset.name} have the same source image, so none can be held out.",
                next_step="Add examples of other source images, or hold out none: --audit-share 0.",
            )
        right = self.corrections
        return tuple(
            replace(example, preference=right[example.id], label_kind=CORRECTED) if example.id in right else example
            for example in pool
        ), audit

    @property
    def manifest(self) -> Json:
        """What must stay the same when a run is resumed. Budgets may change."""
        return {
            "command": "evolve",
            "data": self.dataset.digest,
            "data_name": self.dataset.name,
            **JudgeIdentity.of(self.judge, self.library).to_json(),
            "orchestrator": self.orchestrator.name,
            "schedule": {"name": self.schedule.name, **asdict(self.schedule)},  # type: ignore[call-overload]
            "seed": self.seed,
            "audit_share": self.audit_share,
            "samples": self.samples,
            "router": self.judge.traits.router_id,
            **({"limit": self.limit} if self.limit else {}),
            "corrections": content_id(dict(self.corrections)) if self.corrections else None,
        }

    @property
    def estimate(self) -> Estimate:
        """The cost estimate."""
        (training, held_out), schedule, samples = self.parts, self.schedule, self.samples
        uses_model, most = self.judge.traits.uses_model, self.limits.budget.judgments
        begin = len(schedule.watched(training))
        if isinstance(schedule, PaperSchedule):
            read = 2 * (len(training) - begin)
            usual = read + schedule.iterations * (read + 2 * begin)
        elif isinstance(schedule, PopulationSchedule):
            read = math.ceil((1 - EVIDENCE_SHARE) * len(training))
            usual = math.ceil(schedule.proposals * (RACE[0] + (read - RACE[0]) / 3)) + len(training)
        else:
            assert isinstance(schedule, DefaultSchedule)
            share = schedule.proposals * USUAL_SHARE * _reach(self.library, training) * (1 + schedule.prune_share)
            if not uses_model:  # weights are fitted, and few edits are worth a test after it
                share = FITTED * max(1.0, len(training) / LEAST_CASES) ** GROWTH
            usual = math.ceil(share * len(training))
        if most is not None:
            usual = max(0, min(usual, most - begin))
        times = samples_for(begin + usual, len(held_out)) if samples is None else samples
        ensemble = times * len(held_out) if uses_model and times > 1 else 0
        judges = judges_of(self.judge)
        requests = min((sum(count_requests(judge, example) for judge in judges) for example in training), default=0)
        audit = (3 if uses_model else 2) * len(held_out)
        return Estimate(begin, usual, audit, ensemble, 2 * self.regression.pairs, requests)

    def check_budget(self) -> None:
        """Check that the budget is not spent before the search.

        Raises:
            InputError: If it is too small.
        """
        most, begin = self.limits.budget.judgments, self.estimate.begin
        if most is not None and most <= begin:
            raise InputError(
                f"A budget of {most} {'judgment' if most == 1 else 'judgments'} leaves nothing to search with: "
                f"the {begin} training examples are judged first.",
                next_step="Increase the budget, or use fewer examples.",
            )
