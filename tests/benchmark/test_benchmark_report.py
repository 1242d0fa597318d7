import html
import json
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from bench_parts import baseline, entry, judged, made, made_anew, number, opened, pixels, settings
from markdown_it import MarkdownIt
from synthetic import Pixels, editreward_bench, editreward_rows

from rewardharness.benchmark.comparison import compare_runs
from rewardharness.benchmark.figures import figure, headline, make_facts
from rewardharness.benchmark.loading import open_benchmark
from rewardharness.benchmark.numbers import NumberFacts
from rewardharness.benchmark.report import markdown, report_page, write_report
from rewardharness.benchmark.result import BenchmarkResult, CountedPart, OrderConsistency, parse_result, read_result
from rewardharness.benchmark.task import open_task
from rewardharness.errors import InputError, LibraryError, RunError
from rewardharness.library.card import CardSubject, make_card
from rewardharness.library.opening import open_library
from rewardharness.library.store import EMPTY
from rewardharness.schema import Accuracy

HOSTILE = '<script>alert("x")</script>[link](https://evil.example) | `cell`'
WORDS = {"text", "text_special", "softbreak"}
LOADS = re.compile(r"<[^>]+\s(?:src|href|on\w+)=")
"""An attribute that loads or runs something."""
CELL = re.compile(r"(?<!\\)\|")


def run(folder: Path, fails: int = 0) -> BenchmarkResult:
    """A run with a judge, the same without a Library, and two baselines."""
    data = made_anew("editreward-bench", folder)
    failing = list(data.items)[:fails]
    first = entry(lambda ties: Pixels(ties=ties, fails=failing), library=open_library("builtin"), name="builtin")
    others = [pixels("empty", fails=failing), baseline("random", "baseline"), pixels("baseline", upside_down=True)]
    return judged(data, [first, *others], folder / "run")


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> tuple[BenchmarkResult, Path]:
    """A run, and its folder, whose data and cache are gone."""
    folder = tmp_path_factory.mktemp("run")
    whole = run(folder)
    for path in (folder / "editreward-bench", folder / "home"):
        shutil.rmtree(path)
    return whole, folder / "run"


@pytest.fixture(scope="module")
def result(kept: tuple[BenchmarkResult, Path]) -> BenchmarkResult:
    return kept[0]


@pytest.fixture(scope="module")
def torn(tmp_path_factory: pytest.TempPathFactory) -> BenchmarkResult:
    """A run in which four judgments failed."""
    return run(tmp_path_factory.mktemp("torn"), fails=4)


def test_a_report_needs_neither_the_data_nor_a_judge(kept: tuple[BenchmarkResult, Path]) -> None:
    whole, folder = kept
    again = read_result(folder)
    assert again == whole
    written = write_report(folder, again)
    assert [path.name for path in written] == ["report.json", "report.md", "report.html"]
    assert parse_result(json.loads(written[0].read_text("utf-8"))) == whole


def test_every_number_says_n_coverage_interval_protocol_and_failures(torn: BenchmarkResult) -> None:
    assert torn.protocol == "pairs" and torn.digest and torn.revision == "a local copy"
    for row in torn.rows:
        assert row.protocols and row.coverage is not None and isinstance(row.failures, dict)
        for each in row.numbers:
            assert each.n and each.coverage == each.judged / each.n
            assert each.interval or each.metric == "tuned"
    first, text = number(torn, "K=2", "exact"), markdown(torn)
    assert first.judged == first.n - 4 and "timeout: 4" in text and "16 of 20" in text


def test_the_judge_is_compared_with_everybody_else_question_by_question(result: BenchmarkResult) -> None:
    [test] = [test for test in result.rows[3].against if test.part == "K=4"]
    assert (test.n, test.better, test.worse, test.gain, test.p) == (30, 30, 0, 1.0, pytest.approx(2 / 2**30))
    assert all(test.gain == 0.0 and test.p is None for test in result.rows[1].against)
    said = headline(result)
    assert said.startswith("pixels, builtin, in percent: K=2 100.0 [")
    assert "K=4 100.0 [" in said and "(5 of 5 judged)" in said, "of K=4 the groups are what counts"


def test_published_numbers_stand_beside_and_say_what_differs(tmp_path: Path, result: BenchmarkResult) -> None:
    beside = {(each.part, each.metric): each for each in result.published}
    rows = {row.judge: row for row in beside["K=3", "groups"].rows}
    assert rows["GPT-4o"].printed == "27.33"
    assert "n: 150 (derived), not 6" in rows["GPT-4o"].mark
    assert not rows["GPT-4o"].same_protocol
    page = report_page(result)
    assert "27.33" in page and "n: 150" in page
    pointwise = judged(made("editreward-bench", tmp_path, "pointwise"), [entry()], tmp_path / "run").published
    tuned = next(each for each in pointwise if each.part == "K=2" and each.metric == "tuned")
    marks = {row.judge: row.mark for row in tuned.rows if row.metric == "tuned"}
    assert marks and all("protocol" not in mark.split("(not known")[0] for mark in marks.values())


