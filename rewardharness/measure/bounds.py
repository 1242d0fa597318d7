"""Open untrusted images with bounded decoding time and memory.

The bounds are two seconds and 300 MB per image. The header and a walk over the blocks of the file decide: large images
are scaled down during or right after decoding, and images that no decoder handles within the bounds are rejected before
decoding starts.
"""

import io
import re
import struct
import threading
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field

from PIL import Image, features

from rewardharness.errors import ImageError, MissingPackageError

MAX_BYTES = 20_000_000
"""Largest encoded image, in bytes."""
MAX_PIXELS = 25_000_000
"""Maximum number of pixels of a judged image; larger images are scaled down."""
MAX_UNPACKED_PIXELS = 50_000_000
"""Largest image that is decoded in full and then scaled down, in pixels."""
MAX_SCALED_PIXELS = 175_000_000
"""Largest JPEG that is scaled down during decoding, in pixels. Pillow itself rejects images from 179 megapixels."""
MAX_MEMORY = 250_000_000
"""Maximum estimated memory of a decoder, in bytes."""
MAX_SLOW_BYTES = 2_000_000
"""Largest file whose samples Pillow reads one by one in Python (about a second), in bytes."""
MAX_SIDE = 16_384
"""Maximum length of the longer side, in pixels."""
MIN_SIDE = 8
"""Minimum length of the shorter side, in pixels."""
MAX_SCANS = 100
"""Maximum number of scans of a progressive JPEG. Cameras and tools write about ten; each scan takes the time of a
whole image, even if it has few bytes."""
MAX_SCANNED_PIXELS = 1_000_000_000
"""Maximum product of the pixels and scans of a JPEG."""
MAX_CHUNKS = 50_000
"""Maximum number of chunks of a PNG."""
MAX_BLOCKS = 200_000
"""Maximum number of blocks of a GIF before its second frame."""
MAX_COMMENTS = 2_000
"""Maximum number of comment blocks among them: Pillow reads comments in quadratic time."""

_SUB_DIRECTORIES = {330, 34665, 34853, 40965}
_TYPE_BYTES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 1, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8, 13: 4}
"""Bytes per value of each TIFF 6.0 field type."""
_JPEG_MARKER = re.compile(rb"\xff[^\x00\xff\xd0-\xd7]")
"""A marker of ITU T.81 other than stuffing, fill and restarts, which occur inside the coded data."""
_GIF_MARK = re.compile(rb"[!,;]")
"""First bytes of a GIF extension, image and trailer; other bytes between blocks are ignored."""
_RAW_EXIF = b"Raw profile type exif\0"
_GAP = rb"(?:\s|#[^\r\n]*[\r\n])+"
_QUICK_PNM = re.compile(
    rb"(?:P4(?:%b\d+){2}|P5(?:%b\d+){2}%b(?:255|65535)|P6(?:%b\d+){2}%b255)\s" % (_GAP, _GAP, _GAP, _GAP, _GAP)
)
"""Headers of PNM files whose samples are copied without conversion."""
_PNM_HEAD = 4096
"""Number of leading bytes that are searched for such a header."""

_WARNINGS = threading.Lock()


@dataclass(frozen=True)
class OpenedImage:
    """An image whose header is read and that decodes within the bounds."""

    image: Image.Image
    data: bytes = field(repr=False)
    """The encoded bytes; for a JPEG, without segments that do not affect its pixels."""
    exif: bytes = field(repr=False)
    """The first EXIF block of a JPEG."""
    factor: int
    """Divisor for scaling down after decoding."""
    notes: tuple[str, ...]
    """Note on the scaling, if any."""


