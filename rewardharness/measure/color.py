"""Measure whether the edit has the requested color, tone or style."""

import re
from collections.abc import Mapping, Sequence
from functools import cache, partial

import cv2
import numpy as np

from rewardharness.measure.color_names import BASIC_COLORS, ColorTarget, color_distance, color_named
from rewardharness.measure.curves import excess, fall, magnitude, rise, step, weighted_mean
from rewardharness.measure.planes import Pixels, Plane, Planes, Reading, once
from rewardharness.measure.view import EditView
from rewardharness.schema import EditRequest

_RIVAL, _ADDED_RIVAL = (-1.15, 0.05), (-1.65, 0.12)
"""Negative distance to the requested color, relative to that to another color: middle and width of the fall, for a new
color of something and for something new, which has shades."""

_ALIKE = 15.0
"""Distance between two named colors below which one is not taken for the other's rival."""

_MEMBER = 24.0
"""Weighted color distance at which the membership in a color has fallen to 1/e."""

_OBJECT_MEMBER = 0.2
"""Least membership in the color by which an object is named, so that many distant pixels do not add up to an object."""

_ELSEWHERE = (0.7, 0.07)
"""Share of the new color beside the object that is to have it, at which something else got it: middle and width."""
_SOURCE_COLOR = (0.3, 0.03)
"""How much of its old color was where the new one appeared, relative to the parts of the source that show it best, at
which something else got the new color: middle and width of the fall.

On 24 generated requests the right object has .64 or more, another one at most .48, in 23 cases at most .27."""
_AT = r"\b((?:with|in|on|at|by|near|behind|beside|wearing|holding) (?:an?|the|his|her|its|their) )?"
"""What precedes a color that does not name the thing itself."""
_THING = (
    r"(?: (?!(?:with|in|on|at|has|have|having|wear\w*|of|who\w*|which|that|and|or|is|are|by|near|next|behind)\b)"
    r"[a-z]+){1,3}?"
)
"""The thing that a color names, without words after which another thing follows."""
_OBJECT_AREA = 0.003
"""Least part of the source that must have the color by which an object is named."""


def color_target(view: EditView, request: EditRequest) -> Reading:
    """Measure whether the edited region moved toward the requested color.

    The grade combines the fraction of the edited region that has the color with the relative movement toward it. It is
    about 0.1 without change and for another color that is clearly nearer, and approaches 0 for movement away from the
    color.
    """
    targets = tuple(target for target in map(color_named, _asked_colors(request)) if target)
    if not targets or request.kinds[0] in {"remove", "keep"}:
        reason = "The instruction does not ask for a known color."
        return Reading({}, None, reason)
    before, after = (_nearest(image, targets) for image in (view.before, view.after))
    member_before, member_after = (_member(image, targets) for image in (view.before, view.after))
    weight = np.where(view.valid, view.change, np.float32(0.0)) ** 2
    area = float(weight.mean())
    distance_before, distance_after = weighted_mean(before, weight), weighted_mean(after, weight)
    share_before, share_after = weighted_mean(member_before, weight), weighted_mean(member_after, weight)
    way = (distance_before - distance_after) / (distance_before + distance_after + 10.0)
    progress = 0.6 * (share_after - share_before) + 0.4 * way
    if request.kinds[0] in {"add", "replace", "text", "count"}:
        # A new object may replace a background of the same color; then only its final color counts.
        progress = 0.5 * progress + 0.5 * share_after
    progress *= area / (area + 0.003)
    rival, distance_rival = _rival(view.after, weight, targets)
    if progress > 0.0 and request.kinds[0] == "color":
        progress *= step(-distance_after / (distance_rival + 5.0), *_RIVAL)
    grade = step(progress, 0.25, 0.12)
    if request.kinds[0] == "color":
        grade *= 1.0 - 0.9 * _beside(view, request, targets)
    names = " or ".join(target.name for target in targets)
    sentence = (
        f"{share_after:.0%} of the edited region is {names} (before: {share_before:.0%}); its mean distance to"
        f" {names} changed from {distance_before:.0f} to {distance_after:.0f} dE; that to {rival} is"
        f" {distance_rival:.0f} dE."
    )
    quantities = {
        "distance_before": distance_before,
        "distance_after": distance_after,
        "distance_rival": distance_rival,
        "share_before": share_before,
        "share_after": share_after,
    }
    # Shadows and highlights limit the progress of correct edits: drawn ones reach 0.55, half-finished ones 0.3.
    overlay = partial(_mark, view.small_candidate, member_after, weight)
    return Reading(quantities, grade, sentence, overlay)


