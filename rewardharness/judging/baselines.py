"""Baseline judges, which read neither the instruction nor the Library, as their protocol states."""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Literal, get_args

from rewardharness.files import content_id
from rewardharness.judging.interface import Traits
from rewardharness.judging.judge import RewardJudge
from rewardharness.judging.revision import measures_revision
from rewardharness.library.store import Library
from rewardharness.measure.appearance import mean_difference, ssim
from rewardharness.measure.images import load_picture
from rewardharness.measure.planes import Pixels
from rewardharness.schema import TIE, Example, Judgment
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
    "ssim": lambda source, candidate: min(max((1.0 + ssim(source, candidate)) / 2.0, 0.0), 1.0),
}
"""Rewards in [0, 1] of the baselines that compare pixels."""


@dataclass(frozen=True, repr=False)
class BaselineJudge(RewardJudge):
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
        judgment = await super().judge(example, library)
        # `always-a` depends on the order alone, pixel differences not at all; for `random` it is undefined.
        consistent = {"always-a": False, "random": None}.get(self.kind, True)
        return replace(judgment, position_consistent=consistent if judgment.preference else None)

    async def numbers(self, example: Example) -> dict[str, float]:
        """Return a reward per label."""
        return await asyncio.to_thread(self._rewards, example)

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


def _chance(*parts: str) -> float:
    """Return a pseudorandom number in [0, 1) that depends only on the arguments."""
    return int(content_id(list(parts))[:13], 16) / 16**13
