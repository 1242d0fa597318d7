"""What comes of a request, as values. The wire writes them as they are; nothing here knows of HTTP."""

import math
from dataclasses import dataclass
from functools import partial

from rewardharness.schema import Judgment, Usage
from rewardharness.serving.faults import BAD_SCORE, NO_SCORE, UNGRADED, Fault, fault_of


@dataclass(frozen=True)
class Identity:
    """Who judges. Numbers are comparable where all of this is equal."""

    release: str | None
    """Hash of the release that is served; None when judge and Library were named one by one."""
    library_id: str
    judge: str
    protocol: str
    version: str
    """Of this package."""


@dataclass(frozen=True)
class ItemScores:
    """Scores on the scale of 1 to 4; None where nothing spoke to it."""

    instruction: float | None
    quality: float | None


@dataclass(frozen=True)
class ItemUsage:
    """What a judgment cost this time: nothing when it was remembered."""

    calls: int = 0
    input_tokens: int = 0
    output_tokens: int = 0


@dataclass(frozen=True)
class Comparisons:
    """On how many comparisons within its group a win rate rests."""

    judged: int
    of: int
    """How many there are."""


@dataclass(frozen=True)
class ItemResult:
    """What came of one edit. `reward` is null exactly when `ok` is false, and then `error` says why."""

    index: int
    """Its place in the request, from 0."""
    id: str | None
    ok: bool
    reward: float | None
    """In [0, 1]; higher is better."""
    normalised: float | None = None
    """The reward relative to its group; null when that was not asked for or there is no reward."""
    scores: ItemScores | None = None
    margin: float | None = None
    """For the best of several candidates, its lead over the next; for the other one of a pair, the same below zero.
    Null where nothing was compared, or nothing says how far."""
    confidence: float | None = None
    """How far the judge trusts it, in [0, 1]: .25 at most where the instruction could not be graded. Null where it is
    not known."""
    variance: float | None = None
    """Of the reward over repeated samples; null when that is not known."""
    comparisons: Comparisons | None = None
    error: Fault | None = None
    cached: bool = False
    """Whether the answer was remembered, or shared with an equal question, rather than asked for."""
    usage: ItemUsage = ItemUsage()
    """Of its judgment; candidates that were judged together each name the whole of it."""
    latency_ms: float = 0.0
    """From its beginning in the server to its result, waiting included."""


@dataclass(frozen=True)
class Comparison:
    """Which of several candidates is preferred. Letters stand for them in order."""

    preference: str | None
    """The winner's letter; `tie` when the first are level; null when they could not be compared."""
    ranking: tuple[tuple[str, ...], ...]
    """Letters from best to worst; letters in one inner list are level."""
    margin: float | None
    """Lead of the winner over the next, in [0, 1]."""
    position_consistent: bool | None
    """Whether the preference is the same in the reverse order; null when that was not tried."""
    error: Fault | None = None
    confidence: float | None = None
    """How far the judge trusts the preference, in [0, 1]; null when that is not known."""


@dataclass(frozen=True)
class GroupStats:
    """Over which rewards a group was normalised."""

    group: str | None
    n: int
    judged: int
    mean: float | None
    std: float | None
    """Of the judged rewards, as of a whole population."""
    degenerate: bool
    """Whether the group teaches nothing: fewer than two judged rewards, or all of them equal."""


@dataclass(frozen=True)
class Outcome:
    """What came of judging one example."""

    judgment: Judgment
    cached: bool = False
    seconds: float = 0.0

    @property
    def usage(self) -> ItemUsage:
        """What it cost this time."""
        used = Usage() if self.cached else self.judgment.usage
        return ItemUsage(used.calls, used.input_tokens, used.output_tokens)

    @property
    def fault(self) -> Fault | None:
        """Why there is no judgment; None when there is one."""
        return None if self.judgment.failure is None else fault_of(self.judgment.failure)

    def item(self, index: int, item_id: str | None, label: str) -> ItemResult:
        """Say what came of one of the candidates."""
        used, took = self.usage, milliseconds(self.seconds)
        result = partial(ItemResult, index, item_id, cached=self.cached, usage=used, latency_ms=took)
        if self.judgment.failure is not None:
            return result(False, None, error=self.fault)
        found = self.judgment.scores.get(label)
        if found is None:
            return result(False, None, error=NO_SCORE)
        scores, sure = ItemScores(found.instruction, found.quality), self.judgment.confidence
        if found.reward is None:
            return result(False, None, scores=scores, confidence=sure, error=UNGRADED)
        numbers = [each for each in (scores.instruction, scores.quality) if each is not None]
        if not all(map(math.isfinite, numbers)) or not 0 <= found.reward <= 1:
            return result(False, None, error=BAD_SCORE)
        spread = found.variance if found.variance is not None and math.isfinite(found.variance) else None
        return result(True, found.reward, scores=scores, confidence=sure, variance=spread)


@dataclass(frozen=True)
class Reply:
    """What every request for rewards is answered with."""

    request_id: str
    release: str | None
    """Hash of the release that is served; null when judge and Library were named one by one."""
    library_id: str
    judge: str
    protocol: str
    n_ok: int
    n_error: int
    latency_ms: float
    usage: ItemUsage
    """What all judgments cost together."""
    results: tuple[ItemResult, ...]
    """One per edit or candidate, in the order of the request."""
    comparison: Comparison | None = None
    """Which candidate is preferred, where several were judged together; null elsewhere."""
    groups: tuple[GroupStats, ...] = ()
    """Over what rewards were made relative; empty where that was not asked for."""


@dataclass(frozen=True)
class Answer:
    """What came of a request, before it is put into a reply."""

    results: list[ItemResult]
    usage: ItemUsage
    comparison: Comparison | None = None
    groups: tuple[GroupStats, ...] = ()


def milliseconds(seconds: float) -> float:
    """Seconds as milliseconds, to a microsecond."""
    return round(seconds * 1000, 3)
