import errno
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from rewardharness.cli.main import main
from rewardharness.errors import DataError, describe
from rewardharness.files import (
    append_jsonl,
    content_id,
    hold,
    is_held,
    read_json,
    read_jsonl,
    read_text,
    replace_folder,
    sha256,
    sha256_file,
    write_bytes,
    write_json,
    write_once,
    write_text,
)


def test_a_failed_write_leaves_the_old_file_and_no_rubbish(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "a.txt"
    write_text(file, "old")

    def broken(source: object, target: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", broken)
    with pytest.raises(OSError, match="space"):
        write_text(file, "new")
    assert read_text(file) == "old" and [each.name for each in tmp_path.iterdir()] == ["a.txt"]


def test_an_error_names_the_file_that_was_meant_and_the_next_step(tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"")
    (tmp_path / "folder").mkdir()
    inside = tmp_path / "file" / "x.json"
    for write, path in ((write_bytes, inside), (write_once, inside), (write_bytes, tmp_path / "folder")):
        with pytest.raises(OSError) as caught:
            write(path, b"{}")
        said = describe(caught.value)
        assert said.detail.startswith(f"{path}: ") and ".tmp" not in said.detail and said.next_step
    assert sorted(each.name for each in tmp_path.iterdir()) == ["file", "folder"]


@pytest.mark.parametrize("write", [write_bytes, write_once, lambda path, data: replace_folder(path, {"x": data})])
def test_what_killed_writers_left_goes_with_the_first_write(write: Callable[[Path, bytes], object], tmp_path: Path):
    kill = (
        "import os, sys; from rewardharness import files; os.replace = os.rename = os.link = lambda *_: os._exit(9)\n"
    )
    kill += "files.write_bytes(files.Path(sys.argv[1]) / 'a.json', b'part')"
    assert subprocess.run([sys.executable, "-c", kill, str(tmp_path)], check=False).returncode == 9
    [left] = tmp_path.iterdir()
    (tmp_path / ".library.abcd1234.tmp" / "skills").mkdir(parents=True)
    (tmp_path / ".fresh.abcd1234.tmp").touch()
    others = [".notes.tmp", ".a.short.tmp", "b.abcd1234.tmp", ".a.ABCD1234.tmp"]
    for name in others:
        (tmp_path / name).touch()
    for name in (left.name, ".library.abcd1234.tmp", *others):
        os.utime(tmp_path / name, (0, 0))
    write(tmp_path / "new", b"whole")
    assert {each.name for each in tmp_path.iterdir()} == {"new", ".fresh.abcd1234.tmp", *others}


def test_jsonl_survives_a_torn_line(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    append_jsonl(file, {"n": 1})
    with file.open("ab") as stream:
        stream.write(b'{"n": 2')
    append_jsonl(file, {"n": "ä"})
    assert list(read_jsonl(file)) == [(1, {"n": 1}), (3, {"n": "ä"})]
    assert list(read_jsonl(tmp_path / "none.jsonl")) == []


def test_content_id_is_over_the_meaning() -> None:
    assert content_id({"a": 1, "b": [2]}) == content_id({"b": [2], "a": 1})
    assert content_id({"a": 1}) != content_id({"a": 2})


def test_unreadable_files_are_named(tmp_path: Path) -> None:
    (tmp_path / "latin").write_bytes(b"\xe9")
    (tmp_path / "bad.json").write_text("{", encoding="utf-8")
    for call, name in ((read_text, "latin"), (read_text, "gone"), (read_json, "bad.json")):
        with pytest.raises(DataError, match=name):
            call(tmp_path / name)
    write_json(tmp_path / "good.json", {"a": 1})
    assert read_json(tmp_path / "good.json") == {"a": 1}


@pytest.mark.parametrize("links", [True, False])
def test_what_is_written_once_stays_and_is_whole(links: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*names: object) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    if not links:
        monkeypatch.setattr(os, "link", refuse)
    file = tmp_path / "new" / "record.json"
    assert write_once(file, b"first") and not write_once(file, b"second")
    assert file.read_bytes() == b"first" and [each.name for each in file.parent.iterdir()] == ["record.json"]


def test_a_file_is_hashed_as_its_bytes_are(tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"abc" * 1000)
    assert sha256_file(tmp_path / "f") == sha256(b"abc" * 1000)


def test_whether_a_file_is_held_can_be_asked_without_writing(tmp_path: Path) -> None:
    lock = tmp_path / "lock"
    assert not is_held(lock) and not lock.exists()
    handle = hold(lock)
    assert is_held(lock)
    os.close(handle)
    assert not is_held(lock)


@pytest.mark.parametrize("words", [("library", "check"), ("library", "show"), ("data", "show"), ("score",)])
def test_the_home_of_an_unknown_user_is_no_internal_error(
    words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*words, "~no-such-user/x"]) == 1
    assert "~no-such-user/x" in "".join(capsys.readouterr())
