"""Pruning: an entry goes when the pool does as well without it. Shorter Libraries are cheaper and mislead less."""

import math
from collections.abc import Mapping
from dataclasses import dataclass

from rewardharness.evolution.gate import Tally, Verdict
from rewardharness.evolution.proposal import Outcome, Proposal, wording
from rewardharness.library.store import Library, RemoveEntry
from rewardharness.schema import Judgment

LEAST_TOUCHED = 10
"""Examples of the pool that an entry must touch to be looked at: of one for rare cases they cannot say enough."""

Z80 = 0.8416212335729143
"""Standard normal quantile of a one-sided 80 % bound."""


@dataclass(frozen=True)
class NonInferiorityGate:
    """Lets an entry go if that breaks no more than it fixes, and the loss on the pool is surely below `margin`.

    The bound is the one-sided interval of a difference of paired shares with half an observation added on
    either side, `d + z * sqrt((W + L + 1 - n d^2) / n^2)` for d = (L - W) / n, so that seeing nothing is not certainty.
    """

    pool: int
    """Examples of the pool: those that the entry does not touch count as unchanged."""
    margin: float = 0.03
    """Loss of accuracy, in [0, 1], from which on an entry is worth its place."""

    @property
    def name(self) -> str:
        """For records and for people."""
        return "non-inferiority"

    def decide(self, tally: Tally) -> Verdict | None:
        """Decide; see `gate.Policy`."""
        said = f"{tally.fixes} fixed, {tally.breaks} broken"
        if tally.losses > tally.gains + (tally.hope if tally.left else 0.0):
            return Verdict("reject", f"{said}: more would be lost than gained")
        if tally.left:
            return None
        n = self.pool + 1
        loss = (tally.losses - tally.gains) / n
        bound = loss + Z80 * math.sqrt((tally.gains + tally.losses + 1 - n * loss * loss) / (n * n))
        words = f"{said}: at most {bound:.1%} of the pool lost (80 % bound)"
        return Verdict("accept" if bound < self.margin else "reject", words)


def prune_order(library: Library) -> tuple[str, ...]:
    """Names of all entries, those with the longest text first."""
    sizes = {entry.name: len(wording(entry)) for entry in library.entries}
    return tuple(sorted(sizes, key=lambda name: (-sizes[name], name)))


def removal(library: Library, name: str) -> Proposal:
    """The proposal to do without an entry."""
    entry = library.get(name)
    assert entry is not None
    what = f"the {entry.kind} {name}"
    return Proposal("remove", (RemoveEntry(name, "pruned"),), f"Do without {what}.", (), "pruning", ("prune", name))


def unread(before: Mapping[str, Outcome], after: Mapping[str, Outcome]) -> bool:
    """Whether taking an entry away changed no judgment in any way: this judge does not read it.

    Its evidence is then worth nothing. Guidance in words stays when the measured judge prunes.
    """
    return all(_alike(before[name].judgment, outcome.judgment) for name, outcome in after.items())


def _alike(one: Judgment, other: Judgment) -> bool:
    if one.preference != other.preference or one.scores.keys() != other.scores.keys():
        return False
    rewards = [(each.worth, other.scores[label].worth) for label, each in one.scores.items()]
    return all(math.isclose(before, after, abs_tol=1e-9) for before, after in rewards)
