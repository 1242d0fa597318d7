"""Read where in the image something is to be added, and measure how much of a change is there."""

import re
from dataclasses import dataclass

import numpy as np

from rewardharness.measure.curves import step
from rewardharness.measure.planes import Plane
from rewardharness.schema import EditRequest

_END = (
    r"(?=[.,;!?)]|$| (?:and|but|while|so|that|with|in (?:a|big|white|black|red|large|small|bold)\b|of (?:the|this)"
    r" (?:image|picture|photo\w*|frame|scene|screen|canvas)))"
)
_HALF = r"(?: (?:hand )?(?:side|half|edge|part|end|area|corner|border|third))?"
_PLACE = re.compile(
    r"\b(?:in|on|at|to|into|near|along|across) (?:the )?(?:very |far |upper |lower )?"
    rf"(?P<first>left|right|top|bottom|middle|cent(?:er|re))(?:[ -](?P<second>left|right|cent(?:er|re)))?{_HALF}{_END}"
)
_REACHED = (0.5, 0.1)
"""Share of the change on the requested side at which the place counts as right: middle and width."""
WRONG = 0.1
"""Grade of a change that is on the wrong side."""


@dataclass(frozen=True)
class ImageSide:
    """A side of the image: horizontal and vertical; 0 is the left or the top, 1 the right or the bottom."""

    name: str
    across: float | None
    down: float | None


def place_named(request: EditRequest) -> ImageSide | None:
    """Return the part of the image that an instruction names, such as `at the top left`.

    Places that are relative to an object, such as `on the left of the car` or `on the right wall`, are not read.
    """
    instruction = request.instruction
    for text in request.texts:
        instruction = instruction.replace(text, "")
    found = list(_PLACE.finditer(instruction.lower()))
    if len(found) != 1:
        return None
    words = [word.replace("centre", "center") for word in found[0].groups() if word]
    across = next((value for name, value in (("left", 0.0), ("right", 1.0)) if name in words), None)
    down = next((value for name, value in (("top", 0.0), ("bottom", 1.0)) if name in words), None)
    if across is None and (down is None or "center" in words[1:]):
        across = 0.5
    return ImageSide(" ".join(words), across, down)


def place_grade(place: ImageSide, weight: Plane) -> tuple[float, float]:
    """Return the share of a change that is in a place, and the grade: 1 if most of it is there.

    Args:
        place: The requested part of the image.
        weight: Strength of the change at each pixel.
    """
    total = max(float(weight.sum(dtype=np.float64)), 1e-9)
    share = 1.0
    for wanted, axis in ((place.across, 0), (place.down, 1)):
        if wanted is None:
            continue
        profile = weight.sum(axis=axis, dtype=np.float64) / total
        at = (np.arange(len(profile)) + 0.5) / len(profile)
        # Objects stand on the ground, so the sides overlap in the middle.
        near = np.abs(at - wanted) < (0.3 if wanted == 0.5 else 0.55)
        share = min(share, float(profile[near].sum()))
    return share, WRONG + (1.0 - WRONG) * step(share, *_REACHED)
