"""Scores a dataset with all trackers, resumes it, and prints what they hold, read with their own libraries.

Run in an environment that has trackio, wandb and tensorboard: DATA FOLDER. Prints a JSON object.
"""

import json
import sys
from pathlib import Path
from typing import Any

import trackio
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
from trackio.sqlite_storage import SQLiteStorage

from rewardharness.cli.main import main


def score(data: str, folder: Path) -> int:
    """Judge the dataset, logged to all trackers."""
    track = "trackio:edits,wandb:edits,tensorboard:edits"
    return main(["score", data, "--run", str(folder / "run"), "--track", track, "--quiet", "--json"])


def read(folder: Path) -> dict[str, Any]:
    """Read what the trackers hold."""
    runs = list(trackio.Api().runs("edits"))
    (board,) = (folder / "home" / "tensorboard" / "edits").iterdir()
    events = EventAccumulator(str(board)).Reload()
    return {
        "trackio": [[run.name, run.config, SQLiteStorage.get_logs("edits", run.name)] for run in runs],
        "tensorboard": [
            board.name,
            {tag: [[each.step, each.value] for each in events.Scalars(tag)] for tag in events.Tags()["scalars"]},
        ],
        "wandb": [
            [file.parent.name, file.read_bytes().decode("latin-1")]
            for file in sorted((folder / "wandb").glob("offline-run-*/*.wandb"))
        ],
    }


if __name__ == "__main__":
    folder = Path(sys.argv[2])
    statuses = [score(sys.argv[1], folder)]
    results = folder / "run" / "results.jsonl"
    lines = results.read_text("utf-8").splitlines(keepends=True)
    results.write_text("".join(lines[:3]), "utf-8")
    statuses.append(score(sys.argv[1], folder))
    (folder / "seen.json").write_text(json.dumps({"statuses": statuses, **read(folder)}, default=str), "utf-8")
