"""Opens the Library that a user specifies, rubric presets too. All callers go through `open_library`."""

import itertools
import json
import logging
import re
from collections.abc import Collection, Iterable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import replace
from importlib.resources import as_file, files
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from rewardharness.errors import LibraryError, shown
from rewardharness.files import recover_folder, user_path
from rewardharness.library.entry import MAX_NAME, Entry
from rewardharness.library.problems import FormatError, Problem
from rewardharness.library.rubric import MAX_BYTES, Rubric, parse_rubric
from rewardharness.library.store import EMPTY, Library, ReplaceEntry
from rewardharness.library.triggers import instruction_trigger
from rewardharness.library.yamlsafe import print_yaml, read_yaml

BUILTIN = "builtin"
"""Name of the Library that is included in the package."""
INCLUDED = {BUILTIN: "builtin", f"{BUILTIN}:text": "builtin_text"}
"""Folders of the Libraries that are included in the package, by name: for image edits, and for text responses."""
THIN = f"{BUILTIN}:thin"
"""Name of the built-in Library without half of its criteria: evolution can find the other half again."""
THIN_TEXT = f"{BUILTIN}:thin-text"
"""Name of the same of text responses."""
THINNED = {THIN: BUILTIN, THIN_TEXT: f"{BUILTIN}:text"}
"""The whole Library of each thin one, by name."""
UNCOUNTED = frozenset({"turned_image"})
"""Measures whose criteria a thin Library keeps: what was added to the built-in ones later does not shift the half."""
EMPTY_SPEC = "empty"
"""Name of the Library without entries."""

_log = logging.getLogger(__name__)


def open_library(spec: str | Path | Library, instructions: Mapping[str, str] | None = None) -> Library:
    """Open a Library.

    Args:
        spec: A Library, which is returned unchanged; `builtin` for the Library that is included in the package, and
            `builtin:text` for that of text responses; `builtin:thin` or `builtin:thin-text`, see `THIN`; `empty`; a
            folder; a file of rubric presets; or a Hub repository: `org/name`, or `org/name@revision` for a version,
            commit, or branch. Folders and files take precedence over repositories.
        instructions: Instruction by prompt id, for presets of single prompts.

    Raises:
        LibraryError: If the Library does not exist, cannot be reached, or is invalid.
        MissingPackageError: If the Library is on the Hub and `huggingface_hub` is not installed.
    """
    if isinstance(spec, Library):
        return spec
    if whole := THINNED.get(str(spec)):
        return without_half_of_the_criteria(open_library(whole))
    if str(spec) in INCLUDED:
        with as_file(files("rewardharness.library").joinpath(INCLUDED[str(spec)])) as folder:
            return Library.load(folder)
    path = user_path(spec)
    if str(spec) == EMPTY_SPEC and not path.exists():
        return EMPTY
    if path.is_file() and path.suffix.lower() in SUFFIXES:
        return read_presets(path, instructions)
    recover_folder(path)
    if not path.exists():
        from rewardharness.library.hub import pull_spec

        pulled = pull_spec(str(spec))
        if pulled is not None:
            for note in pulled.notes:
                _log.warning("%s", note)
            _log.info("%s is commit %s, version %s", pulled.repo, pulled.commit, pulled.version or "none")
            return replace(pulled.library, origin=(pulled.repo, pulled.commit))
    return Library.load(path)


def check_library(
    spec: str, known_measures: Collection[str] | None = None, instructions: Iterable[str] = ()
) -> tuple[Problem, ...]:
    """Check a Library.

    Args:
        spec: See `open_library`.
        known_measures: See `check_folder`.
        instructions: See `check_folder`.

    Raises:
        LibraryError: If the Library is on the Hub and cannot be reached, or is invalid.
        MissingPackageError: If the Library is on the Hub and `huggingface_hub` is not installed.
    """
    from rewardharness.library.check import check_folder
    from rewardharness.library.hub import pull_spec

    path = user_path(spec)
    with ExitStack() as stack:
        if spec in INCLUDED:
            path = stack.enter_context(as_file(files("rewardharness.library").joinpath(INCLUDED[spec])))
        elif not path.exists():
            copy = Path(stack.enter_context(TemporaryDirectory(prefix="rh-check-"))) / "library"
            if spec in THINNED:
                open_library(spec).save(copy)
            path = copy if spec in THINNED or pull_spec(spec, to=copy) else path
        return check_folder(path, known_measures, instructions)


def without_half_of_the_criteria(library: Library) -> Library:
    """Return a copy of the Library without every second measured criterion, counted across Skills by name.

    A Skill whose remaining criteria have no weight keeps its text and loses its rubric.
    """
    count = 0
    for entry in library.skills:
        kept = []
        for criterion in entry.rubric.criteria if entry.rubric else ():
            counted = criterion.measure is not None and criterion.measure not in UNCOUNTED
            count += counted
            kept += [criterion] if not counted or count % 2 else []
        if entry.rubric is not None and len(kept) < len(entry.rubric.criteria):
            weighted = any(criterion.weight > 0 for criterion in kept)
            smaller = replace(entry.rubric, criteria=tuple(kept)) if weighted else None
            library = library.apply(ReplaceEntry(replace(entry, rubric=smaller)))
    return library


