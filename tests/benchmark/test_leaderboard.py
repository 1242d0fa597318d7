"""Leaderboards on a local Hub: rows of several runs and judges, the newest of each, and files of strangers."""

import json

import pytest
import yaml
from bench_parts import judged, made, pixels
from drawn_pairs import draw_pairs
from hub_parts import Hub
from huggingface_hub import parse_eval_result_entries

from rewardharness import benchmark
from rewardharness.benchmark.figures import eval_results
from rewardharness.benchmark.leaderboard import FOLDER, publish, read_leaderboard, rows_of
from rewardharness.cli.main import main
from rewardharness.errors import InputError
from rewardharness.hub.repository import Repo

REPO = "ann/board"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory):
    folder = tmp_path_factory.mktemp("pairs")
    draw_pairs(folder, 8)
    return benchmark(folder, judge="closer", baselines=["random", "always-a"], folder=folder.with_name("run"))


def test_runs_are_published_and_ranked_within_what_compares(hub: Hub, run) -> None:
    rows = rows_of(run.result, "2026-01-31")
    assert {row.judge for row in rows} == {"closer (baseline)", "random (baseline)", "always-a (baseline)"}
    assert all(
        0 <= row.low <= row.value <= row.high <= 1 and row.judged == row.n for row in rows if row.low is not None
    )
    access = hub.user("ann")
    assert publish(rows, REPO, access).endswith(REPO)
    publish(rows_of(run.result, "2026-02-28"), REPO, access)
    board = read_leaderboard(REPO, hub.anonymous)
    assert len(board.rows) == len(rows) and {row.date for row in board.rows} == {"2026-02-28"}
    first = [row.value for row in board.rows if row.board == board.rows[0].board]
    assert first == sorted(first, reverse=True) and len(first) == 3
    card = hub.server.store.repos["datasets", REPO].find("main").files["README.md"].decode()
    assert f"{FOLDER}/*.jsonl" in card


def test_files_of_strangers_are_counted_and_left_out(hub: Hub, run) -> None:
    access = hub.user("ann")
    publish(rows_of(run.result), REPO, access)
    other = Repo(REPO, access, "dataset")
    other.commit({f"{FOLDER}/bad.jsonl": b'{"task": 1}\n', f"{FOLDER}/nan.jsonl": b"NaN"}, (), None, ("Add", ""))
    board = read_leaderboard(REPO, access)
    assert board.skipped == 2 and board.rows
    with pytest.raises(InputError, match="no numbers"):
        publish((), REPO, access)
    with pytest.raises(InputError, match="publish"):
        Repo("ann/plain", access, "dataset").create(private=False)
        read_leaderboard("ann/plain", access)


def test_results_of_a_registered_benchmark_go_into_a_model_repository(hub: Hub, tmp_path, monkeypatch, capsys) -> None:
    access, other = hub.user("ann"), "ann/mine"
    monkeypatch.setenv("HF_TOKEN", access.token)
    data = made("editreward-bench", tmp_path)
    result = judged(data, [pixels()], tmp_path / "run")
    dataset = Repo(result.hub, hub.user("TIGER-Lab"), "dataset")
    dataset.create(private=False)
    Repo(other, access).create(private=False)
    words = ["benchmark", "publish", str(tmp_path / "run"), f"model:{other}"]
    assert main(words) == 1 and "is no benchmark of the Hub" in capsys.readouterr().err
    tasks = [{"id": "K=2"}, {"id": "own", "config": "x"}, {"id": 3}]
    card = {"name": "EditReward", "evaluation_framework": "own", "tasks": tasks}
    dataset.commit({"eval.yaml": json.dumps(card).encode()}, (), None, ("Add", ""))
    assert main([*words, "--dry-run"]) == 0 and "nothing was published" in capsys.readouterr().out
    assert main([*words, "--create-pr", "--json"]) == 0
    assert "discussions" in json.loads(capsys.readouterr().out)["page"]
    assert main(words) == 0
    files = hub.server.store.repos["models", other].find("main").files
    [entry] = parse_eval_result_entries(yaml.safe_load(files[".eval_results/rewardharness-editreward-bench.yaml"]))
    assert (entry.dataset_id, entry.task_id, entry.value) == ("TIGER-Lab/EditReward-Bench", "K=2", 100.0)
    low, _ = result.rows[0].numbers[0].interval
    assert "pixels, looking" in entry.notes and f"n 20, 95% CI {100 * low:.1f} to 100.0" in entry.notes
    for rows, name in (([pixels(fails=[next(iter(data.items))])], "failed"), ([pixels()], "sampled")):
        part = made("editreward-bench", tmp_path, limit=5) if name == "sampled" else data
        with pytest.raises(InputError, match="Only a complete run"):
            eval_results(judged(part, rows, tmp_path / name), access)


def test_the_commands_publish_and_show(hub: Hub, run, monkeypatch, capsys) -> None:
    monkeypatch.setenv("HF_TOKEN", hub.user("ann").token)
    assert main(["benchmark", "publish", str(run.folder), REPO, "--dry-run"]) == 0
    assert "nothing was published" in capsys.readouterr().out
    assert main(["benchmark", "publish", str(run.folder), REPO, "--json"]) == 0
    published = json.loads(capsys.readouterr().out)
    assert main(["benchmark", "leaderboard", REPO, "--json"]) == 0
    assert len(json.loads(capsys.readouterr().out)["rows"]) == len(published["rows"])
    assert main(["benchmark", "leaderboard", REPO, "--task", "other"]) == 0
