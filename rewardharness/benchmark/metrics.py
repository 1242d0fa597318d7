"""Agreement of a judge with labels. Every number names its treatment of ties, n and coverage.

A question without an answer is None, never a tie, and lowers the coverage. Every count therefore has two shares, and
`share_json` gives both:

    accuracy   correct / judged     quality of the answers
    of_all     correct / n          quality of the judge if a missing answer is wrong

For the sources of the definitions, see each function and `docs/metrics.md`.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal, TypeVar, get_args

from rewardharness.benchmark.task import BOTH_BAD
from rewardharness.errors import InputError
from rewardharness.judging.report import wilson
from rewardharness.schema import TIE, Accuracy, Interval, Json, Judgment

TWO_WAY: tuple[str, ...] = ("A", "B")
"""Labels of pairs without ties."""

THREE_WAY: tuple[str, ...] = ("A", "B", TIE)
"""Labels of pairs with one kind of tie."""

FOUR_WAY: tuple[str, ...] = ("A", "B", TIE, BOTH_BAD)
"""Labels of GenAI-Bench (arXiv 2406.04485): `A>B`, `B>A`, `A=B=Good` (here `tie`) and `A=B=Bad` (here `both bad`)."""

TIES = frozenset({TIE, BOTH_BAD})
"""Labels that prefer neither candidate."""

UNDECIDED = "undecided"
"""Answer of a judge without ties that rates both candidates as equal or contradicts itself. It is not a label."""

Treatment = Literal["exact", "no-tie", "strict"]
"""Treatment of ties, see `pair_accuracy`."""

T = TypeVar("T")


@dataclass(frozen=True)
class LabeledAnswer:
    """Answer of a judge about one labeled pair."""

    id: str
    truth: str
    """The label, from the task's label set."""
    choice: str | None
    """Predicted label, `UNDECIDED`, or None without a judgment."""
    category: str = ""
    dimension: str = ""
    """Quality that the question is about, if a benchmark has several."""
    cluster: str = ""
    """Source image or group, which intervals resample as a whole; empty for an independent answer."""
    pair: str = ""
    """Id of the pair if both orders are judged; two answers about one pair are not independent."""


@dataclass(frozen=True)
class ScoredPair:
    """Scores of the two candidates of a labeled pair, judged separately."""

    id: str
    truth: str
    """The label, from the task's label set."""
    first: float | None
    """Score of candidate A on any scale, higher is better; None if not available."""
    second: float | None
    """Score of candidate B on the same scale."""
    category: str = ""
    dimension: str = ""
    cluster: str = ""

    def __post_init__(self) -> None:
        for score in (self.first, self.second):
            if score is not None and not math.isfinite(score):
                raise InputError(f"{self.id}: the score {score} is not a finite number.", next_step="Leave it out.")

    @property
    def difference(self) -> float | None:
        """Score of A minus score of B; None if one is missing."""
        return None if self.first is None or self.second is None else self.first - self.second

    def answer(self) -> LabeledAnswer:
        """Return the candidate with the higher score as the answer; equal scores are a tie."""
        difference = self.difference
        choice = None if difference is None else "A" if difference > 0 else "B" if difference < 0 else TIE
        return LabeledAnswer(self.id, self.truth, choice, self.category, self.dimension, self.cluster)


@dataclass(frozen=True)
class PairScore:
    """Accuracy over pairs, with its treatment of ties."""

    treatment: str
    labels: tuple[str, ...]
    accuracy: Accuracy
    left_out: int = 0
    """Pairs that are not counted, such as pairs labeled a tie under `no-tie`."""

    def to_json(self) -> Json:
        """Return the score as JSON."""
        return {
            "treatment": self.treatment,
            "labels": list(self.labels),
            "left_out": self.left_out,
            **share_json(self.accuracy),
        }


def coverage(count: Accuracy) -> float | None:
    """Return the share of labeled examples with a judgment, judged / n; None for n = 0."""
    return count.judged / count.n if count.n else None


def of_all(count: Accuracy) -> float | None:
    """Return the share of all labeled examples that are correct, correct / n; None for n = 0."""
    return count.correct / count.n if count.n else None


def share_json(count: Accuracy) -> Json:
    """Return a count as JSON: both shares with Wilson's 95% intervals; None for a division by 0."""
    return {
        "n": count.n,
        "judged": count.judged,
        "correct": count.correct,
        "coverage": coverage(count),
        "accuracy": count.value,
        "interval": bounds(wilson(count.correct, count.judged)),
        "of_all": of_all(count),
        "of_all_interval": bounds(wilson(count.correct, count.n)),
    }


def bounds(interval: Interval | None) -> list[float] | None:
    """Return an interval as JSON: low and high, or None."""
    return None if interval is None else [interval.low, interval.high]


def split(rows: Iterable[T], key: Callable[[T], str]) -> dict[str, list[T]]:
    """Split rows into parts by a key, such as their category, in alphabetical order."""
    parts: dict[str, list[T]] = {}
    for row in rows:
        parts.setdefault(key(row), []).append(row)
    return dict(sorted(parts.items()))


def choice_of(judgment: Judgment) -> str | None:
    """Return the answer of a judgment: a label, `UNDECIDED` for a tied forced choice, None without a judgment."""
    return UNDECIDED if judgment.undecided else judgment.preference


def collapse(answer: LabeledAnswer) -> LabeledAnswer:
    """Merge the two kinds of ties: `both bad` becomes `tie`, in the label and in the answer."""
    return replace(
        answer,
        truth=TIE if answer.truth in TIES else answer.truth,
        choice=TIE if answer.choice in TIES else answer.choice,
    )


