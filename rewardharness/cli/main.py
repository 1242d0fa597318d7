"""The command `rh`: parses the command line, runs one command, and puts errors into words."""

import argparse
import logging
import os
import sys
from collections.abc import Callable, Sequence

from rewardharness import __version__
from rewardharness.cli import (
    cache,
    command,
    doctor,
    hub,
    library,
    output,
    release,
    reproduce,
    runs,
    vllm,
    web,
)
from rewardharness.errors import HarnessError, describe
from rewardharness.settings import Settings

Command = Callable[[argparse.Namespace, Settings], int]
"""A command takes its arguments and the settings and returns the exit status."""

EPILOG = """exit status: 0 done; 1 an error, said in words; 2 a wrong command line; 3 done, but something could not be
judged; 130 interrupted"""


HUB_RETRIES = "huggingface_hub.utils._http"
"""Logger of the Hub's client that speaks of requests that are tried again."""


def make_parser() -> argparse.ArgumentParser:
    """Build the parser of all commands. Imports nothing heavy."""
    parser = argparse.ArgumentParser(
        prog="rh",
        description="Judge image edits with a frozen judge and an evolved Library of Skills and Tools.",
        epilog=EPILOG,
    )
    parser.add_argument("--version", action="version", version=f"rh {__version__}")
    commands = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)
    for module in (
        library,
        release,
        runs,
        reproduce,
        hub,
        web,
        vllm,
        cache,
        doctor,
    ):
        module.register(commands)
    for name, found in command.COMMANDS.items():
        commands.add_parser(name, help=found.summary, add_help=False)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Returns:
        The exit status, see `rh --help`.
    """
    words = list(sys.argv[1:] if argv is None else argv)
    settings = None
    arguments = None
    if not (words and words[0] in command.COMMANDS):
        parser = make_parser()
        arguments, unknown = parser.parse_known_args(words)
        if unknown:
            _asked(parser, words).error(f"unrecognized arguments: {' '.join(unknown)}")
        arguments.words = words
    try:
        settings = Settings.from_env()
        if arguments is not None and getattr(arguments, "judge_from_settings", False):
            arguments.judge = arguments.judge or settings.judge
        logging.basicConfig(level=logging.DEBUG if settings.debug else logging.WARNING, format="%(name)s: %(message)s")
        if not settings.debug:  # it tells of every retry, twice; what comes of them is an error in our own words
            logging.getLogger(HUB_RETRIES).setLevel(logging.ERROR)
        if arguments is None:
            return command.run_app(words[0], words[1:])
        run: Command = arguments.run
        return run(arguments, settings)
    except KeyboardInterrupt:
        output.note("Interrupted. The same command goes on where it stopped, if it keeps a run folder.")
        return 130
    except BrokenPipeError:
        # The reader of our output has gone; what is still buffered must not raise again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (HarnessError, OSError) as error:
        if settings is not None and settings.debug:
            raise
        output.fail(describe(error))
        return 1


def _asked(parser: argparse.ArgumentParser, words: Sequence[str]) -> argparse.ArgumentParser:
    """Find the parser of the command that was given: its usage helps, that of `rh` does not."""
    for word in words:
        for action in parser._actions:
            if isinstance(action, argparse._SubParsersAction) and word in action.choices:
                parser = action.choices[word]
                break
    return parser


def entry() -> None:
    """Entry point of the console script."""
    sys.exit(main())
