"""The real trackio, wandb (offline) and TensorBoard: what they hold after a run that was resumed.

Run by `make test-trackers`, which installs them into an environment of their own.
"""

import json
import os
import subprocess
import threading
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest
from drawn_pairs import draw_pairs

PYTHON = os.environ.get("RH_TEST_TRACKERS_PYTHON", "")
PROGRAM = Path(__file__).with_name("track_with_all.py")

pytestmark = [
    pytest.mark.trackers,
    pytest.mark.skipif(not PYTHON, reason="`make test-trackers` runs it with the trackers installed"),
]


def test_all_trackers_hold_one_run_with_its_numbers(tmp_path: Path) -> None:
    draw_pairs(tmp_path / "secretdata", 6)
    places = {"RH_HOME": "home", "TRACKIO_DIR": "trackio", "WANDB_DIR": "."}
    environment = {**os.environ, **{name: str(tmp_path / place) for name, place in places.items()}}
    done = subprocess.run(
        [PYTHON, str(PROGRAM), str(tmp_path / "secretdata"), str(tmp_path)],
        env={**environment, "WANDB_MODE": "offline", "PYTHONPATH": str(PROGRAM.parents[2])},
        capture_output=True,
        text=True,
        timeout=110,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    first, second = (json.loads(line) for line in done.stdout.splitlines())  # trackers print nothing there
    assert first["by_label_kind"] == second["by_label_kind"] and "dropped" not in done.stderr
    seen = json.loads((tmp_path / "seen.json").read_text("utf-8"))
    assert seen["statuses"] == [0, 0]
    run = json.loads((tmp_path / "run" / "tracking.json").read_text("utf-8"))["run"]

    [[name, config, logs]] = seen["trackio"]
    assert name == run and config["command"] == "score" and config["judge"] == "measured (no VLM)"
    accuracy = first["by_label_kind"]["drawn"]
    finals = [log for log in logs if "final/drawn" in log]
    assert [log["step"] for log in finals] == [6, 6], "of both sessions, in one run"
    assert finals[-1]["final/drawn"] == pytest.approx(accuracy["accuracy"])
    assert finals[-1]["final/drawn/ci_low"] == pytest.approx(accuracy["interval"][0])

    name, scalars = seen["tensorboard"]
    assert name == run and scalars["progress/judgments"][-1] == [6, 6]
    assert scalars["final/drawn/n"] == [[6, 6], [6, 6]]

    # wandb adds a number to the second of two folders that begin in the same second
    assert len(seen["wandb"]) == 2 and all(f"-{run}" in folder for folder, _ in seen["wandb"])
    for _, content in seen["wandb"]:
        assert "final/drawn" in content and "measured (no VLM)" in content
        assert not [word for word in ("secretdata", "make the square", ".png", "/home") if word in content]


def test_a_collector_receives_the_spans_of_a_command(tmp_path: Path) -> None:
    received: list[tuple[str, bytes]] = []

    class Collector(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            received.append((self.path, self.rfile.read(int(self.headers["content-length"]))))
            self.send_response(200)
            self.send_header("content-length", "0")
            self.end_headers()

        def log_message(self, *_: object) -> None:
            pass

    draw_pairs(tmp_path / "secretdata", 2)
    with HTTPServer(("127.0.0.1", 0), Collector) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        environment = {
            **os.environ,
            "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf",
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{server.server_port}",
            "PYTHONPATH": str(PROGRAM.parents[2]),
        }
        command = [str(Path(PYTHON).with_name("opentelemetry-instrument")), "--service_name", "rewardharness", PYTHON]
        words = ["-m", "rewardharness", "score", str(tmp_path / "secretdata")]
        words += ["--run", str(tmp_path / "run"), "--quiet"]
        done = subprocess.run([*command, *words], env=environment, capture_output=True, timeout=100, check=False)
        server.shutdown()
        thread.join()
    assert done.returncode == 0, done.stderr[-3000:]
    spans = b"".join(body for path, body in received if path == "/v1/traces")
    assert spans.count(b"judge measured (no VLM)") == 2 and b"gen_ai.evaluation.result" in spans
    assert not [word for word in (b"secretdata", b"make the square", b".png") if word in spans]
