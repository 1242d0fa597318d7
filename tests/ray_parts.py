"""A real Ray, in processes of an interpreter that has it."""

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

PYTHON = os.environ.get("RH_TEST_RAY_PYTHON", "")
TWO_NODES = Path(__file__).with_name("two_nodes.py")
RAY = [pytest.mark.ray, pytest.mark.timeout(400), pytest.mark.skipif(not PYTHON, reason="`make test-ray` runs it")]
"""Marks of tests that start Ray."""


def call(
    python: str, words: Sequence[object], environ: Mapping[str, str] | None = None
) -> subprocess.CompletedProcess[str]:
    """Run an interpreter on this checkout."""
    places = [str(Path(__file__).parents[1]), *filter(None, [os.environ.get("PYTHONPATH")])]
    variables = {**os.environ, "PYTHONPATH": os.pathsep.join(places), **(environ or {})}
    return subprocess.run([python, *map(str, words)], env=variables, capture_output=True, text=True, timeout=300)


def rh(python: str, *words: object, environ: Mapping[str, str] | None = None) -> subprocess.CompletedProcess[str]:
    """Run a command of `rh`."""
    return call(python, ["-m", "rewardharness", *words], environ)
