import numpy as np
import pytest
from drawn_edits import photo, view

from rewardharness.judging.instruction import read_instruction
from rewardharness.measure.movement import moved_region, place_grade, place_named
from rewardharness.measure.planes import Pixels, Reading
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
    assert reading.quantities["across"] == pytest.approx(-100 / 320, abs=0.02)
    assert reading.quantities["down"] == pytest.approx(0.0, abs=0.02) and "to the left" in reading.sentence


def test_what_was_not_moved_is_not_graded_as_moved() -> None:
    assert moved("left", (160, 120)).grade == 0.0
    painted = scene(160, 120)
    painted[100:140, 40:90] = (20, 160, 60)
    asked = EditRequest("move the ball left", ("position",), "local", directions=("left",))
    assert moved_region(view(scene(160, 120), painted), asked).grade is None
    other = EditRequest("make the ball blue", ("color",), "local")
    assert moved_region(view(scene(160, 120), scene(60, 120)), other).grade is None


@pytest.mark.parametrize(
    ("instruction", "place"),
    [
        ("Add a red ball on the left.", "left"),
        ("Put a cat in the top right corner of the image", "top right"),
        ('Write "HELLO" at the bottom of the picture', "bottom"),
        ("Place a cup in the middle", "middle"),
        ("Add a red ball on the left of the car", None),
        ("Add a picture on the right wall", None),
        ("Put a hat on top of the man", None),
        ('Write "on the left" on the sign', None),
        ("Add a ball on the left and a cup on the right", None),
    ],
)
def test_places_of_the_image_are_read_and_places_beside_things_are_not(instruction: str, place: str | None) -> None:
    found = place_named(read_instruction(instruction))
    assert (found.name if found else None) == place


def test_a_change_on_the_other_side_has_a_low_grade() -> None:
    weight = np.zeros((40, 60), np.float32)
    weight[25:35, 5:12] = 1.0
    grades = {}
    for where in ("on the left", "on the right", "at the top left", "at the bottom", "in the middle"):
        place = place_named(read_instruction(f"Add a red ball {where}."))
        assert place is not None
        grades[where] = place_grade(place, weight)[1]
    assert min(grades["on the left"], grades["at the bottom"]) > 0.9
    assert max(grades["on the right"], grades["at the top left"], grades["in the middle"]) < 0.15
