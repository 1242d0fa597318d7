"""Agreement of a judge with labels. Every number names its treatment of ties, n and coverage.

A question without an answer is None, never a tie, and lowers the coverage. Every count therefore has two shares, and
`Share` holds both:

    accuracy   correct / judged     quality of the answers
    of_all     correct / n          quality of the judge if a missing answer is wrong

For the sources of the definitions, see each function and `docs/reference/metrics.md`.

In EditReward-Bench (arXiv 2509.26346) each row is a pair, and a group of K candidates has K(K-1)/2 rows: 1, 3 or 6. A
group is correct only if all its pairs are. Both ways of judging lead to the same count:

    forced choice   the judge chooses in every pair, or ranks the group and the pairs follow from the ranking
    pointwise       every candidate is scored alone; the published metric is an exact match of the order by score,
                    which means that every pair is correct. Equal scores are not an order, so they are not correct
                    (the published code sorts equal scores by their position in the row).
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal, Self, TypeVar, get_args

from rewardharness.benchmark.task import BOTH_BAD
from rewardharness.errors import InputError
from rewardharness.judging.report import wilson
from rewardharness.schema import LABELS, TIE, Accuracy, Interval, Judgment

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

LEAST = 5
"""Number of independent examples below which there is no interval."""

Bounds = tuple[float, float]
"""Low and high of a 95% interval."""

K = TypeVar("K", str, int)
T = TypeVar("T")


@dataclass(frozen=True)
class LabeledAnswer:
    """Answer of a judge about one labeled pair."""

    id: str
    truth: str
    """The label, from the task's label set."""
    choice: str | None = None
    """Predicted label, `UNDECIDED`, or None without a judgment."""
    category: str = ""
    dimension: str = ""
    """Quality that the question is about, if a benchmark has several."""
    cluster: str = ""
    """Source image or group, which intervals resample as a whole; empty for an independent answer."""
    pair: str = ""
    """Id of the pair if both orders are judged; two answers about one pair are not independent."""
    group: str = ""
    """Id of the group of candidates that the pair belongs to."""
    first: float | None = None
    """Score of candidate A on any scale, higher is better; None if not available."""
    second: float | None = None
    """Score of candidate B on the same scale."""

    def __post_init__(self) -> None:
        for score in (self.first, self.second):
            if score is not None and not math.isfinite(score):
                raise InputError(f"{self.id}: the score {score} is not a finite number.", next_step="Leave it out.")

    @property
    def difference(self) -> float | None:
        """Score of A minus score of B; None if one is missing."""
        return None if self.first is None or self.second is None else self.first - self.second

    @property
    def leader(self) -> str | None:
        """The candidate with the higher score; equal scores are a tie. None without both scores."""
        lead = self.difference
        return None if lead is None else "A" if lead > 0 else "B" if lead < 0 else TIE


@dataclass(frozen=True, kw_only=True)
class Share:
    """A count with both of its shares, None for a division by 0, and their 95% intervals, see `interval_of`."""

    n: int
    judged: int
    correct: float
    coverage: float | None
    """Share of the labeled examples with a judgment, judged / n."""
    accuracy: float | None
    """Share of the judged examples that are correct, correct / judged."""
    interval: Bounds | None
    of_all: float | None
    """Share of all labeled examples that are correct, correct / n."""
    of_all_interval: Bounds | None

    @classmethod
    def of(cls, count: Accuracy, **fields: Any) -> Self:
        """Compute the shares of a count.

        Args:
            count: The count.
            fields: The other fields of a subclass.
        """
        n, judged, correct = count.n, count.judged, count.correct
        shares: dict[str, Any] = {"accuracy": count.value, "interval": bounds(interval_of(correct, judged))}
        shares |= {"of_all": correct / n if n else None, "of_all_interval": bounds(interval_of(correct, n))}
        return cls(n=n, judged=judged, correct=correct, coverage=judged / n if n else None, **shares, **fields)

    @property
    def count(self) -> Accuracy:
        """The count."""
        return Accuracy(self.n, self.judged, self.correct)


