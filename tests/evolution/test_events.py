import json
import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest
from small_world import BRIGHTER, GOOD, IDLE, add, make_dataset, make_plan, skill

from rewardharness.cli.report import event_line
from rewardharness.codec import from_json, to_json
from rewardharness.errors import RunError
from rewardharness.evolution import events
from rewardharness.evolution.checkpoint import CHAMPION, CHECKPOINT, Checkpoints, proposal_json, read_proposal
from rewardharness.evolution.evaluator import Evaluator
from rewardharness.evolution.events import (
    Concluding,
    Decided,
    Finished,
    Judged,
    Resumed,
    Skipped,
    Started,
    read_events,
    read_status,
)
from rewardharness.evolution.held_out import Score
from rewardharness.evolution.progress import RESERVE, check_disk
from rewardharness.evolution.proposal import Finding, Proposal, RejectedProposal
from rewardharness.evolution.state import Pending, State, begin
from rewardharness.files import append_jsonl, write_json
from rewardharness.library.entry import Entry
from rewardharness.library.opening import open_library
from rewardharness.library.rubric import Criterion, Rubric
from rewardharness.library.store import EMPTY, AddEntry, Library, RemoveEntry, ReplaceEntry
from rewardharness.runs.job import STOP_FILE, RunPaused, Stopped, StopRequest
from rewardharness.runs.spending import Budget, Price, SpendingLimits, Spent
from rewardharness.schema import Usage

STARTED = Started("j", "o", "default", "d", 3, 1, "id", 0, {"begin": 3})


def decided(step: int, decision: str = "accept") -> Decided:
    evidence = events.EvidenceReport(decision, "1 fixed", fixed=("a",))  # type: ignore[arg-type]
    return Decided("sig", "add", ("x",), "Why.", ("a",), "s", evidence, 0.5, "id", 1, Spent(5), step=step)


def write(folder: Path, *told: events.Event) -> Path:
    """Write events into a run folder."""
    write_json(folder / "run.json", {"command": "evolve"})
    for event in told:
        events.write_event(folder, event)
    return folder


def test_events_come_back_as_they_were_written(tmp_path: Path) -> None:
    phase = events.PhaseBegan("tools", 2, step=1)
    written = [STARTED, Judged(3, 0, 0.5), phase, decided(2), Finished("dry", 0.5, None, "id")]
    read = read_events(write(tmp_path, *written))
    assert [replace(event, at="") for event in read] == written and all(event.at for event in read)
    assert all(word == kind.__name__.lower() for word, kind in events.KINDS.items())


def test_judgments_of_the_pool_count_before_an_event_tells_them(tmp_path: Path) -> None:
    assert read_status(write(tmp_path, STARTED)).judgments == 0
    for number in range(2):
        append_jsonl(tmp_path / "results.jsonl", {"id": f"0/{number}"})
    assert read_status(tmp_path).judgments == 2
    assert read_status(write(tmp_path, Judged(3, 1, 0.5))).judgments == 4
    assert read_status(write(tmp_path, decided(1))).judgments == 5
    ended = Concluding("the budget is spent", Spent(70), step=2)
    assert read_status(write(tmp_path, ended)).judgments == 70, "with the trial that its budget ended"
    score = Score(4, 4, 0.5, (0.15, 0.85))
    assert read_status(write(tmp_path, Finished("dry", 0.5, 0.5, "id", score))).audit == score


def test_a_step_that_is_taken_again_is_told_once(tmp_path: Path) -> None:
    first = (STARTED, Resumed(step=0), Judged(3, 0, 0.5), decided(1), Skipped("p", "r", step=2), decided(2))
    read = read_events(write(tmp_path, *first, Resumed(step=2), decided(2, "reject"), Concluding("dry", step=3)))
    assert [(event.step, event.accepted) for event in read if isinstance(event, Decided)] == [(1, True), (2, False)]
    assert [type(event) for event in read[:3]] == [Started, Resumed, Judged]
    assert not [event for event in read if isinstance(event, Skipped)]


