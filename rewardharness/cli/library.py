"""`rh library`: create, show, check and compare Libraries."""

import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from cyclopts import Parameter
from cyclopts.validators import Number

from rewardharness.cli import output
from rewardharness.cli.command import make_app
from rewardharness.cli.hub import measured_facts
from rewardharness.errors import InputError
from rewardharness.settings import Settings

if TYPE_CHECKING:
    from rewardharness.library.entry import Entry
    from rewardharness.library.gallery import ListedLibrary
    from rewardharness.library.store import Library

WIDTH = 100
"""Width of a description in a table, in characters."""

app = make_app(
    "library",
    "Create, show, check and compare Libraries. A LIBRARY is a folder, `builtin`, or ORG/NAME[@REVISION] on the Hub.",
)


@app.command
def show(
    library: str | None = None,
    /,
    *,
    entry: str | None = None,
    for_: Annotated[str | None, Parameter(name="--for")] = None,
    json: bool = False,
) -> int:
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
        found = opened.get(entry)
        if found is None:
            raise InputError(f"The Library has no entry {entry!r}.", next_step="List them with: rh library show")
        _show_entry(found, json)
        return 0
    reasons = _reasons(opened, for_) if for_ else None
    if json:
        output.emit({"id": opened.id, "entries": [_entry_json(each, reasons) for each in opened.entries]})
        return 0
    shown = [each for each in opened.entries if reasons is None or each.name in reasons]
    headings = ("kind", "name", "why" if reasons is not None else "applies to", "description")
    rows = [
        (each.kind, each.name, (reasons or {}).get(each.name) or _when(each), output.shorten(each.description, WIDTH))
        for each in shown
    ]
    output.table(headings, rows)
    output.say(f"{entry_counts(opened)}. Library id {opened.id}")
    return 0


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

    from rewardharness.data.opening import open_data
    from rewardharness.library.opening import check_library
    from rewardharness.measure.table import MEASURES

    examples = open_data(data, Settings.from_env()).examples if data else ()
    problems = check_library(library, MEASURES, [example.instruction for example in examples])
    counts = Counter(problem.severity for problem in problems)
    bad = counts["error"] > 0 or (strict and counts["warning"] > 0)
    if json:
        rows = [
            {"severity": p.severity, "where": p.where, "line": p.line, "message": p.message, "remedy": p.remedy}
            for p in problems
        ]
        output.emit({"ok": not bad, "problems": rows})
        return 1 if bad else 0
    for problem in problems:
        output.say(str(problem))
    summary = ", ".join(output.count(counts[severity], severity) for severity in ("error", "warning", "note"))
    output.say(f"{library}: {summary}." if problems else f"{library}: no errors or warnings.")
    return 1 if bad else 0


