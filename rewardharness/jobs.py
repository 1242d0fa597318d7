"""The job types: their configurations, as classes and as the `config.json` of a run folder, and their jobs."""

from collections.abc import Iterable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

from rewardharness.benchmark.config import BenchmarkConfig
from rewardharness.bulk.config import (
    ExamplesConfig,
    FilterConfig,
    PreferencePairsConfig,
    RankConfig,
    ScoreConfig,
    ShardsConfig,
)
from rewardharness.codec import SENDS, from_json, named
from rewardharness.editors.config import ON_THIS_MACHINE, ArenaConfig, RefineConfig
from rewardharness.errors import InputError, RunError
from rewardharness.evolution.config import BUILTIN, EvolveConfig
from rewardharness.files import read_json
from rewardharness.runs.job import Job, Progress
from rewardharness.runs.records import CONFIG
from rewardharness.runs.store import OUTCOME
from rewardharness.settings import Settings

JobConfig = ExamplesConfig | BenchmarkConfig | EvolveConfig | ArenaConfig | RefineConfig


class JobType(NamedTuple):
    """A row of the table of job types."""

    config: type[JobConfig]
    job: str
    """Module and class of the job, which is imported when one is opened."""
    report: str = ""
    """File of the run folder that a replay compares, besides the judgments; empty if there is none."""
    library: str = ""
    """Folder of the starting Library in a run folder; empty if there is none."""


JOBS: Mapping[str, JobType] = {
    "score": JobType(ScoreConfig, "bulk.job:ScoreJob"),
    "benchmark": JobType(BenchmarkConfig, "benchmark.job:BenchmarkJob", "report.json"),
    "rank": JobType(RankConfig, "bulk.job:RankJob", OUTCOME),
    "filter": JobType(FilterConfig, "bulk.job:FilterJob", OUTCOME),
    "pairs": JobType(PreferencePairsConfig, "bulk.job:PairsJob", OUTCOME),
    "arena": JobType(ArenaConfig, "editors.job:ArenaJob", "report.json"),
    "refine": JobType(RefineConfig, "editors.refine_job:RefineJob", "refined.json"),
    "evolve": JobType(EvolveConfig, "evolution.job:EvolutionJob", "report.json", "versions/0000"),
}
"""Job types with a run folder, by the `command` of a manifest."""
OUTPUT_JOB = JobType(ShardsConfig, "bulk.engine:ShardsJob")
"""Judging of a dataset of any size into an output folder: `rh score --output`."""


def name_of(config: JobConfig) -> str:
    """Return the job type of a configuration."""
    return next(name for name, row in JOBS.items() if isinstance(config, row.config))


def open_job(
    config: JobConfig, settings: Settings, *, folder: Path | None = None, progress: Progress | None = None
) -> Job[Any, Any]:
    """Open the job of a configuration, whose class decides on the job; see `Job.open`."""
    rows = {row.config: row for row in (*JOBS.values(), OUTPUT_JOB)}
    module, _, name = next(rows[kind] for kind in type(config).__mro__ if kind in rows).job.partition(":")
    kind: type[Job[Any, Any]] = getattr(import_module(f"rewardharness.{module}"), name)
    return kind.open(config, settings, folder=folder, progress=progress)


def sent_to(config: JobConfig | type[JobConfig], values: Mapping[str, Any], own: Iterable[str] = ()) -> list[str]:
    """Return where a job sends data: the addresses of its models, else their names, and other addresses.

    Args:
        config: The configuration, or its class.
        values: Its values by field.
        own: Values that are known, such as the judge of the settings.
    """
    from rewardharness.judging.baselines import BASELINES
    from rewardharness.judging.config import MEASURED, members_of, split_judges, split_options
    from rewardharness.judging.opening import FILE
    from rewardharness.models.open import model_urls

    fields = [values.get(name) or () for name in named(config, SENDS)]
    listed = [spec for value in fields for spec in split_judges([value] if isinstance(value, str) else map(str, value))]
    plain = [split_options(spec)[0] for spec in listed]
    specs = [split_options(spec)[0] for judge in plain for spec in members_of(judge) or [judge]]
    here = {*own, "", MEASURED, BUILTIN, *BASELINES}
    remote_specs = [spec for spec in specs if not spec.startswith((FILE, "scripted:", *ON_THIS_MACHINE))]
    return sorted({place for spec in remote_specs if spec not in here for place in model_urls(spec) or [spec]})


def read_config(folder: Path) -> tuple[str, JobConfig]:
    """Read the configuration of a run.

    Args:
        folder: The run folder.

    Returns:
        The job type and the configuration.

    Raises:
        RunError: If there is none, or this version cannot read it.
    """
    path = folder / CONFIG
    if not path.is_file():
        raise RunError(
            f"{folder} has no {CONFIG}.",
            next_step="The run did not start, or an earlier version made it. Run the command again.",
        )
    document: Any = read_json(path)
    row = JOBS.get(str(document.get("job"))) if isinstance(document, dict) else None
    if row is None:
        raise RunError(f"{path} is not the configuration of a job.", next_step=f"Job types: {', '.join(JOBS)}.")
    try:
        return document.pop("job"), from_json(row.config, document)
    except InputError as error:
        raise RunError(
            f"This version cannot read {path}: {error.message}.",
            next_step="Use the version that wrote it, or give the command again.",
        ) from None
