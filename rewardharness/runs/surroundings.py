"""Environment of a run: versions of this package, of Python and of dependencies, and the state of the repository."""

import os
import platform
import re
import subprocess
import sys
from functools import cache
from importlib import metadata
from pathlib import Path
from typing import Any

from rewardharness import __version__
from rewardharness.files import content_id, sha256

DISTRIBUTION = "reward-harness-library"
GIT_SECONDS = 5.0
"""Timeout of a git command in seconds."""

_PACKAGE = Path(__file__).parent.parent
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_QUIET = ("--no-optional-locks", "-c", "core.fsmonitor=false", "-c", f"core.hooksPath={os.devnull}")


def surroundings(folder: Path) -> dict[str, Any]:
    """Describe the environment of a run, without names of people or machines.

    Args:
        folder: The working directory.
    """
    return {
        "package": {"version": __version__, "sources": sources_id()},
        "python": platform.python_version(),
        "implementation": sys.implementation.name,
        "platform": f"{platform.system()} {platform.release()} {platform.machine()}",
        "packages": installed_packages(),
        "git": git_state(folder),
    }


@cache
def sources_id() -> str:
    """Return a content id of the code and prompts of this package. Unlike the version, it changes with every edit."""
    sources = sorted([*_PACKAGE.rglob("*.py"), *_PACKAGE.glob("prompts/*.md")])
    return content_id([[path.relative_to(_PACKAGE).as_posix(), sha256(path.read_bytes())] for path in sources])


@cache
def installed_packages() -> dict[str, str]:
    """Return the installed versions of the dependencies of this package, including optional ones."""
    try:
        needed = metadata.requires(DISTRIBUTION) or []
    except metadata.PackageNotFoundError:  # the checkout is not installed
        needed = []
    versions = {}
    for requirement in needed:
        name = _NAME.match(requirement)
        if name is None or re.search(r"extra\s*==\s*['\"]dev['\"]", requirement):
            continue
        try:
            versions[name[0]] = metadata.version(name[0])
        except metadata.PackageNotFoundError:
            continue
    return dict(sorted(versions.items()))


def git_state(folder: Path) -> dict[str, Any] | None:
    """Return the commit of a folder, and whether tracked files have changed since.

    Code that the repository configures is never run: no hooks, no file system monitor, no content filters.

    Returns:
        `commit`, None before the first commit, and `dirty`, None if it cannot be determined. None outside of a
        repository, or without git.
    """
    listed = _git(folder, "config", "--null", "--name-only", "--get-regexp", r"^filter\..*\.(clean|process|required)$")
    filters = [name for name in (listed or "").split("\0") if name]
    off = [word for name in filters for word in ("-c", f"{name}={'false' if name.endswith('.required') else ''}")]
    status = _git(
        folder, *off, "status", "--porcelain=v2", "--branch", "--untracked-files=no", "--ignore-submodules=all"
    )
    if status is None:
        commit = _git(folder, "rev-parse", "--verify", "HEAD")
        return None if commit is None else {"commit": commit.strip(), "dirty": None}
    lines = status.splitlines()
    commit = next((line.split()[-1] for line in lines if line.startswith("# branch.oid ")), "")
    valid = re.fullmatch(r"[0-9a-f]{40,64}", commit) is not None
    return {"commit": commit if valid else None, "dirty": any(not line.startswith("#") for line in lines)}


def _git(folder: Path, *words: str) -> str | None:
    """Run git and return its output; None if it fails."""
    try:
        done = subprocess.run(
            ["git", *_QUIET, *words],
            cwd=folder,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=GIT_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.decode("utf-8", "replace") if done.returncode == 0 else None
