"""Puts together what a run came to.

Everything here is a pure function of what a run folder holds, so a report needs neither the data nor a judge.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict
from statistics import fmean
from typing import Any

from rewardharness.benchmark.answers import QuestionAnswer, read_answer
from rewardharness.benchmark.calibration import GradedJudgment, calibration_json
from rewardharness.benchmark.cases import NOT_JUDGED
from rewardharness.benchmark.comparison import ComparedExample, ComparedRun, compare
from rewardharness.benchmark.conventions import BothOrderAnswers, both_orders
from rewardharness.benchmark.items import FORWARD, REVERSE, Question
from rewardharness.benchmark.metrics import TWO_WAY, UNDECIDED
from rewardharness.benchmark.numbers import AnswerSheet, credit, numbers
from rewardharness.benchmark.published import Setting, compare_published
from rewardharness.benchmark.task import Group, TaskPart
from rewardharness.benchmark.ties import TieRule
from rewardharness.judging.report import BAD_ROW
from rewardharness.schema import Json, Judgment, Usage

OF_NO_PART = "of no part"
"""What stands for the part of bad rows where there are several: what would say it is in the label."""


def read_parts(exam: Json) -> dict[str, TaskPart]:
    """Read the parts back from what a run folder says."""
    made = {}
    for value in exam["parts"]:
        group = Group(**value["group"]) if value["group"] else None
        made[value["name"]] = TaskPart(**{**value, "labels": tuple(value["labels"]), "group": group})
    return made


def make_sheet(exam: Json, judgments: Mapping[str, Judgment]) -> AnswerSheet:
    """Read what a contender replied off its judgments."""
    parts = read_parts(exam)
    questions = [Question.from_json(value) for value in exam["questions"]]
    replies = tuple(read_answer(each, judgments, parts[each.part].ties) for each in questions)
    return AnswerSheet(parts, exam["protocol"], tuple(exam["task"]["metrics"]), replies)


def summary(sheet: AnswerSheet, judgments: Mapping[str, Judgment], wanted: Iterable[str], skipped: int = 0) -> Json:
    """Say how judging itself went: coverage, failures by code, both orders, usage.

    Args:
        sheet: The replies.
        judgments: By item.
        wanted: The items.
        skipped: Rows that were left out by choice. Each counts as one item that was not judged, whatever the protocol.
    """
    items = set(wanted)
    total = len(items) + skipped
    known = [judgment for name, judgment in judgments.items() if name in items]
    failures = Counter(each.failure.code for each in known if each.failure is not None)
    failures += Counter({BAD_ROW: skipped})
    tried = [each.position_consistent for each in known if each.position_consistent is not None]
    usage = sum((each.usage for each in known), Usage())
    judged = sum(each.judged for each in known)
    return {
        "items": total,
        "judged": judged,
        "coverage": judged / total if total else None,
        "failures": dict(sorted(failures.items())),
        "missing": len(items) - len(known),
        "protocols": sorted({each.protocol for each in known}),
        "position_consistency": sum(tried) / len(tried) if tried else None,
        "both_orders": _both_orders(sheet),
        "usage": {**asdict(usage), "seconds": round(usage.seconds, 3)},
    }


def _both_orders(sheet: AnswerSheet) -> Json | None:
    """How often the answer is the same whichever candidate comes first, where both orders are asked."""
    pairs: dict[str, dict[str, QuestionAnswer]] = {}
    for each in sheet.counting:
        if each.question.order and each.question.truth in TWO_WAY:
            pairs.setdefault(each.question.id.rpartition("|")[0], {})[each.question.order] = each
    if not pairs:
        return None
    found = both_orders(
        BothOrderAnswers(name, str(two[FORWARD].question.truth), _two_way(two[FORWARD]), _two_way(two[REVERSE]))
        for name, two in pairs.items()
        if len(two) == 2
    )
    return {"same": found.same, "tried": found.tried, "consistency": found.position_consistency}


def _two_way(each: QuestionAnswer) -> str | None:
    return each.choice if each.choice in (*TWO_WAY, None) else UNDECIDED


def graded_judgments(sheet: AnswerSheet, judgments: Mapping[str, Judgment]) -> list[GradedJudgment]:
    """Confidence and agreement of every reply about a preference."""
    made = []
    for each in sheet.counting:
        if not isinstance(each.question.truth, str):
            continue
        names = {item for item, _ in each.question.asks}
        judgment = judgments.get(next(iter(names))) if len(names) == 1 else None
        sure = judgment.confidence if judgment is not None and each.choice is not None else None
        margin = abs(each.margin) if each.margin is not None and each.choice is not None else None
        made.append(
            GradedJudgment(
                each.question.id, credit(sheet.parts[each.question.part], each), sure, margin, each.question.category
            )
        )
    return made


def compared_examples(sheet: AnswerSheet, part: str) -> tuple[ComparedExample, ...]:
    """What every question of a part came to, for a paired comparison.

    Where both orders are asked they are one outcome, under the id of the first: the mean of the two, and none where one
    of them failed. Two answers about one pair are no more evidence than one.
    """
    pairs: dict[str, list[QuestionAnswer]] = {}
    for each in sheet.counting:
        if each.question.part == part and isinstance(each.question.truth, str):
            pairs.setdefault(each.question.pair, []).append(each)
    found = []
    for replies in pairs.values():
        question = replies[0].question
        credits = [value for each in replies if (value := credit(sheet.parts[part], each)) is not None]
        mean = fmean(credits) if len(credits) == len(replies) else None
        found.append(ComparedExample(question.id, str(question.truth), mean, question.cluster))
    return tuple(found)


def paired_run(name: str, exam: Json, sheet: AnswerSheet, part: str) -> ComparedRun:
    """Put a contender into the form that is compared, question by question."""
    labels = "/".join(sheet.parts[part].labels)
    return ComparedRun(
        name, f"{exam['task']['name']}, {part}", f"exact, {labels}", exam["protocol"], compared_examples(sheet, part)
    )


def make_result(
    exam: Json,
    contenders: Sequence[Json],
    judgments: Mapping[str, Mapping[str, Judgment]],
    rules: Mapping[str, Mapping[str, TieRule]] | None = None,
) -> Json:
    """Count everything that a run came to.

    Args:
        exam: What was asked, as `Exam.to_json` wrote it.
        contenders: Who answered, as `Contender.to_json` wrote them; the first is whom the run is about.
        judgments: By contender, then by item.
        rules: Thresholds of ties by contender and part, fitted on other data.
    """
    wanted = {item for question in exam["questions"] for item, _ in question["asks"]}
    sheets = {each["key"]: make_sheet(exam, judgments.get(each["key"], {})) for each in contenders}
    # A sample is drawn of what can be used, so bad rows are no part of it; they are said beside it.
    skipped = 0 if exam["sampled"] else exam.get("skipped_rows", {"n": 0})["n"]
    rows = []
    for each in contenders:
        key, sheet = each["key"], sheets[each["key"]]
        known = judgments.get(key, {})
        rows.append(
            {
                **each,
                **summary(sheet, known, wanted, skipped),
                "numbers": [one.to_json() for one in numbers(sheet, (rules or {}).get(key))],
                **(calibration_json(graded_judgments(sheet, known)) if not exam["scores"] else {}),
                "against": _against(exam, contenders[0], each, sheets) if each is not contenders[0] else [],
            }
        )
    about = {key: value for key, value in exam.items() if key != "questions"}
    return {**about, "counted": _counted(exam), "rows": rows, "published": _published(exam, rows[0]) if rows else []}


def _published(exam: Json, row: Json) -> list[Json]:
    """What others published, beside each number of the judge that the run is about."""
    pairwise = exam["protocol"] == "both-orders"
    orders = 2 if pairwise or row["position_consistency"] is not None else 1
    found = []
    for number in row["numbers"]:
        setting = Setting(
            exam["task"]["name"],
            number["part"],
            number["metric"],
            exam["protocol"],
            number["dimension"],
            tuple(number["labels"]),
            orders,
            number["n"] // 2 if pairwise else number["n"],
            exam["revision"],
        )
        others = [each.to_json() for each in compare_published(setting)]
        if others:
            named = {key: number[key] for key in ("part", "dimension", "metric", "name", "value", "interval", "n")}
            found.append({**named, "rows": others})
    return found


def _against(exam: Json, first: Json, other: Json, sheets: Mapping[str, AnswerSheet]) -> list[Json]:
    """The judge of the run against another contender, part by part, on the questions that both answered."""
    found = []
    for part in sheets[first["key"]].parts:
        mine = paired_run(label(first), exam, sheets[first["key"]], part)
        if mine.outcomes:
            compared = compare(paired_run(label(other), exam, sheets[other["key"]], part), mine).to_json()
            fixed, broken = len(compared.pop("fixed")), len(compared.pop("broken"))
            found.append({"part": part, **compared, "better": fixed, "worse": broken})
    return found


def label(contender: Mapping[str, Any]) -> str:
    """Name a contender for a table."""
    return contender["name"] if contender["role"] == "baseline" else f"{contender['name']}, {contender['library']}"


def _counted(exam: Json) -> list[Json]:
    """How many rows of each part count (two questions each in both orders), and why the others do not."""
    found: dict[str, Counter[str]] = {part["name"]: Counter() for part in exam["parts"]}
    for value in exam["questions"]:
        reason = value["excluded"] or ("no label" if value["truth"] is None else "")
        found[value["part"]][reason] += 1
    for problem in exam["problems"]:
        if problem["consequence"] == NOT_JUDGED:
            found.setdefault(problem["part"], Counter())[problem["code"]] += problem["n"]
    return [
        {
            "part": name or OF_NO_PART,
            "rows": sum(tally.values()),
            "counted": tally[""],
            "left_out": {reason: n for reason, n in sorted(tally.items()) if reason},
        }
        for name, tally in found.items()
    ]
