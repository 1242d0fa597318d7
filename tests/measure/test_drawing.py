import cv2
import numpy as np
import pytest
from drawn_edits import photo, view

from rewardharness.demo.filters import fade, style
from rewardharness.judging.instruction import read_instruction
from rewardharness.measure.drawing import asks_drawing, source_kept
from rewardharness.measure.regions import edit_presence

CAT = photo("chelsea", 240, 160)


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
    for share in (1.0, 0.15, 0.35):
        edit = view(CAT, fade(CAT, drawn, share) if share < 1 else drawn)
        kept, presence = source_kept(edit, request), edit_presence(edit, request).grade
        assert presence is not None
        assert (kept < 0.1 and presence > 0.5) if share == 1 else (kept > 0.9 and presence < 0.1)


def test_filters_keep_the_source_and_gray_is_no_colored_drawing() -> None:
    request = read_instruction("Turn it into a pencil sketch.")
    sharper = cv2.addWeighted(CAT, 2.0, cv2.GaussianBlur(CAT, (0, 0), 2), -1.0, 0)
    assert source_kept(view(CAT, sharper), request) == 1.0
    lines = style(CAT, "sketch")
    tinted = np.clip(lines * 0.9 + (CAT - CAT.mean(axis=2, keepdims=True)), 0, 255)
    assert source_kept(view(CAT, tinted), request) > source_kept(view(CAT, lines), request)
