"""What the fixtures of this folder hand out."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from halting import Halt
from hub_server import HubServer
from model_server import own_port

from app.run_panel.following import MOVING, FollowedRun
from app.run_panel.service import RunService
from app.score.comparisons import Draft
from app.services import AppServices
from rewardharness.files import write_text
from rewardharness.settings import Settings

ROOT = Path(__file__).parents[2]
"""Root of the repository."""

LAUNCH = """
import json, os, sys
from app.main import launch
from rewardharness.models.probe import PORTS
from rewardharness.models.open import SERVICES
from rewardharness.settings import Settings
SERVICES.update(json.loads(os.environ.get("TEST_SERVICES", "{}")))
PORTS.clear()
PORTS.update(json.loads(os.environ.get("TEST_PORTS", "{}")))
mcp = os.environ.get("TEST_MCP") == "1"
ready = lambda url: print("at", url, flush=True)
launch(Settings.from_env(), host="127.0.0.1", port=int(sys.argv[1]), ready=ready, mcp=mcp)
"""
"""Code that serves the app on the port given, and prints its address when it is there.

Hosted services and local model servers are those of `TEST_SERVICES` and `TEST_PORTS`; `TEST_MCP` serves MCP.
"""


@dataclass(frozen=True)
class Pictures:
    """A source, an edit that does what is asked, and one that spoils the picture."""

    source: Path
    good: Path
    bad: Path
    instruction: str

    def draft(self, candidates: str = "bad good", **changes: Any) -> Draft:
        """The inputs of a comparison: the source and candidates by their names."""
        paths = tuple(str(getattr(self, name)) for name in candidates.split())
        return replace(Draft(str(self.source), paths, (), self.instruction), **changes)


@dataclass(frozen=True)
class Served:
    """The running app."""

    url: str
    cwd: Path
    """Folder that it was started in."""
    feedback: Path
    log: Path
    """What the app has said on stderr, beside what it says to its visitors."""


@dataclass(frozen=True)
class Site:
    """The running app of ann, and the Hub that it uses."""

    app: Served
    hub: HubServer
    token: str
    """Token of ann."""
    halt: Halt
    """Halts processes that the app starts."""


@contextmanager
def running_app(folder: Path, settings: Mapping[str, str]) -> Iterator[Served]:
    """Run the app in a process and on a port of its own.

    Args:
        folder: Where it is started.
        settings: Variables of its environment, beside those of this process that are not about this project.
    """
    port = own_port()
    ours = ("RH_", "GRADIO_", "HF_", "HUGGING_FACE_")
    env = {name: value for name, value in os.environ.items() if not name.startswith(ours)}
    env |= {"RH_HOME": str(folder / "home"), "RH_WORKERS": "2"}
    # Of its own too: an app that ends takes uploads away, and equal ones of another app would have the same place.
    env |= {"GRADIO_TEMP_DIR": str(folder / "uploads"), **settings}
    env["PYTHONPATH"] = os.pathsep.join([str(ROOT), *filter(None, [settings.get("PYTHONPATH")])])
    log = folder / "log.txt"
    with (
        log.open("wb") as errors,
        subprocess.Popen(
            [sys.executable, "-c", LAUNCH, str(port)],
            cwd=folder,
            env=env,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as process,
    ):
        assert process.stdout is not None
        # In a Space Gradio says something of its own first.
        place = next((line.split()[1] for line in process.stdout if line.startswith("at ")), None)
        assert place is not None, f"the app did not start: {log.read_text(encoding='utf-8')}"
        try:
            yield Served(place.rstrip("/"), folder, folder / "home" / "feedback", log)
        finally:
            # Not an interrupt: where the tests run in the background, those are ignored by all that they start.
            process.terminate()
            process.communicate(timeout=300)


def make_services(place: Path, *, local: bool = True, home: Path | None = None, **env: str) -> AppServices:
    """The services of an app. `place`: a folder for its files, in which its home is unless that is given."""
    settings = Settings.from_env({"RH_HOME": str(home or place / "home"), "RH_WORKERS": "1", **env})
    return AppServices(settings, place / "scratch", local=local)


S = TypeVar("S", bound=FollowedRun)


def follow(services: RunService[S, Any], name: str, until: Callable[[S], bool] = lambda status: False) -> S:
    """Look at a run until something is true of it, or it rests."""
    while True:
        status = services.look(name)
        if until(status) or status.state not in MOVING:
            return status
        time.sleep(0.01)


def draw_square(ground: np.ndarray, color: tuple[int, int, int]) -> np.ndarray:
    """A picture with a square on it."""
    drawn = ground.copy()
    drawn[20:44, 20:44] = color
    return drawn


def draw_ground(random: np.random.Generator) -> np.ndarray:
    """A textured ground of a random color."""
    ground = np.full((64, 64, 3), random.integers(90, 200, 3), np.uint8)
    return ground + random.integers(0, 12, ground.shape, dtype=np.uint8)


def write_pairs(folder: Path, rows: Iterable[Mapping[str, Any]]) -> Path:
    """Write the table of a folder of pairs, and return the folder."""
    write_text(folder / "pairs.jsonl", "".join(json.dumps(row) + "\n" for row in rows))
    return folder
