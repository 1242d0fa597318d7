"""`rh benchmark list|show|report|compare|votes|ratings`: what costs nothing."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from rewardharness.cli import output
from rewardharness.cli.score import NOT_JUDGED

if TYPE_CHECKING:
    from rewardharness.benchmark.task import Task
    from rewardharness.benchmark.votes import VoteReport
    from rewardharness.schema import Json

MOST_PUBLISHED = 6
"""Published rows that are printed beside a number."""
NAMES, NUMBER = 30, 22
"""Characters of a table for who is in it, and for a number with its interval."""
MOST_FLIPS = 10
"""Examples on which two runs differ that are printed; the JSON has all."""


def list_tasks(*, json: bool = False) -> int:
    """List the tasks that come with the package.

    Args:
        json: Print one JSON object.
    """
    from rewardharness.benchmark.task import list_tasks

    tasks = list_tasks()
    if json:
        output.emit({"tasks": [_task_json(task) for task in tasks]})
        return 0
    rows = [(task.name, task.title, ", ".join(task.protocols), task.data.hub or "local copy") for task in tasks]
    output.table(("task", "title", "protocols", "data"), rows)
    output.say("Any labelled data do as well: a folder, a table, org/name on the Hub, or a task file (.yaml).")
    return 0


def show(task: str, /, *, json: bool = False) -> int:
    """Show a task: data, columns, labels, protocols, metrics and notes.

    Args:
        task: A task, a task file (.yaml) or data.
        json: Print one JSON object.
    """
    from rewardharness.benchmark.task import METRICS, PROTOCOLS, open_task

    opened = open_task(task)
    if json:
        output.emit(_task_json(opened))
        return 0
    output.say(f"{opened.name}: {opened.title}")
    for line in (opened.about, opened.paper, opened.license and f"Licence: {opened.license}"):
        if line:
            output.say(line)
    where = f"{opened.data.hub} on the Hub" if opened.data.hub else opened.data.examples or "a local copy (--source)"
    pinned = opened.data.revision or "none pinned"
    output.say(f"Data: {where}; revision: {pinned}. {opened.data.revision_note}".strip())
    if opened.access:
        output.say(f"Access: {opened.access}")
    if opened.columns is not None and opened.label is not None:
        columns = [*opened.columns.required(), *opened.label.required()]
        output.say(f"Columns: {', '.join(dict.fromkeys(columns))}. Truth: rule `{opened.label.rule}`.")
    if opened.parts:
        cells = [
            (part.name, f"{part.config} {part.split} {part.file}".strip(), ", ".join(part.labels))
            for part in opened.parts
        ]
        output.table(
            ("part", "config, split, file", "labels"),
            cells if not opened.scores else [(*c[:2], "human score") for c in cells],
        )
    output.table(("--task-protocol", "what one example is"), [(name, PROTOCOLS[name]) for name in opened.protocols])
    output.table(("metric", "what is counted"), [(name, METRICS[name]) for name in opened.metrics])
    for note in opened.notes:
        output.say(f"- {note}")
    return 0


def report(
    folder: Path,
    /,
    *,
    format_: Annotated[str, Parameter(name="--format")] = "html,json,md",
    for_library: Path | None = None,
    json: bool = False,
) -> int:
    """Write the report of a run again. Nothing is judged.

    Args:
        folder: A run folder.
        format_: Formats, separated by commas.
        for_library: Write the results into this Library folder.
        json: Print one JSON object.
    """
    from rewardharness.benchmark.report import FORMATS, read_result, write_for_library, write_report
    from rewardharness.errors import InputError

    formats = [name.strip() for name in format_.split(",") if name.strip()]
    unknown = [name for name in formats if name not in FORMATS]
    if unknown or not formats:
        raise InputError(f"There is no format {', '.join(unknown) or 'named'}.", next_step="Name html, json or md.")
    result = read_result(folder)
    written = write_report(folder, result, formats)
    if for_library is not None:
        written.append(write_for_library(for_library, result))
    if json:
        output.emit({**result, "folder": str(folder)})
    else:
        print_result(result)
        output.say("Reports: " + ", ".join(str(path) for path in written))
    return 0


def print_result(result: "Json") -> None:
    """Print what a run came to."""
    from rewardharness.benchmark.figures import (
        THRESHOLD_HEADINGS,
        by_number,
        cautions,
        headline,
        left_out,
        releases,
        sampled,
        share,
        thresholds,
    )
    from rewardharness.benchmark.result import label

    whole = list(by_number(result))
    beside = max(1, (output.width() - NAMES) // NUMBER)
    for begin in range(0, len(whole), beside):
        _print_numbers(result, whole[begin : begin + beside])
    for row in result["rows"]:
        failures = ", ".join(f"{code} {count}" for code, count in row["failures"].items())
        orders = row["both_orders"]["consistency"] if row["both_orders"] else row["position_consistency"]
        output.say(
            f"{label(row)}: {row['judged']} of {row['items']} judged; same answer in both orders: {share(orders)}"
            + (f"; not judged: {failures}" if failures else "")
        )
    for each in result["counted"]:
        if each["left_out"]:
            output.say(f"{each['part']}: {each['counted']} of {each['rows']} count; left out: {left_out(each)}")
    for line in (*cautions(result["rows"]), *releases(result), sampled(result), *result["fitted"]):
        if line:
            output.say(line)
    if fitted := thresholds(result):
        output.table(tuple(name.lower() for name in THRESHOLD_HEADINGS), fitted, title="Thresholds of ties")
    _print_published(result)
    output.say(headline(result))


def _print_numbers(result: "Json", numbers: "list[tuple[str, list[tuple[Json, Json]]]]") -> None:
    """One column per number, one row for everyone in the table, and one for guessing."""
    from rewardharness.benchmark.figures import chance_level, figure, judged
    from rewardharness.benchmark.result import label

    def cell(each: "Json | None") -> str:
        if each is None:
            return "-"
        return figure(each) + ("" if each["judged"] == each["n"] else f" ({judged(each)})")

    headings = [f"{name} (n {rows[0][1]['n']})" for name, rows in numbers]
    cells = []
    for row in result["rows"]:
        mine = [next((each for who, each in rows if who is row), None) for _, rows in numbers]
        cells.append([label(row), *(cell(each) for each in mine)])
    cells.append(["guessing", *(chance_level(rows[0][1]) for _, rows in numbers)])
    output.table(("", *headings), cells)


def _print_published(result: "Json") -> None:
    from rewardharness.benchmark.figures import figure, number_name

    for each in result["published"]:
        rows = each["rows"]
        cells = [("ours", figure(each), str(each["n"]), "")]
        cells += [(row["judge"], row["printed"], _n(row), row["mark"]) for row in rows[:MOST_PUBLISHED]]
        output.table(("judge", "as printed", "n", "what differs"), cells, title=f"Published beside {number_name(each)}")
        if len(rows) > MOST_PUBLISHED:
            output.say(f"{len(rows) - MOST_PUBLISHED} more in the report.")


def _n(row: "Json") -> str:
    return "-" if row["n"] is None else f"{row['n']}{' (worked out)' if row['n_inferred'] else ''}"


def compare(first: Path, second: Path, /, *, json: bool = False) -> int:
    """Compare two runs of one task: exact McNemar test, bootstrap interval of the gain, and changed answers.

    Args:
        first: Run folder of the reference.
        second: Run folder that is compared with it.
        json: Print one JSON object.
    """
    from rewardharness.benchmark.figures import cautions
    from rewardharness.benchmark.flips import compare_runs
    from rewardharness.benchmark.result import label

    found = compare_runs(first, second)
    if json:
        output.emit(found)
        return 0
    output.say(f"{found['task']}, protocol {found['protocol']}: {label(found['first'])} and {label(found['second'])}.")
    rows = [
        (
            each["part"],
            f"{each['judged_by_both']} of {each['n']}",
            output.share(each["first"]["accuracy"]),
            output.share(each["second"]["accuracy"]),
            _gain(each),
            str(sum(flip["better"] for flip in each["flips"])),
            str(sum(not flip["better"] for flip in each["flips"])),
            "-" if each["p"] is None else f"{each['p']:.3g}",
        )
        for each in found["parts"]
    ]
    headings = ("part", "judged by both", "first", "second", "gain [95 %]", "better", "worse", "exact p")
    output.table(headings, rows)
    for line in cautions((found["first"], found["second"])):
        output.say(line)
    for each in found["parts"]:
        for flip in each["flips"][:MOST_FLIPS]:
            sign = "+" if flip["better"] else "-"
            words = output.shorten(flip["instruction"], 60)
            output.say(f"{sign} {flip['id']}: {words} | label {flip['truth']}, {flip['first']} -> {flip['second']}")
        if len(each["flips"]) > MOST_FLIPS:
            output.say(f"{each['part']}: {len(each['flips']) - MOST_FLIPS} more; --json has all.")
    return 0


def _gain(each: "Json") -> str:
    if each["gain"] is None:
        return "-"
    span = each["interval"]
    return f"{each['gain']:+.3f}" + (f" [{span[0]:+.3f}, {span[1]:+.3f}]" if span else "")


def votes(*files: Path, json: bool = False) -> int:
    """Count raw replies of models on GenAI-Bench, read as for the published table and strictly.

    Args:
        files: Files with one JSON object per line, as published; a folder stands for its .jsonl files.
        json: Print one JSON object.
    """
    from rewardharness.benchmark.votes import score_votes

    empty: list[Path] = []
    found = score_votes(*files, on_empty=empty.append)
    status = NOT_JUDGED if empty else 0
    if json:
        output.emit({"files": [each.to_json() for each in found], "empty": [str(path) for path in empty]})
        return status
    for each in found:
        _print_votes(each)
    if empty:
        output.say(f"{len(found)} of {len(found) + len(empty)} files counted.")
    for path in empty:
        output.note(f"Warning: {path} holds no replies and is left out.")
    return status


def _print_votes(found: "VoteReport") -> None:
    rows = []
    for count in (found.published, found.strict):
        cells = [_of_all(score.to_json()) for score in (count.four_way, count.three_way, count.no_tie)]
        problems = ", ".join(f"{reason} {n}" for reason, n in count.problems.items() if n) or "none"
        rows.append((count.reading, *cells, problems))
    headings = ("reading", "4-way [95 %]", "3-way", "no tie", "no vote")
    output.table(headings, rows, title=f"{found.name}: {found.n} votes")


def _of_all(score: dict[str, Any]) -> str:
    """A share in per cent with two places, as the published table has it."""
    if score["of_all"] is None:
        return "-"
    low, high = score["of_all_interval"]
    return f"{100 * score['of_all']:.2f} [{100 * low:.1f}, {100 * high:.1f}] of {score['n']}"


def ratings(folder: Path, /, *, json: bool = False) -> int:
    """Read the tables of ImagenHub raters: means per editor, and agreement between raters.

    Args:
        folder: Folder with the files *_rater1.tsv and so on of one task.
        json: Print one JSON object.
    """
    from rewardharness.benchmark.ratings import read_ratings

    found = read_ratings(folder)
    said = found.to_json()
    if json:
        output.emit(said)
        return 0
    output.say(f"{said['task']}: {said['raters']} raters, {said['rated']} of {said['edits']} edits rated by all.")
    headings = ("editor", "n", "mean overall, sqrt(SC x PQ) [95 %]")
    output.table(headings, [_with_interval(*each) for each in said["mean_overall"].items()])
    headings = ("people among themselves", "n", "Spearman, Fisher's mean over editors [95 %]")
    output.table(headings, [_with_interval(*each) for each in said["between_humans"].items()])
    undefined = sorted({editor for each in said["between_humans"].values() for editor in each["undefined"]})
    if undefined:
        why = "one side gave nearly all of their edits the same score, or too few were rated (--json says which)"
        output.say(f"Not in every mean: {', '.join(undefined)}. There {why}.")
    for cell in said["broken"]:
        output.say(f"Not understood: {cell}")
    return 0


def _with_interval(name: str, each: "Json") -> tuple[str, str, str]:
    return name, str(each["n"]), output.share(each["mean"], each["interval"])


def _task_json(task: "Task") -> "Json":
    from dataclasses import asdict

    return asdict(task)
