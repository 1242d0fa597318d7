"""`rh data show`, and the commands that judge or learn from a dataset: on the Hub, in tables, with maps of fields."""

import json
from pathlib import Path
from typing import Any

import pytest
from commands import Rh
from hub_parts import Hub
from made_tables import DATA_100, as_parquet, data_100

SHARD = "data/train-00000-of-00001.parquet"


@pytest.fixture
def hub(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Hub:
    monkeypatch.setenv("RH_HOME", str(tmp_path / "home"))
    for repo in (DATA_100, "ann/edits"):
        hub.server.store.create(repo, kind="datasets").put({SHARD: as_parquet(data_100(20))})
    return hub


def shown(rh: Rh, *words: str) -> dict[str, Any]:
    found: dict[str, Any] = rh("data", "show", *words, "--json", "--quiet").json
    return found


def test_a_dataset_on_the_hub_is_described(hub: Hub, rh: Rh) -> None:
    commit = hub.server.store.repos["datasets", DATA_100].branches["main"]
    found = shown(rh, DATA_100)
    assert (found["name"], found["revision"]) == (f"{DATA_100}@{commit}", commit)
    assert found["by_label"] == {"A": 7, "B": 7, "tie": 6} and found["by_label_kind"] == {"human": 20}
    assert found["by_candidates"] == {"2": 20} and found["sources"] == 20 and not found["problems"]
    assert found["fields"]["candidates"] == ["left_image", "right_image"] and "left_model" in found["other_columns"]
    for part, count in (("pool", 15), ("audit", 5)):
        assert found[part]["n"] == sum(found[part]["by_category"].values()) == count
    assert found["audit"] != shown(rh, DATA_100, "--audit-share", "0.5")["audit"]
    said = rh("data", "show", DATA_100).out
    assert "20 examples, 20 source images" in said and "No problems." in said
    assert "values" in said and "leftvote is A" in said and "held-out test (0.25, seed 0)" in said


def test_what_was_recognised_is_said_and_can_be_named(hub: Hub, tmp_path: Path, rh: Rh) -> None:
    said = rh("data", "show", "ann/edits")
    assert "Inferred from column names: source is source_image" in said.out
    path = tmp_path / "map.yaml"
    path.write_text("scores: [left_overall_score, right_overall_score]\ncategory: '-'\n", encoding="utf-8")
    found = shown(rh, "ann/edits", "--fields", str(path), "--field", "category=left_model")
    assert found["by_label_kind"] == {"scores": 20} and found["by_category"] == {"one": 20}
    spelled = ["--field", "preference=vote_type", "--field", "values=leftvote:B,rightvote:A,tie:none"]
    assert shown(rh, "ann/edits", *spelled)["by_label"] == {"A": 7, "B": 7, "unlabelled": 6}


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["ann/none"], "There is no dataset ann/none"),
        (["ann/edits:other"], "Configs and their splits: default: train"),
        (["ann/edits", "--field", "source"], "--field 'source' cannot be read"),
        (["ann/edits", "--field", "sauce=x"], "Choose one of: candidates, category"),
        (["ann/edits", "--field", "preference=left_model"], "'left_model' (label) contains 'one', which is not"),
        (["ann/edits", "--fields", "none.yaml"], "none.yaml does not exist"),
        (["demo", "--field", "source=x"], "has no columns"),
    ],
)
def test_errors_are_said_in_a_sentence(hub: Hub, rh: Rh, words: list[str], said: str) -> None:
    assert said in rh("data", "show", *words, status=1).err


def test_a_dataset_on_the_hub_is_judged(hub: Hub, rh: Rh) -> None:
    report = rh("score", DATA_100, "--limit", "4", "--json", "--quiet").json
    assert report["judged"] == 4 and list(report["by_label_kind"]) == ["human"]
    hub.server.die_at(1)
    said = rh("score", DATA_100, "--limit", "4", "--dry-run")
    assert "OFFLINE" in said.err and f"4 edits of {DATA_100}@" in said.out


