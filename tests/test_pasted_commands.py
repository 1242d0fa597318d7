"""Commands that are printed for pasting: every value in them is quoted."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from rewardharness.errors import shell

ROOT = Path(__file__).parents[1]
COMMAND = re.compile(r"(?:^|[\s(`>:&])(?:rh|cd|pip install)\s(?:[\w/@=-]+\s+)*[\w./@=-]*$")
"""The end of a text that begins a command, before a value."""
OWN = {"__version__", "command", "name"}
"""Values that are words of this program: its version, and names of its commands in help and errors."""


@pytest.mark.parametrize(
    ("text", "values", "command"),
    [
        ("rh runs show {}", (Path("/a b"),), "rh runs show '/a b'"),
        ("cd {} && rh {}", ("/tmp;touch x", ["score", "a'b\nc"]), "cd '/tmp;touch x' && rh score 'a'\"'\"'b\nc'"),
        ("rh score --library {} ...", ("me/one@v1.0.0",), "rh score --library me/one@v1.0.0 ..."),
    ],
)
def test_values_are_quoted(text: str, values: tuple[object, ...], command: str) -> None:
    assert shell(text, *values) == command


def unquoted(tree: ast.AST) -> Iterator[int]:
    """Lines with a command that contains a value in another way."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import) and any(each.name == "shlex" for each in node.names):
            yield node.lineno
        left = node.left if isinstance(node, ast.BinOp) else None
        if isinstance(left, ast.Constant) and COMMAND.search(str(left.value)) and "shell(" not in ast.unparse(node):
            yield left.lineno
        before = ""
        for part in node.values if isinstance(node, ast.JoinedStr) else ():
            if isinstance(part, ast.Constant):
                before += str(part.value)
            elif isinstance(part, ast.FormattedValue):
                value = ast.unparse(part.value)
                if COMMAND.search(before) and not value.startswith(("shell(", "escape(shell(")) and value not in OWN:
                    yield node.lineno
                before += "VALUE"


def test_there_is_no_other_way_to_write_a_command() -> None:
    paths = [path for folder in ("rewardharness", "app") for path in sorted((ROOT / folder).rglob("*.py"))]
    found = [
        f"{path.relative_to(ROOT)}:{line}"
        for path in paths
        for line in unquoted(ast.parse(path.read_text(encoding="utf-8")))
        if path.name != "errors.py" or path.parent.name != "rewardharness"
    ]
    assert not found


@pytest.mark.parametrize(
    "source", ["f'Show it: rh runs show {folder}'", "f'cd {folder}'", "'rh score ' + name", "import shlex"]
)
def test_another_way_is_found(source: str) -> None:
    assert list(unquoted(ast.parse(source)))
