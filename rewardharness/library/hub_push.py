"""Pushes a Library to the Hub: one commit on a known parent, followed by a tag.

A push is idempotent. After an interruption, running it again adds a missing tag and does not repeat a commit.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from difflib import unified_diff
from itertools import takewhile
from pathlib import Path

from rewardharness.errors import InputError, LibraryError, shown
from rewardharness.files import write_bytes
from rewardharness.hub.errors import HubError, MissingRepoError
from rewardharness.hub.repository import MAIN, Access, Repo
from rewardharness.library.card import (
    CardSubject,
    Facts,
    hand_written_text,
    known_facts,
    make_card,
    make_chart,
    make_config,
    read_config,
)
from rewardharness.library.diff import diff_libraries
from rewardharness.library.merge import Conflict
from rewardharness.library.origin import Origin, sha_of, write_origin
from rewardharness.library.outgoing import (
    CARD_FILE,
    CHART_FILE,
    CONFIG_FILE,
    Draft,
    FileChanges,
    Version,
    check_outgoing,
    file_changes,
    next_version,
    parse_version,
    read_draft,
    tag_of,
)
from rewardharness.library.rebase import ancestor, rebase
from rewardharness.library.snapshot import Snapshot, fetch_snapshot
from rewardharness.library.store import EMPTY, Library, check_replaceable

_GENERATED = frozenset({CARD_FILE, CONFIG_FILE, CHART_FILE})
MAX_LISTED_COMMITS = 5
"""Maximum number of newer commits that are listed in an error message."""


class StaleError(HubError):
    """The repository changed after this Library was pulled. Nothing was pushed.

    Args:
        message: The error.
        next_step: How to resolve it.
        base: The commit from which the Library was pulled; None if unknown.
        head: The current commit of the repository.
    """

    def __init__(self, message: str, *, next_step: str, base: str | None, head: str) -> None:
        super().__init__(message, next_step=next_step, status=412)
        self.base, self.head = base, head


class ConflictError(HubError):
    """Both sides changed the same items. Nothing was pushed.

    Args:
        repo: The repository.
        conflicts: The items that both sides changed.
    """

    def __init__(self, repo: str, conflicts: tuple[Conflict, ...]) -> None:
        listed = " ".join(str(conflict) for conflict in conflicts[:20])
        step = f"Pull {repo} to another folder with --to, resolve the conflicts there, and push from that folder."
        super().__init__(f"The Library conflicts with the version on the Hub. {listed}", next_step=step)
        self.conflicts = conflicts


@dataclass(frozen=True)
class PushOptions:
    """Options of a push."""

    version: str = ""
    """The version to publish, such as `1.2.0`; empty for the next version."""
    bump: str = ""
    """The part of the latest version to increment: `patch` (default), `minor`, or `major`."""
    private: bool = False
    """Whether a newly created repository is private."""
    create_pr: bool = False
    """Create a pull request; the version is published when it is merged."""
    rebase: bool = False
    """Merge the newer commits on the Hub into the Library."""
    base: str = ""
    """The revision from which the Library was pulled; empty for the recorded origin of the folder."""
    dry_run: bool = False
    """Report the changes without writing anything."""
    facts: tuple[Facts, ...] = ()
    """Evaluation results of this Library; empty for those that are already published."""


@dataclass(frozen=True)
class Pushed:
    """Result of a push or of its dry run."""

    repo: str
    version: str
    """Tag of the version, such as `v1.2.0`."""
    commit: str | None
    """The commit; None for a dry run that would create one."""
    changes: FileChanges
    library: Library = field(repr=False)
    """The published Library, which differs from the given one after a rebase."""
    card: str = field(repr=False)
    nothing_to_push: bool = False
    """Whether the Hub was already up to date."""
    tagged: bool = False
    """Whether this push created the tag of the version."""
    pr_url: str | None = None
    created: bool = False
    """Whether the repository is new."""
    dry_run: bool = False
    diffs: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Unified diff of each changed file by path; empty unless this is a dry run."""


@dataclass(frozen=True)
class _Remote:
    """State of the Hub before a push."""

    parent: Snapshot
    """The parent commit of the push; an empty snapshot if the repository does not exist."""
    head: str
    """The commit of the main branch; empty if the repository does not exist."""
    tags: Mapping[Version, str]
    """Commit of each version."""

    @property
    def latest(self) -> Version | None:
        return max(self.tags, default=None)


