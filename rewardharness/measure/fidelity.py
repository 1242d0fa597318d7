"""Measure the perceptual similarity of a candidate and its source as a whole.

People judge similarity by layout, subject, color and texture rather than by pixels. Six cues, none of them learned,
measure these properties. Each is scaled by its value for unrelated photographs, and the distance is their unweighted
mean.
"""

from dataclasses import dataclass

import cv2
import numpy as np
import numpy.typing as npt

from rewardharness.measure.curves import magnitude, product
from rewardharness.measure.images import TURNS
from rewardharness.measure.planes import Plane, Planes, Reading, once
from rewardharness.measure.view import EditView
from rewardharness.schema import EditRequest

SIDE = 256
"""Long side at which images are compared, in pixels."""
CELLS = 16
"""Cells per side of the grids of local color and texture."""
LEVELS = 4
"""Octaves of scale for oriented edges."""
ORIENTATIONS = 8
"""Edge directions between 0 and 180 degrees."""

UNRELATED = {"color": 0.631, "layout": 24.7, "edges": 0.341, "texture": 0.479, "patches": 1.89, "structure": 0.890}
"""Median of each cue over the 2415 pairs of 70 unrelated free photographs (no labels involved), the unit of the cue."""

Array = npt.NDArray[np.float64]


@dataclass(frozen=True)
class _Look:
    """Features of one image."""

    lightness: Plane
    histogram: Array
    """Square roots of the CIELAB color frequencies; its norm is 1."""
    layout: Plane
    """Mean color of each cell, CELLS x CELLS x 3."""
    edges: tuple[Plane, ...]
    """Per octave: mean edge energy by direction in 8 x 8 cells."""
    texture: Array
    """Log edge energy by octave and direction, and its log spread by octave."""
    patches: Array
    """One row per cell: color, edge energy by octave, direction, and weakly weighted position."""


def fidelity(view: EditView, request: EditRequest) -> Reading:
    """Measure how similar source and candidate look as a whole.

    Cues, each 0 for equal pictures and about 1 for unrelated ones: `color` (Hellinger distance of smoothed CIELAB
    histograms), `layout` (color of cells, least over small displacements), `edges` (cosine of oriented edge energy
    in coarse cells over four octaves, as in the GIST of Oliva and Torralba 2001), `texture` (log energy by octave and
    direction), `patches` (each cell against its most alike counterpart anywhere, both ways) and `structure`
    (1 - multi-scale SSIM, Wang et al. 2003, for distortions of one and the same picture).

    Returns:
        The cues and `distance`, their mean. The grade is exp(-distance) if the source is to be kept.
    """
    rows, columns = np.flatnonzero(view.valid.any(axis=1)), np.flatnonzero(view.valid.any(axis=0))
    if view.identical or not rows.size or not columns.size:
        cues = dict.fromkeys(UNRELATED, 0.0 if view.identical else 1.0)
    else:
        # A letterboxed candidate is compared with the part of the source that it covers.
        box = int(rows[0]), int(rows[-1]) + 1, int(columns[0]), int(columns[-1]) + 1
        cues = _cues(_look(view.before, box), _look(view.after, box))
    distance = sum(cues.values()) / len(cues)
    farthest = max(cues, key=lambda name: cues[name])
    detail = "no cue differs" if distance == 0 else f"the largest difference is in {farthest} ({cues[farthest]:.2f})"
    quantities = {name: value for name, value in cues.items()}
    return Reading(
        {**quantities, "distance": distance},
        float(np.exp(-distance)) if "keep" in request.kinds else None,
        f"Overall distance of the candidate from the source: {distance:.2f} (0 identical, 1 an unrelated image);"
        f" {detail}.",
    )


@once
def turned_distances(view: EditView) -> tuple[float, float]:
    """Return the distance of the candidate from the source as it is to be, and from its nearest other turn."""
    box = 0, view.source.shape[0], 0, view.source.shape[1]
    after = _look(view.after, box)
    others = (np.ascontiguousarray(turn(view.source)) for turn in TURNS.values())
    looks = [_look(Planes(pixels), box) for pixels in others if pixels.shape == view.source.shape]
    own, *rest = (sum(_cues(look, after).values()) / len(UNRELATED) for look in (_look(view.before, box), *looks))
    return own, min(rest)


def turned_image(view: EditView, request: EditRequest) -> Reading:
    """Measure whether the whole image was turned as requested; the source of the view is turned already."""
    if not request.turned:
        return Reading({}, None, "No turn of the whole image is requested.")
    own, other = turned_distances(view)
    grade = max(0.0, other - own) / max(other + own, 1e-6) * float(np.exp(-own))
    quantities = {"distance": own}
    sentence = (
        f"Distance from the source as it is to be turned: {own:.2f} (0 identical, 1 an unrelated image); from the"
        f" nearest other turn of it: {other:.2f}."
    )
    return Reading(quantities, grade, sentence)


