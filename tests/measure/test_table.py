import json

import numpy as np
import pytest
from drawn_edits import blend, disc, photo, view

from rewardharness.judging.instruction import read_instruction
from rewardharness.measure.images import load_picture
from rewardharness.measure.table import MEASURES, known_measures
from rewardharness.measure.view import EditView
from rewardharness.schema import ImageInput

NAMES = """change_map edit_presence edit_extent preservation fidelity color_target object_color tone_shift style_shift
sharpness noise blockiness clipping seam frame_match structure_kept added_structure removal_fill background_change
moved_region text_match unasked_text structure_similarity brightness_similarity color_similarity highlight_similarity
gloss_similarity detail_similarity text_agreement directional_similarity subject_identity""".split()

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
        assert measure.name == measure.function.__name__ == name
        assert measure.description.endswith(".")
        assert measure.dimension in {"instruction", "quality"}


@pytest.mark.parametrize("instruction", INSTRUCTIONS)
def test_every_measure_is_deterministic_and_reads_every_edit(instruction: str) -> None:
    source = photo("chelsea", 240, 160)
    candidate = blend(source, photo("coffee", 240, 160), disc(160, 240))
    request = read_instruction(instruction)
    for name in known_measures():
        measure = MEASURES[name]
        first, second = (measure.function(view(source, candidate), request) for _ in range(2))
        assert first == second, name
        assert first.grade == second.grade
        json.dumps(first.to_json(), allow_nan=False)
        same = measure.function(view(source, source), request)
        assert same.grade is None or np.isfinite(same.grade)


@pytest.mark.real_data
def test_real_edits_are_measured_without_a_hitch(real_data) -> None:  # type: ignore[no-untyped-def]
    folder = real_data / "pairs"
    rows = [json.loads(line) for line in (folder / "pairs.jsonl").read_text("utf-8").splitlines()][::30]
    for row in rows:
        request = read_instruction(row["instruction"])
        pictures = [load_picture(ImageInput(key, folder / row[key])) for key in ("source", "candidate_a")]
        edit = EditView(*pictures)
        for name in known_measures():
            if name in {"text_match", "unasked_text"}:
                continue
            reading = MEASURES[name].function(edit, request)
            assert reading.grade is None or 0.0 <= reading.grade <= 1.0, name
