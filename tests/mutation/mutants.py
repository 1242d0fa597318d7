"""Seeded mutants of the core, and the test that notices each of them.

    python tests/mutation/mutants.py make [MINUTES]  choose mutants, test as many as time allows, write mutants.json
    python tests/mutation/mutants.py check [N]       test N of them again (default: all), and compare

A mutant changes one operator or constant of one function. It is killed if a test fails: the one that killed it before,
or one of a module that imports the mutated module. `check` finds a function by its name wherever it is now, counts a
mutant whose function or line is gone, and exits with 1 if a mutant that was killed before survives.
"""

import ast
import compileall
import json
import os
import random
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from py_compile import PycInvalidationMode

import pytest

ROOT = Path(__file__).parents[2]
LIST = Path(__file__).with_name("mutants.json")
CORE = (
    "benchmark/answers.py benchmark/correlation.py benchmark/intervals.py benchmark/metrics.py "
    "benchmark/ties.py bulk/pairs.py certainty.py data/cells.py data/source.py evolution/gate.py "
    "evolution/joint/fit.py evolution/joint/reweighting.py evolution/joint/step.py evolution/stop.py "
    "judging/best_of.py judging/calibration.py judging/criteria.py judging/presentation.py "
    "judging/report.py library/diff.py library/rubric.py library/triggers.py library/yamlsafe.py "
    "measure/bounds.py measure/color.py measure/fidelity.py models/limits.py runs/store.py schema.py "
    "serving/limits.py serving/results.py "
).split()
N, PER_MODULE, SEED, WORKERS, SECONDS, MODULES = 200, 8, 20261125, 2, 240, 4
SWAPS: dict[type, str] = {
    ast.Lt: "<=", ast.LtE: "<", ast.Gt: ">=", ast.GtE: ">", ast.Eq: "!=", ast.NotEq: "==", ast.In: "not in",
    ast.NotIn: "in", ast.Add: "-", ast.Sub: "+", ast.Mult: "/", ast.Div: "*", ast.And: "or", ast.Or: "and",
}  # fmt: skip

Mutant = dict[str, str]
"""`module`, `function` (qualified), the line `before` and `after`, the `outcome`, and the test it was `killed_by`."""


