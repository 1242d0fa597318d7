"""Tracking of whole runs with TensorBoard files, and a logger whose tracker is slow or fails."""

import json
import logging
import shutil
import struct
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest
from drawn_pairs import draw_pairs
from small_world import GOOD, ListOrchestrator, make_plan
from tensorboardX.proto.event_pb2 import Event

import rewardharness as rh
from rewardharness.cli.main import main
from rewardharness.errors import InputError, MissingPackageError
from rewardharness.evolution.events import Decided, read_events
from rewardharness.evolution.job import EvolutionJob
from rewardharness.runs.job import Session
from rewardharness.settings import Settings
from rewardharness.tracking.run import Logger, RunTracking, run_config
from rewardharness.tracking.trackers import TrackerSpec, check_packages, parse_trackers

Scalars = dict[str, list[tuple[int, float]]]


@pytest.fixture
def data(tmp_path: Path) -> Path:
    draw_pairs(tmp_path / "secretdata", 8)
    return tmp_path / "secretdata"


def read_run(project: Path) -> tuple[str, Scalars, bytes]:
    """Read the only run of a project: its name, its scalars by name, and all bytes."""
    [run] = project.iterdir()
    scalars: Scalars = {}
    content = b"".join(file.read_bytes() for file in sorted(run.iterdir()))
    at = 0
    while at < len(content):  # records of TensorFlow: length, checksum, data, checksum
        (length,) = struct.unpack_from("<Q", content, at)
        event = Event.FromString(content[at + 12 : at + 12 + length])
        at += length + 16
        for value in event.summary.value:
            if value.HasField("simple_value"):
                scalars.setdefault(value.tag, []).append((event.step, value.simple_value))
    return run.name, scalars, content


