"""Screening of proposals by successive halving, and that it leaves the error rate of the acceptance test as it is."""

import json
import random
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from proposer_samples import Bench, example
from small_world import (
    BRIGHTER,
    GOOD,
    HARMFUL,
    IDLE,
    QUICK,
    Killed,
    ListOrchestrator,
    add,
    make_dataset,
    make_plan,
    see,
    start_search,
    text_of,
)

from rewardharness.evolution.checkpoint import Checkpoints
from rewardharness.evolution.evaluator import question_key
from rewardharness.evolution.events import Decided, Event, Rehearsed, Skipped, read_events
from rewardharness.evolution.loop import evolve, search
from rewardharness.evolution.proposal import Outcome, Proposal, View
from rewardharness.evolution.schedules import DefaultSchedule
from rewardharness.evolution.screening import POLICY, RUNGS
from rewardharness.evolution.state import WAITING, State, begin
from rewardharness.evolution.steps import Run
from rewardharness.files import read_jsonl
from rewardharness.library.entry import Entry
from rewardharness.library.store import EMPTY, AddEntry, Library, ReplaceEntry
from rewardharness.models.base import ChatRequest, ModelError
from rewardharness.models.open import Script
from rewardharness.runs.job import RunPaused, Session
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


SCRIPT = Path(__file__).parents[2] / "benchmarks" / "evolution_calls.py"


@pytest.mark.slow
def test_ours_needs_a_fraction_of_the_calls() -> None:
    words = ["--seeds", "2", "--edits", "12", "60", "--processes", "1"]
    done = subprocess.run([sys.executable, str(SCRIPT), *words], capture_output=True, text=True)
    rows = json.loads(done.stdout.splitlines()[-1])["rows"]
    assert [(row["judge"], row["edits"]) for row in rows] == [(j, e) for j in ("exact", "noisy") for e in (12, 60)]
    for row in rows:
        assert row["paper"]["calls"] == {12: 960, 60: 4160}[row["edits"]], "as the paper's code counts them"
        assert row["calls_ratio"] <= (1 / 3 if row["edits"] == 12 else 1 / 5)
        assert row["default"]["true_accuracy"] > 0.44, "it does no harm"
