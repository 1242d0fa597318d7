"""Reads the Library that a commit on the Hub holds."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory

from rewardharness.errors import LibraryError
from rewardharness.files import replace_folder
from rewardharness.hub.repository import Repo, Tree
from rewardharness.library.outgoing import PATTERNS, wanted_files
from rewardharness.library.registry import REGISTRY_FILE
from rewardharness.library.store import Library


@dataclass(frozen=True)
class Snapshot:
    """A commit, and what belongs to the Library in it."""

    commit: str
    tree: Tree
    """All files of the commit."""
    files: Mapping[str, bytes]
    """Contents of those that belong to the Library, by path."""
    library: Library | None
    """None when the commit holds none."""

    def text(self, path: str) -> str:
        """A file as text; empty when there is none."""
        return self.files.get(path, b"").decode("utf-8", "replace")


def fetch_snapshot(repo: Repo, commit: str, tree: Tree | None = None, *, offline: bool = False) -> Snapshot:
    """Fetch the Library of a commit. Only its own kinds of files are fetched, within its limits.

    Args:
        repo: The repository.
        commit: The commit.
        tree: Its files, where they are known.
        offline: Whether to take everything from the cache.

    Raises:
        LibraryError: If it breaks the format or the limits.
    """
    tree = repo.tree(commit) if tree is None else tree
    files = repo.download(commit, wanted_files(tree, repo.name), tree, PATTERNS, offline=offline)
    library = _load(files, f"{repo.name}@{commit[:7]}") if REGISTRY_FILE in files else None
    return Snapshot(commit, tree, files, library)


def _load(files: Mapping[str, bytes], name: str) -> Library:
    """Load a Library from real files of its own: the cache of the Hub is made of links."""
    with TemporaryDirectory(prefix="rh-pull-") as scratch:
        folder = Path(scratch) / "library"
        replace_folder(folder, files)
        try:
            return Library.load(folder)
        except LibraryError as error:
            message = error.message.replace(str(folder), name)
            step = f"Choose another version: rh library versions {name.partition('@')[0]}"
            raise LibraryError(message, next_step=step) from None
