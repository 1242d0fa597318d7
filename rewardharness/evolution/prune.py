"""Pruning: an entry goes when there is evidence that the judge does better without it."""

from rewardharness.evolution.proposal import Proposal, wording
from rewardharness.library.store import Library, RemoveEntry

LEAST_TOUCHED = 20
"""Examples of the pool that an entry must touch to be looked at: of one for rare cases they cannot say enough."""

PRUNING = "pruning"
"""Who proposes to do without an entry. No label is looked at for it, so the whole pool counts as evidence."""


def prune_order(library: Library) -> tuple[str, ...]:
    """Names of the entries that are not protected, those with the longest text first."""
    sizes = {entry.name: len(wording(entry)) for entry in library.entries if not entry.protected}
    return tuple(sorted(sizes, key=lambda name: (-sizes[name], name)))


def removal(library: Library, name: str) -> Proposal:
    """The proposal to do without an entry."""
    entry = library.get(name)
    assert entry is not None
    what = f"the {entry.kind} {name}"
    return Proposal("remove", (RemoveEntry(name, "pruned"),), f"Do without {what}.", (), PRUNING, ("prune", name))
