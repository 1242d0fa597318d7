from pathlib import Path

import pytest
from app_parts import Pictures
from hostile import read_own

from app import chain_views, views
from app.judges import BY_MEASURING, ENDPOINT, JudgeChoice
from app.libraries import FOLDER, HUB, Choice
from app.services import AppServices, is_local
from rewardharness.data.folder import read_folder
from rewardharness.errors import HarnessError, InputError
from rewardharness.settings import Settings


@pytest.fixture
def services(tmp_path: Path) -> AppServices:
    return make(tmp_path)


def make(tmp_path: Path, *, local: bool = True, library: str = "") -> AppServices:
    settings = Settings.from_env({"RH_HOME": str(tmp_path / "home"), "RH_LIBRARY": library, "RH_WORKERS": "1"})
    return AppServices(settings, tmp_path / "scratch", local=local)


def test_the_better_edit_wins_and_can_be_looked_at(services: AppServices, pictures: Pictures) -> None:
    done = services.compare(
        str(pictures.source), (str(pictures.bad), str(pictures.good), None, None), pictures.instruction, Choice()
    )
    assert done.judgment.preference == "B" and done.library == "the built-in Library"
    assert done.model is None and not chain_views.pictures(done.judgment, "B")
    drawn, label = services.draw(done, "B")
    assert chain_views.pictures(drawn, label) and drawn.scores[label].quality == done.judgment.scores["B"].quality


def test_swapping_the_candidates_swaps_the_answer(services: AppServices, pictures: Pictures) -> None:
    good, bad = str(pictures.good), str(pictures.bad)
    one = services.compare(str(pictures.source), (good, bad), pictures.instruction, Choice()).judgment
    other = services.compare(str(pictures.source), (bad, good), pictures.instruction, Choice()).judgment
    assert (one.preference, other.preference) == ("A", "B") and one.margin == other.margin


def test_the_same_picture_twice_is_level_and_says_so(services: AppServices, pictures: Pictures) -> None:
    good = str(pictures.good)
    judgment = services.compare(str(pictures.source), (good, good), pictures.instruction, Choice()).judgment
    text = read_own(views.verdict(judgment)).text
    assert "A and B are level." in text and "A and B are the same image." in text


def test_what_cannot_be_measured_is_said_next_to_the_verdict(services: AppServices, pictures: Pictures) -> None:
    candidates = (str(pictures.good), str(pictures.bad))
    judgment = services.compare(str(pictures.source), candidates, "Let the dog smile.", Choice()).judgment
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
        services.compare(source, paths, "Make it blue.", Choice())
    assert caught.value.next_step


def test_an_instruction_is_needed(services: AppServices, pictures: Pictures) -> None:
    paths = (str(pictures.good), str(pictures.bad))
    with pytest.raises(InputError, match="instruction is missing"):
        services.compare(str(pictures.source), paths, "  ", Choice())


def test_a_broken_picture_is_a_failure_that_names_the_candidate(
    services: AppServices, pictures: Pictures, tmp_path: Path
) -> None:
    broken = tmp_path / "secret-name.png"
    broken.write_bytes(b"<svg onload=alert(1)>")
    judgment = services.compare(
        str(pictures.source), (str(pictures.good), str(broken)), pictures.instruction, Choice()
    ).judgment
    text = read_own(views.verdict(judgment)).text
    assert judgment.preference is None and "Candidate B is not a PNG" in text and "secret" not in text


def test_feedback_becomes_an_example_and_the_last_answer_counts(services: AppServices, pictures: Pictures) -> None:
    done = services.compare(
        str(pictures.source), (str(pictures.bad), str(pictures.good)), pictures.instruction, Choice()
    )
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
        candidates = [str(path) for path in sample.candidates]
        done = services.compare(str(sample.source), candidates, sample.instruction, Choice())
        winners[sample.title] = done.judgment.preference
    assert winners == {"Blue space suit": "A", "A red balloon": "B", "Brighter picture": "C", "Black and white": "A"}


def test_a_result_is_about_what_was_compared(services: AppServices, pictures: Pictures, tmp_path: Path) -> None:
    source, good, bad = str(pictures.source), str(pictures.good), str(pictures.bad)
    asked = (source, (good, bad, None, None), pictures.instruction, Choice(), BY_MEASURING)
    done = services.compare(*asked)
    assert services.is_current(done, *asked)
    untouched = Choice(folder="/somewhere", spec="not/loaded"), JudgeChoice(url="http://not.chosen")
    assert services.is_current(done, *asked[:2], f" {pictures.instruction} ", *untouched)
    for changed in (
        (source, (bad, good), *asked[2:]),
        (source, (good, bad, good), *asked[2:]),
        (source, (good, None), *asked[2:]),
        (None, *asked[1:]),
        (*asked[:2], "", *asked[3:]),
        (*asked[:3], Choice(FOLDER, str(tmp_path)), BY_MEASURING),
        (*asked[:3], Choice(HUB, "", "not/loaded"), BY_MEASURING),
        (*asked[:4], JudgeChoice(ENDPOINT)),
    ):
        assert not services.is_current(done, *changed)


def test_references_belong_to_a_comparison_and_can_be_looked_at(services: AppServices, pictures: Pictures) -> None:
    source, good, bad = str(pictures.source), str(pictures.good), str(pictures.bad)
    asked = (source, (bad, good, None, None), "Like image 2.", Choice(), BY_MEASURING)
    done = services.compare(*asked, references=(good, bad, None))
    assert [image.path for image in done.example.references] == [pictures.good, pictures.bad]
    assert services.is_current(done, *asked, references=(good, bad, None))
    for references in ((), (good, None, None), (bad, good, None)):
        assert not services.is_current(done, *asked, references=references)
    with pytest.raises(HarnessError, match="Image 2 is missing"):
        services.compare(*asked, references=(None, good, None))
    services.give_feedback(done, "B")
    [stored] = read_folder(services.settings.feedback).examples
    assert [image.path.read_bytes() for image in stored.references if image.path] == [
        pictures.good.read_bytes(),
        pictures.bad.read_bytes(),
    ]
