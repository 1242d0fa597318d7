"""Creates and changes Libraries and entries for their authors, and exports Skills for coding agents."""

import json
import re
from dataclasses import replace
from pathlib import Path

from rewardharness.errors import LibraryError, shown
from rewardharness.files import write_text
from rewardharness.library.card_parts import fill_template
from rewardharness.library.entry import (
    ENTRY_FILE,
    FOLDERS,
    SCHEMA,
    Entry,
    Kind,
    check_name,
    loadable_name_problem,
    name_problem,
    parse_entry,
)
from rewardharness.library.opening import BUILTIN, open_library
from rewardharness.library.problems import Findings, FormatError
from rewardharness.library.reader import MAX_TOTAL, Folder, read_one
from rewardharness.library.store import EMPTY, AddEntry, Library, ReplaceEntry
from rewardharness.library.triggers import Trigger
from rewardharness.library.yamlsafe import print_yaml, read_yaml

MAX_PROPOSED = 60
"""Maximum number of triggers of a proposal."""
_COMMON = frozenset("become between both but change have make more quality under while without".split())
"""Words that are common in guidance about any kind of edit."""


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
    check_name(name)
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
    check_name(name)
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
    entry = parse_entry(fill_template(template, values), name=name, kind=kind, where=f"{name}/{ENTRY_FILE}")
    return library.apply(AddEntry(entry, "created from a template"))


def _quoted(text: str) -> str:
    """Format text as one line of quoted YAML. A JSON string is valid YAML."""
    return json.dumps(" ".join(text.split()), ensure_ascii=False)


def register_entry(path: Path, name: str) -> Library:
    """Return the Library of a folder with an entry that was written there by hand, and that is not registered yet.

    Args:
        path: The folder of the Library.
        name: Name of the entry; its files are in `skills/NAME` or `tools/NAME`.

    Raises:
        LibraryError: If there is no such file, or it is invalid.
    """
    library, findings = Library.load(path), Findings("")
    kinds: list[Kind] = [kind for kind, base in FOLDERS.items() if (path / base / name / ENTRY_FILE).exists()]
    if len(kinds) != 1 or loadable_name_problem(name):
        quantifier, word = ("both", " and ") if kinds else ("neither", " nor ")
        places = word.join(f"{base}/{name}/{ENTRY_FILE}" for base in FOLDERS.values())
        step = "Write one of them: its folder has the name of the entry."
        raise LibraryError(f"{path} has {quantifier} {places}.", next_step=step)
    read = read_one(Folder(path), kinds[0], name, findings)
    findings.raise_first()
    assert read is not None
    return library.apply(AddEntry(read.entry))


def with_triggers(library: Library) -> Library:
    """Return a Library whose entries all have triggers; those that have some keep them. It is not saved.

    The words of instructions are those by which the built-in Library selects its Skills. An entry gets those of the
    Skill that most words of its name and description are of, the words of its own texts first; without any it always
    applies.
    """
    topics = [
        [trigger for trigger in entry.triggers if not trigger.always and trigger.text.lower() not in _COMMON]
        for entry in open_library(BUILTIN).skills
    ]
    for entry in library.entries:
        if entry.triggers:
            continue
        subject = re.sub(r"[-_]", " ", f"{entry.name}. {entry.description}")
        best = max(topics, key=lambda topic: (len(_matching(topic, subject)), -len(topic)))
        triggers = [*_matching(best, f"{subject}\n{entry.body}"), *best] if _matching(best, subject) else []
        proposed = ", ".join([*dict.fromkeys(map(str, triggers))][:MAX_PROPOSED])
        changed = replace(entry, metadata={**entry.metadata, "triggers": proposed or "always"}, documents={})
        library = library.apply(ReplaceEntry(changed, "triggers from its words"))
    return library


def _matching(triggers: list[Trigger], text: str) -> list[Trigger]:
    return [trigger for trigger in triggers if trigger.kind == "words" and trigger.matches(text)]


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
