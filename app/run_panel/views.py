"""Text of the run panel. Pure: markup out."""

from collections.abc import Mapping, Sequence
from typing import Any

from app.failures import in_browser
from app.markup import block, bullets, callout, escape, faint, folded, notice, paragraph, plain, preformatted, table
from app.run_panel.following import MOVING, FollowedRun, State
from app.run_panel.jobs import VISITOR
from app.run_panel.service import Listed
from rewardharness.errors import shell
from rewardharness.evolution.progress import duration
from rewardharness.report import Cell, Mark, Section, Table, Text, Value
from rewardharness.report_html import draw_value

RESUMABLE_TEXT = "It can be resumed."

STATES: Mapping[State, tuple[str, str]] = {
    "starting": ("Starting", "The process is starting and reads the data. The demonstration set is drawn once."),
    "running": ("Running", "The run continues when this page is closed."),
    "stopping": ("Stopping", "The run stops after the judgments in progress. Nothing is lost."),
    "finished": ("Finished", ""),
    "stopped": ("Stopped", f"The run was stopped on request. {RESUMABLE_TEXT}"),
    "paused": ("Paused", f"The run was paused by an error. {RESUMABLE_TEXT}"),
    "interrupted": ("Interrupted", f"The process ended unexpectedly. {RESUMABLE_TEXT}"),
    "failed": ("Did not start", "The process ended before the run began."),
}
"""Name and description of each state."""
_STYLES: Mapping[State, str] = {"finished": "good", "paused": "warning", "interrupted": "warning", "failed": "error"}


PREVIEW_HINT = faint("Preview the run to see its cost. Nothing is spent before you start it.")
"""The text in place of a preview."""

PREVIEWING = notice(
    "empty busy",
    "Preparing the preview…",
    "Reading the data. They may have to be downloaded or generated first, which takes a minute.",
)
"""The text while a preview is prepared."""


def no_run(*, local: bool) -> str:
    """Return the text while no run is shown."""
    where = "an earlier run" if local else "a run that you started in this browser"
    return notice("empty", "No run is shown", f"Preview and start a run, or open {where}.")


def no_runs(job: str, *, local: bool) -> str:
    """Return the text of an empty list of runs."""
    text = f"Runs that you start here or with {shell('rh {}', job)} are listed."
    if not local:
        text = "Runs that you start in this browser are listed. Runs of other visitors are not shown."
    return notice("empty", "There are no runs yet", text)


def run_title(run: FollowedRun) -> str:
    """Return the title of a run: its data and when it began; its name while they are unknown."""
    visitor = VISITOR.fullmatch(run.name) is not None  # the name gives access to the run
    archive = visitor and run.manifest.get("command") == "score"  # the data lie in a folder of the app
    data = "Your archive" if archive else run.data
    if data and run.begun:
        return f"{data} · {run.begun}"
    return (data or "New run") if visitor else run.name


def state_head(title: str, state: State) -> str:
    """Return the heading of a status: a title and the state."""
    style = "busy" if state in MOVING else _STYLES.get(state, "")
    return f'<h3 class="state">{escape(title)} <span class="pill {style}">{escape(STATES[state][0])}</span></h3>'


def problem(status: FollowedRun, next_step: str = "") -> str:
    """Return why a run was paused or failed; empty if it was not."""
    parts = []
    if status.reason:
        parts.append(callout("warning", status.reason, paragraph(in_browser(next_step), "remedy")))
    if status.error is not None:
        error = status.error
        parts.append(
            callout("error", error.title, paragraph(error.message), paragraph(in_browser(error.next_step), "remedy"))
        )
    return "".join(parts)


def counted_status(run: FollowedRun, title: str, who: str) -> str:
    """Return the status of a run that is a known number of judgments. `who`: what judges."""
    parts = [paragraph(who), paragraph(STATES[run.state][1]), progress(run), problem(run)]
    return block(f'<section class="run">{state_head(title, run.state)}{"".join(parts)}</section>')