def test_lines_that_cannot_be_read_are_passed_over(tmp_path: Path) -> None:
    with (write(tmp_path, STARTED) / events.EVENTS).open("ab") as stream:
        stream.write(b'{"event": "from the future", "step": 1}\n{"event": "judged"}\n[1]\n{"event": "jud')
    assert [type(event) for event in read_events(write(tmp_path, Judged(3, 0, 0.5)))] == [Started, Judged]
    newer = {"event": "judged", "judged": 1, "failed": 0, "accuracy": None, "new_field": 2}
    assert events.event_of(newer) == Judged(1, 0, None)


def test_a_cross_validation_judges_more_examples_than_its_edit_affects() -> None:
    event = decided(1)
    line = event_line(replace(event, evidence=replace(event.evidence, calls=30, affected=21)))
    assert "21 examples affected, 30 judged" in line and "30 of 21" not in line


USED = Usage(3, 2_000_000, 500_000, 1.0)


def test_an_unknown_price_is_not_zero() -> None:
    assert Price(1.0, 4.0).of(USED) == pytest.approx(4.0)
    assert Price(1.0, None).of(USED) is None
    assert Price().of(Usage()) == 0
    assert SpendingLimits(judge_price=Price(1, 4)).money(Spent(judge=USED, orchestrator=USED)) is None
    spent = Spent(judge=USED)
    assert SpendingLimits(judge_price=Price(1, 4)).money(spent) == pytest.approx(4.0)
    assert from_json(Spent, to_json(spent)) == spent


@pytest.mark.parametrize(
    ("word", "most"), [("judgments", 10), ("tokens", 2_500_000), ("seconds", 60.0), ("money", 4.0), ("requests", 3)]
)
def test_each_part_of_a_budget_is_named_when_it_is_spent(word: str, most: float) -> None:
    limits = SpendingLimits(Budget(**{word: most}), Price(1, 4))  # type: ignore[arg-type]
    assert limits.exceeded(Spent(9, Usage(1, 10, 10, 1.0), seconds=59.0)) is None
    reason = limits.exceeded(Spent(10, USED, seconds=60.0))
    assert reason is not None and word in reason


def test_a_file_and_the_first_interrupt_ask_and_the_second_insists(tmp_path: Path) -> None:
    stop, heard = StopRequest(tmp_path), []
    stop.check()
    before = signal.getsignal(signal.SIGINT)
    with stop.listening(lambda: heard.append(1)):
        os.kill(os.getpid(), signal.SIGINT)
        assert stop() and heard == [1]
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)
    assert signal.getsignal(signal.SIGINT) is before
    other = StopRequest(tmp_path)
    (tmp_path / STOP_FILE).touch()
    with pytest.raises(Stopped):
        other.check()


def test_a_disk_that_is_nearly_full_pauses_the_run(tmp_path: Path) -> None:
    check_disk((tmp_path,), lambda path: RESERVE)
    with pytest.raises(RunPaused, match="Only 32 MiB are free") as caught:
        check_disk((tmp_path, tmp_path / "cache"), lambda path: RESERVE - 1 if path.name == "cache" else RESERVE)
    assert caught.value.kind == "disk" and "same command" in caught.value.next_step


POOL = make_dataset(2).examples
SPENT = Spent(40, Usage(3, 4, 5, 6.5), Usage(1, 2, 3, 4.0), 7.5)


def make_bench(home: Path) -> Evaluator:
    return Evaluator(make_plan(home)[0].judge)


