"""Decides what a push may carry and what a pull takes: which files, how large, and nothing that looks like a key."""

import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from rewardharness.errors import InputError, LibraryError, shown
from rewardharness.files import recover_folder
from rewardharness.hub.repository import Tree
from rewardharness.leaks import find_leaks
from rewardharness.library.check import check_folder
from rewardharness.library.entry import ENTRY_FILE, FOLDERS, MAX_BYTES, RUBRIC_FILE, loadable_name_problem
from rewardharness.library.folder import MAX_TOTAL, Folder
from rewardharness.library.origin import ORIGIN_FILE, Origin, read_origin
from rewardharness.library.reader import LINEAGE_FILE
from rewardharness.library.registry import MAX_BYTES as MAX_REGISTRY
from rewardharness.library.registry import MAX_ENTRIES, REGISTRY_FILE
from rewardharness.library.store import Library

CARD_FILE = "README.md"
CONFIG_FILE = "config.json"
CHART_FILE = "evolution.svg"
DOCUMENTS = ("LICENSE", "LICENSE.md", "LICENSE.txt", "NOTICE", "CHANGELOG.md")
"""Documents beside a Library that travel with it."""
PATTERNS = [
    *(REGISTRY_FILE, LINEAGE_FILE, CARD_FILE, CONFIG_FILE, *DOCUMENTS),
    *(f"{folder}/*/{name}" for folder in FOLDERS.values() for name in (ENTRY_FILE, RUBRIC_FILE)),
]
"""Patterns of what a pull takes. They also match files that lie deeper, which are not wanted."""

_ROOT = frozenset({REGISTRY_FILE, LINEAGE_FILE, CARD_FILE, CONFIG_FILE, *DOCUMENTS})
_TEXTS = frozenset({".md", ".txt", ".json", ".jsonl", ".yaml", ".yml"})
_PASSED_OVER = frozenset({".git", ".cache", ".huggingface"})
_IGNORED = frozenset(
    {ORIGIN_FILE, ".gitattributes", ".gitignore", f"{REGISTRY_FILE}.lock", CARD_FILE, CONFIG_FILE, CHART_FILE}
)
_VERSION = re.compile(r"v?(0|[1-9][0-9]{0,5})\.(0|[1-9][0-9]{0,5})\.(0|[1-9][0-9]{0,5})")

Version = tuple[int, int, int]
"""Major, minor and patch."""


@dataclass(frozen=True)
class Draft:
    """What somebody wants to push."""

    library: Library
    texts: Mapping[str, str] = field(default_factory=dict)
    """Documents beside the Library, by path."""
    card: str | None = None
    """The card as it lies in the folder; None when there is none."""
    origin: Origin | None = None
    """Where the folder came from."""
    folder: Path | None = None
    """The folder; None for a Library in memory."""

    def files(self) -> dict[str, bytes]:
        """Contents by path, without what is generated."""
        return {path: text.encode("utf-8") for path, text in {**self.texts, **self.library.files()}.items()}


