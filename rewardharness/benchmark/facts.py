"""Results of a benchmark as facts on the card of a Library."""

import re
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rewardharness.benchmark.comparison import PairedTest
from rewardharness.benchmark.figures import full_name, main_numbers, sampled
from rewardharness.benchmark.numbers import Number
from rewardharness.benchmark.result import BenchmarkResult, BenchmarkRow
from rewardharness.errors import InputError, LibraryError
from rewardharness.files import write_json
from rewardharness.hub.repository import Access, Repo
from rewardharness.judging.report import wilson
from rewardharness.library.card import BENCHMARK_FILE, Facts, PairedGain, facts_json
from rewardharness.library.problems import FormatError
from rewardharness.library.store import Library
from rewardharness.library.yamlsafe import print_yaml, read_yaml
from rewardharness.schema import Accuracy, Interval

_METRICS = frozenset({"exact", "forced", "groups", "fitted"})


def make_facts(result: BenchmarkResult, library: Library) -> tuple[Facts, ...]:
    """Return the accuracies of a run with and without a Library, for its card: of its judge, and of all with a gain.

    Raises:
        LibraryError: If the run is about another Library.
    """
    judges = [row for row in result.rows if row.role == "judge"]
    gains = {(test.second.name, test.part): test for test in result.gains}
    compared = {name for name, _ in gains}
    rows = [row for row in result.rows if row.library_id == library.id and (row in judges or row.label in compared)]
    if not rows:
        others = ", ".join(sorted({row.library_id[:12] for row in judges}))
        step = "Run the benchmark with the Library that is to be published."
        raise LibraryError(f"The run is about the Library {others}, not about {library.id[:12]}.", next_step=step)
    return tuple(fact for row in rows for fact in _facts(result, row, gains))


def _facts(result: BenchmarkResult, row: BenchmarkRow, gains: Mapping[tuple[str, str], PairedTest]) -> Iterator[Facts]:
    """Yield the accuracies of a judge with the Library and without it, and the gain on what it judged both times."""
    empty = (other for other in result.rows if other.role == "empty")
    without = next((other for other in empty if other.judge_id == row.judge_id), None)
    bare_numbers = {number.title: number for number in (without.numbers if without else ())}
    parts = {part.name: part.labels for part in result.parts}
    exact = [each for each in row.numbers if each.metric == "exact" and each.labels in ((), parts.get(each.part))]
    paired = [each.part for each in exact]  # a part of several questions has one test and several accuracies
    sample = f" ({sampled(result)})" if sampled(result) else ""
    shared: dict[str, Any] = {
        "library_id": row.library_id,
        "judge": row.name,
        "protocol": f"{result.protocol}; {', '.join(row.protocols)}",
    }
    shared |= {"dataset": result.hub, "evolved_on": bool(row.evolved_on)}
    for number in row.numbers:
        if number.metric not in _METRICS or not number.judged:
            continue
        bare = bare_numbers.get(number.title)
        about = {**shared, "data": f"{result.task.title}, {number.part}{sample}", "label_kind": number.part}
        about |= {"metric": full_name(number, parts.get(number.part, ())), **_exploit(row, number.part)}
        if bare:
            about |= {"without": _count(bare), "without_interval": _interval(bare) if bare.judged else None}
        if paired.count(number.part) == 1 and number in exact and (test := gains.get((row.label, number.part))):
            about |= {"gain": _gain(test)}
        yield Facts(**about, accuracy=_count(number), interval=_interval(number))


def _gain(test: PairedTest) -> PairedGain | None:
    if test.gain is None:
        return None
    return PairedGain(test.gain, test.interval, test.p, test.n, test.judged_by_both, test.better, test.worse)


def _exploit(row: BenchmarkRow, part: str) -> Mapping[str, Any]:
    """Return the reward of the exploit, if the part is an attack."""
    for number in row.numbers:
        if number.part == part and number.metric == "exploit_reward" and number.value is not None:
            interval = Interval(*number.interval) if number.interval else None
            return {"exploit_reward": number.value, "exploit_interval": interval}
    return {}


def _count(number: Number) -> Accuracy:
    return Accuracy(number.n, number.judged, number.detail.correct or 0.0)


def _interval(number: Number) -> Interval:
    """Return the interval of the share of judged questions."""
    if number.interval and number.basis == "judged":
        return Interval(*number.interval)
    interval = wilson(_count(number).correct, number.judged)
    assert interval is not None
    return interval


