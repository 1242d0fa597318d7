"""Files of a Library in a repository on the Hub: which are pulled and pushed, their limits, and their origin.

The origin of a folder is stored in its file `.rh-origin.json`, so that a later push can determine what changed. This
file is never pushed.
"""

import json
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from typing import Annotated

from msgspec import Meta

from rewardharness.codec import Sha256, from_json, to_json
from rewardharness.errors import HarnessError, InputError, LibraryError, shell, shown
from rewardharness.files import recover_folder, replace_folder, sha256, write_json
from rewardharness.hub import pushing
from rewardharness.hub.pushing import FileChanges
from rewardharness.hub.repository import Repo, Tree
from rewardharness.leaks import find_leaks
from rewardharness.library.card import CARD_FILE, CHART_FILE, CONFIG_FILE, GENERATED
from rewardharness.library.check import SKIPPED_FOLDERS, check_folder
from rewardharness.library.entry import ENTRY_FILE, FOLDERS, MAX_BYTES, RUBRIC_FILE, loadable_name_problem
from rewardharness.library.problems import FormatError, raise_errors
from rewardharness.library.reader import LINEAGE_FILE, MAX_TOTAL, Folder, special_kind
from rewardharness.library.registry import MAX_BYTES as MAX_REGISTRY
from rewardharness.library.registry import MAX_ENTRIES, REGISTRY_FILE
from rewardharness.library.store import Library, check_replaceable, write_folder

ORIGIN_FILE = ".rh-origin.json"
MAX_ORIGIN = 4 * 1024 * 1024
"""Maximum size of the origin file, and of a file whose changes are noticed, in bytes."""
DOCUMENTS = ("LICENSE", "LICENSE.md", "LICENSE.txt", "NOTICE", "CHANGELOG.md")
"""Documents that are pushed and pulled with a Library."""
_ROOT = (REGISTRY_FILE, LINEAGE_FILE, CARD_FILE, CONFIG_FILE, *DOCUMENTS)
_PATTERNS = [*_ROOT, *(f"{folder}/*/{name}" for folder in FOLDERS.values() for name in (ENTRY_FILE, RUBRIC_FILE))]
"""Patterns of the files that a pull downloads. They also match nested files, which `wanted_files` excludes."""
_TEXTS = frozenset({".md", ".txt", ".json", ".jsonl", ".yaml", ".yml"})
_IGNORED = frozenset({ORIGIN_FILE, ".gitattributes", ".gitignore", f"{REGISTRY_FILE}.lock", *GENERATED})
_VERSION = re.compile(r"v?(0|[1-9][0-9]{0,5})\.(0|[1-9][0-9]{0,5})\.(0|[1-9][0-9]{0,5})")

Version = tuple[int, int, int]
"""Major, minor and patch."""


@dataclass(frozen=True)
class Origin:
    """Origin of a folder."""

    repo: str
    """`org/name`."""
    commit: Annotated[str, Meta(pattern="^[0-9a-f]{40}$")]
    """The commit that was last pulled or pushed."""
    version: str | None = None
    """The version of that commit, such as `v1.2.0`, if any."""
    files: Mapping[str, Sha256] = field(default_factory=dict)
    """SHA-256 of each file at that commit, by path."""


