"""`rh serve`: what it refuses, and that it scores as every other way to score does."""

import json
import re
import signal
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from commands import Rh
from drawn_pairs import draw_box, two_skills
from served import TOKEN, Server

from rewardharness.judging.release import Release, make_release
from rewardharness.judging.release_file import save_release
from rewardharness.library.opening import open_library
from rewardharness.library.store import EMPTY
from rewardharness.serving.client import Ask, IdentityError, RewardClient

TEXT = "make the box red"


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Pictures, a Library of two Skills, and a release of it."""
    folder = tmp_path_factory.mktemp("serve")
    draw_box(folder)
    library = two_skills()
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


def refused(rh: Rh, *words: str, status: int = 1) -> str:
    said = rh("serve", *words, *([] if "--port" in words else ["--port", "0"]), status=status).err
    assert "Next:" in said
    return said


def test_a_release_that_was_changed_is_not_served(folder: Path, tmp_path: Path, rh: Rh) -> None:
    text = (folder / "release.json").read_text(encoding="utf-8")
    changed = text.replace("preserv", "destroy", 1)
    assert changed != text
    (tmp_path / "changed.json").write_text(changed, encoding="utf-8")
    assert "release" in refused(rh, "--release", str(tmp_path / "changed.json")).lower()


def test_a_release_of_another_judge_is_not_served(folder: Path, tmp_path: Path, rh: Rh) -> None:
    said = refused(rh, "--release", str(folder / "release.json"), "--judge", "vllm:other@http://127.0.0.1:9/v1")
    assert "measured" in said
    save_release(make_release("vllm:judge", EMPTY), tmp_path / "model.json")
    said = refused(rh, "--release", str(tmp_path / "model.json"), "--judge", "vllm:other@http://127.0.0.1:9/v1")
    assert "vllm:judge" in said and "vllm:other" in said


def test_others_are_listened_to_only_with_a_token(rh: Rh, monkeypatch: pytest.MonkeyPatch) -> None:
    said = refused(rh, "--host", "0.0.0.0", status=2)
    assert "--insecure-no-auth" in said
    monkeypatch.setenv("RH_SERVER_TOKEN", "short")
    assert "short" not in refused(rh, "--host", "0.0.0.0").replace("plain characters", "")


def test_what_cannot_be_served_is_one_error_with_a_remedy(rh: Rh, tmp_path: Path, folder: Path) -> None:
    (tmp_path / "scores.jsonl").write_text('{"id": "e", "preference": "A"}\n')
    assert "id" in refused(rh, "--judge", f"file:{tmp_path / 'scores.jsonl'}")
    assert "does not exist" in refused(rh, "--token-file", str(tmp_path / "nothing"))
    assert "queue" in refused(rh, "--queue", "10")
    assert "concurrency" in refused(rh, "--concurrency", "0", status=2)
    with socket.create_server(("127.0.0.1", 0)) as taken:
        assert "listen" in refused(rh, "--port", str(taken.getsockname()[1]))
    assert "listen" in refused(rh, "--host", "x" * 300, "--insecure-no-auth")


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
def test_replicas_need_ray_and_numbers_that_fit(rh: Rh, words: str, said: str) -> None:
    assert said in refused(rh, *words.split(), status=2)


def test_without_the_extra_it_says_what_to_install(rh: Rh, monkeypatch: pytest.MonkeyPatch) -> None:
    import importlib.util

    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "uvicorn" else find(name))
    assert "[serve]" in refused(rh)


def test_the_first_request_of_the_documentation_takes_ordinary_photos(tmp_path: Path) -> None:
    page = (Path(__file__).resolve().parents[2] / "docs" / "how-to" / "serve-and-deploy.md").read_text(encoding="utf-8")
    request = next(block for block in re.findall(r"```bash\n(.*?)```", page, re.DOTALL) if "base64" in block)
    for name in ("before.png", "after.png"):
        (tmp_path / name).write_bytes(bytes(300_000))
    (tmp_path / "curl").write_text("#!/bin/sh\nexec cat\n", encoding="utf-8")
    (tmp_path / "curl").chmod(0o755)
    done = subprocess.run(["bash", "-c", f'PATH="$PWD:$PATH"; {request}'], cwd=tmp_path, capture_output=True)
    assert done.returncode == 0, done.stderr[:300]
    assert len(json.loads(done.stdout)["source"]) == 400_000
