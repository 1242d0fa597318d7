"""Rank correlation of a judge's scores with people's, per editor, and its mean over editors.

    rho    Spearman's rank correlation (Am. J. Psychol. 15, 1904): Pearson's correlation of the ranks; equal values
           share the average of their ranks. Not defined where either side is constant, and not taken where it nearly
           is, see `APART`.
    mean   Fisher's z: tanh of the mean of atanh(rho) (Biometrika 10, 1915).
    around it an interval by the jackknife over images, see `mean_interval`.

VIEScore (arXiv 2312.14867) reports ImagenHub so; AURORA-Bench (pointwise) is averaged over editors the same way.
"""

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean
from typing import Literal

from rewardharness.benchmark.intervals import left_out_in_turn
from rewardharness.errors import InputError
from rewardharness.schema import Accuracy, Interval, Json

Weights = Literal["equal", "n-3"]
"""`equal`: each editor counts the same, as in published tables. `n-3`: by the inverse variance of its z."""

NEARLY_ONE = 1 - 1e-6
"""A correlation of exactly 1 has an infinite z, which would outweigh everything: it counts as this."""


APART = 3
"""Scores of one side that have to differ from its commonest score, or there is no correlation of that editor.

Of fewer, more than e^-3 = 5 % of all draws of as many edits would show one score alone: whether there is a correlation
at all is then a matter of which edits were drawn. Four different scores are the least that is enough."""


@dataclass(frozen=True)
class Rating:
    """One edit with the scores of a judge and of people; their scales need not agree."""

    editor: str
    """Who made the edit. Never shown to a judge."""
    judge: float | None
    """None when there is no judgment."""
    human: float


@dataclass(frozen=True)
class EditorCorrelation:
    """How one editor's edits are ordered."""

    n: int
    """Edits that people rated."""
    judged: int
    """Those of them that the judge rated: the correlation is over these."""
    rho: float | None
    """In [-1, 1]; None where there is none."""
    reason: str = ""
    """Why there is none."""


@dataclass(frozen=True)
class Correlation:
    """Correlation per editor, and its mean."""

    editors: Mapping[str, EditorCorrelation]
    weights: Weights
    mean: float | None
    """Fisher's mean over the editors with a rho, in [-1, 1]; None without any."""
    undefined: tuple[str, ...]
    """Editors that are not in the mean, since they have no rho; their `reason` says why."""

    @property
    def counts(self) -> Accuracy:
        """Edits and judged edits of all editors; nothing is right or wrong here."""
        known = self.editors.values()
        return Accuracy(sum(each.n for each in known), sum(each.judged for each in known), 0.0)

    def to_json(self) -> Json:
        """Put it into JSON."""
        counts = self.counts
        return {
            "mean": self.mean,
            "weights": self.weights,
            "n": counts.n,
            "judged": counts.judged,
            "coverage": counts.judged / counts.n if counts.n else None,
            "undefined": list(self.undefined),
            "editors": {
                name: {"n": e.n, "judged": e.judged, "rho": e.rho, "reason": e.reason}
                for name, e in self.editors.items()
            },
        }


def average_ranks(values: Sequence[float]) -> list[float]:
    """Rank values from 1; equal values share the average of the ranks that they take up."""
    order = sorted(range(len(values)), key=values.__getitem__)
    ranks = [0.0] * len(values)
    begin = 0
    while begin < len(order):
        end = begin
        while end + 1 < len(order) and values[order[end + 1]] == values[order[begin]]:
            end += 1
        for place in order[begin : end + 1]:
            ranks[place] = (begin + end) / 2 + 1
        begin = end + 1
    return ranks


