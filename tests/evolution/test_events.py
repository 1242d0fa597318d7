import os
import signal
from dataclasses import replace
from pathlib import Path

import pytest

from rewardharness.cli.progress import event_line
from rewardharness.codec import from_json, to_json
from rewardharness.evolution import events
from rewardharness.evolution.events import Concluding, Decided, Finished, Judged, Resumed, Skipped, Started, read_events
from rewardharness.evolution.held_out import Score
from rewardharness.evolution.status import read_status
from rewardharness.evolution.stop import RESERVE, check_disk
from rewardharness.files import append_jsonl, write_json
from rewardharness.runs.spending import Budget, Price, SpendingLimits, Spent
from rewardharness.runs.stop import STOP_FILE, RunPaused, Stopped, StopRequest
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
    assert read_status(write(tmp_path, Concluding("as earlier versions wrote it", step=2))).judgments == 70


def test_the_end_tells_the_audit_with_its_interval_unless_an_earlier_version_wrote_it(tmp_path: Path) -> None:
    score = Score(4, 4, 0.5, (0.15, 0.85))
    for number, end in enumerate((Finished("dry", 0.5, 0.5, "id", score), Finished("dry", 0.5, 0.5, "id"))):
        audit = read_status(write(tmp_path / str(number), STARTED, Judged(3, 0, 0.5), end)).audit
        assert audit is not None and audit.accuracy == 0.5
        assert audit.interval == (None if number else (0.15, 0.85))


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
    with pytest.raises(RunPaused, match="MiB are free") as caught:
        check_disk((tmp_path, tmp_path / "cache"), lambda path: RESERVE - 1 if path.name == "cache" else RESERVE)
    assert caught.value.kind == "disk" and "same command" in caught.value.next_step
