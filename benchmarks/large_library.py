"""What large Libraries and many results cost, next to the least that they can cost, in CPU time of one process.

A generated Library of 1,000 Skills with rubrics is loaded, and instructions that are new to it are routed. A generated
dataset of 10,000 pairs is opened, and the report of as many results is made, as resuming a run does. A folder of 1,000
runs is listed. The floors read the same files and parse them: YAML with the C parser, JSON with Python's own. To
compare two versions, give the checkout of the other one with --against; its figures come from the same run, taken in
turns, and the best of all turns counts.

    python benchmarks/large_library.py [--against REVISION] [--turns 3] [--dir FOLDER]
"""

import argparse
import contextlib
import gc
import io
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from _against import add_against

ROOT = Path(__file__).parents[1]
ENTRIES, PAIRS, RUNS, INSTRUCTIONS = 1000, 10_000, 1000, 200
NOUNS = "sky water grass tree car dog cat shirt hair face hand logo sign window door building street lake bird".split()
VERBS = "add remove replace change move enlarge shrink recolor brighten darken blur sharpen rotate crop write".split()
FLOORS = {"library loaded": "library read", "dataset opened": "dataset read", "results reported": "results read"}


def generate(folder: Path) -> None:
    """Generate the Library, the dataset, the results and the runs."""
    from rewardharness.library.entry import Entry
    from rewardharness.library.rubric import Criterion, Rubric
    from rewardharness.library.store import Library

    draw = random.Random(0)
    entries = []
    for number in range(ENTRIES):
        verb, noun = draw.choice(VERBS), draw.choice(NOUNS)
        body = "\n".join(f"- Compare the {draw.choice(NOUNS)} with that of the source image." for _ in range(10))
        rubric = Rubric(tuple(Criterion(f"c{number}-{each}", f"The {noun} is {verb} as asked.") for each in range(3)))
        triggers = ("", f"{verb} {noun}, {draw.choice(NOUNS)}", rf"/\b{verb}\w* .{{0,40}}{noun}/")[number % 3]
        about = f"How to judge {verb} of a {noun} when the instruction concerns a {draw.choice(NOUNS)}."
        metadata = {"triggers": triggers} if triggers else {}
        entries.append(Entry(f"{verb}-{noun}-{number}", "skill", about, body, metadata, rubric=rubric))
    Library(tuple(entries)).save(folder / "library")
    (folder / "data").mkdir()
    (folder / "runs").mkdir()
    with (folder / "data/pairs.jsonl").open("w") as pairs, (folder / "results.jsonl").open("w") as results:
        for number in range(PAIRS):
            images = {name: f"{number}-{name}.png" for name in ("source", "candidate_a", "candidate_b")}
            for place, name in enumerate(images.values()):
                (folder / "data" / name).touch()
                os.truncate(folder / "data" / name, 100 + 3 * number + place)
            row = {"id": f"p{number}", "instruction": f"Make the {draw.choice(NOUNS)} red.", "preference": "A"}
            pairs.write(json.dumps({**row, **images, "label_kind": "generated"}) + "\n")
            results.write(json.dumps(_result(f"p{number}")) + "\n")
    for number in range(RUNS):
        run = folder / f"runs/run-{number}"
        run.mkdir()
        manifest = {"command": "score", "data": "0" * 64, "judge": "measured (no VLM)", "protocol": "measured"}
        (run / "run.json").write_text(json.dumps(manifest, indent=2))
        session = {"started": "2026-01-01", "ended": "2026-01-01", "condition": "done", "reason": ""}
        session |= {"words": ["score", "data"], "arguments": {"data": "data"}, "folder": "/", "package": {}}
        record = {"schema": 1, "command": "score", "created": "2026-01-01", "about": manifest, "sessions": [session]}
        (run / "record.json").write_text(json.dumps(record, indent=2))


def _result(name: str) -> dict[str, object]:
    scores = {label: {"instruction": 2.5, "quality": 3.5, "reward": 0.6, "variance": None} for label in "AB"}
    entries = [{"name": f"entry-{each}", "kind": "skill", "reason": "always"} for each in range(15)]
    usage = {"calls": 0, "input_tokens": 0, "output_tokens": 0, "seconds": 0.1}
    verdict = {"preference": "A", "ranking": [["A"], ["B"]], "margin": 0.1, "scores": scores, "entries": entries}
    grounds = {"reasons": ["A reason."] * 8, "notes": ["A note."] * 4, "steps": "x" * 2500}
    return {"id": name, "judge": "j", "protocol": "measured", "library_id": "0" * 64, **verdict, **grounds} | {
        "usage": usage,
        "failure": None,
    }


