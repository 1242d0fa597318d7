"""Pulls, pushes, and lists the versions of Libraries on the Hugging Face Hub."""

import logging
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import islice
from pathlib import Path
from typing import Any, Literal

from rewardharness.codec import finite
from rewardharness.errors import LibraryError, shell, shown
from rewardharness.files import sha256
from rewardharness.hub.errors import Context, HubError, MissingRevisionError, UnreachableError, client, translated
from rewardharness.hub.pushing import Pushed
from rewardharness.hub.repository import MAIN, Access, Repo, is_commit, is_repo, split_spec
from rewardharness.library import hub_files
from rewardharness.library.card import CARD_FILE, CHART_FILE, CONFIG_FILE, LIBRARY_TAG, known_facts, read_config
from rewardharness.library.hub_files import Origin, Snapshot, Upload, fetch_snapshot, parse_version
from rewardharness.library.hub_push import ConflictError, PushOptions, StaleError, push
from rewardharness.library.registry import REGISTRY_FILE
from rewardharness.library.store import Library
from rewardharness.settings import Settings

__all__ = ["Access", "ConflictError", "HubError", "PushOptions", "Pushed", "StaleError"]
__all__ += ["UnreachableError", "push", "split_spec"]


@dataclass(frozen=True)
class Pulled:
    """A Library from the Hub."""

    repo: str
    """`org/name`."""
    commit: str
    """Commit of the Library."""
    version: str | None
    """Version of that commit, such as `v1.2.0`; None if it has none, or if it is unknown because the Hub is offline."""
    library: Library = field(repr=False)
    offline: bool = False
    """Whether the Hub was unreachable, so that this is the cached copy and may be outdated."""
    folder: Path | None = None
    """Folder to which the Library was written, if requested."""
    notes: tuple[str, ...] = ()
    """Warnings for the user, in sentences."""
    card: str = field(default="", repr=False)
    """The published card with its header; empty if there is none. The text is untrusted."""


@dataclass(frozen=True)
class PublishedVersion:
    """One version of a Library on the Hub."""

    tag: str
    """Name of the tag, such as `v1.2.0`."""
    commit: str
    date: datetime | None
    """Date of the commit; None if unknown."""
    message: str
    """Title of the commit. The text is untrusted."""


def usual_access(settings: Settings | None = None) -> Access:
    """Return the access settings from the environment. The Hub client reads the token itself."""
    settings = settings or Settings.from_env()
    return Access(endpoint=settings.hub_endpoint, cache=settings.hub_cache)


def pull_spec(spec: str, *, to: Path | None = None) -> Pulled | None:
    """Pull `org/name` or `org/name@revision`; return None for any other spec. See `pull`."""
    parts = split_spec(spec)
    return None if parts is None else pull(*parts, to=to)


def pull(repo: str, revision: str | None = None, *, to: Path | None = None, access: Access | None = None) -> Pulled:
    """Download a Library from the Hub. Nothing in it is executed, and other files are not downloaded.

    Args:
        repo: `org/name`.
        revision: A version (`v1.2.0`), a commit, or a branch; None for the newest commit.
        to: Folder to which the Library and its origin are written; None to write no files.
        access: Access settings; None for those of the environment.

    Raises:
        HubError: If the Hub rejects the request, or is unreachable and the cache contains no copy.
        LibraryError: If the Library is invalid or too large, or the folder has local changes.
    """
    hub = Repo(repo, access or usual_access())
    revision = revision or MAIN
    snapshot, offline, tags = _find(hub, revision)
    version: str | None = revision
    if tags.get(revision) != snapshot.commit and not (offline and parse_version(revision)):
        numbers = [number for number, commit in hub_files.version_commits(tags).items() if commit == snapshot.commit]
        version = hub_files.tag_of(max(numbers)) if numbers else None
    if snapshot.library is None:
        message = f"{repo} at {snapshot.commit[:7]} contains no Library: {REGISTRY_FILE} does not exist."
        raise LibraryError(message, next_step="Choose a repository that contains a Library.")
    notes = _notes(snapshot, revision, repo, offline=offline)
    if to is not None:
        files = {path: data for path, data in snapshot.files.items() if data.decode("utf-8", "ignore").encode() == data}
        digests = {path: sha256(data) for path, data in files.items()}
        hub_files.put_in_place(to, files, Origin(repo, snapshot.commit, version, digests))
    return Pulled(repo, snapshot.commit, version, snapshot.library, offline, to, notes, snapshot.text(CARD_FILE))