@dataclass(frozen=True)
class FileChanges:
    """What a push does to the files of a repository."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.changed or self.deleted)


def wanted_files(tree: Tree, repo: str) -> frozenset[str]:
    """Choose the files of a commit that make up a Library.

    Raises:
        LibraryError: If they are too many or too large, by the sizes that the Hub states.
    """
    wanted = frozenset(path for path in tree if _is_wanted(path))
    step = "Choose another Library; this one does not keep to the limits of the format."
    if len(wanted) > 2 * MAX_ENTRIES + len(_ROOT):
        raise LibraryError(f"{repo} has {len(wanted)} files of entries.", next_step=step)
    for path in sorted(wanted):
        limit = _limit(path)
        if tree[path].size > limit:
            message = f"{path} of {repo} has {tree[path].size} bytes; at most {limit} are allowed."
            raise LibraryError(message, next_step=step)
    total = sum(tree[path].size for path in wanted)
    if total > MAX_TOTAL:
        message = f"{repo} has {total} bytes; a Library has at most {MAX_TOTAL}."
        raise LibraryError(message, next_step=step)
    return wanted


def _is_wanted(path: str) -> bool:
    parts = path.split("/")
    if len(parts) == 1:
        return path in _ROOT
    names = (ENTRY_FILE, RUBRIC_FILE)
    return (
        len(parts) == 3
        and parts[0] in FOLDERS.values()
        and parts[2] in names
        and loadable_name_problem(parts[1]) is None
    )


def _limit(path: str) -> int:
    return {REGISTRY_FILE: MAX_REGISTRY, LINEAGE_FILE: MAX_TOTAL}.get(path, MAX_BYTES)


def read_draft(source: Library | Path | Draft) -> Draft:
    """Read what is to be pushed.

    Args:
        source: A Library, its folder, or what was read before.

    Raises:
        LibraryError: If the folder holds something that must not or cannot be published: links, hidden files, code,
            files of unknown kinds, errors of the format.
    """
    if isinstance(source, Draft):
        return source
    if isinstance(source, Library):
        return Draft(source)
    recover_folder(source)
    errors = [problem for problem in check_folder(source) if problem.severity == "error"]
    if errors:
        more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
        message = f"{source}/{errors[0].place}: {errors[0].message}{more}"
        raise LibraryError(message, next_step=f"rh library check {source}")
    library, folder = Library.load(source), Folder(source)
    ours = set(library.files())
    texts = {}
    for path, _ in folder.list(_PASSED_OVER):
        if path in ours or path in _IGNORED:
            continue
        _check_kind(source, PurePosixPath(path))
        texts[path] = folder.read(path, MAX_BYTES) or ""
    return Draft(library, texts, folder.read(CARD_FILE, MAX_BYTES), read_origin(source), source)


def _check_kind(source: Path, path: PurePosixPath) -> None:
    name = f"{source}/{shown(str(path), 200)}"
    if any(part.startswith(".") for part in path.parts):
        raise LibraryError(f"{name} is a hidden file.", next_step="Move it away; hidden files are not published.")
    if path.suffix.lower() not in _TEXTS and str(path) not in DOCUMENTS:
        kinds = ", ".join(sorted(_TEXTS))
        raise LibraryError(f"{name} is of a kind that is not published.", next_step=f"Move it away. Kinds: {kinds}.")


def check_outgoing(files: Mapping[str, bytes], secret: str | None = None) -> None:
    """Make sure that nothing too large and nothing secret is about to be published.

    Args:
        files: Contents by path.
        secret: The token in use, if it is known.

    Raises:
        LibraryError: If something is; a secret itself is never in the message.
    """
    for path, data in files.items():
        if len(data) > _limit(path):
            message = f"{shown(path)} has {len(data)} bytes; at most {_limit(path)} are allowed."
            raise LibraryError(message, next_step="Shorten it.")
        leak = next(find_leaks(data.decode("utf-8", "replace"), secret), None)
        if leak is not None:
            message = f"{shown(path)}:{leak.line} holds what looks like {leak.kind}, so nothing was pushed."
            raise LibraryError(message, next_step="Remove it; if it is real, revoke it as well.")
    total = sum(map(len, files.values()))
    if total > MAX_TOTAL:
        message = f"The Library has {total} bytes; at most {MAX_TOTAL} are allowed."
        raise LibraryError(message, next_step="Make it smaller.")


def file_changes(tree: Tree, files: Mapping[str, bytes], owned: Collection[str] = ()) -> FileChanges:
    """Tell how the files of a commit become those of a push.

    What a repository holds beside its Library is left alone, unless this folder has brought it there.

    Args:
        tree: The files of the commit.
        files: Contents by path after the push.
        owned: Paths that were pulled or pushed by the folder before; those that it has no more go.
    """
    return FileChanges(
        added=tuple(sorted(path for path in files if path not in tree)),
        changed=tuple(sorted(path for path in files if path in tree and not tree[path].holds(files[path]))),
        deleted=tuple(sorted(path for path in tree if path not in files and _goes(path, tree, files, owned))),
    )


def _goes(path: str, tree: Tree, files: Mapping[str, bytes], owned: Collection[str]) -> bool:
    parts = path.split("/")
    if path in {LINEAGE_FILE, CHART_FILE} or path in owned:
        return True
    if parts[0] not in FOLDERS.values() or len(parts) < 3:
        return False
    base = f"{parts[0]}/{parts[1]}"
    if len(parts) == 3 and parts[2] in {ENTRY_FILE, RUBRIC_FILE}:
        return True
    return f"{base}/{ENTRY_FILE}" in tree and f"{base}/{ENTRY_FILE}" not in files


def parse_version(text: str) -> Version | None:
    """Read `1.2.3` or `v1.2.3`; None for anything else."""
    found = _VERSION.fullmatch(text)
    return (int(found[1]), int(found[2]), int(found[3])) if found else None


def tag_of(version: Version) -> str:
    """Name of the tag of a version, as in `v1.2.3`."""
    return "v" + ".".join(map(str, version))


def next_version(latest: Version | None, bump: str | None) -> Version:
    """Return the version after another one.

    Args:
        latest: The highest version there is; None before the first.
        bump: `patch`, `minor` or `major`; None means `patch`, and 0.1.0 for the first version.

    Raises:
        InputError: If it is none of them.
    """
    if bump not in {None, "patch", "minor", "major"}:
        raise InputError(f"{shown(str(bump))!r} is no part of a version.", next_step="Use patch, minor or major.")
    if latest is None and bump is None:
        return (0, 1, 0)
    major, minor, patch = latest or (0, 0, 0)
    if bump == "major":
        return (major + 1, 0, 0)
    return (major, minor + 1, 0) if bump == "minor" else (major, minor, patch + 1)
