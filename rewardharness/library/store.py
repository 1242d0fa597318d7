"""The Library: an immutable set of entries, loaded from a folder and saved to one."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from rewardharness.errors import LibraryError, shown
from rewardharness.files import content_id, recover_folder, replace_folder
from rewardharness.library import entry as forms
from rewardharness.library.entry import ENTRY_FILE, FOLDERS, RUBRIC_FILE, SCHEMA, Entry
from rewardharness.library.plaintext import one_line
from rewardharness.library.problems import Findings, FormatError, Problem, raise_errors
from rewardharness.library.reader import LINEAGE_FILE, Folder, json_object, read_folder, special_kind
from rewardharness.library.registry import MAX_BYTES as MAX_REGISTRY
from rewardharness.library.registry import MAX_ENTRIES, REGISTRY_FILE, Registry, print_registry, read_registry

if TYPE_CHECKING:
    from rewardharness.hub.pushing import Pushed

MAX_NAME = 80
"""Maximum displayed length of a Library's name in characters."""

BUILTIN_NAME = "builtin"
"""Name in `registry.json` of the included Library and of unnamed Libraries that were evolved from it."""


@dataclass(frozen=True)
class AddEntry:
    """Add an entry with an unused name."""

    entry: Entry
    reason: str = ""
    """Reason for the change, in a sentence."""


@dataclass(frozen=True)
class ReplaceEntry:
    """Replace the entry that has the same name and kind."""

    entry: Entry
    reason: str = ""
    """Reason for the change, in a sentence."""


@dataclass(frozen=True)
class RemoveEntry:
    """Remove an entry."""

    name: str
    reason: str = ""
    """Reason for the change, in a sentence."""


Change = AddEntry | ReplaceEntry | RemoveEntry
"""One edit of a Library."""


