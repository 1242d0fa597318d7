from pathlib import Path

import pytest
from hub_parts import running_hub

from app.library.libraries import ANONYMOUS, HUB, Choice, HubServices, Order, RightsError, Visitor
from app.services import AppServices
from rewardharness.errors import InputError
from rewardharness.library.hub import HubError, PushOptions, push
from rewardharness.library.opening import open_library
from rewardharness.settings import Settings

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
