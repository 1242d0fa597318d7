"""The status of a run, read from its folder."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from rewardharness.evolution.events import (
    Concluding,
    Decided,
    Event,
    Finished,
    Judged,
    Paused,
    PhaseBegan,
    Started,
    read_events,
)
from rewardharness.evolution.held_out import Score
from rewardharness.evolution.progress import RunProgress, read_progress
from rewardharness.files import read_jsonl
from rewardharness.runs.spending import NOTHING, Spent
from rewardharness.runs.store import RESULTS, is_running, read_manifest

Condition = Literal["running", "finished", "stopped", "paused", "interrupted"]
"""`stopped`: on request; `paused`: after an error; `interrupted`: the process ended without cleanup (`kill -9`).
The same command resumes all three."""


@dataclass(frozen=True)
class Status:
    """Status of a run."""

    folder: Path
    manifest: dict[str, Any]
    condition: Condition
    reason: str = ""
    """Why it ended or is paused; empty while it runs."""
    next_step: str = ""
    """What to do next."""
    phase: str = "skills"
    tried: int = 0
    """Number of tested edits."""
    kept: int = 0
    judgments: int = 0
    version: int = 0
    """Number of the champion."""
    start_accuracy: float | None = None
    """Accuracy of the starting Library on the training examples."""
    pool_accuracy: float | None = None
    audit: Score | None = None
    """Score of the final Library on held-out examples; None before the end, with n 0 in runs of earlier versions."""
    audit_start: Score | None = None
    """Score of the starting Library."""
    progress: RunProgress | None = None
    """Progress of the current phase; None if the run is not running."""
    headline: str = ""
    """The result in one sentence; empty before the end."""


def read_status(folder: Path, manifest: dict[str, Any] | None = None) -> Status:
    """Read the status of a run.

    Args:
        folder: The run folder.
        manifest: Its manifest, if it is read already.

    Raises:
        RunError: If the folder holds no run.
    """
    status = status_of(folder, read_manifest(folder) if manifest is None else manifest, read_events(folder))
    if status.judgments:
        return status
    # There is no event with this number before the training examples are judged.
    return replace(status, judgments=sum(1 for _ in read_jsonl(folder / RESULTS)))


def status_of(folder: Path, manifest: dict[str, Any], events: Sequence[Event]) -> Status:
    """Return the status of a run whose manifest and events are read already.

    Args:
        folder: The run folder, to see whether it runs.
        manifest: Its manifest.
        events: Its events, as `read_events` returns them.
    """
    condition, reason, next_step = _condition(folder, events)
    decided = [event for event in events if isinstance(event, Decided)]
    judged = next((event for event in events if isinstance(event, Judged)), None)
    finished = events[-1] if events and isinstance(events[-1], Finished) else None
    start = judged.accuracy if judged else None
    spent = spent_by(events)
    phases = [event.phase for event in events if isinstance(event, PhaseBegan)]
    return Status(
        folder=folder,
        manifest=manifest,
        condition=condition,
        reason=reason,
        next_step=next_step,
        phase=phases[-1] if phases else "skills",
        tried=len(decided),
        kept=sum(event.accepted for event in decided),
        judgments=spent.judgments if spent != NOTHING else (judged.judged + judged.failed if judged else 0),
        version=decided[-1].version if decided else 0,
        start_accuracy=start,
        pool_accuracy=decided[-1].accuracy if decided else start,
        audit=finished.audit or Score(0, 0, finished.audit_accuracy, None) if finished else None,
        audit_start=finished.start or Score(0, 0, None, None) if finished else None,
        progress=read_progress(folder) if condition == "running" else None,
        headline=finished.headline if finished else "",
    )


def spent_by(events: Sequence[Event]) -> Spent:
    """Return the latest spending that the events of a run tell; nothing before a decision."""
    known = [event.spent for event in events if isinstance(event, Decided | Concluding | Finished)]
    return next((spent for spent in reversed(known) if spent != NOTHING), NOTHING)


def is_evolution(folder: Path) -> bool:
    """Return whether a run folder holds an evolution."""
    return read_manifest(folder).get("command") == "evolve"


def _condition(folder: Path, events: Sequence[Event]) -> tuple[Condition, str, str]:
    last = events[-1] if events else Started("", "", "", "", 0, 0, "", 0)
    if isinstance(last, Finished):
        return "finished", last.reason, ""
    if is_running(folder):
        return "running", "", ""
    if isinstance(last, Paused):
        return ("stopped" if last.kind == "stopped" else "paused"), last.reason, last.next_step
    return "interrupted", "The process ended without cleanup.", "The same command resumes the run."
