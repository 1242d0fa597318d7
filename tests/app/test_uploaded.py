from pathlib import Path

import pytest
from app_parts import Pictures, make_services
from PIL import Image

from app.library.libraries import Choice
from app.score.comparisons import Draft, scalings


@pytest.fixture
def photograph(tmp_path: Path) -> Path:
    path = tmp_path / "photo.from-600x400.png"
    Image.new("RGB", (205, 137), "red").save(path)
    return path


def test_a_scaled_image_is_named_with_both_sizes(photograph: Path, tmp_path: Path) -> None:
    named = [("The source", photograph), ("Candidate A", None), ("Candidate B", tmp_path / "gone.from-9x9.png")]
    assert scalings(named) == ["The source: scaled from 600x400 to 205x137 before the upload."]


def test_a_name_alone_makes_no_scaling(photograph: Path) -> None:
    for name in ("photo.png", "photo.from-100x67.png", "photo.from-600x600.png", "photo.from-600x400.png.png"):
        other = photograph.with_name(name)
        other.write_bytes(photograph.read_bytes())
        assert scalings([("Candidate A", other)]) == []
    photograph.write_bytes(b"no image")
    assert scalings([("Candidate A", photograph)]) == []


def test_the_record_of_a_comparison_names_scaled_images(photograph: Path, tmp_path: Path, pictures: Pictures) -> None:
    services = make_services(tmp_path)
    done = services.compare(
        Draft(str(photograph), (str(pictures.good), str(photograph)), (), "Make it blue."), Choice()
    )
    notes = [note for note in done.judgment.notes if "before the upload" in note]
    assert [note.partition(":")[0] for note in notes] == ["The source", "Candidate B"]
