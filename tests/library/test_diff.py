import json
from dataclasses import replace
from pathlib import Path

from library_samples import write_sample

from rewardharness.library.diff import diff_json, diff_libraries
from rewardharness.library.entry import Entry
from rewardharness.library.rubric import Criterion, Rubric
from rewardharness.library.store import EMPTY, AddEntry, Library, RemoveEntry, ReplaceEntry

SKILL = Entry(
    "text-edits",
    "skill",
    "Old words.",
    "# Text\n\nLook.\n",
    {"triggers": "text, /a.*b/", "author": "me"},
    rubric=Rubric((Criterion("a", "A"), Criterion("b", "B", weight=3), Criterion("c", "C"))),
)


def test_changes_are_told_in_words_and_lines() -> None:
    rubric = Rubric((Criterion("a", "A", scale=(0, 1)), Criterion("b", "BB", weight=1), Criterion("d", "D", weight=2)))
    changed = replace(
        SKILL,
        description="New words.",
        body="# Text\n\nLook twice.\n",
        metadata={"triggers": "text, word", "author": "you"},
        extra={"license": "MIT"},
        rubric=rubric,
    )
    before = EMPTY.apply(AddEntry(SKILL))
    (diff,) = diff_libraries(before, before.apply(ReplaceEntry(changed))).changed
    assert diff.notes == (
        "The description changed from 'Old words.' to 'New words.'.",
        "Triggers added: word.",
        "Triggers removed: /a.*b/.",
        "metadata.author changed from 'me' to 'you'.",
        "The body changed from 13 to 19 characters.",
        "extra.license 'MIT' was added.",
        "Criterion 'd' was added with 50% of the weight.",
        "Criterion 'a': the scale changed from [1, 4] to [0, 1].",
        "Criterion 'b': the weight changed from 3 (60%) to 1 (25%).",
        "Criterion 'b': the text changed.",
        "Criterion 'c' was removed; it had 20% of the weight.",
    )
    assert "-Look.\n+Look twice." in diff.document
    assert {"-  weight: 3", "+  scale: [0, 1]"} <= set(diff.rubric.split("\n"))


def test_no_value_is_told_as_python() -> None:
    one = replace(SKILL, extra={"tags": ["a"], "on": True}, rubric=Rubric((Criterion("a", "A", applies=("color",)),)))
    rubric = Rubric((Criterion("a", "A", applies=("text", "add")),))
    other = replace(one, extra={"tags": ["a", "ü"], "on": {"x": None}}, rubric=rubric)
    (diff,) = diff_libraries(EMPTY.apply(AddEntry(one)), EMPTY.apply(AddEntry(other))).changed
    assert diff.notes == (
        'extra.on changed from true to {"x": null}.',
        'extra.tags changed from ["a"] to ["a", "ü"].',
        "Criterion 'a': the kinds of edit changed from color to text, add.",
    )


def test_losing_triggers_and_changing_kind_are_told() -> None:
    plain = replace(SKILL, metadata={"author": "me"}, rubric=None)
    tool = replace(plain, kind="tool", measure="sharpness")
    (diff,) = diff_libraries(EMPTY.apply(AddEntry(SKILL)), EMPTY.apply(AddEntry(tool))).changed
    assert "The kind changed from skill to tool." in diff.notes
    assert "All triggers were removed; the description determines when the entry applies." in diff.notes
    assert "The measure 'sharpness' was added." in diff.notes


def test_a_diff_is_json(tmp_path: Path) -> None:
    library = Library.load(write_sample(tmp_path / "one"))
    other = library.apply(RemoveEntry("letter-reader")).apply(AddEntry(replace(SKILL, name="new")))
    other = other.apply(ReplaceEntry(replace(SKILL, name="text-edits")))
    diff = diff_libraries(library, other)
    assert [f"{sign} {entry.name}" for sign, entry in diff.signed] == ["+ new", "~ text-edits", "- letter-reader"]
    assert not diff.is_empty
    shown = json.loads(json.dumps(diff_json(diff)))
    names = {key: [each["name"] for each in shown[key]] for key in ("added", "removed", "changed")}
    assert names == {"added": ["new"], "removed": ["letter-reader"], "changed": ["text-edits"]}
    assert shown["before_id"] == library.id and shown["changed"][0]["rubric_diff"].startswith("--- before/rubric.yaml")
    other_weights = Rubric((Criterion("a", "A", weight=2), *SKILL.rubric.criteria[1:]))  # type: ignore[union-attr]
    weighed = other.apply(ReplaceEntry(replace(SKILL, rubric=other_weights)))
    (change,) = diff_libraries(other, weighed).changed
    assert change.notes == ("Criterion 'a': the weight changed from 1 (20%) to 2 (33%).",) and not change.document
