import gc
import io
import os
import struct
import sys
import warnings
import zlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageCms, ImageDraw, ImageFile, PngImagePlugin, features

from rewardharness.errors import ImageError
from rewardharness.measure import bounds, images
from rewardharness.measure.bounds import MAX_BYTES, open_bounded
from rewardharness.measure.images import encode_png, load_picture
from rewardharness.schema import ImageInput

ODD_FILES = Path(__file__).parents[2] / ".." / "shared" / "data" / "oddfiles"


def encode(image: Image.Image, kind: str = "PNG", **options: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def load(data: bytes) -> object:
    return load_picture(ImageInput("A", data=data))


def scene(width: int = 48, height: int = 32) -> Image.Image:
    """A picture without any symmetry."""
    image = Image.new("RGB", (width, height), (210, 200, 190))
    draw = ImageDraw.Draw(image)
    draw.rectangle((2, 2, width // 2, height // 3), fill=(200, 30, 40))
    draw.rectangle((width // 2, height // 2, width - 4, height - 2), fill=(20, 60, 160))
    return image


def exif(orientation: int, order: str = "<") -> bytes:
    head = (b"II*\x00" if order == "<" else b"MM\x00*") + struct.pack(order + "I", 8)
    return b"Exif\x00\x00" + head + struct.pack(order + "HHHIHHI", 1, 0x0112, 3, 1, orientation, 0, 0)


def png_chunk(name: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))


def refused(data: bytes) -> str:
    with pytest.raises(ImageError) as caught:
        load(data)
    assert caught.value.next_step and caught.value.message.startswith("A ") and caught.value.message.endswith(".")
    assert " at 0x" not in caught.value.message
    return caught.value.message


@pytest.mark.parametrize("kind", ["PNG", "BMP", "TIFF", "PPM", "GIF", "WEBP"])
def test_lossless_formats_give_the_very_pixels(kind: str) -> None:
    options = {"lossless": True} if kind == "WEBP" else {}
    picture = load(encode(scene(), kind, **options))
    assert picture.format == kind and np.array_equal(picture.pixels, np.asarray(scene())) and picture.notes == ()


def test_kind_is_told_from_the_bytes_not_from_the_name(tmp_path: Path) -> None:
    path = tmp_path / "photo.png"
    path.write_bytes(encode(scene(), "JPEG"))
    picture = load_picture(ImageInput("A", path=path))
    assert picture.format == "JPEG" and picture.pixels.dtype == np.uint8 and not picture.pixels.flags.writeable


UNDO = dict(
    enumerate("FLIP_LEFT_RIGHT ROTATE_180 FLIP_TOP_BOTTOM TRANSPOSE ROTATE_90 TRANSVERSE ROTATE_270".split(), 2)
)


@pytest.mark.parametrize("order", ["<", ">"])
@pytest.mark.parametrize("orientation", range(1, 9))
def test_every_exif_orientation_loads_upright(orientation: int, order: str) -> None:
    stored = scene().transpose(Image.Transpose[UNDO[orientation]]) if orientation > 1 else scene()
    picture = load(encode(stored, "PNG", exif=exif(orientation, order)))
    assert np.array_equal(picture.pixels, np.asarray(scene()))
    assert any("upright" in note for note in picture.notes) == (orientation > 1)
    for kind in ("JPEG", "WEBP"):
        assert load(encode(stored, kind, exif=exif(orientation, order))).pixels.shape == (32, 48, 3)


@pytest.mark.parametrize("compression", ["raw", "tiff_deflate"])
def test_a_turned_tiff_is_turned_once(compression: str) -> None:
    stored = scene().transpose(Image.Transpose.ROTATE_90)
    picture = load(encode(stored, "TIFF", compression=compression, tiffinfo={0x0112: 6}))
    assert np.array_equal(picture.pixels, np.asarray(scene()))


@pytest.mark.parametrize(
    "block",
    [
        b"Exif\x00\x00",
        b"Exif\x00\x00garbage that is no directory",
        b"Exif\x00\x00II*\x00\xff\xff\xff\xff",
        b"Exif\x00\x00II*\x00\x08\x00\x00\x00\xff\xff",
        exif(0),
        exif(9),
        exif(65535),
        b"Exif\x00\x00II*\x00" + struct.pack("<IHHHII", 8, 1, 0x0112, 2, 4_000_000_000, 6),
    ],
)
def test_weird_exif_is_ignored(block: bytes) -> None:
    for kind in ("PNG", "JPEG", "WEBP"):
        assert load(encode(scene(), kind, exif=block)).pixels.shape == (32, 48, 3)


def test_exif_that_asks_for_gigabytes_is_not_read() -> None:
    count = 2_600
    entries = b"".join(struct.pack("<HHII", 1_000 + each, 1, 32_000, 0) for each in range(count))
    block = b"Exif\x00\x00II*\x00" + struct.pack("<IH", 8, count) + entries + b"\x00" * 4 + b"x" * 32_000
    picture = load(encode(scene(), "JPEG", exif=block))
    assert picture.pixels.shape == (32, 48, 3)


def test_a_tiff_whose_directory_claims_more_than_there_is_is_refused() -> None:
    data = bytearray(encode(scene(64, 64), "TIFF"))
    at = len(data)
    (old,) = struct.unpack_from("<I", data, 4)
    (count,) = struct.unpack_from("<H", data, old)
    kept = data[old + 2 : old + 2 + 12 * count]
    extra = b"".join(struct.pack("<HHII", 40_000 + each, 1, 10_000, 8) for each in range(500))
    struct.pack_into("<I", data, 4, at)
    data += struct.pack("<H", count + 500) + kept + extra + b"\x00" * 4
    assert "claims more" in refused(bytes(data))


def test_what_is_transparent_is_shown_on_white() -> None:
    words = Image.new("L", (64, 24), 255)
    ImageDraw.Draw(words).text((2, 6), "score 4", fill=0)
    hidden = Image.merge("RGBA", (words, words, words, words.point(lambda value: 255 if value == 255 else 0)))
    assert np.asarray(hidden.convert("RGB")).min() < 50, "the text is there when alpha is thrown away"
    for data in (encode(hidden), encode(hidden, "WEBP", lossless=True, exact=True)):
        picture = load(data)
        assert picture.pixels.min() == 255 and any("white" in note for note in picture.notes)


def test_half_transparent_and_palette_and_gray_alpha() -> None:
    half = Image.new("RGBA", (16, 16), (0, 0, 0, 128))
    assert abs(int(load(encode(half)).pixels[0, 0, 0]) - 127) <= 1
    palette = Image.new("P", (16, 16), 1)
    palette.putpalette([10, 20, 30, 200, 100, 50])
    assert load(encode(palette)).pixels[3, 3].tolist() == [200, 100, 50]
    assert load(encode(palette, transparency=1)).pixels.min() == 255
    assert load(encode(Image.new("LA", (16, 16), (0, 0)))).pixels.min() == 255
    assert load(encode(Image.new("1", (16, 16), 1))).pixels.min() == 255
    deep = Image.fromarray(np.full((16, 16), 9_000, np.uint16))
    assert load(encode(deep, transparency=9_000)).pixels.min() == 255


@pytest.mark.parametrize("kind", ["PNG", "TIFF"])
def test_sixteen_bits_are_scaled_not_cut_off(kind: str) -> None:
    ramp = np.tile(np.linspace(0, 65535, 256).astype(np.uint16), (8, 1))
    picture = load(encode(Image.fromarray(ramp), kind))
    assert np.array_equal(picture.pixels[0, :, 0], np.arange(256))
    assert picture.notes == ("16 bits per pixel scaled to 8",)


def test_twelve_bits_and_inverted_tiffs() -> None:
    samples = np.tile(np.linspace(0, 4095, 64).astype(int), (8, 1))
    pairs = samples.reshape(-1, 2)
    packed = np.stack([pairs[:, 0] >> 4, (pairs[:, 0] & 15) << 4 | pairs[:, 1] >> 8, pairs[:, 1] & 255], axis=1)
    body = packed.astype(np.uint8).tobytes()

    def tiff(bits: int, photometric: int, strip: bytes) -> bytes:
        tags = [(256, 64), (257, 8), (258, bits), (259, 1), (262, photometric), (273, 8), (277, 1), (278, 8)]
        entries = b"".join(struct.pack("<HHII", tag, 4 if tag == 273 else 3, 1, value) for tag, value in tags)
        entries += struct.pack("<HHII", 279, 4, 1, len(strip))
        return b"II*\x00" + struct.pack("<I", 8 + len(strip)) + strip + struct.pack("<H", 9) + entries + b"\x00" * 4

    twelve = load(tiff(12, 1, body)).pixels[0, :, 0].astype(int)
    assert np.abs(twelve - np.linspace(0, 255, 64)).max() <= 1
    inverted = load(tiff(16, 0, np.tile(np.linspace(0, 65535, 64).astype("<u2"), (8, 1)).tobytes()))
    assert inverted.pixels[0, 0, 0] == 255 and inverted.pixels[0, -1, 0] == 0


def test_a_sixteen_bit_ppm_keeps_its_order() -> None:
    ramp = np.linspace(0, 65535, 64).astype(">u2").tobytes() * 8
    picture = load(b"P5 64 8 65535\n" + ramp)
    assert np.array_equal(picture.pixels[0, :, 0], np.rint(np.linspace(0, 65535, 64).astype(int) / 257.0))


def test_floating_point_samples_are_refused() -> None:
    assert "floating-point" in refused(encode(Image.new("F", (16, 16), 0.5), "TIFF"))
    assert "32-bit" in refused(encode(Image.new("I", (16, 16), 5), "TIFF"))


def test_cmyk_is_converted() -> None:
    picture = load(encode(scene().convert("CMYK"), "JPEG", quality=95))
    assert "converted from CMYK" in picture.notes
    assert np.abs(picture.pixels.astype(int) - np.asarray(scene())).mean() < 6


def test_text_in_a_png_is_not_unpacked() -> None:
    pixels, block, exif_text = scene(), exif(6), PngImagePlugin.PngInfo()
    exif_text.add_text("note", "x" * 900_000, zip=True)
    exif_text.add_text("Raw profile type exif", f"\nexif\n{len(block)}\n{block.hex()}", zip=True)
    exif_text.add_text("other", "y" * 900_000)
    data = encode(pixels, pnginfo=exif_text)
    opened = open_bounded("x", data, "PNG")
    opened.image.load()
    assert list(opened.image.info) == ["Raw profile type exif"] and len(opened.data) < len(data) - 900_000
    assert load(data).pixels.shape == (48, 32, 3), "turned upright"


def test_profiles_are_applied_when_they_work() -> None:
    srgb = ImageCms.ImageCmsProfile(ImageCms.createProfile("sRGB")).tobytes()
    plain = load(encode(scene(), icc_profile=srgb))
    assert np.array_equal(plain.pixels, np.asarray(scene())) and plain.notes == ()
    # The same profile with its red and blue columns exchanged: a colour space of its own.
    at = {srgb[each : each + 4]: each for each in range(132, 132 + 12 * 20, 12)}
    swapped = bytearray(srgb)
    swapped[at[b"rXYZ"] : at[b"rXYZ"] + 4], swapped[at[b"bXYZ"] : at[b"bXYZ"] + 4] = b"bXYZ", b"rXYZ"
    turned = load(encode(scene(), icc_profile=bytes(swapped)))
    assert "converted to sRGB by its color profile" in turned.notes
    red = turned.pixels[5, 5].astype(int)
    assert red[2] > red[0] + 100, "what was stored as red is blue in that space"
    broken = load(encode(scene(), icc_profile=b"no profile at all"))
    assert np.array_equal(broken.pixels, np.asarray(scene())) and any("invalid" in note for note in broken.notes)


def test_only_the_first_frame_counts_and_is_noted() -> None:
    frames = [Image.new("RGB", (16, 16), color) for color in ((250, 0, 0), (0, 250, 0), (0, 0, 250))]
    for kind in ("GIF", "PNG", "WEBP", "TIFF"):
        options = {"lossless": True} if kind == "WEBP" else {}
        picture = load(encode(frames[0], kind, save_all=True, append_images=frames[1:], **options))
        assert picture.pixels[8, 8].tolist() == [250, 0, 0] and any("first" in note for note in picture.notes)


def test_a_bomb_is_refused_by_its_header() -> None:
    for side in (13_000, 100_000, 2**30):
        header = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
        chunks = (b"IHDR", header), (b"IDAT", zlib.compress(b"")), (b"IEND", b"")
        bomb = b"\x89PNG\r\n\x1a\n" + b"".join(png_chunk(name, body) for name, body in chunks)
        assert "50 megapixels" in refused(bomb)
    assert "16384" in refused(encode(Image.new("1", (16_385, 8))))
    assert "only 7 x 300 pixels" in refused(encode(Image.new("RGB", (7, 300))))


def test_a_photograph_of_a_large_camera_is_scaled_down_while_it_is_decoded() -> None:
    turned = Image.Exif()
    turned[0x0112] = 6
    data = encode(Image.effect_noise((80, 60), 50).convert("RGB").resize((8000, 6000)), "JPEG", exif=turned)
    picture = load(data)
    assert picture.pixels.shape == (4000, 3000, 3)
    assert "scaled down from 8000 x 6000 to 4000 x 3000" in picture.notes


@pytest.fixture
def tight(monkeypatch: pytest.MonkeyPatch) -> None:
    """The bounds of sizes, a hundred times tighter."""
    for name in ("MAX_PIXELS", "MAX_UNPACKED_PIXELS", "MAX_SCALED_PIXELS", "MAX_MEMORY", "MAX_SCANNED_PIXELS"):
        monkeypatch.setattr(bounds, name, getattr(bounds, name) // 100)


LARGE = {"PNG": {}, "TIFF": {"compression": "tiff_deflate"}, "GIF": {}, "WEBP": {"quality": 90}}
LARGE["JPEG"] = {"progressive": True}


@pytest.mark.usefixtures("tight")
@pytest.mark.parametrize("kind", LARGE)
def test_other_large_photographs_are_scaled_down_as_they_are_unpacked(kind, monkeypatch):
    monkeypatch.setattr(images, "_BAND_PIXELS", 5_000)
    large = scene(80, 60).resize((601, 442), Image.Resampling.NEAREST)
    picture = load(encode(large, kind, **LARGE[kind]))
    height, width = picture.pixels.shape[:2]
    assert width in {300, 301} and height == 221
    assert any(note.startswith("scaled down from 601 x 442 to 30") for note in picture.notes)
    wanted = np.asarray(large.reduce(2)).astype(int)
    assert np.abs(picture.pixels.astype(int)[:, :300] - wanted[:, :300]).mean() < 3


@pytest.mark.usefixtures("tight")
def test_scaling_down_keeps_transparency_turns_and_depth(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(images, "_BAND_PIXELS", 5_000)
    hidden = Image.new("RGBA", (510, 500), (0, 0, 0, 0))
    picture = load(encode(hidden, exif=exif(6)))
    assert picture.pixels.shape == (255, 250, 3) and picture.pixels.min() == 255 and len(picture.notes) == 3
    deep = Image.fromarray(np.full((500, 510), 0x8080, np.uint16))
    assert np.unique(load(encode(deep)).pixels).tolist() == [0x80]
    assert load(encode(Image.new("L", (510, 500), 9), transparency=9)).pixels.min() == 255


@pytest.mark.usefixtures("tight")
@pytest.mark.parametrize(
    ("kind", "size", "options", "says"),
    [
        ("PNG", (710, 710), {}, "the maximum for a PNG"),
        ("WEBP", (510, 500), {"lossless": True}, "lossless"),
        ("TIFF", (800, 600), {"compression": "tiff_deflate", "tiffinfo": {278: 600}}, "is a TIFF that needs"),
        ("TIFF", (800, 600), {"compression": "tiff_deflate", "tiffinfo": {274: 6}}, "is a TIFF that needs"),
        ("JPEG", (800, 600), {"progressive": True, "subsampling": 0}, "progressive"),
        ("JPEG", (1400, 1300), {}, "1.75 megapixels"),
    ],
)
def test_what_cannot_be_unpacked_within_bounds_is_refused(kind, size, options, says, monkeypatch):
    data = encode(Image.new("RGB", size), kind, **options)
    monkeypatch.setattr(ImageFile.ImageFile, "load", lambda _: pytest.fail("it was unpacked"))
    assert says in refused(data)


@pytest.mark.usefixtures("tight")
def test_an_animated_webp_has_a_limit_of_its_own() -> None:
    frames = [Image.new("L", (360, 360), shade) for shade in (0, 200)]
    assert "an animated WebP" in refused(encode(frames[0], "WEBP", save_all=True, append_images=frames[1:]))


def test_samples_that_are_read_one_by_one_are_few(monkeypatch: pytest.MonkeyPatch) -> None:
    text = b"P3 %d 100 255 " + b"0 " * 300
    assert load(b"P3 10 100 255 " + b"10 " * 3000).pixels.shape == (100, 10, 3)
    assert load(b"P6\n# by a scanner\n1000 700\n255\n" + bytes(2_100_000)).pixels.shape == (700, 1000, 3)
    assert load(b"P5 1000 1100 65535\n" + bytes(2_200_000)).pixels.shape == (1100, 1000, 3)
    monkeypatch.setattr(Image, "open", lambda *_, **__: pytest.fail("it was opened"))
    for data in (
        text % 10 + b" " * 2_000_000,
        b"P6 1000 700 100\n" + bytes(2_100_000),
        b"P6\n#" + b"x" * 2_000_000 + b"\n8 8 255\n" + bytes(192),
        b"P4\n#" + b"x" * 2_000_000 + b"\n8 8\n" + bytes(8),
    ):
        assert "PNM" in refused(data)
    bmp = b"BM" + bytes(12) + struct.pack("<IiiHHI", 40, 2000, 1000, 1, 8, 1) + bytes(2_000_000)
    assert "BMP" in refused(bmp)


@pytest.mark.parametrize(
    ("piece", "says"),
    [
        (b"!\xfe" + (b"\xff" + b"c" * 255) * 2_001 + b"\0", "comments"),
        (b"!\xfe\x01c\0" * 2_001, "comments"),
        (b"!\xff" + b"\x01c" * 200_001 + b"\0", "small blocks"),
        (b"\0" * 200_001, "small blocks"),
    ],
)
def test_a_gif_of_endless_blocks_is_refused(piece: bytes, says: str, monkeypatch: pytest.MonkeyPatch) -> None:
    data = encode(scene(), "GIF")
    start, end = 13 + 3 * (2 << (data[10] & 7)), len(data) - 1
    assert load(data[:start] + b"!\xfe\x01c\0" * 9 + data[start:]).notes == ()
    monkeypatch.setattr(Image, "open", lambda *_, **__: pytest.fail("it was opened"))
    for at in (start, end):
        assert says in refused(data[:at] + piece + data[at:])


def test_a_png_of_endless_chunks_is_refused() -> None:
    data = encode(scene())
    assert "chunks" in refused(data[:33] + png_chunk(b"abCd", b"") * 50_001 + data[33:])


@pytest.mark.parametrize(("side", "scans", "bounds"), [(64, 200, "own_home"), (500, 40, "tight")])
def test_a_jpeg_of_endless_scans_is_refused(side: int, scans: int, bounds: str, request: pytest.FixtureRequest) -> None:
    request.getfixturevalue(bounds)
    image = Image.new("L", (side, side))
    data = encode(image, "JPEG", progressive=True)
    start, end = data.rfind(b"\xff\xda"), data.rfind(b"\xff\xd9")
    assert load(data).pixels.shape == (side, side, 3)
    assert "scans" in refused(data[:end] + data[start:end] * scans + data[end:])


@pytest.mark.parametrize("kind", ["PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", "PPM"])
def test_a_cut_off_file_is_an_error(kind: str) -> None:
    noisy = Image.fromarray(np.random.default_rng(0).integers(0, 256, (64, 64, 3), dtype=np.uint8))
    data = encode(noisy, kind)
    assert "damaged" in refused(data[: len(data) * 2 // 3])


@pytest.mark.parametrize(
    "data",
    [b"", b"\x00" * 100, b"%PDF-1.7", b"<svg xmlns='http://www.w3.org/2000/svg'/>", b"%!PS-Adobe-3.0 EPSF-3.0\n"],
)
def test_other_kinds_of_file_are_refused(data: bytes) -> None:
    assert refused(data)


def test_only_regular_files_are_opened(tmp_path: Path) -> None:
    pipe, sparse = tmp_path / "pipe.png", tmp_path / "sparse.png"
    os.mkfifo(pipe)
    with sparse.open("wb") as stream:
        stream.truncate(10 * MAX_BYTES)
    for path in (tmp_path, pipe, Path("/dev/zero"), tmp_path / "missing.png", Path("bad\x00name"), Path("x" * 5_000)):
        with pytest.raises(ImageError):
            load_picture(ImageInput("A", path=path))
    with pytest.raises(ImageError, match="20 MB"):
        load_picture(ImageInput("A", path=sparse))
    assert "20 MB" in refused(encode(scene()) + b"\x00" * MAX_BYTES)


@pytest.mark.parametrize(
    "kind", ["str", "Path", "bytes", "bytearray", "Pillow", "uint8", "float", "channels first", "cell"]
)
def test_an_image_input_takes_whatever_holds_an_image(tmp_path: Path, kind: str) -> None:
    pixels = np.asarray(scene())
    data = encode_png(pixels)
    (tmp_path / "a.png").write_bytes(data)
    given = {
        "str": str(tmp_path / "a.png"),
        "Path": tmp_path / "a.png",
        "bytes": data,
        "bytearray": bytearray(data),
        "Pillow": Image.fromarray(pixels),
        "uint8": pixels,
        "float": pixels / np.float32(255),
        "channels first": np.moveaxis(pixels, 2, 0) / 255,
        "cell": {"bytes": data, "path": None},
    }[kind]
    image = ImageInput.of(given)
    assert np.array_equal(load_picture(image).pixels, pixels)
    assert ImageInput.of(image) is image and (image.path is None) == (image.data is not None)
    if kind != "cell":
        assert replace(ImageInput("A", given), name=image.name) == image


@pytest.mark.parametrize(
    "wrong", [None, 3, "", [], object(), {}, {"path": None}, np.zeros((4, 4)), np.full((9, 9, 3), 7.0)]
)
def test_anything_else_is_refused_at_construction_with_the_next_step(wrong: object) -> None:
    with pytest.raises(ImageError) as caught:
        ImageInput.of(wrong, "the source")
    assert "the source" in str(caught.value)
    assert caught.value.next_step and caught.value.next_step in str(caught.value)


def test_an_image_input_is_either_a_file_or_data(tmp_path: Path) -> None:
    for arguments in ({}, {"path": tmp_path / "a.png", "data": b"a"}):
        with pytest.raises(ImageError, match=r"'before\.png' is the name of an image"):
            ImageInput("before.png", **arguments)


def test_no_warning_escapes_even_from_many_threads() -> None:
    plain, large = encode(scene()), encode(scene(), "GIF")
    broken = plain[:33] + png_chunk(b"acTL", struct.pack(">II", 0, 0)) + plain[33:]
    large = large[:6] + struct.pack("<HH", 10_000, 10_000) + large[10:]

    def work(_: int) -> None:
        for _ in range(10):
            assert load(broken).pixels.shape == (32, 48, 3)
            with pytest.raises(ImageError):
                load(large)

    gc.collect()  # what other tests have left may warn when it is cleared away
    with warnings.catch_warnings(record=True) as seen, ThreadPoolExecutor(4) as threads:
        warnings.simplefilter("always")
        assert list(threads.map(work, range(4))) == [None] * 4
    assert [str(each.message) for each in seen] == []


@settings(max_examples=150, deadline=None)
@given(
    kind=st.sampled_from(["PNG", "JPEG", "WEBP", "GIF", "BMP", "TIFF", "PPM"]),
    edits=st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), min_size=1, max_size=8),
    end=st.floats(0.1, 1.0),
)
def test_damaged_bytes_give_a_picture_or_one_error(kind: str, edits: list[tuple[float, int]], end: float) -> None:
    options = {"exif": exif(6)} if kind in {"PNG", "JPEG", "WEBP"} else {}
    data = bytearray(encode(scene(), kind, **options))
    for place, value in edits:
        data[int(place * len(data))] = value
    try:
        picture = load(bytes(data[: max(1, int(end * len(data)))]))
    except ImageError as error:
        assert error.message.startswith("A ")
    else:
        assert picture.pixels.dtype == np.uint8 and picture.pixels.ndim == 3


LOADS = {
    "12in16bit.tif", "16bit.cropped.tif", "apng_blend_op_over.png", "apng_chunk_no_actl.png", "apng_num_plays.png",
    "apng_single_frame.png", "bw_gradient.png", "decompression_bomb_extents.gif", "dispose_bgnd_transparency.gif",
    "exif-dpi-zerodivision.jpg", "exif_imagemagick_orientation.png", "first_frame_transparency.gif", "flower.jpg",
    "hopper.bmp", "hopper.gif", "hopper.ppm", "hopper.tif", "hopper.webp", "hopper_16bit_qtables.jpg",
    "hopper_bad_exif.jpg", "hopper_orientation_2.jpg", "hopper_orientation_6.jpg", "hopper_orientation_6.webp",
    "hopper_orientation_8.jpg", "icc_profile_big.jpg", "imageio16.png", "imageio256.png", "invalid-exif.jpg",
    "iss634.webp", "itxt_chunks.png", "junk_jpeg_header.jpg", "pil_sample_cmyk.jpg", "transparent.png",
    *(f"exif_{way}_{number}.jpg" for way in ("Landscape", "Portrait") for number in range(9)),
}  # fmt: skip


@pytest.mark.real_data
@pytest.mark.skipif(not ODD_FILES.is_dir(), reason="../shared/data/oddfiles is not there")
def test_odd_files_load_rightly_or_say_why_not() -> None:
    loaded = {}
    for path in sorted(ODD_FILES.iterdir()):
        try:
            loaded[path.name] = load_picture(ImageInput(path.name, path=path))
        except ImageError as error:
            assert error.message.startswith(path.name) and error.next_step
    assert set(loaded) == LOADS
    for way, shape in (("Landscape", (1200, 1800, 3)), ("Portrait", (1800, 1200, 3))):
        first = loaded[f"exif_{way}_1.jpg"].pixels[::40, ::40].astype(int)
        for number in range(9):
            turned = loaded[f"exif_{way}_{number}.jpg"].pixels
            assert turned.shape == shape and np.abs(turned[::40, ::40].astype(int) - first).mean() < 4
    upright = loaded["hopper.ppm"].pixels.astype(int)
    for name in ("hopper_orientation_2.jpg", "hopper_orientation_6.jpg", "hopper_orientation_6.webp", "hopper.tif"):
        assert np.abs(loaded[name].pixels.astype(int) - upright).mean() < 8


@pytest.mark.parametrize(("kind", "mode"), [("AVIF", "RGB"), ("AVIF", "RGBA"), ("HEIF", "RGB"), ("HEIF", "RGBA")])
def test_avif_and_heic_open_within_the_limits(kind: str, mode: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if kind == "HEIF":
        pytest.importorskip("pillow_heif").register_heif_opener()
    elif not features.check("avif"):
        pytest.skip("Pillow has no AVIF")
    layered = scene(64, 48).convert(mode)
    layered.paste((0,) * len(mode), (0, 0, 8, 8))
    data = encode(layered, kind, quality=95)
    picture = load_picture(ImageInput("A", data=data))
    corner = 255 if mode == "RGBA" else 0
    assert picture.format == kind and np.abs(picture.pixels[2, 2].astype(int) - corner).max() < 12
    turned = load_picture(ImageInput("A", data=encode(scene(64, 48), kind, exif=exif(6))))
    assert turned.pixels.shape == (64, 48, 3)
    for end in (20, 60, len(data) // 2):
        assert "cannot be decoded" in refused(data[:end]) or "truncated" in refused(data[:end])
    monkeypatch.setattr(bounds, "MAX_PIXELS", 3000)
    assert "megapixels" in refused(data)
    monkeypatch.setitem(sys.modules, "pillow_heif", None)
    monkeypatch.setattr(features, "check", lambda name: False)
    with pytest.raises(ImageError, match="cannot open") as caught:
        load(data)
    assert ("[app]" in str(caught.value.next_step)) == (kind == "HEIF")


def test_a_text_that_is_named_like_an_image_gets_one_plain_message() -> None:
    message = "A is not a PNG, JPEG, WebP, AVIF, HEIC, GIF, BMP, TIFF or PPM image."
    assert refused(b"Dear reader, this is no image.\n") == message == refused(b"\x00\x00\x00\x18ftypmp42" + bytes(40))
