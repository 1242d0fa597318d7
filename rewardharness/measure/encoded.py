"""Encode images for a model, passing the original bytes through where possible.

Re-encoding costs more than everything else a client does and can change what is judged. Bytes in a common format pass
through. Images that a server's decoder could render differently from a viewer are decoded and sent as lossless PNG,
with a note.
"""

import io
import math
from dataclasses import dataclass, field

import cv2
import numpy as np
from PIL import Image

from rewardharness.measure.bounds import MAX_BYTES, open_bounded, quiet
from rewardharness.measure.images import load_picture, read_bytes, sniff
from rewardharness.schema import ImageInput

PASSED = {"PNG": "image/png", "JPEG": "image/jpeg", "WEBP": "image/webp"}
"""Formats that pass through, with their media types."""

_PNG_START = b"\x89PNG\r\n\x1a\n"
_PNG_WORDS = frozenset({b"tEXt", b"zTXt", b"iTXt", b"tIME"})
"""PNG chunks with text metadata, where image generators leave signatures."""


@dataclass(frozen=True)
class EncodedImage:
    """An encoded image."""

    data: bytes = field(repr=False)
    mime: str
    size: tuple[int, int]
    """Width and height in pixels."""
    notes: tuple[str, ...] = ()
    """Conversions that were applied; empty if the pixels are unchanged."""


def bytes_to_read(image: ImageInput) -> int:
    """Return how many bytes reading an image adds to memory; 0 if it is loaded or cannot be read."""
    if image.data is not None or image.path is None:
        return 0
    try:
        return min(image.path.stat().st_size, MAX_BYTES)
    except (OSError, ValueError):
        return 0


def encode_for_model(image: ImageInput, max_pixels: int | None = None) -> EncodedImage:
    """Prepare an image for a model.

    Args:
        image: A file or bytes, as `load_picture` takes them.
        max_pixels: Maximum number of pixels that the model processes. Larger images are scaled down by area
            averaging, the same way for all candidates. None sends full size.

    Raises:
        ImageError: If the image cannot be used.
    """
    data = read_bytes(image)
    kind = sniff(image.name, data)
    passed = _pass_through(image.name, data, kind, max_pixels)
    if passed is not None:
        return passed
    picture = load_picture(ImageInput(image.name, data=data))
    pixels, notes = picture.pixels, list(picture.notes)
    height, width = pixels.shape[:2]
    if max_pixels is not None and width * height > max_pixels:
        scale = math.sqrt(max_pixels / (width * height))
        smaller = max(1, int(width * scale)), max(1, int(height * scale))
        pixels = np.asarray(cv2.resize(pixels, smaller, interpolation=cv2.INTER_AREA), np.uint8)
        notes.append(f"scaled from {width} x {height} to {smaller[0]} x {smaller[1]} for the model")
    if kind not in PASSED:
        notes.append(f"sent as PNG instead of {kind}")
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG", compress_level=1)
    return EncodedImage(buffer.getvalue(), "image/png", (pixels.shape[1], pixels.shape[0]), tuple(notes))


def _pass_through(name: str, data: bytes, kind: str, max_pixels: int | None) -> EncodedImage | None:
    """Return the original bytes without metadata if every decoder renders them the same way."""
    if kind not in PASSED:
        return None
    try:
        opened = open_bounded(name, _without_words(data) if kind == "PNG" else data, kind)
        with quiet(), opened.image as image:
            size = image.size
            plain = (
                image.mode in {"RGB", "L"}
                and not opened.exif
                and not opened.notes
                and not image.has_transparency_data
                and not getattr(image, "is_animated", False)
                and not image.info.get("icc_profile")
                and not image.info.get("exif")
                and b"Raw profile type exif" not in data
                and not image.info.get("xmp")
            )
    except Exception:
        # The loader finds and reports the same problem.
        return None
    if not plain or (max_pixels is not None and size[0] * size[1] > max_pixels):
        return None
    return EncodedImage(opened.data, PASSED[kind], size)


def _without_words(data: bytes) -> bytes:
    """Return a PNG without the chunks of `_PNG_WORDS` and without trailing data.

    Raises:
        ValueError: If its chunks are inconsistent.
    """
    if not data.startswith(_PNG_START):
        raise ValueError("not a PNG")
    kept, at = [_PNG_START], len(_PNG_START)
    while True:
        name, end = data[at + 4 : at + 8], at + 12 + int.from_bytes(data[at : at + 4], "big")
        if len(name) < 4 or end > len(data):
            raise ValueError("a chunk is truncated")
        if name not in _PNG_WORDS:
            kept.append(data[at:end])
        if name == b"IEND":
            return b"".join(kept)
        at = end
