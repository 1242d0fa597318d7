"""A small world to evolve in, for tests of the app: squares to recolour or remove, and a Library for doing nothing.

The Library's only criterion is how little was changed; the first proposals of the built-in Orchestrator help.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from app_parts import draw_ground, draw_square, make_services, write_pairs
from model_server import Call, completion
from PIL import Image

from app.evolve.service import EvolveServices
from rewardharness.library.entry import Entry
from rewardharness.library.rubric import Criterion, Rubric
from rewardharness.library.store import Library

PAIRS = 48
COLORS = {"red": (200, 30, 30), "green": (30, 160, 40), "blue": (40, 60, 200), "yellow": (220, 200, 40)}
WRONG = "p00"
"""Id of the pair whose label is wrong: it says A, and B is better. It is not put aside for the audit."""


def make_pairs(folder: Path) -> Path:
    """Draw pairs of a square that was recoloured or removed as asked, and one that was given another colour."""
    folder.mkdir(parents=True)
    random = np.random.default_rng(0)
    rows = []
    for number in range(PAIRS):
        ground = draw_ground(random)
        color, other = (list(COLORS)[(number + step) % len(COLORS)] for step in (0, 1))
        source, good, bad = draw_square(ground, (20, 20, 20)), ground, draw_square(ground, COLORS[other])
        asked = "remove the square"
        if number % 4 < 2:
            good, asked = draw_square(ground, COLORS[color]), f"make the square {color}"
        name = f"p{number:02d}"
        pictures = [source, good, bad] if number % 2 else [source, bad, good]
        for letter, pixels in zip("sab", pictures, strict=True):
            Image.fromarray(pixels).save(folder / f"{letter}{number}.png")
        right = (number % 2 == 1) != (name == WRONG)
        row = {"id": name, "source": f"s{number}.png", "candidate_a": f"a{number}.png"}
        row |= {"candidate_b": f"b{number}.png", "instruction": asked, "label_kind": "drawn"}
        rows.append(row | {"preference": "A" if right else "B"})
    return write_pairs(folder, rows)


def make_timid(folder: Path) -> Path:
    """Write the Library."""
    rubric = Rubric((Criterion("untouched", "Little was changed.", measure="edit_extent"),))
    sharp = Rubric((Criterion("sharp", "It is sharp.", measure="sharpness", weight=0.3),))
    entries = [Entry("sharpness", "skill", "For all.", "Look at edges.", {"triggers": "always"}, rubric=sharp)]
    entries += [
        Entry(f"timid-{name}", "skill", f"For {name}.", "Change little.", {"triggers": word}, rubric=rubric)
        for name, word in (("colors", "make"), ("removals", "remove"))
    ]
    Library(tuple(entries)).save(folder)
    return folder


def prefer_by_bytes(call: Call) -> Mapping[str, Any] | None:
    """Answer as a model that always prefers the same picture, in whichever place it is shown."""
    if len(call.images) < 3 or call.is_probe:
        return None  # a question of a check
    _, *shown = [str(uuid or url) for url, uuid in call.images]
    best = "AB"[shown[0] < shown[1]]
    scores = {label: {"instruction": 4 if label == best else 1, "quality": 3} for label in "AB"}
    return completion(f"<answer>{json.dumps({'preference': best, 'scores': scores})}</answer>")


def services_of(home: Path, scratch: Path, *, local: bool = True, **env: str) -> EvolveServices:
    """The services of an app."""
    return make_services(scratch, local=local, home=home, **env).evolve