def test_foreign_text_is_harmless_in_markdown_and_on_the_page(tmp_path: Path) -> None:
    rows = [{**row, "instruction": f"{HOSTILE} {place}"} for place, row in enumerate(editreward_rows(2, 6))]
    rows.append({**rows[0], "instruction": HOSTILE})
    task = replace(open_task("editreward-bench"), title=HOSTILE, notes=(HOSTILE,))
    data = open_benchmark(task, settings(tmp_path), source=editreward_bench(tmp_path / "copy", k2=rows))
    result = judged(data, [entry(name=HOSTILE)], tmp_path / "run")
    text = markdown(result)
    assert "&#" not in text and "https://" not in text
    rendered = MarkdownIt("commonmark").enable(["table", "strikethrough"]).parse(text)
    assert {each.type for token in rendered for each in token.children or ()} <= {*WORDS, "strong_open", "strong_close"}
    assert not [token.type for token in rendered if token.type.startswith(("html", "fence", "code"))]
    for line in text.splitlines():
        assert not line.startswith("|") or len(CELL.findall(line)) <= 8, "a cell broke out of its table"
    page = report_page(result)
    assert "<script" not in page and not LOADS.search(page) and HOSTILE in html.unescape(page)


def test_the_page_stands_alone_and_draws_every_number(tmp_path: Path, torn: BenchmarkResult) -> None:
    page = report_page(torn)
    assert "<script" not in page and not LOADS.search(page)
    values = sum(each.value is not None for row in torn.rows for each in row.numbers)
    results = page.partition("<h2>Results</h2>")[2].partition("<h2>")[0]
    assert results.count('class="dot"') == values
    assert not re.search(r"NaN|None|nan\b", page)
    human = judged(made("imagenhub", tmp_path), [entry()], tmp_path / "human")
    assert "Human raters" in report_page(human)


def test_numbers_are_written_with_their_intervals() -> None:
    share = NumberFacts(part="all", metric="exact", name="exact", value=0.57912, interval=(0.5, 0.65), n=9)
    assert figure(share) == "57.9 [50.0, 65.0]"
    assert figure(replace(share, metric="spearman", interval=None)) == "0.579"
    assert figure(replace(share, value=None)) == "-"


def test_a_run_in_which_nothing_was_judged_says_so(tmp_path: Path) -> None:
    data = made("vcreward-bench", tmp_path)
    result = judged(data, [pixels(fails=list(data.items))], tmp_path / "run")
    assert headline(result) == "pixels failing, no Library: no number can be computed; 0 of 20 were judged."
    assert "0 of 20" in markdown(result) and "0 of 20" in report_page(result)


def test_what_does_not_count_is_said_with_its_number(tmp_path: Path) -> None:
    rows = editreward_rows(3, 4)
    copy = editreward_bench(tmp_path / "copy", k3=[{**rows[0], "ranking": "?"}, *rows[1:], rows[5]])
    result = judged(opened(tmp_path, copy), [entry()], tmp_path / "run")
    [counted] = [each for each in result.counted if each.part == "K=3"]
    assert counted == CountedPart("K=3", rows=12, counted=11, left_out={"label not understood": 1})
    groups = number(result, "K=3", "groups")
    assert groups.n == 3 and "1 incomplete groups left out" in groups.name
    assert "repeated row" in markdown(result) and "label not understood 1" in markdown(result)


def test_a_sample_is_named_in_every_report_and_a_headline_of_many_parts_is_not_cut(tmp_path: Path) -> None:
    result = judged(made("vcreward-bench", tmp_path, limit=7, seed=5), [entry()], tmp_path / "run")
    for text in (markdown(result), report_page(result)):
        assert "A sample of 7 of 20 pairs or groups, stratified, seed 5." in text
    [row] = result.rows
    numbers = [replace(each, part=f"kind {place} of label") for each in row.numbers for place in range(60)]
    result = replace(result, rows=(replace(row, numbers=tuple(numbers)),))
    assert len(headline(result)) > 2000
    assert markdown(result).splitlines()[2].count("kind ") == 60


@pytest.mark.parametrize("name", ["vcreward-bench", "genai-bench", "editreward-bench"])
def test_asking_in_both_orders_is_no_more_evidence_from_a_judge_that_answers_alike(name: str, tmp_path: Path) -> None:
    [once], [twice] = (
        judged(made(name, tmp_path, protocol), [baseline("closer")], tmp_path / protocol).rows
        for protocol in ("pairs", "both-orders")
    )
    assert len(once.numbers) == len(twice.numbers) > 0
    for one, two in zip(once.numbers, twice.numbers, strict=True):
        assert (two.n, two.value) == (2 * one.n, pytest.approx(one.value)), one.name
        assert two.interval == (one.interval and pytest.approx(one.interval)), one.name


