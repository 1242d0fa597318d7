"""Measure in which direction an object was moved, and how much of a change is on a requested side of the image."""

import re
from dataclasses import dataclass

import cv2
import numpy as np

from rewardharness.measure.curves import step
from rewardharness.measure.planes import Mask, Plane, Reading
from rewardharness.measure.view import EditView
from rewardharness.schema import EditRequest

_SIDE = 256
"""Long side of the images that are matched, in pixels."""
_REGIONS, _SMALLEST = 5, 0.1
"""Number of edited regions that are considered, and their minimum size relative to the largest."""
_WIDEST = 0.6
"""Maximum side of the region of an object, as a fraction of the image."""
_APART = 0.35
"""Minimum displacement, relative to the sides of the region: less is an edit in place."""
_COVERED = 0.5
"""Minimum fraction of the other place that was edited too."""
LEAST_GAIN = 0.1
"""Minimum relative gain of the other place over the same place, below which nothing was moved. On 22 published edits of
AURORA-Bench that move an object, correct matches have .13 to .55."""
_DIRECTIONS = {"left": (-1.0, 0.0), "right": (1.0, 0.0), "up": (0.0, -1.0), "down": (0.0, 1.0)}

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
class _Move:
    """An edited region with a match at another edited place."""

    gain: float
    """(d - e) / (d + e + 5), d and e being the color differences (dE) at the same and at the other place."""
    across: float
    """To the right, as a fraction of the width of the image."""
    down: float
    """As a fraction of the height."""


def moved_region(view: EditView, request: EditRequest) -> Reading:
    """Measure whether an object was moved in the requested direction.

    Each larger edited region holds the object in the image in which it differs more from its surroundings. Its pixels
    are searched in the other image among edited places (masked squared color difference in CIELAB); the region with the
    clearest match counts. The grade is the logistic curve of the cosine between its displacement and the requested
    direction: .97 for the same direction, .5 at 60 degrees, .03 at a right angle.

    Returns:
        `across` and `down` (displacement as fractions of the image) and `gain` (clarity of the match, in [-1, 1]).
        No grade if no direction is requested, or something changed but no moved object is found.
    """
    if not request.directions:
        return Reading({}, None, "The instruction names no direction.")
    if not view.changed.any():
        return Reading({}, 0.0, "Nothing was moved.")
    best = max(_moves(view), key=lambda move: move.gain, default=None)
    if best is None or best.gain < LEAST_GAIN:
        return Reading({}, None, "It cannot be seen which object was moved.")
    wanted = np.sum([_DIRECTIONS[name] for name in request.directions], axis=0)
    length = float(np.hypot(*wanted)) * float(np.hypot(best.across, best.down))
    cosine = float(wanted[0] * best.across + wanted[1] * best.down) / length if length > 1e-6 else 0.0
    across, down = ("right" if best.across >= 0 else "left"), ("down" if best.down >= 0 else "up")
    sentence = (
        f"An object moved {abs(best.across):.0%} of the width to the {across} and {abs(best.down):.0%} of the height"
        f" {down}; {' and '.join(request.directions)} was requested."
    )
    quantities = {"across": best.across, "down": best.down, "gain": best.gain}
    return Reading(quantities, step(cosine, 0.5, 0.15), sentence)


def _moves(view: EditView) -> list[_Move]:
    height, width = view.changed.shape
    scale = min(1.0, _SIDE / max(height, width))
    size = max(8, round(width * scale)), max(8, round(height * scale))
    before, after = (
        np.asarray(cv2.resize(lab, size, interpolation=cv2.INTER_AREA), np.float32)
        for lab in (view.lab_source, view.lab_candidate)
    )
    changed = cv2.resize(view.changed.astype(np.float32), size, interpolation=cv2.INTER_AREA) > 0.5
    count, labels, stats, _ = cv2.connectedComponentsWithStats(changed.astype(np.uint8), connectivity=8)
    largest = sorted(range(1, count), key=lambda label: -int(stats[label, cv2.CC_STAT_AREA]))[:_REGIONS]
    moves = []
    for label in largest:
        x, y, w, h, area = (int(number) for number in stats[label])
        small = area < _SMALLEST * stats[largest[0], cv2.CC_STAT_AREA] or min(w, h) < 4
        if not small and w <= _WIDEST * size[0] and h <= _WIDEST * size[1]:
            move = _move(before, after, changed, labels == label, (x, y, w, h))
            moves += [move] if move else []
    return moves


def _move(before: Plane, after: Plane, changed: Mask, region: Mask, box: tuple[int, int, int, int]) -> _Move | None:
    """Find the object of one region in the other image."""
    x, y, w, h = box
    reach = 2 * max(3, max(w, h) // 4) + 1
    near = cv2.dilate(changed.astype(np.uint8), np.ones((3, 3), np.uint8)).astype(bool)
    ring = cv2.dilate(region.astype(np.uint8), np.ones((reach, reach), np.uint8)).astype(bool) & ~near
    if ring.sum() < 10:
        return None
    # The background that appears where an object was moves the opposite way, so the object must be told from it.
    forth = _apart(before, region, ring) > _apart(after, region, ring)
    held, other = (before, after) if forth else (after, before)
    shape = region[y : y + h, x : x + w].astype(np.float32)
    template = np.ascontiguousarray(held[y : y + h, x : x + w])
    squared = cv2.matchTemplate(other, template, cv2.TM_SQDIFF, mask=np.dstack([shape] * 3))
    distance = np.sqrt(np.maximum(squared / shape.sum(), 0.0))
    rows, columns = np.mgrid[0 : distance.shape[0], 0 : distance.shape[1]]
    edited = cv2.boxFilter(changed.astype(np.float32), -1, (w, h), anchor=(0, 0), borderType=cv2.BORDER_CONSTANT)
    elsewhere = np.hypot((columns - x) / w, (rows - y) / h) > _APART
    elsewhere &= edited[: distance.shape[0], : distance.shape[1]] > _COVERED * shape.mean()
    if not elsewhere.any():
        return None
    there_y, there_x = divmod(int(np.where(elsewhere, distance, np.inf).argmin()), distance.shape[1])
    here, there = float(distance[y, x]), float(distance[there_y, there_x])
    sign = 1.0 if forth else -1.0
    gain = (here - there) / (here + there + 5.0)
    return _Move(gain, sign * (there_x - x) / changed.shape[1], sign * (there_y - y) / changed.shape[0])


def _apart(lab: Plane, region: Mask, ring: Mask) -> float:
    """Return the mean color difference of points of the region to the most similar points of their surroundings."""
    inside, around = (lab[mask][:: max(1, int(mask.sum()) // 300)] for mask in (region, ring))
    squared = ((inside[:, None] - around[None]) ** 2).sum(axis=2)
    alike = min(3, squared.shape[1] - 1)
    return float(np.sqrt(np.partition(squared, alike, axis=1)[:, : alike + 1]).mean())


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
    places = list(_PLACE.finditer(instruction.lower()))
    if len(places) != 1:
        return None
    words = [word.replace("centre", "center") for word in places[0].groups() if word]
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
