import cv2
import numpy as np
import pytest
from drawn_edits import blend, disc, grade, photo, recolored, view
from hypothesis import given
from hypothesis import strategies as st

from rewardharness.measure.color import color_target, object_color, style_shift, tone_shift
from rewardharness.measure.color_names import color_distance, color_named
from rewardharness.schema import EditRequest

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
    return EditRequest(f"make it {name}", ("tone",), scope, tones=(name,))  # type: ignore[arg-type]


STYLE = EditRequest("make it a painting", ("style",), "global")


@pytest.fixture(scope="module")
def cat() -> np.ndarray:
    return photo("chelsea")


@pytest.fixture(scope="module")
def ball(cat: np.ndarray) -> np.ndarray:
    return disc(*cat.shape[:2], radius=0.25)


@pytest.mark.parametrize("asked", sorted(PAINT))
def test_the_color_asked_for_grades_above_every_other(asked: str, cat: np.ndarray, ball: np.ndarray) -> None:
    gray = blend(cat, np.repeat(cat.mean(axis=2, keepdims=True), 3, axis=2), ball)
    grades = {
        name: grade(
            color_target, gray, blend(gray, np.float32(color) * (0.7 + 0.3 * gray / 255.0), ball), recolor_to(asked)
        )
        for name, color in PAINT.items()
    }
    assert max(grades, key=grades.__getitem__) == asked
    assert grades[asked] > 0.6


def test_half_a_recoloring_grades_between_none_and_a_whole_one(cat: np.ndarray, ball: np.ndarray) -> None:
    asked = recolor_to("blue")
    grades = [grade(color_target, cat, recolored(cat, PAINT["blue"], ball * share), asked) for share in (0, 0.45, 1)]
    assert grades == sorted(grades)
    assert grades[0] < 0.15
    assert grades[1] - grades[0] > 0.05
    assert grades[2] > 0.8


def test_moving_away_from_the_color_grades_below_no_change(cat: np.ndarray, ball: np.ndarray) -> None:
    red = recolored(cat, PAINT["red"], ball)
    away = recolored(cat, PAINT["blue"], ball)
    assert grade(color_target, red, away, recolor_to("red")) < 0.5 * grade(color_target, red, red, recolor_to("red"))


def test_only_the_color_that_the_edit_leads_to_counts(cat: np.ndarray, ball: np.ndarray) -> None:
    red, blue = (recolored(cat, PAINT[name], ball) for name in ("red", "blue"))
    to_blue = recolor_to("red", "blue", instruction="change the red ball to blue")
    assert grade(color_target, cat, blue, to_blue) > 0.8 > grade(color_target, cat, red, to_blue) + 0.5
    either = recolor_to("red", "blue", instruction="paint it red and blue")
    assert min(grade(color_target, cat, each, either) for each in (red, blue)) > 0.7


def test_the_overlay_leaves_color_only_where_the_target_color_is(cat: np.ndarray, ball: np.ndarray) -> None:
    reading = color_target(view(cat, recolored(cat, PAINT["green"], ball)), recolor_to("green"))
    assert reading.overlay is not None
    colorful = np.ptp(reading.overlay.astype(int), axis=2) > 20
    assert colorful[ball > 0.95].mean() > 0.7
    assert colorful[ball < 0.01].mean() < 0.02


def test_the_object_named_by_its_color_must_get_the_new_color(cat: np.ndarray) -> None:
    gray = np.repeat(cat.mean(axis=2, keepdims=True), 3, axis=2)
    named, other = disc(*cat.shape[:2], (0.3, 0.5), 0.15), disc(*cat.shape[:2], (0.7, 0.5), 0.15)
    source = recolored(recolored(gray, PAINT["red"], named), PAINT["green"], other)
    asked = recolor_to("blue", instruction="make the red ball blue")
    right, wrong, both = (recolored(source, PAINT["blue"], where) for where in (named, other, named + other))
    grades = [grade(object_color, source, each, asked) for each in (right, both, wrong, source)]
    assert grades[0] > 0.8 > grades[1] > 0.5 > 0.2 > max(grades[2:])
    assert abs(grade(color_target, source, right, asked) - grade(color_target, source, wrong, asked)) < 0.1


@pytest.mark.parametrize(
    "instruction", ["make the ball blue", "make the orange ball blue", "turn it into a blue-red ball"]
)
def test_an_object_that_is_not_named_by_a_visible_color_is_not_graded(instruction: str, cat: np.ndarray) -> None:
    gray = np.repeat(cat.mean(axis=2, keepdims=True), 3, axis=2)
    assert object_color(view(gray, 255 - gray), recolor_to("blue", instruction=instruction)).grade is None


@pytest.mark.parametrize(
    "request_",
    [
        EditRequest("remove the red car", ("remove",), "local", colors=("red",)),
        EditRequest("make it transparent", ("color",), "local", colors=("transparent",)),
        EditRequest("add a dog", ("add",), "local"),
    ],
)
def test_color_is_not_graded_where_no_known_color_is_asked_for(request_: EditRequest, cat: np.ndarray) -> None:
    assert color_target(view(cat, 255 - cat), request_).grade is None


