"""Small drawn pairs, a Library that is mostly wrong about them, and one that is right about a box made red."""

import json
from pathlib import Path

import numpy as np
from PIL import Image

from rewardharness.files import write_text
from rewardharness.library.entry import Entry
from rewardharness.library.opening import open_library
from rewardharness.library.rubric import Criterion, Rubric
from rewardharness.library.store import Library

COLORS = {"red": (200, 30, 30), "green": (30, 160, 40), "blue": (40, 60, 200)}
TIMID = Entry(
    "timid",
    "skill",
    "For all.",
    "Change nothing.",
    {"triggers": "always"},
    rubric=Rubric((Criterion("untouched", "Nothing changed.", measure="structure_kept"),)),
)
"""Prefers whoever changed less, which people never do in these pairs."""


def draw_pairs(folder: Path, count: int) -> None:
    """Draw pairs of a recoloured square and the untouched source. People prefer the one that did something."""
    folder.mkdir(parents=True, exist_ok=True)
    random = np.random.default_rng(0)
    rows = []
    for number in range(count):
        source = np.full((48, 48, 3), random.integers(90, 200, 3), np.uint8)
        source += random.integers(0, 12, source.shape, dtype=np.uint8)
        color = list(COLORS)[number % len(COLORS)]
        edited = source.copy()
        edited[14:34, 14:34] = COLORS[color]
        pictures = [source, edited, source] if number % 2 else [source, source, edited]
        for name, pixels in zip(("s", "a", "b"), pictures, strict=True):
            Image.fromarray(pixels).save(folder / f"{name}{number}.png")
        row = {"id": f"p{number:02d}", "source": f"s{number}.png", "candidate_a": f"a{number}.png"}
        row |= {"candidate_b": f"b{number}.png", "instruction": f"make the square {color}", "label_kind": "drawn"}
        rows.append(row | {"preference": "A" if number % 2 else "B"})
    write_text(folder / "pairs.jsonl", "".join(json.dumps(row) + "\n" for row in rows))


def draw_box(folder: Path) -> None:
    """Draw a gray box: `source.png`, made `red.png`, hardly made red, `pale.png`, and left as it was, `same.png`."""
    folder.mkdir(parents=True, exist_ok=True)
    pixels = np.random.default_rng(4).integers(60, 200, (96, 96, 3), dtype=np.uint8)
    for name, level in (("source", 0), ("red", 90), ("pale", 25), ("same", 0)):
        pixels[30:70, 30:70] = (120 + level, 120 - level, 110 - level)
        Image.fromarray(pixels).save(folder / f"{name}.png")


def two_skills() -> Library:
    """A Library of two Skills that can be measured without an extra."""
    names = {"color-and-material-changes", "preserving-the-rest"}
    return Library(tuple(each for each in open_library("builtin").entries if each.name in names))
