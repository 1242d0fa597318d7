"""Where and how much a candidate differs from its source, for readers that see the images: boxes, numbers and crops.

Nothing here depends on the instruction or on another candidate.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from rewardharness.measure.planes import Pixels
from rewardharness.measure.regions import find_regions, preservation
from rewardharness.measure.view import EditView
from rewardharness.schema import EditRequest

MAX_BOXES = 4
"""Maximum number of boxes that are listed, the largest first."""
MAX_CROPS = 2
"""Maximum number of places that are cropped, the largest changes first."""
CROP_SIDES = 256, 768
"""Smallest and largest side of a crop, in pixels of the source."""
MARGIN = 0.25
"""Margin around a changed region on each side, as a share of its width or height."""
WHOLE = 0.6
"""A crop of more than this share of the image is left out: it shows little that the image itself does not."""

Box = tuple[float, float, float, float]
"""Left, top, right and bottom, as shares of width and height."""

_ANY_EDIT = EditRequest("", ("other",), "local")


@dataclass(frozen=True)
class Changes:
    """The differences of one candidate from its source."""

    identical: bool
    """Whether all pixels are equal."""
    share: float
    """Changed share of the image."""
    regions: int
    """Number of connected changed regions."""
    largest: float
    """Share of the change in the largest region."""
    boxes: tuple[Box, ...]
    """Boxes of the largest regions, at most `MAX_BOXES`."""
    outside: float
    """Share of the image outside the largest regions and a margin."""
    outside_distance: float
    """Mean color difference there (CIE 1976)."""
    outside_structure: float
    """Mean structural similarity there, 0 to 1."""
    shift: tuple[float, float]
    """Translation of the candidate that aligns it with the source: right and down, as shares of width and height."""
    source_size: tuple[int, int]
    """Width and height in pixels."""
    candidate_size: tuple[int, int]
    """Width and height in pixels, before the candidate was fitted into the frame of the source."""


@dataclass(frozen=True)
class Crop:
    """The same place of the source and of a candidate, at the resolution of the source."""

    box: Box
    source: Pixels
    candidate: Pixels


def find_changes(view: EditView) -> Changes:
    """Measure where and how much a candidate differs from its source."""
    _, regions = find_regions(view)
    height, width = view.changed.shape
    total = sum(region.area for region in regions)
    outside = preservation(view, _ANY_EDIT).quantities if regions else {}
    alignment = view.alignment
    return Changes(
        identical=view.identical,
        share=round(view.changed_share, 4),
        regions=len(regions),
        largest=round(regions[0].area / total, 4) if regions else 0.0,
        boxes=tuple(_shares(region.box, width, height) for region in regions[:MAX_BOXES]),
        outside=round(outside.get("outside_share", 1.0), 4),
        outside_distance=round(outside.get("outside_dE", 0.0), 4),
        outside_structure=round(outside.get("outside_structure", 1.0), 4),
        shift=(alignment.shift[0] / width, alignment.shift[1] / height),
        source_size=alignment.source_size,
        candidate_size=alignment.candidate_size,
    )


def crop_changes(view: EditView, changes: Changes, max_pixels: int | None = None) -> list[Crop]:
    """Crop source and candidate around the largest changes.

    Nothing is scaled: a region that is larger than a crop may be is cropped around its center.

    Args:
        view: Source and candidate; only their pixels are used.
        changes: What `find_changes` returned for them.
        max_pixels: Maximum number of pixels of a crop.
    """
    height, width = view.source.shape[:2]
    right, down = round(changes.shift[0] * width), round(changes.shift[1] * height)
    crops: list[Crop] = []
    windows: list[tuple[int, int, int, int]] = []
    for box in changes.boxes:
        window = _window(box, width, height, max_pixels)
        if len(crops) == MAX_CROPS or _share(window, width, height) > WHOLE or _inside(box, windows, width, height):
            continue
        windows.append(window)
        left, top, end, bottom = window
        rows = np.clip(np.arange(top, bottom) - down, 0, height - 1)
        columns = np.clip(np.arange(left, end) - right, 0, width - 1)
        place = _shares(window, width, height)
        crops.append(Crop(place, view.source[top:bottom, left:end], view.candidate[np.ix_(rows, columns)]))
    return crops


def _window(box: Box, width: int, height: int, max_pixels: int | None) -> tuple[int, int, int, int]:
    """Return the pixels to crop around a box: within the image, and no larger than allowed."""
    least, most = CROP_SIDES
    if max_pixels is not None:
        most = max(1, min(most, math.isqrt(max_pixels)))
    sides = []
    for low, high, size in ((box[0], box[2], width), (box[1], box[3], height)):
        side = min(size, most, max(least, math.ceil((high - low) * (1 + 2 * MARGIN) * size)))
        start = min(max(0, round((low + high) / 2 * size - side / 2)), size - side)
        sides.append((start, start + side))
    (left, right), (top, bottom) = sides
    return left, top, right, bottom


def _inside(box: Box, windows: Sequence[tuple[int, int, int, int]], width: int, height: int) -> bool:
    """Return whether the center of a box is in one of the windows."""
    across, down = (box[0] + box[2]) / 2 * width, (box[1] + box[3]) / 2 * height
    return any(left <= across <= right and top <= down <= bottom for left, top, right, bottom in windows)


def _share(window: tuple[int, int, int, int], width: int, height: int) -> float:
    left, top, right, bottom = window
    return (right - left) * (bottom - top) / (width * height)


def _shares(box: tuple[int, int, int, int], width: int, height: int) -> Box:
    left, top, right, bottom = box
    return round(left / width, 3), round(top / height, 3), round(right / width, 3), round(bottom / height, 3)
