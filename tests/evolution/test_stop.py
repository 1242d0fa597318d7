import os
import signal
from pathlib import Path

import pytest

from rewardharness.codec import from_json
from rewardharness.evolution.stop import RESERVE, check_disk
from rewardharness.runs.spending import Budget, Price, SpendingLimits, Spent
from rewardharness.runs.stop import STOP_FILE, RunPaused, Stopped, StopRequest
from rewardharness.schema import Usage

USED = Usage(3, 2_000_000, 500_000, 1.0)


def test_an_unknown_price_is_not_zero() -> None:
    assert Price(1.0, 4.0).of(USED) == pytest.approx(4.0)
    assert Price(1.0, None).of(USED) is None
    assert Price().of(Usage()) == 0
    assert SpendingLimits(judge_price=Price(1, 4)).money(Spent(judge=USED, orchestrator=USED)) is None
    spent = Spent(judge=USED)
    assert SpendingLimits(judge_price=Price(1, 4)).money(spent) == pytest.approx(4.0)
    assert from_json(Spent, spent.to_json()) == spent


@pytest.mark.parametrize(
    ("budget", "word"),
    [
        (Budget(judgments=10), "judgments"),
        (Budget(tokens=2_500_000), "tokens"),
        (Budget(seconds=60.0), "seconds"),
        (Budget(money=4.0), "money"),
        (Budget(requests=3), "requests"),
    ],
)
def test_each_part_of_a_budget_is_named_when_it_is_spent(budget: Budget, word: str) -> None:
    limits = SpendingLimits(budget, Price(1, 4))
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
