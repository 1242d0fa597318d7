"""Label corrections by a person for examples that a judge gets wrong with every Library.

The data are not modified.

    corrections/<id of the data>.jsonl    {"id", "instruction", "label", "preference", "at"}

A line contains the original label and the reviewed preference, which is equal to the label if the label is correct. The
last line of an example counts. `rh evolve --corrections` applies corrections to the training examples. The held-out
test set keeps the original labels, because measuring on corrected errors of the judge would be biased.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from rewardharness.data.source import Dataset
from rewardharness.errors import DataError, InputError
from rewardharness.files import append_jsonl, read_jsonl
from rewardharness.schema import TIE, Example

CORRECTED = "corrected"
"""`label_kind` of an example whose label was corrected."""


@dataclass(frozen=True)
class Correction:
    """A reviewed label."""

    instruction: str
    """Instruction of the example, to detect a different example with the same id."""
    label: str
    """The original label."""
    preference: str
    """The reviewed preference."""

    @property
    def changes(self) -> bool:
        """Whether the correction changes the label."""
        return self.preference != self.label


def corrections_file(home: Path, digest: str) -> Path:
    """Return the path of the corrections of a dataset with this digest (see `Dataset`)."""
    return home / "corrections" / f"{digest[:16]}.jsonl"


def append_correction(file: Path, example: Example, preference: str) -> None:
    """Append a label correction to a file.

    Args:
        file: The file; created if missing.
        example: The example with its original label.
        preference: The letter of the preferred candidate, or `tie` for a pair; equal to a correct label.

    Raises:
        InputError: If the example has no label, or the preference is invalid.
    """
    allowed = _allowed(example)
    if example.preference is None:
        raise InputError(f"{example.id} has no label to correct.", next_step="Label it first.")
    if preference not in allowed:
        raise InputError(f"Invalid preference {preference!r}.", next_step=f"Choose one of: {', '.join(allowed)}.")
    row = {"id": example.id, "instruction": example.instruction, "label": example.preference, "preference": preference}
    append_jsonl(file, {**row, "at": datetime.now(UTC).isoformat(timespec="seconds")})


def _allowed(example: Example) -> tuple[str, ...]:
    return (*example.labels, TIE) if len(example.labels) == 2 else example.labels


def read_corrections(file: Path) -> dict[str, Correction]:
    """Return the corrections by example id, ignoring invalid lines.

    Raises:
        DataError: If the file does not exist.
    """
    if not file.is_file():
        raise DataError(f"{file} does not exist.", next_step="Set --corrections to an existing file, or omit it.")
    corrections = {}
    for _, row in read_jsonl(file):
        name, *rest = (row.get(name) for name in ("id", "instruction", "label", "preference"))
        if all(isinstance(value, str) and value for value in (name, *rest)):
            corrections[str(name)] = Correction(*map(str, rest))
    return corrections


def corrected_labels(dataset: Dataset, corrections: Mapping[str, Correction]) -> tuple[dict[str, str], tuple[str, ...]]:
    """Return the corrected labels of a dataset.

    Returns:
        The corrected label by id, and one warning for each correction that does not apply.
    """
    examples = {example.id: example for example in dataset.examples}
    right, problems = {}, []
    for name, correction in corrections.items():
        example = examples.get(name)
        if example is None or (example.instruction, example.preference) != (correction.instruction, correction.label):
            problems.append(f"The correction of {name!r} is for different data and is ignored.")
        elif correction.preference not in _allowed(example):
            problems.append(f"The correction of {name!r} has an invalid preference and is ignored.")
        elif correction.changes:
            right[name] = correction.preference
    return right, tuple(problems)


def unreviewed(ids: Iterable[str], corrections: Mapping[str, Correction]) -> list[str]:
    """Return the example ids without a correction, in order."""
    return [name for name in ids if name not in corrections]
