"""Ranking of two to four candidates by the margins between pairs."""

from collections.abc import Mapping, Sequence
from itertools import combinations


def rank(labels: Sequence[str], margins: Mapping[tuple[str, str], float]) -> tuple[tuple[str, ...], ...]:
    """Rank candidates by the margins between them.

    The candidates are ordered by the number of pairs won (Copeland's method; a tie counts half), then by the sum of
    their margins. The resulting pairs are transitive even if the judge is not. The order of `labels` has no effect.

    Args:
        labels: Labels of the candidates.
        margins: Margin of the first over the second, in [-1, 1], for each pair in either order. A missing pair counts
            for neither.

    Returns:
        Labels from best to worst; equal ones share an inner tuple, in alphabetical order.
    """
    wins = dict.fromkeys(labels, 0.0)
    sums: dict[str, list[float]] = {label: [] for label in labels}
    for first, second in combinations(sorted(labels), 2):
        lead = margin_between(margins, first, second)
        if lead is None:
            continue
        wins[first] += 1.0 if lead > 0 else 0.5 if lead == 0 else 0.0
        wins[second] += 1.0 if lead < 0 else 0.5 if lead == 0 else 0.0
        sums[first].append(lead)
        sums[second].append(-lead)
    # Summing sorted values makes the total independent of the order of the pairs.
    key = {label: (wins[label], round(sum(sorted(sums[label])), 12)) for label in labels}
    levels = sorted(set(key.values()), reverse=True)
    return tuple(tuple(sorted(label for label in labels if key[label] == level)) for level in levels)


def margin_between(margins: Mapping[tuple[str, str], float], first: str, second: str) -> float | None:
    """Return the margin of the first label over the second, which may be there for the other order; None if unknown."""
    if (first, second) in margins:
        return margins[first, second]
    if (second, first) in margins:
        return -margins[second, first]
    return None
