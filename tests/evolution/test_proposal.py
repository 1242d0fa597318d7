from dataclasses import replace

import pytest
from proposer_samples import criterion, example, judge, library, pair, skill

from rewardharness.errors import LibraryError
from rewardharness.evolution.proposal import Outcome, Proposal, RejectedProposal
from rewardharness.library.store import AddEntry, RemoveEntry, ReplaceEntry
from rewardharness.schema import Failure, Judgment

ONE = skill("one", "always", criterion("a", "seam"))
TWO = skill("two", "add")
START = library(ONE, TWO)


def proposal(*changes: AddEntry | ReplaceEntry | RemoveEntry, idea: tuple[str, ...] = ()) -> Proposal:
    return Proposal("modify", changes, "Because.", ("x",), "me", idea)


def test_the_same_edit_has_the_same_signature_whoever_proposes_it() -> None:
    change = ReplaceEntry(replace(ONE, body="New."), "why")
    again = replace(proposal(change), statement="Other words.", source="you", cited=())
    assert proposal(replace(change, reason="other")).signature == again.signature
    assert again.signature != proposal(ReplaceEntry(replace(ONE, body="Newer."))).signature
    assert again.signature != proposal(RemoveEntry("one")).signature
    assert proposal(RemoveEntry("one")).signature != proposal(RemoveEntry("two")).signature


def test_an_idea_is_known_again_when_the_rest_of_its_entry_has_changed() -> None:
    first = proposal(ReplaceEntry(replace(ONE, body="New.")), idea=("reweight", "one", "2"))
    later = proposal(ReplaceEntry(replace(ONE, body="Newer.")), idea=("reweight", "one", "2"))
    assert first.signature == later.signature
    assert first.signature != replace(first, idea=("reweight", "one", "4")).signature


def test_all_changes_are_applied_together_or_the_problem_is_told() -> None:
    merge = proposal(RemoveEntry("two"), ReplaceEntry(replace(ONE, body="Both.")))
    assert [entry.name for entry in merge.applied_to(START).entries] == ["one"]
    assert merge.names == ("two", "one")
    with pytest.raises(LibraryError, match="changes nothing"):
        proposal(ReplaceEntry(ONE)).applied_to(START)
    with pytest.raises(LibraryError, match="no entry"):
        proposal(RemoveEntry("two"), RemoveEntry("two")).applied_to(START)
    assert len(START) == 2


def test_a_note_of_what_was_tried_keeps_signature_and_wording() -> None:
    edit = proposal(
        AddEntry(skill("three", "text", criterion("b", "seam"), body="Read every letter.")), RemoveEntry("two")
    )
    tried = RejectedProposal.of(edit, "broke more than it fixed")
    assert tried.signature == edit.signature
    assert tried.text == "How to judge three.\nRead every letter.\nHow good it is. 4: good; 1: bad."
    assert (tried.statement, tried.reason) == ("Because.", "broke more than it fixed")


def test_a_judgment_that_failed_is_no_miss() -> None:
    missed = judge(START, example("x", "add a cat", "B"), pair({"seam": 0.9}, {"seam": 0.1}))
    assert missed.failed and missed.judged
    torn = Outcome(missed.example, Judgment("x", "j", "p", "l", failure=Failure("timeout", "Too slow.")), 0.0)
    assert not torn.failed and not torn.judged
