"""Numbers of a result, as text (command line, Markdown, HTML) and as facts on the card of a Library.

Names are untrusted and not escaped.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from rewardharness.benchmark.comparison import PairedTest
from rewardharness.benchmark.items import DataFacts
from rewardharness.benchmark.metrics import Bounds, split
from rewardharness.benchmark.numbers import GIVEN_FLOOR, GRADE, RATING, Number, NumberFacts
from rewardharness.benchmark.result import BenchmarkResult, BenchmarkRow
from rewardharness.benchmark.run import EntryRecord
from rewardharness.benchmark.task import BOTH_BAD
from rewardharness.errors import InputError, LibraryError
from rewardharness.files import write_json
from rewardharness.hub.repository import Access, Repo
from rewardharness.judging.report import consulted_words, wilson
from rewardharness.library.card import BENCHMARK_FILE, Facts, PairedGain, facts_json
from rewardharness.library.evolved import caution
from rewardharness.library.problems import FormatError
from rewardharness.library.store import Library
from rewardharness.library.yamlsafe import print_yaml, read_yaml
from rewardharness.schema import TIE, Accuracy, Interval

_MAIN = {"groups", "macro", "spearman"}
"""Metrics whose number is the main one of its part, before accuracy."""


def figure(number: NumberFacts) -> str:
    """Format a number with its interval, in percent for shares."""
    if number.value is None:
        return "-"
    scale, digits = (100, 1) if number.is_share else (1, {RATING: 0, GRADE: 2}.get(number.metric, 3))
    span = number.interval
    interval = f" [{span[0] * scale:.{digits}f}, {span[1] * scale:.{digits}f}]" if span else ""
    return f"{number.value * scale:.{digits}f}{interval}"


def judged(number: Number) -> str:
    """Format the number of judged questions."""
    return f"{number.judged} of {number.n}"


def full_name(number: Number, part: Sequence[str]) -> str:
    """Describe a number without context, as on a card: labels, and the treatment of ties.

    Args:
        number: A number that is a share of questions: not a mean over categories, not a correlation.
        part: Labels of its part.
    """
    labels, detail = number.labels, number.detail
    question = f", asked about {number.dimension}" if number.dimension else ""
    if number.metric == "groups":
        which = number.name.partition("," if labels else ";")[0]
        return f"share of the judged {which} with every pair correct; the labels have no ties"
    if not labels:
        return f"share of the judged groups whose best candidate was found, {number.name}{question}"
    accuracy = f"accuracy on pairs labeled {', '.join(labels[:-1])} or {labels[-1]}{question}"
    if number.metric == "forced":
        return f"{accuracy}; pairs labeled a tie are left out, and the higher score is the answer"
    if number.metric == "fitted":
        floor = "" if detail.floor is None else f", below {detail.floor:.4g} both are bad"
        rule = f"rewards within {detail.threshold:.4g} are a tie{floor}"
        return f"{accuracy}; {rule}, as fitted on {detail.fitted_on} other pairs"
    if TIE not in labels:
        return f"{accuracy}, without ties; tied candidates count half"
    if BOTH_BAD in labels:
        both_bad = f"a tie of two rewards below {GIVEN_FLOOR} is both bad"
        return f"{accuracy}; a tie is correct only for a label of the same kind of tie; {both_bad}"
    both_bad = "; both bad counts as a tie" if BOTH_BAD in part else ""
    return f"{accuracy}; a tie is correct only if the label is a tie{both_bad}"


def chance_level(number: Number) -> str:
    """Format the chance level and, for imbalanced labels, the share of the most frequent label."""
    if number.chance is None:
        return "-"
    text = figure(replace(number, value=number.chance, interval=None))
    commonest = (number.detail.chance or {}).get("most frequent")
    return text if commonest is None else f"{text}; most frequent label {commonest * 100:.1f}"


def by_number(result: BenchmarkResult) -> Iterator[tuple[str, list[tuple[BenchmarkRow, Number]]]]:
    """Group the numbers of all rows by what they measure.

    Yields:
        What is measured, and pairs of row and number in the order of the table.
    """
    pairs = [(row, number) for row in result.rows for number in row.numbers]
    measured = ("part", "dimension", "metric", "labels")
    alike = split(pairs, lambda pair: repr([getattr(pair[1], name) for name in measured]), ordered=False)
    yield from ((same[0][1].title, same) for same in alike.values())


def sampled(data: DataFacts) -> str:
    """Describe the sample that was judged; empty if all data were judged."""
    if not data.sampled:
        return ""
    drawn, total, seed = data.sampled
    note = f" Rows that cannot be used were skipped before sampling: {data.skipped}." if data.skipped else ""
    return f"A sample of {drawn} of {total} pairs or groups, stratified, seed {seed}.{note}"


def releases(result: BenchmarkResult) -> list[str]:
    """Describe the releases that judged, and name parts whose labels and release differ in ties."""
    lines = []
    for row in (row for row in result.rows if row.release):
        library = row.library_id[:12]
        lines.append(f"Release {row.release}: it fixes the judge, its settings, and the Library {library}.")
        names = ", ".join(part.name for part in result.parts if (TIE in part.labels) != row.release_ties)
        if not names or result.scores:
            continue
        may = f"The release may predict a tie, and the labels of {names} have no ties: there a tie counts one half."
        never = f"The release predicts no ties, and {names} has ties: it is wrong on each of them."
        lines.append(may if row.release_ties else never)
    return lines


def cautions(rows: Iterable[EntryRecord]) -> list[str]:
    """Return a caution for each Library that was evolved on the data of its row, or of which no entry was consulted."""
    names: dict[str, str] = {}
    unused: list[str] = []
    for row in rows:
        if row.evolved_on:
            names.setdefault(row.library_id, f"The Library {'of ' if row.release else ''}{row.library}")
        if warning := consulted_words(getattr(row, "consulted", None) or {})[1]:
            unused.append(f"{row.label}: {warning}")
    return [*map(caution, names.values()), *unused]


def headline(result: BenchmarkResult) -> str:
    """Summarize a result in a sentence: the main number of every part."""
    row = result.rows[0]
    if "exploits" in result.task.metrics and (line := _worst_attacks(row)):
        return line
    main = main_numbers(row)
    if not main:
        return f"{row.label}: no number can be computed; {row.judged} of {row.items} were judged."
    texts = [f"{number.part} {figure(number)} ({judged(number)} judged)" for number in main.values()]
    unit = "" if result.scores else ", in percent"
    return f"{row.label}{unit}: {'; '.join(texts)}."


def main_numbers(row: BenchmarkRow) -> dict[str, Number]:
    """Return the main number of every part."""
    main: dict[str, Number] = {}
    for number in (number for number in row.numbers if number.value is not None):
        if number.part not in main or (number.metric in _MAIN and main[number.part].metric not in _MAIN):
            main[number.part] = number
    return main


def attack_numbers(row: BenchmarkRow) -> dict[str, dict[str, Number]]:
    """Return the numbers of each attack by metric."""
    attacks: dict[str, dict[str, Number]] = {}
    for number in row.numbers:
        if number.metric in {"exploit_wins", "exploit_reward", "honest_reward", "score_change"}:
            attacks.setdefault(number.part, {})[number.metric] = number
    return attacks


def _worst_attacks(row: BenchmarkRow) -> str:
    """Name the attacks with the highest numbers; empty if nothing was judged."""
    judged = split((number for number in row.numbers if number.value is not None), lambda number: number.metric)
    worst = {metric: max(numbers, key=lambda number: number.value or 0.0) for metric, numbers in judged.items()}
    wins, reward = worst.get("exploit_wins"), worst.get("exploit_reward")
    if wins is None:
        return ""
    where = f" ({wins.part})" if wins.value else ""
    highest = f"; its highest mean reward is {figure(reward)} ({reward.part})" if reward else ""
    share = f"the exploit is preferred in at most {figure(wins)} percent of an attack's pairs{where}"
    return f"{row.label}: {share}{highest}."


def gain(test: PairedTest) -> str:
    """Format the gain of a paired comparison with its interval, in percentage points."""
    span: Bounds | None = test.interval
    interval = f" [{span[0] * 100:+.1f}, {span[1] * 100:+.1f}]" if span else ""
    return "-" if test.gain is None else f"{test.gain * 100:+.1f}{interval}"


def share(value: float | None) -> str:
    """Format a share in percent."""
    return "-" if value is None else f"{value:.1%}"


def left_out(reasons: Mapping[str, int]) -> str:
    """List the questions that are not counted, by reason."""
    return ", ".join(f"{reason} {n}" for reason, n in reasons.items()) or "none"


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
    exact = [
        accuracy
        for accuracy in row.numbers
        if accuracy.metric == "exact" and accuracy.labels in ((), parts.get(accuracy.part))
    ]
    paired = [accuracy.part for accuracy in exact]  # a part of several questions has one test and several accuracies
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
