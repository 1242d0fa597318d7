import pytest
from hypothesis import given
from hypothesis import settings as examples
from hypothesis import strategies as st

from rewardharness.judging.understood import KINDS, canonical, understood
from rewardharness.schema import EDIT_KINDS

LINES = """
Change the text "COFFEE" to "TEA": replace text "COFFEE" → "TEA"
Make the sign say OPEN: write text "OPEN"
Change the color of the blue car to red: color of blue car → red, rest unchanged
make the red car blue: color of red car → blue, rest unchanged
Please remove the dog from the picture.: remove dog from the picture
Replace the cat with a dog: replace cat → a dog
Add a red hat to the man, and keep everything else: add a red hat to the man
make the sky darker: light and tone of sky → darker, rest unchanged
Reduce the contrast of the photo: light and tone → lower contrast
make it winter: background → winter
Turn it into a watercolor painting: style → watercolor painting
Make the cup out of glass: material of cup → glass, rest unchanged
make the red cube larger: position or size of red cube → larger, rest unchanged
Have the dog lick the teddy bear.: pose or action of dog → lick the teddy bear, rest unchanged
Do something nice:
"""


@pytest.mark.parametrize("row", LINES.strip().splitlines())
def test_what_was_read_is_one_line(row: str) -> None:
    instruction, _, line = row.rpartition(":")
    assert understood(instruction).text == line.strip()


VALUES = st.sampled_from(
    "|car|blue car|dog's collar|background|man with a hat|a red hat|TEA|to the left|red|larger|darker|lower contrast"
    "|glass|text on the sign|sky|two more dogs|no one|éclair".split("|")
)
WILD = VALUES | st.text(max_size=12)


@examples(max_examples=60)
@given(st.sampled_from(sorted(KINDS)), VALUES, VALUES)
def test_a_corrected_reading_is_read_back(kind: str, what: str, to: str) -> None:
    read = understood(canonical(kind, what, to))
    assert (read.kind, read.what, read.to) == (kind, what, to)


@examples(max_examples=60)
@given(st.sampled_from(sorted(KINDS)), WILD, WILD)
def test_any_correction_keeps_its_kind_and_is_read_back_after_cleaning(kind: str, what: str, to: str) -> None:
    read = understood(canonical(kind, what, to))
    assert read.kind == kind and understood(canonical(kind, read.what, read.to)) == read


def test_every_kind_but_other_can_be_chosen() -> None:
    assert sorted(KINDS) == sorted({*EDIT_KINDS} - {"other"})
