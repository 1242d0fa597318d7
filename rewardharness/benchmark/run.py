"""Judging of the items of a benchmark with one or several entries, resumably.

A run folder holds

    run.json          the manifest: task, data, protocol, sample, the judge that it is about
    exam.json         items and questions, so that a report needs neither the data nor a judge
    contenders.json   the entries: the judge, the same without a Library, baselines; `evolved_on` is true if the
                      Library was evolved on the same data
    results.jsonl     one line per judgment, appended; entries can be added later
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, Literal

from rewardharness.benchmark.items import BenchmarkData, RunData
from rewardharness.codec import UNSET, UnsetType, ValidationError, from_json, to_json
from rewardharness.errors import DataError, RunError
from rewardharness.files import content_id, read_json, write_json
from rewardharness.judging.batches import JUDGING, Batch
from rewardharness.judging.config import EVIDENCE
from rewardharness.judging.identity import JudgeIdentity
from rewardharness.judging.judge import Judge
from rewardharness.judging.model_config import WITH_EVIDENCE
from rewardharness.judgments import judgment_from_json
from rewardharness.library.evolved import data_digests
from rewardharness.library.store import Library
from rewardharness.runs.store import results_of
from rewardharness.schema import Json, Judgment

DATA_FILE = "exam.json"
ENTRIES_FILE = "contenders.json"
COMMAND = "benchmark"
"""Job type in the manifest of a run."""

Role = Literal["judge", "empty", "baseline"]


@dataclass(frozen=True, kw_only=True)
class EntryRecord:
    """One row of the table as the run folder holds it."""

    key: str
    """Hash of what follows, but for role and Library name."""
    role: Role
    library: str
    """Display name of the Library."""
    name: str
    """The judge."""
    protocol: str
    revision: str
    library_id: str
    release: str | UnsetType = UNSET
    """Hash of the release that judges."""
    settings_of: str | UnsetType = UNSET
    """Hash of the release whose settings an entry without a Library has."""
    release_ties: bool | UnsetType = UNSET
    evolved_on: bool | UnsetType = UNSET
    """True if the Library was evolved on the judged data."""
    apart: str | UnsetType = UNSET
    """What tells it from rows of the same judge, for display."""

    @property
    def judge_label(self) -> str:
        """Display name of the judge, as it is spelled for `--judges`."""
        return f"{self.name}{EVIDENCE}" if self.protocol.endswith(WITH_EVIDENCE) else self.name

    @property
    def judge_id(self) -> tuple[str, str, str]:
        """What rows of the same judge have in common, whatever their Library."""
        return self.name, self.protocol, self.revision

    @property
    def label(self) -> str:
        """Display name of the entry."""
        name = self.judge_label if self.role == "baseline" else f"{self.judge_label}, {self.library}"
        return f"{name} ({self.apart})" if self.apart else name


@dataclass(frozen=True)
class BenchmarkEntry:
    """One row of the table: a judge with a Library."""

    role: Role
    """`judge`: the judge of the run. `empty`: the same without a Library. `baseline`: a further judge."""
    library: Library
    library_name: str
    """Display name of the Library."""
    open: Callable[[bool], Judge]
    """Opens the judge. The argument says whether the labels have ties; the judge of a release ignores it."""
    release: str = ""
    """Hash of the release that fixes judge and settings; empty without one. An entry without a Library has the settings
    of the release, and is not the release."""
    release_ties: bool = False
    """Whether the release predicts ties, independent of the labels."""
    release_data: frozenset[str] = frozenset()
    """As in `Release.evolved_on`. The Library of a release has no lineage."""

    @cached_property
    def identity(self) -> JudgeIdentity:
        """The identity of the judge without ties, which depend on the parts of a task."""
        return JudgeIdentity.of(self.open(False), self.library, self.release or None)

    @cached_property
    def record(self) -> EntryRecord:
        """The entry in a run folder."""
        who = self.identity
        facts: dict[str, Any] = {"name": who.judge, "protocol": who.protocol, "revision": who.judge_revision}
        facts["library_id"] = who.library_id
        if who.release:
            facts["release" if self.role == "judge" else "settings_of"] = who.release
        ties = self.release_ties if self.release else UNSET
        key = content_id(facts)[:12]
        return EntryRecord(key=key, role=self.role, library=self.library_name, release_ties=ties, **facts)

    @property
    def key(self) -> str:
        """Key of the entry in a run folder."""
        return self.record.key

    @cached_property
    def evolved_on(self) -> frozenset[str]:
        """Known digests of the data that the Library was evolved on."""
        return self.release_data | data_digests(self.library.lineage)


def line_id(key: str, item: str) -> str:
    """Return the id of a result line."""
    return f"{key}/{item}"


def manifest(data: BenchmarkData, entry: BenchmarkEntry) -> Json:
    """Return the manifest of a run, which must be unchanged for it to resume."""
    return {
        "command": COMMAND,
        "task": data.task.name,
        "task_digest": data.task.digest,
        "data": data.digest,
        "task_protocol": data.protocol,
        "sampled": list(data.sampled) if data.sampled else None,
        "judge_name": entry.identity.judge,
        "judge_protocol": entry.identity.protocol,
        "judge_revision": entry.identity.judge_revision,
        "library_id": entry.library.id,
        **({"release": entry.release} if entry.release else {}),
    }


def batches(
    data: BenchmarkData, entries: Sequence[BenchmarkEntry], label: str = JUDGING, concurrency: int = 0
) -> list[Batch]:
    """Return what is judged: the items of each entry, those whose labels have ties after the others."""
    result = []
    for entry in entries:
        for ties in (False, True):
            examples = [item.example for item in data.items.values() if item.ties == ties]
            if examples:
                judge, line = entry.open(ties), partial(_line, entry.key)
                what = f"{label} with {entry.identity.judge}"
                result.append(Batch(judge, entry.library, examples, line, what, concurrency))
    return result


def _line(key: str, item: str) -> Json:
    return {"id": line_id(key, item), "contender": key, "item": item}


def write_about(folder: Path, data: BenchmarkData, entries: Sequence[BenchmarkEntry]) -> None:
    """Write items and entries. Earlier entries of the run are kept, and so is `evolved_on`."""
    write_json(folder / DATA_FILE, to_json(data.record))
    known = {record.key: record for record in read_entries(folder)}
    records = []
    for entry in entries:
        earlier = known.pop(entry.key, None)
        evolved = data.dataset in entry.evolved_on or bool(earlier and earlier.evolved_on)
        records.append(replace(entry.record, evolved_on=True) if evolved else entry.record)
    write_json(folder / ENTRIES_FILE, to_json([*records, *known.values()]))


def read_entries(folder: Path) -> tuple[EntryRecord, ...]:
    """Read the entries of a run, in the order of the table; empty before it starts.

    Raises:
        DataError: If the file cannot be read.
    """
    file = folder / ENTRIES_FILE
    try:
        entries = from_json(tuple[EntryRecord, ...], read_json(file)) if file.exists() else ()
        names = [(entry.judge_label, entry.library) for entry in entries]
        return tuple(
            replace(entry, apart=entry.protocol) if names.count(name) > 1 else entry
            for entry, name in zip(entries, names, strict=True)
        )
    except ValidationError as error:
        message = f"{file} is not a list of entries: {error.message}."
        raise DataError(message, next_step="Start the run over with --restart.") from None


def read_benchmark(folder: Path) -> RunData:
    """Read items and questions of a run.

    Raises:
        RunError: If the folder holds no benchmark.
    """
    file = folder / DATA_FILE
    if not file.is_file():
        raise RunError(f"{folder} holds no benchmark.", next_step="Name a run of `rh benchmark`: rh runs list")
    try:
        return from_json(RunData, read_json(file))
    except ValidationError as error:
        message = f"{file} cannot be read: {error.message}."
        raise RunError(message, next_step="Start the run over with --restart.") from None


def read_judgments(folder: Path) -> dict[str, dict[str, Judgment]]:
    """Read the judgments of a run, by entry and item."""
    judgments: dict[str, dict[str, Judgment]] = {}
    for line in results_of(folder).values():
        if "contender" in line and "item" in line:
            judgments.setdefault(str(line["contender"]), {})[str(line["item"])] = judgment_from_json(
                {**line, "id": line["item"]}, steps=False
            )
    return judgments
