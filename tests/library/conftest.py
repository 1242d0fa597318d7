from pathlib import Path

import pytest
from hub_parts import REPO, Hub
from library_samples import write_sample

from rewardharness.library.hub import Access, push


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of the sample Library."""
    return write_sample(tmp_path / "sample")


@pytest.fixture
def ann(hub: Hub, folder: Path) -> Access:
    """Access of the user who has published the sample."""
    access = hub.user("ann")
    push(folder, REPO, access=access)
    return access
