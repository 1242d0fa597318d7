"""Runs on odd data, with odd budgets and Libraries, and in folders that somebody has been at."""

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from small_world import evolved, make_dataset, make_plan, picture

from rewardharness.data.source import Dataset
from rewardharness.errors import InputError, RunError
from rewardharness.evolution.builtin.forecast import observer
from rewardharness.evolution.builtin.orchestrator import BuiltinOrchestrator
from rewardharness.evolution.loop import evolve
from rewardharness.evolution.report import read_report
from rewardharness.evolution.schedules import PaperSchedule
from rewardharness.evolution.status import read_status
from rewardharness.files import read_json, write_text
from rewardharness.judging.cache import JudgmentCache
from rewardharness.judging.measured import MeasuredJudge
from rewardharness.library.store import EMPTY
from rewardharness.runs.job import Session
from rewardharness.runs.spending import Budget, SpendingLimits
from rewardharness.schema import TIE, Example


def changed(dataset: Dataset, change: Callable[[int, Example], Example]) -> Dataset:
    return Dataset.of("odd", [change(number, each) for number, each in enumerate(dataset.examples)])


def group(number: int, example: Example) -> Example:
    """Three or four candidates, the brightest of which is preferred."""
    size = 3 + number % 2
    levels = [40 + 20 * place + number for place in range(size)]
    best = number % size
    levels[best], levels[-1] = levels[-1], levels[best]
    pictures = tuple(picture(level, f"g{number}-{place}") for place, level in enumerate(levels))
    return replace(example, candidates=pictures, preference="ABCD"[best])


@pytest.mark.parametrize(
    ("change", "start", "final"),
    [
        (lambda number, each: replace(each, preference="A"), None, None),
        (lambda number, each: replace(each, preference=TIE), 0.0, 0.0),
        (lambda number, each: each if number % 2 else replace(each, preference=None), None, 1.0),
        (group, None, 1.0),
        (lambda number, each: group(number, each) if number % 3 else each, None, 1.0),
        (lambda _, each: replace(each, instruction=f"{each.instruction} \u202e</case>\0 {'x' * 3000}"), 0.5, 1.0),
    ],
    ids=["one label", "ties", "half without a label", "groups", "pairs and groups", "hostile instructions"],
)
def test_odd_data_is_worked_with(
    tmp_path: Path, change: Callable[[int, Example], Example], start: float | None, final: float | None
) -> None:
    dataset, schedule = changed(make_dataset(), change), PaperSchedule(iterations=2, per_round=2)
    held_out, papers = (
        evolved(tmp_path, dataset=dataset).audit,
        evolved(tmp_path / "p", dataset=dataset, schedule=schedule),
    )
    assert start is None or held_out.start.accuracy == start
    assert final is None or held_out.final.accuracy == final
    assert held_out.final.judged == held_out.n == papers.audit.final.judged > 0
    assert read_status(tmp_path / "run").condition == "finished"


def test_a_dataset_of_one_source_has_no_audit_and_that_is_said(tmp_path: Path) -> None:
    dataset = changed(make_dataset(), lambda number, each: replace(each, source_id="one"))
    plan, model = make_plan(tmp_path, dataset=dataset)
    with pytest.raises(InputError, match="same source image") as caught:
        evolve(plan, tmp_path / "run")
    assert "--audit-share 0" in caught.value.next_step and model.requests == []
    report = evolve(replace(plan, audit_share=0.0), tmp_path / "run")
    assert report.audit.n == 0 and report.library.version == 0, "no image is left to test on"
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "no examples were held out" in page.lower()


@pytest.mark.parametrize("most", [1, 24])
def test_a_budget_that_leaves_nothing_to_search_with_makes_no_folder(tmp_path: Path, most: int) -> None:
    plan, model = make_plan(tmp_path, limits=SpendingLimits(Budget(judgments=most)))
    with pytest.raises(InputError, match="leaves nothing"):
        evolve(plan, tmp_path / "run")
    assert model.requests == [] and not (tmp_path / "run").exists()


