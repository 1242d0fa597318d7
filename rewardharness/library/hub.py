"""Libraries on the Hugging Face Hub: pull one, push one, list its versions."""

from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path

from rewardharness.errors import LibraryError, shown
from rewardharness.files import sha256
from rewardharness.hub.errors import HubError, MissingRevisionError, UnreachableError
from rewardharness.hub.repository import MAIN, Access, Repo, is_commit, split_spec
from rewardharness.library.card import known_facts, read_config
from rewardharness.library.hub_push import ConflictError, HowToPush, Pushed, StaleError, push
from rewardharness.library.origin import Origin, put_in_place
from rewardharness.library.outgoing import CARD_FILE, CONFIG_FILE, DOCUMENTS, Draft, parse_version, tag_of
from rewardharness.library.registry import REGISTRY_FILE
from rewardharness.library.snapshot import Snapshot, fetch_snapshot
from rewardharness.library.store import Library
from rewardharness.settings import Settings

__all__ = [
    "Access",
    "ConflictError",
    "HowToPush",
    "HubError",
    "PublishedVersion",
    "Pulled",
    "Pushed",
    "StaleError",
    "UnreachableError",
    "pull",
    "pull_spec",
    "push",
    "restoration",
    "split_spec",
    "usual_access",
    "versions",
]


@dataclass(frozen=True)
class Pulled:
    """A Library that came from the Hub."""

    repo: str
    """`org/name`."""
    commit: str
    """The commit that it is."""
    version: str | None
    """The version of that commit, as in `v1.2.0`; None when it has none, or offline when it was not asked for by it."""
    library: Library = field(repr=False)
    offline: bool = False
    """Whether the Hub could not be asked, so that this is the last copy of the cache and may be old."""
    folder: Path | None = None
    """Where it was written; None when no folder was asked for."""
    notes: tuple[str, ...] = ()
    """What a user should know, in sentences."""
    card: str = field(default="", repr=False)
    """The card as it is published, with its header; empty when there is none. Foreign text."""


@dataclass(frozen=True)
class PublishedVersion:
    """One version of a Library on the Hub."""

    tag: str
    """As in `v1.2.0`."""
    commit: str
    date: datetime | None
    """When its commit was made; None when the Hub does not say."""
    message: str
    """Title of its commit; foreign text."""


def usual_access(settings: Settings | None = None) -> Access:
    """Return how the environment says that the Hub is reached. The token stays with its client."""
    settings = settings or Settings.from_env()
    return Access(endpoint=settings.hub_endpoint, cache=settings.hub_cache)


def pull_spec(spec: str, *, to: Path | None = None, access: Access | None = None) -> Pulled | None:
    """Pull what `org/name` or `org/name@revision` names; None when it is neither. See `pull`."""
    found = split_spec(spec)
    return None if found is None else pull(*found, to=to, access=access)


def pull(repo: str, revision: str | None = None, *, to: Path | None = None, access: Access | None = None) -> Pulled:
    """Fetch a Library from the Hub. Nothing of it is run; files that belong to no Library are not fetched.

    Args:
        repo: `org/name`.
        revision: A version (`v1.2.0`), a commit or a branch; None for the newest commit.
        to: Folder to write it to; it remembers where it came from. None: only the value is made.
        access: How the Hub is reached; None for the way that the environment says.

    Raises:
        HubError: If the Hub refuses, or cannot be asked and the cache holds no copy.
        LibraryError: If the Library breaks the format or the limits, or the folder holds changes.
    """
    door = Repo(repo, access or usual_access())
    asked = revision or MAIN
    found, offline, tags = _find(door, asked)
    version = next((tag for tag, commit in tags.items() if commit == found.commit and tag == asked), None)
    if version is None:
        known = [number for tag, commit in tags.items() if commit == found.commit and (number := parse_version(tag))]
        version = tag_of(max(known)) if known else None
    if offline and parse_version(asked):
        version = asked
    if found.library is None:
        message = f"{repo} at {found.commit[:7]} holds no Library: there is no {REGISTRY_FILE}."
        raise LibraryError(message, next_step="Name a repository that holds one.")
    notes = _notes(found, asked, repo, offline=offline)
    if to is not None:
        files = {path: data for path, data in found.files.items() if _is_text(data)}
        digests = {path: sha256(data) for path, data in files.items()}
        put_in_place(to, files, Origin(repo, found.commit, version, digests))
    return Pulled(repo, found.commit, version, found.library, offline, to, notes, found.text(CARD_FILE))


