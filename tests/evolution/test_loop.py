"""Whole runs with a scripted model: what comes of them, what they send, and that interrupting them changes nothing."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from small_world import GOOD, Fuse, Killed, ListOrchestrator, events_of, evolved, make_dataset, make_plan, see

from rewardharness.errors import InputError, RunError
from rewardharness.evolution import job
from rewardharness.evolution.builtin.orchestrator import BuiltinOrchestrator
from rewardharness.evolution.config import EvolveConfig
from rewardharness.evolution.events import (
    Concluding,
    Decided,
    Event,
    Finished,
    Paused,
    Proposed,
    read_events,
    read_status,
    spent_by,
)
from rewardharness.evolution.held_out import Score
from rewardharness.evolution.loop import evolve, finished_report
from rewardharness.evolution.plan import RegressionSet
from rewardharness.evolution.progress import RunProgress, read_progress
from rewardharness.evolution.proposal import Observe
from rewardharness.evolution.report import EvolutionReport, read_report
from rewardharness.evolution.report_page import headline
from rewardharness.evolution.schedules import DefaultSchedule, PaperSchedule
from rewardharness.judging.cache import JudgmentCache
from rewardharness.judging.measured import MeasuredJudge
from rewardharness.judging.subagent import SubAgent
from rewardharness.library.store import Library
from rewardharness.models.base import ChatRequest, ModelError
from rewardharness.models.open import Script
from rewardharness.runs.job import RunPaused, Session, Stopped, StopRequest
from rewardharness.runs.spending import Budget, SpendingLimits
from rewardharness.runs.store import RunFolder
from rewardharness.schema import Example
from rewardharness.settings import Settings

Whole = tuple[dict[str, Any], int, Path]
"""The result of a run, its number of requests, and its folder."""


def result(folder: Path, report: EvolutionReport) -> dict[str, Any]:
    """What may not depend on interruptions."""
    library = Library.load(folder / "library")
    names = ("step", "signature", "evidence", "accuracy", "version")
    decisions = [[getattr(event, name) for name in names] for event in events_of(folder.parent, Decided)]
    numbers = (report.audit, report.pool, report.spent.judgments, report.ending)
    return {"library": (library.id, library.lineage_text), "decisions": decisions, "numbers": numbers}


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Whole:
    """An undisturbed run: its result, the number of requests, its folder."""
    home = tmp_path_factory.mktemp("whole")
    plan, model = make_plan(home)
    report = evolve(plan, home / "run")
    return result(home / "run", report), len(model.requests), home / "run"


def test_a_run_finds_what_helps_and_audits_it(whole: Whole) -> None:
    folder = whole[2]
    report = read_report(folder)
    audit = report.audit
    assert audit.n == 12 and report.pool.final.n == 36
    assert (audit.start.accuracy, audit.final.accuracy, audit.empty.accuracy) == (0.5, 1.0, 0.5)
    assert audit.final_against_start.fixes == 6 and audit.final_against_start.p == 0.03125
    assert audit.final.interval is not None and audit.final.interval[0] < 1
    assert "same answer" in str(audit.ensemble.skipped), "an exact judge is not asked again"
    assert [edit.names for edit in report.edits if edit.accepted] == [("cats",), ("dogs",)]
    assert {row.name: row.final.accuracy for row in report.by_category}["cat"] == 1.0
    assert report.spent.orchestrator.calls > 0 and report.spent.money is None
    library = Library.load(folder / "library")
    assert library.id == report.library.final_id
    assert {line["data_digest"] for line in library.lineage} == {make_dataset().digest}
    assert Library.load(folder / "versions" / "0001").get("dogs") is None
    assert (folder / "report.html").read_text(encoding="utf-8").startswith("<!doctype html>")
    assert read_status(folder).condition == "finished"


def test_an_edit_keeps_the_operator_that_was_asked_for_in_events_and_lineage(tmp_path: Path) -> None:
    proposals = (replace(GOOD[0], mutation="counterexample_trigger"), GOOD[1])
    evolved(tmp_path, orchestrator=ListOrchestrator(proposals))
    operators = {"cats": "counterexample_trigger", "dogs": ""}
    assert {event.names[0]: event.mutation for event in events_of(tmp_path, Proposed)} == operators
    rows = Library.load(tmp_path / "run" / "library").lineage
    assert {row["entries"][0]: row.get("mutation", "") for row in rows} == operators


def sittings(home: Path, at: int, where: str) -> Iterator[int]:
    """Run to the end, killing every sitting at a request or an event; yields the requests of each sitting."""
    for _ in range(100):
        fuse = Fuse(at)

        def answer(request: ChatRequest, fuse: Fuse = fuse) -> Script:
            if where == "request":
                fuse()
            return see(request)

        plan, model = make_plan(home, answers=answer)
        try:
            evolve(plan, home / "run", Session(on_event=fuse) if where == "event" else None)
        except (Killed, BaseExceptionGroup):
            yield len(model.requests)
            continue
        yield len(model.requests)
        return
    raise AssertionError("it gets nowhere")


@pytest.mark.parametrize(("where", "at"), [("event", 6), ("request", 7)])
def test_killing_a_run_again_and_again_changes_nothing(whole: Whole, tmp_path: Path, where: str, at: int) -> None:
    requests = list(sittings(tmp_path, at, where))
    assert len(requests) > 2
    plan, model = make_plan(tmp_path)
    report = evolve(plan, tmp_path / "run")
    assert model.requests == [], "a finished run only shows its report"
    assert result(tmp_path / "run", report) == whole[0]
    # What was under way when it was killed may be lost: at most as many as are asked at once, per sitting.
    assert sum(requests) <= whole[1] + 4 * len(requests)


def test_a_stop_is_clean_and_what_is_answered_is_not_paid_again(whole: Whole, tmp_path: Path) -> None:
    counted = iter(range(5))

    def count(progress: RunProgress) -> None:
        watch.stop.asked = next(counted, None) is None

    watch = Session(on_progress=count)
    plan, model = make_plan(tmp_path)
    with pytest.raises(Stopped):
        evolve(plan, tmp_path / "run", watch)
    status = read_status(tmp_path / "run")
    assert status.condition == "stopped" and "same command" in status.next_step
    assert isinstance(read_events(tmp_path / "run")[-1], Paused)
    plan, again = make_plan(tmp_path)
    report = evolve(plan, tmp_path / "run")
    assert len(model.requests) + len(again.requests) == whole[1] == report.spent.judge.calls


def test_a_stop_is_heard_while_examples_are_measured_for_proposals(tmp_path: Path) -> None:
    watch, measured = Session(), list[str]()

    def observe(example: Example) -> dict[str, dict[str, float]]:
        measured.append(example.id)
        watch.stop.asked = True
        return {}

    plan = replace(make_plan(tmp_path)[0], orchestrator=BuiltinOrchestrator(), observe=observe)
    with pytest.raises(Stopped):
        evolve(plan, tmp_path / "run", watch)
    assert 1 <= len(measured) <= plan.concurrency < len(plan.parts[0])


def test_the_expected_time_is_that_of_measuring_even_if_judgments_are_cached(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    measured, caches = list[str](), list[object]()

    def observer(cache: object) -> Observe:
        caches.append(cache)
        return lambda example: measured.append(example.id) or {}

    monkeypatch.setattr(job, "observer", observer)
    plan, settings = make_plan(tmp_path)[0], Settings.from_env({"RH_HOME": str(tmp_path)})
    judge = MeasuredJudge(cache=JudgmentCache(tmp_path / "cache"))
    planned = job.EvolutionJob(**{**vars(plan), "judge": judge}, folder=tmp_path / "run", settings=settings)
    assert planned.seconds > 0 and caches == [None]
    assert measured == [example.id for example in planned.parts[0][1 : job.TIMED]]


@pytest.mark.parametrize(
    ("change", "word"),
    [
        ({"seed": 1}, "seed"),
        ({"schedule": DefaultSchedule(per_round=2, prune_share=0.0, patience=9)}, "schedule"),
        ({"dataset": make_dataset(7)}, "data"),
        ({"orchestrator": ListOrchestrator(name="another")}, "orchestrator"),
    ],
)
def test_another_configuration_is_an_explicit_choice(whole: Whole, change: dict[str, Any], word: str) -> None:
    with pytest.raises(RunError, match=word) as caught:
        evolve(make_plan(whole[2].parent, **change)[0], whole[2])
    assert "--restart" in caught.value.next_step


def test_a_restart_keeps_the_earlier_run_aside(tmp_path: Path) -> None:
    limits, folder = SpendingLimits(Budget(judgments=40)), tmp_path / "run"
    evolved(tmp_path, limits=limits)
    evolve(make_plan(tmp_path, limits=limits, seed=1)[0], folder, Session(restart=True))
    assert (folder / "events.jsonl.old").exists() and (folder / "versions.old").is_dir()


def test_a_larger_budget_goes_on_and_the_report_of_the_earlier_end_is_not_the_last(
    whole: Whole, tmp_path: Path
) -> None:
    def killed_at_its_end(event: Event) -> None:
        if isinstance(event, Concluding):
            raise Killed

    folder = tmp_path / "run"
    small, larger = (make_plan(tmp_path, limits=SpendingLimits(Budget(judgments=most)))[0] for most in (50, 52))
    assert finished_report(small, folder) is None
    first = evolve(small, folder)
    assert "budget" in first.ending and first.spent.judgments <= 50
    assert finished_report(small, folder) == first == evolve(small, folder)
    assert finished_report(larger, folder) is None
    with pytest.raises(Killed):
        evolve(larger, folder, Session(on_event=killed_at_its_end))
    assert finished_report(larger, folder) is None
    second = evolve(larger, folder)
    assert "52 judgments" in second.ending and second != first
    assert finished_report(larger, folder) == second
    with pytest.raises(RunError, match=r"differs in: seed \(0 there, 1 here\)\."):
        finished_report(replace(larger, seed=1), folder)
    report = evolved(tmp_path)
    assert result(folder, report)["library"][0] == whole[0]["library"][0] and report.audit.final.accuracy == 1.0


def test_a_dead_endpoint_pauses_and_the_run_comes_out_the_same(whole: Whole, tmp_path: Path) -> None:
    answered = 0

    def dying(request: ChatRequest) -> Script:
        nonlocal answered
        answered += 1
        return see(request) if answered <= 28 else ModelError("unreachable", "Nobody at home.")

    plan, _ = make_plan(tmp_path, answers=dying)
    with pytest.raises(RunPaused):
        evolve(plan, tmp_path / "run")
    status = read_status(tmp_path / "run")
    assert status.condition == "paused" and "unreachable" in status.reason
    decided = events_of(tmp_path, Decided)
    report = evolved(tmp_path)
    assert result(tmp_path / "run", report) == whole[0]
    assert len(decided) < len(whole[0]["decisions"]), "no gate decided on silence"


def test_a_full_disk_stops_the_spending_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import shutil

    plan, model = make_plan(tmp_path)
    full = shutil.disk_usage(tmp_path)._replace(free=1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: full)
    with pytest.raises(RunPaused, match="MiB are free"):
        evolve(plan, tmp_path / "run")
    assert model.requests == []
    monkeypatch.undo()
    assert evolved(tmp_path).audit.final.accuracy == 1.0


def test_what_cannot_be_saved_ends_the_run_with_one_error(
    whole: Whole, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    plan, model = make_plan(tmp_path)
    append, count = RunFolder.append, 0

    def full(self: RunFolder, record: Any) -> None:
        nonlocal count
        count += 1
        if count > 26:
            raise OSError(28, "No space left on device")
        append(self, record)

    monkeypatch.setattr(RunFolder, "append", full)
    with pytest.raises(OSError, match="No space left"):
        evolve(plan, tmp_path / "run")
    assert len(model.requests) <= 26 + 4, "nothing is asked that cannot be kept"
    assert read_status(tmp_path / "run").condition == "paused"
    monkeypatch.undo()
    assert result(tmp_path / "run", evolved(tmp_path)) == whole[0]


def test_self_ensembling_asks_as_often_as_the_search_did(tmp_path: Path) -> None:
    plan, _ = make_plan(tmp_path)
    exact = plan.judge
    assert isinstance(exact, SubAgent)
    judge = SubAgent(exact.model, exact.settings, exact.cache)
    report = evolve(replace(plan, judge=judge, samples=None), tmp_path / "run")
    ensemble = report.audit.ensemble
    assert ensemble.samples == round(report.spent.judgments / 12) > 2
    assert ensemble.accuracy == 0.5, "asking a judge that errs by nature again does not help"
    assert report.audit.final_against_ensemble.fixes == 6


def test_the_papers_schedule_runs_and_resumes(tmp_path: Path) -> None:
    options: dict[str, Any] = {"schedule": PaperSchedule(iterations=2, per_round=2), "dataset": make_dataset(6)}
    whole = evolved(tmp_path / "a", **options)
    with pytest.raises((Killed, BaseExceptionGroup)):
        evolved(tmp_path / "b", Session(on_progress=Fuse(25)), **options)
    report = evolved(tmp_path / "b", **options)
    assert result(tmp_path / "b" / "run", report) == result(tmp_path / "a" / "run", whole)


def test_a_library_that_does_worse_on_held_out_examples_is_not_the_result(tmp_path: Path) -> None:
    """The labels of the examples to learn from are corrected, and those held out say the opposite."""
    plan, _ = make_plan(tmp_path)
    right = {example.id: str(example.preference) for example in plan.dataset.examples}
    turned = {"A": "B", "B": "A"}
    examples = tuple(replace(each, preference=turned[right[each.id]]) for each in plan.dataset.examples)
    worse = replace(plan, dataset=replace(plan.dataset, examples=examples))
    worse = replace(worse, corrections={each.id: right[each.id] for each in worse.parts[0]})
    run = tmp_path / "run"
    report = evolve(worse, run)
    assert report.library.final_id == plan.library.id != report.library.tried_id
    assert Library.load(run / "library") == plan.library
    assert Library.load(run / "library-tried").id == report.library.tried_id
    said = headline(report)
    assert (
        said.startswith("Lower on held-out examples (50% → 0%, 95% CI 0% to 24%, n 12, McNemar p 0.031)")
        and "library-tried" in said
    )
    finished = read_events(run)[-1]
    assert isinstance(finished, Finished) and finished.headline == said
    status = read_status(run)
    assert status.headline == said and spent_by(read_events(run)) == finished.spent
    assert finished.library_id == plan.library.id


@pytest.mark.parametrize(
    ("start", "final", "judged", "said"),
    [(21, 22, 25, "(84% → 88%, n 25, McNemar p 1)."), (2, 3, 5, "(40% → 60%, n 5 of 25 judged, McNemar p 1).")],
)
def test_the_headline_calls_small_differences_undetectable(
    whole: Whole, start: int, final: int, judged: int, said: str
) -> None:
    report = read_report(whole[2])
    before, after = (Score(25, judged, correct / judged, None) for correct in (start, final))
    test = replace(report.audit.final_against_start, fixes=final - start, breaks=0, p=1.0)
    audit = replace(report.audit, n=25, start=before, final=after, final_against_start=test)
    assert headline(replace(report, audit=audit)) == f"No detectable change on held-out examples {said}"


def test_a_run_without_a_proposal_says_so(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="at least 8"):
        evolved(tmp_path / "few", dataset=make_dataset(1))
    report = evolved(tmp_path, orchestrator=ListOrchestrator(proposals=()))
    said = "No edit was proposed, and the Library is unchanged"
    assert report.proposed == 0 and headline(report).startswith(f"{said} (")
    assert headline(replace(report, proposed=3)).startswith("No edit was accepted: the Library is unchanged (")


def test_a_library_that_loses_on_the_regression_set_is_not_the_result(tmp_path: Path) -> None:
    """Pets of the regression set are better dark, which the examples to learn from do not show."""
    plan, _ = make_plan(tmp_path)
    turned = {"A": "B", "B": "A"}
    fields = {"label_kind": "demo_no_edit"}
    drawn = [replace(each, preference=turned[str(each.preference)], **fields) for each in make_dataset(4).examples]
    drawn = [replace(each, id=f"r-{each.id}") for each in drawn]
    seen: list[RunProgress] = []
    known = RegressionSet(lambda told: drawn, len(drawn))
    report = evolve(replace(plan, regression=known), tmp_path / "run", Session(on_progress=seen.append))
    found = report.regression
    assert (found.n, found.start.accuracy, found.final.accuracy, found.lost) == (16, 0.5, 0.0, True)
    assert [row.name for row in found.kinds] == ["no edit"]
    assert Library.load(tmp_path / "run" / "library") == plan.library
    assert (tmp_path / "run" / "library-tried").is_dir()
    assert "loses on the regression set (50% → 0%, n 16)" in headline(report)
    page = (tmp_path / "run" / "report.html").read_text(encoding="utf-8")
    assert "Regression set" in page and "no edit" in page
    wide = replace(plan, regression=replace(known, margin=0.5))
    assert evolve(wide, tmp_path / "wide").library.final_id != plan.library.id
    assert plan.estimate.regression == 0 and wide.estimate.regression == 2 * len(drawn)
    assert wide.estimate.expected == plan.estimate.expected + 2 * len(drawn)
    last = {each.phase: each for each in seen}
    assert [*dict.fromkeys(each.phase for each in seen)] == [*"pool search proposals audit drawing regression".split()]
    for phase, total in (("pool", 36), ("audit", 24), ("regression", 2 * len(drawn))):
        assert (last[phase].done, last[phase].total) == (total, total), phase
    assert last["regression"].left == pytest.approx(0, abs=0.01) and (last["pool"].left or 0) > 0
    assert read_progress(tmp_path / "run") is None, "it is over"


def test_a_stop_is_heard_while_the_regression_set_is_drawn(tmp_path: Path) -> None:
    stop = StopRequest()

    def draw(tell: Callable[[int, int], None]) -> list[Example]:
        stop.asked = True
        tell(1, 4)
        raise AssertionError("it goes on")

    with pytest.raises(Stopped):
        evolve(replace(make_plan(tmp_path)[0], regression=RegressionSet(draw, 4)), tmp_path / "run", Session(stop=stop))


@pytest.mark.parametrize("margin", [-0.01, 1.01, float("nan"), float("inf")])
def test_a_regression_margin_is_a_share(margin: float) -> None:
    with pytest.raises(InputError, match="regression-margin"):
        EvolveConfig(data="demo", regression_margin=margin)
