"""Concurrent judging for many callers with one shared limit, deduplication of equal requests, and deadlines.

This module does not depend on HTTP. It runs on the event loop of its callers; a judge does CPU-heavy work in threads.
"""

import asyncio
import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from rewardharness.judging.evaluate import judge_calibrated
from rewardharness.judging.interface import unjudged, with_ungradable
from rewardharness.judging.judge import Judge
from rewardharness.judging.ranking import CandidateSet, Method, candidate_rewards
from rewardharness.library.store import Library
from rewardharness.schema import LABELS, TIE, Failure, Judgment, Scores
from rewardharness.serving.faults import DEADLINE, DEFECT, SHUTTING_DOWN, Fault, failure_for, fault_of
from rewardharness.serving.limits import Limits
from rewardharness.serving.media import Edit, judge_input
from rewardharness.serving.results import (
    Comparison,
    Comparisons,
    ItemResult,
    JudgedEdit,
    RequestResult,
    milliseconds,
    total_usage,
)

log = logging.getLogger(__name__)


@dataclass
class _Shared:
    """A judgment in progress, and the number of requests that wait for it."""

    task: asyncio.Task[JudgedEdit]
    waiting: int = 0


class Scorer:
    """Judges edits with one judge and one Library.

    Args:
        judge: The judge.
        library: The Library of the judge.
        limits: Limits of concurrency, time and cached judgments.
        on_made: Called with every judgment, including failures, and its duration in seconds.
    """

    def __init__(
        self,
        judge: Judge,
        library: Library,
        limits: Limits,
        on_made: Callable[[JudgedEdit, float], None] = lambda outcome, seconds: None,
    ) -> None:
        self.judge = judge
        self.library = library
        self.limits = limits
        self._on_made = on_made
        self.under_way = 0
        """Judgments in progress."""
        self._slots = asyncio.Semaphore(limits.concurrency)
        self._asks = judge.traits.uses_model
        self._closing = False
        self._shared: dict[tuple[str, ...], _Shared] = {}
        self._remembered: OrderedDict[tuple[str, ...], Judgment] = OrderedDict()

    async def judge_edit(self, edit: Edit, ends: float) -> JudgedEdit:
        """Judge one edit.

        Args:
            edit: What to judge.
            ends: Deadline by the clock of the loop.

        Returns:
            A judgment or a fault. Raises only when cancelled.
        """
        began = time.perf_counter()
        outcome = await self._find(edit, ends)
        judgment = with_ungradable(outcome.judgment) if edit.allow_ungradable else outcome.judgment
        return JudgedEdit(judgment, outcome.cached, time.perf_counter() - began)

    async def close(self) -> None:
        """Cancel judgments in progress, and close the judge."""
        self._closing = True
        tasks = [shared.task for shared in self._shared.values()]
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=5)
        await self.judge.close()

    async def _find(self, edit: Edit, ends: float) -> JudgedEdit:
        limit = self.limits.pixels
        if any(image.pixels is not None and image.pixels > limit for image in edit.images):
            failure = Failure("image", f"An image has more than {limit} pixels.")
            return JudgedEdit(unjudged(edit.example(), self.judge, self.library, failure))
        key = edit.key
        if key in self._remembered:
            self._remembered.move_to_end(key)
            return JudgedEdit(self._remembered[key], cached=True)
        if self._closing:
            return self._none(edit, SHUTTING_DOWN)
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
                # No request waits for this judgment any longer, so cancel it.
                shared.task.cancel()
                if self._shared.get(key) is shared:
                    del self._shared[key]

    async def _make(self, edit: Edit) -> JudgedEdit:
        """Make a judgment when a slot is free. An internal error of the judge fails this judgment only."""
        async with self._slots:
            self.under_way += 1
            began = time.perf_counter()
            try:
                judge = self.judge.with_critiques() if edit.critique else self.judge
                outcome = self._slim(await judge_calibrated(judge, edit.example(), self.library))
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

    def _none(self, edit: Edit, fault: Fault) -> JudgedEdit:
        """Return the outcome of an edit that was not judged."""
        return JudgedEdit(unjudged(edit.example(), self.judge, self.library, failure_for(fault)))

    def _slim(self, judgment: Judgment) -> JudgedEdit:
        """Drop parts that callers do not receive, to save memory."""
        slim = replace(judgment, steps=(), reasons=(), entries=(), notes=())
        return JudgedEdit(slim, cached=self._asks and slim.failure is None and slim.usage.calls == 0)

    async def score(self, edit: Edit, ends: float, *, both_orders: bool = False) -> RequestResult:
        """Judge one edit, or two to four candidates together as `rh score` does.

        Args:
            edit: What to judge.
            ends: Deadline by the clock of the loop.
            both_orders: Whether two candidates are judged in both orders; see `judge_pair`.
        """
        outcome = await (self.judge_pair if both_orders else self.judge_edit)(edit, ends)
        labels = LABELS[: len(edit.candidates)]
        items = [outcome.item(index, edit.id, label) for index, label in enumerate(labels)]
        if len(labels) == 1:
            return RequestResult(items, outcome.usage)
        comparison = _comparison(outcome)
        return RequestResult(_with_margins(items, comparison), outcome.usage, comparison)

    async def batch(self, edits: Sequence[Edit], ends: float) -> RequestResult:
        """Judge each edit separately and concurrently."""
        outcomes = await asyncio.gather(*(self.judge_edit(edit, ends) for edit in edits))
        pairs = enumerate(zip(edits, outcomes, strict=True))
        items = [outcome.item(index, edit.id, LABELS[0]) for index, (edit, outcome) in pairs]
        return RequestResult(items, total_usage(outcomes))

    async def rank(self, edit: Edit, ends: float, method: Method) -> RequestResult:
        """Judge each of any number of candidates alone, or compare every pair of them in both orders.

        With the method `win_rate` no single result names a usage, since a comparison belongs to two candidates.
        """
        if method == "score":
            return await self.batch([replace(edit, candidates=(media,)) for media in edit.candidates], ends)
        field = CandidateSet("", edit.instruction, None, tuple(judge_input("", media) for media in edit.candidates))
        pairs = list(combinations(range(len(edit.candidates)), 2))
        duels = [replace(edit, candidates=(edit.candidates[one], edit.candidates[other])) for one, other in pairs]
        outcomes = await asyncio.gather(*(self.judge_pair(duel, ends) for duel in duels))
        judged = {f"#{one}-{other}": outcome.judgment for (one, other), outcome in zip(pairs, outcomes, strict=True)}
        items = []
        for candidate in candidate_rewards(field, "win_rate", judged):
            own = [outcome for pair, outcome in zip(pairs, outcomes, strict=True) if candidate.index in pair]
            confidences = [outcome.judgment.own_confidence for outcome in own]
            item = ItemResult(
                candidate.index,
                edit.id,
                candidate.reward is not None,
                candidate.reward,
                comparisons=Comparisons(candidate.judged, candidate.of),
                confidence=min((number for number in confidences if number is not None), default=None),
                error=None if candidate.failure is None else fault_of(candidate.failure),
                cached=all(outcome.cached for outcome in own),
                latency_ms=milliseconds(max(outcome.seconds for outcome in own)),
            )
            items.append(item)
        return RequestResult(items, total_usage(outcomes))

    async def judge_pair(self, edit: Edit, ends: float) -> JudgedEdit:
        """Judge two candidates in both orders.

        A judge that judges both orders itself is called once. Otherwise it is called for each order, and margins and
        scores are the means of the two. If one of the two fails, there is no result, to avoid position bias.
        """
        outcome = await self.judge_edit(edit, ends)
        if outcome.fault is not None or outcome.judgment.position_consistent is not None:
            return outcome
        return _both(outcome, await self.judge_edit(edit.reversed(), ends))


