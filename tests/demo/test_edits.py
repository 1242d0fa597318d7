from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rewardharness.demo import edits, filters, photo_edits, scene_edits
from rewardharness.demo.dataset import _CONTENTS, _PHOTO_EDITS, _SCENE_EDITS
from rewardharness.demo.edits import misspelt
from rewardharness.demo.filters import ANYWHERE, LOCAL, STYLES, TONES, Picture, spoil, style, tone
from rewardharness.demo.paint import COLORS, MATERIALS
from rewardharness.demo.photos import PHOTOS, SIDE, photo
from rewardharness.demo.scenes import PLACES, draw, furnish
from rewardharness.demo.things import KINDS, picture

SCENE = furnish("table", 3)


def colorfulness(image: Picture) -> float:
    return float(np.ptp(image.astype(np.int16), axis=2).mean())


def warmth(image: Picture) -> float:
    return float(image[..., 0].mean() - image[..., 2].mean())


@pytest.mark.parametrize("name", TONES)
def test_tones_go_where_they_say_and_further_with_strength(name: str):
    before = draw(SCENE)
    measure, sign = {
        "brighter": (np.mean, 1),
        "darker": (np.mean, -1),
        "warmer": (warmth, 1),
        "cooler": (warmth, -1),
        "more_contrast": (np.std, 1),
        "less_contrast": (np.std, -1),
        "more_saturated": (colorfulness, 1),
        "less_saturated": (colorfulness, -1),
        "grayscale": (colorfulness, -1),
        "sepia": (lambda image: np.abs(np.diff(image.astype(np.int16), axis=0)[..., 2]).mean(), -1),
    }[name]
    none, some, full = (sign * measure(tone(before, name, strength)) for strength in (0.0, 0.3, 1.0))
    assert none < some < full
    assert np.array_equal(tone(before, name, 0.0), before)
    if name == "grayscale":
        assert colorfulness(tone(before, name)) == 0