def object_color(view: EditView, request: EditRequest) -> Reading:
    """Measure whether the object that the instruction names by its color, such as `the red car`, has the new color.

    The object is the part of the source with the named color, wherever the candidate changed. The grade is low if the
    object keeps its color, and where the requested color appears beside the object instead.
    """
    targets = tuple(target for target in map(color_named, _asked_colors(request)) if target)
    named = tuple(target for target in map(color_named, _named_colors(request)) if target)
    if not targets or not named or request.kinds[0] != "color":
        return Reading({}, None, "The instruction does not name an object by its color and ask for another color.")
    region, reached, outside, _ = _recolored(view, named, targets)
    area = float(region.mean())
    old, new = (" or ".join(target.name for target in group) for group in (named, targets))
    if area < _OBJECT_AREA:
        return Reading({"area": area}, None, f"Only {area:.1%} of the source is {old}, too little.")
    quantities = {"area": area, "share_after": reached, "share_outside": outside}
    sentence = (
        f"{reached:.0%} of what was {old} in the source became {new}; {outside:.0%} of the new {new} is elsewhere."
    )
    grade = step(reached, 0.25, 0.12) * (1.0 - 0.5 * outside)
    return Reading(
        quantities, grade, sentence, partial(_mark, view.small_candidate, _member(view.after, targets), region)
    )


@once
def _recolored(
    view: EditView, named: tuple[ColorTarget, ...], targets: tuple[ColorTarget, ...]
) -> tuple[Plane, float, float, float]:
    """Return where the named color was, and of the new color how much is there, how much beside, and how much fits.

    The last is the mean membership in the named color where the new one appeared, relative to its best parts.
    """
    member = _member(view.before, named)
    region = np.where(view.valid & (member > _OBJECT_MEMBER), member, np.float32(0.0))
    before, after = (_member(image, targets) for image in (view.before, view.after))
    gain = np.asarray(np.maximum(after - before, 0.0), np.float32) * view.valid
    best = max(1, round(_OBJECT_AREA * member.size))
    strongest = float(np.partition(member, -best, axis=None)[-best:].mean())
    outside = weighted_mean(np.asarray(region == 0.0, np.float32), gain)
    return region, weighted_mean(gain, region), outside, weighted_mean(member, gain, strongest) / max(strongest, 1e-6)


def _beside(view: EditView, request: EditRequest, targets: tuple[ColorTarget, ...]) -> float:
    """Return the degree to which something else than `the red car` got the new color; 0 if nothing is named like it."""
    text = " ".join(request.instruction.lower().split())
    for name in _named_colors(request):
        named = color_named(name)
        match = re.search(rf"{_AT}{name}{_THING} (?:(?:in)?to )?(?:an? )?{request.colors[-1]}\b", text)
        if named and match and not match[1]:
            region, _, outside, fit = _recolored(view, (named,), targets)
            elsewhere = max(step(outside, *_ELSEWHERE), step(-fit, -_SOURCE_COLOR[0], _SOURCE_COLOR[1]))
            return elsewhere if float(region.mean()) >= _OBJECT_AREA else 0.0
    return 0.0


def _named_colors(request: EditRequest) -> tuple[str, ...]:
    """Return the basic colors in the instruction that are not requested: they tell which object is meant."""
    asked = " ".join(_asked_colors(request)).split()
    colors = re.findall(rf"(?<![\w-])({'|'.join(BASIC_COLORS)})(?![\w-])", request.instruction.lower())
    return tuple(dict.fromkeys(name for name in colors if name not in asked))


