import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rewardharness.judging.appeals import is_english
from rewardharness.judging.instruction import read_instruction
from rewardharness.schema import EDIT_KINDS


def rows(table: str) -> list[tuple[str, str]]:
    """Instructions and what they ask for: a line has the latter, a colon, and the former between bars."""
    lines = (line.partition(": ") for line in table.strip("\n").split("\n"))
    return [(instruction, wanted) for wanted, _, rest in lines for instruction in rest.split(" | ")]


KINDS = """
add: let there be a movie poster on the wall | What if the horse was using a hat? | Put a frog in the toilet.
add: Perch two birds on the branch | add a cat to the scene
remove: Remove the red slippers from the image | Get rid of the two birds | Banish the kite from the image
remove: There should be no snow in the picture
replace: let the remote turn into a VR headset | replace the tennis rackets with a shovel
replace: change the bench into a wooden pew
color: Keep the background but make the dog blue
color: Make the hydrant all white. | let the chair be red | Change the color of the bear to brown
color: Give the banana a green tint | Make the car red, with the same finish
material: make the statue out of marble, made of shiny marble | make the gray cube shiny
background: Change the background of this photo to snow | Transform this image into a snowy scene
style: Change the image to oil painting style | Make it look like Andy Warhol painted it.
tone: Make the image brighter | make it black and white
text: Change the text "OPEN" to "CLOSED" on the sign | Make the sign say STOP
position: Move the book to the left of the headphones | Moving the mug to the right | make the red cube larger
pose: Have the dog lick the teddy bear. | Put down the seat. | Make the woman obese. | Let the boy lift the bag
keep: Reproduce the source image as faithfully as possible: same subject, pose, layout and look.
keep: Do not change anything
appearance: Give the object the same material appearance as in the source image: gloss and texture.
"""


@pytest.mark.parametrize(("instruction", "kind"), rows(KINDS))
def test_strongest_kind(instruction: str, kind: str) -> None:
    assert read_instruction(instruction).kinds[0] == kind


@pytest.mark.parametrize(
    ("instruction", "field", "wanted"),
    [
        ("change the bright lime green curtains to white curtains", "colors", ("white",)),
        ("make the red car blue", "colors", ("blue",)),
        ("Remove the red slippers", "colors", ()),
        ("make it black and white", "colors", ()),
        ("paint the wall light blue and the door dark green", "colors", ("light blue", "dark green")),
        ("make the sky pink", "colors", ("pink",)),
        ("paint the wall sky blue", "colors", ("sky blue",)),
        ('Change the text "OPEN" to "CLOSED" on the sign', "texts", ("CLOSED",)),
        ('Change the text "OPEN" to "CLOSED" on the sign', "removed_texts", ("OPEN",)),
        ("Remove the words “no entry”", "removed_texts", ("no entry",)),
        ("Make the sign say STOP", "texts", ("STOP",)),
        ("make the dog's collar red", "texts", ()),
        ("Change the image to oil painting style", "scope", "global"),
        ("Remove the ball in the image", "scope", "local"),
        ("Reproduce the picture faithfully", "scope", "none"),
        ("make the scene darker", "scope", "global"),
    ],
)
def test_colors_texts_and_scope(instruction: str, field: str, wanted: object) -> None:
    """The target color is what something becomes, not what it was."""
    assert getattr(read_instruction(instruction), field) == wanted


def test_a_named_object_of_a_change_of_light_is_no_background() -> None:
    request = read_instruction("make the sky darker")
    assert (request.kinds, request.scope, request.tones) == (("tone",), "local", ("darker",))


DIRECTIONS = """
left: Move the book to the left of the headphones | shift the pencil case further left
right: Move the cup on the left to the right
up: put the plate behind the basket
down: Move the sunglasses under the chair
: Move the pot on the chair | Add a cup to the left of the plate | raise the left arm
"""


@pytest.mark.parametrize(("instruction", "direction"), rows(DIRECTIONS))
def test_directions_of_movement(instruction: str, direction: str) -> None:
    assert read_instruction(instruction).directions == ((direction,) if direction else ())


TONES = """
less_saturated: Reduce the saturation | Make the colors less vibrant
more_saturated: Boost the saturation of the photo | Colorize this black and white photo
darker: make the image darker | Make it less bright | Lower the brightness
brighter: The photo is too dark | Raise the exposure
cooler: Make the picture less warm
less_contrast: Reduce contrast | reduce the contrast of the photo
more_contrast: Add contrast
blurrier: Reduce the sharpness
sharper: Remove the blur
grayscale: Turn the photo into black and white
: Move it in contrast to the sky
"""


@pytest.mark.parametrize(("instruction", "tone"), rows(TONES))
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
    assert request.kinds and set(request.kinds) <= set(EDIT_KINDS)


@pytest.mark.parametrize("part", ["make the car red and ", "make ", "swap it ", "'abc' \"x\" ", "change paint "])
def test_the_time_is_proportional_to_the_length(part: str) -> None:
    started = time.process_time()
    read_instruction(part * (51_000 // len(part)))
    assert time.process_time() - started < 5  # it was 10 to 140


ENGLISH = """
True: Remove red slippers | Make the sign say "Das Auto ist rot und schön" | Put it next to the café
True: die cut the paper
False: Mach das Auto rot | Entferne den Hund | Ändere den Text zu "OPEN" | Supprime le chien | Haz el coche rojo
False: Rendi l'auto rossa | Arabayı kırmızı yap | 把汽车变成红色 | Сделай машину красной
"""


@pytest.mark.parametrize(("instruction", "english"), [*rows(ENGLISH), ("", "True")])
def test_english_is_told_from_other_languages(instruction: str, english: bool) -> None:
    assert is_english(instruction) is (english == "True")
