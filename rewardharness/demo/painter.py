"""An editor of the demo data: it makes the edit as asked, or, in a share of its edits, a known fault."""

from functools import lru_cache

import cv2
import numpy as np
import numpy.typing as npt

from rewardharness.demo.dataset import draw_candidate, known_edits, ways
from rewardharness.demo.edits import KnownEdit, pick
from rewardharness.demo.filters import Picture
from rewardharness.errors import InputError
from rewardharness.files import content_id

Gray = npt.NDArray[np.float32]
PAIRS = 100
"""Number of pairs of the dataset `demo`, whose edits are known."""
_SIDE = 32
_LIKE = 12.0
"""Mean difference of gray values, of 255, up to which two small images show the same."""


def paint(pixels: Picture, instruction: str, faulty: float, seed: int) -> tuple[Picture, str]:
    """Edit a source image of the demo data.

    Args:
        pixels: The image, of any size.
        instruction: An instruction of the demo data; more text may follow it.
        faulty: Probability of a fault, in [0, 1].
        seed: Seed; the same seed gives the same edit.

    Returns:
        The edited image in the size of the demo data, and its role: `right`, or the kind of fault.

    Raises:
        InputError: If the demo data have no such image with this instruction.
    """
    case = _case_of(pixels, instruction)
    key = content_id([case.key, case.instruction, seed])
    rng = np.random.default_rng(int(key[:16], 16))
    role = pick(ways(case), rng) if rng.random() < faulty else "right"
    picture, _ = draw_candidate(case, role, case.source(), case.right(), rng)
    return picture, role


def _case_of(pixels: Picture, instruction: str) -> KnownEdit:
    small = _small(pixels)
    for number, case in enumerate(known_edits(PAIRS)):
        if instruction.startswith(case.instruction) and np.abs(_source(number) - small).mean() < _LIKE:
            return case
    step = f"Use it with the data `demo`, or their first {PAIRS} pairs."
    raise InputError("The painter knows only the images and instructions of the demo data.", next_step=step)


@lru_cache(maxsize=PAIRS)
def _source(number: int) -> Gray:
    return _small(known_edits(PAIRS)[number].source())


def _small(pixels: Picture) -> Gray:
    gray = cv2.cvtColor(np.ascontiguousarray(pixels), cv2.COLOR_RGB2GRAY)
    return np.asarray(cv2.resize(gray, (_SIDE, _SIDE), interpolation=cv2.INTER_AREA), dtype=np.float32)
