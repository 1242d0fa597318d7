"""Formats Libraries as text and tables for the Library tab. Pure: records in, markup out.

All of a Library is foreign text. Results are markup for `gr.Markdown` (see `app.markup`), except those of
`entry_choices`, which Gradio shows as plain text.
"""

import json
from collections.abc import Sequence
from textwrap import shorten

from app.markup import (
    block,
    bullets,
    count,
    diff,
    document,
    escape,
    faint,
    folded,
    notice,
    paragraph,
    plain,
    preformatted,
    table,
)
from rewardharness.judging.router import LEXICAL_THRESHOLD, Route, left_to_model
from rewardharness.library.diff import EntryDiff, LibraryDiff
from rewardharness.library.entry import Entry
from rewardharness.library.problems import SEVERITIES, Problem
from rewardharness.library.store import Library
from rewardharness.measure.table import MEASURES

SHOWN_TRIGGERS = 3
"""Triggers that are named in the list of entries."""

SHOWN_DESCRIPTION = 120
"""Characters of a description in the list of entries."""


def summary(library: Library, place: str) -> str:
    """What a Library is, in one line."""
    skills, tools = len(library.skills), len(library.tools)
    title = escape(place[:1].upper() + place[1:])
    return block(
        f'<p><strong>{title}</strong> <span class="pill">{count(skills, "Skill")}</span> '
        f'<span class="pill">{count(tools, "Tool")}</span> '
        f'<span class="faint">id <code>{escape(library.id[:12])}</code></span></p>',
        "summary",
    )


def entry_choices(library: Library, query: str) -> list[tuple[str, str]]:
    """Entries whose name, kind, description, triggers or text contain every word of a query.

    Returns:
        For each, what the list shows (name, kind and when it applies, description; on three lines of plain text),
        and its name.
    """
    words = plain(query).casefold().split()
    found = []
    for entry in (*library.skills, *library.tools):
        triggers = ", ".join(map(str, entry.triggers))
        text = " ".join((entry.name, kind_words(entry), entry.description, triggers, entry.body)).casefold()
        if all(word in text for word in words):
            about = shorten(plain(entry.description), SHOWN_DESCRIPTION, placeholder=" …")
            label = f"{plain(entry.name)}\n{kind_words(entry)} · {_applies(entry)}\n{about}"
            found.append((label, entry.name))
    return found


def kind_words(entry: Entry) -> str:
    """What an entry is, in two words at most."""
    if entry.kind == "skill":
        return "Skill"
    return "measured Tool" if entry.measure else "prompted Tool"


def _applies(entry: Entry) -> str:
    if not entry.triggers:
        return "when a model finds it of use"
    if any(trigger.always for trigger in entry.triggers):
        return "always"
    shown = [plain(str(trigger)) for trigger in entry.triggers[:SHOWN_TRIGGERS]]
    more = len(entry.triggers) - len(shown)
    return f"on {', '.join(shown)}{f' and {more} more' if more > 0 else ''}"


def no_entry(query: str, number: int) -> str:
    """Return the placeholder while no entry is chosen."""
    if query.strip() and not number:
        return notice("empty", "No entry has these words", "Try fewer words, or empty the search.")
    return notice("empty", "Choose an entry", "Its text, rubric and triggers appear here.")


def entry_head(entry: Entry) -> str:
    """Name, kind, description and when it applies."""
    if not entry.triggers:
        when = (
            "<p>It names no triggers: a model as judge decides by its description. Without a model it applies when an "
            f"instruction shares at least {LEXICAL_THRESHOLD:.0%} of the words of its description.</p>"
        )
    elif any(trigger.always for trigger in entry.triggers):
        when = "<p>Applies to every instruction.</p>"
    else:
        when = _triggers(entry)
    return block(
        f'<h3 class="name">{escape(entry.name)} <span class="pill">{kind_words(entry)}</span></h3>'
        f"{paragraph(entry.description)}{when}"
    )


def _triggers(entry: Entry) -> str:
    words = [str(each) for each in entry.triggers if each.kind == "words"]
    patterns = [str(each) for each in entry.triggers if each.kind == "pattern"]
    tags = bullets((f"<code>{escape(each)}</code>" for each in words), "tags")
    shown = f"<p>Applies when the instruction says:</p>{tags}" if words else ""
    if not patterns:
        return shown
    rows = bullets((f"<code>{escape(each)}</code>" for each in patterns), "tags")
    begin = "or matches" if words else "Applies when the instruction matches"
    title = f"{begin} one of {count(len(patterns), 'expression')}"
    return shown + folded(title, rows)


def entry_document(entry: Entry) -> str:
    """The text of an entry, rendered."""
    if not entry.body.strip():
        return faint("This entry has no text.")
    return document(entry.body)


