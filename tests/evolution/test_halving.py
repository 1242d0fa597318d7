"""Screening of proposals by successive halving, and that it leaves the error rate of the acceptance test as it is."""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pytest
from proposer_samples import Bench, example
from small_world import BRIGHTER, GOOD, HARMFUL, IDLE, ListOrchestrator, add, make_dataset, start_search

from rewardharness.evolution.evaluator import question_key
from rewardharness.evolution.events import Decided, Event
from rewardharness.evolution.loop import search
from rewardharness.evolution.proposal import Outcome, Proposal, View
from rewardharness.evolution.schedules import DefaultSchedule
from rewardharness.evolution.screening import POLICY, RUNGS
from rewardharness.evolution.state import WAITING, State, begin
from rewardharness.evolution.steps import Run
from rewardharness.library.entry import Entry
from rewardharness.library.store import EMPTY, AddEntry, Library
from rewardharness.runs.spending import UNLIMITED, Budget, SpendingLimits
from rewardharness.schema import Example, Judgment, Usage

POOL = make_dataset(22).examples
SCHEDULE = DefaultSchedule(per_round=4, prune_share=0.0)


def start(
    home: Path, proposals: Sequence[Proposal], limits: SpendingLimits = UNLIMITED
) -> tuple[Run, State, list[Event], ListOrchestrator]:
    orchestrator = ListOrchestrator(proposals)
    return *start_search(home, SCHEDULE, orchestrator, limits=limits), orchestrator


def decided(events: Sequence[Event]) -> dict[str, tuple[str, str]]:
    found = [event for event in events if isinstance(event, Decided)]
    return {"+".join(event.names): (event.evidence.decision, event.evidence.policy) for event in found}


def test_only_edits_that_help_are_tested(tmp_path: Path) -> None:
    run, state, events, _ = start(tmp_path, (HARMFUL, GOOD[0], IDLE, GOOD[1]))
    state = search(run, SCHEDULE, state, lambda state: None)
    no = ("reject", POLICY)
    assert decided(events) == {"trees": no, "cars": no, "cats+dogs": ("accept", "sign test")}
    assert state.tests == 1 and state.single_tests == 0 and state.accuracy == 1.0


def test_screening_judges_few_examples_and_none_that_count_as_evidence(tmp_path: Path) -> None:
    run, state, events, _ = start(tmp_path, (HARMFUL, IDLE))
    state = search(run, SCHEDULE, state, lambda state: None)
    found = {event.names[0]: event.evidence for event in events if isinstance(event, Decided)}
    assert (found["trees"].calls, found["trees"].breaks) == (RUNGS[0], RUNGS[0])
    assert (found["cars"].calls, found["cars"].ties) == (RUNGS[-1], RUNGS[-1])
    assert set(found["trees"].broken) <= {example.id for example in run.sides[0]}
    assert state.tests == 0 and run.evaluator.spent.judgments == len(POOL) + sum(RUNGS)
    assert "fixed 0 and broke 2" in state.rejected[0].reason, "the Orchestrator has seen these examples"


def test_a_small_edit_waits_for_others_and_is_not_proposed_twice(tmp_path: Path) -> None:
    small = [add(f"cats-{n}", f"cat number {4 * n}", BRIGHTER) for n in range(12)]
    run, state, events, orchestrator = start(tmp_path, small)
    rejected_of: list[set[str]] = []

    def propose(view: View) -> list[Proposal]:
        rejected_of.append({tried.statement for tried in view.rejected if tried.reason == WAITING})
        return small[: view.limit]  # the same again in every round

    orchestrator.propose = propose  # type: ignore[method-assign]
    state = search(run, replace(SCHEDULE, patience=2), state, lambda state: None)
    assert rejected_of[0] == set() and rejected_of[1] <= {proposal.statement for proposal in small[:4]}
    assert state.proposed == 4 and rejected_of[1]
    assert len([names for names, (_, policy) in decided(events).items() if policy != POLICY]) <= 1


def test_no_proposal_waits_when_the_budget_is_nearly_spent(tmp_path: Path) -> None:
    proposals = (GOOD[0],)
    run, state, events, orchestrator = start(tmp_path / "a", proposals)
    search(run, SCHEDULE, state, lambda state: None)
    assert len(orchestrator.views) > 2, "one edit waits for a second round"
    limits = SpendingLimits(Budget(judgments=len(POOL) + 60))
    run, state, events, orchestrator = start(tmp_path / "b", proposals, limits)
    rounds: list[tuple[int, int]] = []
    search(run, SCHEDULE, state, lambda state: rounds.append((state.accepted, len(orchestrator.views))))
    assert next(views for accepted, views in rounds if accepted) == 1 and decided(events)["cats"][0] == "accept"


@dataclass
class Prolific:
    """Proposes Skills without end."""

    made: int = 0
    name, spent, findings, dropped = "prolific", Usage(), (), ()

    def propose(self, view: View) -> list[Proposal]:
        names = range(self.made, self.made + view.limit)
        self.made += view.limit
        entries = [Entry(f"skill-{n}", "skill", "x", "x", {"triggers": f"w{n % 8}"}) for n in names]
        return [Proposal("add", (AddEntry(entry),), entry.name, (), self.name) for entry in entries]

    def repair(self, view: View, proposal: Proposal, problem: str) -> Proposal | None:
        return None


def evolve_by_luck(seed: int, always: str | None = None) -> State:
    """Right or wrong by a coin for every context of an example, so that no edit helps."""
    rng = random.Random(seed)
    examples = []
    for n in range(75):
        words = " ".join(f"w{word}" for word in range(8) if rng.random() < 0.6)
        examples.append(replace(example(f"e{n:02d}", words, rng.choice("AB")), source_id=str(n)))

    def toss(library: Library, asked: Example) -> Outcome:
        coin = random.Random(f"{seed} {question_key(library, asked)}").choice("AB")
        preference = always or coin
        return Outcome(asked, Judgment(asked.id, "coin", "", "", preference), float(preference == asked.preference))

    run = Run(Bench(toss), Prolific(), tuple(examples), lambda _: {}, (), seed)  # type: ignore[arg-type]
    schedule = DefaultSchedule(proposals=36, patience=9, prune_share=0.0)
    return search(run, schedule, begin(EMPTY, run.evaluator.judge(EMPTY, examples)), lambda state: None)


@pytest.mark.slow
def test_on_random_labels_at_most_two_of_forty_runs_accept_anything() -> None:
    states = [evolve_by_luck(seed) for seed in range(40)]
    assert sum(state.tests for state in states) >= 40, "edits that were lucky in screening are tested"
    assert sum(state.accepted > 0 for state in states) <= 2


def test_with_a_judge_that_always_prefers_the_first_candidate_no_edit_is_tested() -> None:
    state = evolve_by_luck(0, "A")
    assert state.proposed == 36 and state.tests == 0
    assert 0.35 < (state.accuracy or 0.0) < 0.65
