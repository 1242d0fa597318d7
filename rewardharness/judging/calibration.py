"""Calibration of a judge: how often people agree with its preferences, by margin and kind of edit.

A curve turns the margin of a preference between two candidates into a probability:

    p(agreement) = sigmoid(intercept + slope * sqrt(margin)),   slope >= 0

It grows with the margin and changes no preference. It applies to the judge, protocol and Library that it was fitted on;
`benchmark.calibration` fits it. Ties, single candidates, and groups of three or four are not calibrated.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from importlib.resources import files
from pathlib import Path

from rewardharness.certainty import CalibratedBy
from rewardharness.codec import Count, Sha256, Text, ValidationError, decode, from_json, to_json
from rewardharness.errors import DataError, InputError
from rewardharness.files import content_id, read_json
from rewardharness.judging.identity import JudgeIdentity
from rewardharness.judging.instruction import read_instruction
from rewardharness.schema import TIE, Example, Interval, Json, Judgment
from rewardharness.task import IMAGE_EDIT, task_of

ALL_KINDS = "all kinds"
"""Name of the curve of kinds of edits with too few examples for their own."""
NOT_GRADABLE = "not gradable"
"""Kind of edits without a reward, because it cannot be measured whether the instruction was followed."""
ONE_EDITED = "only one edited"
"""The same where one candidate shows an edit and another shows none."""

SHIPPED = "calibration.json"
"""Calibration of the pixel-based judge with the built-in Library."""


@dataclass(frozen=True)
class Curve:
    """Probability of agreement by margin."""

    intercept: float
    slope: float
    n: Count
    """Labeled examples that it was fitted on."""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.intercept) and math.isfinite(self.slope) and self.slope >= 0):
            raise ValidationError("a curve needs a finite intercept and a finite slope of at least 0")

    def probability(self, margin: float) -> float:
        """Return the probability of agreement at a margin of 0 or more."""
        score = self.intercept + self.slope * math.sqrt(max(0.0, margin))
        return 1 / (1 + math.exp(-score)) if score >= 0 else math.exp(score) / (1 + math.exp(score))


@dataclass(frozen=True)
class CalibrationData:
    """Labeled data that a calibration was fitted on."""

    name: Text
    digest: str
    """Content id of the data."""
    n: Count
    label_kinds: Mapping[str, Count]
    """Number of examples by kind of label."""


@dataclass(frozen=True)
class MeasuredError:
    """Expected calibration error with a 95% interval over sources."""

    error: float
    interval: Interval
    n: Count


@dataclass(frozen=True)
class ConfidenceCalibration:
    """Curves by kind of edit, with their provenance."""

    judge: Text
    """As in `Judgment.judge`."""
    judge_revision: Text
    """As in `Judge.revision`."""
    protocol: Text
    library_id: Sha256
    curves: Mapping[str, Curve]
    """By kind of edit; `all kinds` is for the others."""
    data: tuple[CalibrationData, ...]
    people: bool
    """Whether all labels are choices of people."""
    before: MeasuredError | None
    """Error of the judge's own confidence on the same examples."""
    after: MeasuredError
    """Error of the calibrated confidence, cross-validated by source image."""
    method: Text
    made_at: Text
    """Date, as in 2026-01-31."""

    def __post_init__(self) -> None:
        if ALL_KINDS not in self.curves:
            raise ValidationError(f"curves: {ALL_KINDS!r} is missing")

    @property
    def id(self) -> str:
        """Content id."""
        return content_id(self.to_json())

    @property
    def words(self) -> str:
        """The errors in a sentence."""

        def shown(measurement: MeasuredError) -> str:
            return f"{measurement.error:.3f} (95% CI {measurement.interval.low:.2f} to {measurement.interval.high:.2f})"

        before = f"{shown(self.before)} before, " if self.before is not None else ""
        return f"Expected calibration error {before}{shown(self.after)} after, cross-validated, n = {self.after.n:,}."

    def to_json(self) -> Json:
        """Convert to JSON."""
        return dict(to_json(self))

    def mismatch(self, identity: JudgeIdentity) -> str:
        """Return which part of a judge is another than the one that this was fitted for; empty if none is."""
        compared = {"judge": identity.judge, "protocol": identity.protocol, "library_id": identity.library_id}
        return next((name.partition("_")[0] for name, value in compared.items() if getattr(self, name) != value), "")

    def check(self, identity: JudgeIdentity) -> None:
        """Check that this calibration is of a judge with its protocol and Library.

        Raises:
            InputError: If it is of another.
        """
        if other := self.mismatch(identity):
            ours, here = (f"{side.judge}, {side.protocol}, Library {side.library_id[:12]}" for side in (self, identity))
            message = f"The calibration is of another {other.replace('lib', 'Lib')}: {ours}. Here: {here}."
            raise InputError(message, next_step="Fit one for this judge: rh benchmark LABELED_DATA --calibrate FILE.")

    def apply(self, judgment: Judgment, kind: str, revision: str) -> Judgment:
        """Return the judgment with a calibrated confidence; unchanged if it has no preference between two candidates.

        Args:
            judgment: The judgment.
            kind: As `edit_kind` returns it.
            revision: Revision of the judge. Another one than that of the calibration gives a note.
        """
        if self.mismatch(JudgeIdentity(judgment.judge, "", judgment.protocol, judgment.library_id)):
            return judgment
        if judgment.margin is None or not comparable(judgment):
            return judgment
        name = kind if kind in self.curves else ALL_KINDS
        curve = self.curves[name]
        raw = judgment.own_confidence
        by = CalibratedBy(name, curve.n, self.people, self.id, raw, self.judge_revision == revision)
        return replace(judgment, confidence=curve.probability(judgment.margin), calibration=by)


