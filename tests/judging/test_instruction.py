import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rewardharness.judging.appeals import is_english
from rewardharness.judging.instruction import read_instruction
from rewardharness.schema import EDIT_KINDS


@pytest.mark.parametrize(
    ("instruction", "kind"),
    [
        ("let there be a movie poster on the wall", "add"),
        ("What if the horse was using a hat?", "add"),
        ("Put a frog in the toilet.", "add"),
        ("Remove the red slippers from the image", "remove"),
        ("Get rid of the two birds", "remove"),
        ("let the remote turn into a VR headset", "replace"),
        ("replace the tennis rackets with a shovel", "replace"),
        ("change the bench into a wooden pew", "replace"),
        ("Make the hydrant all white.", "color"),
        ("let the chair be red", "color"),
        ("Change the color of the bear to brown", "color"),
        ("make the statue out of marble, made of shiny marble", "material"),
        ("Change the background of this photo to snow", "background"),
        ("Change the image to oil painting style", "style"),
        ("Make it look like Andy Warhol painted it.", "style"),
        ("Make the image brighter", "tone"),
        ("make it black and white", "tone"),
        ('Change the text "OPEN" to "CLOSED" on the sign', "text"),
        ("Make the sign say STOP", "text"),
        ("Move the book to the left of the headphones", "position"),
        ("Have the dog lick the teddy bear.", "pose"),
        ("Put down the seat.", "pose"),
        ("Reproduce the source image as faithfully as possible: same subject, pose, layout and look.", "keep"),
        ("Do not change anything", "keep"),
        ("Make the woman obese.", "pose"),
        ("Banish the kite from the image", "remove"),
        ("There should be no snow in the picture", "remove"),
        ("Perch two birds on the branch", "add"),
        ("Give the banana a green tint", "color"),
        ("Transform this image into a snowy scene", "background"),
        ("add a cat to the scene", "add"),
        ("Moving the mug to the right", "position"),
        ("make the red cube larger", "position"),
        ("Let the boy lift the bag", "pose"),
        ("make the gray cube shiny", "material"),
        ("Give the object the same material appearance as in the source image: gloss and texture.", "appearance"),
        ("Make the car red, with the same finish", "color"),
    ],
)
def test_strongest_kind(instruction: str, kind: str) -> None:
    assert read_instruction(instruction).kinds[0] == kind


def test_target_colour_is_what_it_becomes_not_what_it_was() -> None:
    assert read_instruction("change the bright lime green curtains to white curtains").colors == ("white",)
    assert read_instruction("make the red car blue").colors == ("blue",)
    assert read_instruction("Remove the red slippers").colors == ()
    assert read_instruction("make it black and white").colors == ()
    assert read_instruction("paint the wall light blue and the door dark green").colors == ("light blue", "dark green")


def test_texts_wanted_and_gone() -> None:
    request = read_instruction('Change the text "OPEN" to "CLOSED" on the sign')
    assert (request.texts, request.removed_texts) == (("CLOSED",), ("OPEN",))
    assert read_instruction("Remove the words “no entry”").removed_texts == ("no entry",)
    assert read_instruction("Make the sign say STOP").texts == ("STOP",)
    assert read_instruction("make the dog's collar red").texts == ()


def test_scope() -> None:
    assert read_instruction("Change the image to oil painting style").scope == "global"
    assert read_instruction("Remove the ball in the image").scope == "local"
    assert read_instruction("Reproduce the picture faithfully").scope == "none"


def test_keeping_the_background_is_not_a_change_of_background() -> None:
    assert read_instruction("Keep the background but make the dog blue").kinds[0] == "color"


def test_a_named_object_of_a_change_of_light_is_no_background() -> None:
    request = read_instruction("make the sky darker")
    assert (request.kinds, request.scope, request.tones) == (("tone",), "local", ("darker",))
    assert read_instruction("make the scene darker").scope == "global"
    assert read_instruction("make the sky pink").colors == ("pink",)
    assert read_instruction("paint the wall sky blue").colors == ("sky blue",)


