"""Seeded mutants of the core, and the test that notices each of them.

    python tests/mutation/mutants.py make [MINUTES]  go on with the list as long as time allows
    python tests/mutation/mutants.py check [N]       test N of them again (default: all), and compare

A mutant changes one operator or constant of one function. It is killed if a test fails: the one that killed it before,
or one of a module that imports the mutated module. `check` finds a function by its name wherever it is now, counts a
mutant whose function or line is gone, and exits with 1 if a mutant that was killed before survives.
"""

import ast
import gc
import json
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterator
from functools import cache, partial
from importlib import import_module
from pathlib import Path
from types import CodeType, FunctionType

import pytest
from _pytest.runner import runtestprotocol

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "rewardharness"
LIST = Path(__file__).with_name("mutants.json")
CORE = (
    "benchmark/answers.py benchmark/intervals.py benchmark/metrics.py bulk/preference_data.py certainty.py "
    "data/cells.py data/source.py evolution/gate.py evolution/joint/fit.py evolution/joint/reweighting.py "
    "evolution/joint/step.py evolution/progress.py judging/calibration.py judging/criteria.py "
    "judging/presentation.py judging/ranking.py judging/report.py library/diff.py library/rubric.py "
    "library/triggers.py library/yamlsafe.py measure/bounds.py measure/color.py measure/fidelity.py "
    "models/limits.py runs/store.py schema.py serving/limits.py serving/results.py "
).split()
N, PER_MODULE, SEED, WORKERS, SECONDS, MODULES = 200, 8, 20261125, 2, 60, 3
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
    text = (PACKAGE / module).read_text(encoding="utf-8")
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


def find(mutant: Mutant) -> tuple[Path, int] | None:
    """Return the file and the index of the line of a mutant: in its module, else wherever its function is now."""
    leaf = mutant["function"].rpartition(".")[2]
    for path in (PACKAGE / mutant["module"], *sorted(PACKAGE.rglob("*.py"))):
        if not path.exists() or f"def {leaf}(" not in (text := path.read_text(encoding="utf-8")):
            continue
        lines = text.splitlines()
        for function in (function for name, function in functions(ast.parse(text)) if name == mutant["function"]):
            for index in range(function.lineno - 1, function.end_lineno or function.lineno):
                if lines[index].strip() == mutant["before"]:
                    return path, index
    return None


@cache
def test_texts() -> dict[Path, str]:
    """Return the texts of the test modules."""
    return {path: path.read_text(encoding="utf-8") for path in sorted((ROOT / "tests").glob("**/test_*.py"))}


def tests_of(module: str, function: str) -> list[str]:
    """Return test modules that name a module in an import; first those of its package that name the function.

    If none does, those of its package.
    """
    dotted, folder = "rewardharness." + module.removesuffix(".py").replace("/", "."), module.split("/")[0]
    parent, _, leaf = dotted.rpartition(".")
    texts = test_texts()
    imports = (f"from {dotted} import", f"from {parent} import {leaf}")
    found = [path for path, text in texts.items() if any(words in text for words in imports)]
    found = found or [path for path in texts if path.parent.name == folder]
    names = function.split(".")
    found.sort(key=lambda path: (path.parent.name != folder, not any(name in texts[path] for name in names)))
    found.sort(key=lambda path: path.parent.name == "app")  # the slowest
    return [path.relative_to(ROOT).as_posix() for path in found[:MODULES]]


def mutate(path: Path, index: int, after: str) -> None:
    """Give the functions of an imported module the code that they have with another line."""
    lines = path.read_text(encoding="utf-8").splitlines()
    lines[index] = lines[index].replace(lines[index].strip(), after)
    found, codes = [compile("\n".join(lines), str(path), "exec")], {}
    while found:
        code = found.pop()
        codes[code.co_name, code.co_firstlineno] = code
        found += [each for each in code.co_consts if isinstance(each, CodeType)]
    gc.unfreeze()
    for function in [each for each in gc.get_objects() if type(each) is FunctionType]:
        old = function.__code__
        if old.co_filename == str(path) and (old.co_name, old.co_firstlineno) in codes:
            function.__code__ = codes[old.co_name, old.co_firstlineno]


