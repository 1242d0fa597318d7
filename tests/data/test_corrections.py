import json
from dataclasses import replace
from pathlib import Path

import pytest

from rewardharness.data.source import Dataset
from rewardharness.data.votes import append_correction as append
from rewardharness.data.votes import corrected_labels, corrections_file, read_corrections, unreviewed
from rewardharness.errors import DataError, InputError
from rewardharness.files import append_jsonl
from rewardharness.schema import Example, ImageInput


def example(name: str, preference: str | None = "A", candidates: int = 2) -> Example:
    images = [ImageInput(f"{name}{number}", data=f"{name}{number}".encode()) for number in range(candidates + 1)]
    return Example(name, f"do {name}", images[0], tuple(images[1:]), preference)


def test_the_last_word_about_an_example_counts(tmp_path: Path) -> None:
    file = corrections_file(tmp_path, "a" * 64)
    assert file.parent == tmp_path / "corrections"
    dataset = Dataset.of("data", [example("one"), example("two"), example("three"), example("four")])
    for name, preference in (("one", "B"), ("two", "tie"), ("three", "A"), ("one", "tie")):
        append(file, example(name), preference)
    said = read_corrections(file)
    assert {name: each.changes for name, each in said.items()} == {"one": True, "two": True, "three": False}
    assert corrected_labels(dataset, said) == ({"one": "tie", "two": "tie"}, ())
    assert unreviewed(["four", "one", "three"], said) == ["four"]
    assert [each.preference for each in dataset.examples] == ["A"] * 4, "the data stay as they are"


def test_corrections_of_other_data_are_named_and_not_used(tmp_path: Path) -> None:
    file = tmp_path / "said.jsonl"
    for name in ("gone", "reworded", "relabelled", "odd", "kept"):
        append(file, example(name), "B")
    append_jsonl(file, {"id": "odd", "instruction": "do odd", "label": "A", "preference": "D"})
    reworded = replace(example("reworded"), instruction="do something else")
    dataset = Dataset.of("data", [reworded, example("relabelled", "B"), example("odd"), example("kept")])
    right, problems = corrected_labels(dataset, read_corrections(file))
    assert right == {"kept": "B"}
    assert [problem.split("'")[1] for problem in problems] == ["gone", "reworded", "relabelled", "odd"]


def test_what_is_no_preference_is_not_written(tmp_path: Path) -> None:
    file = tmp_path / "said.jsonl"
    for each, preference in ((example("a"), "C"), (example("b", "A", 3), "tie"), (example("c", None), "A")):
        with pytest.raises(InputError):
            append(file, each, preference)
    assert not file.exists()
    append(file, example("b", "A", 3), "C")
    assert read_corrections(file)["b"].preference == "C"


def test_torn_and_foreign_lines_are_passed_over(tmp_path: Path) -> None:
    file = tmp_path / "said.jsonl"
    append(file, example("a"), "B")
    with file.open("a", encoding="utf-8") as stream:
        stream.write(json.dumps({"id": 3, "preference": None}) + '\n[1]\n{"id": "b", "instr')
    assert list(read_corrections(file)) == ["a"]
    with pytest.raises(DataError, match="does not exist"):
        read_corrections(tmp_path / "nowhere.jsonl")
