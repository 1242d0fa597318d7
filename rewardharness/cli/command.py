"""Commands that are built with cyclopts: importing and running them, with the same exit status for wrong arguments."""

from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING

from rewardharness.cli import output

if TYPE_CHECKING:
    from cyclopts import App
    from rich.console import Console, ConsoleOptions

COMMANDS = {"lineage": "provenance records of trainings and evals"}
"""Module in this package and summary, by command."""


def make_app(name: str, summary: str) -> "App":
    """Create the cyclopts app of a command: no --no-FLAG options, and help that leaves out empty defaults."""
    from attrs import evolve
    from cyclopts import App, Parameter
    from cyclopts.help import DefaultFormatter, HelpPanel

    class Formatter(DefaultFormatter):
        def __call__(self, console: "Console", options: "ConsoleOptions", panel: HelpPanel) -> None:
            entries = [
                evolve(entry, default=None) if entry.default in {"False", "()", '""', "None"} else entry
                for entry in panel.entries
            ]
            super().__call__(console, options, panel.copy(entries=entries))

    return App(
        name=f"rh {name}",
        help=summary,
        help_format="markdown",
        help_formatter=Formatter(),
        version_flags=[],
        default_parameter=Parameter(negative=""),
    )


def load_app(name: str) -> "App":
    """Import the cyclopts app of a command."""
    found: App = import_module(f"rewardharness.cli.{name}").app
    return found


def run_app(name: str, words: Sequence[str]) -> int:
    """Run a command.

    Args:
        name: The command.
        words: Its arguments.

    Returns:
        The exit status; 2 for wrong arguments.
    """
    from cyclopts import CycloptsError

    app = load_app(name)
    try:
        status = app(list(words), exit_on_error=False, print_error=False, result_action="return_value")
    except CycloptsError as error:
        output.note(f"rh {name}: {error}")
        output.note(f"Help: rh {' '.join([name, *(word for word in words[:1] if word in app)])} --help")
        return 2
    return status if isinstance(status, int) else 0
