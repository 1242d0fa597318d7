"""Measure structure: which shapes of the source are preserved, added, removed or replaced."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import cv2
import numpy as np

from rewardharness.measure.color import color_of_region, layout_kept
from rewardharness.measure.curves import excess, fall, magnitude, rise, step, weighted_mean
from rewardharness.measure.focus import (
    asks_background,
    asks_blurred_background,
    background_focus,
    squared_distances,
    subject_likeness,
)
from rewardharness.measure.movement import place_grade, place_named
from rewardharness.measure.planes import Mask, Pixels, Plane, Planes, Reading, once
from rewardharness.measure.view import EditView
from rewardharness.schema import EditRequest

UNRELATED, SAME = 0.2, 0.27
"""Mean agreement of structure and layout up to which two images count as unrelated, and from which as the same scene.
Calibrated on the same images: of 200 pairs of unrelated free photographs 1% exceed .21, of 187 edited images .5% stay
below .27."""
CHANGED = 0.2
"""Change of a pixel, in [0, 1], from which it counts as changed."""
BLANK = 2.0
"""Standard deviation of the gray values, of 255, below which an image shows nothing."""
UNTOUCHED_BY_CHANCE, UNTOUCHED_SURE = 0.4, 0.7
"""Fraction of unchanged pixels that two images share at most by chance (0.30 among 40 unrelated pairs of photographs),
and the fraction that proves the same scene."""
MATCHES_BY_CHANCE, MATCHES_SURE = 10, 20
"""Number of local features that agree on one camera movement: unrelated photographs reach 10."""
_BOX, _ALIKE = (0.88, 0.02), 4.0
"""Share of its bounding box that an edit fills, and share of the box within a color distance, from which it is a plain
rectangle: middle and width. Things that are added have shades, or an outline other than an upright box."""
_FLAT = re.compile(
    r"\b(?:rectang\w*|squares?|boxe?s?|block|bars?|stripes?|banner|labels?|signs?|flag|doors?|frame|poster|panel|patch"
    r"|screen|border|wall|line|card|sticker|tile|square\w*|book|sheet|paper|window|curtain|overlay|background)\b"
)
_GRID = 96
"""Side of the coarse grid on which a region is compared with its surroundings."""


def structure_kept(view: EditView, request: EditRequest) -> Reading:
    """Measure whether the edges and the layout of the source are preserved.

    Agreement is the cosine between the directions of the smoothed structure tensors of both images (double angle, so
    that inverted contrast agrees), where the source has structure, at two scales: 1 if everything is preserved, about 0
    for an unrelated image. For a new background only the likely subject counts.
    """
    weight = view.valid.astype(np.float32)
    of_subject = asks_background(request)
    if of_subject:
        weight = weight * subject_likeness(view.before) ** 2
    fine = _agreement(view).mean(weight)
    coarse = _coarse_agreement(view).mean(_shrunk(weight, 4))
    kept = 0.5 * fine + 0.5 * coarse
    quantities = {"fine": fine, "coarse": coarse}
    what = "the likely subject" if of_subject else "the source"
    sentence = f"Edges of {what} are preserved to {fine:.0%} in detail and {coarse:.0%} in layout."

    def overlay() -> Pixels:
        return _heat(view.small_candidate, _agreement(view).lost())

    if not of_subject and request.kinds[0] not in {"color", "material", "tone", "style", "text"}:
        return Reading(quantities, None, sentence, overlay)
    # A new style redraws every line, so the layout counts most.
    if request.kinds[0] == "style":
        kept = 0.2 * fine + 0.8 * coarse
    return Reading(quantities, min(1.0, max(0.0, kept)) ** 0.8, sentence, overlay)


def scene_kept(view: EditView) -> float:
    """Return the confidence that the candidate still shows the scene of the source.

    The maximum of three indicators counts. The first is the unchanged fraction of the image, which covers an object
    removed from a plain background. The second is the mean agreement of fine edges, coarse edges and coarse luminance.
    The third is the number of local features (ORB, Rublee et al. 2011) that agree on one translation, rotation and
    zoom, also mirrored, which covers a scene that moved as a whole. Of a blank image only the
    first counts.

    Returns:
        A number in [0, 1]: 0 for an unrelated image, 1 for any typical edit of the source.
    """
    weight = view.valid.astype(np.float32)
    source, candidate = view.gray_source, view.gray_candidate
    untouched = float((view.change < CHANGED).mean() - UNTOUCHED_BY_CHANCE) / (UNTOUCHED_SURE - UNTOUCHED_BY_CHANCE)
    if untouched >= 1.0:
        return 1.0
    if view.valid.any() and float(candidate[view.valid].std()) < BLANK <= float(source[view.valid].std()):
        return max(0.0, untouched)
    fine = _agreement(view).mean(weight)
    coarse = _coarse_agreement(view).mean(_shrunk(weight, 4))
    agreement = ((fine + coarse + layout_kept(view)) / 3.0 - UNRELATED) / (SAME - UNRELATED)
    if agreement >= 1.0:
        return 1.0
    matches = _matches(view.before, candidate)
    if matches < MATCHES_SURE:
        matches = max(matches, _matches(view.before, np.ascontiguousarray(candidate[:, ::-1])))
    moved = (matches - MATCHES_BY_CHANCE) / (MATCHES_SURE - MATCHES_BY_CHANCE)
    return min(1.0, max(0.0, untouched, agreement, moved))


def _matches(source: Planes, candidate: Plane) -> int:
    """Count the local features of two images that agree on one translation, rotation and zoom."""
    sides = [_source_features(source), _features(candidate)]
    if any(features is None for _, features in sides):
        return 0
    pairs = cv2.BFMatcher(cv2.NORM_HAMMING, crossCheck=True).match(sides[0][1], sides[1][1])
    if len(pairs) <= MATCHES_BY_CHANCE:
        return 0
    first = np.array([sides[0][0][pair.queryIdx].pt for pair in pairs], np.float32)
    second = np.array([sides[1][0][pair.trainIdx].pt for pair in pairs], np.float32)
    cv2.setRNGSeed(0)
    _, agreeing = cv2.estimateAffinePartial2D(first, second, ransacReprojThreshold=4.0, maxIters=500)
    return 0 if agreeing is None else int(agreeing.sum())


def _features(gray: Plane) -> tuple[Sequence[Any], Any]:
    """Return the places of local features, and their descriptors; None if there are none."""
    finder = cv2.ORB_create(800)  # type: ignore[attr-defined, unused-ignore]
    features: tuple[Sequence[Any], Any] = finder.detectAndCompute(gray.astype(np.uint8), None)
    return features


@once
def _source_features(source: Planes) -> tuple[Sequence[Any], Any]:
    return _features(source.gray)


def shape_change(view: EditView) -> Plane:
    """Return where lines of the source are gone or new ones have appeared, 0 to 1, whatever the colors."""
    back = _Agreement(_edges(view.after), _edges(view.before))
    return np.maximum(_agreement(view).lost(), back.lost())


def added_structure(view: EditView, request: EditRequest) -> Reading:
    """Measure whether something new is visible in the edited region.

    Combines new edges (gradient beyond that of the source nearby), the color difference from the source, and the
    compactness of the region. Graded if the instruction adds or replaces something; a color that the instruction gives
    to it must be there.
    """
    heat = view.change
    area = float(heat.mean())
    known = cv2.dilate(_gradient(view.before), np.ones((5, 5), np.uint8))
    new = np.maximum(_gradient(view.after) - known, 0.0)
    edges = weighted_mean(new, heat)
    distance = weighted_mean(view.color_distance, heat)
    compact = _compactness(heat)
    quantities = {"new_edges": edges, "color_distance": distance, "area": area, "compactness": compact}
    sentence = (
        f"The edited {area:.1%} of the image has new edges of {edges:.1f} dE per pixel and colors"
        f" {distance:.0f} dE from the source; the change is {compact:.0%} compact."
    )

    def overlay() -> Pixels:
        return _heat(view.small_candidate, np.clip(new * heat / 8.0, 0.0, 1.0))

    if not {"add", "replace", "count"} & set(request.kinds[:2]):
        return Reading(quantities, None, sentence, overlay)
    visible = rise(0.5 * edges / 1.5 + 0.5 * distance / 20.0, 1.0) * area / (area + 0.004)
    grade = min(1.0, visible**0.7 * (0.4 + 0.6 * compact))
    if "color" not in request.kinds and (colored := color_of_region(view, request, heat**2)) is not None:
        quantities["color_share"] = colored[0]
        sentence += f" {colored[0]:.0%} of it has the requested color {' or '.join(request.colors)}."
        grade *= colored[1]
    if request.kinds[0] in {"add", "count"} and (place := place_named(request)) is not None:
        there, placed = place_grade(place, heat**2)
        quantities["in_place"] = there
        sentence += f" {there:.0%} of the change is at the {place.name}."
        grade *= placed
    if (plain := _plain_box(view)) > 0.1 and not request.texts and not _FLAT.search(request.instruction.lower()):
        quantities["plain_box"] = plain
        sentence += " It is an upright rectangle of one color."
        grade *= 1.0 - 0.9 * plain
    return Reading(quantities, grade, sentence, overlay)


def _plain_box(view: EditView) -> float:
    """Return the degree to which all that changed is one upright rectangle of a single color."""
    changed = view.changed.astype(np.uint8)
    _, _, stats, _ = cv2.connectedComponentsWithStats(changed, connectivity=8)
    left, top, width, height, area = stats[1:][stats[1:, cv2.CC_STAT_AREA].argmax()] if len(stats) > 1 else [0] * 5
    if area < 0.9 * changed.sum() or min(width, height) < 12:
        return 0.0
    rim = max(2, min(width, height) // 8)
    inside = view.after.lab[top + rim : top + height - rim, left + rim : left + width - rim].reshape(-1, 3)
    apart = np.abs(inside - np.median(inside, axis=0)).max(axis=1)
    return step(area / (width * height), *_BOX) * step(float((apart < _ALIKE).mean()), *_BOX)


def removal_fill(view: EditView, request: EditRequest) -> Reading:
    """Measure whether an object was removed and the region now matches its surroundings.

    `apart` is the difference of the region from a ring around it, before and after. `ghost` is the fraction of the
    source's edges inside the region that are still visible. Graded if the instruction removes something.
    """
    inside, ring = _region_and_ring(view)
    if not inside.any() or not ring.any():
        quantities = {"area": float(inside.mean())}
        grade = 0.05 * rise(float(view.change.mean()), 0.01) if _asks_removal(request) else None
        return Reading(quantities, grade, "There is no edited region with surroundings, so nothing was removed.")
    before, after = (_apart(image, inside, ring) for image in (view.before, view.after))
    ghost = _ghost(view, inside)
    area = float(inside.mean())
    quantities = {"apart_before": before, "apart_after": after, "ghost": ghost, "area": area}
    sentence = (
        f"The edited region differed from its surroundings by {before:.1f} dE and now differs by {after:.1f} dE;"
        f" {ghost:.0%} of its former edges are still visible."
    )
    overlay = partial(_outlined, view.small_candidate, inside, ring)
    if not _asks_removal(request):
        return Reading(quantities, None, sentence, overlay)
    gone = step((before - after) / (before + after + 4.0), 0.33, 0.12)
    blends = fall(excess(after - 4.0, 2.0), 12.0)
    grade = gone**0.5 * blends**0.5 * (1.0 - ghost) ** 0.7 * area / (area + 0.002)
    return Reading(quantities, min(1.0, grade), sentence, overlay)


def background_change(view: EditView, request: EditRequest) -> Reading:
    """Measure whether the background changed while the subject is preserved.

    The subject is estimated from the source alone: central, and different from the border of the image. Graded if the
    instruction changes the background. A blur of it is graded by `background_focus`.
    """
    subject = subject_likeness(view.before) * view.valid
    ground = (1.0 - subject) * view.valid
    agreement = _agreement(view)
    # A tint preserves every edge of the background, so it counts as half a change at most.
    redrawn = 0.5 + 0.5 * (1.0 - max(0.0, agreement.mean(ground**2)))
    changed = redrawn * weighted_mean(np.minimum(view.change / 0.6, 1.0), ground**2)
    kept = 0.5 * max(0.0, agreement.mean(subject**2)) + 0.5 * weighted_mean(1.0 - view.change, subject**2, 1.0)
    quantities = {"background_changed": changed, "subject_kept": kept}
    sentence = f"{changed:.0%} of the likely background changed, and {kept:.0%} of the likely subject is preserved."

    def overlay() -> Pixels:
        return _heat(view.small_candidate, view.change * ground)

    if not asks_background(request):
        return Reading(quantities, None, sentence, overlay)
    if asks_blurred_background(request):
        focus = background_focus(view)
        quantities["detail_lost"] = focus.lost
        quantities["subject_sharp"] = focus.kept
        sentence = (
            f"The border lost {focus.lost:.1f} octaves of detail, and {focus.kept:.0%} of the likely subject is as"
            " sharp as before."
        )
        return Reading(quantities, focus.grade, sentence, overlay)
    return Reading(quantities, min(1.0, (changed * kept) ** 0.6), sentence, overlay)


def _asks_removal(request: EditRequest) -> bool:
    strongest = set(request.kinds[:2])
    # Removing a background replaces it, which `background_change` measures.
    return "remove" in strongest and not {"add", "replace"} & strongest and not asks_background(request)


@dataclass(frozen=True)
class _Edges:
    """Smoothed structure tensor of a gray image: double-angle direction, and strength."""

    across: Plane
    down: Plane
    strength: Plane


class _Agreement:
    """Local agreement of the structure directions of two gray images.

    Args:
        before: Edges of the image with the reference structure.
        after: Edges of an image of the same size to compare.
    """

    def __init__(self, before: _Edges, after: _Edges) -> None:
        cosine = (before.across * after.across + before.down * after.down) / (
            before.strength * after.strength + np.float32(1e-6)
        )
        # An edge that has almost vanished does not agree, regardless of its direction.
        left = after.strength / (before.strength + np.float32(0.2))
        self._cosine = cosine * np.minimum(1.03 * left / (left + np.float32(0.03)), 1.0)
        self._salience = np.maximum(np.sqrt(before.strength) - np.float32(1.0), 0.0)

    def mean(self, weight: Plane) -> float:
        """Return the weighted mean where the first image has structure; 1 if it has none."""
        return weighted_mean(self._cosine, self._salience * weight, 1.0)

    def lost(self) -> Plane:
        """Return the local loss of structure, 0 to 1."""
        here = self._salience / (self._salience + np.float32(4.0))
        return np.asarray(here * (1.0 - np.clip(self._cosine, 0.0, 1.0)), np.float32)


@once
def _agreement(view: EditView) -> _Agreement:
    return _Agreement(_edges(view.before), _edges(view.after))


@once
def _coarse_agreement(view: EditView) -> _Agreement:
    return _Agreement(_coarse_edges(view.before), _coarse_edges(view.after))


@once
def _edges(image: Planes) -> _Edges:
    return _structure_tensor(image.gray)


@once
def _coarse_edges(image: Planes) -> _Edges:
    return _structure_tensor(_shrunk(image.gray, 4))


def _structure_tensor(gray: Plane) -> _Edges:
    smooth = cv2.GaussianBlur(gray, (0, 0), 1.0)
    across, down = cv2.Sobel(smooth, cv2.CV_32F, 1, 0, scale=0.25), cv2.Sobel(smooth, cv2.CV_32F, 0, 1, scale=0.25)
    first = np.asarray(cv2.GaussianBlur(across * across - down * down, (0, 0), 2.0), np.float32)
    second = np.asarray(cv2.GaussianBlur(2.0 * across * down, (0, 0), 2.0), np.float32)
    return _Edges(first, second, magnitude(first, second))


def _shrunk(plane: Plane, factor: int) -> Plane:
    size = (max(1, plane.shape[1] // factor), max(1, plane.shape[0] // factor))
    return np.asarray(cv2.resize(plane, size, interpolation=cv2.INTER_AREA), np.float32)


@once
def _gradient(image: Planes) -> Plane:
    """Return the gradient over all three axes of CIELAB, in dE per pixel."""
    squared = np.zeros(image.gray.shape, np.float32)
    for plane in cv2.split(cv2.GaussianBlur(image.lab, (0, 0), 0.8)):
        across, down = cv2.Sobel(plane, cv2.CV_32F, 1, 0, scale=0.125), cv2.Sobel(plane, cv2.CV_32F, 0, 1, scale=0.125)
        squared += across * across + down * down
    return np.asarray(np.sqrt(squared), np.float32)


def _compactness(heat: Plane) -> float:
    """Return exp(-2 r^2), r being the spatial variance relative to a uniform map; 1 for one small area."""
    height, width = heat.shape
    total = float(heat.sum())
    if total < 1e-6:
        return 0.0
    variance = 0.0
    for axis, side in ((0, width), (1, height)):
        places = (np.arange(side) + 0.5) / side
        profile = heat.sum(axis=axis, dtype=np.float64) / total
        mean = float((profile * places).sum())
        variance += float((profile * (places - mean) ** 2).sum())
    return float(np.exp(-2.0 * (6.0 * variance) ** 2))


def _region_and_ring(view: EditView) -> tuple[Mask, Mask]:
    changed = view.changed & view.valid
    reach = max(3, max(changed.shape) // 24)
    kernel = cv2.getStructuringElement(cv2.MORPH_ELLIPSE, (2 * reach + 1, 2 * reach + 1))
    near = cv2.dilate(changed.astype(np.uint8), kernel) > 0
    close = cv2.dilate(changed.astype(np.uint8), np.ones((5, 5), np.uint8)) > 0
    return changed, near & ~close & view.valid


def _apart(image: Planes, inside: Mask, ring: Mask) -> float:
    """Return the difference of a region from its surroundings, in dE.

    Each point of the region is matched to the most similar point of the ring by color, roughness and position; the
    result is the mean distance of these pairs. A fill that continues its surroundings has close matches, a foreign
    object does not.
    """
    size = (_GRID, _GRID)
    rough = cv2.GaussianBlur(cv2.resize(_gradient(image), size, interpolation=cv2.INTER_AREA), (0, 0), 0.7)
    rough = np.log2(1.0 + rough) * np.float32(5.0)
    features = np.dstack([cv2.resize(image.lab, size, interpolation=cv2.INTER_AREA), rough])
    down, across = np.mgrid[0:_GRID, 0:_GRID].astype(np.float32) * np.float32(0.4)
    features = np.dstack([features, down, across])
    chosen = []
    for mask in (inside, ring):
        share = cv2.resize(mask.astype(np.float32), size, interpolation=cv2.INTER_AREA)
        places = features[share >= min(0.5, float(share.max()))]
        chosen.append(places[:: max(1, len(places) // 600)])
    region, around = chosen
    return float(np.sqrt(squared_distances(region, around).min(axis=1)).mean())


def _ghost(view: EditView, inside: Mask) -> float:
    # The rim of the region overlaps with preserved content.
    core = cv2.erode(inside.astype(np.uint8), np.ones((9, 9), np.uint8), borderType=cv2.BORDER_REPLICATE)
    weight = core if core.any() else inside
    left = _agreement(view).mean(weight.astype(np.float32))
    return min(1.0, max(0.0, left))


def _heat(pixels: Pixels, heat: Plane) -> Pixels:
    """Overlay a map from 0 to 1 in red on an image."""
    weight = (0.75 * np.clip(heat, 0.0, 1.0))[..., None]
    return np.asarray(pixels * (1.0 - weight) + np.array([255.0, 0.0, 0.0]) * weight, np.uint8)


def _outlined(pixels: Pixels, inside: Mask, ring: Mask) -> Pixels:
    picture = pixels.copy()
    for mask, color in ((inside, (255, 0, 255)), (inside | ring, (255, 255, 0))):
        outlines, _ = cv2.findContours(mask.astype(np.uint8), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)
        cv2.drawContours(picture, outlines, -1, color, 1)
    return picture