@dataclass(frozen=True, eq=False)
class Library:
    """An immutable set of Skills and Tools. Libraries with the same id are equal."""

    entries: tuple[Entry, ...] = ()
    """Sorted by name."""
    meta: Mapping[str, Any] = field(default_factory=dict)
    """The `library` block of the registry, such as name and status."""
    lineage_text: str = field(default="", repr=False)
    """The text of `lineage.jsonl`: one JSON object per change of the Library."""
    registry: Registry = field(default=Registry(), repr=False)
    """The source registry. Saving preserves its order, its unknown keys, and, if possible, its bytes."""
    problems: tuple[Problem, ...] = field(default=(), repr=False)
    """Warnings and notes from loading, such as invalid names and unregistered folders."""
    origin: tuple[str, str] | None = field(default=None, repr=False)
    """Hub repository and commit from which the Library was loaded. `push_to_hub` uses them as its base."""

    def __post_init__(self) -> None:
        ordered = tuple(sorted(self.entries, key=lambda entry: entry.name))
        for first, second in pairwise(ordered):
            if first.name == second.name:
                raise LibraryError(f"There are two entries named {first.name!r}.", next_step="Rename one of them.")
        object.__setattr__(self, "entries", ordered)

    @cached_property
    def id(self) -> str:
        """SHA-256 of the entries. Order, formatting, unknown keys, and the registry do not affect it."""
        return content_id([entry.canonical() for entry in self.entries])

    def __eq__(self, other: object) -> bool:
        return self.id == other.id if isinstance(other, Library) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.id)

    @cached_property
    def _by_name(self) -> Mapping[str, Entry]:
        return {entry.name: entry for entry in self.entries}

    @property
    def name(self) -> str:
        """Name of the Library from `registry.json`, on one line; empty if it has none.

        The text is untrusted. A Library that was evolved from the included one is unnamed until it gets its own name.
        """
        name = self.meta.get("id")
        line = one_line(name, MAX_NAME).strip() if isinstance(name, str) else ""
        return "" if line == BUILTIN_NAME else line

    @property
    def skills(self) -> tuple[Entry, ...]:
        """The Skills, by name."""
        return tuple(entry for entry in self.entries if entry.kind == "skill")

    @property
    def tools(self) -> tuple[Entry, ...]:
        """The Tools, by name."""
        return tuple(entry for entry in self.entries if entry.kind == "tool")

    @property
    def lineage(self) -> tuple[Mapping[str, Any], ...]:
        """The records of the lineage, oldest first. Lines that are not JSON objects are ignored."""
        return tuple(record for line in self.lineage_text.split("\n") if (record := json_object(line)) is not None)

    def __repr__(self) -> str:
        counts = f"{len(self.skills)} Skills, {len(self.tools)} Tools"
        return f"Library({shown(self.name)!r}, {counts}, id={self.id[:12]!r})"

    def _repr_html_(self) -> str:
        from rewardharness.report import Table
        from rewardharness.report_html import render_fragment

        rows = tuple((entry.name, entry.kind, entry.description) for entry in self.entries)
        return render_fragment(f"Library {self.name} {self.id[:12]}", Table(("entry", "kind", "description"), rows))

    def get(self, name: str) -> Entry | None:
        """Return the entry with a name, or None."""
        return self._by_name.get(name)

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def __len__(self) -> int:
        return len(self.entries)

    def apply(self, change: Change) -> "Library":
        """Return a copy of the Library with a change.

        Raises:
            LibraryError: If the change cannot be applied, or its entry is invalid.
        """
        name = change.name if isinstance(change, RemoveEntry) else change.entry.name
        old = self.get(name)
        if isinstance(change, AddEntry):
            self._check_new(change.entry)
        elif old is None:
            names = ", ".join(self._by_name) or "none"
            raise LibraryError(f"The Library has no entry {shown(name)!r}.", next_step=f"Entries: {names}.")
        elif isinstance(change, ReplaceEntry) and old.kind != change.entry.kind:
            raise LibraryError(f"{name!r} is a {old.kind}, not a {change.entry.kind}.", next_step="Use another name.")
        new = () if isinstance(change, RemoveEntry) else (change.entry,)
        records = {other: record for other, record in self.registry.records.items() if new or other != name}
        for entry in new:
            forms.check_entry(entry)
            records[name] = {**self.registry.record(name), **_record(entry)}
        registry = replace(self.registry, document={**self.registry.document, "entries": records})
        kept = tuple(entry for entry in self.entries if entry is not old)
        return replace(self, entries=(*kept, *new), registry=registry)

    def _check_new(self, entry: Entry) -> None:
        forms.check_name(entry.name)
        if any(name.casefold() == entry.name for name in self._by_name):
            raise LibraryError(f"An entry named {entry.name!r} already exists.", next_step="Replace or rename it.")
        if len(self) >= MAX_ENTRIES:
            raise LibraryError(f"The Library has the maximum of {MAX_ENTRIES} entries.", next_step="Remove an entry.")

    def with_lineage(self, record: Mapping[str, Any]) -> "Library":
        """Return a copy of the Library with a record appended to its lineage.

        Args:
            record: A JSON object with the id of the parent, the change, and the evidence for it.
        """
        gap = "" if self.lineage_text.endswith("\n") or not self.lineage_text else "\n"
        line = json.dumps(record, ensure_ascii=False, allow_nan=False)
        return replace(self, lineage_text=f"{self.lineage_text}{gap}{line}\n")

    @classmethod
    def load(cls, path: Path | str) -> "Library":
        """Load a Library from its folder.

        Only registered files are read, each from the path derived from its name and kind. Nothing in the folder is
        executed.

        Args:
            path: The folder that contains `registry.json`, schema 1 or 2.

        Raises:
            LibraryError: If the Library is invalid; describes the first error and the number of other errors.
        """
        path = Path(path)
        recover_folder(path)
        reading = read_folder(path)
        raise_errors(path, reading.findings.found)
        return cls(
            entries=tuple(read.entry for read in reading.entries),
            meta=reading.registry.meta,
            lineage_text=reading.lineage,
            registry=reading.registry,
            problems=tuple(reading.findings.found),
        )

    @classmethod
    def from_pretrained(cls, name: str | Path, revision: str | None = None) -> "Library":
        """Load a Library from a folder or from the Hugging Face Hub. Nothing in it is executed.

        Args:
            name: `builtin` for the included Library, a folder, or a repository: `org/name`.
            revision: A version (`v0.3.0`), a commit, or a branch of the repository; None for the newest commit.

        Raises:
            LibraryError: If the Library does not exist or is invalid.
            HubError: If the Hub rejects the request, or is unreachable and the cache contains no copy.
        """
        # By name, as in `push_to_hub`: these modules are built on this one.
        opening = import_module("rewardharness.library.opening")
        return cast(Library, opening.open_library(f"{name}@{revision}" if revision else name))

    def save_pretrained(self, path: Path | str) -> None:
        """Save the Library to a folder; see `save`."""
        self.save(path)

    def push_to_hub(
        self,
        repo_id: str,
        *,
        version: str = "",
        bump: str = "",
        private: bool = False,
        create_pr: bool = False,
        rebase: bool = False,
        dry_run: bool = False,
        token: str | None = None,
    ) -> "Pushed":
        """Publish the Library on the Hugging Face Hub as a new version: one commit, a card, and a version tag.

        Args:
            repo_id: `org/name`. The repository is created if it does not exist.
            version: The version, such as `1.2.0`; empty for the next version.
            bump: The part of the latest version to increment: `patch` (default), `minor`, or `major`.
            private: Whether a new repository is private.
            create_pr: Create a pull request instead of a commit on the main branch.
            rebase: Merge commits that were pushed after the Library was loaded.
            dry_run: Return the changes without pushing them.
            token: A Hub token; None for the stored token.

        Returns:
            The version, the commit, and the changed files.

        Raises:
            StaleError: If the repository changed after the Library was loaded.
            HubError: If the Hub rejects the request or is unreachable.
            LibraryError: If the Library is invalid, or contains files that must not be published.
        """
        hub = import_module("rewardharness.library.hub")
        base = self.origin[1] if self.origin is not None and self.origin[0] == repo_id else ""
        options = hub.PushOptions(version, bump, private, create_pr, rebase, base, dry_run)
        return cast("Pushed", hub.push(self, repo_id, options, access=replace(hub.usual_access(), token=token)))

    def files(self) -> dict[str, str]:
        """Return the text of all files of the Library by relative path, in schema 2.

        Unchanged files have exactly their original text.
        """
        texts = {REGISTRY_FILE: self._registry_text()}
        for entry in self.entries:
            texts |= {
                f"{FOLDERS[entry.kind]}/{entry.name}/{name}": text for name, text in forms.entry_files(entry).items()
            }
        return texts | ({LINEAGE_FILE: self.lineage_text} if self.lineage_text else {})

    def _registry_text(self) -> str:
        source = self.registry
        document: dict[str, Any] = {"schema_version": SCHEMA, "library": dict(self.meta)}
        if source.schema == SCHEMA:
            document = {**source.document, **document}
            if not self.meta and "library" not in source.document:
                del document["library"]
        records = {}
        for name in dict.fromkeys([*(name for name in source.records if name in self), *self._by_name]):
            entry, record = self._by_name[name], source.record(name)
            records[name] = record if record.get("kind") == entry.kind else _record(entry)
        document["entries"] = records
        old = (
            read_registry(source.source, Findings(REGISTRY_FILE)) if source.schema == SCHEMA and source.source else None
        )
        return source.source if old is not None and old.document == document else print_registry(document)

    def save(self, path: Path | str) -> None:
        """Save the Library to a folder atomically: a reader sees either the old Library or the new one.

        Entries of a previous Library in the folder are removed. Other files, such as its card, are kept.

        Args:
            path: A folder that does not exist, is empty, or contains a Library.

        Raises:
            LibraryError: If the folder contains other files, or cannot be replaced.
        """
        target, texts = Path(path).resolve(), self.files()
        files = {name: text.encode("utf-8") for name, text in texts.items()}
        write_folder(target, files, lambda: _kept_files(target, texts))


