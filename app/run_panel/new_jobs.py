"""New jobs: the configuration that a form describes, what visitors may run, and the environment with the keys.

A job is started with a configuration file. Keys are passed in the environment only, each key to its own model.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from app.batch.archives import Archives
from app.library.libraries import RightsError, Visitor
from app.score.judges import (
    BY_MEASURING,
    ENDPOINT,
    ENVIRONMENT,
    GEMINI,
    MODEL_OPTIONS,
    SERVED,
    JudgeChoice,
    Judges,
    key_for,
    place_of,
)
from rewardharness.benchmark.config import BenchmarkConfig
from rewardharness.benchmark.task import examples_task, list_tasks
from rewardharness.bulk.config import ScoreConfig
from rewardharness.codec import from_json, to_json
from rewardharness.data.opening import DEMO, FEEDBACK
from rewardharness.data.opening import HUB as HUB_DATA
from rewardharness.errors import InputError
from rewardharness.evolution.config import EvolveConfig
from rewardharness.files import user_path
from rewardharness.hub.jobs import JobsClient
from rewardharness.jobs import JobConfig
from rewardharness.judging.baselines import BASELINES
from rewardharness.judging.config import MEASURED
from rewardharness.judging.deployments import DEPLOYED
from rewardharness.library.hub import split_spec, usual_access
from rewardharness.library.opening import THIN
from rewardharness.models.open import model_urls
from rewardharness.remote.config import ON_THIS_COMPUTER, RemoteConfig
from rewardharness.remote.job import REMOTE, RemoteRun, plan_job, read_remote
from rewardharness.schema import Json
from rewardharness.settings import SERVICE_KEYS, Settings

FOLDER = "folder"
"""Choice of examples in a folder on this computer."""
HUB = "hub"
"""Choice of a dataset on the Hugging Face Hub."""
PLACE = "place"
"""Choice of labeled data without a task: a folder, a table, a task file, or a dataset on the Hub."""
OWN = (DEMO, FEEDBACK, PLACE)
"""Choices of a benchmark besides the tasks in the package."""
PROTOCOLS_OF_EXAMPLES = examples_task(DEMO).protocols
"""Protocols of data without a task, the default first."""
BUILTIN = "builtin"
"""Name of the Orchestrator without a model, and of the Library in the package."""
VISITOR_SECONDS = 600
"""Maximum duration in seconds of the search of a visitor's run."""
VISITOR_PAIRS = 40
"""Maximum number of pairs of a visitor's benchmark."""
MAX_PROPOSALS = 1000
"""Maximum number of proposals of a run."""
NO_LOGIN = "HF_HUB_DISABLE_IMPLICIT_TOKEN"
"""Variable that keeps a run from using the Hugging Face login of this computer."""
NO_OWN_KEYS = {
    **dict.fromkeys(("RH_API_KEY", "RH_ORCHESTRATOR_API_KEY", "GEMINI_API_KEY", "GOOGLE_API_KEY"), ""),
    **dict.fromkeys(SERVICE_KEYS.values(), ""),
    NO_LOGIN: "1",
}
"""Environment of a visitor's run: it gets none of the keys of the app."""
_ORCHESTRATOR_KEY = "RH_ORCHESTRATOR_API_KEY"


NewConfig = EvolveConfig | BenchmarkConfig | ScoreConfig
"""Configurations of jobs that the app starts."""


class MissingError(InputError):
    """A required value is missing."""

    title = "The run is not complete"


@dataclass(frozen=True)
class Keys:
    """Keys that a visitor typed; empty if none."""

    judge: str = field(default="", repr=False)
    orchestrator: str = field(default="", repr=False)


NO_KEYS = Keys()


@dataclass(frozen=True)
class NewJob:
    """A job as a form describes it."""

    config: NewConfig
    """The configuration. Unless it names a release, its judge is `judge`."""
    judge: JudgeChoice = BY_MEASURING
    orchestrator_key: str = field(default="", repr=False)
    """Key of the Orchestrator, as typed."""
    where: RemoteConfig = ON_THIS_COMPUTER