@dataclass(frozen=True, kw_only=True)
class PairShare(Share):
    """Accuracy over pairs, with its treatment of ties."""

    treatment: str
    labels: tuple[str, ...]
    left_out: int = 0
    """Pairs that are not counted, such as pairs labeled a tie under `no-tie`."""


def interval_of(correct: float, n: float) -> Interval | None:
    """Return Wilson's 95% interval of a share; None below `LEAST` independent examples, which say too little."""
    return wilson(correct, n) if n >= LEAST else None


def bounds(interval: Interval | None) -> Bounds | None:
    """Return low and high of an interval, as reports hold them."""
    return None if interval is None else (interval.low, interval.high)


def split(rows: Iterable[T], key: Callable[[T], K], *, ordered: bool = True) -> dict[K, list[T]]:
    """Split rows into parts by a key, such as their category, in alphabetical order or that of their occurrence."""
    parts: dict[K, list[T]] = {}
    for row in rows:
        parts.setdefault(key(row), []).append(row)
    return dict(sorted(parts.items())) if ordered else parts


def choice_of(judgment: Judgment) -> str | None:
    """Return the answer of a judgment: a label, `UNDECIDED` for a tied forced choice, None without a judgment."""
    return UNDECIDED if judgment.undecided else judgment.preference


def collapse(answer: LabeledAnswer) -> LabeledAnswer:
    """Merge the two kinds of ties: `both bad` becomes `tie`, in the label and in the answer."""
    truth, choice = (TIE if label in TIES else label for label in (answer.truth, answer.choice))
    return replace(answer, truth=truth or "", choice=choice)


def agreement(answer: LabeledAnswer, treatment: Treatment = "exact") -> float:
    """Return the credit of an answer under a treatment of ties: 1, 0, or 0.5 for an undecided forced choice.

    A missing answer gets 0; `judged` distinguishes it from a wrong answer.
    """
    if answer.choice == UNDECIDED and treatment != "strict":
        return 0.5 if answer.truth in TWO_WAY else 0.0
    return float(answer.choice == answer.truth)


def pair_accuracy(
    answers: Iterable[LabeledAnswer], treatment: Treatment, labels: Sequence[str] = THREE_WAY
) -> PairShare:
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
    rows = list(answers)
    for answer in rows:
        check_answer(answer, allowed)
        if answer.truth in TIES and treatment == "strict":
            message = f"{answer.id} is labelled {answer.truth!r}, and `strict` is for labels without ties."
            raise InputError(message, next_step="Use `exact` or `no-tie`.")
    counted = [answer for answer in rows if treatment != "no-tie" or answer.truth not in TIES]
    judged = sum(answer.choice is not None for answer in counted)
    count = Accuracy(len(counted), judged, sum((agreement(answer, treatment) for answer in counted), 0.0))
    return PairShare.of(count, treatment=treatment, labels=labels, left_out=len(rows) - len(counted))


def check_answer(answer: LabeledAnswer, labels: Sequence[str]) -> None:
    """Refuse a label or an answer that is not in a label set; an answer may also be None or `UNDECIDED`.

    Raises:
        InputError: Naming the answer and the value.
    """
    for name, value in (("label", answer.truth), ("answer", answer.choice)):
        if value not in labels and not (name == "answer" and value in {None, UNDECIDED}):
            message = f"{answer.id}: the {name} {value!r} is none of {', '.join(labels)}."
            raise InputError(message, next_step="Name the right label set.")


@dataclass(frozen=True)
class MacroShare:
    """Unweighted mean of the accuracies of several parts."""

    mean: float | None
    """Mean over parts of correct / judged; None without parts, or if nothing in a part was judged."""
    mean_of_all: float | None
    """Mean over parts of correct / n; failures count as wrong."""
    pooled: Share
    """Accuracy over all parts together."""
    parts: Mapping[str, Share]


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known and len(known) == len(values) else None


