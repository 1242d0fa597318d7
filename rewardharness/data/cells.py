"""The sources and candidates in the cells of a row: images, videos as lists of images, or texts."""

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from rewardharness.data.bad_rows import BadRowError
from rewardharness.data.tables import ENDINGS
from rewardharness.errors import InputError
from rewardharness.schema import LABELS, SOURCES, Candidate, FramesInput, ImageInput, TextInput


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
                step = "Give the text of each response."
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
    texts = [each[:4096].strip().lower() for each in values if isinstance(each, str)]
    return any(text.startswith("data:image/") or PurePosixPath(text).suffix in ENDINGS for text in texts)
