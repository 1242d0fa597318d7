"""What the tests of benchmarks share: settings of their own, and a task that is opened, judged and counted."""

from collections.abc import Callable, Sequence
from pathlib import Path

from synthetic import MAKERS, Pixels

from rewardharness.benchmark.items import BenchmarkData
from rewardharness.benchmark.job import BenchmarkJob
from rewardharness.benchmark.loading import open_benchmark
from rewardharness.benchmark.numbers import Number
from rewardharness.benchmark.result import BenchmarkResult
from rewardharness.benchmark.run import BenchmarkEntry
from rewardharness.benchmark.task import open_task
from rewardharness.judging.baselines import BaselineJudge
from rewardharness.judging.judge import Judge
from rewardharness.library.store import EMPTY, Library
from rewardharness.settings import Settings

SOURCES: dict[Path, Path] = {}
"""What --source names, by the folder of synthetic data."""
OPENED: dict[tuple[object, ...], BenchmarkData] = {}


def settings(folder: Path) -> Settings:
    return Settings.from_env({"RH_HOME": str(folder / "home"), "RH_WORKERS": "2"})


def opened(folder: Path, source: Path, task: str = "editreward-bench") -> BenchmarkData:
    """Open a task of the package with a local copy."""
    return open_benchmark(open_task(task), settings(folder), source=source)


def made(name: str, folder: Path, protocol: str | None = None, n: object = None, **options: object) -> BenchmarkData:
    """What `made_anew` opens, once for all tests: beside the folder, which is that of a test."""
    shared = folder.parent / "made" / str(n)
    key = (shared, name, protocol, *sorted(options.items()))
    if key not in OPENED:
        OPENED[key] = made_anew(name, shared, protocol, n, **options)
    return OPENED[key]


def made_anew(
    name: str, folder: Path, protocol: str | None = None, n: object = None, **options: object
) -> BenchmarkData:
    """Open a task that comes with the package on synthetic data, of which there may be another number."""
    place = folder / name
    if place not in SOURCES:
        SOURCES[place] = MAKERS[name](place, *([] if n is None else [n]))
    source = SOURCES[place]
    return open_benchmark(open_task(name), settings(folder), protocol=protocol, source=source, **options)


def entry(
    open_judge: Callable[[bool], Judge] = lambda ties: Pixels(ties=ties),
    role: str = "judge",
    library: Library = EMPTY,
    name: str = "no Library",
) -> BenchmarkEntry:
    return BenchmarkEntry(role, library, name, open_judge)


def pixels(role: str = "judge", **options: object) -> BenchmarkEntry:
    """An entry with a judge that looks, as `Pixels` is made."""
    return entry(lambda ties: Pixels(ties=ties, **options), role)


def baseline(name: str, role: str = "judge") -> BenchmarkEntry:
    return entry(lambda ties: BaselineJudge(name, ties), role)


def judged(data: BenchmarkData, entries: Sequence[BenchmarkEntry], folder: Path) -> BenchmarkResult:
    """Judge a benchmark and count."""
    return job(data, entries, folder).run().result


def job(data: BenchmarkData, entries: Sequence[BenchmarkEntry], folder: Path, concurrency: int = 8) -> BenchmarkJob:
    return BenchmarkJob(data, tuple(entries), settings(folder), chosen_folder=folder, concurrency=concurrency)


def number(result: BenchmarkResult, part: str, metric: str, row: int = 0, **more: object) -> Number:
    """The one number that fits."""
    wanted = {"part": part, "metric": metric, **more}
    [found] = [each for each in result.rows[row].numbers if wanted.items() <= vars(each).items()]
    return found
