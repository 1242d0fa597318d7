"""Ties from scores: two scores that differ by little are a tie, and how little is fitted on development data only.

Accuracy with ties and the sweep over thresholds: Deutsch, Foster and Freitag, "Ties Matter" (arXiv 2305.14324):

    said = both bad   if both scores are below the floor        (four labels only)
           tie        else, if |sA - sB| <= threshold
           A or B     else, whoever has the higher score

Published rows of reward models on EditReward-Bench, GenAI-Bench and AURORA-Bench take the threshold that is best on
the very labels they report. Here fitting and scoring are two steps. `fit_ties` remembers which rows it saw, and
`with_ties` refuses to score any of them, or others of the same source image. `tuned_in_hindsight` gives the number
of the published kind, and is named so that nobody takes it for another.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from rewardharness.benchmark.metrics import THREE_WAY, LabeledAnswer, PairScore, ScoredPair, check_answer, pair_accuracy
from rewardharness.benchmark.task import BOTH_BAD
from rewardharness.errors import DataError, InputError
from rewardharness.files import content_id
from rewardharness.schema import TIE, Json

HINDSIGHT = "tuned on the scored labels"
"""Treatment of ties of published rows whose threshold was chosen on the labels that they report."""

_KINDS: Mapping[str, Any] = {
    **dict.fromkeys(("judge", "protocol", "digest"), str),
    **dict.fromkeys(("n", "unscored", "correct"), int),
    **dict.fromkeys(("labels", "seen"), list),
    "threshold": int | float,
    "floor": int | float | None,
}


@dataclass(frozen=True)
class TieRule:
    """When two scores are a tie, and where that comes from. Made by `fit_ties`, or by `fixed`."""

    threshold: float
    """Scores that differ by no more are a tie; 0 or more, on the scale of the scores."""
    floor: float | None
    """With four labels: two scores below it are both bad. None: there is no such label, or no pair was called so."""
    labels: tuple[str, ...]
    judge: str
    """Whose scores it is for; another judge has another scale."""
    protocol: str
    """How that judge was asked."""
    n: int = 0
    """Pairs that it was fitted on; 0 for a rule that was given, not fitted."""
    unscored: int = 0
    """Development pairs without both scores; they had no say."""
    correct: int = 0
    """How many of the n it gets right: what it was chosen for, so no estimate of anything."""
    digest: str = ""
    """Content id of the development data: ids, labels and scores. Empty for a rule that was given."""
    seen: frozenset[str] = frozenset()
    """Keys of the development rows and of their clusters, see `row_keys`."""

    @classmethod
    def fixed(
        cls,
        threshold: float,
        *,
        judge: str,
        protocol: str,
        labels: Sequence[str] = THREE_WAY,
        floor: float | None = None,
    ) -> "TieRule":
        """Make a rule of a threshold that was known before any data were seen, such as 0."""
        return cls(_valid(threshold), floor, tuple(labels), judge, protocol)

    def label(self, pair: ScoredPair) -> str | None:
        """Label one pair from its scores; None unless both are there."""
        lead = pair.difference
        if pair.first is None or pair.second is None or lead is None:
            return None
        if self.floor is not None and max(pair.first, pair.second) < self.floor:
            return BOTH_BAD
        return TIE if abs(lead) <= self.threshold else "A" if lead > 0 else "B"

    @property
    def treatment(self) -> str:
        """In words, for tables: threshold, floor, and where they come from."""
        floor = "" if self.floor is None else f", floor {self.floor:.4g}"
        where = f"fitted on {self.n} other pairs, {self.digest[:12]}" if self.n else "given"
        return f"ties within {self.threshold:.4g}{floor} ({where})"

    @property
    def summary(self) -> Json:
        """What a table says of it: threshold, floor, on how many pairs it was fitted and right there, and which."""
        fitted = {"fitted_on": self.n, "fitted_right": self.correct, "fitted_digest": self.digest}
        return {"threshold": self.threshold, "floor": self.floor, **fitted}

    def to_json(self) -> Json:
        """Put it into JSON, to be kept with the judge that it is for."""
        return {**self.__dict__, "labels": list(self.labels), "seen": sorted(self.seen)}

    @classmethod
    def from_json(cls, value: Any) -> "TieRule":
        """Read it back.

        Raises:
            DataError: If it is not what `to_json` wrote.
        """
        wrong = DataError("This is not a fitted tie rule.", next_step="Fit it again.")
        if not isinstance(value, dict) or set(value) != set(_KINDS):
            raise wrong
        if any(isinstance(value[name], bool) or not isinstance(value[name], kind) for name, kind in _KINDS.items()):
            raise wrong
        if not all(isinstance(each, str) for each in (*value["labels"], *value["seen"])):
            raise wrong
        if not 0 <= value["threshold"] < math.inf:
            raise wrong
        return cls(**{**value, "labels": tuple(value["labels"]), "seen": frozenset(value["seen"])})


def row_keys(pair: ScoredPair) -> tuple[str, ...]:
    """Name a pair by its id, and by its cluster if it has one, without telling either."""
    keys = [content_id(["pair", pair.id])[:24]]
    return (*keys, content_id(["cluster", pair.cluster])[:24]) if pair.cluster else tuple(keys)


def fit_ties(
    development: Sequence[ScoredPair], *, judge: str, protocol: str, labels: Sequence[str] = THREE_WAY
) -> TieRule:
    """Choose the threshold (and the floor, where both can be bad) that is right most often on development data.

    Every difference that occurs is tried, and 0. With four labels every threshold is tried with no floor and with every
    floor that makes a difference. Of the best the lowest floor is taken, and its smallest threshold.

    Args:
        development: Pairs that will not be scored.
        judge: Whose scores these are.
        protocol: How it was asked.
        labels: `THREE_WAY` or `FOUR_WAY`.

    Raises:
        InputError: If a label is not in the label set, the labels have no ties, or no pair has both scores.
    """
    labels = tuple(labels)
    if TIE not in labels:
        raise InputError("These labels have no ties.", next_step="Score such pairs under `strict`.")
    for pair in development:
        check_answer(LabeledAnswer(pair.id, pair.truth, None), labels)
    known = [pair for pair in development if pair.difference is not None]
    if not known:
        raise InputError("No development pair has both scores.", next_step="Give judged pairs.")
    correct, threshold, floor = _sweep(known, with_floor=BOTH_BAD in labels)
    rows = sorted([pair.id, pair.truth, pair.first, pair.second] for pair in known)
    return TieRule(
        threshold,
        floor,
        labels,
        judge,
        protocol,
        n=len(known),
        unscored=len(development) - len(known),
        correct=correct,
        digest=content_id(rows),
        seen=frozenset(key for pair in development for key in row_keys(pair)),
    )


def with_ties(pairs: Sequence[ScoredPair], rule: TieRule, *, judge: str, protocol: str) -> PairScore:
    """Accuracy with ties: label each pair by the rule, right iff that is the label (arXiv 2305.14324).

    Pairs without both scores are not judged.

    Args:
        pairs: The pairs to score; none of them, and none of their source images, may be known to the rule.
        rule: Fitted on other data, or given.
        judge: Whose scores these are.
        protocol: How it was asked.

    Raises:
        InputError: If the rule was fitted on any of these rows, or is for another judge, protocol or label set.
    """
    for name, here, there in (("judge", judge, rule.judge), ("protocol", protocol, rule.protocol)):
        if here != there:
            raise InputError(
                f"The tie threshold is for the {name} {there!r}, not for {here!r}.",
                next_step=f"Fit one for this {name}.",
            )
    shared = [pair.id for pair in pairs if rule.seen.intersection(row_keys(pair))]
    if shared:
        raise InputError(
            f"The tie threshold was fitted on {len(shared)} of the {len(pairs)} pairs to be scored, "
            f"or on others of the same source image, such as {shared[0]}.",
            next_step="Fit it on development data and score the rest.",
        )
    return _score(pairs, rule, rule.treatment)


def tuned_in_hindsight(pairs: Sequence[ScoredPair], labels: Sequence[str] = THREE_WAY) -> PairScore:
    """Accuracy with the threshold that suits these very labels best: an upper bound that no judge can be held to.

    For comparison with published rows of that kind only (EditReward's pointwise rows, VideoAlign). The treatment says
    what it is.

    Raises:
        InputError: As for `fit_ties`.
    """
    return _score(pairs, fit_ties(pairs, judge="", protocol="", labels=labels), HINDSIGHT)


def _score(pairs: Iterable[ScoredPair], rule: TieRule, treatment: str) -> PairScore:
    answers = [
        LabeledAnswer(pair.id, pair.truth, rule.label(pair), pair.category, pair.dimension, pair.cluster)
        for pair in pairs
    ]
    return PairScore(treatment, rule.labels, pair_accuracy(answers, "exact", rule.labels).accuracy)


def _valid(threshold: float) -> float:
    if not math.isfinite(threshold) or threshold < 0:
        raise InputError(f"{threshold} cannot be a threshold.", next_step="Give a number from 0 on.")
    return threshold


def _sweep(pairs: Sequence[ScoredPair], *, with_floor: bool) -> tuple[int, float, float | None]:
    """Try every floor with every threshold.

    Returns:
        How many pairs are right at best, the smallest threshold of the lowest floor that do it, and that floor.
    """
    import numpy as np

    gaps = np.array([abs(pair.difference or 0.0) for pair in pairs])
    tops = np.array([max(pair.first or 0.0, pair.second or 0.0) for pair in pairs])
    parted = np.array([pair.answer().choice == pair.truth and pair.truth != TIE for pair in pairs], dtype=int)
    level = np.array([pair.truth == TIE for pair in pairs], dtype=int)
    bad = np.array([pair.truth == BOTH_BAD for pair in pairs], dtype=int)
    order = np.argsort(gaps, kind="stable")
    thresholds, last = np.unique(np.concatenate([[0.0], gaps[order]]), return_index=True)
    # Where each threshold's pairs end among the sorted ones: those up to there are ties.
    ends = np.append(last[1:], len(pairs) + 1) - 1
    floors: list[float | None] = [None]
    if with_floor:
        values = np.unique(tops)
        floors += [*values[1:].tolist(), math.nextafter(float(values[-1]), math.inf)]
    best: tuple[int, float, float | None] = (-1, 0.0, None)
    for floor in floors:
        above = np.ones(len(pairs), dtype=int) if floor is None else (tops >= floor).astype(int)
        gains = np.concatenate([[0], np.cumsum((above * (level - parted))[order])])
        right = int((above * parted).sum() + ((1 - above) * bad).sum()) + gains[ends]
        place = int(np.argmax(right))
        if right[place] > best[0]:
            best = int(right[place]), float(thresholds[place]), floor
    return best