def entry_rubric(entry: Entry) -> str:
    """The criteria of a Skill, with their share of the whole."""
    if entry.rubric is None:
        return faint("No rubric: this entry is guidance in words alone.")
    shares = entry.rubric.weights()
    rows = [
        [
            f"<code>{escape(each.id)}</code>{paragraph(each.text)}",
            f'{each.weight:g} <span class="faint">({shares.get(each.id, 0.0):.0%})</span>',
            f"{each.scale[0]:g} to {each.scale[1]:g}",
            "instruction" if each.dimension == "instruction" else "quality",
            escape(", ".join(each.applies)) or "all",
            f"<code>{escape(each.measure)}</code>" if each.measure else "VLM only",
        ]
        for each in entry.rubric.criteria
    ]
    return block(table(["Criterion", "Weight", "Grades", "Score", "Edits", "Measured by"], rows, "rubric cards"))


def entry_tool(entry: Entry) -> str:
    """How a Tool works: the measure it runs, or the prompt and the schemas of its call."""
    parts = []
    if entry.measure is not None:
        known = MEASURES.get(entry.measure)
        about = known.description if known else "This version has no such measure, so the Tool is skipped."
        parts.append(f"<p>Runs the measure <code>{escape(entry.measure)}</code>: {escape(about)}</p>")
    if entry.system_prompt is not None:
        parts.append(f"<h4>System prompt</h4>{preformatted(entry.system_prompt, 'wrap')}")
    for title, schema in (("Is given", entry.input_schema), ("Answers", entry.output_schema)):
        if schema is not None:
            parts.append(f"<h4>{title}</h4>{preformatted(json.dumps(dict(schema), indent=2, ensure_ascii=False))}")
    return block("".join(parts) or paragraph("Skills are read by the judge; they run nothing.", "faint"))


def routed(route: Route, library: Library) -> str:
    """Which entries would be consulted for an instruction, and why."""
    left = left_to_model(route, library)
    if not route.entries:
        return notice("empty", "No entry would be consulted", left or "Try another wording.")
    rows = [
        [f"<code>{escape(each.name)}</code>", kind_words(entry), escape(each.reason)]
        for entry, each in zip(route.entries, route.reasons, strict=True)
    ]
    told = (
        f"<p>{len(rows)} of {len(library)} entries would be consulted. Each is decided on its own. {escape(left)}</p>"
    )
    return block(told + table(["Entry", "Kind", "Why"], rows))


ROUTING_HINT = notice("empty", "Type an instruction", "The entries that would be consulted appear here.")
"""The placeholder while there is no instruction."""

CHECK_HINT = faint("Checks for format errors, problems that affect judging, and remarks. Nothing is executed.")
"""What the check looks at."""


def problems(found: Sequence[Problem]) -> str:
    """What the check of a Library found, gravest first."""
    if not found:
        return notice("note good", "Nothing to complain about", "The Library follows the format.")
    rows = [
        [
            f'<span class="pill {each.severity}">{each.severity}</span>',
            f"<code>{escape(each.place)}</code>",
            escape(each.message),
            escape(each.remedy),
        ]
        for each in sorted(found, key=lambda each: (SEVERITIES.index(each.severity), each.where, each.line or 0))
    ]
    counts = [
        count(number, name) for name in SEVERITIES if (number := sum(each.severity == name for each in found)) > 0
    ]
    return block(f"<p>{', '.join(counts)}.</p>" + table(["", "Where", "What", "What to do"], rows, "problems cards"))


def differences(found: LibraryDiff, before: str = "", after: str = "") -> str:
    """What changed from a Library to another.

    Args:
        found: The changes.
        before: What to call the old one; empty where it goes without saying.
        after: What to call the new one.
    """
    if found.is_empty:
        return notice("note good", "No difference", "Both hold the same entries.")
    parts = [
        f"<p>From <strong>{escape(before)}</strong> to <strong>{escape(after)}</strong>:</p>" if before else "",
        f"<p>{len(found.added)} added, {len(found.removed)} removed, {len(found.changed)} changed.</p>",
        *(_named(title, entries) for title, entries in (("Added", found.added), ("Removed", found.removed)) if entries),
        *(_changed(each) for each in found.changed),
    ]
    return block("".join(parts))


def _named(title: str, entries: Sequence[Entry]) -> str:
    rows = (f"<code>{escape(each.name)}</code> {kind_words(each)}: {escape(each.description)}" for each in entries)
    return f"<h4>{title}</h4>{bullets(rows)}"


def _changed(found: EntryDiff) -> str:
    files = "".join(diff(text) for text in (found.document, found.rubric) if text)
    return (
        f'<section class="step"><h4>Changed: <code>{escape(found.name)}</code></h4>'
        f"{bullets(map(escape, found.notes))}{folded('Line by line', files)}</section>"
    )
