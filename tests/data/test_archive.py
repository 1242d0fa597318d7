import zipfile
from pathlib import Path
from typing import Any

import pytest
from drawn_pairs import draw_pairs

from rewardharness.data import opening
from rewardharness.data.opening import open_data, unpack
from rewardharness.errors import DataError
from rewardharness.settings import Settings


def pack(path: Path, files: dict[str, bytes]) -> Path:
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as packed:
        for name, content in files.items():
            packed.writestr(name, content)
    return path


@pytest.mark.parametrize("top", ["", "pairs/"])
def test_a_zip_of_a_folder_is_that_folder(tmp_path: Path, top: str) -> None:
    folder = tmp_path / "pairs"
    draw_pairs(folder, 3)
    files = {f"{top}{each.relative_to(folder)}": each.read_bytes() for each in folder.rglob("*") if each.is_file()}
    path = pack(tmp_path / "pairs.zip", files | ({"__MACOSX/._x": b"x"} if top else {}))
    settings = Settings.from_env({"RH_HOME": str(tmp_path / "home")})
    once, again = (open_data(str(path), settings) for _ in range(2))
    assert [each.id for each in once.examples] == [each.id for each in open_data(str(folder), settings).examples]
    assert once.digest == again.digest == open_data(str(folder), settings).digest


@pytest.mark.parametrize("name", ["../evil.png", "/evil.png", "a/../../evil.png", "..\\evil.png", "C:/evil.png", "."])
def test_nothing_leaves_the_folder(tmp_path: Path, name: str) -> None:
    path = pack(tmp_path / "evil.zip", {name: b"x"})
    with pytest.raises(DataError, match=r"outside of its folder|name that no file"):
        unpack(path, tmp_path / "unpacked")
    assert not list((tmp_path / "unpacked").iterdir()) and not list(tmp_path.rglob("evil.png"))


def test_a_bomb_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(DataError, match="too large"):
        unpack(pack(tmp_path / "bomb.zip", {"zeros": bytes(10 << 20)}), tmp_path / "unpacked")
    monkeypatch.setattr(opening, "MAX_FILES", 2)
    with pytest.raises(DataError, match="too large"):
        unpack(pack(tmp_path / "many.zip", {str(number): b"x" for number in range(3)}), tmp_path / "unpacked")


def test_what_is_no_zip_is_named(tmp_path: Path) -> None:
    path = tmp_path / "pairs.zip"
    path.write_bytes(b"no zip at all")
    with pytest.raises(DataError, match=r"pairs\.zip cannot be unpacked") as caught:
        open_data(str(path), Settings.from_env({"RH_HOME": str(tmp_path)}))
    assert caught.value.next_step


@pytest.mark.parametrize(
    ("names", "problem"),
    [
        (["a.png", "a.png/x.png"], "a file and a folder of one name: a.png"),
        (["b/c/d.png", "b/c"], "a file and a folder of one name: b/c"),
        (["a.png", "b/../a.png"], "outside"),
        (["b/a.png", "b\\a.png"], "two files of one name"),
        (["b/a.png", "b/./a.png"], "two files of one name"),
        (["a.png", "x" * 252 + ".png"], "no file can have"),
        (["a.png", "ü" * 126 + ".png"], "no file can have"),
        (["a.png", "."], "no file can have"),
        (["a.png", "b/" * 500 + "a.png"], "no file can have"),
    ],
)
def test_names_are_checked_first(
    names: list[str], problem: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "evil.zip"
    with zipfile.ZipFile(path, "w") as packed:
        for name in names:
            packed.writestr(zipfile.ZipInfo(name), b"x")
    monkeypatch.setattr(opening.shutil, "copyfileobj", None)
    with pytest.raises(DataError, match=problem):
        unpack(path, tmp_path / "unpacked")
    assert not list((tmp_path / "unpacked").iterdir())


@pytest.mark.parametrize("error", [None, OSError(28, "No space left on device", "/private/place"), KeyboardInterrupt()])
def test_nothing_remains_of_a_bad_archive(error: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = pack(tmp_path / "evil.zip", {"a.png": bytes(1000), "b.png": b"picture" * 100})
    data = path.read_bytes()
    begin = data.index(b"b.png") + len(b"b.png")
    path.write_bytes(data[:begin] + b"\xff" * 8 + data[begin + 8 :])  # the last member is no deflate stream

    def fail(*_: object) -> None:
        assert error is not None
        raise error

    if error is not None:
        monkeypatch.setattr(opening.shutil, "copyfileobj", fail)
    with pytest.raises(KeyboardInterrupt if isinstance(error, KeyboardInterrupt) else DataError) as caught:
        unpack(path, tmp_path / "unpacked")
    assert not list((tmp_path / "unpacked").iterdir()) and "/private/place" not in str(caught.value)
