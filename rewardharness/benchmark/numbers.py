"""Computes the numbers of a table, each with n, coverage, interval, chance level and how it was counted."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rewardharness.benchmark import metrics
from rewardharness.benchmark.answers import QuestionAnswer, TieRule, read_answer, tuned_in_hindsight, with_ties
from rewardharness.benchmark.intervals import (
    EditorCorrelation,
    answers_interval,
    bootstrap_mean,
    correlate,
    mean_interval,
    share_interval,
)
from rewardharness.benchmark.items import RunData
from rewardharness.benchmark.metrics import TWO_WAY, UNDECIDED, Bounds, LabeledAnswer, Share, agreement, split
from rewardharness.benchmark.task import BOTH_BAD, TaskPart
from rewardharness.codec import UNSET, UnsetType
from rewardharness.schema import TIE, Accuracy, Interval, Judgment

GIVEN_FLOOR = 0.5
"""Rewards below this are both bad if the judge has one kind of tie, the labels have two, and no floor was fitted."""

_PAIR_BY_PAIR = frozenset({"pairs", "both-orders"})
"""Protocols under which the pairs of a group can contradict each other."""

_RESAMPLES = 500
"""Resamples for means over categories."""


RATING, GRADE = "rating", "grade"
"""Metrics of editors: Bradley-Terry ratings by an arena, and mean grades in the scale of a benchmark."""


@dataclass(frozen=True, kw_only=True)
class Detail:
    """What a number is made of. Each metric has some of these fields; the others are omitted."""

    n: int | UnsetType = UNSET
    """As in `Share`, like the next seven."""
    judged: int | UnsetType = UNSET
    correct: float | UnsetType = UNSET
    coverage: float | UnsetType | None = UNSET
    accuracy: float | UnsetType | None = UNSET
    interval: Bounds | UnsetType | None = UNSET
    of_all: float | UnsetType | None = UNSET
    of_all_interval: Bounds | UnsetType | None = UNSET
    chance: Mapping[str, float] | UnsetType = UNSET
    """As `metrics.chance` or `group_chance` returns it."""
    candidates: int | UnsetType = UNSET
    """As in `GroupShare`, like the next two."""
    incomplete: tuple[str, ...] | UnsetType = UNSET
    pairs: Share | UnsetType = UNSET
    left_out: int | UnsetType = UNSET
    """Incomplete groups that are not counted."""
    threshold: float | UnsetType = UNSET
    """As in `TieRule`, like the next."""
    floor: float | UnsetType | None = UNSET
    fitted_on: int | UnsetType = UNSET
    """Pairs that the rule was fitted on; then its correct predictions among them, and the digest of these data."""
    fitted_right: int | UnsetType = UNSET
    fitted_digest: str | UnsetType = UNSET
    mean: float | UnsetType | None = UNSET
    """As in `MacroShare`, like the next three, or in `Correlation`."""
    mean_of_all: float | UnsetType | None = UNSET
    pooled: Share | UnsetType = UNSET
    parts: Mapping[str, Share] | UnsetType = UNSET
    weights: str | UnsetType = UNSET
    """As in `Correlation`, like the next two."""
    undefined: tuple[str, ...] | UnsetType = UNSET
    editors: Mapping[str, EditorCorrelation] | UnsetType = UNSET
    won: float | UnsetType = UNSET
    """Exploits that were preferred."""
    max: float | UnsetType | None = UNSET
    """Largest change."""


@dataclass(frozen=True, kw_only=True)
class NumberFacts:
    """What a number measures, and its value."""

    part: str
    metric: str
    """A key of `METRICS`, or `fitted`."""
    name: str
    """Description of what is counted."""
    value: float | None
    """A share in [0, 1], a rank correlation in [-1, 1], or a reward."""
    interval: Bounds | None
    n: int
    dimension: str = ""

    @property
    def is_share(self) -> bool:
        """Whether it is a share of questions, not a correlation, a reward or a rating."""
        return self.metric not in {"spearman", "exploit_reward", "honest_reward", "score_change", RATING, GRADE}

    @property
    def title(self) -> str:
        """What it measures, with its part."""
        dimension = f", {self.dimension}" if self.dimension else ""
        return f"{self.part}{dimension}: {self.name}"


@dataclass(frozen=True, kw_only=True)
class Number(NumberFacts):
    """One number of a table."""

    judged: int
    chance: float | None = None
    """Chance level."""
    basis: str = "judged"
    """`judged`: failures lower the coverage. `all`: failures count as wrong."""
    labels: tuple[str, ...] = ()
    """The label set; empty if there is none."""
    detail: Detail = field(default_factory=Detail)
    coverage: float | None = None
    """Share of the n that are judged; computed."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "coverage", self.judged / self.n if self.n else None)


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
        return tuple(reply for reply in self.replies if reply.question.counts)

    def by_part(self) -> Iterator[tuple[TaskPart, list[QuestionAnswer]]]:
        """Yield the parts with answers that count."""
        answers = split(self.counting, lambda reply: reply.question.part)
        yield from ((part, answers[name]) for name, part in self.parts.items() if name in answers)


