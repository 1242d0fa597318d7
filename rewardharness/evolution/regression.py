"""The regression set: pairs drawn by code, on which an evolved Library must not do worse than where it began.

Training examples seldom show every fault that a judge has to see. These do: edits that were not made, went too far, are
wrong or have a defect. They are drawn once, and judged only where the Library has changed.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rewardharness.data.folder import read_folder
from rewardharness.demo.dataset import make_demo
from rewardharness.evolution.audit import Score
from rewardharness.evolution.bench import JudgeBench
from rewardharness.evolution.proposal import Outcome
from rewardharness.library.store import Library
from rewardharness.schema import Example, Json
from rewardharness.settings import Settings

MARGIN = 0.05
"""Loss of accuracy, in [0, 1], above which the evolved Library is not the result of the run."""

SEED = 1907
"""Of the drawing; not that of the demonstration set, which runs learn from."""

Draw = Callable[[], Sequence[Example]]


def drawer(settings: Settings) -> Draw:
    """Make the function that draws the set, which takes part of a minute on first use."""
    pairs = settings.regression_pairs

    def draw() -> Sequence[Example]:
        if not pairs:
            return ()
        folder = settings.home / "data" / f"regression-{pairs}"
        make_demo(folder, pairs=pairs, groups=0, seed=SEED, force=True, workers=settings.workers)
        return read_folder(folder).examples

    return draw


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


def hold_regression(bench: JudgeBench, draw: Draw, start: Library, final: Library, margin: float) -> Regression:
    """Judge the regression set with both Libraries; nothing is drawn or judged where they are the same.

    Raises:
        Stopped: If somebody asked for an end.
        Paused: If the judge gives no answers.
    """
    examples = draw() if start.id != final.id else ()
    with bench.outside_budget():
        return Regression(tuple(bench.judge(start, examples)), tuple(bench.judge(final, examples)), margin)
