"""Uploads that the page names, and images that the browser has scaled down before it sent them."""

import re
from collections.abc import Iterable
from pathlib import Path

from gradio.utils import get_upload_folder
from PIL import Image, UnidentifiedImageError

from rewardharness.schema import Json

_SCALED = re.compile(r"\.from-([1-9]\d{0,5})x([1-9]\d{0,5})\.png")
"""End of the name of an image that `assets/scaling.js` has scaled down; it holds the size before."""


def uploaded(image: Json | None) -> str | None:
    """Return the path of an upload that the page names; None for anything else, such as another file.

    Args:
        image: The value of an image field as the page sends it.
    """
    path = Path(str(image.get("path"))).resolve() if image else None
    folder = Path(get_upload_folder()).resolve()
    return str(path) if path is not None and path.is_relative_to(folder) and path.is_file() else None


def scalings(images: Iterable[tuple[str, Path | str | None]]) -> list[str]:
    """Return a sentence for each image that was scaled down in the browser.

    Args:
        images: Name and file of each image; None for missing ones.
    """
    sentences = []
    for name, path in images:
        sizes = _sizes(Path(path)) if path is not None else None
        if sizes is not None:
            (width, height), (now_width, now_height) = sizes
            sentences.append(f"{name}: scaled from {width}x{height} to {now_width}x{now_height} before the upload.")
    return sentences


def _sizes(path: Path) -> tuple[tuple[int, int], tuple[int, int]] | None:
    """Return the sizes before and after; None for an image that was not scaled, whatever its name says."""
    found = _SCALED.search(path.name)
    if found is None or found.end() != len(path.name):
        return None
    try:
        with Image.open(path, formats=["PNG"]) as image:
            size = image.size
    except (OSError, UnidentifiedImageError):
        return None
    before = int(found[1]), int(found[2])
    factor = max(size) / max(before)
    expected = tuple(max(1, int(side * factor + 0.5)) for side in before)
    return (before, size) if factor < 1 and all(abs(a - b) <= 1 for a, b in zip(size, expected, strict=True)) else None
