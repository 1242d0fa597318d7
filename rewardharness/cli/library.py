"""`rh library`: create, show, check and compare Libraries."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter

from rewardharness.cli import output
from rewardharness.cli.command import UsageError, make_app
from rewardharness.cli.hub import measured_facts
from rewardharness.errors import InputError, shell
from rewardharness.settings import Settings

if TYPE_CHECKING:
    from rewardharness.library.diff import LibraryDiff
    from rewardharness.library.entry import Entry
    from rewardharness.library.store import Library

WIDTH = 100
"""Width of a description in a table, in characters."""

OutputFolder = Annotated[Path | None, Parameter(name=("--output", "-o"))]

app = make_app(
    "library",
    "Create, show, check and compare Libraries. A LIBRARY is a folder, `builtin`, or ORG/NAME[@REVISION] on the Hub.",
)
app.command("rewardharness.cli.hub:search", name="search", help="Find Libraries on the Hugging Face Hub.")
app.command("rewardharness.cli.hub:versions", name="versions", help="List the versions of a Library on the Hub.")


@app.command
def show(
    library: str | None = None,
    /,
    *,
    entry: str | None = None,
    for_: Annotated[str | None, Parameter(name="--for")] = None,
    json: bool = False,
) -> None:
    """List the entries of a Library, show one of them, or show which apply to an instruction.

    Example: `rh library show builtin --for "make the car red"`

    Args:
        library: A Library (default: RH_LIBRARY, or the built-in one).
        entry: Show this entry in full.
        for_: Show the entries that apply to this instruction.
        json: Print one JSON object.
    """
    from rewardharness.library.opening import open_library

    opened = open_library(library or Settings.from_env().library)
    if entry:
        chosen = opened.get(entry)
        if chosen is None:
            raise InputError(f"The Library has no entry {entry!r}.", next_step="List them with: rh library show")
        _show_entry(chosen, json)
        return
    from rewardharness.judging.router import left_to_model, route

    routed = route(opened, for_) if for_ else None
    reasons = {reason.name: reason.reason for reason in routed.reasons} if routed else None
    if json:
        output.emit({"id": opened.id, "entries": [_entry_json(item, reasons) for item in opened.entries]})
        return
    listed = [item for item in opened.entries if reasons is None or item.name in reasons]
    rows = []
    for item in listed:
        why = (reasons or {}).get(item.name) or _when(item)
        rows.append((item.kind, item.name, why, output.shorten(item.description, WIDTH)))
    output.table(("kind", "name", "why" if reasons is not None else "applies to", "description"), rows)
    if routed:
        counts = f"{len(listed)} of {len(opened)} entries would be consulted."
        output.say(f"{counts} {left_to_model(routed, opened)}".rstrip())
    output.say(f"{entry_counts(opened)}. Library id {opened.id}")


@app.command
def check(library: str, /, *, data: str | None = None, strict: bool = False, json: bool = False) -> int:
    """Report errors and warnings of a Library, with file and line. The exit status is 1 if there are errors.

    Example: `rh library check my-library --data pairs`

    Args:
        library: A Library.
        data: Dataset whose instructions no entry may copy.
        strict: Treat warnings as errors.
        json: Print one JSON object.
    """
    from collections import Counter

    from rewardharness.codec import to_json
    from rewardharness.data.opening import open_data
    from rewardharness.library.opening import check_library
    from rewardharness.measure.table import MEASURES

    examples = open_data(data, Settings.from_env()).examples if data else ()
    problems = check_library(library, MEASURES, [example.instruction for example in examples])
    counts = Counter(problem.severity for problem in problems)
    bad = counts["error"] > 0 or (strict and counts["warning"] > 0)
    if json:
        output.emit({"ok": not bad, "problems": to_json(problems)})
        return 1 if bad else 0
    for problem in problems:
        output.say(str(problem))
    summary = ", ".join(output.count(counts[severity], severity) for severity in ("error", "warning", "note"))
    output.say(f"{library}: {summary}." if problems else f"{library}: no errors or warnings.")
    return 1 if bad else 0


@app.command
def diff(before: str, after: str, /, *, json: bool = False) -> None:
    """Show the changes from one Library to another.

    Example: `rh library diff builtin my-library`

    Args:
        before: A Library.
        after: A Library.
        json: Print one JSON object.
    """
    from rewardharness.library.diff import diff_json, diff_libraries
    from rewardharness.library.opening import open_library

    changes = diff_libraries(open_library(before), open_library(after))
    if json:
        output.emit(diff_json(changes))
        return
    if changes.is_empty:
        output.say("The Libraries are equal.")
    for sign, entry in changes.signed:
        if sign != "~":
            output.say(f"{sign} {entry.kind} {entry.name}: {entry.description}")
    _print_changes(changes)


def _print_changes(changes: "LibraryDiff") -> None:
    for change in changes.changed:
        output.say(f"~ {change.after.kind} {change.name}")
        for line in (*change.notes, *change.document.splitlines(), *change.rubric.splitlines()):
            output.say(f"    {line}")


@app.command
def triggers(library: str, /, *, write: bool = False, output_folder: OutputFolder = None, json: bool = False) -> None:
    """Propose triggers for the entries of a Library that have none, from their words, and show them as a diff.

    Example: `rh library triggers my-library --write`

    Args:
        library: A Library.
        write: Save the proposal in the folder of the Library.
        output_folder: Save the Library with the proposal in this folder.
        json: Print one JSON object.
    """
    from rewardharness.library.diff import diff_json, diff_libraries
    from rewardharness.library.new import with_triggers
    from rewardharness.library.opening import open_library

    before = open_library(library)
    after = with_triggers(before)
    target = Path(library) if write else output_folder
    if write and not Path(library).is_dir():
        raise InputError(f"{library} is not a folder that can be written.", next_step="Give --output FOLDER.")
    if target is not None:
        after.save(target)
    changes = diff_libraries(before, after)
    if json:
        output.emit({**diff_json(changes), "written": None if target is None else str(target)})
        return
    _print_changes(changes)
    if changes.is_empty:
        output.say("All entries have triggers.")
    else:
        step = f"Written to {target}." if target else "Nothing was written: check the words, then add --write or -o."
        output.say(f"{output.count(len(changes.changed), 'entry')} without triggers. {step}")


@app.command
def new(
    folder: Path,
    /,
    *,
    name: str | None = None,
    copy: str | None = None,
    thin: bool = False,
    skill: str | None = None,
    tool: str | None = None,
    description: str | None = None,
    triggers: str = "",
    measure: str | None = None,
) -> None:
    """Create a Library in a new folder, or add an entry from a template to the Library in the folder.

    Example: `rh library new my-library --skill lighting --description "Light and shadows of the edit"`

    Args:
        folder: Library folder.
        name: Name of a new Library (default: that of the folder, with hyphens).
        copy: Library whose entries a new Library starts with.
        thin: Leave out every second criterion of the copy, to try evolution.
        skill: Name of a Skill to add.
        tool: Name of a Tool to add.
        description: Purpose of the new entry, and when it applies.
        triggers: When the new entry applies: words, phrases, /regular expressions/, kind: KIND.
        measure: Measure of the new Tool (default: the Tool is a prompt).
    """
    from rewardharness.library.new import new_entry, new_library
    from rewardharness.library.opening import open_library, without_half_of_the_criteria
    from rewardharness.library.store import EMPTY, Library

    kind: Literal["skill", "tool"] = "tool" if tool else "skill"
    added = tool or skill
    if thin and (added or not copy):
        raise UsageError("--thin belongs to --copy.", next_step="Name the Library to copy, such as --copy builtin.")
    if not added:
        start = open_library(copy) if copy else EMPTY
        start = without_half_of_the_criteria(start) if thin else start
        # A folder is often called `my_library`; the name of a Library has hyphens.
        library = new_library(folder, name or folder.resolve().name.lower().replace("_", "-"), start)
        output.say(f"Created {folder}, a Library with {output.count(len(library), 'entry')}.")
        output.say(shell("Next: rh library new {} --skill NAME --description TEXT", folder))
        return
    if not description:
        raise InputError(f"The new entry {added!r} needs a description.", next_step="Add --description TEXT.")
    library = new_entry(Library.load(folder), kind, added, description=description, triggers=triggers, measure=measure)
    library.save(folder)
    entry = library.get(added)
    assert entry is not None
    output.say(f"Added the {kind} {added}. Edit {folder / entry.path}")
    output.say(shell("Next: rh library check {}", folder))


@app.command
def add(entry: Path, /) -> None:
    """Register a Skill or Tool that was written by hand.

    Example: `rh library add my-library/color-check`

    Args:
        entry: Library folder and name, as FOLDER/NAME; only NAME for the folder of RH_LIBRARY.
    """
    from rewardharness.library.new import register_entry

    folder, name = _entry_place(entry)
    library = register_entry(folder, name)
    library.save(folder)
    next_step = shell("rh library check {}", folder)
    output.say(f"Added {name} to {folder}, a Library with {entry_counts(library)}.\nNext: {next_step}")


@app.command
def remove(entry: Path, /) -> None:
    """Remove a Skill or Tool and its folder from a Library.

    Example: `rh library remove my-library/color-check`

    Args:
        entry: Library folder and name, as FOLDER/NAME; only NAME for the folder of RH_LIBRARY.
    """
    from rewardharness.library.store import Library, RemoveEntry

    folder, name = _entry_place(entry)
    library = Library.load(folder).apply(RemoveEntry(name))
    library.save(folder)
    output.say(f"Removed {name} from {folder}, a Library with {entry_counts(library)}.")


def _entry_place(spec: Path) -> tuple[Path, str]:
    """Return the Library folder and the name of an entry: FOLDER/NAME, FOLDER/skills/NAME, or NAME."""
    from rewardharness.library.entry import ENTRY_FILE, FOLDERS

    place = spec.parent if spec.name == ENTRY_FILE else spec
    folder = place.parent.parent if place.parent.name in FOLDERS.values() else place.parent
    if place.name == str(place):
        folder = Path(Settings.from_env().library)
    if not folder.is_dir():
        step = "Write FOLDER/NAME, such as my-library/color-check."
        raise InputError(f"{spec} does not name an entry in the folder of a Library.", next_step=step)
    return folder, place.name


@app.command
def card(folder: Path, /, *, repo: str | None = None) -> None:
    """Print the card of a Library folder as a push would write it. Works offline.

    Example: `rh library card my-library`

    Args:
        folder: Library folder.
        repo: Repository that the card is for (default: the one it was pulled from).
    """
    from rewardharness.library.card import CONFIG_FILE, CardSubject, known_facts, make_card, read_config
    from rewardharness.library.hub_files import read_draft

    draft = read_draft(folder)
    config = read_config(folder / CONFIG_FILE)
    guess = re.sub(r"[^A-Za-z0-9_.-]+", "-", folder.resolve().name).strip("-.") or "library"
    repo = repo or (draft.origin.repo if draft.origin is not None else f"your-name/{guess}")
    published = config.library_id == draft.library.id and draft.origin is not None and draft.origin.repo == repo
    if published and draft.card is not None:
        output.say(draft.card.rstrip())  # as pushed; the folder has no record of the version before
        return
    about = CardSubject(draft.library, repo, facts=measured_facts(folder) or known_facts(config, draft.library))
    output.say(make_card(about, draft.card or "").rstrip())


@app.command
def export_skills(library: str, folder: Path, /) -> int:
    """Write the Skills of a Library as folders with a plain SKILL.md, for coding agents.

    Example: `rh library export-skills builtin .agents/skills`

    Args:
        library: A Library.
        folder: The agent's folder of skills.
    """
    from rewardharness.library.new import export_skills
    from rewardharness.library.opening import open_library

    written = export_skills(open_library(library), folder)
    for path in written:
        output.say(str(path))
    output.say(f"{output.count(len(written), 'Skill')}. Tools are not exported: they run inside the judge.")
    return 0


def entry_counts(library: "Library") -> str:
    """Return the number of Skills and Tools in words."""
    return f"{output.count(len(library.skills), 'Skill')}, {output.count(len(library.tools), 'Tool')}"


def _when(entry: "Entry") -> str:
    if not entry.triggers:
        return "by its description (no triggers)"
    return output.shorten(", ".join(str(trigger) for trigger in entry.triggers), 60)


def _entry_json(entry: "Entry", reasons: dict[str, str] | None) -> dict[str, Any]:
    value = {**entry.canonical(), "id": entry.entry_id}
    return value if reasons is None else {**value, "consulted": reasons.get(entry.name)}


def _show_entry(entry: "Entry", as_json: bool) -> None:
    if as_json:
        output.emit(_entry_json(entry, None))
        return
    output.say(f"{entry.kind} {entry.name}\n{entry.description}\nApplies to: {_when(entry)}")
    if entry.measure:
        output.say(f"Measure: {entry.measure}")
    if entry.system_prompt:
        output.say(f"\nSystem prompt:\n{entry.system_prompt}")
    output.say(f"\n{entry.body.strip()}\n")
    if entry.rubric:
        rows = [
            (row.id, row.dimension, f"{row.weight:g}", row.measure or "-", ", ".join(row.applies) or "all", row.text)
            for row in entry.rubric.criteria
        ]
        output.table(("criterion", "dimension", "weight", "measure", "edits", "text"), rows)
