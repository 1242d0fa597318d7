"""Judging for many callers at once: one limit for all, equal questions asked once, nobody waits beyond a deadline.

Knows nothing of HTTP. Everything runs on the event loop of its callers; a judge does its heavy work elsewhere.
"""

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from rewardharness.files import content_id
from rewardharness.judging.judge import Judge, unjudged, with_ungradable
from rewardharness.judging.subagent import SubAgent
from rewardharness.library.store import Library
from rewardharness.schema import LABELS, TIE, Example, Failure, ImageInput, Judgment, Scores
from rewardharness.serving.faults import DEADLINE, DEFECT, SHUTTING_DOWN, Fault, failure_for
from rewardharness.serving.images import Given
from rewardharness.serving.limits import Limits
from rewardharness.serving.results import Comparison, ItemResult, Outcome

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Edit:
    """One source, one instruction, and one to four candidates that are judged together."""

    instruction: str
    source: Given
    candidates: tuple[Given, ...]
    id: str | None = None
    group: str | None = None
    """Name of the group within which its reward is made relative."""
    allow_ungradable: bool = False
    """Whether the caller accepts a reward of low confidence where the instruction cannot be graded."""

    @property
    def key(self) -> tuple[str, ...]:
        """What tells it from other questions to the same judge with the same Library."""
        return (self.instruction, self.source.sha256, *(each.sha256 for each in self.candidates))

    def example(self) -> Example:
        """Put it as the judge wants it. The names are ours: nothing that a caller wrote but the instruction."""
        several = len(self.candidates) > 1
        names = [f"candidate {LABELS[number]}" if several else "the edited image" for number in range(len(LABELS))]
        images = [ImageInput(name, data=each.data) for name, each in zip(names, self.candidates, strict=False)]
        return Example(
            content_id(list(self.key))[:16],
            self.instruction,
            ImageInput("the source", data=self.source.data),
            tuple(images),
        )

    def reversed(self) -> "Edit":
        """The same with its candidates the other way round."""
        return replace(self, candidates=self.candidates[::-1])


class _Shared:
    """A judgment that is being made, and how many wait for it."""

    def __init__(self, task: "asyncio.Task[Outcome]") -> None:
        self.task = task
        self.waiting = 0


class Scorer:
    """Judges edits with one judge and one Library.

    Args:
        judge: Who judges.
        library: What it knows.
        limits: How much at once, for how long, and how many judgments to remember.
        on_made: Told of every judgment that the judge made or failed to make, with the seconds that it took.
    """

    def __init__(
        self,
        judge: Judge,
        library: Library,
        limits: Limits,
        on_made: Callable[[Outcome, float], None] = lambda outcome, seconds: None,
    ) -> None:
        self.judge = judge
        self.library = library
        self.limits = limits
        self._on_made = on_made
        self.under_way = 0
        """Judgments that the judge is making."""
        self._slots = asyncio.Semaphore(limits.concurrency)
        self._asks = isinstance(judge, SubAgent)
        self._closing = False
        self._shared: dict[tuple[str, ...], _Shared] = {}
        self._remembered: OrderedDict[tuple[str, ...], Judgment] = OrderedDict()

    async def judge_edit(self, edit: Edit, ends: float) -> Outcome:
        """Judge one edit.

        Args:
            edit: What to judge.
            ends: When, by the loop's clock, nobody waits any more.

        Returns:
            A judgment or a fault; never an exception, but for being cancelled.
        """
        began = time.perf_counter()
        outcome = await self._find(edit, ends)
        judgment = with_ungradable(outcome.judgment) if edit.allow_ungradable else outcome.judgment
        return Outcome(judgment, outcome.cached, time.perf_counter() - began)

    def recall(self, edit: Edit) -> Judgment | None:
        """Return a judgment that is remembered."""
        judgment = self._remembered.get(edit.key)
        if judgment is not None:
            self._remembered.move_to_end(edit.key)
        return judgment

    async def close(self) -> None:
        """Give up what is under way, and close the judge."""
        self._closing = True
        tasks = [shared.task for shared in self._shared.values()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=5)
        await self.judge.close()

    async def _find(self, edit: Edit, ends: float) -> Outcome:
        most = self.limits.pixels
        if any(each.pixels is not None and each.pixels > most for each in (edit.source, *edit.candidates)):
            failure = Failure("image", f"An image has more than {most} pixels.")
            return Outcome(unjudged(edit.example(), self.judge, self.library, failure))
        known = self.recall(edit)
        if known is not None:
            return Outcome(known, cached=True)
        if self._closing:
            return self._none(edit, SHUTTING_DOWN)
        key = edit.key
        shared = self._shared.get(key)
        first = shared is None
        if shared is None:
            shared = self._shared[key] = _Shared(asyncio.create_task(self._make(edit)))
        shared.waiting += 1
        try:
            done, _ = await asyncio.wait({shared.task}, timeout=max(0.0, ends - asyncio.get_running_loop().time()))
            if not done:
                return self._none(edit, DEADLINE)
            if shared.task.cancelled():
                return self._none(edit, SHUTTING_DOWN if self._closing else DEFECT)
            outcome = shared.task.result()
            return outcome if first or outcome.fault is not None else replace(outcome, cached=True)
        finally:
            shared.waiting -= 1
            if shared.waiting == 0:
                # Nobody wants it any more: it makes room for others, whether it has begun or not.
                shared.task.cancel()
                if self._shared.get(key) is shared:
                    del self._shared[key]

    async def _make(self, edit: Edit) -> Outcome:
        """Have a judgment made when its turn comes; a defect of the judge costs this judgment and no other."""
        async with self._slots:
            self.under_way += 1
            began = time.perf_counter()
            try:
                outcome = self._slim(await self.judge.judge(edit.example(), self.library))
            except Exception as error:
                log.error("the judge failed unexpectedly: %s", type(error).__name__)
                log.debug("the judge failed", exc_info=error)
                outcome = self._none(edit, DEFECT)
            finally:
                self.under_way -= 1
        self._on_made(outcome, time.perf_counter() - began)
        if outcome.fault is None and self.limits.remembered:
            self._remembered[edit.key] = outcome.judgment
            while len(self._remembered) > self.limits.remembered:
                self._remembered.popitem(last=False)
        return outcome

    def _none(self, edit: Edit, fault: Fault) -> Outcome:
        """Say that an edit was not judged."""
        return Outcome(unjudged(edit.example(), self.judge, self.library, failure_for(fault)))

    def _slim(self, judgment: Judgment) -> Outcome:
        """Leave out what is not told to callers and would fill the memory."""
        slim = replace(judgment, steps=(), reasons=(), entries=(), notes=())
        return Outcome(slim, cached=self._asks and slim.failure is None and slim.usage.calls == 0)

    async def score(self, edit: Edit, ends: float) -> tuple[list[ItemResult], Comparison | None]:
        """Judge one edit, or two to four candidates together as `rh score` does.

        Returns:
            One result per candidate; and which is preferred, None for a single one.
        """
        outcome = await self.judge_edit(edit, ends)
        labels = LABELS[: len(edit.candidates)]
        items = [outcome.item(index, edit.id, label) for index, label in enumerate(labels)]
        if len(labels) == 1:
            return items, None
        comparison = _comparison(outcome)
        return _with_margins(items, comparison), comparison

    async def batch(self, edits: Sequence[Edit], ends: float) -> list[ItemResult]:
        """Judge each edit alone, side by side."""
        outcomes = await asyncio.gather(*(self.judge_edit(edit, ends) for edit in edits))
        return [
            outcome.item(index, edit.id, LABELS[0])
            for index, (edit, outcome) in enumerate(zip(edits, outcomes, strict=True))
        ]

    async def compare(self, edit: Edit, ends: float) -> tuple[list[ItemResult], Comparison]:
        """Compare two candidates in both orders; see `judge_pair`."""
        outcome = await self.judge_pair(edit, ends)
        items = [outcome.item(index, edit.id, label) for index, label in enumerate(LABELS[:2])]
        comparison = _comparison(outcome)
        return _with_margins(items, comparison), comparison

    async def judge_pair(self, edit: Edit, ends: float) -> Outcome:
        """Judge two candidates in both orders.

        A judge that shows both orders by itself is asked once. One that does not is asked again the other way round;
        then margins and scores are the means of the two. Half a comparison would favour a place: where one of the two
        fails, there is none.
        """
        outcome = await self.judge_edit(edit, ends)
        if outcome.fault is not None or outcome.judgment.position_consistent is not None:
            return outcome
        return _both(outcome, await self.judge_edit(edit.reversed(), ends))


