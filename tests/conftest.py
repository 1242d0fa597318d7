"""Every test runs with a home of its own, a clean environment and no network beyond this machine."""

import gc
import logging
import os
import socket
from collections.abc import Iterator
from pathlib import Path
from tempfile import mkdtemp
from typing import TYPE_CHECKING

import pytest
from commands import Rh, Shown
from halting import Halt
from hypothesis import HealthCheck, settings

# How long examples take says something about the machine alone. The same ones are tried each time: what a test has
# found stays found, and a rare one fails nobody who changed something else. To look further: --hypothesis-profile=anew
CALM = {"deadline": None, "suppress_health_check": [HealthCheck.too_slow]}
settings.register_profile("anew", **CALM)  # type: ignore[arg-type]
settings.register_profile("calm", derandomize=True, **CALM)  # type: ignore[arg-type]
settings.load_profile("calm")

if TYPE_CHECKING:
    from hub_parts import Hub

TESTS = Path(__file__).resolve().parent
REAL_DATA = TESTS.parents[1] / "shared" / "data"
"""Data made by other people, beside the checkout on machines that have it; never part of this repository."""

_connect = socket.socket.connect

for name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):  # read when NumPy is imported, here and in child processes
    os.environ.setdefault(name, "1")  # threads that wait for each other take a third of the CPU time of small images

os.fsync = lambda handle: None  # tests kill processes, which lose nothing that they wrote; none cuts the power

os.environ["RH_REGRESSION_PAIRS"] = "0"  # drawing takes long; its own tests ask for it


LONG = ("test_docs.py", "test_frozen.py", "test_every_job.py", "test_evolve.py", "test_benchmark_run.py")
"""Modules that take longest, and would have others wait for one process at the end if they began late."""


def pytest_configure(config: pytest.Config) -> None:
    """Have each of several processes begin with other modules: what one has compiled, the others read.

    The first of all is one of the app, whose folder has Gradio imported quickly.
    """
    worker = getattr(config, "workerinput", None)
    if worker and config.args == config.getini("testpaths"):
        first, *modules = sorted(str(path) for path in TESTS.rglob("test_*.py"))
        start = len(modules) * int(worker["workerid"].removeprefix("gw")) // worker["workercount"]
        config.args = [first, *modules[start:], *modules[:start]]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Have the longest modules begin first, then those with a browser, in the same order in all processes."""

    def place(item: pytest.Item) -> tuple[int, bool, Path]:
        long = LONG.index(item.path.name) if item.path.name in LONG else len(LONG)
        return long, "browser" not in item.keywords, item.path

    items.sort(key=place)


def pytest_collection_finish() -> None:
    """Keep the collector of garbage from walking again and again through libraries and tests, which stay."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)


@pytest.fixture(autouse=True)
def own_home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Point the project's state at a folder of this test alone and hide the caller's settings."""
    homes = tmp_path_factory.getbasetemp() / "homes"
    homes.mkdir(exist_ok=True)
    home = Path(mkdtemp(dir=homes))  # `mktemp` would look at all that there are to number one more
    for name in list(os.environ):
        if name.startswith(("RH_", "HF_", "OPENAI_", "GEMINI_", "GOOGLE_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("RH_HOME", str(home))
    monkeypatch.setenv("RH_REGRESSION_PAIRS", "0")
    yield home


@pytest.fixture(autouse=True, scope="session")
def quick_parsing() -> Iterator[None]:
    """Inspect each command once, not for every command line."""
    from parsing import inspect_once

    with pytest.MonkeyPatch.context() as patch:
        inspect_once(patch)
        yield


@pytest.fixture(autouse=True)
def no_network(monkeypatch: pytest.MonkeyPatch) -> None:
    """Refuse connections to other machines: a test that needs one is a mistake."""

    def connect(self: socket.socket, address: object) -> None:
        if self.family in {socket.AF_INET, socket.AF_INET6} and isinstance(address, tuple):
            host = str(address[0])
            if host not in {"127.0.0.1", "localhost", "::1"}:
                raise AssertionError(f"a test tried to reach {host}")
        _connect(self, address)  # type: ignore[arg-type]

    monkeypatch.setattr(socket.socket, "connect", connect)


@pytest.fixture
def halt(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Halt]:
    """Where a process that is started halts."""
    halt = Halt(tmp_path_factory.mktemp("halt"))
    for name, value in halt.environment.items():
        monkeypatch.setenv(name, value)
    yield halt
    halt.end()


@pytest.fixture
def small_library(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    """Judge by a Library of two Skills, where the test does not say another one: all that come along take long."""
    from drawn_pairs import two_skills

    folder = tmp_path_factory.getbasetemp() / "two-skills"
    if not folder.is_dir():
        two_skills().save(folder)
    monkeypatch.setenv("RH_LIBRARY", str(folder))


@pytest.fixture
def rh(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Rh:
    """Run a command and return what it prints, its tables so wide that cells are in one line."""
    from rewardharness.cli import output
    from rewardharness.cli.main import main

    monkeypatch.setattr(output, "width", lambda: 300)

    def run(*words: object, status: int = 0) -> Shown:
        capsys.readouterr()
        found = main([str(word) for word in words])
        shown = Shown(*capsys.readouterr())
        assert found == status, shown.err
        assert "Traceback" not in shown.err
        return shown

    return run


@pytest.fixture
def real_data() -> Path:
    """Folder of real data, or a skip with the reason."""
    if not REAL_DATA.is_dir():
        pytest.skip("no real data beside this checkout")
    return REAL_DATA


@pytest.fixture
def hub(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> "Iterator[Hub]":
    """A Hub on this machine."""
    from hub_parts import running_hub

    logger = logging.getLogger("huggingface_hub")
    level = logger.level
    logger.setLevel(logging.ERROR)  # it tells of every attempt
    with running_hub(tmp_path, monkeypatch) as running:
        yield running
    logger.setLevel(level)
