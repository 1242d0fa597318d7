"""Makes new Libraries and entries, the latter from the templates that people may edit."""

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
    """Make a Library in a folder.

    Args:
        path: A folder that is empty or does not exist.
        name: What people call the Library: lowercase words joined by hyphens.
        start: The Library whose entries it begins with; its lineage is not taken over.

    Raises:
        LibraryError: If the name is unusable, or the folder holds something.
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
    """Add an entry made from a template. Its text is a beginning for a person to go on with.

    Args:
        library: The Library that it is added to.
        kind: `skill` or `tool`.
        name: Lowercase words joined by hyphens; free in the Library.
        description: What the entry is for and when it applies, in a sentence or two.
        triggers: When it applies; see the grammar of `metadata.triggers`. Empty: decided by the description.
        measure: For a Tool: the measure that it runs; without it the Tool is a prompt.

    Returns:
        The Library with the entry, not saved yet.

    Raises:
        LibraryError: If the name is taken or unusable, or something else does not follow the format.
    """
    _check_name(name)
    if kind == "skill" and measure is not None:
        raise LibraryError("A Skill runs no measure.", next_step="Make it a Tool, or leave the measure out.")
    template = "entry_skill.md" if kind == "skill" else "entry_tool.md" if measure is None else "entry_tool_measured.md"
    values = {
        "name": name,
        "title": name.replace("-", " ").capitalize(),
        "description": _quoted(description),
        "triggers": _quoted(triggers),
        "measure": _quoted(measure or ""),
    }
    blank = files("hub_templates").joinpath(template).read_text(encoding="utf-8")
    text = _PLACEHOLDER.sub(lambda found: values[found.group(1)], blank)
    entry = parse_entry(text, name=name, kind=kind, where=f"{name}/{ENTRY_FILE}")
    return library.apply(AddEntry(entry, "made from a template"))


def _check_name(name: str) -> None:
    problem = name_problem(name)
    if problem:
        raise LibraryError(problem, next_step="Choose a name such as `text-rendering`.")


def _quoted(text: str) -> str:
    """Write one line of text so that YAML reads it back; JSON strings are YAML."""
    return json.dumps(" ".join(text.split()), ensure_ascii=False)
