"""What the built-in judge gives trainers: low rewards for unmet requests, and none for what it cannot grade."""

from collections.abc import Iterator

import numpy as np
import pytest
from PIL import Image
from serving_parts import Running

from rewardharness.arrays import picture as encoded
from rewardharness.judging.measured import MeasuredJudge
from rewardharness.library.opening import open_library
from rewardharness.serving.client import RewardClient
from rewardharness.serving.client_wire import Ask

REQUEST, NONSENSE = "make the chair red", "x"


def chair(color: tuple[int, int, int]) -> bytes:
    """Draw a chair in front of a textured wall."""
    random = np.random.default_rng(0)
    wall = Image.fromarray(random.integers(120, 190, (8, 8, 3), dtype=np.uint8))
    pixels = np.asarray(wall.resize((128, 128), Image.Resampling.BICUBIC)).copy()
    for rows, columns in (
        (slice(24, 76), slice(44, 52)),
        (slice(68, 78), slice(44, 92)),
        (slice(76, 116), slice(46, 52)),
    ):
        pixels[rows, columns] = color
    pixels[76:116, 84:90] = color
    return encoded(pixels, "chair")


BROWN, RED = chair((110, 80, 50)), chair((200, 30, 35))


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with Running(MeasuredJudge(), library=open_library("builtin")) as running:
        yield running


def test_the_server_says_what_it_graded(server: Running) -> None:
    asks = [Ask(REQUEST, BROWN, BROWN), Ask(REQUEST, BROWN, RED), Ask(NONSENSE, BROWN, RED)]
    with RewardClient(server.url) as client:
        kept, painted, unknown = client.score(asks)
    assert kept.reward is not None and kept.reward < 0.4 and painted.reward is not None and painted.reward > 0.6
    assert unknown.reward is None and unknown.reason.startswith("not_gradable")
