"""Puts proposed edits into words: what they would change, what the gate said, and what that did to examples.

Pure: records in, markup out. All of a proposal is text of a model or of a Library, and is escaped.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from textwrap import shorten
from typing import Any

from app.evolve.runs import EvolutionStatus, latest_effect
from app.evolve.service import Version
from app.evolve.views import share
from app.library.views import changed_entry, differences, entry_document, entry_rubric, entry_tool, kind_words
from app.markup import block, bullets, callout, code, count, escape, named, notice, paragraph, plain
from rewardharness.codec import finite
from rewardharness.evolution.diagnosis import diagnose
from rewardharness.evolution.events import Decided, PhaseBegan, Proposed, Rehearsed, Skipped
from rewardharness.evolution.gate import Evidence, estimate_gain
from rewardharness.evolution.report import EvolutionReport
from rewardharness.library.diff import LibraryDiff
from rewardharness.library.entry import Entry
from rewardharness.report import Steps
from rewardharness.report_html import draw_steps

SHOWN_STATEMENT = 130
"""Characters of a statement in the list."""

OPERATORS: Mapping[str, str] = {
    "bundle": "Several edits",
    "add": "Add to",
    "modify": "Reword",
    "remove": "Remove",
    "merge": "Merge",
    "split": "Split",
    "retrigger": "Apply at other times",
    "reweight": "Change a weight",
    "add_tool": "New Tool",
    "fix_tool": "Fix the Tool",
}
"""What an edit does, in words."""

DECISIONS: Mapping[str, tuple[str, str]] = {
    "accept": ("Accepted", "good"),
    "reject": ("Rejected", "error"),
    "undecided": ("Undecided", "warning"),
}
"""What was decided, and how that looks."""

WAITING = "Waiting"


@dataclass(frozen=True)
class EditItem:
    """One proposed edit."""

    key: str
    """Names it among those of its run."""
    event: Decided | Proposed
    rehearsed: tuple[Rehearsed, ...] = ()
    """How the call of a Tool that it brings was tried before anything was judged."""

    @property
    def decided(self) -> Decided | None:
        """The decision, once there is one."""
        return self.event if isinstance(self.event, Decided) else None

    @property
    def decision(self) -> str:
        """The decision in words."""
        return DECISIONS[self.event.evidence.decision][0] if isinstance(self.event, Decided) else WAITING


def items(sight: EvolutionStatus) -> list[EditItem]:
    """The proposed edits of a run: those that wait in their order, then those that were decided on, newest first."""
    decided = [event for event in sight.events if isinstance(event, Decided)]
    rehearsed = [event for event in sight.events if isinstance(event, Rehearsed)]
    times: Counter[str] = Counter()
    edits = []
    both: list[Decided | Proposed] = [*decided, *_waiting(sight)]
    for event in both:
        times[event.signature] += 1  # the same edit may be tried again; its key stays what it was while it waited
        tried = tuple(rehearsal for rehearsal in rehearsed if rehearsal.signature == event.signature)
        edits.append(EditItem(f"{event.signature[:16]}-{times[event.signature]}", event, tried))
    return [*edits[len(decided) :], *reversed(edits[: len(decided)])]


def find(items: Sequence[EditItem], key: str) -> EditItem | None:
    """Return the edit with a key; None if there is none."""
    return next((item for item in items if item.key == key), None)


def _waiting(sight: EvolutionStatus) -> list[Proposed]:
    """Proposals that have not had their turn. A phase that begins drops those of the one before."""
    started = sight.started
    if sight.state == "finished" or started is None or started.schedule == "paper":
        return []  # the paper's loop tries bundles, which have names of their own
    begun = max((event.step for event in sight.events if isinstance(event, PhaseBegan)), default=-1)
    decided = [event for event in sight.events if isinstance(event, Decided)]
    over = {event.signature for event in decided}
    over |= {member for event in decided if event.accepted for member in event.members}
    over |= {event.signature for event in sight.events if isinstance(event, Rehearsed) and not event.usable}
    passed = {event.what for event in sight.events if isinstance(event, Skipped)}
    open_ones = [event for event in sight.events if isinstance(event, Proposed) and event.step >= begun]
    return [event for event in open_ones if event.signature not in over and event.statement not in passed]


def choices(edits: Sequence[EditItem]) -> list[tuple[str, str]]:
    """Edits as the list shows them, in plain text on three lines, and the key of each."""
    return [
        (f"{plain(f'{item.decision} · {_what(item.event)}')}\n{_figures(item)}\n{_statement(item.event)}", item.key)
        for item in edits
    ]


def _what(event: Decided | Proposed) -> str:
    names = shorten(", ".join(event.names), 90, placeholder=" …")
    return f"{OPERATORS.get(event.operator, event.operator)}: {names}"


def _figures(item: EditItem) -> str:
    event = item.decided
    if event is None:
        return "not tried yet"
    evidence = event.evidence
    p = "" if evidence.p_value is None else f" · p {evidence.p_value:.2g}"
    return f"{evidence.fixes} fixed, {evidence.breaks} broken{p} · training {share(event.accuracy)}"


def _statement(event: Decided | Proposed) -> str:
    return shorten(plain(event.statement.replace("`", "")), SHOWN_STATEMENT, placeholder=" …")


def no_item(sight: EvolutionStatus | None = None) -> str:
    """Return the placeholder while no edit is chosen, or the run has none."""
    if sight is None or not items(sight):
        over = sight is not None and sight.state == "finished"
        text = "First the starting Library is judged; then each proposed edit appears here, newest first."
        return notice("empty", "No edit was tested" if over else "Nothing was proposed yet", "" if over else text)
    return notice("empty", "Choose an edit", "Its changes and effects appear here.")


def accuracy(run: EvolutionStatus) -> str:
    """Draw the accuracy on the training examples after each tested edit; empty before the first one."""
    if run.first is None:
        return ""
    tested = [(run.first.accuracy, 0)]
    tested += [(event.accuracy, event.version) for event in run.events if isinstance(event, Decided)]
    shares = [(number, finite(value)) for number, (value, _) in enumerate(tested)]
    known = tuple((number, value) for number, value in shares if value is not None and 0 <= value <= 1)
    marks = (place for place, (number, _) in enumerate(known) if number and tested[number][1] != tested[number - 1][1])
    title = "Accuracy on the training examples"
    drawn = draw_steps(Steps(title, "edits tested", known, frozenset(marks), f"{title}; a dot is an accepted edit."))
    return f'<div class="rh">{drawn}</div>' if drawn else ""


def caption(instruction: str, right: bool) -> str:
    """Return the plain caption of the picture of an example whose verdict has changed."""
    return f"{'Right' if right else 'Wrong'} now: {shorten(plain(instruction), 90, placeholder=' …')}"


def story(run: EvolutionStatus, report: EvolutionReport | None) -> str:
    """Return what a run does now, or what it has shown at its end.

    Args:
        run: The run.
        report: Its report; None before the end.
    """
    if report is not None:
        causes = diagnose(report)
        texts = ([escape(text) for text in (cause.title, cause.text, cause.step)] for cause in causes)
        reasons = (f"<strong>{title}.</strong> {text} <em>{step}</em>" for title, text, step in texts)
        why = callout("note", "Why nothing was gained, and what to do", bullets(reasons)) if causes else ""
        test = report.audit.final_against_start
        return block(why + _moved("Held-out examples whose verdict changed", test.fixes, test.breaks))
    edits = items(run)
    if not edits:
        return ""
    now, decided = edits[0], next((item for item in edits if item.decided), None)
    parts = [f"<h4>{'Now testing' if now.decided is None else 'Latest edit'}</h4>{_plainly(now)}"]
    if decided is not None and now.decided is None:
        parts.append(f"<h4>Before it</h4>{_plainly(decided)}")
    effect = latest_effect(run)
    if effect is not None:
        evidence = effect.evidence
        what = f"Examples whose verdict was changed by “{_what(effect)}”"
        parts.append(_moved(what, len(evidence.fixed), len(evidence.broken)))
    return block("".join(parts))


def _moved(what: str, right: int, wrong: int) -> str:
    return paragraph(f"{what}: {right} right now, {wrong} wrong now." if right or wrong else "")


def _plainly(item: EditItem) -> str:
    decided = paragraph(f"{item.decision}: {_figures(item)}", "faint") if item.decided else ""
    return f"<p>{escape(_what(item.event))}. {named(shorten(item.event.statement, 260, placeholder=' …'))}</p>{decided}"


def head(item: EditItem) -> str:
    """What an edit is, who wanted it, and what was decided on which evidence."""
    event = item.event
    style = DECISIONS[event.evidence.decision][1] if isinstance(event, Decided) else ""
    pill = f'<span class="pill {style}">{escape(item.decision)}</span>'
    said = paragraph(f"Proposed by {event.source}.", "faint")
    outcome = evidence(item.decided.evidence) if item.decided else paragraph("It waits for its turn.", "faint")
    title = f'<h3 class="name">{escape(_what(event))} {pill}</h3>'
    return block(f"{title}<p>{named(event.statement)}</p>{outcome}{_rehearsals(item)}{said}")


def _rehearsals(item: EditItem) -> str:
    """How the call of a new Tool was tried."""
    lines = []
    for rehearsal in item.rehearsed:
        bad = "; ".join(str(seen["problem"]) for seen in rehearsal.observations if seen.get("problem"))
        tried = f"The call of {rehearsal.tool} was tried on {count(len(rehearsal.observations), 'example')} first"
        lines.append(f"{tried}: {bad or 'all replies were of use'}.")
    return bullets(map(escape, lines), "evidence")


def evidence(test: Evidence) -> str:
    """What spoke for an edit and what against it, in sentences."""
    lines = ["It changes what the judge reads for no example."]
    if test.affected:
        again = f"; {test.calls} of them were judged again, and all others stay as they are."
        lines = [f"It changes what the judge reads for {count(test.affected, 'example')}{again}"]
    if test.judged:
        effect = f"it fixes {test.fixes} and breaks {test.breaks}; {test.ties} are unchanged."
        lines.append(f"Of the {count(test.judged, 'example')} that count, {effect}")
    if test.breaks:
        what = "that the judge got right before and gets wrong with it."
        lines.append(f"Regressions: {count(test.breaks, 'example')} {what}")
    gain, interval = estimate_gain(test.fixes, test.breaks, test.judged)
    if gain is not None and interval is not None:
        low, high = (100 * bound for bound in interval)
        lines.append(f"Estimated gain: {100 * gain:+.1f} points (95% CI {low:+.1f} to {high:+.1f}).")
    if test.p_value is not None:
        lines.append(f"Without an effect, evidence this strong has the probability {test.p_value:.2g}.")
    if test.failed:
        lines.append(f"{count(test.failed, 'example')} could not be judged and do not count.")
    if test.unsteady:
        lines.append(f"{count(test.unsteady, 'example')} were left out, because the judge is inconsistent on them.")
    if test.reason:
        lines.append(f"Acceptance test: {test.reason}.")
    return bullets(map(escape, lines), "evidence")


def change(diff: LibraryDiff) -> str:
    """What an edit changes: entries line by line, new ones in full."""
    added = "".join(_whole(entry) for entry in diff.added)
    return differences(diff) + (block(added) if added else "")


def _whole(entry: Entry) -> str:
    rubric = entry_rubric(entry) if entry.rubric is not None else ""
    tool = entry_tool(entry) if entry.kind == "tool" else ""
    title = f"<h4>New: {code(entry.name)} ({kind_words(entry)})</h4>"
    return f'<section class="step">{title}{entry_document(entry)}{rubric}{tool}</section>'


def foreseen(event: Proposed) -> str:
    """What an edit that waits would change, as far as its record says."""
    diff = event.diff
    parts = []
    for title, key in (("Added", "added"), ("Removed", "removed")):
        records = ((code(str(entry.get("name"))), str(entry.get("description", ""))) for entry in _records(diff, key))
        rows = [f"{name}: {escape(about)}" for name, about in records]
        parts += [f"<h4>{title}</h4>{bullets(rows)}"] if rows else []
    for record in _records(diff, "changed"):
        texts = [str(record.get(key) or "") for key in ("document_diff", "rubric_diff")]
        parts.append(changed_entry(str(record.get("name")), map(str, record.get("notes") or ()), texts))
    return block("".join(parts) or paragraph("Its record does not say.", "faint"))


def _records(diff: Mapping[str, Any], key: str) -> list[Mapping[str, Any]]:
    value = diff.get(key)
    return [entry for entry in value if isinstance(entry, dict)] if isinstance(value, list | tuple) else []


def example_choices(item: EditItem | None) -> list[tuple[str, str]]:
    """The examples that an edit is about: fixed, broken, and those that motivated it; words, and id of each."""
    event = item.decided if item else None
    if event is None:
        return []
    test = event.evidence
    fixed, broken = dict.fromkeys(test.fixed), dict.fromkeys(test.broken)
    rest = [name for name in dict.fromkeys(event.cited) if name not in fixed and name not in broken]
    listed = (("fixed", fixed), ("broken", broken), ("cited", rest))
    return [(plain(f"{word}: {name}"), name) for word, names in listed for name in names]


def version_choices(versions: Sequence[Version]) -> list[tuple[str, int]]:
    """Return text and number of the versions that can be published, newest first."""
    made = [(version.number, share(version.accuracy), version.event) for version in reversed(versions) if version.event]
    return [
        (f"Version {number} · training {accuracy}\n{plain(_what(event))}\n{_statement(event)}", number)
        for number, accuracy, event in made
    ]
