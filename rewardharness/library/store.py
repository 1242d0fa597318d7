"""The Library: an immutable set of entries, loaded from a folder and saved to one."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rewardharness.errors import LibraryError, shown
from rewardharness.files import content_id, recover_folder, replace_folder
from rewardharness.library.card_parts import one_line
from rewardharness.library.entry import (
    ENTRY_FILE,
    FOLDERS,
    RUBRIC_FILE,
    SCHEMA,
    Entry,
    check_entry,
    entry_files,
    name_problem,
)
from rewardharness.library.folder import Folder, odd_kind
from rewardharness.library.problems import Findings, FormatError, Problem
from rewardharness.library.reader import LINEAGE_FILE, read_folder
from rewardharness.library.registry import MAX_BYTES as MAX_REGISTRY
from rewardharness.library.registry import MAX_ENTRIES, REGISTRY_FILE, Registry, print_registry, read_registry

if TYPE_CHECKING:
    from rewardharness.library.hub_push import Pushed

MAX_NAME = 80
"""Characters of a Library's name that are shown, at most."""

BUILTIN_NAME = "builtin"
"""Name, in `registry.json`, of the Library that comes with the package, and of all that grew from it unnamed."""


@dataclass(frozen=True)
class AddEntry:
    """Add an entry whose name is free."""

    entry: Entry
    reason: str = ""
    """Why, in a sentence."""


@dataclass(frozen=True)
class ReplaceEntry:
    """Put an entry in the place of the one with the same name and kind."""

    entry: Entry
    reason: str = ""
    """Why, in a sentence."""


@dataclass(frozen=True)
class RemoveEntry:
    """Remove an entry."""

    name: str
    reason: str = ""
    """Why, in a sentence."""


Change = AddEntry | ReplaceEntry | RemoveEntry
"""One edit of a Library."""