def test_both_orders_of_a_pair_are_compared_as_one(tmp_path: Path) -> None:
    data = made("vcreward-bench", tmp_path, "both-orders")
    lost = next(name for name in data.items if name.endswith("|reverse"))
    for name, who in {
        "bad": pixels(upside_down=True),
        "first": baseline("always-a"),
        "good": pixels(fails=[lost]),
    }.items():
        judged(data, [who], tmp_path / name)
    found = compare_runs(tmp_path / "bad", tmp_path / "good")
    [part] = found.parts
    assert found.same_data and len(part.flips) == 19 and part.flips[0].instruction.startswith("keep ")
    assert all(flip.better and flip.second == flip.truth != flip.first for flip in part.flips)
    assert part.interval is not None and 0.5 < part.interval[0] < part.interval[1] == 1.0
    assert (part.n, part.judged_by_both, part.judged_by_first_only) == (20, 19, 1)
    assert (part.gain, part.p) == (1.0, pytest.approx(2 / 2**19))
    [part] = compare_runs(tmp_path / "first", tmp_path / "good").parts
    assert part.gain == 0.5 and {flip.first for flip in part.flips} == {"A and B"}
    known = {question.id for question in data.questions}
    assert all(flip.id in known for flip in part.flips)


def test_runs_that_differ_are_not_compared(tmp_path: Path) -> None:
    runs = {"one": made("vcreward-bench", tmp_path), "two": made("vcreward-bench", tmp_path, "pointwise")}
    runs |= {"few": made("vcreward-bench", tmp_path, limit=5), "rated": made("rated-edits", tmp_path)}
    for folder, data in runs.items():
        judged(data, [entry()], tmp_path / folder)
    (tmp_path / "empty").mkdir()
    for first, second, problem in (
        ("one", "two", "differ in the protocol"),
        ("one", "few", "the examples"),
        ("rated", "rated", "Correlations"),
        ("one", "empty", "holds no benchmark"),
    ):
        with pytest.raises((InputError, RunError), match=problem):
            compare_runs(tmp_path / first, tmp_path / second)


def test_a_library_gets_its_facts_with_and_without_it(torn: BenchmarkResult) -> None:
    library = open_library("builtin")
    facts = {(each.data.rpartition(", ")[2], each.metric[:14]): each for each in make_facts(torn, library)}
    pairs = facts["K=2", "accuracy on pa"]
    assert pairs.accuracy == Accuracy(20, 16, 16.0) and pairs.without == Accuracy(20, 16, 16.0)
    assert pairs.protocol == "pairs; looking" and pairs.dataset == "TIGER-Lab/EditReward-Bench"
    assert not any("these very labels" in each.metric for each in facts.values()), "what is tuned is no fact"
    with pytest.raises(LibraryError, match="not about"):
        make_facts(torn, EMPTY)


def test_the_metric_on_a_card_says_its_labels_and_what_becomes_of_ties(tmp_path: Path) -> None:
    result = judged(made("genai-bench", tmp_path), [entry(library=open_library("builtin"))], tmp_path / "run")
    library = open_library("builtin")
    facts = make_facts(result, library)
    names = [each.metric for each in facts]
    card = make_card(CardSubject(library, "me/mine", facts=facts))
    header = " ".join(card.partition("\n---")[0].split())
    assert all(name in header for name in names) and "model-index" in card
    assert names == [
        "accuracy on pairs labeled A, B, tie or both bad; a tie is correct only for a label of the same kind of tie; "
        "a tie of two rewards below 0.5 is both bad",
        "accuracy on pairs labeled A, B or tie; a tie is correct only if the label is a tie; both bad counts as a tie",
        "accuracy on pairs labeled A or B; pairs labeled a tie are left out, and the higher score is the answer",
    ]
    assert max(map(len, names)) <= 200, "a card cuts off what is longer"
    plain = judged(made("vcreward-bench", tmp_path), [entry(library=open_library("builtin"))], tmp_path / "plain")
    assert [each.metric for each in make_facts(plain, open_library("builtin"))] == [
        "accuracy on pairs labeled A or B, without ties; tied candidates count half"
    ]


def test_both_orders_report_how_often_the_answer_is_the_same(tmp_path: Path) -> None:
    result = judged(made("mmrb2-editing", tmp_path), [baseline("always-a")], tmp_path / "run")
    assert result.rows[0].both_orders == OrderConsistency(same=0, tried=19, consistency=0.0)
    assert "0.0%" in report_page(result)


def test_categories_and_confidence_are_reported(tmp_path: Path) -> None:
    result = judged(made("vcreward-bench", tmp_path), [entry()], tmp_path / "run")
    row = result.rows[0]
    assert set(row.by_category) == {"color_alter", "subject_add"}
    assert sum(each.n for each in row.by_margin) == 20
    assert row.calibration.used == 0, "this judge says nothing of its confidence"
    assert "color_alter" in report_page(result)
