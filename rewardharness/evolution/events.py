"""Events of a run: one frozen dataclass per kind, and the file that all views read.

Events are appended to `events.jsonl` and never changed. A run that was killed within a step repeats that step; its
`Resumed` event names the step, and readers drop what the first attempt wrote.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import UTC, datetime
from functools import lru_cache
from pathlib import Path
from typing import Any

from rewardharness.evolution.gate import Evidence
from rewardharness.files import append_jsonl, read_jsonl

EVENTS = "events.jsonl"


@dataclass(frozen=True)
class Event:
    """An event of a run."""

    step: int = field(default=0, kw_only=True)
    """Step of the run, from 0; an interrupted step is repeated."""
    at: str = field(default="", kw_only=True)
    """Time in UTC, ISO 8601. The order of events is that of their lines."""


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

    findings: tuple[Mapping[str, Any], ...]
    """Each with `statement`, `cited`, `kinds`, `failures` and `successes`."""


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
    """The changes, as `LibraryDiff.to_json` writes them."""
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
class Decided(Event):
    """An acceptance test decided on an edit."""

    signature: str
    operator: str
    names: tuple[str, ...]
    statement: str
    cited: tuple[str, ...]
    source: str
    evidence: Mapping[str, Any]
    """As `Evidence.to_json` writes it."""
    accuracy: float | None
    """On the training examples after the decision, in [0, 1]."""
    library_id: str
    """Of the champion after the decision."""
    version: int
    """Number of that champion in `versions/`."""
    spent: Mapping[str, Any]
    """Spending so far, as `Spent.to_json` writes it."""
    changes: tuple[Mapping[str, Any], ...] = ()
    """Changes of the champion before it, as `checkpoint.change_json` writes them. With `versions/` they give the tested
    Library, also if it was rejected."""
    members: tuple[str, ...] = ()
    """Signatures of the proposals in a bundle."""

    @property
    def accepted(self) -> bool:
        """Whether the edit was accepted."""
        return bool(self.evidence["decision"] == "accept")

    def read_evidence(self) -> Evidence:
        """The evidence as a value."""
        return Evidence.from_json(dict(self.evidence))


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
    spent: Mapping[str, Any] = field(default_factory=dict)
    """Spending of the search, as `Spent.to_json` writes it; empty in runs of earlier versions."""


@dataclass(frozen=True)
class Finished(Event):
    """The run is finished; its report is `report.json`."""

    reason: str
    pool_accuracy: float | None
    audit_accuracy: float | None
    library_id: str
    audit: Mapping[str, Any] | None = None
    """Score of the final Library on held-out examples (`Score.to_json`); None in runs of earlier versions."""
    start: Mapping[str, Any] | None = None
    """Score of the starting Library."""
    headline: str = ""
    """The result in one sentence."""
    spent: Mapping[str, Any] = field(default_factory=dict)
    """Spending of the run, as `Spent.to_json` writes it."""


KINDS: Mapping[str, type[Event]] = {kind.__name__.lower(): kind for kind in Event.__subclasses__()}
"""Kinds of events by their name in the file."""

_EARLIER_NAMES = {"rested": "paused", "passed": "skipped"}

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


@lru_cache
def _field_names(kind: Any) -> frozenset[str]:
    return frozenset(field.name for field in fields(kind))


def event_of(record: Mapping[str, Any]) -> Event | None:
    """Read one line; None for an unknown kind."""
    name = str(record.get("event"))
    kind = KINDS.get(_EARLIER_NAMES.get(name, name))
    if kind is None:
        return None
    found: Any = kind
    names = _field_names(found)
    values = {key: tuple(value) if isinstance(value, list) else value for key, value in record.items() if key in names}
    try:
        return kind(**values)  # type: ignore[arg-type]
    except TypeError:
        return None