@pytest.mark.parametrize("name", STYLES)
def test_styles_change_the_whole_picture_the_same_way_every_time(name: str):
    before = photo("coffee")
    after = style(before, name)
    assert after.shape == before.shape and after.dtype == np.uint8
    assert np.array_equal(after, style(before, name))
    quarters = np.abs(after.astype(np.float32) - before).reshape(2, SIDE // 2, 2, SIDE // 2, 3).mean(axis=(1, 3, 4))
    assert quarters.min() > 2
    if name == "sketch":
        assert colorfulness(after) == 0
    if name == "pixels":
        assert np.ptp(after.reshape(64, 8, 64, 8, 3).astype(int), axis=(1, 3)).max() == 0


@pytest.mark.parametrize("name", sorted(ANYWHERE | LOCAL))
def test_every_defect_can_be_seen(name: str):
    before, after = draw(SCENE), draw(replace(SCENE, things=SCENE.things[:1]))
    spoilt = spoil(before, after, name, np.random.default_rng(1))
    assert spoilt.dtype == np.uint8
    if name == "squeezed":
        assert min(spoilt.shape[:2]) < SIDE == max(spoilt.shape[:2])
    else:
        visible = np.abs(spoilt.astype(int) - after).max(axis=2) > 12
        assert visible.mean() > 0.003


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_every_thing_is_painted_inside_its_canvas_and_stands_on_its_edge(kind: str):
    color, alpha = picture(kind, "blue", "plain", "OPEN", 1)
    assert np.isfinite(color).all() and color.min() >= 0 and color.max() <= 1
    assert alpha.min() >= 0 and alpha.max() == pytest.approx(1, abs=1e-3)
    rows = np.flatnonzero(alpha.max(axis=1) > 0.5)
    assert 0.03 < (alpha > 0.5).mean() < 0.85
    assert rows[-1] > 0.75 * len(alpha)


def test_colors_and_materials_look_different():
    looks = [picture("ball", color, "plain", "", 1)[0] for color in COLORS]
    looks += [picture("ball", "red", material, "", 1)[0] for material in MATERIALS]
    for number, one in enumerate(looks):
        assert all(np.abs(one - other).mean() > 0.01 for other in looks[:number])


@pytest.mark.parametrize("place", sorted(PLACES))
def test_scenes_are_the_same_every_time_and_differ_only_where_they_are_edited(place: str):
    one = furnish(place, 5)
    before = draw(one)
    assert before.shape == (SIDE, SIDE, 3)
    assert np.array_equal(before, draw(furnish(place, 5)))
    thing = one.things[0]
    changed = np.abs(draw(one.without(thing)).astype(int) - before).max(axis=2) > 3
    ys, xs = np.nonzero(changed)
    half = thing.size * SIDE * 0.75 + 12
    assert changed.any()
    assert (np.abs(xs - thing.x * SIDE) < half).all()
    assert (ys < thing.y * SIDE + 40).all() and (ys > (thing.y - thing.size) * SIDE - 4).all()


@pytest.mark.parametrize("place", sorted(PLACES))
@pytest.mark.parametrize("what", ["mixed", "sign", "many"])
def test_furnished_scenes_fit_their_place(place: str, what: str):
    for seed in range(12):
        one = furnish(place, seed, what)
        slots, kinds = [thing.slot for thing in one.standing], {thing.kind for thing in one.standing}
        assert len(set(slots)) == len(slots) and kinds <= set(PLACES[place].kinds)
        assert len(kinds) == (1 if what == "many" else 2)
        assert any(thing.slot < 0 for thing in one.things) == (what == "sign")


@settings(deadline=None, max_examples=60)
@given(st.sampled_from(sorted(_SCENE_EDITS)), st.sampled_from(sorted(PLACES)), st.integers(0, 500), st.integers(0, 500))
def test_scene_edits_ask_for_what_is_there(category: str, place: str, seed: int, luck: int):
    one = furnish(place, seed, _CONTENTS.get(category, "mixed"))
    case = _SCENE_EDITS[category](one, np.random.default_rng(luck))
    if case is None:
        return
    assert case.instruction.strip() and "{" not in case.instruction
    assert case.instruction[0].isupper() and case.instruction.endswith(".")
    assert case.wrong and case.over and case.half_done is not None and case.defects
    after = {thing for thing in case.right.args[0].things}  # the scene that is drawn as the right edit
    for _, wrong in case.wrong:
        assert wrong.args[0] not in (case.right.args[0], one)
    for _, more in case.over[:-1]:
        over = more.args[0]
        assert over != case.right.args[0]
        different = (over.wall, over.floor) != (case.right.args[0].wall, case.right.args[0].floor)
        assert different != (set(over.things) != after)


def test_count_asks_for_the_number_that_is_drawn():
    for seed in range(25):
        one = furnish("table", seed, "many")
        case = scene_edits.count(one, np.random.default_rng(seed))
        assert case is not None and isinstance(case.right, partial)
        number = len(case.right.args[0].things)
        assert ("no", "one", "two", "three", "four")[number] in case.instruction
        assert all(len(draw_wrong.args[0].things) != number for _, draw_wrong in case.wrong)


@pytest.mark.parametrize("name", sorted(PHOTOS))
def test_photographs_are_square_and_can_be_edited(name: str):
    base = photo_edits.base_of(name)
    before = base.picture()
    assert before.shape == (SIDE, SIDE, 3)
    made = [make(base, np.random.default_rng(2)) for make in _PHOTO_EDITS.values()]
    for case in filter(None, made):
        right = case.right()
        assert right.shape == before.shape
        changed = np.abs(right.astype(int) - before).max(axis=2) > 30
        assert 0.0015 < changed.mean() < (0.95 if case.category == "background" else 0.5), case.instruction
        for what, wrong in case.wrong:
            assert np.abs(wrong().astype(int) - right).max(axis=2).mean() > 0.2, what
    assert any(made)
    upper = filters.half(before, 255 - before, 0, 0.25)
    assert np.array_equal(upper[:128], 255 - before[:128]) and np.array_equal(upper[128:], before[128:])
    assert all(np.array_equal(filters.fade(before, upper, share), (before, upper)[share]) for share in (0, 1))


def test_flips_turn_the_way_they_say():
    base = edits.Base("x", partial(np.copy, photo("rocket")), ())
    turned = {}
    for luck in range(40):
        case = edits.flip(base, np.random.default_rng(luck))
        turned[case.instruction] = case.right()
    before = photo("rocket")
    assert np.array_equal(turned["Flip the image horizontally."], before[:, ::-1])
    assert np.array_equal(turned["Rotate the picture by 180 degrees."], before[::-1, ::-1])
    clockwise = turned["Rotate the image 90 degrees clockwise."]
    assert np.array_equal(clockwise[0, -1], before[0, 0])


@given(st.sampled_from(["OPEN", "COFFEE", "HELLO", "BAKERY"]), st.integers(0, 1000))
def test_misspelt_words_are_close_but_wrong(word: str, luck: int):
    bad = misspelt(word, np.random.default_rng(luck))
    assert bad != word and abs(len(bad) - len(word)) <= 1 and set(bad) <= set(word)
