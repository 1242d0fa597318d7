"""Loading pictures that strangers hand in: what comes out is what a person would see, or an error in one sentence.

The bytes are trusted in nothing: the kind of file is told from its first bytes, its size from its header before
anything is unpacked, metadata are cut off or counted before a decoder reads them, and whatever a decoder trips over
becomes an `ImageError`. Turned pictures are turned upright, colour profiles are applied, and what is transparent is
shown on white, so that nothing that is hidden from people reaches a judge.
"""

import io
import re
import stat
import struct
import threading
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from PIL import Image, ImageCms

from rewardharness.errors import ImageError
from rewardharness.files import sha256
from rewardharness.measure.reading import Pixels
from rewardharness.schema import ImageInput

MAX_BYTES = 20_000_000
"""Largest encoded image, in bytes."""
MAX_GIF_BYTES = 5_000_000
"""Largest GIF: its comments are read in a time that grows with the square of their length."""
MAX_PIXELS = 25_000_000
"""Largest picture, in pixels; larger baseline JPEGs are scaled down while they are decoded."""
MAX_SCALED_PIXELS = 200_000_000
"""Largest baseline JPEG that is scaled down, in pixels. The cameras of phones reach it."""
MAX_SIDE = 16_384
"""Longest side, in pixels."""
MIN_SIDE = 8
"""Shortest side, in pixels: there is nothing to judge in less."""
MAX_SCANS = 100
"""Most passes over the picture in a progressive JPEG. Cameras and tools write about ten; each costs the time of a
whole picture, however few bytes it has."""

_SIGNATURES: tuple[tuple[bytes, str], ...] = (
    (b"\x89PNG\r\n\x1a\n", "PNG"),
    (b"\xff\xd8\xff", "JPEG"),
    (b"GIF87a", "GIF"),
    (b"GIF89a", "GIF"),
    (b"BM", "BMP"),
    (b"II*\x00", "TIFF"),
    (b"MM\x00*", "TIFF"),
    *((f"P{digit}".encode(), "PPM") for digit in range(1, 7)),
)

_TURNS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_270,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_90,
}
"""What undoes each EXIF orientation (EXIF 2.32, tag 0x0112)."""
_ORIENTATION = 0x0112
_BITS_PER_SAMPLE = 258
_PHOTOMETRIC = 262
_SUB_DIRECTORIES = {330, 34665, 34853, 40965}
_TYPE_BYTES = {1: 1, 2: 1, 3: 2, 4: 4, 5: 8, 6: 1, 7: 1, 8: 2, 9: 4, 10: 8, 11: 4, 12: 8, 13: 4}
"""Bytes per value of each TIFF 6.0 field type."""
_JPEG_MARKER = re.compile(rb"\xff[^\x00\xff\xd0-\xd7]")
"""A marker of ITU T.81 other than stuffing, fill and restarts, which stand inside the coded data."""

_WARNINGS = threading.Lock()


@dataclass(frozen=True)
class Picture:
    """A decoded picture, as a person would see it."""

    name: str
    """How messages call it."""
    pixels: Pixels = field(repr=False, compare=False)
    """sRGB, height x width x 3; not to be written to."""
    sha256: str
    """Of the encoded bytes."""
    format: str
    """Name of the file format: `PNG`, `JPEG`, `WEBP`, `GIF`, `BMP`, `TIFF` or `PPM`."""
    notes: tuple[str, ...] = ()
    """What was done to show it: turned upright, shown on white, first of several frames, ..."""


def load_picture(image: ImageInput) -> Picture:
    """Decode an image the way a person would see it.

    Args:
        image: A file or bytes: PNG, JPEG, WebP, GIF, BMP, TIFF or PPM, at most 20 MB and 25 megapixels.
            Baseline JPEGs of up to 200 megapixels are scaled down.

    Returns:
        The upright sRGB picture without any metadata, and notes on what was done.

    Raises:
        ImageError: If it cannot be read, is of another kind, is damaged, too large or too small.
    """
    data = read_bytes(image)
    kind = sniff(image.name, data)
    notes: list[str] = []
    try:
        encoded, exif = without_exif(image.name, data) if kind == "JPEG" else (data, b"")
        if kind == "TIFF":
            _check_tiff(image.name, data)
        with quiet():
            opened = Image.open(io.BytesIO(encoded), formats=(kind,))
        _scale_down(opened, notes)
        check_size(image.name, opened.size)
        pixels = _decode(image.name, opened, exif, notes)
    except ImageError:
        raise
    except Image.DecompressionBombError:
        raise _too_large(image.name) from None
    except Exception as error:  # Decoders raise nearly every built-in type on damaged bytes.
        reason = "it ends too early" if "truncated" in str(error).lower() else f"its {kind} data cannot be decoded"
        raise _damaged(image.name, reason) from error
    pixels.setflags(write=False)
    return Picture(image.name, pixels, sha256(data), kind, tuple(notes))


