import json
import random
from dataclasses import replace
from pathlib import Path

import pytest
from bench_parts import baseline, entry, job, judged, made, number, opened, pixels
from synthetic import MAKERS, Pixels, edit, editreward_bench, editreward_rows, png

from rewardharness.benchmark.report import markdown, report_page
from rewardharness.benchmark.result import read_result
from rewardharness.benchmark.run import read_judgments
from rewardharness.benchmark.task import list_tasks
from rewardharness.benchmark.thresholds import fit_rules, read_rules, write_rules
from rewardharness.errors import DataError
from rewardharness.files import append_jsonl, read_json
from rewardharness.judging.baselines import BaselineJudge
from rewardharness.judging.interface import unjudged
from rewardharness.library.opening import open_library
from rewardharness.library.store import EMPTY, Library
from rewardharness.runs.job import Session
from rewardharness.runs.store import RESULTS, results_of
from rewardharness.schema import TIE, Example, Failure, Judgment

ALL = [(task.name, protocol) for task in list_tasks() if task.name in MAKERS for protocol in task.protocols]


@pytest.mark.parametrize(("name", "protocol"), ALL)
def test_a_perfect_judge_gets_all_and_one_upside_down_nothing(name: str, protocol: str, tmp_path: Path) -> None:
    data = made(name, tmp_path, protocol)
    right, wrong = judged(data, [pixels(), pixels("baseline", upside_down=True)], tmp_path / "run").rows
    assert right.coverage == wrong.coverage == 1.0
    assert {each.metric for each in right.numbers} == set(data.task.metrics)
    for each in right.numbers:
        assert each.value == 1.0 and each.judged == each.n > 0, each.name
        assert each.interval is None or each.interval[0] < 1.0, "an interval of nothing but right answers"
    for each in wrong.numbers:
        if each.metric == "spearman":
            assert each.value == -1.0
        elif TIE not in each.labels:
            assert each.value == 0.0 or (each.part == "all" and each.value < 0.5), each.name
        elif each.metric == "exact" and "both bad" not in each.labels:  # a tie is a tie upside down too
            mine = [q for q in data.questions if q.part == each.part and each.dimension in ("", q.dimension)]
            assert each.value == pytest.approx(sum(q.truth in (TIE, "both bad") for q in mine) / each.n)


@pytest.mark.parametrize("name", [name for name, protocol in ALL if protocol == "both-orders"])
def test_whoever_always_prefers_the_first_gets_chance_when_both_orders_are_asked(name: str, tmp_path: Path) -> None:
    data = made(name, tmp_path, "both-orders")
    [row] = judged(data, [baseline("always-a")], tmp_path / "run").rows
    assert row.both_orders.consistency == 0.0
    for part in data.parts:
        truths = [each.truth for each in data.questions if each.part == part.name]
        half = sum(truth in ("A", "B") for truth in truths) / 2
        mine = [each for each in row.numbers if (each.part, each.dimension, each.metric) == (part.name, "", "exact")]
        assert mine and all(each.value * len(truths) == pytest.approx(half) for each in mine)


@pytest.mark.parametrize(("name", "labels", "published"), [("genai-bench", 4, 25.90), ("aurora-bench-pairs", 3, 33.43)])
def test_a_random_judge_gets_the_published_random_row_on_pairs(
    name: str, labels: int, published: float, tmp_path: Path
) -> None:
    data = made(name, tmp_path, n=400)

    class AnyLabel(BaselineJudge):
        """Draws one of all labels; both bad as a tie of low scores."""

        async def judge(self, example: Example, library: Library) -> Judgment:
            drawn = random.Random(example.id).randrange(labels)
            judgment = await super().judge(replace(example, id=f"{example.id}!"), library)
            reward, choice = 0.9 if drawn < 3 else 0.1, ("A", "B", TIE, TIE)[drawn]
            scores = {label: replace(score, reward=reward) for label, score in judgment.scores.items()}
            return replace(judgment, example_id=example.id, preference=choice, ties_offered=True, scores=scores)

    result = judged(data, [entry(lambda ties: AnyLabel("random", ties))], tmp_path / "run")
    part = data.parts[0]
    low, high = number(result, part.name, "exact", labels=part.labels).interval
    assert low <= published / 100 <= high


def test_a_judge_that_fails_on_a_tenth_counts_no_group_with_a_failed_pair(tmp_path: Path) -> None:
    data = made("editreward-bench", tmp_path, n=(20, 10, 5))
    failing = list(data.items)[::10]
    result = judged(data, [pixels(fails=failing)], tmp_path / "run")
    [row] = result.rows
    assert (len(data.items), row.items, row.coverage) == (80, 80, 0.9)
    assert row.failures == {"timeout": 8}
    torn = {question.group for question in data.questions if question.asks[0][0] in failing and question.group}
    for part, n in (("K=3", 10), ("K=4", 5)):
        each, lost = number(result, part, "groups"), sum(group.startswith(part) for group in torn)
        assert (each.n, each.judged) == (n, n - lost) and 0 < lost < n
        assert each.value == pytest.approx((n - lost) / n), "a failed pair never makes its group right"
        assert number(result, part, "exact").value == 1.0, "nor is it a wrong answer or a tie"