EMPTY = Library()
"""The Library without entries."""


def _record(entry: Entry) -> dict[str, Any]:
    return {"kind": entry.kind, "description": entry.description, "path": entry.path}


def _kept_files(target: Path, texts: Mapping[str, str]) -> list[str]:
    """Return the files of a folder that do not belong to its Library and are kept when a Library is saved to it."""
    if not target.exists():
        return []
    check_replaceable(target)
    if not (target / REGISTRY_FILE).exists() and any(target.iterdir()):
        message = f"{target} contains files but no Library."
        raise LibraryError(message, next_step="Choose an empty folder, a new folder, or the folder of a Library.")
    folder = Folder(target)
    try:
        old = read_registry(folder.read(REGISTRY_FILE, MAX_REGISTRY) or "{}", Findings(REGISTRY_FILE))
    except FormatError as error:
        raise LibraryError(f"{target}: {error.message}", next_step=error.next_step) from None
    bases = {f"{FOLDERS[kind]}/{name}" for name, kind in old.kinds.items()}
    removed = bases - {name.rsplit("/", 1)[0] for name in texts}
    library_files = {REGISTRY_FILE, LINEAGE_FILE, *texts}
    library_files |= {f"{base}/{name}" for base in bases for name in (ENTRY_FILE, RUBRIC_FILE)}
    kept = []
    for where, status in folder.list():
        if where in library_files or "/".join(where.split("/")[:2]) in removed:
            continue
        kind = special_kind(status.st_mode)
        if kind not in {None, "a link"}:
            raise LibraryError(f"{target}/{shown(where)} is {kind} and cannot be kept.", next_step="Move it elsewhere.")
        kept.append(where)
    return kept


def write_folder(target: Path, files: Mapping[str, bytes], kept: Callable[[], list[str]]) -> None:
    """Write the folder of a Library atomically.

    Args:
        target: The folder.
        files: Contents by path.
        kept: Returns the other files of the folder that are kept.

    Raises:
        LibraryError: If the folder cannot be written; nothing is changed.
    """
    try:
        recover_folder(target)
        replace_folder(target, files, kept=kept())
    except OSError as error:
        message = f"Could not save the Library to {target}: {error.strerror or error}. Nothing was changed."
        raise LibraryError(message, next_step="Check its permissions, or choose another folder.") from error


def check_replaceable(target: Path) -> None:
    """Check that an existing folder can be replaced as a whole.

    Raises:
        LibraryError: If it is not a folder, or contains the working directory.
    """
    if not target.is_dir():
        raise LibraryError(f"{target} is not a folder.", next_step="Choose a folder.")
    try:
        inside = Path.cwd().is_relative_to(target.resolve())
    except FileNotFoundError:
        inside = False
    if inside:
        message = f"{target} contains the working directory and cannot be replaced."
        raise LibraryError(message, next_step="Change to the parent folder and run the command there.")
