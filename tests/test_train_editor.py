"""The example that trains an editor: its pixel truth, how it shares a GPU with a judge, and, with torch, all of it."""

import importlib
import json
import os
import subprocess
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import ModuleType

import numpy as np
import pytest

from rewardharness.lineage.records import Evaluation, Manifest, RunOutcome
from rewardharness.lineage.store import Lineage

FOLDER = Path(__file__).parent.parent / "examples" / "train_editor"
PYTHON = os.environ.get("RH_TEST_TRL_PYTHON", "")
RUNS = ("before", "grpo", "best-of-n", "best-of-n-longer", "exploitable")


@pytest.fixture
def load(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.syspath_prepend(FOLDER)
    return importlib.import_module


@pytest.fixture
def vllm() -> Iterator[tuple[str, list[str]]]:
    """A server that notes the requests, and its address."""
    asked: list[str] = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            asked.append(self.path)
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        threading.Thread(target=server.serve_forever, args=(0.01,), daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", asked
        server.shutdown()


def test_the_truth_takes_the_right_edit_and_not_the_source_another_edit_or_a_second_change(load) -> None:
    world: ModuleType = load("world")
    right = world.make_cases(range(900_000, 900_002), 0.0, each=3)
    faulty = world.make_cases(range(900_000, 900_003), 1.0, each=2)
    assert {case.kind for case in right} == set(world.KINDS_OF_EDIT)
    assert all(world.truth(case, case.right) and not world.truth(case, case.source) for case in right)
    wrong = [world.truth(case, case.shown) for case in faulty if case.role == "wrong_edit"]
    assert wrong and not any(wrong)
    spoiled = [np.where(np.arange(world.SIDE)[:, None, None] < 8, 255 - case.right, case.right) for case in right]
    assert not any(world.truth(case, picture) for case, picture in zip(right, spoiled, strict=True))


def test_a_judge_on_the_gpu_of_the_training_is_awake_only_while_it_scores(
    load, vllm: tuple[str, list[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared_gpu, (url, asked) = load("shared_gpu"), vllm
    monkeypatch.setattr(shared_gpu, "LOCK", tmp_path / "lock")
    with shared_gpu.awake([url]):
        with shared_gpu.awake([url]):
            assert asked == ["/wake_up"] * 2
        assert len(asked) == 2  # another one still scores
    assert asked[2:] == ["/sleep?level=1"]
    with pytest.raises(ValueError, match="no reward"), shared_gpu.awake([url]):
        raise ValueError("no reward")
    assert asked[3:] == ["/wake_up", "/sleep?level=1"]


@pytest.mark.trl
@pytest.mark.timeout(300)
@pytest.mark.skipif(not PYTHON, reason="`make test-trl` runs it with torch and diffusers installed")
def test_an_editor_is_trained_tuned_and_measured(tmp_path: Path) -> None:
    environment = {**os.environ, "RH_HOME": str(tmp_path / "home"), "PYTHONPATH": str(FOLDER.parents[1])}
    command = [PYTHON, str(FOLDER / "train.py"), str(tmp_path / "out"), "--small"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    out = tmp_path / "out"
    rows = [line.split(" | ")[0].strip("| ") for line in (out / "table.md").read_text("utf-8").splitlines()[2:]]
    assert rows == list(RUNS) and (out / "table.md").read_text("utf-8") in done.stdout
    assert len({(out / f"{name}.pt").read_bytes() for name in RUNS}) == len(RUNS)  # the weights changed
    for name in RUNS[1:]:
        lines = [json.loads(line) for line in (out / f"{name}.jsonl").read_text("utf-8").splitlines()]
        steps = [0, 1] if name in RUNS[1:3] else [0, 1, 2]
        assert [line["step"] for line in lines] == steps and all(line["judged"] > 0 for line in lines)
    lineage = Lineage(out / "lineage")
    known = lineage.read_all().values()
    bodies = {kind: {record.name: record.body for record in known if record.kind == kind} for kind in
              ("manifest", "result", "eval", "comparison")}  # fmt: skip
    assert set(bodies["comparison"]) == {f"before-{name}" for name in RUNS[1:]}
    libraries = {}
    for name in RUNS:
        manifest, result, figures = (bodies[kind][name] for kind in ("manifest", "result", "eval"))
        assert isinstance(manifest, Manifest) and isinstance(result, RunOutcome) and isinstance(figures, Evaluation)
        assert (result.curve is None) == (name == "before") and len(figures.metrics) == 3
        assert figures.metrics[0].n == 6 and figures.metrics[0].interval is not None
        libraries[name] = manifest.reward and manifest.reward.release and manifest.reward.release.library
    assert libraries["grpo"] == libraries["best-of-n"] != libraries["exploitable"] and libraries["before"] is None
    again = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert again.returncode == 0 and "step" not in again.stdout, again.stdout + again.stderr  # nothing is done twice
