"""Measure where and how much a candidate differs from its source, and what is preserved.

All four measures use the change map of `EditView` and compare one candidate with the source.
"""

from dataclasses import dataclass
from functools import partial

import cv2
import numpy as np
import numpy.typing as npt

from rewardharness.measure.curves import least_squares, product
from rewardharness.measure.drawing import asks_drawing, color_terms, source_kept
from rewardharness.measure.focus import asks_blurred_background, background_focus
from rewardharness.measure.framing import unrequested
from rewardharness.measure.planes import Mask, Pixels, Plane, Planes, Reading, once
from rewardharness.measure.structure import shape_change
from rewardharness.measure.text import text_change
from rewardharness.measure.view import EditView
from rewardharness.schema import EditRequest

PRESENCE_LOCAL = 0.002
"""Edited fraction of the image, weighted by strength, at which the presence grade of a local edit is 1 - 1/e."""
PRESENCE_UNKNOWN = 0.01
"""The same if the instruction describes the result, which usually concerns a whole subject. Of 75 published edits of
AURORA-Bench, 95% have .014 or more."""
SHAPE = 0.001
"""Evidence of a change of shape at which a request for one counts as visibly done to 1 - 1/e. 55 published edits of
AURORA-Bench that add, replace, move or pose something have .0024 or more; 76 copies of their sources with another
saturation, brightness, noise or JPEG quality have .0003 or less."""
TEXT_CHANGE = 0.09, 0.12
"""Change of text, relative to its contrast, up to which text is not edited, and from which it clearly is. Chosen on
rendered signs of 1024 pixels: 33 re-encoded, blurred, noisy or brighter copies at most .035, 17 of 18 edits of a word
.26 or more. With other fonts and pictures, 32 copies at most .089, 16 edits .127 or more."""
PRESENCE_GLOBAL = 0.2
"""Mean of the change map at which the presence grade of a global edit is 1 - 1/e."""
COPY_CHANGE = 0.05
"""Mean of the change map that heavy re-encoding alone causes."""
OUTSIDE_COLOR = 8.0
"""Mean color difference (dE) outside the edit at which the grade for color falls to 1/e."""
MAIN_REGION = 0.2
"""Minimum size of a main region relative to the largest; a moved object causes two main regions."""
INK_CHANGE = 40
"""Change of a color channel, of 255, from which a pixel can be ink."""
INK_SHARE, INK_PIXELS = 0.08, 60
"""Largest share of the image that lettering covers, and smallest number of its pixels at working size."""
INKS = 2
"""Number of frequent colors of the changed pixels that are tried as the color of the ink."""
INK_EXPLAINED = 0.92
"""Least share of the changed pixels that are ink of one color, or its rim."""
INK_WIDTH, INK_WIDEST = 0.016, 0.024
"""Largest mean and maximum width of its strokes, as a share of the long side."""
INK_STROKES = 5
"""Least number of its separate strokes or letters.

The five limits were chosen on pasted captions of the demo generator, its correct edits, and 270 published
edits: of the edits that request no text none is taken for lettering."""
FILTERED_SHARE = 0.15
"""Smallest edited share of the image from which a filter of the whole image is considered."""
FILTERED_SIDE, FILTERED_BLUR = 256, 3.0
"""Long side and blur, in pixels, at which a filter of the whole image is recognized."""
UNEXPLAINED, UNEXPLAINED_SHARE = 24.0, 0.02
"""Difference of a color channel, of 255, that a filter leaves unexplained; and the smallest share of the image with
such differences, relative to the edited share, of an edit that is no filter.

Chosen on sharpened and saturated copies of the demo generator, and on its correct edits and 138 published pairs, in
which no preferred candidate of a local edit is taken for a filter."""
_BY_COLOR = frozenset({"color", "tone", "style", "material", "appearance", "background", "remove"})
"""Kinds of edit that a map of colors may carry out, for instance on an object of one color on a plain background."""
TINT = np.array([255, 0, 200], np.float32)
"""Color of edited regions in overlays, sRGB: rare in photographs."""

Labels = npt.NDArray[np.int32]
"""Height x width: the region number of each pixel, 0 for none."""

_SHAPE_KINDS = {"add", "replace", "count", "position", "pose"}
"""Kinds of edits that change shapes, so that another color or light alone is no such edit."""
_WHOLE_PICTURE_KINDS = {"style", "tone"}
"""Kinds of edits that apply to the whole image."""


@dataclass(frozen=True)
class Region:
    """One connected edited region at working size."""

    label: int
    """Its number in the label image."""
    area: int
    """Pixels."""
    box: tuple[int, int, int, int]
    """Left, top, right and bottom of its bounding box, in working pixels."""
    box_fill: float
    """Fraction of its bounding box that it fills."""
    center: tuple[float, float]
    """Horizontal and vertical position, each 0 to 1."""


