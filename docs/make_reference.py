"""Writes cli.md and api.md for the site, from the help of `rh` and the docstrings of the public names.

python docs/make_reference.py FOLDER
"""

import importlib
import inspect
import io
import os
import re
import sys
import textwrap
from pathlib import Path

from cyclopts import App
from rich.console import Console

import rewardharness
from rewardharness.cli.command import COMMANDS, load_app
from rewardharness.cli.main import root_help

API = """# Python API

Generated from docstrings. `import rewardharness as rh` is instant: names are imported on first use. Everything works
inside a running event loop. An error in data, files, Libraries, endpoints or settings is a `rh.HarnessError`, whose
text includes the next step. An argument of a wrong type can also raise `TypeError` or `ValueError`, a disk `OSError`.
"""


def api() -> str:
    """Return the page of the Python API."""
    names = [name for name in rewardharness.__all__ if name in rewardharness._HOMES]
    return API + "\n" + "\n\n".join(map(section, names)) + "\n"


def section(name: str) -> str:
    """Return one public name as a Markdown section: signature, docstring, and the methods of a class."""
    home = rewardharness._HOMES[name]
    value = getattr(importlib.import_module(f"rewardharness.{home}"), name)
    parts = [f"## `rh.{name}`", _code(name, value), _doc(value)]
    if inspect.isclass(value):
        made = value.__init__.__doc__  # type: ignore[misc]
        parts += [_doc(value.__init__)] if made and made != object.__init__.__doc__ else []  # type: ignore[misc]
        for method, raw in vars(value).items():
            function = raw.__func__ if isinstance(raw, classmethod | staticmethod) else raw
            if not method.startswith("_") and inspect.isfunction(function) and function.__doc__:
                parts += [f"### `{name}.{method}`", _code(method, getattr(value, method)), _doc(function)]
    return "\n\n".join(part for part in parts if part)


def _code(name: str, value: object) -> str:
    try:
        signature = inspect.signature(value)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        return ""
    return f"```python\n{name}{_text(signature)}\n```"


def _text(signature: inspect.Signature) -> str:
    text = re.sub(r"\b(rewardharness|pathlib|typing|collections\.abc)\.(\w+\.)*(?=[A-Z])", "", str(signature))
    return re.sub(r" = [A-Z]\w+\(.*?\)(?=, \w+:|\))", " = ...", text)


def _doc(value: object) -> str:
    return f"```text\n{textwrap.dedent(inspect.getdoc(value) or '')}\n```"


def cli() -> str:
    """Return the page of the command line."""
    os.environ["COLUMNS"] = "100"
    sections = [section for name in COMMANDS for section in helps(load_app(name))]
    return "\n\n".join(["# The command line", "Made from `rh --help`.", f"```\n{root_help()}\n```", *sections]) + "\n"


def helps(app: App) -> list[str]:
    """Return the help of a command and of its subcommands, as Markdown sections."""
    sections = []
    for words in ([], *([name] for name in app if not name.startswith("-"))):
        console = Console(width=100, file=io.StringIO(), color_system=None)
        app.help_print(words, console=console)
        lines = (line.rstrip() for line in console.file.getvalue().strip().splitlines())  # type: ignore[attr-defined]
        text = "\n".join(lines)
        sections.append(f"{'#' * (4 if words else 3)} `{' '.join([app.name[0], *words])}`\n\n```\n{text}\n```")
    return sections


def main(folder: Path) -> None:
    """Write both pages."""
    (folder / "cli.md").write_text(cli(), encoding="utf-8")
    (folder / "api.md").write_text(api(), encoding="utf-8")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