@dataclass(frozen=True, eq=False)
class Library:
    """A set of Skills and Tools. Two Libraries are equal when their entries mean the same."""

    entries: tuple[Entry, ...] = ()
    """By name."""
    meta: Mapping[str, Any] = field(default_factory=dict)
    """The `library` block of the registry: what people call it, its status."""
    lineage_text: str = field(default="", repr=False)
    """The text of `lineage.jsonl`: how the Library came to be, one JSON object per line."""
    registry: Registry = field(default=Registry(), repr=False)
    """The registry that it was loaded from: saving keeps its order, its unknown keys and, if possible, its bytes."""
    problems: tuple[Problem, ...] = field(default=(), repr=False)
    """What loading met and could pass over: odd names, folders that no registry lists."""
    origin: tuple[str, str] | None = field(default=None, repr=False)
    """Repository and commit on the Hub that it was loaded from: what a later `push_to_hub` changes."""

    def __post_init__(self) -> None:
        ordered = tuple(sorted(self.entries, key=lambda entry: entry.name))
        for one, other in pairwise(ordered):
            if one.name == other.name:
                raise LibraryError(f"There are two entries named {one.name!r}.", next_step="Rename one.")
        object.__setattr__(self, "entries", ordered)

    @cached_property
    def id(self) -> str:
        """SHA-256 over what the entries mean. Order, formatting, unknown keys and the registry do not count."""
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
        """What its authors call it in `registry.json`, on one line; empty where they do not say.

        Foreign text. A Library that grew from the one that comes with the package has no name until it is given one.
        """
        called = self.meta.get("id")
        if not isinstance(called, str):
            return ""
        line = one_line(called, MAX_NAME).strip()
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
        """The records of the lineage, oldest first; lines that are no JSON object are passed over."""
        return tuple(record for line in self.lineage_text.split("\n") if isinstance(record := _json(line), dict))

    def get(self, name: str) -> Entry | None:
        """Return the entry with a name, or None."""
        return self._by_name.get(name)

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def __len__(self) -> int:
        return len(self.entries)

    def apply(self, change: Change) -> "Library":
        """Return the Library after a change.

        Raises:
            LibraryError: If the change does not fit, or its entry breaks the format.
        """
        name = change.name if isinstance(change, RemoveEntry) else change.entry.name
        old = self.get(name)
        if isinstance(change, AddEntry):
            self._check_new(change.entry)
        elif old is None:
            known = ", ".join(self._by_name) or "it is empty"
            raise LibraryError(f"The Library has no entry {shown(name)!r}.", next_step=f"Entries: {known}.")
        elif isinstance(change, ReplaceEntry) and old.kind != change.entry.kind:
            raise LibraryError(f"{name!r} is a {old.kind}, not a {change.entry.kind}.", next_step="Use another name.")
        kept = tuple(entry for entry in self.entries if entry is not old)
        if isinstance(change, RemoveEntry):
            return replace(self, entries=kept, registry=_registered(self.registry, name, None))
        check_entry(change.entry)
        registry = _registered(self.registry, name, change.entry)
        return replace(self, entries=(*kept, change.entry), registry=registry)

    def _check_new(self, entry: Entry) -> None:
        problem = name_problem(entry.name)
        if problem:
            raise LibraryError(problem, next_step="Choose a name such as `text-rendering`.")
        if any(name.casefold() == entry.name for name in self._by_name):
            raise LibraryError(f"There is already an entry named {entry.name!r}.", next_step="Replace it, or rename.")
        if len(self) >= MAX_ENTRIES:
            raise LibraryError(
                f"The Library has {MAX_ENTRIES} entries, the most there can be.", next_step="Remove one."
            )

    def with_lineage(self, record: Mapping[str, Any]) -> "Library":
        """Return the Library with one more record at the end of its lineage.

        Args:
            record: A JSON object: the parent's id, what was changed, and the evidence for it.
        """
        before = self.lineage_text
        if before and not before.endswith("\n"):
            before += "\n"
        line = json.dumps(record, ensure_ascii=False, allow_nan=False) + "\n"
        return replace(self, lineage_text=before + line)

    @classmethod
    def load(cls, path: Path | str) -> "Library":
        """Load a Library from its folder.

        Only the files that the registry lists are read, each under the path that follows from its name and kind.
        Nothing in the folder is run.

        Args:
            path: The folder that holds `registry.json`, of schema 1 or 2.

        Raises:
            LibraryError: If it breaks the format; names the first error and how many more there are.
        """
        path = Path(path)
        recover_folder(path)
        reading = read_folder(path)
        errors = [problem for problem in reading.findings.found if problem.severity == "error"]
        if errors:
            first = errors[0]
            more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
            place = f"{path}/{first.place}" if first.where else f"{path}"
            step = f"rh library check {path}" if first.where else first.remedy
            raise LibraryError(f"{place}: {first.message}{more}", next_step=step)
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
            name: `builtin` for the one that comes with the package, a folder, or a repository: `org/name`.
            revision: A version (`v0.3.0`), a commit or a branch of the repository; None for the newest commit.

        Raises:
            LibraryError: If there is no such Library, or it breaks the format.
            HubError: If the Hub refuses, or cannot be reached and the cache has no copy.
        """
        from rewardharness.library.opening import open_library

        return open_library(f"{name}@{revision}" if revision else name)

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
        """Publish the Library on the Hugging Face Hub as a new version: one commit, a card and a version tag.

        Args:
            repo_id: `org/name`. The repository is created if it does not exist.
            version: The version, as in `1.2.0`; empty for the next one.
            bump: Which part of the last version goes up: `patch` (default), `minor` or `major`.
            private: Whether a new repository is private.
            create_pr: Open a pull request instead of a commit on the main branch.
            rebase: Merge with what others have pushed since the Library was loaded.
            dry_run: Return what would change, and change nothing.
            token: A token of the Hub; None for the one of this computer.

        Returns:
            What was pushed: version, commit, changed files.

        Raises:
            StaleError: If others have pushed since the Library was loaded.
            HubError: If the Hub refuses or cannot be reached.
            LibraryError: If the Library breaks the format, or contains something that must not be published.
        """
        from rewardharness.library.hub import HowToPush, push, usual_access

        base = self.origin[1] if self.origin is not None and self.origin[0] == repo_id else ""
        how = HowToPush(version, bump, private, create_pr, rebase, base, dry_run)
        return push(self, repo_id, how, access=replace(usual_access(), token=token))

    def files(self) -> dict[str, str]:
        """Return the text of every file of the Library by relative path. Always schema 2.

        Files that nothing changed come out exactly as they were read.
        """
        texts = {REGISTRY_FILE: self._registry_text()}
        for entry in self.entries:
            for name, text in entry_files(entry).items():
                texts[f"{FOLDERS[entry.kind]}/{entry.name}/{name}"] = text
        if self.lineage_text:
            texts[LINEAGE_FILE] = self.lineage_text
        return texts

    def _registry_text(self) -> str:
        records = self.registry.records
        names = [name for name in records if name in self] + [e.name for e in self.entries if e.name not in records]
        document: dict[str, Any] = {"schema_version": SCHEMA, "library": dict(self.meta)}
        if self.registry.schema == SCHEMA:
            document = {**self.registry.document, **document}
            if not self.meta and "library" not in self.registry.document:
                del document["library"]
        document["entries"] = {name: self._record(name) for name in names}
        if self.registry.schema == SCHEMA and self.registry.source and _reads_as(self.registry.source, document):
            return self.registry.source
        return print_registry(document)

    def _record(self, name: str) -> Mapping[str, Any]:
        entry, known = self._by_name[name], self.registry.record(name)
        return known if known.get("kind") == entry.kind else _record(entry)

    def save(self, path: Path | str) -> None:
        """Save the Library to a folder, as a whole: whoever reads sees the old Library or the new one.

        Files in the folder that do not belong to a Library, such as its card, stay. Entries of the Library that
        was there before and that this one does not have go.

        Args:
            path: A folder that does not exist, is empty, or holds a Library.

        Raises:
            LibraryError: If the folder holds something else, or cannot be replaced.
        """
        target = Path(path).resolve()
        texts = self.files()
        try:
            recover_folder(target)
            kept = _kept_files(target, texts)
            replace_folder(target, {name: text.encode("utf-8") for name, text in texts.items()}, kept=kept)
        except OSError as error:
            message = f"The Library could not be saved to {target}: {error.strerror or error}. Nothing was changed."
            raise LibraryError(message, next_step="Check the folder and its mode, or save somewhere else.") from error


EMPTY = Library()
"""The Library without entries."""


def _record(entry: Entry) -> dict[str, Any]:
    return {"kind": entry.kind, "description": entry.description, "path": entry.path}


def _registered(registry: Registry, name: str, entry: Entry | None) -> Registry:
    """Return the registry with the record of one entry brought up to date, or without it."""
    records = dict(registry.records)
    if entry is None:
        records.pop(name, None)
    else:
        records[name] = {**registry.record(name), **_record(entry)}
    return replace(registry, document={**registry.document, "entries": records})


def _reads_as(source: str, document: Mapping[str, Any]) -> bool:
    """Whether a registry's text already says what a document says."""
    return read_registry(source, Findings(REGISTRY_FILE)).document == document


