from functools import cache

import cv2
import numpy as np
import pytest
from drawn_edits import blend, disc, grade, photo, recolored, view
from hypothesis import given
from hypothesis import strategies as st

from rewardharness.measure.color import color_target, object_color, style_shift, tone_shift
from rewardharness.measure.color_names import color_distance, color_named
from rewardharness.schema import EditRequest

CAT, COFFEE = photo("chelsea", 240, 160), photo("coffee", 240, 160)
PAINT = {
    "red": (215, 30, 30),
    "orange": (245, 140, 35),
    "yellow": (240, 215, 40),
    "green": (45, 155, 60),
    "blue": (40, 85, 205),
    "purple": (125, 50, 165),
    "white": (245, 245, 245),
    "black": (12, 12, 12),
}


def recolor_to(*names: str, instruction: str = "make the ball colourful") -> EditRequest:
    return EditRequest(instruction, ("color",), "local", colors=names)


def tone(name: str, scope: str = "global") -> EditRequest:
    return EditRequest(f"make it {name}", ("tone",), scope, tones=(name,))


STYLE = EditRequest("make it a painting", ("style",), "global")
BALL = disc(*CAT.shape[:2], radius=0.25)


def test_the_color_asked_for_grades_above_every_other() -> None:
    gray = blend(CAT, np.repeat(CAT.mean(axis=2, keepdims=True), 3, axis=2), BALL)
    shade = 0.7 + 0.3 * gray / 255.0
    edits = {name: view(gray, blend(gray, np.float32(color) * shade, BALL)) for name, color in PAINT.items()}
    for asked in PAINT:
        grades = {name: color_target(edit, recolor_to(asked)).grade or 0.0 for name, edit in edits.items()}
        assert max(grades, key=grades.__getitem__) == asked and grades[asked] > 0.6


def test_half_a_recoloring_grades_between_none_and_a_whole_one() -> None:
    asked = recolor_to("blue")
    grades = [grade(color_target, CAT, recolored(CAT, PAINT["blue"], BALL * share), asked) for share in (0, 0.6, 1)]
    assert grades == sorted(grades) and grades[0] < 0.15 and grades[1] - grades[0] > 0.05
    assert grades[2] > 0.8


def test_moving_away_from_the_color_grades_below_no_change() -> None:
    red = recolored(CAT, PAINT["red"], BALL)
    away = recolored(CAT, PAINT["blue"], BALL)
    assert grade(color_target, red, away, recolor_to("red")) < 0.5 * grade(color_target, red, red, recolor_to("red"))


def test_only_the_color_that_the_edit_leads_to_counts() -> None:
    red, blue = (recolored(CAT, PAINT[name], BALL) for name in ("red", "blue"))
    to_blue = recolor_to("red", "blue", instruction="change the red ball to blue")
    assert grade(color_target, red, blue, to_blue) > 0.8 > grade(color_target, CAT, red, to_blue) + 0.5
    either = recolor_to("red", "blue", instruction="paint it red and blue")
    assert min(grade(color_target, CAT, each, either) for each in (red, blue)) > 0.7


def test_the_overlay_leaves_color_only_where_the_target_color_is() -> None:
    reading = color_target(view(CAT, recolored(CAT, PAINT["green"], BALL)), recolor_to("green"))
    assert reading.overlay is not None
    colorful = np.ptp(reading.overlay.astype(int), axis=2) > 20
    assert colorful[BALL > 0.95].mean() > 0.7 and colorful[BALL < 0.01].mean() < 0.02


def test_the_object_named_by_its_color_must_get_the_new_color() -> None:
    gray = np.repeat(CAT.mean(axis=2, keepdims=True), 3, axis=2)
    named, other = disc(*CAT.shape[:2], (0.3, 0.5), 0.15), disc(*CAT.shape[:2], (0.7, 0.5), 0.15)
    source = recolored(recolored(gray, PAINT["red"], named), PAINT["green"], other)
    asked = recolor_to("blue", instruction="make the red ball blue")
    right, wrong, both = (recolored(source, PAINT["blue"], where) for where in (named, other, named + other))
    grades = [grade(object_color, source, each, asked) for each in (right, both, wrong, source)]
    assert grades[0] > 0.8 > grades[1] > 0.5 > 0.2 > max(grades[2:])
    assert grade(color_target, source, right, asked) > 0.5 > 0.15 > grade(color_target, source, wrong, asked)
    beside = recolor_to("blue", instruction="make the man with the red ball blue")
    assert grade(color_target, source, wrong, beside) > 0.5


@pytest.mark.parametrize(
    "instruction", ["make the ball blue", "make the orange ball blue", "turn it into a blue-red ball"]
)
def test_an_object_that_is_not_named_by_a_visible_color_is_not_graded(instruction: str) -> None:
    gray = np.repeat(CAT.mean(axis=2, keepdims=True), 3, axis=2)
    assert object_color(view(gray, 255 - gray), recolor_to("blue", instruction=instruction)).grade is None


@pytest.mark.parametrize(
    "request_",
    [
        EditRequest("remove the red car", ("remove",), "local", colors=("red",)),
        EditRequest("make it transparent", ("color",), "local", colors=("transparent",)),
        EditRequest("add a dog", ("add",), "local"),
    ],
)
def test_color_is_not_graded_where_no_known_color_is_asked_for(request_: EditRequest) -> None:
    assert color_target(view(CAT, 255 - CAT), request_).grade is None


