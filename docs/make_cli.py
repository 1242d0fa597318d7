"""Writes docs/cli.md from the parser of `rh`. With --check it only says whether the page is up to date."""

import argparse
import os
import sys
from pathlib import Path

from rewardharness.cli.main import make_parser

PAGE = Path(__file__).parent / "cli.md"


def sections(parser: argparse.ArgumentParser, level: int = 2) -> list[str]:
    """Return the help of a parser and of all parsers below it, as Markdown sections."""
    found = [f"{'#' * level} `{parser.prog}`\n\n```\n{parser.format_help().rstrip()}\n```"]
    for action in parser._actions:
        if isinstance(action, argparse._SubParsersAction):
            for child in action.choices.values():
                found.extend(sections(child, min(level + 1, 4)))
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
