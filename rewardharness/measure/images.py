"""Load untrusted images as a viewer displays them, or raise an `ImageError`.

The format comes from the first bytes, the size from the header before anything is decoded, and metadata are removed
or limited before a decoder reads them. Every decoder failure becomes an `ImageError`. The EXIF orientation and color
profiles are applied, and transparency is rendered on white, so that a judge sees no content that is hidden from people.
"""

import io
import os
import stat
import struct
from collections.abc import Callable, Mapping
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import cv2
import numpy as np
from PIL import Image, ImageCms

from rewardharness.errors import ImageError
from rewardharness.measure.bounds import MAX_BYTES, OpenedImage, damaged, directory, open_bounded, quiet
from rewardharness.measure.planes import Pixels, Planes
from rewardharness.schema import ImageInput

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
_AVIF = frozenset({b"avif", b"avis"})
_HEIC = frozenset({b"heic", b"heix", b"heim", b"heis", b"hevc", b"hevx"})
"""Brands of AVIF, and of HEIF with HEVC."""
_FTYP = 256
"""Leading bytes in which brands are searched."""

Convert = Callable[[Image.Image], Image.Image]
"""Converts a band of an image to sRGB."""

_TURNS: Mapping[int, Callable[[Pixels], Pixels]] = {
    2: np.fliplr,
    3: lambda pixels: np.rot90(pixels, 2),
    4: np.flipud,
    5: lambda pixels: pixels.transpose(1, 0, 2),
    6: lambda pixels: np.rot90(pixels, -1),
    7: lambda pixels: np.rot90(pixels, 2).transpose(1, 0, 2),
    8: np.rot90,
}
"""Inverse of each EXIF orientation (EXIF 2.32, tag 0x0112)."""
_ORIENTATION = 0x0112
_BITS_PER_SAMPLE = 258
_PHOTOMETRIC = 262
_ON_WHITE = "transparent areas are rendered on white"
_BAND_PIXELS = 1_000_000
"""Approximate number of pixels converted at a time."""


@dataclass(frozen=True)
class Picture:
    """A decoded image, as a viewer displays it."""

    name: str
    """Name used in messages."""
    pixels: Pixels = field(repr=False, compare=False)
    """sRGB, height x width x 3; read-only."""
    format: str
    """Name of the file format: `PNG`, `JPEG`, `WEBP`, `AVIF`, `HEIF`, `GIF`, `BMP`, `TIFF` or `PPM`."""
    notes: tuple[str, ...] = ()
    """Conversions that were applied: rotated, rendered on white, first of several frames, ..."""

    @cached_property
    def planes(self) -> Planes:
        """The planes of the image, shared by all candidates that are compared with it."""
        return Planes(self.pixels)

    def turned(self, turn: str) -> "Picture":
        """Return the image turned as a request asks; see `EditRequest.turned`."""
        return replace(self, pixels=np.ascontiguousarray(TURNS[turn](self.pixels)), notes=()) if turn else self


TURNS: Mapping[str, Callable[[Pixels], Pixels]] = {
    "half": lambda pixels: np.rot90(pixels, 2),
    "right": lambda pixels: np.rot90(pixels, -1),
    "left": np.rot90,
    "mirrored": np.fliplr,
    "flipped": np.flipud,
}
"""Turns of a whole image."""


def load_picture(image: ImageInput) -> Picture:
    """Decode an image the way a viewer displays it.

    Args:
        image: A file or bytes: PNG, JPEG, WebP, AVIF, HEIC, GIF, BMP, TIFF or PPM, at most 20 MB.
            Above 25 megapixels it is scaled down, see `bounds`.

    Returns:
        The upright sRGB image without metadata, and notes on the conversions.

    Raises:
        ImageError: If it cannot be read, has an unsupported format, is damaged, too large or too small.
    """
    data = read_bytes(image)
    kind = sniff(image.name, data)
    try:
        opened = open_bounded(image.name, data, kind)
        pixels, notes = _decode(image.name, opened)
    except ImageError:
        raise
    except Exception as error:  # Decoders raise nearly every built-in exception on damaged bytes.
        reason = "the file is truncated" if "truncated" in str(error).lower() else f"its {kind} data cannot be decoded"
        raise damaged(image.name, reason) from error
    pixels.setflags(write=False)
    return Picture(image.name, pixels, kind, notes)


