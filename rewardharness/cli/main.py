"""The command `rh`: runs one command and reports errors."""

import logging
import os
import sys
from collections.abc import Sequence

from rewardharness import __version__
from rewardharness.cli import output
from rewardharness.cli.command import COMMANDS, GROUPS, SHELLS, run_app, suggestion
from rewardharness.cli.output import INTERRUPTED, STATUSES, WRONG_USE
from rewardharness.errors import HarnessError, describe
from rewardharness.settings import Settings

HUB_RETRIES = "huggingface_hub.utils._http"
"""Logger of the Hub client that reports retried requests."""


def root_help() -> str:
    """Return the help of `rh`. Imports nothing heavy."""
    lines = [
        "Usage: rh COMMAND [OPTIONS]",
        "",
        "Judge image edits with a frozen judge and an evolved Library of Skills and Tools.",
    ]
    width = max(map(len, COMMANDS))
    for group in GROUPS:
        lines += ["", f"{group}:"]
        lines += [
            f"  {name:{width}}  {command.summary}" for name, command in COMMANDS.items() if command.group == group
        ]
    lines += [
        "",
        "Options:",
        "  --version                   print the version",
        f"  --show-completion SHELL     print the completion script ({', '.join(SHELLS)})",
        f"  --install-completion SHELL  install it for the current user ({', '.join(SHELLS)})",
        "",
        "Help with examples: rh COMMAND --help",
        "Exit status:",
        *(f"  {status:<4}{meaning}" for status, meaning in STATUSES.items()),
    ]
    return "\n".join(lines)


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command.

    Args:
        argv: Arguments without the program name (default: those of the process).

    Returns:
        The exit status; see `rh --help`.
    """
    try:
        return _run(list(sys.argv[1:] if argv is None else argv))
    except BrokenPipeError:
        # The reader of our output has gone; what is still buffered must not raise again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1


def _run(words: Sequence[str]) -> int:
    settings = None
    try:
        if words[:1] == ["help"]:  # `rh help runs list` is `rh runs list --help`
            words = [*words[1:], "--help"]
        if not words or words[0] not in COMMANDS:
            return _run_root(words)
        settings = Settings.from_env()
        logging.basicConfig(level=logging.DEBUG if settings.debug else logging.WARNING, format="%(name)s: %(message)s")
        if not settings.debug:  # the error that ends the retries is reported
            logging.getLogger(HUB_RETRIES).setLevel(logging.ERROR)
        return run_app(words[0], words[1:])
    except KeyboardInterrupt:
        output.note("Interrupted. To finish, give the same command again.")
        return INTERRUPTED
    except BrokenPipeError:
        raise
    except (HarnessError, OSError) as error:
        if settings is not None and settings.debug:
            raise
        output.fail(describe(error), json="--json" in words)
        return 1


def _run_root(arguments: Sequence[str]) -> int:
    """Handle arguments that do not begin with a command."""
    match arguments:
        case [] | ["-h" | "--help"]:
            output.say(root_help())
            return 0 if arguments else WRONG_USE
        case ["--version"]:
            output.say(f"rh {__version__}")
            return 0
        case ["--show-completion" | "--install-completion" as option, shell] if shell in SHELLS:
            from rewardharness.cli.command import make_root

            root = make_root()
            if option == "--show-completion":
                output.say(root.generate_completion(shell=SHELLS[shell]))
            else:
                output.say(f"Installed: {root.install_completion(shell=SHELLS[shell])}. Open a new shell to use it.")
            return 0
    output.note(f"rh: Unknown command or option: {arguments[0]}.{suggestion(arguments[0], COMMANDS)}")
    output.note("Help: rh --help")
    return WRONG_USE


def entry() -> None:
    """Entry point of the console script."""
    sys.exit(main())
