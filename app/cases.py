"""Looks closely at single examples of a run: the pictures, the label, and how the judge got where it got.

A run's ledger keeps what was answered, not how. The chain is made again: the measured judge always says the same, and a
model's answers are remembered. No model is asked for this; what is not remembered any more is not shown.
"""

import threading
from collections import OrderedDict
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from app.following import Trail
from app.running import ModelRun, Running
from rewardharness.data.corrections import corrected_labels, read_corrections
from rewardharness.data.fields import FieldMap, parse_fields, read_fields
from rewardharness.data.opening import DEMO, FEEDBACK, open_data
from rewardharness.data.source import Dataset, split
from rewardharness.errors import DataError, HarnessError, RunError
from rewardharness.evolution.bench import question_key
from rewardharness.evolution.checkpoint import read_change, version_folder
from rewardharness.evolution.events import Decided
from rewardharness.files import content_id
from rewardharness.judging.cache import FILE, JudgmentCache
from rewardharness.judging.judge import Judge
from rewardharness.judging.measured import NAME as MEASURED
from rewardharness.judging.measured import MeasuredJudge
from rewardharness.judging.subagent import SubAgent, SubAgentSettings
from rewardharness.judgments import judgment_from_json
from rewardharness.library.store import Library
from rewardharness.models.base import ChatRequest, ModelError, Reply
from rewardharness.schema import Example, Judgment
from rewardharness.settings import Settings

MOST_DATA = 3
"""Datasets that are remembered, at most."""


@dataclass(frozen=True)
class Seen:
    """One judgment of an example in a run."""

    library: str
    """Name of the Library that the judge read."""
    recorded: Judgment | None
    """As the run recorded it; None where nothing was recorded."""
    judgment: Judgment | None = None
    """The judgment made again, with its chain; None where that could not be done."""
    model: ModelRun | None = None
    """How a model judged; None for the measured judge."""
    why_not: str = ""
    """Why it could not be made again, a sentence."""

    @property
    def same(self) -> bool:
        """Whether the judgment made again is the one that was recorded, as far as that can be told."""
        if self.judgment is None or self.recorded is None:
            return True
        return self.judgment.preference == self.recorded.preference


@dataclass(frozen=True)
class Case:
    """An example of a run, and how it was judged."""

    example: Example
    """With its label as it was given."""
    label: str | None
    """The label that counted in the run: another one where it was corrected."""
    seen: tuple[Seen, ...]
    """Judgments, the earlier first."""
    changed: bool = False
    """Whether the data are not what they were when the run began."""


class Remembered:
    """Stands for a model that is not asked: all its answers come from what is remembered."""

    def __init__(self, model: str) -> None:
        self.id = model

    async def ask(self, request: ChatRequest) -> Reply:
        """Fail: nobody is asked."""
        raise ModelError("unreachable", "This answer is not remembered any more.")

    async def close(self) -> None:
        """There is nothing to close."""