def test_names_know_modifiers_and_spellings() -> None:
    def lightness(name: str) -> float:
        found = color_named(name)
        assert found is not None
        return found.lightness

    assert lightness("dark green") < lightness("green") < lightness("light green")
    assert lightness("navy blue") == lightness("navy") < lightness("sky-blue")
    assert lightness("Grey") == lightness("gray") and lightness("reddish") == lightness("red")
    assert color_named("transparent") is None and color_named("") is None


@given(st.sampled_from(sorted(PAINT)), st.sampled_from(["", "light ", "dark ", "bright "]))
def test_every_prototype_is_nearer_to_its_own_name_than_to_an_opposite(name: str, modifier: str) -> None:
    lab = cv2.split(cv2.cvtColor(np.float32([[PAINT[name]]]) / 255, cv2.COLOR_RGB2Lab))
    own = color_named(modifier + name)
    opposites = {"red": "green", "green": "red", "blue": "yellow", "yellow": "blue", "white": "black", "black": "white"}
    other = color_named(opposites.get(name, "cyan"))
    assert own is not None and other is not None
    assert color_distance(lab, own)[0, 0] < color_distance(lab, other)[0, 0]


@cache
def toned(name: str) -> np.ndarray:
    pixels = CAT.astype(np.float32)
    gray = pixels.mean(axis=2, keepdims=True)
    made = {
        "brighter": lambda: pixels * 1.3,
        "darker": lambda: pixels * 0.7,
        "warmer": lambda: pixels * [1.1, 1.0, 0.85],
        "cooler": lambda: pixels * [0.88, 1.0, 1.12],
        "more_contrast": lambda: (pixels - 120) * 1.5 + 120,
        "less_contrast": lambda: (pixels - 120) * 0.6 + 120,
        "more_saturated": lambda: gray + (pixels - gray) * 1.6,
        "less_saturated": lambda: gray + (pixels - gray) * 0.5,
        "grayscale": lambda: np.repeat(gray, 3, axis=2),
        "sepia": lambda: gray * [1.07, 0.92, 0.69],
        "sharper": lambda: pixels * 1.8 - cv2.GaussianBlur(pixels, (0, 0), 1.5) * 0.8,
        "blurrier": lambda: cv2.GaussianBlur(pixels, (0, 0), 2.0),
    }
    return made[name]()


TONES = (
    "brighter darker warmer cooler more_contrast less_contrast more_saturated less_saturated grayscale sepia sharper "
    "blurrier"
).split()


@pytest.mark.parametrize("name", TONES)
def test_a_tone_that_was_asked_for_is_seen(name: str) -> None:
    done, not_done = (grade(tone_shift, CAT, each, tone(name)) for each in (toned(name), CAT))
    assert done > 0.55 and not_done < 0.2
    opposites = dict(zip(TONES[::2][:4], TONES[1::2][:4], strict=True))
    if name in opposites:
        assert grade(tone_shift, CAT, toned(opposites[name]), tone(name)) < not_done


def test_every_direction_asked_for_must_be_met() -> None:
    both = EditRequest("darker and cooler", ("tone",), "global", tones=("darker", "cooler"))
    dark, cool = toned("darker"), toned("cooler")
    dark_and_cool = cool * 0.7
    assert grade(tone_shift, CAT, dark_and_cool, both) > grade(tone_shift, CAT, dark, both) + 0.2


def test_a_local_tone_is_measured_where_the_picture_changed() -> None:
    brighter = blend(CAT, np.clip(CAT * 1.4, 0, 255), disc(*CAT.shape[:2], radius=0.12))
    assert grade(tone_shift, CAT, brighter, tone("brighter", "local")) > 0.7
    assert grade(tone_shift, CAT, brighter, tone("brighter", "global")) < 0.3
    reading = tone_shift(view(CAT, toned("brighter")), EditRequest("add a dog", ("add",), "local"))
    assert reading.grade is None and reading.quantities["brightness"] > 5, "other requests are reported, not graded"


def test_a_restyled_picture_grades_above_the_same_and_above_another() -> None:
    painted = cv2.stylization(CAT, sigma_s=60, sigma_r=0.45)
    poster = (CAT // 64) * 64 + 32
    local = CAT.copy()
    local[50:90, 75:130] = poster[50:90, 75:130]
    unlike = max(grade(style_shift, CAT, each, STYLE) for each in (CAT, local, COFFEE))
    assert min(grade(style_shift, CAT, each, STYLE) for each in (painted, poster)) > unlike + 0.2
    assert style_shift(view(CAT, painted), tone("brighter")).grade is None


def test_a_darkened_rim_is_no_darker_picture() -> None:
    down, across = np.mgrid[-1 : 1 : CAT.shape[0] * 1j, -1 : 1 : CAT.shape[1] * 1j]
    rim = CAT * (1.0 - 0.8 * np.clip(down**2 + across**2, 0, 1))[..., None]
    assert grade(tone_shift, CAT, CAT * 0.5, tone("darker")) > 0.8 > 0.15 > grade(tone_shift, CAT, rim, tone("darker"))
