"""Preparing examples for a model: small images at once, others in a thread."""

import asyncio
import io
import threading
from pathlib import Path

import pytest
from PIL import Image

from rewardharness.judging import media
from rewardharness.judging.media import ImageFiles, Media, Preparation
from rewardharness.schema import Example, ImageInput


@pytest.fixture
def threads(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each preparation ran in another thread, in order."""
    found: list[bool] = []
    prepare = media.prepare

    def noted(*arguments: object, **options: object) -> Media:
        found.append(threading.current_thread() is not threading.main_thread())
        return prepare(*arguments, **options)

    monkeypatch.setattr(media, "prepare", noted)
    return found


def example(folder: Path, mode: str = "RGB", side: int = 16) -> Example:
    stream = io.BytesIO()
    Image.effect_noise((side, side), 90).convert(mode).save(stream, "PNG")
    for name in "sab":
        (folder / f"{name}.png").write_bytes(stream.getvalue())
    source, *candidates = (ImageInput(name, folder / f"{name}.png") for name in "sab")
    return Example("x", "make it red", source, tuple(candidates))


def prepared(preparation: Preparation, edit: Example) -> Media:
    return asyncio.run(preparation.prepare(edit, None, ImageFiles.of(edit)))


@pytest.mark.parametrize(
    ("mode", "side", "expected"), [("RGB", 16, [False]), ("RGBA", 16, [False, True]), ("RGB", 300, [True])]
)
def test_small_images_that_are_sent_as_they_are_need_no_thread(
    tmp_path: Path, threads: list[bool], mode: str, side: int, expected: list[bool]
) -> None:
    edit = example(tmp_path, mode, side)
    assert prepared(Preparation(), edit) == media.prepare(edit, None)
    assert threads[:-1] == expected


def test_slow_files_are_read_in_threads(tmp_path: Path, threads: list[bool], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(media, "_QUICK", 0.0)
    monkeypatch.setattr(media, "_PATIENCE", 4)
    edit, preparation = example(tmp_path), Preparation()
    for _ in range(13):
        prepared(preparation, edit)
    assert threads == [False] * 3 + ([True] * 4 + [False]) * 2


def test_the_size_of_files_is_known_before_they_are_read(tmp_path: Path) -> None:
    edit = example(tmp_path)
    assert ImageFiles.of(edit).size == 3 * (tmp_path / "s.png").stat().st_size
    (tmp_path / "a.png").unlink()
    assert ImageFiles.of(edit).size == 2 * (tmp_path / "s.png").stat().st_size