class Mutation:
    """A plugin of pytest that runs the collected tests for mutants instead of once, each time in a fork.

    Args:
        mutants: The mutants.
        folder: Where their outcomes are noted.
        minutes: When to stop.
    """

    def __init__(self, mutants: list[Mutant], folder: Path, minutes: float) -> None:
        self._mutants, self._folder, self._end = mutants, folder, time.monotonic() + 60 * minutes
        self._items: dict[str, list[pytest.Item]] = {}

    def pytest_runtestloop(self, session: pytest.Session) -> bool:
        """Try the mutants in `WORKERS` processes; then note which of their tests fail without a mutant."""
        for item in session.items:
            self._items.setdefault(item.nodeid.partition("::")[0], []).append(item)
        workers = [self._fork(partial(self._work, number)) for number in range(WORKERS)]
        for worker in workers:
            os.waitpid(worker, 0)
        for name in sorted({mutant["killed_by"] for mutant in self.done()} - {""}):
            if self._test([name])[0] == "killed":
                (self._folder / "failing").open("a", encoding="utf-8").write(f"{name}\n")
        return True

    def done(self) -> list[Mutant]:
        """Return the mutants with their outcomes, without those whose test fails as well without them."""
        texts = [path.read_text(encoding="utf-8") for path in sorted(self._folder.glob("*.jsonl"))]
        failing = self._folder / "failing"
        names = failing.read_text(encoding="utf-8").splitlines() if failing.exists() else []
        every: list[Mutant] = [json.loads(line) for text in texts for line in text.splitlines()]
        return [mutant for mutant in every if mutant["killed_by"] not in names]

    def _work(self, number: int) -> None:
        for mutant in self._mutants[number::WORKERS]:
            if time.monotonic() < self._end:
                outcome, failed = self._try(mutant)
                with (self._folder / f"{number}.jsonl").open("a", encoding="utf-8") as file:
                    file.write(json.dumps({**mutant, "outcome": outcome, "killed_by": failed}) + "\n")

    def _try(self, mutant: Mutant) -> tuple[str, str]:
        """Return `killed`, `survived`, `timeout`, or `gone` if no function has the line, and the test that failed."""
        if not (place := find(mutant)):
            return "gone", ""
        name = place[0].relative_to(PACKAGE).as_posix()
        import_module("rewardharness." + name.removesuffix(".py").replace("/", "."))
        tests = [*filter(None, [mutant.get("killed_by")]), *tests_of(name, mutant["function"])]
        return self._test(tests, partial(mutate, *place, mutant["after"]))

    def _test(self, names: list[str], prepare: Callable[[], None] = lambda: None) -> tuple[str, str]:
        """Run tests up to the first that fails."""
        failed = self._folder / f"failed-{os.getpid()}"
        failed.write_text("", encoding="utf-8")
        child = self._fork(lambda: failed.write_text((prepare(), self._first_failure(names))[1], encoding="utf-8"))
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        name = failed.read_text(encoding="utf-8")
        return (
            "timeout"
            if status in (-signal.SIGALRM, -signal.SIGPROF)
            else "killed"
            if name
            else "crashed"
            if status
            else "survived",
            name,
        )

    def _first_failure(self, names: list[str]) -> str:
        signal.alarm(10 * SECONDS)  # of this machine, however busy it is
        signal.setitimer(signal.ITIMER_PROF, SECONDS)  # of processor time
        items = []
        for name in names:
            items += [each for each in self._items.get(name.partition("::")[0], []) if each.nodeid.startswith(name)]
        for item, following in zip(items, [*items[1:], None], strict=True):
            if any(report.failed for report in runtestprotocol(item, log=False, nextitem=following)):
                return item.nodeid
        return ""

    @staticmethod
    def _fork(work: Callable[[], object]) -> int:
        if child := os.fork():
            return child
        try:
            work()
            os._exit(0)
        finally:
            os._exit(1)


def run_all(mutants: list[Mutant], minutes: float = 1e9) -> list[Mutant]:
    """Return mutants with their outcomes, as many as there is time for."""
    places = [(mutant, place[0].relative_to(PACKAGE).as_posix()) for mutant in mutants if (place := find(mutant))]
    tests = {test for mutant, name in places for test in tests_of(name, mutant["function"])}
    tests |= {file for mutant in mutants if (file := mutant.get("killed_by", "").partition("::")[0])}
    files = sorted(test for test in tests if (ROOT / test).exists())
    os.chdir(ROOT)
    with tempfile.TemporaryDirectory() as folder:
        mutation = Mutation(mutants, Path(folder), minutes)
        words = ["-p", "no:cacheprovider", "-m", "not slow and not browser"]
        status = pytest.main([*words, *files], plugins=[mutation])
        assert status in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED), status
        return mutation.done()


def make(minutes: float) -> Counter[str]:
    """Write the list, or go on with it. A mutant whose test fails without it as well is left out."""
    rng, every = random.Random(SEED), [mutants_of(name) for name in CORE]
    chosen = [mutant for mutants in every for mutant in rng.sample(mutants, min(len(mutants), PER_MODULE))]
    chosen = rng.sample(chosen, min(len(chosen), N))
    known = {
        _name(mutant): mutant for mutant in (json.loads(LIST.read_text(encoding="utf-8")) if LIST.exists() else [])
    }
    known |= {
        _name(mutant): mutant for mutant in run_all([each for each in chosen if _name(each) not in known], minutes)
    }
    done = [known[name] for name in sorted(known)]
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
