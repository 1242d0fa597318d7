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
from rewardharness.judging.judge import Judge
from rewardharness.library.store import EMPTY, Library
from rewardharness.settings import Settings


def settings(folder: Path) -> Settings:
    return Settings.from_env({"RH_HOME": str(folder / "home"), "RH_WORKERS": "2"})


def made(name: str, folder: Path, protocol: str | None = None, **options: object) -> BenchmarkData:
    """Open a task that comes with the package on synthetic data."""
    place = folder / name
    source = MAKERS[name](place) if not place.exists() else _known(name, place)
    return open_benchmark(open_task(name), settings(folder), protocol=protocol, source=source, **options)  # type: ignore[arg-type]


def _known(name: str, place: Path) -> Path:
    alone = {"editscore-bench": "train.parquet", "genai-bench": "test_v1.parquet", "rated-edits": "edits.jsonl"}
    return place / alone[name] if name in alone else place


def entry(
    open_judge: Callable[[bool], Judge] = lambda ties: Pixels(ties=ties),
    role: str = "judge",
    library: Library = EMPTY,
    name: str = "no Library",
) -> BenchmarkEntry:
    return BenchmarkEntry(role, library, name, open_judge)  # type: ignore[arg-type]


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