def change_map(view: EditView, request: EditRequest) -> Reading:
    """Show and describe which regions were edited.

    Returns:
        `changed_share`, `regions`, `largest_share` (of the edited pixels in the largest region) and `box_fill` (how
        much of its bounding box that region fills). No grade: it is an observation. The overlay is the dimmed source
        with edited regions tinted and outlined.
    """
    del request
    _, regions = find_regions(view)
    share = view.changed_share
    largest = regions[0].area / sum(region.area for region in regions) if regions else 0.0
    fill = regions[0].box_fill if regions else 0.0
    if not regions:
        sentence = "No region of the image differs visibly from the source."
    else:
        count = "1 region" if len(regions) == 1 else f"{len(regions)} regions"
        sentence = (
            f"{share:.1%} of the image was edited, in {count}; the largest is {_place(regions[0].center)},"
            f" contains {largest:.0%} of the edit and fills {fill:.0%} of its bounding box."
        )
    return Reading(
        {"changed_share": share, "regions": float(len(regions)), "largest_share": largest, "box_fill": fill},
        None,
        sentence,
        partial(_overlay, view),
    )


def edit_presence(view: EditView, request: EditRequest) -> Reading:
    """Measure whether anything was edited.

    A copy of the source gets 0, a re-encoded copy nearly 0. For a local edit the grade is 1 - exp(-m / 0.002), where
    m is the share of edited pixels weighted by how strongly they changed: a clear edit of 1% of the picture gets .99.
    For an edit of unknown size it is 1 - exp(-m / 0.01). If only an addition, replacement, movement or pose is
    requested, it is multiplied by 1 - exp(-(s / 0.001)^2), where s is m weighted by the local change of shape.
    Where text is requested, other words are an edit, however small (see `text_change`). For a global edit most of
    the grade depends on change everywhere. Lettering pasted onto a copy of the source is no edit, unless text is
    requested: it gets 0, whatever it says. Neither is a filter of the whole image, such as sharpening or more
    saturation, unless the request is global, a removal, or about color, light, style, material or background. For a
    drawn style, such as an oil painting, the source in other colors, sharpened or blurred gets 0.

    Returns:
        `evidence` (m) and `mean_change` (mean of the change map). No grade if no change is requested.
    """
    # Squared, so that strong evidence outweighs many weak differences.
    strength = np.clip((view.change - 0.5) * 2.0, 0.0, 1.0) ** 2
    # Differences too weak or too small to form a region are mostly noise and get a low weight.
    weighted = np.where(view.changed, strength, 0.1 * strength)
    evidence, mean = _mean(weighted, view.valid), _mean(view.change, view.valid)
    local = 1.0 - float(np.exp(-evidence / (PRESENCE_UNKNOWN if request.scope == "unknown" else PRESENCE_LOCAL)))
    if set(request.kinds) <= _SHAPE_KINDS and local > 0.0:
        shape = _mean(weighted * shape_change(view), view.valid)
        local *= 1.0 - float(np.exp(-((shape / SHAPE) ** 2)))
    if "text" in request.kinds and local < 1.0:
        local = max(local, float(np.interp(text_change(view), TEXT_CHANGE, (0.0, 1.0))))
    spread = 1.0 - float(np.exp(-max(0.0, mean - COPY_CHANGE) / PRESENCE_GLOBAL))
    grade = {"local": local, "unknown": local, "global": 0.35 * local + 0.65 * spread, "none": None}[request.scope]
    filterable = request.scope in ("local", "unknown") and not request.tones and not _BY_COLOR & set(request.kinds)
    filtered = filterable and local > 0.1 and _only_filter(view)
    copied = source_kept(view, request) if asks_drawing(request) else 0.0
    textless = "text" not in request.kinds and not request.texts
    if blurred := grade is not None and asks_blurred_background(request):
        grade = max(grade or 0.0, background_focus(view).grade)
    lettered = grade is not None and textless and not blurred and _only_lettering(view)
    reframed = unrequested(view, request)
    if lettered:
        grade, summary = 0.0, "The candidate is a copy of the source with lettering that was not requested"
    elif filtered:
        grade, summary = 0.0, "The candidate is the source under a filter of the whole image, with no local edit"
    elif grade is not None and reframed.only > 0.1:
        grade *= 1.0 - reframed.only
        summary = "The candidate is the source, cropped, turned or warped as a whole"
    elif view.identical:
        summary = "The candidate is identical to the source, pixel for pixel"
    elif grade is not None and copied > 0.1:
        grade *= 1.0 - copied
        summary = "The candidate has the fine detail of the source, so it is not in a drawn style"
    elif local < 0.1:
        summary = "The candidate looks like an unedited copy of the source"
    else:
        summary = "The candidate was visibly edited"
    return Reading(
        {"evidence": evidence, "mean_change": mean},
        grade,
        f"{summary}: {evidence:.2%} of the image, weighted by strength, and {mean:.1%} on average over the change map.",
    )


