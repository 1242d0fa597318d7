"""Counts replies: every number with n, coverage, interval, what guessing gets, and how it was counted."""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace

from rewardharness.benchmark.answers import QuestionAnswer
from rewardharness.benchmark.complete_groups import complete_groups, group_chance
from rewardharness.benchmark.conventions import editscore
from rewardharness.benchmark.correlation import correlate, mean_interval
from rewardharness.benchmark.intervals import bootstrap
from rewardharness.benchmark.items import Question
from rewardharness.benchmark.metrics import (
    TIES,
    TWO_WAY,
    UNDECIDED,
    LabeledAnswer,
    agreement,
    bounds,
    chance,
    collapse,
    macro,
    pair_accuracy,
    share_json,
)
from rewardharness.benchmark.spans import answers_interval, mean_of_means, share_interval
from rewardharness.benchmark.task import BOTH_BAD, TaskPart
from rewardharness.benchmark.ties import TieRule, tuned_in_hindsight, with_ties
from rewardharness.judging.report import wilson
from rewardharness.schema import TIE, Accuracy, Interval, Json

GIVEN_FLOOR = 0.5
"""Rewards below this are both bad if the judge has one kind of tie, the labels have two, and no floor was fitted."""

_PAIR_BY_PAIR = frozenset({"pairs", "both-orders"})
"""Protocols under which the pairs of a group can contradict each other."""

_RESAMPLES = 500
"""Resamples for statistics other than plain means."""


@dataclass(frozen=True)
class Number:
    """One number of a table."""

    part: str
    metric: str
    """A key of `METRICS`, or `fitted`."""
    name: str
    """Description of what is counted."""
    value: float | None
    """A share in [0, 1], or a rank correlation in [-1, 1]."""
    interval: Interval | None
    n: int
    judged: int
    dimension: str = ""
    chance: float | None = None
    """Chance level."""
    basis: str = "judged"
    """`judged`: failures lower the coverage. `all`: failures count as wrong."""
    labels: tuple[str, ...] = ()
    """The label set; empty if there is none."""
    detail: Json = field(default_factory=dict)

    def to_json(self) -> Json:
        """Return the number as JSON."""
        share = self.judged / self.n if self.n else None
        return {**asdict(self), "labels": list(self.labels), "interval": bounds(self.interval), "coverage": share}


@dataclass(frozen=True)
class AnswerSheet:
    """The questions of a run, and the answers of one entry."""

    parts: Mapping[str, TaskPart]
    protocol: str
    metrics: tuple[str, ...]
    replies: tuple[QuestionAnswer, ...]
    """Answers to all questions, whether they count or not."""

    @property
    def counting(self) -> tuple[QuestionAnswer, ...]:
        """Answers to questions that have a label and are not excluded."""
        return tuple(reply for reply in self.replies if counts(reply.question))


def counts(question: Question) -> bool:
    """Return whether a question counts."""
    return not question.excluded and question.truth is not None


def numbers(sheet: AnswerSheet, rules: Mapping[str, TieRule] | None = None) -> list[Number]:
    """Compute the metrics of the task.

    Args:
        sheet: The answers.
        rules: Tie thresholds by part, fitted on other data.
    """
    results: list[Number] = []
    for name, part in sheet.parts.items():
        replies = [reply for reply in sheet.counting if reply.question.part == name]
        if not replies:
            continue
        for metric in sheet.metrics:
            if metric in _COUNTED:
                results += _COUNTED[metric](part, replies, sheet.protocol)
        rule = (rules or {}).get(name)
        if rule is not None:
            results += _fitted(part, replies, rule)
    return results + _all_groups(results, _orders(sheet.protocol)) if "groups" in sheet.metrics else results


def _orders(protocol: str) -> int:
    """Return the number of counted answers per pair. Intervals are computed for pairs."""
    return 2 if protocol == "both-orders" else 1


