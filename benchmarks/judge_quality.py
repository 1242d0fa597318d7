"""How well the built-in judge agrees with labels, per kind of label, next to judges that do not read the instruction.

Judges every labeled pair and group with the built-in Library (or another) and with the baselines `closer`, `ssim` and
`random`. A kind of label is one row per judge; kinds are never pooled. The gradable share counts examples in which it
was measured whether the instruction was followed, which is the condition for a reward.

    python benchmarks/judge_quality.py [DATA ...] [--library builtin] [--kinds] [--cache FOLDER] [--json]

DATA is anything that `rh benchmark` reads: a folder with pairs.jsonl, or `demo` (the default, generated). `--kinds`
adds rows per kind of edit as read from the instruction. Readings in the cache folder are reused, so a second run with
another Library takes seconds. Ends with the CPU time of one pair at 1024 x 1024 without OCR.
"""

import argparse
import asyncio
import json
import os
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from measured_judge import draw, time_pairs, without_ocr

from rewardharness.data.opening import open_data
from rewardharness.judging.baselines import BaselineJudge
from rewardharness.judging.cache import JudgmentCache
from rewardharness.judging.instruction import read_instruction
from rewardharness.judging.judge import Judge
from rewardharness.judging.measured import MeasuredJudge
from rewardharness.judging.report import credit, wilson
from rewardharness.library.opening import open_library
from rewardharness.library.store import Library
from rewardharness.schema import Example, Judgment
from rewardharness.settings import Settings

AT_ONCE = 4
"""Examples that are judged concurrently."""


@dataclass(frozen=True)
class Row:
    """Agreement of one judge with the labels of one kind."""

    data: str
    label_kind: str
    judge: str
    n: int
    judged: int
    correct: float
    interval: tuple[float, float]
    gradable: int | None
    """Examples whose candidates all have a reward; None for a judge that does not read the instruction."""

    @property
    def accuracy(self) -> float:
        """Share of all examples on which the judge agrees with the label."""
        return self.correct / self.n


def main() -> None:
    """Run the benchmark."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("data", nargs="*", default=["demo"], help="datasets with labels")
    parser.add_argument("--library", default="builtin")
    parser.add_argument("--kinds", action="store_true", help="also report per kind of edit")
    parser.add_argument("--cache", type=Path, help="folder of readings to reuse; by default a temporary one")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    library = open_library(arguments.library)
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault("RH_HOME", folder)
        cache = JudgmentCache(arguments.cache or Path(folder) / "readings")
        measured = MeasuredJudge(workers=os.cpu_count() or 1, cache=cache)
        judges: list[Judge] = [measured, *(BaselineJudge(kind) for kind in ("closer", "ssim", "random"))]
        for data in arguments.data:
            opened = open_data(data, Settings.from_env()).examples
            examples = [example for example in opened if example.preference in example.labels]
            for judge in judges:
                judgments = asyncio.run(judge_all(judge, library, examples))
                rows += tabulate(data, judge, examples, judgments, kinds=arguments.kinds)
        cpu, _ = time_pairs(draw(Path(folder)), without_ocr(library), 5)
    if arguments.json:
        found = [{**asdict(row), "accuracy": row.accuracy} for row in rows]
        print(json.dumps({"library": library.id, "rows": found, "pair_1024_cpu_s": cpu}))
        return
    for row in sorted(rows, key=lambda row: (row.data, row.label_kind)):
        print(_line(row))
    print(f"CPU time of one 1024 x 1024 pair without OCR: {cpu:.3f} s")


async def judge_all(judge: Judge, library: Library, examples: Sequence[Example]) -> list[Judgment]:
    """Judge examples, a few at a time, and return their judgments in order."""
    slots = asyncio.Semaphore(AT_ONCE)

    async def one(example: Example) -> Judgment:
        async with slots:
            return await judge.judge(example, library)

    return list(await asyncio.gather(*(one(example) for example in examples)))


def tabulate(
    data: str, judge: Judge, examples: Sequence[Example], judgments: Sequence[Judgment], *, kinds: bool
) -> list[Row]:
    """Return a row per kind of label, and per kind of edit within it if asked."""
    parts: dict[str, list[tuple[Example, Judgment]]] = {}
    for example, judgment in zip(examples, judgments, strict=True):
        label = example.label_kind or "label"
        parts.setdefault(label, []).append((example, judgment))
        if kinds:
            parts.setdefault(f"{label} / {read_instruction(example.instruction).kinds[0]}", []).append(
                (example, judgment)
            )
    return [_row(data, label, judge, part) for label, part in parts.items()]


def _row(data: str, label: str, judge: Judge, part: Sequence[tuple[Example, Judgment]]) -> Row:
    correct = sum(credit(example, judgment) for example, judgment in part)
    interval = wilson(correct, len(part))
    assert interval is not None
    gradable = sum(
        bool(judgment.scores) and all(scores.reward is not None for scores in judgment.scores.values())
        for _, judgment in part
    )
    judged = sum(judgment.judged for _, judgment in part)
    bounds = interval.low, interval.high
    return Row(data, label, judge.name, len(part), judged, correct, bounds, gradable if judge.uses_library else None)


def _line(row: Row) -> str:
    low, high = row.interval
    return (
        f"{Path(row.data).name:10.10} {row.label_kind:44.44} {row.judge:20.20} n {row.n:4} judged {row.judged:4} "
        f"accuracy {row.accuracy:.3f} ({low:.2f} to {high:.2f})"
        + (f"  gradable {row.gradable / row.n:.2f}" if row.gradable is not None else "")
    )


if __name__ == "__main__":
    main()
