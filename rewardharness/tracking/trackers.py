"""The trackers: their names, and the calls that each of them needs.

Nothing in a run waits for a tracker; `logger` calls these functions in threads.
"""

import logging
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

from rewardharness.errors import HarnessError, InputError, MissingPackageError, shown

log = logging.getLogger(__name__)

PROJECT = "rewardharness"
"""Project of a tracker that names none."""
PACKAGES: Mapping[str, tuple[str, str]] = {
    "trackio": ("trackio", "track"),
    "wandb": ("wandb", "wandb"),
    "tensorboard": ("tensorboardX", "tensorboard"),
}
"""Package and extra of each tracker."""
WANDB_TIMEOUT = 10.0
"""Seconds in which the server of wandb must answer at the start; the end of the process waits for it."""

Config = Mapping[str, str | int | float | bool]
Numbers = Mapping[str, float]


class Tracker(NamedTuple):
    """A run that is open in a tracker."""

    log: Callable[[Numbers, int], None]
    """Log numbers by name, at a step."""
    finish: Callable[[], None]
    """Send what is left, and close the run."""


@dataclass(frozen=True)
class TrackerSpec:
    """A tracker and its project, as `NAME[:PROJECT]`."""

    name: str
    project: str = PROJECT

    def open(self, run: str, config: Config, folder: Path) -> Tracker:
        """Open or continue a run. Imports the package of the tracker.

        Args:
            run: Id and name in the tracker; a resumed run keeps it.
            config: Settings of the run.
            folder: Folder for the files of trackers that have no place of their own.
        """
        return _OPENERS[self.name](self.project, run, config, folder)


def parse_trackers(texts: str | Iterable[str]) -> tuple[TrackerSpec, ...]:
    """Read names of trackers, separated by commas; none twice.

    Raises:
        InputError: If a name or project cannot be used.
    """
    parts = [part.strip() for text in ([texts] if isinstance(texts, str) else texts) for part in text.split(",")]
    trackers: dict[TrackerSpec, None] = {}
    for part in filter(None, parts):
        name, colon, project = part.partition(":")
        if name not in PACKAGES:
            step = f"Use {', '.join(PACKAGES)}, each with :PROJECT if needed, in --track or RH_TRACK."
            raise InputError(f"Unknown tracker {shown(name)!r}.", next_step=step)
        if colon and not (project and all(char.isalnum() or char in "-_." for char in project) and project[0] != "."):
            step = "Use letters, digits, '-', '_' and '.'."
            raise InputError(f"The project {shown(project)!r} of {name} cannot be used.", next_step=step)
        trackers[TrackerSpec(name, project or PROJECT)] = None
    return tuple(trackers)


def check_packages(specs: Iterable[TrackerSpec]) -> None:
    """Check that the packages of trackers are installed, without importing them.

    Raises:
        MissingPackageError: If one is not.
    """
    for spec in specs:
        package, extra = PACKAGES[spec.name]
        if find_spec(package) is None:
            raise MissingPackageError(package, extra, f"logging to {spec.name}")


def _trackio(project: str, run: str, config: Config, folder: Path) -> Tracker:
    import trackio

    for name, module in list(sys.modules.items()):  # it prints on standard output, which belongs to the command
        if name.partition(".")[0] == "trackio":
            vars(module)["print"] = _quiet
    options = {"resume": "allow", "embed": False, "auto_log_gpu": False, "auto_log_cpu": False}
    opened = trackio.init(project, name=run, config=dict(config), **options)
    return Tracker(lambda numbers, step: opened.log(dict(numbers), step=step), opened.finish)


def _wandb(project: str, run: str, config: Config, folder: Path) -> Tracker:
    import wandb

    on = dict.fromkeys(("silent", "disable_code", "disable_git", "x_disable_meta", "x_disable_machine_info"), True)
    off = dict.fromkeys(("save_code", "x_save_requirements"), False)
    settings = wandb.Settings(console="off", host="", x_disable_stats=True, init_timeout=WANDB_TIMEOUT, **on, **off)
    mode = wandb.setup(settings).settings.mode
    if mode not in {"offline", "disabled"} and not wandb.login(prompt=False, verify=False):
        raise HarnessError("you are not logged in; use `wandb login`, or set WANDB_MODE=offline")
    opened = wandb.init(project=project, id=run, name=run, config=dict(config), resume="allow", settings=settings)
    return Tracker(lambda numbers, step: opened.log(dict(numbers), step=step), opened.finish)


def _tensorboard(project: str, run: str, config: Config, folder: Path) -> Tracker:
    from tensorboardX import SummaryWriter

    folder = folder / "tensorboard" / project / run
    # Names of files count seconds: a run that is resumed within one would overwrite its first file.
    writer = SummaryWriter(str(folder), filename_suffix=f".{sum(1 for _ in folder.glob('*'))}")
    lines = "\n".join(f"| {name} | {value} |" for name, value in config.items())
    writer.add_text("config", f"| name | value |\n|---|---|\n{lines}")

    def log_numbers(numbers: Numbers, step: int) -> None:
        for name, value in numbers.items():
            writer.add_scalar(name, value, step)
        writer.flush()

    return Tracker(log_numbers, writer.close)


def _quiet(*values: Any, **options: Any) -> None:
    log.debug("%s", " ".join(map(str, values)))


_OPENERS: Mapping[str, Callable[[str, str, Config, Path], Tracker]] = {
    "trackio": _trackio,
    "wandb": _wandb,
    "tensorboard": _tensorboard,
}
