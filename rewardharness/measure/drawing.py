"""Tell a drawn style from the source under a filter, or blended with a drawing."""

import re

import cv2
import numpy as np

from rewardharness.measure.curves import least_squares, magnitude, product, step, weighted_mean
from rewardharness.measure.planes import Plane, Planes, once
from rewardharness.measure.view import EditView
from rewardharness.schema import EditRequest

RETOUCHED = 0.07
"""Unexplained share of the fine detail of the candidate, as variance, up to which it is a retouched source: a map of
colors, sharpened or blurred. Chosen on 37 free photographs: in five generated styles .08 to .98, under twelve filters
of color, light and sharpness at most .10, in nine of ten cases at most .07."""
_DRAWN = re.compile(
    r"\b(?:paint\w*|drawings?|drawn|sketch\w*|watercolou?rs?|cartoon\w*|anime|manga|pixel art|comics?|line art|charcoal"
    r"|pencil|crayon|mosaic|illustration|impressionis\w+|cubis\w+|low poly|van gogh|picasso|monet|ghibli|ukiyo-e"
    r"|claymation|pop art|3d render\w*)\b"
)
"""Styles that show other lines and textures, not only other colors, as `vintage` may."""
_GRAY = re.compile(r"\b(?:pencil|sketch\w*|charcoal|line art|ink)\b")
"""Drawn styles that are gray, unless the instruction names a color."""
_SAME_DETAIL, _SAME_LINES = (0.53, 0.02), (0.85, 0.02)
"""Correlation of the finest detail with that of the source at which it is not drawn anew: middle and width; the latter
for gray drawings, whose lines follow the edges of the source.

Chosen on five generated styles of 24 free photographs: paintings, cartoons and pixels have at most .5 in nine of ten
cases, blends with 45% of them .54 or more; pencil drawings at most .82, blends with 30% of them .83 or more."""
_OUTLINED, _SAME_TEXTURE, _FLAT = (0.68, 0.03), (0.65, 0.02), 12.0
"""Fine detail of the source that is left beside its edges, from which it is drawn over with outlines; correlation there
at which it is still the source; and the gradient of an edge.

Chosen on five styles of seven photographs of 512 and 1024 pixels: cartoons have a correlation of at most .61, blends
with 45% of them .67 or more."""
_COLOR_KEPT = (0.35, 0.05)
"""Share of the chroma of the source from which a picture is not drawn in gray: middle and width."""


def asks_drawing(request: EditRequest) -> bool:
    """Return whether a style is requested that shows other lines and textures."""
    return "style" in request.kinds and not request.tones and _DRAWN.search(request.instruction.lower()) is not None


def source_kept(view: EditView, request: EditRequest) -> float:
    """Return the degree to which the candidate is the source, retouched or blended with a drawing, 0 to 1."""
    if _only_retouched(view):
        return 1.0
    before, after = (_finest(image) for image in (view.before, view.after))
    weight = view.valid.astype(np.float32)
    same, _ = _regression(before, after, weight)
    text = request.instruction.lower()
    if not _GRAY.search(text) or "color" in text or "colour" in text:
        alike, left = _regression(before, after, weight * _flatness(view.before))
        outlined = step(left, *_OUTLINED)
        return outlined * step(alike, *_SAME_TEXTURE) + (1.0 - outlined) * step(same, *_SAME_DETAIL)
    chroma = [weighted_mean(image.chroma, weight) for image in (view.before, view.after)]
    colored = step(chroma[1] / chroma[0], *_COLOR_KEPT) if chroma[0] > 6.0 else 0.0
    return max(step(same, *_SAME_LINES), colored)


def _regression(before: Plane, after: Plane, weight: Plane) -> tuple[float, float]:
    """Return the correlation of two planes without offset, and the slope of the second by the first."""
    both, *squares = (weighted_mean(pair, weight) for pair in (before * after, before * before, after * after))
    return both / max(squares[0] * squares[1], 1e-12) ** 0.5, both / max(squares[0], 1e-9)


def _flatness(image: Planes) -> Plane:
    """Return weights that are 1 in smooth areas and 0 at edges."""
    soft = cv2.GaussianBlur(image.gray, (0, 0), 1.5)
    gradient = magnitude(cv2.Sobel(soft, cv2.CV_32F, 1, 0), cv2.Sobel(soft, cv2.CV_32F, 0, 1)) / np.float32(4.0)
    return np.asarray(np.exp(-((gradient / np.float32(_FLAT)) ** 2)), np.float32)


@once
def _finest(image: Planes) -> Plane:
    return np.asarray(image.gray - cv2.GaussianBlur(image.gray, (0, 0), 1.0), np.float32)


def _only_retouched(view: EditView) -> bool:
    """Return whether a quadratic map of colors and the detail of the source at two scales explain the fine detail."""
    before, after = (np.asarray(pixels, np.float32) / 255.0 for pixels in (view.small_source, view.small_candidate))
    details = (before - cv2.GaussianBlur(before, (0, 0), sigma) for sigma in (1.0, 3.0))
    flat = before.reshape(-1, 3)
    terms = np.concatenate([color_terms(flat), *(blurred.reshape(-1, 3) for blurred in details)], axis=1)
    coefficients = least_squares(terms[::7], after.reshape(-1, 3)[::7])
    expected = np.clip(product(terms, coefficients), 0.0, 1.0).reshape(after.shape)
    left, detail = (_fine(picture) for picture in (after - expected, after))
    weight = view.valid.astype(np.float32)
    return weighted_mean(left**2, weight) <= RETOUCHED * weighted_mean(detail**2, weight)


def _fine(picture: Plane) -> Plane:
    """Return the fine detail in brightness of a picture."""
    brightness = cv2.cvtColor(picture, cv2.COLOR_RGB2GRAY)
    return np.asarray(brightness - cv2.GaussianBlur(brightness, (0, 0), 4.0), np.float32)


def color_terms(colors: Plane) -> Plane:
    """Return the terms of a quadratic map of colors, pixels x 10."""
    red, green, blue = colors.T
    terms = np.stack([np.ones_like(red), red, green, blue, red * green, red * blue, green * blue], axis=1)
    return np.concatenate([terms, colors * colors], axis=1)
