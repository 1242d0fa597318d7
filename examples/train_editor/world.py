"""The small world of the example: edits of demo scenes at 64 pixels, and the pixel truth about an edit."""

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain

import cv2
import numpy as np
import numpy.typing as npt

from rewardharness.demo import edits, scene_edits
from rewardharness.demo.dataset import draw_candidate, ways
from rewardharness.demo.edits import KnownEdit, Rng
from rewardharness.demo.folder import in_order
from rewardharness.demo.scenes import PLACES, Scene, furnish

SIDE = 64
Picture = npt.NDArray[np.uint8]

PLACES["table"] = replace(PLACES["table"], kinds=("ball", "bottle", "cube", "mug"))
OTHER_COLORS = re.compile("orange|purple|pink|black|white")
"""What a tiny editor learns in minutes: four kinds of object, and four colors to ask for."""

FAULTS = ("wrong_edit", "over_edit", "no_edit", "partial")
PER_ROOM = 12
"""Edits per room: pictures with the same light, wall and table."""


@dataclass(frozen=True)
class Case:
    """One request with its source, the right edit, and the edit that the training data show for it."""

    instruction: str
    kind: str
    source: Picture
    right: Picture
    shown: Picture
    role: str
    """What `shown` is: `right`, or a fault of the demo data."""


def make_cases(rooms: range, faulty: float, each: int = PER_ROOM) -> list[Case]:
    """Draw the cases of some rooms; other rooms have other sources."""
    return list(chain.from_iterable(in_order(partial(_cases, faulty, each), rooms, 2)))


def _cases(faulty: float, each: int, room: int) -> list[Case]:
    return [_case(room, number, faulty) for number in range(each)]


def _case(room: int, number: int, faulty: float) -> Case:
    rng = np.random.default_rng([room, number])
    name, make = list(KINDS_OF_EDIT.items())[(room + number) % len(KINDS_OF_EDIT)]
    edit = None
    while edit is None or OTHER_COLORS.search(edit.instruction):  # not every edit of a tone is the one wanted here
        things = furnish("table", int(rng.integers(1 << 30))).things
        edit = make(replace(furnish("table", room), things=things), rng)
    source, right = edit.source(), edit.right()
    role = edits.pick([way for way in ways(edit) if way in FAULTS], rng) if rng.random() < faulty else "right"
    shown, _ = draw_candidate(edit, role, source, right, rng)
    return Case(edit.instruction, name, *map(_small, (source, right, shown)), role)


def _small(picture: Picture) -> Picture:
    return np.asarray(cv2.resize(picture, (SIDE, SIDE), interpolation=cv2.INTER_AREA), dtype=np.uint8)


def _tone(words: str, scene: Scene, rng: Rng) -> KnownEdit | None:
    edit = edits.change_tone(scene_edits.base_of(scene, rng), rng)
    return edit if edit is not None and re.search(words, edit.instruction, re.I) else None


KINDS_OF_EDIT: dict[str, Callable[[Scene, Rng], KnownEdit | None]] = {
    "recolor": scene_edits.recolor,
    "brighten": partial(_tone, "brighte|increase the brightness"),
    "darken": partial(_tone, "darke|lower the brightness"),
}


def truth(case: Case, edited: Picture) -> bool:
    """Whether an edit is what the generator of the data would have drawn; no judge is asked.

    Most of the way from the source to the right edit is gone, and almost no pixel is clearly further from the right
    edit than in the source.
    """
    source, right, made = (picture.astype(np.float32) / 255 for picture in (case.source, case.right, edited))
    wanted, missing = (np.abs(right - picture).max(axis=2) for picture in (source, made))
    inside = cv2.dilate((wanted > 0.06).astype(np.uint8), np.ones((3, 3), np.uint8)) > 0
    done = 1 - missing[inside].mean() / wanted[inside].mean()
    return bool(done >= 0.6 and (missing > wanted + 0.12).mean() <= 0.01)
