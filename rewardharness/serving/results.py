"""Results of requests as values, independent of HTTP."""

import math
from dataclasses import dataclass
from functools import partial

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
        used, took = self.usage, milliseconds(self.seconds)
        judgment = self.judgment
        result = partial(
            ItemResult,
            index,
            item_id,
            parts=judgment.parts,
            critique=judgment.critiques.get(label),
            cached=self.cached,
            usage=used,
            latency_ms=took,
        )
        if self.judgment.failure is not None:
            return result(False, None, error=self.fault)
        scores_found = self.judgment.scores.get(label)
        if scores_found is None:
            return result(False, None, error=NO_SCORE)
        scores, confidence = ItemScores(scores_found.instruction, scores_found.quality), judgment.own_confidence
        if scores_found.reward is None:
            return result(False, None, scores=scores, confidence=confidence, error=UNGRADED)
        numbers = [number for number in (scores.instruction, scores.quality) if number is not None]
        if not all(map(math.isfinite, numbers)) or not 0 <= scores_found.reward <= 1:
            return result(False, None, error=BAD_SCORE)
        variance = (
            scores_found.variance
            if scores_found.variance is not None and math.isfinite(scores_found.variance)
            else None
        )
        return result(True, scores_found.reward, scores=scores, confidence=confidence, variance=variance)


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