@dataclass(frozen=True)
class _Target:
    """State of the Hub after a push."""

    version: Version
    files: Mapping[str, bytes]
    changes: FileChanges
    before: Library
    """The Library that the push replaces."""


def push(
    source: Library | Path | Draft, repo: str, options: PushOptions | None = None, *, access: Access | None = None
) -> Pushed:
    """Publish a Library.

    Args:
        source: The Library, its folder, or a published version (see `restoration`). The origin and the card in the
            folder are updated.
        repo: `org/name`. The repository is created if it does not exist.
        options: Options of the push.
        access: Access settings; None for the defaults.

    Raises:
        StaleError: If the repository changed after the Library was pulled.
        ConflictError: If a rebase finds conflicting changes.
        HubError: If the Hub rejects the request or is unreachable.
        LibraryError: If the Library is invalid, or contains files that must not be published.
        InputError: If the options contradict each other.
    """
    options = options or PushOptions()
    hub = Repo(repo, access or Access())
    _requested_version(options)  # reports contradicting options before anything is read
    draft = read_draft(source)
    hand_written_text(draft.card or "")  # reports an invalid card before anything is written
    if options.rebase and draft.folder is not None:
        check_replaceable(draft.folder)
    check_outgoing(draft.files(), hub.secret)
    created, base = False, None
    try:
        remote, base = _inspect(hub, draft, options)
    except MissingRepoError:
        created = True
        if not options.dry_run:
            hub.create(private=options.private)
            remote, base = _inspect(hub, draft, options)
        else:
            remote = _Remote(Snapshot("", {}, {}, None), "", {})
    owned = frozenset(draft.origin.files if draft.origin is not None and draft.origin.repo == repo else ())
    taken: Mapping[str, str | None] = {}
    rebased = options.rebase and base != remote.head and remote.parent.library is not None
    if rebased:
        result = rebase(draft, fetch_snapshot(hub, base) if base else None, remote.parent)
        if result.conflicts:
            raise ConflictError(repo, result.conflicts)
        draft, owned, taken, base = result.draft, result.owned, result.taken, remote.head
    plan = _plan(hub, draft, remote, owned, options)
    check_outgoing(plan.files, hub.secret)
    # A pull request overwrites nothing: the owner reviews every change.
    up_to_date = options.create_pr or remote.parent.library is None or base == remote.parent.commit
    if plan.changes and not up_to_date and not _is_published(draft, remote.parent, owned):
        raise _stale(hub, base, remote.head)
    card = plan.files[CARD_FILE].decode("utf-8")
    pushed = Pushed(repo, tag_of(plan.version), remote.parent.commit or None, plan.changes, draft.library, card)
    pushed = replace(pushed, nothing_to_push=not plan.changes, created=created, dry_run=options.dry_run)
    if options.dry_run:
        return replace(pushed, diffs=_diffs(remote.parent, plan), commit=None if plan.changes else pushed.commit)
    if options.create_pr:
        commit, url = _propose(hub, plan, remote, draft) if plan.changes else (remote.parent.commit, None)
        return replace(pushed, commit=commit, pr_url=url)
    commit = _commit(hub, plan, remote, draft)[0] if plan.changes else remote.parent.commit
    tagged = remote.tags.get(plan.version) != commit and _tag(hub, plan.version, commit)
    if draft.folder is not None:
        _update_folder(draft, plan, taken, Origin(repo, commit, tag_of(plan.version)), rebased=rebased)
    return replace(pushed, commit=commit, tagged=tagged)


def _requested_version(options: PushOptions) -> Version | None:
    if options.version and options.bump:
        raise InputError("`version` and `bump` exclude each other.", next_step="Specify one of them.")
    next_version(None, options.bump or None)
    version = parse_version(options.version)
    if options.version and version is None:
        raise InputError(f"Invalid version {shown(options.version)!r}.", next_step="Use the form 1.2.0.")
    return version


