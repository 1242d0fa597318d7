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

Dimension = Literal["instruction", "quality", "consistency"]
"""Dimension of a criterion: instruction following, image quality, or consistency, which no reward depends on."""

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
        rows: list[dict[str, Any]] = [{key: getattr(item, key) for key in _KEYS} for item in self.criteria]
        for row in rows:
            row |= {"weight": float(row["weight"]), "scale": [float(bound) for bound in row["scale"]]}
            row["applies"] = sorted(set(row["applies"]))
        return rows


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
    here = Findings(findings.where)
    rubric = _read_rubric(text, here)
    findings.found.extend(here.found)
    return None if here.failed else rubric


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
    rows, line = document.value.get("criteria"), document.line("criteria")
    if not isinstance(rows, list) or not rows:
        findings.error("`criteria` is not a non-empty list.", line, "Add `criteria: [{id, text}]`.")
        return None
    if len(rows) > MAX_CRITERIA:
        findings.error(f"There are {len(rows)} criteria; the limit is {MAX_CRITERIA}.", line, "Merge some.")
        return None
    criteria: list[Criterion] = []
    for index in range(len(rows)):
        criterion = _criterion(document, index, findings)
        if criterion.id and any(criterion.id == earlier.id for earlier in criteria):
            message = f"The id `{criterion.id}` is used twice."
            findings.error(message, document.line("criteria", index), "Rename one of the criteria.")
        criteria.append(criterion)
    if not any(criterion.weight > 0 for criterion in criteria):
        findings.error("No criterion has a weight above 0.", line, "Set the weight of at least one criterion.")
    return Rubric(tuple(criteria), {key: value for key, value in document.value.items() if key != "criteria"})


def print_rubric(rubric: Rubric) -> str:
    """Format a rubric as YAML. `parse_rubric` is the inverse."""
    return print_yaml({"criteria": [_row(criterion) for criterion in rubric.criteria], **rubric.extra})


def _row(criterion: Criterion) -> dict[str, Any]:
    row: dict[str, Any] = {"id": criterion.id, "text": criterion.text, "weight": _number(criterion.weight)}
    row |= {"scale": list(map(_number, criterion.scale)), "dimension": criterion.dimension}
    row |= {"measure": criterion.measure} if criterion.measure is not None else {}
    row |= {"applies": list(criterion.applies)} if criterion.applies else {}
    return {**row, **criterion.extra}


def _number(value: float) -> int | float:
    return int(value) if value == int(value) and abs(value) < 1e15 else value


def _criterion(document: Document, index: int, findings: Findings) -> Criterion:
    """Parse one criterion. The id of an invalid one is empty."""
    row = document.value["criteria"][index]
    correct = True

    def error(message: str, key: str, remedy: str) -> None:
        nonlocal correct
        correct = False
        line = document.line("criteria", index, key) or document.line("criteria", index)
        findings.error(f"Criterion {index + 1}: {message}", line, remedy)

    if not isinstance(row, dict):
        error("this is not a mapping.", "", "Write `- id: ...` and `text: ...` below it.")
        return Criterion("", "")
    id_, text = (tidy(document.text("criteria", index, key) or "").strip() for key in ("id", "text"))
    if not _ID.fullmatch(id_):
        error("`id` is missing or invalid.", "id", "Use letters, digits, `-`, `_`, and `.`.")
    if not text:
        error("there is no `text`.", "text", "Describe the aspect to grade in one sentence.")
    elif len(text) > MAX_TEXT:
        error(f"the text is longer than {MAX_TEXT} characters.", "text", "Shorten it.")
    weight = finite(row.get("weight", 1.0))
    if weight is None or weight < 0:
        error("the weight is not a number of at least 0.", "weight", "Write one, such as 1 or 0.5.")
    scale = row.get("scale", list(SCALE))
    low, high = map(finite, scale) if isinstance(scale, list) and len(scale) == 2 else (None, None)
    if low is None or high is None or low >= high:
        error(
            "the scale is not a pair of increasing numbers.",
            "scale",
            "Write the worst and the best grade, as in [1, 4].",
        )
    dimension, measure, applies = row.get("dimension", "instruction"), row.get("measure"), row.get("applies", [])
    if dimension not in get_args(Dimension):
        error("the dimension is unknown.", "dimension", "Write `instruction`, `quality` or `consistency`.")
    if measure is not None and not (isinstance(measure, str) and measure.strip()):
        error("`measure` is not the name of a measure.", "measure", "Name a measure, or remove the key.")
    if not isinstance(applies, list):
        error("`applies` is not a list.", "applies", "Write one, such as [add, text].")
    for kind in applies if isinstance(applies, list) else []:
        if kind not in EDIT_KINDS:
            close = get_close_matches(str(kind), EDIT_KINDS, 1)
            remedy = f"Did you mean `{close[0]}`?" if close else f"Choose one of: {', '.join(EDIT_KINDS)}."
            error(f"`{shown(str(kind), 40)}` is not a kind of edit.", "applies", remedy)
    if not correct or weight is None or low is None or high is None:
        return Criterion(id_ if _ID.fullmatch(id_) else "", "")
    # Adding 0 turns -0.0 into 0.0.
    values = weight + 0.0, (low + 0.0, high + 0.0), dimension, measure and measure.strip(), tuple(applies)
    return Criterion(id_, text, *values, {key: value for key, value in row.items() if key not in _KEYS})
