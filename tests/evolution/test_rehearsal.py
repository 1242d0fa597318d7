"""New prompted Tools are tried on a few examples first: what a judge could not read goes back once, then away."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from small_world import QUICK, Killed, ListOrchestrator, add, make_plan, see, text_of

from rewardharness.evolution.checkpoint import Checkpoints
from rewardharness.evolution.events import Decided, Event, Rehearsed, Skipped, read_events
from rewardharness.evolution.loop import evolve
from rewardharness.evolution.proposal import Proposal, View
from rewardharness.files import read_jsonl
from rewardharness.library.entry import Entry
from rewardharness.library.store import EMPTY, AddEntry, ReplaceEntry
from rewardharness.models.base import ChatRequest, ModelError
from rewardharness.models.scripted import Script
from rewardharness.runs.job import Session
from rewardharness.runs.spending import Budget, SpendingLimits
from rewardharness.runs.stop import RunPaused
from rewardharness.schema import Usage

POOL_SIZE = 36
CITED = ("cat-00", "cat-04", "cat-08", "cat-12")


def tool(prompt: str = "COUNT STARS.", name: str = "star-counter") -> Entry:
    schema = {"stars": "int"}
    return Entry(name, "tool", "Counts stars.", "Call it.", {"triggers": "cat, dog"}, prompt, output_schema=schema)


def proposal(entry: Entry, cited: Sequence[str] = CITED) -> Proposal:
    return Proposal("add_tool", (AddEntry(entry),), "Stars matter.", tuple(cited), "a list")


@dataclass
class Toolmaker(ListOrchestrator):
    """Proposes Tools when it is asked for some, and repairs them as it was told to."""

    proposals: Sequence[Proposal] = ()
    tools: Sequence[Proposal] = (proposal(tool()),)
    better: Proposal | ModelError | None = None
    asked: list[tuple[View, str]] = field(default_factory=list)

    def propose(self, view: View) -> list[Proposal]:
        if view.phase != "tools":
            return super().propose(view)
        self.views.append(view)
        tried = {each.signature for each in view.rejected}
        return [each for each in self.tools if each.signature not in tried and each.names[0] not in view.library]

    def repair(self, view: View, proposal: Proposal, problem: str) -> Proposal | None:
        self.asked.append((view, problem))
        self.spent += Usage(1, 50, 5, 0.0)
        if isinstance(self.better, ModelError):
            raise self.better
        return self.better


def telling(says: Callable[[ChatRequest], Script] | Script) -> Callable[[ChatRequest], Script]:
    """A model that says something when a Tool asks it."""

    def answer(request: ChatRequest) -> Script:
        if "STARS" not in text_of(request):
            return see(request)
        return says(request) if callable(says) else says

    return answer


def run(
    home: Path, says: Callable[[ChatRequest], Script] | Script, orchestrator: Toolmaker, **more: Any
) -> tuple[list[Event], Any]:
    plan, model = make_plan(home, answers=telling(says), orchestrator=orchestrator, **more)
    evolve(plan, home / "run")
    return read_events(home / "run"), model


BETTER = proposal(tool("COUNT STARS AS JSON."))


def unless_json(request: ChatRequest, said: Script = "Stars.") -> Script:
    return '{"stars": 3}' if "AS JSON" in text_of(request) else said


def rehearsals(events: Sequence[Event]) -> list[Rehearsed]:
    return [each for each in events if isinstance(each, Rehearsed)]


def test_a_tool_that_works_goes_on_to_the_gate(tmp_path: Path) -> None:
    orchestrator = Toolmaker()
    events, model = run(tmp_path, '{"stars": 3}', orchestrator)
    [seen] = rehearsals(events)
    assert seen.usable and not seen.repaired and seen.tool == "star-counter"
    assert 2 <= len(seen.observations) <= 3
    assert all(each["said"] == '{"stars": 3}' and each["problem"] == "" for each in seen.observations)
    assert [each.names for each in events if isinstance(each, Decided)] == [("star-counter",)]
    assert orchestrator.asked == []
    calls = [request for request in model.requests if "COUNT STARS." in text_of(request)]
    assert len(calls) == len(seen.observations) and all(len(call.images) == 3 for call in calls)


@pytest.mark.parametrize(
    ("said", "problem"),
    [
        ("I see two stars.", "not a JSON object"),
        ("", "not a JSON object"),
        ('{"moons": 2}', "lacks: stars"),
        ('{"stars": "two"}', "another type"),
        (ModelError("refused", "It will not look."), "It will not look."),
    ],
)
def test_what_cannot_be_used_goes_back_once_with_what_came(tmp_path: Path, said: Script, problem: str) -> None:
    orchestrator = Toolmaker(better=BETTER)
    events, _ = run(tmp_path, lambda request: unless_json(request, said), orchestrator)
    first, second = rehearsals(events)
    assert not first.usable and second.usable and second.repaired
    assert all(problem in each["problem"] for each in first.observations)
    [(view, told)] = orchestrator.asked
    assert problem in told and view.phase == "tools"
    assert not isinstance(said, str) or said in told, "the Orchestrator sees the reply itself"
    [decided] = [each for each in events if isinstance(each, Decided)]
    assert decided.signature == BETTER.signature


def test_what_is_empty_cannot_be_used(tmp_path: Path) -> None:
    entry = replace(tool(), output_schema={"stars": "list", "words": "str"})
    events, _ = run(tmp_path, '{"stars": [], "words": ""}', Toolmaker(tools=[proposal(entry)]))
    assert "empty" in rehearsals(events)[0].observations[0]["problem"]


def test_what_is_still_bad_is_skipped_and_not_proposed_again(tmp_path: Path) -> None:
    orchestrator = Toolmaker(better=proposal(tool("COUNT STARS, PLEASE.")))
    events, _ = run(tmp_path, "Stars everywhere.", orchestrator)
    assert [each.repaired for each in rehearsals(events)] == [False, True]
    assert not [each for each in events if isinstance(each, Decided)], "no gate spent anything on it"
    [reason] = [each.reason for each in events if isinstance(each, Skipped)]
    assert reason.startswith("Called, repaired and called again")
    rejected = orchestrator.views[-1].rejected
    assert {each.names for each in rejected} == {("star-counter",)} and len(rejected) == 2


@pytest.mark.parametrize(
    ("better", "word"),
    [
        (None, "did not repair"),
        (proposal(tool()), "the same proposal"),
        (proposal(Entry("cats", "skill", "d", "b", {"triggers": "cat"})), ""),
        (Proposal("fix_tool", (ReplaceEntry(tool()),), "x", (), "a list"), "does not fit"),
        (ModelError("timeout", "Slow."), "(timeout)"),
    ],
)
def test_an_orchestrator_that_cannot_repair_costs_one_proposal(
    tmp_path: Path, better: Proposal | ModelError | None, word: str
) -> None:
    events, _ = run(tmp_path, "Stars everywhere.", Toolmaker(better=better))
    reasons = [each.reason for each in events if isinstance(each, Skipped)]
    assert reasons and word in reasons[0] if word else not reasons, "what is no prompted Tool needs no rehearsal"
    assert len(rehearsals(events)) == 1


def test_its_calls_count_against_the_budget(tmp_path: Path) -> None:
    spent = POOL_SIZE + 2
    events, model = run(tmp_path, '{"stars": 3}', Toolmaker(), limits=SpendingLimits(Budget(judgments=spent)))
    assert rehearsals(events) == [], "three calls do not fit into two"
    assert not [request for request in model.requests if "STARS" in text_of(request)]
    larger = SpendingLimits(Budget(judgments=spent + 1))
    again, _ = run(tmp_path, '{"stars": 3}', Toolmaker(), limits=larger)
    assert len(rehearsals(again)) == 1
    lines = [line for _, line in read_jsonl(tmp_path / "run" / "results.jsonl") if line.get("tool")]
    assert [(line["calls"], line["preference"]) for line in lines] == [(1, None)] * 3
    used = Checkpoints(tmp_path / "run").spent
    assert used.judgments == spent + 1 and used.judge.calls >= POOL_SIZE + 3


def test_a_killed_rehearsal_is_taken_again_and_nothing_is_paid_twice(tmp_path: Path) -> None:
    def kill(event: Event) -> None:
        if isinstance(event, Rehearsed) and event.repaired:
            raise Killed

    plan, first = make_plan(tmp_path, answers=telling(unless_json), orchestrator=Toolmaker(better=BETTER))
    with pytest.raises(Killed):
        evolve(plan, tmp_path / "run", Session(on_event=kill))
    events, second = run(tmp_path, unless_json, Toolmaker(better=BETTER))
    assert [each.repaired for each in rehearsals(events)] == [False, True]
    calls = [[text_of(each) for each in model.requests if "STARS" in text_of(each)] for model in (first, second)]
    assert calls[0] and not calls[1]


def test_a_model_that_is_away_pauses_the_run(tmp_path: Path) -> None:
    with pytest.raises(RunPaused, match="no answers"):
        run(tmp_path, ModelError("unreachable", "Nobody."), Toolmaker())
    events, _ = run(tmp_path, '{"stars": 3}', Toolmaker())
    assert [each.usable for each in rehearsals(events)] == [True]


def test_tools_without_a_prompt_and_edits_of_other_things_are_not_rehearsed(tmp_path: Path) -> None:
    measured = Entry("meter", "tool", "d", "b", {"triggers": "cat"}, measure="seam")
    start = EMPTY.apply(AddEntry(tool()))
    elsewhere = Proposal("retrigger", (ReplaceEntry(replace(tool(), metadata={"triggers": "cat"})),), "x", (), "a list")
    maker = Toolmaker(tools=[proposal(measured)], proposals=[add("cats", "cat", "Look.")])
    assert rehearsals(run(tmp_path, "Stars.", maker)[0]) == []
    maker = Toolmaker(tools=[])
    maker.propose = lambda view: [elsewhere] if view.phase == "tools" and not view.rejected else []  # type: ignore[method-assign]
    events, _ = run(tmp_path / "other", "Stars.", maker, library=start)
    assert rehearsals(events) == []
    assert [each.operator for each in events if isinstance(each, Decided)] == ["retrigger"]


def test_a_judge_that_calls_no_tools_is_not_asked_about_any(tmp_path: Path) -> None:
    plan, _ = make_plan(tmp_path, orchestrator=(orchestrator := Toolmaker()), schedule=QUICK)
    judge: Any = plan.judge
    direct = replace(judge, settings=replace(judge.settings, protocol="direct"))
    evolve(replace(plan, judge=direct), tmp_path / "run")
    assert {view.phase for view in orchestrator.views} == {"skills"}
