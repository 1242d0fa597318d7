"""The one door to examples: what each spelling opens."""

from pathlib import Path

import pytest
from PIL import Image

from rewardharness.data.feedback import append_feedback
from rewardharness.data.opening import DEMO_PAIRS, open_data
from rewardharness.errors import DataError
from rewardharness.files import write_text
from rewardharness.schema import Example, ImageInput
from rewardharness.settings import Settings


@pytest.fixture
def settings() -> Settings:
    return Settings.from_env()


def picture(path: Path, shade: int) -> Path:
    Image.new("RGB", (16, 16), (shade, 90, 40)).save(path)
    return path


def test_feedback_is_what_was_said_in_the_app(tmp_path: Path, settings: Settings) -> None:
    with pytest.raises(DataError, match="no feedback yet"):
        open_data("feedback", settings)
    images = [ImageInput(name, picture(tmp_path / f"{name}.png", number)) for number, name in enumerate("sab")]
    append_feedback(settings.feedback, Example("x", "make it red", images[0], tuple(images[1:])), "B")
    assert [each.preference for each in open_data("feedback", settings).examples] == ["B"]


def test_the_demonstration_set_is_drawn_once(settings: Settings) -> None:
    told: list[tuple[str, int, int]] = []
    drawn = open_data("demo", settings, progress=lambda *step: told.append(step))
    assert len(drawn.examples) == DEMO_PAIRS and told[-1] == ("drawing", DEMO_PAIRS, DEMO_PAIRS)
    told.clear()
    assert open_data("demo", settings, progress=lambda *step: told.append(step)).digest == drawn.digest
    assert not told


def test_a_folder_is_read(tmp_path: Path, settings: Settings) -> None:
    for number, name in enumerate("sab"):
        picture(tmp_path / f"{name}.png", number)
    write_text(tmp_path / "t.csv", "instruction,source,candidate_a,candidate_b\nmake it red,s.png,a.png,b.png\n")
    dataset = open_data(str(tmp_path), settings)
    assert dataset.name == tmp_path.name and len(dataset.examples) == 1
