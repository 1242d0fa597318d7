import json
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from small_world import BRIGHTER, DARKER, GOOD, HARMFUL, IDLE, ListOrchestrator, add, make_dataset, skill, start_search

from rewardharness.errors import LibraryError
from rewardharness.evolution.checkpoint import read_change
from rewardharness.evolution.evaluator import Evaluator
from rewardharness.evolution.events import Decided, Event, PhaseBegan, Skipped
from rewardharness.evolution.loop import search
from rewardharness.evolution.proposal import Dropped, Proposal, wording
from rewardharness.evolution.schedules import NO_EVIDENCE, DefaultSchedule, PaperSchedule, Schedule, swapped
from rewardharness.evolution.state import State
from rewardharness.evolution.steps import prune_order
from rewardharness.library.evolved import read_steps
from rewardharness.library.opening import open_library
from rewardharness.library.store import EMPTY, AddEntry, RemoveEntry, ReplaceEntry
from rewardharness.models.base import ModelError
from rewardharness.runs.job import RunPaused
from rewardharness.runs.spending import Budget, SpendingLimits
from rewardharness.schema import TIE

QUICK = DefaultSchedule(per_round=2, prune_share=0.0, screen=False)
POOL = make_dataset(22).examples


def run(
    home: Path, schedule: Schedule, orchestrator: ListOrchestrator, **options: Any
) -> tuple[State, list[Event], Evaluator]:
    steps, state, events = start_search(home, schedule, orchestrator, **options)
    return search(steps, schedule, state, lambda state: None), events, steps.evaluator


def decisions(events: Sequence[Event]) -> dict[str, str]:
    return {"+".join(event.names): event.evidence.decision for event in events if isinstance(event, Decided)}


def test_helpful_edits_are_kept_and_harmful_ones_sent_back(tmp_path: Path) -> None:
    state, events, evaluator = run(tmp_path, QUICK, ListOrchestrator())
    assert decisions(events) == {"cats+trees": "reject", "cats": "accept", "trees": "reject", "cars+dogs": "accept"}
    [bundle] = [each for each in events if isinstance(each, Decided) and each.operator == "bundle" and each.accepted]
    assert bundle.members == (IDLE.signature, GOOD[1].signature), "a bundle names its members"
    assert [line["entries"] for line in state.library.lineage] == [["cats"], ["cars"], ["dogs"]]
    assert [entry.name for entry in state.library.entries] == ["cars", "cats", "dogs"] and state.accuracy == 1.0
    assert state.version == state.accepted == 2 and (state.tests, state.single_tests) == (2, 2)
    assert evaluator.spent.judgments < len(POOL) * 3, "only what an edit touches is judged"


def test_what_the_orchestrator_saw_is_no_evidence(tmp_path: Path) -> None:
    orchestrator = ListOrchestrator()
    state, events, _ = run(tmp_path, QUICK, orchestrator)
    seen = {each.example.source_id for view in orchestrator.views for each in view.outcomes}
    assert 0.3 * len(POOL) < len(seen) < 0.5 * len(POOL)
    for event in events:
        if isinstance(event, Decided) and not event.accepted:
            judged = {*event.evidence.fixed, *event.evidence.broken}
            assert not judged & {each.id for each in POOL if each.source_id in seen}
    assert {tried.reason for tried in state.rejected} == {NO_EVIDENCE}, "counts of the evidence are not told"
    event = next(each for each in events if isinstance(each, Decided) and each.names == ("trees",))
    changes = [read_change(each) for each in json.loads(json.dumps(event.changes))]
    assert tuple(changes) == HARMFUL.changes, "a decision tells what was tried also when it was not kept"
    last = orchestrator.views[-1]
    assert HARMFUL.statement in {tried.statement for tried in last.rejected} and last.findings == orchestrator.findings


def test_an_edit_that_touches_too_few_examples_is_passed_over_and_costs_no_test(tmp_path: Path) -> None:
    state, events, evaluator = run(tmp_path, QUICK, ListOrchestrator([add("one", "number 7", BRIGHTER)]))
    [event] = [each for each in events if isinstance(each, Skipped)]
    assert "at least 6 are needed" in event.reason
    assert state.tests == 0 and evaluator.spent.judgments == len(POOL)


def test_the_lineage_says_who_wanted_it_and_why(tmp_path: Path) -> None:
    proposal = replace(GOOD[0], cited=("cat-00",))
    state, _, _ = run(tmp_path, QUICK, ListOrchestrator([proposal]))
    [line] = state.library.lineage
    assert line["parent"] == EMPTY.id and line["library"] == state.library.id
    assert line["operator"] == "add" and line["entries"] == ["cats"] and line["cited"] == ["cat-00"]
    assert line["evidence"]["fixes"] == 13 and line["evidence"]["breaks"] == 0
    assert len(line["evidence"]["fixed"]) == 22
    [step] = read_steps(state.library.lineage)
    assert step.n == len(POOL) and step.after == state.accuracy and step.after > (step.before or 0.0)