def choice_of(item: Listed[Any], title: str, *facts: str, more: str = "") -> tuple[str, str]:
    """Return a choice of the list of runs: plain text, and the name.

    Args:
        item: The run.
        title: Its title.
        facts: What follows its state.
        more: Another line; where the run cannot be read, it says why.
    """
    state = "Cannot be read" if item.error else STATES[item.status.state][0]
    lines = [title, " · ".join(filter(None, (state, *facts))), item.error or more]
    return "\n".join(plain(line) for line in lines if line), item.status.name


def facts(rows: Mapping[str, str], command: str) -> str:
    """Return what a run is about, and the command that resumes it. `rows`: markup by title."""
    by_hand = f"<h4>On the command line</h4>{preformatted(command, 'wrap')}" if command else ""
    return block(table(["", ""], list(rows.items()), "plain") + by_hand)


def sends(places: Sequence[str]) -> str:
    """Return the label of the confirmation that a run folder may say where data go."""
    return f"Send images, and the key if one is given, to {', '.join(places)}, which only the run folder names"


def meter(text: str, share: float) -> str:
    """Return a progress bar below a text. `share`: in [0, 1]."""
    return f'{paragraph(text)}<span class="meter"><span style="width:{100 * share:.0f}%"></span></span>'


def progress(run: FollowedRun) -> str:
    """Return the progress of a run that is a known number of judgments; empty at the end."""
    if not run.wanted or run.state == "finished":
        return ""
    text = f"{run.judged:,} of {run.wanted:,} judgments"
    if run.state == "running" and run.judged >= run.wanted:
        text += "; writing the report"
    if run.seconds_left is not None:
        text += f", about {duration(run.seconds_left)} left"
    return meter(text, run.judged / run.wanted)


STYLES: Mapping[str, str] = {
    "audit": "cards audit",
    "numbers": "cards bench",
    "attacks": "cards bench attacks",
    "leaderboard": "cards bench board",
    "ratings": "cards bench board",
    "categories": "cards bench kinds",
    "judges": "cards judging",
    "judging": "cards judging",
    "published": "cards published",
    "paired": "cards paired",
    "counted": "plain cards counted",
    "bins": "bench",
}
"""Classes of the stylesheet by layout of a table."""


def sections(*parts: Section, titles: bool = False) -> str:
    """Render sections without their charts.

    Args:
        parts: The sections.
        titles: Whether each begins with its title.
    """
    return block("".join(_section(part, titles) for part in parts))


def _section(part: Section, titles: bool) -> str:
    if not part.blocks:
        return paragraph(part.empty, "faint")
    title = f"<h4>{escape(part.title)}</h4>" if titles and part.title else ""
    tables = [_table(item) for item in part.blocks if isinstance(item, Table)]
    texts = [(item, _text(item)) for item in part.blocks if isinstance(item, Text)]
    before = "".join(markup for item, markup in texts if item.kind == "text")
    after = "".join(markup for item, markup in texts if item.kind != "text")
    more = tables[len(tables[: part.shown]) :]
    return title + before + "".join(tables[: part.shown]) + folded(f"More tables ({len(more)})", "".join(more)) + after


def _text(item: Text) -> str:
    if item.kind == "list":
        return bullets(map(escape, item.lines))
    if item.kind == "headline":
        return "".join(f"<p><strong>{escape(line)}</strong></p>" for line in item.lines)
    if item.kind == "warning":
        return "".join(callout("warning", line) for line in item.lines)
    return "".join(paragraph(line, "faint" if item.kind in {"note", "legend"} else "") for line in item.lines)


def _table(item: Table) -> str:
    head, style = list(map(escape, item.headings)), STYLES.get(item.kind, "plain cards")
    rows = [[_cell(cell) for cell in row] for row in item.rows]
    title = f"<h4>{escape(item.title)}</h4>" if item.title else ""
    more = rows[len(rows[: item.shown]) :]
    rest = folded(f"{len(more)} more", table(head, more, style) if more else "")
    return title + table(head, rows[: item.shown], style) + rest


def _cell(cell: Cell) -> str:
    if isinstance(cell, Value):
        return f'<span class="number">{escape(cell.text)}</span>{draw_value(cell)}'
    if isinstance(cell, Mark):
        return f'<span class="pill {"good" if cell.good else "warning"}">{escape(cell.word)}</span> {escape(cell.text)}'
    return escape(cell)
