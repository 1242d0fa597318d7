import json
from dataclasses import replace

import pytest
from bulk_parts import INSTRUCTION, folders, pair_rules, picture

from rewardharness import files
from rewardharness.bulk.preference_data import build, repeated_scores, without_duplicates
from rewardharness.bulk.samples import read_samples
from rewardharness.data.source import Dataset
from rewardharness.errors import DataError
from rewardharness.schema import Example, ImageInput
from rewardharness.settings import Settings

pytest.importorskip("datasets")
MADE_BY = {"name": "n", "judge": "j", "protocol": "p", "library_id": "l", "gate": "It was tried twice."}


def samples(tmp_path, edits=4, candidates=4) -> Dataset:
    return read_samples(str(folders(tmp_path / "samples", edits, candidates)), Settings.from_env())


def lines(dataset: Dataset, reward, tags=("@0", "@1")) -> dict:
    """Results as a run keeps them: `reward(edit, candidate, repeat)`, None where the judgment failed."""
    found = {}
    for example in dataset.examples:
        for index in range(len(example.candidates)):
            for repeat, tag in enumerate(tags):
                value = reward(example, index, repeat)
                name = f"{example.id}#{index}{tag}"
                failed = {"code": "timeout", "message": "late"} if value is None else None
                scores = {"A": {"instruction": None, "quality": None, "reward": value}}
                found[name] = {"id": name, "scores": scores if failed is None else {}, "failure": failed}
    return found


TWICE = pair_rules(repeats=2, holdout=0.25)


def made(tmp_path, dataset, reward, rules=TWICE):
    scores = repeated_scores(dataset, lines(dataset, reward), ("@0", "@1"))
    return build(dataset, scores, rules, MADE_BY, tmp_path / "out")


def rows(tmp_path, name) -> list[dict]:
    from datasets import Dataset as Table

    file = tmp_path / "out" / "data" / f"{name}.parquet"
    return Table.from_parquet(str(file), cache_dir=str(tmp_path / "c")).to_list()


def by_place(example, index, repeat):
    return 0.2 * (index + 1) + 0.01 * repeat


def test_pairs_with_images_numbers_and_a_split_by_source(tmp_path):
    manifest = made(tmp_path, samples(tmp_path), by_place)
    train, holdout = rows(tmp_path, "train"), rows(tmp_path, "holdout")
    assert manifest["pairs"] == {"train": len(train), "holdout": len(holdout)} and len(train) + len(holdout) == 16
    assert not {row["edit_id"] for row in train} & {row["edit_id"] for row in holdout}
    first = train[0]
    assert first["chosen_reward"] > first["rejected_reward"] and first["kind"] == "extreme"
    assert first["margin"] == pytest.approx(first["chosen_reward"] - first["rejected_reward"])
    assert first["chosen"] != first["rejected"] and first["prompt"][0]["content"].endswith(INSTRUCTION)
    assert first["chosen_image"]["bytes"].startswith(b"\x89PNG")


def test_a_source_that_two_edits_share_is_in_one_split(tmp_path):
    dataset = samples(tmp_path)
    shared = tuple(replace(example, source=dataset.examples[0].source, source_id="") for example in dataset.examples)
    other = tuple(replace(example, id=example.id + "-other", source_id="") for example in dataset.examples[1:])
    made(tmp_path, Dataset.of("shared", (*shared, *other)), by_place)
    held = {row["edit_id"] for row in rows(tmp_path, "holdout")}
    first = {example.id for example in shared}
    assert held and (first <= held or not first & held)


def test_failed_judgments_make_no_pair_and_are_counted(tmp_path):
    manifest = made(tmp_path, samples(tmp_path), lambda *at: None if at[1] == 3 else by_place(*at))
    assert manifest["candidates"] == 16 and manifest["candidates_judged"] == 12
    assert manifest["dropped"]["too_few_judgments"] == 4
    assert max(row["chosen_reward"] for row in rows(tmp_path, "train")) < 0.7
    scores = [json.loads(line) for line in (tmp_path / "out" / "scores.jsonl").read_text("utf-8").splitlines()]
    assert [each["rewards"] for each in scores if each["candidate"] == 3] == [[None, None]] * 4
    assert scores[3]["reasons"] == ["timeout"]


def test_nothing_to_learn_from_writes_nothing(tmp_path):
    with pytest.raises(DataError, match=r"No training pair remains. Dropped pairs by reason: 16 level"):
        made(tmp_path, samples(tmp_path), lambda *at: 0.5)
    assert not (tmp_path / "out").exists()


def test_one_run_has_no_more_than_its_share(tmp_path):
    dataset = samples(tmp_path, edits=8)
    runs = [replace(each, category="a" if number < 6 else "b") for number, each in enumerate(dataset.examples)]
    rules = pair_rules(repeats=2, holdout=0.0, run_share=0.5)
    manifest = made(tmp_path, Dataset.of("runs", runs), by_place, rules)
    count = [sum(row["run"] == name for row in rows(tmp_path, "train")) for name in "ab"]
    assert count == [8, 8] and manifest["dropped"]["run_share"] == 16


def test_the_same_image_twice_is_one_candidate(tmp_path):
    image = ImageInput("x", picture(tmp_path / "x.png", 3))
    again, other = ImageInput("y", picture(tmp_path / "y.png", 3)), ImageInput("z", picture(tmp_path / "z.png", 200))
    dataset, left_out = without_duplicates(Dataset.of("d", [Example("e", "i", image, (image, again, other))]))
    assert left_out == 1 and [each.name for each in dataset.examples[0].candidates] == ["x", "z"]


def test_a_folder_of_something_else_is_left_alone(tmp_path):
    files.write_text(tmp_path / "out" / "mine.txt", "mine")
    with pytest.raises(DataError, match="holds other files"):
        made(tmp_path, samples(tmp_path), by_place)
    assert (tmp_path / "out" / "mine.txt").read_text("utf-8") == "mine"
