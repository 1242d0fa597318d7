"""Decoding of images in requests, from base64 or multipart parts. URLs are not fetched and paths are not opened."""

import binascii
from dataclasses import dataclass, field

import pybase64

from rewardharness.files import sha256
from rewardharness.serving.faults import RefusedError, invalid, too_large
from rewardharness.serving.limits import Limits

Encoded = str | memoryview
"""Base64 as received in a request."""

_DATA_URI = "data:"
_HEAD = 256 << 10
"""Maximum offset of the size in a JPEG, in bytes."""
_SEGMENTS = 64
"""Maximum number of JPEG segments that are searched for the size."""


@dataclass(frozen=True)
class RequestImage:
    """An image of a request."""

    data: bytes = field(repr=False)
    sha256: str
    """SHA-256 of the encoded bytes."""
    pixels: int | None = field(default=None, compare=False)
    """Width times height, if its first bytes contain the size."""


def read_image(encoded: Encoded | bytes, limits: Limits, where: str) -> RequestImage:
    """Return an image that is included in a request.

    Args:
        encoded: Base64, a base64 `data:` URI, or the bytes of a part.
        limits: How large it may be.
        where: Its place in the request, for messages.

    Raises:
        RefusedError: 422 if it is not base64; 413 if it is too large.
    """
    data = encoded if isinstance(encoded, bytes) else decode_base64(encoded, where)
    if len(data) > limits.image_bytes:
        raise image_too_large(f"{limits.image_bytes} bytes", where)
    return RequestImage(data, sha256(data), count_pixels(data))


def decode_base64(encoded: Encoded, where: str) -> bytes:
    """Decode standard base64 with its padding, strictly.

    Raises:
        RefusedError: 422 if the text is not valid base64.
    """
    head = bytes(encoded[:64]).decode("latin-1") if isinstance(encoded, memoryview) else encoded[:64]
    if head.startswith(_DATA_URI):
        comma = head.find(";base64,")
        if comma < 0:
            raise invalid("A data URI is not base64.", (where, "not base64"))
        encoded = encoded[comma + len(";base64,") :]
    try:
        data = pybase64.b64decode(encoded, validate=True)
    except (binascii.Error, ValueError):
        raise invalid(
            "An image is not base64. Addresses and paths are not opened.", (where, "not standard base64 with padding")
        ) from None
    if not data:
        raise invalid("An image is empty.", (where, "empty"))
    return data


def image_too_large(limit: str, where: str) -> RefusedError:
    """Return the error for an image that exceeds a limit."""
    return too_large("An image", limit, "Scale it down.", fields=((where, f"over {limit}"),))


def count_pixels(data: bytes) -> int | None:
    """Return the number of pixels from the first bytes of a PNG, JPEG, WebP or GIF, without a decoder.

    This is a quick check against the limit of the server; the judge checks the header again.

    Returns:
        Width times height; None if the size cannot be found.
    """
    size = None
    if data.startswith(b"\x89PNG\r\n\x1a\n") and data[12:16] == b"IHDR":
        size = _big(data, 16, 4), _big(data, 20, 4)
    elif data.startswith(b"GIF8"):
        size = _little(data, 6, 2), _little(data, 8, 2)
    elif data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        size = _webp_size(data)
    elif data.startswith(b"\xff\xd8"):
        size = _jpeg_size(data)
    return size[0] * size[1] if size else None


def _webp_size(data: bytes) -> tuple[int, int] | None:
    """Read the size from the first chunk (RFC 9649, 2.5 to 2.7)."""
    kind = data[12:16]
    if kind == b"VP8X":
        return _little(data, 24, 3) + 1, _little(data, 27, 3) + 1
    if kind == b"VP8L" and data[20:21] == b"\x2f":
        bits = _little(data, 21, 4)
        return (bits & 0x3FFF) + 1, (bits >> 14 & 0x3FFF) + 1
    if kind == b"VP8 " and data[23:26] == b"\x9d\x01\x2a":
        return _little(data, 26, 2) & 0x3FFF, _little(data, 28, 2) & 0x3FFF
    return None


def _jpeg_size(data: bytes) -> tuple[int, int] | None:
    """Read the size from the first frame header (ITU T.81, B.2.2)."""
    at = 2
    for _ in range(_SEGMENTS):
        if at + 9 > min(len(data), _HEAD) or data[at] != 0xFF:
            return None
        marker = data[at + 1]
        if 0xC0 <= marker <= 0xCF and marker not in {0xC4, 0xC8, 0xCC}:
            return _big(data, at + 5, 2), _big(data, at + 7, 2)
        at += 2 + _big(data, at + 2, 2)
    return None


def _big(data: bytes, at: int, size: int) -> int:
    return int.from_bytes(data[at : at + size], "big")


def _little(data: bytes, at: int, size: int) -> int:
    return int.from_bytes(data[at : at + size], "little")
