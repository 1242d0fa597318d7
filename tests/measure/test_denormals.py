"""Denormal weights of ONNX models become zero, and nothing else changes."""

import struct

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from rewardharness.measure.denormals import without_denormals
from rewardharness.measure.text import _model_files, ocr_available

SMALLEST_NORMAL = float(np.finfo(np.float32).tiny)
FLOAT, INT32 = 1, 6


def varint(number: int) -> bytes:
    low, rest = number & 0x7F, number >> 7
    return bytes([low | 0x80]) + varint(rest) if rest else bytes([low])


def field(number: int, value: bytes | int) -> bytes:
    """A field of a Protocol Buffers message: a number or bytes."""
    if isinstance(value, int):
        return varint(number << 3) + varint(value)
    return varint(number << 3 | 2) + varint(len(value)) + value


def model(*weights: tuple[int, bytes]) -> bytes:
    """A model with weights of types, and other fields around them."""
    tensors = [
        field(1, 2) + field(2, kind) + field(8, b"name") + field(9, numbers) + varint(13 << 3 | 5) + b"abcd"
        for kind, numbers in weights
    ]
    graph = field(2, b"graph") + b"".join(field(5, each) for each in tensors) + varint(90 << 3 | 1) + b"12345678"
    return field(1, 9) + field(7, graph) + field(8, b"\x0a\x00") + field(14, 300)


@examples(max_examples=50)
@given(st.lists(st.floats(width=32, allow_nan=False)), st.binary(max_size=40))
def test_only_denormal_floats_change(numbers: list[float], other: bytes) -> None:
    kept = [0.0 if abs(number) < SMALLEST_NORMAL else number for number in numbers]
    packed, expected = (struct.pack(f"<{len(each)}f", *each) for each in (numbers, kept))
    given_model, wanted = (model((FLOAT, each), (INT32, other)) for each in (packed, expected))
    assert without_denormals(given_model) == wanted and without_denormals(wanted) == wanted


@given(st.binary(max_size=60))
def test_other_bytes_are_refused_or_keep_their_length(data: bytes) -> None:
    try:
        assert len(without_denormals(data)) == len(data)
    except ValueError as error:
        assert str(error)


@pytest.mark.parametrize("cut", [1, 3, 10])
def test_a_cut_model_is_refused(cut: int) -> None:
    whole = model((FLOAT, struct.pack("<2f", 1e-40, 1.0)))
    graph = whole[: whole.rindex(field(8, b"\x0a\x00"))]
    with pytest.raises(ValueError, match=r"longer than its message|does not end"):
        without_denormals(graph[:-cut])


@pytest.mark.skipif(not ocr_available(), reason="reading text needs rapidocr and onnxruntime")
def test_text_detection_gives_the_same_numbers() -> None:
    from onnxruntime import InferenceSession

    files = _model_files()
    assert files is not None
    before = files[0].read_bytes()
    image = np.random.default_rng(0).random((1, 3, 64, 96), np.float32)
    maps = []
    for content in (before, without_denormals(before)):
        session = InferenceSession(content, providers=["CPUExecutionProvider"])
        maps.append(session.run(None, {session.get_inputs()[0].name: image})[0])
    assert maps[0].tobytes() == maps[1].tobytes()
