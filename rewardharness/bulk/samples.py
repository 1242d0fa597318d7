"""Reading of edits with any number of candidates, to be ranked, filtered or paired.

    DIR with --source and --instruction   every image in it is a candidate of one edit
    DIR/<edit>/                           source.png, instruction.txt, and every other image is a candidate,
                                          except reference_2.png, reference_3.png, reference_4.png
    DIR/pairs.jsonl                       the labeled pairs of `rh score`, without their labels
    DIR/candidates.jsonl                  {"source", "instruction", "candidates": [...], "references"?, "id"?, "run"?}
    a table, or a dataset of the Hub      the same columns; a single candidate may have a column of its own

`run` identifies the source of the candidates, such as a policy at a checkpoint.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rewardharness.data.cells import SKIP, BadRowError, settle, sources_of
from rewardharness.data.columns import SINGLE, complete
from rewardharness.data.fields import FieldMap
from rewardharness.data.hf_datasets import TABLES
from rewardharness.data.opening import open_data, parse_spec
from rewardharness.data.rows import Progress, Rows, RowSource, open_rows
from rewardharness.data.source import Dataset, SkippedRow
from rewardharness.data.tables import ENDINGS
from rewardharness.errors import DataError
from rewardharness.files import content_id, is_run, read_text, user_path
from rewardharness.schema import PAIRS, SOURCES, Example, FramesInput, ImageInput
from rewardharness.settings import Settings
from rewardharness.task import IMAGE_EDIT

OWN_TABLES = ("candidates.jsonl", "groups.jsonl")
"""Tables that mark a folder as one dataset; the first existing one is read."""

INSTRUCTION = "instruction.txt"
SOURCE = "source"
REFERENCES = tuple(f"reference_{number}" for number in range(2, SOURCES + 1))
RUN = "run"


def read_samples(
    spec: str,
    settings: Settings,
    fields: FieldMap | None = None,
    *,
    progress: Progress | None = None,
    skip_bad_rows: bool = False,
) -> Dataset:
    """Read edits with one or more candidates each.

    Args:
        spec: A folder as above, a file with a table, or a dataset of the Hub as `org/name[@revision][:config[/split]]`.
        settings: Location of cached tables.
        fields: Column names of a table; missing ones are recognized by name. `category` is the run.
        progress: Called with the progress of reading.
        skip_bad_rows: Skip invalid rows or folders; see `Dataset.skipped`.

    Returns:
        The edits as examples without labels, possibly with more candidates than a judge compares at once; `category` is
        the run.

    Raises:
        DataError: If nothing can be read; the message names what is missing.
    """
    path = user_path(spec)
    table = next((path / name for name in OWN_TABLES if (path / name).is_file()), None)
    tables = any(file.suffix.lower() in TABLES for file in path.iterdir()) if path.is_dir() else True
    if table is None and (is_samples(spec) or not tables):
        return _read_folders(path, skip_bad_rows)
    native = table is None or (path / PAIRS).is_file()
    source = parse_spec(spec) if native else RowSource(path=table)
    if source is None:
        dataset = open_data(spec, settings, fields=fields, progress=progress, skip_bad_rows=skip_bad_rows)
        if dataset.task is not IMAGE_EDIT:
            step = "Choose a folder, a table, or a dataset on the Hub, with images."
            raise DataError(f"{spec!r} has no samples of image edits.", next_step=step)
        bare = [replace(example, preference=None, label_kind="", category="") for example in dataset.examples]
        return Dataset.of(dataset.name, bare, problems=dataset.problems, skipped=dataset.skipped)
    rows = open_rows(source, settings, progress=progress)
    return _read_table(rows, fields or FieldMap(), source.hub, skip_bad_rows)


def is_samples(spec: str) -> bool:
    """Return whether a folder contains a folder per edit, which only this module reads."""
    folder = user_path(spec)
    return folder.is_dir() and any(path.is_file() for path in folder.glob(f"*/{INSTRUCTION}"))


def one_edit(folder: Path, source: Path, instruction: str, references: Sequence[Path] = ()) -> Dataset:
    """Read all images of a folder, except the source and the references, as candidates of one edit.

    Raises:
        DataError: If there are no candidates.
    """
    for role, path in (("source", source), *(("reference", path) for path in references)):
        if not path.is_file():
            raise DataError(f"The {role} {path} does not exist.", next_step="Check the path.")
    others = {path.resolve() for path in (source, *references)}
    candidates = [path for path in _images(folder) if path.resolve() not in others]
    if not candidates:
        raise DataError(f"{folder} holds no images.", next_step=f"Images end in {', '.join(sorted(ENDINGS))}.")
    return Dataset.of(folder.name, [_example(folder.name, instruction, source, candidates, references)])


def one_by_one(dataset: Dataset) -> Dataset:
    """Convert every candidate to an edit of its own."""
    singles = [
        replace(example, id=f"{example.id}#{index}" if len(example.candidates) > 1 else example.id, candidates=(image,))
        for example in dataset.examples
        for index, image in enumerate(example.candidates)
    ]
    return Dataset.of(dataset.name, singles, problems=dataset.problems, skipped=dataset.skipped)


def _read_folders(root: Path, skip: bool) -> Dataset:
    """Read every folder with an instruction as one edit."""
    examples: list[Example] = []
    problems: list[str] = []
    skipped: list[SkippedRow] = []
    for folder in sorted(path for path in root.iterdir() if path.is_dir() and not is_run(path)):
        if not (folder / INSTRUCTION).is_file():
            problems.append(f"{folder.name} has no {INSTRUCTION} and was left out.")
            continue
        images = _images(folder)
        sources = [path for path in images if path.stem == SOURCE]
        references = [path for path in images if path.stem in REFERENCES]
        images = [path for path in images if path not in references]
        instruction = read_text(folder / INSTRUCTION).strip()
        problem = _wrong(len(sources), len(images), instruction) or _wrong_references(
            [path.stem for path in references]
        )
        if problem and not skip:
            step = f"Add one {SOURCE}.png, at least one candidate and the instruction, or continue without it: {SKIP}."
            raise DataError(f"{folder} has {problem}.", next_step=step)
        if problem:
            skipped.append(SkippedRow(folder.name, f"it has {problem}", len(examples)))
            continue
        candidates = [path for path in images if path != sources[0]]
        examples.append(_example(folder.name, instruction, sources[0], candidates, references))
    if not examples:
        raise DataError(
            f"{root} holds neither {OWN_TABLES[0]} nor folders with {INSTRUCTION} and images that can be used.",
            next_step="For the candidates of one edit in one folder give --source and --instruction.",
        )
    return Dataset.of(root.name, examples, problems=problems, skipped=skipped)


def _wrong(sources: int, images: int, instruction: str) -> str:
    """Return why a folder is not a valid edit; empty if it is valid."""
    if sources != 1 or images < 2:
        return f"{sources} images called {SOURCE} and {images - sources} others"
    return "" if instruction else f"nothing written in its {INSTRUCTION}"


def _wrong_references(names: Sequence[str]) -> str:
    """Return why the references of a folder are not valid: one is missing, or occurs twice; empty if they are."""
    return "" if tuple(names) == REFERENCES[: len(names)] else f"the references {', '.join(names)}"


def _images(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_file() and path.suffix.lower() in ENDINGS)


def _example(
    name: str, instruction: str, source: Path, candidates: Iterable[Path], references: Iterable[Path]
) -> Example:
    images, further = (tuple(ImageInput(path.name, path) for path in paths) for paths in (candidates, references))
    own = ImageInput(f"{name}/{source.name}", source)
    return Example(name, instruction.strip(), own, images, references=further)


def _read_table(rows: Rows, fields: FieldMap, repo: str, skip: bool) -> Dataset:
    if not fields.category and RUN in rows.columns:
        fields = replace(fields, category=RUN)
    columns = complete(rows, fields, repo).fields
    if not columns.candidates:
        single = next((name for name in SINGLE if name in rows.images and name != columns.source), None)
        columns = replace(columns, candidates=(single,) if single else ())
    missing = [name for name in ("source", "instruction", "candidates") if not getattr(columns, name)]
    if missing:
        raise DataError(
            f"{rows.name} has no column for {' and '.join(missing)}. Its columns: {', '.join(rows.columns)}. Those "
            f"that hold images: {', '.join(rows.images) or 'none'}.",
            next_step=f"Specify them, such as --field {missing[0]}=COLUMN.",
        )
    bad: list[SkippedRow] = []
    examples: list[Example] = []
    for number, row in enumerate(rows, 1):
        problem = _wrong_cell(row, columns)
        if problem:
            bad.append(SkippedRow(f"row {number}", problem, len(examples)))
        else:
            examples.append(_row_example(number, row, columns))
    skipped = settle(rows.name, bad, usable=len(examples), skip=skip)
    return Dataset.of(rows.name, examples, problems=rows.notes, skipped=skipped)


def _wrong_cell(row: Mapping[str, Any], columns: FieldMap) -> str:
    """Return which cell of a row is invalid, and its value; empty if the row is valid."""
    instruction, candidates = row.get(columns.instruction), _candidates(row, columns)
    try:
        sources_of(row, columns.source, columns.references)
    except BadRowError as error:
        return str(error)
    if not isinstance(instruction, str) or not instruction.strip():
        return f"the column {columns.instruction!r} (instruction) has no text{_held(instruction)}"
    invalid = next((item for item in candidates if not isinstance(item, ImageInput)), None)
    if invalid is not None or not candidates:
        names = ", ".join(map(repr, columns.candidates))
        return f"the column{'s' * (len(columns.candidates) != 1)} {names} (candidates) has no images{_held(invalid)}"
    return ""


def _held(value: Any) -> str:
    return "" if value in (None, "") or not str(value).strip() else f": it holds {str(value)[:80]!r}"


def _candidates(row: Mapping[str, Any], columns: FieldMap) -> tuple[Any, ...]:
    cells = [row.get(column) for column in columns.candidates]
    return tuple(item for cell in cells for item in (cell if isinstance(cell, tuple) else (cell,)) if item)


def _row_example(number: int, row: Mapping[str, Any], columns: FieldMap) -> Example:
    source, references = sources_of(row, columns.source, columns.references)
    instruction = row[columns.instruction]
    candidates = _candidates(row, columns)
    name, run = row.get(columns.id), row.get(columns.category)
    key = str(name) if name not in (None, "") else _made_id(number, instruction, source, (*references, *candidates))
    category = "" if run is None else str(run)
    return Example(key, instruction.strip(), source, candidates, category=category, references=references)


def _made_id(number: int, instruction: str, source: ImageInput | FramesInput, others: Iterable[ImageInput]) -> str:
    """Return an id for a row from its content and its index."""
    return f"row-{number}-{content_id([instruction, source.name, *(image.name for image in others)])[:8]}"
