"""How well the built-in judge agrees with labels, per kind of label, next to judges that do not read the instruction.

Judges every labeled pair and group with the built-in Library (or another) and with the baselines `closer`, `ssim` and
`random`. A kind of label is one row per judge; kinds are never pooled. The gradable share counts examples in which it
was measured whether the instruction was followed, which is the condition for a reward.

    python benchmarks/judge_quality.py [DATA ...] [--library builtin] [--kinds] [--cache FOLDER] [--json]
        [--calibrate FILE] [--wordings FILE]

DATA is anything that `rh benchmark` reads: a folder with pairs.jsonl, or `demo` (the default, generated). `--kinds`
adds rows per kind of edit as read from the instruction. Readings in the cache folder are reused, so a second run with
another Library takes seconds. `--wordings` names a JSON object from an instruction to other wordings of it: the
built-in judge is measured with the first wording of each, with the second, and so on, on the same pairs. Ends with the
CPU time of one pair at 1024 x 1024 without OCR.

The confidence of the built-in judge is measured as a probability: the expected calibration error before and after a
fit that is cross-validated by source image, per kind of label, and the accuracy of the preferences that it is at least
80% sure of. `--calibrate` also fits on all examples and writes the calibration that the package ships:

    python benchmarks/judge_quality.py demo DATA ... --calibrate rewardharness/judging/calibration.json
"""

import argparse
import asyncio
import json
import os
import tempfile
from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

from measured_judge import draw, time_pairs, without_ocr

from rewardharness.benchmark.calibration import GradedJudgment, cross_validate, fit_calibration, measure_error
from rewardharness.codec import to_json
from rewardharness.data.opening import open_data
from rewardharness.data.source import Dataset
from rewardharness.files import write_json
from rewardharness.judging.baselines import BaselineJudge
from rewardharness.judging.cache import JudgmentCache
from rewardharness.judging.calibration import CalibrationData, MeasuredError, comparable, edit_kind
from rewardharness.judging.identity import JudgeIdentity
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
SURE = 0.8
"""Least confidence of the confident slice."""


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
    parser.add_argument("--calibrate", type=Path, help="file for a calibration of the confidence")
    parser.add_argument("--wordings", type=Path, help="other wordings of the instructions")
    parser.add_argument("--json", action="store_true")
    arguments = parser.parse_args()
    library = open_library(arguments.library)
    rows: list[Row] = []
    confidence = Confidence()
    with tempfile.TemporaryDirectory() as folder:
        os.environ.setdefault("RH_HOME", folder)
        cache = JudgmentCache(arguments.cache or Path(folder) / "readings")
        measured = MeasuredJudge(workers=os.cpu_count() or 1, cache=cache)
        judges: list[Judge] = [measured, *(BaselineJudge(kind) for kind in ("closer", "ssim", "random"))]
        for data in arguments.data:
            opened = open_data(data, Settings.from_env())
            examples = [example for example in opened.examples if example.preference in example.labels]
            for judge in judges:
                judgments = asyncio.run(judge_all(judge, library, examples))
                rows += tabulate(data, judge, examples, judgments, kinds=arguments.kinds)
                if judge is measured:
                    confidence.add(opened, examples, judgments)
            for number, reworded in enumerate(reword(examples, arguments.wordings), 1):
                judgments = asyncio.run(judge_all(measured, library, reworded))
                found = tabulate(data, measured, reworded, judgments, kinds=False)
                rows += [replace(row, label_kind=f"{row.label_kind} / wording {number}") for row in found]
        identity = JudgeIdentity.of(measured, library)
        cpu, _ = time_pairs(draw(Path(folder)), without_ocr(library), 5)
    if arguments.json:
        found = [{**asdict(row), "accuracy": row.accuracy} for row in rows]
        errors = to_json(confidence.table())
        print(json.dumps({"library": library.id, "rows": found, "confidence": errors, "pair_1024_cpu_s": cpu}))
        return
    for row in sorted(rows, key=lambda row: (row.data, row.label_kind)):
        print(_line(row))
    for line in confidence.table():
        print(line)
    if arguments.calibrate is not None:
        made = fit_calibration([each.judged for each in confidence.rows], identity, confidence.data, people=False)
        write_json(arguments.calibrate, made.to_json())
        print(f"Calibration {made.id[:12]} written to {arguments.calibrate}.")
    print(f"CPU time of one 1024 x 1024 pair without OCR: {cpu:.3f} s")


