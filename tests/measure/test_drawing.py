import cv2
import numpy as np
import pytest
from drawn_edits import CAT, grade, view

from rewardharness.demo.filters import fade, style
from rewardharness.judging.instruction import read_instruction
from rewardharness.measure.drawing import asks_drawing, source_kept
from rewardharness.measure.regions import edit_presence


@pytest.mark.parametrize(
    ("name", "instruction"),
    [
        ("oil", "Turn it into an oil painting."),
        ("watercolor", "Make it look like a watercolor."),
        ("sketch", "Turn it into a pencil sketch."),
    ],
)
def test_a_drawing_is_no_copy_and_a_blend_with_it_is_one(name: str, instruction: str) -> None:
    request, drawn = read_instruction(instruction), style(CAT, name)
    assert asks_drawing(request)
    assert source_kept(view(CAT, drawn), request) < 0.1 and grade(edit_presence, CAT, drawn, request) > 0.5
    for share in (0.15, 0.35):
        assert source_kept(view(CAT, fade(CAT, drawn, share)), request) > 0.9
        assert grade(edit_presence, CAT, fade(CAT, drawn, share), request) < 0.1


def test_filters_keep_the_source_and_gray_is_no_colored_drawing() -> None:
    request = read_instruction("Turn it into a pencil sketch.")
    sharper = cv2.addWeighted(CAT, 2.0, cv2.GaussianBlur(CAT, (0, 0), 2), -1.0, 0)
    assert source_kept(view(CAT, sharper), request) == 1.0
    lines = style(CAT, "sketch")
    tinted = np.clip(lines * 0.9 + (CAT - CAT.mean(axis=2, keepdims=True)), 0, 255)
    assert source_kept(view(CAT, tinted), request) > source_kept(view(CAT, lines), request)
