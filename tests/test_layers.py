"""The house keeps its order: imports go down the layers, and each outside thing has one door."""

import ast
from collections import Counter
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
LAYERS = {
    "errors": 0.0,
    "schema": 0.1,
    "leaks": 0.15,
    "files": 0.2,
    "codec": 0.25,
    "settings": 0.3,
    "prompts": 0.4,
    "hub": 0.5,
    "library": 1,
    "data": 1,
    "models": 1,
    "measure": 1,
    "runs": 1,
    "judging": 2,
    "evolution": 3,
    "benchmark": 3,
    "bulk": 3,
    "cli": 4,
    "serving": 3,
    "lineage": 3.5,
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
    "uvicorn": ("rewardharness/serving/server.py",),
    "pydantic": ("rewardharness/serving/wire.py", "rewardharness/serving/api.py"),
    "aiohttp": ("rewardharness/models/",),
    "skimage": ("rewardharness/data/",),
    "rapidocr": ("rewardharness/measure/text.py",),
    "cv2": ("rewardharness/measure/", "rewardharness/data/", "rewardharness/judging/measured.py"),
}
FILES = sorted([*ROOT.glob("rewardharness/**/*.py"), *ROOT.glob("app/**/*.py")])


def room(path: Path) -> str:
    parts = path.relative_to(ROOT).with_suffix("").parts
    return "app" if parts[0] == "app" else parts[1]


def imports(tree: ast.AST) -> list[str]:
    found: list[str] = []
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            found.extend(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "imports are absolute"
            if node.module == "rewardharness":
                found.extend(f"rewardharness.{alias.name}" for alias in node.names)
            else:
                found.append(node.module or "")
    return found


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_imports_go_down_and_through_the_right_door(path: Path) -> None:
    here, name = room(path), str(path.relative_to(ROOT))
    for module in imports(ast.parse(path.read_text(encoding="utf-8"))):
        parts = module.split(".")
        if parts[0] == "rewardharness" and len(parts) > 1 and parts[1] in LAYERS and parts[1] != here:
            assert here == "__init__" or LAYERS[parts[1]] < LAYERS[here], f"{name} must not import {module}"
        if parts[0] == "app" and here != "app":
            assert name == "rewardharness/cli/web.py", f"{name} must not import {module}"
        for package, owners in OWNERS.items():
            if parts[0] == package:
                assert any(name.startswith(owner) for owner in owners), f"{name} must not import {package}"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_environment_and_print_have_one_owner(path: Path) -> None:
    name = str(path.relative_to(ROOT))
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Attribute) and node.attr in {"environ", "getenv"}:
            assert name == "rewardharness/settings.py", f"{name} reads the environment"
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "print":
            assert name == "rewardharness/cli/output.py", f"{name} prints"


@pytest.mark.parametrize("path", FILES, ids=lambda path: str(path.relative_to(ROOT)))
def test_modules_and_functions_stay_small(path: Path) -> None:
    text = path.read_text(encoding="utf-8")
    assert text.count("\n") <= 450
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            assert (node.end_lineno or node.lineno) - node.lineno <= 75, node.name


def test_modules_of_tests_have_names_of_their_own() -> None:
    """They are imported by their last name alone, except what pytest and Python look for by a name of theirs."""
    theirs = {"conftest.py", "sitecustomize.py"}
    names = Counter(path.name for path in ROOT.glob("tests/**/*.py") if path.name not in theirs)
    assert [name for name, count in names.items() if count > 1] == []
