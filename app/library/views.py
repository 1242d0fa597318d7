"""Formats Libraries as text and tables for the Library tab. Pure: records in, markup out.

All of a Library is foreign text. Results are markup for `gr.Markdown` (see `app.markup`), except those of
`entry_choices`, which Gradio shows as plain text.
"""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from textwrap import shorten

from app import markup as m
from app.failures import in_browser
from rewardharness.evolution.held_out import HeldOutComparison, Score
from rewardharness.judging.router import LEXICAL_THRESHOLD, Route, left_to_model
from rewardharness.library.diff import LibraryDiff
from rewardharness.library.entry import Entry
from rewardharness.library.problems import SEVERITIES, Problem
from rewardharness.library.store import Library
from rewardharness.measure.table import MEASURES
from rewardharness.schema import Example

SHOWN_TRIGGERS = 3
"""Triggers that are named in the list of entries."""

LEVEL = 0.05
"""P-value below which an edit counts as better or worse."""

LEAST_CHANGED = 6
"""Smallest number of changed judgments that can give a p-value below `LEVEL`."""

SHOWN_DESCRIPTION = 120
"""Characters of a description in the list of entries."""


def summary(library: Library, place: str) -> str:
    """What a Library is, in one line."""
    skills, tools = len(library.skills), len(library.tools)
    title = m.escape(place[:1].upper() + place[1:])
    return m.block(
        f'<p><strong>{title}</strong> <span class="pill">{m.count(skills, "Skill")}</span> '
        f'<span class="pill">{m.count(tools, "Tool")}</span> '
        f'<span class="faint">id {m.code(library.id[:12])}</span></p>',
        "summary",
    )


def entry_choices(library: Library, query: str) -> list[tuple[str, str]]:
    """Entries whose name, kind, description, triggers or text contain every word of a query.

    Returns:
        For each, what the list shows (name, kind and when it applies, description; on three lines of plain text),
        and its name.
    """
    choices = []
    for entry in (*library.skills, *library.tools):
        text = " ".join((entry.name, kind_words(entry), entry.description, *map(str, entry.triggers), entry.body))
        if all(word in text.casefold() for word in m.plain(query).casefold().split()):
            about = shorten(m.plain(entry.description), SHOWN_DESCRIPTION, placeholder=" …")
            choices.append((f"{m.plain(entry.name)}\n{kind_words(entry)} · {_applies(entry)}\n{about}", entry.name))
    return choices


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
    triggers = [m.plain(str(trigger)) for trigger in entry.triggers[:SHOWN_TRIGGERS]]
    more = len(entry.triggers) - len(triggers)
    return f"on {', '.join(triggers)}{f' and {more} more' if more > 0 else ''}"


def no_entry(query: str, number: int) -> str:
    """Return the placeholder while no entry is chosen."""
    if query.strip() and not number:
        return m.notice("empty", "No entry has these words", "Try fewer words, or empty the search.")
    return m.notice("empty", "Choose an entry", "Its text, rubric and triggers appear here.")


def entry_head(entry: Entry) -> str:
    """Name, kind, description and when it applies."""
    when = _triggers(entry)
    if not entry.triggers:
        when = (
            "<p>It names no triggers: a model as judge decides by its description. Without a model it applies when an "
            f"instruction shares at least {LEXICAL_THRESHOLD:.0%} of the words of its description.</p>"
        )
    elif any(trigger.always for trigger in entry.triggers):
        when = "<p>Applies to every instruction.</p>"
    return m.block(
        f'<h3 class="name">{m.escape(entry.name)} <span class="pill">{kind_words(entry)}</span></h3>'
        f"{m.paragraph(entry.description)}{when}"
    )


def _triggers(entry: Entry) -> str:
    tags = {
        kind: m.bullets((m.code(str(trigger)) for trigger in entry.triggers if trigger.kind == kind), "tags")
        for kind in ("words", "pattern", "edit")
    }
    kinds = f"<p>Applies to edits of a kind:</p>{tags['edit']}" if tags["edit"] else ""
    body = kinds + (f"<p>Applies when the instruction says:</p>{tags['words']}" if tags["words"] else "")
    begin = "or matches" if body else "Applies when the instruction matches"
    number = sum(trigger.kind == "pattern" for trigger in entry.triggers)
    return body + m.folded(f"{begin} one of {m.count(number, 'expression')}", tags["pattern"])


