"""Structure of the code: import direction, the one owner of each outside package, sizes of modules and functions.

And every value in a command that is printed for pasting is quoted.
"""

import ast
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

from rewardharness.errors import shell

ROOT = Path(__file__).parent.parent
LAYERS = {
    "errors": 0.0,
    "report": 0.0,
    "ranges": 0.05,
    "report_html": 0.05,
    "views": 0.08,
    "arrays": 0.05,
    "certainty": 0.05,
    "critique": 0.05,
    "garbage": 0.05,
    "schema": 0.1,
    "leaks": 0.15,
    "files": 0.2,
    "codec": 0.25,
    "judgments": 0.27,
    "settings": 0.3,
    "prompts": 0.4,
    "task": 0.45,
    "telemetry": 0.45,
    "hub": 0.5,
    "demo": 0.5,
    "library": 1,
    "data": 1,
    "models": 1,
    "measure": 1,
    "runs": 1,
    "tracking": 1,
    "report_markdown": 1.5,
    "judging": 2,
    "evolution": 3,
    "benchmark": 3,
    "bulk": 3,
    "editors": 3,
    "cli": 4,
    "serving": 3,
    "lineage": 3.5,
    "jobs": 3.5,
    "remote": 3.7,
    "app": 4,
    "__main__": 5,
}
OWNERS = {
    "gradio": ("app/",),
    "fastapi": ("rewardharness/serving/",),
    "huggingface_hub": ("rewardharness/hub/",),
    "datasets": ("rewardharness/data/hf_datasets.py", "rewardharness/data/export.py"),
    "pyarrow": ("rewardharness/data/hf_datasets.py", "rewardharness/data/export.py"),
    "fsspec": ("rewardharness/data/hf_datasets.py",),
    "google": ("rewardharness/models/gemini.py",),
    "prometheus_client": ("rewardharness/serving/monitoring.py",),
    "uvicorn": ("rewardharness/serving/server.py",),
    "pydantic": ("rewardharness/serving/wire.py", "rewardharness/serving/api.py"),
    "aiohttp": ("rewardharness/models/",),
    "cyclopts": ("rewardharness/cli/",),
    "skimage": ("rewardharness/demo/",),
    "onnxruntime": ("rewardharness/measure/encoders.py",),
    "tokenizers": ("rewardharness/measure/encoders.py",),
    "ray": ("rewardharness/judging/on_ray.py", "rewardharness/serving/ray_engine.py"),
    "rapidocr": ("rewardharness/measure/text.py",),
    "trackio": ("rewardharness/tracking/",),
    "wandb": ("rewardharness/tracking/",),
    "tensorboardX": ("rewardharness/tracking/",),
    "cv2": ("rewardharness/measure/", "rewardharness/demo/", "rewardharness/judging/measured.py"),
}
COMMAND = re.compile(r"(?:^|[\s(`>:&])(?:rh|cd|pip install)\s(?:[\w/@=-]+\s+)*[\w./@=-]*$")
"""The end of a text that begins a command, before a value."""
OWN = {"__version__", "command", "name"}
"""Values that are words of this program: its version, and names of its commands in help and errors."""
MAX_LINES, MAX_FUNCTION = 450, 75


FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)
KINDS = (*FUNCTIONS, ast.Import, ast.ImportFrom, ast.Attribute, ast.Call, ast.BinOp, ast.JoinedStr)


def nodes_of(text: str) -> list[ast.AST]:
    """Return the nodes of a file that a rule is about."""
    return [node for node in ast.walk(ast.parse(text)) if isinstance(node, KINDS)]


@cache
def files() -> dict[str, list[ast.AST]]:
    """Return these nodes of each file of the package and the app, by path."""
    paths = sorted([*ROOT.glob("rewardharness/**/*.py"), *ROOT.glob("app/**/*.py")])
    return {str(path.relative_to(ROOT)): nodes_of(path.read_text(encoding="utf-8")) for path in paths}


def package_of(name: str) -> str:
    """Return the package of a file, or the name of a module at the top of `rewardharness`."""
    parts = Path(name).with_suffix("").parts
    return "app" if parts[0] == "app" else parts[1]