def agreement(answer: LabeledAnswer, treatment: Treatment = "exact") -> float:
    """Return the credit of an answer under a treatment of ties: 1, 0, or 0.5 for an undecided forced choice.

    A missing answer gets 0; `judged` distinguishes it from a wrong answer.
    """
    if answer.choice == UNDECIDED and treatment != "strict":
        return 0.5 if answer.truth in TWO_WAY else 0.0
    return float(answer.choice == answer.truth)


def pair_accuracy(
    answers: Iterable[LabeledAnswer], treatment: Treatment, labels: Sequence[str] = THREE_WAY
) -> PairScore:
    """Accuracy on pairs, under a named treatment of ties.

    - `exact`: right iff the answer is the label, ties included (EditReward-Bench K=2, AURORA-Bench and GenAI-Bench,
      which has four labels; arXiv 2509.26346, 2406.04485).
    - `no-tie`: pairs labelled a tie are left out, and `left_out` says how many; of the others a tie is a wrong answer.
    - `strict`: as `exact`, for labels without ties; whatever prefers neither candidate is wrong (EditScore's
      EditReward-Bench, arXiv 2509.23909).

    Under `exact` and `no-tie` a forced choice that came out level counts as the half that a coin would get.

    Args:
        answers: Judged or not; those without an answer lower the coverage.
        treatment: What becomes of ties.
        labels: The label set.

    Returns:
        The count: n pairs, judged, correct in [0, judged].

    Raises:
        InputError: If a label or an answer is not in the label set, `strict` meets a label that is a tie, or the
            treatment is none of these.
    """
    if treatment not in get_args(Treatment):
        raise InputError(f"{treatment!r} is no treatment of ties.", next_step="Use exact, no-tie or strict.")
    labels = tuple(labels)
    # `strict` says itself what it makes of ties, whichever the label set.
    allowed = (*labels, *sorted(TIES)) if treatment == "strict" else labels
    n = judged = left_out = 0
    correct = 0.0
    for answer in answers:
        check_answer(answer, allowed)
        if answer.truth in TIES and treatment == "strict":
            raise InputError(
                f"{answer.id} is labelled {answer.truth!r}, and `strict` is for labels without ties.",
                next_step="Use `exact` or `no-tie`.",
            )
        if answer.truth in TIES and treatment == "no-tie":
            left_out += 1
            continue
        n += 1
        judged += answer.choice is not None
        correct += agreement(answer, treatment)
    return PairScore(treatment, labels, Accuracy(n, judged, correct), left_out)


def check_answer(answer: LabeledAnswer, labels: Sequence[str]) -> None:
    """Refuse a label or an answer that is not in a label set; an answer may also be None or `UNDECIDED`.

    Raises:
        InputError: Naming the answer and the value.
    """
    for name, value in (("label", answer.truth), ("answer", answer.choice)):
        if value in labels or (name == "answer" and value in {None, UNDECIDED}):
            continue
        raise InputError(
            f"{answer.id}: the {name} {value!r} is none of {', '.join(labels)}.", next_step="Name the right label set."
        )


@dataclass(frozen=True)
class MacroScore:
    """Unweighted mean of the accuracies of several parts."""

    parts: Mapping[str, Accuracy]

    @property
    def mean(self) -> float | None:
        """Mean over parts of correct / judged; None without parts, or if nothing in a part was judged."""
        return _mean([part.value for part in self.parts.values()])

    @property
    def mean_of_all(self) -> float | None:
        """Mean over parts of correct / n; failures count as wrong."""
        return _mean([of_all(part) for part in self.parts.values()])

    @property
    def pooled(self) -> Accuracy:
        """Accuracy over all parts together."""
        parts = self.parts.values()
        return Accuracy(sum(p.n for p in parts), sum(p.judged for p in parts), math.fsum(p.correct for p in parts))

    def to_json(self) -> Json:
        """Return it as JSON."""
        return {
            "mean": self.mean,
            "mean_of_all": self.mean_of_all,
            "pooled": share_json(self.pooled),
            "parts": {name: share_json(part) for name, part in self.parts.items()},
        }


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known and len(known) == len(values) else None


def macro(
    answers: Iterable[LabeledAnswer],
    treatment: Treatment = "exact",
    labels: Sequence[str] = THREE_WAY,
    key: Callable[[LabeledAnswer], str] = lambda answer: answer.category,
) -> MacroScore:
    """Compute the accuracy per category, for an unweighted mean over categories."""
    parts = split(answers, key)
    return MacroScore({name: pair_accuracy(part, treatment, labels).accuracy for name, part in parts.items()})


def chance(answers: Sequence[LabeledAnswer], labels: Sequence[str]) -> dict[str, float]:
    """Return the accuracy of judges that ignore the images, computed from the label set and the labels.

    Returns:
        Shares in [0, 1]: `uniform`, any label is as likely (1 / number of labels); `frequencies`, labels are drawn as
        often as people gave them (sum of squared shares); `most frequent`, always the label that people gave most.
        The last two are there only if there are answers.

    Raises:
        InputError: If a label is not in the label set.
    """
    rows = {"uniform": 1 / len(labels)}
    for answer in answers:
        check_answer(replace(answer, choice=None), labels)
    if answers:
        shares = [count / len(answers) for count in Counter(answer.truth for answer in answers).values()]
        rows["frequencies"] = math.fsum(share * share for share in shares)
        rows["most frequent"] = max(shares)
    return rows
