from pathlib import Path

import pytest
from bench_parts import made_anew, settings

from rewardharness.benchmark.config import BenchmarkConfig
from rewardharness.files import read_json
from rewardharness.jobs import open_job
from rewardharness.runs.job import Session, Stopped, StopRequest
from rewardharness.runs.records import read_record


def test_a_configuration_runs_stops_and_resumes(tmp_path: Path) -> None:
    made_anew("vcreward-bench", tmp_path)
    config = BenchmarkConfig(
        "vcreward-bench", source=tmp_path / "vcreward-bench", judge="random", baselines=("always-a",), concurrency=1
    )
    settings_, folder = settings(tmp_path), tmp_path / "run"
    stop, steps, words = StopRequest(), [], {"words": ("benchmark",)}

    def progress(label: str, done: int, total: int) -> None:
        steps.append((label, done, total))
        stop.asked = stop.asked or (done == 3 and label.startswith("judging"))

    with pytest.raises(Stopped):
        open_job(config, settings_, folder=folder).run(Session(progress, stop, arguments=words))
    assert steps[-1] == ("judging with random (baseline)", 3, 40)
    assert read_record(folder)["sessions"][-1]["condition"] == "stopped"
    job = open_job(config, settings_, folder=folder)
    assert (job.cost().known, job.cost(restart=True).known) == (3, 0)
    assert job.preview()["judgments"] == 40
    report = open_job(config, settings_, folder=folder).run(Session(arguments=words))
    assert [row.judged for row in report.rows] == [20, 20]
    assert [path.suffix for path in report.files] == [".json", ".md", ".html"]
    assert read_json(folder / "config.json")["judge"] == "random"
    assert [session["condition"] for session in read_record(folder)["sessions"]] == ["stopped", "done"]
