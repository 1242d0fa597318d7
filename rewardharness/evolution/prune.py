"""Pruning: an entry is removed if there is evidence that the judge does better without it."""

from rewardharness.evolution.proposal import Proposal, wording
from rewardharness.library.store import Library, RemoveEntry

LEAST_TOUCHED = 20
"""Training examples that an entry must touch to be considered; fewer give too little evidence."""

PRUNING = "pruning"
"""Source of proposals to remove an entry. They use no labels, so all training examples count as evidence."""


def prune_order(library: Library) -> tuple[str, ...]:
    """Return the names of the entries that are not protected, the longest texts first."""
    sizes = {entry.name: len(wording(entry)) for entry in library.entries if not entry.protected}
    return tuple(sorted(sizes, key=lambda name: (-sizes[name], name)))


def removal(library: Library, name: str) -> Proposal:
    """Return the proposal to remove an entry."""
    entry = library.get(name)
    assert entry is not None
    statement = f"Remove the {entry.kind} {name}."
    return Proposal("remove", (RemoveEntry(name, "pruned"),), statement, (), PRUNING, ("prune", name))