def encode_png(pixels: Pixels) -> bytes:
    """Encode an image as PNG."""
    buffer = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(pixels)).save(buffer, "PNG", compress_level=3)
    return buffer.getvalue()


def read_bytes(image: ImageInput, stat: os.stat_result | None = None) -> bytes:
    """Return the encoded bytes after checking their size.

    Args:
        image: The image.
        stat: Status of its file if it is known, which saves a system call.
    """
    remedy = f"Use an image of at most {MAX_BYTES // 1_000_000} MB."
    if image.data is not None:
        data = image.data
    else:
        assert image.path is not None, "an ImageInput has data or a path"
        data = _read_file(image.name, image.path, stat)
    if len(data) > MAX_BYTES:
        raise ImageError(f"{image.name} is larger than {MAX_BYTES // 1_000_000} MB.", next_step=remedy)
    if not data:
        raise ImageError(f"{image.name} is empty.", next_step="Save or download the image again.")
    return data


def _read_file(name: str, path: Path, status: os.stat_result | None) -> bytes:
    """Read a regular file, at most one byte beyond the limit; pipes and devices are not opened."""
    try:
        status = os.stat(path) if status is None else status
        if not stat.S_ISREG(status.st_mode):
            raise ImageError(f"{name} is not a regular file.", next_step="Give the path of an image file.")
        # A file object makes further system calls. Without blocking, in case a pipe has taken the place of the file.
        opened = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        try:
            # Reading the reported size avoids a buffer of the maximum size; the file may have changed since.
            data = os.read(opened, min(status.st_size, MAX_BYTES) + 1)
            while len(data) != status.st_size and len(data) <= MAX_BYTES:
                more = os.read(opened, MAX_BYTES + 1 - len(data))
                if not more:
                    break
                data += more
            return data
        finally:
            os.close(opened)
    except FileNotFoundError:
        raise ImageError(f"{name} does not exist.", next_step="Check the path.") from None
    except (OSError, ValueError) as error:
        problem = getattr(error, "strerror", None) or "invalid path"
        raise ImageError(
            f"{name} cannot be read: {problem}.", next_step="Check the path and its permissions."
        ) from None


def sniff(name: str, data: bytes) -> str:
    """Detect the image format from the first bytes, ignoring names and declared types."""
    if data[:4] == b"RIFF" and data[8:12] == b"WEBP":
        return "WEBP"
    if data[4:8] == b"ftyp":  # ISO/IEC 14496-12: the length of the box, its name, a brand, a version, more brands
        brands = {data[at : at + 4] for at in (8, *range(16, min(int.from_bytes(data[:4], "big"), _FTYP), 4))}
        if brands & _AVIF:
            return "AVIF"
        if brands & _HEIC:
            return "HEIF"
    for signature, kind in _SIGNATURES:
        if data.startswith(signature):
            return kind
    raise ImageError(
        f"{name} is not a PNG, JPEG, WebP, AVIF, HEIC, GIF, BMP, TIFF or PPM image.",
        next_step="Save it as PNG or JPEG.",
    )


def is_deep_png(kind: str, data: bytes) -> bool:
    """Return whether an image is a PNG with 16 bits per channel, of which Pillow shows 8 in the modes of 8 bits."""
    return kind == "PNG" and data[24:25] == b"\x10"


def _decode(name: str, opened: OpenedImage) -> tuple[Pixels, tuple[str, ...]]:
    """Decode the first frame to upright sRGB on white, with notes on the conversions."""
    image, notes = opened.image, list(opened.notes)
    if is_deep_png(image.format or "", opened.data) and not image.mode.startswith("I"):
        notes.append("16 bits per channel scaled to 8")
    with quiet():
        several = getattr(image, "is_animated", False)
    if image.format == "WEBP" and not several:
        pixels = _show(name, _unpack_webp(opened), image.info, 1, notes)
    else:
        # Some decoders read metadata again while decoding.
        with nullcontext() if image.format in {"PNG", "JPEG", "WEBP"} else quiet():
            image.load()
        if several:
            notes.append("has several frames; only the first is used")
        pixels = _show(name, image, image.info, opened.factor, notes)
    image.close()  # Free memory before rotating.
    turn = _TURNS.get(_orientation(opened.exif or _exif_of(image), notes))
    if turn is not None:
        pixels = np.ascontiguousarray(turn(pixels))
        notes.append("rotated upright (EXIF orientation)")
    return pixels, tuple(notes)


