"""Locate what a candidate changed: visible differences in color and structure, and the regions that they form."""

import cv2
import numpy as np

from rewardharness.measure.planes import Mask, Plane, Planes, once

COLOR_OFFSET = (3.0, 2.0, 2.0)
"""Largest uniform offsets in L, a and b that are attributed to re-encoding rather than to an edit."""
COLOR_FLOOR, COLOR_CEILING = 1.8, 4.0
"""Color difference (dE) that counts as half an edit, on a clean and on a noisy pair."""
STRUCTURE_FLOOR, STRUCTURE_CEILING = 1.2, 3.0
"""Structure difference (in L) that counts as half an edit in a flat area, on a clean and on a noisy pair."""
MASKING_FLOOR, MASKING_CEILING = 0.4, 0.7
"""Visual masking of structure differences per unit of local contrast, on a clean and on a noisy pair."""
_REACH = 6
"""Rows on each side that a blur with a sigma of 1.5 covers."""


def _blur(plane: Plane, sigma: float) -> Plane:
    return np.asarray(cv2.GaussianBlur(plane, (0, 0), sigma, borderType=cv2.BORDER_REFLECT_101), np.float32)


def _neighbors(plane: Plane) -> list[Plane]:
    """Return the nine copies of the plane shifted by up to one pixel in each direction."""
    height, width = plane.shape[:2]
    padded = cv2.copyMakeBorder(plane, 1, 1, 1, 1, cv2.BORDER_REFLECT_101)
    return [padded[y : y + height, x : x + width] for y in range(3) for x in range(3)]


def _soft_colors(lab: Plane) -> list[Plane]:
    """Average L, a and b at half the working size, a and b over a wider area."""
    height, width = lab.shape[:2]
    size = (max(1, width // 2), max(1, height // 2))
    soft = _blur(np.asarray(cv2.resize(lab, size, interpolation=cv2.INTER_AREA), np.float32), 1.0)
    chroma = _blur(np.ascontiguousarray(soft[..., 1:]), 1.0)
    return [np.ascontiguousarray(plane) for plane in (soft[..., 0], chroma[..., 0], chroma[..., 1])]


@once
def _soft_source(source: Planes) -> list[Plane]:
    return _soft_colors(source.lab)


def color_change(source: Planes, candidate: Plane, valid: Mask) -> Plane:
    """Measure the local color change at half the working size; 1 is just visible.

    Chroma is averaged over a wider area than lightness, as in human vision and image codecs, and weighs less in
    saturated colors (after CIE94). The smallest difference over one-pixel displacements counts. The visibility
    threshold is estimated from the pair: the median difference is attributed to re-encoding, within fixed limits so
    that a global edit stays visible.
    """
    first, second = _soft_source(source), _soft_colors(candidate)
    size = first[0].shape[::-1]
    inside = cv2.resize(valid.astype(np.uint8), size, interpolation=cv2.INTER_NEAREST).astype(bool)
    if not inside.any():
        return np.zeros(inside.shape, np.float32)
    for axis, (before, after, limit) in enumerate(zip(first, second, COLOR_OFFSET, strict=True)):
        offset = np.median((after - before)[inside][::7])
        second[axis] = after - np.float32(np.clip(offset, -limit, limit))
    chroma = np.minimum(np.hypot(*first[1:]), np.hypot(*second[1:]))
    weight = (1.0 / (1.0 + 0.03 * chroma)) ** 2
    least = np.full(inside.shape, np.inf, np.float32)
    step, squared, other = (np.empty_like(least) for _ in range(3))
    for lightness, a, b in zip(*map(_neighbors, second), strict=True):
        np.subtract(first[1], a, out=squared)
        squared *= squared
        np.subtract(first[2], b, out=other)
        other *= other
        squared += other
        squared *= weight
        np.subtract(first[0], lightness, out=step)
        step *= step
        step += squared
        np.minimum(least, step, out=least)
    distance = np.sqrt(least)
    noise = float(np.median(distance[inside][::4]))
    return np.asarray(distance / np.clip(0.9 + 3.0 * noise, COLOR_FLOOR, COLOR_CEILING), np.float32)


@once
def _source_structure(source: Planes) -> tuple[Plane, Plane]:
    return _structure(source.channels[0])


def _structure(lightness: Plane) -> tuple[Plane, Plane]:
    """Return slightly smoothed lightness and its local contrast."""
    smooth = _blur(lightness, 0.7)
    return smooth, np.sqrt(np.maximum(_variance(smooth, 2.2), 0.0))


def structure_change(source: Planes, candidate: Plane, valid: Mask) -> Plane:
    """Measure the local change of structure in lightness; 1 is just visible.

    The measure is the local standard deviation of the difference, the smallest over one-pixel displacements, relative
    to what the local contrast masks (Weber's law). The lower contrast of the two images is used, so that new or lost
    texture does not mask itself.
    """
    (first, contrast), (second, other) = _source_structure(source), _structure(candidate)
    contrast = np.minimum(contrast, other)
    difference = np.zeros_like(first)
    rows = np.flatnonzero((first != second).any(axis=1))
    if rows.size:  # elsewhere the smallest difference is 0
        top, bottom = max(0, rows[0] - _REACH), rows[-1] + 1 + _REACH
        start = max(0, top - _REACH)
        part = np.s_[start : bottom + _REACH]
        least = np.full_like(first[part], np.inf)
        for moved in _neighbors(second):
            np.minimum(least, _variance(first[part] - moved[part], 1.5), out=least)
        changed = least[top - start : bottom - start]
        difference[top:bottom] = np.sqrt(np.maximum(changed, 0.0))
    if not valid.any():
        return difference
    noise = min(1.0, float(np.quantile(difference[valid][::9], 0.4)) / 0.7)
    hidden = STRUCTURE_FLOOR + (STRUCTURE_CEILING - STRUCTURE_FLOOR) * noise
    masking = MASKING_FLOOR + (MASKING_CEILING - MASKING_FLOOR) * noise
    ratio = difference / (hidden + masking * contrast)
    everywhere = float(np.quantile(ratio[valid][::9], 0.4))
    return np.asarray(ratio / np.clip(everywhere / 0.35, 1.0, 2.5), np.float32)


def _variance(plane: Plane, sigma: float) -> Plane:
    """Return the local variance; rounding may make it slightly negative."""
    mean = _blur(plane, sigma)
    mean *= mean
    variance = _blur(plane * plane, sigma)
    variance -= mean
    return variance


def find_edited(heat: Plane) -> Mask:
    """Segment the change map: threshold with hysteresis, drop specks, close small gaps."""
    weak = (heat > 0.4).astype(np.uint8)
    weak = cv2.morphologyEx(weak, cv2.MORPH_OPEN, np.ones((3, 3), np.uint8))
    count, labels, stats, _ = cv2.connectedComponentsWithStats(weak, connectivity=8)
    strong = np.bincount(labels[heat >= 0.7], minlength=count) > 0
    keep = (stats[:, cv2.CC_STAT_AREA] >= max(24.0, 3e-4 * heat.size)) & strong
    keep[0] = False
    if not keep.any():
        return np.zeros(heat.shape, bool)
    regions = keep.take(labels).astype(np.uint8)
    regions = cv2.morphologyEx(regions, cv2.MORPH_CLOSE, cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (7, 7)))
    _, labels, stats, _ = cv2.connectedComponentsWithStats(1 - regions, connectivity=4)
    holes = stats[:, cv2.CC_STAT_AREA] < 0.01 * heat.size
    holes[0] = False
    return np.asarray(regions.astype(bool) | holes.take(labels), bool)
