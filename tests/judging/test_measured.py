import json
import sqlite3
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
import pytest
from PIL import Image, ImageChops, ImageEnhance, ImageFilter, ImageOps

from rewardharness.judging import readings
from rewardharness.judging.cache import FILE, JudgmentCache
from rewardharness.judging.measured import NAME, MeasuredJudge
from rewardharness.judgments import judgment_json
from rewardharness.library.opening import open_library
from rewardharness.library.store import EMPTY, Library, RemoveEntry
from rewardharness.measure.images import load_picture
from rewardharness.measure.structure import scene_kept
from rewardharness.measure.view import EditView
from rewardharness.schema import Example, ImageInput, Usage


@pytest.fixture(scope="module")
def library() -> Library:
    return open_library("builtin")


@pytest.fixture(scope="module")
def pictures() -> dict[str, ImageInput]:
    """A drawn scene and edits of it: the box made red, the same with an unasked change, and the box made blue."""
    random = np.random.default_rng(1)
    coarse = Image.fromarray(random.integers(60, 200, (10, 10, 3), dtype=np.uint8))
    scene = np.asarray(coarse.resize((128, 128), Image.Resampling.BICUBIC)).astype(np.int16)
    source = np.clip(scene + random.normal(0, 4, scene.shape), 0, 255).astype(np.uint8)
    source[45:85, 45:85] = (120, 120, 110)
    shading = random.normal(0, 4, (40, 40, 1))
    red, blue = source.copy(), source.copy()
    red[45:85, 45:85] = np.clip(np.array((205, 35, 40)) + shading, 0, 255)
    blue[45:85, 45:85] = np.clip(np.array((40, 60, 200)) + shading, 0, 255)
    over = red.copy()
    over[5:35, 5:120] //= 3
    edits = {"source": source, "red": red, "blue": blue, "over": over, "small": red[::2, ::2]}
    return {name: ImageInput.of(pixels, name) for name, pixels in edits.items()}


@pytest.fixture
def photo(real_data: Path) -> Path:
    return real_data / "photos" / "sk_coffee.jpg"


def example(pictures: dict[str, ImageInput], *names: str, instruction: str = "make the box red") -> Example:
    return Example("x", instruction, pictures["source"], tuple(pictures[name] for name in names))


@pytest.mark.parametrize("worse", ["source", "over", "blue"])
def test_the_edit_that_was_asked_for_wins_in_either_place(worse, pictures, library) -> None:
    first, second = (
        MeasuredJudge().judge_now(example(pictures, *names), library) for names in (("red", worse), (worse, "red"))
    )
    assert (first.preference, second.preference, first.position_consistent) == ("A", "B", True)
    assert first.margin == second.margin
    assert (first.scores["A"], first.scores["B"]) == (second.scores["B"], second.scores["A"])


def test_a_group_is_ranked_and_every_candidate_gets_a_reward(pictures: dict[str, ImageInput], library: Library) -> None:
    judgment = MeasuredJudge().judge_now(example(pictures, "source", "over", "red", "blue"), library)
    assert (judgment.preference, judgment.ranking[-1]) == ("C", ("A",))
    assert sorted(label for level in judgment.ranking for label in level) == ["A", "B", "C", "D"]
    assert all(0 <= each.reward <= 1 and 1 <= each.instruction <= 4 for each in judgment.scores.values())


@pytest.mark.parametrize(
    "instruction", ["make it brighter", "make the box red", "turn it into a watercolor painting", "add a dog"]
)
def test_another_picture_is_no_edit_of_the_source(instruction: str, library: Library) -> None:
    random = np.random.default_rng(3)

    def scene(shade: int) -> ImageInput:
        coarse = Image.fromarray(random.integers(0, 200, (14, 14, 3), dtype=np.uint8))
        drawn = np.asarray(coarse.resize((128, 128), Image.Resampling.BICUBIC)).astype(np.int16)
        for _ in range(12):
            top, left = random.integers(0, 100, 2)
            drawn[top : top + 25, left : left + 15] = random.integers(0, 255, 3)
        return ImageInput.of(np.clip(drawn + shade, 0, 255).astype(np.uint8))

    judgment = MeasuredJudge().judge_now(Example("x", instruction, scene(0), (scene(50),)), library)
    scores = judgment.scores["A"]
    assert (scores.instruction or 0) <= 2 and scores.quality <= 2 and (scores.reward or 0) < 0.2
    assert any("does not show the scene" in note for note in judgment.notes)


