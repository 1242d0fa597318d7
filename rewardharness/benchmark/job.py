"""The benchmark job: opens a task and the judges in its table, judges, and writes the report."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rewardharness.benchmark.loading import open_benchmark
from rewardharness.benchmark.report import markdown, read_result, write_report
from rewardharness.benchmark.run import BenchmarkEntry, Role, judge_benchmark, manifest
from rewardharness.benchmark.task import open_task
from rewardharness.files import content_id
from rewardharness.judging.judge import Judge
from rewardharness.judging.opening import MEASURED, open_judge
from rewardharness.library.opening import open_library
from rewardharness.library.store import EMPTY, Library
from rewardharness.runs.store import RunFolder
from rewardharness.schema import Json
from rewardharness.settings import Settings

NO_LIBRARY = "no Library"
"""Library name of a row without one."""


@dataclass(frozen=True)
class BenchmarkReport:
    """Result of a benchmark; its text is the report in Markdown."""

    result: Json = field(repr=False)
    """The content of `report.json`: task, protocol, rows with n, coverage, numbers and intervals."""
    folder: Path
    """The run folder, with the report as JSON, Markdown and HTML."""

    @property
    def rows(self) -> list[Json]:
        """The rows of the table, the judge first."""
        return list(self.result["rows"])

    def __str__(self) -> str:
        return markdown(self.result)


def benchmark(  # noqa: PLR0913  (one argument per choice, as on the command line)
    task: Path | str,
    *,
    judge: Judge | str = MEASURED,
    library: Library | Path | str | None = None,
    baselines: Sequence[Judge | str] = (),
    without_library: bool = True,
    protocol: str | None = None,
    limit: int | None = None,
    seed: int = 0,
    source: Path | str | None = None,
    concurrency: int | None = None,
    folder: Path | str | None = None,
    restart: bool = False,
    retry_failed: bool = False,
) -> BenchmarkReport:
    """Judge a benchmark and compare with its human labels, next to the same model without a Library.

    The run is resumable: the same call judges only what is missing.

    Args:
        task: A task such as `genai-bench` (see `rh benchmark list`), a task file, or labeled data: a folder, a table or
            a dataset on the Hub.
        judge: The judge, or its name. Ties are among its answers where the labels have ties.
        library: The Library, as `Judge.score` accepts it.
        baselines: Further judges in the table, such as `"random"` and `"closer"`.
        without_library: Whether the same model without a Library is in the table.
        protocol: One of the task's protocols; None for its first.
        limit: Size of a stratified sample in pairs or groups; None for all.
        seed: Seed of the sample.
        source: A local copy of the data.
        concurrency: Examples that are judged side by side; None for what suits each judge.
        folder: The run folder; None for one below `RH_HOME/runs` that follows from the run.
        restart: Judge everything again; previous results are kept aside.
        retry_failed: Judge again what could not be judged before.

    Raises:
        InputError: If there is no such task, protocol or judge.
        DataError: If the data cannot be read.
        RunError: If the folder holds another run.
    """
    settings = Settings.from_env()
    copy = Path(source) if source is not None else None
    data = open_benchmark(open_task(str(task)), settings, protocol=protocol, source=copy, limit=limit, seed=seed)
    opened = open_library(settings.library if library is None else library)
    named = opened.name or opened.id[:12] if library is None or isinstance(library, Library) else str(library)
    openers = [_opener(each, settings) for each in (judge, *baselines)]
    entries = make_entries(openers, opened, named, without_library=without_library)
    about = manifest(data, entries[0])
    place = Path(folder) if folder is not None else settings.home / "runs" / f"benchmark-{content_id(about)[:12]}"
    with RunFolder(place, about, restart=restart) as run:
        judge_benchmark(
            run, data, entries, concurrency=lambda judge: concurrency or judge.concurrency, retry=retry_failed
        )
    result = read_result(place)
    write_report(place, result)
    return BenchmarkReport(result, place)


def make_entries(
    judges: Sequence[Callable[[bool], Judge]],
    library: Library,
    library_name: str,
    *,
    without_library: bool = True,
    head: Sequence[BenchmarkEntry] = (),
    evolved_on: frozenset[str] = frozenset(),
) -> list[BenchmarkEntry]:
    """Make the rows of a table; none twice.

    Args:
        judges: Functions that open the judges, told whether ties are among the labels. The first is the one that the
            run is about, unless `head` has rows; the others are baselines.
        library: The Library of all judges that read one.
        library_name: Its name in the table.
        without_library: Whether the first judge is also there without a Library. The pixel-based judge, which judges
            nothing without one, is not.
        head: Rows that come first, such as those of a release.
        evolved_on: Digests of the data that the Library of a release was evolved on.
    """
    entries = list(head)
    for judge in judges:
        first = not entries
        role: Role = "judge" if first else "baseline"
        opened = judge(False)
        if opened.uses_library:
            entries.append(BenchmarkEntry(role, library, library_name, judge, release_data=evolved_on))
            if first and without_library and opened.uses_model:
                entries.append(BenchmarkEntry("empty", EMPTY, NO_LIBRARY, judge))
        else:
            entries.append(BenchmarkEntry(role, EMPTY, NO_LIBRARY, judge))
    table: dict[str, BenchmarkEntry] = {}
    for entry in entries:
        table.setdefault(entry.key, entry)
    return list(table.values())


def _opener(judge: Judge | str, settings: Settings) -> Callable[[bool], Judge]:
    if isinstance(judge, str):
        return lambda ties: open_judge(judge, settings, ties=ties)
    return judge.with_ties