def test_a_table_on_this_disk_is_learned_from(tmp_path: Path, rh: Rh, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rewardharness.evolution.job.TIMED", 2)
    (tmp_path / "t.parquet").write_bytes(as_parquet(data_100(20)))
    words = ["evolve", "--data", str(tmp_path / "t.parquet"), "--field", "category=-", "--dry-run"]
    said = rh(*words).err
    assert "t.parquet: 15 training examples, 5 held out" in said and "Inferred from column names" in said


def test_a_folder_named_like_a_built_in_set_is_told_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rh: Rh
) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("RH_HOME", str(tmp_path / "home"))
    for name, said in (("feedback", "./feedback"), ("mine", "mine")):
        shown_next = rh("data", "demo", name, "--pairs", "1", "--groups", "0", "--quiet").out
        assert shown_next.endswith(f"Next: rh score {said}\n")
    for words in (["data", "show", "feedback"], ["benchmark", "feedback"]):
        shown = rh(*words, status=1).err
        assert "for the folder of that name, write ./feedback" in shown and "There is no feedback yet" in shown
    assert "built-in dataset" not in rh("data", "show", "./feedback").err


def test_a_benchmark_of_columns_that_nobody_knows_asks_for_a_task_file(tmp_path: Path, rh: Rh) -> None:
    path = tmp_path / "odd.csv"
    path.write_text("before,todo,one,two\na.png,do it,b.png,c.png\n", encoding="utf-8")
    shown = rh("benchmark", str(path), status=1).err
    assert "Next: Name columns and labels in a task file, see docs/reference/benchmarks.md. With rh score: " in shown


def test_the_value_that_keeps_a_column_from_holding_images_is_shown(tmp_path: Path, rh: Rh) -> None:
    lines = ["before,todo,one,two", "a.png,do it,b.png,c.png", "a.png,do it,b.png,../../c.png"]
    (tmp_path / "odd.csv").write_text("\n".join(lines), encoding="utf-8")
    fields = ["--field", "source=before", "--field", "instruction=todo", "--field", "candidates=one,two"]
    shown = rh("data", "show", str(tmp_path / "odd.csv"), *fields, status=1).err
    assert "'two' (candidates) has no images. It contains '../../c.png'." in shown and "inside its folder" in shown
    assert "such as --field source=COLUMN" in rh("data", "show", str(tmp_path), status=1).err


def test_a_set_that_was_drawn_is_not_drawn_over(tmp_path: Path, rh: Rh) -> None:
    words = ["data", "demo", str(tmp_path / "set"), "--groups", "0", "--quiet", "--pairs"]
    assert "complete and unchanged" not in rh(*words, "2").out
    assert "The dataset exists, complete and unchanged" in rh(*words, "2").out
    assert rh(*words, "2", "--json").json["drawn"] is False
    assert "Choose a new folder, or delete this one." in rh(*words, "3", status=1).err


def test_examples_with_references_are_counted(tmp_path: Path, rh: Rh) -> None:
    row = {"source": "s.png", "instruction": "Like image 2.", "candidate_a": "a.png", "candidate_b": "b.png"}
    rows = [{**row, "id": "1"}, {**row, "id": "2", "source": "t.png", "references": ["r.png"]}]
    (tmp_path / "pairs.jsonl").write_text("\n".join(map(json.dumps, rows)), encoding="utf-8")
    assert shown(rh, str(tmp_path))["with_references"] == 1
    assert "with reference images" in rh("data", "show", str(tmp_path), "--quiet").out


def test_show_prints_a_text_example(rh: Rh) -> None:
    file = Path(__file__).parents[2] / "examples" / "ranked_texts.json"
    said = rh("data", "show", str(file)).out
    assert "45 examples, 3 prompts." in said
    assert "candidate B" in said
    assert "release note" in said
    assert rh("data", "show", file, "--json").json["task"] == "text"


def test_texts_are_refused_where_only_images_work(tmp_path: Path, rh: Rh, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RH_HOME", str(tmp_path / "home"))
    file = str(Path(__file__).parents[2] / "examples" / "ranked_texts.json")
    for command in (["score", file], ["evolve", file], ["benchmark", "run", file]):
        assert "The Library is not for text responses" in rh(*command, status=1).err
    refused = rh("data", "pairs", file, "--output", tmp_path / "pairs", status=1)
    assert "no samples of image edits" in refused.err
