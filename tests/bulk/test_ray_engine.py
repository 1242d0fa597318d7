"""Judging on a Ray cluster with the real Ray, in processes of an interpreter that has it."""

import json
import sys
from pathlib import Path
from typing import Any

import pytest
from made_tables import as_parquet, data_100
from model_server import ModelServer
from ray_parts import PYTHON, RAY, TWO_NODES, call

ANSWER = json.dumps({"preference": "A", "scores": {label: {"instruction": 3, "quality": 2} for label in "AB"}})

pytestmark = RAY


@pytest.fixture
def data(tmp_path: Path) -> Path:
    rows = data_100(80)
    rows[4]["instruction"] = ""
    file = tmp_path / "table.parquet"
    file.write_bytes(as_parquet(rows, group=4))
    return file


def rows(output: Path) -> dict[str, bytes]:
    return {str(path.relative_to(output)): path.read_bytes() for path in sorted(output.glob("*/*.parquet"))}


def test_ray_writes_the_same_bytes(data: Path, tmp_path: Path) -> None:
    words = ["-m", "rewardharness", "score", data, "--judge", "closer", "--part-rows", 15, "--quiet", "--json"]
    local = call(PYTHON, [*words, "--output", tmp_path / "local"])
    ray = call(PYTHON, [*words, "--output", tmp_path / "ray", "--engine", "ray"])
    assert (local.returncode, ray.returncode) == (3, 3), ray.stderr  # one row has no instruction
    assert json.loads(ray.stdout)["report"]["judged"] == 79
    assert rows(tmp_path / "ray") == rows(tmp_path / "local") != {}


def test_a_node_that_dies_changes_nothing(data: Path, tmp_path: Path) -> None:
    with ModelServer(lambda asked: ANSWER, latency=0.3) as server:
        judge = f"openai:judge@{server.url}"
        whole = ["-m", "rewardharness", "score", data, "--output", tmp_path / "whole", "--judge", judge, "--no-cache"]
        call(sys.executable, [*whole, "--part-rows", 4, "--protocol", "direct", "--quiet"])
        output = tmp_path / "ray"
        words = [*whole[2:4], "--output", output, *whole[6:], "--part-rows", 4, "--protocol", "direct", "--quiet"]
        run = call(PYTHON, [TWO_NODES, output, 3, *words, "--engine", "ray", "--workers", 4])
    assert run.returncode == 3, run.stderr
    assert 3 <= int(run.stdout.split()[0]) < 20, "the node died in the middle"
    assert rows(tmp_path / "ray") == rows(tmp_path / "whole") != {}


def test_errors_of_a_cluster_are_one_sentence(data: Path, tmp_path: Path) -> None:
    words: list[Any] = ["-m", "rewardharness", "score", data, "--judge", "closer", "--quiet", "--engine", "ray"]
    words += ["--output", tmp_path / "out"]
    gone = call(PYTHON, [*words, "--address", "127.0.0.1:1"])
    assert gone.returncode == 1 and "No Ray cluster answers at 127.0.0.1:1" in gone.stderr
    assert "Traceback" not in gone.stderr
    missing = call(sys.executable, words)
    if missing.returncode == 1:
        assert "ray" in missing.stderr and "pip install" in missing.stderr


def test_a_ranking_on_ray_is_that_of_this_process(data: Path, tmp_path: Path) -> None:
    rank = ["-m", "rewardharness", "data", "rank", data, "--skip-bad-rows", "--allow-ungradable", "--quiet", "--json"]
    here, ray = (call(PYTHON, [*rank, "--run", tmp_path / on, "--on", on]) for on in ("local", "ray"))
    assert here.returncode == ray.returncode, ray.stderr
    assert json.loads(ray.stdout)["edits"] == json.loads(here.stdout)["edits"] != []