def versions(repo: str, *, access: Access | None = None) -> tuple[PublishedVersion, ...]:
    """List the versions of a Library on the Hub, newest first.

    Raises:
        HubError: If the Hub refuses or cannot be reached.
    """
    door = Repo(repo, access or usual_access())
    tags = {tag: commit for tag, commit in door.tags().items() if parse_version(tag)}
    history = {each.commit: each for each in door.history()}
    found = []
    for tag in sorted(tags, key=lambda tag: parse_version(tag) or (), reverse=True):
        commit = tags[tag]
        past = history.get(commit) or next(iter(door.history(tag)), None)
        found.append(PublishedVersion(tag, commit, past.date if past else None, past.title if past else ""))
    return tuple(found)


def restoration(
    repo: str, version: str, how: HowToPush | None = None, *, access: Access | None = None
) -> tuple[Draft, HowToPush]:
    """Return what `push` takes to publish an old version once more, as a new commit on the newest one.

    Entries, lineage, documents, hand-written words of the card and figures of evaluations are those of that version.

    Args:
        repo: `org/name`.
        version: The version, as in `v1.2.0`, or another revision.
        how: What the push is to do.
        access: How the Hub is reached.

    Raises:
        HubError: If the Hub refuses or cannot be reached.
        LibraryError: If there is no Library, or it breaks the format.
    """
    door = Repo(repo, access or usual_access())
    at = fetch_snapshot(door, door.head(version).commit)
    if at.library is None:
        raise LibraryError(f"{repo}@{version} holds no Library.", next_step=f"rh library versions {repo}")
    newer = dict.fromkeys((path for path in door.tree(door.head().commit) if path in DOCUMENTS), "")
    texts = {path: at.text(path) for path in DOCUMENTS if path in at.files}
    facts = known_facts(read_config(at.text(CONFIG_FILE)), at.library)
    draft = Draft(at.library, texts, at.text(CARD_FILE) or None, Origin(repo, at.commit, version, newer))
    return draft, replace(how or HowToPush(), base=MAIN, facts=facts)


def _find(door: Repo, asked: str) -> tuple[Snapshot, bool, dict[str, str]]:
    """Fetch what a revision names: its snapshot, whether from the cache alone, and the tags of the repository."""
    if is_commit(asked):
        kept = door.cached(asked)
        if kept is not None:  # a commit never changes: there is nothing to ask
            try:
                return fetch_snapshot(door, *kept, offline=True), False, {}
            except UnreachableError:
                pass  # an earlier download was interrupted
    try:
        head = door.head(asked)
        tags = dict(door.tags())
    except MissingRevisionError as error:
        known = [tag for tag in door.tags() if parse_version(tag)]
        listed = f"Versions: {', '.join(shown(tag, 20) for tag in known[-10:])}." if known else error.next_step
        raise MissingRevisionError(error.message, next_step=listed, status=404) from None
    except UnreachableError as error:
        return _last_copy(door, asked, error), True, {}
    found = fetch_snapshot(door, head.commit)
    if not is_commit(asked):
        door.remember(asked)
    return found, False, tags


def _last_copy(door: Repo, asked: str, reason: UnreachableError) -> Snapshot:
    kept = door.cached(asked)
    if kept is not None:
        try:
            return fetch_snapshot(door, *kept, offline=True)
        except UnreachableError:
            pass  # only a part of it was ever downloaded
    message = f"{reason.message} The cache holds no whole copy of {door.name}@{asked}."
    raise UnreachableError(message, next_step=reason.next_step, status=reason.status)


def _notes(found: Snapshot, asked: str, repo: str, *, offline: bool) -> tuple[str, ...]:
    """Say what a user should know.

    Raises:
        LibraryError: If a published version is not the Library that it says it is.
    """
    assert found.library is not None
    notes = []
    if offline:
        notes.append(f"OFFLINE: the Hub cannot be reached; {repo} is the last copy, commit {found.commit[:7]}.")
    stated = read_config(found.text(CONFIG_FILE)).library_id
    if stated and stated != found.library.id:
        message = f"{repo} at {found.commit[:7]} is not the Library that its {CONFIG_FILE} names"
        if parse_version(asked):
            step = f"Choose another version (rh library versions {repo}), or name the commit to take it all the same."
            raise LibraryError(f"{message}, although it is published as {asked}.", next_step=step)
        notes.append(f"{message}: its entries were changed by other means than a push.")
    left = [path for path in found.tree if path not in found.files and path not in _KNOWN]
    if left:
        names = ", ".join(shown(path, 60) for path in sorted(left)[:5])
        notes.append(f"{len(left)} files of {repo} belong to no Library and were not fetched: {names}.")
    return tuple(notes)


_KNOWN = frozenset({".gitattributes", ".gitignore", "evolution.svg"})


def _is_text(data: bytes) -> bool:
    try:
        data.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True
