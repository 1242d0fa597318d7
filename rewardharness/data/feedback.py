"""Store preferences given in the app as a local dataset for `read_folder`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rewardharness import files
from rewardharness.data.folder import FEEDBACK, FEEDBACK_MARKER
from rewardharness.errors import DataError, InputError
from rewardharness.schema import GROUPS, PAIRS, TIE, Example, ImageInput
from rewardharness.task import IMAGE_EDIT, task_of

_MAGIC = (
    (b"\x89PNG\r\n\x1a\n", "png"),
    (b"\xff\xd8\xff", "jpg"),
    (b"GIF8", "gif"),
    (b"BM", "bmp"),
    (b"II*\x00", "tif"),
    (b"MM\x00*", "tif"),
)


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
    contents = [_content(image) for image in example.images]
    hashes = [files.sha256(content) for content in contents]
    first = len(example.sources)
    try:
        key = files.content_id([instruction, *_sources(hashes[:first]), *sorted(hashes[first:])])[:32]
        files.content_id(dict(context or {}))
    except (TypeError, ValueError) as error:
        raise InputError(f"The context cannot be stored as JSON: {error}.", next_step="Omit it.") from None
    names = [_store(folder, content, digest) for content, digest in zip(contents, hashes, strict=True)]
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
        raise InputError(
            f"{len(example.candidates)} candidates cannot be compared.", next_step="Use 2 to 4 candidates."
        )
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


def _sources(hashes: list[str]) -> list[Any]:
    """Return the part of the id of a row that identifies its sources: references are set apart from candidates."""
    return [hashes[0], hashes[1:]] if len(hashes) > 1 else hashes


def _content(image: ImageInput) -> bytes:
    """Return the original bytes of an image."""
    try:
        content = image.path.read_bytes() if image.data is None and image.path is not None else image.data
    except OSError as error:
        raise DataError(
            f"The image {image.name} cannot be read: {error.strerror}.", next_step="Upload it again."
        ) from None
    if not content:
        raise DataError(f"The image {image.name} is empty.", next_step="Upload it again.")
    return content


def _store(folder: Path, content: bytes, digest: str) -> str:
    """Write an image once and return its path relative to the folder."""
    name = f"images/{digest}.{extension(content)}"
    path = folder / name
    if not path.is_file() or path.stat().st_size != len(content):
        files.write_bytes(path, content)
    return name


def extension(content: bytes) -> str:
    """Return the file extension for the image format of the bytes."""
    if content[:4] == b"RIFF" and content[8:12] == b"WEBP":
        return "webp"
    return next((ending for magic, ending in _MAGIC if content.startswith(magic)), "img")