def make_sheet(data: RunData, judgments: Mapping[str, Judgment]) -> AnswerSheet:
    """Read the answers of an entry from its judgments."""
    parts = {part.name: part for part in data.parts}
    replies = tuple(read_answer(question, judgments, parts[question.part].ties) for question in data.questions)
    return AnswerSheet(parts, data.protocol, data.task.metrics, replies)


def numbers(sheet: AnswerSheet, rules: Mapping[str, TieRule] | None = None) -> list[Number]:
    """Compute the metrics of the task.

    Args:
        sheet: The answers.
        rules: Tie thresholds by part, fitted on other data.
    """
    results: list[Number] = []
    for part, replies in sheet.by_part():
        for metric in sheet.metrics:
            if metric in _COUNTED:
                results += _COUNTED[metric](part, replies, sheet.protocol)
        if rules and part.name in rules:
            results.append(_fitted(part, replies, rules[part.name]))
    return results + _all_groups(results, _orders(sheet.protocol)) if "groups" in sheet.metrics else results


def _orders(protocol: str) -> int:
    """Return the number of counted answers per pair. Intervals are computed for pairs."""
    return 2 if protocol == "both-orders" else 1


def make_number(
    part: str, metric: str, name: str, count: Accuracy | Share, interval: Interval | None, **fields: Any
) -> Number:
    """Return a number that is the accuracy of the judged questions, unless the fields have another value."""
    value = count.correct / count.judged if count.judged else None
    detail = Detail(**vars(count)) if isinstance(count, Share) else Detail()
    known = {"value": value, "detail": detail, "n": count.n, "judged": count.judged, **fields}
    return Number(part=part, metric=metric, name=name, interval=metrics.bounds(interval), **known)


