"""Text of the run panel. Pure: markup out."""

from collections.abc import Mapping

from app.counting import CountedStatus
from app.following import MOVING, RunStatus, State
from app.markup import block, callout, escape, paragraph
from rewardharness.evolution.progress import duration

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


def preview_hint() -> str:
    """Return the text in place of a preview."""
    return block(paragraph("Preview the run to see its cost. Nothing is spent before you start it.", "faint"))


def previewing() -> str:
    """Return the text while a preview is prepared."""
    text = "Reading the data. They may have to be downloaded or generated first, which takes a minute."
    return block(callout("empty busy", "Preparing the preview…", paragraph(text)))


def no_run(*, local: bool) -> str:
    """Return the text while no run is shown."""
    where = "an earlier run" if local else "a run that you started in this browser"
    return block(callout("empty", "No run is shown", paragraph(f"Preview and start a run, or open {where}.")))


def no_runs(job: str, *, local: bool) -> str:
    """Return the text of an empty list of runs."""
    text = f"Runs that you start here or with rh {job} are listed."
    if not local:
        text = "Runs that you start in this browser are listed. Runs of other visitors are not shown."
    return block(callout("empty", "There are no runs yet", paragraph(text)))


def state_head(title: str, state: State) -> str:
    """Return the heading of a status: a title and the state."""
    style = "busy" if state in MOVING else _STYLES.get(state, "")
    return f'<h3 class="state">{escape(title)} <span class="pill {style}">{escape(STATES[state][0])}</span></h3>'


def problem(status: RunStatus, next_step: str = "") -> str:
    """Return why a run was paused or failed; empty if it was not."""
    parts = []
    if status.reason:
        parts.append(callout("warning", status.reason, paragraph(next_step, "remedy")))
    if status.error is not None:
        error = status.error
        parts.append(callout("error", error.title, paragraph(error.message), paragraph(error.next_step, "remedy")))
    return "".join(parts)


def meter(text: str, share: float) -> str:
    """Return a progress bar below a text. `share`: in [0, 1]."""
    return f'{paragraph(text)}<span class="meter"><span style="width:{100 * share:.0f}%"></span></span>'


def progress(run: CountedStatus) -> str:
    """Return the progress of a run that is a known number of judgments; empty at the end."""
    if not run.wanted or run.state == "finished":
        return ""
    text = f"{run.judged:,} of {run.wanted:,} judgments"
    if run.state == "running" and run.judged >= run.wanted:
        text += "; writing the report"
    if run.seconds_left is not None:
        text += f", about {duration(run.seconds_left)} left"
    return meter(text, run.judged / run.wanted)
