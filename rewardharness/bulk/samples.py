"""Reads edits with any number of candidates each: what a sampler has drawn, to be ranked, filtered or paired.

    DIR with --source and --instruction   every image in it is a candidate of one edit
    DIR/<edit>/                           source.png, instruction.txt, and every other image is a candidate
    DIR/candidates.jsonl                  {"source", "instruction", "candidates": [...], "id"?, "run"?}
    a table, or a dataset of the Hub      the same columns; a single candidate may stand in a column of its own

`run` names what drew the candidates, such as a policy at a checkpoint.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from rewardharness.data.bad_rows import SKIP, BadRow, settle
from rewardharness.data.columns import complete
from rewardharness.data.fields import FieldMap
from rewardharness.data.opening import parse_spec
from rewardharness.data.rows import Progress, Rows, RowSource, open_rows
from rewardharness.data.source import Dataset, SkippedRow
from rewardharness.data.tables import ENDINGS
from rewardharness.errors import DataError
from rewardharness.files import content_id, is_run, read_text
from rewardharness.schema import Example, ImageInput
from rewardharness.settings import Settings

OWN_TABLES = ("candidates.jsonl", "groups.jsonl")
"""Tables by which a folder is known for one; the first that is there is read."""

INSTRUCTION = "instruction.txt"
SOURCE = "source"
SINGLE = ("edited", "edited_image", "output_image", "output", "candidate", "edit", "result", "image")
"""Names of a column that holds a single candidate."""
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
        settings: Where tables are kept.
        fields: Which column of a table is what; what it leaves open is recognised by name. `category` is the run.
        progress: Told how the work goes on, where it takes long.
        skip_bad_rows: Leave out rows, or folders, that cannot be used; see `Dataset.skipped`.

    Returns:
        The edits as examples without labels. They may have more candidates than a judge compares at once; `category`
        is the run.

    Raises:
        DataError: If nothing can be read; names what is missing.
    """
    path = Path(spec).expanduser()
    if path.is_dir():
        table = next((path / name for name in OWN_TABLES if (path / name).is_file()), None)
        if table is None:
            return _read_folders(path, skip_bad_rows)
        source: RowSource | None = RowSource(path=table)
    else:
        source = parse_spec(spec)
    if source is None:
        raise DataError(f"{spec!r} is no set of samples.", next_step="Name a folder, a table, or a dataset on the Hub.")
    rows = open_rows(source, settings, progress=progress)
    return _read_table(rows, fields or FieldMap(), source.hub, skip_bad_rows)


def is_samples(spec: str) -> bool:
    """Whether a folder has a folder for each edit, which only this module reads."""
    folder = Path(spec).expanduser()
    return folder.is_dir() and any(path.is_file() for path in folder.glob(f"*/{INSTRUCTION}"))


def one_edit(folder: Path, source: Path, instruction: str) -> Dataset:
    """Take every image of a folder, other than the source, for a candidate of one edit.

    Raises:
        DataError: If there is none.
    """
    if not source.is_file():
        raise DataError(f"The source {source} does not exist.", next_step="Check the path.")
    candidates = [path for path in _images(folder) if path.resolve() != source.resolve()]
    if not candidates:
        raise DataError(f"{folder} holds no images.", next_step=f"Images end in {', '.join(sorted(ENDINGS))}.")
    return Dataset.of(folder.name, [_example(folder.name, instruction, source, candidates)])


def one_by_one(dataset: Dataset) -> Dataset:
    """Make every candidate an edit of its own."""
    singles = [
        replace(example, id=f"{example.id}#{index}" if len(example.candidates) > 1 else example.id, candidates=(image,))
        for example in dataset.examples
        for index, image in enumerate(example.candidates)
    ]
    return Dataset.of(dataset.name, singles, problems=dataset.problems, skipped=dataset.skipped)


