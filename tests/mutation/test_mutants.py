"""A wrong operator or constant in the core is noticed: some of the listed mutants are tried again."""

import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.slow
@pytest.mark.timeout(600)
def test_mutants_that_tests_noticed_are_noticed_still() -> None:
    command = [sys.executable, str(Path(__file__).with_name("mutants.py")), "check", "12"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