@dataclass(frozen=True)
class PreparedJob:
    """A job that can be started."""

    config: NewConfig
    environment: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Changes of the environment of its process: keys, and a judge whose address is hidden."""
    where: RemoteConfig = ON_THIS_COMPUTER


def prepare(job: NewJob, judges: Judges, settings: Settings, *, local: bool) -> PreparedJob:
    """Check a job, and add its judge and its keys.

    Args:
        job: The job as the form describes it.
        judges: The available judges.
        settings: The settings.
        local: Whether the user is at this computer. Visitors may only run jobs that cost nothing.

    Raises:
        InputError: If a value is missing or out of range.
    """
    config = from_json(type(job.config), to_json(job.config))
    if isinstance(config, EvolveConfig) and max(config.proposals, config.iterations) > MAX_PROPOSALS:
        raise InputError("The number of proposals is out of range.", next_step=f"Choose 1 to {MAX_PROPOSALS}.")
    if isinstance(config, BenchmarkConfig) and not {*config.baselines} <= {*BASELINES}:
        raise InputError("Unknown baseline.", next_step=f"Choose from: {', '.join(BASELINES)}.")
    if not local:
        return PreparedJob(_visitor_config(config, settings), NO_OWN_KEYS)
    key = ""
    if isinstance(config, EvolveConfig) or config.release is None:
        config, key = _with_judge(config, job.judge, judges)
    for model in (config.judge, config.router, getattr(config, "orchestrator", None)):
        check_address(model or "")
    keys = Keys(key, _orchestrator_key(job))
    hidden = {"RH_JUDGE": settings.judge} if config.judge is None else {}
    return PreparedJob(config, {**hidden, **keys_of(config, keys, settings)})


def _visitor_config(config: NewConfig, settings: Settings) -> NewConfig:
    """Return the configuration of a visitor's job, whatever the page sent."""
    library = config.library if config.library in (settings.library, THIN) else BUILTIN
    if isinstance(config, ScoreConfig):
        return _visitor_batch(config, library, settings)
    if isinstance(config, BenchmarkConfig):
        limit = VISITOR_PAIRS if config.limit is None else config.limit
        if limit > VISITOR_PAIRS:
            raise InputError(f"{limit} pairs are not allowed here.", next_step=f"Choose 1 to {VISITOR_PAIRS}.")
        return BenchmarkConfig(
            DEMO, library=library, judge=MEASURED, limit=limit, **options_of(config, "seed", "no_baseline", "baselines")
        )
    seconds = VISITOR_SECONDS if config.budget_seconds is None else config.budget_seconds
    if not 1 <= seconds <= VISITOR_SECONDS:
        raise InputError(f"{seconds:g} seconds are not allowed here.", next_step=f"Choose 1 to {VISITOR_SECONDS}.")
    kept = options_of(config, "schedule", "proposals", "iterations", "seed")
    return EvolveConfig(DEMO, library=library, judge=MEASURED, budget_seconds=seconds, **kept)


def options_of(config: object, *names: str) -> dict[str, Any]:
    """Return the values of options."""
    return {name: getattr(config, name) for name in names}


def _visitor_batch(config: ScoreConfig, library: str, settings: Settings) -> ScoreConfig:
    most = settings.batch_pairs
    if not most:
        raise InputError("Batches run only on your own computer.", next_step="Install the app and start it there.")
    if not Archives(settings).holds(Path(config.data)):
        raise InputError("Visitors judge only what they upload.", next_step="Upload a zip archive.")
    if (config.limit or 0) > most:
        raise InputError(f"{config.limit} examples are not allowed here.", next_step=f"Choose 1 to {most}.")
    limit, critique = config.limit or most, config.critique
    return ScoreConfig(config.data, library=library, judge=MEASURED, limit=limit, critique=critique, skip_bad_rows=True)


def _with_judge(config: NewConfig, choice: JudgeChoice, judges: Judges) -> tuple[NewConfig, str]:
    """Return a configuration with a judge, and the key of the judge. A hidden judge is omitted."""
    if choice.kind == MEASURED:
        return replace(config, judge=MEASURED), ""
    spec, settings = judges.spelled(choice)
    key = {**dict.fromkeys(SERVED, settings.api_key), GEMINI: settings.gemini_key}.get(choice.kind)
    return replace(
        config,
        judge=None if choice.kind == ENVIRONMENT else spec,
        **{name: getattr(choice.options, name) for name in MODEL_OPTIONS},
    ), key or ""


def _orchestrator_key(job: NewJob) -> str:
    """Return the key of the Orchestrator: the typed one, or that of the judge if the same place serves both."""
    model, typed, judge = getattr(job.config, "orchestrator", BUILTIN), job.orchestrator_key.strip(), job.judge.key
    if model.startswith("gemini:"):
        if typed and judge is not None and job.judge.kind == GEMINI and typed != judge.value:
            raise InputError("Two keys of Gemini are given.", next_step="Judge and Orchestrator share one; give one.")
        return typed
    places = {place_of(ENDPOINT, url) for url in model_urls(model)}
    return typed or (judge.value if judge is not None and places == {judge.place} else "")


def models_of(config: JobConfig, settings: Settings) -> tuple[str, str]:
    """Return the models that a configuration names as judge and as Orchestrator.

    Empty for the judge of the environment, and where no model is named.
    """
    judge, orchestrator = config.judge or "", getattr(config, "orchestrator", "")
    return "" if judge in {MEASURED, settings.judge} else judge, "" if orchestrator == BUILTIN else orchestrator


