"""The rows of the table of a benchmark: the judge, the same without a Library, and baselines."""

from collections.abc import Callable, Sequence
from dataclasses import replace

from rewardharness.benchmark.config import BenchmarkConfig
from rewardharness.benchmark.run import BenchmarkEntry
from rewardharness.errors import InputError
from rewardharness.judging.config import ReleaseConfig, model_options
from rewardharness.judging.judge import Judge
from rewardharness.judging.opening import is_model, open_judge
from rewardharness.judging.release import Release
from rewardharness.judging.release_opening import open_release, pinned_release
from rewardharness.library.store import EMPTY, Library
from rewardharness.settings import Settings

NO_LIBRARY = "no Library"
"""Library name of an entry without one."""


def make_entries(
    judges: Sequence[Callable[[bool], Judge]],
    library: Library,
    library_name: str,
    *,
    without_library: bool = True,
    transfer: bool = False,
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
        transfer: Whether so are the other judges that read a Library.
        head: Rows that come first, such as those of a release.
        evolved_on: Digests of the data that the Library of a release was evolved on.
    """
    entries = list(head)
    for judge in judges:
        first, traits = not entries, judge(False).traits
        read = (library, library_name) if traits.uses_library else (EMPTY, NO_LIBRARY)
        evolved = evolved_on if traits.uses_library else frozenset()
        entries.append(BenchmarkEntry("judge" if first else "baseline", *read, judge, release_data=evolved))
        if (first or transfer) and without_library and traits.uses_library and traits.uses_model:
            entries.append(BenchmarkEntry("empty", EMPTY, NO_LIBRARY, judge))
    keys = [entry.key for entry in entries]
    return [entry for place, entry in enumerate(entries) if entry.key not in keys[:place]]


def open_entries(config: BenchmarkConfig, settings: Settings) -> list[BenchmarkEntry]:
    """Open the rows of the table of a configuration, the judge first."""
    first = config.for_judge(config.judge)
    release, bare = pinned_release(first, settings), not config.no_baseline
    judges = [_baseline(config, judge) for judge in config.baseline_judges]
    if release is None:
        head, judges = [], [str(config.judge), *judges]
        library, name = config.open_library(settings), config.library or settings.library
    else:
        head, library = _release_entries(first, release, settings, bare=bare), release.library
        name = f"the Library of {head[0].library_name}"
    openers = [_config_opener(config, judge, settings, release) for judge in judges]
    evolved_on = release.evolved_on if release is not None else frozenset()
    bare_rows: dict[str, bool] = {"without_library": bare, "transfer": config.transfer}
    return make_entries(openers, library, name, **bare_rows, head=head, evolved_on=evolved_on)


def _baseline(config: BenchmarkConfig, judge: str) -> str:
    """Return a further judge; one that starts with `+` extends the judge of the run."""
    if judge.startswith("+"):
        if config.judge is None:
            raise InputError(f"{judge!r} extends --judge, and there is none.", next_step="Give --judge.")
        judge = f"{config.judge}{judge}"
    return judge


def _release_entries(
    config: ReleaseConfig, release: Release, settings: Settings, *, bare: bool
) -> list[BenchmarkEntry]:
    """Return the rows of a release: itself, and its model with its settings and without a Library."""

    def judge(ties: bool) -> Judge:
        return open_release(release, settings, config)

    name, ties = f"release {release.id[:12]}", bool(release.settings["ties"])
    rows = [BenchmarkEntry("judge", release.library, name, judge, release.id, ties, release.evolved_on)]
    if release.library.id != EMPTY.id and bare and judge(ties).traits.uses_model:
        without = f"{NO_LIBRARY} (judge and settings of {name}, not the release)"
        rows.append(BenchmarkEntry("empty", EMPTY, without, judge, release.id, ties))
    return rows


def _config_opener(
    config: BenchmarkConfig, spec: str, settings: Settings, release: Release | None
) -> Callable[[bool], Judge]:
    """Return a function that opens a judge. `logprob` has no ties. With a release, models use its settings."""
    own = (config if spec == config.judge or is_model(spec) else replace(config, evidence=None)).for_judge(spec)
    pinned = release.model if release is not None else None
    model = own.model if pinned is None else replace(pinned, **model_options(spec))
    router = config.router
    if release is not None and release.router is not None:  # a URL alone is the endpoint of the release's router
        at_url = router is not None and router.startswith(("http://", "https://"))
        router = f"{release.router}@{router}" if at_url else router or release.router

    def open_with(ties: bool) -> Judge:
        ties = ties and model.protocol != "logprob"
        return open_judge(replace(own, router=router), settings, model=model, ties=ties)

    return open_with


def judge_opener(judge: Judge | str, settings: Settings) -> Callable[[bool], Judge]:
    """Return a function that opens a judge, told whether ties are among the labels."""
    if isinstance(judge, str):
        return lambda ties: open_judge(judge, settings, ties=ties)
    return judge.with_ties
