import shutil
from copy import deepcopy
from pathlib import Path

import pytest
from hub_parts import REPO, Hub, running_hub
from hub_store import Repository
from library_samples import write_sample

from rewardharness.library.hub import Access, pull, push


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of the sample Library."""
    return write_sample(tmp_path / "sample")


@pytest.fixture(scope="session")
def published(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Repository, Path]:
    """The sample after its first push: its folder, what the Hub has of it, and a cache that has it too."""
    scratch = tmp_path_factory.mktemp("published")
    with pytest.MonkeyPatch.context() as patch, running_hub(scratch, patch) as hub:
        push(folder := write_sample(scratch / "sample"), REPO, access=hub.user("ann"))
        pull(REPO, access=hub.user("ann"))
        return folder, hub.repo, scratch / "cache-ann"


@pytest.fixture
def ann(hub: Hub, folder: Path, published: tuple[Path, Repository, Path]) -> Access:
    """Access of the user who has published the sample."""
    original, repo, cache = published
    shutil.copytree(original, folder, dirs_exist_ok=True)
    shutil.copytree(cache, hub.scratch / cache.name, symlinks=True)
    hub.server.store.repos["models", REPO] = deepcopy(repo)
    return hub.user("ann")
