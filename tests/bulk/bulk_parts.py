"""Edits with any number of candidates, drawn here: a red square that becomes more or less blue."""

import json
from pathlib import Path

import cv2
import numpy as np

from rewardharness.bulk.config import PreferencePairsConfig

INSTRUCTION = "Make the square blue."


def picture(path: Path, blue: int, *, shade: int = 90) -> Path:
    """Draw a square of so much blue, 0 to 255, on a background of a shade."""
    image = np.full((64, 64, 3), shade, np.uint8)
    image[16:48, 16:48] = (blue, 0, 255 - blue)
    path.parent.mkdir(parents=True, exist_ok=True)
    assert cv2.imwrite(str(path), image)
    return path


def folders(root: Path, edits: int = 3, candidates: int = 5) -> Path:
    """Write one folder for each edit; the source of each is another picture."""
    for edit in range(edits):
        folder = root / f"edit-{edit}"
        picture(folder / "source.png", 0, shade=60 + edit)
        for number in range(candidates):
            picture(folder / f"c{number}.png", 40 + 35 * number, shade=60 + edit)
        (folder / "instruction.txt").write_text(INSTRUCTION + "\n", encoding="utf-8")
    return root


def table(root: Path, edits: int = 2, runs: tuple[str, ...] = ("first", "second")) -> Path:
    """Write the same as a table."""
    lines = []
    for edit in range(edits):
        picture(root / f"s{edit}.png", 0, shade=60 + edit)
        names = [f"c{edit}-{number}.png" for number in range(3)]
        for number, name in enumerate(names):
            picture(root / name, 60 * (number + 1), shade=60 + edit)
        row = {"id": f"e{edit}", "source": f"s{edit}.png", "instruction": INSTRUCTION, "candidates": names}
        lines.append(json.dumps({**row, "run": runs[edit % len(runs)]}))
    (root / "candidates.jsonl").write_text("\n".join(lines) + "\n", encoding="utf-8")
    return root


def pair_rules(**options):
    return PreferencePairsConfig("data", output=Path("pairs"), **options)