def _cues(first: _Look, second: _Look) -> dict[str, float]:
    """Return the difference of two images by cue, in units of unrelated images."""
    raw = {
        "color": float(np.sqrt(max(0.0, 1.0 - float((first.histogram * second.histogram).sum())))),
        "layout": (_displaced(first.layout, second.layout) + _displaced(second.layout, first.layout)) / 2.0,
        "edges": _edge_distance(first, second),
        "texture": float(np.abs(first.texture - second.texture).mean()),
        "patches": _patch_distance(first.patches, second.patches),
        "structure": 1.0 - _multiscale_similarity(first.lightness, second.lightness),
    }
    return {name: max(0.0, value) / UNRELATED[name] for name, value in raw.items()}


@once
def _look(image: Planes, box: tuple[int, int, int, int]) -> _Look:
    """Extract the features of a part of an image, given by its first and last rows and columns."""
    top, bottom, left, right = box
    lab = image.lab[top:bottom, left:right]
    scale = SIDE / max(lab.shape[:2])
    size = (max(32, round(lab.shape[1] * scale)), max(32, round(lab.shape[0] * scale)))
    small = np.asarray(cv2.resize(lab, size, interpolation=cv2.INTER_AREA), np.float32)
    lightness = np.ascontiguousarray(small[..., 0])
    octaves = _edge_octaves(lightness)
    texture = [np.log(octave.mean(axis=(0, 1), dtype=np.float64) + 0.05) for octave in octaves]
    texture += [np.log([octave.sum(axis=2).std(dtype=np.float64) + 0.2]) for octave in octaves]
    layout = _grid(small, CELLS)
    return _Look(
        lightness,
        _histogram(small),
        layout,
        tuple(_grid(octave, 8) for octave in octaves),
        np.concatenate(texture),
        _patches(layout, octaves),
    )


def _grid(plane: Plane, cells: int) -> Plane:
    """Average within cells x cells equal parts; any number of channels."""
    channels = [plane[..., at : at + 4] for at in range(0, plane.shape[2], 4)]
    averaged = [
        cv2.resize(np.ascontiguousarray(channel), (cells, cells), interpolation=cv2.INTER_AREA) for channel in channels
    ]
    return np.asarray(np.concatenate([grid.reshape(cells, cells, -1) for grid in averaged], axis=2), np.float32)


def _histogram(lab: Plane) -> Array:
    """Count colors in 10 x 16 x 16 bins of CIELAB, smoothed so that neighboring bins count as similar."""
    places = lab * np.array([0.1, 0.1, 0.1], np.float32) + np.array([0.0, 8.0, 8.0], np.float32)
    bins = np.clip(places, 0.0, np.array([9.0, 15.0, 15.0])).astype(np.intp)
    flat = (bins[..., 0] * 16 + bins[..., 1]) * 16 + bins[..., 2]
    counts = np.bincount(flat.ravel(), minlength=2560).reshape(10, 16, 16).astype(np.float64)
    for axis in range(3):
        counts = np.moveaxis(counts, axis, 0)
        padded = np.concatenate([counts[:1], counts, counts[-1:]])
        counts = np.moveaxis(0.25 * padded[:-2] + 0.5 * padded[1:-1] + 0.25 * padded[2:], 0, axis)
    return np.asarray(np.sqrt(counts / counts.sum()), np.float64)


