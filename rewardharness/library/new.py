"""Creates Libraries and entries."""

import json
import re
from dataclasses import replace
from importlib.resources import files
from pathlib import Path

from rewardharness.errors import LibraryError
from rewardharness.library.entry import ENTRY_FILE, Kind, name_problem, parse_entry
from rewardharness.library.store import EMPTY, AddEntry, Library

_PLACEHOLDER = re.compile(r"\{\{(\w+)\}\}")


def new_library(path: Path | str, name: str, start: Library = EMPTY) -> Library:
    """Create a Library in a folder.

    Args:
        path: A folder that is empty or does not exist.
        name: Name of the Library: lowercase words joined by hyphens.
        start: Library whose entries are copied; its lineage is not.

    Raises:
        LibraryError: If the name is invalid or the folder is not empty.
    """
    path = Path(path)
    _check_name(name)
    if path.exists() and (not path.is_dir() or any(path.iterdir())):
        raise LibraryError(f"{path} is not an empty folder.", next_step="Choose an empty folder or a new one.")
    replace(start, meta={"id": name, "status": "active"}, lineage_text="").save(path)
    return Library.load(path)


def new_entry(
    library: Library, kind: Kind, name: str, *, description: str, triggers: str = "", measure: str | None = None
) -> Library:
    """Add an entry that is created from a template, to be completed by the author.

    Args:
        library: The Library to extend.
        kind: `skill` or `tool`.
        name: Lowercase words joined by hyphens; must be unused in the Library.
        description: Purpose of the entry and when it applies, in one or two sentences.
        triggers: When it applies, in the grammar of `metadata.triggers`. If empty, the description decides.
        measure: The measure that a Tool runs; None for a Skill or a prompted Tool.

    Returns:
        The Library with the entry. It is not saved.

    Raises:
        LibraryError: If the name is invalid or already used, or another value is invalid.
    """
    _check_name(name)
    if kind == "skill" and measure is not None:
        raise LibraryError("A Skill cannot run a measure.", next_step="Create a Tool, or omit the measure.")
    template = "entry_skill.md" if kind == "skill" else "entry_tool.md" if measure is None else "entry_tool_measured.md"
    values = {
        "name": name,
        "title": name.replace("-", " ").capitalize(),
        "description": _quoted(description),
        "triggers": _quoted(triggers),
        "measure": _quoted(measure or ""),
    }
    template_text = files("hub_templates").joinpath(template).read_text(encoding="utf-8")
    text = _PLACEHOLDER.sub(lambda match: values[match.group(1)], template_text)
    entry = parse_entry(text, name=name, kind=kind, where=f"{name}/{ENTRY_FILE}")
    return library.apply(AddEntry(entry, "created from a template"))


def _check_name(name: str) -> None:
    problem = name_problem(name)
    if problem:
        raise LibraryError(problem, next_step="Choose a name such as `text-rendering`.")


def _quoted(text: str) -> str:
    """Format text as one line of quoted YAML. A JSON string is valid YAML."""
    return json.dumps(" ".join(text.split()), ensure_ascii=False)
