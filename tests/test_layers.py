"""Structure of the code: import direction, the one owner of each outside package, sizes of modules and functions."""

import ast
import re
from collections import Counter
from collections.abc import Iterator
from functools import cache
from graphlib import TopologicalSorter
from pathlib import Path

import pytest

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
    "waiting": 0.05,
    "schema": 0.1,
    "leaks": 0.15,
    "files": 0.2,
    "codec": 0.25,
    "judgments": 0.27,
    "settings": 0.3,
    "prompts": 0.4,
    "task": 0.45,
    "ray_cluster": 0.45,
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
    "ray": (
        "rewardharness/judging/on_ray.py",
        "rewardharness/ray_cluster.py",
        "rewardharness/serving/ray_engine.py",
    ),
    "rapidocr": ("rewardharness/measure/text.py",),
    "trackio": ("rewardharness/tracking/",),
    "wandb": ("rewardharness/tracking/",),
    "tensorboardX": ("rewardharness/tracking/",),
    "cv2": (
        "rewardharness/measure/",
        "rewardharness/demo/",
        "rewardharness/judging/measured.py",
    ),
}
MAX_LINES, MAX_FUNCTION = 450, 75


@cache
def trees() -> dict[str, ast.Module]:
    """Return the syntax trees of the package and the app, by path."""
    paths = sorted([*ROOT.glob("rewardharness/**/*.py"), *ROOT.glob("app/**/*.py")])
    return {str(path.relative_to(ROOT)): ast.parse(path.read_text(encoding="utf-8")) for path in paths}


def package_of(name: str) -> str:
    """Return the package of a file, or the name of a module at the top of `rewardharness`."""
    parts = Path(name).with_suffix("").parts
    return "app" if parts[0] == "app" else parts[1]


def imports(tree: ast.AST) -> Iterator[str]:
    """Yield the modules that a file imports."""
    for node in ast.walk(tree):
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
    found = [rule for name, tree in trees().items() for module in imports(tree) for rule in violations(name, module)]
    assert found == []


@pytest.mark.parametrize("package", ["benchmark", "data", "evolution", "judging", "library", "models", "serving"])
def test_modules_of_a_package_import_each_other_without_circles(package: str) -> None:
    modules = {name: tree for name, tree in trees().items() if package_of(name) == package}
    graph = {name.removesuffix(".py").replace("/", "."): set(imports(tree)) for name, tree in modules.items()}
    assert list(TopologicalSorter(graph).static_order()), "a circle is an error that names it"


def test_the_environment_is_read_in_settings_and_printing_is_in_cli_output() -> None:
    found = []
    for name, tree in trees().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Attribute) and node.attr in {"environ", "getenv"}:
                found += [name] * (name != "rewardharness/settings.py")
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print":
                found += [name] * (name != "rewardharness/cli/output.py")
    assert found == []


def test_callers_ask_a_judge_what_it_is_and_do_not_test_its_type() -> None:
    own = re.compile(r"isinstance\([^\n]*\b(SubAgent|MeasuredJudge)\b")
    names = [name for name in trees() if not name.startswith("rewardharness/judging/")]
    assert [name for name in names if own.search((ROOT / name).read_text(encoding="utf-8"))] == []


def test_modules_and_functions_stay_small() -> None:
    found = [name for name in trees() if (ROOT / name).read_text(encoding="utf-8").count("\n") > MAX_LINES]
    for name, tree in trees().items():
        for node in ast.walk(tree):
            is_function = isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
            if is_function and (node.end_lineno or node.lineno) - node.lineno > MAX_FUNCTION:
                found.append(f"{name}: {node.name}")
    assert found == []


def test_test_modules_have_unique_names() -> None:
    shared = {"conftest.py", "sitecustomize.py"}
    names = Counter(path.name for path in ROOT.glob("tests/**/*.py") if path.name not in shared)
    assert [name for name, count in names.items() if count > 1] == []
