"""Writes docs/cli.md from the help of `rh`. With --check it only says whether the page is up to date."""

import io
import os
import sys
from pathlib import Path

from cyclopts import App
from rich.console import Console

from rewardharness.cli.command import COMMANDS, load_app
from rewardharness.cli.main import root_help

PAGE = Path(__file__).parent / "cli.md"


def sections(app: App) -> list[str]:
    """Return the help of a command and of its subcommands, as Markdown sections."""
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
    commands = [section for name in COMMANDS for section in sections(load_app(name))]
    text = "\n\n".join(
        ["# The command line", "Made from `rh --help` by `make docs`.", f"```\n{root_help()}\n```", *commands]
    )
    text += "\n"
    if "--check" in sys.argv:
        return 0 if PAGE.exists() and PAGE.read_text(encoding="utf-8") == text else 1
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