def _comparison(outcome: JudgedEdit) -> Comparison:
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
        calibration=judgment.calibration,
    )


def _with_margins(items: Sequence[ItemResult], comparison: Comparison) -> list[ItemResult]:
    """Set the margin of each candidate from the comparison."""
    margin = comparison.margin
    if margin is None or comparison.preference not in LABELS:
        return list(items)
    best = LABELS.index(comparison.preference)
    others = -margin if len(items) == 2 else None
    return [replace(item, margin=margin if item.index == best else others) for item in items]


def _both(first: JudgedEdit, second: JudgedEdit) -> JudgedEdit:
    """Combine the outcomes of one pair in two orders; the letters of the second are swapped."""
    forward, reverse = first.judgment, second.judgment
    cached, seconds = first.cached and second.cached, first.seconds + second.seconds
    if reverse.failure is not None:
        return JudgedEdit(replace(reverse, usage=first.judgment.usage + reverse.usage), cached, seconds)
    margin = (_lead(forward) - _lead(reverse)) / 2
    swapped = {_SWAPPED[label]: scores for label, scores in reverse.scores.items()}
    scores = {label: _mean_scores(own, swapped[label]) for label, own in forward.scores.items() if label in swapped}
    judgment = replace(
        forward,
        preference=TIE if margin == 0 else "A" if margin > 0 else "B",
        ranking=(("A", "B"),) if margin == 0 else (("A",), ("B",)) if margin > 0 else (("B",), ("A",)),
        margin=None if forward.margin is None or reverse.margin is None else abs(margin),
        confidence=None,
        calibration=None,
        scores=scores,
        position_consistent=_SWAPPED.get(reverse.preference or "") == forward.preference,
        usage=forward.usage + reverse.usage,
    )
    return JudgedEdit(judgment, cached, seconds)


_SWAPPED = {"A": "B", "B": "A", TIE: TIE}


def _lead(judgment: Judgment) -> float:
    """Return the signed margin of A over B. A judge without margins counts as 1."""
    margin = 1.0 if judgment.margin is None else judgment.margin
    return margin if judgment.preference == "A" else -margin if judgment.preference == "B" else 0.0


def _mean_scores(first: Scores, second: Scores) -> Scores:
    def mean(name: str) -> float | None:
        one, other = getattr(first, name), getattr(second, name)
        return None if one is None or other is None else (one + other) / 2

    return Scores(mean("instruction"), mean("quality"), mean("reward"), None, mean("consistency"), mean("evidence"))
