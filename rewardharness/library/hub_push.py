"""Pushes a Library to the Hub: one commit on a known parent, followed by a tag.

A push is idempotent. After an interruption, running it again adds a missing tag and does not repeat a commit.
"""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import Path

from rewardharness.errors import InputError, LibraryError, shown
from rewardharness.files import write_bytes
from rewardharness.hub.errors import HubError
from rewardharness.hub.pushing import FileChanges, Pushed, head_for_push, text_diffs
from rewardharness.hub.repository import MAIN, Access, Repo, git_id
from rewardharness.library import card as cards
from rewardharness.library import hub_files
from rewardharness.library.card import Facts
from rewardharness.library.diff import diff_libraries, merge_libraries, three_way
from rewardharness.library.evolved import is_digest
from rewardharness.library.hub_files import Origin, Snapshot, Upload, Version, fetch_snapshot, file_changes, tag_of
from rewardharness.library.store import EMPTY, Library, check_replaceable

MAX_LISTED_COMMITS = 5
"""Maximum number of newer commits that are listed in an error message."""
MAX_TRIED = 5
"""Maximum number of commits that are searched for the ancestor of a Library."""


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

    def __init__(self, repo: str, conflicts: tuple[str, ...]) -> None:
        listed = " ".join(conflicts[:20])
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
class _Remote:
    """State of the Hub before a push."""

    parent: Snapshot
    """The parent commit of the push; an empty snapshot if the repository does not exist."""
    head: str
    """The commit of the main branch; empty if the repository does not exist."""
    base: str | None
    """The commit from which the draft was pulled; None if unknown."""
    versions: Mapping[Version, str]
    """Commit of each version."""


@dataclass(frozen=True)
class _Target:
    """State of the Hub after a push."""

    version: Version
    files: Mapping[str, bytes]
    changes: FileChanges


