"""From margins between pairs to a ranking of two, three or four candidates."""

from collections.abc import Mapping, Sequence
from itertools import combinations


def rank(labels: Sequence[str], margins: Mapping[tuple[str, str], float]) -> tuple[tuple[str, ...], ...]:
    """Rank candidates by the margins between them.

    The candidates are ordered by the number of duels won (Copeland's method; a level duel counts half), then
    by the sum of their margins. A single ranking makes the pairs read off it transitive, also when the judge
    was not. The result does not depend on the order of `labels`.

    Args:
        labels: Letters of the candidates.
        margins: For each unordered pair, under either order of its letters, how far the first leads the
            second, in [-1, 1]. A pair may be missing: it then counts for neither.

    Returns:
        Letters from best to worst; those that are level share an inner tuple, in alphabetical order.
    """
    wins = dict.fromkeys(labels, 0.0)
    sums: dict[str, list[float]] = {label: [] for label in labels}
    for first, second in combinations(sorted(labels), 2):
        lead = _lead(margins, first, second)
        if lead is None:
            continue
        wins[first] += 1.0 if lead > 0 else 0.5 if lead == 0 else 0.0
        wins[second] += 1.0 if lead < 0 else 0.5 if lead == 0 else 0.0
        sums[first].append(lead)
        sums[second].append(-lead)
    # Summing sorted values makes the total independent of the order in which duels were met.
    key = {label: (wins[label], round(sum(sorted(sums[label])), 12)) for label in labels}
    levels = sorted(set(key.values()), reverse=True)
    return tuple(tuple(sorted(label for label in labels if key[label] == level)) for level in levels)


def _lead(margins: Mapping[tuple[str, str], float], first: str, second: str) -> float | None:
    if (first, second) in margins:
        return margins[first, second]
    if (second, first) in margins:
        return -margins[second, first]
    return None
