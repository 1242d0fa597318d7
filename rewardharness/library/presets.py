"""Rubric presets: a file of criteria as a Library.

A preset is YAML or JSON in one of these forms, where a rubric is a mapping with `criteria`, or a list of criteria:

    {"criteria": [...]}                                    one rubric for every instruction, as in rubric.yaml
    {"best_rubrics": [{"prompt_id": ..., "rubric": ...}]}  rubrics by prompt
    {"rubrics": [...]} or {"rubrics": {prompt_id: rubric}}
    {prompt_id: rubric}

The rubric of the prompt `__default__` is for every instruction. Criteria have `text`, and may have `id` or
`criterion_id`, `weight`, `check_points`, `positive_examples` and `negative_examples`; other keys are those of
`rubric.yaml`.
"""

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rewardharness.errors import LibraryError, shown
from rewardharness.library.entry import MAX_NAME, Entry
from rewardharness.library.problems import FormatError
from rewardharness.library.rubric import MAX_BYTES, Rubric, parse_rubric
from rewardharness.library.store import Library
from rewardharness.library.triggers import instruction_trigger
from rewardharness.library.yamlsafe import print_yaml, read_yaml

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
    return next(name for name in (base, *(f"{base}-{n}" for n in range(2, 10**6))) if name not in taken)
