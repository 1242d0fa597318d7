"""Cells of a row: images, videos as lists of images, texts and labels; and rows that cannot be used."""

import math
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from rewardharness.data.source import SkippedRow
from rewardharness.data.tables import ENDINGS
from rewardharness.errors import DataError, InputError
from rewardharness.schema import LABELS, SOURCES, TIE, Candidate, FramesInput, ImageInput, TextInput

SKIP = "--skip-bad-rows"
"""Command-line option that skips invalid rows."""

_SHOWN = 5
_LISTED = 20


class BadRowError(Exception):
    """A row is invalid.

    Args:
        problem: The column, the value and the reason; equal for all rows with the same cell.
        remedy: What to do about it.
    """

    def __init__(self, problem: str, remedy: str = "Correct these rows.") -> None:
        super().__init__(problem)
        self.remedy = remedy


def settle(name: str, bad: Sequence[SkippedRow], *, usable: int, skip: bool) -> tuple[SkippedRow, ...]:
    """Skip invalid rows, or raise an error that lists them.

    Args:
        name: Name of the dataset in the error; empty if the locations include it.
        bad: The rows, in order.
        usable: Number of valid rows.
        skip: Whether to skip invalid rows.

    Returns:
        The skipped rows, with their reasons.

    Raises:
        DataError: If there are invalid rows and `skip` is false, or no valid rows; lists rows, columns and values.
    """
    if not bad or (skip and usable):
        return tuple(bad)
    alike: dict[tuple[str, str], list[int]] = defaultdict(list)
    for row in bad:
        noun, _, number = row.place.rpartition(" ")
        alike[noun, row.reason].append(int(number))
    reasons = "; ".join(
        f"{numbered(noun, numbers)}: {reason}" for (noun, reason), numbers in list(alike.items())[:_SHOWN]
    )
    hidden = sum(len(numbers) for numbers in list(alike.values())[_SHOWN:])
    count = f"{len(bad)} row{'s' * (len(bad) != 1)}"
    which = f"None of the {count} can be used" if not usable and len(bad) > 1 else f"{count} cannot be used"
    steps = list(dict.fromkeys(row.remedy for row in bad))[:_SHOWN]
    if usable:
        steps.append(f"To skip these rows and count them as not judged, add {SKIP}.")
    message = f"{which}: {reasons}{f'; and {hidden} more' if hidden else ''}."
    raise DataError(f"{name}: {message}" if name else message, next_step=" ".join(steps))


def numbered(noun: str, numbers: Sequence[int]) -> str:
    """Return numbers in words, such as `rows 1, 3`; many are shortened."""
    listed = ", ".join(map(str, numbers[:_LISTED]))
    more = f" and {len(numbers) - _LISTED} more" if len(numbers) > _LISTED else ""
    return f"{noun}{'s' * (len(numbers) != 1)} {listed}{more}"


def sources_of(
    row: Mapping[str, Any], source: str, references: Sequence[str] = (), *, video: bool = False
) -> tuple[ImageInput | FramesInput, tuple[ImageInput, ...]]:
    """Return the source and its references.

    Args:
        row: The row.
        source: Its column, with one image or a list of image 1 and its references.
        references: Columns of the references.
        video: Whether a list of images as source is a video, rather than image 1 and its references.

    Raises:
        BadRowError: If a cell has no image, or there are too many.
    """
    own = row[source]
    if not isinstance(own, tuple) or not own:
        own = (own,)
    if not isinstance(own[0], ImageInput):
        raise _no_image(own[0], source, "source")
    first: ImageInput | FramesInput = own[0]
    listed = _cells({source: own}, (source,), "source")
    if video and len(listed) > 1:
        first, listed = _frames(listed, source, "source"), listed[:1]
    further = (*listed[1:], *_cells(row, references, "reference"))
    if len(further) >= SOURCES:
        problem = f"{len(further) + 1} source and reference images"
        raise BadRowError(problem, f"A row has at most {SOURCES} of them.")
    return first, further


def _cells(row: Mapping[str, Any], columns: Sequence[str], role: str) -> tuple[ImageInput, ...]:
    """Return the images of columns with one image or a list."""
    cells: list[tuple[str, Any]] = []
    for column in (*columns, ""):
        while cells and cells[-1][1] is None and (not column or isinstance(row[column], tuple)):
            cells.pop()  # empty columns at the end or before a list
        if column:
            content = row[column]
            cells += [(column, cell) for cell in (content if isinstance(content, tuple) else (content,))]
    for column, cell in cells:
        if not isinstance(cell, ImageInput):
            raise _no_image(cell, column, role)
    return tuple(cell for _, cell in cells)