def test_a_scored_dataset_is_logged_and_a_resumed_run_goes_on(
    data: Path, tmp_path: Path, own_home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run, results = tmp_path / "first-try", tmp_path / "first-try" / "results.jsonl"
    words = ["score", str(data), "--run", str(run), "--track", "tensorboard:edits", "--quiet", "--json"]
    assert main(words) == 0
    report = json.loads(capsys.readouterr().out)
    name, scalars, content = read_run(own_home / "tensorboard" / "edits")
    assert name.startswith("first-try-") and json.loads((run / "tracking.json").read_text("utf-8")) == {"run": name}
    assert scalars["progress/judgments"][-1] == (8, 8) and scalars["progress/coverage"][-1] == (8, 1)
    accuracy = report["by_label_kind"]["drawn"]
    last = {key: values[-1] for key, values in scalars.items()}
    assert last["final/drawn"] == (8, pytest.approx(accuracy["accuracy"])) and last["final/drawn/n"] == (8, 8)
    assert last["final/drawn/ci_low"][1] == pytest.approx(accuracy["interval"][0])
    assert last["final/drawn/ci_high"][1] == pytest.approx(accuracy["interval"][1])
    assert b"measured (no VLM)" in content, "the configuration is there"
    private = (b"secretdata", b"pairs.jsonl", b"make the square", b".png", b"p00")
    assert not [word for word in private if word in content]

    lines = results.read_text("utf-8").splitlines(keepends=True)
    results.write_text("".join(lines[:5]), "utf-8")
    assert main(words) == 0
    again, scalars, _ = read_run(own_home / "tensorboard" / "edits")
    assert again == name
    assert [step for step, _ in scalars["final/n"]] == [8, 8] and scalars["progress/judgments"][-1] == (8, 8)
    assert main([*words, "--restart"]) == 0
    assert len(list((own_home / "tensorboard" / "edits").iterdir())) == 2, "another run"


def test_a_benchmark_is_logged_by_the_settings(data: Path, own_home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RH_TRACK", "tensorboard")
    report = rh.benchmark(data, baselines=["random"])
    _, scalars, content = read_run(own_home / "tensorboard" / "rewardharness")
    assert scalars["progress/judgments"][-1] == (16, 16), "of both judges"
    [number] = report.rows[0].numbers
    assert scalars[f"final/drawn/{number.metric}"] == [(16, pytest.approx(number.value))]
    assert b"own data" in content and b"secretdata" not in content


def test_an_evolution_is_logged_by_step(tmp_path: Path, own_home: Path) -> None:
    plan, _ = make_plan(tmp_path / "home", orchestrator=ListOrchestrator(GOOD))
    job = EvolutionJob(**vars(plan), folder=tmp_path / "run", settings=Settings.from_env())
    result = job.run(Session(track=["tensorboard:evolutions"]))
    _, scalars, content = read_run(own_home / "tensorboard" / "evolutions")
    pool, audit = result.report.pool, result.report.audit
    assert scalars["train/accuracy"][0][1] == pytest.approx(pool.start.accuracy)
    assert scalars["train/accuracy"][-1][1] == pytest.approx(pool.final.accuracy)
    decided = [event for event in read_events(result.folder) if isinstance(event, Decided)]
    assert scalars["evolve/tested"][-1][1] == len(decided) > 0 and scalars["evolve/net_gain"][0][1] > 0
    assert scalars["evolve/accepted"][-1][1] == sum(event.accepted for event in decided) > 0
    assert scalars["spent/judgments"][-1][1] == result.report.spent.judgments
    assert scalars["held_out/before"][0][1] == pytest.approx(audit.start.accuracy)
    assert audit.final.interval is not None
    assert scalars["held_out/after/ci_high"][0][1] == pytest.approx(audit.final.interval[1])
    assert scalars["held_out/p_value"][0][1] == pytest.approx(audit.final_against_start.p)
    steps = [step for step, _ in scalars["spent/judgments"]]
    assert steps == sorted(steps) and "progress/pool" in scalars
    assert b"secret" not in content and b"shine" not in content
    job.run(Session(track="tensorboard:again"))
    assert not (own_home / "tensorboard" / "again").exists(), "a finished run is only read"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("", []),
        ("trackio", [("trackio", "rewardharness")]),
        (
            "wandb:my-project, tensorboard ,wandb:my-project",
            [("wandb", "my-project"), ("tensorboard", "rewardharness")],
        ),
    ],
)
def test_trackers_are_read(text: str, found: list[tuple[str, str]]) -> None:
    assert [(spec.name, spec.project) for spec in parse_trackers(text)] == found