def _inspect(hub: Repo, draft: Draft, options: PushOptions) -> tuple[_Remote, str | None]:
    """Return the state of the Hub and the commit from which the draft was pulled."""
    head = hub.head()
    if options.private and not head.private:
        step = "Omit --private, or first make the repository private in its settings on the Hub."
        raise HubError(f"{hub.name} is public, and a push does not change the visibility.", next_step=step)
    origin = draft.origin.commit if draft.origin is not None and draft.origin.repo == hub.name else None
    tree = hub.tree(head.commit)
    if ".gitignore" in tree:
        step = "Remove this file from the repository first."
        raise HubError(f"{hub.name} contains a .gitignore, so the Hub may omit files.", next_step=step)
    tags = {version: commit for tag, commit in hub.tags().items() if (version := parse_version(tag))}
    parent = fetch_snapshot(hub, head.commit, tree)
    base = hub.head(options.base).commit if options.base else origin or ancestor(hub, draft.library, parent)
    if base and base != head.commit and options.create_pr and not options.rebase:
        parent = fetch_snapshot(hub, base)
    return _Remote(parent, head.commit, tags), base


def _is_published(draft: Draft, parent: Snapshot, owned: frozenset[str]) -> bool:
    """Whether a commit contains everything in the draft, apart from generated files."""
    tree = {path: file for path, file in parent.tree.items() if path != CHART_FILE}
    if file_changes(tree, draft.files(), owned - _GENERATED):
        return False
    return draft.card is None or hand_written_text(draft.card) == hand_written_text(parent.text(CARD_FILE))


def _plan(hub: Repo, draft: Draft, remote: _Remote, owned: Collection[str], options: PushOptions) -> _Target:
    """Determine the version and the files."""
    requested = _requested_version(options)
    config = read_config(remote.parent.text(CONFIG_FILE))
    # After a merge, facts about the local Library do not apply to the merged one.
    facts = tuple(row for row in options.facts if not options.rebase or row.library_id == draft.library.id)
    facts = facts or known_facts(config, draft.library)
    current = max((version for version, commit in remote.tags.items() if commit == remote.parent.commit), default=None)

    def plan(version: Version) -> _Target:
        files = _files(hub, draft, remote, version, facts)
        changes = file_changes(remote.parent.tree, files, owned)
        return _Target(version, files, changes, remote.parent.library or EMPTY)

    latest = remote.latest
    stated = parse_version(config.version)
    untagged = stated if stated is not None and not options.bump and (latest is None or stated > latest) else None
    for existing in (current, untagged):
        if existing is not None and requested in (None, existing):
            unchanged = plan(existing)
            if not unchanged.changes:
                return unchanged
    if requested is not None and latest is not None and requested <= latest:
        example = tag_of(next_version(latest, None))
        message = f"{tag_of(requested)} is not higher than {tag_of(latest)}, the latest version of {hub.name}."
        raise HubError(message, next_step=f"Choose a higher version, such as {example}.", status=409)
    return plan(requested or next_version(latest, options.bump or None))


def _files(hub: Repo, draft: Draft, remote: _Remote, version: Version, facts: tuple[Facts, ...]) -> dict[str, bytes]:
    """Return all files of a version: the Library, its documents, and the generated files."""
    earlier = max((tag for tag in remote.tags if tag < version), default=None)
    previous = None
    if earlier is not None:
        try:
            library = fetch_snapshot(hub, remote.tags[earlier]).library
        except LibraryError as error:
            if isinstance(error, HubError):
                raise
            library = None  # the earlier version is invalid, so there is no comparison
        previous = (tag_of(earlier), library) if library is not None else None
    subject = CardSubject(draft.library, hub.name, tag_of(version).removeprefix("v"), previous, facts)
    card = make_card(subject, remote.parent.text(CARD_FILE) if draft.card is None else draft.card)
    chart = make_chart(draft.library)
    generated = {CARD_FILE: card, CONFIG_FILE: make_config(subject)} | ({CHART_FILE: chart} if chart else {})
    return {**draft.files(), **{path: text.encode("utf-8") for path, text in generated.items()}}


def _commit(hub: Repo, plan: _Target, remote: _Remote, draft: Draft, *, pull: bool = False) -> tuple[str, str | None]:
    """Create the commit and verify its content."""
    changes = plan.changes
    added = {path: plan.files[path] for path in (*changes.added, *changes.changed)}
    message = _title(plan, draft), _body(plan, draft)
    try:
        commit, url = hub.commit(added, changes.deleted, remote.parent.commit, message, pull=pull)
    except HubError as error:
        if error.status != 412:
            raise
        raise _stale(hub, remote.parent.commit, hub.head().commit) from None
    tree = hub.tree(commit)
    differences = file_changes(tree, plan.files)
    wrong = [*differences.added, *differences.changed, *(path for path in changes.deleted if path in tree)]
    if wrong:
        # The client creates no commit if the same files were pushed concurrently; that commit may contain more.
        raise _stale(hub, remote.parent.commit, commit)
    return commit, url