def test_ties_are_offered_where_the_labels_have_them_and_nowhere_else(tmp_path: Path) -> None:
    judges = {ties: Pixels(ties=ties) for ties in (True, False)}
    judged(made("editreward-bench", tmp_path), [entry(judges.__getitem__)], tmp_path / "run")
    assert {each.id[:3] for each in judges[True].seen} == {"K=2"}
    assert {each.id[:3] for each in judges[False].seen} == {"K=3", "K=4"}


def test_a_ranking_is_read_as_pairs_and_a_candidate_of_many_rows_is_judged_once(tmp_path: Path) -> None:
    judge = Pixels()
    result = judged(made("editreward-bench", tmp_path, "ranking"), [entry(lambda ties: judge)], tmp_path / "run")
    assert sum(len(each.candidates) == 4 for each in judge.seen) == 5
    assert number(result, "K=4", "groups").chance == pytest.approx(1 / 24)
    data = made("editreward-bench", tmp_path, "pointwise")
    assert sum(name.startswith("K=4/") for name in data.items) == 20, "four candidates a group, in six pairs"
    assert all(len(item.example.candidates) == 1 for item in data.items.values())


def test_a_run_that_was_cut_short_goes_on_and_comes_to_the_same(tmp_path: Path) -> None:
    data, judge = made("editreward-bench", tmp_path), Pixels(ties=True)
    whole, _ = (judged(data, [entry()], tmp_path / name) for name in ("whole", "cut"))
    file = tmp_path / "cut" / RESULTS
    lines = file.read_text(encoding="utf-8").splitlines(keepends=True)
    file.write_text("".join(lines[:30]) + lines[30][:40], encoding="utf-8")  # as a kill leaves it: a torn line
    resumed = job(data, [entry(lambda ties: judge)], tmp_path / "cut")
    assert (resumed.cost().known, resumed.cost(restart=True).known) == (30, 0)
    again = resumed.run().result
    assert len(judge.seen) == len(data.items) - 30
    assert again == replace(whole, rows=(replace(whole.rows[0], usage=again.rows[0].usage),))


def test_others_are_added_to_a_run_without_judging_again(tmp_path: Path) -> None:
    data, judge = made("vcreward-bench", tmp_path), Pixels(ties=True)
    judged(data, [entry()], tmp_path / "run")
    two = judged(data, [entry(lambda ties: judge), baseline("random", "baseline")], tmp_path / "run")
    assert [row.name for row in two.rows] == ["pixels", "random (baseline)"] and not judge.seen
    three = judged(data, [entry(), baseline("always-a", "baseline")], tmp_path / "run")
    assert [row.name for row in three.rows] == ["pixels", "always-a (baseline)", "random (baseline)"]


def test_what_failed_by_its_input_is_judged_again_when_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("synthetic.FAILED", Failure("refused", "No."))
    data = made("vcreward-bench", tmp_path)
    judged(data, [pixels(fails=list(data.items)[:3])], tmp_path / "run")
    well = Pixels()
    well.name = "pixels failing"  # the same judge, whose server is back
    for retry, asked, coverage in ((False, 0, 17 / 20), (True, 3, 1.0)):
        job(data, [entry(lambda ties: well)], tmp_path / "run", 1).run(Session(retry_failed=retry))
        assert len(well.seen) == asked
        assert read_result(tmp_path / "run").rows[0].coverage == coverage


def test_the_same_judge_without_a_library_stands_beside_it(tmp_path: Path) -> None:
    class Reader(Pixels):
        """Judges by its Library alone: without one it has nothing to say."""

        async def judge(self, example: Example, library: Library) -> Judgment:
            if not library.entries:
                return unjudged(example, self, library, Failure("nothing_to_measure", "No Library."))
            return await super().judge(example, library)

    data = made("vcreward-bench", tmp_path)
    library = open_library("builtin")
    who = entry(lambda ties: Reader(), library=library, name="builtin")
    result = judged(data, [who, entry(lambda ties: Reader(), "empty")], tmp_path / "run")
    assert [(row.coverage, row.library_id) for row in result.rows] == [(1.0, library.id), (0.0, EMPTY.id)]
    assert number(result, "all", "exact", 1).value is None, "no judgment is no wrong answer"
    [against] = result.rows[1].against
    assert against.judged_by_both == 0 and against.gain is None