def write_for_library(folder: Path, result: BenchmarkResult) -> Path:
    """Write the results of a run into the folder of its Library, for the card.

    Raises:
        LibraryError: If the run is about another Library, or the folder holds none.
    """
    library = Library.load(folder)
    facts = make_facts(result, library)
    path = folder / BENCHMARK_FILE
    about = {"task": result.task.name, "revision": result.revision, "digest": result.digest}
    write_json(path, {"library_id": library.id, **about, "evaluation": [facts_json(row) for row in facts]})
    return path


PREFIX = "model:"
"""Precedes a model repository, as in `model:org/name`."""
FOLDER, TASKS = ".eval_results", "eval.yaml"
MAX_TASKS = 100_000
"""Maximum size of an `eval.yaml` in bytes."""
_COMMIT = re.compile(r"\b[0-9a-f]{40}\b")


def eval_results(result: BenchmarkResult, access: Access) -> tuple[Mapping[str, Any], ...]:
    """Return the results of the judge of a run, as entries of a file in `.eval_results`.

    Raises:
        InputError: If the run is incomplete or a sample, or the dataset is no benchmark with these tasks.
        HubError: If the Hub rejects the request.
    """
    row = result.rows[0]
    if result.sampled or row.judged < row.items or result.skipped or row.evolved_on or not result.hub:
        message = "Only a complete run on all data of a dataset on the Hub, with a Library not evolved on them, counts."
        raise InputError(message, next_step="Leave out --limit, and judge again what failed.")
    revision, tasks = _COMMIT.search(result.revision), _tasks(Repo(result.hub, access, "dataset"))
    entries = []
    for part in result.parts:
        number = main_numbers(row).get(part.name)
        own = (part.name, f"{part.config} {part.split}")
        named = [task for task in tasks if {task.get("id"), _place(task)} & {*own}]
        if number is None or number.value is None or len(named) != 1:
            continue
        about = f"{row.judge_label}, {row.protocol}; Library {row.library_id[:12]}; {result.protocol}, {number.name}"
        spread = " to ".join(f"{100 * bound:.1f}" for bound in number.interval or ())
        entry: dict[str, Any] = {"dataset": {"id": result.hub, "task_id": named[0]["id"]}}
        if revision:
            entry["dataset"]["revision"] = revision[0]
        entry["value"] = round(100 * number.value if number.is_share else number.value, 3)
        entries.append({**entry, "notes": f"RewardHarness: {about}; n {number.n}{spread and f', 95% CI {spread}'}"})
    if not entries:
        message = f"{TASKS} of {result.hub} names no task of this run: {', '.join(part.name for part in result.parts)}."
        raise InputError(message, next_step="Its tasks must name a part, or its configuration and split.")
    return tuple(entries)


def yaml_of(entries: Sequence[Mapping[str, Any]]) -> str:
    """Return entries as the text of a file in `.eval_results`."""
    return "".join("- " + print_yaml(entry).rstrip().replace("\n", "\n  ") + "\n" for entry in entries)


def publish_eval_results(
    entries: Sequence[Mapping[str, Any]], task: str, repo: str, access: Access, *, create_pr: bool = False
) -> str:
    """Write entries into a model repository in one commit, and return its address, or that of the pull request.

    Raises:
        HubError: If the Hub rejects the request.
    """
    hub = Repo(repo.removeprefix(PREFIX), access)
    files: dict[str, Any] = {f"{FOLDER}/rewardharness-{task}.yaml": yaml_of(entries).encode()}
    _, proposal = hub.commit(files, (), hub.head().commit, (f"Add results of {task}", ""), pull=create_pr)
    return proposal or hub.page


def _tasks(dataset: Repo) -> list[Mapping[str, Any]]:
    """Return the tasks of a benchmark."""
    commit = dataset.head().commit
    tree = dataset.tree(commit)
    try:
        if TASKS not in tree or tree[TASKS].size > MAX_TASKS:
            raise ValueError
        text = dataset.download(commit, [TASKS], tree, [TASKS])[TASKS].decode("utf-8")
        tasks = read_yaml(text, where=TASKS).value["tasks"]
        return [task for task in tasks if isinstance(task["id"], str)]
    except (FormatError, ValueError, KeyError, TypeError):
        step = "Publish in a leaderboard of your own instead: rh benchmark publish RUN ORG/NAME"
        message = f"{dataset.name} is no benchmark of the Hub: it has no valid {TASKS}."
        raise InputError(message, next_step=step) from None


def _place(task: Mapping[str, Any]) -> str:
    return f"{task.get('config', 'default')} {task.get('split', 'test')}"
