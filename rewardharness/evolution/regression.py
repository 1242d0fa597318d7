"""The regression set: pairs drawn by code, on which an evolved Library must not do worse than where it began.

Training examples seldom show every fault that a judge has to see. These do: edits that were not made, went too far, are
wrong or have a defect. They are drawn once, and judged only where the Library has changed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rewardharness.data.folder import read_folder
from rewardharness.demo.dataset import VERSION, make_demo
from rewardharness.demo.processes import in_order
from rewardharness.errors import DataError, InputError
from rewardharness.evolution.audit import Score
from rewardharness.evolution.bench import JudgeBench
from rewardharness.evolution.config import MARGIN
from rewardharness.evolution.proposal import Outcome
from rewardharness.library.store import Library
from rewardharness.schema import Example, Json
from rewardharness.settings import Settings

SEED = 1907
"""Of the drawing; not that of the demonstration set, which runs learn from."""

SIDE = 192
"""Side of its pictures, in pixels: less than the demonstration set has, so that measuring takes seconds."""

Draw = Callable[[Callable[[int, int], None]], Sequence[Example]]
"""Draws the set; told the pairs drawn and the pairs of all."""


@dataclass(frozen=True)
class RegressionSet:
    """Pairs on which the result of a run must not do worse than its starting Library."""

    draw: Draw = lambda told: ()
    pairs: int = 0
    margin: float = MARGIN
    """Loss of accuracy, in [0, 1], above which the starting Library is the result."""

    def __post_init__(self) -> None:
        if not 0 <= self.margin <= 1:
            raise InputError(
                f"A regression margin of {self.margin} is no difference of two accuracies.",
                next_step="Give --regression-margin a number from 0 to 1; at 1 no loss counts.",
            )


def regression_set(settings: Settings, margin: float) -> RegressionSet:
    """The set that this package draws, on first use, and reads from then on."""
    pairs = settings.regression_pairs
    folder = settings.home / "data" / f"regression-{VERSION}-{pairs}-{SIDE}"

    def draw(told: Callable[[int, int], None]) -> Sequence[Example]:
        try:
            return read_folder(folder).examples
        except DataError:  # not there, or left unfinished
            workers = settings.workers
            make_demo(folder, pairs=pairs, groups=0, seed=SEED, force=True, side=SIDE, workers=workers, progress=told)
            return read_folder(folder).examples

    return RegressionSet(draw, pairs, margin)


@dataclass(frozen=True)
class Regression:
    """What two Libraries make of the regression set."""

    start: tuple[Outcome, ...] = ()
    final: tuple[Outcome, ...] = ()
    margin: float = MARGIN

    @property
    def lost(self) -> bool:
        """Whether the final Library loses more than the margin, over all."""
        before, after = Score.of(self.start).accuracy, Score.of(self.final).accuracy
        return before is not None and (after is None or before - after > self.margin)

    def to_json(self) -> Json:
        """Put it into JSON, by what is wrong with the worse candidate."""
        kinds = sorted({outcome.example.label_kind or "" for outcome in self.start})
        sides = {"start": self.start, "final": self.final}
        return {
            "n": len(self.start),
            "margin": self.margin,
            "lost": self.lost,
            **{side: Score.of(found).to_json() for side, found in sides.items()},
            "kinds": [
                {
                    "name": kind.removeprefix("demo_").replace("_", " "),
                    **{
                        side: Score.of(each for each in found if each.example.label_kind == kind).to_json()
                        for side, found in sides.items()
                    },
                }
                for kind in kinds
            ],
        }


def hold_regression(bench: JudgeBench, known: RegressionSet, start: Library, final: Library) -> Regression:
    """Judge the regression set with both Libraries; nothing is drawn or judged where they are the same.

    Raises:
        Stopped: If somebody asked for an end.
        Paused: If the judge gives no answers.
    """
    if start.id == final.id or not known.pairs:
        return Regression(margin=known.margin)
    meter, judge = bench.meter, bench.judge_
    meter.begin("drawing", known.pairs)
    examples = known.draw(meter.reach)
    meter.begin("regression", 2 * len(examples))
    measure = judge.measure_ahead((start, final))
    if measure is not None:
        for _ in in_order(measure, examples, bench.concurrency):
            bench.check()
            meter.step(2)
        meter.end()  # what follows is read from memory
    with bench.outside_budget():
        return Regression(tuple(bench.judge(start, examples)), tuple(bench.judge(final, examples)), known.margin)
