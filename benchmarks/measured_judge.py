"""Measure what the pixel-based judge costs: CPU per pair by size and stage, per floor, memory, start, and a dataset.

Times are CPU seconds of the process and its children. The floor of a size is decoding the three images of a pair and
converting each to CIELAB once. With `--against`, figures of pairs are also measured with another checkout, in turns,
because other work on a machine changes CPU time, too. Prints figures as they come, and ends with one line of JSON.

    python benchmarks/measured_judge.py [--pairs N] [--rows N] [--against REVISION]
"""

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

import cv2
import numpy as np
from _against import add_against
from PIL import Image

from rewardharness import Example, ImageInput, Library, MeasuredJudge, open_library
from rewardharness.data.folder import read_folder
from rewardharness.demo.dataset import make_demo
from rewardharness.judging.evaluate import evaluate
from rewardharness.library.store import RemoveEntry, ReplaceEntry
from rewardharness.measure import text
from rewardharness.measure.images import load_picture
from rewardharness.measure.view import EditView

SIDE = 1024
SIDES = (512, SIDE, 2048)
ROUNDS = 2
"""Turns of each checkout with `--against`; the least of them counts."""
OCR = {"text_match", "unasked_text"}


def draw(folder: Path, side: int = SIDE) -> Example:
    """Write a photo-like source, a clean edit and an over-edit as PNG files."""
    random = np.random.default_rng(0)
    coarse = random.integers(0, 255, (12, 12, 3), dtype=np.uint8)
    scene = np.asarray(Image.fromarray(coarse).resize((side, side), Image.Resampling.BICUBIC), dtype=np.int16)
    source = np.clip(scene + random.normal(0, 6, scene.shape), 0, 255).astype(np.uint8)
    edit = source.copy()
    at = side / SIDE
    edit[int(380 * at) : int(620 * at), int(400 * at) : int(700 * at)] = (200, 30, 40)
    over = edit.copy()
    corner = np.s_[int(60 * at) : int(300 * at), int(60 * at) : int(300 * at)]
    over[corner] = over[corner] // 2
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


def forget() -> None:
    """Forget the text of images, so that it is read again; earlier revisions remember none."""
    getattr(text, "_remembered", {}).clear()


def time_pairs(example: Example, library: Library, pairs: int) -> tuple[float, float]:
    """Judge an example several times; return CPU and wall seconds per judgment, after one to warm up."""
    judge = MeasuredJudge()
    judgment = judge.judge_now(example, library)
    assert judgment.preference == "A", judgment
    cpu, wall = time.process_time(), time.perf_counter()
    for _ in range(pairs):
        forget()
        judge.judge_now(example, library)
    return (time.process_time() - cpu) / pairs, (time.perf_counter() - wall) / pairs


def time_stages(example: Example, library: Library, pairs: int) -> dict[str, float]:
    """Return CPU seconds per judgment by stage: the floor, decoding, locating the edit, the other measures, and OCR."""
    stages: dict[str, float] = {}

    def clock(stage: str, since: float) -> float:
        now = time.process_time()
        stages[stage] = stages.get(stage, 0.0) + (now - since) / pairs
        return now

    for _ in range(pairs):
        started = time.process_time()
        pictures = [load_picture(image) for image in (example.source, *example.candidates)]
        since = clock("decode", started)
        for picture in pictures:
            cv2.cvtColor(picture.pixels.astype(np.float32) / 255.0, cv2.COLOR_RGB2Lab)
        clock("floor", started)
        since = time.process_time()
        for candidate in pictures[1:]:
            assert EditView(pictures[0], candidate).changed.any()
        clock("locate", since)
    whole, _ = time_pairs(example, without_ocr(library), pairs)
    with_ocr, _ = time_pairs(example, library, pairs)
    measures = whole - stages["decode"] - stages["locate"]
    return {**stages, "measures": measures, "without_ocr": whole, "ocr": with_ocr - whole}


def time_dataset(folder: Path, rows: int, workers: int) -> dict[str, float]:
    """Judge generated pairs with OCR; return rows per second, CPU seconds per row and busy cores."""
    make_demo(folder, pairs=rows, groups=0, workers=workers)
    examples, library = list(read_folder(folder).examples), open_library("builtin")
    judge = MeasuredJudge(workers=workers)
    evaluate(judge, library, examples[:workers], concurrency=workers)  # opens the engines
    forget()
    cpu, wall = time.process_time(), time.perf_counter()
    evaluate(judge, library, examples, concurrency=workers)
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    return {"rows_per_s": rows / wall, "cpu_s_per_row": cpu / rows, "cores_busy": cpu / wall}