DEFAULT = "__default__"
"""Prompt id of the rubric for every instruction."""
SUFFIXES = frozenset({".json", ".yaml", ".yml"})
"""Suffixes of preset files."""

_MAX_FILE = 64 * MAX_BYTES
_LISTS = {"check_points": "Check", "positive_examples": "Good", "negative_examples": "Bad"}


def read_presets(path: Path, instructions: Mapping[str, str] | None = None) -> Library:
    """Read a preset file as a Library with one Skill per rubric.

    Args:
        path: The file.
        instructions: Instruction by prompt id. A rubric of one prompt is consulted for its instruction only.

    Raises:
        LibraryError: If the file is invalid, or has rubrics of prompts whose instructions are unknown.
    """
    entries, unknown = [], []
    for prompt, value in _rubrics(_document(path), path):
        rubric = _rubric(value, f"{path.name}, rubric of {shown(prompt, 40)}")
        if prompt == DEFAULT:
            entries.append(_skill("preset", "Criteria for every edit.", "always", rubric))
        elif (instruction := (instructions or {}).get(prompt)) is None:
            unknown.append(prompt)
        else:
            about = f"Criteria for the instruction: {shown(instruction, 200)}"
            trigger, name = str(instruction_trigger(instruction)), _name(prompt, {entry.name for entry in entries})
            entries.append(_skill(name, about, trigger, rubric))
    if unknown and (instructions is None or not entries):
        message = f"{path.name} has a rubric of the prompt {shown(unknown[0], 40)!r}, whose instruction is unknown."
        step = f"Use it with data that have this id: rh evolve --data DATA. Or name the rubric {DEFAULT!r}."
        raise LibraryError(message, next_step=step)
    return Library(tuple(entries))


def _document(path: Path) -> Any:
    if path.stat().st_size > _MAX_FILE:
        raise LibraryError(f"{path.name} is larger than {_MAX_FILE} bytes.", next_step="Give a smaller file.")
    try:
        text = path.read_text(encoding="utf-8-sig")
        return json.loads(text) if path.suffix == ".json" else dict(read_yaml(text, where=path.name).value)
    except FormatError:
        raise
    except (OSError, ValueError, RecursionError) as error:
        raise LibraryError(f"{path.name} cannot be read: {error}.", next_step="Give a YAML or JSON file.") from None


def _rubrics(document: Any, path: Path) -> Iterator[tuple[str, Any]]:
    """Find the rubrics of a file, with their prompt ids."""
    step = "See `Rubric presets` in docs/reference/library.md."
    if not isinstance(document, dict):
        raise LibraryError(f"{path.name} is not a mapping.", next_step=step)
    if "criteria" in document:
        yield DEFAULT, document
        return
    rubrics = document.get("best_rubrics", document.get("rubrics", document))
    if isinstance(rubrics, list):
        rows = [row for row in rubrics if isinstance(row, dict) and isinstance(row.get("prompt_id"), str)]
        pairs = {row["prompt_id"]: row.get("rubric", row) for row in rows}
        if len(pairs) < len(rubrics):
            message = f"{path.name} has {len(rubrics)} rubrics and {len(pairs)} different prompt ids."
            raise LibraryError(message, next_step="Give each rubric a `prompt_id` of its own.")
        rubrics = pairs
    if not rubrics or not isinstance(rubrics, dict):
        raise LibraryError(f"{path.name} has no rubrics.", next_step=step)
    yield from rubrics.items()


def _rubric(value: Any, where: str) -> Rubric:
    rows = value.get("criteria") if isinstance(value, dict) else value
    criteria = [_row(row, number) for number, row in enumerate(rows, 1)] if isinstance(rows, list) else rows
    return parse_rubric(print_yaml({"criteria": criteria}), where=where)


def _row(row: Any, number: int) -> Any:
    """Return a criterion with the keys of `rubric.yaml`."""
    if not isinstance(row, dict):
        return row
    criterion = dict(row)
    name = str(criterion.pop("criterion_id", criterion.get("id", f"criterion-{number}")))
    criterion["id"] = re.sub(r"[^A-Za-z0-9_.-]+", "-", name).strip("-_.")[:MAX_NAME] or f"criterion-{number}"
    parts = [str(criterion.get("text") or "").strip()]
    for key, title in _LISTS.items():
        items = criterion.pop(key, None)
        if isinstance(items, list) and items:
            parts.append(f"{title}: {'; '.join(map(str, items))}.")
    criterion.pop("criterion_type", None)
    return {**criterion, "text": " ".join(filter(None, parts))}


def _skill(name: str, description: str, triggers: str, rubric: Rubric) -> Entry:
    body = "\n".join(f"- {criterion.text}" for criterion in rubric.criteria)
    return Entry(name, "skill", description, body, {"triggers": triggers, "task": "any"}, rubric=rubric)


def _name(prompt: str, taken: set[str]) -> str:
    base = re.sub(r"[^a-z0-9]+", "-", prompt.lower()).strip("-")[: MAX_NAME - 12] or "prompt"
    base = f"preset-{base}"
    numbered = (f"{base}-{number}" for number in itertools.count(2))
    return next(name for name in itertools.chain([base], numbered) if name not in taken)
