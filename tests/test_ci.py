"""What `.ci/run` runs, with a `make` that writes down what it is asked for."""

import os
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SUITES = ("vllm", "trl", "ray", "trackers")
ALL = ["test", "test-slow", *(name for suite in SUITES for name in (f".venv-{suite}/.installed", f"test-{suite}"))]


@pytest.mark.parametrize(
    ("fails", "made", "status"),
    [
        ("nothing", ALL, 0),
        ("test", ALL[:1], 2),
        ("test-slow", ALL[:2], 2),
        ("test-vllm", ALL[:4], 2),
        (".venv-vllm/.installed", [each for each in ALL if each != "test-vllm"], 0),
        (".venv-trl/.installed", [each for each in ALL if each != "test-trl"], 0),
    ],
)
def test_the_suites_against_real_libraries_run_after_the_tests(
    tmp_path: Path, fails: str, made: list[str], status: int
) -> None:
    make = tmp_path / "make"
    make.write_text(f'#!/bin/sh\necho "$1" >> {tmp_path}/made\n[ "$1" != "{fails}" ] || exit 2\n', encoding="utf-8")
    make.chmod(0o755)
    environment = {**os.environ, "PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run([ROOT / ".ci" / "run"], env=environment, capture_output=True, text=True, check=False)
    assert (tmp_path / "made").read_text(encoding="utf-8").split() == made
    assert done.returncode == status
    suite = fails.partition("-")[2].partition("/")[0]
    assert ("SKIPPED test-" + suite in done.stdout) == fails.startswith(".venv")
