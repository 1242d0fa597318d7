"""What is judged: sources and candidates as images, videos (their frames) and texts, and edits made of them.

The client sends this, the server reads it, and a judge in the same process gets it.
"""

import binascii
from dataclasses import dataclass, field, replace
from functools import cached_property

import pybase64

from rewardharness.files import content_id, sha256
from rewardharness.schema import LABELS, Candidate, Example, FramesInput, ImageInput, TextInput
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


MAX_FRAMES = 64
"""Maximum number of frames of a video in a request."""


@dataclass(frozen=True)
class RequestText:
    """A text of a request."""

    text: str = field(repr=False)

    @cached_property
    def sha256(self) -> str:
        """Identifies a text, different from every image."""
        return f"text:{sha256(self.text.encode())}"


@dataclass(frozen=True)
class RequestFrames:
    """A video of a request."""

    frames: tuple[RequestImage, ...]

    @cached_property
    def sha256(self) -> str:
        """Identifies a video, different from every image."""
        return f"frames:{content_id([frame.sha256 for frame in self.frames])}"


RequestMedia = RequestImage | RequestText | RequestFrames


def judge_input(name: str, media: RequestMedia) -> Candidate:
    """Return a source or candidate for a judge."""
    if isinstance(media, RequestText):
        return TextInput(name, media.text)
    if isinstance(media, RequestFrames):
        return FramesInput(name, tuple(ImageInput(name, data=frame.data) for frame in media.frames))
    return ImageInput(name, data=media.data)


@dataclass(frozen=True)
class Edit:
    """One source, its references, one instruction, and one to four candidates that are judged together."""

    instruction: str
    source: RequestImage | RequestFrames | None
    """None for text."""
    candidates: tuple[RequestMedia, ...]
    id: str | None = None
    group: str | None = None
    """Name of the group within which the reward is normalized."""
    allow_ungradable: bool = False
    """Whether a reward of low confidence is accepted if the instruction cannot be graded."""
    references: tuple[RequestImage, ...] = ()
    """Images 2, 3, ... of the instruction."""
    critique: bool = False
    """Whether each candidate gets a critique."""

    @property
    def images(self) -> tuple[RequestImage, ...]:
        """All images."""
        inputs = (self.source, *self.references, *self.candidates)
        groups = (media.frames if isinstance(media, RequestFrames) else (media,) for media in inputs)
        return tuple(image for group in groups for image in group if isinstance(image, RequestImage))

    @property
    def size(self) -> int:
        """Size of images and texts in a request."""
        texts = (len(media.text) for media in self.candidates if isinstance(media, RequestText))
        return sum(len(image.data) for image in self.images) + sum(texts)

    @property
    def key(self) -> tuple[str, ...]:
        """Identity of the request for a given judge and Library."""
        references = ("references", *(image.sha256 for image in self.references)) if self.references else ()
        source = self.source.sha256 if self.source else ""
        critique = ("critique",) if self.critique else ()
        return (self.instruction, source, *(media.sha256 for media in self.candidates), *references, *critique)

    def example(self) -> Example:
        """Return the example for the judge. Image names are fixed; only the instruction comes from the caller."""
        several = len(self.candidates) > 1
        names = [f"candidate {label}" if several else "the edited image" for label in LABELS]
        source = None if self.source is None else judge_input("the source", self.source)
        assert not isinstance(source, TextInput)
        candidates = tuple(judge_input(name, media) for name, media in zip(names, self.candidates, strict=False))
        further = enumerate(self.references, 2)
        references = tuple(ImageInput(f"image {number}", data=image.data) for number, image in further)
        example_id = content_id(list(self.key))[:16]
        return Example(example_id, self.instruction, source, candidates, references=references)

    def reversed(self) -> "Edit":
        """The same edit with its candidates in reverse order."""
        return replace(self, candidates=self.candidates[::-1])