def make_state(evaluator: Evaluator) -> State:
    library = EMPTY.apply(AddEntry(skill("cats", "cat", BRIGHTER))).with_lineage({"step": 3})
    state = begin(library, evaluator.judge(library, POOL))
    numbers = {"step": 5, "round": 2, "idle": 1, "proposed": 4, "accepted": 1, "version": 1, "prune_limit": 9}
    screened = replace(Pending.of(GOOD[1], library), screened=True, rehearsed=True, fixes=2, breaks=1)
    pending = (screened, Pending.of(IDLE, library, single=True))
    tried = {"rejected": (RejectedProposal.of(add("trees", "tree", "x"), "no use"),), "queue": ("cats",), "best": 0.75}
    findings = (Finding("Cats.", ("cat-00",), ("add",), 1, 2),)
    return replace(state, phase="tools", gained=True, pending=pending, findings=findings, **numbers, **tried)  # type: ignore[arg-type]


def test_a_state_comes_back_whole(tmp_path: Path) -> None:
    evaluator = make_bench(tmp_path)
    state = make_state(evaluator)
    none = Checkpoints(tmp_path / "run")
    assert (none.load(POOL, evaluator), none.step, none.spent) == (None, None, Spent()), "it begins anew"
    none.save(state, SPENT)
    EMPTY.save(tmp_path / "run" / CHAMPION)
    kept = Checkpoints(tmp_path / "run")
    assert (kept.step, kept.spent) == (5, SPENT)
    back = kept.load(POOL, make_bench(tmp_path))
    assert back is not None
    assert back.library == state.library and back.library.lineage == state.library.lineage
    assert list(back.outcomes) == list(state.outcomes)
    assert [each.credit for each in back.outcomes.values()] == [each.credit for each in state.outcomes.values()]
    assert back.pending == state.pending
    assert Library.load(tmp_path / "run" / CHAMPION) == state.library, "the copy of the champion is made good"
    for name in ("histories", "rejected", "findings", "queue", "prune_limit", "best", "phase", "gained", "ending"):
        assert getattr(back, name) == getattr(state, name), name


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (('"schema": 1', '"schema": 99'), "another version"),
        (('"version": 1', '"version": 7'), "cannot be used"),
        (('"do": "add"', '"do": "burn"'), "cannot be used"),
        *(((f'"{key}"', '"x"'), "cannot be used") for key in "queue spent pool pending library_id rejected".split()),
    ],
)
def test_damage_is_named_and_never_taken_for_a_beginning(tmp_path: Path, damage: tuple[str, str], words: str) -> None:
    evaluator = make_bench(tmp_path)
    Checkpoints(tmp_path).save(make_state(evaluator), SPENT)
    path = tmp_path / CHECKPOINT
    text = path.read_text(encoding="utf-8")
    path.write_text(text.replace(*damage), encoding="utf-8")
    with pytest.raises(RunError, match=words) as caught:
        Checkpoints(tmp_path).load(POOL, evaluator)
    assert "--restart" in caught.value.next_step
    path.write_text(text, encoding="utf-8")
    Library((skill("dogs", "dog", "x"),)).save(tmp_path / "versions" / "0001")
    with pytest.raises(RunError, match="another Library"):
        Checkpoints(tmp_path).load(POOL, evaluator)


def test_every_sort_of_change_survives() -> None:
    rubric = Rubric((Criterion("a", "Look: at «it»", 2.5, measure="seam", applies=("add",)),))
    prompted = {"system_prompt": "Look:\n- closely", "output_schema": {"n": "integer"}}
    tool = Entry("looker", "tool", "Looks.", "Call it.", **prompted)  # type: ignore[arg-type]
    old = open_library("builtin").skills[0]
    changes = (
        AddEntry(Entry("new", "skill", "New.", "Body\n---\nmore", {"triggers": "a, /b.*c/"}, rubric=rubric), "why"),
        AddEntry(tool),
        ReplaceEntry(replace(old, description="Changed.")),
        RemoveEntry("gone", "pruned"),
    )
    proposal = Proposal("merge", changes, "Because.", ("x",), "me", ("idea",), mutation="merge")
    back = read_proposal(json.loads(json.dumps(proposal_json(proposal))))
    assert back == proposal
    assert replace(back, idea=()).signature == replace(proposal, idea=()).signature