def functions(node: ast.AST, prefix: str = "") -> Iterator[tuple[str, ast.FunctionDef | ast.AsyncFunctionDef]]:
    """Yield the qualified name of each function of a tree, and the function."""
    for child in ast.iter_child_nodes(node):
        inside = prefix
        if isinstance(child, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            inside = f"{prefix}{child.name}."
            if not isinstance(child, ast.ClassDef):
                yield inside[:-1], child
        yield from functions(child, inside)


def mutants_of(module: str) -> list[Mutant]:
    """Return the mutants of a module."""
    text = (ROOT / "rewardharness" / module).read_text(encoding="utf-8")
    lines, found = text.splitlines(), {}
    for name, function in functions(ast.parse(text)):
        for node in (inner for statement in function.body for inner in ast.walk(statement)):
            for line, start, end, new in _changes(node, lines):
                old = lines[line - 1]
                after = old[:start] + new + old[end:]
                found[line, after] = dict(module=module, function=name, before=old.strip(), after=after.strip())
    return list(found.values())


def _changes(node: ast.AST, lines: list[str]) -> Iterator[tuple[int, int, int, str]]:
    """Yield the changes of a node within one line: the line, from and to which column, and what is there then."""
    if isinstance(node, ast.Constant) and isinstance(node.value, bool | int | float) and node.lineno == node.end_lineno:
        new = str(not node.value) if isinstance(node.value, bool) else repr(node.value + 1)
        yield node.lineno, node.col_offset, node.end_col_offset or 0, new
    pairs: list[tuple[ast.expr, ast.operator | ast.cmpop | ast.boolop, ast.expr]] = []
    if isinstance(node, ast.Compare):
        pairs = list(zip([node.left, *node.comparators], node.ops, node.comparators, strict=False))
    elif isinstance(node, ast.BinOp):
        pairs = [(node.left, node.op, node.right)]
    elif isinstance(node, ast.BoolOp):
        pairs = [(left, node.op, right) for left, right in zip(node.values, node.values[1:], strict=False)]
    for left, operator, right in pairs:
        line, start, end = right.lineno, left.end_col_offset or 0, right.col_offset
        if type(operator) not in SWAPS or left.end_lineno != line:
            continue
        if lines[line - 1].isascii() and not set("()") & set(lines[line - 1][start:end]):
            yield line, start, end, f" {SWAPS[type(operator)]} "


def find(mutant: Mutant, package: Path) -> tuple[Path, int] | None:
    """Return the file and the index of the line of a mutant: in its module, else wherever its function is now."""
    leaf = mutant["function"].rpartition(".")[2]
    for path in (package / mutant["module"], *sorted(package.rglob("*.py"))):
        if not path.exists() or f"def {leaf}(" not in (text := path.read_text(encoding="utf-8")):
            continue
        lines = text.splitlines()
        for function in (function for name, function in functions(ast.parse(text)) if name == mutant["function"]):
            for index in range(function.lineno - 1, function.end_lineno or function.lineno):
                if lines[index].strip() == mutant["before"]:
                    return path, index
    return None


def tests_of(module: str, function: str) -> list[str]:
    """Return test modules that name a module in an import; first those of its package that name the function.

    If none does, those of its package.
    """
    dotted, folder = "rewardharness." + module.removesuffix(".py").replace("/", "."), module.split("/")[0]
    parent, _, leaf = dotted.rpartition(".")
    texts = {path: path.read_text(encoding="utf-8") for path in sorted((ROOT / "tests").glob("**/test_*.py"))}
    imports = (f"from {dotted} import", f"from {parent} import {leaf}")
    found = [path for path, text in texts.items() if any(words in text for words in imports)]
    found = found or [path for path in texts if path.parent.name == folder]
    names = function.split(".")
    found.sort(key=lambda path: (path.parent.name != folder, not any(name in texts[path] for name in names)))
    found.sort(key=lambda path: path.parent.name == "app")  # the slowest
    return [path.relative_to(ROOT).as_posix() for path in found[:MODULES]]


def run(mutant: Mutant, copy: Path) -> tuple[str, str]:
    """Return `killed`, `survived`, `timeout`, or `gone` if no function has the line any more, and the test that failed.

    The tests run in a fork of this process, which has imported their libraries, and nothing of this project.
    """
    package = copy / "rewardharness"
    if not (place := find(mutant, package)):
        return "gone", ""
    path, index = place
    text = path.read_text(encoding="utf-8")
    lines = text.splitlines()
    lines[index] = lines[index].replace(mutant["before"], mutant["after"])
    path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    known = mutant.get("killed_by", "")
    try:
        for tests in ([known] if known else [], tests_of(path.relative_to(package).as_posix(), mutant["function"])):
            outcome, failed = test(tests, copy) if tests else ("survived", [])
            if outcome != "survived":
                return outcome, "".join(failed[:1])
        return "survived", ""
    finally:
        path.write_text(text, encoding="utf-8")


def test(names: list[str], copy: Path, first: bool = True) -> tuple[str, list[str]]:
    """Run tests in a copy of the checkout, up to the first that fails or all. Returns the outcome and what failed."""
    notes = copy.with_name(f"{copy.name}.failed")
    notes.write_text("", encoding="utf-8")
    if not (child := os.fork()):
        os._exit(_test(names, copy, notes, first))
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    outcome = {0: "survived", 4: "survived", 5: "survived", -signal.SIGALRM: "timeout"}.get(status, "killed")
    return outcome, notes.read_text(encoding="utf-8").splitlines()


class _Notes:
    """Writes down what fails."""

    def __init__(self, path: Path) -> None:
        self._path = path

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._note(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._note(report)

    def _note(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        if report.failed:
            with self._path.open("a", encoding="utf-8") as file:
                file.write(f"{report.nodeid}\n")


def _test(names: list[str], copy: Path, notes: Path, first: bool) -> int:
    """Run tests silently. Returns the exit status of pytest."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, 1)
    os.dup2(null, 2)
    os.setsid()
    signal.alarm(SECONDS)
    os.chdir(copy)
    sys.path[:0] = [str(copy)]
    os.environ["PYTHONPATH"] = str(copy)
    words = ["-x"] * first + ["-p", "no:cacheprovider", "-m", "not slow and not browser"]
    try:
        return int(pytest.main([*words, *names], plugins=[_Notes(notes)]))
    except BaseException:
        return 1


def run_all(mutants: list[Mutant], minutes: float = 1e9) -> list[Mutant]:
    """Return mutants with their outcome, as many as there is time for, in `WORKERS` processes with a copy each."""
    for name in ("cv2", "cyclopts", "msgspec", "numpy", "orjson", "PIL.Image", "rich.console", "yaml"):
        import_module(name)
    sys.dont_write_bytecode = True
    end, workers = time.monotonic() + 60 * minutes, []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(WORKERS):
            copy, outcomes = Path(folder, f"{number}", "checkout"), Path(folder, f"{number}.jsonl")
            shutil.copytree(ROOT, copy, ignore=shutil.ignore_patterns(".git", ".venv*", "__pycache__", "build"))
            compileall.compile_dir(copy / "rewardharness", quiet=2, invalidation_mode=PycInvalidationMode.CHECKED_HASH)
            if not (worker := os.fork()):
                with outcomes.open("a", encoding="utf-8") as file:
                    for mutant in mutants[number::WORKERS]:
                        if time.monotonic() < end:
                            outcome, failed = run(mutant, copy)
                            file.write(json.dumps({**mutant, "outcome": outcome, "killed_by": failed}) + "\n")
                            file.flush()
                os._exit(0)
            workers.append(worker)
        for worker in workers:
            os.waitpid(worker, 0)
        texts = [path.read_text(encoding="utf-8") for path in sorted(Path(folder).glob("*.jsonl"))]
        done = [json.loads(line) for text in texts for line in text.splitlines()]
        _, failing = test(sorted({mutant["killed_by"] for mutant in done} - {""}), Path(folder, "0", "checkout"), False)
        return [mutant for mutant in done if mutant["killed_by"] not in failing]


def make(minutes: float) -> Counter[str]:
    """Write the list. A mutant whose test fails without it as well is left out."""
    rng, every = random.Random(SEED), [mutants_of(name) for name in CORE]
    chosen = [mutant for mutants in every for mutant in rng.sample(mutants, min(len(mutants), PER_MODULE))]
    done = run_all(rng.sample(chosen, min(len(chosen), N)), minutes)
    done.sort(key=lambda mutant: (mutant["module"], mutant["function"], mutant["before"], mutant["after"]))
    LIST.write_text(json.dumps(done, indent=1) + "\n", encoding="utf-8")
    return Counter(mutant["outcome"] for mutant in done)


def check(n: int | None = None) -> list[str]:
    """Test mutants of the list again, the seeded first N of them. Returns those that were killed and survive."""
    every = json.loads(LIST.read_text(encoding="utf-8"))
    before = random.Random(SEED).sample(every, len(every))[:n]
    now = run_all(before)
    counts = (Counter(mutant["outcome"] for mutant in mutants) for mutants in (before, now))
    sys.stdout.write("before {} now {}\n".format(*map(dict, counts)))
    killed = {_name(mutant) for mutant in before if mutant["outcome"] == "killed"}
    return [name for mutant in now if mutant["outcome"] == "survived" and (name := _name(mutant)) in killed]


def _name(mutant: Mutant) -> str:
    return "{module}: {function}: {before} -> {after}".format(**mutant)


def main(words: list[str]) -> int:
    """Make or check the list of mutants. Returns the exit status."""
    if words[:1] == ["make"]:
        sys.stdout.write(f"{dict(make(float(words[1]) if len(words) > 1 else 1e9))}\n")
        return 0
    survivors = check(int(words[1]) if len(words) > 1 else None)
    sys.stdout.write("".join(f"{line}\n" for line in survivors))
    return 1 if survivors else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
