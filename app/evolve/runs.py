"""Status of evolution runs, read from their folders."""

import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.run_panel.following import MOVING, FollowedRun, RunFollower, keep
from app.run_panel.jobs import Jobs
from app.run_panel.new_jobs import RemoteStatus
from rewardharness.data.fields import FieldMap, parse_fields, read_fields
from rewardharness.data.opening import DEMO, FEEDBACK, open_data
from rewardharness.data.source import Dataset, split
from rewardharness.data.votes import corrected_labels, read_corrections
from rewardharness.errors import DataError, RunError
from rewardharness.evolution.checkpoint import CHECKPOINT, read_change, version_folder
from rewardharness.evolution.evaluator import question_key
from rewardharness.evolution.events import (
    EVENTS,
    Decided,
    Event,
    Judged,
    Resumed,
    Started,
    Status,
    add_event,
    event_of,
    status_of,
)
from rewardharness.evolution.report import never_right
from rewardharness.files import content_id, read_json
from rewardharness.judgments import judgment_from_json
from rewardharness.library.store import Library
from rewardharness.runs.reader import RunStatus, Tail
from rewardharness.runs.store import read_result
from rewardharness.schema import Example, Judgment
from rewardharness.settings import Settings


@dataclass(frozen=True)
class EvolutionStatus(FollowedRun):
    """Status of an evolution at one moment."""

    status: Status | None = None
    """The status that its folder records; None before the run begins."""
    events: tuple[Event, ...] = ()
    remote: RemoteStatus | None = None
    """The job on the Hub; None for a run of this computer."""

    @property
    def mark(self) -> tuple[object, ...]:
        """See `FollowedRun.mark`."""
        at = self.events[-1].at if self.events else ""
        progress = self.status and self.status.progress
        return self.name, self.state, len(self.events), at, self.judged, progress, self.remote

    @property
    def started(self) -> Started | None:
        """The first event; None before the run begins."""
        return next((event for event in self.events if isinstance(event, Started)), None)

    @property
    def first(self) -> Judged | None:
        """The result of the starting Library on the training examples; None before that."""
        return next((event for event in self.events if isinstance(event, Judged)), None)


def latest_effect(run: EvolutionStatus) -> Decided | None:
    """Return the latest decision on an edit that fixed or broke an example; None before."""
    decided = (event for event in reversed(run.events) if isinstance(event, Decided))
    return next((event for event in decided if event.evidence.fixed or event.evidence.broken), None)


class EvolutionFollower(RunFollower[EvolutionStatus]):
    """Incremental reader of one evolution."""

    status, final, explained = EvolutionStatus, ("finished",), MOVING | {"finished"}
    fields = ("example", "preference", "inconsistent", "position_consistent", "credit", "margin", "step")

    def __init__(self, name: str, jobs: Jobs) -> None:
        super().__init__(name, jobs)
        self._events: list[Event] = []
        self._tail = Tail(self.folder / EVENTS)

    def read(self, run: RunStatus) -> tuple[RunStatus, dict[str, Any]]:
        """See `Follower.read`."""
        void, records = self._tail.read()
        self._events = [] if void else self._events
        for record in records:
            event = event_of(record)
            if isinstance(event, Resumed):
                self._events = add_event(self._events, event)
            elif event is not None:
                self._events.append(event)
        status = status_of(run, self._events)
        return run, {"status": status, "events": tuple(self._events), "judged": len(self.run.results())}

    def never_right(self) -> list[tuple[str, int]]:
        """Return the training examples that were judged wrong with every Library; see `report.never_right`."""
        lines = self.run.results().values()
        return never_right([line for line in lines if {"example", "preference", "credit"} <= {*line}], self.watched())

    def watched(self) -> frozenset[str]:
        """Return the ids of the training examples; none before they were judged."""
        path = self.folder / CHECKPOINT
        return frozenset(read_json(path).get("pool", {}) if path.is_file() else {})


MAX_DATA = 3
"""Maximum number of cached datasets."""


@dataclass(frozen=True)
class Seen:
    """One judgment of an example in a run."""

    library: str
    """Name of the Library."""
    judgment: Judgment | None
    """The recorded judgment with its reasoning; None if the run has none."""


@dataclass(frozen=True)
class ExampleCase:
    """An example of a run and its judgments."""

    example: Example
    """With its given label."""
    label: str | None
    """The label that the run used; it may be a corrected one."""
    seen: tuple[Seen, ...]
    """Judgments, the earlier one first."""
    changed: bool = False
    """Whether the data have changed since the run started."""


