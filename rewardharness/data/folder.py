"""Read datasets from a folder with `pairs.jsonl` and `groups.jsonl`, or one CSV file, and images.

    pairs.jsonl   {"id", "source", "candidate_a", "candidate_b", "instruction", "preference": A | B | tie, "label_kind"}
    groups.jsonl  {"id", "source", "candidates": [two to four], "instruction", "best": index from 0, "label_kind"}
    *.csv         instruction, source, candidate_a, candidate_b[, candidate_c, candidate_d][, id][, preference]
                  [, label_kind][, category]; separated by commas, semicolons or tabs

`category` and `source_id` are optional in all formats, and so is `references`: the images that the instruction mentions
as image 2, image 3 and image 4, as a list, or in a CSV file as columns `reference_2`, `reference_3`, `reference_4`. In
JSON, `source` may also be a list of all of them, image 1 first. `editors` (a list), or the columns `editor_a` to
`editor_d`, name what made the candidates; no judge sees them.

A missing `id` is derived from the content, and an example without a label is unlabeled. Image paths are relative to
the folder and must stay inside it. Images are not opened here: a missing or damaged image is reported when its example
is judged. Invalid rows raise an error that lists all of them, unless the caller skips them.
"""

import os
import re
import stat
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import zip_longest
from pathlib import Path
from typing import Any

from rewardharness import files
from rewardharness.data.cells import BadRowError, settle
from rewardharness.data.source import Dataset, SkippedRow, derived_id, free_id
from rewardharness.data.tables import NO_OBJECT, best_delimiter, csv_rows, embedded_image, extension, parsed_line
from rewardharness.demo.folder import DEMO_MARKER, DEMO_UNFINISHED
from rewardharness.errors import DataError
from rewardharness.garbage import collection_paused
from rewardharness.schema import GROUPS, LABELS, PAIRS, SOURCES, TIE, Example, ImageInput

FEEDBACK_MARKER = "feedback.json"
"""File that marks a feedback folder. Lines truncated by a crash are ignored only in these."""

FEEDBACK = "feedback"
"""`label_kind` of preferences from the app. A later row with the same id replaces the earlier one; a vote without a
label withdraws it."""

_CANDIDATES = tuple(f"candidate_{letter.lower()}" for letter in LABELS)
_CSV_REQUIRED = {"instruction", "source", *_CANDIDATES[:2]}
_EDITORS = tuple(f"editor_{letter.lower()}" for letter in LABELS)
_REFERENCES = tuple(f"reference_{number}" for number in range(2, SOURCES + 1))
_LABELING = ("id", "label_kind", "category", "source_id")
"""Fields that may be numbers, as in a table."""
_CSV_COLUMNS = {*_CSV_REQUIRED, *_CANDIDATES, *_REFERENCES, *_EDITORS, *_LABELING, "preference"}
_SHOWN = 5
_DRAW_AGAIN = "Run the same `rh data demo` command again to complete it."
_CONTROL = re.compile(r"[\x00-\x1f\x7f]")
_SURROGATE = re.compile("[\ud800-\udfff]")
_ABSOLUTE = re.compile(r"/|[A-Za-z]:")
_USUAL = re.compile(r"(?:[\w-][\w.-]*/)*[\w-][\w.-]*")
"""Paths of images that need no further check: no part begins with a dot."""
_FIX_PATHS = "Move the images into the folder and use relative paths with forward slashes."


@dataclass
class BaseFolder:
    """A folder that paths must not leave. Their folders are resolved once, and a file only if it is a link."""

    root: Path
    """The folder, resolved."""
    sizes: dict[str, int] | None = None
    """Where the sizes of the files that were looked at are kept, by path; None to keep none."""
    _inside: dict[str, bool] = field(default_factory=dict)
    """Whether a folder is inside, by its path below the root."""

    def __post_init__(self) -> None:
        self._start = f"{self.root}/"

    def contains(self, name: str) -> bool:
        """Return whether a file is inside the folder, following links. The file need not exist.

        Args:
            name: Its path below the root, with forward slashes and without `..`.

        Raises:
            OSError: If links form a cycle (or `RuntimeError`).
        """
        parent = name.rpartition("/")[0]
        if parent not in self._inside:
            self._inside[parent] = self._resolves_inside(parent)
        if not self._inside[parent]:
            return False
        path = self._start + name
        try:
            status = os.lstat(path)
        except OSError:  # such as a missing file
            return True
        except ValueError:  # such as half of a surrogate pair
            return False
        if stat.S_ISLNK(status.st_mode):
            return self._resolves_inside(name)
        if self.sizes is not None and stat.S_ISREG(status.st_mode):
            self.sizes[path] = status.st_size
        return True

    def _resolves_inside(self, name: str) -> bool:
        return (self.root / name).resolve().is_relative_to(self.root)