def _all_groups(results: Sequence[Number], orders: int) -> list[Number]:
    """Return the number for groups of all sizes; the pairs of K=2 are groups of two."""
    grouped = {number.part for number in results if number.metric == "groups"}
    used = [
        number
        for number in results
        if number.metric == "groups" or (number.metric == "exact" and number.part not in grouped)
    ]
    if len(used) < 2:
        return []
    n, judged = sum(number.n for number in used), sum(number.judged for number in used)
    correct = sum(number.detail.correct or 0.0 for number in used)
    name = f"complete groups of {', '.join(number.part for number in used)}; a group with a failed pair is not right"
    level = sum((number.chance or 0.0) * number.n for number in used)
    shares = {"value": correct / n, "chance": level / n} if n else {"value": None}
    detail, span = Detail(n=n, judged=judged, correct=correct), metrics.interval_of(correct / orders, n // orders)
    return [
        make_number("all", "groups", name, Accuracy(n, judged, correct), span, basis="all", detail=detail, **shares)
    ]


def _exact(part: TaskPart, replies: Sequence[QuestionAnswer], protocol: str) -> list[Number]:
    results = []
    for dimension, some in _dimensions(replies):
        if _best_of_many(some):
            results.append(_best(part, dimension, some))
            continue
        answers = [_with_tie_kind(part, reply) for reply in some]
        results.append(_share(part, dimension, answers, part.labels))
        if BOTH_BAD in part.labels:
            results.append(_share(part, dimension, [metrics.collapse(answer) for answer in answers], _one_tie(part)))
    return results


def _one_tie(part: TaskPart) -> tuple[str, ...]:
    """Return the labels with one kind of tie."""
    return tuple(label for label in part.labels if label != BOTH_BAD)


def _share(part: TaskPart, dimension: str, answers: Sequence[LabeledAnswer], labels: tuple[str, ...]) -> Number:
    share = Share.of(metrics.pair_accuracy(answers, "exact", labels).count)
    floor = f", both bad where both rewards of a tie are below {GIVEN_FLOOR}" if BOTH_BAD in labels else ""
    name, span = f"exact among {', '.join(labels)}{floor}", answers_interval(answers)
    detail = Detail(**vars(share), chance=metrics.chance(answers, labels))
    fields = {"dimension": dimension, "chance": 1 / len(labels), "labels": labels, "detail": detail}
    return make_number(part.name, "exact", name, share, span, **fields)


def _with_tie_kind(part: TaskPart, reply: QuestionAnswer) -> LabeledAnswer:
    """Return the answer with its kind of tie if the labels have two kinds: both bad if both rewards are low."""
    answer = reply.answer
    if BOTH_BAD not in part.labels:
        return answer
    known = [value for value in reply.values if value is not None]
    bad = answer.choice == TIE and len(known) == 2 and max(known) < GIVEN_FLOOR
    return replace(answer, choice=BOTH_BAD) if bad else answer


def _forced(part: TaskPart, replies: Sequence[QuestionAnswer], protocol: str) -> list[Number]:
    if not part.ties or _best_of_many(replies):
        return []
    results = []
    for dimension, some in _dimensions(replies):
        answers = [reply.forced for reply in some if reply.question.truth in TWO_WAY]
        name = f"no tie: the higher score counts, of pairs labeled A or B ({len(some) - len(answers)} ties left out)"
        share = Share.of(metrics.pair_accuracy(answers, "no-tie", part.labels).count)
        fields = {"dimension": dimension, "chance": 0.5, "labels": TWO_WAY}
        results.append(make_number(part.name, "forced", name, share, answers_interval(answers), **fields))
    return results


def _groups(part: TaskPart, replies: Sequence[QuestionAnswer], protocol: str) -> list[Number]:
    if part.group is None or part.candidates < 3:
        return []
    groups = split(replies, lambda reply: reply.question.group).values()
    whole = [reply.answer for group in groups if len(group) == part.pairs_per_group for reply in group]
    share = metrics.complete_groups(whole, part.candidates)
    left_out = len(groups) - share.n
    dropped = f" ({left_out} incomplete groups left out)" if left_out else ""
    name = f"complete groups of {part.candidates}, every pair correct; a group with a failed pair is not{dropped}"
    span = metrics.interval_of(share.correct / _orders(protocol), share.n // _orders(protocol))
    fields = {"basis": "all", "labels": TWO_WAY, "detail": Detail(**vars(share), left_out=left_out)}
    level = share.chance["pairs" if protocol in _PAIR_BY_PAIR else "ranking"]
    return [make_number(part.name, "groups", name, share, span, value=share.of_all, chance=level, **fields)]


def _tuned(part: TaskPart, replies: Sequence[QuestionAnswer], protocol: str) -> list[Number]:
    pairs = [metrics.collapse(reply.answer) for reply in replies]
    if not part.ties or _best_of_many(replies) or all(pair.difference is None for pair in pairs):
        return []
    labels = _one_tie(part)
    name = f"exact among {', '.join(labels)}, threshold chosen on the same labels (upper bound)"
    share = Share.of(tuned_in_hindsight(pairs, labels).count)
    return [make_number(part.name, "tuned", name, share, None, labels=labels)]


def _fitted(part: TaskPart, replies: Sequence[QuestionAnswer], rule: TieRule) -> Number:
    pairs = [reply.answer if BOTH_BAD in rule.labels else metrics.collapse(reply.answer) for reply in replies]
    share = Share.of(with_ties(pairs, rule, judge=rule.judge, protocol=rule.protocol).count)
    rule_facts = {"threshold": rule.threshold, "floor": rule.floor, "fitted_on": rule.n, "fitted_right": rule.correct}
    detail = Detail(**{**vars(share), **rule_facts, "fitted_digest": rule.digest})
    name = f"exact among {', '.join(rule.labels)}, threshold of ties fitted on other pairs"
    span = answers_interval([replace(pair, choice=rule.label(pair)) for pair in pairs])
    fields = {"chance": 1 / len(rule.labels), "labels": rule.labels, "detail": detail}
    return make_number(part.name, "fitted", name, share, span, **fields)


def _macro(part: TaskPart, replies: Sequence[QuestionAnswer], protocol: str) -> list[Number]:
    results = []
    for dimension, some in _dimensions(replies, pooled=False):
        answers = [reply.answer for reply in some]
        treatment, labels = ("exact", part.labels) if part.ties else ("strict", TWO_WAY)
        score = metrics.macro(answers, treatment, labels)  # type: ignore[arg-type]
        count = score.pooled
        answered = [answer for answer in answers if answer.choice is not None]
        credits = [agreement(answer, treatment) for answer in answered]  # type: ignore[arg-type]
        clusters, categories = ([getattr(answer, name) for answer in answered] for name in ("cluster", "category"))
        span = bootstrap_mean(credits, clusters, categories=categories, resamples=_RESAMPLES)
        if span is None:  # all resamples are equal
            span = share_interval(credits, clusters, [answer.pair or answer.id for answer in answered])
        name = f"mean over {len(score.parts)} categories, level candidates count as wrong"
        fields = {"chance": 1 / len(part.labels), "labels": part.labels, "detail": Detail(**vars(score))}
        fields |= {"value": score.mean, "dimension": dimension}
        results.append(make_number(part.name, "macro", name, count, span, **fields))
    return results


def _spearman(part: TaskPart, replies: Sequence[QuestionAnswer], protocol: str) -> list[Number]:
    ratings = [reply.rating for reply in replies]
    correlation = correlate(ratings)
    editors = len(correlation.editors) - len(correlation.undefined)
    name = f"Spearman's correlation with people per editor, Fisher's mean over {editors} editors"
    span = mean_interval(ratings, [reply.question.cluster for reply in replies])
    count, fields = Accuracy(correlation.n, correlation.judged, 0.0), {"value": correlation.mean, "chance": 0.0}
    return [make_number(part.name, "spearman", name, count, span, detail=Detail(**vars(correlation)), **fields)]


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
    parts = split(replies, lambda reply: reply.question.dimension)
    return [*parts.items(), *([("", replies)] if pooled and len(parts) > 1 else [])]


def _best_of_many(replies: Sequence[QuestionAnswer]) -> bool:
    return any(len(reply.question.asks) > 2 for reply in replies)


def _best(part: TaskPart, dimension: str, replies: Sequence[QuestionAnswer]) -> Number:
    """Return the share of groups whose best candidate was found. An undecided answer among k counts as 1/k."""
    answered = [reply for reply in replies if reply.choice is not None]
    credits = [credit(part, reply) or 0.0 for reply in answered]
    many = len(replies[0].question.asks)
    clusters, pairs = ([getattr(reply.question, name) for reply in answered] for name in ("cluster", "pair"))
    share = Share.of(Accuracy(len(replies), len(answered), sum(credits)))
    span = share_interval(credits, clusters, pairs)
    return make_number(part.name, "exact", f"best of {many} found", share, span, dimension=dimension, chance=1 / many)


def credit(part: TaskPart, reply: QuestionAnswer) -> float | None:
    """Return the agreement of an answer with the label, in [0, 1]; None without an answer or for a score as label."""
    if reply.choice is None or not isinstance(reply.question.truth, str):
        return None
    if len(reply.question.asks) > 2 and reply.choice in (UNDECIDED, TIE):
        return 1 / reply.level
    return agreement(_with_tie_kind(part, reply))
