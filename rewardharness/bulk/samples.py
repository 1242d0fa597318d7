"""Reads edits with any number of candidates each: what a sampler has drawn, to be ranked, filtered or paired.

    DIR with --source and --instruction   every image in it is a candidate of one edit
    DIR/<edit>/                           source.png, instruction.txt, and every other image is a candidate
    DIR/candidates.jsonl                  {"source", "instruction", "candidates": [...], "id"?, "run"?}
    a table, or a dataset of the Hub      the same columns; a single candidate may stand in a column of its own

`run` names what drew the candidates, such as a policy at a checkpoint.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from rewardharness.data.columns import complete
from rewardharness.data.fields import FieldMap
from rewardharness.data.opening import parse_spec
from rewardharness.data.rows import Progress, Rows, RowSource, open_rows
from rewardharness.data.source import Dataset
from rewardharness.data.tables import ENDINGS
from rewardharness.errors import DataError
from rewardharness.files import content_id, read_text
from rewardharness.schema import Example, ImageInput
from rewardharness.settings import Settings

OWN_TABLES = ("candidates.jsonl", "groups.jsonl")
"""Tables by which a folder is known for one; the first that is there is read."""

INSTRUCTION = "instruction.txt"
SOURCE = "source"
SINGLE = ("edited", "edited_image", "output_image", "output", "candidate", "edit", "result", "image")
"""Names of a column that holds a single candidate."""
RUN = "run"

_SHOWN = 5


def read_samples(
    spec: str, settings: Settings, fields: FieldMap | None = None, *, progress: Progress | None = None
) -> Dataset:
    """Read edits with one or more candidates each.

    Args:
        spec: A folder as above, a file with a table, or a dataset of the Hub as `org/name[@revision][:config[/split]]`.
        settings: Where tables are kept.
        fields: Which column of a table is what; what it leaves open is recognised by name. `category` is the run.
        progress: Told how the work goes on, where it takes long.

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
            return _read_folders(path)
        source: RowSource | None = RowSource(path=table)
    else:
        source = parse_spec(spec)
    if source is None:
        raise DataError(f"{spec!r} is no set of samples.", next_step="Name a folder, a table, or a dataset on the Hub.")
    return _read_table(open_rows(source, settings, progress=progress), fields or FieldMap(), source.hub)


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
    return Dataset.of(dataset.name, singles, problems=dataset.problems)


def _read_folders(root: Path) -> Dataset:
    """Every folder with an instruction in it is one edit."""
    examples = []
    problems = []
    for folder in sorted(path for path in root.iterdir() if path.is_dir()):
        if not (folder / INSTRUCTION).is_file():
            problems.append(f"{folder.name} has no {INSTRUCTION} and was left out.")
            continue
        images = _images(folder)
        sources = [path for path in images if path.stem == SOURCE]
        if len(sources) != 1 or len(images) < 2:
            raise DataError(
                f"{folder} has {len(sources)} images called {SOURCE} and {len(images) - len(sources)} others.",
                next_step=f"Put one {SOURCE}.png and at least one candidate into it.",
            )
        candidates = [path for path in images if path != sources[0]]
        examples.append(_example(folder.name, read_text(folder / INSTRUCTION), sources[0], candidates))
    if not examples:
        raise DataError(
            f"{root} holds neither {OWN_TABLES[0]} nor folders with {INSTRUCTION}.",
            next_step="For the candidates of one edit in one folder give --source and --instruction.",
        )
    return Dataset.of(root.name, examples, problems=problems)


def _images(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_file() and path.suffix.lower() in ENDINGS)


def _example(name: str, instruction: str, source: Path, candidates: Iterable[Path]) -> Example:
    images = tuple(ImageInput(path.name, path) for path in candidates)
    return Example(name, instruction.strip(), ImageInput(f"{name}/{source.name}", source), images)


def _read_table(rows: Rows, given: FieldMap, repo: str) -> Dataset:
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
    wrong: list[str] = []
    examples = list(_examples(rows, found, wrong))
    if wrong:
        more = f"; and {len(wrong) - _SHOWN} more" if len(wrong) > _SHOWN else ""
        raise DataError(f"{rows.name}: {'; '.join(wrong[:_SHOWN])}{more}.", next_step="Correct the rows named.")
    return Dataset.of(rows.name, examples, problems=rows.notes)


def _examples(rows: Iterable[Mapping[str, Any]], at: FieldMap, wrong: list[str]) -> Iterator[Example]:
    """Make examples of rows; what cannot be one is written to the list of what is wrong."""
    for number, row in enumerate(rows, 1):
        source, instruction = row.get(at.source), row.get(at.instruction)
        cells = [row.get(column) for column in at.candidates]
        candidates = tuple(each for cell in cells for each in (cell if isinstance(cell, tuple) else (cell,)) if each)
        if not isinstance(source, ImageInput):
            wrong.append(f"row {number} has no image in {at.source}")
        elif not isinstance(instruction, str) or not instruction.strip():
            wrong.append(f"row {number} has no text in {at.instruction}")
        elif not candidates or not all(isinstance(each, ImageInput) for each in candidates):
            wrong.append(f"row {number} has no images in {', '.join(at.candidates)}")
        else:
            name, run = row.get(at.id), row.get(at.category)
            key = str(name) if name not in (None, "") else _made_id(number, instruction, source, candidates)
            yield Example(key, instruction.strip(), source, candidates, category="" if run is None else str(run))


def _made_id(number: int, instruction: str, source: ImageInput, candidates: Iterable[ImageInput]) -> str:
    """Name a row by its content and its place."""
    return f"row-{number}-{content_id([instruction, source.name, *(each.name for each in candidates)])[:8]}"
