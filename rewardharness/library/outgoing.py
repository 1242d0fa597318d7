"""Selects and validates the files that are pushed and pulled: types, sizes, and leaked secrets."""

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
"""Documents that are pushed and pulled with a Library."""
PATTERNS = [
    *(REGISTRY_FILE, LINEAGE_FILE, CARD_FILE, CONFIG_FILE, *DOCUMENTS),
    *(f"{folder}/*/{name}" for folder in FOLDERS.values() for name in (ENTRY_FILE, RUBRIC_FILE)),
]
"""Patterns of the files that a pull downloads. They also match nested files, which `wanted_files` excludes."""

_ROOT = frozenset({REGISTRY_FILE, LINEAGE_FILE, CARD_FILE, CONFIG_FILE, *DOCUMENTS})
_TEXTS = frozenset({".md", ".txt", ".json", ".jsonl", ".yaml", ".yml"})
_SKIPPED_FOLDERS = frozenset({".git", ".cache", ".huggingface"})
_IGNORED = frozenset(
    {ORIGIN_FILE, ".gitattributes", ".gitignore", f"{REGISTRY_FILE}.lock", CARD_FILE, CONFIG_FILE, CHART_FILE}
)
_VERSION = re.compile(r"v?(0|[1-9][0-9]{0,5})\.(0|[1-9][0-9]{0,5})\.(0|[1-9][0-9]{0,5})")

Version = tuple[int, int, int]
"""Major, minor and patch."""


@dataclass(frozen=True)
class Draft:
    """Content to push."""

    library: Library
    texts: Mapping[str, str] = field(default_factory=dict)
    """Documents in the folder of the Library, by path."""
    card: str | None = None
    """The card in the folder; None if it does not exist."""
    origin: Origin | None = None
    """Origin of the folder."""
    folder: Path | None = None
    """The folder; None for a Library in memory."""

    def files(self) -> dict[str, bytes]:
        """Return the contents by path, without generated files."""
        return {path: text.encode("utf-8") for path, text in {**self.texts, **self.library.files()}.items()}


@dataclass(frozen=True)
class FileChanges:
    """Changes to the files of a repository."""

    added: tuple[str, ...] = ()
    changed: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.added or self.changed or self.deleted)


def wanted_files(tree: Tree, repo: str) -> frozenset[str]:
    """Return the files of a commit that belong to its Library.

    Raises:
        LibraryError: If there are too many files or they are too large, according to the Hub.
    """
    wanted = frozenset(path for path in tree if _is_wanted(path))
    step = "Choose another Library; this one exceeds the limits of the format."
    if len(wanted) > 2 * MAX_ENTRIES + len(_ROOT):
        raise LibraryError(f"{repo} has too many entry files ({len(wanted)}).", next_step=step)
    for path in sorted(wanted):
        limit = _limit(path)
        if tree[path].size > limit:
            message = f"{path} of {repo} has {tree[path].size} bytes; the limit is {limit}."
            raise LibraryError(message, next_step=step)
    total = sum(tree[path].size for path in wanted)
    if total > MAX_TOTAL:
        message = f"{repo} has {total} bytes; the limit is {MAX_TOTAL}."
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
    """Read the content to push.

    Args:
        source: A Library, its folder, or a draft.

    Raises:
        LibraryError: If the Library is invalid, or the folder contains links, hidden files, code, or other files that
            cannot be published.
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
    library_files = set(library.files())
    texts = {}
    for path, _ in folder.list(_SKIPPED_FOLDERS):
        if path in library_files or path in _IGNORED:
            continue
        _check_kind(source, PurePosixPath(path))
        texts[path] = folder.read(path, MAX_BYTES) or ""
    return Draft(library, texts, folder.read(CARD_FILE, MAX_BYTES), read_origin(source), source)


def _check_kind(source: Path, path: PurePosixPath) -> None:
    name = f"{source}/{shown(str(path), 200)}"
    if any(part.startswith(".") for part in path.parts):
        raise LibraryError(f"{name} is a hidden file.", next_step="Move it elsewhere; hidden files are not published.")
    if path.suffix.lower() not in _TEXTS and str(path) not in DOCUMENTS:
        kinds = ", ".join(sorted(_TEXTS))
        raise LibraryError(
            f"{name} has a file type that is not published.", next_step=f"Move it elsewhere. Published types: {kinds}."
        )


def check_outgoing(files: Mapping[str, bytes], secret: str | None = None) -> None:
    """Check that the files to publish are within the size limits and contain no secrets.

    Args:
        files: Contents by path.
        secret: The token in use, if known.

    Raises:
        LibraryError: If the check fails. The message never contains the secret.
    """
    for path, data in files.items():
        if len(data) > _limit(path):
            message = f"{shown(path)} has {len(data)} bytes; the limit is {_limit(path)}."
            raise LibraryError(message, next_step="Shorten it.")
        leak = next(find_leaks(data.decode("utf-8", "replace"), secret), None)
        if leak is not None:
            message = f"{shown(path)}:{leak.line} seems to contain {leak.kind}; nothing was pushed."
            raise LibraryError(message, next_step="Remove it. If it is a real secret, revoke it.")
    total = sum(map(len, files.values()))
    if total > MAX_TOTAL:
        message = f"The Library has {total} bytes; the limit is {MAX_TOTAL}."
        raise LibraryError(message, next_step="Reduce the size of the Library.")


def file_changes(tree: Tree, files: Mapping[str, bytes], owned: Collection[str] = ()) -> FileChanges:
    """Return the changes that turn the files of a commit into those of a push.

    Files that do not belong to the Library are kept, unless the same folder pushed or pulled them before.

    Args:
        tree: The files of the commit.
        files: Contents by path after the push.
        owned: Paths that the folder pulled or pushed before; they are deleted if the folder no longer contains them.
    """
    return FileChanges(
        added=tuple(sorted(path for path in files if path not in tree)),
        changed=tuple(sorted(path for path in files if path in tree and not tree[path].holds(files[path]))),
        deleted=tuple(sorted(path for path in tree if path not in files and _is_deleted(path, tree, files, owned))),
    )


def _is_deleted(path: str, tree: Tree, files: Mapping[str, bytes], owned: Collection[str]) -> bool:
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
    """Parse `1.2.3` or `v1.2.3`; return None for any other text."""
    match = _VERSION.fullmatch(text)
    return (int(match[1]), int(match[2]), int(match[3])) if match else None


def tag_of(version: Version) -> str:
    """Return the tag of a version, such as `v1.2.3`."""
    return "v" + ".".join(map(str, version))


def next_version(latest: Version | None, bump: str | None) -> Version:
    """Return the next version.

    Args:
        latest: The latest version; None if there is none.
        bump: `patch`, `minor`, or `major`. None is `patch`, or 0.1.0 for the first version.

    Raises:
        InputError: If `bump` has another value.
    """
    if bump not in {None, "patch", "minor", "major"}:
        raise InputError(f"{shown(str(bump))!r} is not a part of a version.", next_step="Use patch, minor, or major.")
    if latest is None and bump is None:
        return (0, 1, 0)
    major, minor, patch = latest or (0, 0, 0)
    if bump == "major":
        return (major + 1, 0, 0)
    return (major, minor + 1, 0) if bump == "minor" else (major, minor, patch + 1)
