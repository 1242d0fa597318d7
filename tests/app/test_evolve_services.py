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
from hostile import read_own
from hub_parts import Hub, running_hub

from app.evolve import proposal_views
from app.evolve import views as evolve_views
from app.evolve.events import EvolveEvents
from app.evolve.proposal_views import EditItem
from app.evolve.runs import ExampleCase
from app.evolve.service import EvolveServices
from app.library.libraries import ANONYMOUS, HubServices
from app.run_panel.new_jobs import NewJob, PreparedJob
from app.run_panel.service import Expected
from app.viewer import example_views
from rewardharness.data.corrections import read_corrections
from rewardharness.data.folder import read_folder
from rewardharness.data.source import split
from rewardharness.errors import DataError, InputError, LibraryError, RunError
from rewardharness.evolution.config import AUTO, EvolveConfig
from rewardharness.evolution.events import Decided
from rewardharness.evolution.regression import GroupScore, RegressionReport
from rewardharness.files import read_jsonl, write_text
from rewardharness.library.diff import diff_libraries
from rewardharness.library.entry import Entry
from rewardharness.library.hub import PushOptions, StaleError, pull, push
from rewardharness.library.store import AddEntry, Library
from rewardharness.settings import Settings

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


def judgments(case: ExampleCase) -> list[str | None]:
    return [seen.judgment.preference if seen.judgment else None for seen in case.seen]


def test_fixes_and_breaks_are_shown_as_they_were_judged(world: World) -> None:
    flipped = 0
    for event in (*world.decided(kept=True), *world.decided(kept=False)):
        evidence = event.evidence
        for name in (*evidence.fixed[:3], *evidence.broken[:3]):
            case = world.services.case(world.name, event, name)
            before, after = (value == case.label for value in judgments(case))
            assert (before, after) == ((False, True) if name in evidence.fixed else (True, False))
            assert all(seen.judgment is not None and seen.judgment.steps for seen in case.seen) and not case.changed
            flipped += 1
    assert flipped
    shown = world.services.pictures(case)
    assert [title for _, title in shown] == ["Source", "Candidate A", "Candidate B"] and shown[0][0].size == (64, 64)
    text = read_own(example_views.words(case)).text
    assert case.example.instruction in text and "as the label says" in text and "against the label" in text
    assert "How the grades were weighed" in read_own(example_views.chain(case.seen[0].judgment, ("A", "B"))).text


def test_what_the_audit_holds_is_not_shown(world: World) -> None:
    _, audit = split(read_folder(world.data).examples, share=0.25, seed=0)
    event = world.decided(kept=True)[0]
    for name in (audit[0].id, "nothing"):
        with pytest.raises(DataError):
            world.services.case(world.name, event, name)
        with pytest.raises(DataError):
            world.services.correct(world.name, name, "A")


