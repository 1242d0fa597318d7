import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from app_parts import follow
from evolve_parts import WRONG, make_pairs, make_timid, services_of
from hostile import read_own, says

from app.evolve import proposal_views
from app.evolve import views as evolve_views
from app.evolve.page import EvolveEvents
from app.evolve.proposal_views import EditItem
from app.evolve.runs import latest_effect
from app.evolve.service import EvolveServices
from app.run_panel.new_jobs import NewJob, PreparedJob
from app.run_panel.service import Expected
from app.viewer import example_views
from rewardharness.data.folder import read_folder
from rewardharness.data.source import split
from rewardharness.data.votes import read_corrections
from rewardharness.errors import DataError, InputError, LibraryError, RunError
from rewardharness.evolution.config import AUTO, EvolveConfig
from rewardharness.evolution.events import Decided
from rewardharness.evolution.plan import GroupScore, RegressionReport
from rewardharness.files import read_jsonl, write_text
from rewardharness.library.diff import diff_libraries

pytestmark = pytest.mark.slow


@dataclass(frozen=True)
class World:
    """Services, the data, and a finished run."""

    services: EvolveServices
    home: Path
    data: Path
    run: NewJob
    name: str

    def items(self) -> list[EditItem]:
        return proposal_views.items(self.services.look(self.name))

    def decided(self, *, kept: bool) -> list[Decided]:
        return [each.decided for each in self.items() if each.decided and each.decided.accepted == kept]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    scratch = tmp_path_factory.mktemp("evolve")
    data, library = make_pairs(scratch / "pairs"), make_timid(scratch / "timid")
    services = services_of(scratch / "home", scratch / "scratch")
    run = NewJob(EvolveConfig(str(data), library=str(library), proposals=8, corrections=AUTO))
    name = services.start(services.expect(run))
    assert follow(services, name).state == "finished"
    yield World(services, scratch / "home", data, run, name)


def test_every_edit_shows_what_it_changed_kept_or_not(world: World) -> None:
    for event in (*world.decided(kept=True), *world.decided(kept=False)):
        before, after = world.services.difference(world.name, event)
        found = diff_libraries(before, after)
        assert not found.is_empty and {*event.names} >= {each.name for each in (*found.added, *found.removed)}
        assert after.id == event.library_id if event.accepted else before.id == event.library_id
        read_own(proposal_views.change(found))
    old = replace(world.decided(kept=False)[0], changes=())
    with pytest.raises(RunError, match="does not record"):
        world.services.difference(world.name, old)


def test_fixes_and_breaks_are_shown_as_they_were_judged(world: World) -> None:
    cases = []
    for event in (*world.decided(kept=True), *world.decided(kept=False)):
        for name in (*event.evidence.fixed[:3], *event.evidence.broken[:3]):
            case = world.services.case(world.name, event, name)
            before, after = (seen.judgment.preference == case.label for seen in case.seen if seen.judgment)
            assert (before, after) == ((False, True) if name in event.evidence.fixed else (True, False))
            assert all(seen.judgment is not None and seen.judgment.steps for seen in case.seen) and not case.changed
            cases.append(case)
    case = cases[-1]
    opened = example_views.opened(case)
    assert opened.example is case.example and len(opened.chains) == 2 and opened.right in {*"AB", "tie"}
    says(example_views.words(case), case.example.instruction, "as the label says", "against the label")
    says(example_views.chain(case.seen[0].judgment, ("A", "B")), "How the grades were weighed")