class Cases:
    """Loads examples. Caches datasets, and nothing of visitors.

    Args:
        settings: The settings.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._data: OrderedDict[str, Dataset] = OrderedDict()
        self._lock = threading.Lock()

    def libraries(self, folder: Path, event: Decided) -> tuple[Library, Library]:
        """Return the Libraries before and after an edit, accepted or not.

        Raises:
            LibraryError: If the version does not exist.
            RunError: If the run does not record the edit.
        """
        before = Library.load(version_folder(folder, event.version - event.accepted))
        if event.accepted:
            return before, Library.load(version_folder(folder, event.version))
        if not event.changes:
            raise RunError(f"This run does not record “{event.operator}”.", next_step="Choose an accepted edit.")
        after = before
        for change in event.changes:
            after = after.apply(read_change(change))
        return before, after

    def of_edit(self, reader: EvolutionFollower, asked: Mapping[str, Any], event: Decided, name: str) -> ExampleCase:
        """Return an example before and after an edit.

        Raises:
            HarnessError: If the example or the Libraries do not exist.
        """
        before, after = self.libraries(reader.folder, event)
        number = event.version - event.accepted
        with_edit = f"version {event.version}" if event.accepted else "the rejected edit"
        return self._case(reader, asked, name, ((f"version {number}", before), (with_edit, after)))

    def of_version(self, reader: EvolutionFollower, asked: Mapping[str, Any], number: int, name: str) -> ExampleCase:
        """Return an example as a version judges it.

        Raises:
            HarnessError: If the example or the version does not exist.
        """
        library = Library.load(version_folder(reader.folder, number))
        return self._case(reader, asked, name, ((f"version {number}", library),))

    def example(self, reader: EvolutionFollower, asked: Mapping[str, Any], name: str) -> Example:
        """Return a training example with its given label.

        Raises:
            HarnessError: If there is no such training example, or its data were removed. Held-out examples are private.
        """
        dataset, manifest = self._dataset(asked), reader.look().manifest
        examples = {example.id: example for example in dataset.examples}
        if name not in examples:
            raise DataError(f"The data contain no example {name!r}.", next_step="Choose another one.")
        pool = reader.watched()
        if dataset.digest == manifest.get("data"):
            pool = frozenset(example.id for example in _parts(dataset, manifest)[0])
        if name not in pool:
            raise DataError("This is not a training example of the run.", next_step="Choose one of the list.")
        return examples[name]

    def moved(
        self, reader: EvolutionFollower, asked: Mapping[str, Any], libraries: tuple[Library, Library]
    ) -> list[tuple[Example, bool]]:
        """Return the held-out examples of a finished run on which two Libraries differ: is the second one right?

        Raises:
            HarnessError: If the data were removed.
        """
        dataset, manifest, lines = self._dataset(asked), reader.look().manifest, reader.run.results()
        if dataset.digest != manifest.get("data"):
            return []
        examples = []
        for example in _parts(dataset, manifest)[1]:
            keys = (question_key(library, example, manifest.get("router") is not None) for library in libraries)
            read = [lines.get(key, {}) for key in keys]
            judged = [line for line in read if line.get("preference") or line.get("inconsistent")]
            if len(judged) == 2 and judged[0]["credit"] != judged[1]["credit"]:
                examples.append((example, judged[1]["credit"] > judged[0]["credit"]))
        return examples

    def _case(
        self, reader: EvolutionFollower, asked: Mapping[str, Any], name: str, libraries: tuple[tuple[str, Library], ...]
    ) -> ExampleCase:
        example = self.example(reader, asked, name)
        manifest = reader.look().manifest
        dataset, file, right = self._dataset(asked), asked.get("corrections"), {}
        if isinstance(file, str):
            corrections = read_corrections(Path(str(asked.get("folder") or "")) / file)
            right = corrected_labels(dataset, corrections)[0]
        seen = []
        for title, library in libraries:
            line = read_result(reader.folder, question_key(library, example, manifest.get("router") is not None))
            seen.append(Seen(title, None if line is None else judgment_from_json({**line, "id": name})))
        changed = dataset.digest != manifest.get("data")
        return ExampleCase(example, right.get(name, example.preference), tuple(seen), changed)

    def _dataset(self, asked: Mapping[str, Any]) -> Dataset:
        spec, where = asked.get("data"), Path(str(asked.get("folder") or ""))
        if not isinstance(spec, str):
            raise RunError("This run does not record its data.", next_step="An earlier version wrote it. Run it again.")
        if spec not in {DEMO, FEEDBACK} and (where / spec).exists():
            spec = str(where / spec)
        skip = asked.get("skip_bad_rows") is True
        key = content_id([spec, asked.get("field"), asked.get("fields"), skip])
        with self._lock:
            data = self._data.get(key)
            if data is None:
                data = open_data(spec, self._settings, fields=_fields(asked, where), skip_bad_rows=skip)
            keep(self._data, key, data, MAX_DATA)
            return data


def _parts(dataset: Dataset, manifest: Mapping[str, Any]) -> tuple[tuple[Example, ...], tuple[Example, ...]]:
    """Return the training and the held-out examples of a run on these data."""
    labelled = [example for example in dataset.first(manifest.get("limit")).examples if example.preference is not None]
    return split(labelled, share=float(manifest["audit_share"]), seed=int(manifest["seed"]))


def _fields(asked: Mapping[str, Any], where: Path) -> FieldMap | None:
    """Return the columns that the command named."""
    named, file = asked.get("field"), asked.get("fields")
    pairs = [str(pair).partition("=") for pair in named] if isinstance(named, list) else []
    if not pairs and not file:
        return None
    before = read_fields(where / str(file)) if file else FieldMap()
    return parse_fields({name.strip(): column for name, _, column in pairs}, "--field").over(before)
