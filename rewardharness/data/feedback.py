"""Store preferences given in the app as a local dataset for `read_folder`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rewardharness import files
from rewardharness.data.encoded import original_bytes, store_image
from rewardharness.data.folder import FEEDBACK, FEEDBACK_MARKER
from rewardharness.errors import DataError, InputError
from rewardharness.schema import GROUPS, PAIRS, TIE, Example
from rewardharness.task import IMAGE_EDIT, task_of


def append_feedback(
    folder: Path, example: Example, preference: str, *, context: Mapping[str, Any] | None = None
) -> str:
    """Append a preference with its images to a dataset folder.

    Images are written before the row, so a crash leaves at most an image without a row. A second preference for the
    same images and instruction, in any candidate order, appends a row with the same id; the reader uses the last one.

    Privacy: images are stored unchanged, including metadata (camera, location, time), under the hash of their content.
    Names of uploaded files are not stored. Nothing is sent to another machine.

    Args:
        folder: The dataset folder (`Settings.feedback`); created if missing.
        example: The judged example. Its id and label are ignored.
        preference: The letter of the preferred candidate; `tie` for a pair of equal candidates.
        context: Displayed information, such as the judge and its result, as a JSON object. Stored with the row, never
            given to a judge.

    Returns:
        The row id: a hash of images and instruction.

    Raises:
        InputError: If the preference is invalid, the instruction is empty or the context is not JSON.
        DataError: If an image can no longer be read.
    """
    instruction, letters = check_preference(example, preference), example.labels
    contents = [original_bytes(image, "Upload it again.") for image in example.images]
    if b"" in contents:
        name = example.images[contents.index(b"")].name
        raise DataError(f"The image {name} is empty.", next_step="Upload it again.")
    hashes = [files.sha256(content) for content in contents]
    first = len(example.sources)
    try:
        apart = [hashes[1:first]] if first > 1 else []  # references are set apart from candidates
        key = files.content_id([instruction, hashes[0], *apart, *sorted(hashes[first:])])[:32]
        files.content_id(dict(context or {}))
    except (TypeError, ValueError) as error:
        raise InputError(f"The context cannot be stored as JSON: {error}.", next_step="Omit it.") from None
    names = [store_image(folder, content) for content in contents]
    row: dict[str, Any] = {"id": key, "instruction": instruction, "source": names[0], "label_kind": FEEDBACK}
    if example.references:
        row["references"] = names[1:first]
    if len(letters) == 2:
        row |= {"candidate_a": names[first], "candidate_b": names[first + 1], "preference": preference}
    else:
        row |= {"candidates": names[first:], "best": letters.index(preference)}
    if context:
        row["context"] = dict(context)
    if not (folder / FEEDBACK_MARKER).exists():
        files.write_json(folder / FEEDBACK_MARKER, {"format": 1, "label_kind": FEEDBACK})
    files.append_jsonl(folder / (PAIRS if len(letters) == 2 else GROUPS), row)
    return key


def check_preference(example: Example, preference: str) -> str:
    """Check a preference, and return the instruction without surrounding spaces.

    Raises:
        InputError: If the preference is invalid, the instruction is empty, or this is not about image edits.
    """
    letters = example.labels
    if not 2 <= len(letters) == len(example.candidates):
        message = f"{len(example.candidates)} candidates cannot be compared."
        raise InputError(message, next_step="Use 2 to 4 candidates.")
    if task_of(example) is not IMAGE_EDIT:
        message = f"Feedback on {task_of(example).words} cannot be stored."
        raise InputError(message, next_step="Give feedback on image edits.")
    allowed = (*letters, TIE) if len(letters) == 2 else letters
    if preference not in allowed:
        raise InputError(f"The preference {preference!r} is none of {', '.join(allowed)}.", next_step="Choose again.")
    instruction = example.instruction.strip()
    if not instruction:
        raise InputError("The instruction is empty.", next_step="Enter the requested edit.")
    return instruction