def push(
    source: Library | Path | Upload, repo: str, options: PushOptions | None = None, *, access: Access | None = None
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
    requested = _requested_version(options)
    draft = hub_files.read_draft(source)
    cards.hand_written_text(draft.card or "")  # reports an invalid card before anything is written
    if options.rebase and draft.folder is not None:
        check_replaceable(draft.folder)
    hub_files.check_outgoing(draft.files(), hub.secret)
    head, created = head_for_push(hub, private=options.private, dry_run=options.dry_run)
    remote = _inspect(hub, head.commit, draft, options) if head else _Remote(Snapshot("", {}, {}, None), "", None, {})
    owned = frozenset(draft.origin.files if draft.origin is not None and draft.origin.repo == repo else ())
    taken: Mapping[str, str | None] = {}
    rebased = options.rebase and remote.base != remote.head and remote.parent.library is not None
    if rebased:
        draft, owned, taken = _rebase(hub, draft, remote)
        remote = replace(remote, base=remote.head)
    target = _target(hub, draft, remote, owned, options, requested)
    hub_files.check_outgoing(target.files, hub.secret)
    # A pull request overwrites nothing: the owner reviews every change.
    up_to_date = options.create_pr or remote.parent.library is None or remote.base == remote.parent.commit
    if target.changes and not up_to_date and not _is_published(draft, remote.parent, owned):
        raise _stale(hub, remote.base, remote.head)
    card, tag = target.files[cards.CARD_FILE].decode("utf-8"), tag_of(target.version)
    commit = remote.parent.commit or None
    pushed = Pushed(repo, hub.page, commit, target.changes, card, tag, draft.library.id, created=created)
    if options.dry_run:
        changed = (*target.changes.added, *target.changes.changed, *target.changes.deleted)
        before = {path: remote.parent.text(path) for path in changed}
        after = {path: target.files.get(path, b"").decode("utf-8", "replace") for path in changed}
        commit = None if target.changes else pushed.commit
        return replace(pushed, commit=commit, dry_run=True, diffs=text_diffs(before, after))
    if options.create_pr:
        commit, url = _propose(hub, target, remote, draft) if target.changes else (pushed.commit, None)
        return replace(pushed, commit=commit, pr_url=url)
    commit = _commit(hub, target, remote, draft)[0] if target.changes else remote.parent.commit
    tagged = remote.versions.get(target.version) != commit and _tag(hub, target.version, commit)
    if draft.folder is not None:
        if rebased:
            draft.library.save(draft.folder)
        _update_folder(draft.folder, target, taken, Origin(repo, commit, pushed.version))
    return replace(pushed, commit=commit, tagged=tagged)


def _requested_version(options: PushOptions) -> Version | None:
    """Return the version that the options name, and report contradictions before anything is read."""
    if options.version and options.bump:
        raise InputError("`version` and `bump` exclude each other.", next_step="Specify one of them.")
    hub_files.next_version(None, options.bump)
    version = hub_files.parse_version(options.version)
    if options.version and version is None:
        raise InputError(f"Invalid version {shown(options.version)!r}.", next_step="Use the form 1.2.0.")
    return version


def _inspect(hub: Repo, head: str, draft: Upload, options: PushOptions) -> _Remote:
    origin = draft.origin.commit if draft.origin is not None and draft.origin.repo == hub.name else None
    tree = hub.tree(head)
    if ".gitignore" in tree:
        step = "Remove this file from the repository first."
        raise HubError(f"{hub.name} contains a .gitignore, so the Hub may omit files.", next_step=step)
    versions = hub_files.version_commits(hub.tags())
    parent = fetch_snapshot(hub, head, tree)
    base = hub.head(options.base).commit if options.base else origin or _ancestor(hub, draft.library, parent)
    if base and base != head and options.create_pr and not options.rebase:
        parent = fetch_snapshot(hub, base)
    return _Remote(parent, head, base, versions)


def _is_published(draft: Upload, parent: Snapshot, owned: frozenset[str]) -> bool:
    """Whether a commit contains everything in the draft, apart from generated files."""
    tree = {path: file for path, file in parent.tree.items() if path != cards.CHART_FILE}
    if file_changes(tree, draft.files(), owned - cards.GENERATED):
        return False
    return draft.card is None or cards.hand_written_text(draft.card) == cards.hand_written_text(
        parent.text(cards.CARD_FILE)
    )


def _target(
    hub: Repo, draft: Upload, remote: _Remote, owned: frozenset[str], options: PushOptions, requested: Version | None
) -> _Target:
    """Determine the version and the files: the Library, its documents, and the generated files."""
    config = cards.read_config(remote.parent.text(cards.CONFIG_FILE))
    # After a merge, facts about the local Library do not apply to the merged one.
    facts = tuple(row for row in options.facts if not options.rebase or row.library_id == draft.library.id)
    facts = facts or cards.known_facts(config, draft.library)

    def target(version: Version) -> _Target:
        previous = _previous(hub, remote, version)
        subject = cards.CardSubject(draft.library, hub.name, tag_of(version).removeprefix("v"), previous, facts)
        card = remote.parent.text(cards.CARD_FILE) if draft.card is None else draft.card
        files = {**draft.files(), **cards.card_files(subject, card)}
        return _Target(version, files, file_changes(remote.parent.tree, files, owned))

    latest, stated = max(remote.versions, default=None), hub_files.parse_version(config.version)
    current = max(
        (version for version, commit in remote.versions.items() if commit == remote.parent.commit), default=None
    )
    untagged = stated if stated is not None and not options.bump and (latest is None or stated > latest) else None
    for existing in (current, untagged):
        if existing is not None and requested in (None, existing):
            unchanged = target(existing)
            if not unchanged.changes:
                return unchanged
    if requested is not None and latest is not None and requested <= latest:
        example = tag_of(hub_files.next_version(latest, ""))
        message = f"{tag_of(requested)} is not higher than {tag_of(latest)}, the latest version of {hub.name}."
        raise HubError(message, next_step=f"Choose a higher version, such as {example}.", status=409)
    return target(requested or hub_files.next_version(latest, options.bump))


def _previous(hub: Repo, remote: _Remote, version: Version) -> tuple[str, Library] | None:
    """Return the tag and the Library of the version before; None without one, or if it is invalid."""
    earlier = max((other for other in remote.versions if other < version), default=None)
    if earlier is None:
        return None
    try:
        library = fetch_snapshot(hub, remote.versions[earlier]).library
    except HubError:
        raise
    except LibraryError:
        return None
    return (tag_of(earlier), library) if library is not None else None


def _commit(
    hub: Repo, target: _Target, remote: _Remote, draft: Upload, *, pull: bool = False
) -> tuple[str, str | None]:
    """Create the commit and verify its content."""
    changes = target.changes
    added = {path: target.files[path] for path in (*changes.added, *changes.changed)}
    diff = diff_libraries(remote.parent.library or EMPTY, draft.library)
    lines = [f"{sign} {entry.kind} {entry.name}" for sign, entry in diff.signed]
    body = "\n".join([*lines[:50], *(["..."] if len(lines) > 50 else []), f"Library id: {draft.library.id}"])
    message = _title(target, draft), body
    try:
        commit, url = hub.commit(added, changes.deleted, remote.parent.commit, message, pull=pull)
    except HubError as error:
        if error.status != 412:
            raise
        raise _stale(hub, remote.parent.commit, hub.head().commit) from None
    tree = hub.tree(commit)
    differences = file_changes(tree, target.files)
    if differences.added or differences.changed or tree.keys() & set(changes.deleted):
        # The client creates no commit if the same files were pushed concurrently; that commit may contain more.
        raise _stale(hub, remote.parent.commit, commit)
    return commit, url


def _propose(hub: Repo, target: _Target, remote: _Remote, draft: Upload) -> tuple[str, str | None]:
    """Create a pull request, or return an identical open one."""
    for title, revision, url in hub.open_pulls():
        if title == _title(target, draft):
            commit = hub.head(revision).commit
            if not file_changes(hub.tree(commit), target.files):
                return commit, url
    return _commit(hub, target, remote, draft, pull=True)


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


def _title(target: _Target, draft: Upload) -> str:
    return f"Library {tag_of(target.version).removeprefix('v')} (id {draft.library.id[:12]})"


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
    return StaleError(
        message + (f" Newer commits: {commits}." if commits else ""), next_step=step, base=base, head=head
    )


def _update_folder(folder: Path, target: _Target, taken: Mapping[str, str | None], origin: Origin) -> None:
    """Update the folder to what was pushed. The origin is written last."""
    for path in (path for path, text in taken.items() if text is None):
        (folder / path).unlink(missing_ok=True)
    written = {path: text.encode("utf-8") for path, text in taken.items() if text is not None}
    written |= {path: target.files[path] for path in cards.GENERATED & target.files.keys()}
    for path, data in written.items():
        write_bytes(folder / path, data)
    digests = {path: hub_files.sha_of(folder, path) for path in sorted({*target.files, *taken})}
    origin = replace(origin, files={path: digest for path, digest in digests.items() if digest is not None})
    hub_files.write_origin(folder, origin)


def _rebase(hub: Repo, draft: Upload, remote: _Remote) -> tuple[Upload, frozenset[str], dict[str, str | None]]:
    """Merge a draft with the state of the Hub, entry by entry and document by document.

    Returns:
        The merged draft, without documents that are unchanged on the Hub; the documents that only the local side
        removed; and those that the other side changed, None for a document that it removed.

    Raises:
        ConflictError: If both sides changed an item differently.
    """
    theirs = remote.parent
    base = fetch_snapshot(hub, remote.base) if remote.base else Snapshot("", {}, {}, None)
    before, after = (EMPTY if snapshot.library is None else snapshot.library for snapshot in (base, theirs))
    library, entry_conflicts = merge_libraries(before, draft.library, after)
    card, conflicts = _merged_card(draft, base, theirs)
    known = {*draft.texts, *(draft.origin.files if draft.origin is not None else ()), *theirs.files}
    paths = {
        path for path in known if path in hub_files.DOCUMENTS or (path in draft.texts and path not in cards.GENERATED)
    }
    ours = {path: git_id(text.encode("utf-8")) for path, text in draft.texts.items()}
    original, current = ({path: tree[path].oid for path in paths & tree.keys()} for tree in (base.tree, theirs.tree))
    merged, changed_by_both = three_way(original, ours, current)
    taken = {path for path in paths if merged.get(path) != ours.get(path)}
    conflicts = [
        *(*entry_conflicts, *conflicts),
        *(f"{path}: both sides changed this document." for path in changed_by_both),
        *(
            f"{path}: the other side changed this document, which is not downloaded."
            for path in sorted(taken & theirs.tree.keys() - theirs.files.keys())
        ),
    ]
    if conflicts:
        raise ConflictError(hub.name, tuple(conflicts))
    texts = {path: text for path, text in draft.texts.items() if path not in taken}
    return (
        replace(draft, library=library, texts=texts, card=card),
        frozenset(path for path in paths if path not in merged and path in current),
        {path: theirs.text(path) if path in theirs.files else None for path in taken},
    )


def _ancestor(hub: Repo, library: Library, head: Snapshot) -> str | None:
    """Return the published commit that contains a Library or its most recent ancestor by lineage, or None."""
    if head.library is None or head.library.id == library.id:
        return head.commit if head.library is not None else None
    recorded = (record.get(key) for record in reversed(library.lineage) for key in ("library", "parent"))
    history = hub.history()
    tried = 0
    for library_id in dict.fromkeys([library.id, *(value for value in recorded if is_digest(value))]):
        if head.library.id == library_id:
            return head.commit
        for commit in history:
            # The title is untrusted, so the content is verified.
            if f"(id {library_id[:12]})" in commit.title and tried < MAX_TRIED:
                tried += 1
                with suppress(LibraryError):
                    candidate = fetch_snapshot(hub, commit.commit).library
                    if candidate is not None and candidate.id == library_id:
                        return commit.commit
    return None


def _merged_card(draft: Upload, base: Snapshot, theirs: Snapshot) -> tuple[str, list[str]]:
    """Return the card whose hand-written text was changed."""
    their_card = theirs.text(cards.CARD_FILE)
    if draft.card is None:
        return their_card, []
    original, ours, current = map(cards.hand_written_text, (base.text(cards.CARD_FILE), draft.card, their_card))
    if current == original != ours:
        return draft.card, []
    conflict = f"{cards.CARD_FILE}: both sides changed its hand-written text."
    return their_card, [] if ours in (original, current) else [conflict]
