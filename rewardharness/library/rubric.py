"""Rubrics: the weighted criteria of a Skill, stored in `rubric.yaml`."""

import math
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from typing import Any, Literal, cast, get_args

from rewardharness.codec import finite
from rewardharness.errors import InputError, shown
from rewardharness.library.plaintext import tidy
from rewardharness.library.problems import Findings, FormatError
from rewardharness.library.yamlsafe import Document, print_yaml, read_yaml
from rewardharness.schema import EDIT_KINDS, SCALE

Dimension = Literal["instruction", "quality"]
"""Dimension of a criterion: instruction following or image quality."""

MAX_BYTES = 64 * 1024
"""Maximum size of a rubric in bytes."""
MAX_CRITERIA = 200
"""Maximum number of criteria in one rubric."""
MAX_TEXT = 4000
"""Maximum length of a criterion's text in characters."""

_ID = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,62}[A-Za-z0-9])?")
_KEYS = ("id", "text", "weight", "scale", "dimension", "measure", "applies")


@dataclass(frozen=True)
class Criterion:
    """One aspect to grade and its weight."""

    id: str
    """Unique within the rubric."""
    text: str
    """The aspect to grade, as a sentence for a judge."""
    weight: float = 1.0
    """Relative weight, at least 0."""
    scale: tuple[float, float] = SCALE
    """Worst and best grade."""
    dimension: Dimension = "instruction"
    measure: str | None = None
    """Name of the measure that grades the criterion without a model."""
    applies: tuple[str, ...] = ()
    """Members of `EDIT_KINDS` to which the criterion applies; empty for all."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Unknown keys; preserved on rewrite."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", tidy(self.text).strip())


@dataclass(frozen=True)
class Rubric:
    """The criteria of one Skill."""

    criteria: tuple[Criterion, ...]
    """At least one criterion must have a weight above 0."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Other keys than `criteria`; preserved on rewrite."""

    def weights(self, kinds: Collection[str] = ()) -> dict[str, float]:
        """Return the normalized weight of each applicable criterion, by id. The weights sum to 1.

        Args:
            kinds: Requested kinds of edit, members of `EDIT_KINDS`. If empty, every criterion applies.

        Returns:
            The weights; empty if no criterion with a weight above 0 applies.
        """
        applicable = [item for item in self.criteria if not (kinds and item.applies) or set(kinds) & set(item.applies)]
        largest = max((item.weight for item in applicable), default=0.0)
        if largest <= 0:
            return {}
        total = math.fsum(item.weight / largest for item in applicable)
        return {item.id: item.weight / largest / total for item in applicable}

    def canonical(self) -> list[dict[str, Any]]:
        """Return the content of the rubric as JSON values, without formatting and unknown keys."""
        return [
            {
                "id": item.id,
                "text": item.text,
                "weight": float(item.weight),
                "scale": [float(item.scale[0]), float(item.scale[1])],
                "dimension": item.dimension,
                "measure": item.measure,
                "applies": sorted(set(item.applies)),
            }
            for item in self.criteria
        ]


def grade(criterion: Criterion, value: float) -> float:
    """Normalize a grade to [0, 1], where 0 is the worst grade of the criterion's scale and 1 is the best.

    Args:
        criterion: The graded criterion.
        value: The grade, on the criterion's scale.

    Raises:
        InputError: If the grade is not a number or is outside the scale. Grades are never clipped.
    """
    low, high = criterion.scale
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise InputError(
            f"The grade {shown(repr(value), 40)} of {criterion.id!r} is not a number from {low:g} to {high:g}.",
            next_step="Repeat the grading; grades outside the scale are never clipped.",
        )
    return (value - low) / (high - low)


def parse_rubric(text: str, *, where: str = "rubric.yaml") -> Rubric:
    """Parse a rubric.

    Args:
        text: Content of the file.
        where: File name for messages.

    Raises:
        LibraryError: If the rubric is invalid; describes the first error.
    """
    findings = Findings(where)
    rubric = read_rubric(text, findings)
    findings.raise_first()
    return cast(Rubric, rubric)


def read_rubric(text: str, findings: Findings) -> Rubric | None:
    """Parse a rubric and collect all problems.

    Returns:
        The rubric, or None if there is an error.
    """
    rubric_findings = Findings(findings.where)
    rubric = _read_rubric(text, rubric_findings)
    findings.found.extend(rubric_findings.found)
    return None if rubric_findings.failed else rubric


def _read_rubric(text: str, findings: Findings) -> Rubric | None:
    size = len(text.encode("utf-8", "replace"))
    if size > MAX_BYTES:
        findings.error(f"The rubric has {size} bytes; the limit is {MAX_BYTES}.", remedy="Shorten it.")
        return None
    try:
        document = read_yaml(text.removeprefix("\ufeff"), where=findings.where)
    except FormatError as error:
        findings.found.append(error.problem)
        return None
    rows = document.value.get("criteria")
    line = document.line("criteria")
    if not isinstance(rows, list) or not rows:
        findings.error("`criteria` is not a non-empty list.", line, "Add `criteria: [{id, text}]`.")
        return None
    if len(rows) > MAX_CRITERIA:
        findings.error(f"There are {len(rows)} criteria; the limit is {MAX_CRITERIA}.", line, "Merge some.")
        return None
    criteria = [_Row(document, index, findings).criterion() for index in range(len(rows))]
    for index, criterion in enumerate(criteria):
        if criterion.id and any(criterion.id == earlier.id for earlier in criteria[:index]):
            line_of_id = document.line("criteria", index)
            findings.error(f"The id `{criterion.id}` is used twice.", line_of_id, "Rename one of the criteria.")
    if not any(criterion.weight > 0 for criterion in criteria):
        findings.error("No criterion has a weight above 0.", line, "Set the weight of at least one criterion.")
    return Rubric(tuple(criteria), {key: value for key, value in document.value.items() if key != "criteria"})