@dataclass
class _Reading:
    """The examples and errors read so far."""

    folder: BaseFolder
    examples: dict[str, Example] = field(default_factory=dict)
    lines: dict[str, str] = field(default_factory=dict)
    errors: list[SkippedRow] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)

    def refuse(self, file: Path, line: int, error: BadRowError) -> None:
        """Record an invalid row."""
        self.errors.append(SkippedRow(f"{file.name} line {line}", str(error), len(self.examples), error.remedy))

    def add(self, file: Path, line: int, row: Mapping[str, Any]) -> None:
        """Convert one row."""
        try:
            example = row_example(row, self.folder)
            if not example.id:
                example = self._with_id(example)
            before = self.examples.get(example.id)
            if example.label_kind == FEEDBACK and row.get("vote") and not example.preference:
                self.examples.pop(example.id, None)
                return
            if before is not None and not before.label_kind == example.label_kind == FEEDBACK:
                raise BadRowError(f"the id {example.id!r} occurs twice, first in {self.lines[example.id]}")
        except BadRowError as error:
            self.refuse(file, line, error)
            return
        self.examples[example.id] = example
        self.lines[example.id] = f"{file.name} line {line}"

    def _with_id(self, example: Example) -> Example:
        """Derive the id of a row from its content, so that it does not depend on other rows."""
        content = [example.instruction, *(image.name for image in example.images)]
        return replace(example, id=free_id(derived_id(content), self.examples, "-"))


@collection_paused()
def read_folder(path: Path, *, skip_bad_rows: bool = False) -> Dataset:
    """Read a dataset from a folder.

    Args:
        path: A folder with `pairs.jsonl` and/or `groups.jsonl`, or with one CSV file (see the module).
        skip_bad_rows: Skip invalid rows (see `Dataset.skipped`).

    Returns:
        The dataset, named after the folder.

    Raises:
        DataError: If there is no dataset, or rows are invalid; states file, line and next step.
    """
    if not path.is_dir():
        problem = "is a file, not a dataset folder" if path.exists() else "does not exist"
        raise DataError(f"{path} {problem}.", next_step="Choose the folder of a dataset.")
    if (path / DEMO_UNFINISHED).is_file():
        raise DataError(f"{path} contains an incomplete demo dataset.", next_step=_DRAW_AGAIN)
    sizes: dict[str, int] = {}
    reading = _Reading(BaseFolder(path.resolve(), sizes))
    names = [name for name in os.listdir(path) if name.lower().endswith((".csv", ".tsv"))]
    tables = sorted(table for table in map(path.joinpath, names) if table.suffix and table.is_file())
    lines = [jsonl_file for jsonl_file in (path / PAIRS, path / GROUPS) if jsonl_file.is_file()]
    if lines:
        tolerant = (path / FEEDBACK_MARKER).is_file()
        for file in lines:
            _read_lines(file, reading, tolerant)
        reading.problems += [f"{table.name} was ignored because {lines[0].name} exists." for table in tables]
    elif len(tables) == 1:
        _read_table(tables[0], reading)
    else:
        raise _no_dataset(path, tables)
    skipped = settle("", reading.errors, usable=len(reading.examples), skip=skip_bad_rows)
    if not reading.examples:
        raise DataError(f"{path} has no examples.", next_step="Add at least one row.")
    name, examples = path.resolve().name, reading.examples.values()
    return Dataset.of(name, examples, problems=reading.problems, skipped=skipped, sizes=sizes)


