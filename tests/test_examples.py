import asyncio
import importlib.util
import io
import os
import subprocess
import sys
import threading
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from types import ModuleType

import pytest
import yaml
from hub_parts import running_hub
from PIL import Image

from rewardharness import open_judge
from rewardharness.data.folder import read_folder
from rewardharness.data.vote_store import Pace, VoteStore
from rewardharness.data.votes import make_vote
from rewardharness.demo.dataset import make_demo
from rewardharness.hub.repository import Repo
from rewardharness.judging.evaluate import evaluate
from rewardharness.library.hub import push
from rewardharness.library.opening import open_library
from rewardharness.library.store import EMPTY, RemoveEntry
from rewardharness.measure.images import encode_png, load_picture
from rewardharness.measure.text import ocr_available
from rewardharness.schema import Example, ImageInput

FOLDER = Path(__file__).parent.parent / "examples"


def encoded(image: Image.Image) -> bytes:
    stream = io.BytesIO()
    image.save(stream, "PNG")
    return stream.getvalue()


def load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.skipif(not ocr_available(), reason="needs the extra `ocr`")
@pytest.mark.parametrize("spec", ["measured", "scripted"])
def test_the_sale_sign_is_read(spec: str) -> None:
    judgment = load("sale_sign").judge(spec)
    assert judgment.preference == "A"
    assert any(step.kind == "obs" and "Sael" in step.text for step in judgment.steps)


@pytest.mark.slow
@pytest.mark.timeout(300)
@pytest.mark.parametrize("loop", [False, True], ids=["plain", "running loop"])
def test_the_python_api_works_plainly_and_inside_a_running_event_loop(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch, loop: bool
) -> None:
    monkeypatch.setenv("RH_HOME", str(tmp_path_factory.getbasetemp() / "examples"))  # both share measurements
    run = partial(load("python_api").main, pairs=10, side=128, proposals=1)
    monkeypatch.setenv("RH_REGRESSION_PAIRS", "0")
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "cache"))

    async def notebook() -> dict:
        return run(tmp_path / "work", "ann/library")

    with running_hub(tmp_path, monkeypatch) as hub:
        monkeypatch.setenv("HF_TOKEN", hub.server.login("ann"))
        made = asyncio.run(notebook()) if loop else run(tmp_path / "work", "ann/library")
    assert len(made["results"]) == 10 and made["results"].report.judged == 10
    assert (made["run"].folder / "report.json").is_file()
    assert made["report"].rows[0].library_id == made["run"].library.id
    assert [row.role for row in made["report"].rows] == ["judge"]
    assert "no Library" not in str(made["report"]), "the pixel-based judge judges nothing without one"
    [value] = made["values"]
    assert value is None or 0 <= value <= 1
    assert made["pushed"].version == "v0.1.0" and made["again"].origin == ("ann/library", made["pushed"].commit)


@pytest.mark.slow
def test_the_weekly_evolution_proposes_what_it_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    steps = yaml.safe_load((FOLDER / "evolve_weekly.yml").read_text(encoding="utf-8"))["jobs"]["evolve"]["steps"]
    commands = [step["run"] for step in steps if step.get("run", "").startswith("rh ")]
    assert len(commands) == 3
    make_demo(tmp_path / "pairs", pairs=9, groups=0, side=128)
    with running_hub(tmp_path, monkeypatch) as hub:
        access = hub.user("ann")
        push(open_library("builtin"), "ann/library", access=access)
        head = hub.head
        votes = VoteStore(Repo("ann/preferences", access, "dataset"), tmp_path / "votes", Pace(gather=0.0))
        for example in read_folder(tmp_path / "pairs").examples:
            images = [encode_png(load_picture(image).pixels) for image in example.images]
            votes.give(make_vote(example, example.preference or "tie", images, time=datetime.now(UTC)))
        environ = {name: value for name, value in os.environ.items() if not name.startswith(("RH_", "HF_"))}
        environ |= {"HF_ENDPOINT": hub.server.url, "HF_TOKEN": str(access.token), "HF_HOME": str(tmp_path / "hf")}
        environ |= {"RH_HOME": str(tmp_path / "rh"), "RH_REGRESSION_PAIRS": "0", "PYTHONPATH": str(FOLDER.parent)}
        environ |= {"DATA": "ann/preferences", "LIBRARY": "ann/library", "GITHUB_STEP_SUMMARY": "summary.md"}
        rh = f'rh() {{ "{sys.executable}" -m rewardharness "$@"; }}; '

        def run(command: str) -> None:
            words = ["bash", "-c", rh + command]
            done = subprocess.run(words, env=environ, cwd=tmp_path, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stdout + done.stderr

        for command in commands:
            run(command)
        assert "held-out" in (tmp_path / "summary.md").read_text(encoding="utf-8")
        unchanged = open_library(str(tmp_path / "run" / "library")).id == open_library("builtin").id
        assert len(hub.repo.pulls) == (0 if unchanged else 1)
        evolved = open_library("builtin").apply(RemoveEntry("calling-a-tie"))  # as if an edit had been accepted
        evolved.save(tmp_path / "run" / "library")
        run(commands[-1])
        assert hub.repo.pulls[-1].status == "open" and hub.head == head


def test_the_server_of_editreward_is_a_judge_and_what_it_cannot_score_is_a_failure() -> None:
    def score(instruction: str, source: Image.Image, edited: Image.Image) -> float:
        """A stand-in for the model."""
        if "cannot" in instruction:
            raise ValueError("out of memory")
        return edited.getpixel((0, 0))[0] / 255 * 5 - 3

    server = load("editreward_server").make_server(score, 0)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    try:
        judge = open_judge(f"http:http://127.0.0.1:{server.server_port}#-3..2")
        images = [Image.new("RGB", (32, 32), (red, 0, 0)) for red in (10, 0, 204)]
        source, *edits = [ImageInput("x.png", data=encoded(image)) for image in images]
        examples = [Example(text, text, source, tuple(edits)) for text in ("paint it red", "what cannot be done")]
        (_, judged), (_, failed) = evaluate(judge, EMPTY, examples)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
    assert judged.preference == "B" and [each.reward for each in judged.scores.values()] == pytest.approx([0, 0.8])
    assert failed.preference is None and not failed.scores and "out of memory" in failed.failure.message
