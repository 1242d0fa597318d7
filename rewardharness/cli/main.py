"""The command `rh`: parses the command line, runs one command, and puts errors into words."""

import argparse
import logging
import os
import sys
from collections.abc import Callable, Sequence

from rewardharness import __version__
from rewardharness.cli import (
    benchmark,
    bulk,
    cache,
    data,
    doctor,
    evolve,
    hub,
    library,
    lineage,
    output,
    release,
    replay,
    reproduce,
    runs,
    score,
    serve,
    vllm,
    web,
)
from rewardharness.errors import HarnessError, describe
from rewardharness.settings import Settings

Command = Callable[[argparse.Namespace, Settings], int]
"""A command takes its arguments and the settings and returns the exit status."""

EPILOG = """exit status: 0 done; 1 an error, said in words; 2 a wrong command line; 3 done, but something could not be
judged; 130 interrupted"""


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
        score,
        library,
        release,
        evolve,
        runs,
        benchmark,
        replay,
        reproduce,
        lineage,
        hub,
        data,
        bulk,
        web,
        serve,
        vllm,
        cache,
        doctor,
    ):
        module.register(commands)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Returns:
        The exit status, see `rh --help`.
    """
    words = benchmark.completed(sys.argv[1:] if argv is None else argv)
    arguments = make_parser().parse_args(words)
    arguments.words = words
    run: Command = arguments.run
    settings = None
    try:
        settings = Settings.from_env()
        if getattr(arguments, "judge_from_settings", False):
            arguments.judge = arguments.judge or settings.judge
        logging.basicConfig(level=logging.DEBUG if settings.debug else logging.WARNING, format="%(name)s: %(message)s")
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


def entry() -> None:
    """Entry point of the console script."""
    sys.exit(main())