def _edge_octaves(lightness: Plane) -> list[Plane]:
    """Return edge energy by direction (smooth, overlapping sectors) in each octave of scale."""
    octaves = []
    plane = lightness
    for _ in range(LEVELS):
        plane = np.asarray(cv2.GaussianBlur(plane, (0, 0), 0.8), np.float32)
        across = cv2.Sobel(plane, cv2.CV_32F, 1, 0) / 8.0
        down = cv2.Sobel(plane, cv2.CV_32F, 0, 1) / 8.0
        energy = magnitude(across, down)
        # Double the angle, because directions repeat after 180 degrees.
        squared = np.maximum(energy * energy, 1e-12)
        cosine, sine = (across * across - down * down) / squared, 2.0 * across * down / squared
        # Rounding may make the weight of the opposite direction slightly negative.
        sectors = []
        for angle in np.arange(ORIENTATIONS) * (2.0 * np.pi / ORIENTATIONS):
            near = np.maximum((1.0 + cosine * float(np.cos(angle)) + sine * float(np.sin(angle))) / 2.0, 0.0)
            sectors.append(energy * near * near * near)  # a power of 3 takes ten times as long
        octaves.append(np.stack(sectors, axis=-1).astype(np.float32))
        size = (max(8, plane.shape[1] // 2), max(8, plane.shape[0] // 2))
        plane = np.asarray(cv2.resize(plane, size, interpolation=cv2.INTER_AREA), np.float32)
    return octaves


def _patches(layout: Plane, octaves: list[Plane]) -> Array:
    """Return the features of each cell, scaled to comparable spread."""
    cells = [_grid(octave, CELLS) for octave in octaves]
    energy = np.stack([cell.sum(axis=2) for cell in cells], axis=-1)
    directions = np.sum([cell / (cell.mean() + 1e-6) for cell in cells], axis=0)
    angles = np.arange(ORIENTATIONS) * (2.0 * np.pi / ORIENTATIONS)
    total = directions.sum(axis=2) + 1e-6
    cosine, sine = (directions * np.cos(angles)).sum(axis=2) / total, (directions * np.sin(angles)).sum(axis=2) / total
    rows, columns = np.mgrid[0:CELLS, 0:CELLS]
    parts = [
        layout / 20.0,
        np.log(energy + 0.3) / 0.7,
        2.0 * cosine[..., None],
        2.0 * sine[..., None],
        0.12 * rows[..., None],
        0.12 * columns[..., None],
    ]
    return np.asarray(np.concatenate(parts, axis=2).reshape(CELLS * CELLS, -1), np.float64)


def _displaced(first: Plane, second: Plane) -> float:
    """Return the mean dE of each cell to the nearest color within two cells, plus 3 dE per cell moved; capped at 60."""
    padded = np.pad(second, ((2, 2), (2, 2), (0, 0)), constant_values=1e3)
    least = np.full((CELLS, CELLS), 60.0)
    for down in range(5):
        for across in range(5):
            other = padded[down : down + CELLS, across : across + CELLS]
            distance = np.linalg.norm(first - other, axis=2) + 3.0 * np.hypot(down - 2, across - 2)
            least = np.minimum(least, distance)
    return float(least.mean())


def _edge_distance(first: _Look, second: _Look) -> float:
    """Compare edge energy by direction in 8 x 8, 4 x 4 and 2 x 2 cells of each octave, regardless of contrast."""
    gaps = []
    for one, other in zip(first.edges, second.edges, strict=True):
        for cells in (8, 4, 2):
            left, right = np.sqrt(_grid(one, cells)).ravel(), np.sqrt(_grid(other, cells)).ravel()
            norms = float(np.linalg.norm(left) * np.linalg.norm(right))
            gaps.append(1.0 - float(left @ right) / norms if norms > 1e-6 else float(np.any(left != right)))
    return float(np.sqrt(max(0.0, float(np.mean(gaps)))))


def _patch_distance(first: Array, second: Array) -> float:
    """Return the mean distance of each patch to its nearest patch in the other image, both ways (Chamfer distance)."""
    squared = (first**2).sum(axis=1)[:, None] + (second**2).sum(axis=1)[None] - 2.0 * product(first, second.T)
    distance = np.sqrt(np.maximum(squared, 0.0))
    return float(distance.min(axis=0).mean() + distance.min(axis=1).mean()) / 2.0


def _multiscale_similarity(first: Plane, second: Plane) -> float:
    """Return the mean SSIM of lightness over four octaves."""

    def smooth(plane: Plane) -> Plane:
        return np.asarray(cv2.GaussianBlur(plane, (0, 0), 1.5), np.float32)

    values = []
    for _ in range(LEVELS):
        means = smooth(first), smooth(second)
        product = means[0] * means[1]
        both = smooth(first * second) - product
        squares = means[0] ** 2 + means[1] ** 2
        variances = np.maximum(smooth(first * first) + smooth(second * second) - squares, 0.0)
        # (0.03 x 100)^2 and (0.01 x 100)^2 as in the paper: lightness runs to 100.
        contrast = (2.0 * both + 9.0) / (variances + 9.0)
        values.append(float((contrast * ((2.0 * product + 1.0) / (squares + 1.0))).mean()))
        size = (max(8, first.shape[1] // 2), max(8, first.shape[0] // 2))
        first = np.asarray(cv2.resize(first, size, interpolation=cv2.INTER_AREA), np.float32)
        second = np.asarray(cv2.resize(second, size, interpolation=cv2.INTER_AREA), np.float32)
    return float(np.mean(values))
