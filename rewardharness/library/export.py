"""Exports the Skills of a Library for coding agents: one folder per Skill, with a plain `SKILL.md`."""

import re
from pathlib import Path

from rewardharness.errors import LibraryError, shown
from rewardharness.files import write_text
from rewardharness.library.entry import ENTRY_FILE, SCHEMA, Entry, name_problem
from rewardharness.library.problems import FormatError
from rewardharness.library.reader import MAX_TOTAL, Folder
from rewardharness.library.store import Library
from rewardharness.library.yamlsafe import print_yaml, read_yaml

SOURCE = "rewardharness"
"""Value of `metadata.source` in exported files. Only files with this value are overwritten."""


def export_skills(library: Library, folder: Path) -> tuple[Path, ...]:
    """Write every Skill to `<folder>/<name>/SKILL.md`, using only standard keys.

    The criteria of a rubric become a section of the text. Names are converted to lowercase words with hyphens.

    Args:
        library: The Library to export.
        folder: The skills folder of the agent. Existing files are kept.

    Raises:
        LibraryError: If a name is invalid, or a folder of that name contains a Skill from another source. Nothing is
            written in that case.

    Returns:
        The written files.
    """
    texts: dict[Path, str] = {}
    for entry in library.skills:
        name = re.sub(r"[^a-z0-9]+", "-", entry.name.lower()).strip("-")
        path = folder / name / ENTRY_FILE
        problem = name_problem(name) or (f"Two Skills would be named {name!r}." if path in texts else None)
        if problem:
            raise LibraryError(f"{entry.name!r} cannot be exported: {problem}", next_step="Rename the Skill.")
        _check_free(folder, name)
        texts[path] = _skill(entry, name, library)
    for path, text in texts.items():
        write_text(path, text)
    return tuple(texts)


def _skill(entry: Entry, name: str, library: Library) -> str:
    front = {
        "name": name,
        "description": entry.description,
        "metadata": {"source": SOURCE, "schema_version": str(SCHEMA), "library_id": library.id},
    }
    body = entry.body
    if entry.rubric is not None:
        shares = entry.rubric.weights()
        lines = [
            f"- **{criterion.id}** ({shares.get(criterion.id, 0):.0%}): {' '.join(criterion.text.split())}"
            for criterion in entry.rubric.criteria
        ]
        body = "\n".join([*([body, ""] if body else []), "## Criteria and weights", "", *lines])
    return f"---\n{print_yaml(front)}---\n\n{body}\n"


def _check_free(folder: Path, name: str) -> None:
    """Check that the folder contains no Skill of this name from another source."""
    step = "Export to another folder, or rename one of the Skills."
    if (folder / name).is_symlink() or (folder / name / ENTRY_FILE).is_symlink():
        raise LibraryError(f"{folder / name} is or contains a link.", next_step=step)
    if not (folder / name / ENTRY_FILE).exists():
        return
    try:
        text = Folder(folder / name).read(ENTRY_FILE, MAX_TOTAL) or ""
        front = read_yaml(text.split("---\n", 2)[1], where=ENTRY_FILE).value if text.startswith("---\n") else {}
    except (FormatError, IndexError):
        front = {}
    meta = front.get("metadata")
    if not isinstance(meta, dict) or meta.get("source") != SOURCE:
        raise LibraryError(f"{folder / name} contains another Skill named {shown(name)!r}.", next_step=step)
