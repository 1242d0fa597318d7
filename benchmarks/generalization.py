"""Whether an evolved Library agrees better with people on source images that evolution has not seen.

For each split, the sources of a dataset are divided at random. `rh evolve` runs with its defaults on one part (of which
it holds out a share itself), with the pixel-based judge and the built-in Orchestrator: no model, no network. The
starting Library and the result are then compared on the other part. Shuffled labels show what evolution does without
signal.

    python benchmarks/generalization.py DATA [--kind LABEL_KIND] [--splits 10] [--train 0.5 | --train 75]
        [--library builtin | thin] [--without SKILL] [--shuffle] [--seed 0] [--json]
        [--against REVISION]

DATA is a folder with pairs. `thin` is the built-in Library without every second criterion. `--without
matching-appearance` removes the Skill for requests of the same appearance, so that evolution has to find what it says.
`--train 75` chooses as many examples as give 75 training examples after the run has held out its share. Prints one line
per split, then the means, and a 95% interval of the gain (bootstrap over splits; splits share examples, so it describes
this dataset).
"""

import argparse
import json
import os
import random
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from _against import add_against, with_other

from rewardharness.data.folder import read_folder
from rewardharness.data.source import Dataset, split
from rewardharness.errors import HarnessError
from rewardharness.evolution.config import AUDIT_SHARE
from rewardharness.evolution.job import evolve
from rewardharness.judging.cache import JudgmentCache
from rewardharness.judging.measured import MeasuredJudge
from rewardharness.judging.report import credit
from rewardharness.library.opening import open_library, without_half_of_the_criteria
from rewardharness.library.store import Library, RemoveEntry
from rewardharness.schema import Example


@dataclass(frozen=True)
class SplitResult:
    """The result of one split."""

    split: int
    training: int
    unseen: int
    start: float
    """Accuracy of the starting Library on the unseen part."""
    final: float
    """Accuracy of the result."""
    changed: bool
    """Whether the result differs from the starting Library."""
    accepted: int
    regression_start: float | None
    regression_final: float | None

    @property
    def gain(self) -> float:
        """Change of accuracy on the unseen part."""
        return self.final - self.start


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("--kind", default="", help="only this kind of label")
    parser.add_argument("--splits", type=int, default=10)
    parser.add_argument("--train", type=float, default=0.5, help="share, or number of training examples above 1")
    parser.add_argument("--library", default="builtin")
    parser.add_argument("--without", default="", help="a Skill to remove from the starting Library")
    parser.add_argument("--shuffle", action="store_true", help="give random labels")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", action="store_true", help="with --against needed")
    add_against(parser)
    arguments = parser.parse_args()
    examples = [
        example
        for example in read_folder(arguments.data).examples
        if example.preference in example.labels and arguments.kind in ("", example.label_kind)
    ]
    library = _starting_library(arguments.library)
    if arguments.without:
        library = library.apply(RemoveEntry(arguments.without))
    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault("RH_HOME", folder)
        judge = MeasuredJudge(cache=JudgmentCache(Path(folder) / "measured"), workers=os.cpu_count() or 1)
        results = []
        for number in range(arguments.splits):
            result = run_split(examples, library, judge, arguments, number, Path(folder))
            results.append(result)
            if not arguments.json:
                print(_line(result), flush=True)
    summary = summarize(results)
    document = {"options": vars(arguments), "splits": [asdict(result) for result in results], **summary}
    shown = with_other(document, arguments.against)
    print(json.dumps(shown, default=str) if arguments.json else _words(summary))


def run_split(
    examples: Sequence[Example],
    library: Library,
    judge: MeasuredJudge,
    arguments: argparse.Namespace,
    number: int,
    folder: Path,
) -> SplitResult:
    """Evolve on one part of the examples, and compare on the other."""
    seed = 1000 * arguments.seed + number
    share = arguments.train if arguments.train <= 1 else arguments.train / (1 - AUDIT_SHARE) / len(examples)
    chosen, unseen = split(examples, share=1 - min(share, 0.95), seed=seed)
    if arguments.shuffle:
        coin = random.Random(seed)
        chosen = tuple(replace(example, preference=coin.choice(example.labels)) for example in chosen)
    dataset = Dataset.of(f"split {number}", chosen)
    outcome = evolve(dataset, library=library, judge=judge, seed=seed, folder=folder / f"run-{number}", restart=True)
    regression = outcome.report.regression

    def accuracy(used: Library) -> float:
        return float(np.mean([credit(example, judge.judge_now(example, used)) for example in unseen]))

    return SplitResult(
        number,
        outcome.report.pool.start.n,
        len(unseen),
        accuracy(library),
        accuracy(outcome.library),
        changed=outcome.library.id != library.id,
        accepted=outcome.report.accepted,
        regression_start=regression.start.accuracy,
        regression_final=regression.final.accuracy,
    )


def summarize(results: Sequence[SplitResult]) -> dict[str, Any]:
    """Return means over splits, with 95% intervals of the gain."""
    gains = np.array([result.gain for result in results])
    draws = np.random.default_rng(0).choice(gains, (10_000, len(gains))).mean(axis=1)
    lost = [
        result.regression_start - result.regression_final
        for result in results
        if result.regression_start is not None and result.regression_final is not None
    ]
    return {
        "start": float(np.mean([result.start for result in results])),
        "final": float(np.mean([result.final for result in results])),
        "gain": float(gains.mean()),
        "interval": [float(bound) for bound in np.quantile(draws, (0.025, 0.975))],
        "changed": sum(result.changed for result in results),
        "regression_loss": max(lost, default=0.0),
        "n": len(results),
    }


def _starting_library(name: str) -> Library:
    return without_half_of_the_criteria(open_library("builtin")) if name == "thin" else open_library(name)


def _line(result: SplitResult) -> str:
    state = f"{result.accepted} accepted" if result.changed else "starting Library"
    return (
        f"split {result.split}: {result.training} training, {result.unseen} unseen: {result.start:.3f} -> "
        f"{result.final:.3f} ({result.gain:+.3f}), {state}"
    )


def _words(summary: dict[str, Any]) -> str:
    low, high = summary["interval"]
    return (
        f"Unseen accuracy {summary['start']:.3f} -> {summary['final']:.3f}, gain {summary['gain']:+.3f} "
        f"[{low:+.3f}, {high:+.3f}] over {summary['n']} splits; {summary['changed']} changed the Library; "
        f"largest loss on the regression set {summary['regression_loss']:.3f}."
    )


if __name__ == "__main__":
    try:
        main()
    except HarnessError as error:
        sys.exit(str(error))
