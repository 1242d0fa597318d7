from collections.abc import Mapping, Sequence

import pytest

from rewardharness.evolution.gate import EXACT, AnswerHistory, Noise, SignTest
from rewardharness.evolution.proposal import Outcome, Proposal
from rewardharness.evolution.stop import RunPaused
from rewardharness.evolution.trial import GateSettings, Trial, credit_of, first_history, try_edit
from rewardharness.library.store import RemoveEntry
from rewardharness.schema import Example, Failure, ImageInput, Judgment

BLANK = ImageInput("x", data=b"")
TIMEOUT, SILENT = Failure("timeout", "Too slow."), Failure("nothing_to_measure", "No criteria.")

LENIENT = SignTest(0.5)
ONE_BY_ONE = GateSettings(LENIENT, batch=1)


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


def edit(cited: Sequence[str] = ()) -> Proposal:
    return Proposal("remove", (RemoveEntry("x"),), "Why not.", tuple(cited), "test")


def run(
    before: str,
    after: str,
    *,
    proposal: Proposal | None = None,
    how: GateSettings = ONE_BY_ONE,
    failure: Failure = TIMEOUT,
    histories: Mapping[str, AnswerHistory] | None = None,
    seed: int = 0,
    evidence: Sequence[str] | None = None,
) -> tuple[Trial, Table]:
    """Try an edit: one letter per example, + right, - wrong, ? no judgment."""
    signs: dict[str, bool | None] = {"+": True, "-": False, "?": None}
    examples = [example(number) for number in range(len(before))]
    old = {each.id: outcome(each, signs[sign], failure) for each, sign in zip(examples, before, strict=True)}
    table = Table({each.id: signs[sign] for each, sign in zip(examples, after, strict=True)}, failure)
    known = {name: history for name, each in old.items() if (history := first_history(each))}
    trial = try_edit(examples, proposal or edit(), old, {**known, **(histories or {})}, table, how, seed, evidence)
    return trial, table


def test_a_helpful_edit_is_judged_on_all_that_it_touches() -> None:
    trial, table = run("----++++", "++--++++")
    evidence = trial.evidence
    assert evidence.decision == "accept"
    assert (evidence.fixes, evidence.breaks, evidence.ties, evidence.judged) == (2, 0, 6, 8)
    assert evidence.fixed == ("e00", "e01") and evidence.broken == ()
    assert sorted(table.asked) == sorted(trial.outcomes) == [f"e{n:02d}" for n in range(8)]
    assert evidence.calls == evidence.affected == 8
    assert evidence.p_value == 0.25


def test_nothing_is_judged_twice() -> None:
    _, table = run("----++++", "++++++++", proposal=edit(cited=("e00", "e01")), how=GateSettings(LENIENT, batch=3))
    assert len(table.asked) == len(set(table.asked))


def test_a_harmful_edit_costs_little() -> None:
    trial, table = run("----" + "+" * 30, "----" + "-" * 30)
    assert trial.evidence.decision == "reject"
    assert len(table.asked) <= 6


def test_an_edit_that_touches_nothing_costs_nothing() -> None:
    trial, _ = run("", "")
    assert trial.evidence.decision == "reject" and trial.evidence.calls == 0
    assert "no example" in trial.evidence.reason


def test_where_nothing_goes_wrong_nothing_is_asked() -> None:
    trial, table = run("+" * 12, "+" * 12)
    assert trial.evidence.decision == "reject" and table.asked == []


def test_only_the_evidence_counts_and_nothing_else_is_judged_for_it() -> None:
    others = [f"e{n:02d}" for n in range(2, 10)]
    trial, table = run("--------++", "++------++", evidence=others)
    assert trial.evidence.decision == "reject" and trial.evidence.fixes == 0
    assert not {"e00", "e01"} & set(table.asked)


def test_the_champion_is_known_on_what_is_no_evidence_too() -> None:
    trial, _ = run("----++++++", "++++++++++", evidence=[f"e{n:02d}" for n in range(1, 10)])
    assert trial.evidence.decision == "accept" and trial.evidence.fixes == 3
    assert "e00" in trial.outcomes and "e00" in trial.evidence.fixed


def test_a_failed_judgment_is_neither_fix_nor_break() -> None:
    trial, _ = run("---?+++++", "++??+++?+")
    evidence = trial.evidence
    assert (evidence.fixes, evidence.breaks, evidence.failed) == (2, 0, 3)
    assert evidence.judged == 6
    assert not {"e02", "e03", "e07"} & {*evidence.fixed, *evidence.broken}


def test_where_the_library_said_nothing_a_coin_is_the_measure() -> None:
    trial, _ = run("??????", "++++++", failure=SILENT)
    assert trial.evidence.decision == "accept" and trial.evidence.fixes == 6
    trial, _ = run("??????", "------", failure=SILENT)
    assert trial.evidence.decision == "reject"
    assert credit_of(outcome(example(0), None, SILENT)) == 0.5
    assert credit_of(outcome(example(0), None)) is None


def test_few_answers_decide_nothing() -> None:
    with pytest.raises(RunPaused, match="failed"):
        run("----++++", "??????++")


def test_the_order_follows_the_seed_and_takes_turns() -> None:
    how = GateSettings(policy=SignTest(1.0, futility=0.0), batch=1)
    first, again, other = (run("-" * 8 + "+" * 8, "-" * 8 + "+" * 8, how=how, seed=seed)[1] for seed in (1, 1, 2))
    assert first.asked == again.asked != other.asked
    right = [int(name[1:]) >= 8 for name in first.asked]
    assert all(abs(sum(right[:n]) - n / 2) <= 1 for n in range(17))


def test_examples_on_which_the_judge_wavers_are_left_out() -> None:
    noise = Noise()
    wavering = AnswerHistory(1.0, 2.0)
    assert wavering.unsteady(noise)
    histories = {f"e{n:02d}": wavering for n in range(4)}
    trial, table = run("--------++", "++++----++", how=GateSettings(LENIENT, noise=noise, batch=1), histories=histories)
    assert trial.evidence.decision == "reject" and trial.evidence.unsteady == 4
    assert not {"e00", "e01", "e02", "e03"} & set(table.asked)
    exact, _ = run("--------++", "++++----++", how=GateSettings(LENIENT, noise=EXACT, batch=1))
    assert exact.evidence.decision == "accept"