def test_names_know_modifiers_and_spellings() -> None:
    def lightness(name: str) -> float:
        found = color_named(name)
        assert found is not None
        return found.lightness

    assert lightness("dark green") < lightness("green") < lightness("light green")
    assert lightness("navy blue") == lightness("navy") < lightness("sky-blue")
    assert lightness("Grey") == lightness("gray")
    assert lightness("reddish") == lightness("red")
    assert color_named("transparent") is None
    assert color_named("") is None


@given(st.sampled_from(sorted(PAINT)), st.sampled_from(["", "light ", "dark ", "bright "]))
def test_every_prototype_is_nearer_to_its_own_name_than_to_an_opposite(name: str, modifier: str) -> None:
    lab = cv2.split(cv2.cvtColor(np.float32([[PAINT[name]]]) / 255, cv2.COLOR_RGB2Lab))
    own = color_named(modifier + name)
    opposites = {"red": "green", "green": "red", "blue": "yellow", "yellow": "blue", "white": "black", "black": "white"}
    other = color_named(opposites.get(name, "cyan"))
    assert own is not None
    assert other is not None
    assert color_distance(lab, own)[0, 0] < color_distance(lab, other)[0, 0]


def toned(cat: np.ndarray, name: str) -> np.ndarray:
    pixels = cat.astype(np.float32)
    gray = pixels.mean(axis=2, keepdims=True)
    made = {
        "brighter": pixels * 1.3,
        "darker": pixels * 0.7,
        "warmer": pixels * [1.1, 1.0, 0.85],
        "cooler": pixels * [0.88, 1.0, 1.12],
        "more_contrast": (pixels - 120) * 1.5 + 120,
        "less_contrast": (pixels - 120) * 0.6 + 120,
        "more_saturated": gray + (pixels - gray) * 1.6,
        "less_saturated": gray + (pixels - gray) * 0.5,
        "grayscale": np.repeat(gray, 3, axis=2),
        "sepia": gray * [1.07, 0.92, 0.69],
        "sharper": pixels * 1.8 - cv2.GaussianBlur(pixels, (0, 0), 1.5) * 0.8,
        "blurrier": cv2.GaussianBlur(pixels, (0, 0), 2.0),
    }
    return made[name]


TONES = (
    "brighter darker warmer cooler more_contrast less_contrast more_saturated less_saturated grayscale sepia sharper "
    "blurrier"
).split()


@pytest.mark.parametrize("name", TONES)
def test_a_tone_that_was_asked_for_is_seen(name: str, cat: np.ndarray) -> None:
    done, not_done = (grade(tone_shift, cat, each, tone(name)) for each in (toned(cat, name), cat))
    assert done > 0.55
    assert not_done < 0.2
    opposites = dict(zip(TONES[::2][:4], TONES[1::2][:4], strict=True))
    if name in opposites:
        assert grade(tone_shift, cat, toned(cat, opposites[name]), tone(name)) < not_done


def test_every_direction_asked_for_must_be_met(cat: np.ndarray) -> None:
    both = EditRequest("darker and cooler", ("tone",), "global", tones=("darker", "cooler"))
    dark, cool = toned(cat, "darker"), toned(cat, "cooler")
    dark_and_cool = cool * 0.7
    assert grade(tone_shift, cat, dark_and_cool, both) > grade(tone_shift, cat, dark, both) + 0.2


def test_a_local_tone_is_measured_where_the_picture_changed(cat: np.ndarray, ball: np.ndarray) -> None:
    brighter = blend(cat, np.clip(cat * 1.4, 0, 255), disc(*cat.shape[:2], radius=0.12))
    assert grade(tone_shift, cat, brighter, tone("brighter", "local")) > 0.7
    assert grade(tone_shift, cat, brighter, tone("brighter", "global")) < 0.3


def test_tone_reports_shifts_without_grading_other_requests(cat: np.ndarray) -> None:
    reading = tone_shift(view(cat, toned(cat, "brighter")), EditRequest("add a dog", ("add",), "local"))
    assert reading.grade is None
    assert reading.quantities["brightness"].value > 5


def test_a_restyled_picture_grades_above_the_same_and_above_another(cat: np.ndarray) -> None:
    painted = cv2.stylization(cat, sigma_s=60, sigma_r=0.45)
    poster = (cat // 64) * 64 + 32
    local = cat.copy()
    local[100:180, 150:260] = poster[100:180, 150:260]
    unlike = max(grade(style_shift, cat, each, STYLE) for each in (cat, local, photo("coffee")))
    assert min(grade(style_shift, cat, each, STYLE) for each in (painted, poster)) > unlike + 0.2
    assert style_shift(view(cat, painted), tone("brighter")).grade is None
