"""Ideas for edits of a Library, and the context that they are made in."""

from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from rewardharness.evolution.builtin.forecast import Forecast, ForecastCase
from rewardharness.evolution.builtin.phrasing import note, with_note, without_note
from rewardharness.evolution.proposal import Operator
from rewardharness.evolution.shape import is_general
from rewardharness.library.entry import Entry
from rewardharness.library.rubric import Criterion, Rubric
from rewardharness.library.store import Change, Library, RemoveEntry
from rewardharness.measure.table import MEASURES

MAIN_SHARE = 0.5
"""Minimum share of the examples of a kind on which the main Skill of the kind is consulted."""


@dataclass(frozen=True)
class Idea:
    """An edit that might help."""

    operator: Operator
    changes: tuple[Change, ...]
    key: tuple[str, ...]
    """Identifies the idea. See `Proposal.idea`."""
    says: str
    """What it does, and the evidence for it, in sentences."""

    @property
    def names(self) -> frozenset[str]:
        """Entries that it touches."""
        return frozenset(each.name if isinstance(each, RemoveEntry) else each.entry.name for each in self.changes)


@dataclass(frozen=True)
class RoundContext:
    """The data of one round, for all kinds of ideas."""

    forecast: Forecast
    measures: Sequence[str]
    """Measures that may be used."""

    @property
    def library(self) -> Library:
        """The Library to improve."""
        return self.forecast.view.library

    @cached_property
    def kinds(self) -> dict[str, list[ForecastCase]]:
        """The examples by the kind of edit that they ask for."""
        found: dict[str, list[ForecastCase]] = defaultdict(list)
        for case in self.forecast.cases:
            found[case.kind].append(case)
        return dict(sorted(found.items()))

    @cached_property
    def homes(self) -> dict[str, Entry | None]:
        """The main Skill of each kind of edit: consulted for most such examples and for few others."""
        return {kind: self._home({case.id for case in cases}) for kind, cases in self.kinds.items()}

    def _home(self, wanted: set[str]) -> Entry | None:
        found: list[tuple[float, str]] = []
        for entry in self.library.skills:
            reached = {case.id for case in self.forecast.reach(entry)}
            here = len(reached & wanted)
            if not is_general(entry) and here >= MAIN_SHARE * len(wanted):
                found.append((0.5 * len(reached - wanted) - here, entry.name))
        return self.library.get(min(found)[1]) if found else None

    def measured(self) -> Iterator[tuple[Entry, Criterion]]:
        """All criteria that a measure grades."""
        for entry in self.library.skills:
            for criterion in entry.rubric.criteria if entry.rubric else ():
                if criterion.measure in MEASURES and criterion.weight > 0:
                    yield entry, criterion

    def judged_by(self, entry: Entry, criterion: Criterion) -> list[ForecastCase]:
        """The examples on which a criterion counts."""
        return [
            case
            for case in self.forecast.reach(entry)
            if not criterion.applies or set(criterion.applies) & set(case.request.kinds)
        ]


def free_name(library: Library, name: str) -> str:
    """Return a name that no entry has."""
    names = [name, *(f"{name}-{number}" for number in range(2, len(library) + 3))]
    return next(each for each in names if each not in library)


def free_id(entry: Entry | None, name: str) -> str:
    """Return an id that no criterion of a Skill has."""
    taken = {each.id for each in entry.rubric.criteria} if entry is not None and entry.rubric else set()
    names = [name, *(f"{name}-{number}" for number in range(2, len(taken) + 3))]
    return next(each for each in names if each not in taken)


def with_criterion(entry: Entry, criterion: Criterion, why: str) -> Entry:
    """Give a Skill one more criterion, in its rubric and in its body."""
    criteria = entry.rubric.criteria if entry.rubric else ()
    rubric = Rubric((*criteria, criterion), entry.rubric.extra if entry.rubric else {})
    return replace(entry, rubric=rubric, body=with_note(entry.body, note(criterion, why)))


def with_other(entry: Entry, old: Criterion, new: Criterion) -> Entry:
    """Put a criterion in the place of another."""
    assert entry.rubric is not None
    criteria = tuple(new if each.id == old.id else each for each in entry.rubric.criteria)
    return replace(entry, rubric=replace(entry.rubric, criteria=criteria))


def without_criterion(entry: Entry, criterion: Criterion) -> Entry:
    """Take a criterion out of a Skill; a rubric that would have no weight left goes as a whole."""
    assert entry.rubric is not None
    rest = tuple(each for each in entry.rubric.criteria if each.id != criterion.id)
    rubric = replace(entry.rubric, criteria=rest) if any(each.weight > 0 for each in rest) else None
    return replace(entry, rubric=rubric, body=without_note(entry.body, criterion))
