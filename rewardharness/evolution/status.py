"""How a run stands, for whoever looks on from outside: read from its folder alone."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal

from rewardharness.evolution.events import (
    Concluding,
    Decided,
    Event,
    Finished,
    Judged,
    PhaseBegan,
    Rested,
    Started,
    read_events,
)
from rewardharness.evolution.progress import Progress, read_progress
from rewardharness.files import read_jsonl
from rewardharness.runs.store import RESULTS, is_running, read_manifest

Condition = Literal["running", "finished", "stopped", "paused", "interrupted"]
"""`stopped`: somebody asked for an end; `paused`: trouble, see the reason; `interrupted`: the process ended without a
word, as after `kill -9`. All three go on with the same command."""


@dataclass(frozen=True)
class Status:
    """How a run stands."""

    folder: Path
    manifest: dict[str, Any]
    condition: Condition
    reason: str = ""
    """Why it ended or rests; empty while it runs."""
    next_step: str = ""
    """What to do about it."""
    phase: str = "skills"
    tried: int = 0
    """Edits that a gate decided on."""
    kept: int = 0
    judgments: int = 0
    version: int = 0
    """Number of the champion."""
    start_accuracy: float | None = None
    """Of the starting Library on the pool."""
    pool_accuracy: float | None = None
    audit: Mapping[str, Any] | None = None
    """The final Library on the audit, as `Score.to_json` writes it; None before the end."""
    audit_start: Mapping[str, Any] | None = None
    """The same for the starting Library."""
    progress: Progress | None = None
    """How far the phase that is under way has come; None where nothing is."""
    headline: str = ""
    """What came of the run, in a sentence; empty before the end."""


def read_status(folder: Path) -> Status:
    """Read how a run stands.

    Raises:
        RunError: If the folder holds no run.
    """
    status = status_of(folder, read_manifest(folder), read_events(folder))
    if status.judgments:
        return status
    # No event tells them before the pool is judged.
    return replace(status, judgments=sum(1 for _ in read_jsonl(folder / RESULTS)))


def status_of(folder: Path, manifest: dict[str, Any], events: Sequence[Event]) -> Status:
    """Say how a run stands whose manifest and events are read already; whether it runs is looked up.

    Args:
        folder: The run folder.
        manifest: What it is about.
        events: What came to pass, as `read_events` reads it.
    """
    condition, reason, next_step = _condition(folder, events)
    decided = [event for event in events if isinstance(event, Decided)]
    judged = next((event for event in events if isinstance(event, Judged)), None)
    finished = events[-1] if events and isinstance(events[-1], Finished) else None
    start = judged.accuracy if judged else None
    paid = spent_by(events)
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
        judgments=paid["judgments"] if paid else (judged.judged + judged.failed if judged else 0),
        version=decided[-1].version if decided else 0,
        start_accuracy=start,
        pool_accuracy=decided[-1].accuracy if decided else start,
        audit=_audited(finished) if finished else None,
        audit_start=finished.start if finished else None,
        progress=read_progress(folder) if condition == "running" else None,
        headline=finished.headline if finished else "",
    )


def _audited(finished: Finished) -> Mapping[str, Any]:
    told = {"accuracy": finished.audit_accuracy, "interval": None, "n": None, "judged": None}  # by earlier versions
    return finished.audit if finished.audit is not None else told


def spent_by(events: Sequence[Event]) -> Mapping[str, Any]:
    """What the search has spent as far as its events tell, as `Spent.to_json` writes it; nothing before a decision."""
    told = [event.spent for event in events if isinstance(event, Decided | Concluding | Finished) and event.spent]
    return told[-1] if told else {}


def is_evolution(folder: Path) -> bool:
    """Whether a run folder holds an evolution, and not another kind of run."""
    return read_manifest(folder).get("command") == "evolve"


def _condition(folder: Path, events: Sequence[Event]) -> tuple[Condition, str, str]:
    last = events[-1] if events else Started("", "", "", "", 0, 0, "", 0)
    if isinstance(last, Finished):
        return "finished", last.reason, ""
    if is_running(folder):
        return "running", "", ""
    if isinstance(last, Rested):
        return ("stopped" if last.kind == "stopped" else "paused"), last.reason, last.next_step
    return "interrupted", "The process ended without a word.", "The same command goes on."
