"""Judging many edits: `rh data rank`, `rh data filter`, `rh data pairs`, and datasets of any size.

The latter are `rh score --output DIR` and its `status`, `merge` and `verify`.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from rewardharness.bulk.config import DatasetOutput, FilterConfig, PreferencePairsConfig, RankConfig, ShardsConfig
from rewardharness.cli import output
from rewardharness.cli.command import UsageError, make_app
from rewardharness.cli.output import NOT_JUDGED
from rewardharness.cli.report import print_agreement
from rewardharness.cli.run import NO_OPTIONS, EditsView, RunOptions, View, note_same_name, run_job
from rewardharness.data.config import DataConfig
from rewardharness.errors import InputError
from rewardharness.evolution.progress import duration
from rewardharness.judging.config import JudgeConfig
from rewardharness.remote.config import HERE, ClusterConfig
from rewardharness.runs.spending import BudgetConfig
from rewardharness.settings import Settings

if TYPE_CHECKING:
    from rewardharness.bulk.engine import ShardsJob
    from rewardharness.bulk.job import FilterJob, FilterResult, PairsJob, PairsResult, RankJob, RankResult
    from rewardharness.bulk.shards import ShardStore, Status
    from rewardharness.runs.job import Job, Progress


_SHOWN = 50
_BY_CONTENT = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class _RankArguments(RankConfig):
    _: KW_ONLY
    copy_best: Annotated[Path | None, Parameter(name=("--copy-best", "--output", "-o"))] = None
    """Copy the best candidate of each edit into this folder; copies of an earlier run are removed."""


@dataclass(frozen=True)
class _FilterArguments(FilterConfig):
    _: KW_ONLY
    output: Annotated[Path, Parameter(name=("--output", "-o"))]
    """The result, a .parquet or .jsonl file."""


@dataclass(frozen=True)
class _PairsArguments(PreferencePairsConfig):
    _: KW_ONLY
    output: Annotated[Path, Parameter(name=("--output", "-o"))]
    """A new or empty folder, or one that this command wrote."""


_GROUPS = {"Judge": JudgeConfig, "Data": DataConfig, "Output": DatasetOutput, "Budget": BudgetConfig} | {
    "Run": (RunOptions, ClusterConfig)
}
rank_app = make_app("data rank", "Best of N: rank any number of candidates per edit.", _GROUPS, job="rank")
filter_app = make_app("data filter", "Judge a dataset and keep what is good enough.", _GROUPS, job="filter")
pairs_app = make_app("data pairs", "Make preference pairs for training a reward model.", _GROUPS, job="pairs")


@rank_app.default
def rank(
    config: Annotated[_RankArguments, Parameter(name="*")],
    *,
    options: RunOptions = NO_OPTIONS,
    where: Annotated[ClusterConfig, Parameter(name="*")] = HERE,
) -> int:
    """Rank the candidates of each edit and name the best. Only judged candidates have a reward.

    The same command resumes an interrupted run.

    Example: `rh data rank samples --copy-best best`
    """
    return run_job(config, options, Settings.from_env(), VIEWS["rank"], where)


@filter_app.default
def filter_(
    config: Annotated[_FilterArguments, Parameter(name="*")],
    *,
    options: RunOptions = NO_OPTIONS,
    where: Annotated[ClusterConfig, Parameter(name="*")] = HERE,
) -> int:
    """Judge a dataset and keep what is good enough, each row with its reason. What was not judged is never kept.

    The result is a .parquet or .jsonl file. The same command resumes an interrupted run.

    Example: `rh data filter org/name --min-margin 0.2 -o kept.parquet`
    """
    return run_job(config, options, Settings.from_env(), VIEWS["filter"], where)


@pairs_app.default
def pairs(
    config: Annotated[_PairsArguments, Parameter(name="*")],
    *,
    options: RunOptions = NO_OPTIONS,
    where: Annotated[ClusterConfig, Parameter(name="*")] = HERE,
) -> int:
    """Make preference pairs for training a reward model, with a manifest, checksums and a card.

    Candidates are judged repeatedly. A pair is kept if the mean rewards differ by more than the spread. Sources are
    split before pairs are made. The result is a new or empty folder, or one that this command wrote.

    Example: `rh data pairs samples -o pairs`
    """
    return run_job(config, options, Settings.from_env(), VIEWS["pairs"], where)


class SamplesView(EditsView):
    """What the command line says about a job whose data may be folders of candidates."""

    def open(self, config: Any, options: RunOptions, settings: Settings, progress: "Progress") -> "Job[Any, Any]":
        """Open the job."""
        from rewardharness.jobs import open_job

        if isinstance(config, FilterConfig) and not config.single:
            note_same_name(config.data)
        return open_job(config, settings, folder=options.run_folder, progress=progress)


class RankView(SamplesView):
    """What `rh data rank` says."""

    def show(self, job: "RankJob", result: "RankResult", options: RunOptions) -> int:
        """Print the ranking."""
        from rewardharness.data.source import describe_skipped

        dataset, edits, identity = job.dataset, result.edits, job.opened.identity
        if options.json:
            counts = {"not_judged": result.n_not_judged, "skipped_rows": dataset.skipped_json()}
            output.emit({**counts, **identity.to_json(), "ranking": str(result.ranking), "edits": edits})
        else:
            rows = [
                (edit["id"], str(len(edit["candidates"])), _best_names(edit) or "-", output.share(edit["reward"]))
                for edit in edits[:_SHOWN]
            ]
            output.table(("edit", "candidates", "best", "reward"), rows)
            if len(edits) > _SHOWN:
                output.say(f"The first {_SHOWN} of {len(edits)} edits are shown.")
            output.say(_count_judged(edits))
            if dataset.skipped:
                output.say(describe_skipped(dataset.skipped_json()))
            output.say(f"{identity}; rewards by {job.config.method}")
            output.say(f"All edits: {result.ranking}")
        return NOT_JUDGED if result.n_not_judged or dataset.skipped else 0


class FilterView(SamplesView):
    """What `rh data filter` says."""

    def show(self, job: "FilterJob", result: "FilterResult", options: RunOptions) -> int:
        """Print how many edits were kept, and why the others were not."""
        identity = job.opened.identity
        _note_published(job.config, result.commit)
        if options.json:
            counts = {"n": result.n, "kept": result.kept, "reasons": dict(result.reasons)}
            skipped = {"skipped_rows": job.dataset.skipped_json()}
            output.emit({**counts, **skipped, **identity.to_json(), "commit": result.commit})
        else:
            output.table(("reason", "n"), [(code, str(number)) for code, number in result.reasons.items()])
            output.say(str(identity))
            output.say(f"{result.kept} of {result.n} kept, in {job.config.output}.")
        return NOT_JUDGED if result.reasons.get("not_judged") or job.dataset.skipped else 0


class PairsView(SamplesView):
    """What `rh data pairs` says."""

    def show(self, job: "PairsJob", result: "PairsResult", options: RunOptions) -> int:
        """Print the numbers of pairs."""
        manifest = result.manifest
        _note_published(job.config, result.commit)
        if options.json:
            output.emit({**manifest, "commit": result.commit})
        else:
            output.table(("split", "pairs"), [(name, str(number)) for name, number in manifest["pairs"].items()])
            if dropped := manifest["dropped"]:
                units = {"too_few_judgments": "candidate"}
                rows = [(code, output.count(number, units.get(code, "pair"))) for code, number in dropped.items()]
                output.table(("dropped for", "n"), rows)
            output.say(str(job.opened.identity))
            output.say(f"{job.gate} Everything is in {job.config.output}.")
        complete = manifest["candidates_judged"] == manifest["candidates"] and not job.dataset.skipped
        return 0 if complete else NOT_JUDGED


VIEWS = {"rank": RankView(), "filter": FilterView(), "pairs": PairsView()}
"""Views by job type."""


def _best_names(edit: dict[str, Any]) -> str:
    """Return the best candidates; those of a table, whose names are hashes of their content, by number."""
    best = [candidate for candidate in edit["candidates"] if candidate["name"] in edit["best"]]
    return ", ".join(
        f"number {candidate['index'] + 1}" if _BY_CONTENT.fullmatch(Path(candidate["name"]).stem) else candidate["name"]
        for candidate in best
    )


def _count_judged(edits: Sequence[dict[str, Any]]) -> str:
    """Return how many candidates have a reward, and why the first of the others has none."""
    candidates = [(edit["id"], candidate) for edit in edits for candidate in edit["candidates"]]
    without = [(edit, candidate) for edit, candidate in candidates if candidate["reward"] is None]
    counts = f"{len(candidates) - len(without)} of {len(candidates)} candidates judged"
    if not without:
        return f"{counts}."
    edit, first = without[0]
    return f"{counts}. Not judged, such as {first['name']} of {edit}: {first['reason']}"


def _note_published(config: DatasetOutput, commit: str | None) -> None:
    if commit:
        output.note(f"Published as the dataset {config.push}, commit {commit[:12]}.")


PARTS = ".parts"
"""Ending of the folder of the parts of a file."""


def run_shards(config: ShardsConfig, options: RunOptions, settings: Settings) -> int:
    """Judge a dataset into an output folder. Returns the exit status."""
    if options.run_folder is not None or options.restart:
        name = "--run" if options.run_folder else "--restart"
        raise UsageError(f"{name} does not go with --output.", next_step="Choose another output folder to start over.")
    assert config.output is not None
    file = config.output if config.output.suffix.lower() == ".parquet" and not config.output.is_dir() else None
    if file is not None:
        config = replace(config, output=file.with_suffix(PARTS))
        ours = options.yes or file.with_suffix(PARTS).exists()
        if file.exists() and (not ours or file.resolve() == Path(config.data).resolve()):
            raise InputError(f"{file} is a file.", next_step="Name another file, or replace a result with --yes.")
    if options.track:
        raise UsageError("--track does not go with --output.", next_step="Leave one of them out.")
    return run_job(config, options, settings, ShardsView(file))


@dataclass(frozen=True)
class ShardsView(View):
    """What the command line says about an output folder."""

    file: Path | None = None
    """Parquet file that the rows are merged into, if there is one."""

    def opened(self, job: "ShardsJob", options: RunOptions) -> None:
        """Print how the columns were found."""
        if job.worker.stream.how and not options.quiet and not options.dry_run:
            output.note(job.worker.stream.how)

    def plan(self, job: "ShardsJob", preview: Mapping[str, Any]) -> None:
        """Print what would be judged."""
        stream = job.worker.stream
        parts = output.count(len(stream.parts), "part")
        output.say(f"{output.count(stream.count, 'row')} of {stream.name} in {parts}. {stream.how}".rstrip())
        output.say(f"{output.count(preview['rows_left'], 'row')} would be judged. {job.worker.identity}")
        output.say(f"Results would be written to {job.store.folder}. Nothing was judged.")

    def show(self, job: "ShardsJob", result: "Status", options: RunOptions) -> int:
        """Print the progress of the folder."""
        _print_status(job.store, result, as_json=options.json)
        own, left, _ = job.plan()
        if self.file is not None and result.complete:
            job.store.merge(self.file, replace=True)
            output.note(f"Rows: {self.file}; their parts: {job.store.folder}")
        if not own:
            output.note(f"Share {job.config.shard} has no part: there are {result.parts}.")
        failed = any(job.store.done()[part.number]["failed"] for part in own if part not in left)
        return NOT_JUDGED if left or failed else 0


def _store(place: Path) -> "ShardStore":
    """Return the store of an output folder, or of the parts of a file."""
    from rewardharness.bulk.shards import ShardStore

    return ShardStore(place.with_suffix(PARTS) if place.suffix.lower() == ".parquet" and not place.is_dir() else place)


def status(folder: Path, *, json: bool = False) -> None:
    """Show the progress of an output folder, and the report of its rows.

    Example: `rh score status scores/`

    Args:
        folder: The output folder or Parquet file of rh score.
        json: Print one JSON object.
    """
    store = _store(folder)
    _print_status(store, store.status(), as_json=json)


def merge(
    folder: Path,
    output_file: Annotated[Path, Parameter(name=("--output-file", "--output", "-o"))],
    *,
    partial: bool = False,
    yes: bool = False,
    json: bool = False,
) -> None:
    """Write the judged rows of an output folder to one Parquet file, in the order of the data.

    Example: `rh score merge scores/ scores.parquet`

    Args:
        folder: The output folder of rh score.
        output_file: The Parquet file. Rows that were not judged are written to NAME.failed.parquet beside it.
        partial: Merge the complete parts if some are missing.
        yes: Replace existing files.
        json: Print one JSON object.
    """
    from rewardharness.bulk.shards import ShardStore

    judged, failed = ShardStore(folder).merge(output_file, partial=partial, replace=yes)
    if json:
        output.emit({"file": str(output_file), "judged": judged, "failed": failed})
    else:
        output.say(f"{output.count(judged, 'row')} in {output_file}; {output.count(failed, 'row')} not judged.")


def verify(folder: Path, *, json: bool = False) -> int:
    """Check that an output folder has every row once, and that no file was changed.

    Example: `rh score verify scores/`

    Args:
        folder: The output folder or Parquet file of rh score.
        json: Print one JSON object.
    """
    from rewardharness.bulk.shards import REPAIR

    store = _store(folder)
    problems, state = store.problems(), store.status()
    if json:
        output.emit({"rows": state.rows, "rows_done": state.rows_done, "problems": problems})
    else:
        for problem in problems:
            output.say(problem)
        if problems:
            output.note(f"  Next: {REPAIR}")
        output.say(f"{state.rows_done} of {output.count(state.rows, 'row')}; {output.count(len(problems), 'problem')}.")
    return NOT_JUDGED if problems else 0


def _print_status(store: "ShardStore", state: "Status", *, as_json: bool) -> None:
    from rewardharness.judging.report import report_json

    report = report_json(state.report)
    if as_json:
        numbers = {name: getattr(state, name) for name in ("parts", "parts_done", "rows", "rows_done", "failed")}
        left = state.seconds_left
        output.emit({**numbers, "running": list(state.running), "seconds_left": left, "report": report})
        return
    if state.rows_done:
        print_agreement(report)
    rest = "" if state.seconds_left is None or state.complete else f", {duration(state.seconds_left)} left"
    active = f"; running: {', '.join(state.running)}" if state.running else ""
    parts = f"{state.parts_done} of {output.count(state.parts, 'part')}"
    output.say(f"{parts}, {state.rows_done} of {output.count(state.rows, 'row')} done{rest}{active}")
    if state.failed:
        if first := store.first_failed():
            name = first["id"] or f"row {first['row']}"
            output.say(f"Such as {name}: {first['code']}: {first['message']}")
        output.say(f"{output.count(state.failed, 'row')} not judged: see {store.folder / 'failed'}.")
        output.say("The same command judges again what the model was the cause of; with --retry-failed, all of them.")
    output.say(f"Results: {store.folder / 'judged'}")
