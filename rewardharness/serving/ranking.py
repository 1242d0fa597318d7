"""Rewards for a whole group of candidates at once, by the methods of `judging.best_of`."""

import asyncio
from collections.abc import Iterable
from dataclasses import replace
from itertools import combinations

from rewardharness.judging.best_of import CandidateSet, candidate_rewards
from rewardharness.serving.faults import fault_of
from rewardharness.serving.media import candidate, source
from rewardharness.serving.results import Comparisons, ItemResult, ItemUsage, milliseconds
from rewardharness.serving.scoring import Edit, Scorer


async def rank_by_score(scorer: Scorer, edit: Edit, ends: float) -> list[ItemResult]:
    """Judge each candidate of a group alone.

    Args:
        scorer: Who judges.
        edit: The group, of any number of candidates.
        ends: When no caller waits any more.
    """
    return await scorer.batch([replace(edit, candidates=(candidate,)) for candidate in edit.candidates], ends)


async def rank_by_win_rate(scorer: Scorer, edit: Edit, ends: float) -> tuple[list[ItemResult], ItemUsage]:
    """Compare every pair of a group, each in both orders.

    Returns:
        One result per candidate, and what all comparisons cost together: a comparison belongs to two candidates, so no
        single one names a cost.
    """
    given = tuple(candidate("", each) for each in edit.candidates)
    field = CandidateSet("", edit.instruction, source(edit.source), given)
    pairs = list(combinations(range(len(edit.candidates)), 2))
    outcomes = await asyncio.gather(
        *(
            scorer.judge_pair(replace(edit, candidates=(edit.candidates[one], edit.candidates[other])), ends)
            for one, other in pairs
        )
    )
    judged = {f"#{one}-{other}": outcome.judgment for (one, other), outcome in zip(pairs, outcomes, strict=True)}
    found = []
    for each in candidate_rewards(field, "win_rate", judged):
        own = [outcome for pair, outcome in zip(pairs, outcomes, strict=True) if each.index in pair]
        sure = [known for one in own if (known := one.judgment.own_confidence) is not None]
        item = ItemResult(
            each.index,
            edit.id,
            each.reward is not None,
            each.reward,
            comparisons=Comparisons(each.judged, each.of),
            confidence=min(sure) if sure else None,
            error=None if each.failure is None else fault_of(each.failure),
            cached=all(outcome.cached for outcome in own),
            latency_ms=milliseconds(max(outcome.seconds for outcome in own)),
        )
        found.append(item)
    return found, add_up(outcome.usage for outcome in outcomes)


def add_up(costs: Iterable[ItemUsage]) -> ItemUsage:
    """Add costs."""
    total = ItemUsage()
    for cost in costs:
        total = ItemUsage(
            total.calls + cost.calls,
            total.input_tokens + cost.input_tokens,
            total.output_tokens + cost.output_tokens,
        )
    return total
