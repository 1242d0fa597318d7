"""Results as `.eval_results/*.yaml` in a model repository: of the judge's model, or of the Library.

The Hub shows them on the page of the model and on the leaderboard of the dataset, if that is a benchmark: Hugging Face
has registered it, and its `eval.yaml` names tasks. A result is one number per task, without interval and coverage, so
only complete runs on all data are published, and the note says what was measured.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from rewardharness.benchmark.figures import main_numbers
from rewardharness.benchmark.result import BenchmarkResult
from rewardharness.errors import InputError
from rewardharness.hub.repository import Access, Repo
from rewardharness.library.problems import FormatError
from rewardharness.library.yamlsafe import print_yaml, read_yaml

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
