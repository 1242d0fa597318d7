"""Comparison of two runs: the paired test of every part, and the examples on which they differ."""

from pathlib import Path

from rewardharness.benchmark.answers import QuestionAnswer
from rewardharness.benchmark.comparison import compare
from rewardharness.benchmark.numbers import AnswerSheet
from rewardharness.benchmark.result import label, make_sheet, paired_run
from rewardharness.benchmark.run import read_benchmark, read_entries, read_judgments
from rewardharness.errors import InputError, RunError
from rewardharness.schema import Json


def compare_runs(first: Path, second: Path, *, rows: tuple[str, str] = ("", "")) -> Json:
    """Compare the judges of two runs question by question, from their stored judgments.

    Args:
        first: The run to compare with.
        second: The run whose gain is measured; it may be the same run with another row.
        rows: Keys of the compared entries; empty for the main judge of the run.

    Returns:
        Names and Libraries of both, and per part the comparison with `flips`: instruction, truth, and both answers.

    Raises:
        RunError: If a folder holds no benchmark, or no entry has answered in it.
        InputError: If they differ in task, protocol or data, or have human scores instead of preferences.
    """
    (first_data, first_entry, before), (second_data, second_entry, after) = (
        _read(first, rows[0]),
        _read(second, rows[1]),
    )
    if first_data["scores"] or second_data["scores"]:
        raise InputError(
            "Correlations with human scores cannot be compared question by question.",
            next_step="Read both reports side by side.",
        )
    for name, old, new in (
        ("task", first_data["task"]["name"], second_data["task"]["name"]),
        ("protocol", first_data["protocol"], second_data["protocol"]),
        ("parts", ", ".join(before.parts), ", ".join(after.parts)),
    ):
        if old != new:
            raise InputError(f"The runs differ in the {name}: {old} and {new}.", next_step="Compare runs of one task.")
    parts = []
    for part in before.parts:
        comparison = compare(
            paired_run(f"{label(first_entry)} ({first.name})", first_data, before, part),
            paired_run(f"{label(second_entry)} ({second.name})", second_data, after, part),
        ).to_json()
        flips = [
            *((name, True) for name in comparison.pop("fixed")),
            *((name, False) for name in comparison.pop("broken")),
        ]
        sides = [_by_pair(sheet) for sheet in (before, after)]
        parts.append({"part": part, **comparison, "flips": [_flip(name, better, *sides) for name, better in flips]})
    return {
        "task": first_data["task"]["name"],
        "protocol": first_data["protocol"],
        "first": first_entry,
        "second": second_entry,
        "same_data": first_data["digest"] == second_data["digest"],
        "parts": parts,
    }


def _read(folder: Path, key: str) -> tuple[Json, Json, AnswerSheet]:
    data = read_benchmark(folder)
    entries = [entry for entry in read_entries(folder) if (entry["key"] == key if key else entry["role"] == "judge")]
    if not entries:
        raise RunError(f"No judge has answered in {folder}.", next_step="Run the benchmark first.")
    return data, entries[0], make_sheet(data, read_judgments(folder).get(entries[0]["key"], {}))


def _by_pair(sheet: AnswerSheet) -> dict[str, list[QuestionAnswer]]:
    """Return the answers about each pair, in one or both orders, by the id of the first."""
    pairs: dict[str, list[QuestionAnswer]] = {}
    for answer in sheet.replies:
        pairs.setdefault(answer.question.pair, []).append(answer)
    return {answers[0].question.id: answers for answers in pairs.values()}


def _flip(
    name: str, better: bool, before: dict[str, list[QuestionAnswer]], after: dict[str, list[QuestionAnswer]]
) -> Json:
    question = before[name][0].question
    return {
        "id": name,
        "instruction": question.instruction,
        "truth": question.truth,
        "first": _said(before[name]),
        "second": _said(after[name]),
        "better": better,
    }


def _said(answers: list[QuestionAnswer]) -> str:
    """Return the answer, or both if they differ with the presentation order."""
    return " and ".join(dict.fromkeys(str(answer.choice) for answer in answers))
