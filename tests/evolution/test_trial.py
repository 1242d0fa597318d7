from collections.abc import Mapping, Sequence

import pytest

from rewardharness.evolution.gate import EXACT, AnswerHistory, Evidence, Noise, SignTest
from rewardharness.evolution.proposal import Outcome
from rewardharness.evolution.state import begin
from rewardharness.evolution.trial import GateSettings, Trial, credit_of, try_edit
from rewardharness.library.store import EMPTY
from rewardharness.runs.stop import RunPaused
from rewardharness.schema import Example, Failure, ImageInput, Judgment

BLANK = ImageInput("x", data=b"")
TIMEOUT, SILENT = Failure("timeout", "Too slow."), Failure("nothing_to_measure", "No criteria.")

LENIENT = SignTest(0.5)
ONE_BY_ONE = GateSettings(LENIENT, EXACT, batch=1)


def example(number: int) -> Example:
    return Example(f"e{number:02d}", "make it shine", BLANK, (BLANK, BLANK), "A")


def outcome(what: Example, right: bool | None, failure: Failure = TIMEOUT) -> Outcome:
    if right is None:
        return Outcome(what, Judgment(what.id, "j", "p", "l", failure=failure), 0.0)
    return Outcome(what, Judgment(what.id, "j", "p", "l", "A" if right else "B"), float(right))


class Table:
    """Answers from a table, and remembers what it was asked."""

    def __init__(self, after: Mapping[str, bool | None], failure: Failure = TIMEOUT) -> None:
        self.after, self.failure = after, failure
        self.asked: list[str] = []

    def __call__(self, examples: Sequence[Example]) -> list[Outcome]:
        self.asked += [each.id for each in examples]
        return [outcome(each, self.after[each.id], self.failure) for each in examples]


def run(
    before: str,
    after: str,
    *,
    gate: GateSettings = ONE_BY_ONE,
    failure: Failure = TIMEOUT,
    histories: Mapping[str, AnswerHistory] | None = None,
    seed: int = 0,
    counted: Sequence[str] | None = None,
) -> tuple[Evidence, Trial, Table]:
    """Try an edit: one letter per example, + right, - wrong, ? no judgment."""
    signs: dict[str, bool | None] = {"+": True, "-": False, "?": None}
    examples = [example(number) for number in range(len(before))]
    old = {each.id: outcome(each, signs[sign], failure) for each, sign in zip(examples, before, strict=True)}
    table = Table({each.id: signs[sign] for each, sign in zip(examples, after, strict=True)}, failure)
    known = begin(EMPTY, old.values()).histories
    trial = Trial(examples, old, table)
    return try_edit(trial, {**known, **(histories or {})}, gate, seed, counted), trial, table


def test_a_helpful_edit_is_judged_on_all_that_it_touches() -> None:
    evidence, trial, table = run("----++++", "++--++++")
    assert evidence.decision == "accept"
    assert (evidence.fixes, evidence.breaks, evidence.ties, evidence.judged) == (2, 0, 6, 8)
    assert evidence.fixed == ("e00", "e01") and evidence.broken == ()
    assert sorted(table.asked) == sorted(trial.outcomes) == [f"e{n:02d}" for n in range(8)], "each once"
    assert evidence.calls == evidence.affected == 8
    assert evidence.p_value == 0.25


def test_an_edit_that_cannot_be_accepted_costs_little() -> None:
    evidence, _, table = run("----" + "+" * 30, "----" + "-" * 30)
    assert evidence.decision == "reject" and len(table.asked) <= 6
    evidence, _, table = run("+" * 12, "+" * 12)
    assert evidence.decision == "reject" and table.asked == [], "nothing goes wrong"
    evidence, _, _ = run("", "")
    assert evidence.decision == "reject" and evidence.calls == 0 and "no example" in evidence.reason


def test_only_examples_that_count_are_evidence_and_all_that_are_touched_are_known() -> None:
    evidence, _, table = run("--------++", "++------++", counted=[f"e{n:02d}" for n in range(2, 10)])
    assert evidence.decision == "reject" and evidence.fixes == 0
    assert not {"e00", "e01"} & set(table.asked), "a rejected edit is not judged on others"
    evidence, trial, _ = run("----++++++", "++++++++++", counted=[f"e{n:02d}" for n in range(1, 10)])
    assert evidence.decision == "accept" and evidence.fixes == 3
    assert "e00" in trial.outcomes and "e00" in evidence.fixed


def test_a_failed_judgment_is_neither_fix_nor_break() -> None:
    evidence, _, _ = run("---?+++++", "++??+++?+")
    assert (evidence.fixes, evidence.breaks, evidence.failed, evidence.judged) == (2, 0, 3, 6)
    assert not {"e02", "e03", "e07"} & {*evidence.fixed, *evidence.broken}
    with pytest.raises(RunPaused, match="failed"):
        run("----++++", "??????++")


def test_where_the_library_said_nothing_a_coin_is_the_measure() -> None:
    evidence, _, _ = run("??????", "++++++", failure=SILENT)
    assert evidence.decision == "accept" and evidence.fixes == 6
    assert run("??????", "------", failure=SILENT)[0].decision == "reject"
    assert credit_of(outcome(example(0), None, SILENT)) == 0.5
    assert credit_of(outcome(example(0), None)) is None


def test_the_order_follows_the_seed_and_takes_turns() -> None:
    gate = GateSettings(SignTest(1.0, futility=0.0), EXACT, batch=1)
    first, again, other = (run("-" * 8 + "+" * 8, "-" * 8 + "+" * 8, gate=gate, seed=seed)[2] for seed in (1, 1, 2))
    assert first.asked == again.asked != other.asked
    right = [int(name[1:]) >= 8 for name in first.asked]
    assert all(abs(sum(right[:n]) - n / 2) <= 1 for n in range(17))


def test_examples_on_which_the_judge_wavers_are_left_out() -> None:
    noise, wavering = Noise(), AnswerHistory(1.0, 2.0)
    assert wavering.unsteady(noise)
    histories = {f"e{n:02d}": wavering for n in range(4)}
    gate = GateSettings(LENIENT, noise=noise, batch=1)
    evidence, _, table = run("--------++", "++++----++", gate=gate, histories=histories)
    assert evidence.decision == "reject" and evidence.unsteady == 4
    assert not {"e00", "e01", "e02", "e03"} & set(table.asked)
    exact, _, _ = run("--------++", "++++----++", gate=GateSettings(LENIENT, noise=EXACT, batch=1))
    assert exact.decision == "accept"
