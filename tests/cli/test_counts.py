"""Help and completion."""

import pytest

from rewardharness.cli.main import main


def test_help_fits_on_one_screen_and_names_similar_commands(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) <= 45 and max(map(len, lines)) <= 110
    assert main(["benchmrk"]) == 2
    assert "Did you mean benchmark?" in capsys.readouterr().err


@pytest.mark.parametrize("shell", ["bash", "zsh"])
def test_completion_knows_commands_and_options(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--show-completion", shell]) == 0
    script = capsys.readouterr().out
    assert all(word in script for word in ("push-library", "rollback", "--proposals"))
