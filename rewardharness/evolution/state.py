"""Where a run stands: a value that a step turns into the next one. Whoever has it can go on."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from statistics import fmean

from rewardharness.evolution.gate import Noise, Standing
from rewardharness.evolution.proposal import Finding, Outcome, Phase, Proposal, Tried
from rewardharness.evolution.trial import first_standing, worth
from rewardharness.files import content_id
from rewardharness.library.store import Library


@dataclass(frozen=True)
class Pending:
    """A proposal that waits for its turn at the gate."""

    proposal: Proposal
    base: Mapping[str, str]
    """Id of each entry that it touches as the proposer saw it; empty text for one that was not there."""
    single: bool = False
    """Whether it is tried on its own, and not in one bundle with the others of its round."""
    rehearsed: bool = False
    """Whether the Tool that it holds has been tried."""

    @classmethod
    def of(cls, proposal: Proposal, library: Library, *, single: bool = False) -> "Pending":
        """Remember what a proposal was made for."""
        return cls(proposal, {name: entry_id(library, name) for name in proposal.names}, single)

    def stale(self, library: Library) -> bool:
        """Whether an entry that it touches has changed since."""
        return any(entry_id(library, name) != seen for name, seen in self.base.items())


@dataclass(frozen=True)
class State:
    """Where a run stands, between two steps."""

    library: Library
    """The champion."""
    outcomes: Mapping[str, Outcome]
    """What it makes of each example that gates look at, by id."""
    standings: Mapping[str, Standing]
    """How steadily each is judged; none for those without a judgment."""
    step: int = 0
    phase: Phase = "skills"
    round: int = 0
    """Rounds of proposals so far."""
    idle: int = 0
    """Rounds in a row in which nothing was kept."""
    gained: bool = False
    """Whether something was kept since the Skills had their turn."""
    proposed: int = 0
    accepted: int = 0
    tests: int = 0
    """Acceptance tests of rounds so far; each spends a part of the error budget."""
    single_tests: int = 0
    """The same for single edits after their bundle was rejected, and for pruning."""
    pending: tuple[Pending, ...] = ()
    rejected: tuple[Tried, ...] = ()
    findings: tuple[Finding, ...] = ()
    queue: tuple[str, ...] | None = None
    """Names of entries that pruning has not looked at yet; None before pruning begins."""
    prune_limit: int = 0
    """Judgments spent at which pruning ends."""
    best: float | None = None
    """Best accuracy so far on the examples that gates look at; only the paper's schedule keeps it."""
    silent: int = 0
    """Rounds in a row in which the Orchestrator gave no answer."""
    twice: frozenset[str] = frozenset()
    """Ids of examples whose outcome is a second opinion."""
    version: int = 0
    """Number of the champion: how many edits were kept, pruning included."""
    ending: str = ""
    """Why the search ended; empty while it goes on."""

    @property
    def accuracy(self) -> float | None:
        """Credit per judged example among those that gates look at; None when none was judged."""
        credits = [outcome.credit for outcome in self.outcomes.values() if outcome.judged]
        return fmean(credits) if credits else None

    def judged(self, outcomes: Mapping[str, Outcome], noise: Noise, *, kept: bool) -> "State":
        """Take in what was judged.

        Args:
            outcomes: By example id.
            noise: How answers are weighed.
            kept: Whether they are the champion's from now on; else they only tell how steady the examples are.
        """
        standings = dict(self.standings)
        for name, outcome in outcomes.items():
            value, known = worth(outcome), standings.get(name)
            if value is None:
                if kept:
                    standings.pop(name, None)
            elif kept:
                standings[name] = known.renewed(value, noise) if known else Standing(value, 1.0)
            elif known and outcome.judged and self.outcomes[name].judged:
                standings[name] = known.remembering(value, noise)
        if not kept:
            return replace(self, standings=standings)
        champion = {**self.outcomes, **outcomes}
        return replace(self, standings=standings, outcomes=champion, twice=self.twice - outcomes.keys())

    def confirmed(self, outcomes: Iterable[Outcome]) -> "State":
        """Take in second opinions on the champion: they take the place of the first."""
        standings, known, twice = dict(self.standings), dict(self.outcomes), set(self.twice)
        for outcome in outcomes:
            name, value = outcome.example.id, worth(outcome)
            if value is not None and name in standings:
                standings[name] = standings[name].confirmed(value)
                known[name] = outcome
                twice.add(name)
        return replace(self, standings=standings, outcomes=known, twice=frozenset(twice))


def begin(library: Library, outcomes: Iterable[Outcome]) -> State:
    """The state of a run whose examples were judged with the starting Library."""
    known = {outcome.example.id: outcome for outcome in outcomes}
    standings = {name: standing for name, outcome in known.items() if (standing := first_standing(outcome))}
    return State(library, known, standings)


def entry_id(library: Library, name: str) -> str:
    """Id of an entry; empty text when there is none."""
    entry = library.get(name)
    return entry.entry_id if entry is not None else ""


def chance(*parts: object) -> int:
    """A random seed that depends on nothing but its arguments. Steps need no random state of their own by it."""
    return int(content_id([str(part) for part in parts])[:12], 16)