def _only_filter(view: EditView) -> bool:
    """Return whether a quadratic map of the colors of the source explains the candidate, apart from fine detail."""
    if view.changed_share < FILTERED_SHARE:
        return False
    before, after = (_coarse(picture) for picture in (view.small_source, view.small_candidate))
    terms = color_terms(before)
    left = np.abs(product(terms, least_squares(terms, after)) - after).max(axis=1) * 255.0
    return float((left > UNEXPLAINED).mean()) < UNEXPLAINED_SHARE * view.changed_share


def _coarse(picture: Pixels) -> Plane:
    """Return the colors of a small, blurred picture in [0, 1], pixels x 3."""
    scale = FILTERED_SIDE / max(picture.shape[:2])
    small = cv2.resize(picture, None, fx=scale, fy=scale, interpolation=cv2.INTER_AREA)
    soft = cv2.GaussianBlur(small.astype(np.float32) / 255.0, (0, 0), FILTERED_BLUR)
    return np.asarray(soft.reshape(-1, 3), np.float32)


def _only_lettering(view: EditView) -> bool:
    """Return whether everything that changed clearly is thin strokes of one color, with or without a rim."""
    red, green, blue = cv2.split(cv2.absdiff(view.small_source, view.small_candidate))
    changed = (cv2.max(cv2.max(red, green), blue) > INK_CHANGE) & view.valid
    count = int(np.count_nonzero(changed))
    if not INK_PIXELS <= count <= INK_SHARE * changed.size:
        return False
    colors = view.small_candidate[changed].astype(np.int32)
    coarse = (colors // 32) @ np.array((64, 8, 1))
    frequent = np.argsort(-np.bincount(coarse), kind="stable")[:INKS]
    inks = (colors[coarse == code].mean(axis=0) for code in frequent if (coarse == code).any())
    return any(_is_ink(ink.astype(np.float32), colors.astype(np.float32), changed) for ink in inks)


def _is_ink(ink: Plane, colors: Plane, changed: Mask) -> bool:
    """Return whether everything that changed is thin strokes of a color, or at most three pixels from one.

    Args:
        ink: The color.
        colors: Colors of the changed pixels.
        changed: Where they are.
    """
    strokes = np.zeros(changed.shape, np.uint8)
    strokes[changed] = np.abs(colors - ink).max(axis=1) < INK_CHANGE
    rim = cv2.dilate(strokes, np.ones((7, 7), np.uint8)).astype(bool)
    if (rim & changed).sum() < INK_EXPLAINED * changed.sum():
        return False
    distance = cv2.distanceTransform(strokes, cv2.DIST_L2, 5)
    side = max(changed.shape)
    # Across a stroke of width w the distances to its edge average w / 4 and reach w / 2.
    if 4.0 * float(distance[strokes > 0].mean()) > INK_WIDTH * side or 2.0 * float(distance.max()) > INK_WIDEST * side:
        return False
    _, _, stats, _ = cv2.connectedComponentsWithStats(strokes, connectivity=8)
    return int((stats[1:, cv2.CC_STAT_AREA] >= 6).sum()) >= INK_STROKES


def edit_extent(view: EditView, request: EditRequest) -> Reading:
    """Measure how much of the image a local edit affects; less is better, all else being equal.

    The extent is .5 x edited share + .4 x mean of the change map + .1 x mean of dE / (dE + 20): a hard mask,
    a soft mask, and the amount. The grade is (1 - sqrt(extent))^2, so doubling a small region counts for
    more than adding as much to a large one, and it never saturates. A copy gets 1, so combine it with `edit_presence`.

    Returns:
        `changed_share`, `mean_change`, `amount` and `extent`. A grade for local edits only.
    """
    distance = view.color_distance
    soft = _mean(view.change, view.valid)
    amount = _mean(distance / (distance + 20.0), view.valid)
    extent = float(np.clip(0.5 * view.changed_share + 0.4 * soft + 0.1 * amount, 0.0, 1.0))
    return Reading(
        {"changed_share": view.changed_share, "mean_change": soft, "amount": amount, "extent": extent},
        (1.0 - float(np.sqrt(extent))) ** 2 if request.scope == "local" else None,
        f"The edit affects {view.changed_share:.1%} of the image (change map {soft:.1%} on average); its extent is"
        f" {extent:.3f} on a scale from 0 (nothing) to 1 (everything).",
    )


def preservation(view: EditView, request: EditRequest) -> Reading:
    """Measure how well the image is preserved outside the edit.

    Outside means outside the largest edited region and those of at least a fifth of its size, with a margin of four
    working pixels; if no change is requested, it means everywhere. The grade is the geometric mean of
    exp(-dE / 8) and the mean structural similarity there (Wang et al. 2004, on lightness).

    Returns:
        `outside_share`, `outside_dE`, `outside_structure`, and the `changed_share` of the image. No grade for edits of
        style and tone, which apply to the whole image.
    """
    kept = view.valid
    if request.scope != "none":
        main = _main_regions(view).astype(np.uint8)
        kept = kept & ~cv2.dilate(main, np.ones((9, 9), np.uint8)).astype(bool)
    share = _mean(kept.astype(np.float32), view.valid)
    graded = not _WHOLE_PICTURE_KINDS & set(request.kinds[:1]) and (
        request.scope != "global" or "background" in request.kinds
    )
    if share < 0.01:
        distance, structure, grade = 100.0, 0.0, 0.0
        sentence = "The edit affects the whole image; nothing is unchanged."
    else:
        distance = min(100.0, _mean(view.color_distance, kept))
        structure = float(np.clip(_mean(_similarity(view), kept), 0.0, 1.0))
        grade = float(np.sqrt(np.exp(-distance / OUTSIDE_COLOR) * structure))
        sentence = (
            f"Outside the edit ({share:.0%} of the image), colors differ by {distance:.1f} dE on average and"
            f" structural similarity is {structure:.0%}."
        )
    return Reading(
        {
            "outside_share": share,
            "outside_dE": distance,
            "outside_structure": structure,
            "changed_share": view.changed_share,
        },
        grade if graded else None,
        sentence,
    )


def _mean(plane: Plane, where: Mask) -> float:
    """Return the mean over the masked pixels, 0 for an empty mask."""
    chosen = plane.ravel() if where.all() else plane[where]
    return float(chosen.mean(dtype=np.float64)) if chosen.size else 0.0


def _similarity(view: EditView) -> Plane:
    """Return the structural similarity (contrast and structure terms) of lightness at each working pixel."""
    (mean_first, square_first), (mean_second, square_second) = _moments(view.before), _moments(view.after)
    both = _window(view.before.channels[0] * view.after.channels[0]) - mean_first * mean_second
    variances = square_first - mean_first**2 + square_second - mean_second**2
    # (0.03 x 100)^2 as in the paper: lightness runs to 100.
    return np.asarray((2.0 * both + 9.0) / (np.maximum(variances, 0.0) + 9.0), np.float32)


@once
def _moments(image: Planes) -> tuple[Plane, Plane]:
    """Return the local mean of lightness and of its square."""
    lightness = image.channels[0]
    return _window(lightness), _window(lightness * lightness)


def _window(plane: Plane) -> Plane:
    return np.asarray(cv2.GaussianBlur(plane, (0, 0), 1.5), np.float32)


@once
def find_regions(view: EditView) -> tuple[Labels, list[Region]]:
    """Return the label image and the connected edited regions, largest first."""
    height, width = view.changed.shape
    count, labels, stats, centers = cv2.connectedComponentsWithStats(view.changed.astype(np.uint8), connectivity=8)
    lefts, tops, widths, heights, areas = stats.T
    regions = [
        Region(
            label,
            int(areas[label]),
            (int(lefts[label]), int(tops[label]), int(lefts[label] + widths[label]), int(tops[label] + heights[label])),
            float(areas[label] / (widths[label] * heights[label])),
            (float(centers[label][0]) / width, float(centers[label][1]) / height),
        )
        for label in sorted(range(1, count), key=lambda label: -int(areas[label]))
    ]
    return np.asarray(labels, np.int32), regions


def _main_regions(view: EditView) -> Mask:
    """Return the main edit: the largest region and those of comparable size."""
    labels, regions = find_regions(view)
    return np.isin(labels, [region.label for region in regions if region.area >= MAIN_REGION * regions[0].area])


def _place(center: tuple[float, float]) -> str:
    """Describe the position of a point in the image."""
    across = "left" if center[0] < 1 / 3 else "right" if center[0] > 2 / 3 else ""
    down = "top" if center[1] < 1 / 3 else "bottom" if center[1] > 2 / 3 else ""
    return f"at the {' '.join(filter(None, (down, across)))}" if across or down else "in the middle"


def _overlay(view: EditView) -> Pixels:
    """Draw the dimmed source with edited regions tinted and outlined."""
    source = view.small_source.astype(np.float32)
    strength = (view.change * view.changed)[..., None]
    dimmed = source * 0.45
    tinted = source * 0.6 + TINT * 0.4
    picture = np.clip(dimmed * (1.0 - strength) + tinted * strength, 0, 255).astype(np.uint8)
    contours, _ = cv2.findContours(view.changed.astype(np.uint8), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_NONE)
    cv2.drawContours(picture, contours, -1, (255, 255, 255), 1)
    return np.asarray(picture, np.uint8)
