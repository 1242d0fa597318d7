"""Seeded mutants of the core, and the test modules that notice them.

    python tests/mutation/mutants.py make        choose 200 mutants, run the tests, and write mutants.json
    python tests/mutation/mutants.py check [N]   run the tests for N of them (default: all), and compare

A mutant changes one operator or constant of one function. It is killed if a test module that imports the mutated
module fails; if none imports it, a test module of its package. `check` exits with 1 if a mutant that was killed before
survives; a mutant whose line is gone is counted.
"""

import ast
import json
import os
import random
import shutil
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
LIST = Path(__file__).with_name("mutants.json")
CORE = (
    "benchmark/answers.py benchmark/correlation.py benchmark/intervals.py benchmark/metrics.py "
    "benchmark/ties.py bulk/preference_data.py certainty.py data/cells.py data/source.py evolution/gate.py "
    "evolution/joint/fit.py evolution/joint/reweighting.py evolution/joint/step.py evolution/stop.py "
    "judging/best_of.py judging/calibration.py judging/criteria.py judging/presentation.py "
    "judging/report.py library/diff.py library/rubric.py library/triggers.py library/yamlsafe.py "
    "measure/bounds.py measure/color.py measure/fidelity.py models/limits.py runs/store.py schema.py "
    "serving/limits.py serving/results.py "
).split()
N, PER_MODULE, SEED, WORKERS, SECONDS = 200, 8, 20261125, 2, 600
SWAPS: dict[type, str] = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==", ast.In: "not in",
    ast.NotIn: "in", ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*", ast.And: "or", ast.Or: "and",
}  # fmt: skip

Mutant = dict[str, Any]


def mutants_of(name: str) -> Iterator[Mutant]:
    """Yield the mutants of a module: its line before and after."""
    text = (ROOT / "rewardharness" / name).read_text(encoding="utf-8")
    lines = text.splitlines()
    for function in ast.walk(ast.parse(text)):
        if not isinstance(function, ast.FunctionDef | ast.AsyncFunctionDef):
            continue
        for node in (inner for statement in function.body for inner in ast.walk(statement)):
            for start, end, new in _changes(node, lines):
                line, column = start
                if end[0] == line:
                    old = lines[line - 1]
                    yield {"module": name, "before": old, "after": old[:column] + new + old[end[1] :], "line": line}


def _changes(node: ast.AST, lines: list[str]) -> Iterator[tuple[tuple[int, int], tuple[int, int], str]]:
    if isinstance(node, ast.Constant) and isinstance(node.value, bool | int | float):
        new = str(not node.value) if isinstance(node.value, bool) else repr(node.value + 1)
        yield (node.lineno, node.col_offset), (node.end_lineno or 0, node.end_col_offset or 0), new
    pairs: list[tuple[ast.AST, ast.operator | ast.cmpop | ast.boolop, ast.AST]] = []
    if isinstance(node, ast.Compare):
        pairs = list(zip([node.left, *node.comparators], node.ops, node.comparators, strict=False))
    elif isinstance(node, ast.BinOp):
        pairs = [(node.left, node.op, node.right)]
    elif isinstance(node, ast.BoolOp):
        pairs = [(left, node.op, right) for left, right in zip(node.values, node.values[1:], strict=False)]
    for left, operator, right in pairs:
        if type(operator) not in SWAPS or left.end_lineno != right.lineno:  # type: ignore[attr-defined]
            continue
        line, start, end = right.lineno, left.end_col_offset, right.col_offset  # type: ignore[attr-defined]
        between = lines[line - 1][start:end]
        if lines[line - 1].isascii() and not set("()") & set(between):
            yield (line, start), (line, end), f" {SWAPS[type(operator)]} "


def tests_of(name: str) -> list[str]:
    """Return the test modules that name a module in an import, those of its own package first; else all of these."""
    dotted = "rewardharness." + name.removesuffix(".py").replace("/", ".")
    parent, _, leaf = dotted.rpartition(".")
    found = [
        path
        for path in sorted((ROOT / "tests").glob("**/test_*.py"))
        if f"from {dotted} " in (text := path.read_text(encoding="utf-8")) or f"from {parent} import {leaf}" in text
    ]
    found = found or sorted((ROOT / "tests" / name.split("/")[0]).glob("test_*.py"))
    found.sort(key=lambda path: path.parent.name != name.split("/")[0])
    return [path.relative_to(ROOT).as_posix() for path in found[:5]]