def keys_of(config: JobConfig, keys: Keys, settings: Settings) -> dict[str, str]:
    """Return the variables that give keys to a run, each key to its own model only.

    Args:
        config: The configuration of the run.
        keys: The keys that were typed.
        settings: The settings. Their keys are used if none was typed, for servers that they name.
    """
    judge, orchestrator = models_of(config, settings)
    typed, other = keys.judge.strip(), keys.orchestrator.strip()
    judges = (judge, config.router or "", *getattr(config, "baseline_judges", ()))
    changes = {
        "RH_API_KEY": key_for(settings.api_key, settings, *judges) or "",
        _ORCHESTRATOR_KEY: other or key_for(settings.orchestrator_key, settings, orchestrator) or "",
    }
    for model, key in ((orchestrator, other), (judge, typed)):
        if key and model.startswith("gemini:"):
            changes["GEMINI_API_KEY"] = key
    if typed and not judge.startswith("gemini:"):
        changes["RH_API_KEY"] = typed
    return changes


def settings_with(settings: Settings, environment: Mapping[str, str]) -> Settings:
    """Return the settings that a process with a changed environment would read."""
    names = {
        "RH_JUDGE": "judge",
        "RH_API_KEY": "api_key",
        "RH_ORCHESTRATOR_API_KEY": "orchestrator_key",
        "GEMINI_API_KEY": "gemini_key",
    }
    changes: dict[str, Any] = {field: environment[name] or None for name, field in names.items() if name in environment}
    keys = {kind: environment.get(name, settings.service_keys.get(kind, "")) for kind, name in SERVICE_KEYS.items()}
    login = settings.hf_login and not environment.get(NO_LOGIN)
    return replace(settings, **changes, service_keys={kind: key for kind, key in keys.items() if key}, hf_login=login)


def check_address(spec: str) -> None:
    """Check that an address contains no password: configurations are stored.

    Raises:
        InputError: If it contains one.
    """
    if any("@" in url.partition("://")[2].partition("/")[0] for url in model_urls(spec)):
        raise InputError("There is a password in the address.", next_step="Type it as the key instead.")


def whole(value: float | None, problem: str) -> int | None:
    """Return a number of examples; None for all, which is 0 or an empty field.

    Args:
        value: The value of the field.
        problem: What to say of another number, as a format.

    Raises:
        InputError: If it is no whole number.
    """
    if value and value != int(value):
        raise InputError(problem.format(value), next_step="Give a whole number.")
    return int(value) if value else None


def examples_spec(kind: str, place: str) -> str:
    """Return the data of an evolution.

    Args:
        kind: `DEMO`, `FEEDBACK`, `FOLDER` or `HUB`.
        place: The folder or the name on the Hub, as typed.

    Raises:
        InputError: If the place is missing, or the kind is unknown.
    """
    place = place.strip()
    if kind in {DEMO, FEEDBACK}:
        return kind
    if kind == FOLDER:
        if not place:
            raise MissingError("No folder is named.", next_step="Type the path of the folder with the examples.")
        return absolute(place)
    if kind != HUB:
        raise InputError("Unknown kind of data.", next_step="Choose one of the list.")
    if not place:
        raise MissingError("No dataset is named.", next_step="Type it as org/name.")
    return place if place.startswith("hf:") else f"hf:{place}"


def data_spec(typed: str) -> str:
    """Return the data that is typed: `demo`, `feedback`, an absolute path, or a dataset on the Hub.

    Raises:
        InputError: If nothing is typed.
    """
    place = typed.strip()
    if not place:
        raise MissingError("No data are named.", next_step="Type a folder, a table, a file or org/name.")
    if place in {DEMO, FEEDBACK} or place.startswith("hf:"):
        return place
    if user_path(place).exists() or place.startswith(("/", ".", "~")):
        return absolute(place)
    return f"hf:{place}"


def task_and_source(name: str, place: str = "", source: str = "") -> tuple[str, Path | None]:
    """Return the task of a benchmark and the local copy of its data.

    Args:
        name: A task of the package, or one of `OWN`.
        place: For `PLACE`: the data, as typed.
        source: The local copy, as typed; empty for the location that the task names.

    Raises:
        InputError: If a value is missing, or there is no such task.
    """
    place, source = place.strip(), source.strip()
    if name in {DEMO, FEEDBACK}:
        return name, None
    copy = Path(absolute(source)) if source else None
    if name == PLACE:
        return data_spec(place), copy
    task = next((task for task in list_tasks() if task.name == name), None)
    if task is None:
        raise InputError("There is no such task.", next_step="Choose one of the list.")
    if copy is None and not task.data.hub:
        step = "Type where your copy is; the description of the task says how to get it."
        raise MissingError(f"The data of {task.title} are not on the Hub.", next_step=step)
    return task.name, copy


