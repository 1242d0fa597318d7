import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parents[1]))  # model_server

from commands import Rh, Shown

from rewardharness.cli.main import main


@pytest.fixture
def rh(capsys: pytest.CaptureFixture[str]) -> Rh:
    """Run a command and return what it prints."""

    def run(*words: object, status: int = 0) -> Shown:
        capsys.readouterr()
        found = main([str(word) for word in words])
        shown = Shown(*capsys.readouterr())
        assert found == status, shown.err
        assert "Traceback" not in shown.err
        return shown

    return run