def _rival(image: Planes, weight: Plane, targets: Sequence[ColorTarget]) -> tuple[str, float]:
    """Return the basic color that is nearest to the edited region and unlike the targets, and its mean distance."""
    chosen = weight > 0.01 * float(weight.max(initial=0.0))
    *pixels, chroma, weights = (plane[chosen] for plane in (*image.channels, image.chroma, weight))
    rivals = []
    for name in BASIC_COLORS:
        rival = color_named(name)
        if rival and all(_is_rival(rival, target) for target in targets):
            rivals.append((weighted_mean(color_distance(pixels, rival, chroma), weights), name))
    distance, name = min(rivals, default=(200.0, "another color"))
    return name, distance


@cache
def _is_rival(color: ColorTarget, target: ColorTarget) -> bool:
    """Return whether a color is clearly another one. Black, white and gray depend on the light."""
    neutral = color.chroma == 0.0 and target.chroma == 0.0
    return not neutral and color_distance(color.lab, target).item() > _ALIKE


def tone_shift(view: EditView, request: EditRequest) -> Reading:
    """Measure whether light and color changed in each requested direction.

    Local requests are measured where the image changed, global ones everywhere. A clearly visible shift gets about 0.8,
    no shift about 0.1, a shift in the opposite direction less. Of several directions the one that is met least counts.
    Black and white is graded by the chroma that is left, both in itself and in relation to the source.
    """
    shifts = _tone_shifts(view, local=request.scope == "local")
    # `background_change` measures a blur of the background.
    elsewhere = {"blurrier"} if "background" in request.kinds[:2] else set()
    asked = [tone for tone in request.tones if tone in _TONES and tone not in elsewhere]
    quantities = {**shifts}
    if not asked:
        return Reading(quantities, None, "The instruction does not ask for a change of light or tone.")
    grade = min(_tone_grade(shifts, *_TONES[tone]) for tone in asked)
    if request.scope == "global" and {"darker", "brighter"} & set(asked):
        evenness = _evenness(view)
        quantities["evenness"] = evenness
        grade *= step(evenness, *_EVEN)
    if "darker" in asked and "night" in request.instruction.lower():
        grade *= step(-shifts["brightness_kept"], *_NIGHT)
    parts = [f"{tone.replace('_', ' ')}: {_TONES[tone][0]} {shifts[_TONES[tone][0]]:+.2f}" for tone in asked]
    sentence = f"Requested tone changes and measured shifts: {'; '.join(parts)}."
    return Reading(quantities, grade, sentence)


_EVEN = (0.42, 0.04)
"""Evenness at which a change of light counts as one of the whole image: middle and width.

Chosen on 24 free photographs: darkened and brightened ones have .6 or more, those under a vignette at most .28."""


_NIGHT = (-0.82, 0.03)
"""Negative share of the lightness that is left at night: middle and width. A cooler tint of photographs leaves .88."""


def style_shift(view: EditView, request: EditRequest) -> Reading:
    """Measure whether the style changed everywhere while the layout is preserved.

    Style means color statistics, energy of fine and medium detail, and palette size. Layout means correlation of the
    coarse structure. The grade requires both, so neither an unchanged nor an unrelated image gets a high grade.
    """
    color = _color_statistics(view)
    texture, palette = _texture_change(view), _palette_change(view)
    layout = layout_kept(view)
    spread = float(np.minimum(cv2.resize(view.change, (8, 8), interpolation=cv2.INTER_AREA) / 0.5, 1.0).mean())
    look = rise(color / 14.0 + texture / 0.9 + palette / 1.2, 1.0)
    quantities = {
        "color_change": color,
        "texture_change": texture,
        "palette_change": palette,
        "layout_kept": layout,
        "spread": spread,
    }
    sentence = (
        f"Colors changed by {color:.1f} dE, texture by {texture:.2f} and the palette by {palette:.2f} octaves"
        f" over {spread:.0%} of the image; the layout correlation with the source is {layout:.2f}."
    )
    if "style" not in request.kinds[:2]:
        return Reading(quantities, None, sentence)
    grade = (look * (0.3 + 0.7 * spread)) ** 0.6 * step(layout, 0.35, 0.1)
    return Reading(quantities, grade, sentence)


