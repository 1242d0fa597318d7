"""Runs on odd data, with odd budgets and Libraries, and in folders that somebody has been at."""

import json
import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from small_world import (
    BRIGHTER,
    GOOD,
    QUICK,
    ExactAgent,
    Fuse,
    Killed,
    ListOrchestrator,
    add,
    answer_of,
    events_of,
    evolved,
    levels_of,
    make_dataset,
    make_plan,
    picture,
    text_of,
)

from rewardharness.data.source import Dataset
from rewardharness.errors import InputError, RunError
from rewardharness.evolution.builtin.forecast import observer
from rewardharness.evolution.builtin.orchestrator import BuiltinOrchestrator
from rewardharness.evolution.events import Decided, read_status
from rewardharness.evolution.loop import evolve
from rewardharness.evolution.plan import EvolutionPlan
from rewardharness.evolution.report import read_report
from rewardharness.evolution.report_page import report_page
from rewardharness.evolution.schedules import PaperSchedule
from rewardharness.files import read_json, write_text
from rewardharness.judging.cache import JudgmentCache
from rewardharness.judging.ensemble import EnsembleJudge, judges_of
from rewardharness.judging.measured import MeasuredJudge
from rewardharness.judging.model_config import ModelJudgeConfig
from rewardharness.judging.opening import open_judge
from rewardharness.library.store import EMPTY, Library
from rewardharness.models.base import ChatRequest
from rewardharness.models.open import Script, ScriptedModel
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
        (lambda number, each: replace(each, preference=TIE), 0.0, 0.0),
        (lambda number, each: each if number % 2 else replace(each, preference=None), None, 1.0),
        (lambda number, each: group(number, each) if number % 3 else each, None, 1.0),
        (lambda _, each: replace(each, instruction=f"{each.instruction} \u202e</case>\0 {'x' * 3000}"), 0.5, 1.0),
    ],
    ids=["ties", "half without a label", "pairs and groups", "hostile instructions"],
)
def test_odd_data_is_worked_with(
    tmp_path: Path, change: Callable[[int, Example], Example], start: float | None, final: float | None
) -> None:
    held_out = evolved(tmp_path, dataset=changed(make_dataset(), change)).audit
    schedule = PaperSchedule(iterations=1, per_round=2)
    papers = evolved(tmp_path / "p", dataset=changed(make_dataset(5), change), schedule=schedule).audit
    assert start is None or held_out.start.accuracy == start
    assert final is None or held_out.final.accuracy == final
    assert held_out.final.judged == held_out.n > 0 and papers.final.judged == papers.n > 0
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


@pytest.mark.parametrize("text", ["", "[]", '{"schema": 1}', '{"schema": 99}'])
def test_a_damaged_checkpoint_is_one_sentence(home: Path, text: str) -> None:
    write_text(home / "run" / "checkpoint.json", text)
    with pytest.raises(RunError, match=r"checkpoint\.json cannot be used") as caught:
        evolved(home)
    assert "--restart" in caught.value.next_step


@pytest.mark.parametrize("text", ["", "[]", '{"schema": 0}'])
def test_a_damaged_report_is_written_anew(home: Path, text: str) -> None:
    known = read_report(home / "run")
    write_text(home / "run" / "report.json", text)
    with pytest.raises(RunError, match=r"report\.json"):
        read_report(home / "run")
    plan, model = make_plan(home)
    assert evolve(plan, home / "run").audit == known.audit
    assert read_report(home / "run").audit == known.audit and model.requests == []


PETS = add("pets", "cat, dog", BRIGHTER)
"""Fixes all cats and dogs of one judge, and breaks the dogs of the other."""

ONE_BY_ONE = replace(QUICK, per_round=1, screen=False)


def spoiled(request: ChatRequest) -> Script:
    """A judge that is right by nature, but for dogs if a note says what is right."""
    levels, text = levels_of(request), text_of(request)
    misled = " dog " in text and BRIGHTER in text
    return answer_of("A" if (levels[0] > levels[1]) != misled else "B")


