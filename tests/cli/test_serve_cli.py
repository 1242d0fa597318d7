"""`rh serve`: what it refuses, and that it scores as every other way to score does."""

import base64
import json
import re
import signal
import socket
import subprocess
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from served import TOKEN, Server

from app.library.libraries import FOLDER, Choice
from app.score.comparisons import Draft
from app.services import AppServices
from rewardharness.cli.main import main
from rewardharness.judging.release import Release, make_release
from rewardharness.judging.release_file import save_release
from rewardharness.library.opening import open_library
from rewardharness.library.store import EMPTY, Library
from rewardharness.serving.client import Ask, IdentityError, RewardClient
from rewardharness.settings import Settings

TEXT = "make the box red"
NAMES = ("source", "red", "pale", "same")


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pictures, a Library of two Skills, and a release of it."""
    folder = tmp_path_factory.mktemp("serve")
    pixels = np.random.default_rng(4).integers(60, 200, (96, 96, 3), dtype=np.uint8)
    for name, level in (("source", 0), ("red", 90), ("pale", 25), ("same", 0)):
        pixels[30:70, 30:70] = (120 + level, 120 - level, 110 - level)
        Image.fromarray(pixels).save(folder / f"{name}.png")
    names = {"color-and-material-changes", "preserving-the-rest"}
    library = Library(tuple(each for each in open_library("builtin").entries if each.name in names))
    library.save(folder / "library")
    save_release(make_release("measured", library), folder / "release.json")
    return folder


@pytest.fixture(scope="module")
def release(folder: Path) -> Release:
    return make_release("measured", open_library(str(folder / "library")))


@pytest.fixture(scope="module")
def server(folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = Server(folder, "--release", "release.json", home=tmp_path_factory.mktemp("server-home"))
    yield server
    assert server.end(signal.SIGTERM) == 0


def b64(path: Path) -> str:
    return base64.b64encode(path.read_bytes()).decode()


def offline(folder: Path, capsys: pytest.CaptureFixture[str], *candidates: str) -> dict[str, Any]:
    named = [word for name in candidates for word in ("--candidate", str(folder / f"{name}.png"))]
    words = ["score", "--source", str(folder / "source.png"), *named, "--instruction", TEXT, "--json"]
    assert main([*words, "--release", str(folder / "release.json")]) == 0
    found = json.loads(capsys.readouterr().out)
    assert isinstance(found, dict)
    return found


def test_the_same_release_gives_the_same_scores_by_every_way(
    folder: Path, server: Server, capsys: pytest.CaptureFixture[str], tmp_path: Path, own_home: Path
) -> None:
    candidates = ("red", "pale", "same")
    record = offline(folder, capsys, *candidates)
    app = AppServices(Settings(home=own_home, library="builtin", debug=False, workers=1), tmp_path, local=True)
    paths = [str(folder / f"{name}.png") for name in candidates]
    choice = Choice(FOLDER, str(folder / "library"))
    shown = app.compare(Draft(str(folder / "source.png"), tuple(paths), (), TEXT), choice).judgment
    wish = {"instruction": TEXT, "source": b64(folder / "source.png")}
    images = [b64(folder / f"{name}.png") for name in candidates]
    reply = server.post("/score", {**wish, "candidates": images})
    for label, item in zip("ABC", reply["results"], strict=True):
        mine = {"reward": item["reward"], "variance": item["variance"], **item["scores"]}
        scores = shown.scores[label]
        assert mine == record["scores"][label]
        assert mine == {name: value for name, value in asdict(scores).items() if name != "evidence"}
    comparison = reply["comparison"]
    assert comparison["preference"] == record["preference"] == shown.preference
    assert comparison["margin"] == record["margin"] == shown.margin
    assert comparison["ranking"] == record["ranking"]
    ranked = server.post("/rank", {**wish, "candidates": images})["results"]
    for name, image, item in zip(candidates, images, ranked, strict=True):
        alone = offline(folder, capsys, name)["scores"]["A"]
        [single] = server.post("/score", {**wish, "edited": image})["results"]
        assert {"reward": single["reward"], "variance": single["variance"], **single["scores"]} == alone
        assert item["reward"] == alone["reward"]


def test_a_client_gets_what_it_pinned_or_nothing(server: Server, folder: Path, release: Release) -> None:
    assert release.id in server.judge
    with RewardClient(server.url, release=release.id, token=TOKEN) as client:
        [reward] = client.score([Ask(TEXT, folder / "source.png", folder / "red.png")])
        assert reward.reward is not None
        assert client.identity is not None and client.identity.release == release.id
    with pytest.raises(IdentityError):
        RewardClient(server.url, release="ab" * 32, token=TOKEN)


@pytest.mark.slow
def test_ctrl_c_ends_it_as_every_command(folder: Path, own_home: Path) -> None:
    assert Server(folder, "--library", "library", home=own_home).end(signal.SIGINT) == 130


def refused(capsys: pytest.CaptureFixture[str], *words: str, status: int = 1) -> str:
    assert main(["serve", *words, *([] if "--port" in words else ["--port", "0"])]) == status
    said = capsys.readouterr().err
    assert "Traceback" not in said
    assert "Next:" in said
    return said


def test_a_release_that_was_changed_is_not_served(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    text = (folder / "release.json").read_text(encoding="utf-8")
    changed = text.replace("preserv", "destroy", 1)
    assert changed != text
    (tmp_path / "changed.json").write_text(changed, encoding="utf-8")
    assert "release" in refused(capsys, "--release", str(tmp_path / "changed.json")).lower()


def test_a_release_of_another_judge_is_not_served(
    folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    said = refused(capsys, "--release", str(folder / "release.json"), "--judge", "vllm:other@http://127.0.0.1:9/v1")
    assert "measured" in said
    save_release(make_release("vllm:judge", EMPTY), tmp_path / "model.json")
    said = refused(capsys, "--release", str(tmp_path / "model.json"), "--judge", "vllm:other@http://127.0.0.1:9/v1")
    assert "vllm:judge" in said and "vllm:other" in said


def test_others_are_listened_to_only_with_a_token(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    said = refused(capsys, "--host", "0.0.0.0", status=2)
    assert "--insecure-no-auth" in said
    monkeypatch.setenv("RH_SERVER_TOKEN", "short")
    assert "short" not in refused(capsys, "--host", "0.0.0.0").replace("plain characters", "")


def test_what_cannot_be_served_is_one_error_with_a_remedy(
    capsys: pytest.CaptureFixture[str], tmp_path: Path, folder: Path
) -> None:
    (tmp_path / "scores.jsonl").write_text('{"id": "e", "preference": "A"}\n')
    assert "id" in refused(capsys, "--judge", f"file:{tmp_path / 'scores.jsonl'}")
    assert "does not exist" in refused(capsys, "--token-file", str(tmp_path / "nothing"))
    assert "queue" in refused(capsys, "--queue", "10")
    assert "concurrency" in refused(capsys, "--concurrency", "0", status=2)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert "listen" in refused(capsys, "--port", str(taken.getsockname()[1]))
    assert "listen" in refused(capsys, "--host", "x" * 300, "--insecure-no-auth")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--replicas 2", "--engine ray"),
        ("--engine ray --replicas 0", "out of range"),
        ("--engine ray --min-replicas 2", "--max-replicas"),
        ("--engine ray --replicas 2 --max-replicas 3", "fixed"),
        ("--engine ray --min-replicas 3 --max-replicas 2", "below"),
    ],
)
def test_replicas_need_ray_and_numbers_that_fit(capsys: pytest.CaptureFixture[str], words: str, said: str) -> None:
    assert said in refused(capsys, *words.split(), status=2)


def test_without_the_extra_it_says_what_to_install(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    import importlib.util

    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "uvicorn" else find(name))
    assert "[serve]" in refused(capsys)


def test_the_first_request_of_the_documentation_takes_ordinary_photos(tmp_path: Path) -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "how-to" / "serve-and-deploy.md").read_text(encoding="utf-8")
    request = next(block for block in re.findall(r"```bash\n(.*?)```", page, re.DOTALL) if "base64" in block)
    for name in ("before.png", "after.png"):
        (tmp_path / name).write_bytes(bytes(3_000_000))
    (tmp_path / "curl").write_text("#!/bin/sh\nexec cat\n", encoding="utf-8")
    (tmp_path / "curl").chmod(0o755)
    done = subprocess.run(["bash", "-c", f'PATH="$PWD:$PATH"; {request}'], cwd=tmp_path, capture_output=True)
    assert done.returncode == 0, done.stderr[:300]
    assert len(json.loads(done.stdout)["source"]) == 4_000_000