def macro(
    answers: Iterable[LabeledAnswer], treatment: Treatment = "exact", labels: Sequence[str] = THREE_WAY
) -> MacroShare:
    """Compute the accuracy per category and its unweighted mean over categories.

    With `strict`, this is EditReward-Bench as in EditScore (arXiv 2509.23909): an answer is correct if the preferred
    candidate has the strictly higher score; ties are wrong.
    """
    by_category = split(answers, lambda answer: answer.category).items()
    parts = {name: Share.of(pair_accuracy(part, treatment, labels).count) for name, part in by_category}
    every = parts.values()
    n, judged = sum(part.n for part in every), sum(part.judged for part in every)
    pooled = Share.of(Accuracy(n, judged, math.fsum(part.correct for part in every)))
    return MacroShare(_mean([part.accuracy for part in every]), _mean([part.of_all for part in every]), pooled, parts)


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


@dataclass(frozen=True, kw_only=True)
class GroupShare(Share):
    """Accuracy on complete groups.

    n: all groups; judged: complete groups with an answer to every pair; correct: groups with all pairs correct.
    """

    candidates: int
    incomplete: tuple[str, ...]
    """Ids of the groups with missing rows. They are included in n, and are neither judged nor correct."""
    pairs: Share
    """Accuracy of the same answers per pair."""
    chance: Mapping[str, float]
    """See `group_chance`."""


def complete_groups(answers: Iterable[LabeledAnswer], candidates: int) -> GroupShare:
    """Compute complete-group accuracy: the share of groups in which every pair is correct.

    A group is correct only if it is complete and every pair has the correct answer. A failed pair makes its group
    unjudged; omitting failed rows makes it incomplete. The value to report is `of_all`, correct / n, with the coverage
    judged / n.

    Args:
        answers: Answers to the pairs of all groups, in any order.
        candidates: K, the number of candidates of each group: 2, 3 or 4.

    Raises:
        InputError: If a label or answer is invalid, or a group has too many pairs.
    """
    chance, wanted = group_chance(candidates), math.comb(candidates, 2)
    groups = split(answers, lambda answer: answer.group)
    judged = correct = pairs = pairs_judged = pairs_correct = 0
    for name, members in groups.items():
        if len(members) > wanted:
            problem = f"Group {name}: {len(members)} pairs of {candidates} candidates, at most {wanted} are possible."
            raise InputError(problem, next_step="Correct the rows of this group.")
        for answer in members:
            check_answer(answer, THREE_WAY)
        answered = [answer.choice == answer.truth for answer in members if answer.choice is not None]
        pairs += len(members)
        pairs_judged += len(answered)
        pairs_correct += sum(answered)
        judged += len(answered) == wanted
        correct += sum(answered) == wanted
    return GroupShare.of(
        Accuracy(len(groups), judged, correct),
        candidates=candidates,
        incomplete=tuple(name for name, members in groups.items() if len(members) < wanted),
        pairs=Share.of(Accuracy(pairs, pairs_judged, pairs_correct)),
        chance=chance,
    )


def group_chance(candidates: int) -> dict[str, float]:
    """Return the chance level on complete groups of K candidates without ties.

    Returns:
        `pairs`: every pair is guessed separately, (1/2)^(K(K-1)/2). `ranking`: one ranking is guessed, 1 / K!, which is
        higher because a ranking cannot contradict itself.

    Raises:
        InputError: If K is not 2, 3 or 4.
    """
    if not 2 <= candidates <= len(LABELS):
        raise InputError(f"A group cannot have {candidates} candidates.", next_step="Use 2, 3 or 4.")
    return {"pairs": 0.5 ** math.comb(candidates, 2), "ranking": 1 / math.factorial(candidates)}