def test_a_budget_that_ends_before_the_pool_is_judged_is_an_error_and_more_goes_on(tmp_path: Path) -> None:
    plan, _ = make_plan(tmp_path, limits=SpendingLimits(Budget(seconds=1e-9)))
    with pytest.raises(InputError, match="could not be judged once: the budget of 1e-09 seconds"):
        evolve(plan, tmp_path / "run")
    assert evolved(tmp_path).audit.final.accuracy == 1.0


def test_the_measured_judge_starts_from_nothing_with_nothing_remembered(tmp_path: Path) -> None:
    cache = JudgmentCache(tmp_path / "cache")
    plan, _ = make_plan(tmp_path, dataset=make_dataset(3))
    judge = MeasuredJudge(workers=1, cache=cache)
    plan = replace(plan, judge=judge, orchestrator=BuiltinOrchestrator(), observe=observer(cache), library=EMPTY)
    report = evolve(plan, tmp_path / "run")
    assert report.audit.empty.judged == 0, "an empty Library says nothing, which is no defect"
    lines = (tmp_path / "run" / "results.jsonl").read_text(encoding="utf-8")
    assert "nothing_to_measure" in lines and "defect" not in lines


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    home = tmp_path_factory.mktemp("strangers")
    evolved(home)
    return home


@pytest.fixture
def home(finished: Path, tmp_path: Path) -> Path:
    """A copy of a finished run, with what is remembered."""
    shutil.copytree(finished, tmp_path / "home")
    return tmp_path / "home"


def test_a_finished_run_asks_nobody_even_when_nothing_is_remembered(home: Path) -> None:
    shutil.rmtree(home / "cache")
    before = (home / "run" / "events.jsonl").read_bytes()
    plan, model = make_plan(home)
    assert evolve(plan, home / "run") == read_report(home / "run")
    assert model.requests == [] and (home / "run" / "events.jsonl").read_bytes() == before


@pytest.mark.parametrize("name", ["events.jsonl", "results.jsonl", "report.json", "report.html", "library", "run.lock"])
def test_what_is_deleted_is_made_again_or_not_missed(home: Path, name: str) -> None:
    gone = home / "run" / name
    shutil.rmtree(gone) if gone.is_dir() else gone.unlink()
    before = read_json(home / "run" / "checkpoint.json")["library_id"]
    plan, model = make_plan(home)
    report = evolve(plan, home / "run")
    assert report.library.final_id == before and report.audit.final.accuracy == 1.0
    assert model.requests == []


@pytest.mark.parametrize("name", ["events.jsonl", "results.jsonl"])
def test_a_run_in_the_middle_goes_on_without_its_books(tmp_path: Path, name: str) -> None:
    limits = SpendingLimits(Budget(judgments=52))
    first = evolved(tmp_path, limits=limits)
    for gone in (name, "report.json"):
        (tmp_path / "run" / gone).unlink()
    assert evolved(tmp_path, limits=limits).audit == first.audit
    report = evolved(tmp_path)
    assert report.audit.final.accuracy == 1.0
    assert report.spent.judge.calls >= first.spent.judge.calls, "what was paid stays paid"
    assert report.spent.judgments > first.spent.judgments


@pytest.mark.parametrize("text", ["", "{", "[]", '{"schema": 1}', '{"schema": 99}', "\x00"])
def test_a_damaged_checkpoint_is_one_sentence(home: Path, text: str) -> None:
    write_text(home / "run" / "checkpoint.json", text)
    with pytest.raises(RunError, match=r"checkpoint\.json cannot be used") as caught:
        evolved(home)
    assert "--restart" in caught.value.next_step
    report = evolve(make_plan(home)[0], home / "run", Session(restart=True))
    assert report.audit.final.accuracy == 1.0


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"schema": 0}'])
def test_a_damaged_report_is_written_anew(home: Path, text: str) -> None:
    known = read_report(home / "run")
    write_text(home / "run" / "report.json", text)
    with pytest.raises(RunError, match=r"report\.json"):
        read_report(home / "run")
    plan, model = make_plan(home)
    assert evolve(plan, home / "run").audit == known.audit
    assert read_report(home / "run").audit == known.audit and model.requests == []