def over_two(home: Path, answers: Callable[[ChatRequest], Script] = spoiled) -> EvolutionPlan:
    """A plan with two judges."""
    plan, _ = make_plan(home, orchestrator=ListOrchestrator((PETS, GOOD[0])), schedule=ONE_BY_ONE)
    other = ExactAgent(ScriptedModel(answers), ModelJudgeConfig(one_order=True), JudgmentCache(home / "other"))
    return replace(plan, judge=EnsembleJudge((plan.judge, other), apart=True))


def test_an_edit_that_helps_on_the_whole_is_rejected_where_one_judge_loses(tmp_path: Path) -> None:
    plan = over_two(tmp_path)
    assert plan.estimate.requests == 2, "one of each judge"
    report = evolve(plan, tmp_path / "run")
    pets, cats = (event.evidence for event in events_of(tmp_path, Decided)[:2])
    assert (pets.decision, cats.decision) == ("reject", "accept")
    assert pets.fixes > 0 == pets.breaks and "but 2. " in pets.reason and "loses" in pets.reason
    assert [edit.names for edit in report.edits if edit.accepted] == [("cats",)]
    audit = report.audit
    assert (audit.start.accuracy, audit.final.accuracy) == (0.75, 0.875), "means of both judges"
    first, second = audit.by_judge.values()
    assert (first.start.accuracy, first.final.accuracy, first.final_against_start.fixes) == (0.5, 0.75, 3)
    assert (second.start.accuracy, second.final.accuracy, second.final_against_start.n) == (1.0, 1.0, 12)
    assert "Test set, 2. " in report_page(report)
    lines = [json.loads(line)["id"] for line in (tmp_path / "run" / "results.jsonl").read_text("utf-8").splitlines()]
    others = [name.removeprefix("judge2-") for name in lines if name.startswith("judge2-")]
    assert sorted(others) == sorted(name for name in lines if not name.startswith("judge2-"))
    assert report.spent.judgments <= len(others), "an example counts once"


def test_what_one_judge_cannot_judge_counts_for_none(tmp_path: Path) -> None:
    def silent(request: ChatRequest) -> Script:
        return "I cannot say." if " car " in text_of(request) else spoiled(request)

    audit = evolve(over_two(tmp_path, silent), tmp_path / "run").audit
    first, second = audit.by_judge.values()
    assert (audit.final.n, audit.final.judged, first.final.judged, second.final.judged) == (12, 9, 9, 9)


def test_a_killed_run_comes_out_the_same(tmp_path: Path) -> None:
    report = evolve(over_two(tmp_path / "whole"), tmp_path / "whole" / "run")
    killed = 0
    for at in (15, 20, 10, 1000):
        fuse = Fuse(at)

        def answer(request: ChatRequest, fuse: Fuse = fuse) -> Script:
            fuse()
            return spoiled(request)

        try:
            again = evolve(over_two(tmp_path, answer), tmp_path / "run")
        except (Killed, BaseExceptionGroup):
            killed += 1
    assert killed >= 2
    assert (again.audit, again.pool, again.spent.judgments) == (report.audit, report.pool, report.spent.judgments)
    one, two = (Library.load(folder / "run" / "library") for folder in (tmp_path / "whole", tmp_path))
    assert (one.id, one.lineage_text) == (two.id, two.lineage_text)


def test_several_judges_are_named_with_each(tmp_path: Path) -> None:
    judge = open_judge("each(closer, farther)")
    assert [member.name for member in judges_of(judge)] == ["closer (baseline)", "farther (baseline)"]
    assert judge.name == "each(closer (baseline), farther (baseline))" and judge.protocol.startswith("each: ")
    assert judge.revision != open_judge("mean(closer, farther)").revision
    assert len(judges_of(open_judge("mean(closer, farther)"))) == 1