def spearman(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Spearman's rank correlation of two lists of numbers.

    Returns:
        A number in [-1, 1], or None for fewer than two values or where all values of a list are equal.

    Raises:
        InputError: If the lengths differ or a value is not a finite number.
    """
    if len(first) != len(second):
        raise InputError(
            f"{len(first)} values cannot be correlated with {len(second)}.", next_step="Give lists of one length."
        )
    if not all(map(math.isfinite, (*first, *second))):
        raise InputError("A value to be ranked is not a finite number.", next_step="Leave failed judgments out.")
    n = len(first)
    centre = (n + 1) / 2
    one = [rank - centre for rank in average_ranks(first)]
    other = [rank - centre for rank in average_ranks(second)]
    # Halves of whole numbers: these sums are exact, so that equal orders give exactly 1.
    square, other_square = math.fsum(x * x for x in one), math.fsum(y * y for y in other)
    if not square or not other_square:
        return None
    rho = math.fsum(x * y for x, y in zip(one, other, strict=True)) / math.sqrt(square * other_square)
    return max(-1.0, min(1.0, rho))


def fisher_mean(values: Sequence[float], weights: Sequence[float] | None = None) -> float | None:
    """Average correlations by Fisher's z, tanh(sum w atanh(r) / sum w).

    Args:
        values: Correlations in [-1, 1]; beyond `NEARLY_ONE` they count as that, unless all are equal.
        weights: One per value, not negative; None for equal weights.

    Returns:
        A number in [-1, 1], or None without values or weight.
    """
    weights = [1.0] * len(values) if weights is None else list(weights)
    total = math.fsum(weights)
    if not values or total <= 0:
        return None
    if min(values) == max(values):
        return values[0]
    kept = [max(-NEARLY_ONE, min(NEARLY_ONE, value)) for value in values]
    return math.tanh(math.fsum(w * math.atanh(r) for w, r in zip(weights, kept, strict=True)) / total)


def correlate(ratings: Iterable[Rating], weights: Weights = "equal") -> Correlation:
    """Correlate a judge's scores with people's per editor, and average over editors by Fisher's z.

    Edits without a judgment are left out of the correlation of their editor and lower its coverage.
    """
    parts: dict[str, list[Rating]] = {}
    for rating in ratings:
        parts.setdefault(rating.editor, []).append(rating)
    editors = {}
    for name, part in sorted(parts.items()):
        judge, human = _sides(part)
        reason = _no_rho(judge, human)
        rho = None if reason else spearman(judge, human)
        editors[name] = EditorCorrelation(len(part), len(judge), rho, reason)
    used = {name: each for name, each in editors.items() if each.rho is not None}
    heavy = [each.judged - 3.0 if weights == "n-3" else 1.0 for each in used.values()]
    mean = fisher_mean([each.rho or 0.0 for each in used.values()], heavy)
    return Correlation(editors, weights, mean, tuple(name for name in editors if name not in used))


def _sides(ratings: Iterable[Rating]) -> tuple[list[float], list[float]]:
    known = [(each.judge, each.human) for each in ratings if each.judge is not None]
    return [judge for judge, _ in known], [human for _, human in known]


def _no_rho(judge: Sequence[float], human: Sequence[float]) -> str:
    """Why two lists of scores have no correlation; empty if they have one."""
    if len(judge) <= APART:
        return f"too few judged edits: {len(judge)}"
    apart = min(len(scores) - max(Counter(scores).values()) for scores in (judge, human))
    if apart < APART:
        return f"all scores of one side are equal{f', but for {apart}' if apart else ''}"
    return ""


def mean_interval(
    ratings: Sequence[Rating], clusters: Sequence[str] | None = None, weights: Weights = "equal"
) -> Interval | None:
    """Interval at 95 % of the mean of `correlate`, if other images of the same kind had been edited and rated.

    The jackknife over images (Efron and Tibshirani, An Introduction to the Bootstrap, 1993, chapter 11): each image is
    left out in turn with the edits of all editors, so that what editors share counts once. What that does to an
    editor's rho is carried over to Fisher's z by its derivative, 1 / (1 - rho^2), and a t interval of the mean of z is
    turned back. A percentile bootstrap reaches too high here: of an editor with few scores apart from the commonest it
    draws sets in perfect order, whose z has no bound, and sets without any order, which drop out.

    Args:
        ratings: As for `correlate`.
        clusters: The image of each rating; an empty name stands for one of its own. None: each stands alone.
        weights: As for `correlate`.

    Returns:
        The interval; None where nothing can be said of other images: there is no mean, an editor is in perfect order
        (as all may be: nothing moves then), or a single image decides whether there is an order.
    """
    found = correlate(ratings, weights)
    places: dict[str, list[int]] = {}
    for place, rating in enumerate(ratings):
        if found.editors[rating.editor].rho is not None:
            places.setdefault(rating.editor, []).append(place)
    groups = left_out_in_turn(len(ratings), clusters)
    if found.mean is None or len(groups) < 2:
        return None
    total = math.fsum(found.editors[name].judged - 3.0 if weights == "n-3" else 1.0 for name in places)
    moved = [0.0] * len(groups)
    for name, mine in places.items():
        editor = found.editors[name]
        rho = editor.rho or 0.0
        if abs(rho) > NEARLY_ONE:
            return None
        weight = (editor.judged - 3.0 if weights == "n-3" else 1.0) / total / (1 - rho * rho)
        for number, group in enumerate(groups):
            if group.isdisjoint(mine):
                continue
            other = spearman(*_sides(ratings[place] for place in mine if place not in group))
            if other is None:
                return None
            moved[number] += weight * (other - rho)
    several, middle = len(groups), fmean(moved)
    spread = math.sqrt((several - 1) / several * math.fsum((each - middle) ** 2 for each in moved))
    if not spread:
        return None
    z, around = math.atanh(found.mean), _student(several - 1) * spread
    return Interval(math.tanh(z - around), math.tanh(z + around), 0.95)


def _student(freedom: int) -> float:
    """The 97.5 % point of Student's t (Abramowitz and Stegun, 26.7.5), within 2 % from three degrees of freedom on."""
    g = NormalDist().inv_cdf(0.975)
    first, second = (g**3 + g) / 4, (5 * g**5 + 16 * g**3 + 3 * g) / 96
    third = (3 * g**7 + 19 * g**5 + 17 * g**3 - 15 * g) / 384
    return g + first / freedom + second / freedom**2 + third / freedom**3
