"""Measure the visual quality of a candidate relative to its source.

Fine detail, noise, block edges and clipping are measured at full resolution. Every number is relative to the source in
the same frame, so that a soft or noisy source does not lower the grade.
"""

import re
from functools import partial

import cv2
import numpy as np

from rewardharness.measure.curves import excess, fall, magnitude, weighted_mean
from rewardharness.measure.framing import reframing, unrequested
from rewardharness.measure.planes import Mask, Pixels, Plane, Planes, Reading, once
from rewardharness.measure.view import EditView
from rewardharness.schema import EditRequest

Color = tuple[int, int, int]

_TILE = 16
"""Side of the tiles over which full-resolution energies are averaged, in pixels of the source."""


@once
def _edited_and_kept(view: EditView) -> tuple[Plane, Plane]:
    """Return the share of each tile that was edited, and the share that was not."""
    grid = _grid(view.before)
    covered = cv2.resize(view.valid.astype(np.float32), grid, interpolation=cv2.INTER_AREA)
    edited = np.asarray(cv2.resize(view.change * view.valid, grid, interpolation=cv2.INTER_AREA), np.float32)
    return edited, np.maximum(covered - edited, 0.0)


@once
def fine_detail(image: Planes) -> Plane:
    """Return the energy of the finest detail per tile: the mean absolute Laplacian."""
    return _tiles(image, _laplacian(image.luma))


@once
def coarse_detail(image: Planes) -> Plane:
    """Return the same at a quarter of the size, which only strong blur affects."""
    return _tiles(image, _laplacian(_quarter(image.luma)))


@once
def _noise(image: Planes) -> Plane:
    """Estimate the noise per tile in gray levels: mean absolute diagonal Haar coefficient, scaled to a normal sigma."""
    return _tiles(image, _diagonal(image.luma)) * np.float32(1.2533)


