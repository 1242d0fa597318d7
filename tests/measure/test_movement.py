import numpy as np
import pytest
from drawn_edits import photo, view

from rewardharness.measure.movement import moved_region
from rewardharness.measure.reading import Pixels, Reading
from rewardharness.schema import EditRequest

WALL = np.asarray(photo("coffee", 320, 240) // 4 + 150, np.uint8)


def scene(x: int, y: int) -> Pixels:
    """Draw a striped ball on a wall."""
    pixels = WALL.copy()
    rows, columns = np.mgrid[0 : pixels.shape[0], 0 : pixels.shape[1]]
    ball = (rows - y) ** 2 + (columns - x) ** 2 < 24**2
    pixels[ball] = (200, 30, 30)
    pixels[ball & ((rows - y) % 12 < 4)] = (30, 30, 90)
    return pixels


def moved(direction: str, to: tuple[int, int]) -> Reading:
    asked = EditRequest(f"move the ball {direction}", ("position",), "local", directions=(direction,))
    return moved_region(view(scene(160, 120), scene(*to)), asked)


PLACES = {"left": (60, 120), "right": (260, 120), "up": (160, 40), "down": (160, 200)}


@pytest.mark.parametrize("direction", PLACES)
@pytest.mark.parametrize("went", PLACES)
def test_only_the_requested_direction_is_graded_well(direction: str, went: str) -> None:
    grade = moved(direction, PLACES[went]).grade
    assert grade is not None
    assert grade > 0.9 if direction == went else grade < 0.1


def test_the_displacement_is_measured() -> None:
    reading = moved("left", (60, 120))
    assert reading.quantities["across"].value == pytest.approx(-100 / 320, abs=0.02)
    assert reading.quantities["down"].value == pytest.approx(0.0, abs=0.02) and "to the left" in reading.sentence


def test_what_was_not_moved_is_not_graded_as_moved() -> None:
    assert moved("left", (160, 120)).grade == 0.0
    painted = scene(160, 120)
    painted[100:140, 40:90] = (20, 160, 60)
    asked = EditRequest("move the ball left", ("position",), "local", directions=("left",))
    assert moved_region(view(scene(160, 120), painted), asked).grade is None
    other = EditRequest("make the ball blue", ("color",), "local")
    assert moved_region(view(scene(160, 120), scene(60, 120)), other).grade is None