def open_bounded(name: str, data: bytes, kind: str) -> OpenedImage:
    """Read the header of an image and ensure that decoding it is bounded.

    Args:
        name: Name used in messages.
        data: The encoded bytes.
        kind: Name of its format.

    Raises:
        ImageError: If it is too large, too small or too slow to decode.
        Exception: Nearly any built-in exception, if its bytes are damaged.
    """
    exif, scans, scaled = b"", 1, 1
    if kind == "JPEG":
        data, exif, scans = _without_exif(name, data)
    elif kind == "PNG":
        data = _without_text(name, data)
    elif kind in _CHECKS:
        _CHECKS[kind](name, data)
    elif kind in {"AVIF", "HEIF"}:
        _prepare(name, kind)
    try:
        with quiet():
            image = Image.open(io.BytesIO(data), formats=(kind,))
    except Image.DecompressionBombError:
        raise _too_large(name, MAX_SCALED_PIXELS if kind == "JPEG" else MAX_UNPACKED_PIXELS, f"a {kind}") from None
    width, height = image.size
    if kind == "JPEG":
        scaled, factor = _draft(name, image, scans), 1
    else:
        factor = _factor(name, image)
    size = -(-width // (scaled * factor)), -(-height // (scaled * factor))
    if max(size) > MAX_SIDE:
        raise ImageError(f"{name} has a side of more than {MAX_SIDE} pixels.", next_step="Scale the image down.")
    if min(size) < MIN_SIDE:
        raise ImageError(
            f"{name} is only {width} x {height} pixels.",
            next_step=f"Use an image of at least {MIN_SIDE} x {MIN_SIDE} pixels.",
        )
    notes = () if size == (width, height) else (f"scaled down from {width} x {height} to {size[0]} x {size[1]}",)
    return OpenedImage(image, data, exif, factor, notes)


def _prepare(name: str, kind: str) -> None:
    """Load the decoder of AVIF or HEIC.

    Raises:
        ImageError: If it is not installed.
    """
    try:
        if kind == "HEIF":
            from pillow_heif import register_heif_opener

            register_heif_opener(thumbnails=False)
        elif not features.check("avif"):
            raise ImportError
    except ImportError:
        missing = MissingPackageError("pillow-heif", "app", "HEIC images")
        what, more = ("a HEIC image", f" Or: {missing.next_step}") if kind == "HEIF" else ("an AVIF image", "")
        problem = f"{name} is {what}, which this installation cannot open."
        raise ImageError(problem, next_step=f"Save it as PNG or JPEG.{more}") from None


def _draft(name: str, image: Image.Image, scans: int) -> int:
    """Decode a large JPEG at a half, a quarter or an eighth of its size; return the divisor.

    A JPEG with several scans needs memory for all coefficients, two bytes each, at any scale.
    """
    pixels = image.width * image.height
    if pixels * scans > MAX_SCANNED_PIXELS:
        raise damaged(name, f"a JPEG of this size cannot have {scans} scans")
    layers = image.layer  # type: ignore[attr-defined]
    most = max(layer[1] for layer in layers) * max(layer[2] for layer in layers)
    held = 2 * pixels * sum(layer[1] * layer[2] for layer in layers) // most if scans > 1 else 0
    for divisor in (1, 2, 4, 8):
        unpacked = pixels // divisor**2
        if unpacked <= MAX_PIXELS and held + 4 * unpacked <= MAX_MEMORY and pixels <= MAX_SCALED_PIXELS:
            image.draft(image.mode, (image.width // divisor, image.height // divisor))
            return divisor
    if held:
        raise _too_large(name, MAX_UNPACKED_PIXELS * 4 // 5, "a progressive JPEG without subsampling of color")
    raise _too_large(name, MAX_SCALED_PIXELS, "a JPEG")


def _factor(name: str, image: Image.Image) -> int:
    """Return the divisor for scaling down an image other than JPEG after decoding."""
    kind, pixels = str(image.format), image.width * image.height
    if pixels > MAX_UNPACKED_PIXELS:
        raise _too_large(name, MAX_UNPACKED_PIXELS, f"a {kind}")
    if kind == "WEBP" and getattr(image, "is_animated", False):
        if 20 * pixels > MAX_MEMORY:
            raise _too_large(name, MAX_MEMORY // 20, "an animated WebP")
    elif kind == "WEBP" and pixels > MAX_PIXELS and (image.mode != "RGB" or not _is_lossy(image)):
        raise _too_large(name, MAX_PIXELS, "a lossless or transparent WebP")
    elif kind in {"AVIF", "HEIF"} and pixels > MAX_PIXELS:
        raise _too_large(name, MAX_PIXELS, "an AVIF or HEIC image")
    elif kind == "TIFF":
        tags = image.tag_v2  # type: ignore[attr-defined]
        across, down = tags.get(322, image.width), tags.get(323, min(tags.get(278, image.height), image.height))
        bits = max(tags.get(258, (1,))) * tags.get(277, 1)
        strip = 0 if image.info.get("compression") == "raw" else across * down * bits // 8
        # Pillow rotates a TIFF itself and holds it in memory twice while doing so.
        if max(strip + 4 * pixels, 4 * pixels * (1 + (tags.get(274, 1) != 1))) > MAX_MEMORY:
            raise ImageError(
                f"{name} is a TIFF that needs more than {MAX_MEMORY // 1_000_000} MB to decode.",
                next_step="Scale it down, or save it as PNG or JPEG.",
            )
    return 1 if pixels <= MAX_PIXELS else 2


def _is_lossy(image: Image.Image) -> bool:
    """Return whether a still WebP is lossy, by its image chunk."""
    data = image.fp.getbuffer()  # type: ignore[attr-defined]
    at = 12
    while at + 8 <= len(data):
        chunk = bytes(data[at : at + 4])
        if chunk in {b"VP8 ", b"VP8L"}:
            return chunk == b"VP8 "
        at += 8 + int.from_bytes(data[at + 4 : at + 8], "little") + (data[at + 4] & 1)
    return False


def _too_large(name: str, pixels: int, what: str) -> ImageError:
    return ImageError(
        f"{name} has more than {pixels / 1e6:g} megapixels, the maximum for {what}.",
        next_step=f"Scale it down. A non-progressive JPEG may have up to {MAX_SCALED_PIXELS // 10**6} megapixels.",
    )


def damaged(name: str, reason: str) -> ImageError:
    """Return the error for an image with invalid bytes."""
    return ImageError(
        f"{name} is damaged: {reason}.", next_step="Save or download the image again, or use another one."
    )


def _without_text(name: str, data: bytes) -> bytes:
    """Cut the text chunks out of a PNG, which take up to 64 MB once unpacked, and refuse one in very many pieces.

    The first chunk with EXIF data that ImageMagick writes as text stays: it says how the picture is turned.
    """
    pieces: list[bytes] = []
    kept, at, raw_exif = 0, 8, False
    for _ in range(MAX_CHUNKS):
        if at + 8 > len(data) or data[at + 4 : at + 8] == b"IEND":
            return b"".join([*pieces, data[kept:]]) if pieces else data
        end = at + 12 + int.from_bytes(data[at : at + 4], "big")
        if data[at + 4 : at + 8] in {b"tEXt", b"zTXt", b"iTXt"}:
            if not raw_exif and data.startswith(_RAW_EXIF, at + 8):
                raw_exif = True
            else:
                pieces.append(data[kept:at])
                kept = end
        at = end
    raise damaged(name, f"a PNG with more than {MAX_CHUNKS} chunks")


def _check_gif(name: str, data: bytes) -> None:
    """Reject a GIF with too many blocks or comments before its second frame; later data are not read."""
    at, images, blocks, comments = 13 + _palette(data[10]), 0, 0, 0
    while images < 2:
        mark = _GIF_MARK.search(data, at)
        blocks += (mark.start() if mark else len(data)) - at  # Pillow skips these byte by byte.
        _check_blocks(name, blocks, comments)
        if mark is None or mark[0] == b";":
            return
        label = data[mark.end() : mark.end() + 1] if mark[0] == b"!" else b""
        at = mark.end() + len(label)
        if not label:
            images += 1
            at += 10 + _palette(int.from_bytes(data[at + 8 : at + 9]))
        while size := int.from_bytes(data[at : at + 1]):
            at, blocks, comments = at + 1 + size, blocks + 1, comments + (label == b"\xfe")
            _check_blocks(name, blocks, comments)
        at += 1
        blocks += 1


def _check_blocks(name: str, blocks: int, comments: int) -> None:
    if blocks > MAX_BLOCKS or comments > MAX_COMMENTS:
        what = "comments" if comments > MAX_COMMENTS else "small blocks"
        raise ImageError(f"{name} is a GIF with too many {what}.", next_step="Save its frame as PNG.")


def _palette(flags: int) -> int:
    """Return the palette size in bytes from the flags of a GIF."""
    return 3 << (flags & 7) + 1 if flags & 128 else 0


def _check_pnm(name: str, data: bytes) -> None:
    if len(data) > MAX_SLOW_BYTES and not _QUICK_PNM.match(data[:_PNM_HEAD]):
        raise _too_slow(name, "a PNM with text samples or a maximum value other than 255")


def _check_bmp(name: str, data: bytes) -> None:
    if len(data) > MAX_SLOW_BYTES and data[14] >= 40 and data[30] in {1, 2}:
        raise _too_slow(name, "a run-length encoded BMP")


def _too_slow(name: str, what: str) -> ImageError:
    return ImageError(
        f"{name} is {what} and larger than {MAX_SLOW_BYTES // 1_000_000} MB.", next_step="Save it as PNG."
    )


def _without_exif(name: str, data: bytes) -> tuple[bytes, bytes, int]:
    """Remove EXIF, comments and further images from a JPEG, and count its scans.

    Application segments that affect colors stay: JFIF, the ICC profile and Adobe's.

    Returns:
        The JPEG without them, the first EXIF block, and the number of scans.
    """
    pieces: list[bytes] = []
    exif, kept, at, scans, end = b"", 0, 2, 0, len(data)
    while (segment := _JPEG_MARKER.search(data, at)) is not None:
        marker, at = data[segment.start() + 1], segment.end()
        if marker == 0xD9:
            end = at
            break
        if marker in {0x01, 0xD8}:
            continue
        length = int.from_bytes(data[at : at + 2], "big")
        label = data[at + 2 : at + 6]
        if marker == 0xFE or (0xE1 <= marker <= 0xEF and marker != 0xEE and (marker, label) != (0xE2, b"ICC_")):
            exif = exif or (data[at + 8 : at + length] if (marker, label) == (0xE1, b"Exif") else b"")
            pieces.append(data[kept : segment.start()])
            kept = at + length
        at += length
        scans += marker == 0xDA
        if scans > MAX_SCANS:
            raise damaged(name, f"a JPEG with more than {MAX_SCANS} scans")
    return b"".join([*pieces, data[kept:end]]), exif, scans


def directory(data: bytes, order: str, offset: int) -> Iterator[tuple[int, int, int]]:
    """Yield each tag of a TIFF directory, the size of its values in bytes, and the value if it is a single number."""
    (count,) = struct.unpack_from(order + "H", data, offset)
    for at in range(offset + 2, offset + 2 + 12 * count, 12):
        tag, kind, number = struct.unpack_from(order + "HHI", data, at)
        first = struct.unpack_from(order + ("H" if kind == 3 else "I"), data, at + 8)[0]
        yield tag, number * _TYPE_BYTES.get(kind, 1), first


def _check_tiff(name: str, data: bytes) -> None:
    """Reject a TIFF whose directories claim more bytes than the file has, which Pillow would copy into memory."""
    order = "<" if data[:2] == b"II" else ">"
    waiting = [struct.unpack_from(order + "I", data, 4)[0]]
    claimed = 0
    for _ in range(16):
        if waiting:
            for tag, size, first in directory(data, order, waiting.pop()):
                claimed += size
                if tag in _SUB_DIRECTORIES and size == 4:
                    waiting.append(first)
    if waiting or claimed > 2 * len(data):
        raise damaged(name, "its directory claims more data than the file contains")


@contextmanager
def quiet() -> Iterator[None]:
    """Suppress Pillow's warnings about unusual metadata and large headers; the checks here decide.

    The filters of `warnings` are process-wide, hence the lock. Decoding happens outside of it.
    """
    with _WARNINGS, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


_CHECKS: Mapping[str, Callable[[str, bytes], None]] = {
    "GIF": _check_gif,
    "PPM": _check_pnm,
    "BMP": _check_bmp,
    "TIFF": _check_tiff,
}
"""Checks before Pillow reads the header, by format."""
