"""Weighted criteria: the machine-readable side of a Skill, kept in `rubric.yaml` beside it."""

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
"""What a criterion speaks of: whether the instruction was followed, or how good the picture looks."""

MAX_BYTES = 64 * 1024
"""Size of a rubric, at most."""
MAX_CRITERIA = 200
"""Criteria of one rubric, at most."""
MAX_TEXT = 4000
"""Characters of one criterion's text, at most."""

_ID = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9_.-]{0,62}[A-Za-z0-9])?")
_KEYS = ("id", "text", "weight", "scale", "dimension", "measure", "applies")


@dataclass(frozen=True)
class Criterion:
    """One thing to look at, and how much it counts."""

    id: str
    """Unique within the rubric."""
    text: str
    """What to look at, as a sentence for a judge."""
    weight: float = 1.0
    """How much it counts against the others, at least 0."""
    scale: tuple[float, float] = SCALE
    """Worst and best grade."""
    dimension: Dimension = "instruction"
    measure: str | None = None
    """Name of the measure that can grade it without a model."""
    applies: tuple[str, ...] = ()
    """Members of `EDIT_KINDS` that it is meant for; empty for all."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Keys that this version does not know; kept on rewrite."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "text", tidy(self.text).strip())


@dataclass(frozen=True)
class Rubric:
    """The criteria of one Skill."""

    criteria: tuple[Criterion, ...]
    """At least one, and at least one with a weight above 0."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Keys beside `criteria`; kept on rewrite."""

    def weights(self, kinds: Collection[str] = ()) -> dict[str, float]:
        """Return the share of each criterion that applies, by id. The shares add up to 1.

        Args:
            kinds: Kinds of edit asked for, members of `EDIT_KINDS`. Empty: every criterion applies.

        Returns:
            Empty when nothing with a weight above 0 applies.
        """
        chosen = [each for each in self.criteria if not (kinds and each.applies) or set(kinds) & set(each.applies)]
        largest = max((each.weight for each in chosen), default=0.0)
        if largest <= 0:
            return {}
        total = math.fsum(each.weight / largest for each in chosen)
        return {each.id: each.weight / largest / total for each in chosen}

    def canonical(self) -> list[dict[str, Any]]:
        """Return what the rubric means, apart from formatting and unknown keys, as JSON values."""
        return [
            {
                "id": each.id,
                "text": each.text,
                "weight": float(each.weight),
                "scale": [float(each.scale[0]), float(each.scale[1])],
                "dimension": each.dimension,
                "measure": each.measure,
                "applies": sorted(set(each.applies)),
            }
            for each in self.criteria
        ]


def grade(criterion: Criterion, value: float) -> float:
    """Put a grade on the common range: 0 is the worst end of the criterion's scale, 1 the best.

    Args:
        criterion: What was graded.
        value: The grade, on the criterion's own scale.

    Raises:
        InputError: If the grade is not a number or lies outside the scale. It is never moved inside.
    """
    low, high = criterion.scale
    if isinstance(value, bool) or not isinstance(value, int | float) or not low <= value <= high:
        raise InputError(
            f"The grade {shown(repr(value), 40)} of {criterion.id!r} is not a number from {low:g} to {high:g}.",
            next_step="Grade it again; a grade outside the scale is never guessed.",
        )
    return (value - low) / (high - low)


def parse_rubric(text: str, *, where: str = "rubric.yaml") -> Rubric:
    """Read a rubric.

    Args:
        text: The file.
        where: Its name, for messages.

    Raises:
        LibraryError: The first thing that breaks the format.
    """
    findings = Findings(where)
    rubric = read_rubric(text, findings)
    findings.raise_first()
    return cast(Rubric, rubric)


def read_rubric(text: str, findings: Findings) -> Rubric | None:
    """Read a rubric and collect every problem in it.

    Returns:
        The rubric, or None when there was an error.
    """
    here = Findings(findings.where)
    rubric = _read_rubric(text, here)
    findings.found.extend(here.found)
    return None if here.failed else rubric


def _read_rubric(text: str, findings: Findings) -> Rubric | None:
    size = len(text.encode("utf-8", "replace"))
    if size > MAX_BYTES:
        findings.error(f"The rubric has {size} bytes; at most {MAX_BYTES} are read.", remedy="Shorten it.")
        return None
    try:
        document = read_yaml(text.removeprefix("\ufeff"), where=findings.where)
    except FormatError as error:
        findings.found.append(error.problem)
        return None
    rows = document.value.get("criteria")
    line = document.line("criteria")
    if not isinstance(rows, list) or not rows:
        findings.error("`criteria` is not a list of at least one criterion.", line, "Add `criteria: [{id, text}]`.")
        return None
    if len(rows) > MAX_CRITERIA:
        findings.error(f"There are {len(rows)} criteria; at most {MAX_CRITERIA} are read.", line, "Merge some.")
        return None
    criteria = [_Row(document, index, findings).criterion() for index in range(len(rows))]
    for index, each in enumerate(criteria):
        if any(each.id == other.id for other in criteria[:index]) and each.id:
            findings.error(f"The id `{each.id}` is used twice.", document.line("criteria", index), "Rename one.")
    if not any(each.weight > 0 for each in criteria):
        findings.error("No criterion has a weight above 0.", line, "Give at least one a weight.")
    return Rubric(tuple(criteria), {key: value for key, value in document.value.items() if key != "criteria"})


def print_rubric(rubric: Rubric) -> str:
    """Write a rubric; `parse_rubric` reads the same rubric back. Defaults other than the weight are left out."""
    return print_yaml({"criteria": [_row(each) for each in rubric.criteria], **rubric.extra})


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
    """Reads one criterion; problems are collected and a harmless value takes the place of a bad one."""

    document: Document
    index: int
    findings: Findings

    def criterion(self) -> Criterion:
        row = self.document.value["criteria"][self.index]
        if not isinstance(row, dict):
            self._error("it is not a mapping.", remedy="Write `- id: ...` and `text: ...` below it.")
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
            self._error("there is no usable `id`.", "id", remedy="Use letters, digits, `-`, `_` and `.`.")
            return ""
        return text

    def _text(self) -> str:
        text = self._raw("text")
        if not text:
            self._error("there is no `text`.", "text", remedy="Say in a sentence what to look at.")
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
        self._error("the scale is not two rising numbers.", "scale", remedy=remedy)
        return SCALE

    def _dimension(self, value: Any) -> Dimension:
        for known in get_args(Dimension):
            if value == known:
                return cast(Dimension, known)
        self._error("the dimension is not known.", "dimension", remedy="Write `instruction` or `quality`.")
        return "instruction"

    def _measure(self, value: Any) -> str | None:
        if value is None or (isinstance(value, str) and value.strip()):
            return value.strip() if value else None
        self._error("`measure` is not a name.", "measure", remedy="Name a measure, or remove the key.")
        return None

    def _applies(self, value: Any) -> tuple[str, ...]:
        if not isinstance(value, list):
            self._error("`applies` is not a list.", "applies", remedy="Write one, such as [add, text].")
            return ()
        for kind in value:
            if kind not in EDIT_KINDS:
                close = get_close_matches(str(kind), EDIT_KINDS, 1)
                remedy = f"Did you mean `{close[0]}`?" if close else f"Known kinds: {', '.join(EDIT_KINDS)}."
                self._error(f"`{shown(str(kind), 40)}` is no kind of edit.", "applies", remedy=remedy)
        return tuple(kind for kind in value if kind in EDIT_KINDS)
