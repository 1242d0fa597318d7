"""A local Hub with its users, and what tests of it have in common."""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from hub_server import HubServer
from hub_store import Repository

from rewardharness.library.hub import Access
from rewardharness.settings import Settings

REPO = "ann/library"


@dataclass(frozen=True)
class Hub:
    """The server and who uses it."""

    server: HubServer
    scratch: Path

    def user(self, name: str, computer: str = "") -> Access:
        """Access of a user, who owns what begins with the name. Another computer has another cache."""
        return Access(self.server.login(name), self.server.url, self.scratch / f"cache-{computer or name}")

    @property
    def anonymous(self) -> Access:
        return Access(False, self.server.url, self.scratch / "cache-anonymous")

    def settings(self, name: str = "") -> Settings:
        """Settings of a computer, which has a home and a cache of its own."""
        environ = {"RH_HOME": str(self.scratch / f"home-{name}"), "HF_ENDPOINT": self.server.url}
        return Settings.from_env({**environ, "HF_HUB_CACHE": str(self.scratch / f"hub-{name}")})

    @property
    def repo(self) -> Repository:
        return self.server.store.repos["models", REPO]

    @property
    def head(self) -> str:
        return self.repo.branches["main"]

    @property
    def files(self) -> dict[str, bytes]:
        """What is published."""
        return dict(self.repo.find("main").files)


@contextmanager
def running_hub(scratch: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hub]:
    """Run a Hub. The client is as it is, but waits not before it tries again, and downloads files one by one."""
    monkeypatch.setattr(time, "sleep", lambda seconds: None)
    monkeypatch.setattr("huggingface_hub._snapshot_download.hf_thread_map", lambda get, files, **_: [*map(get, files)])
    monkeypatch.setenv("HF_HOME", str(scratch / "hf"))
    monkeypatch.setenv("HF_TOKEN", "")
    with HubServer() as server:
        monkeypatch.setenv("HF_ENDPOINT", server.url)
        yield Hub(server, scratch)


def reword(folder: Path, text: str, entry: str = "tools/letter-reader") -> None:
    """Change the description of an entry in a folder."""
    path = folder / entry / "SKILL.md"
    lines = path.read_text("utf-8").split("\n")
    number = next(number for number, line in enumerate(lines) if line.startswith("description: "))
    lines[number] = f"description: {text}"
    path.write_text("\n".join(lines), "utf-8")