def encode_png(pixels: Pixels) -> bytes:
    """Encode a picture as PNG, for overlays."""
    buffer = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(pixels)).save(buffer, "PNG", compress_level=3)
    return buffer.getvalue()


def read_bytes(image: ImageInput) -> bytes:
    """Return the encoded bytes, after a look at how many there are."""
    remedy = f"Use an image of at most {MAX_BYTES // 1_000_000} MB."
    if image.data is not None:
        data = image.data
    else:
        assert image.path is not None, "an ImageInput has one of the two"
        data = _read_file(image.name, image.path)
    if len(data) > MAX_BYTES:
        raise ImageError(f"{image.name} is larger than {MAX_BYTES // 1_000_000} MB.", next_step=remedy)
    if len(data) > MAX_GIF_BYTES and data.startswith(b"GIF8"):
        raise ImageError(
            f"{image.name} is a GIF of more than {MAX_GIF_BYTES // 1_000_000} MB.", next_step="Save its frame as PNG."
        )
    if not data:
        raise ImageError(f"{image.name} is empty.", next_step="Save or download the image again.")
    return data


def _read_file(name: str, path: Path) -> bytes:
    """Read a regular file, never more than one byte over the limit; pipes and devices are not opened."""
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            raise ImageError(f"{name} is not a regular file.", next_step="Give the path of an image file.")
        with path.open("rb") as stream:
            # Asking for no more than there is spares a buffer of the limit's size; a file may have grown since.
            data = stream.read(min(found.st_size, MAX_BYTES) + 1)
            return data if len(data) <= found.st_size else data + stream.read(MAX_BYTES + 1 - len(data))
    except FileNotFoundError:
        raise ImageError(f"{name} does not exist.", next_step="Check the path.") from None
    except (OSError, ValueError) as error:
        problem = getattr(error, "strerror", None) or "not a usable path"
        raise ImageError(
            f"{name} cannot be read: {problem}.", next_step="Check the path and its permissions."
        ) from None


