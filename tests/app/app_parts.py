"""What the fixtures of this folder hand out."""

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parents[2]
"""Root of the repository."""

LAUNCH = """
import sys
from app.main import launch
from rewardharness.settings import Settings
launch(Settings.from_env(), port=int(sys.argv[1]), ready=lambda url: print("at", url, flush=True))
"""
"""Code that serves the app on the port given, and prints its address when it is there."""


@dataclass(frozen=True)
class Pictures:
    """A source, an edit that does what is asked, and one that spoils the picture."""

    source: Path
    good: Path
    bad: Path
    instruction: str


@dataclass(frozen=True)
class Served:
    """The running app."""

    url: str
    cwd: Path
    """Folder that it was started in; holds two files that are nobody's business."""
    feedback: Path
