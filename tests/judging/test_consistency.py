"""The optional third score: asked for by name, measured, and without effect on the reward unless it has a weight."""

import json
from dataclasses import replace

import numpy as np
import pytest
from judge_parts import agent, ask, edit, judge_one, message, requests_of, text_of

from rewardharness.errors import InputError
from rewardharness.judging.consistency import ConsistencyJudge
from rewardharness.judging.measured import MeasuredJudge
from rewardharness.judging.model_config import ModelJudgeConfig
from rewardharness.judging.opening import open_judge
from rewardharness.judging.release import make_release
from rewardharness.judgments import judgment_from_json, judgment_json, judgment_row
from rewardharness.library.entry import Entry
from rewardharness.library.opening import open_library
from rewardharness.library.rubric import Criterion, Rubric
from rewardharness.library.store import Library
from rewardharness.schema import Example, ImageInput, Judgment, Scores
from rewardharness.serving.results import JudgedEdit

THREE = {"instruction": 4, "quality": 3, "consistency": 2}


@pytest.fixture(scope="module")
def example() -> Example:
    """A square made red, in B together with a change that nobody asked for."""
    random = np.random.default_rng(1)
    source = random.integers(90, 150, (128, 128, 3)).astype(np.uint8)
    right = source.copy()
    right[40:90, 40:90] = np.clip(random.normal((205, 35, 40), 4, (50, 50, 3)), 0, 255)
    over = right.copy()
    over[:30] //= 3
    images = [ImageInput.of(pixels, name) for name, pixels in (("s", source), ("a", right), ("b", over))]
    return Example("x", "Make the square red.", images[0], tuple(images[1:]))


def same_but_third(one: Judgment, other: Judgment) -> bool:
    scores = {label: replace(each, consistency=None) for label, each in one.scores.items()}
    return replace(one, scores=scores, usage=other.usage) == other


def test_the_pixel_based_judge_measures_it_and_nothing_else_changes(example: Example) -> None:
    library, usual, third = open_library("builtin"), MeasuredJudge(), ConsistencyJudge(0.0)
    plain, scored = judge_one(usual, example, library), judge_one(third, example, library)
    assert same_but_third(scored, plain) and third.revision == usual.revision
    right, over = (scored.scores[label].consistency for label in "AB")
    assert right is not None and over is not None and right > 3.5 and over < right - 0.2
    assert judgment_from_json(judgment_json(scored)).scores == {
        label: replace(each, evidence=None) for label, each in scored.scores.items()
    }
    assert judgment_row(example, scored)["consistency_A"] == right and "consistency 1-4" in scored._repr_html_()
    assert JudgedEdit(scored).item(0, None, "A").consistency == right
    assert "consistency" not in json.dumps(judgment_json(plain)["scores"]) + plain._repr_html_()
    weighted = judge_one(ConsistencyJudge(0.5), example, library)
    assert weighted.scores["A"].reward > plain.scores["A"].reward  # type: ignore[operator]
    assert ConsistencyJudge(0.5).revision != usual.revision
    opened = open_judge("measured+consistency=0", no_cache=True)
    calibrated = judge_one(opened, example, library)
    assert isinstance(opened, ConsistencyJudge) and calibrated.scores == scored.scores
    assert calibrated.calibration is not None and calibrated.calibration.same_revision
    for spec in ("measured+consistency=2", "ssim+consistency=0", "firm-edit:NAME@http://h/v1+consistency=0"):
        with pytest.raises(InputError):
            open_judge(spec)
    with pytest.raises(InputError, match="weight of consistency"):
        make_release("measured", library, ModelJudgeConfig(consistency=0.5))


@pytest.mark.parametrize("protocol", ["pointwise", "direct", "chain"])
def test_a_model_is_asked_for_it_by_name_and_only_then(protocol: str) -> None:
    reply = json.dumps(THREE if protocol == "pointwise" else {"preference": "A", "scores": {"A": THREE, "B": THREE}})
    reply = f"<answer>{reply}</answer>" if protocol == "chain" else reply
    judge = agent(reply, protocol=protocol, consistency=0.0)
    found = ask(judge, edit(120, 200))
    assert found.failure is None, message(found)
    assert found.scores["A"].consistency == 2.0 and "consistency 0" in found.protocol
    assert all('"consistency": 1-4' in text or "third score" in text for text in map(system_of, requests_of(judge)))
    plain = agent(reply, protocol=protocol)
    usual = ask(plain, edit(120, 200))
    assert usual.scores["A"] == Scores(4.0, 3.0, found.scores["A"].reward)
    assert not any("consistency" in system_of(request) for request in requests_of(plain))
    weighted = ask(agent(reply, protocol=protocol, consistency=0.5), edit(120, 200))
    assert weighted.scores["A"].reward < usual.scores["A"].reward  # type: ignore[operator]
    missing = ask(agent(reply.replace("consistency", "other"), protocol=protocol, consistency=0.0), edit(120, 200))
    assert not missing.scores


def system_of(request: object) -> str:
    return text_of(request.messages[0])  # type: ignore[attr-defined]


def test_a_criterion_of_a_rubric_gives_it_and_not_the_reward() -> None:
    known = (Criterion("done", "It is brighter."), Criterion("fine", "It is clean.", dimension="quality"))
    third = Criterion("kept", "The rest is the same.", dimension="consistency")

    def judged(*criteria: Criterion) -> Scores:
        entry = Entry("all", "skill", "All edits.", "Look.", {"triggers": "always"}, rubric=Rubric(criteria))
        grades = {f"c{number}": 4 - number for number, _ in enumerate(criteria)}
        reply = json.dumps({f"c{number}": grade for number, grade in enumerate(grades.values(), 1)})
        return ask(reply, edit(120, 200), Library((entry,)), protocol="rubric").scores["A"]

    two, three = judged(*known), judged(*known, third)
    assert two.consistency is None and three == replace(two, consistency=pytest.approx(2.0, abs=0.05))
