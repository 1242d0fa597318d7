"""Files of rubric presets as Libraries: our form, and the three of the other project."""

import json
from pathlib import Path
from typing import Any

import pytest

from rewardharness.errors import LibraryError
from rewardharness.library.check import check_folder
from rewardharness.library.opening import open_library
from rewardharness.library.store import EMPTY, Library
from rewardharness.library.triggers import instruction_trigger

RUBRIC = {
    "rubric_id": "r1",
    "criteria": [
        {"criterion_id": "On topic", "text": "It does what was asked.", "weight": 2}
        | {"check_points": ["object", "color"]},
        {"criterion_id": "clean", "text": "No artifacts.", "weight": 1.0, "criterion_type": "quality"},
    ],
    "grading_protocol": {"num_votes": 3},
}
OTHER = {"criteria": [{"criterion_id": "fur", "text": "The fur is real."}]}
INSTRUCTIONS = {"p1": "Make the cat red, please (not blue/green).", "p2": "x" * 300, "p3": "另一个提示"}
SHAPES: list[dict[str, Any]] = [
    {"best_rubrics": [{"prompt_id": "__default__", "rubric": RUBRIC, "score": 0.7}, {"prompt_id": "p1", **OTHER}]},
    {"rubrics": {"__default__": RUBRIC, "p1": OTHER}},
    {"rubrics": [{"prompt_id": "__default__", "rubric": RUBRIC}, {"prompt_id": "p1", "rubric": OTHER}]},
    {"__default__": RUBRIC, "p1": OTHER},
]


def write(folder: Path, document: Any, name: str = "presets.json") -> Path:
    path = folder / name
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def test_every_shape_gives_the_same_library(tmp_path: Path) -> None:
    files = [*((each, "presets.json") for each in SHAPES), (SHAPES[0], "presets.yaml")]
    library, *others = (open_library(write(tmp_path, *file), INSTRUCTIONS) for file in files)
    assert {other.id for other in others} == {library.id}
    assert [entry.name for entry in library.entries] == ["preset", "preset-p1"]
    general, special = library.entries
    assert general.rubric is not None and [item.id for item in general.rubric.criteria] == ["On-topic", "clean"]
    assert general.rubric.criteria[0].text == "It does what was asked. Check: object; color."
    assert general.rubric.weights() == {"On-topic": pytest.approx(2 / 3), "clean": pytest.approx(1 / 3)}
    assert general.triggers[0].always
    [trigger] = special.triggers
    assert trigger.matches(INSTRUCTIONS["p1"]) and not trigger.matches("Make the dog red.")
    library.save(tmp_path / "library")
    assert Library.load(tmp_path / "library").id == library.id
    assert not [each for each in check_folder(tmp_path / "library") if each.severity == "error"]


def test_a_file_of_criteria_is_one_skill(tmp_path: Path) -> None:
    path = tmp_path / "criteria.yaml"
    path.write_text("criteria:\n  - id: sharp\n    text: It is sharp.\n    measure: sharpness\n    scale: [1, 4]\n")
    assert open_library("empty") == EMPTY
    [entry] = open_library(str(path)).entries
    assert entry.rubric is not None and entry.rubric.criteria[0].measure == "sharpness"


@pytest.mark.parametrize("prompt", sorted(INSTRUCTIONS))
def test_the_trigger_of_an_instruction_matches_it(prompt: str) -> None:
    instruction = INSTRUCTIONS[prompt]
    trigger = instruction_trigger(instruction)
    assert trigger.matches(instruction) and trigger.matches(f"  {instruction}\n")
    is_long = prompt == "p2"  # which match by their beginning
    assert bool(trigger.matches(f"{instruction} And more.")) == is_long


@pytest.mark.parametrize(
    ("document", "message"),
    [
        ([], "not a mapping"),
        ({}, "no rubrics"),
        ({"best_rubrics": [{"rubric": RUBRIC}]}, "1 rubrics and 0 different prompt ids"),
        ({"best_rubrics": [{"prompt_id": "a", "rubric": RUBRIC}] * 2}, "2 rubrics and 1 different"),
        ({"__default__": {"criteria": []}}, "not a non-empty list"),
        ({"__default__": "be good"}, "not a non-empty list"),
        ({"__default__": {"criteria": [{"criterion_id": "a"}]}}, "there is no `text`"),
        ({"nobody": RUBRIC}, "instruction is unknown"),
    ],
)
def test_a_wrong_file_is_one_clear_error(tmp_path: Path, document: Any, message: str) -> None:
    with pytest.raises(LibraryError, match=message):
        open_library(write(tmp_path, document), INSTRUCTIONS)
    with pytest.raises(LibraryError, match="instruction is unknown"):
        open_library(write(tmp_path, SHAPES[1]))  # rubrics of single prompts need data
    (tmp_path / "x.json").write_text("{oops")
    with pytest.raises(LibraryError, match=r"x\.json cannot be read"):
        open_library(tmp_path / "x.json")
