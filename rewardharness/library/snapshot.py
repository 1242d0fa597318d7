"""Downloads the Library of a commit on the Hub."""

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
    """A commit and its Library files."""

    commit: str
    tree: Tree
    """All files of the commit."""
    files: Mapping[str, bytes]
    """Contents of the files that belong to the Library, by path."""
    library: Library | None
    """None if the commit contains no Library."""

    def text(self, path: str) -> str:
        """Return a file as text, or an empty string if it does not exist."""
        return self.files.get(path, b"").decode("utf-8", "replace")


def fetch_snapshot(repo: Repo, commit: str, tree: Tree | None = None, *, offline: bool = False) -> Snapshot:
    """Download the Library of a commit. Other files are not downloaded.

    Args:
        repo: The repository.
        commit: The commit.
        tree: The files of the commit; None to list them.
        offline: Whether to read only from the cache.

    Raises:
        LibraryError: If the Library is invalid or exceeds the size limits.
    """
    tree = repo.tree(commit) if tree is None else tree
    files = repo.download(commit, wanted_files(tree, repo.name), tree, PATTERNS, offline=offline)
    library = _load(files, f"{repo.name}@{commit[:7]}") if REGISTRY_FILE in files else None
    return Snapshot(commit, tree, files, library)


def _load(files: Mapping[str, bytes], name: str) -> Library:
    """Load a Library from copies of the files, because the Hub cache consists of links."""
    with TemporaryDirectory(prefix="rh-pull-") as scratch:
        folder = Path(scratch) / "library"
        replace_folder(folder, files)
        try:
            return Library.load(folder)
        except LibraryError as error:
            message = error.message.replace(str(folder), name)
            step = f"Choose another version: rh library versions {name.partition('@')[0]}"
            raise LibraryError(message, next_step=step) from None
