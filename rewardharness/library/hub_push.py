"""Pushes a Library to the Hub: one commit that follows a known parent, then a tag.

Whatever interrupts a push, running it again ends in the same state: a commit without its tag gets the tag, and what
is there already is not pushed twice.
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
    Facts,
    Subject,
    known_facts,
    make_card,
    make_chart,
    make_config,
    own_words,
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
MAX_TOLD = 5
"""Commits of others that are named, at most."""


class StaleError(HubError):
    """Others have pushed since this Library was pulled. Nothing was changed.

    Args:
        message: What happened.
        next_step: What to do about it.
        base: The commit that the Library was pulled from; None when that is not known.
        head: The commit that the Hub is at.
    """

    def __init__(self, message: str, *, next_step: str, base: str | None, head: str) -> None:
        super().__init__(message, next_step=next_step, status=412)
        self.base, self.head = base, head


class ConflictError(HubError):
    """Both sides changed the same thing. Nothing was changed.

    Args:
        repo: The repository.
        conflicts: What both sides changed.
    """

    def __init__(self, repo: str, conflicts: tuple[Conflict, ...]) -> None:
        listed = " ".join(str(conflict) for conflict in conflicts[:20])
        step = f"Pull {repo} to another folder with --to, settle these by hand, and push from there."
        super().__init__(f"Yours and what is on the Hub do not fit together. {listed}", next_step=step)
        self.conflicts = conflicts


@dataclass(frozen=True)
class HowToPush:
    """What a push is to do."""

    version: str = ""
    """The version to publish, as in `1.2.0`; empty for the next one."""
    bump: str = ""
    """Which part of the last version goes up: `patch` (also when empty), `minor` or `major`."""
    private: bool = False
    """Whether a repository that is made for it is private."""
    create_pr: bool = False
    """Propose the change as a pull request; the version is published once that is merged."""
    rebase: bool = False
    """Bring together what others pushed meanwhile and this Library."""
    base: str = ""
    """The revision that the Library came from; empty for the one that its folder remembers."""
    dry_run: bool = False
    """Only say what would happen. Nothing is written anywhere."""
    facts: tuple[Facts, ...] = ()
    """What an evaluation of this very Library found; empty for what was published about it before."""


@dataclass(frozen=True)
class Pushed:
    """What a push did, or would do."""

    repo: str
    version: str
    """Name of the version's tag, as in `v1.2.0`."""
    commit: str | None
    """The commit; None for a dry run that has none yet."""
    changes: FileChanges
    library: Library = field(repr=False)
    """The Library that is on the Hub now; after a rebase it is not the one that was given."""
    card: str = field(repr=False)
    nothing_to_push: bool = False
    """Whether the Hub had all of it already."""
    tagged: bool = False
    """Whether the version's tag was made by this push."""
    pr_url: str | None = None
    created: bool = False
    """Whether the repository is new."""
    dry_run: bool = False
    diffs: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Unified diff of each file that changes, by path; of a dry run alone."""


@dataclass(frozen=True)
class _Remote:
    """What the Hub has before a push."""

    at: Snapshot
    """The commit that the push follows; an empty one when there is no repository yet."""
    head: str
    """The commit that the main branch is at; empty when there is no repository yet."""
    tags: Mapping[Version, str]
    """Commit of each version."""

    @property
    def latest(self) -> Version | None:
        return max(self.tags, default=None)


@dataclass(frozen=True)
class _Plan:
    """What the Hub is to have after a push."""

    version: Version
    files: Mapping[str, bytes]
    changes: FileChanges
    before: Library
    """The Library that it replaces."""


def push(
    source: Library | Path | Draft, repo: str, how: HowToPush | None = None, *, access: Access | None = None
) -> Pushed:
    """Publish a Library.

    Args:
        source: The Library, its folder, or a published version (see `restoration`). The folder then remembers what was
            pushed; its card is brought up to date.
        repo: `org/name`. It is made if it does not exist.
        how: What the push is to do.
        access: How the Hub is reached.

    Raises:
        StaleError: If others have pushed since the Library was pulled.
        ConflictError: If a rebase meets changes that do not fit together.
        HubError: If the Hub refuses or cannot be reached.
        LibraryError: If the Library breaks the format, or holds something that must not be published.
        InputError: If the wishes contradict each other.
    """
    how = how or HowToPush()
    door = Repo(repo, access or Access())
    wish = _wish(how)
    draft = read_draft(source)
    own_words(draft.card or "")  # a card that cannot be read is told before anything is written
    if how.rebase and draft.folder is not None:
        check_replaceable(draft.folder)
    check_outgoing(draft.files(), door.secret)
    created, base = False, None
    try:
        remote, base = _look(door, draft, how)
    except MissingRepoError:
        created = True
        if not how.dry_run:
            door.create(private=how.private)
            remote, base = _look(door, draft, how)
        else:
            remote = _Remote(Snapshot("", {}, {}, None), "", {})
    owned = frozenset(draft.origin.files if draft.origin is not None and draft.origin.repo == repo else ())
    taken: Mapping[str, str | None] = {}
    rebased = how.rebase and base != remote.head and remote.at.library is not None
    if rebased:
        found = rebase(draft, fetch_snapshot(door, base) if base else None, remote.at)
        if found.conflicts:
            raise ConflictError(repo, found.conflicts)
        draft, owned, taken, base = found.draft, found.owned, found.taken, remote.head
    plan = _plan(door, draft, remote, owned, (how, wish))
    check_outgoing(plan.files, door.secret)
    # A pull request overwrites nothing: its owner sees every change before it is merged.
    fresh = how.create_pr or remote.at.library is None or base == remote.at.commit
    if plan.changes and not fresh and not _is_there(draft, remote.at, owned):
        raise _stale(door, base, remote.head)
    card = plan.files[CARD_FILE].decode("utf-8")
    done = Pushed(repo, tag_of(plan.version), remote.at.commit or None, plan.changes, draft.library, card)
    done = replace(done, nothing_to_push=not plan.changes, created=created, dry_run=how.dry_run)
    if how.dry_run:
        return replace(done, diffs=_diffs(remote.at, plan), commit=None if plan.changes else done.commit)
    if how.create_pr:
        commit, url = _propose(door, plan, remote, draft) if plan.changes else (remote.at.commit, None)
        return replace(done, commit=commit, pr_url=url)
    commit = _commit(door, plan, remote, draft)[0] if plan.changes else remote.at.commit
    tagged = remote.tags.get(plan.version) != commit and _tag(door, plan.version, commit)
    if draft.folder is not None:
        _settle(draft, plan, taken, Origin(repo, commit, tag_of(plan.version)), rebased=rebased)
    return replace(done, commit=commit, tagged=tagged)


def _wish(how: HowToPush) -> Version | None:
    if how.version and how.bump:
        raise InputError("A version and a bump are given.", next_step="Give one of the two.")
    next_version(None, how.bump or None)
    wish = parse_version(how.version)
    if how.version and wish is None:
        raise InputError(f"{shown(how.version)!r} is no version.", next_step="Write it as in 1.2.0.")
    return wish


def _look(door: Repo, draft: Draft, how: HowToPush) -> tuple[_Remote, str | None]:
    """Look at the Hub: what the push follows, and the commit that the draft came from."""
    head = door.head()
    if how.private and not head.private:
        step = "Leave --private out, or make it private in its settings on the Hub first."
        raise HubError(f"{door.name} exists and is public; a push does not change that.", next_step=step)
    known = draft.origin.commit if draft.origin is not None and draft.origin.repo == door.name else None
    tree = door.tree(head.commit)
    if ".gitignore" in tree:
        step = "Remove that file from the repository first."
        raise HubError(f"{door.name} has a .gitignore, by which the Hub drops files without a word.", next_step=step)
    tags = {version: commit for tag, commit in door.tags().items() if (version := parse_version(tag))}
    at = fetch_snapshot(door, head.commit, tree)
    base = door.head(how.base).commit if how.base else known or ancestor(door, draft.library, at)
    if base and base != head.commit and how.create_pr and not how.rebase:
        at = fetch_snapshot(door, base)
    return _Remote(at, head.commit, tags), base


def _is_there(draft: Draft, at: Snapshot, owned: frozenset[str]) -> bool:
    """Whether a commit holds all that a person wrote, so that only what is generated can differ."""
    if file_changes({path: at.tree[path] for path in at.tree if path != CHART_FILE}, draft.files(), owned - _GENERATED):
        return False
    return draft.card is None or own_words(draft.card) == own_words(at.text(CARD_FILE))


def _plan(
    door: Repo, draft: Draft, remote: _Remote, owned: Collection[str], wishes: tuple[HowToPush, Version | None]
) -> _Plan:
    """Decide on the version and on the files."""
    how, wish = wishes
    config = read_config(remote.at.text(CONFIG_FILE))
    # What is known of a Library does not hold for one that it was merged into.
    facts = tuple(each for each in how.facts if not how.rebase or each.library_id == draft.library.id)
    facts = facts or known_facts(config, draft.library)
    here = max((version for version, commit in remote.tags.items() if commit == remote.at.commit), default=None)

    def plan(version: Version) -> _Plan:
        files = _files(door, draft, remote, version, facts)
        changes = file_changes(remote.at.tree, files, owned)
        return _Plan(version, files, changes, remote.at.library or EMPTY)

    latest = remote.latest
    stated = parse_version(config.version)
    open_one = stated if stated is not None and not how.bump and (latest is None or stated > latest) else None
    for known in (here, open_one):  # a version that is there, or only lacks its tag
        if known is not None and wish in (None, known):
            unchanged = plan(known)
            if not unchanged.changes:
                return unchanged
    if wish is not None and latest is not None and wish <= latest:
        free = tag_of(next_version(latest, None))
        message = f"{door.name} has published {tag_of(latest)}; {tag_of(wish)} is taken or comes before it."
        raise HubError(message, next_step=f"Choose a higher version, such as {free}.", status=409)
    return plan(wish or next_version(latest, how.bump or None))


def _files(door: Repo, draft: Draft, remote: _Remote, version: Version, facts: tuple[Facts, ...]) -> dict[str, bytes]:
    """Make all files of a version: the Library, the documents beside it, and what is generated."""
    earlier = max((each for each in remote.tags if each < version), default=None)
    previous = None
    if earlier is not None:
        try:
            library = fetch_snapshot(door, remote.tags[earlier]).library
        except LibraryError as error:
            if isinstance(error, HubError):
                raise
            library = None  # published by other means, and broken; there is nothing to compare with
        previous = (tag_of(earlier), library) if library is not None else None
    about = Subject(draft.library, door.name, tag_of(version).removeprefix("v"), previous, facts)
    card = make_card(about, remote.at.text(CARD_FILE) if draft.card is None else draft.card)
    chart = make_chart(draft.library)
    generated = {CARD_FILE: card, CONFIG_FILE: make_config(about)} | ({CHART_FILE: chart} if chart else {})
    return {**draft.files(), **{path: text.encode("utf-8") for path, text in generated.items()}}


def _commit(door: Repo, plan: _Plan, remote: _Remote, draft: Draft, *, pull: bool = False) -> tuple[str, str | None]:
    """Make the commit, and make sure that it holds what it should."""
    changes = plan.changes
    added = {path: plan.files[path] for path in (*changes.added, *changes.changed)}
    message = _title(plan, draft), _body(plan, draft)
    try:
        commit, url = door.commit(added, changes.deleted, remote.at.commit, message, pull=pull)
    except HubError as error:
        if error.status != 412:
            raise
        raise _stale(door, remote.at.commit, door.head().commit) from None
    tree = door.tree(commit)
    wrong = file_changes(tree, plan.files)
    lost = [*wrong.added, *wrong.changed, *(path for path in changes.deleted if path in tree)]
    if lost:
        # The client makes no commit when somebody has just pushed the very same files; theirs may hold more.
        raise _stale(door, remote.at.commit, commit)
    return commit, url


def _propose(door: Repo, plan: _Plan, remote: _Remote, draft: Draft) -> tuple[str, str | None]:
    """Make a pull request, unless the very same one is open."""
    title = _title(plan, draft)
    for other, revision, url in door.open_pulls():
        if other == title:
            commit = door.head(revision).commit
            if not file_changes(door.tree(commit), plan.files):
                return commit, url
    return _commit(door, plan, remote, draft, pull=True)


def _tag(door: Repo, version: Version, commit: str) -> bool:
    """Give the version its tag; say whether that was still to be done."""
    tag = tag_of(version)
    try:
        door.tag(tag, commit)
    except HubError as error:
        if error.status != 409:
            raise
        taken = door.head(tag).commit
        if taken == commit:
            return False
        message = f"{tag} of {door.name} was given to commit {taken[:7]}; the push is commit {commit[:7]}, without it."
        raise HubError(message, next_step="Push again with --bump patch.", status=409) from None
    return True


def _title(plan: _Plan, draft: Draft) -> str:
    return f"Library {tag_of(plan.version).removeprefix('v')} (id {draft.library.id[:12]})"


def _body(plan: _Plan, draft: Draft) -> str:
    found = diff_libraries(plan.before, draft.library)
    lines = [f"+ {entry.kind} {entry.name}" for entry in found.added]
    lines += [f"~ {each.after.kind} {each.name}" for each in found.changed]
    lines += [f"- {entry.kind} {entry.name}" for entry in found.removed]
    return "\n".join([*lines[:50], *(["..."] if len(lines) > 50 else []), f"Library id: {draft.library.id}"])


def _stale(door: Repo, base: str | None, head: str) -> StaleError:
    """Tell what others have pushed."""
    if base is None:
        message = f"{door.name} holds a Library already, and this one was not pulled from there."
        step = "Pull it first and push from its folder, or bring both together with --rebase."
        return StaleError(message, next_step=step, base=None, head=head)
    newer = list(takewhile(lambda each: each.commit != base, door.history(MAIN)))
    told = "; ".join(f"{shown(each.title)!r} by {shown(', '.join(each.authors), 40)}" for each in newer[:MAX_TOLD])
    message = f"{door.name} has moved on: yours began at {base[:7]}, the Hub is at {head[:7]}."
    step = "Run it again with --rebase to bring both together, or with --create-pr to propose yours."
    return StaleError(f"{message} Since then: {told}." if told else message, next_step=step, base=base, head=head)


def _diffs(at: Snapshot, plan: _Plan) -> dict[str, str]:
    diffs = {}
    for path in (*plan.changes.added, *plan.changes.changed, *plan.changes.deleted):
        before = at.text(path).split("\n") if at.text(path) else []
        after = plan.files.get(path, b"").decode("utf-8", "replace")
        lines = unified_diff(before, after.split("\n") if after else [], f"before/{path}", f"after/{path}", lineterm="")
        diffs[path] = "\n".join(lines)
    return diffs


def _settle(draft: Draft, plan: _Plan, taken: Mapping[str, str | None], origin: Origin, *, rebased: bool) -> None:
    """Bring the folder to what was pushed, and let it remember that. The note comes last."""
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