@dataclass(frozen=True)
class Upload:
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
        LibraryError: If the Library is invalid or exceeds the size limits, which is checked before the download.
    """
    tree = repo.tree(commit) if tree is None else tree
    wanted = frozenset(path for path in tree if _is_wanted(path))
    step = "Choose another Library; this one exceeds the limits of the format."
    if len(wanted) > 2 * MAX_ENTRIES + len(_ROOT):
        raise LibraryError(f"{repo.name} has too many entry files ({len(wanted)}).", next_step=step)
    _check_sizes({path: tree[path].size for path in wanted}, repo.name, step)
    files = repo.download(commit, wanted, tree, _PATTERNS, offline=offline)
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
            step = f"Choose another version: {shell('rh library versions {}', name.partition('@')[0])}"
            raise LibraryError(message, next_step=step) from None


def _is_wanted(path: str) -> bool:
    folder, name, file = (*path.split("/"), "", "")[:3]
    inside = file in {ENTRY_FILE, RUBRIC_FILE} and path.count("/") == 2
    return path in _ROOT or (inside and folder in FOLDERS.values() and loadable_name_problem(name) is None)


def _check_sizes(sizes: Mapping[str, int], name: str, step: str) -> None:
    limits = {REGISTRY_FILE: MAX_REGISTRY, LINEAGE_FILE: MAX_TOTAL}
    for path, size in sorted(sizes.items()):
        limit = limits.get(path, MAX_BYTES)
        if size > limit:
            raise LibraryError(f"{shown(path)} of {name} has {size} bytes; the limit is {limit}.", next_step=step)
    total = sum(sizes.values())
    if total > MAX_TOTAL:
        raise LibraryError(f"{name} has {total} bytes; the limit is {MAX_TOTAL}.", next_step=step)


def read_draft(source: Library | Path | Upload) -> Upload:
    """Read the content to push.

    Args:
        source: A Library, its folder, or a draft.

    Raises:
        LibraryError: If the Library is invalid, or the folder contains links, hidden files, code, or other files that
            cannot be published.
    """
    if not isinstance(source, Path):
        return Upload(source) if isinstance(source, Library) else source
    recover_folder(source)
    raise_errors(source, check_folder(source))
    library, folder = Library.load(source), Folder(source)
    unlisted = {*library.files(), *_IGNORED}
    texts = {}
    for path, _ in folder.list(SKIPPED_FOLDERS):
        if path in unlisted:
            continue
        name = f"{source}/{shown(path, 200)}"
        if path.startswith(".") or "/." in path:
            step = "Move it elsewhere; hidden files are not published."
            raise LibraryError(f"{name} is a hidden file.", next_step=step)
        if PurePosixPath(path).suffix.lower() not in _TEXTS and path not in DOCUMENTS:
            step = f"Move it elsewhere. Published types: {', '.join(sorted(_TEXTS))}."
            raise LibraryError(f"{name} has a file type that is not published.", next_step=step)
        texts[path] = folder.read(path, MAX_BYTES) or ""
    return Upload(library, texts, folder.read(CARD_FILE, MAX_BYTES), read_origin(source), source)


def check_outgoing(files: Mapping[str, bytes], secret: str | None = None) -> None:
    """Check that the files to publish are within the size limits and contain no secrets.

    Args:
        files: Contents by path.
        secret: The token in use, if known.

    Raises:
        LibraryError: If the check fails. The message never contains the secret.
    """
    _check_sizes({path: len(data) for path, data in files.items()}, "the Library", "Shorten it.")
    for path, data in files.items():
        leak = next(find_leaks(data.decode("utf-8", "replace"), secret), None)
        if leak is not None:
            message = f"{shown(path)}:{leak.line} seems to contain {leak.kind}; nothing was pushed."
            raise LibraryError(message, next_step="Remove it. If it is a real secret, revoke it.")


def file_changes(tree: Tree, files: Mapping[str, bytes], owned: Collection[str] = ()) -> FileChanges:
    """Return the changes that turn the files of a commit into those of a push.

    Files that do not belong to the Library are kept, unless the same folder pushed or pulled them before.

    Args:
        tree: The files of the commit.
        files: Contents by path after the push.
        owned: Paths that the folder pulled or pushed before; they are deleted if the folder no longer contains them.
    """

    def is_deleted(path: str) -> bool:
        if path in {LINEAGE_FILE, CHART_FILE} or path in owned:
            return True
        folder, name, inside = (*path.split("/", 2), "", "")[:3]
        entry = f"{folder}/{name}/{ENTRY_FILE}"
        is_removed = entry in tree and entry not in files
        return folder in FOLDERS.values() and (is_removed or inside in {ENTRY_FILE, RUBRIC_FILE})

    return pushing.file_changes(tree, files, is_deleted)


def parse_version(text: str) -> Version | None:
    """Parse `1.2.3` or `v1.2.3`; return None for any other text."""
    match = _VERSION.fullmatch(text)
    return (int(match[1]), int(match[2]), int(match[3])) if match else None


def tag_of(version: Version) -> str:
    """Return the tag of a version, such as `v1.2.3`."""
    return "v" + ".".join(map(str, version))


def version_commits(tags: Mapping[str, str]) -> dict[Version, str]:
    """Return the commits of those tags that are versions."""
    return {version: commit for tag, commit in tags.items() if (version := parse_version(tag))}


def next_version(latest: Version | None, bump: str) -> Version:
    """Return the next version.

    Args:
        latest: The latest version; None if there is none.
        bump: `patch`, `minor`, or `major`. Empty is `patch`, or 0.1.0 for the first version.

    Raises:
        InputError: If `bump` has another value.
    """
    major, minor, patch = latest or (0, 0, 0)
    following = {"": (major, minor, patch + 1), "minor": (major, minor + 1, 0), "major": (major + 1, 0, 0)}
    if bump not in {*following, "patch"}:
        raise InputError(f"{shown(bump)!r} is not a part of a version.", next_step="Use patch, minor, or major.")
    return (0, 1, 0) if latest is None and not bump else following.get(bump, following[""])


def read_origin(folder: Path) -> Origin | None:
    """Return the origin of a folder, or None if it is not recorded or invalid."""
    try:
        return from_json(Origin, json.loads(Folder(folder).read(ORIGIN_FILE, MAX_ORIGIN) or "null"))
    except (HarnessError, ValueError, RecursionError):
        return None


def write_origin(folder: Path, origin: Origin) -> None:
    """Record the origin of a folder."""
    write_json(folder / ORIGIN_FILE, to_json(origin))


def put_in_place(folder: Path, files: Mapping[str, bytes], origin: Origin) -> None:
    """Write a pulled Library to a folder atomically.

    A folder that was pulled from the same repository and has no local changes is updated. Other files in it are kept.

    Args:
        folder: A folder that does not exist, is empty, or was pulled from the same repository.
        files: Contents by path.
        origin: Origin of the files.

    Raises:
        LibraryError: If local changes would be lost, or the folder cannot be written.
    """
    files = {**files, ORIGIN_FILE: (json.dumps(to_json(origin), indent=2) + "\n").encode("utf-8")}
    write_folder(folder, files, lambda: [name for name in _kept(folder, origin) if name not in files])


def _kept(folder: Path, origin: Origin) -> list[str]:
    """Return the files that are kept when a folder is updated."""
    if not folder.exists():
        return []
    check_replaceable(folder)
    if not any(folder.iterdir()):
        return []
    previous = read_origin(folder)
    if previous is None or previous.repo != origin.repo:
        step = "Choose a folder that is empty or does not exist."
        raise LibraryError(f"{folder} contains files that were not pulled from {origin.repo}.", next_step=step)
    changed = [name for name in previous.files if sha_of(folder, name) != previous.files[name]]
    kept = []
    for name, status in Folder(folder).list():
        if name == ORIGIN_FILE or name in previous.files:
            continue
        if special_kind(status.st_mode) not in {None, "a link"}:
            raise LibraryError(f"{folder}/{name} is not a file and cannot be kept.", next_step="Move it elsewhere.")
        if name.startswith(("skills/", "tools/")):
            changed.append(name)
        kept.append(name)
    if changed:
        message = f"{folder} has changes that were not pushed: {', '.join(changed[:5])}."
        raise LibraryError(message, next_step="Push them with --rebase, or pull to another folder with --to.")
    return kept


def sha_of(folder: Path, name: str) -> str | None:
    """Return the SHA-256 of a regular file of a folder, or None if it does not exist."""
    try:
        text = Folder(folder).read(name, MAX_ORIGIN)
    except FormatError:
        return None
    return None if text is None else sha256(text.encode("utf-8"))
