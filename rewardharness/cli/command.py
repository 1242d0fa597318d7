"""Commands that are built with cyclopts: finding, parsing and running them, also with files for `--config`.

Configuration files of TIGER-AI-Lab/RewardHarness are read too.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import fields, is_dataclass, replace
from difflib import get_close_matches
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from rewardharness.cli import output
from rewardharness.cli.output import WRONG_USE
from rewardharness.errors import DataError, HarnessError, InputError, shell
from rewardharness.files import RUN_MANIFEST, read_text
from rewardharness.ranges import Range

if TYPE_CHECKING:
    from cyclopts import App, ArgumentCollection
    from rich.console import Console, ConsoleOptions


class Command(NamedTuple):
    """A command whose module is imported when it runs."""

    module: str
    """Module in this package. Its attribute `app`, or `apps[NAME]`, is the cyclopts app."""
    group: str
    """Heading in the help of `rh`."""
    summary: str


COMMANDS = {
    "score": Command("score", "Judge", "judge one edit or a dataset"),
    "judges": Command("release", "Judge", "list and fetch profiles of published reward models"),
    "serve": Command("serve", "Judge", "serve rewards over HTTP; serve a model with vLLM"),
    "evolve": Command("evolve", "Evolve", "evolve a Library from preferences"),
    "library": Command("library", "Evolve", "create, show, check and compare Libraries"),
    "runs": Command("runs", "Evolve", "list, show, follow, stop, replay and compare runs"),
    "benchmark": Command("benchmark", "Evaluate", "measure agreement with people; compare; reproduce the paper"),
    "arena": Command("arena", "Evaluate", "find out which editor people would prefer on your data"),
    "refine": Command("arena", "Judge", "improve one edit: generate, judge, criticize, try again"),
    "data": Command("data", "Evaluate", "show, generate, filter, pair and rank datasets"),
    "release": Command("release", "Train", "pin judge and Library in a file; verify, deploy and roll back"),
    "lineage": Command("lineage", "Train", "provenance records of trainings and evals"),
    "push-library": Command("hub", "Share", "publish a Library on the Hub"),
    "pull-library": Command("hub", "Share", "download a Library from the Hub"),
    "app": Command("web", "Share", "open the web app, or publish it as a Space"),
    "cache": Command("doctor", "System", "show or clear cached answers of models"),
    "doctor": Command("doctor", "System", "check the installation and endpoints"),
}
"""Commands by name."""

GROUPS = tuple(dict.fromkeys(command.group for command in COMMANDS.values()))
"""Headings of the help."""
SHELLS: Mapping[str, Literal["bash", "zsh", "fish"]] = {"bash": "bash", "zsh": "zsh", "fish": "fish"}
"""Shells with completion."""

JOB_COMMANDS = {"rank": "data rank", "filter": "data filter", "pairs": "data pairs"}
"""Command of a job type, where it is a subcommand."""
RENAMED_OPTIONS = {"--budget-money": "--budget-usd"}
"""Options by their names in earlier versions."""
DEFAULT_COMMANDS = {"benchmark": "run"}
"""Subcommand that is run if none is named."""
MODEL_OPTIONS = ("judge", "orchestrator", "router", "baselines")
"""Options that name models, whose endpoints may be in a file."""
WORDS: ContextVar[tuple[str, ...]] = ContextVar("words", default=())
"""The command line of the command that runs, without `rh`."""


def make_app(
    name: str, summary: str, groups: Mapping[str, type | tuple[type, ...]] | None = None, *, job: str = ""
) -> "App":
    """Create the cyclopts app of a command: no --no-FLAG options, and help that leaves out empty defaults.

    Args:
        name: Name of the command.
        summary: First lines of its help.
        groups: Dataclasses whose fields a section of the help lists, by its title.
        job: Type of the job that it runs, whose options `--config` reads from a file.
    """
    from attrs import evolve
    from cyclopts import App, Parameter
    from cyclopts.help import DefaultFormatter, HelpPanel

    titles = {
        option: title
        for title, owners in (groups or {}).items()
        for owner in (owners if isinstance(owners, tuple) else (owners,))
        for base in owner.__mro__
        for field, kind in getattr(base, "__annotations__", {}).items()
        for option in _options(field, kind)
    }

    class Formatter(DefaultFormatter):
        def __call__(self, console: "Console", options: "ConsoleOptions", panel: HelpPanel) -> None:
            sections: dict[str, list[Any]] = {}
            for entry in panel.entries:
                title = next((titles[option] for option in entry.positive_names if option in titles), panel.title)
                usual = {"False", "()", '""', "None", next(iter(entry.choices or ()), "None")}
                default = None if entry.default in usual else entry.default
                metavar = "PAIR" if entry.metavar == "FLOAT FLOAT" else entry.metavar
                sections.setdefault(str(title), []).append(evolve(entry, default=default, metavar=metavar))
            for title, entries in sections.items():
                super().__call__(console, options, panel.copy(title=title, entries=entries))

    return App(
        name=f"rh {name}",
        help=summary,
        help_format="markdown",
        help_formatter=Formatter(),
        version_flags=[],
        default_parameter=Parameter(negative=""),
        config=[partial(options_from_file, job)] if job else [],
    )


def _options(name: str, kind: Any) -> tuple[str, ...]:
    """Return the option names of a field."""
    named = [option for marker in getattr(kind, "__metadata__", ()) for option in getattr(marker, "name", ()) or ()]
    return tuple(named) or (f"--{name.replace('_', '-')}",)


def make_root() -> "App":
    """Create the cyclopts app of all commands, for completion."""
    from cyclopts import App

    root = App(name="rh", version_flags=[])
    for name in COMMANDS:
        root.command(load_app(name), name=name)
    return root


def suggestion(word: str, known: Iterable[str]) -> str:
    """Return a sentence that suggests the most similar known word; empty if none is similar."""
    similar = get_close_matches(word, known, n=1)
    return f" Did you mean {similar[0]}?" if similar else ""


def load_app(name: str) -> "App":
    """Import the cyclopts app of a command."""
    module = import_module(f"rewardharness.cli.{COMMANDS[name].module}")
    app: App = module.apps[name] if hasattr(module, "apps") else module.app
    return app


def parse(name: str, words: Sequence[str]) -> tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]:
    """Parse the arguments of a command.

    Args:
        name: The command.
        words: Its arguments.

    Returns:
        The function of the command, and its positional and keyword arguments.

    Raises:
        CycloptsError: If an argument is wrong.
        InputError: If a value is out of range, or the file cannot be read.
    """

    def located(name: str, value: Any) -> Any:
        if isinstance(value, str | tuple) and name in MODEL_OPTIONS:
            return _located(value) if isinstance(value, str) else tuple(map(_located, value))
        specs = {field: getattr(value, field, None) for field in MODEL_OPTIONS} if is_dataclass(value) else {}
        changes = {field: new for field, spec in specs.items() if (new := located(field, spec)) != spec}
        return replace(value, **changes) if changes else value

    command, bound, _ = load_app(name).parse_args(words, exit_on_error=False, print_error=False)
    kwargs = {option: located(option, value) for option, value in bound.kwargs.items()}
    return command, tuple(located("", value) for value in bound.args), kwargs


def _located(spec: str) -> str:
    """Replace a file of endpoints in a specification by its URLs."""
    from rewardharness.judging.config import split_options
    from rewardharness.models.open import read_endpoints

    bare = split_options(spec)[0]
    return read_endpoints(bare) + spec.removeprefix(bare)


def within(name: str, allowed: Range) -> Any:
    """Return the annotation of an option that must be in a range."""
    from cyclopts import Parameter

    return Parameter(validator=lambda kind, value: allowed.check(name, value))


class UsageError(InputError):
    """Arguments that are incomplete or contradict each other, found by a command. The exit status is `WRONG_USE`."""


def run_app(name: str, words: Sequence[str]) -> int:
    """Run a command.

    Args:
        name: The command.
        words: Its arguments.

    Returns:
        The exit status; 2 for wrong arguments.
    """
    from cyclopts import CycloptsError

    words = complete(name, words)
    try:
        command, args, kwargs = parse(name, words)
    except (CycloptsError, HarnessError) as error:
        return _wrong_use(name, words, error)
    token = WORDS.set((name, *words))
    try:
        status = command(*args, **kwargs)
    except UsageError as error:
        return _wrong_use(name, words, error)
    finally:
        WORDS.reset(token)
    return status if isinstance(status, int) else 0


def _wrong_use(name: str, arguments: Sequence[str], error: Exception) -> int:
    """Print what is wrong with the arguments of a command. Returns the exit status."""
    from cyclopts import UnusedCliTokensError

    if isinstance(error, UnusedCliTokensError):
        unused = ", ".join(map(repr, error.unused_tokens or ()))
        error = UsageError(f"There is no place for {unused}.", next_step="Put the name of its option before it.")
    named = " ".join([name, *(word for word in arguments[:1] if word in load_app(name))])
    next_step = error.next_step if isinstance(error, HarnessError) else ""
    output.wrong_use(named, f"{getattr(error, 'message', '') or error}", next_step, json="--json" in arguments)
    return WRONG_USE


def complete(name: str, arguments: Sequence[str]) -> list[str]:
    """Add the subcommand that may be omitted: `rh benchmark TASK` is `rh benchmark run TASK`; rename old options."""
    default = DEFAULT_COMMANDS.get(name)
    pairs = (word.partition("=") for word in arguments)
    arguments = ["".join((RENAMED_OPTIONS.get(option, option), *rest)) for option, *rest in pairs]
    return [default, *arguments] if default and arguments and arguments[0] not in load_app(name) else list(arguments)


def options_from_file(job: str, app: "App", commands: tuple[str, ...], arguments: "ArgumentCollection") -> None:
    """Add the options of the file that `--config` names; options given as arguments take precedence.

    Bound to a job, it is the `config` of a cyclopts app, which calls it with the arguments of the command line.

    Raises:
        InputError: If the file cannot be read, or is the configuration of another job.
        CycloptsError: If it has an unknown option.
    """
    from cyclopts.config import Dict

    from rewardharness.judging.config import with_options

    listed = arguments.get("--judges", None)
    tokens = [] if listed is None else listed.tokens
    for token in tuple(tokens):
        if token.value.endswith(_LISTS) and Path(token.value).is_file():
            judges = _read_config(token.value, job)[0].get("judges") or [{}]
            place = tokens.index(token)
            tokens[place : place + 1] = [token.evolve(value=judge) for judge in map(with_options, judges)]
    named = arguments.get("--config", None)
    if named is None or not named.tokens:
        return
    file = named.tokens[0].value
    options, of_run = _read_config(file, job)
    if "judges" in options:
        options["judges"] = [*map(with_options, options["judges"])]
    overrides = {argument.name.lstrip("-").replace("-", "_") for argument in arguments if argument.tokens}
    if of_run:
        options = _checked(options, job, file, overrides)
    Dict(options, source=file, use_commands_as_keys=False)(app, commands, arguments)


_LISTS = (".yaml", ".yml", ".json")
MAX_OPTIONS = 1 << 20
"""Maximum size of a file of options, in bytes."""


def _checked(options: dict[str, Any], job: str, file: str, given: Collection[str]) -> dict[str, Any]:
    """Return the options that a run folder, which may come from another person, may set: no place that is written to.

    Args:
        options: The options in the file.
        job: Job type.
        file: The file.
        given: Options on the command line, which take precedence.

    Raises:
        InputError: If data would go to what the file names, and that is not confirmed.
    """
    from rewardharness.cli.run import RunOptions, confirm_sending
    from rewardharness.codec import WRITES, named
    from rewardharness.jobs import JOBS
    from rewardharness.settings import Settings

    not_of_run = {*named(JOBS[job].config, WRITES), *(field.name for field in fields(RunOptions)), "run"}
    used = {name: value for name, value in options.items() if name not in {*not_of_run, *given}}
    for name in sorted(options.keys() - used.keys() - {*given}):
        output.note(f"{file}: {name} is not used; to set it, give --{name.replace('_', '-')}.")
    confirm_sending(JOBS[job].config, used, Settings.from_env(), "yes" in given)
    return used


def _read_config(file: str, job: str) -> tuple[dict[str, Any], bool]:
    """Read options from a YAML or JSON file. Returns them, and whether the file is the configuration of a run."""
    from rewardharness.library.yamlsafe import read_yaml

    try:
        text = read_text(Path(file), MAX_OPTIONS)
    except (OSError, DataError) as error:
        reason = error.message.rstrip(".") if isinstance(error, DataError) else error
        step = "Name a YAML or JSON file of options."
        raise InputError(f"{file} cannot be read: {reason}.", next_step=step) from None
    document = read_yaml(text, where=file).value
    if is_upstream(document):
        translated, remarks = read_upstream(document, job, file)
        for remark in remarks:
            output.note(f"{file}: {remark}")
        return translated, False
    options = {key.replace("-", "_"): value for key, value in document.items()}
    of_run = "job" in options or (Path(file).parent / RUN_MANIFEST).exists()
    given = options.pop("job", job)  # in the config.json of a run folder
    if given != job:
        words = JOB_COMMANDS.get(str(given), str(given)).split()
        step = shell("Write: rh {} --config {}", words, file)
        raise InputError(f"{file} is the configuration of {shell('rh {}', words)}.", next_step=step)
    used = {name: value for name, value in options.items() if value is not None and value is not False and value != []}
    return used, of_run


SECTIONS = ("schema_version", "model", "gemini", "evolution", "benchmark")
KEYS: Mapping[str, Mapping[str, Mapping[str, str]]] = {
    "evolve": {
        "gemini": {"model": "orchestrator"},
        "evolution": {
            "train_dataset": "data",
            "max_iterations": "iterations",
            "batch_concurrent": "concurrency",
            "seed": "seed",
        },
    },
    "benchmark": {"gemini": {"model": "router"}, "benchmark": {"dataset": "task", "max_workers": "concurrency"}},
}
"""Option by section and key, by job."""
FIXED: Mapping[str, Any] = {
    "train_n": 60,
    "val_n": 40,
    "explore_margin": 0.075,
    "augment_swap": True,
    "prune_every_n": 50,
}
"""Values of the section evolution that `--schedule paper` has built in, of 100 examples."""
TASKS = {"TIGER-Lab/EditReward-Bench": "editreward-bench"}
"""Our task by the dataset of a benchmark."""


def is_upstream(document: Mapping[str, Any]) -> bool:
    """Return whether a document is such a configuration: it has one of its sections, and no options of ours."""
    return any(isinstance(document.get(name), Mapping) for name in SECTIONS) and "job" not in document


def read_upstream(document: Mapping[str, Any], job: str, file: str) -> tuple[dict[str, Any], list[str]]:
    """Translate a configuration.

    Args:
        document: The parsed file.
        job: `evolve` or `benchmark`.
        file: Its name, for messages.

    Returns:
        Options of the job, and remarks on keys without an effect.

    Raises:
        InputError: If the job has no such configuration, a key is unknown, or a value has the wrong type.
    """
    if job not in KEYS:
        step = "Use it with rh evolve or rh benchmark."
        raise InputError(f"{file} is a configuration of TIGER-AI-Lab/RewardHarness.", next_step=step)
    unknown = [name for name in document if name not in SECTIONS]
    options: dict[str, Any] = {"schedule": "paper"} if job == "evolve" else {}
    remarks = []
    for section, keys in KEYS[job].items():
        values = document.get(section) or {}
        if not isinstance(values, Mapping):
            raise InputError(f"{file}: {section} is not a mapping.", next_step=f"Write {section}: and its keys below.")
        known = {*keys, *(FIXED if section == "evolution" else ())}
        unknown += [f"{section}.{name}" for name in values if name not in known]
        options |= {option: values[name] for name, option in keys.items() if values.get(name) is not None}
        if section == "evolution":
            remarks += [
                f"{section}.{name}: {values[name]} has no effect; --schedule paper uses {fixed}."
                for name, fixed in FIXED.items()
                if name in values and values[name] != fixed
            ]
    if unknown:
        raise InputError(f"{file} has unknown keys: {', '.join(unknown)}.", next_step="Correct or remove them.")
    return _converted(options, file), remarks


def _converted(options: dict[str, Any], file: str) -> dict[str, Any]:
    """Convert values to those of our options."""
    for name in ("iterations", "concurrency", "seed"):
        if name in options and (not isinstance(options[name], int) or isinstance(options[name], bool)):
            raise InputError(f"{file}: {options[name]!r} is not a whole number.", next_step=f"Correct the {name}.")
    if "iterations" in options:
        options["iterations"] = max(1, options["iterations"] - 1)  # theirs counts the first judgment of all examples
    for name in ("orchestrator", "router"):
        if name in options:
            options[name] = f"gemini:{options[name]}"
    if "task" in options:
        options["task"] = TASKS.get(options["task"], options["task"])
    return options
