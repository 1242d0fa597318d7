"""Encoded images for a model: the bytes that were given, unless something has to be done to them, which is noted.

Decoding and encoding again costs more than everything else a client does, and can change what is judged. So bytes
in a common format pass through; what a server's decoder would show differently from what a person sees is decoded
here and sent as lossless PNG.
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
"""Formats that are passed through, and their media types."""

_PNG_START = b"\x89PNG\r\n\x1a\n"
_PNG_WORDS = frozenset({b"tEXt", b"zTXt", b"iTXt", b"tIME"})
"""Chunks of a PNG that say something to people or programs and change no pixel. Generators sign there."""


@dataclass(frozen=True)
class EncodedImage:
    """An image ready to be sent."""

    data: bytes = field(repr=False)
    mime: str
    size: tuple[int, int]
    """Width and height in pixels."""
    notes: tuple[str, ...] = ()
    """What was done to it; empty when the pixels are as given."""


def bytes_to_read(image: ImageInput) -> int:
    """Say how many bytes reading an image will add to those in memory; 0 when it is there or cannot be read."""
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
        max_pixels: The most pixels that the model looks at; larger images are scaled down by area averaging here,
            so that what is judged is known and the same for all candidates. None: sent at full size.

    Raises:
        ImageError: If it is not an image that can be used.
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
    """Return the bytes as given if any decoder shows what a person sees; metadata are cut off."""
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
        # Whatever is wrong is found again, and put into words, by the loader.
        return None
    if not plain or (max_pixels is not None and size[0] * size[1] > max_pixels):
        return None
    return EncodedImage(opened.data, PASSED[kind], size)


def _without_words(data: bytes) -> bytes:
    """A PNG without the chunks of `_PNG_WORDS`, and without what follows its end.

    Raises:
        ValueError: If its chunks do not fit together.
    """
    if not data.startswith(_PNG_START):
        raise ValueError("no PNG")
    kept, at = [_PNG_START], len(_PNG_START)
    while True:
        name, end = data[at + 4 : at + 8], at + 12 + int.from_bytes(data[at : at + 4], "big")
        if len(name) < 4 or end > len(data):
            raise ValueError("a chunk is cut off")
        if name not in _PNG_WORDS:
            kept.append(data[at:end])
        if name == b"IEND":
            return b"".join(kept)
        at = end
