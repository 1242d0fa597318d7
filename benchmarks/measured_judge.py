"""What the measured judge costs: CPU and memory of one 1024x1024 pair, and of starting up.

Prints figures as they come and ends with one line of JSON. Times are CPU seconds of this process and its
children, without OCR; memory is the largest resident size of a fresh process that judges one pair.

    python benchmarks/measured_judge.py [--pairs N]
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
from PIL import Image

from rewardharness import Example, ImageInput, Library, MeasuredJudge, open_library
from rewardharness.library.store import RemoveEntry, ReplaceEntry

SIDE = 1024
OCR = {"text_match", "unasked_text"}


def draw(folder: Path) -> Example:
    """Write a photo-like source, a clean edit and an over-edit as PNG files."""
    random = np.random.default_rng(0)
    coarse = random.integers(0, 255, (12, 12, 3), dtype=np.uint8)
    scene = np.asarray(Image.fromarray(coarse).resize((SIDE, SIDE), Image.Resampling.BICUBIC), dtype=np.int16)
    source = np.clip(scene + random.normal(0, 6, scene.shape), 0, 255).astype(np.uint8)
    edit = source.copy()
    edit[380:620, 400:700] = (200, 30, 40)
    over = edit.copy()
    over[60:300, 60:300] = over[60:300, 60:300] // 2
    paths = []
    for name, pixels in (("source", source), ("edit", edit), ("over", over)):
        paths.append(folder / f"{name}.png")
        Image.fromarray(pixels).save(paths[-1])
    images = [ImageInput(path.stem, path) for path in paths]
    return Example("bench", "make the box in the middle red", images[0], (images[1], images[2]))


def without_ocr(library: Library) -> Library:
    """Return the Library without the Tools and criteria that read text."""
    for entry in library.entries:
        if entry.measure in OCR:
            library = library.apply(RemoveEntry(entry.name))
        elif entry.rubric is not None:
            kept = tuple(each for each in entry.rubric.criteria if each.measure not in OCR)
            if kept != entry.rubric.criteria:
                rubric = replace(entry.rubric, criteria=kept) if kept else None
                library = library.apply(ReplaceEntry(replace(entry, rubric=rubric)))
    return library


def time_pairs(example: Example, library: Library, pairs: int) -> tuple[float, float]:
    """Judge an example several times; return CPU and wall seconds per judgment, after one to warm up."""
    judge = MeasuredJudge()
    judgment = judge.judge_now(example, library)
    assert judgment.preference == "A", judgment
    cpu, wall = time.process_time(), time.perf_counter()
    for _ in range(pairs):
        judge.judge_now(example, library)
    return (time.process_time() - cpu) / pairs, (time.perf_counter() - wall) / pairs


def children_cpu(command: list[str]) -> tuple[float, float]:
    """Run a command; return its CPU seconds and its largest resident size in MB."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return cpu, after.ru_maxrss / 1024


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pairs", type=int, default=10)
    arguments = parser.parse_args()
    starts = {
        "import_cpu_s": min(children_cpu([sys.executable, "-c", "import rewardharness"])[0] for _ in range(5)),
        "help_cpu_s": min(
            children_cpu([sys.executable, "-c", "from rewardharness.cli.main import main; main(['--help'])"])[0]
            for _ in range(5)
        ),
    }
    with tempfile.TemporaryDirectory() as name:
        example = draw(Path(name))
        score = [sys.executable, "-m", "rewardharness", "score", "--source", str(example.source.path), "--json"]
        score += ["--instruction", example.instruction]
        for candidate in example.candidates:
            score += ["--candidate", str(candidate.path)]
        whole_cpu, peak = children_cpu(score)
        library = open_library("builtin")
        cpu, seconds = time_pairs(example, without_ocr(library), arguments.pairs)
        ocr_cpu, _ = time_pairs(example, library, max(1, arguments.pairs // 2))
    figures = {
        "pair_1024_cpu_s": round(cpu, 4),
        "pair_1024_wall_s": round(seconds, 4),
        "pair_1024_with_ocr_cpu_s": round(ocr_cpu, 4),
        "score_command_cpu_s": round(whole_cpu, 3),
        "score_command_peak_mb": round(peak, 1),
        **{key: round(value, 3) for key, value in starts.items()},
    }
    for key, value in figures.items():
        print(f"{key:28} {value}")
    print(json.dumps(figures))
    return 0


if __name__ == "__main__":
    sys.exit(main())
