from pathlib import Path

import pytest

from app.libraries import BUILTIN, DEFAULT, FOLDER, HUB, Choice, Libraries
from rewardharness.errors import HarnessError, InputError
from rewardharness.settings import Settings


def make(*, local: bool = True, library: str = "") -> Libraries:
    return Libraries(Settings.from_env({"RH_LIBRARY": library}), None, local=local)


def test_folders_can_be_named_only_at_this_computer(hostile_library: Path) -> None:
    here, elsewhere = make(), make(local=False)
    choice = Choice(FOLDER, f" {hostile_library} ")
    assert len(here.open(choice)) == 2
    assert [kind for _, kind in elsewhere.choices()] == [BUILTIN, HUB]
    with pytest.raises(InputError, match="only on the computer"):
        elsewhere.open(choice)


def test_a_folder_named_like_the_builtin_library_is_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    libraries = make()
    with pytest.raises(HarnessError, match="no such folder"):
        libraries.open(Choice(FOLDER, "builtin"))
    with pytest.raises(InputError, match="No folder is named"):
        libraries.open(Choice(FOLDER, "  "))


def test_the_library_of_the_settings_comes_first(hostile_library: Path) -> None:
    libraries = make(library=str(hostile_library), local=False)
    assert [kind for _, kind in libraries.choices()] == [DEFAULT, BUILTIN, HUB]
    assert len(libraries.open(Choice(DEFAULT))) == 2
    assert libraries.name(Choice(DEFAULT)) == "the Library 'library'"


def test_checking_and_comparing_libraries(hostile_library: Path) -> None:
    libraries = make()
    assert not [problem for problem in libraries.check(Choice()) if problem.severity == "error"]
    found = libraries.diff(Choice(), Choice(FOLDER, str(hostile_library)))
    assert [entry.name for entry in found.added] == ["evil-skill", "evil-tool"] and found.removed
