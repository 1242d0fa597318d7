import re
from importlib.resources import files

import pytest

from rewardharness.prompts import LANGUAGES, Language, in_language, load, sections, version
from rewardharness.task import IMAGE_EDIT, TASKS, TEXT

FOLDER = files("rewardharness.prompts")
NAMES = sorted(file.name[:-3] for file in FOLDER.iterdir() if file.name.endswith(".md"))
BARE = {"initialize_from", "response"}
"""Prompts that are tags around a value in every language."""


def texts(name: str) -> list[str]:
    return [(folder / f"{name}.md").read_text(encoding="utf-8") for folder in (FOLDER, FOLDER / "zh")]


@pytest.mark.parametrize("language", LANGUAGES)
def test_every_prompt_is_filled_in_by_exactly_its_placeholders(language: Language) -> None:
    for name in NAMES:
        wanted = set(re.findall(r"\{\{([a-z_]+)\}\}", texts(name)[0]))
        with in_language(language):
            text = load(name, **{key: f"<{key}>" for key in wanted})
        assert not re.search(r"\{\{[a-z_]+\}\}", text)
        assert all(f"<{key}>" in text for key in wanted)


def test_both_languages_have_the_same_prompts_with_the_same_structure() -> None:
    assert sorted(file.name[:-3] for file in (FOLDER / "zh").iterdir()) == NAMES
    for name in NAMES:
        english, chinese = texts(name)
        for pattern in (r"\{\{[a-z_]+\}\}", r"</?[a-z]+>", r'"[a-z_]+":', r"^## [a-z_]+$"):
            parts = [sorted(re.findall(pattern, text, re.MULTILINE)) for text in (english, chinese)]
            assert parts[0] == parts[1], (name, pattern)
        assert english[:1].isspace() == chinese[:1].isspace()
        assert name in BARE or re.search("[\u4e00-\u9fff]{2}", chinese), name
        assert max(map(len, chinese.splitlines())) <= 150


def test_the_language_is_that_of_the_context() -> None:
    english = load("no_ties"), version("judge")
    with in_language("zh"):
        chinese = load("no_ties"), version("judge")
    assert chinese[0].startswith("请") and chinese[1] != english[1]
    assert (load("no_ties"), version("judge")) == english


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