def test_pictures_show_what_changed_held_out_only_at_the_end(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    status, report = world.services.look(world.name), world.services.report(world.name)
    _, audit = split(read_folder(world.data).examples, share=0.25, seed=0)
    held_out = {example.instruction for example in audit}
    assert report is not None
    shown, test = world.services.thumbnails(world.name), report.audit.final_against_start
    assert len(shown) == min(6, test.fixes + test.breaks) > 0 and {each[1] for each in shown} <= held_out
    assert any(each[2] for each in shown) and shown[0][0].size == (3 * 132 - 4, 128)
    says(proposal_views.story(status, report), f"{test.fixes} right now, {test.breaks} wrong now")
    running = replace(status, state="running", events=status.events[:-2])
    monkeypatch.setattr(world.services, "look", lambda name: running)
    event = latest_effect(running)
    assert event is not None
    effects = len(event.evidence.fixed) + len(event.evidence.broken)
    assert len(world.services.thumbnails(world.name)) == min(6, effects)


def test_what_the_audit_holds_is_not_shown(world: World) -> None:
    _, audit = split(read_folder(world.data).examples, share=0.25, seed=0)
    event = world.decided(kept=True)[0]
    for name in (audit[0].id, "nothing"):
        with pytest.raises(DataError):
            world.services.case(world.name, event, name)
        with pytest.raises(DataError):
            world.services.correct(world.name, name, "A")


def test_a_router_that_is_not_used_is_no_part_of_a_question(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    jobs, used = world.services._jobs, []
    asked = {**jobs.asked(world.name), "router": "vllm:router@http://127.0.0.1:9/v1"}
    monkeypatch.setattr(jobs, "asked", lambda name: asked)
    monkeypatch.setattr("app.evolve.runs.question_key", lambda library, example, router: used.append(router) or "")
    world.services.queued_case(world.name, WRONG)
    assert used == [False]


def test_a_label_that_no_version_understands_is_corrected_for_the_next_run(world: World) -> None:
    before = (world.data / "pairs.jsonl").read_bytes()
    queue = world.services.label_queue(world.name)
    others = {name for name, _ in queue.left} - {WRONG}
    assert len(others) < len(queue.left) and queue.reviewed == 0, "it holds the one that is labelled wrongly"
    [seen] = world.services.queued_case(world.name, WRONG).seen
    assert seen.judgment is not None and seen.judgment.preference == "B"
    file = world.services.correct(world.name, WRONG, "B")
    left = world.services.label_queue(world.name)
    assert {name for name, _ in left.left} == others and left.reviewed == 1
    assert read_corrections(file)[WRONG].changes and (world.data / "pairs.jsonl").read_bytes() == before
    says(evolve_views.corrected(file, changed=True), "next run")
    found = world.services.expect(world.run)
    assert found.preview["corrections"] == 1
    says(evolve_views.expected(found.preview), "1 corrected label")
    unused = world.services.expect(NewJob(replace(world.run.config, corrections=None)))
    assert unused.preview["corrections"] == 0
    name = world.services.start(found)
    world.services.correct(world.name, WRONG, "tie")  # while the new run goes on: it has a copy of its own
    done = follow(world.services, name)
    assert done.state == "finished" and WRONG not in dict(world.services.label_queue(name).left)
    assert world.services.queued_case(name, WRONG).label == "B"
    file.unlink()


def test_a_label_that_is_right_is_not_asked_about_again(world: World) -> None:
    file = world.services.correct(world.name, WRONG, None)
    assert not read_corrections(file)[WRONG].changes and WRONG not in dict(world.services.label_queue(world.name).left)
    assert world.services.expect(world.run).preview["corrections"] == 0
    with pytest.raises(InputError):
        world.services.correct(world.name, WRONG, "D")
    file.unlink()


def test_data_that_changed_since_are_told(world: World, tmp_path: Path) -> None:
    name = "moved"
    shutil.copytree(world.home / "runs" / world.name, world.home / "runs" / name)
    moved = world.home / "runs" / name
    data = shutil.copytree(world.data, tmp_path / "pairs")
    record = json.loads((moved / "record.json").read_text())
    sitting = record["sessions"][-1]
    sitting["arguments"]["data"], sitting["folder"] = "pairs", str(tmp_path)
    write_text(moved / "record.json", json.dumps(record))
    event = next(each for each in world.decided(kept=True) if each.evidence.fixed)
    example = event.evidence.fixed[0]
    assert not world.services.case(name, event, example).changed
    rows = [row for _, row in read_jsonl(data / "pairs.jsonl")]
    write_text(data / "pairs.jsonl", "".join(json.dumps({**row, "category": "x"}) + "\n" for row in rows[:-1]))
    fresh = services_of(world.home, tmp_path / "scratch")
    says(example_views.words(fresh.case(name, event, example)), "have changed")
    (moved / "record.json").unlink()
    with pytest.raises(RunError, match="does not record its data"):
        fresh.case(name, event, example)
    shutil.rmtree(moved)


def test_reports_and_versions_say_what_they_are_worth(world: World) -> None:
    services = world.services
    report = services.report(world.name)
    assert report is not None
    says(evolve_views.report(report, "/place"), f"of {report.audit.n}", "/place", "expect less on others")
    skipped = {"n": 2, "first": [{"place": "row 2", "reason": "it is <b>bad</b>"}]}
    told = evolve_views.report(replace(report, skipped_rows=skipped))
    says(told, "Neither in the training examples nor in the test set: 2 bad rows", "<b>bad</b>")
    scores = report.audit.start, report.audit.final
    regression = RegressionReport(6, 0.05, False, *scores, (GroupScore("over edit", *scores),))
    says(evolve_views.report(replace(report, regression=regression)), "Regression set", "over edit")
    says(evolve_views.report(report), no=["2 bad rows", "Regression set"])
    page = services.report_file(world.name)
    assert page is not None and page.read_text().startswith("<!doctype html>") and "<script" not in page.read_text()
    versions = services.versions(world.name)
    assert [version.number for version in versions] == list(range(len(versions))) and len(versions) > 1
    last, library = versions[-1], services.library(world.name, versions[-1].number)
    assert library.id == last.library_id
    says(evolve_views.version(last, library, report.audit.final, "/place"), "Held-out test set:", "/place")
    says(evolve_views.version(versions[1], library, None, ""), "not evaluated on the held-out test set")
    choices = proposal_views.version_choices(versions)
    assert [number for _, number in choices] == [version.number for version in reversed(versions[1:])]
    with pytest.raises(LibraryError):
        services.library(world.name, 99)


def test_starting_a_run_clears_the_key_of_the_orchestrator() -> None:
    form = SimpleNamespace(secrets=("key field",), start=SimpleNamespace(without_preview=dict))
    service = SimpleNamespace(start=lambda expected: "run")
    events: Any = SimpleNamespace(form=form, service=service, open=lambda name, held: {"opened": name})
    started = EvolveEvents.start(events, Expected(PreparedJob(EvolveConfig("demo")), {}), None)
    assert started == {"key field": "", "opened": "run"}
