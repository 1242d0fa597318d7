"""The reward server on a real Ray Serve; `make test-ray` runs it, with Ray in an environment of its own."""

import os
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from served import ROOT, TOKEN, Server
from serving_parts import PATIENCE, b64

from rewardharness.demo.dataset import make_demo
from rewardharness.judging.release import make_release
from rewardharness.judging.release_file import save_release
from rewardharness.library.opening import open_library
from rewardharness.library.store import Library

PYTHON = os.environ.get("RH_TEST_RAY_PYTHON", "")

pytestmark = [
    pytest.mark.ray,
    pytest.mark.timeout(300),
    pytest.mark.skipif(not PYTHON, reason="`make test-ray` runs it with Ray installed"),
]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Edits and a release."""
    folder = tmp_path_factory.mktemp("ray")
    make_demo(folder / "pairs", pairs=3, groups=0, side=96)
    names = {"color-and-material-changes", "preserving-the-rest"}  # they read no text, and need no extra for it
    library = Library(tuple(each for each in open_library("builtin").entries if each.name in names))
    save_release(make_release("measured", library), folder / "release.json")
    return folder


@pytest.fixture(scope="module")
def both(folder: Path) -> Iterator[tuple[Server, Server]]:
    """A server with each engine, and the same release."""
    words = ("--release", "release.json", "--max-body-mb", "1")
    ray = Server(folder, *words, "--engine", "ray", "--replicas", "2", home=folder / "a", python=PYTHON)
    try:
        local = Server(folder, *words, home=folder / "b", python=PYTHON)
        yield local, ray
        local.end(signal.SIGTERM)
    finally:
        started = psutil.Process(ray.process.pid).children(recursive=True)
        status = ray.end(signal.SIGTERM)
        _, left = psutil.wait_procs(started, 30)
    assert status == 0 and left == [], "all replicas ended with the server"


def edits(folder: Path) -> list[dict[str, Any]]:
    """The first pair as edits."""
    from rewardharness.data.folder import read_folder

    example = read_folder(folder / "pairs").examples[0]
    source, first, second = (b64(Path(image.path).read_bytes()) for image in example.images)
    wish = {"instruction": example.instruction, "source": source}
    return [{**wish, "edited": first}, {**wish, "edited": second}, {**wish, "edited": b64(b"no image")}]


def replicas(server: Server) -> list[psutil.Process]:
    """The processes that judge."""
    children = psutil.Process(server.process.pid).children(recursive=True)
    return [each for each in children if each.name().startswith("ray::ServeRepl") and each.status() != "zombie"]


def test_replies_are_those_of_the_local_engine(both: tuple[Server, Server], folder: Path) -> None:
    batch = {"items": edits(folder), "normalise": "group", "allow_ungradable": True}
    first, second, _ = batch["items"]
    pair = {**first, "candidates": [first["edited"], second["edited"]]}
    del pair["edited"]
    two = {"instruction": pair["instruction"], "source": pair["source"], "a": first["edited"], "b": second["edited"]}
    same = [("/batch_score", batch), ("/score", pair), ("/compare", two), ("/rank", pair)]
    wrong = [("/score", {}), ("/score", {**first, "more": 1}), ("/nowhere", None), ("/batch_score", [1])]
    for path, value in [*same, *wrong, ("/readyz", None)]:
        (status, mine), (other, theirs) = (server.ask(path, value) for server in both)
        assert status == other
        for reply in (mine, theirs):
            for name in ("request_id", "latency_ms"):
                reply.pop(name, None)
            for item in reply.get("results", ()):
                del item["latency_ms"], item["cached"], item["usage"]
            reply.pop("usage", None)
        assert mine == theirs, path
    rewards = [item["reward"] for item in both[1].post("/batch_score", batch)["results"]]
    assert rewards[0] is not None and rewards[2] is None


def test_token_body_limit_and_release_are_those_of_the_local_engine(both: tuple[Server, Server], folder: Path) -> None:
    info = [server.ask("/info")[1] for server in both]
    assert info[0]["identity"] == info[1]["identity"] and info[1]["identity"]["release"]
    for server in both:
        assert server.ask("/info", token="another-token-of-16")[0] == 401
        status, reply = server.ask("/score", {"instruction": "x" * 1_050_000})
        assert status == 413 and reply["error"]["code"] == "too_large"


def test_a_replica_that_dies_is_replaced(both: tuple[Server, Server], folder: Path) -> None:
    _, ray = both
    batch = {"items": edits(folder)[:2], "allow_ungradable": True}
    before = [item["reward"] for item in ray.post("/batch_score", batch)["results"]]
    victim, kept = replicas(ray)
    victim.kill()
    ends = time.monotonic() + PATIENCE
    while (len(now := replicas(ray)) < 2 or victim in now) and time.monotonic() < ends:
        assert ray.ask("/readyz")[0] in {200, 500, 503}
    assert kept in now and victim not in now
    assert [item["reward"] for item in ray.post("/batch_score", batch)["results"]] == before


def test_ray_builds_what_the_example_for_kubernetes_names(folder: Path) -> None:
    program, example = Path(__file__).with_name("build_with_ray.py"), ROOT / "examples" / "kuberay" / "rayservice.yaml"
    environment = {**os.environ, "RH_HOME": str(folder / "c"), "PYTHONPATH": str(ROOT)}
    for token, said in ((TOKEN, "Rewards ['Rewards']"), ("", "no token for callers")):
        words = [PYTHON, str(program), str(example), str(folder / "release.json")]
        variables = {**environment, "RH_SERVER_TOKEN": token}
        done = subprocess.run(words, env=variables, capture_output=True, text=True, timeout=200, check=False)
        assert said in done.stdout + done.stderr and (done.returncode == 0) == bool(token)
