import itertools
import json
from pathlib import Path

import cv2
import numpy as np
import pytest
from drawn_edits import CAT, COFFEE, disc, jpeg, photo, recolored, view

from rewardharness.judging.measured import MeasuredJudge
from rewardharness.library.opening import open_library
from rewardharness.measure.fidelity import UNRELATED, fidelity
from rewardharness.measure.images import encode_png, load_picture
from rewardharness.measure.planes import Pixels
from rewardharness.measure.view import EditView
from rewardharness.schema import EditRequest, Example, ImageInput

KEEP = EditRequest("Reproduce the source image as faithfully as possible.", ("keep",), "none")
PAIRS = Path(__file__).parents[2] / ".." / "shared" / "data" / "pairs"
NAMES = ("coffee", "chelsea", "astronaut", "rocket")


def small(name: str) -> Pixels:
    return photo(name, 240, 160)


def distance(source: np.ndarray, candidate: np.ndarray, cue: str = "distance") -> float:
    return fidelity(view(source, candidate), KEEP).quantities[cue]


@pytest.mark.parametrize("name", NAMES)
def test_the_source_itself_is_at_no_distance(name: str) -> None:
    reading = fidelity(view(small(name), small(name)), KEEP)
    assert reading.grade == 1.0 and not any(reading.quantities.values())
    assert "no cue differs" in reading.sentence


@pytest.mark.parametrize("name", NAMES)
def test_distance_grows_with_the_distortion(name: str) -> None:
    source = small(name)
    other = small(NAMES[NAMES.index(name) - 1])
    steps = [
        jpeg(source, 90),
        jpeg(source, 25),
        cv2.GaussianBlur(source, (0, 0), 2.5),
        cv2.GaussianBlur(source, (0, 0), 12.0),
        other,
    ]
    found = [distance(source, each) for each in steps]
    assert found == sorted(found) and found[0] < 0.1 and 0.5 < found[-1] < 2.0


def test_it_is_the_same_in_both_directions() -> None:
    for first, second in itertools.pairwise(NAMES):
        there, back = distance(small(first), small(second)), distance(small(second), small(first))
        assert there == pytest.approx(back, abs=0.02)


def test_layout_survives_a_displacement_that_pixels_do_not() -> None:
    source = small("coffee")
    moved = np.roll(source, (6, 12), axis=(0, 1))
    pixels_moved = np.abs(source.astype(int) - moved).mean()
    pixels_flat = np.abs(source.astype(int) - source.mean(axis=(0, 1)).astype(int)).mean()
    assert pixels_moved > 0.2 * pixels_flat
    flat = np.broadcast_to(source.mean(axis=(0, 1)).astype(np.uint8), source.shape)
    assert distance(source, moved) < 0.5 * distance(source, flat)


def test_each_cue_answers_to_its_own_distortion() -> None:
    source = small("chelsea")
    tinted = np.clip(source * np.array([0.6, 1.0, 1.5]), 0, 255).astype(np.uint8)
    turned = source[::-1]
    smooth = cv2.GaussianBlur(source, (0, 0), 5.0)
    assert distance(source, tinted, "color") > 3 * distance(source, smooth, "color")
    assert distance(source, turned, "color") < 0.02 < 0.3 < distance(source, turned, "layout")
    assert distance(source, smooth, "texture") > 3 * distance(source, tinted, "texture")
    assert distance(source, turned, "edges") > distance(source, tinted, "edges")
    assert distance(source, turned, "structure") > 0.5


def test_it_grades_only_where_the_source_is_to_be_kept() -> None:
    edit = view(small("coffee"), recolored(small("coffee"), (40, 170, 60), disc(160, 240)))
    assert fidelity(edit, EditRequest("make it green", ("color",), "local")).grade is None
    reading = fidelity(edit, KEEP)
    assert reading.grade == pytest.approx(np.exp(-reading.quantities["distance"]))
    assert set(reading.quantities) == {*UNRELATED, "distance"} and json.dumps(reading.to_json(), allow_nan=False)


def test_a_letterboxed_candidate_is_compared_where_it_covers() -> None:
    source = small("coffee")
    assert distance(source, source[:, 40:200]) < 0.05


def test_flat_tiny_and_thin_pictures_do_not_break() -> None:
    for shape in ((8, 8, 3), (8, 900, 3), (300, 9, 3)):
        black, white = np.zeros(shape, np.uint8), np.full(shape, 255, np.uint8)
        assert distance(black, white) > 0.3 and distance(black, black + 1) < 0.3


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.filterwarnings("error")
def test_diagonal_ramps_give_a_number_and_no_warning(sign: int) -> None:
    down, across = np.mgrid[0:64, 0:64]
    ramp = np.repeat((sign * down + across + 64)[..., None], 3, axis=2).astype(np.uint8)
    assert distance(ramp, ramp + np.uint8(1), "edges") < 0.01


@pytest.mark.real_data
@pytest.mark.skipif(not PAIRS.is_dir(), reason="../shared/data/pairs is not there")
def test_it_agrees_with_people_more_often_than_pixels_do() -> None:
    rows = [json.loads(line) for line in (PAIRS / "pairs.jsonl").read_text(encoding="utf-8").splitlines()]
    right = []
    for row in [each for each in rows if each["label_kind"] == "human_pairwise_choice"][::2]:
        source, *both = (
            load_picture(ImageInput(name, path=PAIRS / row[name])) for name in ("source", "candidate_a", "candidate_b")
        )
        first, second = (fidelity(EditView(source, each), KEEP).grade or 0.0 for each in both)
        right.append((first > second) == (row["preference"] == "A"))
    assert len(right) >= 10 and np.mean(right) >= 0.6


@pytest.mark.slow
def test_a_turn_of_the_whole_image_is_graded_and_any_other_is_not_enough() -> None:
    library, source = open_library("builtin"), ImageInput("source", data=encode_png(CAT))

    def reward(instruction: str, edited: Pixels) -> float:
        candidate = ImageInput("candidate", data=encode_png(np.ascontiguousarray(edited)))
        judgment = MeasuredJudge().judge_now(Example("x", instruction, source, (candidate,)), library)
        found = judgment.scores["A"].reward
        assert found is not None
        return found

    turned = np.rot90(CAT, 2)
    assert reward("Turn the image upside down.", turned) > 0.9
    for other in (CAT, np.fliplr(CAT), np.flipud(CAT), np.rot90(CAT), COFFEE, turned // 2):
        assert reward("Turn the image upside down.", other) < 0.3
    assert reward("Mirror the image.", np.fliplr(CAT)) > 0.9 > 0.3 > reward("Mirror the image.", turned)
    assert reward("Rotate the photo 90 degrees clockwise.", np.rot90(CAT, -1)) > 0.9
