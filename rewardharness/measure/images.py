"""Loading pictures that strangers hand in."""

import io
from dataclasses import dataclass, field

import numpy as np
from PIL import Image

from rewardharness.errors import ImageError
from rewardharness.files import sha256
from rewardharness.measure.reading import Pixels
from rewardharness.schema import ImageInput


@dataclass(frozen=True)
class Picture:
    """A decoded picture, as a person would see it in a browser."""

    name: str
    """How messages call it."""
    pixels: Pixels = field(repr=False)
    """sRGB, height x width x 3."""
    sha256: str
    """Of the encoded bytes."""
    format: str
    """Name of the file format, such as `PNG`."""
    notes: tuple[str, ...] = ()
    """What was done to show it: turned upright, composited on white, first of several frames, ..."""


def load_picture(image: ImageInput) -> Picture:
    """Decode an image.

    Raises:
        ImageError: If it is not an image that can be used.
    """
    data = image.data if image.data is not None else image.path.read_bytes() if image.path else None
    if data is None:
        raise ImageError(f"{image.name} has neither a file nor data.")
    with Image.open(io.BytesIO(data)) as opened:
        return Picture(image.name, np.asarray(opened.convert("RGB")), sha256(data), str(opened.format))


def encode_png(pixels: Pixels) -> bytes:
    """Encode a picture as PNG, for overlays."""
    buffer = io.BytesIO()
    Image.fromarray(pixels).save(buffer, "PNG")
    return buffer.getvalue()