def _unpack_webp(opened: OpenedImage) -> Pixels:
    """Decode a still WebP with OpenCV: Pillow decodes it as an animation with five times the memory."""
    reduced = cv2.IMREAD_REDUCED_COLOR_2 | cv2.IMREAD_IGNORE_ORIENTATION
    flags = cv2.IMREAD_UNCHANGED if opened.factor == 1 else reduced
    unpacked = cv2.imdecode(np.frombuffer(opened.data, np.uint8), flags)
    if unpacked is None:
        raise ValueError("OpenCV cannot decode the image")
    order = cv2.COLOR_BGRA2RGBA if unpacked.shape[2] == 4 else cv2.COLOR_BGR2RGB
    return np.asarray(cv2.cvtColor(unpacked, order, dst=unpacked), np.uint8)


def _show(name: str, image: Image.Image | Pixels, info: Mapping[Any, Any], factor: int, notes: list[str]) -> Pixels:
    """Convert a decoded image to sRGB on white and scale it down, in bands to limit memory.

    Args:
        name: Name used in messages.
        image: The decoded image.
        info: Metadata of its file.
        factor: Divisor of its sides.
        notes: Receives the conversions that were applied.
    """
    first = image if isinstance(image, Image.Image) else Image.fromarray(image[:1])
    width = first.width
    height = first.height if first is image else len(image)  # type: ignore[arg-type]
    if first.mode in {"F", "I"} or first.mode.startswith("I;16"):
        convert = _from_deep_gray(name, first, notes)
    else:
        convert = _on_white(first, info.get("icc_profile"), notes)
    # Reducing first is faster where the result is the same.
    early = first.mode in {"L", "RGB", "RGBA", "CMYK"} and "transparency" not in info
    reduce: Convert = (lambda band: band.reduce(factor)) if factor > 1 else (lambda band: band)  # `reduce(1)` copies
    converted = np.empty((-(-height // factor), -(-width // factor), 3), np.uint8)
    rows = max(1, _BAND_PIXELS // (width * factor)) * factor
    for top in range(0, height, rows):
        end = min(top + rows, height)
        band = first.crop((0, top, width, end)) if first is image else Image.fromarray(image[top:end])  # type: ignore
        band = convert(reduce(band)) if early else reduce(convert(band))
        converted[top // factor : -(-end // factor)] = np.asarray(band)
    return converted


def _from_deep_gray(name: str, opened: Image.Image, notes: list[str]) -> Convert:
    """Scale a grayscale image of 9 to 16 bits to 8 bits by its declared depth."""
    if not (opened.mode.startswith("I;16") or (opened.mode == "I" and opened.format in {"PPM", "PNG"})):
        raise ImageError(
            f"{name} has floating-point, signed or 32-bit samples, which have no defined brightness.",
            next_step="Save it as an 8-bit or 16-bit PNG.",
        )
    tags = getattr(opened, "tag_v2", {})
    bits = tags.get(_BITS_PER_SAMPLE, (16,))[0]
    top = float(2**bits - 1)
    transparent = opened.info.get("transparency")
    if isinstance(transparent, int):
        notes.append(_ON_WHITE)
    notes.append(f"{bits} bits per pixel scaled to 8")

    def convert(band: Image.Image) -> Image.Image:
        samples = np.asarray(band).astype(np.float32)
        gray = np.rint(np.clip(samples / top, 0.0, 1.0) * 255.0).astype(np.uint8)
        if tags.get(_PHOTOMETRIC) == 0:
            gray = 255 - gray
        if isinstance(transparent, int):
            gray[samples == transparent] = 255
        return Image.fromarray(gray).convert("RGB")

    return convert


def _on_white(opened: Image.Image, profile: object, notes: list[str]) -> Convert:
    """Convert an image to sRGB, rendering transparency on white."""
    if not opened.has_transparency_data:
        return _to_srgb(opened.mode, profile, notes)
    to_srgb = _to_srgb("RGB", profile, notes)

    def convert(band: Image.Image) -> Image.Image:
        layered = band.convert("RGBA")
        color = to_srgb(layered.convert("RGB"))
        alpha = layered.getchannel("A")
        if alpha.getextrema()[0] == 255:
            return color
        if _ON_WHITE not in notes:
            notes.append(_ON_WHITE)
        white = Image.new("RGB", layered.size, (255, 255, 255))
        white.paste(color, mask=alpha)
        return white

    return convert


def _to_srgb(mode: str, profile: object, notes: list[str]) -> Convert:
    """Convert to sRGB by the embedded profile, or by Pillow's defaults without a valid profile."""
    if mode in {"CMYK", "YCbCr", "LAB"}:
        notes.append(f"converted from {mode}")
    if isinstance(profile, bytes) and profile:
        try:
            return _by_profile(mode, profile, notes)
        except (ImageCms.PyCMSError, OSError, ValueError, TypeError):
            notes.append("its color profile is invalid and was ignored")
    return lambda band: band if band.mode == "RGB" else band.convert("RGB")


def _by_profile(declared: str, profile: bytes, notes: list[str]) -> Convert:
    """Convert through an ICC profile, unless it is equivalent to sRGB."""
    opened = ImageCms.ImageCmsProfile(io.BytesIO(profile))
    space = opened.profile.xcolor_space.strip()
    mode = {"RGB": "RGB", "CMYK": "CMYK", "GRAY": "L", "Lab": "LAB"}.get(space)
    if mode is None or (mode != declared and {mode, declared} & {"CMYK", "LAB"}):
        raise ValueError(f"a profile for {space} on an image in {declared}")
    if mode == "L" and declared not in {"L", "1"}:
        # A gray profile does not define the colors of a palette or color image.
        raise ValueError("a gray profile on a color image")
    transform = ImageCms.buildTransform(opened, ImageCms.createProfile("sRGB"), mode, "RGB")
    if mode == "RGB" and _changes_nothing(transform):
        return lambda band: band.convert("RGB")
    notes.append("converted to sRGB by its color profile")

    def convert(band: Image.Image) -> Image.Image:
        converted = ImageCms.applyTransform(band if band.mode == mode else band.convert(mode), transform)
        assert converted is not None  # None only if converted in place
        return converted

    return convert


def _changes_nothing(transform: ImageCms.ImageCmsTransform) -> bool:
    """Return whether a conversion from RGB preserves a 9 x 9 x 9 grid of colors."""
    steps = np.linspace(0, 255, 9).astype(np.uint8)
    grid = np.stack(np.meshgrid(steps, steps, steps), axis=-1).reshape(27, 27, 3)
    turned = ImageCms.applyTransform(Image.fromarray(grid), transform)
    return turned is not None and bool(np.abs(np.asarray(turned).astype(int) - grid).max() <= 2)


def _exif_of(opened: Image.Image) -> bytes:
    """Return the EXIF block of a decoded PNG or WebP without its prefix. Pillow itself rotates a TIFF."""
    block = opened.info.get("exif", b"")
    if not block and "Raw profile type exif" in opened.info:
        # ImageMagick's legacy format: a newline, a name, a length, then hexadecimal lines.
        lines = str(opened.info["Raw profile type exif"]).split("\n")[3:]
        try:
            block = bytes.fromhex("".join(lines))
        except ValueError:
            return b""
    return block.removeprefix(b"Exif\x00\x00") if isinstance(block, bytes) else b""


def _orientation(exif: bytes, notes: list[str]) -> int:
    """Return the EXIF orientation, 1 without a readable one."""
    if not exif:
        return 1
    order = {b"II": "<", b"MM": ">"}.get(exif[:2])
    try:
        if order is None:
            raise ValueError("invalid byte order")
        offset = struct.unpack_from(order + "I", exif, 4)[0]
        for tag, size, first in directory(exif, order, offset):
            if tag == _ORIENTATION:
                return int(first) if size == 2 else 1
    except (struct.error, ValueError):
        notes.append("its EXIF data are invalid and were ignored")
    return 1