def sniff(name: str, data: bytes) -> str:
    """Tell the kind of file from its first bytes; names and declared types count for nothing."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "WEBP"
    for signature, kind in _SIGNATURES:
        if data.startswith(signature):
            return kind
    raise ImageError(
        f"{name} is not a PNG, JPEG, WebP, GIF, BMP, TIFF or PPM image.", next_step="Save it as PNG or JPEG."
    )


def without_exif(name: str, data: bytes) -> tuple[bytes, bytes]:
    """Cut out of a JPEG what is no part of its picture: EXIF, comments, further pictures; count its scans on the way.

    Of the segments for applications those that colours depend on stay: JFIF, the ICC profile and Adobe's.

    Returns:
        The JPEG without them, and the first EXIF block.
    """
    pieces: list[bytes] = []
    exif, kept, at, scans, end = b"", 0, 2, 0, len(data)
    while (found := _JPEG_MARKER.search(data, at)) is not None:
        marker, at = data[found.start() + 1], found.end()
        if marker == 0xD9:
            end = at
            break
        if marker in {0x01, 0xD8}:
            continue
        length = int.from_bytes(data[at : at + 2], "big")
        label = data[at + 2 : at + 6]
        if marker == 0xFE or (0xE1 <= marker <= 0xEF and marker != 0xEE and (marker, label) != (0xE2, b"ICC_")):
            exif = exif or (data[at + 8 : at + length] if (marker, label) == (0xE1, b"Exif") else b"")
            pieces.append(data[kept : found.start()])
            kept = at + length
        at += length
        scans += marker == 0xDA
        if scans > MAX_SCANS:
            raise _damaged(name, f"a JPEG of more than {MAX_SCANS} scans")
    return b"".join([*pieces, data[kept:end]]), exif


def _directory(data: bytes, order: str, offset: int) -> Iterator[tuple[int, int, int]]:
    """Read a TIFF directory: each tag, how many bytes its values take, and its value if that is a single number."""
    (count,) = struct.unpack_from(order + "H", data, offset)
    for at in range(offset + 2, offset + 2 + 12 * count, 12):
        tag, kind, number = struct.unpack_from(order + "HHI", data, at)
        first = struct.unpack_from(order + ("H" if kind == 3 else "I"), data, at + 8)[0]
        yield tag, number * _TYPE_BYTES.get(kind, 1), first


def _check_tiff(name: str, data: bytes) -> None:
    """Refuse a TIFF whose directories claim more bytes than the file has, which would all be copied into memory."""
    order = "<" if data[:2] == b"II" else ">"
    waiting = [struct.unpack_from(order + "I", data, 4)[0]]
    claimed = 0
    for _ in range(16):
        if waiting:
            for tag, size, first in _directory(data, order, waiting.pop()):
                claimed += size
                if tag in _SUB_DIRECTORIES and size == 4:
                    waiting.append(first)
    if waiting or claimed > 2 * len(data):
        raise _damaged(name, "its directory claims more than the file holds")


@contextmanager
def quiet() -> Iterator[None]:
    """Keep Pillow's warnings about odd metadata and large headers from the user; our own checks decide.

    The filters of `warnings` belong to the whole process, hence the lock. Unpacking happens outside of it.
    """
    with _WARNINGS, warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


def _scale_down(opened: Image.Image, notes: list[str]) -> None:
    """Have a JPEG above `MAX_PIXELS` decoded at half, a quarter or an eighth of its size.

    A progressive JPEG is not scaled: its coefficients are kept in full whatever the scale.
    """
    width, height = opened.size
    progressive = "progressive" in opened.info or "progression" in opened.info
    if opened.format != "JPEG" or progressive or not MAX_PIXELS < width * height <= MAX_SCALED_PIXELS:
        return
    factor = next((each for each in (2, 4) if width * height <= MAX_PIXELS * each * each), 8)
    opened.draft(opened.mode, (width // factor, height // factor))
    notes.append(f"scaled down while decoding from {width} x {height} to {opened.size[0]} x {opened.size[1]}")


def check_size(name: str, size: tuple[int, int]) -> None:
    """Refuse what is too large or too small, by the header alone."""
    width, height = size
    if width * height > MAX_PIXELS or max(size) > MAX_SIDE:
        raise _too_large(name)
    if min(size) < MIN_SIDE:
        raise ImageError(
            f"{name} is only {width} x {height} pixels.",
            next_step=f"Use an image of at least {MIN_SIDE} pixels a side.",
        )


def _too_large(name: str) -> ImageError:
    return ImageError(
        f"{name} has more than {MAX_PIXELS // 1_000_000} megapixels or a side over {MAX_SIDE} pixels.",
        next_step="Scale the image down.",
    )


def _damaged(name: str, reason: str) -> ImageError:
    return ImageError(
        f"{name} is damaged: {reason}.", next_step="Save or download the image again, or use another one."
    )


def _decode(name: str, opened: Image.Image, exif: bytes, notes: list[str]) -> Pixels:
    """Unpack the first frame and bring it to upright sRGB on white; writes down what was done."""
    if opened.format in {"PNG", "JPEG", "WEBP"}:
        opened.load()
    else:
        with quiet():  # These decoders read metadata again while they unpack.
            opened.load()
    with quiet():
        several = getattr(opened, "is_animated", False)
    if several:
        notes.append("has several frames: only the first is used")
    if opened.mode in {"F", "I"} or opened.mode.startswith("I;16"):
        shown = _from_deep_gray(name, opened, notes)
    else:
        shown = _on_white(opened, notes)
    turn = _TURNS.get(_orientation(exif or _exif_of(opened), notes))
    if turn is not None:
        shown = shown.transpose(turn)
        notes.append("turned upright as its EXIF orientation says")
    return np.asarray(shown, np.uint8)


def _from_deep_gray(name: str, opened: Image.Image, notes: list[str]) -> Image.Image:
    """Scale a grayscale picture of 9 to 16 bits to 8, by the depth that the file declares."""
    if not (opened.mode.startswith("I;16") or (opened.mode == "I" and opened.format in {"PPM", "PNG"})):
        raise ImageError(
            f"{name} holds floating-point, signed or 32-bit samples, which have no defined brightness.",
            next_step="Save it as an 8-bit or 16-bit PNG.",
        )
    tags = getattr(opened, "tag_v2", {})
    bits = tags.get(_BITS_PER_SAMPLE, (16,))[0]
    top = float(2**bits - 1)
    samples = np.asarray(opened).astype(np.float32)
    gray = np.rint(np.clip(samples / top, 0.0, 1.0) * 255.0).astype(np.uint8)
    if tags.get(_PHOTOMETRIC) == 0:
        gray = 255 - gray
    transparent = opened.info.get("transparency")
    if isinstance(transparent, int):
        gray[samples == transparent] = 255
        notes.append("transparent parts are shown on white")
    notes.append(f"{bits} bits per pixel scaled to 8")
    return Image.fromarray(gray).convert("RGB")


def _on_white(opened: Image.Image, notes: list[str]) -> Image.Image:
    """Return the picture in sRGB, its transparent parts as they look on white."""
    if not opened.has_transparency_data:
        return _to_srgb(opened, opened.info.get("icc_profile"), notes)
    layered = opened.convert("RGBA")
    alpha = layered.getchannel("A")
    if alpha.getextrema()[0] == 255:
        return _to_srgb(layered.convert("RGB"), opened.info.get("icc_profile"), notes)
    color = _to_srgb(layered.convert("RGB"), opened.info.get("icc_profile"), notes)
    white = Image.new("RGB", layered.size, (255, 255, 255))
    white.paste(color, mask=alpha)
    notes.append("transparent parts are shown on white")
    return white


def _to_srgb(image: Image.Image, profile: object, notes: list[str]) -> Image.Image:
    """Convert to sRGB by the embedded profile, or by Pillow's plain rules where there is none that works."""
    if image.mode in {"CMYK", "YCbCr", "LAB"}:
        notes.append(f"converted from {image.mode}")
    if isinstance(profile, bytes) and profile:
        try:
            return _apply_profile(image, profile, notes)
        except (ImageCms.PyCMSError, OSError, ValueError, TypeError):
            notes.append("its colour profile is broken or does not fit and was ignored")
    return image if image.mode == "RGB" else image.convert("RGB")


