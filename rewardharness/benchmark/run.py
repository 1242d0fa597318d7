"""Judging of the items of a benchmark with one or several entries, resumably.

A run folder holds

    run.json          the manifest: task, data, protocol, sample, the judge that it is about
    exam.json         items and questions, so that a report needs neither the data nor a judge
    contenders.json   the entries: the judge, the same without a Library, baselines; `evolved_on` is true if the
                      Library was evolved on the same data
    results.jsonl     one line per judgment, appended; entries can be added later
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from rewardharness.benchmark.items import BenchmarkData, BenchmarkItem
from rewardharness.errors import DataError, RunError
from rewardharness.files import content_id, read_json, write_json
from rewardharness.judging.evaluate import evaluate
from rewardharness.judging.identity import JudgeIdentity
from rewardharness.judging.judge import Judge
from rewardharness.judgments import judgment_from_json, result_line
from rewardharness.library.evolved import data_digests
from rewardharness.library.store import Library
from rewardharness.runs.store import RunFolder, results_of
from rewardharness.schema import Example, Json, Judgment

DATA_FILE = "exam.json"
ENTRIES_FILE = "contenders.json"
COMMAND = "benchmark"
"""Job type in the manifest of a run."""

Role = Literal["judge", "empty", "baseline"]


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

    @property
    def _row(self) -> Json:
        who = self.identity
        known = {"name": who.judge, "protocol": who.protocol, "revision": who.judge_revision}
        release = {"release" if self.role == "judge" else "settings_of": who.release} if who.release else {}
        return {**known, "library_id": who.library_id, **release}

    @cached_property
    def key(self) -> str:
        """Key of the entry in a run folder."""
        return content_id(self._row)[:12]

    @cached_property
    def evolved_on(self) -> frozenset[str]:
        """Known digests of the data that the Library was evolved on."""
        return self.release_data | data_digests(self.library.lineage)

    def to_json(self) -> Json:
        """Return the entry as JSON."""
        ties = {"release_ties": self.release_ties} if self.release else {}
        return {"key": self.key, "role": self.role, "library": self.library_name, **self._row, **ties}


@dataclass(frozen=True)
class Cost:
    """Cost estimate of a benchmark."""

    judgments: int
    known: int
    """Judgments that the run folder already holds."""
    requests: int
    """Minimum number of requests to models for the others; Tools and retries need more, cached answers none."""
    crops: int
    """Maximum number of images that measured evidence adds to these requests."""


def estimate(data: BenchmarkData, entries: Sequence[BenchmarkEntry], known: Mapping[str, Any]) -> Cost:
    """Count what is left to judge, and the requests that it takes."""
    left = requests = crops = 0
    for entry in entries:
        judge = entry.open(False)
        for item in missing(data, entry, known):
            left += 1
            requests += judge.estimate_cost(item.example)
            crops += judge.estimate_crops(item.example)
    total = len(data.items) * len(entries)
    return Cost(total, total - left, requests, crops)


def missing(
    data: BenchmarkData, entry: BenchmarkEntry, known: Mapping[str, Any], retry: bool = False
) -> list[BenchmarkItem]:
    """Return the items that an entry has not judged.

    Args:
        data: All items.
        entry: The entry.
        known: Result lines by id.
        retry: Whether judgments that failed count as missing.
    """

    def judged(name: str) -> bool:
        return name in known and not (retry and judgment_from_json(known[name], steps=False).failure)

    return [item for name, item in data.items.items() if not judged(line_id(entry.key, name))]


def count_missing(
    data: BenchmarkData, entries: Sequence[BenchmarkEntry], known: Mapping[str, Any], retry: bool = False
) -> int:
    """Count the judgments that are left to make; see `missing`."""
    return sum(len(missing(data, entry, known, retry)) for entry in entries)


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


def judge_benchmark(
    run: RunFolder,
    data: BenchmarkData,
    entries: Sequence[BenchmarkEntry],
    *,
    concurrency: Callable[[Judge], int],
    on_judgment: Callable[[BenchmarkEntry, Judgment], None] | None = None,
    retry: bool = False,
    should_stop: Callable[[], bool] | None = None,
) -> None:
    """Judge what the run folder does not hold yet.

    Args:
        run: The run folder, open.
        data: Items to judge.
        entries: The entries, in the order of the table.
        concurrency: Returns the number of examples that a judge judges at the same time.
        on_judgment: Called for each judgment after it is written.
        retry: Judge again what could not be judged before.
        should_stop: Called before each example; no further example starts once it returns True.
    """
    write_json(run.path / DATA_FILE, data.to_json())
    _write_entries(run.path, entries, data.dataset)
    known = run.results()
    for entry in entries:
        items = missing(data, entry, known, retry)
        for ties in (False, True):
            if should_stop is not None and should_stop():
                return
            left = [item.example for item in items if item.ties == ties]
            if left:
                _judge(run, entry, left, ties, concurrency, on_judgment, should_stop)


def _judge(
    run: RunFolder,
    entry: BenchmarkEntry,
    examples: Iterable[Example],
    ties: bool,
    concurrency: Callable[[Judge], int],
    on_judgment: Callable[[BenchmarkEntry, Judgment], None] | None,
    should_stop: Callable[[], bool] | None,
) -> None:
    judge = entry.open(ties)
    key = entry.key

    def keep(example: Example, judgment: Judgment) -> None:
        line = {**result_line(judgment), "id": line_id(key, example.id), "contender": key, "item": example.id}
        run.append(line)
        if on_judgment is not None:
            on_judgment(entry, judgment)

    evaluate(
        judge,
        entry.library,
        examples,
        concurrency=concurrency(judge),
        on_judgment=keep,
        should_stop=should_stop,
    )


def _write_entries(folder: Path, entries: Sequence[BenchmarkEntry], digest: str) -> None:
    """Write the entries. Earlier entries of the run are kept, and so is `evolved_on`."""
    known = {each["key"]: each for each in read_entries(folder)}
    fresh = [entry.to_json() for entry in entries]
    for entry, row in zip(entries, fresh, strict=True):
        if digest in entry.evolved_on or known.get(entry.key, {}).get("evolved_on"):
            row["evolved_on"] = True
    write_json(
        folder / ENTRIES_FILE, [*fresh, *(each for key, each in known.items() if key not in {f["key"] for f in fresh})]
    )


def read_entries(folder: Path) -> list[Json]:
    """Read the entries of a run, in the order of the table; empty before it starts."""
    file = folder / ENTRIES_FILE
    found = read_json(file) if file.exists() else []
    if not isinstance(found, list) or not all(isinstance(each, dict) and "key" in each for each in found):
        raise DataError(f"{file} is not a list of entries.", next_step="Start the run over with --restart.")
    return found


def read_benchmark(folder: Path) -> Json:
    """Read items and questions of a run.

    Raises:
        RunError: If the folder holds no benchmark.
    """
    if not (folder / DATA_FILE).is_file():
        raise RunError(f"{folder} holds no benchmark.", next_step="Name a run folder of `rh benchmark`.")
    found = read_json(folder / DATA_FILE)
    if not isinstance(found, dict) or "questions" not in found:
        raise RunError(f"{folder / DATA_FILE} cannot be read.", next_step="Start the run over with --restart.")
    return found


def read_judgments(folder: Path) -> dict[str, dict[str, Judgment]]:
    """Read the judgments of a run, by entry and item."""
    found: dict[str, dict[str, Judgment]] = {}
    for line in results_of(folder).values():
        if "contender" in line and "item" in line:
            found.setdefault(str(line["contender"]), {})[str(line["item"])] = judgment_from_json(
                {**line, "id": line["item"]}, steps=False
            )
    return found
