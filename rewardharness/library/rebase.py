"""Rebases the local changes of a folder onto a newer commit on the Hub."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from rewardharness.errors import LibraryError
from rewardharness.hub.repository import Repo, Tree, git_id
from rewardharness.library.card import hand_written_text
from rewardharness.library.evolved import is_digest
from rewardharness.library.merge import Conflict, merge_libraries, three_way
from rewardharness.library.outgoing import CARD_FILE, CHART_FILE, CONFIG_FILE, DOCUMENTS, Draft
from rewardharness.library.snapshot import Snapshot, fetch_snapshot
from rewardharness.library.store import EMPTY, Library

MAX_TRIED = 5
"""Maximum number of commits that are searched for the ancestor of a Library."""


@dataclass(frozen=True)
class Rebased:
    """Result of a rebase."""

    draft: Draft
    """The merged draft, without the documents that are unchanged on the Hub."""
    owned: frozenset[str]
    """Documents that the local side removed and the other side did not change. They are deleted."""
    taken: Mapping[str, str | None]
    """Documents that the other side changed, by path; None for documents that it removed."""
    conflicts: tuple[Conflict, ...]
    """Items that both sides changed differently. The draft is usable only if there are none."""


def rebase(draft: Draft, base: Snapshot | None, theirs: Snapshot) -> Rebased:
    """Merge a draft with the state of the Hub, entry by entry and document by document.

    Args:
        draft: The local side.
        base: The common ancestor; None (unknown) is treated as empty.
        theirs: The state of the Hub.
    """
    ancestor_library = base.library if base is not None and base.library is not None else EMPTY
    merge = merge_libraries(ancestor_library, draft.library, theirs.library or EMPTY)
    card, card_conflict = _merged_card(draft, base, theirs)
    owned = frozenset(draft.origin.files if draft.origin is not None else ())
    paths = {path for path in {*draft.texts, *owned, *theirs.files} if _is_document(path, draft)}
    ours = {path: git_id(text.encode("utf-8")) for path, text in draft.texts.items()}
    original, current = _oids(base.tree if base is not None else {}, paths), _oids(theirs.tree, paths)
    merged, changed_by_both = three_way(original, ours, current)
    taken = {path for path in paths if merged.get(path) != ours.get(path)}
    conflicts = [*merge.conflicts, *card_conflict]
    conflicts += [Conflict(path, "both sides changed this document.") for path in changed_by_both]
    missing = sorted(path for path in taken if path in theirs.tree and path not in theirs.files)
    conflicts += [Conflict(path, "the other side changed this document, which is not downloaded.") for path in missing]
    texts = {path: text for path, text in draft.texts.items() if path not in taken}
    return Rebased(
        replace(draft, library=merge.library, texts=texts, card=card),
        frozenset(path for path in paths if path not in merged and path in current),
        {path: theirs.text(path) if path in theirs.files else None for path in taken},
        tuple(conflicts),
    )


def ancestor(hub: Repo, library: Library, head: Snapshot) -> str | None:
    """Return the published commit that contains a Library or its most recent ancestor by lineage, or None.

    Args:
        hub: The repository.
        library: The local Library.
        head: The newest commit of the repository.
    """
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


def _is_document(path: str, draft: Draft) -> bool:
    """Whether a file is merged as a whole, because it is neither generated nor part of the Library."""
    generated = {CARD_FILE, CONFIG_FILE, CHART_FILE}
    return path in DOCUMENTS or (path in draft.texts and path not in generated)


def _oids(tree: Tree, paths: set[str]) -> dict[str, str]:
    return {path: tree[path].oid for path in paths if path in tree}


def _merged_card(draft: Draft, base: Snapshot | None, theirs: Snapshot) -> tuple[str, list[Conflict]]:
    """Return the card whose hand-written text was changed."""
    their_card = theirs.text(CARD_FILE)
    if draft.card is None:
        return their_card, []
    original = hand_written_text(base.text(CARD_FILE) if base is not None else "")
    ours, current = hand_written_text(draft.card), hand_written_text(their_card)
    if ours in (original, current):
        return their_card, []
    if current == original:
        return draft.card, []
    return their_card, [Conflict(CARD_FILE, "both sides changed its hand-written text.")]
