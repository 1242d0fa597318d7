"""How reliable a judgment is: the graded parts of the instruction, and what its confidence is based on."""

from dataclasses import dataclass


@dataclass(frozen=True)
class InstructionPart:
    """One part of an instruction, by its kind of edit, and the measures that graded whether it was followed."""

    kind: str
    asked: tuple[str, ...] = ()
    """What it names: colors, texts or directions of light."""
    measures: tuple[str, ...] = ()
    """The measures that graded it, for every candidate; empty if it was not graded."""


@dataclass(frozen=True)
class CalibratedBy:
    """What makes a confidence the probability that the preference agrees with a label."""

    kind: str
    """Kind of edit of the labeled examples that it is based on, or `all kinds`."""
    n: int
    """Number of these examples."""
    people: bool
    """Whether all labels are choices of people."""
    id: str
    """Content id of the calibration."""
    raw: float | None = None
    """The judge's own confidence before calibration."""
    same_revision: bool = True
    """Whether the calibration was fitted on this revision of the judge."""
