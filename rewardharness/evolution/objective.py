"""Objectives of a search over Libraries: pure functions of judged pairs.

With the weights of `Objective` in parentheses, the objective of a Library is

    J = (all_pairs · s(A, n) + hard_pairs · s(H, n_H) + generators · mean_g s(C_g, n_g)) / (sum of the three weights)
        - variance · V - inconsistency · W - length · L / (L + reference)

    s(x, N) = 1/2 + N / (N + K) · (x - 1/2)                            shrinkage, with `prior` as K
    A         accuracy on all pairs that people ranked
    H         accuracy on the hard pairs: the share `hard_fraction` of all pairs with the smallest gap between the
              candidates in the ranking or the votes of people
    C_g       accuracy on the pairs of two different generators, for each pair of generators
    V         mean variance of the margin over repeated samples with the same seeds for all Libraries
    W         share of contradictions among the pairs judged in both presentation orders
    L         characters of the Library

The accuracy on pairs judged in both orders is their mean credit. The accuracy on pairs judged in one order is the mean
of two accuracies: with the preferred candidate first, and second. If all are of one side, agreement cannot be told from
position bias, and their accuracy is 1/2. A judge that always prefers the first candidate therefore has accuracy 1/2
with every Library. A pair without a judgment is part of no term.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from statistics import fmean
from types import MappingProxyType
from typing import Protocol

from rewardharness.errors import InputError, shown
from rewardharness.evolution.proposal import Outcome
from rewardharness.judging.groups import rank
from rewardharness.schema import TIE, Judgment


@dataclass(frozen=True)
class JudgedPair:
    """Two candidates that people ranked, as judged with one Library."""

    group: str
    """Id of the example, or of what all candidates of a ranking share."""
    better: str
    """The candidate that people prefer. If people are undecided, either one."""
    worse: str
    credit: float | None
    """Agreement of the judgment with people, in [0, 1]; None without a judgment."""
    margin: float | None = None
    """Margin of `better` over `worse`, in [-1, 1]; None if unknown."""
    gap: float = 1.0
    """Distance of the candidates according to people, in [0, 1]: of their ranks, or of their shares of the votes. 0 if
    people are undecided."""
    variance: float | None = None
    """Variance of the margin over repeated samples; None if there is one sample."""
    consistent: bool | None = None
    """Whether both presentation orders give the same preference; None if one order was judged."""
    better_first: bool | None = None
    """Whether the only presentation order had `better` first; None for both orders, or if order has no effect."""
    generators: tuple[str, str] | None = None
    """Who made `better` and `worse`. Assigned after judging; no judge sees it."""

    @property
    def key(self) -> tuple[str, frozenset[str]]:
        """Identifies the pair, whatever the judgment."""
        return self.group, frozenset({self.better, self.worse})


@dataclass(frozen=True)
class ObjectiveValue:
    """The value of an objective, with its terms."""

    value: float
    terms: Mapping[str, float]
    judged: int
    """Number of judged pairs."""
    n: int
    """Number of pairs."""


class AnyObjective(Protocol):
    """Rates a Library by its judged pairs."""

    @property
    def name(self) -> str:
        """Name, for configurations and reports."""

    def __call__(self, pairs: Sequence[JudgedPair], length: int = 0) -> ObjectiveValue:
        """Return the value.

        Args:
            pairs: Pairs judged with the Library.
            length: Characters of the Library.
        """


@dataclass(frozen=True)
class Objective:
    """The weights of the objective that the module documents."""

    name: str = "default"
    all_pairs: float = 1.0
    hard_pairs: float = 0.25
    generators: float = 0.25
    variance: float = 0.2
    inconsistency: float = 0.1
    length: float = 0.02
    prior: float = 8.0
    """Number of pairs at which an accuracy counts half; 0 for no shrinkage."""
    hard_fraction: float = 0.25
    reference: int = 20_000
    """Characters of a Library at which half of `length` is subtracted."""

    def __post_init__(self) -> None:
        weights = (self.all_pairs, self.hard_pairs, self.generators, self.variance, self.inconsistency, self.length)
        if not all(math.isfinite(each) and each >= 0 for each in (*weights, self.prior)) or self.all_pairs == 0:
            raise InputError(
                f"The weights of the objective {self.name!r} are not usable.",
                next_step="Give finite weights of at least 0, and all_pairs above 0.",
            )
        if not 0 < self.hard_fraction <= 1 or self.reference <= 0:
            raise InputError(
                f"The hard_fraction or reference of the objective {self.name!r} is not usable.",
                next_step="Give a hard_fraction above 0 and up to 1, and a reference above 0.",
            )

    def __call__(self, pairs: Sequence[JudgedPair], length: int = 0) -> ObjectiveValue:
        """Return the value of a Library, as the module documents.

        Args:
            pairs: Pairs judged with the Library.
            length: Characters of the Library.
        """
        judged = [pair for pair in pairs if pair.credit is not None]
        hard = _judged_among(hard_pairs(pairs, self.hard_fraction))
        terms = {
            "accuracy": accuracy(judged),
            "hard pairs": self._shrunk(hard),
            "generators": self._by_generators(judged),
            "variance": _mean([pair.variance for pair in judged if pair.variance is not None]),
            "inconsistency": _mean([float(not pair.consistent) for pair in judged if pair.consistent is not None]),
            "length": length / (length + self.reference),
        }
        value = self.all_pairs * self._shrunk(judged)
        value += self.hard_pairs * terms["hard pairs"] + self.generators * terms["generators"]
        value /= self.all_pairs + self.hard_pairs + self.generators
        value -= self.variance * terms["variance"] + self.inconsistency * terms["inconsistency"]
        return ObjectiveValue(value - self.length * terms["length"], terms, len(judged), len(pairs))

    def _shrunk(self, judged: Sequence[JudgedPair]) -> float:
        return shrunk(accuracy(judged), len(judged), self.prior)

    def _by_generators(self, judged: Sequence[JudgedPair]) -> float:
        """Return the mean over pairs of generators; the accuracy on all pairs where generators are unknown."""
        strata: dict[frozenset[str], list[JudgedPair]] = defaultdict(list)
        for pair in judged:
            if pair.generators and pair.generators[0] != pair.generators[1]:
                strata[frozenset(pair.generators)].append(pair)
        return fmean(map(self._shrunk, strata.values())) if strata else self._shrunk(judged)


@dataclass(frozen=True)
class TailObjective:
    """The objective of an earlier search over rubrics, for comparison only.

    It takes the candidates that the judge itself ranks highest in each group, and counts the pairs among them:
    J = s(accuracy) - variance_weight · V + generator_weight · s(accuracy on pairs of different generators). A Library
    that ranks the worst candidates first may get the highest value, because no other pair counts.
    """

    name: str = "tail"
    fraction: float = 0.25
    variance_weight: float = 0.2
    generator_weight: float = 0.25
    prior: float = 8.0

    def __call__(self, pairs: Sequence[JudgedPair], length: int = 0) -> ObjectiveValue:
        """Return the value of a Library; its length has no effect."""
        groups: dict[str, list[JudgedPair]] = defaultdict(list)
        for pair in pairs:
            if pair.margin is not None and pair.gap > 0:
                groups[pair.group].append(pair)
        tail = [pair for group in groups.values() for pair in self._tail(group)]
        crossed = [pair for pair in tail if pair.generators and pair.generators[0] != pair.generators[1]]
        right = _mean([float(pair.margin is not None and pair.margin > 0) for pair in tail], 0.5)
        across = _mean([float(pair.margin is not None and pair.margin > 0) for pair in crossed], right)
        spread = _mean([pair.variance for pair in tail if pair.variance is not None])
        terms = {"accuracy": right, "generators": across, "variance": spread}
        value = shrunk(right, len(tail), self.prior) - self.variance_weight * spread
        value += self.generator_weight * shrunk(across, len(tail), self.prior)
        return ObjectiveValue(value, terms, len(tail), len(pairs))

    def _tail(self, group: Sequence[JudgedPair]) -> list[JudgedPair]:
        names = sorted({name for pair in group for name in (pair.better, pair.worse)})
        order = rank(names, {(pair.better, pair.worse): pair.margin or 0.0 for pair in group})
        size = min(len(names), max(2, math.ceil(self.fraction * len(names))))
        top = {name for name in [each for level in order for each in level][:size]}
        return [pair for pair in group if {pair.better, pair.worse} <= top]


ACCURACY = Objective("accuracy", 1.0, 0.0, 0.0, 0.0, 0.0, 0.0, prior=0.0)
"""Accuracy on all pairs, and nothing else."""
DEFAULT = Objective()
"""The objective with its default weights."""
OBJECTIVES: Mapping[str, AnyObjective] = MappingProxyType(
    {each.name: each for each in (DEFAULT, ACCURACY, TailObjective())}
)
"""Objectives by name."""


def objective_named(name: str) -> AnyObjective:
    """Return an objective.

    Raises:
        InputError: If there is none of this name.
    """
    if name not in OBJECTIVES:
        raise InputError(
            f"Unknown objective '{shown(name, 40)}'.", next_step=f"Choose one of: {', '.join(OBJECTIVES)}."
        )
    return OBJECTIVES[name]


def paired_gain(
    objective: AnyObjective,
    before: Sequence[JudgedPair],
    after: Sequence[JudgedPair],
    *,
    lengths: tuple[int, int] = (0, 0),
) -> float:
    """Return the gain of one Library over another on the pairs that were judged with both.

    Args:
        objective: The objective.
        before: Pairs judged with the first Library.
        after: The same pairs, judged with the second Library.
        lengths: Characters of both Libraries.

    Returns:
        The difference of the objectives, positive if the second Library is better; 0 without common pairs.
    """
    first, second = ({pair.key: pair for pair in pairs if pair.credit is not None} for pairs in (before, after))
    common = sorted(first.keys() & second.keys(), key=lambda key: (key[0], sorted(key[1])))
    if not common:
        return 0.0
    value = objective([second[key] for key in common], lengths[1]).value
    return value - objective([first[key] for key in common], lengths[0]).value


def accuracy(pairs: Iterable[JudgedPair]) -> float:
    """Return the accuracy on judged pairs, with presentation orders in equal shares; 1/2 without judgments."""
    sides: dict[bool | None, list[float]] = {None: [], True: [], False: []}
    for pair in pairs:
        if pair.credit is not None:
            sides[pair.better_first].append(pair.credit)
    both, single = len(sides[None]), len(sides[True]) + len(sides[False])
    if not both + single:
        return 0.5
    balanced = (fmean(sides[True]) + fmean(sides[False])) / 2 if sides[True] and sides[False] else 0.5
    return (both * _mean(sides[None], 0.5) + single * balanced) / (both + single)


def shrunk(value: float, n: int, prior: float) -> float:
    """Return an accuracy on n pairs, drawn toward 1/2: halfway for as many pairs as `prior`."""
    return 0.5 + (n / (n + prior) if n else 0.0) * (value - 0.5)


def hard_pairs(pairs: Sequence[JudgedPair], fraction: float) -> list[JudgedPair]:
    """Return the pairs whose candidates people find closest.

    The choice depends on people only, not on judgments. Pairs on which people are undecided are left out. With equal
    gaps everywhere, all pairs are equally hard, and all are returned.

    Args:
        pairs: The pairs, judged or not.
        fraction: The share of pairs that is wanted, above 0; all pairs with the same gap as the last one are included.
    """
    decided = [pair for pair in pairs if pair.gap > 0]
    if not decided:
        return []
    limit = sorted(pair.gap for pair in decided)[math.ceil(fraction * len(decided)) - 1]
    return [pair for pair in decided if pair.gap <= limit]


def ranked_pairs(
    group: str,
    ranks: Mapping[str, float],
    rewards: Mapping[str, float | None],
    *,
    variances: Mapping[str, float] = MappingProxyType({}),
    generators: Mapping[str, str] = MappingProxyType({}),
) -> list[JudgedPair]:
    """Return all pairs of a group of candidates that people ranked and a judge scored one by one.

    Args:
        group: Id of the group.
        ranks: Rank of each candidate according to people; 1 is best. Equal ranks are pairs that people do not decide.
        rewards: Reward of each candidate in [0, 1]; None without a judgment.
        variances: Variance of the rewards over repeated samples, where known.
        generators: Who made each candidate, where known.
    """
    levels = {value: place for place, value in enumerate(sorted(set(ranks.values())))}
    pairs: list[JudgedPair] = []
    for names in combinations(sorted(ranks), 2):
        better, worse = sorted(names, key=lambda name: (ranks[name], name))
        gap = (levels[ranks[worse]] - levels[ranks[better]]) / max(1, len(levels) - 1)
        one, other = rewards.get(better), rewards.get(worse)
        margin = None if one is None or other is None else one - other
        known = [variances[name] for name in names if name in variances]
        made = (generators[better], generators[worse]) if {*names} <= generators.keys() else None
        variance = sum(known) if len(known) == len(names) else None
        pairs.append(JudgedPair(group, better, worse, _credit(margin, gap), margin, gap, variance, generators=made))
    return pairs


def outcome_pairs(
    outcomes: Iterable[Outcome],
    *,
    gaps: Mapping[str, float] = MappingProxyType({}),
    generators: Mapping[str, Mapping[str, str]] = MappingProxyType({}),
) -> list[JudgedPair]:
    """Return the pairs of judged examples: two candidates, or the preferred one of a group against each other one.

    Args:
        outcomes: Examples with a label, as judged.
        gaps: Distance of the candidates according to people, by example id. 1 where it is unknown.
        generators: Who made each candidate, by example id and label.
    """
    pairs: list[JudgedPair] = []
    for outcome in outcomes:
        example, judgment = outcome.example, outcome.judgment
        if example.preference is None or len(example.labels) < 2:
            continue
        better = example.preference if example.preference != TIE else example.labels[0]
        gap = 0.0 if example.preference == TIE else gaps.get(example.id, 1.0)
        made = generators.get(example.id, {})
        alone = len(example.labels) == 2
        for worse in example.labels:
            if worse == better:
                continue
            margin = _margin(judgment, better, worse)
            scored = outcome.credit if alone or example.preference == TIE else _credit(margin, gap)
            pairs.append(
                JudgedPair(
                    example.id,
                    better,
                    worse,
                    scored if judgment.judged else None,
                    margin,
                    gap,
                    _variance(judgment, better, worse),
                    judgment.position_consistent if judgment.judged else None,
                    _better_first(judgment, better, worse),
                    (made[better], made[worse]) if better in made and worse in made else None,
                )
            )
    return pairs


def _margin(judgment: Judgment, better: str, worse: str) -> float | None:
    """Return the difference of the rewards; without rewards, the margin with the sign of the ranking."""
    if not judgment.judged:
        return None
    one, other = (judgment.scores.get(name) for name in (better, worse))
    if one is not None and other is not None and one.reward is not None and other.reward is not None:
        return one.reward - other.reward
    places = {name: place for place, level in enumerate(judgment.ranking) for name in level}
    if better not in places or worse not in places:
        return None
    size = judgment.margin if judgment.margin is not None else 1.0
    return size * ((places[better] < places[worse]) - (places[better] > places[worse]))


def _variance(judgment: Judgment, better: str, worse: str) -> float | None:
    known = [judgment.scores[name].variance for name in (better, worse) if name in judgment.scores]
    values = [value for value in known if value is not None]
    return sum(values) if len(values) == 2 else None


def _better_first(judgment: Judgment, better: str, worse: str) -> bool | None:
    """Return whether all presentation orders had the preferred candidate first, or second."""
    if judgment.position_consistent is not None:
        return None
    orders = [step.order for step in judgment.steps if {better, worse} <= {*step.order}]
    first = {order.index(better) < order.index(worse) for order in orders}
    return first.pop() if len(first) == 1 else None


def _credit(margin: float | None, gap: float) -> float | None:
    """Return the agreement of a margin with people; a pair that people do not decide agrees with a margin of 0."""
    if margin is None:
        return None
    if gap == 0:
        return float(margin == 0)
    return 0.5 if margin == 0 else float(margin > 0)


def _mean(values: Sequence[float], default: float = 0.0) -> float:
    return fmean(values) if values else default


def _judged_among(pairs: Iterable[JudgedPair]) -> list[JudgedPair]:
    return [pair for pair in pairs if pair.credit is not None]
