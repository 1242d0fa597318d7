"""Puts the changes of a folder on top of what others have pushed meanwhile."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace

from rewardharness.errors import LibraryError
from rewardharness.hub.repository import Repo, Tree, git_id
from rewardharness.library.card import own_words
from rewardharness.library.evolved import is_digest
from rewardharness.library.merge import Conflict, merge_libraries, three_way
from rewardharness.library.outgoing import CARD_FILE, CHART_FILE, CONFIG_FILE, DOCUMENTS, Draft
from rewardharness.library.snapshot import Snapshot, fetch_snapshot
from rewardharness.library.store import EMPTY, Library

MAX_TRIED = 5
"""Commits that are looked into for what a Library grew from, at most."""


@dataclass(frozen=True)
class Rebased:
    """What came of it."""

    draft: Draft
    """Both sides together. Documents that are as on the Hub are left out."""
    owned: frozenset[str]
    """Documents that we removed and nobody changed: they go."""
    taken: Mapping[str, str | None]
    """Documents that others changed, by path; None for those that they removed."""
    conflicts: tuple[Conflict, ...]
    """What both sides changed, each in its own way; when there is any, the draft is of no use."""


def rebase(draft: Draft, base: Snapshot | None, theirs: Snapshot) -> Rebased:
    """Bring a draft and what is on the Hub together, entry by entry and document by document.

    Args:
        draft: Our side.
        base: What both sides began with; None when that is not known, as if it had been empty.
        theirs: What is on the Hub.
    """
    began = base.library if base is not None and base.library is not None else EMPTY
    merge = merge_libraries(began, draft.library, theirs.library or EMPTY)
    card, card_conflict = _merged_card(draft, base, theirs)
    owned = frozenset(draft.origin.files if draft.origin is not None else ())
    paths = {path for path in {*draft.texts, *owned, *theirs.files} if _is_document(path, draft)}
    ours = {path: git_id(text.encode("utf-8")) for path, text in draft.texts.items()}
    was, now = _oids(base.tree if base is not None else {}, paths), _oids(theirs.tree, paths)
    merged, clashes = three_way(was, ours, now)
    taken = {path for path in paths if merged.get(path) != ours.get(path)}
    conflicts = [*merge.conflicts, *card_conflict]
    conflicts += [Conflict(path, "both sides changed this document.") for path in clashes]
    unknown = sorted(path for path in taken if path in theirs.tree and path not in theirs.files)
    conflicts += [Conflict(path, "they changed this document, which is not fetched.") for path in unknown]
    texts = {path: text for path, text in draft.texts.items() if path not in taken}
    return Rebased(
        replace(draft, library=merge.library, texts=texts, card=card),
        frozenset(path for path in paths if path not in merged and path in now),
        {path: theirs.text(path) if path in theirs.files else None for path in taken},
        tuple(conflicts),
    )


def ancestor(door: Repo, library: Library, head: Snapshot) -> str | None:
    """Find the published commit that a Library is, or grew from last by its own lineage; None without one.

    Args:
        door: The repository.
        library: Our side.
        head: Its newest commit.
    """
    if head.library is None or head.library.id == library.id:
        return head.commit if head.library is not None else None
    told = (record.get(key) for record in reversed(library.lineage) for key in ("library", "parent"))
    past = door.history()
    tried = 0
    for grown in dict.fromkeys([library.id, *(each for each in told if is_digest(each))]):
        if head.library.id == grown:
            return head.commit
        for each in past:
            # A title is foreign text: what counts is the content.
            if f"(id {grown[:12]})" in each.title and tried < MAX_TRIED:
                tried += 1
                with suppress(LibraryError):
                    found = fetch_snapshot(door, each.commit).library
                    if found is not None and found.id == grown:
                        return each.commit
    return None


def _is_document(path: str, draft: Draft) -> bool:
    """Whether a file is merged as a whole: it is neither generated nor part of the Library."""
    generated = {CARD_FILE, CONFIG_FILE, CHART_FILE}
    return path in DOCUMENTS or (path in draft.texts and path not in generated)


def _oids(tree: Tree, paths: set[str]) -> dict[str, str]:
    return {path: tree[path].oid for path in paths if path in tree}


def _merged_card(draft: Draft, base: Snapshot | None, theirs: Snapshot) -> tuple[str, list[Conflict]]:
    """Choose the card whose hand-written text was changed."""
    their_card = theirs.text(CARD_FILE)
    if draft.card is None:
        return their_card, []
    was = own_words(base.text(CARD_FILE) if base is not None else "")
    ours, now = own_words(draft.card), own_words(their_card)
    if ours in (was, now):
        return their_card, []
    if now == was:
        return draft.card, []
    return their_card, [Conflict(CARD_FILE, "both sides changed what is written by hand in it.")]