def comparable(judgment: Judgment) -> bool:
    """Return whether a judgment has what a calibration needs: a preference between two candidates with a margin."""
    count = sum(len(level) for level in judgment.ranking)
    decided = judgment.failure is None and judgment.preference not in (None, TIE)
    return decided and count == 2 and judgment.margin is not None


def edit_kind(example: Example, judgment: Judgment) -> str:
    """Return the kind of edit whose curve applies to a judgment."""
    # With `allow_ungradable` there is a reward, but no score for the instruction. Models have no parts.
    several = judgment.scores.values()
    if any(score.reward is None or (judgment.parts and score.instruction is None) for score in several):
        return NOT_GRADABLE if len({not score.evidence for score in several}) == 1 else ONE_EDITED
    task = task_of(example)
    return read_instruction(example.instruction).kinds[0] if task is IMAGE_EDIT else task.name


def confidence_words(judgment: Judgment) -> str:
    """Return the confidence as a sentence without its period, as in `70% of such answers agree with people (n = 320)`.

    Returns:
        The sentence; empty if the judge reports no confidence.
    """
    by = judgment.calibration
    if judgment.confidence is None:
        return ""
    if by is None:
        return f"Confidence {judgment.confidence:.2f} of 1, not calibrated"
    who = "people" if by.people else "labels"
    kinds = by.kind if by.kind == ALL_KINDS else f"kind {by.kind}"
    revision = "" if by.same_revision else "; fitted on another revision of the judge"
    return f"{judgment.confidence:.0%} of such answers agree with {who} (n = {by.n:,}, {kinds}{revision})"


def load_calibration(path: Path) -> ConfidenceCalibration:
    """Read a calibration from a file.

    Raises:
        DataError: If it cannot be read, or is no calibration.
    """
    try:
        return from_json(ConfidenceCalibration, read_json(path))
    except ValidationError as error:
        step = "Name a file that `rh benchmark TASK --calibrate FILE` wrote."
        raise DataError(f"{path} is not a calibration: {error.message}", next_step=step) from None


@lru_cache(maxsize=1)
def shipped_calibration() -> ConfidenceCalibration:
    """Return the calibration of the pixel-based judge with the built-in Library."""
    data = files("rewardharness.judging").joinpath(SHIPPED).read_bytes()
    return from_json(ConfidenceCalibration, decode(data))
