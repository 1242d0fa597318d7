"""Reports, events and progress of jobs as lines for people."""

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from rewardharness.cli import output
from rewardharness.judging.report import consulted_words
from rewardharness.report import Report, Section, Table, Text, cell_text

if TYPE_CHECKING:
    from rewardharness.evolution.events import Decided, Event, Judged
    from rewardharness.evolution.progress import RunProgress


def print_report(report: Report) -> None:
    """Print a report without its details."""
    for section in report.sections:
        if not section.detail:
            print_section(section)


def print_section(section: Section) -> None:
    """Print the texts and tables of a section."""
    for block in section.blocks:
        if isinstance(block, Text) and block.kind not in {"note", "legend"}:
            for line in block.lines:
                output.say(line)
        elif isinstance(block, Table):
            _print_table(block, block.title or section.title)


def _print_table(table: Table, title: str) -> None:
    rows = [[cell_text(cell) for cell in row] for row in table.rows[: table.shown]]
    output.table(table.headings, rows, title=title)
    if len(table.rows) > len(rows):
        output.say(f"{len(table.rows) - len(rows)} more in the report.")


def print_agreement(report: dict[str, Any]) -> None:
    """Print agreement per kind of label, coverage, position consistency and failures."""
    rows = [
        (kind, str(part["n"]), str(part["judged"]), output.share(part["accuracy"], part["interval"]))
        for kind, part in report["by_label_kind"].items()
    ]
    groups = report["groups"]
    if groups["n"]:
        best = output.share(groups["best_accuracy"], groups["interval"])
        rows.append(("groups of 3 and 4: best found", str(groups["n"]), str(groups["judged"]), best))
    if rows:
        output.table(("label kind", "n", "judged", "accuracy [95% CI]"), rows)
    output.say(
        f"{report['judged']} of {report['n']} judged (coverage {output.share(report['coverage'])}); "
        f"same answer in both orders: {output.share(report['position_consistency'])}"
    )
    counted, warning = consulted_words(report["consulted"])
    if counted:
        output.say(f"Entries of the Library consulted: {counted}.")
    if warning:
        output.say(f"Warning: {warning}")
    if report["ties_left_out"]:
        count = report["ties_left_out"]
        examples = "1 example labeled tie is" if count == 1 else f"{count} examples labeled tie are"
        output.say(f"{examples} excluded from accuracy: tie was not an allowed answer. To allow it, add --ties.")
    if report["failures"]:
        output.say("Not judged: " + ", ".join(f"{code} {count}" for code, count in report["failures"].items()))


WIDTH = 110
"""Width of a statement, in characters."""


def progress_line(progress: "RunProgress") -> str:
    """Put the progress of a run into a line: the phase, its count and the remaining time."""
    return "; ".join(filter(None, (progress.words, progress.rest)))


def counter(quiet: bool = False) -> "Callable[[RunProgress | None], None]":
    """Return a function that prints progress on standard error, at most once in `output.SILENT_SECONDS`."""
    printed = time.monotonic()

    def show(progress: "RunProgress | None") -> None:
        nonlocal printed
        now = time.monotonic()
        if quiet or progress is None or now - printed < output.SILENT_SECONDS:
            return
        printed = now
        output.note(progress_line(progress))

    return show


def event_printer(quiet: bool = False) -> "Callable[[Event], None]":
    """Return a function that prints events on standard error; the command prints itself why a run is paused."""

    def show(event: "Event") -> None:
        line = "" if quiet or type(event).__name__ == "Paused" else event_line(event)
        if line:
            output.note(line)

    return show


def event_line(event: "Event") -> str:
    """Put an event into a line; empty for those that need none."""
    from rewardharness.evolution import events
    from rewardharness.evolution.progress import ended

    match event:
        case events.Started():
            return f"Started: {event.pool} training examples, {event.audit} held out, seed {event.seed}."
        case events.Resumed():
            return f"Resumed at step {event.step}."
        case events.Judged():
            failed = f", {event.failed} without a judgment" if event.failed else ""
            return f"The starting Library agrees with {_of_judged(event)} judged training examples{failed}."
        case events.Found():
            first = event.findings[0].statement if event.findings else ""
            return f"Found: {output.shorten(first, WIDTH)}" if first else ""
        case events.Rehearsed():
            how = "usable" if event.usable else "unusable"
            when = "called again" if event.repaired else "called"
            return f"  the Tool {event.tool} was {when} on {len(event.observations)} examples: its replies are {how}."
        case events.Decided():
            return _decision(event)
        case events.PhaseBegan():
            return f"Phase: {event.phase}."
        case events.OrchestratorFailed():
            return f"The Orchestrator gave no answer ({event.code}): {output.shorten(event.message, WIDTH)}"
        case events.Skipped():
            return f"  skipped: {output.shorten(event.reason, WIDTH)}"
        case events.Paused():
            return f"{event.kind}: {event.reason} {event.next_step}".strip()
        case events.Concluding():
            return f"{ended(event.reason)} Judging the held-out examples."
        case events.Finished():
            return f"Finished. {event.headline or f'Held-out accuracy {output.share(event.audit_accuracy)}.'}"
    return ""


def _of_judged(event: "Judged") -> str:
    from rewardharness.judging.report import wilson

    if event.accuracy is None:
        return f"- of {event.judged}"
    span = wilson(event.accuracy * event.judged, event.judged)
    return f"{output.share(event.accuracy, [span.low, span.high] if span else None)} of {event.judged}"


def _decision(event: "Decided") -> str:
    evidence = event.evidence
    word = "accepted" if event.accepted else "rejected"
    what = f"{event.operator} {', '.join(event.names)}"
    return (
        f"  {word}: {output.shorten(what, 60)}: {evidence.reason}; {evidence.affected} examples affected, "
        f"{evidence.calls} judged; training accuracy {output.share(event.accuracy)}, "
        f"{event.spent.judgments} judgments in total"
    )