def in_turns(checkouts: list[Path], folder: Path, pairs: int) -> list[dict[str, float]]:
    """Time a pair of each size with and without OCR with each checkout in turns; return the least of each figure."""
    found: list[dict[str, float]] = [{} for _ in checkouts]
    for _ in range(ROUNDS if len(checkouts) > 1 else 1):
        for figures, checkout in zip(found, checkouts, strict=True):
            command = [sys.executable, __file__, "--pair-in", str(folder), "--pairs", str(pairs)]
            env = {**os.environ, "PYTHONPATH": str(checkout)}
            taken = subprocess.run(command, check=True, env=env, stdout=subprocess.PIPE, text=True).stdout
            for name, value in json.loads(taken).items():
                figures[name] = min(value, figures.get(name, value))
    return found


def pair_figures(folder: Path, pairs: int) -> dict[str, float]:
    """Return CPU seconds per pair by size, with and without OCR."""
    library, figures = open_library("builtin"), {}
    for side in SIDES:
        (place := folder / str(side)).mkdir(exist_ok=True)
        example = draw(place, side)
        figures[f"pair_{side}_cpu_s"], _ = time_pairs(example, without_ocr(library), pairs)
        figures[f"pair_{side}_with_ocr_cpu_s"], _ = time_pairs(example, library, max(1, pairs // 2))
    return figures


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
    parser.add_argument("--pairs", type=int, default=3, help="judgments per figure")
    parser.add_argument("--rows", type=int, default=12, help="pairs of the generated dataset")
    add_against(parser)
    parser.add_argument("--pair-in", type=Path, help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.pair_in is not None:
        print(json.dumps(pair_figures(arguments.pair_in, arguments.pairs)))
        return 0
    figures: dict[str, float] = {}

    def keep(found: dict[str, float]) -> None:
        """Print figures at once, so that those of a run that is stopped are not lost."""
        figures.update(found)
        for key, value in found.items():
            print(f"{key:40} {value:.4g}", flush=True)

    keep(start_figures())
    with tempfile.TemporaryDirectory() as name:
        folder, here = Path(name), Path(__file__).resolve().parent.parent
        example = draw(folder)
        keep(command_figures(example))
        stages = time_stages(example, open_library("builtin"), arguments.pairs)
        keep({f"stage_{stage}_cpu_s": seconds for stage, seconds in stages.items()})
        keep({"pair_1024_per_floor": stages["without_ocr"] / stages["floor"]})
        checkouts = [here, *([arguments.against] if arguments.against else [])]
        own, *other = in_turns(checkouts, folder, arguments.pairs)
        keep(own)
        for earlier in other:
            keep({f"{key}_of_other": own[key] / earlier[key] for key in own})
        for workers in sorted({1, os.cpu_count() or 1}):
            taken = time_dataset(folder / "demo", arguments.rows, workers)
            keep({f"dataset_{workers}_workers_{key}": value for key, value in taken.items()})
    print(json.dumps({key: round(value, 4) for key, value in figures.items()}))
    return 0


def start_figures() -> dict[str, float]:
    """Return CPU seconds of the import and of the help."""
    commands = {
        "import_cpu_s": "import rewardharness",
        "help_cpu_s": "from rewardharness.cli.main import main; main(['--help'])",
    }
    return {
        key: min(children_cpu([sys.executable, "-c", command])[0] for _ in range(5))
        for key, command in commands.items()
    }


def command_figures(example: Example) -> dict[str, float]:
    """Return CPU seconds and peak memory of `rh score` for one pair."""
    score = [sys.executable, "-m", "rewardharness", "score", "--no-cache", "--json"]
    score += ["--source", str(example.source.path), "--instruction", example.instruction]
    for candidate in example.candidates:
        score += ["--candidate", str(candidate.path)]
    cpu, peak = children_cpu(score)
    return {"score_command_cpu_s": cpu, "score_command_peak_mb": peak}


if __name__ == "__main__":
    sys.exit(main())
