"""Measure in which direction an object was moved, by matching its pixels between both images."""

from dataclasses import dataclass

import cv2
import numpy as np

from rewardharness.measure.curves import step
from rewardharness.measure.planes import Mask, Plane
from rewardharness.measure.reading import Quantity, Reading
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
    quantities = {
        "across": Quantity(best.across, "share", -1.0, 1.0),
        "down": Quantity(best.down, "share", -1.0, 1.0),
        "gain": Quantity(best.gain, "ratio", -1.0, 1.0),
    }
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
    found = []
    for label in largest:
        x, y, w, h, area = (int(number) for number in stats[label])
        small = area < _SMALLEST * stats[largest[0], cv2.CC_STAT_AREA] or min(w, h) < 4
        if not small and w <= _WIDEST * size[0] and h <= _WIDEST * size[1]:
            move = _move(before, after, changed, labels == label, (x, y, w, h))
            found += [move] if move else []
    return found


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
