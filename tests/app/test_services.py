from dataclasses import replace
from pathlib import Path

import pytest
from app_parts import Pictures, make_services
from hostile import read_own

from app.library.libraries import FOLDER, HUB, Choice
from app.score import views
from app.score.comparisons import Draft
from app.score.judges import BY_MEASURING, ENDPOINT, JudgeChoice
from app.services import AppServices, is_local
from app.viewer import chain_views
from rewardharness.data.folder import read_folder
from rewardharness.errors import HarnessError, InputError
from rewardharness.settings import Settings


@pytest.fixture
def services(tmp_path: Path) -> AppServices:
    return make_services(tmp_path)


def test_the_better_edit_wins_and_can_be_looked_at(services: AppServices, pictures: Pictures) -> None:
    done = services.compare(pictures.draft(), Choice())
    assert done.judgment.preference == "B" and done.library == "the built-in Library"
    assert done.model is None and not chain_views.pictures(done.judgment, "B")
    drawn, label = services.draw(done, "B")
    assert chain_views.pictures(drawn, label) and drawn.scores[label].quality == done.judgment.scores["B"].quality


def test_swapping_the_candidates_swaps_the_answer(services: AppServices, pictures: Pictures) -> None:
    one, other = (services.compare(pictures.draft(order), Choice()).judgment for order in ("good bad", "bad good"))
    assert (one.preference, other.preference) == ("A", "B") and one.margin == other.margin


def test_the_same_picture_twice_is_level_and_says_so(services: AppServices, pictures: Pictures) -> None:
    judgment = services.compare(pictures.draft("good good"), Choice()).judgment
    text = read_own(views.verdict(judgment)).text
    assert "A and B are level." in text and "A and B are the same image." in text


def test_what_cannot_be_measured_is_said_next_to_the_verdict(services: AppServices, pictures: Pictures) -> None:
    judgment = services.compare(pictures.draft(instruction="Let the dog smile."), Choice()).judgment
    assert "has low confidence" in read_own(views.verdict(judgment)).text


@pytest.mark.parametrize(
    ("given", "missing"),
    [
        ((False, "good", "bad", None), "The source image is missing."),
        ((True, None, "bad", None), "Candidate A is missing."),
        ((True, "good", None, None), "Candidate B is missing."),
        ((True, "good", "bad", None, "bad"), "Candidate C is missing."),
    ],
)
def test_what_is_missing_is_named(
    services: AppServices, pictures: Pictures, given: tuple[bool | str | None, ...], missing: str
) -> None:
    source = str(pictures.source) if given[0] else None
    paths = [str(getattr(pictures, name)) if isinstance(name, str) else None for name in given[1:]]
    with pytest.raises(InputError, match=missing) as caught:
        services.compare(Draft(source, tuple(paths), (), "Make it blue."), Choice())
    assert caught.value.next_step


def test_an_instruction_is_needed(services: AppServices, pictures: Pictures) -> None:
    with pytest.raises(InputError, match="instruction is missing"):
        services.compare(pictures.draft(instruction="  "), Choice())


def test_a_broken_picture_is_a_failure_that_names_the_candidate(
    services: AppServices, pictures: Pictures, tmp_path: Path
) -> None:
    broken = tmp_path / "secret-name.png"
    broken.write_bytes(b"<svg onload=alert(1)>")
    judgment = services.compare(
        replace(pictures.draft(), candidates=(str(pictures.good), str(broken))), Choice()
    ).judgment
    text = read_own(views.verdict(judgment)).text
    assert judgment.preference is None and "Candidate B is not a PNG" in text and "secret" not in text


def test_feedback_becomes_an_example_and_the_last_answer_counts(services: AppServices, pictures: Pictures) -> None:
    done = services.compare(pictures.draft(), Choice())
    assert not services.settings.feedback.exists()
    assert services.give_feedback(done, "A").count == 1
    assert services.give_feedback(done, "B").count == 1
    [example] = read_folder(services.settings.feedback).examples
    assert example.preference == "B" and example.instruction == pictures.instruction
    assert example.source.path is not None and example.source.path.read_bytes() == pictures.source.read_bytes()


def test_who_sits_at_this_computer() -> None:
    here, space = Settings.from_env({}), Settings.from_env({"SYSTEM": "spaces"})
    assert is_local(here, "127.0.0.1") and not is_local(here, "0.0.0.0")
    assert not is_local(space, "127.0.0.1")


@pytest.mark.slow
def test_the_samples_give_what_their_makers_meant(services: AppServices) -> None:
    samples = services.samples()
    winners = {}
    for sample in samples:
        candidates = tuple(str(path) for path in sample.candidates)
        done = services.compare(Draft(str(sample.source), candidates, (), sample.instruction), Choice())
        winners[sample.title] = done.judgment.preference
    assert winners == {"Blue space suit": "A", "A red balloon": "B", "Brighter picture": "C", "Black and white": "A"}


def test_a_result_is_about_what_was_compared(services: AppServices, pictures: Pictures, tmp_path: Path) -> None:
    draft, good, bad = pictures.draft("good bad"), str(pictures.good), str(pictures.bad)
    asked = (replace(draft, candidates=(good, bad, None, None)), Choice(), BY_MEASURING)
    done = services.compare(*asked)
    assert services.is_current(done, *asked)
    untouched = Choice(folder="/somewhere", spec="not/loaded"), JudgeChoice(url="http://not.chosen")
    assert services.is_current(done, replace(draft, instruction=f" {pictures.instruction} "), *untouched)
    for changed in (
        {"candidates": (bad, good)},
        {"candidates": (good, bad, good)},
        {"candidates": (good, None)},
        {"source": None},
        {"instruction": ""},
    ):
        assert not services.is_current(done, replace(draft, **changed), *asked[1:])
    for choice in (Choice(FOLDER, str(tmp_path)), Choice(HUB, "", "not/loaded")):
        assert not services.is_current(done, draft, choice, BY_MEASURING)
    assert not services.is_current(done, draft, Choice(), JudgeChoice(ENDPOINT))


def test_references_belong_to_a_comparison_and_can_be_looked_at(services: AppServices, pictures: Pictures) -> None:
    good, bad = str(pictures.good), str(pictures.bad)
    draft = pictures.draft(instruction="Like image 2.", references=(good, bad, None))
    done = services.compare(draft, Choice())
    assert [image.path for image in done.example.references] == [pictures.good, pictures.bad]
    assert services.is_current(done, draft, Choice(), BY_MEASURING)
    for references in ((), (good, None, None), (bad, good, None)):
        assert not services.is_current(done, replace(draft, references=references), Choice(), BY_MEASURING)
    with pytest.raises(HarnessError, match="Image 2 is missing"):
        services.compare(replace(draft, references=(None, good, None)), Choice())
    services.give_feedback(done, "B")
    [stored] = read_folder(services.settings.feedback).examples
    assert [image.path.read_bytes() for image in stored.references if image.path] == [
        pictures.good.read_bytes(),
        pictures.bad.read_bytes(),
    ]
