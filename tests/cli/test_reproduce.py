import json
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from rewardharness.cli.main import main
from rewardharness.cli.reproduce import SMOKE_SEED
from rewardharness.demo.dataset import make_demo
from rewardharness.library.evolved import data_digests
from rewardharness.library.store import Library

JUDGE = "vllm:judge@http://127.0.0.1:9/v1"
SMOKE = [sys.executable, "-m", "rewardharness", *"benchmark reproduce --smoke --pairs 8".split()]


def test_a_dry_run_names_every_command_of_the_paper_s_path(tmp_path, rh):
    words = f"--judge {JUDGE} --limit 20 --budget-calls 50 --schedule paper --run".split()
    said = rh("benchmark", "reproduce", *words, tmp_path / "r", "--dry-run").err
    for part in (
        f"rh doctor --judge {JUDGE}",
        "rh data show AgPerry/EditReward-Data-100",
        f"--orchestrator {JUDGE} --library builtin --schedule paper --seed 0 --budget-calls 50",
        "rh benchmark run editreward-bench --library",
        "rh benchmark run genai-bench --library builtin",
        "--no-baseline",
    ):
        assert part in said
    assert not (tmp_path / "r").exists()


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ((), "needs a model judge"),
        (("--judge", "measured"), "needs a model judge"),
        (("--judge", JUDGE, "--tasks", ","), "No benchmark is named"),
    ],
)
def test_what_cannot_be_reproduced(words, problem, rh):
    assert problem in rh("benchmark", "reproduce", *words, status=1).err


def test_a_step_that_fails_is_named_and_nothing_after_it_is_done(tmp_path, capfd):
    words = ["benchmark", "reproduce", "--judge", JUDGE, "--run", str(tmp_path / "r"), "--yes"]
    assert main(words) == 1
    said = capfd.readouterr().err
    assert "check the installation and the judge" in said and "failed (status" in said
    assert sorted(each.name for each in (tmp_path / "r").iterdir()) == ["reproduce.json"]
    assert main([*words, "--seed", "4"]) == 1
    assert "started with other options: seed" in capfd.readouterr().err


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_the_whole_path_on_drawn_data(tmp_path):
    """A thinned Library, evolution, benchmarks, one table; a second time nothing is left to do."""
    pytest.importorskip("skimage")
    folder = tmp_path / "r"
    for name, seed in (("data", 0), ("exam", SMOKE_SEED)):  # smaller images than the two steps draw
        make_demo(folder / name, pairs=8, groups=0, seed=seed, side=128)
    command = [*SMOKE, "--run", str(folder), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    said = json.loads(done.stdout)
    libraries = {row["library"] for row in said["rows"]}
    assert libraries == {"evolved Library", "starting Library"}
    for row in said["rows"]:
        assert row["judged"] == row["n"] and row["value"] is not None and row["protocol"] == "pairs; measured"
    assert sum(row["n"] for row in said["rows"] if row["library"] == "evolved Library") == 8
    assert (folder / "reproduce.md").read_text("utf-8").count("\n") == len(said["rows"]) + 2
    evolved = Library.load(folder / "evolution" / "library")
    digests = data_digests(evolved.lineage)
    assert len(digests) <= 1, "eight pairs seldom are enough evidence for an edit"
    for path in folder.glob("**/exam.json"):
        exam = json.loads(path.read_text("utf-8"))
        assert exam["dataset_digest"] not in digests, "the exam is no part of what was learned from"
    assert "was evolved on the same data" not in done.stdout + done.stderr and "evolved_on" not in done.stdout
    before = {path: path.stat().st_mtime_ns for path in files(folder)}
    again = subprocess.run(command, capture_output=True, text=True, check=False)
    assert again.returncode == 0 and json.loads(again.stdout) == said
    changed = {path.name for path in files(folder) if before.get(path) != path.stat().st_mtime_ns}
    assert changed <= {"reproduce.md"}


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_request_to_end_that_reaches_this_process_alone_ends_the_step_too(number, tmp_path, halt):
    pytest.importorskip("skimage")
    folder = tmp_path / "r"
    halt.before("pairs.jsonl")  # the step has drawn its pairs and is about to write its table
    process = subprocess.Popen([*SMOKE, "--run", str(folder)], stderr=subprocess.PIPE, text=True)
    step = halt.reached()
    assert step.ppid() == process.pid
    process.send_signal(number)
    step.resume()
    _, said = process.communicate()  # ends when the step has, which holds standard error too
    assert process.returncode == 130, said
    assert "Stopped; all results are stored." in said and "Traceback" not in said
    assert not (folder / "exam").exists(), "the next step was begun"


def files(folder: Path) -> list[Path]:
    return [path for path in folder.rglob("*") if path.is_file()]
