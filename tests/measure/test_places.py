import numpy as np
import pytest

from rewardharness.judging.instruction import read_instruction
from rewardharness.measure.places import place_grade, place_named


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
