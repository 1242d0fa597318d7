"""Corrections of labels: what a person says of examples that a judge gets wrong whatever it reads.

The data stay as they are.

    corrections/<id of the data>.jsonl    {"id", "instruction", "label", "preference", "at"}

A line holds the label as it was given and the preference that a person stands by: another one, or the same, and then
the label was looked at and is right. Of several lines about one example the last counts. `rh evolve --corrections`
uses them for the examples it learns from. The audit keeps the labels that were given: who corrects what a judge gets
wrong, and then measures on that, measures how hard they tried.
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
    """What a person said of a label."""

    instruction: str
    """Of the example, so that another one with the same id is not taken for it."""
    label: str
    """The label as it was given."""
    preference: str
    """What the person stands by."""

    @property
    def changes(self) -> bool:
        """Whether the label is wrong."""
        return self.preference != self.label


def corrections_file(home: Path, digest: str) -> Path:
    """Where corrections of a dataset lie that has this digest (see `Dataset`)."""
    return home / "corrections" / f"{digest[:16]}.jsonl"


def append_correction(file: Path, example: Example, preference: str) -> None:
    """Keep what a person says of a label.

    Args:
        file: The file, made when absent.
        example: The example, with its label as it was given.
        preference: The letter of the preferred candidate, or `tie` for a pair; that of the label if it is right.

    Raises:
        InputError: If the example has no label, or the preference does not fit it.
    """
    allowed = (*example.labels, TIE) if len(example.labels) == 2 else example.labels
    if example.preference is None:
        raise InputError(f"{example.id} has no label to correct.", next_step="Label it first.")
    if preference not in allowed:
        raise InputError(f"The preference {preference!r} is none of {', '.join(allowed)}.", next_step="Choose again.")
    row = {"id": example.id, "instruction": example.instruction, "label": example.preference, "preference": preference}
    append_jsonl(file, {**row, "at": datetime.now(UTC).isoformat(timespec="seconds")})


def read_corrections(file: Path) -> dict[str, Correction]:
    """Read what was said, by id of the example. Lines that cannot be understood are passed over.

    Raises:
        DataError: If the file does not exist.
    """
    if not file.is_file():
        raise DataError(f"{file} does not exist.", next_step="Name a file of corrections, or leave --corrections out.")
    found = {}
    for _, row in read_jsonl(file):
        values = [row.get(name) for name in ("id", "instruction", "label", "preference")]
        if all(isinstance(value, str) and value for value in values):
            name, *rest = map(str, values)
            found[name] = Correction(*rest)
    return found


def corrected_labels(dataset: Dataset, said: Mapping[str, Correction]) -> tuple[dict[str, str], tuple[str, ...]]:
    """Choose the corrections that change a label of a dataset.

    Returns:
        The right label by id; and what a person should know, one sentence each: corrections that do not fit.
    """
    examples = {example.id: example for example in dataset.examples}
    right, problems = {}, []
    for name, each in said.items():
        example = examples.get(name)
        if example is None or example.instruction != each.instruction or example.preference != each.label:
            problems.append(f"The correction of {name!r} is about other data, and is not used.")
        elif each.preference not in (*example.labels, *([TIE] if len(example.labels) == 2 else [])):
            problems.append(f"The correction of {name!r} names no candidate, and is not used.")
        elif each.changes:
            right[name] = each.preference
    return right, tuple(problems)


def left_to_look_at(ids: Iterable[str], said: Mapping[str, Correction]) -> list[str]:
    """Of the ids of examples, in their order, those that nobody has said anything of."""
    return [name for name in ids if name not in said]
