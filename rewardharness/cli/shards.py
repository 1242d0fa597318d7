"""`rh score --output DIR` and its `status`, `merge` and `verify`: datasets of any size."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from rewardharness.bulk.config import ShardsConfig
from rewardharness.cli import output
from rewardharness.cli.command import UsageError
from rewardharness.cli.examples import Bars, note_same_name
from rewardharness.cli.judgment_report import print_report
from rewardharness.cli.options import RunOptions
from rewardharness.evolution.progress import duration
from rewardharness.settings import Settings

if TYPE_CHECKING:
    from rewardharness.bulk.engine import ShardsJob
    from rewardharness.bulk.shards import ShardStore, Status

INCOMPLETE = 3
"""Exit status if rows were not judged, or parts are missing or changed."""


def run_shards(config: ShardsConfig, options: RunOptions, settings: Settings, *, retry_failed: bool) -> int:
    """Judge a dataset into an output folder. Returns the exit status."""
    from rewardharness.bulk.engine import ShardsJob

    if options.run_folder is not None or options.restart:
        name = "--run" if options.run_folder else "--restart"
        raise UsageError(f"{name} does not go with --output.", next_step="Choose another output folder to start over.")
    if options.track:
        raise UsageError("--track does not go with --output.", next_step="Leave one of them out.")
    note_same_name(config.data)
    with Bars(options.quiet) as bars:
        job = ShardsJob.open(config, settings, progress=bars.show)
    if options.dry_run:
        return _print_plan(job, options.json, retry_failed=retry_failed)
    if job.worker.stream.how and not options.quiet:
        output.note(job.worker.stream.how)
    with Bars(options.quiet) as bars:
        found = job.run(bars.show, retry_failed=retry_failed)
    _print_status(job.store, found, as_json=options.json)
    own, left, failed = job.plan(retry_failed=True)
    if not own:
        output.note(f"Share {job.worker.config.shard} has no part: there are {found.parts}.")
    return INCOMPLETE if left or failed else 0


def status(folder: Path, *, json: bool = False) -> int:
    """Show the progress of an output folder, and the report of its rows.

    Example: `rh score status scores/`

    Args:
        folder: The output folder of rh score.
        json: Print one JSON object.
    """
    from rewardharness.bulk.shards import ShardStore

    store = ShardStore(folder)
    _print_status(store, store.status(), as_json=json)
    return 0


def merge(folder: Path, output_file: Path, *, partial: bool = False, yes: bool = False, json: bool = False) -> int:
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
    return 0


def verify(folder: Path, *, json: bool = False) -> int:
    """Check that an output folder has every row once, and that no file was changed.

    Example: `rh score verify scores/`

    Args:
        folder: The output folder of rh score.
        json: Print one JSON object.
    """
    from rewardharness.bulk.shards import REPAIR, ShardStore

    store = ShardStore(folder)
    problems, found = store.problems(), store.status()
    if json:
        output.emit({"rows": found.rows, "rows_done": found.rows_done, "problems": problems})
    else:
        for problem in problems:
            output.say(problem)
        if problems:
            output.note(f"  Next: {REPAIR}")
        output.say(f"{found.rows_done} of {output.count(found.rows, 'row')}; {output.count(len(problems), 'problem')}.")
    return INCOMPLETE if problems else 0


def _print_plan(job: "ShardsJob", as_json: bool, *, retry_failed: bool) -> int:
    job.store.check(job.manifest)
    stream, (_, left, again) = job.worker.stream, job.plan(retry_failed=retry_failed)
    done = job.store.done()
    plan: dict[str, Any] = {
        "data": stream.name,
        "rows": stream.count,
        "parts": len(stream.parts),
        "rows_left": sum(part.count for part in left) + sum(done[part.number]["failed"] for part in again),
        "parts_left": len(left) + len(again),
        "fields": {name: list(columns) for name, columns in stream.fields.columns.items()},
        **job.identity.to_json(),
    }
    if as_json:
        output.emit(plan)
        return 0
    parts = output.count(len(stream.parts), "part")
    output.say(f"{output.count(stream.count, 'row')} of {stream.name} in {parts}. {stream.how}".rstrip())
    output.say(f"{output.count(plan['rows_left'], 'row')} would be judged. {job.identity}")
    output.say(f"Results would be written to {job.store.folder}. Nothing was judged.")
    return 0


def _print_status(store: "ShardStore", found: "Status", *, as_json: bool) -> None:
    from rewardharness.judging.report import report_json

    report = report_json(found.report)
    if as_json:
        numbers = {name: getattr(found, name) for name in ("parts", "parts_done", "rows", "rows_done", "failed")}
        left = found.seconds_left
        output.emit({**numbers, "running": list(found.running), "seconds_left": left, "report": report})
        return
    if found.rows_done:
        print_report(report)
    rest = "" if found.seconds_left is None or found.complete else f", {duration(found.seconds_left)} left"
    active = f"; running: {', '.join(found.running)}" if found.running else ""
    parts = f"{found.parts_done} of {output.count(found.parts, 'part')}"
    output.say(f"{parts}, {found.rows_done} of {output.count(found.rows, 'row')} done{rest}{active}")
    if found.failed:
        if first := store.first_failed():
            name = first["id"] or f"row {first['row']}"
            output.say(f"Such as {name}: {first['code']}: {first['message']}")
        output.say(
            f"{output.count(found.failed, 'row')} not judged: see {store.folder / 'failed'}. Try again: --retry-failed"
        )
    output.say(f"Results: {store.folder / 'judged'}")
