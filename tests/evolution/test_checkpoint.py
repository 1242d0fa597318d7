import json
from dataclasses import replace
from pathlib import Path

import pytest
from small_world import BRIGHTER, GOOD, IDLE, add, make_dataset, make_plan, skill

from rewardharness.errors import RunError
from rewardharness.evolution.checkpoint import CHAMPION, CHECKPOINT, Checkpoints, proposal_json, read_proposal
from rewardharness.evolution.evaluator import Evaluator
from rewardharness.evolution.proposal import Finding, Proposal, RejectedProposal
from rewardharness.evolution.state import Pending, State, begin
from rewardharness.library.entry import Entry
from rewardharness.library.opening import open_library
from rewardharness.library.rubric import Criterion, Rubric
from rewardharness.library.store import EMPTY, AddEntry, Library, RemoveEntry, ReplaceEntry
from rewardharness.runs.spending import Spent
from rewardharness.schema import Usage

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