def _json(line: str) -> Any:
    try:
        return json.loads(line)
    except (ValueError, RecursionError):
        return None


def _kept_files(target: Path, texts: Mapping[str, str]) -> list[str]:
    """List the files of a folder that stay when a Library is saved to it: those that belong to no Library."""
    if not target.exists():
        return []
    check_replaceable(target)
    if not (target / REGISTRY_FILE).exists() and any(target.iterdir()):
        message = f"{target} holds files, and no Library."
        raise LibraryError(message, next_step="Choose an empty folder, a new one, or a Library's folder.")
    folder = Folder(target)
    try:
        old = read_registry(folder.read(REGISTRY_FILE, MAX_REGISTRY) or "{}", Findings(REGISTRY_FILE))
    except FormatError as error:
        raise LibraryError(f"{target}: {error.message}", next_step=error.next_step) from None
    bases = {f"{FOLDERS[kind]}/{name}" for name, kind in old.kinds.items()}
    gone = bases - {name.rsplit("/", 1)[0] for name in texts}
    ours = {REGISTRY_FILE, LINEAGE_FILE, *texts}
    ours |= {f"{base}/{name}" for base in bases for name in (ENTRY_FILE, RUBRIC_FILE)}
    kept = []
    for where, status in folder.list():
        if where in ours or "/".join(where.split("/")[:2]) in gone:
            continue
        kind = odd_kind(status.st_mode)
        if kind not in {None, "a link"}:
            raise LibraryError(f"{target}/{shown(where)} is {kind}.", next_step="Move it away; it cannot be kept.")
        kept.append(where)
    return kept


def check_replaceable(target: Path) -> None:
    """Make sure that a folder that exists can be replaced as a whole.

    Raises:
        LibraryError: If it is no folder, or the one that this command runs in.
    """
    if not target.is_dir():
        raise LibraryError(f"{target} is not a folder.", next_step="Choose a folder.")
    try:
        inside = Path.cwd().is_relative_to(target.resolve())
    except FileNotFoundError:
        inside = False
    if inside:
        message = f"{target} is the folder that this command runs in, and would be replaced."
        raise LibraryError(message, next_step="Go one folder up and name the Library from there.")
