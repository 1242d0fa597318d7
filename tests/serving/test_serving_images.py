import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from rewardharness.serving.body import Parsed
from rewardharness.serving.faults import RefusedError
from rewardharness.serving.limits import Limits
from rewardharness.serving.media import count_pixels, decode_base64
from rewardharness.serving.wire import EditReader, ScoreRequest, read_request


@pytest.mark.parametrize(
    ("kind", "how"),
    [
        ("PNG", {}),
        ("GIF", {}),
        ("JPEG", {}),
        ("JPEG", {"progressive": True, "exif": b"Exif\x00\x00II*\x00\x08\x00\x00\x00\x00\x00"}),
        ("WEBP", {"lossless": True}),
        ("WEBP", {"quality": 50}),
        ("WEBP", {"quality": 50, "exif": b"Exif\x00\x00II*\x00\x08\x00\x00\x00\x00\x00"}),
    ],
)
@pytest.mark.parametrize("size", [(8, 300), (257, 16), (31, 31)])
def test_the_first_bytes_tell_the_number_of_pixels(kind: str, how: dict[str, object], size: tuple[int, int]) -> None:
    buffer = io.BytesIO()
    noise = np.random.default_rng(0).integers(0, 255, (size[1], size[0], 3), dtype=np.uint8)
    Image.fromarray(noise).save(buffer, kind, **how)
    assert count_pixels(buffer.getvalue()) == size[0] * size[1]


@given(
    st.sampled_from([b"", b"\x89PNG\r\n\x1a\n", b"GIF89a", b"\xff\xd8", b"RIFF\0\0\0\0WEBPVP8X"]),
    st.binary(max_size=64),
)
def test_no_bytes_confuse_it(head: bytes, noise: bytes) -> None:
    found = count_pixels(head + noise)
    assert found is None or found >= 0


@given(st.binary(min_size=1, max_size=50))
def test_base64_is_read_strictly(data: bytes) -> None:
    import base64

    text = base64.b64encode(data).decode()
    assert decode_base64(text, "x") == decode_base64(memoryview(text.encode()), "x") == data
    assert decode_base64(f"data:image/png;base64,{text}", "x") == data
    for wrong in (
        text + "\n",
        " " + text,
        text + "=",
        text[:-1],
        "http://x/y.png",
        "data:image/png," + text,
        "é" + text,
    ):
        with pytest.raises(RefusedError) as caught:
            decode_base64(wrong, "here")
        assert (caught.value.status, caught.value.fields[0][0]) == (422, "here")


def test_images_that_come_twice_share_their_bytes() -> None:
    edit = {"instruction": "x", "source": {"ref": "a"}, "edited": {"ref": "b"}, "references": ["YWJj"]}
    parsed = Parsed({**edit, "images": {"b": "YWJj"}}, parts={"a": b"abc"})
    [read] = EditReader(parsed, read_request(ScoreRequest, parsed, Limits()), Limits()).edits()
    assert len({id(image.data) for image in read.images}) == 1 and len(read.images) == 3
