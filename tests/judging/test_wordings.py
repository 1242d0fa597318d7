"""Instructions of each kind of edit in many wordings. Every third wording was put aside and read once, at the end."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from rewardharness.judging.instruction import read_instruction
from rewardharness.judging.router import route
from rewardharness.library.opening import open_library
from rewardharness.schema import EDIT_KINDS

SKILLS = {
    "add": "following-additions",
    "appearance": "matching-appearance",
    "background": "background-and-scene-changes",
    "color": "color-and-material-changes",
    "count": "count-and-position-edits",
    "keep": "faithful-reproduction",
    "material": "color-and-material-changes",
    "pose": "pose-and-motion-edits",
    "position": "count-and-position-edits",
    "remove": "following-removals",
    "replace": "following-replacements",
    "style": "style-and-tone-changes",
    "text": "text-edits",
    "tone": "style-and-tone-changes",
}


def wordings(held_out: bool) -> Iterator[tuple[str, str]]:
    kind, number = "", 0
    for line in Path(__file__).with_name("wordings.txt").read_text("utf-8").splitlines():
        if line in EDIT_KINDS:
            kind, number = line, 0
        elif not line.startswith("#"):
            if (number % 3 == 2) == held_out:
                yield kind, line
            number += 1


@pytest.mark.parametrize(("held_out", "least"), [(False, 1.0), (True, 0.8)])
def test_the_kind_of_edit_is_read_in_any_wording_and_selects_its_skill(held_out: bool, least: float) -> None:
    builtin = open_library("builtin")
    rows = list(wordings(held_out))
    assert {kind for kind, _ in rows} == set(SKILLS)
    wrong = [(kind, line) for kind, line in rows if read_instruction(line).kinds[0] != kind]
    assert len(wrong) <= (1 - least) * len(rows), wrong
    for kind, line in rows:
        if (kind, line) not in wrong:
            reasons = {entry.name: entry.reason for entry in route(builtin, line).reasons}
            assert reasons[SKILLS[kind]].startswith("kind of edit")
            assert {"preserving-the-rest", "scoring-scale", "visual-quality-and-artifacts"} <= reasons.keys()


LIKE = """
style: Recreate the image as a watercolor.
color: Keep the image as it is, but make the car red.
color: Don't change the face; make her hair red.
remove: Preserve the original lamp and remove the table.
replace: Reproduce the photo with a dog instead of the cat.
other: Give the chair the same color as the table.
other: Copy the lamp to the left side.
"""


@pytest.mark.parametrize(("kind", "instruction"), [line.split(": ") for line in LIKE.strip().splitlines()])
def test_a_likeness_with_an_edit_is_no_request_for_the_same_image(instruction: str, kind: str) -> None:
    kinds = read_instruction(instruction).kinds
    assert not {"keep", "appearance"} & set(kinds)
    assert kind == "other" or kinds[0] == kind