def test_the_lineage_tells_for_every_sentence_which_examples_caused_it(tmp_path: Path) -> None:
    start = EMPTY.apply(AddEntry(skill("pets", "cat", "Look at the fur.")))
    more = ReplaceEntry(skill("pets", "cat", f"Look at the fur.\n\n{BRIGHTER}"))
    edit = Proposal("modify", (more,), "Cats are misjudged.", ("cat-00", "cat-04"), "test")
    dogs = replace(GOOD[1], cited=("dog-01",))
    both = ListOrchestrator([dogs])
    both.propose = lambda view: [] if view.rejected or len(view.library) > 1 else [edit, dogs]  # type: ignore[method-assign]
    state, _, _ = run(tmp_path, QUICK, both, library=start)
    added = [(record, *item) for record in state.library.lineage for item in record["added"].items()]
    brought = {(name, line): record["cited"] for record, name, lines in added for line in lines}
    assert brought["pets", BRIGHTER] == ["cat-00", "cat-04"]
    assert brought["dogs", "What to prefer: dogs."] == ["dog-01"]
    assert ("pets", "Look at the fur.") not in brought, "that was there before"
    said = {(each.name, line) for each in state.library.entries for line in wording(each).split("\n") if line.strip()}
    known = {("pets", line) for line in wording(start.entries[0]).split("\n")}
    assert said - known <= {*brought, ("dogs", BRIGHTER)}, "a line that another Skill said before only moved"


def test_phases_follow_each_other_and_have_limits(tmp_path: Path) -> None:
    _, events, _ = run(tmp_path, replace(QUICK, prune_share=0.05), ListOrchestrator([GOOD[0]]))
    assert [event.phase for event in events if isinstance(event, PhaseBegan)] == ["tools", "skills", "tools", "prune"]
    orchestrator = ListOrchestrator([add(f"idle-{n}", "car", f"Look {n} times.") for n in range(9)])
    run(tmp_path, replace(QUICK, per_round=1, patience=2), orchestrator)
    assert [view.phase for view in orchestrator.views] == ["skills", "skills", "tools"]
    state, events, _ = run(tmp_path, replace(QUICK, proposals=3), ListOrchestrator())
    assert state.proposed == 3 and "dogs" not in str(decisions(events)) and "3 proposals" in state.ending


def test_an_edit_that_cannot_be_applied_or_was_tried_is_passed_over(tmp_path: Path) -> None:
    gone = Proposal("remove", (RemoveEntry("nobody"),), "Remove nobody.", (), "test")

    stubborn = ListOrchestrator()
    stubborn.propose = lambda view: [gone, HARMFUL, HARMFUL]  # type: ignore[method-assign]
    _, events, _ = run(tmp_path, replace(QUICK, patience=2, per_round=3), stubborn)
    reasons = " ".join(event.reason for event in events if isinstance(event, Skipped))
    assert "no entry" in reasons and "tried before" in reasons
    assert len([event for event in events if isinstance(event, Decided)]) == 1


def test_an_edit_of_an_entry_that_changed_meanwhile_is_not_applied_blindly(tmp_path: Path) -> None:
    start = EMPTY.apply(AddEntry(skill("pets", "cat, dog", "Look.")))
    first, second = (ReplaceEntry(skill("pets", word, BRIGHTER)) for word in ("cat", "dog"))
    both, proposals = ListOrchestrator(), [Proposal("modify", (change,), "x", (), "test") for change in (first, second)]
    both.propose = lambda view: proposals  # type: ignore[method-assign]
    state, events, _ = run(tmp_path, replace(QUICK, patience=1), both, library=start)
    assert any("has changed since" in event.reason for event in events if isinstance(event, Skipped))
    assert state.library.get("pets") == first.entry


def test_an_orchestrator_that_fails_once_or_says_nothing_usable_is_asked_again(tmp_path: Path) -> None:
    state, _, _ = run(tmp_path, QUICK, ListOrchestrator(errors=[ModelError("rate_limited", "Later.")]))
    assert state.accuracy == 1.0

    class Rambling(ListOrchestrator):
        def propose(self, view):  # type: ignore[no-untyped-def]
            proposals = super().propose(view)
            self.dropped = (Dropped("No JSON."),) if len(self.views) == 1 else ()  # type: ignore[assignment]
            return [] if self.dropped else proposals

    state, events, _ = run(tmp_path, QUICK, Rambling())
    assert state.accuracy == 1.0
    assert any("No JSON" in event.reason for event in events if isinstance(event, Skipped))


