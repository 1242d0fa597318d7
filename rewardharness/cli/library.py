"""`rh library`: look at, check, compare and begin Libraries."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rewardharness.cli import hub, output
from rewardharness.errors import InputError
from rewardharness.settings import Settings

if TYPE_CHECKING:
    from rewardharness.library.entry import Entry
    from rewardharness.library.store import Library

WIDTH = 100
"""Width of a description in a table, in characters."""


def register(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add the commands to the parser."""
    parser = commands.add_parser(
        "library",
        help="look at, check, compare and begin Libraries",
        description="Look at, check, compare and begin Libraries.",
    )
    parts = parser.add_subparsers(title="commands", metavar="COMMAND", required=True)

    one = parts.add_parser("show", help="list the entries, or show one of them", description=show.__doc__)
    one.add_argument("library", nargs="?", help=f"{hub.LIBRARY} (default: the built-in Library)")
    one.add_argument("--entry", metavar="NAME", help="show this entry whole")
    one.add_argument("--for", dest="instruction", metavar="TEXT", help="show what is consulted for an instruction")
    one.add_argument("--json", action="store_true", help="print one JSON object")
    one.set_defaults(run=show)

    checked = parts.add_parser("check", help="say what is wrong or odd", description=check.__doc__)
    checked.add_argument("library", help=hub.LIBRARY)
    checked.add_argument("--data", metavar="DATA", help="examples whose instructions no entry may copy phrases of")
    checked.add_argument("--strict", action="store_true", help="warnings fail as well")
    checked.add_argument("--json", action="store_true", help="print one JSON object")
    checked.set_defaults(run=check)

    compared = parts.add_parser("diff", help="compare two Libraries", description=diff.__doc__)
    compared.add_argument("before", help=hub.LIBRARY)
    compared.add_argument("after", help=hub.LIBRARY)
    compared.add_argument("--json", action="store_true", help="print one JSON object")
    compared.set_defaults(run=diff)

    new = parts.add_parser("new", help="begin a Library, or add an entry to one", description=begin.__doc__)
    new.add_argument("folder", type=Path, help="the Library folder")
    new.add_argument("--name", help="name of a new Library (default: the folder's, with hyphens)")
    new.add_argument("--copy", metavar="LIBRARY", help="begin with the entries of this Library, such as `builtin`")
    new.add_argument(
        "--thin", action="store_true", help="leave out every second criterion of it, for `rh evolve` to find again"
    )
    new.add_argument("--skill", metavar="NAME", help="add a Skill from a template to the Library in the folder")
    new.add_argument("--tool", metavar="NAME", help="add a Tool from a template to the Library in the folder")
    new.add_argument("--description", metavar="TEXT", help="what the new entry is for and when it applies")
    new.add_argument("--triggers", metavar="TEXT", default="", help="when it applies: words, phrases, /expressions/")
    new.add_argument("--measure", metavar="NAME", help="the measure that the new Tool runs; without, it is a prompt")
    new.set_defaults(run=begin)

    hub.register_parts(parts)


def show(arguments: argparse.Namespace, settings: Settings) -> int:
    """List the entries of a Library, show one whole, or say which are consulted for an instruction."""
    from rewardharness.library.opening import open_library

    library = open_library(arguments.library or settings.library)
    if arguments.entry:
        entry = library.get(arguments.entry)
        if entry is None:
            raise InputError(
                f"There is no entry {arguments.entry!r} in this Library.", next_step="List them with: rh library show"
            )
        _show_entry(entry, arguments.json)
        return 0
    reasons = _reasons(library, arguments.instruction) if arguments.instruction else None
    if arguments.json:
        output.emit({"id": library.id, "entries": [_entry_json(each, reasons) for each in library.entries]})
        return 0
    shown = [each for each in library.entries if reasons is None or each.name in reasons]
    headings = ("kind", "name", "why" if reasons is not None else "applies to", "description")
    rows = [
        (each.kind, each.name, (reasons or {}).get(each.name) or _when(each), output.shorten(each.description, WIDTH))
        for each in shown
    ]
    output.table(headings, rows)
    output.say(f"{len(library.skills)} Skills, {len(library.tools)} Tools. Library id {library.id}")
    return 0


