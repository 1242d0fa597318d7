"""The job types: their configurations, as classes and as the `config.json` of a run folder."""

from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from rewardharness.benchmark.config import BenchmarkConfig, split_judges
from rewardharness.bulk.config import ExamplesConfig, FilterConfig, PreferencePairsConfig, RankConfig, ScoreConfig
from rewardharness.codec import SENDS, from_json, named
from rewardharness.errors import InputError, RunError
from rewardharness.evolution.config import BUILTIN, EvolveConfig
from rewardharness.files import read_json
from rewardharness.judging.config import EVIDENCE
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

REMOVED: Mapping[str, Any] = {"scope": "library"}
"""Options of earlier versions, with the value that is the only one now. Runs with another one cannot be read."""
RENAMED = {"budget_money": "budget_usd"}
"""Options that earlier versions named otherwise."""


def current_options(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options of a configuration under their names in this version, without removed ones."""
    kept = {name: value for name, value in options.items() if name not in REMOVED or value != REMOVED[name]}
    return {RENAMED.get(name, name): value for name, value in kept.items()}


def sent_to(config: JobConfig | type[JobConfig], values: Mapping[str, Any], own: Iterable[str] = ()) -> list[str]:
    """Return where a job sends data: the addresses of its models, else their names, and other addresses.

    Args:
        config: The configuration, or its class.
        values: Its values by field.
        own: Values that are known, such as the judge of the settings.
    """
    from rewardharness.judging.baselines import BASELINES
    from rewardharness.judging.config import MEASURED
    from rewardharness.judging.opening import FILE
    from rewardharness.models.open import model_urls

    given = [values.get(name) or () for name in named(config, SENDS)]
    specs = [spec for value in given for spec in split_judges([value] if isinstance(value, str) else map(str, value))]
    here = {*own, MEASURED, BUILTIN, *BASELINES}
    found = [spec.removesuffix(EVIDENCE) for spec in specs if not spec.startswith((FILE, "scripted:"))]
    return sorted({place for spec in found if spec not in here for place in model_urls(spec) or [spec]})


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
        options = current_options(found)
        return options.pop("job"), from_json(kind, options)
    except InputError as error:
        raise RunError(
            f"This version cannot read {path}: {error.message}.",
            next_step="Use the version that wrote it, or give the command again.",
        ) from None
