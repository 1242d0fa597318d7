"""Events of a run: one frozen dataclass per kind, and the file that all views read.

Events are appended to `events.jsonl` and never changed. A run that was killed within a step repeats that step; its
`Resumed` event names the step, and readers drop what the first attempt wrote.
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rewardharness.codec import ValidationError, from_json
from rewardharness.evolution.gate import Evidence, estimate_gain
from rewardharness.evolution.held_out import Score
from rewardharness.evolution.progress import RunProgress, read_progress
from rewardharness.evolution.proposal import Finding
from rewardharness.files import append_jsonl, read_jsonl
from rewardharness.runs.reader import RunReader, RunStatus
from rewardharness.runs.spending import NOTHING, Spent
from rewardharness.runs.store import RESULTS

EVENTS = "events.jsonl"


@dataclass(frozen=True)
class Event:
    """An event of a run."""

    step: int = field(default=0, kw_only=True)
    """Step of the run, from 0; an interrupted step is repeated."""
    at: str = field(default="", kw_only=True)
    """Time in UTC, ISO 8601. The order of events is that of their lines."""


@dataclass(frozen=True)
class EvidenceReport(Evidence):
    """The evidence for the decision on one edit, with its gain."""

    gain: float | None = None
    """Net gain per example."""
    interval: tuple[float, float] | None = None
    """Its paired 95% confidence interval."""

    @classmethod
    def of(cls, evidence: Evidence) -> "EvidenceReport":
        """Add the gain to the evidence."""
        gain, interval = estimate_gain(evidence.fixes, evidence.breaks, evidence.judged)
        return cls(**vars(evidence), gain=gain, interval=interval)


@dataclass(frozen=True)
class Started(Event):
    """The run started."""

    judge: str
    orchestrator: str
    schedule: str
    data: str
    """Name of the dataset."""
    pool: int
    """Number of training examples."""
    audit: int
    """Number of held-out examples."""
    library_id: str
    """Id of the starting Library."""
    seed: int
    expected: Mapping[str, int] = field(default_factory=dict)
    """The cost estimate; see `estimate.Estimate`."""


@dataclass(frozen=True)
class Resumed(Event):
    """The run was resumed. Earlier events of this step and later ones are void."""


@dataclass(frozen=True)
class Judged(Event):
    """The training examples were judged with the starting Library."""

    judged: int
    failed: int
    accuracy: float | None
    """On the training examples, in [0, 1]."""


@dataclass(frozen=True)
class Found(Event):
    """The Orchestrator analyzed the failures."""

    findings: tuple[Finding, ...]


@dataclass(frozen=True)
class EditEvent(Event):
    """What events about an edit share."""

    signature: str
    operator: str
    names: tuple[str, ...]
    """Entries that it touches."""
    statement: str
    cited: tuple[str, ...]
    source: str


@dataclass(frozen=True)
class Proposed(EditEvent):
    """An edit was proposed."""

    diff: Mapping[str, Any]
    """The changes, as `diff_json` writes them."""
    mutation: str = ""
    """The mutation operator that was asked for; empty if none was."""


@dataclass(frozen=True)
class Rehearsed(Event):
    """The call of a new prompted Tool was tried on a few examples."""

    tool: str
    signature: str
    """Of the proposal that holds it."""
    observations: tuple[Mapping[str, Any], ...]
    """Each with `example`, `said` (the reply) and `problem`, empty for a usable reply."""
    usable: bool
    """Whether all replies were usable."""
    repaired: bool = False
    """Whether it is the second attempt, after the Orchestrator saw the replies."""


@dataclass(frozen=True)
class Skipped(Event):
    """A proposal was skipped before anything was judged."""

    what: str
    reason: str


@dataclass(frozen=True)
class Decided(EditEvent):
    """An acceptance test decided on an edit."""

    evidence: EvidenceReport
    accuracy: float | None
    """On the training examples after the decision, in [0, 1]."""
    library_id: str
    """Of the champion after the decision."""
    version: int
    """Number of that champion in `versions/`."""
    spent: Spent
    """Spending so far."""
    changes: tuple[Mapping[str, Any], ...] = ()
    """Changes of the champion before it, as `checkpoint.change_json` writes them. With `versions/` they give the tested
    Library, also if it was rejected."""
    members: tuple[str, ...] = ()
    """Signatures of the proposals in a bundle."""

    @property
    def accepted(self) -> bool:
        """Whether the edit was accepted."""
        return self.evidence.decision == "accept"


@dataclass(frozen=True)
class PhaseBegan(Event):
    """A phase began: `skills`, `tools` or `prune`."""

    phase: str
    round: int


@dataclass(frozen=True)
class OrchestratorFailed(Event):
    """The model of the Orchestrator gave no answer."""

    code: str
    message: str


@dataclass(frozen=True)
class Paused(Event):
    """The run was paused after an error, or stopped on request. It can be resumed."""

    kind: str
    """`stopped`, `endpoint`, `orchestrator` or `disk`."""
    reason: str
    next_step: str = ""


@dataclass(frozen=True)
class Concluding(Event):
    """The search ended; the comparison on held-out examples begins."""

    reason: str
    spent: Spent = NOTHING
    """Spending of the search."""


@dataclass(frozen=True)
class Finished(Event):
    """The run is finished; its report is `report.json`."""

    reason: str
    pool_accuracy: float | None
    audit_accuracy: float | None
    library_id: str
    audit: Score | None = None
    """Score of the final Library on held-out examples."""
    start: Score | None = None
    """Score of the starting Library."""
    headline: str = ""
    """The result in one sentence."""
    spent: Spent = NOTHING


KINDS: Mapping[str, type[Event]] = {
    kind.__name__.lower(): kind for base in (Event, EditEvent) for kind in base.__subclasses__() if kind != EditEvent
}
"""Kinds of events by their name in the file."""

Emit = Callable[[Event], None]
"""Receives events."""


def write_event(folder: Path, event: Event) -> None:
    """Append an event to the file of a run folder."""
    at = event.at or datetime.now(UTC).isoformat(timespec="milliseconds")
    append_jsonl(folder / EVENTS, {"event": type(event).__name__.lower(), **asdict(event), "at": at})


def read_events(folder: Path) -> list[Event]:
    """Read the events of a run folder, without those of a killed step, torn lines and unknown kinds."""
    events: list[Event] = []
    for _, record in read_jsonl(folder / EVENTS):
        event = event_of(record)
        if event is not None:
            events = add_event(events, event)
    return events


def add_event(events: Sequence[Event], event: Event) -> list[Event]:
    """Return the events with one more; a `Resumed` event drops those of a killed step."""
    if isinstance(event, Resumed):
        events = [item for item in events if item.step < event.step or isinstance(item, Started | Resumed)]
    return [*events, event]


def event_of(record: Mapping[str, Any]) -> Event | None:
    """Read one line; None for an unknown kind, and for one with values of other types."""
    kind = KINDS.get(str(record.get("event")))
    if kind is not None:
        with suppress(ValidationError):
            return from_json(kind, {field.name: record[field.name] for field in fields(kind) if field.name in record})
    return None


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
    """Score of the final Library on held-out examples; None before the end."""
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
        audit=finished.audit if finished else None,
        audit_start=finished.start if finished else None,
        progress=read_progress(run.folder) if run.condition == "running" else None,
        headline=finished.headline if finished else "",
    )


def spent_by(events: Sequence[Event]) -> Spent:
    """Return the latest spending that the events of a run tell; nothing before a decision."""
    known = [event.spent for event in events if isinstance(event, Decided | Concluding | Finished)]
    return next((spent for spent in reversed(known) if spent != NOTHING), NOTHING)
