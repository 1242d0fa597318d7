"""Findings about the structure of a Library: Skills that could be merged, and Skills that should be split.

Findings about failures show neither redundant Skills nor Skills that suit only one kind of edit. Rules find both here.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations

from rewardharness.evolution.analyzer import kind_of, missed
from rewardharness.evolution.evolver import similarity
from rewardharness.evolution.proposal import MAX_CITED, Finding, Outcome, View
from rewardharness.library.entry import Entry

ALIKE = 0.4
"""Share of common wording from which on two Skills overlap."""
TOGETHER = 0.8
"""Share of the examples on which either of two Skills is consulted, on which both must be for them to overlap."""
LEAST = 4
"""Examples on which Skills must be consulted for anything to be said of them."""
UNEVEN = 0.4
"""Difference between the shares of misses of two kinds of edit from which on one Skill does not suit both."""


@dataclass(frozen=True)
class Overlap:
    """What two Skills have in common."""

    measures: tuple[str, ...]
    """Measures by which both grade the same edits, which then count twice."""
    alike: float
    """Share of common wording, in [0, 1]."""

    @property
    def enough(self) -> bool:
        """Whether the Skills overlap enough for a finding."""
        return bool(self.measures) or self.alike >= ALIKE


def overlap(first: Entry, second: Entry) -> Overlap:
    """Compare what two Skills say, wherever they are consulted."""
    measures = {
        one.measure: None
        for one in (first.rubric.criteria if first.rubric else ())
        for other in (second.rubric.criteria if second.rubric else ())
        if one.measure is not None and one.measure == other.measure and _same_edits(one.applies, other.applies)
    }
    return Overlap(tuple(name for name in measures if name), similarity(first.body, second.body))


def shape_findings(view: View) -> tuple[Finding, ...]:
    """Find Skills to merge and Skills to split, in this order, without those of rejected edits.

    Each finding cites at most `MAX_CITED` examples.
    """
    consulted: dict[str, list[Outcome]] = defaultdict(list)
    for outcome in view.outcomes:
        for entry in outcome.judgment.entries:
            consulted[entry.name].append(outcome)
    return (*_mergers(view, consulted), *_splits(view, consulted))


def _mergers(view: View, consulted: Mapping[str, Sequence[Outcome]]) -> Iterator[Finding]:
    tried = {frozenset(each.names) for each in view.rejected if each.operator == "merge"}
    for first, second in combinations(view.library.skills, 2):
        ids = [{each.example.id for each in consulted[name]} for name in (first.name, second.name)]
        both, either = ids[0] & ids[1], ids[0] | ids[1]
        if len(both) < LEAST or len(both) < TOGETHER * len(either) or is_general(first) != is_general(second):
            continue
        common = overlap(first, second)
        if not common.enough or any({first.name, second.name} <= names for names in tried):
            continue
        what = [f"both grade by {', '.join(common.measures)}, which so counts twice"] if common.measures else []
        what += [f"they share {common.alike:.0%} of their wording"] if common.alike >= ALIKE else []
        statement = (
            f"The Skills `{first.name}` and `{second.name}` overlap: both are consulted on {len(both)} of the "
            f"{len(either)} examples on which either is, and {' and '.join(what)}. One Skill could say what both say."
        )
        yield _finding(statement, [each for each in consulted[first.name] if each.example.id in both])


def _splits(view: View, consulted: Mapping[str, Sequence[Outcome]]) -> Iterator[Finding]:
    tried = {name for each in view.rejected if each.operator in {"split", "retrigger"} for name in each.names}
    for entry in view.library.skills:
        if entry.name in tried or is_general(entry):
            continue
        by_kind: dict[str, list[Outcome]] = defaultdict(list)
        for outcome in consulted[entry.name]:
            by_kind[kind_of(outcome.example)].append(outcome)
        shares = {
            kind: sum(map(missed, each)) / len(each) for kind, each in sorted(by_kind.items()) if len(each) >= LEAST
        }
        if not shares or max(shares.values()) - min(shares.values()) < UNEVEN:
            continue
        good, bad = min(shares, key=lambda kind: shares[kind]), max(shares, key=lambda kind: shares[kind])
        counts = {kind: f"{sum(map(missed, by_kind[kind]))} of {len(by_kind[kind])} missed" for kind in (good, bad)}
        statement = (
            f"The Skill `{entry.name}` is consulted for edits of kind {good} ({counts[good]}) and of kind {bad} "
            f"({counts[bad]}). What it says may suit only the first: split it, or change when it applies."
        )
        yield _finding(statement, by_kind[bad])


def _finding(statement: str, outcomes: Sequence[Outcome]) -> Finding:
    ordered = sorted(outcomes, key=lambda each: (not missed(each), each.example.id))
    cited = tuple(each.example.id for each in ordered[:MAX_CITED])
    kinds = [kind for kind, _ in Counter(kind_of(each.example) for each in ordered).most_common(MAX_CITED)]
    failures = sum(map(missed, outcomes))
    return Finding(statement, cited, tuple(kinds), failures, len(outcomes) - failures)


def is_general(entry: Entry) -> bool:
    """Whether an entry is consulted for every instruction."""
    return any(trigger.always for trigger in entry.triggers)


def _same_edits(one: Sequence[str], other: Sequence[str]) -> bool:
    return not one or not other or bool(set(one) & set(other))
