"""Tell the likely subject from the background, and measure whether the background alone was blurred."""

import re
from dataclasses import dataclass

import cv2
import numpy as np

from rewardharness.measure.curves import step, weighted_mean
from rewardharness.measure.planes import Plane, Planes, once
from rewardharness.measure.quality import coarse_detail, fine_detail
from rewardharness.measure.view import EditView
from rewardharness.schema import EditRequest

_BORDER = 0.12
"""Width of the border of the image, as a share of its side, that is background in most pictures."""
_LOST = (0.38, 0.06)
"""Loss of medium detail at the border, in octaves, at which the background counts as blurred: middle and width."""
_KEPT = (0.09, 0.02)
"""Share of the likely subject that is as sharp as before and unchanged, at which it counts as kept.

Both were chosen on honest and wrong blurs, crops and strong compression of generated scenes and 27 photographs of
objects: honest ones lose .5 octaves or more and keep .11 or more; copies that are blurred everywhere keep at most .09,
compressed ones lose at most .2."""


@dataclass(frozen=True)
class Focus:
    """What a blur of the background did."""

    lost: float
    """Loss of medium detail at the border, in octaves."""
    kept: float
    """Share of the likely subject that is as sharp as before and unchanged."""

    @property
    def grade(self) -> float:
        """Grade of a blur of the background."""
        return step(self.lost, *_LOST) * step(self.kept, *_KEPT)


def asks_blurred_background(request: EditRequest) -> bool:
    """Return whether the instruction asks for a blurred background, and not for another one."""
    return "blurrier" in request.tones and "background" in request.kinds[:2] and "replace" not in request.kinds


@once
def background_focus(view: EditView) -> Focus:
    """Measure how much detail the border lost, and how much of the likely subject kept it."""
    fine, coarse = ([of(image) for image in (view.before, view.after)] for of in (fine_detail, coarse_detail))
    height, width = fine[0].shape
    detail = coarse[0] / (coarse[0] + np.float32(4.0))
    down, across = np.mgrid[0:height, 0:width].astype(np.float32) + np.float32(0.5)
    # Left, top and right only: subjects often reach the lower border.
    inward = np.minimum(np.minimum(across, width - across) / width, down / height)
    border = np.clip(1.0 - inward / np.float32(_BORDER), 0.0, 1.0)
    subject, change = (
        cv2.resize(plane, (width, height), interpolation=cv2.INTER_AREA)
        for plane in (subject_likeness(view.before), view.change)
    )
    lost = np.log2((coarse[0] + 1.0) / (coarse[1] + 1.0))
    sharp = np.clip(1.0 + 2.0 * np.log2((fine[1] + 1.0) / (fine[0] + 1.0)), 0.0, 1.0) * (1.0 - change)
    return Focus(weighted_mean(lost, detail * border), weighted_mean(sharp, detail * subject**2))


@once
def subject_likeness(source: Planes) -> Plane:
    """Estimate from the source alone how likely each working pixel belongs to the subject.

    Returns:
        Values from 0 to 1: a wide Gaussian around the center times the color distance to the image border.
    """
    lab = source.lab
    height, width = lab.shape[:2]
    down, across = np.linspace(-1.0, 1.0, height)[:, None], np.linspace(-1.0, 1.0, width)[None, :]
    bell = np.exp(-((across / 0.75) ** 2) - (down / 0.9) ** 2)
    side = 48
    small = cv2.GaussianBlur(cv2.resize(lab, (side, side), interpolation=cv2.INTER_AREA), (0, 0), 1.0)
    # Left, top and right only: subjects often reach the lower border.
    border = np.concatenate([small[:, :3].reshape(-1, 3), small[:, -3:].reshape(-1, 3), small[:3].reshape(-1, 3)])[::4]
    squared = squared_distances(small.reshape(-1, 3), border)
    # Compare with the most similar tenth of the border, because a border may have several colors.
    alike = len(border) // 10
    nearest = np.sqrt(np.partition(squared, alike, axis=1)[:, : alike + 1]).mean(axis=1)
    nearest = nearest.reshape(side, side)
    unlike = 1.0 - np.exp(-nearest / 12.0)
    likeness = bell * (0.35 + 0.65 * cv2.resize(unlike.astype(np.float32), (width, height)))
    return np.asarray(likeness / max(float(likeness.max()), 1e-6), np.float32)


def asks_background(request: EditRequest) -> bool:
    """Return whether the background is to be changed."""
    # "The dog in the background" names a location, not the edited object.
    as_place = re.search(r"\b(?:in|from|at|to|into|on) (?:the|its) background\b", request.instruction.lower())
    return "background" in request.kinds[:2] and not as_place


def squared_distances(first: Plane, second: Plane) -> Plane:
    """Return the squared distances of all pairs of rows.

    Avoids a matrix product, whose threads would compete with those that measure other candidates.
    """
    total = np.zeros((len(first), len(second)), np.float32)
    for axis in range(first.shape[1]):
        step = first[:, axis, None] - second[None, :, axis]
        step *= step
        total += step
    return total
