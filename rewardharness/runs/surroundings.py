"""What a run runs in: versions of this package, of Python and of what it needs, and the repository it starts from."""

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
"""Longer than this a repository is not asked."""

_PACKAGE = Path(__file__).parent.parent
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_QUIET = ("--no-optional-locks", "-c", "core.fsmonitor=false", "-c", f"core.hooksPath={os.devnull}")


def surroundings(folder: Path) -> dict[str, Any]:
    """Say what a run runs in. Holds no name of a person or a machine.

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
    """Return a content id over the code and the prompts of this package: other than its version, it tells edits."""
    sources = sorted([*_PACKAGE.rglob("*.py"), *_PACKAGE.glob("prompts/*.md")])
    return content_id([[each.relative_to(_PACKAGE).as_posix(), sha256(each.read_bytes())] for each in sources])


@cache
def installed_packages() -> dict[str, str]:
    """Versions of what this package says it needs, extras included, as far as it is installed."""
    try:
        needed = metadata.requires(DISTRIBUTION) or []
    except metadata.PackageNotFoundError:  # runs from a checkout that is not installed
        needed = []
    found = {}
    for requirement in needed:
        name = _NAME.match(requirement)
        if name is None or re.search(r"extra\s*==\s*['\"]dev['\"]", requirement):
            continue
        try:
            found[name[0]] = metadata.version(name[0])
        except metadata.PackageNotFoundError:
            continue
    return dict(sorted(found.items()))


def git_state(folder: Path) -> dict[str, Any] | None:
    """Say which commit a folder is at, and whether files that git knows were changed since.

    Nothing that the repository names is run: no hooks, no file system monitor, no content filters.

    Returns:
        `commit`, None before the first; and `dirty`, None when it cannot be told. None outside of a repository, or
        where there is no git.
    """
    listed = _git(folder, "config", "--null", "--name-only", "--get-regexp", r"^filter\..*\.(clean|process|required)$")
    filters = [name for name in (listed or "").split("\0") if name]
    off = [word for name in filters for word in ("-c", f"{name}={'false' if name.endswith('.required') else ''}")]
    said = _git(folder, *off, "status", "--porcelain=v2", "--branch", "--untracked-files=no", "--ignore-submodules=all")
    if said is None:
        commit = _git(folder, "rev-parse", "--verify", "HEAD")
        return None if commit is None else {"commit": commit.strip(), "dirty": None}
    lines = said.splitlines()
    commit = next((line.split()[-1] for line in lines if line.startswith("# branch.oid ")), "")
    known = re.fullmatch(r"[0-9a-f]{40,64}", commit) is not None
    return {"commit": commit if known else None, "dirty": any(not line.startswith("#") for line in lines)}


def _git(folder: Path, *words: str) -> str | None:
    """Ask git; None when it does not answer."""
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
