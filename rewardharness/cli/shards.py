"""`rh score --output DIR` and its `status`, `merge` and `verify`: datasets of any size."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from rewardharness.bulk.config import ShardsConfig
from rewardharness.cli import output
from rewardharness.cli.command import UsageError
from rewardharness.cli.output import NOT_JUDGED
from rewardharness.cli.report import print_agreement
from rewardharness.cli.run import RunOptions, View, run_job
from rewardharness.errors import InputError
from rewardharness.evolution.progress import duration
from rewardharness.settings import Settings

if TYPE_CHECKING:
    from rewardharness.bulk.engine import ShardsJob
    from rewardharness.bulk.shards import ShardStore, Status


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
    problems, found = store.problems(), store.status()
    if json:
        output.emit({"rows": found.rows, "rows_done": found.rows_done, "problems": problems})
    else:
        for problem in problems:
            output.say(problem)
        if problems:
            output.note(f"  Next: {REPAIR}")
        output.say(f"{found.rows_done} of {output.count(found.rows, 'row')}; {output.count(len(problems), 'problem')}.")
    return NOT_JUDGED if problems else 0


def _print_status(store: "ShardStore", found: "Status", *, as_json: bool) -> None:
    from rewardharness.judging.report import report_json

    report = report_json(found.report)
    if as_json:
        numbers = {name: getattr(found, name) for name in ("parts", "parts_done", "rows", "rows_done", "failed")}
        left = found.seconds_left
        output.emit({**numbers, "running": list(found.running), "seconds_left": left, "report": report})
        return
    if found.rows_done:
        print_agreement(report)
    rest = "" if found.seconds_left is None or found.complete else f", {duration(found.seconds_left)} left"
    active = f"; running: {', '.join(found.running)}" if found.running else ""
    parts = f"{found.parts_done} of {output.count(found.parts, 'part')}"
    output.say(f"{parts}, {found.rows_done} of {output.count(found.rows, 'row')} done{rest}{active}")
    if found.failed:
        if first := store.first_failed():
            name = first["id"] or f"row {first['row']}"
            output.say(f"Such as {name}: {first['code']}: {first['message']}")
        output.say(f"{output.count(found.failed, 'row')} not judged: see {store.folder / 'failed'}.")
        output.say("The same command judges again what the model was the cause of; with --retry-failed, all of them.")
    output.say(f"Results: {store.folder / 'judged'}")
