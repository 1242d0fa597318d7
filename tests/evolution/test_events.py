from dataclasses import replace
from pathlib import Path

from rewardharness.cli.progress import event_line
from rewardharness.evolution.events import (
    EVENTS,
    KINDS,
    Concluding,
    Decided,
    EvidenceReport,
    Finished,
    Judged,
    PhaseBegan,
    Resumed,
    Skipped,
    Started,
    event_of,
    read_events,
    write_event,
)
from rewardharness.evolution.held_out import Score
from rewardharness.evolution.status import read_status, status_of
from rewardharness.files import append_jsonl, write_json
from rewardharness.runs.spending import Spent

STARTED = Started("j", "o", "default", "d", 3, 1, "id", 0, {"begin": 3})


def decided(step: int, decision: str = "accept") -> Decided:
    evidence = EvidenceReport(decision, "1 fixed", fixed=("a",))  # type: ignore[arg-type]
    return Decided("sig", "add", ("x",), "Why.", ("a",), "s", evidence, 0.5, "id", 1, Spent(5), step=step)


def test_events_come_back_as_they_were_written(tmp_path: Path) -> None:
    written = [STARTED, Judged(3, 0, 0.5), PhaseBegan("tools", 2, step=1), decided(2), Finished("dry", 0.5, None, "id")]
    for event in written:
        write_event(tmp_path, event)
    read = read_events(tmp_path)
    assert [replace(event, at="") for event in read] == written and all(event.at for event in read)
    assert all(word == kind.__name__.lower() for word, kind in KINDS.items())


def test_judgments_of_the_pool_count_before_an_event_tells_them(tmp_path: Path) -> None:
    write_json(tmp_path / "run.json", {"command": "evolve"})
    write_event(tmp_path, STARTED)
    assert read_status(tmp_path).judgments == 0
    for number in range(2):
        append_jsonl(tmp_path / "results.jsonl", {"id": f"0/{number}"})
    assert read_status(tmp_path).judgments == 2
    write_event(tmp_path, Judged(3, 1, 0.5))
    assert read_status(tmp_path).judgments == 4


def test_the_end_tells_the_audit_with_its_interval_unless_an_earlier_version_wrote_it(tmp_path: Path) -> None:
    score = Score(4, 4, 0.5, (0.15, 0.85))
    for number, end in enumerate((Finished("dry", 0.5, 0.5, "id", score), Finished("dry", 0.5, 0.5, "id"))):
        folder = tmp_path / str(number)
        write_json(folder / "run.json", {"command": "evolve"})
        for event in (STARTED, Judged(3, 0, 0.5), end):
            write_event(folder, event)
        audit = read_status(folder).audit
        assert audit is not None and audit.accuracy == 0.5
        assert audit.interval == (None if number else (0.15, 0.85))


def test_a_step_that_is_taken_again_is_told_once(tmp_path: Path) -> None:
    first = (STARTED, Resumed(step=0), Judged(3, 0, 0.5), decided(1), Skipped("p", "r", step=2), decided(2))
    for event in (*first, Resumed(step=2), decided(2, "reject"), Concluding("dry", step=3)):
        write_event(tmp_path, event)
    read = read_events(tmp_path)
    assert [(event.step, event.accepted) for event in read if isinstance(event, Decided)] == [(1, True), (2, False)]
    assert [type(event) for event in read[:3]] == [Started, Resumed, Judged] and "r" not in map(repr, read)
    assert not [event for event in read if isinstance(event, Skipped)]


def test_what_a_search_has_spent_holds_the_trial_that_its_budget_ended(tmp_path: Path) -> None:
    for event in (STARTED, Judged(3, 0, 0.5), decided(1)):
        write_event(tmp_path, event)
    at_decision = status_of(tmp_path, {}, read_events(tmp_path)).judgments
    write_event(tmp_path, Concluding("the budget is spent", Spent(at_decision + 65), step=2))
    assert status_of(tmp_path, {}, read_events(tmp_path)).judgments == at_decision + 65
    write_event(tmp_path, Concluding("as earlier versions wrote it", step=2))
    assert status_of(tmp_path, {}, read_events(tmp_path)).judgments == at_decision + 65


def test_lines_that_cannot_be_read_are_passed_over(tmp_path: Path) -> None:
    write_event(tmp_path, STARTED)
    with (tmp_path / EVENTS).open("ab") as stream:
        stream.write(b'{"event": "from the future", "step": 1}\n{"event": "judged"}\n[1]\n{"event": "jud')
    write_event(tmp_path, Judged(3, 0, 0.5))
    assert [type(event) for event in read_events(tmp_path)] == [Started, Judged]
    newer = {"event": "judged", "judged": 1, "failed": 0, "accuracy": None, "new_field": 2}
    assert event_of(newer) == Judged(1, 0, None)


def test_a_cross_validation_judges_more_examples_than_its_edit_affects() -> None:
    event = decided(1)
    line = event_line(replace(event, evidence=replace(event.evidence, calls=30, affected=21)))
    assert "21 examples affected, 30 judged" in line and "30 of 21" not in line