def versions(repo: str, *, access: Access | None = None) -> tuple[PublishedVersion, ...]:
    """Return the versions of a Library on the Hub, newest first.

    Raises:
        HubError: If the Hub rejects the request or is unreachable.
    """
    hub = Repo(repo, access or usual_access())
    tags = hub.tags()
    history = {entry.commit: entry for entry in hub.history()}
    published = []
    for tag in sorted(filter(parse_version, tags), key=lambda tag: parse_version(tag) or (), reverse=True):
        commit = tags[tag]
        entry = history.get(commit) or next(iter(hub.history(tag)), None)
        published.append(PublishedVersion(tag, commit, entry.date if entry else None, entry.title if entry else ""))
    return tuple(published)


def restoration(
    repo: str, version: str, options: PushOptions | None = None, *, access: Access | None = None
) -> tuple[Upload, PushOptions]:
    """Return the arguments of `push` that publish an old version again, as a new commit.

    Entries, lineage, documents, hand-written text of the card, and evaluation results are those of the old version.

    Args:
        repo: `org/name`.
        version: The version, such as `v1.2.0`, or another revision.
        options: Options of the push.
        access: Access settings; None for those of the environment.

    Raises:
        HubError: If the Hub rejects the request or is unreachable.
        LibraryError: If the revision contains no valid Library.
    """
    hub = Repo(repo, access or usual_access())
    snapshot = fetch_snapshot(hub, hub.head(version).commit)
    if snapshot.library is None:
        raise LibraryError(f"{repo}@{version} contains no Library.", next_step=shell("rh library versions {}", repo))
    newer = dict.fromkeys((path for path in hub.tree(hub.head().commit) if path in hub_files.DOCUMENTS), "")
    texts = {path: snapshot.text(path) for path in hub_files.DOCUMENTS if path in snapshot.files}
    facts = known_facts(read_config(snapshot.text(CONFIG_FILE)), snapshot.library)
    origin = Origin(repo, snapshot.commit, version, newer)
    draft = Upload(snapshot.library, texts, snapshot.text(CARD_FILE) or None, origin)
    return draft, replace(options or PushOptions(), base=MAIN, facts=facts)


def _find(hub: Repo, revision: str) -> tuple[Snapshot, bool, dict[str, str]]:
    """Return the snapshot of a revision, whether the Hub was unreachable, and the tags of the repository."""
    snapshot = _cached(hub, revision) if is_commit(revision) else None
    if snapshot is not None:  # commits are immutable, so no request is needed
        return snapshot, False, {}
    try:
        head, tags = hub.head(revision), dict(hub.tags())
    except MissingRevisionError as error:
        published = [tag for tag in hub.tags() if parse_version(tag)]
        step = f"Versions: {', '.join(shown(tag, 20) for tag in published[-10:])}." if published else error.next_step
        raise MissingRevisionError(error.message, next_step=step, status=404) from None
    except UnreachableError as error:
        snapshot = _cached(hub, revision)
        if snapshot is None:
            message = f"{error.message} The cache contains no complete copy of {hub.name}@{revision}."
            raise UnreachableError(message, next_step=error.next_step, status=error.status) from None
        return snapshot, True, {}
    snapshot = fetch_snapshot(hub, head.commit)
    if not is_commit(revision):
        hub.remember(revision)
    return snapshot, False, tags


def _cached(hub: Repo, revision: str) -> Snapshot | None:
    """Return the snapshot of a revision from the cache, without a request; None if it has no complete copy."""
    cached = hub.cached(revision)
    with suppress(UnreachableError):
        return fetch_snapshot(hub, *cached, offline=True) if cached is not None else None
    return None


def _notes(snapshot: Snapshot, revision: str, repo: str, *, offline: bool) -> tuple[str, ...]:
    """Return warnings for the user.

    Raises:
        LibraryError: If the content of a published version does not match its Library id.
    """
    assert snapshot.library is not None
    notes = []
    if offline:
        notes.append(f"OFFLINE: the Hub is unreachable; using the cached copy of {repo}, commit {snapshot.commit[:7]}.")
    library_id = read_config(snapshot.text(CONFIG_FILE)).library_id
    if library_id and library_id != snapshot.library.id:
        message = f"The Library of {repo} at {snapshot.commit[:7]} does not match the id in its {CONFIG_FILE}"
        if parse_version(revision):
            listing = shell("rh library versions {}", repo)
            step = f"Choose another version ({listing}), or specify the commit to use it anyway."
            raise LibraryError(f"{message}, although it is published as {revision}.", next_step=step)
        notes.append(f"{message}: its entries were changed without `rh push-library`.")
    skipped = snapshot.tree.keys() - snapshot.files.keys() - {".gitattributes", ".gitignore", CHART_FILE}
    if skipped:
        names = ", ".join(shown(path, 60) for path in sorted(skipped)[:5])
        notes.append(f"{len(skipped)} files of {repo} do not belong to the Library and were not downloaded: {names}.")
    return tuple(notes)


