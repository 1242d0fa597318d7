"""Paired comparison of two judges on the same examples, which is more precise than comparing two intervals.

Runs with different data, labels, parts of a task or metrics are refused with the reason. The judge and its protocol
may differ.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import fsum
from pathlib import Path
from statistics import fmean

from rewardharness.benchmark.answers import QuestionAnswer
from rewardharness.benchmark.intervals import count_units, difference_interval
from rewardharness.benchmark.items import RunData
from rewardharness.benchmark.metrics import Bounds, Share, bounds, split
from rewardharness.benchmark.numbers import AnswerSheet, credit, make_sheet
from rewardharness.benchmark.run import EntryRecord, read_benchmark, read_entries, read_judgments
from rewardharness.codec import UNSET, UnsetType
from rewardharness.errors import InputError, RunError
from rewardharness.judging.report import mcnemar
from rewardharness.schema import Accuracy

_SHOWN = 3


@dataclass(frozen=True)
class ComparedExample:
    """Result of a run for one example."""

    id: str
    truth: str
    """The label; it must be the same in both runs."""
    credit: float | None
    """Agreement with the label in [0, 1]; None without a judgment."""
    cluster: str = ""
    """Source image or group; examples of one are not independent."""
    answer: str | None = None
    """What was answered; None if it is not known."""


@dataclass(frozen=True)
class ComparedRun:
    """Results of a judge on the examples of a part of a task."""

    name: str
    """Display name."""
    task: str
    """Task and part."""
    metric: str
    """Metric and treatment of ties, such as `exact, A/B/tie`."""
    protocol: str
    """How examples are judged: pairs, rankings, both orders, or single candidates."""
    outcomes: tuple[ComparedExample, ...]


@dataclass(frozen=True, kw_only=True)
class NamedShare(Share):
    """Accuracy of one of two runs on the examples that both judged."""

    name: str


@dataclass(frozen=True, kw_only=True)
class PairedTest:
    """Comparison of two runs on the examples of a part that both judged."""

    part: str = ""
    first: NamedShare
    second: NamedShare
    n: int
    """Examples."""
    judged_by_both: int
    judged_by_first_only: int
    judged_by_second_only: int
    gain: float | None
    """Accuracy of the second run minus that of the first, in [-1, 1]; None if no example was judged by both."""
    interval: Bounds | None
    """Interval of the gain; None below `LEAST` clusters."""
    clusters: int
    """Number of independent units for the interval."""
    p: float | None
    """Two-sided exact McNemar test of better against worse examples, assuming independence; None without any."""
    better: int
    """Examples on which the second run agrees better with the label."""
    worse: int
    same: int | UnsetType | None = UNSET
    """Examples judged by both with the same answer; None if the answers are not known."""


@dataclass(frozen=True)
class Flip:
    """An example on which one of two runs agrees better with the label."""

    id: str
    instruction: str
    truth: str
    first: str
    """Answer of the first run, or both answers if they differ with the presentation order."""
    second: str
    better: bool
    """Whether the second run agrees better with the label."""


@dataclass(frozen=True, kw_only=True)
class PartComparison(PairedTest):
    """Comparison of two runs on a part, with the examples on which they differ: the better ones first."""

    flips: tuple[Flip, ...]


@dataclass(frozen=True)
class RunComparison:
    """Comparison of two runs of one task."""

    task: str
    protocol: str
    first: EntryRecord
    second: EntryRecord
    same_data: bool
    """Whether instructions, labels and images are the same."""
    parts: tuple[PartComparison, ...]


def compare(first: ComparedRun, second: ComparedRun) -> tuple[PairedTest, tuple[str, ...], tuple[str, ...]]:
    """Compare two runs example by example.

    Examples that one of the runs failed on are left out and counted. Check these numbers: a judge that fails on
    difficult examples must not benefit from it.

    Args:
        first: The run to compare with.
        second: The run whose gain is measured.

    Returns:
        The comparison, and the ids of the examples on which the second run agrees better and less with the label.

    Raises:
        InputError: If task, metric, protocol, examples or labels differ; the message names the difference.
    """
    second_by_id, first_by_id = _indexed(second), _indexed(first)
    _refuse_different(first, second, first_by_id, second_by_id)
    both = [(old, old.credit, second_by_id[old.id].credit) for old in first.outcomes]
    shared = [(old, before, after) for old, before, after in both if before is not None and after is not None]
    gains = [after - before for _, before, after in shared]
    clusters = [old.cluster for old, _, _ in shared]
    better = tuple(old.id for old, before, after in shared if after > before)
    worse = tuple(old.id for old, before, after in shared if after < before)
    n = len(shared)
    answers = [(old.answer, second_by_id[old.id].answer) for old, _, _ in shared]
    test = PairedTest(
        first=NamedShare.of(Accuracy(n, n, fsum(before for _, before, _ in shared)), name=first.name),
        second=NamedShare.of(Accuracy(n, n, fsum(after for _, _, after in shared)), name=second.name),
        n=len(first.outcomes),
        judged_by_both=n,
        judged_by_first_only=sum(old.credit is not None for old in first.outcomes) - n,
        judged_by_second_only=sum(new.credit is not None for new in second.outcomes) - n,
        gain=fsum(gains) / n if n else None,
        interval=bounds(difference_interval([old for _, old, _ in shared], [new for *_, new in shared], clusters)),
        clusters=count_units(clusters),
        p=mcnemar(len(better), len(worse)),
        better=len(better),
        worse=len(worse),
        same=None if any(None in pair for pair in answers) else sum(old == new for old, new in answers),
    )
    return test, better, worse


def compare_runs(first: Path, second: Path, *, rows: tuple[str, str] = ("", "")) -> RunComparison:
    """Compare the judges of two runs question by question, from their stored judgments.

    Args:
        first: The run to compare with.
        second: The run whose gain is measured; it may be the same run with another row.
        rows: Keys of the compared entries; empty for the main judge of the run.

    Raises:
        RunError: If a folder holds no benchmark, or no entry has answered in it.
        InputError: If they differ in task, protocol or data, or have human scores instead of preferences.
    """
    (data, entry, before), (other_data, other, after) = _read(first, rows[0]), _read(second, rows[1])
    if data.scores or other_data.scores:
        message = "Correlations with human scores cannot be compared question by question."
        raise InputError(message, next_step="Read both reports side by side.")
    parts = []
    sides = [_by_pair(sheet) for sheet in (before, after)]
    for part in dict.fromkeys((*before.parts, *after.parts)):
        mine = compared_run(f"{entry.label} ({first.name})", data, before, part)
        test, better, worse = compare(mine, compared_run(f"{other.label} ({second.name})", other_data, after, part))
        flips = [*(_flip(name, True, *sides) for name in better), *(_flip(name, False, *sides) for name in worse)]
        parts.append(PartComparison(**{**vars(test), "part": part}, flips=tuple(flips)))
    return RunComparison(data.task.name, data.protocol, entry, other, data.digest == other_data.digest, tuple(parts))


def _read(folder: Path, key: str) -> tuple[RunData, EntryRecord, AnswerSheet]:
    data = read_benchmark(folder)
    entry = next(
        (record for record in read_entries(folder) if (record.key == key if key else record.role == "judge")), None
    )
    if entry is None:
        raise RunError(f"No judge has answered in {folder}.", next_step="Run the benchmark first.")
    return data, entry, make_sheet(data, read_judgments(folder).get(entry.key, {}))


def compared_run(name: str, data: RunData, sheet: AnswerSheet, part: str) -> ComparedRun:
    """Return the results of an entry on a part in the form that `compare` takes."""
    metric = f"exact, {'/'.join(sheet.parts[part].labels) if part in sheet.parts else ''}"
    return ComparedRun(name, f"{data.task.name}, {part}", metric, data.protocol, compared_examples(sheet, part))


def compared_examples(sheet: AnswerSheet, part: str) -> tuple[ComparedExample, ...]:
    """Return the result of every question of a part, for a paired comparison.

    Both presentation orders of a pair are one result under the id of the first, since they are not independent: their
    mean, or None if one of them failed.
    """
    results = []
    for name, answers in _by_pair(sheet).items():
        question = answers[0].question
        if question.part == part and isinstance(question.truth, str):
            credits = [value for answer in answers if (value := credit(sheet.parts[part], answer)) is not None]
            mean = fmean(credits) if len(credits) == len(answers) else None
            results.append(ComparedExample(name, question.truth, mean, question.cluster, _words(answers)))
    return tuple(results)


def _by_pair(sheet: AnswerSheet) -> dict[str, list[QuestionAnswer]]:
    """Return the answers that count about each pair, in one or both orders, by the id of the first."""
    pairs = split(sheet.counting, lambda answer: f"{answer.question.part} {answer.question.pair}", ordered=False)
    return {answers[0].question.id: answers for answers in pairs.values()}


def _flip(
    name: str, better: bool, before: Mapping[str, list[QuestionAnswer]], after: Mapping[str, list[QuestionAnswer]]
) -> Flip:
    question = before[name][0].question
    return Flip(name, question.instruction, str(question.truth), _words(before[name]), _words(after[name]), better)


def _words(answers: Iterable[QuestionAnswer]) -> str:
    """Return the answers about a pair, in one or both orders, in words."""
    return " and ".join(dict.fromkeys(str(answer.choice) for answer in answers))


def _indexed(run: ComparedRun) -> Mapping[str, ComparedExample]:
    by_id = {example.id: example for example in run.outcomes}
    if len(by_id) < len(run.outcomes):
        raise InputError(f"{run.name} contains duplicate examples.", next_step="Compare runs with unique example ids.")
    return by_id


def _refuse_different(
    first: ComparedRun,
    second: ComparedRun,
    first_by_id: Mapping[str, ComparedExample],
    second_by_id: Mapping[str, ComparedExample],
) -> None:
    named = ((name, getattr(first, name), getattr(second, name)) for name in ("task", "metric", "protocol"))
    differences = [f"the {name} ({old!r} and {new!r})" for name, old, new in named if old != new]
    if first_by_id.keys() != second_by_id.keys():
        gaps = [(first.name, second_by_id.keys() - first_by_id.keys())]
        gaps.append((second.name, first_by_id.keys() - second_by_id.keys()))
        lacking = [f"{run} lacks {len(ids)}, such as {_first(ids)}" for run, ids in gaps if ids]
        differences.append(f"the examples ({'; '.join(lacking)})")
    shared = first_by_id.keys() & second_by_id.keys()
    if relabeled := [name for name in shared if first_by_id[name].truth != second_by_id[name].truth]:
        differences.append(f"the labels of {len(relabeled)} examples ({_first(relabeled)})")
    if differences:
        message = f"{first.name} and {second.name} cannot be compared; they differ in {', '.join(differences)}."
        raise InputError(message, next_step="Compare runs of the same task, metric and data.")


def _first(names: Iterable[str]) -> str:
    return ", ".join(sorted(names)[:_SHOWN])