def _apply_profile(image: Image.Image, profile: bytes, notes: list[str]) -> Image.Image:
    """Convert through an ICC profile, unless it is sRGB in all but name."""
    opened = ImageCms.ImageCmsProfile(io.BytesIO(profile))
    space = opened.profile.xcolor_space.strip()
    mode = {"RGB": "RGB", "CMYK": "CMYK", "GRAY": "L", "Lab": "LAB"}.get(space)
    if mode is None or (mode != image.mode and {mode, image.mode} & {"CMYK", "LAB"}):
        raise ValueError(f"a profile for {space} on a picture in {image.mode}")
    if mode == "L" and image.mode not in {"L", "1"}:
        # A gray profile on a palette or colour picture says nothing about its colours.
        raise ValueError("a gray profile on a colour picture")
    transform = ImageCms.buildTransform(opened, ImageCms.createProfile("sRGB"), mode, "RGB")
    if mode == "RGB" and _changes_nothing(transform):
        return image.convert("RGB")
    converted = ImageCms.applyTransform(image if image.mode == mode else image.convert(mode), transform)
    if converted is None:
        raise ValueError("no conversion")
    notes.append("converted to sRGB by its colour profile")
    return converted


def _changes_nothing(transform: ImageCms.ImageCmsTransform) -> bool:
    """Whether a conversion from RGB leaves colours as they are, tried on a 9 x 9 x 9 grid of them."""
    steps = np.linspace(0, 255, 9).astype(np.uint8)
    grid = np.stack(np.meshgrid(steps, steps, steps), axis=-1).reshape(27, 27, 3)
    turned = ImageCms.applyTransform(Image.fromarray(grid), transform)
    return turned is not None and bool(np.abs(np.asarray(turned).astype(int) - grid).max() <= 2)


def _exif_of(opened: Image.Image) -> bytes:
    """Return the EXIF block of a decoded PNG or WebP, without its prefix. Pillow itself turns a TIFF upright."""
    block = opened.info.get("exif", b"")
    if not block and "Raw profile type exif" in opened.info:
        # ImageMagick's way of before there was a chunk for it: a newline, a name, a length, then hexadecimal lines.
        lines = str(opened.info["Raw profile type exif"]).split("\n")[3:]
        try:
            block = bytes.fromhex("".join(lines))
        except ValueError:
            return b""
    return block.removeprefix(b"Exif\x00\x00") if isinstance(block, bytes) else b""


def _orientation(exif: bytes, notes: list[str]) -> int:
    """Return the EXIF orientation, 1 when there is none that can be read."""
    if not exif:
        return 1
    order = {b"II": "<", b"MM": ">"}.get(exif[:2])
    try:
        if order is None:
            raise ValueError("neither byte order")
        offset = struct.unpack_from(order + "I", exif, 4)[0]
        for tag, size, first in _directory(exif, order, offset):
            if tag == _ORIENTATION:
                return int(first) if size == 2 else 1
    except (struct.error, ValueError):
        notes.append("its EXIF data are broken and were ignored")
    return 1
