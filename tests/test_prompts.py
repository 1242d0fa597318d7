import re
from importlib.resources import files

import pytest

from rewardharness.prompts import load, sections, version
from rewardharness.task import IMAGE_EDIT, TASKS, TEXT


def test_every_prompt_is_filled_in_by_exactly_its_placeholders() -> None:
    for file in files("rewardharness.prompts").iterdir():
        if file.name.endswith(".md"):
            wanted = set(re.findall(r"\{\{([a-z_]+)\}\}", file.read_text(encoding="utf-8")))
            text = load(file.name[:-3], **{name: f"<{name}>" for name in wanted})
            assert not re.search(r"\{\{[a-z_]+\}\}", text)
            assert all(f"<{name}>" in text for name in wanted)


def test_a_missing_or_unknown_value_is_an_error() -> None:
    with pytest.raises(ValueError, match="takes"):
        load("question", instruction="x")
    with pytest.raises(ValueError, match="takes"):
        load("question", IMAGE_EDIT.wording, instruction="x", labels="A", extra="y")


def test_values_are_not_looked_up_again() -> None:
    assert "{{labels}}" in load("question", IMAGE_EDIT.wording, instruction="{{labels}}", labels="A, B")


def test_the_version_follows_the_wording() -> None:
    assert version("judge") != version("question")
    assert len(version("judge", "question")) == 64


def test_every_task_has_the_same_phrases_and_they_fill_in_the_prompts() -> None:
    keys = {name: set(task.wording) for name, task in TASKS.items()}
    assert keys["image-edit"] == keys["text"] == keys["video-edit"]
    assert "source image" in load("pointwise", IMAGE_EDIT.wording, notes="")
    assert "image" not in load("pointwise", TEXT.wording, notes="")
    assert sections("task_text")["one"] == "response"