def _propose(hub: Repo, plan: _Target, remote: _Remote, draft: Draft) -> tuple[str, str | None]:
    """Create a pull request, or return an identical open one."""
    title = _title(plan, draft)
    for open_title, revision, url in hub.open_pulls():
        if open_title == title:
            commit = hub.head(revision).commit
            if not file_changes(hub.tree(commit), plan.files):
                return commit, url
    return _commit(hub, plan, remote, draft, pull=True)


def _tag(hub: Repo, version: Version, commit: str) -> bool:
    """Create the tag of a version; return False if it exists."""
    tag = tag_of(version)
    try:
        hub.tag(tag, commit)
    except HubError as error:
        if error.status != 409:
            raise
        tagged = hub.head(tag).commit
        if tagged == commit:
            return False
        message = f"{tag} of {hub.name} is commit {tagged[:7]}; the push is commit {commit[:7]} and has no tag."
        raise HubError(message, next_step="Push again with --bump patch.", status=409) from None
    return True


def _title(plan: _Target, draft: Draft) -> str:
    return f"Library {tag_of(plan.version).removeprefix('v')} (id {draft.library.id[:12]})"


def _body(plan: _Target, draft: Draft) -> str:
    diff = diff_libraries(plan.before, draft.library)
    lines = [f"+ {entry.kind} {entry.name}" for entry in diff.added]
    lines += [f"~ {entry.after.kind} {entry.name}" for entry in diff.changed]
    lines += [f"- {entry.kind} {entry.name}" for entry in diff.removed]
    return "\n".join([*lines[:50], *(["..."] if len(lines) > 50 else []), f"Library id: {draft.library.id}"])


def _stale(hub: Repo, base: str | None, head: str) -> StaleError:
    """Return an error that lists the newer commits."""
    if base is None:
        message = f"{hub.name} already contains a Library, and this one was not pulled from it."
        step = "Pull it first and push from its folder, or merge both with --rebase."
        return StaleError(message, next_step=step, base=None, head=head)
    newer = list(takewhile(lambda commit: commit.commit != base, hub.history(MAIN)))[:MAX_LISTED_COMMITS]
    commits = "; ".join(f"{shown(commit.title)!r} by {shown(', '.join(commit.authors), 40)}" for commit in newer)
    message = f"{hub.name} has newer commits: yours is based on {base[:7]}, the Hub is at {head[:7]}."
    step = "Run the command again with --rebase to merge both, or with --create-pr to create a pull request."
    message = f"{message} Newer commits: {commits}." if commits else message
    return StaleError(message, next_step=step, base=base, head=head)


def _diffs(parent: Snapshot, plan: _Target) -> dict[str, str]:
    diffs = {}
    for path in (*plan.changes.added, *plan.changes.changed, *plan.changes.deleted):
        before = parent.text(path).split("\n") if parent.text(path) else []
        after = plan.files.get(path, b"").decode("utf-8", "replace")
        lines = unified_diff(before, after.split("\n") if after else [], f"before/{path}", f"after/{path}", lineterm="")
        diffs[path] = "\n".join(lines)
    return diffs


def _update_folder(
    draft: Draft, plan: _Target, taken: Mapping[str, str | None], origin: Origin, *, rebased: bool
) -> None:
    """Update the folder to what was pushed. The origin is written last."""
    folder = draft.folder
    assert folder is not None
    if rebased:
        draft.library.save(folder)
    for path, text in taken.items():
        if text is None:
            (folder / path).unlink(missing_ok=True)
        else:
            write_bytes(folder / path, text.encode("utf-8"))
    for path in (CARD_FILE, CONFIG_FILE, CHART_FILE):
        if path in plan.files:
            write_bytes(folder / path, plan.files[path])
    paths = sorted({*plan.files, *taken})
    digests = {path: digest for path in paths if (digest := sha_of(folder, path)) is not None}
    write_origin(folder, replace(origin, files=digests))