def _no_dataset(path: Path, tables: list[Path]) -> DataError:
    if tables:
        names = ", ".join(table.name for table in tables[:_SHOWN])
        return DataError(f"{path} contains several tables: {names}.", next_step="Keep one of them in the folder.")
    if (path / FEEDBACK_MARKER).is_file():
        return DataError(f"{path} has no feedback yet.", next_step="Give feedback in the app first.")
    if (path / DEMO_MARKER).is_file():
        return DataError(f"{path} contains an incomplete demo dataset.", next_step=_DRAW_AGAIN)
    step = "Add a CSV file with the columns instruction, source, candidate_a, candidate_b and preference."
    return DataError(f"{path} has no {PAIRS}, {GROUPS} or CSV file.", next_step=step)


def _read_lines(file: Path, reading: _Reading, tolerant: bool) -> None:
    torn = 0
    for number, line in enumerate(files.read_text(file).split("\n"), 1):
        if not line.strip():
            continue
        row = parsed_line(line)
        if isinstance(row, dict):
            reading.add(file, number, row)
        elif tolerant and row != NO_OBJECT:
            torn += 1
        else:
            reading.refuse(file, number, BadRowError(row))
    if torn:
        reading.problems.append(f"{file.name}: ignored {torn} line{'s' * (torn > 1)} truncated by a crash.")


def _read_table(file: Path, reading: _Reading) -> None:
    text = files.read_text(file)
    if not text.strip():
        raise DataError(f"{file} is empty.", next_step="Write a header and at least one row.")
    # `csv.Sniffer` considers the whole text and is misled by instructions with commas.
    delimiter = best_delimiter(text, lambda header: len(_CSV_COLUMNS & {name.strip().lower() for name in header}))
    rows = csv_rows(file, text, delimiter)
    header = [name.strip().lower() for name in next(rows, (0, []))[1]]
    if absent := sorted(_CSV_REQUIRED - set(header)):
        step = (
            "Use the header instruction, source, candidate_a, candidate_b, preference, or map the columns with options "
            "such as --field source=COLUMN."
        )
        raise DataError(f"{file} line 1 has no column {', '.join(absent)}.", next_step=step)
    if twice := [name for name, count in Counter(header).items() if count > 1 and name in _CSV_COLUMNS]:
        raise DataError(f"{file} line 1 has the column {twice[0]} twice.", next_step="Keep one of them.")
    if unused := [name for name in header if name not in _CSV_COLUMNS]:
        reading.problems.append(f"{file.name}: unused columns: {', '.join(map(repr, unused))}.")
    for number, cells in rows:
        if len(cells) > len(header):
            problem = f"{len(cells)} cells, but the header has {len(header)} (is an instruction not quoted?)"
            reading.refuse(file, number, BadRowError(problem))
            continue
        reading.add(file, number, dict(zip(header, cells, strict=False)))


def row_example(row: Mapping[str, Any], folder: BaseFolder) -> Example:
    """Convert one row of `pairs.jsonl` or `groups.jsonl`; its id is empty if the row has none.

    Raises:
        BadRowError: If the row is invalid.
    """
    instruction = _string(row, "instruction")
    if not instruction.strip():
        raise BadRowError("the instruction is empty")
    names = _candidate_names(row)
    source, references = _source_names(row)
    named = row["editors"] if isinstance(row.get("editors"), list) else [row.get(column) for column in _EDITORS]
    editors = [_string({"editors": editor}, "editors").strip() for editor in named[: len(names)]]
    labeled = zip_longest(names, LABELS[: len(names)], editors, fillvalue="")
    about: dict[str, Any] = {name: _string(row, name).strip() for name in _LABELING}
    return Example(
        source=_image(source, "source", folder),
        instruction=instruction.strip(),
        candidates=tuple(_image(name, f"candidate {label}", folder, editor) for name, label, editor in labeled),
        preference=_preference(row, len(names)) if row.get("best") is None else _best(row["best"], len(names)),
        references=tuple(_image(name, f"image {number}", folder) for number, name in enumerate(references, 2)),
        **about,
    )


