"""Baseline judges, which read neither the instruction nor the Library, as their protocol states."""

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, get_args

from rewardharness.errors import HarnessError
from rewardharness.files import content_id
from rewardharness.judging.chain import answer
from rewardharness.judging.interface import JudgeProtocol, Traits, failure_of, refuse, unjudged
from rewardharness.judging.judge import Judge
from rewardharness.judging.revision import measures_revision
from rewardharness.library.store import Library
from rewardharness.measure.appearance import mean_difference, ssim
from rewardharness.measure.images import load_picture
from rewardharness.measure.planes import Pixels
from rewardharness.schema import TIE, Example, Failure, Judgment, Scores, Usage
from rewardharness.task import IMAGE_EDIT, TASKS

Baseline = Literal["random", "always-a", "closer", "farther", "ssim"]
BASELINES: tuple[Baseline, ...] = get_args(Baseline)
"""`random`: random, seeded by the id of the example. `always-a`: the first candidate. `closer`, `farther`: by the mean
absolute difference from the source. `ssim`: the higher structural similarity to the source."""

READING = 1
"""Version of the answers of the baselines."""

_NEAR: Mapping[str, Callable[[Pixels, Pixels], float]] = {
    "closer": lambda source, candidate: 1.0 - mean_difference(source, candidate),
    "farther": mean_difference,
    "ssim": lambda source, candidate: (1.0 + ssim(source, candidate)) / 2.0,
}
"""Rewards in [0, 1] of the baselines that compare pixels."""


@dataclass(frozen=True, repr=False)
class BaselineJudge(Judge):
    """A judge that does not depend on the instruction.

    Args:
        kind: The baseline.
        ties: Whether the labels have ties. `random` then answers `tie` as often as any label; the others only if the
            rewards are equal.
    """

    kind: Baseline
    ties: bool = False

    @property
    def name(self) -> str:
        """The kind, with the note that it is a baseline."""
        return f"{self.kind} (baseline)"

    @property
    def traits(self) -> Traits:  # type: ignore[override]  # read-only
        """It is for all tasks, unless it compares pixels."""
        return Traits((IMAGE_EDIT,) if self.kind in _NEAR else tuple(TASKS.values()), uses_library=False)

    @property
    def protocol(self) -> str:
        """The kind as a protocol."""
        return f"baseline:{self.kind}"

    @property
    def revision(self) -> str:
        """Content id of its code and settings."""
        return content_id([READING, self.kind, self.ties, measures_revision() if self.kind in _NEAR else ""])

    async def judge(self, example: Example, library: Library) -> Judgment:
        """Judge one example; the Library is not read.

        Returns:
            Rewards, and of several candidates a preference; or a failure `input` or `image`.
        """
        started = time.perf_counter()
        failure = refuse(example, self, library)
        if failure is not None:
            return unjudged(example, self, library, failure)
        try:
            rewards = await asyncio.to_thread(self._rewards, example)
        except HarnessError as error:
            return unjudged(example, self, library, failure_of(error))
        judgment = ranked(example, self, library, rewards, rewards, ties=self.ties)
        # `always-a` depends on the order alone, pixel differences not at all; for `random` it is undefined.
        consistent = {"always-a": False, "random": None}.get(self.kind, True) if len(rewards) > 1 else None
        return replace(judgment, position_consistent=consistent, usage=Usage(seconds=time.perf_counter() - started))

    async def close(self) -> None:
        """Do nothing."""

    def with_ties(self, ties: bool) -> "BaselineJudge":
        """Return the same judge with `tie` among its answers, or without."""
        return replace(self, ties=ties)

    def _rewards(self, example: Example) -> dict[str, float]:
        labels = example.labels
        if self.kind == "always-a":
            return {label: float(label == labels[0]) for label in labels}
        if self.kind == "random":
            drawn = {label: _chance(example.id, label) for label in labels}
            tie = self.ties and len(drawn) > 1 and _chance(example.id, TIE) < 1 / (len(drawn) + 1)
            return dict.fromkeys(drawn, drawn[labels[0]]) if tie else drawn
        source = load_picture(example.source_image).pixels
        near = _NEAR[self.kind]
        candidates = zip(labels, example.candidate_images, strict=True)
        return {label: near(source, load_picture(image).pixels) for label, image in candidates}


def ranked(
    example: Example,
    judge: JudgeProtocol,
    library: Library,
    values: Mapping[str, float],
    rewards: Mapping[str, float],
    *,
    ties: bool,
) -> Judgment:
    """Create a judgment from one number per candidate, on any scale.

    Args:
        example: The example.
        judge: The judge.
        library: The Library.
        values: A finite number per candidate; the highest is preferred.
        rewards: The values scaled to [0, 1].
        ties: Whether `tie` is an allowed answer.
    """
    levels = sorted(set(values.values()), reverse=True)
    ranking = tuple(tuple(label for label in example.labels if values[label] == level) for level in levels)
    scores = {label: Scores(None, None, rewards[label]) for label in example.labels}
    steps = (answer({label: values[label] for label in example.labels}),)
    order = [label for level in ranking for label in level]
    margin = rewards[order[0]] - rewards[order[1]] if len(order) > 1 else None
    return replace(placed(example, judge, library, ranking, ties=ties), scores=scores, steps=steps, margin=margin)


def placed(
    example: Example, judge: JudgeProtocol, library: Library, ranking: Sequence[tuple[str, ...]], *, ties: bool
) -> Judgment:
    """Create a judgment from a ranking, without scores or margin."""
    blank = unjudged(example, judge, library, Failure("", ""))
    preference = None if len(example.labels) == 1 else TIE if len(ranking[0]) > 1 else ranking[0][0]
    return replace(blank, failure=None, preference=preference, ranking=tuple(ranking), ties_offered=ties)


def _chance(*parts: str) -> float:
    """Return a pseudorandom number in [0, 1) that depends only on the arguments."""
    return int(content_id(list(parts))[:13], 16) / 16**13