def imports(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """Yield the modules that a file imports."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            if node.module == "rewardharness":
                yield from (f"rewardharness.{alias.name}" for alias in node.names)
            else:
                yield "." * node.level + (node.module or "")


def violations(name: str, module: str) -> Iterator[str]:
    """Yield the rules that an import breaks."""
    here, parts = package_of(name), module.split(".")
    if module.startswith("."):
        yield f"{name}: {module} is a relative import"
    other = parts[1] if parts[0] == "rewardharness" and len(parts) > 1 else ""
    if here not in {"__init__", other} and LAYERS.get(other, -1) >= LAYERS[here]:
        yield f"{name}: {module} is not below {here}"
    if parts[0] == "app" and here != "app" and name != "rewardharness/cli/web.py":
        yield f"{name}: only cli/web.py imports the app"
    if not any(name.startswith(owner) for owner in OWNERS.get(parts[0], ("",))):
        yield f"{name}: {parts[0]} belongs to {', '.join(OWNERS[parts[0]])}"


def test_imports_point_down_and_each_outside_package_has_one_owner() -> None:
    found = [rule for name, nodes in files().items() for module in imports(nodes) for rule in violations(name, module)]
    assert found == []


@pytest.mark.parametrize("package", ["benchmark", "data", "evolution", "judging", "library", "models", "serving"])
def test_modules_of_a_package_import_each_other_without_circles(package: str) -> None:
    modules = {name: nodes for name, nodes in files().items() if package_of(name) == package}
    graph = {name.removesuffix(".py").replace("/", "."): set(imports(nodes)) for name, nodes in modules.items()}
    assert list(TopologicalSorter(graph).static_order()), "a circle is an error that names it"


def test_the_environment_is_read_in_settings_and_printing_is_in_cli_output() -> None:
    found = []
    for name, nodes in files().items():
        for node in nodes:
            if isinstance(node, ast.Attribute) and node.attr in {"environ", "getenv"}:
                found += [name] * (name != "rewardharness/settings.py")
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print":
                found += [name] * (name != "rewardharness/cli/output.py")
    assert found == []


def test_callers_ask_a_judge_what_it_is_and_do_not_test_its_type() -> None:
    own = re.compile(r"isinstance\([^\n]*\b(SubAgent|MeasuredJudge)\b")
    names = [name for name in files() if not name.startswith("rewardharness/judging/")]
    assert [name for name in names if own.search((ROOT / name).read_text(encoding="utf-8"))] == []


def test_modules_and_functions_stay_small() -> None:
    found = [name for name in files() if (ROOT / name).read_text(encoding="utf-8").count("\n") > MAX_LINES]
    for name, nodes in files().items():
        for node in nodes:
            is_function = isinstance(node, FUNCTIONS)
            if is_function and (node.end_lineno or node.lineno) - node.lineno > MAX_FUNCTION:
                found.append(f"{name}: {node.name}")
    assert found == []


def test_test_modules_have_unique_names() -> None:
    shared = {"conftest.py", "sitecustomize.py"}
    names = Counter(path.name for path in ROOT.glob("tests/**/*.py") if path.name not in shared)
    assert [name for name, count in names.items() if count > 1] == []


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


def unquoted(nodes: Iterable[ast.AST]) -> Iterator[int]:
    """Lines with a command that contains a value in another way."""
    for node in nodes:
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
                value = ast.unparse(part.value) if COMMAND.search(before) else "shell("
                if not value.startswith(("shell(", "escape(shell(")) and value not in OWN:
                    yield node.lineno
                before += "VALUE"


def test_there_is_no_other_way_to_write_a_command() -> None:
    found = [f"{name}:{line}" for name, nodes in files().items() for line in unquoted(nodes)]
    assert [place for place in found if not place.startswith("rewardharness/errors.py")] == []


@pytest.mark.parametrize(
    "source", ["f'Show it: rh runs show {folder}'", "f'cd {folder}'", "'rh score ' + name", "import shlex"]
)
def test_another_way_is_found(source: str) -> None:
    assert list(unquoted(nodes_of(source)))