class Cases:
    """Makes cases. Remembers datasets, and nothing of visitors.

    Args:
        settings: The settings.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._data: OrderedDict[str, Dataset] = OrderedDict()
        self._measured: dict[bool, MeasuredJudge] = {}
        self._lock = threading.Lock()

    def libraries(self, folder: Path, event: Decided) -> tuple[Library, Library]:
        """The Libraries before an edit and with it, kept or not.

        Raises:
            LibraryError: If the version is not there.
            RunError: If the run does not say what the edit was.
        """
        before = Library.load(version_folder(folder, event.version - event.accepted))
        if event.accepted:
            return before, Library.load(version_folder(folder, event.version))
        if not event.changes:
            raise RunError(f"This run does not say what “{event.operator}” was.", next_step="Look at kept edits.")
        after = before
        for change in event.changes:
            after = after.apply(read_change(change))
        return before, after

    def of_edit(self, trail: Trail, asked: Mapping[str, Any], event: Decided, name: str) -> Case:
        """An example before and after an edit.

        Raises:
            HarnessError: If the example or the Libraries are not there.
        """
        sight = trail.look()
        before, after = self.libraries(sight.folder, event)
        number = event.version - event.accepted
        with_edit = f"version {event.version}" if event.accepted else "the edit that was sent back"
        return self._case(trail, asked, name, ((f"version {number}", before), (with_edit, after)))

    def of_version(self, trail: Trail, asked: Mapping[str, Any], number: int, name: str) -> Case:
        """An example as a version judges it.

        Raises:
            HarnessError: If the example or the version is not there.
        """
        library = Library.load(version_folder(trail.look().folder, number))
        return self._case(trail, asked, name, ((f"version {number}", library),))

    def example(self, trail: Trail, asked: Mapping[str, Any], name: str) -> Example:
        """An example of the pool, with its label as it was given.

        Raises:
            HarnessError: If the pool has no such example, or its data are gone. What the audit holds is not shown.
        """
        dataset, manifest = self._dataset(asked), trail.look().manifest
        examples = {example.id: example for example in dataset.examples}
        if name not in examples:
            raise DataError(f"The data hold no example {name!r}.", next_step="Look at another one.")
        pool = trail.watched()
        if dataset.digest == manifest.get("data"):
            labelled = [example for example in dataset.examples if example.preference is not None]
            parts = split(labelled, share=float(manifest["audit_share"]), seed=int(manifest["seed"]))
            pool = frozenset(example.id for example in parts[0])
        if name not in pool:
            raise DataError("This example is none that the run learns from.", next_step="Choose one of the list.")
        return examples[name]

    def _case(
        self, trail: Trail, asked: Mapping[str, Any], name: str, libraries: tuple[tuple[str, Library], ...]
    ) -> Case:
        example = self.example(trail, asked, name)
        sight, recorded = trail.look(), trail.recorded()
        dataset, file, right = self._dataset(asked), asked.get("corrections"), {}
        if isinstance(file, str):
            said = read_corrections(Path(str(asked.get("folder") or "")) / file)
            right = corrected_labels(dataset, said)[0]
        label = right.get(name, example.preference)
        seen = []
        for called, library in libraries:
            line = recorded.get(question_key(library, example, asked.get("router") is not None))
            before = None if line is None else judgment_from_json(line)
            try:
                judge = self._judge(sight.manifest, asked)
                seen.append(judge_again(Seen(called, before), judge, library, example))
            except (HarnessError, OSError, TypeError, ValueError) as error:
                why = error.message if isinstance(error, HarnessError) else "How it was judged is not kept."
                seen.append(Seen(called, before, why_not=why))
        return Case(example, label, tuple(seen), dataset.digest != sight.manifest.get("data"))

    def _judge(self, manifest: Mapping[str, Any], asked: Mapping[str, Any]) -> Judge:
        """The judge of a run, as it was; a model answers from memory alone."""
        cache = Path(str(asked.get("cache") or self._settings.home / "cache"))
        if manifest["judge"] == MEASURED:
            return self._measure(bool(asked.get("ties")))
        if asked.get("router") is not None:
            raise RunError("A model chose the entries for this run; that is not made again.")
        if not isinstance(asked.get("how"), dict) or not (cache / FILE).is_file():
            raise RunError("How it was judged is not kept.")
        return SubAgent(Remembered(manifest["judge"]), SubAgentSettings(**asked["how"]), JudgmentCache(cache))

    def _measure(self, ties: bool) -> MeasuredJudge:
        with self._lock:
            if ties not in self._measured:
                cache = JudgmentCache(self._settings.home / "cache")
                self._measured[ties] = MeasuredJudge(ties=ties, workers=self._settings.workers, cache=cache)
            return self._measured[ties]

    def _dataset(self, asked: Mapping[str, Any]) -> Dataset:
        spec, where = asked.get("data"), Path(str(asked.get("folder") or ""))
        if not isinstance(spec, str):
            raise RunError("This run does not say where its data lie.", next_step="Runs that begin from now on do.")
        if spec not in {DEMO, FEEDBACK} and (where / spec).exists():
            spec = str(where / spec)
        skip = asked.get("skip_bad_rows") is True
        key = content_id([spec, asked.get("field"), asked.get("fields"), skip])
        with self._lock:
            found = self._data.get(key)
            if found is None:
                fields = _fields(asked, where)
                found = self._data[key] = open_data(spec, self._settings, fields=fields, skip_bad_rows=skip)
            self._data.move_to_end(key)
            while len(self._data) > MOST_DATA:
                self._data.popitem(last=False)
            return found


def _fields(asked: Mapping[str, Any], where: Path) -> FieldMap | None:
    """The columns that the command named."""
    named, file = asked.get("field"), asked.get("fields")
    pairs = [str(each).partition("=") for each in named] if isinstance(named, list) else []
    if not pairs and not file:
        return None
    before = read_fields(where / str(file)) if file else FieldMap()
    return parse_fields({name.strip(): column for name, _, column in pairs}, "--field").over(before)


def judge_again(seen: Seen, judge: Judge, library: Library, example: Example) -> Seen:
    """Judge again."""
    running = Running(judge, library, example)
    for _ in running.follow():
        pass
    judgment = running.result()
    if judgment is not None and judgment.failure is not None and judgment.failure.code == "unreachable":
        return replace(seen, why_not="How the model got there is not remembered any more.")
    return replace(seen, judgment=judgment, model=running.model)