def changed(pixels: np.ndarray, how: str, amount: float) -> np.ndarray:
    gray = pixels @ np.array([0.299, 0.587, 0.114])
    if how == "blur":
        blurred = cv2.GaussianBlur(pixels, (0, 0), amount if amount > 0 else 1.5)
        return blurred if amount > 0 else pixels - (pixels - blurred) * amount
    return {
        "brightness": lambda: pixels * amount,
        "saturation": lambda: gray[..., None] + (pixels - gray[..., None]) * amount,
        "warmth": lambda: pixels * [amount, 1.0, 2.0 - amount],
        "contrast": lambda: (pixels - pixels.mean()) * amount + pixels.mean(),
    }[how]()


@pytest.mark.parametrize(
    ("instruction", "how", "done", "reversed_"),
    [
        ("Make the photo black and white", "saturation", 0.0, (1.1, 2.0)),
        ("Make the photo brighter", "brightness", 1.3, (0.97, 0.7)),
        ("Make the photo darker", "brightness", 0.7, (1.03, 1.3)),
        ("Increase the saturation", "saturation", 2.2, (0.9, 0.4)),
        ("Reduce the saturation", "saturation", 0.3, (1.1, 2.0)),
        ("Make the photo warmer", "warmth", 1.15, (0.97, 0.85)),
        ("Make the photo cooler", "warmth", 0.85, (1.03, 1.15)),
        ("Increase the contrast", "contrast", 1.4, (0.95, 0.6)),
        ("Lower the contrast", "contrast", 0.6, (1.05, 1.4)),
        ("Sharpen the photo", "blur", -1.5, (0.7, 3.0)),
        ("Blur the photo", "blur", 2.0, (-0.3, -1.0)),
    ],
)
def test_a_change_in_the_other_direction_has_a_low_score_however_small(
    instruction: str, how: str, done: float, reversed_: tuple[float, float], library: Library
) -> None:
    from skimage import data

    photo = cv2.resize(data.coffee()[60:380, 80:480], (160, 128), interpolation=cv2.INTER_AREA).astype(np.float64) * 0.8
    for muted in (0.25, 1.0) if how in ("saturation", "warmth") else (1.0,):
        source = changed(photo, "saturation", muted)
        pictures = [source, *(changed(source, how, amount) for amount in (done, *reversed_))]
        first, *candidates = (ImageInput.of(np.clip(each, 0, 255).astype(np.uint8)) for each in pictures)
        judgment = MeasuredJudge().judge_now(Example("x", instruction, first, tuple(candidates)), library)
        right, *wrong = judgment.scores.values()
        assert right.instruction > 2.4 and all(each.instruction < 1.8 and each.reward < 0.45 for each in wrong), wrong


@pytest.mark.parametrize("instruction", ["Place an orange ball", "Add an orange ball on the table"])
def test_what_is_added_must_have_the_color_it_was_given(instruction: str, library: Library) -> None:
    from skimage import data

    source = cv2.resize(data.coffee(), (180, 120), interpolation=cv2.INTER_AREA)
    judged = {}
    for color, shade in {"orange": (235, 130, 30), "black": (20, 20, 20), "blue": (30, 80, 200)}.items():
        ball = cv2.circle(source.copy(), (90, 80), 14, shade, -1, cv2.LINE_AA)
        case = Example("x", instruction, ImageInput.of(source), (ImageInput.of(ball),))
        judged[color] = MeasuredJudge().with_critiques().judge_now(case, library)
    scores = {color: each.scores["A"].instruction for color, each in judged.items()}
    assert scores["orange"] > 3 and max(scores["black"], scores["blue"]) < 2, scores
    assert all("requested color orange" in judged[color].critiques["A"].problems[0] for color in ("black", "blue"))


