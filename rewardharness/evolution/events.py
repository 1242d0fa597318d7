"""What happens in a run, one frozen dataclass per kind of event, and the file that all views read.

Events are appended to `events.jsonl` and never changed. A run that was killed in the middle of a step takes that step
again; its `Resumed` event says at which step, and readers drop what the first attempt had written.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rewardharness.evolution.gate import Evidence
from rewardharness.files import append_jsonl, read_jsonl

EVENTS = "events.jsonl"


@dataclass(frozen=True)
class Event:
    """Something that happened."""

    step: int = field(default=0, kw_only=True)
    """Step of the run, counted from 0; a step is taken whole or again."""
    at: str = field(default="", kw_only=True)
    """When, in UTC, ISO 8601; for people. The order of events is that of their lines."""


@dataclass(frozen=True)
class Started(Event):
    """A run began."""

    judge: str
    orchestrator: str
    schedule: str
    data: str
    """Name of the dataset."""
    pool: int
    """Examples that gating looks at."""
    audit: int
    """Examples that are looked at once, at the end."""
    library_id: str
    """Of the starting Library."""
    seed: int
    expected: Mapping[str, int] = field(default_factory=dict)
    """The cost that was foreseen: see `estimate.Estimate`."""


@dataclass(frozen=True)
class Resumed(Event):
    """A run went on. Events of its step and later that stand before this one did not come to pass."""


@dataclass(frozen=True)
class Judged(Event):
    """The pool was judged with the starting Library."""

    judged: int
    failed: int
    accuracy: float | None
    """On the pool, in [0, 1]."""


@dataclass(frozen=True)
class Found(Event):
    """The Orchestrator said what goes wrong."""

    findings: tuple[Mapping[str, Any], ...]
    """Each with statement, cited, kinds, failures and successes."""


@dataclass(frozen=True)
class Proposed(Event):
    """An edit was proposed."""

    signature: str
    operator: str
    names: tuple[str, ...]
    """Entries that it touches."""
    statement: str
    cited: tuple[str, ...]
    source: str
    diff: Mapping[str, Any]
    """What it would change, as `LibraryDiff.to_json` writes it."""


@dataclass(frozen=True)
class Rehearsed(Event):
    """The call of a new prompted Tool was tried on a few examples."""

    tool: str
    signature: str
    """Of the proposal that holds it."""
    observations: tuple[Mapping[str, Any], ...]
    """Each with `example`, what was `said`, and the `problem`, empty when there is none."""
    usable: bool
    """Whether all of it was of use."""
    repaired: bool = False
    """Whether it is the second attempt, after the Orchestrator was told what came back."""


@dataclass(frozen=True)
class Passed(Event):
    """Something proposed was passed over before anything was judged."""

    what: str
    reason: str


@dataclass(frozen=True)
class Decided(Event):
    """The gate decided on an edit."""

    signature: str
    operator: str
    names: tuple[str, ...]
    statement: str
    cited: tuple[str, ...]
    source: str
    evidence: Mapping[str, Any]
    """As `Evidence.to_json` writes it."""
    accuracy: float | None
    """On the pool after the decision, in [0, 1]."""
    library_id: str
    """Of the champion after the decision."""
    version: int
    """Number of that champion, under `versions/`."""
    spent: Mapping[str, Any]
    """What the run has spent so far, as `Spent.to_json` writes it."""
    changes: tuple[Mapping[str, Any], ...] = ()
    """What the edit changes in the champion before it, as `checkpoint.change_json` writes it. With `versions/` that
    gives the Library that was tried, also where it was not kept."""

    members: tuple[str, ...] = ()
    """Signatures of the proposals of a bundle."""

    @property
    def accepted(self) -> bool:
        """Whether the edit was kept."""
        return bool(self.evidence["decision"] == "accept")

    def read_evidence(self) -> Evidence:
        """The evidence as a value."""
        return Evidence.from_json(dict(self.evidence))


@dataclass(frozen=True)
class PhaseBegan(Event):
    """Another phase began: `skills`, `tools` or `prune`."""

    phase: str
    round: int


@dataclass(frozen=True)
class OrchestratorFailed(Event):
    """The Orchestrator gave no proposals because its model gave no answer."""

    code: str
    message: str


@dataclass(frozen=True)
class Rested(Event):
    """The run was paused by trouble or stopped by a person. It can go on."""

    kind: str
    """`stopped`, `endpoint`, `orchestrator` or `disk`."""
    reason: str
    next_step: str = ""


@dataclass(frozen=True)
class Concluding(Event):
    """The search ended; the audit begins."""

    reason: str
    spent: Mapping[str, Any] = field(default_factory=dict)
    """What the search has spent, as `Spent.to_json` writes it: more than at its last decision where the budget ended a
    trial. Runs of earlier versions lack it."""


@dataclass(frozen=True)
class Finished(Event):
    """The run is done; `report.json` tells what came of it."""

    reason: str
    pool_accuracy: float | None
    audit_accuracy: float | None
    library_id: str
    audit: Mapping[str, Any] | None = None
    """The final Library on the audit, as `Score.to_json` writes it; None where an earlier version finished the run."""
    start: Mapping[str, Any] | None = None
    """The same for the starting Library."""
    headline: str = ""
    """What came of the run, in a sentence."""
    spent: Mapping[str, Any] = field(default_factory=dict)
    """What the run has spent, as `Spent.to_json` writes it."""


KINDS: Mapping[str, type[Event]] = {
    kind.__name__.lower(): kind
    for kind in (
        Started,
        Resumed,
        Judged,
        Found,
        Proposed,
        Rehearsed,
        Passed,
        Decided,
        PhaseBegan,
        OrchestratorFailed,
        Rested,
        Concluding,
        Finished,
    )
}
"""Every kind of event by the word that stands in the file."""

Emit = Callable[[Event], None]
"""Takes an event as it happens."""


def write_event(folder: Path, event: Event) -> None:
    """Append an event to the file of a run folder."""
    at = event.at or datetime.now(UTC).isoformat(timespec="milliseconds")
    append_jsonl(folder / EVENTS, {"event": type(event).__name__.lower(), **asdict(event), "at": at})


def read_events(folder: Path) -> list[Event]:
    """Read the events of a run folder, without those that a killed step had written.

    Lines that are torn, or of a kind that this version does not know, are passed over.
    """
    events: list[Event] = []
    for _, record in read_jsonl(folder / EVENTS):
        event = event_of(record)
        if event is not None:
            events = add_event(events, event)
    return events


def add_event(events: Sequence[Event], event: Event) -> list[Event]:
    """What came to pass after one more event: when a run goes on, what a killed step had written is dropped."""
    if isinstance(event, Resumed):
        events = [each for each in events if each.step < event.step or isinstance(each, Started | Resumed)]
    return [*events, event]


def event_of(record: Mapping[str, Any]) -> Event | None:
    """Read one line; None when it is no event that this version knows."""
    kind = KINDS.get(str(record.get("event")))
    if kind is None:
        return None
    known = {each.name for each in fields(kind)}
    values = {
        name: tuple(value) if isinstance(value, list) else value for name, value in record.items() if name in known
    }
    try:
        return kind(**values)  # type: ignore[arg-type]
    except TypeError:
        return None
