"""A calibrated confidence is a probability that grows with the margin, and changes no preference."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st
from judge_parts import judge_one

from rewardharness.benchmark.calibration import (
    GradedJudgment,
    cross_validate,
    fit_calibration,
    fit_curves,
    measure_error,
)
from rewardharness.errors import DataError, InputError
from rewardharness.judging.calibration import (
    ALL_KINDS,
    NOT_GRADABLE,
    ONE_EDITED,
    SHIPPED,
    CalibrationData,
    ConfidenceCalibration,
    Curve,
    confidence_words,
    edit_kind,
    load_calibration,
    shipped_calibration,
)
from rewardharness.judging.config import MEASURED
from rewardharness.judging.identity import JudgeIdentity
from rewardharness.judging.measured import MeasuredJudge
from rewardharness.judging.opening import open_judge
from rewardharness.judging.release import make_release
from rewardharness.judging.release_file import load_release, save_release
from rewardharness.library.opening import open_library
from rewardharness.schema import Example, ImageInput, Judgment, Scores
from rewardharness.serving.results import JudgedEdit
from rewardharness.settings import Settings

IDENTITY = JudgeIdentity("some judge", "revision", "pairwise", "0" * 64)
JUDGMENT = Judgment(
    "e1", "some judge", "pairwise", "0" * 64, preference="B", ranking=(("B",), ("A",)), margin=0.3, confidence=0.9
)
DATA = (CalibrationData("mine", "digest", 60, {"human": 60}),)


def rows(count: int = 60, kinds: tuple[str, ...] = ("add", "color")) -> list[GradedJudgment]:
    """Preferences that are right more often with a larger margin."""
    return [
        GradedJudgment(str(n), float(n % 10 < 4 + 6 * n / count), 0.99, n / count, kinds[n % len(kinds)], f"s{n // 2}")
        for n in range(count)
    ]


@pytest.fixture(scope="module")
def made() -> ConfidenceCalibration:
    return fit_calibration(rows(), IDENTITY, DATA, people=True)


@examples(max_examples=40)
@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), min_size=1, max_size=40), st.floats(0, 1), st.floats(0, 1))
def test_the_probability_grows_with_the_margin(points: list[tuple[float, bool]], first: float, second: float) -> None:
    fitted = fit_curves([GradedJudgment("", float(right), None, margin, "add", "s") for margin, right in points])
    low, high = sorted((first, second))
    for curve in fitted.values():
        assert 0 <= curve.probability(low) <= curve.probability(high) <= 1


def test_the_error_of_an_overconfident_judge_shrinks(made: ConfidenceCalibration) -> None:
    assert made.before.error > 0.2
    assert made.after.error < made.before.error and made.after.n == 60
    assert set(made.curves) == {ALL_KINDS, NOT_GRADABLE, "add", "color"}
    chances = cross_validate(rows())
    assert measure_error(rows(), chances).error == made.after.error
    assert "after, cross-validated, n = 60." in made.words and " before, " in made.words


def test_a_calibration_keeps_the_preference_and_says_what_it_rests_on(made: ConfidenceCalibration) -> None:
    judged = made.apply(JUDGMENT, "add", "revision")
    assert (judged.preference, judged.ranking, judged.margin) == (JUDGMENT.preference, JUDGMENT.ranking, 0.3)
    assert judged.confidence == made.curves["add"].probability(0.3)
    assert judged.calibration.raw == 0.9 and judged.calibration.n == 30
    assert confidence_words(judged) == f"{judged.confidence:.0%} of such answers agree with people (n = 30, kind add)"
    assert "n = 60, all kinds" in confidence_words(made.apply(JUDGMENT, "pose", "revision"))
    assert "another revision" in confidence_words(made.apply(JUDGMENT, "add", "other"))
    assert confidence_words(JUDGMENT) == "Confidence 0.90 of 1, not calibrated"
    again = made.apply(judged, "add", "revision")
    assert again == judged


def test_a_reward_keeps_the_low_confidence_of_what_could_not_be_graded() -> None:
    noise = [np.random.default_rng(seed).normal(128, 40, (96, 96, 3)).clip(0, 255) for seed in (0, 1, 2)]
    source, *candidates = (ImageInput.of(pixels.astype(np.uint8)) for pixels in noise)
    asked = Example("x", "make it feel more hopeful", source, tuple(candidates))
    library = open_library("builtin")
    for allowed in (False, True):
        judge = open_judge(MEASURED, Settings.from_env({}), allow_ungradable=allowed, no_cache=True)
        judged = judge_one(judge, asked, library)
        assert judged.calibration.kind == NOT_GRADABLE
        assert 0.45 < judged.confidence < 0.65
        items = [JudgedEdit(judged).item(place, None, label) for place, label in enumerate("AB")]
        assert all(item.confidence == judged.own_confidence and item.confidence <= 0.25 for item in items)
        assert [item.ok for item in items] == [allowed, allowed]


def test_what_could_not_be_graded_is_fitted_apart_from_pairs_with_an_unedited_candidate() -> None:
    guessed = [GradedJudgment("", float(n % 2), 0.9, 0.2, NOT_GRADABLE, f"s{n}") for n in range(10)]
    sure = [GradedJudgment("", 1.0, 0.9, 0.2, ONE_EDITED, f"t{n}") for n in range(40)]
    curves = fit_curves([*guessed, *sure])
    assert curves[NOT_GRADABLE].probability(0.2) == pytest.approx(0.5)
    assert curves[ONE_EDITED].probability(0.2) > 0.85
    assert fit_curves(sure)[NOT_GRADABLE].probability(0.9) == 0.5
    scores = {"A": Scores(None, 3.0, None, evidence=0.0), "B": Scores(None, 3.0, None, evidence=0.6)}
    picture = ImageInput.of(np.zeros((8, 8, 3), np.uint8))
    asked = Example("x", "make it hopeful", picture, (picture, picture))
    assert edit_kind(asked, replace(JUDGMENT, scores=scores)) == ONE_EDITED
    both = {**scores, "A": replace(scores["B"], quality=2.0)}
    assert edit_kind(asked, replace(JUDGMENT, scores=both)) == NOT_GRADABLE


def test_another_library_and_ties_are_not_calibrated(made: ConfidenceCalibration) -> None:
    for other in (
        replace(JUDGMENT, library_id="1" * 64),
        replace(JUDGMENT, preference="tie", ranking=(("A", "B"),)),
        replace(JUDGMENT, ranking=(("B",), ("A",), ("C",))),
        replace(JUDGMENT, margin=None),
    ):
        assert made.apply(other, "add", "revision") is other
    with pytest.raises(InputError, match="another Library"):
        made.check(JudgeIdentity("some judge", "revision", "pairwise", "1" * 64))


def test_too_few_labels_give_no_calibration() -> None:
    with pytest.raises(InputError, match="at least 20 preferences"):
        fit_calibration(rows(12), IDENTITY, DATA, people=True)


def test_a_file_is_read_back_and_a_wrong_one_is_refused(made: ConfidenceCalibration, tmp_path: Path) -> None:
    path = tmp_path / "calibration.json"
    path.write_text(json.dumps(made.to_json()))
    assert load_calibration(path) == made and load_calibration(path).id == made.id
    for wrong in ({}, {**made.to_json(), "curves": {}}, {**made.to_json(), "judge": 5}):
        path.write_text(json.dumps(wrong))
        with pytest.raises(DataError, match="is not a calibration"):
            load_calibration(path)


def test_the_package_calibrates_the_built_in_judge_with_the_built_in_library() -> None:
    library = open_library("builtin")
    shipped = shipped_calibration()
    assert shipped.judge_revision == MeasuredJudge().revision, f"make {SHIPPED} again"
    assert not shipped.mismatch(JudgeIdentity.of(MeasuredJudge(), library)), f"make {SHIPPED} again"
    assert shipped.after.error <= 0.08
    judge = open_judge(MEASURED, Settings.from_env({}))
    assert judge.calibration == shipped


def test_the_calibration_travels_in_the_release(made: ConfidenceCalibration, tmp_path: Path) -> None:
    library = open_library("builtin")
    shipped = shipped_calibration()
    release = make_release(MEASURED, library)
    assert release.calibration == shipped
    save_release(release, tmp_path / "release.json")
    assert load_release(tmp_path / "release.json").calibration == shipped
    steeper = replace(shipped, curves={ALL_KINDS: Curve(0.0, 3.0, 40)})
    other = make_release(MEASURED, library, calibration=steeper)
    assert other.id != release.id
    with pytest.raises(InputError, match="another judge"):
        make_release(MEASURED, library, calibration=made)


def test_a_release_takes_the_usual_calibration_where_it_fits() -> None:
    library, shipped = open_library("builtin"), shipped_calibration()
    mine = replace(shipped, curves={ALL_KINDS: Curve(0.1, 1.0, 25)})
    assert make_release("measured", library).calibration == shipped
    assert make_release("measured", library, usual=mine).calibration == mine
    other = replace(mine, judge="vllm:some/model")
    assert make_release("measured", library, usual=other).calibration == shipped
    assert make_release("scripted:replies.jsonl", library, usual=mine).calibration is None