def media_of(row: Mapping[str, Any], columns: Sequence[str], least: int = 2) -> tuple[Candidate, ...]:
    """Return the candidates of a row: images, or videos as lists of images in several columns or in a list of lists.

    Raises:
        BadRowError: If a cell has no image, or there are too few or too many.
    """
    values = [row[column] for column in columns]
    while len(values) > 1 and values[-1] is None:
        values.pop()
    videos = values[0] if len(values) == 1 and isinstance(values[0], list) else values
    if len(videos) > 1 and all(isinstance(value, tuple) and value for value in videos):
        return _checked(tuple(_frames(value, columns[0], "candidate") for value in videos), columns, least)
    return _checked(_cells(row, columns, "candidate"), columns, least)


def _frames(value: Sequence[Any], column: str, role: str) -> FramesInput:
    for frame in value:
        if not isinstance(frame, ImageInput):
            raise _no_image(frame, column, role)
    try:
        return FramesInput(role, tuple(value))
    except InputError as error:
        raise BadRowError(f"the column {column!r}: {error.message.rstrip('.')}", error.next_step) from None


def texts_of(row: Mapping[str, Any], columns: Sequence[str], least: int = 2) -> tuple[Candidate, ...]:
    """Return the text responses of a row, in several columns or in a list.

    Raises:
        BadRowError: If a cell has no text, or there are too few or too many.
    """
    cells: list[TextInput] = []
    for column in columns:
        value = row[column]
        for text in value if isinstance(value, list | tuple) else (value,):
            if text is None and len(cells) > 1:
                continue  # columns at the end may be empty
            if not isinstance(text, str) or not text.strip():
                held = "" if text in (None, "") else f": it holds {str(text)[:80]!r}"
                step = "Give the text of each response. Images are file names, bytes, base64 or data URIs."
                raise BadRowError(f"the column {column!r} (candidate) has no text{held}", step)
            try:
                cells.append(TextInput(column, text))
            except InputError as error:
                raise BadRowError(error.message.rstrip("."), error.next_step) from None
    return _checked(tuple(cells), columns, least)


def _checked(cells: tuple[Candidate, ...], columns: Sequence[str], least: int) -> tuple[Candidate, ...]:
    if not least <= len(cells) <= len(LABELS):
        noun = "text" if cells and isinstance(cells[0], TextInput) else "image"
        counted = f"{len(cells)} {noun}{'s' * (len(cells) != 1)}"
        where = ", ".join(map(repr, columns))
        problem = f"{counted} in the column{'s' * (len(columns) != 1)} {where} (candidates)"
        raise BadRowError(problem, f"A row needs {least} to {len(LABELS)} candidates.")
    return cells


def identity_of(media: Candidate) -> str:
    """Return what identifies a source or candidate in the id of a row."""
    if isinstance(media, TextInput):
        return media.text
    return " ".join(frame.name for frame in media.frames) if isinstance(media, FramesInput) else media.name


def _no_image(value: Any, column: str, role: str) -> BadRowError:
    """Return the error for a cell that is not an image."""
    content = "is empty" if value is None else f"contains {str(value)[:80]!r}, which is not a readable image"
    step = "Store the image, or its path relative to the table and inside its folder, such as images/a.png."
    return BadRowError(f"the column {column!r} ({role}) {content}", step)


def names_image(value: Any) -> bool:
    """Return whether a cell is the path or address of an image, wherever it is, or a `data:` URI of one."""
    values = value if isinstance(value, list | tuple) else (value,)
    texts = [text[:4096].strip().lower() for text in values if isinstance(text, str)]
    return any(text.startswith("data:image/") or PurePosixPath(text).suffix in ENDINGS for text in texts)


Values = Mapping[str, str | None]
"""Meaning of label values by `label_key`: a letter, `tie`, or None for no label."""

COUNTED = {f"from-{start}": {str(start + place): label for place, label in enumerate(LABELS)} for start in (0, 1)}
"""Shorthands for candidate indices that start at 0 or 1."""

