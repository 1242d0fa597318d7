from dataclasses import replace

from rewardharness.evolution.narrow import MOST_WORDS, narrow
from rewardharness.evolution.proposal import Proposal
from rewardharness.library.entry import Entry
from rewardharness.library.rubric import Criterion, Rubric
from rewardharness.library.store import EMPTY, AddEntry, RemoveEntry, ReplaceEntry
from rewardharness.schema import Example, ImageInput

BLANK = ImageInput("x", data=b"")
SKILL = Entry("moods", "skill", "Judging moods.", "Look.", {"triggers": "always"})


def examples(*instructions: str) -> list[Example]:
    return [Example(f"e{hash(each)}", each, BLANK, (BLANK, BLANK), "A") for each in instructions]


def test_a_new_entry_gets_triggers_that_tell_apart() -> None:
    fixed = examples("remove the lamp", "removing a chair", "delete the sign")
    broken = examples("paint the lamp blue", "paint the sign red")
    found = narrow(Proposal("add", (AddEntry(SKILL),), "Why.", (), "me", ("idea",)), EMPTY, fixed, broken)
    assert found is not None
    [change] = found.changes
    assert isinstance(change, AddEntry)
    triggers = change.entry.triggers
    assert all(any(each.matches(one.instruction) for each in triggers) for one in fixed)
    assert not any(each.matches(one.instruction) for each in triggers for one in broken)
    assert found.signature != Proposal("add", (AddEntry(SKILL),), "Why.", (), "me", ("idea",)).signature


def test_words_are_few_and_not_common_ones() -> None:
    fixed = examples(*(f"make the thing{letter} shine" for letter in "abcdefghij"))
    broken = examples("make the thing shine")
    found = narrow(Proposal("add", (AddEntry(SKILL),), "Why.", (), "me"), EMPTY, fixed, broken)
    assert found is not None
    [change] = found.changes
    assert isinstance(change, AddEntry)
    words = change.entry.metadata["triggers"].split(", ")
    assert len(words) == MOST_WORDS and not {"make", "the"} & set(words)


def test_where_the_same_words_are_fixed_and_broken_there_is_no_telling() -> None:
    same = examples("remove the lamp")
    assert narrow(Proposal("add", (AddEntry(SKILL),), "Why.", (), "me"), EMPTY, same, same) is None


def test_a_changed_rubric_limits_its_new_criteria_to_kinds_that_were_fixed() -> None:
    old = replace(SKILL, rubric=Rubric((Criterion("known", "Known."),)))
    new = replace(SKILL, rubric=Rubric((Criterion("known", "Known."), Criterion("fresh", "Fresh."))))
    library = EMPTY.apply(AddEntry(old))
    fixed, broken = examples("remove the lamp", "delete the chair"), examples("add a hat to the man")
    found = narrow(Proposal("add", (ReplaceEntry(new),), "Why.", (), "me"), library, fixed, broken)
    assert found is not None
    [change] = found.changes
    assert isinstance(change, ReplaceEntry) and change.entry.rubric is not None
    assert [each.applies for each in change.entry.rubric.criteria] == [(), ("remove",)]
    assert narrow(Proposal("add", (ReplaceEntry(new),), "Why.", (), "me"), library, fixed, fixed) is None
    assert narrow(Proposal("reweight", (ReplaceEntry(old),), "Why.", (), "me"), library, fixed, broken) is None


def test_several_changes_and_removals_are_not_narrowed() -> None:
    fixed, broken = examples("remove the lamp"), examples("add a hat")
    removal = RemoveEntry("moods")
    assert narrow(Proposal("remove", (removal,), "Why.", (), "me"), EMPTY, fixed, broken) is None
    assert narrow(Proposal("merge", (AddEntry(SKILL), removal), "Why.", (), "me"), EMPTY, fixed, broken) is None