def print_rubric(rubric: Rubric) -> str:
    """Format a rubric as YAML. `parse_rubric` is the inverse."""
    return print_yaml({"criteria": [_row(criterion) for criterion in rubric.criteria], **rubric.extra})


def _row(criterion: Criterion) -> dict[str, Any]:
    row: dict[str, Any] = {"id": criterion.id, "text": criterion.text, "weight": _number(criterion.weight)}
    row["scale"] = [_number(criterion.scale[0]), _number(criterion.scale[1])]
    row["dimension"] = criterion.dimension
    if criterion.measure is not None:
        row["measure"] = criterion.measure
    if criterion.applies:
        row["applies"] = list(criterion.applies)
    return {**row, **criterion.extra}


def _number(value: float) -> int | float:
    return int(value) if value == int(value) and abs(value) < 1e15 else value


@dataclass(frozen=True)
class _Row:
    """Parses one criterion. Invalid values are reported and replaced with defaults."""

    document: Document
    index: int
    findings: Findings

    def criterion(self) -> Criterion:
        row = self.document.value["criteria"][self.index]
        if not isinstance(row, dict):
            self._error("this is not a mapping.", remedy="Write `- id: ...` and `text: ...` below it.")
            return Criterion("", "")
        return Criterion(
            id=self._id(),
            text=self._text(),
            weight=self._weight(row.get("weight", 1.0)),
            scale=self._scale(row.get("scale", list(SCALE))),
            dimension=self._dimension(row.get("dimension", "instruction")),
            measure=self._measure(row.get("measure")),
            applies=self._applies(row.get("applies", [])),
            extra={key: value for key, value in row.items() if key not in _KEYS},
        )

    def _error(self, message: str, *keys: str, remedy: str = "") -> None:
        place = ("criteria", self.index)
        line = self.document.line(*place, *keys) or self.document.line(*place)
        self.findings.error(f"Criterion {self.index + 1}: {message}", line, remedy)

    def _raw(self, key: str) -> str | None:
        text = self.document.text("criteria", self.index, key)
        return None if text is None else tidy(text).strip()

    def _id(self) -> str:
        text = self._raw("id")
        if text is None or not _ID.fullmatch(text):
            self._error("`id` is missing or invalid.", "id", remedy="Use letters, digits, `-`, `_`, and `.`.")
            return ""
        return text

    def _text(self) -> str:
        text = self._raw("text")
        if not text:
            self._error("there is no `text`.", "text", remedy="Describe the aspect to grade in one sentence.")
        elif len(text) > MAX_TEXT:
            self._error(f"the text is longer than {MAX_TEXT} characters.", "text", remedy="Shorten it.")
        return text or ""

    def _weight(self, value: Any) -> float:
        number = finite(value)
        if number is not None and number >= 0:
            return number + 0.0  # adding 0 turns -0.0 into 0.0
        self._error("the weight is not a number of at least 0.", "weight", remedy="Write one, such as 1 or 0.5.")
        return 1.0

    def _scale(self, value: Any) -> tuple[float, float]:
        low, high = map(finite, value) if isinstance(value, list) and len(value) == 2 else (None, None)
        if low is not None and high is not None and low < high:
            return (low + 0.0, high + 0.0)
        remedy = "Write the worst and the best grade, as in [1, 4]."
        self._error("the scale is not a pair of increasing numbers.", "scale", remedy=remedy)
        return SCALE

    def _dimension(self, value: Any) -> Dimension:
        if value in get_args(Dimension):
            return cast(Dimension, value)
        self._error("the dimension is unknown.", "dimension", remedy="Write `instruction` or `quality`.")
        return "instruction"

    def _measure(self, value: Any) -> str | None:
        if value is None or (isinstance(value, str) and value.strip()):
            return value.strip() if value else None
        self._error("`measure` is not the name of a measure.", "measure", remedy="Name a measure, or remove the key.")
        return None

    def _applies(self, value: Any) -> tuple[str, ...]:
        if not isinstance(value, list):
            self._error("`applies` is not a list.", "applies", remedy="Write one, such as [add, text].")
            return ()
        for kind in value:
            if kind not in EDIT_KINDS:
                close = get_close_matches(str(kind), EDIT_KINDS, 1)
                remedy = f"Did you mean `{close[0]}`?" if close else f"Choose one of: {', '.join(EDIT_KINDS)}."
                self._error(f"`{shown(str(kind), 40)}` is not a kind of edit.", "applies", remedy=remedy)
        return tuple(kind for kind in value if kind in EDIT_KINDS)