@app.command
def diff(before: str, after: str, /, *, json: bool = False) -> int:
    """Show the changes from one Library to another.

    Example: `rh library diff builtin my-library`

    Args:
        before: A Library.
        after: A Library.
        json: Print one JSON object.
    """
    from rewardharness.library.diff import diff_libraries
    from rewardharness.library.opening import open_library

    found = diff_libraries(open_library(before), open_library(after))
    if json:
        output.emit(found.to_json())
        return 0
    if found.is_empty:
        output.say("The Libraries are equal.")
    for sign, entries in (("+", found.added), ("-", found.removed)):
        for entry in entries:
            output.say(f"{sign} {entry.kind} {entry.name}: {entry.description}")
    for each in found.changed:
        output.say(f"~ {each.after.kind} {each.name}")
        for line in (*each.notes, *each.document.splitlines(), *each.rubric.splitlines()):
            output.say(f"    {line}")
    return 0


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
) -> int:
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
        triggers: When the new entry applies: words, phrases, /regular expressions/.
        measure: Measure of the new Tool (default: the Tool is a prompt).
    """
    from rewardharness.library.new import new_entry, new_library
    from rewardharness.library.opening import open_library
    from rewardharness.library.store import EMPTY, Library
    from rewardharness.library.thin import without_every_second_criterion

    kind: Literal["skill", "tool"] = "tool" if tool else "skill"
    added = tool or skill
    if not added:
        start = open_library(copy) if copy else EMPTY
        start = without_every_second_criterion(start) if thin else start
        # A folder is often called `my_library`; the name of a Library has hyphens.
        library = new_library(folder, name or folder.resolve().name.lower().replace("_", "-"), start)
        output.say(f"Created {folder}, a Library with {output.count(len(library), 'entry')}.")
        output.say(f"Next: rh library new {folder} --skill NAME --description TEXT")
        return 0
    if not description:
        raise InputError(f"The new entry {added!r} needs a description.", next_step="Add --description TEXT.")
    library = new_entry(Library.load(folder), kind, added, description=description, triggers=triggers, measure=measure)
    library.save(folder)
    entry = library.get(added)
    assert entry is not None
    output.say(f"Added the {kind} {added}. Edit {folder / entry.path}")
    output.say(f"Next: rh library check {folder}")
    return 0


@app.command
def search(
    query: str = "",
    /,
    *,
    author: str = "",
    sort: Literal["updated", "likes", "downloads"] = "updated",
    limit: Annotated[int, Parameter(validator=Number(gte=1, lte=100))] = 20,
    json: bool = False,
) -> int:
    """Search Libraries on the Hub. Results are those that their cards claim.

    Example: `rh library search lighting --sort likes`

    Args:
        query: Text in the name.
        author: User or organization.
        sort: Order of the list.
        limit: Maximum number of Libraries.
        json: Print one JSON object.
    """
    from rewardharness.codec import to_json
    from rewardharness.library.gallery import search_libraries
    from rewardharness.library.hub import usual_access

    order: Any = {"updated": "last_modified"}.get(sort, sort)
    access = usual_access(Settings.from_env())
    found = search_libraries(query, author=author, order=order, limit=limit, access=access)
    if json:
        rows = [{**to_json(each), "updated": each.updated and each.updated.isoformat()} for each in found]
        output.emit({"query": query, "libraries": rows})
    elif not found:
        output.say("No Library was found. Publish one: rh push-library FOLDER --repo ORG/NAME")
    else:
        head = ("library", "accuracy (claimed)", "worst exploit", "likes", "updated", "license")
        output.table(head, [_listed(each) for each in found])
        output.say(f"Next: rh library show {found[0].spec}")
    return 0


def _listed(each: "ListedLibrary") -> tuple[str, ...]:
    result, claimed = each.result, "-"
    if result is not None:
        interval = f" [{result.low:.2f}, {result.high:.2f}]" if result.low is not None else ""
        claimed = f"{result.accuracy:.2f}{interval}, n {result.n}{', evolved on it' if result.evolved_on else ''}"
    reward = "-" if each.exploit_reward is None else f"{each.exploit_reward:.2f}"
    date = each.updated.strftime("%Y-%m-%d") if each.updated else "-"
    return each.spec, claimed, reward, str(each.likes), date, each.license or "-"


@app.command
def versions(repo: str, /, *, json: bool = False) -> int:
    """List the versions of a Library on the Hub, newest first.

    Example: `rh library versions me/my-library`

    Args:
        repo: Repository, as ORG/NAME.
        json: Print one JSON object.
    """
    from rewardharness.library.hub import usual_access
    from rewardharness.library.hub import versions as list_versions

    found = list_versions(repo, access=usual_access(Settings.from_env()))
    if json:
        rows = [
            {"version": each.tag, "commit": each.commit, "date": each.date and each.date.isoformat()}
            | {"message": each.message}
            for each in found
        ]
        output.emit({"repo": repo, "versions": rows})
    elif not found:
        output.say(f"{repo} has no versions yet.")
    else:
        dates = [each.date.strftime("%Y-%m-%d %H:%M") if each.date else "-" for each in found]
        cells = [(each.tag, each.commit[:12], date, each.message) for each, date in zip(found, dates, strict=True)]
        output.table(("version", "commit", "date", "message"), cells)
    return 0


@app.command
def card(folder: Path, /, *, repo: str | None = None) -> int:
    """Print the card of a Library folder as a push would write it. Works offline.

    Example: `rh library card my-library`

    Args:
        folder: Library folder.
        repo: Repository that the card is for (default: the one it was pulled from).
    """
    from rewardharness.library.card import MAX_CONFIG, CardSubject, known_facts, make_card, read_config
    from rewardharness.library.folder import Folder
    from rewardharness.library.outgoing import CONFIG_FILE, read_draft

    draft = read_draft(folder)
    config = read_config(Folder(folder).read(CONFIG_FILE, MAX_CONFIG) or "{}")
    guess = re.sub(r"[^A-Za-z0-9_.-]+", "-", folder.resolve().name).strip("-.") or "library"
    repo = repo or (draft.origin.repo if draft.origin is not None else f"your-name/{guess}")
    published = config.library_id == draft.library.id and draft.origin is not None and draft.origin.repo == repo
    if published and draft.card is not None:
        output.say(draft.card.rstrip())  # as pushed; the folder has no record of the version before
        return 0
    about = CardSubject(draft.library, repo, facts=measured_facts(folder) or known_facts(config, draft.library))
    output.say(make_card(about, draft.card or "").rstrip())
    return 0


@app.command
def export_skills(library: str, folder: Path, /) -> int:
    """Write the Skills of a Library as folders with a plain SKILL.md, for coding agents.

    Example: `rh library export-skills builtin .agents/skills`

    Args:
        library: A Library.
        folder: The agent's folder of skills.
    """
    from rewardharness.library.export import export_skills
    from rewardharness.library.opening import open_library

    written = export_skills(open_library(library), folder)
    for each in written:
        output.say(str(each.path))
    output.say(f"{output.count(len(written), 'Skill')}. Tools are not exported: they run inside the judge.")
    return 0


def entry_counts(library: "Library") -> str:
    """Return the number of Skills and Tools in words."""
    return f"{output.count(len(library.skills), 'Skill')}, {output.count(len(library.tools), 'Tool')}"


def _reasons(library: "Library", instruction: str) -> dict[str, str]:
    from rewardharness.judging.router import route

    return {each.name: each.reason for each in route(library, instruction).reasons}


def _when(entry: "Entry") -> str:
    if not entry.triggers:
        return "by its description"
    return output.shorten(", ".join(str(trigger) for trigger in entry.triggers), 60)


def _entry_json(entry: "Entry", reasons: dict[str, str] | None) -> dict[str, Any]:
    found = {**entry.canonical(), "id": entry.entry_id}
    return found if reasons is None else {**found, "consulted": reasons.get(entry.name)}


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
            (
                each.id,
                each.dimension,
                f"{each.weight:g}",
                each.measure or "-",
                ", ".join(each.applies) or "all",
                each.text,
            )
            for each in entry.rubric.criteria
        ]
        output.table(("criterion", "dimension", "weight", "measure", "edits", "text"), rows)
