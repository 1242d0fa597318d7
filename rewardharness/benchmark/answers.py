"""Reading answers to questions from judgments, and ties from scores.

A question without a judgment has no answer, but a reason. A tie is a difference within a threshold, which is fitted on
development data only.

Accuracy with ties and the sweep over thresholds: Deutsch, Foster and Freitag, "Ties Matter" (arXiv 2305.14324):

    prediction = both bad   if both scores are below the floor        (four labels only)
                 tie        else, if |sA - sB| <= threshold
                 A or B     else, the candidate with the higher score

Published rows of reward models on EditReward-Bench, GenAI-Bench and AURORA-Bench use the threshold that is best on the
reported labels. Here, fitting and scoring are two steps: `fit_ties` records the rows that it used, and `with_ties`
refuses to score them, or rows with the same source image. `tuned_in_hindsight` computes the published kind of number.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from rewardharness.benchmark.intervals import Rating
from rewardharness.benchmark.items import Question
from rewardharness.benchmark.metrics import (
    THREE_WAY,
    UNDECIDED,
    LabeledAnswer,
    PairShare,
    check_answer,
    choice_of,
    pair_accuracy,
)
from rewardharness.benchmark.task import BOTH_BAD
from rewardharness.errors import InputError
from rewardharness.files import content_id
from rewardharness.schema import LABELS, TIE, Judgment, Scores

LEVEL = 1e-5
"""Scores of candidates judged alone that differ by less are tied, as in EditReward-Compass (arXiv 2605.13062)."""


@dataclass(frozen=True)
class QuestionAnswer:
    """Answer of a judge to one question."""

    question: Question
    choice: str | None
    """Letter of the preferred candidate by its position in the question, `tie`, `UNDECIDED`, or None if not judged."""
    margin: float | None = None
    """For two candidates: signed margin of the first over the second, in [-1, 1]; None if not available."""
    values: tuple[float | None, ...] = ()
    """Score per candidate that the question asks for, in [0, 1]; None where there is none."""
    level: int = 1
    """Number of candidates that share the first rank if the judge is undecided."""
    failure: str = ""
    """Code of the failure; empty for an answered question."""

    @cached_property
    def answer(self) -> LabeledAnswer:
        """The answer in the form that metrics over labels and scores take: its scores differ by the margin."""
        question = self.question
        first = second = None
        if self.margin is not None and self.choice is not None:
            available = [value for value in self.values if value is not None]
            center = sum(available) / len(available) if len(available) == 2 else 0.5
            first, second = center + self.margin / 2, center - self.margin / 2
        facts = {name: getattr(question, name) for name in ("category", "dimension", "cluster", "pair", "group")}
        return LabeledAnswer(question.id, str(question.truth), self.choice, first=first, second=second, **facts)

    @property
    def forced(self) -> LabeledAnswer:
        """The answer if ties are not allowed: the candidate with the higher score, by any margin."""
        if self.choice is None or self.margin is None:
            return self.answer
        choice = "A" if self.margin > 0 else "B" if self.margin < 0 else UNDECIDED
        return replace(self.answer, choice=choice)

    @property
    def rating(self) -> Rating:
        """The answer in the form that rank correlation takes."""
        human = self.question.truth
        assert isinstance(human, float)
        return Rating(" ".join(self.question.editors) or "all", self.values[0] if self.values else None, human)


def read_answer(question: Question, judgments: Mapping[str, Judgment], ties: bool) -> QuestionAnswer:
    """Read the answer to a question from the judgments of its items.

    Args:
        question: The question.
        judgments: Judgments by item id; a missing item was not judged.
        ties: Whether `tie` is among the labels. If not, a judge that rates candidates as equal, or predicts a tie
            because its release allows ties, is undecided.
    """
    names = dict.fromkeys(item for item, _ in question.asks)
    for judgment in map(judgments.get, names):
        if judgment is None or not judgment.judged:
            failure = judgment.failure if judgment is not None else None
            return QuestionAnswer(question, None, failure=failure.code if failure is not None else "not judged yet")
    values = tuple(_value(judgments[item].scores.get(letter), question.score) for item, letter in question.asks)
    if all(len(judgments[name].scores) == 1 for name in names):
        return _alone(question, values, ties)
    judgment = judgments[question.asks[0][0]]
    letters = {letter: LABELS[place] for place, (_, letter) in enumerate(question.asks)}
    places = {letter: place for place, level in enumerate(judgment.ranking) for letter in level}
    if len(places) > len(question.asks):  # a pair of a ranking of more candidates
        first, second = (letter for _, letter in question.asks)
        level = TIE if judgment.ties_offered and ties else UNDECIDED
        better = letters[min(first, second, key=places.__getitem__)]
        return QuestionAnswer(question, level if places[first] == places[second] else better, None, values, 2)
    choice = choice_of(judgment)
    choice = UNDECIDED if choice == TIE and not ties else choice
    top = len(judgment.ranking[0]) if judgment.ranking else len(question.asks)
    lead = _lead(judgment, letters) if len(question.asks) == 2 else None
    return QuestionAnswer(question, letters.get(choice or "", choice), lead, values, top)


def _value(scores: Scores | None, kind: str) -> float | None:
    """Return the score that a question asks for, in [0, 1]. Instruction and quality scores range from 1 to 4."""
    if scores is None:
        return None
    if kind == "reward":
        return scores.reward
    grade = scores.instruction if kind == "instruction" else scores.quality
    return None if grade is None else (grade - 1) / 3


def _alone(question: Question, values: tuple[float | None, ...], ties: bool) -> QuestionAnswer:
    """Read the answer from candidates that were judged one by one."""
    available = [value for value in values if value is not None]
    if len(available) < len(values):
        return QuestionAnswer(question, None, values=values, failure=f"no {question.score} score")
    if len(available) == 1:
        return QuestionAnswer(question, "scored", values=values)
    best = max(available)
    top = [letter for letter, value in zip(LABELS, available, strict=False) if best - value < LEVEL]
    choice = top[0] if len(top) == 1 else TIE if ties else UNDECIDED
    margin = available[0] - available[1] if len(available) == 2 else None
    return QuestionAnswer(question, choice, margin, values, len(top))


def _lead(judgment: Judgment, letters: Mapping[str, str]) -> float | None:
    """Return the margin, signed by the preferred candidate, even if it is too small for a preference."""
    if judgment.margin is None:
        return None
    if not judgment.ranking or len(judgment.ranking[0]) > 1:
        return 0.0
    return judgment.margin if letters[judgment.ranking[0][0]] == "A" else -judgment.margin


@dataclass(frozen=True)
class TieRule:
    """When two scores are a tie, and the origin of the rule."""

    threshold: float
    """Largest difference of a tie, at least 0, on the scale of the scores."""
    floor: float | None
    """With four labels: two scores below it are both bad. None without such a label or such pairs."""
    labels: tuple[str, ...]
    judge: str
    """The judge whose scores it is for; scales differ between judges."""
    protocol: str
    """The protocol of the judge."""
    n: int = 0
    """Pairs that it was fitted on; 0 for a rule that was not fitted."""
    unscored: int = 0
    """Development pairs without both scores, which are not used."""
    correct: int = 0
    """Correct predictions among the n: the objective of the fit, not an estimate of accuracy."""
    digest: str = ""
    """Content id of the development data: ids, labels and scores. Empty for a rule that was not fitted."""
    seen: tuple[str, ...] = ()
    """Keys of the development rows and of their clusters, see `row_keys`."""

    def __post_init__(self) -> None:
        if not math.isfinite(self.threshold) or self.threshold < 0:
            raise InputError(f"{self.threshold} cannot be a threshold.", next_step="Give a number from 0 on.")

    def label(self, pair: LabeledAnswer) -> str | None:
        """Return the label of a pair from its scores; None without both scores."""
        lead = pair.difference
        if pair.first is None or pair.second is None or lead is None:
            return None
        if self.floor is not None and max(pair.first, pair.second) < self.floor:
            return BOTH_BAD
        return TIE if abs(lead) <= self.threshold else "A" if lead > 0 else "B"


def row_keys(pair: LabeledAnswer) -> tuple[str, ...]:
    """Return hashes of the id of a pair and, if it has one, of its cluster."""
    keys = [content_id(["pair", pair.id])[:24]]
    return (*keys, content_id(["cluster", pair.cluster])[:24]) if pair.cluster else tuple(keys)


def fit_ties(
    development: Sequence[LabeledAnswer], *, judge: str, protocol: str, labels: Sequence[str] = THREE_WAY
) -> TieRule:
    """Choose the threshold, and with four labels the floor, with the highest accuracy on development data.

    All differences that occur and 0 are tried as thresholds; with four labels, with no floor and with every floor that
    changes a prediction. Among equal results, the lowest floor and then the smallest threshold is chosen.

    Args:
        development: Pairs that will not be scored.
        judge: The judge of the scores.
        protocol: Its protocol.
        labels: `THREE_WAY` or `FOUR_WAY`.

    Raises:
        InputError: If a label is not in the label set, the labels have no ties, or no pair has both scores.
    """
    labels = tuple(labels)
    if TIE not in labels:
        raise InputError("These labels have no ties.", next_step="Score such pairs under `strict`.")
    for pair in development:
        check_answer(replace(pair, choice=None), labels)
    known = [pair for pair in development if pair.difference is not None]
    if not known:
        raise InputError("No development pair has both scores.", next_step="Give judged pairs.")
    correct, threshold, floor = _sweep(known, with_floor=BOTH_BAD in labels)
    digest = content_id(sorted([pair.id, pair.truth, pair.first, pair.second] for pair in known))
    seen = tuple(sorted({key for pair in development for key in row_keys(pair)}))
    counts = len(known), len(development) - len(known), correct
    return TieRule(threshold, floor, labels, judge, protocol, *counts, digest, seen)


def with_ties(pairs: Sequence[LabeledAnswer], rule: TieRule, *, judge: str, protocol: str) -> PairShare:
    """Compute accuracy with ties, where the rule predicts the label (arXiv 2305.14324).

    Pairs without both scores are not judged.

    Args:
        pairs: The pairs to score; the rule must not be fitted on them or on pairs with the same source image.
        rule: A rule fitted on other data, or a fixed one.
        judge: The judge of the scores.
        protocol: Its protocol.

    Raises:
        InputError: If the rule was fitted on any of these rows, or is for another judge, protocol or label set.
    """
    for name, here, there in (("judge", judge, rule.judge), ("protocol", protocol, rule.protocol)):
        if here != there:
            message = f"The tie threshold is for the {name} {there!r}, not for {here!r}."
            raise InputError(message, next_step=f"Fit one for this {name}.")
    seen = frozenset(rule.seen)
    if shared := [pair.id for pair in pairs if not seen.isdisjoint(row_keys(pair))]:
        message = f"The tie threshold was fitted on {len(shared)} of the {len(pairs)} pairs to be scored, or on others"
        step = "Fit it on development data and score the rest."
        raise InputError(f"{message} of the same source image, such as {shared[0]}.", next_step=step)
    return _score(pairs, rule)


def tuned_in_hindsight(pairs: Sequence[LabeledAnswer], labels: Sequence[str] = THREE_WAY) -> PairShare:
    """Compute accuracy with the threshold that is best on these labels, which is an upper bound.

    Use it only for comparison with published rows of that kind (EditReward's pointwise rows, VideoAlign).

    Raises:
        InputError: As for `fit_ties`.
    """
    return _score(pairs, fit_ties(pairs, judge="", protocol="", labels=labels))


def _score(pairs: Iterable[LabeledAnswer], rule: TieRule) -> PairShare:
    return pair_accuracy([replace(pair, choice=rule.label(pair)) for pair in pairs], "exact", rule.labels)


def _sweep(pairs: Sequence[LabeledAnswer], *, with_floor: bool) -> tuple[int, float, float | None]:
    """Evaluate every floor with every threshold.

    Returns:
        The number of correct pairs at best, the smallest threshold of the lowest floor that reach it, and that floor.
    """
    import numpy as np

    gaps = np.array([abs(pair.difference or 0.0) for pair in pairs])
    tops = np.array([max(pair.first or 0.0, pair.second or 0.0) for pair in pairs])
    parted = np.array([pair.leader == pair.truth and pair.truth != TIE for pair in pairs], dtype=int)
    level = np.array([pair.truth == TIE for pair in pairs], dtype=int)
    bad = np.array([pair.truth == BOTH_BAD for pair in pairs], dtype=int)
    order = np.argsort(gaps, kind="stable")
    thresholds, last = np.unique(np.concatenate([[0.0], gaps[order]]), return_index=True)
    # For each threshold, the number of sorted pairs that are ties.
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