def release_spec(typed: str) -> str:
    """Return a release: its file, or the name of a deployment.

    Raises:
        InputError: If it is missing.
    """
    spec = typed.strip()
    if not spec:
        raise MissingError("No release is named.", next_step=f"Type the path of its file, or {DEPLOYED}NAME.")
    return spec if spec.startswith(DEPLOYED) else absolute(spec)


def absolute(place: str) -> str:
    """Return an absolute path: runs are started in another folder."""
    return str(user_path(place).absolute())


SHOWN_LINES = 12
"""Number of shown lines of the log."""
LOG_TAIL = 16384
"""Bytes at the end of a log that are read."""
LOG_LINE = "job: "
"""Beginning of the lines of the job in the log of the process that follows it."""


@dataclass(frozen=True)
class RemoteStatus:
    """The job of a run, and the end of its log."""

    run: RemoteRun
    lines: tuple[str, ...] = ()


def token_of(visitor: Visitor) -> dict[str, str]:
    """Return the environment of a visitor's run on the Hub: their token, and none of the keys of the app.

    Raises:
        RightsError: If the visitor is not logged in.
    """
    if not visitor.token:
        raise RightsError("You are not logged in.", next_step="Log in first; the job is paid by your account.")
    return {**NO_OWN_KEYS, "HF_TOKEN": visitor.token}


def expect_remote(job: NewJob, settings: Settings, visitor: Visitor, *, local: bool) -> tuple[PreparedJob, Json]:
    """Return a job on the Hub, and its preview with the highest cost. Nothing is spent.

    Args:
        job: The job as the form describes it. Its judge is one that the job serves, or the pixel-based one.
        settings: The settings.
        visitor: Who pays, unless the user is at this computer.
        local: Whether the user is at this computer.

    Raises:
        HarnessError: If it cannot run there, or the account may not start jobs.
    """
    config = from_json(type(job.config), to_json(job.config))
    if not isinstance(config, EvolveConfig):
        raise InputError("Only evolutions run as jobs from this page.", next_step="Use the command line.")
    access, environment = usual_access(settings), dict[str, str]()
    if not local:
        environment = token_of(visitor)
        config = _visitor_remote_config(config, settings)
        access = replace(access, token=visitor.token)
    folder = settings.home / "runs" / "preview"  # a name is given when the run starts
    plan = plan_job(config, job.where, settings, JobsClient(access), folder=folder)
    data = Path(config.data).name if Path(config.data).is_absolute() else config.data.removeprefix(HUB_DATA)
    preview = {"remote": plan.preview, "data": data, "corrections": 0}
    return PreparedJob(config, environment, job.where), preview


def _visitor_remote_config(config: EvolveConfig, settings: Settings) -> EvolveConfig:
    """Return the configuration of a visitor's job: nothing of this computer goes into it."""
    data = config.data
    if data == FEEDBACK and settings.feedback_repo:
        data = f"{HUB_DATA}{settings.feedback_repo}"
    if data != DEMO and not data.startswith(HUB_DATA):
        step = "Choose the demonstration set or a dataset on the Hub."
        raise InputError("These data are not on the Hub.", next_step=step)
    judge = config.judge or ""
    if judge != "measured" and (not judge.startswith("vllm:") or "@http" in judge):
        raise InputError("The job can serve a model only.", next_step="Type its name on the Hub.")
    named = config.library == settings.library and split_spec(settings.library) is not None
    library = config.library if named or config.library == THIN else BUILTIN
    kept = options_of(config, "field", "schedule", "proposals", "iterations", "seed", "budget_seconds")
    return EvolveConfig(data, library=library, judge=judge, **kept)


def is_remote(folder: Path) -> bool:
    """Return whether a run folder is one of a job on the Hub."""
    return (folder / REMOTE).is_file()


def remote_status(folder: Path, log: Path) -> RemoteStatus | None:
    """Return the job of a run and the end of its log; None for a run of this computer."""
    run = read_remote(folder)
    if run is None:
        return None
    try:
        with log.open("rb") as stream:
            stream.seek(max(0, stream.seek(0, 2) - LOG_TAIL))
            text = stream.read().decode("utf-8", "replace")
    except OSError:
        text = ""
    lines = [line.removeprefix(LOG_LINE) for line in text.splitlines() if line.startswith(LOG_LINE)]
    return RemoteStatus(run, tuple(lines[-SHOWN_LINES:]))