_TONES: Mapping[str, tuple[str, float, float]] = {
    "brighter": ("brightness", 1.0, 4.0),
    "darker": ("brightness", -1.0, 4.0),
    "warmer": ("warmth", 1.0, 0.12),
    "cooler": ("warmth", -1.0, 0.12),
    "more_contrast": ("contrast", 1.0, 0.15),
    "less_contrast": ("contrast", -1.0, 0.15),
    "more_saturated": ("saturation", 1.0, 0.04),
    "less_saturated": ("saturation", -1.0, 0.04),
    "grayscale": ("chroma_left", -1.0, 0.0),
    "sepia": ("sepia_distance", -1.0, 0.0),
    "sharper": ("sharpness", 1.0, 0.25),
    "blurrier": ("sharpness", -1.0, 0.4),
}
"""Per direction: the shift that measures it, its sign, and a clearly visible amount (0: smaller is better)."""


def _asked_colors(request: EditRequest) -> tuple[str, ...]:
    """Return the target colors of the edit: `from red to blue` and `the red car blue` have only the target blue."""
    if len(request.colors) < 2:
        return request.colors
    text = request.instruction.lower()
    kept = [request.colors[-1]]
    end = text.rfind(request.colors[-1])
    for name in reversed(request.colors[:-1]):
        start = text.rfind(name, 0, max(end, 0))
        between = text[start + len(name) : end]
        if start < 0 or not re.fullmatch(r"\s*(?:,|and|&|/|-|\s)+(?:the\s+\w+\s+|an?\s+)?(?:to\s+)?", between):
            break
        kept.append(name)
        end = start
    return tuple(reversed(kept))


def color_of_region(view: EditView, request: EditRequest, weight: Plane) -> tuple[float, float] | None:
    """Return the share of a region of the candidate that has a requested color, and the grade for that.

    A region that is clearly nearer to another basic color has a low grade. None if no known color is requested.
    """
    targets = tuple(target for target in map(color_named, request.colors) if target)
    if not targets:
        return None
    share = weighted_mean(_member(view.after, targets), weight)
    _, rival = _rival(view.after, weight, targets)
    nearer = step(-weighted_mean(_nearest(view.after, targets), weight) / (rival + 5.0), *_ADDED_RIVAL)
    return share, step(share, 0.1, 0.04) * nearer


@once
def _nearest(image: Planes, targets: tuple[ColorTarget, ...]) -> Plane:
    distances = [color_distance(image.channels, target, image.chroma) for target in targets]
    return np.asarray(np.minimum.reduce(distances), np.float32)


@once
def _member(image: Planes, targets: tuple[ColorTarget, ...]) -> Plane:
    """Return the membership of each pixel in a color, 0 to 1."""
    return np.asarray(np.exp(-((_nearest(image, targets) / _MEMBER) ** 2)), np.float32)