def run(mutant: Mutant, copy: Path) -> str:
    """Return `killed`, `survived`, `timeout`, or `gone` if the module no longer has the line.

    The tests run in a fork of this process, which has imported their libraries, and nothing of this project.
    """
    path = copy / "rewardharness" / mutant["module"]
    text = path.read_text(encoding="utf-8") if path.exists() else ""
    lines = text.splitlines()
    places = [index for index, line in enumerate(lines) if line == mutant["before"]]
    if not places:
        return "gone"
    place = min(places, key=lambda index: abs(index + 1 - mutant["line"]))
    path.write_text("\n".join([*lines[:place], mutant["after"], *lines[place + 1 :]]) + "\n", encoding="utf-8")
    try:
        child = os.fork()
        if not child:
            os._exit(_test(mutant["module"], copy))
        return _OUTCOMES.get(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), "killed")
    finally:
        path.write_text(text, encoding="utf-8")


_OUTCOMES = {0: "survived", 5: "survived", -signal.SIGALRM: "timeout"}


def _test(module: str, copy: Path) -> int:
    """Run the tests of a module in a copy of the checkout, silently. Returns the exit status of pytest."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    os.setsid()
    signal.alarm(SECONDS)
    os.chdir(copy)
    sys.path[:0] = [str(copy)]
    os.environ["PYTHONPATH"] = str(copy)
    words = ["-x", "-p", "no:cacheprovider"]
    try:
        return int(pytest.main([*words, "-m", "not slow and not browser", *tests_of(module)]))
    except BaseException:
        return 1


def run_all(mutants: list[Mutant]) -> list[str]:
    """Run the tests for each mutant, in as many processes as `WORKERS`, each in a copy of the checkout."""
    for name in ("cv2", "cyclopts", "msgspec", "numpy", "orjson", "PIL.Image", "rich.console", "yaml"):
        import_module(name)
    sys.dont_write_bytecode = True
    with tempfile.TemporaryDirectory() as folder:
        workers = []
        for number in range(WORKERS):
            copy, outcomes = Path(folder, f"{number}", "checkout"), Path(folder, f"{number}.json")
            ignored = shutil.ignore_patterns(".git", ".venv*", "__pycache__", "build")
            shutil.copytree(ROOT, copy, ignore=ignored)
            if not (worker := os.fork()):
                found = [run(mutant, copy) for mutant in mutants[number::WORKERS]]
                outcomes.write_text(json.dumps(found), encoding="utf-8")
                os._exit(0)
            workers.append((worker, outcomes))
        result = [""] * len(mutants)
        for number, (worker, outcomes) in enumerate(workers):
            os.waitpid(worker, 0)
            result[number::WORKERS] = json.loads(outcomes.read_text(encoding="utf-8"))
        return result


def main() -> int:
    """Make or check the list of mutants. Returns the exit status."""
    if sys.argv[1:2] == ["make"]:
        rng, every = random.Random(SEED), [list(mutants_of(name)) for name in CORE]
        shares = [rng.sample(mutants, min(len(mutants), PER_MODULE)) for mutants in every]
        chosen = rng.sample([mutant for share in shares for mutant in share], N)
        for mutant, outcome in zip(chosen, run_all(chosen), strict=True):
            mutant["outcome"] = outcome
        LIST.write_text(json.dumps(chosen, indent=1) + "\n", encoding="utf-8")
        sys.stdout.write(f"{Counter(mutant['outcome'] for mutant in chosen)}\n")
        return 0
    chosen = json.loads(LIST.read_text(encoding="utf-8"))
    chosen = chosen[: int(sys.argv[2])] if len(sys.argv) > 2 else chosen
    outcomes = run_all(chosen)
    worse = [
        mutant
        for mutant, outcome in zip(chosen, outcomes, strict=True)
        if (mutant["outcome"], outcome) == ("killed", "survived")
    ]
    for mutant in worse:
        sys.stdout.write(f"{mutant['module']}:{mutant['line']} survives now: {mutant['after'].strip()}\n")
    sys.stdout.write(f"before {Counter(mutant['outcome'] for mutant in chosen)} now {Counter(outcomes)}\n")
    return 1 if worse else 0


if __name__ == "__main__":
    sys.exit(main())
