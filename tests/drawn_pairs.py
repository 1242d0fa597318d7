"""Small drawn pairs, and a Library that is mostly wrong about them."""

import json
from pathlib import Path

import numpy as np
from PIL import Image

from rewardharness.files import write_text
from rewardharness.library.entry import Entry
from rewardharness.library.rubric import Criterion, Rubric

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