def entry_document(entry: Entry) -> str:
    """The text of an entry, rendered."""
    return m.document(entry.body) if entry.body.strip() else m.faint("This entry has no text.")


def entry_rubric(entry: Entry) -> str:
    """The criteria of a Skill, with their share of the whole."""
    if entry.rubric is None:
        return m.faint("No rubric: this entry is guidance in words alone.")
    shares = entry.rubric.weights()
    rows = [
        [
            f"{m.code(criterion.id)}{m.paragraph(criterion.text)}",
            f'{criterion.weight:g} <span class="faint">({shares.get(criterion.id, 0.0):.0%})</span>',
            f"{criterion.scale[0]:g} to {criterion.scale[1]:g}",
            "instruction" if criterion.dimension == "instruction" else "quality",
            m.escape(", ".join(criterion.applies)) or "all",
            m.code(criterion.measure) if criterion.measure else "VLM only",
        ]
        for criterion in entry.rubric.criteria
    ]
    return m.block(m.table(["Criterion", "Weight", "Grades", "Score", "Edits", "Measured by"], rows, "rubric cards"))


def entry_tool(entry: Entry) -> str:
    """How a Tool works: the measure it runs, or the prompt and the schemas of its call."""
    parts = []
    if entry.measure is not None:
        known = MEASURES.get(entry.measure)
        about = known.description if known else "This version has no such measure, so the Tool is skipped."
        parts.append(f"<p>Runs the measure {m.code(entry.measure)}: {m.escape(about)}</p>")
    if entry.system_prompt is not None:
        parts.append(f"<h4>System prompt</h4>{m.preformatted(entry.system_prompt, 'wrap')}")
    for title, schema in (("Is given", entry.input_schema), ("Answers", entry.output_schema)):
        if schema is not None:
            parts.append(f"<h4>{title}</h4>{m.preformatted(json.dumps(dict(schema), indent=2, ensure_ascii=False))}")
    return m.block("".join(parts) or m.paragraph("Skills are read by the judge; they run nothing.", "faint"))


def routed(route: Route, library: Library) -> str:
    """Which entries would be consulted for an instruction, and why."""
    left = left_to_model(route, library)
    if not route.entries:
        return m.notice("empty", "No entry would be consulted", left or "Try another wording.")
    pairs = zip(route.entries, route.reasons, strict=True)
    rows = [[m.code(reason.name), kind_words(entry), m.escape(reason.reason)] for entry, reason in pairs]
    text = f"{len(rows)} of {len(library)} entries would be consulted. Each is decided on its own. {m.escape(left)}"
    return m.block(f"<p>{text}</p>{m.table(['Entry', 'Kind', 'Why'], rows)}")


ROUTING_HINT = m.notice("empty", "Type an instruction", "The entries that would be consulted appear here.")
"""The placeholder while there is no instruction."""

CHECK_HINT = m.faint("Checks for format errors, problems that affect judging, and remarks. Nothing is executed.")
"""What the check looks at."""


def problems(problems: Sequence[Problem]) -> str:
    """What the check of a Library found, gravest first."""
    if not problems:
        return m.notice("note good", "Nothing to complain about", "The Library follows the format.")
    rows = [
        [
            m.code(problem.place),
            f'<span class="pill {problem.severity}">{problem.severity}</span>',
            m.escape(problem.message),
            m.escape(in_browser(problem.remedy)),
        ]
        for problem in sorted(
            problems, key=lambda problem: (SEVERITIES.index(problem.severity), problem.where, problem.line or 0)
        )
    ]
    numbers = Counter(problem.severity for problem in problems)
    counts = [m.count(numbers[name], name) for name in SEVERITIES if numbers[name]]
    return m.block(
        f"<p>{', '.join(counts)}.</p>" + m.table(["Where", "Severity", "What", "What to do"], rows, "problems cards")
    )


