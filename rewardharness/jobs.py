"""The job types: their configurations, as classes and as the `config.json` of a run folder."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rewardharness.benchmark.config import BenchmarkConfig
from rewardharness.bulk.config import ExamplesConfig, FilterConfig, PreferencePairsConfig, RankConfig, ScoreConfig
from rewardharness.codec import from_json
from rewardharness.errors import InputError, RunError
from rewardharness.evolution.config import EvolveConfig
from rewardharness.files import read_json
from rewardharness.runs.records import CONFIG

JobConfig = ExamplesConfig | BenchmarkConfig | EvolveConfig

JOBS: Mapping[str, type[JobConfig]] = {
    "score": ScoreConfig,
    "benchmark": BenchmarkConfig,
    "rank": RankConfig,
    "filter": FilterConfig,
    "pairs": PreferencePairsConfig,
    "evolve": EvolveConfig,
}
"""Configuration by job type, which is the `command` of a manifest."""


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
    found: Any = read_json(path)
    kind = JOBS.get(str(found.get("job"))) if isinstance(found, dict) else None
    if kind is None:
        raise RunError(f"{path} is not the configuration of a job.", next_step=f"Job types: {', '.join(JOBS)}.")
    try:
        return found["job"], from_json(kind, {name: value for name, value in found.items() if name != "job"})
    except InputError as error:
        raise RunError(
            f"This version cannot read {path}: {error.message}.",
            next_step="Use the version that wrote it, or give the command again.",
        ) from None
