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
    return replace(
        state,
        step=5,
        phase="tools",
        round=2,
        idle=1,
        gained=True,
        proposed=4,
        accepted=1,
        version=1,
        best=0.75,
        queue=("cats",),
        prune_limit=9,
        pending=(Pending.of(GOOD[1], library), Pending.of(IDLE, library, single=True)),
        rejected=(RejectedProposal.of(add("trees", "tree", "x"), "no use"),),
        findings=(Finding("Cats.", ("cat-00",), ("add",), 1, 2),),
    )


def test_a_state_comes_back_whole(tmp_path: Path) -> None:
    evaluator = make_bench(tmp_path)
    state = make_state(evaluator)
    Checkpoints(tmp_path / "run").save(state, SPENT)
    kept = Checkpoints(tmp_path / "run")
    assert (kept.step, kept.spent) == (5, SPENT)
    back = kept.load(POOL, make_bench(tmp_path))
    assert back is not None
    assert back.library == state.library and back.library.lineage == state.library.lineage
    assert list(back.outcomes) == list(state.outcomes)
    assert {name: each.credit for name, each in back.outcomes.items()} == {
        name: each.credit for name, each in state.outcomes.items()
    }
    assert [each.proposal.signature for each in back.pending] == [each.proposal.signature for each in state.pending]
    assert [(each.base, each.single) for each in back.pending] == [(each.base, each.single) for each in state.pending]
    for name in ("histories", "rejected", "findings", "queue", "prune_limit", "best", "phase", "gained", "ending"):
        assert getattr(back, name) == getattr(state, name), name


def test_a_person_can_read_it(tmp_path: Path) -> None:
    Checkpoints(tmp_path).save(make_state(make_bench(tmp_path)), SPENT)
    document = json.loads((tmp_path / CHECKPOINT).read_text(encoding="utf-8"))
    assert document["phase"] == "tools" and document["spent"]["judgments"] == 40
    assert "Prefer the brighter" in document["pending"][0]["proposal"]["changes"][0]["files"]["SKILL.md"]
    assert Library.load(tmp_path / CHAMPION).id == document["library_id"]


def test_the_copy_of_the_champion_is_made_good(tmp_path: Path) -> None:
    evaluator = make_bench(tmp_path)
    state = make_state(evaluator)
    Checkpoints(tmp_path).save(state, SPENT)
    EMPTY.save(tmp_path / CHAMPION)
    Checkpoints(tmp_path).load(POOL, evaluator)
    assert Library.load(tmp_path / CHAMPION) == state.library


@pytest.mark.parametrize(
    ("damage", "words"),
    [
        (lambda text: text.replace('"schema": 1', '"schema": 99'), "another version"),
        (lambda text: text.replace('"version": 1', '"version": 7'), "cannot be used"),
        (lambda text: text.replace('"queue"', '"cue"'), "cannot be used"),
        (lambda text: text.replace('"do": "add"', '"do": "burn"'), "cannot be used"),
    ],
)
def test_damage_is_named_and_never_taken_for_a_beginning(tmp_path: Path, damage: object, words: str) -> None:
    evaluator = make_bench(tmp_path)
    Checkpoints(tmp_path).save(make_state(evaluator), SPENT)
    path = tmp_path / CHECKPOINT
    path.write_text(damage(path.read_text(encoding="utf-8")), encoding="utf-8")  # type: ignore[operator]
    with pytest.raises(RunError, match=words) as caught:
        Checkpoints(tmp_path).load(POOL, evaluator)
    assert "--restart" in caught.value.next_step


def test_another_champion_than_the_recorded_one_is_noticed(tmp_path: Path) -> None:
    evaluator = make_bench(tmp_path)
    Checkpoints(tmp_path).save(make_state(evaluator), SPENT)
    Library((skill("dogs", "dog", "x"),)).save(tmp_path / "versions" / "0001")
    with pytest.raises(RunError, match="another Library"):
        Checkpoints(tmp_path).load(POOL, evaluator)


def test_a_folder_without_a_checkpoint_begins_anew(tmp_path: Path) -> None:
    kept = Checkpoints(tmp_path)
    assert kept.load(POOL, make_bench(tmp_path)) is None
    assert kept.step is None and kept.spent == Spent()


def test_every_sort_of_change_survives() -> None:
    rubric = Rubric((Criterion("a", "Look: at «it»", 2.5, measure="seam", applies=("add",)),))
    tool = Entry(
        "looker", "tool", "Looks.", "Call it.", system_prompt="Look:\n- closely", output_schema={"n": "integer"}
    )
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
