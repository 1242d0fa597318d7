"""A lineage made by the commands that make one: an evolution, its release, two trainings, their evals, a comparison."""

import json
import os
from dataclasses import dataclass
from pathlib import Path

import pytest
from evolve_parts import make_pairs, make_timid

from rewardharness.cli.main import main
from rewardharness.files import write_text

ATTACK = "<img src=x onerror=window.owned=1>"
"""Stands in a message of a failure."""


@dataclass(frozen=True)
class Scene:
    """Where everything lies."""

    home: Path
    """As in `RH_HOME`."""
    place: Path
    """The folder that the commands were given in."""
    run: Path
    """The evolution."""
    release: str
    """Id of the release."""


def rh(*words: object) -> None:
    """Run a command, which must succeed."""
    assert main([str(word) for word in words]) == 0


def make_scene(folder: Path) -> Scene:
    """Make it all, by real commands. `RH_HOME` and the working directory are those of `folder` meanwhile."""
    home, place = folder / "home", folder / "place"
    place.mkdir(parents=True)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(place)
        for name in [each for each in os.environ if each.startswith("RH_")]:
            patch.delenv(name)
        patch.setenv("RH_HOME", str(home))
        patch.setenv("RH_WORKERS", "2")
        patch.setenv("RH_REGRESSION_PAIRS", "0")  # drawing and judging them takes a minute
        make_pairs(place / "pairs")
        make_timid(place / "timid")
        run = home / "runs" / "evolution"
        rh("evolve", "--data", "pairs", "--library", "timid", "--run", run, "--quiet")
        rh("release", "create", "--library", run / "library", "-o", "reward.release")
        release = json.loads((place / "reward.release").read_text("utf-8"))
        _train()
    return Scene(home, place, run, release["id"])


def _train() -> None:
    write_text(Path("out/weights.bin"), "weights")
    write_text(Path("config.json"), json.dumps({"lr": 1e-5, "kl": 0.04}))
    points = [{"step": step, "reward": step / 10} for step in range(5)]
    write_text(Path("curve.jsonl"), "\n".join(map(json.dumps, points)))
    for name, wrong in (("before", 20), ("after", 5)):
        rows = [{"id": f"e{number}", "accuracy": number >= wrong} for number in range(50)]
        write_text(Path(f"{name}.jsonl"), "\n".join(map(json.dumps, [*rows, {"id": "e50", "accuracy": None}])))
    plan = ("--base-model", "org/base", "--base-revision", "1a2b3c", "--release", "reward.release")
    plan += ("--data", "prompts", "--data-revision", "v3", "--trainer", "verl-omni", "--config", "config.json")
    lineage = ("lineage", "record-manifest")
    rh(*lineage, "grpo-1", *plan, "--seed", "1", "--expect", "accuracy,higher,target=0.8")
    failed = ("--status", "failed", "--stage", "preflight", "--message", f"No GPU is free {ATTACK}")
    rh("lineage", "record-result", "grpo-1", *failed)
    rh(*lineage, "grpo-2", *plan, "--seed", "2", "--parent", "result.grpo-1")
    done = ("--status", "succeeded", "--artifact", "last=out", "--steps", "400", "--curve", "curve.jsonl")
    rh("lineage", "record-result", "grpo-2", *done)
    metric = ("--metric", "accuracy,higher,n=51", "--benchmark", "edits", "--protocol", "both orders")
    rh("lineage", "record-eval", "before", "--model", "org/base@1a2b3c", *metric, "--items", "before.jsonl")
    rh("lineage", "record-eval", "after", "--artifact", "grpo-2/last", *metric, "--items", "after.jsonl")
    rh("lineage", "compare", "before", "after", "--name", "gain")
