"""Results of requests as values, independent of HTTP."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, Literal

from rewardharness.certainty import CalibratedBy, InstructionPart
from rewardharness.critique import Critique
from rewardharness.schema import Judgment, Usage
from rewardharness.serving.faults import BAD_SCORE, NO_SCORE, UNGRADED, Fault, fault_of


@dataclass(frozen=True)
class ItemScores:
    """Scores from 1 to 4; None if not available."""

    instruction: float | None
    quality: float | None


@dataclass(frozen=True)
class ItemUsage:
    """Model usage of a judgment for this request; zero for a cached judgment."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0


@dataclass(frozen=True)
class Comparisons:
    """Number of comparisons within its group that a win rate is based on."""

    judged: int
    of: int
    """Total number of comparisons."""


@dataclass(frozen=True)
class ItemResult:
    """Result of one edit. `reward` is null exactly if `ok` is false, and `error` gives the reason."""

    index: int
    """Index in the request, from 0."""
    id: str | None
    ok: bool
    reward: float | None
    """In [0, 1]; higher is better."""
    normalised: float | None = None
    """Reward relative to its group; null if not requested or without a reward."""
    scores: ItemScores | None = None
    margin: float | None = None
    """For the best of several candidates, its margin over the next; for the other candidate of a pair, the negative
    margin. Null if not available."""
    confidence: float | None = None
    """Confidence of the judge, in [0, 1]: at most .25 if the instruction cannot be graded. Null if not available."""
    variance: float | None = None
    """Variance of the reward over repeated samples; null if not available."""
    comparisons: Comparisons | None = None
    error: Fault | None = None
    consistency: float | None = None
    """Whether what should stay the same did, from 1 to 4; null if not asked for."""
    parts: tuple[InstructionPart, ...] = ()
    """Parts of the instruction with the measures that graded them; empty for a judge that reads it as a whole."""
    critique: Critique | None = None
    """What is wrong, in words; null if not requested or not available."""
    cached: bool = False
    """Whether the judgment came from the cache or was shared with an identical request."""
    usage: ItemUsage = ItemUsage()
    """Usage of the judgment; candidates that were judged together report the same total."""
    latency_ms: float = 0.0
    """Time from the start of processing to the result, including waiting."""

    @classmethod
    def none(cls, index: int, fault: Fault) -> "ItemResult":
        """Return the result of an edit without a reward."""
        return cls(index, None, False, None, error=fault)

    @property
    def reason(self) -> str:
        """Reason why there is no reward: a fixed code, a colon and a message; empty if there is one."""
        return _reason(self.error)

    @property
    def instruction(self) -> float | None:
        """Instruction following, from 1 to 4."""
        return None if self.scores is None else self.scores.instruction

    @property
    def quality(self) -> float | None:
        """Visual quality, from 1 to 4."""
        return None if self.scores is None else self.scores.quality


def not_judged(results: Sequence[ItemResult], what: str = "edit") -> str:
    """Return how many edits have no reward, and why the first has none; empty if all have one."""
    reasons = [item.reason for item in results if item.reward is None]
    if len(results) == 1 and reasons:
        return f"The {what} was not judged: {reasons[0]}"
    return f"{len(reasons)} of {len(results)} {what}s were not judged; the first: {reasons[0]}" if reasons else ""


@dataclass(frozen=True)
class Comparison:
    """Preference between several candidates. Letters identify them in order."""

    preference: str | None
    """Letter of the preferred candidate; `tie` if the best are tied; null if they cannot be compared."""
    ranking: tuple[tuple[str, ...], ...]
    """Letters from best to worst; letters in one inner list are tied."""
    margin: float | None
    """Margin of the preferred candidate over the next, in [0, 1]."""
    position_consistent: bool | None
    """Whether the preference is the same in the reverse presentation order; null if not tried."""
    error: Fault | None = None
    confidence: float | None = None
    """Confidence of the judge in the preference, in [0, 1]; null if not available."""
    calibration: CalibratedBy | None = None
    """What makes the confidence the probability that people agree; null if it is not calibrated."""

    @property
    def reason(self) -> str:
        """Reason why there is no preference; empty if there is one."""
        return _reason(self.error)


@dataclass(frozen=True, kw_only=True)
class Compared(Comparison):
    """Result of comparing two candidates, and the result of each."""

    rewards: tuple[ItemResult, ItemResult]


def _reason(fault: Fault | None) -> str:
    return "" if fault is None else f"{fault.code}: {fault.message}"


@dataclass(frozen=True)
class GroupStats:
    """Statistics of the rewards that a group was normalized with."""

    group: str | None
    n: int
    judged: int
    mean: float | None
    std: float | None
    """Population standard deviation of the judged rewards."""
    degenerate: bool
    """Whether the group has no training signal: fewer than two judged rewards, or equal rewards."""


@dataclass(frozen=True)
class JudgedEdit:
    """Result of judging one example."""

    judgment: Judgment
    cached: bool = False
    seconds: float = 0.0

    @property
    def usage(self) -> ItemUsage:
        """Model usage for this request."""
        used = Usage() if self.cached else self.judgment.usage
        return ItemUsage(used.calls, used.input_tokens, used.output_tokens)

    @property
    def fault(self) -> Fault | None:
        """Reason why there is no judgment; None if there is one."""
        return None if self.judgment.failure is None else fault_of(self.judgment.failure)

    def item(self, index: int, item_id: str | None, label: str) -> ItemResult:
        """Return the result of one of the candidates."""
        judgment = self.judgment
        known: dict[str, Any] = {"error": self.fault} if judgment.failure is not None else _graded(judgment, label)
        common = {"cached": self.cached, "usage": self.usage, "latency_ms": milliseconds(self.seconds)}
        common |= {"parts": judgment.parts, "critique": judgment.critiques.get(label)}
        return ItemResult(index, item_id, **{"ok": False, "reward": None, **common, **known})


