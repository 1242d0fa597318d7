"""Writes docs/api.md from the docstrings of the public names. With --check it only says whether it is up to date."""

import importlib
import inspect
import re
import sys
import textwrap
from pathlib import Path

import rewardharness

PAGE = Path(__file__).parent / "api.md"
HEAD = """# Python API

Generated from docstrings by `make docs`. `import rewardharness as rh` is instant: names are imported on first use.
Everything works inside a running event loop. An error in data, files, Libraries, endpoints or settings is a
`rh.HarnessError`, whose text includes the next step. An argument of a wrong type can also raise `TypeError` or
`ValueError`, and a disk `OSError`.
"""


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


def main() -> int:
    """Write or check the page."""
    names = [name for name in rewardharness.__all__ if name in rewardharness._HOMES]
    text = HEAD + "\n" + "\n\n".join(map(section, names)) + "\n"
    if "--check" in sys.argv:
        return 0 if PAGE.exists() and PAGE.read_text(encoding="utf-8") == text else 1
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