def _mark(pixels: Pixels, member: Plane, weight: Plane) -> Pixels:
    """Render the image in gray except where the edited region has the requested color."""
    gray = cv2.cvtColor(cv2.cvtColor(pixels, cv2.COLOR_RGB2GRAY), cv2.COLOR_GRAY2RGB)
    inside = (member > 0.4) & (weight > 0.1)
    picture = np.where(inside[..., None], pixels, gray // 2 + 64)
    outlines, _ = cv2.findContours(inside.astype(np.uint8), cv2.RETR_EXTERNAL, cv2.CHAIN_APPROX_SIMPLE)
    return np.asarray(cv2.drawContours(np.ascontiguousarray(picture), outlines, -1, (255, 0, 255), 1), np.uint8)


def _tone_shifts(view: EditView, *, local: bool) -> dict[str, float]:
    weight = view.valid.astype(np.float32)
    if local:
        # A small weight everywhere keeps the mean defined without change.
        weight *= view.change + np.float32(0.02)
    before, after = (_tones(lab, weight) for lab in (view.lab_source, view.lab_candidate))
    warmth = [_warmth(pixels, weight) for pixels in (view.small_source, view.small_candidate)]
    crispness = [_crispness(gray, weight) for gray in (view.gray_source, view.gray_candidate)]
    sepia = np.hypot(view.lab_candidate[..., 1] - 6.0, view.lab_candidate[..., 2] - 20.0)
    return {
        "brightness": after["lightness"] - before["lightness"],
        "brightness_kept": min(10.0, after["lightness"] / max(before["lightness"], 1.0)),
        "contrast": after["contrast"] - before["contrast"],
        "warmth": warmth[1] - warmth[0],
        "saturation": after["saturation"] - before["saturation"],
        "sharpness": crispness[1] - crispness[0],
        "chroma_left": after["chroma"],
        "chroma_kept": min(10.0, after["chroma"] / max(before["chroma"], 1.0)),
        "sepia_distance": weighted_mean(sepia, weight)
        + 3.0 * _tint_spread(view.lab_candidate[::2, ::2], weight[::2, ::2]),
    }


def _evenness(view: EditView) -> float:
    """Return the change of lightness, in octaves, of the part of the image that changed least, relative to the mean.

    It is the lower quartile of a coarse grid: 1 if all parts become darker alike, and about .2 for a darkened rim.
    """
    grids = [cv2.resize(image.channels[0], (4, 4), interpolation=cv2.INTER_AREA) for image in (view.before, view.after)]
    change = np.log2((grids[1] + 4.0) / (grids[0] + 4.0)).ravel()
    mean = float(np.log2((grids[1].mean() + 4.0) / (grids[0].mean() + 4.0)))
    return float(np.sort(change / mean)[3]) if abs(mean) > 0.02 else 1.0


def _tones(lab: Plane, weight: Plane) -> dict[str, float]:
    """Return mean lightness, contrast in octaves, saturation and mean chroma.

    Contrast is the spread of the lightness over its mean, and saturation C / sqrt(C^2 + L^2) (after Luebbe), so that
    darkening alone changes neither contrast nor saturation.
    """
    chroma = np.hypot(lab[..., 1], lab[..., 2])
    lightness = weighted_mean(lab[..., 0], weight)
    spread = float(np.sqrt(weighted_mean((lab[..., 0] - np.float32(lightness)) ** 2, weight)))
    saturation = chroma / np.sqrt(chroma**2 + lab[..., 0] ** 2 + np.float32(225.0))
    return {
        "lightness": lightness,
        "contrast": float(np.log2((spread + 1.0) / (lightness + 15.0))),
        "saturation": weighted_mean(saturation, weight),
        "chroma": weighted_mean(chroma, weight),
    }


def _tint_spread(lab: Plane, weight: Plane) -> float:
    """Return the spread of a and b at equal lightness: nearly 0 in an image of a single tint, such as sepia."""
    bins = (lab[..., 0] / 5.0).astype(np.int32).ravel().clip(0, 20)
    share = weight.ravel()
    mass = np.maximum(np.bincount(bins, share, 21), 1e-6)
    spread = 0.0
    for axis in (1, 2):
        values = lab[..., axis].ravel()
        mean = np.bincount(bins, share * values, 21) / mass
        spread += float(np.bincount(bins, share * (values - mean[bins]) ** 2, 21).sum() / mass.sum())
    return float(np.sqrt(spread))


def _warmth(pixels: Pixels, weight: Plane) -> float:
    """Return the ratio of red to blue light, in octaves."""
    red, blue = (weighted_mean(pixels[..., axis].astype(np.float32), weight) for axis in (0, 2))
    return float(np.log2((red + 8.0) / (blue + 8.0)))


def _crispness(gray: Plane, weight: Plane) -> float:
    """Return the ratio of fine to coarse detail energy, in octaves; contrast cancels out."""
    fine = weighted_mean(np.abs(cv2.Laplacian(gray, cv2.CV_32F)), weight)
    size = (max(1, gray.shape[1] // 4), max(1, gray.shape[0] // 4))
    small, weight_small = (cv2.resize(plane, size, interpolation=cv2.INTER_AREA) for plane in (gray, weight))
    coarse = weighted_mean(np.abs(cv2.Laplacian(small, cv2.CV_32F)), weight_small)
    return float(np.log2((fine + 0.5) / (coarse + 0.5)))


def _tone_grade(shifts: Mapping[str, float], name: str, sign: float, visible: float) -> float:
    if name == "chroma_left":  # a chroma of 1 cannot be seen; more than a quarter of a muted image's can
        return fall(excess(shifts[name] - 1.0, 0.5), 2.0) * fall(excess(shifts["chroma_kept"] - 0.25, 0.1), 0.25)
    if visible == 0.0:
        return fall(excess(shifts[name] - 8.0, 3.0), 8.0)
    return step(sign * shifts[name] / visible, 0.7, 0.32)


def _color_statistics(view: EditView) -> float:
    """Return the mean distance of the sorted values of L, a and b (one-dimensional optimal transport per axis)."""
    distances = []
    for axis in range(3):
        values = [np.sort(lab[::4, ::4, axis][view.valid[::4, ::4]]) for lab in (view.lab_source, view.lab_candidate)]
        distances.append(float(np.abs(values[0] - values[1]).mean()) if values[0].size else 0.0)
    return float(np.linalg.norm(distances))


def _texture_change(view: EditView) -> float:
    """Return the mean change of detail energy over the image and two scales, in octaves."""
    changes = []
    for scale in (1, 2):
        energies = []
        for gray in (view.gray_source, view.gray_candidate):
            plane = gray if scale == 1 else cv2.resize(gray, None, fx=0.5, fy=0.5, interpolation=cv2.INTER_AREA)
            energies.append(
                cv2.resize(np.abs(cv2.Laplacian(plane, cv2.CV_32F)), (16, 16), interpolation=cv2.INTER_AREA)
            )
        changes.append(float(np.abs(np.log2((energies[1] + 2.0) / (energies[0] + 2.0))).mean()))
    return sum(changes) / len(changes)


def _palette_change(view: EditView) -> float:
    """Return the difference of the entropies of the color histograms, in bits (octaves of the palette size)."""
    entropies = []
    for pixels in (view.small_source, view.small_candidate):
        bins = (pixels[::2, ::2][view.valid[::2, ::2]] >> 4).astype(np.int32)
        counts = np.bincount((bins[:, 0] << 8) | (bins[:, 1] << 4) | bins[:, 2], minlength=4096)
        share = counts[counts > 0] / max(1, counts.sum())
        entropies.append(float(-(share * np.log2(share)).sum()))
    return abs(entropies[1] - entropies[0])


def layout_kept(view: EditView) -> float:
    """Return the correlation of coarse luminance and coarse edges between both images, -1 to 1."""
    small = [
        cv2.resize(gray, (32, 32), interpolation=cv2.INTER_AREA) for gray in (view.gray_source, view.gray_candidate)
    ]
    edges = []
    for gray in (view.gray_source, view.gray_candidate):
        middle = cv2.GaussianBlur(cv2.resize(gray, (128, 128), interpolation=cv2.INTER_AREA), (0, 0), 1.5)
        gradient = magnitude(cv2.Sobel(middle, cv2.CV_32F, 1, 0), cv2.Sobel(middle, cv2.CV_32F, 0, 1))
        edges.append(cv2.resize(np.sqrt(gradient), (64, 64), interpolation=cv2.INTER_AREA))
    return 0.4 * abs(_correlation(*small)) + 0.6 * _correlation(*edges)


def _correlation(first: Plane, second: Plane) -> float:
    first, second = first - first.mean(), second - second.mean()
    scale = float(np.sqrt((first**2).sum() * (second**2).sum()))
    # Two flat images correlate fully; a flat and a structured image do not correlate.
    return (float((first * second).sum()) + 1.0) / (scale + 1.0)
