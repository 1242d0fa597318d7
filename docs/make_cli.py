"""Writes docs/cli.md from the parser of `rh`. With --check it only says whether the page is up to date."""

import argparse
import io
import os
import sys
from pathlib import Path

from cyclopts import App
from rich.console import Console

from rewardharness.cli.command import COMMANDS, load_app
from rewardharness.cli.main import make_parser

PAGE = Path(__file__).parent / "cli.md"


def sections(parser: argparse.ArgumentParser, level: int = 2) -> list[str]:
    """Return the help of a parser and of all parsers below it, as Markdown sections."""
    found = [f"{'#' * level} `{parser.prog}`\n\n```\n{parser.format_help().rstrip()}\n```"]
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for name, child in action.choices.items():
                found.extend(app_sections(load_app(name)) if name in COMMANDS else sections(child, min(level + 1, 4)))
    return found


def app_sections(app: App) -> list[str]:
    """Return the help of a cyclopts app and of its commands, as Markdown sections."""
    found = []
    for words in ([], *([name] for name in app if not name.startswith("-"))):
        console = Console(width=100, file=io.StringIO(), color_system=None)
        app.help_print(words, console=console)
        lines = (line.rstrip() for line in console.file.getvalue().strip().splitlines())  # type: ignore[attr-defined]
        text = "\n".join(lines)
        found.append(f"{'#' * (4 if words else 3)} `{' '.join([app.name[0], *words])}`\n\n```\n{text}\n```")
    return found


def main() -> int:
    """Write or check the page."""
    os.environ["COLUMNS"] = "100"
    text = (
        "# The command line\n\nMade from `rh --help` by `make docs`.\n\n" + "\n\n".join(sections(make_parser())) + "\n"
    )
    if "--check" in sys.argv:
        return 0 if PAGE.exists() and PAGE.read_text(encoding="utf-8") == text else 1
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
