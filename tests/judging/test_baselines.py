"""Baselines answer by what they say they answer by, and get what chance gets where they know nothing."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
from judge_parts import code, judge_one

from rewardharness.errors import InputError
from rewardharness.judging.baselines import BASELINES, Baseline, BaselineJudge
from rewardharness.judging.evaluate import evaluate
from rewardharness.judging.opening import open_judge
from rewardharness.library.opening import open_library
from rewardharness.library.store import EMPTY
from rewardharness.schema import Example, ImageInput, Usage
from rewardharness.settings import Settings

PIXELS = np.random.default_rng(3).integers(90, 110, (24, 24, 3))
IMAGES = {level: ImageInput.of((PIXELS + level).astype(np.uint8), str(level)) for level in (0, 5, 20, 60, 120)}


def example(*levels: int, name: str = "x", label: str | None = None) -> Example:
    return Example(name, "make it red", IMAGES[0], tuple(IMAGES[level] for level in levels), label, "made")


@pytest.mark.parametrize(
    ("kind", "ranking"), [("closer", "BDCA"), ("ssim", "BDCA"), ("farther", "ACDB"), ("always-a", "A")]
)
def test_they_rank_by_what_they_say(kind: Baseline, ranking: str) -> None:
    judgment = judge_one(BaselineJudge(kind), example(120, 5, 60, 20))
    assert judgment.preference == ranking[0]
    assert judgment.ranking == ((("A",), ("B", "C", "D")) if kind == "always-a" else tuple(zip(ranking, strict=True)))
    first, second = judgment.ranking[0][0], judgment.ranking[1][0]
    assert judgment.margin == judgment.scores[first].reward - judgment.scores[second].reward
    assert all(0 <= each.reward <= 1 for each in judgment.scores.values())
    assert judgment.position_consistent is (kind != "always-a")
    assert (judgment.protocol, judgment.judge, judgment.entries) == (f"baseline:{kind}", f"{kind} (baseline)", ())


@pytest.mark.parametrize("kind", BASELINES)
@pytest.mark.parametrize("count", [1, 2, 4])
def test_the_same_question_gets_the_same_answer_and_no_library_matters(kind: Baseline, count: int) -> None:
    asked = example(*(120, 5, 60, 20)[:count])
    judge = open_judge(kind, Settings.from_env())
    first, second = judge_one(judge, asked), judge_one(BaselineJudge(kind), asked)
    assert replace(first, usage=Usage()) == replace(second, usage=Usage())
    third = judge_one(judge, asked, open_library("builtin"))
    assert (third.scores, third.ranking) == (first.scores, first.ranking) and first.judged
    assert third.library_id == open_library("builtin").id
    if count == 1:
        assert first.preference is first.margin is first.position_consistent is None
        assert first.scores.keys() == {"A"}


@pytest.mark.parametrize("kind", ["closer", "farther", "ssim"])
def test_pixels_alone_make_a_reward(kind: Baseline) -> None:
    pair, swapped, alone = (judge_one(BaselineJudge(kind), example(*each)).scores for each in ((60, 5), (5, 60), (60,)))
    assert pair["A"] == swapped["B"] == alone["A"]
    level = judge_one(BaselineJudge(kind), example(20, 20))
    assert (level.preference, level.margin, level.ties_offered) == ("tie", 0.0, False)


@pytest.mark.parametrize("ties", [False, True])
@pytest.mark.parametrize("count", [2, 4])
def test_chance_is_even_over_the_labels(count: int, ties: bool) -> None:
    judge = BaselineJudge("random", ties)
    examples = [example(*(5, 20, 60, 120)[:count], name=f"e{number}") for number in range(900)]
    said = Counter(judgment.preference for _, judgment in evaluate(judge, EMPTY, examples))
    answers = [*"ABCD"[:count], *(["tie"] if ties else [])]
    assert set(said) == set(answers)
    assert max(abs(said[each] / 900 - 1 / len(answers)) for each in answers) < 0.05


def test_chance_hangs_on_the_id_alone() -> None:
    judge = BaselineJudge("random")
    for name in ("e1", "e2", "e3"):
        one, other = (judge_one(judge, example(*levels, name=name)) for levels in ((5, 60), (120, 20)))
        assert one.scores == other.scores
    found = {judge_one(judge, example(5, 60, name=f"e{number}")).scores["A"].reward for number in range(20)}
    assert len(found) == 20


def test_trouble_is_no_judgment() -> None:
    broken = Example("x", "make it red", IMAGES[0], (IMAGES[5], ImageInput("torn", data=b"\x89PNG\r\n\x1a\n")))
    assert code(judge_one(BaselineJudge("closer"), broken)) == "image"
    for kind in BASELINES:
        assert code(judge_one(BaselineJudge(kind), replace(broken, instruction=" "))) == "input"


def test_each_baseline_has_a_revision_of_its_own() -> None:
    judges = [BaselineJudge(kind, ties) for kind in BASELINES for ties in (False, True)]
    assert len({judge.revision for judge in judges}) == len(judges)
    assert open_judge("ssim", Settings.from_env(), ties=True) == BaselineJudge("ssim", True)


def test_a_misspelt_baseline_is_told_the_right_ones() -> None:
    with pytest.raises(InputError) as caught:
        open_judge("randon", Settings.from_env())
    assert all(kind in caught.value.next_step for kind in BASELINES)
