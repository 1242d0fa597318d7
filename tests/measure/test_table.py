import json

import pytest
from drawn_edits import blend, disc, photo, view

from rewardharness.judging.instruction import read_instruction
from rewardharness.measure.table import MEASURES, known_measures

NAMES = """change_map edit_presence edit_extent preservation fidelity color_target object_color tone_shift style_shift
sharpness noise blockiness clipping seam frame_match structure_kept added_structure removal_fill background_change
moved_region turned_image text_match unasked_text structure_similarity brightness_similarity color_similarity
highlight_similarity gloss_similarity detail_similarity text_agreement directional_similarity subject_identity
requested_length requested_format valid_json required_words forbidden_words requested_language repetition
complete_ending""".split()

INSTRUCTIONS = [
    "make the cat blue",
    "make the brown cat blue",
    "add a ball",
    "change the background to a beach",
    "turn it into a watercolor painting",
    'write "HELLO" on the sign',
    "keep the image as it is",
]


def test_the_table_lists_the_measures_that_libraries_may_name() -> None:
    assert list(MEASURES) == NAMES
    for name, measure in MEASURES.items():
        assert measure.name == measure.function.__name__ == name and measure.description.endswith(".")
        assert measure.dimension in {"instruction", "quality"}


@pytest.mark.parametrize("size", [(64, 96), (8, 40), (40, 8), (17, 19)])
def test_every_measure_is_deterministic_and_reads_every_edit(size: tuple[int, int]) -> None:
    source = photo("chelsea", 240, 160)[: size[0], : size[1]]
    candidate = blend(source, photo("coffee", 240, 160)[: size[0], : size[1]], disc(*size))
    asked = [(name, instruction) for instruction in INSTRUCTIONS for name in known_measures()]
    for other in (candidate, source, 255 - source):
        edits = view(source, other), view(source, other)
        first, second = (
            {each: MEASURES[each[0]].function(edit, read_instruction(each[1])) for each in order}
            for edit, order in zip(edits, (asked, asked[::-1]), strict=True)
        )
        assert first == second, "whatever was measured before"
        for each, reading in first.items():
            assert reading.grade is None or 0 <= reading.grade <= 1, each
            assert reading.sentence.endswith((".", ")")) and json.dumps(reading.to_json(), allow_nan=False)
