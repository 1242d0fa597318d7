from pathlib import Path

import pytest

from rewardharness.settings import Settings


@pytest.fixture
def settings(tmp_path: Path) -> Settings:
    return Settings.from_env({"RH_HOME": str(tmp_path / "home")})