def _all_groups(results: Sequence[Number], orders: int) -> list[Number]:
    """Return the number for groups of all sizes; the pairs of K=2 are groups of two."""
    of_two = {number.part for number in results if number.metric == "exact"} - {
        number.part for number in results if number.metric == "groups"
    }
    used = [
        number
        for number in results
        if number.metric == "groups" or (number.metric == "exact" and number.part in of_two)
    ]
    if len(used) < 2:
        return []
    n, judged = sum(number.n for number in used), sum(number.judged for number in used)
    right = sum(number.detail["correct"] for number in used)
    names = ", ".join(number.part for number in used)
    return [
        Number(
            "all",
            "groups",
            f"complete groups of {names}; a group with a failed pair is not right",
            right / n if n else None,
            wilson(right / orders, n // orders),
            n,
            judged,
            chance=sum((number.chance or 0.0) * number.n for number in used) / n if n else None,
            basis="all",
            detail={"n": n, "judged": judged, "correct": right},
        )
    ]


def _exact(part: TaskPart, replies: Sequence[QuestionAnswer], protocol: str) -> list[Number]:
    results = []
    for dimension, some in _dimensions(replies):
        if _best_of_many(some):
            results.append(_best(part, dimension, some))
            continue
        answers = [_with_tie_kind(part, reply) for reply in some]
        results.append(_share(part, dimension, "exact", answers, part.labels))
        if BOTH_BAD in part.labels:
            labels = tuple(label for label in part.labels if label != BOTH_BAD)
            results.append(_share(part, dimension, "exact", [collapse(answer) for answer in answers], labels))
    return results


def _share(
    part: TaskPart, dimension: str, metric: str, answers: Sequence[LabeledAnswer], labels: Sequence[str]
) -> Number:
    count = pair_accuracy(answers, "exact", labels).accuracy
    floor = f", both bad where both rewards of a tie are below {GIVEN_FLOOR}" if BOTH_BAD in labels else ""
    return Number(
        part.name,
        metric,
        f"exact among {', '.join(labels)}{floor}",
        count.value,
        answers_interval(answers, count),
        count.n,
        count.judged,
        dimension,
        1 / len(labels),
        labels=tuple(labels),
        detail={**share_json(count), "chance": chance(answers, labels)},
    )


def _with_tie_kind(part: TaskPart, reply: QuestionAnswer) -> LabeledAnswer:
    """Return the answer with its kind of tie if the labels have two kinds: both bad if both rewards are low."""
    answer = reply.answer
    if BOTH_BAD not in part.labels:
        return answer
    known = [value for value in reply.values if value is not None]
    if answer.choice == TIE and len(known) == 2 and max(known) < GIVEN_FLOOR:
        return replace(answer, choice=BOTH_BAD)
    return answer


def _forced(part: TaskPart, replies: Sequence[QuestionAnswer], protocol: str) -> list[Number]:
    if not part.ties or _best_of_many(replies):
        return []
    results = []
    for dimension, some in _dimensions(replies):
        answers = [reply.forced for reply in some if reply.question.truth in TWO_WAY]
        score = pair_accuracy(answers, "no-tie", part.labels)
        results.append(
            Number(
                part.name,
                "forced",
                f"no tie: the higher score counts, of pairs labeled A or B ({len(some) - len(answers)} ties left out)",
                score.accuracy.value,
                answers_interval(answers, score.accuracy),
                score.accuracy.n,
                score.accuracy.judged,
                dimension,
                0.5,
                labels=TWO_WAY,
                detail=share_json(score.accuracy),
            )
        )
    return results


def _groups(part: TaskPart, replies: Sequence[QuestionAnswer], protocol: str) -> list[Number]:
    if part.group is None or part.candidates < 3:
        return []
    sizes = Counter(reply.question.group for reply in replies)
    whole = [reply for reply in replies if sizes[reply.question.group] == part.pairs_per_group]
    score = complete_groups([reply.group_pair for reply in whole], part.candidates)
    count = score.accuracy
    left = len(sizes) - count.n
    dropped = f" ({left} incomplete groups left out)" if left else ""
    share = count.correct / count.n if count.n else None
    orders = _orders(protocol)
    return [
        Number(
            part.name,
            "groups",
            f"complete groups of {part.candidates}, every pair correct; a group with a failed pair is not{dropped}",
            share,
            wilson(count.correct / orders, count.n // orders),
            count.n,
            count.judged,
            chance=group_chance(part.candidates)["pairs" if protocol in _PAIR_BY_PAIR else "ranking"],
            basis="all",
            labels=TWO_WAY,
            detail={**score.to_json(), "left_out": left},
        )
    ]


def _tuned(part: TaskPart, replies: Sequence[QuestionAnswer], protocol: str) -> list[Number]:
    if not part.ties or _best_of_many(replies):
        return []
    labels = tuple(label for label in part.labels if label != BOTH_BAD)
    pairs = [
        replace(reply.scored, truth=TIE if reply.question.truth in TIES else str(reply.question.truth))
        for reply in replies
    ]
    if all(pair.difference is None for pair in pairs):
        return []
    count = tuned_in_hindsight(pairs, labels).accuracy
    return [
        Number(
            part.name,
            "tuned",
            f"exact among {', '.join(labels)}, threshold chosen on the same labels (upper bound)",
            count.value,
            None,
            count.n,
            count.judged,
            labels=labels,
            detail=share_json(count),
        )
    ]


def _fitted(part: TaskPart, replies: Sequence[QuestionAnswer], rule: TieRule) -> list[Number]:
    pairs = [reply.scored for reply in replies]
    if BOTH_BAD not in rule.labels:
        pairs = [replace(pair, truth=TIE if pair.truth in TIES else pair.truth) for pair in pairs]
    count = with_ties(pairs, rule, judge=rule.judge, protocol=rule.protocol).accuracy
    answers = [
        replace(reply.answer, truth=pair.truth, choice=rule.label(pair))
        for reply, pair in zip(replies, pairs, strict=True)
    ]
    return [
        Number(
            part.name,
            "fitted",
            f"exact among {', '.join(rule.labels)}, threshold of ties fitted on other pairs",
            count.value,
            answers_interval(answers, count),
            count.n,
            count.judged,
            chance=1 / len(rule.labels),
            labels=rule.labels,
            detail={**share_json(count), **rule.summary},
        )
    ]


def _macro(part: TaskPart, replies: Sequence[QuestionAnswer], protocol: str) -> list[Number]:
    results = []
    for dimension, some in _dimensions(replies, pooled=False):
        answers = [reply.answer for reply in some]
        if part.ties:
            score = macro(answers, "exact", part.labels)
        else:
            score = editscore(replace(answer, dimension="") for answer in answers)[""]
        count = score.pooled
        answered = [answer for answer in answers if answer.choice is not None]
        credits = [(answer.category, agreement(answer, "exact" if part.ties else "strict")) for answer in answered]
        span = bootstrap(credits, mean_of_means, [answer.cluster for answer in answered], resamples=_RESAMPLES)
        if span is not None and span.low == span.high:  # all resamples are equal
            several = len({answer.pair for answer in answered})
            span = wilson(count.correct / count.judged * several, several)
        results.append(
            Number(
                part.name,
                "macro",
                f"mean over {len(score.parts)} categories, level candidates count as wrong",
                score.mean,
                span,
                count.n,
                count.judged,
                dimension,
                1 / len(part.labels),
                labels=part.labels,
                detail=score.to_json(),
            )
        )
    return results


def _spearman(part: TaskPart, replies: Sequence[QuestionAnswer], protocol: str) -> list[Number]:
    ratings = [reply.rating for reply in replies]
    correlation = correlate(ratings)
    span = mean_interval(ratings, [reply.question.cluster for reply in replies])
    count = correlation.counts
    editors = len(correlation.editors) - len(correlation.undefined)
    return [
        Number(
            part.name,
            "spearman",
            f"Spearman's correlation with people per editor, Fisher's mean over {editors} editors",
            correlation.mean,
            span,
            count.n,
            count.judged,
            chance=0.0,
            detail=correlation.to_json(),
        )
    ]


_COUNTED: Mapping[str, Callable[[TaskPart, Sequence[QuestionAnswer], str], list[Number]]] = {
    "exact": _exact,
    "forced": _forced,
    "groups": _groups,
    "tuned": _tuned,
    "macro": _macro,
    "spearman": _spearman,
}


def _dimensions(
    replies: Sequence[QuestionAnswer], *, pooled: bool = True
) -> list[tuple[str, Sequence[QuestionAnswer]]]:
    """Return the answers by dimension, and all of them if there are several dimensions."""
    names = sorted({reply.question.dimension for reply in replies})
    if len(names) < 2:
        return [(names[0] if names else "", replies)]
    parts: list[tuple[str, Sequence[QuestionAnswer]]] = [
        (name, [reply for reply in replies if reply.question.dimension == name]) for name in names
    ]
    return [*parts, ("", replies)] if pooled else parts


def _best_of_many(replies: Sequence[QuestionAnswer]) -> bool:
    return any(len(reply.question.asks) > 2 for reply in replies)


def _best(part: TaskPart, dimension: str, replies: Sequence[QuestionAnswer]) -> Number:
    """Return the share of groups whose best candidate was found. An undecided answer among k counts as 1/k."""
    count = Accuracy(
        len(replies),
        sum(reply.choice is not None for reply in replies),
        sum(credit(part, reply) or 0.0 for reply in replies),
    )
    many = len(replies[0].question.asks)
    answered = [reply for reply in replies if reply.choice is not None]
    return Number(
        part.name,
        "exact",
        f"best of {many} found",
        count.value,
        share_interval(
            [credit(part, reply) or 0.0 for reply in answered],
            [reply.question.cluster for reply in answered],
            count,
            [reply.question.pair for reply in answered],
        ),
        count.n,
        count.judged,
        dimension,
        1 / many,
        detail=share_json(count),
    )


def credit(part: TaskPart, reply: QuestionAnswer) -> float | None:
    """Return the agreement of an answer with the label, in [0, 1]; None without an answer or for a score as label."""
    if reply.choice is None or not isinstance(reply.question.truth, str):
        return None
    if len(reply.question.asks) > 2 and reply.choice in (UNDECIDED, TIE):
        return 1 / reply.level
    return agreement(_with_tie_kind(part, reply))
