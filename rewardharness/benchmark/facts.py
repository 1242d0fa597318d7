"""Results of a benchmark as facts on the card of a Library."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rewardharness.benchmark.comparison import PairedTest
from rewardharness.benchmark.figures import full_name, sampled
from rewardharness.benchmark.numbers import Number
from rewardharness.benchmark.result import BenchmarkResult, BenchmarkRow
from rewardharness.errors import LibraryError
from rewardharness.files import write_json
from rewardharness.judging.report import wilson
from rewardharness.library.card import BENCHMARK_FILE, Facts, PairedGain, facts_json
from rewardharness.library.store import Library
from rewardharness.schema import Accuracy, Interval

_METRICS = frozenset({"exact", "forced", "groups", "fitted"})


def make_facts(result: BenchmarkResult, library: Library) -> tuple[Facts, ...]:
    """Return the accuracies of a run with and without a Library, for its card: of its judge, and of all with a gain.

    Raises:
        LibraryError: If the run is about another Library.
    """
    judges = [row for row in result.rows if row.role == "judge"]
    gains = {(test.second.name, test.part): test for test in result.gains}
    compared = {name for name, _ in gains}
    rows = [row for row in result.rows if row.library_id == library.id and (row in judges or row.label in compared)]
    if not rows:
        others = ", ".join(sorted({row.library_id[:12] for row in judges}))
        step = "Run the benchmark with the Library that is to be published."
        raise LibraryError(f"The run is about the Library {others}, not about {library.id[:12]}.", next_step=step)
    return tuple(fact for row in rows for fact in _facts(result, row, gains))


def _facts(result: BenchmarkResult, row: BenchmarkRow, gains: Mapping[tuple[str, str], PairedTest]) -> Iterator[Facts]:
    """Yield the accuracies of a judge with the Library and without it, and the gain on what it judged both times."""
    empty = (other for other in result.rows if other.role == "empty")
    without = next((other for other in empty if other.judge_id == row.judge_id), None)
    bare_numbers = {number.title: number for number in (without.numbers if without else ())}
    parts = {part.name: part.labels for part in result.parts}
    exact = [each for each in row.numbers if each.metric == "exact" and each.labels in ((), parts.get(each.part))]
    paired = [each.part for each in exact]  # a part of several questions has one test and several accuracies
    sample = f" ({sampled(result)})" if sampled(result) else ""
    shared: dict[str, Any] = {
        "library_id": row.library_id,
        "judge": row.name,
        "protocol": f"{result.protocol}; {', '.join(row.protocols)}",
    }
    shared |= {"dataset": result.hub, "evolved_on": bool(row.evolved_on)}
    for number in row.numbers:
        if number.metric not in _METRICS or not number.judged:
            continue
        bare = bare_numbers.get(number.title)
        about = {**shared, "data": f"{result.task.title}, {number.part}{sample}", "label_kind": number.part}
        about |= {"metric": full_name(number, parts.get(number.part, ())), **_exploit(row, number.part)}
        if bare:
            about |= {"without": _count(bare), "without_interval": _interval(bare) if bare.judged else None}
        if paired.count(number.part) == 1 and number in exact and (test := gains.get((row.label, number.part))):
            about |= {"gain": _gain(test)}
        yield Facts(**about, accuracy=_count(number), interval=_interval(number))


def _gain(test: PairedTest) -> PairedGain | None:
    if test.gain is None:
        return None
    return PairedGain(test.gain, test.interval, test.p, test.n, test.judged_by_both, test.better, test.worse)


def _exploit(row: BenchmarkRow, part: str) -> Mapping[str, Any]:
    """Return the reward of the exploit, if the part is an attack."""
    for number in row.numbers:
        if number.part == part and number.metric == "exploit_reward" and number.value is not None:
            interval = Interval(*number.interval) if number.interval else None
            return {"exploit_reward": number.value, "exploit_interval": interval}
    return {}


def _count(number: Number) -> Accuracy:
    return Accuracy(number.n, number.judged, number.detail.correct or 0.0)


def _interval(number: Number) -> Interval:
    """Return the interval of the share of judged questions."""
    if number.interval and number.basis == "judged":
        return Interval(*number.interval)
    interval = wilson(_count(number).correct, number.judged)
    assert interval is not None
    return interval


def write_for_library(folder: Path, result: BenchmarkResult) -> Path:
    """Write the results of a run into the folder of its Library, for the card.

    Raises:
        LibraryError: If the run is about another Library, or the folder holds none.
    """
    library = Library.load(folder)
    facts = make_facts(result, library)
    path = folder / BENCHMARK_FILE
    about = {"task": result.task.name, "revision": result.revision, "digest": result.digest}
    write_json(path, {"library_id": library.id, **about, "evaluation": [facts_json(row) for row in facts]})
    return path