def check(arguments: argparse.Namespace, settings: Settings) -> int:
    """Say everything that is wrong or odd in a Library, with file and line."""
    from collections import Counter

    from rewardharness.data.opening import open_data
    from rewardharness.library.opening import check_library
    from rewardharness.measure.table import MEASURES

    examples = open_data(arguments.data, settings).examples if arguments.data else ()
    problems = check_library(arguments.library, MEASURES, [example.instruction for example in examples])
    counts = Counter(problem.severity for problem in problems)
    bad = counts["error"] > 0 or (arguments.strict and counts["warning"] > 0)
    if arguments.json:
        rows = [
            {"severity": p.severity, "where": p.where, "line": p.line, "message": p.message, "remedy": p.remedy}
            for p in problems
        ]
        output.emit({"ok": not bad, "problems": rows})
        return 1 if bad else 0
    for problem in problems:
        output.say(str(problem))
    summary = ", ".join(f"{counts[severity]} {severity}s" for severity in ("error", "warning", "note"))
    output.say(f"{arguments.library}: {summary}." if problems else f"{arguments.library}: nothing wrong, nothing odd.")
    return 1 if bad else 0


def diff(arguments: argparse.Namespace, settings: Settings) -> int:
    """Say what changed between two Libraries."""
    from rewardharness.library.diff import diff_libraries
    from rewardharness.library.opening import open_library

    found = diff_libraries(open_library(arguments.before), open_library(arguments.after))
    if arguments.json:
        output.emit(found.to_json())
        return 0
    if found.is_empty:
        output.say("The Libraries mean the same.")
    for sign, entries in (("+", found.added), ("-", found.removed)):
        for entry in entries:
            output.say(f"{sign} {entry.kind} {entry.name}: {entry.description}")
    for each in found.changed:
        output.say(f"~ {each.after.kind} {each.name}")
        for line in (*each.notes, *each.document.splitlines(), *each.rubric.splitlines()):
            output.say(f"    {line}")
    return 0


def begin(arguments: argparse.Namespace, settings: Settings) -> int:
    """Begin a Library in a new folder, or add an entry from a template to the Library in the folder."""
    from rewardharness.library.new import new_entry, new_library
    from rewardharness.library.opening import open_library
    from rewardharness.library.store import EMPTY, Library
    from rewardharness.library.thin import without_every_second_criterion

    kind: Literal["skill", "tool"] = "tool" if arguments.tool else "skill"
    name = arguments.tool or arguments.skill
    if not name:
        start = open_library(arguments.copy) if arguments.copy else EMPTY
        start = without_every_second_criterion(start) if arguments.thin else start
        # A folder is often called `my_library`; the name of a Library has hyphens.
        name = arguments.name or arguments.folder.resolve().name.lower().replace("_", "-")
        library = new_library(arguments.folder, name, start)
        output.say(f"{arguments.folder}: a Library with {len(library)} entries.")
        output.say(f"Next: rh library new {arguments.folder} --skill NAME --description TEXT")
        return 0
    if not arguments.description:
        raise InputError(
            f"The new entry {name!r} needs a description.", next_step='Say what it is for: --description "..."'
        )
    library = new_entry(
        Library.load(arguments.folder),
        kind,
        name,
        description=arguments.description,
        triggers=arguments.triggers,
        measure=arguments.measure,
    )
    library.save(arguments.folder)
    entry = library.get(name)
    assert entry is not None
    output.say(f"Added the {kind} {name}. Edit {arguments.folder / entry.path}")
    output.say(f"Next: rh library check {arguments.folder}")
    return 0


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
