"""Reads edits with any number of candidates each: what a sampler has drawn, to be ranked, filtered or paired.

    DIR with --source and --instruction   every image in it is a candidate of one edit
    DIR/<edit>/                           source.png, instruction.txt, and every other image is a candidate
    DIR/candidates.jsonl                  {"source", "instruction", "candidates": [...], "id"?, "run"?}
    a table, or a dataset of the Hub      the same columns; a single candidate may stand in a column of its own

`run` names what drew the candidates, such as a policy at a checkpoint.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rewardharness.data.rows import RowSource, open_rows
from rewardharness.data.source import Dataset
from rewardharness.data.tables import ENDINGS
from rewardharness.errors import DataError
from rewardharness.files import content_id, read_text
from rewardharness.schema import Example, ImageInput
from rewardharness.settings import Settings

TABLES = ("candidates.jsonl", "groups.jsonl")
"""Tables by which a folder is known for one; the first that is there is read."""

INSTRUCTION = "instruction.txt"
SOURCE = "source"

_SHOWN = 5


@dataclass(frozen=True)
class Columns:
    """Where a table holds what; several names are tried in order."""

    source: tuple[str, ...] = ("source", "source_image", "input_image", "image_src", "input")
    instruction: tuple[str, ...] = ("instruction", "prompt", "edit_instruction", "edit_prompt", "instruct_prompt")
    candidates: tuple[str, ...] = (
        "candidates",
        "output_images",
        "edited",
        "edited_image",
        "output_image",
        "output",
        "candidate",
        "image",
    )
    id: tuple[str, ...] = ("id", "key")
    run: tuple[str, ...] = ("run",)

    def found(self, columns: Iterable[str]) -> Mapping[str, str]:
        """Choose the first name of each that a table has; those it does not have are left out."""
        there = set(columns)
        wanted = vars(self).items()
        return {what: next(name for name in names if name in there) for what, names in wanted if there & set(names)}


def read_samples(
    spec: str,
    settings: Settings,
    columns: Columns = Columns(),
    *,
    progress: Callable[[str, int, int], None] | None = None,
) -> Dataset:
    """Read edits with one or more candidates each.

    Args:
        spec: A folder as above, a file with a table, or a dataset of the Hub as `org/name[@revision][:config[/split]]`.
        settings: Where tables are kept.
        columns: Where a table holds what.
        progress: Told how the work goes on, where it takes long.

    Returns:
        The edits as examples without labels. They may have more candidates than a judge compares at once; `category`
        is the run.

    Raises:
        DataError: If nothing can be read; names what is missing.
    """
    path = Path(spec).expanduser()
    if path.is_dir():
        table = next((path / name for name in TABLES if (path / name).is_file()), None)
        if table is None:
            return _read_folders(path)
        return _read_table(RowSource(path=table), settings, columns, progress, path.name)
    if path.exists() or "/" not in spec:
        return _read_table(RowSource(path=path), settings, columns, progress, path.name)
    return _read_table(_on_hub(spec), settings, columns, progress, spec)


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


def _on_hub(spec: str) -> RowSource:
    rest, _, where = spec.removeprefix("hf:").partition(":")
    name, _, revision = rest.partition("@")
    config, _, split = where.partition("/")
    return RowSource(hub=name, config=config, split=split, revision=revision)


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
            f"{root} holds neither {TABLES[0]} nor folders with {INSTRUCTION}.",
            next_step="For the candidates of one edit in one folder give --source and --instruction.",
        )
    return Dataset.of(root.name, examples, problems=problems)


def _images(folder: Path) -> list[Path]:
    return sorted(path for path in folder.iterdir() if path.is_file() and path.suffix.lower() in ENDINGS)


def _example(name: str, instruction: str, source: Path, candidates: Iterable[Path]) -> Example:
    images = tuple(ImageInput(path.name, path) for path in candidates)
    return Example(name, instruction.strip(), ImageInput(f"{name}/{source.name}", source), images)


def _read_table(
    source: RowSource,
    settings: Settings,
    columns: Columns,
    progress: Callable[[str, int, int], None] | None,
    name: str,
) -> Dataset:
    rows = open_rows(source, settings, progress=progress)
    at = columns.found(rows.columns)
    missing = [what for what in ("source", "instruction", "candidates") if what not in at]
    if missing:
        raise DataError(
            f"{name} has no column for {' and '.join(missing)}. Its columns: {', '.join(rows.columns)}.",
            next_step=f"Name them, as in --column {missing[0]}=NAME.",
        )
    wrong: list[str] = []
    examples = list(_examples(rows, at, wrong))
    if wrong:
        more = f"; and {len(wrong) - _SHOWN} more" if len(wrong) > _SHOWN else ""
        raise DataError(f"{name}: {'; '.join(wrong[:_SHOWN])}{more}.", next_step="Correct the rows named.")
    return Dataset.of(name, examples, problems=rows.notes)


def _examples(rows: Iterable[Mapping[str, Any]], at: Mapping[str, str], wrong: list[str]) -> Iterator[Example]:
    """Make examples of rows; what cannot be one is written to the list of what is wrong."""
    for number, row in enumerate(rows, 1):
        source, instruction = row[at["source"]], row[at["instruction"]]
        given = row[at["candidates"]]
        candidates = given if isinstance(given, tuple) else (given,)
        if not isinstance(source, ImageInput):
            wrong.append(f"row {number} has no image in {at['source']}")
        elif not isinstance(instruction, str) or not instruction.strip():
            wrong.append(f"row {number} has no text in {at['instruction']}")
        elif not candidates or not all(isinstance(each, ImageInput) for each in candidates):
            wrong.append(f"row {number} has no images in {at['candidates']}")
        else:
            name = row[at["id"]] if "id" in at else None
            run = row[at["run"]] if "run" in at else None
            key = str(name) if name not in (None, "") else _made_id(number, instruction, source, candidates)
            yield Example(key, instruction.strip(), source, candidates, category="" if run is None else str(run))


def _made_id(number: int, instruction: str, source: ImageInput, candidates: Iterable[ImageInput]) -> str:
    """Name a row by its content and its place."""
    return f"row-{number}-{content_id([instruction, source.name, *(each.name for each in candidates)])[:8]}"
