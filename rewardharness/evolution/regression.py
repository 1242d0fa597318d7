"""The regression set: generated pairs on which an evolved Library must not do worse than the starting one.

Training examples rarely show every fault that a judge must recognize. These pairs do: edits that were not made, went
too far, are wrong or have a defect. They are generated once, and judged only if the Library has changed.
"""

from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from rewardharness.data.folder import read_folder
from rewardharness.demo.dataset import VERSION, make_demo
from rewardharness.demo.folder import in_order
from rewardharness.errors import DataError
from rewardharness.evolution.config import MARGIN
from rewardharness.evolution.evaluator import Evaluator
from rewardharness.evolution.held_out import Score
from rewardharness.evolution.proposal import Outcome
from rewardharness.judging.measured import measure_ahead
from rewardharness.library.store import Library
from rewardharness.schema import Example
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
    meter.begin("drawing", pairs.pairs)
    # Judgments are known by id, and generated examples of the run have ids such as these, too.
    examples = [replace(example, id=f"regression-{example.id}") for example in pairs.draw(meter.reach)]
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
