"""Pipelines of diffusers as editors."""

import asyncio
import importlib.util
import os
import subprocess
from pathlib import Path

import numpy as np
import pytest

from rewardharness.editors.editor import EditTask, open_editor
from rewardharness.errors import InputError, MissingPackageError
from rewardharness.schema import ImageInput

PYTHON = os.environ.get("RH_TEST_TRL_PYTHON", "")
COMMIT = "0123456789abcdef" * 2 + "01234567"


@pytest.mark.parametrize("place", ["org/name", "org/name@main", "no-folder", "../up", f"org/name/more@{COMMIT}"])
def test_a_pipeline_needs_a_commit_or_a_folder_that_is_one(place: str) -> None:
    with pytest.raises(InputError, match="names no pipeline"):
        open_editor(f"diffusers:{place}")


def test_a_folder_has_another_identity_after_a_change(tmp_path: Path) -> None:
    index = tmp_path / "model_index.json"
    index.write_text("{}")
    before = open_editor(f"diffusers:{tmp_path}").identity
    index.write_text('{"a": 1}')
    assert open_editor(f"diffusers:{tmp_path}").identity != before
    assert open_editor(f"diffusers:org/name@{COMMIT}").name == "name"


@pytest.mark.skipif(importlib.util.find_spec("diffusers") is not None, reason="diffusers is installed")
def test_without_the_extra_the_error_names_it(tmp_path: Path) -> None:
    (tmp_path / "model_index.json").write_text("{}")
    editor = open_editor(f"diffusers:{tmp_path}")
    with pytest.raises(MissingPackageError, match="editors"):
        asyncio.run(editor.edit(EditTask("a", ImageInput.of(np.zeros((8, 8, 3), np.uint8)), "make it red")))


@pytest.mark.trl
@pytest.mark.skipif(not PYTHON, reason="`make test-trl` runs it with torch and diffusers installed")
def test_a_pipeline_makes_the_same_edit_for_the_same_seed(tmp_path: Path) -> None:
    script = Path(__file__).with_name("tiny_pipeline.py")
    done = subprocess.run([PYTHON, script, tmp_path / "made"], capture_output=True, text=True, timeout=600, check=False)
    assert done.returncode == 0 and "pipeline made the same edit twice" in done.stdout, done.stderr
