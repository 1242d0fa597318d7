"""Judges the items of an exam with one or several judges, resumably.

A run folder holds

    run.json          the manifest: task, data, protocol, sample, the judge that it is about
    exam.json         what was asked, so that a report needs neither the data nor a judge
    contenders.json   who answered: the judge, the same without a Library, baselines; `evolved_on` is true where the
                      Library was evolved on these very data
    results.jsonl     one line per judgment, appended; a contender that is added later adds its lines
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

from rewardharness.benchmark.items import BenchmarkData
from rewardharness.errors import DataError, RunError
from rewardharness.files import content_id, read_json, read_jsonl, write_json
from rewardharness.judging.evaluate import evaluate
from rewardharness.judging.identity import JudgeIdentity
from rewardharness.judging.judge import Judge
from rewardharness.judgments import judgment_from_json, result_line
from rewardharness.library.evolved import data_digests
from rewardharness.library.store import Library
from rewardharness.runs.store import RESULTS, RunFolder
from rewardharness.schema import Example, Json, Judgment

DATA_FILE = "exam.json"
ENTRIES_FILE = "contenders.json"
COMMAND = "benchmark"
"""The command in the manifest of a run."""

Role = Literal["judge", "empty", "baseline"]


@dataclass(frozen=True)
class BenchmarkEntry:
    """One row of the table: a judge with a Library."""

    role: Role
    """`judge`: whom the run is about. `empty`: the same without a Library. `baseline`: someone to compare with."""
    library: Library
    library_name: str
    """How people call the Library."""
    open: Callable[[bool], Judge]
    """Opens the judge; told whether ties are among the labels. The judge of a release does not go by that."""
    release: str = ""
    """Hash of the release that fixes the judge and how it judges; empty where none does. A row without a Library has
    the settings of the release, and is not the release."""
    release_ties: bool = False
    """Whether that release has `tie` among its answers, whatever the labels have."""
    release_data: frozenset[str] = frozenset()
    """As in `Release.evolved_on`: the Library of a release has no lineage."""

    @cached_property
    def identity(self) -> JudgeIdentity:
        """Its identity without ties, which the parts of a task decide."""
        return JudgeIdentity.of(self.open(False), self.library, self.release or None)

    @property
    def _row(self) -> Json:
        who = self.identity
        known = {"name": who.judge, "protocol": who.protocol, "revision": who.judge_revision}
        release = {"release" if self.role == "judge" else "settings_of": who.release} if who.release else {}
        return {**known, "library_id": who.library_id, **release}

    @cached_property
    def key(self) -> str:
        """Names the contender in a run folder."""
        return content_id(self._row)[:12]

    @cached_property
    def evolved_on(self) -> frozenset[str]:
        """Digests of the data that its Library was evolved on, as far as they are known."""
        return self.release_data | data_digests(self.library.lineage)

    def to_json(self) -> Json:
        """Put it into JSON."""
        ties = {"release_ties": self.release_ties} if self.release else {}
        return {"key": self.key, "role": self.role, "library": self.library_name, **self._row, **ties}


@dataclass(frozen=True)
class Cost:
    """What judging is expected to cost, said before anything is spent."""

    judgments: int
    known: int
    """Judgments that the run folder holds already."""
    requests: int
    """Requests to models for the others, at least: Tools and retries come on top, remembered answers cost none."""


def estimate(exam: BenchmarkData, contenders: Sequence[BenchmarkEntry], known: Mapping[str, Any]) -> Cost:
    """Count what is left to judge, and the requests that takes."""
    left = requests = 0
    for contender in contenders:
        judge = contender.open(False)
        for name, item in exam.items.items():
            if line_id(contender.key, name) not in known:
                left += 1
                requests += judge.estimate_cost(item.example)
    total = len(exam.items) * len(contenders)
    return Cost(total, total - left, requests)


def line_id(key: str, item: str) -> str:
    """Id of a result line."""
    return f"{key}/{item}"


def manifest(exam: BenchmarkData, contender: BenchmarkEntry) -> Json:
    """Say what a run is about: it goes on only while all of this stays the same."""
    return {
        "command": COMMAND,
        "task": exam.task.name,
        "task_digest": exam.task.digest,
        "data": exam.digest,
        "task_protocol": exam.protocol,
        "sampled": list(exam.sampled) if exam.sampled else None,
        "judge_name": contender.identity.judge,
        "judge_protocol": contender.identity.protocol,
        "judge_revision": contender.identity.judge_revision,
        "library_id": contender.library.id,
        **({"release": contender.release} if contender.release else {}),
    }


def judge_benchmark(
    run: RunFolder,
    exam: BenchmarkData,
    contenders: Sequence[BenchmarkEntry],
    *,
    concurrency: Callable[[Judge], int],
    on_judgment: Callable[[BenchmarkEntry, Judgment], None] | None = None,
    retry: bool = False,
    should_stop: Callable[[], bool] | None = None,
) -> None:
    """Judge whatever the run folder does not hold yet.

    Args:
        run: The run folder, open.
        exam: What is judged.
        contenders: By whom, in the order of the table.
        concurrency: How many examples are under way at once with a judge.
        on_judgment: Called for each judgment after it was written.
        retry: Judge again what could not be judged before.
        should_stop: Asked before each new example; when it says True, no new one is begun.
    """
    write_json(run.path / DATA_FILE, exam.to_json())
    _keep_contenders(run.path, contenders, exam.dataset)
    known = run.results()
    done = {name for name, line in known.items() if not (retry and judgment_from_json(line).failure)}
    for contender in contenders:
        for ties in (False, True):
            if should_stop is not None and should_stop():
                return
            left = [
                item.example
                for name, item in exam.items.items()
                if item.ties == ties and line_id(contender.key, name) not in done
            ]
            if left:
                _judge(run, contender, left, ties, concurrency, on_judgment, should_stop)


def _judge(
    run: RunFolder,
    contender: BenchmarkEntry,
    examples: Iterable[Example],
    ties: bool,
    concurrency: Callable[[Judge], int],
    on_judgment: Callable[[BenchmarkEntry, Judgment], None] | None,
    should_stop: Callable[[], bool] | None,
) -> None:
    judge = contender.open(ties)
    key = contender.key

    def keep(example: Example, judgment: Judgment) -> None:
        line = {**result_line(judgment), "id": line_id(key, example.id), "contender": key, "item": example.id}
        run.append(line)
        if on_judgment is not None:
            on_judgment(contender, judgment)

    evaluate(
        judge,
        contender.library,
        examples,
        concurrency=concurrency(judge),
        on_judgment=keep,
        should_stop=should_stop,
    )


def _keep_contenders(folder: Path, contenders: Sequence[BenchmarkEntry], data: str) -> None:
    """Write down who answers; who answered before stays, and so does what its Library was evolved on."""
    known = {each["key"]: each for each in read_entries(folder)}
    fresh = [contender.to_json() for contender in contenders]
    for contender, row in zip(contenders, fresh, strict=True):
        if data in contender.evolved_on or known.get(contender.key, {}).get("evolved_on"):
            row["evolved_on"] = True
    write_json(
        folder / ENTRIES_FILE, [*fresh, *(each for key, each in known.items() if key not in {f["key"] for f in fresh})]
    )


def read_entries(folder: Path) -> list[Json]:
    """Read who answered in a run, in the order of the table; empty before anyone has."""
    file = folder / ENTRIES_FILE
    found = read_json(file) if file.exists() else []
    if not isinstance(found, list) or not all(isinstance(each, dict) and "key" in each for each in found):
        raise DataError(f"{file} is no list of contenders.", next_step="Begin the run anew with --restart.")
    return found


def read_benchmark(folder: Path) -> Json:
    """Read what a run asks.

    Raises:
        RunError: If the folder holds no benchmark.
    """
    if not (folder / DATA_FILE).is_file():
        raise RunError(f"{folder} holds no benchmark.", next_step="Name a run folder of `rh benchmark`.")
    found = read_json(folder / DATA_FILE)
    if not isinstance(found, dict) or "questions" not in found:
        raise RunError(f"{folder / DATA_FILE} cannot be read.", next_step="Begin the run anew with --restart.")
    return found


def read_known(folder: Path) -> dict[str, Any]:
    """Read the result lines of a run by their ids; of several with one id, the last. Empty for no run."""
    return {str(line["id"]): line for _, line in read_jsonl(folder / RESULTS) if "id" in line}


def read_judgments(folder: Path) -> dict[str, dict[str, Judgment]]:
    """Read the judgments of a run: by contender, then by item."""
    found: dict[str, dict[str, Judgment]] = {}
    for line in read_known(folder).values():
        if "contender" in line and "item" in line:
            found.setdefault(str(line["contender"]), {})[str(line["item"])] = judgment_from_json(
                {**line, "id": line["item"]}
            )
    return found