@pytest.mark.parametrize("text", ["mlflow", "wandb:", "tensorboard:../up", "wandb:a/b", "trackio:.hidden"])
def test_what_cannot_be_used_is_an_error_before_anything_is_judged(
    text: str, data: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(InputError):
        parse_trackers([text])
    assert main(["score", str(data), "--run", str(tmp_path / "run"), "--track", text]) == 1
    assert text.partition(":")[0] in capsys.readouterr().err and not (tmp_path / "run").exists()


def test_a_missing_package_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("rewardharness.tracking.trackers.find_spec", lambda name: None)
    with pytest.raises(MissingPackageError) as error:
        check_packages([TrackerSpec("trackio")])
    assert "'trackio' is not installed" in error.value.message and '".[track]"' in error.value.next_step


class Recorder:
    """A tracker that keeps records, fails at some, and can be held up."""

    def __init__(self, fails: Iterable[int] = ()) -> None:
        self.fails = set(fails)
        self.records: list[tuple[Any, int]] = []
        self.may_go_on, self.reached = threading.Event(), threading.Event()
        self.may_go_on.set()
        self.finished = False

    def log(self, numbers: Any, step: int) -> None:
        self.reached.set()
        self.may_go_on.wait(60)
        if step in self.fails:
            raise ConnectionError("no route, key sk-abcdefghijklmnopqrstuvwxyz123456")
        self.records.append((numbers, step))

    def finish(self) -> None:
        self.finished = True


def close(logger: Logger, seconds: float = 60.0) -> None:
    logger.end()
    logger.join(time.monotonic() + seconds)


def test_a_slow_tracker_holds_nobody_up(caplog: pytest.LogCaptureFixture) -> None:
    tracker = Recorder()
    tracker.may_go_on.clear()
    logger = Logger("slow", lambda: tracker, size=10)
    logger.put({"first": 1}, 0)
    assert tracker.reached.wait(60)
    for step in range(1, 101):
        logger.put({"x": 1}, step)
    close(logger, 0)
    assert logger.dropped == 101 and "slow did not finish in time; 101 of 101 records were dropped." in caplog.text
    tracker.may_go_on.set()
    close(logger)
    assert [step for _, step in tracker.records] == list(range(11)) and tracker.finished
    assert logger.dropped == 90 and "slow: 90 of 101 records were dropped." in caplog.text


def test_errors_are_reported_once_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    tracker = Recorder(fails=(1, 2))
    logger = Logger("flaky", lambda: tracker)
    for step in range(4):
        logger.put({"x": step}, step)
    close(logger)
    assert [step for _, step in tracker.records] == [0, 3] and tracker.finished
    first, last = (record.getMessage() for record in caplog.records if record.levelno == logging.WARNING)
    assert first.startswith("flaky did not accept a record (ConnectionError: no route") and "sk-abc" not in first
    assert last == "flaky: 2 of 4 records were dropped."


def test_a_tracker_that_does_not_open_is_left_out(caplog: pytest.LogCaptureFixture) -> None:
    def broken() -> Recorder:
        raise OSError("disk full")

    logger = Logger("broken", broken)
    logger.put({"x": 1}, 0)
    close(logger)
    assert "broken cannot be used (OSError: disk full). The run continues." in caplog.text
    assert "broken: 1 of 1 records were dropped." in caplog.text


def test_progress_is_logged_at_most_once_a_second(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tracker, now = Recorder(), [0.0]
    monkeypatch.setattr(TrackerSpec, "open", lambda *_: tracker)
    tracking = RunTracking((TrackerSpec("wandb"),), tmp_path, clock=lambda: now[0])
    tracking.result({"id": "early"})
    failed = {"failure": {"code": "timeout"}, "usage": {"calls": 2, "input_tokens": 10, "output_tokens": 1}}
    tracking.begin(tmp_path, {"command": "score"}, known=[failed])
    for count in range(100):
        now[0] = count * 0.25
        tracking.result({"failure": None, "usage": {"calls": 1, "input_tokens": 5, "output_tokens": 1}})
    tracking.finish({"final/n": 101})
    tracking.close()
    assert [step for _, step in tracker.records] == [*range(2, 102, 4), 101]
    assert tracker.records[-1][0] == {
        "progress/judgments": 101,
        "progress/failures": 1,
        "progress/coverage": pytest.approx(100 / 101),
        "progress/per_second": pytest.approx(100 / 24.75),
        "usage/requests": 102,
        "usage/input_tokens": 510,
        "usage/output_tokens": 101,
        "final/n": 101,
    }


def test_the_configuration_has_no_paths_and_no_text_of_users() -> None:
    manifest = {"command": "score", "judge": "file:/home/me/scores.jsonl", "data_name": "my folder", "seed": 3}
    manifest["x"] = [1]
    assert run_config(manifest) == {"command": "score", "judge": "file", "seed": 3}
    benchmark = {"judge_name": "vllm:a/b", "judge_protocol": "pairs", "library_id": "1"}
    assert run_config(benchmark) == {"judge": "vllm:a/b", "protocol": "pairs", "library_id": "1"}


def test_a_damaged_id_of_a_run_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []
    monkeypatch.setattr(TrackerSpec, "open", lambda spec, run, *_: (seen.append(run), Recorder())[1])
    (tmp_path / "tracking.json").write_text("{", "utf-8")
    for _ in range(2):
        tracking = RunTracking((TrackerSpec("wandb"),), tmp_path)
        tracking.begin(tmp_path, {})
        tracking.close()
    assert seen[0] == seen[1] and seen[0].startswith(tmp_path.name)
    shutil.rmtree(tmp_path)
