"""The files that README and docs name, and what makes each of them when a command of a page needs it."""

import json
import os
import re
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rewardharness.data.folder import read_folder

ROOT = Path(__file__).parents[1]
Make = Callable[[Any, Path, str], object]
"""What makes a file: the desk of the test, the path, and the line that names it."""


def copied(name: str) -> Make:
    """Copy what was made once."""

    def make(desk: Any, path: Path, line: str) -> None:
        source = desk.made / name
        (shutil.copytree if source.is_dir() else shutil.copy)(source, path)

    return make


def ran(*words: str) -> Make:
    """Run a command that writes the file."""
    return lambda desk, path, line: run(desk, *(word.format(path=path, pairs=desk.made / "pairs") for word in words))


def run(desk: Any, *words: str) -> None:
    assert desk.rh(*words) == 0, words


def wrote(text: str) -> Make:
    return lambda desk, path, line: path.write_text(desk.replaced(text), "utf-8")


def release(desk: Any, path: Path, line: str) -> None:
    model = ("--judge", "vllm:NAME") if re.search(r"--judge|JudgeConfig\(judge", line) else ()
    card = ("--card", "report.json") if "--card" in line else ()
    run(desk, "release", "create", "-o", str(path), *model, *card)


def cached(desk: Any, path: Path, line: str) -> None:
    if "cache" in line:
        run(desk, "score", str(desk.made / "pairs"), "--judge", f"vllm:qwen@{desk.values['model']}")


def deployed(desk: Any, path: Path, line: str) -> None:
    if (Path(os.environ["RH_HOME"]) / "deployments" / "prod").exists():
        return
    for number, more in enumerate(((), ("--ties",))):
        run(desk, "release", "create", "-o", f".{number}.json", *more)
        run(desk, "release", "deploy", f".{number}.json", "--target", "prod")
    desk.values["release"] = json.loads(Path(".0.json").read_text("utf-8"))["id"]


CONFIG = """
evolution: {train_dataset: demo, max_iterations: 2, seed: 42}
benchmark: {dataset: TIGER-Lab/EditReward-Bench, max_workers: 4}
"""
A_LIBRARY = ran("library", "new", "{path}", "--copy", "builtin")


def by_hand(desk: Any, path: Path, line: str) -> None:
    if (path.parent / "skills").exists():
        return
    A_LIBRARY(desk, path.parent, line)
    (path.parent / "skills" / path.name).mkdir()
    text = f"---\nname: {path.name}\nkind: skill\ndescription: Colors.\n---\nLook.\n"
    (path.parent / "skills" / path.name / "SKILL.md").write_text(text, "utf-8")
    if "remove" in line:
        run(desk, "library", "add", str(path))


def evolved(desk: Any, path: Path, line: str) -> None:
    """Copy an evolution that runs once."""
    if not (desk.made / "evolved").exists():
        run(desk, "evolve", str(desk.made / "pairs"), "--proposals", "1", "--run", str(desk.made / "evolved"))
    shutil.copytree(desk.made / "evolved", path)


def a_run(desk: Any, path: Path, line: str) -> None:
    make = evolved if re.match("rh runs (compare|follow)", line) else ran("benchmark", "{pairs}", "--run", "{path}")
    make(desk, path, line)


def report(desk: Any, path: Path, line: str) -> None:
    judge = ("--judge", f"vllm:NAME@{desk.values['model']}", "--protocol", "pointwise")
    words = (*judge, "--library", "my_library", "--task-protocol", "pointwise", "--yes") if "--judge" in line else ()
    run(desk, "benchmark", str(desk.made / "pairs"), "--run", "reported", *words)
    shutil.copy("reported/report.json", path)


FILES: dict[str, Make] = {
    **dict.fromkeys(("before.png", "source.png", "in.png", "drawn/images/s0000.jpg"), copied("pairs/s0.png")),
    **dict.fromkeys(("one.png", "a.png", "after.png", "drawn/images/p0000_a.jpg"), copied("pairs/a0.png")),
    **dict.fromkeys(("two.png", "b.png", "drawn/images/p0000_b.jpg"), copied("pairs/b0.png")),
    **dict.fromkeys("my_pairs my-pairs pairs edits my_labels drawn prompts samples".split(), copied("pairs")),
    "my-library/color-check": by_hand,
    **dict.fromkeys(("my_library", "my-library", "results/checkpoints/best", "results/checkpoints/iter_4"), A_LIBRARY),
    **dict.fromkeys(("RUN", "RUN-1", "RUN-2"), a_run),
    "edits.csv": wrote("instruction,source,candidate_a,candidate_b\nmake it red,s.png,a.png,b.png\nmake it red,,,\n"),
    "configs/default.yaml": wrote(CONFIG),
    "configs/endpoints.txt": wrote("{model}\n{other_model}\n"),
    **dict.fromkeys(
        ("ranked.json", "examples/ranked_texts.json"),
        lambda desk, path, line: shutil.copy(ROOT / "examples" / "ranked_texts.json", path),
    ),
    "scores": ran("score", "{pairs}", "--output", "{path}"),
    "prod": deployed,
    "calibration.json": ran("benchmark", "{pairs}", "--calibrate", "{path}"),
    "report.json": report,
    **dict.fromkeys(("release.json", "reward.release"), release),
    "vllm:qwen": cached,
    "runs/evolve-1": evolved,
    "trainer.json": wrote("{}"),
    **dict.fromkeys(("out/checkpoint-400", "out/checkpoint"), wrote("weights")),
    "log.jsonl": wrote('{"step": 1, "reward": 0.2}\n{"step": 2, "reward": 0.5}\n'),
    **dict.fromkeys(
        ("base.jsonl", "new.jsonl"), wrote("".join(f'{{"id": "e{n}", "accuracy": 1}}\n' for n in range(40)))
    ),
}


def names(made: Path) -> dict[str, Any]:
    """What the programs of the docs take from the reader's program."""

    class GRPOTrainer:
        def __init__(self, *args: object, reward_funcs: object, **more: object) -> None:
            assert callable(reward_funcs)

    images = [(made / "pairs" / name).read_bytes() for name in ("a0.png", "b0.png")]
    values = {"examples": read_folder(made / "pairs").examples[:2], "edited_bytes": images[0], "images": images}
    values |= {"sources": images, "prompts": ["make it red"] * 2, "metadata": [{}] * 2, "model": "policy"}
    values |= {"train_dataset": [], "my_renderer": lambda *_: None, "__name__": "docs"}
    return {**values, "GRPOTrainer": GRPOTrainer}
