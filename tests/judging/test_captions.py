import pytest
from hypothesis import given
from hypothesis import strategies as st

from rewardharness.judging.captions import Caption, names_action, read_caption, without_opening
from rewardharness.judging.instruction import read_instruction


@pytest.mark.parametrize(
    ("instruction", "kind", "colors"),
    [
        ("A photo of a sitting dog", "pose", ()),
        ("the goat jumping over the cat", "pose", ()),
        ("Edit the image so that it shows: a horse that runs across a field", "pose", ()),
        ("A white horse leaping over a fence", "pose", ()),
        ("A photo of a red car", "color", ("red",)),
        ("A man wearing a hat", "add", ()),
        ("An open door", "pose", ()),
        ("Source caption: a red apple on a table. Target caption: a green apple on a table.", "color", ("green",)),
        ('Change "a brown dog standing on grass" to "a brown dog sleeping on grass"', "pose", ()),
        ("A photo of a birthday cake", "other", ()),
    ],
)
def test_descriptions_of_the_result(instruction: str, kind: str, colors: tuple[str, ...]) -> None:
    request = read_instruction(instruction)
    assert (request.kinds[0], request.colors, request.scope) == (kind, colors, "unknown")
    assert request.instruction == instruction


@pytest.mark.parametrize(
    "instruction",
    [
        "the tiny yellow cylinder turns brown",
        "The teddy bear should be red",
        "the banana is peeled",
        "Add a photo of a dog to the wall",
        'Replace the text "no parking here" with "free parking here"',
    ],
)
def test_statements_of_a_change_are_no_captions(instruction: str) -> None:
    assert read_caption(instruction) is None


def test_only_the_difference_to_the_source_is_requested() -> None:
    caption = read_caption("The image shows a man in a red coat. The edited image should show: a man in a blue coat")
    assert caption == Caption("a man in a blue coat", "a man in a red coat")
    assert caption.requested == "blue"


@pytest.mark.parametrize(
    ("question", "rest"),
    [
        ("Can you make the sky darker?", "make the sky darker"),
        ("Could you please add a cat?", "add a cat"),
        ("I would like you to remove the car.", "remove the car."),
        ("make it red", "make it red"),
        ("make it red please", "make it red"),
        ("Make the sky darker. Thank you very much!", "Make the sky darker"),
        ("add a sign that says thank you", "add a sign that says thank you"),
        ("add the word please", "add the word please"),
    ],
)
def test_polite_openings_and_ends(question: str, rest: str) -> None:
    assert without_opening(question) == rest
    assert read_instruction(question).kinds == read_instruction(rest).kinds


def test_names_in_ing_are_no_actions() -> None:
    assert not names_action("a building with a tall ceiling and a ring")
    assert names_action("a cat asleep on a building")


@given(st.text(max_size=120), st.text(max_size=120))
def test_any_caption_is_read(source: str, target: str) -> None:
    request = read_instruction(f"Source caption: {source}. Target caption: {target}")
    assert request.kinds
