"""Single examples of an evolution: the images, the label, and the reasoning of the judge.

Images and labels are read from the data of the run, judgments from its folder. Nothing is judged again.
"""

import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.evolve_runs import EvolutionReader
from app.following import keep
from rewardharness.data.corrections import corrected_labels, read_corrections
from rewardharness.data.fields import FieldMap, parse_fields, read_fields
from rewardharness.data.opening import DEMO, FEEDBACK, open_data
from rewardharness.data.source import Dataset, split
from rewardharness.errors import DataError, RunError
from rewardharness.evolution.checkpoint import read_change, version_folder
from rewardharness.evolution.evaluator import question_key
from rewardharness.evolution.events import Decided
from rewardharness.files import content_id
from rewardharness.judgments import judgment_from_json
from rewardharness.library.store import Library
from rewardharness.runs.store import read_result
from rewardharness.schema import Example, Judgment
from rewardharness.settings import Settings

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
class Case:
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

    def of_edit(self, reader: EvolutionReader, asked: Mapping[str, Any], event: Decided, name: str) -> Case:
        """Return an example before and after an edit.

        Raises:
            HarnessError: If the example or the Libraries do not exist.
        """
        before, after = self.libraries(reader.folder, event)
        number = event.version - event.accepted
        with_edit = f"version {event.version}" if event.accepted else "the rejected edit"
        return self._case(reader, asked, name, ((f"version {number}", before), (with_edit, after)))

    def of_version(self, reader: EvolutionReader, asked: Mapping[str, Any], number: int, name: str) -> Case:
        """Return an example as a version judges it.

        Raises:
            HarnessError: If the example or the version does not exist.
        """
        library = Library.load(version_folder(reader.folder, number))
        return self._case(reader, asked, name, ((f"version {number}", library),))

    def example(self, reader: EvolutionReader, asked: Mapping[str, Any], name: str) -> Example:
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
            labelled = [example for example in dataset.examples if example.preference is not None]
            parts = split(labelled, share=float(manifest["audit_share"]), seed=int(manifest["seed"]))
            pool = frozenset(example.id for example in parts[0])
        if name not in pool:
            raise DataError("This is not a training example of the run.", next_step="Choose one of the list.")
        return examples[name]

    def _case(
        self, reader: EvolutionReader, asked: Mapping[str, Any], name: str, libraries: tuple[tuple[str, Library], ...]
    ) -> Case:
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
        return Case(example, right.get(name, example.preference), tuple(seen), changed)

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


def _fields(asked: Mapping[str, Any], where: Path) -> FieldMap | None:
    """Return the columns that the command named."""
    named, file = asked.get("field"), asked.get("fields")
    pairs = [str(pair).partition("=") for pair in named] if isinstance(named, list) else []
    if not pairs and not file:
        return None
    before = read_fields(where / str(file)) if file else FieldMap()
    return parse_fields({name.strip(): column for name, _, column in pairs}, "--field").over(before)
