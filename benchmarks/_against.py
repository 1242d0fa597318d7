"""How a benchmark is measured with another revision of the project too, in the same run."""

import argparse
import atexit
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[1]


def checkout(revision: str) -> Path:
    """Return a folder with a revision: the folder of this name, else a git worktree until this process ends."""
    if Path(revision).is_dir():
        return Path(revision).resolve()
    scratch = tempfile.TemporaryDirectory()
    folder, git = Path(scratch.name, "checkout"), ["git", "-C", str(ROOT), "worktree"]
    done = subprocess.run([*git, "add", "--detach", folder, revision], capture_output=True, text=True, check=False)
    if done.returncode:
        raise argparse.ArgumentTypeError(f"neither a folder nor a revision: {done.stderr.strip()}")
    atexit.register(scratch.cleanup)
    atexit.register(subprocess.run, [*git, "remove", "--force", folder], check=True)  # this first
    return folder


def add_against(parser: argparse.ArgumentParser) -> None:
    """Add the option `--against`, whose value is the folder of a checkout."""
    text = "git revision, or folder of a checkout, to measure in the same run"
    parser.add_argument("--against", type=checkout, metavar="REVISION", help=text)


def with_other(figures: Any, against: Path | None) -> Any:
    """Return figures, with those that the same benchmark of another checkout prints in its last line."""
    if against is None:
        return figures
    words = sys.argv[1:]
    place = next(index for index, word in enumerate(words) if word.startswith("--against"))
    del words[place : place + (1 if "=" in words[place] else 2)]
    command = [sys.executable, str(against / "benchmarks" / Path(sys.argv[0]).name), *words]
    environment = {**os.environ, "PYTHONPATH": str(against)}
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    return {"now": figures, "before": json.loads(done.stdout.splitlines()[-1])}