def test_human_scores_are_correlated_per_editor_and_people_stand_beside(tmp_path: Path) -> None:
    result = judged(made("imagenhub", tmp_path), [entry()], tmp_path / "run")
    [each] = result.rows[0].numbers
    assert set(each.detail.editors) == {"Alpha", "Beta", "Gamma"}
    assert each.n == 27 and result.references["rater 1 against the others"] == 1.0


def test_a_dimension_is_compared_with_the_score_that_speaks_to_it(tmp_path: Path) -> None:
    class Backwards(Pixels):
        """Follows instructions well where the reward says it is bad."""

        async def judge(self, example: Example, library: Library) -> Judgment:
            judgment = await super().judge(example, library)
            scores = judgment.scores.items()
            turned = {label: replace(each, instruction=5 - (each.instruction or 0)) for label, each in scores}
            return replace(judgment, scores=turned)

    result = judged(made("editscore-bench", tmp_path), [entry(lambda ties: Backwards())], tmp_path / "run")
    assert number(result, "all", "macro", dimension="prompt_following").value == 0.0
    assert number(result, "all", "macro", dimension="overall").value == 1.0


def development(tmp_path: Path, first: int, n: int) -> Path:
    """Pairs whose scores differ by little where people see a tie, with source images of their own."""
    rows = []
    for place in range(n):
        level, known = 5 + place % 10, editreward_rows(2, 1)[0]
        row = {**known, "id": f"{first + place:05d}", "instruction": f"dev {first + place}"}
        row |= {"source_image": png(0, 100 + (first + place) % 100), "candidate_1": edit(level)}
        row["candidate_2"] = edit(level + (1 if place % 2 else 5))
        rows.append({**row, "ranking": "A=B" if place % 2 else "B>A"})
    return editreward_bench(tmp_path / f"from-{first}-{n}", k2=rows)


def test_thresholds_are_fitted_on_other_data_and_stand_beside(tmp_path: Path) -> None:
    data, other = (opened(tmp_path, development(tmp_path, first, n)) for first, n in ((0, 20), (50, 30)))
    who = [entry()]
    plain = judged(data, who, tmp_path / "run")
    assert number(plain, "K=2", "exact").value == 0.5, "its own ties are only what is exactly level"
    judged(other, who, tmp_path / "run" / "development")
    rules, notes = fit_rules(data, other, who, read_judgments(tmp_path / "run" / "development"))
    write_rules(tmp_path / "run", rules, notes)
    assert read_rules(tmp_path / "run") == (rules, notes)
    result = read_result(tmp_path / "run")
    fitted = number(result, "K=2", "fitted")
    assert fitted.value == 1.0 and "threshold of ties fitted on other pairs" in fitted.name
    assert result.fitted[0].startswith("Thresholds of ties were fitted on")
    [rule] = rules[result.rows[0].key].values()
    row = ("K=2", f"{rule.threshold:.4g}", f"30 pairs, {rule.digest[:12]}", "30 of 30")
    for text in (markdown(result), report_page(result)):
        assert [each for each in ("Thresholds of ties", *row, result.fitted[0]) if each not in text] == []
    assert "Thresholds of ties" not in markdown(plain) + report_page(plain)
    assert number(result, "K=2", "tuned").value == 1.0
    (tmp_path / "run" / "rules.json").write_text('{"rules": 3}', encoding="utf-8")
    with pytest.raises(DataError, match=r"rules\.json"):
        read_result(tmp_path / "run")


def test_a_line_of_a_judgment_holds_what_reports_and_comparisons_need(tmp_path: Path) -> None:
    data = made("vcreward-bench", tmp_path)
    judged(data, [entry()], tmp_path / "run")
    line = next(iter(results_of(tmp_path / "run").values()))
    said = {"preference", "margin", "confidence", "scores", "ranking", "failure", "position_consistent"}
    assert line.keys() >= {"contender", "item", *said}
    assert {each["item"] for each in results_of(tmp_path / "run").values()} == set(data.items)
    assert read_json(tmp_path / "run" / "contenders.json")[0]["library"] == "no Library"
    append_jsonl(tmp_path / "run" / RESULTS, {"id": "stray"})
    assert read_result(tmp_path / "run").rows[0].coverage == 1.0


def test_an_image_that_is_missing_is_a_failure_of_its_pair_alone(tmp_path: Path) -> None:
    table = MAKERS["vcreward-bench"](tmp_path / "data") / "metadata.jsonl"
    lines = table.read_text("utf-8").splitlines()
    row = json.loads(lines[0])
    row["edited_images"][0] = "images/gone.png"
    table.write_text("\n".join([json.dumps(row), *lines[1:]]) + "\n", encoding="utf-8")
    data = opened(tmp_path, table.parent, "vcreward-bench")
    assert [(each.code, each.n) for each in data.problems if each.part == "all"] == [("missing image", 1)]
    result = judged(data, [baseline("closer")], tmp_path / "run")
    assert result.rows[0].failures == {"image": 1}
    assert number(result, "all", "exact").judged == 19