MOST = 100
"""Maximum length of a list."""

Order = Literal["likes", "downloads", "last_modified"]


@dataclass(frozen=True)
class ClaimedResult:
    """Accuracy of a Library as its card claims it."""

    accuracy: float
    """In [0, 1]."""
    n: int
    """Number of judged examples; 0 if unknown."""
    low: float | None
    high: float | None
    """Bounds of the 95% interval; None if unknown."""
    data: str
    """Name of the dataset."""
    judge: str
    evolved_on: bool
    """Whether the card says that the Library was evolved on the same data."""


@dataclass(frozen=True)
class ListedLibrary:
    """A Library in the gallery."""

    repo: str
    """`org/name`."""
    version: str
    """Such as `v1.2.0`; empty if the card does not say."""
    license: str
    likes: int
    downloads: int
    updated: datetime | None
    private: bool
    result: ClaimedResult | None
    """The first result of the card that is no attack; None without one."""
    exploit_reward: float | None
    """Highest mean reward of an exploit over all attacks of the card, in [0, 1]; None if not measured."""

    @property
    def spec(self) -> str:
        """`org/name@version`, or without a version."""
        return f"{self.repo}@{self.version}" if self.version else self.repo


def search_libraries(
    query: str = "", *, author: str = "", order: Order = "last_modified", limit: int = 50, access: Access | None = None
) -> tuple[ListedLibrary, ...]:
    """Return the Libraries on the Hub that the token can see.

    Args:
        query: Text in the name; empty for any.
        author: User or organization; empty for any.
        order: What the list is sorted by, the highest first.
        limit: Maximum length, 1 to `MOST`.
        access: Access settings; None for the usual ones.

    Raises:
        HubError: If the Hub refuses, or cannot be reached.
    """
    access, limit = access or Access(), min(MOST, max(1, limit))
    api = client(access)
    logging.getLogger("huggingface_hub.repocard_data").setLevel(logging.ERROR)  # it warns of each invalid card
    with translated(Context("the Hub", "model", "", "list Libraries", "", access.token or None)):
        listed = api.list_models(
            filter=LIBRARY_TAG,
            search=shown(query.strip(), 200) or None,
            author=author.strip() or None,
            sort=order,
            expand=["likes", "downloads", "lastModified", "private", "cardData"],
            limit=limit,
        )
        return tuple(_read(repo) for repo in islice(listed, limit) if is_repo(str(repo.id)))


def _read(repo: Any) -> ListedLibrary:
    card = repo.card_data.to_dict() if repo.card_data is not None else {}
    own = card.get("rewardharness")
    version = f"v{own.get('version')}" if isinstance(own, dict) else ""
    likes, downloads = (value if isinstance(value, int) else 0 for value in (repo.likes, repo.downloads))
    results = list(_results(card))
    return ListedLibrary(
        str(repo.id),
        version if parse_version(version) else "",
        _text(card.get("license"), 40),
        likes,
        downloads,
        repo.last_modified,
        bool(repo.private),
        next((result for result, reward in results if reward is None), None),
        max((reward for _, reward in results if reward is not None), default=None),
    )


def _results(card: Mapping[str, Any]) -> Iterator[tuple[ClaimedResult, float | None]]:
    """Yield each result in the `model-index` of a card, and the reward of the exploit if it is about an attack."""
    results = [result for model in _items(card.get("model-index")) for result in _items(model.get("results"))]
    for dataset, metric in [(row.get("dataset"), metric) for row in results for metric in _items(row.get("metrics"))]:
        data, args = (value if isinstance(value, dict) else {} for value in (dataset, metric.get("args")))
        accuracy = _share(metric.get("value"))
        reward, low, high = (_share(args.get(key)) for key in ("exploit_reward", "low", "high"))
        if metric.get("type") != "accuracy" or accuracy is None:
            continue
        low, high = (low, high) if low is not None and high is not None and low <= high else (None, None)
        n = args.get("judged")
        n = n if isinstance(n, int) and 0 <= n <= 10**9 else 0
        texts = _text(data.get("name"), 80), _text(args.get("judge"), 80)
        yield ClaimedResult(accuracy, n, low, high, *texts, args.get("evolved_on_these_data") is True), reward


def _items(value: Any) -> list[dict[str, Any]]:
    return [item for item in value[:1000] if isinstance(item, dict)] if isinstance(value, list) else []


def _share(value: Any) -> float | None:
    number = finite(value)
    return number if number is not None and 0 <= number <= 1 else None


def _text(value: Any, most: int) -> str:
    return shown(value, most) if isinstance(value, str) else ""