@dataclass(frozen=True)
class LabeledConfidence:
    """A labeled judgment and its kind of label."""

    label: str
    judged: GradedJudgment


@dataclass(frozen=True)
class ConfidenceRow:
    """How well the confidence tells the share of right preferences, for one kind of label."""

    label_kind: str
    before: MeasuredError
    after: MeasuredError
    sure: int
    """Preferences with a calibrated confidence of at least `SURE`, without having been fitted on their sources."""
    sure_correct: int

    def __str__(self) -> str:
        first, then, n = self.before, self.after, self.after.n
        accuracy = f"{self.sure_correct / self.sure:.3f}" if self.sure else "-"
        errors = [f"{each.error:.3f} ({each.interval.low:.2f} to {each.interval.high:.2f})" for each in (first, then)]
        return (
            f"confidence {self.label_kind:30.30} n {n:4}  calibration error {errors[0]} before, {errors[1]} after; "
            f"at least {SURE:.0%} sure: {self.sure} ({self.sure / n:.2f}), accuracy {accuracy}"
        )


@dataclass
class Confidence:
    """Labeled preferences of the built-in judge between two candidates."""

    rows: list[LabeledConfidence] = field(default_factory=list)
    data: list[CalibrationData] = field(default_factory=list)

    def add(self, dataset: Dataset, examples: Sequence[Example], judgments: Sequence[Judgment]) -> None:
        """Add the judgments of a dataset."""
        counts: Counter[str] = Counter()
        for example, judgment in zip(examples, judgments, strict=True):
            if comparable(judgment):
                assert judgment.margin is not None
                right, source = judgment.preference == example.preference, f"{dataset.name}/{example.source_id}"
                kind = edit_kind(example, judgment)
                row = GradedJudgment("", float(right), judgment.confidence, judgment.margin, kind, source)
                self.rows.append(LabeledConfidence(example.label_kind or "label", row))
                counts[example.label_kind or "label"] += 1
        self.data.append(CalibrationData(dataset.name, dataset.digest, counts.total(), dict(counts)))

    def table(self) -> list[ConfidenceRow]:
        """Return a row per kind of label."""
        chances = cross_validate([each.judged for each in self.rows])
        parts: dict[str, list[tuple[GradedJudgment, float]]] = {}
        for each, chance in zip(self.rows, chances, strict=True):
            parts.setdefault(each.label, []).append((each.judged, chance))
        return [_confidence_row(label, part) for label, part in sorted(parts.items())]


def _confidence_row(label: str, part: Sequence[tuple[GradedJudgment, float]]) -> ConfidenceRow:
    judged = [each for each, _ in part]
    before = measure_error(judged, [each.confidence or 0.0 for each in judged])
    after = measure_error(judged, [chance for _, chance in part])
    sure = [each.correct == 1 for each, chance in part if chance >= SURE]
    return ConfidenceRow(label, before, after, len(sure), sum(sure))


def reword(examples: Sequence[Example], file: Path | None) -> list[list[Example]]:
    """Return the examples with the first of the other wordings in a file, with the second, and so on."""
    others: dict[str, list[str]] = json.loads(file.read_text("utf-8")) if file else {}
    known = [(example, others[example.instruction]) for example in examples if example.instruction in others]
    count = min((len(wordings) for _, wordings in known), default=0)
    return [[replace(example, instruction=wordings[n]) for example, wordings in known] for n in range(count)]


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
    return Row(
        data, label, judge.name, len(part), judged, correct, bounds, gradable if judge.traits.uses_library else None
    )


def _line(row: Row) -> str:
    low, high = row.interval
    return (
        f"{Path(row.data).name:10.10} {row.label_kind:44.44} {row.judge:20.20} n {row.n:4} judged {row.judged:4} "
        f"accuracy {row.accuracy:.3f} ({low:.2f} to {high:.2f})"
        + (f"  gradable {row.gradable / row.n:.2f}" if row.gradable is not None else "")
    )


if __name__ == "__main__":
    main()
