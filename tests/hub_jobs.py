"""Jobs of the local Hub: each runs its command in a process of its own, with programs in place of pip and vLLM.

The image is ignored. `python3` is this Python without pip, whose arguments are written to `pip.log`; `vllm` serves the
model of `model_server` and hangs after `HOLD_AFTER` judgments while the file `hold` exists next to the jobs' folders.
"""

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from hub_store import Refusal

HOLD_AFTER = 4
HARDWARE: list[dict[str, Any]] = [
    {"name": "cpu-upgrade", "prettyName": "CPU Upgrade", "cpu": "8 vCPU", "ram": "32 GB", "accelerator": None}
    | {"unitCostMicroUSD": 500, "unitCostUSD": 0.0005, "unitLabel": "minute"},
    {"name": "a10g-large", "prettyName": "A10G", "cpu": "12 vCPU", "ram": "46 GB"}
    | {"accelerator": {"type": "gpu", "model": "A10G", "quantity": "1", "vram": "24 GB", "manufacturer": "Nvidia"}}
    | {"unitCostMicroUSD": 25000, "unitCostUSD": 0.025, "unitLabel": "minute"},
]
_PYTHON = """#!/bin/sh
if [ "$1 $2" = "-m pip" ]; then echo "$*" >> "$TMPDIR/pip.log"; exit 0; fi
exec {python} "$@"
"""
_VLLM = """#!{python}
import sys, time
from pathlib import Path
sys.path.insert(0, {tests!r})
import model_server
held = model_server._held_port
judged = []
def respond(call):
    judged.extend([call.number] * call.text.startswith("You judge"))
    return model_server.Fault("hang") if len(judged) > {after} and Path({hold!r}).exists() else None
model_server._held_port = lambda: held(int(sys.argv[sys.argv.index("--port") + 1]))
with model_server.ModelServer(respond, model=sys.argv[2]):
    time.sleep(100)
"""


@dataclass
class RunningJob:
    """One job."""

    id: str
    owner: str
    spec: dict[str, Any]
    folder: Path
    process: subprocess.Popen[bytes]
    canceled: bool = False
    changed: threading.Event = field(default_factory=threading.Event)

    @property
    def stage(self) -> str:
        if self.process.poll() is None:
            return "RUNNING"
        return "CANCELED" if self.canceled else ("ERROR" if self.process.returncode else "COMPLETED")

    @property
    def log(self) -> list[str]:
        return (self.folder / "log").read_text("utf-8", "replace").splitlines()

    def to_json(self) -> dict[str, Any]:
        about = {name: self.spec.get(name) for name in ("command", "environment", "flavor", "dockerImage", "labels")}
        owner = {"id": "1", "name": self.owner, "type": "user"}
        durations = {"schedulingSecs": 1, "runningSecs": 90, "totalSecs": 91}
        status = {"stage": self.stage, "message": None}
        return {**about, "id": self.id, "owner": owner, "status": status, "durations": durations}

    def log_events(self) -> bytes:
        now = datetime.now(UTC).isoformat()
        events = [json.dumps({"data": line, "timestamp": now}) for line in self.log]
        return "".join(f"data: {event}\n\n" for event in events).encode()

    def cancel(self) -> None:
        """End the job as the Hub does: first politely."""
        self.canceled = True
        self.process.send_signal(signal.SIGTERM)


class JobRunner:
    """The jobs of a Hub."""

    def __init__(self) -> None:
        self.jobs: list[RunningJob] = []
        self.refusal = 0
        """Status that new jobs are refused with; 0 for none."""
        self._scratch: tempfile.TemporaryDirectory[str] | None = None

    @property
    def scratch(self) -> Path:
        if self._scratch is None:
            self._scratch = tempfile.TemporaryDirectory()
            programs = self.scratch / "bin"
            programs.mkdir()
            values = {"python": sys.executable, "tests": str(Path(__file__).parent), "after": HOLD_AFTER}
            for name, text in (("python3", _PYTHON), ("vllm", _VLLM)):
                (programs / name).write_text(text.format(**values, hold=str(self.hold)))
                (programs / name).chmod(0o755)
        return Path(self._scratch.name)

    @property
    def hold(self) -> Path:
        """File whose existence makes the model hang after some requests."""
        assert self._scratch is not None
        return Path(self._scratch.name) / "hold"

    def start(self, owner: str, spec: dict[str, Any]) -> dict[str, Any]:
        folder = self.scratch / f"job-{len(self.jobs)}"
        folder.mkdir()
        env = {"PATH": f"{self.scratch / 'bin'}:/usr/bin:/bin", "HOME": str(folder), "TMPDIR": str(folder)}
        env |= {**spec.get("environment", {}), **spec.get("secrets", {})}
        env |= {"OMP_NUM_THREADS": "1", "RH_REGRESSION_PAIRS": "0"}
        with (folder / "log").open("wb") as log:
            process = subprocess.Popen(
                spec["command"], cwd=folder, env=env, stdout=log, stderr=log, stdin=subprocess.DEVNULL,
                start_new_session=True,
            )  # fmt: skip
        job = RunningJob(f"job{len(self.jobs)}", owner, spec, folder, process)
        self.jobs.append(job)
        return job.to_json()

    def find(self, name: str) -> RunningJob:
        job = next((job for job in self.jobs if job.id == name), None)
        if job is None:
            raise Refusal(404, "Job not found")
        return job

    def wait(self, name: str) -> None:
        """Wait a moment for a job, as a stream of its log does."""
        for job in self.jobs:
            if job.id == name and job.stage == "RUNNING":
                job.changed.wait(0.2)

    def close(self) -> None:
        for job in self.jobs:
            if job.process.poll() is None:
                os.killpg(job.process.pid, signal.SIGKILL)
            job.process.wait()
        if self._scratch is not None:
            self._scratch.cleanup()