def differences(found: LibraryDiff, before: str = "", after: str = "") -> str:
    """What changed from a Library to another.

    Args:
        found: The changes.
        before: What to call the old one; empty where it goes without saying.
        after: What to call the new one.
    """
    if found.is_empty:
        return m.notice("note good", "No difference", "Both hold the same entries.")
    parts = [
        f"<p>From <strong>{m.escape(before)}</strong> to <strong>{m.escape(after)}</strong>:</p>" if before else "",
        f"<p>{len(found.added)} added, {len(found.removed)} removed, {len(found.changed)} changed.</p>",
        *(_named(title, entries) for title, entries in (("Added", found.added), ("Removed", found.removed)) if entries),
        *(changed_entry(change.name, change.notes, (change.document, change.rubric)) for change in found.changed),
    ]
    return m.block("".join(parts))


def _named(title: str, entries: Sequence[Entry]) -> str:
    rows = (f"{m.code(entry.name)} {kind_words(entry)}: {m.escape(entry.description)}" for entry in entries)
    return f"<h4>{title}</h4>{m.bullets(rows)}"


def changed_entry(name: str, notes: Iterable[str], diffs: Iterable[str]) -> str:
    """An entry that changed: its name, what changed in words, and its files line by line."""
    lines = m.folded("Line by line", "".join(m.diff(text) for text in diffs if text))
    title = f"<h4>Changed: {m.code(name)}</h4>"
    return f'<section class="step">{title}{m.bullets(map(m.escape, notes))}{lines}</section>'


EDIT_HINT = m.faint("Changes are made to a copy in this page. The Library stays as it is until you save or publish.")
"""Explains editing while there is no copy."""

AGAIN_HINT = m.faint(
    "Judges up to 40 examples that consult a changed entry, with the Library and with the edited copy."
)
"""Explains the test of a copy."""

JUDGING_AGAIN = m.notice("empty busy", "Judging…", "Each example is judged with the Library and with the copy.")


def edited(name: str) -> str:
    """Say what is being edited. `name`: of the Library; foreign text."""
    return m.faint(f"You edit a copy of {name}. Press “Edit a copy” again to start over.")


def saved(name: str, folder: str) -> str:
    """Say where a copy was saved, with a link that judges with it."""
    about = m.paragraph("In every tab it is under “A folder on this computer”.")
    lines = f"<p>{m.code(folder)}</p>{about}<p>{m.to_library(folder, 'Use it in Score')}</p>"
    return m.block(m.callout("note good", f"{name} is saved", lines))


@dataclass(frozen=True)
class JudgedAgain:
    """Examples judged with a Library and with its edited copy."""

    labeled: int
    """Number of labeled examples of the data."""
    before: Score
    after: Score
    """Of the examples that consult a changed entry; the judgments of others cannot change."""
    comparison: HeldOutComparison
    changed: tuple[tuple[str, Example], ...]
    """`Fixed` or `Broken`, and the example."""


def judged_again(judged: JudgedAgain) -> str:
    """Say what an edit fixed and broke."""
    compared, of = judged.comparison, f"{m.count(judged.labeled, 'example')} with a label"
    if not judged.after.n:
        return m.notice("empty", "Nothing to judge again", f"None of the {of} consults an entry that you changed.")
    changed, p = compared.fixes + compared.breaks, 1.0 if compared.p is None else compared.p
    verdict = "better than before" if compared.fixes > compared.breaks else "worse than before"
    if p >= LEVEL:
        verdict = "too few to tell" if changed < LEAST_CHANGED else "no clear difference"
    title = f"{compared.fixes} fixed, {compared.breaks} broken of {compared.n} (McNemar p = {p:.2g}): {verdict}"
    about = f"{judged.after.n} of {of} were judged: those that consult a changed entry. Agreement with the labels:"
    shares = m.bullets((f"Before: {_share(judged.before)}", f"After: {_share(judged.after)}"))
    return m.block(m.callout("note", title, m.paragraph(about), shares))


def _share(score: Score) -> str:
    if score.accuracy is None or score.interval is None:
        return "unknown, as none could be judged"
    low, high = score.interval
    return f"{score.accuracy:.0%} (n = {score.judged}, 95% CI {low:.0%} to {high:.0%})"
