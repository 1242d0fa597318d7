"""The status of an evolution: that of its run folder, and what its events tell."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rewardharness.evolution.events import Concluding, Decided, Event, Finished, Judged, PhaseBegan, read_events
from rewardharness.evolution.held_out import Score
from rewardharness.evolution.progress import RunProgress, read_progress
from rewardharness.files import read_jsonl
from rewardharness.runs.reader import RunReader, RunStatus
from rewardharness.runs.spending import NOTHING, Spent
from rewardharness.runs.store import RESULTS


@dataclass(frozen=True)
class Status(RunStatus):
    """Status of an evolution."""

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


def read_status(folder: Path) -> Status:
    """Read the status of an evolution.

    Raises:
        RunError: If the folder holds no run, or its record is damaged.
        DataError: If the manifest or the record is not valid JSON.
    """
    return status_of(RunReader(folder).look(), read_events(folder))


def status_of(run: RunStatus, events: Sequence[Event]) -> Status:
    """Return the status of an evolution by that of its run folder and its events."""
    decided = [event for event in events if isinstance(event, Decided)]
    judged = next((event for event in events if isinstance(event, Judged)), None)
    finished = events[-1] if events and isinstance(events[-1], Finished) else None
    start, spent = judged.accuracy if judged else None, spent_by(events)
    first = judged.judged + judged.failed if judged else 0  # before, there is no event with this number
    if run.condition == "interrupted" and not run.reason:
        ended = {"reason": "The process ended without cleanup.", "next_step": "The same command resumes the run."}
        run = RunStatus(**{**vars(run), **ended})
    return Status(
        **vars(run),
        phase=next((event.phase for event in reversed(events) if isinstance(event, PhaseBegan)), "skills"),
        tried=len(decided),
        kept=sum(event.accepted for event in decided),
        judgments=spent.judgments or first or len({line.get("id") for _, line in read_jsonl(run.folder / RESULTS)}),
        version=decided[-1].version if decided else 0,
        start_accuracy=start,
        pool_accuracy=decided[-1].accuracy if decided else start,
        audit=finished.audit or Score(0, 0, finished.audit_accuracy, None) if finished else None,
        audit_start=finished.start or Score(0, 0, None, None) if finished else None,
        progress=read_progress(run.folder) if run.condition == "running" else None,
        headline=finished.headline if finished else "",
    )


def spent_by(events: Sequence[Event]) -> Spent:
    """Return the latest spending that the events of a run tell; nothing before a decision."""
    known = [event.spent for event in events if isinstance(event, Decided | Concluding | Finished)]
    return next((spent for spent in reversed(known) if spent != NOTHING), NOTHING)
