"""What pushes of Libraries and Spaces share: the head to push on, the changed files, and the result."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from difflib import unified_diff

from rewardharness.hub.errors import HubError, MissingRepoError
from rewardharness.hub.repository import CommitHead, Repo, Tree


@dataclass(frozen=True)
class FileChanges:
    """Changes to the files of a repository."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.changed or self.deleted)


@dataclass(frozen=True)
class Pushed:
    """Result of a push or of its dry run."""

    repo: str
    """`org/name`."""
    url: str
    """URL of the page of the repository."""
    commit: str | None
    """The commit; None for a dry run that would create one."""
    changes: FileChanges
    card: str = field(repr=False)
    """The card of the Library, or the README of the Space."""
    version: str = ""
    """Tag of the version of a Library, such as `v1.2.0`."""
    library_id: str = ""
    """Id of the published Library, which is another than that of the given one after a rebase."""
    tagged: bool = False
    """Whether this push created the tag of the version."""
    pr_url: str | None = None
    """URL of the pull request."""
    created: bool = False
    """Whether the repository is new."""
    dry_run: bool = False
    diffs: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Unified diff of each changed text by path, of a Space without its source code; empty unless this is a dry run."""
    notes: tuple[str, ...] = ()
    """Notes for the user, in sentences."""

    @property
    def nothing_to_push(self) -> bool:
        """Whether the Hub was already up to date."""
        return not self.changes


def head_for_push(repo: Repo, *, private: bool, dry_run: bool) -> tuple[CommitHead | None, bool]:
    """Return the head to push on and whether the repository is new; create it unless it exists or this is a dry run.

    Raises:
        HubError: If `private` contradicts the visibility of an existing repository, or the Hub rejects the request.
    """
    created = False
    try:
        head = repo.head()
    except MissingRepoError:
        if dry_run:
            return None, True
        repo.create(private=private)
        head, created = repo.head(), True
    if private and not head.private:
        noun = "Space" if repo.kind == "space" else "repository"
        step = f"Omit --private, or first make the {noun} private in its settings on the Hub."
        raise HubError(f"{repo.name} is public, and a push does not change the visibility.", next_step=step)
    return head, created


def file_changes(tree: Tree, files: Mapping[str, bytes], is_deleted: Callable[[str], bool]) -> FileChanges:
    """Return the changes that turn the files of a commit into those of a push.

    Args:
        tree: The files of the commit.
        files: Contents by path after the push.
        is_deleted: Decides by its path whether a file that is not pushed is deleted.
    """
    return FileChanges(
        added=tuple(sorted(path for path in files if path not in tree)),
        changed=tuple(sorted(path for path in files if path in tree and not tree[path].holds(files[path]))),
        deleted=tuple(sorted(path for path in tree if path not in files and is_deleted(path))),
    )


def text_diffs(before: Mapping[str, str], after: Mapping[str, str]) -> dict[str, str]:
    """Return the unified diffs of changed texts by path; a text that is missing on one side is empty."""
    diffs = {}
    for path in {**before, **after}:
        old, new = (text.split("\n") if text else [] for text in (before.get(path, ""), after.get(path, "")))
        diffs[path] = "\n".join(unified_diff(old, new, f"before/{path}", f"after/{path}", lineterm=""))
    return diffs
