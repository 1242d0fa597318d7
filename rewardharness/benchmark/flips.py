"""Two runs side by side: the paired test of every part, and the examples on which they differ."""

from pathlib import Path

from rewardharness.benchmark.answers import QuestionAnswer
from rewardharness.benchmark.comparison import compare
from rewardharness.benchmark.numbers import AnswerSheet
from rewardharness.benchmark.result import label, make_sheet, paired_run
from rewardharness.benchmark.run import read_benchmark, read_entries, read_judgments
from rewardharness.errors import InputError, RunError
from rewardharness.schema import Json


def compare_runs(first: Path, second: Path, *, rows: tuple[str, str] = ("", "")) -> Json:
    """Compare the judges that two runs are about, question by question. Judges nothing.

    Args:
        first: The run to compare with.
        second: The run that is asked whether it is better; it may be the same one, with another row.
        rows: Keys of the contenders that are compared; empty: whom the run is about.

    Returns:
        Names and Libraries of both, and per part the comparison with `flips`: what was asked, the truth, both answers.

    Raises:
        RunError: If a folder holds no benchmark, or nobody has answered in it.
        InputError: If they differ in task, protocol or data, or have human scores instead of preferences.
    """
    (exam, one, before), (other_exam, two, after) = _read(first, rows[0]), _read(second, rows[1])
    if exam["scores"] or other_exam["scores"]:
        raise InputError(
            "Correlations with human scores cannot be compared question by question.",
            next_step="Read both reports side by side.",
        )
    for name, here, there in (
        ("task", exam["task"]["name"], other_exam["task"]["name"]),
        ("protocol", exam["protocol"], other_exam["protocol"]),
        ("parts", ", ".join(before.parts), ", ".join(after.parts)),
    ):
        if here != there:
            raise InputError(
                f"The runs differ in the {name}: {here} and {there}.", next_step="Compare runs of one task."
            )
    parts = []
    for part in before.parts:
        found = compare(
            paired_run(f"{label(one)} ({first.name})", exam, before, part),
            paired_run(f"{label(two)} ({second.name})", other_exam, after, part),
        ).to_json()
        flips = [*((name, True) for name in found.pop("fixed")), *((name, False) for name in found.pop("broken"))]
        sides = [_by_pair(sheet) for sheet in (before, after)]
        parts.append({"part": part, **found, "flips": [_flip(name, better, *sides) for name, better in flips]})
    return {
        "task": exam["task"]["name"],
        "protocol": exam["protocol"],
        "first": one,
        "second": two,
        "same_data": exam["digest"] == other_exam["digest"],
        "parts": parts,
    }


def _read(folder: Path, key: str) -> tuple[Json, Json, AnswerSheet]:
    exam = read_benchmark(folder)
    contenders = [each for each in read_entries(folder) if (each["key"] == key if key else each["role"] == "judge")]
    if not contenders:
        raise RunError(f"Nobody has answered in {folder}.", next_step="Run the benchmark first.")
    return exam, contenders[0], make_sheet(exam, read_judgments(folder).get(contenders[0]["key"], {}))


def _by_pair(sheet: AnswerSheet) -> dict[str, list[QuestionAnswer]]:
    """The replies about each pair, one or both orders, under the id of the first."""
    pairs: dict[str, list[QuestionAnswer]] = {}
    for each in sheet.replies:
        pairs.setdefault(each.question.pair, []).append(each)
    return {replies[0].question.id: replies for replies in pairs.values()}


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


def _said(replies: list[QuestionAnswer]) -> str:
    """The answer; both, where they differ with the order."""
    return " and ".join(dict.fromkeys(str(each.choice) for each in replies))