def test_an_object_that_was_removed_from_a_plain_background_leaves_the_scene(library: Library) -> None:
    plain = np.full((128, 128, 3), 225, np.uint8)
    plain += np.random.default_rng(0).integers(0, 6, plain.shape, dtype=np.uint8)
    ball = plain.copy()
    ball[40:88, 40:88] = (150, 40, 40)
    candidates = (ImageInput.of(plain), ImageInput.of(ball))
    judgment = MeasuredJudge().judge_now(Example("x", "remove the ball", candidates[1], candidates), library)
    assert judgment.preference == "A" and judgment.scores["A"].reward > 0.6
    assert not any("does not show the scene" in note for note in judgment.notes)


@pytest.mark.parametrize("change", ["brighter", "darker", "gray", "shifted", "mirrored", "cropped", "soft"])
def test_an_edit_of_the_whole_picture_still_shows_the_source(change: str, photo: Path) -> None:
    image = Image.open(photo).convert("RGB")
    width, height = image.size
    edited = {
        "brighter": lambda: ImageEnhance.Brightness(image).enhance(1.6),
        "darker": lambda: ImageEnhance.Brightness(image).enhance(0.3),
        "gray": lambda: image.convert("L").convert("RGB"),
        "shifted": lambda: ImageChops.offset(image, width // 8, 0),
        "mirrored": lambda: ImageOps.mirror(image),
        "cropped": lambda: image.crop((width // 5, height // 5, width * 4 // 5, height * 4 // 5)),
        "soft": lambda: image.filter(ImageFilter.GaussianBlur(6)),
    }[change]()
    assert scene_kept(EditView(*(load_picture(ImageInput.of(each)) for each in (photo, edited)))) > 0.9


def test_the_record_names_its_grounds(pictures: dict[str, ImageInput], library: Library) -> None:
    record = judgment_json(MeasuredJudge().judge_now(example(pictures, "red", "source"), library))
    assert [record[name] for name in ("judge", "preference", "library_id")] == [NAME, "A", library.id]
    kinds = [step["kind"] for step in record["steps"]]
    assert (kinds[0], kinds[-1]) == ("think", "answer") and kinds.count("tool") == kinds.count("obs") > 2
    plain = "B hardly changed anything; A visibly changed the image. Edit presence of A:"
    assert record["reasons"][0].startswith(plain)
    assert "B is the unchanged source." in record["notes"]
    assert any(entry["name"] == "color-and-material-changes" for entry in record["entries"])


def test_identical_candidates_and_another_size_are_noted(pictures: dict[str, ImageInput], library: Library) -> None:
    judgment = MeasuredJudge().judge_now(example(pictures, "red", "red"), library)
    assert (judgment.preference, judgment.margin, judgment.confidence) == ("tie", 0.0, 0.0)
    assert "A and B are the same image." in judgment.notes
    judgment = MeasuredJudge().judge_now(example(pictures, "small", "blue"), library)
    assert judgment.preference == "A"
    assert any(note.startswith("A: resized from 64 x 64 to 128 x 128") for note in judgment.notes)


def test_what_can_not_be_measured_is_named_and_trusted_little(pictures, library) -> None:
    seen = MeasuredJudge().judge_now(example(pictures, "red", "over"), library)
    unseen = MeasuredJudge().judge_now(example(pictures, "red", "over", instruction="make him frown"), library)
    assert unseen.confidence < seen.confidence
    assert any("has low confidence" in note for note in unseen.notes)
    assert not any("reads English" in note for note in unseen.notes)
    foreign = MeasuredJudge().judge_now(example(pictures, "red", "over", instruction="把车变成红色"), library)
    assert any("reads English" in note for note in foreign.notes)
    alone = MeasuredJudge().judge_now(example(pictures, "red", instruction="Mach das Auto rot"), library)
    assert "reads English" in alone.failure.message


TORN = ImageInput("torn.png", data=b"\x89PNG\r\n\x1a\n")


@pytest.mark.parametrize(
    ("instruction", "names", "wanted"),
    [
        ("  ", ("red", "red"), "input"),
        ("make it red", (), "input"),
        ("make it red", ("red",) * 5, "input"),
        ("make it red", ("red", "torn"), "image"),
    ],
)
def test_trouble_is_a_failure_and_never_a_preference(instruction, names, wanted, pictures, library) -> None:
    asked = example({**pictures, "torn": TORN}, *names, instruction=instruction)
    judgment = MeasuredJudge().judge_now(asked, library)
    assert (judgment.preference, judgment.failure.code, judgment.scores) == (None, wanted, {})


def test_an_empty_library_leaves_nothing_to_go_by(pictures: dict[str, ImageInput]) -> None:
    judgment = MeasuredJudge().judge_now(example(pictures, "red", "source"), EMPTY)
    assert judgment.failure.code == "nothing_to_measure" and "--judge vllm:NAME@URL" in judgment.failure.message


@pytest.mark.slow
@pytest.mark.real_data
def test_real_pairs_are_judged_without_position_bias(real_data: Path, library: Library) -> None:
    from rewardharness.data.folder import read_folder
    from rewardharness.judging.evaluate import evaluate
    from rewardharness.judging.report import make_report

    examples = [each for each in read_folder(real_data / "pairs").examples if len(each.candidates) == 2][:24]
    report = make_report(evaluate(MeasuredJudge(workers=2), library, examples, concurrency=2))
    assert report.judged == report.n == 24
    assert report.position_consistent == (24, 24)


def test_remembered_readings_give_the_same_judgment_to_the_last_digit(pictures, library, tmp_path) -> None:
    asked = example(pictures, "over", "small")
    cache = JudgmentCache(tmp_path)
    plain = MeasuredJudge().judge_now(asked, library)
    first = MeasuredJudge(cache=cache).judge_now(asked, library)
    again = MeasuredJudge(cache=cache).judge_now(asked, library)
    assert replace(plain, usage=Usage()) == replace(first, usage=Usage()) == replace(again, usage=Usage())
    assert cache.stats().by_judge == {"measures": 2}


@pytest.mark.parametrize("text", ['{"n": 1}', "{", '{"readings": {}}', '{"readings": [1]}'])
def test_cached_readings_of_another_form_are_taken_again(pictures, library, tmp_path, text) -> None:
    cache = JudgmentCache(tmp_path)
    asked = example(pictures, "red", "blue")
    first = MeasuredJudge(cache=cache).judge_now(asked, library)
    with sqlite3.connect(tmp_path / FILE, isolation_level=None) as database:
        database.execute("UPDATE judgment SET value = ?", (text,))
    assert MeasuredJudge(cache=cache).judge_now(asked, library).scores == first.scores
    assert MeasuredJudge(cache=cache).judge_now(asked, library).scores == first.scores


def test_only_what_a_library_requests_is_measured(pictures, library, tmp_path) -> None:
    asked = example(pictures, "red", "over")
    MeasuredJudge(cache=JudgmentCache(tmp_path)).judge_now(asked, library)
    with sqlite3.connect(tmp_path / FILE) as database:
        cached = [set(json.loads(text)["readings"]) for (text,) in database.execute("SELECT value FROM judgment")]
    assert len(cached) == 2 and cached[0] == cached[1] >= {"color_target", "preservation"}
    assert not cached[0] & {"fidelity", "moved_region", "background_change"}


def test_another_library_weighs_the_remembered_readings(pictures, library, tmp_path, monkeypatch) -> None:
    cache = JudgmentCache(tmp_path)
    asked = example(pictures, "red", "over")
    MeasuredJudge(cache=cache).judge_now(asked, library)
    smaller = library.apply(RemoveEntry("preserving-the-rest"))

    monkeypatch.delattr(readings, "load_picture")  # nothing is decoded again
    judgment = MeasuredJudge(cache=cache).judge_now(asked, smaller)
    assert judgment.judged and judgment.library_id == smaller.id
