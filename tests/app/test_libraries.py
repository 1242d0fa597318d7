"""Libraries that visitors choose, here and on the Hub."""

from pathlib import Path

import pytest
from hostile import read_own
from hub_parts import running_hub

from app.library.libraries import (
    ANONYMOUS,
    BUILTIN,
    DEFAULT,
    FOLDER,
    HUB,
    Choice,
    HubServices,
    Libraries,
    Order,
    RightsError,
    Visitor,
)
from app.library.views import summary
from app.services import AppServices
from rewardharness.errors import HarnessError, InputError
from rewardharness.library.diff import diff_libraries
from rewardharness.library.hub import HubError, PushOptions, push
from rewardharness.library.new import new_library
from rewardharness.library.opening import open_library
from rewardharness.library.store import EMPTY
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
    with pytest.raises(HarnessError, match="folder does not exist"):
        libraries.open(Choice(FOLDER, "builtin"))
    with pytest.raises(InputError, match="The folder is missing"):
        libraries.open(Choice(FOLDER, "  "))


def test_a_field_that_nobody_has_touched_is_empty() -> None:
    libraries = make()
    for kind in (FOLDER, HUB):
        with pytest.raises(InputError, match="is missing"):
            libraries.open(Choice(kind, None, None))  # type: ignore[arg-type]  # as Gradio hands it over


def test_the_library_of_the_settings_comes_first(hostile_library: Path) -> None:
    libraries = make(library=str(hostile_library), local=False)
    assert [kind for _, kind in libraries.choices()] == [DEFAULT, BUILTIN, HUB]
    assert len(libraries.open(Choice(DEFAULT))) == 2


def test_a_library_is_called_as_it_calls_itself(tmp_path: Path) -> None:
    here, place = make(), tmp_path / "library"
    choice = Choice(FOLDER, str(place))
    assert here.name(choice) == "the Library 'library'", "it is not there yet"
    new_library(place, "my-library")
    assert here.name(choice) == "the Library 'my-library'"
    assert make(library=str(place)).choices()[0] == ("From RH_LIBRARY: my-library", DEFAULT)
    assert "\n# my-library\n" in here.card(choice)
    EMPTY.save(tmp_path / "unnamed")
    assert here.name(Choice(FOLDER, str(tmp_path / "unnamed"))) == "the Library 'unnamed'"


def test_what_grew_from_the_builtin_library_does_not_go_by_its_name(tmp_path: Path) -> None:
    open_library("builtin").save(tmp_path / "grown")
    assert make().name(Choice(FOLDER, str(tmp_path / "grown"))) == "the Library 'grown'"
    assert "\n# your-library\n" in make().card(Choice())


def test_a_foreign_name_stays_one_line_of_text(hostile_library: Path) -> None:
    libraries, choice = make(), Choice(FOLDER, str(hostile_library))
    name = libraries.name(choice)
    assert "<script>" in name and "\n" not in name and len(name) < 120 and "https://evil" not in name
    read_own(summary(libraries.open(choice), name))
    title = next(line for line in libraries.card(choice).splitlines() if line.startswith("# "))
    assert "script" in title and not set("<>[]") & set(title)


def test_checking_and_comparing_libraries(hostile_library: Path) -> None:
    libraries = make()
    assert not [problem for problem in libraries.check(Choice()) if problem.severity == "error"]
    found = diff_libraries(libraries.open(Choice()), libraries.open(Choice(FOLDER, str(hostile_library))))
    assert [entry.name for entry in found.added] == ["evil-skill", "evil-tool"] and found.removed


REPO = "ann/library"


def test_strangers_share_neither_tokens_nor_copies(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with running_hub(tmp_path, monkeypatch) as hub:
        owner = hub.user("ann")
        commit = push(open_library("builtin"), REPO, PushOptions(private=True), access=owner).commit
        env = {"HF_ENDPOINT": hub.server.url, "HF_HUB_CACHE": str(owner.cache), "RH_HOME": str(tmp_path)}
        settings = Settings.from_env({**env, "SYSTEM": "spaces", "OAUTH_CLIENT_ID": "app"})
        monkeypatch.setenv("HF_TOKEN", str(owner.token))
        services = HubServices(settings, tmp_path / "scratch", local=False)
        ann = Visitor("ann", str(owner.token))
        assert services.load(f"{REPO}@{commit}", ann).pulled.version in {None, "v0.1.0"}
        for visitor in (ANONYMOUS, Visitor("bob", hub.server.login("bob"))):
            with pytest.raises(HubError, match="There is no ann/library"):
                services.load(f"{REPO}@{commit}", visitor)
        assert str(owner.token) not in repr(ann) + repr(services.access(ann))
        order = Order(open_library("builtin"), "ann/mine", PushOptions())
        for visitor in (ANONYMOUS, Visitor("bob", hub.server.login("bob")), Visitor("", str(owner.token))):
            with pytest.raises(RightsError):
                services.preview(order, visitor)
        with pytest.raises(RightsError, match="Folders"):
            services.preview(Order(tmp_path, "ann/mine", PushOptions()), ann)


def test_what_is_loaded_is_what_is_typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with running_hub(tmp_path, monkeypatch) as hub:
        access = hub.user("ann")
        push(open_library("builtin"), REPO, access=access)
        settings = Settings.from_env({"HF_ENDPOINT": hub.server.url, "RH_HOME": str(tmp_path), "RH_LIBRARY": REPO})
        services = AppServices(settings, tmp_path / "scratch", local=False)
        loaded = services.hub.load(REPO, ANONYMOUS)
        choice = Choice(HUB, "", REPO, loaded)
        assert services.libraries.open(choice).id == open_library("builtin").id
        assert services.libraries.card(choice).startswith("---")
        assert services.libraries.name(choice) == "the Library 'ann/library@v0.1.0'"
        assert not [each for each in services.libraries.check(choice) if each.severity == "error"]
        with pytest.raises(InputError, match="is not loaded yet"):
            services.libraries.open(Choice(HUB, "", "ann/other", loaded))
        assert services.libraries.choices()[0][0] == "From RH_LIBRARY: ann/library"
