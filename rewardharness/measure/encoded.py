"""Encode images for a model, passing the original bytes through where possible.

Re-encoding costs more than everything else a client does and can change what is judged. Bytes in a common format pass
through. Images that a server's decoder could render differently from a viewer are decoded and sent as lossless PNG,
with a note.
"""

import io
import math
import os
import struct
import zlib
from dataclasses import dataclass, field
from typing import Literal

import cv2
import numpy as np
from PIL import Image

from rewardharness.measure.bounds import MAX_CHUNKS, MAX_PIXELS, MAX_SIDE, MIN_SIDE, open_bounded, quiet
from rewardharness.measure.images import is_deep_png, load_picture, read_bytes, sniff
from rewardharness.schema import ImageInput

PASSED = {"PNG": "image/png", "JPEG": "image/jpeg", "WEBP": "image/webp"}
"""Formats that pass through, with their media types."""

_PNG_START = b"\x89PNG\r\n\x1a\n"
_PNG_WORDS = frozenset({b"tEXt", b"zTXt", b"iTXt", b"tIME"})
"""PNG chunks with text metadata, where image generators leave signatures."""
_RAW_EXIF = b"Raw profile type exif"
"""Keyword of EXIF data in a text chunk, which may say how the image is turned."""


@dataclass(frozen=True)
class EncodedImage:
    """An encoded image."""

    data: bytes = field(repr=False)
    mime: str
    size: tuple[int, int]
    """Width and height in pixels."""
    notes: tuple[str, ...] = ()
    """Conversions that were applied; empty if the pixels are unchanged."""


class NotPlainError(Exception):
    """An image cannot be sent as it is."""


def encode_for_model(
    image: ImageInput,
    max_pixels: int | None = None,
    *,
    stat: os.stat_result | None = None,
    decode: bool = True,
    form: Literal["original", "png", "jpeg"] = "original",
    quality: int = 95,
) -> EncodedImage:
    """Prepare an image for a model.

    Args:
        image: A file or bytes, as `load_picture` takes them.
        max_pixels: Maximum number of pixels that the model processes. Larger images are scaled down by area
            averaging, the same way for all candidates. None sends full size.
        stat: Status of its file if it is known.
        decode: Whether to decode an image that cannot be sent as it is, which takes up to two seconds.
        form: Format in which it is sent. By default images in common formats keep their bytes, others become PNG.
        quality: Quality of JPEG.

    Raises:
        ImageError: If the image cannot be used.
        NotPlainError: If it has to be decoded and `decode` is false.
    """
    data = read_bytes(image, stat)
    kind = sniff(image.name, data)
    passed = _pass_through(image.name, data, kind, max_pixels)
    if passed is not None and form in ("original", kind.lower()) and form != "jpeg":
        return passed
    if not decode:
        raise NotPlainError
    picture = load_picture(ImageInput(image.name, data=data))
    pixels, notes = picture.pixels, list(picture.notes)
    height, width = pixels.shape[:2]
    if max_pixels is not None and width * height > max_pixels:
        scale = math.sqrt(max_pixels / (width * height))
        smaller = max(1, int(width * scale)), max(1, int(height * scale))
        pixels = np.asarray(cv2.resize(pixels, smaller, interpolation=cv2.INTER_AREA), np.uint8)
        notes.append(f"scaled from {width} x {height} to {smaller[0]} x {smaller[1]} for the model")
    kept = "JPEG" if form == "jpeg" else "PNG"
    if kind not in PASSED:
        notes.append(f"sent as {kept} instead of {kind}")
    options = {"quality": quality} if kept == "JPEG" else {"compress_level": 1}
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, kept, **options)
    return EncodedImage(buffer.getvalue(), PASSED[kept], (pixels.shape[1], pixels.shape[0]), tuple(notes))


def _pass_through(name: str, data: bytes, kind: str, max_pixels: int | None) -> EncodedImage | None:
    """Return the original bytes without metadata if every decoder renders them the same way."""
    if kind not in PASSED:
        return None
    try:
        if kind == "PNG":
            data, names = _without_words(data)
            size = _plain_size(data, names)
            if size is not None:
                return EncodedImage(data, PASSED[kind], size) if _fits(size, max_pixels) else None
        opened = open_bounded(name, data, kind)
        with quiet(), opened.image as image:
            size = image.size
            plain = (
                image.mode in {"RGB", "L"}
                and not is_deep_png(kind, data)
                and not opened.exif
                and not opened.notes
                and not image.has_transparency_data
                and not getattr(image, "is_animated", False)
                and not image.info.get("icc_profile")
                and not image.info.get("exif")
                and not image.info.get("xmp")
            )
    except Exception:
        # The loader finds and reports the same problem.
        return None
    return EncodedImage(opened.data, PASSED[kind], size) if plain and _fits(size, max_pixels) else None


def _fits(size: tuple[int, int], max_pixels: int | None) -> bool:
    return max_pixels is None or size[0] * size[1] <= max_pixels


def _plain_size(data: bytes, names: list[bytes]) -> tuple[int, int] | None:
    """Return the size of a PNG that consists of a header and pixels of 8 bits, without opening it.

    Most PNG files are of this form. All others, and those that `open_bounded` refuses or scales, give None.

    Args:
        data: The PNG.
        names: Its chunks.
    """
    if names[0] != b"IHDR" or set(names[1:-1]) != {b"IDAT"} or len(names) > MAX_CHUNKS:
        return None
    length, _, width, height, *coding, check = struct.unpack(">I4sIIBBBBBI", data[8:33])
    # 8 bits of gray or RGB, the only methods of compression and filtering, with or without interlacing.
    if length != 13 or coding[:2] not in ([8, 0], [8, 2]) or any(coding[2:4]) or check != zlib.crc32(data[12:29]):
        return None
    within = min(width, height) >= MIN_SIDE and max(width, height) <= MAX_SIDE and width * height <= MAX_PIXELS
    return (width, height) if within else None


def _without_words(data: bytes) -> tuple[bytes, list[bytes]]:
    """Return a PNG without the chunks of `_PNG_WORDS` and trailing data, and the names of its other chunks.

    A PNG that has neither is returned as the same object.

    Raises:
        ValueError: If its chunks are inconsistent, or one of them contains EXIF data as text.
    """
    if not data.startswith(_PNG_START):
        raise ValueError("not a PNG")
    pieces: list[bytes] = []
    names: list[bytes] = []
    kept, at = 0, len(_PNG_START)
    while True:
        name, end = data[at + 4 : at + 8], at + 12 + int.from_bytes(data[at : at + 4], "big")
        if len(name) < 4 or end > len(data):
            raise ValueError("a chunk is truncated")
        if name in _PNG_WORDS:
            if data.find(_RAW_EXIF, at, end) >= 0:
                raise ValueError("a text chunk contains EXIF data")
            pieces.append(data[kept:at])
            kept = end
        else:
            names.append(name)
        if name == b"IEND":
            return (b"".join([*pieces, data[kept:end]]) if pieces or end < len(data) else data), names
        at = end
