"""Creates and changes Libraries and entries for their authors."""

import json
import re
from dataclasses import replace
from pathlib import Path

from rewardharness.errors import LibraryError
from rewardharness.library.card_parts import fill_template
from rewardharness.library.entry import ENTRY_FILE, FOLDERS, Kind, check_name, loadable_name_problem, parse_entry
from rewardharness.library.opening import BUILTIN, open_library
from rewardharness.library.problems import Findings
from rewardharness.library.reader import Folder, read_one
from rewardharness.library.store import EMPTY, AddEntry, Library, ReplaceEntry
from rewardharness.library.triggers import Trigger

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
        how, word = ("both", " and ") if kinds else ("neither", " nor ")
        places = word.join(f"{base}/{name}/{ENTRY_FILE}" for base in FOLDERS.values())
        step = "Write one of them: its folder has the name of the entry."
        raise LibraryError(f"{path} has {how} {places}.", next_step=step)
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
        words = [*_matching(best, f"{subject}\n{entry.body}"), *best] if _matching(best, subject) else []
        proposed = ", ".join([*dict.fromkeys(map(str, words))][:MAX_PROPOSED])
        changed = replace(entry, metadata={**entry.metadata, "triggers": proposed or "always"}, documents={})
        library = library.apply(ReplaceEntry(changed, "triggers from its words"))
    return library


def _matching(triggers: list[Trigger], text: str) -> list[Trigger]:
    return [trigger for trigger in triggers if trigger.kind == "words" and trigger.matches(text)]
