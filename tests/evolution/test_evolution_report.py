import re
from dataclasses import replace
from html import unescape
from pathlib import Path
from typing import Any

import pytest
from small_world import ListOrchestrator, evolved, make_dataset, make_plan

from rewardharness.codec import to_json
from rewardharness.data.source import VoterAgreement
from rewardharness.evolution.diagnosis import diagnose, examples_for, likely_causes
from rewardharness.evolution.gate import Evidence, detectable_gain
from rewardharness.evolution.held_out import HeldOutComparison, HeldOutReport, Score, samples_for
from rewardharness.evolution.joint.step import POLICY
from rewardharness.evolution.loop import evolve
from rewardharness.evolution.proposal import Outcome
from rewardharness.evolution.report import EvolutionReport, Puzzle, read_report
from rewardharness.evolution.report_page import headline, report_page
from rewardharness.evolution.schedules import PaperSchedule
from rewardharness.library.store import EMPTY
from rewardharness.schema import Failure, Judgment

HOSTILE = "<script>alert(1)</script><img src=http://evil.example/x onerror=alert(2)>\"'&"


@pytest.fixture(scope="module")
def report(tmp_path_factory: pytest.TempPathFactory) -> EvolutionReport:
    home = tmp_path_factory.mktemp("report")
    report = evolve(make_plan(home)[0], home / "run")
    assert read_report(home / "run") == report, "nothing is lost in the file"
    return report


def outcomes(*credits: float | None) -> list[Outcome]:
    examples = make_dataset(3).examples
    made = []
    for example, credit in zip(examples, credits, strict=False):
        failure = Failure("timeout", "Slow.") if credit is None else None
        said = None if credit is None else "A"
        made.append(Outcome(example, Judgment(example.id, "j", "p", "l", said, failure=failure), credit or 0.0))
    return made


def test_failures_lower_coverage_and_not_accuracy() -> None:
    score = Score.of(outcomes(1, 0, None, 0.5, 1))
    assert (score.n, score.judged, score.accuracy) == (5, 4, 0.625)
    assert score.interval is not None and score.interval[0] < 0.625 < score.interval[1]
    assert Score.of(outcomes(None)) == Score(1, 0, None, None)


def test_two_judges_are_compared_where_both_judged() -> None:
    found = HeldOutComparison.of(outcomes(1, 1, None, 0, 1), outcomes(0, 1, 0, None, 1))
    assert (found.n, found.fixes, found.breaks) == (3, 1, 0)
    assert found.p == 1.0 and found.gain == pytest.approx(1 / 3)
    assert HeldOutComparison.of([], []).gain is None


def test_the_file_omits_what_was_not_judged() -> None:
    judged = tuple(outcomes(1, 0))
    assert list(to_json(HeldOutReport.of(judged, judged, (), skipped="why"))["ensemble"]) == ["skipped"]
    found = to_json(HeldOutReport.of(judged, judged, judged, ensemble=judged, samples=4))
    assert list(found["ensemble"]) == ["n", "judged", "accuracy", "interval", "samples"]
    names = "n final start empty final_against_start final_against_empty ensemble final_against_ensemble"
    assert list(found) == names.split()


def read(page: str) -> tuple[str, str]:
    """The text of a page, and its tags."""
    return unescape(re.sub(r"<[^>]*>", "", page)), " ".join(re.findall(r"<[^>]*>", page))


def test_the_page_says_what_the_report_says(report: EvolutionReport) -> None:
    page = report_page(report)
    text, tags = read(page)
    assert all(words in text for words in (headline(report), "100.0%", "50.0%", "Self-ensembling", "rejected"))
    assert text.count("accepted") >= 2 and "People agree" not in text
    assert all(tag in tags for tag in ("<svg", "<table", "<style"))
    assert not re.search(r"<script|\b(src|href|on\w+)=", tags), "it loads nothing and runs nothing"
    assert "prefers-color-scheme: dark" in page and "url(" not in page
    told, _ = read(report_page(replace(report, people=VoterAgreement(0.75, 8))))
    assert "People agree with each other on 75% (95% CI 41% to 93%, n 8)" in told


def test_foreign_text_stays_text(report: EvolutionReport) -> None:
    texts: dict[str, Any] = dict.fromkeys(("statement", "operator"), HOSTILE)
    texts |= dict.fromkeys(("names", "cited"), (HOSTILE,))
    told = {"reason": HOSTILE, "fixed": (HOSTILE,)}
    edits = (replace(edit, **texts, evidence=replace(edit.evidence, **told)) for edit in report.edits)
    spoilt = replace(
        report,
        run=replace(report.run, data_name=HOSTILE, judge=HOSTILE, orchestrator=HOSTILE, protocol=HOSTILE),
        ending=HOSTILE,
        skipped_rows={"n": 1, "first": [{"place": HOSTILE, "reason": HOSTILE}]},
        edits=tuple(edits),
        by_category=(replace(report.by_category[0], name=HOSTILE),),
        puzzles=(Puzzle(HOSTILE, HOSTILE, HOSTILE, "", 2),),
    )
    text, tags = read(report_page(spoilt))
    assert not re.search(r"<script|<img|\b(src|href|on\w+)=", tags) and text.count("alert(1)") >= 10


def test_what_is_foreseen_is_about_what_comes(tmp_path: Path, report: EvolutionReport) -> None:
    plan, _ = make_plan(tmp_path)
    cost = plan.estimate
    assert cost.begin == 36 and cost.audit == 36 and cost.ensemble == 0 and cost.requests == 1
    assert cost.begin <= report.spent.judgments <= 2 * (cost.begin + cost.search)
    assert "Expected: about 2 min and" in cost.words(130.0)
    paper, _ = make_plan(tmp_path, schedule=PaperSchedule(iterations=2), library=EMPTY)
    gate, read_both_ways = 14, 44
    assert paper.estimate.begin + paper.estimate.search == gate + read_both_ways + 2 * (read_both_ways + 2 * gate)
    assert [samples_for(*numbers) for numbers in ((200, 25), (10, 25), (10_000, 25), (100, 0))] == [8, 2, 16, 0]


def test_examples_that_no_version_got_right_are_listed(tmp_path: Path) -> None:
    puzzles = evolved(tmp_path, orchestrator=ListOrchestrator([])).puzzles
    assert {each.category for each in puzzles} == {"cat", "dog"} and len(puzzles) == 18
    assert all(re.match(r"make (cat|dog)", each.instruction) for each in puzzles)


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


def test_a_report_says_why_unless_it_shows_a_gain(report: EvolutionReport) -> None:
    held_out, library = report.audit, report.library
    assert library.tried_id != library.start_id and diagnose(report) == []
    few = replace(held_out, final_against_start=HeldOutComparison(10, 2, 1, 0.1, (-0.2, 0.4), 1.0))
    assert "10 held-out examples" in diagnose(replace(report, audit=few))[0].text
    undone = diagnose(replace(report, library=replace(library, final_id=library.start_id)))
    assert undone[0].title == "The edits fit the training examples only"
    null = replace(report, library=replace(library, tried_id=library.start_id, final_id=library.start_id))
    noisy = diagnose(replace(null, people=VoterAgreement(0.6, 40), contradictions=("p1 and p2 contradict.",)))
    assert noisy[0].title == "Labels contradict each other" and "60% of the edits (n 40)" in str(noisy)
