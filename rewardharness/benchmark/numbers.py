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
"""Where a judge knows one kind of tie and no floor was fitted: two rewards below this are both bad."""

_PAIR_BY_PAIR = frozenset({"pairs", "both-orders"})
"""Protocols under which the pairs of a group can contradict each other."""

_RESAMPLES = 500
"""Of intervals whose statistic is not a plain mean."""


@dataclass(frozen=True)
class Number:
    """One number of a table."""

    part: str
    metric: str
    """A key of `METRICS`, or `fitted`."""
    name: str
    """What is counted and how, in words; with the part and the protocol it says all."""
    value: float | None
    """What is quoted: a share in [0, 1], or a rank correlation in [-1, 1]."""
    interval: Interval | None
    n: int
    judged: int
    dimension: str = ""
    chance: float | None = None
    """What guessing gets."""
    basis: str = "judged"
    """`judged`: failures lower the coverage. `all`: what was not judged counts as wrong."""
    labels: tuple[str, ...] = ()
    """The label set that was counted over; empty where there is none."""
    detail: Json = field(default_factory=dict)

    def to_json(self) -> Json:
        """Put it into JSON."""
        share = self.judged / self.n if self.n else None
        return {**asdict(self), "labels": list(self.labels), "interval": bounds(self.interval), "coverage": share}


@dataclass(frozen=True)
class AnswerSheet:
    """The questions of a run, and what one contender replied."""

    parts: Mapping[str, TaskPart]
    protocol: str
    metrics: tuple[str, ...]
    replies: tuple[QuestionAnswer, ...]
    """Those that count, and those that do not."""

    @property
    def counting(self) -> tuple[QuestionAnswer, ...]:
        """Replies to questions that have a truth and are not excluded."""
        return tuple(each for each in self.replies if counts(each.question))


def counts(question: Question) -> bool:
    """Whether a question counts."""
    return not question.excluded and question.truth is not None


def numbers(sheet: AnswerSheet, rules: Mapping[str, TieRule] | None = None) -> list[Number]:
    """Count everything that the task asks for.

    Args:
        sheet: What was replied.
        rules: Thresholds of ties per part, fitted on other data.
    """
    found: list[Number] = []
    for name, part in sheet.parts.items():
        replies = [each for each in sheet.counting if each.question.part == name]
        if not replies:
            continue
        for metric in sheet.metrics:
            found += _COUNTED[metric](part, replies, sheet.protocol)
        rule = (rules or {}).get(name)
        if rule is not None:
            found += _fitted(part, replies, rule)
    return found + _all_groups(found, _orders(sheet.protocol)) if "groups" in sheet.metrics else found


def _orders(protocol: str) -> int:
    """How many answers about one pair are counted. Intervals are those of as many pairs as there are."""
    return 2 if protocol == "both-orders" else 1


