"""What the commands that judge many edits share: opening the job, progress, and the preview."""

import gc
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeVar

from rewardharness.bulk.config import ExamplesConfig, SamplesConfig
from rewardharness.cli import output
from rewardharness.cli.examples import Bars, note_same_name
from rewardharness.cli.options import RunOptions, record_arguments
from rewardharness.garbage import collection_paused
from rewardharness.settings import Settings

if TYPE_CHECKING:
    from rewardharness.bulk.judging_job import JudgingJob

    J = TypeVar("J", bound=JudgingJob[Any])


def open_job(job_type: "type[J]", config: ExamplesConfig, options: RunOptions, settings: Settings) -> "J":
    """Open data, judge and Library, with progress bars and warnings. Nothing is judged."""
    if not isinstance(config, SamplesConfig) and not getattr(config, "single", False):
        note_same_name(config.data)
    with Bars(options.quiet) as bars, collection_paused():
        job = job_type.open(config, settings, folder=options.run_folder, progress=bars.show)
        gc.freeze()  # all of it stays to the end of the command
    for problem in job.dataset.problems:
        output.note(f"{job.dataset.name}: {problem}")
    return job


def manifest_of(config: ExamplesConfig, options: RunOptions, settings: Settings) -> Mapping[str, Any]:
    """Return the manifest that a run would have, without judging anything."""
    from rewardharness.bulk.job import job_of

    return open_job(job_of(config), config, options, settings).manifest


def print_plan(job: "JudgingJob[Any]") -> int:
    """Print what a job would judge. Returns the exit status."""
    edits, judgments = len(job.dataset.examples), job.n_judgments
    output.say(
        f"{edits} edit{'s' * (edits != 1)} of {job.dataset.name}: "
        f"{judgments} judgment{'s' * (judgments != 1)} by {job.judge.name}, "
        f"Library {job.opened.library.id[:12]}."
    )
    output.say(f"Results would be written to {job.folder}. Nothing was judged.")
    return 0


@contextmanager
def judging(job: "JudgingJob[Any]", options: RunOptions) -> Iterator[dict[str, Any]]:
    """Provide the arguments with which a command runs a job, and show its progress."""
    with Bars(options.quiet) as bars:

        def show(label: str, done: int, total: int) -> None:
            if first and done and not options.quiet:
                output.note(f"{done} of {total} are judged already in {job.folder}.")
            first.clear()
            bars.show(label, done, total)

        first = [True]
        arguments = record_arguments(job.config, options)
        yield {"progress": show, "restart": options.restart, "arguments": arguments, "track": options.track or None}