@pytest.mark.parametrize(
    "errors",
    [[ModelError("unauthorized", "No key.")], [ModelError("timeout", "Slow."), ModelError("timeout", "Slow.")]],
)
def test_an_orchestrator_that_keeps_failing_pauses_the_run(tmp_path: Path, errors: list[ModelError]) -> None:
    with pytest.raises(RunPaused, match="gives no answer") as caught:
        run(tmp_path, QUICK, ListOrchestrator(errors=errors))
    assert caught.value.kind == "orchestrator"


def test_a_spent_budget_ends_the_search_with_what_there_is(tmp_path: Path) -> None:
    limits = SpendingLimits(Budget(judgments=len(POOL) + 50))
    state, _, evaluator = run(tmp_path, QUICK, ListOrchestrator(), limits=limits)
    assert "budget" in state.ending and [entry.name for entry in state.library.entries] == ["cats"]
    assert evaluator.spent.judgments <= len(POOL) + 50
    assert state.pending, "what is left waits for a larger budget"


RARE = add("rare", "tree number 2, tree number 6", DARKER)


@pytest.mark.parametrize(
    ("entries", "share", "decided", "left"),
    [
        ((*GOOD, IDLE), 9.0, {"cats": "reject", "dogs": "reject", "cars": "reject"}, 3),  # nothing is gained
        ((RARE,), 9.0, {}, 1),  # few examples exercise it
        ((HARMFUL,), 9.0, {"trees": "accept"}, 0),  # it only does harm
        ((HARMFUL,), 0.1, {}, 1),  # the test would cost more than the share of pruning
    ],
)
def test_pruning(
    tmp_path: Path, entries: tuple[Proposal, ...], share: float, decided: dict[str, str], left: int
) -> None:
    library = EMPTY
    for proposal in entries:
        library = proposal.applied_to(library)
    schedule = replace(QUICK, prune_share=share)
    state, events, evaluator = run(tmp_path, schedule, ListOrchestrator([]), library=library)
    assert decisions(events) == decided and len(state.library) == left
    assert bool(decided) or evaluator.spent.judgments == len(POOL)
    assert [line["operator"] for line in state.library.lineage] == ["remove"] * (left == 0)


def test_a_protected_entry_is_never_removed(tmp_path: Path) -> None:
    harmful = skill("trees", "tree", DARKER)
    library = EMPTY.apply(AddEntry(replace(harmful, metadata={**harmful.metadata, "protected": "true"})))
    state, events, _ = run(tmp_path, replace(QUICK, prune_share=9.0), ListOrchestrator([]), library=library)
    assert len(state.library) == 1 and decisions(events) == {}
    gone, more = RemoveEntry("trees"), AddEntry(skill("more", "tree", BRIGHTER))
    for changes in ((gone,), (ReplaceEntry(harmful),), (gone, more)):
        with pytest.raises(LibraryError, match="protected"):
            Proposal("merge", changes, "x", (), "test").applied_to(library)
    builtin = open_library("builtin")
    protected = {entry.name for entry in builtin.entries if entry.protected}
    assert protected == {"scoring-scale", "preserving-the-rest", "visual-quality-and-artifacts"}
    assert not protected & {*prune_order(builtin)}


def test_the_paper_judges_everything_each_time(tmp_path: Path) -> None:
    schedule = PaperSchedule(iterations=2, per_round=2)
    state, events, evaluator = run(tmp_path, schedule, ListOrchestrator([GOOD[0], HARMFUL, GOOD[1]]))
    gate = len(schedule.watched(POOL))
    read = 2 * (len(POOL) - gate)
    bundles = len([event for event in events if isinstance(event, Decided)])
    assert gate == round(0.4 * len(POOL)) and bundles == 2
    assert evaluator.spent.judgments == gate + read + 2 * read + bundles * gate
    assert "iterations" in state.ending
    first = next(event for event in events if isinstance(event, Decided))
    assert first.names == ("cats", "trees") and first.evidence.policy == "margin"
    assert first.accepted, "a bundle that helps as much as it harms passes the test against the best so far"
    assert state.best is not None and state.best >= (state.accuracy or 0)
    turned = swapped(POOL[1])
    assert turned.candidates == POOL[1].candidates[::-1] and {POOL[1].preference, turned.preference} == {"A", "B"}
    assert swapped(replace(POOL[1], preference=TIE)).preference == TIE