def _graded(judgment: Judgment, label: str) -> dict[str, Any]:
    """Return what the scores of a candidate give a result."""
    graded = judgment.scores.get(label)
    if graded is None:
        return {"error": NO_SCORE}
    known = {"scores": ItemScores(graded.instruction, graded.quality), "confidence": judgment.own_confidence}
    known["consistency"] = graded.consistency
    if graded.reward is None:
        return {**known, "error": UNGRADED}
    numbers = [number for number in (graded.instruction, graded.quality, graded.consistency) if number is not None]
    if not all(map(math.isfinite, numbers)) or not 0 <= graded.reward <= 1:
        return {"error": BAD_SCORE}
    variance = None if graded.variance is None or not math.isfinite(graded.variance) else graded.variance
    return {**known, "ok": True, "reward": graded.reward, "variance": variance}


@dataclass(frozen=True)
class RewardReply:
    """Reply to every reward request."""

    request_id: str
    release: str | None
    """Hash of the served release; null if judge and Library are configured separately."""
    library_id: str
    judge: str
    protocol: str
    n_ok: int
    n_error: int
    latency_ms: float
    usage: ItemUsage
    """Total usage of all judgments."""
    results: tuple[ItemResult, ...]
    """One per edit or candidate, in the order of the request."""
    comparison: Comparison | None = None
    """Preference, if several candidates were judged together; null otherwise."""
    groups: tuple[GroupStats, ...] = ()
    """Statistics of normalized groups; empty if not requested."""


@dataclass(frozen=True)
class RequestResult:
    """Result of a request before it is converted to a reply."""

    results: list[ItemResult]
    usage: ItemUsage
    comparison: Comparison | None = None
    groups: tuple[GroupStats, ...] = ()


def milliseconds(seconds: float) -> float:
    """Convert seconds to milliseconds, rounded to a microsecond."""
    return round(seconds * 1000, 3)


def total_usage(outcomes: Iterable[JudgedEdit]) -> ItemUsage:
    """Return the usage of several judgments."""
    usages = [outcome.usage for outcome in outcomes]
    return ItemUsage(*(sum(getattr(usage, field.name) for usage in usages) for field in fields(ItemUsage)))


EPS = 1e-4
"""The usual `eps`, as in TRL and flow_grpo."""


@dataclass(frozen=True)
class Normalisation:
    """How rewards are made relative."""

    method: Literal["raw", "group"] = "raw"
    """`raw`: not at all; `group`: as above."""
    eps: float = EPS
    clip: float | None = None


RAW = Normalisation()
"""Rewards as they are."""


def normalise_group(rewards: Sequence[float | None], settings: Normalisation) -> tuple[list[float | None], GroupStats]:
    """Make the rewards of one group relative.

    Args:
        rewards: One per member; None where there is none.
        settings: The bounds; its method does not matter here.

    Returns:
        A number or None per member, and what they were made with.
    """
    known = [reward for reward in rewards if reward is not None]
    mean = math.fsum(known) / len(known) if known else None
    std = None if mean is None else math.sqrt(math.fsum((reward - mean) ** 2 for reward in known) / len(known))
    degenerate = len(known) < 2 or min(known) == max(known)
    stats = GroupStats(None, len(rewards), len(known), mean, std if not degenerate or std is None else 0.0, degenerate)
    if mean is None or std is None:
        return [None] * len(rewards), stats
    bound = math.inf if settings.clip is None else settings.clip
    span = std + settings.eps
    values = [
        None if reward is None else 0.0 if degenerate else max(-bound, min(bound, (reward - mean) / span))
        for reward in rewards
    ]
    return values, stats


def normalised(
    results: Sequence[ItemResult], groups: Sequence[str | None], settings: Normalisation
) -> tuple[list[ItemResult], tuple[GroupStats, ...]]:
    """Set what the rewards of results are relative to their groups; see `normalise_groups`."""
    values, stats = normalise_groups([item.reward for item in results], groups, settings)
    return [replace(item, normalised=value) for item, value in zip(results, values, strict=True)], stats


def normalise_groups(
    rewards: Sequence[float | None], groups: Sequence[str | None], settings: Normalisation
) -> tuple[list[float | None], tuple[GroupStats, ...]]:
    """Make rewards relative, each within its group.

    Args:
        rewards: One per member of any group; None where there is none.
        groups: The group of each; those without a name form one group together.
        settings: With the method `raw` no member gets a number, and no groups are reported.
    """
    values: list[float | None] = [None] * len(rewards)
    if settings.method == "raw":
        return values, ()
    places: dict[str | None, list[int]] = {}
    for index, group in enumerate(groups):
        places.setdefault(group, []).append(index)
    stats = []
    for name, members in places.items():
        relative, about = normalise_group([rewards[index] for index in members], settings)
        stats.append(replace(about, group=name))
        for index, value in zip(members, relative, strict=True):
            values[index] = value
    return values, tuple(stats)
