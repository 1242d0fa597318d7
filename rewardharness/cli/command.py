"""Commands that are built with cyclopts: finding, parsing and running them."""

from collections.abc import Callable, Mapping, Sequence
from contextvars import ContextVar
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from rewardharness.cli import output
from rewardharness.errors import HarnessError, InputError

if TYPE_CHECKING:
    from cyclopts import App, ArgumentCollection
    from rich.console import Console, ConsoleOptions


class Command(NamedTuple):
    """A command whose module is imported when it runs."""

    module: str
    """Module in this package. Its attribute `app`, or `apps[NAME]`, is the cyclopts app."""
    summary: str


COMMANDS = {
    "score": Command("score", "judge the candidates of one edit"),
    "score-folder": Command("score", "judge a dataset"),
    "evolve": Command("evolve", "evolve a Library from preferences"),
    "rank-folder": Command("bulk", "best of N: rank any number of edits"),
    "filter-dataset": Command("bulk", "keep the edits that a judge rates well"),
    "preference-data": Command("bulk", "make preference pairs for training a reward model"),
    "benchmark": Command("benchmark", "judge a benchmark and measure agreement with people"),
    "data": Command("data", "inspect a dataset"),
    "demo-data": Command("data", "generate a labeled dataset of edits"),
    "serve": Command("serve", "serve rewards over HTTP"),
    "replay": Command("replay", "run a job again, and compare the results"),
    "lineage": Command("lineage", "provenance records of trainings and evals"),
}
"""Commands by name."""

DEFAULT_COMMANDS = {"benchmark": "run"}
"""Subcommand that is run if none is named."""
WORDS: ContextVar[tuple[str, ...]] = ContextVar("words", default=())
"""The command line of the command that runs, without `rh`."""


def make_app(name: str, summary: str, groups: Mapping[str, type] | None = None, *, job: bool = False) -> "App":
    """Create the cyclopts app of a command: no --no-FLAG options, and help that leaves out empty defaults.

    Args:
        name: Name of the command.
        summary: First lines of its help.
        groups: Title of a section of the help by dataclass whose fields it lists.
        job: Whether it runs a job, whose options `--config` reads from a file.
    """
    from attrs import evolve
    from cyclopts import App, Parameter
    from cyclopts.help import DefaultFormatter, HelpPanel

    titles = {
        option: title
        for title, owner in (groups or {}).items()
        for base in owner.__mro__
        for field, kind in getattr(base, "__annotations__", {}).items()
        for option in _options(field, kind)
    }

    class Formatter(DefaultFormatter):
        def __call__(self, console: "Console", options: "ConsoleOptions", panel: HelpPanel) -> None:
            sections: dict[str, list[Any]] = {}
            for entry in panel.entries:
                title = next((titles[option] for option in entry.positive_names if option in titles), panel.title)
                empty = entry.default in {"False", "()", '""', "None"}
                sections.setdefault(str(title), []).append(evolve(entry, default=None) if empty else entry)
            for title, entries in sections.items():
                super().__call__(console, options, panel.copy(title=title, entries=entries))

    return App(
        name=f"rh {name}",
        help=summary,
        help_format="markdown",
        help_formatter=Formatter(),
        version_flags=[],
        default_parameter=Parameter(negative=""),
        config=[partial(options_from_file, name)] if job else [],
    )


def _options(name: str, kind: Any) -> tuple[str, ...]:
    """Return the option names of a field."""
    named = [found for each in getattr(kind, "__metadata__", ()) for found in getattr(each, "name", ()) or ()]
    return tuple(named) or (f"--{name.replace('_', '-')}",)


def load_app(name: str) -> "App":
    """Import the cyclopts app of a command."""
    module = import_module(f"rewardharness.cli.{COMMANDS[name].module}")
    found: App = module.apps[name] if hasattr(module, "apps") else module.app
    return found


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
    command, bound, _ = load_app(name).parse_args(words, exit_on_error=False, print_error=False)
    return command, bound.args, bound.kwargs


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
        output.note(f"rh {name}: {getattr(error, 'message', '') or error}")
        if isinstance(error, HarnessError) and error.next_step:
            output.note(f"  Next: {error.next_step}")
        output.note(f"Help: rh {' '.join([name, *(word for word in words[:1] if word in load_app(name))])} --help")
        return 2
    token = WORDS.set((name, *words))
    try:
        status = command(*args, **kwargs)
    finally:
        WORDS.reset(token)
    return status if isinstance(status, int) else 0


def complete(name: str, words: Sequence[str]) -> list[str]:
    """Add the subcommand that may be omitted: `rh benchmark TASK` is `rh benchmark run TASK`."""
    default = DEFAULT_COMMANDS.get(name)
    return [default, *words] if default and words and words[0] not in load_app(name) else list(words)


def options_from_file(job: str, app: "App", commands: tuple[str, ...], arguments: "ArgumentCollection") -> None:
    """Add the options of the file that `--config` names; options given as arguments take precedence.

    Bound to a job, it is the `config` of a cyclopts app, which calls it with the arguments of the command line.

    Raises:
        InputError: If the file cannot be read, or is the configuration of another job.
        CycloptsError: If it has an unknown option.
    """
    from cyclopts.config import Dict

    named = arguments.get("--config", None)
    if named is None or not named.tokens:
        return
    file = named.tokens[0].value
    Dict(_read_config(file, job), source=file, use_commands_as_keys=False)(app, commands, arguments)


def _read_config(file: str, job: str) -> dict[str, Any]:
    """Read options from a YAML or JSON file."""
    from rewardharness.library.yamlsafe import read_yaml

    try:
        text = Path(file).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{file} cannot be read: {error}.", next_step="Name a YAML or JSON file of options.") from None
    options = {key.replace("-", "_"): value for key, value in read_yaml(text, where=file).value.items()}
    given = options.pop("job", job)  # in the config.json of a run folder
    if given != job:
        raise InputError(f"{file} is the configuration of rh {given}.", next_step=f"Write: rh {given} --config {file}")
    return {
        option: value for option, value in options.items() if value is not None and value is not False and value != []
    }
