"""Why a run gained nothing: the likeliest reason comes first, with its numbers and a next step."""

from dataclasses import replace
from pathlib import Path

import pytest
from small_world import evolved

from rewardharness.data.source import VoterAgreement
from rewardharness.evolution.diagnosis import diagnose, examples_for, likely_causes
from rewardharness.evolution.gate import Evidence, detectable_gain
from rewardharness.evolution.held_out import HeldOutComparison, Score
from rewardharness.evolution.joint.step import POLICY

GOOD, CHANCE = Score(75, 75, 0.7, (0.6, 0.8)), Score(75, 75, 0.5, (0.4, 0.6))


def evidence(fixes: int, breaks: int, judged: int = 75, policy: str = "sign test") -> Evidence:
    return Evidence("reject", "", policy, fixes, breaks, judged - fixes - breaks, judged=judged)


def fit(fixes: int, breaks: int) -> Evidence:
    return evidence(fixes, breaks, policy=POLICY)


@pytest.mark.parametrize(
    ("start", "tests", "titles", "words"),
    [
        (GOOD, [evidence(7, 1, 45)], ["There are too few examples"], "Label about 4"),
        (GOOD, [evidence(2, 1, 45)], ["The best idea is within the noise"], "It may be chance"),
        (GOOD, [fit(2, 5)], ["The criteria do not see what decides"], "-4 points (95% CI"),
        (GOOD, [fit(0, 0)], ["The criteria do not see what decides"], "no verdict on 75 examples changes"),
        (CHANCE, [fit(9, 8)], ["The labels look random to these criteria", "The best idea is within the noise"], "50%"),
        (Score(9, 9, 0.6, (0.3, 0.8)), [], ["There are too few examples"], "9 training examples"),
        (Score(75, 75, 0.97, (0.9, 1.0)), [fit(0, 0)], ["Little is left to gain"], "97%"),
    ],
)
def test_the_likeliest_reason_comes_first(start: Score, tests: list[Evidence], titles: list[str], words: str) -> None:
    causes = likely_causes(start, tests, judge="measured (no VLM)")
    assert [cause.title for cause in causes] == titles
    assert words in f"{causes[0].text} {causes[0].step}"
    assert likely_causes(start, tests, contradictions=["a and b differ."])[0].title == "Labels contradict each other"


@pytest.mark.parametrize("gain", [0.02, 0.05, 0.1, 0.3])
def test_the_number_of_examples_is_what_shows_the_gain(gain: float) -> None:
    n = examples_for(gain)
    assert detectable_gain(n) <= gain < detectable_gain(n - 1) * 1.01


def test_a_report_says_why_unless_it_shows_a_gain(tmp_path: Path) -> None:
    report = evolved(tmp_path)
    held_out, library = report.audit, report.library
    assert library.tried_id != library.start_id and diagnose(report) == []
    few = replace(held_out, final_against_start=HeldOutComparison(10, 2, 1, 0.1, (-0.2, 0.4), 1.0))
    assert "10 held-out examples" in diagnose(replace(report, audit=few))[0].text
    undone = diagnose(replace(report, library=replace(library, final_id=library.start_id)))
    assert undone[0].title == "The edits fit the training examples only"
    null = replace(report, library=replace(library, tried_id=library.start_id, final_id=library.start_id))
    noisy = diagnose(replace(null, people=VoterAgreement(0.6, 40), contradictions=("p1 and p2 contradict.",)))
    assert noisy[0].title == "Labels contradict each other" and "60% of the edits (n 40)" in str(noisy)