def _read_folders(root: Path, skip: bool) -> Dataset:
    """Every folder with an instruction in it is one edit."""
    examples: list[Example] = []
    problems: list[str] = []
    skipped: list[SkippedRow] = []
    for folder in sorted(path for path in root.iterdir() if path.is_dir() and not is_run(path)):
        if not (folder / INSTRUCTION).is_file():
            problems.append(f"{folder.name} has no {INSTRUCTION} and was left out.")
            continue
        images = _images(folder)
        sources = [path for path in images if path.stem == SOURCE]
        instruction = read_text(folder / INSTRUCTION).strip()
        wrong = _wrong(len(sources), len(images), instruction)
        if wrong and not skip:
            step = (
                f"Put one {SOURCE}.png, at least one candidate and the instruction into it, or go on without: {SKIP}."
            )
            raise DataError(f"{folder} has {wrong}.", next_step=step)
        if wrong:
            skipped.append(SkippedRow(folder.name, f"it has {wrong}", len(examples)))
            continue
        candidates = [path for path in images if path != sources[0]]
        examples.append(_example(folder.name, instruction, sources[0], candidates))
    if not examples:
        raise DataError(
            f"{root} holds neither {OWN_TABLES[0]} nor folders with {INSTRUCTION} and images that can be used.",
            next_step="For the candidates of one edit in one folder give --source and --instruction.",
        )
    return Dataset.of(root.name, examples, problems=problems, skipped=skipped)


def _wrong(sources: int, images: int, instruction: str) -> str:
    """Say why a folder is no edit; empty when it is one."""
    if sources != 1 or images < 2:
        return f"{sources} images called {SOURCE} and {images - sources} others"
    return "" if instruction else f"nothing written in its {INSTRUCTION}"


def _images(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_file() and path.suffix.lower() in ENDINGS)


def _example(name: str, instruction: str, source: Path, candidates: Iterable[Path]) -> Example:
    images = tuple(ImageInput(path.name, path) for path in candidates)
    return Example(name, instruction.strip(), ImageInput(f"{name}/{source.name}", source), images)


def _read_table(rows: Rows, given: FieldMap, repo: str, skip: bool) -> Dataset:
    if not given.category and RUN in rows.columns:
        given = replace(given, category=RUN)
    found = complete(rows, given, repo).fields
    if not found.candidates:
        single = next((name for name in SINGLE if name in rows.images and name != found.source), None)
        found = replace(found, candidates=(single,) if single else ())
    missing = [name for name in ("source", "instruction", "candidates") if not getattr(found, name)]
    if missing:
        raise DataError(
            f"{rows.name} has no column for {' and '.join(missing)}. Its columns: {', '.join(rows.columns)}. Those "
            f"that hold images: {', '.join(rows.images) or 'none'}.",
            next_step=f"Name them, as in --field {missing[0]}=COLUMN.",
        )
    bad: list[BadRow] = []
    examples: list[Example] = []
    for number, row in enumerate(rows, 1):
        wrong = _wrong_cell(row, found)
        if wrong:
            bad.append(BadRow(number, wrong, "Correct the rows named.", len(examples)))
        else:
            examples.append(_row_example(number, row, found))
    skipped = settle(rows.name, bad, usable=len(examples), skip=skip)
    return Dataset.of(rows.name, examples, problems=rows.notes, skipped=skipped)


def _wrong_cell(row: Mapping[str, Any], at: FieldMap) -> str:
    """Say which cell of a row cannot be used, and what it holds; empty when all can."""
    source, instruction, candidates = row.get(at.source), row.get(at.instruction), _candidates(row, at)
    if not isinstance(source, ImageInput):
        return f"the column {at.source!r} (source) has no image{_held(source)}"
    if not isinstance(instruction, str) or not instruction.strip():
        return f"the column {at.instruction!r} (instruction) has no text{_held(instruction)}"
    odd = next((each for each in candidates if not isinstance(each, ImageInput)), None)
    if odd is not None or not candidates:
        columns = ", ".join(map(repr, at.candidates))
        return f"the column{'s' * (len(at.candidates) != 1)} {columns} (candidates) has no images{_held(odd)}"
    return ""


def _held(value: Any) -> str:
    return "" if value in (None, "") or not str(value).strip() else f": it holds {str(value)[:80]!r}"


def _candidates(row: Mapping[str, Any], at: FieldMap) -> tuple[Any, ...]:
    cells = [row.get(column) for column in at.candidates]
    return tuple(each for cell in cells for each in (cell if isinstance(cell, tuple) else (cell,)) if each)


def _row_example(number: int, row: Mapping[str, Any], at: FieldMap) -> Example:
    source, instruction, candidates = row[at.source], row[at.instruction], _candidates(row, at)
    name, run = row.get(at.id), row.get(at.category)
    key = str(name) if name not in (None, "") else _made_id(number, instruction, source, candidates)
    return Example(key, instruction.strip(), source, candidates, category="" if run is None else str(run))


def _made_id(number: int, instruction: str, source: ImageInput, candidates: Iterable[ImageInput]) -> str:
    """Name a row by its content and its place."""
    return f"row-{number}-{content_id([instruction, source.name, *(each.name for each in candidates)])[:8]}"