_NAMES = ("", "candidate ", "image ", "option ", "response ", "output ", "edit ", "model ")
_WORDS: dict[str, str | None] = {
    **{f"{name}{label.lower()}": label for name in _NAMES for label in LABELS},
    **{f"{side}{rest}": label for side, label in (("left", "A"), ("right", "B")) for rest in ("", "vote", " vote")},
    **dict.fromkeys(("tie", "tievote", "tie vote", "same", "equal", "draw", "no preference"), TIE),
    **dict.fromkeys(("bothbad", "both bad", "bothbad vote", "tie (bothbad)", "tie (both bad)"), TIE),
}
_ORDER = re.compile(r"\[*([a-z])((?:(?:>+|<+|=+)[a-z])+)\]*")
_STEP = re.compile(r"([<>=])[<>=]*([a-z])")


class UnknownLabelError(ValueError):
    """A label value is not recognized."""


def label_key(value: object) -> str:
    """Normalize a label value: one spelling, case-folded, without surrounding spaces.

    Returns:
        The key; empty for None, an empty text and NaN.
    """
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return ""
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return " ".join(str(value).casefold().replace("_", " ").split())


def read_values(mapping: object) -> Values:
    """Parse a value map.

    Args:
        mapping: A mapping from values to letters, `tie` or nothing; or `from-0` or `from-1`.

    Raises:
        InputError: If the map is invalid.
    """
    step = "Map each value to A, B, C, D, tie or nothing, or use from-0 or from-1."
    if isinstance(mapping, str) and mapping in COUNTED:
        return dict(COUNTED[mapping])
    if not isinstance(mapping, Mapping) or not mapping:
        raise InputError(f"{str(mapping)[:80]!r} is not a valid map of label values.", next_step=step)
    meant = {label.lower(): label for label in LABELS} | {TIE: TIE, "": None, "none": None}
    values: dict[str, str | None] = {}
    for value, meaning in mapping.items():
        key, word = label_key(value), label_key(meaning)
        if not key or word not in meant:
            message = f"The label {str(value)[:40]!r} cannot be mapped to {str(meaning)[:40]!r}."
            raise InputError(message, next_step=step)
        if values.setdefault(key, meant[word]) != meant[word]:
            raise InputError(f"The label {key!r} is mapped twice.", next_step=step)
    return values


def read_label(value: object, count: int, values: Values | None = None) -> str | None:
    """Parse one label.

    Args:
        value: The value in the table.
        count: Number of candidates, 2 to 4.
        values: Meaning of values; None for common words, letters, and orders such as `A>B` or `B<A=C`.

    Returns:
        The letter of the best candidate; `tie` if several are best; None for no label.

    Raises:
        UnknownLabelError: If the value is unknown or refers to a missing candidate.
    """
    key = label_key(value)
    if not key:
        return None
    if values is not None:
        if key not in values:
            raise UnknownLabelError(key)
        label = values[key]
    else:
        label = _WORDS[key] if key in _WORDS else _best_of_order(key, count)
    if label not in (None, TIE, *LABELS[:count]):
        raise UnknownLabelError(key)
    return label


def _best_of_order(key: str, count: int) -> str:
    """Parse `A>B`, `[[B>>A]]`, `A=B` or `C<A=B`: every candidate once, all signs in one direction."""
    match = _ORDER.fullmatch(key.replace(" ", ""))
    steps = _STEP.findall(match[2]) if match else []
    signs = {sign for sign, _ in steps} - {"="}
    letters = [match[1], *(letter for _, letter in steps)] if match else []
    if len(signs) > 1 or sorted(letters) != [label.lower() for label in LABELS[:count]]:
        raise UnknownLabelError(key)
    if "<" in signs:
        steps = [(sign, before) for (sign, _), before in zip(reversed(steps), reversed(letters[:-1]), strict=True)]
        letters.reverse()
    return TIE if steps[0][0] == "=" else letters[0].upper()


def best_by_score(scores: Sequence[object], *, lowest: bool = False) -> str | None:
    """Return the best candidate by scores or ranks.

    Args:
        scores: One number per candidate, possibly as text.
        lowest: Whether the lowest number is the best, as for ranks.

    Returns:
        Its letter; `tie` if several are best; None if a number is missing.

    Raises:
        UnknownLabelError: If a value is not a number.
    """
    numbers = [_number(score) for score in scores]
    known = [number for number in numbers if number is not None]
    if len(known) < len(numbers):
        return None
    best = min(known) if lowest else max(known)
    return TIE if known.count(best) > 1 else LABELS[known.index(best)]


def _number(value: object) -> float | None:
    if not label_key(value):
        return None
    try:
        number = math.nan if isinstance(value, bool) else float(str(value))
    except ValueError:
        number = math.nan
    if not math.isfinite(number):
        raise UnknownLabelError(str(value))
    return number