def measure(folder: Path) -> dict[str, float]:
    """Return the CPU seconds of each step, and of the floors; of routing per instruction."""
    import yaml

    from rewardharness.cli.runs import list_runs
    from rewardharness.data.folder import read_folder
    from rewardharness.judging.report import make_report
    from rewardharness.judging.router import route
    from rewardharness.judgments import judgment_from_json
    from rewardharness.library.store import Library

    def read_library() -> None:
        for file in sorted((folder / "library").glob("skills/*/*")):
            text = file.read_text()
            front = text.removeprefix("---\n").split("\n---\n")[0] if file.suffix == ".md" else text
            yaml.load(front, getattr(yaml, "CSafeLoader", yaml.SafeLoader))

    def read_dataset() -> None:
        for line in (folder / "data/pairs.jsonl").read_text().splitlines():
            row = json.loads(line)
            for name in ("source", "candidate_a", "candidate_b"):
                (folder / "data" / row[name]).stat()

    def read_results() -> list[dict[str, object]]:
        return [json.loads(line) for line in (folder / "results.jsonl").open("rb")]

    def report() -> None:
        examples = read_dataset_examples
        brief = {"reasons": False} if "reasons" in judgment_from_json.__kwdefaults__ else {}
        make_report(
            (example, judgment_from_json(line, steps=False, **brief))
            for example, line in zip(examples, read_results(), strict=True)
        )

    def list_all() -> None:
        with contextlib.redirect_stdout(io.StringIO()):
            list_runs(folder=folder / "runs")

    library = Library.load(folder / "library")
    read_dataset_examples = read_folder(folder / "data").examples
    route(library, "Compile the expressions first.")
    texts = [f"{VERBS[each % 15].title()} the {NOUNS[each % 19]} number {each}." for each in range(INSTRUCTIONS)]
    steps: dict[str, Callable[[], object]] = {
        "library read": read_library,
        "library loaded": lambda: Library.load(folder / "library"),
        "instruction routed": lambda: [route(library, text) for text in texts],
        "dataset read": read_dataset,
        "dataset opened": lambda: read_folder(folder / "data"),
        "results read": read_results,
        "results reported": report,
        "runs listed": list_all,
    }
    found = {}
    for name, step in steps.items():
        gc.collect()
        begun = time.process_time()
        step()
        found[name] = time.process_time() - begun
    found["instruction routed"] /= len(texts)
    return found


def _measured_by(checkout: Path, folder: Path) -> dict[str, float]:
    command = [sys.executable, __file__, "--measure", "--dir", str(folder)]
    done = subprocess.run(
        command, env={**os.environ, "PYTHONPATH": str(checkout)}, check=True, capture_output=True, text=True
    )
    return dict(json.loads(done.stdout.splitlines()[-1]))


def main() -> None:
    """Measure in turns, and print a table and one line of JSON."""
    parser = argparse.ArgumentParser()
    add_against(parser)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--dir", type=Path)
    parser.add_argument("--measure", action="store_true")
    options = parser.parse_args()
    if options.measure:
        print(json.dumps(measure(options.dir)))
        return
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.dir or Path(scratch)
        if not (folder / "runs").exists():
            generate(folder)
        checkouts = {"now": ROOT, **({"other": options.against} if options.against else {})}
        best: dict[str, dict[str, float]] = {name: {} for name in checkouts}
        for _ in range(options.turns):
            for name, checkout in checkouts.items():
                for step, seconds in _measured_by(checkout, folder).items():
                    best[name][step] = min(seconds, best[name].get(step, seconds))
    for step, seconds in best["now"].items():
        floor = best["now"].get(FLOORS.get(step, ""))
        ratio = f"{seconds / floor:.1f} x floor" if floor else ""
        other = best.get("other", {}).get(step)
        print(f"{step:20} {1000 * seconds:9.2f} ms  {ratio:14} {f'other: {other / seconds:.1f} x' if other else ''}")
    print(json.dumps(best))


if __name__ == "__main__":
    main()