@pytest.mark.parametrize(
    ("instruction", "direction"),
    [
        ("Move the book to the left of the headphones", "left"),
        ("Move the cup on the left to the right", "right"),
        ("shift the pencil case further left", "left"),
        ("put the plate behind the basket", "up"),
        ("Move the sunglasses under the chair", "down"),
        ("Move the pot on the chair", ""),
        ("Add a cup to the left of the plate", ""),
        ("raise the left arm", ""),
    ],
)
def test_directions_of_movement(instruction: str, direction: str) -> None:
    assert read_instruction(instruction).directions == ((direction,) if direction else ())


def test_opposite_tones() -> None:
    assert read_instruction("make the image darker").tones == ("darker",)
    assert read_instruction("reduce the contrast of the photo").tones == ("less_contrast",)


@pytest.mark.parametrize(
    ("instruction", "tone"),
    [
        ("Reduce the saturation", "less_saturated"),
        ("Boost the saturation of the photo", "more_saturated"),
        ("Make the colors less vibrant", "less_saturated"),
        ("Make it less bright", "darker"),
        ("The photo is too dark", "brighter"),
        ("Lower the brightness", "darker"),
        ("Raise the exposure", "brighter"),
        ("Make the picture less warm", "cooler"),
        ("Reduce contrast", "less_contrast"),
        ("Add contrast", "more_contrast"),
        ("Reduce the sharpness", "blurrier"),
        ("Remove the blur", "sharper"),
        ("Colorize this black and white photo", "more_saturated"),
        ("Turn the photo into black and white", "grayscale"),
        ("Move it in contrast to the sky", ""),
    ],
)
def test_words_of_more_and_less_decide_on_the_direction(instruction: str, tone: str) -> None:
    request = read_instruction(instruction)
    assert request.tones == ((tone,) if tone else ()) and request.kinds[0] == ("tone" if tone else "position")


@pytest.mark.parametrize(
    ("instruction", "colors"),
    [
        ("Place an orange ball", ("orange",)),
        ("Put a big red hat on the black dog", ("red",)),
        ("Replace the apple with a green pear", ("green",)),
        ("Let there be a purple umbrella", ("purple",)),
        ("Add an orange to the table", ()),
        ("Add a golden retriever", ()),
    ],
)
def test_the_color_of_what_is_added_is_no_change_of_a_color(instruction: str, colors: tuple[str, ...]) -> None:
    request = read_instruction(instruction)
    assert request.colors == colors and request.kinds[0] in {"add", "replace"} and "color" not in request.kinds


@given(st.text(max_size=200))
def test_any_text_gives_a_request(text: str) -> None:
    request = read_instruction(text)
    assert request.kinds
    assert set(request.kinds) <= set(EDIT_KINDS)
    assert request == read_instruction(text)


@pytest.mark.parametrize("part", ["make the car red and ", "make ", "swap it ", "'abc' \"x\" ", "change paint "])
def test_the_time_is_proportional_to_the_length(part: str) -> None:
    started = time.process_time()
    read_instruction(part * (51_000 // len(part)))
    assert time.process_time() - started < 5  # it was 10 to 140


@pytest.mark.parametrize(
    ("instruction", "english"),
    [
        ("Remove red slippers", True),
        ('Make the sign say "Das Auto ist rot und schön"', True),
        ("Put it next to the café", True),
        ("die cut the paper", True),
        ("Mach das Auto rot", False),
        ("Entferne den Hund", False),
        ('Ändere den Text zu "OPEN"', False),
        ("Supprime le chien", False),
        ("Haz el coche rojo", False),
        ("Rendi l'auto rossa", False),
        ("Arabayı kırmızı yap", False),
        ("把汽车变成红色", False),
        ("Сделай машину красной", False),
        ("", True),
    ],
)
def test_english_is_told_from_other_languages(instruction: str, english: bool) -> None:
    assert is_english(instruction) is english
