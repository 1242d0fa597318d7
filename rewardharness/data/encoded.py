"""Images in the cells of a table: bytes, base64, `data:` URIs, and names of files."""

import base64
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from rewardharness import files
from rewardharness.errors import DataError
from rewardharness.schema import ImageInput

_LEAST_BASE64 = 64
"""Least length of base64 that can be an image."""
_DATA_URI = re.compile(r"\s*data:[\w.+/-]*(?:;[\w.=-]+)*;base64,", re.IGNORECASE)
_PLAIN = str.maketrans("-_", "+/")
_MAGIC = {b"\x89PNG\r\n\x1a\n": "png", b"\xff\xd8\xff": "jpg", b"GIF8": "gif", b"BM": "bmp"}
_MAGIC |= dict.fromkeys((b"II*\x00", b"MM\x00*"), "tif")


def extension(content: bytes) -> str:
    """Return the file extension for the image format of the bytes; `img` for any other content."""
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return "webp"
    return next((ending for magic, ending in _MAGIC.items() if content.startswith(magic)), "img")


def image_path(content: bytes) -> str:
    """Return the relative path under which an image is stored: it says nothing but what the bytes are."""
    return f"images/{files.sha256(content)}.{extension(content)}"


def store_image(folder: Path, content: bytes) -> str:
    """Write an image below a folder unless it is there; return its relative path."""
    name = image_path(content)
    path = folder / name
    if not (path.is_file() and path.stat().st_size == len(content)):
        files.write_bytes(path, content)
    return name


def original_bytes(image: ImageInput, remedy: str = "Restore the file, or remove the example.") -> bytes:
    """Return the original encoded bytes of an image.

    Raises:
        DataError: If its file cannot be read; `remedy` is the next step.
    """
    try:
        return image.path.read_bytes() if image.data is None and image.path is not None else image.data or b""
    except OSError as error:
        raise DataError(f"The image {image.name} cannot be read: {error.strerror}.", next_step=remedy) from None


def embedded_image(value: object) -> bytes | None:
    """Return the image that a text, or a text in bytes, holds as base64 or as a `data:` URI; None for other values.

    The URL-safe alphabet, white space and missing padding are accepted. Only a text that begins like an image is
    decoded as a whole.
    """
    if isinstance(value, bytes):
        value = value.decode("latin-1") if extension(value) == "img" else None
    if not isinstance(value, str) or len(value) < _LEAST_BASE64:
        return None
    uri = _DATA_URI.match(value)
    start = uri.end() if uri else 0
    try:
        head = "".join(value[start : start + 256].split())[:24].translate(_PLAIN)
        if extension(base64.b64decode(head)) == "img":
            return None
        text = "".join((unquote(value[start:]) if uri else value).split()).translate(_PLAIN).rstrip("=")
        return base64.b64decode(text + "=" * (-len(text) % 4), validate=True)
    except ValueError:
        return None


def image_content(value: Any) -> tuple[bytes | None, str | None]:
    """Return the bytes of an image, or its name."""
    name = None
    if isinstance(value, Mapping):
        value, name = value.get("bytes"), value.get("path")
    data = embedded_image(value) or (value if isinstance(value, bytes) else None)
    return data, None if data else value if isinstance(value, str) else name if isinstance(name, str) else None