def _source_names(row: Mapping[str, Any]) -> tuple[str, list[str]]:
    """Return the source image and the references."""
    source, *further = _names(row, "source") if isinstance(row.get("source"), list) else [_string(row, "source")]
    if row.get("references") is not None:
        further += _names(row, "references")
    if not row.keys().isdisjoint(_REFERENCES):
        further += _filled(row, _REFERENCES, "reference")
    if len(further) >= SOURCES:
        raise BadRowError(f"{len(further) + 1} source and reference images; at most {SOURCES} are possible")
    return source, further


def _filled(row: Mapping[str, Any], columns: tuple[str, ...], what: str) -> list[str]:
    """Return the cells of columns for one image each, of which the last ones may be empty."""
    cells = [_string(row, column) for column in columns]
    filled = [place for place, cell in enumerate(cells) if cell.strip()]
    if filled != list(range(len(filled))):
        raise BadRowError(f"{columns[filled[-1]]} is set, but an earlier {what} is empty")
    return cells[: len(filled)]


def _names(row: Mapping[str, Any], key: str) -> list[str]:
    names = row[key]
    named = isinstance(names, list) and all(isinstance(name, str) for name in names)
    if not named or (key == "source" and not names):
        raise BadRowError(f"`{key}` is not a list of file names")
    return list(names)


def _candidate_names(row: Mapping[str, Any]) -> list[str]:
    if "candidate_e" in row and "candidates" not in row:
        raise BadRowError("more than 4 candidates")
    names = _names(row, "candidates") if "candidates" in row else _filled(row, _CANDIDATES, "candidate")
    if not 2 <= len(names) <= len(LABELS):
        raise BadRowError(f"{len(names)} candidate{'s' * (len(names) != 1)}; 2 to {len(LABELS)} are required")
    return names


def _preference(row: Mapping[str, Any], count: int) -> str | None:
    stated = _string(row, "preference").strip()
    allowed = [*LABELS[:count], *([TIE] if count == 2 else [])]
    named = {name.casefold(): name for name in allowed}.get(stated.casefold())
    if stated and named is None:
        raise BadRowError(f"the preference {stated[:40]!r} is not one of {', '.join(allowed)}")
    return named


def _best(best: object, count: int) -> str:
    if isinstance(best, bool) or not isinstance(best, int) or not 0 <= best < count:
        raise BadRowError(f"`best` is {str(best)[:40]!r}, not an index from 0 to {count - 1}")
    return LABELS[best]


def _string(row: Mapping[str, Any], key: str) -> str:
    """Return a text of the row, empty if absent."""
    value = row.get(key)
    if value is None:
        return ""
    if key in _LABELING and isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    if not isinstance(value, str):
        raise BadRowError(f"`{key}` is not a text")
    if not value.isascii() and _SURROGATE.search(value):
        raise BadRowError(f"`{key}` contains an unpaired surrogate")
    return value


def _image(name: str, role: str, folder: BaseFolder, editor: str = "") -> ImageInput:
    """Return an image after checking that its path stays inside the folder, following symbolic links."""
    if data := embedded_image(name):
        return ImageInput(f"{files.sha256(data)[:16]}.{extension(data)}", data=data, editor=editor)
    name = name.strip()
    if not _USUAL.fullmatch(name):
        _check_name(name, role)
    try:
        problem = "" if folder.contains(name) else "is a link to a file outside the folder"
    except (OSError, RuntimeError):
        problem = "cannot be resolved"
    if problem:
        raise BadRowError(f"the {role} {name[:80]!r} {problem}", _FIX_PATHS)
    return ImageInput(name=name, path=folder.root / name, editor=editor)


def _check_name(name: str, role: str) -> None:
    if not name:
        raise BadRowError(f"the {role} is empty")
    if _CONTROL.search(name):
        raise BadRowError(f"the {role} {name[:80]!r} contains a control character")
    if _ABSOLUTE.match(name) or "\\" in name:
        raise BadRowError(f"the {role} {name[:80]!r} is not a relative path with forward slashes", _FIX_PATHS)
    if ".." in name.split("/"):
        raise BadRowError(f"the {role} {name[:80]!r} is outside the folder", _FIX_PATHS)
