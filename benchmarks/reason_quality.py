"""How often the sentences of the pixel-based judge contradict what the generator of the demo data did.

For each measure it takes the pairs of which the generator knows the answer: which candidate has the defect, repaints
more, is unedited, wrong or incomplete (worse), or that both did what was asked or have the same sharpness, noise,
compression and framing (equal). A comparison is false if it favors the worse candidate, or either of two equal ones.
A sentence about one candidate is false if it faults the edit as asked.

    python benchmarks/reason_quality.py [DEMO FOLDER] [--pairs 400] [--seed 3]

Without a folder the demo data is generated. It prints, per measure and threshold, the sentences and the false ones, and
marks the threshold of the package with *.
"""

import argparse
import json
import tempfile
from collections import defaultdict
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from rewardharness.demo.dataset import make_demo
from rewardharness.judging.instruction import read_instruction
from rewardharness.judging.measured_critique import LOW_GRADE, LOW_GRADES
from rewardharness.judging.measured_reasons import LOW, NOTICEABLE, NOTICEABLE_IN, OF_REGION, same_extent
from rewardharness.judging.readings import SLOW, Loaded, measure
from rewardharness.measure.planes import Reading
from rewardharness.measure.table import MEASURES
from rewardharness.schema import ImageInput

THRESHOLDS = (0.02, 0.05, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5)
DEFECTS = {
    "noise": "noise",
    "blur": "sharpness",
    "blocks": "blockiness",
    "clipped": "clipping",
    "squeezed": "frame_match",
    "seam": "seam",
    "halo": "seam",
}
"""The measure of each defect."""
RECOLORED = ("cast", "clipped", "ghost")
"""Defects that change what was done."""
DONE = frozenset(name for name, each in MEASURES.items() if each.kinds and not each.same_look) - {"fidelity"}
"""Measures of the requested edit, in which a wrong, incomplete or missing edit is worse."""
REST = frozenset({"preservation", "edit_extent"})
EQUAL = frozenset({"sharpness", "noise", "blockiness", "frame_match"})
FILTERS = ("zoom", "mirror", "frame", "tint", "dark", "turned into", "background", "ground", "made")
"""Parts of notes on changes of the whole picture or of a texture, which do not leave those equal."""

Readings = Mapping[str, Reading]


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("folder", nargs="?", type=Path)
    parser.add_argument("--pairs", type=int, default=400)
    parser.add_argument("--seed", type=int, default=3)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        folder = arguments.folder or Path(temporary) / "demo"
        if arguments.folder is None:
            make_demo(folder, pairs=arguments.pairs, groups=0, seed=arguments.seed)
        rows = [json.loads(line) for line in (folder / "pairs.jsonl").read_text("utf-8").splitlines()]
        with ThreadPoolExecutor(2) as pool:
            grades = list(pool.map(lambda row: take(folder, row), rows))
    report(rows, grades)


def take(folder: Path, row: dict[str, Any]) -> dict[str, Readings]:
    """Return the readings of both candidates of a row."""
    request = read_instruction(row["instruction"])
    source = Loaded.of(ImageInput("source", folder / row["source"]))
    names = [name for name, each in MEASURES.items() if not each.learned and name not in SLOW]
    images = {label: Loaded.of(ImageInput(label, folder / row[f"candidate_{label.lower()}"])) for label in "AB"}
    return {label: measure(source, image, request, names, None).readings for label, image in images.items()}


def truth(role: str, note: str) -> Iterator[tuple[str, bool]]:
    """Yield the measures of which the truth is known, and whether the worse candidate is worse there."""
    if role == "over_edit" or (role == "defect" and not note.endswith(RECOLORED)):
        yield from ((name, False) for name in DONE)
    if role == "defect":
        defect = DEFECTS.get(note.rsplit(": ", 1)[-1])
        yield from [(defect, True)] if defect else []
        return
    if role in {"wrong_edit", "partial", "over_edit"} and not any(part in note for part in FILTERS):
        yield from ((name, False) for name in EQUAL)
    if role == "over_edit":
        yield from ((name, True) for name in REST)
    else:
        yield from ((name, True) for name in DONE | ({"edit_presence"} if role != "wrong_edit" else set()))


def report(rows: list[dict[str, Any]], grades: list[dict[str, Readings]]) -> None:
    """Print the table."""
    leads: dict[str, list[tuple[float, bool]]] = defaultdict(list)
    right: dict[str, list[float]] = defaultdict(list)
    for row, taken in zip(rows, grades, strict=True):
        better, worse = row["preference"], "BA"["AB".index(row["preference"])]
        note = row["candidate_notes"]["AB".index(worse)]
        alike = same_extent(taken["A"], taken["B"])
        for name, reading in taken[better].items():
            right[name] += [reading.grade] if reading.grade is not None else []
        for name, is_worse in truth(row["label_kind"].removeprefix("demo_"), note):
            ours, theirs = (taken[label][name].grade if name in taken[label] else None for label in (better, worse))
            if ours is not None and theirs is not None and (alike or name not in OF_REGION):
                leads[name].append((ours - theirs, is_worse))
    said = wrong = 0
    for name, found in sorted(leads.items()):
        chosen = NOTICEABLE_IN.get(name, NOTICEABLE)
        cells = []
        for least in THRESHOLDS:
            sentences = [(lead, is_worse) for lead, is_worse in found if abs(lead) >= least]
            false = sum(not is_worse or lead < 0 for lead, is_worse in sentences)
            cells.append(f"{least}{'*' if least == chosen else ''}: {false}/{len(sentences)}")
            said, wrong = (said + len(sentences), wrong + false) if least == chosen else (said, wrong)
        print(f"{name:20} n {len(found):3}  {'  '.join(cells)}")
    print(f"comparisons at the thresholds of the package: {wrong} of {said} false ({wrong / max(said, 1):.1%})")
    for name, values in sorted(right.items()):
        low = LOW_GRADES.get(name, LOW_GRADE)
        counts = [sum(value < least for value in values) for least in (LOW, low)]
        print(
            f"{name:20} edits as asked {len(values):3}  below {LOW}: {counts[0]}  below {low} (critique): {counts[1]}"
        )


if __name__ == "__main__":
    main()