def _all_groups(found: Sequence[Number], orders: int) -> list[Number]:
    """Groups of every size as one: the pairs of K=2 are groups of two."""
    of_two = {each.part for each in found if each.metric == "exact"} - {
        each.part for each in found if each.metric == "groups"
    }
    used = [each for each in found if each.metric == "groups" or (each.metric == "exact" and each.part in of_two)]
    if len(used) < 2:
        return []
    n, judged = sum(each.n for each in used), sum(each.judged for each in used)
    right = sum(each.detail["correct"] for each in used)
    names = ", ".join(each.part for each in used)
    return [
        Number(
            "all",
            "groups",
            f"complete groups of {names}; a group with a failed pair is not right",
            right / n if n else None,
            wilson(right / orders, n // orders),
            n,
            judged,
            chance=sum((each.chance or 0.0) * each.n for each in used) / n if n else None,
            basis="all",
            detail={"n": n, "judged": judged, "correct": right},
        )
    ]


def _exact(part: TaskPart, replies: Sequence[QuestionAnswer], protocol: str) -> list[Number]:
    found = []
    for dimension, some in _dimensions(replies):
        if _best_of_many(some):
            found.append(_best(part, dimension, some))
            continue
        answers = [_told_apart(part, each) for each in some]
        found.append(_share(part, dimension, "exact", answers, part.labels))
        if BOTH_BAD in part.labels:
            labels = tuple(label for label in part.labels if label != BOTH_BAD)
            found.append(_share(part, dimension, "exact", [collapse(answer) for answer in answers], labels))
    return found


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


def _told_apart(part: TaskPart, each: QuestionAnswer) -> LabeledAnswer:
    """Say which kind of tie it is, where the labels know two and the judge one: both bad if both scores are low."""
    answer = each.answer
    if BOTH_BAD not in part.labels:
        return answer
    known = [value for value in each.values if value is not None]
    if answer.choice == TIE and len(known) == 2 and max(known) < GIVEN_FLOOR:
        return replace(answer, choice=BOTH_BAD)
    return answer


def _forced(part: TaskPart, replies: Sequence[QuestionAnswer], protocol: str) -> list[Number]:
    if not part.ties or _best_of_many(replies):
        return []
    found = []
    for dimension, some in _dimensions(replies):
        answers = [each.forced for each in some if each.question.truth in TWO_WAY]
        score = pair_accuracy(answers, "no-tie", part.labels)
        found.append(
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
    return found


def _groups(part: TaskPart, replies: Sequence[QuestionAnswer], protocol: str) -> list[Number]:
    if part.group is None or part.candidates < 3:
        return []
    sizes = Counter(each.question.group for each in replies)
    whole = [each for each in replies if sizes[each.question.group] == part.pairs_per_group]
    score = complete_groups([each.group_pair for each in whole], part.candidates)
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
        replace(each.scored, truth=TIE if each.question.truth in TIES else str(each.question.truth)) for each in replies
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
    pairs = [each.scored for each in replies]
    if BOTH_BAD not in rule.labels:
        pairs = [replace(pair, truth=TIE if pair.truth in TIES else pair.truth) for pair in pairs]
    count = with_ties(pairs, rule, judge=rule.judge, protocol=rule.protocol).accuracy
    answers = [
        replace(each.answer, truth=pair.truth, choice=rule.label(pair))
        for each, pair in zip(replies, pairs, strict=True)
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
    found = []
    for dimension, some in _dimensions(replies, pooled=False):
        answers = [each.answer for each in some]
        if part.ties:
            score = macro(answers, "exact", part.labels)
        else:
            score = editscore(replace(answer, dimension="") for answer in answers)[""]
        count = score.pooled
        told = [answer for answer in answers if answer.choice is not None]
        credits = [(answer.category, agreement(answer, "exact" if part.ties else "strict")) for answer in told]
        span = bootstrap(credits, mean_of_means, [answer.cluster for answer in told], resamples=_RESAMPLES)
        if span is not None and span.low == span.high:  # every resample is alike: that says nothing of others
            several = len({answer.pair for answer in told})
            span = wilson(count.correct / count.judged * several, several)
        found.append(
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
    return found


def _spearman(part: TaskPart, replies: Sequence[QuestionAnswer], protocol: str) -> list[Number]:
    ratings = [each.rating for each in replies]
    found = correlate(ratings)
    span = mean_interval(ratings, [each.question.cluster for each in replies])
    count = found.counts
    editors = len(found.editors) - len(found.undefined)
    return [
        Number(
            part.name,
            "spearman",
            f"Spearman's correlation with people per editor, Fisher's mean over {editors} editors",
            found.mean,
            span,
            count.n,
            count.judged,
            chance=0.0,
            detail=found.to_json(),
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
    """Replies per dimension, and all of them together where there are several."""
    names = sorted({each.question.dimension for each in replies})
    if len(names) < 2:
        return [(names[0] if names else "", replies)]
    parts: list[tuple[str, Sequence[QuestionAnswer]]] = [
        (name, [each for each in replies if each.question.dimension == name]) for name in names
    ]
    return [*parts, ("", replies)] if pooled else parts


def _best_of_many(replies: Sequence[QuestionAnswer]) -> bool:
    return any(len(each.question.asks) > 2 for each in replies)


def _best(part: TaskPart, dimension: str, replies: Sequence[QuestionAnswer]) -> Number:
    """Whether the best of three or four was found; undecided among some, the share that a coin would get."""
    count = Accuracy(
        len(replies),
        sum(each.choice is not None for each in replies),
        sum(credit(part, each) or 0.0 for each in replies),
    )
    many = len(replies[0].question.asks)
    told = [each for each in replies if each.choice is not None]
    return Number(
        part.name,
        "exact",
        f"best of {many} found",
        count.value,
        share_interval(
            [credit(part, each) or 0.0 for each in told],
            [each.question.cluster for each in told],
            count,
            [each.question.pair for each in told],
        ),
        count.n,
        count.judged,
        dimension,
        1 / many,
        detail=share_json(count),
    )


def credit(part: TaskPart, each: QuestionAnswer) -> float | None:
    """How far a reply agrees with the truth, in [0, 1]; None without a reply, or where the truth is a score."""
    if each.choice is None or not isinstance(each.question.truth, str):
        return None
    if len(each.question.asks) > 2 and each.choice in (UNDECIDED, TIE):
        return 1 / each.level
    return agreement(_told_apart(part, each))