def test_a_router_that_the_judge_does_not_use_is_no_part_of_a_question(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
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
    assert "next run" in read_own(evolve_views.corrected(file, changed=True)).text
    found = world.services.expect(world.run)
    assert found.preview["corrections"] == 1
    assert "1 corrected label" in read_own(evolve_views.expected(found.preview)).text
    unused = world.services.expect(NewJob(replace(world.run.config, corrections=None)))
    assert unused.preview["corrections"] == 0
    name = world.services.start(found)
    world.services.correct(world.name, WRONG, "tie")  # while the new run goes on: it has a copy of its own
    done = follow(world.services, name)
    assert done.state == "finished" and WRONG not in dict(world.services.label_queue(name).left)
    assert world.services.queued_case(name, WRONG).label == "B"
    rows, comparable = world.services.compare([world.name, name])
    assert comparable and [row.name for row in rows] == [world.name, name]
    assert rows[0].start == rows[1].start, "the audit keeps the labels that were given"
    read_own(evolve_views.compared(rows, comparable=False))
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
    assert "have changed" in read_own(example_views.words(fresh.case(name, event, example))).text
    (moved / "record.json").unlink()
    with pytest.raises(RunError, match="does not record its data"):
        fresh.case(name, event, example)
    shutil.rmtree(moved)


def test_reports_and_versions_say_what_they_are_worth(world: World) -> None:
    services = world.services
    report = services.report(world.name)
    assert report is not None
    text = read_own(evolve_views.report(report, "/place")).text
    assert f"of {report.audit.n}" in text and "/place" in text and "expect less on others" in text
    skipped = {"n": 2, "first": [{"place": "row 2", "reason": "it is <b>bad</b>"}]}
    told = read_own(evolve_views.report(replace(report, skipped_rows=skipped))).text
    assert "Neither in the training examples nor in the test set: 2 bad rows" in told and "<b>bad</b>" in told
    assert "2 bad rows" not in text
    scores = report.audit.start, report.audit.final
    regression = RegressionReport(6, 0.05, False, *scores, (GroupScore("over edit", *scores),))
    known = read_own(evolve_views.report(replace(report, regression=regression))).text
    assert "Regression set" in known and "over edit" in known and "Regression set" not in text
    page = services.report_file(world.name)
    assert page is not None and page.read_text().startswith("<!doctype html>") and "<script" not in page.read_text()
    versions = services.versions(world.name)
    assert [version.number for version in versions] == list(range(len(versions))) and len(versions) > 1
    last, library = versions[-1], services.library(world.name, versions[-1].number)
    assert library.id == last.library_id
    audited = read_own(evolve_views.version(last, library, report.audit.final, "/place")).text
    assert "Held-out test set:" in audited and "/place" in audited
    assert (
        "not evaluated on the held-out test set" in read_own(evolve_views.version(versions[1], library, None, "")).text
    )
    choices = proposal_views.version_choices(versions)
    assert [number for _, number in choices] == [version.number for version in reversed(versions[1:])]
    with pytest.raises(LibraryError):
        services.library(world.name, 99)


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    with running_hub(tmp_path, monkeypatch) as running:
        yield running


def on_hub(
    world: World, hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[EvolveServices, HubServices]:
    access = hub.user("ann")
    monkeypatch.setenv("HF_TOKEN", str(access.token))
    env = {"HF_ENDPOINT": hub.server.url, "HF_HUB_CACHE": str(access.cache)}
    services = HubServices(Settings.from_env(env), tmp_path / "scratch", local=True)
    return services_of(world.home, tmp_path / "scratch", **env), services


def test_versions_are_published_one_after_the_other_with_their_evidence(
    world: World, hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (services, on), name, repo = on_hub(world, hub, tmp_path, monkeypatch), world.name, "ann/evolved"
    last = services.versions(name)[-1].number
    with pytest.raises(InputError, match="No version"):
        services.order(name, 0, repo, PushOptions())
    first = on.preview(services.order(name, last, repo, PushOptions()), ANONYMOUS)
    assert first.pushed.created and first.pushed.version == "v0.1.0" and repo not in hub.server.store.repos
    assert "that edits were chosen on" in first.pushed.card
    done = on.publish(first, ANONYMOUS)
    report = services.report(name)
    assert report is not None and "on which nothing was decided" in done.card
    assert f"{report.audit.final.accuracy:.3f}" in done.card
    pulled = pull(repo, done.version, access=hub.user("ann", "elsewhere"))
    assert pulled.library.id == report.library.final_id and len(pulled.library.lineage) >= last


def test_a_version_is_proposed_to_where_it_began_and_replaces_nothing_of_others(
    world: World, hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (services, on), repo = on_hub(world, hub, tmp_path, monkeypatch), "ann/taken"
    push(Library.load(Path(str(world.run.config.library))), repo, access=hub.user("ann"))
    assert on.preview(services.order(world.name, 1, repo, PushOptions()), ANONYMOUS).pushed.version == "v0.1.1"
    entry = Entry("theirs", "skill", "Of others.", "Look.", {"triggers": "always"})
    other = Library.load(Path(str(world.run.config.library))).apply(AddEntry(entry))
    push(other, repo, PushOptions(base="main"), access=hub.user("ann"))
    with pytest.raises(StaleError, match="has newer commits"):
        on.preview(services.order(world.name, 1, repo, PushOptions()), ANONYMOUS)
    merged = on.preview(services.order(world.name, 1, repo, PushOptions(rebase=True)), ANONYMOUS).pushed
    assert "`theirs`" in merged.card and not merged.changes.deleted


def test_runs_of_the_command_line_are_followed_and_odd_folders_do_no_harm(world: World) -> None:
    runs = world.home / "runs"
    (runs / "broken").mkdir()
    write_text(runs / "broken" / "run.json", "{")
    write_text(runs / "scores" / "run.json", '{"command": "score"}')
    assert [run.status.name for run in world.services.runs() if run.status.name in {"broken", "scores"}] == []
    shutil.rmtree(runs / "broken")
    shutil.rmtree(runs / "scores")


def test_starting_a_run_clears_the_key_of_the_orchestrator() -> None:
    form = SimpleNamespace(secrets=("key field",), start=SimpleNamespace(without_preview=dict))
    service = SimpleNamespace(start=lambda expected: "run")
    events: Any = SimpleNamespace(form=form, service=service, open=lambda name, held: {"opened": name})
    assert EvolveEvents.start(events, Expected(PreparedJob(EvolveConfig("demo")), {}), None) == {
        "key field": "",
        "opened": "run",
    }
