import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rewardharness.judging.appeals import is_english
from rewardharness.judging.instruction import read_instruction
from rewardharness.measure.focus import asks_blurred_background
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
    read_instruction(part * (30_000 // len(part)))
    assert time.process_time() - started < 3  # it was 4 to 50


ENGLISH = """
True: Remove red slippers | Make the sign say "Das Auto ist rot und schön" | Put it next to the café
True: die cut the paper
False: Mach das Auto rot | Entferne den Hund | Ändere den Text zu "OPEN" | Supprime le chien | Haz el coche rojo
False: Rendi l'auto rossa | Arabayı kırmızı yap | 把汽车变成红色 | Сделай машину красной
"""


@pytest.mark.parametrize(("instruction", "english"), [*rows(ENGLISH), ("", "True")])
def test_english_is_told_from_other_languages(instruction: str, english: bool) -> None:
    assert is_english(instruction) is (english == "True")


TEXTS = """
COFFEE > TEA: Change the text on the sign from COFFEE to TEA | Replace the word COFFEE with TEA
COFFEE > TEA: Replace COFFEE with TEA on the sign | Replace COFFEE with TEA | Change COFFEE to TEA
COFFEE > TEA: Write TEA instead of COFFEE on the cup | Make the cup say TEA instead of COFFEE
COFFEE > TEA: Please change the word "COFFEE" to "TEA" | Change the text that says COFFEE to TEA
COFFEE > TEA: Replace the text COFFEE with the text TEA | Change "COFFEE" to "TEA"
coffee > tea: Replace the word coffee with tea on the cup
> OPEN: Make the sign say OPEN | Change the sign so that it reads OPEN | Change the sign to say OPEN
> welcome home: Make the sign say welcome home
> open: make the sign read open
OPEN > CLOSED: change the sign from OPEN to CLOSED
Milk > Cream: Change the label Milk to Cream
> HAPPY BIRTHDAY: Change the text to HAPPY BIRTHDAY
> Happy Birthday: Change the caption to Happy Birthday, Anna
> Summer Sale 2024: Replace the text on the banner with Summer Sale 2024
NO > YES: Change NO to YES on the sign
HOT > COLD: Swap the word HOT for COLD
RESTURANT > RESTAURANT: Correct the spelling of RESTURANT to RESTAURANT
STPO > STOP: Fix the typo STPO to STOP on the sign
> SALE: Add the word SALE to the window
> happy birthday: Add the words happy birthday to the cake
> Happy New Year: Add the text Happy New Year above the people
> HELLO: Write HELLO on the wall
SALE >: Remove the word SALE from the window | Remove the text SALE from the sign | Erase SALE from the banner
STOP >: Remove the sign that says STOP
> BIG SALE: Update the text on the billboard to read BIG SALE.
> STOP: The sign should say STOP
STOP > GO: Turn the word STOP into GO
> welcome: Add a sign saying welcome
Coffee Shop > Tea House: Can you change the text from Coffee Shop to Tea House?
love > hate: Replace the word love on the mural with hate
> ABC 123: Change the number plate to ABC 123
> ORGANIC: Let the label read ORGANIC
ABC > XYZ: Replace the letters ABC with XYZ
"""

NO_TEXTS = """
: Replace the cat with a dog | Replace Coke with Pepsi | Replace the TV with a PC
: Change the color of the sign from red to blue | Change the text color to red
: Change the color of the text from RED to BLUE | Remove the text | Remove the words from the sign
: Make the sign bigger | Turn the sign to face left | Replace the sign with a STOP sign | Change the text to French
: Make the NASA logo bigger | Add a BMW to the street | Replace the Toyota with a BMW | Have the man read a book
: REPLACE THE CAT WITH A DOG | Make the sign read more clearly | Change the dog from a Labrador to a Poodle
: Replace the letter with a card | Make the words bold | Turn the word STOP red | Change the word color to red
: make the text larger | Replace the word with a picture of a cup | Change the text style from bold to italic
: Put the book on the table | Change the font to Arial | Add a caption | Remove the label from the bottle
: Change the photo to 4K | Turn the photo to HDR | Convert the PNG to a JPG | Make the man wear a NASA shirt
: Replace the man with Obama | Add a title card | Change the shirt to red | Change the screen to a mirror
: make the letters neon | make the cat say hello | Make the sky look like Van Gogh painted it
: Replace the word processor with a typewriter | Move the sign to the left | Have the woman wear a T-shirt
: Add an LED sign
"""


@pytest.mark.parametrize(("instruction", "texts"), rows(TEXTS))
def test_texts_are_read_without_quotes(instruction: str, texts: str) -> None:
    gone, _, wanted = texts.partition(">")
    request = read_instruction(instruction)
    assert (" ".join(request.removed_texts), " ".join(request.texts)) == (gone.strip(), wanted.strip())
    assert "text" in request.kinds and not request.colors


@pytest.mark.parametrize(("instruction", "_"), rows(NO_TEXTS))
def test_what_is_no_text_is_not_read_as_text(instruction: str, _: str) -> None:
    request = read_instruction(instruction)
    assert request.texts == request.removed_texts == ()


TURNED = """
half: Turn the image upside down. | Rotate the picture by 180 degrees. | Flip the photo upside down
half: Turn the photo on its head | Rotate this image 180°. | Show the picture upside-down.
half: Make the image upside down. | Please rotate the whole photo through 180 degrees clockwise.
half: Give the image a half turn. | Could you turn the entire picture upside down, please?
half: The photo should be upside down. | Rotate it by 180 degrees.
right: Rotate the image 90 degrees clockwise. | Turn the picture a quarter turn to the right.
left: Rotate the image 90 degrees counterclockwise. | Turn the photo by 90° to the left.
mirrored: Mirror the image. | Flip the photo horizontally. | Flip the picture left to right
mirrored: Mirror the photo horizontally.
flipped: Flip the image vertically. | Flip the picture top to bottom.
: Turn the cup upside down. | Put the glass upside down on the table. | Flip the image upside down and add a cat.
: Remove the dog, then mirror the image. | Add a mirror to the picture. | Rotate the chair by 180 degrees.
: Turn the image into a painting. | Add a man who stands upside down.
"""


@pytest.mark.parametrize(("instruction", "turned"), rows(TURNED))
def test_a_turn_of_the_whole_image_alone_is_read(instruction: str, turned: str) -> None:
    request = read_instruction(instruction)
    assert request.turned == turned and (not turned or (request.kinds, request.scope) == (("pose",), "none"))


NIGHT = """
darker: Turn day into night. | Change the scene from day to night. | Convert this daytime photo to a night shot.
darker: Transform the daytime scene into nighttime. | Make it night instead of day. | Switch the time from day to night.
brighter: Turn night into day. | Make the night scene a daytime scene. | Change from nighttime to daytime.
warmer: Change the light from cool to warm.
"""


@pytest.mark.parametrize(("instruction", "tone"), rows(NIGHT))
def test_the_tone_that_is_left_behind_is_not_requested(instruction: str, tone: str) -> None:
    request = read_instruction(instruction)
    assert request.tones == (tone,)
    assert request.kinds[0] == "tone"


BLURRED = """
yes: Make the background blurry. | Blur the background. | Let the background be out of focus. | Defocus the background.
yes: The background should be blurred. | Give the background a soft blur. | Add bokeh to the background.
yes: Make the background blurred. | Put the background out of focus. | Keep the subject sharp and the background blurry.
no: Replace the background with a blurry park. | Change the background to a blurred street. | Make the image blurry.
no: Put a blurred city into the background. | Unblur the background. | Make the background darker.
no: Sharpen the background.
"""


@pytest.mark.parametrize(("instruction", "wanted"), rows(BLURRED))
def test_a_blurred_background_is_read(instruction: str, wanted: str) -> None:
    request = read_instruction(instruction)
    assert asks_blurred_background(request) == (wanted == "yes")
