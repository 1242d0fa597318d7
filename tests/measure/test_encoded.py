"""What is sent to a model: pixels, and no words that a file carries beside them."""

import io
import random
import struct
import zlib

import numpy as np
import pytest
from PIL import Image, PngImagePlugin

from rewardharness.errors import ImageError
from rewardharness.measure.bounds import MIN_SIDE
from rewardharness.measure.encoded import NotPlainError, encode_for_model
from rewardharness.schema import ImageInput

SECRET = b"secretgenerator-7"
PIXELS = np.random.default_rng(0).integers(0, 255, (40, 60, 3), np.uint8)


def encode(kind: str, **options: object) -> bytes:
    stream = io.BytesIO()
    Image.fromarray(PIXELS).save(stream, kind, **options)
    return stream.getvalue()


def text(zipped: bool = False) -> PngImagePlugin.PngInfo:
    info = PngImagePlugin.PngInfo()
    info.add_text("Software", SECRET.decode(), zip=zipped)
    info.add_itxt("XML:com.adobe.xmp", f"<x>{SECRET.decode()}</x>")
    return info


def pixels(data: bytes) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(data)).convert("RGB"))


@pytest.mark.parametrize(
    "data",
    [
        encode("PNG", pnginfo=text()),
        encode("PNG", pnginfo=text(zipped=True)),
        encode("PNG") + SECRET,
        encode("WEBP", lossless=True, xmp=b"<x>" + SECRET + b"</x>"),
        encode("JPEG", comment=SECRET),
        encode("JPEG", xmp=b"<x>" + SECRET + b"</x>"),
        encode("JPEG") + SECRET,
        encode("JPEG", exif=b"Exif\0\0MM\0*\0\0\0\x08\0\0\0\0\0\0" + SECRET),
    ],
    ids=["text", "zipped text", "after the end", "webp xmp", "jpeg comment", "jpeg xmp", "after a jpeg", "jpeg exif"],
)
def test_words_in_a_file_are_not_sent(data: bytes) -> None:
    sent = encode_for_model(ImageInput("x", data=data))
    assert SECRET not in sent.data
    assert np.array_equal(pixels(sent.data), pixels(data)), "not a pixel is changed"
    assert sent.size == (60, 40)


@pytest.mark.parametrize("color", [2, 6, 0, 4], ids=["RGB", "RGBA", "gray", "gray and alpha"])
def test_a_png_of_16_bits_is_converted(color: int) -> None:
    channels = {0: 1, 2: 3, 4: 2, 6: 4}[color]
    lines = np.random.default_rng(1).integers(0, 256, (40, 60 * channels * 2), np.uint8)
    packed = zlib.compress(b"".join(b"\0" + line.tobytes() for line in lines))
    parts = (b"IHDR", struct.pack(">IIBBBBB", 60, 40, 16, color, 0, 0, 0)), (b"IDAT", packed), (b"IEND", b"")
    chunks = (
        struct.pack(">I", len(data)) + name + data + struct.pack(">I", zlib.crc32(name + data)) for name, data in parts
    )
    sent = encode_for_model(ImageInput("deep.png", data=b"\x89PNG\r\n\x1a\n" + b"".join(chunks)))
    assert sent.data[24] == 8 and any("16 bits" in note for note in sent.notes)


def test_what_has_no_words_is_sent_as_it_is() -> None:
    plain = encode("PNG")
    assert encode_for_model(ImageInput("x", data=plain)).data is plain, "not copied"
    said = encode("PNG", pnginfo=text())
    assert encode_for_model(ImageInput("x", data=said)).data == plain, "the same pixels are the same question"


def with_header(**changed: int) -> bytes:
    """A PNG whose header has other values, with a matching checksum."""
    plain = encode("PNG")
    names = ("width", "height", "depth", "color", "compression", "filtering", "interlace")
    values = dict(zip(names, struct.unpack(">IIBBBBB", plain[16:29]), strict=True)) | changed
    header = b"IHDR" + struct.pack(">IIBBBBB", *values.values())
    return plain[:12] + header + struct.pack(">I", zlib.crc32(header)) + plain[33:]


@pytest.mark.parametrize(
    "data",
    [
        with_header(width=MIN_SIDE - 1),
        with_header(width=1 << 31, height=1 << 31),
        with_header(width=0),
        with_header(depth=7),
        with_header(filtering=1),
        encode("PNG")[:30] + b"\0\0\0" + encode("PNG")[33:],
    ],
    ids=["small", "bomb", "empty", "depth", "filter", "checksum"],
)
def test_a_png_with_an_invalid_header_is_refused(data: bytes) -> None:
    with pytest.raises(NotPlainError):
        encode_for_model(ImageInput("x", data=data), decode=False)
    with pytest.raises(ImageError):
        encode_for_model(ImageInput("x", data=data))


def test_an_image_that_must_be_decoded_is_left_to_a_thread() -> None:
    data = encode("PNG", exif=b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0")
    with pytest.raises(NotPlainError):
        encode_for_model(ImageInput("x", data=data), decode=False)
    assert encode_for_model(ImageInput("x", data=data)).size == (40, 60)


def test_an_orientation_in_the_words_of_a_png_still_counts() -> None:
    info = PngImagePlugin.PngInfo()
    exif = b"Exif\0\0MM\0*\0\0\0\x08\0\x01\x01\x12\0\x03\0\0\0\x01\0\x06\0\0\0\0\0\0"
    info.add_text("Raw profile type exif", f"\nexif\n{len(exif):8d}\n{exif.hex()}\n")
    sent = encode_for_model(ImageInput("x", data=encode("PNG", pnginfo=info)))
    shown = encode_for_model(ImageInput("x", data=encode("PNG", exif=exif)))
    assert sent.size == shown.size and np.array_equal(pixels(sent.data), pixels(shown.data))


def test_a_png_in_pieces_is_an_error_or_an_image_and_never_a_crash() -> None:
    whole, random_ = encode("PNG", pnginfo=text()), random.Random(1)
    for _ in range(150):
        cut = bytearray(whole[: random_.randrange(len(whole))])
        for _ in range(random_.randrange(3)):
            cut[random_.randrange(len(cut))] = random_.randrange(256) if cut else 0
        try:
            sent = encode_for_model(ImageInput("x", data=bytes(cut)))
        except ImageError:
            continue
        assert SECRET not in sent.data