def _comparison(outcome: Outcome) -> Comparison:
    judgment = outcome.judgment
    fault = outcome.fault or (DEFECT if judgment.preference is None else None)
    if fault is not None:
        return Comparison(None, (), None, None, fault)
    return Comparison(
        judgment.preference,
        judgment.ranking,
        judgment.margin,
        judgment.position_consistent,
        confidence=judgment.confidence,
    )


def _with_margins(items: Sequence[ItemResult], comparison: Comparison) -> list[ItemResult]:
    """Give each candidate its lead, as far as the comparison tells."""
    margin = comparison.margin
    if margin is None or comparison.preference not in LABELS:
        return list(items)
    best = LABELS.index(comparison.preference)
    others = -margin if len(items) == 2 else None
    return [replace(item, margin=margin if item.index == best else others) for item in items]


def _both(first: Outcome, second: Outcome) -> Outcome:
    """Put together what came of one pair in two orders; the second's letters are the other way round."""
    one, other = first.judgment, second.judgment
    cached, seconds = first.cached and second.cached, first.seconds + second.seconds
    if other.failure is not None:
        return Outcome(replace(other, usage=first.judgment.usage + other.usage), cached, seconds)
    lead = (_lead(one) - _lead(other)) / 2
    swapped = {_SWAPPED[label]: scores for label, scores in other.scores.items()}
    scores = {label: _mean_scores(one.scores[label], swapped[label]) for label in one.scores if label in swapped}
    judgment = replace(
        one,
        preference=TIE if lead == 0 else "A" if lead > 0 else "B",
        ranking=(("A", "B"),) if lead == 0 else (("A",), ("B",)) if lead > 0 else (("B",), ("A",)),
        margin=None if one.margin is None or other.margin is None else abs(lead),
        confidence=None,
        scores=scores,
        position_consistent=_SWAPPED.get(other.preference or "") == one.preference,
        usage=one.usage + other.usage,
    )
    return Outcome(judgment, cached, seconds)


_SWAPPED = {"A": "B", "B": "A", TIE: TIE}


def _lead(judgment: Judgment) -> float:
    """By how much A leads B. A judge that does not say how far is taken to mean the whole way."""
    margin = 1.0 if judgment.margin is None else judgment.margin
    return margin if judgment.preference == "A" else -margin if judgment.preference == "B" else 0.0


def _mean_scores(one: Scores, other: Scores) -> Scores:
    return Scores(
        _mean(one.instruction, other.instruction),
        _mean(one.quality, other.quality),
        _mean(one.reward, other.reward),
        evidence=_mean(one.evidence, other.evidence),
    )


def _mean(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else (one + other) / 2
