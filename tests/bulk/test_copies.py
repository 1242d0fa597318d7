"""Copies of the best candidates: kept to what was chosen last, and never at the cost of files of others."""

import json
from pathlib import Path

import pytest

from rewardharness.bulk.filtering import MANIFEST, check_copies, copy_best
from rewardharness.errors import DataError, InputError


@pytest.fixture
def images(tmp_path: Path) -> dict[str, Path]:
    found = {}
    for name in "abc":
        found[f"{name}.png"] = tmp_path / f"{name}.png"
        found[f"{name}.png"].write_bytes(name.encode())
    return found


def held(folder: Path) -> dict[str, bytes]:
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.name != MANIFEST}


def test_a_folder_holds_the_copies_of_the_last_run_alone(tmp_path: Path, images: dict[str, Path]) -> None:
    folder = tmp_path / "best"
    copy_best({"one.png": images["a.png"], "two.png": images["b.png"]}, folder)
    copy_best({"two.png": images["c.png"], "three.png": images["b.png"]}, folder)
    assert held(folder) == {"two.png": b"c", "three.png": b"b"}
    assert sorted(json.loads((folder / MANIFEST).read_text(encoding="utf-8"))["files"]) == ["three.png", "two.png"]
    copy_best({}, folder)
    assert held(folder) == {}


def test_files_of_others_are_left_alone(tmp_path: Path, images: dict[str, Path]) -> None:
    folder = tmp_path / "best"
    folder.mkdir()
    (folder / "mine.png").write_bytes(b"mine")
    with pytest.raises(InputError, match="holds files that --copy-best did not put there"):
        check_copies(folder)
    (folder / "mine.png").unlink()
    copy_best({"one.png": images["a.png"], "two.png": images["b.png"]}, folder)
    (folder / "mine.png").write_bytes(b"mine")
    (folder / "one.png").write_bytes(b"changed")
    before = held(folder)
    for name in ("mine.png", "one.png"):
        with pytest.raises(InputError, match=f"did not put there: {name}; nothing was copied"):
            copy_best({name: images["c.png"]}, folder)
        assert held(folder) == before
    copy_best({"three.png": images["c.png"]}, folder)
    assert held(folder) == {"mine.png": b"mine", "one.png": b"changed", "three.png": b"c"}


def test_copies_that_were_broken_off_are_completed(tmp_path: Path, images: dict[str, Path]) -> None:
    folder = tmp_path / "best"
    copy_best({"one.png": images["a.png"], "two.png": images["b.png"]}, folder)
    chosen = {"one.png": images["c.png"], "three.png": images["a.png"]}
    images["a.png"].unlink()
    with pytest.raises(DataError, match="cannot be copied"):
        copy_best(chosen, folder)
    assert held(folder) == {"one.png": b"a", "two.png": b"b"}, "nothing was begun"
    stated = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    stated["files"]["three.png"] = ["0" * 64]  # as a killed run leaves it: named, and not copied yet
    (folder / MANIFEST).write_text(json.dumps(stated), encoding="utf-8")
    copy_best({"one.png": images["c.png"]}, folder)
    assert held(folder) == {"one.png": b"c"}


@pytest.mark.parametrize("text", ["[]", "{}", '{"made_by": "rh data rank --copy-best", "files": {"../x": []}}'])
def test_a_list_that_is_not_ours_is_refused(tmp_path: Path, images: dict[str, Path], text: str) -> None:
    (tmp_path / MANIFEST).write_text(text, encoding="utf-8")
    with pytest.raises(InputError, match="is not a manifest of --copy-best"):
        copy_best({"one.png": images["a.png"]}, tmp_path)
