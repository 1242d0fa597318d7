"""A benchmark as it is chosen on the screen, and the command that it becomes.

What is typed becomes words of `rh benchmark`, so that the page starts nothing that the command line could not. Keys are
never among the words.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from app.judges import BY_MEASURING, JudgeChoice, Judges
from app.new_run import BUILTIN, NO_KEYS_OF_OURS, Command, MissingError, check_address, judge_words, own_keys
from rewardharness.benchmark.task import examples_task, list_tasks
from rewardharness.data.opening import DEMO, FEEDBACK
from rewardharness.errors import InputError
from rewardharness.judging.baselines import BASELINES
from rewardharness.judging.deployments import DEPLOYED
from rewardharness.judging.opening import MEASURED
from rewardharness.settings import Settings

PLACE = "place"
"""Choice of labelled data that have no declaration: a folder, a table, a task file, or a dataset on the Hub."""

OWN = (DEMO, FEEDBACK, PLACE)
"""Choices beside the tasks that come with the package."""

PROTOCOLS_OF_EXAMPLES = examples_task(DEMO).protocols
"""Protocols of data that have no declaration, the usual one first."""

VISIT_PAIRS = 40
"""Pairs of the demonstration set that a stranger may have judged, at most."""

MOST_PAIRS = 1_000_000
"""Pairs or groups that a sample may hold."""


_SERVED = re.compile(r"[a-z][^\s\x00-\x1f]{1,499}")
"""An address, or the whole spelling of a model with its address."""


@dataclass(frozen=True)
class NewBenchmark:
    """A benchmark as it is chosen."""

    task: str = DEMO
    """The name of a task, or one of `OWN`."""
    place: str = ""
    """For `PLACE`: the data, as typed."""
    source: str = ""
    """For a task, or a task file: a local copy of its data, as typed; empty: from where it says."""
    protocol: str = ""
    """One of the task's protocols; empty: the usual one."""
    limit: int | None = None
    """Pairs or groups to draw; None: all."""
    seed: int = 0
    judge: JudgeChoice = BY_MEASURING
    library: str = BUILTIN
    """Spelling of the Library."""
    release: str | None = None
    """A release, as typed: its file, or `deployed:NAME`. It takes the place of judge and Library; None: they judge."""
    served: str = ""
    """Where the model of the release is served, as typed; empty: as `RH_JUDGE` says."""
    router: str = ""
    """The same of its router."""
    bare: bool = True
    """Whether the same judge without a Library stands in the table."""
    baselines: tuple[str, ...] = ()
    """Some of `BASELINES`."""


def benchmark_command(new: NewBenchmark, judges: Judges, settings: Settings, *, local: bool) -> Command:
    """Spell a benchmark.

    Args:
        new: The benchmark as it was chosen.
        judges: Who knows how judges are spelled, and which keys they get.
        settings: The settings.
        local: Whether who asks sits at this computer; strangers may only have what costs nobody anything.

    Raises:
        InputError: If something is missing or out of range.
    """
    if new.limit is not None and not 1 <= new.limit <= MOST_PAIRS:
        raise InputError(f"A sample of {new.limit} cannot be drawn.", next_step="Give 1 or more, or nothing for all.")
    unknown = [name for name in new.baselines if name not in BASELINES]
    if unknown:
        raise InputError("There is no such baseline.", next_step="Choose some of the list.")
    table = ["--baselines", ",".join(new.baselines)] if new.baselines else []
    table += [] if new.bare else ["--no-baseline"]
    if not local:
        return _visit(new, settings, table)
    words = ["benchmark", "run", *_data(new)]
    words += ["--task-protocol", new.protocol] if new.protocol else []
    words += ["--limit", str(new.limit)] if new.limit is not None else []
    who, changes = _who(new, judges, settings)
    return Command((*words, "--seed", str(new.seed), *who, *table), changes)


def _who(new: NewBenchmark, judges: Judges, settings: Settings) -> tuple[list[str], dict[str, str]]:
    """Words and variables that say who judges."""
    if new.release is None:
        told, changes = judge_words(new.judge, judges)
        return ["--library", new.library, *told], changes
    spec = new.release.strip()
    if not spec:
        raise MissingError("No release is named.", next_step=f"Type the path of its file, or {DEPLOYED}NAME.")
    words = ["--release", spec if spec.startswith(DEPLOYED) else _absolute(spec)]
    served, router = new.served.strip(), new.router
    for option, place in (("--judge", served), ("--router", router)):
        if place and not _SERVED.fullmatch(place):
            step = "Type the address, like http://localhost:8000/v1."
            raise InputError("The model of the release cannot be served there.", next_step=step)
        check_address(place)
        words += [option, place] if place else []
    return words, {"RH_JUDGE": settings.judge, **own_keys(settings, served, router)}


def _visit(new: NewBenchmark, settings: Settings, table: list[str]) -> Command:
    """The benchmark of a stranger. Whatever the page sent, it is no other."""
    limit = VISIT_PAIRS if new.limit is None else new.limit
    if limit > VISIT_PAIRS:
        raise InputError(f"{limit} pairs cannot be had here.", next_step=f"Choose 1 to {VISIT_PAIRS}.")
    library = settings.library if new.library == settings.library else BUILTIN
    words = ["benchmark", "run", DEMO, "--limit", str(limit), "--seed", str(new.seed), "--library", library]
    return Command((*words, "--judge", MEASURED, *table), NO_KEYS_OF_OURS)


def _data(new: NewBenchmark) -> list[str]:
    if new.task in (DEMO, FEEDBACK):
        return [new.task]
    place, source = new.place.strip(), new.source.strip()
    if new.task != PLACE:
        task = next((each for each in list_tasks() if each.name == new.task), None)
        if task is None:
            raise InputError("There is no such task.", next_step="Choose one of the list.")
        if not source and not task.data.hub:
            step = "Type where your copy lies; the lines about the task say how to get it."
            raise MissingError(f"The data of {task.title} are not on the Hub.", next_step=step)
        return [task.name, *(["--source", _absolute(source)] if source else [])]
    if not place:
        raise MissingError("No data are named.", next_step="Type a folder, a table, a task file or org/name.")
    copy = ["--source", _absolute(source)] if source else []
    path = Path(place).expanduser()
    if path.exists() or place.startswith(("/", ".", "~")):
        return [_absolute(place), *copy]
    return [place if place.startswith("hf:") else f"hf:{place}", *copy]


def _absolute(place: str) -> str:
    return str(Path(place).expanduser().absolute())