def _grid(image: Planes) -> tuple[int, int]:
    height, width = image.pixels.shape[:2]
    return max(1, width // _TILE), max(1, height // _TILE)


def _tiles(image: Planes, plane: Plane) -> Plane:
    return np.asarray(cv2.resize(plane, _grid(image), interpolation=cv2.INTER_AREA), np.float32)


def sharpness(view: EditView, request: EditRequest) -> Reading:
    """Measure whether the candidate is as sharp as the source, outside and inside the edit.

    Outside, the energy of fine detail is compared locally. Inside, where the content differs, the ratio of
    fine to coarse detail is compared with that of the whole source and of the same region, whichever is nearer. Blur
    costs twice as much as over-sharpening.
    """
    edited_here, kept = _edited_and_kept(view)
    fine_source, fine_candidate = fine_detail(view.before), fine_detail(view.after)
    coarse_source, coarse_candidate = coarse_detail(view.before), coarse_detail(view.after)
    outside = weighted_mean(
        np.log2((fine_candidate + 2.0) / (fine_source + 2.0)), kept * fine_source / (fine_source + 4.0)
    )
    index_source, index_candidate = (
        np.log2((fine + 0.5) / (coarse + 0.5))
        for fine, coarse in ((fine_source, coarse_source), (fine_candidate, coarse_candidate))
    )
    usual = weighted_mean(index_source, coarse_source)
    usual_here = weighted_mean(index_source, edited_here * coarse_source, usual)
    index = weighted_mean(index_candidate, edited_here * coarse_candidate, usual)
    # The edit may be as sharp as the image or as soft as the region was before.
    inside = min(index - usual, index - usual_here, key=abs)
    edited = float(edited_here.mean()) ** 0.5
    quantities = {"outside": outside, "inside": inside}
    sentence = (
        f"Fine detail relative to the source: {outside:+.2f} octaves outside the edit, {inside:+.2f} inside"
        " (negative is blurred, positive is over-sharpened)."
    )
    if "blurrier" in request.tones:
        return Reading(quantities, None, sentence + " The instruction asks for blur.")
    allowed = 1.0 if "sharper" in request.tones else 0.1
    # A new style has a different amount of detail; only strong blur counts there.
    patience = 2.0 if "style" in request.kinds else 1.0
    costs = [excess(-shift, 0.05) + 0.5 * excess(shift - allowed, 0.05) for shift in (outside, inside)]
    cost = ((1.0 - edited) * costs[0] + edited * costs[1]) / patience
    return Reading(quantities, fall(cost, 0.9), sentence)


def noise(view: EditView, request: EditRequest) -> Reading:
    """Measure the noise that the candidate adds to the source, in gray levels (standard deviation).

    Outside the edit the smoothest areas of the source are compared locally. Inside, the smoothest quarter of the edited
    area is compared with the smoothest quarter of the source, there or anywhere, whichever is noisier.
    """
    edited_here, kept = _edited_and_kept(view)
    before, after = _noise(view.before), _noise(view.after)
    calm = kept / (1.0 + (before / 1.5) ** 2)
    outside = weighted_mean(after**2 - before**2, calm)
    level_before, level_after = (_calm_level(level, np.ones_like(level)) for level in (before, after))
    usual = max(level_before, _calm_level(before, edited_here))
    inside = _calm_level(after, edited_here) ** 2 - usual**2
    edited = float(edited_here.mean())
    added = float(np.sqrt(excess((1.0 - edited) * outside + edited * inside, 0.5)))
    quantities = {"sigma_source": level_before, "sigma_candidate": level_after, "added": added}
    sentence = (
        f"Noise in smooth areas: {level_before:.1f} gray levels in the source, {level_after:.1f} in the candidate; the"
        f" edit added {added:.1f}."
    )
    return Reading(quantities, fall(added, 8.0), sentence)


def blockiness(view: EditView, request: EditRequest) -> Reading:
    """Measure block edges of strong JPEG compression in the candidate beyond those of the source.

    Differences between neighboring columns and rows are averaged by position modulo 8. Strength is the excess of the
    block edges over the median position. A candidate of a different size than the source is resampled, which hides
    its blocks.
    """
    before, after = _grid_strength(view.before), _grid_strength(view.after)
    quantities = {"strength_source": before, "strength_candidate": after}
    sentence = (
        f"JPEG block edges (8 x 8 pixels) stand out by {after:.0%} in the candidate and {before:.0%} in the source."
    )
    return Reading(quantities, fall(excess(after - before - 0.08, 0.04), 0.5), sentence)


def clipping(view: EditView, request: EditRequest) -> Reading:
    """Measure the fraction of the image that the edit clipped to pure black or pure white.

    Clipping within the edit counts half, because a new object may be black or white. It does not count if the
    instruction asks for black or white.
    """
    before, after = _clipped(view.before), _clipped(view.after)
    highlights, shadows = (np.maximum(new - old, 0.0) * view.valid for old, new in zip(before, after, strict=True))
    asked = {word for name in request.colors for word in name.split()}
    weight = 1.0 - (1.0 if asked & {"white", "black"} else 0.5) * view.change
    cost = float(((highlights + shadows) * weight).mean())
    quantities = {"highlights": float(highlights.mean()), "shadows": float(shadows.mean())}
    sentence = f"Newly clipped: {highlights.mean():.1%} of the image to white and {shadows.mean():.1%} to black."
    overlay = partial(_painted, view.small_candidate, highlights > 0.5, (255, 0, 0), shadows > 0.5, (0, 0, 255))
    return Reading(quantities, fall(cost, 0.08), sentence, overlay)


def seam(view: EditView, request: EditRequest) -> Reading:
    """Measure seams of the edit: straight new edges along rows and columns, and a hard edge around the region.

    `straight` is the mean height, per pixel of the boundary, of new edges that run straight along a row or column for a
    sixteenth of the long side, or a sixth where text is requested. `rim` is the mean gradient along the boundary of the
    region beyond that of the source there and beyond the strong gradients (75th percentile) inside the region.
    """
    rim_band, inside = _boundary(view)
    if not rim_band.any():
        return Reading({}, None, "There is no edited region with a boundary.")
    # The strokes of requested letters are straight, too.
    length = max(9, max(view.valid.shape) // (6 if request.texts else 16))
    lines = _straight_edges(view, length, False)
    lines += _straight_edges(view, length, True).T
    near = cv2.dilate(rim_band.astype(np.uint8), np.ones((5, 5), np.uint8)) > 0
    lines *= near
    # The band of the boundary is five pixels wide, a straight edge one or two.
    straight = 5.0 * float(lines.sum()) / float(rim_band.sum())
    before, after = _gradient(view.before), _gradient(view.after)
    usual = float(np.percentile(after[inside], 75)) if inside.any() else 0.0
    expected = np.maximum(cv2.dilate(before, np.ones((5, 5), np.uint8)), usual)
    rim = float(np.maximum(after - expected, 0.0)[rim_band].mean())
    quantities = {"straight": straight, "rim": rim}
    sentence = (
        f"Along the boundary of the edit, new straight edges have a mean height of {straight:.1f} L, and the boundary"
        f" is {rim:.1f} L harder than its surroundings."
    )
    overlay = partial(_painted, view.small_candidate, rim_band, (255, 200, 0), lines > 3.0, (255, 0, 0))
    return Reading(quantities, fall(straight / 12.0 + rim / 15.0, 1.0), sentence, overlay)


def frame_match(view: EditView, request: EditRequest) -> Reading:
    """Measure whether the frame is preserved: aspect ratio and size, no new bars, no unrequested crop or turn."""
    alignment = view.alignment
    areas = [max(1, size[0] * size[1]) for size in (alignment.source_size, alignment.candidate_size)]
    scale = float(np.log2(areas[1] / areas[0])) / 2.0
    rows, columns = (np.flatnonzero(view.valid.any(axis=axis)) for axis in (1, 0))
    # Letterbox margins from alignment are not bars of the candidate; the aspect ratio accounts for them.
    covered = (slice(rows[0], rows[-1] + 1), slice(columns[0], columns[-1] + 1)) if rows.size and columns.size else ()
    bars = _bars(view.small_candidate[covered])
    bars = max(0.0, bars - _bars(view.small_source[covered])) if bars else 0.0
    quantities = {"aspect_error": alignment.aspect_error, "scale": scale, "bars": bars, "moved": reframing(view).moved}
    sentence = (
        f"The aspect ratio differs by {alignment.aspect_error:.1%}, the side length by a factor of {2.0**scale:.2f},"
        f" and new bars or borders cover {bars:.1%} of the frame."
    )
    if re.search(r"\b(border|frame|letterbox|vignette|polaroid)", request.instruction.lower()):
        bars = 0.0
    reframed = unrequested(view, request)
    if reframed.explained > 0.5:
        sentence += f" The whole picture was cropped, turned or warped by {reframed.moved:.1%} of its side."
    cost = alignment.aspect_error / 0.25 + max(0.0, -scale) / 3.0 + max(0.0, scale) / 20.0 + bars / 0.15
    return Reading(quantities, fall(cost, 1.0) * reframed.kept, sentence)


def _quarter(gray: Pixels) -> Pixels:
    size = (max(1, gray.shape[1] // 4), max(1, gray.shape[0] // 4))
    return np.asarray(cv2.resize(gray, size, interpolation=cv2.INTER_AREA), np.uint8)


def _laplacian(gray: Pixels) -> Plane:
    # 16-bit integers hold the range exactly and are several times faster than floats.
    return np.asarray(cv2.convertScaleAbs(cv2.Laplacian(gray, cv2.CV_16S)).astype(np.float32), np.float32)


def _diagonal(gray: Pixels) -> Plane:
    height, width = (side - side % 2 for side in gray.shape)
    if not height or not width:
        return np.zeros((1, 1), np.float32)
    even = gray[:height, :width].astype(np.int16)
    rows = even[0::2] - even[1::2]
    return np.abs(rows[:, 0::2] - rows[:, 1::2]).astype(np.float32) * np.float32(0.5)


def _calm_level(levels: Plane, weights: Plane) -> float:
    """Return the mean level of the smoothest quarter of the weight."""
    order = np.argsort(levels, axis=None, kind="stable")
    sorted_levels, sorted_weights = levels.ravel()[order], weights.ravel()[order].astype(np.float64)
    reached = np.cumsum(sorted_weights)
    if reached[-1] < 1e-9:
        return 0.0
    left = np.clip(reached[-1] / 4.0 - (reached - sorted_weights), 0.0, sorted_weights)
    return float((sorted_levels * left).sum() / left.sum())


@once
def _grid_strength(image: Planes) -> float:
    strengths = []
    gray = image.luma
    if min(gray.shape) < 32:
        return 0.0
    for axis, neighbors in enumerate(((gray[:, 1:], gray[:, :-1]), (gray[1:], gray[:-1]))):
        # Clip strong content edges, which would hide the grid; the grid itself is a step of a few levels.
        steps = np.minimum(cv2.absdiff(*neighbors), 12)
        columns = cv2.reduce(steps, axis, cv2.REDUCE_SUM, dtype=cv2.CV_32S).ravel() / steps.shape[axis]
        places = np.sort([float(columns[place::8].mean()) for place in range(8)])
        usual = float(places[3:5].mean())
        # The second highest position is the chance level.
        strengths.append(max(0.0, float(places[7] - places[6])) / (usual + 1.5))
    return sum(strengths) / 2.0


@once
def _clipped(image: Planes) -> tuple[Plane, Plane]:
    """Return the degree to which each pixel is clipped to white and to black, with soft thresholds at 248 and 7."""
    red, green, blue = cv2.split(image.small)
    darkest, lightest = cv2.min(cv2.min(red, green), blue), cv2.max(cv2.max(red, green), blue)
    high = np.clip((darkest.astype(np.float32) - 246.0) / 8.0, 0.0, 1.0)
    low = np.clip((9.0 - lightest.astype(np.float32)) / 8.0, 0.0, 1.0)
    return high, low


def _boundary(view: EditView) -> tuple[np.ndarray, np.ndarray]:
    changed = view.changed.astype(np.uint8)
    kernel = np.ones((3, 3), np.uint8)
    inner = cv2.erode(changed, kernel, iterations=3, borderType=cv2.BORDER_REPLICATE) > 0
    outer = cv2.dilate(changed, kernel, iterations=2, borderType=cv2.BORDER_REPLICATE) > 0
    return outer & ~inner & view.valid, inner


def _straight_edges(view: EditView, length: int, turned: bool) -> Plane:
    """Return the new edges along columns, or along rows as a turned plane."""
    before, after = (_edge_runs(image, length, turned) for image in (view.before, view.after))
    known = cv2.dilate(before, np.ones((1, 5), np.uint8))
    return np.asarray(np.maximum(after - known - np.float32(0.7), 0.0), np.float32)


@once
def _edge_runs(image: Planes, length: int, turned: bool) -> Plane:
    """Return the excess of edges along columns over their surroundings, averaged over a run of rows."""
    plane = image.channels[0]
    plane = np.ascontiguousarray(plane.T) if turned else plane
    steps = np.zeros_like(plane)
    cv2.absdiff(plane[:, 1:], plane[:, :-1], dst=steps[:, 1:])
    runs = np.asarray(cv2.boxFilter(steps, cv2.CV_32F, (1, length)), np.float32)
    around = cv2.copyMakeBorder(runs, 0, 0, 3, 3, cv2.BORDER_WRAP)
    around = around[:, :-6] + around[:, 6:]
    around *= np.float32(0.5)
    np.subtract(runs, around, out=runs)
    return np.maximum(runs, np.float32(0.0), out=runs)


def _painted(pixels: Pixels, first: Mask, color: Color, second: Mask, other: Color) -> Pixels:
    """Paint two parts of an image."""
    painted = pixels.copy()
    painted[first] = color
    painted[second] = other
    return painted


@once
def _gradient(image: Planes) -> Plane:
    plane = image.channels[0]
    across, down = cv2.Scharr(plane, cv2.CV_32F, 1, 0), cv2.Scharr(plane, cv2.CV_32F, 0, 1)
    return magnitude(across, down) / np.float32(16.0)


def _bars(pixels: Pixels) -> float:
    """Return the fraction of the frame covered by plain bars or borders: uniform strips with a sharp edge."""
    total = 0.0
    gray = cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY).astype(np.float32)
    for plane in (gray, gray[::-1], gray.T, gray.T[::-1]):
        total += _bar(plane)
    return min(total, 1.0)


def _bar(plane: Plane) -> float:
    """Return the fraction of rows, from the top, that a uniform strip covers, times the sharpness of its edge."""
    limit = len(plane) // 2 - 1
    if limit < 1:
        return 0.0
    core = plane[:, plane.shape[1] // 8 : max(1, plane.shape[1] - plane.shape[1] // 8)]
    spread = core[:limit].std(axis=1)
    drift = np.abs(core[:limit].mean(axis=1) - core[0].mean())
    uneven = np.flatnonzero((spread > 4.0) | (drift > 6.0))
    rows = int(uneven[0]) if uneven.size else limit
    if rows == 0:
        return 0.0
    below = core[min(rows + 2, len(plane) - 1)]
    sharp = float(np.clip(np.abs(below - core[rows - 1]) / 12.0, 0.0, 1.0).mean())
    return rows / len(plane) * max(0.0, 2.0 * sharp - 1.0)
